//! Compilation in a helper's process, and the helper's part of it.

use crate::apart::protocol::{Answer, Function, Request};
use crate::apart::{Cancel, Limits, Outcome, Place, Pool};
use crate::client::Client;
use crate::executable::description::Description;
use crate::executable::options::CompileOptions;
use crate::executable::source::Code;
use crate::executable::Loaded;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_ffi::api::call;
use pjrt_handlers::registry;
use pjrt_program::program::Program;
use pjrt_sys::*;

/// A program that a helper has compiled and this process has loaded.
pub(super) struct Made {
    pub handle: *mut PJRT_LoadedExecutable,
    pub payload: Box<[u8]>,
}

/// The helpers that compile a program with these options, and their limits; `None` if this process does.
pub(super) fn helpers<'a>(client: &'a Client, options: &CompileOptions) -> Option<(&'a Pool, Limits)> {
    let Place::Apart(limits) = options.place else { return None };
    is_possible(client).then(|| client.helpers()).flatten().map(|pool| (pool, limits))
}

/// Whether helpers compile programs with these options.
pub(crate) fn is_apart(client: &Client, options: &CompileOptions) -> bool {
    helpers(client, options).is_some()
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
) -> Result<Option<Made>> {
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
        Outcome::Compiled(payload) => load(client, payload, options),
        Outcome::NotApart => Ok(None),
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
fn load(client: &Client, payload: Vec<u8>, options: &[u8]) -> Result<Option<Made>> {
    let loaded = call!(
        client.plugin().api(),
        PJRT_Executable_DeserializeAndLoad {
            client: client.handle()?,
            serialized_executable: payload.as_ptr().cast(),
            serialized_executable_size: payload.len(),
            overridden_serialized_compile_options: options.as_ptr().cast(),
            overridden_serialized_compile_options_size: options.len(),
        }
    );
    match loaded {
        Ok(loaded) => Ok(Some(Made { handle: loaded.loaded_executable, payload: payload.into() })),
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
    let api = client.plugin().api();
    let code = Code::new(&request.code, &request.format)?;
    let compiled = code.pass(api, |program| {
        call!(
            api,
            PJRT_Client_Compile {
                client: client.handle()?,
                program: program.cast(),
                compile_options: request.options.as_ptr().cast(),
                compile_options_size: request.options.len(),
            }
        )
    })?;
    let loaded = Loaded::new(client, compiled.executable);
    Ok(Description::new(client, loaded.handle())?.with_payload(<[u8]>::to_vec).ok())
}
