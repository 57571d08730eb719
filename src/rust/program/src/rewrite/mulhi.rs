//! `chlo.mulhi`, the upper half of a product, by operations that every plugin has.

use super::replace_each;
use pjrt_ir::module::{Attribute, Dense, Operation, Type, Value};
use std::sync::Arc;

/// Replaces each `chlo.mulhi` of integers of fixed shape in an operation. Whether there is one.
pub(super) fn expand(operation: &mut Operation, types: &mut Vec<Type>) -> bool {
    let mut is_expanded = false;
    replace_each(operation, &mut |operation, out| match multiply_out(&operation, types, out) {
        Some(()) => is_expanded = true,
        None => out.push(operation),
    });
    is_expanded
}

/// Schoolbook multiplication with digits of half the width: no product of two of them is too large for the type. `None`
/// for other operations, and other arrays than of integers of a fixed size.
fn multiply_out(operation: &Operation, types: &mut Vec<Type>, out: &mut Vec<Operation>) -> Option<()> {
    let (&[x, y], &[result], "chlo.mulhi") = (&operation.operands[..], &operation.results[..], &*operation.name) else {
        return None;
    };
    let kind = types[x.0 as usize].clone();
    let tensor = kind.as_tensor().filter(|tensor| tensor.elements().is_some())?;
    let dtype = tensor.element.dtype().filter(|dtype| dtype.is_integer())?;
    let half = dtype.info().bits / 2;
    let shift = if dtype.is_signed() { "shift_right_arithmetic" } else { "shift_right_logical" };
    let mut add = |mut operation: Operation| {
        types.push(kind.clone());
        let value = Value(types.len() as u32 - 1);
        operation.results.push(value);
        out.push(operation);
        value
    };
    let mut constant = |number: i64| {
        let dense = Dense::of_integers(tensor.dims.clone(), tensor.element.clone(), &[number]);
        let mut constant = Operation::new("stablehlo.constant", Vec::new(), Vec::new());
        constant.set("value", Attribute::Dense(Arc::new(dense)));
        add(constant)
    };
    let (half, mask) = (constant(i64::from(half)), constant((1 << half) - 1));
    let mut of = |name: &str, x, y| add(Operation::new(&format!("stablehlo.{name}"), vec![x, y], Vec::new()));
    let (x0, x1) = (of("and", x, mask), of(shift, x, half));
    let (y0, y1) = (of("and", y, mask), of(shift, y, half));
    let (p00, p01) = (of("multiply", x0, y0), of("multiply", x0, y1));
    let (p10, p11) = (of("multiply", x1, y0), of("multiply", x1, y1));
    let carry = of("shift_right_logical", p00, half);
    let s = of("add", p10, carry);
    let (s0, s1) = (of("and", s, mask), of(shift, s, half));
    let t = of("add", p01, s0);
    let t1 = of(shift, t, half);
    let u = of("add", p11, s1);
    of("add", u, t1);
    out.last_mut()?.results = vec![result];
    Some(())
}
