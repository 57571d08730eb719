//! The names of arguments, and of called functions, in a program in bytecode.

use super::annotations::Program;
use super::operations::{self, Operation};
use super::reader::Reader;
use super::{read, Tables};
use pjrt_base::error::Result;

/// The names in a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// The targets of custom calls, sorted, each once.
    pub targets: Vec<String>,
    /// The functions by name, with the names of their arguments.
    pub functions: Vec<(String, Vec<Option<String>>)>,
}

/// The names in bytecode, given without its magic number.
///
/// # Errors
/// The errors of [`super::check`].
pub(crate) fn symbols(code: &[u8]) -> Result<Symbols> {
    let mut found = Symbols::default();
    read(code, |tables, operations| {
        operations::check(operations, tables, &mut |operation| {
            note(operation, tables, &mut found);
            Ok(())
        })
    })?;
    found.targets.sort_unstable();
    found.targets.dedup();
    Ok(found)
}

fn note(operation: &Operation<'_>, tables: &Tables<'_>, found: &mut Symbols) {
    let program = Program::new(tables);
    match (operation.dialect, operation.name) {
        (b"func", b"func") | (b"vhlo", b"func_v1") => {
            let Some(name) = program.function_name(operation) else { return };
            let of_argument = |location: &Option<usize>| program.location_name((*location)?).map(text);
            found.functions.push((text(name), operation.arguments.iter().map(of_argument).collect()));
        }
        (b"vhlo", b"custom_call_v1") => {
            if let Some(target) = operation.properties.and_then(|properties| target(&program, tables, properties)) {
                found.targets.push(text(target));
            }
        }
        _ => {}
    }
}

/// The target among the properties of a custom call: its third.
fn target<'a>(program: &Program<'a>, tables: &'a Tables<'_>, mut properties: Reader<'_>) -> Option<&'a [u8]> {
    let mut next = || tables.entries.attribute(&mut properties).ok();
    let (_version, _config, target) = (next()?, next()?, next()?);
    program.string(target)
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Symbols {
        let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        symbols(&std::fs::read(path).unwrap()[4..]).unwrap()
    }

    #[test]
    fn targets_and_arguments_have_their_names() {
        assert_eq!(of("lu.artifact").targets, ["LuDecomposition"]);
        assert_eq!(of("square.artifact").targets, [""; 0]);
        for name in ["square.mlirbc", "square.artifact", "sharded/step-shardy.artifact"] {
            let functions = of(name).functions;
            assert_eq!(functions.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["main"], "{name}");
        }
    }
}
