#' Create a program
#'
#' `pjrt_program()` reads a program from text, bytes or a file, for [pjrt_compile()].
#'
#' @param src A character vector with the program's text, or a raw vector with its bytes.
#' @param path A string: a file with the program, instead of `src`.
#' @param format A string: `"mlir"` for StableHLO as text, MLIR bytecode or a portable artifact, or `"hlo"` for a serialized
#'   `HloModuleProto` that has not been optimized. From a file that `jax.export` wrote, `"mlir"` takes only the program. Use
#'   [pjrt_load_exported()] to check that it can run, and to see its arguments.
#' @return A `PJRTProgram`.
#' @section Errors:
#' `pjrt_error_invalid_input`:
#' * unless exactly one of `src` and `path` is given, or if `src` is the name of a file.
#' * if the program is empty or nested too deeply for a compiler.
#' * for `"hlo"` if it is not an HLO module, or an optimized one, which would crash XLA.
#' * for other data: HLO text, Python code, pickles, safetensors files, archives and TensorFlow models. The message says how to
#'   get StableHLO.
#'
#' [pjrt_compile()] finds other mistakes.
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
#' pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
#' @export
pjrt_program <- function(src = NULL, path = NULL, format = c("mlir", "hlo")) {
  format <- match_format(format)
  if (is.null(src) == is.null(path)) {
    abort_input("Either src or path must be provided, and not both.")
  }
  if (!is.null(path)) {
    check_string(path, "path")
    return(call_with_text(ffi_program_read, full_path(path), format))
  }
  if (!is.raw(src)) {
    src <- program_bytes(src)
  }
  call_native(ffi_program_new, src, format)
}

# The bytes of a program's text, from a string or a vector of lines.
program_bytes <- function(src) {
  if (!is.character(src) || anyNA(src)) {
    abort_input("`src` must be the program's text or a raw vector, not ", given(src), ".")
  }
  if (length(src) == 1L) {
    check_not_path(src)
  }
  # pasting would copy a large program three times
  text <- if (length(src) == 1L) src else paste(src, collapse = "\n")
  c(charToRaw(enc2utf8(text)), as.raw(10L))
}

# Refuses a path given as a program's text: one line that names a file or ends like the name of one.
check_not_path <- function(src) {
  is_text <- Encoding(src) == "bytes" || !validEnc(src) || nchar(src, "bytes") > 1000L || grepl("[\n{(]", src, useBytes = TRUE)
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

check_program <- function(program) {
  if (!inherits(program, "PJRTProgram")) {
    abort_input("`program` must be a `PJRTProgram`, not ", given(program), "; create it with pjrt_program().")
  }
}

match_format <- function(format) {
  formats <- c("mlir", "hlo")
  if (identical(format, formats)) {
    return("mlir")
  }
  if (!is.character(format) || length(format) != 1L || !format %in% formats) {
    abort_input("`format` must be \"mlir\" or \"hlo\", not ", given(format), ".")
  }
  format
}

#' @export
format.PJRTProgram <- function(x, ..., n = 10) {
  if (!is_whole_number(n) || n < 0) {
    abort_input("`n` must be a number of lines, such as 10 or Inf, not ", given(n), ".")
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
