//! The nesting depth of text: the parser uses recursion.

use super::is_in_name;
use std::collections::HashMap;

/// The depth of brackets, of minus signs in a row, and of named types outside all brackets, as `!a` in `!a =
/// tuple<!b>`.
pub(super) fn depth(code: &[u8]) -> usize {
    let mut names: HashMap<&[u8], usize> = HashMap::new();
    // The name being defined, and whether its definition has begun.
    let mut naming: Option<(&[u8], bool)> = None;
    let (mut depth, mut deepest, mut signs, mut i) = (0usize, 0, 0, 0);
    while i < code.len() {
        let byte = code[i];
        let mut found = 0;
        signs = match byte {
            b'-' => signs + 1,
            _ if byte.is_ascii_whitespace() => signs,
            _ => 0,
        };
        match byte {
            b'{' | b'(' | b'[' | b'<' => {
                depth += 1;
                found = depth;
            }
            b'-' => found = depth + signs,
            // `->` does not close a bracket.
            b'>' if i > 0 && code[i - 1] == b'-' => {}
            b'}' | b')' | b']' | b'>' => depth = depth.saturating_sub(1),
            b'\n' if depth == 0 => naming = naming.filter(|&(_, has_begun)| !has_begun),
            b'!' | b'#' => {
                let len = code[i + 1..].iter().take_while(|&&byte| is_in_name(byte)).count();
                let (name, rest) = code[i..].split_at(len + 1);
                let is_named = depth == 0 && rest.trim_ascii_start().starts_with(b"=");
                if is_named {
                    naming = Some((name, false));
                } else if let Some(&below) = names.get(name) {
                    found = depth + below + 1;
                }
                // The name, and an equals sign after it.
                i += if is_named { code.len() - rest.trim_ascii_start().len() - i } else { len };
            }
            _ => {}
        }
        if let Some((name, has_begun)) = &mut naming {
            if found > 0 {
                let known = names.entry(name).or_default();
                *known = found.max(*known);
            }
            *has_begun |= code.get(i).is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'=');
        }
        deepest = deepest.max(found);
        i += 1;
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_signs_nest() {
        assert_eq!(depth(b"f(a) -> b { [_, 1] }"), 2);
        assert_eq!(depth(b"((((("), 5);
        assert_eq!(depth(b"(- - --d0) -- (-1 - -2)"), 5);
    }

    #[test]
    fn nesting_counts_through_aliases() {
        assert_eq!(depth(b"!a = tuple<i32>\n!b = tuple<!a>\n!c =\n  tuple<!b>\nf(!c) { (!c) }"), 8);
        assert_eq!(depth(b"#a = 1 : i32\nf { #a #a #a { #a { } } }"), 3);
        let chain: String = (1..1000).map(|i| format!("#a{i} = [#a{}]\n", i - 1)).collect();
        assert!(depth(chain.as_bytes()) > 1000);
    }
}
