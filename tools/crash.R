# Compiles and runs programs that crash, hang or abort XLA, all in one session, and checks after each that a buffer
# still has its value. Prints the outcomes by kind. Fails if the session ends or a buffer changes.
#
#   Rscript tools/crash.R [apart or inside] [number of random programs] [seed]
#
# Each program has a minute. "inside" shows what would happen without a separate compiler; there, the session may end.
# With a number, the programs are random ones instead of those below.

library(pjrt)
options(pjrt.cache = FALSE, pjrt.compile_timeout = 60, pjrt.compile_memory = "4GB")
chosen <- commandArgs(trailingOnly = TRUE)
options(pjrt.compile = c(chosen, "apart")[[1L]])

programs <- list()
add <- function(kind, text) programs[[length(programs) + 1L]] <<- list(kind = kind, text = text)

main <- function(body, out, arguments = "") {
  sprintf("func.func @main(%s) -> %s {\n  %s\n  return %%r : %s\n}", arguments, out, body, out)
}

integers <- c("i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64")
floats <- c("f16", "bf16", "f32", "f64")
small_floats <- c("f4E2M1FN", "f8E4M3FN", "f8E5M2")
types <- c("i1", integers, floats, small_floats)
is_float <- function(type) type %in% c(floats, small_floats)

# Values at the edges of a type, as texts.
edges <- function(type) {
  if (type == "i1") {
    return(c("true", "false"))
  }
  if (is_float(type)) {
    return(c("0.0", "-0.0", "1.0", "-1.5"))
  }
  bits <- as.integer(sub("^u?i", "", type))
  top <- function(n) format(2^n - (n < 53), scientific = FALSE)
  if (startsWith(type, "u")) c("0", "1", if (bits < 53) top(bits)) else c("0", "1", "-1", if (bits < 53) paste0("-",
    format(2^(bits - 1), scientific = FALSE)))
}

# division and remainder of constants, for every type, dividend and zero
for (type in c(integers, floats)) {
  for (operation in c("divide", "remainder", "power", "shift_left", "atan2")) {
    if (is_float(type) && operation == "shift_left" || !is_float(type) && operation == "atan2") next
    value <- edges(type)
    zero <- if (is_float(type)) "0.0" else "0"
    add("folding of edges", main(sprintf(
        "%%a = stablehlo.constant dense<%s> : tensor<3x%s>\n  %%b = stablehlo.constant dense<%s> : tensor<3x%s>\n  %%r = stablehlo.%s %%a, %%b : tensor<3x%s>",
      value[[length(value)]], type, zero, type, operation, type
    ), sprintf("tensor<3x%s>", type)))
  }
}

# a computed zero, a loop, a select, and arrays without elements
for (type in c("i8", "i32", "i64", "ui32")) {
  for (operation in c("divide", "remainder")) {
    add("computed zeros", main(sprintf(
        "%%a = stablehlo.constant dense<6> : tensor<%s>\n  %%z = stablehlo.subtract %%a, %%a : tensor<%s>\n  %%r = stablehlo.%s %%a, %%z : tensor<%s>",
        type, type, operation, type
    ), sprintf("tensor<%s>", type)))
    add("computed zeros", main(sprintf(
        "%%a = stablehlo.constant dense<6> : tensor<0x%s>\n  %%z = stablehlo.constant dense<0> : tensor<0x%s>\n  %%r = stablehlo.%s %%a, %%z : tensor<0x%s>",
        type, type, operation, type
    ), sprintf("tensor<0x%s>", type)))
    add("computed zeros", main(sprintf(
        "%%a = stablehlo.constant dense<[6, 7]> : tensor<2x%s>\n  %%z = stablehlo.constant dense<[2, 0]> : tensor<2x%s>\n  %%d = stablehlo.%s %%a, %%z : tensor<2x%s>\n  %%r = stablehlo.add %%x, %%d : tensor<2x%s>",
      type, type, operation, type, type
    ), sprintf("tensor<2x%s>", type), sprintf("%%x: tensor<2x%s>", type)))
  }
}

# conversions of constants between all types, and of complex ones
for (from in c("complex<f32>", "complex<f64>")) {
  for (to in types) {
    add("conversion of complex constants", main(sprintf(
        "%%a = stablehlo.constant dense<(1.0, 2.0)> : tensor<2x%s>\n  %%r = stablehlo.convert %%a : (tensor<2x%s>) -> tensor<2x%s>",
        from, from, to
    ), sprintf("tensor<2x%s>", to)))
  }
  for (operation in c("remainder", "maximum", "power", "atan2", "divide")) {
    add("folding of complex numbers", main(sprintf(
        "%%a = stablehlo.constant dense<(1.0, 2.0)> : tensor<2x%s>\n  %%r = stablehlo.%s %%a, %%a : tensor<2x%s>",
        from, operation, from
    ), sprintf("tensor<2x%s>", from)))
  }
}

# bit casts of constants and of arguments
for (pair in list(c("i1", "i8", 8), c("i1", "i32", 32), c("i1", "f32", 32), c("i4", "i8", 2), c("i2", "i8", 4), c("i4",
  "i32", 8))) {
  n <- as.integer(pair[[3L]])
  wide <- sprintf("tensor<2x%s>", pair[[2L]])
  narrow <- sprintf("tensor<2x%dx%s>", n, pair[[1L]])
  add("bit casts", main(sprintf("%%r = stablehlo.bitcast_convert %%x : (%s) -> %s", narrow, wide), wide, paste("%x:",
    narrow)))
  add("bit casts", main(sprintf("%%r = stablehlo.bitcast_convert %%x : (%s) -> %s", wide, narrow), narrow, paste("%x:",
    wide)))
}

# types below a byte in many operations, of arguments and of constants
for (type in c("i2", "i4", "ui2", "ui4", "f4E2M1FN")) {
  square <- sprintf("tensor<4x4x%s>", type)
  for (operation in c("add", "multiply", "maximum", "minimum", "subtract", "divide", "and", "abs", "negate", "sign",
    "not", "popcnt", "count_leading_zeros")) {
    unary <- operation %in% c("abs", "negate", "sign", "not", "popcnt", "count_leading_zeros")
    add("types below a byte", main(sprintf("%%r = stablehlo.%s %%x%s : %s", operation, if (unary) "" else ", %x",
      square), square, paste("%x:", square)))
  }
  add("types below a byte", main(sprintf("%%r = stablehlo.transpose %%x, dims = [1, 0] : (%s) -> %s", square, square),
    square, paste("%x:", square)))
  add("types below a byte", main(sprintf("%%r = stablehlo.reverse %%x, dims = [0] : %s", square), square, paste("%x:",
    square)))
  add("types below a byte", main(sprintf("%%r = stablehlo.reshape %%x : (%s) -> tensor<16x%s>", square, type),
    sprintf("tensor<16x%s>", type), paste("%x:", square)))
  add("types below a byte", main(sprintf("%%r = stablehlo.concatenate %%x, %%x, dim = 0 : (%s, %s) -> tensor<8x4x%s>",
    square, square, type), sprintf("tensor<8x4x%s>", type), paste("%x:", square)))
  add("types below a byte",
    main(sprintf("%%r = stablehlo.dot_general %%x, %%x, contracting_dims = [1] x [0] : (%s, %s) -> %s", square, square,
    square), square, paste("%x:", square)))
}

# operations on each type, folded from a constant
for (type in types) {
  value <- edges(type)[[2L]]
  for (operation in c("abs", "sign", "not", "popcnt", "count_leading_zeros", "exponential", "log", "sqrt", "floor")) {
    needs_float <- operation %in% c("exponential", "log", "sqrt", "floor")
    needs_bits <- operation %in% c("not", "popcnt", "count_leading_zeros")
    if (needs_float != is_float(type) && (needs_float || needs_bits)) next
    if (type == "i1" && operation != "not") next
    add("folding of one operation", main(sprintf(
        "%%a = stablehlo.constant dense<%s> : tensor<2x%s>\n  %%r = stablehlo.%s %%a : tensor<2x%s>",
        value, type, operation, type
    ), sprintf("tensor<2x%s>", type)))
  }
}

# deep and wide programs
deep <- function(n, operation) {
  i <- seq_len(n)
  sprintf("func.func @main(%%0: tensor<4xf32>) -> tensor<4xf32> {\n%s\nreturn %%%d : tensor<4xf32>\n}", paste0(
    "%", i, " = stablehlo.", operation, " %", i - 1L, ", %", i - 1L, " : tensor<4xf32>", collapse = "\n"
  ), n)
}
for (n in c(2000L, 20000L)) for (operation in c("add", "multiply", "maximum")) add("deep programs", deep(n, operation))
for (n in c(500L, 5000L, 100000L)) {
  for (open in c("(", "module {", "[", "tuple<")) add("nested text", strrep(open, n))
  add("nested text", sprintf("func.func @main(%%x: tensor<%sf32>) -> tensor<f32> { return %%x : tensor<f32> }",
    strrep("1x", n)))
}
wide <- function(n) sprintf("func.func @main(%s) -> tensor<f32> { return %%x1 : tensor<f32> }", paste0("%x", seq_len(n),
  ": tensor<f32>", collapse = ", "))
for (n in c(1000L, 20000L)) add("wide programs", wide(n))

# impossible and huge sizes
for (size in c("4294967296x4294967296", "0x4294967296x4294967296", "9223372036854775807", "1000000x1000000",
  "65536x65536x65536")) {
  for (type in c("f32", "i8", "complex<f64>", "i4")) {
    out <- sprintf("tensor<%sx%s>", size, type)
    if (type == "complex<f64>") {
      add("huge arrays", main("", out, paste("%r:", out)))
    } else {
      add("huge arrays", main(sprintf("%%r = stablehlo.iota dim = 0 : %s", out), out))
    }
  }
}

# regions without an end, functions without a body, recursion, and damaged syntax
for (text in c(
  "func.func @main() -> tensor<f32>",
    "func.func @main() { call @main() : () -> () return }",
    "func.func @main() {", "module {",
    "func.func private @f(tensor<f32>) -> tensor<f32>\nfunc.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }",
  main(
    '%r = "stablehlo.reduce"(%x, %z) ({ }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>',
    "tensor<f32>", "%x: tensor<4xf32>, %z: tensor<f32>"),
  main(
      '%r = "stablehlo.reduce"(%x, %z) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>',
    "tensor<f32>", "%x: tensor<4xf32>, %z: tensor<f32>"),
  main(
      '%r = "stablehlo.map"(%x) ({ ^bb0(%a: tensor<f32>): }) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>',
    "tensor<4xf32>", "%x: tensor<4xf32>"),
  main('%r = "stablehlo.case"(%i) ({ }, { }) : (tensor<i32>) -> tensor<f32>', "tensor<f32>", "%i: tensor<i32>"),
  main('%r = "stablehlo.if"(%i) ({ }, { }) : (tensor<i1>) -> tensor<f32>', "tensor<f32>", "%i: tensor<i1>"),
  main('%r = "stablehlo.while"(%x) ({ }, { }) : (tensor<f32>) -> tensor<f32>', "tensor<f32>", "%x: tensor<f32>"),
  main('%r = "stablehlo.sort"(%x) ({ }) {dimension = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>', "tensor<4xf32>",
    "%x: tensor<4xf32>"),
  main(
      '%r = "stablehlo.while"(%x) ({ ^bb0(%a: tensor<f32>): stablehlo.return %a : tensor<f32> }, { ^bb0(%a: tensor<f32>): stablehlo.return %a : tensor<f32> }) : (tensor<f32>) -> tensor<f32>',
    "tensor<f32>", "%x: tensor<f32>")
)) add("damaged programs", text)

# dynamic and quantized types
for (text in c(
  main("%r = stablehlo.add %x, %x : tensor<?xf32>", "tensor<?xf32>", "%x: tensor<?xf32>"),
  main(
      "%r = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>",
    "tensor<?xf32, #stablehlo.bounds<4>>", "%x: tensor<4xf32>, %n: tensor<i32>"),
  main("%r = stablehlo.add %x, %x : tensor<?xf32, #stablehlo.bounds<4>>", "tensor<?xf32, #stablehlo.bounds<4>>",
    "%x: tensor<?xf32, #stablehlo.bounds<4>>"),
  main("%r = stablehlo.add %x, %x : tensor<*xf32>", "tensor<*xf32>", "%x: tensor<*xf32>"),
  main("%r = stablehlo.add %x, %x : tensor<2x!quant.uniform<i8:f32, 0.5>>", "tensor<2x!quant.uniform<i8:f32, 0.5>>",
    "%x: tensor<2x!quant.uniform<i8:f32, 0.5>>"),
  main("%r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.0>>",
    "tensor<2x!quant.uniform<i8:f32, 0.0>>", "%x: tensor<2xf32>"),
  main("%r = stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x?xf32>", "tensor<?x?xf32>",
    "%x: tensor<4xf32>, %n: tensor<2xi32>")
)) add("dynamic and quantized types", text)

# custom calls and tokens
for (version in 0:5) {
  for (target in c("no_such_function", "Sharding", "TopK", "annotate_device_placement", "__onednn$matmul",
    "xla.sdy.FuncResultSharding", "SliceToDynamic", "PadToStatic", "Eigh", "lapack_sgetrf_ffi")) {
    add("custom calls",
      main(sprintf(
        "%%r = stablehlo.custom_call @\"%s\"(%%x) {api_version = %d : i32} : (tensor<4xf32>) -> tensor<4xf32>",
      target, version), "tensor<4xf32>", "%x: tensor<4xf32>"))
  }
}
token <- "%t = stablehlo.create_token : !stablehlo.token"
for (text in c(
  main(paste0(token,
      '\n  %r, %u = "stablehlo.infeed"(%t) {infeed_config = "", layout = [[0]]} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)'),
    "tensor<4xf32>"),
  main(paste0(token,
      '\n  %u = "stablehlo.outfeed"(%r, %t) {outfeed_config = ""} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token'),
    "tensor<4xf32>", "%r: tensor<4xf32>"),
  main(paste0(token,
      '\n  %u = "stablehlo.send"(%r, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token'),
    "tensor<4xf32>", "%r: tensor<4xf32>"),
  main(paste0(token,
      '\n  %r, %u = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)'),
    "tensor<4xf32>"),
  main(paste0(token, '\n  %r = stablehlo.after_all %t, %t : !stablehlo.token'), "!stablehlo.token"), main("",
    "!stablehlo.token", "%r: !stablehlo.token")
)) add("tokens and queues", text)

# collective operations
sums <-
  "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n %s = stablehlo.add %a, %b : tensor<f32>\n stablehlo.return %s : tensor<f32> })"
for (groups in c("[[0, 1]]", "[[0], [1]]", "[[0, 7]]", "[[0, 0]]", "[[-1, 0]]", "[[0]]", "[[5]]")) {
  count <- lengths(regmatches(groups, gregexpr("-?[0-9]+", groups)))
  rows <- lengths(regmatches(groups, gregexpr("[", groups, fixed = TRUE))) - 1L
  attribute <- sprintf("replica_groups = dense<%s> : tensor<%dx%dxi64>", groups, rows, count %/% rows)
  for (channel in c("", ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids")) {
    add("collectives", main(sprintf('%%r = "stablehlo.all_reduce"(%%x) %s {%s%s} : (tensor<4xf32>) -> tensor<4xf32>',
      sums, attribute, channel), "tensor<4xf32>", "%x: tensor<4xf32>"))
    add("collectives",
      main(sprintf(
        '%%r = "stablehlo.all_gather"(%%x) {all_gather_dim = 0 : i64, %s%s} : (tensor<4xf32>) -> tensor<8xf32>',
      attribute, channel), "tensor<8xf32>", "%x: tensor<4xf32>"))
  }
  add("collectives",
    main(sprintf(
      '%%r = "stablehlo.reduce_scatter"(%%x) %s {scatter_dimension = 0 : i64, %s} : (tensor<4xf32>) -> tensor<2xf32>',
    sums, attribute), "tensor<2xf32>", "%x: tensor<4xf32>"))
  add("collectives",
    main(sprintf(
      '%%r = "stablehlo.all_to_all"(%%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, %s} : (tensor<4xf32>) -> tensor<4xf32>',
    attribute), "tensor<4xf32>", "%x: tensor<4xf32>"))
}
for (pairs in c("[[0, 1]]", "[[0, 0]]", "[[0, 1], [1, 0]]", "[[0, 5]]", "[[-1, 0]]", "[[0, 0], [0, 0]]")) {
  rows <- lengths(regmatches(pairs, gregexpr("[", pairs, fixed = TRUE))) - 1L
  add("collectives",
    main(sprintf(
      '%%r = "stablehlo.collective_permute"(%%x) {source_target_pairs = dense<%s> : tensor<%dx2xi64>} : (tensor<4xf32>) -> tensor<4xf32>',
    pairs, rows), "tensor<4xf32>", "%x: tensor<4xf32>"))
}

# layouts that contradict the arrays
for (layout in c("{0,1}", "{1,0}", "{0}", "{0,0}", "{5,1}", "{0,1,2}", "auto", "nonsense")) {
  for (type in c("f32", "i4", "i1")) {
    square <- sprintf("tensor<4x4x%s>", type)
    add("layouts",
      sprintf(
        'module attributes {mhlo.layout_mode = "default"} { func.func @main(%%x: %s {mhlo.layout_mode = "%s"}) -> (%s {mhlo.layout_mode = "{0,1}"}) { return %%x : %s } }',
      square, layout, square, square))
  }
}

if (length(chosen) > 1L) {
  source("tools/random-programs.R")
  set.seed(as.integer(c(chosen[-(1:2)], "1")[[1L]]))
  programs <- lapply(seq_len(as.integer(chosen[[2L]])), function(i) list(kind = "random", text = random_program()))
}

# Inputs for an executable, all of them zero; NULL if it has too many or too large ones.
inputs_of <- function(executable) {
  wanted <- executable_info(executable)$inputs
  if (nrow(wanted) > 50L || any(elements_of(wanted) > 1e6)) {
    return(NULL)
  }
  lapply(seq_len(nrow(wanted)), function(i) {
    shape <- wanted$shape[[i]]
    pjrt_buffer(rep(if (wanted$dtype[[i]] == "pred") FALSE else 0, prod(shape)), wanted$dtype[[i]], shape = shape)
  })
}

elements_of <- function(arrays) vapply(arrays$shape, function(shape) prod(as.numeric(shape)), 0)

kept <- pjrt_buffer(c(1, 2, 3))
doubling <- pjrt_compile(pjrt_program("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.add %x, %x : tensor<3xf32>
  return %y : tensor<3xf32>
}"))

outcome <- function(text) {
  tryCatch(
    {
      setTimeLimit(elapsed = 120)
      executable <- pjrt_compile(pjrt_program(text))
      inputs <- inputs_of(executable)
      if (is.null(inputs) || any(elements_of(executable_info(executable)$outputs) > 1e6)) {
        "compiled"
      } else {
        out <- do.call(pjrt_execute, c(list(executable), inputs))
        lapply(if (inherits(out, "PJRTBuffer")) list(out) else out, await)
        "ran"
      }
    },
    pjrt_error = function(e) sub("^pjrt_error_", "", class(e)[[1L]]),
    error = function(e) paste("R:", conditionMessage(e)),
    finally = setTimeLimit()
  )
}

verbose <- nzchar(Sys.getenv("PJRT_CRASH_VERBOSE"))
outcomes <- character()
for (i in seq_along(programs)) {
  if (verbose) cat(i, programs[[i]]$kind, "\n")
  outcomes[[i]] <- outcome(programs[[i]]$text)
  if (verbose) cat("  ", outcomes[[i]], "\n")
  if (!identical(as.vector(as_array(pjrt_execute(doubling, kept))), c(2, 4, 6))) {
    stop("after program ", i, " (", programs[[i]]$kind, "), a buffer has another value")
  }
}
kinds <- vapply(programs, `[[`, "", "kind")
found <- table(kinds, ifelse(grepl("^(ran|compiled|compiler_crashed)$", outcomes), outcomes, "refused"))
print(found)
others <- unique(grep("^R: ", outcomes, value = TRUE))
if (length(others) > 0L) {
  stop("errors of R: ", paste(others, collapse = "; "))
}
cat(sprintf(
    "%d programs: %d crashed the compiler, and 0 the session\n",
    length(programs), sum(outcomes == "compiler_crashed")
))
