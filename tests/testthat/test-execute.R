two_outputs <- "func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.add %x, %y : tensor<2xf32>
  %1 = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}"

test_that("a single output is returned as a buffer unless simplify = FALSE", {
  double <- compile(unary_program("2xf32"))
  x <- pjrt_buffer(c(1, 2))
  out <- pjrt_execute(double, x)
  expect_identical(class(out), "PJRTBuffer")
  expect_identical(as_array(out), array(c(2, 4)))
  listed <- pjrt_execute(double, x, simplify = FALSE)
  expect_type(listed, "list")
  expect_length(listed, 1L)
  expect_null(names(listed))
  expect_identical(as_array(listed[[1L]]), array(c(2, 4)))
})

test_that("several outputs are returned as an unnamed list", {
  executable <- compile(two_outputs)
  for (simplify in c(TRUE, FALSE)) {
    out <- pjrt_execute(executable, pjrt_buffer(c(1, 2)), pjrt_buffer(c(10, 20)), simplify = simplify)
    expect_type(out, "list")
    expect_null(attributes(out))
    expect_identical(lapply(out, as_array), list(array(c(11, 22)), array(c(7L, 8L))))
  }
})

test_that("a program without outputs returns an empty list", {
  nothing <- compile("func.func @main(%x: tensor<f32>) { return }")
  expect_identical(pjrt_execute(nothing, pjrt_scalar(1)), list())
})

test_that("programs without inputs run", {
  constant <- compile("func.func @main() -> tensor<2x2xf64> {
    %0 = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
    return %0 : tensor<2x2xf64>
  }")
  expect_identical(as_array(pjrt_execute(constant)), matrix(c(1, 3, 2, 4), 2))
  expect_refused(pjrt_execute(constant, pjrt_scalar(1)), "argument_count", "takes no arguments, but got 1")
})

test_that("constants and inputs may have no elements", {
  empty <- compile("func.func @main() -> tensor<0x3xf32> {
    %0 = stablehlo.constant dense<> : tensor<0x3xf32>
    return %0 : tensor<0x3xf32>
  }")
  expect_identical(as_array(pjrt_execute(empty)), matrix(double(), 0, 3))
  same <- compile(unary_program("2x0xi32"))
  expect_identical(as_array(pjrt_execute(same, pjrt_empty("i32", c(2, 0)))), matrix(integer(), 2, 0))
})

test_that("every dtype passes through a program", {
  values <- list(
    pred = c(TRUE, FALSE), i8 = c(1L, -1L), i16 = c(1L, -1L), i32 = c(1L, -1L), i64 = c(1, -2^60), ui8 = c(1L, 255L),
    ui16 = c(1L, 65535L), ui32 = c(1, 2^32 - 1), ui64 = c(1, 2^63), f16 = c(1.5, -2), bf16 = c(1.5, -2),
    f32 = c(1.5, -2), f64 = c(1 / 3, NA)
  )
  for (dtype in names(values)) {
    type <- paste0("2x", if (dtype == "pred") "i1" else dtype)
    x <- pjrt_buffer(values[[dtype]], dtype)
    out <- pjrt_execute(compile(identity_program(type)), x)
    expect_identical(elt_type(out), elt_type(x))
    expect_identical(as_raw(out, TRUE), as_raw(x, TRUE))
  }
  for (dtype in c("c64", "c128", "f8e5m2", "f8e4m3fn", "i4", "ui4")) {
    mlir <- c(
      c64 = "complex<f32>", c128 = "complex<f64>", f8e5m2 = "f8E5M2", f8e4m3fn = "f8E4M3FN", i4 = "i4", ui4 = "ui4"
    )[[dtype]]
    data <- as.raw(rep_len(1:7, length(as_raw(pjrt_empty(dtype, 2), TRUE))))
    x <- pjrt_buffer(data, dtype = dtype, shape = 2, row_major = TRUE)
    out <- pjrt_execute(compile(identity_program(paste0("2x", mlir))), x)
    expect_identical(as.character(elt_type(out)), dtype)
    expect_identical(as_raw(out, TRUE), data)
  }
})

test_that("inputs of the wrong class are refused with their number, with and without checks", {
  add <- compile(add_program("f32"))
  x <- pjrt_scalar(1)
  for (bad in list(1, NULL, "x", list(1), devices("cpu")[[1L]], add, pjrt_client("cpu"), globalenv())) {
    for (check in c(TRUE, FALSE)) {
      expect_refused(
        pjrt_execute(add, x, bad, check = check), "invalid_input", "Argument 2 (`%y`) must be a `PJRTBuffer`"
      )
    }
  }
})

test_that("foreign and expired pointers are refused", {
  add <- compile(add_program("f32"))
  x <- pjrt_scalar(1)
  dead <- without_content(list(buffer = x, executable = add, program = pjrt_program("module {}"), device = device(x)))
  expect_refused(pjrt_execute(add, dead$buffer, x), "invalid_pointer", "Argument 1 (`%x`) is a null pointer")
  expect_refused(pjrt_execute(dead$executable, x, x), "invalid_pointer", "saved without its content")
  expect_refused(as_array(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(as_raw(dead$buffer, TRUE), "invalid_pointer", "saved without its content")
  expect_refused(as_array_async(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(shape(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(elt_type(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(device(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(await(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(is_ready(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(format_buffer(dead$buffer), "invalid_pointer", "saved without its content")
  expect_refused(copy_buffer(dead$buffer, "cpu:1"), "invalid_pointer", "saved without its content")
  expect_refused(pjrt_compile(dead$program), "invalid_pointer", "saved without its content")
  expect_refused(pjrt_buffer(1, device = dead$device), "invalid_pointer", "saving and loading")
  connection <- rawConnection(raw())
  foreign <- structure(attr(connection, "conn_id"), class = "PJRTBuffer")
  close(connection)
  expect_identical(typeof(foreign), "externalptr")
  expect_refused(pjrt_execute(add, x, foreign), "invalid_pointer", "Argument 2 (`%y`)")
  expect_refused(as_array(foreign), "invalid_pointer", "must be a `PJRTBuffer`")
  # functions of R such as `mode<-` put the class on other values
  expect_refused(dim(structure("1", class = "PJRTBuffer")), "invalid_pointer", "this object has the class")
  # the pointer decides, not the class name
  disguised <- pjrt_program("module {}")
  class(disguised) <- "PJRTBuffer"
  expect_refused(as_array(disguised), "invalid_pointer", "must be a `PJRTBuffer`")
})

test_that("pjrt_execute() accepts only executables", {
  for (bad in list(1, NULL, "add", pjrt_scalar(1), pjrt_program("module {}"))) {
    expect_refused(
      pjrt_execute(bad, pjrt_scalar(1)), "invalid_pointer", "`executable` must be a `PJRTLoadedExecutable`"
    )
  }
})

test_that("the number of inputs must be right", {
  add <- compile(add_program("f32"))
  x <- pjrt_scalar(1)
  expect_refused(pjrt_execute(add), "argument_count", "takes 2 arguments (`%x`: f32[], `%y`: f32[]), but got 0")
  expect_refused(pjrt_execute(add, x), "argument_count", "takes 2 arguments (`%x`: f32[], `%y`: f32[]), but got 1")
  expect_refused(
    pjrt_execute(add, x, x, x), "argument_count", "takes 2 arguments (`%x`: f32[], `%y`: f32[]), but got 3"
  )
})

test_that("an input with the wrong dtype is refused, even if its size fits", {
  add <- compile(add_program("2xf32"))
  x <- pjrt_buffer(c(1, 2))
  error <- expect_refused(
    pjrt_execute(add, x, pjrt_buffer(1:2)), "dtype_mismatch",
    "Wrong dtype of argument 2 (`%y`): expected f32[2], got i32[2]."
  )
  expect_match(conditionMessage(error), "expected f32[2], got i32[2]", fixed = TRUE)
  expect_refused(
    pjrt_execute(add, pjrt_buffer(c(1, 2), "f64"), x), "dtype_mismatch",
    "argument 1 (`%x`): expected f32[2], got f64[2]"
  )
})

test_that("an input with the wrong shape is refused, even if its size fits", {
  add <- compile(add_program("2x3xf32"))
  x <- pjrt_empty("f32", c(2, 3))
  for (shape in list(6, c(3, 2), c(2, 3, 1), integer(), c(2, 4))) {
    other <- pjrt_empty("f32", shape)
    error <- expect_refused(
      pjrt_execute(add, x, other), "shape_mismatch", "argument 2 (`%y`): expected f32[2x3], got f32"
    )
    expect_match(conditionMessage(error), "expected f32[2x3]", fixed = TRUE)
    expect_match(conditionMessage(error), "size|shape")
  }
})

test_that("an input on the wrong device is refused", {
  add <- compile(add_program("f32"))
  x <- pjrt_scalar(1)
  error <- expect_refused(
    pjrt_execute(add, pjrt_scalar(1, device = "cpu:1"), x), "device_mismatch",
    "Argument 1 (`%x`) is on device 'CpuDevice(id=1)', but the executable was compiled for device 'CpuDevice(id=0)'."
  )
  expect_match(conditionMessage(error), "copy_buffer()", fixed = TRUE)
  there <- compile(add_program("f32"), device = "cpu:1")
  expect_refused(pjrt_execute(there, x, x), "device_mismatch", "compiled for device 'CpuDevice(id=1)'")
})

test_that("an input of another client is refused", {
  client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
  x <- pjrt_scalar(1, device = devices(client)[[1L]])
  expect_refused(pjrt_execute(compile(unary_program("f32")), x), "device_mismatch", "different clients")
})

test_that("after refused inputs the executable and the inputs still work", {
  add <- compile(add_program("2xf32", donates))
  x <- pjrt_buffer(c(1, 2))
  try(pjrt_execute(add, x, pjrt_buffer(1:2)), silent = TRUE)
  try(pjrt_execute(add, x), silent = TRUE)
  try(pjrt_execute(add, x, z = x), silent = TRUE)
  expect_identical(as_array(x), array(c(1, 2)))
  expect_identical(as_array(pjrt_execute(add, x, pjrt_buffer(c(1, 1)))), array(c(2, 3)))
})

test_that("simplify and check must be TRUE or FALSE", {
  double <- compile(unary_program("f32"))
  for (bad in list(NA, 1, NULL, "yes", c(TRUE, FALSE))) {
    expect_refused(pjrt_execute(double, pjrt_scalar(1), simplify = bad), "invalid_input", "must be TRUE or FALSE")
    expect_refused(pjrt_execute(double, pjrt_scalar(1), check = bad), "invalid_input", "must be TRUE or FALSE")
  }
})

test_that("execution options must be whole numbers", {
  options <- pjrt_execution_options()
  expect_identical(class(options), c("PJRTExecutionOptions", "PJRTExecuteOptions"))
  expect_s3_class(pjrt_execution_options(c(0L, 2L), 7L), "PJRTExecuteOptions")
  shown <- function(...) format(pjrt_execution_options(...))
  expect_identical(shown(c(0, 2), 7), shown(c(0L, 2L), 7L))
  expect_identical(shown(numeric()), shown())
  for (bad in list(0.5, 2^31, "0", NULL, TRUE, NA_integer_, NaN, Inf, c(0L, NA))) {
    expect_refused(
      pjrt_execution_options(bad), "invalid_type", "`non_donatable_input_indices` must be whole numbers without NA"
    )
  }
  expect_refused(pjrt_execution_options(-1L), "invalid_input", "must not be negative: got -1.")
  for (bad in list(0.5, 1e10, "0", NULL, NA_integer_, 1:2, integer())) {
    expect_refused(pjrt_execution_options(launch_id = bad), "invalid_type", "`launch_id` must be one whole number")
  }
  double <- compile(unary_program("f32"))
  expect_identical(as_array(pjrt_execute(double, pjrt_scalar(1), execution_options = options)), 2)
  for (bad in list(1, list(), "none", pjrt_scalar(1))) {
    expect_refused(
      pjrt_execute(double, pjrt_scalar(1), execution_options = bad), "invalid_pointer",
      "`execution_options` must be a `PJRTExecutionOptions`"
    )
  }
})

column_major <- "module attributes {mhlo.layout_mode = \"default\"} {
  func.func public @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}) {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}"

test_that("every reader reads column-major outputs correctly", {
  x <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  out <- pjrt_execute(compile(column_major), pjrt_buffer(x))
  expect_identical(as_array(out), 2 * x)
  expect_identical(value(as_array_async(out)), 2 * x)
  expect_identical(as_raw(out, row_major = FALSE), bytes(as.vector(2 * x), 4L))
  expect_identical(as_raw(out, row_major = TRUE), bytes(as.vector(t(2 * x)), 4L))
  expect_identical(utils::capture.output(print(out))[2:3], c("  2  6 10", "  4  8 12"))
  expect_identical(format_buffer(out)[2, 1], "4.00000000e+00")
  expect_identical(as_array(copy_buffer(out, "cpu:1")), 2 * x)
})

test_that("copies of column-major buffers are read and used in the order that the plugin gives them", {
  x <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  out <- pjrt_execute(compile(column_major), pjrt_buffer(x))
  for (mode in c("inline", "thread")) {
    withr::local_options(pjrt.dispatch = mode)
    copies <- c(
      list(copy_buffer(out, "cpu:1"), copy_buffer(pjrt_execute(compile(column_major), pjrt_buffer(x)), "cpu:1")),
      lapply(memory_spaces(device(out)), function(memory) copy_buffer(out, memory))
    )
    for (copy in c(copies, list(copy_buffer(copies[[1L]], "cpu:0")))) {
      expect_identical(value(as_array_async(copy)), 2 * x)
      expect_identical(as_array(copy), 2 * x)
      expect_identical(copy[2, ], 2 * x[2, ])
    }
  }
})

test_that("non-donatable indexes beyond a program's inputs are refused", {
  double <- compile(unary_program("f32"))
  for (bad in list(1L, c(0L, 7L))) {
    options <- pjrt_execution_options(bad)
    message <- sprintf("`non_donatable_input_indices` has %d, but the program takes 1 argument", max(bad))
    expect_refused(pjrt_execute(double, pjrt_scalar(1), execution_options = options), "invalid_input", message)
  }
})

test_that("execution options print their values", {
  expect_output(print(pjrt_execution_options()), "^<PJRTExecutionOptions: launch 0>$")
  options <- pjrt_execution_options(c(0L, 2L), 7L, "cpu:1")
  lines <- utils::capture.output(print(options))
  expect_identical(lines, c(
    "<PJRTExecutionOptions: launch 7>", "  non_donatable_input_indices = 0, 2", "  device = CpuDevice(id=1)"
  ))
  expect_output(print(pjrt_execution_options(keep_inputs = c("x", "%y"))), "\n  keep_inputs = x, %y$")
  expect_output(print(pjrt_execution_options(keep_inputs = c(2, 1))), "\n  keep_inputs = 2, 1$")
  expect_output(print(pjrt_execution_options(keep_inputs = integer())), "^<PJRTExecutionOptions: launch 0>$")
})

test_that("an input of another layout than the program's is copied to that layout", {
  x <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  out <- pjrt_execute(compile(column_major), pjrt_buffer(x))
  expect_identical(as_array(pjrt_execute(compile(unary_program("2x3xf32")), out)), 4 * x)
  # a program that asks for column-major inputs, and donates them
  both_text <- "module attributes {mhlo.layout_mode = \"default\"} {
    func.func public @main(
      %x: tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\", tf.aliasing_output = 0 : i32}, %y: tensor<2x3xf32>
    ) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}) {
      %0 = stablehlo.add %x, %y : tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }
  }"
  both <- compile(both_text)
  for (input in list(pjrt_buffer(x), pjrt_execute(compile(column_major), pjrt_buffer(x / 2)))) {
    expect_identical(as_array(pjrt_execute(both, input, pjrt_buffer(x))), 2 * x)
  }
  expect_identical(as_array(pjrt_function(both)(x, x)), 2 * x)
  expect_identical(as_array(pjrt_execute_sharded(both, list(list(pjrt_buffer(x), out)))[[1L]]), 3 * x)
  keeping <- compile(sub(", tf.aliasing_output = 0 : i32", "", both_text, fixed = TRUE))
  donated <- pjrt_buffer(x)
  for (program in list(keeping, both)) {
    timed <- pjrt_benchmark(program, donated, out, times = 2, limits = FALSE)
    expect_length(timed$seconds, 2L)
    expect_gt(nrow(timed$from_r), 0L)
    expect_identical(as_array(donated), x)
  }
  # results work in operators
  expect_identical(as_array(out + 1), 2 * x + 1)
  expect_identical(as_array(pjrt_buffer(x) - out), -x)
  expect_identical(as_array(t(out)), 2 * t(x))
  expect_identical(as_array(crossprod(out)), 4 * crossprod(x))
  expect_identical(as_array(sum(out)), 42)
  # other mistakes stay what they are
  expect_refused(pjrt_execute(both, out), "argument_count")
  expect_refused(pjrt_execute(both, pjrt_buffer(1:2), out), "dtype_mismatch", "argument 1 (`%x`)")
  expect_refused(pjrt_execute(both, pjrt_buffer(x, device = "cpu:1"), out), "device_mismatch", "Argument 1 (`%x`)")
  pjrt_delete(out)
  expect_refused(pjrt_execute(both, pjrt_buffer(x), out), "deleted_buffer", "Argument 2 (`%y`)")
})

test_that("a launch that fails in the background raises an error when its output is read", {
  withr::local_options(pjrt.dispatch = "thread")
  too_big <- compile("func.func @main() -> tensor<4000000000000xf64> {
    %0 = stablehlo.constant dense<1.0> : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<4000000000000xf64>
    return %1 : tensor<4000000000000xf64>
  }")
  out <- pjrt_execute(too_big)
  expect_error(await(out), class = "pjrt_error")
  expect_error(as_array(out), class = "pjrt_error")
  expect_identical(is_ready(out), TRUE)
  expect_identical(as_array(pjrt_scalar(1)), 1)
})
