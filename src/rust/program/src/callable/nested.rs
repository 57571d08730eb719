//! Nested lists of a function, whose leaves are its inputs or outputs.

use super::{damaged, MAX_NESTING};
use crate::exported;
use pjrt_base::error::{Error, Result};
use pjrt_data::tree::{Builder, Kind, Tree, View};
use serde::{Deserialize, Serialize};

/// A nested list of inputs or outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        if flat.nodes.iter().any(|(letter, _, _)| kind(*letter).is_none()) {
            return Err(damaged("a list has an element of unknown kind"));
        }
        let view = |(letter, arity, name): &'_ (char, usize, String)| {
            (kind(*letter).unwrap_or(Kind::Null), *arity, name.clone())
        };
        let nodes: Vec<_> = flat.nodes.iter().map(view).collect();
        let views = nodes.iter().map(|(kind, arity, name)| View { kind: *kind, arity: *arity, name });
        Nested { tree: Tree::of_nodes(views)?, rows: flat.rows }.checked()
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
        let mut builder = Builder::default();
        builder.open(false, count, "")?;
        (0..count).try_for_each(|_| builder.leaf(""))?;
        builder.close();
        Ok(Nested { tree: builder.finish(), rows: (0..count).collect() })
    }

    pub(super) fn checked(self) -> Result<Nested> {
        if self.tree.size() != self.rows.len() {
            return Err(damaged("its arrays do not fit its lists"));
        }
        if self.tree.depth() > MAX_NESTING {
            return Err(damaged("its lists are nested too deeply"));
        }
        Ok(self)
    }

    /// The path of each of so many inputs or outputs; empty for those that are not in the list.
    pub fn paths(&self, count: usize) -> Vec<String> {
        let mut paths = vec![String::new(); count];
        for (&row, path) in self.rows.iter().zip(self.tree.paths()) {
            if let Some(place) = paths.get_mut(row) {
                *place = path;
            }
        }
        paths
    }

    /// The elements of a list, each with its name, which may be empty; none for a single array.
    pub fn elements(&self) -> Vec<(&str, Nested)> {
        let mut at = 0;
        let element = |(i, (child, leaves)): (usize, (View<'_>, usize))| {
            at += leaves;
            (self.tree.child(i).unwrap_or_default(), self.rows[at - leaves..at].to_vec(), child.name.len())
        };
        let made: Vec<_> = self.tree.children().enumerate().map(element).collect();
        let names = self.tree.children().map(|(child, _)| child.name);
        names.zip(made).map(|(name, (tree, rows, _))| (name, Nested { tree, rows })).collect()
    }

    /// A list of these elements, with names.
    pub fn list(elements: &[(String, Nested)]) -> Result<Nested> {
        let trees: Vec<&Tree> = elements.iter().map(|(_, element)| &element.tree).collect();
        let names: Vec<&str> = elements.iter().map(|(name, _)| name.as_str()).collect();
        let rows = elements.iter().flat_map(|(_, element)| &element.rows).copied().collect();
        Nested { tree: Tree::concat(&trees, Some(&names))?, rows }.checked()
    }

    /// The same list with other names of its elements.
    pub fn renamed(&self, names: &[&str]) -> Result<Nested> {
        let elements = self.elements().into_iter().zip(names);
        Nested::list(&elements.map(|((_, element), name)| ((*name).to_owned(), element)).collect::<Vec<_>>())
    }
}
