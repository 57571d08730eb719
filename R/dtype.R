#' Element type of a buffer
#'
#' `elt_type()` gives PJRT's name of the type. `dtype()` gives the type as package tengen knows it when that is
#' installed, and else a string of the same class that prints and compares the same; there `"pred"` is called `"bool"`.
#'
#' @param x A `PJRTBuffer`.
#' @param ... For methods.
#' @return `elt_type()`: a string of class `PJRTElementType`, such as `"f32"`; compare it with strings by `==`.
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
  found <- .Call(ffi_quick_dtype, x)
  if (is.null(found)) UseMethod("dtype") else found
}

#' @export
dtype.PJRTBuffer <- function(x, ...) {
  data_type(elt_type(x))
}

#' @export
dtype.default <- function(x, ...) {
  abort_class(x, "PJRTBuffer")
}

# The name of an element type outside of PJRT, where "pred" is "bool".
data_type_name <- function(type) {
  name <- as.character(type)
  if (name == "pred") "bool" else name
}

#' @export
as.character.PJRTElementType <- function(x, ...) {
  if (!is.atomic(x) && !is.list(x)) {
    abort_input("`x` must be a `", class(x)[[1L]], "`: it has the class, but this package did not make it.")
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

dtype_text <- function(x) {
  if (!is.atomic(x) && !is.list(x)) {
    abort_input("A dtype can be compared with another one or with a string, not with ", given(x), ".")
  }
  as.character(x)
}

#' @export
`!=.PJRTElementType` <- function(e1, e2) {
  !(e1 == e2)
}

# The string class that stands in for tengen's has a class in front, which the methods are for: tengen registers its own for
# "DataType".

#' @export
as.character.PJRTDataType <- as.character.PJRTElementType

#' @export
format.PJRTDataType <- format.PJRTElementType

#' @export
print.PJRTDataType <- print.PJRTElementType

#' @export
`==.PJRTDataType` <- `==.PJRTElementType`

#' @export
`!=.PJRTDataType` <- `!=.PJRTElementType`

# Both classes have methods for comparisons. R 4.3 and later ask which to take; earlier ones take none and warn.
choose_comparison <- function(x, y, ...) inherits(y, "DataType")

register_choice <- function() {
  if (exists("chooseOpsMethod", baseenv())) {
    registerS3method("chooseOpsMethod", "PJRTDataType", choose_comparison)
  }
}
