# What must hold however often it is done, and whenever R collects garbage. In children: a fault would end the process.

test_that("everything works while R collects garbage at every allocation", {
  child <- run_child(quote({
    add <- compile(add_program("2xf64", donates))
    double <- compile(unary_program("2xf64"))
    both <- compile("func.func @main(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>) {
      %0 = stablehlo.add %x, %x : tensor<2xf64>
      return %x, %0 : tensor<2xf64>, tensor<2xf64>
    }")
    one <- pjrt_buffer(c(1, 1), "f64")
    gctorture(TRUE)
    x <- pjrt_buffer(c(1, 2), "f64")
    y <- pjrt_execute(double, x)
    z <- pjrt_execute(add, y, one)
    outs <- pjrt_execute(both, z)
    promise <- as_array_async(z)
    a <- as_array(z)
    v <- value(promise)
    r <- as_raw(outs[[1L]], TRUE)
    b <- as_array(outs[[2L]])
    f <- format_buffer(pjrt_buffer(1:2))
    e <- tryCatch(as_array(y), error = function(e) class(e)[[1L]])
    s <- c(shape(pjrt_empty("f32", c(2, 3))), as_array(pjrt_scalar(5L)))
    i <- format_buffer(pjrt_buffer(matrix(c(TRUE, FALSE), 1)))
    l <- identical(device(x), devices("cpu")[[1L]])
    gctorture(FALSE)
    cat(a, v, readBin(r, "double", 2), b, f, e, s, i, l, "\n")
  }))
  expect_clean(child, "3 5 3 5 3 5 6 10 1 2 pjrt_error_deleted_buffer 2 3 5 true false TRUE ")
})

test_that("compiling, printing and failing work while R collects garbage at every allocation", {
  child <- run_child(quote({
    text <- unary_program("2xf64")
    x <- pjrt_buffer(c(1, 2), "f64")
    invisible(pjrt_compile(pjrt_program(text)))
    gctorture(TRUE)
    double <- pjrt_compile(pjrt_program(text))
    y <- pjrt_execute(double, x)
    print(y)
    e <- tryCatch(pjrt_execute(double, pjrt_scalar(1)), error = function(e) class(e)[[1L]])
    attributes <- plugin_attributes("cpu")
    gctorture(FALSE)
    cat(e, length(attributes) > 2, "\n")
  }))
  expect_clean(child, c("PJRTBuffer ", " 2", " 4", "[ CPUf64{2} ] ", "pjrt_error_dtype_mismatch TRUE "))
})

test_that("a loop of donated steps keeps its sum", {
  child <- run_child(quote({
    add <- compile(add_program("1000xf64", donates))
    one <- pjrt_buffer(1, "f64", shape = 1000)
    for (mode in c("auto", "thread")) {
      options(pjrt.dispatch = mode)
      x <- pjrt_empty("f64", 1000)
      for (i in 1:2000) {
        x <- pjrt_execute(add, x, one)
        if (i %% 500 == 0) gc()
      }
      cat(range(as_array(x)), "\n")
    }
  }))
  expect_clean(child, c("2000 2000 ", "2000 2000 "))
})

test_that("results that are dropped without waiting do no harm", {
  child <- run_child(quote({
    add <- compile(add_program("100x100xf64", donates))
    double <- compile(unary_program("100x100xf64"))
    for (mode in c("auto", "thread", "inline")) {
      options(pjrt.dispatch = mode)
      x <- pjrt_buffer(1, "f64", shape = c(100, 100))
      for (i in 1:2000) pjrt_execute(double, x)
      for (i in 1:2000) pjrt_execute(add, pjrt_buffer(2, "f64", shape = c(100, 100)), x)
      for (i in 1:500) as_array_async(pjrt_execute(double, x))
      cat(range(as_array(pjrt_execute(double, x))), "\n")
    }
  }))
  expect_clean(child, rep("2 2 ", 3))
})

test_that("many buffers, executables and clients come and go", {
  child <- run_child(quote({
    for (i in 1:10000) pjrt_scalar(i)
    for (i in 1:30) compile(unary_program("f32"))
    plugin <- pjrt_plugin("cpu")
    for (i in 1:5) {
      client <- pjrt:::new_client(plugin, list(cpu_device_count = 1L))
      as_array(pjrt_scalar(i, device = devices(client)[[1L]]))
    }
    gc()
    cat("alive", as_array(pjrt_scalar(1)), "\n")
  }))
  expect_clean(child, "alive 1 ")
})
