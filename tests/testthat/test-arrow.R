# Slow: compiles C code.

# fixtures/arrow.c makes arrays as a package that uses Arrow does.
producer <- local({
  found <- NULL
  function() {
    if (is.null(found)) found <<- dyn.load(build_library(test_path("fixtures", "arrow.c")))
    found
  }
})

# The addresses of an array and its type. `list` is the format and length of a list around it.
arrow_array <- function(format, data, length, offset = 0, nulls = 0, validity = NULL, list = NULL) {
  room <- pjrt:::call_native(pjrt:::ffi_arrow_room)
  .Call(
    producer()$arrow_make, room$array, room$schema, format, length, offset, nulls, validity, data, list$format,
    list$length
  )
  room
}

from_arrow <- function(...) {
  made <- arrow_array(...)
  pjrt:::take_arrow(made$array, made$schema)
}

released <- function() {
  gc()
  pjrt_memory_stats()
  .Call(producer()$arrow_released)
}

bytes_of <- function(x, size = NA_integer_) writeBin(x, raw(), size = size)

test_that("numbers of every type keep their type", {
  types <- c(
    c = "i8", C = "ui8", s = "i16", S = "ui16", i = "i32", I = "ui32", l = "i64", L = "ui64", e = "f16", f = "f32",
    g = "f64"
  )
  bytes <- as.raw(0:63)
  for (format in names(types)) {
    size <- as.integer(sub("[^0-9]+", "", types[[format]])) / 8
    buffer <- from_arrow(format, bytes, 48 / size, offset = 16 / size)
    expect_identical(format(elt_type(buffer)), types[[format]])
    expect_identical(as_raw(buffer), bytes[17:64], info = format)
  }
  bits <- from_arrow("b", as.raw(c(0xb5, 0x02)), 9, offset = 1)
  expect_identical(as.vector(as_array(bits)), c(FALSE, TRUE, FALSE, TRUE, TRUE, FALSE, TRUE, FALSE, TRUE))
  expect_identical(shape(from_arrow("g", NULL, 0)), 0L)
})

test_that("lists of one length add a dimension", {
  buffer <- from_arrow("g", bytes_of(as.double(1:12)), 12, list = list(format = "+w:3", length = 4))
  expect_identical(as_array(buffer), matrix(as.double(1:12), 4, byrow = TRUE))
  buffer <- from_arrow("g", bytes_of(as.double(1:12)), 6, offset = 6, list = list(format = "+w:3", length = 2))
  expect_identical(as_array(buffer), matrix(as.double(7:12), 2, byrow = TRUE))
  expect_refused(
    from_arrow("g", bytes_of(as.double(1:12)), 11, list = list(format = "+w:3", length = 4)), "invalid_input",
    "is shorter than its parent needs"
  )
})

test_that("missing values become NaN, and are an error without NaN", {
  validity <- as.raw(c(0xfd, 0xff))
  x <- as.double(1:10)
  for (nulls in c(1, -1)) {
    buffer <- from_arrow("g", bytes_of(x), 10, nulls = nulls, validity = validity)
    expect_identical(as.vector(as_array(buffer)), replace(x, 2, NaN))
    buffer <- from_arrow("f", bytes_of(x, 4L), 9, offset = 1, nulls = nulls, validity = validity)
    expect_identical(as.vector(as_array(buffer)), replace(x, 2, NaN)[-1])
    error <- expect_refused(
      from_arrow("i", bytes_of(1:10), 10, nulls = nulls, validity = validity), "invalid_input",
      "has 1 missing value, which i32 does not have"
    )
    expect_match(conditionMessage(error), "Cast it to a type of floats in Arrow first", fixed = TRUE)
  }
  # unknown, and none within the array
  expect_identical(
    as.vector(as_array(from_arrow("i", bytes_of(1:10), 8, offset = 2, nulls = -1, validity = validity))), 3:10
  )
})

test_that("other arrays are refused with what they have", {
  what <- c(u = "strings", tdD = "dates or times", `+s` = "rows with several columns", `d:19,10` = "decimal numbers")
  for (format in names(what)) {
    expect_refused(
      from_arrow(format, raw(64), 1), "unsupported_dtype",
      sprintf("The Arrow array has %s, which PJRT lacks.", what[[format]])
    )
  }
  expect_refused(from_arrow("g", raw(64), -1), "invalid_input", "sizes are negative")
  expect_refused(from_arrow("g", raw(64), 2^62, offset = 2^62), "invalid_input", "sizes are negative")
  expect_refused(from_arrow("g", NULL, 4), "invalid_input", "has no data")
  expect_refused(from_arrow("g", raw(64), 4, nulls = 1), "invalid_input", "no map of them")
  made <- arrow_array("g", raw(64), 8)
  expect_identical(shape(pjrt:::take_arrow(made$array, made$schema)), 8L)
  expect_refused(pjrt:::take_arrow(made$array, made$schema), "invalid_input", "was released, or moved to another owner")
  expect_refused(pjrt:::take_arrow("0", "0"), "invalid_input", "is null")
})

test_that("an array is used in place, and released once, on R's thread, when the device is done", {
  before <- released()
  x <- as.double(1:1000)
  buffer <- from_arrow("g", bytes_of(x), 1000)
  copied <- from_arrow("g", bytes_of(x), 999, offset = 1)
  expect_identical(released() - before, c(1L, 1L, 0L))
  double <- compile("func.func @main(%x: tensor<1000xf64> {tf.aliasing_output = 0 : i32}) -> tensor<1000xf64> {
    %0 = stablehlo.add %x, %x : tensor<1000xf64>
    return %0 : tensor<1000xf64>
  }")
  kept <- pjrt_execution_options(keep_inputs = 1L)
  results <- lapply(1:20, function(i) pjrt_execute(double, buffer, execution_options = kept))
  expect_identical(as.vector(as_array(buffer)), x)
  expect_identical(as.vector(as_array(copied)), x[-1])
  # Arrow's memory is not written to
  sum <- pjrt_execute(double, buffer)
  rm(buffer)
  expect_identical(as.vector(as_array(sum)), 2 * x)
  for (result in results) expect_identical(as.vector(as_array(result)), 2 * x)
  expect_identical(released() - before, c(2L, 2L, 0L))
  # errors release it as well
  expect_error(from_arrow("u", raw(64), 1), class = "pjrt_error_unsupported_dtype")
  expect_identical(released() - before, c(3L, 3L, 0L))
})

test_that("arrays of Arrow come from Python", {
  expect_python(env = reticulate_env("nanoarrow"), quote({
    na <- import("nanoarrow", convert = FALSE)
    x <- pjrt_buffer(na$c_array(as.numeric(1:10), na$float64()))
    stopifnot(identical(as_array(x), array(as.numeric(1:10), 10L)))
    missing <- na$c_array(py_eval("[1, None, 3]", convert = FALSE), na$float32())
    stopifnot(identical(as_array(pjrt_buffer(missing)), array(c(1, NaN, 3), 3L)))
    stopifnot(identical(shape(pjrt_buffer(missing, dtype = "f32", shape = 3)), 3L))
    refused <- function(code) tryCatch(code, pjrt_error_invalid_input = conditionMessage)
    stopifnot(grepl("not f64", refused(pjrt_buffer(missing, dtype = "f64"))))
    whole <- na$c_array(py_eval("[1, None, 3]", convert = FALSE), na$int32())
    stopifnot(grepl("has 1 missing value", refused(pjrt_buffer(whole))))
    text <- tryCatch(
      pjrt_buffer(na$c_array(list("a", "b"), na$string())), pjrt_error_unsupported_dtype = conditionMessage
    )
    stopifnot(grepl("has strings", text))
    # Arrow keeps memory that Python drops
    large <- pjrt_buffer(na$c_array(as.numeric(1:1e5), na$float64()))
    import("gc")$collect()
    gc()
    stopifnot(identical(sum(as_array(large)), sum(as.numeric(1:1e5))))
  }))
})
