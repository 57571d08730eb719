#' Inspect an executable
#'
#' `executable_info()` describes an executable: its inputs and outputs, its cost and its memory. `executable_cost()`
#' returns the cost of the program or of each operation. For a program with several partitions, shapes, cost and memory
#' describe one partition.
#'
#' @param executable A `PJRTLoadedExecutable`, from [pjrt_compile()], or for `executable_info()` a `PJRTExecutable`,
#'   which was compiled for a topology.
#' @param by A string: `"total"` for the whole program, `"operation"` for each of its operations; see [operation-costs].
#' @param x,object A `PJRTLoadedExecutable`, or a `PJRTExecutable` for `format()` and `print()`.
#' @param ... Not used.
#' @return `executable_info()` and `summary()`: a list of class `PJRTExecutableInfo`. Values are `NA` or `NULL` if the
#'   plugin does not provide them, after the client was closed, and in a fork.
#' * `name`: the program's name.
#' * `inputs`: a data frame with a row for each input, in the program's order.
#'   - `name`: the name in the program's source, such as `"%x"`, or `"params['w']"` of JAX; for bytecode without
#'     names, the compiler's name. See [pjrt_execute()].
#'   - `dtype`, and `shape`: a list of integer vectors.
#'   - `layout`: a string, the dimensions from fastest to slowest varying. As in HLO, they are counted from 0: `"{1,0}"`
#'     is row-major.
#'   - `donated`: whether an execution takes over the input's memory.
#'   - `alias`: the number, from 1, of the output that reuses this memory, or `NA`.
#'   - `memory_kind`: the memory space that the program asks for, such as `"device"`, or `NA` if unknown. On the CPU,
#'     all memory spaces are the same memory.
#'   - `sharding`: how the array is divided between partitions, in HLO's notation, or `NA` if there is one partition.
#'     `"devices=[2,2]<=[4]"` divides a matrix into four parts. `"devices=[2,1,2]<=[4] last_tile_dim_replicate"` divides
#'     its rows into two parts, each on two devices. With `"replicated"`, every device has the whole array. See
#'     [pjrt_shard()].
#' * `outputs`: a data frame with the same columns except `donated`. `name` is the name in the list of outputs, or `""`.
#'   `alias` is the number, from 1, of the input whose memory the output reuses.
#' * `num_replicas`, `num_partitions`: the number of devices is their product.
#' * `origin`: a list with the compile time and one of `"compiled"` (the cache was off), `"missed"` (not in the cache,
#'   so compiled), `"cache"` and `"saved"` (loaded from a file).
#' * `devices`: those in this process; `devices_in_all`: the number of devices of all processes; see
#'   [pjrt_distributed()].
#' * `fingerprint`: a string, equal for executables with equal optimized programs.
#' * `cost`: a named numeric vector, the compiler's estimate for one execution. `flops` counts floating point
#'   operations, `transcendentals` operations such as `exp`, `bytes accessed` all memory reads and writes. Plugins may
#'   add further values. If the plugin has no estimate, this package estimates these three from the optimized program,
#'   and the attribute `estimated_by` is `"pjrt"`.
#' * `memory`: a named numeric vector, the bytes that an execution uses on the device and, with the prefix `host_`, on
#'   the host. `alias_size_in_bytes` counts memory that outputs share with inputs, `temp_size_in_bytes` intermediate
#'   results. `NA` if the plugin is too old to report a value.
#' * `code_size` in bytes.
#'
#' For a `PJRTExecutable`, which is not loaded, only `name`, `inputs`, `outputs`, `num_replicas` and `num_partitions`
#' are known.
#'
#' `executable_cost()`: the cost alone, or by operation a data frame; see [operation-costs].
#'
#' `format()`: a string, the program's signature. `str()` prints such a line.
#'
#' `print()`: `x`, invisibly. It shows inputs, outputs, devices, and whether the executable came from the cache.
#' @section Errors:
#' `pjrt_error_unimplemented` or `pjrt_error_unsupported_call` from `executable_cost()` if the plugin neither estimates
#' costs nor shows the optimized program.
#' @seealso [device()] and [devices()], [inspect_hlo()] for the optimized program
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "logistic-step.mlir", package = "pjrt")
#' step <- pjrt_compile(pjrt_program(path = path))
#' info <- executable_info(step)
#' info
#' info$inputs
#' info$cost[["flops"]]
#' info$memory[["temp_size_in_bytes"]]
#' @name executable_info
NULL

#' @rdname executable_info
#' @export
executable_info <- function(executable) {
  described <- describe_executable(executable)
  facts <- list(
    name = described$name, inputs = as_table(described$inputs), outputs = as_table(described$outputs),
    num_replicas = described$num_replicas, num_partitions = described$num_partitions
  )
  if (inherits(executable, "PJRTLoadedExecutable")) {
    facts <- c(facts, list(
      origin = call_native(ffi_executable_origin, executable),
      devices = devices(executable),
      devices_in_all = length(devices(executable, addressable = FALSE)),
      fingerprint = if_supported(call_native(ffi_executable_fingerprint, executable), NA_character_),
      cost = if_supported(executable_cost(executable), NULL),
      memory = if_supported(call_native(ffi_executable_memory_stats, executable), NULL),
      code_size = if_supported(call_native(ffi_executable_code_bytes, executable), NA_real_)
    ))
  }
  structure(facts, class = "PJRTExecutableInfo")
}

#' @rdname executable_info
#' @export
executable_cost <- function(executable, by = c("total", "operation")) {
  check_executable(executable)
  if (check_choice(by, c("total", "operation"), "by") == "operation") {
    return(operation_costs(executable))
  }
  call_native(ffi_executable_costs, executable)
}

# Describes an executable; NULL for one of another session that cannot be used here. Printing a saved workspace must not
# fail.
describe_or_null <- function(x) {
  is_lost <- .Call(ffi_object_fate, x) == "sent" && !is.null(dead_text(x, "PJRTLoadedExecutable"))
  if (!is_lost) tryCatch(describe_executable(x), pjrt_error_invalid_pointer = function(e) NULL)
}

#' @rdname executable_info
#' @export
format.PJRTLoadedExecutable <- function(x, ...) {
  described <- describe_or_null(x)
  if (is.null(described)) "PJRTLoadedExecutable of another session" else signature_line(described)
}

#' @export
print.PJRTLoadedExecutable <- function(x, ...) {
  described <- describe_or_null(x)
  if (is.null(described)) {
    show_lines(c("<PJRTLoadedExecutable>", "  of another session"))
    return(invisible(x))
  }
  inputs <- described$inputs
  made <- call_native(ffi_executable_origin, x)
  show_lines(c(
    "<PJRTLoadedExecutable>",
    sprintf("  name: %s", described$name),
    signature_section("inputs", signature_lines(inputs$name, types(inputs), inputs$donated)),
    signature_section("outputs", signature_lines(described$outputs$name, types(described$outputs))),
    sprintf("  %s", device_line(x)),
    # without a cache, the origin is always the same
    if (made$origin != "compiled") sprintf("  %s", origin_line(made))
  ))
  invisible(x)
}

#' @rdname executable_info
#' @export
str.PJRTLoadedExecutable <- function(object, ...) {
  cat(" PJRTLoadedExecutable ", sub("^PJRTLoadedExecutable ", "", format(object)), "\n", sep = "")
}

# The devices of an executable, in words.
device_line <- function(executable) {
  labels <- vapply(devices(executable), as.character, "")
  if (is_portable(executable)) {
    return(paste("device: any of", toString(abbreviate_list(labels))))
  }
  others <- others_text(length(labels), length(devices(executable, addressable = FALSE)))
  paste0(if (length(labels) == 1L) "device: " else "devices: ", toString(abbreviate_list(labels)), others)
}

# Says how many devices of an executable this process has, if other processes have some.
others_text <- function(own, all) {
  if (all > own) sprintf(" (%d of %d; the others belong to other processes)", own, all) else ""
}

# Whether an executable runs where its inputs are.
is_portable <- function(executable) {
  is.null(tryCatch(device(executable), pjrt_error_invalid_input = function(e) NULL))
}

#' @rdname executable_info
#' @export
summary.PJRTLoadedExecutable <- function(object, ...) {
  check_unused(...)
  executable_info(object)
}

#' @export
print.PJRTExecutableInfo <- function(x, ...) {
  check_intact(x, "PJRTExecutableInfo", parts = c("name", "inputs", "outputs", "num_replicas", "num_partitions"))
  is_loaded <- !is.null(x$devices)
  cat(if (is_loaded) "<PJRTLoadedExecutable>\n" else "<PJRTExecutable>\n")
  cat("Name:        ", x$name, "\n", sep = "")
  if (is_loaded) {
    labels <- vapply(x$devices, format, "")
    others <- others_text(length(labels), x$devices_in_all %||% 0L)
    cat("Devices:     ", toString(labels), others, "\n", sep = "")
  }
  cat("Parts:       ", counted(x$num_replicas, "replica"), ", ", counted(x$num_partitions, "partition"), "\n", sep = "")
  if (is_loaded) {
    if (x$origin$origin != "compiled") {
      cat("Origin:      ", origin_line(x$origin), "\n", sep = "")
    }
    cat("Fingerprint: ", if (is.na(x$fingerprint)) "not provided by this plugin" else x$fingerprint, "\n", sep = "")
    label <- if (is.null(attr(x$cost, "estimated_by"))) "Cost" else "Cost (est.)"
    print_figures(label, known_costs(x$cost), format_count)
    print_figures("Memory", memory_figures(x$memory), format_bytes)
  }
  print_table("Inputs", x$inputs)
  print_table("Outputs", x$outputs)
  invisible(x)
}

# `main(%x: f32[2x2] donated, %y: f32[2x2]) -> f32[2x2]`, with an ellipsis if there are many inputs or outputs.
signature_line <- function(described) {
  inputs <- described$inputs
  names <- ifelse(nzchar(inputs$name), paste0(inputs$name, ": "), "")
  inputs <- paste0(names, types(inputs), ifelse(inputs$donated, " donated", ""), recycle0 = TRUE)
  outputs <- types(described$outputs)
  result <- toString(abbreviate_list(outputs))
  if (length(outputs) != 1L) {
    result <- paste0("(", result, ")")
  }
  sprintf("%s(%s) -> %s", described$name, toString(abbreviate_list(inputs)), result)
}

# The origin of an executable, in words.
origin_line <- function(made) {
  words <- c(
    compiled = "compiled", missed = "not in the cache, compiled", cache = "from the cache, compiled",
    saved = "loaded, compiled"
  )
  sprintf("%s in %s s", words[[made$origin]], format(made$compile_seconds, digits = 2L))
}

# `f32[2x2]` for each row.
types <- function(table) {
  # symbolic dimensions are expressions
  shape <- function(dim) paste(dim, collapse = if (is.character(dim)) ", " else "x")
  sprintf("%s[%s]", table$dtype, vapply(table$shape, shape, ""))
}

abbreviate_list <- function(x, most = 8L) {
  if (length(x) <= most) x else c(x[seq_len(most - 2L)], sprintf("... %d more", length(x) - most + 2L))
}

print_figures <- function(title, figures, format) {
  figures <- figures[!is.na(figures)]
  if (length(figures) > 0L) {
    # lines break between figures, not within
    figures <- gsub(" ", "~", paste(names(figures), vapply(figures, format, "")), fixed = TRUE)
    lines <- strwrap(paste(figures, collapse = ", "), getOption("width") - 13L)
    heads <- c(sprintf("%-13s", paste0(title, ":")), rep(strrep(" ", 13L), length(lines) - 1L))
    cat(paste0(heads, gsub("~", " ", lines, fixed = TRUE)), sep = "\n")
  }
}

# The most important memory figures, with short names.
memory_figures <- function(memory) {
  shown <- c(
    arguments = "argument_size_in_bytes", outputs = "output_size_in_bytes", shared = "alias_size_in_bytes",
    temporary = "temp_size_in_bytes", peak = "peak_memory_in_bytes"
  )
  if (!is.null(memory)) structure(memory[shown], names = names(shown))
}

format_count <- function(n) format(n, trim = TRUE, big.mark = ",", decimal.mark = ".", scientific = FALSE)

# A number with a noun, as in "1 program" and "2 programs".
counted <- function(n, noun) sprintf("%s %s%s", format_count(n), noun, ifelse(n == 1, "", "s"))

format_bytes <- function(bytes) {
  format(structure(bytes, class = "object_size"), units = "auto", standard = "SI")
}

print_table <- function(title, table) {
  cat("\n", title, ":\n", sep = "")
  if (nrow(table) == 0L) {
    cat("none\n")
  } else {
    table$dtype <- types(table)
    table$shape <- NULL
    if (!any(nzchar(table$name))) {
      table$name <- NULL
    }
    if (all(is.na(table$sharding))) {
      table$sharding <- NULL
    }
    names(table)[names(table) == "dtype"] <- "type"
    print(table, right = FALSE)
  }
}

describe_executable <- function(executable) {
  if (inherits(executable, "PJRTExecutable")) {
    check_unloaded(executable, "executable")
    return(unclass(executable))
  }
  check_executable(executable)
  call_native(ffi_executable_describe, executable)
}

# Refuses an executable that was compiled for a topology.
check_loaded <- function(x, name = "`x`") {
  if (inherits(x, "PJRTExecutable")) {
    abort_input(
      name, " is not loaded: it was compiled for a topology, whose devices may be elsewhere.",
      hints = advice$executable_unloaded()
    )
  }
}

check_executable <- function(executable) {
  check_loaded(executable, "`executable`")
  if (!inherits(executable, "PJRTLoadedExecutable")) {
    abort_type(
      "`executable` must be a `PJRTLoadedExecutable`, not ", given(executable), "; create it with pjrt_compile()."
    )
  }
}

# A data frame from columns of equal length, which may be lists.
as_table <- function(columns) {
  structure(columns, class = "data.frame", row.names = .set_row_names(length(columns[[1L]])))
}

# A value, or `otherwise` if the plugin does not support it, or cannot be asked any more.
if_supported <- function(value, otherwise) {
  no <- function(e) otherwise
  tryCatch(
    value, pjrt_error_unimplemented = no, pjrt_error_unsupported_call = no, pjrt_error_client_closed = no,
    pjrt_error_forked = no, pjrt_error_plugin_poisoned = no
  )
}
