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
