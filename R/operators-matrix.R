#' Compute with matrices
#'
#' These functions for matrices and arrays compute on the device and return buffers, as [operators] do. Elements are in
#' R's order.
#'
#' `%*%`, `crossprod()` and `tcrossprod()` treat vectors as rows or columns, as R does. For integers, the result has the
#' default float dtype.
#'
#' `diag()`, `crossprod()`, `tcrossprod()`, `rowSums()`, `colSums()`, `rowMeans()` and `colMeans()` take buffers when
#' this package is attached, and everything else as before, also the matrices of package Matrix. Otherwise, call
#' `pjrt::rowSums()` and so on. Before R 4.3, `%*%` also needs the package to be attached.
#'
#' @aliases %*%
#' @param x,y Buffers. One of two operands can be an R number, vector or matrix.
#' @param a A `PJRTBuffer`.
#' @param perm Whole numbers: the dimensions in their new order, by default reversed.
#' @param resize Must be `TRUE`.
#' @param value Whole numbers: the new dimensions. One of them may be -1: as large as the others allow. `NULL` for one
#'   dimension.
#' @param na.rm A flag: whether to leave out what is missing, as in [summaries].
#' @param dims A whole number: how many dimensions count as rows, as for [base::rowSums()].
#' @param nrow,ncol Numbers of rows and columns of a matrix with the diagonal `x`.
#' @param names Not used, since buffers have no names.
#' @param deparse.level Not used, since buffers have no names.
#' @param decreasing A flag: whether to sort the largest elements first.
#' @param na.last `NA` or `TRUE`: unlike R, `sort()` keeps NaN, at the end.
#' @param ... For `cbind()` and `rbind()`: buffers, and R numbers, vectors and matrices. Otherwise not used.
#' @return A `PJRTBuffer`. `rev()` and `sort()` have one dimension. `dim(x) <- value` assigns a new buffer with the same
#'   elements to `x`; other variables keep the old buffer.
#' @section Errors:
#' The errors of [operators].
#' @seealso [operators], [summaries]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, 2), "f32")
#' t(x)
#' x %*% t(x)
#' crossprod(x, c(1, 2))
#' rowSums(x)
#' cbind(1, x)
#' diag(pjrt_buffer(c(2, 3)))
#' dim(x) <- c(3, 2)
#' x
#' @name matrices
NULL

#' @rdname matrices
#' @export
t.PJRTBuffer <- function(x) {
  .Call(ffi_operator_1, "t", x, NULL)
}

#' @rdname matrices
#' @export
aperm.PJRTBuffer <- function(a, perm = NULL, resize = TRUE, ...) {
  check_unused(...)
  if (!isTRUE(resize)) {
    abort_input("`resize` must be TRUE: buffers without the dimensions of the result do not exist.")
  }
  rank <- length(shape(a))
  perm <- if (is.null(perm)) rev(seq_len(rank)) else integers(perm)
  if (is.null(perm) || !setequal(perm, seq_len(rank)) || length(perm) != rank) {
    abort_input("`perm` must be a permutation of the dimensions of `a`, which has ", rank, ".")
  }
  if (rank == 0L) duplicated_buffer(a) else .Call(ffi_operator_1, "aperm", a, perm - 1L)
}

#' @rdname matrices
#' @usage \method{dim}{PJRTBuffer}(x) <- value
#' @export
`dim<-.PJRTBuffer` <- function(x, value) {
  value <- if (is.null(value)) length(x) else plain_shape(value)
  if (!is.numeric(value) || is.object(value) || length(value) == 0L || !all(is_dimension(value))) {
    abort_type("The dimensions must be whole numbers, one of them -1 at most, not ", given(value), ".")
  }
  unknown <- value == -1
  rest <- length(x) / prod(value[!unknown])
  if (any(unknown) && !(is.finite(rest) && rest == trunc(rest))) {
    abort_input("The dimensions do not fit ", counted(length(x), "element"), ": no number fits for -1.")
  }
  value[unknown] <- rest
  .Call(ffi_operator_1, "dim", x, value)
}

# Whether numbers can be dimensions: whole numbers from 0, and one -1.
is_dimension <- function(value) {
  !is.na(value) & value == trunc(value) & (value >= 0 | (value == -1 & sum(value == -1, na.rm = TRUE) == 1L))
}

# A shape of integer64 as plain numbers; anything else as it is.
plain_shape <- function(shape) {
  if (inherits(shape, "integer64")) as_doubles(shape) else shape
}

#' @rdname matrices
#' @export
rev.PJRTBuffer <- function(x) {
  .Call(ffi_operator_1, "rev", x, NULL)
}

#' @rdname matrices
#' @export
sort.PJRTBuffer <- function(x, decreasing = FALSE, na.last = NA, ...) {
  check_unused(...)
  check_flag(decreasing, "decreasing")
  if (isFALSE(na.last)) {
    abort_operator("`sort()` of a buffer keeps NaN at the end: `na.last` must not be FALSE.")
  }
  .Call(ffi_operator_1, "sort", x, as.integer(decreasing))
}

#' @rdname matrices
#' @export
cbind.PJRTBuffer <- function(..., deparse.level = 1) {
  bound("cbind", list(...))
}

#' @rdname matrices
#' @export
rbind.PJRTBuffer <- function(..., deparse.level = 1) {
  bound("rbind", list(...))
}

bound <- function(name, parts) {
  .Call(ffi_operator_n, name, unname(parts[lengths(parts) > 0L | !vapply(parts, is.null, NA)]), NULL)
}

# The method of group matrixOps.
multiply <- function(x, y = NULL, ...) {
  product(.Generic, x, y)
}

product <- function(name, x, y) {
  .Call(ffi_operator_n, name, if (is.null(y) && name != "%*%") list(x) else list(x, y), NULL)
}

# R before 4.3 finds no S3 methods for `%*%`: attaching this package puts this function in front of base's.
matmul <- function(x, y) {
  if (inherits(x, "PJRTBuffer") || inherits(y, "PJRTBuffer")) product("%*%", x, y) else base::`%*%`(x, y)
}

# Raises the error for what an operator cannot do.
abort_operator <- function(..., class = "invalid_value") {
  pjrt_abort(paste0(...), c("operator", class), hints = advice$compute_in_r())
}

rows_or_columns <- function(name, x, na.rm, dims) {
  check_flag(na.rm, "na.rm")
  rank <- length(shape(x))
  if (rank < 2L) {
    abort_operator(
      "`", name, "()` needs an array of two dimensions or more: got ", counted(rank, "dimension"), ".",
      class = "shape_mismatch"
    )
  }
  if (!is_whole_number(dims) || dims < 1 || dims > rank - 1L) {
    abort_operator(
      "`", name, "()` of ", rank, " dimensions takes `dims` from 1 to ", rank - 1L, ", not ", given(dims), "."
    )
  }
  if (is_long(x) && name %in% c("rowMeans", "colMeans")) {
    sums <- if (name == "rowMeans") "rowSums" else "colSums"
    counted <- if (name == "rowMeans") -seq_len(dims) else seq_len(dims)
    total <- function(x) .Call(ffi_operator_1, sums, x, as.integer(dims))
    return(long_means(x, total, prod(shape(x)[counted]), na.rm))
  }
  .Call(ffi_operator_1, name, x, c(as.integer(dims), without_missing(na.rm)))
}

# For the S4 methods of other packages; see R/interop-matrix.R.
#' @importFrom methods setOldClass
setOldClass("PJRTBuffer")

# Functions of base without methods. As S4 generics, they would take a third of the time of loading this package.
product_functions <- c("crossprod", "tcrossprod")
matrix_functions <- c("rowSums", "colSums", "rowMeans", "colMeans", "diag", product_functions)

#' @rdname matrices
#' @export
rowSums <- function(x, na.rm = FALSE, dims = 1, ...) {
  if (is_buffer(x)) {
    rows_or_columns("rowSums", x, na.rm, dims)
  } else if (isS4(x)) {
    shared_generic("rowSums")(x, na.rm, dims, ...)
  } else {
    base::rowSums(x, na.rm, dims, ...)
  }
}

#' @rdname matrices
#' @export
colSums <- function(x, na.rm = FALSE, dims = 1, ...) {
  if (is_buffer(x)) {
    rows_or_columns("colSums", x, na.rm, dims)
  } else if (isS4(x)) {
    shared_generic("colSums")(x, na.rm, dims, ...)
  } else {
    base::colSums(x, na.rm, dims, ...)
  }
}

#' @rdname matrices
#' @export
rowMeans <- function(x, na.rm = FALSE, dims = 1, ...) {
  if (is_buffer(x)) {
    rows_or_columns("rowMeans", x, na.rm, dims)
  } else if (isS4(x)) {
    shared_generic("rowMeans")(x, na.rm, dims, ...)
  } else {
    base::rowMeans(x, na.rm, dims, ...)
  }
}

#' @rdname matrices
#' @export
colMeans <- function(x, na.rm = FALSE, dims = 1, ...) {
  if (is_buffer(x)) {
    rows_or_columns("colMeans", x, na.rm, dims)
  } else if (isS4(x)) {
    shared_generic("colMeans")(x, na.rm, dims, ...)
  } else {
    base::colMeans(x, na.rm, dims, ...)
  }
}

#' @rdname matrices
#' @export
diag <- function(x = 1, nrow, ncol, names = TRUE) {
  if (missing(x)) {
    base::diag(nrow = nrow, ncol = ncol, names = names)
  } else if (is_buffer(x)) {
    size <- c(if (!missing(nrow)) check_size(nrow, "nrow"), if (!missing(ncol)) check_size(ncol, "ncol"))
    .Call(ffi_operator_1, "diag", x, size)
  } else if (nargs() == 1L) {
    # base's counts its arguments
    if (isS4(x)) shared_generic("diag")(x) else base::diag(x)
  } else if (isS4(x)) {
    shared_generic("diag")(x, nrow, ncol, names)
  } else {
    base::diag(x, nrow, ncol, names)
  }
}

#' @rdname matrices
#' @export
crossprod <- function(x, y = NULL, ...) {
  if (has_buffer(x, y)) {
    product("crossprod", x, y)
  } else if (isS4(x) || isS4(y)) {
    # methods may be for a missing `y`
    if (missing(y)) shared_generic("crossprod")(x, ...) else shared_generic("crossprod")(x, y, ...)
  } else {
    base::crossprod(x, y, ...)
  }
}

#' @rdname matrices
#' @export
tcrossprod <- function(x, y = NULL, ...) {
  if (has_buffer(x, y)) {
    product("tcrossprod", x, y)
  } else if (isS4(x) || isS4(y)) {
    # methods may be for a missing `y`
    if (missing(y)) shared_generic("tcrossprod")(x, ...) else shared_generic("tcrossprod")(x, y, ...)
  } else {
    base::tcrossprod(x, y, ...)
  }
}

# The S4 generic that another package has made of a function of base, or that function. Primitives call methods anyway.
shared_generic <- function(name) {
  f <- get(name, baseenv())
  if (is.primitive(f)) f else methods::getGeneric(name, package = "base") %||% f
}

check_size <- function(x, name) {
  if (!is_whole_number(x) || x < 0) {
    abort_type("`", name, "` must be a whole number, 0 or more, not ", given(x), ".")
  }
  x
}
