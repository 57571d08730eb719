# Bad input to the functions for MPI. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

# Nobody has initialized MPI in this process, so all that communicates refuses even valid values.
rows <- list(
  mpi_init = row(refuses = TRUE),
  close.PJRTMPI = row(con = of("any", structure(list(), class = "PJRTMPI"))),
  print.PJRTMPI = row(x = of("printed", structure(list(
    rank = 0L, size = 1L, library = "l", version = "v", standard = "3.1", threads = "multiple", joined = FALSE
  ), class = "PJRTMPI"))),
  format.PJRTMPI = row(x = of("printed", structure(list(
    rank = 0L, size = 1L, library = "l", version = "v", standard = "3.1", threads = "multiple", joined = FALSE
  ), class = "PJRTMPI"))),
  mpi_all_reduce = row(buffers = "buffer", op = of("choice", "sum"), refuses = TRUE),
  mpi_all_gather = row(buffers = "buffer", refuses = TRUE),
  mpi_reduce_scatter = row(buffers = "buffer", op = of("choice", "sum"), refuses = TRUE),
  mpi_all_to_all = row(buffers = "buffer", refuses = TRUE),
  mpi_broadcast = row(buffers = "buffer", root = of("index", 0), refuses = TRUE),
  mpi_send = row(buffer = "buffer", dest = of("index", 0), tag = of("index", 0), refuses = TRUE),
  mpi_recv = row(
    dtype = "dtype", shape = "shape", source = of("index", 0), tag = of("index", 0), device = "device", refuses = TRUE
  ),
  mpi_barrier = row(device = "device", refuses = TRUE),
  mpi_program = row(program = "program", compile_options = of("none", pjrt_compile_options()), refuses = TRUE),
  mpi_shard = row(x = "none", program = "none", input = "none", refuses = TRUE),
  mpi_unshard = row(buffer = "none", program = "none", refuses = TRUE),
  format.PJRTProcessProgram = row(x = "printed"), print.PJRTProcessProgram = row(x = "printed")
)

test_that("functions for MPI refuse bad input with an error of this package", {
  # so that MPI is not initialized here
  withr::local_envvar(PJRT_MPI = "/no/such/library")
  tried <- try_bad_input(rows, at_least = 100)
  expect_snapshot(cat(refusals(tried)))
})
