# Times arrays that processes exchange over MPI, against plain MPI_Allreduce() in the same processes and against JAX
# with gloo, and steps of training on 1, 2 and 4 processes. It starts the processes itself. Needs openmpi-bin,
# libopenmpi-dev (for mpicc), and for JAX the Python of tools/setup.sh in PJRT_TEST_PYTHON.
#
#   Rscript bench/mpi.R [file for the table [number of starts [number of rounds]]]

library(pjrt)
arguments <- commandArgs(TRUE)
sizes <- c("1 MB" = 2^18, "64 MB" = 2^24)
rows <- 2^16

# system.time() counts milliseconds only.
seconds <- function(code) {
  start <- Sys.time()
  force(code)
  as.numeric(Sys.time()) - as.numeric(start)
}

# What one process measures: medians of alternating rounds.
measure <- function(folder) {
  dyn.load(file.path(folder, "plain.so"))
  world <- mpi_init()
  found <- list()
  for (size in names(sizes)) {
    length <- sizes[[size]]
    times <- if (length < 1e6) 20L else 2L
    # one after the other in one program
    type <- sprintf("tensor<%dxf32>", as.integer(length))
    compile <- function(attributes) {
      calls <- sprintf(
        '%%r%d = stablehlo.custom_call @pjrt_mpi_all_reduce(%%r%d) {api_version = 4 : i32, backend_config = {op = "sum"}%s} : (%s) -> %s',
        seq_len(times), seq_len(times) - 1L, attributes, type, type
      )
      pjrt_compile(pjrt_program(sprintf(
        "func.func @main(%%r0: %s) -> %s {\n%s\nreturn %%r%d : %s\n}", type, type, paste(calls, collapse = "\n"),
        times, type
      )))
    }
    program <- compile("")
    in_place <- compile(
      ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]"
    )
    x <- pjrt_buffer(rep(1e-20, length), "f32")
    ways <- list(
      plain = function() .C("plain_all_reduce", as.integer(length), times, 0L, 0)[[4L]],
      new = function() .C("plain_all_reduce", as.integer(length), times, 1L, 0)[[4L]],
      program = function() seconds(await(pjrt_execute(program, x))) / times,
      place = function() seconds(await(pjrt_execute(in_place, x))) / times,
      buffers = function() seconds(for (i in seq_len(times)) await(mpi_all_reduce(x))) / times
    )
    rounds <- vapply(seq_len(1L + round_count), function(i) {
      vapply(ways, function(way) {
        mpi_barrier()
        way()
      }, 0)
    }, c(plain = 0, new = 0, program = 0, place = 0, buffers = 0))
    found[[size]] <- apply(rounds[, -1L], 1L, stats::median)
  }
  steps <- list(logistic = logistic_step, mlp = mlp_step)
  for (name in names(steps)) {
    for (scaling in c("strong", "weak")) {
      step <- steps[[name]](if (scaling == "strong") 2 * rows / world$size else rows)
      times <- vapply(seq_len(1L + 2L * round_count), function(i) seconds(step()), 0)
      found[[paste(name, scaling)]] <- stats::median(times[-1L])
    }
  }
  if (world$rank == 0L) saveRDS(found, file.path(folder, "found.rds"))
}

logistic_step <- function(rows) {
  x <- pjrt_buffer(matrix(stats::rnorm(rows * 32), rows), "f32")
  y <- pjrt_buffer(matrix(1, rows, 1), "f32")
  w <- pjrt_buffer(matrix(0, 32, 1), "f32")
  function() {
    p <- 1 / (1 + exp(-(x %*% w)))
    w <<- await(w - mpi_all_reduce(crossprod(x, p - y)) * 1e-6)
  }
}

mlp_step <- function(rows) {
  x <- pjrt_buffer(matrix(stats::rnorm(rows * 32), rows), "f32")
  y <- pjrt_buffer(matrix(1 / 8, rows, 8), "f32")
  w1 <- pjrt_buffer(matrix(stats::rnorm(32 * 64) / 8, 32), "f32")
  w2 <- pjrt_buffer(matrix(stats::rnorm(64 * 8) / 8, 64), "f32")
  ones <- pjrt_buffer(matrix(1, 8, 8), "f32")
  function() {
    h <- tanh(x %*% w1)
    e <- exp(h %*% w2)
    d <- e / (e %*% ones) - y
    sums <- mpi_all_reduce(list(w1 = crossprod(x, (d %*% t(w2)) * (1 - h * h)), w2 = crossprod(h, d)))
    w1 <<- w1 - sums$w1 * 1e-6
    w2 <<- await(w2 - sums$w2 * 1e-6)
  }
}

if (length(arguments) == 3L && arguments[[1L]] == "child") {
  round_count <- as.integer(arguments[[3L]])
  measure(arguments[[2L]])
  quit("no")
}

start_count <- if (length(arguments) > 1L) as.integer(arguments[[2L]]) else 3L
round_count <- if (length(arguments) > 2L) as.integer(arguments[[3L]]) else 15L
this <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
folder <- tempfile("bench-mpi-")
dir.create(folder)
if (
  system2(
    "mpicc.openmpi",
    c("-O2", "-shared", "-fPIC", file.path(dirname(this), "mpi.c"), "-o", file.path(folder, "plain.so"))
  )
) {
  stop("mpicc.openmpi failed: install libopenmpi-dev")
}
Sys.setenv(
  PJRT_CPU_THREADS = "1", OMPI_ALLOW_RUN_AS_ROOT = "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = "1",
  OMPI_MCA_rmaps_base_oversubscribe = "1", OMPI_MCA_btl_vader_single_copy_mechanism = "none",
  # as where processes share processors: one that waits leaves its own to others
  OMPI_MCA_mpi_yield_when_idle = "1",
  R_LIBS = paste(.libPaths(), collapse = ":")
)
in_r <- function(n) {
  words <- c("-n", n, file.path(R.home("bin"), "Rscript"), "--vanilla", this, "child", folder, round_count)
  if (system2("mpirun.openmpi", words)) stop("the processes failed")
  readRDS(file.path(folder, "found.rds"))
}
in_jax <- function(python) {
  Sys.setenv(XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false", OMP_NUM_THREADS = "1")
  on.exit(Sys.unsetenv(c("XLA_FLAGS", "OMP_NUM_THREADS")))
  words <- function(rank) c(file.path(dirname(this), "jax_mpi.py"), rank, 2, port, rows)
  port <- 20000L + sample.int(20000L, 1L)
  system2(python, words(1), wait = FALSE, stdout = FALSE, stderr = FALSE)
  # gloo may wait for ever
  said <- utils::tail(suppressWarnings(system2(python, words(0), stdout = TRUE, stderr = FALSE, timeout = 300)), 1L)
  found <- if (length(said) == 1L) scan(text = said, quiet = TRUE) else rep(NA, 3L)
  stats::setNames(found, c("1 MB", "64 MB", "step"))
}
load <- function() if (file.exists("/proc/loadavg")) strsplit(readLines("/proc/loadavg"), " ")[[1L]][[1L]] else "?"
loads <- load()
python <- Sys.getenv("PJRT_TEST_PYTHON")
counts <- c(1L, 2L, 4L)
all <- list()
jax <- NULL
for (start in seq_len(start_count)) {
  for (n in counts) {
    all[[as.character(n)]][[start]] <- in_r(n)
    loads <- c(loads, load())
  }
  if (nzchar(python)) jax <- cbind(jax, in_jax(python))
}
median_of <- function(n, what) {
  apply(do.call(cbind, lapply(all[[as.character(n)]], function(one) as.matrix(one[[what]]))), 1L, stats::median)
}
table <- c(
  sprintf(
    "%d cores. Medians of %d start(s), each with medians of %d alternating rounds (steps: %d).",
    parallel::detectCores(),
    start_count, round_count, 2L * round_count
  ),
  # a process that waits for another keeps a core busy, so 4 processes alone have a load of about 4
  paste("Load before, and after each group of processes:", paste(loads, collapse = " ")), "",
  "All-reduce (f32, sum), ms per call; in brackets relative to plain MPI_Allreduce() into memory that is used again",
  sprintf(
    "%-10s %-6s %10s %18s %18s %18s %20s", "processes", "size", "plain", "plain, new memory", "in a program",
    "the same, in place", "mpi_all_reduce()"
  )
)
for (n in counts) {
  for (size in names(sizes)) {
    t <- 1000 * median_of(n, size)
    ratio <- t / t[["plain"]]
    table <- c(table, sprintf(
      "%-10d %-6s %10.3f %10.3f (%5.2f) %10.3f (%5.2f) %10.3f (%5.2f) %12.3f (%5.2f)", n, size, t[["plain"]],
      t[["new"]], ratio[["new"]], t[["program"]], ratio[["program"]], t[["place"]], ratio[["place"]],
      t[["buffers"]], ratio[["buffers"]]
    ))
  }
}
table <- c(table, "", "A step of training, ms", sprintf("%-28s %8s %8s %8s   (processes)", "", 1, 2, 4))
for (name in c("logistic strong", "logistic weak", "mlp strong", "mlp weak")) {
  t <- vapply(counts, function(n) 1000 * median_of(n, name), 0)
  table <- c(table, sprintf("%-28s %8.2f %8.2f %8.2f", name, t[[1L]], t[[2L]], t[[3L]]))
}
table <- c(
  table,
  sprintf("strong: %d rows divided among all; weak: %d rows each; 32 columns", as.integer(2 * rows), as.integer(rows))
)
if (!is.null(jax)) {
  t <- 1000 * apply(jax, 1L, stats::median, na.rm = TRUE)
  own <- 1000 * c(
    median_of(2L, "1 MB")[["program"]], median_of(2L, "64 MB")[["program"]], median_of(2L, "logistic weak")
  )
  table <- c(
    table, "", "2 processes, ms: this package, JAX with gloo, their ratio",
    sprintf(
      "%-28s %8.3f %8.3f %8.2f", c("all-reduce of 1 MB", "all-reduce of 64 MB", "a logistic step (weak)"), own, t,
      own / t
    )
  )
}
cat(table, sep = "\n")
if (length(arguments) > 0L) writeLines(table, arguments[[1L]])
