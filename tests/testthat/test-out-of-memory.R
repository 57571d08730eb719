# Running out of memory on the device, on the host and in the plugin.
# Slow: starts many sessions and fills memory.

# Runs code in a session. limit_now() limits its address space to this many megabytes more than it uses at that time.
run_limited <- function(megabytes, code, env = character()) {
  program <- c(
    bquote(limit_now <- function() {
      # the stack cannot grow any more when the address space is full
      deepen <- function(n) if (n > 0) identity(deepen(n - 1))
      deepen(200)
      status <- readLines("/proc/self/status")
      used <- as.numeric(gsub("[^0-9]", "", grep("^VmSize", status, value = TRUE)))
      limit <- format((used + .(megabytes) * 1000) * 1024, scientific = FALSE)
      system2("prlimit", c("--pid", Sys.getpid(), paste0("--as=", limit)))
    }),
    code
  )
  run_child(as.call(c(quote(`{`), program)), env, timeout = 600)
}

too_large <- function() pjrt_program("
func.func @main(%x: tensor<f32>) -> (tensor<10000000x10000000xf32>, tensor<f32>) {
  %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<10000000x10000000xf32>
  return %y, %x : tensor<10000000x10000000xf32>, tensor<f32>
}")

# Expects an error with the requested size, the memory in use, and advice.
expect_exhausted <- function(object, asked) {
  error <- expect_refused(object, "resource_exhausted")
  expect_match(conditionMessage(error), paste0("Asked for ", asked), fixed = TRUE)
  expect_match(conditionMessage(error), "The cpu client has ")
  expect_match(conditionMessage(error), "pjrt_delete()", fixed = TRUE)
  invisible(error)
}

test_that("an array that does not fit in memory raises an error with its size and the memory in use", {
  gc()
  kept <- list(pjrt_empty("f32", c(1000, 2000)), pjrt_empty("f64", 500), pjrt_empty("i8", 10), pjrt_empty("i8", 11))
  lapply(kept, await)
  for (route in list(
    quote(pjrt_buffer(1, shape = c(1e7, 1e7))), quote(pjrt_empty("f32", c(1e7, 1e7))),
    quote(pjrt_buffer(1, shape = c(1e7, 1e7), check = TRUE))
  )) {
    error <- expect_exhausted(eval(route), "f32[10000000x10000000] (400.0 TB)")
    expect_match(
      conditionMessage(error), "buffers of 8.0 MB in all: f32[1000x2000] (8.0 MB), f64[500] (4.0 kB)", fixed = TRUE
    )
    expect_match(conditionMessage(error), "and [0-9]+ more")
  }
  expect_false(any(vapply(kept, is_deleted, NA)))
})

test_that("a result that does not fit in memory raises an error from any thread", {
  for (dispatch in c("inline", "auto", "thread")) {
    withr::local_options(pjrt.dispatch = dispatch, pjrt.cache = FALSE)
    executable <- pjrt_compile(too_large())
    x <- pjrt_scalar(3)
    before <- sum(pjrt_memory_stats()$clients$live_bytes)
    asked <- "the outputs of `main`, f32[10000000x10000000] (400.0 TB) and f32[] (4 bytes)"
    uses <- list(
      await = function(y) await(y), array = function(y) as_array(y), promise = function(y) value(as_array_async(y)),
      execute = function(y) as_array(pjrt_execute(compile(unary_program("f32")), y)),
      copy = function(y) await(copy_buffer(y, "cpu:1"))
    )
    for (use in uses) {
      error <- expect_exhausted(use(pjrt_execute(executable, x)[[2L]]), asked)
      expect_identical(error$code, 8L)
    }
    gc()
    # outputs that were never allocated are not counted
    expect_lt(sum(pjrt_memory_stats()$clients$live_bytes) - before, 1e6)
    expect_identical(as_array(x), 3)
  }
})

test_that("R collects garbage before an allocation fails, on other threads too", {
  skip_if_not(file.exists("/proc/self/status"), "this system does not tell")
  child <- run_limited(1200, quote({
    options(pjrt.dispatch = Sys.getenv("DISPATCH"), pjrt.staging_max = 0)
    gc()
    keep <- pjrt_empty("f64", 5e6)
    copy <- compile("func.func @main(%x: tensor<5000000xf64>) -> tensor<5000000xf64> {
      %0 = stablehlo.add %x, %x : tensor<5000000xf64>
      return %0 : tensor<5000000xf64>
    }")
    limit_now()
    # 80 MB in each
    rounds <- times(30, 60)
    for (i in seq_len(rounds)) {
      y <- pjrt_execute(copy, keep)
      z <- pjrt_buffer(as.double(i), "f64", shape = 5e6)
      if (i %% 3 == 0) stopifnot(as_array(y)[[1L]] == 0, as_array(z)[[2L]] == i)
    }
    cat(i == rounds, "\n")
  }), c(DISPATCH = "thread"))
  expect_clean(child, "TRUE ")
})

test_that("under a memory limit every operation works or raises an error, and the session survives", {
  skip_if(!nzchar(Sys.which("prlimit")), "this system has no prlimit")
  code <- quote({
    n <- 4e6
    options(pjrt.cache = FALSE)
    x <- await(pjrt_buffer(1, "f64", shape = n))
    add <- compile(unary_program("4000000xf64"))
    numbers <- as.double(seq_len(n))
    limit_now()
    kept <- list()
    uses <- list(
      upload = function() await(pjrt_buffer(1, "f64", shape = n)),
      vector = function() await(pjrt_buffer(numbers, "f64")),
      convert = function() await(pjrt_buffer(matrix(numbers, 1000), "f32")),
      raw = function() await(pjrt_buffer(raw(8 * n), dtype = "f64", shape = n, row_major = TRUE)),
      result = function() await(pjrt_execute(add, x)),
      array = function() as_array(x), bytes = function() as_raw(x), promise = function() value(as_array_async(x)),
      copy = function() await(copy_buffer(x, "cpu:0")),
      moved = function() await(copy_buffer(x, memory_spaces("cpu:0")[[2L]])),
      print = function() {
        sink(nullfile())
        on.exit(sink())
        print(x, max_rows = 1e5)
      },
      format = function() format_buffer(x), part = function() x[seq(1, n, by = 2)], list = function() x[sample(n / 2)],
      text = function() pjrt_program(strrep("a", 8 * n)),
      shown = function() format(pjrt_program(strrep("// \n", 2 * n)), n = Inf),
      hlo = function() pjrt_program(raw(4 * n), format = "hlo"),
      bytecode = function() pjrt_program(c(charToRaw("ML"), as.raw(0xef), charToRaw("R"), raw(4 * n))),
      executable = function() pjrt_deserialize(raw(4 * n)), serialize = function() pjrt_serialize(add),
      compile = function() compile(chain_program(300)),
      async = function() value(pjrt_compile_async(pjrt_program(chain_program(301)))),
      client = function() close(pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 2L)))
    )
    outcome <- function(use) {
      tryCatch({
        # results are kept, so that memory runs out
        kept[[length(kept) + 1L]] <<- use()
        "fine"
      }, pjrt_error_invalid_input = function(e) "fine", pjrt_error_serialized_invalid = function(e) "fine",
      pjrt_error = function(e) class(e)[[1L]], error = function(e) {
        if (grepl("allocate|memory|too long", conditionMessage(e))) "R's own" else paste(
          class(e)[[1L]], conditionMessage(e)
        )
      })
    }
    found <- vapply(uses, outcome, "")
    odd <- found[!found %in% c("fine", "pjrt_error_resource_exhausted", "R's own")]
    rm(kept, numbers)
    gc()
    cat("odd:", names(odd), odd, "\n")
    cat("exhausted:", any(found == "pjrt_error_resource_exhausted"), "\n")
    cat("alive:", as_array(pjrt_scalar(7)), sum(as_array(x)), "\n")
    # a session without memory may fail to exit, which is not tested here
    flush(stdout())
    tools::pskill(Sys.getpid(), 9L)
  })
  for (megabytes in times(c(20, 150), c(20, 60, 150, 400))) {
    child <- run_limited(megabytes, code)
    expect_identical(child$out, c("odd:   ", "exhausted: TRUE ", "alive: 7 4e+06 "), info = as.character(megabytes))
  }
})

test_that("a client or compile without enough memory raises an error", {
  skip_if(!nzchar(Sys.which("prlimit")), "this system has no prlimit")
  code <- quote({
    pjrt_plugin("cpu")
    class_of <- function(code) tryCatch({
      code
      "fine"
    }, error = function(e) class(e)[[1L]])
    limit_now()
    cat(class_of(pjrt_client("cpu")), class_of(compile(unary_program("f32"))), "\n")
    cat("alive\n")
    flush(stdout())
    tools::pskill(Sys.getpid(), 9L)
  })
  for (megabytes in times(c(5, 100, 400), c(5, 50, 100, 200, 400))) {
    child <- run_limited(megabytes, code)
    expect_identical(child$out[[2L]], "alive", info = megabytes)
    expect_match(child$out[[1L]], "pjrt_error_resource_exhausted $", info = megabytes)
  }
})
