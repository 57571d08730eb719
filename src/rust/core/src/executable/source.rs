//! A program in the form that a plugin accepts.

use crate::host::memory::HostMemory;
use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind, Result, INVALID_ARGUMENT, UNIMPLEMENTED, UNKNOWN};
use pjrt_ffi::api::{Api, Args};
use pjrt_ir::bytecode::MAGIC;
use pjrt_plugins::cuda;
use pjrt_program::narrow;
use pjrt_program::program::{Format, Program};
use pjrt_program::selections;
use pjrt_sys::*;
use std::cell::OnceCell;
use std::ffi::c_char;
use std::sync::Arc;

/// A program, adapted to a platform.
pub(crate) struct AdaptedProgram<'a> {
    program: &'a Program,
    /// The program for this machine's compiler, if that would compute wrong numbers from the original, or crash.
    guarded: Option<Program>,
    is_host: bool,
    /// Whether the compiler may crash.
    is_apart: bool,
    /// The program rewritten with operations that the plugin knows, if the plugin refused the original.
    rewritten: OnceCell<Program>,
}

/// The code of a program in a format, for a plugin.
pub(crate) struct Code<'a> {
    code: &'a [u8],
    format: &'a str,
    /// A copy of it, for bytecode whose memory is not aligned: MLIR refuses aligned resources in it.
    aligned: Option<Arc<HostMemory>>,
}

impl<'a> AdaptedProgram<'a> {
    /// Checks and adapts a program. `is_host`: for a CPU of this machine; `is_apart`: whether a helper compiles it.
    ///
    /// # Errors
    /// `DynamicShape`; `UnsupportedDtype` for types that would crash XLA's CPU compiler here, or that it compiles wrongly.
    pub fn new(program: &'a Program, is_host: bool, is_apart: bool) -> Result<AdaptedProgram<'a>> {
        program.check_shapes()?;
        match (is_host, is_apart) {
            (true, true) => narrow::check_results(program)?,
            (true, false) => narrow::check(program)?,
            _ => {}
        }
        let guarded = if is_host { guarded(program)? } else { None };
        Ok(AdaptedProgram { program, guarded, is_host, is_apart, rewritten: OnceCell::new() })
    }

    pub fn program(&self) -> &Program {
        self.program
    }

    /// Whether XLA's older code for CPUs is faster for it.
    pub fn prefers_older_code(&self) -> bool {
        self.is_host && selections::prefer_older_code(self.program)
    }

    /// Calls `compile` with the program, and with the program rewritten if the plugin does not know its words.
    ///
    /// # Errors
    /// As `compile` and [`Program::rewritten`].
    pub fn compile_with<T>(&self, plugin: &Plugin, compile: impl Fn(&Program) -> Result<T>) -> Result<T> {
        let compile = |program: &Program| compile_in_form(plugin, program, &compile);
        let mut compiled = self.compile_once(compile);
        let mut rewritten = None;
        // Twice: in older words, it may still ask for kinds of memory that the plugin lacks.
        for _ in 0..2 {
            let Err(error) = &compiled else { break };
            let program = rewritten.as_ref().unwrap_or(self.program);
            let Some(next) = program.rewritten(plugin.stablehlo_versions(), error)? else { break };
            compiled = AdaptedProgram::new(&next, self.is_host, self.is_apart)?.compile_once(compile);
            rewritten = Some(next);
        }
        if let Some(program) = rewritten {
            self.rewritten.get_or_init(|| program);
        }
        compiled
    }

    /// Compiles the guarded program, if there is one. Errors about a program are those about the original.
    fn compile_once<T>(&self, compile: impl Fn(&Program) -> Result<T>) -> Result<T> {
        if let Some(guarded) = &self.guarded {
            match compile(guarded) {
                Err(error) if is_refusal(&error) => {}
                other => return other,
            }
        }
        compile(self.program)
    }

    /// A compiler's error, with what the program shows about it.
    #[cold]
    pub fn explain(&self, error: Error, plugin: &Plugin, platform: &str) -> Error {
        if error.kind() == Kind::CompilerCrashed {
            if let Err(known) = narrow::check(self.program) {
                return known;
            }
        }
        let error = pjrt_handlers::explain(cuda::tools::explained(error), plugin.api(), platform);
        self.rewritten.get().unwrap_or(self.program).explain(error, plugin.stablehlo_versions()).on_platform(platform)
    }
}

/// The program for XLA's CPU compiler, from which some operations compute wrong numbers or crash; `None` if it has none of
/// these.
fn guarded(program: &Program) -> Result<Option<Program>> {
    let mut guarded = None;
    for pass in [Program::with_bytes_before_floats, Program::with_barriers, Program::with_stable_sorts] {
        guarded = pass(guarded.as_ref().unwrap_or(program))?.or(guarded);
    }
    Ok(guarded)
}

/// Whether an error may be about the program.
fn is_refusal(error: &Error) -> bool {
    matches!(error.code(), Some(INVALID_ARGUMENT | UNKNOWN | UNIMPLEMENTED))
}

/// Calls `compile` with the program, as a portable artifact if the plugin reads nothing else.
fn compile_in_form<T>(plugin: &Plugin, program: &Program, compile: impl Fn(&Program) -> Result<T>) -> Result<T> {
    let versions = plugin.stablehlo_versions();
    if plugin.reads_artifacts_only.get() != Some(&true) {
        match compile(program) {
            Err(error) if is_refusal(&error) && !program.is_portable() && reads_artifacts_only(plugin, &compile)? => {}
            other => return other,
        }
    }
    match program.to_portable(versions)? {
        Some(artifact) => compile(&artifact),
        None => compile(program),
    }
}

/// Finds out with a small program in which form a plugin reads programs. `false` if it compiles that in none.
#[cold]
fn reads_artifacts_only<T>(plugin: &Plugin, compile: impl Fn(&Program) -> Result<T>) -> Result<bool> {
    const SMALL: &str = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    if let Some(&is_known) = plugin.reads_artifacts_only.get() {
        return Ok(is_known);
    }
    let text = Program::new(SMALL.into(), Format::Mlir)?;
    let reads_text = compile(&text).is_ok();
    let artifact = if reads_text { None } else { text.to_portable(plugin.stablehlo_versions())? };
    let reads_artifacts = artifact.is_some_and(|artifact| compile(&artifact).is_ok());
    if reads_text || reads_artifacts {
        return Ok(*plugin.reads_artifacts_only.get_or_init(|| reads_artifacts));
    }
    Ok(false)
}

impl<'a> Code<'a> {
    /// # Errors
    /// As for [`Code::new`].
    pub fn of(program: &'a Program) -> Result<Code<'a>> {
        Code::new(program.code(), program.format().name())
    }

    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED`.
    pub fn new(code: &'a [u8], format: &'a str) -> Result<Code<'a>> {
        let aligned = if code.starts_with(MAGIC) && !HostMemory::is_aligned(code.as_ptr()) {
            let memory = HostMemory::new(code.len())?;
            // SAFETY: the new memory is as long.
            unsafe { memory.data().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
            Some(memory)
        } else {
            None
        };
        Ok(Code { code, format, aligned })
    }

    /// Calls `pass` with the program as an argument for the plugin.
    pub fn pass<T>(&self, api: &Api, pass: impl FnOnce(*const PJRT_Program) -> T) -> T {
        // SAFETY: `new` has written all of it.
        let code = self.aligned.as_ref().map_or(self.code, |memory| unsafe { memory.bytes() });
        let mut source = Args::<PJRT_Program>::new(api);
        source.fields.struct_size = api.size_of(&source);
        source.fields.code = code.as_ptr() as *mut c_char;
        source.fields.code_size = code.len();
        source.fields.format = self.format.as_ptr().cast();
        source.fields.format_size = self.format.len();
        pass((&raw const source).cast())
    }
}
