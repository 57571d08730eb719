//! The names of operations, and of their attributes, which bytecode has in a fixed order.

use super::super::attributes::Entry;
use super::super::reader::Reader;
use super::super::{damaged, intact};
use super::attributes::channel;
use super::entries::{name, Decoder};
use crate::module::{
    known, take, unknown, Algorithm, Attribute, Attributes, Conv, Dot, Element, Gather, Name, Scatter, Type,
};
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The table of rows for several names each. The first row with a name counts.
fn by_name<T: Copy>(rows: &[(&'static str, T)]) -> HashMap<&'static str, T> {
    let each = |(names, of): &(&'static str, T)| names.split_ascii_whitespace().zip(std::iter::repeat(*of));
    rows.iter().rev().flat_map(each).collect()
}

/// The attributes of operations in bytecode, sorted by name: dialect, operations, attributes. Those with a question mark may be
/// missing, and those with a plus are not in every version. In the portable form, none is missing.
#[rustfmt::skip]
static OWN: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
    let rows = [
        ("builtin", "module", "sym_name? sym_visibility?"),
        ("builtin", "unrealized_conversion_cast", ""),
        ("func", "call", "arg_attrs? callee no_inline? res_attrs?"),
        ("func", "func", "arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?"),
        ("func", "return", ""),
        ("sdy", "manual_computation", "in_shardings manual_axes out_shardings"),
        ("sdy", "mesh", "mesh sym_name"),
        ("sdy", "named_computation", "in_shardings? name out_shardings?"),
        ("sdy", "reshard sharding_constraint", "sharding"),
        ("sdy", "return", ""),
        ("sdy", "sharding_group", "group_id"),
        ("chlo", "acos acosh _asin_acos_kernel asin asinh atan atanh bessel_i1e broadcast_select conj cosh digamma erf \
          erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma mulhi next_after polygamma sinh square tan zeta", ""),
        ("chlo", "broadcast_add broadcast_and broadcast_atan2 broadcast_complex broadcast_divide broadcast_maximum \
          broadcast_minimum broadcast_multiply broadcast_next_after broadcast_or broadcast_polygamma broadcast_power \
          broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical \
          broadcast_subtract broadcast_xor broadcast_zeta", "broadcast_dimensions?"),
        ("chlo", "broadcast_compare", "broadcast_dimensions? compare_type? comparison_direction"),
        ("chlo", "constant constant_like", "value"),
        ("chlo", "ragged_dot", "precision_config? ragged_dot_dimension_numbers"),
        ("chlo", "scan", "dimension is_associative? is_reverse? scan_dim_size?"),
        ("chlo", "top_k", "is_stable?+ k"),
        ("stablehlo", "abs add after_all and async_done async_start atan2 bitcast_convert case ceil clamp complex \
          convert count_leading_zeros create_token divide dynamic_pad dynamic_reshape dynamic_update_slice floor if \
          imag is_finite maximum minimum multiply negate not optimization_barrier or partition_id popcnt power real \
          real_dynamic_slice remainder replica_id reshape return round_nearest_afz round_nearest_even select \
          shift_left shift_right_arithmetic shift_right_logical sign subtract tuple uniform_dequantize \
          uniform_quantize while xor", ""),
        ("stablehlo", "all_gather", "all_gather_dim channel_handle? replica_groups use_global_device_ids?"),
        ("stablehlo", "all_reduce", "channel_handle? replica_groups use_global_device_ids?"),
        ("stablehlo", "all_to_all", "channel_handle? concat_dimension replica_groups split_count split_dimension"),
        ("stablehlo", "batch_norm_grad batch_norm_inference batch_norm_training", "epsilon feature_index"),
        ("stablehlo", "broadcast", "broadcast_sizes"),
        ("stablehlo", "broadcast_in_dim", "broadcast_dimensions"),
        ("stablehlo", "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan \
          tanh", "result_accuracy?+"),
        ("stablehlo", "cholesky", "lower?"),
        ("stablehlo", "collective_broadcast", "channel_handle? has_dynamic_root?+ replica_groups"),
        ("stablehlo", "collective_permute", "channel_handle? source_target_pairs"),
        ("stablehlo", "collective_reduce", "channel_handle? has_dynamic_root? replica_groups use_global_device_ids?"),
        ("stablehlo", "cross-replica-sum", "replica_groups"),
        ("stablehlo", "compare", "compare_type? comparison_direction"),
        ("stablehlo", "composite", "composite_attributes? decomposition name version?"),
        ("stablehlo", "concatenate get_dimension_size set_dimension_size", "dimension"),
        ("stablehlo", "constant", "value"),
        ("stablehlo", "dynamic_conv", "batch_group_count dimension_numbers feature_group_count lhs_dilation? padding?+ \
          precision_config? rhs_dilation? window_reversal? window_strides?"),
        ("stablehlo", "convolution", "batch_group_count dimension_numbers feature_group_count lhs_dilation? padding? \
          precision_config? rhs_dilation? window_reversal? window_strides?"),
        ("stablehlo", "custom_call", "api_version? backend_config? call_target_name called_computations? \
          has_side_effect? operand_layouts? output_operand_aliases? result_layouts? result_tilings?+"),
        ("stablehlo", "dot", "precision_config?"),
        ("stablehlo", "dot_general", "algorithm?+ dot_dimension_numbers precision_config?"),
        ("stablehlo", "dynamic_broadcast_in_dim", "broadcast_dimensions known_expanding_dimensions? \
          known_nonexpanding_dimensions?"),
        ("stablehlo", "dynamic_gather", "dimension_numbers indices_are_sorted?"),
        ("stablehlo", "dynamic_slice", "slice_sizes"),
        ("stablehlo", "einsum unary_einsum", "einsum_config"),
        ("stablehlo", "fft", "fft_length fft_type"),
        ("stablehlo", "gather", "dimension_numbers indices_are_sorted? slice_sizes"),
        ("stablehlo", "get_tuple_element", "index"),
        ("stablehlo", "infeed", "infeed_config? layout?"),
        ("stablehlo", "iota dynamic_iota", "iota_dimension"),
        ("stablehlo", "map reduce reverse", "dimensions"),
        ("stablehlo", "outfeed", "outfeed_config?"),
        ("stablehlo", "pad", "edge_padding_high edge_padding_low interior_padding"),
        ("stablehlo", "recv send", "channel_handle is_host_transfer? source_target_pairs?+"),
        ("stablehlo", "reduce_precision", "exponent_bits mantissa_bits"),
        ("stablehlo", "reduce_scatter", "channel_handle? replica_groups scatter_dimension use_global_device_ids?"),
        ("stablehlo", "reduce_window", "base_dilations? padding? window_dilations? window_dimensions window_strides?"),
        ("stablehlo", "rng", "rng_distribution"),
        ("stablehlo", "rng_bit_generator", "rng_algorithm"),
        ("stablehlo", "scatter", "indices_are_sorted? scatter_dimension_numbers unique_indices?"),
        ("stablehlo", "select_and_scatter", "padding? window_dimensions? window_strides?"),
        ("stablehlo", "slice", "limit_indices start_indices strides"),
        ("stablehlo", "sort", "dimension? is_stable?"),
        ("stablehlo", "torch_index_select", "batch_dims dim"),
        ("stablehlo", "trace", "tag"),
        ("stablehlo", "transpose", "permutation"),
        ("stablehlo", "triangular_solve", "left_side lower transpose_a unit_diagonal"),
    ];
    let each = |(dialect, names, list): (_, &'static str, _)| {
        names.split_ascii_whitespace().map(move |name| ((dialect, name), list))
    };
    rows.into_iter().flat_map(each).collect()
});

/// The sorted names of an operation's properties in the portable form: in its first version, and in later ones.
static PORTABLE: LazyLock<HashMap<&str, [Vec<&str>; 2]>> = LazyLock::new(|| {
    let own = OWN.iter().filter(|((dialect, base), _)| *dialect == dialect_of(base));
    own.map(|((_, base), list)| (*base, [true, false].map(|is_first| divided(base, list, is_first)))).collect()
});

/// The properties for these attributes. The portable form divides some of them.
fn divided(base: &str, list: &'static str, is_first: bool) -> Vec<&'static str> {
    let is_there = |key: &&str| match base {
        "call" => *key == "callee",
        "func" => *key != "no_inline?",
        // The padding became an operand.
        "dynamic_conv" => is_first || !key.ends_with('+'),
        _ => !is_first || !key.ends_with('+'),
    };
    let mut found = Vec::new();
    for key in list.split_ascii_whitespace().filter(is_there) {
        match (key.trim_end_matches(['?', '+']), base) {
            ("channel_handle", "recv" | "send") => found.extend(["channel_id", "channel_type"]),
            ("channel_handle", _) => found.push("channel_id"),
            ("dimension_numbers", "convolution" | "dynamic_conv") => found.extend(Conv::NAMES),
            ("dimension_numbers", _) => found.extend(Gather::NAMES),
            ("scatter_dimension_numbers", _) => found.extend(Scatter::NAMES),
            ("dot_dimension_numbers", _) => found.extend(Dot::NAMES),
            ("algorithm", _) => found.extend(Algorithm::NAMES),
            (key, _) => found.push(key),
        }
    }
    found.retain(|key| !is_first || !key.ends_with("batching_dims"));
    found.sort_unstable();
    found
}

/// The numbers of some attributes of the portable form.
const ARRAY: u64 = 1;
const BOOLEAN: u64 = 2;
const DICTIONARY: u64 = 6;
const INTEGER: u64 = 9;
const PRECISION: u64 = 11;
const STRING: u64 = 14;
const CONSTANT: u64 = 15;
const TYPE: u64 = 17;
const AXES: u64 = 23;

/// What an attribute contains.
#[derive(Clone, Copy)]
enum Elements {
    Any,
    /// Attributes of this number.
    Of(u64),
    /// If it is a constant, numbers of this type.
    Numbers(DType),
}
use Elements::{Any, Numbers, Of};

/// What the properties of the portable form must be: attributes of one of these numbers. Others are constants of integers.
#[rustfmt::skip]
static KINDS: LazyLock<HashMap<&str, (&[u64], Elements)>> = LazyLock::new(|| by_name(&[
    ("arg_attrs res_attrs", (&[ARRAY], Of(DICTIONARY))),
    ("operand_layouts result_layouts", (&[ARRAY], Of(CONSTANT))),
    ("precision_config", (&[ARRAY], Of(PRECISION))),
    ("called_computations layout output_operand_aliases result_tilings", (&[ARRAY], Any)),
    ("comparison_direction", (&[3], Any)),
    ("compare_type", (&[4], Any)),
    ("api_version", (&[5], Any)),
    ("fft_type", (&[7], Any)),
    ("rng_algorithm", (&[12], Any)),
    ("rng_distribution", (&[13], Any)),
    ("transpose_a", (&[16], Any)),
    ("result_accuracy", (&[20], Any)),
    ("has_dynamic_root has_side_effect indices_are_sorted is_host_transfer is_stable left_side lower unique_indices \
      unit_diagonal use_global_device_ids", (&[BOOLEAN], Any)),
    ("backend_config", (&[DICTIONARY, STRING], Any)),
    ("composite_attributes", (&[DICTIONARY], Any)),
    ("epsilon", (&[8], Any)),
    // Groups of devices: integers, or axes of a mesh.
    ("replica_groups", (&[CONSTANT, AXES], Numbers(DType::I64))),
    ("all_gather_dim batch_dims batch_group_count channel_id channel_type concat_dimension dim dimension \
      exponent_bits feature_group_count feature_index index index_vector_dim input_batch_dimension \
      input_feature_dimension iota_dimension kernel_input_feature_dimension kernel_output_feature_dimension \
      mantissa_bits output_batch_dimension output_feature_dimension scatter_dimension split_count split_dimension version",
     (&[INTEGER], Any)),
    // A type stands for an omitted attribute.
    ("accumulation_type allow_imprecise_accumulation lhs_component_count num_primitive_operations rhs_component_count",
     (&[BOOLEAN, INTEGER, TYPE], Any)),
    ("window_reversal", (&[CONSTANT], Numbers(DType::Pred))),
    ("call_target_name callee decomposition einsum_config infeed_config name outfeed_config sym_name sym_visibility \
      tag", (&[STRING], Any)),
    ("value", (&[CONSTANT], Any)),
    ("function_type lhs_precision_type rhs_precision_type", (&[TYPE], Any)),
]));

/// The operations of a dialect in alphabetical order, without it.
pub fn operations(dialect: &str) -> Vec<&'static str> {
    let mut names: Vec<_> = OWN.keys().filter(|(of, _)| *of == dialect).map(|(_, name)| *name).collect();
    names.sort_unstable();
    names
}

/// The name of an operation, and its attributes: its properties, and then the dictionary's attributes.
pub(super) fn named<'a>(
    decoder: &mut Decoder<'_, 'a>,
    full_name: &Name,
    properties: Option<Reader<'a>>,
    others: Attributes,
    in_function: bool,
) -> Result<(Name, Attributes)> {
    if let Some(portable) = full_name.strip_prefix("vhlo.") {
        return of_portable(decoder, portable, properties, others, in_function);
    }
    let list = full_name.split_once('.').and_then(|name| OWN.get(&name));
    let list = list.ok_or_else(|| unknown(format_args!("operation {full_name}")))?;
    let mut attributes = Attributes::new();
    if let Some(mut reader) = properties {
        let keys = list.split_ascii_whitespace();
        let has_all = reader.numbers()? == keys.clone().count();
        for key in keys.filter(|key| has_all || !key.ends_with('+')) {
            match key.trim_end_matches('+').strip_suffix('?') {
                Some(key) => {
                    let value = decoder.next_optional(&mut reader)?;
                    attributes.extend(value.map(|value| (key.into(), value)));
                }
                None => attributes.push((key.into(), decoder.next_attribute(&mut reader)?)),
            }
        }
        known(reader.is_empty(), format_args!("operation {full_name} has an unknown property"))?;
    }
    attributes.retain(|(key, value)| !(&**key == "result_accuracy" && *value == Attribute::Unit));
    attributes.extend(others);
    Ok((full_name.clone(), attributes))
}

/// The dialect of an operation of the portable form without its version.
fn dialect_of(base: &str) -> &'static str {
    match base {
        "func" | "call" => "func",
        _ => "stablehlo",
    }
}

/// The name of an operation of the portable form without its version, and the names of its properties; `None` if it is not known.
pub(in super::super) fn of_name(portable: &str) -> Option<(&str, &'static [&'static str])> {
    let (base, version) = portable.rsplit_once("_v")?;
    let list = &PORTABLE.get(base)?[usize::from(version != "1")];
    // Newer versions of operations with properties may have others.
    (list.is_empty() || matches!(version, "1" | "2")).then_some((base, list))
}

/// Checks the properties of an operation in StableHLO's portable form: MLIR accepts any attribute there, and the compiler crashes
/// on an attribute of an unexpected kind.
///
/// # Errors
/// `InvalidInput`.
pub(in super::super) fn check(decoder: &mut Decoder<'_, '_>, name: &[u8], mut properties: Reader<'_>) -> Result<()> {
    let Some((_, list)) = std::str::from_utf8(name).ok().and_then(of_name) else { return Ok(()) };
    for key in list {
        let attribute = decoder.tables.entries.attribute(&mut properties)?;
        intact(fits(decoder, attribute, key)?, "an operation lacks a required property")?;
    }
    Ok(())
}

/// Whether an attribute is what a property must be.
fn fits(decoder: &mut Decoder<'_, '_>, attribute: &Entry<'_>, key: &str) -> Result<bool> {
    let (kinds, elements) = *KINDS.get(key).unwrap_or(&(&[CONSTANT], Numbers(DType::I64)));
    let Some((found, mut content)) = attribute.kind()? else { return Ok(false) };
    if !attribute.is_one_of(b"vhlo", kinds)? {
        return Ok(false);
    }
    match elements {
        Numbers(dtype) if found == CONSTANT => {
            let kind = decoder.next_type(&mut content)?;
            return Ok(kind.as_tensor().is_some_and(|tensor| tensor.element.dtype() == Some(dtype)));
        }
        Of(kind) => {
            for _ in 0..content.count()? {
                if !decoder.tables.entries.attribute(&mut content)?.is_one_of(b"vhlo", &[kind])? {
                    return Ok(false);
                }
            }
        }
        _ => {}
    }
    Ok(true)
}

fn of_portable<'a>(
    decoder: &mut Decoder<'_, 'a>,
    portable: &str,
    properties: Option<Reader<'a>>,
    mut others: Attributes,
    in_function: bool,
) -> Result<(Name, Attributes)> {
    let (base, list) = of_name(portable).ok_or_else(|| unknown(format_args!("operation vhlo.{portable}")))?;
    let is_end = base == "return" && in_function;
    let full_name = format!("{}.{base}", if is_end { "func" } else { dialect_of(base) }).into();
    let mut found = Attributes::new();
    if let Some(mut reader) = properties {
        for &key in list {
            found.push((key.into(), decoder.next_attribute(&mut reader)?));
        }
        known(reader.is_empty(), format_args!("operation vhlo.{portable} has an unknown property"))?;
    } else {
        // Up to StableHLO 0.14, the attributes are in the dictionary.
        (found, others) = others.into_iter().partition(|(name, _)| list.contains(&&**name));
    }
    let mut attributes = combined(base, &mut found)?;
    for (key, value) in found {
        attributes.extend(of_stablehlo(base, &key, value)?.map(|value| (key, value)));
    }
    attributes.extend(others);
    Ok((full_name, attributes))
}

/// The attributes of StableHLO that the portable form divides into several.
fn combined(base: &str, parts: &mut Attributes) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    let mut add = |name: &str, value| attributes.push((name.into(), value));
    // A list is empty if older versions do not have it.
    let part = |name, is_list| match (take(parts, name), is_list) {
        (Some(value), true) => value.as_numbers().ok_or_else(|| damaged("a list of dimensions is something else")),
        (None, true) => Ok(Vec::new()),
        (Some(Attribute::Integer(value, _)), false) => Ok(vec![value]),
        (_, false) => Err(damaged("a number is something else")),
    };
    match base {
        "gather" | "dynamic_gather" => add("dimension_numbers", Attribute::Gather(Gather::read(part)?)),
        "scatter" => add("scatter_dimension_numbers", Attribute::Scatter(Scatter::read(part)?)),
        "convolution" | "dynamic_conv" => add("dimension_numbers", Attribute::Conv(Conv::read(part)?)),
        "dot_general" => {
            add("dot_dimension_numbers", Attribute::Dot(Dot::read(part)?));
            if let Some(algorithm) = algorithm(parts)? {
                add("algorithm", Attribute::Algorithm(Arc::new(algorithm)));
            }
        }
        _ => {}
    }
    if let Some(handle) = take(parts, "channel_id").and_then(|value| value.as_integer()) {
        let kind = take(parts, "channel_type").and_then(|value| value.as_integer());
        // Without a channel, it is zero.
        if handle != 0 || kind.is_some() {
            add("channel_handle", channel(handle, kind.unwrap_or(0)));
        }
    }
    Ok(attributes)
}

/// The algorithm of a product; types stand for what is not given.
fn algorithm(parts: &mut Attributes) -> Result<Option<Algorithm>> {
    let parts = Algorithm::NAMES.map(|name| take(parts, name));
    let is_given = |part: &Option<Attribute>| matches!(part, Some(Attribute::Type(_)));
    if !parts[..3].iter().all(is_given) || parts[0] == Some(Attribute::Type(Type::None)) {
        return Ok(None);
    }
    let parts = parts.into_iter().collect::<Option<Vec<_>>>();
    let algorithm = parts.and_then(|parts| Algorithm::of(&parts));
    algorithm.map(Some).ok_or_else(|| damaged("an algorithm is something else"))
}

/// What a property of the portable form is where StableHLO has no attribute.
pub(in super::super) fn usual(base: &str, key: &str) -> Option<Attribute> {
    Some(match key {
        "api_version" => Attribute::Integer(1, Element::Number(DType::I32)),
        "version" => Attribute::Integer(0, Element::Number(DType::I32)),
        "channel_id" => Attribute::number(0),
        "dimension" if base == "sort" => Attribute::number(-1),
        "compare_type" => Attribute::Choice("comparison_type", "NOTYPE"),
        "result_accuracy" => Attribute::Unit,
        "composite_attributes" => Attribute::Dictionary(Arc::new([])),
        "known_expanding_dimensions" | "known_nonexpanding_dimensions" => Attribute::Numbers(Arc::new([])),
        "backend_config" | "infeed_config" | "outfeed_config" | "sym_visibility" => Attribute::string(""),
        // Operations of linear algebra always have them.
        "left_side" | "lower" | "unit_diagonal" => return None,
        key => match KINDS.get(key)?.0 {
            [ARRAY] => Attribute::Array(Arc::new([])),
            [BOOLEAN] => Attribute::Bool(false),
            _ => return None,
        },
    })
}

/// The number that lists of a window's dimensions then repeat.
pub(in super::super) fn repeated(key: &str) -> Option<i64> {
    match key {
        "base_dilations" | "window_dilations" | "lhs_dilation" | "rhs_dilation" | "window_strides" => Some(1),
        "window_reversal" | "padding" => Some(0),
        _ => None,
    }
}

/// Whether a property stands for an attribute that StableHLO leaves out.
fn is_usual(base: &str, key: &str, value: &Attribute) -> bool {
    let all = |number| value.as_numbers().is_some_and(|numbers| numbers.iter().all(|&found| found == number));
    match (usual(base, key), value) {
        _ if repeated(key).is_some_and(all) => true,
        (_, Attribute::Array(items)) if key == "precision_config" => {
            items.iter().all(|item| matches!(item, Attribute::Choice(_, "DEFAULT")))
        }
        (_, Attribute::Dense(dense)) if key == "source_target_pairs" => {
            matches!(base, "send" | "recv") && dense.bytes.is_empty()
        }
        (Some(Attribute::Integer(usual, _)), Attribute::Integer(value, _)) => usual == *value,
        (Some(Attribute::Numbers(_)), value) => value.as_numbers().is_some_and(|numbers| numbers.is_empty()),
        (usual, value) => usual.as_ref() == Some(value),
    }
}

/// An attribute of the portable form as one of StableHLO; `None` for the default, which is left out.
fn of_stablehlo(base: &str, key: &str, value: Attribute) -> Result<Option<Attribute>> {
    if is_usual(base, key, &value) {
        return Ok(None);
    }
    let symbol = |value: &Attribute| match value {
        Attribute::String(bytes) => Ok(Attribute::symbol(name(bytes)?)),
        Attribute::Symbol(_) => Ok(value.clone()),
        _ => Err(damaged("a symbol is something else")),
    };
    Ok(Some(match (key, &value) {
        ("use_global_device_ids" | "has_dynamic_root", Attribute::Bool(_)) => Attribute::Unit,
        ("callee" | "decomposition", value) => symbol(value)?,
        ("called_computations", Attribute::Array(items)) => {
            Attribute::Array(items.iter().map(symbol).collect::<Result<_>>()?)
        }
        ("padding" | "replica_groups" | "source_target_pairs" | "value", Attribute::Dense(_)) => value,
        (_, Attribute::Dense(dense)) => {
            let tensor = dense.tensor()?;
            let numbers = value.as_numbers().filter(|_| tensor.dims.len() == 1);
            let numbers = numbers.ok_or_else(|| unknown(format_args!("attribute {key} of {base}")))?;
            match tensor.element {
                Element::Number(DType::Pred) => Attribute::Bools(numbers.iter().map(|&value| value != 0).collect()),
                Element::Number(DType::I64) => Attribute::Numbers(numbers.into()),
                _ => return Err(unknown(format_args!("attribute {key} of {base}"))),
            }
        }
        _ => value,
    }))
}
