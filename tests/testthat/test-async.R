# Slow: waits for long programs.

test_that("executions can be chained without waiting", {
  double <- compile(unary_program("2x2xf32"))
  x <- pjrt_buffer(matrix(1:4 + 0, 2))
  y <- pjrt_execute(double, pjrt_execute(double, x))
  expect_identical(as_array(y), 4 * matrix(1:4, 2))
  for (i in 1:50) x <- pjrt_execute(double, x)
  expect_identical(as_array(x), 2^50 * matrix(1:4, 2))
})

test_that("a long program is launched in the background", {
  loop <- compile(loop_program(2e7))
  x <- pjrt_scalar(1, "f64")
  y <- pjrt_execute(loop, x)
  promise <- as_array_async(y)
  z <- pjrt_execute(loop, y)
  # a call that waited would have ended after the first program
  ready <- list(is_ready(y), is_ready(promise), is_ready(z))
  expect_identical(ready, list(FALSE, FALSE, FALSE))
  await(z)
  expect_identical(is_ready(z), TRUE)
  expect_identical(is_ready(y), TRUE)
  expect_identical(as_array(z), 3)
  expect_identical(value(promise), 2)
})

test_that("dtype, shape and device of a buffer are known before its content is computed", {
  y <- pjrt_execute(compile(loop_program(2e7)), pjrt_scalar(1, "f64"))
  expect_identical(shape(y), integer())
  expect_true(elt_type(y) == "f64")
  expect_identical(device(y), devices("cpu")[[1L]])
  expect_identical(platform(y), "cpu")
  expect_false(is_ready(y))
  await(y)
})

test_that("a short program launched behind a long one runs after it", {
  y <- pjrt_execute(compile(loop_program(5e6)), pjrt_scalar(1, "f64"))
  double <- compile(unary_program("f64"))
  z <- pjrt_execute(double, y)
  other <- pjrt_execute(double, pjrt_scalar(21, "f64"))
  expect_identical(as_array(other), 42)
  expect_identical(as_array(z), 4)
})

test_that("await() waits and returns its buffer invisibly", {
  x <- pjrt_buffer(1:3)
  expect_invisible(await(x))
  expect_identical(await(x), x)
  expect_identical(is_ready(x), TRUE)
  expect_refused(await(1), "invalid_input", "`x` must be a `PJRTBuffer`")
  expect_refused(value(1), "invalid_input", "`x` must be a `PJRTBuffer`, `PJRTArrayPromise`")
  promise <- as_array_async(x)
  expect_identical(withVisible(await(promise)), list(value = promise, visible = FALSE))
  expect_true(is_ready(promise))
  expect_output(print(promise), "Status: Materialized")
  expect_refused(is_ready(1), "invalid_input", "`x` must be a `PJRTBuffer`")
})

test_that("a promise always returns the same array object", {
  promise <- as_array_async(pjrt_buffer(matrix(1:4, 2)))
  expect_identical(class(promise), "PJRTArrayPromise")
  expect_type(promise, "environment")
  expect_true(all(c("data", "dtype", "shape", "materialized") %in% ls(promise)))
  expect_false(promise$materialized)
  first <- value(promise)
  expect_identical(first, matrix(1:4, 2))
  expect_true(promise$materialized)
  address <- function(x) sub(" .*", "", utils::capture.output(.Internal(inspect(x)))[[1L]])
  expect_identical(address(value(promise)), address(first))
  expect_identical(address(as_array(promise)), address(first))
  expect_identical(is_ready(promise), TRUE)
})

test_that("promises work for every dtype", {
  values <- list(
    pred = c(TRUE, FALSE), i8 = c(1L, -1L), i16 = c(300L, -1L), i32 = c(1e5L, -1L), ui8 = c(200L, 1L),
    ui16 = c(6e4L, 1L), f16 = c(1.5, -2), bf16 = c(1.5, -2), f32 = c(1.5, -2), f64 = c(1 / 3, NA)
  )
  for (dtype in names(values)) {
    x <- pjrt_buffer(values[[dtype]], dtype)
    expect_bits(value(as_array_async(x)), array(values[[dtype]]))
  }
  for (dtype in c("i64", "ui64", "ui32")) {
    expect_bits(value(as_array_async(pjrt_buffer(c(3e9, 1), dtype))), int64(c(3e9, 1)))
  }
  expect_identical(value(as_array_async(pjrt_scalar(2))), 2)
  expect_identical(value(as_array_async(pjrt_empty("f32", c(2, 0)))), matrix(double(), 2, 0))
  expect_identical(value(as_array_async(pjrt_buffer(array(1:24, 2:4)))), array(1:24, 2:4))
})

test_that("a promise prints its value once it is ready", {
  promise <- as_array_async(pjrt_buffer(matrix(c(1, 2, 3, 4), 2)))
  expect_snapshot(promise, cran = TRUE)
  utils::capture.output(expect_invisible(print(promise)))
  expect_false(promise$materialized)
  invisible(value(promise))
  expect_snapshot(promise, cran = TRUE)
  expect_snapshot(as_array_async(pjrt_scalar(TRUE)), cran = TRUE)
})

test_that("a promise where an array or buffer belongs is refused with what to do", {
  error <- expect_refused(pjrt_buffer(as_array_async(pjrt_scalar(1))), "invalid_input", "<PJRTArrayPromise>")
  expect_match(conditionMessage(error), "value(x) waits for the promise and returns its array.", fixed = TRUE)
})

test_that("dim() and length() of a promise describe its array, and mean(), is.na() and anyNA() use its values", {
  values <- matrix(c(1, NaN, 3, 4, 5, 6), 2)
  promise <- as_array_async(pjrt_buffer(values))
  expect_identical(dim(promise), c(2L, 3L))
  expect_identical(length(promise), 6L)
  expect_identical(format(promise), "<PJRTArrayPromise f32[2x3]>")
  expect_identical(mean(promise, na.rm = TRUE), 3.8)
  expect_identical(is.na(promise), is.na(values))
  expect_true(anyNA(promise))
  scalar <- as_array_async(pjrt_scalar(2))
  expect_null(dim(scalar))
  expect_identical(length(scalar), 1L)
  expect_identical(length(as_array_async(pjrt_empty("f32", c(0, 3)))), 0L)
  wide <- as_array_async(pjrt_buffer(bit64::as.integer64(c("1", "9007199254740993"))))
  expect_identical(is.na(wide), array(FALSE, 2))
  expect_false(anyNA(wide))
})

test_that("means and summaries of 64-bit integers are not rounded", {
  promise <- function() as_array_async(pjrt_buffer(1:4, "i64"))
  expect_identical(mean(promise()), 2.5)
  expect_identical(summary(promise()), summary(c(1, 2, 3, 4)))
  expect_identical(mean(as_array_async(pjrt_buffer(bit64::as.integer64(-1:0), "ui64", check = FALSE))), 2^63)
})

test_that("summary() and all.equal() use the values of promises", {
  values <- matrix(c(1, 2, 3, 4), 2)
  promise <- as_array_async(pjrt_buffer(values))
  expect_identical(summary(promise), summary(values))
  expect_true(all.equal(promise, as_array_async(pjrt_buffer(values))))
  expect_true(all.equal(promise, values))
  expect_true(all.equal(promise, pjrt_buffer(values)))
  expect_true(all.equal(pjrt_buffer(values), promise))
  expect_match(all.equal(promise, as_array_async(pjrt_buffer(values + 1))), "relative difference")
  expect_match(all.equal(promise, list(1)), "current is of type list")
  expect_match(all.equal(list(promise), list(as_array_async(pjrt_buffer(2 * values)))), "relative difference")
  large <- bit64::as.integer64("1152921504606846976") + 0:1
  expect_false(isTRUE(all.equal(
    as_array_async(pjrt_buffer(large, "i64")), as_array_async(pjrt_buffer(large * 2L, "i64"))
  )))
  compiling <- pjrt_compile_async(pjrt_program(add_program("2xf32")))
  expect_output(print(summary(compiling)), "<PJRTLoadedExecutable>", fixed = TRUE)
})

test_that("a promise returns the buffer's content at the time it was made", {
  add <- compile(add_program("4xf32", donates))
  x <- pjrt_buffer(c(1, 2, 3, 4))
  promise <- as_array_async(x)
  out <- pjrt_execute(add, x, pjrt_buffer(c(10, 20, 30, 40)))
  rm(x)
  gc()
  expect_identical(as_array(out), array(c(11, 22, 33, 44)))
  expect_identical(value(promise), array(c(1, 2, 3, 4)))
})

test_that("a promise outlives its buffer", {
  promises <- lapply(1:20, function(i) as_array_async(pjrt_buffer(rep(i, 1e4), "f64")))
  gc()
  for (i in 1:20) expect_identical(range(value(promises[[i]])), c(i, i) + 0)
})

test_that("dropping promises and results without waiting is safe", {
  double <- compile(unary_program("1000xf32"))
  x <- pjrt_buffer(as.double(1:1000))
  for (i in 1:100) as_array_async(pjrt_execute(double, x))
  gc()
  expect_identical(as_array(pjrt_execute(double, x)), array(2 * (1:1000)))
})

test_that("a session can end while arrays are on their way", {
  child <- run_child(quote({
    x <- pjrt_buffer(matrix(runif(1e6), 1000))
    promises <- lapply(1:20, function(i) as_array_async(x))
    cat("end\n")
  }))
  expect_clean(child, "end")
})

test_that("as_array_async() accepts only buffers", {
  expect_refused(as_array_async(1), "invalid_input", "`x` must be a `PJRTBuffer`")
})

test_that("a promise restored from a file raises an error", {
  promise <- unserialize(serialize(as_array_async(pjrt_buffer(1:3)), NULL))
  for (use in list(value, await, is_ready, as_array)) {
    expect_refused(use(promise), "invalid_pointer", "`x` is a null pointer: a `PJRTArrayPromise`")
  }
})

test_that("every dispatch mode returns the same results", {
  for (mode in c("auto", "inline", "thread")) {
    withr::local_options(pjrt.dispatch = mode)
    double <- compile(unary_program("f64"))
    loop <- compile(loop_program(1e6))
    add <- compile(add_program("f64", donates))
    x <- pjrt_scalar(1, "f64")
    for (i in 1:10) x <- pjrt_execute(double, x)
    expect_identical(as_array(x), 1024)
    y <- pjrt_execute(loop, x)
    z <- pjrt_execute(double, y)
    sum <- pjrt_execute(add, z, y)
    expect_identical(as_array(sum), 3 * 1025)
    expect_identical(as_array(y), 1025)
    expect_refused(as_array(z), "deleted_buffer", "called on deleted or donated buffer")
  }
})

test_that("small programs return the same results on every run", {
  input <- c(1, 2, 3)
  loop <- compile(loop_program(20))
  branch <- compile("func.func @main(%x: tensor<3xf64>, %p: tensor<i1>) -> tensor<3xf64> {
    %0 = \"stablehlo.if\"(%p) ({
      %1 = stablehlo.negate %x : tensor<3xf64>
      stablehlo.return %1 : tensor<3xf64>
    }, {
      %2 = stablehlo.cosine %x : tensor<3xf64>
      stablehlo.return %2 : tensor<3xf64>
    }) : (tensor<i1>) -> tensor<3xf64>
    return %0 : tensor<3xf64>
  }")
  donating <- compile(loop_program(20, donates))
  x <- pjrt_scalar(0, "f64")
  y <- pjrt_scalar(0, "f64")
  v <- pjrt_buffer(input, "f64")
  for (i in 1:50) {
    x <- pjrt_execute(loop, x)
    y <- pjrt_execute(donating, y)
    flag <- i %% 2 == 0
    z <- pjrt_execute(branch, v, pjrt_scalar(flag))
    if (i %% 3 == 0) await(x)
    expect_equal(as.vector(as_array(z)), if (flag) -input else cos(input))
  }
  expect_identical(as_array(x), 50)
  expect_identical(as_array(y), 50)
})

test_that("options(pjrt.dispatch = ) must be one of three modes", {
  for (bad in list("later", NA_character_, 1, TRUE)) {
    withr::local_options(pjrt.dispatch = bad)
    expect_refused(compile(unary_program("f64")), "invalid_input", "pjrt.dispatch")
  }
})

test_that("a donation waits for programs that still read the input", {
  for (mode in c("auto", "inline", "thread")) {
    withr::local_options(pjrt.dispatch = mode)
    long <- compile(loop_program(5e6))
    reader <- compile("func.func @main(%x: tensor<1000xf64>, %t: tensor<f64>) -> tensor<1000xf64> {
      %0 = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f64>) -> tensor<1000xf64>
      %1 = stablehlo.add %x, %0 : tensor<1000xf64>
      return %1 : tensor<1000xf64>
    }")
    donating <- compile("func.func @main(%x: tensor<1000xf64> {tf.aliasing_output = 0 : i32}) -> tensor<1000xf64> {
      %0 = stablehlo.add %x, %x : tensor<1000xf64>
      return %0 : tensor<1000xf64>
    }")
    x <- pjrt_buffer(1, "f64", shape = 1000)
    y <- pjrt_execute(long, pjrt_scalar(1, "f64"))
    late <- pjrt_execute(reader, x, y)
    promise <- as_array_async(x)
    doubled <- pjrt_execute(donating, x)
    expect_refused(await(x), "deleted_buffer")
    rm(x)
    gc()
    expect_identical(range(as_array(late)), c(3, 3))
    expect_identical(range(value(promise)), c(1, 1))
    expect_identical(range(as_array(doubled)), c(2, 2))
  }
})

test_that("an output can be donated before it is computed", {
  for (mode in c("auto", "inline", "thread")) {
    withr::local_options(pjrt.dispatch = mode)
    long <- compile(loop_program(5e6))
    donating <- compile(add_program("f64", donates))
    y <- pjrt_execute(long, pjrt_scalar(1, "f64"))
    z <- pjrt_execute(donating, y, pjrt_scalar(10, "f64"))
    expect_refused(is_ready(y), "deleted_buffer")
    expect_identical(as_array(z), 12)
  }
})

test_that("a donated loop keeps its result in the input's memory", {
  loop <- compile(loop_program(2e6, donates))
  x <- pjrt_scalar(1, "f64")
  for (i in 1:3) x <- pjrt_execute(loop, x)
  expect_identical(as_array(x), 4)
})

test_that("R continues when a device's queue of programs is full", {
  program <- pjrt_program("func.func @main(%x: tensor<700x700xf32>) -> tensor<700x700xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<700x700xf32>, tensor<700x700xf32>) -> tensor<700x700xf32>
    return %0 : tensor<700x700xf32>
  }")
  for (count in 1:2) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = count))
    device <- devices(client)[[count]]
    multiply <- pjrt_compile(program, device = device)
    double <- compile(unary_program("2xf32"), device = device)
    x <- pjrt_buffer(1, shape = c(700, 700), device = device)
    y <- pjrt_buffer(c(1, 2), device = device)
    products <- lapply(1:100, function(i) pjrt_execute(multiply, x))
    for (i in 1:3) y <- pjrt_execute(double, y)
    # if a launch had waited for a free slot, most of them would be done
    expect_lt(sum(vapply(products, is_ready, NA)), 50)
    expect_identical(as_array(y), array(c(8, 16)))
    expect_identical(range(as_array(products[[100L]])), c(700, 700))
  }
})

test_that("R continues when many programs wait for a copy from another device", {
  multiply <- compile("func.func @main(%x: tensor<700x700xf32>) -> tensor<700x700xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<700x700xf32>, tensor<700x700xf32>) -> tensor<700x700xf32>
    return %0 : tensor<700x700xf32>
  }", device = "cpu:1")
  corner <- compile("func.func @main(%x: tensor<700x700xf32>) -> tensor<f32> {
    %0 = stablehlo.slice %x [0:1, 0:1] : (tensor<700x700xf32>) -> tensor<1x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }", device = "cpu:0")
  x <- pjrt_buffer(diag(700), "f32", device = "cpu:1")
  for (i in 1:20) x <- pjrt_execute(multiply, x)
  copy <- copy_buffer(x, device = "cpu:0")
  corners <- lapply(1:100, function(i) pjrt_execute(corner, copy))
  # if a launch had waited for a free slot, it would have waited for the copy
  expect_false(is_ready(copy))
  expect_identical(unique(lapply(corners, as_array)), list(1))
})

test_that("await() waits no longer than `timeout`", {
  x <- pjrt_scalar(2)
  expect_identical(expect_invisible(await(x, timeout = 5)), x)
  promise <- as_array_async(x)
  expect_identical(await(promise, timeout = 5), promise)
  expect_identical(await(list(a = x, b = list(promise)), timeout = 5), list(a = x, b = list(promise)))
  running <- pjrt_execute(compile(waiting_program(8)), pjrt_scalar(1, "f64"))
  expect_refused(await(running, timeout = 0), "deadline_exceeded", "The time to wait is over")
  expect_refused(await(list(x, running), timeout = 0.01), "deadline_exceeded", "`[[2]]`: The time to wait is over")
  for (bad in list(-1, NA, "1", 1:2)) {
    expect_refused(await(x, timeout = bad), "invalid_type", "`timeout` must be a number")
  }
  expect_identical(as_array(running), 1)
})
