# One process for each GPU: the processes meet, each knows the GPUs of all, and each computes on its own one.
#
#   srun Rscript gpus.R
#
# As a single process, it runs on any platform: PJRT_PLATFORM=cpu Rscript gpus.R

library(pjrt)
size <- as.integer(Sys.getenv("SLURM_NTASKS", "1"))
rank <- as.integer(Sys.getenv("SLURM_PROCID", "0"))
platform <- Sys.getenv("PJRT_PLATFORM", "cuda")
# the rank, the size, the GPU of this process and the job come from Slurm, and the store from PJRT_STORE
client <- if (size > 1L) pjrt_client(platform, distributed = pjrt_distributed()) else pjrt_client(platform)
own <- devices(client)[[1L]]
all <- devices(client, addressable = FALSE)

set.seed(rank)
x <- pjrt_buffer(matrix(rnorm(1e6), 1000), "f32", device = own)
norm <- as_array(sum(x %*% x))
cat(sprintf("process %d of %d has one device of %d; the sum is finite: %s\n", rank, size, length(all), is.finite(norm)))
