# Operations on constants, which the compiler computes, and on arguments, which the program computes.

all_folding_types <- c(
  "i1", "i4", "i8", "i16", "i32", "i64", "ui4", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64"
)

# The suite takes some of them.
delayedAssign(
  "folding_types",
  if (is_soak()) all_folding_types else c("i1", "i4", "i8", "i32", "ui8", "bf16", "f64")
)

is_float_type <- function(type) type %in% c("f16", "bf16", "f32", "f64")

# Values at the edges of a type, as texts of MLIR.
folding_values <- function(type) {
  if (type == "i1") {
    return(c("true", "false"))
  }
  if (is_float_type(type)) {
    hex <- list(
      f16 = c("0x7C00", "0xFC00", "0x7E00"), bf16 = c("0x7F80", "0xFF80", "0x7FC0"), f32 = c("0x7F800000", "0xFF800000",
        "0x7FC00000"),
      f64 = c("0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000")
    )[[type]]
    return(c("0.0", "-0.0", "1.0", "-1.0", "0.5", "-2.5", "3.0", "89.0", "-90.0", "1.0e4", hex))
  }
  bits <- as.integer(sub("^u?i", "", type))
  power <- c("8" = "128", "16" = "32768", "32" = "2147483648", "64" = "9223372036854775808",
    "4" = "8")[[as.character(bits)]]
  less <- c("8" = "127", "16" = "32767", "32" = "2147483647", "64" = "9223372036854775807",
    "4" = "7")[[as.character(bits)]]
  if (startsWith(type, "u")) c("0", "1", "2", "3", less, power) else c("0", "1", "-1", "2", "-3", less, paste0("-",
    power))
}

# All pairs of these values: two lists of texts.
folding_pairs <- function(type, no_zero = FALSE) {
  values <- folding_values(type)
  right <- if (no_zero) setdiff(values, "0") else values
  list(rep(values, each = length(right)), rep(right, length(values)))
}

array_type <- function(type, n) sprintf("tensor<%dx%s>", n, type)

# A program that applies operations to two arrays, which are constants or arguments. `body` is a format with the type of
# an array as
# its arguments; it defines %r, of `out`.
folding_program <- function(body, type, values, out = type, n_out = length(values[[1L]]), is_folded) {
  n <- length(values[[1L]])
  array <- array_type(type, n)
  constant <- function(name, texts) sprintf("%s = stablehlo.constant dense<[%s]> : %s", name, paste(texts,
    collapse = ", "), array)
  lines <- gsub("{t}", array, body, fixed = TRUE)
  lines <- gsub("{o}", array_type(out, n_out), lines, fixed = TRUE)
  constants <- paste(constant("%x", values[[1L]]), constant("%y", values[[2L]]), sep = "\n  ")
  if (is_folded) {
    return(sprintf("func.func @main() -> %s {\n  %s\n  %s\n  return %%r : %s\n}", array_type(out, n_out), constants,
      lines, array_type(out, n_out)))
  }
  # the values come from outside, so nothing can be folded
  sprintf(
    "func.func @main(%%x: %s, %%y: %s) -> %s {\n  %s\n  return %%r : %s\n}", array, array, array_type(out,
      n_out), lines, array_type(out, n_out)
  )
}

# A buffer with these values, made once.
folding_input <- function(type, texts) {
  key <- paste(c(type, texts), collapse = " ")
  if (is.null(folding_inputs[[key]])) {
    assign(key, new_folding_input(type, texts), folding_inputs)
  }
  folding_inputs[[key]]
}

folding_inputs <- new.env(parent = emptyenv())

new_folding_input <- function(type, texts) {
  text <- sprintf("func.func @main() -> %s {\n  %%r = stablehlo.constant dense<[%s]> : %s\n  return %%r : %s\n}",
    array_type(type, length(texts)), paste(texts, collapse = ", "), array_type(type, length(texts)), array_type(type,
    length(texts)))
  pjrt_execute(pjrt_compile(pjrt_program(text)))
}

# The bytes of a result, without the elements that are NaN in both.
folding_bytes <- function(buffer) {
  bytes <- as_raw(buffer)
  type <- as.character(elt_type(buffer))
  if (is_float_type(type)) {
    values <- as.vector(as_array(buffer))
    bytes <- matrix(bytes, ncol = length(values))
    bytes[, is.nan(values)] <- as.raw(255)
  }
  as.vector(bytes)
}

# Whether an operation on constants has another result than on arguments; NA if it does not compile.
folds_wrongly <- function(body, type, values, out = type, n_out = length(values[[1L]]),
  options = pjrt_compile_options()) {
  results <- tryCatch(
    lapply(c(TRUE, FALSE), function(is_folded) {
      program <- pjrt_program(folding_program(body, type, values, out, n_out, is_folded))
      executable <- pjrt_compile(program, options)
      inputs <- if (!is_folded) lapply(values, folding_input, type = type)
      folding_bytes(do.call(pjrt_execute, c(list(executable), inputs)))
    }),
    pjrt_error = function(e) NULL
  )
  if (is.null(results)) NA else !identical(results[[1L]], results[[2L]])
}

# The operations with the types that they take.
folding_operations <- function() {
  integers <- setdiff(folding_types, c("i1", "f16", "bf16", "f32", "f64"))
  floats <- c("f16", "bf16", "f32", "f64")
  unary <- function(operations, types) lapply(operations, function(name) list(name = name,
    body = sprintf("%%r = stablehlo.%s %%x : {t}", name), types = types))
  binary <- function(operations, types) lapply(operations, function(name) list(name = name,
    body = sprintf("%%r = stablehlo.%s %%x, %%y : {t}", name), types = types))
  compares <- lapply(c("EQ", "LT", "GE"), function(order) {
    list(name = paste("compare", order), body = sprintf("%%r = stablehlo.compare %s, %%x, %%y : ({t}, {t}) -> {o}",
      order), types = folding_types, out = "i1")
  })
  converts <- lapply(c("i1", "i8", "i32", "ui8", "i64", "f16", "bf16", "f32", "f64"), function(out) {
    list(name = paste("convert to", out), body = "%r = stablehlo.convert %x : ({t}) -> {o}",
      types = setdiff(folding_types, out), out = out)
  })
  c(
    unary(c("abs", "negate", "sign"), setdiff(c(integers, floats), c("ui4", "ui8", "ui16", "ui32", "ui64"))),
    unary(c("not"), c("i1", integers)), unary(c("popcnt", "count_leading_zeros"), integers),
    unary(c(
      "exponential", "log", "sqrt", "rsqrt", "cbrt", "floor", "ceil",
        "round_nearest_even",
        "round_nearest_afz", "tanh", "logistic", "sine",
      "cosine", "log_plus_one", "exponential_minus_one"
    ), floats),
    binary(c("add", "multiply", "maximum", "minimum"), folding_types), binary("subtract", c(integers, floats)),
    binary(c("and", "or", "xor"), c("i1", integers)), binary(c("divide", "remainder"), c(integers, floats)),
    binary(c("power", "atan2"), floats), binary(c("shift_left", "shift_right_logical", "shift_right_arithmetic"),
      integers),
    compares, converts,
    list(
      list(name = "gather", body = '%i = stablehlo.constant dense<[[1], [0]]> : tensor<2x1xi32>
  %r = "stablehlo.gather"(%x,
    %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>} : ({t}, tensor<2x1xi32>) -> {o}', types = folding_types, n_out = 2L),
      list(name = "bitcast_convert to i4",
        body =
          "%b = stablehlo.bitcast_convert %x : ({t}) -> NARROW\n  %c = stablehlo.convert %b : (NARROW) -> WIDE\n  %r = stablehlo.reshape %c : (WIDE) -> {o}",
        types = "i8", per = 2L),
      list(name = "reverse", body = "%r = stablehlo.reverse %x, dims = [0] : {t}", types = folding_types),
      list(name = "select",
        body =
          "%c = stablehlo.compare EQ, %x, %y : ({t}, {t}) -> CONDITION\n  %r = stablehlo.select %c, %x, %y : (CONDITION, {t}, {t}) -> {t}",
        types = folding_types),
      list(name = "clamp", body = "%r = stablehlo.clamp %x, %y, %x : {t}", types = setdiff(folding_types, "i1"))
    )
  )
}

# The names of operations and types that are folded wrongly.
wrong_folds <- function(options = pjrt_compile_options(), operations = folding_operations()) {
  found <- character()
  for (i in seq_along(operations)) {
    operation <- operations[[i]]
    types <- intersect(operation$types, folding_types)
    # the suite takes every other type of each operation, beginning with the first or the second one
    if (!is_soak() && length(types) > 1L) types <- types[seq_along(types) %% 2L == i %% 2L]
    for (type in types) {
      # the compiler crashes on integers divided by zero
      no_zero <- operation$name %in% c("divide", "remainder") && !is_float_type(type)
      values <- folding_pairs(type, no_zero)
      n <- length(values[[1L]])
      body <- gsub("CONDITION", array_type("i1", n), operation$body, fixed = TRUE)
      body <- gsub("NARROW", sprintf("tensor<%dx2xi4>", n), body, fixed = TRUE)
      body <- gsub("WIDE", sprintf("tensor<%dx2xi8>", n), body, fixed = TRUE)
      wrong <- folds_wrongly(body, type, values, if (is.null(operation$out)) type else operation$out,
        if (!is.null(operation$n_out)) operation$n_out else if (!is.null(operation$per)) operation$per * n else n,
        options)
      if (!identical(wrong, FALSE)) found <- c(found, paste0(operation$name, " ", type,
        if (is.na(wrong)) " (not compiled)"))
    }
  }
  found
}
