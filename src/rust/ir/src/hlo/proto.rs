//! The messages of XLA's protocol buffers that this crate reads, with their field numbers. Unknown fields are skipped,
//! so newer modules can be decoded, too.

use super::groups::{MeshAxesReplicaGroupList, NamedSharding};
use prost::Message;
use std::collections::BTreeMap;

/// XLA's `PrimitiveType` of shapes that are not arrays.
pub const TUPLE: i32 = 13;
pub const OPAQUE: i32 = 14;
pub const TOKEN: i32 = 17;

#[derive(Clone, PartialEq, Message)]
pub struct TileProto {
    #[prost(int64, repeated, tag = "1")]
    pub dimensions: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LayoutProto {
    #[prost(int64, repeated, tag = "1")]
    pub minor_to_major: Vec<i64>,
    #[prost(message, repeated, tag = "6")]
    pub tiles: Vec<TileProto>,
    #[prost(int64, tag = "7")]
    pub element_size_in_bits: i64,
    #[prost(int64, tag = "8")]
    pub memory_space: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    #[prost(int32, tag = "2")]
    pub element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub tuple_shapes: Vec<ShapeProto>,
    #[prost(message, optional, tag = "5")]
    pub layout: Option<LayoutProto>,
    #[prost(bool, repeated, tag = "6")]
    pub is_dynamic_dimension: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProgramShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub parameters: Vec<ShapeProto>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<ShapeProto>,
    #[prost(string, repeated, tag = "3")]
    pub parameter_names: Vec<String>,
}

/// The value of a constant, in the field of its type.
#[derive(Clone, PartialEq, Message)]
pub struct LiteralProto {
    #[prost(message, optional, tag = "1")]
    pub shape: Option<ShapeProto>,
    #[prost(bool, repeated, tag = "2")]
    pub preds: Vec<bool>,
    #[prost(bytes = "vec", tag = "3")]
    pub u8s: Vec<u8>,
    #[prost(int32, repeated, tag = "4")]
    pub s32s: Vec<i32>,
    #[prost(int64, repeated, tag = "5")]
    pub s64s: Vec<i64>,
    #[prost(uint32, repeated, tag = "6")]
    pub u32s: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub u64s: Vec<u64>,
    #[prost(float, repeated, tag = "8")]
    pub f32s: Vec<f32>,
    #[prost(double, repeated, tag = "9")]
    pub f64s: Vec<f64>,
    #[prost(bytes = "vec", tag = "11")]
    pub f16s: Vec<u8>,
    #[prost(float, repeated, tag = "12")]
    pub c64s: Vec<f32>,
    #[prost(bytes = "vec", tag = "13")]
    pub bf16s: Vec<u8>,
    #[prost(bytes = "vec", tag = "15")]
    pub s8s: Vec<u8>,
    #[prost(bytes = "vec", tag = "16")]
    pub u16s: Vec<u8>,
    #[prost(bytes = "vec", tag = "17")]
    pub s16s: Vec<u8>,
    #[prost(double, repeated, tag = "18")]
    pub c128s: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WindowDimension {
    #[prost(int64, tag = "1")]
    pub size: i64,
    #[prost(int64, tag = "2")]
    pub stride: i64,
    #[prost(int64, tag = "3")]
    pub padding_low: i64,
    #[prost(int64, tag = "4")]
    pub padding_high: i64,
    #[prost(int64, tag = "5")]
    pub window_dilation: i64,
    #[prost(int64, tag = "6")]
    pub base_dilation: i64,
    #[prost(bool, tag = "7")]
    pub window_reversal: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Window {
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<WindowDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConvolutionDimensionNumbers {
    #[prost(int64, tag = "3")]
    pub kernel_input_feature: i64,
    #[prost(int64, tag = "4")]
    pub kernel_output_feature: i64,
    #[prost(int64, repeated, tag = "6")]
    pub kernel_spatial: Vec<i64>,
    #[prost(int64, tag = "7")]
    pub input_batch: i64,
    #[prost(int64, tag = "8")]
    pub input_feature: i64,
    #[prost(int64, tag = "9")]
    pub output_batch: i64,
    #[prost(int64, tag = "10")]
    pub output_feature: i64,
    #[prost(int64, repeated, tag = "11")]
    pub input_spatial: Vec<i64>,
    #[prost(int64, repeated, tag = "12")]
    pub output_spatial: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DotDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub lhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub rhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub lhs_batch: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub rhs_batch: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GatherDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub offset_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub collapsed_slice_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub start_index_map: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    #[prost(int64, repeated, tag = "5")]
    pub operand_batching_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub start_indices_batching_dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScatterDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub update_window_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub inserted_window_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub scatter_dims_to_operand_dims: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    #[prost(int64, repeated, tag = "5")]
    pub input_batching_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub scatter_indices_batching_dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SliceDimensions {
    #[prost(int64, tag = "1")]
    pub start: i64,
    #[prost(int64, tag = "2")]
    pub limit: i64,
    #[prost(int64, tag = "3")]
    pub stride: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PaddingConfigDimension {
    #[prost(int64, tag = "1")]
    pub low: i64,
    #[prost(int64, tag = "2")]
    pub high: i64,
    #[prost(int64, tag = "3")]
    pub interior: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PaddingConfig {
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<PaddingConfigDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub replica_ids: Vec<i64>,
}

/// Replica groups as a rearranged range of numbers.
#[derive(Clone, PartialEq, Message)]
pub struct IotaReplicaGroupList {
    #[prost(int64, tag = "1")]
    pub num_replica_groups: i64,
    #[prost(int64, tag = "2")]
    pub num_devices_per_group: i64,
    #[prost(int64, repeated, tag = "3")]
    pub iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub iota_transpose_perm: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CollectiveDeviceList {
    #[prost(message, repeated, tag = "1")]
    pub replica_groups: Vec<ReplicaGroup>,
    #[prost(message, optional, tag = "2")]
    pub iota: Option<IotaReplicaGroupList>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SourceTarget {
    #[prost(int64, tag = "1")]
    pub source: i64,
    #[prost(int64, tag = "2")]
    pub target: i64,
}

/// The sharding of a value.
#[derive(Clone, PartialEq, Message)]
pub struct OpSharding {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(int64, repeated, tag = "3")]
    pub tile_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub tile_devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    pub tuple_shardings: Vec<OpSharding>,
    #[prost(bool, tag = "6")]
    pub replicate_on_last_tile_dim: bool,
    #[prost(int32, repeated, tag = "8")]
    pub last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    pub iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    pub iota_transpose_perm: Vec<i32>,
    #[prost(message, optional, tag = "14")]
    pub named: Option<NamedSharding>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PrecisionConfig {
    #[prost(int32, repeated, tag = "1")]
    pub operand_precision: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TriangularSolveOptions {
    #[prost(bool, tag = "1")]
    pub left_side: bool,
    #[prost(bool, tag = "2")]
    pub lower: bool,
    #[prost(bool, tag = "3")]
    pub unit_diagonal: bool,
    #[prost(int32, tag = "4")]
    pub transpose_a: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct CholeskyOptions {
    #[prost(bool, tag = "1")]
    pub lower: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct OutputOperandAliasing {
    #[prost(int64, repeated, tag = "1")]
    pub output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub operand_index: i64,
    #[prost(int64, repeated, tag = "3")]
    pub operand_shape_index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FrontendAttributes {
    #[prost(btree_map = "string, string", tag = "1")]
    pub map: BTreeMap<String, String>,
}

/// The source of an instruction.
#[derive(Clone, PartialEq, Message)]
pub struct OpMetadata {
    #[prost(string, tag = "1")]
    pub op_type: String,
    #[prost(string, tag = "2")]
    pub op_name: String,
    #[prost(string, tag = "3")]
    pub source_file: String,
    #[prost(int32, tag = "4")]
    pub source_line: i32,
    #[prost(int32, tag = "15")]
    pub stack_frame_id: i32,
    #[prost(int32, tag = "17")]
    pub source_end_line: i32,
    #[prost(int32, tag = "18")]
    pub source_column: i32,
    #[prost(int32, tag = "19")]
    pub source_end_column: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloInstructionProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub opcode: String,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<ShapeProto>,
    #[prost(message, optional, tag = "7")]
    pub metadata: Option<OpMetadata>,
    #[prost(message, optional, tag = "8")]
    pub literal: Option<LiteralProto>,
    #[prost(int64, tag = "9")]
    pub parameter_number: i64,
    #[prost(string, tag = "11")]
    pub fusion_kind: String,
    #[prost(int64, tag = "13")]
    pub tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub dimensions: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub window: Option<Window>,
    #[prost(message, optional, tag = "16")]
    pub convolution_dimension_numbers: Option<ConvolutionDimensionNumbers>,
    #[prost(message, repeated, tag = "17")]
    pub slice_dimensions: Vec<SliceDimensions>,
    #[prost(int32, tag = "18")]
    pub exponent_bits: i32,
    #[prost(int32, tag = "19")]
    pub mantissa_bits: i32,
    #[prost(int64, repeated, tag = "20")]
    pub dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, tag = "21")]
    pub padding_config: Option<PaddingConfig>,
    #[prost(int32, tag = "23")]
    pub distribution: i32,
    #[prost(float, tag = "24")]
    pub epsilon: f32,
    #[prost(int64, tag = "25")]
    pub feature_index: i64,
    #[prost(int64, tag = "26")]
    pub channel_id: i64,
    #[prost(string, tag = "28")]
    pub custom_call_target: String,
    #[prost(message, optional, tag = "30")]
    pub dot_dimension_numbers: Option<DotDimensionNumbers>,
    #[prost(int32, tag = "31")]
    pub fft_type: i32,
    #[prost(int64, repeated, tag = "32")]
    pub fft_length: Vec<i64>,
    #[prost(message, optional, tag = "33")]
    pub gather_dimension_numbers: Option<GatherDimensionNumbers>,
    #[prost(int64, repeated, tag = "34")]
    pub gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "37")]
    pub control_predecessor_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called_computation_ids: Vec<i64>,
    #[prost(message, optional, tag = "40")]
    pub sharding: Option<OpSharding>,
    #[prost(bytes = "vec", tag = "43")]
    pub backend_config: Vec<u8>,
    #[prost(bool, tag = "47")]
    pub is_host_transfer: bool,
    #[prost(message, optional, tag = "48")]
    pub scatter_dimension_numbers: Option<ScatterDimensionNumbers>,
    #[prost(message, repeated, tag = "49")]
    pub replica_groups: Vec<ReplicaGroup>,
    #[prost(int64, tag = "50")]
    pub feature_group_count: i64,
    #[prost(message, optional, tag = "51")]
    pub precision_config: Option<PrecisionConfig>,
    #[prost(message, repeated, tag = "52")]
    pub source_target_pairs: Vec<SourceTarget>,
    #[prost(bool, tag = "56")]
    pub constrain_layout: bool,
    #[prost(message, repeated, tag = "57")]
    pub operand_shapes_with_layout: Vec<ShapeProto>,
    #[prost(int64, tag = "58")]
    pub batch_group_count: i64,
    #[prost(message, optional, tag = "59")]
    pub triangular_solve_options: Option<TriangularSolveOptions>,
    #[prost(bool, tag = "60")]
    pub is_stable: bool,
    #[prost(message, optional, tag = "62")]
    pub cholesky_options: Option<CholeskyOptions>,
    #[prost(string, tag = "63")]
    pub comparison_direction: String,
    #[prost(bool, tag = "65")]
    pub custom_call_has_side_effect: bool,
    #[prost(int64, tag = "66")]
    pub delta: i64,
    #[prost(bool, tag = "67")]
    pub indices_are_sorted: bool,
    #[prost(message, optional, tag = "68")]
    pub frontend_attributes: Option<FrontendAttributes>,
    #[prost(bool, tag = "69")]
    pub unique_indices: bool,
    #[prost(int32, tag = "70")]
    pub rng_algorithm: i32,
    #[prost(bool, tag = "71")]
    pub use_global_device_ids: bool,
    #[prost(string, tag = "72")]
    pub comparison_type: String,
    #[prost(message, repeated, tag = "74")]
    pub output_operand_aliasing: Vec<OutputOperandAliasing>,
    #[prost(int32, tag = "77")]
    pub custom_call_api_version: i32,
    #[prost(int64, tag = "81")]
    pub k: i64,
    #[prost(bool, tag = "85")]
    pub largest: bool,
    #[prost(message, optional, tag = "87")]
    pub collective_device_list: Option<CollectiveDeviceList>,
    #[prost(message, optional, tag = "92")]
    pub iota_collective_device_list: Option<IotaReplicaGroupList>,
    #[prost(message, optional, tag = "93")]
    pub mesh_axes_replica_group_list: Option<MeshAxesReplicaGroupList>,
    #[prost(string, tag = "102")]
    pub comparison_order: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloComputationProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub instructions: Vec<HloInstructionProto>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub root_id: i64,
    #[prost(string, tag = "8")]
    pub execution_thread: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AliasEntryProto {
    #[prost(int64, repeated, tag = "1")]
    pub output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub parameter_number: i64,
    #[prost(int64, repeated, tag = "3")]
    pub parameter_shape_index: Vec<i64>,
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct InputOutputAliasProto {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<AliasEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DonorEntryProto {
    #[prost(int64, tag = "1")]
    pub parameter_number: i64,
    #[prost(int64, repeated, tag = "2")]
    pub parameter_shape_index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BufferDonorProto {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<DonorEntryProto>,
}

/// The order in which a computation's instructions run.
#[derive(Clone, PartialEq, Message)]
pub struct InstructionSequence {
    #[prost(int64, repeated, tag = "1")]
    pub instruction_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloScheduleProto {
    #[prost(btree_map = "int64, message", tag = "1")]
    pub sequences: BTreeMap<i64, InstructionSequence>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FileLocation {
    #[prost(int32, tag = "1")]
    pub file_name_id: i32,
    #[prost(int32, tag = "3")]
    pub line: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct StackFrame {
    #[prost(int32, tag = "1")]
    pub file_location_id: i32,
}

/// Files and lines of the source; everything counts from 1.
#[derive(Clone, PartialEq, Message)]
pub struct StackFrameIndex {
    #[prost(string, repeated, tag = "1")]
    pub file_names: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub file_locations: Vec<FileLocation>,
    #[prost(message, repeated, tag = "4")]
    pub stack_frames: Vec<StackFrame>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloModuleProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub entry_computation_name: String,
    #[prost(message, repeated, tag = "3")]
    pub computations: Vec<HloComputationProto>,
    #[prost(message, optional, tag = "4")]
    pub host_program_shape: Option<ProgramShapeProto>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub entry_computation_id: i64,
    #[prost(message, optional, tag = "7")]
    pub schedule: Option<HloScheduleProto>,
    #[prost(message, optional, tag = "8")]
    pub input_output_alias: Option<InputOutputAliasProto>,
    /// The sharding of the program's result.
    #[prost(message, optional, tag = "12")]
    pub spmd_output_sharding: Option<OpSharding>,
    /// The shardings of its inputs.
    #[prost(message, repeated, tag = "14")]
    pub spmd_parameters_shardings: Vec<OpSharding>,
    #[prost(message, optional, tag = "17")]
    pub stack_frame_index: Option<StackFrameIndex>,
    #[prost(message, optional, tag = "18")]
    pub buffer_donor: Option<BufferDonorProto>,
}

/// What a plugin's `OptimizedProgram` holds when its format is `hlo_with_config`.
#[derive(Clone, PartialEq, Message)]
pub struct HloModuleProtoWithConfig {
    /// A serialized `HloModuleProto`, as it came.
    #[prost(bytes = "vec", tag = "1")]
    pub hlo_module: Vec<u8>,
}
