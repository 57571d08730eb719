//! The annotations about devices of a program in text.

use super::{end_of_string, functions, is_in_name, main_function, split, Rest};
use crate::annotations::{Annotations, Array, ALIAS, DONOR, PARTITIONS, PATH, REPLICAS, SHARDINGS};
use memchr::memmem;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;

/// Reads the annotations in `text`; `code` is the same without strings and comments.
pub(super) fn read(text: &[u8], code: &[u8]) -> Annotations {
    let output = |result: &[u8]| {
        let start = result.as_ptr() as usize - code.as_ptr() as usize;
        Array { path: path(&text[start..start + result.len()], result), ..array(result) }
    };
    let (inputs, outputs) = match main_function(text, code).and_then(|mut main| arrays(&mut main, array, output)) {
        Some((inputs, outputs)) => (Some(inputs), Some(outputs)),
        None => (None, None),
    };
    let module = module(text, code);
    Annotations { num_replicas: number(module, REPLICAS), num_partitions: number(module, PARTITIONS), inputs, outputs }
}

/// The attributes of the module: before its first function, or, in MLIR's generic form, after all functions.
fn module<'a>(text: &[u8], code: &'a [u8]) -> &'a [u8] {
    const GENERIC: &[u8] = b"\"builtin.module\"";
    let first = functions(code).next().map_or(code.len(), |(start, _)| start);
    if memmem::find(&text[..first], GENERIC).is_some() {
        code
    } else {
        &code[..first]
    }
}

/// The number in an attribute.
fn number(code: &[u8], name: &[u8]) -> Option<i64> {
    let rest = code[find(code, name)? + name.len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// The position of a name that is not part of another name.
fn find(code: &[u8], name: &[u8]) -> Option<usize> {
    let is_apart = |at: usize| {
        let before = at.checked_sub(1).map(|i| code[i]);
        let after = code.get(at + name.len()).copied();
        ![before, after].into_iter().flatten().any(is_in_name)
    };
    memmem::find_iter(code, name).find(|&at| is_apart(at))
}

/// The path to a result.
fn path(text: &[u8], code: &[u8]) -> Option<String> {
    let start = find(code, PATH)? + PATH.len();
    let equals = start + text[start..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    let quote = equals + 1 + text.get(equals + 1..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if (text[equals], text[quote]) != (b'=', b'"') {
        return None;
    }
    let end = end_of_string(text, quote);
    unescaped(text.get(quote + 1..end - 1)?)
}

/// The content of a string: a backslash stands before a quote, a backslash, a letter or two hexadecimal digits.
fn unescaped(mut text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
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
            _ => (u8::from_str_radix(std::str::from_utf8(rest.get(..2)?).ok()?, 16).ok()?, 2),
        };
        bytes.push(byte);
        text = &rest[len..];
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// The arguments and results of the main function as arrays of fixed shapes, if all are.
pub(super) fn specs(text: &[u8], code: &[u8]) -> Option<(Vec<Spec>, Vec<Spec>)> {
    let (inputs, outputs) = arrays(&mut main_function(text, code)?, spec, spec)?;
    Some((inputs.into_iter().collect::<Option<_>>()?, outputs.into_iter().collect::<Option<_>>()?))
}

/// The arguments and results of a function whose name comes next.
fn arrays<T>(
    function: &mut Rest<'_>,
    input: impl Fn(&[u8]) -> T,
    output: impl Fn(&[u8]) -> T,
) -> Option<(Vec<T>, Vec<T>)> {
    function.skip(b"@");
    function.skip_name();
    let inputs = split(function.brackets()?).map(|argument| {
        let name = argument.iter().position(|&byte| byte == b':').unwrap_or(argument.len());
        input(&argument[name..])
    });
    let inputs = inputs.collect();
    if !function.skip(b"->") {
        return Some((inputs, Vec::new()));
    }
    if function.trimmed().first() == Some(&b'(') {
        return Some((inputs, split(function.brackets()?).map(output).collect()));
    }
    let before = function.0;
    function.skip_type();
    Some((inputs, vec![output(&before[..before.len() - function.0.len()])]))
}

/// What follows `tensor<` in the text of an argument after its name, or of a result.
fn tensor(code: &[u8]) -> Option<&[u8]> {
    let code = code.trim_ascii_start();
    code.strip_prefix(b":").unwrap_or(code).trim_ascii_start().strip_prefix(b"tensor<")
}

/// The array of such a text, if its shape is fixed and its type known.
fn spec(code: &[u8]) -> Option<Spec> {
    let (dims, element) = shape(tensor(code)?)?;
    let end = element.iter().position(|byte| b">,".contains(byte) || byte.is_ascii_whitespace())?;
    let close = usize::from(element.starts_with(b"complex<"));
    let name = std::str::from_utf8(&element[..end + close]).ok()?;
    Spec::new(DType::from_mlir(name)?, &dims).ok()
}

/// The text of an argument after its name, or of a result.
fn array(code: &[u8]) -> Array {
    Array {
        dims: tensor(code).and_then(shape).map(|(dims, _)| dims),
        has_sharding: SHARDINGS.iter().any(|name| find(code, name).is_some()),
        path: None,
        is_donated: find(code, ALIAS).is_some() || find(code, DONOR).is_some(),
        alias: number(code, ALIAS).and_then(|output| usize::try_from(output).ok()),
    }
}

/// The dimensions before the type of the elements, as in `2x3xf32>`, and what follows them.
fn shape(mut code: &[u8]) -> Option<(Vec<i64>, &[u8])> {
    let mut dims = Vec::new();
    loop {
        code = code.trim_ascii_start();
        let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            // Shapes without a fixed size are omitted.
            return (!code.starts_with(b"?") && !code.starts_with(b"*")).then_some((dims, code));
        }
        dims.push(std::str::from_utf8(&code[..digits]).ok()?.parse().ok()?);
        code = code[digits..].trim_ascii_start().strip_prefix(b"x")?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::blank_strings_and_comments;
    use super::*;

    fn of(text: &str) -> Annotations {
        read(text.as_bytes(), &blank_strings_and_comments(text.as_bytes()))
    }

    fn array(dims: &[i64], has_sharding: bool) -> Array {
        Array { dims: Some(dims.into()), has_sharding, ..Array::default() }
    }

    #[test]
    fn the_device_count_of_a_module_is_read() {
        let counts = |text: &str| {
            let found = of(text);
            (found.num_replicas, found.num_partitions)
        };
        let jax = "module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} {";
        assert_eq!(counts(jax), (Some(2), Some(4)));
        assert_eq!(counts(&format!("#loc = loc(\"a\")\n// x\n{jax} func.func @main() {{")), (Some(2), Some(4)));
        assert_eq!(counts("module attributes {mhlo.num_partitions=8:i32}{"), (None, Some(8)));
        assert_eq!(
            counts("\"builtin.module\"() ({ func.func }) {mhlo.num_partitions = 3 : i32} : () -> ()").1,
            Some(3)
        );
        for text in [
            "",
            "module {",
            "// mhlo.num_partitions = 4",
            "module attributes {a = \"mhlo.num_partitions = 4\"} {",
            "module attributes {mhlo.num_partitions_2 = 4, a.mhlo.num_partitions = 4} {",
            "module attributes {mhlo.num_partitions = \"4\"} {",
            "module attributes {mhlo.num_partitions",
            "module { func.func @main() attributes {mhlo.num_partitions = 4 : i32} {",
        ] {
            assert_eq!(counts(text), (None, None), "{text}");
        }
    }

    #[test]
    fn arguments_results_and_shardings_of_main_are_read() {
        let found = of("module { func.func private @f(%a: tensor<9xf32> {mhlo.sharding = \"{replicated}\"}) { }
            func.func public @main(%x: tensor<8x4xf32> {mhlo.sharding = \"{devices=[2,2]<=[4]}\"}, // , %no
              %y: tensor<4x6xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@m, [{}, {\"b\"}]>},
              %z: tensor<f32>, %w: tensor<?xf32>, %v: !alias,
              %u: tensor<3xcomplex<f32>> {mhlo.frontend_attributes = {xla.sdy.sharding = \"\"}} loc(\"x\"))
            -> (tensor<8x6xf32> {jax.result_info = \"mhlo.sharding\"}, tensor<8xf32> {mhlo.sharding = \"{replicated}\"}) {");
        assert_eq!(
            found.inputs.unwrap(),
            [
                array(&[8, 4], true),
                Array { is_donated: true, ..array(&[4, 6], true) },
                array(&[], false),
                Array::default(),
                Array::default(),
                array(&[3], true)
            ]
        );
        let path = Some("mhlo.sharding".to_owned());
        assert_eq!(found.outputs.unwrap(), [Array { path, ..array(&[8, 6], false) }, array(&[8], true)]);
    }

    #[test]
    fn the_paths_to_results_are_read() {
        let paths = |attributes: &str| {
            let text = format!("func.func @main() -> (tensor<f32> {{{attributes}}}, tensor<i8> {{b = \"//\"}}) {{");
            of(&text).outputs.unwrap().remove(0).path
        };
        assert_eq!(paths("jax.result_info = \"result['a, b']\"").as_deref(), Some("result['a, b']"));
        assert_eq!(paths("a, jax.result_info=\"[\\22\\C3\\a9\\\"\\\\]\", b").as_deref(), Some("[\"é\"\\]"));
        for attributes in [
            "",
            "jax.result_info",
            "jax.result_info = ",
            "jax.result_info = 1",
            "x = \"jax.result_info = \"",
            "jax.result_info_2 = \"a\"",
            "jax.result_info = \"\\ff\"",
            "jax.result_info = \"\\00\"",
            "jax.result_info = \"\\z\"",
        ] {
            assert_eq!(paths(attributes), None, "{attributes}");
        }
        assert_eq!(of("func.func @main() -> (tensor<f32> {jax.result_info = \"a").outputs, None);
    }

    #[test]
    fn the_types_of_arguments_and_results_are_read() {
        let of = |text: &str| {
            let shown = |specs: Vec<Spec>| specs.iter().map(Spec::to_string).collect::<Vec<_>>().join(" ");
            let found = specs(text.as_bytes(), &blank_strings_and_comments(text.as_bytes()));
            found.map(|(inputs, outputs)| (shown(inputs), shown(outputs)))
        };
        let text = "func.func @main(%x: tensor<2x 3xi1>, %y: tensor<complex<f64>> {a = \"tensor<f32>\"}, %z: tensor<0xbf16, #e>) \
            -> (tensor<ui4>, tensor<1xf8E4M3FN>) {";
        assert_eq!(of(text).unwrap(), ("pred[2x3] c128[] bf16[0]".into(), "ui4[] f8e4m3fn[1]".into()));
        assert_eq!(of("func.func @main() {").unwrap(), (String::new(), String::new()));
        for result in ["tensor<?xf32>", "tensor<*xf32>", "tensor<2xindex>", "!stablehlo.token", "tuple<tensor<f32>>"] {
            assert_eq!(of(&format!("func.func @main(%x: tensor<f32>) -> {result} {{")), None, "{result}");
        }
    }

    #[test]
    fn one_result_needs_no_brackets_and_none_no_arrow() {
        let results = |text: &str| of(text).outputs;
        assert_eq!(results("func.func @main() -> tensor<2x0xi64> {"), Some(vec![array(&[2, 0], false)]));
        assert_eq!(results("func.func @main(%x: tensor<2xi1>) {"), Some(vec![]));
        assert_eq!(of("func.func @main(%x: tensor<2xi1>) {").inputs, Some(vec![array(&[2], false)]));
        assert_eq!(of("func.func @main() attributes {a} {").inputs, Some(vec![]));
        for text in ["", "func.func @f(%x: i32) {", "func.func @main", "func.func @main(%x: tensor<2xf32>"] {
            assert_eq!((of(text).inputs, of(text).outputs), (None, None), "{text}");
        }
    }
}
