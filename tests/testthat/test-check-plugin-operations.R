test_that("an operation is compared with R for each shape", {
  on <- pjrt_device("cpu")
  operations <- checked_operations()
  expect_gte(length(operations), 60L)
  expect_false(anyDuplicated(names(operations)) > 0L)
  good <- operations[["stablehlo.add"]]
  expect_true(check_operation(good, on))
  wrong <- good
  wrong$f <- function(x, y) x + y + (seq_along(x) == 33L)
  expect_match(check_operation(wrong, on), "^shape 33: 1 of 33 elements differ, such as element 33: ")
  bad <- good
  bad$body <- function(x, kind, dims) sprintf("%%r = stablehlo.nothing %s : %s", x[[1L]], kind)
  expect_error(check_operation(bad, on), class = "pjrt_error_compile")
})
