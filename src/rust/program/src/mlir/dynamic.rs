//! Arguments and results of `main` of unknown size, which no compiler accepts.

use super::{blank_strings_and_comments, main_function, split, without_data, Rest};
use memchr::{memchr, memmem};

/// The arguments and results of `main` that have no fixed shape, in words: "argument 1 (`%x`) is f32[?x3]".
pub(crate) fn dynamic_arrays(text: &[u8]) -> Vec<String> {
    // Most programs have none, and need no copy.
    if memchr(b'?', text).is_none() {
        return Vec::new();
    }
    let text = without_data(text);
    let code = blank_strings_and_comments(&text);
    main_function(&text, &code).and_then(|mut main| of_function(&mut main)).unwrap_or_default()
}

fn of_function(function: &mut Rest<'_>) -> Option<Vec<String>> {
    function.skip(b"@");
    function.skip_name();
    let mut found = Vec::new();
    for (i, argument) in split(function.brackets()?).enumerate() {
        let colon = memchr(b':', argument)?;
        if let Some(array) = dynamic(&argument[colon + 1..]) {
            let name = String::from_utf8_lossy(argument[..colon].trim_ascii()).into_owned();
            found.push(format!("argument {} (`{name}`) is {array}", i + 1));
        }
    }
    if !function.skip(b"->") {
        return Some(found);
    }
    let results = if function.trimmed().first() == Some(&b'(') {
        function.brackets()?
    } else {
        let rest = function.0;
        function.skip_type();
        &rest[..rest.len() - function.0.len()]
    };
    let results = split(results).enumerate();
    found.extend(results.filter_map(|(i, result)| Some(format!("result {} is {}", i + 1, dynamic(result)?))));
    Some(found)
}

/// A type such as `tensor<?x3xf32>`, written as `f32[?x3]`; `None` for others, and for arrays of bounded size.
fn dynamic(code: &[u8]) -> Option<String> {
    let rest = code.trim_ascii_start().strip_prefix(b"tensor<")?;
    let (dims, rest) = rest.split_at(rest.iter().take_while(|byte| b"0123456789?x ".contains(byte)).count());
    let end = rest.iter().position(|byte| matches!(byte, b'>' | b','))?;
    let is_bounded = rest[end] == b',' && memmem::find(rest, b"bounds").is_some();
    if memchr(b'?', dims).is_none() || is_bounded {
        return None;
    }
    // A complex type has brackets, too.
    let nested = usize::from(rest[..end].contains(&b'<'));
    let element = String::from_utf8_lossy(&rest[..end + nested]);
    let dims = String::from_utf8_lossy(dims).replace(' ', "");
    Some(format!("{}[{}]", element.trim(), dims.trim_end_matches('x')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_without_a_fixed_shape_are_listed() {
        let of = |text: &str| dynamic_arrays(text.as_bytes());
        assert_eq!(
            of("func.func public @main(%x: tensor<?x3xf32>, %i: tensor<i32>, %z : tensor<2x?xcomplex<f64>> {a = \"?\"}) \
                -> (tensor<?x3xf32> {b = 1}, tensor<2xf32>) {"),
            ["argument 1 (`%x`) is f32[?x3]", "argument 3 (`%z`) is complex<f64>[2x?]", "result 1 is f32[?x3]"]
        );
        assert_eq!(of("func.func @main() -> tensor<?xi1> { }"), ["result 1 is i1[?]"]);
        for text in [
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { // ?\n}",
            "func.func @f(%x: tensor<?xf32>) { }\nfunc.func @main(%x: tensor<2xf32>) { }",
            "func.func @main(%x: tensor<?xf32, #stablehlo.bounds<4>>) { }",
            "func.func @main(%x: tensor<?xf32>",
            "?",
        ] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }
}
