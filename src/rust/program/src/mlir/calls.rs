//! The calls between functions. A compiler follows them, and never returns from a recursive function.

use super::{functions, is_in_name};
use crate::depth;
use std::collections::HashMap;

/// A function calls itself, perhaps through others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recursion;

/// The nesting depth of calls.
///
/// # Errors
/// For recursion.
pub(super) fn depth(text: &[u8], code: &[u8]) -> Result<usize, Recursion> {
    // From a function's name up to the next function.
    let starts: Vec<usize> = functions(code).map(|(_, rest)| code.len() - rest.0.len()).chain([code.len()]).collect();
    let bodies: Vec<_> = starts.windows(2).map(|part| symbols(text, code, part[0]..part[1])).collect();
    let mut numbers = HashMap::new();
    for (number, symbols) in bodies.iter().enumerate() {
        if let Some(name) = symbols.first() {
            numbers.entry(*name).or_insert(number);
        }
    }
    let called = |name: &&[u8]| numbers.get(name).copied();
    depth::deepest(bodies.len(), |number| Ok(bodies[number].iter().skip(1).filter_map(called).collect()), || Recursion)
}

/// The symbols in a part of a program, such as `f` in `@f`, except for those of custom calls.
fn symbols<'a>(text: &'a [u8], code: &[u8], part: std::ops::Range<usize>) -> Vec<&'a [u8]> {
    let starts = part.filter(|&i| code[i] == b'@' && !code[..i].trim_ascii_end().ends_with(b"custom_call"));
    let name = |start: usize| {
        let len = code[start + 1..].iter().take_while(|&&byte| is_in_name(byte)).count();
        let name = &text[start + 1..start + 1 + len];
        name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name)
    };
    starts.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::blank_strings_and_comments;

    fn of(text: &str) -> Result<usize, Recursion> {
        depth(text.as_bytes(), &blank_strings_and_comments(text.as_bytes()))
    }

    #[test]
    fn calls_nest() {
        assert_eq!(of("module {}"), Ok(0));
        assert_eq!(of("func.func @main() { return }"), Ok(1));
        assert_eq!(of("func.func @main() { call @f() call @\"g\"() } func.func private @f() { func.call @g() } func.func @g() {}"), Ok(3));
        assert_eq!(of("func.func @main() { custom_call @main() // @main\n \"@main\" }"), Ok(1));
    }

    #[test]
    fn recursion_is_found() {
        assert_eq!(of("func.func @main() { call @main() }"), Err(Recursion));
        assert_eq!(
            of("func.func @main() { \"func.call\"() {callee = @f} } func.func @f() { call @main() }"),
            Err(Recursion)
        );
    }
}
