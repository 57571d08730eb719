# Slow: collects garbage at every allocation.

# The dispatch engine. helper-dispatcher.R has the arrays and callbacks.

values <- function(result) lapply(result, function(array) as_array(array$data))
here <- function() pjrt_device("cpu:0")
there <- function() pjrt_device("cpu:1")

# Dispatches each list of arguments, and returns how often that compiled.
compilations <- function(d, ...) {
  vapply(list(...), FUN.VALUE = 1L, function(args) {
    before <- d$log$count
    dispatch(d$dispatcher, args)
    d$log$count - before
  })
}

# Accepts anything static: the program has no inputs.
compile_constant <- function(info, ...) {
  list(
    exec = compile("func.func @main() -> tensor<f32> {
      %0 = stablehlo.constant dense<7.0> : tensor<f32>
      return %0 : tensor<f32>
    }"), client = pjrt_client("cpu"), device = here(), out_tree = build_tree(1), out_avals = list(list())
  )
}

test_that("a dispatcher compiles once for arguments of a kind", {
  d <- counting_dispatcher()
  expect_s3_class(d$dispatcher, "Dispatcher", exact = TRUE)
  expect_output(print(d$dispatcher), "^<Dispatcher>$")
  expect_identical(dispatcher_size(d$dispatcher), 0L)
  a <- anvl_f32(c(1, 2))
  expect_identical(values(d$dispatch(a)), list(array(c(1, 2))))
  expect_identical(values(d$dispatch(anvl_f32(c(3, 4)))), list(array(c(3, 4))))
  expect_identical(d$log$count, 1L)
  expect_identical(dispatcher_size(d$dispatcher), 1L)
})

test_that("outputs are arrays in the structure of out_tree", {
  compile <- function(info) {
    nested <- build_tree(list(a = 1, b = list(2, NULL)))
    compile_echo(info, out_tree = nested, out_avals = list(list(ambiguous = TRUE), list(ambiguous = FALSE)))
  }
  d <- counting_dispatcher(compile = compile)
  x <- pjrt_buffer(matrix(1:6, 2))
  result <- d$dispatch(anvl_array(x), x = TRUE)
  expect_identical(names(result), c("a", "b"))
  expect_length(result$b, 2L)
  expect_null(result$b[[2L]])
  array <- result$a
  expect_s3_class(array, "AnvlArray", exact = TRUE)
  expect_identical(names(array), c("data", "dtype", "shape", "device", "ambiguous", "backend"))
  expect_identical(as_array(array$data), matrix(1:6, 2))
  expect_identical(array$dtype, dtype(x))
  expect_identical(array$shape, c(2L, 3L))
  expect_identical(array$device, here())
  expect_true(array$ambiguous)
  expect_identical(array$backend, "pjrt")
  expect_false(result$b[[1L]]$ambiguous)
  expect_identical(as.character(result$b[[1L]]$dtype), "bool")
  expect_identical(result$b[[1L]]$shape, integer())
  # an output is an input again
  expect_identical(values(counting_dispatcher()$dispatch(result$a)), list(matrix(1:6, 2)))
})

test_that("structure, names, dtype, shape and ambiguity of arrays are the key", {
  d <- counting_dispatcher(20)
  a <- anvl_f32(c(1, 2))
  expect_identical(
    compilations(
      d, list(a), list(a), list(x = a), list(y = a), list(list(a)), list(a, NULL), list(anvl_f32(1:3)),
      list(anvl_f32(c(0, 0))),
      list(anvl_array(pjrt_buffer(1:2))), list(anvl_f32(c(1, 2), ambiguous = TRUE)), list(anvl_f32(matrix(1, 1, 2))),
      list(x = anvl_f32(c(5, 6)))
    ),
    c(1L, 0L, 1L, 1L, 1L, 1L, 1L, 0L, 1L, 1L, 1L, 0L)
  )
  expect_identical(dispatcher_size(d$dispatcher), 9L)
})

test_that("R data and arrays with the same aval share an entry", {
  d <- counting_dispatcher()
  scalar <- function(x, dtype, ambiguous = TRUE) anvl_array(pjrt_scalar(x, dtype), ambiguous)
  expect_identical(
    compilations(
      d, list(1), list(2.5), list(scalar(1, "f32")), list(1L), list(scalar(2L, "i32")), list(TRUE),
      list(scalar(TRUE, "pred", FALSE)), list(c(a = 1)), list(matrix(1, 2, 2)),
      list(anvl_f32(matrix(2, 2, 2), ambiguous = TRUE))
    ),
    c(1L, 0L, 0L, 1L, 0L, 1L, 0L, 0L, 1L, 0L)
  )
})

test_that("R data are uploaded at their default types, arrays in their shape", {
  d <- counting_dispatcher()
  matrix <- matrix(1:6 + 0.5, 2)
  result <- expect_na_warning(d$dispatch(1.5, 2L, TRUE, matrix, array(c(1L, NA), 2L)), "i32", 1, 2)
  expect_identical(values(result), list(1.5, 2L, TRUE, matrix, array(c(1L, NA), 2L)))
  expect_identical(vapply(result, function(x) as.character(x$dtype), ""), c("f32", "i32", "bool", "f32", "i32"))
  expect_identical(lapply(d$log$info$avals, `[[`, "ambiguous"), list(TRUE, TRUE, FALSE, TRUE, TRUE))
  expect_identical(values(d$dispatch(NaN, 1L, TRUE, matrix, array(1:2)))[[1L]], NaN)
})

test_that("compile gets the arguments, their structure and their avals", {
  d <- counting_dispatcher(static = "s")
  a <- anvl_f32(c(1, 2))
  args <- list(x = list(a, NULL), s = list(n = "fast", 3), y = 2L)
  dispatch(d$dispatcher, args)
  info <- d$log$info
  expect_identical(names(info), c("args", "in_tree", "leaves", "is_static", "avals", "default_device"))
  expect_identical(info$args, args)
  expect_identical(tree_repr(info$in_tree), "list<named>(x = list(*, NULL), s = list<named>(n = *, *), y = *)")
  expect_identical(info$leaves, list(a, "fast", 3, 2L))
  expect_identical(info$is_static, c(FALSE, TRUE, TRUE, FALSE))
  expect_identical(info$avals, list(
    list(dtype = "f32", shape = 2L, ambiguous = FALSE), NULL, NULL,
    list(dtype = "i32", shape = integer(), ambiguous = TRUE)
  ))
  expect_identical(info$default_device, here())
})

test_that("static values are compared by their bits and content", {
  f <- function(x) x + 1
  same_f <- compiler::cmpfun(f)
  local_f <- local(function(x) x + 1)
  na64 <- bit64::as.integer64(NA)
  different <- list(
    1, 2, 0, -0, 1L, TRUE, "a", "b", c(1, 2), NULL, NA, NA_integer_, NA_real_, NaN, na64, bit64::as.integer64(0),
    bit64::as.integer64(-1), bit64::as.integer64(-2), "\u00e9", f, local_f, function(x) x + 2, sum, globalenv(),
    factor("a"),
    data.frame(a = 1), quote(f(x)), quote(g(x)), 1i, as.raw(1), structure(1, note = "b"), character(), 1:3, c(a = 1)
  )
  d <- counting_dispatcher(100, compile_constant, static = "s")
  calls <- lapply(different, function(value) list(s = value))
  expect_identical(do.call(compilations, c(list(d), calls)), rep(1L, length(different)))
  expect_identical(do.call(compilations, c(list(d), calls)), rep(0L, length(different)))
  latin1 <- `Encoding<-`("\xe9", "latin1")
  again <- list(latin1, same_f, c(1L, 2L, 3L), factor("a"), data.frame(a = 1), 1:4 - 0L)
  expect_identical(
    do.call(compilations, c(list(d), lapply(again, function(value) list(s = value)))), c(0L, 0L, 0L, 0L, 0L, 1L)
  )
})

test_that("distinct values of a static argument never merge, however alike", {
  d <- counting_dispatcher(100, compile_constant, static = c("s", "t"))
  long <- lapply(1:20, function(i) replace(numeric(100), 50 + i, 1))
  expect_identical(do.call(compilations, c(list(d), lapply(long, function(x) list(s = x)))), rep(1L, 20L))
  lists <- lapply(1:20, function(i) list(s = structure(list(1, i), class = "c"), t = "x"))
  expect_identical(do.call(compilations, c(list(d), lists, lists)), rep(c(1L, 0L), each = 20L))
})

test_that("the least recently used entry is dropped", {
  d <- counting_dispatcher(2)
  one <- list(anvl_f32(1))
  two <- list(anvl_f32(1:2))
  three <- list(anvl_f32(1:3))
  expect_identical(compilations(d, one, two, one, three, one, two, three), c(1L, 1L, 0L, 1L, 0L, 1L, 1L))
  expect_identical(dispatcher_size(d$dispatcher), 2L)
  d <- counting_dispatcher(1)
  expect_identical(compilations(d, one, two, two, one), c(1L, 1L, 0L, 1L))
})

test_that("the device of the arrays is part of the key", {
  on_first <- counting_dispatcher(compile = function(info) {
    compile_echo(
      info, exec = compile(echo_program("tensor<1xf32>"), device = info$default_device), device = info$default_device
    )
  })
  at <- function(device) list(anvl_array(pjrt_buffer(1, device = device)))
  expect_identical(compilations(on_first, at(here()), at(there()), at(here()), at(there())), c(1L, 1L, 0L, 0L))
  expect_identical(on_first$log$info$default_device, there())
  result <- dispatch(on_first$dispatcher, at(there()))
  expect_identical(result[[1L]]$device, there())
  expect_identical(device(result[[1L]]$data), there())
})

test_that("a call without arrays runs on the default device", {
  asked <- 0L
  d <- counting_dispatcher(default_device = function() {
    asked <<- asked + 1L
    there()
  }, compile = function(info) {
    compile_echo(info, exec = compile(echo_program("tensor<f32>"), device = there()), device = there())
  })
  expect_identical(values(d$dispatch(1)), list(1))
  expect_identical(device(d$dispatch(2)[[1L]]$data), there())
  expect_identical(d$log$info$default_device, there())
  expect_identical(asked, 2L)
  expect_identical(d$log$count, 1L)
})

test_that("inputs move to the executable's device on request", {
  d <- counting_dispatcher(default_device = NULL, move_inputs = TRUE, compile = function(info) {
    compile_echo(
      info, exec = compile(echo_program(c("tensor<f32>", "tensor<f32>", "tensor<f32>")), device = there()),
      device = there()
    )
  })
  x <- anvl_array(pjrt_scalar(1, device = here()), TRUE)
  y <- anvl_array(pjrt_scalar(2, device = there()), TRUE)
  expect_identical(values(d$dispatch(x, y, 3)), list(1, 2, 3))
  result <- d$dispatch(y, x, x)
  expect_identical(values(result), list(2, 1, 1))
  expect_identical(device(result[[2L]]$data), there())
  expect_identical(d$log$count, 1L)
  expect_null(d$log$info$default_device)
  expect_true("default_device" %in% names(d$log$info))
})

test_that("constants come before the inputs, phantoms after them", {
  type <- "tensor<2xf32>"
  text <- sprintf("func.func @main(%%c: %s, %%x: %s, %%p: %s {tf.aliasing_output = 0 : i32}) -> (%s, tensor<i1>) {
    %%0 = stablehlo.add %%c, %%x : %s
    %%1 = stablehlo.add %%0, %%p : %s
    %%2 = stablehlo.constant dense<true> : tensor<i1>
    return %%1, %%2 : %s, tensor<i1>
  }", type, type, type, type, type, type, type)
  constant <- pjrt_buffer(c(10, 20))
  d <- counting_dispatcher(compile = function(info) {
    compile_echo(
      info, exec = compile(text), const_arrays = list(constant),
      phantom_specs = list(list(dtype = dtype(constant), shape = 2L)),
      out_tree = build_tree(list(1, 2)), out_avals = list(list(), list())
    )
  })
  for (i in 1:3) expect_identical(values(d$dispatch(anvl_f32(c(1, 2)))), list(array(c(11, 22)), TRUE))
  expect_identical(as_array(constant), array(c(10, 20)))
  for (name in c("bool", "i1", "pred")) {
    text <- "func.func @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<i1> { return %p : tensor<i1> }"
    d <- counting_dispatcher(compile = function(info) {
      compile_echo(info, exec = compile(text), phantom_specs = list(list(dtype = name, shape = integer())))
    })
    expect_identical(values(d$dispatch(1)), list(FALSE))
  }
  d <- counting_dispatcher(
    compile = function(info) compile_echo(info, phantom_specs = list(list(dtype = "f99", shape = 1L)))
  )
  expect_refused(d$dispatch(1), "unsupported_dtype", "Unsupported type: f99")
})

test_that("other backends call the function that compile returns", {
  d <- counting_dispatcher(
    backend = "mybackend", static = "n",
    extractor = function(x) list(dtype = x$dtype, shape = x$shape, ambiguous = x$ambiguous),
    compile = function(info) list(r_fun = function(data) Reduce(`+`, data)), default_device = function() "here"
  )
  mine <- function(data, ...) anvl_array(data, backend = "mybackend", ...)
  m <- matrix(c(1, 2), 1)
  expect_identical(d$dispatch(mine(m), b = mine(m * 10), n = "s"), m * 11)
  expect_identical(d$dispatch(mine(m * 2), b = mine(m), n = "s"), m * 3)
  expect_identical(d$log$count, 1L)
  expect_identical(d$log$info$default_device, "here")
  expect_identical(d$log$info$avals[[1L]], list(dtype = "f64", shape = 1:2, ambiguous = FALSE))
  expect_identical(d$dispatch(1, 2), 3)
  expect_identical(compilations(d, list(mine(m, device = "elsewhere"))), 1L)
  expect_identical(compilations(d, list(mine(m, device = paste0("else", "where")))), 0L)
  expect_refused(
    d$dispatch(mine(m), anvl_array(m, backend = "quickr")), "invalid_input",
    "expected an AnvlArray of backend \"mybackend\"; got \"quickr\""
  )
  expect_refused(
    d$dispatch(mine(m), mine(m, device = "elsewhere")), "device_mismatch",
    "lives on a different device than an earlier input"
  )
  bad <- counting_dispatcher(
    backend = "mybackend", extractor = function(x) list(), compile = function(info) list(), default_device = here
  )
  expect_refused(bad$dispatch(1), "invalid_input", "compile callback must return a function `r_fun`")
  expect_refused(bad$dispatch(mine(m)), "invalid_input", "`extractor` must return a list with `dtype` and `shape`")
})

test_that("invalid arguments of a call are refused with their place", {
  d <- counting_dispatcher(static = "s")
  expected <- function(class, length = 1) {
    sprintf(
      "expected an AnvlArray, a length-1 atomic scalar, or an is.array() value; got <%s> of length %d", class, length
    )
  }
  refused <- function(args, path, problem) {
    expect_refused(dispatch(d$dispatcher, args), "invalid_input", sprintf("invalid input `%s`: %s", path, problem))
  }
  refused(list(x = list(a = "b")), "x$a", expected("character"))
  refused(list(1, c(1, 2)), "[[2]]", expected("numeric", 2))
  refused(list(x = integer()), "x", expected("integer", 0))
  for (value in list(NA, NA_integer_, NA_real_)) refused(list(x = value), "x", expected(class(value)))
  for (value in list(NA_real_, "a", 1i)) {
    error <- expect_refused(dispatch(d$dispatcher, list(value)), "invalid_input")
    expect_match(conditionMessage(error), "must be a real number or a logical value, and not NA", fixed = TRUE)
  }
  refused(list(x = sum), "x", expected("function"))
  refused(list(x = factor("a")), "x", expected("factor"))
  refused(list(x = bit64::as.integer64(1)), "x", expected("integer64"))
  refused(list(x = data.frame(a = 1)), "x", expected("data.frame"))
  refused(list(x = 1i), "x", expected("complex"))
  refused(list(x = pjrt_scalar(1)), "x", expected("PJRTBuffer"))
  refused(list(x = matrix("a")), "x", "its dtype is not one anvl can represent")
  refused(list(x = anvl_array(pjrt_scalar(1, "f8e5m2"))), "x", "its dtype is not one anvl can represent")
  refused(list(x = anvl_f32(1, device = NULL)), "x", "an AnvlArray must carry $device")
  refused(list(x = anvl_f32(1, backend = "quickr")), "x", "expected an AnvlArray of backend \"pjrt\"; got \"quickr\"")
  refused(list(x = anvl_f32(1, data = 1)), "x", "its `$data` must be a PJRTBuffer")
  expect_refused(
    d$dispatch(s = anvl_f32(1)), "invalid_input", "invalid static input `s`: a static argument must not be an AnvlArray"
  )
  expect_refused(
    d$dispatch(anvl_f32(1), y = anvl_array(pjrt_scalar(1, device = there()))), "device_mismatch",
    "invalid input `y`: it lives on a different device than an earlier input"
  )
  expect_refused(dispatch(d$dispatcher, 1), "invalid_input", "`args` must be a list of arguments, not 1")
  expect_refused(
    dispatch(unserialize(serialize(d$dispatcher, NULL)), list(1)), "invalid_input",
    "expected a `Dispatcher`, not one that was saved and loaded. Create it again."
  )
  for (x in list(NULL, 1, list(), structure(1, class = "Dispatcher"), unserialize(serialize(d$dispatcher, NULL)))) {
    expect_refused(dispatch(x, list(1)), "invalid_input", "expected a `Dispatcher`")
    expect_refused(dispatcher_size(x), "invalid_input", "expected a `Dispatcher`")
  }
  expect_identical(d$log$count, 0L)
})

test_that("invalid arguments of dispatcher() are refused", {
  for (capacity in list(0, -1, 1.5, NA, "1", NULL, c(1, 2))) {
    expect_refused(dispatcher(capacity, identity, move_inputs = TRUE), "invalid_input", "must be a positive count")
  }
  expect_refused(dispatcher(1, identity), "invalid_input", "is required unless")
  expect_refused(
    dispatcher(1, identity, backend = "mine", move_inputs = TRUE), "invalid_input",
    "is required for a non-\"pjrt\" backend"
  )
  expect_s3_class(dispatcher(1, identity, move_inputs = TRUE), "Dispatcher")
})

test_that("the default device is checked", {
  d <- counting_dispatcher(default_device = function() "cpu")
  expect_refused(d$dispatch(1), "invalid_input", "the `default_device` resolver must return a PJRTDevice")
  bare <- .Call(ffi_dispatcher_new, 1, list(compile_echo, NULL, NULL, NULL), character(), "pjrt", FALSE)
  expect_refused(dispatch(bare, list(1)), "invalid_input", "without a `default_device` resolver")
})

test_that("results of compile that do not fit are refused and not kept", {
  refused <- function(message, ..., compile = function(info) compile_echo(info, ...)) {
    d <- counting_dispatcher(compile = compile)
    expect_refused(d$dispatch(1, 2), "invalid_input", message)
    expect_identical(dispatcher_size(d$dispatcher), 0L)
  }
  refused("compile callback must return a list", compile = function(info) 1)
  refused("compile callback must return a list, not NULL", compile = function(info) NULL)
  refused("compile callback must return `exec` (a PJRTLoadedExecutable)", exec = 1)
  refused("compile callback must return `client` (a PJRTClient)", client = NULL)
  refused("compile callback must return `device` (a PJRTDevice)", device = "cpu")
  refused("compile callback must return `out_tree` (an RTree)", out_tree = list())
  refused("compile callback must return `out_avals` (a list)", out_avals = NULL)
  refused("`const_arrays[[1]]` must be a PJRTBuffer", const_arrays = list(1))
  refused("out_tree has 3 leaves but the executable returned 2 outputs", out_tree = build_tree(as.list(1:3)))
  refused("out_avals has length 1 but out_tree has 2 leaves", out_avals = list(1))
  refused("compile callback must return `const_arrays` (a list)", const_arrays = 1)
  refused("`phantom_specs[[1]]` must be a list with `dtype` and `shape`", phantom_specs = list(1))
})

test_that("an error in compile is passed on, and nothing is kept", {
  fails <- TRUE
  d <- counting_dispatcher(compile = function(info) {
    if (fails) stop("no such program")
    compile_echo(info)
  })
  error <- expect_error(d$dispatch(1), "no such program")
  expect_identical(conditionCall(error), quote(compile(info)))
  expect_identical(dispatcher_size(d$dispatcher), 0L)
  fails <- FALSE
  expect_identical(values(d$dispatch(1)), list(1))
  expect_identical(d$log$count, 2L)
})

test_that("inputs are checked as pjrt_execute() does", {
  d <- counting_dispatcher(compile = function(info) compile_echo(info, exec = compile(echo_program("tensor<3xf32>"))))
  expect_refused(d$dispatch(anvl_f32(c(1, 2))), "shape_mismatch", "expected f32[3], got f32[2]")
  d <- counting_dispatcher()
  x <- anvl_f32(1)
  d$dispatch(x)
  pjrt_delete(x$data)
  expect_refused(d$dispatch(x), "deleted_buffer", "deleted or donated buffer")
})

test_that("callbacks may dispatch, and drop the entry that is in use", {
  d <- NULL
  inner <- list()
  d <- counting_dispatcher(1, compile = function(info) {
    length <- info$avals[[1L]]$shape
    if (length < 4L) inner[[length]] <<- values(dispatch(d$dispatcher, list(anvl_f32(rep(1, length + 1)))))
    compile_echo(info)
  })
  expect_identical(values(d$dispatch(anvl_f32(5))), list(array(5)))
  expect_identical(inner, lapply(2:4, function(n) list(array(rep(1, n)))))
  expect_identical(dispatcher_size(d$dispatcher), 1L)

  # the same arguments: what the inner call has compiled stays
  depth <- 0L
  same <- counting_dispatcher(compile = function(info) {
    depth <<- depth + 1L
    if (depth == 1L) dispatch(same$dispatcher, list(1))
    compile_echo(info)
  })
  expect_identical(values(same$dispatch(2)), list(2))
  expect_identical(dispatcher_size(same$dispatcher), 1L)

  mine <- counting_dispatcher(
    1, backend = "mine", extractor = identity, default_device = here, static = "n",
    compile = function(info) {
      list(r_fun = function(data) if (data[[1L]] > 0) mine$dispatch(data[[1L]] - 1, n = data[[1L]]) else "end")
    }
  )
  expect_identical(mine$dispatch(5, n = 0), "end")
})

test_that("a context is part of the key, and the newer dialect distinguishes R data from arrays", {
  setting <- "a"
  d <- counting_dispatcher(context = function() setting, compile = function(info) {
    n <- length(info$avals)
    declared <- vapply(info$avals, function(aval) if (aval$kind == "rdata") "f32" else NA_character_, "")
    compile_echo(info, exec = compile(echo_program(rep("tensor<f32>", n))), input_dtypes = declared)
  })
  scalar <- anvl_array(pjrt_scalar(1))
  expect_identical(compilations(d, list(1), list(scalar), list(2), list(1)), c(1L, 1L, 0L, 0L))
  expect_identical(names(d$log$info)[[7L]], "context")
  expect_identical(d$log$info$context, "a")
  expect_identical(d$log$info$avals, list(list(kind = "array", dtype = "f32", shape = integer())))
  setting <- c("a", "b")
  expect_identical(compilations(d, list(1), list(1)), c(1L, 0L))
  expect_identical(d$log$info$avals, list(list(kind = "rdata", dtype = "double", shape = integer())))
  setting <- "a"
  expect_identical(compilations(d, list(1)), 0L)
  expect_identical(names(d$dispatch(1)[[1L]]), c("data", "dtype", "shape", "device", "backend"))
  scalar$ambiguous <- TRUE
  expect_identical(compilations(d, list(scalar)), 0L)
  scalar$ambiguous <- NULL
  expect_identical(compilations(d, list(scalar)), 0L)
  for (setting in list(NULL, 1, NA)) {
    error <- expect_refused(d$dispatch(1), "invalid_input", "must be a character vector")
    expect_match(conditionMessage(error), "context")
  }
})

test_that("R data are uploaded at the types that compile declares", {
  upload <- function(value, dtype) {
    d <- counting_dispatcher(context = function() character(), compile = function(info) {
      compile_echo(info, exec = compile(echo_program(aval_type(dtype, info$avals[[1L]]$shape))), input_dtypes = dtype)
    })
    result <- d$dispatch(value)[[1L]]
    expect_identical(as.character(result$dtype), dtype)
    as_array(result$data)
  }
  expect_identical(upload(TRUE, "bool"), TRUE)
  expect_identical(upload(3L, "f64"), 3)
  expect_identical(upload(2.5, "f32"), 2.5)
  expect_identical(upload(1, "bool"), TRUE)
  expect_identical(upload(7, "i32"), 7L)
  expect_identical(upload(matrix(1:4, 2), "f64"), matrix(1:4 + 0, 2))
})

test_that("declared types that do not fit are refused", {
  refused <- function(input, dtypes, message) {
    d <- counting_dispatcher(context = function() "c", compile = function(info) {
      compile_echo(info, exec = compile(echo_program("tensor<f32>")), input_dtypes = dtypes)
    })
    expect_refused(d$dispatch(input), "invalid_input", message)
    expect_identical(dispatcher_size(d$dispatcher), 0L)
  }
  refused(1, NULL, "`input_dtypes` is required, because input 1 is bare R data")
  refused(1, NA_character_, "`input_dtypes[[1]]` is NA for a bare R input")
  refused(1, c("f32", "f32"), "2 entries but the call supplies 1")
  refused(1, "f99", "not a dtype anvl can represent")
  refused(1, 1, "`input_dtypes` must be a character vector")
  refused(1L, "bool", "cannot be uploaded at: it is integer")
  refused(TRUE, "i32", "cannot be uploaded at: it is logical")
  refused(TRUE, "f32", "cannot be uploaded at: it is logical")
  refused(anvl_array(pjrt_scalar(1)), "f32", "declares dtype \"f32\" for an array input")
})

test_that("the older dialect accepts declared types, too", {
  d <- counting_dispatcher(compile = function(info) {
    compile_echo(info, exec = compile(echo_program("tensor<f64>")), input_dtypes = "f64")
  })
  expect_identical(values(d$dispatch(0.1)), list(0.1))
})

test_that("many calls survive garbage collection", {
  d <- counting_dispatcher(3)
  for (i in 1:100) {
    n <- i %% 5 + 1
    expect_identical(values(d$dispatch(anvl_f32(rep(i, n)), i)), list(array(rep(i + 0, n)), i))
    if (i %% 10 == 0) gc()
  }
  expect_identical(dispatcher_size(d$dispatcher), 3L)
})

test_that("a dispatcher keeps what it compiled and the devices it has seen, and frees them with it", {
  freed <- character()
  token <- function(name) {
    environment <- new.env()
    reg.finalizer(environment, function(e) freed <<- c(freed, name))
    environment
  }
  d <- counting_dispatcher(
    1, backend = "mine", extractor = function(x) list(dtype = "f32", shape = integer()), default_device = here,
    compile = function(info) {
      kept <- token("function")
      list(r_fun = function(data) kept)
    }
  )
  for (i in 1:2) d$dispatch(anvl_array(matrix(1), backend = "mine", device = token("device")))
  rm(i)
  for (i in 1:3) gc()
  expect_identical(freed, "function")
  d <- NULL
  for (i in 1:3) gc()
  expect_setequal(freed, c("function", "function", "device", "device"))
})

test_that("dispatching survives garbage collection at every allocation", {
  child <- run_child(helpers = c("programs", "dispatcher"), env = c(PJRT_CACHE = "0"), quote({
    d <- counting_dispatcher(2, static = "s")
    newer <- counting_dispatcher(2, context = function() "c", compile = function(info) {
      compile_echo(info, exec = compile(echo_program("tensor<2x2xf64>")), input_dtypes = "f64")
    })
    mine <- counting_dispatcher(
      2, backend = "mine", extractor = identity, compile = function(info) list(r_fun = length), default_device = date
    )
    a <- anvl_f32(c(1, 2))
    f <- function(x) x
    b <- anvl_array(matrix(1), backend = "mine")
    e <- "\u00e9"
    latin1 <- `Encoding<-`("\xe9", "latin1")
    d$dispatch(a, matrix(1, 2, 2), s = e)
    torture(17)
    one <- d$dispatch(a, matrix(1, 2, 2), s = latin1)
    two <- d$dispatch(a, 2L, s = f)
    three <- d$dispatch(a, 2L, s = list(f, 1:2))
    four <- newer$dispatch(matrix(1:4, 2))
    five <- newer$dispatch(matrix(2:5, 2))
    six <- mine$dispatch(b, b, 1)
    refused <- vapply(list(list("a"), list(a, s = a), list(x = NA)), function(args) {
      tryCatch(dispatch(d$dispatcher, args), pjrt_error_invalid_input = function(e) "refused")
    }, "")
    torture(0)
    cat(
      d$log$count, as_array(one[[2]]$data), as_array(two[[2]]$data), as_array(three[[1]]$data),
      as_array(five[[1]]$data), six, refused, "\n"
    )
  }))
  expect_clean(child, "3 1 1 1 1 2 1 2 2 3 4 5 3 refused refused refused ")
})

test_that("an interrupt in a callback leaves the dispatcher usable", {
  child <- run_child(helpers = c("programs", "dispatcher"), env = c(PJRT_CACHE = "0"), quote({
    interrupts <- TRUE
    d <- counting_dispatcher(compile = function(info) {
      if (interrupts) {
        tools::pskill(Sys.getpid(), tools::SIGINT)
        for (i in 1:100) Sys.sleep(0.05)
      }
      compile_echo(info)
    })
    cat(tryCatch(d$dispatch(1), interrupt = function(e) "interrupted"), dispatcher_size(d$dispatcher), "\n")
    interrupts <- FALSE
    cat(as_array(d$dispatch(1)[[1]]$data), dispatcher_size(d$dispatcher), "\n")
  }))
  expect_clean(child, c("interrupted 0 ", "1 1 "))
})

test_that("deep arguments raise an error", {
  child <- run_child(helpers = c("programs", "dispatcher"), env = c(PJRT_CACHE = "0"), quote({
    d <- counting_dispatcher()
    deep <- 1
    for (i in 1:1e5) deep <- list(deep)
    cat(tryCatch(dispatch(d$dispatcher, deep), error = function(e) class(e)[[1L]]), d$log$count, "\n")
  }))
  expect_clean(child, "pjrt_error_invalid_value 0 ")
})
