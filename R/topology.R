#' Describe devices to compile for
#'
#' `pjrt_topology()` describes devices as the compiler sees them: all devices of a client, including other
#' processes' devices, or devices of another machine, such as a cluster. [`pjrt_compile(topology = )`][pjrt_compile]
#' compiles programs for them, if the plugin supports it.
#'
#' For devices of another machine, pass a platform or a plugin. No client is created. The plugin defines names and
#' options, which are passed to it unchecked. XLA's CPU plugin does not support this. This package has been tested with
#' a plugin made for the tests, not with a plugin for GPUs or TPUs.
#'
#' You can use the description in this session only: you cannot compile for an object that was saved.
#'
#' @param x A `PJRTClient`, from [pjrt_client()], for its devices. Or a platform's name, such as `"cuda"`, or a
#'   `PJRTPlugin`, from [pjrt_plugin()].
#' @param name A string: the topology's name. The empty name is the plugin's default.
#' @param ... Named options of the plugin. Strings, whole numbers, other numbers, `TRUE` and `FALSE`, and vectors of
#'   whole numbers keep their type. `I(1)` passes a number as a vector.
#' @return A list of class `PJRTTopology`:
#' * `platform`, `platform_version`.
#' * `devices`: for each device a list with its `id`, `kind`, `label`, `debug` string, `process_index` and `attributes`.
#' * `attributes`: a named list of the plugin's further attributes.
#' * `serialized`: a raw vector, the plugin's serialized form, which you can use to compare topologies; `NULL` if it has
#'   none.
#' @section Errors:
#' * `pjrt_error_unimplemented` if the plugin cannot describe devices of another machine, like the CPU plugin, or the
#'   devices of a client.
#' * `pjrt_error_unsupported_call` if the plugin lacks the function.
#' * `pjrt_error_invalid_input` if an option has no name or a value of an unsupported type, or if you pass a name or an
#'   option together with a client.
#' * The plugin's own errors for names and options that it does not know.
#' @seealso [pjrt_compile()], [pjrt_client()], [client_info()], [device_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' pjrt_topology(pjrt_client("cpu"))
#'
#' # the plugin of the CPU refuses to describe other devices
#' try(pjrt_topology("cpu"))
#' @export
pjrt_topology <- function(x, name = "", ...) {
  if (!is_text(name)) {
    abort_type("`name` must be a string, not ", given(name), ".")
  }
  if (inherits(x, "PJRTClient")) {
    if (nzchar(name) || ...length() > 0L) {
      abort_input("The topology of a client has no name and no options.")
    }
    return(new_topology(call_native(ffi_client_topology, x), x))
  }
  plugin <- as_pjrt_plugin(x)
  platform <- attr(plugin, "platform") %||% "unknown"
  options <- typed_options(list(...), NULL, "Topology", platform)
  facts <- call_with_text(
    ffi_topology_create, plugin, platform, enc2utf8(as.vector(name)), options$names, options$types, options$values
  )
  new_topology(facts[names(facts) != "system"], facts$system)
}

# `system` is what programs are compiled for: a client, or the plugin's own topology, which it keeps alive.
new_topology <- function(facts, system) {
  facts$devices <- lapply(facts$devices, new_info, class = "PJRTDeviceDescription")
  made <- new_info(facts, "PJRTTopology")
  attr(made, "system") <- system
  made
}

check_topology <- function(topology) {
  if (!inherits(topology, "PJRTTopology")) {
    abort_type("`topology` must be a `PJRTTopology` from pjrt_topology(), not ", given(topology), ".")
  }
  is_whole <- typeof(attr(topology, "system", exact = TRUE)) == "externalptr"
  check_intact(if (is_whole) topology, "PJRTTopology", parts = c("platform", "devices"), name = "topology")
}

# Compiles a program for a topology. The result is a list, whose bytes load where the devices are.
compile_for_topology <- function(program, compile_options, topology, shapes) {
  shapes <- check_compilable(program, shapes)
  check_compile_options(compile_options)
  program <- fixed_program(program, topology$platform, shapes)
  system <- attr(topology, "system", exact = TRUE)
  structure(
    call_native(ffi_topology_compile, system, program, compile_options, hash_folder()), class = "PJRTExecutable"
  )
}

check_unloaded <- function(x, name = "x") {
  check_intact(x, "PJRTExecutable", parts = c("name", "inputs", "outputs", "bytes"), name = name)
  if (!is.raw(x$bytes) || !is.list(x$inputs) || !is.list(x$outputs)) {
    abort_type("`", name, "` must be a `PJRTExecutable`: it has the class, but its parts were changed.")
  }
}

#' @rdname executable_info
#' @export
format.PJRTExecutable <- function(x, ...) {
  check_unloaded(x)
  signature_line(unclass(x))
}

#' @rdname executable_info
#' @export
print.PJRTExecutable <- function(x, ...) {
  check_unloaded(x)
  count <- x$num_replicas * x$num_partitions
  show_lines(c(
    "<PJRTExecutable>",
    sprintf("  name: %s", x$name),
    signature_section("inputs", signature_lines(x$inputs$name, types(x$inputs), x$inputs$donated)),
    signature_section("outputs", signature_lines(x$outputs$name, types(x$outputs))),
    sprintf("  compiled for: %s of %s, kind %s", counted(count, "device"), x$platform, x$device_kind),
    "  not loaded: save it with pjrt_save_executable()"
  ))
  invisible(x)
}

#' @export
str.PJRTExecutable <- function(object, ...) {
  cat(" PJRTExecutable ", format(object), "\n", sep = "")
}
