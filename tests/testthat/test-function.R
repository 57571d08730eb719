# The exported programs are made by src/rust/program/fixtures/exported/make.py.
# Slow: compiles dozens of programs.
exported <- function(name) pjrt_load_exported(fixture(file.path("exported", paste0(name, ".jaxexport"))))
network <- function(...) {
  pjrt_function(pjrt_load_exported(system.file("exported", "network.jaxexport", package = "pjrt")), ...)
}
network_params <- function() {
  list(
    hidden = list(b = seq(-1, 1, length.out = 8), w = matrix(sin(1:32), 4)),
    out = list(b = c(1, 0, -1), w = matrix(cos(1:24), 8))
  )
}
network_in_r <- function(params, x) {
  hidden <- pmax(x %*% params$hidden$w + rep(params$hidden$b, each = nrow(x)), 0)
  scores <- exp(hidden %*% params$out$w + rep(params$out$b, each = nrow(x)))
  scores / rowSums(scores)
}

# y = params$w * x - params$b
linear <- "func.func @main(%params.b: tensor<2xf32>, %params.w: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.multiply %params.w, %x : tensor<2xf32>
  %1 = stablehlo.subtract %0, %params.b : tensor<2xf32>
  return %1 : tensor<2xf32>
}"

test_that("integers that R cannot tell from NA say how to pass them back", {
  bytes <- as.raw(c(0, 0, 0, 0, 0, 0, 0, 128))
  high <- as_array(pjrt_buffer(bytes, dtype = "ui64", shape = 1L, row_major = TRUE))
  f <- pjrt_function(compile(gsub("f32", "ui64", add_program("1xf32"), fixed = TRUE)))
  expect_refused(f(high, high), "invalid_input", "pjrt_buffer(x, \"ui64\") takes these back")
  again <- suppressWarnings(pjrt_buffer(high, "ui64"))
  expect_identical(as_raw(again, row_major = TRUE), bytes)
})

test_that("an exported program takes nested lists of R arrays and buffers", {
  f <- network()
  params <- network_params()
  x <- matrix(1:8 / 8, 2)
  expected <- network_in_r(params, x)
  result <- f(params, x)
  expect_s3_class(result, "PJRTBuffer")
  expect_equal(as_array(result), expected, tolerance = 1e-5)
  expect_equal(as_array(f(x = x, params = params)), expected, tolerance = 1e-5)
  # in any order, with buffers among them
  shuffled <- list(out = rev(params$out), hidden = list(w = pjrt_buffer(params$hidden$w), b = params$hidden$b))
  for (i in 1:3) {
    expect_equal(as_array(f(shuffled, x)), expected, tolerance = 1e-5)
    expect_equal(as_array(f(params, pjrt_buffer(x))), expected, tolerance = 1e-5)
  }
  expect_equal(network(as = "array")(params, x), expected, tolerance = 1e-5)
  # without names, lists have positions: JAX sorts by key
  expect_refused(f(unname(params), x), "invalid_input", "The program has no argument `params[[1]]`.")
})

test_that("the formals are the names of the program's arguments", {
  expect_identical(names(formals(network())), c("params", "x", "..."))
  expect_identical(names(formals(pjrt_function(exported("tree")))), c("params", "x", "scale", "..."))
  expect_identical(names(formals(pjrt_function(pjrt_program(linear)))), c("params", "x", "..."))
  expect_identical(names(formals(args(pjrt_function(compile(add_program("f32")))))), c("x", "y", "..."))
  unnamed <- "func.func @main(%arg0: tensor<f32>, %x1: tensor<f32>, %2: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.subtract %arg0, %x1 : tensor<f32>
    %1 = stablehlo.subtract %0, %2 : tensor<f32>
    return %1 : tensor<f32>
  }"
  f <- pjrt_function(pjrt_program(gsub("%2", "%arg2", unnamed)))
  expect_identical(names(formals(f)), c("x1_1", "x1", "x3", "..."))
  expect_identical(as_array(f(x1 = 1, x1_1 = 10, x3 = 2)), 7)
  renamed <- pjrt_function(pjrt_program(gsub("%2", "%arg2", unnamed)), arguments = c("a", "b", "c"))
  expect_identical(as_array(renamed(10, c = 2, b = 1)), 7)
  # names that are arrays and lists
  clash <- pjrt_function(pjrt_program(gsub("params.b", "params", linear)))
  expect_identical(names(formals(clash)), c("x1", "x2", "x", "..."))
  expect_identical(as_array(clash(1:2, 3:4, 5:6)), array(c(14, 22)))
  # names that the functions need themselves
  own <- gsub("%x", "%list", gsub("%y", "%missing", add_program("f32")))
  expect_identical(as_array(pjrt_function(pjrt_program(own))(list = 1, missing = 2)), 3)
})

test_that("results have the structure of the Python function's", {
  f <- pjrt_function(exported("tree"))
  run <- source(fixture("exported/runs.R"), local = TRUE)$value$tree
  inputs <- lapply(run$inputs, function(x) if (is.null(x$dim)) x$data else array(x$data, x$dim))
  params <- list(layers = list(list(b = inputs[[1]], w = inputs[[2]]), list(w = inputs[[3]])), none = NULL)
  result <- as_array(f(params, inputs[[4]], scale = inputs[[5]]))
  expect_identical(names(result), c("hidden", "scores", "sum"))
  expect_null(result$hidden[[2]])
  found <- list(result$hidden[[1]], result$scores, result$sum[[1]])
  for (i in 1:3) expect_equal(as.vector(found[[i]]), run$outputs[[i]]$data, tolerance = 1e-6)
  # `None` may be left out
  params$none <- NULL
  expect_identical(as_array(f(params, inputs[[4]], inputs[[5]])), result)
  # without a description of the result, it is what pjrt_execute() returns
  two <- compile("func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    return %x, %x : tensor<f32>, tensor<f32>
  }")
  expect_identical(as_array(pjrt_function(two)(1)), list(1, 1))
  none <- compile("func.func @main() { return }")
  expect_identical(pjrt_function(none)(), list())
  # names of outputs lead into lists
  named <- compile("func.func @main(%x: tensor<f32>) ->
    (tensor<f32> {jax.result_info = \"['a']['b']\"}, tensor<f32> {jax.result_info = \"['c']\"}) {
    return %x, %x : tensor<f32>, tensor<f32>
  }")
  expect_identical(as_array(pjrt_function(named)(2)), list(a = list(b = 2), c = 2))
  expect_identical(pjrt_function(named, as = "array")(2), list(a = list(b = 2), c = 2))
})

test_that("arguments that the program does not use are ignored and optional", {
  f <- pjrt_function(exported("unused"))
  expect_identical(names(formals(f)), c("x", "x2", "y", "..."))
  expected <- array(c(1, 1, 1))
  expect_identical(as_array(f(2:4, y = 1:3)), expected)
  for (any in list(NULL, matrix(0, 2, 2), "text", list(1, list()))) {
    expect_identical(as_array(f(2:4, any, 1:3)), expected)
  }
})

test_that("a function of a compiled export takes what the function of the export takes", {
  for (compiled in list(pjrt_compile(exported("unused")), value(pjrt_compile_async(exported("unused"))))) {
    f <- pjrt_function(compiled)
    expect_identical(formals(f), formals(pjrt_function(exported("unused"))))
    expect_identical(as_array(f(2:4, matrix(0, 2, 2), 1:3)), array(c(1, 1, 1)))
    expect_identical(as_array(f(2:4, y = 1:3)), array(c(1, 1, 1)))
  }
  # also its nested result, and without the weights of a model
  tree <- exported("tree")
  expect_identical(pjrt_function(pjrt_compile(tree)) |> format(), format(pjrt_function(tree)))
  model <- pjrt_load_exported(system.file("exported", "iris-torch", package = "pjrt"))
  x <- as.matrix(iris[1:4])
  g <- pjrt_function(pjrt_compile(model))
  expect_identical(as_array(g(x, model$weights)), as_array(pjrt_function(model)(x)))
  # messages name the argument of the function
  expect_refused(g(x[1:2, ], model$weights), "shape_mismatch", "argument 5 (`args[0]`, `x1` of the function)")
  expect_refused(g(pjrt_scalar(1), model$weights), "shape_mismatch", "argument 5 (`args[0]`, `x1` of the function)")
  # hints are about what was called
  donating <- pjrt_function(pjrt_program(sub("%x: tensor<2xf32>", "%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}",
    add_program("2xf32"), fixed = TRUE)))
  y <- pjrt_buffer(c(1, 2))
  error <- expect_refused(donating(y, y), "invalid_input", "donate the same buffer twice")
  expect_match(conditionMessage(error), "Or keep it: use pjrt_execute() with", fixed = TRUE)
})

test_that("functions and steps survive saving, and sessions that they are sent to", {
  path <- withr::local_tempfile(fileext = ".rds")
  f <- network()
  params <- network_params()
  x <- matrix(1:8 / 8, 2)
  step <- pjrt_step(pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt")),
    state = c(weights = 1, velocity = 2), outputs = "loss")
  state <- list(weights = numeric(5), velocity = numeric(5))
  data <- list(features = matrix(sin(1:500), 100), labels = rep(c(0, 1), 50))
  run_step <- function(step) as_array(step(state, data$features, data$labels, rate = 0.1, momentum = 0.9)$loss)
  functions <- list(
    f = f, array = network(as = "array"), compiled = pjrt_function(compile(linear)), step = step,
    model = pjrt_function(pjrt_load_exported(system.file("exported", "iris-torch", package = "pjrt"))),
    on_second = pjrt_function(compile(linear, device = "cpu:1"))
  )
  call_all <- function(functions, params, x, run_step) {
    linear <- list(params = list(b = 1:2, w = 3:4), x = 5:6)
    flowers <- as.matrix(datasets::iris[1:4])
    lapply(list(
      functions$f(params, x), functions$array(params, x), do.call(functions$compiled, linear),
      run_step(functions$step), functions$model(flowers), do.call(functions$on_second, linear)
    ), function(result) if (inherits(result, "PJRTBuffer")) pjrt::as_array(result) else result)
  }
  environment(call_all) <- globalenv()
  want <- call_all(functions, params, x, run_step)
  # before and after their first call
  for (f in list(network(), functions$f)) {
    loaded <- unserialize(serialize(f, NULL))
    expect_identical(utils::capture.output(print(loaded)), utils::capture.output(print(f)))
    expect_identical(as_array(loaded(params, x)), want[[1L]])
    expect_refused(loaded(params), "argument_count", "`x` is missing")
  }
  saveRDS(functions, path)
  child <- run_child(bquote({
    functions <- readRDS(.(path))
    state <- .(state)
    data <- .(data)
    run_step <- .(run_step)
    environment(run_step) <- globalenv()
    found <- .(call_all)(functions, .(params), .(x), run_step)
    stopifnot(isTRUE(all.equal(found, .(want))))
    cat("done\n")
  }), env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0", PJRT_CPU_DEVICE_COUNT = "2"))
  expect_clean(child, "done")
})

test_that("cluster and callr sessions call functions that they are sent", {
  child <- run_child(quote({
    f <- pjrt_function(pjrt_program(unary_program("2xf32")), as = "array")
    cluster <- parallel::makePSOCKcluster(1)
    cat(unlist(parallel::parLapply(cluster, list(c(1, 2), c(3, 4)), f)), "\n")
    parallel::stopCluster(cluster)
    cat(callr::r(function(f) f(c(5, 6)), list(f)), "\n")
  }), env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0"))
  expect_clean(child, c("2 4 6 8 ", "10 12 "))
})

test_that("futures call functions of the session that made them", {
  skip_if_not_installed("future")
  child <- run_child(quote({
    f <- pjrt_function(pjrt_program(unary_program("2xf32")), as = "array")
    x <- pjrt_buffer(c(7, 8))
    future::plan(future::multisession, workers = 2)
    later <- lapply(list(c(1, 2), c(3, 4)), function(values) future::future(f(values), seed = NULL))
    cat(unlist(lapply(later, future::value)), future::value(future::future(f(x))), "\n")
    future::plan(future::sequential)
  }), env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0"))
  expect_clean(child, "2 4 6 8 14 16 ")
})

test_that("missing and additional arguments are refused by name", {
  f <- network()
  params <- network_params()
  x <- matrix(1:8 / 8, 2)
  expect_refused(f(), "argument_count", "The function takes `params`, `x`: `params`, `x` are missing.")
  expect_refused(f(x = x), "argument_count", "The function takes `params`, `x`: `params` is missing.")
  expect_refused(f(params, ), "argument_count", "`x` is missing.")
  expect_refused(f(params, x, 1, 2), "argument_count", "The function takes `params`, `x`: got 2 too many.")
  error <- expect_refused(f(params, X = x), "argument_count", "it has no argument `X`.")
  expect_identical(conditionCall(error), quote(f(params, X = x)))
  many <- sprintf(
    "func.func @main(%s) -> tensor<f32> { return %%a1 : tensor<f32> }",
    paste0("%a", 1:30, ": tensor<f32>", collapse = ", ")
  )
  g <- pjrt_function(pjrt_program(many))
  expect_identical(as_array(do.call(g, as.list(1:30))), 1)
  expect_refused(do.call(g, as.list(1:29)), "argument_count", "`a30` is missing.")
  expect_refused(do.call(g, as.list(1:31)), "argument_count", "got 1 too many.")
})

test_that("elements of lists that are missing, unknown or of another kind are refused by name", {
  f <- network()
  params <- network_params()
  x <- matrix(1:8 / 8, 2)
  refused <- function(params, message, hint = NULL) {
    error <- expect_refused(f(params, x), "invalid_input", message)
    if (!is.null(hint)) expect_match(conditionMessage(error), hint, fixed = TRUE)
  }
  refused(params["hidden"], "There is no value for `params$out$b`, `params$out$w`.")
  refused(list(), "There is no value for `params$hidden$b`, `params$hidden$w`, `params$out$b`, `params$out$w`.")
  refused(c(params, z = 1), "The program has no argument `params$z`.", "The names there are `hidden`, `out`.")
  refused(c(params, list(params$out)), "The program has no argument `params[[3]]`.")
  refused(c(params, params["out"]), "There are several values for `params$out$b`.")
  refused(1, "`params` must be a list, not 1.", "Its elements are `hidden`, `out`.")
  refused(list(hidden = 1, out = params$out), "`params$hidden` must be a list, not 1.")
  refused(list(hidden = list(b = list(1), w = 1), out = params$out), "`params$hidden$b` must be an array, not a list.")
  expect_refused(f(params, NULL), "invalid_input", "There is no value for `x`.")
  names(params)[[2L]] <- NA
  refused(params, "names must not be NA")
  deep <- list(1)
  for (i in 1:200) deep <- list(hidden = deep)
  refused(deep, "`params$hidden$hidden`")
  # a call that fails does not disturb the next one
  expect_equal(as_array(f(network_params(), x)), network_in_r(network_params(), x), tolerance = 1e-5)
})

test_that("R arrays are converted to the program's dtype and shape, with checks", {
  f <- pjrt_function(compile(add_program("2x3xi8")))
  x <- matrix(1:6, 2)
  expect_identical(as_array(f(x, x + 0)), x + x)
  expect_refused(f(x, x * 100), "invalid_input", "Argument 2 (`%y`) has 5 values that i8 cannot hold")
  expect_refused(f(replace(x, 3, NA), x), "invalid_input", "Argument 1 (`%x`) has 1 NA value")
  expect_refused(f(x, x + 1i), "unsupported_dtype", "Argument 2 (`%y`): Unsupported type: i8 for complex data.")
  expect_identical(as_array(f(x, x > 1)), x + (x > 1))
  expected <- "Wrong shape of argument 2 (`%y`): expected i8[2x3], got "
  expect_refused(f(x, t(x)), "shape_mismatch", paste0(expected, "an array of 3x2."))
  expect_refused(f(x, 1:6), "shape_mismatch", paste0(expected, "a vector of length 6."))
  expect_refused(f(x, 1), "shape_mismatch", paste0(expected, "a vector of length 1."))
  expect_refused(f(x, pjrt_buffer(x)), "dtype_mismatch", "argument 2 (`%y`): expected i8[2x3], got i32[2x3]")
  expect_identical(as_array(f(x, as.data.frame(x))), x + x)
  expect_identical(as_array(f(x, I(x))), x + x)
  expect_identical(
    as_array(pjrt_function(compile(add_program("3xf32")))(ts(1:3), table(c(1, 2, 3)))), array(c(2, 3, 4))
  )
  error <- expect_refused(f(x, factor(x)), "invalid_input")
  expect_match(conditionMessage(error), "as.integer(x) gives a factor's codes", fixed = TRUE)
  for (bad in list("a", factor(x), as.raw(x), quote(x), mean, Sys.Date(), data.frame(a = "1"))) {
    expect_refused(f(x, bad), "invalid_input", "Argument 2 (`%y`) must be a `PJRTBuffer` or an R array of numbers, not")
  }
  scalar <- pjrt_function(compile(add_program("f64")))
  expect_identical(as_array(scalar(1L, 2)), 3)
  expect_refused(scalar(1, c(1, 2)), "shape_mismatch", "expected f64[], got a vector of length 2.")
  expect_refused(scalar(1, array(1, 1)), "shape_mismatch", "expected f64[], got an array of 1.")
  vector <- pjrt_function(compile(add_program("3xi64")))
  expect_bits(as_array(vector(1:3, bit64::as.integer64(c(1, 2, 2^40)))), int64(c(2, 4, 2^40 + 3)))
  complex <- pjrt_function(compile(add_program("2xcomplex<f32>")))
  expect_identical(as_array(complex(c(1i, 2), c(1i, 2))), array(c(2i, 4)))
  logical <- pjrt_function(compile(add_program("2xi1")))
  expect_refused(logical(c(TRUE, NA), c(TRUE, TRUE)), "invalid_input", "has 1 NA value")
})

test_that("arrays go to the executable's device, or to that of the buffers", {
  f <- pjrt_function(pjrt_program(add_program("2xf32")), device = "cpu:1")
  expect_identical(device(f(1:2, 3:4)), pjrt_device("cpu:1"))
  expect_refused(f(pjrt_buffer(c(1, 2)), 3:4), "device_mismatch")
  portable <- pjrt_compile_options(compile_portable_executable = TRUE)
  g <- pjrt_function(pjrt_program(add_program("2xf32")), compile_options = portable)
  expect_identical(device(g(1:2, pjrt_buffer(c(1, 2), device = "cpu:1"))), pjrt_device("cpu:1"))
  expect_identical(device(g(1:2, 3:4)), pjrt_device("cpu:0"))
  expect_output(print(g), "device: any of CpuDevice(id=0), CpuDevice(id=1)", fixed = TRUE)
})

test_that("donated inputs are taken over, and R arrays stay", {
  f <- pjrt_function(pjrt_program(add_program("2xf64", donates)))
  x <- pjrt_buffer(c(1, 2), "f64")
  y <- c(3, 4)
  expect_identical(as_array(f(x, y)), array(c(4, 6)))
  expect_true(is_deleted(x))
  expect_refused(f(x, y), "deleted_buffer", "Argument 1 (`%x`)")
  z <- c(1, 2)
  expect_identical(as_array(f(z, y)), array(c(4, 6)))
  expect_identical(z, c(1, 2))
  expect_output(print(f), "x: f64[2], donated", fixed = TRUE)
  large <- seq_len(1e5) + 0.5
  g <- pjrt_function(pjrt_program(add_program("100000xf64", donates)))
  expect_identical(as_array(g(large, large)), array(large + large))
  expect_identical(large, seq_len(1e5) + 0.5)
})

test_that("names are looked up again only if they change", {
  f <- pjrt_function(pjrt_program(linear))
  right <- array(c(14, 22))
  params <- list(b = 1:2, w = 3:4)
  for (i in 1:2) {
    expect_identical(as_array(f(params, 5:6)), right)
    expect_identical(as_array(f(list(w = 3:4, b = 1:2), 5:6)), right)
    names <- c("b", "w")
    expect_identical(as_array(f(structure(list(1:2, 3:4), names = names), 5:6)), right)
    # as deferred strings, and in another encoding
    latin1 <- enc2native(iconv(c("b", "w"), to = "latin1"))
    expect_identical(as_array(f(structure(list(1:2, 3:4), names = latin1), 5:6)), right)
  }
  expect_refused(f(list(b = 1:2, v = 3:4), 5:6), "invalid_input", "`params$v`")
  expect_refused(f(list(1:2, 3:4), 5:6), "invalid_input", "`params[[1]]`")
  # recursive calls, by garbage collection in the middle of a call
  withr::defer(torture(0))
  torture(3)
  result <- f(params, 5:6)
  torture(0)
  expect_identical(as_array(result), right)
})

test_that("dimensions choose the executable if a function has several", {
  described <- environment(pjrt_function(compile(add_program("2xf32"))))$.text
  described <- sub('"symbolic":false', '"symbolic":true', described, fixed = TRUE)
  make <- function(compile) pjrt:::make_function(described, list(as = "buffer", compile = compile))
  made <- list()
  compile_for <- function(inputs) {
    n <- length(inputs[[1L]])
    made[[length(made) + 1L]] <<- n
    compile(add_program(sprintf("%dxf32", n)))
  }
  f <- make(compile_for)
  for (n in c(2, 3, 2, 3, 5)) {
    expect_identical(as_array(f(seq_len(n), rep(1, n))), array(seq_len(n) + 1))
    expect_identical(as_array(f(pjrt_buffer(seq_len(n), "f32"), rep(1, n))), array(seq_len(n) + 1))
  }
  expect_identical(made, list(2L, 3L, 5L))
  # more than a function keeps
  for (n in 1:70) f(seq_len(n), seq_len(n))
  expect_identical(as_array(f(1:2, 1:2)), array(c(2, 4)))
  failing <- make(function(inputs) stop("not today"))
  expect_error(failing(1, 1), "not today")
  wrong <- make(function(inputs) compile(identity_program("f32")))
  expect_refused(wrong(1, 1), "internal", "The executable takes 1 arrays, but the function has 2.")
})

test_that("pjrt_function() refuses what is not a program", {
  for (bad in list(NULL, 1, "x", mean, pjrt_scalar(1), list())) {
    expect_refused(pjrt_function(bad), "invalid_input", "`x` must be a `PJRTLoadedExecutable`, a `PJRTExported` or")
  }
  add <- compile(add_program("f32"))
  expect_refused(pjrt_function(add, device = "cpu:0"), "invalid_input", "it has one already")
  expect_refused(pjrt_function(add, "buffer", NULL, NULL, 1), "invalid_input", "Unused arguments")
  expect_refused(pjrt_function(add, as = "list"), "invalid_input", "`as` must be one of")
  for (bad in list("a", c("a", "a"), c("a", NA), c("a", ""), c("a", "b.c"), c("...", "b"), 1:2)) {
    expect_refused(pjrt_function(add, arguments = bad), "invalid_input", "`arguments` must be")
  }
  expect_refused(pjrt_function(add, arguments = c(NA, "b")), "invalid_type", "must be names, and not NA")
  expect_refused(pjrt_function(add, arguments = c("...", "b")), "invalid_value", "brackets: got `...`.")
  expect_refused(pjrt_function(add, arguments = c("a", "a")), "invalid_value", "brackets: got `a`.")
})

test_that("functions print their signature, also without their program", {
  f <- network()
  expect_snapshot(f)
  expect_snapshot(pjrt_function(exported("unused")))
  expect_output(str(f), " PJRTFunction network(params$hidden$b: f32[8], params$hidden$w: f32[4x8]", fixed = TRUE)
  expect_match(format(f), "^network\\(")
  many <- sprintf(
    "func.func @main(%s) -> tensor<f32> { return %%a1 : tensor<f32> }",
    paste0("%a", 1:200, ": tensor<f32>", collapse = ", ")
  )
  lines <- utils::capture.output(print(pjrt_function(pjrt_program(many))))
  expect_true("    ... 190 more" %in% lines)
  for (method in list(pjrt:::print.PJRTFunction, pjrt:::format.PJRTFunction, pjrt:::str.PJRTFunction)) {
    expect_refused(method(mean), "invalid_input", "this package did not make it")
  }
})

# The network in the package, for any number of flowers, and its parameters.
iris_file <- function(name) system.file("exported", "iris-jax", name, package = "pjrt")

test_that("a function with symbolic dimensions is compiled for each shape that it is called with", {
  params <- pjrt_load_npy(iris_file("iris-params.npz"))
  predict <- pjrt_function(pjrt_load_exported(iris_file("iris-predict.jaxexport")), as = "array")
  expect_identical(names(formals(predict)), c("params", "x", "..."))
  expect_output(print(predict), "x: f32[n, 4]", fixed = TRUE)
  expect_output(print(predict), "f32[n, 3]", fixed = TRUE)
  x <- as.matrix(iris[1:4])
  scores <- predict(params, x)
  # computed by JAX
  expect_equal(scores[1, ], c(-5.292752393870614e-05, -9.847672462463379, -19.471130371), tolerance = 1e-5)
  expect_gt(mean(max.col(scores) == as.integer(iris$Species)), 0.95)
  for (rows in list(1L, 7:9, 100:150, 7:9)) {
    expect_equal(predict(params, x[rows, , drop = FALSE]), scores[rows, , drop = FALSE], tolerance = 1e-6)
  }
  expect_equal(predict(params, pjrt_buffer(x[1:2, ], "f32")), scores[1:2, ], tolerance = 1e-6)
  expect_refused(predict(params, x[, 1:3]), "shape_mismatch", "Dimension 2 of `x` must be 4, not 3")
  expect_refused(predict(params, 1:4), "shape_mismatch", "`x`")
  expect_refused(predict(params[-1], x), "invalid_input", "hidden$b")
  fixed <- pjrt_function(pjrt_load_exported(iris_file("iris-predict.jaxexport")), shapes = list(x = c(2, 4)))
  expect_refused(fixed(params, x), "shape_mismatch", "`x`")
})

test_that("a program whose dimensions have no sizes is compiled for each shape that it is called with", {
  program <- pjrt_program("func.func @main(%a: tensor<?x3xf32>, %b: tensor<?xf32>, %c: tensor<f32>)
    -> (tensor<?x3xf32> {jax.result_info = \"sum\"}, tensor<f32> {jax.result_info = \"length\"}) {
  %sum = stablehlo.add %a, %a : tensor<?x3xf32>
  %size = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %n = stablehlo.convert %size : (tensor<i32>) -> tensor<f32>
  %length = stablehlo.multiply %n, %c : tensor<f32>
  return %sum, %length : tensor<?x3xf32>, tensor<f32>
}")
  f <- pjrt_function(program, as = "array")
  expect_identical(names(formals(f)), c("a", "b", "c", "..."))
  expect_output(print(f), "a: f32[?, 3]", fixed = TRUE)
  expect_output(print(f), "sum: f32[?, 3]", fixed = TRUE)
  x <- matrix(1:12, 4)
  for (rows in list(1:4, 2L, 1:4)) {
    expect_equal(f(x[rows, , drop = FALSE], 1:5, 2), list(sum = 2 * x[rows, , drop = FALSE], length = 10))
  }
  expect_equal(f(pjrt_buffer(x, "f32"), pjrt_buffer(numeric(), "f32"), 2)$length, 0)
  again <- unserialize(serialize(f, NULL))
  expect_equal(again(x, 1, 1), list(sum = 2 * x, length = 1))
  expect_refused(f(x, 1:2, 1:2), "shape_mismatch", "`c`")
  expect_refused(f(x), "argument_count", "are missing")
  expect_refused(f(1, 1, 1), "shape_mismatch")
  twice <- pjrt_program("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = stablehlo.add %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}")
  step <- pjrt_step(pjrt_function(twice), state = c(x = 1))
  expect_equal(as_array(step(step(list(x = 1:3)))$x), array(4 * 1:3))
  fixed <- pjrt_function(twice, shapes = list(x = 2))
  expect_equal(as_array(fixed(1:2)), array(c(2, 4)))
  expect_refused(fixed(1:3), "shape_mismatch", "`x`")
  expect_refused(pjrt_function(twice, nonsense = 1), "invalid_input", "nonsense")
})

test_that("a derivative is a function of the arguments and the cotangents", {
  params <- as_array(pjrt_load_npy(iris_file("iris-params.npz")))
  species <- as.integer(iris$Species) - 1L
  x <- as.matrix(iris[1:4])
  loss <- pjrt_function(pjrt_load_exported(iris_file("iris-loss.jaxexport")), as = "array")
  gradient <- pjrt_function(pjrt_load_exported(iris_file("iris-loss.jaxexport"), vjp = TRUE), as = "array")
  slope <- gradient(params, x, species, 1)$args[[1]]
  # computed by JAX
  expect_equal(loss(params, x, species), 0.060745317, tolerance = 1e-6)
  expect_equal(c(slope$out$b), c(7.7901292e-05, -1.4948312e-02, 1.4870409e-02), tolerance = 1e-4)
  moved <- params
  moved$out.b <- moved$out.b + c(0, 0.01, 0)
  expect_equal((loss(moved, x, species) - loss(params, x, species)) / 0.01, slope$out$b[[2]], tolerance = 0.05)
})

test_that("an exported function knows its donated inputs, and is compiled by its first call", {
  step <- pjrt_load_exported(iris_file("iris-step.jaxexport"))
  expect_identical(step$inputs$donated, c(TRUE, TRUE, TRUE, TRUE, FALSE, FALSE, FALSE))
  executable <- pjrt_compile(step)
  expect_identical(step$inputs$donated, executable_info(executable)$inputs$donated)
  expect_identical(step$inputs$alias, executable_info(executable)$inputs$alias)
  expect_output(print(pjrt_function(step)), "params: donated\n      hidden\n        b: f32[8]\n", fixed = TRUE)
  expect_null(environment(pjrt_function(step))$.source$executable)
})
