//! The same programs in several forms: what is read of them, and what is said about them, must not depend on the form.

use super::collectives;
use super::narrow::{self, Findings};
use crate::graph::Graph;
use crate::program::{Format, Program};
use pjrt_ir::hlo::HloModuleProto;
use pjrt_ir::module::annotations::{Annotations, Array};
use pjrt_ir::module::{Attribute, Module};
use pjrt_ir::text;
use prost::Message;
use std::path::Path;

/// What is said about a program: its annotations without the names of arrays, which only text always has; findings; errors.
fn said(program: &Program) -> (Annotations, Findings, Vec<String>) {
    let mut annotations = program.annotations().clone();
    let unnamed = |array: Array| Array { name: None, ..array };
    annotations.inputs = annotations.inputs.map(|inputs| inputs.into_iter().map(unnamed).collect());
    let narrow = narrow::check(program).err();
    let collectives = collectives::check(program, 1, 1).err();
    let dynamic: Vec<String> = program.dynamic_arrays().iter().map(|array| array.replace('%', "")).collect();
    let without_names = |array: String| match array.split_once(" (`") {
        Some((what, rest)) => what.to_owned() + rest.split_once("`)").map_or("", |(_, rest)| rest),
        None => array,
    };
    let errors = narrow.into_iter().chain(collectives).map(|error| error.message().to_owned());
    let findings = Findings::of(&program.module().unwrap());
    (annotations, findings, errors.chain(dynamic.into_iter().map(without_names)).collect())
}

/// Checks that the same is read of a program in two forms of MLIR.
pub(crate) fn check_alike(one: &Program, other: &Program, path: &str) {
    assert_eq!(said(one), said(other), "{path}");
    assert_eq!(one.name(), other.name(), "{path}");
    assert_eq!(one.is_for_shardy(), other.is_for_shardy(), "{path}");
    assert_eq!(nodes(one), nodes(other), "{path}");
}

/// The nodes of a program's graph: the operations with their types, without the names of inputs.
fn nodes(program: &Program) -> Vec<String> {
    let view = Graph::of_program(program).unwrap().view(1000);
    let nodes = view.iter().map(|node| {
        let label = if node.role.name() == "input" { "" } else { &node.label };
        let (role, count) = (node.role.name(), node.operations);
        format!("{:?} {label} {} {role} {count} {:?}", node.parent, node.detail, node.inputs)
    });
    nodes.collect()
}

fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn mlir(path: &str) -> Program {
    Program::new(fixture(path), Format::Mlir).unwrap()
}

#[test]
fn text_and_both_forms_of_bytecode_are_read_alike() {
    for name in ["gspmd", "shardy"] {
        let text = mlir(&format!("fixtures/sharded/step-{name}.mlir"));
        let found = text.annotations();
        assert_eq!((found.num_replicas, found.num_partitions), (Some(1), Some(4)));
        let array = |dims: &[i64], has_sharding| Array { dims: Some(dims.into()), has_sharding, ..Array::default() };
        let inputs = [array(&[8, 4], true), array(&[4, 6], true), array(&[6], false)];
        let untyped = |arrays: &Option<Vec<Array>>| {
            let arrays = arrays.iter().flatten().cloned();
            arrays.map(|array| Array { name: None, dtype: None, ..array }).collect::<Vec<_>>()
        };
        assert_eq!(untyped(&found.inputs), inputs);
        let output = |dims, path: &str| Array { path: Some(path.into()), ..array(dims, false) };
        assert_eq!(untyped(&found.outputs), [output(&[8, 6], "result[0]"), output(&[8], "result[1]")]);
        for form in ["mlirbc", "artifact"] {
            check_alike(&mlir(&format!("fixtures/sharded/step-{name}.{form}")), &text, &format!("{name} {form}"));
        }
    }
}

#[test]
fn what_bytecode_says_about_its_arrays_is_read() {
    let inputs = |name: &str| mlir(&format!("fixtures/{name}")).annotations().inputs.clone().unwrap();
    let memory = |name: &str| -> Vec<(bool, Option<usize>)> {
        inputs(name).iter().map(|input| (input.is_donated, input.alias)).collect()
    };
    assert!(memory("donor.mlirbc").contains(&(true, None)));
    assert!(memory("donating.mlirbc").iter().any(|&(is_donated, alias)| is_donated && alias.is_some()));
    assert_eq!(memory("square.mlirbc"), [(false, None)]);
    assert!(inputs("sharded.mlirbc")[0].has_sharding);
}

/// The three forms of a program: text, bytecode, and an HLO module.
const THREE: [(&str, [&str; 3]); 2] = [
    ("named", ["named.mlir", "named.artifact", "named.hlo.pb"]),
    ("maximum", ["", "maximum.artifact", "maximum.hlo.pb"]),
];

#[test]
fn hlo_modules_are_read_as_the_text_and_bytecode_that_they_come_from() {
    for (name, files) in THREE {
        let [text, bytecode, hlo] = files.map(|file| format!("../../../tests/testthat/fixtures/{file}"));
        let bytecode = mlir(&bytecode);
        let text = match files[0] {
            "" => Program::new(bytecode.whole_text().unwrap().into_bytes(), Format::Mlir).unwrap(),
            _ => mlir(&text),
        };
        check_alike(&bytecode, &text, name);
        let hlo = Program::new(fixture(&hlo), Format::Hlo).unwrap();
        let dims = |program: &Program| {
            let arrays =
                |arrays: &Option<Vec<Array>>| arrays.iter().flatten().map(|a| a.dims.clone()).collect::<Vec<_>>();
            (arrays(&program.annotations().inputs), arrays(&program.annotations().outputs))
        };
        assert_eq!(dims(&hlo), dims(&text), "{name}");
        assert_eq!((said(&hlo).1, said(&hlo).2), (said(&text).1, said(&text).2), "{name}");
    }
}

/// Operations in the three forms: text, and an instruction with its opcode, dimensions and attributes.
#[test]
fn findings_do_not_depend_on_the_form() {
    let moves = |operation: &str, result: &str| {
        let source = format!("func.func @main(%x: tensor<3x5xi4>) -> (tensor<{result}>, tensor<f32>) {{\n  %0 = {operation} : (tensor<3x5xi4>) -> tensor<{result}>\n  return %0, %x : tensor<{result}>, tensor<f32>\n}}");
        let found = Findings::of(&text::module(source.as_bytes()));
        (found.moves.clone(), found.moves_narrow.clone(), found.result.clone())
    };
    let bytecode = |name: &str| {
        let found = Findings::of(&mlir(&format!("fixtures/{name}")).module().unwrap());
        (found.moves.clone(), found.moves_narrow.clone(), found.result.clone())
    };
    let transposed = moves("stablehlo.transpose %x, dims = [1, 0]", "5x3xi4");
    assert_eq!(transposed, bytecode("moved-i4.mlirbc"));
    assert_eq!(transposed.0.as_deref(), Some("transpose"));
    for (name, dtype) in
        [("moved-f4.mlirbc", "f4e2m1fn"), ("moved-f4.artifact", "f4e2m1fn"), ("moved-ui2.artifact", "ui2")]
    {
        let expected = (transposed.0.clone(), Some(("transpose".into(), dtype.into())), Some(dtype.to_owned()));
        assert_eq!(bytecode(name), expected, "{name}");
    }
    // A broadcast that permutes dimensions moves them, also in bytecode: here as its operations are decoded.
    let permuted = moves("stablehlo.broadcast_in_dim %x, dims = [2, 0]", "5x2x3xi4");
    assert_eq!((permuted.0.as_deref(), permuted.2.as_deref()), (Some("transpose"), Some("i4")));
    let mut module: Module = mlir("fixtures/moved-i4.mlirbc").module().unwrap();
    let main = module.root.inner_mut().next().unwrap();
    for operation in main.inner_mut().filter(|operation| operation.base() == "transpose") {
        operation.name = "stablehlo.broadcast_in_dim".into();
        let order = operation.remove("permutation").unwrap();
        operation.set("broadcast_dimensions", order);
    }
    assert_eq!(Findings::of(&module).moves_narrow, transposed.1);
    // Arrays in an order of their own.
    let ordered = Attribute::Dictionary([("mhlo.layout_mode".into(), Attribute::string("{0,1}"))].into());
    let outputs = main_outputs(&module);
    module.root.inner_mut().next().unwrap().set("res_attrs", Attribute::Array(vec![ordered; outputs].into()));
    let written = Program::new(module.text().unwrap().into_bytes(), Format::Mlir).unwrap();
    assert_eq!(Findings::of(&module).ordered.as_deref(), Some("i4"));
    assert_eq!(Findings::of(&written.module().unwrap()), Findings::of(&module));
}

fn main_outputs(module: &Module) -> usize {
    let main = module.root.inner().next().unwrap();
    main.attribute("res_attrs").and_then(Attribute::as_array).map_or(2, <[_]>::len)
}

#[test]
fn an_hlo_module_has_the_graph_of_its_instructions() {
    let code = fixture("../../../tests/testthat/fixtures/square.hlo.pb");
    let module = HloModuleProto::decode(code.as_slice()).unwrap();
    let program = Program::new(code, Format::Hlo).unwrap();
    assert_eq!(Graph::of_hlo(&module).view(50).len(), nodes(&program).len());
    assert!(
        nodes(&program).iter().any(|node| node.contains("dot") || node.contains("multiply")),
        "{:?}",
        nodes(&program)
    );
}
