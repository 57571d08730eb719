// Squares a number.
module @square {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %product = stablehlo.multiply %x, %x : tensor<f32>
    return %product : tensor<f32>
  }
}
