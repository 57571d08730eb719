# Slow: waits for long programs, and starts many sessions.

steps <- 5e6
slow <- function(x = 1) pjrt_execute(compile(loop_program(steps)), pjrt_scalar(x, "f64"))

# Lets R idle until `is_done()`.
idle_until <- function(is_done, seconds = 60) {
  end <- Sys.time() + seconds
  while (!is_done() && Sys.time() < end) Sys.sleep(0.02)
  is_done()
}

pending <- function() length(pjrt:::the$on_ready$numbers)

test_that("a function is called once with its buffer, while R sleeps", {
  y <- pjrt_execute(compile(loop_program(2 * steps)), pjrt_scalar(1, "f64"))
  got <- list()
  returned <- withVisible(pjrt_on_ready(y, function(x) got <<- c(got, list(x))))
  # it does not wait for the buffer
  expect_false(is_ready(y))
  expect_false(returned$visible)
  expect_identical(got, list())
  expect_identical(pending(), 1L)
  expect_true(idle_until(function() length(got) > 0L))
  Sys.sleep(0.1)
  expect_identical(got, list(y))
  expect_true(is_ready(y))
  expect_identical(pending(), 0L)
})

test_that("functions are called while R waits for something else", {
  y <- slow()
  z <- pjrt_execute(compile(loop_program(4 * steps)), y)
  ready <- NULL
  pjrt_on_ready(y, function(y) ready <<- c(y = is_ready(y), z = is_ready(z)))
  await(z)
  expect_identical(ready, c(y = TRUE, z = FALSE))
})

test_that("a function may execute, read and wait itself", {
  double <- compile(unary_program("f64"))
  values <- numeric()
  more <- function(x) {
    values <<- c(values, as_array(x))
    y <- pjrt_execute(double, x)
    if (length(values) < 5L) pjrt_on_ready(y, more)
    as_array(slow())
  }
  pjrt_on_ready(slow(), more)
  expect_true(idle_until(function() length(values) == 5L))
  expect_identical(values, 2^(1:5))
})

test_that("a function is called when all results of a nested list are ready", {
  results <- list(
    slow(), list(a = as_array_async(slow()), b = pjrt_compile_async(pjrt_program(unary_program("7xf32"))))
  )
  got <- NULL
  pjrt_on_ready(results, function(x) got <<- list(x, is_ready(x)))
  expect_true(idle_until(function() !is.null(got)))
  expect_identical(got, list(results, TRUE))
  pjrt_on_ready(list(), function(x) got <<- "none")
  expect_true(idle_until(function() identical(got, "none")))
  expect_identical(pending(), 0L)
})

test_that("a function for what is ready is called soon, not at once", {
  promise <- as_array_async(pjrt_scalar(1))
  value(promise)
  compiled <- pjrt_compile_async(pjrt_program(unary_program("f32")))
  await(compiled)
  for (x in list(await(pjrt_scalar(1)), promise, compiled)) {
    got <- NULL
    pjrt_on_ready(x, function(x) got <<- x)
    expect_null(got)
    expect_true(idle_until(function() identical(got, x)))
  }
})

test_that("a canceled function is not called", {
  got <- FALSE
  y <- slow()
  cancel <- pjrt_on_ready(list(y, y), function(x) got <<- TRUE)
  expect_identical(pending(), 2L)
  expect_identical(cancel(), TRUE)
  expect_identical(pending(), 0L)
  await(y)
  Sys.sleep(0.1)
  expect_false(got)
  expect_identical(cancel(), FALSE)
  cancel <- pjrt_on_ready(y, identity)
  expect_true(idle_until(function() pending() == 0L))
  expect_identical(cancel(), FALSE)
})

test_that("an error in a function is a warning, and other functions are called", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
    called <- FALSE
    pjrt_on_ready(y, function(y) stop("no room"))
    pjrt_on_ready(y, function(y) {
      cat(as_array(y), "\n")
      called <<- TRUE
    })
    for (i in 1:1200) if (!called) Sys.sleep(0.05)
  }))
  expect_identical(child[c("status", "out")], list(status = 0L, out = "2 "))
  expect_match(child$err, "A function given to pjrt_on_ready() failed: no room", fixed = TRUE, all = FALSE)
})

test_that("an error in a function shows, too, where warnings are errors", {
  child <- run_child(quote({
    options(warn = 2)
    called <- FALSE
    pjrt_on_ready(pjrt_scalar(1), function(y) {
      called <<- TRUE
      stop("no room")
    })
    for (i in 1:1200) if (!called) Sys.sleep(0.05)
    cat("went on\n")
  }))
  expect_identical(child[c("status", "out")], list(status = 0L, out = "went on"))
  expect_match(child$err, "A function given to pjrt_on_ready() failed: no room", fixed = TRUE, all = FALSE)
})

test_that("a failed compile calls the function, which gets the error from value()", {
  wrong <- pjrt_compile_async(pjrt_program("func.func @main() -> tensor<f32> { return %x : tensor<f32> }"))
  got <- NULL
  pjrt_on_ready(wrong, function(x) got <<- tryCatch(value(x), error = class))
  expect_true(idle_until(function() !is.null(got)))
  expect_true("pjrt_error_compile" %in% got)
})

test_that("a buffer that is deleted meanwhile calls the function, which gets the error", {
  y <- slow()
  got <- NULL
  pjrt_on_ready(y, function(y) got <<- tryCatch(as_array(y), error = class)[[1L]])
  pjrt_delete(y)
  expect_true(idle_until(function() !is.null(got)))
  expect_identical(got, "pjrt_error_deleted_buffer")
})

test_that("R keeps what a function waits for, and forgets it afterwards", {
  got <- numeric()
  n <- times(8L, 20L)
  for (i in seq_len(n)) pjrt_on_ready(slow(i), function(y) got <<- c(got, as_array(y)))
  gc()
  gc()
  expect_true(idle_until(function() length(got) == n))
  expect_identical(sort(got), seq_len(n) + 1)
  expect_identical(pending(), 0L)
})

test_that("arguments are checked, and nothing remains after an error", {
  expect_refused(pjrt_on_ready(1, identity), "invalid_input", "`x` must be a `PJRTBuffer`")
  expect_refused(pjrt_on_ready(list(a = pjrt_scalar(1), b = "b"), identity), "invalid_input", "`b` of `x`")
  expect_refused(pjrt_on_ready(pjrt_scalar(1), "print"), "invalid_input", "`callback` must be a function")
  gone <- pjrt_scalar(1)
  pjrt_delete(gone)
  expect_refused(pjrt_on_ready(list(slow(), gone), identity), "deleted_buffer")
  expect_identical(pending(), 0L)
})

test_that("R calls functions at its prompt", {
  skip_on_os("windows")
  arguments <- c("--interactive", "--no-readline", "--vanilla", "--quiet")
  env <- c("current", R_LIBS = paste(.libPaths(), collapse = ":"), PJRT_PLUGIN_PATH_CPU = real_plugin())
  child <- processx::process$new(
    file.path(R.home("bin"), "R"), arguments, stdin = "|", stdout = "|", stderr = "|", env = env
  )
  withr::defer(child$kill())
  child$write_input(paste0(
    "library(pjrt); ", sourcing("programs"), "; double <- compile(loop_program(2e7))\n",
    "pjrt_on_ready(pjrt_execute(double, pjrt_scalar(1, 'f64')), function(y) cat('<called ', as_array(y), '>\\n', sep = ''))\n",
    "cat('<next>\\n')\n"
  ))
  next_line <- line_reader(child)
  lines <- character()
  while (!"<called 2>" %in% lines && !is.null(line <- next_line(60))) lines <- c(lines, sub("^> ", "", line))
  expect_identical(tail(grep("^<", lines, value = TRUE), 2L), c("<next>", "<called 2>"))
  child$write_input("quit()\n")
  child$wait(60000)
  expect_identical(child$get_exit_status(), 0L)
})

test_that("the child of a fork calls no function of its parent, which is not affected", {
  skip_on_os("windows")
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(2e7)), pjrt_scalar(1, "f64"))
    called <- FALSE
    pjrt_on_ready(y, function(y) {
      cat("called in", if (Sys.getpid() == parent) "parent" else "child", "\n")
      called <<- TRUE
    })
    parent <- Sys.getpid()
    jobs <- lapply(1:2, function(i) parallel::mcparallel({
      Sys.sleep(3)
      gc()
      "slept"
    }))
    for (i in 1:1000) if (!called) Sys.sleep(0.05)
    cat(unlist(parallel::mccollect(jobs), use.names = FALSE), "\n")
  }))
  expect_clean(child, c("called in parent ", "slept slept "))
})

test_that("a fork without a client in its parent calls its own functions", {
  skip_on_os("windows")
  child <- run_child(quote({
    job <- parallel::mcparallel({
      got <- NULL
      pjrt_on_ready(pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64")), function(y) got <<- as_array(y))
      for (i in 1:1200) if (is.null(got)) Sys.sleep(0.05)
      got
    })
    cat(parallel::mccollect(job)[[1L]], "\n")
  }))
  expect_clean(child, "2 ")
})

test_that("a session ends normally while functions wait", {
  child <- run_child(quote({
    loop <- compile(loop_program(1e6))
    for (i in 1:5) pjrt_on_ready(pjrt_execute(loop, pjrt_scalar(1, "f64")), function(y) cat("called\n"))
    pjrt_on_ready(pjrt_compile_async(pjrt_program(chain_program(5000))), function(x) cat("called\n"))
    if (requireNamespace("later", quietly = TRUE)) loadNamespace("later")
    cat("end\n")
  }))
  expect_clean(child, "end")
})

test_that("closing the client, and unloading the package, is safe while functions wait", {
  child <- run_child(quote({
    told <- 0
    tell <- function(...) {
      cat(..., "\n")
      told <<- told + 1
    }
    idle_until <- function(n) for (i in 1:1200) if (told < n) Sys.sleep(0.05)
    y <- pjrt_execute(compile(loop_program(5e6)), pjrt_scalar(1, "f64"))
    pjrt_on_ready(y, function(y) tell(tryCatch(as_array(y), error = class)[[1L]]))
    close(pjrt_client())
    cat("closed\n")
    idle_until(1)
    y <- pjrt_execute(compile(loop_program(5e6)), pjrt_scalar(1, "f64"))
    pjrt_on_ready(y, function(y) cat("never called\n"))
    detach("package:pjrt", unload = TRUE)
    Sys.sleep(0.5)
    library(pjrt)
    pjrt_on_ready(pjrt_scalar(5, "f64"), function(y) tell(as_array(y)))
    idle_until(2)
  }))
  expect_clean(child, c("closed", "pjrt_error_client_closed ", "5 "))
})

test_that("a function that closes the client ends the wait that called it", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
    z <- pjrt_execute(compile(loop_program(4e7)), y)
    pjrt_on_ready(y, function(y) close(pjrt_client()))
    cat(tryCatch(as_array(z), error = class)[[1L]], "\n")
    cat(as_array(pjrt_scalar(3)), "\n")
  }))
  expect_clean(child, c("pjrt_error_client_closed ", "3 "))
})

test_that("Ctrl-C in a function ends the wait, and the other functions are called later", {
  skip_on_os("windows")
  child <- run_child(quote({
    # R loads a function at its first use, and an interrupt of that leads to a warning
    Sys.sleep(0)
    y <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
    z <- pjrt_execute(compile(loop_program(2e7)), y)
    pjrt_on_ready(y, function(y) {
      tools::pskill(Sys.getpid(), 2L)
      Sys.sleep(10)
    })
    pjrt_on_ready(y, function(y) cat("second\n"))
    cat(tryCatch({
      await(z)
      "done"
    }, interrupt = function(e) "interrupted"), "\n")
    Sys.sleep(0.1)
    cat(as_array(z), "\n")
    # while R idles, the interrupt is that of the sleep
    pjrt_on_ready(y, function(y) {
      tools::pskill(Sys.getpid(), 2L)
      Sys.sleep(100)
    })
    took <- system.time(cat(tryCatch({
      Sys.sleep(90)
      "slept"
    }, interrupt = function(e) "interrupted"), "\n"))[["elapsed"]]
    cat(took < 60, "\n")
  }))
  expect_clean(child, c("interrupted ", "second", "3 ", "interrupted ", "TRUE "))
})
