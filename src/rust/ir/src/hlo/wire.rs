//! Fields of protocol buffers as they are, so that a message can be changed in part and keeps fields that are unknown here.

use super::{HloInstructionProto, HloModuleProto};
use pjrt_base::error::{Error, Kind, Result};
use prost::encoding::{decode_key, decode_varint, encode_key, encode_varint, WireType};

/// The numbers of fields of `HloModuleProto`, `HloComputationProto` and `HloInstructionProto`.
pub mod field {
    pub const COMPUTATION: u32 = 3;
    pub const INSTRUCTION: u32 = 2;
    pub const ROOT: u32 = 6;
    pub const NAME: u32 = 1;
    pub const SHAPE: u32 = 3;
    pub const ID: u32 = 35;
    pub const OPERANDS: u32 = 36;
    pub const IS_STABLE: u32 = 60;
}

/// A field of a message.
pub struct Field<'a> {
    pub number: u32,
    /// The whole field, with its key.
    pub raw: &'a [u8],
    /// What a field of bytes, text or a message holds; empty for other fields.
    pub content: &'a [u8],
}

/// The fields of a message in their order.
///
/// # Errors
/// `InvalidFile` if the bytes are not a message.
pub fn fields(message: &[u8]) -> Result<Vec<Field<'_>>> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let start = rest;
        let damaged = |error: prost::DecodeError| damage(&error.to_string());
        let (number, wire) = decode_key(&mut rest).map_err(damaged)?;
        let len = match wire {
            WireType::Varint => decode_varint(&mut rest).map(|_| 0).map_err(damaged)?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => decode_varint(&mut rest).map_err(damaged)?,
            WireType::StartGroup | WireType::EndGroup => return Err(damage("it has groups")),
        };
        let len = usize::try_from(len).ok().filter(|&len| len <= rest.len()).ok_or_else(|| damage("it ends early"))?;
        let content = if wire == WireType::LengthDelimited { &rest[..len] } else { &[] };
        rest = &rest[len..];
        found.push(Field { number, raw: &start[..start.len() - rest.len()], content });
    }
    Ok(found)
}

/// The fields of a message. Fields with this number come with the items that were decoded from them, and the items' places.
///
/// # Errors
/// `InvalidFile` if the bytes are not a message.
pub fn fields_with<'a, T>(
    message: &'a [u8],
    number: u32,
    items: &'a [T],
) -> Result<impl Iterator<Item = (Field<'a>, Option<(usize, &'a T)>)>> {
    let mut items = items.iter().enumerate();
    let with_item = move |field: Field<'a>| {
        let item = if field.number == number { items.next() } else { None };
        (field, item)
    };
    Ok(fields(message)?.into_iter().map(with_item))
}

/// A module with other instructions. `change` gets the place of the computation of each, the instruction and its content; it writes
/// the fields that stand there instead, or returns `false` to keep it.
///
/// # Errors
/// `InvalidFile` for a damaged module.
pub fn with_instructions(
    code: &[u8],
    module: &HloModuleProto,
    mut change: impl FnMut(usize, &HloInstructionProto, &[u8], &mut Vec<u8>) -> bool,
) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(code.len());
    for (field, computation) in fields_with(code, field::COMPUTATION, &module.computations)? {
        let Some((place, computation)) = computation else {
            out.extend_from_slice(field.raw);
            continue;
        };
        let mut content = Vec::with_capacity(field.content.len());
        for (part, instruction) in fields_with(field.content, field::INSTRUCTION, &computation.instructions)? {
            if !instruction.is_some_and(|(_, of)| change(place, of, part.content, &mut content)) {
                content.extend_from_slice(part.raw);
            }
        }
        put(&mut out, field::COMPUTATION, &content);
    }
    Ok(out)
}

/// A module with further fields in some instructions: those that `added` returns, encoded, for the place of a computation and an
/// instruction in it. Of a field that is there twice, the last counts.
///
/// # Errors
/// `InvalidFile` for a damaged module.
pub fn with_added(
    code: &[u8],
    module: &HloModuleProto,
    added: impl Fn(usize, &HloInstructionProto) -> Option<Vec<u8>>,
) -> Result<Vec<u8>> {
    with_instructions(code, module, |place, instruction, content, out| {
        let Some(added) = added(place, instruction) else { return false };
        put(out, field::INSTRUCTION, &[content, &added].concat());
        true
    })
}

/// The error for a module that is not one.
pub fn damage(why: &str) -> Error {
    Error::new(Kind::InvalidFile, format!("The HLO module is damaged: {why}."))
}

/// Appends a field that holds bytes, text or a message.
pub fn put(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_to_the_letter() {
        let mut message = vec![0x08, 0x96, 0x01, 0x15, 1, 2, 3, 4];
        put(&mut message, 3, b"name");
        let found = fields(&message).unwrap();
        assert_eq!(found.iter().map(|field| field.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(found[2].content, b"name");
        assert_eq!(found.iter().flat_map(|field| field.raw.to_vec()).collect::<Vec<_>>(), message);
        for end in 1..message.len() {
            let _ = fields(&message[..end]);
        }
        assert!(fields(&message[..message.len() - 1]).is_err() && fields(&[0xff; 12]).is_err());
    }
}
