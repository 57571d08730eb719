use super::*;
use crate::module::annotations::Array;
use crate::module::{Element, Type};
use pjrt_data::dtype::DType;
use std::result::Result;

/// The line of a function without a body, in the error about it.
fn body_missing(text: &str) -> Option<usize> {
    let error = check(text.as_bytes()).err()?;
    error.message().strip_prefix("The function on line ")?.split_once(' ')?.0.parse().ok()
}

fn of(text: &str) -> Annotations {
    check(text.as_bytes()).unwrap()
}

fn array(dims: &[i64], has_sharding: bool) -> Array {
    Array { dims: Some(dims.into()), has_sharding, ..Array::default() }
}

/// Arrays without their names.
fn unnamed(arrays: Option<Vec<Array>>) -> Option<Vec<Array>> {
    arrays.map(|arrays| arrays.into_iter().map(|array| Array { name: None, dtype: None, ..array }).collect())
}

#[test]
fn too_deep_nesting_is_refused() {
    let message = |text: &str| check(text.as_bytes()).map(|_| ()).map_err(|error| error.message().to_string());
    for text in ["(", "module {", "tuple<", "[", "-"] {
        assert!(message(&text.repeat(3000)).is_err_and(|message| message.contains("nests 3000")), "{text}");
        assert_eq!(message(&text.repeat(1000)), Ok(()), "{text}");
        assert_eq!(message(&format!("// {0}\n\"\\\"{0}\"", text.repeat(3000))), Ok(()), "{text}");
    }
    assert!(message(&"1x".repeat(3000)).is_err_and(|message| message.contains("3000 dimensions")));
    let calls = |n: i32| -> String { (0..n).map(|i| format!("func.func @f{i}() {{ call @f{} }}", i + 1)).collect() };
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
    assert_eq!(far(&(generic.replace("[0,", "[4000,") + &of("1"))), Some("4000".into()), "both forms in one program");
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
    for text in ["", "/", "\"", "\"0x", "\"\\", "//", "f // \"", &text("00"), &format!("\"0x{digits}\n\""), &digits] {
        assert_eq!(without_data(text.as_bytes()), text.as_bytes(), "{text}");
        assert_eq!(blank_strings_and_comments(text.as_bytes()).len(), text.len());
    }
    let cut = format!("func.func @f() {{ \"0x{digits}\" }} // x\nfunc.func @main(%x: i32)");
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
    let names = |text: &str| {
        let mut annotations = Annotations::default();
        let source = Source::new(text.as_bytes());
        Reader::new(&source).functions(false).iter().for_each(|(_, function)| annotations.note_function(function));
        annotations.inputs.unwrap_or_default().into_iter().filter_map(|input| input.name).collect::<Vec<_>>()
    };
    assert_eq!(names("func.func @main(%x: tensor<2xf32>, %y.1: tensor<f32>) -> tensor<f32> {"), ["%x", "%y.1"]);
    assert_eq!(
        names(
            "func.func private @f(%a: i32) { }\nfunc.func public @\"main\" (%x: tensor<2xf32, #a<[0, 1]>> \
             {a = \", %no\", b = {c = 1, d}} loc(\"(%z\"(#loc)), // %w\n  %0: !f<(i32) -> i32, i8>) {}"
        ),
        ["%x", "%0"]
    );
    assert_eq!(names("func.func @mains(%a: i32) {} func.func @main () {"), [""; 0]);
    for text in ["", "func.func @main", "func.func @main(%x", "func.func", "func.func @f(%x: i32)", "@main(%x: i32)"] {
        assert_eq!(names(text), [""; 0], "{text}");
    }
}

#[test]
fn the_device_count_of_a_module_is_read() {
    let counts = |text: &str| {
        let mut found = Annotations::default();
        found.note_module(&Reader::new(&Source::new(text.as_bytes())).of_module().attributes);
        (found.num_replicas, found.num_partitions)
    };
    let jax = "module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} {";
    assert_eq!(counts(jax), (Some(2), Some(4)));
    assert_eq!(counts(&format!("#loc = loc(\"a\")\n// x\n{jax} func.func @main() {{")), (Some(2), Some(4)));
    assert_eq!(counts("module attributes {mhlo.num_partitions=8:i32}{"), (None, Some(8)));
    assert_eq!(counts("\"builtin.module\"() ({ func.func }) {mhlo.num_partitions = 3 : i32} : () -> ()").1, Some(3));
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
        -> (tensor<8x6xf32> {jax.result_info = \"mhlo.sharding\"}, tensor<8xf32> {mhlo.sharding = \"{replicated}\"}) { } }");
    assert_eq!(
        unnamed(found.inputs).unwrap(),
        [
            array(&[8, 4], true),
            Array { is_donated: true, ..array(&[4, 6], true) },
            array(&[], false),
            Array { dynamic: Some(Type::tensor(vec![-1], Element::Number(DType::F32))), ..Array::default() },
            Array::default(),
            array(&[3], true)
        ]
    );
    let path = Some("mhlo.sharding".to_owned());
    assert_eq!(unnamed(found.outputs).unwrap(), [Array { path, ..array(&[8, 6], false) }, array(&[8], true)]);
}

#[test]
fn the_paths_to_results_are_read() {
    let paths = |attributes: &str| {
        let text = format!("func.func @main() -> (tensor<f32> {{{attributes}}}, tensor<i8> {{b = \"//\"}}) {{ }}");
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
fn one_result_needs_no_brackets_and_none_no_arrow() {
    let results = |text: &str| unnamed(of(text).outputs);
    assert_eq!(results("func.func @main() -> tensor<2x0xi64> {"), Some(vec![array(&[2, 0], false)]));
    assert_eq!(results("func.func @main(%x: tensor<2xi1>) {"), Some(vec![]));
    assert_eq!(unnamed(of("func.func @main(%x: tensor<2xi1>) {").inputs), Some(vec![array(&[2], false)]));
    assert_eq!(of("func.func @main() attributes {a} {").inputs, Some(vec![]));
    for text in ["", "func.func @f(%x: i32) {", "func.func @main", "func.func @main(%x: tensor<2xf32>"] {
        assert_eq!((of(text).inputs, of(text).outputs), (None, None), "{text}");
    }
}

fn calls_of(text: &str) -> Result<usize, ()> {
    let source = Source::new(text.as_bytes());
    let functions = Reader::new(&source).functions(false);
    calls(&source, &functions).map_err(|_| ())
}

#[test]
fn calls_nest() {
    assert_eq!(calls_of("module {}"), Ok(0));
    assert_eq!(calls_of("func.func @main() { return }"), Ok(1));
    assert_eq!(
        calls_of(
            "func.func @main() { call @f() call @\"g\"() } func.func private @f() { func.call @g() } func.func @g() {}"
        ),
        Ok(3)
    );
    assert_eq!(calls_of("func.func @main() { custom_call @main() // @main\n \"@main\" }"), Ok(1));
}

#[test]
fn recursion_is_found() {
    assert_eq!(calls_of("func.func @main() { call @main() }"), Err(()));
    assert_eq!(
        calls_of("func.func @main() { \"func.call\"() {callee = @f} } func.func @f() { call @main() }"),
        Err(())
    );
    assert_eq!(
        calls_of("func.func @main(%x: f32 {my.attr = @main}) { \"g\"() {decomposition = @f} } func.func @f() { }"),
        Ok(2)
    );
}

#[test]
fn impossible_sizes_are_refused_in_text() {
    for text in [
        "tensor<4294967296x4294967296xf32>",
        "tensor<4294967296x4294967296x!quant.uniform<i8:f32, 1.0>>",
        "tensor<0x4294967296x4294967296xf32>",
        "tensor<?x1000000000000x1000000000000xi1>",
        "memref<99999999999999999999xf32>",
    ] {
        assert!(check_arrays(text.as_bytes()).is_err(), "{text}");
    }
    for text in [
        "tensor<4294967296x1024xf32>",
        "dense<0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF>",
        "dense<0x1234567890123456>",
        "%1234567890x1234567890x1234567890",
        "array<i64: 1234567890123456789012>",
    ] {
        assert!(check_arrays(text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn names_are_the_same_with_and_without_escapes() {
    let text =
        |name: &str| format!("func.func @\"a\\22\"() {{ call @\"{name}\"() : () -> () }} func.func @main() {{ }}");
    assert_eq!(calls_of(&text("a\\\"")), Err(()));
    assert_eq!(calls_of(&text("a\\22")), Err(()));
    assert_eq!(calls_of(&text("a")), Ok(1));
}

#[test]
fn regions_and_attributes_that_nest_deep_are_left_out() {
    for (open, close) in [
        ("\"a.b\"() ({\n", "}) : () -> ()\n"),
        ("%0 = stablehlo.while(%i = %x) : tensor<i32> cond {\n", "} do { }\n"),
        ("a.b {\n%1 = a.c {", "} }\n"),
        ("a.b {c = ", "}"),
        ("a.b {c = [", "]}"),
    ] {
        let text = |depth: usize| {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            format!("func.func @main(%x: tensor<i32>) {{\n{open}\n{close}\nreturn %x : tensor<i32>\n}}")
        };
        let last = |depth: usize| {
            let module = module(text(depth).as_bytes());
            let name = module.root.inner().flat_map(Operation::inner).last().map(|last| last.name.to_string());
            name.unwrap_or_default()
        };
        assert_eq!(
            (last(5), last(150), last(900)),
            ("func.return".into(), "func.return".into(), "func.return".into()),
            "{open}"
        );
        assert!(whole(text(900).as_bytes()).is_err());
    }
}

#[test]
fn functions_in_generic_form_are_checked() {
    let program = |callee: &str, body: &str| {
        format!(
            "\"builtin.module\"() ({{\n  // \"func.func\"() a comment\n  \"func.func\"() <{{function_type = (tensor<4xf32>) -> tensor<4xf32>, \
             sym_name = \"main\", arg_attrs = [{{tf.aliasing_output = 0 : i32, x = \"\\22func.func\\22 \\\"func.func\\\"\"}}]}}> ({{\n  \
             ^bb0(%x: tensor<4xf32> loc(\"a\")):\n    %0 = \"func.call\"(%x) <{{callee = @{callee}}}> : (tensor<4xf32>) -> \
             tensor<4xf32>\n    \"func.return\"(%0) : (tensor<4xf32>) -> ()\n  }}) : () -> ()\n  \"func.func\"() ({body}) {{function_type = \
             (tensor<4xf32>) -> tensor<4xf32>, sym_name = \"f\"}} : () -> ()\n}}) {{mhlo.num_partitions = 2 : i32}} : () -> ()"
        )
    };
    let body = "{\n  ^bb0(%y: tensor<4xf32>):\n    \"func.return\"(%y) : (tensor<4xf32>) -> ()\n  }";
    let annotations = check(program("f", body).as_bytes()).unwrap();
    let inputs = annotations.inputs.unwrap();
    assert_eq!((inputs[0].name.as_deref(), inputs[0].alias), (Some("%x"), Some(0)));
    assert_eq!(annotations.num_partitions, Some(2));
    assert_eq!(function_names(program("f", body).as_bytes()), ["@main", "@f"]);
    let error = check(program("main", body).as_bytes()).unwrap_err();
    assert!(error.message().contains("calls itself"), "{error}");
    let error = check(program("f", "{ }").as_bytes()).unwrap_err();
    assert!(error.message().contains("has no body"), "{error}");
    let found = whole(program("f", body).as_bytes()).unwrap();
    assert!(
        found.text().unwrap().contains("%a: tensor<4xf32> {tf.aliasing_output = 0 : i32"),
        "{}",
        found.text().unwrap()
    );
}
