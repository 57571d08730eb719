test_that("pjrt_compile() returns an executable for its device", {
  executable <- compile(unary_program("f32"))
  expect_identical(class(executable), "PJRTLoadedExecutable")
  expect_identical(device(executable), devices("cpu")[[1L]])
  expect_snapshot(executable, cran = TRUE)
  utils::capture.output(expect_invisible(print(executable)))
})

test_that("a program is compiled for and runs on the requested device", {
  second <- devices("cpu")[[2L]]
  for (device in list("cpu:1", second)) {
    executable <- compile(unary_program("2xf32"), device = device)
    expect_identical(device(executable), second)
    out <- pjrt_execute(executable, pjrt_buffer(c(1, 2), device = second))
    expect_identical(device(out), second)
    expect_identical(as_array(out), array(c(2, 4)))
  }
  expect_refused(compile(unary_program("f32"), device = "cpu:5"), "invalid_input", "out of range")
})

test_that("a compiler error shows line and column", {
  error <- expect_error(
    compile("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.oops %x\n}"),
    ":2:8: error: custom op 'stablehlo.oops' is unknown", class = "pjrt_error"
  )
  expect_identical(error$call_name, "PJRT_Client_Compile")
  expect_identical(error$platform, "cpu")
  expect_type(error$code, "integer")
  expect_match(conditionMessage(error), "PJRT_Client_Compile", fixed = TRUE)
})

test_that("the compiler refuses invalid programs", {
  for (bad in c(
    "nonsense", "module {}", "func.func @other() { return }",
    "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> { return %x : tensor<2xf32> }",
    "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
  )) {
    expect_error(compile(bad), class = "pjrt_error")
  }
})

test_that("an unknown custom call raises an error that names it", {
  expect_error(compile("func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.custom_call @no_such_target(%x) {api_version = 4 : i32} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }"), "no_such_target", class = "pjrt_error")
})

test_that("a failed compile does not affect the next one", {
  try(compile("nonsense"), silent = TRUE)
  expect_identical(as_array(pjrt_execute(compile(unary_program("f32")), pjrt_scalar(1))), 2)
})

test_that("pjrt_compile() accepts only programs", {
  for (bad in list("func.func @main() { return }", NULL, 1, pjrt_scalar(1))) {
    expect_refused(pjrt_compile(bad), "invalid_input", "`program` must be a `PJRTProgram`")
  }
})

test_that("compile options are checked", {
  program <- pjrt_program(unary_program("f32"))
  for (bad in list(NULL, list(), 1)) {
    expect_refused(pjrt_compile(program, bad), "invalid_input", "`compile_options` must be a `PJRTCompileOptions`")
  }
})

test_that("compile options can be reused, also for other devices", {
  options <- new_compile_options()
  program <- pjrt_program(unary_program("f32"))
  for (device in c("cpu:0", "cpu:1", "cpu:0")) {
    executable <- pjrt_compile(program, options, device)
    expect_identical(device(executable), pjrt_device(device))
    expect_identical(as_array(pjrt_execute(executable, pjrt_scalar(4, device = device))), 8)
  }
})
