//! Arguments and results of `main` of unknown size or type, which no compiler accepts.

use super::{blank_strings_and_comments, main_function, split, without_data, Rest};
use memchr::{memchr, memmem};
use pjrt_data::dtype::ALL;

/// The arguments and results of `main` that have no fixed shape, in words: "argument 1 (`%x`) is f32[?x3]".
pub(crate) fn dynamic_arrays(text: &[u8]) -> Vec<String> {
    // Most programs have none, and need no copy.
    if memchr(b'?', text).is_none() {
        return Vec::new();
    }
    of_main(text, dynamic)
}

/// The arguments and results of `main` whose elements have a type that is not one of ours, in the same words.
pub(crate) fn arrays_of_unknown_types(text: &[u8]) -> Vec<String> {
    of_main(text, of_unknown_type)
}

fn of_main(text: &[u8], describe: fn(&[u8]) -> Option<String>) -> Vec<String> {
    let text = without_data(text);
    let code = blank_strings_and_comments(&text);
    main_function(&text, &code).and_then(|mut main| of_function(&mut main, describe)).unwrap_or_default()
}

fn of_function(function: &mut Rest<'_>, describe: fn(&[u8]) -> Option<String>) -> Option<Vec<String>> {
    function.skip(b"@");
    function.skip_name();
    let mut found = Vec::new();
    for (i, argument) in split(function.brackets()?).enumerate() {
        let colon = memchr(b':', argument)?;
        if let Some(array) = describe(&argument[colon + 1..]) {
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
    found.extend(results.filter_map(|(i, result)| Some(format!("result {} is {}", i + 1, describe(result)?))));
    Some(found)
}

/// A type such as `tensor<2xf80>`, written as `f80[2]`; `None` for elements that we know, with or without a sign.
fn of_unknown_type(code: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(code.trim_ascii_start().strip_prefix(b"tensor<")?).ok()?;
    let at = text.find(|c: char| !c.is_ascii_digit() && c != 'x' && c != '?')?;
    let (dims, rest) = text.split_at(at);
    let nested = rest.find('<').is_some_and(|open| rest.find('>').is_some_and(|close| open < close));
    let mut ends = rest.match_indices(['>', ',']).map(|(end, _)| end);
    let element = rest[..if nested { ends.next()? + 1 } else { ends.next()? }].trim();
    let is_known = ALL.iter().any(|dtype| dtype.info().mlir == element.strip_prefix('s').unwrap_or(element));
    (!is_known).then(|| format!("{element}[{}]", dims.trim_end_matches('x')))
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
        let unknown = arrays_of_unknown_types(
            b"func.func @main(%a: tensor<2xindex>, %b: tensor<f32>, %c: tensor<si8>, %d: tensor<2x3xcomplex<f16>> {a = 1}) \
              -> (tensor<complex<f32>>, tensor<3xtf32>) {",
        );
        let want = ["argument 1 (`%a`) is index[2]", "argument 4 (`%d`) is complex<f16>[2x3]", "result 2 is tf32[3]"];
        assert_eq!(unknown, want);
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
