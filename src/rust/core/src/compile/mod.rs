//! Compilation: by the plugin or from the cache, in the foreground or on other threads.

pub mod queue;
#[cfg(unix)]
pub mod serve;

use crate::apart::Cancel;
use crate::cache::{Cache, Lookup};
use crate::client::device::Device;
use crate::executable::options::CompileOptions;
use crate::executable::Executable;
use pjrt_base::error::Result;
use pjrt_base::trace::{self, Activity, Details, Span};
use pjrt_program::program::Program;

/// Stack for the recursion of compilers, several times a main thread's; only the used part takes memory.
const STACK: usize = 64 << 20;

/// Address space that a compiler needs to start its threads and to work; without it, it crashes.
const FIRST_COMPILE: usize = 448 << 20;

/// Compiles a program, or loads it from the cache if the cache has it.
///
/// # Errors
/// As [`Executable::compile`].
pub fn compile(
    cache: Option<&Cache>,
    devices: &[Device],
    program: &Program,
    options: &CompileOptions,
) -> Result<Executable> {
    compile_unless(&Cancel::default(), cache, None, devices, program, options)
}

/// The same, until it is cancelled; `found` is what the cache has, if it was asked already.
fn compile_unless(
    cancel: &Cancel,
    cache: Option<&Cache>,
    found: Option<Lookup>,
    devices: &[Device],
    program: &Program,
    options: &CompileOptions,
) -> Result<Executable> {
    let options = &options.for_program(program.annotations())?;
    let span = span();
    let compiled = || Executable::compile_unless(cancel, devices, program, options);
    let Some(cache) = cache else { return end(span, "compiled", compiled()) };
    match found.map_or_else(|| cache.find(devices, program, options, u64::MAX), Ok) {
        Ok(Lookup::Executable(executable, found)) => end(span, found, Ok(executable)),
        Ok(Lookup::Nothing(place)) => end(span, "not in the cache", compiled().map(|made| cache.keep(place, made))),
        Ok(Lookup::Large) => end(span, "compiled", compiled()),
        Err(error) => end(span, "", Err(error)),
    }
}

/// A compilation for the record, which may go on when that ends.
#[inline]
fn span() -> Span {
    trace::span(Activity::Compile, Details::default).kept()
}

/// Records the end of a compilation.
fn end(mut span: Span, outcome: &'static str, compiled: Result<Executable>) -> Result<Executable> {
    span.note(|details| {
        if let Ok(executable) = &compiled {
            let name = &*executable.signature().name;
            *details = Details::named(name).of_program(name).outcome(outcome);
        }
    });
    span.check(&compiled);
    compiled
}
