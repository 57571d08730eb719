//! The trees of nested Python containers that a function takes and returns.

use super::damaged;
use super::flatbuffer::Table;
use crate::names::{self, SLASH};
use pjrt_base::error::Result;
use pjrt_data::tree::Builder;

/// The limit of nesting, far more than JAX's own recursion allows in practice.
pub(super) const MAX_NESTING: usize = 200;

/// The most bytes of the paths of all leaves. Each contains the keys of all nodes above it.
const MAX_PATHS: usize = 1 << 28;

/// A tree whose leaves are arrays, numbered in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tree {
    /// An array, by its number from 0.
    Leaf(usize),
    #[default]
    None,
    Tuple(Vec<Tree>),
    List(Vec<Tree>),
    /// Keys in JAX's order, which is sorted.
    Dict(Vec<(String, Tree)>),
    /// A registered type, by its name. It has as many keys as children.
    Custom {
        name: String,
        children: Vec<Tree>,
        keys: Vec<Key>,
    },
}

/// How Python accesses a part of a registered type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Not known.
    Position,
    Attribute(String),
    Item(String),
}

impl Key {
    /// The name; empty for a position.
    pub fn name(&self) -> &str {
        match self {
            Key::Position => "",
            Key::Attribute(name) | Key::Item(name) => name,
        }
    }
}

/// The fields of a `PyTreeDef`.
const KIND: usize = 0;
const CHILDREN: usize = 1;
const NAMES: usize = 2;
const CUSTOM_NAME: usize = 3;

/// Positional and named ones.
type Arguments<'a> = (&'a [Tree], &'a [(String, Tree)]);
type ArgumentsMut<'a> = (&'a mut Vec<Tree>, &'a mut Vec<(String, Tree)>);

impl Tree {
    /// Reads a tree; returns it with the number of its leaves.
    ///
    /// # Errors
    /// `InvalidFile` for damage, and trees that are nested too deeply.
    pub fn read(table: Table<'_, '_>) -> Result<(Tree, usize)> {
        let mut leaves = 0;
        Ok((Self::node(table, &mut leaves, 0)?, leaves))
    }

    /// A node of a registered type, whose parts have no names yet.
    pub fn custom(name: String, children: Vec<Tree>) -> Tree {
        let keys = vec![Key::Position; children.len()];
        Tree::Custom { name, children, keys }
    }

    /// Whether the paths of the leaves fit into memory: a small file can have one long key above many leaves.
    pub(crate) fn has_short_paths(&self) -> bool {
        self.path_bytes(0) <= MAX_PATHS
    }

    /// About how many bytes the paths of the leaves have, below a path of so many.
    fn path_bytes(&self, above: usize) -> usize {
        const INDEX: usize = 8;
        if let Tree::Leaf(_) = self {
            return above;
        }
        let add = |sum: usize, (key, child): (Key, &Tree)| {
            sum.saturating_add(child.path_bytes(above.saturating_add(key.name().len() + INDEX)))
        };
        self.parts().into_iter().fold(0, add)
    }

    /// The parts of a node, with how Python accesses each; none of a leaf.
    fn parts(&self) -> Vec<(Key, &Tree)> {
        match self {
            Tree::Leaf(_) | Tree::None => Vec::new(),
            Tree::Tuple(children) | Tree::List(children) => {
                children.iter().map(|child| (Key::Position, child)).collect()
            }
            Tree::Dict(children) => children.iter().map(|(name, child)| (Key::Item(name.clone()), child)).collect(),
            Tree::Custom { children, keys, .. } => keys.iter().cloned().zip(children).collect(),
        }
    }

    /// The same, to change them.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Tree> {
        match self {
            Tree::Leaf(_) | Tree::None => Vec::new(),
            Tree::Tuple(children) | Tree::List(children) | Tree::Custom { children, .. } => {
                children.iter_mut().collect()
            }
            Tree::Dict(children) => children.iter_mut().map(|(_, child)| child).collect(),
        }
    }

    fn node(table: Table<'_, '_>, leaves: &mut usize, depth: usize) -> Result<Tree> {
        ensure!(depth <= MAX_NESTING, damaged("a tree is nested too deeply"));
        let children = table.tables(CHILDREN)?.into_iter().map(|child| Self::node(child, leaves, depth + 1));
        let children: Vec<Tree> = children.collect::<Result<_>>()?;
        let kind = table.number(KIND, 1)?;
        Ok(match kind {
            0 | 1 if !children.is_empty() => return Err(damaged("a leaf of a tree has children")),
            0 => {
                *leaves += 1;
                Tree::Leaf(*leaves - 1)
            }
            1 => Tree::None,
            2 => Tree::Tuple(children),
            3 => Tree::List(children),
            4 => {
                let names = table.strings(NAMES)?;
                ensure!(names.len() == children.len(), damaged("a dictionary's keys do not match its values"));
                Tree::Dict(names.into_iter().zip(children).collect())
            }
            5 => Tree::custom(table.string(CUSTOM_NAME)?.unwrap_or_default().to_owned(), children),
            _ => return Err(damaged("a tree has a node of unknown kind")),
        })
    }

    /// The same tree, with other numbers for its leaves.
    pub fn renumbered(mut self, number: &dyn Fn(usize) -> usize) -> Tree {
        if let Tree::Leaf(leaf) = self {
            return Tree::Leaf(number(leaf));
        }
        for part in self.parts_mut() {
            *part = std::mem::take(part).renumbered(number);
        }
        self
    }

    /// Whether `holds` is true of all leaves and their depths below this node.
    pub(crate) fn every_leaf(&self, depth: usize, holds: &mut impl FnMut(usize, usize) -> bool) -> bool {
        match self {
            Tree::Leaf(leaf) => holds(*leaf, depth),
            _ => self.parts().into_iter().all(|(_, part)| part.every_leaf(depth + 1, holds)),
        }
    }

    /// Adds this tree to that of an R list, under a name; returns its leaves to `leaves`.
    ///
    /// # Errors
    /// As [`Builder::leaf`] and [`Builder::open`].
    pub fn add_to(&self, builder: &mut Builder, leaves: &mut Vec<usize>, name: &str) -> Result<()> {
        match self {
            Tree::Leaf(leaf) => {
                leaves.push(*leaf);
                return builder.leaf(name);
            }
            Tree::None => return builder.null(name),
            _ => {}
        }
        let parts = self.parts();
        builder.open(parts.iter().any(|(key, _)| *key != Key::Position), parts.len(), name)?;
        parts.into_iter().try_for_each(|(key, part)| part.add_to(builder, leaves, key.name()))?;
        builder.close();
        Ok(())
    }

    /// Adds the registered types whose parts have names: their paths in normal form, below `path`, and the names.
    pub(crate) fn classes(&self, path: &str, found: &mut Vec<(String, Vec<String>)>) {
        let mut own = Vec::new();
        for (i, (key, part)) in self.parts().into_iter().enumerate() {
            let name = names::normal(key.name());
            let step = if name.is_empty() { i.to_string() } else { name.clone() };
            part.classes(&format!("{path}{SLASH}{step}"), found);
            own.push(name);
        }
        if matches!(self, Tree::Custom { .. }) && own.iter().any(|name| !name.is_empty()) {
            found.push((path.to_owned(), own));
        }
    }

    /// The positional and the named arguments, if this is their pair.
    pub fn arguments(&self) -> Option<Arguments<'_>> {
        let Tree::Tuple(pair) = self else { return None };
        let [Tree::Tuple(positional), Tree::Dict(named)] = &pair[..] else { return None };
        Some((positional, named))
    }

    /// The same, to change them.
    pub(crate) fn arguments_mut(&mut self) -> Option<ArgumentsMut<'_>> {
        let Tree::Tuple(pair) = self else { return None };
        let [Tree::Tuple(positional), Tree::Dict(named)] = &mut pair[..] else { return None };
        Some((positional, named))
    }

    /// The same pair with names; another tree as it is.
    pub fn with_argument_names(self) -> Tree {
        match self {
            Tree::Tuple(pair) if pair.len() == 2 => {
                Tree::Dict(["args", "kwargs"].map(str::to_owned).into_iter().zip(pair).collect())
            }
            other => other,
        }
    }

    /// The path of each leaf, as Python would access it in a variable `root`.
    pub fn paths(&self, root: &str) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(root, &mut paths);
        paths
    }

    /// The same for the pair of positional and named arguments.
    pub fn argument_paths(&self) -> Vec<String> {
        match self {
            Tree::Tuple(pair) if pair.len() == 2 => [pair[0].paths("args"), pair[1].paths("kwargs")].concat(),
            other => other.paths("args"),
        }
    }

    fn collect(&self, path: &str, paths: &mut Vec<String>) {
        if let Tree::Leaf(_) = self {
            paths.push(path.to_owned());
        }
        for (i, (key, part)) in self.parts().into_iter().enumerate() {
            let path = match key {
                Key::Position => format!("{path}[{i}]"),
                Key::Attribute(name) => format!("{path}.{name}"),
                Key::Item(name) => format!("{path}['{name}']"),
            };
            part.collect(&path, paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_above_many_leaves_is_refused() {
        let tree = |key: usize, leaves: usize| {
            let leaves = Tree::Tuple((0..leaves).map(Tree::Leaf).collect());
            Tree::Tuple(vec![Tree::None, Tree::Dict(vec![("k".repeat(key), leaves)])])
        };
        assert!(tree(20, 100_000).has_short_paths());
        assert!(!tree(100_000, 10_000).has_short_paths());
    }
}
