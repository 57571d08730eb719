// One step of gradient descent with momentum on the mean logistic loss of 100 rows and 5 columns (the first is all ones).
// Weights and velocity are donated: their new values reuse the memory of the old ones.
module @logistic_step {
  func.func public @main(
      %features: tensor<100x5xf64>,
      %labels: tensor<100xf64>,
      %weights: tensor<5xf64> {tf.aliasing_output = 0 : i32},
      %velocity: tensor<5xf64> {tf.aliasing_output = 1 : i32},
      %rate: tensor<f64>,
      %momentum: tensor<f64>
  ) -> (tensor<5xf64>, tensor<5xf64>, tensor<f64>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f64>
    %zeros = stablehlo.constant dense<0.0> : tensor<100xf64>
    %rows = stablehlo.constant dense<100.0> : tensor<f64>

    // loss = mean(log(1 + exp(score)) - label * score), written so that exp() cannot overflow
    %score = stablehlo.dot_general %features, %weights, contracting_dims = [1] x [0]
      : (tensor<100x5xf64>, tensor<5xf64>) -> tensor<100xf64>
    %positive = stablehlo.maximum %score, %zeros : tensor<100xf64>
    %size = stablehlo.abs %score : tensor<100xf64>
    %minus_size = stablehlo.negate %size : tensor<100xf64>
    %tail = stablehlo.exponential %minus_size : tensor<100xf64>
    %log_tail = stablehlo.log_plus_one %tail : tensor<100xf64>
    %log_sum = stablehlo.add %positive, %log_tail : tensor<100xf64>
    %hit = stablehlo.multiply %labels, %score : tensor<100xf64>
    %losses = stablehlo.subtract %log_sum, %hit : tensor<100xf64>
    %loss_sum = stablehlo.reduce(%losses init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<100xf64>, tensor<f64>) -> tensor<f64>
    %loss = stablehlo.divide %loss_sum, %rows : tensor<f64>

    // gradient = t(features) %*% (probability - label) / rows
    %probability = stablehlo.logistic %score : tensor<100xf64>
    %residual = stablehlo.subtract %probability, %labels : tensor<100xf64>
    %gradient_sum = stablehlo.dot_general %features, %residual, contracting_dims = [0] x [0]
      : (tensor<100x5xf64>, tensor<100xf64>) -> tensor<5xf64>
    %rows_5 = stablehlo.broadcast_in_dim %rows, dims = [] : (tensor<f64>) -> tensor<5xf64>
    %gradient = stablehlo.divide %gradient_sum, %rows_5 : tensor<5xf64>

    // velocity = momentum * velocity - rate * gradient; weights = weights + velocity
    %rate_5 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f64>) -> tensor<5xf64>
    %momentum_5 = stablehlo.broadcast_in_dim %momentum, dims = [] : (tensor<f64>) -> tensor<5xf64>
    %kept = stablehlo.multiply %momentum_5, %velocity : tensor<5xf64>
    %push = stablehlo.multiply %rate_5, %gradient : tensor<5xf64>
    %new_velocity = stablehlo.subtract %kept, %push : tensor<5xf64>
    %new_weights = stablehlo.add %weights, %new_velocity : tensor<5xf64>
    return %new_weights, %new_velocity, %loss : tensor<5xf64>, tensor<5xf64>, tensor<f64>
  }
}
