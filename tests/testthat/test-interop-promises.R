# Slow: waits for long programs.

slow <- function(x = 1, steps = 5e6) pjrt_execute(compile(loop_program(steps)), pjrt_scalar(x, "f64"))

# Runs an event loop until `is_done()`, and returns how often it woke up. Nothing else than work wakes it within two
# minutes.
run_until <- function(is_done, loop = later::current_loop()) {
  rounds <- 0L
  while (!is_done() && rounds < 1000L) {
    later::run_now(120, loop = loop)
    rounds <- rounds + 1L
  }
  rounds
}

# What a promise has become.
settled <- function(promise) {
  outcome <- NULL
  promises::then(
    promise, onFulfilled = function(value) outcome <<- list(value = value),
    onRejected = function(e) outcome <<- list(error = e)
  )
  run_until(function() !is.null(outcome))
  outcome
}

test_that("a buffer's promise resolves to the buffer when it is ready", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  y <- slow(steps = 2e7)
  promise <- promises::as.promise(y)
  expect_true(promises::is.promise(promise))
  expect_false(is_ready(y))
  expect_identical(settled(promise), list(value = y))
  expect_true(is_ready(y))
  expect_identical(settled(y), list(value = y))
})

test_that("the promises of this package resolve to the array and the executable", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  expect_identical(settled(as_array_async(slow(2))), list(value = 3))
  double <- settled(pjrt_compile_async(pjrt_program(unary_program("3xf32"))))$value
  expect_s3_class(double, "PJRTLoadedExecutable")
  expect_identical(as_array(pjrt_execute(double, pjrt_buffer(1:3, "f32"))), array(c(2, 4, 6)))
})

test_that("pipes of promises take buffers", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  `%...>%` <- promises::`%...>%`
  got <- NULL
  slow(3) %...>% as_array() %...>% (function(x) got <<- x + 1)
  run_until(function() !is.null(got))
  expect_identical(got, 5)
  all <- settled(promises::promise_all(a = promises::as.promise(slow(1)), b = promises::as.promise(slow(2))))
  expect_identical(lapply(all$value, as_array), list(a = 2, b = 3))
})

test_that("failures reject the promise with the condition", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  wrong <- pjrt_compile_async(pjrt_program("func.func @main() -> tensor<f32> { return %x : tensor<f32> }"))
  expect_s3_class(settled(wrong)$error, "pjrt_error_compile")
  y <- slow()
  promise <- promises::as.promise(y)
  pjrt_delete(y)
  expect_s3_class(settled(promise)$error, "pjrt_error_deleted_buffer")
  expect_s3_class(settled(y)$error, "pjrt_error_deleted_buffer")
})

test_that("the event loop sleeps until the result wakes it", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  y <- slow(steps = 2e7)
  done <- FALSE
  promises::then(y, function(y) done <<- TRUE)
  took <- system.time(rounds <- run_until(function() done))[["elapsed"]]
  expect_lte(rounds, 5L)
  # otherwise it would sleep for two minutes
  expect_lt(took, 100)
})

test_that("a promise made in a private event loop is settled there", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  got <- NULL
  loop <- later::create_loop(parent = NULL)
  later::with_loop(loop, promises::then(slow(), function(y) got <<- as_array(y)))
  run_until(function() !is.null(got), loop)
  expect_identical(got, 2)
  later::destroy_loop(loop)
})

test_that("a result whose event loop was destroyed meanwhile is dropped", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  got <- NULL
  loop <- later::create_loop(parent = NULL)
  y <- slow()
  later::with_loop(loop, pjrt_on_ready(y, function(y) got <<- as_array(y)))
  later::destroy_loop(loop)
  await(y)
  end <- Sys.time() + 60
  while (is.null(got) && Sys.time() < end) Sys.sleep(0.05)
  expect_identical(got, 2)
})

test_that("a promise survives garbage collection, and one without a listener is harmless", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  got <- NULL
  local(promises::then(promises::as.promise(slow()), function(y) got <<- as_array(y)))
  promises::as.promise(slow())
  gc()
  gc()
  run_until(function() !is.null(got))
  expect_identical(got, 2)
})

test_that("buffers are promising until they are ready", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  y <- slow()
  expect_identical(pjrt:::is.promising.PJRTBuffer(y), TRUE)
  await(y)
  expect_identical(pjrt:::is.promising.PJRTBuffer(y), FALSE)
  pjrt_delete(y)
  expect_identical(pjrt:::is.promising.PJRTBuffer(y), FALSE)
  # older versions of promises know their own class only
  if (utils::isS3stdGeneric(promises::is.promising)) {
    expect_true(promises::is.promising(slow()))
    expect_true(promises::is.promising(pjrt_compile_async(pjrt_program(unary_program("f32")))))
  }
})

test_that("packages that are loaded later and before get the methods", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  for (first in list(quote(NULL), quote(loadNamespace("promises")))) {
    child <- run_child(bquote({
      .(first)
      y <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
      done <- resolved <- FALSE
      pjrt_on_ready(y, function(y) done <<- TRUE)
      promises::then(y, function(y) {
        cat(as_array(y), done, "\n")
        resolved <<- TRUE
      })
      for (i in 1:600) if (!resolved) later::run_now(0.1)
    }))
    expect_clean(child, "2 TRUE ")
  }
})

test_that("a session ends normally while promises are pending", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  child <- run_child(quote({
    for (i in 1:20) {
      promises::then(pjrt_execute(compile(loop_program(1e5)), pjrt_scalar(1, "f64")), function(y) NULL)
      later::run_now()
    }
    cat("end\n")
  }))
  expect_clean(child, "end")
})

test_that("functions for results that were ready before later was loaded are called by its loop", {
  skip_if_not_installed("later")
  child <- run_child(quote({
    calls <- 0
    pjrt_on_ready(pjrt_scalar(1), function(x) calls <<- calls + 1)
    y <- pjrt_execute(compile(add_program("2xf32")), pjrt_buffer(1:2, "f32"), pjrt_buffer(1:2, "f32"))
    pjrt_on_ready(await(y), function(y) calls <<- calls + 1)
    loadNamespace("later")
    for (i in 1:100) if (calls < 2) later::run_now(1)
    cat(calls, "\n")
  }))
  expect_clean(child, "2 ")
})
