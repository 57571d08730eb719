//! Summaries of arrays, of all elements or along some axes, and cumulative ones.

use super::arithmetic::{counted, real};
use super::body::{integers, tensor, Body, Value};
use super::math::working;
use super::shape::flat;
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;

/// What a reduction does with two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    Add,
    Multiply,
    Maximum,
    Minimum,
    And,
    Or,
}

impl Fold {
    /// The element that changes no other one.
    pub fn neutral(self, body: &Body, dtype: DType) -> Value<'_> {
        let number = match self {
            Fold::Add | Fold::Or => 0.0,
            Fold::Multiply | Fold::And => 1.0,
            Fold::Maximum if dtype.is_float() => f64::NEG_INFINITY,
            Fold::Minimum if dtype.is_float() => f64::INFINITY,
            Fold::Maximum | Fold::Minimum => return body.literal(dtype, &limit(dtype, self == Fold::Minimum)),
        };
        body.scalar(dtype, number)
    }

    /// The region of a reduction.
    fn region(self, dtype: DType) -> String {
        let of = tensor(dtype, &[]);
        let operation = format!("{self:?}").to_ascii_lowercase();
        let line = format!("%c = \"stablehlo.{operation}\"(%a, %b) : ({of}, {of}) -> {of}");
        region_of(dtype, "", &line, dtype)
    }
}

/// A region that computes `%c`, of the dtype `result`, from the elements `%a` and `%b`, and further arguments.
pub(super) fn region_of(dtype: DType, further: &str, lines: &str, result: DType) -> String {
    let (of, result) = (tensor(dtype, &[]), tensor(result, &[]));
    let last = format!("\"stablehlo.return\"(%c) : ({result}) -> ()");
    format!("({{\n  ^bb0(%a: {of}, %b: {of}{further}):\n    {lines}\n    {last}\n  }})")
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

/// The region of a reduction to the largest or smallest float: NaN if one is NaN. XLA's own `maximum` and `minimum` lose
/// NaN in reductions of many elements since 2026.
fn region_with_nan(kind: Fold, dtype: DType) -> String {
    let (of, truth) = (tensor(dtype, &[]), tensor(DType::Pred, &[]));
    let how = if kind == Fold::Maximum { "GE" } else { "LE" };
    let lines = format!(
        "%is_more = stablehlo.compare {how}, %a, %b : ({of}, {of}) -> {truth}\n    \
         %is_nan = stablehlo.compare NE, %a, %a : ({of}, {of}) -> {truth}\n    \
         %is_first = \"stablehlo.or\"(%is_more, %is_nan) : ({truth}, {truth}) -> {truth}\n    \
         %c = \"stablehlo.select\"(%is_first, %a, %b) : ({truth}, {of}, {of}) -> {of}"
    );
    region_of(dtype, "", &lines, dtype)
}

/// `x` without some of its axes.
pub(super) fn fold<'b>(fold: Fold, x: &Value<'b>, axes: &[i64]) -> Value<'b> {
    let start = fold.neutral(x.body, x.dtype);
    let dims: Vec<i64> = (0..).zip(&x.dims).filter(|(i, _)| !axes.contains(i)).map(|(_, &dim)| dim).collect();
    let attributes = format!("{{dimensions = {}}}", integers(axes));
    let region = match fold {
        Fold::Maximum | Fold::Minimum if x.dtype.is_float() => region_with_nan(fold, x.dtype),
        _ => fold.region(x.dtype),
    };
    x.body.emit("reduce", &[x, &start], &region, &attributes, x.dtype, &dims)
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
        bail!(InvalidInput, "`{operation}` of {x} cannot go along the dimensions {parameters:?}, counted from 0.");
    }
    Ok(axes)
}

/// What stands in the parameters of a summary that leaves out what is missing, after the others.
const WITHOUT_MISSING: i64 = -1;

/// The parameters without this mark, and whether it is there.
fn without_mark(parameters: &[i64]) -> (&[i64], bool) {
    match parameters {
        [others @ .., WITHOUT_MISSING] => (others, true),
        all => (all, false),
    }
}

/// Where elements are not missing: NaN, or the smallest i32 or i64, which R reads as NA. `None` for dtypes without either.
fn known<'b>(x: &Value<'b>) -> Option<Value<'b>> {
    match x.dtype {
        DType::I32 | DType::I64 => {
            let missing = x.body.literal(x.dtype, &limit(x.dtype, false)).spread(&x.dims);
            Some(x.compare("NE", &missing))
        }
        dtype if dtype.is_float() || dtype.is_complex() => Some(x.compare("EQ", x)),
        _ => None,
    }
}

/// `x` with another number in place of what is missing.
fn without_missing<'b>(x: &Value<'b>, kind: Fold) -> Value<'b> {
    let wide = x.widened();
    let Some(known) = known(&wide) else { return x.clone() };
    let neutral = kind.neutral(wide.body, wide.dtype).spread(&wide.dims);
    known.select(&wide, &neutral)
}

/// `sum`, `prod`, `mean`, `max`, `min`, `any`, `all`: along the axes in `parameters`, counted from 0, or all; without
/// what is missing if -1 comes last.
pub(super) fn summary<'b>(operation: Operation, x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    let (parameters, skips_missing) = without_mark(parameters);
    let axes = axes(operation, x, parameters)?;
    along(operation, x, &axes, skips_missing)
}

fn along<'b>(operation: Operation, x: &Value<'b>, axes: &[i64], skips_missing: bool) -> Result<Value<'b>> {
    let given = |kind| if skips_missing { without_missing(x, kind) } else { x.clone() };
    match operation {
        Operation::Sum => Ok(total(Fold::Add, &given(Fold::Add), axes).convert(summed(x, axes))),
        Operation::Prod => Ok(total(Fold::Multiply, &given(Fold::Multiply), axes).convert(summed(x, axes))),
        Operation::Mean => mean(x, axes, skips_missing),
        Operation::Max => most(operation, Fold::Maximum, x, axes, skips_missing),
        Operation::Min => most(operation, Fold::Minimum, x, axes, skips_missing),
        Operation::Any => Ok(fold(Fold::Or, &given(Fold::Or).convert(DType::Pred), axes)),
        _ => Ok(fold(Fold::And, &given(Fold::And).convert(DType::Pred), axes)),
    }
}

/// The largest or smallest element, without what is missing if this is skipped.
fn most<'b>(operation: Operation, kind: Fold, x: &Value<'b>, axes: &[i64], skips_missing: bool) -> Result<Value<'b>> {
    real(operation, x.dtype)?;
    if !skips_missing {
        return extreme(operation, kind, x, axes);
    }
    let found = extreme(operation, kind, &without_missing(x, kind), axes)?;
    if x.dtype.is_float() {
        return Ok(found.convert(x.dtype));
    }
    // Integers have no infinities: the least of none is missing, as the largest of none is.
    let Some(known) = known(x) else { return Ok(found) };
    let none = x.body.literal(x.dtype, &limit(x.dtype, false)).spread(&found.dims);
    Ok(fold(Fold::Or, &known, axes).select(found, &none))
}

/// Half floats add up in f32.
fn total<'b>(kind: Fold, x: &Value<'b>, axes: &[i64]) -> Value<'b> {
    let dtype = summed(x, axes);
    fold(kind, &x.convert(working(dtype)), axes).convert(dtype)
}

/// The dtype of a sum along these axes: i32 for pred if it can count all elements, and 64 bits for integers.
fn summed(x: &Value<'_>, axes: &[i64]) -> DType {
    let sizes = axes.iter().filter_map(|&axis| x.dims.get(axis as usize));
    let most = sizes.fold(1i64, |most, &size| most.saturating_mul(size));
    match x.dtype {
        DType::Pred if i32::try_from(most).is_ok() => DType::I32,
        DType::Pred => DType::I64,
        other if other.is_integer() && other.is_signed() => DType::I64,
        other if other.is_integer() => DType::U64,
        other => other,
    }
}

/// The sum over the number of elements, of those that are not missing if these are skipped; integers add up exactly.
fn mean<'b>(x: &Value<'b>, axes: &[i64], skips_missing: bool) -> Result<Value<'b>> {
    let dtype = x.body.floating(x.dtype)?;
    let exact = match x.dtype {
        of if of.is_float() || of.is_complex() => working(of),
        DType::U64 => DType::U64,
        _ => DType::I64,
    };
    let known = if skips_missing { known(&x.widened()) } else { None };
    let known = known.map(|known| fold(Fold::Add, &known.convert(DType::I64), axes));
    let given = if known.is_some() { without_missing(x, Fold::Add) } else { x.clone() };
    let sum = fold(Fold::Add, &given.convert(exact), axes).convert(working(dtype));
    let count = match known {
        Some(known) => known.convert(sum.dtype),
        None => sum.constant(axes.iter().map(|&axis| x.dims[axis as usize]).product::<i64>() as f64),
    };
    Ok((sum / count).convert(dtype))
}

/// The largest or smallest element, NaN if there is one. Of no elements, an infinity, which integers lack.
fn extreme<'b>(operation: Operation, kind: Fold, x: &Value<'b>, axes: &[i64]) -> Result<Value<'b>> {
    let dtype = counted(x.dtype);
    let is_empty = axes.iter().any(|&axis| x.dims[axis as usize] == 0);
    if is_empty && !dtype.is_float() {
        let message = format!("`{operation}` of integers without elements is not defined: got {x}.");
        return Err(
            Error::new(Kind::InvalidInput, message).hint("Only floats have infinities, for arrays without elements.")
        );
    }
    Ok(fold(kind, &x.convert(dtype).widened(), axes).convert(dtype))
}

/// The smallest and the largest element; without what is missing if the only parameter is -1.
pub(super) fn range<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    let axes: Vec<i64> = (0..x.dims.len() as i64).collect();
    let (_, skips_missing) = without_mark(parameters);
    let low = most(Operation::Range, Fold::Minimum, x, &axes, skips_missing)?;
    let high = most(Operation::Range, Fold::Maximum, x, &axes, skips_missing)?;
    Ok(x.body.concatenate(&[&low.reshape(&[1]), &high.reshape(&[1])], 0))
}

/// `rowSums` and its kin: the first `dims` dimensions stay, or go; without what is missing if -1
/// comes after this number.
pub(super) fn rows_or_columns<'b>(operation: Operation, x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    let (parameters, skips_missing) = without_mark(parameters);
    let rank = x.dims.len() as i64;
    let split = parameters.first().copied().unwrap_or(1);
    if rank < 2 || !(1..rank).contains(&split) {
        let least = split.max(1).saturating_add(1);
        bail!(
            ShapeMismatch,
            "`{operation}` with `dims` = {split} needs an array of at least {least} dimensions: got {x}."
        );
    }
    let is_rows = matches!(operation, Operation::RowSums | Operation::RowMeans);
    let axes: Vec<i64> = if is_rows { (split..rank).collect() } else { (0..split).collect() };
    let is_sum = matches!(operation, Operation::RowSums | Operation::ColSums);
    along(if is_sum { Operation::Sum } else { Operation::Mean }, x, &axes, skips_missing)
}

/// `cumsum` and its kin, of all elements in column-major order: rank 1. Sums have the dtype of `sum`, products of integers the
/// default float.
pub(super) fn cumulative<'b>(operation: Operation, x: &Value<'b>) -> Result<Value<'b>> {
    let kind = match operation {
        Operation::Cumsum => Fold::Add,
        Operation::Cumprod => Fold::Multiply,
        Operation::Cummax => Fold::Maximum,
        _ => Fold::Minimum,
    };
    if matches!(kind, Fold::Maximum | Fold::Minimum) {
        real(operation, x.dtype)?;
    }
    let dtype = match kind {
        Fold::Multiply => x.body.floating(x.dtype)?,
        Fold::Add => summed(x, &(0..x.dims.len() as i64).collect::<Vec<_>>()),
        _ => counted(x.dtype),
    };
    let x = flat(x).convert(dtype).convert(working(dtype));
    let n = x.len();
    if n == 0 {
        return Ok(x.convert(dtype));
    }
    let start = kind.neutral(x.body, x.dtype);
    let attributes =
        format!("{{window_dimensions = array<i64: {n}>, padding = dense<[[{}, 0]]> : tensor<1x2xi64>}}", n - 1);
    let region = kind.region(x.dtype);
    let result = x.body.emit("reduce_window", &[&x, &start], &region, &attributes, x.dtype, &[n]);
    Ok(result.convert(dtype))
}
