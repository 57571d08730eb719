# Looks for leaks: repeats everything that the package does, each 100,000 times or until the time is up.
#
#   Rscript tools/leaks.R [iterations [seconds [pattern]]]
#
# prints a line for each use: iterations, microseconds per iteration, and the growth per iteration, in bytes, of the C
# library's heap, R's objects and the process. `seconds` limits the time per use (60 by default), and `pattern` selects
# uses by name. Fails if any of them grows. Run it on Linux in the package's sources, with the package installed.

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
  "%s, R %s.%s, plugin API %s\ngrowth of memory per iteration, in bytes\n\n", Sys.Date(), R.version$major,
  R.version$minor, paste(unlist(plugin_info("cpu")$api_version), collapse = ".")
))
cat(sprintf("%-28s %10s %9s %9s %9s %9s\n", "use", "iterations", "us each", "C library", "R objects", "process"))
report <- function(name, measured) {
  numbers <- sprintf("%9.1f", measured$growth)
  mark <- if (grows(measured)) " <-- grows" else ""
  left <- if (length(measured$left) > 0L) paste0(
    "  left: ", toString(paste(measured$left, names(measured$left)))
  ) else ""
  cat(
    sprintf(
      "%-28s %10d %9.0f %s%s%s\n", name, measured$iterations, measured$microseconds, paste(numbers, collapse = " "),
      left, mark
    )
  )
}
found <- find_leaks(heap, uses, iterations / batches, seconds / batches, batches, again = 1L, report)
for (name in names(unrepeatable)) cat(sprintf("%-28s not repeated: %s\n", name, unrepeatable[[name]]))
leaks <- leaking(found)
cat("\n", length(found), " uses, ", length(leaks), " of them leak\n", sep = "")
if (length(leaks) > 0L) quit(status = 1L)
