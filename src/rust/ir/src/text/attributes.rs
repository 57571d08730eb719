//! Attributes.

use super::end_of_item;
use super::read::{attribute, utf8, Reader, Result};
use crate::module::choices;
use crate::module::{Algorithm, Attribute, Attributes, Conv, Dot, Element, Gather, Name, Scatter, Type};
use pjrt_data::dtype::DType;
use std::sync::Arc;

/// The fields of an attribute in text, `name<key = value, ..>`, as a dictionary.
pub fn fields(text: &str, name: &str) -> Option<Attribute> {
    let content = text.strip_prefix(name)?.trim_start().strip_prefix('<')?.strip_suffix('>')?;
    attribute(&format!("{{{content}}}"))
}

impl Reader<'_> {
    /// A dictionary in braces.
    pub fn dictionary(&mut self) -> Result<Attributes> {
        self.list(["{", "}"], |this| {
            let name: Name = if this.peek() == Some(b'"') { (*this.name()?).into() } else { this.word().into() };
            let value = if this.eat("=") { this.item()? } else { Attribute::Unit };
            Ok((name, value))
        })
    }

    /// An attribute between commas; as text, if it is not known and may be left out.
    fn item(&mut self) -> Result<Attribute> {
        self.skip();
        let start = self.at;
        let found = self.attribute();
        if !self.is_lenient || found.is_ok() && matches!(self.peek(), Some(b',' | b'}' | b']')) {
            return found;
        }
        self.at = start + end_of_item(&self.text[start..]);
        Ok(Attribute::Other(utf8(self.text[start..self.at].trim_ascii()).into()))
    }

    pub fn attribute(&mut self) -> Result<Attribute> {
        self.deeper(Self::one_attribute)
    }

    fn one_attribute(&mut self) -> Result<Attribute> {
        let Some(first) = self.peek() else { return self.unknown("an attribute that is missing") };
        Ok(match first {
            b'"' => Attribute::String((*self.string()?).into()),
            b'{' => Attribute::Dictionary(self.dictionary()?.into()),
            b'@' => {
                let mut names = vec![Name::from(&*self.symbol()?)];
                while self.eat("::") {
                    names.push((*self.symbol()?).into());
                }
                Attribute::Symbol(names.into())
            }
            b'[' => Attribute::Array(self.list(["[", "]"], Self::item)?.into()),
            b'(' => Attribute::Type(Type::Function(Arc::new(self.signature()?))),
            b'#' => match self.aliased() {
                Some((found, _)) => found,
                None => return self.of_stablehlo(),
            },
            b'-' | b'0'..=b'9' => return self.number(),
            _ if self.eat("true") => Attribute::Bool(true),
            _ if self.eat("false") => Attribute::Bool(false),
            _ if self.eat("unit") => Attribute::Unit,
            _ if self.eat("array<") => return self.array(),
            b'd' if self.comes_dense() => self.dense()?.0,
            b'a' if self.rest().starts_with(b"affine_map<") => {
                let start = self.at;
                self.bracketed("affine_map<")?;
                Attribute::Other(utf8(&self.text[start..self.at]).into())
            }
            _ => match self.kind()? {
                Type::Other(text) => Attribute::Other(text),
                kind => Attribute::Type(kind),
            },
        })
    }

    /// `dense<1> : tensor<2xi64>`, and its type. Only as text, without the type, if no more is needed.
    pub fn dense(&mut self) -> Result<(Attribute, Type)> {
        if self.peek() == Some(b'#') {
            if let Some(found) = self.aliased() {
                self.last_kind = self.at;
                return Ok(found);
            }
        }
        let start = self.at;
        let Some(content) = self.bracketed("dense<")? else { return self.unknown("a constant without its type") };
        let text = &self.text[start..self.at];
        if self.is_lenient {
            let kind = if self.eat(":") { self.kind()? } else { Type::None };
            return Ok((Attribute::Other(utf8(text).into()), kind));
        }
        self.expect(":")?;
        let kind = self.kind()?;
        let dense = super::constant::dense(content, kind.clone());
        let Some(dense) = dense else { return self.unknown("a constant that does not match its type") };
        Ok((Attribute::Dense(Arc::new(dense)), kind))
    }

    /// An integer or a float, with or without its type.
    fn number(&mut self) -> Result<Attribute> {
        let is_number = |byte: &&u8| byte.is_ascii_alphanumeric() || b".+-".contains(*byte);
        let len = self.rest().iter().take_while(is_number).count();
        let text = std::str::from_utf8(&self.rest()[..len]).unwrap_or_default();
        self.at += len;
        let is_float = !text.starts_with("0x") && text.contains(['.', 'e', 'E']);
        let default = if is_float { DType::F64 } else { DType::I64 };
        let kind = if self.eat(":") { self.kind()? } else { Type::Number(Element::Number(default)) };
        let Type::Number(element) = kind else { return self.unknown("a number of this type") };
        let Some(dtype) = element.indexed() else { return self.unknown(format_args!("a number of type {element}")) };
        let Some(bits) = super::constant::bits(text, dtype) else { return self.unknown("a number of another type") };
        Ok(Attribute::of_bits(bits, element))
    }

    /// `array<i64: 1, 2>`, without its start.
    fn array(&mut self) -> Result<Attribute> {
        let Type::Number(element) = self.kind()? else { return self.unknown("a list of this type") };
        self.eat(":");
        Ok(match element {
            Element::Number(DType::Pred) => Attribute::Bools(self.items(">", |this| Ok(this.word() == "true"))?.into()),
            Element::Number(DType::I64) => Attribute::Numbers(self.items(">", Self::integer)?.into()),
            _ => Attribute::Integers(self.items(">", Self::integer)?.into(), element),
        })
    }

    fn of_stablehlo(&mut self) -> Result<Attribute> {
        if self.eat("#stablehlo<") {
            let (name, value) = (self.word(), self.word());
            self.expect(">")?;
            return self.named_choice(name, value);
        }
        if self.eat("#stablehlo.dot_algorithm<") {
            return self.algorithm();
        }
        if self.eat("#stablehlo.conv<") {
            let conv = self.conv()?;
            self.expect(">")?;
            return Ok(Attribute::Conv(conv));
        }
        let kind = ["dot", "gather", "scatter"].into_iter().find(|kind| self.eat(&format!("#stablehlo.{kind}<")));
        let Some(kind) = kind else { return self.text_attribute() };
        let mut fields = self.items(">", |this| {
            let name = this.word();
            this.expect("=")?;
            Ok((name, if this.peek() == Some(b'[') { this.integers()? } else { vec![this.integer()?] }))
        })?;
        // Those that are not given are empty or zero.
        let part = |name, _| {
            let at = fields.iter().position(|(key, _)| *key == name);
            Ok(at.map(|at| fields.remove(at).1).unwrap_or_default())
        };
        let found = match kind {
            "dot" => Attribute::Dot(Dot::read(part)?),
            "gather" => Attribute::Gather(Gather::read(part)?),
            _ => Attribute::Scatter(Scatter::read(part)?),
        };
        match fields.first() {
            None => Ok(found),
            Some((name, _)) => self.unknown(format_args!("'{name}' in #stablehlo.{kind}")),
        }
    }

    /// An attribute that is kept as text: `#dialect.name<..>`.
    pub fn text_attribute(&mut self) -> Result<Attribute> {
        let start = self.at;
        self.expect("#")?;
        let name = self.word();
        if self.bracketed("<")?.is_none() && !name.contains('.') && !self.is_lenient {
            return self.unknown(format_args!("'#{name}', which is not defined before it"));
        }
        Ok(Attribute::Other(utf8(&self.text[start..self.at]).into()))
    }

    /// `lhs_precision_type = f32, ..>`.
    pub fn algorithm(&mut self) -> Result<Attribute> {
        let fields = self.items(">", |this| {
            this.word();
            this.expect("=")?;
            this.attribute()
        })?;
        let algorithm = Algorithm::of(&fields).map(|algorithm| Attribute::Algorithm(Arc::new(algorithm)));
        algorithm.map_or_else(|| self.unknown("an algorithm that is something else"), Ok)
    }

    /// A value of an enumeration.
    pub fn choice(&mut self, name: &str) -> Result<Attribute> {
        let value = self.word();
        self.named_choice(name, value)
    }

    fn named_choice(&self, name: &str, value: &str) -> Result<Attribute> {
        let found =
            choices::find(name, value).map(|((name, .., values), place)| Attribute::Choice(name, values[place]));
        found.map_or_else(|| self.unknown(format_args!("'{name} {value}'")), Ok)
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
    pub fn conv(&mut self) -> Result<Arc<Conv>> {
        let mut places = Vec::new();
        for (sign, letters) in [("", ["b", "f"]), ("x", ["i", "o"]), ("->", ["b", "f"])] {
            self.expect(sign)?;
            let names = self.list(["[", "]"], |this| Ok(this.word()))?;
            let place = |name: &str| names.iter().position(|known| *known == name).map(|at| at as i64);
            let spatial = (0..names.len().saturating_sub(2)).map(|i| place(&i.to_string())).collect::<Option<Vec<_>>>();
            match (place(letters[0]), place(letters[1]), spatial) {
                (Some(first), Some(second), Some(spatial)) => places.extend([vec![first], vec![second], spatial]),
                _ => return self.unknown("other dimensions of a convolution"),
            }
        }
        let mut places = places.into_iter();
        Conv::read(|_, _| Ok(places.next().unwrap_or_default()))
    }
}
