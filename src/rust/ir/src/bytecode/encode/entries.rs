//! Attributes and types of the portable form, and the few of MLIR itself.

use super::super::decode::vhlo;
use super::{list, number, signed, Dialect, Writer};
use crate::module::choices;
use crate::module::{shown, shown_attribute, Attribute, Dense, Element, Name, Type, Value};
use crate::text;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;

impl Writer<'_> {
    /// An entry of a kind with these numbers after it.
    fn entry(&mut self, dialect: Dialect, kind: usize, parts: &[usize]) -> usize {
        let mut content = Vec::new();
        std::iter::once(&kind).chain(parts).for_each(|&part| number(part, &mut content));
        self.attributes.number((dialect, true, content))
    }

    /// The location of an argument with a name, or an unknown one.
    pub fn location(&mut self, name: Option<&Name>) -> usize {
        let unknown = self.entry(Dialect::Builtin, 15, &[]);
        match name {
            None => unknown,
            Some(name) => {
                let name = self.text(name);
                self.entry(Dialect::Builtin, 14, &[name, unknown])
            }
        }
    }

    /// A string of MLIR itself.
    fn text(&mut self, text: &str) -> usize {
        let string = self.string(text.as_bytes());
        self.entry(Dialect::Builtin, 2, &[string])
    }

    /// The attributes of an operation: their names and numbers.
    pub fn dictionary(&mut self, items: &[(Name, usize)]) -> usize {
        let mut parts = vec![items.len()];
        for (name, value) in items {
            parts.extend([self.text(name), *value]);
        }
        self.entry(Dialect::Builtin, 1, &parts)
    }

    /// An attribute of MLIR itself or of another dialect, in text except for names.
    pub fn plain(&mut self, attribute: &Attribute) -> Result<usize> {
        if let Attribute::String(bytes) = attribute {
            let string = self.string(bytes);
            return Ok(self.entry(Dialect::Builtin, 2, &[string]));
        }
        let text = shown_attribute(attribute).map_err(|_| self.no_form("an attribute without a portable form"))?;
        Ok(self.attributes.number((Dialect::Builtin, false, [text.as_bytes(), &[0]].concat())))
    }

    /// The number of a value's type.
    pub fn type_of(&mut self, value: Value) -> Result<usize> {
        let kind = self.module.type_of(value);
        if !self.plain.contains(&value) {
            return self.kind(kind);
        }
        Ok(self.types.number((Dialect::Builtin, false, [shown(kind).as_bytes(), &[0]].concat())))
    }

    /// What `write` adds, unless it nests too deep.
    fn deeper<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > super::MAX_NESTING {
            return Err(self.no_form("attributes that nest too deep"));
        }
        let written = write(self);
        self.depth -= 1;
        written
    }

    /// An attribute of an operation.
    pub fn property(&mut self, key: &str, value: &Attribute) -> Result<usize> {
        match value {
            Attribute::Integer(version @ 0..=127, _) if key == "api_version" => {
                Ok(self.entry(Dialect::Vhlo, 5, &[*version as usize]))
            }
            _ => self.attribute(value),
        }
    }

    fn attribute(&mut self, attribute: &Attribute) -> Result<usize> {
        self.deeper(|this| this.portable(attribute))
    }

    fn portable(&mut self, attribute: &Attribute) -> Result<usize> {
        let mut content = Vec::new();
        let out = &mut content;
        match attribute {
            Attribute::Array(items) => {
                let items = items.iter().map(|item| self.attribute(item)).collect::<Result<Vec<_>>>()?;
                number(1, out);
                list(&items, out);
            }
            Attribute::Bool(value) => {
                number(2, out);
                number((*value).into(), out);
            }
            Attribute::Choice(name, value) => {
                let found = choices::find(name, value).ok_or_else(|| self.no_form("a newer attribute"))?;
                let ((_, kind, ..), place) = found;
                number(*kind as usize, out);
                number(place, out);
            }
            Attribute::Dictionary(items) => {
                number(6, out);
                number(items.len(), out);
                for (name, value) in items.iter() {
                    let (name, value) = (self.attribute(&Attribute::string(name))?, self.attribute(value)?);
                    number(name, out);
                    number(value, out);
                }
            }
            Attribute::Float(bits, element) => {
                number(8, out);
                number(self.element(element)?, out);
                bits_of(*bits, self.width(element)?, out);
            }
            Attribute::Integer(value, element) => {
                number(9, out);
                number(self.element(element)?, out);
                bits_of(*value as u64, self.width(element)?, out);
            }
            Attribute::String(bytes) => {
                number(14, out);
                number(self.string(bytes), out);
            }
            Attribute::Symbol(names) if names.len() == 1 => return self.attribute(&Attribute::string(&names[0])),
            Attribute::Dense(dense) => self.dense(dense, out)?,
            Attribute::Numbers(values) => self.numbers(values, &Element::Number(DType::I64), out)?,
            Attribute::Integers(values, element) => self.numbers(values, element, out)?,
            Attribute::Bools(values) => {
                let values: Vec<i64> = values.iter().map(|&value| value.into()).collect();
                self.numbers(&values, &Element::Number(DType::Pred), out)?;
            }
            Attribute::Type(kind) => {
                number(17, out);
                number(self.kind(kind)?, out);
            }
            Attribute::Bounds(bounds) => {
                number(18, out);
                sizes(bounds, out);
            }
            Attribute::Other(text) if text.starts_with("dense<") => match text::constant(text) {
                Some(dense) => self.dense(&dense, out)?,
                None => return Err(self.no_form("a constant that cannot be read")),
            },
            Attribute::Other(text) if !text.starts_with("#stablehlo") => return self.plain(attribute),
            Attribute::Other(text) => match text.strip_prefix("#stablehlo.output_operand_alias<") {
                Some(text) => alias(text, out).ok_or_else(|| self.no_form("an alias that cannot be read"))?,
                None => self.accuracy(text, out)?,
            },
            _ => return Err(self.no_form("an attribute without a portable form")),
        }
        Ok(self.attributes.number((Dialect::Vhlo, true, content)))
    }

    fn numbers(&mut self, values: &[i64], element: &Element, out: &mut Vec<u8>) -> Result<()> {
        self.dense(&Dense::of_integers(vec![values.len() as i64], element.clone(), values), out)
    }

    /// A constant: one byte for each truth value becomes one bit, unless all are equal.
    fn dense(&mut self, dense: &Dense, out: &mut Vec<u8>) -> Result<()> {
        let tensor = dense.tensor()?;
        let (Some(len), Some(width)) = (tensor.elements(), tensor.element.bytes()) else {
            return Err(self.no_form("a constant of an unknown type"));
        };
        let is_repeated = dense.bytes.len() == width;
        if !is_repeated && len.checked_mul(width) != Some(dense.bytes.len()) {
            return Err(self.no_form("a constant whose size does not match its type"));
        }
        number(15, out);
        number(self.kind(&dense.kind)?, out);
        let bytes = &dense.bytes[..];
        let is_truth = tensor.element.dtype() == Some(DType::Pred);
        let packed: Vec<u8> = match bytes {
            [first, rest @ ..] if is_truth && rest.iter().all(|byte| byte == first) => vec![first.wrapping_neg()],
            _ if is_truth => {
                bytes.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
            }
            _ => {
                number(bytes.len(), out);
                out.extend_from_slice(bytes);
                return Ok(());
            }
        };
        number(packed.len(), out);
        out.extend(packed);
        Ok(())
    }

    /// `#stablehlo.result_accuracy<atol = .., rtol = .., ulps = .., mode = #stablehlo.result_accuracy_mode<..>>`.
    fn accuracy(&mut self, text: &str, out: &mut Vec<u8>) -> Result<()> {
        let mode = || text.strip_prefix("#stablehlo.result_accuracy<")?.rsplit_once("mode<")?.1.split('>').next();
        let field = |name: &str| text.split_once(name)?.1.trim_start_matches([' ', '=']).split(',').next();
        let tolerance = |name: &str| field(name)?.trim().parse::<f64>().ok();
        let parts = || {
            let (_, place) = choices::find("result_accuracy_mode", mode()?)?;
            Some((tolerance("atol")?, tolerance("rtol")?, field("ulps")?.trim().parse().ok()?, place))
        };
        let (absolute, relative, units, place) =
            parts().ok_or_else(|| self.no_form(&format!("the attribute {text}, which has no portable form")))?;
        let mode = self.entry(Dialect::Vhlo, 19, &[place]);
        number(20, out);
        [absolute.to_bits() as i64, relative.to_bits() as i64, units].iter().for_each(|&part| signed(part, out));
        number(mode, out);
        Ok(())
    }

    /// The number of a type.
    pub fn kind(&mut self, kind: &Type) -> Result<usize> {
        self.deeper(|this| this.kind_entry(kind))
    }

    fn kinds(&mut self, kinds: &[Type]) -> Result<Vec<usize>> {
        kinds.iter().map(|kind| self.kind(kind)).collect()
    }

    fn kind_entry(&mut self, kind: &Type) -> Result<usize> {
        let mut content = Vec::new();
        let out = &mut content;
        match kind {
            Type::Tensor(tensor) => {
                match &tensor.encoding {
                    None => number(20, out),
                    Some(encoding) => {
                        number(21, out);
                        number(self.attribute(encoding)?, out);
                    }
                }
                sizes(&tensor.dims, out);
                number(self.element(&tensor.element)?, out);
            }
            Type::Unranked(element) => {
                number(25, out);
                number(self.element(element)?, out);
            }
            Type::Number(element) => return self.element(element),
            Type::Tuple(parts) => {
                number(23, out);
                list(&self.kinds(parts)?, out);
            }
            Type::Future(parts) => {
                number(42, out);
                list(&self.kinds(parts)?, out);
            }
            Type::Function(shape) => {
                number(8, out);
                list(&self.kinds(&shape.0)?, out);
                list(&self.kinds(&shape.1)?, out);
            }
            Type::Token => number(22, out),
            Type::None => number(33, out),
            Type::Other(text) => return Err(self.no_form(&format!("the type {text}, which has no portable form"))),
        }
        Ok(self.types.number((Dialect::Vhlo, true, content)))
    }

    pub fn element(&mut self, element: &Element) -> Result<usize> {
        let name = element.to_string();
        if name.starts_with("!quant.") {
            return self.quantized(&name);
        }
        let mut content = Vec::new();
        if let Some(part) = name.strip_prefix("complex<").and_then(|name| name.strip_suffix('>')) {
            number(1, &mut content);
            number(self.element(&Element::Other(part.into()))?, &mut content);
        } else {
            let kind = vhlo::number_of_type(&name);
            let unknown = || self.no_form(&format!("the type {name}, which has no portable form"));
            number(kind.ok_or_else(unknown)?, &mut content);
        }
        Ok(self.types.number((Dialect::Vhlo, true, content)))
    }

    /// The bits of a number outside of arrays.
    fn width(&self, element: &Element) -> Result<u32> {
        let bits = match element {
            Element::Index => Some(64),
            _ => element.dtype().map(|dtype| dtype.info().bits).filter(|&bits| bits <= 64),
        };
        bits.ok_or_else(|| self.no_form("a number of an unknown type"))
    }
}

/// The last bits of a number: a byte, or a number with a sign.
fn bits_of(value: u64, bits: u32, out: &mut Vec<u8>) {
    let value = if bits < 64 { value & ((1 << bits) - 1) } else { value };
    match bits {
        0..=8 => out.push(value as u8),
        _ => signed(value as i64, out),
    }
}

/// Sizes, of which those that are not known are the smallest number.
fn sizes(dims: &[i64], out: &mut Vec<u8>) {
    number(dims.len(), out);
    dims.iter().for_each(|&dim| signed(if dim < 0 { i64::MIN } else { dim }, out));
}

/// `output_tuple_indices = [..], operand_index = .., operand_tuple_indices = [..]>`.
fn alias(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let list = |text: &str| {
        let (list, rest) = text.split_once('[')?.1.split_once(']')?;
        let parts = list.split(',').filter(|part| !part.trim().is_empty());
        Some((parts.map(|part| part.trim().parse().ok()).collect::<Option<Vec<i64>>>()?, rest.to_owned()))
    };
    let (output, rest) = list(text)?;
    let (operand, rest) = rest.split_once("operand_index = ")?.1.split_once(',')?;
    let (place, _) = list(rest)?;
    number(10, out);
    sizes(&output, out);
    signed(operand.trim().parse().ok()?, out);
    sizes(&place, out);
    Some(())
}
