//! The inputs of an execution as R gives them: by position or by name, in lists or lists of lists.

use crate::r::conditions::Result;
use crate::r::lists::{is_list, PreservedObject, Step, Walk};
use crate::r::sexp;
use extendr_ffi::SEXP;
use pjrt_core::Executable;
use pjrt_program::names::{Inputs, SLASH};
use smallvec::{smallvec, SmallVec};

/// R objects that are passed as inputs.
pub type InputObjects = SmallVec<[SEXP; 16]>;

/// The inputs that a call gives, in the program's order.
#[derive(Default)]
pub struct Given {
    pub values: InputObjects,
    /// Keeps elements of lists that R makes as they are asked for.
    _made: Vec<PreservedObject>,
}

impl Given {
    /// What a walk has found.
    pub fn new(values: InputObjects, walk: Walk) -> Given {
        Given { values, _made: walk.into_made() }
    }
}

/// The inputs in a list, which the caller protects. Most calls give plain ones: by position, without lists among them.
///
/// # Errors
/// `InvalidInput` for names that do not fit, and lists nested too deep.
#[inline]
pub fn given(executable: &Executable, inputs: SEXP) -> Result<Given> {
    let values: InputObjects = sexp::elements(inputs).collect();
    if sexp::is_nil(sexp::names(inputs)) && !values.iter().any(|&x| is_list(x)) {
        return Ok(Given { values, ..Given::default() });
    }
    in_order(executable, inputs)
}

#[cold]
#[inline(never)]
fn in_order(executable: &Executable, inputs: SEXP) -> Result<Given> {
    let mut values = InputObjects::new();
    let mut paths = Inputs::default();
    // Where a list is in the others: names, and positions from 0, below the first level.
    let mut path = String::new();
    // For each list, how long its path is, and whether there are names in it.
    let mut lists: SmallVec<[(usize, bool); 8]> = smallvec![(0, false)];
    let mut walk = Walk::default();
    walk.enter_named(inputs)?;
    while let Some(step) = walk.next()? {
        let Step::Element(x) = step else {
            lists.pop();
            path.truncate(lists.last().map_or(0, |&(len, _)| len));
            continue;
        };
        let mut has_names = lists.last().is_some_and(|&(_, has_names)| has_names);
        let position;
        let mut name = walk.name()?;
        if !name.is_empty() {
            has_names = true;
        } else if walk.depth() > 1 {
            position = walk.position().to_string();
            name = &position;
        }
        if is_list(x) {
            walk.enter_named(x)?;
            if !name.is_empty() {
                path.push_str(name);
                path.push(SLASH);
            }
            lists.push((path.len(), has_names));
            values.reserve(sexp::len(x));
            continue;
        }
        values.push(x);
        if has_names {
            paths.push(&path, name)?;
        } else {
            paths.push_unnamed();
        }
    }
    if paths.has_names() {
        let order = executable.signature().order(&paths)?;
        values = order.iter().map(|&i| values[i]).collect();
    }
    Ok(Given::new(values, walk))
}
