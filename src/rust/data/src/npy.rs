//! The header of NumPy's array files (`.npy`): a magic number, a version, a length, and a dictionary as Python text.

use crate::dtype::DType;
use pjrt_base::counted;

/// The first bytes of a file.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes of magic number and version.
const VERSIONED: usize = 8;

/// The longest header that is read. Headers of arrays of numbers take about 100 bytes.
const LONGEST: usize = 1 << 20;

/// The limit of nesting in a header.
const DEEPEST: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpyHeader {
    pub element: Element,
    /// The bytes of an element's numbers, if they are big-endian.
    pub swapped: Option<usize>,
    /// Whether the first index varies fastest.
    pub is_column_major: bool,
    pub dims: Vec<i64>,
}

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    Known(DType),
    /// So many bytes; the file does not say what they mean.
    Void(usize),
}

/// Why a header cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is damaged, or not a header; completes "it is not valid:".
    Invalid(String),
    /// PJRT has no such arrays; completes "the file".
    Unsupported(String),
}

type Parsed<T> = Result<T, Problem>;

/// The number of bytes from a file's start that [`size`] needs.
pub const START: usize = 12;

/// The size of a header in bytes, where the data begin, from the first [`START`] bytes of a file, or all if it is shorter.
///
/// # Errors
/// `Problem` for anything but an array file.
pub fn size(start: &[u8]) -> Parsed<usize> {
    ensure!(start.starts_with(MAGIC), invalid("it does not begin as one"));
    let (length, width) = match (start.get(6), start.get(VERSIONED..)) {
        (Some(1), Some([a, b, ..])) => (u32::from(u16::from_le_bytes([*a, *b])), 2),
        (Some(2 | 3), Some(&[a, b, c, d, ..])) => (u32::from_le_bytes([a, b, c, d]), 4),
        (Some(1..=3) | None, _) => return Err(invalid("it is truncated")),
        (Some(version), _) => {
            return Err(invalid(&format!("it has version {version} of the format, which is unknown")))
        }
    };
    let length = length as usize;
    ensure!(length <= LONGEST, invalid(&format!("its header claims {length} bytes; the limit is {LONGEST}")));
    Ok(VERSIONED + width + length)
}

impl NpyHeader {
    /// Parses a header, the first [`size`] bytes of a file.
    ///
    /// # Errors
    /// `Problem`, also for types that PJRT lacks.
    pub fn parse(bytes: &[u8]) -> Parsed<NpyHeader> {
        let skipped = if bytes.get(6) == Some(&1) { VERSIONED + 2 } else { VERSIONED + 4 };
        let text = bytes.get(skipped..).unwrap_or_default();
        let mut text = Text { rest: text.trim_ascii(), depth: 0 };
        let Literal::Dict(members) = text.literal()? else {
            return Err(invalid("its header is not a dictionary"));
        };
        ensure!(text.rest.is_empty(), invalid("there is more after its header's dictionary"));
        let (mut descr, mut order, mut shape) = (None, None, None);
        for (key, value) in members {
            let place = match key.as_str() {
                "descr" => &mut descr,
                "fortran_order" => &mut order,
                "shape" => &mut shape,
                other => return Err(invalid(&format!("its header has an unknown entry \"{}\"", shortened(other)))),
            };
            ensure!(place.replace(value).is_none(), invalid(&format!("its header has two entries \"{key}\"")));
        }
        let Some(Literal::Bool(is_column_major)) = order else {
            return Err(invalid("its header's `fortran_order` is missing or wrong"));
        };
        let Some(Literal::Tuple(shape)) = shape else {
            return Err(invalid("its header's `shape` is missing or wrong"));
        };
        let dim = |dim: Literal| match dim {
            Literal::Int(dim) => Ok(dim),
            _ => Err(invalid("its header's `shape` has something that is not a number")),
        };
        let dims: Vec<i64> = shape.into_iter().map(dim).collect::<Parsed<_>>()?;
        let (element, swapped) = match descr {
            Some(Literal::Str(descr)) => element(&descr)?,
            Some(Literal::List | Literal::Tuple(_)) => {
                return Err(Problem::Unsupported("has elements with several fields, which PJRT lacks".into()));
            }
            _ => return Err(invalid("its header's `descr` is missing or wrong")),
        };
        Ok(NpyHeader { element, swapped, is_column_major, dims })
    }
}

/// The type of elements, and the width of their numbers if these are big-endian.
fn element(descr: &str) -> Parsed<(Element, Option<usize>)> {
    let wrong = || invalid(&format!("its element type \"{}\" is wrong", shortened(descr)));
    let lacking = |what: &str| Problem::Unsupported(format!("has {what} (\"{}\"), which PJRT lacks", shortened(descr)));
    let (order, name) = match descr.as_bytes() {
        [b'<' | b'>' | b'|' | b'=', ..] => descr.split_at(1),
        _ => ("|", descr),
    };
    let (kind, width) = name.split_at(name.chars().next().ok_or_else(wrong)?.len_utf8());
    if kind == "O" {
        let what = "contains Python objects, a pickle, which only Python can read";
        return Err(Problem::Unsupported(what.into()));
    }
    ensure!(kind != "M" && kind != "m", lacking("dates or times"));
    let width: usize = width.parse().map_err(|_| wrong())?;
    let dtype = match (kind, width) {
        ("b" | "?", 1) => DType::Pred,
        ("V", 1..=16) => {
            let swapped = (order == ">" && width > 1).then_some(width);
            return Ok((Element::Void(width), swapped));
        }
        ("V", _) => return Err(lacking("elements of unknown meaning")),
        ("U" | "S" | "a", _) => return Err(lacking("text")),
        // The name that ml_dtypes gives it.
        ("f", 1) => DType::F8E5M2,
        // The names of PJRT have bits instead of bytes.
        ("i" | "u" | "f" | "c", _) => {
            DType::parse(&format!("{kind}{}", width.saturating_mul(8))).map_err(|_| lacking("numbers"))?
        }
        _ => return Err(wrong()),
    };
    // Real and imaginary parts are swapped one by one.
    let number = if kind == "c" { width / 2 } else { width };
    Ok((Element::Known(dtype), (order == ">" && number > 1).then_some(number)))
}

/// A value as Python writes it.
#[derive(Debug)]
enum Literal {
    Str(String),
    Bool(bool),
    Int(i64),
    Tuple(Vec<Literal>),
    /// What is in it does not matter.
    List,
    Dict(Vec<(String, Literal)>),
}

/// Text that is parsed from its start.
struct Text<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Text<'_> {
    fn literal(&mut self) -> Parsed<Literal> {
        self.depth += 1;
        ensure!(self.depth <= DEEPEST, invalid("its header is nested too deeply"));
        let value = match self.next() {
            Some(b'\'' | b'"') => Literal::Str(self.string()?),
            Some(b'{') => Literal::Dict(self.sequence(b'}', |text| {
                let key = text.string()?;
                text.expect(b':')?;
                Ok((key, text.literal()?))
            })?),
            Some(b'[') => {
                self.sequence(b']', Text::literal)?;
                Literal::List
            }
            Some(b'(') => Literal::Tuple(self.sequence(b')', Text::literal)?),
            Some(b'0'..=b'9' | b'-') => Literal::Int(self.int()?),
            _ => self.bool()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    /// The next byte after blanks.
    fn next(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        ensure!(self.next() == Some(byte), invalid(&format!("its header lacks a '{}'", byte as char)));
        self.rest = &self.rest[1..];
        Ok(())
    }

    /// The items up to `close`, with commas between them, after an opening bracket.
    fn sequence<T>(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        while self.next() != Some(close) {
            items.push(item(self)?);
            if self.next() != Some(close) {
                self.expect(b',')?;
            }
        }
        self.expect(close)?;
        Ok(items)
    }

    /// A string; those with escapes are refused, because no name or type has any.
    fn string(&mut self) -> Parsed<String> {
        let wrong = || invalid("its header has a string that is wrong");
        let quote = self.next().filter(|quote| matches!(quote, b'\'' | b'"')).ok_or_else(wrong)?;
        let end = self.rest[1..].iter().position(|&byte| byte == quote || byte == b'\\').ok_or_else(wrong)?;
        let (string, rest) = self.rest[1..].split_at(end);
        self.rest = rest.strip_prefix(&[quote]).ok_or_else(wrong)?;
        // Only names of fields, whose arrays are refused, can be other text.
        Ok(String::from_utf8_lossy(string).into_owned())
    }

    /// An integer. Python 2 wrote an `L` after large ones.
    fn int(&mut self) -> Parsed<i64> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
        let (digits, rest) = self.rest.split_at(len);
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        self.rest = rest.strip_prefix(b"L").unwrap_or(rest);
        number.ok_or_else(|| invalid("its header has a number that is wrong"))
    }

    fn bool(&mut self) -> Parsed<Literal> {
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(Literal::Bool(value));
            }
        }
        Err(invalid("its header has a value that is wrong"))
    }
}

fn shortened(text: &str) -> String {
    counted::shortened(text, 100)
}

fn invalid(what: &str) -> Problem {
    Problem::Invalid(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = [MAGIC, &[version, 0]].concat();
        if version == 1 {
            bytes.extend((text.len() as u16).to_le_bytes());
        } else {
            bytes.extend((text.len() as u32).to_le_bytes());
        }
        bytes.extend(text.as_bytes());
        bytes
    }

    fn read(text: &str) -> Parsed<NpyHeader> {
        let bytes = file(1, text);
        assert_eq!(size(&bytes), Ok(bytes.len()));
        NpyHeader::parse(&bytes)
    }

    fn of(descr: &str) -> Parsed<NpyHeader> {
        read(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (3, 4), }}   \n"))
    }

    #[test]
    fn headers_of_all_versions_are_read() {
        let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }          \n";
        for version in 1..=3 {
            let bytes = file(version, text);
            assert_eq!(size(&bytes), Ok(bytes.len()));
            let header = NpyHeader::parse(&bytes).unwrap();
            assert_eq!(header.element, Element::Known(DType::F32));
            assert_eq!((header.swapped, header.is_column_major, header.dims), (None, true, vec![2, 3]));
        }
        assert_eq!(size(&file(4, text)), Err(invalid("it has version 4 of the format, which is unknown")));
        for short in [&b"\x93NUMPY"[..], b"\x93NUMPY\x01", b"\x93NUMPY\x01\0\0", b"\x93NUMPY\x02\0\0\0\0"] {
            assert_eq!(size(short), Err(invalid("it is truncated")));
        }
        assert_eq!(size(b"\x93NUMP"), Err(invalid("it does not begin as one")));
        assert!(size(b"\x93NUMPY\x02\0\0\0\0\x10").is_err());
    }

    #[test]
    fn shapes_are_read_as_python_writes_them() {
        let dims = |shape: &str| {
            let read = read(&format!("{{\"shape\":{shape},'fortran_order':False,'descr':'|b1'}}"));
            read.map(|header| header.dims)
        };
        assert_eq!(dims("()"), Ok(vec![]));
        assert_eq!(dims("(5,)"), Ok(vec![5]));
        assert_eq!(dims("( 0 , 7L, 2 )"), Ok(vec![0, 7, 2]));
        assert_eq!(dims("(-1,)"), Ok(vec![-1]));
        for wrong in
            ["5", "[5]", "(5", "(5,,)", "('5',)", "(5.5,)", "(99999999999999999999,)", "(1-2,)", "(,)", "((1,),)"]
        {
            assert!(matches!(dims(wrong), Err(Problem::Invalid(_))), "{wrong}");
        }
    }

    #[test]
    fn types_match_numpy() {
        let element = |descr: &str| of(&format!("'{descr}'")).map(|header| (header.element, header.swapped));
        let known = |dtype, swapped| Ok((Element::Known(dtype), swapped));
        assert_eq!(element("|b1"), known(DType::Pred, None));
        assert_eq!(element("|i1"), known(DType::I8, None));
        assert_eq!(element(">u2"), known(DType::U16, Some(2)));
        assert_eq!(element("<i8"), known(DType::I64, None));
        assert_eq!(element("=f2"), known(DType::F16, None));
        assert_eq!(element(">c16"), known(DType::C128, Some(8)));
        assert_eq!(element("f8"), known(DType::F64, None));
        assert_eq!(element("|V2"), Ok((Element::Void(2), None)));
        assert_eq!(element("<V1"), Ok((Element::Void(1), None)));
        for lacking in ["<U3", "|S5", "<M8[ns]", "<m8", "<f16", "<c32", "|V99"] {
            assert!(matches!(element(lacking), Err(Problem::Unsupported(_))), "{lacking}");
        }
        let Err(Problem::Unsupported(what)) = element("|O") else { panic!() };
        assert!(what.contains("pickle"));
        for wrong in ["", "<", "<f", "<fx", "q8", "<b4", "\u{e9}4", "<f-4"] {
            assert!(matches!(element(wrong), Err(Problem::Invalid(_))), "{wrong}");
        }
        assert!(matches!(of("[('a', '<f4'), ('b', '<i4', (2,))]"), Err(Problem::Unsupported(_))));
    }

    #[test]
    fn damaged_headers_are_refused() {
        for wrong in [
            "",
            "{",
            "[]",
            "{}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': None, 'shape': (3,)}",
            "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (3,)}",
            "{'descr: '<f4', 'fortran_order': False, 'shape': (3,)}",
            "{'descr' '<f4'}",
            "{'shape': (3,), 'fortran_order': False}",
        ] {
            assert!(matches!(read(wrong), Err(Problem::Invalid(_))), "{wrong}");
        }
        assert!(matches!(of(&"[".repeat(1000)), Err(Problem::Invalid(_))));
    }
}
