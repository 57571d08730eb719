# The operations that pjrt_check_plugin() compares with R.

# The shapes of the arrays.
checked_shapes <- list(1L, 33L, 64L, 1000L, c(7L, 9L))

array_text <- function(type, dims) sprintf("tensor<%s>", paste(c(dims, type), collapse = "x"))

# Numbers between two limits, spread over them in no order.
spread <- function(n, from, to) from + (to - from) * ((seq_len(n) * 0.6180339887498949) %% 1)

# An operation: `body` is a function of the names, the type and the shape of the arguments, and returns lines that
# define %r; `f` computes the same in R; `out` is the shape of the result.
operation <- function(body, f, from = -3, to = 3, type = "f32", arguments = 1L, out = identity, out_type = type,
                      shapes = checked_shapes) {
  list(
    body = body, f = f, from = from, to = to, type = type, arguments = arguments, out = out, out_type = out_type,
    shapes = shapes
  )
}

elementwise <- function(name, f, ..., arguments = 1L) {
  body <- function(x, kind, dims) {
    types <- paste(rep(kind, arguments), collapse = ", ")
    result <- if (startsWith(name, "chlo.")) paste(types, "->", kind) else kind
    sprintf("%%r = %s %s : %s", name, paste(x, collapse = ", "), result)
  }
  operation(body, f, ..., arguments = arguments)
}

# A reduction to a number.
reduction <- function(name, start, f, ...) {
  body <- function(x, kind, dims) {
    c(
      sprintf("%%i = stablehlo.constant dense<%s> : tensor<f32>", start),
      sprintf(
        "%%r = stablehlo.reduce(%s init: %%i) applies stablehlo.%s across dimensions = [%s] : (%s, tensor<f32>) -> tensor<f32>",
        x, name, toString(seq_along(dims) - 1L), kind
      )
    )
  }
  operation(body, f, ..., out = function(dims) integer())
}

# A reduction of many numbers, half of them NaN: newer builds of XLA lose NaN where they use several threads or vectors.
with_nan <- function(name, start, f) {
  plain <- reduction(name, start, f)
  body <- function(x, kind, dims) {
    c(sprintf("%%y = stablehlo.sqrt %s : %s", x, kind), plain$body("%y", kind, dims))
  }
  operation(body, function(x) f(suppressWarnings(sqrt(x))), out = plain$out, shapes = list(64L, 100003L))
}

comparison <- function(order, f) {
  body <- function(x, kind, dims) {
    sprintf(
      "%%r = stablehlo.compare %s, %s, %s : (%s, %s) -> %s", order, x[[1L]], x[[2L]], kind, kind, array_text("i1", dims)
    )
  }
  operation(body, f, arguments = 2L, out_type = "i1")
}

# Operations on a vector that make another.
of_vector <- function(line, f, out, ...) {
  body <- function(x, kind, dims) {
    fill <- c(x = x[[1L]], t = kind, n = dims, m = max(out(dims), 1L), r = array_text("f32", out(dims)))
    for (name in names(fill)) line <- gsub(sprintf("{%s}", name), fill[[name]], line, fixed = TRUE)
    line
  }
  operation(body, f, ..., out = out, shapes = list(33L, 64L, 1000L))
}

checked_operations <- function() {
  floats <- list(
    abs = abs, negate = function(x) -x, sign = sign, ceil = ceiling, floor = floor, round_nearest_even = round,
    exponential = exp, exponential_minus_one = expm1, sine = sin, cosine = cos, tanh = tanh, logistic = stats::plogis,
    cbrt = function(x) sign(x) * abs(x)^(1 / 3), tan = tan
  )
  positive <- list(log = log, log_plus_one = log1p, sqrt = sqrt, rsqrt = function(x) 1 / sqrt(x))
  chlo <- list(
    atan = atan, sinh = sinh, cosh = cosh, asinh = asinh, erf = function(x) 2 * stats::pnorm(x * sqrt(2)) - 1
  )
  within_one <- list(asin = asin, acos = acos, atanh = atanh)
  two <- list(
    add = `+`, subtract = `-`, multiply = `*`, divide = `/`, maximum = pmax, minimum = pmin, atan2 = atan2,
    remainder = function(x, y) sign(x) * (abs(x) %% abs(y))
  )
  whole <- list(
    and = bitwAnd, or = bitwOr, xor = bitwXor, shift_left = function(x, y) x * 2L^(y %% 8L),
    remainder = function(x, y) x %% y, divide = function(x, y) x %/% y
  )
  named <- function(functions, prefix, ...) {
    made <- Map(function(name, f) elementwise(paste0(prefix, name), f, ...), names(functions), functions)
    structure(made, names = paste0(prefix, names(functions)))
  }
  integers <- Map(function(name, f) {
    elementwise(paste0("stablehlo.", name), f, from = 1, to = 100, type = "i32", arguments = 2L)
  }, names(whole), whole)
  integers$shift_left <- operation(function(x, kind, dims) {
    c(
      sprintf("%%c = stablehlo.constant dense<7> : %s", kind),
      sprintf("%%s = stablehlo.and %s, %%c : %s", x[[2L]], kind),
      sprintf("%%r = stablehlo.shift_left %s, %%s : %s", x[[1L]], kind)
    )
  }, whole$shift_left, from = 1, to = 100, type = "i32", arguments = 2L)
  names(integers) <- paste(names(integers), "of integers")
  orders <- list(EQ = `==`, NE = `!=`, LT = `<`, LE = `<=`, GT = `>`, GE = `>=`)
  comparisons <- Map(comparison, names(orders), orders)
  names(comparisons) <- paste("compare", names(orders))
  others <- list(
    power = elementwise("stablehlo.power", `^`, from = 0.1, arguments = 2L),
    clamp = elementwise("stablehlo.clamp", function(a, x, b) pmin(pmax(x, a), b), arguments = 3L),
    select = operation(function(x, kind, dims) {
      c(
        sprintf(
          "%%c = stablehlo.compare LT, %s, %s : (%s, %s) -> %s", x[[1L]], x[[2L]], kind, kind, array_text("i1", dims)
        ),
        sprintf("%%r = stablehlo.select %%c, %s, %s : %s, %s", x[[1L]], x[[2L]], array_text("i1", dims), kind)
      )
    }, pmin, arguments = 2L),
    sum = reduction("add", "0.0", sum), product = reduction("multiply", "1.0", prod, from = 0.99, to = 1.01),
    largest = reduction("maximum", "0xFF800000", max), smallest = reduction("minimum", "0x7F800000", min),
    `largest with NaN` = with_nan("maximum", "0xFF800000", max),
    `smallest with NaN` = with_nan("minimum", "0x7F800000", min),
    `convert to integers` = operation(function(x, kind, dims) {
      sprintf("%%r = stablehlo.convert %s : (%s) -> %s", x, kind, array_text("i32", dims))
    }, trunc, from = -100, to = 100, out_type = "i32"),
    `convert to logicals` = operation(function(x, kind, dims) {
      sprintf("%%r = stablehlo.convert %s : (%s) -> %s", x, kind, array_text("i1", dims))
    }, function(x) x != 0, from = -2, to = 2, type = "i32", out_type = "i1"),
    transpose = operation(function(x, kind, dims) {
      sprintf("%%r = stablehlo.transpose %s, dims = [1, 0] : (%s) -> %s", x, kind, array_text("f32", rev(dims)))
    }, t, out = rev, shapes = list(c(7L, 9L))),
    reshape = operation(function(x, kind, dims) {
      sprintf("%%r = stablehlo.reshape %s : (%s) -> %s", x, kind, array_text("f32", rev(dims)))
    }, function(x) matrix(as.vector(t(x)), 9L, 7L, byrow = TRUE), out = rev, shapes = list(c(7L, 9L))),
    `product of matrices` = operation(function(x, kind, dims) {
      sprintf(
        "%%r = stablehlo.dot_general %s, %s, contracting_dims = [1] x [1] : (%s, %s) -> %s", x[[1L]], x[[2L]], kind,
        kind, array_text("f32", dims[c(1L, 1L)])
      )
    }, function(x, y) x %*% t(y), arguments = 2L, out = function(dims) dims[c(1L, 1L)],
    shapes = list(c(7L, 9L), c(33L, 64L))),
    `product of vectors` = operation(function(x, kind, dims) {
      sprintf(
        "%%r = stablehlo.dot_general %s, %s, contracting_dims = [0] x [0] : (%s, %s) -> tensor<f32>", x[[1L]],
        x[[2L]], kind, kind
      )
    }, function(x, y) sum(x * y), arguments = 2L, out = function(dims) integer(), shapes = list(1L, 33L, 64L, 1000L)),
    slice = of_vector("%r = stablehlo.slice {x} [1:{n}:2] : ({t}) -> {r}", function(x) x[seq(2L, length(x), 2L)],
      function(dims) dims %/% 2L),
    pad = of_vector(
      c("%z = stablehlo.constant dense<7.0> : tensor<f32>",
        "%r = stablehlo.pad {x}, %z, low = [1], high = [2], interior = [0] : ({t}, tensor<f32>) -> {r}"),
      function(x) c(7, x, 7, 7), function(dims) dims + 3L
    ),
    concatenate = of_vector("%r = stablehlo.concatenate {x}, {x}, dim = 0 : ({t}, {t}) -> {r}", function(x) c(x, x),
      function(dims) 2L * dims),
    reverse = of_vector("%r = stablehlo.reverse {x}, dims = [0] : {t}", rev, identity),
    iota = of_vector(c("%i = stablehlo.iota dim = 0 : {t}", "%r = stablehlo.add {x}, %i : {t}"),
      function(x) x + seq_along(x) - 1, identity),
    broadcast = of_vector(
      c("%o = stablehlo.constant dense<2.0> : tensor<f32>",
        "%b = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<f32>) -> {t}",
        "%r = stablehlo.multiply {x}, %b : {t}"),
      function(x) 2 * x, identity
    ),
    `dynamic slice` = of_vector(
      c("%i = stablehlo.constant dense<3> : tensor<i32>",
        "%r = stablehlo.dynamic_slice {x}, %i, sizes = [{m}] : ({t}, tensor<i32>) -> {r}"),
      function(x) x[4:13], function(dims) 10L
    ),
    sort = of_vector(
      "%r = \"stablehlo.sort\"({x}) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) : ({t}) -> {r}", sort, identity
    ),
    `running sum` = of_vector(
      c("%z = stablehlo.constant dense<0.0> : tensor<f32>",
        "%r = \"stablehlo.reduce_window\"({x}, %z) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : ({t}, tensor<f32>) -> {r}"),
      function(x) x + c(0, x[-length(x)]) + c(0, 0, x[seq_len(length(x) - 2L)]), identity
    ),
    `a loop` = of_vector(
      c("%i = stablehlo.constant dense<0> : tensor<i32>", "%n = stablehlo.constant dense<5> : tensor<i32>",
        "%o = stablehlo.constant dense<1> : tensor<i32>",
        "%w:2 = stablehlo.while(%j = %i, %y = {x}) : tensor<i32>, {t}
        cond {
          %c = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %k = stablehlo.add %j, %o : tensor<i32>
          %z = stablehlo.add %y, {x} : {t}
          stablehlo.return %k, %z : tensor<i32>, {t}
        }", "%r = stablehlo.optimization_barrier %w#1 : {t}"),
      function(x) 6 * x, identity
    )
  )
  c(
    named(floats, "stablehlo."), named(positive, "stablehlo.", from = 0.05, to = 20), named(chlo, "chlo."),
    named(within_one, "chlo.", from = -0.95, to = 0.95), named(two, "stablehlo.", arguments = 2L), integers,
    comparisons,
    others
  )
}

check_operations <- function(path, folder) {
  on <- checked_device(path)
  lapply(checked_operations(), function(operation) function() check_operation(operation, on))
}

# Compiles and runs an operation for each of its shapes.
check_operation <- function(operation, on) {
  for (dims in operation$shapes) {
    n <- prod(dims)
    inputs <- lapply(seq_len(operation$arguments), function(i) {
      x <- spread(n + i, operation$from, operation$to)[seq_len(n) + i]
      array(if (operation$type == "i32") round(x) else x, dims)
    })
    kind <- array_text(operation$type, dims)
    names <- sprintf("%%x%d", seq_along(inputs))
    out <- array_text(operation$out_type, operation$out(dims))
    text <- sprintf(
      "func.func @main(%s) -> %s {\n  %s\n  return %%r : %s\n}", paste(names, kind, sep = ": ", collapse = ", "), out,
      paste(operation$body(names, kind, dims), collapse = "\n  "), out
    )
    executable <- pjrt_compile(pjrt_program(text), device = on)
    buffers <- lapply(inputs, pjrt_buffer, dtype = operation$type, device = on)
    # as the device has them
    inputs <- lapply(buffers, as_array)
    found <- as_array(do.call(pjrt_execute, c(list(executable), buffers)))
    expected <- do.call(operation$f, lapply(inputs, function(x) if (length(dims) == 1L) as.vector(x) else x))
    if (is.logical(found)) expected <- as.logical(expected) else storage.mode(expected) <- storage.mode(found)
    same <- check_same(as.vector(found), as.vector(expected), if (is.double(found)) 2e-5 else 0)
    if (!isTRUE(same)) {
      return(paste0("shape ", paste(dims, collapse = "x"), ": ", same))
    }
  }
  TRUE
}
