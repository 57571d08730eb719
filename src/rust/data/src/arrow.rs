//! Element types of Arrow arrays: the format strings of Arrow's C data interface.

use crate::dtype::DType;

/// What the elements of an Arrow array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Numbers that lie as PJRT's do.
    Numbers(DType),
    /// Truth values, eight per byte.
    Bits,
    /// Lists of one length, which lie one after the other.
    Lists(i64),
}

impl Format {
    /// Reads a format string.
    ///
    /// # Errors
    /// What the elements are instead, in words.
    pub fn parse(format: &str) -> Result<Format, &'static str> {
        let numbers = |dtype| Ok(Format::Numbers(dtype));
        match format {
            "b" => Ok(Format::Bits),
            "c" => numbers(DType::I8),
            "C" => numbers(DType::U8),
            "s" => numbers(DType::I16),
            "S" => numbers(DType::U16),
            "i" => numbers(DType::I32),
            "I" => numbers(DType::U32),
            "l" => numbers(DType::I64),
            "L" => numbers(DType::U64),
            "e" => numbers(DType::F16),
            "f" => numbers(DType::F32),
            "g" => numbers(DType::F64),
            "n" => Err("nulls"),
            "z" | "Z" | "vz" => Err("binary data"),
            "u" | "U" | "vu" => Err("strings"),
            "+s" => Err("rows with several columns"),
            "+m" => Err("maps"),
            "+r" => Err("run-end encoded values"),
            _ => match format.strip_prefix("+w:").map(str::parse) {
                Some(Ok(size)) if size >= 0 => Ok(Format::Lists(size)),
                _ if format.starts_with("t") => Err("dates or times"),
                _ if format.starts_with("d:") => Err("decimal numbers"),
                _ if format.starts_with("w:") => Err("binary data"),
                _ if format.starts_with("+u") => Err("values of several types"),
                _ if format.starts_with('+') => Err("lists of several lengths"),
                _ => Err("values of an unknown type"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_match_the_interface() {
        assert_eq!(Format::parse("g"), Ok(Format::Numbers(DType::F64)));
        assert_eq!(Format::parse("b"), Ok(Format::Bits));
        assert_eq!(Format::parse("+w:12"), Ok(Format::Lists(12)));
        for (format, what) in [
            ("u", "strings"),
            ("tdD", "dates or times"),
            ("tsu:UTC", "dates or times"),
            ("d:19,10", "decimal numbers"),
            ("w:42", "binary data"),
            ("+w:-1", "lists of several lengths"),
            ("+l", "lists of several lengths"),
            ("+ud:0,1", "values of several types"),
            ("+s", "rows with several columns"),
            ("", "values of an unknown type"),
            ("gg", "values of an unknown type"),
        ] {
            assert_eq!(Format::parse(format), Err(what), "{format}");
        }
    }
}
