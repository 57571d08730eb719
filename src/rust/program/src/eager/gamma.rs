//! The gamma function and its relatives, from sums and products with full accuracy in double precision.
//!
//! Small arguments become 2 + e with |e| <= 1/2 by the recurrence, and log(gamma(2 + e)) is a power series. Large ones have
//! the asymptotic series of Stirling, negative ones the reflection formula.

use super::body::{Body, Value};
use super::math::sin_pi;
use super::Operation;
use pjrt_data::dtype::DType;
use std::f64::consts::PI;

/// log(gamma(2 + e)) / e: 1 - Euler's constant, then (zeta(k) - 1) (-1)^k / k for k = 2, 3, ...
const SERIES: [f64; 26] = [
    0.422_784_335_098_467_13,
    0.322_467_033_424_113_2,
    -0.067_352_301_053_198_1,
    0.020_580_808_427_784_546,
    -0.007_385_551_028_673_986,
    0.002_890_510_330_741_523_4,
    -0.001_192_753_911_703_261,
    0.000_509_669_524_743_042_5,
    -0.000_223_154_758_453_579_39,
    9.945_751_278_180_853e-05,
    -4.492_623_673_813_314e-05,
    2.050_721_277_567_069e-05,
    -9.439_488_275_268_397e-06,
    4.374_866_789_907_488e-06,
    -2.039_215_753_801_366e-06,
    9.551_412_130_407_42e-07,
    -4.492_469_198_764_566e-07,
    2.120_718_480_555_466_5e-07,
    -1.004_322_482_396_809_9e-07,
    4.769_810_169_363_980_4e-08,
    -2.271_109_460_894_316_4e-08,
    1.083_865_921_489_695_5e-08,
    -5.183_475_041_970_047e-09,
    2.483_674_543_802_478_5e-09,
    -1.192_140_140_586_091_2e-09,
    5.731_367_241_678_862e-10,
];

/// Stirling's series in 1 / x^2: B(2k) / (2k (2k - 1)), to be divided by x.
const STIRLING: [f64; 8] = [
    0.083_333_333_333_333_33,
    -0.002_777_777_777_777_778,
    0.000_793_650_793_650_793_7,
    -0.000_595_238_095_238_095_3,
    0.000_841_750_841_750_841_7,
    -0.001_917_526_917_526_917_6,
    0.006_410_256_410_256_41,
    -0.029_550_653_594_771_242,
];

/// The asymptotic series of the derivative of log(gamma(x)), in 1 / x^2: -B(2k) / (2k).
const DIGAMMA: [f64; 8] = [
    -0.083_333_333_333_333_33,
    0.008_333_333_333_333_333,
    -0.003_968_253_968_253_968,
    0.004_166_666_666_666_667,
    -0.007_575_757_575_757_576,
    0.021_092_796_092_796_094,
    -0.083_333_333_333_333_33,
    0.443_259_803_921_568_6,
];

/// The asymptotic series of its second derivative, in 1 / x^2: B(2k), to be divided by x^3.
const TRIGAMMA: [f64; 8] = [
    0.166_666_666_666_666_66,
    -0.033_333_333_333_333_33,
    0.023_809_523_809_523_808,
    -0.033_333_333_333_333_33,
    0.075_757_575_757_575_76,
    -0.253_113_553_113_553_1,
    1.166_666_666_666_666_7,
    -7.092_156_862_745_098,
];

/// From here on, the asymptotic series are exact to the last digit.
const LARGE: f64 = 12.0;

/// Arguments up to here are reduced by products, which are exact for whole numbers.
const PRODUCT: f64 = 22.5;

/// `gamma`, `lgamma`, `digamma` or `trigamma` of floats of f32 or f64.
pub(super) fn function(body: &mut Body, operation: Operation, x: &Value) -> Value {
    match operation {
        Operation::Gamma => gamma(body, x),
        Operation::Lgamma => log_gamma(body, x),
        Operation::Digamma => digamma(body, x),
        _ => trigamma(body, x),
    }
}

/// Coefficients, lowest power first, at `x`. Terms below the precision of f32 are left out there.
fn polynomial(body: &mut Body, x: &Value, coefficients: &[f64]) -> Value {
    let (last, others) = coefficients.split_last().unwrap_or((&0.0, &[]));
    let mut sum = body.constant(x, *last);
    for &coefficient in others.iter().rev() {
        let product = body.mul(&sum, x);
        let coefficient = body.constant(x, coefficient);
        sum = body.add(&product, &coefficient);
    }
    sum
}

fn reciprocal(body: &mut Body, x: &Value) -> Value {
    let one = body.constant(x, 1.0);
    body.div(&one, x)
}

fn log1p(body: &mut Body, x: &Value) -> Value {
    super::math::log1p(body, x)
}

/// An argument of at least 1/2 as `product * gamma(2 + e)`, with |e| <= 1/2 up to the bound; the product is of the numbers
/// by which gamma grows above, divided by those below.
struct Reduced {
    e: Value,
    product: Value,
    /// Whether the argument is below 3/2, where gamma(2 + e) is divided by the argument.
    is_below: Value,
}

fn reduce(body: &mut Body, x: &Value, bound: f64) -> Reduced {
    let is_below = body.compare_to("LT", x, 1.5);
    let one = body.constant(x, 1.0);
    let up = body.add(x, &one);
    let mut rest = body.select(&is_below, &up, x);
    let mut product = one.clone();
    let steps = (bound - 2.5).ceil() as usize;
    for _ in 0..steps {
        let is_above = body.compare_to("GE", &rest, 2.5);
        let down = body.sub(&rest, &one);
        rest = body.select(&is_above, &down, &rest);
        let next = body.mul(&product, &rest);
        product = body.select(&is_above, &next, &product);
    }
    let two = body.constant(x, 2.0);
    // Exact, unlike the argument plus one: it is used where it is small.
    let below = body.sub(x, &one);
    let above = body.sub(&rest, &two);
    let e = body.select(&is_below, &below, &above);
    Reduced { e, product, is_below }
}

/// log(gamma(2 + e)).
fn series(body: &mut Body, e: &Value) -> Value {
    let sum = polynomial(body, e, &SERIES);
    body.mul(&sum, e)
}

/// What Stirling's formula lacks: log(gamma(x)) - (x - 1/2) log(x) + x - log(2 pi) / 2.
fn correction(body: &mut Body, x: &Value) -> Value {
    let inverse = reciprocal(body, x);
    let square = body.mul(&inverse, &inverse);
    let sum = polynomial(body, &square, &STIRLING);
    body.mul(&sum, &inverse)
}

/// Reflects arguments below 1/2 at 1/2: the argument of the formulas, and whether it was reflected.
fn reflect(body: &mut Body, x: &Value) -> (Value, Value) {
    let is_reflected = body.compare_to("LT", x, 0.5);
    let one = body.constant(x, 1.0);
    let other = body.sub(&one, x);
    (body.select(&is_reflected, &other, x), is_reflected)
}

/// Whether `x` is 0, -1, -2, ..., where the functions have poles.
fn is_pole(body: &mut Body, x: &Value) -> Value {
    let whole = body.same("floor", &[x]);
    let is_whole = body.compare("EQ", x, &whole);
    let is_low = body.compare_to("LE", x, 0.0);
    body.and(&is_whole, &is_low)
}

fn gamma(body: &mut Body, x: &Value) -> Value {
    // gamma(x) gamma(1 - x) = pi / sin(pi x), with 1 - x for small x only, as x itself is exact.
    let (y, is_reflected) = reflect(body, x);
    let Reduced { e, product, is_below } = reduce(body, &y, PRODUCT);
    let log = series(body, &e);
    let base = body.same("exponential", &[&log]);
    let small = body.mul(&base, &product);
    // gamma(1 + e) = gamma(2 + e) / (1 + e)
    let below = body.div(&base, &y);
    let small = body.select(&is_below, &below, &small);
    // The power would overflow before gamma does.
    let (half, quarter) = (body.constant(&y, 0.5), body.constant(&y, 0.25));
    let exponent = body.mul(&y, &half);
    let exponent = body.sub(&exponent, &quarter);
    let root = body.same("power", &[&y, &exponent]);
    let minus = body.same("negate", &[&y]);
    let decay = body.same("exponential", &[&minus]);
    let large = body.mul(&root, &decay);
    let more = correction(body, &y);
    let more = body.same("exponential", &[&more]);
    let scale = body.constant(&y, (2.0 * PI).sqrt());
    let more = body.mul(&more, &scale);
    let large = body.mul(&large, &more);
    let large = body.mul(&large, &root);
    let overflow = if y.dtype == DType::F64 { 171.7 } else { 35.1 };
    let is_huge = body.compare_to("GT", &y, overflow);
    let large = body.select_number(&is_huge, f64::INFINITY, &large);
    let is_large = body.compare_to("GE", &y, PRODUCT);
    let result = body.select(&is_large, &large, &small);
    let sine = sin_pi(body, x);
    let reflected = body.mul(&sine, &result);
    let pi = body.constant(x, PI);
    let reflected = body.div(&pi, &reflected);
    let result = body.select(&is_reflected, &reflected, &result);
    let pole = is_pole(body, x);
    body.select_number(&pole, f64::NAN, &result)
}

fn log_gamma(body: &mut Body, x: &Value) -> Value {
    let (y, is_reflected) = reflect(body, x);
    let Reduced { e, product, is_below } = reduce(body, &y, LARGE);
    let log = series(body, &e);
    let above = body.same("log", &[&product]);
    let above = body.add(&log, &above);
    let below = log1p(body, &e);
    let below = body.sub(&log, &below);
    let small = body.select(&is_below, &below, &above);
    let half = body.constant(&y, 0.5);
    let log = body.same("log", &[&y]);
    let one = body.constant(&y, 1.0);
    // (y - 1/2) (log(y) - 1) - 1/2 + ...: the product comes close to the result.
    let factor = body.sub(&y, &half);
    let log = body.sub(&log, &one);
    let large = body.mul(&factor, &log);
    let more = correction(body, &y);
    let rest = body.constant(&y, 0.5 * (2.0 * PI).ln() - 0.5);
    let more = body.add(&more, &rest);
    let large = body.add(&large, &more);
    let is_large = body.compare_to("GE", &y, LARGE);
    let result = body.select(&is_large, &large, &small);
    let is_infinite = body.compare_to("EQ", &y, f64::INFINITY);
    let result = body.select_number(&is_infinite, f64::INFINITY, &result);
    // Between 0 and 1/2, log(gamma(x)) = log(gamma(1 + x)) - log(x), which has no sine that rounds.
    let low = series(body, x);
    let low_log = log1p(body, x);
    let low = body.sub(&low, &low_log);
    let log = body.same("log", &[x]);
    let low = body.sub(&low, &log);
    let sine = sin_pi(body, x);
    let sine = body.same("abs", &[&sine]);
    let pi = body.constant(x, PI);
    let sine = body.div(&pi, &sine);
    let sine = body.same("log", &[&sine]);
    let reflected = body.sub(&sine, &result);
    let is_positive = body.compare_to("GT", x, 0.0);
    let reflected = body.select(&is_positive, &low, &reflected);
    let result = body.select(&is_reflected, &reflected, &result);
    let pole = is_pole(body, x);
    let is_infinite = body.compare_to("EQ", x, f64::NEG_INFINITY);
    let pole = body.or(&pole, &is_infinite);
    body.select_number(&pole, f64::INFINITY, &result)
}

/// The argument moved up to [`LARGE`], and the sum of the `power`th powers of the reciprocals passed on the way.
fn moved(body: &mut Body, x: &Value, power: u32) -> (Value, Value) {
    let (mut y, mut sum) = (x.clone(), body.constant(x, 0.0));
    let one = body.constant(x, 1.0);
    for _ in 0..LARGE as usize {
        let is_low = body.compare_to("LT", &y, LARGE);
        let divisor = if power == 1 { y.clone() } else { body.mul(&y, &y) };
        let term = body.div(&one, &divisor);
        let next = body.add(&sum, &term);
        sum = body.select(&is_low, &next, &sum);
        let up = body.add(&y, &one);
        y = body.select(&is_low, &up, &y);
    }
    (y, sum)
}

fn digamma(body: &mut Body, x: &Value) -> Value {
    let (y, is_reflected) = reflect(body, x);
    let (z, sum) = moved(body, &y, 1);
    let inverse = reciprocal(body, &z);
    let square = body.mul(&inverse, &inverse);
    let tail = polynomial(body, &square, &DIGAMMA);
    let tail = body.mul(&tail, &square);
    let half = body.constant(x, 0.5);
    let half = body.mul(&half, &inverse);
    let tail = body.sub(&tail, &half);
    let log = body.same("log", &[&z]);
    let result = body.add(&log, &tail);
    let result = body.sub(&result, &sum);
    // digamma(x) = digamma(1 - x) - pi / tan(pi x)
    let tangent = super::math::tan_pi(body, x);
    let pi = body.constant(x, PI);
    let term = body.div(&pi, &tangent);
    let reflected = body.sub(&result, &term);
    let result = body.select(&is_reflected, &reflected, &result);
    let pole = is_pole(body, x);
    body.select_number(&pole, f64::NAN, &result)
}

fn trigamma(body: &mut Body, x: &Value) -> Value {
    let (y, is_reflected) = reflect(body, x);
    let (z, sum) = moved(body, &y, 2);
    let inverse = reciprocal(body, &z);
    let square = body.mul(&inverse, &inverse);
    let tail = polynomial(body, &square, &TRIGAMMA);
    let tail = body.mul(&tail, &square);
    let tail = body.mul(&tail, &inverse);
    let half = body.constant(x, 0.5);
    let half = body.mul(&half, &square);
    let tail = body.add(&tail, &half);
    let tail = body.add(&tail, &inverse);
    let result = body.add(&tail, &sum);
    // trigamma(x) = (pi / sin(pi x))^2 - trigamma(1 - x)
    let sine = sin_pi(body, x);
    let pi = body.constant(x, PI);
    let ratio = body.div(&pi, &sine);
    let ratio = body.mul(&ratio, &ratio);
    let reflected = body.sub(&ratio, &result);
    let result = body.select(&is_reflected, &reflected, &result);
    let pole = is_pole(body, x);
    body.select_number(&pole, f64::INFINITY, &result)
}
