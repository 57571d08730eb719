//! Types and attributes in text. `code` is the text without strings and comments.

use super::{end_of_brackets, end_of_string, is_in_name, split};
use crate::module::{Attribute, Element, Gather, Name, Tensor, Type};
use pjrt_data::dtype::DType;
use std::sync::Arc;

fn utf8(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The type at the start of a text, and its length.
pub(super) fn kind(code: &[u8]) -> (Type, usize) {
    let spaces = code.len() - code.trim_ascii_start().len();
    let rest = &code[spaces..];
    let word = rest.iter().take_while(|&&byte| is_in_name(byte) || byte == b'!').count();
    let bracket = usize::from(rest[word..].starts_with(b"<") || (word == 0 && rest.starts_with(b"(")));
    let len = if bracket > 0 { end_of_brackets(&rest[word..]).map_or(rest.len(), |len| word + len) } else { word };
    let text = &rest[..len];
    let tensor = text.strip_prefix(b"tensor<").map(|inner| inner.strip_suffix(b">").unwrap_or(inner));
    let kind = match tensor {
        Some(inner) => array(inner),
        None if text == b"!stablehlo.token" => Type::Token,
        None => match element(&utf8(text)) {
            Element::Other(name) => Type::Other(name),
            number => Type::Number(number),
        },
    };
    (kind, spaces + len)
}

fn element(name: &str) -> Element {
    if name == "index" {
        return Element::Index;
    }
    DType::from_mlir(name).map_or_else(|| Element::Other(name.into()), Element::Number)
}

/// An array, from what is in its brackets.
fn array(inner: &[u8]) -> Type {
    let mut parts = split(inner);
    let shape = utf8(parts.next().unwrap_or_default()).replace(|c: char| c.is_ascii_whitespace(), "");
    let encoding = parts.next().map(utf8).map(|text| match text.trim().strip_prefix("#stablehlo.bounds<") {
        Some(bounds) => Attribute::Bounds(bounds.trim_end_matches('>').split(',').map(size).collect()),
        None => Attribute::Other(text.trim().into()),
    });
    let (mut rest, mut dims) = (shape.as_str(), Vec::new());
    while let Some((dim, after)) = rest.split_once('x') {
        match dim {
            "*" => return Type::Unranked(element(after)),
            "?" => dims.push(-1),
            _ if !dim.is_empty() && dim.bytes().all(|byte| byte.is_ascii_digit()) => dims.push(size(dim)),
            _ => break,
        }
        rest = after;
    }
    Type::Tensor(Arc::new(Tensor { dims, element: element(rest), encoding }))
}

/// A size; negative if it is not known.
fn size(text: &str) -> i64 {
    text.trim().parse().unwrap_or(-1)
}

/// The attribute in a text. Of those that are not needed, the text.
pub(super) fn attribute(text: &[u8], code: &[u8]) -> Attribute {
    let start = code.len() - code.trim_ascii_start().len();
    let end = start + code[start..].trim_ascii_end().len();
    let (text, code) = (&text[start..end], &code[start..end]);
    let other = || Attribute::Other(utf8(text).into());
    match text.first() {
        Some(b'"') => match text.get(1..end_of_string(text, 0) - 1).and_then(unescaped) {
            Some(bytes) => Attribute::String(bytes.into()),
            None => other(),
        },
        Some(b'{') => {
            let end = end_of_brackets(code).map_or(code.len(), |end| end - 1);
            Attribute::Dictionary(dictionary(&text[1..end], &code[1..end]).into())
        }
        Some(b'@') => Attribute::symbol(utf8(&text[1..]).trim_matches('"').into()),
        Some(b'[') => numbers(&code[1..]).map_or_else(other, Attribute::Numbers),
        _ if code.starts_with(b"array<i") => {
            let list = code.iter().position(|&byte| byte == b':').map_or(&code[code.len()..], |at| &code[at + 1..]);
            numbers(list).map_or_else(other, Attribute::Numbers)
        }
        _ if code.starts_with(b"dense<") => {
            let end = end_of_brackets(&code[5..]).map_or(code.len(), |len| 5 + len);
            Attribute::Other(utf8(&text[..end]).into())
        }
        _ if code.starts_with(b"#stablehlo.gather<") => {
            let whole = utf8(text);
            let list = |name: &str| {
                let (_, list) = whole.split_once(&format!("{name} = [")).unwrap_or_default();
                numbers(list.as_bytes()).map(|list| list.to_vec()).unwrap_or_default()
            };
            let gather = Gather {
                offset_dims: list("offset_dims"),
                collapsed_slice_dims: list("collapsed_slice_dims"),
                ..Gather::default()
            };
            Attribute::Gather(Arc::new(gather))
        }
        _ => match code.iter().position(|&byte| byte == b':').map_or((code, &[][..]), |at| code.split_at(at)) {
            (b"true", _) => Attribute::Bool(true),
            (b"false", _) => Attribute::Bool(false),
            (value, kind) => match utf8(value).trim().parse() {
                Ok(value) => Attribute::Integer(value, element(utf8(kind).trim_matches([':', ' ']))),
                Err(_) => other(),
            },
        },
    }
}

/// The items of a dictionary, from what is in its braces.
pub(super) fn dictionary(text: &[u8], code: &[u8]) -> Vec<(Name, Attribute)> {
    let item = |part: &[u8]| {
        let start = part.as_ptr() as usize - code.as_ptr() as usize;
        let of_text = &text[start..start + part.len()];
        let (key, value) = match part.iter().position(|&byte| byte == b'=') {
            Some(at) => (at, attribute(&of_text[at + 1..], &part[at + 1..])),
            None => (part.len(), Attribute::Unit),
        };
        let spaces = part.len() - part.trim_ascii_start().len();
        let key = utf8(of_text.get(spaces..key).unwrap_or_default());
        (key.trim().trim_matches('"').into(), value)
    };
    split(code).map(item).collect()
}

/// A list of integers up to its bracket.
fn numbers(code: &[u8]) -> Option<Arc<[i64]>> {
    let list = code.split(|byte| matches!(byte, b']' | b'>')).next()?;
    split(list).map(|number| std::str::from_utf8(number).ok()?.trim().parse().ok()).collect()
}

/// The content of a string: a backslash stands before a quote, a backslash, a letter or two hexadecimal digits.
pub(super) fn unescaped(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        text = rest;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let (byte, len) = match rest.first()? {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            &byte @ (b'"' | b'\\') => (byte, 1),
            _ => (u8::from_str_radix(std::str::from_utf8(rest.get(..2)?).ok()?, 16).ok()?, 2),
        };
        bytes.push(byte);
        text = &rest[len..];
    }
    Some(bytes)
}
