// Least squares by gradient descent. After each step, @report gets the number of the step and the loss, and returns whether
// to stop.
func.func @main(%x: tensor<150x4xf32>, %y: tensor<150xf32>, %rate: tensor<f32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %most = stablehlo.constant dense<100000> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<4xf32>
  %no = stablehlo.constant dense<false> : tensor<i1>
  %out:3 = stablehlo.while(%i = %zero, %w = %start, %stop = %no) : tensor<i32>, tensor<4xf32>, tensor<i1>
  cond {
    %early = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %on = stablehlo.not %stop : tensor<i1>
    %both = stablehlo.and %early, %on : tensor<i1>
    stablehlo.return %both : tensor<i1>
  } do {
    %fit = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<150x4xf32>, tensor<4xf32>) -> tensor<150xf32>
    %residual = stablehlo.subtract %fit, %y : tensor<150xf32>
    %slope = stablehlo.dot_general %residual, %x, contracting_dims = [0] x [0] : (tensor<150xf32>, tensor<150x4xf32>) -> tensor<4xf32>
    %rates = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %change = stablehlo.multiply %rates, %slope : tensor<4xf32>
    %next = stablehlo.subtract %w, %change : tensor<4xf32>
    %loss = stablehlo.dot_general %residual, %residual, contracting_dims = [0] x [0] : (tensor<150xf32>, tensor<150xf32>) -> tensor<f32>
    %step = stablehlo.add %i, %one : tensor<i32>
    %enough = stablehlo.custom_call @report(%step, %loss) {
      api_version = 4 : i32, has_side_effect = true, backend_config = {every = 100 : i64}
    } : (tensor<i32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %step, %next, %enough : tensor<i32>, tensor<4xf32>, tensor<i1>
  }
  return %out#1, %out#0 : tensor<4xf32>, tensor<i32>
}
