//! Operations whose sizes are operands, as operations of fixed sizes.

use super::{like, strange, unrefined, with_sizes, Refiner};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_ir::module::{Attribute, Dense, Element, Name, Operation, Type, Value};
use std::sync::Arc;

/// Where JAX's messages about shapes end, but for a link.
const LINK: &str = " Please see ";

/// Dynamic operations: what they become, how many of their operands stay, and the attributes that the others become. Without
/// any, the other is the shape of the result.
const DYNAMIC: [(&str, &str, usize, &[&str]); 7] = [
    ("dynamic_broadcast_in_dim", "stablehlo.broadcast_in_dim", 1, &[]),
    ("dynamic_reshape", "stablehlo.reshape", 1, &[]),
    ("dynamic_iota", "stablehlo.iota", 0, &[]),
    ("real_dynamic_slice", "stablehlo.slice", 1, &["start_indices", "limit_indices", "strides"]),
    ("dynamic_pad", "stablehlo.pad", 2, &["edge_padding_low", "edge_padding_high", "interior_padding"]),
    ("dynamic_gather", "stablehlo.gather", 2, &["slice_sizes"]),
    ("dynamic_conv", "stablehlo.convolution", 2, &["padding"]),
];

impl<'m> Refiner<'m> {
    /// The results of a dynamic operation; `None` for another one.
    pub(super) fn dynamic(&mut self, source: &'m Operation, operands: &[Value]) -> Result<Option<Vec<Value>>> {
        let found = DYNAMIC.iter().find(|(kind, ..)| *kind == source.kind());
        let Some(&(_, name, kept, attributes)) = found else { return Ok(None) };
        let sizes = operands.get(kept..).unwrap_or_default();
        let is_known = sizes.iter().all(|&size| self.known(size).is_some());
        if name == "stablehlo.slice" && !is_known {
            return self.moving_slice(source, operands).map(Some);
        }
        let lists = sizes.iter().map(|size| self.need(source, Some(size))).collect::<Result<Vec<_>>>()?;
        ensure!(lists.len() >= attributes.len().max(1), strange("an operation with too few operands"));
        let operands = operands.get(..kept).unwrap_or_default().to_vec();
        let mut operation = Operation { name: name.into(), ..like(source, operands) };
        operation.remove("known_expanding_dimensions");
        operation.remove("known_nonexpanding_dimensions");
        for (&attribute, numbers) in attributes.iter().zip(&lists) {
            let value = if attribute == "padding" { padding(numbers) } else { Attribute::Numbers(numbers[..].into()) };
            operation.set(attribute, value);
        }
        let dims = match operation.kind() {
            "reshape" if operation.operands.first().is_some_and(|&first| lists[0] == self.dims(first)) => {
                return Ok(Some(operation.operands));
            }
            "convolution" => None,
            _ if attributes.is_empty() => lists.into_iter().next(),
            _ => self.inferred(&operation, &[&Type::Token]).and_then(|mut sizes| sizes.pop()),
        };
        let types = match dims {
            Some(dims) => vec![self.of_sizes(source, 0, dims)?],
            None => self.result_types(source, &operation)?,
        };
        if matches!(operation.kind(), "broadcast_in_dim" | "iota") && source.results.len() == 1 {
            if let Some(constant) = self.folded(&operation, &types[0]) {
                return Ok(Some(vec![constant]));
            }
        }
        self.push(operation, types).map(Some)
    }

    /// A slice of fixed size from a place that depends on data: its limit is the start and something known.
    fn moving_slice(&mut self, source: &Operation, operands: &[Value]) -> Result<Vec<Value>> {
        let [operand, start, limit, strides] = *operands else {
            return Err(strange("a slice with other operands than it has"));
        };
        let sizes = match self.sums.get(&limit) {
            Some((from, sizes)) if *from == start => sizes.clone(),
            _ => return Err(unrefined(source, "has sizes that depend on data")),
        };
        let is_dense = self.known(strides).is_some_and(|strides| strides.iter().all(|&stride| stride == 1));
        if !is_dense || sizes.len() != self.dims(operand).len() {
            return Err(unrefined(source, "has steps that depend on data"));
        }
        let kind = self.of_sizes(source, 0, sizes.to_vec())?;
        let Some(element) = self.of(start).as_tensor().map(|tensor| tensor.element.clone()) else {
            return Err(strange("a start that is not an array"));
        };
        let mut slice = Operation::new("stablehlo.dynamic_slice", vec![operand], Vec::new());
        slice.set("slice_sizes", Attribute::Numbers(sizes.clone()));
        for at in 0..sizes.len() as i64 {
            let mut one = Operation::new("stablehlo.slice", vec![start], Vec::new());
            one.set("start_indices", Attribute::Numbers([at].into()));
            one.set("limit_indices", Attribute::Numbers([at + 1].into()));
            one.set("strides", Attribute::Numbers([1].into()));
            let one = self.push(one, vec![Type::tensor(vec![1], element.clone())])?;
            let scalar = Operation::new("stablehlo.reshape", one, Vec::new());
            slice.operands.extend(self.push(scalar, vec![Type::tensor(Vec::new(), element.clone())])?);
        }
        self.push(slice, vec![kind])
    }

    /// The type of a result with these sizes, which must match those that are fixed already.
    fn of_sizes(&self, source: &Operation, result: usize, dims: Vec<i64>) -> Result<Type> {
        let declared = source.results.get(result).map(|&result| self.declared(result));
        let kind = declared.filter(|kind| kind.as_tensor().is_some());
        let kind = kind.ok_or_else(|| strange("a result that is not an array"))?;
        with_sizes(kind, &dims).ok_or_else(|| unrefined(source, &format!("would have a result of shape {dims:?}")))
    }

    pub(super) fn custom_call(&mut self, source: &'m Operation, operands: Vec<Value>) -> Result<Vec<Value>> {
        let target = source.attribute("call_target_name").and_then(Attribute::as_text).unwrap_or("");
        match target {
            "shape_assertion" => {
                let known: Vec<Option<i64>> =
                    operands.iter().map(|&operand| self.known(operand)?.first().copied()).collect();
                return match known.first() {
                    Some(Some(0)) => Err(refused(source, &known)),
                    Some(Some(_)) => Ok(Vec::new()),
                    _ => Err(unrefined(source, "checks sizes that depend on data")),
                };
            }
            "stablehlo.dynamic_reduce_window" => return self.reduce_window(source, &operands),
            "stablehlo.dynamic_top_k" => {
                let k = self.need(source, operands.get(1))?;
                return self.top_k(source, operands[..1].to_vec(), k.first());
            }
            // JAX before 0.9 wrote operations of CHLO in this way.
            "mhlo.topk" => {
                let declared = source.results.first().and_then(|&first| self.declared(first).dims());
                return self.top_k(source, operands, declared.and_then(<[i64]>::last));
            }
            _ if target.strip_prefix("mhlo.").is_some_and(|name| OF_CHLO.contains(&name)) => {
                let name = target.replacen("mhlo", "chlo", 1);
                let dims = operands.first().map(|&first| self.dims(first).to_vec()).unwrap_or_default();
                let types = vec![self.of_sizes(source, 0, dims)?];
                return self.push(Operation::new(&name, operands, Vec::new()), types);
            }
            "stablehlo.dynamic_rng_bit_generator" => {
                let dims = self.need(source, operands.get(1))?;
                let mut operation = Operation::new("stablehlo.rng_bit_generator", operands[..1].to_vec(), Vec::new());
                let algorithm = source.attribute("rng_algorithm").ok_or_else(|| strange("random bits of no kind"))?;
                operation.set("rng_algorithm", algorithm.clone());
                let state = self.of(operands[0]).clone();
                let types = vec![state, self.of_sizes(source, 1, dims)?];
                return self.push(operation, types);
            }
            _ => {}
        }
        let mut operation = like(source, operands);
        let types = match source.attribute("indices_of_shape_operands").and_then(Attribute::as_numbers) {
            Some(indices) => self.without_shapes(source, &mut operation, &indices)?,
            _ => self.result_types(source, &operation)?,
        };
        if target == "stablehlo.dynamic_approx_top_k" {
            self.fix_number_of_largest(source, &mut operation)?;
        }
        if let Some(called) = source.attribute("called_computations").and_then(Attribute::as_array) {
            for name in called.iter().filter_map(Attribute::as_symbol) {
                self.unchanged(source, name)?;
            }
        }
        self.push(operation, types)
    }

    /// The `k` largest elements along the last dimension, and where they are.
    fn top_k(&mut self, source: &Operation, operands: Vec<Value>, k: Option<&i64>) -> Result<Vec<Value>> {
        let mut dims = operands.first().map(|&first| self.dims(first).to_vec()).unwrap_or_default();
        let (Some(last), Some(&k)) = (dims.last_mut(), k) else {
            return Err(strange("a selection of the largest of nothing"));
        };
        *last = k;
        let mut operation = Operation::new("chlo.top_k", operands, Vec::new());
        operation.set("k", Attribute::number(k));
        let types = vec![self.of_sizes(source, 0, dims.clone())?, self.of_sizes(source, 1, dims)?];
        self.push(operation, types)
    }

    /// Takes the sizes of a call's results out of its operands.
    fn without_shapes(&self, source: &Operation, operation: &mut Operation, indices: &[i64]) -> Result<Vec<Type>> {
        let kept = operation.operands.len() - indices.len().min(operation.operands.len());
        let in_order = indices.iter().enumerate().all(|(i, &index)| usize::try_from(index) == Ok(kept + i));
        if !in_order || indices.len() != source.results.len() {
            return Err(unrefined(source, "has its sizes among its other operands"));
        }
        let types = (0..indices.len()).map(|i| {
            let dims = self.need(source, operation.operands.get(kept + i))?;
            self.of_sizes(source, i, dims)
        });
        let types = types.collect::<Result<_>>()?;
        operation.operands.truncate(kept);
        operation.remove("indices_of_shape_operands");
        if let Some(layouts) = operation.attribute("operand_layouts").and_then(Attribute::as_array) {
            let layouts = layouts.get(..kept).ok_or_else(|| strange("a call with too few layouts"))?.into();
            operation.set("operand_layouts", Attribute::Array(layouts));
        }
        Ok(types)
    }

    /// The call of JAX for about the `k` largest elements, whose last operand is `k`, as XLA's, which has it as an attribute.
    fn fix_number_of_largest(&self, source: &Operation, operation: &mut Operation) -> Result<()> {
        const CONFIG: &str = "mhlo.backend_config";
        let k = self.need(source, operation.operands.pop().as_ref())?;
        let (Some(&k), Some(Attribute::Dictionary(config))) = (k.first(), operation.attribute(CONFIG)) else {
            return Err(strange("a selection of the largest without a number"));
        };
        let config = config.iter().cloned().chain([("top_k".into(), Attribute::number(k))]).collect();
        operation.set(CONFIG, Attribute::Dictionary(config));
        operation.set("call_target_name", Attribute::string("ApproxTopK"));
        Ok(())
    }

    /// The operands: inputs, initial values, window, strides, dilations of the base and of the window, and padding.
    fn reduce_window(&mut self, source: &'m Operation, operands: &[Value]) -> Result<Vec<Value>> {
        let inputs = operands.len().saturating_sub(5);
        let called = source.attribute("called_computations").and_then(Attribute::as_array).unwrap_or_default();
        let [called] = called else { return Err(strange("a reduction without a function")) };
        let name = called.as_symbol().ok_or_else(|| strange("a reduction without a function"))?.clone();
        let mut operation = Operation::new("stablehlo.reduce_window", operands[..inputs].to_vec(), Vec::new());
        const NAMES: [&str; 4] = ["window_dimensions", "window_strides", "base_dilations", "window_dilations"];
        for (i, name) in NAMES.into_iter().enumerate() {
            let numbers = self.need(source, operands.get(inputs + i))?;
            operation.set(name, Attribute::Numbers(numbers.into()));
        }
        operation.set("padding", padding(&self.need(source, operands.get(inputs + 4))?));
        let types = self.result_types(source, &operation)?;
        operation.regions.push(self.function_region(&name)?);
        self.push(operation, types)
    }

    /// Keeps a function that a call names, if it has fixed sizes.
    fn unchanged(&mut self, source: &Operation, name: &Name) -> Result<()> {
        let types = self.called(name)?.regions.first().map(|region| self.region_types(region)).unwrap_or_default();
        ensure!(types.iter().all(Type::is_static), unrefined(source, "calls a function whose sizes are not known"));
        let values: Vec<Value> = types.into_iter().map(|kind| self.value(kind)).collect();
        let special = self.specialized(name, &values)?;
        ensure!(special.name == *name, unrefined(source, "calls a function that has been changed"));
        Ok(())
    }
}

/// Numbers of elements before and after each dimension.
fn padding(numbers: &[i64]) -> Attribute {
    let rank = (numbers.len() / 2) as i64;
    Attribute::Dense(Arc::new(Dense::of_integers(vec![rank, 2], Element::Number(DType::I64), numbers)))
}

/// The error of a shape assertion, with the sizes in its message.
#[cold]
fn refused(source: &Operation, known: &[Option<i64>]) -> Error {
    let message = source.attribute("error_message").and_then(Attribute::as_text).unwrap_or("The shapes do not match.");
    let mut message = message.split(LINK).next().unwrap_or(message).replace(", .", ".");
    for (i, size) in known.iter().skip(1).enumerate() {
        let size = size.map_or_else(|| "?".to_owned(), |size| size.to_string());
        message = message.replace(&format!("{{{i}}}"), &size);
    }
    Error::new(Kind::ShapeMismatch, message)
}

/// Functions of CHLO that were calls of this name.
const OF_CHLO: [&str; 10] = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan"];
