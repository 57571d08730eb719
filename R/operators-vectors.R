#' Vectors of buffers
#'
#' Base R's functions of vectors take buffers. `which.max()`, `which.min()`, `pmax()`, `pmin()`, `rep()`, `var()`,
#' `cov()` and `cor()` compute on the device and return buffers, as [operators] do. `order()`, `unique()`,
#' `duplicated()`, `anyDuplicated()`, `table()`, `match()`, `%in%`, `is.element()`, `setdiff()`, `intersect()`,
#' `which()`, `ifelse()`, `sprintf()`, `median()`, `quantile()`, `weighted.mean()`, `na.omit()`, `sd()`, `diff()`,
#' `split()`, `cut()`, `determinant()`, `solve()` and, with a margin, `marginSums()` and `proportions()` read the
#' buffers, and return what R returns for their elements or, as `unique()` of a matrix, rows.
#'
#' `which.max()`, `which.min()`, `which()`, `pmax()`, `pmin()`, `ifelse()`, `sprintf()`, `var()`, `cov()`, `cor()`,
#' `match()`, `%in%`, `is.element()`, `setdiff()`, `intersect()`, `marginSums()` and `proportions()` have no methods:
#' they take buffers where this package is attached, as by `library(pjrt)`. Attach it after bit64, whose `match()` and
#' `%in%` refuse buffers.
#'
#' @param x,a A `PJRTBuffer`.
#' @param b A `PJRTBuffer` or an R vector or matrix.
#' @param incomparables,na.rm,breaks,f As for R's functions. What computes on the device takes no `na.rm = TRUE`, and
#'   `var()`, `cov()` and `cor()` take only the defaults of `use` and `method`.
#' @param ... Further arguments of R's functions, such as `times`, `each` and `length.out` of `rep()`.
#' @return A `PJRTBuffer`, or what R's function returns. `which.max()` and `which.min()` return an `i32`: the number of
#'   the first element from 1, or `NA` if all are NaN. `var()`, `cov()` and `cor()` of floats narrower than `f32` return
#'   `f32`, and of `i64` and `ui64` `f64`. They return NaN where R returns `NA`, and `cor()` also for a constant column
#'   with itself.
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
#' @aliases which.max which.min which pmax pmin ifelse sprintf var cov cor match %in% is.element setdiff intersect
#'   marginSums margin.table proportions prop.table
NULL

#' @rdname vectors
#' @export
rep.PJRTBuffer <- function(x, ...) {
  positions <- seq_along(x)
  chosen <- tryCatch(rep(positions, ...), error = function(e) abort_operator("`rep()`: ", conditionMessage(e), "."))
  if (anyNA(chosen)) {
    abort_operator("`rep()` of a buffer without elements cannot fill a length.")
  }
  taken(x, chosen, drop = FALSE)
}

#' @rdname vectors
#' @export
unique.PJRTBuffer <- function(x, incomparables = FALSE, ...) {
  rank <- length(shape(x))
  if (rank < 2L) {
    values <- bare_values(x)
    # factor() compares them with as.character(x)
    if (is_beyond_long(values, x) && identical(sys.function(sys.parent()), factor)) {
      values <- exact_text(x)
    }
    return(unique(values, incomparables, ...))
  }
  kept <- rep(list(TRUE), rank)
  kept[[list(...)$MARGIN %||% 1L]] <- which(!duplicated(x, incomparables, ...))
  do.call(`[`, c(list(x), kept, drop = FALSE))
}

#' @rdname vectors
#' @export
duplicated.PJRTBuffer <- function(x, incomparables = FALSE, ...) {
  duplicated(distinct_values(x), incomparables, ...)
}

#' @rdname vectors
#' @export
anyDuplicated.PJRTBuffer <- function(x, incomparables = FALSE, ...) {
  anyDuplicated(distinct_values(x), incomparables, ...)
}

# Values that are equal where the buffer's are, with its dimensions if R would compare rows.
distinct_values <- function(x) {
  values <- exact_values(x)
  if (inherits(values, "integer64")) {
    values <- exact_text(x)
  }
  shaped_as(x, values)
}

# Values with the dimensions of a buffer, unless it is a vector: R's functions treat arrays of one dimension otherwise.
shaped_as <- function(x, values) {
  if (length(shape(x)) < 2L) values else array(values, shape(x))
}

#' @rdname vectors
#' @importFrom stats median
#' @export
median.PJRTBuffer <- function(x, na.rm = FALSE, ...) {
  median(exact_or_rounded(x), na.rm, ...)
}

#' @rdname vectors
#' @importFrom stats weighted.mean
#' @param w A vector of numbers, or a buffer of them: a weight for each element.
#' @export
weighted.mean.PJRTBuffer <- function(x, w, ...) {
  if (missing(w)) mean(x, ...) else weighted.mean(numeric_values(x), read_numbers(w), ...)
}

#' @rdname vectors
#' @importFrom stats quantile
#' @export
quantile.PJRTBuffer <- function(x, ...) {
  quantile(exact_or_rounded(x), ...)
}

#' @rdname vectors
#' @param object A `PJRTBuffer`.
#' @importFrom stats na.omit
#' @export
na.omit.PJRTBuffer <- function(object, ...) {
  na.omit(if (length(shape(object)) == 2L) as_array(object) else bare_values(object), ...)
}

#' @rdname vectors
#' @export
diff.PJRTBuffer <- function(x, ...) {
  values <- as_array(x)
  if (!inherits(values, "integer64")) {
    return(diff(if (length(dim(values)) > 1L) values else bare_values(x), ...))
  }
  is_matrix <- length(dim(values)) == 2L
  if (is_beyond_long(values, x)) {
    return(diff(if (is_matrix) array(as.double(x), shape(x)) else as.double(x), ...))
  }
  if (is_matrix) long_diff(values, ...) else c(long_diff(as.matrix(bare_values(x)), ...))
}

# The differences in a matrix of integer64: bit64's method takes vectors that are long enough.
long_diff <- function(values, lag = 1L, differences = 1L) {
  rows <- max(0, nrow(values) - lag * differences)
  difference <- function(i) unclass(diff(structure(values[, i], class = "integer64"), lag, differences))
  columns <- if (rows > 0) vapply(seq_len(ncol(values)), difference, numeric(rows)) else numeric()
  structure(array(columns, c(rows, ncol(values))), class = "integer64")
}

#' @rdname vectors
#' @export
split.PJRTBuffer <- function(x, f, ...) {
  split(for_caller(bare_values(x), x, sys.call(-1L), parent.frame()), f, ...)
}

#' @rdname vectors
#' @export
cut.PJRTBuffer <- function(x, breaks, ...) {
  cut(numeric_values(x), breaks, ...)
}

#' @rdname vectors
#' @export
solve.PJRTBuffer <- function(a, b, ...) {
  if (missing(b)) solve(read_numbers(a), ...) else solve(read_numbers(a), read_numbers(b), ...)
}

#' @rdname vectors
#' @export
determinant.PJRTBuffer <- function(x, ...) {
  determinant(read_numbers(x), ...)
}

# The values as numbers of R: base's functions would read the bits of integer64 as doubles.
numeric_values <- function(x) {
  values <- bare_values(x)
  if (inherits(values, "integer64")) rounded(values, elt_type(x)) else values
}

# A buffer's array, a plain vector for one dimension, with doubles instead of integer64; anything else as it is.
read_numbers <- function(x) {
  if (inherits(x, "PJRTBuffer")) shaped_as(x, numeric_values(x)) else x
}

# The values; integers as doubles if these are exact.
exact_values <- function(x) {
  values <- if (inherits(x, "PJRTBuffer")) bare_values(x, check = FALSE) else x
  if (!inherits(values, "integer64")) {
    return(values)
  }
  load_bit64()
  doubles <- suppressWarnings(rounded(values, if (is_buffer(x)) elt_type(x) else "i64"))
  if (all(abs(doubles) < 2^53, na.rm = TRUE)) doubles else values
}

# The same; those that integer64 cannot hold are rounded.
exact_or_rounded <- function(x) {
  values <- exact_values(x)
  if (inherits(values, "integer64") && is_beyond_long(values, x)) rounded(values, elt_type(x)) else values
}

# Whether numbers of a buffer are beyond the integer64 in which R has read them.
is_beyond_long <- function(values, x) elt_type(x) == "ui64" && (anyNA(values) || any(c(values) < 0))

# Numbers as text with all digits, which is equal for equal numbers of all types.
exact_text <- function(x) {
  if (is_buffer(x) && elt_type(x) == "ui64") {
    return(as.vector(format_buffer(x)))
  }
  values <- exact_values(x)
  if (is.logical(values)) {
    values <- as.integer(values)
  }
  text <- as.character(values)
  if (is.double(values) && !inherits(values, "integer64")) {
    is_whole <- is.finite(values) & values == trunc(values)
    text[is_whole] <- sprintf("%.0f", values[is_whole])
  }
  text
}

# What order() compares.
#' @export
xtfrm.PJRTBuffer <- function(x) {
  values <- exact_values(x)
  if (!inherits(values, "integer64")) {
    return(xtfrm(values))
  }
  # bit64's method has the order of the bits as doubles
  text <- exact_text(x)
  is_negative <- startsWith(text, "-")
  digits <- sub("-", "", text, fixed = TRUE)
  ranks <- rank(paste0(strrep("0", 20L - nchar(digits)), digits))
  ranks[is.na(text)] <- NA
  ifelse(is_negative, -ranks, ranks)
}

# Functions of R without methods. Attaching this package puts these in front of them.
vector_functions <- list(
  which.max = function(x) if (is_buffer(x)) .Call(ffi_operator_1, "which.max", x, NULL) else base::which.max(x),
  which.min = function(x) if (is_buffer(x)) .Call(ffi_operator_1, "which.min", x, NULL) else base::which.min(x),
  which = function(x, arr.ind = FALSE, useNames = TRUE) base::which(read_buffer(x), arr.ind, useNames),
  ifelse = function(test, yes, no) base::ifelse(read_numbers(test), read_numbers(yes), read_numbers(no)),
  # base's would format the first element only
  sprintf = function(fmt, ...) {
    if (!has_buffer(...)) {
      return(base::sprintf(fmt, ...))
    }
    do.call(base::sprintf, c(list(fmt), lapply(list(...), read_numbers)))
  },
  # base's would give an array of R the class of a buffer
  marginSums = function(x, margin = NULL) base::marginSums(if (is.null(margin)) x else read_numbers(x), margin),
  proportions = function(x, margin = NULL) base::proportions(if (is.null(margin)) x else read_numbers(x), margin),
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
# their older names
vector_functions[c("margin.table", "prop.table")] <- vector_functions[c("marginSums", "proportions")]

# R takes only vectors here, though it has methods for what it compares since 4.3.
match_functions <- list(
  match = function(x, table, nomatch = NA_integer_, incomparables = NULL) {
    matched(x, table, nomatch, incomparables)
  },
  "%in%" = function(x, table) matched(x, table, 0L) > 0L,
  is.element = function(el, table) {
    if (has_buffer(el, table)) matched(el, table, 0L) > 0L else base::is.element(el, table)
  },
  setdiff = function(x, y) {
    if (has_buffer(x, y)) unique(exact_values(x)[matched(x, y, 0L) == 0L]) else base::setdiff(x, y)
  },
  intersect = function(x, y) {
    if (has_buffer(x, y)) unique(exact_values(x)[matched(x, y, 0L) > 0L]) else base::intersect(x, y)
  }
)

# base::match() with buffers. It would compare the bits of integer64 as doubles.
matched <- function(x, table, nomatch, incomparables = NULL) {
  if (!has_buffer(x, table)) {
    return(base::match(x, table, nomatch, incomparables))
  }
  values <- list(exact_values(x), exact_values(table))
  if (any(vapply(values, inherits, NA, "integer64"))) {
    values <- list(exact_text(x), exact_text(table))
  }
  base::match(values[[1L]], values[[2L]], nomatch, incomparables)
}

attach_vector_functions <- function(attached) {
  functions <- c(vector_functions, match_functions, if (!has_new_generics()) list("%*%" = matmul))
  for (name in names(functions)) {
    f <- functions[[name]]
    environment(f) <- topenv()
    assign(name, f, attached)
  }
  # an empty table of S4 methods: R reports no conflict for what has one
  for (name in c(names(functions), matrix_functions)) {
    assign(paste0(".__T__", name, if (name %in% c("var", "cov", "cor")) ":stats" else ":base"), new.env(), attached)
  }
}

has_buffer <- function(...) any(vapply(list(...), is_buffer, NA))

read_buffer <- function(x) if (is_buffer(x)) as_array(x) else x

parallel_extreme <- function(name, ..., na.rm) {
  if (!isFALSE(na.rm)) {
    check_flag(na.rm, "na.rm")
    abort_operator("`", name, "()` of buffers needs `na.rm = FALSE`.")
  }
  values <- list(...)
  if (length(values) == 1L) {
    return(duplicated_buffer(values[[1L]]))
  }
  Reduce(function(x, y) .Call(ffi_operator_2, name, x, y), values)
}

# The variance or covariance of vectors, or of the columns of matrices; or their correlation.
covariance <- function(name, x, y, na.rm = FALSE, use = "everything", method = "pearson", ...) {
  check_unused(...)
  if (!identical(list(na.rm, use, method[1L]), list(FALSE, "everything", "pearson"))) {
    abort_operator("`", name, "()` of buffers takes only the defaults of `na.rm`, `use` and `method`.")
  }
  check_numbers(name, x)
  if (!is.null(y)) check_numbers(name, y)
  y <- y %||% x
  ranks <- c(length(dim(x)), length(dim(y)))
  if (any(ranks > 2L)) {
    abort_operator("`", name, "()` takes vectors and matrices.", class = "shape_mismatch")
  }
  rows <- c(NROW(x), NROW(y))
  if (rows[[1L]] != rows[[2L]]) {
    abort_operator("`", name, "()` takes arrays with as many rows: got ", toString(rows), ".", class = "shape_mismatch")
  }
  are_matrices <- any(ranks == 2L)
  x <- centred(x, are_matrices)
  y <- centred(y, are_matrices)
  if (name == "cor") {
    x <- scaled(x)
    y <- scaled(y)
  }
  both <- if (are_matrices) crossprod(x, y) else sum(x * y)
  if (name != "cor") {
    # NaN for fewer than two rows
    return(both / max(rows[[1L]] - 1, 0))
  }
  both <- if (are_matrices) {
    both / crossprod(t(sqrt(colSums(x^2))), t(sqrt(colSums(y^2))))
  } else {
    both / (sqrt(sum(x^2)) * sqrt(sum(y^2)))
  }
  # rounding may lead beyond
  .Call(ffi_operator_2, "pmax", .Call(ffi_operator_2, "pmin", both, 1), -1)
}

check_numbers <- function(name, x) {
  is_real <- if (is_buffer(x)) !grepl("^c[0-9]", elt_type(x)) else (is.numeric(x) || is.logical(x)) && !is.object(x)
  if (!is_real) {
    given <- if (is_buffer(x)) as.character(elt_type(x)) else given(x)
    abort_operator("`", name, "()` takes buffers and arrays of real numbers, not ", given, ".", class = "invalid_type")
  }
}

# The values without the mean of their column; a vector may be a column.
centred <- function(x, is_column) {
  x <- from_first(x)
  if (length(dim(x)) != 2L) {
    x <- x - mean(x)
    dim(x) <- c(length(x), if (is_column) 1L)
    return(x)
  }
  x - each_row(colMeans(x), dim(x))
}

# The values less the first of their column. A constant becomes 0, and integers keep all digits. Sums in narrow floats
# would overflow.
from_first <- function(x) {
  if (is_buffer(x)) {
    as <- function(x, dtype) .Call(ffi_operator_2, "+", x, pjrt_scalar(0, dtype, device = device(x)))
    dtype <- as.character(elt_type(x))
    if (dtype %in% c("i64", "ui64")) {
      # a difference may be beyond the type; in f64, the differences of both halves are exact
      half <- 2^32
      return(from_first(as(x %/% half, "f64")) * half + from_first(as(x %% half, "f64")))
    }
    x <- if (grepl("^(f16|bf16|f8|f4)", dtype)) as(x, "f32") else if (grepl("^f", dtype)) x else as(x, "i64")
  } else {
    storage.mode(x) <- "double"
  }
  if (NROW(x) == 0L) {
    return(x)
  }
  if (length(dim(x)) == 2L) {
    return(x - each_row(if (is_buffer(x)) x[1L, , as = "buffer"] else x[1L, ], dim(x)))
  }
  x - if (is_buffer(x)) .Call(ffi_operator_1, "dim", x[1L, as = "buffer"], integer()) else x[[1L]]
}

# Columns whose typical size is 1, so that their squares neither overflow nor vanish. Constant columns become NaN.
scaled <- function(x) {
  if (length(dim(x)) != 2L) x / mean(abs(x)) else x / each_row(colMeans(abs(x)), dim(x))
}

# A matrix with these values in each row.
each_row <- function(values, dim) {
  values <- rep(values, each = dim[[1L]])
  dim(values) <- dim
  values
}
