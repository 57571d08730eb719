use super::*;
use crate::exported::damage::damaged_places;

fn module(name: &str) -> Module {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    Module::decode(&std::fs::read(path).unwrap()).unwrap()
}

fn text(name: &str, dims: &[&[i64]], constants: &[(usize, i32)]) -> Result<String> {
    let dims: Vec<Vec<i64>> = dims.iter().map(|dims| dims.to_vec()).collect();
    refine(&module(name), &dims, constants)?.text()
}

#[test]
fn sizes_that_the_program_refuses_are_an_error() {
    let error = text("symbolic/multiples.artifact", &[&[2, 5], &[2, 3]], &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::ShapeMismatch);
    assert_eq!(
        error.message(),
        "Input shapes do not match the polymorphic shapes specification. Division had remainder 1 when computing the \
         value of 'h'. Using the following polymorphic shapes specifications: args[0].shape = (b, 2*h),args[1].shape = (b, h). \
         Obtained dimension variables: 'b' = 2 from specification 'b' for dimension args[0].shape[0] (= 2)."
    );
    let error = text("symbolic/multiples.artifact", &[&[2, 4], &[2, 3]], &[]).unwrap_err();
    assert!(error.message().contains("args[1].shape[1] (= 3) and the specification 'h' (= 2)"), "{error}");
}

#[test]
fn shapes_must_match_the_arguments() {
    let refused = |dims: &[&[i64]], constants: &[(usize, i32)]| {
        let error = text("symbolic/mlp.artifact", dims, constants).unwrap_err();
        (error.kind(), error.message().to_owned())
    };
    let shapes: &[&[i64]] = &[&[2, 4], &[4, 3], &[3, 2]];
    assert_eq!(refused(&shapes[..2], &[]).1, "There is no shape for argument 3 of the program.");
    assert_eq!(refused(&[shapes, &[&[1]]].concat(), &[]).1, "There are more shapes than the program has arguments, 3.");
    assert_eq!(
        refused(&[&[2, 5], &[4, 3], &[3, 2]], &[]),
        (Kind::ShapeMismatch, "Argument 1 of the program is tensor<?x4xf32>, not of shape [2, 5].".to_owned())
    );
    assert_eq!(refused(shapes, &[(3, 1)]).1, "The program has no argument 4.");
    assert_eq!(refused(shapes, &[(0, 1)]).1, "Argument 1 of the program is tensor<?x4xf32>, not an integer.");
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    let code = "func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> { return %x : tensor<?x2xf32> }";
    let source = pjrt_ir::text::whole(code.as_bytes()).unwrap();
    let refused = |dims: &[Vec<i64>], constants: &[(usize, i32)]| {
        refine(&source, dims, constants).unwrap_err().message().to_owned()
    };
    assert_eq!(refused(&[vec![2, 3]], &[]), "Argument 1 (`x`) of the program is tensor<?x2xf32>, not of shape [2, 3].");
    assert_eq!(refused(&[], &[(0, 1)]), "Argument 1 (`x`) of the program is tensor<?x2xf32>, not an integer.");
}

#[test]
fn branches_of_other_platforms_are_left_out() {
    for (index, operation) in [(0, "stablehlo.add"), (1, "stablehlo.multiply"), (2, "stablehlo.subtract")] {
        let text = text("symbolic/platform.artifact", &[&[3]], &[(0, index)]).unwrap();
        assert!(
            text.contains(operation) && !text.contains("stablehlo.case") && !text.contains("tensor<i32>"),
            "{text}"
        );
        assert!(text.contains("@main(%x: tensor<3xf32> loc(\"x\"))"), "{text}");
    }
}

#[test]
fn a_function_is_built_once_for_each_set_of_shapes() {
    let text = text("symbolic/calls.artifact", &[&[3, 4], &[3, 4]], &[]).unwrap();
    let inner = text.lines().filter(|line| line.contains("func.func private @inner")).count();
    assert_eq!(inner, 3, "{text}");
    assert!(text.contains("jax.uses_shape_polymorphism = false") && !text.contains("dynamic_"), "{text}");
}

#[test]
fn operations_that_cannot_be_refined_are_named() {
    let code = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/symbolic/sums.artifact")).unwrap();
    let at = memchr::memmem::find(&code, b"dynamic_reduce_window").unwrap();
    let mut changed = code.clone();
    changed[at + 20] = b'v';
    let module = Module::decode(&changed).unwrap();
    let error = refine(&module, &[vec![2, 3], vec![2, 3]], &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::DynamicShape);
    assert!(error.message().contains("`stablehlo.custom_call @stablehlo.dynamic_reduce_windov` returns"), "{error}");
    assert!(error.hints().iter().any(|hint| hint.contains("fixed shapes")), "{error}");
}

#[test]
fn damaged_programs_are_refused_without_a_panic() {
    for (name, dims) in [
        ("symbolic/shapes.artifact", &[&[2i64, 3][..]][..]),
        ("symbolic/loops.artifact", &[&[3, 4], &[]]),
        ("symbolic/sums.artifact", &[&[3, 4], &[3, 4]]),
        ("symbolic/convolve.artifact", &[&[1, 5, 4, 2], &[3, 3, 2, 3]]),
    ] {
        let code = std::fs::read(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let dims: Vec<Vec<i64>> = dims.iter().map(|dims| dims.to_vec()).collect();
        for at in damaged_places(code.len(), 15).skip(1) {
            for byte in [0, 0xff, code[at].wrapping_add(2), code[at] ^ 8] {
                let mut changed = code.clone();
                changed[at] = byte;
                if let Ok(module) = Module::decode(&changed) {
                    let _ = refine(&module, &dims, &[]).and_then(|module| module.text());
                    let _ = refine(&module, &dims[1..], &[(0, 1)]);
                }
            }
        }
    }
}
