# Slow: starts many sessions.

# Runs code in a child with a stand-in, because not every machine has package safetensors.
run_with_stand_in <- function(code, ...) {
  skip_if_not_installed("jsonlite")
  if (is.null(found$lib)) found$lib <- install_stand_in(fixture("stand-in"), "safetensors", teardown_env())
  run_child(code, c(R_LIBS = paste(c(found$lib, .libPaths()), collapse = .Platform$path.sep), ...))
}

found <- new.env()

# The safetensors types that PJRT supports: those that package safetensors can write, and those that it can only read.
written <- c(
  "pred", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn"
)
only_read <- c("f8e5m2fnuz", "f8e4m3fnuz", "f8e8m0fnu", "c64", "f4e2m1fn")

# Code for a child: checks that buffers of each dtype survive a round trip through a file. Package safetensors reads all
# dtypes and writes those in `writes`.
round_trip <- function(writes = c(written, only_read), dtypes = c(written, only_read)) {
  bquote({
    for (dtype in .(dtypes)) {
      value <- if (dtype == "pred") c(TRUE, FALSE) else if (dtype == "c64") 1:2 + 2i else c(1, 2)
      saved <- list(
        matrix = pjrt_buffer(value, dtype, shape = c(2, 1)), empty = pjrt_empty(dtype, c(0L, 3L)),
        array = pjrt_buffer(array(rep(value, 12), c(2, 3, 4)), dtype)
      )
      # a four-bit scalar does not fill a byte
      if (dtype != "f4e2m1fn") saved$scalar <- pjrt_scalar(value[[2]], dtype)
      path <- tempfile()
      if (dtype %in% .(writes)) {
        safetensors::safe_save_file(saved, path, framework = "pjrt")
        stopifnot(identical(lapply(pjrt_load_safetensors(path), as_array), lapply(saved, as_array)))
        loaded <- safetensors::safe_load_file(path, framework = "pjrt")
        stopifnot(identical(lapply(loaded, as_array)[names(saved)], lapply(saved, as_array)))
      }
      pjrt_save_safetensors(saved, path)
      loaded <- safetensors::safe_load_file(path, framework = "pjrt", device = "cpu:1")
      for (name in names(saved)) {
        stopifnot(
          identical(as_array(loaded[[name]]), as_array(saved[[name]])), elt_type(loaded[[name]]) == dtype,
          device(loaded[[name]]) == pjrt_device("cpu:1")
        )
      }
    }
    cat("the same\n")
  })
}

test_that("package safetensors saves and loads buffers if it is loaded after this package", {
  expect_clean(run_with_stand_in(round_trip(), PJRT_CPU_DEVICE_COUNT = "2"), "the same")
})

test_that("package safetensors saves and loads buffers if it is loaded before this package", {
  before <- "datasets,utils,grDevices,graphics,stats,methods,safetensors"
  expect_clean(run_with_stand_in(round_trip(), PJRT_CPU_DEVICE_COUNT = "2", R_DEFAULT_PACKAGES = before), "the same")
})

test_that("either package can be unloaded and loaded again", {
  child <- run_with_stand_in(quote({
    works <- function() {
      path <- tempfile()
      safetensors::safe_save_file(list(x = pjrt::pjrt_buffer(1:3)), path, framework = "pjrt")
      pjrt::as_array(safetensors::safe_load_file(path, framework = "pjrt")$x)
    }
    hooks <- function() length(getHook(packageEvent("safetensors", "onLoad")))
    before <- c(hooks(), works())
    unloadNamespace("safetensors")
    cat(identical(c(hooks(), works()), before), "\n")
    unloadNamespace("pjrt")
    cat(hooks() < before[[1]], is.null(safetensors:::safetensors_frameworks[["pjrt"]]), "\n")
    unloadNamespace("safetensors")
    loadNamespace("safetensors")
    cat(is.null(safetensors:::safetensors_frameworks[["pjrt"]]), "\n")
    cat(works(), "\n")
  }))
  expect_clean(child, c("TRUE ", "TRUE TRUE ", "TRUE ", "1 2 3 "))
})

test_that("a safetensors package without frameworks is left alone", {
  child <- run_with_stand_in(quote({
    unloadNamespace("pjrt")
    ns <- asNamespace("safetensors")
    unlockBinding("safetensors_frameworks", ns)
    assign("safetensors_frameworks", list(), envir = ns)
    library(pjrt)
    unloadNamespace("pjrt")
  }))
  expect_clean(child)
})

test_that("the real package safetensors saves and loads buffers", {
  skip_if_not_installed("safetensors")
  expect_clean(run_child(round_trip(written), c(PJRT_CPU_DEVICE_COUNT = "2")), "the same")
  before <- "datasets,utils,grDevices,graphics,stats,methods,safetensors"
  expect_clean(run_child(round_trip(written), c(PJRT_CPU_DEVICE_COUNT = "2", R_DEFAULT_PACKAGES = before)), "the same")
})

test_that("a tensor can be created from the bytes of every common type", {
  expect_bits(
    as_array(pjrt_tensor_from_raw(bytes(c(1, 2, 3, 4, 5, 6), 4), list(shape = list(2L, 3L), dtype = "F32"))),
    matrix(c(1, 4, 2, 5, 3, 6), 2)
  )
  expect_bits(as_array(pjrt_tensor_from_raw(as.raw(c(0x80, 0x3f)), list(shape = list(), dtype = "BF16"))), 1)
  expect_bits(as_array(pjrt_tensor_from_raw(as.raw(0x38), list(shape = integer(), dtype = "F8_E4M3"))), 1)
  expect_identical(shape(pjrt_tensor_from_raw(raw(), list(shape = c(2, 0), dtype = "C64"))), c(2L, 0L))
})

test_that("four-bit tensors hold two elements per byte, the first in the lower half", {
  x <- pjrt_tensor_from_raw(as.raw(c(0x21, 0x76)), list(shape = c(2, 2), dtype = "F4"))
  expect_bits(as_array(x), matrix(c(0.5, 4, 1, 6), 2))
  expect_identical(safe_tensor_buffer.PJRTBuffer(x), as.raw(c(0x21, 0x76)))
  expect_identical(safe_tensor_meta.PJRTBuffer(x), list(shape = list(2L, 2L), dtype = "F4"))
  expect_refused(safe_tensor_buffer.PJRTBuffer(pjrt_empty("f4e2m1fn", 3L)), "invalid_input", "must be even")
})

test_that("invalid tensors are refused", {
  from_raw <- function(raw, shape, dtype) pjrt_tensor_from_raw(raw, list(shape = shape, dtype = dtype))
  expect_refused(from_raw(raw(7), 2L, "F32"), "invalid_input", "7 bytes")
  expect_refused(
    from_raw(raw(3), c(2, 2), "F4"), "invalid_input", "3 bytes, but dtype F4 with shape (2, 2) requires 2."
  )
  expect_refused(from_raw(raw(3), 4L, "F6_E2M3"), "unsupported_dtype", "F6_E2M3. Supported types: BOOL")
  expect_refused(from_raw(raw(3), 4L, "f32"), "unsupported_dtype", "f32")
  expect_refused(from_raw(raw(3), 4L, NULL), "unsupported_dtype", "one string")
  expect_refused(from_raw(raw(4), -1, "F32"), "invalid_input")
  expect_refused(from_raw(raw(4), list("1"), "F32"), "invalid_input", "`meta`")
  expect_refused(from_raw(1:4, 1L, "F32"), "invalid_input", "`raw`")
  expect_refused(pjrt_tensor_from_raw(raw(4), "F32"), "invalid_input", "`meta`")
  long <- strrep("x", 5000)
  expect_refused(from_raw(raw(4), 4L, long), "unsupported_dtype", paste0("file: ", substr(long, 1, 100), "...."))
  expect_refused(from_raw(raw(1), c(1, 1), "F4"), "invalid_input", "requires 0.5")
  for (dtype in c("c128", "i4", "f8e3m4")) {
    x <- pjrt_empty(dtype, 2L)
    expect_refused(safe_tensor_meta.PJRTBuffer(x), "unsupported_dtype", "has no type for")
    expect_refused(safe_tensor_buffer.PJRTBuffer(x), "unsupported_dtype", dtype)
  }
})
