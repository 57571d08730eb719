# Exported functions of flax, optax and equinox: the names of their arguments and results, and their numbers.
# Slow: compiles dozens of programs.

# The exports of flax, optax and equinox are made by src/rust/program/fixtures/exported/make_trees.py, with the numbers
# that JAX computes.
tree_export <- function(name) pjrt_load_exported(fixture(file.path("exported/trees", paste0(name, ".jaxexport"))))
tree_runs <- source(fixture("exported/trees/runs.R"), local = TRUE)$value

# The numbers of make_trees.py.
numbers <- function(...) array(sin(seq_len(prod(...))) / 2, c(...))
batches <- lapply(c(6, 3, 6), function(n) list(x = numbers(n, 4), y = numbers(n, 2)))

# An argument of an exported function with numbers in the place of arrays.
filled <- function(exported, tree) {
  map_tree(tree, function(row) {
    shape <- exported$inputs$shape[[row]]
    if (length(shape) == 0L) 0L else numbers(shape)
  })
}

# The losses of a loop, and then the arrays of its last state, as in runs.R.
expect_run <- function(losses, state, run) {
  expect_equal(losses, run[[1L]], tolerance = 1e-6)
  leaves <- flatten(as_array(state))
  expect_length(leaves, length(run) - 1L)
  for (i in seq_along(leaves)) expect_equal(as.vector(leaves[[i]]), run[[i + 1L]], tolerance = 2e-5)
}

test_that("a flax model trains with optax, from a state that JAX's own function makes", {
  made <- pjrt_function(tree_export("flax-init"))(key = c(0L, 0L))
  step <- pjrt_step(tree_export("flax-step"), outputs = "loss")
  expect_identical(names(formals(step)), c("state", "x", "y", "key", "..."))
  state <- list(params = made[[1]], opt_state = made[[2]])
  expect_identical(names(state$opt_state[[2]][[1]]), c("count", "mu", "nu"))
  expect_identical(state$opt_state[[1]], list())
  losses <- numeric()
  for (i in 1:3) {
    # a PRNG key, with data of symbolic shapes
    state <- step(state, batches[[i]]$x, batches[[i]]$y, key = c(0L, i - 1L))
    losses[[i]] <- as_array(state$loss)
  }
  expect_identical(names(state), c("params", "opt_state", "loss"))
  expect_identical(as_array(state$opt_state[[2]][[1]]$count), 3L)
  expect_run(losses, state[c("params", "opt_state")], tree_runs$flax)
  # by name, and by Python's spelling
  by_name <- pjrt_step(tree_export("flax-step"), state = c(opt_state = "[[2]]", params = "[0]"))
  expect_identical(names(formals(by_name)), names(formals(step)))
})

test_that("a dataclass is a list with the names of its fields", {
  exported <- tree_export("flax-state")
  step <- pjrt_step(exported)
  expect_identical(names(formals(step)), c("state", "batch", "rate", "..."))
  state <- list(state = filled(exported, exported$input_tree$args[[1]]))
  expect_identical(names(state$state), c("step", "params", "opt_state"))
  losses <- numeric()
  for (i in 1:3) {
    state <- step(state, batches[[i]], rate = 1)
    losses[[i]] <- as_array(state$loss)
  }
  expect_run(losses, state$state, tree_runs$state)
  expect_named(state$state$opt_state[[1]]$trace, c("Dense_0", "Dense_1"))
})

test_that("an equinox model is a list with the names of its fields, and None is NULL", {
  exported <- tree_export("equinox-step")
  step <- pjrt_step(exported, outputs = "loss")
  expect_identical(names(formals(step)), c("state", "x", "y", "..."))
  model <- filled(exported, exported$input_tree$args[[1]])
  expect_identical(names(model), c("layers", "", ""))
  expect_null(model[[3]])
  # empty states are empty lists or NULL, and None may be left out
  zero <- map_tree(model, function(leaf) 0 * leaf)
  state <- list(model = model["layers"], opt_state = list(list(trace = zero), NULL))
  losses <- numeric()
  for (i in 1:3) {
    state <- step(state, batches[[i]]$x, batches[[i]]$y)
    losses[[i]] <- as_array(state$loss)
  }
  expect_identical(state$opt_state[[2]], list())
  expect_run(losses, state[c("model", "opt_state")], tree_runs$equinox)
  # `None` also under its name, and classes with nothing but `None`
  for (nothing in list(NULL, list(), list(NULL), list(p = NULL, list(NULL)))) {
    state$model <- list(layers = state$model$layers, activation = nothing, final_activation = NULL)
    for (i in 1:2) state <- step(state, batches[[1]]$x, batches[[1]]$y)
    expect_gt(as_array(state$loss), 0)
  }
  state$model <- list(layers = state$model$layers, activation = 1)
  expect_refused(
    step(state, batches[[1]]$x, batches[[1]]$y), "invalid_input",
    "`model$activation` must be NULL or an empty list: the program takes no arrays there."
  )
})

test_that("every container is a list, with names where Python has them", {
  exported <- tree_export("containers")
  f <- pjrt_function(exported)
  # without arrays, an argument needs no value; the arguments of `*more` are a list
  expect_identical(names(formals(f)), c("data", "x2", "x3", "pair", "more", "empty", "last", "plain", "..."))
  data <- list(
    `linear/~/w` = list(numbers(2), NULL), b.c = list(0.5, list()), `it's` = list(first = NULL, second = numbers(3))
  )
  more <- numbers(2)
  result <- as_array(f(
    data, pair = list(first = more), more = list(more, list(a = more)), last = list(first = list(first = 3)),
    plain = list(more)
  ))
  expect_null(names(result))
  expect_identical(names(result[[1]]), c("first", "second"))
  doubled <- result[[1]]$first
  expect_equal(doubled$`linear/~/w`, list(2 * numbers(2), NULL), tolerance = 1e-6)
  expect_equal(doubled$b.c, list(1, list()), tolerance = 1e-6)
  expect_equal(doubled$`it's`, list(first = NULL, second = 2 * numbers(3)), tolerance = 1e-6)
  expect_equal(result[[1]]$second, list(NULL, list(), list(3 * more)), tolerance = 1e-6)
  expect_null(result[[2]])
  last <- list(first = list(first = 3, second = NULL), second = list())
  expect_equal(result[[3]]$others, list(empty = list(), last = last))
  expect_equal(result[[3]]$plain, list(more, NULL), tolerance = 1e-6)
  # fields by position
  again <- f(
    data, pair = list(more), more = list(more, list(a = more)), last = list(list(3)), plain = list(more)
  )
  expect_identical(as_array(again), result)
  for (wrong in list(1, list(1), list(NULL, list(more)))) {
    expect_refused(
      f(data, pair = list(more, wrong), more = list(more, list(a = more)), last = list(list(3)), plain = list(more)),
      "invalid_input", "`pair$second` must be NULL or an empty list: the program takes no arrays there."
    )
  }
  expect_refused(
    f(data, pair = list(more), more = list(more), last = list(list(3)), plain = list(more)), "invalid_input",
    "There is no value for `more[[2]]$a`."
  )
})

test_that("names have one spelling in files, errors, printing and states", {
  step <- tree_export("flax-step")
  expect_identical(step$inputs$path[[5]], "args[1][1][0].count")
  expect_identical(step$inputs$name[[5]], "opt_state[1][0].count")
  expect_identical(step$outputs$path[[5]], "result[1][1][0].count")
  expect_named(step$input_tree$args[[2]][[2]][[1]], c("count", "mu", "nu"))
  expect_identical(attr(step$input_tree$args[[2]][[2]][[1]], "type"), "optax.ScaleByAdamState")
  f <- pjrt_function(step)
  made <- pjrt_function(tree_export("flax-init"))(c(0L, 0L))
  call <- function(change) {
    state <- made[[2]]
    state[[2]][[1]] <- change(state[[2]][[1]])
    f(made[[1]], state, batches[[1]]$x, batches[[1]]$y, c(0L, 0L))
  }
  expect_refused(call(function(adam) adam[-1]), "invalid_input", "There is no value for `opt_state[[2]][[1]]$count`.")
  error <- expect_refused(
    call(function(adam) c(adam, list(m = 1))), "invalid_input", "has no argument `opt_state[[2]][[1]]$m`"
  )
  expect_match(conditionMessage(error), "The names there are `count`, `mu`, `nu`.", fixed = TRUE)
  expect_refused(
    call(function(adam) replace(adam, "count", list(1:2))), "shape_mismatch", "(`opt_state[[2]][[1]]$count`)"
  )
  containers <- pjrt_function(tree_export("containers"))
  expect_refused(
    containers(
      list(`linear/~/w` = list(1), b.c = list(1), `it's` = list()), pair = list(1), more = list(1, list()),
      last = list(list(1)), plain = list(1)
    ),
    "invalid_input", "data$`it's`$second`"
  )
  expect_error(pjrt_step(f, state = c(params = "new")), "There are 3: `[[1]]`, `[[2]]`, `[[3]]`.", fixed = TRUE)
  # saved and compiled functions know them too
  expect_identical(format(unserialize(serialize(f, NULL))), format(f))
  compiled <- pjrt_function(pjrt_compile(tree_export("flax-init")))
  expect_identical(format(compiled), format(pjrt_function(tree_export("flax-init"))))
  expect_named(compiled(c(0L, 0L))[[2]][[2]][[1]], c("count", "mu", "nu"))
})

test_that("a summary has each array of a function or a step, by the same names", {
  f <- pjrt_function(tree_export("flax-step"))
  arrays <- summary(f)
  expect_named(arrays$inputs, c("name", "type", "kept", "donated"))
  expect_identical(arrays$inputs$name[c(5, 15, 17)], c("opt_state[[2]][[1]]$count", "x", "key"))
  expect_identical(arrays$inputs$type[c(5, 15, 17)], c("i32[]", "f32[n, 4]", "key<fry>[]"))
  expect_identical(arrays$inputs$donated, rep(c(TRUE, FALSE), c(14, 3)))
  expect_identical(arrays$outputs$name[c(1, 15)], c("[[1]]$params$Dense_0$bias", "[[3]]"))
  step <- summary(pjrt_step(f, outputs = "loss"))
  expect_identical(step$inputs$from[c(5, 17)], c("[[2]][[2]][[1]]$count", NA))
  expect_identical(step$outputs$name[c(5, 15)], c("opt_state[[2]][[1]]$count", "loss"))
  # without names of outputs, and without inputs
  constant <- pjrt_program("func.func @main() -> (tensor<2xf32>, tensor<f32>) {
    %0 = stablehlo.constant dense<1.0> : tensor<2xf32>
    %1 = stablehlo.constant dense<2.0> : tensor<f32>
    return %0, %1 : tensor<2xf32>, tensor<f32>
  }")
  arrays <- summary(pjrt_function(constant))
  expect_identical(dim(arrays$inputs), c(0L, 4L))
  expect_identical(arrays$outputs, data.frame(name = c("", ""), type = c("f32[2]", "f32[]")))
})

test_that("exported functions, functions and steps print trees of names", {
  expect_snapshot(tree_export("flax-state"))
  expect_snapshot(pjrt_step(tree_export("flax-step")))
  expect_snapshot(pjrt_function(tree_export("containers")))
})

test_that("an argument that is not used does not take the name of another one", {
  f <- pjrt_function(tree_export("numbered"), as = "array")
  expect_identical(names(formals(f)), c("x1_1", "x1", "..."))
  expect_identical(as.vector(f(c(1, 1, 1), x1 = c(5, 6, 7))), c(10, 12, 14))
  expect_identical(as.vector(f(x1 = c(5, 6, 7))), c(10, 12, 14))
  error <- expect_error(f(unused = 1, x1 = c(5, 6, 7)), "it has no argument `unused`", class = "pjrt_error")
  expect_identical(grepl("not in the file", conditionMessage(error)), TRUE)
})

test_that("a result that as a whole is the next state is chosen by the argument alone", {
  text <- "func.func @main(%params.w: tensor<2xf32>, %params.b: tensor<f32>, %x: tensor<2xf32>)
      -> (tensor<2xf32> {jax.result_info = \"w\"}, tensor<f32> {jax.result_info = \"b\"}) {
    %0 = stablehlo.add %params.w, %x : tensor<2xf32>
    %1 = stablehlo.add %params.b, %params.b : tensor<f32>
    return %0, %1 : tensor<2xf32>, tensor<f32>
  }"
  f <- pjrt_function(compile(text))
  expect_error(pjrt_step(f), "If the whole result is the next `params`, pass `state = \"params\"`",
    fixed = TRUE, class = "pjrt_error"
  )
  step <- pjrt_step(f, "params")
  state <- step(step(list(params = list(w = c(1, 2), b = 1)), c(1, 1)), c(1, 1))
  expect_identical(lapply(as_array(state$params), as.vector), list(w = c(3, 4), b = 4))
})

test_that("keys that are equal in other spellings stand for different arrays", {
  f <- pjrt_function(tree_export("spellings"), as = "array")
  parts <- list(
    x = 1, `x'` = 2, a.b = 3, a = list(b = 4), `"` = 5, `%c` = 6, l = list(7), `l[0]` = 8, s = 1000, s. = 9
  )
  expected <- 1 + 2 * 2 + 4 * 3 + 8 * 4 + 16 * 5 + 32 * 6 + 64 * 7 + 128 * 8 + 256 * 9
  expect_identical(as.vector(f(parts)), expected)
  expect_identical(as.vector(f(rev(parts))), expected)
  # not the array of another key
  expect_error(f(parts[names(parts) != "s."]), "There is no value for `d$s.`", fixed = TRUE, class = "pjrt_error")
  expect_error(f(parts[names(parts) != "a"]), "There is no value for `d$a$b`", fixed = TRUE, class = "pjrt_error")
})

test_that("results that a program asks for in another kind of memory are where the plugin has them", {
  exported <- tree_export("placed")
  expect_identical(lapply(pjrt_function(exported, as = "array")(c(1, 2, 3)), as.vector), list(c(2, 4, 6), c(2, 3, 4)))
  text <- as.character(exported$program)
  expect_match(text, "annotate_device_placement", fixed = TRUE)
  for (result in pjrt_execute(compile(text), pjrt_buffer(c(1, 2, 3)))) expect_identical(shape(result), 3L)
})

test_that("a step keeps the arrays of its state that the program writes and does not read", {
  step <- pjrt_step(tree_export("advance"))
  state <- list(state = list(last = 5, now = list(loss = 7, w = c(1, 1, 1), step = 0L)))
  for (i in 1:2) state <- step(state, c(1, 2, 3))
  expect_identical(names(state), "state")
  now <- as_array(state$state$now)
  expect_identical(names(now), c("loss", "w", "step"))
  # the first step makes w 0.9, 0.8, 0.7
  expect_equal(as.vector(now$loss), sum((c(0.9, 0.8, 0.7) * 1:3 - 1)^2), tolerance = 1e-6)
  expect_equal(as.vector(now$w), c(0.8, 0.6, 0.4), tolerance = 1e-6)
  expect_equal(as.vector(as_array(state$state$last)), 2 * as.vector(now$loss), tolerance = 1e-6)
  # a checkpoint has all of the state
  path <- withr::local_tempfile(fileext = ".safetensors")
  pjrt_save_safetensors(state, path)
  expect_identical(as_array(pjrt_load_safetensors(path, like = state)), as_array(state))
})

test_that("a function that uses a part of a Python object takes all of it", {
  score <- pjrt_function(tree_export("score"), as = "array")
  now <- list(loss = 7, w = c(1, 2, 3), step = 0L)
  expect_identical(as.vector(score(list(now = now, last = 5), c(1, 1, 1))), c(1, 2, 3))
  # also once it knows the names, and by position
  expect_identical(as.vector(score(list(now = now, last = 5), c(2, 2, 2))), c(2, 4, 6))
  expect_identical(as.vector(score(list(now = unname(now), last = 5), c(1, 1, 1))), c(1, 2, 3))
  # the file does not have the names of fields that the program does not use, but it has their number
  too_many <- "`state$now` must have at most 3 elements, not 4."
  for (more in list(c(now, list(other = 1)), c(unname(now), 1), c(now["w"], list(1, 2, NULL)))) {
    error <- expect_refused(score(list(now = more, last = 5), c(1, 1, 1)), "invalid_input", too_many)
    expect_match(conditionMessage(error), "The known names are `w`.", fixed = TRUE)
  }
  names(now)[[2L]] <- "v"
  expect_error(score(list(now = now, last = 5), c(1, 1, 1)), "There is no value for `state$now$w`",
    fixed = TRUE, class = "pjrt_error"
  )
})

test_that("a function that returns None returns NULL", {
  for (as in c("array", "buffer")) expect_null(pjrt_function(tree_export("nothing"), as = as)(c(1, 2, 3)))
})
