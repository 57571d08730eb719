// Operations that JAX does not export.
module @others attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32, x.text = "a\22b\\\0A\C3\A9", "x.odd key" = [1 : i8, -1 : i64, 255 : ui8, 1.5 : bf16, 0x7FC0 : bf16, 2.5 : f64, false, tensor<2xf32>, f32]} {
  func.func public @main(%x: tensor<2x3xf32> {a.unit = true, tf.aliasing_output = 0 : i32}, %i: tensor<3xi32>, %z: tensor<4xf32>, %b: tensor<1x2x2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x3xf32> {jax.result_info = "x"}, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, tensor<ui32>, tensor<ui32>, tensor<2x2xf32>, tensor<2x3x2xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4xui64>, tensor<2x3xf32>, tensor<f32>) {
    %0 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %m = stablehlo.multiply %p, %q : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.composite "my.composite" %0 {composite_attributes = {n = 2 : i64, name = "x"}, decomposition = @half, version = 3 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = "stablehlo.tanh"(%x) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "stablehlo.exponential"(%z) <{result_accuracy = #stablehlo.result_accuracy<atol = 1.0e-3, rtol = 1.0e-4, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "stablehlo.batch_norm_inference"(%b, %s, %s, %s, %s) <{epsilon = 1.0e-3 : f32, feature_index = 3 : i64}> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
    %5:3 = "stablehlo.batch_norm_training"(%b, %s, %s) <{epsilon = 1.0e-3 : f32, feature_index = 3 : i64}> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>)
    %6:3 = "stablehlo.batch_norm_grad"(%b, %s, %s, %s, %b) <{epsilon = 1.0e-3 : f32, feature_index = 3 : i64}> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1x2x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>)
    %7 = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %8 = "stablehlo.if"(%c) ({
      stablehlo.return %x : tensor<2x3xf32>
    }, {
      stablehlo.return %0 : tensor<2x3xf32>
    }) : (tensor<i1>) -> tensor<2x3xf32>
    %9 = stablehlo.partition_id : tensor<ui32>
    %10 = stablehlo.replica_id : tensor<ui32>
    %spd = stablehlo.constant dense<[[4.0, 2.0], [2.0, 3.0]]> : tensor<2x2xf32>
    %11 = "stablehlo.cholesky"(%spd) <{lower = true}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %12 = "stablehlo.broadcast_in_dim"(%x) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x3xf32>) -> tensor<2x3x2xf32>
    %t = stablehlo.tuple %z, %x : tuple<tensor<4xf32>, tensor<2x3xf32>>
    %13 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<4xf32>, tensor<2x3xf32>>) -> tensor<4xf32>
    %token = stablehlo.create_token : !stablehlo.token
    %tokens = stablehlo.after_all %token, %token : !stablehlo.token
    %14 = "stablehlo.custom_call"(%x) <{api_version = 1 : i32, backend_config = "{\22a\22: 1}", call_target_name = "Sharding", has_side_effect = false, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}> {mhlo.sharding = "{replicated}"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %key = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
    %15:2 = "stablehlo.rng_bit_generator"(%key) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui64>)
    %16 = "stablehlo.reduce_precision"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %17 = "stablehlo.dot"(%s, %s) <{precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
    return %0, %1, %2, %3, %4, %5#0, %5#1, %5#2, %6#0, %6#1, %6#2, %7, %8, %9, %10, %11, %12, %13, %14, %15#1, %16, %17 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, tensor<ui32>, tensor<ui32>, tensor<2x2xf32>, tensor<2x3x2xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4xui64>, tensor<2x3xf32>, tensor<f32>
  }
  func.func private @half(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %c = stablehlo.constant dense<5.0e-01> : tensor<2x3xf32>
    %0 = stablehlo.multiply %x, %c : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
