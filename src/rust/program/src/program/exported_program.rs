//! Exported functions with their programs.

use super::{Format, Program};
use crate::callable::Callable;
use crate::exported::{Exported, Framework};
use pjrt_base::error::Result;
use pjrt_ir::module::annotations::Array;

/// An exported function with its program.
#[derive(Debug)]
pub struct ExportedProgram {
    pub exported: Exported,
    pub program: Program,
    /// How R calls it, as text.
    pub function: String,
    /// What its file has besides the program.
    around: Vec<u8>,
    /// Where the program is in it.
    at: usize,
}

impl ExportedProgram {
    /// The function in the content of a file of JAX, or its derivative of an order.
    ///
    /// # Errors
    /// As [`Exported::read`] and [`Program::new`].
    pub fn of_jax(content: &[u8], order: usize) -> Result<ExportedProgram> {
        let exported = Exported::read(content, order)?;
        let place = exported.program.clone();
        let around = [&content[..place.start], &content[place.end..]].concat();
        let mut program = Program::new(content[place.clone()].to_vec(), Format::Mlir)?;
        // JAX gives the arguments of derivatives no names.
        if exported.order > 0 {
            program = program.with_input_names(exported.kept_names());
        }
        Self::new(exported, program, around, place.start)
    }

    /// A model of PyTorch from its description and the program of code.
    ///
    /// # Errors
    /// As [`Exported::of_pytorch`] and [`Callable::of_export`].
    pub fn of_pytorch(json: Vec<u8>, program: Program) -> Result<ExportedProgram> {
        let exported = Exported::of_pytorch(&json)?;
        let program = program.with_input_names(exported.kept_names());
        let at = json.len();
        Self::new(exported, program, json, at)
    }

    fn new(exported: Exported, program: Program, around: Vec<u8>, at: usize) -> Result<ExportedProgram> {
        let mut made = ExportedProgram { exported, program, function: String::new(), around, at };
        let is_donated = |input| made.taken(input).is_some_and(|array| array.is_donated);
        let donated: Vec<bool> = (0..made.exported.inputs.len()).map(is_donated).collect();
        made.function = Callable::of_export(&made.exported, &donated)?.to_text()?;
        Ok(made)
    }

    /// How the program describes an input that it takes.
    pub fn taken(&self, input: usize) -> Option<&Array> {
        // With several platforms, the first input is the number of one.
        let first = usize::from(self.exported.platforms.len() > 1);
        self.program.annotations().inputs.as_ref()?.get(first + self.exported.kept.binary_search(&input).ok()?)
    }

    /// The content of its file, and where the program is in it: what [`ExportedProgram::of_file`] reads.
    pub fn to_file(&self) -> (Vec<u8>, usize) {
        let (before, after) = self.around.split_at(self.at);
        ([before, self.program.code(), after].concat(), self.at)
    }

    /// The function in such a content.
    ///
    /// # Errors
    /// As [`ExportedProgram::of_jax`] and [`ExportedProgram::of_pytorch`], and `InvalidFile` for damage.
    pub fn of_file(content: &[u8], framework: Framework, order: usize, at: usize) -> Result<ExportedProgram> {
        match framework {
            Framework::Jax => Self::of_jax(content, order),
            Framework::PyTorch => {
                let Some((json, code)) = content.split_at_checked(at) else {
                    bail!(InvalidFile, "The program is missing.");
                };
                Self::of_pytorch(json.to_vec(), Program::new(code.to_vec(), Format::Mlir)?)
            }
        }
    }
}
