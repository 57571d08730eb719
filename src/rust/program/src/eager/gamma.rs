//! The gamma function and its relatives, from sums and products with full accuracy in double precision.
//!
//! Small arguments become 2 + e with |e| <= 1/2 by the recurrence, and log(gamma(2 + e)) is a power series. Large ones have
//! the asymptotic series of Stirling, negative ones the reflection formula.

use super::body::Value;
use super::math::{cos_pi, sin_pi};
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

/// The Bernoulli numbers B(2k) for k = 1, 2, ... as fractions. The asymptotic series consist of them.
const BERNOULLI: [(i32, i32); 8] = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)];

/// A polynomial of `x` with the coefficients B(2k) / factor(2k), each rounded once.
fn bernoulli<'b>(x: &Value<'b>, factor: fn(f64) -> f64) -> Value<'b> {
    let coefficient = |(&(n, d), k): (&(i32, i32), i32)| f64::from(n) / (f64::from(d) * factor(f64::from(2 * k)));
    polynomial(x, &BERNOULLI.iter().zip(1..).map(coefficient).collect::<Vec<_>>())
}

/// From here on, the asymptotic series are exact to the last digit.
const LARGE: f64 = 12.0;

/// Arguments up to here are reduced by products, which are exact for whole numbers.
const PRODUCT: f64 = 22.5;

/// A polynomial of `x`: coefficients, lowest power first.
fn polynomial<'b>(x: &Value<'b>, coefficients: &[f64]) -> Value<'b> {
    let (last, others) = coefficients.split_last().unwrap_or((&0.0, &[]));
    others.iter().rev().fold(x.constant(*last), |sum, &coefficient| sum * x + coefficient)
}

fn reciprocal<'b>(x: &Value<'b>) -> Value<'b> {
    x.constant(1.0) / x
}

/// A positive argument, moved to 2 + e by the recurrence. Up to the bound, |e| <= 1/2.
struct Moved<'b> {
    e: Value<'b>,
    /// gamma(x) = gamma(2 + e) * factor / divisor; one of both is 1.
    factor: Value<'b>,
    divisor: Value<'b>,
}

fn reduce<'b>(x: &Value<'b>, bound: f64) -> Moved<'b> {
    let one = x.constant(1.0);
    let (mut rest, mut factor) = (x.clone(), one.clone());
    let steps = (bound - 2.5).ceil() as usize;
    for _ in 0..steps {
        let is_above = rest.compare("GE", 2.5);
        rest = is_above.select(&rest - &one, &rest);
        factor = is_above.select(&factor * &rest, &factor);
    }
    // Below 3/2, gamma(1 + x) = x gamma(x); below 1/2, once more. The differences are exact.
    let (is_below, is_low) = (x.compare("LT", 1.5), x.compare("LT", 0.5));
    let e = is_below.select(x - &one, &(rest - 2.0));
    let e = is_low.select(x, &e);
    let divisor = is_below.select(x, &one);
    let divisor = is_low.select(x * (x + &one), &divisor);
    Moved { e, factor, divisor }
}

/// log(gamma(2 + e)).
fn series<'b>(e: &Value<'b>) -> Value<'b> {
    polynomial(e, &SERIES) * e
}

/// What Stirling's formula lacks: log(gamma(x)) - (x - 1/2) log(x) + x - log(2 pi) / 2.
fn correction<'b>(x: &Value<'b>) -> Value<'b> {
    let inverse = reciprocal(x);
    // Stirling's series.
    bernoulli(&(&inverse * &inverse), |n| n * (n - 1.0)) * inverse
}

/// Whether `x` is 0, -1, -2, ..., where the functions have poles.
fn is_pole<'b>(x: &Value<'b>) -> Value<'b> {
    x.compare("EQ", x.apply("floor")) & x.compare("LE", 0.0)
}

pub(super) fn gamma<'b>(x: &Value<'b>) -> Value<'b> {
    let y = x.apply("abs");
    let Moved { e, factor, divisor } = reduce(&y, PRODUCT);
    let small = series(&e).apply("exponential") * factor / divisor;
    // The power would overflow before gamma does.
    let root = y.with("power", &y * 0.5 - 0.25);
    let decay = y.apply("negate").apply("exponential");
    let more = correction(&y).apply("exponential") * (2.0 * PI).sqrt();
    let large = &root * decay * more * &root;
    let overflow = if y.dtype == DType::F64 { 171.7 } else { 35.1 };
    let large = y.compare("GT", overflow).select(f64::INFINITY, &large);
    let result = y.compare("GE", PRODUCT).select(large, &small);
    // gamma(-y) gamma(y) = -pi / (y sin(pi y))
    let reflected = x.constant(PI) / (&y * &result * sin_pi(x));
    let result = x.compare("LT", 0.0).select(reflected, &result);
    is_pole(x).select(f64::NAN, &result)
}

pub(super) fn log_gamma<'b>(x: &Value<'b>) -> Value<'b> {
    let y = x.apply("abs");
    let Moved { e, factor, divisor } = reduce(&y, LARGE);
    let log = series(&e);
    let small = &log + factor.apply("log");
    // Near 1, the logarithm of the divisor is that of 1 + e.
    let below = y.compare("LT", 0.5).select(divisor.apply("log"), &super::math::log1p(&e));
    let small = y.compare("LT", 1.5).select(log - below, &small);
    // (y - 1/2) (log(y) - 1) + ...: the product comes close to the result.
    let log = y.apply("log");
    let more = correction(&y) + (0.5 * (2.0 * PI).ln() - 0.5);
    let large = (&y - 0.5) * (&log - 1.0) + more;
    let result = y.compare("GE", LARGE).select(large, &small);
    let result = y.compare("EQ", f64::INFINITY).select(f64::INFINITY, &result);
    // log|gamma(-y)| = log(pi / |sin(pi y)|) - log(y) - log(gamma(y))
    let ratio = (x.constant(PI) / sin_pi(x).apply("abs")).apply("log");
    let result = x.compare("LT", 0.0).select(ratio - log - &result, &result);
    let pole = is_pole(x) | x.compare("EQ", f64::NEG_INFINITY);
    pole.select(f64::INFINITY, &result)
}

/// The argument raised to [`LARGE`], and the sum of the `power`th powers of the reciprocals passed on the way.
fn raised<'b>(x: &Value<'b>, power: u32) -> (Value<'b>, Value<'b>) {
    let (mut y, mut sum, one) = (x.clone(), x.constant(0.0), x.constant(1.0));
    for _ in 0..LARGE as usize {
        let is_low = y.compare("LT", LARGE);
        let divisor = if power == 1 { y.clone() } else { &y * &y };
        sum = is_low.select(&sum + &one / divisor, &sum);
        y = is_low.select(&y + &one, &y);
    }
    (y, sum)
}

pub(super) fn digamma<'b>(x: &Value<'b>) -> Value<'b> {
    let y = x.apply("abs");
    let (z, sum) = raised(&y, 1);
    let inverse = reciprocal(&z);
    let square = &inverse * &inverse;
    let tail = bernoulli(&square, |n| -n) * &square - inverse * 0.5;
    let result = z.apply("log") + tail - sum;
    // digamma(-y) = digamma(y) + 1 / y + pi cos(pi y) / sin(pi y)
    let (sine, cosine) = (sin_pi(&y), cos_pi(&y));
    let term = x.constant(PI) * (cosine / sine) + reciprocal(&y);
    let result = x.compare("LT", 0.0).select(&result + term, &result);
    is_pole(x).select(f64::NAN, &result)
}

pub(super) fn trigamma<'b>(x: &Value<'b>) -> Value<'b> {
    let y = x.apply("abs");
    let (z, sum) = raised(&y, 2);
    let inverse = reciprocal(&z);
    let square = &inverse * &inverse;
    let tail = bernoulli(&square, |_| 1.0) * &square * &inverse + square * 0.5 + inverse;
    let result = tail + sum;
    // trigamma(-y) = (pi / sin(pi y))^2 + 1 / y^2 - trigamma(y)
    let ratio = x.constant(PI) / sin_pi(&y);
    let inverse = reciprocal(&y);
    let reflected = &ratio * &ratio + (&inverse * &inverse - &result);
    let result = x.compare("LT", 0.0).select(reflected, &result);
    is_pole(x).select(f64::INFINITY, &result)
}
