// Logistic regression by stochastic gradient descent, for %steps batches of 32 rows, which @next_batch supplies.
func.func @main(%steps: tensor<i32>, %rate: tensor<f32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<3xf32>
  %out:2 = stablehlo.while(%i = %zero, %w = %start) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %step = stablehlo.add %i, %one : tensor<i32>
    %batch:2 = stablehlo.custom_call @next_batch(%step) {
      api_version = 4 : i32, has_side_effect = true, backend_config = {size = 32 : i64}
    } : (tensor<i32>) -> (tensor<32x3xf32>, tensor<32xf32>)
    %score = stablehlo.dot_general %batch#0, %w, contracting_dims = [1] x [0] : (tensor<32x3xf32>, tensor<3xf32>) -> tensor<32xf32>
    %fit = stablehlo.logistic %score : tensor<32xf32>
    %residual = stablehlo.subtract %fit, %batch#1 : tensor<32xf32>
    %slope = stablehlo.dot_general %residual, %batch#0, contracting_dims = [0] x [0] : (tensor<32xf32>, tensor<32x3xf32>) -> tensor<3xf32>
    %rates = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %change = stablehlo.multiply %rates, %slope : tensor<3xf32>
    %next = stablehlo.subtract %w, %change : tensor<3xf32>
    stablehlo.return %step, %next : tensor<i32>, tensor<3xf32>
  }
  return %out#1 : tensor<3xf32>
}
