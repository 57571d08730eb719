#' Inspect an executable
#'
#' What an executable takes and gives, what it costs, what memory it needs, and what the compiler made of the program.
#' `summary()` tells all of it at once. Of a program that is cut into partitions, shapes, costs and memory are those of
#' one part.
#'
#' @param executable A `PJRTLoadedExecutable`, from [pjrt_compile()].
#' @param format `"text"` for HLO text, `"bytes"` for a serialized `HloModuleProto`.
#' @param x,object A `PJRTLoadedExecutable`.
#' @param ... Not used.
#' @return
#' * `executable_inputs()`: a data frame with one row for each input, in the program's order.
#'   - `name`: the name in the program's source, such as `"%x"`; for bytecode what the compiler knows of it.
#'   - `dtype`, and `shape`: a list of integer vectors.
#'   - `layout`: the dimensions from fastest to slowest varying, counted from 0, as in HLO; `"{1,0}"` is row-major.
#'   - `donated`: whether an execution takes over the input's memory.
#'   - `alias`: the output that then lives there, counted from 1; `NA` for none.
#'   - `memory_kind`: the memory space that the program asks for, such as `"device"`; `NA` when unknown. A CPU takes
#'     every space for the same.
#'   - `sharding`: how the whole array lies on the partitions, as HLO writes it; `NA` where there is one partition.
#'     `"devices=[2,2]<=[4]"` are the four parts of a matrix, `"devices=[2,1,2]<=[4] last_tile_dim_replicate"` two parts of
#'     its rows on two devices each, and what is `"replicated"` all have. See [pjrt_shard()].
#' * `executable_outputs()`: a data frame like it, without names, whose `alias` is the input in whose memory the output
#'   lives.
#' * `executable_cost()`: what the compiler reckons that one execution costs, a named numeric vector. `flops` are
#'   floating point operations, `transcendentals` those like `exp`, `bytes accessed` all reading and writing of memory.
#'   Further values are the plugin's own.
#' * `executable_memory_stats()`: the bytes that an execution takes on the device, and with `host_` on the host, a named
#'   numeric vector. `alias_size_in_bytes` counts what outputs share with inputs, `temp_size_in_bytes` intermediate
#'   results. `NA` stands for what the plugin is too old to tell.
#' * `executable_fingerprint()`: a string, equal for programs that were compiled to the same.
#' * `executable_hlo()`: the program after the compiler's optimizations, for one device: a string that prints as it
#'   is, or a raw vector, for other tools: it cannot be compiled once more. [inspect_hlo()] shows it next to the program
#'   before that.
#' * `format()`: the program's signature in a line.
#' * `summary()`: a list with everything: `name`, `inputs`, `outputs`, `num_replicas`, `num_partitions`, `origin`,
#'   `devices`, `fingerprint`, `cost`, `memory` and `code_size`, the bytes of machine code. `origin` tells whether it was
#'   `"compiled"` now without a cache, was `"missed"` by the cache and compiled, came from the `"cache"`, or was `"saved"`, and
#'   how long the compiler took. What the plugin does not tell is `NA` or `NULL`.
#' * `print()`: whether the cache had it, where it was asked.
#' @section Errors:
#' `pjrt_error_unimplemented` or `pjrt_error_unsupported_call` for what is not supported by the plugin.
#' @seealso [device()] and [devices()] for where it runs, [inspect_hlo()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' step <- pjrt_compile(pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt")))
#' summary(step)
#'
#' executable_inputs(step)
#' executable_cost(step)[["flops"]]
#' executable_memory_stats(step)[["temp_size_in_bytes"]]
#' writeLines(head(strsplit(executable_hlo(step), "\n")[[1]]))
#' @name executable
NULL

#' @rdname executable
#' @export
executable_inputs <- function(executable) {
  as_table(describe_executable(executable)$inputs)
}

#' @rdname executable
#' @export
executable_outputs <- function(executable) {
  as_table(describe_executable(executable)$outputs)
}

#' @rdname executable
#' @export
executable_cost <- function(executable) {
  check_executable(executable)
  call_native(ffi_executable_costs, executable)
}

#' @rdname executable
#' @export
executable_memory_stats <- function(executable) {
  check_executable(executable)
  call_native(ffi_executable_memory_stats, executable)
}

#' @rdname executable
#' @export
executable_fingerprint <- function(executable) {
  check_executable(executable)
  call_native(ffi_executable_fingerprint, executable)
}

#' @rdname executable
#' @export
executable_hlo <- function(executable, format = c("text", "bytes")) {
  check_executable(executable)
  if (check_choice(format, c("text", "bytes"), "format") == "text") {
    hlo_source(call_native(ffi_executable_optimized_text, executable), "after_optimizations")
  } else {
    call_native(ffi_executable_optimized_bytes, executable)
  }
}

#' @rdname executable
#' @export
format.PJRTLoadedExecutable <- function(x, ...) {
  described <- tryCatch(describe_executable(x), pjrt_error_invalid_pointer = function(e) NULL)
  # as loaded with a workspace, whose objects must be shown all the same
  if (is.null(described)) "PJRTLoadedExecutable of another session" else signature_line(described)
}

#' @export
print.PJRTLoadedExecutable <- function(x, ...) {
  cat("<PJRTLoadedExecutable>\n")
  made <- tryCatch(call_native(ffi_executable_origin, x), pjrt_error_invalid_pointer = function(e) NULL)
  # what is compiled without a cache prints no more than that
  if (!is.null(made) && made$origin != "compiled") {
    cat("  ", origin_line(made), "\n", sep = "")
  }
  invisible(x)
}

#' @rdname executable
#' @export
summary.PJRTLoadedExecutable <- function(object, ...) {
  described <- describe_executable(object)
  structure(
    list(
      name = described$name,
      inputs = as_table(described$inputs),
      outputs = as_table(described$outputs),
      num_replicas = described$num_replicas,
      num_partitions = described$num_partitions,
      origin = call_native(ffi_executable_origin, object),
      devices = devices(object),
      fingerprint = if_supported(executable_fingerprint(object), NA_character_),
      cost = if_supported(executable_cost(object), NULL),
      memory = if_supported(executable_memory_stats(object), NULL),
      code_size = if_supported(call_native(ffi_executable_code_bytes, object), NA_real_)
    ),
    class = "summary.PJRTLoadedExecutable"
  )
}

#' @export
print.summary.PJRTLoadedExecutable <- function(x, ...) {
  check_made(x, "summary.PJRTLoadedExecutable", parts = c("name", "devices", "inputs", "outputs"))
  cat("<PJRTLoadedExecutable>\n")
  cat("Name:        ", x$name, "\n", sep = "")
  cat("Devices:     ", toString(vapply(x$devices, as.character, "")), "\n", sep = "")
  cat("Parts:       ", x$num_replicas, " replica(s), ", x$num_partitions, " partition(s)\n", sep = "")
  if (x$origin$origin != "compiled") {
    cat("Origin:      ", origin_line(x$origin), "\n", sep = "")
  }
  cat("Fingerprint: ", if (is.na(x$fingerprint)) "not told by this plugin" else x$fingerprint, "\n", sep = "")
  print_figures("Cost", x$cost[c("flops", "transcendentals", "bytes accessed")], format_count)
  print_figures("Memory", memory_figures(x$memory), format_bytes)
  print_table("Inputs", x$inputs)
  print_table("Outputs", x$outputs)
  invisible(x)
}

# `main(%x: f32[2x2] donated, %y: f32[2x2]) -> f32[2x2]`, with an ellipsis for most of many.
signature_line <- function(described) {
  inputs <- described$inputs
  names <- ifelse(nzchar(inputs$name), paste0(inputs$name, ": "), "")
  inputs <- paste0(names, types(inputs), ifelse(inputs$donated, " donated", ""), recycle0 = TRUE)
  outputs <- types(described$outputs)
  result <- toString(some_of(outputs))
  if (length(outputs) != 1L) {
    result <- paste0("(", result, ")")
  }
  sprintf("%s(%s) -> %s", described$name, toString(some_of(inputs)), result)
}

# Where an executable comes from, in words.
origin_line <- function(made) {
  words <- c(
    compiled = "compiled", missed = "not in the cache, compiled", cache = "from the cache, compiled",
    saved = "loaded, compiled"
  )
  sprintf("%s in %s s", words[[made$origin]], format(made$compile_seconds, digits = 2L))
}

# `f32[2x2]` for each row.
types <- function(table) {
  sprintf("%s[%s]", table$dtype, vapply(table$shape, paste, "", collapse = "x"))
}

some_of <- function(x, most = 8L) {
  if (length(x) <= most) x else c(x[seq_len(most - 2L)], sprintf("... %d more", length(x) - most + 2L))
}

print_figures <- function(title, figures, format) {
  figures <- figures[!is.na(figures)]
  if (length(figures) > 0L) {
    figures <- paste(names(figures), vapply(figures, format, ""), collapse = ", ")
    cat(sprintf("%-13s", paste0(title, ":")), figures, "\n", sep = "")
  }
}

# The memory that counts most, under short names.
memory_figures <- function(memory) {
  shown <- c(
    arguments = "argument_size_in_bytes", outputs = "output_size_in_bytes", shared = "alias_size_in_bytes",
    temporary = "temp_size_in_bytes", peak = "peak_memory_in_bytes"
  )
  if (!is.null(memory)) structure(memory[shown], names = names(shown))
}

format_count <- function(n) format(n, big.mark = ",", scientific = FALSE)

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
    if (all(is.na(table$sharding))) {
      table$sharding <- NULL
    }
    names(table)[names(table) == "dtype"] <- "type"
    print(table, right = FALSE)
  }
}

describe_executable <- function(executable) {
  check_executable(executable)
  call_native(ffi_executable_describe, executable)
}

check_executable <- function(executable) {
  if (!inherits(executable, "PJRTLoadedExecutable")) {
    abort_input("`executable` must be a `PJRTLoadedExecutable`, not ", given(executable), "; make one with pjrt_compile().")
  }
}

# A data frame of columns of one length, which may be lists.
as_table <- function(columns) {
  structure(columns, class = "data.frame", row.names = .set_row_names(length(columns[[1L]])))
}

# A value, or `otherwise` where the plugin does not tell it.
if_supported <- function(value, otherwise) {
  no <- function(e) otherwise
  tryCatch(value, pjrt_error_unimplemented = no, pjrt_error_unsupported_call = no)
}
