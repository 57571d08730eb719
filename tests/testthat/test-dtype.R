test_that("element types print, compare and convert as strings", {
  type <- elt_type(pjrt_scalar(1))
  expect_identical(class(type), "PJRTElementType")
  expect_identical(as.character(type), "f32")
  expect_identical(format(type), "f32")
  expect_true(type == "f32")
  expect_identical(type == NULL, logical())
  expect_true("f32" == type)
  expect_true(type == elt_type(pjrt_buffer(c(1, 2))))
  expect_false(type == "f64")
  expect_false("f64" == type)
  expect_false(type == elt_type(pjrt_scalar(1L)))
  expect_true(type != "f64")
  expect_snapshot(type, cran = TRUE)
  expect_snapshot(elt_type(pjrt_scalar(TRUE)), cran = TRUE)
  utils::capture.output(expect_invisible(print(type)))
})

test_that("NumPy and JAX names of dtypes are accepted", {
  canonical <- function(name) as.character(elt_type(pjrt_empty(name, 2L)))
  names <- c(
    bool = "pred", int8 = "i8", s32 = "i32", int64 = "i64", uint8 = "ui8", u16 = "ui16", float16 = "f16", half = "f16",
    bfloat16 = "bf16", float32 = "f32", float = "f32", double = "f64", complex64 = "c64", complex128 = "c128",
    int4 = "i4", uint2 = "ui2", float8_e5m2 = "f8e5m2", float8_e4m3fn = "f8e4m3fn", float4_e2m1fn = "f4e2m1fn"
  )
  for (name in names(names)) expect_identical(canonical(name), names[[name]])
})

test_that("every dtype has its name and aliases", {
  canonical <- function(name) as.character(elt_type(pjrt_empty(name, 2L)))
  for (name in c("pred", "i1", "bool")) expect_identical(canonical(name), "pred")
  plain <- c("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64", "c64", "c128")
  for (name in plain) expect_identical(canonical(name), name)
  small <- c("i2", "i4", "ui2", "ui4", "f4e2m1fn", "f8e5m2", "f8e4m3fn", "f8e8m0fnu")
  for (name in small) expect_identical(canonical(name), name)
  expect_identical(canonical("int32"), "i32")
  expect_identical(canonical("float64"), "f64")
  expect_identical(canonical("u8"), "ui8")
  expect_identical(canonical(elt_type(pjrt_scalar(1L))), "i32")
  expect_identical(canonical(dtype(pjrt_scalar(TRUE))), "pred")
})

test_that("an unknown dtype is named in the error", {
  for (make in list(
    function(dtype) pjrt_buffer(1, dtype), function(dtype) pjrt_scalar(1L, dtype),
    function(dtype) pjrt_empty(dtype, 2L),
    function(dtype) pjrt_buffer(as.raw(1), dtype = dtype, shape = 1, row_major = TRUE)
  )) {
    expect_refused(make("f99"), "unsupported_dtype", "Unsupported type: f99")
  }
  expect_refused(pjrt_buffer(1, "F32"), "unsupported_dtype", "Unsupported type: F32")
  expect_refused(pjrt_buffer(1, ""), "unsupported_dtype", "Unsupported type:")
  for (bad in list(c("f32", "f64"), NA_character_, character())) {
    expect_refused(pjrt_buffer(1, bad), "unsupported_dtype", "`dtype` must be one string")
  }
})

test_that("elt_type() accepts only buffers", {
  expect_refused(elt_type(1), "invalid_pointer", "PJRTBuffer")
  expect_refused(dtype(1), "invalid_input", "`x` must be a `PJRTBuffer`")
})
