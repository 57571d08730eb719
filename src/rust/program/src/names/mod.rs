//! Names of a program's inputs and outputs, and the order in which inputs with names belong.
//!
//! The same name has many spellings: `params['dense']['w']` in JAX, `params$dense$w` in R, `params.dense.w`,
//! `params/dense/w`. All have the same normal form: the parts, with positions from 0, between slashes.

use pjrt_base::counted::{counted, shortened};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::sync::Unpoisoned;
use pjrt_data::tree::add_step;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

/// Between the parts in a normal form, and in the paths of inputs.
pub const SLASH: char = '/';

const SEPARATORS: [char; 9] = ['.', '$', SLASH, '[', ']', '\'', '"', '`', '\\'];

/// How many names an error shows.
const SHOWN: usize = 5;

/// A name in its normal form. Positions as R writes them, `[[1]]`, count from 1, all others from 0.
pub fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    let mut push = |part: &str| {
        if !normal.is_empty() {
            normal.push(SLASH);
        }
        normal.push_str(part);
    };
    let mut rest = name.strip_prefix('%').unwrap_or(name);
    while let Some(first) = rest.chars().next() {
        if let Some((position, after)) = position_of_r(rest) {
            push(&position.to_string());
            rest = after;
        } else if SEPARATORS.contains(&first) {
            rest = &rest[first.len_utf8()..];
        } else {
            let (part, after) = rest.split_at(rest.find(SEPARATORS).unwrap_or(rest.len()));
            push(part);
            rest = after;
        }
    }
    normal
}

/// The name of one element, whatever signs are in it, as a part of a path.
pub fn exact(name: &str) -> String {
    // No name has a zero byte.
    name.replace(SLASH, "\0")
}

/// The position, from 0, in `[[1]]`, and the text after it.
fn position_of_r(text: &str) -> Option<(usize, &str)> {
    let (number, after) = text.strip_prefix("[[")?.split_once("]]")?;
    Some((number.parse::<usize>().ok()?.checked_sub(1)?, after))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The names of an HLO module's parameters, some recorded from a source: without the numbers that make instructions unique,
/// unless these distinguish parameters.
pub fn of_parameters(own: Vec<String>, recorded: &[Option<String>]) -> Vec<String> {
    let short = |(name, recorded): (&String, &Option<String>)| match name.rsplit_once('.') {
        Some((base, number)) if !base.is_empty() && is_number(number) && recorded.is_none() && !is_generated(name) => {
            base.to_owned()
        }
        _ => name.clone(),
    };
    let short: Vec<String> = own.iter().zip(recorded).map(short).collect();
    let mut seen = HashSet::new();
    if short.iter().all(|name| seen.insert(normal(name))) {
        short
    } else {
        own
    }
}

/// Whether a compiler has made up the name of an argument.
pub fn is_generated(name: &str) -> bool {
    if let Some(name) = name.strip_prefix('%') {
        return is_number(name) || name.strip_prefix("arg").is_some_and(is_number);
    }
    // As HLO names its instructions: the number makes the name unique.
    let (base, is_numbered) = match name.rsplit_once('.') {
        Some((base, number)) if is_number(number) => (base, true),
        _ => (name, false),
    };
    let counts = |prefix: &str| base.strip_prefix(prefix).is_some_and(is_number);
    // JAX replaces the brackets and quotes of its own names by underscores.
    let is_mangled = base.contains("__") || matches!(base, "param" | "parameter") || counts("param_");
    name.is_empty() || counts("Arg_") || (is_numbered && is_mangled)
}

/// The names of a program's inputs, ready to be looked up.
#[derive(Debug, Default)]
pub struct InputNames {
    table: OnceLock<Table>,
    /// The inputs of the last match, and their order.
    last: Mutex<Option<(String, Order)>>,
}

/// For each argument of a program, the input for it, from 0.
pub type Order = Arc<[usize]>;

/// The arguments by their names in normal form.
type Table = HashMap<String, Vec<usize>>;

/// Inputs in the order of a call.
///
/// Each is its path, which is empty without a name, and a zero byte. What is the same text has the same order.
#[derive(Debug, Default)]
pub struct Inputs {
    text: String,
    has_names: bool,
}

const END: char = '\0';

/// The most bytes of the paths of inputs.
const MAX_TEXT: usize = 1 << 28;

impl Inputs {
    #[inline]
    pub fn push_unnamed(&mut self) {
        self.text.push(END);
    }

    /// Adds an input with a name after the path of its list, which ends with a slash or is empty. Their parts are in any
    /// spelling, with positions from 0.
    ///
    /// # Errors
    /// `InvalidInput` for more text than the names of any program have: paths repeat the names of the lists above.
    #[inline]
    pub fn push(&mut self, list: &str, name: &str) -> Result<()> {
        if self.text.len() + list.len() + name.len() > MAX_TEXT {
            bail!(InvalidInput, "The names of the inputs are too long.");
        }
        self.has_names = true;
        self.text.push_str(list);
        self.text.push_str(name);
        self.text.push(END);
        Ok(())
    }

    /// Whether any input has a name.
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.text.split_terminator(END).map(|path| (!path.is_empty()).then_some(path))
    }
}

impl InputNames {
    /// The order of inputs for the arguments with these names. Inputs are matched as in R: first by name, then the
    /// remaining ones by position.
    ///
    /// # Errors
    /// `InvalidInput` for names that fit no argument, several arguments, or one that has an input already, and if
    /// the number of inputs is wrong.
    pub fn order<'a>(&self, arguments: impl Fn() -> Vec<&'a str>, inputs: &Inputs) -> Result<Order> {
        let mut last = self.last.lock().unpoisoned();
        if let Some((_, order)) = last.as_ref().filter(|(text, _)| *text == inputs.text) {
            return Ok(order.clone());
        }
        let arguments = arguments();
        let order: Order = match_names(self.table.get_or_init(|| table(&arguments)), &arguments, inputs)?.into();
        *last = Some((inputs.text.clone(), order.clone()));
        Ok(order)
    }
}

fn table(arguments: &[&str]) -> Table {
    let mut table = Table::new();
    for (index, name) in arguments.iter().enumerate().filter(|(_, name)| !is_generated(name)) {
        table.entry(normal(name)).or_default().push(index);
    }
    table
}

fn match_names(table: &Table, arguments: &[&str], inputs: &Inputs) -> Result<Vec<usize>> {
    ensure!(
        !table.is_empty(),
        invalid("The program has no argument names. Expected unnamed arguments.".into())
            .hint("Pass the inputs in the program's order, without names: executable_info() shows them.")
    );
    let mut order = vec![None; arguments.len()];
    let (mut unknown, mut ambiguous, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for (input, path) in inputs.iter().enumerate() {
        let Some(path) = path else { continue };
        match table.get(&normal(path)).map(Vec::as_slice) {
            Some(&[index]) if order[index].is_none() => order[index] = Some(input),
            Some(&[index]) => repeated.push(quoted(arguments[index])),
            Some(several) => ambiguous.push((path, several)),
            None => unknown.push(quoted(path)),
        }
    }
    if !unknown.is_empty() {
        let known = arguments.iter().filter(|name| !is_generated(name)).map(|name| quoted(name)).collect();
        let no = if unknown.len() == 1 { "argument" } else { "arguments" };
        return Err(invalid(format!(
            "The program has no {no} {}. Expected unnamed arguments, or its names.",
            listed(unknown)
        ))
        .hint(format!("Its argument names are {}.", listed(known))));
    }
    if let Some((path, several)) = ambiguous.first() {
        let several = several.iter().map(|&index| quoted(arguments[index])).collect();
        return Err(invalid(format!("The name {} fits several arguments: {}.", quoted(path), listed(several)))
            .hint("Pass the inputs in the program's order, without names."));
    }
    ensure!(repeated.is_empty(), InvalidInput, "More than one input is given for {}.", named("argument", repeated));
    let open = arguments.iter().zip(&order).filter(|(_, input)| input.is_none());
    check_order(&open.map(|(name, _)| *name).collect::<Vec<_>>())?;
    let mut unnamed = inputs.iter().enumerate().filter(|(_, path)| path.is_none()).map(|(input, _)| input);
    for place in order.iter_mut().filter(|place| place.is_none()) {
        *place = unnamed.next();
    }
    let surplus = unnamed.count();
    let all = || counted(arguments.len(), "argument");
    if surplus > 0 {
        let (all, given) = (all(), arguments.len() + surplus);
        bail!(InvalidInput, "The program takes {all}, but got {given} inputs: {surplus} too many without a name.");
    }
    let missing = arguments.iter().zip(1..).zip(&order).filter(|(_, input)| input.is_none());
    let missing: Vec<_> = missing.map(|((name, number), _)| described(number, name)).collect();
    if !missing.is_empty() {
        let (all, count) = (all(), missing.len());
        let has = if count == 1 { "has" } else { "have" };
        bail!(InvalidInput, "The program takes {all}, but {count} of them {has} no input: {}.", listed(missing));
    }
    Ok(order.into_iter().flatten().collect())
}

#[cold]
pub(crate) fn invalid(message: String) -> Error {
    Error::new(Kind::InvalidInput, message)
}

/// Refuses to fill arguments of a Python function by position if the program takes them in another order. Such
/// arguments are called `args[0]` and so on.
fn check_order(open: &[&str]) -> Result<()> {
    // Positions as numbers, keys as JAX sorts them.
    let place = |name: &str| -> Option<Vec<(Option<usize>, String)>> {
        let rest = normal(name).strip_prefix("args/")?.to_owned();
        Some(rest.split(SLASH).map(|part| (part.parse().ok(), part.to_owned())).collect())
    };
    if open.iter().filter_map(|name| place(name)).is_sorted() {
        return Ok(());
    }
    let listed = listed(open.iter().map(|name| quoted(name)).collect());
    Err(invalid(format!("The program takes its arguments in another order than the function: {listed}."))
        .hint("Pass them by name: `args = list(x, y)` are the first and the second."))
}

fn described(number: usize, name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" ({})", quoted(name)) };
    format!("number {number}{name}")
}

/// A name in backticks, cut short if it is long.
fn quoted(name: &str) -> String {
    format!("`{}`", shortened(name, 100))
}

/// The first items, and the number of the others.
pub fn listed(items: Vec<String>) -> String {
    first_of(&items, SHOWN)
}

/// At most so many of the items, and the number of the others.
pub fn first_of(items: &[String], most: usize) -> String {
    let more = items.len().saturating_sub(most);
    let shown = items[..items.len() - more].join(", ");
    if more > 0 {
        format!("{shown} and {more} more")
    } else {
        shown
    }
}

fn named(noun: &str, items: Vec<String>) -> String {
    match items.len() {
        1 => format!("{noun} {}", items[0]),
        n => format!("{} {}", counted(n, noun), listed(items)),
    }
}

/// The argument that a name stands for, from 0, if it is just one.
pub fn find(arguments: &[&str], name: &str) -> Option<usize> {
    match table(arguments).get(&normal(name)).map(Vec::as_slice) {
        Some(&[index]) => Some(index),
        _ => None,
    }
}

/// The names of several outputs in R, from the paths to them in JAX: `loss` for `result['loss']`. `None` unless all have
/// names of their own: a position alone is not one.
pub fn of_outputs<'a>(paths: impl Iterator<Item = Option<&'a str>>) -> Option<Vec<String>> {
    let names = paths.map(|path| name_in_r(path?)).collect::<Option<Vec<_>>>()?;
    let mut sorted: Vec<_> = names.iter().map(|name| normal(name)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    (names.len() > 1 && sorted.len() == names.len()).then_some(names)
}

fn name_in_r(path: &str) -> Option<String> {
    // Older versions of JAX leave the root out.
    let path = path.strip_prefix("result").filter(|rest| rest.starts_with(['[', '.'])).unwrap_or(path);
    let normal = normal(path);
    let has_key = normal.split(SLASH).any(|part| part.parse::<usize>().is_err());
    // A name of its own needs no backticks.
    let name = || if normal.contains(SLASH) { in_r(&normal) } else { normal.clone() };
    has_key.then(name).filter(|name| !name.is_empty())
}

/// A name in normal form as R writes it: `layers[[1]]$w` for `layers/0/w`.
pub fn in_r(normal: &str) -> String {
    let mut name = String::new();
    for part in normal.split(SLASH) {
        match part.parse::<usize>() {
            Ok(position) => add_step(&mut name, "", position),
            Err(_) if part.is_empty() => {}
            Err(_) => add_step(&mut name, part, 0),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(arguments: &[&str], inputs: &[&str]) -> std::result::Result<Vec<usize>, String> {
        let mut given = Inputs::default();
        for input in inputs {
            if input.is_empty() {
                given.push_unnamed();
            } else {
                given.push("", input).unwrap();
            }
        }
        let names = InputNames::default();
        let found = || names.order(|| arguments.to_vec(), &given).map(|order| order.to_vec());
        let first = found();
        // from the cache
        assert_eq!(found().is_ok(), first.is_ok());
        assert_eq!(found().ok(), first.as_ref().ok().cloned());
        first.map_err(|error| error.message().to_owned())
    }

    #[test]
    fn spellings_of_a_name_have_one_normal_form() {
        for name in [
            "params['dense_0']['bias']",
            "params[\"dense_0\"][\"bias\"]",
            "params.dense_0.bias",
            "params$dense_0$bias",
            "params$`dense_0`$bias",
            "params[[\"dense_0\"]]$bias",
            "params/dense_0/bias",
            "%params.dense_0.bias",
        ] {
            assert_eq!(normal(name), "params/dense_0/bias", "{name}");
        }
        for name in ["layers[0].w", "layers[[1]]$w", "layers/0/w", "layers.0.w", "layers['0'].w"] {
            assert_eq!(normal(name), "layers/0/w", "{name}");
        }
        assert_eq!(normal("[[0]][[x]]é.ü"), "0/x/é/ü");
        for empty in ["", "%", "..", "[[", "[]"] {
            assert_eq!(normal(empty), "", "{empty}");
        }
    }

    #[test]
    fn numbers_of_instructions_are_not_part_of_names() {
        let names = |own: &[&str], recorded: &[Option<&str>]| {
            let recorded: Vec<_> = recorded.iter().map(|name| name.map(str::to_owned)).collect();
            of_parameters(own.iter().map(|&name| name.to_owned()).collect(), &recorded)
        };
        let own = ["x.2", "y", "Arg_0.1", "layers.0", ".3"];
        assert_eq!(names(&own, &[None, None, None, Some("layers.0"), None]), ["x", "y", "Arg_0.1", "layers.0", ".3"]);
        for same in [["x.1", "x.2"], ["x.1", "x"]] {
            assert_eq!(names(&same, &[None, None]), same);
        }
    }

    #[test]
    fn generated_names_are_not_names() {
        for name in ["", "%0", "%arg12", "Arg_0.1", "Arg_3", "param.2", "param_0.1", "params__w__.3", "parameter.1"] {
            assert!(is_generated(name), "{name}");
        }
        for name in ["%x", "%arg", "%args0", "x.3", "params['w']", "param", "my__x", "layers.0", "x__y['a.1']", "é.1"]
        {
            assert!(!is_generated(name), "{name}");
        }
    }

    #[test]
    fn names_are_matched_first_and_others_fill_the_rest() {
        let arguments = ["params['b']", "params['w']", "%x"];
        assert_eq!(order(&arguments, &["x", "params/w", "params/b"]), Ok(vec![2, 1, 0]));
        assert_eq!(order(&arguments, &["", "params.b", ""]), Ok(vec![1, 0, 2]));
        assert_eq!(order(&arguments, &["", "", ""]), Ok(vec![0, 1, 2]));
        assert_eq!(order(&["%arg0", "x"], &["x", ""]), Ok(vec![1, 0]));
    }

    #[test]
    fn arguments_in_another_order_than_the_functions_need_names() {
        let arguments = ["bias", "args[1]", "weight", "args[0]"];
        let problem = "The program takes its arguments in another order than the function: `args[1]`, `args[0]`.";
        assert_eq!(order(&arguments, &["weight", "bias", "", ""]), Err(problem.into()));
        assert_eq!(order(&arguments, &["weight", "bias", "args[0]", "args[1]"]), Ok(vec![1, 3, 0, 2]));
        assert_eq!(order(&arguments, &["weight", "bias", "args[0]", ""]), Ok(vec![1, 3, 0, 2]));
        assert_eq!(order(&["w", "args[0]", "args[1]"], &["w", "", ""]), Ok(vec![0, 1, 2]));
        assert_eq!(order(&["w", "args[0]['x']"], &["w", ""]), Ok(vec![0, 1]));
        assert!(order(&["w", "args[0]['y']", "args[0]['x']"], &["w", "", ""]).is_err());
        assert!(order(&["w", "args[2]", "args[10]"], &["w", "", ""]).is_ok());
    }

    #[test]
    fn inputs_that_do_not_fit_are_refused_with_their_names() {
        let problem = |inputs: &[&str]| order(&["a", "b", "%arg2"], inputs).unwrap_err();
        assert_eq!(
            problem(&["a", "bb", "c"]),
            "The program has no arguments `bb`, `c`. Expected unnamed arguments, or its names."
        );
        assert_eq!(
            problem(&["arg2", ""]),
            "The program has no argument `arg2`. Expected unnamed arguments, or its names."
        );
        assert_eq!(problem(&["a", "$a", "b"]), "More than one input is given for argument `a`.");
        assert_eq!(
            problem(&["a", "", "", ""]),
            "The program takes 3 arguments, but got 4 inputs: 1 too many without a name."
        );
        assert_eq!(
            problem(&["b"]),
            "The program takes 3 arguments, but 2 of them have no input: number 1 (`a`), number 3 (`%arg2`)."
        );
        assert!(order(&["%0", ""], &["a", "b"]).unwrap_err().contains("no argument names"));
        assert_eq!(
            order(&["a.b", "a['b']"], &["a/b", ""]).unwrap_err(),
            "The name `a/b` fits several arguments: `a.b`, `a['b']`."
        );
        let many: Vec<_> = (0..300).map(|i| format!("x{i}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(
            order(&many, &["x0"]).unwrap_err(),
            "The program takes 300 arguments, but 299 of them have no input: number 2 (`x1`), number 3 (`x2`), number 4 \
             (`x3`), number 5 (`x4`), number 6 (`x5`) and 294 more."
        );
    }

    #[test]
    fn outputs_have_names_if_all_paths_have_distinct_keys() {
        let names = |paths: &[&str]| of_outputs(paths.iter().map(|path| Some(*path)));
        assert_eq!(names(&["result['a']", "result['b']['c']"]), Some(vec!["a".into(), "b$c".into()]));
        assert_eq!(names(&["['a']", "['result']"]), Some(vec!["a".into(), "result".into()]));
        assert_eq!(names(&["result[0].w", "result.x[1]"]), Some(vec!["[[1]]$w".into(), "x[[2]]".into()]));
        for paths in [&["result[0]", "result[1]['a']"][..], &["a"], &[], &["a", ""], &["a", "['a']"], &["a", "[0]"]] {
            assert_eq!(names(paths), None, "{paths:?}");
        }
        assert_eq!(of_outputs([Some("a"), None].into_iter()), None);
    }
}
