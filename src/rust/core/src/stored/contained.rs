//! Buffers, programs and exported functions as bytes, for other processes and files, in containers that find damage. The header
//! is a protocol buffer.

use pjrt_base::container::{Container, Problem};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::room;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_program::exported::Framework;
use pjrt_program::program::exported_program::ExportedProgram;
use pjrt_program::program::{Format, Program};
use prost::Message;

const CONTAINER: Container = Container { magic: b"\x93PJRTOBJ", format: 1 };

/// What bytes contain.
#[derive(Debug)]
pub enum Contained<'a> {
    /// An array, row-major, with types narrower than a byte one byte each.
    Array(Spec, &'a [u8]),
    Program(Program),
    /// Without its weights.
    Exported(Box<ExportedProgram>),
}

#[derive(Clone, PartialEq, Message)]
struct ContainedHeader {
    #[prost(message, optional, tag = "1")]
    array: Option<ArrayHeader>,
    #[prost(message, optional, tag = "2")]
    program: Option<ProgramHeader>,
    #[prost(message, optional, tag = "3")]
    exported: Option<ExportedHeader>,
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

#[derive(Clone, PartialEq, Message)]
struct ExportedHeader {
    #[prost(bool, tag = "1")]
    is_pytorch: bool,
    /// How often it was differentiated.
    #[prost(uint32, tag = "2")]
    order: u32,
    /// Where the program is.
    #[prost(uint64, tag = "3")]
    program: u64,
}

/// Whether the bytes are a serialized buffer, program or exported function, or its beginning.
pub fn is_contained(bytes: &[u8]) -> bool {
    bytes.starts_with(CONTAINER.magic)
}

/// An array as bytes.
///
/// # Errors
/// The code of `RESOURCE_EXHAUSTED` without enough memory.
pub fn contain_array(spec: &Spec, content: &[u8]) -> Result<Vec<u8>> {
    let array = ArrayHeader { dtype: spec.dtype.name().into(), dims: spec.dims.to_vec() };
    contain(&ContainedHeader { array: Some(array), ..ContainedHeader::default() }, content)
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
    contain(&ContainedHeader { program: Some(described), ..ContainedHeader::default() }, program.code())
}

/// An exported function as bytes, without its weights.
///
/// # Errors
/// As [`contain_array`].
pub fn contain_exported(function: &ExportedProgram) -> Result<Vec<u8>> {
    let (content, program) = function.to_file();
    let described = ExportedHeader {
        is_pytorch: function.exported.framework == Framework::PyTorch,
        order: function.exported.order as u32,
        program: program as u64,
    };
    contain(&ContainedHeader { exported: Some(described), ..ContainedHeader::default() }, &content)
}

fn contain(header: &ContainedHeader, content: &[u8]) -> Result<Vec<u8>> {
    room::check_room(2 * content.len(), "to save it as bytes")?;
    Ok(CONTAINER.write(&header.encode_to_vec(), content))
}

/// Reads bytes, and checks them for damage.
///
/// # Errors
/// `SerializedInvalid` if they are something else, or damaged; `SerializedMismatch` for another version of the format; as
/// [`Program::new`].
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
    match (header.array, header.program, header.exported) {
        (Some(array), None, None) => {
            let dtype = DType::parse(&array.dtype).map_err(|_| damaged())?;
            let spec = Spec::new(dtype, &array.dims).map_err(|_| damaged())?;
            if content.len() != spec.bytes() || spec.check_elements(content).is_err() {
                return Err(damaged());
            }
            Ok(Contained::Array(spec, content))
        }
        (None, Some(described), None) => {
            let format = if described.is_hlo { Format::Hlo } else { Format::Mlir };
            let program = Program::new(content.to_vec(), format)?;
            Ok(Contained::Program(match described.is_named {
                true => program.with_input_names(described.input_names),
                false => program,
            }))
        }
        (None, None, Some(described)) => {
            let framework = if described.is_pytorch { Framework::PyTorch } else { Framework::Jax };
            let at = usize::try_from(described.program).map_err(|_| damaged())?;
            let function = ExportedProgram::of_file(content, framework, described.order as usize, at)?;
            Ok(Contained::Exported(Box::new(function)))
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
    fn exported_functions_come_back() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../program/fixtures");
        let read_file = |name: &str| std::fs::read(format!("{fixtures}/{name}")).unwrap();
        let code = b"func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }".to_vec();
        let program = Program::new(code, Format::Mlir).unwrap();
        let functions = [
            ExportedProgram::of_jax(&read_file("exported/mlp.jaxexport"), 0),
            ExportedProgram::of_jax(&read_file("exported/mlp.jaxexport"), 2),
            ExportedProgram::of_pytorch(read_file("pytorch/linear.meta"), program),
        ];
        for function in functions.map(Result::unwrap) {
            let bytes = contain_exported(&function).unwrap();
            let Contained::Exported(back) = read(&bytes).unwrap() else { panic!("another object") };
            assert_eq!(back.function, function.function);
            assert_eq!(back.program.code(), function.program.code());
            assert_eq!(back.to_file(), function.to_file());
        }
        assert_eq!(
            ExportedProgram::of_jax(&read_file("exported/mlp.jaxexport"), 1).unwrap().to_file().0,
            read_file("exported/mlp.jaxexport")
        );
    }

    #[test]
    fn a_header_that_contradicts_the_content_is_refused() {
        let array = |dtype: &str, dims: &[i64]| Some(ArrayHeader { dtype: dtype.into(), dims: dims.to_vec() });
        let wrong = [("f32", &[2][..]), ("f32", &[-1]), ("f99", &[1]), ("f32", &[i64::MAX, 8]), ("pred", &[4])];
        for (dtype, dims) in wrong {
            let header = ContainedHeader { array: array(dtype, dims), ..ContainedHeader::default() };
            let bytes = contain(&header, &[1, 0, 1, 2]).unwrap();
            assert_eq!(read(&bytes).unwrap_err().kind(), Kind::SerializedInvalid, "{dtype} {dims:?}");
        }
        let neither = contain(&ContainedHeader::default(), &[]).unwrap();
        assert_eq!(read(&neither).unwrap_err().kind(), Kind::SerializedInvalid);
    }
}
