# Shared by the benchmarks: timing, comparisons and tables. Run the benchmarks from the package's root.

now <- function() as.numeric(Sys.time()) * 1e6

# Median time of a call in microseconds, over `rounds` rounds of `n` calls after one warm-up round. The call is inlined
# in the loop, so that nothing else is timed.
median_time <- function(n, call, rounds = 5L) {
  loop <- eval(bquote(function(n) for (i in seq_len(n)) .(substitute(call))), parent.frame())
  loop <- compiler::cmpfun(loop)
  times <- replicate(rounds + 1L, {
    start <- now()
    loop(n)
    (now() - start) / n
  })
  median(times[-1L])
}

# The same, but all results stay alive, so that each uses new memory.
fresh_time <- function(call, rounds = 5L) {
  kept <- vector("list", rounds)
  times <- numeric(rounds)
  gc()
  for (i in seq_len(rounds)) {
    start <- now()
    kept[[i]] <- call()
    times[[i]] <- now() - start
  }
  median(times)
}

# Runs a command that prints lines `name value` and returns a named vector, empty if the command is missing.
others <- function(command, args) {
  if (!nzchar(Sys.which(command))) {
    return(numeric())
  }
  lines <- strsplit(system2(command, args, stdout = TRUE, stderr = FALSE), " ")
  stats::setNames(as.numeric(vapply(lines, `[`, "", 2L)), vapply(lines, `[`, "", 1L))
}

# Runs the plugin from Rust, with an example of src/rust/core.
floor_of <- function(example) {
  Sys.setenv(PJRT_PLUGIN_PATH_CPU = pjrt:::plugin_path("cpu"))
  others("cargo", c("run --quiet --release --manifest-path src/rust/Cargo.toml -p pjrt-core --example", example))
}

rival_of <- function(script) {
  others(Sys.getenv("PJRT_BENCH_PYTHON"), script)
}

# Times a script of ours and one of JAX on the same plugin. Each round is a new process of both, in turns, so that other
# load and the luck of a process affect both equally. `rival`, in Python, writes its programs to a folder and prints its
# times; `ours` takes the folder and returns named times, which a process of a round only prints. Returns a matrix for
# each, with a row for each round.
in_pairs <- function(ours, rival, rounds = as.integer(Sys.getenv("PJRT_BENCH_ROUNDS", "7"))) {
  folder <- Sys.getenv("PJRT_BENCH_FOLDER")
  if (nzchar(folder)) {
    times <- ours(folder)
    cat(paste(names(times), times), sep = "\n")
    quit("no")
  }
  python <- Sys.getenv("PJRT_BENCH_PYTHON")
  if (!nzchar(python)) {
    stop("PJRT_BENCH_PYTHON must name a Python that has JAX.")
  }
  folder <- tempfile("programs")
  dir.create(folder)
  Sys.setenv(
    JAX_PLATFORMS = "pjrt_cpu", PJRT_NAMES_AND_LIBRARY_PATHS = paste0("pjrt_cpu:", pjrt:::plugin_path("cpu")),
    TF_CPP_MIN_LOG_LEVEL = "3", PJRT_BENCH_FOLDER = folder
  )
  script <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))
  both <- list(
    jax = function() others(python, c(rival, folder)),
    ours = function() others(file.path(R.home("bin"), "Rscript"), c("--vanilla", script))
  )
  both$jax() # writes the programs
  measured <- lapply(seq_len(rounds), function(i) {
    turn <- if (i %% 2L == 0L) names(both) else rev(names(both))
    lapply(both[turn], function(times) times())
  })
  lapply(stats::setNames(nm = names(both)), function(who) do.call(rbind, lapply(measured, `[[`, who)))
}

# The columns of a table with the ratios of such pairs: the median, the least and the greatest.
ratios_of <- function(ours, jax) {
  ratios <- ours[, colnames(jax)] / jax
  data.frame(over_jax = apply(ratios, 2L, median), from = apply(ratios, 2L, min), to = apply(ratios, 2L, max))
}

machine_load <- function() {
  if (file.exists("/proc/loadavg")) strsplit(readLines("/proc/loadavg"), " ")[[1L]][[1L]] else "?"
}

# Runs code in several new sessions and returns the medians of the numbers that it prints.
fresh_session <- function(code, sessions = 5L) {
  rscript <- file.path(R.home("bin"), "Rscript")
  run <- function(i) scan(text = system2(rscript, c("-e", shQuote(code)), stdout = TRUE), quiet = TRUE)
  apply(do.call(rbind, lapply(seq_len(sessions), run)), 2L, median)
}

# The lines of a table that compares the times of pjrt, the floor and the rival.
compare <- function(ours, floor, rival, reach, unit) {
  rows <- names(ours)
  table <- data.frame(ours, floor[rows], rival[rows], reach[rows], row.names = rows)
  names(table) <- paste0(c("pjrt", "floor", "jax", "reach"), "_", unit)
  table$over_floor <- ours / floor[rows]
  table$over_jax <- ours / rival[rows]
  table$over_reach <- ours / reach[rows]
  cell <- function(x) ifelse(is.na(x), "", formatC(signif(x, 3), digits = 3, format = "fg", big.mark = ","))
  width <- options(width = 120L)
  on.exit(options(width))
  utils::capture.output(print(as.data.frame(lapply(table, cell), row.names = rows)))
}

# Prints a header with date and machine, then the lines, and writes both to the file that the command line names.
report <- function(...) {
  lines <- c(
    sprintf(
      "%s, R %s, plugin API %s", Sys.Date(), getRversion(), paste(pjrt:::pjrt_api_version("cpu"), collapse = ".")
    ),
    sprintf("%d CPU cores; medians", parallel::detectCores()),
    "",
    ...
  )
  writeLines(lines)
  output <- commandArgs(trailingOnly = TRUE)
  if (length(output) > 0L) {
    writeLines(lines, output[[1L]])
  }
}
