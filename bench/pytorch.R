# Loads an exported model of PyTorch with 200 MB of weights and reads all of them once, and compares this with reading
# the same bytes by `cat` in the same run: from the page cache, and from the disk after the cache has dropped the files.
# The folder is laid out as torch_xla 2.9 does.
#
#   Rscript bench/pytorch.R [file for the table]

library(pjrt)
source("bench/measure.R")
source("tests/testthat/helper-npy.R")

# on the disk of the package, because temporary folders can be in memory
folder <- tempfile("model", tmpdir = Sys.getenv("PJRT_BENCH_FOLDER", "bench"))
dir.create(file.path(folder, "functions"), recursive = TRUE)
dir.create(file.path(folder, "data"))
layers <- 20L
names <- sprintf("layers.%d.%s", rep(seq_len(layers) - 1L, each = 2L), c("weight", "bias"))
shapes <- rep(list(c(1600L, 1600L), 1600L), layers)
for (i in seq_along(names)) {
  write_npy(stats::rnorm(prod(shapes[[i]])), file.path(folder, "data", names[[i]]), shapes[[i]])
}
local({
  array <- function(shape) sprintf('{"shape": [%s], "dtype": "float32", "dynamic_dims": []}', toString(shape))
  list_of <- function(x) paste0("[", toString(x), "]")
  writeLines(sprintf(
    '{"name": "forward", "stablehlo_version": "0.0.0", "input_signature": %s, "output_signature": %s, "input_locations": %s}',
    list_of(c(vapply(shapes, array, ""), array(c(1L, 1600L)))), list_of(array(c(1L, 1600L))),
    list_of(c(
      sprintf('{"type_": "parameter", "position": -1, "name": "%s"}', names),
      '{"type_": "input_arg", "position": 0, "name": ""}'
    ))
  ), file.path(folder, "functions", "forward.meta"))
  type <- function(shape) sprintf("tensor<%sxf32>", paste(shape, collapse = "x"))
  arguments <- sprintf("%%w%d: %s", seq_along(names), vapply(shapes, type, ""))
  step <- function(i) {
    sprintf(
      "%%p%1$d = stablehlo.dot_general %%x%2$d, %%w%3$d, contracting_dims = [1] x [1]
         : (tensor<1x1600xf32>, tensor<1600x1600xf32>) -> tensor<1x1600xf32>
       %%b%1$d = stablehlo.broadcast_in_dim %%w%4$d, dims = [1] : (tensor<1600xf32>) -> tensor<1x1600xf32>
       %%s%1$d = stablehlo.add %%p%1$d, %%b%1$d : tensor<1x1600xf32>
       %%x%1$d = stablehlo.tanh %%s%1$d : tensor<1x1600xf32>",
      i, i - 1L, 2L * i - 1L, 2L * i
    )
  }
  writeLines(sprintf(
    "func.func @main(%s, %%x0: tensor<1x1600xf32>) -> tensor<1x1600xf32> {\n%s\nreturn %%x%d : tensor<1x1600xf32>\n}",
    toString(arguments), paste(vapply(seq_len(layers), step, ""), collapse = "\n"), layers
  ), file.path(folder, "functions", "forward.mlir"))
})

files <- list.files(folder, recursive = TRUE, full.names = TRUE)
megabytes <- sum(file.size(files)) / 1e6
drop_cache <- function() {
  for (file in files) {
    system2("dd", c(paste0("if=", file), "of=/dev/null", "iflag=nocache", "count=0"), stderr = FALSE)
  }
}

# The share of the files that is in the page cache.
cached <- function() {
  pages <- system2("fincore", c("--bytes", "--noheadings", "--output", "RES", files), stdout = TRUE)
  sum(as.numeric(pages)) / sum(file.size(files))
}

system("sync")
run <- pjrt_compile(pjrt_load_exported(folder))
x <- pjrt_buffer(matrix(0.1, 1, 1600), "f32")
load <- function() pjrt_load_exported(folder)
# a run reads every weight once
load_and_run <- function() await(pjrt_execute(run, pjrt_load_exported(folder)$weights, x))
cat_all <- function() system2("cat", files, stdout = "/dev/null")

cold <- function(call, rounds = 7L) {
  times <- replicate(rounds, {
    # the system keeps the pages of mapped files
    gc()
    drop_cache()
    stopifnot(cached() < 0.1)
    start <- now()
    call()
    now() - start
  })
  median(times)
}
ours <- c(
  load_warm = median_time(1L, load(), rounds = 9L),
  load_and_run_warm = median_time(1L, load_and_run(), rounds = 9L),
  load_and_run_cold = cold(load_and_run)
)
warm <- median_time(1L, cat_all(), rounds = 9L)
floor <- c(load_warm = warm, load_and_run_warm = warm, load_and_run_cold = cold(cat_all))
report(
  sprintf("%.0f MB in %d files; floor: `cat` of the same bytes in the same run", megabytes, length(files)), "",
  compare(ours, floor, numeric(), numeric(), "us")
)
unlink(folder, recursive = TRUE)
