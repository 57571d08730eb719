# Looks for leaks: repeats everything that the package does, each 100,000 times or as often as there is time for.
#
#   Rscript tools/leaks.R [iterations [seconds [pattern]]]
#
# prints a line for each use: iterations, microseconds each, and by how many bytes for each iteration memory grew of the C
# library, of R's objects and of the process. `seconds` bounds the time for one use, 60 unless given; `pattern` chooses
# uses by name. Fails if any grew. On Linux, from the package's sources, with the package installed.

given <- commandArgs(trailingOnly = TRUE)
iterations <- if (length(given) > 0L) as.numeric(given[[1L]]) else 1e5
seconds <- if (length(given) > 1L) as.numeric(given[[2L]]) else 60
pattern <- if (length(given) > 2L) given[[3L]] else ""
batches <- 20L

library(pjrt)
helpers <- c("fake-plugin", "programs", "plugins", "sharing", "routines", "leaks")
for (helper in helpers) source(sprintf("tests/testthat/helper-%s.R", helper))
real_plugin <- function() normalizePath(pjrt:::plugin_path("cpu"))
do.call(Sys.setenv, as.list(lone_session()))
heap <- load_heap(build_library("tests/testthat/fixtures/heap.c"))
uses <- repeated_uses()
uses <- uses[grepl(pattern, names(uses))]

cat(sprintf(
  "%s, R %s.%s, plugin API %s\nbytes by which memory grew for each iteration\n\n", Sys.Date(), R.version$major,
  R.version$minor, paste(unlist(pjrt_api_version("cpu")), collapse = ".")
))
cat(sprintf("%-28s %10s %9s %9s %9s %9s\n", "use", "iterations", "us each", "C library", "R objects", "process"))
report <- function(name, measured) {
  numbers <- sprintf("%9.1f", measured$growth)
  mark <- if (grows(measured)) " <-- grows" else ""
  left <- if (length(measured$left) > 0L) paste0("  left: ", toString(paste(measured$left, names(measured$left)))) else ""
  cat(sprintf("%-28s %10d %9.0f %s%s%s\n", name, measured$iterations, measured$microseconds, paste(numbers, collapse = " "), left, mark))
}
found <- find_leaks(heap, uses, iterations / batches, seconds / batches, batches, again = 1L, report)
for (name in names(unrepeatable)) cat(sprintf("%-28s not repeated: %s\n", name, unrepeatable[[name]]))
leaks <- leaking(found)
cat("\n", length(found), " uses, ", length(leaks), " of them grow\n", sep = "")
if (length(leaks) > 0L) quit(status = 1L)
