//! The body of a program as it is written: values with their types, and the operations that make them.

use super::Operand;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use pjrt_data::layout::format_type;
use pjrt_data::minifloat::{bf16_from_f64, f16_from_f64};
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Sub};

/// A value of the program.
#[derive(Clone)]
pub(super) struct Value<'b> {
    pub body: &'b Body,
    name: String,
    pub dtype: DType,
    pub dims: Vec<i64>,
    /// Whether it is a constant, a repeated scalar, or computed from these alone.
    is_uniform: bool,
}

/// The operations so far.
pub(super) struct Body {
    text: RefCell<String>,
    /// The number of the next value.
    next: Cell<usize>,
    /// The default float.
    float: DType,
}

impl Body {
    pub fn new(float: DType) -> Body {
        Body { text: RefCell::default(), next: Cell::new(0), float }
    }

    /// The dtype of a function that is not whole for whole numbers: integers and pred become the default float.
    ///
    /// # Errors
    /// `UnsupportedDtype` if they need a default float, and it is not f32 or f64. Others never use it.
    pub fn floating(&self, dtype: DType) -> Result<DType> {
        if dtype.is_float() || dtype.is_complex() {
            return Ok(dtype);
        }
        match self.float {
            DType::F32 | DType::F64 => Ok(self.float),
            other => bail!(UnsupportedDtype, "The default float must be f32 or f64: got {other}."),
        }
    }

    /// The arguments, one for each operand.
    pub fn arguments(&self, operands: &[Operand]) -> Vec<Value<'_>> {
        let name = |i: usize| match (operands.len(), i) {
            (1 | 2, 0) => "%x".into(),
            (2, 1) => "%y".into(),
            _ => format!("%x{}", i + 1),
        };
        let value = |(i, operand): (usize, &Operand)| self.value(name(i), operand.dtype, operand.shape);
        operands.iter().enumerate().map(value).collect()
    }

    /// The program that returns a value.
    pub fn program(&self, arguments: &[Value], result: &Value) -> String {
        let list: Vec<_> = arguments.iter().map(|value| format!("{}: {}", value.name, value.kind())).collect();
        let (list, of, name, text) = (list.join(", "), result.kind(), &result.name, self.text.borrow());
        format!("func.func @main({list}) -> {of} {{\n{text}  return {name} : {of}\n}}\n")
    }

    fn value(&self, name: String, dtype: DType, dims: &[i64]) -> Value<'_> {
        Value { body: self, name, dtype, dims: dims.to_vec(), is_uniform: false }
    }

    /// Any operation with one result, of StableHLO if `name` has no dialect, with a region, whose text is in parentheses, and
    /// attributes, text in braces. Both may be empty.
    pub fn emit(
        &self,
        name: &str,
        operands: &[&Value],
        region: &str,
        attributes: &str,
        dtype: DType,
        dims: &[i64],
    ) -> Value<'_> {
        let result = self.value(format!("%{}", self.next.replace(self.next.get() + 1)), dtype, dims);
        let names = operands.iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(", ");
        let types = operands.iter().map(|v| v.kind()).collect::<Vec<_>>().join(", ");
        let gap = |text: &str| if text.is_empty() { String::new() } else { format!(" {text}") };
        let (region, attributes, of) = (gap(region), gap(attributes), result.kind());
        let (dialect, id) = (if name.contains('.') { "" } else { "stablehlo." }, &result.name);
        *self.text.borrow_mut() +=
            &format!("  {id} = \"{dialect}{name}\"({names}){region}{attributes} : ({types}) -> {of}\n");
        result
    }

    /// A scalar constant.
    pub fn scalar(&self, dtype: DType, number: f64) -> Value<'_> {
        self.literal(dtype, &number_text(dtype, number))
    }

    /// A scalar constant, from its text.
    pub fn literal(&self, dtype: DType, text: &str) -> Value<'_> {
        let attributes = format!("{{value = dense<{text}> : {}}}", tensor(dtype, &[]));
        self.emit("constant", &[], "", &attributes, dtype, &[]).uniform(true)
    }

    /// The index along a dimension.
    pub fn iota(&self, dtype: DType, dims: &[i64], dimension: usize) -> Value<'_> {
        let attributes = format!("{{iota_dimension = {dimension} : i64}}");
        self.emit("iota", &[], "", &attributes, dtype, dims)
    }

    pub fn concatenate<'b>(&'b self, parts: &[&Value<'b>], dimension: i64) -> Value<'b> {
        if let [part] = parts {
            return (*part).clone();
        }
        let mut dims = parts[0].dims.clone();
        dims[dimension as usize] = parts.iter().map(|part| part.dims[dimension as usize]).sum();
        let attributes = format!("{{dimension = {dimension} : i64}}");
        let dtype = parts[0].dtype;
        // XLA's CPU compiler cannot concatenate elements of two bits.
        let joined = if dtype.info().bits == 2 { dtype.in_bytes() } else { dtype };
        let parts: Vec<_> = parts.iter().map(|part| part.convert(joined)).collect();
        self.emit("concatenate", &parts.iter().collect::<Vec<_>>(), "", &attributes, joined, &dims).convert(dtype)
    }
}

/// A value, or a number that becomes a constant.
pub(super) trait Part<'b> {
    /// The value, with the type of `like` if it is a number.
    fn value(self, like: &Value<'b>) -> Value<'b>;
}

impl<'b, V: Borrow<Value<'b>>> Part<'b> for V {
    fn value(self, _: &Value<'b>) -> Value<'b> {
        self.borrow().clone()
    }
}

impl<'b> Part<'b> for f64 {
    fn value(self, like: &Value<'b>) -> Value<'b> {
        like.constant(self)
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident $name:literal,)*) => {$(
        operators!($operator $method $name for Value<'b>);
        operators!($operator $method $name for &Value<'b>);
    )*};
    ($operator:ident $method:ident $name:literal for $of:ty) => {
        impl<'b, P: Part<'b>> $operator<P> for $of {
            type Output = Value<'b>;
            fn $method(self, other: P) -> Value<'b> {
                self.with($name, other)
            }
        }
    };
}

operators! {
    Add add "add",
    Sub sub "subtract",
    Mul mul "multiply",
    Div div "divide",
    BitAnd bitand "and",
    BitOr bitor "or",
    BitXor bitxor "xor",
}

/// Its type as users know it.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_type(self.dtype, &self.dims))
    }
}

impl<'b> Value<'b> {
    fn uniform(self, is_uniform: bool) -> Value<'b> {
        Value { is_uniform, ..self }
    }

    pub fn len(&self) -> i64 {
        self.dims.iter().product()
    }

    pub fn is_scalar(&self) -> bool {
        self.dims.is_empty()
    }

    fn kind(&self) -> String {
        tensor(self.dtype, &self.dims)
    }

    /// An operation of one operand, without attributes, with elements of a dtype.
    pub fn apply_as(&self, name: &str, dtype: DType) -> Value<'b> {
        self.body.emit(name, &[self], "", "", dtype, &self.dims)
    }

    /// An operation of one operand whose result has its type.
    pub fn apply(&self, name: &str) -> Value<'b> {
        self.apply_as(name, self.dtype).uniform(self.is_uniform)
    }

    /// An operation of two operands whose result has the type of the first.
    pub fn with(&self, name: &str, other: impl Part<'b>) -> Value<'b> {
        let mut other = other.value(self);
        // If compilers knew that a divisor is one number, they would multiply by its reciprocal, which rounds.
        if name == "divide" && other.is_uniform && !other.dtype.is_integer() {
            other = other.hidden();
        }
        let is_uniform = self.is_uniform && other.is_uniform;
        self.body.emit(name, &[self, &other], "", "", self.dtype, &self.dims).uniform(is_uniform)
    }

    /// The second of two results of an operation of StableHLO on two values, which have their types.
    pub fn second(&self, name: &str, other: &Value<'b>, region: &str, attributes: &str) -> Value<'b> {
        let pair = format!("%r{}", self.body.next.replace(self.body.next.get() + 1));
        let (x, y, of_x, of_y) = (&self.name, &other.name, self.kind(), other.kind());
        let types = format!("({of_x}, {of_y}) -> ({of_x}, {of_y})");
        *self.body.text.borrow_mut() +=
            &format!("  {pair}:2 = \"stablehlo.{name}\"({x}, {y}) {region} {attributes} : {types}\n");
        self.body.value(format!("{pair}#1"), other.dtype, &other.dims)
    }

    /// A constant of this type.
    pub fn constant(&self, number: f64) -> Value<'b> {
        self.body.scalar(self.dtype, number).spread(&self.dims)
    }

    /// A value that a compiler does not look behind.
    pub fn hidden(&self) -> Value<'b> {
        self.apply("optimization_barrier").uniform(false)
    }

    /// A scalar repeated to a shape.
    pub fn spread(&self, dims: &[i64]) -> Value<'b> {
        self.broadcast(dims, &[])
    }

    /// Copies along new dimensions; `places[i]` is where dimension `i` goes.
    pub fn broadcast(&self, dims: &[i64], places: &[i64]) -> Value<'b> {
        if self.dims == dims {
            return self.clone();
        }
        let attributes = format!("{{broadcast_dimensions = {}}}", integers(places));
        let repeated = self.body.emit("broadcast_in_dim", &[self], "", &attributes, self.dtype, dims);
        repeated.uniform(self.is_scalar())
    }

    /// Elements of another dtype; for `pred`, whether they are not zero.
    pub fn convert(&self, dtype: DType) -> Value<'b> {
        match dtype {
            _ if self.dtype == dtype => self.clone(),
            DType::Pred => self.widened().compare("NE", 0.0),
            // XLA's CPU compiler gets elements wrong that are not bytes first, in some matrices.
            _ if !dtype.is_integer() && self.dtype.in_bytes() != self.dtype => self.widened().convert(dtype),
            _ => self.apply_as("convert", dtype).uniform(self.is_uniform),
        }
    }

    /// Elements of the dtype that is computed with: compilers do not compute with the narrowest types.
    pub fn widened(&self) -> Value<'b> {
        self.convert(wide(self.dtype))
    }

    pub fn compare(&self, direction: &str, other: impl Part<'b>) -> Value<'b> {
        let other = other.value(self);
        let attributes = format!("{{comparison_direction = #stablehlo<comparison_direction {direction}>}}");
        self.body.emit("compare", &[self, &other], "", &attributes, DType::Pred, &self.dims)
    }

    /// `yes` where this condition holds, else `no`.
    pub fn select(&self, yes: impl Part<'b>, no: &Value<'b>) -> Value<'b> {
        let yes = yes.value(no);
        self.body.emit("select", &[self, &yes, no], "", "", yes.dtype, &yes.dims)
    }

    /// The same elements in row-major order with other dimensions.
    pub fn reshape(&self, dims: &[i64]) -> Value<'b> {
        if self.dims == dims {
            return self.clone();
        }
        self.body.emit("reshape", &[self], "", "", self.dtype, dims)
    }

    /// The first `n` rows and columns.
    pub fn square(&self, n: i64) -> Value<'b> {
        if self.dims == [n, n] {
            return self.clone();
        }
        let attributes = format!(
            "{{start_indices = array<i64: 0, 0>, limit_indices = array<i64: {n}, {n}>, strides = array<i64: 1, 1>}}"
        );
        self.body.emit("slice", &[self], "", &attributes, self.dtype, &[n, n])
    }

    /// Dimension `i` of the result is dimension `order[i]`.
    pub fn transpose(&self, order: &[i64]) -> Value<'b> {
        if order.iter().enumerate().all(|(i, &dim)| dim == i as i64) {
            return self.clone();
        }
        let dims: Vec<i64> = order.iter().map(|&dim| self.dims[dim as usize]).collect();
        let attributes = format!("{{permutation = {}}}", integers(order));
        self.body.emit("transpose", &[self], "", &attributes, self.dtype, &dims)
    }
}

/// The dtype that a dtype is computed with.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype.is_float() && dtype.info().bits <= 8 {
        DType::F32
    } else {
        dtype.in_bytes()
    }
}

/// A type in StableHLO text.
pub(super) fn tensor(dtype: DType, dims: &[i64]) -> String {
    let dims: String = dims.iter().map(|dim| format!("{dim}x")).collect();
    format!("tensor<{dims}{}>", dtype.info().mlir)
}

/// A list of integers as an attribute.
pub(super) fn integers(numbers: &[i64]) -> String {
    if numbers.is_empty() {
        return "array<i64>".into();
    }
    format!("array<i64: {}>", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

/// A number as a constant of a dtype.
fn number_text(dtype: DType, number: f64) -> String {
    let digits = format!("{number:e}");
    let text = match dtype {
        DType::Pred => return (number != 0.0).to_string(),
        _ if dtype.is_integer() => return (number as i128).to_string(),
        // MLIR needs a point before the exponent.
        _ if number.is_finite() && !digits.contains('.') => digits.replace('e', ".0e"),
        _ if number.is_finite() => digits,
        // An infinity or NaN as its bits.
        DType::F64 | DType::C128 => format!("0x{:016X}", number.to_bits()),
        DType::F16 => format!("0x{:04X}", f16_from_f64(number)),
        DType::BF16 => format!("0x{:04X}", bf16_from_f64(number)),
        _ => format!("0x{:08X}", (number as f32).to_bits()),
    };
    if dtype.is_complex() {
        return format!("({text}, 0.0)");
    }
    text
}
