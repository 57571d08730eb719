# Starts `n` processes of a script (in fixtures/ if it has no folder) with the launcher of an MPI, and waits for their end. Each
# gets `arguments`.
# Returns the launcher's status, 124 after `timeout` seconds, what all of them printed, and how many seconds
# it took.
run_mpi <- function(launcher, n, script, arguments = character(), env = character(), timeout = 60) {
  # jobs that were killed leave files in their launcher's folder, which the next job must not find
  folder <- withr::local_tempdir()
  script <- normalizePath(if (basename(script) == script) fixture(script) else script)
  words <- c(if (n > 0L) c(launcher, "-n", n), rscript(), "--vanilla", script, arguments)
  took <- system.time(ended <- processx::run(
    words[[1L]], words[-1L], error_on_status = FALSE, timeout = timeout, cleanup_tree = TRUE,
    env = c("current", mpi_env(), TMPDIR = folder, env)
  ))
  lines <- function(text) strsplit(text, "\n", fixed = TRUE)[[1L]]
  list(
    status = if (ended$timeout) 124L else ended$status, out = lines(ended$stdout), err = lines(ended$stderr),
    took = took[["elapsed"]]
  )
}

# As root, and with more processes than processors.
mpi_env <- function() {
  c(
    OMPI_ALLOW_RUN_AS_ROOT = "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = "1", OMPI_MCA_rmaps_base_oversubscribe = "1",
    OMPI_MCA_btl_vader_single_copy_mechanism = "none", PJRT_CPU_THREADS = "1", PJRT_DISCOVER = "0",
    PJRT_PLUGIN_PATH_CPU = real_plugin(), R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = ""
  )
}

mpi_launchers <- function() {
  found <- c("mpirun.openmpi", "mpirun.mpich")
  found <- found[nzchar(Sys.which(found))]
  if (length(found) == 0L) testthat::skip("no mpirun.openmpi or mpirun.mpich")
  found
}

# Evaluates `code` (quoted), with these variables, in `n` processes that have called pjrt_mpi_init(). Returns its value in each,
# by rank.
mpi_values <- function(launcher, n, code, with = list()) {
  folder <- withr::local_tempdir()
  saveRDS(list(code = code, with = with), file.path(folder, "given.rds"))
  ended <- run_mpi(launcher, n, "mpi-code.R", folder)
  expect_identical(ended[c("status", "err")], list(status = 0L, err = character()), info = launcher)
  lapply(seq_len(n) - 1L, function(rank) readRDS(file.path(folder, paste0(rank, ".rds"))))
}
