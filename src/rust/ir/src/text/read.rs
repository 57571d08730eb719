//! Reads text as a module, in one of two ways. A program that is written again is read as a whole: what is not known here is an
//! error. For checks and views, it is left out: the reader passes it, up to the next operation, since a compiler finds mistakes.

use super::types;
use super::{end_of_brackets, end_of_item, end_of_string, is_in_name, length_of_line, Source};
use crate::module::{Attribute, Block, Element, Module, Name, Operation, Region, Tensor, Type, Value};
use memchr::memmem;
use pjrt_base::error::{Error, Kind};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

/// Regions, attributes and types nest less deep: the reader uses recursion.
const MAX_NESTING: usize = 100;

/// The longest list of results whose types are not known.
pub(super) const LONGEST_LIST: usize = 256;

const FUNCTION: &[u8] = b"func.func";
/// The same in MLIR's generic form.
const GENERIC_FUNCTION: &[u8] = b"\"func.func\"";

/// The program with all of its operations, without what is not known here.
pub fn module(text: &[u8]) -> Module {
    let source = Source::new(text);
    let mut reader = Reader::new(&source);
    let mut root = reader.of_module();
    let operations = reader.functions(true).into_iter().map(|(_, function)| function).collect();
    root.regions = vec![Region { blocks: vec![Block { operations, ..Block::default() }] }];
    Module { root, types: reader.types }
}

/// Where a constant is in the text: its name without `%`, and the end of its type.
pub struct Constant {
    pub value: Value,
    pub name: Range<usize>,
    pub end: usize,
    pub kind: Type,
}

/// The constants of a program, whose values have the same numbers as in its module.
pub fn constants(text: &[u8]) -> Vec<Constant> {
    let source = Source::whole(text);
    let mut reader = Reader::new(&source);
    reader.functions(true);
    reader.constants
}

/// Reads a program with all that it says.
///
/// # Errors
/// `UnsupportedProgram`, which names the line, for what is not known here. Callers say first why they read the program.
pub fn whole(text: &[u8]) -> pjrt_base::error::Result<Module> {
    let mut reader = Reader { text, ..Reader::default() };
    let read = match std::str::from_utf8(text) {
        Ok(_) => reader.root(),
        Err(_) => reader.unknown("text that is not UTF-8"),
    };
    let root = read.map_err(|Unknown { at, what }| {
        let line = 1 + memchr::memchr_iter(b'\n', &text[..at]).count();
        Error::new(Kind::UnsupportedProgram, format!("line {line} of this one has {what}."))
            .hint("Export the program as a portable artifact, or write the operation in MLIR's generic form.")
    })?;
    Ok(Module { root, types: reader.types })
}

/// What `read` makes of a whole text.
fn alone<'a, T>(text: &'a str, read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Option<T> {
    let mut reader = Reader { text: text.as_bytes(), ..Reader::default() };
    read(&mut reader).ok().filter(|_| reader.peek().is_none())
}

/// The attribute of a text.
pub fn attribute(text: &str) -> Option<Attribute> {
    alone(text, Reader::attribute)
}

/// The type of a text.
pub fn kind(text: &str) -> Option<Type> {
    alone(text, Reader::kind)
}

/// What is not known here, and where it is.
pub(super) struct Unknown {
    at: usize,
    what: String,
}

pub(super) type Result<T> = std::result::Result<T, Unknown>;

#[derive(Default)]
pub(super) struct Reader<'a> {
    pub text: &'a [u8],
    /// The text without strings and comments, in which functions are found.
    code: &'a [u8],
    /// Whether what is not known here is left out, and not an error.
    pub is_lenient: bool,
    pub at: usize,
    pub types: Vec<Type>,
    /// The end of the last type.
    pub last_kind: usize,
    pub constants: Vec<Constant>,
    /// What names such as `#a` and `!t` stand for; the types of constants.
    aliases: HashMap<&'a [u8], (Attribute, Type)>,
    /// Those that stand for elements of arrays.
    elements: HashMap<&'a [u8], Element>,
    /// The values of the regions that are being read, by name: the first of an operation's results, and their number.
    pub scopes: Vec<HashMap<&'a str, (Value, u32)>>,
    depth: usize,
    /// Whether the arguments of the next block are a function's, whose names are kept.
    pub is_function: bool,
    /// Where a list of values ends that does not define them.
    list_end: usize,
}

/// Whether the name at the start is being defined, as in `#a = 1`.
fn is_definition(text: &[u8]) -> bool {
    let len = 1 + text[1..].iter().take_while(|&&byte| is_in_name(byte)).count();
    len > 1 && text[len..].trim_ascii_start().starts_with(b"=")
}

pub(super) fn utf8(text: &[u8]) -> Cow<'_, str> {
    // Faster than the other, which is for text that is damaged.
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed)
}

impl<'a> Reader<'a> {
    /// A reader that leaves out what is not known.
    pub fn new(source: &'a Source<'_>) -> Self {
        let mut reader = Reader { text: &source.text, code: &source.code, is_lenient: true, ..Reader::default() };
        for at in memchr::memchr2_iter(b'#', b'!', &source.code) {
            if at >= reader.at && is_definition(&source.code[at..]) {
                reader.at = at;
                // What cannot be read is left out.
                let _ = reader.alias();
            }
        }
        reader.at = 0;
        reader
    }

    /// The name and the attributes of the module: before its first function, or, in MLIR's generic form, after all functions.
    pub fn of_module(&mut self) -> Operation {
        let mut root = Operation::new("builtin.module", Vec::new(), Vec::new());
        let first = memmem::find(self.code, FUNCTION).unwrap_or(self.code.len());
        if memmem::find(&self.text[..first], b"\"builtin.module\"").is_some() {
            self.at = memmem::rfind(self.code, b"})").map_or(self.code.len(), |end| end + 2);
            root.attributes = self.dictionary().unwrap_or_default();
        } else {
            const KEYWORD: &[u8] = b"module";
            let is_word = |&at: &usize| {
                let before = self.code[..at].strip_suffix(b"builtin.").unwrap_or(&self.code[..at]).last();
                let after = self.code.get(at + KEYWORD.len());
                ![before, after].into_iter().flatten().any(|&byte| is_in_name(byte) || b"@#!%".contains(&byte))
            };
            if let Some(at) = memmem::find_iter(&self.code[..first], KEYWORD).find(is_word) {
                self.at = at + KEYWORD.len();
                // What cannot be read is left out.
                let _ = self.head_of_module(&mut root);
            }
        }
        self.at = 0;
        root
    }

    /// The name and the attributes of a module, after its keyword.
    pub fn head_of_module(&mut self, root: &mut Operation) -> Result<()> {
        if self.peek() == Some(b'@') {
            root.set("sym_name", Attribute::string(&self.symbol()?));
        }
        if self.eat("attributes") {
            root.attributes.extend(self.dictionary()?);
        }
        Ok(())
    }

    /// Every function, with the position of its keyword. Those without a body have no region. Functions in generic form always
    /// have their bodies.
    pub fn functions(&mut self, with_bodies: bool) -> Vec<(usize, Operation)> {
        let mut found = Vec::new();
        while let Some((start, is_generic)) = self.next_function() {
            self.at = if is_generic { start } else { start + FUNCTION.len() };
            let function = if is_generic { self.operation() } else { self.function(with_bodies) };
            if let Ok(mut function) = function {
                if is_generic && function.inner().next().is_none() {
                    function.regions.clear();
                }
                found.push((start, function));
            }
        }
        found
    }

    /// Where the next function begins, and whether it is in generic form.
    fn next_function(&self) -> Option<(usize, bool)> {
        let short = memmem::find(self.code.get(self.at..)?, FUNCTION).map(|at| self.at + at);
        // A whole string, which has no other string around it.
        let is_whole = |&at: &usize| {
            let end = at + GENERIC_FUNCTION.len();
            let is_blank = |at: usize| self.code.get(at) == Some(&b'_');
            (at..end).all(is_blank) && !is_blank(end) && (at == 0 || !is_blank(at - 1))
        };
        let before = &self.text[self.at..short.unwrap_or(self.text.len())];
        let generic = memmem::find_iter(before, GENERIC_FUNCTION).map(|at| self.at + at).find(is_whole);
        generic.map(|at| (at, true)).or(short.map(|at| (at, false)))
    }

    /// The module, which may be left out around functions.
    fn root(&mut self) -> Result<Operation> {
        let mut root = Operation::new("builtin.module", Vec::new(), Vec::new());
        let mut operations = Vec::new();
        self.scopes.push(HashMap::new());
        loop {
            match self.peek() {
                None | Some(b'}' | b'{') => break,
                Some(b'#' | b'!') => self.alias()?,
                _ => operations.push(self.operation()?),
            }
        }
        if self.eat("{-#") {
            // The numbers of constants; those that are used are in their places already.
            self.at = self.text.len();
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

    /// `#a = attribute` or `!t = type`. Aliases of locations may stand after their use.
    fn alias(&mut self) -> Result<()> {
        let name = self.name_of_alias();
        self.expect("=")?;
        if self.bracketed("loc(")?.is_some() {
            return Ok(());
        }
        let is_name = matches!(self.peek(), Some(b'#' | b'!'));
        let found = match is_name.then(|| self.aliased()).flatten() {
            Some(found) => found,
            None => {
                // One does not contain others: what is written would grow with each.
                let others = std::mem::take(&mut self.aliases);
                let read = match self.comes_dense() {
                    true => self.dense(),
                    false => self.attribute().map(|value| (value, Type::None)),
                };
                self.aliases = others;
                read?
            }
        };
        if let (Attribute::Type(Type::Number(element)), _) = &found {
            self.elements.insert(name, element.clone());
        }
        self.aliases.insert(name, found);
        Ok(())
    }

    fn name_of_alias(&mut self) -> &'a [u8] {
        let start = self.at;
        self.at += 1;
        self.word();
        &self.text[start..self.at]
    }

    /// What the name stands for that comes next; `None` for other names.
    pub fn aliased(&mut self) -> Option<(Attribute, Type)> {
        let start = self.at;
        let name = self.name_of_alias();
        let found = self.aliases.get(name).cloned();
        if found.is_none() {
            self.at = start;
        }
        found
    }

    #[cold]
    pub fn unknown<T>(&self, what: impl Display) -> Result<T> {
        let what = if self.is_lenient { String::new() } else { what.to_string() };
        Err(Unknown { at: self.at, what })
    }

    /// Passes spaces, comments, and definitions of locations.
    pub fn skip(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            let starts_line = || self.at == 0 || matches!(self.text[self.at - 1], b'\n' | b'\r');
            let is_location = || self.rest().starts_with(b"#loc") && is_definition(self.rest());
            match byte {
                0 => self.at += 1,
                space if space.is_ascii_whitespace() => self.at += 1,
                b'/' if self.rest().starts_with(b"//") => self.at += length_of_line(self.rest()),
                b'#' if self.is_lenient && starts_line() && is_location() => self.at += length_of_line(self.rest()),
                _ => return,
            }
        }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not a space.
    pub fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.text.get(self.at).copied()
    }

    /// Passes a word or a sign, if it comes next.
    pub fn eat(&mut self, word: &str) -> bool {
        self.skip();
        let Some(after) = self.rest().strip_prefix(word.as_bytes()) else { return self.eat_apart(word) };
        let is_word = word.bytes().last().is_some_and(is_in_name);
        if is_word && after.first().copied().is_some_and(is_in_name) && !after.starts_with(b"->") {
            return false;
        }
        self.at += word.len();
        true
    }

    /// The same for a word that ends with a bracket, and spaces before it.
    fn eat_apart(&mut self, word: &str) -> bool {
        let Some(name) = word.strip_suffix('<').filter(|name| !name.is_empty()) else { return false };
        let start = self.at;
        if !self.rest().starts_with(name.as_bytes()) {
            return false;
        }
        self.at += name.len();
        let is_found = self.eat("<");
        if !is_found {
            self.at = start;
        }
        is_found
    }

    /// Whether the constant comes next whose word this is, not one of a longer name.
    pub fn comes_dense(&self) -> bool {
        let after = self.rest().strip_prefix(b"dense");
        after.is_some_and(|after| !after.first().copied().is_some_and(is_in_name))
    }

    pub fn expect(&mut self, word: &str) -> Result<()> {
        if self.eat(word) {
            return Ok(());
        }
        // The longest characters have four bytes.
        let rest = utf8(&self.rest()[..self.rest().len().min(4 * 40)]);
        let found: String = rest.chars().take_while(|&c| c != '\n').take(40).collect();
        self.unknown(format_args!("'{found}' where '{word}' was expected"))
    }

    /// What is read, or nothing if it is not known and may be left out.
    pub fn if_known<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        match read(self) {
            Err(_) if self.is_lenient => Ok(T::default()),
            read => read,
        }
    }

    /// Items between commas, up to a bracket, which is passed.
    pub fn items<T>(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(end) {
            return Ok(items);
        }
        loop {
            let read = item(self);
            if self.is_lenient
                && (read.is_err() || self.peek() != Some(b','))
                && !self.rest().starts_with(end.as_bytes())
            {
                self.at += end_of_item(self.rest());
            }
            items.extend(self.if_known(|_| read.map(Some))?);
            if self.eat(end) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    /// Items between commas in brackets.
    pub fn list<T>(&mut self, [start, end]: [&str; 2], item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(start)?;
        self.items(end, item)
    }

    /// Passes a key and the sign after it.
    pub fn key(&mut self, key: &str) -> Result<()> {
        self.expect(key)?;
        self.expect("=")
    }

    pub fn word(&mut self) -> &'a str {
        self.skip();
        let rest = self.rest();
        // The end of an arrow is not part of a name.
        let is_end = |&i: &usize| !is_in_name(rest[i]) || rest[i] == b'-' && rest.get(i + 1) == Some(&b'>');
        let len = (0..rest.len()).find(is_end).unwrap_or(rest.len());
        self.at += len;
        std::str::from_utf8(&rest[..len]).unwrap_or_default()
    }

    pub fn integer(&mut self) -> Result<i64> {
        self.word().parse().or_else(|_| self.unknown("something else than an integer"))
    }

    pub fn integers(&mut self) -> Result<Vec<i64>> {
        self.list(["[", "]"], Self::integer)
    }

    pub fn string(&mut self) -> Result<Cow<'a, [u8]>> {
        self.skip();
        let rest = self.rest();
        let end = if rest.starts_with(b"\"") { end_of_string(rest, 0) } else { 0 };
        let content = rest.get(1..end.saturating_sub(1)).and_then(types::unescaped);
        self.at += end;
        content.map_or_else(|| self.unknown("something else than a string"), Ok)
    }

    pub fn name(&mut self) -> Result<Cow<'a, str>> {
        let bytes = self.string()?;
        if !self.is_lenient && std::str::from_utf8(&bytes).is_err() {
            return self.unknown("a name that is not UTF-8");
        }
        Ok(match bytes {
            Cow::Borrowed(bytes) => utf8(bytes),
            Cow::Owned(bytes) => utf8(&bytes).into_owned().into(),
        })
    }

    /// A name after `@`.
    pub fn symbol(&mut self) -> Result<Cow<'a, str>> {
        self.expect("@")?;
        match self.peek() {
            Some(b'"') => self.name(),
            _ => Ok(self.word().into()),
        }
    }

    /// The name after `%`, and the number of a result.
    pub fn value_name(&mut self) -> Result<(&'a str, u32)> {
        self.expect("%")?;
        let name = self.word();
        if self.text.get(self.at) != Some(&b'#') {
            return Ok((name, 0));
        }
        self.at += 1;
        let number = self.word().parse().or_else(|_| self.unknown("something else than the number of a result"))?;
        Ok((name, number))
    }

    /// The value of a name, or one of several results.
    pub fn value(&self, name: &str, number: u32) -> Option<Value> {
        let (first, count) = self.scopes.iter().rev().find_map(|scope| scope.get(name))?;
        (number < *count).then(|| Value(first.0 + number))
    }

    /// A value that is used; `None` if it is not defined.
    pub fn used(&mut self) -> Result<Option<Value>> {
        let (name, number) = self.value_name()?;
        match self.value(name, number) {
            None if !self.is_lenient => self.unknown(format_args!("%{name}, which is not defined before it")),
            value => Ok(value),
        }
    }

    /// The names of results, and how many values each stands for, if `%a, %b:2 =` comes next.
    pub fn definition(&mut self) -> Option<SmallVec<[(&'a str, usize); 1]>> {
        let (start, mut names) = (self.at, SmallVec::new());
        while self.peek() == Some(b'%') && self.at >= self.list_end {
            self.at += 1;
            let name = self.word();
            let mut count = 1;
            // `%x : type` has a space before the colon, the number of results has none.
            if self.text.get(self.at) == Some(&b':') {
                self.at += 1;
                let Ok(number) = self.word().parse() else { break };
                count = number;
            }
            names.push((name, count));
            if self.eat("=") {
                return Some(names);
            }
            if !self.eat(",") {
                break;
            }
        }
        // The rest of the list names no values, either.
        self.list_end = self.at.max(self.list_end);
        self.at = start;
        None
    }

    pub fn value_of(&mut self, kind: Type) -> Value {
        self.types.push(kind);
        Value(self.types.len() as u32 - 1)
    }

    /// Makes values of these types. The first value has the name.
    pub fn define(&mut self, name: &'a str, types: &[Type]) -> impl Iterator<Item = Value> {
        let (first, count) = (self.types.len() as u32, types.len() as u32);
        self.types.extend_from_slice(types);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, (Value(first), count));
        }
        (first..first + count).map(Value)
    }

    pub fn kind(&mut self) -> Result<Type> {
        let next = self.peek();
        let kind = match next {
            Some(b'!') if !self.aliases.is_empty() => match self.aliased() {
                Some((Attribute::Type(kind), _)) => kind,
                _ => self.plain_kind()?,
            },
            _ if self.is_lenient => self.plain_kind()?,
            Some(b'(') => Type::Function(Arc::new(self.deeper(Self::signature)?)),
            Some(b't') if self.eat("tuple<") => Type::Tuple(self.deeper(|this| this.items(">", Self::kind))?.into()),
            Some(b'!') if self.eat("!stablehlo.future<") => {
                Type::Future(self.deeper(|this| this.items(">", Self::kind))?.into())
            }
            Some(b'n') if self.eat("none") => Type::None,
            _ => self.plain_kind()?,
        };
        self.last_kind = self.at;
        Ok(kind)
    }

    fn plain_kind(&mut self) -> Result<Type> {
        let (kind, len) = types::kind(self.rest());
        self.at += len;
        match kind {
            Type::Other(text) if text.starts_with("!quant.") => {
                Ok(Type::Number(Element::Other(text.replace(|c: char| c <= ' ', "").into())))
            }
            Type::Other(text) if !self.is_lenient => self.unknown(format_args!("the type '{text}'")),
            Type::Tensor(tensor) => Ok(Type::Tensor(match &tensor.element {
                Element::Other(name) if self.elements.contains_key(name.as_bytes()) => {
                    let element = self.elements[name.as_bytes()].clone();
                    Arc::new(Tensor { element, ..(*tensor).clone() })
                }
                _ => tensor,
            })),
            kind => Ok(kind),
        }
    }

    pub fn types(&mut self) -> Result<Vec<Type>> {
        let mut types = vec![self.kind()?];
        while self.eat(",") {
            types.push(self.kind()?);
        }
        Ok(types)
    }

    /// Types in parentheses, an arrow, and types.
    pub fn signature(&mut self) -> Result<(Vec<Type>, Vec<Type>)> {
        let inputs = self.list(["(", ")"], Self::kind)?;
        if self.is_lenient && self.peek() != Some(b'-') {
            return Ok((Vec::new(), inputs));
        }
        self.expect("->")?;
        let outputs = if self.eat("(") { self.items(")", Self::kind)? } else { vec![self.kind()?] };
        Ok((inputs, outputs))
    }

    /// What `read` finds, unless it nests too deep.
    pub fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_NESTING {
            return self.unknown("brackets that nest too deep");
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    pub fn location(&mut self) -> Result<()> {
        self.bracketed("loc(").map(|_| ())
    }

    /// The name in the location of an argument, if it has one.
    pub fn named_location(&mut self) -> Result<Option<Name>> {
        let content = self.bracketed("loc(")?;
        let name = content.and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\""));
        Ok(name.filter(|name| memchr::memchr2(b'"', b'\\', name).is_none()).map(|name| utf8(name).into()))
    }

    /// What is in the brackets after a word that ends with one, if it comes next.
    pub fn bracketed(&mut self, word: &str) -> Result<Option<&'a [u8]>> {
        if !self.eat(word) {
            return Ok(None);
        }
        let start = self.at;
        let Some(len) = end_of_brackets(&self.text[start - 1..]) else { return self.unknown("brackets without end") };
        self.at = start - 1 + len;
        Ok(Some(&self.text[start..self.at - 1]))
    }
}

#[cfg(test)]
mod tests;
