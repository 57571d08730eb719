compile <- function(text, ...) pjrt_compile(pjrt_program(text), ...)

fixture <- function(name) test_path("fixtures", name)

# `type` to `type`, by one operation on the argument and itself.
unary_program <- function(type, operation = "add") {
  sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%s> {
  %%0 = stablehlo.%s %%x, %%x : tensor<%s>
  return %%0 : tensor<%s>
}", type, type, operation, type, type)
}

identity_program <- function(type) {
  sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%s> { return %%x : tensor<%s> }", type, type, type)
}

# x + y, where x has these attributes.
add_program <- function(type, x = "") {
  sprintf("func.func @main(%%x: tensor<%s>%s, %%y: tensor<%s>) -> tensor<%s> {
  %%0 = stablehlo.add %%x, %%y : tensor<%s>
  return %%0 : tensor<%s>
}", type, x, type, type, type, type)
}

donates <- " {tf.aliasing_output = 0 : i32}"

# x + 1 without any rounding that would matter, in a loop of `steps`, which the plugin runs on the thread that launches
# it. Never ends when `steps` is Inf.
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

# A StableHLO collective on `x` among `n` replicas, as in collective("all_reduce", "f32", "f32", 2).
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

# The sum of x over `n` replicas, where x has these attributes.
all_reduce_program <- function(type, n, x = "") {
  sprintf("func.func @main(%%x: tensor<%s>%s) -> tensor<%s> {
  %%0 = %s
  return %%0 : tensor<%s>
}", type, x, type, collective("all_reduce", type, type, n, reduces = TRUE), type)
}

# Where the cut is made in a program of partitions, in the words of GSPMD or of Shardy.
sharded_by <- function(partitioner, n, rank) {
  if (partitioner == "gspmd") {
    tiles <- paste(c(n, rep(1, rank - 1L)), collapse = ",")
    list(rows = sprintf("{mhlo.sharding = \"{devices=[%s]<=[%d]}\"}", tiles, n), all = "{mhlo.sharding = \"{replicated}\"}", mesh = "")
  } else {
    axes <- paste(c("{\"d\"}", rep("{}", rank - 1L)), collapse = ", ")
    list(
      rows = sprintf("{sdy.sharding = #sdy.sharding<@mesh, [%s]>}", axes), all = "",
      mesh = sprintf("sdy.mesh @mesh = <[\"d\"=%d]>", n)
    )
  }
}

# x %*% w and sum(x), for an 8x3 matrix whose rows are divided.
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
