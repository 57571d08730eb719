// Constants of every type.
module @types {
  func.func public @main() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) {
    %f0 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E5M2>
    %g0 = stablehlo.convert %f0 : (tensor<4xf8E5M2>) -> tensor<4xf32>
    %f1 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E4M3>
    %g1 = stablehlo.convert %f1 : (tensor<4xf8E4M3>) -> tensor<4xf32>
    %f2 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E4M3FN>
    %g2 = stablehlo.convert %f2 : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
    %f3 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E5M2FNUZ>
    %g3 = stablehlo.convert %f3 : (tensor<4xf8E5M2FNUZ>) -> tensor<4xf32>
    %f4 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E4M3FNUZ>
    %g4 = stablehlo.convert %f4 : (tensor<4xf8E4M3FNUZ>) -> tensor<4xf32>
    %f5 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E4M3B11FNUZ>
    %g5 = stablehlo.convert %f5 : (tensor<4xf8E4M3B11FNUZ>) -> tensor<4xf32>
    %f6 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E3M4>
    %g6 = stablehlo.convert %f6 : (tensor<4xf8E3M4>) -> tensor<4xf32>
    %f7 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf4E2M1FN>
    %g7 = stablehlo.convert %f7 : (tensor<4xf4E2M1FN>) -> tensor<4xf32>
    %f8 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf8E8M0FNU>
    %g8 = stablehlo.convert %f8 : (tensor<4xf8E8M0FNU>) -> tensor<4xf32>
    %f9 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xf16>
    %g9 = stablehlo.convert %f9 : (tensor<4xf16>) -> tensor<4xf32>
    %f10 = stablehlo.constant dense<[1.0, 2.0, 0.5, 4.0]> : tensor<4xbf16>
    %g10 = stablehlo.convert %f10 : (tensor<4xbf16>) -> tensor<4xf32>
    %i0 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
    %j0 = stablehlo.convert %i0 : (tensor<3xi1>) -> tensor<3xi64>
    %i1 = stablehlo.constant dense<[1, -2, 0]> : tensor<3xi2>
    %j1 = stablehlo.convert %i1 : (tensor<3xi2>) -> tensor<3xi64>
    %i2 = stablehlo.constant dense<[7, -8, -1]> : tensor<3xi4>
    %j2 = stablehlo.convert %i2 : (tensor<3xi4>) -> tensor<3xi64>
    %i3 = stablehlo.constant dense<[1, -1, 2]> : tensor<3xi8>
    %j3 = stablehlo.convert %i3 : (tensor<3xi8>) -> tensor<3xi64>
    %i4 = stablehlo.constant dense<[1, -1, 2]> : tensor<3xi16>
    %j4 = stablehlo.convert %i4 : (tensor<3xi16>) -> tensor<3xi64>
    %i5 = stablehlo.constant dense<[1, -1, 2]> : tensor<3xi32>
    %j5 = stablehlo.convert %i5 : (tensor<3xi32>) -> tensor<3xi64>
    %i6 = stablehlo.constant dense<[1, -1, 2]> : tensor<3xi64>
    %j6 = stablehlo.convert %i6 : (tensor<3xi64>) -> tensor<3xi64>
    %i7 = stablehlo.constant dense<[3, 0, 1]> : tensor<3xui2>
    %j7 = stablehlo.convert %i7 : (tensor<3xui2>) -> tensor<3xi64>
    %i8 = stablehlo.constant dense<[1, 0, 2]> : tensor<3xui4>
    %j8 = stablehlo.convert %i8 : (tensor<3xui4>) -> tensor<3xi64>
    %i9 = stablehlo.constant dense<[1, 0, 2]> : tensor<3xui8>
    %j9 = stablehlo.convert %i9 : (tensor<3xui8>) -> tensor<3xi64>
    %i10 = stablehlo.constant dense<[1, 0, 2]> : tensor<3xui16>
    %j10 = stablehlo.convert %i10 : (tensor<3xui16>) -> tensor<3xi64>
    %i11 = stablehlo.constant dense<[1, 0, 2]> : tensor<3xui32>
    %j11 = stablehlo.convert %i11 : (tensor<3xui32>) -> tensor<3xi64>
    %i12 = stablehlo.constant dense<[1, 0, 2]> : tensor<3xui64>
    %j12 = stablehlo.convert %i12 : (tensor<3xui64>) -> tensor<3xi64>
    return %g0, %g1, %g2, %g3, %g4, %g5, %g6, %g7, %g8, %g9, %g10, %j0, %j1, %j2, %j3, %j4, %j5, %j6, %j7, %j8, %j9, %j10, %j11, %j12 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>
  }
}
