//! Fixes the sizes of a program: infers all types from the arguments of `main`, and replaces dynamic operations with
//! operations of fixed sizes. Some of these arguments become constants.
//!
//! The program is built anew, from `main` on. Each function that it calls is built once for each set of argument types
//! and known integers. Integers that are known, such as sizes, are computed on the way.

mod clean;
mod dynamic;
mod fold;
mod infer;
mod regions;

use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_ir::module::{shown, Attribute, Block, Dense, Element, Module, Name, Operation, Region, Type, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Calls and regions nest less deep.
const MAX_NESTING: usize = 200;

/// Constants are tracked up to this number of integers.
const MAX_KNOWN: usize = 1024;

/// The integers of a value.
type Known = Arc<[i64]>;

/// A function for certain arguments.
struct Special {
    name: Name,
    results: Vec<Type>,
    known: Vec<Option<Known>>,
}

#[derive(Default)]
struct Refiner<'m> {
    /// The types of the source's values, as it declares them.
    declared: &'m [Type],
    functions: HashMap<&'m str, &'m Operation>,
    types: Vec<Type>,
    known: HashMap<Value, Known>,
    /// Sums of a value and known integers.
    sums: HashMap<Value, (Value, Known)>,
    /// The functions of the new program, the called ones before their callers.
    built: Vec<Operation>,
    special: HashMap<String, Arc<Special>>,
    /// The names of the source's functions and of new ones, and those that are in use.
    names: HashSet<Name>,
    taken: HashSet<Name>,
    depth: usize,
    /// The new values for the source's values in the function at hand, and the operations of its block.
    values: HashMap<Value, Value>,
    out: Vec<Operation>,
    /// How many operations may still be added. Large constants count for several.
    left: usize,
}

/// The program with fixed sizes, for arguments of `main` of these sizes, which leave out arguments that are `constants`:
/// by position, from 0, the value of an integer.
///
/// # Errors
/// `InvalidInput` for sizes that do not match the arguments, `ShapeMismatch` for sizes that the program refuses, and
/// `DynamicShape`, which names the operation, if sizes cannot be fixed.
pub fn refine(source: &Module, dims: &[Vec<i64>], constants: &[(usize, i32)]) -> Result<Module> {
    let content = source.root.block(0).ok_or_else(|| strange("a module without content"))?;
    let (all, others): (Vec<_>, Vec<_>) =
        content.operations.iter().partition(|operation| &*operation.name == "func.func");
    let functions = all.into_iter().map(|function| Some((function.symbol()?, function)));
    let functions: Option<HashMap<_, _>> = functions.collect();
    let functions = functions.ok_or_else(|| strange("a function without a name"))?;
    let Some(&main) = functions.get("main") else { bail!(InvalidInput, "The program has no function `main`.") };
    let body = main.block(0).ok_or_else(|| strange("a function with several blocks"))?;
    let names = functions.keys().map(|&name| Name::from(name)).collect();
    let left = 100_000 + 100 * source.root.all().count();
    let mut refiner = Refiner { declared: &source.types, functions, names, left, ..Refiner::default() };
    let mut block = Block::default();
    let mut kept = Vec::new();
    let mut given = dims.iter();
    for (i, &argument) in body.arguments.iter().enumerate() {
        let kind = source.type_of(argument);
        let name = body.names.get(i).cloned().flatten();
        let value = if let Some((_, value)) = constants.iter().find(|(index, _)| *index == i) {
            refiner.constant_argument(kind, *value, i, &name)?
        } else {
            let value = refiner.value(fixed(kind, given.next(), i, &name)?);
            block.arguments.push(value);
            block.names.push(name);
            kept.push(i);
            value
        };
        refiner.values.insert(argument, value);
    }
    if given.next().is_some() {
        bail!(InvalidInput, "There are more shapes than the program has arguments, {}.", kept.len());
    }
    if let Some((index, _)) = constants.iter().find(|(index, _)| *index >= body.arguments.len()) {
        bail!(InvalidInput, "The program has no argument {}.", index + 1);
    }
    let results = refiner.block(body)?;
    let mut function = refiner.function(main, block, &results);
    if let Some(attributes) = main.attribute("arg_attrs").and_then(Attribute::as_array) {
        let attributes = kept.iter().filter_map(|&i| attributes.get(i).cloned()).collect();
        function.set("arg_attrs", Attribute::Array(attributes));
    }
    let mut root = like(&source.root, Vec::new());
    if root.attribute("jax.uses_shape_polymorphism").is_some() {
        root.set("jax.uses_shape_polymorphism", Attribute::Bool(false));
    }
    let mut functions = refiner.built;
    functions.push(function);
    clean::clean(&mut functions);
    // `main` comes first.
    functions.rotate_right(1);
    let operations = others.into_iter().cloned().chain(functions).collect();
    root.regions = vec![Region { blocks: vec![Block { operations, ..Block::default() }] }];
    Ok(Module { root, types: refiner.types })
}

impl<'m> Refiner<'m> {
    fn constant_argument(&mut self, kind: &Type, value: i32, i: usize, name: &Option<Name>) -> Result<Value> {
        let element = kind.as_tensor().filter(|tensor| tensor.dims.is_empty()).map(|tensor| &tensor.element);
        match element.and_then(Element::dtype) {
            Some(dtype @ (DType::I32 | DType::I64)) => {
                Ok(self.integers(Vec::new(), Element::Number(dtype), vec![value.into()]))
            }
            _ => {
                bail!(InvalidInput, "{} of the program is {}, not an integer.", argument(i, name), shown(kind))
            }
        }
    }

    /// The function of the operations so far, which returns these results.
    fn function(&mut self, source: &Operation, mut block: Block, results: &[Value]) -> Operation {
        let shape = Type::Function(Arc::new((self.types_of(&block.arguments), self.types_of(results))));
        block.operations = std::mem::take(&mut self.out);
        block.operations.push(Operation::new("func.return", results.to_vec(), Vec::new()));
        let mut function = Operation { regions: vec![Region { blocks: vec![block] }], ..like(source, Vec::new()) };
        function.set("function_type", Attribute::Type(shape));
        function
    }

    /// The type of a value of the source.
    fn declared(&self, value: Value) -> &'m Type {
        &self.declared[value.0 as usize]
    }

    /// The type of a new value.
    fn of(&self, value: Value) -> &Type {
        &self.types[value.0 as usize]
    }

    fn types_of(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|&value| self.of(value).clone()).collect()
    }

    fn dims(&self, value: Value) -> &[i64] {
        self.of(value).dims().unwrap_or_default()
    }

    fn value(&mut self, kind: Type) -> Value {
        let value = Value(self.types.len() as u32);
        self.types.push(kind);
        value
    }

    fn known(&self, value: Value) -> Option<&Known> {
        self.known.get(&value)
    }

    /// Adds a constant.
    fn integers(&mut self, dims: Vec<i64>, element: Element, values: Vec<i64>) -> Value {
        self.left = self.left.saturating_sub(values.len() / 16);
        let dense = Dense::of_integers(dims, element, &values);
        let value = self.value(dense.kind.clone());
        let mut constant = Operation::new("stablehlo.constant", Vec::new(), vec![value]);
        constant.set("value", Attribute::Dense(Arc::new(dense)));
        self.out.push(constant);
        self.known.insert(value, values.into());
        value
    }

    /// Builds the operations of a block, and returns what its last one returns.
    fn block(&mut self, block: &'m Block) -> Result<Vec<Value>> {
        self.depth += 1;
        ensure!(self.depth <= MAX_NESTING, DynamicShape, "The program nests too deep to fix its sizes.");
        let Some((last, operations)) = block.operations.split_last() else {
            return Err(strange("a block without operations"));
        };
        for operation in operations {
            self.operation(operation)?;
        }
        self.depth -= 1;
        self.operands(last)
    }

    fn operation(&mut self, source: &'m Operation) -> Result<()> {
        let Some(left) = self.left.checked_sub(1) else {
            bail!(DynamicShape, "The program has too many calls to fix its sizes.");
        };
        self.left = left;
        let operands = self.operands(source)?;
        let results = match (&*source.name, source.kind()) {
            ("func.call", _) => self.call(source, "callee", operands)?,
            (_, "composite") => self.call(source, "decomposition", operands)?,
            (_, "while") => self.repeat(source, operands)?,
            (_, "case" | "if") => self.choose(source, operands)?,
            (_, "custom_call") => self.custom_call(source, operands)?,
            _ => match self.dynamic(source, &operands)? {
                Some(results) => results,
                None => self.plain(source, operands)?,
            },
        };
        ensure!(results.len() == source.results.len(), strange("an operation with other results than it declares"));
        self.values.extend(source.results.iter().copied().zip(results));
        Ok(())
    }

    /// The new values of an operation's operands.
    fn operands(&self, operation: &Operation) -> Result<Vec<Value>> {
        let new =
            |value: &Value| self.values.get(value).copied().ok_or_else(|| strange("a value that is not yet defined"));
        operation.operands.iter().map(new).collect()
    }

    /// An operation that stays, or becomes a constant.
    fn plain(&mut self, source: &'m Operation, operands: Vec<Value>) -> Result<Vec<Value>> {
        let mut operation = like(source, operands);
        if let [result] = source.results[..] {
            if let Some(constant) = self.folded(&operation, self.declared(result)) {
                return Ok(vec![constant]);
            }
        }
        for region in &source.regions {
            let types = self.region_types(region);
            let (region, _) = self.region(region, types, &[])?;
            operation.regions.push(region);
        }
        let types = self.result_types(source, &operation)?;
        self.push(operation, types)
    }

    /// Adds an operation with results of these types.
    fn push(&mut self, mut operation: Operation, types: Vec<Type>) -> Result<Vec<Value>> {
        operation.results = types.into_iter().map(|kind| self.value(kind)).collect();
        let results = operation.results.clone();
        if let ("constant", Some(Attribute::Dense(dense))) = (operation.kind(), operation.attribute("value")) {
            if let Some(integers) = dense.integers(MAX_KNOWN) {
                self.known.extend(results.first().map(|&result| (result, integers.into())));
            }
        }
        if let ("add", &[x, y], &[sum]) = (operation.kind(), &operation.operands[..], &results[..]) {
            let found = [(x, y), (y, x)].into_iter().find_map(|(one, other)| Some((one, self.known(other)?.clone())));
            self.sums.extend(found.map(|parts| (sum, parts)));
        }
        self.out.push(operation);
        Ok(results)
    }

    /// A call of a function, or a composite, that is built for its arguments. `attribute` names the function.
    fn call(&mut self, source: &'m Operation, attribute: &str, operands: Vec<Value>) -> Result<Vec<Value>> {
        let callee = source.attribute(attribute).and_then(Attribute::as_symbol);
        let callee = callee.ok_or_else(|| strange(&format!("a {} without a function", source.base())))?;
        let special = self.specialized(callee, &operands)?;
        let mut operation = like(source, operands);
        operation.set(attribute, Attribute::symbol(special.name.clone()));
        let results = self.push(operation, special.results.clone())?;
        Ok(if source.base() == "call" { self.with_known(results, &special.known) } else { results })
    }

    /// Constants instead of results that are known.
    fn with_known(&mut self, results: Vec<Value>, known: &[Option<Known>]) -> Vec<Value> {
        let constant = |(result, known): (Value, &Option<Known>)| {
            let Some((integers, tensor)) = known.as_ref().zip(self.of(result).as_tensor()) else { return result };
            let (dims, element) = (tensor.dims.clone(), tensor.element.clone());
            self.integers(dims, element, integers.to_vec())
        };
        results.into_iter().zip(known).map(constant).collect()
    }

    /// A function for arguments of the types of these values, and of their integers where they are known.
    fn specialized(&mut self, callee: &Name, arguments: &[Value]) -> Result<Arc<Special>> {
        const MAX_KEY: usize = 64;
        let mut key = callee.to_string();
        let mut known = Vec::new();
        for &argument in arguments {
            let integers = self.known(argument).filter(|integers| integers.len() <= MAX_KEY).cloned();
            key += &format!(" {} {:?}", shown(self.of(argument)), integers);
            known.push(integers);
        }
        if let Some(special) = self.special.get(&key) {
            return Ok(special.clone());
        }
        let function = self.called(callee)?;
        let body = function.block(0).ok_or_else(|| strange("a function with several blocks"))?;
        if body.arguments.len() != arguments.len() {
            return Err(strange(&format!("a call of {callee} with other arguments than it has")));
        }
        let outer = (std::mem::take(&mut self.values), std::mem::take(&mut self.out));
        let block = self.empty(body, self.types_of(arguments), &known);
        let results = self.block(body)?;
        let mut function = self.function(function, block, &results);
        (self.values, self.out) = outer;
        let name = self.free_name(callee);
        function.set("sym_name", Attribute::string(&name));
        self.built.push(function);
        let types = self.types_of(&results);
        let known = results.iter().map(|&result| self.known(result).cloned()).collect();
        let special = Arc::new(Special { name, results: types, known });
        self.special.insert(key, special.clone());
        Ok(special)
    }

    /// A block with the arguments of another one, of these types, and of these integers where they are known.
    fn empty(&mut self, source: &Block, types: Vec<Type>, known: &[Option<Known>]) -> Block {
        let mut block = Block { names: source.names.clone(), ..Block::default() };
        for (i, (&argument, kind)) in source.arguments.iter().zip(types).enumerate() {
            let value = self.value(kind);
            self.values.insert(argument, value);
            block.arguments.push(value);
            if let Some(Some(known)) = known.get(i) {
                self.known.insert(value, known.clone());
            }
        }
        block
    }

    fn called(&self, name: &str) -> Result<&'m Operation> {
        let function = self.functions.get(name).copied();
        function.ok_or_else(|| strange(&format!("a call of {name}, which does not exist")))
    }

    /// The first function for some arguments keeps its name.
    fn free_name(&mut self, callee: &Name) -> Name {
        if self.taken.insert(callee.clone()) {
            return callee.clone();
        }
        let mut numbered = (self.built.len()..).map(|number| Name::from(format!("{callee}_{number}")));
        numbered.find(|name| self.names.insert(name.clone())).unwrap_or_else(|| callee.clone())
    }
}

/// An operation of the same name and attributes, for these operands.
fn like(source: &Operation, operands: Vec<Value>) -> Operation {
    Operation { attributes: source.attributes.clone(), ..Operation::new(&source.name, operands, Vec::new()) }
}

/// An argument, with its name, if it has one, as users give it with a shape.
fn argument(i: usize, name: &Option<Name>) -> String {
    let name = name.as_ref().map(|name| format!(" (`{name}`)")).unwrap_or_default();
    format!("Argument {}{name}", i + 1)
}

/// The type of an argument with the sizes that the user gave.
fn fixed(kind: &Type, dims: Option<&Vec<i64>>, i: usize, name: &Option<Name>) -> Result<Type> {
    let Some(dims) = dims else { bail!(InvalidInput, "There is no shape for argument {} of the program.", i + 1) };
    with_sizes(kind, dims).ok_or_else(|| {
        let message = format!("{} of the program is {}, not of shape {dims:?}.", argument(i, name), shown(kind));
        Error::new(Kind::ShapeMismatch, message)
    })
}

/// An array with these sizes, if they match those that are fixed already.
fn with_sizes(kind: &Type, dims: &[i64]) -> Option<Type> {
    let tensor = kind.as_tensor().filter(|tensor| tensor.dims.len() == dims.len())?;
    let matches = dims.iter().zip(&tensor.dims).all(|(&dim, &known)| dim >= 0 && (known < 0 || known == dim));
    matches.then(|| Type::tensor(dims.to_vec(), tensor.element.clone()))
}

#[cold]
fn strange(what: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("The program is damaged: it has {what}."))
}

/// An operation whose sizes cannot be fixed.
#[cold]
fn unrefined(operation: &Operation, why: &str) -> Error {
    let name = operation.attribute("call_target_name").and_then(Attribute::as_text);
    let name = name.map_or_else(|| operation.name.to_string(), |target| format!("{} @{target}", operation.name));
    Error::new(Kind::DynamicShape, format!("The sizes of the program cannot be fixed: `{name}` {why}."))
        .hint("Export the function for fixed shapes instead.")
}

#[cfg(test)]
mod tests;
