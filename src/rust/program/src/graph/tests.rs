use super::*;
use crate::program::Format;
use pjrt_ir::text;

fn graph(text: &str) -> Graph {
    Graph::of_program(&Program::new(text.as_bytes().to_vec(), Format::Mlir).unwrap()).unwrap()
}

/// Nodes as `label:detail<-inputs`, those inside of others indented.
fn shown(view: &[Node]) -> Vec<String> {
    let depth = |node: &Node| {
        let (mut parent, mut depth) = (node.parent, 0);
        while let Some(outer) = parent {
            (parent, depth) = (view[outer].parent, depth + 1);
        }
        depth
    };
    let text = |node: &Node| {
        let inputs: Vec<_> = node.inputs.iter().map(|&i| view[i].label.as_str()).collect();
        format!("{}{}:{}<-{}", " ".repeat(depth(node)), node.label, node.detail, inputs.join("+"))
    };
    view.iter().map(text).collect()
}

#[test]
fn operations_of_text_have_inputs_types_and_constants() {
    let graph = graph(
        r#"module @m attributes {a.b = 1 : i32} { // %no = stablehlo.add
          func.func public @main(%x: tensor<2x3xf32> {jax.x = "(%z: i32"}, %y: tensor<complex<f32>>) -> (tensor<2x3xf32> {a = "{"}, tensor<i1>) {
            %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
            %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
            %1 = stablehlo.maximum %x, %0 : tensor<2x3xf32> loc("f.py":1:2)
            %2:2 = "stablehlo.custom_thing"(%1, %y) <{a = "}"}> ({
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %s = stablehlo.add %a, %b : tensor<f32>
                "stablehlo.return"(%s) : (tensor<f32>) -> ()
            }) {dims = [1]} : (tensor<2x3xf32>, tensor<complex<f32>>) -> (tensor<2xi1>, tensor<f32>)
            %3 = stablehlo.reduce(%2#0 init: %c) applies stablehlo.and across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
            return %1, %3 : tensor<2x3xf32>, tensor<i1>
          }
        }"#,
    );
    assert_eq!(
        shown(&graph.view(100)),
        [
            "%x:f32[2x3]<-",
            "%y:c64[]<-",
            "maximum(_, 0):f32[2x3]<-%x",
            "custom_thing add:pred[2], ...<-%y+maximum(_, 0)",
            "reduce and:pred[]<-custom_thing add",
            "output 1:f32[2x3]<-maximum(_, 0)",
            "output 2:pred[]<-reduce and",
        ]
    );
}

#[test]
fn loops_and_functions_are_shown_inside_of_their_operations_if_they_fit() {
    let graph = graph(
        "func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
           %c = stablehlo.constant dense<1> : tensor<i32>
           %0:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i32>, tensor<f32>
            cond { %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %p : tensor<i1>
           } do {
              %1 = stablehlo.add %i, %c : tensor<i32>
              %2 = func.call @f(%v) : (tensor<f32>) -> tensor<f32>
              %3 = stablehlo.multiply %2, %x : tensor<f32>
              stablehlo.return %1, %3 : tensor<i32>, tensor<f32>
           }
           return %0#1 : tensor<f32> }
         func.func private @f(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.sine %a : tensor<f32> %1 = stablehlo.abs %0 : tensor<f32> return %1 : tensor<f32> }",
    );
    let text = shown(&graph.view(100));
    assert_eq!(
        text,
        [
            "%n:i32[]<-",
            "%x:f32[]<-",
            "while:i32[], ...<-%n+%x",
            "output 1:f32[]<-while",
            " add(_, 1):i32[]<-",
            " call f:f32[]<-",
            " multiply:f32[]<-call f",
            "  sine:f32[]<-",
            "  abs:f32[]<-sine",
        ]
    );
    assert_eq!(shown(&graph.view(7)), text[..7]);
    assert_eq!(shown(&graph.view(4)), text[..4]);
    assert_eq!(graph.view(4)[2].operations, 7);
}

#[test]
fn functions_of_one_operation_and_wrapped_programs_are_shown() {
    let wrapper = |body: &str| {
        graph(&format!(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {{ %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
               return %0 : tensor<f32> }}
             func.func private @f(%a0: tensor<f32>) -> tensor<f32> {{ {body} }}"
        ))
    };
    let square = wrapper("%1 = stablehlo.multiply %a0, %a0 : tensor<f32> return %1 : tensor<f32>");
    assert_eq!(
        shown(&square.view(100)),
        ["%x:f32[]<-", "call f:f32[]<-%x", "output 1:f32[]<-call f", " multiply:f32[]<-"]
    );
    let mut body = String::new();
    for i in 0..500 {
        body += &format!("%b{i} = stablehlo.sine %a{i} : tensor<f32>\n");
        body += &format!("%a{} = stablehlo.add %b{i}, %a{i} : tensor<f32>\n", i + 1);
    }
    let long = wrapper(&(body + "return %a500 : tensor<f32>"));
    // an input, the call and an output are the least
    for most in 1..4 {
        check(&long.view(most), 3);
    }
    let view = long.view(40);
    check(&view, 40);
    let inside: Vec<_> = view.iter().filter(|node| node.parent == Some(1)).collect();
    assert!(inside.len() > 10);
    assert_eq!(inside.iter().map(|node| node.operations).sum::<usize>(), 1000);
}

/// Every input comes before, and has the same parent.
fn check(view: &[Node], most: usize) {
    assert!(view.len() <= most, "{} > {most}", view.len());
    for (i, node) in view.iter().enumerate() {
        assert!(node.inputs.iter().all(|&input| input < i && view[input].parent == node.parent), "{node:?}");
        assert!(node.parent.is_none_or(|parent| parent < i));
    }
}

#[test]
fn long_functions_are_folded_into_chains_and_stretches() {
    let mut text = String::from("func.func @main(");
    let inputs: Vec<_> = (0..200).map(|i| format!("%w{i}: tensor<4x4xf32>")).collect();
    text += &format!("{}) -> tensor<4x4xf32> {{\n", inputs.join(", "));
    let mut last = "%w0".to_string();
    for i in 1..200 {
        text += &format!("%d{i} = stablehlo.dot_general {last}, %w{i}, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n");
        text += &format!("%t{i} = stablehlo.tanh %d{i} : tensor<4x4xf32>\n");
        text += &format!("%a{i} = stablehlo.add %t{i}, {last} : tensor<4x4xf32>\n");
        last = format!("%a{i}");
    }
    text += &format!("return {last} : tensor<4x4xf32>\n}}");
    let graph = graph(&text);
    for most in [5, 20, 60, 1000] {
        let view = graph.view(most);
        check(&view, most.max(7));
        let operations: usize = view.iter().map(|node| node.operations).sum();
        assert_eq!(operations, 597, "{most}");
    }
    assert_eq!(graph.view(1000).len(), 798);
    assert!(graph.view(60).len() > 30);
}

#[test]
fn damaged_text_is_read_where_possible() {
    let whole = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %0 = stablehlo.add %x, %x : tensor<2xf32> return %0 : tensor<2xf32> }";
    for end in 0..whole.len() {
        read::read(&text::module(&whole.as_bytes()[..end])).view(10);
    }
    for text in
        ["func", "func @", "func @f({", "%", "func @f() { } }", "func @f() { = , ) ] > @ # ! ^ \" }", "func f f f (("]
    {
        read::read(&text::module(text.as_bytes())).view(10);
    }
    assert_eq!(graph("module {}").view(10).len(), 0);
}

#[test]
fn numbers_of_constants_are_short() {
    for (text, short) in [
        ("1.000000e+00", "1"),
        ("0xFF800000", "-Inf"),
        ("0x7FF0000000000000", "Inf"),
        ("3.14159265358979", "3.1416"),
        ("1.0e-20", "1.000e-20"),
        ("true", "true"),
        ("-7", "-7"),
    ] {
        assert_eq!(short_number(text).as_deref(), Some(short), "{text}");
    }
    for text in ["[1, 2]", "\"0xFFFF\"", "(1.000000e+00,2.0)"] {
        assert_eq!(short_number(text), None);
    }
}
