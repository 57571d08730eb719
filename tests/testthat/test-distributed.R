# A Redis server on a free port, stopped at the end of the test.
start_store <- function(env = parent.frame()) {
  server <- Sys.which("redis-server")
  if (!nzchar(server)) testthat::skip("no redis-server")
  folder <- withr::local_tempdir(.local_envir = env)
  socket <- file.path(folder, "s")
  child <- processx::process$new(
    server, c("--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder, "--requirepass", "s3cret")
  )
  withr::defer(child$kill(), envir = env)
  end <- Sys.time() + 20
  while (!file.exists(socket) && Sys.time() < end) Sys.sleep(0.02)
  list(address = paste0("redis+unix://", socket, "?pass=s3cret"), child = child)
}

hosts_library <- function() build_library(source_file("src/rust/core/tests/fixtures/fake-hosts.c"))

no_launcher <- c(
  RANK = NA, WORLD_SIZE = NA, LOCAL_RANK = NA, SLURM_PROCID = NA, OMPI_COMM_WORLD_RANK = NA, PJRT_STORE = NA
)

test_that("pjrt_distributed() takes its place from the launcher", {
  withr::local_envvar(no_launcher)
  facts <- function(x) unclass(x)[c("rank", "size", "local", "job", "shown")]
  withr::with_envvar(c(RANK = "1", WORLD_SIZE = "4", LOCAL_RANK = "1", MASTER_ADDR = "node1", TORCHELASTIC_RUN_ID = "r"), {
    expect_identical(
      facts(pjrt_distributed()), list(rank = 1L, size = 4L, local = 1L, job = "r", shown = "redis://node1:6379")
    )
    expect_identical(pjrt_distributed(rank = 2)$rank, 2L)
  })
  slurm <- c(
    SLURM_PROCID = "3", SLURM_NTASKS = "8", SLURM_LOCALID = "0", SLURM_JOB_ID = "77", SLURM_STEP_ID = "1",
    SLURM_LAUNCH_NODE_IPADDR = "10.0.0.1"
  )
  withr::with_envvar(slurm, {
    expect_identical(
      facts(pjrt_distributed()), list(rank = 3L, size = 8L, local = 0L, job = "77.1", shown = "redis://10.0.0.1:6379")
    )
  })
  mpi <- c(
    OMPI_COMM_WORLD_RANK = "0", OMPI_COMM_WORLD_SIZE = "2", OMPI_COMM_WORLD_LOCAL_RANK = "0",
    OMPI_MCA_ess_base_jobid = "5", PJRT_STORE = "rediss://:s3cret@h"
  )
  withr::with_envvar(mpi, {
    expect_identical(
      facts(pjrt_distributed()), list(rank = 0L, size = 2L, local = 0L, job = "5", shown = "rediss://h:6379")
    )
  })
})

test_that("no text shows the password of a store", {
  place <- pjrt_distributed(0, 2, "redis://me:s3cret@host:7000/3", job = "j", local = 0)
  expect_identical(format(place), "<PJRTDistributed: rank 0 of 2, 0 on its machine, store redis://host:7000/3, job j>")
  shown <- utils::capture.output(print(place), utils::str(place), print(unclass(place)))
  expect_false(any(grepl("s3cret", shown, fixed = TRUE)))
  for (bad in c("http://:s3cret@host", "redis://:s3cret@host:port", "s3cret")) {
    error <- expect_refused(pjrt_distributed(0, 2, bad, job = "j"), "invalid_input", "like redis://:password@host:6379")
    expect_false(grepl("s3cret@|s3cret$", conditionMessage(error)))
  }
})

test_that("bad places are refused", {
  withr::local_envvar(no_launcher)
  expect_refused(pjrt_distributed(), "invalid_input", "`rank` must be given")
  expect_refused(pjrt_distributed(0, 1), "invalid_input", "`store` must be given")
  expect_refused(pjrt_distributed(0, 1, "redis://h"), "invalid_input", "`job` must be given")
  expect_refused(pjrt_distributed(2, 2, "redis://h", job = "j"), "invalid_input", "`rank` must be less than `size`")
  expect_refused(pjrt_distributed(0.5, 2, "redis://h", job = "j"), "invalid_type", "`rank` must be a whole number")
  expect_refused(pjrt_distributed(0, 2, "redis://h", job = "j", timeout = 0), "invalid_type", "`timeout`")
  expect_refused(pjrt_client("cpu", distributed = 1), "invalid_type", "`distributed`")
  withr::local_envvar(RANK = "one", WORLD_SIZE = "2")
  expect_refused(pjrt_distributed(), "invalid_input", "The environment variable RANK")
})

test_that("the CPU plugin refuses a place", {
  place <- pjrt_distributed(0, 1, "redis://h", job = "j")
  expect_refused(pjrt_client("cpu", distributed = place), "invalid_input", "no collectives between processes")
})

test_that("several processes create a client together", {
  store <- start_store()
  library <- hosts_library()
  code <- quote({
    place <- pjrt_distributed(job = "together", timeout = 60)
    client <- pjrt_client("fake", distributed = place)
    same <- identical(pjrt_client("fake", distributed = place), client) && identical(pjrt_client("fake"), client)
    cat(platform_version(client), length(devices(client)), length(devices(client, addressable = FALSE)), same, "\n")
    cat(client_info(client)$process_index, "\n")
  })
  children <- lapply(0:2, function(rank) {
    start_child(code, c(
      no_launcher, RANK = as.character(rank), WORLD_SIZE = "3", PJRT_STORE = store$address, PJRT_PLUGIN_PATH_FAKE = library
    ))
  })
  for (rank in 0:2) {
    expected <- c(sprintf("%d of 3, wrong 0, absent 5, late 4 1 3 TRUE ", rank), paste0(rank, " "))
    expect_clean(end_child(children[[rank + 1L]], 120), expected)
  }
})

test_that("a process that does not come, or dies, is an error in time", {
  store <- start_store()
  withr::local_envvar(PJRT_PLUGIN_PATH_FAKE = hosts_library())
  place <- pjrt_distributed(1, 3, store$address, job = "alone", timeout = 1)
  error <- expect_refused(
    pjrt_client("fake", distributed = place), "deadline_exceeded", "Ranks 0, 2 of 3 did not arrive within 1 s."
  )
  expect_false(grepl("s3cret", conditionMessage(error)))
  place <- pjrt_distributed(0, 1, store$address, job = "lost", timeout = 60)
  killer <- processx::process$new("sh", c("-c", paste("sleep 1; kill -9", store$child$get_pid())))
  start <- Sys.time()
  expect_refused(pjrt_client("fake", script = "never", distributed = place), "unavailable", "The store redis+unix://")
  expect_lt(as.double(Sys.time() - start, units = "secs"), 20)
  wrong <- pjrt_distributed(0, 1, "redis://127.0.0.1:1", job = "j", timeout = 0.5)
  expect_refused(pjrt_client("fake", distributed = wrong), "unavailable", "The store redis://127.0.0.1:1")
})
