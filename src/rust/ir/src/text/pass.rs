//! What is not known here: the reader passes it, and takes what it recognizes.

use super::read::Reader;
use super::{end_of_brackets, end_of_string, is_in_name};
use crate::module::{Attribute, Operation, Type};

impl<'a> Reader<'a> {
    /// Whether an operation ends here.
    pub fn is_at_end(&mut self) -> bool {
        matches!(self.peek(), None | Some(b'}')) || self.starts_line()
    }

    fn starts_line(&self) -> bool {
        let before = self.text[..self.at].iter().rev().find(|byte| !matches!(byte, b' ' | b'\t' | 0));
        matches!(before, Some(b'\n' | b'\r'))
    }

    /// Passes the rest of an operation, up to the next one or to the end of the block, and adds its operands, attributes and
    /// regions. Returns the types of the results: those that are known, or else what is after the last arrow or colon.
    pub fn pass(&mut self, operation: &mut Operation, mut known: Vec<Type>) -> Vec<Type> {
        let mut types_at = None;
        // Values that the regions take as arguments, whose type follows, or is that of the operand that follows.
        let mut arguments: Vec<(&'a str, Type)> = Vec::new();
        let mut symbol = None;
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            let before = self.at;
            match byte {
                b'}' => break,
                b'%' if depth == 0 && self.definition().is_some() => {
                    self.at = before;
                    break;
                }
                b'%' => {
                    let Ok((name, number)) = self.value_name() else { continue };
                    match self.peek() {
                        Some(b'=') if depth > 0 => arguments.push((name, Type::None)),
                        Some(b':') if depth > 0 => {
                            self.at += 1;
                            arguments.push((name, self.kind().unwrap_or(Type::None)));
                        }
                        _ => {
                            let Some(value) = self.value(name, number) else { continue };
                            operation.operands.push(value);
                            if let Some((_, kind @ Type::None)) = arguments.last_mut() {
                                *kind = self.types[value.0 as usize].clone();
                            }
                        }
                    }
                }
                b'{' => {
                    let read = match self.is_region() {
                        true => self.region(&arguments).map(|region| operation.regions.push(region)),
                        false => self.dictionary().map(|pairs| operation.attributes.extend(pairs)),
                    };
                    if read.is_err() {
                        self.at = end_of_brackets(&self.text[before..]).map_or(self.text.len(), |len| before + len);
                    }
                }
                b'(' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b')' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b':' | b'-' if self.eat(":") || self.eat("->") => {
                    if depth == 0 {
                        types_at = Some(self.at);
                    }
                }
                b'@' => {
                    let found = self.symbol();
                    symbol = symbol.or(found.ok());
                }
                b'!' | b'#' => {
                    self.at += 1;
                    self.word();
                }
                b'"' => {
                    let end = end_of_string(self.text, self.at);
                    if depth == 0 && (self.starts_line() || self.text.get(end) == Some(&b'(')) {
                        break;
                    }
                    self.at = end;
                }
                _ if is_in_name(byte) && byte != b'-' => {
                    let starts_line = self.starts_line();
                    let word = self.word();
                    let is_return = word == "return" || word.ends_with(".return");
                    let is_name = starts_line && (word.contains('.') || word == "call") && !byte.is_ascii_digit();
                    if depth == 0 && (is_return || is_name) {
                        self.at = before;
                        break;
                    }
                    if word == "dense" && self.peek() == Some(b'<') && operation.attributes.is_empty() {
                        self.at = before;
                        match self.dense() {
                            Ok((value, kind)) => {
                                operation.set("value", value);
                                known = vec![kind];
                            }
                            Err(_) => self.at = self.text.len(),
                        }
                    } else if depth == 0 && self.eat("=") {
                        // What cannot be read is passed by the next turns.
                        let _ = self.setting(word, operation);
                    }
                }
                _ => self.at += 1,
            }
        }
        match (operation.base(), symbol) {
            ("call", Some(name)) if operation.attribute("callee").is_none() => {
                operation.set("callee", Attribute::symbol((*name).into()));
            }
            ("custom_call", Some(name)) if operation.attribute("call_target_name").is_none() => {
                operation.set("call_target_name", Attribute::string(&name));
            }
            _ => {}
        }
        let Some(at) = types_at else { return known };
        let end = std::mem::replace(&mut self.at, at);
        let types = if self.eat("(") { self.items(")", Self::kind) } else { self.types() };
        self.at = end;
        types.unwrap_or_default()
    }

    /// Whether the brace opens a region, not a dictionary of attributes.
    fn is_region(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        let next = self.peek();
        let word = if next == Some(b'"') { "" } else { self.word() };
        if next == Some(b'"') {
            self.at = end_of_string(self.text, self.at);
        }
        let is_region = match self.peek() {
            _ if word == "return" || word.ends_with(".return") => true,
            _ if matches!(next, Some(b'%' | b'^')) => true,
            // An operation in generic form is a string; a call has a symbol.
            Some(b'(' | b'@') => next == Some(b'"') || !word.is_empty(),
            _ => false,
        };
        self.at = start;
        is_region
    }
}
