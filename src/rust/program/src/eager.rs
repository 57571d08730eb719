//! Programs of one operation each, for operators and functions that are computed on a device as they are called: StableHLO
//! text for an operation, the dtypes and shapes of its operands, and its parameters. Pure text: knows no device.

mod arithmetic;
#[macro_use]
mod body;
mod math;

use body::{Body, Value};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;

/// An operand: its dtype, and its shape. A scalar has rank 0, and is repeated to the shape of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand<'a> {
    pub dtype: DType,
    pub shape: &'a [i64],
}

macro_rules! operations {
    ($($variant:ident $name:literal,)*) => {
        /// An operation, with the name of the operator or function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Operation { $($variant),* }

        impl Operation {
            /// Every operation.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant),*];

            /// The operation with this name.
            pub fn from_name(name: &str) -> Option<Operation> {
                match name {
                    $($name => Some(Operation::$variant),)*
                    _ => None,
                }
            }

            pub fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name,)* }
            }
        }
    };
}

operations! {
    Add "+",
    Subtract "-",
    Multiply "*",
    Divide "/",
    Power "^",
    Modulo "%%",
    Quotient "%/%",
    Equal "==",
    NotEqual "!=",
    Less "<",
    LessEqual "<=",
    Greater ">",
    GreaterEqual ">=",
    And "&",
    Or "|",
    Not "!",
    Abs "abs",
    Sign "sign",
    Floor "floor",
    Ceiling "ceiling",
    Trunc "trunc",
    Round "round",
    Sqrt "sqrt",
    Exp "exp",
    Expm1 "expm1",
    Log "log",
    Log1p "log1p",
    Log2 "log2",
    Log10 "log10",
    Cos "cos",
    Sin "sin",
    Tan "tan",
    Acos "acos",
    Asin "asin",
    Atan "atan",
    Cosh "cosh",
    Sinh "sinh",
    Tanh "tanh",
    Acosh "acosh",
    Asinh "asinh",
    Atanh "atanh",
}

/// The program of an operation: StableHLO text, with one result. `float` is the dtype of results that are not whole where
/// the operands are integers or pred: f32 or f64.
///
/// # Errors
/// `ArgumentCount` for another number of operands than the operation takes, `ShapeMismatch` for shapes that do not fit,
/// `UnsupportedDtype` for dtypes that the operation is not defined for, `InvalidInput` for parameters out of range.
pub fn program(operation: Operation, operands: &[Operand], parameters: &[i64], float: DType) -> Result<String> {
    let (body, result) = build(operation, operands, parameters, float)?;
    Ok(body.finish(operands, &result))
}

/// The dtype and shape of an operation's result.
///
/// # Errors
/// As [`program`].
pub fn result(
    operation: Operation,
    operands: &[Operand],
    parameters: &[i64],
    float: DType,
) -> Result<(DType, Vec<i64>)> {
    let (_, result) = build(operation, operands, parameters, float)?;
    Ok((result.dtype, result.dims))
}

fn build(operation: Operation, operands: &[Operand], _parameters: &[i64], float: DType) -> Result<(Body, Value)> {
    use Operation as Op;
    for operand in operands {
        Spec::new(operand.dtype, operand.shape)?;
    }
    let (mut body, values) = Body::new(operands);
    let b = &mut body;
    let value = match (operation, values.as_slice()) {
        (Op::Add | Op::Subtract | Op::Multiply, [x, y]) => arithmetic::ring(b, operation, x, y)?,
        (Op::Add | Op::Subtract, [x]) => arithmetic::sign(b, operation, x),
        (Op::Divide | Op::Power, [x, y]) => arithmetic::floating(b, operation, x, y, float)?,
        (Op::Modulo | Op::Quotient, [x, y]) => arithmetic::modulo(b, operation, x, y)?,
        (Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual, [x, y]) => {
            arithmetic::comparison(b, operation, x, y)?
        }
        (Op::And | Op::Or, [x, y]) => arithmetic::logic(b, operation, x, y)?,
        (Op::Not, [x]) => arithmetic::not(b, x),
        (Op::Abs | Op::Sign | Op::Floor | Op::Ceiling | Op::Trunc | Op::Round, [x]) => math::whole(b, operation, x)?,
        (
            Op::Sqrt
            | Op::Exp
            | Op::Expm1
            | Op::Log
            | Op::Log1p
            | Op::Log2
            | Op::Log10
            | Op::Cos
            | Op::Sin
            | Op::Tan
            | Op::Acos
            | Op::Asin
            | Op::Atan
            | Op::Cosh
            | Op::Sinh
            | Op::Tanh
            | Op::Acosh
            | Op::Asinh
            | Op::Atanh,
            [x],
        ) => math::function(b, operation, x, float)?,
        _ => {
            let message = format!("`{}` does not take {} arrays.", operation.name(), operands.len());
            return Err(Error::new(Kind::ArgumentCount, message));
        }
    };
    Ok((body, value))
}
