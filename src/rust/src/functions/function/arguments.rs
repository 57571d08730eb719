//! The arguments of a function: nested lists become the inputs of its program, in order. A call whose lists have the same
//! structure and names as the last call's reuses its order.

use super::refusal;
use crate::execution::inputs::InputObjects;
use crate::functions::tree::PreservedObject;
use crate::r::conditions::Result;
use crate::r::describe::describe;
use crate::r::sexp::{self, Protected};
use extendr_ffi::{ALTREP, SEXP, SEXPTYPE, STRING_ELT, STRING_PTR_RO};
use pjrt_program::callable::{Callable, Class};
use pjrt_program::names::{self, SLASH};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// The limit of nesting, so that no stack overflows.
const MAX_NESTING: usize = 100;

/// The arguments that a function takes.
pub struct Arguments {
    /// An empty name is that of a list whose elements are arguments themselves; others in it are ignored.
    formals: Vec<String>,
    /// What is at a path in normal form.
    places: HashMap<String, Place>,
    /// The program's inputs, in order: their paths in normal form, and as R writes them.
    inputs: Vec<(String, String)>,
    /// Lists whose elements may be given by position, with their names.
    classes: HashMap<String, Vec<String>>,
    /// Whether an array may be a list of its parts, one for each device.
    takes_parts: bool,
    /// The names of the last call's lists are in the R list beside it.
    last: RefCell<Option<Rc<Match>>>,
}

/// What a path stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Input(usize),
    /// An array that the program does not use.
    Unused,
    /// A list, and whether there are inputs in it.
    List {
        has_inputs: bool,
    },
}

/// How the lists of a call fit the inputs.
struct Match {
    /// In the order of a walk over the arguments.
    nodes: Vec<Node>,
    /// For each input, its number among the leaves.
    order: Vec<usize>,
}

enum Node {
    Leaf,
    Null,
    /// Ignored, whatever it is.
    Unused,
    /// A list of this length, and the number of its names.
    List {
        len: usize,
        names: Option<usize>,
    },
}

/// The inputs that a call gives, in the program's order.
#[derive(Default)]
pub struct Given {
    pub values: InputObjects,
    /// Keeps elements of lists that R makes as they are asked for.
    _copies: Vec<PreservedObject>,
}

impl Arguments {
    pub fn new(function: &Callable) -> Self {
        let mut places = HashMap::new();
        let mut inputs = Vec::new();
        for (own, input) in function.input_paths().into_iter().zip(&function.inputs) {
            let path = names::normal(&own);
            for (end, _) in path.match_indices(SLASH) {
                let list = places.entry(path[..end].to_owned()).or_insert(Place::List { has_inputs: false });
                if let (Place::List { has_inputs }, true) = (list, input.kept) {
                    *has_inputs = true;
                }
            }
            let place = if input.kept { Place::Input(inputs.len()) } else { Place::Unused };
            places.insert(path.clone(), place);
            if input.kept {
                inputs.push((path, own));
            }
        }
        let names = function.names();
        let class = |class: &Class| {
            let argument = names::normal(names.get(class.argument)?);
            Some((format!("{argument}{}", class.path), class.names.clone()))
        };
        let classes = function.classes.iter().filter_map(class).collect();
        let names = names.into_iter();
        let formals: Vec<String> = match &function.state {
            None => names.map(names::normal).collect(),
            Some(state) => {
                let others = names.filter(|name| !state.names.iter().any(|changes| changes == name));
                std::iter::once(String::new()).chain(others.map(names::normal)).collect()
            }
        };
        Arguments { formals, places, inputs, classes, takes_parts: function.devices > 1, last: RefCell::default() }
    }

    /// The program's inputs: their paths in normal form, and as R writes them.
    pub fn inputs_in_order(&self) -> &[(String, String)] {
        &self.inputs
    }

    /// A path as R code.
    fn quoted(&self, path: &str) -> String {
        match self.inputs.iter().find(|(known, _)| known == path) {
            Some((_, own)) => format!("`{own}`"),
            None => format!("`{}`", names::in_r(path)),
        }
    }

    /// The inputs among the arguments of a call, a list that the caller protects. The last call's names are in the list
    /// `kept`, at `place`. R may leave this by a long jump.
    ///
    /// # Errors
    /// `InvalidInput` for arguments that do not fit the program.
    pub fn inputs(&self, args: SEXP, kept: SEXP, place: usize) -> Result<Given> {
        if let Some(given) = self.as_before(args, sexp::at(kept, place))? {
            return Ok(given);
        }
        let walk = ManuallyDrop::new(self.matched(args)?);
        let names = Protected::new(sexp::vector(SEXPTYPE::VECSXP, walk.names.len()));
        walk.names.iter().enumerate().for_each(|(i, &value)| sexp::set_at(names.sexp(), i, value));
        // Nothing is allocated from here on.
        let Walk { nodes, values, order, copies, .. } = ManuallyDrop::into_inner(walk);
        let order: Vec<usize> = order.into_iter().flatten().collect();
        let values = order.iter().map(|&i| values[i]).collect();
        sexp::set_at(kept, place, names.sexp());
        self.last.replace(Some(Rc::new(Match { nodes, order })));
        Ok(Given { values, _copies: copies })
    }

    /// The inputs, if the lists have the structure and names of the last call.
    fn as_before(&self, args: SEXP, names: SEXP) -> Result<Option<Given>> {
        let Some(last) = self.last.borrow().clone() else { return Ok(None) };
        let _names = Protected::new(names);
        // R may jump out of lists that make their elements as they are asked for.
        let (values, copies) = (InputObjects::new(), Vec::new());
        let takes_parts = self.takes_parts;
        let mut follow = ManuallyDrop::new(Follow { last, next: 0, names, takes_parts, values, copies });
        let is_same = follow.list(args);
        let Follow { last, values, copies, .. } = ManuallyDrop::into_inner(follow);
        if !is_same? {
            return Ok(None);
        }
        Ok(Some(Given { values: last.order.iter().map(|&i| values[i]).collect(), _copies: copies }))
    }

    fn matched(&self, args: SEXP) -> Result<Walk<'_>> {
        let mut walk = Walk { order: vec![None; self.inputs.len()], ..Walk::new(self) };
        walk.arguments(args)?;
        let missing = walk.order.iter().zip(&self.inputs).filter(|(value, _)| value.is_none());
        let missing: Vec<_> = missing.map(|(_, (_, own))| format!("`{own}`")).collect();
        if !missing.is_empty() {
            return Err(refusal(format!("There is no value for {}.", names::listed(missing)), ""));
        }
        Ok(walk)
    }

    /// Names that are known below a path, for a hint.
    fn known_below(&self, path: &str) -> String {
        let mut known: Vec<&str> = Vec::new();
        for (input, _) in &self.inputs {
            let below = if path.is_empty() { Some(input.as_str()) } else { input.strip_prefix(path) };
            let below = below.map(|below| below.strip_prefix(SLASH).unwrap_or(below));
            let Some(name) = below.and_then(|below| below.split(SLASH).next()) else { continue };
            if !known.contains(&name) {
                known.push(name);
            }
        }
        names::listed(known.into_iter().map(|name| format!("`{name}`")).collect())
    }
}

/// A walk along the structure of the last call.
struct Follow {
    last: Rc<Match>,
    next: usize,
    names: SEXP,
    takes_parts: bool,
    values: InputObjects,
    copies: Vec<PreservedObject>,
}

impl Follow {
    fn list(&mut self, list: SEXP) -> Result<bool> {
        let list = plain(list, &mut self.copies)?;
        for x in sexp::elements(list) {
            let Some(node) = self.last.nodes.get(self.next) else { return Ok(false) };
            self.next += 1;
            let goes_on = match *node {
                Node::Unused => true,
                Node::Null => sexp::is_nil(x),
                Node::Leaf => {
                    self.values.push(x);
                    !sexp::is_nil(x) && (self.takes_parts || !is_list(x))
                }
                Node::List { len, names } => {
                    is_list(x)
                        && sexp::len(x) == len
                        && has_names(x, names.map(|i| sexp::at(self.names, i)))
                        && self.list(x)?
                }
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the names of a list are these strings, which R stores once. Without names, it has none.
fn has_names(list: SEXP, names: Option<SEXP>) -> bool {
    let own = sexp::names(list);
    let Some(names) = names else { return sexp::is_nil(own) };
    if own == names {
        return true;
    }
    let is_text = sexp::kind(own) == SEXPTYPE::STRSXP && sexp::len(own) == sexp::len(names);
    // SAFETY: both are character vectors of the same length, whose elements R stores.
    unsafe {
        is_text
            && ALTREP(own) == 0
            && ALTREP(names) == 0
            && (0..sexp::len(own)).all(|i| *STRING_PTR_RO(own).add(i) == *STRING_PTR_RO(names).add(i))
    }
}

/// A list whose elements R stores.
fn plain(list: SEXP, copies: &mut Vec<PreservedObject>) -> Result<SEXP> {
    // SAFETY: asks for a mark of an R object.
    if unsafe { ALTREP(list) } == 0 {
        return Ok(list);
    }
    let copy = PreservedObject::copy_of(list)?;
    let list = copy.sexp();
    copies.push(copy);
    Ok(list)
}

/// Whether an R object is a list of arguments: one with a class is an object of something else.
fn is_list(x: SEXP) -> bool {
    sexp::kind(x) == SEXPTYPE::VECSXP && !sexp::is_object(x)
}

/// The walk of a first call, which looks up every name.
struct Walk<'a> {
    arguments: &'a Arguments,
    nodes: Vec<Node>,
    /// The names of the lists that have some.
    names: Vec<SEXP>,
    values: InputObjects,
    /// For each input, its number among the values.
    order: Vec<Option<usize>>,
    copies: Vec<PreservedObject>,
}

impl<'a> Walk<'a> {
    fn new(arguments: &'a Arguments) -> Self {
        Walk {
            arguments,
            nodes: Vec::new(),
            names: Vec::new(),
            values: InputObjects::new(),
            order: Vec::new(),
            copies: Vec::new(),
        }
    }

    fn arguments(&mut self, args: SEXP) -> Result<()> {
        if sexp::kind(args) != SEXPTYPE::VECSXP || sexp::len(args) != self.arguments.formals.len() {
            bail!(InvalidInput, "A function of a program was changed: create it again with pjrt_function().");
        }
        for (formal, x) in self.arguments.formals.iter().zip(sexp::elements(args)) {
            if !formal.is_empty() {
                self.value(x, formal, 1)?;
            } else if is_list(x) {
                self.list(x, "", 1)?;
            } else {
                let given = describe(x);
                let message = format!("The state must be a named list of the arguments that change, not {given}.");
                return Err(refusal(message, ""));
            }
        }
        Ok(())
    }

    /// Adds the value at a path.
    fn value(&mut self, x: SEXP, path: &str, depth: usize) -> Result<()> {
        match self.arguments.places.get(path) {
            Some(Place::Unused | Place::List { has_inputs: false }) => self.nodes.push(Node::Unused),
            _ if sexp::is_nil(x) => self.nodes.push(Node::Null),
            Some(&Place::Input(index)) if !is_list(x) || self.arguments.takes_parts => {
                if self.order[index].replace(self.values.len()).is_some() {
                    return Err(refusal(format!("There are several values for {}.", self.arguments.quoted(path)), ""));
                }
                self.values.push(x);
                self.nodes.push(Node::Leaf);
            }
            Some(Place::Input(_)) => {
                return Err(refusal(format!("{} must be an array, not a list.", self.arguments.quoted(path)), ""));
            }
            Some(Place::List { .. }) if is_list(x) => self.list(x, path, depth)?,
            Some(Place::List { .. }) => {
                return Err(refusal(
                    format!("{} must be a list, not {}.", self.arguments.quoted(path), describe(x)),
                    &format!("Its elements are {}.", self.arguments.known_below(path)),
                ));
            }
            // Without elements, it does not matter.
            None if is_list(x) && sexp::len(x) == 0 => self.nodes.push(Node::List { len: 0, names: None }),
            None => {
                let parent = path.rsplit_once(SLASH).map_or("", |(parent, _)| parent);
                return Err(refusal(
                    format!("The program has no argument {}.", self.arguments.quoted(path)),
                    &format!("The names there are {}.", self.arguments.known_below(parent)),
                ));
            }
        }
        Ok(())
    }

    /// Adds a list at a path; that of a state is empty.
    fn list(&mut self, list: SEXP, path: &str, depth: usize) -> Result<()> {
        if depth > MAX_NESTING {
            bail!(InvalidInput, "The arguments are lists that nest more than {MAX_NESTING} levels deep.");
        }
        let (names, len) = (sexp::names(list), sexp::len(list));
        let list = plain(list, &mut self.copies)?;
        let number = if sexp::is_nil(names) { None } else { Some(self.names.len()) };
        self.nodes.push(Node::List { len, names: number });
        self.names.extend(number.map(|_| names));
        for (i, x) in sexp::elements(list).enumerate() {
            let name = if number.is_some() { name(names, i)? } else { String::new() };
            let field = || self.arguments.classes.get(path)?.get(i).filter(|name| !name.is_empty()).cloned();
            let name = if name.is_empty() { field().unwrap_or_else(|| i.to_string()) } else { name };
            if !path.is_empty() {
                self.value(x, &format!("{path}{SLASH}{name}"), depth + 1)?;
            } else if self.arguments.places.contains_key(&name) && !self.is_formal(&name) {
                self.value(x, &name, depth + 1)?;
            } else {
                self.nodes.push(Node::Unused);
            }
        }
        Ok(())
    }

    fn is_formal(&self, name: &str) -> bool {
        self.arguments.formals.iter().any(|formal| formal == name)
    }
}

/// The name of an element in normal form, which may be empty.
fn name(names: SEXP, i: usize) -> Result<String> {
    // SAFETY: names are a character vector as long as the list that keeps them.
    match unsafe { sexp::text(STRING_ELT(names, i as _)) } {
        Some(name) => Ok(names::normal(name)),
        None => bail!(InvalidInput, "Names of arguments must be valid text and not NA."),
    }
}
