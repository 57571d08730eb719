# Bad input to functions for buffers. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  as_array = row(x = of("buffer", x, "an array promise", "list()", "list(a = NULL)")),
  as_array.PJRTBuffer = row(x = "buffer", check = "flag_or_null", int64 = of("choice", "double"), drop = "flag"),
  as_array.PJRTArrayPromise = row(x = "promise", drop = "flag"),
  as_array_async = row(x = of("buffer", x, "list()", "list(a = NULL)")),
  as_array_async.PJRTBuffer = row(x = "buffer", int64 = of("choice", "double")),
  as_dlpack = row(x = "buffer"),
  as_dlpack.PJRTBuffer = row(x = "buffer", copy = "flag", versioned = "flag"),
  as_raw = row(x = "buffer"),
  as_raw.PJRTBuffer = row(x = "buffer", row_major = "flag"),
  await = row(x = of(
    "buffer", x, "an array promise", "a compiling promise", "one from a file as PJRTExecutablePromise", "list()",
    "list(a = NULL)"
  )),
  await.PJRTBuffer = row(x = "buffer", timeout = of("index", 1, "NULL", setdiff(ages, "integer64"))),
  await.PJRTArrayPromise = row(x = "promise", timeout = of("index", 1, "NULL", setdiff(ages, "integer64"))),
  copy_buffer = row(buffer = "buffer", device = of("device", here, "a memory")),
  device = row(x = of("known_buffer", x, "an executable", "a closed executable")),
  device.PJRTBuffer = row(x = "known_buffer"),
  dtype = row(x = "known_buffer"),
  dtype.PJRTBuffer = row(x = "known_buffer"),
  elt_type = row(x = "known_buffer"),
  format_buffer = row(buffer = "buffer"),
  all.equal.PJRTDLPack = row(target = of("any", as_dlpack(x)), current = "any"),
  format.PJRTDLPack = row(x = of("none", as_dlpack(x), of_files("PJRTDLPack")[[1L]])),
  is_deleted = row(x = of("known_buffer", x, of_files("PJRTBuffer"))),
  is_ready = row(x = of(
    "buffer", x, "an array promise", "a compiling promise", "one from a file as PJRTExecutablePromise", "list()",
    "list(a = NULL)"
  )),
  is_ready.PJRTBuffer = row(x = "buffer"),
  pjrt_on_ready = row(
    x = of(
      "buffer", x, "an array promise", "a compiling promise", "one from a file as PJRTExecutablePromise", "list()",
      "list(a = NULL)"
    ),
    callback = of("fun", identity, "a function as PJRTBuffer")
  ),
  # a promise of what cannot be used is rejected
  as.promise.PJRTBuffer = row(x = "any"),
  knit_print.PJRTBuffer = row(x = "shown"),
  type_sum.PJRTBuffer = row(x = "shown"),
  obj_sum.PJRTBuffer = row(x = "shown"),
  .DollarNames.PJRTBuffer = row(x = "any", pattern = "any"),
  as.promise.PJRTArrayPromise = row(x = "any"),
  as.promise.PJRTExecutablePromise = row(x = "any"),
  is.promising.PJRTBuffer = row(x = "any"),
  is.promising.PJRTArrayPromise = row(x = "any"),
  is.promising.PJRTExecutablePromise = row(x = "any"),
  is_ready.PJRTArrayPromise = row(x = "promise"),
  memory_space = row(x = "buffer"),
  pjrt_buffer = row(
    data = of("data", c(1, 2), "a data frame"), dtype = "dtype", device = "device", shape = of("shape", 2L, "-1"),
    check = "flag_or_null"
  ),
  pjrt_buffer.PJRTBuffer = row(
    data = "known_buffer", dtype = of("dtype", "f64"), device = "known_device", shape = of("shape", 2L, "!1:2", "-1"),
    check = "flag_or_null"
  ),
  pjrt_buffer.raw = row(
    data = of("none", as.raw(1:4)), dtype = of("dtype", "f16", "!NULL"), device = "device",
    shape = of("shape", 2L, "!NULL"), row_major = "flag"
  ),
  pjrt_delete = row(buffer = of("ended", pjrt_scalar(1), "list()", of_files("PJRTBuffer"))),
  pjrt_empty = row(
    dtype = of("dtype", "f32", "!NULL"), device = "device",
    shape = of("shape", 2L, "!NULL", "integer()", "double()", "0L", "1L", "a matrix")
  ),
  pjrt_from_dlpack = row(x = of("none", as_dlpack(x)), device = "device", copy = "flag_or_null"),
  pjrt_from_dlpack.PJRTDLPack = row(x = of("none", as_dlpack(x)), device = "device", copy = "flag_or_null"),
  pjrt_scalar = row(data = of("number", 1, "a data frame"), dtype = "dtype", device = "device", check = "flag_or_null"),
  pjrt_scalar.PJRTBuffer = row(
    data = of("none", pjrt_scalar(1)), dtype = "dtype", device = "known_device", check = "flag_or_null"
  ),
  pjrt_scalar.raw = row(
    data = of("number", as.raw(1), "!integer64", "a data frame"), dtype = of("dtype", "ui8", "!NULL"), device = "device"
  ),
  print.PJRTDLPack = row(x = of("none", as_dlpack(x), of_files("PJRTDLPack")[[1L]])),
  r_to_py.PJRTBuffer = row(x = "buffer", convert = "any"),
  r_to_py.PJRTDLPack = row(x = of("none", as_dlpack(x)), convert = "any"),
  shape = row(x = "known_buffer"),
  shape.PJRTBuffer = row(x = "known_buffer"),
  value = row(x = of(
    "promise", array, "a buffer", "a compiling promise", "one from a file as PJRTExecutablePromise", "list()",
    "list(a = NULL)"
  )),
  value.PJRTArrayPromise = row(x = "promise"),
  value.PJRTBuffer = row(x = "buffer"),
  platform.PJRTBuffer = row(x = "known_buffer")
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `as_array(list(x, .))` = use(
    as_array(list(x, bad)), of("buffer", NULL, "NULL", "an array promise", "list()", "list(a = NULL)")
  ),
  `pjrt_delete(list(.))` = use(pjrt_delete(list(bad)), of("ended", NULL, "list()", of_files("PJRTBuffer"))),
  `options(pjrt.staging_max = .)` = use(
    with_option("pjrt.staging_max", bad, pjrt_memory_stats()), of("index", NULL, "NULL", "0L", "1.5", "1e-300", whole)
  )
)

test_that("functions of buffers refuse bad input with an error of this package", {
  # Python is not started for this
  lend <- function(lent) .Call(pjrt:::ffi_dlpack_release, lent)
  give <- function(address, versioned) .Call(pjrt:::ffi_dlpack_take, address, versioned)
  local_in_package("python_module", function() list(lend = lend, give = give))
  # these methods take any buffer, and give it to that package
  has_promises <- requireNamespace("promises", quietly = TRUE)
  rows <- rows[has_promises | !startsWith(names(rows), "as.promise")]
  tried <- try_bad_input(rows, uses, at_least = 4300)
  expect_snapshot(cat(refusals(tried)))
})
