use super::*;
use pjrt_ir::hlo::{HloComputationProto, HloInstructionProto, HloModuleProto, ProgramShapeProto, ShapeProto, TUPLE};
use pjrt_ir::text;

fn of(text: &str) -> Findings {
    Findings::of(&text::module(text.as_bytes()))
}

fn found(results: &str, body: &str) -> Findings {
    let body = if body.contains("%0") { body.to_owned() } else { format!("%0 = {body}") };
    of(&format!("func.func @main(%x: tensor<3x5xi4>) -> {results} {{ {body} }}"))
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
    assert_eq!(of(both, "stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<3x5xi4>) -> tensor<2x3x5xi4>").1, None);
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
    let text =
        "func.func private @f() -> (tensor<2x2xi4>, tensor<2x2xi4>) {}\n func.func public @main() -> tensor<2x2xi4> {}";
    assert_eq!(of(text).result, None);
    for text in ["tensor<i4", "tensor<2x2xi4>", "func.func @main(tensor<2x2xi4>", "\"stablehlo.sort\" tensor<2x2xi4>"] {
        assert_eq!(of(text), Findings::default(), "{text}");
    }
}

fn shape(dtype: DType, dimensions: &[i64]) -> ShapeProto {
    ShapeProto { element_type: dtype.info().xla_code, dimensions: dimensions.into(), ..Default::default() }
}

/// A module of one operation that returns such arrays.
fn module(opcode: &str, dimensions: &[i64], made: ShapeProto, results: Vec<ShapeProto>) -> HloModuleProto {
    let instruction = HloInstructionProto {
        opcode: opcode.into(),
        shape: Some(made),
        dimensions: dimensions.into(),
        ..Default::default()
    };
    let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
    let result = ShapeProto { element_type: TUPLE, tuple_shapes: results, ..Default::default() };
    let program = ProgramShapeProto { result: Some(result), ..Default::default() };
    HloModuleProto { computations: vec![computation], host_program_shape: Some(program), ..Default::default() }
}

#[test]
fn modules_are_checked_by_their_shapes() {
    let narrow = || shape(DType::I4, &[5, 3]);
    let scalar = || shape(DType::F32, &[]);
    let is_refused = |opcode, dimensions: &[i64], made, results| {
        Findings::of(&module(opcode, dimensions, made, results).to_module()).verdict().is_err_and(|error| {
            assert_eq!(error.kind(), Kind::UnsupportedDtype);
            true
        })
    };
    assert!(is_refused("transpose", &[1, 0], narrow(), vec![narrow(), scalar()]));
    assert!(is_refused("transpose", &[1, 0], shape(DType::F32, &[5, 3]), vec![narrow(), scalar()]));
    assert!(is_refused("broadcast", &[1, 0], narrow(), vec![narrow(), scalar()]));
    assert!(!is_refused("broadcast", &[0, 1], narrow(), vec![narrow(), scalar()]));
    assert!(!is_refused("transpose", &[0, 1], narrow(), vec![narrow(), scalar()]));
    assert!(!is_refused("transpose", &[1, 0], narrow(), vec![narrow()]));
    assert!(!is_refused("transpose", &[1, 0], narrow(), vec![shape(DType::I8, &[5, 3]), scalar()]));
    assert!(!is_refused("add", &[], narrow(), vec![narrow(), scalar()]));
    let two_bits = || shape(DType::U2, &[5]);
    assert!(is_refused("concatenate", &[0], two_bits(), vec![two_bits()]));
    assert!(!is_refused("concatenate", &[0], shape(DType::U4, &[5]), vec![two_bits()]));
    let sorted = ShapeProto { element_type: TUPLE, tuple_shapes: vec![narrow(), two_bits()], ..Default::default() };
    assert!(is_refused("sort", &[0], sorted, vec![scalar()]));
}
