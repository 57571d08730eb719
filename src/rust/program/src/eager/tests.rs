use super::*;
use crate::program::{Format, Program};
use pjrt_base::reason::Hint;
use pjrt_data::dtype::ALL;

/// The dtype and shape of an operation's result.
fn result(operation: Operation, operands: &[Operand], parameters: &[i64], float: DType) -> Result<(DType, Vec<i64>)> {
    let body = Body::new(float);
    let result = build(operation, &body.arguments(operands), parameters)?;
    Ok((result.dtype, result.dims))
}

fn text(name: &str, operands: &[(DType, &[i64])], parameters: &[i64]) -> Result<String> {
    let operands: Vec<Operand> = operands.iter().map(|&(dtype, shape)| Operand { dtype, shape }).collect();
    program(Operation::from_name(name).unwrap(), &operands, parameters, DType::F32)
}

fn type_of(name: &str, operands: &[(DType, &[i64])], parameters: &[i64]) -> (DType, Vec<i64>) {
    let operands: Vec<Operand> = operands.iter().map(|&(dtype, shape)| Operand { dtype, shape }).collect();
    result(Operation::from_name(name).unwrap(), &operands, parameters, DType::F32).unwrap()
}

fn error(name: &str, operands: &[(DType, &[i64])], parameters: &[i64]) -> Error {
    text(name, operands, parameters).unwrap_err()
}

#[test]
fn every_operation_has_one_name() {
    for &operation in Operation::ALL {
        assert_eq!(Operation::from_name(operation.name()), Some(operation));
    }
    assert_eq!(Operation::from_name("system"), None);
}

#[test]
fn a_program_repeats_the_scalar_and_converts_what_differs() {
    let want = r#"func.func @main(%x: tensor<2x3xf32>, %y: tensor<i32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.broadcast_in_dim"(%y) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<2x3xi32>
  %1 = "stablehlo.convert"(%0) : (tensor<2x3xi32>) -> tensor<2x3xf32>
  %2 = "stablehlo.multiply"(%x, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
"#;
    assert_eq!(text("*", &[(DType::F32, &[2, 3]), (DType::I32, &[])], &[]).unwrap(), want);
    let want = r#"func.func @main(%x: tensor<4xbf16>) -> tensor<bf16> {
  %0 = "stablehlo.convert"(%x) : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = "stablehlo.constant"() {value = dense<0.0e0> : tensor<f32>} : () -> tensor<f32>
  %2 = "stablehlo.reduce"(%0, %1) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %3 = "stablehlo.convert"(%2) : (tensor<f32>) -> tensor<bf16>
  return %3 : tensor<bf16>
}
"#;
    assert_eq!(text("sum", &[(DType::BF16, &[4])], &[]).unwrap(), want);
}

#[test]
fn a_sum_of_pred_counts_all_its_elements() {
    let shape: &[i64] = &[1 << 16, 1 << 15];
    assert_eq!(type_of("sum", &[(DType::Pred, shape)], &[]).0, DType::I64);
    assert_eq!(type_of("sum", &[(DType::Pred, shape)], &[0]).0, DType::I32);
    assert_eq!(type_of("sum", &[(DType::Pred, &[1 << 16, (1 << 15) - 1])], &[]).0, DType::I32);
}

/// The dtype of a result by the class of the operand; `None` where an operation is refused.
fn expected(operation: Operation, dtype: DType) -> Option<DType> {
    use Operation as Op;
    let is_floating = dtype.is_float() || dtype.is_complex();
    let counted = if dtype == DType::Pred { DType::I32 } else { dtype };
    let float = if is_floating { dtype } else { DType::F32 };
    let part = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    };
    let sum = match dtype {
        DType::Pred => DType::I32,
        _ if !dtype.is_integer() => dtype,
        _ if dtype.is_signed() => DType::I64,
        _ => DType::U64,
    };
    let real = |result| (!dtype.is_complex()).then_some(result);
    match operation {
        Op::Add | Op::Subtract | Op::Multiply => Some(counted),
        Op::Divide | Op::Power | Op::Mean | Op::RowMeans | Op::ColMeans => Some(float),
        Op::Modulo | Op::Quotient | Op::Pmax | Op::Pmin => real(counted),
        Op::Equal | Op::NotEqual | Op::And | Op::Or | Op::Xor | Op::Not | Op::Any | Op::All => Some(DType::Pred),
        Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => real(DType::Pred),
        Op::IsNan | Op::IsFinite | Op::IsInfinite => real(DType::Pred),
        Op::Abs | Op::Mod => Some(if dtype.is_complex() { part } else { counted }),
        Op::Sign | Op::Floor | Op::Ceiling | Op::Trunc | Op::Round => real(counted),
        Op::Sqrt | Op::Exp | Op::Log | Op::Cos | Op::Sin | Op::Tan | Op::Acos | Op::Asin | Op::Atan => Some(float),
        Op::Cosh | Op::Sinh | Op::Tanh | Op::Acosh | Op::Asinh | Op::Atanh => Some(float),
        Op::Signif | Op::Expm1 | Op::Log1p | Op::Log2 | Op::Log10 | Op::Cospi | Op::Sinpi | Op::Tanpi => real(float),
        Op::Gamma | Op::Lgamma | Op::Digamma | Op::Trigamma | Op::Atan2 => real(float),
        Op::Arg => Some(if dtype.is_complex() { part } else { float }),
        Op::Re | Op::Im => Some(part),
        Op::Sum | Op::Prod | Op::RowSums | Op::ColSums | Op::Cumsum => Some(sum),
        Op::Max | Op::Min | Op::Range | Op::Cummax | Op::Cummin => real(counted),
        Op::Cumprod | Op::Matmul | Op::Crossprod | Op::Tcrossprod => Some(float),
        Op::Outer => Some(counted),
        Op::Conj | Op::Transpose | Op::Aperm | Op::Dim | Op::Rev | Op::Cbind | Op::Rbind | Op::Diag | Op::Ifelse => {
            Some(dtype)
        }
        Op::Take | Op::Layout => Some(dtype),
        Op::Sort => real(dtype),
        Op::Order | Op::WhichMax | Op::WhichMin => real(DType::I32),
    }
}

#[test]
fn every_operation_gives_the_dtype_of_the_table_for_every_dtype() {
    // The program of a layout has annotations, which have a test below.
    for &operation in Operation::ALL.iter().filter(|operation| **operation != Operation::Layout) {
        for &dtype in ALL {
            let operand = Operand { dtype, shape: &[2, 2] };
            let parameters: &[i64] = if operation == Operation::Dim { &[4] } else { &[] };
            let mut made = Vec::new();
            for count in 1..=3 {
                let operands = vec![operand; count];
                match program(operation, &operands, parameters, DType::F32) {
                    Ok(text) => made.push((text, result(operation, &operands, parameters, DType::F32).unwrap())),
                    Err(error) if error.kind() == Kind::ArgumentCount => {}
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::UnsupportedDtype, "{operation:?} of {dtype}: {error}");
                        assert_eq!(expected(operation, dtype), None, "{operation:?} of {dtype}");
                    }
                }
            }
            assert_eq!(made.is_empty(), expected(operation, dtype).is_none(), "{operation:?} of {dtype}");
            for (text, (of, dims)) in made {
                // Rules for one operand are the same: -x is of the dtype of x - x.
                assert_eq!(Some(of), expected(operation, dtype), "{operation:?} of {dtype}");
                assert!(text.contains(&format!(") -> {} {{", body::tensor(of, &dims))), "{text}");
                let program = Program::new(text.into_bytes(), Format::Mlir).unwrap();
                assert!(
                    program.annotations().outputs.as_ref().is_some_and(|outputs| outputs.len() == 1),
                    "{operation:?}"
                );
            }
        }
    }
}

#[test]
fn a_divisor_that_is_one_number_is_hidden_from_compilers() {
    let is_hidden = |name: &str, operands: &[(DType, &[i64])], parameters: &[i64]| {
        text(name, operands, parameters).unwrap().contains("optimization_barrier")
    };
    let (array, scalar): (&[i64], &[i64]) = (&[4], &[]);
    assert!(is_hidden("/", &[(DType::F32, array), (DType::F32, scalar)], &[]));
    assert!(is_hidden("/", &[(DType::F32, array), (DType::I32, scalar)], &[]));
    assert!(is_hidden("%/%", &[(DType::F64, array), (DType::F64, scalar)], &[]));
    assert!(is_hidden("log", &[(DType::F32, array), (DType::F32, scalar)], &[]));
    assert!(is_hidden("round", &[(DType::F32, array)], &[2]) && is_hidden("mean", &[(DType::F32, array)], &[]));
    assert!(!is_hidden("/", &[(DType::F32, array), (DType::F32, array)], &[]));
    assert!(!is_hidden("/", &[(DType::F32, scalar), (DType::F32, array)], &[]));
    assert!(!is_hidden("%/%", &[(DType::I32, array), (DType::I32, scalar)], &[]));
}

#[test]
fn integers_narrower_than_a_byte_become_bytes_before_floats() {
    for (dtype, byte) in [(DType::I2, "i8"), (DType::I4, "i8"), (DType::U2, "ui8"), (DType::U4, "ui8")] {
        for (name, operands) in
            [("sqrt", &[(dtype, &[4i64, 4][..])][..]), ("*", &[(dtype, &[4, 4]), (DType::F64, &[])])]
        {
            let text = text(name, operands, &[]).unwrap();
            assert!(text.contains(&format!("(tensor<4x4x{}>) -> tensor<4x4x{byte}>", dtype.info().mlir)), "{text}");
        }
    }
}

#[test]
fn shapes_follow_the_operation() {
    use DType::{F32, I32};
    let x: (DType, &[i64]) = (F32, &[2, 3, 4]);
    assert_eq!(type_of("+", &[x, (F32, &[])], &[]), (F32, vec![2, 3, 4]));
    assert_eq!(type_of("+", &[(F32, &[]), (I32, &[])], &[]), (F32, vec![]));
    assert_eq!(type_of("sum", &[x], &[1]), (F32, vec![2, 4]));
    assert_eq!(type_of("rowSums", &[x], &[2]), (F32, vec![2, 3]));
    assert_eq!(type_of("colSums", &[x], &[2]), (F32, vec![4]));
    assert_eq!(type_of("sum", &[x], &[1, -1]), (F32, vec![2, 4]));
    assert_eq!(type_of("rowSums", &[x], &[2, -1]), (F32, vec![2, 3]));
    assert_eq!(type_of("[", &[x, (I32, &[5]), (I32, &[0])], &[0, 2]), (F32, vec![5, 3, 0]));
    assert_eq!(type_of("aperm", &[x], &[2, 0, 1]), (F32, vec![4, 2, 3]));
    assert_eq!(type_of("cumsum", &[x], &[]), (F32, vec![24]));
    assert_eq!(type_of("outer", &[(F32, &[2]), (F32, &[3])], &[]), (F32, vec![2, 3]));
    assert_eq!(type_of("%*%", &[(I32, &[3]), (I32, &[3, 2])], &[]), (F32, vec![1, 2]));
    assert_eq!(type_of("cbind", &[(I32, &[3]), (F32, &[3, 2]), (F32, &[])], &[]), (F32, vec![3, 4]));
}

#[test]
fn vectors_are_rows_or_columns_as_in_r() {
    // The results in R, for vectors of one dimension.
    for (name, x, y, dims) in [
        ("%*%", &[1i64][..], &[3i64][..], Some([1, 3])),
        ("%*%", &[3], &[3], Some([1, 1])),
        ("%*%", &[3], &[1, 3], Some([3, 3])),
        ("%*%", &[2, 1], &[3], Some([2, 3])),
        ("%*%", &[3], &[1], None),
        ("crossprod", &[1], &[3], Some([1, 3])),
        ("crossprod", &[], &[3], Some([1, 3])),
        ("crossprod", &[3], &[3], Some([1, 1])),
        ("crossprod", &[1, 2], &[3], Some([2, 3])),
        ("crossprod", &[1], &[1, 3], Some([1, 3])),
        ("crossprod", &[3], &[1], None),
        ("crossprod", &[3], &[1, 3], None),
        ("crossprod", &[2, 1], &[3], None),
        ("tcrossprod", &[1, 3], &[3], Some([1, 1])),
        ("tcrossprod", &[3], &[1, 3], Some([1, 1])),
        ("tcrossprod", &[3], &[2, 3], Some([1, 2])),
        ("tcrossprod", &[1, 1], &[1], Some([1, 1])),
        ("tcrossprod", &[2, 1], &[3], Some([2, 3])),
        ("tcrossprod", &[1], &[3], Some([1, 3])),
        ("tcrossprod", &[3], &[1], Some([3, 1])),
        ("tcrossprod", &[2, 3], &[3], None),
        ("tcrossprod", &[1, 3], &[1], None),
        ("tcrossprod", &[1], &[1, 3], None),
    ] {
        let operands = [x, y].map(|shape| Operand { dtype: DType::F32, shape });
        let found = result(Operation::from_name(name).unwrap(), &operands, &[], DType::F32);
        let found = found.map(|(_, dims)| dims).map_err(|error| error.kind());
        assert_eq!(found, dims.map(Vec::from).ok_or(Kind::ShapeMismatch), "{name} of {x:?} and {y:?}");
    }
}

#[test]
fn the_default_float_matters_only_where_a_result_needs_it() {
    let made = |name: &str, dtypes: &[DType]| {
        let operands: Vec<_> = dtypes.iter().map(|&dtype| Operand { dtype, shape: &[2, 2] }).collect();
        program(Operation::from_name(name).unwrap(), &operands, &[], DType::F16)
    };
    let (i, p, f) = (DType::I32, DType::Pred, DType::F32);
    for (name, dtypes) in [
        ("*", &[i, i][..]),
        ("!", &[p]),
        ("&", &[p, i]),
        ("sum", &[p]),
        ("/", &[i, f]),
        ("mean", &[f]),
        ("round", &[i]),
    ] {
        assert!(made(name, dtypes).is_ok(), "{name}");
    }
    for (name, dtypes) in [("/", &[i, i][..]), ("sqrt", &[p]), ("mean", &[i]), ("cumprod", &[i]), ("crossprod", &[i])] {
        let error = made(name, dtypes).unwrap_err();
        assert_eq!(error.kind(), Kind::UnsupportedDtype);
        assert_eq!(error.message(), "The default float must be f32 or f64: got f16.", "{name}");
    }
}

#[test]
fn a_layout_is_that_of_the_argument_and_of_the_result() {
    let want = r#"module attributes {mhlo.layout_mode = "default"} {
  func.func public @main(%x: tensor<2x3xf32> {mhlo.layout_mode = "{1,0}"}) -> (tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {
    return %x : tensor<2x3xf32>
  }
}
"#;
    assert_eq!(text("layout", &[(DType::F32, &[2, 3])], &[1, 0, 0, 1]).unwrap(), want);
}

#[test]
fn errors_say_what_does_not_fit_and_what_to_do() {
    use DType::{C64, F32, I32};
    let shapes = error("+", &[(F32, &[2, 3]), (F32, &[3])], &[]);
    assert_eq!(shapes.kind(), Kind::ShapeMismatch);
    assert_eq!(shapes.message(), "`+` needs arrays of one shape, or a scalar: got f32[2x3] and f32[3].");
    assert_eq!(shapes.hints(), [Hint::Text("Reshape or repeat one of them first.".into())]);
    let complex = error("<", &[(C64, &[2]), (F32, &[2])], &[]);
    assert_eq!(complex.message(), "`<` is not defined for complex numbers (c64).");
    let product = error("%*%", &[(F32, &[2, 3]), (F32, &[2, 3])], &[]);
    assert_eq!(product.message(), "`%*%` needs matrices that fit: got f32[2x3] and f32[2x3].");
    assert!(product.hints()[0].contains("as many columns"));
    for (name, operand, parameters, kind) in [
        ("sum", (F32, &[2, 3][..]), &[2][..], Kind::InvalidInput),
        ("sum", (F32, &[2, 3]), &[1, 1], Kind::InvalidInput),
        ("aperm", (F32, &[2, 3]), &[0, 0], Kind::InvalidInput),
        ("dim", (F32, &[2, 3]), &[5], Kind::ShapeMismatch),
        ("dim", (F32, &[2, 3]), &[-6], Kind::InvalidInput),
        ("t", (F32, &[2, 3, 4]), &[], Kind::ShapeMismatch),
        ("[", (F32, &[2, 3]), &[0], Kind::ArgumentCount),
        ("layout", (F32, &[2, 3]), &[0, 1, 0, 0], Kind::Internal),
        ("diag", (F32, &[]), &[], Kind::ShapeMismatch),
        ("diag", (F32, &[2]), &[3], Kind::ShapeMismatch),
        ("diag", (F32, &[]), &[-1], Kind::InvalidInput),
        ("rowSums", (F32, &[2, 3]), &[2], Kind::ShapeMismatch),
        ("rowSums", (F32, &[2, 3]), &[i64::MAX], Kind::ShapeMismatch),
        ("max", (I32, &[0]), &[], Kind::InvalidInput),
        ("range", (DType::C128, &[2]), &[-1], Kind::UnsupportedDtype),
        ("order", (F32, &[1 << 31]), &[], Kind::InvalidInput),
        ("outer", (F32, &[2]), &[], Kind::ArgumentCount),
        ("+", (F32, &[-1]), &[], Kind::InvalidInput),
    ] {
        assert_eq!(error(name, &[operand], parameters).kind(), kind, "{name}");
    }
    let operand = Operand { dtype: I32, shape: &[] };
    assert_eq!(program(Operation::Sqrt, &[operand], &[], I32).unwrap_err().kind(), Kind::UnsupportedDtype);
    assert_eq!(program(Operation::Cbind, &[], &[], F32).unwrap_err().kind(), Kind::ArgumentCount);
}
