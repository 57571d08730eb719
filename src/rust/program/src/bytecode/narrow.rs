//! Types narrower than a byte in bytecode.

use super::attributes::Entries;
use super::kinds;
use super::operations::Operation;
use super::reader::Reader;
use crate::narrow::{Array, Findings};
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;

/// Notes an operation.
pub(super) fn note(found: &mut Findings, entries: &Entries<'_>, operation: &Operation<'_>) -> Result<()> {
    let mut narrow: Option<Array> = None;
    for &result in &operation.results {
        let array = entries.narrow_array(result)?;
        narrow = narrow.into_iter().chain(array).max_by_key(|array| (array.dtype.info().bits == 2, array.is_matrix));
    }
    if let Ok(name) = std::str::from_utf8(operation.name) {
        found.note(name, narrow.as_ref());
    }
    Ok(())
}

impl Entries<'_> {
    /// Whether there are arrays of narrow types.
    pub fn narrow_arrays(&self) -> Result<bool> {
        let (_, types) = self.counts();
        for number in 0..types {
            if self.narrow_array(number)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The narrow type of any matrix among several results of a function.
    pub fn narrow_result(&self) -> Result<Option<String>> {
        let (_, types) = self.counts();
        for number in 0..types {
            let function = self.type_number(number);
            let Some((kind, mut fields)) = function.kind()? else { continue };
            if !kinds::is_function(function.dialect(), kind) {
                continue;
            }
            for _ in 0..fields.count()? {
                fields.number()?;
            }
            let results = fields.count()?;
            for _ in 0..results {
                let result = self.narrow_array(fields.index(types)?)?;
                if let Some(array) = result.filter(|array| array.is_matrix && results > 1) {
                    return Ok(Some(array.dtype.to_string()));
                }
            }
        }
        Ok(None)
    }

    /// A type, if it is an array of a narrow type.
    fn narrow_array(&self, number: usize) -> Result<Option<Array>> {
        let (_, types) = self.counts();
        let shape = self.type_number(number);
        let Some((kind, mut fields)) = shape.kind()? else { return Ok(None) };
        let Some(has_encoding) = kinds::array(shape.dialect(), kind) else { return Ok(None) };
        if has_encoding {
            fields.number()?;
        }
        let mut dims = Vec::new();
        for _ in 0..fields.count()? {
            // Signed numbers have their sign in the last bit.
            let (dim, is_negative) = fields.flagged()?;
            dims.push(if is_negative { -1 } else { dim as i64 });
        }
        let element = self.type_number(fields.index(types)?);
        let dtype = match element.kind()? {
            Some((kind, fields)) => narrow_element(element.dialect(), kind, fields)?,
            None => None,
        };
        Ok(dtype.and_then(|dtype| Array::new(dtype, dims)))
    }
}

/// The type of this kind, if it is narrower than a byte.
fn narrow_element(dialect: &[u8], kind: u64, mut fields: Reader<'_>) -> Result<Option<DType>> {
    Ok(match (dialect, kind) {
        (b"builtin", 0) => {
            // Width and sign.
            let number = fields.number()?;
            match (number >> 2, number & 3) {
                (2, 2) => Some(DType::U2),
                (2, _) => Some(DType::I2),
                (4, 2) => Some(DType::U4),
                (4, _) => Some(DType::I4),
                _ => None,
            }
        }
        (b"builtin", 29) | (b"vhlo", 37) => Some(DType::F4E2M1FN),
        (b"vhlo", 10) => Some(DType::I4),
        (b"vhlo", 15) => Some(DType::U4),
        (b"vhlo", 31) => Some(DType::I2),
        (b"vhlo", 32) => Some(DType::U2),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::bytecode::narrow_findings;
    use crate::narrow::Findings;

    #[test]
    fn transposes_and_results_in_bytecode_are_found() {
        for (name, dtype) in [
            ("moved-f4.mlirbc", "f4e2m1fn"),
            ("moved-i4.mlirbc", "i4"),
            ("moved-f4.artifact", "f4e2m1fn"),
            ("moved-ui2.artifact", "ui2"),
            ("square.artifact", ""),
        ] {
            let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
            let found = narrow_findings(&std::fs::read(path).unwrap()[4..]).unwrap();
            let expected = if dtype.is_empty() {
                Findings::default()
            } else {
                Findings {
                    result: Some(dtype.into()),
                    moves: Some("transpose".into()),
                    moves_narrow: Some(("transpose".into(), dtype.into())),
                    ..Default::default()
                }
            };
            assert_eq!(found, expected, "{name}");
        }
    }
}
