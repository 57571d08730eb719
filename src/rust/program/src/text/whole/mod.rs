//! Reads text as a module, with all that it says. What is not known here is an error, unlike in the reader of [`super::read`],
//! which leaves it out. MLIR's generic form is known, and the short forms of most operations.

mod attributes;
mod constant;
mod operation;

use super::is_in_name;
use super::values;
use crate::module::{Attribute, Block, Dense, Module, Name, Operation, Region, Type, Value};
use pjrt_base::error::{Error, Kind, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Regions, attributes and types nest less deep: the reader uses recursion.
const MAX_NESTING: usize = 200;

/// Reads a program.
///
/// # Errors
/// `UnsupportedProgram`, which names the line, for what is not known here.
pub(crate) fn whole(text: &[u8]) -> Result<Module> {
    let text = std::str::from_utf8(text).map_err(|_| unknown(1, "text that is not UTF-8"))?;
    let mut reader = Reader { text, at: 0, types: Vec::new(), scopes: Vec::new(), depth: 0 };
    let root = reader.root()?;
    Ok(Module { root, types: reader.types })
}

/// The constant of a text such as `dense<1> : tensor<2xi64>`.
pub(crate) fn constant(text: &str) -> Option<Arc<Dense>> {
    let mut reader = Reader { text, at: 0, types: Vec::new(), scopes: Vec::new(), depth: 0 };
    match reader.attribute() {
        Ok(Attribute::Dense(dense)) => Some(dense),
        _ => None,
    }
}

#[cold]
fn unknown(line: usize, what: &str) -> Error {
    let message =
        format!("The plugin reads programs only as portable artifacts, and line {line} of this one has {what}.");
    Error::new(Kind::UnsupportedProgram, message)
        .hint("Export the program as a portable artifact, or write the operation in MLIR's generic form.")
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    types: Vec<Type>,
    /// The values of the regions that are being read, by name.
    scopes: Vec<HashMap<&'a str, Vec<Value>>>,
    depth: usize,
}

type Pairs = Vec<(Name, Attribute)>;

impl<'a> Reader<'a> {
    #[cold]
    fn unknown<T>(&self, what: &str) -> Result<T> {
        let line = 1 + self.text[..self.at].bytes().filter(|&byte| byte == b'\n').count();
        Err(unknown(line, what))
    }

    /// The module, which may be left out around functions.
    fn root(&mut self) -> Result<Operation> {
        let mut root = Operation::new("builtin.module", Vec::new(), Vec::new());
        let mut operations = Vec::new();
        self.skip();
        let is_named = self.eat("module") || self.eat("builtin.module");
        if is_named {
            if self.peek() == Some(b'@') {
                root.set("sym_name", Attribute::string(&self.symbol()?));
            }
            if self.eat("attributes") {
                root.attributes.extend(self.dictionary()?);
            }
            self.expect("{")?;
        }
        self.scopes.push(HashMap::new());
        while !matches!(self.peek(), None | Some(b'}')) {
            operations.push(self.operation()?);
        }
        if is_named {
            self.expect("}")?;
            self.location()?;
        }
        if self.peek().is_some() {
            return self.unknown("something after its end");
        }
        match &operations[..] {
            [module] if &*module.name == "builtin.module" => Ok(operations.remove(0)),
            _ => {
                root.regions = vec![Region { blocks: vec![Block { operations, ..Block::default() }] }];
                Ok(root)
            }
        }
    }

    /// Passes spaces, comments, and definitions of locations.
    fn skip(&mut self) {
        loop {
            let rest = self.text[self.at..].trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
            self.at = self.text.len() - rest.len();
            let is_location = rest.starts_with("#loc") && (self.at == 0 || self.text[..self.at].ends_with('\n'));
            if !is_location && !rest.starts_with("//") {
                return;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.rest().bytes().next()
    }

    /// Passes a word or a sign, if it comes next.
    fn eat(&mut self, word: &str) -> bool {
        self.skip();
        let Some(after) = self.rest().strip_prefix(word) else { return false };
        let is_part = |rest: &str| rest.bytes().next().is_some_and(is_in_name) && !rest.starts_with("->");
        let is_word = word.bytes().all(is_in_name);
        if is_word && is_part(after) {
            return false;
        }
        self.at += word.len();
        true
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.eat(word) {
            true => Ok(()),
            false => {
                let found: String = self.rest().chars().take_while(|&c| c != '\n').take(40).collect();
                self.unknown(&format!("'{found}' where '{word}' was expected"))
            }
        }
    }

    /// Items between commas, up to a bracket, which is passed.
    fn items<T>(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(end) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(end) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let is_end = |&i: &usize| !is_in_name(bytes[i]) || bytes[i..].starts_with(b"->");
        let len = (0..bytes.len()).find(is_end).unwrap_or(bytes.len());
        self.at += len;
        &rest[..len]
    }

    fn integer(&mut self) -> Result<i64> {
        match self.word().parse() {
            Ok(number) => Ok(number),
            Err(_) => self.unknown("something else than an integer"),
        }
    }

    /// A list of integers in brackets.
    fn integers(&mut self) -> Result<Vec<i64>> {
        self.expect("[")?;
        self.items("]", Self::integer)
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        self.skip();
        let rest = self.rest().as_bytes();
        let end = if rest.starts_with(b"\"") { super::end_of_string(rest, 0) } else { 0 };
        let content = rest.get(1..end.saturating_sub(1)).filter(|_| end >= 2).and_then(values::unescaped);
        self.at += end;
        content.map_or_else(|| self.unknown("something else than a string"), Ok)
    }

    fn name(&mut self) -> Result<String> {
        let bytes = self.string()?;
        String::from_utf8(bytes).or_else(|_| self.unknown("a name that is not UTF-8"))
    }

    /// A name after `@`.
    fn symbol(&mut self) -> Result<String> {
        self.expect("@")?;
        if self.peek() == Some(b'"') {
            return self.name();
        }
        Ok(self.word().to_owned())
    }

    /// The name after `%`, and the number of a result.
    fn value_name(&mut self) -> Result<(&'a str, Option<usize>)> {
        self.expect("%")?;
        let name = self.word();
        let number = if self.rest().starts_with('#') {
            self.at += 1;
            Some(self.integer()? as usize)
        } else {
            None
        };
        Ok((name, number))
    }

    /// A value that is used.
    fn used(&mut self) -> Result<Value> {
        let (name, number) = self.value_name()?;
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        match (found.map(Vec::as_slice), number) {
            (Some([value]), None) => Ok(*value),
            (Some(values), Some(number)) if number < values.len() => Ok(values[number]),
            _ => self.unknown(&format!("%{name}, which is not defined before it")),
        }
    }

    fn define(&mut self, name: &'a str, types: &[Type]) -> Vec<Value> {
        let first = self.types.len() as u32;
        self.types.extend_from_slice(types);
        let values: Vec<Value> = (first..first + types.len() as u32).map(Value).collect();
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, values.clone());
        }
        values
    }

    fn kind(&mut self) -> Result<Type> {
        self.deeper(|this| {
            if this.peek() == Some(b'(') {
                let (inputs, outputs) = this.signature()?;
                return Ok(Type::Function(Arc::new((inputs, outputs))));
            }
            if this.eat("tuple<") {
                return Ok(Type::Tuple(this.items(">", Self::kind)?.into()));
            }
            if this.eat("none") {
                return Ok(Type::None);
            }
            let (kind, len) = values::kind(this.rest().as_bytes());
            this.at += len;
            match kind {
                Type::Other(text) => this.unknown(&format!("the type '{text}'")),
                kind => Ok(kind),
            }
        })
    }

    /// Types in parentheses, an arrow, and types.
    fn signature(&mut self) -> Result<(Vec<Type>, Vec<Type>)> {
        self.expect("(")?;
        let inputs = self.items(")", Self::kind)?;
        self.expect("->")?;
        let outputs = if self.eat("(") { self.items(")", Self::kind)? } else { vec![self.kind()?] };
        Ok((inputs, outputs))
    }

    /// What `read` finds, unless it nests too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return self.unknown("brackets that nest too deep");
        }
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Passes a location.
    fn location(&mut self) -> Result<()> {
        self.bracketed("loc(").map(|_| ())
    }

    /// The name in the location of an argument, if it has one.
    fn named_location(&mut self) -> Result<Option<Name>> {
        let content = self.bracketed("loc(")?;
        let name = content.and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        Ok(name.filter(|name| !name.contains(['"', '\\'])).map(Name::from))
    }

    /// What is in the brackets after a word that ends with one, if it comes next.
    fn bracketed(&mut self, word: &str) -> Result<Option<&'a str>> {
        if !self.eat(word) {
            return Ok(None);
        }
        let start = self.at;
        match super::end_of_brackets(&self.text.as_bytes()[start - 1..]) {
            Some(len) => {
                self.at = start - 1 + len;
                Ok(Some(&self.text[start..self.at - 1]))
            }
            None => self.unknown("brackets without end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with this line, in short forms or in generic form.
    fn read(line: &str) -> Result<String> {
        whole(
            format!("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{line}\nreturn %x : tensor<2xf32>\n}}")
                .as_bytes(),
        )?
        .text()
    }

    #[test]
    fn short_forms_are_the_same_as_the_generic_form() {
        for (short, generic) in [
            (
                "%0 = stablehlo.reverse %x, dims = [0] : tensor<2xf32>",
                "%0 = \"stablehlo.reverse\"(%x) <{dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2xf32>",
            ),
            (
                "%0 = stablehlo.iota dim = 0 : tensor<3xi32> loc(\"a\")",
                "%0 = \"stablehlo.iota\"() {iota_dimension = 0 : i64} : () -> tensor<3xi32> // a comment",
            ),
            (
                "%0 = stablehlo.compare  LT, %x, %x,  FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
                "%0 = \"stablehlo.compare\"(%x, %x) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = \
                 #stablehlo<comparison_type FLOAT>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
            ),
        ] {
            assert_eq!(read(short).unwrap(), read(generic).unwrap(), "{short}");
        }
    }

    #[test]
    fn what_is_not_known_is_an_error_with_its_line() {
        for (line, what) in [
            (
                "%0 = stablehlo.unheard_of %x : tensor<2xf32>",
                "the operation 'stablehlo.unheard_of' in a form that is not known",
            ),
            ("%0 = stablehlo.reverse %x, places = [0] : tensor<2xf32>", "the setting 'places'"),
            ("%0 = stablehlo.add %x, %y : tensor<2xf32>", "%y, which is not defined before it"),
            ("%0:2 = stablehlo.add %x, %x : tensor<2xf32>", "2 names for 1 results"),
            (
                "%0:9223372036854775807, %1:9223372036854775807, %2:3 = stablehlo.add %x, %x : tensor<2xf32>",
                "names for 1 results",
            ),
            ("%0 = stablehlo.constant dense<[1]> : tensor<2xf32>", "a constant that does not match its type"),
            ("%0 = \"stablehlo.add\"(%x, %x : tensor<2xf32>", "where ',' was expected"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.message().contains("line 2 ") && error.message().contains(what), "{error}");
        }
    }
}
