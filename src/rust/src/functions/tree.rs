//! Trees of nested lists: structure and leaves.
//!
//! A tree's handle holds the names of its lists in the pointer's protected slot: a list with a character vector for each
//! list with names, in the tree's order.

use crate::r::conditions::{Failure, Result};
use crate::r::describe::{self, describe};
use crate::r::handle::{self, EmptyHandle};
use crate::r::lists::{is_list, plain_text, utf8, PreservedObject, Step, Walk};
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::error::{Error, Kind as ErrorKind};
use pjrt_data::tree::{Builder, Kind, Tree};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::mem::{take, ManuallyDrop};

owned!(Tree, c"RTree");

/// `tree_flatten(x)`: the list of the leaves; not protected.
pub fn tree_flatten(x: SEXP) -> Result<SEXP> {
    Ok(sexp::over_jumps(walk::<false>(x)?, |walked| sexp::list(walked.leaves.iter().copied())))
}

/// `tree_build(x)`: the structure.
pub fn tree_build(x: SEXP) -> Result<SEXP> {
    Ok(sexp::over_jumps(walk::<true>(x)?, |walked| handle_of(&walked.names, || take(&mut walked.tree))))
}

/// `tree_take_apart(x)`: the list of structure and leaves.
pub fn tree_take_apart(x: SEXP) -> Result<SEXP> {
    Ok(sexp::over_jumps(walk::<true>(x)?, |walked| {
        let leaves = Protected::new(sexp::list(walked.leaves.iter().copied()));
        let tree = Protected::new(handle_of(&walked.names, || take(&mut walked.tree)));
        sexp::list([tree.sexp(), leaves.sexp()])
    }))
}

/// As in "1 leaf" and "2 leaves".
pub fn leaves_in_words(count: usize) -> String {
    format!("{count} {}", if count == 1 { "leaf" } else { "leaves" })
}

/// `tree_unflatten(tree, leaves)`: the nested list.
pub fn tree_unflatten(tree: SEXP, leaves: SEXP) -> Result<SEXP> {
    let size = get(tree, "tree")?.size();
    if sexp::kind(leaves) != SEXPTYPE::VECSXP {
        bail!(InvalidType, "`x` must be a list of leaves, not {}.", describe(leaves));
    }
    let got = sexp::len(leaves);
    ensure!(got == size, InvalidInput, "unflatten(): got {} but the tree has {size}.", leaves_in_words(got));
    let mut next = 0;
    assemble(tree, "tree", || {
        next += 1;
        // SAFETY: a list with an element for each leaf.
        unsafe { VECTOR_ELT(leaves, next - 1) }
    })
}

/// `tree_size(tree)`: the number of leaves.
pub fn tree_size(tree: SEXP) -> Result<SEXP> {
    Ok(sexp::new_whole_numbers(&[get(tree, "tree")?.size() as i64]))
}

/// `tree_equal(a, b)`: whether the trees have the same structure and names.
pub fn tree_equal(a: SEXP, b: SEXP) -> Result<SEXP> {
    Ok(sexp::new_flag(get(a, "a")? == get(b, "b")?))
}

/// `tree_hash(tree)`: the hash in decimal digits.
pub fn tree_hash(tree: SEXP) -> Result<SEXP> {
    Ok(sexp::new_string(&get(tree, "tree")?.hash().to_string()))
}

/// `tree_root_kind(tree)`: "leaf", "list" or "null".
pub fn tree_root_kind(tree: SEXP) -> Result<SEXP> {
    Ok(sexp::new_string(get(tree, "tree")?.root().name()))
}

/// `tree_child_names(tree)`: the names of the root's children, or NULL.
pub fn tree_child_names(tree: SEXP) -> Result<SEXP> {
    let is_named = get(tree, "tree")?.root() == Kind::NamedList;
    Ok(if is_named { sexp::at(names_of_lists(tree), 0) } else { sexp::nil() })
}

/// `tree_child_kinds(tree)`: the kinds of the root's children.
pub fn tree_child_kinds(tree: SEXP) -> Result<SEXP> {
    let tree = get_list(tree, "tree_child_kinds()")?;
    let out = Protected::new(sexp::vector(SEXPTYPE::STRSXP, tree.children().count()));
    tree.children().enumerate().for_each(|(i, (child, _))| sexp::set_text(out.sexp(), i, child.kind.name()));
    Ok(out.sexp())
}

/// `tree_child_sizes(tree)`: the numbers of leaves of the root's children.
pub fn tree_child_sizes(tree: SEXP) -> Result<SEXP> {
    let tree = get_list(tree, "tree_child_sizes()")?;
    let out = sexp::vector(SEXPTYPE::INTSXP, tree.children().count());
    // SAFETY: an integer vector with an element for each child.
    tree.children().enumerate().for_each(|(i, (_, size))| unsafe { *INTEGER(out).add(i) = size as i32 });
    Ok(out)
}

/// `tree_path(tree, i)`: the path of a leaf, from 1.
pub fn tree_path(tree: SEXP, i: SEXP) -> Result<SEXP> {
    let tree = get(tree, "tree")?;
    let Some(index) = sexp::number(i).filter(|index| index.fract() == 0.0) else {
        bail!(InvalidType, "`i` must be one whole number, not {}.", describe(i));
    };
    let path = if index >= 1.0 { tree.path(index as usize - 1) } else { None };
    match path {
        Some(path) => Ok(sexp::new_string(&path)),
        None => bail!(
            InvalidInput,
            "The tree has no leaf with index {}: it has {}.",
            describe::number(index),
            leaves_in_words(tree.size())
        ),
    }
}

/// `tree_filter(tree, names)`: the tree with only these children of the root.
pub fn tree_filter(tree: SEXP, names: SEXP) -> Result<SEXP> {
    let filtered = get(tree, "tree")?.filter(&set(&texts(names, "names")?))?;
    Ok(handle_of_tree(filtered))
}

/// `tree_concat(children, names)`: a list of these trees.
pub fn tree_concat(children: SEXP, names: SEXP) -> Result<SEXP> {
    if sexp::kind(children) != SEXPTYPE::VECSXP || sexp::is_object(children) {
        bail!(InvalidType, "`children` must be a list of trees, not {}.", describe(children));
    }
    let child = |(i, child): (usize, SEXP)| get(child, &format!("children[[{}]]", i + 1));
    let trees = sexp::elements(children).enumerate().map(child).collect::<Result<Vec<_>>>()?;
    let given = if sexp::is_nil(names) { None } else { Some(texts(names, "names")?) };
    let names: Option<Vec<&str>> = given.as_ref().map(|names| names.iter().map(String::as_str).collect());
    let tree = Tree::concat(&trees, names.as_deref())?;
    drop((trees, names));
    drop(given);
    Ok(handle_of_tree(tree))
}

/// `tree_leaf_mask(tree, groups)`: which leaves are below children of the root with these names.
pub fn tree_leaf_mask(tree: SEXP, groups: SEXP) -> Result<SEXP> {
    let mask = get(tree, "tree")?.leaf_mask(&set(&texts(groups, "groups")?));
    Ok(sexp::over_jumps(mask, |mask| {
        let out = sexp::vector(SEXPTYPE::LGLSXP, mask.len());
        // SAFETY: a logical vector with an element for each leaf.
        mask.iter().enumerate().for_each(|(i, &is_chosen)| unsafe { *LOGICAL(out).add(i) = is_chosen.into() });
        out
    }))
}

/// `tree_repr(tree)`: the tree as text.
pub fn tree_repr(tree: SEXP) -> Result<SEXP> {
    Ok(sexp::over_jumps(get(tree, "tree")?.repr(), |text| sexp::new_string(text)))
}

/// `tree_diff(a, b)`: where two trees differ first, or NULL.
pub fn tree_diff(a: SEXP, b: SEXP) -> Result<SEXP> {
    let Some(found) = get(a, "a")?.difference(get(b, "b")?) else { return Ok(sexp::nil()) };
    Ok(sexp::over_jumps(found, |found| {
        sexp::record(&[
            ("prefix", &|| sexp::new_string(&found.prefix)),
            ("a", &|| sexp::new_string(&found.a)),
            ("b", &|| sexp::new_string(&found.b)),
        ])
    }))
}

/// The tree of a handle.
pub fn get<'a>(tree: SEXP, argument: &str) -> Result<&'a Tree> {
    handle::get(tree, argument).map_err(|_| not_a_tree(tree, argument))
}

#[cold]
fn not_a_tree(x: SEXP, argument: &str) -> Failure {
    let message = format!("`{argument}`: expected an `RTree` (as returned by `build_tree()`), not {}.", describe(x));
    let error = Error::new(ErrorKind::InvalidType, message);
    let is_loaded = handle::is_null(x) && sexp::inherits(x, c"RTree");
    Failure(if is_loaded { error.hint("A tree does not survive saving and loading. Create it again.") } else { error })
}

/// The tree of a handle if it is a list.
fn get_list<'a>(tree: SEXP, function: &str) -> Result<&'a Tree> {
    let tree = get(tree, "tree")?;
    ensure!(
        tree.root().is_list(),
        InvalidInput,
        "{function} requires a tree whose root is a list node, but its root is a {} node.",
        tree.root().name()
    );
    Ok(tree)
}

/// The names of a tree's lists.
fn names_of_lists(tree: SEXP) -> SEXP {
    // SAFETY: the handle of a tree, so an external pointer.
    unsafe { R_ExternalPtrProtected(tree) }
}

/// What a walk over a nested list finds.
#[derive(Default)]
pub struct Walked {
    /// Without nodes if the walk did not look for them.
    pub tree: Tree,
    /// R's objects, which the list holds.
    pub leaves: SmallVec<[SEXP; 16]>,
    /// The names of each list with names.
    pub names: SmallVec<[SEXP; 4]>,
    /// Holds those that were made by the walk.
    _made: Vec<PreservedObject>,
}

/// Walks over a nested list, which the caller protects. Without `STRUCTURE`, finds only the leaves.
///
/// # Errors
/// `InvalidInput` for names that are missing or not valid text, and for lists that are nested too deep or too large.
/// `Interrupted` if the user interrupts.
pub fn walk<const STRUCTURE: bool>(x: SEXP) -> Result<Walked> {
    let mut found = Walked::default();
    let mut builder = Builder::default();
    let mut walk = Walk::default();
    let mut step = Some(Step::Element(x));
    while let Some(now) = step {
        match now {
            Step::Left if STRUCTURE => builder.close(),
            Step::Left => {}
            Step::Element(value) => {
                let name = if STRUCTURE { walk.name()? } else { "" };
                if sexp::is_nil(value) {
                    if STRUCTURE {
                        builder.null(name)?;
                    }
                } else if is_list(value) {
                    let names = walk.enter_named(value)?;
                    if STRUCTURE {
                        builder.open(names.is_some(), sexp::len(value), name)?;
                        found.names.extend(names);
                    }
                } else {
                    if STRUCTURE {
                        builder.leaf(name)?;
                    }
                    found.leaves.push(value);
                }
            }
        }
        step = walk.next()?;
    }
    found.tree = builder.finish();
    found._made = walk.into_made();
    Ok(found)
}

/// The strings of an argument.
///
/// # Errors
/// `InvalidType` for anything but a character vector; `InvalidInput` for NA and for strings that are not valid text.
pub fn texts(x: SEXP, argument: &str) -> Result<Vec<String>> {
    if sexp::kind(x) != SEXPTYPE::STRSXP || sexp::is_object(x) {
        bail!(InvalidType, "`{argument}` must be a character vector, not {}.", describe(x));
    }
    let (vector, _made) = plain_text(x)?;
    let text = |i| {
        // SAFETY: the argument or `_made` holds the vector; R has set its NA before it loads the package.
        let (text, is_missing) = unsafe {
            let element = STRING_ELT(vector, i as R_xlen_t);
            (utf8(element), element == R_NaString)
        };
        match text {
            _ if is_missing => bail!(InvalidInput, "{argument} must not be NA."),
            Some(text) => Ok(text.to_owned()),
            None => bail!(InvalidInput, "An element of `{argument}` is not valid text."),
        }
    };
    (0..sexp::len(vector)).map(text).collect()
}

/// The different ones of these strings.
pub fn set(texts: &[String]) -> HashSet<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The handle of a tree whose lists have these names; not protected. R may leave this by a long jump before `tree` is called.
pub fn handle_of(names: &[SEXP], tree: impl FnOnce() -> Tree) -> SEXP {
    let names = Protected::new(sexp::list(names.iter().copied()));
    let handle = EmptyHandle::<Tree>::over(names.sexp());
    // SAFETY: nothing was allocated since it was made.
    unsafe { handle.fill(tree()) }
}

/// The handle of a tree; not protected. R may leave this by a long jump.
pub fn handle_of_tree(tree: Tree) -> SEXP {
    let tree = ManuallyDrop::new(tree);
    let lists = Protected::new(sexp::vector(SEXPTYPE::VECSXP, tree.named_lists().count()));
    for (i, (len, names)) in tree.named_lists().enumerate() {
        let vector = sexp::vector(SEXPTYPE::STRSXP, len);
        sexp::set_at(lists.sexp(), i, vector);
        names.enumerate().for_each(|(j, name)| sexp::set_text(vector, j, name));
    }
    let handle = EmptyHandle::<Tree>::over(lists.sexp());
    // SAFETY: nothing was allocated since it was made.
    unsafe { handle.fill(ManuallyDrop::into_inner(tree)) }
}

/// The nested list of the tree of a handle; not protected. R may leave this by a long jump.
pub fn assemble(handle: SEXP, argument: &str, mut next_leaf: impl FnMut() -> SEXP) -> Result<SEXP> {
    let (tree, names) = (get(handle, argument)?, names_of_lists(handle));
    let holder = Protected::new(sexp::vector(SEXPTYPE::VECSXP, 1));
    // Lists that are being filled, with their next element and their number of elements.
    let mut open: ManuallyDrop<SmallVec<[(SEXP, usize, usize); 16]>> = ManuallyDrop::new(SmallVec::new());
    open.push((holder.sexp(), 0, 1));
    let mut named = 0;
    for node in tree.views() {
        while open.last().is_some_and(|(_, next, len)| next == len) {
            open.pop();
        }
        let Some((list, next, _)) = open.last_mut() else { break };
        let value = match node.kind {
            Kind::Leaf => next_leaf(),
            Kind::Null => sexp::nil(),
            Kind::List | Kind::NamedList => sexp::vector(SEXPTYPE::VECSXP, node.arity),
        };
        sexp::set_at(*list, *next, value);
        *next += 1;
        if node.kind == Kind::NamedList {
            sexp::set_names(value, sexp::at(names, named));
            named += 1;
        }
        if node.kind.is_list() {
            open.push((value, 0, node.arity));
        }
    }
    drop(ManuallyDrop::into_inner(open));
    Ok(sexp::at(holder.sexp(), 0))
}
