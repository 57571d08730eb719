//! The bridge between R and `pjrt-core`: R values to core types and back, and nothing more. One module per R file.
//!
//! What is called often takes and returns plain R values (`entry` functions below); everything else has typed arguments
//! by extendr. All of it runs on R's main thread.

use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use std::ffi::{c_void, CStr};
use std::ptr::null;

mod sexp;

mod conditions;
mod handle;

mod r#async;
mod buffer;
mod cache;
mod client;
mod compile;
mod cuda;
mod device;
mod dtype;
mod executable;
mod execute;
mod find;
mod inspect;
mod install;
mod memory;
mod memory_space;
mod options;
mod part;
mod pins;
mod plugin;
mod print;
mod program;
mod progress;
mod quick;
mod serialize;
mod sharded;
mod sitrep;
mod strings;
mod topology;
mod transfer;

extendr_module! {
    mod pjrt;
    use cache;
    use client;
    use compile;
    use cuda;
    use device;
    use executable;
    use find;
    use execute;
    use inspect;
    use install;
    use memory;
    use memory_space;
    use options;
    use plugin;
    use print;
    use program;
    use serialize;
    use sitrep;
    use topology;
}

/// The entry points that take plain R values: name in R, address, number of arguments.
macro_rules! entries {
    ($($path:path, $name:literal, $arguments:literal;)*) => {
        vec![$(entry($name, $path as *const u8, $arguments)),*]
    };
}

fn plain_entries() -> Vec<extendr_api::metadata::Func> {
    entries! {
        r#async::buffer_await, "buffer_await", 1;
        r#async::buffer_is_ready, "buffer_is_ready", 1;
        r#async::transfer_start, "transfer_start", 2;
        r#async::transfer_is_ready, "transfer_is_ready", 1;
        r#async::transfer_value, "transfer_value", 1;
        loaded, "loaded", 2;
        buffer::buffer_new, "buffer_new", 5;
        buffer::buffer_scalar, "buffer_scalar", 4;
        buffer::buffer_from_raw, "buffer_from_raw", 5;
        buffer::buffer_empty, "buffer_empty", 3;
        buffer::buffer_dtype, "buffer_dtype", 1;
        buffer::buffer_shape, "buffer_shape", 1;
        buffer::buffer_device, "buffer_device", 1;
        buffer::buffer_platform, "buffer_platform", 1;
        buffer::buffer_copy, "buffer_copy", 2;
        buffer::buffer_copy_to_memory, "buffer_copy_to_memory", 2;
        client::client_all_devices, "client_all_devices", 1;
        client::client_close_all, "client_close_all", 0;
        client::client_devices, "client_devices", 1;
        dtype::dtype_canonical, "dtype_canonical", 1;
        quick::quick_array, "quick_array", 1;
        quick::quick_device, "quick_device", 1;
        quick::quick_is_ready, "quick_is_ready", 1;
        quick::quick_shape, "quick_shape", 1;
        sharded::executable_execute_sharded, "executable_execute_sharded", 4;
        transfer::buffer_array, "buffer_array", 3;
        part::buffer_part, "buffer_part", 2;
        transfer::buffer_raw, "buffer_raw", 2;
    }
}

fn entry(name: &'static str, address: *const u8, arguments: usize) -> extendr_api::metadata::Func {
    let argument = || extendr_api::metadata::Arg { name: "x", arg_type: "SEXP", default: None };
    extendr_api::metadata::Func {
        doc: "",
        rust_name: name,
        mod_name: name,
        r_name: name,
        c_name: name,
        args: (0..arguments).map(|_| argument()).collect(),
        return_type: "SEXP",
        func_ptr: address,
        hidden: false,
        invisible: None,
    }
}

/// Makes the functions known that `.External2()` calls: they get the frame of the R function that calls them.
unsafe fn register_frame_entries(library: *mut extendr_ffi::DllInfo) {
    use extendr_ffi::R_ExternalMethodDef;
    type FrameEntry = extern "C" fn(SEXP, SEXP, SEXP, SEXP) -> SEXP;
    let execute: FrameEntry = execute::executable_execute;
    let known = |name: &'static CStr, function: FrameEntry| R_ExternalMethodDef {
        name: name.as_ptr(),
        // SAFETY: R casts it back to what `.External2()` calls.
        fun: Some(std::mem::transmute::<FrameEntry, unsafe extern "C" fn() -> *mut c_void>(function)),
        numArgs: 0,
    };
    let end = R_ExternalMethodDef { name: null(), fun: None, numArgs: 0 };
    let entries = [known(c"executable_execute", execute), end];
    extendr_ffi::R_registerRoutines(library, null(), null(), null(), entries.as_ptr());
}

/// `loaded(namespace, the)`: called by the package whenever its namespace is loaded.
extern "C" fn loaded(namespace: SEXP, the: SEXP) -> SEXP {
    sexp::set_namespace(namespace, the);
    sexp::nil()
}

/// Called once by R when it loads the library: makes every function known to R by its plain name.
///
/// # Safety
/// `library` is the `DllInfo` that R passes to `R_init_pjrt`.
#[no_mangle]
pub unsafe extern "C" fn pjrt_register(library: *mut extendr_ffi::DllInfo) {
    let mut metadata = get_pjrt_metadata();
    metadata.functions.retain(|function| !function.hidden);
    for function in &mut metadata.functions {
        function.c_name = function.rust_name;
    }
    metadata.functions.extend(plain_entries());
    extendr_api::register_call_methods(library, metadata);
    register_frame_entries(library);
    pjrt_core::process::set_interrupt_poll(conditions::interrupt_pending);
}
