//! Nested lists of a function, whose leaves are its inputs or outputs.

use super::{damaged, MAX_NESTING};
use crate::exported;
use crate::names::{exact, normal, SLASH};
use pjrt_base::error::{Error, Result};
use pjrt_data::tree::{Builder, Kind, Tree, View};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// A nested list of inputs or outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Flat", try_from = "Flat")]
pub struct Nested {
    pub tree: Tree,
    /// For each leaf, the number of its input or output.
    pub rows: Vec<usize>,
}

/// The same for a text: for each node the letter of its kind, the number of its elements, and its name.
#[derive(Serialize, Deserialize)]
struct Flat {
    nodes: Vec<(char, usize, String)>,
    rows: Vec<usize>,
}

/// The letters of kinds.
const LETTERS: [(Kind, char); 4] = [(Kind::Leaf, 'a'), (Kind::Null, '0'), (Kind::List, 'l'), (Kind::NamedList, 'n')];

impl From<Nested> for Flat {
    fn from(nested: Nested) -> Flat {
        let letter = |kind: Kind| LETTERS.iter().find(|(other, _)| *other == kind).map_or('0', |(_, letter)| *letter);
        let nodes = nested.tree.views().map(|node| (letter(node.kind), node.arity, node.name.to_owned())).collect();
        Flat { nodes, rows: nested.rows }
    }
}

impl TryFrom<Flat> for Nested {
    type Error = Error;

    fn try_from(flat: Flat) -> Result<Nested> {
        let kind = |letter: char| LETTERS.iter().find(|(_, other)| *other == letter).map(|(kind, _)| *kind);
        let nodes = flat.nodes.iter();
        let views = nodes.map(|(letter, arity, name)| Some(View { kind: kind(*letter)?, arity: *arity, name }));
        let views =
            views.collect::<Option<Vec<_>>>().ok_or_else(|| damaged("a list has an element of unknown kind"))?;
        Nested { tree: Tree::of_nodes(views.into_iter())?, rows: flat.rows }.checked()
    }
}

impl Nested {
    /// A tree of Python containers.
    ///
    /// # Errors
    /// `InvalidInput` for one that is too deep or too large.
    pub fn of(tree: &exported::Tree) -> Result<Nested> {
        let (mut builder, mut rows) = (Builder::default(), Vec::new());
        tree.add_to(&mut builder, &mut rows, "")?;
        Nested { tree: builder.finish(), rows }.checked()
    }

    /// A list of the first so many, without names.
    pub fn plain(count: usize) -> Result<Nested> {
        Nested::of(&exported::Tree::List((0..count).map(exported::Tree::Leaf).collect()))
    }

    pub(super) fn checked(self) -> Result<Nested> {
        ensure!(self.tree.size() == self.rows.len(), damaged("its arrays do not fit its lists"));
        ensure!(self.tree.depth() <= MAX_NESTING, damaged("its lists are nested too deeply"));
        Ok(self)
    }

    /// The path of each of so many inputs or outputs; empty for those that are not in the list.
    pub fn paths(&self, count: usize) -> Vec<String> {
        self.in_rows(self.tree.paths(), count)
    }

    /// The path of each of so many inputs, as [`exact`] names between slashes.
    pub fn exact_paths(&self, count: usize) -> Vec<String> {
        let paths = self.tree.paths_by(|path, name, position| match (path.is_empty(), name.is_empty()) {
            (true, _) => path.push_str(&normal(name)),
            (false, true) => path.push_str(&format!("{SLASH}{position}")),
            (false, false) => path.push_str(&format!("{SLASH}{}", exact(name))),
        });
        self.in_rows(paths, count)
    }

    fn in_rows(&self, paths: Vec<String>, count: usize) -> Vec<String> {
        let mut ordered = vec![String::new(); count];
        for (&row, path) in self.rows.iter().zip(paths) {
            if let Some(place) = ordered.get_mut(row) {
                *place = path;
            }
        }
        ordered
    }

    /// The elements of a list, each with its name, which may be empty; none for a single array.
    pub fn elements<'a>(&'a self) -> Vec<(&'a str, Nested)> {
        let mut at = 0;
        let element = |(i, (child, leaves)): (usize, (View<'a>, usize))| {
            at += leaves;
            let (tree, rows) = (self.tree.child(i).unwrap_or_default(), self.rows[at - leaves..at].to_vec());
            (child.name, Nested { tree, rows })
        };
        self.tree.children().enumerate().map(element).collect()
    }

    /// The rows of both lists for leaves at the same place: under the same names, or, where there are none, at the same
    /// positions of lists of the same length.
    pub(super) fn beside(&self, other: &Nested) -> Vec<(usize, usize)> {
        if (self.tree.root(), other.tree.root()) == (Kind::Leaf, Kind::Leaf) {
            return self.rows.iter().copied().zip(other.rows.iter().copied()).collect();
        }
        let (own, others) = (self.elements(), other.elements());
        let places: HashMap<String, usize> =
            others.iter().enumerate().rev().map(|(i, (name, _))| (normal(name), i)).collect();
        let place = |i: usize, name: &str| match name.is_empty() {
            true => (own.len() == others.len()).then_some(i),
            false => places.get(&normal(name)).copied(),
        };
        let pairs = own.iter().enumerate().filter_map(|(i, (name, part))| Some((part, &others[place(i, name)?].1)));
        pairs.flat_map(|(part, other)| part.beside(other)).collect()
    }

    /// A list of these elements, with names.
    pub fn list<N: AsRef<str>>(elements: &[(N, Nested)]) -> Result<Nested> {
        Self::join(elements, true)
    }

    fn join<N: AsRef<str>>(elements: &[(N, Nested)], has_names: bool) -> Result<Nested> {
        let trees: Vec<&Tree> = elements.iter().map(|(_, element)| &element.tree).collect();
        let names: Vec<&str> = elements.iter().map(|(name, _)| name.as_ref()).collect();
        let rows = elements.iter().flat_map(|(_, element)| &element.rows).copied().collect();
        Nested { tree: Tree::concat(&trees, has_names.then_some(&names[..]))?, rows }.checked()
    }

    /// The list without some rows, and without lists that contained nothing else.
    pub(super) fn without(&self, used: &HashSet<usize>) -> Result<Nested> {
        let kind = self.tree.root();
        if !kind.is_list() {
            return Ok(self.clone());
        }
        let is_used = |part: &Nested| !part.rows.is_empty() && part.rows.iter().all(|row| used.contains(row));
        let left = self.elements().into_iter().filter(|(_, part)| !is_used(part));
        let left: Result<Vec<_>> = left.map(|(name, part)| Ok((name, part.without(used)?))).collect();
        Self::join(&left?, kind == Kind::NamedList)
    }
}
