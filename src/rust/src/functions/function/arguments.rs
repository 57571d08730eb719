//! The arguments of a function: nested lists become the inputs of its program, in order. A call whose lists have the same
//! structure and names as the last call's reuses its order.

use super::refusal;
use crate::execution::inputs::{Given, InputObjects};
use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::lists::{self, is_list, Step, Walk};
use crate::r::sexp::{self, Protected};
use extendr_ffi::{ALTREP, SEXP, SEXPTYPE, STRING_PTR_RO};
use pjrt_program::callable::{Callable, Class};
use pjrt_program::names::{self, SLASH};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// The arguments that a function takes.
pub struct Arguments {
    /// An empty name is that of a list whose elements are arguments themselves; others in it are ignored.
    formals: Vec<String>,
    /// What is at a path in normal form.
    places: HashMap<String, Place>,
    /// What is at a path of exact names. Several such paths may have one normal form.
    exact: HashMap<String, Place>,
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
    /// NULL, or a list without arrays.
    Empty,
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
    /// NULL, or a list without arrays, where the program takes none.
    Empty,
    /// Ignored, whatever it is.
    Unused,
    /// A list of this length, and the number of its names.
    List {
        len: usize,
        names: Option<usize>,
    },
}

impl Arguments {
    pub fn new(function: &Callable) -> Self {
        let (mut places, mut exact, mut inputs) = (HashMap::new(), HashMap::new(), Vec::new());
        let exact_paths = function.arguments.exact_paths(function.inputs.len());
        for ((own, exact_path), input) in function.input_paths().into_iter().zip(exact_paths).zip(&function.inputs) {
            let path = names::normal(&own);
            let place = if input.kept { Place::Input(inputs.len()) } else { Place::Unused };
            add_place(&mut places, &path, place);
            add_place(&mut exact, &exact_path, place);
            if input.kept {
                inputs.push((path, own));
            }
        }
        for path in function.arguments.tree.empty_paths() {
            places.entry(names::normal(&path)).or_insert(Place::Empty);
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
        let (takes_parts, last) = (function.devices > 1, RefCell::default());
        Arguments { formals, places, exact, inputs, classes, takes_parts, last }
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
        let first = ManuallyDrop::new(self.matched(args)?);
        let names = Protected::new(sexp::list(first.names.iter().copied()));
        // Nothing is allocated from here on.
        let First { nodes, values, order, walk, .. } = ManuallyDrop::into_inner(first);
        let order: Vec<usize> = order.into_iter().flatten().collect();
        let values = order.iter().map(|&i| values[i]).collect();
        sexp::set_at(kept, place, names.sexp());
        self.last.replace(Some(Rc::new(Match { nodes, order })));
        Ok(Given::new(values, walk))
    }

    /// The inputs, if the lists have the structure and names of the last call.
    fn as_before(&self, args: SEXP, names: SEXP) -> Result<Option<Given>> {
        let Some(last) = self.last.borrow().clone() else { return Ok(None) };
        // A list that makes its elements as they are asked for may call the function.
        let _names = Protected::new(names);
        let mut nodes = last.nodes.iter();
        let (mut values, mut walk) = (InputObjects::new(), Walk::default());
        walk.enter(args)?;
        while let Some(step) = walk.next()? {
            let Step::Element(x) = step else { continue };
            let is_same = match nodes.next() {
                None => false,
                Some(Node::Unused) => true,
                Some(Node::Empty) => lists::is_empty(x)?,
                Some(Node::Leaf) => {
                    values.push(x);
                    !sexp::is_nil(x) && (self.takes_parts || !is_list(x))
                }
                Some(&Node::List { len, names: number }) => {
                    let is_same =
                        is_list(x) && sexp::len(x) == len && has_names(x, number.map(|number| sexp::at(names, number)));
                    if is_same {
                        walk.enter(x)?;
                    }
                    is_same
                }
            };
            if !is_same {
                return Ok(None);
            }
        }
        let values = last.order.iter().map(|&i| values[i]).collect();
        Ok(Some(Given::new(values, walk)))
    }

    fn matched(&self, args: SEXP) -> Result<First<'_>> {
        let (order, values) = (vec![None; self.inputs.len()], InputObjects::new());
        let (walk, nodes, names) = (Walk::default(), Vec::new(), Vec::new());
        let mut first = First { arguments: self, walk, nodes, names, values, order };
        first.walk(args)?;
        let missing = first.order.iter().zip(&self.inputs).filter(|(value, _)| value.is_none());
        let missing: Vec<_> = missing.map(|(_, (_, own))| format!("`{own}`")).collect();
        if !missing.is_empty() {
            return Err(refusal(format!("There is no value for {}.", names::listed(missing)), ""));
        }
        Ok(first)
    }

    /// What is in the elements without a name of the class at a path: those that the program does not use.
    fn nameless(&self, path: &str) -> Vec<Option<Place>> {
        let names = self.classes.get(path).map_or(&[][..], Vec::as_slice).iter().enumerate();
        let nameless = names.filter(|(_, name)| name.is_empty());
        nameless.map(|(i, _)| self.places.get(&format!("{path}{SLASH}{i}")).copied()).collect()
    }

    #[cold]
    fn takes_nothing(&self, path: &str) -> Failure {
        let message = format!("{} must be NULL or an empty list", self.quoted(path));
        refusal(format!("{message}: the program takes no arrays there."), "")
    }

    /// A hint that ends with the names that are known below a path; empty without such names.
    fn known_below(&self, start: &str, path: &str) -> String {
        let mut known: Vec<&str> = Vec::new();
        for (input, _) in &self.inputs {
            let below = if path.is_empty() { Some(input.as_str()) } else { input.strip_prefix(path) };
            let below = below.map(|below| below.strip_prefix(SLASH).unwrap_or(below));
            let Some(name) = below.and_then(|below| below.split(SLASH).next()) else { continue };
            if !known.contains(&name) {
                known.push(name);
            }
        }
        if known.is_empty() {
            return String::new();
        }
        let known = known.into_iter().map(|name| format!("`{}`", names::in_r(name))).collect();
        format!("{start} {}.", names::listed(known))
    }
}

/// Adds the place at a path, and the lists around it.
fn add_place(places: &mut HashMap<String, Place>, path: &str, place: Place) {
    for (end, _) in path.match_indices(SLASH) {
        let list = places.entry(path[..end].to_owned()).or_insert(Place::List { has_inputs: false });
        if let (Place::List { has_inputs }, Place::Input(_)) = (list, place) {
            *has_inputs = true;
        }
    }
    places.insert(path.to_owned(), place);
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

/// A first call, which looks up every name.
struct First<'a> {
    arguments: &'a Arguments,
    walk: Walk,
    nodes: Vec<Node>,
    /// The names of the lists that have some.
    names: Vec<SEXP>,
    values: InputObjects,
    /// For each input, its number among the values.
    order: Vec<Option<usize>>,
}

impl First<'_> {
    fn walk(&mut self, args: SEXP) -> Result<()> {
        let formals = &self.arguments.formals;
        if sexp::kind(args) != SEXPTYPE::VECSXP || sexp::len(args) != formals.len() {
            bail!(InvalidInput, "A function of a program was changed: create it again with pjrt_function().");
        }
        lists::check(args)?;
        // The path of the last element in normal form and in exact names, and how long the paths of the lists around it are.
        let (mut path, mut exact, mut lists) = (String::new(), String::new(), vec![(0, 0)]);
        self.walk.enter(args)?;
        while let Some(step) = self.walk.next()? {
            let Step::Element(x) = step else {
                lists.pop();
                continue;
            };
            let (len, exact_len) = lists.last().copied().unwrap_or_default();
            path.truncate(len);
            exact.truncate(exact_len);
            let position = self.walk.position();
            if self.walk.depth() > 1 {
                let (name, exact_name) = self.name(&path, position)?;
                if path.is_empty() && (self.is_formal(&name) || !self.arguments.places.contains_key(&name)) {
                    // In a state: not one of the arguments that change.
                    self.nodes.push(Node::Unused);
                    continue;
                }
                if path.is_empty() {
                    exact.push_str(&name);
                } else {
                    path.push(SLASH);
                    exact.push(SLASH);
                    exact.push_str(&exact_name);
                }
                path.push_str(&name);
            } else if formals[position].is_empty() {
                if !is_list(x) {
                    let given = describe(x);
                    let message = format!("The state must be a named list of the arguments that change, not {given}.");
                    return Err(refusal(message, ""));
                }
                self.enter(x)?;
                lists.push((0, 0));
                continue;
            } else {
                path.push_str(&formals[position]);
                exact.push_str(&formals[position]);
            }
            let place = self.arguments.exact.get(&exact).or_else(|| self.arguments.places.get(&path)).copied();
            if self.value(x, &path, place)? {
                lists.push((path.len(), exact.len()));
            }
        }
        Ok(())
    }

    /// The name of an element of the list at a path, in normal form and exactly.
    fn name(&self, path: &str, position: usize) -> Result<(String, String)> {
        let name = self.walk.name()?;
        if !name.is_empty() {
            let normal = names::normal(name);
            return Ok((if normal.is_empty() { position.to_string() } else { normal }, names::exact(name)));
        }
        let field = self.arguments.classes.get(path).and_then(|names| names.get(position));
        let name = field.filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| position.to_string());
        Ok((name.clone(), name))
    }

    fn is_formal(&self, name: &str) -> bool {
        self.arguments.formals.iter().any(|formal| formal == name)
    }

    /// Adds the value at a path. Returns whether it is a list that was entered.
    fn value(&mut self, x: SEXP, path: &str, place: Option<Place>) -> Result<bool> {
        match place {
            Some(Place::Unused | Place::List { has_inputs: false }) => self.nodes.push(Node::Unused),
            _ if sexp::is_nil(x) => self.nodes.push(Node::Empty),
            Some(Place::Input(index)) if !is_list(x) || self.arguments.takes_parts => {
                if self.order[index].replace(self.values.len()).is_some() {
                    return Err(refusal(
                        format!("There are several values for `{}`.", self.arguments.inputs[index].1),
                        "",
                    ));
                }
                self.values.push(x);
                self.nodes.push(Node::Leaf);
            }
            Some(Place::Input(_)) => {
                return Err(refusal(format!("{} must be an array, not a list.", self.arguments.quoted(path)), ""));
            }
            Some(Place::List { .. }) if is_list(x) => {
                self.check_length(x, path)?;
                self.enter(x)?;
                return Ok(true);
            }
            Some(Place::List { .. }) => {
                return Err(refusal(
                    format!("{} must be a list, not {}.", self.arguments.quoted(path), describe(x)),
                    &self.arguments.known_below("Its elements are", path),
                ));
            }
            Some(Place::Empty) | None if lists::is_empty(x)? => self.nodes.push(Node::Empty),
            Some(Place::Empty) => return Err(self.arguments.takes_nothing(path)),
            None => {
                let parent = path.rsplit_once(SLASH).map_or("", |(parent, _)| parent);
                let nameless = self.arguments.nameless(parent);
                if nameless.iter().any(|place| *place != Some(Place::Empty)) {
                    self.nodes.push(Node::Unused);
                } else if nameless.is_empty() {
                    return Err(refusal(
                        format!("The program has no argument {}.", self.arguments.quoted(path)),
                        &self.arguments.known_below("The names there are", parent),
                    ));
                } else {
                    return Err(self.arguments.takes_nothing(path));
                }
            }
        }
        Ok(false)
    }

    /// Checks that a list for a class is not longer, where any name may be one that the program does not use.
    fn check_length(&self, list: SEXP, path: &str) -> Result<()> {
        let Some(names) = self.arguments.classes.get(path) else { return Ok(()) };
        if names.iter().any(String::is_empty) && sexp::len(list) > names.len() {
            let (quoted, most, given) = (self.arguments.quoted(path), names.len(), sexp::len(list));
            let message = format!("{quoted} must have at most {most} elements, not {given}.");
            return Err(refusal(message, &self.arguments.known_below("The known names are", path)));
        }
        Ok(())
    }

    /// Enters a list with its names.
    fn enter(&mut self, list: SEXP) -> Result<()> {
        let names = self.walk.enter_named(list)?;
        let number = names.map(|_| self.names.len());
        self.nodes.push(Node::List { len: sexp::len(list), names: number });
        // The names of the list itself, by which the next call is compared.
        self.names.extend(names.map(|_| sexp::names(list)));
        Ok(())
    }
}
