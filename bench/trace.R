# Times calls while no trace is recorded and while one is. With a library of another version of the package as second
# argument, it also times that version, in processes that alternate with its own.
#
#   Rscript bench/trace.R [file for the table] [another library]

arguments <- commandArgs(TRUE)
code <- quote({
  path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
  add <- pjrt_compile(pjrt_program(path = path))
  x <- pjrt_buffer(matrix(0, 2, 2), "f32")
  per_call <- function(n = 20000L) {
    times <- replicate(7L, system.time(for (i in seq_len(n)) pjrt_execute(add, x, x))[[3L]])
    1e6 * stats::median(times) / n
  }
  off <- per_call()
  on <- NA
  if (exists("pjrt_start_trace")) {
    pjrt_start_trace()
    on <- per_call(2000L)
    pjrt_stop_trace()
  }
  cat(off, on)
})
measure <- function(library) {
  lines <- c(sprintf("library(pjrt, lib.loc = %s)", deparse(library)), deparse(code))
  file <- tempfile(fileext = ".R")
  writeLines(lines, file)
  scan(text = system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", file), stdout = TRUE), quiet = TRUE)
}
here <- dirname(system.file(package = "pjrt"))
libraries <- c("this version" = here, if (length(arguments) > 1L) c("another version" = arguments[[2L]]))
rounds <- lapply(1:5, function(round) vapply(libraries, measure, c(off = 0, on = 0)))
all <- simplify2array(rounds)
row <- function(what, library) {
  times <- all[what, library, ]
  sprintf("%-16s trace %-3s  %6.2f us  (%.2f to %.2f)", library, what, stats::median(times), min(times), max(times))
}
table <- c(
  "pjrt_execute() of a 2x2 addition: median of 5 processes, and the range",
  row("off", "this version"), row("on", "this version"),
  if (length(libraries) > 1L) c(
    row("off", "another version"),
    sprintf("this / another, trace off: %.3f", stats::median(all["off", 1L, ]) / stats::median(all["off", 2L, ]))
  )
)
cat(table, sep = "\n")
if (length(arguments) > 0L) writeLines(table, arguments[[1L]])
