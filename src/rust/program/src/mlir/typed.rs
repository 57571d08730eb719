//! Custom calls by XLA's older interface, rewritten to its typed one.

use super::{blank_strings_and_comments, is_in_name, split};
use memchr::memmem;
use std::ops::Range;

/// The attributes of a custom call that the typed interface has in another form. Without layouts, rows are contiguous.
const REPLACED: [&[u8]; 4] = [b"api_version", b"backend_config", b"operand_layouts", b"result_layouts"];

const TYPED: &str = "api_version = 4 : i32";

/// The text with the calls of `target` typed and without layouts; `None` if it has no such calls.
pub(crate) fn with_typed_calls(text: &[u8], target: &str) -> Option<Vec<u8>> {
    let target = target.as_bytes();
    // Most programs have none, and need no copy.
    let mut places = memmem::find_iter(text, target).peekable();
    places.peek()?;
    let code = blank_strings_and_comments(text);
    let source = Source { text, code: &code };
    let (mut rewritten, mut done) = (Vec::new(), 0);
    for place in places {
        let name = place..place + target.len();
        let Some((range, attributes)) = source.called(&name).or_else(|| source.named(&name)) else { continue };
        if range.start < done || source.is_typed(&attributes) {
            continue;
        }
        rewritten.extend_from_slice(&text[done..range.start]);
        let kept = attributes.into_iter().filter(|attribute| !REPLACED.contains(&source.key(attribute)));
        let parts: Vec<_> = std::iter::once(TYPED.as_bytes()).chain(kept.map(|part| text[part].trim_ascii())).collect();
        rewritten.extend_from_slice(if range.is_empty() { b" {" } else { b"{" });
        rewritten.extend_from_slice(&parts.join(&b", "[..]));
        rewritten.push(b'}');
        done = range.end;
    }
    if done == 0 {
        return None;
    }
    rewritten.extend_from_slice(&text[done..]);
    Some(rewritten)
}

/// A program, with and without its strings and comments.
struct Source<'a> {
    text: &'a [u8],
    code: &'a [u8],
}

/// Where a call's attributes are, with their brackets, and each of them.
type Attributes = (Range<usize>, Vec<Range<usize>>);

impl Source<'_> {
    /// The attributes of `custom_call @name(..) {..}`. Without attributes, where they belong.
    fn called(&self, name: &Range<usize>) -> Option<Attributes> {
        let is_quoted = self.text[..name.start].ends_with(b"\"") && self.text[name.end..].starts_with(b"\"");
        let quote = usize::from(is_quoted);
        let before = self.code[..name.start - quote].strip_suffix(b"@")?.trim_ascii_end();
        let ends = is_quoted || !self.code.get(name.end).is_some_and(|&byte| is_in_name(byte));
        if !ends || !before.ends_with(b"custom_call") {
            return None;
        }
        let operands = self.skip_space(name.end + quote);
        let end = self.closing(operands, b'(', b')')?;
        let start = self.skip_space(end);
        match self.closing(start, b'{', b'}') {
            Some(close) => Some((start..close, self.list(start + 1..close - 1))),
            None => Some((end..end, Vec::new())),
        }
    }

    /// The attributes that hold `call_target_name = "name"`.
    fn named(&self, name: &Range<usize>) -> Option<Attributes> {
        let before = self.text[..name.start].strip_suffix(b"\"")?;
        if !self.text[name.end..].starts_with(b"\"") {
            return None;
        }
        let key = self.code[..before.len()].trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end();
        if !key.ends_with(b"call_target_name") {
            return None;
        }
        let mut depth = 0usize;
        let start = (0..key.len()).rev().find(|&i| match self.code[i] {
            b'}' => {
                depth += 1;
                false
            }
            b'{' if depth == 0 => true,
            b'{' => {
                depth -= 1;
                false
            }
            _ => false,
        })?;
        let close = self.closing(start, b'{', b'}')?;
        Some((start..close, self.list(start + 1..close - 1)))
    }

    fn skip_space(&self, from: usize) -> usize {
        from + self.code[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// Where a bracket that opens at `start` has closed.
    fn closing(&self, start: usize, open: u8, close: u8) -> Option<usize> {
        if self.code.get(start) != Some(&open) {
            return None;
        }
        let mut depth = 0usize;
        for (i, &byte) in self.code.iter().enumerate().skip(start) {
            if byte == open {
                depth += 1;
            } else if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
        }
        None
    }

    /// The parts of a list between commas.
    fn list(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let list = &self.code[range.clone()];
        let position = |part: &[u8]| range.start + (part.as_ptr() as usize - list.as_ptr() as usize);
        split(list).map(|part| position(part)..position(part) + part.len()).collect()
    }

    fn key(&self, attribute: &Range<usize>) -> &[u8] {
        let attribute = self.code[attribute.clone()].trim_ascii();
        let len = attribute.iter().take_while(|&&byte| is_in_name(byte)).count();
        &attribute[..len]
    }

    /// Whether a call has the typed interface.
    fn is_typed(&self, attributes: &[Range<usize>]) -> bool {
        attributes.iter().any(|attribute| {
            let value = self.code[attribute.clone()].trim_ascii().strip_prefix(b"api_version").map(<[u8]>::trim_ascii);
            let value = value.and_then(|value| value.strip_prefix(b"=")).map(<[u8]>::trim_ascii_start);
            value.is_some_and(|value| value.starts_with(b"4"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        with_typed_calls(text.as_bytes(), "Lu").map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn calls_of_the_target_become_typed() {
        for (before, after) in [
            ("%0 = stablehlo.custom_call @Lu(%x) : t", "%0 = stablehlo.custom_call @Lu(%x) {api_version = 4 : i32} : t"),
            (
                "%0:3 = custom_call @\"Lu\" (%x, %y)\n {api_version = 2 : i32, a = {b = \"}\", c}, backend_config = \"{\"} : t",
                "%0:3 = custom_call @\"Lu\" (%x, %y)\n {api_version = 4 : i32, a = {b = \"}\", c}} : t",
            ),
            (
                "custom_call @Lu(%x) {operand_layouts = [dense<[0, 1]> : t], result_layouts = [dense<[0, 1]> : t]} : t",
                "custom_call @Lu(%x) {api_version = 4 : i32} : t",
            ),
            (
                "\"stablehlo.custom_call\"(%0) <{api_version = 1 : i32, call_target_name = \"Lu\", x = [{}]}> : t",
                "\"stablehlo.custom_call\"(%0) <{api_version = 4 : i32, call_target_name = \"Lu\", x = [{}]}> : t",
            ),
            (
                "custom_call @Lu(%x) {} : t \n call @A() : t custom_call @Lu() : t",
                "custom_call @Lu(%x) {api_version = 4 : i32} : t \n call @A() : t custom_call @Lu() {api_version = 4 : i32} : t",
            ),
        ] {
            assert_eq!(rewritten(before).as_deref(), Some(after));
            assert_eq!(rewritten(after), None);
        }
    }

    #[test]
    fn other_uses_of_the_name_stay() {
        for text in [
            "",
            "func.func @main() { return }",
            "call @Lu(%x) : t",
            "custom_call @Lu2(%x) : t",
            "custom_call @a.Lu(%x) : t",
            "custom_call @ALu(%x) : t",
            "// custom_call @Lu(%x) : t",
            "a = \"custom_call @Lu(%x) : t\"",
            "a = \"call_target_name = \\\"Lu\\\"\"",
            "{other_name = \"Lu\"}",
            "call_target_name = \"Lu\"",
            "custom_call @Lu",
            "custom_call @Lu(",
            "\"Lu",
            "Lu\"",
            "{call_target_name = \"Lu\"",
        ] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }
}
