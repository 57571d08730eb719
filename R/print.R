#' Print a buffer
#'
#' `print()` shows a buffer's elements. Only what is shown is read from the device. A buffer that can no longer be read
#' prints as one line, such as `<PJRTBuffer f32[3], deleted>`, and so does a buffer in a list that R prints, with its
#' value if it is a scalar.
#'
#' Vectors print along the line after `[1]`, as R prints them, and so do buffers of dtype `pred`, as `TRUE` and `FALSE`,
#' and matrices with column names: those that the data frame or matrix given to [pjrt_buffer()] had. Other buffers print
#' in aligned columns, and arrays of three and more dimensions as slices. There, integers are shown with all digits, and
#' missing values as `NA` if [as_array()] reads them so. Floats have 3 digits less after the decimal point than
#' `options(digits = )`: 4 by default.
#'
#' `options(pjrt.print_style = "R")` prints all buffers as R prints arrays, and `"columns"` prints all in columns, with
#' `pred` as 1 and 0. So does a call with `header` or `footer`, for packages that lay out the text themselves.
#'
#' @param x A `PJRTBuffer`.
#' @param max_rows A whole number: how many rows are shown in total, including all slices and column chunks; -1 for no
#'   limit.
#' @param max_width A whole number: the width of a line in characters; negative for no limit. Default: that of
#'   `options(pjrt.print_max_width = )`, or `options(width = )`, where 85 stands for R's default of 80.
#' @param max_rows_slice A whole number: how many rows of a slice are shown; -1 for no limit.
#' @param header A flag: whether to show the class in the first line.
#' @param footer A string: the last line. Default: platform, dtype and shape; `""` for none.
#' @param ... For methods.
#' @return `x`, invisibly.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' print(pjrt_buffer(matrix(1:30, 2)), max_width = 20)
#' print(pjrt_buffer(1:3), header = FALSE, footer = "")
#' @export
print.PJRTBuffer <- function(x, max_rows = getOption("pjrt.print_max_rows", 30L),
                             max_width = getOption("pjrt.print_max_width", line_width()),
                             max_rows_slice = getOption("pjrt.print_max_rows_slice", max_rows), header = TRUE,
                             footer = NULL, ...) {
  check_limit(max_rows, if (missing(max_rows)) "options(pjrt.print_max_rows = )" else "max_rows")
  check_limit(
    max_rows_slice, if (missing(max_rows_slice)) "options(pjrt.print_max_rows_slice = )" else "max_rows_slice"
  )
  if (!is_whole_number(max_width) || max_width %in% c(0, 1)) {
    name <- if (missing(max_width)) "options(pjrt.print_max_width = )" else "max_width"
    abort_type("`", name, "` must be a whole number above 1, or negative for no limit, not ", given(max_width), ".")
  }
  check_flag(header, "header")
  if (!is.null(footer) && !is_text(footer)) {
    abort_type("`footer` must be NULL or one string, not ", given(footer), ".")
  }
  # callers who lay out the text of an array want an error, not a line of ours
  is_laid_out <- !missing(header) || !is.null(footer)
  dead <- if (!is_laid_out || !.Call(ffi_object_fate, x) %in% c("deleted", "donated")) dead_buffer(x)
  if (!is.null(dead)) {
    cat(dead, "\n", sep = "")
    return(invisible(x))
  }
  if (!is_laid_out && is_list_element(x, sys.call(-1L))) {
    cat(buffer_line(x), "\n", sep = "")
    return(invisible(x))
  }
  pieces <- if (!is_laid_out && print_style(x) == "R") {
    width <- if (missing(max_width)) getOption("pjrt.print_max_width", getOption("width")) else max_width
    lines_of_r(x, max_rows, width, max_rows_slice)
  } else {
    call_native(
      ffi_buffer_lines, x, as.double(max_rows), as.double(max_width), as.double(max_rows_slice), print_decimals()
    )
  }
  footer <- footer %||% buffer_footer(x)
  text <- c(if (header) "PJRTBuffer \n", pieces, if (nzchar(footer)) paste(footer, "\n"))
  if (length(pieces) == 1L) {
    cat(text, sep = "")
    return(invisible(x))
  }
  for (piece in text) {
    # lets the user interrupt
    Sys.sleep(0)
    cat(piece)
  }
  invisible(x)
}

# Whether R prints `x` as an element of a list. R itself calls print() as a function without a name: for elements of
# lists, and at top level, where it prints `.Last.value`.
is_list_element <- function(x, call) {
  if (!(is.function(call[[1L]]) && identical(call[[2L]], quote(x)))) {
    return(FALSE)
  }
  callers <- lapply(seq_len(sys.nframe()), sys.function)
  any(vapply(callers, identical, NA, print.default)) || !identical(.Last.value, x)
}

buffer_line <- function(x) {
  line <- format(x)
  if (length(shape(x)) > 0L) {
    return(line)
  }
  value <- call_native(ffi_buffer_lines, x, 1, -1, 1, print_decimals())
  paste0(line, ": ", trimws(paste(value, collapse = "")))
}

# The default width of a line. R's own default, 80, stands for that of r-xla/pjrt.
line_width <- function() {
  width <- getOption("width")
  if (width == 80) 85L else max(width, 2L)
}

# Digits of floats after the decimal point.
print_decimals <- function() as.double(max(getOption("digits") - 3, 1))

print_style <- function(x) {
  style <- getOption("pjrt.print_style", "auto")
  if (!(is.character(style) && length(style) == 1L && style %in% c("auto", "columns", "R"))) {
    abort_type("`options(pjrt.print_style = )` must be \"auto\", \"columns\" or \"R\", not ", given(style), ".")
  }
  if (style != "auto") {
    return(style)
  }
  # R shows the dimensions of arrays without elements
  if (0 %in% shape(x)) {
    return("columns")
  }
  is_vector <- length(shape(x)) == 1L
  has_names <- !is.null(attr(x, "column_names", exact = TRUE))
  if (is_vector || has_names || unclass(elt_type(x)) == "pred") "R" else "columns"
}

# The lines that R prints for a buffer's array. Reads no more of each dimension than so many rows can show.
lines_of_r <- function(x, max_rows, max_width, max_rows_slice) {
  width <- if (max_width < 0) 10000 else min(max(max_width, 10), 10000)
  old <- options(width = width, max.print = .Machine$integer.max, pjrt.check = FALSE)
  on.exit(options(old))
  rows <- if (max_rows < 0) Inf else max_rows
  slice_rows <- min(rows, if (max_rows_slice < 0) Inf else max_rows_slice)
  # a digit and a space are the least that an element takes
  per_line <- if (max_width < 0) Inf else max_width %/% 2
  dims <- shape(x)
  is_vector <- length(dims) < 2L
  limits <- pmin(dims, if (is_vector) slice_rows * per_line else c(slice_rows, rep(rows * per_line, length(dims) - 1L)))
  is_whole <- identical(as.double(limits), as.double(dims))
  part <- function(...) do.call(`[`, c(list(x), lapply(limits, seq_len), drop = FALSE, list(...)))
  if (elt_type(x) == "ui64") {
    # R has no type for them
    shown <- noquote(format_buffer(if (is_whole) x else part(as = "buffer")), right = TRUE)
  } else {
    shown <- if (is_whole) as_array(x) else part()
  }
  if (inherits(shown, "integer64")) {
    # without the line that says the class, which the footer says
    load_bit64()
    text <- as.character(shown)
    text[is.na(text)] <- "NA"
    dim(text) <- dim(shown)
    shown <- noquote(text, right = TRUE)
  }
  names <- attr(x, "column_names", exact = TRUE)
  if (!is.null(names) && length(dims) == 2L) {
    colnames(shown) <- names[seq_len(ncol(shown))]
  }
  lines <- utils::capture.output(shown)
  # the others are headings
  row_lines <- if (is_vector) seq_along(lines) else grep("^ *\\[[0-9]+,\\]", lines)
  most <- if (is_vector) slice_rows else rows
  is_cut <- length(row_lines) > most
  if (is_cut) {
    lines <- utils::head(lines, row_lines[[most]])
  }
  paste0(c(lines, if (is_cut || !is_whole) " ... [output was truncated, set max_rows = -1 to see all]"), "\n")
}

buffer_footer <- function(x) {
  type <- data_type_name(unclass(elt_type(x)))
  paste0("[ ", toupper(platform(x)), type, "{", paste(shape(x), collapse = "x"), "} ]")
}

check_limit <- function(x, name) {
  if (!is_whole_number(x) || (x < 1 && x != -1)) {
    abort_type("`", name, "` must be a whole number of at least 1, or -1 for no limit, not ", given(x), ".")
  }
}

#' Format elements as StableHLO constants
#'
#' @param buffer A `PJRTBuffer`.
#' @return A character vector with the buffer's dimensions. Finite floats have all their digits (`"1.23000002e+00"`),
#'   other floats are their bits in hexadecimal. Integers are decimal, and logical values `"true"` and `"false"`.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' format_buffer(pjrt_buffer(c(1.23, NaN)))
#' format_buffer(pjrt_scalar(TRUE))
#' @export
format_buffer <- function(buffer) {
  if (!inherits(buffer, "PJRTBuffer")) {
    abort_type("`buffer` must be a `PJRTBuffer`, not ", given(buffer), ".")
  }
  call_native(ffi_buffer_literals, buffer)
}
