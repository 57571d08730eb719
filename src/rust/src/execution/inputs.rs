//! The inputs of an execution as R gives them: by position or by name, in lists or lists of lists.

use crate::r::conditions::Result;
use crate::r::sexp;
use extendr_ffi::{SEXP, SEXPTYPE, STRING_ELT};
use pjrt_core::Executable;
use pjrt_program::names::{Inputs, SLASH};

/// The limit of nesting, so that no stack overflows.
const MAX_NESTING: usize = 100;

/// R objects that are passed as inputs.
pub type InputObjects = smallvec::SmallVec<[SEXP; 16]>;

/// Whether the elements of a list are inputs by position, without lists among them. Most calls are such.
#[inline]
pub fn are_plain(inputs: SEXP, values: &[SEXP]) -> bool {
    sexp::is_nil(sexp::names(inputs)) && !values.iter().any(|&x| is_list(x))
}

/// The R objects in a list in the order of the program's arguments. The caller protects the list.
///
/// # Errors
/// `InvalidInput` for names that do not fit, and lists nested too deep.
#[cold]
#[inline(never)]
pub fn in_order(executable: &Executable, inputs: SEXP) -> Result<InputObjects> {
    let mut found = Found::default();
    found.list(inputs, &mut Path::default(), 0)?;
    if !found.inputs.has_names() {
        return Ok(found.values);
    }
    let order = executable.signature().order(&found.inputs)?;
    Ok(order.iter().map(|&i| found.values[i]).collect())
}

/// Whether an R object is a list of inputs: one with a class is an object of something else.
#[inline]
fn is_list(x: SEXP) -> bool {
    sexp::kind(x) == SEXPTYPE::VECSXP && !sexp::is_object(x)
}

#[derive(Default)]
struct Found {
    values: InputObjects,
    inputs: Inputs,
}

/// Where an input is in the lists: names, and positions from 0, below the first level.
#[derive(Default)]
struct Path {
    text: String,
    has_names: bool,
}

impl Found {
    fn list(&mut self, list: SEXP, path: &mut Path, depth: usize) -> Result<()> {
        if depth == MAX_NESTING {
            bail!(InvalidInput, "The inputs are lists that nest more than {MAX_NESTING} levels deep.");
        }
        let names = sexp::names(list);
        for (i, x) in sexp::elements(list).enumerate() {
            let (len, has_names) = (path.text.len(), path.has_names);
            let name = if sexp::is_nil(names) { "" } else { name(names, i)? };
            if !name.is_empty() || depth > 0 {
                if len > 0 {
                    path.text.push(SLASH);
                }
                if name.is_empty() {
                    path.text.push_str(&i.to_string());
                } else {
                    path.text.push_str(name);
                    path.has_names = true;
                }
            }
            if is_list(x) {
                self.list(x, path, depth + 1)?;
            } else {
                self.values.push(x);
                if path.has_names {
                    self.inputs.push(&path.text);
                } else {
                    self.inputs.push_unnamed();
                }
            }
            path.text.truncate(len);
            path.has_names = has_names;
        }
        Ok(())
    }
}

/// The name of an element, which may be empty.
fn name<'a>(names: SEXP, i: usize) -> Result<&'a str> {
    // SAFETY: names are a character vector as long as the list that keeps them.
    match unsafe { sexp::text(STRING_ELT(names, i as _)) } {
        Some(name) => Ok(name),
        None => bail!(InvalidInput, "Names of inputs must be valid text and not NA."),
    }
}
