# Times how long arrays of 80 MB take to get from R to Python and back by DLPack, without a copy.
#
#   PJRT_BENCH_PYTHON=/path/to/python Rscript bench/dlpack.R [file for the table]
#
# The Python needs NumPy. Rows for JAX and PyTorch appear if it has them. "a call of Python" is what reticulate takes
# for a function that does nothing, "numpy <- numpy" what NumPy takes to use its own array by DLPack.

library(pjrt)
source("bench/measure.R")

python <- Sys.getenv("PJRT_BENCH_PYTHON", "python3")
of_python <- function(code) system2(python, c("-c", shQuote(code)), stdout = TRUE, stderr = FALSE)
Sys.setenv(
  RETICULATE_PYTHON = of_python("import sys; print(sys.executable)"),
  PYTHONPATH = of_python("import os; print(os.environ.get('PYTHONPATH', ''))"), JAX_PLATFORMS = "cpu"
)
library(reticulate)
modules <- Filter(py_module_available, c(numpy = "numpy", jax = "jax.numpy", torch = "torch"))
libraries <- lapply(modules, import, convert = FALSE)

seconds <- py_run_string("
import timeit
def microseconds(take, array, n=300):
    times = []
    for i in range(n):
        start = timeit.default_timer()
        take(array)
        times.append(timeit.default_timer() - start)
    return 1e6 * sorted(times)[n // 2]
def nothing(array):
    pass
", convert = TRUE)
n <- 300L
x <- pjrt_buffer(rep(1, 2e7), "f32")
await(x)
lent <- r_to_py(x)

rows <- c(
  "as_dlpack(x)" = median_time(n, as_dlpack(x)),
  "pjrt_from_dlpack(as_dlpack(x))" = median_time(n, pjrt_from_dlpack(as_dlpack(x))),
  "a call of Python" = median_time(n, seconds$nothing(1L)),
  "r_to_py(x)" = median_time(n, r_to_py(x))
)
for (name in names(libraries)) {
  library <- libraries[[name]]
  array <- library$from_dlpack(lent)
  own <- library$from_dlpack(library$ones(20000000L, dtype = library$float32))
  rows[[paste(name, "<- pjrt, in Python")]] <- seconds$microseconds(library$from_dlpack, lent)
  rows[[paste("pjrt <-", name)]] <- median_time(n, pjrt_from_dlpack(array, copy = FALSE))
  rows[[paste(name, "<-", name)]] <- seconds$microseconds(library$from_dlpack, own)
  if (name == "jax") {
    rows[["numpy <- jax"]] <- seconds$microseconds(libraries$numpy$from_dlpack, own)
  }
}
rows[["as_array(x), with copies"]] <- median_time(2L, as_array(x))

table <- data.frame(
  us = round(rows, 1L), reach = ifelse(grepl("dlpack|pjrt", names(rows)), 50, NA), row.names = names(rows)
)
table$over_reach <- round(table$us / table$reach, 2L)
lines <- utils::capture.output(print(table))
writeLines(lines)
file <- commandArgs(trailingOnly = TRUE)
if (length(file) > 0L) writeLines(lines, file[[1L]])
