//! Fixes the sizes of a program: infers all types from the arguments of `main`, some of which become constants, and
//! replaces dynamic operations with operations of fixed sizes.
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

/// From the values of the source to those of the new program.
type Values = HashMap<Value, Value>;

/// The program with fixed sizes, for arguments of `main` of these sizes, which leave out arguments that are `constants`:
/// by position, from 0, the value of an integer.
///
/// # Errors
/// `InvalidInput` for sizes that do not match the arguments, `ShapeMismatch` for sizes that the program refuses, and
/// `DynamicShape`, which names the operation, if sizes cannot be fixed.
pub fn refine(module: &Module, dims: &[Vec<i64>], constants: &[(usize, i32)]) -> Result<Module> {
    Refiner::new(module, true)?.run(Some(dims), constants)
}

/// The program with an integer argument of `main`, counted from 0, as a constant. Branches that the integer does not
/// choose are left out.
///
/// # Errors
/// `InvalidInput` without such an argument.
pub fn with_constant_argument(module: &Module, index: usize, value: i32) -> Result<Module> {
    Refiner::new(module, false)?.run(None, &[(index, value)])
}

/// A function for certain arguments.
struct Special {
    name: Name,
    results: Vec<Type>,
    known: Vec<Option<Known>>,
}

struct Refiner<'m> {
    source: &'m Module,
    functions: HashMap<&'m str, &'m Operation>,
    /// Whether all types must become fixed.
    is_strict: bool,
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
    /// How many operations may still be added. Large constants count for several.
    left: usize,
}

impl<'m> Refiner<'m> {
    fn new(source: &'m Module, is_strict: bool) -> Result<Self> {
        let block = source.root.block(0).ok_or_else(|| strange("a module without content"))?;
        let mut functions = HashMap::new();
        for function in block.operations.iter().filter(|operation| &*operation.name == "func.func") {
            functions.insert(name_of(function)?, function);
        }
        Ok(Refiner {
            source,
            functions,
            is_strict,
            types: Vec::new(),
            known: HashMap::new(),
            sums: HashMap::new(),
            built: Vec::new(),
            special: HashMap::new(),
            names: HashSet::new(),
            taken: HashSet::new(),
            depth: 0,
            left: 100_000 + 100 * count(&source.root),
        })
    }

    fn run(mut self, dims: Option<&[Vec<i64>]>, constants: &[(usize, i32)]) -> Result<Module> {
        let Some(&main) = self.functions.get("main") else {
            bail!(InvalidInput, "The program has no function `main`.");
        };
        self.names = self.functions.keys().map(|&name| Name::from(name)).collect();
        let body = main.block(0).ok_or_else(|| strange("a function with several blocks"))?;
        let mut values = Values::new();
        let mut block = Block::default();
        let mut kept = Vec::new();
        let mut given = dims.map(|dims| dims.iter());
        for (i, &argument) in body.arguments.iter().enumerate() {
            let kind = self.source.type_of(argument);
            if let Some((_, value)) = constants.iter().find(|(index, _)| *index == i) {
                let constant = self.constant_argument(kind, *value, i, &mut block.operations)?;
                values.insert(argument, constant);
                continue;
            }
            let kind = match &mut given {
                Some(dims) => fixed(kind, dims.next(), i)?,
                None => kind.clone(),
            };
            let value = self.value(kind);
            values.insert(argument, value);
            block.arguments.push(value);
            block.names.push(body.names.get(i).cloned().flatten());
            kept.push(i);
        }
        if given.is_some_and(|mut dims| dims.next().is_some()) {
            bail!(InvalidInput, "There are more shapes than the program has arguments, {}.", kept.len());
        }
        if let Some((index, _)) = constants.iter().find(|(index, _)| *index >= body.arguments.len()) {
            bail!(InvalidInput, "The program has no argument {}.", index + 1);
        }
        let results = self.block(body, &mut values, &mut block.operations)?;
        end(&mut block, "func.return", results.clone());
        let mut function = Operation { regions: vec![Region { blocks: vec![block] }], ..without_regions(main) };
        if let Some(attributes) = main.attribute("arg_attrs").and_then(Attribute::as_array) {
            let attributes = kept.iter().filter_map(|&i| attributes.get(i).cloned()).collect();
            function.set("arg_attrs", Attribute::Array(attributes));
        }
        self.set_type(&mut function, &results)?;
        let mut operations = vec![function];
        operations.append(&mut self.built);
        let others = self.source.root.block(0).into_iter().flat_map(|block| &block.operations);
        let others = others.filter(|operation| &*operation.name != "func.func").cloned();
        let mut root = without_regions(&self.source.root);
        if self.is_strict && root.attribute("jax.uses_shape_polymorphism").is_some() {
            root.set("jax.uses_shape_polymorphism", Attribute::Bool(false));
        }
        let operations = others.chain(operations).collect();
        root.regions = vec![Region { blocks: vec![Block { operations, ..Block::default() }] }];
        clean::clean(&mut root);
        Ok(Module { root, types: self.types })
    }

    fn constant_argument(&mut self, kind: &Type, value: i32, i: usize, out: &mut Vec<Operation>) -> Result<Value> {
        let element = kind.as_tensor().filter(|tensor| tensor.dims.is_empty()).map(|tensor| &tensor.element);
        match element.and_then(Element::dtype) {
            Some(dtype @ (DType::I32 | DType::I64)) => {
                Ok(self.integers(Vec::new(), Element::Number(dtype), vec![value.into()], out))
            }
            _ => bail!(InvalidInput, "Argument {} of the program is {}, not an integer.", i + 1, shown(kind)),
        }
    }

    /// Sets a function's type from its argument and results.
    fn set_type(&self, function: &mut Operation, results: &[Value]) -> Result<()> {
        let arguments = function.block(0).map(|block| block.arguments.clone()).unwrap_or_default();
        let types = |values: &[Value]| values.iter().map(|&value| self.of(value).clone()).collect::<Vec<_>>();
        let shape = Type::Function(Arc::new((types(&arguments), types(results))));
        function.set("function_type", Attribute::Type(shape));
        Ok(())
    }

    /// The type of a new value.
    fn of(&self, value: Value) -> &Type {
        &self.types[value.0 as usize]
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
    fn integers(&mut self, dims: Vec<i64>, element: Element, values: Vec<i64>, out: &mut Vec<Operation>) -> Value {
        self.left = self.left.saturating_sub(values.len() / 16);
        let dense = Dense::of_integers(dims, element, &values);
        let value = self.value(dense.kind.clone());
        let mut constant = Operation::new("stablehlo.constant", Vec::new(), vec![value]);
        constant.set("value", Attribute::Dense(Arc::new(dense)));
        out.push(constant);
        self.known.insert(value, values.into());
        value
    }

    /// Builds the operations of a block, and returns what its last one returns.
    fn block(&mut self, block: &'m Block, values: &mut Values, out: &mut Vec<Operation>) -> Result<Vec<Value>> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            bail!(DynamicShape, "The program nests too deep to fix its sizes.");
        }
        let Some((last, operations)) = block.operations.split_last() else {
            return Err(strange("a block without operations"));
        };
        for operation in operations {
            self.operation(operation, values, out)?;
        }
        self.depth -= 1;
        operands(last, values)
    }

    fn operation(&mut self, source: &'m Operation, values: &mut Values, out: &mut Vec<Operation>) -> Result<()> {
        let Some(left) = self.left.checked_sub(1) else {
            bail!(DynamicShape, "The program has too many calls to fix its sizes.");
        };
        self.left = left;
        let operands = operands(source, values)?;
        let results = match (&*source.name, source.kind()) {
            ("func.call", _) => self.call(source, operands, out)?,
            (_, "composite") => self.composite(source, operands, out)?,
            (_, "while") => self.repeat(source, operands, values, out)?,
            (_, "case" | "if") => self.choose(source, operands, values, out)?,
            (_, "custom_call") => self.custom_call(source, operands, out)?,
            _ => match self.dynamic(source, &operands, out)? {
                Some(results) => results,
                None => self.plain(source, operands, values, out)?,
            },
        };
        if results.len() != source.results.len() {
            return Err(strange("an operation with other results than it declares"));
        }
        values.extend(source.results.iter().copied().zip(results));
        Ok(())
    }

    /// An operation that stays, or becomes a constant.
    fn plain(
        &mut self,
        source: &'m Operation,
        operands: Vec<Value>,
        values: &mut Values,
        out: &mut Vec<Operation>,
    ) -> Result<Vec<Value>> {
        if let Some((element, dims, integers)) = self.folded(source, &operands)? {
            return Ok(vec![self.integers(dims, element, integers, out)]);
        }
        let mut operation = Operation { operands, results: Vec::new(), ..without_regions(source) };
        for region in &source.regions {
            let types = self.region_types(region);
            let (region, _) = self.region(region, types, &[], values)?;
            operation.regions.push(region);
        }
        let types = self.result_types(source, &operation)?;
        self.push(operation, types, out)
    }

    /// Adds an operation with results of these types.
    fn push(&mut self, mut operation: Operation, types: Vec<Type>, out: &mut Vec<Operation>) -> Result<Vec<Value>> {
        operation.results = types.into_iter().map(|kind| self.value(kind)).collect();
        let results = operation.results.clone();
        if let ("constant", Some(Attribute::Dense(dense))) = (operation.kind(), operation.attribute("value")) {
            if let Some(integers) = dense.integers(MAX_KNOWN) {
                self.known.extend(results.first().map(|&result| (result, integers.into())));
            }
        }
        if let ("add", [x, y], [sum]) = (operation.kind(), &operation.operands[..], &results[..]) {
            if let Some(sum_of) = self.known(*y).map(|known| (*x, known.clone())) {
                self.sums.insert(*sum, sum_of);
            } else if let Some(sum_of) = self.known(*x).map(|known| (*y, known.clone())) {
                self.sums.insert(*sum, sum_of);
            }
        }
        out.push(operation);
        Ok(results)
    }

    /// A call of a function that is built for its arguments.
    fn call(&mut self, source: &'m Operation, operands: Vec<Value>, out: &mut Vec<Operation>) -> Result<Vec<Value>> {
        let callee = source.attribute("callee").and_then(Attribute::as_symbol);
        let callee = callee.ok_or_else(|| strange("a call without a function"))?.clone();
        let special = self.specialized(&callee, &operands)?;
        let mut operation = Operation { operands, results: Vec::new(), ..without_regions(source) };
        operation.set("callee", Attribute::symbol(special.name.clone()));
        let results = self.push(operation, special.results.clone(), out)?;
        Ok(self.with_known(results, &special.known, out))
    }

    fn composite(
        &mut self,
        source: &'m Operation,
        operands: Vec<Value>,
        out: &mut Vec<Operation>,
    ) -> Result<Vec<Value>> {
        let callee = source.attribute("decomposition").and_then(Attribute::as_symbol);
        let callee = callee.ok_or_else(|| strange("a composite without a function"))?.clone();
        let special = self.specialized(&callee, &operands)?;
        let mut operation = Operation { operands, results: Vec::new(), ..without_regions(source) };
        operation.set("decomposition", Attribute::symbol(special.name.clone()));
        self.push(operation, special.results.clone(), out)
    }

    /// Constants instead of results that are known.
    fn with_known(&mut self, results: Vec<Value>, known: &[Option<Known>], out: &mut Vec<Operation>) -> Vec<Value> {
        let constant = |(result, known): (Value, &Option<Known>)| {
            let Some((integers, tensor)) = known.as_ref().zip(self.of(result).as_tensor()) else { return result };
            let (dims, element) = (tensor.dims.clone(), tensor.element.clone());
            self.integers(dims, element, integers.to_vec(), out)
        };
        results.into_iter().zip(known).map(constant).collect()
    }

    /// A function for arguments of the types of these values, and of their integers as far as they are known.
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
        let Some(&function) = self.functions.get(&**callee) else {
            return Err(strange(&format!("a call of {callee}, which does not exist")));
        };
        let body = function.block(0).ok_or_else(|| strange("a function with several blocks"))?;
        if body.arguments.len() != arguments.len() {
            return Err(strange(&format!("a call of {callee} with other arguments than it has")));
        }
        let mut values = Values::new();
        let mut block = Block { names: body.names.clone(), ..Block::default() };
        for ((&source, &argument), known) in body.arguments.iter().zip(arguments).zip(known) {
            let value = self.value(self.of(argument).clone());
            values.insert(source, value);
            block.arguments.push(value);
            self.known.extend(known.map(|known| (value, known)));
        }
        let results = self.block(body, &mut values, &mut block.operations)?;
        end(&mut block, "func.return", results.clone());
        let mut function = Operation { regions: vec![Region { blocks: vec![block] }], ..without_regions(function) };
        let name = self.free_name(callee);
        function.set("sym_name", Attribute::string(&name));
        self.set_type(&mut function, &results)?;
        self.built.push(function);
        let types = results.iter().map(|&result| self.of(result).clone()).collect();
        let known = results.iter().map(|&result| self.known(result).cloned()).collect();
        let special = Arc::new(Special { name, results: types, known });
        self.special.insert(key, special.clone());
        Ok(special)
    }

    /// The first function for some arguments keeps its name.
    fn free_name(&mut self, callee: &Name) -> Name {
        if self.taken.insert(callee.clone()) {
            return callee.clone();
        }
        let mut number = self.built.len();
        loop {
            let name = Name::from(format!("{callee}_{number}"));
            if self.names.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}

/// The new values of an operation's operands.
fn operands(operation: &Operation, values: &Values) -> Result<Vec<Value>> {
    let new = |value: &Value| values.get(value).copied().ok_or_else(|| strange("a value that is not yet defined"));
    operation.operands.iter().map(new).collect()
}

/// Ends a block.
fn end(block: &mut Block, name: &str, results: Vec<Value>) {
    block.operations.push(Operation::new(name, results, Vec::new()));
}

fn without_regions(operation: &Operation) -> Operation {
    Operation {
        name: operation.name.clone(),
        operands: operation.operands.clone(),
        results: operation.results.clone(),
        attributes: operation.attributes.clone(),
        regions: Vec::new(),
    }
}

fn name_of(function: &Operation) -> Result<&str> {
    function.symbol().ok_or_else(|| strange("a function without a name"))
}

/// The number of operations.
fn count(operation: &Operation) -> usize {
    1 + operation.inner().map(count).sum::<usize>()
}

/// The type of an argument with the sizes that the user gave.
fn fixed(kind: &Type, dims: Option<&Vec<i64>>, i: usize) -> Result<Type> {
    let Some(dims) = dims else {
        bail!(InvalidInput, "There is no shape for argument {} of the program.", i + 1);
    };
    let matches = kind.dims().is_some_and(|declared| {
        declared.len() == dims.len()
            && declared.iter().zip(dims).all(|(&declared, &dim)| dim >= 0 && (declared < 0 || declared == dim))
    });
    let Some(tensor) = kind.as_tensor().filter(|_| matches) else {
        let message = format!("Argument {} of the program is {}, not of shape {dims:?}.", i + 1, shown(kind));
        return Err(Error::new(Kind::ShapeMismatch, message));
    };
    Ok(Type::tensor(dims.clone(), tensor.element.clone()))
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
