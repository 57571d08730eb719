# Programs with linear algebra, and the comparison of their outputs with JAX's.

# The fixtures, by name.
linear_algebra_files <- function() {
  files <- list.files(test_path("fixtures", "linear-algebra"), "[.]mlir[.]gz$", full.names = TRUE)
  structure(files, names = sub("[.]mlir[.]gz$", "", basename(files)))
}

# The program of a fixture, its inputs, and the outputs of JAX. See fixtures/linear-algebra/make.py.
read_linear_algebra <- function(file) {
  lines <- readLines(file)
  pattern <- "^// (in|out) ?([a-z]*) ([a-z0-9]+)\\[([0-9,]*)\\]: ?(.*)$"
  parts <- regmatches(lines, regexec(pattern, lines))
  arrays <- lapply(Filter(length, parts), function(part) {
    shape <- as.integer(strsplit(part[[5L]], ",", fixed = TRUE)[[1L]])
    numbers <- as.numeric(strsplit(part[[6L]], " ", fixed = TRUE)[[1L]])
    if (startsWith(part[[4L]], "c")) {
      real <- seq_along(numbers) %% 2L == 1L
      numbers <- complex(real = numbers[real], imaginary = numbers[!real])
    }
    list(is_input = part[[2L]] == "in", compare = part[[3L]], dtype = part[[4L]], value = row_major(numbers, shape))
  })
  is_input <- vapply(arrays, `[[`, NA, "is_input")
  list(text = paste(lines, collapse = "\n"), inputs = arrays[is_input], outputs = arrays[!is_input])
}

# An R array from numbers in row-major order. Scalars have no dimensions.
row_major <- function(x, shape) {
  if (length(shape) == 0L) x else aperm(array(x, rev(shape)))
}

upload <- function(array) {
  if (is.null(dim(array$value))) {
    pjrt_scalar(array$value, array$dtype)
  } else {
    pjrt_buffer(array$value, array$dtype)
  }
}

# Runs a program on R arrays or buffers, and returns its outputs as a list of buffers.
run_all <- function(executable, ...) {
  do.call(pjrt_execute, c(list(executable), list(...), list(simplify = FALSE)))
}

# Runs a fixture and describes the outputs that differ from JAX's.
differences_from_jax <- function(fixture, executable) {
  outputs <- do.call(run_all, c(list(executable), lapply(fixture$inputs, upload)))
  stopifnot(length(outputs) == length(fixture$outputs))
  problems <- Map(output_difference, outputs, fixture$outputs, seq_along(outputs))
  unlist(problems)
}

output_difference <- function(buffer, expected, number) {
  dtype <- as.character(elt_type(buffer))
  got <- as_array(buffer, int64 = "double")
  what <- sprintf("output %d, %s[%s]", number, dtype, toString(shape(buffer)))
  if (dtype != expected$dtype || !identical(as.integer(shape(buffer)), as.integer(dim(expected$value)))) {
    return(paste(what, "has another type or shape"))
  }
  if (length(got) == 0L) {
    return()
  }
  size <- far_from(got, expected$value, expected$compare)
  if (size > tolerance_of(dtype)) sprintf("%s is off by %.2g (%s)", what, size, expected$compare)
}

tolerance_of <- function(dtype) switch(dtype, f32 = , c64 = 2e-4, f64 = , c128 = 1e-9, 0)

# The largest difference, relative to the largest number; Inf if other numbers are not finite.
far_from <- function(got, expected, compare = "values") {
  if (compare == "finite") {
    # which elements of a broken factorization are NaN depends on the library
    broken <- function(x) apply(!is.finite(x), 1L, any)
    if (!identical(broken(got), broken(expected))) {
      return(Inf)
    }
    whole <- !broken(expected)
    got <- got[whole, , ]
    expected <- expected[whole, , ]
  }
  if (compare == "sorted") {
    got <- sorted_rows(got)
    expected <- sorted_rows(expected)
  }
  if (compare %in% c("columns", "rows")) {
    got <- in_phase(got, expected, length(dim(got)) - (compare == "columns"))
  }
  if (!identical(is.finite(got), is.finite(expected)) || !identical(is.nan(got), is.nan(expected))) {
    return(Inf)
  }
  finite <- is.finite(expected)
  max(0, Mod(got[finite] - expected[finite])) / max(1, Mod(expected[finite]))
}

# The numbers of the last dimension in one order, however they are rounded.
sorted_rows <- function(x) {
  if (length(dim(x)) < 2L) x[order(round(Re(x), 3), round(Im(x), 3))] else apply(x, 1L, sorted_rows)
}

# Multiplies each vector along the dimension `along` by the phase that brings it closest to the expected one.
in_phase <- function(got, expected, along) {
  others <- setdiff(seq_along(dim(got)), along)
  vectors <- function(x) matrix(aperm(x, c(along, others)), dim(x)[[along]])
  inner <- colSums(Conj(vectors(got)) * vectors(expected))
  phase <- ifelse(is.finite(inner) & Mod(inner) > 0, inner / Mod(inner), 1)
  turned <- sweep(vectors(got), 2L, phase, `*`)
  aperm(array(turned, dim(got)[c(along, others)]), order(c(along, others)))
}

# Builds a library that has only the routines of LAPACK that R's headers declare: most of double precision, a few
# complex ones, none of single precision. R's own LAPACK has no others. Returns its path, or NULL where there is no
# static LAPACK.
build_small_lapack <- function(folder) {
  archive <- Sys.glob(c("/usr/lib/*/lapack/liblapack.a", "/usr/lib*/liblapack.a"))
  if (length(archive) == 0L || .Platform$OS.type != "unix" || !nzchar(Sys.which("gcc"))) {
    return()
  }
  header <- readLines(file.path(R.home("include"), "R_ext", "Lapack.h"))
  pattern <- "F77_(NAME|SUB)[(]([a-z0-9]+)[)]"
  declared <- sub(pattern, "\\2", unlist(regmatches(header, gregexpr(pattern, header))))
  exports <- sprintf("%s_;", unique(c("ilaver", grep("^[dzi]", declared, value = TRUE))))
  map <- file.path(folder, "exports")
  writeLines(c("{ global:", exports, "local: *; };"), map)
  path <- file.path(folder, "libsmall.so")
  arguments <- c(
    "-shared", "-o", path, "-Wl,--whole-archive", archive[[1L]], "-Wl,--no-whole-archive",
    paste0("-Wl,--version-script=", map), "-lblas", "-lgfortran", "-lm"
  )
  if (processx::run("gcc", arguments, error_on_status = FALSE)$status == 0L) path
}

# A program that calls `target` on matrices and vectors in column-major order. `inputs` and `outputs` are types such as
# "4x3xf64", whose first `batch` dimensions count matrices. The inputs may have attributes, such as `donates`.
linear_algebra_program <- function(target, inputs, outputs, attributes = "", input_attributes = "", batch = 0L) {
  tensor <- sprintf("tensor<%s>", sub("c128$", "complex<f64>", sub("c64$", "complex<f32>", c(inputs, outputs))))
  is_input <- seq_along(tensor) <= length(inputs)
  layouts <- vapply(strsplit(c(inputs, outputs), "x", fixed = TRUE), column_major, "", batch = batch)
  names <- sprintf("%%x%d", seq_along(inputs))
  results <- sprintf("%%y#%d", seq_along(outputs) - 1L)
  sprintf(
    "func.func @main(%s) -> (%s) {
  %%y:%d = stablehlo.custom_call @%s(%s) {
    api_version = 4 : i32, backend_config = {%s}, operand_layouts = [%s], result_layouts = [%s]
  } : (%s) -> (%s)
  return %s : %s
}",
    toString(sprintf("%s: %s%s", names, tensor[is_input], input_attributes)), toString(tensor[!is_input]),
    length(outputs), target, toString(names), attributes, toString(layouts[is_input]), toString(layouts[!is_input]),
    toString(tensor[is_input]), toString(tensor[!is_input]), toString(results), toString(tensor[!is_input])
  )
}

# The layout of a type that has been split at "x": matrices in column-major order.
column_major <- function(parts, batch) {
  rank <- length(parts) - 1L
  order <- rev(seq_len(rank) - 1L)
  if (rank == batch + 2L) order[1:2] <- order[2:1]
  sprintf("dense<[%s]> : tensor<%dxindex>", toString(order), rank)
}

# Calls `target` on R arrays, and returns its outputs as R arrays.
call_target <- function(target, arrays, outputs, attributes = "", dtype = "f64", batch = 0L) {
  inputs <- lapply(arrays, function(x) if (inherits(x, "PJRTBuffer")) x else pjrt_buffer(x, dtype))
  types <- vapply(inputs, function(x) paste(c(shape(x), as.character(elt_type(x))), collapse = "x"), "")
  executable <- compile(linear_algebra_program(target, types, outputs, attributes, batch = batch))
  lapply(do.call(run_all, c(list(executable), unname(inputs))), as_array)
}
