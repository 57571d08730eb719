//! The messages of XLA's protocol buffers that this crate reads, with their field numbers. Unknown fields are skipped,
//! so newer modules can be decoded, too.

use super::groups::{MeshAxesReplicaGroupList, NamedSharding};
use crate::module::{Conv, Dot, Gather, Scatter};
use std::collections::BTreeMap;

/// XLA's `PrimitiveType` of shapes that are not arrays.
pub const TUPLE: i32 = 13;
pub const OPAQUE: i32 = 14;
pub const TOKEN: i32 = 17;

messages! {
    struct TileProto {
        dimensions: Vec<i64> = 1 repeated int64,
    }

    struct LayoutProto {
        minor_to_major: Vec<i64> = 1 repeated int64,
        tiles: Vec<TileProto> = 6 repeated message,
        element_size_in_bits: i64 = 7 int64,
        memory_space: i64 = 8 int64,
    }

    struct ShapeProto {
        element_type: i32 = 2 int32,
        dimensions: Vec<i64> = 3 repeated int64,
        tuple_shapes: Vec<ShapeProto> = 4 repeated message,
        layout: Option<LayoutProto> = 5 optional message,
        is_dynamic_dimension: Vec<bool> = 6 repeated bool,
    }

    struct ProgramShapeProto {
        parameters: Vec<ShapeProto> = 1 repeated message,
        result: Option<ShapeProto> = 2 optional message,
        parameter_names: Vec<String> = 3 repeated string,
    }

    /// The value of a constant, in the field of its type.
    struct LiteralProto {
        shape: Option<ShapeProto> = 1 optional message,
        preds: Vec<bool> = 2 repeated bool,
        u8s: Vec<u8> = 3 bytes,
        s32s: Vec<i32> = 4 repeated int32,
        s64s: Vec<i64> = 5 repeated int64,
        u32s: Vec<u32> = 6 repeated uint32,
        u64s: Vec<u64> = 7 repeated uint64,
        f32s: Vec<f32> = 8 repeated float,
        f64s: Vec<f64> = 9 repeated double,
        f16s: Vec<u8> = 11 bytes,
        c64s: Vec<f32> = 12 repeated float,
        bf16s: Vec<u8> = 13 bytes,
        s8s: Vec<u8> = 15 bytes,
        u16s: Vec<u8> = 16 bytes,
        s16s: Vec<u8> = 17 bytes,
        c128s: Vec<f64> = 18 repeated double,
    }

    struct WindowDimension {
        size: i64 = 1 int64,
        stride: i64 = 2 int64,
        padding_low: i64 = 3 int64,
        padding_high: i64 = 4 int64,
        window_dilation: i64 = 5 int64,
        base_dilation: i64 = 6 int64,
        window_reversal: bool = 7 bool,
    }

    struct Window {
        dimensions: Vec<WindowDimension> = 1 repeated message,
    }

    struct SliceDimensions {
        start: i64 = 1 int64,
        limit: i64 = 2 int64,
        stride: i64 = 3 int64,
    }

    struct PaddingConfigDimension {
        low: i64 = 1 int64,
        high: i64 = 2 int64,
        interior: i64 = 3 int64,
    }

    struct PaddingConfig {
        dimensions: Vec<PaddingConfigDimension> = 1 repeated message,
    }

    struct ReplicaGroup {
        replica_ids: Vec<i64> = 1 repeated int64,
    }

    /// Replica groups as a rearranged range of numbers.
    struct IotaReplicaGroupList {
        num_replica_groups: i64 = 1 int64,
        num_devices_per_group: i64 = 2 int64,
        iota_reshape_dims: Vec<i64> = 3 repeated int64,
        iota_transpose_perm: Vec<i32> = 4 repeated int32,
    }

    struct CollectiveDeviceList {
        replica_groups: Vec<ReplicaGroup> = 1 repeated message,
        iota: Option<IotaReplicaGroupList> = 2 optional message,
    }

    struct SourceTarget {
        source: i64 = 1 int64,
        target: i64 = 2 int64,
    }

    /// The sharding of a value.
    struct OpSharding {
        kind: i32 = 1 int32,
        tile_dims: Vec<i64> = 3 repeated int64,
        tile_devices: Vec<i64> = 4 repeated int64,
        tuple_shardings: Vec<OpSharding> = 5 repeated message,
        replicate_on_last_tile_dim: bool = 6 bool,
        last_tile_dims: Vec<i32> = 8 repeated int32,
        iota_reshape_dims: Vec<i64> = 9 repeated int64,
        iota_transpose_perm: Vec<i32> = 10 repeated int32,
        named: Option<NamedSharding> = 14 optional message,
    }

    struct PrecisionConfig {
        operand_precision: Vec<i32> = 1 repeated int32,
    }

    struct TriangularSolveOptions {
        left_side: bool = 1 bool,
        lower: bool = 2 bool,
        unit_diagonal: bool = 3 bool,
        transpose_a: i32 = 4 int32,
    }

    struct CholeskyOptions {
        lower: bool = 1 bool,
    }

    struct OutputOperandAliasing {
        output_shape_index: Vec<i64> = 1 repeated int64,
        operand_index: i64 = 2 int64,
        operand_shape_index: Vec<i64> = 3 repeated int64,
    }

    struct FrontendAttributes {
        map: BTreeMap<String, String> = 1 btree_map = "string, string",
    }

    /// The source of an instruction.
    struct OpMetadata {
        op_type: String = 1 string,
        op_name: String = 2 string,
        source_file: String = 3 string,
        source_line: i32 = 4 int32,
        stack_frame_id: i32 = 15 int32,
        source_end_line: i32 = 17 int32,
        source_column: i32 = 18 int32,
        source_end_column: i32 = 19 int32,
    }

    struct HloInstructionProto {
        name: String = 1 string,
        opcode: String = 2 string,
        shape: Option<ShapeProto> = 3 optional message,
        metadata: Option<OpMetadata> = 7 optional message,
        literal: Option<LiteralProto> = 8 optional message,
        parameter_number: i64 = 9 int64,
        fusion_kind: String = 11 string,
        tuple_index: i64 = 13 int64,
        dimensions: Vec<i64> = 14 repeated int64,
        window: Option<Window> = 15 optional message,
        convolution_dimension_numbers: Option<Conv> = 16 optional message,
        slice_dimensions: Vec<SliceDimensions> = 17 repeated message,
        exponent_bits: i32 = 18 int32,
        mantissa_bits: i32 = 19 int32,
        dynamic_slice_sizes: Vec<i64> = 20 repeated int64,
        padding_config: Option<PaddingConfig> = 21 optional message,
        distribution: i32 = 23 int32,
        epsilon: f32 = 24 float,
        feature_index: i64 = 25 int64,
        channel_id: i64 = 26 int64,
        custom_call_target: String = 28 string,
        dot_dimension_numbers: Option<Dot> = 30 optional message,
        fft_type: i32 = 31 int32,
        fft_length: Vec<i64> = 32 repeated int64,
        gather_dimension_numbers: Option<Gather> = 33 optional message,
        gather_slice_sizes: Vec<i64> = 34 repeated int64,
        id: i64 = 35 int64,
        operand_ids: Vec<i64> = 36 repeated int64,
        control_predecessor_ids: Vec<i64> = 37 repeated int64,
        called_computation_ids: Vec<i64> = 38 repeated int64,
        sharding: Option<OpSharding> = 40 optional message,
        backend_config: Vec<u8> = 43 bytes,
        is_host_transfer: bool = 47 bool,
        scatter_dimension_numbers: Option<Scatter> = 48 optional message,
        replica_groups: Vec<ReplicaGroup> = 49 repeated message,
        feature_group_count: i64 = 50 int64,
        precision_config: Option<PrecisionConfig> = 51 optional message,
        source_target_pairs: Vec<SourceTarget> = 52 repeated message,
        constrain_layout: bool = 56 bool,
        operand_shapes_with_layout: Vec<ShapeProto> = 57 repeated message,
        batch_group_count: i64 = 58 int64,
        triangular_solve_options: Option<TriangularSolveOptions> = 59 optional message,
        is_stable: bool = 60 bool,
        cholesky_options: Option<CholeskyOptions> = 62 optional message,
        comparison_direction: String = 63 string,
        custom_call_has_side_effect: bool = 65 bool,
        delta: i64 = 66 int64,
        indices_are_sorted: bool = 67 bool,
        frontend_attributes: Option<FrontendAttributes> = 68 optional message,
        unique_indices: bool = 69 bool,
        rng_algorithm: i32 = 70 int32,
        use_global_device_ids: bool = 71 bool,
        comparison_type: String = 72 string,
        output_operand_aliasing: Vec<OutputOperandAliasing> = 74 repeated message,
        custom_call_api_version: i32 = 77 int32,
        k: i64 = 81 int64,
        largest: bool = 85 bool,
        collective_device_list: Option<CollectiveDeviceList> = 87 optional message,
        iota_collective_device_list: Option<IotaReplicaGroupList> = 92 optional message,
        mesh_axes_replica_group_list: Option<MeshAxesReplicaGroupList> = 93 optional message,
        comparison_order: String = 102 string,
    }

    struct HloComputationProto {
        name: String = 1 string,
        instructions: Vec<HloInstructionProto> = 2 repeated message,
        id: i64 = 5 int64,
        root_id: i64 = 6 int64,
        execution_thread: String = 8 string,
    }

    struct AliasEntryProto {
        output_shape_index: Vec<i64> = 1 repeated int64,
        parameter_number: i64 = 2 int64,
        parameter_shape_index: Vec<i64> = 3 repeated int64,
        kind: i32 = 4 int32,
    }

    struct InputOutputAliasProto {
        entries: Vec<AliasEntryProto> = 1 repeated message,
    }

    struct DonorEntryProto {
        parameter_number: i64 = 1 int64,
        parameter_shape_index: Vec<i64> = 2 repeated int64,
    }

    struct BufferDonorProto {
        entries: Vec<DonorEntryProto> = 1 repeated message,
    }

    /// The order in which a computation's instructions run.
    struct InstructionSequence {
        instruction_ids: Vec<i64> = 1 repeated int64,
    }

    struct HloScheduleProto {
        sequences: BTreeMap<i64, InstructionSequence> = 1 btree_map = "int64, message",
    }

    struct FileLocation {
        file_name_id: i32 = 1 int32,
        line: i32 = 3 int32,
    }

    struct StackFrame {
        file_location_id: i32 = 1 int32,
    }

    /// Files and lines of the source; everything counts from 1.
    struct StackFrameIndex {
        file_names: Vec<String> = 1 repeated string,
        file_locations: Vec<FileLocation> = 3 repeated message,
        stack_frames: Vec<StackFrame> = 4 repeated message,
    }

    struct HloModuleProto {
        name: String = 1 string,
        entry_computation_name: String = 2 string,
        computations: Vec<HloComputationProto> = 3 repeated message,
        host_program_shape: Option<ProgramShapeProto> = 4 optional message,
        id: i64 = 5 int64,
        entry_computation_id: i64 = 6 int64,
        schedule: Option<HloScheduleProto> = 7 optional message,
        input_output_alias: Option<InputOutputAliasProto> = 8 optional message,
        /// The sharding of the program's result.
        spmd_output_sharding: Option<OpSharding> = 12 optional message,
        /// The shardings of its inputs.
        spmd_parameters_shardings: Vec<OpSharding> = 14 repeated message,
        stack_frame_index: Option<StackFrameIndex> = 17 optional message,
        buffer_donor: Option<BufferDonorProto> = 18 optional message,
    }

    /// What a plugin's `OptimizedProgram` holds when its format is `hlo_with_config`.
    struct HloModuleProtoWithConfig {
        /// A serialized `HloModuleProto`, as it came.
        hlo_module: Vec<u8> = 1 bytes,
    }
}
