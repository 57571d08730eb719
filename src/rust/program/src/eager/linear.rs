//! Products of matrices. A vector is a row or a column, whichever fits.

use super::body::Value;
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::promote::promote;

/// `%*%`, `crossprod` (the first operand transposed) and `tcrossprod` (the second one): of the dtype that both promote to, of
/// integers and pred as the default float.
pub(super) fn product<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = x.body.floating(promote(x.dtype, y.dtype))?;
    // The dimensions that go.
    let (of_x, of_y) = match operation {
        Operation::Matmul => (1, 0),
        Operation::Crossprod => (0, 0),
        _ => (1, 1),
    };
    let (left, right) = matrices(x, y, of_x, of_y).ok_or_else(|| {
        let message = format!("`{operation}` needs matrices that fit: got {x} and {y}.");
        let hint = match operation {
            Operation::Matmul => "The first one needs as many columns as the second one has rows.",
            Operation::Crossprod => "Both need as many rows.",
            _ => "Both need as many columns.",
        };
        Error::new(Kind::ShapeMismatch, message).hint(hint)
    })?;
    // Narrow floats are multiplied as they are, and add up in f32.
    let (factor, sum) = match dtype {
        DType::F16 | DType::BF16 => (dtype, DType::F32),
        _ if dtype.is_float() && dtype.info().bits <= 8 => (DType::BF16, DType::F32),
        _ => (dtype, dtype),
    };
    let (x, y) = (x.convert(factor), y.convert(factor));
    let (x, y) = (x.reshape(&left), y.reshape(&right));
    let dims = [x.dims[1 - of_x], y.dims[1 - of_y]];
    let attributes = format!(
        "{{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [{of_x}], \
         rhs_contracting_dimensions = [{of_y}]>, \
         precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}}"
    );
    Ok(x.body.emit("dot_general", &[&x, &y], "", &attributes, sum, &dims).convert(dtype))
}

/// The shapes of the operands as matrices that fit in these dimensions, if there is a way.
fn matrices(x: &Value, y: &Value, of_x: usize, of_y: usize) -> Option<([i64; 2], [i64; 2])> {
    let (n, m) = (x.len(), y.len());
    let is_plain = of_x != of_y;
    let (left, right) = match (&x.dims[..], &y.dims[..]) {
        (&[a, b], &[c, d]) => ([a, b], [c, d]),
        // Two vectors: the inner product; a single number times a row, which `tcrossprod` makes of a column.
        ([] | [_], [] | [_]) if of_y == 0 && n == 1 => ([1, 1], [1, m]),
        ([] | [_], [] | [_]) if is_plain => ([1, n], [m, 1]),
        ([] | [_], [] | [_]) => ([n, 1], [m, 1]),
        ([] | [_], &[c, d]) => (if of_x == 1 && n == [c, d][of_y] { [1, n] } else { [n, 1] }, [c, d]),
        // `tcrossprod` makes a row of the vector only beside another row, as R does.
        (&[1, b], [] | [_]) if of_y == 1 && m == b => ([1, b], [1, m]),
        (&[a, b], [] | [_]) => ([a, b], if of_y == 1 || m == [a, b][of_x] { [m, 1] } else { [1, m] }),
        _ => return None,
    };
    (left[of_x] == right[of_y]).then_some((left, right))
}

/// `outer`: the products of each element of one array with each of another.
pub(super) fn outer<'b>(x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dims = [&x.dims[..], &y.dims[..]].concat();
    let split = x.dims.len() as i64;
    let first: Vec<i64> = (0..split).collect();
    let second: Vec<i64> = (split..dims.len() as i64).collect();
    super::arithmetic::ring(Operation::Multiply, &x.broadcast(&dims, &first), &y.broadcast(&dims, &second))
}
