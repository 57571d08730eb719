use super::*;

/// A program with this line, in short forms or in generic form.
fn read(line: &str) -> pjrt_base::error::Result<String> {
    whole(
        format!("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{line}\nreturn %x : tensor<2xf32>\n}}")
            .as_bytes(),
    )?
    .text()
}

#[test]
fn short_forms_are_the_same_as_the_generic_form() {
    for (short, generic) in [
        (
            "%0 = stablehlo.reverse %x, dims = [0] : tensor<2xf32>",
            "%0 = \"stablehlo.reverse\"(%x) <{dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2xf32>",
        ),
        (
            "%0 = stablehlo.iota dim = 0 : tensor<3xi32> loc(\"a\")",
            "%0 = \"stablehlo.iota\"() {iota_dimension = 0 : i64} : () -> tensor<3xi32> // a comment",
        ),
        (
            "%0 = stablehlo.compare  LT, %x, %x,  FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
            "%0 = \"stablehlo.compare\"(%x, %x) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = \
             #stablehlo<comparison_type FLOAT>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
        ),
        (
            "%0 = stablehlo.reduce_precision %x, format = e5m7 : tensor<2xf32>",
            "%0 = \"stablehlo.reduce_precision\"(%x) {exponent_bits = 5 : i32, mantissa_bits = 7 : i32} : (tensor<2xf32>) -> \
             tensor<2xf32>",
        ),
        (
            "%0:2 = stablehlo.composite \"a.b\" %x, %x {decomposition = @f} : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, \
             tensor<f32>)",
            "%0:2 = \"stablehlo.composite\"(%x, %x) {name = \"a.b\", decomposition = @f} : (tensor<2xf32>, tensor<2xf32>) -> \
             (tensor<2xf32>, tensor<f32>)",
        ),
        (
            "%0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = bf16, \
             rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, \
             num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>",
            "%0 = \"stablehlo.dot_general\"(%x, %x) {algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, \
             rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, \
             num_primitive_operations = 3, allow_imprecise_accumulation = false>, dot_dimension_numbers = \
             #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<2xf32>, \
             tensor<2xf32>) -> tensor<f32>",
        ),
        (
            "%0:2 = chlo.top_k(%x, k = 1, is_stable = true) : tensor<2xf32> -> (tensor<1xf32>, tensor<1xi32>)",
            "%0:2 = \"chlo.top_k\"(%x) {k = 1 : i64, is_stable = true} : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi32>)",
        ),
        (
            "%0 = chlo.constant dense<[1, -0x10]> : tensor<2xi8>",
            "%0 = \"chlo.constant\"() {value = dense<[1, -16]> : tensor<2xi8>} : () -> tensor<2xi8>",
        ),
        (
            "%0 = chlo.is_inf %x : tensor<2xf32> -> tensor<2xi1>",
            "%0 = \"chlo.is_inf\"(%x) : (tensor<2xf32>) -> tensor<2xi1>",
        ),
        (
            "%0 = sdy.reshard %x <@mesh, [{\"x\"}]> : tensor<2xf32>",
            "%0 = \"sdy.reshard\"(%x) {sharding = #sdy.sharding<@mesh, [{\"x\"}]>} : (tensor<2xf32>) -> tensor<2xf32>",
        ),
        (
            "%0 = sdy.named_computation<\"f\">(%x) in_shardings=[<@mesh, [{}]>] (%y: tensor<2xf32>) {\nsdy.return %y : \
             tensor<2xf32>\n} : (tensor<2xf32>) -> tensor<2xf32>",
            "%0 = \"sdy.named_computation\"(%x) <{name = \"f\", in_shardings = #sdy.sharding_per_value<[<@mesh, [{}]>]>}> ({\n\
             ^bb0(%y: tensor<2xf32>):\n\"sdy.return\"(%y) : (tensor<2xf32>) -> ()\n}) : (tensor<2xf32>) -> tensor<2xf32>",
        ),
    ] {
        assert_eq!(read(short).unwrap(), read(generic).unwrap(), "{short}");
    }
}

#[test]
fn what_is_not_known_is_an_error_with_its_line() {
    for (line, what) in [
        (
            "%0 = stablehlo.unheard_of %x : tensor<2xf32>",
            "the operation 'stablehlo.unheard_of' in a form that is not known",
        ),
        ("%0 = stablehlo.reverse %x, places = [0] : tensor<2xf32>", "the setting 'places'"),
        ("%0 = stablehlo.reduce_precision %x, format = e5 : tensor<2xf32>", "a format of floats"),
        ("%0 = sdy.unheard_of %x : tensor<2xf32>", "the operation 'sdy.unheard_of' in a form that is not known"),
        ("%0 = sdy.reshard %x : tensor<2xf32>", "where '<' was expected"),
        ("%0 = stablehlo.add %x, %y : tensor<2xf32>", "%y, which is not defined before it"),
        ("%0:2 = stablehlo.add %x, %x : tensor<2xf32>", "2 names for 1 results"),
        (
            "%0:9223372036854775807, %1:9223372036854775807, %2:3 = stablehlo.add %x, %x : tensor<2xf32>",
            "names for 1 results",
        ),
        ("%0 = stablehlo.constant dense<[1]> : tensor<2xf32>", "a constant that does not match its type"),
        ("%0 = \"stablehlo.add\"(%x, %x : tensor<2xf32>", "where ',' was expected"),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.message().contains("line 2 ") && error.message().contains(what), "{error}");
    }
}

#[test]
fn values_of_another_function_have_no_name() {
    let code = "func.func @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
        func.func @g(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    let mut module = whole(code.as_bytes()).unwrap();
    assert_eq!(module.text().unwrap().matches("return %").count(), 2);
    let argument = module.root.inner().next().unwrap().block(0).unwrap().arguments[0];
    let end = module.root.inner_mut().last().unwrap().inner_mut().last().unwrap();
    end.operands = vec![argument];
    assert!(module.text().unwrap_err().message().contains("used before it is defined"));
}

#[test]
fn modules_in_a_module_are_read_and_written() {
    let code = "module @a attributes {m.a = 1 : i32} {
        module @b { func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } loc(\"f\") } loc(\"m\")
        func.func @main(%x: tensor<i8>) -> tensor<i8> { return %x : tensor<i8> }
    }";
    let text = whole(code.as_bytes()).unwrap().text().unwrap();
    assert!(text.starts_with("module @a attributes {m.a = 1 : i32}") && text.contains("{sym_name = \"b\"}"), "{text}");
    assert_eq!(text.matches("func.func @main(%x: ").count(), 2);
    assert_eq!(whole(text.as_bytes()).unwrap().text().unwrap(), text);
}

#[test]
fn aliases_stand_for_types_constants_and_attributes() {
    let code = "!e = i4
        !t = tensor<2x!e>
        !u = !t
        !q = !quant.uniform<i8 : f32, 0.5:3>
        !w = tensor<2x!q>
        #c = dense<[1, -2]> : tensor<2xi4>
        #map = affine_map<(d0, d1) -> (d1, d0)>
        func.func @main(%x: !u {a.c = #map}) -> !t {
        %0 = stablehlo.constant #c
        %1 = stablehlo.add %x, %0 : !u
        %2 = \"a.b\"(%1) {a.c = @f::@\"g h\"::@i} : (!t) -> !w
        return %1 : tensor<2x!e> loc(#where)
        }
        #where = loc(\"f\")
        !last = f32";
    let text = whole(code.as_bytes()).unwrap().text().unwrap();
    for line in [
        "@main(%x: tensor<2xi4> {a.c = affine_map<(d0, d1) -> (d1, d0)>} loc(\"x\")) -> (tensor<2xi4>)",
        "%0 = stablehlo.constant dense<[1, -2]> : tensor<2xi4>",
        "%1 = stablehlo.add %x, %0 : tensor<2xi4>",
        "{a.c = @f::@\"g h\"::@i} : (tensor<2xi4>) -> tensor<2x!quant.uniform<i8:f32,0.5:3>>",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // What is read for checks is the same.
    let types = |module: Module| module.types.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>();
    assert_eq!(types(module(code.as_bytes())), types(whole(code.as_bytes()).unwrap()));
    let constants = constants(code.as_bytes());
    assert_eq!(constants.len(), 1);
    assert!(code[..constants[0].end].ends_with("stablehlo.constant #c"));
}

#[test]
fn aliases_without_end_are_left_out() {
    let text = "#a = [\n!t = tensor<2xf32\n".repeat(50_000);
    assert_eq!(module(text.as_bytes()).types.len(), 0);
}

#[test]
fn spaces_before_brackets_comments_in_types_and_all_line_ends_are_passed() {
    let plain = "func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
        // \"
        %0 = stablehlo.constant dense<1.0> : tensor<3x2xf32> // {
        %1 = \"stablehlo.transpose\"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %2 = stablehlo.maximum %0, %1 : tensor<3x2xf32>
        return %2 : tensor<3x2xf32>
        }
        #loc = loc(unknown)\n";
    let expected = whole(plain.as_bytes()).unwrap().text().unwrap();
    for odd in [
        plain.replace('<', " < ").replace("< {", "<{"),
        plain.replace("tensor<", "tensor < // >\n"),
        plain.replace('\n', "\r\n"),
        plain.replace('\n', "\r"),
    ] {
        assert_eq!(whole(odd.as_bytes()).unwrap().text().unwrap(), expected, "{odd}");
        let found = module(odd.as_bytes());
        assert_eq!((found.root.inner().count(), found.types), (1, whole(plain.as_bytes()).unwrap().types), "{odd}");
        assert_eq!(constants(odd.as_bytes()).len(), 1);
    }
    assert_eq!(super::super::check(plain.replace('<', " <").as_bytes()).unwrap().inputs.unwrap().len(), 1);
}
