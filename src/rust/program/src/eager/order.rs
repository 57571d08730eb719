//! Order: sorting, and the places of elements. NaN comes last.

use super::arithmetic::{counted, real};
use super::body::{tensor, wide, Value};
use super::math::working;
use super::reduce::{fold, limit, region_of, Fold};
use super::shape::flat;
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;

/// `sort`: all elements in ascending order, or in descending order if `parameters[0]` is 1; in one dimension. NaN is last in
/// both.
pub(super) fn sort<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    real(Operation::Sort, x.dtype)?;
    let dtype = x.dtype;
    let is_decreasing = is_decreasing(parameters);
    let x = flat(x).convert(working(dtype));
    // Compilers sort by a single comparison several times as fast as by any other function.
    let keys = if dtype.is_float() { keys(&x, is_decreasing) } else { x.clone() };
    let region = comparator(keys.dtype, false, is_decreasing);
    let sorted = x.body.emit("sort", &[&keys], &region, SORT, keys.dtype, &keys.dims);
    // The largest and the smallest integer are NaN.
    let result = if dtype.is_float() { turned(&sorted).apply_as("bitcast_convert", x.dtype) } else { sorted };
    Ok(result.convert(dtype))
}

/// Integers that are ordered as the floats are, with NaN at the end: their bits, turned around for negative numbers.
fn keys<'b>(x: &Value<'b>, is_decreasing: bool) -> Value<'b> {
    let dtype = if x.dtype == DType::F64 { DType::I64 } else { DType::I32 };
    let keys = turned(&x.apply_as("bitcast_convert", dtype));
    let last = x.body.literal(dtype, &limit(dtype, !is_decreasing)).spread(&x.dims);
    x.compare("NE", x).select(last, &keys)
}

/// Turns all bits of negative integers but the sign.
fn turned<'b>(bits: &Value<'b>) -> Value<'b> {
    let most = bits.body.literal(bits.dtype, &limit(bits.dtype, true)).spread(&bits.dims);
    bits.compare("LT", 0.0).select(bits ^ most, bits)
}

const SORT: &str = "{dimension = 0 : i64, is_stable = true}";

fn is_decreasing(parameters: &[i64]) -> bool {
    parameters.first().is_some_and(|&flag| flag != 0)
}

/// `order`: the places, counted from 1 as i32, of the elements in ascending or descending order. Equal elements keep their
/// order.
pub(super) fn order<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    real(Operation::Order, x.dtype)?;
    check_count(Operation::Order, x)?;
    let x = flat(x).widened();
    let region = comparator(x.dtype, true, is_decreasing(parameters));
    Ok(x.second("sort", &places(&x), &region, SORT))
}

/// Places are counted in i32.
fn check_count(operation: Operation, x: &Value) -> Result<()> {
    if x.len() < i64::from(i32::MAX) {
        return Ok(());
    }
    let message = format!("`{operation}` counts in i32, which is too small for {} elements.", x.len());
    Err(Error::new(Kind::InvalidInput, message).hint("Take the array in parts."))
}

/// Numbers from 1.
fn places<'b>(x: &Value<'b>) -> Value<'b> {
    x.body.iota(DType::I32, &x.dims, 0) + 1.0
}

/// The region that says whether `%a` comes before `%b`; with the places of both in two further arguments.
fn comparator(dtype: DType, has_places: bool, is_decreasing: bool) -> String {
    let (of, truth) = (tensor(dtype, &[]), tensor(DType::Pred, &[]));
    let places = if has_places { ", %i: tensor<i32>, %j: tensor<i32>" } else { "" };
    let before = if is_decreasing { "GT" } else { "LT" };
    let lines = match dtype.is_float() {
        // A number comes before NaN.
        true => format!(
            "%before = stablehlo.compare {before}, %a, %b : ({of}, {of}) -> {truth}\n    \
             %is_number = stablehlo.compare EQ, %a, %a : ({of}, {of}) -> {truth}\n    \
             %is_nan = stablehlo.compare NE, %b, %b : ({of}, {of}) -> {truth}\n    \
             %nan_last = stablehlo.and %is_number, %is_nan : {truth}\n    \
             %c = stablehlo.or %before, %nan_last : {truth}"
        ),
        false => format!("%c = stablehlo.compare {before}, %a, %b : ({of}, {of}) -> {truth}"),
    };
    region_of(dtype, places, &lines, DType::Pred)
}

/// `which.max` and `which.min`: the first place, counted from 1 as i32, of the largest or smallest element other than NaN.
/// If all are NaN, the smallest i32, which stands for a missing value.
pub(super) fn place<'b>(operation: Operation, x: &Value<'b>) -> Result<Value<'b>> {
    real(operation, x.dtype)?;
    ensure!(x.len() > 0, InvalidInput, "`{operation}` needs at least one element.");
    check_count(operation, x)?;
    let kind = if operation == Operation::WhichMax { Fold::Maximum } else { Fold::Minimum };
    let dtype = wide(counted(x.dtype));
    let x = flat(x).convert(dtype);
    let numbers = if dtype.is_float() {
        x.compare("NE", &x).select(kind.neutral(x.body, dtype).spread(&x.dims), &x)
    } else {
        x.clone()
    };
    let is_best = x.compare("EQ", fold(kind, &numbers, &[0]).spread(&x.dims));
    let places = places(&x);
    let candidates = is_best.select(&places, &places.constant(f64::from(i32::MAX)));
    let first = fold(Fold::Minimum, &candidates, &[0]);
    Ok(first.compare("EQ", f64::from(i32::MAX)).select(f64::from(i32::MIN), &first))
}
