//! Reads a graph from the operations of a program.

use super::{short_number, Body, Graph, Node, Op, Role};
use pjrt_ir::module::{is_listed, Attribute, Block, Element, Module, Operation, Type, Value};
use std::collections::HashMap;

/// Operations that pass their operands on.
const PASSING: &str = "tuple get_tuple_element get-tuple-element bitcast opt-barrier";

pub(super) fn read(module: &Module) -> Graph {
    let functions: Vec<&Operation> = module.root.inner().filter(|operation| &*operation.name == "func.func").collect();
    let mut numbers = HashMap::new();
    for (i, function) in functions.iter().enumerate() {
        numbers.entry(function.symbol().unwrap_or_default()).or_insert(i);
    }
    let mut reader = Reader { module, numbers, bodies: vec![Body::default(); functions.len()], scopes: Vec::new() };
    for (i, function) in functions.iter().enumerate() {
        if let Some(block) = function.block(0) {
            reader.bodies[i] = reader.body(block, true);
            let name = function.attribute("label").and_then(Attribute::as_text).or(function.symbol());
            reader.bodies[i].name = name.unwrap_or_default().to_owned();
        }
    }
    let entry = reader.numbers.get("main").copied().unwrap_or(0);
    Graph { bodies: reader.bodies, entry }
}

struct Reader<'a> {
    module: &'a Module,
    /// The functions by name.
    numbers: HashMap<&'a str, usize>,
    bodies: Vec<Body>,
    scopes: Vec<Scope>,
}

#[derive(Default)]
struct Scope {
    /// The operation that defines a value.
    values: HashMap<Value, usize>,
    /// The values of constants.
    constants: HashMap<Value, String>,
    /// What the regions of the operation at hand use of this scope.
    used: Vec<usize>,
}

impl<'a> Reader<'a> {
    fn body(&mut self, block: &'a Block, is_function: bool) -> Body {
        let mut ops = Vec::new();
        let mut scope = Scope::default();
        for (i, &argument) in block.arguments.iter().enumerate() {
            let name = block.names.get(i).cloned().flatten();
            let label = name.map_or_else(|| format!("arg{i}"), |name| name.to_string());
            scope.values.insert(argument, ops.len());
            let node = Node { role: Role::Input, label, detail: self.kind(argument), ..Node::default() };
            ops.push(Op { node, ..Op::default() });
        }
        self.scopes.push(scope);
        for operation in &block.operations {
            self.operation(operation, is_function, &mut ops);
        }
        self.scopes.pop();
        Body { ops, ..Body::default() }
    }

    fn operation(&mut self, operation: &'a Operation, is_function: bool, ops: &mut Vec<Op>) {
        let operands: Vec<_> = operation.operands.iter().filter_map(|&value| self.resolve(value, ops)).collect();
        if operation.base() == "return" {
            for (i, &operand) in operands.iter().enumerate() {
                let label = if is_function { format!("output {}", i + 1) } else { String::new() };
                let detail = operation.operands.get(i).map(|&value| self.kind(value)).unwrap_or_default();
                let node = Node { role: Role::Output, label, detail, inputs: vec![operand], ..Node::default() };
                ops.push(Op { node, ..Op::default() });
            }
            return;
        }
        let label = label(operation);
        let mut node = Node { role: Role::of(&label), inputs: operands, label, ..Node::default() };
        node.detail = operation.results.first().map(|&value| self.kind(value)).unwrap_or_default();
        if operation.results.len() > 1 {
            node.detail.push_str(", ...");
        }
        node.place = operation.attribute("place").and_then(Attribute::as_text).unwrap_or_default().to_owned();
        let value = operation.attribute("value").filter(|_| operation.base() == "constant").and_then(splat);
        if let Some(scope) = self.scopes.last_mut() {
            scope.used.clear();
        }
        for block in operation.regions.iter().flat_map(|region| &region.blocks) {
            let body = self.body(block, false);
            node.inner.push(self.bodies.len());
            self.bodies.push(body);
        }
        let called = operation.attribute("called_computations").and_then(Attribute::as_array).unwrap_or_default();
        for callee in operation.attribute("callee").into_iter().chain(called).filter_map(Attribute::as_symbol) {
            node.inner.extend(self.numbers.get(&**callee));
        }
        if let Some(scope) = self.scopes.last_mut() {
            node.inputs.append(&mut scope.used);
            if let (Some(value), [result]) = (&value, &operation.results[..]) {
                scope.constants.insert(*result, value.clone());
            }
            scope.values.extend(operation.results.iter().map(|&result| (result, ops.len())));
        }
        ops.push(Op { node, value, is_passing: is_listed(PASSING, operation.base()) });
    }

    /// The operation of this body that defines a value. A value of an outer body becomes an operand of the operation there;
    /// a constant is repeated here.
    fn resolve(&mut self, value: Value, ops: &mut Vec<Op>) -> Option<usize> {
        let innermost = self.scopes.len().checked_sub(1)?;
        let (level, found) =
            self.scopes.iter().enumerate().rev().find_map(|(i, s)| Some((i, *s.values.get(&value)?)))?;
        if level == innermost {
            return Some(found);
        }
        if let Some(constant) = self.scopes[level].constants.get(&value) {
            ops.push(Op { value: Some(constant.clone()), ..Op::default() });
            return Some(ops.len() - 1);
        }
        let used = &mut self.scopes[level].used;
        if !used.contains(&found) {
            used.push(found);
        }
        None
    }

    fn kind(&self, value: Value) -> String {
        kind(self.module.type_of(value))
    }
}

/// A type as text; of a tuple, the first one's.
fn kind(of: &Type) -> String {
    match of {
        Type::Tensor(tensor) => {
            let dims = tensor.dims.iter().map(|&dim| if dim < 0 { "?".into() } else { dim.to_string() });
            let dims = dims.collect::<Vec<_>>().join("x");
            match &tensor.element {
                Element::Number(dtype) => format!("{}[{dims}]", dtype.name()),
                other => format!("{other}[{dims}]"),
            }
        }
        Type::Tuple(parts) => match &parts[..] {
            [] => "()".into(),
            [one] => kind(one),
            [first, ..] => format!("{}, ...", kind(first)),
        },
        Type::Token => "token".into(),
        _ => String::new(),
    }
}

/// The value of a constant with equal elements.
fn splat(value: &Attribute) -> Option<String> {
    let mut text = String::new();
    match value {
        Attribute::Dense(dense) if dense.tensor().is_ok_and(|t| t.element.bytes() == Some(dense.bytes.len())) => {
            dense.write(&mut text).ok()?;
        }
        Attribute::Other(other) => text.push_str(other),
        _ => return None,
    }
    short_number(text.strip_prefix("dense<")?.strip_suffix('>')?)
}

fn label(operation: &Operation) -> String {
    let name = match operation.base() {
        // HLO's own name.
        "broadcast_in_dim" if operation.name.starts_with("hlo.") => "broadcast",
        name => name,
    };
    let key = if matches!(name, "custom_call" | "custom-call") { "call_target_name" } else { "callee" };
    let named = [key, "label"].iter().find_map(|key| {
        let value = operation.attribute(key)?;
        value.as_symbol().map(|name| &**name).or_else(|| value.as_text())
    });
    match named.filter(|target| !target.is_empty()) {
        Some(target) => format!("{name} {target}"),
        None => name.to_owned(),
    }
}
