//! Summaries of arrays, of all elements or along some axes, and cumulative ones.

use super::arithmetic::real;
use super::body::{integers, tensor, Body, Value};
use super::math::{floating, working};
use super::shape::flat;
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::layout::format_type;

/// What a reduction does with two elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    Sum,
    Product,
    Maximum,
    Minimum,
    And,
    Or,
}

impl Fold {
    fn operation(self) -> &'static str {
        match self {
            Fold::Sum => "stablehlo.add",
            Fold::Product => "stablehlo.multiply",
            Fold::Maximum => "stablehlo.maximum",
            Fold::Minimum => "stablehlo.minimum",
            Fold::And => "stablehlo.and",
            Fold::Or => "stablehlo.or",
        }
    }

    /// The element that changes no other one.
    fn neutral(self, body: &mut Body, dtype: DType) -> Value {
        let number = match self {
            Fold::Sum | Fold::Or => 0.0,
            Fold::Product | Fold::And => 1.0,
            Fold::Maximum | Fold::Minimum if dtype.is_float() => {
                if self == Fold::Maximum {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Fold::Maximum | Fold::Minimum => return body.literal(dtype, &limit(dtype, self == Fold::Minimum)),
        };
        body.scalar(dtype, number)
    }

    /// The region of a reduction.
    fn region(self, dtype: DType) -> String {
        let of = tensor(dtype, &[]);
        format!(
            "({{\n  ^bb0(%a: {of}, %b: {of}):\n    %c = \"{}\"(%a, %b) : ({of}, {of}) -> {of}\n    \
             \"stablehlo.return\"(%c) : ({of}) -> ()\n  }})",
            self.operation()
        )
    }
}

/// The largest or smallest integer of a dtype.
pub(super) fn limit(dtype: DType, is_largest: bool) -> String {
    let bits = dtype.info().bits;
    let unsigned = u64::MAX >> (64 - bits);
    match (dtype.is_signed(), is_largest) {
        (true, true) => (unsigned / 2).to_string(),
        (true, false) => format!("-{}", unsigned / 2 + 1),
        (false, true) => unsigned.to_string(),
        (false, false) => "0".into(),
    }
}

/// `x` without some of its axes.
pub(super) fn fold(body: &mut Body, fold: Fold, x: &Value, axes: &[i64]) -> Value {
    let start = fold.neutral(body, x.dtype);
    let dims: Vec<i64> = (0..).zip(&x.dims).filter(|(i, _)| !axes.contains(i)).map(|(_, &dim)| dim).collect();
    let attributes = format!("{{dimensions = {}}}", integers(axes));
    body.emit_region("stablehlo.reduce", &[x, &start], &fold.region(x.dtype), &attributes, x.dtype, &dims)
}

/// The axes that parameters name, or all.
fn axes(operation: Operation, x: &Value, parameters: &[i64]) -> Result<Vec<i64>> {
    let rank = x.dims.len() as i64;
    if parameters.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut axes = parameters.to_vec();
    axes.sort_unstable();
    axes.dedup();
    if axes.len() != parameters.len() || axes.iter().any(|axis| !(0..rank).contains(axis)) {
        bail!(
            InvalidInput,
            "`{}` of {} cannot go along the dimensions {parameters:?}, counted from 0.",
            operation.name(),
            format_type(x.dtype, &x.dims)
        );
    }
    Ok(axes)
}

/// What stands in the parameters of a summary that leaves out NaN, after the others.
const WITHOUT_NAN: i64 = -1;

/// The parameters without this mark, and whether it is there.
fn without_mark(parameters: &[i64]) -> (&[i64], bool) {
    match parameters {
        [others @ .., WITHOUT_NAN] => (others, true),
        all => (all, false),
    }
}

/// `x` with another number in place of NaN.
fn without_nan(body: &mut Body, x: &Value, kind: Fold) -> Value {
    if !(x.dtype.is_float() || x.dtype.is_complex()) {
        return x.clone();
    }
    let x = body.widened(x);
    let is_nan = body.compare("NE", &x, &x);
    let neutral = kind.neutral(body, x.dtype);
    let neutral = body.spread(&neutral, &x.dims);
    body.select(&is_nan, &neutral, &x)
}

/// `sum`, `prod`, `mean`, `max`, `min`, `any`, `all`: along the axes in `parameters`, counted from 0, or all; without NaN
/// if -1 comes last.
pub(super) fn summary(
    body: &mut Body,
    operation: Operation,
    x: &Value,
    parameters: &[i64],
    float: DType,
) -> Result<Value> {
    let (parameters, skips_nan) = without_mark(parameters);
    let axes = axes(operation, x, parameters)?;
    along(body, operation, x, &axes, skips_nan, float)
}

fn along(
    body: &mut Body,
    operation: Operation,
    x: &Value,
    axes: &[i64],
    skips_nan: bool,
    float: DType,
) -> Result<Value> {
    let kind = match operation {
        Operation::Prod => Fold::Product,
        Operation::Max => Fold::Maximum,
        Operation::Min => Fold::Minimum,
        Operation::Any => Fold::Or,
        Operation::All => Fold::And,
        _ => Fold::Sum,
    };
    let dtype = x.dtype;
    let known = if skips_nan && operation != Operation::Mean { without_nan(body, x, kind) } else { x.clone() };
    match operation {
        Operation::Sum | Operation::Prod => {
            let total = total(body, kind, &known, axes);
            Ok(body.convert(&total, summed(dtype)))
        }
        Operation::Mean => Ok(mean(body, x, axes, skips_nan, float)),
        Operation::Max | Operation::Min => {
            let most = extreme(body, operation, kind, &known, axes)?;
            Ok(if dtype.is_float() { body.convert(&most, dtype) } else { most })
        }
        _ => Ok(truth(body, kind, &known, axes)),
    }
}

/// Sums of pred are i32, and of integers have 64 bits. Half floats add up in f32.
fn total(body: &mut Body, kind: Fold, x: &Value, axes: &[i64]) -> Value {
    let dtype = summed(x.dtype);
    let x = body.convert(x, working(dtype));
    let sum = fold(body, kind, &x, axes);
    body.convert(&sum, dtype)
}

/// The dtype of a sum.
fn summed(dtype: DType) -> DType {
    match dtype {
        DType::Pred => DType::I32,
        other if other.is_integer() && other.is_signed() => DType::I64,
        other if other.is_integer() => DType::U64,
        other => other,
    }
}

/// The sum over the number of elements; integers add up exactly.
fn mean(body: &mut Body, x: &Value, axes: &[i64], skips_nan: bool, float: DType) -> Value {
    let dtype = floating(x.dtype, float);
    if skips_nan && (x.dtype.is_float() || x.dtype.is_complex()) {
        let x = body.convert(x, working(x.dtype));
        let is_known = body.compare("EQ", &x, &x);
        let counted = body.convert(&is_known, DType::I64);
        let count = fold(body, Fold::Sum, &counted, axes);
        let known = without_nan(body, &x, Fold::Sum);
        let sum = fold(body, Fold::Sum, &known, axes);
        let count = body.convert(&count, sum.dtype);
        let mean = body.div(&sum, &count);
        return body.convert(&mean, dtype);
    }
    let count: i64 = axes.iter().map(|&axis| x.dims[axis as usize]).product();
    let x = if x.dtype.is_float() || x.dtype.is_complex() {
        body.convert(x, working(x.dtype))
    } else {
        body.convert(x, if x.dtype == DType::U64 { DType::U64 } else { DType::I64 })
    };
    let sum = fold(body, Fold::Sum, &x, axes);
    let sum = body.convert(&sum, working(dtype));
    let count = body.constant(&sum, count as f64);
    let mean = body.div(&sum, &count);
    body.convert(&mean, dtype)
}

/// The largest or smallest element, NaN if there is one. Of no elements, an infinity.
///
/// # Errors
/// `InvalidInput` for no integers, and `UnsupportedDtype` for complex numbers.
fn extreme(body: &mut Body, operation: Operation, kind: Fold, x: &Value, axes: &[i64]) -> Result<Value> {
    real(operation, x.dtype)?;
    let dtype = if x.dtype == DType::Pred { DType::I32 } else { x.dtype };
    let is_empty = axes.iter().any(|&axis| x.dims[axis as usize] == 0);
    if is_empty && !dtype.is_float() {
        let message = format!(
            "`{}` of integers without elements is not defined: got {}.",
            operation.name(),
            format_type(x.dtype, &x.dims)
        );
        return Err(
            Error::new(Kind::InvalidInput, message).hint("Only floats have infinities, for arrays without elements.")
        );
    }
    let x = body.convert(x, dtype);
    let x = body.widened(&x);
    let result = fold(body, kind, &x, axes);
    Ok(body.convert(&result, dtype))
}

fn truth(body: &mut Body, kind: Fold, x: &Value, axes: &[i64]) -> Value {
    let x = body.convert(x, DType::Pred);
    fold(body, kind, &x, axes)
}

/// The smallest and the largest element; without NaN if the only parameter is -1.
pub(super) fn range(body: &mut Body, x: &Value, parameters: &[i64]) -> Result<Value> {
    let axes: Vec<i64> = (0..x.dims.len() as i64).collect();
    let mut end = |kind| {
        let known = if without_mark(parameters).1 { without_nan(body, x, kind) } else { x.clone() };
        let end = extreme(body, Operation::Range, kind, &known, &axes)?;
        let end = if x.dtype.is_float() { body.convert(&end, x.dtype) } else { end };
        Ok::<_, Error>(body.reshape(&end, &[1]))
    };
    let (low, high) = (end(Fold::Minimum)?, end(Fold::Maximum)?);
    Ok(body.concatenate(&[&low, &high], 0))
}

/// `rowSums` and its kin: the first `dims` dimensions stay, or go; without NaN if -1 comes after this number.
pub(super) fn rows_or_columns(
    body: &mut Body,
    operation: Operation,
    x: &Value,
    parameters: &[i64],
    float: DType,
) -> Result<Value> {
    let (parameters, skips_nan) = without_mark(parameters);
    let rank = x.dims.len() as i64;
    let split = parameters.first().copied().unwrap_or(1);
    if rank < 2 || !(1..rank).contains(&split) {
        bail!(
            ShapeMismatch,
            "`{}` with `dims` = {split} needs an array of at least {} dimensions: got {}.",
            operation.name(),
            split.max(1).saturating_add(1),
            format_type(x.dtype, &x.dims)
        );
    }
    let is_rows = matches!(operation, Operation::RowSums | Operation::RowMeans);
    let axes: Vec<i64> = if is_rows { (split..rank).collect() } else { (0..split).collect() };
    let is_sum = matches!(operation, Operation::RowSums | Operation::ColSums);
    along(body, if is_sum { Operation::Sum } else { Operation::Mean }, x, &axes, skips_nan, float)
}

/// `cumsum` and its kin, of all elements in column-major order: rank 1. Sums have the dtype of `sum`, products of integers the
/// default float.
pub(super) fn cumulative(body: &mut Body, operation: Operation, x: &Value, float: DType) -> Result<Value> {
    let kind = match operation {
        Operation::Cumsum => Fold::Sum,
        Operation::Cumprod => Fold::Product,
        Operation::Cummax => Fold::Maximum,
        _ => Fold::Minimum,
    };
    if matches!(kind, Fold::Maximum | Fold::Minimum) {
        real(operation, x.dtype)?;
    }
    let dtype = match x.dtype {
        _ if kind == Fold::Product => floating(x.dtype, float),
        DType::Pred => DType::I32,
        other if kind == Fold::Sum => summed(other),
        other => other,
    };
    let x = flat(body, x);
    let x = body.convert(&x, dtype);
    let x = body.convert(&x, working(dtype));
    let n = x.len();
    if n == 0 {
        return Ok(body.convert(&x, dtype));
    }
    let start = kind.neutral(body, x.dtype);
    let attributes =
        format!("{{window_dimensions = array<i64: {n}>, padding = dense<[[{}, 0]]> : tensor<1x2xi64>}}", n - 1);
    let region = kind.region(x.dtype);
    let result = body.emit_region("stablehlo.reduce_window", &[&x, &start], &region, &attributes, x.dtype, &[n]);
    Ok(body.convert(&result, dtype))
}
