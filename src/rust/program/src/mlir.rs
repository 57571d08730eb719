//! Checks of MLIR text: constructs that crash XLA's compiler instead of raising an error. Also reads the names of the
//! inputs.

use crate::annotations::Annotations;
use crate::sizes;
use memchr::{memchr, memchr2, memchr3, memmem};
use pjrt_base::error::Result;
use pjrt_data::array::Spec;
use std::borrow::Cow;

mod annotations;
mod calls;
mod dynamic;
mod narrow;
mod nesting;

pub(crate) use dynamic::{arrays_of_unknown_types, dynamic_arrays};
pub use narrow::narrow_findings;

/// The nesting from which on the compiler would overflow the stack, with a margin; also the limit of dimensions, which
/// take it seconds.
const MAX_NESTING: usize = 2000;

/// Checks a program's text.
///
/// # Errors
/// `InvalidInput` for text nested too deep, functions without a body or that call themselves, and arrays with too many
/// dimensions.
pub fn check(text: &[u8]) -> Result<()> {
    let text = without_data(text);
    check_code(&text, &blank_strings_and_comments(&text))
}

/// The same, with the program's annotations about devices.
///
/// # Errors
/// The errors of [`check`].
pub fn read(text: &[u8]) -> Result<Annotations> {
    let text = without_data(text);
    let code = blank_strings_and_comments(&text);
    check_code(&text, &code)?;
    Ok(annotations::read(&text, &code))
}

fn check_code(text: &[u8], code: &[u8]) -> Result<()> {
    let depth = nesting::depth(code);
    if depth > MAX_NESTING {
        bail!(InvalidInput, "The program nests {depth} levels deep; the limit is {MAX_NESTING}.");
    }
    let rank = rank(code);
    if rank > MAX_NESTING {
        bail!(InvalidInput, "An array of the program has {rank} dimensions; the limit is {MAX_NESTING}.");
    }
    match calls::depth(text, code) {
        Ok(depth) if depth > MAX_NESTING => {
            bail!(InvalidInput, "Calls in the program nest {depth} levels deep; the limit is {MAX_NESTING}.");
        }
        Ok(_) => {}
        Err(calls::Recursion) => {
            bail!(InvalidInput, "A function of the program calls itself; XLA cannot compile recursion.")
        }
    }
    if let Some(line) = function_without_body(code) {
        bail!(InvalidInput, "The function on line {line} of the program has no body; XLA cannot compile declarations.");
    }
    sizes::check_text(code)?;
    if let Some(dim) = far_dimension(code) {
        bail!(InvalidInput, "A convolution of the program refers to dimension {dim}, which is too high.");
    }
    Ok(())
}

/// The arguments and results of the function `main`, if all are arrays of fixed shapes.
pub fn specs(text: &[u8]) -> Option<(Vec<Spec>, Vec<Spec>)> {
    let text = without_data(text);
    annotations::specs(&text, &blank_strings_and_comments(&text))
}

/// The names of the arguments of the function `main` in the text, such as `%x`; empty if it has none.
pub fn argument_names(text: &[u8]) -> Vec<String> {
    let text = without_data(text);
    let code = blank_strings_and_comments(&text);
    main_function(&text, &code).and_then(|mut rest| rest.argument_names()).unwrap_or_default()
}

/// The names of all functions, such as `@f`.
pub(crate) fn function_names(text: &[u8]) -> Vec<String> {
    let text = without_data(text);
    let code = blank_strings_and_comments(&text);
    let name = |mut rest: Rest<'_>| {
        rest.skip_visibility();
        let len = rest.0.strip_prefix(b"@")?.iter().take_while(|&&byte| is_in_name(byte)).count();
        let start = code.len() - rest.0.len();
        Some(String::from_utf8_lossy(&text[start..=start + len]).into_owned())
    };
    functions(&code).filter_map(|(_, rest)| name(rest)).collect()
}

/// The name of the module, without its `@`.
pub(crate) fn module_name(text: &[u8]) -> Option<String> {
    const START: &[u8] = b"module @";
    let code = blank_strings_and_comments(text);
    let at = memmem::find(&code, START)? + START.len();
    let name: Vec<u8> = text[at..].iter().copied().take_while(|&byte| is_in_name(byte)).collect();
    String::from_utf8(name).ok()
}

/// The function `main`, from its name on; `code` is the text without strings and comments.
fn main_function<'a>(text: &[u8], code: &'a [u8]) -> Option<Rest<'a>> {
    functions(code).find_map(|(_, mut rest)| {
        rest.skip_visibility();
        let symbol = code.len() - rest.0.len();
        let is_main = [&b"@main"[..], b"@\"main\""].iter().any(|name| {
            let end = symbol + name.len();
            text[symbol..].starts_with(name) && !code.get(end).is_some_and(|&byte| is_in_name(byte))
        });
        is_main.then_some(rest)
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

/// The text with long strings of hexadecimal digits cut short: the numbers of a model, which no check reads.
pub(crate) fn without_data(text: &[u8]) -> Cow<'_, [u8]> {
    const START: &[u8] = b"\"0x";
    const KEPT: usize = 64;
    let mut short = Vec::new();
    // Up to here, the text is copied.
    let mut copied = 0;
    let mut i = 0;
    while let Some(found) = memchr2(b'"', b'/', &text[i..]) {
        let start = i + found;
        if text[start] == b'/' {
            i = start + 1;
            if text.get(i) == Some(&b'/') {
                i = memchr(b'\n', &text[i..]).map_or(text.len(), |end| i + end);
            }
            continue;
        }
        i = end_of_string(text, start);
        if i - start > 3 * KEPT && text[start..].starts_with(START) && memchr(b'\n', &text[start..i]).is_none() {
            short.extend_from_slice(&text[copied..start + KEPT]);
            copied = i - KEPT;
        }
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
pub(crate) fn blank_strings_and_comments(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut i = 0;
    while let Some(found) = memchr3(b'"', b'/', 0, &code[i..]) {
        let start = i + found;
        i = start + 1;
        match code[start] {
            b'"' => {
                i = end_of_string(text, start);
                code[start..i].fill(b'_');
            }
            b'/' if code.get(i) == Some(&b'/') => {
                i = memchr(b'\n', &code[i..]).map_or(code.len(), |end| i + end);
                code[start..i].fill(b' ');
            }
            0 => code[start] = b' ',
            _ => {}
        }
    }
    code
}

/// The most dimensions in a row, as in `2x3x`.
fn rank(code: &[u8]) -> usize {
    let mut most = 0;
    let mut rank = 0;
    for pair in code.windows(2) {
        match pair {
            [b'0'..=b'9' | b'?', b'x'] => rank += 1,
            [b'0'..=b'9' | b'?' | b'x', b'0'..=b'9' | b'?'] => {}
            _ => rank = 0,
        }
        most = most.max(rank);
    }
    most
}

/// A dimension of a convolution that no array has: the parser would allocate memory for all below it.
fn far_dimension(code: &[u8]) -> Option<&str> {
    const DIGITS: usize = 3;
    // Those of input, kernel and result.
    const LISTS: usize = 3;
    let far = |from: usize, to: usize| {
        let mut numbers = code[from..to].split(|byte| !byte.is_ascii_digit());
        numbers.find(|number| number.len() > DIGITS).and_then(|number| std::str::from_utf8(number).ok())
    };
    let (mut left, mut list) = (0, 0);
    for (i, &byte) in code.iter().enumerate() {
        if (byte == b'd' && code[i..].starts_with(b"dim_numbers")) || (byte == b'c' && code[i..].starts_with(b"conv<"))
        {
            left = LISTS;
        }
        if byte == b']' && left > 0 {
            if let Some(dim) = far(list, i) {
                return Some(dim);
            }
            left -= 1;
        }
        if matches!(byte, b'[' | b']') {
            list = i + 1;
        }
    }
    // One that is not closed.
    (left > 0).then(|| far(list, code.len())).flatten()
}

/// The line of the first `func.func` that declares a function without defining it. The compiler raises an error for
/// invalid functions.
fn function_without_body(code: &[u8]) -> Option<usize> {
    let (start, _) = functions(code).find(|(_, rest)| Rest(rest.0).skip_signature() == Some(false))?;
    Some(1 + code[..start].iter().filter(|&&b| b == b'\n').count())
}

/// Every function: the position of its keyword, and the text after it.
fn functions(code: &[u8]) -> impl Iterator<Item = (usize, Rest<'_>)> {
    const KEYWORD: &[u8] = b"func.func";
    memmem::find_iter(code, KEYWORD).map(|start| (start, Rest(&code[start + KEYWORD.len()..])))
}

pub(crate) fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.$-".contains(&byte)
}

/// The parts of a list between commas outside of brackets; empty for an empty list.
pub(crate) fn split(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut depth = 0usize;
    let mut last = 0;
    let parts = list.split(move |&byte| {
        match byte {
            b',' if depth == 0 => return true,
            b'{' | b'(' | b'[' | b'<' => depth += 1,
            // The end of an arrow.
            b'>' if last == b'-' => {}
            b'}' | b')' | b']' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        last = byte;
        false
    });
    parts.filter(|part| !part.trim_ascii().is_empty())
}

/// The position after the first pair of angle brackets.
pub(crate) fn end_of_brackets(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut i = 0;
    while let Some(&byte) = text.get(i) {
        i = if byte == b'"' { end_of_string(text, i) } else { i + 1 };
        match byte {
            b'<' => depth += 1,
            b'>' if depth <= 1 => return (depth == 1).then_some(i),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The rest of a function's text.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Reads name, arguments, results and attributes, and returns whether a body follows; `None` for anything else.
    fn skip_signature(&mut self) -> Option<bool> {
        self.skip_visibility();
        if !self.skip(b"@") {
            return None;
        }
        self.skip_name();
        self.skip_brackets(b'(')?;
        if self.skip(b"->") && self.skip_brackets(b'(').is_none() {
            self.skip_type();
        }
        if self.skip(b"attributes") {
            self.skip_brackets(b'{')?;
        }
        Some(self.trimmed().first() == Some(&b'{'))
    }

    /// The names in the argument list that comes after the function's own name.
    fn argument_names(&mut self) -> Option<Vec<String>> {
        self.skip(b"@");
        self.skip_name();
        let name = |argument: &[u8]| {
            let start = argument.iter().position(|&byte| byte == b'%')?;
            let len = argument[start + 1..].iter().take_while(|&&byte| is_in_name(byte)).count();
            Some(String::from_utf8_lossy(&argument[start..=start + len]).into_owned())
        };
        Some(split(self.brackets()?).filter_map(name).collect())
    }

    /// Skips the next round brackets, and returns their content.
    fn brackets(&mut self) -> Option<&'a [u8]> {
        let start = self.trimmed().len();
        let whole = self.0;
        self.skip_brackets(b'(')?;
        Some(&whole[1..start - self.0.len() - 1])
    }

    fn trimmed(&mut self) -> &'a [u8] {
        self.0 = self.0.trim_ascii_start();
        self.0
    }

    /// Skips `word` if it comes next.
    fn skip(&mut self, word: &[u8]) -> bool {
        match self.trimmed().strip_prefix(word) {
            Some(_) => {
                self.0 = &self.0[word.len()..];
                true
            }
            None => false,
        }
    }

    fn skip_visibility(&mut self) {
        for visibility in [&b"public "[..], b"private ", b"nested "] {
            self.skip(visibility);
        }
        self.trimmed();
    }

    fn skip_name(&mut self) {
        let end = self.0.iter().position(|&byte| !is_in_name(byte));
        self.0 = &self.0[end.unwrap_or(self.0.len())..];
    }

    /// Skips everything up to the bracket that closes the next one.
    fn skip_brackets(&mut self, open: u8) -> Option<()> {
        let close = if open == b'(' { b')' } else { b'}' };
        if self.trimmed().first() != Some(&open) {
            return None;
        }
        let mut depth = 0usize;
        for (i, &byte) in self.0.iter().enumerate() {
            depth += usize::from(byte == open);
            depth -= usize::from(byte == close);
            if depth == 0 {
                self.0 = &self.0[i + 1..];
                return Some(());
            }
        }
        None
    }

    /// Skips one type such as `tensor<2xf32>` or `i32`.
    fn skip_type(&mut self) {
        let mut depth = 0usize;
        let end = self.trimmed().iter().position(|&byte| {
            match byte {
                b'<' => depth += 1,
                b'>' => depth = depth.saturating_sub(1),
                _ => return depth == 0 && (byte.is_ascii_whitespace() || byte == b'{'),
            }
            false
        });
        self.0 = &self.0[end.unwrap_or(self.0.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_missing(text: &str) -> Option<usize> {
        function_without_body(&blank_strings_and_comments(text.as_bytes()))
    }

    #[test]
    fn too_deep_nesting_is_refused() {
        let message = |text: &str| check(text.as_bytes()).map_err(|error| error.message().to_string());
        for text in ["(", "module {", "tuple<", "[", "-"] {
            assert!(message(&text.repeat(3000)).is_err_and(|message| message.contains("nests 3000")), "{text}");
            assert_eq!(message(&text.repeat(1000)), Ok(()), "{text}");
            assert_eq!(message(&format!("// {0}\n\"\\\"{0}\"", text.repeat(3000))), Ok(()), "{text}");
        }
        assert!(message(&"1x".repeat(3000)).is_err_and(|message| message.contains("3000 dimensions")));
        assert_eq!(rank(b"tensor<2x3x?xf32>, tensor<4xf32>"), 3);
        let calls =
            |n: i32| -> String { (0..n).map(|i| format!("func.func @f{i}() {{ call @f{} }}", i + 1)).collect() };
        assert_eq!(message(&calls(1000)), Ok(()));
        assert!(message(&calls(3000)).is_err_and(|message| message.contains("nest 3000 levels deep")));
        assert!(message("func.func @f() { call @f() }").is_err_and(|message| message.contains("recursion")));
    }

    #[test]
    fn convolutions_have_as_many_dimensions_as_arrays() {
        let far = |text: &str| far_dimension(text.as_bytes()).map(str::to_string);
        let of = |dim: &str| format!("dim_numbers = [b, 0, 1, f]x[0, {dim}, i, o]->[b, 0, 1, f], window = [1000]");
        assert_eq!(far(&of("1")), None);
        assert_eq!(far(&of("2147483648")), Some("2147483648".into()));
        let generic = "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1024 : i64";
        assert_eq!(far(generic), None);
        assert_eq!(far(&generic.replace("[0,", "[4000,")), Some("4000".into()));
        assert!(check(of("65536").as_bytes()).is_err());
        assert_eq!(far("conv<[b, 4000"), Some("4000".into()));
        // If each read the whole rest, this would take minutes.
        assert_eq!(far(&"dim_numbers ".repeat(1_000_000)), None);
    }

    #[test]
    fn a_dialect_is_found_where_it_is_used() {
        for text in
            ["sdy.mesh @mesh = <[\"a\"=2]>", "%x: i1 {sdy.sharding = #sdy.sharding<@m, []>}", "{xla.sdy.meshes = 1}"]
        {
            assert!(names_dialect(text.as_bytes(), "sdy", true), "{text}");
        }
        for text in ["// sdy.mesh", "{a = \"sdy.mesh\"}", "%sdy.1", "@sdy.f", "the_sdy.x", "sdy", "asdy.", ""] {
            assert!(!names_dialect(text.as_bytes(), "sdy", true), "{text}");
        }
        assert!(names_dialect(b"ML\xefR\0stablehlo\0sdy\0", "sdy", false));
        assert!(names_dialect(b"ML\xefR\0sdy.sharding\0", "sdy", false));
        assert!(!names_dialect(b"ML\xefR\0stablehlo\0", "sdy", false));
    }

    #[test]
    fn functions_without_a_body_are_found() {
        assert_eq!(body_missing("func.func private @f(i32)"), Some(1));
        assert_eq!(body_missing("module {\n func.func private @\"a b\"(tensor<2xf32>) -> tensor<2xf32>\n}"), Some(2));
        assert_eq!(body_missing("func.func @g() -> (i32, i32) attributes {a = {}}\nfunc.func @h() { }"), Some(1));
        assert_eq!(body_missing("func.func @f() -> "), Some(1));
    }

    #[test]
    fn the_numbers_of_models_are_left_out() {
        let digits = "0f".repeat(1000);
        let text = |digits: &str| format!("// \"0x{digits}\"\n/ \"\\\"0x\" dense<\"0x{digits}\"> @\"{digits}\"\nx");
        let short = without_data(text(&digits).as_bytes()).into_owned();
        assert_eq!(
            short,
            text(&digits).replace(&format!("<\"0x{digits}"), &format!("<\"0x{}", "0f".repeat(62))).as_bytes()
        );
        for text in ["", "/", "\"", "\"0x", "\"\\", "//", "f // \"", &text("00"), &format!("\"0x{digits}\n\""), &digits]
        {
            assert_eq!(without_data(text.as_bytes()), text.as_bytes(), "{text}");
            assert_eq!(blank_strings_and_comments(text.as_bytes()).len(), text.len());
        }
        let cut = format!("func.func @f() {{ \"0x{digits}\" }} // x\nfunc.func @main(%x: i32)");
        assert_eq!(argument_names(cut.as_bytes()), ["%x"]);
        assert_eq!(
            check(cut.as_bytes()).unwrap_err().message(),
            "The function on line 2 of the program has no body; XLA cannot compile declarations."
        );
    }

    #[test]
    fn a_module_is_named_after_its_sign() {
        let name = |text: &str| module_name(text.as_bytes()).unwrap_or_default();
        assert_eq!(name("// module @no\nmodule @jit_f attributes {a} {"), "jit_f");
        assert_eq!(name("module {"), "");
        assert_eq!(name("module @"), "");
    }

    #[test]
    fn zero_bytes_count_as_whitespace() {
        assert_eq!(body_missing("func.func\0private\0@f()"), Some(1));
    }

    #[test]
    fn functions_with_a_body_and_other_operations_pass() {
        for text in [
            "func.func @main() { return }",
            "func.func public @main(%x: tensor<2xf32> {a = \"(\"}) -> tensor<2xf32>{ return %x }",
            "func.func @f() -> (tensor<f32> {b = 1}, i32) attributes {c} {\n}",
            "// func.func @f()",
            "func.func",
            "func.func @",
            "func.func @f(",
        ] {
            assert_eq!(body_missing(text), None, "{text}");
        }
    }
    #[test]
    fn the_arguments_of_main_are_found_by_name() {
        let names = |text: &str| argument_names(text.as_bytes());
        assert_eq!(names("func.func @main(%x: tensor<2xf32>, %y.1: tensor<f32>) -> tensor<f32> {"), ["%x", "%y.1"]);
        assert_eq!(
            names(
                "func.func private @f(%a: i32) { }\nfunc.func public @\"main\" (%x: tensor<2xf32, #a<[0, 1]>> \
                 {a = \", %no\", b = {c = 1, d}} loc(\"(%z\"(#loc)), // %w\n  %0: !f<(i32) -> i32, i8>)"
            ),
            ["%x", "%0"]
        );
        assert_eq!(names("func.func @mains(%a: i32) {} func.func @main () {"), [""; 0]);
        for text in
            ["", "func.func @main", "func.func @main(%x", "func.func", "func.func @f(%x: i32)", "@main(%x: i32)"]
        {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }
}
