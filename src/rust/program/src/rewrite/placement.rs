//! Arrays in kinds of memory that a plugin does not have: they stay in its own.

use super::replace_each;
use pjrt_base::error::{Error, NOT_FOUND};
use pjrt_ir::module::{Attribute, Module, Operation};

/// The function by which a program asks for another kind of memory.
const PLACEMENT: &str = "annotate_device_placement";

/// Whether a compiler does not know the function.
pub(super) fn is_unknown(error: &Error) -> bool {
    error.code() == Some(NOT_FOUND) && error.message().contains(PLACEMENT)
}

pub(super) fn remove(module: &mut Module) {
    replace_each(&mut module.root, &mut |mut operation, out| {
        if operation.attribute("call_target_name").and_then(Attribute::as_text) == Some(PLACEMENT) {
            operation = Operation::new("stablehlo.optimization_barrier", operation.operands, operation.results);
        }
        out.push(operation);
    });
    module.root.without_regions_of_composites();
}
