# Slow: tries every bad value.
# Bad input to methods for element types. helper-bad-input.R explains the rows.

rows <- list(
  as.character.PJRTDataType = row(x = of("dtype_name", data_type)),
  as.character.PJRTElementType = row(x = of("dtype_name", element_type)),
  format.PJRTDataType = row(x = of("dtype_name", data_type)),
  format.PJRTElementType = row(x = of("dtype_name", element_type)),
  print.PJRTDataType = row(x = of("dtype_name", data_type)),
  print.PJRTElementType = row(x = of("dtype_name", element_type)),
  `==.PJRTDataType` = row(e1 = of("dtype_name", data_type), e2 = "compared_dtype"),
  `!=.PJRTDataType` = row(e1 = of("dtype_name", data_type), e2 = "compared_dtype"),
  `==.PJRTElementType` = row(e1 = of("dtype_name", element_type), e2 = "compared_dtype"),
  `!=.PJRTElementType` = row(e1 = of("dtype_name", element_type), e2 = "compared_dtype")
)

test_that("methods of element types refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, at_least = 300)
  expect_snapshot(cat(refusals(tried)))
})
