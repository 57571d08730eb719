# The package and its process: environment variables, exit and interrupts. Everything runs in child processes.
# Slow: starts many sessions.

test_that("a fresh session takes its platform and device count from the environment", {
  child <- run_child(quote({
    cat(length(devices()), platform(pjrt_client()), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "3", PJRT_PLATFORM = "cpu"))
  expect_clean(child, "3 cpu ")
  child <- run_child(quote(cat(length(devices()))), c(PJRT_CPU_DEVICE_COUNT = NA, PJRT_PLATFORM = NA))
  expect_clean(child, "1")
})

test_that("an option of the first call sets the number of devices", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 3)
    cat(length(devices()), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "2"))
  expect_clean(child, "3 ")
})

test_that("a session without a plugin raises an error that says how to get one", {
  env <- c(PJRT_PLUGIN_PATH_CPU = NA, R_USER_CACHE_DIR = withr::local_tempdir())
  code <- quote({
    cat(plugins_downloaded(), "\n")
    error <- tryCatch(pjrt_buffer(1), error = identity)
    cat(class(error)[[1L]], "\n")
    cat(conditionMessage(error), "\n")
  })
  for (install in c("0", NA)) {
    child <- run_child(code, c(env, PJRT_INSTALL = install))
    expect_clean(child)
    expect_identical(child$out[1:2], c("FALSE ", "pjrt_error_plugin_not_found "))
    expect_match(child$out, "pjrt::install_pjrt(\"cpu\")", fixed = TRUE, all = FALSE)
    expect_match(child$out, "PJRT_PLUGIN_PATH_CPU", fixed = TRUE, all = FALSE)
  }
})

test_that("a plugin path without a file raises an error that names the file", {
  child <- run_child(quote({
    error <- tryCatch(pjrt_buffer(1), pjrt_error_plugin_not_found = identity)
    cat(conditionMessage(error), "\n")
  }), c(PJRT_PLUGIN_PATH_CPU = "/no/such/plugin.so"))
  expect_clean(child)
  expect_match(child$out[[1L]], "/no/such/plugin.so", fixed = TRUE)
})

test_that("sessions with every kind of pending work exit cleanly in every way R can end", {
  # tries each kind of work with each kind of exit; tools/endings.R tries more
  expect_identical(bad_endings(times(18, 45), seed = 8, hands = times(2L, 5L)), character())
})

test_that("a session that fails while programs run exits with R's own status", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(1e7)), pjrt_scalar(1, "f64"))
    stop("for a reason")
  }))
  expect_identical(child$status, 1L)
  expect_identical(child$err, c("Error: for a reason", "Execution halted"))
})

test_that("Ctrl-C ends every kind of wait and leaves everything usable", {
  child <- start_child(helpers = c("programs", "custom-calls"), quote({
    y <- pjrt_execute(compile(waiting_program()), pjrt_scalar(1, "f64"))
    promise <- as_array_async(y)
    double <- compile(unary_program("f64"))
    waits <- list(
      await = function() await(y), value = function() value(promise), as_array = function() as_array(y),
      as_raw = function() as_raw(y, TRUE), print = function() print(y), format = function() format_buffer(y)
    )
    for (name in names(waits)) {
      end <- tryCatch(
        {
          cat("waiting\n")
          waits[[name]]()
          "came to an end"
        },
        interrupt = function(e) "interrupted"
      )
      cat(name, end, "\n")
    }
    z <- pjrt_execute(double, y)
    cat("other work:", as_array(pjrt_scalar(7)), is_ready(y), is_ready(promise), as.character(elt_type(z)), "\n")
    cat("done\n")
    flush(stdout())
    tools::pskill(Sys.getpid(), 9L)
  }))
  withr::defer(child$kill())
  next_line <- line_reader(child)
  for (name in c("await", "value", "as_array", "as_raw", "print", "format")) {
    expect_identical(next_line(), "waiting")
    Sys.sleep(0.15)
    child$interrupt()
    # before the program ends: y is not ready below
    expect_identical(next_line(), paste(name, "interrupted "))
  }
  expect_identical(next_line(), "other work: 7 FALSE FALSE f64 ")
  expect_identical(next_line(), "done")
})

test_that("an interrupted wait can be repeated", {
  child <- start_child(quote({
    y <- pjrt_execute(compile(loop_program(5e7)), pjrt_scalar(1, "f64"))
    tryCatch(
      {
        cat("waiting\n")
        await(y)
      },
      interrupt = function(e) cat("interrupted\n")
    )
    cat(is_ready(y), as_array(y), "\n")
  }))
  withr::defer(child$kill())
  next_line <- line_reader(child)
  expect_identical(next_line(), "waiting")
  child$interrupt()
  expect_identical(next_line(), "interrupted")
  expect_identical(next_line(), "FALSE 2 ")
  child$wait(60000)
  expect_identical(child$get_exit_status(), 0L)
})

test_that("a session whose wait was interrupted ends without waiting", {
  child <- start_child(helpers = c("programs", "custom-calls"), quote({
    y <- pjrt_execute(compile(waiting_program()), pjrt_scalar(1, "f64"))
    promise <- pjrt_compile_async(pjrt_program(chain_program(60000)))
    cat("waiting\n")
    await(y)
  }))
  withr::defer(child$kill())
  expect_identical(line_reader(child)(), "waiting")
  child$interrupt()
  child$wait(20000)
  # reading the output of a running process would block
  expect_false(child$is_alive())
  if (child$is_alive()) return()
  expect_identical(child$get_exit_status(), 1L)
  expect_identical(child$read_all_error(), "\nExecution halted\n")
})

test_that("a session can end while a program runs forever", {
  child <- run_child(helpers = c("programs", "custom-calls"), timeout = 120, quote({
    program <- if (is_soak()) loop_program(Inf) else waiting_program()
    y <- pjrt_execute(compile(program), pjrt_scalar(1, "f64"))
    cat("leaving\n")
  }))
  expect_clean(child, "leaving")
})

test_that("Ctrl-C ends the wait at the end of a session", {
  child <- start_child(helpers = c("programs", "custom-calls"), quote({
    y <- pjrt_execute(compile(waiting_program()), pjrt_scalar(1, "f64"))
    invisible(reg.finalizer(globalenv(), function(e) cat("ending\n"), onexit = TRUE))
  }))
  withr::defer(child$kill())
  expect_identical(line_reader(child)(), "ending")
  took <- system.time(while (child$is_alive()) {
    # R itself does not look for the first ones any more
    child$interrupt()
    child$wait(100)
  })[["elapsed"]]
  # without Ctrl-C, it waits for ten seconds
  expect_lt(took, 8)
  expect_identical(child$get_exit_status(), 0L)
})
