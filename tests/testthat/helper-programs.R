compile <- function(text, ...) pjrt_compile(pjrt_program(text), ...)

fixture <- function(name) test_path("fixtures", name)

# Applies one binary operation to the argument and itself.
unary_program <- function(type, operation = "add") {
  sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%s> {
  %%0 = stablehlo.%s %%x, %%x : tensor<%s>
  return %%0 : tensor<%s>
}", type, type, operation, type, type)
}

identity_program <- function(type) {
  sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%s> { return %%x : tensor<%s> }", type, type, type)
}

# x + y, with the attributes `x` on the first argument.
add_program <- function(type, x = "") {
  sprintf("func.func @main(%%x: tensor<%s>%s, %%y: tensor<%s>) -> tensor<%s> {
  %%0 = stablehlo.add %%x, %%y : tensor<%s>
  return %%0 : tensor<%s>
}", type, x, type, type, type, type)
}

donates <- " {tf.aliasing_output = 0 : i32}"

# A chain of operations on a number, each on the two previous results. Compiling 10,000 takes about a second. Newer
# compilers fail on such a chain of operations on an array.
chain_program <- function(operations) {
  n <- seq_len(operations)
  sprintf("func.func @main(%%0: tensor<f32>) -> tensor<f32> {\n%s\nreturn %%%d : tensor<f32>\n}", paste0(
    "%", n, " = stablehlo.", rep_len(c("add", "multiply"), operations), " %", n - 1L, ", %", pmax(n - 2L, 0L),
    " : tensor<f32>", collapse = "\n"
  ), operations)
}

# x + 1 after a loop of `steps`, which the plugin runs on the launching thread. Never ends if `steps` is Inf.
loop_program <- function(steps, x = "") {
  sprintf("func.func @main(%%x: tensor<f64>%s) -> tensor<f64> {
  %%zero = stablehlo.constant dense<0> : tensor<i64>
  %%one = stablehlo.constant dense<1> : tensor<i64>
  %%last = stablehlo.constant dense<%s> : tensor<i64>
  %%r:2 = stablehlo.while(%%i = %%zero, %%v = %%x) : tensor<i64>, tensor<f64>
    cond {
      %%c = stablehlo.compare LT, %%i, %%last : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %%c : tensor<i1>
    } do {
      %%j = stablehlo.add %%i, %%one : tensor<i64>
      %%s = stablehlo.sine %%v : tensor<f64>
      %%a = stablehlo.cosine %%s : tensor<f64>
      stablehlo.return %%j, %%a : tensor<i64>, tensor<f64>
    }
  %%d = stablehlo.subtract %%r#1, %%r#1 : tensor<f64>
  %%e = stablehlo.add %%x, %%d : tensor<f64>
  %%unit = stablehlo.constant dense<1.0> : tensor<f64>
  %%f = stablehlo.add %%e, %%unit : tensor<f64>
  return %%f : tensor<f64>
}", x, if (is.finite(steps)) format(steps, scientific = FALSE) else "4611686018427387904")
}

# A program for each kind of instruction that has its own syntax in HLO text.
kinds_of_programs <- function() {
  main <- function(arguments, results, ...) {
    names <- paste0("%r", seq_along(results), collapse = ", ")
    types <- paste(results, collapse = ", ")
    c(sprintf("func.func @main(%s) -> (%s) {", arguments, types), ..., sprintf("  return %s : %s", names, types), "}")
  }
  list(
    elementwise = main(
      "%x: tensor<8x16xf32>, %y: tensor<8x16xf32> {tf.aliasing_output = 0 : i32}",
      c("tensor<8x16xf32>", "tensor<8x16xi1>"),
      "%0 = stablehlo.exponential %x : tensor<8x16xf32>",
      "%r1 = stablehlo.add %0, %y : tensor<8x16xf32>",
      "%r2 = stablehlo.compare GT, %0, %y, TOTALORDER : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xi1>"
    ),
    dot = main(
      "%x: tensor<3x4x5xf32>, %y: tensor<3x5x6xf32>", "tensor<3x4x6xf32>",
      "%r1 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1],",
      "  precision = [HIGHEST, HIGHEST] : (tensor<3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<3x4x6xf32>"
    ),
    reduce = main(
      "%x: tensor<8x16xf32>", "tensor<8xf32>",
      "%c = stablehlo.constant dense<0xFF800000> : tensor<f32>",
      "%r1 = stablehlo.reduce(%x init: %c) applies stablehlo.maximum across dimensions = [1]",
      "  : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>"
    ),
    convolution = main(
      "%x: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>", "tensor<1x4x4x4xf32>",
      "%r1 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],",
      "  window = {stride = [2, 2], pad = [[0, 1], [0, 1]]}",
      "  {batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
      "  : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>"
    ),
    sort = main(
      "%x: tensor<4x7xi32>", "tensor<4x7xi32>",
      "%r1 = \"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({",
      "  ^bb0(%a: tensor<i32>, %b: tensor<i32>):",
      "  %0 = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
      "  stablehlo.return %0 : tensor<i1>",
      "}) : (tensor<4x7xi32>) -> tensor<4x7xi32>"
    ),
    parts = main(
      "%x: tensor<8x16xf32>, %i: tensor<i32>",
      c("tensor<2x16xf32>", "tensor<9x19xf32>", "tensor<2x2xf32>", "tensor<16x8xf32>"),
      "%c = stablehlo.constant dense<1.0e-01> : tensor<f32>",
      "%r1 = stablehlo.slice %x [1:5:2, 0:16] : (tensor<8x16xf32>) -> tensor<2x16xf32>",
      "%r2 = stablehlo.pad %x, %c, low = [0, 1], high = [1, 2], interior = [0, 0]",
      "  : (tensor<8x16xf32>, tensor<f32>) -> tensor<9x19xf32>",
      "%r3 = stablehlo.dynamic_slice %x, %i, %i, sizes = [2, 2]",
      "  : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>",
      "%r4 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>"
    ),
    constants = main(
      "%x: tensor<f32>", c(
        "tensor<2x2xf64>", "tensor<2x2x2xi16>", "tensor<1x2xcomplex<f32>>", "tensor<2xi1>", "tensor<f16>",
        "tensor<12xi8>"
      ),
      "%r1 = stablehlo.constant dense<[[1.0e300, -0.1], [0.33333333333333333, -0.0]]> : tensor<2x2xf64>",
      "%r2 = stablehlo.constant dense<[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]> : tensor<2x2x2xi16>",
      "%r3 = stablehlo.constant dense<[[(1.0, -2.0), (0.1, 1.0e20)]]> : tensor<1x2xcomplex<f32>>",
      "%r4 = stablehlo.constant dense<[true, false]> : tensor<2xi1>",
      "%r5 = stablehlo.constant dense<0.1> : tensor<f16>",
      "%r6 = stablehlo.constant dense<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<12xi8>"
    ),
    loop = loop_program(10)
  )
}
# A StableHLO collective on `x` across `n` replicas, as in collective("all_reduce", "f32", "f32", 2).
collective <- function(operation, from, to, n, attributes = "", reduces = FALSE) {
  element <- sub("^.*x", "", from)
  sum <- sprintf("({
    ^bb0(%%a: tensor<%s>, %%b: tensor<%s>):
      %%c = stablehlo.add %%a, %%b : tensor<%s>
      stablehlo.return %%c : tensor<%s>
  })", element, element, element, element)
  groups <- sprintf("replica_groups = dense<[[%s]]> : tensor<1x%dxi64>", paste(seq_len(n) - 1L, collapse = ", "), n)
  if (operation == "collective_permute") groups <- NULL
  sprintf("\"stablehlo.%s\"(%%x) <{%s}> %s : (tensor<%s>) -> tensor<%s>",
    operation, paste(c(groups, attributes[nzchar(attributes)]), collapse = ", "), if (reduces) sum else "", from, to
  )
}

# The sum of x over `n` replicas, with the attributes `x` on the argument.
all_reduce_program <- function(type, n, x = "") {
  sprintf("func.func @main(%%x: tensor<%s>%s) -> tensor<%s> {
  %%0 = %s
  return %%0 : tensor<%s>
}", type, x, type, collective("all_reduce", type, type, n, reduces = TRUE), type)
}

# Attributes that shard the rows or replicate, in the syntax of GSPMD or Shardy.
sharded_by <- function(partitioner, n, rank) {
  if (partitioner == "gspmd") {
    tiles <- paste(c(n, rep(1, rank - 1L)), collapse = ",")
    list(
      rows = sprintf("{mhlo.sharding = \"{devices=[%s]<=[%d]}\"}", tiles, n),
      all = "{mhlo.sharding = \"{replicated}\"}", mesh = ""
    )
  } else {
    axes <- paste(c("{\"d\"}", rep("{}", rank - 1L)), collapse = ", ")
    list(
      rows = sprintf("{sdy.sharding = #sdy.sharding<@mesh, [%s]>}", axes), all = "",
      mesh = sprintf("sdy.mesh @mesh = <[\"d\"=%d]>", n)
    )
  }
}

# x %*% w and sum(x), for an 8x3 matrix that is sharded by rows.
partitioned_program <- function(partitioner, n) {
  where <- sharded_by(partitioner, n, 2L)
  sprintf("module {
  %s
  func.func public @main(%%x: tensor<8x3xf32> %s, %%w: tensor<3x2xf32> %s) -> (tensor<8x2xf32> %s, tensor<f32> %s) {
    %%0 = stablehlo.dot_general %%x, %%w, contracting_dims = [1] x [0] : (tensor<8x3xf32>, tensor<3x2xf32>) -> tensor<8x2xf32>
    %%zero = stablehlo.constant dense<0.0> : tensor<f32>
    %%1 = stablehlo.reduce(%%x init: %%zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x3xf32>, tensor<f32>) -> tensor<f32>
    return %%0, %%1 : tensor<8x2xf32>, tensor<f32>
  }
}", where$mesh, where$rows, where$all, where$rows, where$all)
}

# The network of inst/models/iris.py for `rows` flowers.
classifier_program <- function(rows) {
  pjrt_program("
func.func @main(%x: tensor<{ROWS}x4xf32>, %mean: tensor<4xf32>, %scale: tensor<4xf32>, %w1: tensor<4x8xf32>,
                %b1: tensor<8xf32>, %w2: tensor<8x3xf32>, %b2: tensor<3xf32>) -> tensor<{ROWS}x3xf32> {
  %means = stablehlo.broadcast_in_dim %mean, dims = [1] : (tensor<4xf32>) -> tensor<{ROWS}x4xf32>
  %scales = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<4xf32>) -> tensor<{ROWS}x4xf32>
  %centred = stablehlo.subtract %x, %means : tensor<{ROWS}x4xf32>
  %scaled = stablehlo.divide %centred, %scales : tensor<{ROWS}x4xf32>
  %p1 = stablehlo.dot_general %scaled, %w1, contracting_dims = [1] x [0]
    : (tensor<{ROWS}x4xf32>, tensor<4x8xf32>) -> tensor<{ROWS}x8xf32>
  %q1 = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<8xf32>) -> tensor<{ROWS}x8xf32>
  %s1 = stablehlo.add %p1, %q1 : tensor<{ROWS}x8xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<{ROWS}x8xf32>
  %hidden = stablehlo.maximum %s1, %zeros : tensor<{ROWS}x8xf32>
  %p2 = stablehlo.dot_general %hidden, %w2, contracting_dims = [1] x [0]
    : (tensor<{ROWS}x8xf32>, tensor<8x3xf32>) -> tensor<{ROWS}x3xf32>
  %q2 = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<3xf32>) -> tensor<{ROWS}x3xf32>
  %scores = stablehlo.add %p2, %q2 : tensor<{ROWS}x3xf32>
  %odds = stablehlo.exponential %scores : tensor<{ROWS}x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %total = stablehlo.reduce(%odds init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<{ROWS}x3xf32>, tensor<f32>) -> tensor<{ROWS}xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0] : (tensor<{ROWS}xf32>) -> tensor<{ROWS}x3xf32>
  %y = stablehlo.divide %odds, %totals : tensor<{ROWS}x3xf32>
  return %y : tensor<{ROWS}x3xf32>
}", types = list(ROWS = rows))
}

# Every function that reads or passes on the content of buffer `x`. `y` is another buffer, `add` an executable.
readers <- list(
  as_array = quote(as_array(x)), as_raw = quote(as_raw(x, TRUE)),
  format_buffer = quote(format_buffer(x)), await = quote(await(x)), is_ready = quote(is_ready(x)),
  as_array_async = quote(as_array_async(x)), copy_buffer = quote(copy_buffer(x, "cpu:1")),
  to_memory = quote(copy_buffer(x, memory_spaces(device(x))[[2L]])), memory_space = quote(memory_space(x)),
  pjrt_memory = quote(pjrt_memory(x)), part = quote(x[1]), element = quote(x[[1]]), as.vector = quote(as.vector(x)),
  summary = quote(summary(x)), all.equal = quote(all.equal(x, y)), is.na = quote(is.na(x)),
  unshard = quote(pjrt_unshard(list(x, x), dim = NULL)),
  first = quote(pjrt_execute(add, x, y)), second = quote(pjrt_execute(add, y, x)),
  sharded = quote(pjrt_execute_sharded(add, list(list(x, y))))
)

# Whether `test` becomes true within some seconds.
comes_true <- function(test, seconds = 20) {
  end <- Sys.time() + seconds
  repeat {
    if (test()) return(TRUE)
    if (Sys.time() > end) return(FALSE)
    Sys.sleep(0.02)
  }
}
