//! Functions that PyTorch exported to a folder.

use crate::programs::exported;
use crate::r::conditions::Result;
use extendr_api::prelude::*;
use pjrt_base::error::{Error, Kind};
use pjrt_base::mmap;
use pjrt_program::program::exported_program::ExportedProgram;
use pjrt_program::program::{Format, Program};
use std::path::Path;

/// The extension of functions' descriptions, and of their programs, the best first.
const DESCRIPTION: &str = "meta";
const PROGRAMS: [&str; 2] = ["bytecode", "mlir"];

/// What writes folders that can be read here.
const EXPORT: &str =
    "In Python, torch_xla.stablehlo.save_torch_model_as_stablehlo(model, args, \"folder\") writes such folders.";

/// The exported function in a folder, by its name if there are several, without its weights.
pub fn pytorch_read(folder: &str, name: Robj) -> Result<Robj> {
    let functions = Path::new(folder).join("functions");
    let name = choose(folder, &functions, name.as_str())?;
    let file = |extension: &str| functions.join(format!("{name}.{extension}"));
    let description = mmap::read(&file(DESCRIPTION))?;
    let Some(code) = PROGRAMS.iter().map(|extension| file(extension)).find(|path| path.exists()) else {
        bail!(
            InvalidInput,
            "'{}' has no program: '{name}.bytecode' and '{name}.mlir' are missing.",
            functions.display()
        );
    };
    let program = Program::new(mmap::read(&code)?, Format::Mlir).map_err(|error| error.about(&code))?;
    let read = ExportedProgram::of_pytorch(description, program).map_err(|error| error.about(&file(DESCRIPTION)))?;
    Ok(exported::object(read))
}

/// The name of the function to read: the given one, the only one, or the one that exporters call `forward`.
fn choose(folder: &str, functions: &Path, name: Option<&str>) -> Result<String> {
    const USUAL: &str = "forward";
    let not_a_model = |what: &str| {
        Error::new(Kind::InvalidInput, format!("'{folder}' is not an exported model of PyTorch: {what}.")).hint(EXPORT)
    };
    let entries = match std::fs::read_dir(functions) {
        Ok(entries) => entries,
        Err(_) => return Err(not_a_model("it has no folder 'functions'").into()),
    };
    let stem = |path: &Path| match path.extension() {
        Some(extension) if extension == DESCRIPTION => Some(path.file_stem()?.to_str()?.to_owned()),
        _ => None,
    };
    let mut known: Vec<String> = entries.filter_map(|entry| stem(&entry.ok()?.path())).collect();
    known.sort_unstable();
    let found = match (name, known.as_slice()) {
        (_, []) => return Err(not_a_model("its folder 'functions' has no description of a function").into()),
        (Some(name), _) => known.iter().find(|known| *known == name),
        (None, [only]) => Some(only),
        (None, _) => known.iter().find(|known| *known == USUAL),
    };
    if let Some(found) = found {
        return Ok(found.clone());
    }
    let names = known.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let message = match name {
        Some(name) => format!("'{folder}' has no function \"{name}\"."),
        None => format!("'{folder}' has several functions: choose one by `name`."),
    };
    Err(Error::new(Kind::InvalidInput, message).hint(format!("Its functions are {names}.")).into())
}
