# Many repetitions, and garbage collections at every allocation. Everything runs in child processes, because a fault
# would end the session.
# Slow: collects garbage at every allocation.

test_that("everything works under gctorture()", {
  child <- run_child(quote({
    add <- compile(add_program("2xf64", donates))
    double <- compile(unary_program("2xf64"))
    both <- compile("func.func @main(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>) {
      %0 = stablehlo.add %x, %x : tensor<2xf64>
      return %x, %0 : tensor<2xf64>, tensor<2xf64>
    }")
    one <- pjrt_buffer(c(1, 1), "f64")
    torture(11)
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
    torture(0)
    cat(a, v, readBin(r, "double", 2), b, f, e, s, i, l, "\n")
  }))
  expect_clean(child, "3 5 3 5 3 5 6 10 1 2 pjrt_error_deleted_buffer 2 3 5 true false TRUE ")
})

test_that("compiling, printing and errors work under gctorture()", {
  child <- run_child(quote({
    text <- unary_program("2xf64")
    x <- pjrt_buffer(c(1, 2), "f64")
    invisible(pjrt_compile(pjrt_program(text)))
    torture(11)
    double <- pjrt_compile(pjrt_program(text))
    y <- pjrt_execute(double, x)
    print(y)
    e <- tryCatch(pjrt_execute(double, pjrt_scalar(1)), error = function(e) class(e)[[1L]])
    attributes <- plugin_attributes("cpu")
    torture(0)
    cat(e, length(attributes) > 2, "\n")
  }))
  expect_clean(child, c("PJRTBuffer ", "[1] 2 4", "[ CPUf64{2} ] ", "pjrt_error_dtype_mismatch TRUE "))
})

test_that("a loop of donated steps computes the right sum", {
  child <- run_child(quote({
    one <- pjrt_buffer(1, "f64", shape = 1000)
    for (mode in c("auto", "thread")) {
      options(pjrt.dispatch = mode)
      add <- compile(add_program("1000xf64", donates))
      x <- pjrt_empty("f64", 1000)
      steps <- times(500, 2000)
      for (i in seq_len(steps)) {
        x <- pjrt_execute(add, x, one)
        if (i %% 100 == 0) gc()
      }
      cat(range(as_array(x)) == steps, "\n")
    }
  }))
  expect_clean(child, rep("TRUE TRUE ", 2))
})

test_that("dropping results without waiting is safe", {
  child <- run_child(quote({
    for (mode in c("auto", "thread", "inline")) {
      options(pjrt.dispatch = mode)
      add <- compile(add_program("100x100xf64", donates))
      double <- compile(unary_program("100x100xf64"))
      x <- pjrt_buffer(1, "f64", shape = c(100, 100))
      n <- times(200, 2000)
      for (i in seq_len(n)) pjrt_execute(double, x)
      for (i in seq_len(n)) pjrt_execute(add, pjrt_buffer(2, "f64", shape = c(100, 100)), x)
      for (i in seq_len(n / 4)) as_array_async(pjrt_execute(double, x))
      cat(range(as_array(pjrt_execute(double, x))), "\n")
    }
  }))
  expect_clean(child, rep("2 2 ", 3))
})

test_that("a session that drops many pending results exits cleanly", {
  child <- run_child(timeout = 300, code = quote({
    add <- compile(add_program("2x2xf32"))
    large <- compile(unary_program("100x100xf32", "multiply"))
    loop <- compile(loop_program(1000))
    x <- pjrt_buffer(1, shape = c(2, 2))
    y <- pjrt_buffer(1, shape = c(100, 100))
    z <- pjrt_scalar(1, "f64")
    for (i in seq_len(times(5000, 100000))) {
      switch(i %% 10, pjrt_execute(large, y), pjrt_execute(loop, z), pjrt_execute(add, x, x))
      pjrt_execute(add, x, x)
    }
    cat(as_array(pjrt_execute(add, x, x)), "\n")
  }))
  expect_clean(child, "2 2 2 2 ")
})

test_that("many buffers, executables and clients can be created and dropped", {
  child <- run_child(quote({
    for (i in seq_len(times(1000, 10000))) pjrt_scalar(i)
    for (i in seq_len(times(5, 30))) compile(unary_program("f32"))
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

test_that("every kind of upload and download works under gctorture()", {
  # in several children, because each collection visits all of R's objects
  child <- run_child(quote({
    long <- bit64::as.integer64(1:4)
    m <- matrix(c(1i, 2i, 3i, 4 + 5i), 2)
    pjrt_scalar(1)
    torture(11)
    z <- pjrt_buffer(m, "c64")
    l <- pjrt_buffer(long, shape = c(2, 2))
    b <- pjrt_buffer(c(TRUE, FALSE, TRUE))
    r <- pjrt_buffer(as.raw(1:4), dtype = "ui8", shape = c(2, 2), row_major = FALSE)
    i <- pjrt_buffer(1:6, "i4", shape = c(2, 3))
    f <- pjrt_buffer(c(1, 1.1, 1e9), "f8e4m3fn")
    e <- pjrt_empty("bf16", c(1, 2))
    s <- pjrt_scalar(1i)
    q <- pjrt_buffer(1:2000, "i16")
    a <- list(as_array(z), as_array(b), as_array(r), as_array(i), as_array(f), as_array(e), as_array(s))
    d <- as_array(l, int64 = "double")
    j <- as_array(l)
    w <- c(as_raw(r, row_major = TRUE), as_raw(i, row_major = FALSE))
    p <- as_array_async(l)
    v <- value(p)
    x <- list(z[2, 2], i[1, c(3, 1)], r[[3]], f[-1])
    torture(0)
    for (one in c(a, x)) cat(format(as.vector(one)), "\n")
    cat(d, identical(j, v), as.integer(w), sum(as_array(q)), "\n")
  }))
  expect_clean(child, c(
    "0+1i 0+2i 0+3i 4+5i ", " TRUE FALSE  TRUE ", "1 2 3 4 ", "1 2 3 4 5 6 ", "1.000 1.125   NaN ", "0 0 ", "0+1i ",
    "4+5i ", "5 1 ", "3 ", "1.125   NaN ", "1 2 3 4 TRUE 1 3 2 4 1 2 3 4 5 6 2001000 "
  ))
})

test_that("text, checks and memory statistics work under gctorture()", {
  child <- run_child(quote({
    z <- pjrt_buffer(c(1i, 4 + 5i), "c64")
    f <- pjrt_buffer(c(1, 1.1), "f8e4m3fn")
    invisible(pjrt_memory_stats())
    x <- c(1, NA, 300)
    torture(11)
    t <- c(format_buffer(z), format_buffer(f))
    m <- pjrt_memory_stats()
    bad <- tryCatch(pjrt_buffer(x, "i8", check = TRUE), error = conditionMessage)
    print(z, header = FALSE)
    torture(0)
    cat(t, sep = "\n")
    cat(m$staging[["max"]], m$clients$platform, "\n")
    cat(bad, "\n")
  }))
  expect_clean(child, c(
    " 0+1i", " 4+5i", "[ CPUc64{2} ] ", "(0.00000000e+00, 1.00000000e+00)", "(4.00000000e+00, 5.00000000e+00)",
    "1.00000000e+00", "1.12500000e+00", "268435456 cpu ", paste(
      "`data` has 1 NA value, which has no representation at the XLA level and 1 value that i8 cannot hold;",
      "the first is element 2. "
    )
  ))
})

test_that("large arrays survive frequent garbage collections", {
  child <- run_child(quote({
    n <- 4e4
    x <- as.double(1:n)
    same <- logical()
    invisible(as_array(pjrt_buffer(bit64::as.integer64(1))))
    gctorture2(times(200, 20))
    for (i in 1:4) {
      x[i] <- -i
      y <- pjrt_buffer(x, "f64")
      expected <- sum(x)
      back <- as_array(y)
      dim(back) <- c(n / 10, 10)
      z <- pjrt_buffer(back)
      rm(y)
      promise <- as_array_async(z)
      raw <- as_raw(pjrt_buffer(back, "f64"), row_major = FALSE)
      long <- as_array(pjrt_buffer(back, "i64"))
      complex <- as_array(pjrt_buffer(as.complex(x), "c128"))
      x <- as_array(pjrt_buffer(x, "f64"))
      same <- c(
        same, sum(back) == expected, sum(value(promise)) == expected, sum(readBin(raw, "double", n)) == expected,
        all(as.double(long) == back), sum(Re(complex)) == expected, sum(x) == expected
      )
    }
    # uploaded in the background
    large <- matrix(as.double(1:1.2e6), 1000)
    for (i in 1:2) {
      large[1, 1] <- i
      y <- pjrt_buffer(large, "f64")
      large[1, 1] <- 0
      same <- c(same, y[[1, 1]] == i, y[[1000, 1200]] == 1.2e6)
    }
    torture(0)
    cat(all(same), length(same), "\n")
  }))
  expect_clean(child, "TRUE 28 ")
})

test_that("random work with interrupts, forks, failures and garbage collections matches R's results", {
  withr::local_envvar(
    R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "", PJRT_CPU_DEVICE_COUNT = "2"
  )
  script <- c(test_path("fixtures", "stress.R"), times(4, 60), 1, test_path("helper-programs.R"))
  child <- processx::run(rscript(), c("--vanilla", script), error_on_status = FALSE, timeout = 600)
  expect_identical(child$status, 0L, info = child$stdout)
  expect_match(child$stdout, "^steps: [0-9]{3,} *\n.*interrupts [0-9]")
  # R prints a newline at each interrupt
  expect_identical(trimws(child$stderr), "")
})
