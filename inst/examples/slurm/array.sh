#!/bin/bash
# Ten independent tasks. Each is a process of its own, and writes a file of its own. Slurm repeats none: submit again what failed,
# with sbatch --array=3,7 array.sh
#
#   sbatch array.sh
#
#SBATCH --job-name=bootstrap
#SBATCH --array=1-10
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=00:10:00
#SBATCH --output=bootstrap-%a.log
set -eu
module load R pjrt
examples=$(Rscript -e 'cat(system.file("examples", package = "pjrt"))')

export PJRT_CPU_THREADS="${SLURM_CPUS_PER_TASK:-1}"
export PJRT_INSTALL=0
Rscript "$examples/slurm/bootstrap.R" "${RESULTS:-results}"
