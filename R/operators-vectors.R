#' Vectors of buffers
#'
#' Base R's functions of vectors take buffers. `which.max()`, `which.min()`, `pmax()`, `pmin()`, `rep()`, `var()`,
#' `cov()` and `cor()` compute on the device and return buffers, as [operators] do. `order()`, `unique()`,
#' `duplicated()`, `table()`, `match()`, `%in%`, `which()`, `median()`, `quantile()`, `sd()`, `diff()`, `cut()` and
#' `determinant()` read the buffers, and return what R returns for their elements.
#'
#' `which.max()`, `which.min()`, `which()`, `pmax()`, `pmin()`, `var()`, `cov()`, `cor()`, `match()` and `%in%` have no
#' methods: they take buffers where this package is attached, as by `library(pjrt)`.
#'
#' @param x A `PJRTBuffer`.
#' @param incomparables,na.rm,breaks As for R's functions.
#' @param ... Further arguments of R's functions, such as `times`, `each` and `length.out` of `rep()`.
#' @return A `PJRTBuffer`, or what R's function returns. `which.max()` and `which.min()` return an `i32`: the number of
#'   the first element from 1, or `NA` if all are NaN.
#' @section Errors:
#' The errors of [operators].
#' @seealso [operators], [summaries], [matrices]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(c(3, 1, 2, 3))
#' which.max(x)
#' pmax(x, 2)
#' var(x)
#' rep(x, 2)
#' order(x)
#' x %in% 3
#' table(x)
#' @name vectors
#' @aliases which.max which.min which pmax pmin var cov cor match %in%
NULL

#' @rdname vectors
#' @export
rep.PJRTBuffer <- function(x, ...) {
  taken(x, rep(seq_along(x), ...), drop = FALSE)
}

#' @rdname vectors
#' @export
unique.PJRTBuffer <- function(x, incomparables = FALSE, ...) {
  unique(bare_values(x), incomparables, ...)
}

#' @rdname vectors
#' @export
duplicated.PJRTBuffer <- function(x, incomparables = FALSE, ...) {
  duplicated(bare_values(x), incomparables, ...)
}

#' @rdname vectors
#' @importFrom stats median
#' @export
median.PJRTBuffer <- function(x, na.rm = FALSE, ...) {
  median(bare_values(x), na.rm, ...)
}

#' @rdname vectors
#' @importFrom stats quantile
#' @export
quantile.PJRTBuffer <- function(x, ...) {
  quantile(bare_values(x), ...)
}

#' @rdname vectors
#' @export
diff.PJRTBuffer <- function(x, ...) {
  diff(if (length(shape(x)) > 1L) as_array(x) else bare_values(x), ...)
}

#' @rdname vectors
#' @export
cut.PJRTBuffer <- function(x, breaks, ...) {
  cut(bare_values(x), breaks, ...)
}

#' @rdname vectors
#' @export
determinant.PJRTBuffer <- function(x, ...) {
  determinant(as_array(x), ...)
}

# What order() compares.
#' @export
xtfrm.PJRTBuffer <- function(x) {
  xtfrm(bare_values(x))
}

# Functions of R without methods. Attaching this package puts these in front of them.
vector_functions <- list(
  which.max = function(x) if (is_buffer(x)) .Call(ffi_operator_1, "which.max", x, NULL) else base::which.max(x),
  which.min = function(x) if (is_buffer(x)) .Call(ffi_operator_1, "which.min", x, NULL) else base::which.min(x),
  which = function(x, arr.ind = FALSE, useNames = TRUE) base::which(read_buffer(x), arr.ind, useNames),
  pmax = function(..., na.rm = FALSE) {
    if (has_buffer(...)) parallel_extreme("pmax", ..., na.rm = na.rm) else base::pmax(..., na.rm = na.rm)
  },
  pmin = function(..., na.rm = FALSE) {
    if (has_buffer(...)) parallel_extreme("pmin", ..., na.rm = na.rm) else base::pmin(..., na.rm = na.rm)
  },
  var = function(x, y = NULL, ...) if (has_buffer(x, y)) covariance("var", x, y, ...) else stats::var(x, y, ...),
  cov = function(x, y = NULL, ...) if (has_buffer(x, y)) covariance("cov", x, y, ...) else stats::cov(x, y, ...),
  cor = function(x, y = NULL, ...) if (has_buffer(x, y)) covariance("cor", x, y, ...) else stats::cor(x, y, ...)
)

# R takes only vectors here, though it has methods for what it compares since 4.3.
match_functions <- list(
  match = function(x, table, nomatch = NA_integer_, incomparables = NULL) {
    base::match(read_vector(x), read_vector(table), nomatch, incomparables)
  },
  "%in%" = function(x, table) base::match(read_vector(x), read_vector(table), 0L) > 0L
)

attach_vector_functions <- function(attached) {
  functions <- c(vector_functions, match_functions, if (getRversion() < "4.3.0") list("%*%" = matmul))
  for (name in names(functions)) {
    f <- functions[[name]]
    environment(f) <- topenv()
    assign(name, f, attached)
    # an empty table of S4 methods: R reports no conflict for what has one
    assign(paste0(".__T__", name, if (name %in% c("var", "cov", "cor")) ":stats" else ":base"), new.env(), attached)
  }
}

has_buffer <- function(...) any(vapply(list(...), is_buffer, NA))

read_buffer <- function(x) if (is_buffer(x)) as_array(x) else x

read_vector <- function(x) if (is_buffer(x)) bare_values(x) else x

parallel_extreme <- function(name, ..., na.rm) {
  if (!isFALSE(na.rm)) {
    check_flag(na.rm, "na.rm")
    abort_operator("`", name, "()` of buffers needs `na.rm = FALSE`.")
  }
  Reduce(function(x, y) .Call(ffi_operator_2, name, x, y), list(...))
}

# The variance or covariance of vectors, or of the columns of matrices; or their correlation.
covariance <- function(name, x, y, ...) {
  check_unused(...)
  y <- y %||% x
  ranks <- c(length(dim(x)), length(dim(y)))
  if (any(ranks > 2L)) {
    abort_operator("`", name, "()` takes vectors and matrices.", class = "shape_mismatch")
  }
  are_matrices <- any(ranks == 2L)
  x <- centred(x, are_matrices)
  y <- centred(y, are_matrices)
  both <- if (are_matrices) crossprod(x, y) else sum(x * y)
  if (name != "cor") {
    return(both / (dim(x)[[1L]] - 1))
  }
  if (are_matrices) {
    both / crossprod(t(sqrt(colSums(x^2))), t(sqrt(colSums(y^2))))
  } else {
    both / sqrt(sum(x^2) * sum(y^2))
  }
}

# The values without the mean of their column; a vector may be a column.
centred <- function(x, is_column) {
  if (length(dim(x)) != 2L) {
    x <- x - mean(x)
    dim(x) <- c(length(x), if (is_column) 1L)
    return(x)
  }
  means <- rep(colMeans(x), each = dim(x)[[1L]])
  dim(means) <- dim(x)
  x - means
}
