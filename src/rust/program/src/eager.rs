//! Programs of one operation each, for operators and functions that are computed on a device as they are called: StableHLO
//! text for an operation, the dtypes and shapes of its operands, and its parameters.

mod arithmetic;
#[macro_use]
mod body;
mod complex;
mod gamma;
mod linear;
mod math;
mod order;
mod reduce;
mod shape;

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
    Xor "xor",
    Not "!",
    Pmax "pmax",
    Pmin "pmin",
    Ifelse "ifelse",
    Abs "abs",
    Sign "sign",
    Floor "floor",
    Ceiling "ceiling",
    Trunc "trunc",
    Round "round",
    Signif "signif",
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
    Cospi "cospi",
    Sinpi "sinpi",
    Tanpi "tanpi",
    Acos "acos",
    Asin "asin",
    Atan "atan",
    Atan2 "atan2",
    Cosh "cosh",
    Sinh "sinh",
    Tanh "tanh",
    Acosh "acosh",
    Asinh "asinh",
    Atanh "atanh",
    Gamma "gamma",
    Lgamma "lgamma",
    Digamma "digamma",
    Trigamma "trigamma",
    Re "Re",
    Im "Im",
    Mod "Mod",
    Arg "Arg",
    Conj "Conj",
    IsNan "is.nan",
    IsFinite "is.finite",
    IsInfinite "is.infinite",
    Sum "sum",
    Prod "prod",
    Mean "mean",
    Max "max",
    Min "min",
    Range "range",
    Any "any",
    All "all",
    RowSums "rowSums",
    ColSums "colSums",
    RowMeans "rowMeans",
    ColMeans "colMeans",
    Cumsum "cumsum",
    Cumprod "cumprod",
    Cummax "cummax",
    Cummin "cummin",
    Transpose "t",
    Aperm "aperm",
    Dim "dim",
    Rev "rev",
    Cbind "cbind",
    Rbind "rbind",
    Diag "diag",
    Sort "sort",
    Order "order",
    WhichMax "which.max",
    WhichMin "which.min",
    Matmul "%*%",
    Crossprod "crossprod",
    Tcrossprod "tcrossprod",
    Outer "outer",
    Take "[",
    Layout "layout",
}

/// The program of an operation: StableHLO text, with one result. `float` is the dtype of results that are not whole where
/// the operands are integers or pred: f32 or f64. Parameters count from 0; the functions that make the parts say what each
/// operation takes.
///
/// # Errors
/// `ArgumentCount` for another number of operands than the operation takes, `ShapeMismatch` for shapes that do not fit,
/// `UnsupportedDtype` for dtypes that the operation is not defined for, `InvalidInput` for parameters out of range.
pub fn program(operation: Operation, operands: &[Operand], parameters: &[i64], float: DType) -> Result<String> {
    let (mut body, values) = start(operands, float)?;
    if let (Operation::Layout, [x]) = (operation, &values[..]) {
        return shape::in_layout(x, parameters);
    }
    let result = build(&mut body, operation, &values, parameters, float)?;
    Ok(body.finish(&values, &result))
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
    let (mut body, values) = start(operands, float)?;
    let result = build(&mut body, operation, &values, parameters, float)?;
    Ok((result.dtype, result.dims))
}

fn start(operands: &[Operand], float: DType) -> Result<(Body, Vec<Value>)> {
    math::check_default(float)?;
    for operand in operands {
        Spec::new(operand.dtype, operand.shape)?;
    }
    Ok(Body::new(operands))
}

/// Writes the operation, and returns its result.
fn build(b: &mut Body, operation: Operation, values: &[Value], parameters: &[i64], float: DType) -> Result<Value> {
    match values {
        parts if matches!(operation, Operation::Cbind | Operation::Rbind) => shape::bind(b, operation, parts),
        [x, indices @ ..] if operation == Operation::Take => shape::take(b, x, indices, parameters),
        [x] => of_one(b, operation, x, parameters, float),
        [x, y] => of_two(b, operation, x, y, float),
        [condition, yes, no] if operation == Operation::Ifelse => shape::choose(b, condition, yes, no),
        _ => Err(wrong_count(operation, values.len())),
    }
}

fn wrong_count(operation: Operation, count: usize) -> Error {
    Error::new(Kind::ArgumentCount, format!("`{}` does not take {count} arrays.", operation.name()))
}

fn of_one(b: &mut Body, operation: Operation, x: &Value, parameters: &[i64], float: DType) -> Result<Value> {
    use Operation as Op;
    match operation {
        Op::Add | Op::Subtract => Ok(arithmetic::sign(b, operation, x)),
        Op::Not => Ok(arithmetic::not(b, x)),
        Op::Abs | Op::Sign | Op::Floor | Op::Ceiling | Op::Trunc => math::whole(b, operation, x),
        Op::Round => math::round(b, x, parameters, float),
        Op::Signif => math::signif(b, x, parameters, float),
        Op::Sqrt | Op::Exp | Op::Expm1 | Op::Log | Op::Log1p | Op::Log2 | Op::Log10 => {
            math::function(b, operation, x, float)
        }
        Op::Cos | Op::Sin | Op::Tan | Op::Cospi | Op::Sinpi | Op::Tanpi | Op::Acos | Op::Asin | Op::Atan => {
            math::function(b, operation, x, float)
        }
        Op::Cosh | Op::Sinh | Op::Tanh | Op::Acosh | Op::Asinh | Op::Atanh => math::function(b, operation, x, float),
        Op::Gamma | Op::Lgamma | Op::Digamma | Op::Trigamma => math::function(b, operation, x, float),
        Op::Re | Op::Im | Op::Mod | Op::Arg | Op::Conj => complex::function(b, operation, x, float),
        Op::IsNan | Op::IsFinite | Op::IsInfinite => math::kind_of_number(b, operation, x),
        Op::Sum | Op::Prod | Op::Mean | Op::Max | Op::Min | Op::Any | Op::All => {
            reduce::summary(b, operation, x, parameters, float)
        }
        Op::Range => reduce::range(b, x, parameters),
        Op::RowSums | Op::ColSums | Op::RowMeans | Op::ColMeans => {
            reduce::rows_or_columns(b, operation, x, parameters, float)
        }
        Op::Cumsum | Op::Cumprod | Op::Cummax | Op::Cummin => reduce::cumulative(b, operation, x, float),
        Op::Transpose => shape::transpose(b, x),
        Op::Aperm => shape::permute(b, x, parameters),
        Op::Dim => shape::reshape(b, x, parameters),
        Op::Layout => Ok(x.clone()),
        Op::Rev => Ok(shape::reverse(b, x)),
        Op::Diag => shape::diagonal(b, x, parameters),
        Op::Sort => order::sort(b, x, parameters),
        Op::Order => order::order(b, x, parameters),
        Op::WhichMax | Op::WhichMin => order::place(b, operation, x),
        Op::Crossprod | Op::Tcrossprod => linear::product(b, operation, x, x, float),
        _ => Err(wrong_count(operation, 1)),
    }
}

fn of_two(b: &mut Body, operation: Operation, x: &Value, y: &Value, float: DType) -> Result<Value> {
    use Operation as Op;
    match operation {
        Op::Add | Op::Subtract | Op::Multiply => arithmetic::ring(b, operation, x, y),
        Op::Divide | Op::Power => arithmetic::floating(b, operation, x, y, float),
        Op::Modulo | Op::Quotient => arithmetic::modulo(b, operation, x, y),
        Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => {
            arithmetic::comparison(b, operation, x, y)
        }
        Op::And | Op::Or | Op::Xor => arithmetic::logic(b, operation, x, y),
        Op::Pmax | Op::Pmin => arithmetic::extreme(b, operation, x, y),
        Op::Log | Op::Atan2 => math::pair(b, operation, x, y, float),
        Op::Matmul | Op::Crossprod | Op::Tcrossprod => linear::product(b, operation, x, y, float),
        Op::Outer => linear::outer(b, x, y),
        _ => Err(wrong_count(operation, 2)),
    }
}

#[cfg(test)]
mod tests;
