//! The names of operations in the portable form, and all of their properties.

use super::super::decode::properties::{of_name, repeated, usual};
use crate::module::{Attribute, Attributes, Dense, Element, Operation, Type};
use crate::text;
use pjrt_data::dtype::DType;
use std::sync::Arc;

/// The name of an operation and its attributes in the portable form; `None` if it has none.
pub(super) fn portable(operation: &Operation) -> Option<(String, Attributes)> {
    let base = match &*operation.name {
        "func.func" | "func.call" | "func.return" => operation.base(),
        name => name.strip_prefix("stablehlo.")?,
    };
    let name = format!("{base}_v{}", version(base, operation));
    let (_, list) = of_name(&name)?;
    let mut given: Attributes = Vec::new();
    for (key, value) in &operation.attributes {
        match divided(key, value) {
            // Those that older versions do not have are empty, except for the type of a channel.
            Some(parts) => given.extend(parts.into_iter().filter(|(part, _)| list.contains(&&**part))),
            None if *value == Attribute::Unit => given.push((key.clone(), Attribute::Bool(true))),
            None => given.push((key.clone(), value.clone())),
        }
    }
    let is_given = |key: &str| given.iter().any(|(known, _)| &**known == key);
    let missing: Vec<&str> = list.iter().copied().filter(|key| !is_given(key)).collect();
    for key in missing {
        given.push((key.into(), default(base, key, operation)?));
    }
    given.sort_by(|(a, _), (b, _)| a.cmp(b));
    Some((name, given))
}

/// The oldest version of an operation that has all that is said here.
fn version(base: &str, operation: &Operation) -> u8 {
    let has = |key: &str| operation.attribute(key).is_some();
    let has_batches = |key: &str| match operation.attribute(key) {
        Some(Attribute::Gather(gather)) => !gather.operand_batching_dims.is_empty(),
        Some(Attribute::Scatter(scatter)) => !scatter.input_batching_dims.is_empty(),
        _ => false,
    };
    let has_newer = |inner: &Operation| {
        of_name(&format!("{}_v2", inner.base())).is_some_and(|(_, list)| list.contains(&"result_accuracy"))
    };
    let is_newer = match base {
        "gather" | "dynamic_gather" => has_batches("dimension_numbers"),
        // A reader that moves the operations in its region to a newer version of it does not find newer versions of these.
        "scatter" => has_batches("scatter_dimension_numbers") || operation.inner().any(has_newer),
        "dot_general" => has("algorithm"),
        "all_reduce" | "all_gather" | "all_to_all" => operation.operands.len() != 1,
        "send" | "recv" => has("source_target_pairs"),
        "collective_broadcast" => has("has_dynamic_root"),
        "custom_call" => has("result_tilings"),
        "composite" => !operation.regions.is_empty(),
        _ => has("result_accuracy"),
    };
    1 + u8::from(is_newer)
}

/// The parts of an attribute that the portable form divides.
fn divided(key: &str, value: &Attribute) -> Option<Attributes> {
    let parts: Vec<(&str, Attribute)> = match value {
        Attribute::Gather(gather) => gather.parts(),
        Attribute::Scatter(scatter) => scatter.parts(),
        Attribute::Dot(dot) => dot.parts(),
        Attribute::Conv(conv) => conv.parts(),
        Attribute::Algorithm(algorithm) => algorithm.parts(),
        Attribute::Other(text) if key == "channel_handle" => {
            let fields = text::fields(text, "#stablehlo.channel_handle")?;
            vec![("channel_id", fields.item("handle")?.clone()), ("channel_type", fields.item("type")?.clone())]
        }
        _ => return None,
    };
    Some(parts.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// What a property is that is not given; `None` if it must be given.
fn default(base: &str, key: &str, operation: &Operation) -> Option<Attribute> {
    // The dimensions of a window.
    let count = || match (operation.attribute("dimension_numbers"), operation.attribute("window_dimensions")) {
        (Some(Attribute::Conv(conv)), _) => Some(conv.input_spatial.len()),
        (_, Some(window)) => Some(window.as_numbers()?.len()),
        _ => None,
    };
    Some(match (key, repeated(key)) {
        ("lower", _) => Attribute::Bool(false),
        ("precision_config", _) => Attribute::Array(
            operation.operands.iter().take(2).map(|_| Attribute::Choice("precision", "DEFAULT")).collect(),
        ),
        ("window_reversal", _) => Attribute::Bools(vec![false; count()?].into()),
        ("padding", _) => {
            let kind = Type::tensor(vec![count()? as i64, 2], Element::Number(DType::I64));
            Attribute::Dense(Arc::new(Dense { kind, bytes: vec![0; 16 * count()?].into() }))
        }
        (_, Some(number)) => Attribute::Numbers(vec![number; count()?].into()),
        (_, None) => return usual(base, key),
    })
}
