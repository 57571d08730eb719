//! Programs of single operations on the real CPU plugin, against numbers computed here.

mod common;

use common::device;
use pjrt_base::error::{Kind, Result};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Executable};
use pjrt_data::dtype::{self, DType};
use pjrt_data::{array::Spec, promote::promote};
use pjrt_program::eager::{self, Operand, Operation};
use DType::{Pred, BF16, C128, C64, F32, F64, I16, I32, I64, I8, U64, U8};

/// An array on the host, row-major. Complex numbers are two values.
#[derive(Debug, Clone, PartialEq)]
struct Array {
    dtype: DType,
    dims: Vec<i64>,
    values: Vec<f64>,
}

fn array(dtype: DType, dims: &[i64], values: &[f64]) -> Array {
    Array { dtype, dims: dims.to_vec(), values: values.to_vec() }
}

fn vector(dtype: DType, values: &[f64]) -> Array {
    let parts = if dtype.is_complex() { 2 } else { 1 };
    array(dtype, &[(values.len() / parts) as i64], values)
}

fn scalar(dtype: DType, value: f64) -> Array {
    array(dtype, &[], &[value])
}

fn encode(dtype: DType, value: f64, out: &mut Vec<u8>) {
    match dtype {
        Pred => out.push(u8::from(value != 0.0)),
        I64 => out.extend((value as i64).to_ne_bytes()),
        U64 => out.extend((value as u64).to_ne_bytes()),
        I32 => out.extend((value as i32).to_ne_bytes()),
        I16 => out.extend((value as i16).to_ne_bytes()),
        I8 | DType::I4 => out.push(value as i8 as u8),
        U8 => out.push(value as u8),
        F64 | C128 => out.extend(value.to_ne_bytes()),
        F32 | C64 => out.extend((value as f32).to_ne_bytes()),
        BF16 => out.extend((((value as f32).to_bits() >> 16) as u16).to_ne_bytes()),
        other => panic!("{other}"),
    }
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], number: fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.chunks_exact(N).map(|chunk| number(chunk.try_into().unwrap())).collect()
    }
    match dtype {
        Pred | U8 => each(bytes, |b: [u8; 1]| f64::from(b[0])),
        I8 => each(bytes, |b: [u8; 1]| f64::from(b[0] as i8)),
        DType::I4 => each(bytes, |b: [u8; 1]| f64::from((b[0] as i8) << 4 >> 4)),
        I16 => each(bytes, |b| f64::from(i16::from_ne_bytes(b))),
        I32 => each(bytes, |b| f64::from(i32::from_ne_bytes(b))),
        I64 => each(bytes, |b| i64::from_ne_bytes(b) as f64),
        U64 => each(bytes, |b| u64::from_ne_bytes(b) as f64),
        F64 | C128 => each(bytes, f64::from_ne_bytes),
        F32 | C64 => each(bytes, |b| f64::from(f32::from_ne_bytes(b))),
        BF16 => each(bytes, |b| f64::from(f32::from_bits(u32::from(u16::from_ne_bytes(b)) << 16))),
        other => panic!("{other}"),
    }
}

/// Compiles an operation, and executes it with elements as bytes.
fn run_bytes(
    name: &str,
    operands: &[(Operand, Vec<u8>)],
    parameters: &[i64],
    float: DType,
) -> Result<(DType, Vec<i64>, Vec<u8>)> {
    let device = device(0);
    let operation = Operation::from_name(name).unwrap();
    let types: Vec<Operand> = operands.iter().map(|(operand, _)| *operand).collect();
    let text = eager::program(operation, &types, parameters, float)?;
    let program = common::program(&text);
    let compiled = Executable::compile(std::slice::from_ref(&device), &program, &CompileOptions::default());
    let executable = compiled.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let upload = |(operand, bytes): &(Operand, Vec<u8>)| {
        Buffer::from_bytes(&device, Spec::new(operand.dtype, operand.shape).unwrap(), bytes).unwrap()
    };
    let buffers: Vec<Buffer> = operands.iter().map(upload).collect();
    let inputs: Vec<&Buffer> = buffers.iter().collect();
    let output = executable.execute(&inputs, &ExecuteOptions::default())?.into_vec().remove(0);
    let bytes = output.read()?.bytes().to_vec();
    Ok((output.dtype(), output.dims().to_vec(), bytes))
}

fn try_run(name: &str, operands: &[Array], parameters: &[i64], float: DType) -> Result<Array> {
    let operands: Vec<(Operand, Vec<u8>)> = operands
        .iter()
        .map(|array| {
            let mut bytes = Vec::new();
            array.values.iter().for_each(|&value| encode(array.dtype, value, &mut bytes));
            (Operand { dtype: array.dtype, shape: &array.dims }, bytes)
        })
        .collect();
    let (dtype, dims, bytes) = run_bytes(name, &operands, parameters, float)?;
    Ok(Array { dtype, dims, values: decode(dtype, &bytes) })
}

fn run_with(name: &str, operands: &[Array], parameters: &[i64]) -> Array {
    try_run(name, operands, parameters, F64).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn run(name: &str, operands: &[Array]) -> Array {
    run_with(name, operands, &[])
}

/// A single operand.
fn one(array: &Array) -> &[Array] {
    std::slice::from_ref(array)
}

fn refused(name: &str, operands: &[Array]) -> Kind {
    try_run(name, operands, &[], F64).unwrap_err().kind()
}

/// Whether numbers are the same but for a relative error, and an absolute one near zero.
fn is_close(got: f64, want: f64, relative: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= relative * want.abs().max(1e-3)
}

fn check(name: &str, got: &Array, want: &Array, relative: f64) {
    assert_eq!((got.dtype, &got.dims, got.values.len()), (want.dtype, &want.dims, want.values.len()), "{name}");
    for (i, (&got, &want)) in got.values.iter().zip(&want.values).enumerate() {
        assert!(is_close(got, want, relative), "{name}: element {i} is {got:e}, not {want:e}");
    }
}

/// Runs an operation, and compares its result exactly.
fn expect(name: &str, operands: &[Array], want: &Array) {
    check(name, &run(name, operands), want, 0.0);
}

fn expect_with(name: &str, operand: &Array, parameters: &[i64], want: &Array) {
    check(name, &run_with(name, one(operand), parameters), want, 0.0);
}

const NUMBERS: [f64; 14] =
    [0.0, 1.0, -1.0, 2.5, -2.5, 5.0, -5.0, 0.3, -0.1, 7.0, 1e10, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

/// Each of some numbers with each.
fn pairs(numbers: &[f64]) -> (Vec<f64>, Vec<f64>) {
    numbers.iter().flat_map(|&x| numbers.iter().map(move |&y| (x, y))).unzip()
}

fn modulo(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) {
        rest + y
    } else {
        rest
    }
}

/// The largest whole number that is not above the quotient.
fn quotient(x: f64, y: f64) -> f64 {
    let exact = x / y;
    if y == 0.0 || !exact.is_finite() {
        exact
    } else if exact.abs() < 1.0 {
        if x != 0.0 && (x < 0.0) != (y < 0.0) {
            -1.0
        } else {
            0.0
        }
    } else {
        ((x - modulo(x, y)) / y).round()
    }
}

type Unary = fn(f64) -> f64;
type Binary = fn(f64, f64) -> f64;
type Comparison = fn(f64, f64) -> bool;
type OfIntegers = fn(i32, i32) -> i32;

#[test]
fn operators_compute_doubles_as_the_processor_does() {
    let (x, y) = pairs(&NUMBERS);
    let operators: [(&str, Binary); 9] = [
        ("+", |x, y| x + y),
        ("-", |x, y| x - y),
        ("*", |x, y| x * y),
        ("/", |x, y| x / y),
        ("%%", modulo),
        ("%/%", quotient),
        // Negative numbers have whole powers only.
        ("^", |x, y| if x < 0.0 && (y.is_infinite() || y.fract() != 0.0) { f64::NAN } else { x.powf(y) }),
        ("pmax", |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }),
        ("atan2", f64::atan2),
    ];
    for (name, function) in operators {
        let want: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| function(x, y)).collect();
        let tolerance = if matches!(name, "^" | "atan2") { 1e-15 } else { 0.0 };
        check(name, &run(name, &[vector(F64, &x), vector(F64, &y)]), &vector(F64, &want), tolerance);
    }
    let comparisons: [(&str, Comparison); 6] = [
        ("==", |x, y| x == y),
        ("!=", |x, y| x != y),
        ("<", |x, y| x < y),
        ("<=", |x, y| x <= y),
        (">", |x, y| x > y),
        (">=", |x, y| x >= y),
    ];
    for (name, function) in comparisons {
        let want: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f64::from(u8::from(function(x, y)))).collect();
        expect(name, &[vector(F64, &x), vector(F64, &y)], &vector(Pred, &want));
    }
}

#[test]
fn operators_compute_integers_and_nothing_traps() {
    let smallest = f64::from(i32::MIN);
    let (x, y) = pairs(&[-7.0, -2.0, -1.0, 0.0, 1.0, 3.0, f64::from(i32::MAX), smallest]);
    let integers: [(&str, OfIntegers); 5] = [
        ("+", i32::wrapping_add),
        ("-", i32::wrapping_sub),
        ("*", i32::wrapping_mul),
        ("%%", |x, y| if y == 0 { i32::MIN } else { (i64::from(x) - i64::from(y) * floor(x, y)) as i32 }),
        ("%/%", |x, y| if y == 0 { i32::MIN } else { floor(x, y) as i32 }),
    ];
    fn floor(x: i32, y: i32) -> i64 {
        (f64::from(x) / f64::from(y)).floor() as i64
    }
    for (name, function) in integers {
        let want: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f64::from(function(x as i32, y as i32))).collect();
        expect(name, &[vector(I32, &x), vector(I32, &y)], &vector(I32, &want));
    }
    let (x, y) = (vector(U8, &[7.0, 200.0, 3.0]), vector(U8, &[2.0, 100.0, 0.0]));
    expect("%%", &[x.clone(), y.clone()], &vector(U8, &[1.0, 0.0, 0.0]));
    expect("-", &[y, x.clone()], &vector(U8, &[251.0, 156.0, 253.0]));
    expect("-", &[x], &vector(U8, &[249.0, 56.0, 253.0]));
    let (x, y) = (vector(I64, &[-7.0, 5.0, 1.0]), vector(I8, &[2.0, -2.0, 0.0]));
    expect("%/%", &[x.clone(), y], &vector(I64, &[-4.0, -3.0, i64::MIN as f64]));
    expect("/", &[x.clone(), vector(I32, &[2.0, 2.0, 0.0])], &vector(F64, &[-3.5, 2.5, f64::INFINITY]));
    let power = try_run("^", &[x, scalar(I32, 2.0)], &[], F32).unwrap();
    check("^", &power, &vector(F32, &[49.0, 25.0, 1.0]), 0.0);
}

#[test]
fn truths_count_as_integers() {
    let (x, y) = (vector(Pred, &[1.0, 1.0, 0.0, 0.0]), vector(Pred, &[1.0, 0.0, 1.0, 0.0]));
    let both = [x.clone(), y];
    expect("+", &both, &vector(I32, &[2.0, 1.0, 1.0, 0.0]));
    expect("&", &both, &vector(Pred, &[1.0, 0.0, 0.0, 0.0]));
    expect("xor", &both, &vector(Pred, &[0.0, 1.0, 1.0, 0.0]));
    expect("<", &both, &vector(Pred, &[0.0, 0.0, 1.0, 0.0]));
    expect("-", one(&x), &vector(I32, &[-1.0, -1.0, 0.0, 0.0]));
    expect("/", &both, &vector(F64, &[1.0, f64::INFINITY, 0.0, f64::NAN]));
    expect("sum", one(&x), &scalar(I32, 2.0));
    expect("max", one(&x), &scalar(I32, 1.0));
    expect("cumsum", &[x], &vector(I32, &[1.0, 2.0, 2.0, 2.0]));
    expect("|", &[vector(F64, &[0.0, 2.0]), scalar(I32, 0.0)], &vector(Pred, &[0.0, 1.0]));
    expect("!", &[vector(C64, &[0.0, 1.0, 0.0, 0.0])], &vector(Pred, &[0.0, 1.0]));
}

#[test]
fn dtypes_promote_and_scalars_are_repeated() {
    let x = array(I32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    expect("+", &[x.clone(), scalar(I32, 1.0)], &array(I32, &[2, 2], &[2.0, 3.0, 4.0, 5.0]));
    expect("-", &[scalar(F32, 0.5), x.clone()], &array(F32, &[2, 2], &[-0.5, -1.5, -2.5, -3.5]));
    expect("*", &[x.clone(), scalar(C128, 1.0).complex(2.0)], &array(C128, &[2, 2], &[1., 2., 2., 4., 3., 6., 4., 8.]));
    expect("+", &[scalar(BF16, 1.0), scalar(F32, 1e-3)], &scalar(F32, 1.001f32.into()));
    expect("+", &[vector(U8, &[200.0]), vector(I8, &[-100.0])], &vector(I16, &[100.0]));
    expect("*", &[vector(BF16, &[1.5, 3.0]), scalar(BF16, 0.3359375)], &vector(BF16, &[0.50390625, 1.0078125]));
    assert_eq!(refused("+", &[x.clone(), vector(I32, &[1.0, 2.0])]), Kind::ShapeMismatch);
    assert_eq!(refused("<", &[x, scalar(C64, 1.0).complex(0.0)]), Kind::UnsupportedDtype);
}

impl Array {
    /// A complex scalar with this imaginary part.
    fn complex(mut self, im: f64) -> Array {
        self.values.push(im);
        self
    }
}

/// Compilers know few operations of the narrowest types, and none may fail for them.
#[test]
fn sums_of_every_dtype_compile_and_run() {
    for &dtype in dtype::ALL {
        let operand = Operand { dtype, shape: &[2] };
        let bytes = vec![0; 2 * dtype.host_bytes()];
        let both = [(operand, bytes.clone()), (operand, bytes)];
        let (sum, dims, _) = run_bytes("+", &both, &[], F32).unwrap_or_else(|error| panic!("{dtype}: {error}"));
        let want = if dtype == Pred { I32 } else { promote(dtype, dtype) };
        assert_eq!((sum, &dims[..]), (want, &[2][..]), "{dtype}");
    }
    expect("+", &[vector(DType::I4, &[7.0, 1.0]), vector(DType::I4, &[1.0, 1.0])], &vector(DType::I4, &[-8.0, 2.0]));
}

#[test]
fn functions_are_as_exact_as_the_processors() {
    let x: Vec<f64> = (-60..=60).map(|i| f64::from(i) / 7.0).chain([1e-9, -1e-9, 1e-300, 40.5, -300.0, 1e5]).collect();
    let functions: [(&str, Unary); 18] = [
        ("sqrt", f64::sqrt),
        ("exp", f64::exp),
        ("expm1", f64::exp_m1),
        ("log", f64::ln),
        ("log1p", f64::ln_1p),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("cos", f64::cos),
        ("sin", f64::sin),
        ("tan", f64::tan),
        ("acos", f64::acos),
        ("asin", f64::asin),
        ("atan", f64::atan),
        ("cosh", f64::cosh),
        ("sinh", f64::sinh),
        ("tanh", f64::tanh),
        ("abs", f64::abs),
        ("trunc", f64::trunc),
    ];
    for (name, function) in functions {
        let want: Vec<f64> = x.iter().copied().map(function).collect();
        check(name, &run(name, &[vector(F64, &x)]), &vector(F64, &want), 2e-15);
    }
    // Numbers near zero keep all of their digits.
    let small = [1e-300, -3e-20, 1e-9, -1e-5];
    for (name, function) in [("log1p", f64::ln_1p as Unary), ("sinh", f64::sinh), ("atanh", f64::atanh)] {
        for (got, x) in run(name, &[vector(F64, &small)]).values.iter().zip(small) {
            assert!((got / function(x) - 1.0).abs() < 1e-15, "{name}({x:e}) is {got:e}");
        }
    }
}

#[test]
fn functions_of_other_dtypes_have_the_right_type() {
    let halves: Vec<f64> = (1..20).map(|i| f64::from(i) / 2.0).collect();
    for (name, function) in [("log", f64::ln as Unary), ("tanh", f64::tanh), ("asinh", f64::asinh)] {
        let want: Vec<f64> = halves.iter().copied().map(function).collect();
        check(name, &run(name, &[vector(F32, &halves)]), &vector(F32, &want), 1e-6);
        check(name, &run(name, &[vector(BF16, &halves)]), &vector(BF16, &want), 8e-3);
    }
    let integers = vector(I32, &[-2.0, 0.0, 9.0]);
    let root = try_run("sqrt", one(&integers), &[], F32).unwrap();
    check("sqrt", &root, &vector(F32, &[f64::NAN, 0.0, 3.0]), 0.0);
    expect("abs", one(&integers), &vector(I32, &[2.0, 0.0, 9.0]));
    expect("sign", one(&integers), &vector(I32, &[-1.0, 0.0, 1.0]));
    expect("floor", one(&integers), &integers);
    expect("sign", &[vector(U8, &[0.0, 200.0])], &vector(U8, &[0.0, 1.0]));
    expect("abs", &[vector(C128, &[3.0, 4.0])], &vector(F64, &[5.0]));
    expect("Conj", &[vector(C64, &[3.0, 4.0])], &vector(C64, &[3.0, -4.0]));
    expect("Im", &[vector(C64, &[3.0, 4.0])], &vector(F32, &[4.0]));
    check("sqrt", &run("sqrt", &[vector(C128, &[-3.0, 4.0])]), &vector(C128, &[1.0, 2.0]), 1e-15);
    expect("is.nan", &[vector(F32, &[1.0, f64::NAN, f64::INFINITY])], &vector(Pred, &[0.0, 1.0, 0.0]));
    expect("is.finite", &[integers], &vector(Pred, &[1.0, 1.0, 1.0]));
}

/// Numbers by arbitrary-precision arithmetic: the argument, gamma, log(|gamma|), and its first and second derivative.
const GAMMA: &[[f64; 5]] = &[
    [1.0e-10, 9_999_999_999.422_785, 23.025_850_929_882_736, -10_000_000_000.577_215, 1.0e+20],
    [0.001, 999.423_772_484_595_5, 6.907_178_885_383_853, -1_000.575_571_931_810_3, 1_000_001.642_533_195_8],
    [0.25, 3.625_609_908_221_908, 1.288_022_524_698_077_4, -4.227_453_533_376_265_5, 17.197_329_154_507_11],
    [0.5, 1.772_453_850_905_516, 0.572_364_942_924_700_1, -1.963_510_026_021_423_5, 4.934_802_200_544_679],
    [0.75, 1.225_416_702_465_177_6, 0.203_280_951_431_295_38, -1.085_860_879_786_472_2, 2.541_879_647_671_606_3],
    [1.0, 1.0, 0.0, -0.577_215_664_901_532_9, 1.644_934_066_848_226_4],
    [
        1.000_000_1,
        0.999_999_942_278_443_4,
        -5.772_155_829_918_507e-08,
        -0.577_215_500_408_138_1,
        1.644_933_826_436_878_2,
    ],
    [1.25, 0.906_402_477_055_477, -0.098_271_836_421_813_16, -0.227_453_533_376_265_42, 1.197_329_154_507_110_7],
    [1.75, 0.919_062_526_848_883_2, -0.084_401_121_020_485_55, 0.247_472_453_546_861_18, 0.764_101_869_893_828_7],
    [2.0, 1.0, 0.0, 0.422_784_335_098_467_13, 0.644_934_066_848_226_4],
    [2.000_001, 1.000_000_422_784_747, 4.227_846_576_245_292_3e-07, 0.422_784_980_032_332, 0.644_933_662_734_667],
    [2.5, 1.329_340_388_179_137, 0.284_682_870_472_919_2, 0.703_156_640_645_243_2, 0.490_357_756_100_234_85],
    [3.75, 4.422_988_410_460_251, 1.486_815_578_593_417, 1.182_537_388_611_796_2, 0.305_339_852_690_253_1],
    [7.5, 1_871.254_305_797_788_4, 7.534_364_236_758_733, 1.946_757_484_246_086_9, 0.142_615_896_696_703_8],
    [11.5, 11_899_423.083_962_249, 16.292_000_476_567_242, 2.398_239_129_535_781_4, 0.090_846_661_274_546_23],
    [12.25, 73_711_509.046_769_95, 18.115_669_505_710_894, 2.464_154_655_185_369, 0.085_055_142_988_163_2],
    [22.25, 1.101_772_698_729_100_2e+20, 46.148_622_286_840_32, 3.079_701_803_554_102_4, 0.045_968_918_298_033_49],
    [23.5, 5.361_303_587_544_414e+21, 50.033_494_105_019_15, 3.135_572_954_863_946, 0.043_471_416_266_946_77],
    [50.1, 8.986_901_126_486_79e+62, 144.956_043_852_409_1, 3.904_007_769_094_192_3, 0.020_160_607_493_585_975],
    [100.3, 3.711_481_867_182_677e+156, 360.514_705_729_058_1, 4.603_172_366_627_386, 0.010_019_956_247_766_077],
    [171.5, 9.483_367_566_824_8e+307, 709.143_163_030_928_2, 5.141_664_981_433_999, 0.005_847_936_550_610_383_4],
    [-1.0e-07, -10_000_000.577_215_765, 16.118_095_708_679_895, 9_999_999.422_784_17, 100_000_000_000_001.66],
    [-0.25, -4.901_666_809_860_711, 1.589_575_312_551_186, 2.914_139_120_213_527_6, 18.541_879_647_671_607],
    [-0.5, -3.544_907_701_811_032, 1.265_512_123_484_645_4, 0.036_489_973_978_576_52, 8.934_802_200_544_679],
    [-1.75, 2.762_369_453_883_358_5, 1.016_088_809_214_435_8, -2.322_691_628_614_361, 19.301_637_544_529_786],
    [-2.0001, -4_999.538_701_476_32, 8.517_100_927_455_314, 10_000.922_494_819_815, 100_000_002.894_527_48],
    [-10.25, -6.780_818_043_294_673e-07, -14.203_997_900_931_09, 5.516_858_419_886_273, 19.646_252_424_622_652],
    [-20.75, -1.869_850_001_195_195_8e-19, -43.123_258_552_502_23, -0.085_143_521_734_187_16, 19.692_158_656_372_5],
    [-50.3, -3.933_159_831_930_715e-65, -148.298_587_913_308_44, 6.210_413_167_857_633, 15.059_729_299_010_273],
    [-163.0013, 3.812_374_387_119_786_3e-289, -664.108_839_681_529_2, 774.323_314_905_546_8, 591_719.260_106_789_8],
];

#[test]
fn the_gamma_family_is_exact_to_nearly_all_digits() {
    let x: Vec<f64> = GAMMA.iter().map(|row| row[0]).collect();
    // digamma has zeros between the arguments.
    let functions = [(1, "gamma", 4e-15), (2, "lgamma", 4e-15), (3, "digamma", 1e-13), (4, "trigamma", 4e-15)];
    for (column, name, tolerance) in functions {
        let want: Vec<f64> = GAMMA.iter().map(|row| row[column]).collect();
        check(name, &run(name, &[vector(F64, &x)]), &vector(F64, &want), tolerance);
        let narrow: Vec<f64> = x.iter().copied().filter(|x| x.abs() < 30.0 && (x * 4.0).fract() == 0.0).collect();
        let want: Vec<f64> = GAMMA.iter().filter(|row| narrow.contains(&row[0])).map(|row| row[column]).collect();
        check(name, &run(name, &[vector(F32, &narrow)]), &vector(F32, &want), 1e9 * tolerance);
    }
    let whole: Vec<f64> = (1..=20).map(f64::from).collect();
    let factorials: Vec<f64> = (1..=20).map(|n| (1..n).map(f64::from).product()).collect();
    expect("gamma", &[vector(F64, &whole)], &vector(F64, &factorials));
    let ends = [0.0, -1.0, -3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 172.0];
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    expect("gamma", &[vector(F64, &ends)], &vector(F64, &[nan, nan, nan, inf, nan, nan, inf]));
    let log = f64::from(171).ln() + run("lgamma", &[scalar(F64, 171.0)]).values[0];
    check("lgamma", &run("lgamma", &[vector(F64, &ends)]), &vector(F64, &[inf, inf, inf, inf, inf, nan, log]), 1e-15);
}

#[test]
fn turns_and_powers_of_the_base_are_exact() {
    let x = vector(F64, &[0.0, 0.25, 0.5, 1.0, 1.5, -2.25, 1e15 + 0.5]);
    let half = 0.5f64.sqrt();
    check("sinpi", &run("sinpi", one(&x)), &vector(F64, &[0.0, half, 1.0, 0.0, -1.0, -half, 1.0]), 2e-16);
    check("cospi", &run("cospi", one(&x)), &vector(F64, &[1.0, half, 0.0, -1.0, 0.0, half, 0.0]), 2e-16);
    let nan = f64::NAN;
    expect("tanpi", &[x], &vector(F64, &[0.0, 1.0, nan, 0.0, nan, -1.0, nan]));
    let powers: Vec<f64> = (-20..=22).map(|i| 10f64.powi(i)).collect();
    let logs: Vec<f64> = (-20..=22).map(f64::from).collect();
    expect("log10", &[vector(F64, &powers)], &vector(F64, &logs));
    let powers: Vec<f64> = (0..20).map(|i| 3f64.powi(i)).collect();
    let logs: Vec<f64> = (0..20).map(f64::from).collect();
    expect("log", &[vector(F64, &powers), scalar(F64, 3.0)], &vector(F64, &logs));
}

#[test]
fn rounding_takes_the_nearest_decimal_and_halves_to_even() {
    let x = [0.5, 1.5, -2.5, 0.15, 2.675, 1.005, -256.408_525, 1234.5, f64::INFINITY, f64::NAN];
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let round = |digits: i64, want: [f64; 10]| expect_with("round", &vector(F64, &x), &[digits], &vector(F64, &want));
    round(0, [0.0, 2.0, -2.0, 0.0, 3.0, 1.0, -256.0, 1234.0, inf, nan]);
    round(1, [0.5, 1.5, -2.5, 0.1, 2.7, 1.0, -256.4, 1234.5, inf, nan]);
    round(2, [0.5, 1.5, -2.5, 0.15, 2.67, 1.0, -256.41, 1234.5, inf, nan]);
    round(-2, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -300.0, 1200.0, inf, nan]);
    round(300, x);
    let signif = [0.5, 1.5, -2.5, 0.15, 2.7, 1.0, -260.0, 1200.0, inf, nan];
    expect_with("signif", &vector(F64, &x), &[2], &vector(F64, &signif));
    expect_with("signif", &vector(F64, &[1e-20, 123_456.0, 0.0]), &[3], &vector(F64, &[1e-20, 123_000.0, 0.0]));
    expect_with("round", &vector(I64, &[9_007_199_254_740_992.0]), &[3], &vector(I64, &[9_007_199_254_740_992.0]));
    expect_with("round", &vector(F32, &[1.25, 1.35]), &[1], &vector(F32, &[1.2f32.into(), 1.4f32.into()]));
}

#[test]
fn summaries_have_room_for_their_sums() {
    expect("sum", &[vector(I32, &[f64::from(i32::MAX); 4])], &scalar(I64, 4.0 * f64::from(i32::MAX)));
    expect("sum", &[vector(U8, &[200.0; 4])], &scalar(U64, 800.0));
    expect("prod", &[vector(I8, &[100.0; 4])], &scalar(I64, 1e8));
    expect("sum", &[vector(BF16, &[1.0; 3000])], &scalar(BF16, 3008.0));
    expect("mean", &[vector(I32, &[1.0, 2.0])], &scalar(F64, 1.5));
    expect("mean", &[vector(F32, &[0.1f32.into(); 3])], &scalar(F32, 0.1f32.into()));
    expect("sum", &[vector(C128, &[1.0, 2.0, 3.0, -5.0])], &scalar(C128, 4.0).complex(-3.0));
    expect("max", &[vector(F64, &[1.0, f64::NAN, 2.0])], &scalar(F64, f64::NAN));
    expect("min", &[vector(I64, &[3.0, -2.0])], &scalar(I64, -2.0));
    expect("range", &[array(U8, &[2, 2], &[3.0, 1.0, 255.0, 7.0])], &vector(U8, &[1.0, 255.0]));
    expect("any", &[vector(F32, &[0.0, 0.0])], &scalar(Pred, 0.0));
    assert_eq!(refused("max", &[vector(C64, &[1.0, 0.0])]), Kind::UnsupportedDtype);
}

#[test]
fn arrays_without_elements_have_results() {
    let none = array(F64, &[0, 3], &[]);
    expect("+", &[none.clone(), scalar(F64, 1.0)], &none);
    expect("gamma", one(&none), &none);
    expect("sum", one(&none), &scalar(F64, 0.0));
    expect("prod", one(&none), &scalar(F64, 1.0));
    expect("mean", one(&none), &scalar(F64, f64::NAN));
    expect("max", one(&none), &scalar(F64, f64::NEG_INFINITY));
    expect("all", one(&none), &scalar(Pred, 1.0));
    expect("colSums", one(&none), &vector(F64, &[0.0; 3]));
    expect("rowMeans", one(&none), &vector(F64, &[]));
    expect("cumsum", one(&none), &vector(F64, &[]));
    expect("sort", one(&none), &vector(F64, &[]));
    expect("order", one(&none), &vector(I32, &[]));
    expect("rev", one(&none), &vector(F64, &[]));
    expect("t", one(&none), &array(F64, &[3, 0], &[]));
    expect("crossprod", one(&none), &array(F64, &[3, 3], &[0.0; 9]));
    expect("rbind", &[none.clone(), vector(F64, &[1.0, 2.0, 3.0])], &array(F64, &[1, 3], &[1.0, 2.0, 3.0]));
    expect_with("dim", &none, &[3, 0, 2], &array(F64, &[3, 0, 2], &[]));
    expect("diag", &[array(F64, &[0, 0], &[])], &vector(F64, &[]));
    assert_eq!(refused("max", &[vector(I32, &[])]), Kind::InvalidInput);
    assert_eq!(refused("which.max", &[none]), Kind::InvalidInput);
}

#[test]
fn scalars_are_arrays_of_one_element() {
    let x = scalar(F64, 3.0);
    expect("+", &[x.clone(), x.clone()], &scalar(F64, 6.0));
    expect("mean", one(&x), &x);
    expect("cumprod", one(&x), &vector(F64, &[3.0]));
    expect("sort", one(&x), &vector(F64, &[3.0]));
    expect("which.min", one(&x), &scalar(I32, 1.0));
    expect("t", one(&x), &array(F64, &[1, 1], &[3.0]));
    expect("%*%", &[x.clone(), x.clone()], &array(F64, &[1, 1], &[9.0]));
    expect_with("dim", &x, &[1, 1, 1], &array(F64, &[1, 1, 1], &[3.0]));
    expect_with("diag", &x, &[2], &array(F64, &[2, 2], &[3.0, 0.0, 0.0, 3.0]));
}

/// An array [2, 3, 2] whose elements are their places in column-major order.
fn cube() -> Array {
    array(F64, &[2, 3, 2], &[0.0, 6.0, 2.0, 8.0, 4.0, 10.0, 1.0, 7.0, 3.0, 9.0, 5.0, 11.0])
}

#[test]
fn elements_are_in_column_major_order() {
    let places: Vec<f64> = (0..12).map(f64::from).collect();
    expect_with("dim", &cube(), &[12], &vector(F64, &places));
    let rows: Vec<f64> = (0..3).flat_map(|i| (0..4).map(move |j| f64::from(i + 3 * j))).collect();
    expect_with("dim", &cube(), &[3, 4], &array(F64, &[3, 4], &rows));
    let opposite: Vec<f64> = places.iter().rev().copied().collect();
    expect("rev", &[cube()], &vector(F64, &opposite));
    let sums: Vec<f64> = (0..12).map(|i| f64::from(i * (i + 1) / 2)).collect();
    expect("cumsum", &[cube()], &vector(F64, &sums));
    expect("cummax", &[vector(I32, &[3.0, 1.0, 4.0, 1.0])], &vector(I32, &[3.0, 3.0, 4.0, 4.0]));
    expect("which.max", &[cube()], &scalar(I32, 12.0));
    let reversed = run("aperm", &[cube()]);
    assert_eq!(reversed.dims, [2, 3, 2]);
    assert_eq!(reversed.values, places, "all dimensions in reverse are row-major");
    let turned = run_with("aperm", &[cube()], &[1, 2, 0]);
    assert_eq!((&turned.dims[..], &turned.values[..4]), (&[3, 2, 2][..], &[0.0, 1.0, 6.0, 7.0][..]));
}

#[test]
fn rows_and_columns_are_summed_along_their_axes() {
    let sums = |name: &str, dims: i64| run_with(name, &[cube()], &[dims]);
    check("rowSums", &sums("rowSums", 1), &vector(F64, &[30.0, 36.0]), 0.0);
    check("colSums", &sums("colSums", 1), &array(F64, &[3, 2], &[1.0, 13.0, 5.0, 17.0, 9.0, 21.0]), 0.0);
    check("colMeans", &sums("colMeans", 2), &vector(F64, &[2.5, 8.5]), 0.0);
    expect_with("max", &cube(), &[2, 0], &vector(F64, &[7.0, 9.0, 11.0]));
    let matrix = array(I32, &[2, 2], &[1.0, 2.0, 3.0, 5.0]);
    expect("rowSums", one(&matrix), &vector(I64, &[3.0, 8.0]));
    expect("colMeans", &[matrix], &vector(F64, &[2.0, 3.5]));
    assert_eq!(refused("rowSums", &[vector(F64, &[1.0])]), Kind::ShapeMismatch);
}

#[test]
fn matrices_are_joined_and_taken_apart() {
    let matrix = array(F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let parts = [vector(I32, &[8.0, 9.0]), matrix.clone(), scalar(F32, 7.0)];
    expect("cbind", &parts, &array(F32, &[2, 4], &[8.0, 1.0, 2.0, 7.0, 9.0, 3.0, 4.0, 7.0]));
    expect("rbind", &parts, &array(F32, &[4, 2], &[8.0, 9.0, 1.0, 2.0, 3.0, 4.0, 7.0, 7.0]));
    expect("diag", one(&matrix), &vector(F32, &[1.0, 4.0]));
    expect("diag", &[array(F64, &[2, 3], &[f64::NAN, 1.0, 2.0, 3.0, 4.0, 5.0])], &vector(F64, &[f64::NAN, 4.0]));
    let wide = array(I32, &[2, 3], &[5.0, 0.0, 0.0, 0.0, 6.0, 0.0]);
    expect_with("diag", &vector(I32, &[5.0, 6.0]), &[2, 3], &wide);
    expect("t", &[vector(F64, &[1.0, 2.0])], &array(F64, &[1, 2], &[1.0, 2.0]));
    let chosen = [array(Pred, &[2, 2], &[1.0, 0.0, 0.0, 1.0]), matrix.clone(), scalar(F64, -1.0)];
    expect("ifelse", &chosen, &array(F64, &[2, 2], &[1.0, -1.0, -1.0, 4.0]));
    assert_eq!(refused("cbind", &[matrix, vector(F32, &[1.0, 2.0, 3.0])]), Kind::ShapeMismatch);
}

#[test]
fn order_puts_nan_last() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = vector(F64, &[3.0, 1.0, nan, 2.0, 1.0, -inf, inf]);
    expect("sort", one(&x), &vector(F64, &[-inf, 1.0, 1.0, 2.0, 3.0, inf, nan]));
    expect_with("sort", &x, &[1], &vector(F64, &[inf, 3.0, 2.0, 1.0, 1.0, -inf, nan]));
    expect("order", one(&x), &vector(I32, &[6.0, 2.0, 5.0, 4.0, 1.0, 7.0, 3.0]));
    expect_with("order", &x, &[1], &vector(I32, &[7.0, 1.0, 4.0, 2.0, 5.0, 6.0, 3.0]));
    expect("which.max", one(&x), &scalar(I32, 7.0));
    expect("which.min", &[x], &scalar(I32, 6.0));
    expect("which.min", &[vector(F32, &[nan, nan])], &scalar(I32, f64::from(i32::MIN)));
    expect("sort", &[vector(Pred, &[1.0, 0.0, 1.0])], &vector(Pred, &[0.0, 1.0, 1.0]));
    expect("sort", &[vector(BF16, &[2.0, -1.0])], &vector(BF16, &[-1.0, 2.0]));
    expect("order", &[vector(U8, &[200.0, 3.0])], &vector(I32, &[2.0, 1.0]));
}

#[test]
fn products_of_matrices_take_vectors_as_rows_or_columns() {
    let x = array(F64, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let row = vector(F64, &[1.0, 0.5]);
    let column = vector(F64, &[1.0, 0.0, -1.0]);
    expect("%*%", &[x.clone(), column.clone()], &array(F64, &[2, 1], &[-2.0, -2.0]));
    expect("%*%", &[row.clone(), x.clone()], &array(F64, &[1, 3], &[3.0, 4.5, 6.0]));
    expect("%*%", &[column.clone(), column.clone()], &array(F64, &[1, 1], &[2.0]));
    expect("tcrossprod", one(&x), &array(F64, &[2, 2], &[14.0, 32.0, 32.0, 77.0]));
    expect("crossprod", &[x.clone(), row.clone()], &array(F64, &[3, 1], &[3.0, 4.5, 6.0]));
    expect("outer", &[row, column.clone()], &array(F64, &[2, 3], &[1.0, 0.0, -1.0, 0.5, 0.0, -0.5]));
    assert_eq!(refused("%*%", &[x.clone(), x.clone()]), Kind::ShapeMismatch);
    assert_eq!(refused("%*%", &[cube(), x]), Kind::ShapeMismatch);
    let ones = |dtype| [array(dtype, &[1, 300], &[1.0; 300]), array(dtype, &[300, 1], &[1.0; 300])];
    expect("%*%", &ones(BF16), &array(BF16, &[1, 1], &[300.0]));
    expect("%*%", &ones(I32), &array(F64, &[1, 1], &[300.0]));
    // All bits of f32 count: one third is not what narrower types have.
    let third = f64::from(1.0f32 / 3.0);
    expect("%*%", &[array(F32, &[1, 1], &[third]), array(F32, &[1, 1], &[3.0])], &array(F32, &[1, 1], &[1.0]));
    let i = array(C64, &[1, 1], &[0.0, 1.0]);
    expect("%*%", &[i.clone(), i], &array(C64, &[1, 1], &[-1.0, 0.0]));
}
