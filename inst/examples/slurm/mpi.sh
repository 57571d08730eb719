#!/bin/bash
# Eight processes on two machines share one computation: each has a part of the data, and MPI adds up what they computed.
#
#   sbatch mpi.sh
#
#SBATCH --job-name=logistic
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=00:10:00
set -eu
module load R pjrt openmpi
examples=$(Rscript -e 'cat(system.file("examples", package = "pjrt"))')

export PJRT_CPU_THREADS="${SLURM_CPUS_PER_TASK:-1}"
export PJRT_INSTALL=0
# Open MPI starts with pmix, MPICH with pmi2. Without --kill-on-bad-exit, the other processes wait for one that failed.
srun --mpi="${MPI_START:-pmix}" --kill-on-bad-exit Rscript "$examples/mpi/logistic.R"
