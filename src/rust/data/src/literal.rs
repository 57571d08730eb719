//! Elements as StableHLO constants, the text for `format_buffer` in the bridge. The parser reads the text back to the
//! same bits. Works on host bytes; must not know buffers, devices or the host language.

use crate::decimal;
use crate::dtype::DType;
use crate::scalar::{Float, Reader, Scalar};
use std::fmt::Write;

/// Writes elements of one dtype, one at a time, into a text that it reuses.
///
/// Floats have enough digits to restore the same value (`%.8e` for 32 bits and less, `%.16e` for 64); NaN and the
/// infinities are hexadecimal bit patterns of the dtype's width, including sign and payload. Complex numbers are pairs
/// of such floats, as in `(1.00000000e+00, 0x7F800000)`. Integers are decimal, pred is `true` or `false`.
#[derive(Debug, Clone)]
pub struct Formatter {
    reader: Reader,
    text: String,
}

impl Formatter {
    pub fn new(dtype: DType) -> Self {
        Formatter { reader: Reader::new(dtype), text: String::with_capacity(64) }
    }

    /// The constant for the first element of `bytes` (host width, native endian; one byte for narrower types). Missing
    /// bytes count as zero.
    pub fn text(&mut self, bytes: &[u8]) -> &str {
        self.text.clear();
        write(self.reader.read(bytes), self.reader.width(), float, &mut self.text);
        &self.text
    }
}

/// Writes a constant of `width` bytes, with `float` for floats and the parts of complex numbers.
pub fn write(scalar: Scalar, width: usize, float: impl Fn(Float, usize, &mut String), out: &mut String) {
    match scalar {
        Scalar::Pred(value) => out.push_str(if value { "true" } else { "false" }),
        Scalar::Signed(value) => push(format_args!("{value}"), out),
        Scalar::Unsigned(value) => push(format_args!("{value}"), out),
        Scalar::Float(x) => float(x, width, out),
        Scalar::Complex { re, im } => {
            out.push('(');
            float(re, width / 2, out);
            out.push_str(", ");
            float(im, width / 2, out);
            out.push(')');
        }
    }
}

/// A float of `width` bytes.
fn float(x: Float, width: usize, out: &mut String) {
    if !x.value.is_finite() {
        push(format_args!("0x{:0digits$X}", x.bits, digits = 2 * width), out);
    } else if width == 8 {
        decimal::scientific::<16>(x.value, out);
    } else {
        decimal::scientific::<8>(x.value, out);
    }
}

fn push(text: std::fmt::Arguments, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn for_each(dtype: DType, bytes: &[u8], mut take: impl FnMut(&str)) {
        let mut formatter = Formatter::new(dtype);
        for element in bytes.chunks_exact(dtype.host_bytes()) {
            take(formatter.text(element));
        }
    }

    /// The constants of values of any type that converts to bytes.
    macro_rules! constants {
        ($dtype:ident, $($value:expr),+) => {{
            let bytes: Vec<u8> = [$($value),+].iter().flat_map(|x| x.to_ne_bytes()).collect();
            let mut all = Vec::new();
            for_each(DType::$dtype, &bytes, |text| all.push(text.to_string()));
            all
        }};
    }

    #[test]
    fn floats_have_the_digits_that_bring_back_the_same_value() {
        assert_eq!(
            constants!(F32, 1.23f32, -0.0, 1e-45, f32::MAX),
            ["1.23000002e+00", "-0.00000000e+00", "1.40129846e-45", "3.40282347e+38"]
        );
        assert_eq!(constants!(F64, -3.33f64, 1e300), ["-3.3300000000000001e+00", "1.0000000000000001e+300"]);
        assert_eq!(constants!(F16, f16::from_f32(0.1), f16::MAX), ["9.99755859e-02", "6.55040000e+04"]);
        assert_eq!(constants!(BF16, bf16::from_f32(0.1)), ["1.00097656e-01"]);
    }

    #[test]
    fn nan_and_infinities_are_bit_patterns_of_the_dtypes_width() {
        let (inf, nan) = (f32::INFINITY, f32::from_bits(0x7fc0_0000));
        assert_eq!(constants!(F32, nan, inf, -inf), ["0x7FC00000", "0x7F800000", "0xFF800000"]);
        let (inf, nan) = (f64::INFINITY, f64::from_bits(0x7ff8_0000_0000_0000));
        assert_eq!(constants!(F64, nan, inf, -inf), ["0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"]);
        let (inf, nan) = (f16::INFINITY, f16::from_bits(0x7e00));
        assert_eq!(constants!(F16, nan, inf, -inf), ["0x7E00", "0x7C00", "0xFC00"]);
        assert_eq!(constants!(BF16, bf16::from_bits(0x7fc0), bf16::NEG_INFINITY), ["0x7FC0", "0xFF80"]);
    }

    #[test]
    fn a_signaling_nan_keeps_its_bits() {
        assert_eq!(constants!(U32, 0x7f80_0001u32), ["2139095041"]);
        let bytes = 0x7f80_0001u32.to_ne_bytes();
        assert_eq!(Formatter::new(DType::F32).text(&bytes), "0x7F800001");
    }

    #[test]
    fn integers_reach_the_ends_of_their_range() {
        assert_eq!(constants!(I8, i8::MIN, i8::MAX), ["-128", "127"]);
        assert_eq!(constants!(U16, u16::MAX), ["65535"]);
        assert_eq!(constants!(I32, i32::MIN), ["-2147483648"]);
        assert_eq!(constants!(I64, i64::MIN, i64::MAX), ["-9223372036854775808", "9223372036854775807"]);
        assert_eq!(constants!(U64, u64::MAX), ["18446744073709551615"]);
        assert_eq!(constants!(I4, 0x0fu8), ["-1"]);
    }

    #[test]
    fn pred_is_a_word() {
        assert_eq!(constants!(Pred, 1u8, 0, 255), ["true", "false", "true"]);
    }

    #[test]
    fn an_empty_array_has_no_text() {
        for_each(DType::F32, &[], |_| panic!("called"));
    }

    #[test]
    fn floats_of_eight_bits_and_less_are_written_like_wider_ones() {
        assert_eq!(constants!(F8E5M2, 0x3du8, 0x80), ["1.25000000e+00", "-0.00000000e+00"]);
        assert_eq!(constants!(F8E5M2, 0x7cu8, 0xfe), ["0x7C", "0xFE"]);
        assert_eq!(constants!(F8E4M3FNUZ, 0x01u8, 0x80), ["9.76562500e-04", "0x80"]);
        assert_eq!(constants!(F8E8M0FNU, 0x00u8, 0xff), ["5.87747175e-39", "0xFF"]);
        assert_eq!(constants!(F4E2M1FN, 0x07u8, 0x0f), ["6.00000000e+00", "-6.00000000e+00"]);
    }

    #[test]
    fn complex_numbers_are_pairs_of_floats() {
        assert_eq!(
            constants!(C64, 1f32, -2.5f32, f32::NEG_INFINITY, f32::from_bits(0x7fc0_0000)),
            ["(1.00000000e+00, -2.50000000e+00)", "(0xFF800000, 0x7FC00000)"]
        );
        assert_eq!(constants!(C128, -3.33f64, f64::INFINITY), ["(-3.3300000000000001e+00, 0x7FF0000000000000)"]);
    }
}
