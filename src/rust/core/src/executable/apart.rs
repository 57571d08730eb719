//! Compilation in a helper's process, and the helper's part of it.

use crate::apart::protocol::{Answer, Function, Request};
use crate::apart::{Cancel, Limits, Place, Pool};
use crate::client::Client;
use crate::executable::description::Description;
use crate::executable::options::CompileOptions;
use crate::executable::source::Code;
use crate::executable::Loaded;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_handlers::registry;
use pjrt_program::program::Program;
use pjrt_sys::*;
use std::mem::offset_of;

/// The helpers that compile a program with these options, and their limits; `None` if this process does.
pub(crate) fn helpers<'a>(client: &'a Client, options: &CompileOptions) -> Option<(&'a Pool, Limits)> {
    let Place::Apart(limits) = options.place else { return None };
    is_possible(client).then(|| client.helpers()).flatten().map(|pool| (pool, limits))
}

/// Whether helpers can compile for a client: for this machine's processors, if the plugin can serialize executables. A helper
/// loads the plugin again, so it must not have been removed.
pub fn is_possible(client: &Client) -> bool {
    let api = client.plugin().api();
    crate::apart::has_helper()
        && client.shares_host_memory()
        && client.helpers().is_some()
        && client.plugin().path().exists()
        && api.has(offset_of!(PJRT_Api, PJRT_Executable_Serialize))
        && api.has(offset_of!(PJRT_Api, PJRT_Executable_DeserializeAndLoad))
}

/// Lets a helper compile a program, and loads the executable; `None` if this process must compile it.
///
/// # Errors
/// The compiler's; `CompilerCrashed`; `Interrupted` if it is cancelled.
pub(super) fn compile(
    client: &Client,
    (pool, Limits { memory, time }): (&Pool, Limits),
    program: &Program,
    options: &[u8],
    cancel: &Cancel,
) -> Result<Option<(Loaded, Box<[u8]>)>> {
    client.handle()?;
    let functions = registry::users().into_iter().map(|(target, platform)| Function { target, platform });
    let request = Request {
        code: program.code().to_vec(),
        format: program.format().name().into(),
        options: options.to_vec(),
        functions: functions.collect(),
        memory: memory.unwrap_or(0),
        milliseconds: time.map_or(0, |time| (time.as_millis() as u64).max(1)),
        ..Default::default()
    };
    let compiled = pool.compile(request, cancel).map_err(|error| described(error, program))?;
    let Some(payload) = compiled else { return Ok(None) };
    match Loaded::deserialize(client, &payload, options) {
        Ok(loaded) => Ok(Some((loaded, payload.into()))),
        Err(error) if client.is_poisoned() => Err(error),
        // This process compiles the program, which is known not to crash the compiler.
        Err(_) => Ok(None),
    }
}

/// The error with the name of the program.
#[cold]
fn described(error: Error, program: &Program) -> Error {
    if error.kind() != Kind::CompilerCrashed {
        return error;
    }
    match program.name() {
        Some(name) => error.within(&format!("Program `{name}`")),
        None => error,
    }
    .hint(Reason::CompilerCrashed)
}

/// The helper's answer to a request.
pub fn answer(client: &Client, request: &Request) -> Answer {
    for Function { target, platform } in &request.functions {
        if registry::known(target, platform).is_none() {
            // A function that is refused is missing, which the compiler reports.
            let _ = pjrt_handlers::register(target, platform, registry::Handler::BuiltIn(|_| Ok(())));
        }
    }
    match serialized(client, request) {
        Ok(payload) => Answer { payload, ..Default::default() },
        Err(error) => Answer { failure: Some((&error).into()), ..Default::default() },
    }
}

/// Compiles a program and serializes the executable; `None` if the plugin cannot serialize it.
fn serialized(client: &Client, request: &Request) -> Result<Option<Vec<u8>>> {
    let loaded = Loaded::compile(client, &Code::new(&request.code, &request.format)?, &request.options)?;
    Ok(Description::new(client, loaded.handle())?.with_payload(<[u8]>::to_vec).ok())
}
