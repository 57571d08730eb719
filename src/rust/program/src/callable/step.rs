//! Functions for loops: outputs of a program replace the arguments that they update.

use super::arguments::unique_names;
use super::{is_below, quoted_list, Callable, Nested, State};
use crate::names::{invalid, normal, SLASH};
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Result};
use pjrt_data::tree::{add_step, Kind};
use std::collections::{HashMap, HashSet};

/// Which arguments change.
pub enum Wanted {
    /// Those that outputs replace.
    Any,
    Arguments(Vec<String>),
    /// Each with the output that replaces it.
    Outputs(Vec<(String, Choice)>),
}

/// An output of a function, given by its name or position from 1.
pub enum Choice {
    Name(String),
    Position(f64),
}

impl Wanted {
    fn names(&self) -> Vec<&str> {
        match self {
            Wanted::Any => Vec::new(),
            Wanted::Arguments(names) => names.iter().map(String::as_str).collect(),
            Wanted::Outputs(choices) => choices.iter().map(|(name, _)| name.as_str()).collect(),
        }
    }
}

impl Callable {
    /// The step of a function: it takes its state as a list, and returns the next one with the other outputs. `names` are
    /// for the first of these.
    ///
    /// # Errors
    /// `InvalidInput` if no output replaces an argument, if several fit, and for names that are not known.
    pub fn step(mut self, wanted: &Wanted, names: &[String]) -> Result<Callable> {
        let mut sources = self.sources(wanted)?;
        let arguments = self.arguments.elements();
        let is_kept = |row: &usize| self.inputs[*row].kept;
        let open = |part: &Nested| part.rows.iter().copied().find(|row| is_kept(row) && sources[*row].is_none());
        let is_replaced = |part: &Nested| part.rows.iter().any(is_kept) && open(part).is_none();
        let wanted = wanted.names();
        let is_lacking = |(name, argument): &&(&str, Nested)| wanted.contains(name) && !is_replaced(argument);
        if let Some((name, argument)) = arguments.iter().find(is_lacking) {
            let path = open(argument).map_or_else(|| (*name).to_owned(), |row| self.input_paths()[row].clone());
            return Err(invalid(format!("There is no output for `{path}`.")).hint(choose_outputs(&[name])));
        }
        if !arguments.iter().any(|(_, argument)| is_replaced(argument)) {
            let what =
                "replaces an argument: none has the name and type of one, or alone the structure of a donated one.";
            let error = invalid(format!("No output of `{}` {what}", self.name));
            let parts = self.parts_of_result()?;
            let like = |argument| parts.iter().find(|(_, part)| self.is_alike(argument, part));
            let hint = match arguments.iter().find_map(|(_, argument)| like(argument)) {
                None => arguments.first().map(|(first, _)| choose_outputs(&[first])),
                Some((label, part)) => {
                    let rivals = arguments.iter().filter(|(_, argument)| self.is_alike(argument, part));
                    match rivals.map(|(name, _)| *name).collect::<Vec<_>>().as_slice() {
                        [only] => Some(format!("If {label} is the next `{only}`, pass `state = \"{only}\"`.")),
                        rivals => Some(choose_outputs(rivals)),
                    }
                }
            };
            return Err(hint.into_iter().fold(error, Error::hint));
        }
        let changes = |(name, argument): &(&str, Nested)| match wanted.is_empty() {
            true => is_replaced(argument),
            false => wanted.contains(name),
        };
        let (changing, others): (Vec<_>, Vec<_>) = arguments.into_iter().partition(changes);
        others.iter().flat_map(|(_, argument)| &argument.rows).for_each(|&row| sources[row] = None);
        let replaced = changing.iter().map(|(name, argument)| Ok(((*name).to_owned(), argument.replaced(&sources)?)));
        let mut result = replaced.collect::<Result<Vec<_>>>()?;
        let state: Vec<String> = result.iter().map(|(name, _)| name.clone()).collect();
        let mut others = self.others(&sources.iter().flatten().copied().collect())?;
        if names.len() > others.len() {
            let (given, count) = (counted(names.len(), "name"), counted(others.len(), "other output"));
            bail!(InvalidInput, "`outputs` has {given}, but the program has {count}.");
        }
        if let Some(name) = names.iter().find(|name| state.contains(name)) {
            bail!(InvalidInput, "`outputs` must name the other outputs: `{name}` is in the state.");
        }
        others.iter_mut().zip(names).for_each(|((own, _), name)| own.clone_from(name));
        let taken: Vec<&str> = state.iter().map(String::as_str).collect();
        let unique = unique_names(others.iter().map(|(name, _)| name.clone()).collect(), &taken);
        result.extend(unique.into_iter().zip(others).map(|(name, (_, other))| (name, other)));
        let numbered = || (1..=self.outputs.len()).map(|number| format!("output {number}")).collect();
        let outputs = self.output_paths().unwrap_or_else(numbered);
        self.result = Some(Nested::list(&result)?);
        self.state = Some(State { names: state, sources, outputs });
        Ok(self)
    }

    /// For each input, the output that replaces it.
    fn sources(&self, wanted: &Wanted) -> Result<Vec<Option<usize>>> {
        let (known, mut seen) = (self.names(), HashSet::new());
        if let Some(name) = wanted.names().into_iter().find(|name| !known.contains(name) || !seen.insert(*name)) {
            let message = format!("`state` must name arguments of the function, each once: got `{name}`.");
            return Err(invalid(message).hint(format!("The arguments are {}.", quoted_list(known.into_iter()))));
        }
        let inputs: Vec<String> = self.input_paths().iter().map(|path| normal(path)).collect();
        let outputs: Vec<String> = match self.output_paths() {
            Some(paths) => paths.iter().map(|path| normal(path)).collect(),
            None => (0..self.outputs.len()).map(|i| i.to_string()).collect(),
        };
        // Of several outputs with a path, the first.
        let at: HashMap<&str, usize> = outputs.iter().enumerate().rev().map(|(i, path)| (path.as_str(), i)).collect();
        let (mut sources, mut used) = (vec![None; self.inputs.len()], HashSet::new());
        // An output belongs to one input, with its type.
        let mut replace = |sources: &mut [Option<usize>], row: usize, output: Option<usize>| {
            if let Some(output) = output.filter(|&output| self.outputs[output] == self.inputs[row].kind) {
                if sources[row].is_none() && used.insert(output) {
                    sources[row] = Some(output);
                }
            }
        };
        if let Wanted::Outputs(choices) = wanted {
            for (argument, choice) in choices {
                let (argument, top) = (normal(argument), self.top(choice, &outputs)?);
                for (row, path) in inputs.iter().enumerate().filter(|(_, path)| is_below(path, &argument)) {
                    let path = format!("{top}{}", &path[argument.len()..]);
                    let output = at.get(path.trim_start_matches(SLASH)).copied();
                    replace(&mut sources, row, output);
                    if let Some(output) = output.filter(|_| self.inputs[row].kept && sources[row].is_none()) {
                        return Err(self.no_source(row, output));
                    }
                }
            }
            return Ok(sources);
        }
        if self.result.is_some() {
            for (row, path) in inputs.iter().enumerate().filter(|(row, _)| self.inputs[*row].kept) {
                replace(&mut sources, row, at.get(path.as_str()).copied());
            }
            // The program also writes arrays of the state that it does not read.
            let arguments = self.inputs_of_arguments().into_iter();
            let read = arguments.filter(|rows| rows.iter().any(|&row| self.inputs[row].kept));
            let read: HashSet<usize> = read.flatten().copied().collect();
            for (row, output) in self.arguments.beside(&self.whole_result()?) {
                if read.contains(&row) && !self.inputs[row].kept {
                    replace(&mut sources, row, Some(output));
                }
            }
        }
        self.match_structures(wanted, &mut sources, &used)?;
        Ok(sources)
    }

    /// Why a chosen output does not replace an input.
    fn no_source(&self, row: usize, output: usize) -> Error {
        let (path, kind, own) = (&self.input_paths()[row], &self.outputs[output], &self.inputs[row].kind);
        let which =
            self.output_paths().map_or_else(|| format!("{}", output + 1), |paths| format!("`{}`", paths[output]));
        let why = if kind == own {
            "it replaces another argument already".to_owned()
        } else {
            format!("it is {kind}, and the argument is {own}")
        };
        invalid(format!("Output {which} cannot replace `{path}`: {why}."))
    }

    /// Where a chosen output is, in normal form.
    fn top(&self, choice: &Choice, outputs: &[String]) -> Result<String> {
        let labels = self.elements_of_result()?;
        let step = |(i, (name, _)): (usize, &(String, Nested))| {
            let mut path = String::new();
            add_step(&mut path, name, i);
            path
        };
        let paths: Vec<String> = labels.iter().enumerate().map(step).collect();
        let is_single = self.result.as_ref().is_some_and(|result| !result.tree.root().is_list());
        let (given, found) = match choice {
            Choice::Position(number) => {
                let index = (number.fract() == 0.0 && *number >= 1.0).then(|| *number as usize - 1);
                let path = index.and_then(|index| paths.get(index));
                // A single output has no place in a list.
                (number.to_string(), path.map(|path| if is_single { String::new() } else { normal(path) }))
            }
            Choice::Name(name) => {
                let path = normal(name);
                let is_known = !path.is_empty() && outputs.iter().any(|output| is_below(output, &path));
                (name.clone(), is_known.then_some(path))
            }
        };
        found.ok_or_else(|| {
            let known = quoted_list(paths.iter().map(String::as_str));
            invalid(format!("`state` must name outputs: there is no output `{given}`.")).hint(format!(
                "There {} {}: {known}.",
                if paths.len() == 1 { "is" } else { "are" },
                paths.len()
            ))
        })
    }

    fn whole_result(&self) -> Result<Nested> {
        self.result.clone().map_or_else(|| Nested::plain(self.outputs.len()), Ok)
    }

    /// The whole result and its elements, those with arrays, with names for messages.
    fn parts_of_result(&self) -> Result<Vec<(String, Nested)>> {
        let whole = self.whole_result()?;
        let label = |(i, (name, part)): (usize, (&str, Nested))| match name.is_empty() {
            true => (format!("output {}", i + 1), part),
            false => (format!("output `{name}`"), part),
        };
        let parts: Vec<_> = whole.elements().into_iter().enumerate().map(label).collect();
        let all = std::iter::once(("the whole result".to_owned(), whole)).chain(parts);
        Ok(all.filter(|(_, part)| !part.rows.is_empty()).collect())
    }

    /// The elements of the result, or the result itself.
    fn elements_of_result(&self) -> Result<Vec<(String, Nested)>> {
        let result = self.whole_result()?;
        if !result.tree.root().is_list() {
            return Ok(vec![(String::new(), result)]);
        }
        Ok(result.elements().into_iter().map(|(name, element)| (name.to_owned(), element)).collect())
    }

    /// Adds the outputs for arguments that no name decides: an output that alone has the structure of the argument, which
    /// alone has that of the output. Donation shows which arguments change, and never where their values come from: JAX
    /// assigns donated memory to outputs by their shapes, in order.
    fn match_structures(&self, wanted: &Wanted, sources: &mut [Option<usize>], used: &HashSet<usize>) -> Result<()> {
        let mut outputs = self.parts_of_result()?;
        outputs.retain(|(_, part)| !part.rows.iter().any(|row| used.contains(row)));
        let names = wanted.names();
        let is_open = |(name, argument): &(&str, Nested)| {
            let mut kept = argument.rows.iter().filter(|&&row| self.inputs[row].kept).peekable();
            let is_wanted = match wanted {
                Wanted::Any => kept.clone().any(|&row| self.inputs[row].donated),
                _ => names.contains(name),
            };
            is_wanted && kept.peek().is_some() && kept.all(|&row| sources[row].is_none())
        };
        let open: Vec<(&str, Nested)> = self.arguments.elements().into_iter().filter(is_open).collect();
        for (_, argument) in &open {
            let fits: Vec<_> = outputs.iter().filter(|(_, output)| self.is_alike(argument, output)).collect();
            let is_rival = |(_, other): &&(&str, Nested)| {
                other.tree == argument.tree && self.input_types(other).eq(self.input_types(argument))
            };
            let rivals: Vec<&str> = open.iter().filter(is_rival).map(|(name, _)| *name).collect();
            match fits.as_slice() {
                [] => {}
                [(_, output)] if rivals.len() == 1 => {
                    argument.rows.iter().zip(&output.rows).for_each(|(&row, &output)| sources[row] = Some(output));
                }
                several => {
                    let which = rivals.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and which ");
                    let labels = several.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>().join(", ");
                    let has = if several.len() == 1 { "has" } else { "have" };
                    let what = format!("which output replaces {which}: {labels} {has} the same structure.");
                    return Err(invalid(format!("Names do not say {what}")).hint(choose_outputs(&rivals)));
                }
            }
        }
        Ok(())
    }

    fn input_types<'a>(&'a self, argument: &'a Nested) -> impl Iterator<Item = &'a str> {
        argument.rows.iter().map(|&row| self.inputs[row].kind.as_str())
    }

    /// Whether a part of the result could be the next value of an argument.
    fn is_alike(&self, argument: &Nested, output: &Nested) -> bool {
        let types = output.rows.iter().map(|&row| self.outputs[row].as_str());
        argument.tree == output.tree && types.eq(self.input_types(argument))
    }

    /// The elements of the result that have arrays which are not used, with names.
    fn others(&self, used: &HashSet<usize>) -> Result<Vec<(String, Nested)>> {
        let mut others = Vec::new();
        for (i, (name, element)) in self.elements_of_result()?.into_iter().enumerate() {
            if element.rows.iter().any(|row| !used.contains(row)) {
                let name = if name.is_empty() { format!("output{}", i + 1) } else { name };
                others.push((name, element.without(used)?));
            }
        }
        Ok(others)
    }
}

/// How to say which outputs replace arguments. It gives no example with numbers: one that is followed as it is could train
/// the wrong arrays.
fn choose_outputs(arguments: &[&str]) -> String {
    let chosen: Vec<String> = arguments.iter().map(|name| format!("{name} = ...")).collect();
    format!("Choose with `state = c({})`: the position or the name of the output in place of `...`.", chosen.join(", "))
}

impl Nested {
    /// The same list of other rows, with NULL for those that have none.
    fn replaced(&self, rows: &[Option<usize>]) -> Result<Nested> {
        let mut own = self.rows.iter();
        let mut replaced = Vec::new();
        let nodes = self.tree.views().map(|mut node| {
            if node.kind == Kind::Leaf {
                match own.next().and_then(|&row| rows[row]) {
                    Some(row) => replaced.push(row),
                    None => node.kind = Kind::Null,
                }
            }
            node
        });
        let tree = pjrt_data::tree::Tree::of_nodes(nodes)?;
        Nested { tree, rows: replaced }.checked()
    }
}
