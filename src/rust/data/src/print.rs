//! The text of a printed buffer's elements: a matrix, or slices of one, in aligned columns.
//!
//! Works on host bytes that a [`ElementSource`] fetches, and requests only what can be printed. Must not know where the bytes
//! come from, nor the header and footer around them.

use crate::convert::{is_na, NA_INTEGER, NA_INTEGER64};
use crate::decimal;
use crate::dtype::DType;
use crate::scalar::{Float, Reader, Scalar};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_base::room;
use std::fmt::Write;

/// Limits of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The number of lines in total, counting the rows of every slice and column chunk; `None` for no limit.
    pub max_rows: Option<usize>,
    /// Width of a line in characters; `None` for no limit.
    pub max_width: Option<usize>,
    /// Rows of one slice; `None` for no limit.
    pub max_rows_slice: Option<usize>,
    /// Digits of floats after the decimal point.
    pub decimals: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_rows: Some(30), max_width: Some(85), max_rows_slice: Some(30), decimals: 4 }
    }
}

/// Elements to write before the next look at the clock.
const ELEMENTS_PER_LOOK: usize = 1024;

pub trait ElementSource {
    /// The bytes of `len` elements from element `start` on, in row-major order: host width, native endian, one byte per
    /// element for narrower types.
    ///
    /// # Errors
    /// Any error that keeps the source from fetching them; printing stops with it.
    fn read(&mut self, start: usize, len: usize) -> Result<&[u8]>;
}

/// A [`ElementSource`] whose elements are in memory already, dense and row-major.
#[derive(Debug, Clone, Copy)]
pub struct HostBytes<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> HostBytes<'a> {
    /// All elements of an array of type `dtype`, in `bytes`.
    pub fn new(dtype: DType, bytes: &'a [u8]) -> Self {
        HostBytes { bytes, width: dtype.host_bytes() }
    }
}

impl ElementSource for HostBytes<'_> {
    fn read(&mut self, start: usize, len: usize) -> Result<&[u8]> {
        let range = start.saturating_mul(self.width)..start.saturating_add(len).saturating_mul(self.width);
        self.bytes.get(range).ok_or_else(|| {
            let held = self.bytes.len() / self.width;
            Error::new(
                Kind::Internal,
                format!("{len} elements from position {start} are outside the {held} given elements."),
            )
        })
    }
}

/// The lines that show the elements of an array of type `dtype` and dimensions `dims`; each ends with a newline.
///
/// A scalar is shown as a 1 x 1 matrix, a vector as one column, and an array of three dimensions and more as matrices,
/// one for each index of the leading dimensions. An array without elements has no lines.
///
/// The number style of a matrix of floats depends on the elements that are candidates for printing: the rows that its
/// limits admit, in as many columns as would fit at a width of one character. Both parts of complex numbers count.
///
/// # Errors
/// `InvalidInput` for a limit of zero rows or a width below 2, `Interrupted` if the user interrupts, and any error of
/// `source`.
pub fn render(dtype: DType, dims: &[usize], source: &mut dyn ElementSource, options: &Options) -> Result<String> {
    check(options)?;
    if dims.contains(&0) {
        return Ok(String::new());
    }
    let is_countable = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim)).is_some();
    ensure!(is_countable, InvalidInput, "An array with dimensions {dims:?} has more elements than can be counted.");
    let (leading, rows, columns) = match *dims {
        [] => (&dims[..0], 1, 1),
        [rows] => (&dims[..0], rows, 1),
        [ref leading @ .., rows, columns] => (leading, rows, columns),
    };
    let na = match dtype {
        DType::I32 => Some(NA_INTEGER.into()),
        DType::I64 => Some(NA_INTEGER64),
        _ => None,
    };
    let mut page = Page {
        reader: Reader::new(dtype),
        texts: Texts { na, decimals: options.decimals },
        source,
        limit: options.max_width.map_or(usize::MAX, |width| width - 1),
        rows_left: options.max_rows.unwrap_or(usize::MAX),
        cut: false,
        elements: Vec::new(),
        columns: 0,
        tokens: Tokens::default(),
        out: String::new(),
    };
    let slice_rows = rows.min(options.max_rows_slice.unwrap_or(usize::MAX));
    for slice in 0..leading.iter().product() {
        if page.rows_left == 0 {
            page.cut = true;
            break;
        }
        if slice > 0 {
            page.out.push('\n');
        }
        if !leading.is_empty() {
            page.slice_head(leading, slice);
        }
        page.cut |= slice_rows < rows;
        page.matrix(slice * rows * columns, slice_rows, columns)?;
    }
    if page.cut {
        page.out.push_str(" ... [output was truncated, set max_rows = -1 to see all]\n");
    }
    Ok(page.out)
}

fn check(options: &Options) -> Result<()> {
    for (name, limit) in [("max_rows", options.max_rows), ("max_rows_slice", options.max_rows_slice)] {
        ensure!(limit != Some(0), InvalidInput, "`{name}` must be at least 1.");
    }
    if let Some(width @ 0..=1) = options.max_width {
        bail!(InvalidInput, "`max_width` must be at least 2, not {width}.");
    }
    Ok(())
}

/// Bytes of memory for an element, its text included.
const TEXT: usize = 64;

/// A print in progress: what is left of the budget, the text so far, and scratch space that all matrices share.
struct Page<'a> {
    reader: Reader,
    texts: Texts,
    source: &'a mut dyn ElementSource,
    /// Characters of a line after its leading space.
    limit: usize,
    rows_left: usize,
    /// Whether anything was left out.
    cut: bool,
    /// The elements of a matrix that are candidates for printing, row-major, in this many columns.
    elements: Vec<u8>,
    columns: usize,
    tokens: Tokens,
    out: String,
}

impl Page<'_> {
    /// `(2,1,.,.) =`: the indices of a slice, counted from 1.
    fn slice_head(&mut self, leading: &[usize], slice: usize) {
        let mut below: usize = leading.iter().product();
        let mut rest = slice;
        self.out.push('(');
        for dim in leading {
            below /= dim;
            let _ = write!(self.out, "{},", rest / below + 1);
            rest %= below;
        }
        self.out.push_str(".,.) =\n");
    }

    /// Prints `rows` rows of the matrix whose first element is number `start`, in chunks of columns, until
    /// `rows_left` is 0.
    fn matrix(&mut self, start: usize, rows: usize, columns: usize) -> Result<()> {
        let shown = rows.min(self.rows_left);
        let chunks = self.rows_left.div_ceil(rows);
        let widest_chunk = (self.limit.saturating_add(1) / 2).max(1);
        let candidates = columns.min(chunks.saturating_mul(widest_chunk));
        room::check_room(shown.saturating_mul(candidates).saturating_mul(TEXT), "to print")?;
        self.fetch(start, columns, shown, candidates)?;

        let style = Style::of(self.reader.iter(&self.elements));
        if let Style::Scaled(power) = style {
            let sign = if power < 0 { '-' } else { '+' };
            let _ = writeln!(self.out, "1e{sign}{:02} *", power.unsigned_abs());
        }
        let mut first = 0;
        while first < columns {
            if self.rows_left == 0 {
                self.cut = true;
                return Ok(());
            }
            let shown = rows.min(self.rows_left);
            self.cut |= shown < rows;
            let (end, width) = self.fill_chunk(style, first, shown)?;
            if end - first < columns {
                let _ = writeln!(self.out, "Columns {} to {end}", first + 1);
            }
            self.tokens.write_rows(shown, width, &mut self.out)?;
            self.rows_left -= shown;
            first = end;
        }
        Ok(())
    }

    /// Reads the first `columns` elements of each of `rows` rows, which lie `stride` elements apart.
    fn fetch(&mut self, start: usize, stride: usize, rows: usize, columns: usize) -> Result<()> {
        self.columns = columns;
        self.elements.clear();
        let width = self.reader.width();
        let (reads, len) = if columns == stride { (1, rows * columns) } else { (rows, columns) };
        for read in 0..reads {
            let bytes = self.source.read(start + read * stride, len)?;
            if bytes.len() != len * width {
                bail!(Internal, "A source returned {} bytes for {len} elements of {width} bytes.", bytes.len());
            }
            self.elements.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Formats as many columns from `first` on as fit into a line, at least one. Returns the end of their range and the
    /// width of each.
    fn fill_chunk(&mut self, style: Style, first: usize, rows: usize) -> Result<(usize, usize)> {
        self.tokens.truncate(0);
        let mut width = 0;
        for column in first..self.columns {
            let before = self.tokens.ends.len();
            let mut widest = width;
            for row in 0..rows {
                if row % ELEMENTS_PER_LOOK == 0 {
                    check_interrupt_sometimes()?;
                }
                let start = (row * self.columns + column) * self.reader.width();
                let element = self.reader.read(self.elements.get(start..).unwrap_or_default());
                widest = widest.max(self.tokens.push(|out| self.texts.write(style, element, out)));
            }
            let count = column - first + 1;
            if count > 1 && count * widest + (count - 1) > self.limit {
                self.tokens.truncate(before);
                return Ok((column, width));
            }
            width = widest;
        }
        Ok((self.columns, width))
    }
}

/// The formatted elements of a chunk in one text, column by column.
#[derive(Default)]
struct Tokens {
    text: String,
    /// Where each token ends in `text`.
    ends: Vec<usize>,
}

impl Tokens {
    /// Keeps the first `count` tokens.
    fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Adds the text that `write` appends as one token and returns its width.
    fn push(&mut self, write: impl FnOnce(&mut String)) -> usize {
        let from = self.text.len();
        write(&mut self.text);
        self.ends.push(self.text.len());
        self.text.len() - from
    }

    fn get(&self, index: usize) -> &str {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[from..self.ends[index]]
    }

    /// Appends the tokens as `rows` lines, right-aligned in columns of `width`.
    fn write_rows(&self, rows: usize, width: usize, out: &mut String) -> Result<()> {
        out.reserve(self.ends.len() * (width + 1) + rows);
        let columns = self.ends.len() / rows.max(1);
        for row in 0..rows {
            if row % (ELEMENTS_PER_LOOK / columns.max(1)).max(1) == 0 {
                check_interrupt_sometimes()?;
            }
            for index in (row..self.ends.len()).step_by(rows) {
                let token = self.get(index);
                out.extend(std::iter::repeat_n(' ', 1 + width - token.len()));
                out.push_str(token);
            }
            out.push('\n');
        }
        Ok(())
    }
}

/// How the numbers of one matrix are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Up to six digits plain, `%.4e` beyond.
    Integer,
    /// `%.4f`.
    Fixed,
    /// `%.4f` of the value divided by this power of ten.
    Scaled(i32),
    /// `%.4e`.
    Scientific,
}

/// From here on a number has more than six digits.
const SEVEN_DIGITS: f64 = 1e6;

impl Style {
    /// The number style for the finite elements.
    fn of(elements: impl Iterator<Item = Scalar>) -> Self {
        let (mut count, mut integers) = (0usize, true);
        let (mut smallest, mut largest) = (f64::INFINITY, 0f64);
        let mut consider = |Float { value, .. }| {
            if value.is_finite() {
                count += 1;
                integers = integers && value == value.trunc();
                largest = largest.max(value.abs());
                smallest = smallest.min(if value == 0.0 { f64::INFINITY } else { value.abs() });
            }
        };
        for element in elements {
            match element {
                Scalar::Float(x) => consider(x),
                Scalar::Complex { re, im } => {
                    consider(re);
                    consider(im);
                }
                Scalar::Pred(_) | Scalar::Signed(_) | Scalar::Unsigned(_) => return Style::Integer,
            }
        }
        if integers {
            Style::Integer
        } else if smallest > 1e-4 && largest < SEVEN_DIGITS {
            Style::Fixed
        } else if count > 1 && decimal::exponent10(smallest) == decimal::exponent10(largest) {
            Style::Scaled(decimal::exponent10(largest))
        } else {
            Style::Scientific
        }
    }
}

/// How elements become text, whatever the style.
#[derive(Debug, Clone, Copy)]
struct Texts {
    /// The integer that is the host's NA, if there is one.
    na: Option<i64>,
    decimals: u32,
}

impl Texts {
    fn write(self, style: Style, element: Scalar, out: &mut String) {
        match element {
            // Writing to a string never fails.
            Scalar::Pred(value) => _ = write!(out, "{}", u8::from(value)),
            Scalar::Signed(value) if self.na == Some(value) => out.push_str("NA"),
            Scalar::Signed(value) => _ = write!(out, "{value}"),
            Scalar::Unsigned(value) => _ = write!(out, "{value}"),
            Scalar::Float(x) => self.write_float(style, x.value, out),
            Scalar::Complex { re, im } if is_na(re.value) || is_na(im.value) => out.push_str("NA"),
            Scalar::Complex { re, im } => {
                self.write_float(style, re.value, out);
                let middle = out.len();
                self.write_float(style, im.value, out);
                if !out[middle..].starts_with('-') {
                    out.insert(middle, '+');
                }
                out.push('i');
            }
        }
    }

    fn write_float(self, style: Style, value: f64, out: &mut String) {
        let mut write_fixed = |value: f64| _ = write!(out, "{value:.*}", self.decimals as usize);
        match style {
            _ if value.is_nan() => out.push_str(if is_na(value) { "NA" } else { "nan" }),
            _ if value.is_infinite() => out.push_str(if value < 0.0 { "-inf" } else { "inf" }),
            Style::Integer if value.abs() < SEVEN_DIGITS => {
                let sign = if value.is_sign_negative() { "-" } else { "" };
                let _ = write!(out, "{sign}{}", value.abs() as u64);
            }
            Style::Fixed => write_fixed(value),
            Style::Scaled(power) => write_fixed(decimal::scale_down(value, power)),
            Style::Integer | Style::Scientific => decimal::scientific_by_std(value, self.decimals, out),
        }
    }
}
