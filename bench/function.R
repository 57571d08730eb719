# Times calls of functions of programs with many parameters, and steps of a convolutional network, against JAX's jitted
# call of the same function with the same arguments on the same plugin in the same run.
#
#   PJRT_BENCH_PYTHON=/path/to/python Rscript bench/function.R [file for the table]
#
# Each round is a new process of both, one after the other, so that other load and the luck of a process affect both
# equally. Times are medians over the rounds, and so is the ratio, of the pairs.

library(pjrt)
source("bench/measure.R")

python <- Sys.getenv("PJRT_BENCH_PYTHON")
if (!nzchar(python)) {
  stop("PJRT_BENCH_PYTHON must name a Python that has JAX.")
}
Sys.setenv(
  JAX_PLATFORMS = "pjrt_cpu",
  PJRT_NAMES_AND_LIBRARY_PATHS = paste0("pjrt_cpu:", pjrt:::plugin_path("cpu")),
  TF_CPP_MIN_LOG_LEVEL = "3"
)
measured_here <- Sys.getenv("PJRT_BENCH_FUNCTIONS")
folder <- if (nzchar(measured_here)) measured_here else tempfile("functions")
rounds <- as.integer(Sys.getenv("PJRT_BENCH_ROUNDS", "7"))

# The model and its inputs, which the rival has written.
model <- function(name) {
  exported <- pjrt_load_exported(file.path(folder, paste0(name, ".jaxexport")))
  buffers <- lapply(exported$inputs$shape, function(shape) pjrt_buffer(array(0.01, shape)))
  params <- map_tree(exported$input_tree$args[[1L]], function(row) buffers[[row]])
  others <- buffers[-unlist(exported$input_tree$args[[1L]])]
  list(f = pjrt_function(exported), params = params, x = others[[1L]], others = others, exported = exported)
}

ours <- function(names) {
  times <- numeric()
  for (name in names) {
    m <- model(name)
    if (startsWith(name, "cnn")) {
      step <- pjrt_step(m$f)
      state <- list(params = m$params)
      x <- m$others[[1L]]
      y <- m$others[[2L]]
      times[[name]] <- median_time(10L, {
        state <<- step(state, x, y)
        await(state$loss)
      }, 10L)
      next
    }
    if (startsWith(name, "step")) {
      step <- pjrt_step(m$f)
      state <- list(params = m$params)
      x <- m$x
      times[[name]] <- median_time(500L, state <<- step(state, x), 10L)
      next
    }
    f <- m$f
    params <- m$params
    x <- m$x
    times[[name]] <- median_time(500L, f(params, x), 10L)
    rebuilt <- function() lapply(params, function(p) p)
    times[[paste0(name, "_rebuilt")]] <- median_time(500L, f(rebuilt(), x), 10L) - median_time(500L, rebuilt(), 10L)
    executable <- pjrt_compile(m$exported)
    all <- list(params = params, x = x)
    times[[paste0(name, "_execute")]] <- median_time(500L, pjrt_execute(executable, inputs = all), 10L)
  }
  times
}

# The process of a round: prints its times as the rival does.
if (nzchar(measured_here)) {
  times <- ours(sub(".jaxexport", "", dir(folder), fixed = TRUE))
  cat(paste(names(times), times), sep = "\n")
  quit("no")
}

dir.create(folder)
script <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))
Sys.setenv(PJRT_BENCH_FUNCTIONS = folder)
rscript <- file.path(R.home("bin"), "Rscript")
both <- list(
  jax = function() others(python, c("bench/jax_function.py", folder)),
  ours = function() others(rscript, c("--vanilla", script))
)
programs <- both$jax() # writes them
measured <- lapply(seq_len(rounds), function(i) {
  turn <- if (i %% 2L == 0L) names(both) else rev(names(both))
  lapply(both[turn], function(times) times())
})
times_of <- function(who) do.call(rbind, lapply(measured, `[[`, who))
jax <- times_of("jax")
memory <- median(jax[, "memcpy_40mb"])
jax <- jax[, colnames(jax) != "memcpy_40mb"]
own <- times_of("ours")
middle <- apply(own, 2L, median)
table <- data.frame(
  function_us = middle[colnames(jax)],
  # with a new list of the same names at each call
  rebuilt_us = middle[paste0(colnames(jax), "_rebuilt")],
  # pjrt_execute() with the same lists
  execute_us = middle[paste0(colnames(jax), "_execute")],
  jax_us = apply(jax, 2L, median)
)
ratios <- own[, colnames(jax)] / jax
table$over_jax <- apply(ratios, 2L, median)
table$from <- apply(ratios, 2L, min)
table$to <- apply(ratios, 2L, max)
rownames(table) <- colnames(jax)
cell <- function(x) formatC(signif(x, 3), digits = 3, format = "fg")
busy <- strsplit(readLines("/proc/loadavg"), " ")[[1L]][[1L]]
report(
  utils::capture.output(print(as.data.frame(lapply(table, cell), row.names = rownames(table)))), "",
  sprintf("machine: load %s, a copy of 40 MB takes %s us", busy, cell(memory))
)
