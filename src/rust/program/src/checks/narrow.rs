//! Programs on types narrower than a byte that crash XLA's CPU compiler, or that it compiles wrongly. In R's process, they are
//! refused before compilation, in any form, if the source shows the problem. A compiler in a process of its own may try those
//! that may crash it.
//!
//! Of 1,850 tested programs, these rules refuse all 264 that crashed, and one in ten of those that compile. A copy that
//! changes the order in memory throws a C++ exception unless it is fused with another operation. Such copies occur if
//! one of several results, or a value of a loop or a branch, has another order than the default; and any operation that
//! moves dimensions may cause that.

use crate::program::Program;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_ir::module::{Attribute, Module, Operation, Type};

/// Operations that move dimensions.
const MOVES: [&str; 6] = ["transpose", "gather", "dynamic_gather", "scatter", "convolution", "dynamic_conv"];

/// The findings in a program. Types are names; "matrices" have at least two dimensions above 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Findings {
    /// The type of a matrix among several results.
    pub result: Option<String>,
    /// An operation that moves dimensions.
    pub moves: Option<String>,
    /// The type of a matrix of a narrow type that such an operation returns.
    pub moves_narrow: Option<(String, String)>,
    /// A loop, or a branch.
    pub has_regions: bool,
    /// The type of a matrix among the arguments and results, if some of these have their own order in memory.
    pub ordered: Option<String>,
    /// Operations that break on types of two bits, and the type.
    pub breaks: Option<(String, String)>,
}

/// Checks a program for XLA's CPU compiler in this process.
///
/// # Errors
/// `UnsupportedDtype` for what may crash it, or what it may compile wrongly.
pub fn check(program: &Program) -> Result<()> {
    findings(program)?.map_or(Ok(()), Findings::verdict)
}

/// Checks a program for XLA's CPU compiler in a process of its own, which may crash.
///
/// # Errors
/// `UnsupportedDtype` for what it compiles wrongly.
pub fn check_results(program: &Program) -> Result<()> {
    let is_wrong =
        |found: &Findings| found.ordered.is_some() || found.breaks.as_ref().is_some_and(|(name, _)| name == "sort");
    findings(program)?.filter(is_wrong).map_or(Ok(()), Findings::verdict)
}

fn findings(program: &Program) -> Result<Option<Findings>> {
    Ok(program.narrow_module()?.map(|module| Findings::of(&module)))
}

impl Findings {
    pub(crate) fn of(module: &Module) -> Findings {
        let mut found = Findings::default();
        module.root.all().for_each(|operation| found.note(operation, &module.types));
        let functions = || module.root.inner().filter(|operation| &*operation.name == "func.func");
        let main = functions().find(|function| function.symbol() == Some("main")).or_else(|| functions().next());
        let Some(main) = main else { return found };
        let Some(Attribute::Type(Type::Function(shape))) = main.attribute("function_type") else { return found };
        let matrix = |kind: &Type| narrow(kind).filter(|(_, is_matrix)| *is_matrix).map(|(dtype, _)| dtype.to_string());
        if shape.1.len() > 1 {
            found.result = shape.1.iter().find_map(matrix);
        }
        let ordered = |types: &[Type], attributes: &str| {
            let attributes = main.attribute(attributes).and_then(Attribute::as_array).unwrap_or_default();
            let has_order = |attributes: &&Attribute| attributes.item("mhlo.layout_mode").is_some();
            let mut ordered = types.iter().zip(attributes).filter(|(_, attributes)| has_order(attributes));
            ordered.find_map(|(kind, _)| matrix(kind))
        };
        found.ordered = ordered(&shape.0, "arg_attrs").or_else(|| ordered(&shape.1, "res_attrs"));
        found
    }

    fn note(&mut self, operation: &Operation, types: &[Type]) {
        let kinds = operation.results.iter().map(|result| &types[result.0 as usize]);
        let arrays =
            kinds.flat_map(|kind| if let Type::Tuple(parts) = kind { parts } else { std::slice::from_ref(kind) });
        let narrow = arrays.filter_map(narrow).max_by_key(|(dtype, is_matrix)| (dtype.info().bits == 2, *is_matrix));
        let base = operation.stable_base();
        let order = |name: &str| operation.attribute(name).and_then(Attribute::as_numbers);
        let moves = |name: &str| order(name).is_some_and(|order| !order.is_sorted());
        let name = match &*base {
            "transpose" if !moves("permutation") => "copy",
            "broadcast_in_dim" if moves("broadcast_dimensions") => "transpose",
            "gather" if keeps_order(operation, types) => "slice",
            other => other,
        };
        if MOVES.contains(&name) {
            self.moves.get_or_insert_with(|| name.to_owned());
            if let Some((dtype, true)) = narrow {
                self.moves_narrow.get_or_insert_with(|| (name.to_owned(), dtype.to_string()));
            }
        }
        let two_bits = narrow.filter(|(dtype, _)| dtype.info().bits == 2);
        if let ("concatenate" | "sort", Some((dtype, _))) = (name, two_bits) {
            self.breaks.get_or_insert_with(|| (name.to_owned(), dtype.to_string()));
        }
        self.has_regions |= matches!(name, "while" | "if" | "case" | "conditional");
    }

    fn verdict(self) -> Result<()> {
        const SEPARATE: &str =
            "Convert that result to i8 (f4e2m1fn: to f32) in the program, or return it from a separate program.";
        let (what, hint) = if let Some((name, dtype)) = self.breaks {
            (format!("cannot {name} arrays of {dtype}"), format!("Convert to i8, {name}, and convert back."))
        } else if let (Some(dtype), Some(name)) = (self.result, self.moves) {
            (format!("cannot return {dtype} as one of several results of a program with `{name}`"), SEPARATE.into())
        } else if let (Some((name, dtype)), true) = (self.moves_narrow, self.has_regions) {
            let steps = format!("{name}, apply stablehlo.optimization_barrier, and convert back.");
            let what = format!("cannot {name} arrays of {dtype} in a program with loops or branches");
            (what, format!("Convert to i8 (f4e2m1fn: to f32), {steps}"))
        } else if let Some(dtype) = self.ordered {
            let what = format!("does not support `mhlo.layout_mode` for {dtype}");
            (what, "Leave the attribute out, or use i8.".into())
        } else {
            return Ok(());
        };
        let error = Error::new(Kind::UnsupportedDtype, format!("XLA's CPU compiler {what}."));
        Err(error.hint(hint).on_platform("cpu"))
    }
}

/// The elements of an array of a type narrower than a byte, and whether it is a matrix; `None` for other types.
fn narrow(kind: &Type) -> Option<(DType, bool)> {
    let tensor = kind.as_tensor()?;
    let dtype = tensor.element.dtype().filter(|dtype| dtype.is_packed())?;
    Some((dtype, tensor.is_matrix()))
}

/// Whether the dimensions of a gather's slices come last in its result, as for rows picked from a table.
fn keeps_order(gather: &Operation, types: &[Type]) -> bool {
    let Some(Attribute::Gather(numbers)) = gather.attribute("dimension_numbers") else { return false };
    let rank = gather.results.first().and_then(|result| types[result.0 as usize].dims()).map_or(0, <[i64]>::len);
    let first = rank.saturating_sub(numbers.offset_dims.len());
    (first as i64..rank as i64).eq(numbers.offset_dims.iter().copied())
}

#[cfg(test)]
mod tests;
