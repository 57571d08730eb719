//! Operations that move elements. Elements are in column-major order: the first index varies fastest.

use super::arithmetic::one_shape;
use super::body::{integers, tensor, Value};
use super::Operation;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_data::layout::{format_dims, is_permutation};
use pjrt_data::promote::promote;

fn reversed(rank: usize) -> Vec<i64> {
    (0..rank as i64).rev().collect()
}

/// All elements in column-major order, in one dimension.
pub(super) fn flat<'b>(x: &Value<'b>) -> Value<'b> {
    x.transpose(&reversed(x.dims.len())).reshape(&[x.len()])
}

/// `dim`: the same elements in column-major order, in other dimensions.
pub(super) fn reshape<'b>(x: &Value<'b>, dims: &[i64]) -> Result<Value<'b>> {
    let count = Spec::new(x.dtype, dims)?.len();
    if count != x.len() as usize {
        let elements = counted(x.len() as usize, "element");
        let message = format!("{x} has {elements}, which cannot fill the shape {}.", format_dims(dims));
        return Err(Error::new(Kind::ShapeMismatch, message).hint("The new shape must have as many elements."));
    }
    if x.dims == dims {
        return Ok(x.clone());
    }
    let opposite: Vec<i64> = dims.iter().rev().copied().collect();
    Ok(x.transpose(&reversed(x.dims.len())).reshape(&opposite).transpose(&reversed(dims.len())))
}

/// `t`: of a matrix; of a vector, as a row.
pub(super) fn transpose<'b>(x: &Value<'b>) -> Result<Value<'b>> {
    match x.dims[..] {
        [] => Ok(x.reshape(&[1, 1])),
        [n] => Ok(x.reshape(&[1, n])),
        [_, _] => Ok(x.transpose(&[1, 0])),
        _ => {
            let message = format!("`t` needs a matrix or a vector: got {x}.");
            Err(Error::new(Kind::ShapeMismatch, message).hint("Arrays of more dimensions need a permutation of them."))
        }
    }
}

/// `aperm`: dimension `i` of the result is dimension `parameters[i]`, counted from 0. Without parameters, in reverse.
pub(super) fn permute<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    let order = if parameters.is_empty() { reversed(x.dims.len()) } else { parameters.to_vec() };
    if !is_permutation(&order, x.dims.len()) {
        bail!(InvalidInput, "{order:?} is not a permutation of the dimensions, counted from 0, of {x}.");
    }
    Ok(x.transpose(&order))
}

/// `[`: the elements at some places, in one dimension for each of `indices`, which have rank 1 and count from 0.
/// `parameters` are these dimensions, counted from 0.
pub(super) fn take<'b>(x: &Value<'b>, indices: &[Value<'b>], parameters: &[i64]) -> Result<Value<'b>> {
    let rank = x.dims.len() as i64;
    if parameters.len() != indices.len() {
        bail!(ArgumentCount, "`[` takes places for each of {} dimensions, not {}.", parameters.len(), indices.len());
    }
    let are_valid = parameters.iter().all(|axis| (0..rank).contains(axis))
        && indices.iter().all(|index| index.dims.len() == 1 && index.dtype.is_integer());
    ensure!(are_valid, InvalidInput, "`[` takes whole numbers for dimensions of {x}.");
    let dtype = x.dtype;
    let mut x = x.widened();
    for (&axis, index) in parameters.iter().zip(indices) {
        let mut dims = x.dims.clone();
        let mut sizes = x.dims.clone();
        (dims[axis as usize], sizes[axis as usize]) = (index.len(), sizes[axis as usize].min(1));
        let others: Vec<String> = (0..rank).filter(|&dim| dim != axis).map(|dim| dim.to_string()).collect();
        let attributes = format!(
            "{{dimension_numbers = #stablehlo.gather<offset_dims = [{}], collapsed_slice_dims = [{axis}], \
             start_index_map = [{axis}], index_vector_dim = 1>, slice_sizes = {}, indices_are_sorted = false}}",
            others.join(", "),
            integers(&sizes)
        );
        x = x.body.emit("gather", &[&x, index], "", &attributes, x.dtype, &dims);
    }
    Ok(x.convert(dtype))
}

/// The program that copies an array to another layout. `parameters` are the dimensions from the fastest to the slowest
/// varying, before and after.
pub(super) fn in_layout(x: &Value, parameters: &[i64]) -> Result<String> {
    let (before, after) = parameters.split_at(parameters.len() / 2);
    if ![before, after].iter().all(|order| is_permutation(order, x.dims.len())) {
        bail!(Internal, "A layout must be a permutation of the dimensions.");
    }
    let of = tensor(x.dtype, &x.dims);
    let mode = |order: &[i64]| {
        let order: Vec<_> = order.iter().map(i64::to_string).collect();
        format!("{of} {{mhlo.layout_mode = \"{{{}}}\"}}", order.join(","))
    };
    Ok(format!(
        "module attributes {{mhlo.layout_mode = \"default\"}} {{\n  func.func public @main(%x: {}) -> ({}) {{\n    \
         return %x : {of}\n  }}\n}}\n",
        mode(before),
        mode(after)
    ))
}

/// `rev`: all elements in the opposite order, in one dimension.
pub(super) fn reverse<'b>(x: &Value<'b>) -> Value<'b> {
    let x = flat(x);
    x.body.emit("reverse", &[&x], "", "{dimensions = array<i64: 0>}", x.dtype, &x.dims)
}

/// `cbind` and `rbind`: matrices side by side. Vectors are one column or row, scalars are repeated. All of them promote to
/// one dtype.
pub(super) fn bind<'b>(operation: Operation, parts: &[Value<'b>]) -> Result<Value<'b>> {
    let (along, across) = if operation == Operation::Cbind { (1, 0) } else { (0, 1) };
    let Some(dtype) = parts.iter().map(|part| part.dtype).reduce(promote) else {
        bail!(ArgumentCount, "`{operation}` needs at least one array.");
    };
    let matrix = parts.iter().find(|part| part.dims.len() == 2).map(|part| part.dims[across]);
    let longest = || parts.iter().map(Value::len).max().unwrap_or(0);
    let length = matrix.unwrap_or_else(longest);
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        let fits = match part.dims[..] {
            [] => true,
            // Vectors without elements are left out beside others.
            [0] if length > 0 => continue,
            [n] => n == length || n == 1,
            [_, _] => part.dims[across] == length,
            _ => false,
        };
        if !fits {
            let what = if across == 0 { "rows" } else { "columns" };
            let message = format!("`{operation}` cannot join {part} with arrays of {length} {what}.");
            return Err(Error::new(Kind::ShapeMismatch, message).hint("Only scalars are recycled."));
        }
        let part = part.convert(dtype);
        let mut dims = [1, 1];
        dims[across] = length;
        let piece = match part.dims[..] {
            [_, _] => part,
            [n] if n == length => part.reshape(&dims),
            _ => part.reshape(&[]).spread(&dims),
        };
        pieces.push(piece);
    }
    let pieces: Vec<&Value> = pieces.iter().collect();
    Ok(parts[0].body.concatenate(&pieces, along as i64))
}

/// `diag` of a matrix is its diagonal; of a vector or scalar, the matrix with this diagonal, of `parameters` rows and columns
/// if there are any.
pub(super) fn diagonal<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    match (&x.dims[..], parameters) {
        (&[rows, columns], []) => Ok(extract(x, rows.min(columns))),
        (&[n], []) => build(x, n, n),
        ([] | [_], &[n]) => build(x, n, n),
        ([] | [_], &[rows, columns]) => build(x, rows, columns),
        _ => bail!(ShapeMismatch, "`diag` needs a matrix, a vector, or a scalar with the number of rows: got {x}."),
    }
}

/// `x` with zeros but where row and column are the same.
fn masked<'b>(x: &Value<'b>) -> Value<'b> {
    let index = |dimension| x.body.iota(DType::I64, &x.dims, dimension);
    index(0).compare("EQ", index(1)).select(x, &x.constant(0.0))
}

fn extract<'b>(x: &Value<'b>, n: i64) -> Value<'b> {
    // Every row has one element of the diagonal, and all others are left out before the sum.
    let kept = masked(&x.square(n).widened());
    let kind = if kept.dtype == DType::Pred { super::reduce::Fold::Or } else { super::reduce::Fold::Add };
    super::reduce::fold(kind, &kept, &[1]).convert(x.dtype)
}

fn build<'b>(x: &Value<'b>, rows: i64, columns: i64) -> Result<Value<'b>> {
    let dims = [rows, columns];
    Spec::new(x.dtype, &dims)?;
    let n = rows.min(columns);
    let is_scalar = x.len() == 1;
    if !is_scalar && x.len() != n {
        bail!(ShapeMismatch, "`diag` needs {n} elements for a diagonal of {rows} rows and {columns} columns: got {x}.");
    }
    let spread =
        if is_scalar { x.reshape(&[]).spread(&dims) } else { x.broadcast(&dims, &[i64::from(rows > columns)]) };
    Ok(masked(&spread))
}

/// `ifelse`: elements of `yes` where the condition holds, else of `no`. Scalars are repeated.
pub(super) fn choose<'b>(condition: &Value<'b>, yes: &Value<'b>, no: &Value<'b>) -> Result<Value<'b>> {
    let condition = condition.convert(DType::Pred);
    let dtype = promote(yes.dtype, no.dtype);
    let (yes, no) = one_shape(Operation::Ifelse, &yes.convert(dtype), &no.convert(dtype))?;
    let (condition, yes) = one_shape(Operation::Ifelse, &condition, &yes)?;
    let no = no.spread(&yes.dims);
    Ok(condition.select(yes, &no))
}
