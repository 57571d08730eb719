# Times loading and saving a model of 200 MB with a warm page cache, and measures memory use. The same run also measures
# plain reads and writes of the same size (the floor, src/rust/core/examples/safetensors_floor.rs) and, if
# PJRT_BENCH_PYTHON names a Python that has them, safetensors and JAX (the rival, bench/jax_safetensors.py).
#
#   Rscript bench/safetensors.R [file for the table]
#
# `aligned` is a file written by this package. Data in `unaligned` are aligned to only 8 bytes, as in files written by
# Python.

library(pjrt)
source("bench/measure.R")

folder <- tempfile("safetensors")
dir.create(folder)
Sys.setenv(PJRT_BENCH_FOLDER = folder)
aligned <- file.path(folder, "aligned.safetensors")
unaligned <- file.path(folder, "unaligned.safetensors")

# twenty layers of 10 MB
layers <- lapply(1:20, function(i) list(pjrt_buffer(matrix(rnorm(2.49e6), 1000)), pjrt_buffer(rnorm(1000))))
tensors <- unlist(layers, recursive = FALSE)
names(tensors) <- sprintf("layer%02d.%s", rep(1:20, each = 2L), c("weight", "bias"))
pjrt_save_safetensors(tensors, aligned)
local({
  content <- readBin(aligned, "raw", file.size(aligned))
  start <- min(safetensors_info(aligned)$offset)
  length <- writeBin(as.integer(start), raw(), size = 4L)
  writeBin(c(length, raw(4L), content[9:start], charToRaw(strrep(" ", 8L)), utils::tail(content, -start)), unaligned)
})

saved <- file.path(folder, "saved.safetensors")
load_time <- function(path) median_time(1L, pjrt_load_safetensors(path), rounds = 9L)
ours <- c(
  load_aligned = load_time(aligned),
  load_unaligned_warm = {
    invisible(pjrt_load_safetensors(unaligned))
    load_time(unaligned)
  },
  load_unaligned_fresh = fresh_time(function() pjrt_load_safetensors(unaligned)),
  load_one_of_40 = median_time(20L, pjrt_load_safetensors(aligned, names = "layer07.weight")),
  info = median_time(20L, safetensors_info(unaligned)),
  # memory that was just freed is reused at once
  save_new = median_time(1L, {
    unlink(saved)
    pjrt_save_safetensors(tensors, saved)
  }, rounds = 9L),
  save_over = median_time(1L, pjrt_save_safetensors(tensors, saved), rounds = 9L)
)

resident <- "resident <- function(field) {
  line <- grep(field, readLines('/proc/self/status'), value = TRUE); as.numeric(gsub('[^0-9]', '', line)) / 1024
}; library(pjrt); await(pjrt_scalar(1)); invisible(gc()); path <- '%s'"
peak <- function(path) {
  fresh_session(paste(
    sprintf(resident, path), "writeLines('5', '/proc/self/clear_refs'); before <- resident('VmRSS')
    loaded <- pjrt_load_safetensors(path); cat(resident('VmHWM') - before)",
    sep = "; "
  ))
}
memory <- c(load_aligned_peak = peak(aligned), load_unaligned_peak = peak(unaligned))

reach <- c(load_aligned = 2000, load_unaligned_warm = 20000, load_unaligned_peak = file.size(unaligned) / 1024^2)
floor <- floor_of("safetensors_floor")
rival <- rival_of("bench/jax_safetensors.py")
reach[c("save_new", "save_over")] <- 1.3 * floor[c("save_new", "save_over")]
report(
  compare(ours, floor, rival, reach, "us"), "",
  "Resident memory", compare(memory, floor, rival, reach, "mb")
)
unlink(folder, recursive = TRUE)
