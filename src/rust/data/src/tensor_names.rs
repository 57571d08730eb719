//! Names for the leaves of nested lists in flat files, such as "params.dense.w", and back. Elements without a name are
//! numbered from 0, as Python does.

use crate::tree::{Builder, Tree};
use pjrt_base::error::{Error, Kind, Result};
use std::collections::HashMap;

/// The name of each leaf: the names on the way to it, joined.
pub fn joined(tree: &Tree, separator: &str) -> Vec<String> {
    tree.paths_by(|path, name, position| {
        if !path.is_empty() {
            path.push_str(separator);
        }
        if name.is_empty() {
            path.push_str(&position.to_string());
        } else {
            path.push_str(name);
        }
    })
}

/// A list while its elements are being found.
#[derive(Default)]
struct List<'a> {
    /// In order of appearance: names, and positions among the lists or the leaves.
    children: Vec<(&'a str, Child)>,
    known: HashMap<&'a str, usize>,
}

#[derive(Clone, Copy)]
enum Child {
    Leaf(usize),
    List(usize),
}

/// The nested list with these leaves, and for each of its leaves the position of its name. Lists below the first level
/// whose elements are numbered from 0 have no names. A name with an empty part is not split.
///
/// # Errors
/// `InvalidInput` if a name is that of a leaf and of a list, and for lists that are nested too deep.
pub fn nested(names: &[&str], separator: &str) -> Result<(Tree, Vec<usize>)> {
    let mut lists = vec![List::default()];
    for (leaf, &name) in names.iter().enumerate() {
        let is_whole = name.split(separator).any(str::is_empty);
        let split = name.rsplit_once(separator).filter(|_| !is_whole);
        let (path, last) = split.map_or((None, name), |(path, last)| (Some(path), last));
        let mut at = 0;
        for part in path.into_iter().flat_map(|path| path.split(separator)) {
            let list = &lists[at];
            at = match list.known.get(part).map(|&place| list.children[place].1) {
                Some(Child::List(next)) => next,
                Some(Child::Leaf(other)) => return Err(both(names[other], name)),
                None => {
                    let next = lists.len();
                    lists.push(List::default());
                    add(&mut lists[at], part, Child::List(next));
                    next
                }
            };
        }
        if let Some(&place) = lists[at].known.get(last) {
            return Err(both(name, first_below(&lists, lists[at].children[place].1, names)));
        }
        add(&mut lists[at], last, Child::Leaf(leaf));
    }
    build(&mut lists)
}

fn add<'a>(list: &mut List<'a>, name: &'a str, child: Child) {
    list.known.insert(name, list.children.len());
    list.children.push((name, child));
}

fn both(leaf: &str, other: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("\"{leaf}\" would be both an array and a list with \"{other}\"."))
}

/// The name of the first leaf in a list.
fn first_below<'a>(lists: &[List], mut child: Child, names: &[&'a str]) -> &'a str {
    loop {
        match child {
            Child::Leaf(leaf) => return names[leaf],
            Child::List(list) => child = lists[list].children[0].1,
        }
    }
}

fn build(lists: &mut [List]) -> Result<(Tree, Vec<usize>)> {
    let mut builder = Builder::default();
    let mut order = Vec::new();
    builder.open(true, lists[0].children.len(), "")?;
    // Open lists: which one, its next child, and whether its children have names.
    let mut open = vec![(0, 0, true)];
    while let Some((list, next, has_names)) = open.last_mut() {
        let Some(&(name, child)) = lists[*list].children.get(*next) else {
            builder.close();
            open.pop();
            continue;
        };
        *next += 1;
        let name = if *has_names { name } else { "" };
        match child {
            Child::Leaf(leaf) => {
                builder.leaf(name)?;
                order.push(leaf);
            }
            Child::List(inner) => {
                let has_names = !sort_numbered(&mut lists[inner].children);
                builder.open(has_names, lists[inner].children.len(), name)?;
                open.push((inner, 0, has_names));
            }
        }
    }
    Ok((builder.finish(), order))
}

/// Whether the names are the numbers from 0. Sorts the elements by them.
fn sort_numbered(children: &mut [(&str, Child)]) -> bool {
    let number = |name: &str| name.parse::<usize>().ok().filter(|number| number.to_string() == name);
    let mut seen = vec![false; children.len()];
    for (name, _) in children.iter() {
        match number(name).and_then(|number| seen.get_mut(number)) {
            Some(seen) => *seen = true,
            None => return false,
        }
    }
    // Names differ, so there is one for each number.
    children.sort_by_key(|(name, _)| number(name));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str], separator: &str) -> (String, Vec<usize>) {
        let (tree, order) = nested(names, separator).unwrap();
        (tree.repr(), order)
    }

    #[test]
    fn names_become_nested_lists() {
        assert_eq!(read(&[], "."), ("list<named>()".into(), vec![]));
        assert_eq!(read(&["a", "b"], "."), ("list<named>(a = *, b = *)".into(), vec![0, 1]));
        let (text, order) = read(&["p.w", "s.1.m", "p.b", "s.0"], ".");
        assert_eq!(text, "list<named>(p = list<named>(w = *, b = *), s = list(*, list<named>(m = *)))");
        assert_eq!(order, [0, 2, 3, 1]);
        // more than ten, gaps, leading zeros, and numbers on the first level
        let names: Vec<String> = (0..12).rev().map(|i| format!("h.{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(read(&names, ".").1, (0..12).rev().collect::<Vec<_>>());
        assert_eq!(read(&["h.0", "h.2"], ".").0, "list<named>(h = list<named>(0 = *, 2 = *))");
        assert_eq!(read(&["h.00", "h.01"], ".").0, "list<named>(h = list<named>(00 = *, 01 = *))");
        assert_eq!(read(&["0.w", "1.w"], ".").0, "list<named>(0 = list<named>(w = *), 1 = list<named>(w = *))");
        assert_eq!(read(&["a/b.c", "a/d"], "/").0, "list<named>(a = list<named>(b.c = *, d = *))");
        assert_eq!(read(&["a.", ".a", "b..c"], ".").0, "list<named>(a. = *, .a = *, b..c = *)");
    }

    #[test]
    fn nested_lists_get_their_names_back() {
        for separator in [".", "/", "--"] {
            let names = ["x", "p--dense/w", "s.0.mu", "s.1", "s.2.nu/a--b"].map(|name| name.replace('.', separator));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (tree, order) = nested(&names, separator).unwrap();
            let back: Vec<String> = joined(&tree, separator);
            let sorted: Vec<&str> = order.iter().map(|&i| names[i]).collect();
            assert_eq!(back, sorted);
        }
        let mut builder = Builder::default();
        builder.open(false, 3, "").unwrap();
        builder.null("").unwrap();
        builder.open(true, 0, "").unwrap();
        builder.close();
        builder.open(true, 2, "").unwrap();
        builder.leaf("").unwrap();
        builder.leaf("a").unwrap();
        builder.close();
        builder.close();
        assert_eq!(joined(&builder.finish(), "."), ["2.0", "2.a"]);
        let mut leaf = Builder::default();
        leaf.leaf("").unwrap();
        assert_eq!(joined(&leaf.finish(), "."), [""]);
    }

    #[test]
    fn a_name_is_a_leaf_or_a_list() {
        for names in [["a", "a.b"], ["a.b", "a"], ["x.a.b.c", "x.a"], ["a", "a"]] {
            let error = nested(&names, ".").unwrap_err();
            assert!(error.message().contains("would be both an array and a list with"), "{error}");
        }
        let deep = vec!["a"; 20_000].join(".");
        assert!(nested(&[&deep], ".").unwrap_err().message().contains("nested too deep"));
    }
}
