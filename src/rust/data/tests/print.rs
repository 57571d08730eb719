//! Printed output: each sample of the user's contract, each rule that it states, and how little is read for it.

use half::{bf16, f16};
use pjrt_base::{error::Kind, error::Result};
use pjrt_data::dtype::DType;
use pjrt_data::print::{render, ElementSource, HostBytes, Options};

const CUT: &str = " ... [output was truncated, set max_rows = -1 to see all]\n";
const ALL: Options = Options { max_rows: None, max_width: None, max_rows_slice: None, decimals: 4 };

fn rows(max: usize) -> Options {
    Options { max_rows: Some(max), max_rows_slice: Some(max), ..Options::default() }
}

fn text(dtype: DType, dims: &[usize], bytes: &[u8], options: &Options) -> String {
    render(dtype, dims, &mut HostBytes::new(dtype, bytes), options).unwrap()
}

fn f32s(dims: &[usize], values: &[f32]) -> String {
    text(DType::F32, dims, &values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>(), &Options::default())
}

fn f64s(dims: &[usize], values: &[f64]) -> String {
    text(DType::F64, dims, &values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>(), &Options::default())
}

fn i32s(dims: &[usize], values: impl IntoIterator<Item = i32>, options: &Options) -> String {
    text(DType::I32, dims, &values.into_iter().flat_map(i32::to_ne_bytes).collect::<Vec<_>>(), options)
}

/// Values of a column-major matrix that counts from 1, row-major.
fn column_major(rows: i32, columns: i32) -> impl Iterator<Item = i32> {
    (1..=rows).flat_map(move |row| (0..columns).map(move |column| column * rows + row))
}

/// Elements whose value is their index, which notes how many are asked for.
#[derive(Default)]
struct Counting {
    elements: usize,
    reads: usize,
    bytes: Vec<u8>,
}

impl ElementSource for Counting {
    fn read(&mut self, start: usize, len: usize) -> Result<&[u8]> {
        self.elements += len;
        self.reads += 1;
        self.bytes = (start..start + len).flat_map(|i| (i as f32).to_ne_bytes()).collect();
        Ok(&self.bytes)
    }
}

#[test]
fn integers_stand_right_aligned_after_one_space() {
    assert_eq!(i32s(&[2, 5], column_major(2, 5), &ALL), "  1  3  5  7  9\n  2  4  6  8 10\n");
    assert_eq!(i32s(&[3], [-1, 20, 300], &ALL), "  -1\n  20\n 300\n");
}

#[test]
fn whole_floats_of_more_than_six_digits_are_scientific_one_by_one() {
    assert_eq!(f32s(&[2, 2], &[1e7, 3e7, 2e7, 1.0]), " 1.0000e+07 3.0000e+07\n 2.0000e+07          1\n");
    assert_eq!(f32s(&[], &[1e6]), " 1.0000e+06\n");
    assert_eq!(f32s(&[], &[1e5]), " 100000\n");
    assert_eq!(f32s(&[2], &[999_999.0, -999_999.0]), "  999999\n -999999\n");
}

#[test]
fn integers_have_all_their_digits_and_the_missing_one_is_na() {
    assert_eq!(i32s(&[3], [1_234_567, -999_999, i32::MIN], &ALL), " 1234567\n -999999\n      NA\n");
    let bytes = |dtype, bytes: &[u8]| text(dtype, &[bytes.len() / dtype.host_bytes()], bytes, &ALL);
    assert_eq!(bytes(DType::I64, &9_007_199_254_740_993i64.to_ne_bytes()), " 9007199254740993\n");
    assert_eq!(bytes(DType::I64, &i64::from(i32::MIN).to_ne_bytes()), " -2147483648\n");
    assert_eq!(bytes(DType::U64, &(1u64 << 63).to_ne_bytes()), " 9223372036854775808\n");
}

#[test]
fn floats_have_as_many_decimals_as_asked_for() {
    let options = Options { decimals: 7, ..ALL };
    let shown = |x: &[f64]| {
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_ne_bytes()).collect();
        text(DType::F64, &[x.len()], &bytes, &options)
    };
    assert_eq!(shown(&[1.0, 2.123_456_78]), " 1.0000000\n 2.1234568\n");
    assert_eq!(shown(&[1e-7, 1.5]), " 1.0000000e-07\n 1.5000000e+00\n");
    assert_eq!(shown(&[3.0]), " 3\n");
}

#[test]
fn floats_of_middling_size_have_four_decimals() {
    assert_eq!(f32s(&[2], &[1.0, 2.5]), " 1.0000\n 2.5000\n");
    assert_eq!(f64s(&[], &[-10.1213]), " -10.1213\n");
    assert_eq!(f64s(&[2], &[0.0, 0.5]), " 0.0000\n 0.5000\n");
}

#[test]
fn values_that_are_not_finite_are_words_and_leave_the_style_alone() {
    assert_eq!(
        f32s(&[4], &[f32::INFINITY, f32::INFINITY, f32::NAN, 100_011.234_567_f64 as f32]),
        "         inf\n         inf\n         nan\n 100011.2344\n"
    );
    assert_eq!(f32s(&[3], &[f32::NEG_INFINITY, 1.0, -f32::NAN]), " -inf\n    1\n  nan\n");
    assert_eq!(f32s(&[2], &[f32::NAN, f32::INFINITY]), " nan\n inf\n");
}

#[test]
fn equal_exponents_are_factored_out_with_their_sign() {
    assert_eq!(f64s(&[2], &[1e-7, 2.5e-7]), "1e-07 *\n 1.0000\n 2.5000\n");
    assert_eq!(f32s(&[2], &[1e-7, 1e-7]), "1e-07 *\n 1.0000\n 1.0000\n");
    assert_eq!(f64s(&[2], &[12_345_678.5, -98_765_432.25]), "1e+07 *\n  1.2346\n -9.8765\n");
    assert_eq!(f32s(&[2], &[1e-9, 1e-9]), "1e-10 *\n 10.0000\n 10.0000\n");
    let na = f64::from_bits(0x7ff0_0000_0000_07a2);
    assert_eq!(f64s(&[3], &[1.0, na, f64::NAN]), "   1\n  NA\n nan\n");
    assert_eq!(f64s(&[3], &[0.0, f64::NAN, 3e-5]), "1e-05 *\n 0.0000\n    nan\n 3.0000\n");
    assert_eq!(f64s(&[2], &[1.5e-320, 2.5e-320]), "1e-320 *\n 1.5000\n 2.5000\n");
}

#[test]
fn a_single_value_and_a_wide_range_are_scientific() {
    assert_eq!(f64s(&[], &[1e-7]), " 1.0000e-07\n");
    assert_eq!(f64s(&[2], &[f64::INFINITY, 12_345_678.5]), "        inf\n 1.2346e+07\n");
    assert_eq!(f64s(&[2], &[1e-7, 1.5]), " 1.0000e-07\n 1.5000e+00\n");
}

#[test]
fn every_readable_dtype_prints() {
    let bytes = |dtype, bytes: &[u8]| text(dtype, &[bytes.len() / dtype.host_bytes()], bytes, &ALL);
    assert_eq!(bytes(DType::Pred, &[1, 0, 1]), " 1\n 0\n 1\n");
    assert_eq!(bytes(DType::I4, &[0x0f, 0x07]), " -1\n  7\n");
    assert_eq!(bytes(DType::U8, &[255]), " 255\n");
    assert_eq!(bytes(DType::U64, &u64::MAX.to_ne_bytes()), " 18446744073709551615\n");
    assert_eq!(bytes(DType::I64, &i64::MIN.to_ne_bytes()), " NA\n");
    assert_eq!(bytes(DType::F16, &f16::from_f32(1.5).to_ne_bytes()), " 1.5000\n");
    assert_eq!(bytes(DType::BF16, &bf16::from_f32(-0.1).to_ne_bytes()), " -0.1001\n");
}

#[test]
fn floats_of_eight_bits_and_less_print_like_wider_ones() {
    let bytes = |dtype, bytes: &[u8]| text(dtype, &[bytes.len()], bytes, &ALL);
    assert_eq!(bytes(DType::F8E5M2, &[0x3c, 0xc0, 0x7c, 0xfc, 0x7e]), "    1\n   -2\n  inf\n -inf\n  nan\n");
    assert_eq!(bytes(DType::F8E4M3FN, &[0x7e, 0x01]), " 448.0000\n   0.0020\n");
    assert_eq!(bytes(DType::F8E8M0FNU, &[0xfe, 0xff]), " 1.7014e+38\n        nan\n");
    assert_eq!(bytes(DType::F8E8M0FNU, &[0x00, 0x7f]), " 5.8775e-39\n 1.0000e+00\n");
    assert_eq!(bytes(DType::F4E2M1FN, &[0x07, 0x09]), "  6.0000\n -0.5000\n");
}

#[test]
fn complex_numbers_have_a_sign_between_their_parts_and_one_style() {
    let c64 = |values: &[(f32, f32)]| {
        let bytes: Vec<_> = values.iter().flat_map(|(re, im)| [re.to_ne_bytes(), im.to_ne_bytes()].concat()).collect();
        text(DType::C64, &[values.len()], &bytes, &ALL)
    };
    assert_eq!(c64(&[(1.0, 2.0), (-10.0, -0.0)]), "   1+2i\n -10-0i\n");
    assert_eq!(c64(&[(1.0, 2.5), (-10.0, -2.0)]), "   1.0000+2.5000i\n -10.0000-2.0000i\n");
    assert_eq!(c64(&[(1e-7, 2.5e-7), (0.0, -1e-7)]), "1e-07 *\n 1.0000+2.5000i\n 0.0000-1.0000i\n");
    assert_eq!(c64(&[(1e-7, 1.5)]), " 1.0000e-07+1.5000e+00i\n");
    assert_eq!(c64(&[(1e7, 1.0)]), " 1.0000e+07+1i\n");
    assert_eq!(
        c64(&[(f32::NAN, f32::NAN), (f32::INFINITY, f32::NEG_INFINITY), (0.5, f32::INFINITY)]),
        "    nan+nani\n    inf-infi\n 0.5000+infi\n"
    );
    let wide: Vec<_> = [0.1f64, -1.25].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(text(DType::C128, &[], &wide, &ALL), " 0.1000-1.2500i\n");
}

#[test]
fn columns_fill_the_width_greedily() {
    let shown = i32s(&[2, 50], column_major(2, 50), &Options::default());
    let heads: Vec<_> = shown.lines().filter(|line| line.starts_with('C')).collect();
    assert_eq!(heads, ["Columns 1 to 28", "Columns 29 to 49", "Columns 50 to 50"]);
    assert!(shown.ends_with("Columns 50 to 50\n  99\n 100\n"));
    assert_eq!(shown.lines().count(), 9);
    assert!(shown.lines().all(|line| line.len() <= 85));
}

#[test]
fn a_line_may_fill_the_width_exactly_and_holds_at_least_one_column() {
    let width = |max_width| i32s(&[1, 2], [1, 2], &Options { max_width: Some(max_width), ..ALL });
    assert_eq!(width(4), " 1 2\n");
    assert_eq!(width(3), "Columns 1 to 1\n 1\nColumns 2 to 2\n 2\n");
    let narrow = i32s(&[1, 2], [12_345, 1], &Options { max_width: Some(2), ..ALL });
    assert_eq!(narrow, "Columns 1 to 1\n 12345\nColumns 2 to 2\n 1\n");
}

#[test]
fn without_a_limit_of_width_there_is_one_chunk() {
    let shown = i32s(&[2, 500], column_major(2, 500), &Options { max_width: None, ..Options::default() });
    assert_eq!(shown.lines().count(), 2);
}

#[test]
fn slices_are_headed_and_apart_by_a_blank_line() {
    let cube = "(1,.,.) =\n 1 2\n 3 4\n\n(2,.,.) =\n 5 6\n 7 8\n";
    assert_eq!(i32s(&[2, 2, 2], 1..=8, &ALL), cube);
    let shown = i32s(&[2, 1, 3, 1, 1], 1..=6, &ALL);
    assert!(shown.starts_with("(1,1,1,.,.) =\n 1\n\n(1,1,2,.,.) =\n 2\n"));
    assert!(shown.ends_with("\n\n(2,1,3,.,.) =\n 6\n"));
    assert_eq!(i32s(&[1; 8], [7], &ALL), "(1,1,1,1,1,1,.,.) =\n 7\n");
}

#[test]
fn each_slice_has_its_own_style() {
    let shown = f64s(&[2, 1, 2], &[1.0, 2.0, 1e-7, 2e-7]);
    assert_eq!(shown, "(1,.,.) =\n 1 2\n\n(2,.,.) =\n1e-07 *\n 1.0000 2.0000\n");
}

#[test]
fn an_empty_array_prints_no_lines() {
    for dims in [&[0][..], &[0, 3], &[3, 0], &[2, 0, 2], &[usize::MAX, usize::MAX, 0]] {
        assert_eq!(i32s(dims, [], &Options::default()), "", "{dims:?}");
    }
}

#[test]
fn rows_beyond_the_budget_are_omitted_with_a_note() {
    assert_eq!(i32s(&[3], 1..=3, &rows(3)), " 1\n 2\n 3\n");
    assert_eq!(i32s(&[4], 1..=4, &rows(3)), format!(" 1\n 2\n 3\n{CUT}"));
}

#[test]
fn the_budget_covers_chunks_of_columns() {
    let options = |max| Options { max_width: Some(4), ..rows(max) };
    let chunks = |max| i32s(&[2, 3], 1..=6, &options(max));
    assert_eq!(chunks(4), "Columns 1 to 2\n 1 2\n 4 5\nColumns 3 to 3\n 3\n 6\n");
    assert_eq!(chunks(3), format!("Columns 1 to 2\n 1 2\n 4 5\nColumns 3 to 3\n 3\n{CUT}"));
    assert_eq!(chunks(2), format!("Columns 1 to 2\n 1 2\n 4 5\n{CUT}"));
}

#[test]
fn the_budget_covers_slices_and_no_head_follows_its_end() {
    let slices = |max| i32s(&[2, 2, 1], 1..=4, &rows(max));
    assert_eq!(slices(4), "(1,.,.) =\n 1\n 2\n\n(2,.,.) =\n 3\n 4\n");
    assert_eq!(slices(3), format!("(1,.,.) =\n 1\n 2\n\n(2,.,.) =\n 3\n{CUT}"));
    assert_eq!(slices(2), format!("(1,.,.) =\n 1\n 2\n{CUT}"));
}

#[test]
fn a_limit_of_rows_per_slice_leaves_room_for_the_next_slice() {
    let options = Options { max_rows_slice: Some(1), ..Options::default() };
    let shown = i32s(&[2, 2, 1], 1..=4, &options);
    assert_eq!(shown, format!("(1,.,.) =\n 1\n\n(2,.,.) =\n 3\n{CUT}"));
}

#[test]
fn limits_that_show_nothing_are_refused() {
    for options in [
        Options { max_rows: Some(0), ..ALL },
        Options { max_rows_slice: Some(0), ..ALL },
        Options { max_width: Some(0), ..ALL },
        Options { max_width: Some(1), ..ALL },
    ] {
        let error = render(DType::I32, &[1], &mut Counting::default(), &options).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
    }
}

#[test]
fn widths_match_the_printed_rows() {
    assert_eq!(i32s(&[2], [1, 100_000], &rows(1)), format!(" 1\n{CUT}"));
}

#[test]
fn only_what_can_be_printed_is_read() {
    for (dims, at_most, reads) in [
        (&[10_000_000, 1000][..], 30 * 42, 30),
        (&[1_000_000_000], 30, 1),
        (&[3, 1_000_000_000_000], 10 * 3 * 42, 3),
        (&[1_000_000, 1_000_000, 2], 30 * 2, 1),
        (&[1_000_000, 7, 2], 30 * 2, 5),
    ] {
        let mut source = Counting::default();
        let shown = render(DType::F32, dims, &mut source, &Options::default()).unwrap();
        assert!(shown.ends_with(CUT));
        assert!(source.elements <= at_most, "{dims:?}: {}", source.elements);
        assert_eq!(source.reads, reads, "{dims:?}");
    }
}

#[test]
fn the_rows_read_are_the_rows_shown() {
    let shown = render(DType::F32, &[1000, 1000], &mut Counting::default(), &rows(2)).unwrap();
    let row = |from: usize| (from..from + 17).map(|i| format!(" {i:>4}")).collect::<String>();
    assert_eq!(shown, format!("Columns 1 to 17\n{}\n{}\n{CUT}", row(0), row(1000)));
}

#[test]
fn a_failing_or_short_source_raises_an_error() {
    let error = render(DType::F32, &[5], &mut HostBytes::new(DType::F32, &[0; 16]), &ALL).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
}
