test_that("compile options print only values that differ from the defaults", {
  expect_snapshot(pjrt_compile_options(), cran = TRUE)
  expect_snapshot(
    pjrt_compile_options(
      2L, 2L, device_assignment = matrix(c(3L, 1L, 2L, 0L), 2), use_shardy_partitioner = TRUE, optimization_level = 1,
      debug_options = list(xla_cpu_enable_fast_math = TRUE, xla_dump_to = "folder")
    ),
    cran = TRUE
  )
  expect_snapshot(pjrt_compile_options(compile_portable_executable = TRUE), cran = TRUE)
  expect_snapshot(
    pjrt_compile_options(num_partitions = 4L, allow_spmd_sharding_propagation_to_output = c(TRUE, FALSE)), cran = TRUE
  )
  utils::capture.output(expect_invisible(print(pjrt_compile_options())))
})

test_that("compile options are immutable", {
  options <- pjrt_compile_options()
  expect_refused(options$num_replicas <- 2L, "invalid_input", "Compile options are immutable")
  expect_refused(options[["num_replicas"]] <- 2L, "invalid_input", "pjrt_compile_options()")
  expect_refused(options["num_replicas"] <- 2L, "invalid_input", "Compile options are immutable")
  expect_identical(options, pjrt_compile_options())
  before <- serialize(options, NULL)
  pjrt_compile(pjrt_program(unary_program("f32")), options, "cpu:1")
  expect_identical(serialize(options, NULL), before)
})

test_that("num_replicas and num_partitions must be positive whole numbers", {
  for (bad in list("1", 1.5, NA, 1:2, factor("a"))) {
    expect_refused(pjrt_compile_options(bad), "invalid_input", "must be a whole number or NULL")
    expect_refused(pjrt_compile_options(1L, bad), "invalid_input", "must be a whole number or NULL")
  }
  # these would abort the process
  for (bad in list(0L, -1L, 1e15)) {
    expect_refused(pjrt_compile_options(bad), "invalid_input", "`num_replicas` must be a whole number from 1")
    expect_refused(pjrt_compile_options(1L, bad), "invalid_input", "`num_partitions` must be a whole number from 1")
  }
})

test_that("NULL stands for no debug options", {
  expect_identical(pjrt_compile_options(debug_options = NULL), pjrt_compile_options())
})

test_that("logical options must be TRUE or FALSE", {
  for (bad in list(NA, 1, "TRUE", c(TRUE, TRUE))) {
    expect_refused(pjrt_compile_options(use_spmd_partitioning = bad), "invalid_input", "must be TRUE, FALSE or NULL")
    expect_refused(pjrt_compile_options(use_shardy_partitioner = bad), "invalid_input", "must be TRUE, FALSE or NULL")
    expect_refused(pjrt_compile_options(compile_portable_executable = bad), "invalid_input", "must be TRUE or FALSE")
  }
})

test_that("contradictory options are refused", {
  expect_refused(pjrt_compile_options(1L, 2L, use_spmd_partitioning = FALSE), "invalid_input", "must be TRUE")
  expect_refused(pjrt_compile_options(2L, compile_portable_executable = TRUE), "invalid_input", "runs on one device")
  expect_refused(
    pjrt_compile_options(device_assignment = 0L, compile_portable_executable = TRUE), "invalid_input",
    "runs on one device"
  )
  level <- list(xla_backend_optimization_level = 1L)
  expect_refused(
    pjrt_compile_options(optimization_level = 1, debug_options = level), "invalid_input", "pass only one of them"
  )
})

test_that("a device assignment must name one device per replica and partition", {
  for (bad in list(0L, 0:2, c(0L, 0L))) {
    expect_refused(pjrt_compile_options(2L, device_assignment = bad), "invalid_input")
    expect_refused(pjrt_compile_options(2L, 1L, device_assignment = bad), "invalid_input")
  }
  for (bad in list("cpu:0", c(0.5, 1), c(0L, NA), TRUE)) {
    expect_refused(pjrt_compile_options(2L, device_assignment = bad), "invalid_input", "whole numbers")
  }
  expect_refused(pjrt_compile_options(2L, 2L, device_assignment = 0:3), "invalid_input", "must be a matrix")
  expect_refused(
    pjrt_compile_options(2L, 1L, device_assignment = matrix(0:1, 1)), "invalid_input",
    "a column for each partition: 2 rows and 1 column, not 1 row and 2 columns"
  )
  options <- pjrt_compile_options(device_assignment = 7L)
  expect_refused(
    compile(unary_program("f32"), options), "invalid_input", "has the id 7, which no device has. Device ids: 0, 1."
  )
  options <- pjrt_compile_options(device_assignment = 1L)
  expect_identical(devices(compile(unary_program("f32"), options)), devices("cpu")[2L])
  expect_refused(
    compile(unary_program("f32"), options, "cpu:0"), "invalid_input", "so `device` and `devices` must not be given"
  )
})

test_that("optimization_level must be from 0 to 3", {
  for (level in 0:3) {
    executable <- compile(unary_program("f32"), pjrt_compile_options(optimization_level = level))
    expect_identical(as_array(pjrt_execute(executable, pjrt_scalar(2))), 4)
  }
  for (bad in list(-1, 4, 1.5, "1", NA)) {
    expect_refused(pjrt_compile_options(optimization_level = bad), "invalid_input", "`optimization_level` must be")
  }
})

test_that("debug options reach the compiler", {
  folder <- withr::local_tempdir()
  options <- pjrt_compile_options(debug_options = list(xla_dump_to = folder, xla_dump_hlo_as_text = TRUE))
  compile(unary_program("f32"), options)
  expect_gt(length(list.files(folder, pattern = "before_optimizations[.]txt$")), 0)
})

test_that("debug options need a name and one value", {
  refused <- function(options, message) {
    expect_refused(pjrt_compile_options(debug_options = options), "invalid_input", message)
  }
  refused(list(1), "needs a name")
  refused(pjrt_client("cpu"), "must be a named list")
  refused(list(xla_dump_to = "a", TRUE), "needs a name")
  refused(5, "needs a name")
  refused(list(dump_to = "folder"), "start with \"xla_\"")
  refused(list(xla_a = 1, xla_a = 2), "given twice")
  for (bad in list(NULL, NA, 1:2, list(1), Inf, NaN, NA_character_, character(), factor("a"))) {
    refused(list(xla_a = bad), "must be one string, TRUE, FALSE, or one finite number")
  }
})

test_that("debug options that the compiler rejects raise errors, and options that would crash it are refused", {
  compile_with <- function(...) compile(unary_program("f32"), pjrt_compile_options(debug_options = list(...)))
  expect_refused(compile_with(xla_no_such_option = 1), "invalid_argument", "xla_no_such_option")
  expect_refused(compile_with(xla_cpu_enable_fast_math = 1), "invalid_argument", "not a valid bool value")
  expect_refused(compile_with(xla_partitioning_algorithm = "abc"), "invalid_argument", "not a valid enum value")
  expect_refused(compile_with(xla_cpu_parallel_codegen_split_count = -1), "invalid_input", "would end the process")
  expect_refused(
    compile_with(xla_unsupported_crash_on_hlo_pass_noop_change = TRUE), "invalid_input", "would end the process"
  )
  expect_identical(as_array(pjrt_execute(compile_with(xla_cpu_enable_fast_math = TRUE), pjrt_scalar(2))), 4)
})

test_that("a forged object is checked again before a plugin sees it", {
  forged <- structure(list(num_replicas = 0L, num_partitions = 1L), class = "PJRTCompileOptions")
  expect_refused(compile(unary_program("f32"), forged), "invalid_input")
  expect_refused(compile(unary_program("f32"), structure(list(), class = "PJRTCompileOptions")), "invalid_input")
})

test_that("a portable executable runs on the device of its inputs", {
  portable <- pjrt_compile_options(compile_portable_executable = TRUE)
  double <- compile(unary_program("2xf32", "add"), portable)
  for (device in devices("cpu")) {
    out <- pjrt_execute(double, pjrt_buffer(c(1, 2), device = device))
    expect_identical(device(out), device)
    expect_identical(as_array(out), array(c(2, 4)))
  }
  expect_identical(devices(double), devices("cpu"))
  expect_refused(device(double), "invalid_input", "runs where its inputs are")
  add <- compile(add_program("f32"), portable)
  x <- pjrt_scalar(1)
  y <- pjrt_scalar(1, device = "cpu:1")
  expect_refused(
    pjrt_execute(add, x, y), "device_mismatch",
    "Argument 2 (`%y`) is on device 'CpuDevice(id=1)', but the execution is on device 'CpuDevice(id=0)'"
  )
  on_second <- pjrt_execution_options(device = "cpu:1")
  expect_identical(as_array(pjrt_execute(add, y, y, execution_options = on_second)), 2)
  expect_refused(pjrt_execute(add, x, x, execution_options = on_second), "device_mismatch", "execution is on device")
  elsewhere <- devices(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L)))[[4L]]
  expect_refused(
    pjrt_execute(double, pjrt_buffer(c(1, 2), device = elsewhere)), "device_mismatch", "different clients"
  )
  expect_refused(
    pjrt_execute(add, x, x, execution_options = pjrt_execution_options(device = elsewhere)), "device_mismatch",
    "another client"
  )
})

test_that("a portable executable without inputs runs on the device given to it", {
  constant <- compile("func.func @main() -> tensor<f32> {
    %0 = stablehlo.constant dense<2.5> : tensor<f32>
    return %0 : tensor<f32>
  }", pjrt_compile_options(compile_portable_executable = TRUE))
  expect_refused(pjrt_execute(constant), "invalid_input", "pjrt_execution_options(device = \"cpu:0\")")
  for (device in devices("cpu")) {
    out <- pjrt_execute(constant, execution_options = pjrt_execution_options(device = device))
    expect_identical(device(out), device)
    expect_identical(as_array(out), 2.5)
  }
  fixed <- compile(unary_program("f32"))
  expect_refused(
    pjrt_execute(fixed, pjrt_scalar(1), execution_options = pjrt_execution_options(device = "cpu:0")), "invalid_input",
    "Only portable executables run on a device of your choice"
  )
})

test_that("a portable executable works on the dispatch thread and with donation", {
  withr::local_options(pjrt.dispatch = "thread")
  add <- compile(add_program("4xf32", donates), pjrt_compile_options(compile_portable_executable = TRUE))
  for (device in devices("cpu")) {
    x <- pjrt_buffer(c(1, 2, 3, 4), device = device)
    out <- pjrt_execute(add, x, pjrt_buffer(c(1, 1, 1, 1), device = device))
    expect_identical(as_array(out), array(c(2, 3, 4, 5)))
    expect_refused(as_array(x), "deleted_buffer")
  }
})

test_that("programs that find places of minima compile to the code that is faster for these", {
  option <- pjrt_compile_options(debug_options = list(xla_cpu_use_fusion_emitters = TRUE))
  # newer compilers have one kind of code only
  has_older <- tryCatch(
    inherits(pjrt_compile(pjrt_program(add_program("f32")), option), "PJRTLoadedExecutable"),
    pjrt_error_invalid_argument = function(e) FALSE
  )
  x <- matrix(c(3, 1, 2, 5, 2, 0, 3, 7, 1, 4, 1, 6), 4)
  compiled <- function(first, ...) {
    folder <- withr::local_tempdir()
    text <- sprintf("func.func @main(%%x: tensor<4x3xf32>) -> tensor<4xi32> {
  %%c = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %%z = stablehlo.constant dense<0> : tensor<i32>
  %%n = stablehlo.iota dim = 1 : tensor<4x3xi32>
  %%y = stablehlo.%s : tensor<4x3xf32>
  %%r:2 = stablehlo.reduce(%%y init: %%c), (%%n init: %%z) across dimensions = [1] :
    (tensor<4x3xf32>, tensor<4x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    reducer(%%a: tensor<f32>, %%b: tensor<f32>) (%%i: tensor<i32>, %%j: tensor<i32>) {
      %%l = stablehlo.compare LT, %%a, %%b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %%v = stablehlo.select %%l, %%a, %%b : tensor<i1>, tensor<f32>
      %%w = stablehlo.select %%l, %%i, %%j : tensor<i1>, tensor<i32>
      stablehlo.return %%v, %%w : tensor<f32>, tensor<i32>
    }
  return %%r#1 : tensor<4xi32>
}", first)
    options <- pjrt_compile_options(debug_options = list(xla_dump_to = folder, ...))
    places <- as_array(pjrt_execute(pjrt_compile(pjrt_program(text), options), pjrt_buffer(x, "f32")))
    told <- readLines(list.files(folder, "debug_options$", full.names = TRUE)[[1L]])
    list(c(places), is_older = any(grepl("xla_cpu_use_fusion_emitters: false", told, fixed = TRUE)))
  }
  expect_identical(compiled("add %x, %x"), list(c(2L, 1L, 2L, 0L), is_older = has_older))
  expect_identical(compiled("negate %x"), list(c(0L, 2L, 1L, 1L), is_older = has_older))
  expect_identical(compiled("exponential %x"), list(c(2L, 1L, 2L, 0L), is_older = FALSE))
  if (has_older) expect_false(compiled("add %x, %x", xla_cpu_use_fusion_emitters = TRUE)$is_older)
})
