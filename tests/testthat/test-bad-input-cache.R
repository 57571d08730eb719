# Slow: tries every bad value.
# Bad input to functions for the executable cache. helper-bad-input.R explains the rows.

rows <- list(
  format.PJRTCacheInfo = row(x = of("printed", pjrt_cache_info())),
  print.PJRTCacheInfo = row(x = of("printed", pjrt_cache_info())),
  as.data.frame.PJRTCacheInfo = row(x = of("any", pjrt_cache_info()), row.names = "ignored", optional = "ignored"),
  pjrt_cache_info = row(),
  pjrt_clear_cache = row(max_size = of("size", NULL, "NULL"), max_age = of("index", 1, "NULL", ages))
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `options(pjrt.cache = .)` = use(with_option("pjrt.cache", bad, pjrt_cache_info()), "flag_or_null"),
  `options(pjrt.cache_max_size = .)` = use(with_option("pjrt.cache_max_size", bad, pjrt_cache_info()), "size")
)

test_that("functions of the cache refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 300)
  expect_snapshot(cat(refusals(tried)))
})
