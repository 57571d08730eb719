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

test_that("every way of data to a device and back works while R collects garbage at every allocation", {
  child <- run_child(quote({
    long <- bit64::as.integer64(c(1, 2, 3, 4))
    dim(long) <- c(2L, 2L)
    show <- function(x) cat(format(as.vector(x)), "\n")
    pjrt_scalar(1)
    gctorture(TRUE)
    z <- pjrt_buffer(matrix(c(1i, 2i, 3i, 4 + 5i), 2), "c64")
    l <- pjrt_buffer(long)
    b <- pjrt_buffer(c(TRUE, FALSE, NA))
    r <- pjrt_buffer(as.raw(1:4), dtype = "ui8", shape = c(2, 2), row_major = FALSE)
    i <- pjrt_buffer(matrix(1:6, 2), "i4")
    f <- pjrt_buffer(c(1, 1.1, 1e9), "f8e4m3fn")
    e <- pjrt_empty("bf16", c(1, 2))
    s <- list(pjrt_scalar(5L), pjrt_scalar(2.5), pjrt_scalar(TRUE), pjrt_scalar(1i), pjrt_scalar(long[1]))
    q <- pjrt_buffer(1:2000, "i16")
    a <- lapply(list(z, l, b, r, i, f, e), as_array)
    d <- as_array(l, int64 = "double")
    w <- lapply(list(z, l, r), as_raw, row_major = FALSE)
    p <- lapply(list(z, l, i), as_array_async)
    v <- lapply(p, value)
    x <- list(z[2, 2], l[2, ], i[1, c(3, 1)], r[[3]], f[-1])
    t <- list(format_buffer(z), format_buffer(f), format_buffer(l))
    m <- pjrt_memory_stats()
    bad <- vapply(list(
      quote(pjrt_buffer(c(1, NA, 300), "i8", check = TRUE)), quote(pjrt_buffer(1L, "c64")),
      quote(pjrt_buffer(1:3, shape = 2)), quote(as_array(l, int64 = "none")), quote(l[9])
    ), function(code) tryCatch(eval(code), error = conditionMessage), "")
    print(i)
    print(z)
    print(p[[1]])
    gctorture(FALSE)
    for (one in a) show(if (is.object(one)) as.double(one) else one)
    show(d)
    show(unlist(lapply(s, function(one) as.character(as_array(one)))))
    cat(lengths(w), as.integer(w[[3]]), identical(v[[1]], a[[1]]), identical(v[[3]], a[[5]]), sum(as_array(q)), "\n")
    show(unlist(lapply(x, as.character)))
    cat(t[[1]][2, 2], t[[2]][1], t[[3]][2, 2], m$staging[["max"]], "\n")
    cat(bad, sep = "\n")
  }), timeout = 120)
  expect_clean(child, c(
    "PJRTBuffer ", " 1 3 5", " 2 4 6", "[ CPUi4{2x3} ] ", "PJRTBuffer ", "0.0000e+00 + 1.0000e+00i, 0", "", ""
  ))
})

test_that("large arrays come and go while R collects garbage often", {
  child <- run_child(quote({
    n <- 1e5
    x <- as.double(1:n)
    same <- logical()
    gctorture2(7)
    for (i in 1:15) {
      x[i] <- -i
      y <- pjrt_buffer(x, "f64")
      expected <- sum(x)
      back <- as_array(y)
      dim(back) <- c(n / 10, 10)
      z <- pjrt_buffer(back)
      rm(y)
      promise <- as_array_async(z)
      raw <- as_raw(z, row_major = FALSE)
      long <- as_array(pjrt_buffer(back, "i64"))
      complex <- as_array(pjrt_buffer(as.complex(x), "c128"))
      x <- as_array(pjrt_buffer(x, "f64"))
      same <- c(
        same, sum(back) == expected, sum(value(promise)) == expected, sum(readBin(raw, "double", n, 4)) == expected,
        sum(long) == expected, sum(Re(complex)) == expected, sum(x) == expected
      )
    }
    # written while R goes on
    large <- matrix(as.double(1:1.2e6), 1000)
    for (i in 1:4) {
      large[1, 1] <- i
      y <- pjrt_buffer(large, "f64")
      large[1, 1] <- 0
      same <- c(same, y[[1, 1]] == i, y[[1000, 1200]] == 1.2e6)
    }
    gctorture(FALSE)
    cat(all(same), length(same), "\n")
  }), timeout = 120)
  expect_clean(child, "TRUE 98 ")
})
