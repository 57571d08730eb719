//! What a session and a helper tell each other: messages, each after its length in 8 bytes, little-endian.

use pjrt_base::error::{Error, Kind};
use pjrt_ffi::api::PluginValue;
use prost::{Message, Oneof};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The first message to a helper: the client to create.
#[derive(Clone, PartialEq, Message)]
pub struct Setup {
    #[prost(bytes = "vec", tag = "1")]
    plugin: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    options: Vec<NamedOption>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedOption {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "OptionValue", tags = "2, 3, 4, 5, 6")]
    value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, Oneof)]
enum OptionValue {
    #[prost(string, tag = "2")]
    String(String),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(float, tag = "4")]
    Float(f32),
    #[prost(bool, tag = "5")]
    Bool(bool),
    #[prost(message, tag = "6")]
    IntList(Ints),
}

#[derive(Clone, PartialEq, Message)]
struct Ints {
    #[prost(int64, repeated, tag = "1")]
    values: Vec<i64>,
}

/// A program to compile.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    #[prost(bytes = "vec", tag = "1")]
    pub code: Vec<u8>,
    /// The format's name in PJRT.
    #[prost(string, tag = "2")]
    pub format: String,
    /// Serialized compile options.
    #[prost(bytes = "vec", tag = "3")]
    pub options: Vec<u8>,
    /// The working directory.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) folder: Vec<u8>,
    /// The functions of the session that programs may call.
    #[prost(message, repeated, tag = "5")]
    pub functions: Vec<Function>,
    /// The resident memory that the helper may have, in bytes; 0 for any.
    #[prost(uint64, tag = "6")]
    pub memory: u64,
    /// The time for the compiler; 0 for any.
    #[prost(uint64, tag = "7")]
    pub milliseconds: u64,
}

/// A custom call.
#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(string, tag = "1")]
    pub target: String,
    #[prost(string, tag = "2")]
    pub platform: String,
}

/// The answer to a [`Request`]; empty if the program compiles but the plugin cannot serialize the executable.
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub payload: Option<Vec<u8>>,
    #[prost(message, optional, tag = "2")]
    pub failure: Option<Failure>,
    /// The helper ends after this answer.
    #[prost(bool, tag = "3")]
    pub is_last: bool,
}

/// An error.
#[derive(Clone, PartialEq, Message)]
pub struct Failure {
    /// The plugin's code, if it is the plugin's error.
    #[prost(uint32, optional, tag = "1")]
    code: Option<u32>,
    #[prost(string, tag = "2")]
    message: String,
    /// Whether the compiler itself failed.
    #[prost(bool, tag = "3")]
    is_compilers: bool,
}

/// The call of the compiler.
const COMPILE: &str = "PJRT_Client_Compile";

impl Setup {
    pub fn new(plugin: &Path, options: &[(String, PluginValue)]) -> Setup {
        let options = options.iter().map(|(name, value)| {
            let value = match value {
                PluginValue::String(value) => Some(OptionValue::String(value.clone())),
                PluginValue::Int(value) => Some(OptionValue::Int(*value)),
                PluginValue::Float(value) => Some(OptionValue::Float(*value)),
                PluginValue::Bool(value) => Some(OptionValue::Bool(*value)),
                PluginValue::IntList(values) => Some(OptionValue::IntList(Ints { values: values.clone() })),
                PluginValue::Unknown => None,
            };
            NamedOption { name: name.clone(), value }
        });
        Setup { plugin: bytes_of(plugin), options: options.collect() }
    }

    pub fn plugin(&self) -> PathBuf {
        path_of(&self.plugin)
    }

    pub fn options(&self) -> Vec<(String, PluginValue)> {
        let option = |option: &NamedOption| {
            let value = match option.value.clone() {
                Some(OptionValue::String(value)) => PluginValue::String(value),
                Some(OptionValue::Int(value)) => PluginValue::Int(value),
                Some(OptionValue::Float(value)) => PluginValue::Float(value),
                Some(OptionValue::Bool(value)) => PluginValue::Bool(value),
                Some(OptionValue::IntList(list)) => PluginValue::IntList(list.values),
                None => PluginValue::Unknown,
            };
            (option.name.clone(), value)
        };
        self.options.iter().map(option).collect()
    }
}

impl Request {
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Request {
        Request { folder: bytes_of(folder), ..self }
    }

    pub fn folder(&self) -> PathBuf {
        path_of(&self.folder)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Failure {
            code: error.code(),
            message: error.message().to_owned(),
            is_compilers: error.call_name() == Some(COMPILE),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let error = Error::new(failure.code.map_or(Kind::Internal, Kind::Pjrt), failure.message);
        if failure.is_compilers {
            error.in_call(COMPILE)
        } else {
            error
        }
    }
}

/// Writes a message.
///
/// # Errors
/// The stream's errors.
pub fn write(stream: &mut impl Write, message: &impl Message) -> io::Result<()> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(8 + length);
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    message.encode(&mut bytes).map_err(io::Error::other)?;
    stream.write_all(&bytes)
}

/// Reads a message.
///
/// # Errors
/// The stream's errors, `UnexpectedEof` at its end, and `InvalidData`.
pub fn read<T: Message + Default>(stream: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    // Read in pieces, so that a wrong length allocates nothing.
    ensure!(stream.take(length).read_to_end(&mut bytes)? as u64 == length, io::ErrorKind::UnexpectedEof);
    T::decode(bytes.as_slice()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from(String::from_utf8_lossy(bytes).into_owned()).into()
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let options = [
            ("a".to_owned(), PluginValue::String("x".into())),
            ("b".into(), PluginValue::Int(-1)),
            ("c".into(), PluginValue::Float(0.5)),
            ("d".into(), PluginValue::Bool(true)),
            ("e".into(), PluginValue::IntList(vec![1, 2])),
        ];
        let setup = Setup::new(Path::new("/a b/plugin.so"), &options);
        let request = Request { code: vec![0, 1], format: "mlir".into(), ..Default::default() };
        let request = request.in_folder(Path::new("/tmp"));
        let mut stream = Vec::new();
        write(&mut stream, &setup).unwrap();
        write(&mut stream, &request).unwrap();
        let mut rest = stream.as_slice();
        let read_setup: Setup = read(&mut rest).unwrap();
        assert_eq!((read_setup.plugin(), read_setup.options()), (setup.plugin(), options.to_vec()));
        assert_eq!(read::<Request>(&mut rest).unwrap(), request);
        assert_eq!(request.folder(), Path::new("/tmp"));
        assert_eq!(read::<Request>(&mut rest).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_stream_that_is_cut_short_or_damaged_is_an_error() {
        let mut stream = Vec::new();
        write(&mut stream, &Answer { payload: Some(vec![7; 100]), ..Default::default() }).unwrap();
        for length in 0..stream.len() {
            assert!(read::<Answer>(&mut &stream[..length]).is_err(), "{length}");
        }
        let huge = [&u64::MAX.to_le_bytes()[..], b"x"].concat();
        assert!(read::<Answer>(&mut huge.as_slice()).is_err());
        let wrong = [&1u64.to_le_bytes()[..], b"\xff"].concat();
        assert_eq!(read::<Answer>(&mut wrong.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn an_error_keeps_its_code_and_its_call() {
        let error = Error::new(Kind::Pjrt(3), "No.").in_call(COMPILE);
        let same = Error::from(Failure::from(&error));
        assert_eq!((same.code(), same.message(), same.call_name()), (Some(3), "No.", Some(COMPILE)));
        let other = Error::from(Failure::from(&Error::new(Kind::Io, "No.")));
        assert_eq!((other.kind(), other.call_name()), (Kind::Internal, None));
    }
}
