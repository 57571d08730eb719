# Slow: starts groups of processes.

# How many processes start: MPICH's never leave the processor to others, so more of them than processors take long.
sizes_of <- function(is_open) if (is_soak()) c(2L, 4L) else if (is_open) 4L else 2L

# first, since the others take the programs that it has compiled
test_that("a process that was started alone is a world of one", {
  mpi_launchers()
  expect_mpi(NULL, 0L, 20L)
})

test_that("every operation works on several processes, with Open MPI and MPICH", {
  for (launcher in mpi_launchers()) {
    is_open <- launcher == "mpirun.openmpi"
    for (n in sizes_of(is_open)) {
      runs <- if (is_open) times(20L, 200L) else 10L
      world <- expect_mpi(launcher, n, runs)
      expect_identical(world$abi, if (is_open) "Open MPI" else "MPICH")
      expect_match(world$version, if (is_open) "^Open MPI" else "^MPICH")
    }
  }
})

test_that("every operation works with an MPI that has the standard ABI", {
  found <- standard_mpi()
  withr::local_envvar(PJRT_MPI = found$library, R_LD_LIBRARY_PATH = found$search)
  for (n in sizes_of(FALSE)) {
    world <- expect_mpi(found$launcher, n, 10L)
    expect_identical(world$abi, "MPI standard")
    expect_identical(normalizePath(world$library), normalizePath(found$library))
  }
})

test_that("if a process ends before the others, all of them end soon", {
  for (launcher in mpi_launchers()) {
    is_open <- launcher == "mpirun.openmpi"
    for (way in c("kill", "error", "quit")) {
      ended <- run_mpi(launcher, times(if (is_open) 3L else 2L, 4L), "mpi-end.R", way, timeout = 60)
      # not by the time limit; the launcher of MPICH 4.2 loses some statuses
      expect_false(ended$status %in% c(if (is_open) 0L, 124L), info = paste(launcher, way))
      expect_false("all done" %in% ended$out)
      if (way == "error") expect_match(ended$err, "for a reason", all = FALSE)
    }
    expect_identical(run_mpi(launcher, 2L, "mpi-end.R", "nothing")[1:2], list(status = 0L, out = rep("all done", 2L)))
  }
})

test_that("a session that has computed can join, whatever MPI does with signals", {
  for (launcher in mpi_launchers()) {
    for (env in list(character(), c(UCX_ERROR_SIGNALS = "SIGBUS,SIGSEGV"))) {
      ended <- run_mpi(launcher, 2L, "mpi-late.R", env = env)
      expect_identical(ended, list(status = 0L, out = rep("all is well", 2L), err = character()), info = launcher)
    }
  }
})

test_that("MPI reads and writes the memory of buffers, while R goes on", {
  for (launcher in mpi_launchers()) {
    library <- recording_mpi(launcher)
    ended <- run_mpi(launcher, 2L, "mpi-memory.R", c(library, withr::local_tempdir()), c(PJRT_MPI = library))
    expect_identical(ended[1:3], list(status = 0L, out = rep("right", 2L), err = character()), info = launcher)
  }
})

test_that("a missing MPI is named", {
  child <- function(code, ...) run_child(code, c(mpi_env(), ...))
  refused <- quote({
    error <- tryCatch(mpi_init(), pjrt_error_library_missing = conditionMessage)
    cat(error)
    cat("\n", tryCatch(mpi_barrier(), pjrt_error_invalid_value = conditionMessage), "\n", sep = "")
  })
  for (file in c("/no/such/libmpi.so", "libm.so.6")) {
    found <- expect_clean(child(refused, PJRT_MPI = file))
    expect_match(found$out, "^No MPI could be loaded", all = FALSE)
    expect_match(found$out, literally(sprintf("'%s'", file)), all = FALSE)
    expect_match(found$out, "^MPI is not initialized: call `mpi_init\\(\\)` first", all = FALSE)
  }
})

test_that("an MPI that Rmpi has initialized is joined, and ended by Rmpi", {
  # loading Rmpi here would initialize MPI in this process
  skip_if(!nzchar(system.file(package = "Rmpi")), "{Rmpi} is not installed")
  if (!"mpirun.openmpi" %in% mpi_launchers()) skip("no mpirun.openmpi")
  for (n in times(2L, c(2L, 4L))) {
    for (way in c("finalize", "quit", "both")) {
      ended <- run_mpi("mpirun.openmpi", n, "mpi-rmpi.R", way, c(PJRT_PLUGIN_PATH_FAKE = hosts_library()))
      expect_identical(ended[c("status", "err")], list(status = 0L, err = character()), info = way)
      expect_identical(ended$out, rep("right", n), info = way)
    }
  }
})

test_that("what cannot be divided among processes is refused in words", {
  expect_identical(pjrt:::parts_of(c(4L, 3L), 2L), c(4L, 3L))
  expect_refused(pjrt:::parts_of(c(3L, 3L), 2L), "invalid_input", "must be a multiple of 2")
  # for a process alone, any number is a multiple
  expect_refused(pjrt:::parts_of(integer()), "invalid_input", "A scalar has no first dimension")
})

test_that("functions that communicate need MPI", {
  x <- pjrt_buffer(1)
  for (use in expression(mpi_all_reduce(x), mpi_send(x, 0), mpi_recv("f32", 1L, 0), mpi_barrier())) {
    expect_refused(eval(use), "invalid_input", "MPI is not initialized: call `mpi_init()` first.")
  }
  expect_null(close(structure(list(), class = "PJRTMPI")))
})

test_that("training in parts has the result of training on everything", {
  examples <- system.file("examples", "mpi", package = "pjrt")
  if (!"mpirun.openmpi" %in% mpi_launchers()) skip("no mpirun.openmpi")
  for (name in c("logistic.R", "mlp.R")) {
    ended <- lapply(times(1:2, c(1L, 2L, 4L)), function(n) run_mpi("mpirun.openmpi", n, file.path(examples, name)))
    for (one in ended) expect_identical(one[c("status", "err")], list(status = 0L, err = character()), info = name)
    losses <- vapply(ended, function(one) as.numeric(sub("^loss ", "", one$out)), 0)
    expect_equal(losses, rep(losses[[1L]], length(losses)), tolerance = 1e-9)
    expect_lt(losses[[1L]], 0.2)
  }
})
