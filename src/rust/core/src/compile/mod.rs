//! Compilation: by the plugin or from the cache, in the foreground or on other threads.

pub mod queue;

use crate::cache::{Cache, Lookup};
use crate::client::device::Device;
use crate::executable::options::CompileOptions;
use crate::executable::Executable;
use pjrt_base::error::Result;
use pjrt_program::program::Program;

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
    let options = &options.for_program(program.annotations())?;
    let compiled = || Executable::compile(devices, program, options);
    let Some(cache) = cache else { return compiled() };
    match cache.find(devices, program, options, u64::MAX)? {
        Lookup::Executable(executable) => Ok(executable),
        Lookup::Nothing(place) => Ok(cache.keep(place, compiled()?)),
        Lookup::Large => compiled(),
    }
}
