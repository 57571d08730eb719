# Slow: starts several processes.

sharded_fixture <- function(name) normalizePath(test_path("fixtures", "sharded", name))

# The outputs of a program for several devices on as many devices of the CPU, as whole arrays.
on_devices <- function(program, inputs, count) {
  found <- devices(new_client(pjrt_plugin("cpu"), list(cpu_device_count = count)))
  executable <- pjrt_compile(program, devices = found)
  shards <- lapply(seq_along(inputs), function(i) pjrt_shard(inputs[[i]], executable = executable, dim = 1L, input = i))
  out <- pjrt_execute_sharded(executable, do.call(Map, c(list(list), shards)), simplify = FALSE)
  lapply(seq_along(out[[1L]]), function(i) pjrt_unshard(out, executable = executable, output = i, dim = 1L))
}

# The same in as many processes; the whole arrays of each. A case is list(make, inputs): a function that makes the
# program, and its inputs.
in_processes <- quote(lapply(cases, function(case) {
  parts <- mpi_program(case[[1L]]())
  run <- pjrt_compile(parts$program)
  inputs <- case[[2L]]
  arguments <- Map(function(x, i) mpi_shard(x, parts, i, dim = 1L), inputs, seq_along(inputs))
  for (i in seq_len(runs)) out <- do.call(pjrt_execute, c(list(run), arguments, list(simplify = FALSE)))
  Map(function(buffer, i) mpi_unshard(buffer, parts, i, dim = 1L), out, seq_along(out))
}))

expect_same_in_processes <- function(cases, n, launchers) {
  for (i in seq_along(cases)) environment(cases[[i]][[1L]]) <- globalenv()
  expected <- lapply(cases, function(case) on_devices(case[[1L]](), case[[2L]], n))
  for (launcher in launchers) {
    values <- mpi_values(launcher, n, in_processes, list(cases = cases, runs = times(10L, 51L)))
    for (value in values) expect_equal(value, expected, tolerance = 1e-6, info = launcher)
  }
}

# A function with this body, with values in place of names.
with_values <- function(body, ...) as.function(list(do.call(substitute, list(body, list(...)))))

test_that("a training step that JAX exported for four devices runs in four processes", {
  set.seed(1)
  inputs <- list(matrix(rnorm(40), 5), rnorm(8), matrix(rnorm(16), 8), matrix(rnorm(80), 16), matrix(rnorm(32), 16))
  make <- with_values(quote(pjrt_load_exported(FILE)), FILE = sharded_fixture("train.jaxexport"))
  expect_same_in_processes(list(list(make, inputs)), 4L, mpi_launchers())
})

test_that("every collective operation of JAX runs in processes, also in loops and branches", {
  make <- with_values(quote(pjrt_load_exported(FILE)), FILE = sharded_fixture("collectives.jaxexport"))
  x <- matrix(as.numeric(0:31), 8)
  # both branches
  cases <- list(list(make, list(x)), list(make, list(-x)))
  expect_same_in_processes(cases, 4L, times(mpi_launchers()[1L], mpi_launchers()))
})

test_that("programs of GSPMD and Shardy run in processes", {
  inputs <- list(matrix(seq_len(32) / 8, 8), matrix(seq_len(24) / 4, 4), seq_len(6) + 0)
  cases <- lapply(c("step-gspmd.mlir", "step-shardy-whole.mlir"), function(file) {
    list(with_values(quote(pjrt_program(path = FILE)), FILE = sharded_fixture(file)), inputs)
  })
  expect_same_in_processes(cases, 4L, mpi_launchers()[1L])
})

test_that("replicas run in processes", {
  text <- 'func.func @main(%x: tensor<4xf32>, %w: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<2x2xf32>, tensor<ui32>) {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_to_all"(%w) <{
      split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
    }> : (tensor<2x2xf32>) -> tensor<4x1xf32>
    %2 = stablehlo.reshape %1 : (tensor<4x1xf32>) -> tensor<2x2xf32>
    %3 = stablehlo.replica_id : tensor<ui32>
    return %0, %2, %3 : tensor<4xf32>, tensor<2x2xf32>, tensor<ui32>
  }'
  results <- mpi_values(mpi_launchers()[1L], 2L, quote({
    parts <- mpi_program(pjrt_program(text), pjrt_compile_options(num_replicas = 2L))
    run <- pjrt_compile(parts$program)
    out <- pjrt_execute(run, mpi_shard(1:8, parts, 1), mpi_shard(matrix(1:8, 4), parts, 2))
    whole <- mpi_unshard(out[[1]], parts)
    list(whole, as_array(out[[2]]), as.numeric(as_array(out[[3]])), as_array(mpi_shard(1:4, parts, 1, dim = NULL)))
  }), list(text = text))
  # both have the larger of each two elements
  expect_equal(lapply(results, function(x) as.vector(x[[1L]])), rep(list(rep(c(5, 6, 7, 8), 2)), 2))
  expect_equal(lapply(results, `[[`, 2L), list(matrix(c(1, 3, 2, 4), 2), matrix(c(5, 7, 6, 8), 2)))
  expect_equal(vapply(results, `[[`, 0, 3L), c(0, 1))
  expect_equal(as.vector(results[[1L]][[4L]]), 1:4)
})

test_that("programs that processes cannot run are refused in plain words", {
  results <- mpi_values(mpi_launchers()[1L], 2L, quote({
    class_of <- function(expr) tryCatch(expr, error = function(e) c(class(e)[1:2], conditionMessage(e)))
    loop <- pjrt_program('func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %y = stablehlo.while(%v = %x) : tensor<f32> cond {
        %0 = "stablehlo.all_reduce"(%v) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %c = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %c : tensor<f32>
        }) : (tensor<f32>) -> tensor<f32>
        %1 = stablehlo.compare LT, %0, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %2 = stablehlo.add %v, %one : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }
      return %y : tensor<f32>
    }')
    list(
      class_of(mpi_program(pjrt_load_exported(file))),
      class_of(mpi_program(loop, pjrt_compile_options(num_replicas = 2L))),
      class_of(mpi_shard(1, list(), 1))
    )
  }), list(file = sharded_fixture("train.jaxexport")))
  for (result in results) {
    expect_match(result[[1L]], "devices", all = FALSE)
    expect_identical(result[[2L]][1L], "pjrt_error_unsupported_program")
    expect_match(result[[2L]][3L], "the condition of a loop")
    expect_identical(result[[3L]][1L], "pjrt_error_invalid_type")
  }
})
