//! Reads text as a module. The reader knows the structure of MLIR, not its operations, and leaves out what it cannot read: a
//! compiler finds mistakes.

use super::values::{attribute, dictionary, kind};
use super::{is_in_name, split, Source};
use crate::module::{Attribute, Block, Module, Operation, Region, Type, Value};
use memchr::memmem;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Regions nest less deep: the reader uses recursion.
const MAX_NESTING: usize = 200;

/// The length of the longest list of results, so that each value is not followed by a search through all that comes after it.
const LONGEST_LIST: usize = 4096;

/// The program with all of its operations.
pub(crate) fn module(text: &[u8]) -> Module {
    let source = Source::new(text);
    let mut reader = Reader::new(&source);
    let mut root = Operation::new("builtin.module", Vec::new(), Vec::new());
    root.attributes = reader.of_module();
    let operations = reader.functions(true).into_iter().map(|(_, function)| function).collect();
    root.regions = vec![Region { blocks: vec![Block { operations, ..Block::default() }] }];
    Module { root, types: reader.types }
}

/// Where a constant is in the text: its name without `%`, and its type.
pub(crate) struct Constant {
    pub value: Value,
    pub name: Range<usize>,
    pub kind: Range<usize>,
}

/// The constants of a program, whose values have the same numbers as in its module.
pub(crate) fn constants(text: &[u8]) -> Vec<Constant> {
    let source = Source::whole(text);
    let mut reader = Reader::new(&source);
    reader.functions(true);
    reader.constants
}

#[derive(Default)]
pub(super) struct Reader<'a> {
    text: &'a [u8],
    code: &'a [u8],
    at: usize,
    types: Vec<Type>,
    constants: Vec<Constant>,
    /// The values of the regions that are being read, by name: the first of an operation's results.
    scopes: Vec<HashMap<&'a [u8], Value>>,
}

/// An argument or result of a function.
struct Argument<'a> {
    name: &'a [u8],
    kind: Type,
    attributes: Attribute,
}

/// Where the types of an operation's results are.
#[derive(Default)]
struct Places {
    /// After the last arrow and the last colon outside of brackets.
    arrow: Option<usize>,
    colon: Option<usize>,
}

impl<'a> Reader<'a> {
    pub fn new(source: &'a Source<'_>) -> Self {
        Reader { text: &source.text, code: &source.code, ..Reader::default() }
    }

    /// The name and the attributes of the module: before its first function, or, in MLIR's generic form, after all functions.
    pub fn of_module(&mut self) -> Vec<(Arc<str>, Attribute)> {
        let first = memmem::find(self.code, FUNCTION).unwrap_or(self.code.len());
        let mut found = Vec::new();
        if memmem::find(&self.text[..first], b"\"builtin.module\"").is_some() {
            self.at = memmem::rfind(self.code, b"})").map_or(self.code.len(), |end| end + 2);
        } else {
            const KEYWORD: &[u8] = b"module";
            let is_word = |&at: &usize| {
                let before = self.code[..at].strip_suffix(b"builtin.").unwrap_or(&self.code[..at]).last();
                let after = self.code.get(at + KEYWORD.len());
                ![before, after].into_iter().flatten().any(|&byte| is_in_name(byte) || b"@#!%".contains(&byte))
            };
            let Some(at) = memmem::find_iter(&self.code[..first], KEYWORD).find(is_word) else { return found };
            self.at = at + KEYWORD.len();
            if self.peek_token() == Some(b'@') {
                found.push(("sym_name".into(), Attribute::string(&String::from_utf8_lossy(self.symbol()))));
            }
            if !self.skip_word(b"attributes") {
                self.at = self.code.len();
            }
        }
        if self.peek_token() == Some(b'{') {
            found.extend(self.dictionary());
        }
        self.at = 0;
        found
    }

    /// Every function, with the position of its keyword. Those without a body have no region.
    pub fn functions(&mut self, with_bodies: bool) -> Vec<(usize, Operation)> {
        let mut found = Vec::new();
        while let Some(start) = memmem::find(self.code.get(self.at..).unwrap_or_default(), FUNCTION) {
            let start = self.at + start;
            self.at = start + FUNCTION.len();
            if let Some(function) = self.function(with_bodies) {
                found.push((start, function));
            }
        }
        found
    }

    /// The function after its keyword; `None` if its signature cannot be read.
    fn function(&mut self, with_body: bool) -> Option<Operation> {
        self.peek_token()?;
        for visibility in [&b"public"[..], b"private", b"nested"] {
            self.skip_word(visibility);
        }
        if self.peek_token()? != b'@' {
            return None;
        }
        let name = self.symbol();
        let inputs = self.arguments()?;
        let mut outputs = Vec::new();
        self.peek_token();
        if self.code[self.at..].starts_with(b"->") {
            self.at += 2;
            match self.peek_token() {
                Some(b'(') => outputs = self.arguments()?,
                _ => outputs = vec![Argument { name: b"", kind: self.kind(), attributes: Attribute::Unit }],
            }
        }
        let mut others = Vec::new();
        if self.skip_word(b"attributes") && self.peek_token() == Some(b'{') {
            others = self.dictionary();
        }
        let types = |arguments: &[Argument]| arguments.iter().map(|argument| argument.kind.clone()).collect();
        let shape = Type::Function(Arc::new((types(&inputs), types(&outputs))));
        let attributes =
            |arguments: &[Argument]| arguments.iter().map(|argument| argument.attributes.clone()).collect();
        let mut function = Operation::new("func.func", Vec::new(), Vec::new());
        function.set("sym_name", Attribute::string(&String::from_utf8_lossy(name)));
        function.set("function_type", Attribute::Type(shape));
        function.set("arg_attrs", Attribute::Array(attributes(&inputs)));
        function.set("res_attrs", Attribute::Array(attributes(&outputs)));
        function.attributes.extend(others);
        if self.peek_token() == Some(b'{') {
            let mut block = Block::default();
            self.scopes.push(HashMap::new());
            for argument in inputs {
                let name = String::from_utf8_lossy(argument.name).into_owned();
                block.names.push((!name.is_empty()).then(|| name.into()));
                self.define(argument.name.get(1..).unwrap_or_default(), argument.kind, &mut block);
            }
            if with_body {
                self.at += 1;
                self.block(&mut block, 0);
                self.skip(b'}');
            }
            self.scopes.pop();
            function.regions.push(Region { blocks: vec![block] });
        }
        Some(function)
    }

    /// Makes an argument of a block.
    fn define(&mut self, name: &'a [u8], kind: Type, block: &mut Block) {
        let value = self.value_of(kind);
        block.arguments.push(value);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, value);
        }
    }

    fn value_of(&mut self, kind: Type) -> Value {
        self.types.push(kind);
        Value((self.types.len() - 1) as u32)
    }

    /// The arguments in the brackets that come next: `%x: type {attributes}`, or without names.
    fn arguments(&mut self) -> Option<Vec<Argument<'a>>> {
        if self.peek_token()? != b'(' {
            return None;
        }
        let (start, end) = (self.at + 1, self.end_of_brackets()?);
        self.at = end;
        let list = &self.code[start..end - 1];
        let argument = |part: &'a [u8]| {
            let mut at = part.as_ptr() as usize - self.code.as_ptr() as usize;
            at += part.len() - part.trim_ascii_start().len();
            let end = part.as_ptr() as usize - self.code.as_ptr() as usize + part.len();
            let mut name: &[u8] = b"";
            if self.code[at] == b'%' {
                let len = 1 + self.code[at + 1..end].iter().take_while(|&&byte| is_in_name(byte)).count();
                name = &self.code[at..at + len];
                at = memchr::memchr(b':', &self.code[at..end]).map_or(end, |colon| at + colon + 1);
            }
            let (kind, len) = kind(&self.code[at..end]);
            let rest = &self.code[at + len..end];
            let at = end - rest.trim_ascii_start().len();
            let has_attributes = self.code[at..end].starts_with(b"{");
            let attributes =
                if has_attributes { attribute(&self.text[at..end], &self.code[at..end]) } else { Attribute::Unit };
            Argument { name, kind, attributes }
        };
        Some(split(list).map(argument).collect())
    }

    /// The operations up to the brace that ends them.
    fn block(&mut self, block: &mut Block, depth: usize) {
        while let Some(byte) = self.peek_token() {
            match byte {
                b'}' => return,
                b'^' => {
                    self.at += 1;
                    self.word();
                    if self.peek_token() == Some(b'(') {
                        for argument in self.arguments().unwrap_or_default() {
                            self.define(argument.name.get(1..).unwrap_or_default(), argument.kind, block);
                        }
                    }
                    self.peek_token();
                    self.skip(b':');
                }
                _ => self.operation(block, depth),
            }
        }
    }

    fn operation(&mut self, block: &mut Block, depth: usize) {
        let start = self.at;
        // The names of results, and how many values each stands for.
        let mut names: Vec<(&[u8], usize)> = Vec::new();
        while matches!(self.peek_token(), Some(b'%' | b',' | b'=')) {
            if self.peek() == Some(b'%') {
                let (name, _) = self.value();
                let mut count = 1;
                if self.skip(b':') {
                    count = number(self.word()).unwrap_or(1).min(LONGEST_LIST);
                }
                names.push((name, count));
            } else {
                self.at += 1;
            }
        }
        self.peek_token();
        let name = if self.text.get(self.at) == Some(&b'"') { self.string() } else { self.word() };
        if name.is_empty() {
            // Not an operation: go on after this byte.
            self.at = self.at.max(start + 1).min(self.code.len());
            return;
        }
        let name = match name {
            b"return" | b"call" => format!("func.{}", String::from_utf8_lossy(name)),
            _ => String::from_utf8_lossy(name).into_owned(),
        };
        let mut operation = Operation::new(&name, Vec::new(), Vec::new());
        let places = self.rest(&mut operation, depth);
        let count = names.iter().map(|(_, count)| count).sum();
        let mut types = if count > 0 { self.result_types(&places) } else { Vec::new() };
        types.drain(..types.len().saturating_sub(count));
        types.resize(count, Type::None);
        if let ("stablehlo.constant", &[(name, 1)]) = (&*operation.name, &names[..]) {
            self.note_constant(name, &places);
        }
        let mut types = types.into_iter();
        for (name, count) in names {
            let first = Value(self.types.len() as u32);
            operation.results.extend((0..count).map(|i| Value(first.0 + i as u32)));
            self.types.extend(types.by_ref().take(count));
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(name, first);
            }
        }
        block.operations.push(operation);
    }

    /// Notes where the constant is that gets the next value.
    fn note_constant(&mut self, name: &[u8], places: &Places) {
        let Some(after) = places.arrow.or(places.colon) else { return };
        let start = name.as_ptr() as usize - self.code.as_ptr() as usize;
        let kind_at = after + self.code[after..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (_, len) = kind(&self.code[kind_at..]);
        self.constants.push(Constant {
            value: Value(self.types.len() as u32),
            name: start..start + name.len(),
            kind: kind_at..kind_at + len,
        });
    }

    /// The types of results: after the arrow, or else after the colon.
    fn result_types(&mut self, places: &Places) -> Vec<Type> {
        let end = self.at;
        let Some(at) = places.arrow.or(places.colon) else { return Vec::new() };
        self.at = at;
        let mut types = Vec::new();
        match self.peek_token() {
            Some(b'(') => types.extend(self.arguments().into_iter().flatten().map(|argument| argument.kind)),
            _ => loop {
                types.push(self.kind());
                if self.peek_token() != Some(b',') || self.at >= end {
                    break;
                }
                self.at += 1;
            },
        }
        self.at = end;
        types
    }

    /// Reads up to the next operation, or to the end of the block.
    fn rest(&mut self, operation: &mut Operation, nesting: usize) -> Places {
        let mut places = Places::default();
        // Values that the regions take as arguments, whose type follows, or is that of the operand that follows.
        let mut arguments: Vec<(&[u8], Option<Type>)> = Vec::new();
        let mut symbol: Option<&[u8]> = None;
        let mut applied = None;
        let (mut depth, mut starts_line) = (0usize, false);
        while let Some(byte) = self.peek() {
            let before = self.at;
            match byte {
                b'%' => {
                    if depth == 0 && self.starts_definition() {
                        break;
                    }
                    let (name, number) = self.value();
                    match self.peek_token() {
                        Some(b'=') if depth > 0 => arguments.push((name, None)),
                        Some(b':') if depth > 0 => {
                            self.at += 1;
                            arguments.push((name, Some(self.kind())));
                        }
                        _ => {
                            if let Some(value) = self.used(name, number) {
                                operation.operands.push(value);
                                if let Some((_, kind @ None)) = arguments.last_mut() {
                                    *kind = self.types.get(value.0 as usize).cloned();
                                }
                            }
                        }
                    }
                }
                b'{' if nesting < MAX_NESTING && self.is_region() => {
                    let region = self.region(&arguments, nesting);
                    operation.regions.push(region);
                }
                b'{' => {
                    let found = self.dictionary();
                    operation.attributes.extend(found);
                }
                b'(' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b')' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                b'}' => break,
                b'-' if self.code.get(self.at + 1) == Some(&b'>') => {
                    self.at += 2;
                    if depth == 0 {
                        places.arrow = Some(self.at);
                    }
                }
                b':' => {
                    self.at += 1;
                    if depth == 0 {
                        places = Places { colon: Some(self.at), arrow: None };
                    }
                }
                b'@' => {
                    let found = self.symbol();
                    symbol.get_or_insert(found);
                }
                b'!' | b'#' => {
                    self.at += 1;
                    self.word();
                }
                _ if self.text[self.at] == b'"' => {
                    let end = self.end_of_string();
                    if depth == 0 && (starts_line || self.code.get(end) == Some(&b'(')) {
                        break;
                    }
                    self.at = end;
                }
                byte if is_in_name(byte) && byte != b'-' => {
                    let word = self.word();
                    let is_return = word == b"return" || word.ends_with(b".return");
                    let is_name = starts_line && (word.contains(&b'.') || word == b"call") && !word[0].is_ascii_digit();
                    if depth == 0 && (is_return || is_name) {
                        self.at = before;
                        break;
                    }
                    if word == b"applies" {
                        self.peek_token();
                        applied = Some(self.word());
                    } else if word == b"dense" && self.peek() == Some(b'<') && operation.attributes.is_empty() {
                        self.at = self.end_of_brackets().unwrap_or(self.code.len());
                        let text = String::from_utf8_lossy(&self.text[before..self.at]);
                        operation.set("value", Attribute::Other(text.into()));
                    } else if matches!(word, b"SIGNED" | b"UNSIGNED" | b"FLOAT" | b"TOTALORDER") {
                        operation.set("compare_type", Attribute::Other(String::from_utf8_lossy(word).into()));
                    } else if depth == 0 && self.peek_token() == Some(b'=') {
                        self.at += 1;
                        self.setting(word, operation);
                    }
                }
                _ => self.at += 1,
            }
            let passed = &self.code[before..self.at];
            starts_line = (starts_line || passed.contains(&b'\n')) && passed.iter().all(u8::is_ascii_whitespace);
        }
        if let Some(name) = applied {
            let inner = Operation::new(&String::from_utf8_lossy(name), Vec::new(), Vec::new());
            operation.regions.push(Region { blocks: vec![Block { operations: vec![inner], ..Block::default() }] });
        }
        let symbol = symbol.map(String::from_utf8_lossy);
        match (operation.base(), symbol) {
            ("call", Some(name)) => operation.set("callee", Attribute::symbol(name.into())),
            ("custom_call", Some(name)) => operation.set("call_target_name", Attribute::string(&name)),
            _ => {}
        }
        places
    }

    /// The value of an attribute in an operation's own syntax: `name = value`.
    fn setting(&mut self, name: &[u8], operation: &mut Operation) {
        self.peek_token();
        let start = self.at;
        match self.peek() {
            Some(b'[' | b'{') => self.at = self.end_of_brackets().unwrap_or(self.code.len()),
            _ if self.text.get(start) == Some(&b'"') => self.at = self.end_of_string(),
            Some(b'%') | None => return,
            _ => {
                if self.word().is_empty() {
                    return;
                }
            }
        }
        let key = match (operation.base(), name) {
            ("transpose", b"dims") => "permutation".into(),
            ("broadcast_in_dim", b"dims") => "broadcast_dimensions".into(),
            _ => String::from_utf8_lossy(name),
        };
        let value = attribute(&self.text[start..self.at], &self.code[start..self.at]);
        operation.set(&key, value);
    }

    /// Whether `%a, %b:2 = ` begins here.
    fn starts_definition(&self) -> bool {
        let is_in_list = |byte: &u8| is_in_name(*byte) || b"%,:#".contains(byte) || byte.is_ascii_whitespace();
        let list = &self.code[self.at..self.code.len().min(self.at + LONGEST_LIST)];
        let after = list.iter().find(|byte| !is_in_list(byte));
        let len = list.iter().take_while(|byte| is_in_list(byte)).count();
        // `%x : type %y = ` has a space before the colon, the number of results has none.
        after == Some(&b'=') && names_only(&list[..len])
    }

    /// A region in braces, with these arguments.
    fn region(&mut self, arguments: &[(&'a [u8], Option<Type>)], nesting: usize) -> Region {
        let mut block = Block::default();
        self.scopes.push(HashMap::new());
        for (name, kind) in arguments {
            self.define(name, kind.clone().unwrap_or(Type::None), &mut block);
        }
        self.at += 1;
        self.block(&mut block, nesting + 1);
        self.skip(b'}');
        self.scopes.pop();
        Region { blocks: vec![block] }
    }

    /// Whether the brace opens a region, not a dictionary of attributes.
    fn is_region(&self) -> bool {
        let inside = self.code[self.at + 1..].trim_ascii_start();
        let len = inside.iter().take_while(|&&byte| is_in_name(byte)).count();
        let (word, rest) = inside.split_at(len);
        match rest.trim_ascii_start().first() {
            _ if word == b"return" || word.ends_with(b".return") => true,
            Some(b'%' | b'^') => true,
            // An operation in generic form is a string, and blank; a call has a symbol.
            Some(b'(' | b'@') => len > 0,
            _ => false,
        }
    }

    /// The value of a name, or one of several results.
    fn used(&self, name: &[u8], number: u32) -> Option<Value> {
        let first = self.scopes.iter().rev().find_map(|scope| scope.get(name))?;
        Some(Value(first.0.saturating_add(number).min(self.types.len() as u32 - 1)))
    }

    fn peek(&self) -> Option<u8> {
        self.code.get(self.at).copied()
    }

    /// The next byte that is not a space.
    fn peek_token(&mut self) -> Option<u8> {
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.peek()
    }

    /// Skips a byte if it comes next.
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips a word if it comes next.
    fn skip_word(&mut self, word: &[u8]) -> bool {
        self.peek_token();
        let before = self.at;
        let is_next = self.word() == word;
        self.at = if is_next { self.at } else { before };
        is_next
    }

    fn word(&mut self) -> &'a [u8] {
        let rest = &self.code[self.at..];
        // The end of an arrow is not part of a name.
        let len = (0..rest.len()).find(|&i| !is_in_name(rest[i]) || rest[i..].starts_with(b"->")).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// A value without the sign before it, and the number of a result after it.
    fn value(&mut self) -> (&'a [u8], u32) {
        self.at += 1;
        let name = self.word();
        let number = if self.skip(b'#') { number(self.word()).unwrap_or(0) as u32 } else { 0 };
        (name, number)
    }

    /// The name after `@`.
    fn symbol(&mut self) -> &'a [u8] {
        self.at += 1;
        if self.text.get(self.at) == Some(&b'"') {
            return self.string();
        }
        self.word()
    }

    /// The content of a string, which is blank in `code`.
    fn string(&mut self) -> &'a [u8] {
        let (start, end) = (self.at + 1, self.end_of_string());
        self.at = end;
        self.text.get(start..end.saturating_sub(1)).unwrap_or_default()
    }

    fn end_of_string(&self) -> usize {
        super::end_of_string(self.text, self.at).min(self.text.len())
    }

    /// The type that comes next.
    fn kind(&mut self) -> Type {
        let (kind, len) = kind(&self.code[self.at..]);
        self.at += len;
        kind
    }

    /// The items of the dictionary whose brace comes next.
    fn dictionary(&mut self) -> Vec<(Arc<str>, Attribute)> {
        let (start, end) = (self.at + 1, self.end_of_brackets());
        self.at = end.unwrap_or(self.code.len());
        let last = end.map_or(self.code.len(), |end| end - 1);
        dictionary(&self.text[start..last], &self.code[start..last])
    }

    /// The position after the bracket that closes the one here, if one does.
    fn end_of_brackets(&self) -> Option<usize> {
        super::end_of_brackets(&self.code[self.at..]).map(|len| self.at + len)
    }
}

const FUNCTION: &[u8] = b"func.func";

fn number(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Whether a list consists of names of values, perhaps with numbers of results.
fn names_only(list: &[u8]) -> bool {
    list.split(|&byte| byte == b',').all(|name| {
        let name = name.trim_ascii();
        name.first() == Some(&b'%') && name[1..].iter().all(|&byte| is_in_name(byte) || byte == b':')
    })
}
