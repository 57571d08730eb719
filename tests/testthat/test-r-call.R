# Slow: starts many sessions.

on_four <- function(executable) pjrt_execute(executable, pjrt_buffer(c(1, 2, 3, 4)))

test_that("a program calls an R function with arrays, and its value is the result", {
  seen <- NULL
  local_r_call("r_plain", function(x) {
    seen <<- x
    x * 2
  })
  program <- compile(calling_program("r_plain"))
  expect_identical(run_on_four(program), c(2, 4, 6, 8))
  expect_identical(seen, as_array(pjrt_buffer(c(1, 2, 3, 4))))
  # on another device
  there <- compile(calling_program("r_plain"), device = "cpu:1")
  expect_identical(as.vector(as_array(pjrt_execute(there, pjrt_buffer(1:4, "f32", device = "cpu:1")))), c(2, 4, 6, 8))
})

test_that("arguments and results have R's order of elements", {
  seen <- NULL
  local_r_call("r_order", function(x) {
    seen <<- x
    t(x)
  })
  program <- compile('func.func @main(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf64>) -> tensor<3x2xf64>
    %y = stablehlo.custom_call @r_order(%t) {api_version = 4 : i32} : (tensor<3x2xf64>) -> tensor<2x3xf64>
    return %y : tensor<2x3xf64>
  }')
  x <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  expect_identical(as_array(pjrt_execute(program, pjrt_buffer(x, "f64"))), x)
  expect_identical(seen, t(x))
  x <- array(1:24, c(2, 3, 4))
  local_r_call("r_rank_3", function(x) {
    seen <<- x
    x
  })
  program <- compile(calling_program("r_rank_3", type = "2x3x4xi32"))
  expect_identical(as_array(pjrt_execute(program, pjrt_buffer(x, "i32"))), x)
  expect_identical(seen, x)
})

test_that("arrays of another layout are refused when the program is compiled", {
  local_r_call("r_layout", identity)
  column <- "[dense<[0, 1]> : tensor<2xindex>]"
  text <- calling_program("r_layout", type = "2x3xf32")
  text <- sub("api_version", sprintf("operand_layouts = %s, result_layouts = %s, api_version", column, column), text)
  refused <- function(code) {
    expect_refused(code, "layout_mismatch", "calls 'r_layout' with arrays that are not row-major")
  }
  refused(compile(text))
  # also if the program was compiled with another handler
  pjrt_unregister_custom_call("r_layout")
  local_handler("r_layout")
  program <- compile(text)
  several <- compile(text, compile_options = pjrt_compile_options(num_replicas = 2L))
  x <- pjrt_buffer(matrix(as.numeric(1:6), 2))
  run <- function(program) as_array(pjrt_execute(program, x))
  run_several <- function() {
    there <- pjrt_buffer(as_array(x), device = "cpu:1")
    as_array(pjrt_execute_sharded(several, list(list(x), list(there)))[[2L]])
  }
  expect_identical(run(program), as_array(x))
  expect_identical(run_several(), as_array(x))
  saved <- pjrt_serialize(program)
  pjrt_unregister_custom_call("r_layout")
  pjrt_register_r_call("r_layout", identity)
  refused(run(program))
  refused(run_several())
  refused(pjrt_deserialize(saved))
})

test_that("all element types reach R and return as they are read from buffers", {
  local_r_call("r_types", identity)
  local_r_call("r_types_of_buffers", identity, as = "buffer")
  third <- c(
    i8 = -3, i16 = -300, i32 = -7e4, i64 = -7e4, ui8 = 200, ui16 = 6e4, ui32 = 7e4, ui64 = 7e4, i4 = -8, i2 = 1,
    ui4 = 15,
    ui2 = 3, f32 = 0.25, bf16 = 2, f16 = 3, f8e5m2 = 2, f8e4m3fn = 2, f4e2m1fn = 1.5
  )
  values <- c(
    list(pred = c(TRUE, FALSE, TRUE), c64 = c(1+2i, -1i, 0), c128 = c(1+2i, -1i, 0), f64 = c(pi, NA, -Inf)),
    lapply(third, function(x) c(0, 1, x))
  )
  mlir <- c(
    pred = "i1", c64 = "complex<f32>", c128 = "complex<f64>", f8e5m2 = "f8E5M2", f8e4m3fn = "f8E4M3FN",
    f4e2m1fn = "f4E2M1FN"
  )
  for (dtype in names(values)) {
    x <- pjrt_buffer(values[[dtype]], dtype)
    name <- if (dtype %in% names(mlir)) mlir[[dtype]] else dtype
    for (target in c("r_types", "r_types_of_buffers")) {
      y <- pjrt_execute(compile(calling_program(target, type = paste0("3x", name))), x)
      expect_bits(as_array(y), as_array(x))
    }
  }
  # empty arrays and large ones
  for (n in c(0, 1e6)) {
    x <- pjrt_buffer(seq_len(n), "f32", shape = n)
    expect_identical(
      as_array(pjrt_execute(compile(calling_program("r_types", type = sprintf("%.0fxf32", n))), x)), as_array(x)
    )
  }
})

test_that("a function gets the attributes as a list if it asks for them", {
  seen <- NULL
  local_r_call("r_attributes", function(x, attributes) {
    seen <<- attributes
    x
  })
  run <- function(attributes) run_on_four(compile(calling_program("r_attributes", attributes)))
  run(paste(
    'z = 1 : i64, a = "text", b = true, c = 2.5 : f64, d = array<i64: 1, -2>,',
    'e = dense<[1.0, 2.0]> : tensor<2xf32>, f = 9007199254740993 : i64'
  ))
  expect_identical(seen, list(
    a = "text", b = TRUE, c = 2.5, d = c(1, -2), e = c(1, 2), f = "9007199254740993", z = 1L
  ))
  run("")
  expect_identical(seen, structure(list(), names = character()))
  # R's vectors hold neither as they are
  run("big = array<i64: 9007199254740993, -1>, least = array<i32: -2147483648, 1>, none = array<i32>")
  expect_identical(seen, list(big = c("9007199254740993", "-1"), least = c(-2147483648, 1), none = integer()))
  # among the dots, it gets arguments only
  local_r_call("r_attributes", function(...) {
    seen <<- names(list(...))
    ..1
  })
  run("a = 1 : i32")
  expect_null(seen)
})

test_that("arguments can be buffers, which stay valid after the call", {
  kept <- NULL
  local_r_call("r_buffer", function(x) {
    kept <<- x
    x
  }, as = "buffer")
  for (device in c("cpu:0", "cpu:1")) {
    program <- compile(calling_program("r_buffer", type = "5000xf32"), device = device)
    await(pjrt_execute(program, pjrt_buffer(1:5000, "f32", device = device)))
    expect_s3_class(kept, "PJRTBuffer")
    expect_identical(device(kept), pjrt_device(device))
    gc()
    expect_identical(as.vector(as_array(kept)), as.double(1:5000))
  }
})

test_that("calls with several results and without results work", {
  log <- character()
  local_r_call("r_several", function(x) list(sum = sum(x), halves = x / 2))
  local_r_call("r_none", function(x) {
    log <<- c(log, paste(x, collapse = " "))
    "ignored"
  })
  program <- compile('func.func @main(%x: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>) {
    %s:2 = stablehlo.custom_call @r_several(%x) {api_version = 4 : i32} : (tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>)
    stablehlo.custom_call @r_none(%s#1) {api_version = 4 : i32, has_side_effect = true} : (tensor<2xf32>) -> ()
    return %s#0, %s#1 : tensor<f32>, tensor<2xf32>
  }')
  out <- pjrt_execute(program, pjrt_buffer(c(1, 5)))
  expect_identical(lapply(out, as_array), list(6, as_array(pjrt_buffer(c(0.5, 2.5)))))
  expect_identical(log, "0.5 2.5")
})

test_that("results are checked against the types of the program", {
  result <- NULL
  local_r_call("r_checked", function(x) result)
  program <- compile(calling_program("r_checked"))
  refused <- function(value, message) {
    result <<- value
    error <- expect_refused(run_on_four(program), "r_call", message)
    expect_null(error$parent)
  }
  refused(1:3, "r_checked: The result must be f32[4], but the function returned an integer vector of length 3.")
  refused(matrix(1:4, 2), "returned an integer vector of length 4 with dimensions (2, 2).")
  refused(NULL, "but the function returned NULL.")
  refused("a", "but the function returned \"a\".")
  refused(list(1, 2), "but the function returned a list of length 2.")
  refused(factor(1:4), "but the function returned an object of class <factor>.")
  refused(1:4 + 0i, "but the function returned a complex vector of length 4.")
  refused(pjrt_buffer(1:4), "must be f32[4], but the function returned a buffer of i32[4].")
  refused(pjrt_buffer(c(1, 2)), "must be f32[4], but the function returned a buffer of f32[2].")
  result <- list(c(TRUE, FALSE, TRUE, TRUE))
  expect_identical(run_on_four(program), c(1, 0, 1, 1))
  result <- pjrt_buffer(c(4, 3, 2, 1))
  expect_identical(run_on_four(program), c(4, 3, 2, 1))
  result <- 1:4
  expect_identical(run_on_four(program), c(1, 2, 3, 4))

  local_r_call("r_checked_2", function(x) result)
  program <- compile('func.func @main(%x: tensor<4xf32>) -> tensor<2xi32> {
    %s:2 = stablehlo.custom_call @r_checked_2(%x) {api_version = 4 : i32} : (tensor<4xf32>) -> (tensor<f32>, tensor<2xi32>)
    return %s#1 : tensor<2xi32>
  }')
  refused(1, "r_checked_2: The function must return a list of 2 results, not 1.")
  refused(
    list(1, c("a", "b")),
    "r_checked_2: Result 2 must be i32[2], but the function returned a character vector of length 2."
  )
  refused(list(1:2, 1:2), "r_checked_2: Result 1 must be f32[], but")
  result <- list(1, c(NA, 2L))
  expect_na_warning(run_on_four(program), "i32", 1, 1)
  withr::local_options(pjrt.check = TRUE)
  refused(list(1, c(NA, 2L)), "has 1 NA value")
})

test_that("results can be the objects that pjrt_buffer() takes as arrays of numbers", {
  result <- NULL
  local_r_call("r_objects", function() result)
  run <- function(type) {
    as_array(pjrt_execute(compile(sprintf('func.func @main() -> %s {
      %%y = stablehlo.custom_call @r_objects() {api_version = 4 : i32, has_side_effect = true} : () -> %s
      return %%y : %s
    }', type, type, type))))
  }
  for (value in list(ts(1:3), table(c("a", "b", "b", "c", "c", "c")), I(c(1, 2, 3)))) {
    result <- value
    expect_identical(c(run("tensor<3xf32>")), c(1, 2, 3))
    result <- list(value)
    expect_identical(c(run("tensor<3xf32>")), c(1, 2, 3))
  }
  result <- data.frame(a = 1:2, b = 3:4)
  expect_identical(run("tensor<2x2xf32>"), matrix(c(1, 2, 3, 4), 2))
  for (value in list(factor(1:3), Sys.Date() + 1:3, as.raw(1:3), structure(1:3, class = "other"))) {
    result <- value
    expect_refused(run("tensor<3xf32>"), "r_call", "must be f32[3], but the function returned")
  }
})

test_that("an error of R is the parent of the execution's error", {
  local_r_call("r_fails", function(x) stop(structure(
    class = c("mine", "error", "condition"), list(message = "no \u00e9 [callback x]", call = NULL, data = 7)
  )))
  program <- compile(calling_program("r_fails"))
  y <- on_four(program)
  for (read in list(await, as_array, value, print)) {
    error <- expect_refused(read(y), "r_call", "r_fails: no \u00e9 [callback x]\ni The error's `parent` is")
    expect_identical(
      class(error), paste0(c("pjrt_error_r_call", "pjrt_error_internal", "pjrt_error", "error", "condition"))
    )
    expect_s3_class(error$parent, "mine")
    expect_identical(error$parent$data, 7)
  }
  # also where a later program fails because of it
  double <- compile(unary_program("4xf32"))
  error <- expect_refused(await(pjrt_execute(double, on_four(program))), "r_call", "r_fails: no")
  expect_identical(error$parent$data, 7)
  # the next execution works
  local_r_call("r_fails", identity)
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  # only the newest conditions are kept
  local_r_call("r_fails", function(x) stop("again"))
  for (i in 1:120) try(await(on_four(program)), silent = TRUE)
  expect_length(pjrt:::the$r_call_errors$kept, 100L)
})

test_that("warnings, messages and output of a function are R's", {
  local_r_call("r_talks", function(x) {
    cat("output\n")
    x
  })
  program <- compile(calling_program("r_talks"))
  expect_identical(utils::capture.output(run_on_four(program)), c("output", "[1] 1 2 3 4"))
  # a jump to the prompt ends the wait; the call waits
  calls <- 0
  local_r_call("r_talks", function(x) {
    calls <<- calls + 1
    if (calls == 1) invokeRestart("abort")
    x
  })
  y <- on_four(program)
  expect_identical(tryCatch(await(y), interrupt = function(e) "interrupted"), "interrupted")
  expect_identical(as.vector(as_array(y)), c(1, 2, 3, 4))
  expect_identical(calls, 2)
})

test_that("functions run while R waits and polls, not before", {
  calls <- 0
  local_r_call("r_when", function(x) {
    calls <<- calls + 1
    x
  })
  for (dispatch in c("auto", "inline", "thread")) {
    withr::local_options(pjrt.dispatch = dispatch)
    program <- compile(calling_program("r_when"))
    before <- calls
    y <- on_four(program)
    busy_until <- Sys.time() + 0.2
    while (Sys.time() < busy_until) NULL
    expect_identical(calls, before)
    while (!is_ready(y)) NULL
    expect_identical(calls, before + 1)
    y <- on_four(program)
    await(y)
    expect_identical(calls, before + 2)
    promise <- as_array_async(on_four(program))
    while (!is_ready(promise)) NULL
    expect_identical(as.vector(value(promise)), c(1, 2, 3, 4))
    expect_identical(calls, before + 3)
    # a wait for something else
    y <- on_four(program)
    compiled <- pjrt_compile_async(pjrt_program(chain_program(300)))
    while (!is_ready(compiled)) NULL
    expect_identical(calls, before + 4)
    await(y)
  }
})

test_that("functions run while R sleeps", {
  skip_on_os("windows")
  calls <- 0
  local_r_call("r_idle", function(x) {
    calls <<- calls + 1
    x
  })
  y <- on_four(compile(calling_program("r_idle")))
  end <- Sys.time() + 120
  while (calls == 0 && Sys.time() < end) Sys.sleep(0.05)
  expect_identical(calls, 1)
  # many steps, with no other wait
  local_r_call("r_idle_step", function(i) {
    calls <<- i
    i + 1L
  })
  y <- pjrt_execute(compile(stepping_program("r_idle_step")), pjrt_scalar(500L))
  while (calls < 499 && Sys.time() < end) Sys.sleep(0.05)
  expect_equal(calls, 499, ignore_attr = TRUE)
  expect_identical(as_array(y), 500L)
})

test_that("functions run at R's prompt, where Ctrl-C suspends them until R waits", {
  terminal <- local_waiting_terminal()
  terminal$type("pjrt_register_r_call('tell', function(x) { cat('<told ', x[1], '>\\n', sep = ''); x })")
  file <- withr::local_tempfile(lines = c(calling_program("tell")))
  steps <- withr::local_tempfile(lines = stepping_program("step"))
  terminal$type(sprintf("told <- pjrt_compile(pjrt_program(path = '%s'))", file))
  terminal$type("y <- pjrt_execute(told, pjrt_buffer(c(7, 2, 3, 4)))")
  expect_shows(terminal, "<told 7>")
  terminal$type("for (i in 1:500) if (!is_ready(y)) Sys.sleep(0.01); cat('ready', is_ready(y), '\\n')")
  expect_shows(terminal, "ready TRUE")
  # an interrupt in the function ends the wait; the call runs again in the next one
  terminal$type(
    "pjrt_register_r_call('step', function(i) { cat('<in ', i, '>\\n', sep = ''); if (slow) Sys.sleep(60); i + 1L })"
  )
  terminal$type(sprintf("stepping <- pjrt_compile(pjrt_program(path = '%s'))", steps))
  terminal$type("slow <- TRUE; y <- pjrt_execute(stepping, pjrt_scalar(3L)); await(y); cat('not reached\\n')")
  expect_shows(terminal, "<in 0>")
  Sys.sleep(0.5)
  terminal$interrupt()
  expect_shows(terminal, "ready> ")
  terminal$type("slow <- FALSE; Sys.sleep(0.5); cat('still', 'here\\n')")
  expect_shows(terminal, "still here")
  expect_false(grepl("<in 1>", terminal$shown(), fixed = TRUE))
  terminal$type("cat('value', as_array(y), '\\n')")
  expect_shows(terminal, "<in 0>\\s+<in 1>\\s+<in 2>\\s+value 3")
  # an endless program is stopped by removing its function
  terminal$type("pjrt_register_r_call('step', function(i) i)")
  terminal$type(
    "y <- pjrt_execute(stepping, pjrt_scalar(3L)); cat('begin', 'ning\\n'); await(y); cat('not reached\\n')"
  )
  expect_shows(terminal, "begin ning")
  Sys.sleep(1)
  terminal$interrupt()
  expect_shows(terminal, "ready> ")
  terminal$type("pjrt_unregister_custom_call('step'); cat(class(tryCatch(await(y), error = identity))[1], '\\n')")
  expect_shows(terminal, "pjrt_error_not_found")
})

test_that("loops call functions at each step, and can stop early", {
  steps <- integer()
  local_r_call("r_step", function(i) {
    steps <<- c(steps, i)
    if (i == 6) 1000L else i + 1L
  })
  expect_identical(step_to(compile(stepping_program("r_step")), 1000L), 1000L)
  expect_identical(steps, 0:6)
})

test_that("an error in a loop ends the program", {
  local_r_call("r_step", function(i) if (i == 3) stop("at three") else i + 1L)
  expect_refused(step_to(compile(stepping_program("r_step")), 1000L), "r_call", "r_step: at three")
})

test_that("programs on several devices call functions for each device", {
  devices <- character()
  local_r_call("r_each", function(x) {
    devices <<- c(devices, format(device(x)))
    pjrt_buffer(10 * as_array(x), device = device(x))
  }, as = "buffer")
  both <- compile(summing_program("r_each"), pjrt_compile_options(num_replicas = 2L), devices = devices("cpu")[1:2])
  xs <- list(pjrt_buffer(1:4, "f32", device = "cpu:0"), pjrt_buffer(5:8, "f32", device = "cpu:1"))
  for (i in 1:20) {
    out <- pjrt_execute_sharded(both, xs)
    expect_identical(lapply(out, function(y) as.vector(as_array(y))), rep(list(10 * (1:4 + 5:8)), 2L))
  }
  expect_identical(as.vector(table(devices)), c(20L, 20L))
})

test_that("an error on one of several devices is the execution's error, and no device waits for it", {
  local_r_call("r_one_fails", function(x) if (x[1] > 4) stop("only here") else x)
  both <- compile(
    summing_program("r_one_fails"), pjrt_compile_options(num_replicas = 2L), devices = devices("cpu")[1:2]
  )
  good <- list(pjrt_buffer(1:4, "f32", device = "cpu:0"), pjrt_buffer(1:4, "f32", device = "cpu:1"))
  bad <- list(good[[1L]], pjrt_buffer(5:8, "f32", device = "cpu:1"))
  out <- pjrt_execute_sharded(both, bad)
  for (y in out) {
    error <- expect_refused(await(y), "r_call", "r_one_fails: only here")
    expect_identical(conditionMessage(error$parent), "only here")
  }
  expect_identical(as.vector(as_array(pjrt_execute_sharded(both, good)[[1L]])), c(2, 4, 6, 8))
})

test_that("a function can execute programs, also some that call R", {
  double <- compile(unary_program("4xf32"))
  local_r_call("r_inner", function(x) x + 1)
  inner <- compile(calling_program("r_inner"))
  local_r_call("r_outer", function(x) {
    y <- pjrt_execute(inner, pjrt_execute(double, x))
    z <- pjrt_buffer(as.vector(as_array(y)) * 10)
    pjrt_delete(y)
    z
  }, as = "buffer")
  outer <- compile(calling_program("r_outer"))
  expected <- 10 * (as.vector(as_array(on_four(double))) + 1)
  expect_identical(run_on_four(outer), expected)
  # deeper, with launches that nobody waits for, and a compilation
  local_r_call("r_deeper", function(x) {
    for (i in 1:3) pjrt_execute(outer, x)
    y <- pjrt_execute(outer, x)
    pjrt_execute(compile(unary_program("4xf32")), y)
    y
  }, as = "buffer")
  deeper <- compile(calling_program("r_deeper"))
  for (i in 1:3) expect_identical(run_on_four(deeper), expected)
  # a long program, which goes through a thread
  long <- compile(loop_program(1000))
  local_r_call("r_long", function(x) x + as_array(pjrt_execute(long, pjrt_scalar(0, "f64"))))
  expect_identical(
    run_on_four(compile(calling_program("r_long"))), 1:4 + as_array(pjrt_execute(long, pjrt_scalar(0, "f64")))
  )
})

test_that("a donation in a function leaves what waiting programs need", {
  donating <- compile('func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }')
  x <- pjrt_buffer(c(1, 2, 3, 4))
  local_r_call("r_donates", function(y) as.vector(as_array(pjrt_execute(donating, x))))
  local_r_call("r_waits", identity)
  programs <- lapply(c("r_donates", "r_waits"), function(target) compile(calling_program(target)))
  first <- pjrt_execute(programs[[1L]], x)
  # waits behind the first, and needs x
  second <- pjrt_execute(programs[[2L]], x)
  expect_identical(as.vector(as_array(first)), c(2, 4, 6, 8))
  expect_identical(as.vector(as_array(second)), c(1, 2, 3, 4))
  expect_true(is_deleted(x))
})

test_that("a function that waits for the program that calls it gets an error", {
  double <- compile(unary_program("4xf32"))
  waits <- list(
    function(x) as_array(out),
    function(x) as_array(pjrt_execute(double, out)),
    function(x) value(as_array_async(out)),
    function(x) as_array(later),
    function(x) as_array(copy_buffer(out, "cpu:1"))
  )
  for (wait in waits) {
    local_r_call("r_selfish", wait)
    program <- compile(calling_program("r_selfish"))
    out <- on_four(program)
    later <- pjrt_execute(program, out)
    error <- expect_refused(await(out), "r_call", "a program calls cannot wait for that program")
    expect_s3_class(error$parent, "pjrt_error_failed_precondition")
    expect_refused(await(later), "r_call")
  }
  # asking is fine
  local_r_call("r_selfish", function(x) if (is_ready(out)) stop("ready") else x)
  out <- on_four(program)
  expect_identical(as.vector(as_array(out)), c(1, 2, 3, 4))
  # and so is deleting
  local_r_call("r_selfish", function(x) {
    pjrt_delete(out)
    x
  })
  out <- on_four(program)
  expect_refused(while (!is_ready(out)) Sys.sleep(0.01), "deleted_buffer")
})

test_that("the compiler keeps calls with side effects, and drops others that nothing needs", {
  calls <- 0
  local_r_call("r_effect", function(x) {
    calls <<- calls + 1
    x
  })
  program <- function(effect) compile(sprintf('func.func @main(%%x: tensor<4xf32>) -> tensor<4xf32> {
    %%y = stablehlo.custom_call @r_effect(%%x) {api_version = 4 : i32, has_side_effect = %s} : (tensor<4xf32>) -> tensor<4xf32>
    return %%x : tensor<4xf32>
  }', effect))
  run_on_four(program("false"))
  expect_identical(calls, 0)
  run_on_four(program("true"))
  expect_identical(calls, 1)
})

test_that("programs that call R are compiled again in the next session, and saved ones need the function", {
  cache <- withr::local_tempdir()
  file <- withr::local_tempfile()
  env <- c(lone_session()[c("PJRT_PLUGIN_PATH_CPU", "PJRT_DISCOVER")], PJRT_CACHE = "1", R_USER_CACHE_DIR = cache)
  for (i in 1:2) {
    child <- run_child(
      bquote({
        pjrt_register_r_call("r_cached", function(x) x * .(i))
        program <- compile(calling_program("r_cached"))
        cat(run_on_four(program), "\n")
        cat(unlist(pjrt_cache_info()[c("hits", "entries")]), "\n")
        pjrt_save_executable(program, .(file))
      }),
      env = env, helpers = c("programs", "custom-calls")
    )
    expect_clean(child, c(paste(c(1, 2, 3, 4) * i, collapse = " "), "0 0") |> paste0(" "))
  }
  child <- run_child(
    bquote({
      found <- tryCatch(pjrt_load_executable(.(file)), pjrt_error_not_found = identity)
      cat(conditionMessage(found), sep = "\n")
      pjrt_register_r_call("r_cached", function(x) x + 1)
      cat(run_on_four(pjrt_load_executable(.(file))), "\n")
    }),
    env = env, helpers = c("programs", "custom-calls")
  )
  out <- expect_clean(child)$out
  expect_match(out[[1L]], "calls 'r_cached', but no handler of that name is registered for host.", fixed = TRUE)
  expect_true(any(grepl("pjrt_register_r_call(\"r_cached\", ...)", out, fixed = TRUE)))
  expect_identical(out[[length(out)]], "2 3 4 5 ")
})

r_call_helpers <- c("programs", "custom-calls", "r-calls")

test_that("a session ends at once while functions wait, run or would still be called", {
  ends <- list(
    waiting = quote(cat("waits\n")),
    "in a function" = quote({
      pjrt_register_r_call("r_end", function(i) {
        if (i == 3) quit(status = 0L)
        i + 1L
      })
      await(y)
    }),
    "in the middle" = quote(for (i in 1:10) is_ready(y)),
    "several devices" = quote({
      both <- compile(
        summing_program("r_end_4"), pjrt_compile_options(num_replicas = 2L), devices = devices("cpu")[1:2]
      )
      pjrt_register_r_call("r_end_4", identity)
      xs <- lapply(c("cpu:0", "cpu:1"), function(device) pjrt_buffer(1:4, "f32", device = device))
      z <- pjrt_execute_sharded(both, xs)
    }),
    "after close" = quote({
      n <- 0
      pjrt_register_r_call("r_end", function(i) if ((n <<- n + 1) > 50) 1000000L else i + 1L)
      close(pjrt_client("cpu"))
      stopifnot(n > 50)
    })
  )
  for (name in names(ends)) {
    start <- Sys.time()
    child <- run_child(
      bquote({
        pjrt_register_r_call("r_end", function(i) i + 1L)
        pjrt_register_r_call("r_end_4", identity)
        y <- pjrt_execute(compile(stepping_program("r_end")), pjrt_scalar(1000000L))
        .(ends[[name]])
      }),
      env = lone_session(), helpers = r_call_helpers, timeout = 60
    )
    expect_identical(child$status, 0L, info = name)
    expect_identical(child$err, character(), info = name)
  }
})

test_that("the child of a fork runs no functions for its parent, which goes on", {
  skip_on_os("windows")
  child <- run_child(
    quote({
      pjrt_register_r_call("r_fork", function(i) i + 1L)
      stepping <- compile(stepping_program("r_fork"))
      y <- pjrt_execute(stepping, pjrt_scalar(500L))
      for (i in 1:3) is_ready(y)
      results <- parallel::mclapply(1:2, function(i) {
        Sys.sleep(0.3)
        class(tryCatch(await(pjrt_execute(stepping, pjrt_scalar(1L))), error = identity))[[1L]]
      }, mc.cores = 2)
      cat(unlist(results), "\n")
      cat(as_array(y), "\n")
      y <- pjrt_execute(stepping, pjrt_scalar(10L))
      end <- Sys.time() + 60
      while (!is_ready(y) && Sys.time() < end) Sys.sleep(0.01)
      cat(as_array(y), "\n")
    }),
    env = lone_session(), helpers = r_call_helpers, timeout = 120
  )
  expect_clean(child, c("pjrt_error_forked pjrt_error_forked ", "500 ", "10 "))
})

test_that("calls work under gctorture()", {
  child <- run_child(
    quote({
      pjrt_register_r_call("r_torture", function(x, attributes) list(x * attributes$by))
      pjrt_register_r_call("r_torture_buffers", function(x) x, as = "buffer")
      pjrt_register_r_call("r_torture_fails", function(x) stop("oh"))
      programs <- lapply(c("r_torture", "r_torture_buffers", "r_torture_fails"), function(target) {
        compile(calling_program(target, "by = 2 : i64, with = array<i64: 1, 2>"))
      })
      x <- pjrt_buffer(c(1, 2, 3, 4))
      run <- function(program) tryCatch(as.vector(as_array(pjrt_execute(program, x))), error = class)
      torture(5)
      out <- lapply(programs[1:2], run)
      # conditions take long
      torture(7)
      out[[3L]] <- run(programs[[3L]])
      torture(0)
      cat(out[[1L]], "\n", out[[2L]], "\n", out[[3L]][[1L]], "\n")
    }),
    env = lone_session(), helpers = r_call_helpers, timeout = 300
  )
  expect_clean(child, c("2 4 6 8 ", " 1 2 3 4 ", " pjrt_error_r_call "))
})

test_that("a time limit ends a wait in a function, as the error of the program", {
  local_r_call("r_limit", function(x) {
    repeat Sys.sleep(0.01)
  })
  program <- compile(calling_program("r_limit"))
  error <- expect_refused(within_seconds(run_on_four(program), 1), "r_call", "r_limit: reached elapsed time limit")
  expect_match(conditionMessage(error$parent), "time limit")
})

test_that("warnings and messages of an R function reach handlers around the wait", {
  local_r_call("speaks", function(x) {
    message("a message")
    warning("a warning")
    x
  })
  speaks <- compile("func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.custom_call @speaks(%x) {api_version = 4 : i32, has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }")
  run <- function() pjrt_execute(speaks, pjrt_scalar(2))
  heard <- character()
  hear <- function(expr) {
    heard <<- character()
    note <- function(condition) {
      heard <<- c(heard, class(condition)[[1L]])
      tryInvokeRestart(if (inherits(condition, "message")) "muffleMessage" else "muffleWarning")
    }
    withCallingHandlers(expr, message = note, warning = note)
  }
  waits <- list(
    await = function(y) as_array(await(y)), as_array = as_array, value = function(y) value(as_array_async(y)),
    list = function(y) as_array(list(y))[[1L]]
  )
  for (name in names(waits)) {
    expect_identical(hear(waits[[name]](run())), 2, info = name)
    expect_identical(heard, c("simpleMessage", "simpleWarning"), info = name)
  }
  # a handler may leave the wait
  y <- run()
  expect_identical(tryCatch(as_array(y), warning = conditionMessage, message = function(m) "left"), "left")
  expect_identical(as_array(y), 2)
  expect_silent(suppressMessages(suppressWarnings(as_array(run()))))
  # also before the error of the program
  local_r_call("speaks", function(x) {
    warning("first")
    stop("then")
  })
  y <- run()
  expect_warning(expect_error(as_array(y), class = "pjrt_error_r_call"), "first")
})
