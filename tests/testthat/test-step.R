# The exported programs are made by src/rust/program/fixtures/exported/make.py.
exported <- function(name) pjrt_load_exported(fixture(file.path("exported", paste0(name, ".jaxexport"))))

logistic <- function() pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt"))

logistic_step <- function(...) pjrt_step(logistic(), state = c(weights = 1, velocity = 2), ...)

test_that("a loop feeds donated state back", {
  step <- logistic_step(outputs = "loss")
  expect_identical(names(formals(step)), c("state", "features", "labels", "rate", "momentum", "..."))
  features <- matrix(sin(1:500), 100)
  labels <- rep(c(0, 1), 50)
  state <- list(weights = numeric(5), velocity = numeric(5))
  weights <- velocity <- numeric(5)
  losses <- numeric()
  for (i in 1:5) {
    before <- state
    state <- step(state, features, labels, rate = 0.1, momentum = 0.9)
    losses[[i]] <- as_array(state$loss)
  }
  expect_identical(names(state), c("weights", "velocity", "loss"))
  expect_true(all(diff(losses) < 0))
  # donated
  expect_true(is_deleted(before$weights))
  # the same with pjrt_execute()
  run <- pjrt_compile(logistic())
  w <- pjrt_buffer(numeric(5), "f64")
  v <- pjrt_buffer(numeric(5), "f64")
  fixed <- list(
    features = pjrt_buffer(features, "f64"), labels = pjrt_buffer(labels, "f64"), rate = pjrt_scalar(0.1, "f64"),
    momentum = pjrt_scalar(0.9, "f64")
  )
  for (i in 1:5) {
    out <- do.call(pjrt_execute, c(run, fixed, weights = w, velocity = v))
    w <- out[[1]]
    v <- out[[2]]
  }
  expect_identical(as_array(state$weights), as_array(w))
  expect_identical(as_array(state$velocity), as_array(v))
})

test_that("outputs replace the arguments that they have the names of", {
  step <- pjrt_step(exported("train"))
  expect_identical(names(formals(step)), c("state", "x", "y", "rate", "..."))
  model <- list(w = c(0.1, 0.2, 0.3), b = 0.5)
  momentum <- list(w = c(1, 2, 3), b = 4)
  x <- matrix(sin(1:12), 4)
  y <- cos(1:4)
  state <- list(momentum = momentum, params = model)
  for (i in 1:3) {
    state <- step(state, x, y, rate = 0.1)
    error <- as.vector(x %*% model$w) + model$b - y
    momentum$w <- 0.5 * momentum$w + 2 * colMeans(error * x)
    momentum$b <- 0.5 * momentum$b + 2 * mean(error)
    model$w <- model$w - 0.1 * momentum$w
    model$b <- model$b - 0.1 * momentum$b
    expect_equal(as_array(state$loss), mean(error^2), tolerance = 1e-5)
  }
  found <- as_array(state)
  expect_identical(names(found), c("params", "momentum", "loss"))
  for (part in c("w", "b")) {
    expect_equal(as.vector(found$params[[part]]), model[[part]], tolerance = 1e-5)
    expect_equal(as.vector(found$momentum[[part]]), momentum[[part]], tolerance = 1e-5)
  }
  # only some of them
  one <- pjrt_step(exported("train"), state = "params")
  expect_identical(names(formals(one)), c("state", "momentum", "x", "y", "rate", "..."))
  expect_identical(names(one(list(params = model), momentum, x, y, 0.1)), c("params", "loss", "momentum"))
})

test_that("`state` says which outputs replace arguments", {
  expect_refused(pjrt_step(exported("update")), "invalid_input", "No output of `update` replaces an argument")
  model <- list(w = c(0.1, 0.2, 0.3), b = 0.5)
  x <- matrix(sin(1:12), 4)
  y <- cos(1:4)
  step <- pjrt_step(exported("update"), state = c(params = 1), outputs = "more")
  state <- step(list(params = model), x, y)
  expect_identical(names(state), c("params", "more"))
  expect_length(state$more, 2)
  again <- step(state, x, y)
  expect_lt(as_array(again$more[[1]]), as_array(state$more[[1]]))
  unnamed <- pjrt_step(exported("update"), state = c(params = 1))
  expect_identical(names(unnamed(list(params = model), x, y)), c("params", "output2"))
  expect_refused(pjrt_step(exported("update"), state = c(params = 3)), "invalid_input", "there is no output `3`")
  expect_refused(
    pjrt_step(exported("update"), state = c(params = 2)), "invalid_input", "There is no output for `params$b`."
  )
  expect_refused(pjrt_step(exported("update"), state = c(params = "new")), "invalid_input", "there is no output `new`")
  # only one output has the structure of `params`
  expect_identical(
    names(pjrt_step(exported("update"), state = "params")(list(params = model), x, y)), c("params", "output2")
  )
  expect_refused(pjrt_step(exported("update"), state = "x"), "invalid_input", "There is no output for `x`.")
  for (bad in list("z", c("params", "params"), 1, NA, character(), c(z = 1), list("params"))) {
    expect_refused(pjrt_step(exported("update"), state = bad), "invalid_input", "`state` must")
  }
  expect_refused(
    pjrt_step(exported("update"), state = c(params = 1), outputs = "params"), "invalid_input",
    "`outputs` must name the other outputs: `params` is in the state."
  )
  # chosen outputs that do not fit
  expect_refused(
    pjrt_step(exported("train"), state = c(params = "momentum", momentum = "momentum")), "invalid_input",
    "Output `momentum$b` cannot replace `momentum$b`: it replaces another argument already."
  )
  expect_refused(
    pjrt_step(exported("train"), state = c(x = "loss")), "invalid_input",
    "Output `loss` cannot replace `x`: it is f32[], and the argument is f32["
  )
  swapped <- pjrt_step(exported("train"), state = c(params = "momentum"))
  expect_identical(names(swapped(list(params = model), model, x, y, 0.1)), c("params", "loss", "params_1"))
})

# A program that returns new values of its first arguments, all donated, in this order.
updates <- function(order, types, names = rep("", length(order))) {
  names <- ifelse(nzchar(names), sprintf(" {jax.result_info = \"%s\"}", names), "")
  compile(sprintf(
    "func.func public @main(%s) -> (%s) {\n  return %s : %s\n}",
    toString(sprintf("%%a%d: tensor<%s> {jax.buffer_donor = true}", seq_along(types), types)),
    toString(sprintf("tensor<%s>%s", types[order], names)), toString(sprintf("%%a%d", order)),
    toString(sprintf("tensor<%s>", types[order]))
  ))
}

test_that("donation alone does not decide which output replaces an argument", {
  # JAX gives the memory of the first donated argument to the first output of its shape
  swapped <- exported("swapped")
  expect_refused(
    pjrt_step(swapped), "invalid_input",
    "Names do not say which output replaces `params` and which `m`: output 1, output 2 have"
  )
  expect_refused(pjrt_step(swapped, state = "m"), "invalid_input", "which output replaces `m`: output 1, output 2")
  step <- pjrt_step(swapped, state = c(params = 2, m = 1))
  state <- list(params = c(1, 2), m = c(3, 4))
  for (i in 1:2) state <- step(state, x = c(1, 1))
  m <- 0.9 * (0.9 * c(3, 4) + 1) + 1
  params <- c(1, 2) - 0.1 * c(3, 4) - 0.1 * (0.9 * c(3, 4) + 1)
  expect_equal(as_array(state), list(params = array(params), m = array(m)), tolerance = 1e-6)
  expect_refused(
    pjrt_step(updates(2:1, c("2xf32", "2xf32"))), "invalid_input", "output 1, output 2 have the same structure"
  )
  # no example that trains the wrong arrays if it is followed as it is
  hint <- conditionMessage(tryCatch(pjrt_step(swapped), error = identity))
  expect_match(hint, "Choose with `state = c(params = ..., m = ...)`", fixed = TRUE)
  # nothing is donated, so the structure decides only if asked to
  plain <- pjrt_program(src = "
func.func @main(%p: tensor<2xf32>, %x: tensor<f32>) -> (tensor<f32>, tensor<2xf32>) {
  %loss = stablehlo.negate %x : tensor<f32>
  %new = stablehlo.negate %p : tensor<2xf32>
  return %loss, %new : tensor<f32>, tensor<2xf32>
}")
  expect_refused(pjrt_step(plain), "invalid_input", "If output 2 is the next `p`, pass `state = \"p\"`")
  expect_equal(as_array(pjrt_step(plain, "p")(list(p = c(1, 2)), 3)), list(p = array(c(-1, -2)), output1 = -3))
  # nor does it name the first of two arguments that one output could replace
  sum <- pjrt_program(add_program("2xf32"))
  expect_refused(pjrt_step(sum), "invalid_input", "Choose with `state = c(x = ..., y = ...)`")
  # one argument could be replaced by either of two outputs
  expect_refused(pjrt_step(updates(c(1, 1), "2xf32")), "invalid_input", "replaces `a1`: output 1, output 2")
  expect_refused(
    pjrt_step(updates(1, c("2xf32", "2xf32"))), "invalid_input", "replaces `a1` and which `a2`: output 1 has"
  )
})

test_that("names, and structures that occur once, decide", {
  types <- c("2xf32", "3xf32")
  step <- pjrt_step(updates(2:1, types))
  expect_identical(as_array(step(list(a1 = 1:2, a2 = 3:5))), list(a1 = array(c(1, 2)), a2 = array(c(3, 4, 5))))
  step <- pjrt_step(updates(2:1, c("2xf32", "2xf32"), c("a2", "a1")))
  expect_identical(as_array(step(list(a1 = 1:2, a2 = 3:4))), list(a1 = array(c(1, 2)), a2 = array(c(3, 4))))
  # optax's order: loss, state of the optimizer, parameters
  step <- pjrt_step(exported("ordinary"))
  state <- step(list(params = list(w = c(1, 2), b = 3), opt = list(c(0, 0), 0)), x = c(1, 1))
  expect_identical(names(state), c("params", "opt", "output1"))
  expect_identical(names(state$params), c("b", "w"))
})

test_that("a single output can be the state", {
  step <- pjrt_step(exported("donated"))
  state <- list(x = 1:4)
  for (i in 1:3) state <- step(state, 1:4)
  expect_identical(as_array(state), list(x = array(c(4, 8, 12, 16))))
  by_position <- pjrt_step(compile(add_program("2xf32")), state = c(y = 1))
  expect_identical(as_array(by_position(list(y = 1:2), 3:4)), list(y = array(c(4, 6))))
  # an argument of the name of the first one
  clash <- pjrt_step(compile(gsub("%y", "%state", add_program("2xf32"))), state = c(x = 1))
  expect_identical(names(formals(clash)), c("state_1", "state", "..."))
  expect_identical(as_array(clash(list(x = 1:2), state = 3:4)), list(x = array(c(4, 6))))
})

test_that("what is not a state is refused", {
  step <- logistic_step()
  call <- function(state) step(state, matrix(0, 100, 5), numeric(100), 0.1, 0.9)
  expect_identical(names(call(list(weights = numeric(5), velocity = numeric(5), other = "ignored"))[3]), "output3")
  expect_refused(call(list()), "invalid_input", "There is no value for `weights`, `velocity`.")
  expect_refused(call(list(weights = numeric(5))), "invalid_input", "There is no value for `velocity`.")
  expect_refused(call(list(weights = numeric(5), velocity = list())), "invalid_input", "`velocity` must be an array")
  for (bad in list(1, NULL, pjrt_scalar(1), "weights")) {
    expect_refused(call(bad), "invalid_input", "The state must be a named list of the arguments that change, not")
  }
  expect_refused(step(list(), 1), "argument_count", "`labels`, `rate`, `momentum` are missing.")
  for (bad in list(1, NA_character_, "")) {
    expect_refused(logistic_step(outputs = bad), "invalid_input", "`outputs` must be")
  }
  expect_refused(logistic_step(outputs = c("a", "b")), "invalid_input", "has 2 names, but the program has 1 other")
  expect_refused(pjrt_step(mean), "invalid_input", "`f` must be a `PJRTFunction`, or what pjrt_function() takes, not")
})

test_that("steps print what becomes of their outputs", {
  step <- logistic_step(outputs = "loss")
  expect_snapshot(step)
  expect_snapshot(pjrt_step(exported("train")))
  expect_output(str(step), "^ PJRTStep logistic_step\\(")
  expect_identical(
    utils::capture.output(print(unserialize(serialize(step, NULL)))), utils::capture.output(print(step))
  )
})
