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

/// The helpers that compile a program with these options, and their limits; `None` if this process does.
pub(crate) fn helpers<'a>(client: &'a Client, options: &CompileOptions) -> Option<(&'a Pool, Limits)> {
    let Place::Apart(limits) = options.place else { return None };
    is_possible(client).then(|| client.helpers()).flatten().map(|pool| (pool, limits))
}

/// Whether helpers can compile for a client: for this machine's processors, if the plugin can serialize executables. A helper
/// loads the plugin again, so it must not have been removed.
pub fn is_possible(client: &Client) -> bool {
    let api = client.plugin().api();
    let has = |offset: usize| api.has(offset);
    crate::apart::has_helper()
        && client.shares_host_memory()
        && client.helpers().is_some()
        && client.plugin().path().exists()
        && has(std::mem::offset_of!(PJRT_Api, PJRT_Executable_Serialize))
        && has(std::mem::offset_of!(PJRT_Api, PJRT_Executable_DeserializeAndLoad))
}

/// Lets a helper compile a program, and loads the executable; `None` if this process must compile it.
///
/// # Errors
/// The compiler's; `CompilerCrashed`; `Interrupted` if it is cancelled.
pub(super) fn compile(
    client: &Client,
    (pool, limits): (&Pool, Limits),
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
        ..Default::default()
    };
    match pool.compile(request, limits, cancel).map_err(|error| described(error, program))? {
        Some(payload) => load(client, payload, options),
        None => Ok(None),
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

/// Loads a serialized executable. If that fails, this process compiles the program: it is known not to crash the compiler.
fn load(client: &Client, payload: Vec<u8>, options: &[u8]) -> Result<Option<(Loaded, Box<[u8]>)>> {
    match Loaded::deserialize(client, &payload, options) {
        Ok(loaded) => Ok(Some((loaded, payload.into()))),
        Err(error) if client.is_poisoned() => Err(error),
        Err(_) => Ok(None),
    }
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
