# Compiling in the background: pjrt_compile_async() and its promises.
# Slow: waits for long compiles.

compile_async <- function(text, ...) pjrt_compile_async(pjrt_program(text), ...)

# x + i
plus_program <- function(i) {
  sprintf("func.func @main(%%x: tensor<f32>) -> tensor<f32> {
    %%0 = stablehlo.constant dense<%d.0> : tensor<f32>
    %%1 = stablehlo.add %%x, %%0 : tensor<f32>
    return %%1 : tensor<f32>
  }", i)
}

one <- function(executable) as_array(pjrt_execute(executable, pjrt_scalar(1)))

test_that("concurrent compiles each return their own executable, in any order", {
  promises <- lapply(1:8, function(i) compile_async(plus_program(i)))
  other <- one(compile(plus_program(100L)))
  for (i in rev(1:8)) expect_identical(one(value(promises[[i]])), 1 + i)
  expect_identical(other, 101)
})

test_that("a promise always returns the same executable object", {
  promise <- compile_async(unary_program("f32"))
  expect_identical(class(promise), "PJRTExecutablePromise")
  executable <- value(promise)
  expect_identical(class(executable), "PJRTLoadedExecutable")
  expect_identical(value(promise), executable)
  expect_identical(is_ready(promise), TRUE)
  expect_invisible(await(promise))
  expect_identical(await(promise), promise)
  expect_identical(one(executable), 2)
})

test_that("is_ready() on a promise returns at once, and programs run while others compile", {
  double <- compile(unary_program("f32"))
  loop <- compile(loop_program(1e6))
  promise <- compile_async(chain_program(10000))
  expect_identical(is_ready(promise), FALSE)
  expect_identical(format(promise), "<PJRTExecutablePromise: compiling>")
  results <- vapply(1:50, function(i) one(double), 0)
  looped <- as_array(pjrt_execute(loop, pjrt_scalar(1, "f64")))
  expect_false(is_ready(promise))
  expect_identical(results, rep(2, 50))
  expect_identical(looped, 2)
  await(promise)
  expect_identical(is_ready(promise), TRUE)
  expect_output(expect_invisible(print(promise)), "^<PJRTExecutablePromise: ready>$")
})

test_that("a compiler error is raised each time the executable is requested", {
  text <- "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.oops %x\n}"
  said <- expect_error(compile(text), class = "pjrt_error")
  promise <- compile_async(text)
  for (i in 1:3) {
    error <- expect_error(value(promise), class = class(said)[[1L]])
    expect_identical(conditionMessage(error), conditionMessage(said))
    expect_identical(error[c("code", "call_name", "platform")], said[c("code", "call_name", "platform")])
    expect_identical(conditionCall(error), quote(value(promise)))
  }
  expect_error(await(promise), "stablehlo.oops", class = class(said)[[1L]])
  expect_identical(is_ready(promise), TRUE)
  expect_identical(format(promise), "<PJRTExecutablePromise: failed>")
  expect_identical(one(compile(unary_program("f32"))), 2)
})

test_that("errors in the arguments are raised at once", {
  program <- pjrt_program(unary_program("f32"))
  error <- expect_refused(pjrt_compile_async("program"), "invalid_input", "`program` must be a `PJRTProgram`")
  expect_identical(conditionCall(error), quote(pjrt_compile_async("program")))
  expect_refused(pjrt_compile_async(program, 1), "invalid_input", "`compile_options` must be a `PJRTCompileOptions`")
  expect_refused(pjrt_compile_async(program, device = "cpu:5"), "invalid_input", "out of range")
  expect_refused(
    pjrt_compile_async(program, device = "cpu", devices = "cpu"), "invalid_input", "Only one of `device` and `devices`"
  )
  expect_refused(pjrt_compile_async(program, devices = c("cpu:0", "cpu:1")), "invalid_input")
  expect_refused(pjrt_compile_async(program, new_compile_options(new_build_options(0L))), "invalid_input")
  withr::local_options(pjrt.dispatch = "later")
  expect_refused(pjrt_compile_async(program), "invalid_input", "pjrt.dispatch")
})

test_that("a background compile uses the options and devices of its call", {
  withr::local_options(pjrt.dispatch = "inline")
  promise <- compile_async(unary_program("2xf32"), device = "cpu:1")
  options(pjrt.dispatch = "nonsense")
  expect_identical(device(value(promise)), pjrt_device("cpu:1"))
  options(pjrt.dispatch = "auto")
  both <- compile_async(
    all_reduce_program("2xf32", 2L), pjrt_compile_options(num_replicas = 2L), devices = c("cpu:1", "cpu:0")
  )
  expect_identical(devices(value(both)), devices()[2:1])
})

test_that("a promise does not keep its program or options alive", {
  program <- pjrt_program(chain_program(2000))
  options <- pjrt_compile_options(optimization_level = 0)
  promise <- pjrt_compile_async(program, options)
  rm(program, options)
  gc()
  expect_identical(as_array(pjrt_execute(value(promise), pjrt_scalar(0))), 0)
})

test_that("dropping promises of executables is safe", {
  for (i in 1:20) {
    compile_async(plus_program(i))
    compile_async("nonsense")
    if (i %% 5 == 0) gc()
  }
  expect_identical(one(value(compile_async(plus_program(41)))), 42)
})

test_that("a promise restored from a file raises an error", {
  promise <- unserialize(serialize(compile_async(unary_program("f32")), NULL))
  for (use in list(value, await, is_ready)) {
    expect_refused(use(promise), "invalid_pointer", "`x` is a null pointer: a `PJRTExecutablePromise`")
  }
})

test_that("Ctrl-C ends a wait for the compiler and leaves everything usable", {
  child <- start_child(quote({
    long <- pjrt_program(chain_program(15000))
    double <- pjrt_program(unary_program("f32"))
    promise <- pjrt_compile_async(pjrt_program(chain_program(12000)))
    waits <- list(
      compile = function() pjrt_compile(long), value = function() value(promise), await = function() await(promise)
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
    cat("meanwhile:", is_ready(promise), as_array(pjrt_execute(pjrt_compile(double), pjrt_scalar(21))), "\n")
    cat("later:", class(value(promise)), is_ready(promise), as_array(pjrt_scalar(7)), "\n")
  }))
  withr::defer(child$kill())
  next_line <- line_reader(child)
  for (name in c("compile", "value", "await")) {
    expect_identical(next_line(), "waiting")
    Sys.sleep(0.1)
    child$interrupt()
    # before the compiler is done: the promise is not ready below
    expect_identical(next_line(), paste(name, "interrupted "))
  }
  expect_identical(next_line(), "meanwhile: FALSE 42 ")
  expect_identical(next_line(120), "later: PJRTLoadedExecutable TRUE 7 ")
  child$wait(60000)
  expect_identical(child$get_exit_status(), 0L)
  # R prints a newline when it is interrupted
  expect_identical(paste(child$read_all_error_lines(), collapse = ""), "")
})

test_that("a session that fails during a compile exits with R's own status", {
  child <- run_child(quote({
    promise <- pjrt_compile_async(pjrt_program(chain_program(2000)))
    stop("for a reason")
  }))
  expect_identical(child$status, 1L)
  expect_identical(child$err, c("Error: for a reason", "Execution halted"))
})

test_that("pending compiles delay the end of a session only briefly and keep its exit status", {
  took <- system.time(child <- run_child(quote({
    program <- pjrt_program(chain_program(20000))
    promises <- lapply(1:20, function(i) pjrt_compile_async(program))
    cat("leaving\n")
    quit("no", status = 3)
  })))[["elapsed"]]
  expect_identical(child, list(status = 3L, out = "leaving", err = character()))
  expect_lt(took, 30)
})

test_that("forked children do not affect the parent's compile promises", {
  child <- run_child(quote({
    promise <- pjrt_compile_async(pjrt_program(chain_program(5000)))
    done <- pjrt_compile_async(pjrt_program(unary_program("f32")))
    await(done)
    again <- pjrt_program(unary_program("f32"))
    kind <- function(f) tryCatch({
      f()
      "nothing"
    }, error = function(e) class(e)[[1L]])
    squares <- parallel::mclapply(1:2, function(i) {
      gc()
      i^2
    }, mc.cores = 2)
    kinds <- parallel::mclapply(list(
      function() value(promise), function() is_ready(promise), function() await(promise),
      function() pjrt_compile_async(again), function() pjrt_compile(again),
      function() pjrt_execute(value(done), pjrt_scalar(1))
    ), kind, mc.cores = 2)
    cat(unlist(squares), unique(unlist(kinds)), "\n")
    cat(class(value(promise)), as_array(pjrt_execute(value(done), pjrt_scalar(4))), "\n")
  }))
  expect_clean(child, c("1 4 pjrt_error_forked ", "PJRTLoadedExecutable 8 "))
})
