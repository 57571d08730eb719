//! The names of arguments, and of called functions, in a program in bytecode.

use super::{visit, Tables};
use crate::module::annotations::PATH;
use crate::module::Attribute;
use pjrt_base::error::Result;

/// The names in a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// The targets of custom calls, sorted, each once.
    pub targets: Vec<String>,
    pub functions: Vec<Function>,
}

/// A function of a program, with the names of its arguments and what JAX notes of its results: the paths to them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub arguments: Vec<Option<String>>,
    pub results: Vec<Option<String>>,
}

/// The names in bytecode, given without its magic number.
///
/// # Errors
/// The errors of [`super::check`].
pub fn symbols(code: &[u8]) -> Result<Symbols> {
    let mut found = Symbols::default();
    let names = |tables: &Tables<'_>, name: usize| {
        matches!(tables.name(name).1, b"func" | b"func_v1" | b"custom_call" | b"custom_call_v1" | b"custom_call_v2")
    };
    visit(
        code,
        names,
        |_| Ok(()),
        |operation| {
            if let Some(target) = operation.attribute("call_target_name").and_then(Attribute::as_text) {
                found.targets.push(without_nul(target));
            } else if let (Some(name), Some(block)) = (operation.symbol(), operation.block(0)) {
                let names = block.names.iter().map(|name| name.as_ref().map(|name| without_nul(name)));
                let results = operation.attribute("res_attrs").and_then(Attribute::as_array).unwrap_or_default();
                let path = |result: &Attribute| result.item(PATH).and_then(Attribute::as_text).map(without_nul);
                found.functions.push(Function {
                    name: without_nul(name),
                    arguments: names.collect(),
                    results: results.iter().map(path).collect(),
                });
            }
        },
    )?;
    found.targets.sort_unstable();
    found.targets.dedup();
    Ok(found)
}

fn without_nul(name: &str) -> String {
    name.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Symbols {
        let path = format!("{}/../program/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        symbols(&std::fs::read(path).unwrap()[4..]).unwrap()
    }

    #[test]
    fn targets_and_arguments_have_their_names() {
        assert_eq!(of("lu.artifact").targets, ["LuDecomposition"]);
        assert_eq!(of("square.artifact").targets, [""; 0]);
        for name in ["square.mlirbc", "square.artifact", "sharded/step-shardy.artifact"] {
            let functions = of(name).functions;
            assert_eq!(functions.iter().map(|function| function.name.as_str()).collect::<Vec<_>>(), ["main"], "{name}");
        }
    }
}
