# Slow: tries every bad value.
# Bad input to functions for traces. helper-bad-input.R explains the rows.

rows <- list(
  as.data.frame.PJRTTrace = row(x = of("printed", trace), row.names = "ignored", optional = "ignored"),
  autoplot.PJRTTrace = row(object = of("printed", trace)),
  knit_print.PJRTTrace = row(x = of("printed", trace)),
  pjrt_trace = row(
    expr = "any", path = of("index", NULL, "NULL"),
    max_events = of("index", 5, "1L", "1.5", "2^31", "2^53", "1e18", "1e300")
  ),
  pjrt_start_trace = row(
    max_events = of("index", 5, "1L", "1.5", "2^31", "2^53", "1e18", "1e300"), after = pjrt_stop_trace()
  ),
  pjrt_stop_trace = row(path = of("index", NULL), refuses = TRUE),
  plot.PJRTTrace = row(
    x = of("printed", trace), xlim = of("index", NULL, "NULL", "1:2"), main = of("string", NULL, "NULL", "!\"\"")
  ),
  print.PJRTTrace = row(x = of("printed", trace)),
  print.summary.PJRTTrace = row(x = of("printed", summary(trace))),
  summary.PJRTTrace = row(object = of("printed", trace))
)

test_that("functions for traces refuse bad input with an error of this package", {
  skip_if_not_installed("ggplot2")
  tried <- try_bad_input(rows, list(), at_least = 500)
  expect_snapshot(cat(refusals(tried)))
})
