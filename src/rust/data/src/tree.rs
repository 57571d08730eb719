//! The structure of nested lists: which elements are leaves, lists or empty, and the names. The leaves themselves are
//! kept elsewhere, in the same order.
//!
//! Nodes are stored one after the other, each before its children, so that nothing here recurses.

use crate::hash::Mixer;
use pjrt_base::error::Result;
use std::collections::HashSet;
use std::fmt::Write;

/// Deeper lists are refused: most functions that use them recurse.
pub const MAX_DEPTH: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Leaf,
    Null,
    List,
    /// A list with names. Some or all of them may be empty.
    NamedList,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Leaf => "leaf",
            Kind::Null => "null",
            Kind::List | Kind::NamedList => "list",
        }
    }

    pub fn is_list(self) -> bool {
        matches!(self, Kind::List | Kind::NamedList)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    kind: Kind,
    /// The number of children.
    arity: u32,
    /// The number of nodes in the subtree, including this one.
    nodes: u32,
    /// The number of leaves in the subtree.
    leaves: u32,
    /// Where the node's name ends in the text of all names. It begins where the previous node's name ends.
    name_end: u32,
}

/// The structure of a nested list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    names: String,
}

/// Where two trees differ first: the path of the node, and both subtrees as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub prefix: String,
    pub a: String,
    pub b: String,
}

/// A node and its name, which is empty for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    pub kind: Kind,
    pub arity: usize,
    pub name: &'a str,
}

/// Builds a tree from its nodes, each before its children.
#[derive(Debug, Default)]
pub struct Builder {
    tree: Tree,
    /// The lists whose children are being added.
    open: Vec<usize>,
    leaves: u32,
}

impl Builder {
    /// # Errors
    /// `InvalidInput` for more nodes than can be counted.
    #[inline]
    pub fn leaf(&mut self, name: &str) -> Result<()> {
        self.push(Kind::Leaf, 0, 1, name)?;
        self.leaves += 1;
        Ok(())
    }

    /// # Errors
    /// As [`Builder::leaf`].
    #[inline]
    pub fn null(&mut self, name: &str) -> Result<()> {
        self.push(Kind::Null, 0, 0, name)
    }

    /// Adds a list of this many elements, which come next; then call [`Builder::close`].
    ///
    /// # Errors
    /// As [`Builder::leaf`], and `InvalidInput` for lists that are nested too deep.
    #[inline]
    pub fn open(&mut self, has_names: bool, arity: usize, name: &str) -> Result<()> {
        check_depth(self.open.len() + 1)?;
        let kind = if has_names { Kind::NamedList } else { Kind::List };
        // Replaced by the number of its own leaves when the list is closed.
        self.push(kind, count(arity)?, self.leaves, name)?;
        self.open.push(self.tree.nodes.len() - 1);
        Ok(())
    }

    #[inline]
    pub fn close(&mut self) {
        let end = self.tree.nodes.len();
        if let Some(index) = self.open.pop() {
            let node = &mut self.tree.nodes[index];
            node.nodes = (end - index) as u32;
            node.leaves = self.leaves - node.leaves;
        }
    }

    pub fn finish(self) -> Tree {
        self.tree
    }

    #[inline]
    fn push(&mut self, kind: Kind, arity: u32, leaves: u32, name: &str) -> Result<()> {
        self.tree.names.push_str(name);
        count(self.tree.nodes.len() + 1)?;
        let name_end = count(self.tree.names.len())?;
        self.tree.nodes.push(Node { kind, arity, nodes: 1, leaves, name_end });
        Ok(())
    }

    /// Adds a node of another tree, without its children.
    ///
    /// # Errors
    /// As [`Builder::leaf`] and [`Builder::open`].
    pub fn node(&mut self, node: View<'_>) -> Result<()> {
        match node.kind {
            Kind::Leaf => self.leaf(node.name),
            Kind::Null => self.null(node.name),
            Kind::List | Kind::NamedList => self.open(node.kind == Kind::NamedList, node.arity, node.name),
        }
    }

    /// Adds a part of another tree under another name.
    fn append(&mut self, tree: &Tree, start: usize, name: &str) -> Result<()> {
        let end = start + tree.nodes[start].nodes as usize;
        let names = &tree.names[tree.name_end(start)..tree.name_end(end - 1)];
        self.tree.names.push_str(name);
        let first_end = self.tree.names.len();
        self.tree.names.push_str(names);
        count(self.tree.names.len())?;
        count(self.tree.nodes.len() + end - start)?;
        let shift = |end: u32| (first_end + end as usize - tree.name_end(start)) as u32;
        let nodes = &tree.nodes[start..end];
        self.tree.nodes.extend(nodes.iter().map(|node| Node { name_end: shift(node.name_end), ..*node }));
        self.leaves = count(self.leaves as usize + tree.nodes[start].leaves as usize)?;
        Ok(())
    }
}

#[inline]
fn count(number: usize) -> Result<u32> {
    match u32::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) => bail!(InvalidInput, "The list has more elements, or longer names, than a tree can hold."),
    }
}

/// Refuses lists with more levels than any may have.
///
/// # Errors
/// `InvalidInput`.
#[inline]
pub fn check_depth(depth: usize) -> Result<()> {
    ensure!(depth <= MAX_DEPTH, InvalidInput, "A list is nested too deep: it may have at most {MAX_DEPTH} levels.");
    Ok(())
}

impl Tree {
    /// A list of these trees.
    ///
    /// # Errors
    /// `InvalidInput` if the result is too deep or too large, or if there are not as many names as trees.
    pub fn concat(children: &[&Tree], names: Option<&[&str]>) -> Result<Tree> {
        ensure!(
            names.is_none_or(|names| names.len() == children.len()),
            InvalidInput,
            "names must match the number of children: got {} names for {} children.",
            names.map_or(0, <[_]>::len),
            children.len()
        );
        check_depth(1 + children.iter().map(|child| child.depth()).max().unwrap_or(0))?;
        let mut builder = Builder::default();
        builder.open(names.is_some(), children.len(), "")?;
        for (i, child) in children.iter().enumerate() {
            builder.append(child, 0, names.map_or("", |names| names[i]))?;
        }
        builder.close();
        Ok(builder.finish())
    }

    /// The tree with these nodes, each before its children.
    ///
    /// # Errors
    /// `InvalidInput` if they are not the nodes of one tree.
    pub fn of_nodes<'a>(nodes: impl Iterator<Item = View<'a>>) -> Result<Tree> {
        let mut builder = Builder::default();
        // How many children are still missing in each open list.
        let mut missing: Vec<usize> = Vec::new();
        let mut is_done = false;
        for node in nodes {
            ensure!(!is_done, InvalidInput, "A tree has nodes that do not belong to it.");
            builder.node(node)?;
            if node.kind.is_list() {
                missing.push(node.arity + 1);
            }
            while let Some(count) = missing.last_mut() {
                *count -= 1;
                if *count > 0 {
                    break;
                }
                missing.pop();
                builder.close();
            }
            is_done = missing.is_empty();
        }
        ensure!(is_done, InvalidInput, "A tree ends too early.");
        Ok(builder.finish())
    }

    /// The tree of a child of the root.
    pub fn child(&self, position: usize) -> Option<Tree> {
        let child = self.children_of(0).nth(position)?;
        let mut builder = Builder::default();
        builder.append(self, child, "").ok()?;
        Some(builder.finish())
    }

    /// The number of leaves.
    #[inline]
    pub fn size(&self) -> usize {
        self.nodes.first().map_or(0, |root| root.leaves as usize)
    }

    #[inline]
    pub fn root(&self) -> Kind {
        self.nodes.first().map_or(Kind::Null, |root| root.kind)
    }

    /// For each list with names: the number of its elements, and their names.
    pub fn named_lists(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &str>)> {
        let named = (0..self.nodes.len()).filter(|&i| self.nodes[i].kind == Kind::NamedList);
        named.map(|i| (self.nodes[i].arity as usize, self.children_of(i).map(|child| self.name(child))))
    }

    /// The nodes, each before its children.
    #[inline]
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        (0..self.nodes.len()).map(|i| self.view(i))
    }

    /// The children of the root, with the number of leaves of each.
    pub fn children(&self) -> impl Iterator<Item = (View<'_>, usize)> {
        self.children_of(0).map(|child| (self.view(child), self.nodes[child].leaves as usize))
    }

    /// A hash of the structure and the names.
    pub fn hash(&self) -> u64 {
        let mut mixer = Mixer::default();
        for node in &self.nodes {
            mixer.word(node.kind as u64 | u64::from(node.arity) << 8);
            mixer.word(node.name_end.into());
        }
        mixer.bytes(self.names.as_bytes());
        mixer.finish()
    }

    /// The path of a leaf, from 0, as one would write it in R; empty for the root.
    pub fn path(&self, leaf: usize) -> Option<String> {
        let is_leaf = |&node: &usize| self.nodes[node].kind == Kind::Leaf;
        (0..self.nodes.len()).filter(is_leaf).nth(leaf).map(|node| self.path_of(node))
    }

    /// The paths of all leaves.
    pub fn paths(&self) -> Vec<String> {
        self.paths_by(add_step)
    }

    /// The paths of all nodes without leaves.
    pub fn empty_paths(&self) -> Vec<String> {
        self.paths_where(|node| node.leaves == 0, add_step)
    }

    /// The paths of all leaves, in which `add` appends a step: the name of an element, or else its position from 0.
    pub fn paths_by(&self, add: impl Fn(&mut String, &str, usize)) -> Vec<String> {
        self.paths_where(|node| node.kind == Kind::Leaf, add)
    }

    fn paths_where(&self, is_wanted: impl Fn(&Node) -> bool, add: impl Fn(&mut String, &str, usize)) -> Vec<String> {
        let mut paths = Vec::new();
        // For each open list: the length of its path, the next position in it, and its end.
        let mut open: Vec<(usize, usize, usize)> = Vec::new();
        let mut path = String::new();
        for (i, node) in self.nodes.iter().enumerate() {
            while open.last().is_some_and(|&(_, _, end)| end == i) {
                open.pop();
            }
            if let Some((len, position, _)) = open.last_mut() {
                path.truncate(*len);
                add(&mut path, self.name(i), *position);
                *position += 1;
            }
            if is_wanted(node) {
                paths.push(path.clone());
            }
            if node.kind.is_list() {
                open.push((path.len(), 0, i + node.nodes as usize));
            }
        }
        paths
    }

    fn path_of(&self, node: usize) -> String {
        let (mut path, mut at) = (String::new(), 0);
        while at != node {
            let holds = |&(_, child): &(usize, usize)| node < child + self.nodes[child].nodes as usize;
            let Some((position, child)) = self.children_of(at).enumerate().find(holds) else { break };
            add_step(&mut path, self.name(child), position);
            at = child;
        }
        path
    }

    pub fn repr(&self) -> String {
        if self.nodes.is_empty() {
            return String::new();
        }
        self.repr_of(0)
    }

    fn repr_of(&self, start: usize) -> String {
        let end = start + self.nodes[start].nodes as usize;
        let mut text = String::new();
        // For the lists around a node: where they begin, and end.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for i in start..end {
            while open.last().is_some_and(|&(_, end)| end == i) {
                open.pop();
                text.push(')');
            }
            if let Some(&(parent, _)) = open.last() {
                if i > parent + 1 {
                    text.push_str(", ");
                }
                if !self.name(i).is_empty() {
                    text.push_str(self.name(i));
                    text.push_str(" = ");
                }
            }
            let node = &self.nodes[i];
            text.push_str(match node.kind {
                Kind::Leaf => "*",
                Kind::Null => "NULL",
                Kind::List => "list(",
                Kind::NamedList => "list<named>(",
            });
            if node.kind.is_list() {
                open.push((i, i + node.nodes as usize));
            }
        }
        open.iter().for_each(|_| text.push(')'));
        text
    }

    /// Where the trees differ first.
    pub fn difference(&self, other: &Tree) -> Option<Difference> {
        // Before the first difference, equal nodes have equal positions.
        let place = (0..self.nodes.len().min(other.nodes.len())).find(|&i| !self.is_alike(other, i))?;
        Some(Difference { prefix: self.path_of(place), a: self.repr_of(place), b: other.repr_of(place) })
    }

    /// Whether the nodes at a position have the same kind, and children with the same names.
    fn is_alike(&self, other: &Tree, i: usize) -> bool {
        let (a, b) = (&self.nodes[i], &other.nodes[i]);
        let names = || self.children_of(i).map(|child| self.name(child));
        let others = || other.children_of(i).map(|child| other.name(child));
        a.kind == b.kind && a.arity == b.arity && (a.kind != Kind::NamedList || names().eq(others()))
    }

    /// The tree with only the root's children that have one of these names.
    ///
    /// # Errors
    /// `InvalidInput` if the root is not a list with names.
    pub fn filter(&self, names: &HashSet<&str>) -> Result<Tree> {
        if self.root() != Kind::NamedList {
            let what = match self.root() {
                Kind::Leaf => "a leaf",
                Kind::Null => "NULL",
                _ => "a list without names",
            };
            bail!(InvalidInput, "The tree must have names, but its root is {what}.");
        }
        let chosen: Vec<_> = self.children_of(0).filter(|&child| names.contains(self.name(child))).collect();
        let mut builder = Builder::default();
        builder.open(true, chosen.len(), "")?;
        for child in chosen {
            builder.append(self, child, self.name(child))?;
        }
        builder.close();
        Ok(builder.finish())
    }

    /// For each leaf, whether it is below a child of the root that has one of these names.
    pub fn leaf_mask(&self, groups: &HashSet<&str>) -> Vec<bool> {
        let mut mask = Vec::with_capacity(self.size());
        for (child, leaves) in self.children() {
            let is_chosen = !child.name.is_empty() && groups.contains(child.name);
            mask.resize(mask.len() + leaves, is_chosen);
        }
        // The root may be a leaf itself.
        mask.resize(self.size(), false);
        mask
    }

    /// The number of nested lists.
    pub fn depth(&self) -> usize {
        let (mut ends, mut depth) = (Vec::new(), 0);
        for (i, node) in self.nodes.iter().enumerate() {
            while ends.last() == Some(&i) {
                ends.pop();
            }
            if node.kind.is_list() {
                ends.push(i + node.nodes as usize);
                depth = depth.max(ends.len());
            }
        }
        depth
    }

    fn view(&self, i: usize) -> View<'_> {
        View { kind: self.nodes[i].kind, arity: self.nodes[i].arity as usize, name: self.name(i) }
    }

    fn name(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.name_end(i - 1) };
        &self.names[start..self.name_end(i)]
    }

    fn name_end(&self, i: usize) -> usize {
        self.nodes[i].name_end as usize
    }

    /// The positions of a node's children.
    fn children_of(&self, parent: usize) -> impl Iterator<Item = usize> + '_ {
        let count = self.nodes.get(parent).map_or(0, |node| node.arity as usize);
        let next = move |&child: &usize| Some(child + self.nodes[child].nodes as usize);
        std::iter::successors((count > 0).then_some(parent + 1), next).take(count)
    }
}

/// Adds a step to a path: the name of an element, or else its position from 0.
pub fn add_step(path: &mut String, name: &str, position: usize) {
    if name.is_empty() {
        let _ = write!(path, "[[{}]]", position.saturating_add(1));
        return;
    }
    if !path.is_empty() {
        path.push('$');
    }
    if is_syntactic(name) {
        path.push_str(name);
    } else {
        path.push('`');
        for c in name.chars() {
            if matches!(c, '`' | '\\') {
                path.push('\\');
            }
            path.push(c);
        }
        path.push('`');
    }
}

/// Words of R's language.
const RESERVED: &str = "if else repeat while function for next break TRUE FALSE NULL Inf NaN NA NA_integer_ NA_real_ \
                        NA_complex_ NA_character_ in";

/// Whether R reads a name without backticks.
fn is_syntactic(name: &str) -> bool {
    let starts = match name.strip_prefix('.') {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_digit()),
        None => name.starts_with(char::is_alphabetic),
    };
    let is_reserved = || RESERVED.split(' ').any(|word| word == name);
    starts && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_')) && !is_reserved()
}

#[cfg(test)]
mod tests;
