//! Symbolic dimensions: expressions such as "2*b + 1" in the shapes of an exported function, and their values for given
//! shapes.

mod expression;

use super::damaged;
use crate::names::{invalid, listed, normal};
use pjrt_base::error::{Error, Kind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The most variables of a function; JAX's own functions have a few.
const MAX_VARIABLES: usize = 1000;

/// The dimension variables with their values.
pub type Values = BTreeMap<String, i64>;

/// A shape as the file has it: numbers, and expressions.
pub type Shape = [String];

/// An input of the function.
#[derive(Debug)]
pub struct Input<'a> {
    /// The name that the user sees.
    pub name: &'a str,
    /// Another name.
    pub path: &'a str,
    pub shape: &'a Shape,
}

/// What a user gives: the shape of an input, or the size of a dimension, by name. Inputs come first.
#[derive(Debug)]
pub struct Given<'a> {
    pub name: &'a str,
    pub dims: &'a [i64],
}

/// An input's dimension that must have a size.
struct Equation<'a> {
    input: &'a str,
    /// Its number, from 1.
    dimension: usize,
    text: &'a str,
    size: i64,
}

/// The variables' values that follow from given shapes and sizes; those in the shapes of `needed` must.
///
/// # Errors
/// `InvalidInput` for names that fit no input and no dimension, and if values do not follow for what is needed.
/// `ShapeMismatch` for shapes that contradict the function's, or each other.
pub fn solve<'a>(inputs: &[Input<'_>], given: &[Given<'_>], needed: impl Iterator<Item = &'a Shape>) -> Result<Values> {
    let variables = variables(inputs.iter().map(|input| input.shape))?;
    let mut values = Values::new();
    let mut equations = Vec::new();
    let mut unknown = Vec::new();
    for one in given {
        if let Some(input) = find(inputs, one.name)? {
            equate(input, one.dims, &mut equations)?;
        } else if let Some(variable) = variables.get(one.name) {
            let &[size] = one.dims else {
                bail!(InvalidInput, "The dimension `{variable}` must be one number, not {}.", one.dims.len());
            };
            assign(&mut values, variable, size, String::new)?;
        } else {
            unknown.push(format!("`{}`", one.name));
        }
    }
    ensure!(unknown.is_empty(), unknown_names(inputs, &variables, unknown));
    propagate(&equations, &mut values)?;
    for equation in &equations {
        if let Some(size) = expression::value(equation.text, &values)?.filter(|&size| size != equation.size) {
            return Err(contradiction(equation, &values, Some(size)));
        }
    }
    let is_missing = |variable: &&String| variables.contains(*variable) && !values.contains_key(*variable);
    let needed = self::variables(needed)?;
    let missing: Vec<_> = needed.iter().filter(is_missing).collect();
    ensure!(missing.is_empty(), undetermined(inputs, &missing));
    Ok(values)
}

/// A shape with the values of its variables.
///
/// # Errors
/// `InvalidFile` for damaged expressions, and `ShapeMismatch` for sizes below 0.
pub fn evaluate(shape: &Shape, values: &Values) -> Result<Vec<i64>> {
    let size = |text: &String| {
        let size = expression::value(text, values)?.filter(|&size| size >= 0);
        size.ok_or_else(|| mismatch(format!("The dimension `{text}` has no size for {}.", shown(values))))
    };
    shape.iter().map(size).collect()
}

/// The variables in shapes.
///
/// # Errors
/// `InvalidFile` for damaged expressions, and more variables than a function has.
pub fn variables<'a>(shapes: impl Iterator<Item = &'a Shape>) -> Result<BTreeSet<String>> {
    let mut variables = BTreeSet::new();
    for text in shapes.flatten() {
        variables.extend(expression::variables(text)?.into_iter().map(str::to_owned));
        ensure!(variables.len() <= MAX_VARIABLES, damaged("it has too many symbolic dimensions"));
    }
    Ok(variables)
}

fn find<'a, 'b>(inputs: &'b [Input<'a>], name: &str) -> Result<Option<&'b Input<'a>>> {
    let wanted = normal(name);
    let mut found = inputs.iter().filter(|input| normal(input.name) == wanted);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => bail!(InvalidInput, "The name `{name}` fits several inputs."),
        (one, _) => Ok(one.or_else(|| inputs.iter().find(|input| normal(input.path) == wanted))),
    }
}

fn equate<'a>(input: &Input<'a>, dims: &[i64], equations: &mut Vec<Equation<'a>>) -> Result<()> {
    if input.shape.len() != dims.len() {
        return Err(mismatch(format!(
            "The shape of `{}` must have {} dimensions, as in ({}), not {}.",
            input.name,
            input.shape.len(),
            input.shape.join(", "),
            dims.len()
        )));
    }
    let sizes = input.shape.iter().zip(dims).zip(1..);
    equations.extend(sizes.map(|((text, &size), dimension)| Equation { input: input.name, dimension, text, size }));
    Ok(())
}

fn assign(values: &mut Values, variable: &str, size: i64, source: impl Fn() -> String) -> Result<()> {
    if size < 1 {
        return Err(mismatch(format!("The dimension `{variable}` must be at least 1, not {size}{}.", source())));
    }
    match values.insert(variable.to_owned(), size) {
        Some(before) if before != size => {
            Err(mismatch(format!("The dimension `{variable}` has two sizes: {before} and {size}.")))
        }
        _ => Ok(()),
    }
}

/// Finds values until no equation has just one unknown variable. As JAX does, only solves linear equations.
fn propagate(equations: &[Equation<'_>], values: &mut Values) -> Result<()> {
    loop {
        let before = values.len();
        for equation in equations {
            let Equation { input, dimension, text, size } = equation;
            let Some(linear) = expression::linear(text, values)? else { continue };
            let Some((variable, factor)) = linear.variable else { continue };
            let rest = size.checked_sub(linear.constant).filter(|rest| rest.checked_rem(factor) == Some(0));
            let Some(rest) = rest else { return Err(contradiction(equation, values, None)) };
            let source = || format!(", since dimension {dimension} of `{input}` is `{text}` = {size}");
            assign(values, variable, rest / factor, source)?;
        }
        if values.len() == before {
            return Ok(());
        }
    }
}

#[cold]
fn contradiction(equation: &Equation<'_>, values: &Values, instead: Option<i64>) -> Error {
    let Equation { input, dimension, text, size } = equation;
    if text.parse::<i64>().is_ok() {
        return mismatch(format!("Dimension {dimension} of `{input}` must be {text}, not {size}."));
    }
    let own = expression::variables(text).unwrap_or_default();
    let known: Values = own.into_iter().filter_map(|name| Some((name.to_owned(), *values.get(name)?))).collect();
    let given = if known.is_empty() { String::new() } else { format!(" with {}", shown(&known)) };
    let which = match instead {
        Some(instead) => format!("is {instead}{given}, not {size}"),
        None => format!("cannot be {size}{given}"),
    };
    mismatch(format!("Dimension {dimension} of `{input}` is `{text}`, which {which}."))
}

/// Values in words: "b = 2, n = 3".
fn shown(values: &Values) -> String {
    listed(values.iter().map(|(name, size)| format!("{name} = {size}")).collect())
}

#[cold]
fn unknown_names(inputs: &[Input<'_>], variables: &BTreeSet<String>, unknown: Vec<String>) -> Error {
    let names = inputs.iter().map(|input| format!("`{}`", input.name)).collect();
    let message = format!("The function has no input and no symbolic dimension named {}.", listed(unknown));
    let error = invalid(message).hint(format!("Its inputs are {}.", listed(names)));
    match variables.is_empty() {
        true => error,
        false => error.hint(format!("Its symbolic dimensions are {}.", quoted(variables.iter()))),
    }
}

#[cold]
fn undetermined(inputs: &[Input<'_>], missing: &[&String]) -> Error {
    let is_missing = |text: &String| {
        let found = expression::variables(text).unwrap_or_default();
        missing.iter().any(|name| found.contains(name.as_str()))
    };
    let shapes = inputs.iter().filter(|input| input.shape.iter().any(is_missing));
    let shapes = shapes.map(|input| format!("`{}` ({})", input.name, input.shape.join(", "))).collect();
    let sizes = if missing.len() == 1 { "dimension" } else { "dimensions" };
    invalid(format!("The size of the symbolic {sizes} {} is not known.", quoted(missing.iter().copied())))
        .hint(format!("Give it, or the shape of an input that has it: {}.", listed(shapes)))
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    listed(names.map(|name| format!("`{name}`")).collect())
}

#[cold]
fn mismatch(message: String) -> Error {
    Error::new(Kind::ShapeMismatch, message)
}

#[cfg(test)]
mod tests;
