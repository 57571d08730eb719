# Every float format of at most 16 bits, compared with numpy and ml_dtypes. fixtures/make.py describes the reference
# files.

float_formats <- c(
  "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4", "f8e8m0fnu", "f4e2m1fn",
  "f16", "bf16"
)

float_bytes <- function(dtype) if (dtype %in% c("f16", "bf16")) 2L else 1L

float_patterns <- function(dtype) switch(dtype, f4e2m1fn = 16L, f16 = , bf16 = 65536L, 256L)

# Calls `read` with the open file and the dtype for one format after the other, and returns the results.
read_formats <- function(name, read) {
  file <- gzfile(fixture(name), "rb")
  on.exit(close(file))
  sapply(float_formats, function(dtype) read(file, dtype), simplify = FALSE)
}

# The value of each bit pattern, in order from 0.
float_values <- function() {
  read_formats("float-values.bin.gz", function(file, dtype) {
    readBin(file, "double", float_patterns(dtype), size = 4L, endian = "little")
  })
}

# Doubles and the bytes that they convert to.
float_cases <- function() {
  read_formats("float-cases.bin.gz", function(file, dtype) {
    count <- readBin(file, "integer", 1L, size = 4L, endian = "little")
    list(
      doubles = readBin(file, "double", count, size = 8L, endian = "little"),
      bytes = readBin(file, "raw", count * float_bytes(dtype))
    )
  })
}

# All bit patterns of a format, as bytes.
all_patterns <- function(dtype) bytes(seq_len(float_patterns(dtype)) - 1L, float_bytes(dtype))

# Expects the same bytes. If elements of `size` bytes differ, the failure names the first such double.
expect_elements <- function(object, expected, doubles, size, dtype) {
  same <- length(object) == length(expected) && all(object == expected)
  if (!same && length(object) == length(expected)) {
    wrong <- which(colSums(matrix(object != expected, size)) > 0)
    difference <- sprintf(
      "%s: %d of %d elements differ, first that of %a", dtype, length(wrong), length(doubles), doubles[wrong[1L]]
    )
  } else {
    difference <- sprintf("%s: %d bytes instead of %d", dtype, length(object), length(expected))
  }
  expect(same, difference)
  invisible(object)
}

test_that("every bit pattern of every small float has its exact value", {
  values <- float_values()
  for (dtype in float_formats) {
    expected <- values[[dtype]]
    count <- length(expected)
    x <- pjrt_buffer(all_patterns(dtype), dtype = dtype, shape = count, row_major = TRUE)
    got <- as_array(x)
    expect_identical(dim(got), count, label = dtype)
    missing <- is.nan(expected)
    expect_identical(is.nan(c(got)), missing, label = dtype)
    expect_bits(c(got)[!missing], expected[!missing])
  }
})

test_that("doubles are rounded once, to nearest with ties to even, in every small float", {
  cases <- float_cases()
  for (dtype in float_formats) {
    case <- cases[[dtype]]
    got <- as_raw(pjrt_buffer(case$doubles, dtype), row_major = TRUE)
    expect_elements(got, case$bytes, case$doubles, float_bytes(dtype), dtype)
  }
})

test_that("a matrix of small floats is rounded like a vector", {
  cases <- float_cases()
  for (dtype in float_formats) {
    case <- cases[[dtype]]
    columns <- length(case$doubles) %/% 3L
    kept <- seq_len(3L * columns)
    x <- pjrt_buffer(matrix(case$doubles[kept], 3L), dtype)
    size <- float_bytes(dtype)
    expected <- case$bytes[seq_len(3L * columns * size)]
    expect_elements(as_raw(x, row_major = FALSE), expected, case$doubles[kept], size, dtype)
  }
})

test_that("every bit pattern except NaN survives a round trip through R", {
  values <- float_values()
  for (dtype in float_formats) {
    size <- float_bytes(dtype)
    numbers <- rep(!is.nan(values[[dtype]]), each = size)
    given <- all_patterns(dtype)
    back <- as_raw(pjrt_buffer(values[[dtype]], dtype), row_major = TRUE)
    expect_elements(back[numbers], given[numbers], values[[dtype]][!is.nan(values[[dtype]])], size, dtype)
  }
})
