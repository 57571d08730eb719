//! Names for the leaves of nested lists in files, and nested lists of names.

use crate::functions::tree;
use crate::r::conditions::Result;
use crate::r::sexp;
use extendr_api::prelude::*;
use pjrt_data::tensor_names;

/// The name of each leaf of a tree.
pub fn tensor_names_join(tree: Robj, separator: &str) -> Result<Robj> {
    Ok(tensor_names::joined(tree::get(sexp::of(&tree), "tree")?, separator).into())
}

/// The tree that names describe, and the positions, from 1, of the names of its leaves.
pub fn tensor_names_nest(names: Vec<String>, separator: &str) -> Result<Robj> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (tree, order) = tensor_names::nested(&names, separator)?;
    let order: Vec<i32> = order.into_iter().map(|position| position as i32 + 1).collect();
    Ok(list!(tree = sexp::robj(tree::handle_of_tree(tree)), order = order).into())
}
