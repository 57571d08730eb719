#' Create a program
#'
#' `pjrt_program()` reads a program from text, bytes or a file, for [pjrt_compile()].
#'
#' @param src A character vector with the program's text, or a raw vector with its bytes.
#' @param path A string: a file with the program, instead of `src`.
#' @param format A string: `"mlir"` for StableHLO as text, MLIR bytecode or a portable artifact, or `"hlo"` for a
#'   serialized `HloModuleProto` that has not been optimized. From a file that `jax.export` wrote, `"mlir"` reads the
#'   program. Use [pjrt_load_exported()] to see its arguments, and for functions with symbolic dimensions or for several
#'   platforms.
#' @param types A named list, or a named character vector. Each `{NAME}` in the program's text is replaced with the
#'   element `NAME`; see below.
#' @return A `PJRTProgram`. `as.character()` returns its whole text, which compiles again; MLIR bytecode is decoded. Of
#'   an HLO module it is a description.
#' @section Types:
#' Shapes in a program are fixed, so R code often fills them in. `types` has a value for each name in the text. Names
#' consist of letters, digits and underscores, and start with a letter. A value can be:
#' * a string, which is inserted as it is: a type such as `"100x4xf64"` for `tensor<{X}>`, or any other part of the
#'   text, such as an attribute. To insert a constant with all its digits, use [format_buffer()].
#' * whole numbers, as dimensions: `dim(x)` of a 100 x 4 matrix becomes `100x4`, for `tensor<{DIM}xf64>`.
#' * a buffer: its type, such as `100x4xf64`.
#'
#' Other braces in the text stay as they are, and inserted strings are not searched for names.
#' @section Errors:
#' `pjrt_error_invalid_input`:
#' * unless exactly one of `src` and `path` is given, or if `src` is the name of a file.
#' * if a file of `jax.export` contains a program that cannot be compiled alone; [pjrt_load_exported()] loads it.
#' * if the program has no bytes, or is nested too deeply for a compiler.
#' * for `"hlo"` if it is not an HLO module, or an optimized one, which would crash XLA.
#' * for `types` with other values, with names that the program does not use, and if there is no type for a name within
#'   `tensor<>` or `dense<>`.
#' * for other data: HLO text, Python code, pickles, safetensors files, archives and TensorFlow models. The message says
#'   how to get StableHLO.
#'
#' [pjrt_compile()] finds other mistakes. `as.character()` raises `pjrt_error_unsupported_program` for bytecode with
#' operations or attributes that it cannot decode.
#' @seealso `vignette("stablehlo")`, which explains how to write programs (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program("
#' func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
#'   %0 = stablehlo.multiply %x, %x : tensor<2xf32>
#'   return %0 : tensor<2xf32>
#' }")
#' program
#' square <- pjrt_compile(program)
#' pjrt_execute(square, pjrt_buffer(c(3, 4)))
#'
#' # the same for a matrix of any shape
#' x <- pjrt_buffer(matrix(1:6, nrow = 2), "f32")
#' program <- pjrt_program("
#' func.func @main(%x: tensor<{X}>) -> tensor<{X}> {
#'   %0 = stablehlo.multiply %x, %x : tensor<{X}>
#'   return %0 : tensor<{X}>
#' }", types = list(X = x))
#' pjrt_execute(pjrt_compile(program), x)
#'
#' # from a file that JAX exported: bytecode, which is decoded
#' path <- system.file("exported", "network.jaxexport", package = "pjrt")
#' network <- pjrt_program(path = path)
#' text <- strsplit(as.character(network), "\n")[[1]]
#' substr(text[3:6], 1, 70)
#' @usage
#' pjrt_program(
#'   src = NULL, path = NULL, format = c("mlir", "hlo"), types = NULL
#' )
#' @export
pjrt_program <- function(src = NULL, path = NULL, format = c("mlir", "hlo"), types = NULL) {
  format <- match_format(format)
  if (is.null(src) == is.null(path)) {
    abort_input("Either src or path must be provided, and not both.")
  }
  types <- check_types(types)
  if (!is.null(path)) {
    check_string(path, "path")
    program <- call_with_text(ffi_program_read, full_path(path), format)
  } else {
    program <- call_native(ffi_program_new, if (is.raw(src)) src else program_bytes(src), format)
  }
  if (length(types) > 0L) fill_types(program, types) else program
}

# The bytes of a program's text, from a string or a vector of lines.
program_bytes <- function(src) {
  if (!is.character(src) || anyNA(src)) {
    abort_type("`src` must be the program's text or a raw vector, not ", given(src), ".")
  }
  if (length(src) == 1L) {
    check_not_path(src)
  }
  # pasting would copy a large program three times
  text <- if (length(src) == 1L) src else paste(src, collapse = "\n")
  text <- as_utf8(text)
  if (endsWith(text, "\n")) charToRaw(text) else c(charToRaw(text), as.raw(10L))
}

# Refuses a path given as a program's text: one line that names a file or ends like the name of one.
check_not_path <- function(src) {
  is_text <- Encoding(src) == "bytes" || !validEnc(src) || nchar(src, "bytes") > 1000L ||
    grepl("[\n{(]", src, useBytes = TRUE)
  if (is_text || !nzchar(src)) {
    return(invisible())
  }
  is_file <- file.exists(src) && !dir.exists(src)
  if (is_file || grepl("^[^ ]+[.](mlir|mlirbc|stablehlo|hlo|pb|txt)$", src, useBytes = TRUE)) {
    abort_input(
      "`src` must be the program's text, not the ", if (is_file) "path" else "name", " of a file: '", src, "'.",
      hints = "To read a file, pass its name as `path = `."
    )
  }
}

# The texts that replace names in a program.
check_types <- function(types) {
  if (is.null(types)) {
    return()
  }
  if (!typeof(types) %in% c("list", "character") || is.object(types)) {
    abort_type("`types` must be a named list or character vector, not ", given(types), ".")
  }
  names <- names(types) %||% rep("", length(types))
  if (!all(grepl("^[A-Za-z][A-Za-z0-9_]*$", names, useBytes = TRUE)) || anyDuplicated(names) > 0L) {
    abort_input("`types` must have unique names of letters, digits and underscores that start with a letter.")
  }
  texts <- lapply(names, function(name) type_text(types[[name]], name))
  structure(as.character(texts), names = names)
}

# A type in StableHLO, or other text, from a value in `types`.
type_text <- function(x, name) {
  if (inherits(x, "PJRTBuffer")) {
    return(paste(c(shape(x), .Call(ffi_dtype_mlir, elt_type(x))), collapse = "x"))
  }
  if (!is.object(x) && is_valid_text(x)) {
    return(enc2utf8(x))
  }
  is_size <- function(n) is_whole_number(n) && n >= 0 && n <= 2^53
  if (is.numeric(x) && length(x) > 0L && all(vapply(x, is_size, NA))) {
    return(paste(format(x, scientific = FALSE, trim = TRUE), collapse = "x"))
  }
  abort_type("`types$", name, "` must be a string, dimensions or a buffer, not ", given(x), ".")
}

# Replaces each `{NAME}` that `types` has in a program's text.
fill_types <- function(program, types) {
  described <- call_native(ffi_program_describe, program)
  if (described$format != "mlir") {
    abort_input("`types` requires a program as StableHLO text, not an HLO module.")
  }
  found <- gregexpr("\\{[A-Za-z][A-Za-z0-9_]*\\}", described$text, perl = TRUE)
  places <- regmatches(described$text, found)[[1L]]
  names <- substring(places, 2L, nchar(places) - 1L)
  filled <- ifelse(names %in% names(types), types[names], places)
  pieces <- regmatches(described$text, found, invert = TRUE)[[1L]]
  text <- paste0(pieces, c(filled, ""), collapse = "")
  check_filled(unfilled(text), setdiff(names(types), names))
  call_native(ffi_program_new, charToRaw(text), "mlir")
}

# The names left where a type or a constant must be. Elsewhere, `{name}` may be an attribute.
unfilled <- function(text) {
  within <- "tensor<[^<>(),\"]*\\{[A-Za-z][A-Za-z0-9_]*\\}|dense<[^<>\"]*\\{[A-Za-z][A-Za-z0-9_]*\\}"
  parts <- regmatches(text, gregexpr(within, text, perl = TRUE))[[1L]]
  unique(unlist(regmatches(parts, gregexpr("\\{[A-Za-z][A-Za-z0-9_]*\\}", parts, perl = TRUE))))
}

check_filled <- function(unfilled, unused) {
  if (length(unfilled) > 0L || length(unused) > 0L) {
    abort_input(
      paste(c(
        if (length(unfilled) > 0L) sprintf("The program has names that `types` lacks: %s.", toString(unfilled)),
        if (length(unused) > 0L) sprintf("`types` has names that the program does not use: %s.", toString(unused))
      ), collapse = " ")
    )
  }
}

check_program <- function(program) {
  if (!inherits(program, "PJRTProgram")) {
    abort_type("`program` must be a `PJRTProgram`, not ", given(program), "; create it with pjrt_program().")
  }
}

match_format <- function(format) {
  formats <- c("mlir", "hlo")
  if (identical(format, formats)) {
    return("mlir")
  }
  is_string <- is.character(format) && length(format) == 1L
  if (!is_string || !format %in% formats) {
    abort_input(
      "`format` must be \"mlir\" or \"hlo\", not ", given(format), ".",
      class = if (is_string) "invalid_value" else "invalid_type"
    )
  }
  format
}

#' @export
format.PJRTProgram <- function(x, ..., n = 10) {
  if (!is_whole_number(n) || n < 0) {
    abort_type("`n` must be a number of lines, such as 10 or Inf, not ", given(n), ".")
  }
  dead <- dead_text(x, "PJRTProgram")
  if (!is.null(dead)) {
    return(dead)
  }
  described <- call_native(ffi_program_describe, x)
  lines <- strsplit(described$text, "\n", fixed = TRUE)[[1L]]
  shown <- utils::head(lines, n)
  paste0(
    sprintf("PJRTProgram(format=%s, code_size=%.0f)\n", described$format, described$code_size),
    paste0(shown, "\n", collapse = ""),
    if (length(shown) < length(lines)) "..."
  )
}

#' @export
print.PJRTProgram <- function(x, ..., n = 5) {
  cat(format(x, n = n), "\n")
  invisible(x)
}

#' @export
as.character.PJRTProgram <- function(x, ...) {
  check_unused(...)
  check_program(x)
  call_native(ffi_program_text, x)
}
