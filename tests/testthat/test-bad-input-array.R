# Bad input to array methods of buffers. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  `$.PJRTBuffer` = row(x = "buffer", name = of("ignored", "x"), refuses = TRUE),
  `$<-.PJRTBuffer` = row(x = "buffer", of("string", "a"), value = "any", refuses = TRUE),
  `[.PJRTBuffer` = row(
    x = "buffer", drop = "flag", as = of("choice", "buffer"), of("subscript", 1, subscripts)
  ),
  `[[.PJRTBuffer` = row(x = "buffer", of("subscript", 1, "a factor", "integer64", "1L", "1.5"), exact = "any"),
  `[<-.PJRTBuffer` = row(x = "buffer", of("index", 1), value = "any", refuses = TRUE),
  `[[<-.PJRTBuffer` = row(x = "buffer", of("index", 1), value = "any", refuses = TRUE),
  `dimnames<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
  `length<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
  `names<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
  `levels<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
  all.equal.PJRTBuffer = row(target = "buffer", current = "compared_array"),
  anyNA.PJRTBuffer = row(x = "buffer", recursive = "any"),
  as.array.PJRTBuffer = row(x = "buffer"),
  as.complex.PJRTBuffer = row(x = "buffer"),
  as.data.frame.PJRTBuffer = row(x = "buffer", row.names = "ignored", optional = "flag", nm = "ignored"),
  as.double.PJRTBuffer = row(x = "buffer"),
  as.integer.PJRTBuffer = row(x = "buffer"),
  as.list.PJRTBuffer = row(x = "buffer"),
  as.integer64.PJRTBuffer = row(x = "buffer"),
  as.logical.PJRTBuffer = row(x = "buffer"),
  as.matrix.PJRTBuffer = row(x = "buffer"),
  as.raw.PJRTBuffer = row(x = "buffer"),
  as.vector.PJRTBuffer = row(x = "buffer", mode = of("mode", "any")),
  compare_proxy.PJRTBuffer = row(x = "buffer", path = "ignored"),
  compare_proxy.PJRTArrayPromise = row(x = "promise", path = "ignored"),
  dim.PJRTBuffer = row(x = "known_buffer"),
  format.PJRTBuffer = row(x = "shown"),
  is.finite.PJRTBuffer = row(x = "buffer"),
  is.infinite.PJRTBuffer = row(x = "buffer"),
  is.na.PJRTBuffer = row(x = "buffer"),
  is.nan.PJRTBuffer = row(x = "buffer"),
  is.numeric.PJRTBuffer = row(x = "known_buffer"),
  length.PJRTBuffer = row(x = "known_buffer"),
  print.PJRTBuffer = row(
    x = of("buffer", x, used_buffers, of_files("PJRTBuffer")), max_rows = of("index", 5, whole, "-1L", "-1"),
    header = "flag",
    footer = of("string", "a", "NULL", "bytes", "invalid UTF-8"),
    max_rows_slice = of("index", 5, whole, "-1L", "-1"), max_width = of("index", 5, setdiff(whole, "1L"), below_zero)
  ),
  str.PJRTBuffer = row(object = "shown"),
  summary.PJRTBuffer = row(object = "buffer"),
  print.summary.PJRTBuffer = row(x = of("printed", summary(x))),
  format.PJRTArrayPromise = row(x = of("shown", array, "!a null pointer as PJRTArrayPromise")),
  print.PJRTArrayPromise = row(x = of("promise", array, "a closed promise", "one from a file as PJRTArrayPromise")),
  all.equal.PJRTArrayPromise = row(target = "promise", current = "compared_array"),
  summary.PJRTArrayPromise = row(object = "promise"),
  mean.PJRTArrayPromise = row(x = "promise"),
  is.na.PJRTArrayPromise = row(x = "promise"),
  anyNA.PJRTArrayPromise = row(x = "promise", recursive = "any"),
  dim.PJRTArrayPromise = row(x = of("shown", array, "!a null pointer as PJRTArrayPromise")),
  length.PJRTArrayPromise = row(x = of("shown", array, "!a null pointer as PJRTArrayPromise")),
  str.PJRTArrayPromise = row(object = of("shown", array, "!a null pointer as PJRTArrayPromise"))
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `x[., 1]` = use(square[bad, 1], of("subscript", NULL, subscripts)),
  `x[., 1, as = "buffer"]` = use(square[bad, 1, as = "buffer"], of("subscript", NULL, subscripts)),
  `x[[., 1]]` = use(square[[bad, 1]], of("subscript", NULL, "a factor", "integer64", "1L", "1.5")),
  `options(pjrt.print_max_rows = .)` = use(
    with_option("pjrt.print_max_rows", bad, print(x)), of("index", NULL, "NULL", whole, "-1L", "-1")
  ),
  `options(pjrt.print_max_rows_slice = .)` = use(
    with_option("pjrt.print_max_rows_slice", bad, print(x)), of("index", NULL, "NULL", whole, "-1L", "-1")
  ),
  `options(pjrt.print_max_width = .)` = use(
    with_option("pjrt.print_max_width", bad, print(x)), of("index", NULL, "NULL", setdiff(whole, "1L"), below_zero)
  )
)

test_that("array methods of buffers refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 2600)
  expect_snapshot(cat(refusals(tried)))
})
