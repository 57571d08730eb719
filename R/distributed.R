#' Set up a client of several processes
#'
#' `pjrt_distributed()` describes the place of this process among those that create a client together, for
#' [`pjrt_client(distributed = )`][pjrt_client]. The plugins of GPUs and TPUs then know the devices of all processes,
#' which [devices()] lists with `addressable = FALSE`. A process uploads and reads buffers on its own devices only.
#' Programs can run on the devices of all processes: see below.
#'
#' The processes find each other through a store: a Redis server that all can reach, version 5 or newer, or MPI. Each
#' process registers in the store and waits for the others; then the plugins exchange the addresses of their devices.
#' Array data do not go through the store. All processes must create their clients in the same order, and each run needs
#' its own `job`. Keys expire after a day.
#'
#' With `store = "mpi"`, no server is needed: call [mpi_init()] first, in all processes. Every process keeps all keys,
#' and broadcasts changes to the others. This is the default after `mpi_init()`. MPI must allow several threads to
#' communicate, and `mpi_init()` must have initialized it, not another package.
#'
#' Under Slurm, `mpirun` of Open MPI and `torchrun`, the other defaults come from environment variables. If no store is
#' specified, it is a Redis server without a password on port 6379 of the first machine, or of the machine that runs
#' `mpirun`. You must start it there.
#'
#' The CPU plugin has no collectives between processes: `pjrt_client("cpu", distributed = )` is an error.
#'
#' @section Programs on the devices of several processes:
#' Every process compiles the same program for the same devices, such as
#' `pjrt_compile(program, devices = devices(client, addressable = FALSE))`. At least one of them must belong to the
#' process. A program for more devices than the process has runs by default on the first devices of all processes.
#'
#' Every process then runs the program on its own devices, with inputs for these only: `devices(executable)` lists them.
#' With one device for each process, [pjrt_execute()] runs it, otherwise [pjrt_execute_sharded()]. [pjrt_shard()] gives
#' a process its parts of an array. The program itself exchanges data between the devices. All processes must run such
#' programs in the same order, or they wait for each other. Compilers may divide their work between the processes, so
#' use the same cache in all of them, or none: see [pjrt_cache]. A saved executable can be loaded in every process.
#'
#' The tests run such programs with a plugin made for the tests, not on GPUs of several processes.
#'
#' @param rank The number of this process, from 0. Default: from `SLURM_PROCID`, `OMPI_COMM_WORLD_RANK` or `RANK`; that
#'   of [mpi_init()] if MPI is the store.
#' @param size The number of processes. Default: from `SLURM_NTASKS`, `OMPI_COMM_WORLD_SIZE` or `WORLD_SIZE`; that of
#'   [mpi_init()] if MPI is the store.
#' @param store A string, the address of the store: `"redis://:password@host:6379"`, `"rediss://..."` for TLS,
#'   `"redis+unix:///path"` for a socket, or `"mpi"`. Default: `PJRT_STORE`; after [mpi_init()], `"mpi"`; otherwise port
#'   6379 of `SLURM_LAUNCH_NODE_IPADDR`, of the first address in `OMPI_MCA_orte_hnp_uri`, or of `MASTER_ADDR`. For TLS,
#'   the server's certificate must be trusted by the system, or by the file that `SSL_CERT_FILE` names.
#' @param local The number of this process on its machine, from 0. For GPUs, the process then uses the device of this
#'   number only, unless `visible_devices` is given or the process sees only one. Default: from `SLURM_LOCALID`,
#'   `OMPI_COMM_WORLD_LOCAL_RANK` or `LOCAL_RANK`; without them, the process uses all devices.
#' @param job A string that is the same for all processes, and different for each run. Default: from `SLURM_JOB_ID` and
#'   `SLURM_STEP_ID`, `OMPI_MCA_ess_base_jobid` or `PMIX_NAMESPACE`, or `TORCHELASTIC_RUN_ID`. Not
#'   needed if MPI is the store.
#' @param timeout The number of seconds that the creation of the client may take, including the wait for the others.
#' @param x A `PJRTDistributed`.
#' @param ... Not used.
#' @return A list of class `PJRTDistributed`. It prints without the store's password; [saveRDS()] would save the
#'   password.
#' @section Errors:
#' `pjrt_error_invalid_input` for invalid arguments, and if the rank, the size, the store or the job is unknown. When
#' the client is created:
#' * `pjrt_error_deadline_exceeded`: processes are missing, which the message names, or the plugin took too long.
#' * `pjrt_error_unavailable`: the store cannot be reached, or was lost.
#' * `pjrt_error_unauthenticated`: the store refuses the password, or its certificate is not trusted.
#' * `pjrt_error_invalid_input`: another process has the same rank, or an earlier run had the same job; or MPI is the
#'   store, but not initialized.
#' * `pjrt_error_unsupported_call`: MPI cannot be the store.
#' * `pjrt_error_device_mismatch`, from [pjrt_compile()]: none of the devices belongs to this process.
#'
#' Ctrl-C ends the wait.
#' @seealso [pjrt_client()]
#' @examples
#' place <- pjrt_distributed(
#'   rank = 0, size = 2, job = "today",
#'   store = "redis://:secret@localhost:6379"
#' )
#' place
#' # on a machine with GPUs, in each of the two processes:
#' # client <- pjrt_client("cuda", distributed = place)
#' @export
pjrt_distributed <- function(rank = NULL, size = NULL, store = NULL, local = NULL, job = NULL, timeout = 300) {
  launcher <- launcher_place()
  store <- store %||% (if (nzchar(Sys.getenv("PJRT_STORE"))) Sys.getenv("PJRT_STORE")) %||%
    (if (is.environment(the$mpi)) "mpi") %||% launcher$store
  if (identical(store, "mpi")) launcher[c("name", "rank", "size", "job")] <- list(
    "MPI", mpi_world()$rank, mpi_world()$size, "mpi"
  )
  rank <- place_number(rank %||% launcher$rank, "rank", 0)
  size <- place_number(size %||% launcher$size, "size", 1)
  if (rank >= size) {
    abort_input("`rank` must be less than `size`, ", size, ": got ", rank, ".")
  }
  given_local <- local %||% launcher$local
  local <- if (!is.null(given_local)) place_number(given_local, "local", 0)
  job <- job %||% launcher$job
  check_place_text(store, "store", "the address of a Redis server, such as \"redis://:password@host:6379\"")
  check_place_text(job, "job", "a name that is the same for all processes, and different for each run")
  timeout <- parse_seconds(timeout, "`timeout`", most = 1e8)
  store <- enc2utf8(store)
  shown <- call_native(ffi_store_shown, store)
  structure(
    list(
      rank = rank, size = size, store = hidden(store), shown = shown, local = local, job = enc2utf8(job),
      timeout = timeout, launcher = launcher$name
    ),
    class = "PJRTDistributed"
  )
}

# A function that returns the text: what prints or describes a list does not show it.
hidden <- function(text) {
  force(text)
  function() text
}

#' @rdname pjrt_distributed
#' @export
format.PJRTDistributed <- function(x, ...) {
  check_intact(x, "PJRTDistributed", parts = c("rank", "size", "store", "shown", "job", "timeout"))
  local <- if (!is.null(x$local)) sprintf(", %d on its machine", x$local)
  sprintf("<PJRTDistributed: rank %d of %d%s, store %s, job %s>", x$rank, x$size, local %||% "", x$shown, x$job)
}

#' @rdname pjrt_distributed
#' @export
print.PJRTDistributed <- function(x, ...) {
  print_lines(x)
}

place_number <- function(x, name, least) {
  if (is.null(x)) {
    abort_input(
      "`", name, "` must be given: no environment variable of Slurm, Open MPI or torchrun sets it.",
      hints = "Start the processes with srun, mpirun or torchrun, or pass it in each process."
    )
  }
  if (!is.numeric(x) || length(x) != 1L || is.na(x) || x != trunc(x) || x < least || x > 1e6) {
    abort_type("`", name, "` must be a whole number from ", least, " to 1000000, not ", given(x), ".")
  }
  as.integer(x)
}

# Never shows the text, which may have a password.
check_place_text <- function(x, name, what) {
  if (is.null(x)) {
    abort_input("`", name, "` must be given: ", what, ".")
  }
  if (!is_valid_text(x) || !nzchar(x)) {
    abort_type("`", name, "` must be a string: ", what, ".")
  }
}

# What the launcher of parallel jobs says in environment variables.
launcher_place <- function() {
  variable <- function(name) {
    value <- Sys.getenv(name)
    if (nzchar(value)) value
  }
  number <- function(name) {
    value <- variable(name)
    if (is.null(value)) {
      return(NULL)
    }
    if (!grepl("^[0-9]{1,6}$", value, useBytes = TRUE)) {
      abort_input("The environment variable ", name, " must be a whole number.")
    }
    as.integer(value)
  }
  redis_on <- function(host) if (!is.null(host)) paste0("redis://", host, ":6379")
  if (!is.null(variable("OMPI_COMM_WORLD_RANK"))) {
    list(
      name = "Open MPI", rank = number("OMPI_COMM_WORLD_RANK"), size = number("OMPI_COMM_WORLD_SIZE"),
      local = number("OMPI_COMM_WORLD_LOCAL_RANK"),
      job = variable("OMPI_MCA_ess_base_jobid") %||% variable("PMIX_NAMESPACE"),
      store = redis_on(first_address(variable("OMPI_MCA_orte_hnp_uri")))
    )
  } else if (!is.null(variable("RANK")) && !is.null(variable("WORLD_SIZE"))) {
    list(
      name = "torchrun", rank = number("RANK"), size = number("WORLD_SIZE"), local = number("LOCAL_RANK"),
      job = variable("TORCHELASTIC_RUN_ID"), store = redis_on(variable("MASTER_ADDR"))
    )
  } else if (!is.null(variable("SLURM_PROCID"))) {
    id <- variable("SLURM_JOB_ID")
    list(
      name = "Slurm", rank = number("SLURM_PROCID"), size = number("SLURM_NTASKS"), local = number("SLURM_LOCALID"),
      job = if (!is.null(id)) paste(c(id, variable("SLURM_STEP_ID")), collapse = "."),
      store = redis_on(variable("SLURM_LAUNCH_NODE_IPADDR"))
    )
  } else {
    list()
  }
}

# The first address in a text like "77.0;tcp://10.0.0.1,10.1.0.1:4000;tcp6://[fd00::1]:4001".
first_address <- function(uri) {
  pattern <- "^.*;tcp://([0-9.]+)[,:].*$"
  if (!is.null(uri) && grepl(pattern, uri)) sub(pattern, "\\1", uri)
}

check_distributed <- function(distributed, platform) {
  if (is.null(distributed)) {
    return(invisible())
  }
  if (!inherits(distributed, "PJRTDistributed")) {
    abort_type("`distributed` must be a `PJRTDistributed` from pjrt_distributed(), not ", given(distributed), ".")
  }
  check_intact(
    distributed, "PJRTDistributed", parts = c("rank", "size", "store", "job", "timeout"), name = "distributed"
  )
  if (identical(platform, "cpu")) {
    abort_input(
      "The CPU plugin has no collectives between processes, so `distributed` must not be given for \"cpu\".",
      hints = "On CPUs, processes exchange data with MPI: see ?mpi_init and vignette(\"cluster\")."
    )
  }
}

same_place <- function(x, y) {
  parts <- c("rank", "size", "shown", "local", "job")
  !is.null(y) && identical(unclass(x)[parts], unclass(y)[parts])
}

new_distributed_client <- function(plugin, platform, options, distributed) {
  before_client()
  is_gpu <- platform %in% c("cuda", "gpu", "rocm")
  sees_one <- grepl("^[^,]+$", Sys.getenv("CUDA_VISIBLE_DEVICES"))
  if (is_gpu && !is.null(distributed$local) && is.null(options$visible_devices) && !sees_one) {
    options$visible_devices <- distributed$local
  }
  given <- typed_client_options(options, platform)
  place <- with(unclass(distributed), list(as.double(rank), as.double(size), store(), job, platform, timeout))
  call_native(ffi_client_create_distributed, plugin, given$names, given$types, given$values, place)
}
