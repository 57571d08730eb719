//! The arguments of a function: their names, and the nested lists that they are.

use super::{Class, Nested};
use crate::exported::Tree;
use crate::names::{is_generated, normal, SLASH};
use pjrt_base::error::Result;
use std::collections::{HashMap, HashSet};

/// Names that the R functions need themselves.
const TAKEN: [&str; 4] = ["...", ".callable", ".source", "ffi_function_call"];

/// How many lists a name may lead into.
const MAX_PARTS: usize = 100;

/// Names that differ from each other, from `others`, and from what the R functions need: a repeated `x` becomes `x_1`.
pub(super) fn unique_names(names: Vec<String>, others: &[&str]) -> Vec<String> {
    let mut known: HashSet<String> = names.iter().cloned().collect();
    let mut used: HashSet<String> = TAKEN.iter().chain(others).map(|&name| name.to_owned()).collect();
    known.extend(used.iter().cloned());
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut unique = Vec::with_capacity(names.len());
    for name in names {
        let mut chosen = name.clone();
        if used.contains(&name) {
            let count = next.entry(name.clone()).or_insert(1);
            while known.contains(&chosen) {
                chosen = format!("{name}_{count}");
                *count += 1;
            }
            known.insert(chosen.clone());
        }
        used.insert(chosen.clone());
        unique.push(chosen);
    }
    unique
}

/// The positional and the named arguments of a Python function.
fn parts(pair: &Tree) -> (&[Tree], &[(String, Tree)]) {
    pair.arguments().unwrap_or((std::slice::from_ref(pair), &[]))
}

/// The registered classes among the arguments of a Python function.
pub(super) fn classes(pair: &Tree) -> Vec<Class> {
    let (positional, named) = parts(pair);
    let mut classes = Vec::new();
    for (argument, tree) in positional.iter().chain(named.iter().map(|(_, tree)| tree)).enumerate() {
        let mut found = Vec::new();
        tree.classes("", &mut found);
        classes.extend(found.into_iter().map(|(path, names)| Class { argument, path, names }));
    }
    classes
}

/// The positional and named arguments of a Python function, and then a further one. `known` are the names of positional
/// ones.
pub(super) fn of_pair(pair: &Tree, known: &[Option<String>], last: Option<(&str, Tree)>) -> Result<Nested> {
    let (positional, named) = parts(pair);
    // The names of keywords are fixed, and names in Python come before those that are made up.
    let keywords: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let known = |i: usize| known.get(i).cloned().flatten();
    let mut order: Vec<usize> = (0..positional.len()).collect();
    order.sort_by_key(|&i| known(i).is_none());
    let name = |&i: &usize| known(i).unwrap_or_else(|| format!("x{}", i + 1));
    let unique = unique_names(order.iter().map(name).collect(), &keywords);
    let mut names = vec![String::new(); positional.len()];
    order.into_iter().zip(unique).for_each(|(i, name)| names[i] = name);
    names.extend(keywords.iter().map(|&name| name.to_owned()));
    let mut arguments: Vec<&Tree> = positional.iter().chain(named.iter().map(|(_, tree)| tree)).collect();
    if let Some((name, tree)) = &last {
        let others: Vec<&str> = names.iter().map(String::as_str).collect();
        let name = unique_names(vec![(*name).to_owned()], &others);
        names.extend(name);
        arguments.push(tree);
    }
    let arguments = names.into_iter().zip(arguments).map(|(name, tree)| Ok((name, Nested::of(tree)?)));
    Nested::list(&arguments.collect::<Result<Vec<_>>>()?)
}

/// The arguments of a program whose inputs have these names. Those that are made up, or do not lead to a place of their
/// own, are called by their position.
pub(super) fn of_names(names: &[String]) -> Result<Nested> {
    if names.is_empty() {
        return Nested::list::<&str>(&[]);
    }
    let given: Vec<String> =
        names.iter().map(|name| if is_generated(name) { String::new() } else { normal(name) }).collect();
    let mut lists = HashSet::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for path in &given {
        lists.extend(path.match_indices(SLASH).map(|(end, _)| &path[..end]));
        *counts.entry(path).or_default() += 1;
    }
    let is_bad = |path: &&str| {
        first(path).bytes().all(|byte| byte.is_ascii_digit())
            || counts[path] > 1
            || lists.contains(path)
            || path.split(SLASH).count() > MAX_PARTS
    };
    // What is bad in a list makes all of it bad.
    let bad: HashSet<&str> = given.iter().map(String::as_str).filter(is_bad).map(first).collect();
    let good: Vec<&str> = given.iter().map(|path| first(path)).filter(|name| !bad.contains(name)).collect();
    let is_bad = |path: &str| bad.contains(first(path));
    let numbered = (1..).zip(&given).filter(|(_, path)| is_bad(path)).map(|(number, _)| format!("x{number}")).collect();
    let mut numbered = unique_names(numbered, &good).into_iter();
    let path = |path: &String| if is_bad(path) { numbered.next().unwrap_or_default() } else { path.clone() };
    let paths: Vec<String> = given.iter().map(path).collect();
    // In the order of their first arrays, with names that R functions can have.
    let mut seen = HashSet::new();
    let order: Vec<&str> = paths.iter().map(|path| first(path)).filter(|name| seen.insert(*name)).collect();
    let unique = unique_names(order.iter().map(|&name| name.to_owned()).collect(), &[]);
    let renamed: HashMap<&str, String> = order.into_iter().zip(unique).collect();
    let renamed = |path: &String| format!("{}{}", renamed[first(path)], &path[first(path).len()..]);
    nest(&paths.iter().map(renamed).collect::<Vec<_>>())
}

/// The argument that a path in normal form leads to.
fn first(path: &str) -> &str {
    path.split(SLASH).next().unwrap_or_default()
}

/// The nested list of the positions of some paths in normal form. Lists whose elements all have numbers have no names.
pub(super) fn nest(paths: &[String]) -> Result<Nested> {
    if paths.iter().any(|path| path.split(SLASH).count() > MAX_PARTS) {
        bail!(InvalidInput, "Names of the program lead into too many lists.");
    }
    match tree(paths.iter().map(|path| Some(path.as_str())).enumerate().collect()) {
        Some(tree) => Nested::of(&tree),
        None => bail!(InvalidInput, "Names of the program do not fit together."),
    }
}

/// Rows, with the rest of the path to each.
type Rows<'a> = Vec<(usize, Option<&'a str>)>;

/// The list of some rows, or a single one; `None` if their paths do not fit together. Unlike in the names of files, `00`
/// is a number, too.
fn tree(rows: Rows) -> Option<Tree> {
    if let [(row, None)] = rows[..] {
        return Some(Tree::Leaf(row));
    }
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut parts: Vec<(&str, Rows)> = Vec::new();
    for (row, path) in rows {
        let path = path?;
        let (name, rest) = path.split_once(SLASH).map_or((path, None), |(name, rest)| (name, Some(rest)));
        let place = *places.entry(name).or_insert(parts.len());
        if place == parts.len() {
            parts.push((name, Vec::new()));
        }
        parts[place].1.push((row, rest));
    }
    let elements = parts.into_iter().map(|(name, rows)| Some((name.to_owned(), tree(rows)?)));
    let mut elements = elements.collect::<Option<Vec<_>>>()?;
    let position = |(name, _): &(String, Tree)| name.parse::<usize>().ok();
    let mut numbers: Vec<Option<usize>> = elements.iter().map(position).collect();
    numbers.sort_unstable();
    if !numbers.into_iter().eq((0..elements.len()).map(Some)) {
        return Some(Tree::Dict(elements));
    }
    elements.sort_by_key(position);
    Some(Tree::List(elements.into_iter().map(|(_, element)| element).collect()))
}
