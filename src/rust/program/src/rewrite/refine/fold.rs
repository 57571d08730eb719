//! Arithmetic on integers that are known.

use super::{Known, Refiner, MAX_KNOWN};
use pjrt_data::dtype::DType;
use pjrt_ir::module::{is_listed, Attribute, Element, Operation, Tensor, Type, Value};

impl Refiner<'_> {
    /// A constant instead of an operation whose result has this type, if its integers follow from known ones.
    pub(super) fn folded(&mut self, operation: &Operation, result: &Type) -> Option<Value> {
        let tensor = result.as_tensor()?;
        let element = tensor.element.clone();
        let dtype =
            element.dtype().filter(|&dtype| dtype == DType::Pred || dtype.is_integer() && !dtype.is_packed())?;
        let (kind, operands) = (operation.kind(), &operation.operands[..]);
        if kind == "get_dimension_size" {
            return self.size(operation).map(|size| self.integers(Vec::new(), element, vec![size]));
        }
        let known = operands.iter().map(|&operand| self.known(operand)).collect::<Option<Vec<_>>>()?;
        let dims = if result.is_static() {
            tensor.dims.clone()
        } else if is_listed("concatenate slice broadcast_in_dim iota reshape dynamic_slice", kind) {
            return None;
        } else {
            self.dims(*operands.iter().max_by_key(|&&operand| self.dims(operand).len())?).to_vec()
        };
        let tensor = Tensor { dims, element, encoding: None };
        let len = tensor.elements().filter(|&len| len <= MAX_KNOWN)?;
        let values = match (kind, &known[..]) {
            ("iota", _) => iota(operation, &tensor.dims, len)?,
            (_, []) => return None,
            ("convert", [first, ..]) if dtype == DType::Pred => {
                first.iter().map(|&value| i64::from(value != 0)).collect()
            }
            ("reshape" | "optimization_barrier" | "convert", [first, ..]) => first.to_vec(),
            ("concatenate", _) => self.joined(operation, &known)?,
            ("slice", [first, ..]) if tensor.dims.len() == 1 => slice(operation, first)?,
            ("broadcast_in_dim", [first, ..]) => self.broadcast(operation, first, &tensor.dims, len)?,
            _ => {
                let of = self.of(operands[0]).as_tensor().map_or(&tensor.element, |operand| &operand.element);
                elementwise(operation, &known, of, len)?
            }
        };
        if values.len() != len {
            return None;
        }
        let wrapped = |value: i64| if dtype == DType::Pred { value & 1 } else { dtype.wrapped(value as u64) };
        let values = values.into_iter().map(wrapped).collect();
        Some(self.integers(tensor.dims, tensor.element, values))
    }

    /// The size of a dimension, if it is fixed.
    fn size(&self, source: &Operation) -> Option<i64> {
        let dimension = usize::try_from(source.attribute("dimension")?.as_integer()?).ok()?;
        let size = self.of(*source.operands.first()?).dims()?.get(dimension).copied()?;
        (size >= 0).then_some(size)
    }

    fn joined(&self, source: &Operation, known: &[&Known]) -> Option<Vec<i64>> {
        let at = usize::try_from(source.attribute("dimension")?.as_integer()?).ok()?;
        let outer = self.dims(*source.operands.first()?).get(..at)?;
        let outer = outer.iter().try_fold(1usize, |outer, &dim| outer.checked_mul(usize::try_from(dim).ok()?));
        let outer = outer.filter(|&outer| outer <= MAX_KNOWN)?;
        let mut joined = Vec::new();
        for i in 0..outer {
            for part in known {
                let size = part.len() / outer.max(1);
                joined.extend_from_slice(part.get(i * size..(i + 1) * size)?);
            }
        }
        Some(joined)
    }

    fn broadcast(&self, source: &Operation, values: &[i64], dims: &[i64], len: usize) -> Option<Vec<i64>> {
        let places = source.attribute("broadcast_dimensions")?.as_numbers()?;
        let from = self.dims(*source.operands.first()?);
        if places.len() != from.len() {
            return None;
        }
        let source_of = |flat: usize| {
            let at = places.iter().zip(from).try_fold(0i64, |at, (&place, &size)| {
                let index = index(flat, dims, usize::try_from(place).ok()?)?;
                at.checked_mul(size)?.checked_add(if size == 1 { 0 } else { index })
            })?;
            values.get(usize::try_from(at).ok()?).copied()
        };
        (0..len).map(source_of).collect()
    }
}

fn slice(source: &Operation, values: &[i64]) -> Option<Vec<i64>> {
    let bound = |name: &str| usize::try_from(*source.attribute(name)?.as_numbers()?.first()?).ok();
    let (start, limit, stride) = (bound("start_indices")?, bound("limit_indices")?, bound("strides")?);
    Some(values.get(start..limit)?.iter().copied().step_by(stride.max(1)).collect())
}

/// The index along a dimension of an array's element with this number.
fn index(flat: usize, dims: &[i64], dimension: usize) -> Option<i64> {
    let (&size, inner) = dims.get(dimension..)?.split_first()?;
    Some(flat as i64 / inner.iter().product::<i64>() % size)
}

fn iota(source: &Operation, dims: &[i64], len: usize) -> Option<Vec<i64>> {
    let dimension = usize::try_from(source.attribute("iota_dimension")?.as_integer()?).ok()?;
    (0..len).map(|flat| index(flat, dims, dimension)).collect()
}

/// Operations on each element; scalars among the operands count for all elements.
fn elementwise(source: &Operation, known: &[&Known], element: &Element, len: usize) -> Option<Vec<i64>> {
    let at = |operand: usize, i: usize| {
        let values = known.get(operand)?;
        values.get(if values.len() == 1 { 0 } else { i }).copied()
    };
    let one = |f: &dyn Fn(i64) -> Option<i64>| (0..len).map(|i| f(at(0, i)?)).collect();
    let two = |f: &dyn Fn(i64, i64) -> Option<i64>| (0..len).map(|i| f(at(0, i)?, at(1, i)?)).collect();
    let is_unsigned = element.dtype().is_some_and(|dtype| !dtype.is_signed());
    let order = |x: i64, y: i64| if is_unsigned { (x as u64).cmp(&(y as u64)) } else { x.cmp(&y) };
    let is_shift = |y: i64| u32::try_from(y).ok().filter(|&y| y < 32);
    match source.kind() {
        "negate" => one(&|x| Some(x.wrapping_neg())),
        "abs" => one(&|x| Some(if is_unsigned { x } else { x.wrapping_abs() })),
        "sign" => one(&|x| Some(if is_unsigned { i64::from(x != 0) } else { x.signum() })),
        "not" => one(&|x| Some(!x)),
        "add" if element.dtype() == Some(DType::Pred) => two(&|x, y| Some(x | y)),
        "add" => two(&|x, y| Some(x.wrapping_add(y))),
        "subtract" => two(&|x, y| Some(x.wrapping_sub(y))),
        "multiply" => two(&|x, y| Some(x.wrapping_mul(y))),
        "divide" if is_unsigned => two(&|x, y| Some((x as u64).checked_div(y as u64)? as i64)),
        "divide" => two(&|x, y| x.checked_div(y)),
        "remainder" if is_unsigned => two(&|x, y| Some((x as u64).checked_rem(y as u64)? as i64)),
        "remainder" => two(&|x, y| x.checked_rem(y)),
        "maximum" => two(&|x, y| Some(if order(x, y).is_ge() { x } else { y })),
        "minimum" => two(&|x, y| Some(if order(x, y).is_le() { x } else { y })),
        "and" => two(&|x, y| Some(x & y)),
        "or" => two(&|x, y| Some(x | y)),
        "xor" => two(&|x, y| Some(x ^ y)),
        "shift_left" => two(&|x, y| Some(x << is_shift(y)?)),
        "shift_right_logical" if is_unsigned => two(&|x, y| Some((x as u64 >> is_shift(y)?) as i64)),
        "shift_right_logical" => two(&|x, y| if x < 0 { None } else { Some(x >> is_shift(y)?) }),
        "shift_right_arithmetic" => two(&|x, y| Some(x >> is_shift(y)?)),
        "compare" => {
            let Some(Attribute::Choice(_, direction)) = source.attribute("comparison_direction") else { return None };
            two(&|x, y| {
                let order = order(x, y);
                let holds = match *direction {
                    "EQ" => order.is_eq(),
                    "NE" => order.is_ne(),
                    "GE" => order.is_ge(),
                    "GT" => order.is_gt(),
                    "LE" => order.is_le(),
                    "LT" => order.is_lt(),
                    _ => return None,
                };
                Some(holds.into())
            })
        }
        "select" => (0..len).map(|i| if at(0, i)? != 0 { at(1, i) } else { at(2, i) }).collect(),
        "clamp" => (0..len)
            .map(|i| {
                let (low, x, high) = (at(0, i)?, at(1, i)?, at(2, i)?);
                let x = if order(x, low).is_lt() { low } else { x };
                Some(if order(x, high).is_gt() { high } else { x })
            })
            .collect(),
        _ => None,
    }
}
