//! The gamma function and its relatives, from sums and products with full accuracy in double precision.
//!
//! Small arguments become 2 + e with |e| <= 1/2 by the recurrence, and log(gamma(2 + e)) is a power series. Large ones have
//! the asymptotic series of Stirling, negative ones the reflection formula.

use super::body::{Body, Value};
use super::math::{cos_pi, sin_pi};
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

/// A polynomial of `x`: coefficients, lowest power first.
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

/// A positive argument, moved to 2 + e by the recurrence. Up to the bound, |e| <= 1/2.
struct Moved {
    e: Value,
    /// gamma(x) = gamma(2 + e) * factor / divisor; one of both is 1.
    factor: Value,
    divisor: Value,
}

fn reduce(body: &mut Body, x: &Value, bound: f64) -> Moved {
    let (one, two) = (body.constant(x, 1.0), body.constant(x, 2.0));
    let (mut rest, mut factor) = (x.clone(), one.clone());
    let steps = (bound - 2.5).ceil() as usize;
    for _ in 0..steps {
        let is_above = body.compare_to("GE", &rest, 2.5);
        let down = body.sub(&rest, &one);
        rest = body.select(&is_above, &down, &rest);
        let next = body.mul(&factor, &rest);
        factor = body.select(&is_above, &next, &factor);
    }
    // Below 3/2, gamma(1 + x) = x gamma(x); below 1/2, once more. The differences are exact.
    let is_below = body.compare_to("LT", x, 1.5);
    let is_low = body.compare_to("LT", x, 0.5);
    let (above, below) = (body.sub(&rest, &two), body.sub(x, &one));
    let e = body.select(&is_below, &below, &above);
    let e = body.select(&is_low, x, &e);
    let up = body.add(x, &one);
    let low = body.mul(x, &up);
    let divisor = body.select(&is_below, x, &one);
    let divisor = body.select(&is_low, &low, &divisor);
    Moved { e, factor, divisor }
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

/// Whether `x` is 0, -1, -2, ..., where the functions have poles.
fn is_pole(body: &mut Body, x: &Value) -> Value {
    let whole = body.same("floor", &[x]);
    let is_whole = body.compare("EQ", x, &whole);
    let is_low = body.compare_to("LE", x, 0.0);
    body.and(&is_whole, &is_low)
}

fn gamma(body: &mut Body, x: &Value) -> Value {
    let y = body.same("abs", &[x]);
    let Moved { e, factor, divisor } = reduce(body, &y, PRODUCT);
    let log = series(body, &e);
    let small = body.same("exponential", &[&log]);
    let small = body.mul(&small, &factor);
    let small = body.div(&small, &divisor);
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
    // gamma(-y) gamma(y) = -pi / (y sin(pi y))
    let sine = sin_pi(body, x);
    let reflected = body.mul(&y, &result);
    let reflected = body.mul(&reflected, &sine);
    let pi = body.constant(x, PI);
    let reflected = body.div(&pi, &reflected);
    let is_negative = body.compare_to("LT", x, 0.0);
    let result = body.select(&is_negative, &reflected, &result);
    let pole = is_pole(body, x);
    body.select_number(&pole, f64::NAN, &result)
}

fn log_gamma(body: &mut Body, x: &Value) -> Value {
    let y = body.same("abs", &[x]);
    let Moved { e, factor, divisor } = reduce(body, &y, LARGE);
    let log = series(body, &e);
    let factor = body.same("log", &[&factor]);
    let small = body.add(&log, &factor);
    // Near 1, the logarithm of the divisor is that of 1 + e.
    let below = super::math::log1p(body, &e);
    let low = body.same("log", &[&divisor]);
    let is_low = body.compare_to("LT", &y, 0.5);
    let below = body.select(&is_low, &low, &below);
    let below = body.sub(&log, &below);
    let is_below = body.compare_to("LT", &y, 1.5);
    let small = body.select(&is_below, &below, &small);
    // (y - 1/2) (log(y) - 1) + ...: the product comes close to the result.
    let (half, one) = (body.constant(&y, 0.5), body.constant(&y, 1.0));
    let log = body.same("log", &[&y]);
    let (half_less, log_less) = (body.sub(&y, &half), body.sub(&log, &one));
    let large = body.mul(&half_less, &log_less);
    let more = correction(body, &y);
    let rest = body.constant(&y, 0.5 * (2.0 * PI).ln() - 0.5);
    let more = body.add(&more, &rest);
    let large = body.add(&large, &more);
    let is_large = body.compare_to("GE", &y, LARGE);
    let result = body.select(&is_large, &large, &small);
    let is_infinite = body.compare_to("EQ", &y, f64::INFINITY);
    let result = body.select_number(&is_infinite, f64::INFINITY, &result);
    // log|gamma(-y)| = log(pi / |sin(pi y)|) - log(y) - log(gamma(y))
    let sine = sin_pi(body, x);
    let sine = body.same("abs", &[&sine]);
    let pi = body.constant(x, PI);
    let ratio = body.div(&pi, &sine);
    let ratio = body.same("log", &[&ratio]);
    let ratio = body.sub(&ratio, &log);
    let reflected = body.sub(&ratio, &result);
    let is_negative = body.compare_to("LT", x, 0.0);
    let result = body.select(&is_negative, &reflected, &result);
    let pole = is_pole(body, x);
    let is_infinite = body.compare_to("EQ", x, f64::NEG_INFINITY);
    let pole = body.or(&pole, &is_infinite);
    body.select_number(&pole, f64::INFINITY, &result)
}

/// The argument raised to [`LARGE`], and the sum of the `power`th powers of the reciprocals passed on the way.
fn raised(body: &mut Body, x: &Value, power: u32) -> (Value, Value) {
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
    let y = body.same("abs", &[x]);
    let (z, sum) = raised(body, &y, 1);
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
    // digamma(-y) = digamma(y) + 1 / y + pi cos(pi y) / sin(pi y)
    let (sine, cosine) = (sin_pi(body, &y), cos_pi(body, &y));
    let pi = body.constant(x, PI);
    let cotangent = body.div(&cosine, &sine);
    let term = body.mul(&pi, &cotangent);
    let inverse = reciprocal(body, &y);
    let term = body.add(&term, &inverse);
    let reflected = body.add(&result, &term);
    let is_negative = body.compare_to("LT", x, 0.0);
    let result = body.select(&is_negative, &reflected, &result);
    let pole = is_pole(body, x);
    body.select_number(&pole, f64::NAN, &result)
}

fn trigamma(body: &mut Body, x: &Value) -> Value {
    let y = body.same("abs", &[x]);
    let (z, sum) = raised(body, &y, 2);
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
    // trigamma(-y) = (pi / sin(pi y))^2 + 1 / y^2 - trigamma(y)
    let sine = sin_pi(body, &y);
    let pi = body.constant(x, PI);
    let ratio = body.div(&pi, &sine);
    let ratio = body.mul(&ratio, &ratio);
    let inverse = reciprocal(body, &y);
    let square = body.mul(&inverse, &inverse);
    let rest = body.sub(&square, &result);
    let reflected = body.add(&ratio, &rest);
    let is_negative = body.compare_to("LT", x, 0.0);
    let result = body.select(&is_negative, &reflected, &result);
    let pole = is_pole(body, x);
    body.select_number(&pole, f64::INFINITY, &result)
}
