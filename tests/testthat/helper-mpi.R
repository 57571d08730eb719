# Starts `n` processes of a script (in fixtures/ if it has no folder) with the launcher of an MPI, and waits for their
# end. Each gets `arguments`. Returns the launcher's status, 124 after `timeout` seconds, and what all of them printed.
run_mpi <- function(launcher, n, script, arguments = character(), env = character(), timeout = 300) {
  # jobs that were killed leave files in their launcher's folder, which the next job must not find
  folder <- withr::local_tempdir()
  script <- normalizePath(if (basename(script) == script) fixture(script) else script)
  words <- c(if (n > 0L) c(launcher, "-n", n), rscript(), "--vanilla", script, arguments)
  ended <- processx::run(
    words[[1L]], words[-1L], error_on_status = FALSE, timeout = timeout, cleanup_tree = TRUE,
    env = c("current", mpi_env(several_hosts = length(launcher) > 1L), TMPDIR = folder, env)
  )
  lines <- function(text) strsplit(text, "\n", fixed = TRUE)[[1L]]
  # Open MPI says this when a command that starts processes on another host is quicker than itself
  err <- grep("plm:rsh: Warning: setpgid", lines(ended$stderr), value = TRUE, invert = TRUE)
  list(status = if (ended$timeout) 124L else ended$status, out = lines(ended$stdout), err = err)
}

# As root, and with more processes than processors.
mpi_env <- function(several_hosts = FALSE) {
  c(
    OMPI_ALLOW_RUN_AS_ROOT = "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = "1", OMPI_MCA_rmaps_base_oversubscribe = "1",
    # of Open MPI 5 and 6; the latter warns of the first
    if (open_mpi_version() == 5L) c(PRTE_MCA_rmaps_default_mapping_policy = ":oversubscribe"),
    if (open_mpi_version() >= 6L) c(PRTE_MCA_mapby = ":oversubscribe"),
    # from version 5 on, it warns of networks that lead nowhere
    if (open_mpi_version() >= 5L && !several_hosts) c(OMPI_MCA_btl_tcp_if_include = "lo"),
    OMPI_MCA_btl_vader_single_copy_mechanism = "none", PJRT_CPU_THREADS = "1", PJRT_DISCOVER = "0",
    PJRT_PLUGIN_PATH_CPU = real_plugin(), R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "",
    compiled_once()
  )
}

# The major version of the installed Open MPI; 0 without it.
open_mpi_version <- function() {
  if (is.null(found_mpi$version)) {
    said <- if (nzchar(Sys.which("mpirun.openmpi"))) system2("mpirun.openmpi", "--version", stdout = TRUE) else "0"
    found_mpi$version <- as.integer(sub("^[^0-9]*([0-9]+).*", "\\1", said[[1L]]))
  }
  found_mpi$version
}

found_mpi <- new.env()

mpi_launchers <- function() {
  found <- c("mpirun.openmpi", "mpirun.mpich")
  found <- found[nzchar(Sys.which(found))]
  if (length(found) == 0L) testthat::skip("no mpirun.openmpi or mpirun.mpich")
  found
}

# Evaluates `code` (quoted), with these variables, in `n` processes that have called mpi_init(). Returns its value in
# each, by rank.
mpi_values <- function(launcher, n, code, with = list(), env = character()) {
  folder <- withr::local_tempdir()
  saveRDS(list(code = code, with = with), file.path(folder, "given.rds"))
  ended <- run_mpi(launcher, n, "mpi-code.R", folder, env)
  expect_identical(ended[c("status", "err")], list(status = 0L, err = character()), info = launcher)
  lapply(seq_len(n) - 1L, function(rank) readRDS(file.path(folder, paste0(rank, ".rds"))))
}

# An MPI that writes down which memory it is given: a library of fixtures/mpi-record.c that has the launcher's own MPI
# below it.
recording_mpi <- function(launcher) {
  below <- if (launcher == "mpirun.openmpi") "libmpi.so.40" else "libmpich.so.12"
  build_library(fixture("mpi-record.c"), paste0("PKG_LIBS=-Wl,--no-as-needed -l:", below))
}

# The launcher and the library of an MPI with the standard ABI, which tools/setup.sh puts beside Python.
standard_mpi <- function() {
  folder <- Sys.glob(file.path(dirname(Sys.getenv("PJRT_TEST_PYTHON")), "mpich", "*.data", "data"))
  if (length(folder) != 1L) testthat::skip("no MPI with the standard ABI; sh tools/test.sh installs one")
  # R's own search path comes before that of the library
  search <- c(file.path(folder, "lib", "mpich"), file.path(R.home("lib")))
  list(
    launcher = file.path(folder, "bin", "mpiexec"), library = file.path(folder, "lib", "libmpi_abi.so.1"),
    search = paste(search, collapse = ":")
  )
}

# Runs fixtures/mpi.R, in which each process checks its results. MPICH's processes never leave the processor to others,
# so they run the long programs less often.
expect_mpi <- function(launcher, n, runs) {
  folder <- withr::local_tempdir()
  ended <- run_mpi(launcher, n, "mpi.R", c(folder, runs))
  expect_identical(ended, list(status = 0L, out = character(), err = character()), info = launcher)
  checked <- lapply(list.files(folder, full.names = TRUE), readRDS)
  expect_length(checked, max(n, 1L))
  for (one in checked) {
    expect_identical(one$wrong, character(), info = launcher)
    expect_gt(one$done, times(165L, 230L))
  }
  worlds <- lapply(checked, `[[`, "world")
  expect_setequal(vapply(worlds, `[[`, 0L, "rank"), seq_along(worlds) - 1L)
  expect_identical(unique(vapply(worlds, `[[`, 0L, "size")), length(worlds))
  expect_false(any(vapply(worlds, `[[`, NA, "joined")))
  invisible(worlds[[1L]])
}
