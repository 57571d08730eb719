# Registering the R functions that programs call.

test_that("a new function replaces the old one, also in compiled programs, and so do handlers in C", {
  local_r_call("r_swap", function(x) x)
  program <- compile(calling_program("r_swap"))
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  local_r_call("r_swap", function(x) x + 1)
  expect_identical(run_on_four(program), c(2, 3, 4, 5))
  local_handler("r_swap", "doubles")
  expect_identical(run_on_four(program), c(2, 4, 6, 8))
  expect_true(pjrt_unregister_custom_call("r_swap"))
  expect_refused(run_on_four(program), "not_found", "'r_swap' has no handler any more")
  local_r_call("r_swap", function(x) x - 1)
  expect_identical(run_on_four(program), c(0, 1, 2, 3))
  expect_invisible(removed <- pjrt_unregister_custom_call("r_swap"))
  expect_true(removed)
  expect_false(pjrt_unregister_custom_call("r_swap"))
  expect_refused(run_on_four(program), "not_found", "'r_swap' has no handler any more")
  expect_refused(compile(calling_program("r_swap")), "not_found", "pjrt_register_r_call(\"r_swap\", ...)")
  local_r_call("r_swap", identity)
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  # a function may replace and remove itself
  local_r_call("r_swap", function(x) {
    pjrt_unregister_custom_call("r_swap")
    gc()
    x * 3
  })
  expect_identical(run_on_four(program), c(3, 6, 9, 12))
  expect_refused(run_on_four(program), "not_found")
})

test_that("a call that waits for R meanwhile gets the new function", {
  local_r_call("r_late", function(x) x)
  result <- pjrt_execute(compile(calling_program("r_late")), pjrt_buffer(c(1, 2, 3, 4)))
  # without a pause of R in which it would run functions
  end <- Sys.time() + 0.5
  while (Sys.time() < end) NULL
  local_r_call("r_late", function(x) x + 1)
  expect_identical(as.vector(as_array(result)), c(2, 3, 4, 5))
})

test_that("a function is kept while it is registered, and collected afterwards", {
  collected <- 0
  register <- function() {
    kept <- new.env()
    reg.finalizer(kept, function(e) collected <<- collected + 1)
    pjrt_register_r_call("r_kept", function(x) {
      kept$x <- x
      x
    })
  }
  register()
  program <- compile(calling_program("r_kept"))
  gc()
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  register()
  gc()
  expect_identical(collected, 1)
  pjrt_unregister_custom_call("r_kept")
  gc()
  expect_identical(collected, 2)
})

test_that("the functions of a package are removed when its namespace is unloaded", {
  pjrt_register_r_call("r_package", identity, .package = "test.r.package")
  program <- compile(calling_program("r_package"))
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  getHook(packageEvent("test.r.package", "onUnload"))[[1L]]("test.r.package", "path")
  expect_refused(run_on_four(program), "not_found")
  expect_false(pjrt_unregister_custom_call("r_package"))
})

test_that("arguments are checked", {
  expect_refused(pjrt_register_r_call("", identity), "invalid_type", "`target_name` must be one non-empty string")
  expect_refused(pjrt_register_r_call("a", "identity"), "invalid_type", "`f` must be a function, not \"identity\".")
  expect_refused(
    pjrt_register_r_call("a", identity, as = "raw"), "invalid_value", "`as` must be one of \"array\", \"buffer\""
  )
  expect_refused(pjrt_register_r_call("a", identity, .package = ""), "invalid_input", "`.package` must be")
  expect_refused(pjrt_unregister_custom_call(1), "invalid_type", "`target_name` must be")
  expect_invisible(value <- pjrt_register_r_call("r_sum", sum))
  expect_null(value)
  on.exit(pjrt_unregister_custom_call("r_sum"))
  program <- compile('func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
    %y = stablehlo.custom_call @r_sum(%x) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<f32>
    return %y : tensor<f32>
  }')
  expect_identical(run_on_four(program), 10)
})
