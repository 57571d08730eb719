# Slow: waits for servers and groups of processes.

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
  end <- Sys.time() + 60
  while (!file.exists(socket) && Sys.time() < end) Sys.sleep(0.02)
  list(address = paste0("redis+unix://", socket, "?pass=s3cret"), child = child)
}

no_launcher <- c(
  RANK = NA, WORLD_SIZE = NA, LOCAL_RANK = NA, SLURM_PROCID = NA, OMPI_COMM_WORLD_RANK = NA, PJRT_STORE = NA
)

test_that("pjrt_distributed() takes its place from the launcher", {
  withr::local_envvar(no_launcher)
  facts <- function(x) unclass(x)[c("rank", "size", "local", "job", "shown")]
  withr::with_envvar(c(
    RANK = "1", WORLD_SIZE = "4", LOCAL_RANK = "1", MASTER_ADDR = "node1", TORCHELASTIC_RUN_ID = "r"
  ), {
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

test_that("the machine of Open MPI's launcher has the store, unless something else is named", {
  withr::local_envvar(no_launcher)
  withr::local_envvar(OMPI_COMM_WORLD_RANK = "0", OMPI_COMM_WORLD_SIZE = "1", PMIX_NAMESPACE = "5")
  addresses <- c(
    "77.0;tcp://10.0.0.1:4000" = "redis://10.0.0.1:6379",
    "77.0;tcp://10.0.0.2,10.1.0.2:4000;tcp6://[fd00::2]:4001" = "redis://10.0.0.2:6379"
  )
  for (uri in names(addresses)) {
    withr::with_envvar(c(OMPI_MCA_orte_hnp_uri = uri), expect_identical(pjrt_distributed()$shown, addresses[[uri]]))
  }
  for (uri in c("77.0;tcp6://[fd00::2]:4001", "77.0;tcp://", "")) {
    withr::with_envvar(
      c(OMPI_MCA_orte_hnp_uri = uri), expect_refused(pjrt_distributed(), "invalid_input", "`store` must be given")
    )
  }
  withr::local_envvar(OMPI_MCA_orte_hnp_uri = "77.0;tcp://10.0.0.1:4000", PJRT_STORE = "redis://h")
  expect_identical(pjrt_distributed()$shown, "redis://h:6379")
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
    cat(
      client_info(client)$platform_version, length(devices(client)), length(devices(client, addressable = FALSE)), same,
      "\n"
    )
    cat(client_info(client)$process_index, "\n")
  })
  children <- lapply(0:2, function(rank) {
    start_child(code, c(
      no_launcher, RANK = as.character(rank), WORLD_SIZE = "3", PJRT_STORE = store$address,
      PJRT_PLUGIN_PATH_FAKE = library
    ))
  })
  for (rank in 0:2) {
    expected <- c(sprintf("%d of 3, wrong 0, absent 5, late 4 1 3 TRUE ", rank), paste0(rank, " "))
    expect_clean(end_child(children[[rank + 1L]], 120), expected)
  }
})

test_that("MPI is a store without a server", {
  withr::local_envvar(no_launcher)
  expect_refused(pjrt_distributed(store = "mpi"), "invalid_input", "MPI is not initialized: call `mpi_init()` first.")
  for (launcher in mpi_launchers()) {
    ended <- run_mpi(launcher, 3L, "mpi-clients.R", "mpi", c(PJRT_PLUGIN_PATH_FAKE = hosts_library()))
    expect_identical(ended[c("status", "err")], list(status = 0L, err = character()), info = launcher)
    expect_identical(sort(ended$out), sprintf("%d of 3, wrong 0, absent 5, late 4 from mpi", 0:2), info = launcher)
  }
})

test_that("a place in MPI must be that of the process", {
  refused <- mpi_values(mpi_launchers()[1L], 2L, quote({
    message_of <- function(code) tryCatch(code, error = function(e) paste(class(e)[[1L]], conditionMessage(e)))
    c(
      message_of(pjrt_client("fake", distributed = pjrt_distributed(rank = 1 - world$rank))),
      message_of(pjrt_client("fake", script = "never", distributed = pjrt_distributed(timeout = 4)))
    )
  }), env = c(PJRT_PLUGIN_PATH_FAKE = hosts_library()))
  expect_snapshot(writeLines(refused[[1L]]), cran = TRUE)
  expect_match(refused[[2L]][[1L]], "must equal MPI's, 1 and 2: got 0 and 2", fixed = TRUE)
})

test_that("a program runs on the devices of several processes", {
  store <- start_store()
  library <- hosts_library()
  files <- c(sum_module(FALSE), sum_module(TRUE))
  code <- quote({
    files <- strsplit(Sys.getenv("PROGRAMS"), ":")[[1L]]
    client <- pjrt_client("fake", script = "none", distributed = pjrt_distributed(job = "programs", timeout = 60))
    all <- devices(client, addressable = FALSE)
    own <- devices(client)[[1L]]
    other <- Filter(function(device) !identical(device, own), all)[[1L]]
    refused <- function(code) tryCatch(code, pjrt_error = function(e) cat(class(e)[[1L]], conditionMessage(e), "\n"))

    program <- pjrt_program(path = files[[1L]], format = "hlo")
    sum <- pjrt_compile(program, pjrt_compile_options(num_replicas = 2L), devices = rev(all))
    print(sum)
    cat(format(device(sum)), "of", format(devices(sum, addressable = FALSE)[[1L]]), length(devices(sum)), "\n")
    cat(grep("Devices", capture.output(summary(sum)), value = TRUE), "\n")
    x <- pjrt_buffer(c(device_info(own)$id, 0.5), "f32", device = own)
    print(as_array(pjrt_execute(sum, x)))
    print(as_array(pjrt_execute_sharded(sum, list(x))[[1L]]))
    file <- tempfile()
    pjrt_save_executable(sum, file)
    print(as_array(pjrt_execute(pjrt_load_executable(file, device = all), x)))
    print(as_array(pjrt_execute(pjrt_deserialize(pjrt_serialize(sum), device = all), x)))
    assigned <- pjrt_compile(program, pjrt_compile_options(device_assignment = c(1L, 0L), num_replicas = 2L))
    by_default <- pjrt_compile(program, pjrt_compile_options(num_replicas = 2L))
    cat(
      identical(devices(assigned, addressable = FALSE), rev(all)),
      identical(devices(by_default, addressable = FALSE), all), "\n"
    )

    refused(pjrt_execute_sharded(sum, list(x, x)))
    refused(pjrt_execute_sharded(sum, list(list())))
    refused(pjrt_compile(program, device = other))
    refused(pjrt_load_executable(file, device = other))
    refused(pjrt_buffer(1, device = other))

    divided <- pjrt_compile(
      pjrt_program(path = files[[2L]], format = "hlo"), pjrt_compile_options(num_partitions = 2L), devices = all
    )
    shards <- pjrt_shard(c(1, 2, 3, 4), executable = divided, input = 1)
    print(as_array(shards[[1L]]))
    print(as_array(pjrt_shard(c(5, 6), executable = divided)[[1L]]))
    refused(pjrt_unshard(pjrt_execute_sharded(divided, shards), executable = divided))
    replicas <- pjrt_shard(c(1, 2), executable = sum, input = 1, dim = NULL)
    print(pjrt_unshard(pjrt_execute_sharded(sum, replicas), executable = sum, dim = NULL))
    refused(pjrt_unshard(replicas, executable = sum))
  })
  children <- lapply(0:1, function(rank) {
    start_child(code, c(
      no_launcher, RANK = as.character(rank), WORLD_SIZE = "2", PJRT_STORE = store$address,
      PJRT_PLUGIN_PATH_FAKE = library,
      PJRT_PLATFORM = "fake", PROGRAMS = paste(files, collapse = ":")
    ))
  })
  out <- lapply(children, function(child) expect_clean(end_child(child, 120))$out)
  expect_snapshot(writeLines(out[[1L]]), cran = TRUE)
  expect_snapshot(writeLines(out[[2L]]), cran = TRUE)
})

test_that("a process that does not come, or dies, is an error in time", {
  store <- start_store()
  withr::local_envvar(PJRT_PLUGIN_PATH_FAKE = hosts_library())
  place <- pjrt_distributed(1, 3, store$address, job = "alone", timeout = 2)
  error <- expect_refused(
    pjrt_client("fake", distributed = place), "deadline_exceeded", "Ranks 0, 2 of 3 did not arrive within 2 s."
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
