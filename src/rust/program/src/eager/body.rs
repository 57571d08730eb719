//! The body of a program as it is written: values with their types, and the operations that make them.

use super::Operand;
use pjrt_data::dtype::DType;
use std::fmt::Write;

/// Adds formatted text; writing to a string cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = write!($out, $($part)*);
    }};
}

/// A value of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    id: usize,
    pub dtype: DType,
    pub dims: Vec<i64>,
}

impl Value {
    pub fn len(&self) -> i64 {
        self.dims.iter().product()
    }

    pub fn is_scalar(&self) -> bool {
        self.dims.is_empty()
    }
}

/// The operations so far.
pub(super) struct Body {
    arguments: usize,
    next: usize,
    text: String,
    /// Values with names of their own.
    renamed: Vec<(usize, String)>,
    /// Constants, repeated scalars, and what is computed from these alone.
    uniform: Vec<usize>,
}

impl Body {
    /// A body with one argument for each operand.
    pub fn new(operands: &[Operand]) -> (Body, Vec<Value>) {
        let (text, renamed, uniform) = (String::new(), Vec::new(), Vec::new());
        let body = Body { arguments: operands.len(), next: operands.len(), text, renamed, uniform };
        let value = |(id, operand): (usize, &Operand)| Value { id, dtype: operand.dtype, dims: operand.shape.to_vec() };
        (body, operands.iter().enumerate().map(value).collect())
    }

    /// The program that returns a value.
    pub fn finish(self, arguments: &[Value], result: &Value) -> String {
        let list: Vec<_> = arguments
            .iter()
            .map(|value| format!("{}: {}", self.name(value), tensor(value.dtype, &value.dims)))
            .collect();
        let (of, name) = (tensor(result.dtype, &result.dims), self.name(result));
        let (list, text) = (list.join(", "), self.text);
        format!("func.func @main({list}) -> {of} {{\n{text}  return {name} : {of}\n}}\n")
    }

    fn value(&mut self, dtype: DType, dims: &[i64]) -> Value {
        let id = self.next;
        self.next += 1;
        Value { id, dtype, dims: dims.to_vec() }
    }

    /// Any operation with one result, of dialect and name `name`. Attributes are text in braces, or nothing.
    pub fn emit(&mut self, name: &str, operands: &[&Value], attributes: &str, dtype: DType, dims: &[i64]) -> Value {
        self.emit_region(name, operands, "", attributes, dtype, dims)
    }

    /// The same with a region, whose text is in parentheses.
    pub fn emit_region(
        &mut self,
        name: &str,
        operands: &[&Value],
        region: &str,
        attributes: &str,
        dtype: DType,
        dims: &[i64],
    ) -> Value {
        let result = self.value(dtype, dims);
        let names = operands.iter().map(|v| self.name(v)).collect::<Vec<_>>().join(", ");
        let types = operands.iter().map(|v| tensor(v.dtype, &v.dims)).collect::<Vec<_>>().join(", ");
        let name_of = self.name(&result);
        let gap = |text: &str| if text.is_empty() { String::new() } else { format!(" {text}") };
        let (region, attributes) = (gap(region), gap(attributes));
        let of = tensor(dtype, dims);
        put!(self.text, "  {name_of} = \"{name}\"({names}){region}{attributes} : ({types}) -> {of}\n");
        result
    }

    /// The second of two results of an operation on two values, which have their types.
    pub fn emit_second(&mut self, name: &str, operands: &[&Value; 2], region: &str, attributes: &str) -> Value {
        let [x, y] = operands;
        let result = self.value(y.dtype, &y.dims);
        let (of_x, of_y) = (tensor(x.dtype, &x.dims), tensor(y.dtype, &y.dims));
        let (x, y) = (self.name(x), self.name(y));
        let types = format!("({of_x}, {of_y}) -> ({of_x}, {of_y})");
        let pair = format!("%r{}", result.id);
        put!(self.text, "  {pair}:2 = \"{name}\"({x}, {y}) {region} {attributes} : {types}\n");
        self.renamed.push((result.id, format!("{pair}#1")));
        result
    }

    /// The name of a value in the text.
    fn name(&self, value: &Value) -> String {
        if let Some((_, name)) = self.renamed.iter().find(|(id, _)| *id == value.id) {
            return name.clone();
        }
        match (self.arguments, value.id) {
            (1 | 2, 0) => "%x".into(),
            (2, 1) => "%y".into(),
            (count, id) if id < count => format!("%x{}", id + 1),
            (count, id) => format!("%{}", id - count),
        }
    }

    /// An operation whose result has the type of its first operand.
    pub fn same(&mut self, name: &str, operands: &[&Value]) -> Value {
        let name = if name.contains('.') { name.to_owned() } else { format!("stablehlo.{name}") };
        let result = self.emit(&name, operands, "", operands[0].dtype, &operands[0].dims.clone());
        if operands.iter().all(|operand| self.uniform.contains(&operand.id)) {
            self.uniform.push(result.id);
        }
        result
    }

    pub fn add(&mut self, x: &Value, y: &Value) -> Value {
        self.same("add", &[x, y])
    }

    pub fn sub(&mut self, x: &Value, y: &Value) -> Value {
        self.same("subtract", &[x, y])
    }

    pub fn mul(&mut self, x: &Value, y: &Value) -> Value {
        self.same("multiply", &[x, y])
    }

    pub fn div(&mut self, x: &Value, y: &Value) -> Value {
        if y.dtype.is_integer() || !self.uniform.contains(&y.id) {
            return self.same("divide", &[x, y]);
        }
        // If compilers knew that it is one number, they would multiply by its reciprocal, which rounds.
        let hidden = self.hidden(y);
        self.same("divide", &[x, &hidden])
    }

    pub fn and(&mut self, x: &Value, y: &Value) -> Value {
        self.same("and", &[x, y])
    }

    pub fn or(&mut self, x: &Value, y: &Value) -> Value {
        self.same("or", &[x, y])
    }

    pub fn not(&mut self, x: &Value) -> Value {
        self.same("not", &[x])
    }

    /// A scalar constant.
    pub fn scalar(&mut self, dtype: DType, number: f64) -> Value {
        self.literal(dtype, &number_text(dtype, number))
    }

    /// A scalar constant, from its text.
    pub fn literal(&mut self, dtype: DType, text: &str) -> Value {
        let attributes = format!("{{value = dense<{text}> : {}}}", tensor(dtype, &[]));
        let scalar = self.emit("stablehlo.constant", &[], &attributes, dtype, &[]);
        self.uniform.push(scalar.id);
        scalar
    }

    /// A constant with the type of `like`.
    pub fn constant(&mut self, like: &Value, number: f64) -> Value {
        let scalar = self.scalar(like.dtype, number);
        self.spread(&scalar, &like.dims)
    }

    /// A value that a compiler does not look behind.
    pub fn hidden(&mut self, x: &Value) -> Value {
        self.emit("stablehlo.optimization_barrier", &[x], "", x.dtype, &x.dims)
    }

    /// The index along a dimension.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], dimension: usize) -> Value {
        self.emit("stablehlo.iota", &[], &format!("{{iota_dimension = {dimension} : i64}}"), dtype, dims)
    }

    /// A scalar repeated to a shape.
    pub fn spread(&mut self, x: &Value, dims: &[i64]) -> Value {
        self.broadcast(x, dims, &[])
    }

    /// Copies `x` along new dimensions; `places[i]` is where its dimension `i` goes.
    pub fn broadcast(&mut self, x: &Value, dims: &[i64], places: &[i64]) -> Value {
        if x.dims == dims {
            return x.clone();
        }
        let attributes = format!("{{broadcast_dimensions = {}}}", integers(places));
        let repeated = self.emit("stablehlo.broadcast_in_dim", &[x], &attributes, x.dtype, dims);
        if x.is_scalar() {
            self.uniform.push(repeated.id);
        }
        repeated
    }

    /// Elements of another dtype; for `pred`, whether they are not zero.
    pub fn convert(&mut self, x: &Value, dtype: DType) -> Value {
        if x.dtype == dtype {
            return x.clone();
        }
        if dtype == DType::Pred {
            let x = self.widened(x);
            let zero = self.constant(&x, 0.0);
            return self.compare("NE", &x, &zero);
        }
        let converted = self.emit("stablehlo.convert", &[x], "", dtype, &x.dims);
        if self.uniform.contains(&x.id) {
            self.uniform.push(converted.id);
        }
        converted
    }

    /// Elements of the dtype that is computed with: compilers do not compute with the narrowest types.
    pub fn widened(&mut self, x: &Value) -> Value {
        self.convert(x, wide(x.dtype))
    }

    pub fn compare(&mut self, direction: &str, x: &Value, y: &Value) -> Value {
        let attributes = format!("{{comparison_direction = #stablehlo<comparison_direction {direction}>}}");
        self.emit("stablehlo.compare", &[x, y], &attributes, DType::Pred, &x.dims)
    }

    /// Compares with a number.
    pub fn compare_to(&mut self, direction: &str, x: &Value, number: f64) -> Value {
        let number = self.constant(x, number);
        self.compare(direction, x, &number)
    }

    pub fn select(&mut self, condition: &Value, yes: &Value, no: &Value) -> Value {
        self.emit("stablehlo.select", &[condition, yes, no], "", yes.dtype, &yes.dims)
    }

    /// `yes`, a number, where the condition holds, else `no`.
    pub fn select_number(&mut self, condition: &Value, yes: f64, no: &Value) -> Value {
        let yes = self.constant(no, yes);
        self.select(condition, &yes, no)
    }

    /// The same elements in row-major order with other dimensions.
    pub fn reshape(&mut self, x: &Value, dims: &[i64]) -> Value {
        if x.dims == dims {
            return x.clone();
        }
        self.emit("stablehlo.reshape", &[x], "", x.dtype, dims)
    }

    pub fn concatenate(&mut self, parts: &[&Value], dimension: i64) -> Value {
        if let [part] = parts {
            return (*part).clone();
        }
        let mut dims = parts[0].dims.clone();
        dims[dimension as usize] = parts.iter().map(|part| part.dims[dimension as usize]).sum();
        let attributes = format!("{{dimension = {dimension} : i64}}");
        self.emit("stablehlo.concatenate", parts, &attributes, parts[0].dtype, &dims)
    }

    /// Indices from `start` to below `end`.
    pub fn slice(&mut self, x: &Value, start: &[i64], end: &[i64]) -> Value {
        if x.dims == end && start.iter().all(|&first| first == 0) {
            return x.clone();
        }
        let dims: Vec<i64> = start.iter().zip(end).map(|(first, last)| last - first).collect();
        let steps = vec![1; dims.len()];
        let attributes = format!(
            "{{start_indices = {}, limit_indices = {}, strides = {}}}",
            integers(start),
            integers(end),
            integers(&steps)
        );
        self.emit("stablehlo.slice", &[x], &attributes, x.dtype, &dims)
    }

    /// Dimension `i` of the result is dimension `order[i]` of `x`.
    pub fn transpose(&mut self, x: &Value, order: &[i64]) -> Value {
        if order.iter().enumerate().all(|(i, &dim)| dim == i as i64) {
            return x.clone();
        }
        let dims: Vec<i64> = order.iter().map(|&dim| x.dims[dim as usize]).collect();
        let attributes = format!("{{permutation = {}}}", integers(order));
        self.emit("stablehlo.transpose", &[x], &attributes, x.dtype, &dims)
    }
}

/// The dtype that a dtype is computed with.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::I2 | DType::I4 => DType::I8,
        DType::U2 | DType::U4 => DType::U8,
        _ if dtype.is_float() && dtype.info().bits <= 8 => DType::F32,
        _ => dtype,
    }
}

/// A type in StableHLO text.
pub(super) fn tensor(dtype: DType, dims: &[i64]) -> String {
    let mut text = String::from("tensor<");
    for dim in dims {
        put!(text, "{dim}x");
    }
    text.push_str(dtype.info().mlir);
    text.push('>');
    text
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
    if dtype == DType::Pred {
        return (number != 0.0).to_string();
    }
    if dtype.is_integer() {
        return format!("{}", number as i128);
    }
    let real = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    };
    let text = if number.is_finite() { finite(number) } else { infinite(real, number) };
    if dtype.is_complex() {
        return format!("({text}, 0.0)");
    }
    text
}

/// All digits of a number; MLIR needs a point before the exponent.
fn finite(number: f64) -> String {
    let text = format!("{number:e}");
    match text.find('e') {
        Some(at) if !text[..at].contains('.') => format!("{}.0{}", &text[..at], &text[at..]),
        _ => text,
    }
}

/// An infinity or NaN as its bits.
fn infinite(dtype: DType, number: f64) -> String {
    let negative = number.is_sign_negative() && !number.is_nan();
    let bits: (u64, usize) = match (dtype, number.is_nan()) {
        (DType::F64, false) => (0x7ff0 << 48, 16),
        (DType::F64, true) => (0x7ff8 << 48, 16),
        (DType::F16, false) => (0x7c00, 4),
        (DType::F16, true) => (0x7e00, 4),
        (DType::BF16, false) => (0x7f80, 4),
        (DType::BF16, true) => (0x7fc0, 4),
        (_, false) => (0x7f80_0000, 8),
        (_, true) => (0x7fc0_0000, 8),
    };
    let sign = u64::from(negative) << (4 * bits.1 - 1);
    format!("0x{:0digits$X}", bits.0 | sign, digits = bits.1)
}
