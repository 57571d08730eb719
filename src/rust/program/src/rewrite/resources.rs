//! Constants whose numbers stand at the end of a text, as tools for PyTorch write them: compilers refuse them.

use super::Change;
use memchr::memmem;
use std::collections::HashMap;

const CONSTANT: &[u8] = b"dense_resource<";

/// The digits of the number before the data: how they are aligned.
const ALIGNMENT: usize = 8;

/// Puts the numbers where they are used. Truth values stay: some tools write a byte for each, others a bit.
pub(super) fn inline(text: &[u8]) -> Vec<Change> {
    let Some(end) = memmem::rfind(text, b"{-#") else { return Vec::new() };
    let data = data(&text[end..]);
    let change = |from: usize| {
        let rest = &text[from + CONSTANT.len()..end];
        let len = memchr::memchr(b'>', rest)?;
        let kind = rest[len + 1..].strip_prefix(b" : tensor<")?;
        let kind = &kind[..memchr::memchr(b'>', kind)?];
        let digits = data.get(rest[..len].trim_ascii())?;
        let is_truth = kind == b"i1" || kind.ends_with(b"xi1");
        let text = format!("dense<\"0x{}\">", std::str::from_utf8(digits).ok()?);
        (!is_truth).then(|| (from..from + CONSTANT.len() + len + 1, text))
    };
    memmem::find_iter(&text[..end], CONSTANT).filter_map(change).collect()
}

/// The digits of each resource, by its name: `name: "0x04000000..."`.
fn data(section: &[u8]) -> HashMap<&[u8], &[u8]> {
    const START: &[u8] = b": \"0x";
    let resource = |at: usize| {
        let before = section[..at].trim_ascii_end();
        // A name in quotes may have spaces.
        let start = match before.strip_suffix(b"\"") {
            Some(quoted) => memchr::memrchr(b'"', quoted)?.checked_sub(1)?,
            None => before.iter().rposition(|byte| byte.is_ascii_whitespace() || b"{,".contains(byte))?,
        };
        let digits = &section[at + START.len()..];
        let digits = digits[..memchr::memchr(b'"', digits)?].get(ALIGNMENT..)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some((&before[start + 1..], digits))
    };
    memmem::find_iter(section, START).filter_map(resource).collect()
}

#[cfg(test)]
mod tests {
    use super::super::changed;
    use super::*;

    #[test]
    fn numbers_stand_where_they_are_used() {
        let text = |first: &str, second: &str| {
            format!(
                "%0 = stablehlo.constant {first} : tensor<2xf32>\n%1 = stablehlo.constant {second} : tensor<i1>\n{{-#\n  \
                 dialect_resources: {{\n    builtin: {{\n      a: \"0x040000000000803F00000040\",\n      \"b c\": \
                 \"0x0400000001\"\n    }}\n  }}\n#-}}\n"
            )
        };
        let found = text("dense_resource<a>", "dense_resource<a>");
        let changes = inline(found.as_bytes());
        let found = String::from_utf8(changed(found.as_bytes(), changes).unwrap()).unwrap();
        assert_eq!(found, text("dense<\"0x0000803F00000040\">", "dense_resource<a>"));
        let quoted =
            "%0 = stablehlo.constant dense_resource<\"b c\"> : tensor<1xi8>{-# {\"b c\": \"0x0100000007\"} #-}";
        assert_eq!(inline(quoted.as_bytes())[0].1, "dense<\"0x07\">");
        for unknown in ["dense_resource<b>", "dense_resource<__elided__>", "dense_resource<", "dense_resource<a> :"] {
            assert!(inline(text(unknown, unknown).as_bytes()).is_empty(), "{unknown}");
        }
    }
}
