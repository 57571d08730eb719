# What the process does around the package: its environment, its end, and interrupts. All of it in children.

test_that("a fresh session has its platform and device count from the environment", {
  child <- run_child(quote({
    cat(length(devices()), platform(pjrt_client()), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "3", PJRT_PLATFORM = "cpu"))
  expect_clean(child, "3 cpu ")
  child <- run_child(quote(cat(length(devices()))), c(PJRT_CPU_DEVICE_COUNT = NA, PJRT_PLATFORM = NA))
  expect_clean(child, "1")
})

test_that("an option of the first call decides the number of devices", {
  child <- run_child(quote({
    pjrt_client("cpu", cpu_device_count = 3)
    cat(length(devices()), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "2"))
  expect_clean(child, "3 ")
})

test_that("a session without a plugin says how to get one", {
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

test_that("a plugin path without a file is an error that names the file", {
  child <- run_child(quote({
    error <- tryCatch(pjrt_buffer(1), pjrt_error_plugin_not_found = identity)
    cat(conditionMessage(error), "\n")
  }), c(PJRT_PLUGIN_PATH_CPU = "/no/such/plugin.so"))
  expect_clean(child)
  expect_match(child$out[[1L]], "/no/such/plugin.so", fixed = TRUE)
})

test_that("loading the package starts nothing", {
  child <- run_child(quote({
    cat(length(ls(pjrt:::the$clients)), length(ls(pjrt:::the$plugins)), "\n")
  }))
  expect_clean(child, "0 0 ")
})

test_that("200 sessions end well in every way that there is, with work of every kind under way", {
  expect_identical(bad_endings(200, seed = 8), character())
})

test_that("the package can be unloaded and loaded again, and what it made stays whole", {
  child <- run_child(quote({
    folder <- find.package("pjrt")
    make <- function() {
      list(
        buffer = pjrt_buffer(c(1, 2)), double = compile(unary_program("2xf32")), large = as_array(pjrt_buffer(1:1e6 + 0)),
        raw = as_raw(pjrt_buffer(1:1e6), TRUE), pending = as_array_async(pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))),
        compiling = pjrt_compile_async(pjrt_program(unary_program("f32"))), shared = pjrt_buffer(as.double(1:1e6), "f64"),
        device = devices()[[1L]], options = pjrt_execution_options()
      )
    }
    kept <- make()
    for (way in c("unloaded", "taken from memory")) {
      dropped <- make()
      sums <- c(sum(dropped$large), sum(as.integer(dropped$raw)))
      if (way == "unloaded") detach("package:pjrt", unload = TRUE) else unloadNamespace("pjrt")
      if (way == "taken from memory") library.dynam.unload("pjrt", folder)
      # the memory of the package, with nobody there who knows it
      cat("pjrt" %in% loadedNamespaces(), identical(sums, c(sum(dropped$large), sum(as.integer(dropped$raw)))), "")
      rm(dropped)
      gc()
      gc()
      library(pjrt)
      x <- pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(1, 2)))
      cat(as_array(x), as_array(kept$buffer), as_array(pjrt_execute(kept$double, kept$buffer)), value(kept$pending), "")
      cat(as_array(pjrt_execute(value(kept$compiling), pjrt_scalar(4, device = kept$device))), sum(as_array(kept$shared)), "\n")
    }
    rm(kept)
    gc()
    cat(as_array(pjrt_scalar(3)), "\n")
  }))
  expect_clean(child, c(rep("FALSE TRUE 2 4 1 2 2 4 2 8 500000500000 ", 2), "3 "))
})

test_that("a session that fails while programs run has R's own exit status", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(1e7)), pjrt_scalar(1, "f64"))
    stop("for a reason")
  }))
  expect_identical(child$status, 1L)
  expect_identical(child$err, c("Error: for a reason", "Execution halted"))
})

test_that("Ctrl-C ends every kind of wait, and everything can be used afterwards", {
  child <- start_child(quote({
    y <- pjrt_execute(compile(loop_program(5e8)), pjrt_scalar(1, "f64"))
    promise <- as_array_async(y)
    double <- compile(unary_program("f64"))
    waits <- list(
      await = function() await(y), value = function() value(promise), as_array = function() as_array(y),
      as_raw = function() as_raw(y, TRUE), print = function() print(y), format = function() format_buffer(y)
    )
    for (name in names(waits)) {
      cat("waiting\n")
      end <- tryCatch({ waits[[name]](); "came to an end" }, interrupt = function(e) "interrupted")
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
    sent <- Sys.time()
    child$interrupt()
    expect_identical(next_line(5), paste(name, "interrupted "))
    expect_lt(as.numeric(Sys.time() - sent, units = "secs"), 0.5)
  }
  expect_identical(next_line(), "other work: 7 FALSE FALSE f64 ")
  expect_identical(next_line(), "done")
})

test_that("a wait that was interrupted can be taken up again", {
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
  child$wait(20000)
  expect_identical(child$get_exit_status(), 0L)
})

test_that("a session whose user did not want to wait ends without waiting", {
  child <- start_child(quote({
    y <- pjrt_execute(compile(loop_program(Inf)), pjrt_scalar(1, "f64"))
    promise <- pjrt_compile_async(pjrt_program(chain_program(60000)))
    cat("waiting\n")
    await(y)
  }))
  withr::defer(child$kill())
  expect_identical(line_reader(child)(), "waiting")
  child$interrupt()
  child$wait(5000)
  # one that goes on could not be read to its end
  expect_false(child$is_alive())
  if (child$is_alive()) return()
  expect_identical(child$get_exit_status(), 1L)
  expect_identical(child$read_all_error(), "\nExecution halted\n")
})

test_that("a session can end although a program never does", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(Inf)), pjrt_scalar(1, "f64"))
    cat("leaving\n")
  }), timeout = 30)
  expect_clean(child, "leaving")
})
