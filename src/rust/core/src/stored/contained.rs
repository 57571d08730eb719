//! Buffers and programs as bytes, for other processes and files, in containers that find damage. The header is a protocol
//! buffer.

use pjrt_base::container::{Container, Problem};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::room;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_program::program::{Format, Program};
use prost::Message;

const CONTAINER: Container = Container { magic: b"\x93PJRTOBJ", format: 1 };

/// What bytes contain.
#[derive(Debug)]
pub enum Contained<'a> {
    /// An array, row-major, with types narrower than a byte one byte each.
    Array(Spec, &'a [u8]),
    Program(Program),
}

#[derive(Clone, PartialEq, Message)]
struct ContainedHeader {
    #[prost(message, optional, tag = "1")]
    array: Option<ArrayHeader>,
    #[prost(message, optional, tag = "2")]
    program: Option<ProgramHeader>,
}

#[derive(Clone, PartialEq, Message)]
struct ArrayHeader {
    #[prost(string, tag = "1")]
    dtype: String,
    #[prost(int64, repeated, tag = "2")]
    dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ProgramHeader {
    #[prost(bool, tag = "1")]
    is_hlo: bool,
    #[prost(bool, tag = "2")]
    is_named: bool,
    #[prost(string, repeated, tag = "3")]
    input_names: Vec<String>,
}

/// Whether the bytes are a serialized buffer or program, or its beginning.
pub fn is_contained(bytes: &[u8]) -> bool {
    bytes.starts_with(CONTAINER.magic)
}

/// An array as bytes.
///
/// # Errors
/// The code of `RESOURCE_EXHAUSTED` without enough memory.
pub fn contain_array(spec: &Spec, content: &[u8]) -> Result<Vec<u8>> {
    let array = ArrayHeader { dtype: spec.dtype.name().into(), dims: spec.dims.to_vec() };
    contain(&ContainedHeader { array: Some(array), program: None }, content)
}

/// A program as bytes.
///
/// # Errors
/// As [`contain_array`].
pub fn contain_program(program: &Program) -> Result<Vec<u8>> {
    let names = program.given_names();
    let described = ProgramHeader {
        is_hlo: program.format() == Format::Hlo,
        is_named: names.is_some(),
        input_names: names.unwrap_or_default().to_vec(),
    };
    contain(&ContainedHeader { array: None, program: Some(described) }, program.code())
}

fn contain(header: &ContainedHeader, content: &[u8]) -> Result<Vec<u8>> {
    room::check_room(2 * content.len(), "to save it as bytes")?;
    Ok(CONTAINER.write(&header.encode_to_vec(), content))
}

/// Reads bytes, and checks them for damage.
///
/// # Errors
/// `SerializedInvalid` if they are something else, or damaged; `SerializedMismatch` for another version of the format; and
/// those of [`Program::new`].
pub fn read(bytes: &[u8]) -> Result<Contained<'_>> {
    let damaged = || Error::new(Kind::SerializedInvalid, "The serialized object is damaged or incomplete.");
    let (header, content) = CONTAINER.read(bytes).map_err(|problem| match problem {
        Problem::Format(format) => Error::new(
            Kind::SerializedMismatch,
            format!("It was saved in format {format}; this version of pjrt reads format {}.", CONTAINER.format),
        ),
        Problem::Other | Problem::Damaged => damaged(),
    })?;
    let header = ContainedHeader::decode(header).map_err(|_| damaged())?;
    match (header.array, header.program) {
        (Some(array), None) => {
            let dtype = DType::parse(&array.dtype).map_err(|_| damaged())?;
            let spec = Spec::new(dtype, &array.dims).map_err(|_| damaged())?;
            if content.len() != spec.bytes() || spec.check_elements(content).is_err() {
                return Err(damaged());
            }
            Ok(Contained::Array(spec, content))
        }
        (None, Some(described)) => {
            let format = if described.is_hlo { Format::Hlo } else { Format::Mlir };
            let program = Program::new(content.to_vec(), format)?;
            Ok(Contained::Program(match described.is_named {
                true => program.with_input_names(described.input_names),
                false => program,
            }))
        }
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_programs_come_back_and_any_damage_is_found() {
        let spec = Spec::new(DType::I16, &[2, 3]).unwrap();
        let content: Vec<u8> = (0..12).collect();
        let bytes = contain_array(&spec, &content).unwrap();
        assert!(matches!(read(&bytes).unwrap(), Contained::Array(s, c) if s == spec && c == content));
        for i in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut changed = bytes.clone();
                changed[i] ^= bit;
                let kind = read(&changed).unwrap_err().kind();
                assert!([Kind::SerializedInvalid, Kind::SerializedMismatch].contains(&kind), "byte {i}: {kind:?}");
            }
            assert_eq!(read(&bytes[..i]).unwrap_err().kind(), Kind::SerializedInvalid);
        }
        assert_eq!(read(&[&bytes[..], &[0]].concat()).unwrap_err().kind(), Kind::SerializedInvalid);

        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        let program = Program::new(text.into(), Format::Mlir).unwrap();
        for program in [program.clone(), program.with_input_names(vec!["a".into()])] {
            let bytes = contain_program(&program).unwrap();
            let Contained::Program(back) = read(&bytes).unwrap() else { panic!("an array") };
            assert_eq!((back.code(), back.given_names()), (program.code(), program.given_names()));
        }
    }

    #[test]
    fn a_header_that_contradicts_the_content_is_refused() {
        let array = |dtype: &str, dims: &[i64]| Some(ArrayHeader { dtype: dtype.into(), dims: dims.to_vec() });
        let wrong = [("f32", &[2][..]), ("f32", &[-1]), ("f99", &[1]), ("f32", &[i64::MAX, 8]), ("pred", &[4])];
        for (dtype, dims) in wrong {
            let bytes = contain(&ContainedHeader { array: array(dtype, dims), program: None }, &[1, 0, 1, 2]).unwrap();
            assert_eq!(read(&bytes).unwrap_err().kind(), Kind::SerializedInvalid, "{dtype} {dims:?}");
        }
        let neither = contain(&ContainedHeader::default(), &[]).unwrap();
        assert_eq!(read(&neither).unwrap_err().kind(), Kind::SerializedInvalid);
    }
}
