//! Handlers of custom calls, and what `print_tensor` prints.

use crate::arrays::print::pieces;
use crate::calls::r_call;
use crate::r::conditions::Result;
use crate::r::describe::describe;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{R_ExternalPtrAddr, SEXP, SEXPTYPE};
use pjrt_base::error::{Error, Kind};
use pjrt_base::process;
use pjrt_core::Executable;
use pjrt_data::print::Options;
use pjrt_handlers::print;
use pjrt_handlers::registry::{self, ForeignHandler, Handler};
use std::ffi::CStr;

/// Registers a handler for each of these platforms, instead of those that the target had before.
pub fn custom_call_register(target: &str, platforms: Vec<String>, handlers: Robj) -> Result<Robj> {
    let platforms: Vec<&str> = platforms.iter().map(String::as_str).collect();
    let handlers = platforms.iter().zip(sexp::elements(sexp::of(&handlers)));
    let handlers = handlers.map(|(platform, handler)| function(handler, platform)).collect::<Result<Vec<_>>>()?;
    for (platform, handler) in platforms.iter().zip(handlers) {
        // Somebody may unload the library that the function is in.
        process::keep_library_of(handler as *const () as usize);
        registry::register(target, platform, Handler::Foreign(handler))?;
    }
    registry::unregister_except(target, &platforms);
    r_call::forget(target);
    Ok(().into())
}

/// The function that an external pointer points to.
fn function(x: SEXP, platform: &str) -> Result<ForeignHandler> {
    if sexp::kind(x) != SEXPTYPE::EXTPTRSXP {
        bail!(InvalidType, "`handler${platform}` must be an external pointer to a function, not {}.", describe(x));
    }
    if sexp::inherits(x, c"RegisteredNativeSymbol") {
        let message = format!("`handler${platform}` describes a registered routine instead of pointing to a function.");
        return Err(Error::new(Kind::InvalidPointer, message)
            .hint("getNativeSymbolInfo(name, package)$address points to the function.")
            .into());
    }
    // SAFETY: on R's main thread; an external pointer.
    let address = unsafe { R_ExternalPtrAddr(x) } as usize;
    if address == 0 {
        bail!(InvalidPointer, "`handler${platform}` is a null pointer. External pointers do not survive saveRDS().");
    }
    if process::is_code(address) == Some(false) {
        bail!(InvalidPointer, "`handler${platform}` does not point to a function.");
    }
    // SAFETY: the address is that of code; the user promises that it is a handler.
    Ok(unsafe { std::mem::transmute::<usize, ForeignHandler>(address) })
}

/// Removes the handlers of this name.
pub fn custom_call_unregister(target: &str) -> Result<Robj> {
    let was_there = registry::unregister(target);
    r_call::forget(target);
    Ok(was_there.into())
}

/// The handlers that plugins have refused since the last call, one sentence each.
pub fn custom_call_problems() -> Result<Robj> {
    Ok(registry::take_problems().into())
}

/// Writes text to R's console, or where R's output goes.
///
/// # Errors
/// `Interrupted`.
pub fn write(text: &str) -> pjrt_base::error::Result<()> {
    let pieces = pieces(text);
    // An error of the connection that gets the output is not the program's.
    sexp::guarded(|| {
        let vector = Protected::new(sexp::new_strings(pieces.iter().copied()));
        sexp::call_ours(c"write_output", vector.sexp());
    })
    .map(drop)
}

/// Makes `print_tensor` use the session's options, before an execution that may print.
pub fn read_limits(executable: &Executable) {
    if executable.functions().is_empty() {
        return;
    }
    let number = |name: &CStr| sexp::number(sexp::option(name)).filter(|number| number.fract() == 0.0);
    let rows = |name: &CStr| number(name).filter(|&rows| rows >= 1.0 || rows == -1.0).map(limit);
    let default = Options::default();
    let max_rows = rows(c"pjrt.print_max_rows").unwrap_or(default.max_rows);
    let max_rows_slice = rows(c"pjrt.print_max_rows_slice").unwrap_or(max_rows);
    let width = number(c"pjrt.print_max_width").filter(|width| !(0.0..=1.0).contains(width)).map(limit);
    let max_width = width.unwrap_or(default.max_width);
    print::set_limits(Options { max_rows, max_width, max_rows_slice, ..Options::default() });
}

/// A negative limit means no limit.
fn limit(number: f64) -> Option<usize> {
    (number >= 0.0).then_some(number as usize)
}
