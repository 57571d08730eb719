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
    "custom op 'stablehlo.oops' is unknown", class = "pjrt_error"
  )
  expect_identical(class(error)[1:3], c("pjrt_error_compile", "pjrt_error_unknown", "pjrt_error"))
  expect_identical(error$line, 2L)
  expect_identical(error$column, 8L)
  expect_identical(error$source, "  %0 = stablehlo.oops %x")
  expect_match(error$detail, "-:2:8: error: custom op", fixed = TRUE)
  expect_match(error$detail, "forward incompatibility", fixed = TRUE)
  expect_no_match(conditionMessage(error), "forward incompatibility", fixed = TRUE)
  expect_identical(error$call_name, "PJRT_Client_Compile")
  expect_identical(error$platform, "cpu")
  expect_type(error$code, "integer")
  expect_match(conditionMessage(error), "PJRT_Client_Compile", fixed = TRUE)
})

# A function of two vectors with one line.
with_line <- function(line) {
  sprintf("func.func @main(%%x0: tensor<2xf32>, %%weights: tensor<2xf32>) -> tensor<2xf32> {
  %s
  return %%0 : tensor<2xf32>
}", line)
}

with_type <- function(type) {
  sprintf("func.func @main(%%x: tensor<%s>) -> tensor<2xf32> {\n  return %%x : tensor<2xf32>\n}", type)
}

tell <- function(text) tryCatch(compile(text), pjrt_error_compile = function(e) cat(conditionMessage(e), "\n"))

test_that("unknown operations are explained", {
  expect_snapshot(cran = TRUE, {
    tell(with_line("%0 = stablehlo.exp %x0 : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.mutliply %x0, %weights : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.matmul %x0, %weights : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.erf %x0 : tensor<2xf32>"))
    tell(with_line("%0 = add %x0, %weights : tensor<2xf32>"))
    tell(with_line("%0 = mhlo.exp %x0 : tensor<2xf32>"))
    tell(with_line("%0 = xla.add %x0, %weights : tensor<2xf32>"))
    tell(with_line("%0 = \"stablehlo.sum\"(%x0) : (tensor<2xf32>) -> tensor<2xf32>"))
    tell("func @main() {\n  return\n}")
    tell("nonsense")
  })
})

test_that("unknown types are explained", {
  expect_snapshot(cran = TRUE, {
    tell(with_type("2xfloat32"))
    tell(with_type("2xdouble"))
    tell(with_type("bool"))
    tell(with_type("2x3xint32"))
    tell(with_type("complex64"))
    tell(with_type("2,f32"))
    tell("func.func @main(%x: f32[2]) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}")
  })
})

test_that("undefined values and functions are explained", {
  expect_snapshot(cran = TRUE, {
    tell(with_line("%0 = stablehlo.add %x1, %weights : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.add %x0, %wieghts : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.add %x0, %q : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.negate x0 : tensor<2xf32>"))
    tell(with_line("%x0 = stablehlo.negate %x0 : tensor<2xf32>"))
    tell(with_line("%0 = call @helper(%x0) : (tensor<2xf32>) -> tensor<2xf32>"))
    tell("func.func @other() {\n  return\n}")
    tell("module {}")
  })
})

test_that("other mistakes are explained", {
  expect_snapshot(cran = TRUE, {
    tell(with_line("%0 = stablehlo.add(%x0, %weights) : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.negate %x0"))
    tell(with_line("%0 = stablehlo.constant dense<1> : tensor<2xf32>"))
    tell(with_line("%0 = stablehlo.reshape %x0 : (tensor<2xf32>) -> tensor<3xf32>"))
    tell(with_line("%0 = stablehlo.compare lt, %x0, %weights : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>"))
    tell("func.func @main() {\n  %0 = stablehlo.constant dense<1.0> : tensor<f32>\n}")
    tell("func.func @main() {\n  return\n")
  })
})

test_that("mistakes in code of other files have no line", {
  located <- sub("\n  return", ' loc("model.py":12:3)\n  return', with_line(
    '%0 = "stablehlo.add"(%x0, %c) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>'
  ))
  located <- sub("%weights: tensor<2xf32>", "%c: tensor<3xf32>", located)
  error <- expect_refused(compile(located), "compile", "model.py:12:3: 'stablehlo.add' op requires the same shape")
  expect_null(error$line)
  expect_null(error$source)
  expect_match(error$detail, "see current operation", fixed = TRUE)
})

test_that("a promise raises the same error", {
  promise <- pjrt_compile_async(pjrt_program(with_line("%0 = stablehlo.exp %x0 : tensor<2xf32>")))
  error <- expect_refused(value(promise), "compile", "Did you mean `stablehlo.exponential`?")
  expect_identical(error$line, 2L)
})

test_that("arguments without a fixed shape are listed", {
  text <- "func.func @main(%x: tensor<?x3xf32>, %y: tensor<2xf32>, %z: tensor<?xi1>) -> tensor<?x3xf32> {
  return %x : tensor<?x3xf32>
}"
  error <- expect_refused(
    compile(text), "dynamic_shape", "argument 1 (`%x`) is f32[?x3], argument 3 (`%z`) is i1[?], result 1 is f32[?x3]"
  )
  expect_null(error$code)
  # the compiler knows the shape
  inferred <- "func.func @main(%x: tensor<2xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"
  expect_identical(as_array(pjrt_execute(compile(inferred), pjrt_buffer(c(1, 2)))), array(c(2, 4)))
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

test_that("advice on a custom call depends on its target", {
  calling <- function(target) {
    error <- tryCatch(
      compile(with_line(sprintf(
        "%%0 = stablehlo.custom_call @%s(%%x0) {api_version = 4 : i32} : (tensor<2xf32>) -> tensor<2xf32>", target
      ))), error = identity
    )
    expect_identical(class(error)[1:3], c("pjrt_error_custom_call", "pjrt_error_not_found", "pjrt_error"))
    expect_identical(error$target, target)
    conditionMessage(error)
  }
  for (target in c("xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "xla_ffi_python_gpu_callback")) {
    message <- calling(target)
    expect_match(message, "Export the program without callbacks.", fixed = TRUE)
    expect_no_match(message, "pjrt_register_custom_call", fixed = TRUE)
  }
  expect_match(calling("lapack_sfoo_ffi"), "Linear algebra for host: lapack_*potrf_ffi, ", fixed = TRUE)
  expect_match(calling("cusolver_getrf_ffi"), "Export the program for the CPU.", fixed = TRUE)
  expect_match(calling("mine"), 'pjrt_register_custom_call("mine", list(host = ...))', fixed = TRUE)
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
