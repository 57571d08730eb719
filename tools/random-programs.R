# Random StableHLO programs: up to 12 operations on constants and arguments of random types and shapes. Most of them
# are valid.

# One program as text. R's random numbers decide.
random_program <- function() {
  one <- function(x) x[[sample.int(length(x), 1L)]]
  lines <- character()
  values <- list() # each has a name, an element type and dimensions
  arguments <- character()
  tensor <- function(type, dims) sprintf("tensor<%s>", paste(c(dims, type), collapse = "x"))
  of <- function(value) tensor(value$type, value$dims)
  add <- function(name, type, dims) values[[length(values) + 1L]] <<- list(name = name, type = type, dims = dims)
  emit <- function(type, dims, text, ...) {
    name <- sprintf("%%v%d", length(lines) + 1L)
    lines <<- c(lines, paste0(name, " = ", sprintf(text, ...)))
    add(name, type, dims)
  }
  all_types <- c("i1", "i2", "i4", "i8", "i16", "i32", "i64", "ui4", "ui8", "ui16", "ui32", "ui64", "f8E4M3FN",
    "f8E5M2", "f16",
    "bf16", "f32", "f64", "complex<f32>", "complex<f64>")
  is_float <- function(type) grepl("^b?f", type)
  is_integer <- function(type) grepl("^u?i", type) && type != "i1"
  literal <- function(type) {
    if (type == "i1") return(one(c("true", "false")))
    if (grepl("^complex", type)) return(sprintf("(%s, %s)", literal("f64"), literal("f64")))
    if (is_float(type)) return(one(c("0.0", "-0.0", "1.0", "-1.5", "2.0e+00", "3.0e+02", "1.0e-03")))
    one(c("0", "0", "1", "2", "3", if (!startsWith(type, "u") && type != "i2") "-1"))
  }
  constant <- function(type, dims) {
    size <- prod(dims)
    elements <- if (size %in% 2:6 && length(dims) == 1L && runif(1) < 0.6) {
      sprintf("[%s]", paste(replicate(size, literal(type)), collapse = ", "))
    } else if (size == 0) "" else literal(type)
    emit(type, dims, "stablehlo.constant dense<%s> : %s", elements, tensor(type, dims))
  }
  dims <- function() one(list(integer(), 2L, 3L, 4L, 6L, c(2L, 3L), c(3L, 3L), c(2L, 2L, 2L), c(1L, 4L), 0L, 33L, 64L))
  last <- function() values[[length(values)]]
  # another value of the same type and dimensions, a new constant if there is none
  like <- function(value) {
    same <- Filter(function(x) x$type == value$type && identical(x$dims, value$dims), values)
    if (runif(1) < 0.6) return(one(same))
    constant(value$type, value$dims)
    last()
  }
  apply_one <- function() {
    x <- one(values)
    type <- x$type
    rank <- length(x$dims)
    kinds <- c("unary", "binary", "binary", "binary", "compare", "convert", "bits", "shape", "select", "reduce",
      "dot", "slice",
      "region", "pad", "gather", "sort", "barrier")
    switch(one(kinds),
      unary = {
        operations <- c(if (type != "i1") "negate", if (is_integer(type)) c("not", "popcnt", "count_leading_zeros"),
          if (startsWith(type, "i") && type != "i1") c("abs", "sign"), if (type == "i1") "not",
            if (is_float(type)) c("abs", "sign", "floor", "ceil", "round_nearest_even", "round_nearest_afz",
            "exponential", "exponential_minus_one", "log", "log_plus_one", "sqrt", "rsqrt", "cbrt", "tanh", "cosine",
              "sine", "tan",
            "logistic"),
          if (grepl("complex", type)) c("exponential", "log", "sqrt", "rsqrt", "tanh", "cosine", "sine"))
        emit(type, x$dims, "stablehlo.%s %s : %s", one(operations), x$name, of(x))
      },
      binary = {
        operations <- c("add", "multiply",
          if (type != "i1") c("subtract", "divide", "divide", "remainder", "maximum", "minimum", "power"),
          if (is_integer(type)) c("and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
          if (type == "i1") c("and", "or", "xor"), if (is_float(type)) "atan2")
        y <- like(x)
        emit(type, x$dims, "stablehlo.%s %s, %s : %s", one(operations), x$name, y$name, of(x))
      },
      compare = {
        y <- like(x)
        emit("i1", x$dims, "stablehlo.compare %s, %s, %s : (%s, %s) -> %s", one(c("EQ", "NE", "LT", "GE", "GT",
          "LE")), x$name,
          y$name, of(x), of(y), tensor("i1", x$dims))
      },
      convert = {
        to <- one(all_types)
        emit(to, x$dims, "stablehlo.convert %s : (%s) -> %s", x$name, of(x), tensor(to, x$dims))
      },
      bits = if (!grepl("^c", type)) {
        # a wider type has one dimension less, a narrower one more
        bits <- function(type) if (type == "i1") 1 else as.integer(sub("^[^0-9]*([0-9]+).*", "\\1", type))
        fits <- function(to) bits(to) <= bits(type) || rank > 0L && bits(type) * x$dims[[rank]] == bits(to)
        to <- one(Filter(function(to) !grepl("^c", to) && fits(to), all_types))
        times <- as.integer(bits(type) / bits(to))
        size <- if (bits(to) < bits(type)) c(x$dims, times) else if (bits(to) == bits(type)) x$dims else x$dims[-rank]
        emit(to, size, "stablehlo.bitcast_convert %s : (%s) -> %s", x$name, of(x), tensor(to, size))
      },
      shape = if (runif(1) < 0.5) {
        emit(type, prod(x$dims), "stablehlo.reshape %s : (%s) -> %s", x$name, of(x), tensor(type,
          as.integer(prod(x$dims))))
      } else {
        to <- c(x$dims, 2L)
        emit(type, to, "stablehlo.broadcast_in_dim %s, dims = [%s] : (%s) -> %s", x$name, paste(seq_len(rank) - 1L,
          collapse = ", "),
          of(x), tensor(type, to))
      },
      select = {
        y <- like(x)
        constant("i1", x$dims)
        emit(type, x$dims, "stablehlo.select %s, %s, %s : %s, %s", last()$name, x$name, y$name, tensor("i1", x$dims),
          of(x))
      },
      reduce = if (rank > 0L) {
        constant(type, integer())
        emit(type, x$dims[-1L],
          "stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = [0] : (%s, %s) -> %s",
          x$name, last()$name, one(c("add", "multiply", "maximum", "minimum", "and", "or")), of(x), of(last()),
          tensor(type, x$dims[-1L]))
      },
      dot = if (rank == 1L) {
        y <- like(x)
        emit(type, integer(), "stablehlo.dot_general %s, %s, contracting_dims = [0] x [0] : (%s, %s) -> %s", x$name,
          y$name, of(x),
          of(y), tensor(type, integer()))
      },
      slice = if (rank == 1L && x$dims > 1L) {
        emit(type, x$dims - 1L, "stablehlo.slice %s [1:%d] : (%s) -> %s", x$name, x$dims, of(x), tensor(type,
          x$dims - 1L))
      },
      region = {
        y <- like(x)
        constant(one(c("i1", "i32")), integer())
        branch <- function(value) sprintf("{ stablehlo.return %s : %s }", value$name, of(x))
        emit(type, x$dims, '"stablehlo.%s"(%s) (%s, %s) : (%s) -> %s', if (last()$type == "i1") "if" else "case",
          last()$name,
          branch(x), branch(y), of(last()), of(x))
      },
      pad = if (rank == 1L) {
        constant(type, integer())
        low <- one(-1:2)
        to <- max(0L, x$dims + low + (x$dims > 0L) * (x$dims - 1L))
        emit(type, to, "stablehlo.pad %s, %s, low = [%d], high = [0], interior = [1] : (%s, %s) -> %s", x$name,
          last()$name, low,
          of(x), of(last()), tensor(type, to))
      },
      gather = if (rank == 1L && x$dims > 1L) {
        constant("i32", integer())
        emit(type, 1L, "stablehlo.dynamic_slice %s, %s, sizes = [1] : (%s, tensor<i32>) -> %s", x$name, last()$name,
          of(x),
          tensor(type, 1L))
      },
      sort = if (rank == 1L) {
        emit(type, x$dims, '"stablehlo.reverse"(%s) {dimensions = array<i64: 0>} : (%s) -> %s', x$name, of(x), of(x))
      },
      barrier = emit(type, x$dims, "stablehlo.optimization_barrier %s : %s", x$name, of(x))
    )
  }
  for (i in seq_len(one(0:2))) {
    type <- one(all_types)
    size <- dims()
    add(sprintf("%%a%d", i), type, size)
    arguments[[i]] <- sprintf("%%a%d: %s", i, tensor(type, size))
  }
  constant(one(all_types), dims())
  for (i in seq_len(one(1:12))) apply_one()
  out <- last()
  sprintf("func.func @main(%s) -> %s {\n  %s\n  return %s : %s\n}", paste(arguments, collapse = ", "), of(out),
    paste(lines, collapse = "\n  "), out$name, of(out))
}
