//! Checks the properties of operations in StableHLO's portable form, `vhlo`. MLIR accepts any attribute there, and the
//! compiler crashes on an attribute of an unexpected kind.

use super::attributes::{Entries, Entry};
use super::damaged;
use super::reader::Reader;
use pjrt_base::error::Result;

/// The properties of operations, a letter for each: see [`fits`]. Operations without properties, and unknown ones, are
/// omitted.
#[rustfmt::skip]
const PROPERTIES: &[(&[u8], &str)] = &[
    (b"AyAss", "func_v1"),
    (b"s", "call_v1 einsum_v1 unary_einsum_v1 outfeed_v1 trace_v1"),
    (b"t", "constant_v1"),
    (b"i", "concatenate_v1 dynamic_iota_v1 get_dimension_size_v1 get_tuple_element_v1 iota_v1 set_dimension_size_v1"),
    (b"b", "cholesky_v1"),
    (b"v", "broadcast_in_dim_v1 broadcast_v1 dynamic_slice_v1 map_v1 reduce_v1 reverse_v1 transpose_v1"),
    (b"vvv", "dynamic_broadcast_in_dim_v1 pad_v1 select_and_scatter_v1 slice_v1"),
    (b"r", "cbrt_v2 cosine_v2 exponential_minus_one_v2 exponential_v2 log_plus_one_v2 log_v2 logistic_v2 rsqrt_v2 \
       sine_v2 \
            sqrt_v2 tan_v2 tanh_v2"),
    (b"TD", "compare_v1"),
    (b"vF", "fft_v1"),
    (b"R", "rng_v1"),
    (b"G", "rng_bit_generator_v1"),
    (b"bbXb", "triangular_solve_v1"),
    (b"ii", "reduce_precision_v1 torch_index_select_v1"),
    (b"fi", "batch_norm_grad_v1 batch_norm_inference_v1 batch_norm_training_v1"),
    (b"ib", "sort_v1"),
    (b"sa", "infeed_v1"),
    (b"iib", "send_v1 recv_v1"),
    (b"iibv", "send_v2 recv_v2"),
    (b"iigb", "all_gather_v1 all_gather_v2"),
    (b"igb", "all_reduce_v1 all_reduce_v2"),
    (b"iigii", "all_to_all_v1 all_to_all_v2"),
    (b"ig", "collective_broadcast_v1"),
    (b"ibg", "collective_broadcast_v2"),
    (b"ibgb", "collective_reduce_v1"),
    (b"iv", "collective_permute_v1"),
    (b"v", "cross-replica-sum_v1"),
    (b"igib", "reduce_scatter_v1"),
    (b"vvvvv", "reduce_window_v1"),
    (b"vibvv", "dynamic_gather_v1"),
    (b"vibvvvv", "dynamic_gather_v2"),
    (b"vibvvv", "gather_v1"),
    (b"vibvvvvv", "gather_v2"),
    (b"ibvvbv", "scatter_v1"),
    (b"ibvvvvbv", "scatter_v2"),
    (b"vvPvv", "dot_general_v1"),
    (b"oovovyoPvovy", "dot_general_v2"),
    (b"P", "dot_v1"),
    (b"iiiiviivviivvPvpv", "convolution_v1 dynamic_conv_v1"),
    (b"iiiiviivviivPvpv", "dynamic_conv_v2"),
    (b"CcsabLaL", "custom_call_v1"),
    (b"CcsabLaLa", "custom_call_v2"),
    (b"dssi", "composite_v1 composite_v2"),
];

/// Checks the properties of an operation.
///
/// # Errors
/// `InvalidInput`.
pub(super) fn check(name: &[u8], mut properties: Reader<'_>, entries: &Entries<'_>) -> Result<()> {
    let is_named = |names: &str| names.split_ascii_whitespace().any(|known| known.as_bytes() == name);
    let Some((letters, _)) = PROPERTIES.iter().find(|(_, names)| is_named(names)) else { return Ok(()) };
    for &letter in *letters {
        if !fits(entries, entries.attribute(&mut properties)?, letter)? {
            return Err(damaged("an operation lacks a required property"));
        }
    }
    Ok(())
}

/// Whether an attribute matches a letter: one of these kinds, with matching elements.
fn fits(entries: &Entries<'_>, attribute: &Entry<'_>, letter: u8) -> Result<bool> {
    const ARRAY: u64 = 1;
    const BOOLEAN: u64 = 2;
    const DICTIONARY: u64 = 6;
    const INTEGER: u64 = 9;
    const STRING: u64 = 14;
    const CONSTANT: u64 = 15;
    const TYPE: u64 = 17;
    let kinds: &[u64] = match letter {
        // Arrays: any, and of dictionaries, layouts and precisions.
        b'a' | b'A' | b'L' | b'P' => &[ARRAY],
        b'b' => &[BOOLEAN],
        // The backend configuration of a custom call.
        b'c' => &[DICTIONARY, STRING],
        b'd' => &[DICTIONARY],
        b'f' => &[8],
        b'i' => &[INTEGER],
        // A type stands for an omitted attribute.
        b'o' => &[BOOLEAN, INTEGER, TYPE],
        b's' => &[STRING],
        // Constants: any, integers, truth values.
        b't' | b'v' | b'p' => &[CONSTANT],
        // Groups of devices: integers, or axes of a mesh.
        b'g' => &[CONSTANT, 23],
        b'y' => &[TYPE],
        // Enumerations: directions of comparisons, their types, versions of calls, and so on.
        b'D' => &[3],
        b'T' => &[4],
        b'C' => &[5],
        b'F' => &[7],
        b'G' => &[12],
        b'R' => &[13],
        b'X' => &[16],
        b'r' => &[20],
        _ => return Ok(true),
    };
    if !attribute.is_one_of(b"vhlo", kinds)? {
        return Ok(false);
    }
    let Some((_, mut content)) = attribute.kind()? else { return Ok(false) };
    let element = match letter {
        b'g' if attribute.is_one_of(b"vhlo", &[23])? => return Ok(true),
        b'v' | b'g' => return entries.has_elements(content, SI64),
        b'p' => return entries.has_elements(content, BOOL),
        b'A' => DICTIONARY,
        b'L' => CONSTANT,
        b'P' => 11,
        _ => return Ok(true),
    };
    for _ in 0..content.count()? {
        if !entries.attribute(&mut content)?.is_one_of(b"vhlo", &[element])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Types of elements.
const BOOL: u64 = 0;
const SI64: u64 = 14;
