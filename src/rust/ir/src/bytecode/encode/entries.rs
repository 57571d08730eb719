//! Attributes and types of the portable form, and the few of MLIR itself.

use super::super::decode::types::number_of_type;
use super::{number, numbers, signed, signed_list, Writer};
use crate::module::choices;
use crate::module::{shown, shown_attribute, Attribute, Dense, Element, Name, Type, Value};
use crate::text;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use std::borrow::Cow;

impl Writer<'_> {
    /// An entry of a kind with these numbers after it.
    pub fn entry(&mut self, dialect: &'static str, kind: usize, parts: &[usize]) -> usize {
        self.attributes.number((dialect, true, numbers(&[&[kind], parts].concat())))
    }

    /// The location of an argument with a name, or an unknown one.
    pub fn location(&mut self, name: Option<&Name>) -> usize {
        let unknown = self.entry("builtin", 15, &[]);
        let Some(name) = name.map(|name| self.text(name.as_bytes())) else { return unknown };
        self.entry("builtin", 14, &[name, unknown])
    }

    /// A string of MLIR itself.
    fn text(&mut self, text: &[u8]) -> usize {
        let string = self.string(text);
        self.entry("builtin", 2, &[string])
    }

    /// The attributes of an operation: their names and numbers.
    pub fn dictionary(&mut self, items: &[(Name, usize)]) -> usize {
        let mut parts = vec![items.len()];
        for (name, value) in items {
            parts.extend([self.text(name.as_bytes()), *value]);
        }
        self.entry("builtin", 1, &parts)
    }

    /// An attribute of MLIR itself or of another dialect, in text except for names.
    pub fn plain(&mut self, attribute: &Attribute) -> Result<usize> {
        if let Attribute::String(bytes) = attribute {
            return Ok(self.text(bytes));
        }
        let text = shown_attribute(attribute).map_err(|_| self.no_form("an attribute without a portable form"))?;
        Ok(self.attributes.number(("builtin", false, [text.as_bytes(), &[0]].concat())))
    }

    pub fn type_of(&mut self, value: Value) -> Result<usize> {
        let kind = self.module.type_of(value);
        if !self.plain.contains(&value) {
            return self.kind(kind);
        }
        Ok(self.types.number(("builtin", false, [shown(kind).as_bytes(), &[0]].concat())))
    }

    /// What `write` adds, unless it nests too deep.
    pub fn deeper<T>(&mut self, what: &str, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        ensure!(self.depth <= super::MAX_NESTING, self.no_form(&format!("{what} that nest too deep")));
        let written = write(self);
        self.depth -= 1;
        written
    }

    /// An attribute of the portable form.
    pub fn attribute(&mut self, attribute: &Attribute) -> Result<usize> {
        self.deeper("attributes", |this| this.portable(attribute))
    }

    fn portable(&mut self, attribute: &Attribute) -> Result<usize> {
        let content = match attribute {
            Attribute::Array(items) => {
                let items = items.iter().map(|item| self.attribute(item)).collect::<Result<Vec<_>>>()?;
                numbers(&[&[1, items.len()], &items[..]].concat())
            }
            Attribute::Bool(value) => numbers(&[2, (*value).into()]),
            Attribute::Choice(name, value) => {
                let found = choices::find(name, value).ok_or_else(|| self.no_form("a newer attribute"))?;
                let ((_, kind, ..), place) = found;
                numbers(&[*kind as usize, place])
            }
            Attribute::Dictionary(items) => {
                let mut parts = vec![6, items.len()];
                for (name, value) in items.iter() {
                    parts.extend([self.attribute(&Attribute::string(name))?, self.attribute(value)?]);
                }
                numbers(&parts)
            }
            Attribute::Float(bits, element) => self.number(8, *bits, element)?,
            Attribute::Integer(value, element) => self.number(9, *value as u64, element)?,
            Attribute::String(bytes) => numbers(&[14, self.string(bytes)]),
            Attribute::Symbol(names) if names.len() == 1 => return self.attribute(&Attribute::string(&names[0])),
            Attribute::Dense(dense) => self.dense(dense)?,
            Attribute::Numbers(values) => self.integers(values, &Element::Number(DType::I64))?,
            Attribute::Integers(values, element) => self.integers(values, element)?,
            Attribute::Bools(values) => {
                let values: Vec<i64> = values.iter().map(|&value| value.into()).collect();
                self.integers(&values, &Element::Number(DType::Pred))?
            }
            Attribute::Type(kind) => numbers(&[17, self.kind(kind)?]),
            Attribute::Bounds(bounds) => [numbers(&[18]), sizes(bounds)].concat(),
            Attribute::Other(text) if text.starts_with("dense<") => match text::attribute(text) {
                Some(Attribute::Dense(dense)) => self.dense(&dense)?,
                _ => return Err(self.no_form("a constant that cannot be read")),
            },
            Attribute::Other(text) if !text.starts_with("#stablehlo") => return self.plain(attribute),
            Attribute::Other(text) if text.starts_with("#stablehlo.output_operand_alias<") => {
                alias(text).ok_or_else(|| self.no_form("an alias that cannot be read"))?
            }
            Attribute::Other(text) => self.accuracy(text)?,
            _ => return Err(self.no_form("an attribute without a portable form")),
        };
        Ok(self.attributes.number(("vhlo", true, content)))
    }

    /// A number of a type: its last bits, as a byte or as a number with a sign.
    fn number(&mut self, kind: usize, value: u64, element: &Element) -> Result<Vec<u8>> {
        let mut out = numbers(&[kind, self.element(element)?]);
        let bits = element.indexed().map(|dtype| dtype.info().bits).filter(|&bits| bits <= 64);
        let bits = bits.ok_or_else(|| self.no_form("a number of an unknown type"))?;
        let value = if bits < 64 { value & ((1 << bits) - 1) } else { value };
        match bits {
            0..=8 => out.push(value as u8),
            _ => signed(value as i64, &mut out),
        }
        Ok(out)
    }

    fn integers(&mut self, values: &[i64], element: &Element) -> Result<Vec<u8>> {
        self.dense(&Dense::of_integers(vec![values.len() as i64], element.clone(), values))
    }

    /// A constant: one byte for each truth value becomes one bit, unless all are equal.
    fn dense(&mut self, dense: &Dense) -> Result<Vec<u8>> {
        let tensor = dense.tensor()?;
        let (Some(len), Some(width)) = (tensor.elements(), tensor.element.bytes()) else {
            return Err(self.no_form("a constant of an unknown type"));
        };
        let fits = dense.bytes.len() == width || len.checked_mul(width) == Some(dense.bytes.len());
        ensure!(fits, self.no_form("a constant whose size does not match its type"));
        let is_truth = tensor.element.dtype() == Some(DType::Pred);
        let bytes: Cow<'_, [u8]> = match &dense.bytes[..] {
            [first, rest @ ..] if is_truth && rest.iter().all(|byte| byte == first) => {
                vec![first.wrapping_neg()].into()
            }
            bytes if is_truth => {
                bytes.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
            }
            bytes => bytes.into(),
        };
        let mut out = numbers(&[15, self.kind(&dense.kind)?, bytes.len()]);
        out.extend_from_slice(&bytes);
        Ok(out)
    }

    /// `#stablehlo.result_accuracy<atol = .., rtol = .., ulps = .., mode = #stablehlo.result_accuracy_mode<..>>`.
    fn accuracy(&mut self, text: &str) -> Result<Vec<u8>> {
        let mode = || text.strip_prefix("#stablehlo.result_accuracy<")?.rsplit_once("mode<")?.1.split('>').next();
        let field = |name: &str| text.split_once(name)?.1.trim_start_matches([' ', '=']).split(',').next();
        let tolerance = |name: &str| field(name)?.trim().parse::<f64>().ok();
        let parts = || {
            let (_, place) = choices::find("result_accuracy_mode", mode()?)?;
            Some((tolerance("atol")?, tolerance("rtol")?, field("ulps")?.trim().parse().ok()?, place))
        };
        let (absolute, relative, units, place) =
            parts().ok_or_else(|| self.no_form(&format!("the attribute {text}, which has no portable form")))?;
        let mode = self.entry("vhlo", 19, &[place]);
        let mut out = numbers(&[20]);
        [absolute.to_bits() as i64, relative.to_bits() as i64, units].iter().for_each(|&part| signed(part, &mut out));
        number(mode, &mut out);
        Ok(out)
    }

    /// The number of a type.
    pub fn kind(&mut self, kind: &Type) -> Result<usize> {
        self.deeper("attributes", |this| this.kind_entry(kind))
    }

    /// A type of types: the number of its kind, and lists.
    fn kinds(&mut self, kind: usize, lists: &[&[Type]]) -> Result<Vec<u8>> {
        let mut parts = vec![kind];
        for list in lists {
            parts.push(list.len());
            for kind in *list {
                parts.push(self.kind(kind)?);
            }
        }
        Ok(numbers(&parts))
    }

    fn kind_entry(&mut self, kind: &Type) -> Result<usize> {
        let content = match kind {
            Type::Tensor(tensor) => {
                let head = match &tensor.encoding {
                    None => numbers(&[20]),
                    Some(encoding) => numbers(&[21, self.attribute(encoding)?]),
                };
                [head, sizes(&tensor.dims), numbers(&[self.element(&tensor.element)?])].concat()
            }
            Type::Unranked(element) => numbers(&[25, self.element(element)?]),
            Type::Number(element) => return self.element(element),
            Type::Tuple(parts) => self.kinds(23, &[parts])?,
            Type::Future(parts) => self.kinds(42, &[parts])?,
            Type::Function(shape) => self.kinds(8, &[&shape.0, &shape.1])?,
            Type::Token => numbers(&[22]),
            Type::None => numbers(&[33]),
            Type::Other(text) => return Err(self.no_form(&format!("the type {text}, which has no portable form"))),
        };
        Ok(self.types.number(("vhlo", true, content)))
    }

    pub fn element(&mut self, element: &Element) -> Result<usize> {
        let name = element.to_string();
        if name.starts_with("!quant.") {
            return self.quantized(&name);
        }
        let content = match name.strip_prefix("complex<").and_then(|name| name.strip_suffix('>')) {
            Some(part) => numbers(&[1, self.element(&Element::Other(part.into()))?]),
            None => {
                let unknown = || self.no_form(&format!("the type {name}, which has no portable form"));
                numbers(&[number_of_type(&name).ok_or_else(unknown)?])
            }
        };
        Ok(self.types.number(("vhlo", true, content)))
    }
}

/// Sizes. Unknown sizes are the smallest number.
fn sizes(dims: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    signed_list(dims.iter().map(|&dim| if dim < 0 { i64::MIN } else { dim }), &mut out);
    out
}

/// `#stablehlo.output_operand_alias<output_tuple_indices = [..], operand_index = .., operand_tuple_indices = [..]>`.
fn alias(text: &str) -> Option<Vec<u8>> {
    let fields = text::fields(text, "#stablehlo.output_operand_alias")?;
    let list =
        |name: &str| -> Option<Vec<i64>> { fields.item(name)?.as_array()?.iter().map(Attribute::as_integer).collect() };
    let mut operand = Vec::new();
    signed(fields.item("operand_index")?.as_integer()?, &mut operand);
    let (output, place) = (list("output_tuple_indices")?, list("operand_tuple_indices")?);
    Some([numbers(&[10]), sizes(&output), operand, sizes(&place)].concat())
}
