# What the process does around the package: its environment, its end, forks and interrupts. All of it in children.

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
    cat(length(ls(pjrt:::the$clients)), length(ls(pjrt:::the$plugins)), Sys.getenv("TF_CPP_MIN_LOG_LEVEL"), "\n")
  }), c(TF_CPP_MIN_LOG_LEVEL = NA))
  expect_clean(child, "0 0 1 ")
  child <- run_child(quote(cat(Sys.getenv("TF_CPP_MIN_LOG_LEVEL"))), c(TF_CPP_MIN_LOG_LEVEL = "0"))
  expect_identical(child$out, "0")
})

test_that("a session ends well while programs and transfers are under way", {
  code <- quote({
    options(pjrt.dispatch = Sys.getenv("DISPATCH"))
    x <- pjrt_buffer(1, shape = c(500, 500))
    multiply <- compile("func.func @main(%x: tensor<500x500xf32>) -> tensor<500x500xf32> {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<500x500xf32>, tensor<500x500xf32>) -> tensor<500x500xf32>
      return %0 : tensor<500x500xf32>
    }")
    loop <- compile(loop_program(if (Sys.getenv("DISPATCH") == "inline") 10 else 1e7))
    y <- pjrt_execute(loop, pjrt_scalar(1, "f64"))
    z <- pjrt_execute(loop, y)
    products <- lapply(1:10, function(i) pjrt_execute(multiply, x))
    promises <- lapply(products, as_array_async)
    promise <- as_array_async(z)
    invisible(pjrt_buffer(1, shape = 1e6))
    copies <- lapply(products, copy_buffer, device = "cpu:1")
    rm(y)
    cat("leaving\n")
    if (Sys.getenv("QUIT") == "yes") quit("no")
  })
  for (dispatch in c("auto", "auto", "thread", "inline")) {
    for (quit in c("yes", "no")) {
      expect_clean(run_child(code, c(DISPATCH = dispatch, QUIT = quit, PJRT_CPU_DEVICE_COUNT = "2")), "leaving")
    }
  }
})

test_that("a session that fails while programs run has R's own exit status", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(1e7)), pjrt_scalar(1, "f64"))
    stop("for a reason")
  }))
  expect_identical(child$status, 1L)
  expect_identical(child$err, c("Error: for a reason", "Execution halted"))
})

test_that("children that leave pjrt alone are as if it were not there", {
  child <- run_child(quote({
    x <- pjrt_buffer(1:3)
    y <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
    squares <- parallel::mclapply(1:4, function(i) { gc(); i^2 }, mc.cores = 2)
    cat(unlist(squares), as_array(x), as_array(y), "\n")
  }))
  expect_clean(child, "1 4 9 16 1 2 3 2 ")
})

test_that("children that use the parent's objects get an error at once, and the parent stays healthy", {
  child <- run_child(quote({
    x <- pjrt_buffer(c(1, 2))
    y <- pjrt_execute(compile(unary_program("2xf32")), x)
    double <- compile(unary_program("2xf32"))
    promise <- as_array_async(x)
    kind <- function(f) tryCatch({ f(); "nothing" }, error = function(e) class(e)[[1L]])
    uses <- list(
      as_array = function() as_array(x), await = function() await(y), is_ready = function() is_ready(x),
      execute = function() pjrt_execute(double, x), create = function() pjrt_buffer(1),
      scalar = function() pjrt_scalar(1L), compile = function() compile(unary_program("f32")),
      print = function() print(x), promise = function() as_array_async(x),
      value = function() value(promise), copy = function() copy_buffer(x, "cpu:1"), raw = function() as_raw(x, TRUE),
      format = function() format_buffer(x), empty = function() pjrt_empty("f32", 2),
      summary = function() summary(double), optimized = function() optimized_program(double),
      inspect = function() inspect_hlo(pjrt_program(unary_program("f32")))
    )
    began <- Sys.time()
    kinds <- parallel::mclapply(uses, kind, mc.cores = 2)
    took <- as.numeric(Sys.time() - began, units = "secs")
    wrong <- kinds[kinds != "pjrt_error_forked"]
    cat("wrong:", paste(names(wrong), unlist(wrong)), "\n")
    cat("quick:", took < 10, "\n")
    cat("parent:", as_array(pjrt_execute(double, y)), value(promise), as_array(pjrt_scalar(5)), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "2"))
  expect_clean(child, c("wrong:  ", "quick: TRUE ", "parent: 4 8 1 2 5 "))
})

test_that("a child can say what a buffer is, and how to go on", {
  child <- run_child(quote({
    x <- pjrt_buffer(c(1, 2))
    told <- parallel::mclapply(1:2, function(i) {
      list(shape(x), as.character(elt_type(x)), conditionMessage(tryCatch(as_array(x), error = identity)))
    }, mc.cores = 2)
    cat(told[[1L]][[1L]], told[[1L]][[2L]], "\n")
    cat(told[[2L]][[3L]], "\n")
  }))
  expect_clean(child)
  expect_identical(child$out[[1L]], "2 f32 ")
  expect_match(child$out, "PSOCK", fixed = TRUE, all = FALSE)
})

test_that("children of a parent that has no client can have their own", {
  child <- run_child(quote({
    sums <- parallel::mclapply(1:2, function(i) {
      as_array(pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(i, 10))))
    }, mc.cores = 2)
    cat(unlist(sums), "\n")
  }))
  expect_clean(child, "2 20 4 20 ")
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
    cat("waiting\n")
    tryCatch(await(y), interrupt = function(e) cat("interrupted\n"))
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

test_that("Ctrl-C at the prompt of an interactive session gives the prompt back", {
  terminal <- tryCatch(
    processx::process$new(
      file.path(R.home("bin"), "R"), c("--interactive", "--quiet", "--vanilla", "--no-readline"), pty = TRUE
    ),
    error = function(e) skip("this system gives no pseudo-terminal")
  )
  withr::defer(terminal$kill())
  shown <- ""
  see <- function(pattern, timeout = 20) {
    end <- Sys.time() + timeout
    while (!grepl(pattern, shown) && Sys.time() < end && terminal$is_alive()) {
      terminal$poll_io(50)
      shown <<- paste0(shown, terminal$read_output())
    }
    grepl(pattern, shown)
  }
  type <- function(line) terminal$write_input(paste0(line, "\n"))
  type("library(pjrt)")
  type(sprintf("source('%s')", normalizePath(test_path("helper-programs.R"))))
  type("y <- pjrt_execute(compile(loop_program(Inf)), pjrt_scalar(1, 'f64'))")
  type("cat('go', 'ing\\n', sep = ''); await(y); cat('not', 'reached\\n')")
  expect_true(see("going"))
  Sys.sleep(0.2)
  terminal$write_input("\003")
  type("cat('alive', as_array(pjrt_scalar(6 * 7)), is_ready(y), '\\n')")
  expect_true(see("alive 42 FALSE"), info = shown)
  expect_false(grepl("not reached", shown))
  expect_false(grepl("Error", shown), info = shown)
})

test_that("a session can end although a program never does", {
  child <- run_child(quote({
    y <- pjrt_execute(compile(loop_program(Inf)), pjrt_scalar(1, "f64"))
    cat("leaving\n")
  }), timeout = 30)
  expect_clean(child, "leaving")
})
