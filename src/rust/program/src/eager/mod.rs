//! Programs of one operation each, for operators and functions that are computed on a device as they are called: StableHLO
//! text for an operation, the dtypes and shapes of its operands, and its parameters.

mod arithmetic;
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
use std::fmt;

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
            pub const ALL: &'static [Operation] = &[$(Operation::$variant),*];

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
    Add "+", Subtract "-", Multiply "*", Divide "/", Power "^", Modulo "%%", Quotient "%/%", Equal "==",
    NotEqual "!=", Less "<", LessEqual "<=", Greater ">", GreaterEqual ">=", And "&", Or "|", Xor "xor",
    Not "!", Pmax "pmax", Pmin "pmin", Ifelse "ifelse", Abs "abs", Sign "sign", Floor "floor",
    Ceiling "ceiling", Trunc "trunc", Round "round", Signif "signif", Sqrt "sqrt", Exp "exp", Expm1 "expm1",
    Log "log", Log1p "log1p", Log2 "log2", Log10 "log10", Cos "cos", Sin "sin", Tan "tan", Cospi "cospi",
    Sinpi "sinpi", Tanpi "tanpi", Acos "acos", Asin "asin", Atan "atan", Atan2 "atan2", Cosh "cosh",
    Sinh "sinh", Tanh "tanh", Acosh "acosh", Asinh "asinh", Atanh "atanh", Gamma "gamma", Lgamma "lgamma",
    Digamma "digamma", Trigamma "trigamma", Re "Re", Im "Im", Mod "Mod", Arg "Arg", Conj "Conj", IsNan "is.nan",
    IsFinite "is.finite", IsInfinite "is.infinite", Sum "sum", Prod "prod", Mean "mean", Max "max", Min "min",
    Range "range", Any "any", All "all", RowSums "rowSums", ColSums "colSums", RowMeans "rowMeans",
    ColMeans "colMeans", Cumsum "cumsum", Cumprod "cumprod", Cummax "cummax", Cummin "cummin", Transpose "t",
    Aperm "aperm", Dim "dim", Rev "rev", Cbind "cbind", Rbind "rbind", Diag "diag", Sort "sort", Order "order",
    WhichMax "which.max", WhichMin "which.min", Matmul "%*%", Crossprod "crossprod", Tcrossprod "tcrossprod",
    Outer "outer", Take "[", Layout "layout",
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The program of an operation: StableHLO text, with one result. `float` is the dtype of results that are not whole where
/// the operands are integers or pred: f32 or f64; no other result depends on it. Parameters count from 0; the
/// functions that make the parts say what each operation takes.
///
/// # Errors
/// `ArgumentCount` for another number of operands than the operation takes, `ShapeMismatch` for shapes that do not fit,
/// `UnsupportedDtype` for dtypes that the operation is not defined for and for another default float where it is needed,
/// `InvalidInput` for parameters out of range.
pub fn program(operation: Operation, operands: &[Operand], parameters: &[i64], float: DType) -> Result<String> {
    for operand in operands {
        Spec::new(operand.dtype, operand.shape)?;
    }
    let body = Body::new(float);
    let values = body.arguments(operands);
    if let (Operation::Layout, [x]) = (operation, &values[..]) {
        return shape::in_layout(x, parameters);
    }
    let result = build(operation, &values, parameters)?;
    Ok(body.program(&values, &result))
}

/// Writes the operation, and returns its result.
fn build<'b>(operation: Operation, values: &[Value<'b>], parameters: &[i64]) -> Result<Value<'b>> {
    use Operation as Op;
    match (operation, values) {
        (Op::Cbind | Op::Rbind, parts) => shape::bind(operation, parts),
        (Op::Take, [x, indices @ ..]) => shape::take(x, indices, parameters),
        (Op::Add | Op::Subtract, [x]) => Ok(arithmetic::sign(operation, x)),
        (Op::Not, [x]) => Ok(x.convert(DType::Pred).apply("not")),
        (Op::Abs | Op::Sign | Op::Floor | Op::Ceiling | Op::Trunc, [x]) => math::whole(operation, x),
        (Op::Round, [x]) => math::round(x, parameters),
        (Op::Signif, [x]) => math::signif(x, parameters),
        (Op::Re | Op::Im | Op::Mod | Op::Arg | Op::Conj, [x]) => complex::function(operation, x),
        (Op::IsNan | Op::IsFinite | Op::IsInfinite, [x]) => math::kind_of_number(operation, x),
        (Op::Sum | Op::Prod | Op::Mean | Op::Max | Op::Min | Op::Any | Op::All, [x]) => {
            reduce::summary(operation, x, parameters)
        }
        (Op::Range, [x]) => reduce::range(x, parameters),
        (Op::RowSums | Op::ColSums | Op::RowMeans | Op::ColMeans, [x]) => {
            reduce::rows_or_columns(operation, x, parameters)
        }
        (Op::Cumsum | Op::Cumprod | Op::Cummax | Op::Cummin, [x]) => reduce::cumulative(operation, x),
        (Op::Transpose, [x]) => shape::transpose(x),
        (Op::Aperm, [x]) => shape::permute(x, parameters),
        (Op::Dim, [x]) => shape::reshape(x, parameters),
        (Op::Rev, [x]) => Ok(shape::reverse(x)),
        (Op::Diag, [x]) => shape::diagonal(x, parameters),
        (Op::Sort, [x]) => order::sort(x, parameters),
        (Op::Order, [x]) => order::order(x, parameters),
        (Op::WhichMax | Op::WhichMin, [x]) => order::place(operation, x),
        (Op::Crossprod | Op::Tcrossprod, [x]) => linear::product(operation, x, x),
        (_, [x]) => math::function(operation, x),
        (Op::Add | Op::Subtract | Op::Multiply, [x, y]) => arithmetic::ring(operation, x, y),
        (Op::Divide | Op::Power, [x, y]) => arithmetic::floating(operation, x, y),
        (Op::Modulo | Op::Quotient, [x, y]) => arithmetic::modulo(operation, x, y),
        (Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual, [x, y]) => {
            arithmetic::comparison(operation, x, y)
        }
        (Op::And | Op::Or | Op::Xor, [x, y]) => arithmetic::logic(operation, x, y),
        (Op::Pmax | Op::Pmin, [x, y]) => arithmetic::extreme(operation, x, y),
        (Op::Log | Op::Atan2, [x, y]) => math::pair(operation, x, y),
        (Op::Matmul | Op::Crossprod | Op::Tcrossprod, [x, y]) => linear::product(operation, x, y),
        (Op::Outer, [x, y]) => linear::outer(x, y),
        (Op::Ifelse, [condition, yes, no]) => shape::choose(condition, yes, no),
        _ => Err(wrong_count(operation, values.len())),
    }
}

fn wrong_count(operation: Operation, count: usize) -> Error {
    Error::new(Kind::ArgumentCount, format!("`{operation}` does not take {count} arrays."))
}

#[cfg(test)]
mod tests;
