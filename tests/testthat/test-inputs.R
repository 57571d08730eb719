# y = params$w * x - params$b
linear <- "func.func @main(%params.b: tensor<2xf32>, %params.w: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.multiply %params.w, %x : tensor<2xf32>
  %1 = stablehlo.subtract %0, %params.b : tensor<2xf32>
  return %1 : tensor<2xf32>
}"
buffers <- function(...) lapply(list(...), pjrt_buffer)

# scale * x + bias - layers[0] - layers[1], as JAX writes it
named <- function(form) {
  pjrt_compile(pjrt_program(path = fixture(paste0("named.", form)), format = if (form == "hlo.pb") "hlo" else "mlir"))
}

test_that("inputs are matched by name, in all spellings of a name", {
  run <- compile(linear)
  v <- buffers(b = c(1, 2), w = c(3, 4), x = c(5, 6))
  right <- array(c(14, 22))
  expect_identical(as_array(pjrt_execute(run, v$b, v$w, v$x)), right)
  expect_identical(as_array(pjrt_execute(run, x = v$x, params.w = v$w, params.b = v$b)), right)
  expect_identical(as_array(pjrt_execute(run, x = v$x, `params['w']` = v$w, `params["b"]` = v$b)), right)
  expect_identical(as_array(pjrt_execute(run, `%x` = v$x, `params$w` = v$w, `params/b` = v$b)), right)
  expect_identical(as_array(pjrt_execute(run, x = v$x, params = list(w = v$w, b = v$b))), right)
  expect_identical(as_array(pjrt_execute(run, params = list(w = v$w, b = v$b), x = v$x, check = FALSE)), right)
})

test_that("inputs without a name fill the positions that are left, in order", {
  run <- compile(linear)
  v <- buffers(b = c(1, 2), w = c(3, 4), x = c(5, 6))
  right <- array(c(14, 22))
  expect_identical(as_array(pjrt_execute(run, v$b, v$x, params.w = v$w)), right)
  expect_identical(as_array(pjrt_execute(run, x = v$x, v$b, v$w)), right)
  expect_identical(as_array(pjrt_execute(run, list(v$b, v$w), v$x)), right)
  expect_identical(as_array(pjrt_execute(run, list(list(v$b), list(), list(list(v$w), v$x)))), right)
  expect_identical(as_array(pjrt_execute(run, list(x = v$x), list(v$b, v$w))), right)
})

test_that("`inputs` takes one list of all inputs", {
  run <- compile(linear)
  v <- buffers(b = c(1, 2), w = c(3, 4), x = c(5, 6))
  right <- array(c(14, 22))
  expect_identical(as_array(pjrt_execute(run, inputs = unname(v))), right)
  expect_identical(as_array(pjrt_execute(run, inputs = list(x = v$x, params = v[c("w", "b")]))), right)
  expect_refused(pjrt_execute(run, v$x, inputs = v), "invalid_input", "`inputs` must contain all inputs: got 1 more")
  for (bad in list(1, v$x, "x", data.frame(x = 1), pairlist(v$x))) {
    expect_refused(pjrt_execute(run, inputs = bad), "invalid_input", "`inputs` must be a list of buffers, not")
  }
  # names that are arguments of pjrt_execute() itself
  own <- compile("func.func @main(%check: tensor<f32>, %inputs: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.subtract %check, %inputs : tensor<f32>
    return %0 : tensor<f32>
  }")
  expect_identical(as_array(pjrt_execute(own, inputs = list(inputs = pjrt_scalar(1), check = pjrt_scalar(3)))), 2)
})

test_that("inputs whose names do not fit are refused", {
  run <- compile(linear)
  x <- pjrt_buffer(c(1, 2))
  for (check in c(TRUE, FALSE)) {
    refused <- function(message, ...) expect_refused(pjrt_execute(run, ..., check = check), "invalid_input", message)
    error <- refused("The program has no argument `y`. Expected unnamed arguments, or its names.", x, x, y = x)
    expect_match(conditionMessage(error), "Its argument names are `%params.b`, `%params.w`, `%x`.", fixed = TRUE)
    refused("The program has no arguments `y`, `params/w/k`.", x = x, y = x, params = list(w = list(k = x)))
    refused("The program has no argument `param`.", x, x, param = x)
    refused("More than one input is given for argument `%params.w`.", x, params.w = x, params = list(w = x))
    refused("3 arguments, but 2 of them have no input: number 1 (`%params.b`), number 2 (`%params.w`).", x = x)
    refused("takes 3 arguments, but got 4 inputs: 1 too many without a name.", x, x, x, x = x)
    refused("Argument 3 (`%x`) must be a `PJRTBuffer`, not NULL", x = NULL, x, x)
    refused("Argument 3 (`%x`) must be a `PJRTBuffer`, not an object of class <data.frame>", x = data.frame(), x, x)
  }
  expect_refused(
    pjrt_execute(run, inputs = structure(list(x), names = NA_character_)), "invalid_input",
    "tree names must not be NA"
  )
})

test_that("lists that are nested too deep are refused with the same error wherever they are taken", {
  child <- run_child(quote({
    nested <- function(x, levels) {
      for (i in seq_len(levels)) x <- list(x)
      x
    }
    x <- pjrt_buffer(c(1, 2))
    square <- pjrt_program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.multiply %x, %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }")
    run <- pjrt_compile(square)
    f <- pjrt_function(square)
    params <- pjrt_program("func.func @main(%p.w: tensor<2xf32>) -> tensor<2xf32> { return %p.w : tensor<2xf32> }")
    g <- pjrt_function(params)
    deep <- nested(x, 10001)
    takers <- list(
      pjrt_execute = function() pjrt_execute(run, deep), inputs = function() pjrt_execute(run, inputs = list(x = deep)),
      pjrt_function = function() f(deep), list = function() g(list(w = x, z = deep)),
      build_tree = function() build_tree(deep), flatten = function() flatten(deep),
      map_tree = function() map_tree(deep, identity),
      safetensors = function() pjrt_save_safetensors(list(x = deep), tempfile())
    )
    for (name in names(takers)) {
      error <- tryCatch(takers[[name]](), pjrt_error_invalid_input = identity)
      cat(name, conditionMessage(error), "\n")
    }
    # what is as deep as it may be
    rm(deep)
    most <- nested(x, 9999)
    cat(as_array(pjrt_execute(run, most)), length(flatten(most)), "\n")
    rm(takers, most)
    invisible(gc())
  }))
  takers <- c(
    "pjrt_execute", "inputs", "pjrt_function", "list", "build_tree", "flatten", "map_tree", "safetensors"
  )
  expect_clean(child, c(
    paste(takers, "A list is nested too deep: it may have at most 10000 levels. "), "1 4 1 "
  ))
})

test_that("names that a compiler has numbered are not names", {
  same <- compile("func.func @main(%arg0: tensor<f32>) -> tensor<f32> { return %arg0 : tensor<f32> }")
  expect_refused(pjrt_execute(same, arg0 = pjrt_scalar(1)), "invalid_input", "The program has no argument names")
  square <- pjrt_compile(pjrt_program(path = fixture("square.mlirbc")))
  x <- pjrt_buffer(matrix(1:4 + 0, 2))
  expect_refused(pjrt_execute(square, x = x), "invalid_input", "Expected unnamed arguments")
})

test_that("names that fit several arguments are refused", {
  twins <- compile("func.func @main(%a.b: tensor<f32>, %a$b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a.b, %a$b : tensor<f32>
    return %0 : tensor<f32>
  }")
  x <- pjrt_scalar(1)
  expect_refused(
    pjrt_execute(twins, x, a.b = x), "invalid_input", "The name `a.b` fits several arguments: `%a.b`, `%a$b`."
  )
  expect_identical(as_array(pjrt_execute(twins, x, x)), 2)
})

test_that("the names of JAX are read from text, portable artifacts and HLO modules", {
  v <- buffers(scale = c(2, 3), bias = c(10, 20), zero = c(1, 2), one = c(3, 4), x = c(5, 6))
  right <- array(c(2 * 5 + 10 - 1 - 3, 3 * 6 + 20 - 2 - 4))
  for (form in c("mlir", "artifact", "hlo.pb")) {
    run <- named(form)
    expect_identical(
      executable_info(run)$inputs$name,
      c("params['dense_0']['bias']", "params['dense_0']['scale']", "params['layers'][0]", "params['layers'][1]", "x")
    )
    params <- list(layers = list(v$zero, v$one), dense_0 = v[c("scale", "bias")])
    out <- pjrt_execute(run, x = v$x, params = params)
    expect_identical(as_array(out[[2L]]), right)
    out <- pjrt_execute(run, v$x, params = params, simplify = FALSE)
    expect_identical(as_array(out[[2L]]), right)
    expect_refused(pjrt_execute(run, v$x, params = params[1L]), "invalid_input", "2 of them have no input: number 2")
  }
})

test_that("several outputs have the names of JAX", {
  v <- rep(list(pjrt_buffer(c(1, 2))), 5)
  for (form in c("mlir", "artifact")) {
    run <- named(form)
    expect_identical(executable_info(run)$outputs$name, c("loss", "out$y"))
    expect_identical(names(pjrt_execute(run, v)), c("loss", "out$y"))
    expect_output(print(summary(run)), "out$y", fixed = TRUE)
    again <- pjrt_deserialize(pjrt_serialize(run))
    expect_identical(executable_info(again)$outputs$name, c("loss", "out$y"))
    expect_identical(executable_info(again)$inputs$name, executable_info(run)$inputs$name)
    expect_identical(names(pjrt_execute(again, inputs = v)), c("loss", "out$y"))
  }
  expect_identical(executable_info(compile(linear))$outputs$name, "")
})

test_that("layers saved in another order are matched by name", {
  layers <- 0:11
  arguments <- paste0("%layers.", layers, ".w: tensor<f32>", collapse = ", ")
  # 12 digits of 11, so that the order matters
  steps <- sprintf(
    "%%m%d = stablehlo.multiply %%s%d, %%c : tensor<f64>\n%%d%d = stablehlo.convert %%layers.%d.w : (tensor<f32>) -> tensor<f64>
     %%s%d = stablehlo.add %%m%d, %%d%d : tensor<f64>",
    layers, layers, layers, layers, layers + 1L, layers, layers
  )
  horner <- compile(sprintf("func.func @main(%s) -> tensor<f64> {
    %%c = stablehlo.constant dense<12.0> : tensor<f64>
    %%s0 = stablehlo.constant dense<0.0> : tensor<f64>
    %s
    return %%s12 : tensor<f64>
  }", arguments, paste(steps, collapse = "\n")))
  right <- sum((layers) * 12^rev(layers))
  path <- withr::local_tempfile(fileext = ".safetensors")
  order <- as.character(c(0, 1, 10, 11, 2:9))
  tensors <- lapply(structure(as.numeric(order), names = paste0("layers.", order, ".w")), pjrt_scalar)
  pjrt_save_safetensors(tensors, path)
  loaded <- pjrt_load_safetensors(path)
  expect_identical(as_array(pjrt_execute(horner, inputs = loaded)), right)
  nested <- lapply(structure(order, names = order), function(i) list(w = tensors[[paste0("layers.", i, ".w")]]))
  expect_identical(as_array(pjrt_execute(horner, layers = nested)), right)
  expect_identical(as_array(pjrt_execute(horner, layers = unname(nested[as.character(layers)]))), right)
  expect_false(as_array(pjrt_execute(horner, inputs = unname(tensors))) == right)
})

test_that("changed names are matched anew", {
  minus <- compile(sub("add", "subtract", add_program("f32"), fixed = TRUE))
  one <- pjrt_scalar(1)
  three <- pjrt_scalar(3)
  for (i in 1:3) {
    expect_identical(as_array(pjrt_execute(minus, x = one, y = three)), -2)
    expect_identical(as_array(pjrt_execute(minus, y = one, x = three)), 2)
    expect_refused(pjrt_execute(minus, y = one, z = three), "invalid_input", "no argument `z`")
    expect_identical(as_array(pjrt_execute(minus, y = one, three)), 2)
    expect_identical(as_array(pjrt_execute(minus, one, three)), -2)
  }
})

test_that("a donated input may be given by name", {
  add <- compile(add_program("2xf32", donates))
  x <- pjrt_buffer(c(1, 2))
  y <- pjrt_buffer(c(3, 4))
  expect_identical(as_array(pjrt_execute(add, y = y, x = x)), array(c(4, 6)))
  expect_refused(as_array(x), "deleted_buffer")
  expect_identical(as_array(y), array(c(3, 4)))
})

test_that("inputs with names survive frequent garbage collection", {
  run <- named("mlir")
  v <- buffers(scale = c(2, 3), bias = c(10, 20), zero = c(1, 2), one = c(3, 4), x = c(5, 6))
  call <- function() pjrt_execute(run, x = v$x, params = list(layers = list(v$zero, v$one), dense_0 = v[1:2]))
  expected <- lapply(call(), as_array)
  withr::defer(torture(0))
  torture(3)
  out <- call()
  error <- tryCatch(pjrt_execute(run, z = v$x), error = identity)
  torture(0)
  expect_identical(lapply(out, as_array), expected)
  expect_identical(names(out), c("loss", "out$y"))
  expect_match(conditionMessage(error), "no argument `z`", fixed = TRUE)
})

test_that("errors of calls with many inputs are short", {
  arguments <- paste0("%a", 1:300, ": tensor<f32>", collapse = ", ")
  many <- compile(sprintf("func.func @main(%s) -> tensor<f32> { return %%a300 : tensor<f32> }", arguments))
  x <- pjrt_scalar(1)
  all <- structure(rep(list(x), 300), names = paste0("a", 300:1))
  expect_identical(as_array(do.call(pjrt_execute, c(list(many), all))), 1)
  for (inputs in list(all[-1], all[-300], unname(all[-1]), c(all, all), structure(all, names = paste0("b", 1:300)))) {
    for (what in list(pjrt_execute, "pjrt_execute")) {
      error <- expect_error(do.call(what, c(list(many), inputs)), class = "pjrt_error")
      expect_lt(nchar(conditionMessage(error)), 400)
      expected <- if (length(inputs) > 1L) quote(pjrt_execute(...))
      expect_identical(conditionCall(error), expected %||% conditionCall(error))
      expect_lt(nchar(deparse1(conditionCall(error))), 201)
    }
  }
  short <- expect_error(pjrt_execute(many, x), class = "pjrt_error")
  expect_identical(conditionCall(short), quote(pjrt_execute(many, x)))
})
