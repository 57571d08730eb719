// A Markov chain by the Metropolis algorithm, for a parameter of two numbers. @log_density is a function of R. %moves and
// %uniform are random numbers, one row for each step.
func.func @main(%start: tensor<2xf64>, %moves: tensor<2000x2xf64>, %uniform: tensor<2000xf64>) -> tensor<2000x2xf64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %last = stablehlo.constant dense<2000> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<2000x2xf64>
  %logs = stablehlo.log %uniform : tensor<2000xf64>
  %first = stablehlo.custom_call @log_density(%start) {api_version = 4 : i32} : (tensor<2xf64>) -> tensor<f64>
  %out:4 = stablehlo.while(%i = %zero, %now = %start, %density = %first, %chain = %empty)
      : tensor<i32>, tensor<2xf64>, tensor<f64>, tensor<2000x2xf64>
  cond {
    %more = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %moves, %i, %zero, sizes = [1, 2] : (tensor<2000x2xf64>, tensor<i32>, tensor<i32>) -> tensor<1x2xf64>
    %move = stablehlo.reshape %row : (tensor<1x2xf64>) -> tensor<2xf64>
    %proposed = stablehlo.add %now, %move : tensor<2xf64>
    %its = stablehlo.custom_call @log_density(%proposed) {api_version = 4 : i32} : (tensor<2xf64>) -> tensor<f64>
    %u = stablehlo.dynamic_slice %logs, %i, sizes = [1] : (tensor<2000xf64>, tensor<i32>) -> tensor<1xf64>
    %limit = stablehlo.reshape %u : (tensor<1xf64>) -> tensor<f64>
    %ratio = stablehlo.subtract %its, %density : tensor<f64>
    %taken = stablehlo.compare LT, %limit, %ratio : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %next = stablehlo.select %taken, %proposed, %now : tensor<i1>, tensor<2xf64>
    %its_or_old = stablehlo.select %taken, %its, %density : tensor<i1>, tensor<f64>
    %link = stablehlo.reshape %next : (tensor<2xf64>) -> tensor<1x2xf64>
    %longer = stablehlo.dynamic_update_slice %chain, %link, %i, %zero
        : (tensor<2000x2xf64>, tensor<1x2xf64>, tensor<i32>, tensor<i32>) -> tensor<2000x2xf64>
    %step = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %step, %next, %its_or_old, %longer : tensor<i32>, tensor<2xf64>, tensor<f64>, tensor<2000x2xf64>
  }
  return %out#3 : tensor<2000x2xf64>
}
