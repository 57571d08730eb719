//! Types narrower than a byte in text: the operations that create arrays of them, and the results of `main`.

use super::{blank_strings_and_comments, functions, is_in_name};
use crate::narrow::{Array, Findings};
use memchr::memmem;
use pjrt_data::dtype::DType;

/// The names of these types.
const TYPES: [(&[u8], DType); 5] =
    [(b"i2", DType::I2), (b"ui2", DType::U2), (b"i4", DType::I4), (b"ui4", DType::U4), (b"f4E2M1FN", DType::F4E2M1FN)];

/// Reads a program.
pub fn narrow_findings(text: &[u8]) -> Findings {
    let mut found = Findings::default();
    // Most programs have none, and need no copy.
    if arrays(text).next().is_none() {
        return found;
    }
    let code = blank_strings_and_comments(text);
    for (name, rest) in operations(text, &code) {
        let name = match name {
            "broadcast_in_dim" | "transpose" if !numbers(rest, &[b"dims = [", b"array<i64:"]).is_sorted() => {
                "transpose"
            }
            "transpose" => "copy",
            "gather" if keeps_order(rest) => "slice",
            other => other,
        };
        found.note(name, result(name, rest).as_ref());
    }
    let Some((arguments, results)) = signature(text, &code) else { return found };
    let name_of = |types: &[u8]| arrays(types).find(|array| array.is_matrix).map(|array| array.dtype.to_string());
    if count(results) > 1 {
        found.result = name_of(results);
    }
    if memmem::find(text, b"mhlo.layout_mode").is_some() {
        found.ordered = name_of(arguments).or_else(|| name_of(results));
    }
    found
}

/// The operations of StableHLO and its like by name, with or without quotes, each with the code behind the name.
fn operations<'a>(text: &'a [u8], code: &'a [u8]) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    const DIALECT: &[u8] = b"hlo.";
    let starts = memmem::find_iter(text, DIALECT).filter(|&i| code[i] != b' ');
    starts.filter_map(|start| {
        let start = start + DIALECT.len();
        let len = text[start..].iter().take_while(|&&byte| is_in_name(byte)).count();
        Some((std::str::from_utf8(&text[start..start + len]).ok()?, &code[start + len..]))
    })
}

/// The result array of an operation; for an operation with a region, its operand.
fn result(name: &str, rest: &[u8]) -> Option<Array> {
    if matches!(name, "sort" | "scatter") {
        // Up to the end of the block's arguments, of which the last may be the narrow ones.
        let start = rest.iter().position(|&byte| byte == b'^')?;
        let end = start + rest[start..].windows(2).position(|pair| pair == b"):")?;
        let of_block = rest[start..end].split(|&byte| byte == b'%').filter_map(element);
        let element = of_block.max_by_key(|dtype| dtype.info().bits == 2)?;
        // Operations with regions usually sort or scatter into an array.
        return Some(Array { dtype: element, is_matrix: true });
    }
    let arrow = arrow(rest)?;
    let end = rest[arrow..].iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| arrow + end);
    arrays(&rest[arrow..end]).next()
}

fn is_array(code: &[u8]) -> bool {
    code.starts_with(b"tensor<") || code.starts_with(b"(tensor<")
}

/// The element of a scalar or array of a narrow type, which comes first.
fn element(code: &[u8]) -> Option<DType> {
    let start = code.windows(7).position(|word| word == b"tensor<")? + 7;
    let len = code[start..].iter().position(|byte| matches!(byte, b'>' | b','))?;
    let name = code[start..start + len].rsplit(|&byte| byte == b'x').next()?;
    TYPES.iter().find(|(known, _)| *known == name).map(|&(_, dtype)| dtype)
}

/// The arrays of narrow types: `5x3xi4` in `tensor<5x3xi4>`.
fn arrays(code: &[u8]) -> impl Iterator<Item = Array> + '_ {
    memmem::find_iter(code, b"tensor<").filter_map(|start| {
        let start = start + b"tensor<".len();
        let len = code[start..].iter().position(|byte| matches!(byte, b'>' | b','))?;
        let mut parts = code[start..start + len].rsplit(|&byte| byte == b'x');
        let name = parts.next()?;
        let (_, dtype) = TYPES.iter().find(|(known, _)| *known == name)?;
        let size = |dim: &[u8]| std::str::from_utf8(dim).ok().and_then(|dim| dim.parse().ok()).unwrap_or(-1);
        Array::new(*dtype, parts.map(size))
    })
}

/// The list of numbers after one of these prefixes, before an operation's result.
fn numbers(rest: &[u8], starts: &[&[u8]]) -> Vec<usize> {
    let end = rest.windows(2).position(|pair| pair == b"->").unwrap_or(rest.len());
    let named = starts.iter().find_map(|start| {
        let at = rest[..end].windows(start.len()).position(|word| word == *start)? + start.len();
        let len = rest[at..end].iter().position(|byte| matches!(byte, b']' | b'>'))?;
        Some(&rest[at..at + len])
    });
    let numbers = named.unwrap_or_default().split(|byte| !byte.is_ascii_digit());
    numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok()).collect()
}

/// Whether the dimensions of a gather's slices come last in its result, as for rows picked from a table.
fn keeps_order(rest: &[u8]) -> bool {
    let offsets = numbers(rest, &[b"offset_dims = ["]);
    let rank = arrow(rest).map_or(0, |arrow| {
        let dims = rest[arrow..].iter().skip_while(|&&byte| byte != b'<').take_while(|&&byte| byte != b'>');
        dims.filter(|&&byte| byte == b'x').count()
    });
    rank >= offsets.len() && (rank - offsets.len()..rank).eq(offsets)
}

/// The position of an operation's result types.
fn arrow(rest: &[u8]) -> Option<usize> {
    let mut pairs = rest.windows(2).enumerate();
    pairs.position(|(i, pair)| pair == b"->" && is_array(rest[i + 2..].trim_ascii_start()))
}

/// The types, with attributes, of the inputs and outputs of `main`, or of the first function without a `main`.
fn signature<'a>(text: &[u8], code: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut all = functions(code).filter_map(|(_, mut rest)| {
        rest.skip_visibility();
        let name = code.len() - rest.0.len();
        rest.skip(b"@");
        rest.skip_name();
        let arguments = rest.0;
        rest.skip_brackets(b'(')?;
        let arguments = &arguments[..arguments.len() - rest.0.len()];
        let mut results: &[u8] = &[];
        if rest.skip(b"->") {
            rest.trimmed();
            let before = rest.0;
            if rest.skip_brackets(b'(').is_none() {
                rest.skip_type();
            }
            results = &before[..before.len() - rest.0.len()];
        }
        let is_main = [&b"@main"[..], b"@\"main\""].iter().any(|main| {
            text[name..].starts_with(main) && !text.get(name + main.len()).is_some_and(|&byte| is_in_name(byte))
        });
        Some((is_main, arguments, results))
    });
    let first = all.next()?;
    let main = if first.0 { first } else { all.find(|function| function.0).unwrap_or(first) };
    Some((main.1, main.2))
}

/// The number of types in a list in parentheses.
fn count(list: &[u8]) -> usize {
    list.windows(7).filter(|word| *word == b"tensor<").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(results: &str, body: &str) -> Findings {
        narrow_findings(format!("func.func @main(%x: tensor<3x5xi4>) -> {results} {{ {body} }}").as_bytes())
    }

    #[test]
    fn operations_that_move_dimensions_are_found_with_what_they_make() {
        const MOVE: &str = "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x5xi4>) -> tensor<5x3xi4>\n";
        let both = "(tensor<5x3xi4>, tensor<f32>)";
        let of = |results: &str, body: &str| {
            let found = found(results, body);
            (found.result, found.moves, found.moves_narrow)
        };
        let text = |text: &str| Some(text.to_string());
        let narrow = Some(("transpose".into(), "i4".into()));
        assert_eq!(of(both, MOVE), (text("i4"), text("transpose"), narrow.clone()));
        assert_eq!(of("tensor<5x3xi4>", MOVE), (None, text("transpose"), narrow.clone()));
        assert_eq!(of("(tensor<f32>, tensor<15xi4>)", MOVE).0, None);
        assert_eq!(of("(tensor<f32>, tensor<1x?xi4>)", MOVE).0, None);
        let generic =
            "\"stablehlo.transpose\"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<3x5xi4>) -> tensor<5x3xi4>\n";
        assert_eq!(of(both, generic).2, narrow);
        let wide = MOVE.replace("xi4", "xf32");
        assert_eq!(of(both, &wide), (text("i4"), text("transpose"), None));
        assert_eq!(of(both, &format!("// {MOVE}")).1, None);
        assert_eq!(of(both, &MOVE.replace("[1, 0]", "[0, 1]")).1, None);
        let gather = |dims: &str| {
            format!("\"stablehlo.gather\"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [{dims}], collapsed_slice_dims = \
                     [0]>}}> : (tensor<5x3xi4>, tensor<2x1xi32>) -> tensor<2x3xi4>")
        };
        assert_eq!(of(both, &gather("1")).1, None);
        assert_eq!(of(both, &gather("0")).2, Some(("gather".into(), "i4".into())));
        assert_eq!(
            of(both, "stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<3x5xi4>) -> tensor<2x3x5xi4>").1,
            None
        );
        let permuted = "stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<3x5xi4>) -> tensor<5x2x3xi4>";
        assert_eq!(of(both, permuted).2, narrow);
        let convolution = "stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} : \
                           (tensor<1x8x2xi4>, tensor<3x2x4xi4>) -> tensor<1x6x4xi4>";
        assert_eq!(of(both, convolution).2, Some(("convolution".into(), "i4".into())));
    }

    #[test]
    fn operations_that_break_on_two_bits_are_found() {
        let of = |body: &str| found("tensor<5x3xi4>", body).breaks.map(|(name, dtype)| format!("{name} {dtype}"));
        let concatenate = "stablehlo.concatenate %x, %y, dim = 0 : (tensor<3xui2>, tensor<2xui2>) -> tensor<5xui2>";
        assert_eq!(of(concatenate), Some("concatenate ui2".into()));
        assert_eq!(of(&concatenate.replace("ui2", "ui4")), None);
        let sort = "%0:2 = \"stablehlo.sort\"(%x, %y) <{dimension = 0 : i64}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>, \
                    %c: tensor<i2>, %d: tensor<i2>):\n stablehlo.return %e : tensor<i1> }) : (tensor<3xf32>, tensor<3xi2>)";
        assert_eq!(of(sort), Some("sort i2".into()));
        assert_eq!(of(&sort.replace("i2", "i4")), None);
    }

    #[test]
    fn the_results_of_main_count_and_other_text_is_ignored() {
        let text = "func.func private @f() -> (tensor<2x2xi4>, tensor<2x2xi4>) {}\n func.func public @main() -> tensor<2x2xi4> {}";
        assert_eq!(narrow_findings(text.as_bytes()).result, None);
        for text in
            ["tensor<i4", "tensor<2x2xi4>", "func.func @main(tensor<2x2xi4>", "\"stablehlo.sort\" tensor<2x2xi4>"]
        {
            assert_eq!(narrow_findings(text.as_bytes()), Findings::default(), "{text}");
        }
    }
}
