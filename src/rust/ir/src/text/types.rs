//! Types in text, and what is in strings.

use super::constant::byte;
use super::read::utf8;
use super::{end_of_brackets, end_of_item, is_in_name, strings_and_comments};
use crate::module::{Attribute, Element, Tensor, Type};
use std::borrow::Cow;
use std::sync::Arc;

/// The type at the start of a text, and its length.
pub(super) fn kind(rest: &[u8]) -> (Type, usize) {
    let word = rest.iter().take_while(|&&byte| is_in_name(byte) || byte == b'!').count();
    let spaces = rest[word..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let start = word + if word > 0 { spaces } else { 0 };
    let is_open = rest[start..].starts_with(b"<") || (word == 0 && rest.starts_with(b"("));
    let len = if is_open { end_of_brackets(&rest[start..]).map_or(rest.len(), |len| start + len) } else { word };
    let text = &rest[..len];
    let inner = (is_open && &rest[..word] == b"tensor").then(|| &rest[start + 1..len]);
    let kind = match inner.map(|inner| inner.strip_suffix(b">").unwrap_or(inner)) {
        Some(inner) => array(inner),
        None if text == b"!stablehlo.token" => Type::Token,
        None => match Element::of(&utf8(text)) {
            Element::Other(name) => Type::Other(name),
            number => Type::Number(number),
        },
    };
    (kind, len)
}

/// An array, from what is in its brackets.
fn array(inner: &[u8]) -> Type {
    let mut plain = Cow::Borrowed(inner);
    for comment in strings_and_comments(inner).filter(|found| inner[found.start] == b'/') {
        plain.to_mut()[comment].fill(b' ');
    }
    let inner = &*plain;
    let (shape, rest) = inner.split_at(end_of_item(inner));
    let mut shape = utf8(shape);
    if shape.bytes().any(|byte| byte <= b' ') {
        shape = shape.replace(|c: char| c <= ' ', "").into();
    }
    let encoding = rest.strip_prefix(b",").map(|rest| utf8(&rest[..end_of_item(rest)])).map(|text| {
        match text.trim().strip_prefix("#stablehlo.bounds<") {
            Some(bounds) => Attribute::Bounds(bounds.trim_end_matches('>').split(',').map(size).collect()),
            None => Attribute::Other(text.trim().into()),
        }
    });
    let (mut rest, mut dims) = (&*shape, Vec::new());
    while let Some((dim, after)) = rest.split_once('x') {
        match dim {
            "*" => return Type::Unranked(Element::of(after)),
            "?" => dims.push(-1),
            _ if !dim.is_empty() && dim.bytes().all(|byte| byte.is_ascii_digit()) => dims.push(size(dim)),
            _ => break,
        }
        rest = after;
    }
    Type::Tensor(Arc::new(Tensor { dims, element: Element::of(rest), encoding }))
}

/// A size; negative if it is not known.
fn size(text: &str) -> i64 {
    text.trim().parse().unwrap_or(-1)
}

/// The content of a string: a backslash stands before a quote, a backslash, a letter or two hexadecimal digits.
pub(super) fn unescaped(mut text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(plain) = memchr::memchr(b'\\', text) else { return Some(text.into()) };
    let mut bytes = text[..plain].to_vec();
    text = &text[plain..];
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
            _ => (byte(rest.get(..2)?)?, 2),
        };
        bytes.push(byte);
        text = &rest[len..];
    }
    Some(bytes.into())
}
