//! The graph of a program's text. The reader knows the structure of MLIR, not its operations, and skips what it cannot
//! read: a compiler finds mistakes.

use super::{short_number, type_text, Body, Graph, Kind, Op};
use crate::mlir::{blank_strings_and_comments, is_in_name, split, without_data};
use pjrt_data::dtype::DType;
use std::collections::HashMap;

/// Regions nest less deep: the reader uses recursion.
const MAX_NESTING: usize = 200;

/// The length of the longest list of results, so that each value is not followed by a search through all that comes after it.
const LONGEST_LIST: usize = 4096;

pub(super) fn read(text: &[u8]) -> Graph {
    let text = without_data(text);
    let code = blank_strings_and_comments(&text);
    let mut reader = Reader { text: &text, code: &code, ..Reader::default() };
    reader.functions();
    reader.finish()
}

#[derive(Default)]
struct Reader<'a> {
    text: &'a [u8],
    /// The same without strings and comments.
    code: &'a [u8],
    at: usize,
    bodies: Vec<Body>,
    /// The functions by name.
    functions: HashMap<&'a [u8], usize>,
    /// Body, operation and the name of the function that it calls.
    calls: Vec<(usize, usize, &'a [u8])>,
    scopes: Vec<Scope<'a>>,
}

#[derive(Default)]
struct Scope<'a> {
    body: usize,
    /// The operation that defines a value.
    values: HashMap<&'a [u8], usize>,
    /// The operands of the operation at hand.
    used: Vec<usize>,
}

/// What the rest of an operation's text contains.
#[derive(Default)]
struct Rest<'a> {
    /// Values that its regions take as arguments, with the positions of their types.
    arguments: Vec<(&'a [u8], usize)>,
    regions: Vec<usize>,
    symbol: Option<&'a [u8]>,
    /// The operation after `applies`.
    applied: Option<&'a [u8]>,
    /// The position of the result's type, and of those of the operands.
    arrow: Option<usize>,
    colon: Option<usize>,
}

impl<'a> Reader<'a> {
    /// Every function of the module.
    fn functions(&mut self) {
        while let Some(found) = memchr::memmem::find(&self.code[self.at..], b"func") {
            let start = self.at + found;
            self.at = start + 4;
            if self.code[self.at..].starts_with(b".func") {
                self.at += 5;
            }
            let is_word = start == 0 || !(is_in_name(self.code[start - 1]) || b"@%#!".contains(&self.code[start - 1]));
            if is_word && self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.function();
            }
        }
    }

    fn function(&mut self) {
        while !matches!(self.peek_token(), Some(b'@') | None) {
            if self.word().is_empty() {
                return;
            }
        }
        if self.peek().is_none() {
            return;
        }
        let name = self.symbol();
        let number = self.open_body(String::from_utf8_lossy(name).into_owned());
        self.functions.entry(name).or_insert(number);
        if self.peek_token() == Some(b'(') {
            self.arguments();
        }
        // Results and attributes: the body is the first brace outside of brackets that is not after `attributes`.
        while let Some(byte) = self.peek_token() {
            match byte {
                b'(' | b'[' | b'<' => self.skip_brackets(),
                b'{' => break,
                b'-' | b'>' | b',' | b'!' | b'#' | b'=' => self.at += 1,
                _ => {
                    let word = self.word();
                    if word.is_empty() {
                        break;
                    }
                    if word == b"attributes" && self.peek_token() == Some(b'{') {
                        self.skip_brackets();
                    }
                }
            }
        }
        if self.peek() == Some(b'{') {
            self.at += 1;
            self.block(true, 0);
            self.at += usize::from(self.peek() == Some(b'}'));
        }
        self.scopes.pop();
    }

    fn open_body(&mut self, name: String) -> usize {
        self.bodies.push(Body { name, ops: Vec::new() });
        self.scopes.push(Scope { body: self.bodies.len() - 1, ..Scope::default() });
        self.bodies.len() - 1
    }

    /// Adds an operation to the innermost body, which defines these values.
    fn add(&mut self, op: Op, values: &[&'a [u8]]) {
        if let Some(scope) = self.scopes.last_mut() {
            let ops = &mut self.bodies[scope.body].ops;
            scope.values.extend(values.iter().map(|&value| (value, ops.len())));
            ops.push(op);
        }
    }

    fn add_input(&mut self, name: &'a [u8], kind: usize) {
        let label = format!("%{}", String::from_utf8_lossy(name));
        let detail = self.type_at(kind);
        self.add(Op { kind: Kind::Input, label, detail, ..Op::default() }, &[name]);
    }

    /// The arguments of a function or block in brackets: `%x: type`.
    fn arguments(&mut self) {
        let end = self.end_of_brackets();
        let (mut depth, mut i) = (0usize, self.at + 1);
        while i < end {
            match self.code[i] {
                b'%' if depth == 0 => {
                    self.at = i;
                    let name = self.value();
                    i = self.at;
                    self.add_input(name, i);
                    continue;
                }
                b'(' | b'[' | b'{' | b'<' => depth += 1,
                b'>' if self.code[i - 1] == b'-' => {}
                b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            i += 1;
        }
        self.at = end;
    }

    /// The operations up to the brace that ends them.
    fn block(&mut self, is_function: bool, depth: usize) {
        while let Some(byte) = self.peek_token() {
            match byte {
                b'}' => return,
                b'^' => {
                    self.at += 1;
                    self.word();
                    if self.peek_token() == Some(b'(') {
                        self.arguments();
                    }
                    self.at += usize::from(self.peek_token() == Some(b':'));
                }
                _ => self.operation(is_function, depth),
            }
        }
    }

    fn operation(&mut self, is_function: bool, depth: usize) {
        let start = self.at;
        let mut results = Vec::new();
        while matches!(self.peek_token(), Some(b'%' | b',' | b'=')) {
            if self.peek() == Some(b'%') {
                results.push(self.value());
                // The number of results.
                if self.peek() == Some(b':') {
                    self.at += 1;
                    self.word();
                }
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
        let name = name.rsplit(|&byte| byte == b'.').next().unwrap_or(name);
        if let Some(scope) = self.scopes.last_mut() {
            scope.used.clear();
        }
        let rest = self.rest(depth);
        let end = self.at;
        let operands = self.scopes.last_mut().map(|scope| std::mem::take(&mut scope.used)).unwrap_or_default();
        let detail = rest.arrow.or(rest.colon).map(|at| self.type_at(at)).unwrap_or_default();
        if name == b"return" {
            let types = rest.colon.map(|at| self.types(at, end)).unwrap_or_default();
            for (i, operand) in operands.into_iter().enumerate() {
                let label = if is_function { format!("output {}", i + 1) } else { String::new() };
                let detail = types.get(i).cloned().unwrap_or_default();
                self.add(Op { kind: Kind::Output, label, detail, operands: vec![operand], ..Op::default() }, &[]);
            }
            return;
        }
        let mut label = String::from_utf8_lossy(name).into_owned();
        let target = if name == b"custom_call" { rest.symbol.or_else(|| target(&self.text[start..end])) } else { None };
        if let Some(symbol) = target.or(rest.symbol.filter(|_| name == b"call")) {
            label = format!("{label} {}", String::from_utf8_lossy(symbol));
        } else if let Some(applied) = rest.applied {
            label = format!("{label} {}", String::from_utf8_lossy(applied));
        }
        let value = (name == b"constant").then(|| constant(&self.text[start..end])).flatten();
        let several =
            if results.len() > 1 || self.code[start..end].starts_with(b"%") && has_count(&self.code[start..end]) {
                ", ..."
            } else {
                ""
            };
        let op = Op { label, detail: detail + several, value, operands, inner: rest.regions, ..Op::default() };
        if let (Some(symbol), Some(scope), b"call") = (rest.symbol, self.scopes.last(), name) {
            self.calls.push((scope.body, self.bodies[scope.body].ops.len(), symbol));
        }
        self.add(op, &results);
    }

    /// Reads up to the next operation, or to the end of the block.
    fn rest(&mut self, nesting: usize) -> Rest<'a> {
        let mut rest = Rest::default();
        let (mut depth, mut starts_line) = (0usize, false);
        while let Some(byte) = self.peek() {
            let before = self.at;
            match byte {
                b'%' => {
                    if depth == 0 && self.starts_definition() {
                        break;
                    }
                    let name = self.value();
                    match self.peek_token() {
                        Some(b'=') if depth > 0 => rest.arguments.push((name, 0)),
                        Some(b':') if depth > 0 => rest.arguments.push((name, self.at)),
                        _ => self.used(name),
                    }
                }
                b'{' if nesting < MAX_NESTING && self.is_region() => {
                    let region = self.region(&rest.arguments, nesting);
                    rest.regions.push(region);
                }
                b'{' => self.skip_brackets(),
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
                        rest.arrow = Some(self.at);
                    }
                }
                b':' => {
                    self.at += 1;
                    if depth == 0 {
                        (rest.colon, rest.arrow) = (Some(self.at), None);
                    }
                }
                b'@' => {
                    let symbol = self.symbol();
                    rest.symbol.get_or_insert(symbol);
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
                        rest.applied = self.word().rsplit(|&byte| byte == b'.').next();
                    }
                }
                _ => self.at += 1,
            }
            let passed = &self.code[before..self.at];
            starts_line = (starts_line || passed.contains(&b'\n')) && passed.iter().all(u8::is_ascii_whitespace);
        }
        rest
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
    fn region(&mut self, arguments: &[(&'a [u8], usize)], nesting: usize) -> usize {
        let number = self.open_body(String::new());
        for &(name, kind) in arguments {
            self.add_input(name, kind);
        }
        self.at += 1;
        self.block(false, nesting + 1);
        self.at += usize::from(self.peek() == Some(b'}'));
        self.scopes.pop();
        number
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

    /// Notes a value as an operand. A value of an outer body becomes an operand of the operation there; a constant is
    /// repeated here.
    fn used(&mut self, name: &[u8]) {
        let scopes = self.scopes.iter().enumerate().rev();
        let found = scopes.filter_map(|(level, scope)| Some((level, *scope.values.get(name)?))).next();
        let Some((level, mut found)) = found else { return };
        let innermost = self.scopes.len() - 1;
        let constant = self.bodies[self.scopes[level].body].ops.get(found).and_then(|op| op.value.clone());
        let mut to = level;
        if let Some(value) = constant.filter(|_| level < innermost) {
            let ops = &mut self.bodies[self.scopes[innermost].body].ops;
            (found, to) = (ops.len(), innermost);
            ops.push(Op { value: Some(value), ..Op::default() });
        }
        self.scopes[to].used.push(found);
    }

    fn finish(mut self) -> Graph {
        for (body, op, name) in std::mem::take(&mut self.calls) {
            if let (Some(op), Some(&callee)) = (self.bodies[body].ops.get_mut(op), self.functions.get(name)) {
                op.inner.push(callee);
            }
        }
        let entry = self.functions.get(&b"main"[..]).copied().unwrap_or(0);
        Graph { bodies: self.bodies, entry }
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

    fn word(&mut self) -> &'a [u8] {
        let rest = &self.code[self.at..];
        // The end of an arrow is not part of a name.
        let len = (0..rest.len()).find(|&i| !is_in_name(rest[i]) || rest[i..].starts_with(b"->")).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// A value without the sign before it and the number of a result after it.
    fn value(&mut self) -> &'a [u8] {
        self.at += 1;
        let name = self.word();
        if self.peek() == Some(b'#') {
            self.at += 1;
            self.word();
        }
        name
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
        let mut i = self.at + 1;
        while i < self.text.len() && self.text[i] != b'"' {
            i += if self.text[i] == b'\\' { 2 } else { 1 };
        }
        (i + 1).min(self.text.len())
    }

    fn skip_brackets(&mut self) {
        self.at = self.end_of_brackets();
    }

    /// The position after the bracket that closes the one here.
    fn end_of_brackets(&self) -> usize {
        let mut depth = 0usize;
        for (i, &byte) in self.code.iter().enumerate().skip(self.at) {
            match byte {
                b'(' | b'[' | b'{' | b'<' => depth += 1,
                b'>' if self.code[i - 1] == b'-' => {}
                b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return i + 1;
            }
        }
        self.code.len()
    }

    /// The types of a list.
    fn types(&self, from: usize, to: usize) -> Vec<String> {
        let parts = split(self.code.get(from..to).unwrap_or_default());
        parts.map(|part| self.type_at(part.as_ptr() as usize - self.code.as_ptr() as usize)).collect()
    }

    /// The type after this position, or the first one of a list.
    fn type_at(&self, at: usize) -> String {
        let mut rest = self.code.get(at..).unwrap_or_default();
        while let [b'(' | b':' | b' ' | b'\n' | b'\t' | b'\r', after @ ..] = rest {
            rest = after;
        }
        let len = rest.iter().take_while(|&&byte| is_in_name(byte) || byte == b'!').count();
        let (name, rest) = rest.split_at(len);
        if name != b"tensor" {
            return String::from_utf8_lossy(name.rsplit(|&byte| byte == b'.').next().unwrap_or(name)).into_owned();
        }
        let Some(rest) = rest.strip_prefix(b"<") else { return String::new() };
        let end = rest.iter().scan(1, |depth, &byte| {
            *depth += i32::from(byte == b'<') - i32::from(byte == b'>');
            Some(*depth > 0 && byte != b',')
        });
        let end = end.take_while(|&within| within).count();
        let mut element = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).trim().to_owned();
        let mut dims = Vec::new();
        while let Some((dim, after)) = element.split_once('x') {
            if dim.is_empty() || !dim.chars().all(|c| c.is_ascii_digit() || c == '?' || c == '*') {
                break;
            }
            dims.push(dim.to_owned());
            element = after.to_owned();
        }
        let named = DType::from_mlir(&element);
        type_text(dims.into_iter(), named.map_or(element.as_str(), |dtype| dtype.name()))
    }
}

/// Whether a list consists of names of values, perhaps with numbers of results.
fn names_only(list: &[u8]) -> bool {
    list.split(|&byte| byte == b',').all(|name| {
        let name = name.trim_ascii();
        name.first() == Some(&b'%') && name[1..].iter().all(|&byte| is_in_name(byte) || byte == b':')
    })
}

/// Whether an operation has more than one result: `%0:2 = `.
fn has_count(code: &[u8]) -> bool {
    let name = code[1..].iter().take_while(|&&byte| is_in_name(byte)).count();
    code.get(1 + name) == Some(&b':')
}

/// The function of a custom call in generic form.
fn target(text: &[u8]) -> Option<&[u8]> {
    const START: &[u8] = b"call_target_name = \"";
    let start = memchr::memmem::find(text, START)? + START.len();
    Some(&text[start..start + memchr::memchr(b'"', &text[start..])?])
}

/// The value of a constant with equal elements.
fn constant(text: &[u8]) -> Option<String> {
    const START: &[u8] = b"dense<";
    let start = memchr::memmem::find(text, START)? + START.len();
    let len = memchr::memchr(b'>', &text[start..])?;
    short_number(std::str::from_utf8(&text[start..start + len]).ok()?)
}
