//! The types of results, from the operands' types.

use super::{strange, unrefined, with_sizes, Refiner};
use pjrt_base::error::Result;
use pjrt_ir::module::{is_elementwise, is_listed, shown, Attribute, Element, Gather, Operation, Type, Value};

impl Refiner<'_> {
    /// The types of an operation's results. Those that are fixed in the source stay.
    pub(super) fn result_types(&self, source: &Operation, operation: &Operation) -> Result<Vec<Type>> {
        let declared: Vec<&Type> = source.results.iter().map(|&result| self.declared(result)).collect();
        if declared.iter().all(|kind| kind.is_static()) {
            return Ok(declared.into_iter().cloned().collect());
        }
        let is_fixed = operation.operands.iter().all(|&operand| self.of(operand).is_static());
        let inferred = if is_fixed { self.inferred(operation, &declared) } else { None };
        let inferred = inferred.filter(|inferred| inferred.len() == declared.len());
        let inferred = inferred.ok_or_else(|| {
            let operands: Vec<_> = operation.operands.iter().map(|&operand| shown(self.of(operand))).collect();
            unrefined(operation, &format!("returns {} for ({})", shown(declared[0]), operands.join(", ")))
        })?;
        let fixed = |(kind, dims): (&&Type, Vec<i64>)| match kind.as_tensor() {
            Some(_) if kind.is_static() => Ok((*kind).clone()),
            _ => with_sizes(kind, &dims)
                .ok_or_else(|| strange(&format!("`{}` of sizes {dims:?} as {}", operation.name, shown(kind)))),
        };
        declared.iter().zip(inferred).map(fixed).collect()
    }

    /// The sizes of an operation's results; `None` if they do not follow from its operands.
    pub(super) fn inferred(&self, operation: &Operation, declared: &[&Type]) -> Option<Vec<Vec<i64>>> {
        let results = declared.len();
        let result = declared.first()?;
        let operands = &operation.operands;
        let operand = |at: usize| operands.get(at).map(|&operand| self.dims(operand).to_vec());
        let one = |dims: Option<Vec<i64>>| Some(vec![dims?]);
        let list = |name: &str| operation.attribute(name)?.as_numbers();
        match operation.kind() {
            "concatenate" => one(self.concatenated(operation)),
            "dot_general" => one(self.product(operation)),
            "dot" => {
                let (mut lhs, rhs) = (operand(0)?, operand(1)?);
                lhs.pop()?;
                lhs.extend(rhs.get(1..)?);
                one(Some(lhs))
            }
            "reduce" => {
                let dims = without(&operand(0)?, &list("dimensions")?);
                Some(vec![dims; results])
            }
            "transpose" => {
                let dims = operand(0)?;
                one(list("permutation")?.into_iter().map(|from| pick(&dims, from)).collect())
            }
            "slice" => {
                let (start, limit, strides) = (list("start_indices")?, list("limit_indices")?, list("strides")?);
                let bounds = start.iter().zip(&limit).zip(&strides);
                let dims = bounds.map(|((&start, &limit), &stride)| ceil(limit.checked_sub(start)?, stride)).collect();
                one(dims)
            }
            "pad" => {
                let (low, high) = (list("edge_padding_low")?, list("edge_padding_high")?);
                one(padded(&operand(0)?, &low, &high, &list("interior_padding")?))
            }
            "dynamic_slice" => one(list("slice_sizes")),
            "gather" => {
                let Some(Attribute::Gather(gather)) = operation.attribute("dimension_numbers") else { return None };
                one(gathered(gather, &operand(1)?, &list("slice_sizes")?))
            }
            "reduce_window" => {
                let window = list("window_dimensions")?;
                let dilations = ["base_dilations", "window_dilations"];
                Some(vec![positions(operation, &operand(0)?, &window, dilations)?; results])
            }
            "convolution" => one(self.convolved(operation)),
            "fft" => {
                let (mut dims, length) = (operand(0)?, list("fft_length")?);
                let last = dims.last_mut()?;
                match operation.attribute("fft_type") {
                    Some(Attribute::Choice(_, "RFFT")) => *last = length.last()? / 2 + 1,
                    Some(Attribute::Choice(_, "IRFFT")) => *last = *length.last()?,
                    _ => {}
                }
                one(Some(dims))
            }
            "triangular_solve" | "select" | "clamp" => one(operand(1)),
            "scatter" | "sort" | "optimization_barrier" => (0..results).map(operand).collect(),
            "batch_norm_training" | "batch_norm_grad" => Some(vec![operand(0)?, operand(1)?, operand(1)?]),
            "bitcast_convert" => one(self.recast(operation, result)),
            kind if is_elementwise(kind) || is_listed(SAME_SIZES, kind) => one(operand(0)),
            "custom_call" => {
                let target = operation.attribute("call_target_name")?.as_text()?;
                one(operand(0).filter(|_| MARKS.contains(&target) && operands.len() == 1))
            }
            _ if matches!(&*operation.name, "sdy.sharding_constraint" | "sdy.reshard") => one(operand(0)),
            _ => None,
        }
    }

    fn concatenated(&self, operation: &Operation) -> Option<Vec<i64>> {
        let at = usize::try_from(operation.attribute("dimension")?.as_integer()?).ok()?;
        let mut dims = self.dims(*operation.operands.first()?).to_vec();
        let mut sizes = operation.operands.iter().map(|&operand| self.dims(operand).get(at).copied());
        *dims.get_mut(at)? = sizes.try_fold(0i64, |sum, size| sum.checked_add(size?))?;
        Some(dims)
    }

    /// Elements of another width have one dimension more or less.
    fn recast(&self, operation: &Operation, result: &Type) -> Option<Vec<i64>> {
        let operand = self.of(*operation.operands.first()?).as_tensor()?;
        let result = &result.as_tensor()?.element;
        let bits = |element: &Element| element.dtype().map(|dtype| i64::from(dtype.info().bits));
        let (from, to) = (bits(&operand.element)?, bits(result)?);
        let mut dims = operand.dims.clone();
        if from > to {
            dims.push(from / to);
        } else if from < to {
            dims.pop()?;
        }
        Some(dims)
    }

    fn product(&self, operation: &Operation) -> Option<Vec<i64>> {
        let Some(Attribute::Dot(dot)) = operation.attribute("dot_dimension_numbers") else { return None };
        let [lhs, rhs] = operation.operands[..] else { return None };
        let (lhs, rhs) = (self.dims(lhs), self.dims(rhs));
        let mut dims: Vec<i64> = dot.lhs_batching.iter().map(|&at| pick(lhs, at)).collect::<Option<_>>()?;
        dims.extend(without(lhs, &[&dot.lhs_batching[..], &dot.lhs_contracting].concat()));
        dims.extend(without(rhs, &[&dot.rhs_batching[..], &dot.rhs_contracting].concat()));
        Some(dims)
    }

    fn convolved(&self, operation: &Operation) -> Option<Vec<i64>> {
        let Some(Attribute::Conv(conv)) = operation.attribute("dimension_numbers") else { return None };
        let [input, kernel] = operation.operands[..] else { return None };
        let (input, kernel) = (self.dims(input), self.dims(kernel));
        let spatial: Vec<i64> = conv.input_spatial.iter().map(|&at| pick(input, at)).collect::<Option<_>>()?;
        let window: Vec<i64> = conv.kernel_spatial.iter().map(|&at| pick(kernel, at)).collect::<Option<_>>()?;
        let sizes = positions(operation, &spatial, &window, ["lhs_dilation", "rhs_dilation"])?;
        let groups = operation.attribute("batch_group_count").and_then(Attribute::as_integer).unwrap_or(1);
        let mut dims = vec![0; input.len()];
        *dims.get_mut(usize::try_from(conv.output_batch).ok()?)? =
            pick(input, conv.input_batch)?.checked_div(groups)?;
        *dims.get_mut(usize::try_from(conv.output_feature).ok()?)? = pick(kernel, conv.kernel_output_feature)?;
        for (&at, size) in conv.output_spatial.iter().zip(sizes) {
            *dims.get_mut(usize::try_from(at).ok()?)? = size;
        }
        Some(dims)
    }

    /// The values of an operand that must be known.
    pub(super) fn need(&self, operation: &Operation, operand: Option<&Value>) -> Result<Vec<i64>> {
        let known = operand.and_then(|&operand| self.known(operand));
        known.map(|known| known.to_vec()).ok_or_else(|| unrefined(operation, "has sizes that depend on data"))
    }
}

/// The number of positions of a window in each dimension. `dilations` names the dilations of the array and of the window.
fn positions(operation: &Operation, dims: &[i64], window: &[i64], dilations: [&str; 2]) -> Option<Vec<i64>> {
    // A list of so many numbers, which may be left out if all are the same.
    let list = |name: &str, len: usize, default: i64| match operation.attribute(name) {
        Some(value) => value.as_numbers().filter(|numbers| numbers.len() == len),
        None => Some(vec![default; len]),
    };
    let rank = dims.len();
    let (strides, padding) = (list("window_strides", rank, 1)?, list("padding", 2 * rank, 0)?);
    let (of_base, of_window) = (list(dilations[0], rank, 1)?, list(dilations[1], rank, 1)?);
    let dilated = |size: i64, dilation: i64| match size {
        0 => Some(0),
        _ => size.checked_sub(1)?.checked_mul(dilation)?.checked_add(1),
    };
    let size = |i: usize| {
        let whole = dilated(dims[i], of_base[i])?.checked_add(padding[2 * i].checked_add(padding[2 * i + 1])?)?;
        let window = dilated(*window.get(i)?, of_window[i])?;
        if whole < window || whole <= 0 {
            return Some(0);
        }
        whole.checked_sub(window)?.checked_div(strides[i])?.checked_add(1)
    };
    (0..rank).map(size).collect()
}

/// Calls that return their operand, with an annotation.
const MARKS: [&str; 3] = ["LayoutConstraint", "Sharding", "annotate_device_placement"];

/// Operations whose result has the sizes of the first operand, besides the operations of [`is_elementwise`].
const SAME_SIZES: &str =
    "all_reduce batch_norm_inference cholesky collective_broadcast collective_permute compare complex convert \
     dynamic_update_slice imag is_finite map real reduce_precision reverse select_and_scatter uniform_dequantize \
     uniform_quantize";

fn pick(dims: &[i64], at: i64) -> Option<i64> {
    dims.get(usize::try_from(at).ok()?).copied()
}

/// The sizes but for these dimensions.
fn without(dims: &[i64], dropped: &[i64]) -> Vec<i64> {
    dims.iter().enumerate().filter(|(at, _)| !dropped.contains(&(*at as i64))).map(|(_, &dim)| dim).collect()
}

/// How many steps of a stride begin in a size.
fn ceil(size: i64, stride: i64) -> Option<i64> {
    if size <= 0 {
        return Some(0);
    }
    Some((size - 1).checked_div(stride).filter(|_| stride > 0)? + 1)
}

fn padded(dims: &[i64], low: &[i64], high: &[i64], interior: &[i64]) -> Option<Vec<i64>> {
    let size = |(at, &dim): (usize, &i64)| {
        let inner = (dim - 1).max(0).checked_mul(*interior.get(at)?)?;
        dim.checked_add(*low.get(at)?)?.checked_add(*high.get(at)?)?.checked_add(inner)
    };
    dims.iter().enumerate().map(size).collect()
}

fn gathered(gather: &Gather, indices: &[i64], sizes: &[i64]) -> Option<Vec<i64>> {
    let dropped = [&gather.collapsed_slice_dims[..], &gather.operand_batching_dims].concat();
    let mut offsets = without(sizes, &dropped).into_iter();
    let mut batch = without(indices, &[gather.index_vector_dim]).into_iter();
    let rank = offsets.len() + batch.len();
    (0..rank as i64).map(|at| if gather.offset_dims.contains(&at) { offsets.next() } else { batch.next() }).collect()
}
