results <- function() list(a = pjrt_scalar(1), b = list(pjrt_buffer(1:3), NULL), c = list())
values <- list(a = 1, b = list(array(1:3), NULL), c = list())

test_that("lists of results are read into lists of the same structure", {
  expect_identical(as_array(results()), values)
  expect_identical(value(as_array_async(results())), values)
  expect_identical(as_array(as_array_async(results())), values)
  expect_identical(as_array(list()), list())
  x <- list(pjrt_buffer(c(1, 2^40), "i64"))
  expect_identical(as_array(x, int64 = "double"), list(array(c(1, 2^40))))
  expect_refused(as_array(x, int64 = "integer"), "invalid_input", "`[[1]]`: The buffer holds")
  run <- pjrt_compile_async(pjrt_program(add_program("f32")))
  expect_s3_class(value(list(run = run))$run, "PJRTLoadedExecutable")
})

test_that("lists of results are awaited, and ready if all are", {
  x <- results()
  expect_invisible(await(x))
  expect_identical(await(x), x)
  expect_true(is_ready(x))
  expect_true(is_ready(list()))
  endless <- pjrt_execute(compile(loop_program(1e7), device = "cpu:1"), pjrt_scalar(1, "f64", device = "cpu:1"))
  expect_false(is_ready(list(x, list(endless))))
  await(list(x, list(endless)))
  expect_true(is_ready(list(x, list(endless))))
})

test_that("a list of buffers alone is awaited and read like others", {
  run_loop <- function(steps) pjrt_execute(compile(loop_program(steps)), pjrt_scalar(1, "f64"))
  x <- list(run_loop(10), b = run_loop(1e6))
  expect_identical(expect_invisible(await(x)), x)
  expect_identical(is_ready(x), TRUE)
  expect_identical(await(list()), list())
  x <- list(run_loop(1e6), b = pjrt_scalar(1), 2)
  expect_refused(await(x), "invalid_input", "Element `[[3]]` of `x` must be a `PJRTBuffer`")
  x <- x[1:2]
  for (names in list(NULL, c("", ""), c("a", ""), c("a", "a"), c("\u00e9", "b"))) {
    named <- stats::setNames(x, names)
    expect_identical(as_array(named), stats::setNames(lapply(x, as_array), names))
    expect_identical(await(named), named)
  }
  expect_refused(as_array(stats::setNames(x, c("a", NA))), "invalid_input", "names must not be NA")
  wide <- list(pjrt_buffer(1:2), y = pjrt_buffer(c(1, 2^40), "i64"))
  expect_identical(as_array(wide), list(array(1:2), y = as_array(wide$y)))
  expect_identical(as_array(matrix(wide, 1)), unname(as_array(wide)))
  nested <- list(params = list(wide, list(b = x$b, NULL)), list())
  expect_identical(
    as_array(nested), list(params = list(as_array(wide), list(b = as_array(x$b), NULL)), list())
  )
  expect_identical(await(nested), nested)
  deep <- Reduce(function(inner, i) list(a = inner), 1:1000, x$b)
  expect_identical(as_array(deep), Reduce(function(inner, i) list(a = inner), 1:1000, as_array(x$b)))
  pjrt_delete(x$b)
  expect_refused(as_array(list(x[1], list(x))), "deleted_buffer", "`[[2]][[1]]$b`: ")
  expect_refused(await(list(c = x)), "deleted_buffer", "`c$b`: ")
  # the first is awaited before the second fails
  x[[1]] <- run_loop(1e6)
  expect_refused(await(x), "deleted_buffer", "`b`: The function was called on deleted or donated buffer")
  expect_true(is_ready(x[[1]]))
  class(x) <- "other"
  expect_refused(await(x), "invalid_input", "must be a `PJRTBuffer`")
})

test_that("errors name the element", {
  x <- results()
  pjrt_delete(x$b[[1]])
  expect_refused(as_array(x), "deleted_buffer", "`b[[1]]`: The function was called on deleted or donated buffer")
  expect_refused(await(x), "deleted_buffer", "`b[[1]]`: ")
  expect_refused(is_ready(x), "deleted_buffer", "`b[[1]]`: ")
  expect_refused(as_array_async(x), "deleted_buffer", "`b[[1]]`: ")
  # lists without any result of ours are left to other packages that are loaded
  for (f in list(as_array, as_array_async, await, is_ready, value)) {
    for (bad in list(1, "a", mean, structure(list(), class = "other"))) {
      expect_refused(
        f(list(list(good = bad), pjrt_scalar(1))), "invalid_input", "Element `[[1]]$good` of `x` must be a `PJRT"
      )
    }
  }
})

test_that("lists of another package's objects are left to it", {
  skip_if_not_installed("future")
  promises <- list(a = future::future(1 + 1, lazy = TRUE), b = future::future(3, lazy = TRUE))
  expect_identical(value(promises), list(a = 2, b = 3))
  expect_identical(value(list(promises$a, as_array_async(pjrt_scalar(1)))), list(2, 1))
})
