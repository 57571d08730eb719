//! Products of matrices. A vector is a row or a column, whichever fits.

use super::body::Value;
use super::math::floating;
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::layout::format_type;
use pjrt_data::promote::promote;

/// The shapes of two operands as matrices.
type Matrices = ((i64, i64), (i64, i64));

/// `%*%`, `crossprod` (the first operand transposed) and `tcrossprod` (the second one): of the dtype that both promote to, of
/// integers and pred as the default float.
pub(super) fn product<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>, float: DType) -> Result<Value<'b>> {
    let dtype = floating(promote(x.dtype, y.dtype), float);
    let (left, right) = matrices(operation, x, y).ok_or_else(|| {
        let (left, right) = (format_type(x.dtype, &x.dims), format_type(y.dtype, &y.dims));
        let message = format!("`{}` needs matrices that fit: got {left} and {right}.", operation.name());
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
    let (x, y) = (x.reshape(&[left.0, left.1]), y.reshape(&[right.0, right.1]));
    let (of_x, of_y) = match operation {
        Operation::Matmul => (1, 0),
        Operation::Crossprod => (0, 0),
        _ => (1, 1),
    };
    let dims = [x.dims[1 - of_x], y.dims[1 - of_y]];
    let attributes = format!(
        "{{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [{of_x}], \
         rhs_contracting_dimensions = [{of_y}]>, \
         precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}}"
    );
    Ok(x.body().emit("stablehlo.dot_general", &[&x, &y], "", &attributes, sum, &dims).convert(dtype))
}

/// The operands as matrices that fit, if there is a way.
fn matrices(operation: Operation, x: &Value, y: &Value) -> Option<Matrices> {
    let (n, m) = (x.len(), y.len());
    let is_plain = operation == Operation::Matmul;
    let matrices = match (matrix(x)?, matrix(y)?) {
        (Some(left), Some(right)) => (left, right),
        // Two vectors: the inner product; a single number times a row.
        (None, None) if is_plain && n == 1 => ((1, 1), (1, m)),
        (None, None) if is_plain => ((1, n), (m, 1)),
        (None, None) => ((n, 1), (m, 1)),
        (None, Some(right)) => match operation {
            Operation::Matmul if n == right.0 => ((1, n), right),
            Operation::Tcrossprod if n == right.1 => ((1, n), right),
            _ => ((n, 1), right),
        },
        (Some(left), None) => match operation {
            Operation::Matmul if m == left.1 => (left, (m, 1)),
            Operation::Crossprod if m == left.0 => (left, (m, 1)),
            Operation::Tcrossprod => (left, (m, 1)),
            _ => (left, (1, m)),
        },
    };
    let fits = match operation {
        Operation::Matmul => matrices.0 .1 == matrices.1 .0,
        Operation::Crossprod => matrices.0 .0 == matrices.1 .0,
        _ => matrices.0 .1 == matrices.1 .1,
    };
    fits.then_some(matrices)
}

/// The shape of a matrix, `Some(None)` of a vector or scalar, `None` of another array.
#[allow(clippy::option_option)]
fn matrix(x: &Value) -> Option<Option<(i64, i64)>> {
    match x.dims[..] {
        [] | [_] => Some(None),
        [rows, columns] => Some(Some((rows, columns))),
        _ => None,
    }
}

/// `outer`: the products of each element of one array with each of another.
pub(super) fn outer<'b>(x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dims = [&x.dims[..], &y.dims[..]].concat();
    let split = x.dims.len() as i64;
    let first: Vec<i64> = (0..split).collect();
    let second: Vec<i64> = (split..dims.len() as i64).collect();
    super::arithmetic::ring(Operation::Multiply, &x.broadcast(&dims, &first), &y.broadcast(&dims, &second))
}
