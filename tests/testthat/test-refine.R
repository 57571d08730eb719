# The files are made by src/rust/program/fixtures/exported/make.py.
load_vjp <- function() pjrt_load_exported(fixture("exported/mlp.jaxexport"), vjp = TRUE)
load_exported <- function(name) pjrt_load_exported(fixture(file.path("exported", paste0(name, ".jaxexport"))))

test_that("functions with symbolic dimensions and for several platforms compute what JAX computes", {
  runs <- source(fixture("exported/symbolic.R"), local = TRUE)$value
  files <- sub(":.*", "", names(runs))
  expect_setequal(files, c("platforms", "symbolic", "expressions", "everywhere"))
  for (i in seq_along(runs)) {
    run <- runs[[i]]
    x <- load_exported(files[[i]])
    shapes <- lapply(run$inputs, function(input) input$dim)
    named <- structure(shapes, names = x$inputs$name)
    for (executable in list(
      pjrt_compile(x, shapes = shapes), pjrt_compile(x, shapes = named),
      value(pjrt_compile_async(x, shapes = named[1L]))
    )) {
      inputs <- lapply(run$inputs, function(x) pjrt_buffer(x$data, x$dtype, shape = x$dim))
      names(inputs) <- x$inputs$name
      # names work as for other programs
      outputs <- do.call(pjrt_execute, c(executable, rev(inputs), simplify = FALSE))
      expect_length(outputs, length(run$outputs))
      for (j in seq_along(outputs)) {
        expected <- run$outputs[[j]]
        expect_identical(shape(outputs[[j]]), as.integer(expected$dim))
        expect_equal(as.vector(as_array(outputs[[j]])), expected$data, tolerance = 1e-6, label = names(runs)[[i]])
      }
    }
  }
})

test_that("sizes of dimensions stand for shapes, and a compiled program is found again", {
  x <- load_exported("expressions")
  by_size <- pjrt_compile(x, shapes = c(b = 4, n = 3))
  expect_identical(executable_info(by_size)$inputs$shape, list(c(4L, 3L), c(9L, 3L), 3L))
  expect_identical(executable_info(by_size)$inputs$name, c("x", "y", "z"))
  expect_identical(executable_info(by_size)$outputs$shape, list(27L, c(2L, 3L), c(7L, 3L), 3L))
  withr::local_envvar(PJRT_CACHE = NA, R_USER_CACHE_DIR = withr::local_tempdir())
  by_size <- pjrt_compile(x, shapes = c(b = 4, n = 3))
  expect_identical(pjrt_compile(x, shapes = list(x = c(4, 3))), by_size)
  expect_identical(pjrt_compile(load_exported("expressions"), shapes = list(b = 4, z = 3)), by_size)
  expect_false(identical(pjrt_compile(x, shapes = list(x = c(4, 2))), by_size))
})

test_that("an array of keys has a symbolic dimension before the dimensions of its data", {
  run <- pjrt_compile(load_exported("keys"), shapes = list(keys = 3))
  keys <- matrix(c(3625411723, 195045567, 966301609, 1954958720, 4062205631, 1948237315), 3)
  bits <- matrix(c(3725328165, 2899676959, 884754664, 2389352394, 3548400998, 1109997517), 3)
  expect_identical(as_array(pjrt_execute(run, pjrt_buffer(keys, "ui32")), int64 = "double"), bits)
})

test_that("symbolic dimensions, several platforms, several devices and donation go together", {
  x <- load_exported("shared")
  expect_identical(x$num_devices, 2)
  devices <- c("cpu:0", "cpu:1")
  run <- pjrt_compile(x, devices = devices, shapes = list(x = c(4, 3)))
  expect_identical(executable_info(run)$inputs$donated, c(TRUE, FALSE))
  data <- matrix(1:12 + 0, 4)
  parts <- pjrt_shard(data, executable = run, input = "x")
  outputs <- pjrt_execute_sharded(run, Map(list, parts, pjrt_shard(c(1, 2, 3), executable = run, input = "y")))
  expect_equal(pjrt_unshard(outputs, executable = run), data / 4 + rep(1:3, each = 4))
  expect_true(all(vapply(parts, is_deleted, NA)))
})

test_that("arguments of derivatives have names", {
  run <- pjrt_compile(load_vjp())
  expect_identical(executable_info(run)$inputs$name, load_vjp()$inputs$name[load_vjp()$inputs$kept])
  params <- list(b1 = pjrt_buffer(c(1, 2, 3)), w1 = pjrt_buffer(matrix(1, 4, 3)), w2 = pjrt_buffer(matrix(1, 3, 2)))
  x <- pjrt_buffer(matrix(1, 5, 4))
  labels <- pjrt_buffer(rep(1L, 5))
  one <- pjrt_scalar(1)
  out <- pjrt_execute(run, x = x, labels = labels, params = params, scale = one, cotangents = list(loss = one))
  expect_identical(lapply(unname(out), shape), load_vjp()$outputs$shape)
})

test_that("shapes that do not fit are refused with what is wrong", {
  x <- load_exported("expressions")
  for (compile in list(pjrt_compile, pjrt_compile_async)) {
    refused <- function(shapes, class, message) expect_refused(compile(x, shapes = shapes), class, message)
    refused(NULL, "invalid_input", "has symbolic dimensions, whose sizes are not known: b, n")
    refused(list(), "invalid_input", "shapes = list(x = c(32, 32))")
    refused(list(b = 4), "invalid_input", "The size of the symbolic dimension `n` is not known.")
    refused(c(b = 4), "invalid_input", "the shape of an input that has it: `x` (b, n), `y` (2*b + 1, n), `z` (n)")
    refused(list(w = 3, b = 4), "invalid_input", "no input and no symbolic dimension named `w`.")
    refused(list(x = 4), "shape_mismatch", "The shape of `x` must have 2 dimensions, as in (b, n), not 1.")
    refused(
      list(x = c(4, 3), y = c(9, 2)), "shape_mismatch", "Dimension 2 of `y` is `n`, which is 3 with n = 3, not 2."
    )
    refused(list(c(4, 3), c(8, 3)), "shape_mismatch", "Dimension 1 of `y` is `2*b + 1`, which ")
    refused(list(y = c(8, 3)), "shape_mismatch", "Dimension 1 of `y` is `2*b + 1`, which cannot be 8.")
    refused(list(x = c(0, 3)), "shape_mismatch", "must be at least 1")
    for (bad in list("a", TRUE, sum, factor("a"))) {
      refused(bad, "invalid_input", "`shapes` must be a list with the shapes of inputs, not")
    }
    for (bad in list("a", c(1, NA), -1, 1.5, NULL, NaN, Inf, factor("a"), TRUE)) {
      refused(list(x = bad), "invalid_input", "Each shape in `shapes` must be whole numbers from 0, not")
    }
    refused(list(x = c(4, 3), 2), "invalid_input", "`shapes` must have names, or a shape for each of the 3 inputs")
    refused(list(1, 2, 3, 4), "invalid_input", "`shapes` must have names, or a shape for each of the 3 inputs")
  }
})

test_that("shapes of functions with fixed shapes are compared", {
  x <- load_exported("simple")
  expect_s3_class(pjrt_compile(x, shapes = list(x = c(2, 3))), "PJRTLoadedExecutable")
  expect_refused(pjrt_compile(x, shapes = list(x = c(3, 2))), "shape_mismatch", "Dimension 1 of `x` must be 2, not 3.")
  nested <- load_exported("tree")
  good <- list(params = list(layers = list(list(b = 3), list(w = c(3, 2)))), "args[1]" = c(5, 4), scale = integer())
  expect_s3_class(pjrt_compile(nested, shapes = good), "PJRTLoadedExecutable")
  # `None` has no shape
  good$params$nothing <- list(NULL, list())
  expect_s3_class(pjrt_compile(nested, shapes = good), "PJRTLoadedExecutable")
  good$params$layers[[1]]$b <- 4
  expect_refused(
    pjrt_compile(nested, shapes = good), "shape_mismatch", "of `params$layers[[1]]$b` must be 3, not 4."
  )
  deep <- 3
  for (i in 1:9000) deep <- list(deep)
  expect_refused(pjrt_compile(x, shapes = list(x = deep)), "invalid_input", "named `x[[1]][[1]]")
})

test_that("a program without fixed shapes is compiled for the shapes of its arguments", {
  code <- "func.func @main(%x: tensor<?x3xf32>, %y: tensor<3xf32>) -> tensor<?x3xf32> {
    %rows = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
    %columns = stablehlo.constant dense<3> : tensor<1xi32>
    %one = stablehlo.reshape %rows : (tensor<i32>) -> tensor<1xi32>
    %shape = stablehlo.concatenate %one, %columns, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %all = stablehlo.dynamic_broadcast_in_dim %y, %shape, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
    %sum = stablehlo.add %x, %all : tensor<?x3xf32>
    return %sum : tensor<?x3xf32>
  }"
  program <- pjrt_program(code)
  expect_refused(pjrt_compile(program), "dynamic_shape", "pjrt_compile(program, shapes = list(c(32, 4)))")
  x <- matrix(1:6, 2)
  for (shapes in list(list(x = c(2, 3)), list(c(2L, 3L)), list(y = 3, x = c(2, 3)))) {
    run <- pjrt_compile(program, shapes = shapes)
    expect_identical(format(run), "main(x: f32[2x3], y: f32[3]) -> f32[2x3]")
    expect_equal(as_array(pjrt_execute(run, pjrt_buffer(x, "f32"), pjrt_buffer(1:3, "f32"))), x + rep(1:3, each = 2))
  }
  expect_refused(pjrt_compile(program, shapes = list(y = 3)), "dynamic_shape", "some of these arguments: x.")
  expect_refused(pjrt_compile(program, shapes = list(z = 3)), "invalid_input", "no argument `z`, but x, y.")
  expect_refused(pjrt_compile(program, shapes = list(x = c(2, 4))), "shape_mismatch", "Argument 1")
  expect_refused(pjrt_compile(program, shapes = list(1, 2, 3)), "invalid_input", "each of the 2 inputs")
  expect_refused(pjrt_compile(program, shapes = list(x = -1)), "invalid_input", "whole numbers from 0")
  expect_s3_class(value(pjrt_compile_async(program, shapes = list(c(2, 3)))), "PJRTLoadedExecutable")
  stages <- inspect_hlo(program, shapes = list(c(2, 3)))
  expect_match(as.character(stages$before_optimizations), "f32[2,3]", fixed = TRUE)
  square <- pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt"))
  expect_s3_class(pjrt_compile(square, shapes = list(integer())), "PJRTLoadedExecutable")
  expect_refused(pjrt_compile(square, shapes = list(2)), "shape_mismatch", "Argument 1")
  numbered <- pjrt_program("func.func @main(%0: tensor<?xf32>) -> tensor<?xf32> { return %0 : tensor<?xf32> }")
  expect_s3_class(pjrt_compile(numbered, shapes = list("0" = 2)), "PJRTLoadedExecutable")
  hlo <- pjrt_program(path = fixture("square.hlo.pb"), format = "hlo")
  expect_refused(pjrt_compile(hlo, shapes = list(2)), "invalid_input", "An HLO module has fixed shapes")
})

test_that("names for attributes, and numbers at the end of a text, are read where sizes become fixed", {
  program <- function(first = "#lt = #stablehlo<comparison_direction LT>") {
    pjrt_program(sprintf('%s
  !t = tensor<?xi1>
  func.func @main(%%x: tensor<?xf32>) -> !t {
    %%0 = stablehlo.constant dense_resource<limit> : tensor<1xf32>
    %%1 = stablehlo.get_dimension_size %%x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %%2 = stablehlo.reshape %%1 : (tensor<i32>) -> tensor<1xi32>
    %%3 = stablehlo.dynamic_broadcast_in_dim %%0, %%2, dims = [0] : (tensor<1xf32>, tensor<1xi32>) -> tensor<?xf32>
    %%4 = "stablehlo.compare"(%%x, %%3) <{comparison_direction = #lt}> : (tensor<?xf32>, tensor<?xf32>) -> !t
    return %%4 : !t
  }
  {-#
    dialect_resources: {
      builtin: {
        limit: "0x0400000000000040"
      }
    }
  #-}', first))
  }
  below <- pjrt_function(program(), as = "array")
  expect_identical(c(below(c(1, 2, 3))), c(TRUE, FALSE, FALSE))
  expect_refused(
    pjrt_compile(program(first = ""), shapes = list(2)), "unsupported_program",
    "written again with the shapes of its arguments, and line 8 of this one has '#lt'"
  )
})
