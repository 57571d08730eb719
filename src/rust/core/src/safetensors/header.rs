//! The header of a file: its tensors and its metadata, in their order.

use super::Metadata;
use crate::stored::{Form, Stored};
use ::safetensors::tensor::TensorInfo;
use ::safetensors::Dtype;
use pjrt_base::counted::{self, counted};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use pjrt_base::mmap::MappedFile;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use serde::de::value::{Error as NoSuchName, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Size in bytes of the header's length, which comes first.
const LENGTH: u64 = 8;

/// Size in bytes of the longest header that the format's own library reads.
const LONGEST: u64 = 100_000_000;

/// The name of the entry with the metadata.
pub(super) const METADATA: &str = "__metadata__";

/// A header's description of one tensor.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    /// The format's name of its type.
    pub(super) dtype: String,
    pub dims: Box<[i64]>,
    /// Position of its first byte in the file.
    pub start: u64,
    /// Size in bytes in the file, where several elements narrower than a byte share one.
    pub bytes: usize,
}

impl Tensor {
    /// Its dtype, if PJRT has it.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_safetensors(&self.dtype)
    }

    /// The dtype's name: this crate's, or the format's own for a type that PJRT lacks.
    pub fn dtype_name(&self) -> String {
        self.dtype().map_or_else(|| self.dtype.clone(), |dtype| dtype.name().into())
    }

    /// Its dtype and shape as a buffer's.
    ///
    /// # Errors
    /// `UnsupportedDtype` for a type that PJRT lacks; `InvalidInput` for a shape that no buffer can have.
    pub fn spec(&self) -> Result<Spec> {
        match self.dtype() {
            Some(dtype) => Spec::new(dtype, &self.dims).map_err(|error| self.about(error)),
            None if narrow_bits(&self.dtype).is_some() => bail!(
                UnsupportedDtype,
                "Tensor \"{}\" is of type {}, which the safetensors format does not define.",
                self.name,
                self.dtype
            ),
            None => bail!(UnsupportedDtype, "Tensor \"{}\" is of type {}, which PJRT lacks.", self.name, self.dtype),
        }
    }

    /// The tensor as an array in its file.
    ///
    /// # Errors
    /// As [`Tensor::spec`].
    pub(super) fn stored<'a>(&self, file: &'a Arc<MappedFile>) -> Result<Stored<'a>> {
        let spec = self.spec()?;
        let form = if spec.dtype.is_packed() { Form::Packed } else { Form::Plain { in_place: true } };
        Ok(Stored { file, label: self.label(), spec, start: self.start, bytes: self.bytes, form })
    }

    /// Adds the tensor's name to an error.
    pub(super) fn about(&self, error: Error) -> Error {
        error.within(&self.label())
    }

    fn label(&self) -> String {
        format!("Tensor \"{}\"", self.name)
    }
}

#[derive(Debug, Default)]
pub struct Header {
    pub metadata: Option<Metadata>,
    pub tensors: Vec<Tensor>,
}

impl Header {
    /// Reads only the header of a file.
    ///
    /// # Errors
    /// `SafetensorsInvalid` for an invalid header, or one that does not match the file; `Io`.
    pub fn read(file: &MappedFile) -> Result<Header> {
        let mut length = [0; LENGTH as usize];
        if file.len() < LENGTH {
            return Err(invalid(
                file.path(),
                &format!("it has {}, too few for a header", counted(file.len() as usize, "byte")),
            ));
        }
        file.read(0, &mut length)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST || length > file.len() - LENGTH {
            let limit = LONGEST.min(file.len() - LENGTH);
            let message = format!("its header claims {length} bytes; the limit is {limit}");
            return Err(foreign::named_file(invalid(file.path(), &message), file));
        }
        // Not longer than the file.
        let mut text = vec![0; length as usize];
        file.read(LENGTH, &mut text)?;
        Header::parse(&text, file.len() - LENGTH - length).map_err(|what| invalid(file.path(), &what))
    }

    /// Parses a header, for a file with `data` bytes after it. The error says what is wrong.
    pub(super) fn parse(text: &[u8], data: u64) -> std::result::Result<Header, String> {
        let HeaderEntries { metadata, tensors } = serde_json::from_slice(text).map_err(|error| {
            let what = if error.is_data() { "its header is wrong" } else { "its header is not valid JSON" };
            format!("{what}: {}", shortened(&error.to_string()))
        })?;
        check(&tensors, data)?;
        let first = LENGTH + text.len() as u64;
        let tensor = |(name, info): (String, Info)| {
            let dim = |&dim: &usize| i64::try_from(dim);
            let Ok(dims) = info.shape.iter().map(dim).collect() else {
                return Err(format!("tensor \"{}\" has a shape that no array can have", shortened(&name)));
            };
            let (start, end) = info.data_offsets;
            Ok(Tensor { name, dtype: info.dtype, dims, start: first + start as u64, bytes: end - start })
        };
        Ok(Header { metadata, tensors: tensors.into_iter().map(tensor).collect::<std::result::Result<_, _>>()? })
    }
}

/// Checks that the tensors are contiguous, have the sizes of their types and shapes, and fill the file.
fn check(tensors: &[(String, Info)], data: u64) -> std::result::Result<(), String> {
    let misfit = |(name, info): &(String, Info)| {
        let (what, shape, dtype) = (info.misfit()?, shortened(&format!("{:?}", info.shape)), &info.dtype);
        Some(format!("tensor \"{}\" of type {dtype} and shape {shape} {what}", shortened(name)))
    };
    if let Some(what) = tensors.iter().filter(|(_, info)| narrow_bits(&info.dtype).is_some()).find_map(misfit) {
        return Err(what);
    }
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(_, info)| info.data_offsets);
    if let Some((name, info)) = sorted.iter().find(|(_, info)| info.data_offsets.0 > info.data_offsets.1) {
        let (start, end) = info.data_offsets;
        return Err(format!("tensor \"{}\" ends at {end}, before its start at {start}", shortened(name)));
    }
    let mut end = 0;
    for (name, info) in sorted {
        if info.data_offsets.0 != end {
            let name = shortened(name);
            return Err(format!(
                "tensor \"{name}\" does not begin where the one before it ends: they overlap or leave a hole"
            ));
        }
        end = info.data_offsets.1;
        if info.misfit().is_some() {
            // The first one in the header.
            return Err(tensors.iter().find_map(misfit).unwrap_or_default());
        }
    }
    if end as u64 == data {
        return Ok(());
    }
    let cut = if end as u64 > data { ": it is truncated" } else { "" };
    Err(format!("its header declares {end} bytes of data, but it has {data}{cut}"))
}

pub(super) fn invalid(path: &Path, what: &str) -> Error {
    Error::new(Kind::SafetensorsInvalid, format!("'{}' is not a valid safetensors file: {what}.", path.display()))
}

pub(super) fn shortened(text: &str) -> String {
    counted::shortened(text, 200)
}

/// The JSON text of a header.
#[derive(Default)]
struct HeaderEntries {
    metadata: Option<Metadata>,
    tensors: Vec<(String, Info)>,
}

/// A header's entry for a tensor.
#[derive(serde::Deserialize)]
struct Info {
    #[serde(deserialize_with = "type_name")]
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// The bits of an element of a type that some programs write although the format does not define it.
fn narrow_bits(dtype: &str) -> Option<usize> {
    match dtype {
        "I4" | "U4" => Some(4),
        "I2" | "U2" => Some(2),
        _ => None,
    }
}

/// A type of the format, or a narrow one.
fn type_name<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if narrow_bits(&name).is_none() {
        Dtype::deserialize(IntoDeserializer::<D::Error>::into_deserializer(name.as_str()))?;
    }
    Ok(name)
}

impl Info {
    /// What is wrong with its size; `None` if that fits its type and shape.
    fn misfit(&self) -> Option<String> {
        let ((start, end), narrow) = (self.data_offsets, narrow_bits(&self.dtype));
        let bits = narrow.or_else(|| dtype_named(&self.dtype).map(|dtype| dtype.bitsize()));
        let count = self.shape.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim));
        Some(match count.zip(bits).and_then(|(count, bits)| count.checked_mul(bits)) {
            Some(needed) if start <= end && needed % 8 == 0 && needed / 8 == end - start => return None,
            None if narrow.is_none() => "is larger than any memory".into(),
            Some(needed) if narrow.is_none() && needed % 8 != 0 => "has elements that do not fill whole bytes".into(),
            _ => format!("has {} bytes, which does not fit its type and shape", end.saturating_sub(start)),
        })
    }
}

/// The type with a name of the format.
pub(super) fn dtype_named(name: &str) -> Option<Dtype> {
    let name: StrDeserializer<NoSuchName> = name.into_deserializer();
    Dtype::deserialize(name).ok()
}

impl<'de> Deserialize<'de> for HeaderEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = HeaderEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<HeaderEntries, A::Error> {
                let mut entries = HeaderEntries::default();
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("there are two tensors \"{}\"", shortened(&name))));
                    }
                    check_text::<A::Error>(&name)?;
                    if name == METADATA {
                        entries.metadata = map
                            .next_value::<Option<Unique<Text>>>()?
                            .map(|texts| texts.0.into_iter().map(|(name, Text(text))| (name, text)).collect());
                    } else {
                        entries.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Refuses text with a NUL character, which would end it elsewhere, so that two names could become equal.
fn check_text<E: serde::de::Error>(text: &str) -> std::result::Result<(), E> {
    if text.contains('\0') {
        return Err(E::custom(format!("there is a NUL character in \"{}\"", shortened(text))));
    }
    Ok(())
}

/// A string without NUL characters.
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        check_text::<D::Error>(&text)?;
        Ok(Text(text))
    }
}

/// An object's members in their order; refuses duplicate names.
pub(super) struct Unique<T>(pub(super) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct InOrder<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Unique<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Unique<T>, A::Error> {
                let mut members = Vec::new();
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("there are two entries \"{}\"", shortened(&name))));
                    }
                    check_text::<A::Error>(&name)?;
                    members.push((name, map.next_value()?));
                }
                Ok(Unique(members))
            }
        }
        deserializer.deserialize_map(InOrder(std::marker::PhantomData))
    }
}

/// A header to write.
pub(super) struct NewHeader<'a> {
    pub(super) metadata: &'a [(String, String)],
    pub(super) tensors: Vec<(&'a str, TensorInfo)>,
}

impl NewHeader<'_> {
    /// The first bytes of the file, padded with blanks so that the data start at a multiple of `alignment`.
    ///
    /// # Errors
    /// `InvalidInput` if it exceeds the format's limit.
    pub(super) fn bytes(&self, alignment: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; LENGTH as usize];
        serde_json::to_writer(&mut bytes, self)
            .map_err(|error| Error::new(Kind::Internal, format!("The header cannot be written: {error}.")))?;
        bytes.resize(bytes.len().next_multiple_of(alignment), b' ');
        let length = bytes.len() as u64 - LENGTH;
        if length > LONGEST {
            bail!(InvalidInput, "Names and metadata take {length} bytes, but the format allows {LONGEST}.");
        }
        bytes[..LENGTH as usize].copy_from_slice(&length.to_le_bytes());
        Ok(bytes)
    }
}

impl Serialize for NewHeader<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry(METADATA, &Texts(self.metadata))?;
        }
        for (name, info) in &self.tensors {
            map.serialize_entry(name, info)?;
        }
        map.end()
    }
}

/// Strings as a JSON object, in their order.
pub(super) struct Texts<'a, T>(pub(super) &'a [(T, T)]);

impl<T: Serialize> Serialize for Texts<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, text)| (name, text)))
    }
}
