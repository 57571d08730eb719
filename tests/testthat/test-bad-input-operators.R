# Bad input to operators on buffers. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  aperm.PJRTBuffer = row(a = "buffer", perm = of("index", 1L, "NULL", "1L"), resize = of("flag", TRUE, "!FALSE")),
  cbind.PJRTBuffer = row(of("buffer", x), of("joined", 1, "a matrix"), deparse.level = of("ignored", 1)),
  colMeans = row(x = of("ignored", square), na.rm = "flag", dims = of("index", 1, "1L")),
  colSums = row(x = of("ignored", square), na.rm = "flag", dims = of("index", 1, "1L")),
  Complex.PJRTBuffer = row(z = "buffer"),
  crossprod = row(x = of("ignored", x), y = "factor"),
  median.PJRTBuffer = row(x = "buffer", na.rm = of("ignored", FALSE)),
  weighted.mean.PJRTBuffer = row(x = "buffer", w = of("ignored", c(1, 1))),
  quantile.PJRTBuffer = row(x = "buffer"),
  na.omit.PJRTBuffer = row(object = "buffer"),
  diff.PJRTBuffer = row(x = "buffer"),
  split.PJRTBuffer = row(x = "buffer", f = of("ignored", c(1, 2))),
  cut.PJRTBuffer = row(x = "buffer", breaks = of("ignored", 2)),
  determinant.PJRTBuffer = row(x = of("ignored", square)),
  solve.PJRTBuffer = row(a = of("ignored", square), b = of("ignored", c(1, 1))),
  rep.PJRTBuffer = row(x = "buffer"),
  unique.PJRTBuffer = row(x = "buffer", incomparables = of("ignored", FALSE)),
  anyDuplicated.PJRTBuffer = row(x = "buffer", incomparables = of("ignored", FALSE)),
  duplicated.PJRTBuffer = row(x = "buffer", incomparables = of("ignored", FALSE)),
  xtfrm.PJRTBuffer = row(x = "buffer"),
  diag = row(x = of("ignored", x), nrow = of("ignored", 2), ncol = of("ignored", 2), names = "any"),
  `dim<-.PJRTBuffer` = row(x = "buffer", value = of("mode", 2L, "NULL", "1:2", "-1")),
  is.array.PJRTBuffer = row(x = "known_buffer"),
  is.matrix.PJRTBuffer = row(x = "known_buffer"),
  mean.PJRTBuffer = row(x = "buffer", trim = of("index", 0, "0L"), na.rm = "flag"),
  Math.PJRTBuffer = row(x = "buffer"),
  Ops.PJRTBuffer = row(e1 = "buffer", e2 = "operand"),
  rbind.PJRTBuffer = row(of("buffer", x), of("joined", 1, "a matrix"), deparse.level = of("ignored", 1)),
  rev.PJRTBuffer = row(x = "buffer"),
  rowMeans = row(x = of("ignored", square), na.rm = "flag", dims = of("index", 1, "1L")),
  rowSums = row(x = of("ignored", square), na.rm = "flag", dims = of("index", 1, "1L")),
  sort.PJRTBuffer = row(x = "buffer", decreasing = of("ignored", FALSE), na.last = of("ignored", NA)),
  Summary.PJRTBuffer = row(of("buffer", x), na.rm = "flag"),
  t.PJRTBuffer = row(x = "buffer"),
  tcrossprod = row(x = of("ignored", x), y = of("ignored", x))
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `. + x` = use(bad + x, "operand"),
  `log(x, .)` = use(log(x, bad), "operand"),
  `options(pjrt.operators_max = .)` = use(
    with_option("pjrt.operators_max", bad, pjrt_cache_info()), of("index", NULL, "NULL", "0L", "1L")
  )
)

test_that("operators on buffers refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 200)
  expect_snapshot(cat(refusals(tried)))
})
