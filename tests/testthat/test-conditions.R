# Turns a function into one that a user might define, outside any package.
user <- function(f) {
  environment(f) <- globalenv()
  f
}

test_that("all errors inherit from pjrt_error", {
  error <- expect_error(pjrt_buffer(1, "f99"))
  expect_identical(class(error), c("pjrt_error_unsupported_dtype", "pjrt_error", "error", "condition"))
  expect_null(error$code)
  expect_null(error$call_name)
  expect_identical(tryCatch(pjrt_buffer(1, "f99"), pjrt_error = function(e) "caught"), "caught")
})

test_that("errors of the plugin carry its code, the call and the platform", {
  error <- expect_error(compile("nonsense"), class = "pjrt_error")
  expect_true(is.integer(error$code) && error$code > 0L)
  expect_identical(error$call_name, "PJRT_Client_Compile")
  expect_identical(error$platform, "cpu")
  kinds <- c("cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found")
  expect_identical(class(error)[[1L]], "pjrt_error_compile")
  expect_identical(class(error)[[2L]], paste0("pjrt_error_", kinds[[error$code]]))
  expect_match(conditionMessage(error), sprintf("error code %d (unknown)", error$code), fixed = TRUE)
})

test_that("the call of an error is the user's", {
  call_of <- function(f) conditionCall(tryCatch(f(), error = identity))
  expect_identical(call_of(user(function() pjrt::pjrt_buffer(1, "f99"))), quote(pjrt::pjrt_buffer(1, "f99")))
  expect_identical(call_of(user(function() pjrt::pjrt_scalar(1:2))), quote(pjrt::pjrt_scalar(1:2)))
  expect_identical(call_of(user(function() pjrt::pjrt_plugin("abc"))), quote(pjrt::pjrt_plugin("abc")))
  expect_identical(call_of(user(function() pjrt::pjrt_device("cpu:99"))), quote(pjrt::pjrt_device("cpu:99")))
  expect_identical(call_of(user(function() pjrt::pjrt_execute(1))), quote(pjrt::pjrt_execute(1)))
  expect_identical(call_of(user(function() pjrt::format_buffer(1))), quote(pjrt::format_buffer(1)))
  expect_identical(call_of(user(function() pjrt::pjrt_program())), quote(pjrt::pjrt_program()))
  expect_identical(
    call_of(user(function() pjrt::pjrt_program(path = "no/such/file"))),
    quote(pjrt::pjrt_program(path = "no/such/file"))
  )
  expect_identical(
    call_of(user(function() pjrt::pjrt_compile(pjrt::pjrt_program("nonsense")))),
    quote(pjrt::pjrt_compile(pjrt::pjrt_program("nonsense")))
  )
  expect_identical(
    call_of(user(function() pjrt::pjrt_client("cpu", cpu_device_count = 1L))),
    quote(pjrt::pjrt_client("cpu", cpu_device_count = 1L))
  )
})

test_that("an error in a method names the generic, and loops around it do not show", {
  x <- pjrt_buffer(c(1, 2))
  pjrt_execute(compile(add_program("2xf32", donates)), x, pjrt_buffer(c(1, 2)))
  call <- conditionCall(tryCatch(as_array(x), error = identity))
  expect_identical(call[[1L]], quote(as_array))
  looped <- user(function() lapply(list("f99"), function(dtype) pjrt::pjrt_buffer(1, dtype)))
  expect_identical(conditionCall(tryCatch(looped(), error = identity)), quote(pjrt::pjrt_buffer(1, dtype)))
})

test_that("messages put advice on separate lines", {
  tell <- function(code) tryCatch(code, pjrt_error = function(e) cat(class(e)[[1L]], conditionMessage(e), sep = "\n"))
  add <- compile(add_program("2xf32"))
  expect_snapshot(cran = TRUE, {
    tell(pjrt_buffer(1:2, shape = c(1, 4)))
    tell(pjrt_device("cpu:99"))
    tell(pjrt_buffer(factor("a")))
    tell(pjrt_execute(add, pjrt_buffer(c(1, 2)), pjrt_buffer(1:2)))
  })
})

test_that("debug messages about loading appear on request", {
  withr::local_envvar(PJRT_DEBUG = "1")
  expect_message(load_plugin(plugin_path("cpu"), "cpu"), "pjrt: loading the plugin for cpu")
  withr::local_envvar(PJRT_DEBUG = NA)
  expect_message(load_plugin(plugin_path("cpu"), "cpu"), NA)
})
