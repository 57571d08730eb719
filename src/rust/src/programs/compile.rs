//! Compilation.

use crate::memory;
use crate::programs::{cache, compile_options, executable};
use crate::r::conditions::Result;
use crate::r::describe::describe;
use crate::r::{handle, progress, sexp};
use extendr_api::prelude::*;
use pjrt_base::{callbacks, error};
use pjrt_core::apart::{self, Limits, Place};
use pjrt_core::cache::Cache;
use pjrt_core::client::holdings;
use pjrt_core::executable::apart::is_possible;
use pjrt_core::executable::execute::Dispatch;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Client, Compiling, Device};
use pjrt_program::program::Program;
use std::ffi::CStr;
use std::path::Path;
use std::time::Duration;

owned!(Compiling, c"PJRTCompiling", const SHOWN: &'static CStr = c"PJRTExecutablePromise";);

/// Compiles a program for a list of devices. If it is empty, for the options' devices on the default device's client.
/// Waits on R's thread, which checks for interrupts, while another thread compiles.
pub fn executable_compile(
    program: &Program,
    options: Robj,
    devices: Robj,
    default: Robj,
    cache: Robj,
    place: Robj,
) -> Result<Robj> {
    compiling_value(&started(Compiling::start, program, &options, &devices, &default, &cache, &place)?)
}

/// The same without waiting.
pub fn compiling_start(
    program: &Program,
    options: Robj,
    devices: Robj,
    default: Robj,
    cache: Robj,
    place: Robj,
) -> Result<Robj> {
    Ok(handle::object(started(Compiling::enqueue, program, &options, &devices, &default, &cache, &place)?))
}

/// Whether a compilation has ended.
pub fn compiling_is_ready(compiling: &Compiling) -> Result<Robj> {
    callbacks::serve()?;
    Ok(compiling.is_ready()?.into())
}

/// Waits for an executable.
pub fn compiling_value(compiling: &Compiling) -> Result<Robj> {
    let compiled = progress::doing("compiling", || compiling.wait());
    Ok(executable::object(compiled.map_err(|error| holdings::explain(error, needs))?))
}

/// The memory that a compilation needs, in words.
fn needs() -> String {
    "the compiler's work".into()
}

/// What `start` returns for these arguments of R.
fn started(
    start: fn(Option<&Cache>, &[Device], &Program, &CompileOptions) -> error::Result<Compiling>,
    program: &Program,
    options: &Robj,
    devices: &Robj,
    default: &Robj,
    cache: &Robj,
    place: &Robj,
) -> Result<Compiling> {
    let cache = cache::get(cache)?;
    let options = compile_options::get(sexp::of(options))?.for_program(program.annotations())?;
    let options = CompileOptions { dispatch: dispatch_option()?, place: place_of(place), ..options };
    let mut devices = device_list(devices)?;
    if devices.is_empty() {
        let default: &Device = handle::get(sexp::of(default), "device")?;
        devices = options.assigned_devices(default.client())?;
    }
    Ok(memory::with_retry(needs, || start(cache.as_ref(), &devices, program, &options))?)
}

/// Where to compile, from `compile_place()` in R: NULL for this process, or a helper's limits of bytes and seconds, which may be
/// infinite.
pub fn place_of(place: &Robj) -> Place {
    // SAFETY: R protects the argument.
    match unsafe { sexp::doubles(sexp::of(place)) } {
        [memory, time] => Place::Apart(Limits {
            memory: memory.is_finite().then_some(*memory as u64),
            time: Duration::try_from_secs_f64(*time).ok(),
        }),
        _ => Place::Inside,
    }
}

/// Names the program that compiles in a process of its own. Returns whether it is there.
pub fn compile_helper(path: &str) -> bool {
    apart::set_helper(Path::new(path));
    apart::has_helper()
}

/// Whether the client's programs can be compiled in processes of their own.
pub fn compiles_apart(client: &Client) -> bool {
    is_possible(client)
}

/// The devices in an R list.
pub fn device_list(devices: &Robj) -> Result<Vec<Device>> {
    let devices = sexp::of(devices);
    sexp::elements(devices).map(|device| handle::get(device, "devices").cloned()).collect()
}

/// How programs compiled now are launched: `options(pjrt.dispatch = )`. Not looked up at each launch, because R
/// searches all of its options for it.
pub fn dispatch_option() -> Result<Dispatch> {
    let option = sexp::option(c"pjrt.dispatch");
    // SAFETY: R keeps its options, and none changes here.
    match unsafe { sexp::string(option) } {
        None if sexp::is_nil(option) => Ok(Dispatch::Auto),
        Some("auto") => Ok(Dispatch::Auto),
        Some("inline") => Ok(Dispatch::Inline),
        Some("thread") => Ok(Dispatch::Thread),
        _ => bail!(
            InvalidInput,
            "`options(pjrt.dispatch = )` must be \"auto\", \"inline\" or \"thread\", not {}.",
            describe(option)
        ),
    }
}
