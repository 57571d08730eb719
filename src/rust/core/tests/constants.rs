//! The text of [`pjrt_data::literal`], read back by the real CPU plugin's compiler.

mod common;

use common::{device, program};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::Executable;
use pjrt_data::dtype::{self, DType};
use pjrt_data::literal;

/// Zeros, ones, ends of the range, infinities, NaNs of several payloads, and numbers in between, as little-endian words
/// of so many bytes that are floats with so many bits of mantissa or integers.
fn words(bytes: usize, mantissa: u32) -> Vec<u8> {
    let all_ones = u64::MAX >> (64 - 8 * bytes);
    let sign = all_ones / 2 + 1;
    let infinity = all_ones / 2 + 1 - (1 << mantissa);
    let sizes = [0, 1, 1 << mantissa, infinity - 1, infinity, infinity + 1, infinity + (1 << (mantissa - 1)), sign - 1];
    // Odd multiples of the golden ratio reach all exponents.
    let others = (1..500u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 8 * bytes));
    let words = sizes.into_iter().flat_map(|size| [size, size | sign]).chain(others);
    words.flat_map(|word| word.to_le_bytes().into_iter().take(bytes)).collect()
}

/// Elements of a dtype: all of them up to eight bits (the low ones of a byte), many of the wider ones.
fn elements(dtype: DType) -> Vec<u8> {
    match dtype {
        DType::Pred => vec![0, 1],
        DType::F16 => words(2, 10),
        DType::BF16 => words(2, 7),
        DType::F32 | DType::C64 => words(4, 23),
        DType::F64 | DType::C128 => words(8, 52),
        _ if dtype.host_bytes() == 1 => (0..=u8::MAX >> (8 - dtype.info().bits)).collect(),
        _ => words(dtype.host_bytes(), 8),
    }
}

#[test]
fn constants_come_back_from_the_compiler_with_the_same_bits() {
    let device = device(0);
    for &dtype in dtype::ALL {
        let mut bytes = elements(dtype);
        let width = dtype.host_bytes();
        bytes.truncate(bytes.len() / width * width);
        let mut formatter = literal::Formatter::new(dtype);
        let texts: Vec<_> = bytes.chunks_exact(width).map(|element| formatter.text(element).to_owned()).collect();
        let tensor = format!("tensor<{}x{}>", texts.len(), dtype.info().mlir);
        let text = format!(
            "func.func @main() -> {tensor} {{
  %0 = stablehlo.constant dense<[{}]> : {tensor}
  return %0 : {tensor}
}}",
            texts.join(", ")
        );
        let program = program(&text);
        let executable =
            Executable::compile(std::slice::from_ref(&device), &program, &CompileOptions::default()).unwrap();
        let outputs = executable.execute(&[], &ExecuteOptions::default()).unwrap();
        let read = outputs[0].read().unwrap();
        assert_eq!(read.bytes().len(), bytes.len(), "{dtype}");
        for ((got, given), text) in read.bytes().chunks(width).zip(bytes.chunks(width)).zip(&texts) {
            assert_eq!(got, given, "{dtype}: {text}");
        }
    }
}
