//! MLIR text: checks for constructs that crash XLA's compiler instead of raising an error, and a reader of what it says.

use crate::module::annotations::Annotations;
use crate::module::depth;
use crate::module::sizes;
use crate::module::Operation;
use memchr::{memchr, memchr2, memchr_iter, memmem};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::ALL;
use read::Reader;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

mod attributes;
mod constant;
mod dialects;
mod nesting;
mod operation;
mod pass;
mod read;
mod types;

pub use attributes::fields;
pub use read::{attribute, constants, kind, module, whole};

/// The nesting from which on the compiler would overflow the stack, with a margin; also the limit of dimensions, which
/// take it seconds.
const MAX_NESTING: usize = 2000;

/// A program's text, ready to be read.
pub struct Source<'a> {
    /// Without the numbers of a model.
    text: Cow<'a, [u8]>,
    /// The same without strings and comments; as long.
    code: Vec<u8>,
}

impl Source<'_> {
    /// The text with everything, for positions in it.
    pub fn whole(text: &[u8]) -> Source<'_> {
        Source { text: Cow::Borrowed(text), code: blank_strings_and_comments(text) }
    }

    pub fn new(text: &[u8]) -> Source<'_> {
        let text = without_data(text);
        let code = blank_strings_and_comments(&text);
        Source { text, code }
    }
}

/// Checks a program's text, and reads its annotations about devices.
///
/// # Errors
/// `InvalidInput` for text nested too deep, functions without a body or that call themselves, and arrays with too many
/// dimensions.
pub fn check(text: &[u8]) -> Result<Annotations> {
    let source = Source::new(text);
    let code = &source.code[..];
    let depth = nesting::depth(code);
    ensure!(depth <= MAX_NESTING, InvalidInput, "The program nests {depth} levels deep; the limit is {MAX_NESTING}.");
    check_arrays(code)?;
    if let Some(dim) = far_dimension(code) {
        bail!(InvalidInput, "A convolution of the program refers to dimension {dim}, which is too high.");
    }
    let mut reader = Reader::new(&source);
    let mut annotations = Annotations::default();
    annotations.note_module(&reader.of_module().attributes);
    let functions = reader.functions(false);
    let depth = calls(&source, &functions)?;
    if depth > MAX_NESTING {
        bail!(InvalidInput, "Calls in the program nest {depth} levels deep; the limit is {MAX_NESTING}.");
    }
    for (start, function) in &functions {
        if function.regions.is_empty() {
            let line = 1 + memchr_iter(b'\n', &code[..*start]).count();
            bail!(
                InvalidInput,
                "The function on line {line} of the program has no body; XLA cannot compile declarations."
            );
        }
        annotations.note_function(function);
    }
    Ok(annotations)
}

/// The name of the module, without its `@`.
pub fn module_name(text: &[u8]) -> Option<String> {
    Reader::new(&Source::new(text)).of_module().symbol().map(str::to_owned)
}

/// The names of all functions, such as `@f`.
pub fn function_names(text: &[u8]) -> Vec<String> {
    let source = Source::new(text);
    let functions = Reader::new(&source).functions(false);
    functions.iter().filter_map(|(_, function)| Some(format!("@{}", function.symbol()?))).collect()
}

/// Whether there are arrays of types narrower than a byte.
pub fn has_narrow_arrays(text: &[u8]) -> bool {
    let names: Vec<_> =
        ALL.iter().filter(|dtype| dtype.is_packed()).map(|dtype| dtype.info().mlir.as_bytes()).collect();
    memmem::find_iter(text, b"tensor<").any(|start| {
        let inner = &text[start + b"tensor<".len()..];
        let end = inner.iter().position(|byte| matches!(byte, b'>' | b',')).unwrap_or(0);
        let inner = &inner[..end];
        // A name for an element may stand for one of these.
        inner.contains(&b'!')
            || inner.rsplit(|&byte| byte == b'x').next().is_some_and(|name| names.contains(&name.trim_ascii()))
    })
}

/// Whether a program names this dialect: in text before a dot, outside strings and comments; in bytecode also alone.
pub fn names_dialect(code: &[u8], dialect: &str, is_text: bool) -> bool {
    let found = |code: &[u8]| {
        memmem::find_iter(code, dialect).any(|i| {
            let starts = i == 0 || !(code[i - 1].is_ascii_alphanumeric() || b"_$@%".contains(&code[i - 1]));
            let end = code.get(i + dialect.len());
            starts && (end == Some(&b'.') || (end == Some(&0) && !is_text))
        })
    };
    // Most programs do not, and need no copy.
    found(code) && (!is_text || found(&blank_strings_and_comments(code)))
}

/// Where the strings and the comments of a text are.
fn strings_and_comments(text: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut end = 0;
    std::iter::from_fn(move || loop {
        let start = end + memchr2(b'"', b'/', &text[end..])?;
        end = start + 1;
        if text[start] == b'"' {
            end = end_of_string(text, start);
            return Some(start..end);
        }
        if text.get(end) == Some(&b'/') {
            end += length_of_line(&text[end..]);
            return Some(start..end);
        }
    })
}

/// How far the end of the line is, which ends a comment.
fn length_of_line(text: &[u8]) -> usize {
    memchr2(b'\n', b'\r', text).unwrap_or(text.len())
}

/// The text with long strings of hexadecimal digits cut short: the numbers of a model, which no check reads.
fn without_data(text: &[u8]) -> Cow<'_, [u8]> {
    const START: &[u8] = b"\"0x";
    const KEPT: usize = 64;
    let is_data = |string: &Range<usize>| {
        let string = &text[string.clone()];
        string.len() > 3 * KEPT && string.starts_with(START) && memchr(b'\n', string).is_none()
    };
    let mut short = Vec::new();
    // Up to here, the text is copied.
    let mut copied = 0;
    for string in strings_and_comments(text).filter(is_data) {
        short.extend_from_slice(&text[copied..string.start + KEPT]);
        copied = string.end - KEPT;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    short.extend_from_slice(&text[copied..]);
    Cow::Owned(short)
}

/// The position after the string that begins at `start`.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut i = start + 1;
    while let Some(found) = memchr2(b'"', b'\\', text.get(i..).unwrap_or_default()) {
        i += found + 1;
        if text[i - 1] == b'"' {
            return i;
        }
        // what is escaped
        i += 1;
    }
    text.len()
}

/// The text with each byte of a string replaced by `_`, and each byte of a comment by a space. Zeros become spaces,
/// too, as for the parser; line ends stay.
fn blank_strings_and_comments(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    memchr_iter(0, text).for_each(|at| code[at] = b' ');
    for found in strings_and_comments(text) {
        let blank = if text[found.start] == b'"' { b'_' } else { b' ' };
        code[found].fill(blank);
    }
    code
}

/// The position after the bracket that closes the first one.
pub fn end_of_brackets(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut i = 0;
    while let Some(&byte) = text.get(i) {
        let next = match byte {
            b'"' => end_of_string(text, i),
            b'/' if text.get(i + 1) == Some(&b'/') => i + length_of_line(&text[i..]),
            _ => i + 1,
        };
        match byte {
            b'{' | b'(' | b'[' | b'<' => depth += 1,
            // The end of an arrow.
            b'>' if i > 0 && text[i - 1] == b'-' => {}
            b'}' | b')' | b']' | b'>' if depth <= 1 => return (depth == 1).then_some(next),
            b'}' | b')' | b']' | b'>' => depth -= 1,
            _ => {}
        }
        i = next;
    }
    None
}

/// The position of the comma or the bracket that ends an item of a list; the end of the text without one.
fn end_of_item(text: &[u8]) -> usize {
    let mut i = 0;
    while let Some(&byte) = text.get(i) {
        i = match byte {
            b',' | b'}' | b')' | b']' => return i,
            b'>' if !text[..i].ends_with(b"-") => return i,
            b'{' | b'(' | b'[' | b'<' => end_of_brackets(&text[i..]).map_or(text.len(), |len| i + len),
            b'"' => end_of_string(text, i),
            _ => i + 1,
        };
    }
    i.min(text.len())
}

/// Checks arrays wherever sizes are written as in `2x3x`: the number of dimensions, and that of elements.
fn check_arrays(code: &[u8]) -> Result<()> {
    // Two sizes below 2^29 have at most nine digits each.
    const SHORT: usize = 18;
    let is_size = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'x' | b'?');
    let mut rest = code;
    while let Some(found) = rest.iter().position(|&byte| byte.is_ascii_digit() || byte == b'?') {
        let (before, found) = rest.split_at(found);
        let (sizes, after) = found.split_at(found.iter().take_while(|byte| is_size(byte)).count());
        rest = after;
        if sizes.len() < SHORT {
            continue;
        }
        let rank = sizes.windows(2).filter(|pair| pair[0] != b'x' && pair[1] == b'x').count();
        if rank > MAX_NESTING {
            bail!(InvalidInput, "An array of the program has {rank} dimensions; the limit is {MAX_NESTING}.");
        }
        if before.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.%@#".contains(byte)) {
            continue;
        }
        // The last part is the start of the element's type, or empty.
        let sizes = std::str::from_utf8(sizes).unwrap_or_default();
        let whole = sizes.rsplit_once('x').map_or("", |(all, _)| all);
        let is_known = |size: &&str| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
        sizes::check(whole.split('x').filter(is_known).map(|size| size.parse().unwrap_or(u64::MAX)))?;
    }
    Ok(())
}

/// A dimension of a convolution that no array has: the parser would allocate memory for all below it.
fn far_dimension(code: &[u8]) -> Option<&str> {
    const DIGITS: usize = 3;
    // One each for input, kernel and result.
    const LISTS: usize = 3;
    fn far(list: &[u8]) -> Option<&str> {
        let mut numbers = list.split(|byte| !byte.is_ascii_digit());
        numbers.find(|number| number.len() > DIGITS).and_then(|number| std::str::from_utf8(number).ok())
    }
    for word in [&b"dim_numbers"[..], b"conv<"] {
        let mut rest = code;
        while let Some(at) = memmem::find(rest, word) {
            rest = &rest[at + word.len()..];
            for _ in 0..LISTS {
                // A list that is not closed ends with the text.
                let (list, after) = rest.split_at(memchr(b']', rest).unwrap_or(rest.len()));
                let start = memchr::memrchr(b'[', list).unwrap_or(0);
                if let Some(dim) = far(&list[start..]) {
                    return Some(dim);
                }
                rest = after.get(1..).unwrap_or_default();
            }
        }
    }
    None
}

/// The nesting depth of calls between functions. A compiler follows them, and never returns from a recursive function.
///
/// # Errors
/// `InvalidInput` for a function that calls itself, perhaps through others.
fn calls(source: &Source<'_>, functions: &[(usize, Operation)]) -> Result<usize> {
    let code = &source.code[..];
    let mut reader = Reader::new(source);
    // Of functions of one name, the first counts.
    let named = functions.iter().enumerate().rev().filter_map(|(number, (_, of))| Some((of.symbol()?, number)));
    let numbers: HashMap<&str, usize> = named.collect();
    // The symbols up to the next function, except for custom calls' targets. The first is the function's own, which is a string in
    // generic form.
    let called = |number: usize| {
        let end = functions.get(number + 1).map_or(code.len(), |(start, _)| *start);
        let body = functions[number].0..end;
        let own = usize::from(source.text[body.start] != b'"');
        let symbols = memchr_iter(b'@', &code[body.clone()]).map(|at| body.start + at).skip(own);
        let symbols = symbols.filter(|&at| {
            let before = code[..at].trim_ascii_end();
            // Attributes of other names only mention a function.
            let key = before.strip_suffix(b"=").map(<[u8]>::trim_ascii_end);
            let is_mentioned = key.is_some_and(|key| !key.ends_with(b"callee") && !key.ends_with(b"decomposition"));
            !is_mentioned && !before.ends_with(b"custom_call")
        });
        let numbers = symbols.filter_map(|at| {
            // The reader would look for a name that does not follow at once behind all comments.
            source.text.get(at + 1).filter(|&&byte| byte == b'"' || is_in_name(byte))?;
            reader.at = at;
            numbers.get(&*reader.symbol().ok()?).copied()
        });
        Ok(numbers.collect())
    };
    let cycle = || {
        let message = "A function of the program calls itself; XLA cannot compile recursion.";
        Error::new(Kind::InvalidInput, message)
    };
    depth::deepest(functions.len(), called, cycle)
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.$-".contains(&byte)
}

#[cfg(test)]
mod tests;
