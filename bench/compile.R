# Times compilation in a separate process against compilation in R's process, in one run: the first program of a
# session, later ones, and programs that the cache has. Also measures the memory of the separate compiler while it
# waits.
#
#   Rscript bench/compile.R [file for the table]

# the plugin stays where it is
Sys.setenv(PJRT_PLUGIN_PATH_CPU = pjrt:::plugin_path("cpu"), R_USER_CACHE_DIR = tempfile("bench-cache"))
library(pjrt)
source("bench/measure.R")

read <- function(path) paste(readLines(path), collapse = "\n")
sources <- c(add = "inst/programs/add-2x2.mlir", step = "tests/testthat/fixtures/mlp-step.mlir")
places <- c("inside", "apart")

# The median times of `n` compiles of a program in each place, in milliseconds, and the median of what a compile takes
# more than the one beside it. The places take turns.
compile_times <- function(text, n) {
  times <- matrix(0, n, 2L, dimnames = list(NULL, places))
  kept <- list()
  for (i in seq_len(n + 1L)) {
    for (place in if (i %% 2L) places else rev(places)) {
      options(pjrt.compile = place)
      program <- pjrt_program(paste0(text, strrep(" ", i), strrep("\n", place == "apart")))
      start <- now()
      kept[[length(kept) + 1L]] <- pjrt_compile(program)
      if (i > 1L) times[i - 1L, place] <- (now() - start) / 1000
    }
  }
  c(apply(times, 2L, median), more = median(times[, "apart"] - times[, "inside"]))
}

# The first compile of a session that has a client, in milliseconds.
first_compile <- function(place) {
  fresh_session(sprintf(
    "library(pjrt); options(pjrt.cache = FALSE, pjrt.compile = \"%s\"); x <- pjrt_buffer(1); p <- pjrt_program(path = \"%s\"); t <- proc.time()[[3]]; f <- pjrt_compile(p); cat((proc.time()[[3]] - t) * 1000)",
    place, sources[["add"]]
  ), 11L)
}

# The memory in MB of the compiler that waits: in all, and that it shares with nobody.
helper_memory <- function() {
  Sys.sleep(1)
  pids <- suppressWarnings(system2("pgrep", c("-P", Sys.getpid(), "-x", "pjrt-compiler"), stdout = TRUE))
  lines <- readLines(sprintf("/proc/%s/smaps_rollup", pids[[1L]]))
  kilobytes <- function(pattern) sum(as.numeric(gsub("[^0-9]", "", grep(pattern, lines, value = TRUE))))
  c(all = kilobytes("^Rss:"), own = kilobytes("^Private_")) / 1000
}

compared <- function(times) c(times, more = times[["apart"]] - times[["inside"]])

options(pjrt.cache = FALSE)
rows <- rbind(
  "first program of a session" = compared(vapply(places, first_compile, 0)),
  "later `add`" = compile_times(read(sources[["add"]]), 100L),
  "training step" = compile_times(read(sources[["step"]]), 50L)
)
memory <- if (file.exists("/proc/self/smaps_rollup")) helper_memory()
options(pjrt.cache = TRUE)
hits <- vapply(places, function(place) {
  options(pjrt.compile = place)
  program <- pjrt_program(path = sources[["add"]])
  kept <- pjrt_compile(program)
  rm(kept)
  median(replicate(50L, {
    gc(FALSE)
    start <- now()
    pjrt_compile(program)
    (now() - start) / 1000
  }))
}, 0)
rows <- rbind(rows, "cached `add`" = compared(hits))
table <- data.frame(round(rows, 2L), ratio = round(1 + rows[, "more"] / rows[, "inside"], 3L))
names(table)[1:3] <- c(paste0(places, "_ms"), "more_ms")
report(
  utils::capture.output(print(table)),
  if (!is.null(memory)) c("", sprintf("waiting compiler: %.0f MB, %.0f MB of them its own", memory[["all"]],
    memory[["own"]]))
)
