#!/bin/bash
# One process for each of eight GPUs on two machines. The plugins find each other through a Redis server on the first machine.
#
#   sbatch gpus.sh
#
#SBATCH --job-name=gpus
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=00:10:00
set -eu
module load R pjrt redis
examples=$(Rscript -e 'cat(system.file("examples", package = "pjrt"))')

# The server is for this job only: its own password, nothing on disk, and it ends with the job. Its settings come from standard
# input, where other users of the machine cannot read them.
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
port=$((20000 + SLURM_JOB_ID % 10000))
printf 'port %s\nrequirepass %s\nbind * -::*\nsave ""\nappendonly no\n' "$port" "$password" | redis-server - >redis.log &
server=$!
trap 'kill "$server"' EXIT
export PJRT_STORE="redis://:$password@$(hostname):$port"

export PJRT_CPU_THREADS="${SLURM_CPUS_PER_TASK:-1}"
export PJRT_INSTALL=0
srun --kill-on-bad-exit Rscript "$examples/slurm/gpus.R"
