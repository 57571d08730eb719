# Client options: their names and types, and the number of threads, for which PJRT has no option.

# The options of known platforms. For other platforms, options are passed to the plugin unchecked.
known_client_options <- local({
  gpu <- c(
    abort_collectives_on_failure = "bool", allocator = "string", collective_memory_size = "int64",
    enable_mock_nccl = "bool", memory_fraction = "float", mock_gpu_topology = "string", node_id = "int64",
    num_nodes = "int64", partition_index = "int64", platform_name = "string", preallocate = "bool",
    should_stage_host_to_device_transfers = "bool", use_tfrt_gpu_client = "bool", visible_devices = "int64 list"
  )
  list(cpu = c(cpu_device_count = "int64", threads = "int64"), cuda = gpu, gpu = gpu, rocm = gpu)
})

# PJRT's option types, in R's words.
option_types <- c(
  string = "strings of length 1", int64 = "integers of length 1", `int64 list` = "vectors of integers",
  float = "numbers of length 1", bool = "TRUE or FALSE"
)

most_threads <- 4096L
largest_float <- 3.4028234663852886e38
largest_exact_double <- 2^53

# The names, types and values of options, as ffi_client_create takes them.
typed_client_options <- function(options, platform) {
  typed_options(options, known_client_options[[platform]], "Client", platform)
}

# The same for options of something else. `known` are the types of known options; NULL passes all.
typed_options <- function(options, known, what, platform) {
  names <- as.character(names(options))
  if (length(names) != length(options) || anyNA(names) || !all(nzchar(names)) || anyDuplicated(names)) {
    abort_input(what, " options must have unique names.")
  }
  hints <- if (!is.null(known)) {
    paste0("Options for ", platform, ": ", paste0(names(known), " (", known, ")", collapse = ", "), ".")
  }
  unknown <- if (!is.null(known)) setdiff(names, names(known))
  if (length(unknown) > 0L) {
    abort_input("A ", platform, " client has no option `", unknown[[1L]], "`.", hints = hints)
  }
  types <- if (is.null(known)) vapply(options, option_type, "") else known[names]
  values <- Map(option_value, options, types)
  wrong <- which(vapply(values, is.null, NA))
  if (length(wrong) > 0L) {
    first <- wrong[[1L]]
    abort_type(
      what, " options must be ", option_types[[types[[first]]]], " for `", names[[first]], "`, not ",
      given(options[[first]]), ".",
      hints = hints
    )
  }
  list(names = names, types = unname(types), values = unname(values))
}

# The type that an R value stands for if the option is unknown.
option_type <- function(value) {
  if (is.character(value)) {
    "string"
  } else if (is.logical(value)) {
    "bool"
  } else if (is.list(value) || inherits(value, "AsIs") || length(value) != 1L) {
    "int64 list"
  } else if (is.numeric(value) && isTRUE(value != trunc(value))) {
    "float"
  } else {
    "int64"
  }
}

# A value as this type, or NULL if it does not have it. Whole numbers become text, since R has no 64-bit integers.
option_value <- function(value, type) {
  if (inherits(value, "AsIs")) {
    class(value) <- setdiff(class(value), "AsIs")
  }
  one <- is.atomic(value) && length(value) == 1L && !anyNA(value)
  switch(type,
    string = if (one && is.character(value)) enc2utf8(as.vector(value)),
    bool = if (one && is.logical(value)) as.vector(value),
    float = if (one && is.numeric(value) && abs(value) <= largest_float) as.double(value),
    int64 = if (one) whole_text(value),
    `int64 list` = if (!is.list(value)) {
      whole_text(value)
    } else if (length(value) == 0L) {
      character()
    } else if (all(vapply(value, is.atomic, NA))) {
      whole_text(do.call(c, unname(as.list(value))))
    }
  )
}

# Whole numbers as text. NULL if one is not whole, or too large for an exact double.
whole_text <- function(x) {
  if (inherits(x, "integer64")) {
    load_bit64()
    return(if (!anyNA(x)) as.character(x))
  }
  if (is.atomic(x) && is.numeric(x) && all(is.finite(x)) && all(x == trunc(x)) && all(abs(x) <= largest_exact_double)) {
    sprintf("%.0f", x)
  }
}

default_client_options <- function(platform) {
  if (platform != "cpu") {
    return(list())
  }
  defaults <- list(
    cpu_device_count = count_variable("PJRT_CPU_DEVICE_COUNT") %||% the$config$cpu_device_count,
    threads = count_variable("PJRT_CPU_THREADS") %||% job_threads()
  )
  defaults[!vapply(defaults, is.null, NA)]
}

# The number of threads that a scheduler's job may use. NULL if the user gives XLA a number.
job_threads <- function() {
  if (!nzchar(Sys.getenv("NPROC"))) min(call_native(ffi_processors_allowed)$count, most_threads)
}

# The number in an environment variable, or NULL if it is not set.
count_variable <- function(name) {
  value <- Sys.getenv(name)
  if (!nzchar(value)) {
    return(NULL)
  }
  if (!grepl("^[1-9][0-9]{0,8}$", value, useBytes = TRUE) || as.integer(value) > most_threads) {
    abort_input(
      "The environment variable ", name, " must be a positive whole number up to ", most_threads, ", not '", value, "'."
    )
  }
  as.integer(value)
}

# Runs `code`, which creates a CPU client with this many threads. NULL leaves the number to XLA, which reads NPROC when
# it creates a client, and otherwise counts the available processors. Like any Sys.setenv(), this runs on R's main
# thread, and threads of this package read no variables.
with_threads <- function(threads, code) {
  if (is.null(threads)) {
    return(code)
  }
  if (threads < 1 || threads > most_threads) {
    abort_type("`threads` must be a whole number from 1 to ", most_threads, ", not ", given(threads), ".")
  }
  before <- Sys.getenv("NPROC", NA)
  Sys.setenv(NPROC = threads)
  on.exit(if (is.na(before)) Sys.unsetenv("NPROC") else Sys.setenv(NPROC = before))
  code
}
