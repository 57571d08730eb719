# Programs with many operations and with regions.

loop_text <- '
func.func @main(%n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
   cond {
     %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
     stablehlo.return %p : tensor<i1>
  } do {
     %one = stablehlo.constant dense<1> : tensor<i32>
     %1 = stablehlo.add %i, %one : tensor<i32>
     %2 = func.call @"say \\"hi\\""(%v) : (tensor<4xf32>) -> tensor<4xf32>
     stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
func.func private @"say \\"hi\\""(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = stablehlo.abs %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}'

deep_text <- function(layers) {
  lines <- sprintf(
    "  %%t%d = stablehlo.tanh %%a%d : tensor<2xf32>\n  %%a%d = stablehlo.add %%t%d, %%a%d : tensor<2xf32>",
    seq_len(layers), seq_len(layers) - 1L, seq_len(layers), seq_len(layers), seq_len(layers) - 1L
  )
  paste(c(
    "func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {", lines,
    sprintf("  return %%a%d : tensor<2xf32>\n}", layers)
  ), collapse = "\n")
}
