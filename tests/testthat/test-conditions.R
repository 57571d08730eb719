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

test_that("errors about the input have a class that says what is wrong with it", {
  classes <- function(kinds) c(paste0("pjrt_error_", kinds), "pjrt_error", "error", "condition")
  class_of <- function(code) class(tryCatch(code, error = identity))
  for (code in expression(
    pjrt_buffer("a"), pjrt_client(1), pjrt_scalar(1, check = NA), print(pjrt_scalar(1), header = 2),
    tree_path(build_tree(1), "a"), value(1), pjrt_compile_options(num_replicas = "a")
  )) {
    expect_identical(class_of(eval(code)), classes(c("invalid_type", "invalid_input")), info = deparse(code))
  }
  for (code in expression(
    pjrt_device("cpu:999"), pjrt_client("a/b"), as.vector(pjrt_scalar(1), "text"),
    pjrt_scalar(1)$name, pjrt_buffer(1, nonsense = 2), pjrt_compile_options(num_replicas = -1)
  )) {
    expect_identical(class_of(eval(code)), classes(c("invalid_value", "invalid_input")), info = deparse(code))
  }
  bytes <- as.raw(1:100)
  file <- withr::local_tempfile()
  writeBin(bytes, file)
  file_classes <- c("invalid_file", "invalid_input")
  expect_identical(class_of(pjrt_program(raw())), classes(file_classes))
  expect_identical(class_of(pjrt_program(as.raw(c(0x4d, 0x4c, 0xef, 0x52, 1:9)))), classes(file_classes))
  expect_identical(class_of(pjrt_load_exported(bytes)), classes(file_classes))
  expect_identical(class_of(pjrt_load_safetensors(file)), classes(c("safetensors_invalid", file_classes)))
  expect_identical(class_of(pjrt_deserialize(bytes)), classes(c("serialized_invalid", file_classes)))
  expect_identical(class_of(pjrt_register_plugin("mine", file)), classes(c("plugin_invalid", file_classes)))
})

test_that("common mistakes are answered with what to do", {
  expect_refused(pjrt_buffer(1:6, dim = c(2, 3)), "invalid_input", "Use `shape` for `dim`.")
  expect_refused(pjrt_buffer(1:6, dims = 6, type = "f32"), "invalid_input", "Use `dtype` for `type`.")
  withr::local_envvar(PJRT_INSTALL = "0")
  error <- expect_refused(
    pjrt_buffer(1, device = "gpu"), "plugin_not_found", "Platforms with a plugin on this machine: \"cpu\""
  )
  expect_match(conditionMessage(error), "install_pjrt() can install \"cuda\"", fixed = TRUE)
  expect_refused(
    pjrt_execute(), "invalid_input", "pjrt_execute(executable, x, y) runs an executable from pjrt_compile()"
  )
  x <- pjrt_scalar(1)
  expect_refused(pjrt_execute(inputs = list(x)), "invalid_input", "`executable` is missing.")
  expect_refused(pjrt_save_executable(x, "a"), "invalid_type", "pjrt_save_safetensors(list(x = buffer), path)")
})

test_that("whole doubles are accepted wherever integers are", {
  x <- pjrt_buffer(matrix(1:6, 2))
  tree <- build_tree(list(a = 1, b = list(2, 3)))
  text <- function(x) utils::capture.output(print(x))
  program <- pjrt_program(unary_program("2xf32"))
  uses <- list(
    function(i) text(pjrt_execution_options(i(0), i(1), keep_inputs = i(2))),
    function(i) text(pjrt_compile_options(i(1), i(1), device_assignment = i(0), optimization_level = i(1))),
    function(i) text(pjrt_compile_options(debug_options = list(xla_backend_optimization_level = i(1)))),
    function(i) as_array(pjrt_buffer(1:6, shape = i(c(2, 3)))),
    function(i) as_array(pjrt_empty("i32", i(2))),
    function(i) x[i(1), i(2:3)],
    function(i) x[[i(1), i(2)]],
    function(i) tree_path(tree, i(2)),
    function(i) utils::capture.output(print(x, max_rows = i(1), max_width = i(40), max_rows_slice = i(1))),
    function(i) format(program, n = i(1)),
    function(i) lapply(pjrt_shard(1:4, "cpu", dim = i(1)), as_array),
    function(i) pjrt_unshard(list(x), dim = i(1)),
    function(i) dispatcher_size(dispatcher(i(2), identity, default_device = function() "cpu")),
    function(i) text(pjrt_program("func.func @main(%x: tensor<{N}xf32>) -> () {", types = list(N = i(2))))
  )
  for (use in uses) expect_identical(use(as.double), use(as.integer), info = paste(deparse(body(use)), collapse = " "))
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

test_that("a long call of a function that has no name can be shown", {
  add <- pjrt_function(compile(add_program("2xf32")))
  error <- expect_refused(do.call(add, list(numeric(1000))), "argument_count")
  expect_identical(conditionCall(error), quote(FUN(...)))
  expect_match(capture.output(print(error)), "in FUN(...): The function takes", fixed = TRUE, all = FALSE)
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
