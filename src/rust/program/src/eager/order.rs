//! Order: sorting, and the places of elements. NaN comes last.

use super::arithmetic::real;
use super::body::{tensor, wide, Body, Value};
use super::math::working;
use super::reduce::{fold, limit, Fold};
use super::shape::flat;
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;

/// `sort`: all elements in ascending order, or in descending order if `parameters[0]` is 1; in one dimension. NaN is last in
/// both.
pub(super) fn sort(body: &mut Body, x: &Value, parameters: &[i64]) -> Result<Value> {
    real(Operation::Sort, x.dtype)?;
    let dtype = x.dtype;
    let is_decreasing = is_decreasing(parameters);
    let x = flat(body, x);
    let x = body.convert(&x, working(dtype));
    // Compilers sort by a single comparison several times as fast as by any other function.
    let keys = if dtype.is_float() { keys(body, &x, is_decreasing) } else { x.clone() };
    let region = comparator(keys.dtype, false, is_decreasing);
    let sorted = body.emit_region("stablehlo.sort", &[&keys], &region, SORT, keys.dtype, &keys.dims);
    let result = if dtype.is_float() { numbers(body, &sorted, x.dtype) } else { sorted };
    Ok(body.convert(&result, dtype))
}

/// Integers that are ordered as the floats are, with NaN at the end: their bits, where those of negative numbers are turned
/// around.
fn keys(body: &mut Body, x: &Value, is_decreasing: bool) -> Value {
    let dtype = if x.dtype == DType::F64 { DType::I64 } else { DType::I32 };
    let bits = body.emit("stablehlo.bitcast_convert", &[x], "", dtype, &x.dims);
    let keys = turned(body, &bits);
    let is_nan = body.compare("NE", x, x);
    let last = body.literal(dtype, &limit(dtype, !is_decreasing));
    let last = body.spread(&last, &x.dims);
    body.select(&is_nan, &last, &keys)
}

/// The floats of such integers. The largest and the smallest one are NaN.
fn numbers(body: &mut Body, keys: &Value, dtype: DType) -> Value {
    let bits = turned(body, keys);
    body.emit("stablehlo.bitcast_convert", &[&bits], "", dtype, &keys.dims)
}

/// Turns all bits of negative integers but the sign.
fn turned(body: &mut Body, bits: &Value) -> Value {
    let most = body.literal(bits.dtype, &limit(bits.dtype, true));
    let most = body.spread(&most, &bits.dims);
    let opposite = body.same("xor", &[bits, &most]);
    let is_negative = body.compare_to("LT", bits, 0.0);
    body.select(&is_negative, &opposite, bits)
}

const SORT: &str = "{dimension = 0 : i64, is_stable = true}";

fn is_decreasing(parameters: &[i64]) -> bool {
    parameters.first().is_some_and(|&flag| flag != 0)
}

/// `order`: the places, counted from 1 as i32, of the elements in ascending or descending order. Equal elements keep their
/// order.
pub(super) fn order(body: &mut Body, x: &Value, parameters: &[i64]) -> Result<Value> {
    real(Operation::Order, x.dtype)?;
    check_count(Operation::Order, x)?;
    let x = flat(body, x);
    let x = body.widened(&x);
    let places = places(body, &x);
    let region = comparator(x.dtype, true, is_decreasing(parameters));
    Ok(body.emit_second("stablehlo.sort", &[&x, &places], &region, SORT))
}

/// # Errors
/// `InvalidInput` for more elements than i32 counts.
fn check_count(operation: Operation, x: &Value) -> Result<()> {
    if x.len() < i64::from(i32::MAX) {
        return Ok(());
    }
    let message = format!("`{}` counts in i32, which is too small for {} elements.", operation.name(), x.len());
    Err(Error::new(Kind::InvalidInput, message).hint("Take the array in parts."))
}

/// Numbers from 1.
fn places(body: &mut Body, x: &Value) -> Value {
    let places = body.iota(DType::I32, &x.dims, 0);
    let one = body.constant(&places, 1.0);
    body.add(&places, &one)
}

/// The region that says whether `%a` comes before `%b`; with the places of both in two further arguments.
fn comparator(dtype: DType, has_places: bool, is_decreasing: bool) -> String {
    let (of, truth) = (tensor(dtype, &[]), tensor(DType::Pred, &[]));
    let places = if has_places { ", %i: tensor<i32>, %j: tensor<i32>" } else { "" };
    let compare = |name: &str, direction: &str, x: &str, y: &str| {
        format!(
            "    %{name} = \"stablehlo.compare\"(%{x}, %{y}) {{comparison_direction = \
             #stablehlo<comparison_direction {direction}>}} : ({of}, {of}) -> {truth}\n"
        )
    };
    let mut text = format!("({{\n  ^bb0(%a: {of}, %b: {of}{places}):\n");
    text += &compare("c", if is_decreasing { "GT" } else { "LT" }, "a", "b");
    let mut last = "c";
    if dtype.is_float() {
        // A number comes before NaN.
        text += &compare("d", "EQ", "a", "a");
        text += &compare("e", "NE", "b", "b");
        let logic = |name: &str, operation: &str, x: &str, y: &str| {
            format!("    %{name} = \"stablehlo.{operation}\"(%{x}, %{y}) : ({truth}, {truth}) -> {truth}\n")
        };
        text += &logic("f", "and", "d", "e");
        text += &logic("g", "or", "c", "f");
        last = "g";
    }
    text += &format!("    \"stablehlo.return\"(%{last}) : ({truth}) -> ()\n  }})");
    text
}

/// `which.max` and `which.min`: the first place, counted from 1 as i32, of the largest or smallest element other than NaN.
/// If all are NaN, the smallest i32, which stands for a missing value.
///
/// # Errors
/// `InvalidInput` for no elements.
pub(super) fn place(body: &mut Body, operation: Operation, x: &Value) -> Result<Value> {
    real(operation, x.dtype)?;
    if x.len() == 0 {
        let message = format!("`{}` needs at least one element.", operation.name());
        return Err(Error::new(Kind::InvalidInput, message));
    }
    check_count(operation, x)?;
    let kind = if operation == Operation::WhichMax { Fold::Maximum } else { Fold::Minimum };
    let x = flat(body, x);
    let dtype = if x.dtype == DType::Pred { DType::I32 } else { wide(x.dtype) };
    let x = body.convert(&x, dtype);
    let numbers = if dtype.is_float() {
        let is_nan = body.compare("NE", &x, &x);
        let none = if kind == Fold::Maximum { f64::NEG_INFINITY } else { f64::INFINITY };
        body.select_number(&is_nan, none, &x)
    } else {
        x.clone()
    };
    let best = fold(body, kind, &numbers, &[0]);
    let best = body.spread(&best, &x.dims);
    let is_best = body.compare("EQ", &x, &best);
    let places = places(body, &x);
    let most = body.constant(&places, f64::from(i32::MAX));
    let candidates = body.select(&is_best, &places, &most);
    let first = fold(body, Fold::Minimum, &candidates, &[0]);
    let is_missing = body.compare_to("EQ", &first, f64::from(i32::MAX));
    Ok(body.select_number(&is_missing, f64::from(i32::MIN), &first))
}
