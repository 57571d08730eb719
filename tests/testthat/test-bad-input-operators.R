# Bad input to operators on buffers. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  chooseOpsMethod.PJRTBuffer = row(
    x = of("ignored", x), y = of("ignored", x), mx = of("ignored", 1), my = of("ignored", 1), cl = of("ignored", 1),
    reverse = of("ignored", FALSE)
  ),
  is.array.PJRTBuffer = row(x = "known_buffer"),
  is.matrix.PJRTBuffer = row(x = "known_buffer"),
  Math.PJRTBuffer = row(x = "buffer"),
  Ops.PJRTBuffer = row(e1 = "buffer", e2 = "operand")
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `. + x` = use(bad + x, "operand"),
  `log(x, .)` = use(log(x, bad), of("number", 2)),
  `options(pjrt.operators_max = .)` = use(
    with_option("pjrt.operators_max", bad, pjrt_cache_info()), of("index", NULL, "NULL", "0L", "1L")
  )
)

test_that("operators on buffers refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 200)
  expect_snapshot(cat(refusals(tried)))
})
