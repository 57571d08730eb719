#' Get the element type of a buffer
#'
#' `elt_type()` returns the type under PJRT's name. `dtype()` returns it as a data type of package tengen if that is
#' installed, and otherwise as a string that prints and compares the same. It calls `"pred"` `"bool"`.
#'
#' @param x A `PJRTBuffer`.
#' @param ... For methods.
#' @return `elt_type()`: a string of class `PJRTElementType`, such as `"f32"`, which you can compare with a string.
#'   `dtype()`: a string of class `DataType`.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(c(TRUE, FALSE))
#' elt_type(x)
#' elt_type(x) == "pred"
#' dtype(x)
#' @export
elt_type <- function(x) {
  .Call(ffi_buffer_dtype, x)
}

#' @rdname elt_type
#' @export
dtype <- function(x, ...) {
  found <- if (...length() == 0L) .Call(ffi_fast_dtype, x)
  if (is.null(found)) UseMethod("dtype") else found
}

#' @export
dtype.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  data_type(elt_type(x))
}

#' @export
dtype.default <- function(x, ...) {
  pass_on("dtype", x, "PJRTBuffer", ...)
}

# The name of an element type outside PJRT, where "pred" is "bool".
data_type_name <- function(type) {
  name <- as.character(type)
  if (name == "pred") "bool" else name
}

#' @export
as.character.PJRTElementType <- function(x, ...) {
  check_unused(...)
  if (!is.atomic(x) && !is.list(x)) {
    abort_type("`x` must be a `", class(x)[[1L]], "`: it has the class, but this package did not make it.")
  }
  as.character(unclass(x))
}

#' @export
format.PJRTElementType <- function(x, ...) {
  as.character(x)
}

#' @export
print.PJRTElementType <- function(x, ...) {
  cat("<", as.character(x), ">\n", sep = "")
  invisible(x)
}

#' @export
`==.PJRTElementType` <- function(e1, e2) {
  dtype_text(e1) == dtype_text(e2)
}

# The name in a dtype or a data type; native code calls this by name.
dtype_text <- function(x) {
  if (!is.null(x) && !is.atomic(x) && !is.list(x)) {
    abort_type("A dtype can be compared with a dtype or a string, not with ", given(x), ".")
  }
  as.character(x)
}

#' @export
`!=.PJRTElementType` <- function(e1, e2) {
  !(e1 == e2)
}
