//! C++ exceptions that plugins throw. Rust cannot catch them, so the owner of this crate supplies a function that does.
//! Without one, they end the process.

use crate::poison::Poison;
use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use pjrt_base::reason::Reason;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// A function of a plugin.
pub type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// Calls the function with the argument, and reports what it threw, in which case the result is undefined.
pub type Guard = unsafe extern "C" fn(Function, *mut c_void, *mut Thrown) -> *mut c_void;

/// A caught exception.
#[repr(C)]
pub struct Thrown {
    kind: c_int,
    what: [c_char; 252],
}

const NOTHING: c_int = 0;
const NO_MEMORY: c_int = 1;

static GUARD: OnceLock<Guard> = OnceLock::new();

/// Routes every call of a plugin through `guard` from now on.
///
/// # Safety
/// It does what [`Guard`] promises.
pub unsafe fn set_guard(guard: Guard) {
    // The first one stays.
    let _ = GUARD.set(guard);
}

/// Calls a plugin's function, and converts an exception into an error. After that, the plugin is not called any more.
///
/// # Safety
/// As for the function.
#[inline]
pub unsafe fn guarded<A, E>(
    poison: &Poison,
    function: unsafe extern "C" fn(*mut A) -> *mut E,
    argument: *mut A,
    call_name: &'static str,
) -> Result<*mut E> {
    poison.check().map_err(|poisoned| poisoned.in_call(call_name))?;
    let Some(guard) = GUARD.get() else { return Ok(function(argument)) };
    let mut thrown = MaybeUninit::<Thrown>::uninit();
    // SAFETY: only the types that the pointers point to differ.
    let function = std::mem::transmute::<unsafe extern "C" fn(*mut A) -> *mut E, Function>(function);
    let returned = guard(function, argument.cast(), thrown.as_mut_ptr());
    if (*thrown.as_ptr()).kind == NOTHING {
        Ok(returned.cast())
    } else {
        Err(Thrown::error(thrown.as_ptr(), poison, call_name))
    }
}

/// Calls a function that is not the plugin's. Returns in words what it threw.
///
/// # Safety
/// As for the function.
pub unsafe fn caught<A, R>(
    function: unsafe extern "C" fn(*mut A) -> *mut R,
    argument: *mut A,
) -> std::result::Result<*mut R, String> {
    let Some(guard) = GUARD.get() else { return Ok(function(argument)) };
    let mut thrown = MaybeUninit::<Thrown>::uninit();
    // SAFETY: only the types that the pointers point to differ.
    let function = std::mem::transmute::<unsafe extern "C" fn(*mut A) -> *mut R, Function>(function);
    let returned = guard(function, argument.cast(), thrown.as_mut_ptr());
    match (*thrown.as_ptr()).kind {
        NOTHING => Ok(returned.cast()),
        NO_MEMORY => Err("std::bad_alloc".into()),
        _ => Err(Thrown::what(thrown.as_ptr())),
    }
}

impl Thrown {
    /// The exception in words.
    #[cold]
    unsafe fn what(thrown: *const Thrown) -> String {
        let what = CStr::from_ptr((&raw const (*thrown).what).cast()).to_string_lossy();
        if what.is_empty() {
            "of unknown kind".into()
        } else {
            format!("\"{what}\"")
        }
    }

    #[cold]
    unsafe fn error(thrown: *const Thrown, poison: &Poison, call_name: &'static str) -> Error {
        if (*thrown).kind == NO_MEMORY {
            poison.note(call_name, "std::bad_alloc");
            return Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), "The plugin ran out of host memory (std::bad_alloc).")
                .hint("The plugin cannot be used any more.")
                .hint(Reason::PluginLost)
                .in_call(call_name);
        }
        let what = Thrown::what(thrown);
        poison.note(call_name, &what);
        Error::new(Kind::Internal, format!("The plugin threw a C++ exception, {what}."))
            .hint("The plugin cannot be used any more.")
            .hint(Reason::PluginLost)
            .in_call(call_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_sys::PJRT_Error;
    use std::cell::Cell;

    thread_local! {
        /// What the calls of this thread throw. Other tests of the process call the real plugin through the same guard.
        static THROWS: Cell<c_int> = const { Cell::new(NOTHING) };
    }

    unsafe extern "C" fn call(function: Function, argument: *mut c_void, thrown: *mut Thrown) -> *mut c_void {
        let kind = THROWS.get();
        (*thrown).kind = kind;
        let what = &mut (*thrown).what;
        what[..2].copy_from_slice(&[if kind == 3 { b'!' as c_char } else { 0 }, 0]);
        function(argument)
    }

    unsafe extern "C" fn nothing(_: *mut c_int) -> *mut PJRT_Error {
        std::ptr::null_mut()
    }

    /// The result of the first call of a plugin that throws this, and of the next call, which would not throw.
    fn outcomes(kind: c_int) -> [Result<*mut PJRT_Error>; 2] {
        // SAFETY: `call` catches what the functions below throw.
        unsafe { set_guard(call) };
        let poison = Poison::leaked();
        [kind, NOTHING].map(|kind| {
            THROWS.set(kind);
            // SAFETY: `nothing` reads nothing.
            let result = unsafe { guarded(poison, nothing, std::ptr::null_mut(), "PJRT_Call") };
            THROWS.set(NOTHING);
            result
        })
    }

    #[test]
    fn an_exception_caught_by_a_guard_becomes_an_error() {
        let [first, next] = outcomes(0);
        assert!(first.is_ok_and(|error| error.is_null()) && next.is_ok());
        let error = |kind| outcomes(kind)[0].clone().unwrap_err();
        assert_eq!((error(1).kind(), error(1).call_name()), (Kind::Pjrt(RESOURCE_EXHAUSTED), Some("PJRT_Call")));
        assert!(error(2).message().contains("of unknown kind"));
        assert_eq!((error(3).kind(), error(3).message()), (Kind::Internal, "The plugin threw a C++ exception, \"!\"."));
        assert_eq!(error(3).hints().last(), Some(&Reason::PluginLost.into()));
    }

    #[test]
    fn a_plugin_that_threw_is_not_called_again() {
        for (kind, what) in [(1, "std::bad_alloc"), (2, "unknown kind"), (3, "\"!\"")] {
            let [_, next] = outcomes(kind);
            let error = next.unwrap_err();
            assert_eq!((error.kind(), error.call_name()), (Kind::PluginPoisoned, Some("PJRT_Call")));
            assert!(error.message().contains("in PJRT_Call") && error.message().contains(what), "{error}");
            assert_eq!(error.hints(), [Reason::PluginLost.into()]);
        }
        // Other plugins are not affected.
        assert!(outcomes(0)[1].is_ok());
    }
}
