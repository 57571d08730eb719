# Slow: starts sessions and compiles many programs.

# The session's client has two CPU devices. Tests that need four use another client.
four_devices <- function() devices(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L)))

two_replicas <- pjrt_compile_options(num_replicas = 2L)
both <- c("cpu:0", "cpu:1")

# One scalar for each device.
scalars <- function(values, devices, ...) unname(Map(function(x, d) pjrt_scalar(x, device = d, ...), values, devices))

test_that("replicas exchange data with every collective operation", {
  clients <- list(devices("cpu"), four_devices())
  for (found in clients) {
    n <- length(found)
    x <- matrix(seq_len(n * n) + 0, n)
    run <- function(operation, size, attributes = "", reduces = FALSE) {
      from <- sprintf("%dxf32", n)
      to <- sprintf("%dxf32", size)
      text <- sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%s> {
        %%0 = %s
        return %%0 : tensor<%s>
      }", from, to, collective(operation, from, to, n, attributes, reduces), to)
      executable <- compile(text, pjrt_compile_options(n), devices = found)
      # row i is the input of device i
      out <- pjrt_execute_sharded(executable, pjrt_shard(as.vector(t(x)), found))
      expect_identical(lapply(out, device), found)
      t(vapply(out, function(x) as.vector(as_array(x)), numeric(size)))
    }
    expect_identical(run("all_reduce", n, reduces = TRUE), matrix(colSums(x), n, n, byrow = TRUE))
    gathered <- run("all_gather", n * n, "all_gather_dim = 0 : i64")
    expect_identical(gathered, matrix(as.vector(t(x)), n, n * n, byrow = TRUE))
    scattered <- run("reduce_scatter", 1L, "scatter_dimension = 0 : i64", reduces = TRUE)
    expect_identical(as.vector(scattered), colSums(x))
    axes <- sprintf("split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = %d : i64", n)
    expect_identical(run("all_to_all", n, axes), t(x))
    pairs <- paste(sprintf("[%d, %d]", seq_len(n) - 1L, seq_len(n) %% n), collapse = ", ")
    ring <- sprintf("source_target_pairs = dense<[%s]> : tensor<%dx2xi64>", pairs, n)
    expect_identical(run("collective_permute", n, ring), x[c(n, seq_len(n - 1L)), ])
  }
})

test_that("GSPMD and Shardy programs are partitioned automatically", {
  x <- matrix(seq(-2, 2, length.out = 24), 8)
  w <- matrix(c(1, 0.5, -1, 2, 3, 0.25), 3)
  clients <- list(devices("cpu"), four_devices())
  for (found in clients) {
    n <- length(found)
    for (partitioner in c("gspmd", "shardy")) {
      executable <- compile(partitioned_program(partitioner, n), pjrt_compile_options(1L, n), devices = found)
      inputs <- Map(list, pjrt_shard(x, executable = executable), pjrt_shard(w, executable = executable, dim = NULL))
      out <- pjrt_execute_sharded(executable, inputs)
      expect_identical(shape(out[[2L]][[1L]]), c(8L %/% n, 2L))
      expect_equal(pjrt_unshard(lapply(out, `[[`, 1L)), x %*% w, tolerance = 1e-6)
      for (part in out) expect_equal(as_array(part[[2L]]), sum(x), tolerance = 1e-6)
    }
  }
  # on one device the programs run like any other
  for (partitioner in c("gspmd", "shardy")) {
    out <- pjrt_execute(compile(partitioned_program(partitioner, 2L)), pjrt_buffer(x), pjrt_buffer(w))
    expect_equal(as_array(out[[1L]]), x %*% w, tolerance = 1e-6)
  }
})

test_that("Shardy's dialect is detected in bytecode too", {
  program <- pjrt_program(path = fixture("sharded.mlirbc"))
  executable <- pjrt_compile(program, pjrt_compile_options(num_partitions = 2L))
  x <- matrix(1:12 + 0, 4)
  expect_identical(pjrt_unshard(pjrt_execute_sharded(executable, pjrt_shard(x, executable = executable))), 2 * x)
  # GSPMD cannot partition a program written for Shardy
  gspmd <- pjrt_compile_options(num_partitions = 2L, use_shardy_partitioner = FALSE)
  expect_error(pjrt_compile(program, gspmd), class = "pjrt_error")
})

test_that("Shardy's manual computations run", {
  found <- four_devices()
  executable <- compile("module {
    sdy.mesh @mesh = <[\"d\"=4]>
    func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"d\"}]>}) -> (tensor<2xf32>, tensor<8xf32>) {
      %0:2 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{\"d\"}]>]
          out_shardings=[<@mesh, [{}]>, <@mesh, [{\"d\"}]>] manual_axes={\"d\"} (%y: tensor<2xf32>) {
        %1 = \"stablehlo.all_reduce\"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
            replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %c = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %c : tensor<f32>
        }) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = stablehlo.add %y, %y : tensor<2xf32>
        sdy.return %1, %2 : tensor<2xf32>, tensor<2xf32>
      } : (tensor<8xf32>) -> (tensor<2xf32>, tensor<8xf32>)
      return %0#0, %0#1 : tensor<2xf32>, tensor<8xf32>
    }
  }", pjrt_compile_options(num_partitions = 4L), devices = found)
  out <- pjrt_execute_sharded(executable, pjrt_shard(1:8 + 0, found))
  for (part in out) expect_identical(as_array(part[[1L]]), array(c(16, 20)))
  expect_identical(pjrt_unshard(lapply(out, `[[`, 2L)), array(2 * (1:8)))
})

test_that("replicas of partitions run on their assigned devices", {
  text <- "module {
    sdy.mesh @mesh = <[\"d\"=2]>
    func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"d\"}]>}) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
  }"
  child <- run_child(bquote({
    pjrt_client("cpu", cpu_device_count = 4L)
    ids <- matrix(c(2L, 0L, 3L, 1L), 2)
    for (options in list(pjrt_compile_options(2L, 2L), pjrt_compile_options(2L, 2L, device_assignment = ids))) {
      executable <- compile(.(text), options)
      out <- pjrt_execute_sharded(executable, pjrt_shard(c(1, 2, 3, 4, 10, 20, 30, 40), executable = executable))
      cat(vapply(devices(executable), format, ""), vapply(out, as_array, 0), "\n")
      stopifnot(identical(device(executable), devices(executable)[[1L]]))
    }
  }))
  expect_identical(child$status, 0L)
  expect_identical(child$out, c(
    "CpuDevice(id=0) CpuDevice(id=1) CpuDevice(id=2) CpuDevice(id=3) 10 10 100 100 ",
    "CpuDevice(id=2) CpuDevice(id=3) CpuDevice(id=0) CpuDevice(id=1) 10 10 100 100 "
  ))
})

test_that("a program is compiled for the requested devices in the given order", {
  for (given in list(c("cpu:1", "cpu:0"), rev(devices("cpu")), list("cpu:1", devices("cpu")[[1L]]))) {
    executable <- compile(all_reduce_program("f32", 2L), two_replicas, devices = given)
    expect_identical(devices(executable), rev(devices("cpu")))
    expect_identical(device(executable), devices("cpu")[[2L]])
  }
  expect_identical(devices(compile(all_reduce_program("f32", 2L), two_replicas)), devices("cpu"))
})

test_that("the number of devices must match the options", {
  text <- all_reduce_program("f32", 2L)
  expect_refused(compile(text, two_replicas, device = "cpu:0"), "invalid_input", "needs 2 devices, not 1")
  expect_refused(compile(text, devices = both), "invalid_input", "needs 1 device, not 2")
  expect_refused(
    compile(text, two_replicas, devices = c("cpu:1", "cpu:1")), "invalid_input", "device 1 is listed twice"
  )
  expect_refused(compile(text, two_replicas, device = "cpu:0", devices = both), "invalid_input", "Only one of")
  expect_refused(compile(text, pjrt_compile_options(8L)), "invalid_input", "needs 8 devices, but the client has 2")
  mixed <- list(devices("cpu")[[1L]], four_devices()[[2L]])
  expect_refused(compile(text, two_replicas, devices = mixed), "device_mismatch", "must belong to one client")
  for (bad in list(list(), 1, list(1), character())) {
    expect_refused(compile(text, two_replicas, devices = bad), "invalid_input")
  }
})

test_that("dtype and shape of outputs are available at once", {
  executable <- compile(all_reduce_program("2x3xf32", 2L), two_replicas)
  x <- pjrt_shard(matrix(c(1, 2, 3, 4, 5, 6), 2), executable = executable, dim = NULL)
  out <- pjrt_execute_sharded(executable, x)
  expect_identical(lapply(out, device), devices("cpu"))
  expect_identical(lapply(out, shape), list(c(2L, 3L), c(2L, 3L)))
  expect_identical(class(out[[1L]]), "PJRTBuffer")
  listed <- pjrt_execute_sharded(executable, lapply(x, list), simplify = FALSE)
  expect_null(attributes(listed))
  expect_identical(as_array(listed[[2L]][[1L]]), 2 * as_array(x[[1L]]))
  nothing <- compile("func.func @main(%x: tensor<f32>) { return }", two_replicas)
  expect_identical(pjrt_execute_sharded(nothing, scalars(1:2 + 0, both)), list(list(), list()))
})

test_that("pjrt_execute_sharded() also runs programs for one device", {
  add <- compile(add_program("f32"))
  x <- pjrt_scalar(2)
  out <- pjrt_execute_sharded(add, list(list(x, x)))
  expect_identical(lapply(out, as_array), list(4))
  portable <- compile(add_program("f32"), pjrt_compile_options(compile_portable_executable = TRUE))
  y <- pjrt_scalar(3, device = "cpu:1")
  expect_identical(as_array(pjrt_execute_sharded(portable, list(list(y, y)))[[1L]]), 6)
  expect_refused(pjrt_execute_sharded(add, list()), "argument_count", "got inputs for 0")
  expect_refused(pjrt_execute_sharded(add, list(list(x), list(x))), "argument_count", "got inputs for 2")
})

test_that("a program for several devices is refused by pjrt_execute()", {
  executable <- compile(all_reduce_program("f32", 2L), two_replicas)
  expect_refused(pjrt_execute(executable, pjrt_scalar(1)), "invalid_input", "pjrt_execute_sharded()")
  expect_refused(
    pjrt_execute_sharded(
      executable, scalars(c(1, 2), both), execution_options = pjrt_execution_options(device = "cpu:0")
    ), "invalid_input", "cannot choose others"
  )
})

test_that("every input is checked and reported by device and number", {
  executable <- compile(add_program("2xf32"), two_replicas)
  x <- pjrt_shard(c(1, 2), executable = executable, dim = NULL)
  run <- function(first = list(x[[1L]], x[[1L]]), second = list(x[[2L]], x[[2L]])) {
    pjrt_execute_sharded(executable, list(first, second))
  }
  expect_identical(as_array(run()[[2L]]), array(c(2, 4)))
  second <- "Device 2 (CpuDevice(id=1)): "
  expect_refused(run(second = list(x[[2L]])), "argument_count", paste0(second, "The program takes 2 arguments ("))
  expect_refused(
    run(second = list(x[[2L]], 1)), "invalid_input", paste0(second, "Argument 2 (`%y`) must be a `PJRTBuffer`")
  )
  expect_refused(run(first = list(x[[1L]], NULL)), "invalid_input", "Device 1 (CpuDevice(id=0)): Argument 2")
  error <- expect_refused(
    run(second = list(x[[2L]], x[[1L]])), "device_mismatch", paste0(second, "Argument 2 (`%y`) is on device")
  )
  expect_match(conditionMessage(error), "copy_buffer()", fixed = TRUE)
  wrong <- pjrt_buffer(1:2, device = "cpu:1")
  expect_refused(run(second = list(wrong, x[[2L]])), "dtype_mismatch", second)
  expect_refused(run(second = list(x[[2L]], pjrt_buffer(1, device = "cpu:1"))), "shape_mismatch", second)
  expect_refused(
    run(second = list(x = x[[2L]], y = x[[2L]])), "invalid_input", paste0(second, "Expected unnamed inputs")
  )
  expect_refused(pjrt_execute_sharded(executable, list(list(x[[1L]], x[[1L]]))), "argument_count", "got inputs for 1")
  for (bad in list(NULL, 1, x[[1L]], "x")) {
    expect_refused(pjrt_execute_sharded(executable, bad), "invalid_input", "one list of buffers for each device")
  }
  for (bad in list(NA, 1, NULL)) {
    expect_refused(pjrt_execute_sharded(executable, list(), simplify = bad), "invalid_input", "must be TRUE or FALSE")
  }
  expect_refused(pjrt_execute_sharded(1, list()), "invalid_pointer", "`executable` must be a `PJRTLoadedExecutable`")
  expect_refused(pjrt_execute_sharded(executable, list(), execution_options = 1), "invalid_pointer")
  # the executable and its inputs still work
  expect_identical(as_array(run()[[1L]]), array(c(2, 4)))
})

test_that("inputs can be donated on every device", {
  executable <- compile(all_reduce_program("1000xf64", 2L, donates), two_replicas)
  x <- pjrt_shard(1:2000 + 0, executable = executable, dtype = "f64")
  out <- pjrt_execute_sharded(executable, x)
  for (input in x) expect_refused(as_array(input), "deleted_buffer", "called on deleted or donated buffer")
  expect_refused(pjrt_execute_sharded(executable, x), "deleted_buffer", "Device 1 (CpuDevice(id=0)): Argument 1")
  expect_identical(as_array(out[[2L]]), array(1:1000 + 1001:2000 + 0))
  kept <- pjrt_execute_sharded(executable, out, execution_options = pjrt_execution_options(0L))
  expect_identical(as_array(kept[[1L]]), 2 * as_array(out[[1L]]))
  for (keep in list("x", 1)) {
    pjrt_execute_sharded(executable, out, execution_options = pjrt_execution_options(keep_inputs = keep))
    expect_identical(as_array(out[[2L]]), array(1:1000 + 1001:2000 + 0))
  }
  unknown <- pjrt_execution_options(keep_inputs = "y")
  expect_refused(
    pjrt_execute_sharded(executable, out, execution_options = unknown), "invalid_input", "Its arguments are `%x`."
  )
  add <- compile(add_program("4xf32", donates), two_replicas)
  y <- pjrt_shard(c(1, 2, 3, 4), executable = add, dim = NULL)
  expect_refused(
    pjrt_execute_sharded(add, Map(list, y, y)), "invalid_input", "Device 1 (CpuDevice(id=0)): Attempt to donate"
  )
  expect_identical(as_array(y[[2L]]), array(c(1, 2, 3, 4)))
})

test_that("launches on several devices return at once and keep their order", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 4L)
    four <- pjrt_compile_options(num_replicas = 4L)
    slow <- compile(loop_program(2e7), four)
    sum <- compile(all_reduce_program("f64", 4L), four)
    double <- lapply(devices(), function(d) compile(unary_program("f64"), device = d))
    x <- lapply(1:4, function(i) pjrt_scalar(i + 0, "f64", device = devices()[[i]]))
    a <- pjrt_execute_sharded(slow, x)
    b <- pjrt_execute_sharded(slow, a)
    c <- pjrt_execute_sharded(sum, b)
    d <- Map(pjrt_execute, double, c)
    other <- pjrt_execute_sharded(sum, x)
    # a launch that waited would have ended after the first program
    cat(is_ready(a[[1L]]), is_ready(d[[4L]]), "\n")
    cat(vapply(d, as_array, 0), vapply(other, as_array, 0), "\n")
  }), timeout = 600)
  expect_identical(child$status, 0L)
  expect_identical(child$out, c("FALSE FALSE ", "36 36 36 36 10 10 10 10 "))
})

test_that("donations on one device and on several devices do not interfere", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 4L)
    add_all <- compile(add_program("1000xf64", donates), pjrt_compile_options(num_replicas = 4L))
    add_one <- lapply(devices(), function(d) compile(add_program("1000xf64", donates), device = d))
    for (mode in c("auto", "thread", "inline")) {
      options(pjrt.dispatch = mode)
      one <- pjrt_shard(rep(1, 1000), devices(), dim = NULL, dtype = "f64")
      x <- pjrt_shard(rep(0, 1000), devices(), dim = NULL, dtype = "f64")
      for (i in 1:200) {
        x <- pjrt_execute_sharded(add_all, Map(list, x, one))
        x <- Map(pjrt_execute, add_one, x, one)
        if (i %% 50 == 0) gc()
      }
      cat(vapply(x, function(x) range(as_array(x)), c(0, 0)), "\n")
    }
  }), timeout = 600)
  expect_identical(child$status, 0L)
  expect_identical(child$out, rep("400 400 400 400 400 400 400 400 ", 3))
})

# Fails on both devices while it runs: there is only one replica.
failing_program <- all_reduce_program("f32", 2L)

test_that("a failure on the devices raises an error at every output and every use of it", {
  child <- run_child(bquote({
    pjrt_client("cpu", cpu_device_count = 2L)
    bad <- compile(.(failing_program), pjrt_compile_options(num_partitions = 2L))
    out <- pjrt_execute_sharded(bad, list(pjrt_scalar(1), pjrt_scalar(2, device = "cpu:1")))
    error_of <- function(expr) tryCatch({
      expr
      "none"
    }, pjrt_error = function(e) class(e)[[1L]])
    cat(error_of(as_array(out[[1L]])), error_of(await(out[[2L]])), "\n")
    # without the error, the other device would wait forever
    sum <- compile(all_reduce_program("f32", 2L), pjrt_compile_options(num_replicas = 2L))
    further <- pjrt_execute_sharded(sum, list(pjrt_scalar(1), out[[2L]]))
    cat(error_of(as_array(further[[1L]])), error_of(as_array(further[[2L]])), "\n")
    fine <- pjrt_execute_sharded(sum, list(pjrt_scalar(1), pjrt_scalar(2, device = "cpu:1")))
    cat(as_array(fine[[1L]]), "\n")
  }))
  expect_identical(child$status, 0L)
  expect_identical(child$out, c(
    "pjrt_error_internal pjrt_error_internal ", "pjrt_error_internal pjrt_error_internal ", "3 "
  ))
})

test_that("a launch that the plugin refuses raises an error at every output", {
  executable <- compile("func.func @main(%x: tensor<f64>) -> tensor<4000000000000xf64> {
    %1 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f64>) -> tensor<4000000000000xf64>
    return %1 : tensor<4000000000000xf64>
  }", two_replicas)
  out <- pjrt_execute_sharded(executable, scalars(c(1, 2), both, dtype = "f64"))
  for (buffer in out) expect_error(await(buffer), class = "pjrt_error")
})

test_that("dropping the results of thousands of launches is safe", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 4L)
    sum <- compile(all_reduce_program("100xf32", 4L), pjrt_compile_options(num_replicas = 4L))
    x <- pjrt_shard(rep(1, 400), executable = sum)
    for (i in 1:2000) pjrt_execute_sharded(sum, x)
    for (i in 1:100) pjrt_execute_sharded(sum, pjrt_execute_sharded(sum, x))
    cat(vapply(pjrt_execute_sharded(sum, x), function(x) as_array(x)[[1L]], 0), "\n")
    for (i in 1:50) pjrt_execute_sharded(sum, x)
  }), timeout = 600)
  expect_identical(child$status, 0L)
  expect_identical(child$out, "4 4 4 4 ")
})

test_that("launches on one, some and all devices run in parallel", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 4L)
    found <- devices()
    pair <- function(which) {
      compile(all_reduce_program("100xf32", 2L), pjrt_compile_options(2L), devices = found[which])
    }
    pairs <- list(pair(1:2), pair(3:4), pair(2:3))
    all <- compile(all_reduce_program("100xf32", 4L), pjrt_compile_options(4L))
    square <- "func.func @main(%x: tensor<100x100xf32>) -> tensor<100x100xf32> {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<100x100xf32>, tensor<100x100xf32>) -> tensor<100x100xf32>
      return %0 : tensor<100x100xf32>
    }"
    single <- lapply(found, function(d) compile(square, device = d))
    x <- pjrt_shard(rep(1, 400), found)
    m <- lapply(found, function(d) pjrt_buffer(diag(100), device = d))
    for (i in 1:300) {
      sums <- Map(pjrt_execute_sharded, pairs, list(x[1:2], x[3:4], x[2:3]))
      squares <- Map(pjrt_execute, single, m)
      total <- pjrt_execute_sharded(all, x)
    }
    cat(vapply(c(sums, list(total)), function(out) as_array(out[[2L]])[[1L]], 0), "\n")
  }), timeout = 600)
  expect_identical(child$status, 0L)
  expect_identical(child$out, "2 2 2 4 ")
})

test_that("launches on several devices work under gctorture()", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 2L)
    sum <- compile(all_reduce_program("2xf64", 2L, donates), pjrt_compile_options(num_replicas = 2L))
    both <- devices()
    x <- pjrt_shard(c(1, 2, 10, 20), both, dtype = "f64")
    torture(9)
    out <- pjrt_execute_sharded(sum, x)
    listed <- pjrt_execute_sharded(sum, out, simplify = FALSE)
    e <- tryCatch(pjrt_execute_sharded(sum, x), error = function(e) class(e)[[1L]])
    options <- pjrt_compile_options(num_replicas = 2L, debug_options = list(xla_cpu_enable_fast_math = TRUE))
    a <- as_array(listed[[2L]][[1L]])
    torture(0)
    cat(a, e, format(options), "\n")
  }), timeout = 600)
  expect_identical(child$status, 0L)
  expect_identical(child$out, paste(
    "22 44 pjrt_error_deleted_buffer <PJRTCompileOptions: 2 replicas, partitions as in the program>   xla_cpu_enable_fast_math = TRUE "
  ))
})

test_that("buffers can be copied between all devices of a client", {
  found <- four_devices()
  x <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  buffer <- pjrt_buffer(x, device = found[[1L]])
  for (device in found[c(2:4, 1L)]) {
    buffer <- copy_buffer(buffer, device)
    expect_identical(device(buffer), device)
    expect_identical(as_array(buffer), x)
  }
  # pending results, too
  slow <- compile(loop_program(1e6), pjrt_compile_options(4L), devices = found)
  out <- pjrt_execute_sharded(slow, scalars(1:4 + 0, found, dtype = "f64"))
  copies <- lapply(out, copy_buffer, found[[2L]])
  expect_identical(vapply(copies, as_array, 0), 2:5 + 0)
})

test_that("a function of a program for several devices takes and returns whole arrays or parts", {
  found <- four_devices()
  exported <- pjrt_load_exported(fixture("exported/devices.jaxexport"))
  x <- matrix(1:12 + 0, 4)
  f <- pjrt_function(exported, devices = found[1:2], as = "array")
  expect_output(print(f), "x: f32[4x3]", fixed = TRUE)
  expect_output(print(f), "devices: CpuDevice(id=0), CpuDevice(id=1)", fixed = TRUE)
  expect_equal(f(x), x / 4)
  expect_equal(f(pjrt_buffer(x, "f32", device = found[[2]])), x / 4)
  expect_equal(f(as.data.frame(x)), x / 4)
  parts <- pjrt_function(exported, devices = found[1:2])(x)
  expect_identical(lapply(parts, device), found[1:2])
  expect_equal(as_array(parts), list(x[1:2, ] / 4, x[3:4, ] / 4))
  # parts are taken as they are
  for (i in 1:2) expect_equal(f(parts), x / 16)
  expect_refused(f(x[1:3, ]), "shape_mismatch", "1 (`x`) has the shape [3x3], but the whole array of input 1 (`x`)")
  for (bad in list(list(), parts[1], list(x, x))) {
    expect_refused(f(bad), "invalid_input", "Argument 1 (`x`) must be a whole array, or a list of 2 buffers")
  }
  expect_refused(f("x"), "invalid_input", "Argument 1 (`x`) must be a `PJRTBuffer` or an R array of numbers")
  expect_refused(f(replace(x, 2, NA)), "invalid_input", "Argument 1 (`x`) has 1 NA value")
  # of executables, with whole shapes, and of the session's own devices
  for (g in list(
    pjrt_function(pjrt_compile(exported, devices = both), as = "array"), pjrt_function(exported, as = "array")
  )) {
    expect_output(print(g), "x: f32[4x3]", fixed = TRUE)
    expect_equal(g(x), x / 4)
  }
  # errors name arguments in lists as the function does
  nested <- pjrt_compile(
    pjrt_program(gsub("%x", "%params.w", all_reduce_program("2xf64", 2), fixed = TRUE)), two_replicas, devices = both
  )
  g <- pjrt_function(nested)
  wrong <- lapply(both, function(device) pjrt_buffer(c(1, 2, 3), "f64", device))
  expect_refused(g(list(w = wrong)), "shape_mismatch", "Wrong shape of argument 1 (`params$w`)")
  expect_refused(g(list(w = 1:3)), "shape_mismatch", "Argument 1 (`params$w`) has the shape [3]")
  expect_refused(g(list(w = c("a", "b"))), "invalid_input", "Argument 1 (`params$w`) must be a `PJRTBuffer`")
  # replicas get the same arrays, or their own
  replicas <- pjrt_compile(pjrt_program(all_reduce_program("2xf64", 2)), two_replicas, devices = both)
  sums <- pjrt_function(replicas, as = "array")
  expect_identical(sums(c(1, 2)), array(c(2, 4)))
  expect_identical(sums(pjrt_shard(c(1, 2, 10, 20), both, dtype = "f64")), array(c(11, 22)))
})

test_that("symbolic shapes and donation work on several devices", {
  found <- four_devices()
  exported <- pjrt_load_exported(fixture("exported/shared.jaxexport"))
  x <- matrix(1:12 + 0, 4)
  f <- pjrt_function(exported, devices = found[1:2], as = "array")
  expect_output(print(f), "x: f32[2*b, 3], donated", fixed = TRUE)
  right <- function(x) x / nrow(x) + rep(1:3, each = nrow(x))
  for (rows in list(1:4, 1:2, 1:4)) expect_equal(f(x[rows, ], 1:3), right(x[rows, ]))
  g <- pjrt_function(exported, devices = found[1:2])
  expect_refused(g(g(x, 1:3), 1:3), "invalid_input", "`x` must be a whole array, not a list of its parts")
  fixed <- pjrt_function(exported, devices = found[1:2], shapes = list(x = c(4, 3)))
  parts <- fixed(x, 1:3)
  expect_equal(pjrt_unshard(fixed(parts, 1:3)), right(right(x)))
  expect_true(all(vapply(parts, is_deleted, NA)))
})

test_that("a step on four devices keeps its state there", {
  found <- four_devices()
  exported <- pjrt_load_exported(fixture("sharded/train.jaxexport"))
  step <- pjrt_step(
    pjrt_function(exported, devices = found), state = c(w1 = 1, b1 = 2, w2 = 3), outputs = "loss"
  )
  values <- function(...) array(sin(seq_len(prod(...))) / 2, c(...))
  w1 <- values(5, 8)
  b1 <- values(8)
  w2 <- values(8, 2)
  x <- values(16, 5)
  y <- values(16, 2)
  state <- list(w1 = w1, b1 = b1, w2 = w2)
  for (i in 1:3) {
    state <- step(state, x = x, y = y)
    hidden <- tanh(x %*% w1 + rep(b1, each = 16))
    error <- hidden %*% w2 - y
    expect_equal(as_array(state$loss[[1]]), mean(error^2), tolerance = 1e-5)
    slope <- 2 * error / length(error)
    below <- (slope %*% t(w2)) * (1 - hidden^2)
    w2 <- w2 - 0.1 * t(hidden) %*% slope
    w1 <- w1 - 0.1 * t(x) %*% below
    b1 <- b1 - 0.1 * colSums(below)
  }
  expect_length(state$w1, 4)
  expect_identical(lapply(state$w1, shape), rep(list(c(5L, 2L)), 4))
  expect_equal(pjrt_unshard(state$w1, dim = 2L), w1, tolerance = 1e-5)
  expect_equal(pjrt_unshard(state$w2), w2, tolerance = 1e-5)
})
