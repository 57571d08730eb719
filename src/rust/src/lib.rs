//! The bridge between R and `pjrt-core`: converts R values to core types and back. One module per R file.
//!
//! Functions that are called often take and return plain R values (`entry` functions below); all others have typed
//! arguments by extendr. All of it runs on R's main thread.

#[macro_use]
extern crate pjrt_base;

use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_core::ffi::exception::Guard;

mod sexp;

#[macro_use]
mod handle;

mod conditions;
mod describe;

mod arrow;
mod r#async;
mod benchmark;
mod buffer;
mod buffers;
mod c_interface;
mod cache;
mod client;
mod compile;
mod cuda;
mod custom_call;
mod device;
mod dispatcher;
mod dlpack;
mod dtype;
mod executable;
mod execute;
mod exported;
mod fast_path;
mod find;
mod function;
mod graph;
mod idle;
mod inputs;
mod inspect;
mod install;
mod lifetime;
mod linear_algebra;
mod map;
mod memory;
mod memory_space;
mod mpi;
mod mpi_program;
mod npy;
mod on_ready;
mod operators;
mod options;
mod pins;
mod plugin;
mod pooled;
mod print;
mod program;
mod progress;
mod pytorch;
mod r_call;
mod refine;
mod safetensors;
mod serialize;
mod shard;
mod sharded;
mod sitrep;
mod slice;
mod stored;
mod topology;
mod trace;
mod transfer;
mod tree;

extendr_module! {
    mod pjrt;
    use arrow;
    use benchmark;
    use buffers;
    use cache;
    use client;
    use compile;
    use cuda;
    use custom_call;
    use device;
    use dlpack;
    use executable;
    use exported;
    use find;
    use function;
    use graph;
    use execute;
    use idle;
    use inspect;
    use install;
    use lifetime;
    use linear_algebra;
    use mpi;
    use mpi_program;
    use map;
    use memory;
    use memory_space;
    use npy;
    use on_ready;
    use options;
    use plugin;
    use print;
    use program;
    use pytorch;
    use r_call;
    use refine;
    use safetensors;
    use serialize;
    use shard;
    use sitrep;
    use topology;
    use trace;
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
        client::client_devices, "client_devices", 1;
        client::default_platform, "default_platform", 0;
        lifetime::buffer_delete, "buffer_delete", 1;
        lifetime::buffer_is_deleted, "buffer_is_deleted", 1;
        lifetime::object_fate, "object_fate", 1;
        dispatcher::dispatch, "dispatch", 2;
        dispatcher::dispatcher_new, "dispatcher_new", 5;
        dispatcher::dispatcher_size, "dispatcher_size", 1;
        dlpack::dlpack_export, "dlpack_export", 3;
        dlpack::dlpack_give, "dlpack_give", 1;
        dlpack::dlpack_import, "dlpack_import", 3;
        dlpack::dlpack_release, "dlpack_release", 1;
        dlpack::dlpack_take, "dlpack_take", 2;
        dlpack::dlpack_take_object, "dlpack_take_object", 1;
        dtype::data_type_keep, "data_type_keep", 2;
        dtype::data_types_forget, "data_types_forget", 0;
        dtype::dtype_canonical, "dtype_canonical", 1;
        dtype::dtype_from_safetensors, "dtype_from_safetensors", 1;
        dtype::dtype_mlir, "dtype_mlir", 1;
        dtype::dtype_safetensors, "dtype_safetensors", 1;
        describe::describe_words, "given", 1;
        fast_path::fast_array, "fast_array", 1;
        fast_path::fast_await, "fast_await", 1;
        fast_path::fast_device, "fast_device", 1;
        fast_path::fast_dtype, "fast_dtype", 1;
        fast_path::fast_is_ready, "fast_is_ready", 1;
        fast_path::fast_shape, "fast_shape", 1;
        execute::executable_execute, "executable_execute", 5;
        function::function_call, "function_call", 2;
        function::function_new, "function_new", 7;
        mpi::mpi_kinds, "mpi_kinds", 1;
        operators::operator_1, "operator_1", 3;
        operators::operator_2, "operator_2", 3;
        operators::operator_n, "operator_n", 3;
        safetensors::safetensors_load, "safetensors_load", 4;
        sharded::executable_execute_sharded, "executable_execute_sharded", 4;
        transfer::buffer_array, "buffer_array", 3;
        slice::buffer_slice, "buffer_slice", 2;
        transfer::buffer_raw, "buffer_raw", 2;
        tree::tree_build, "tree_build", 1;
        tree::tree_child_kinds, "tree_child_kinds", 1;
        tree::tree_child_names, "tree_child_names", 1;
        tree::tree_child_sizes, "tree_child_sizes", 1;
        tree::tree_concat, "tree_concat", 2;
        tree::tree_diff, "tree_diff", 2;
        tree::tree_equal, "tree_equal", 2;
        tree::tree_filter, "tree_filter", 2;
        tree::tree_flatten, "tree_flatten", 1;
        tree::tree_hash, "tree_hash", 1;
        tree::tree_leaf_mask, "tree_leaf_mask", 2;
        tree::tree_path, "tree_path", 2;
        tree::tree_repr, "tree_repr", 1;
        tree::tree_root_kind, "tree_root_kind", 1;
        tree::tree_size, "tree_size", 1;
        tree::tree_take_apart, "tree_take_apart", 1;
        tree::tree_unflatten, "tree_unflatten", 2;
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

/// `loaded(namespace, the)`: called by the package whenever its namespace is loaded. Returns whether it was loaded before.
extern "C-unwind" fn loaded(namespace: SEXP, the: SEXP) -> SEXP {
    let again = !sexp::namespace().is_null();
    if sexp::set_namespace(namespace, the) {
        client::close_at_end(the);
    }
    sexp::new_flag(again)
}

/// Called once by R when it loads the library: registers every function with R under its plain name.
///
/// # Safety
/// `library` is the `DllInfo` that R passes to `R_init_pjrt`, and `guard` catches exceptions of plugins.
#[no_mangle]
pub unsafe extern "C" fn pjrt_register(library: *mut extendr_ffi::DllInfo, guard: Guard) {
    pjrt_core::ffi::exception::set_guard(guard);
    // Threads, callbacks and R's garbage collector call this library even after R unloads the package.
    pjrt_base::process::keep_library_of(pjrt_register as *const () as usize);
    let mut metadata = get_pjrt_metadata();
    metadata.functions.retain(|function| !function.hidden);
    for function in &mut metadata.functions {
        function.c_name = function.rust_name;
    }
    metadata.functions.extend(plain_entries());
    extendr_api::register_call_methods(library, metadata);
    pooled::register(library);
    handle::sent::register(library);
    c_interface::register();
    // Reads variables, which only the main thread may do.
    pjrt_base::processors::count();
    pjrt_base::process::set_interrupt_poll(conditions::interrupt_pending);
    pjrt_base::process::set_wait_display(progress::show_wait);
    pjrt_base::console::set_writer(custom_call::write);
    pjrt_core::runtime::oom::set_collector(memory::collect);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// R's objects are pointers, which the compiler keeps on their thread unless an `unsafe impl` allows a type to
    /// move. Only the crates below have threads and callbacks, and they do not know R.
    #[test]
    fn r_is_left_alone_by_other_threads() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut vouched = Vec::new();
        let files = |folder: &str| fs::read_dir(here.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for file in files("src")
            .chain(files("src/dispatcher"))
            .chain(files("src/function"))
            .chain(files("src/handle"))
            .filter(|path| path.is_file())
        {
            let code = fs::read_to_string(&file).unwrap();
            let code = code.split("#[cfg(test)]").next().unwrap();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            vouched
                .extend(code.lines().filter(|line| line.contains("unsafe impl")).map(|line| format!("{name}: {line}")));
            // Threads that write numbers as text get bytes and return text.
            assert!(name == "strings.rs" || !code.contains("spawn"), "{name} starts threads");
        }
        assert!(vouched.is_empty(), "{vouched:?}");
        for crate_below in ["base", "data", "program", "plugins", "core"] {
            let manifest = fs::read_to_string(here.join(crate_below).join("Cargo.toml")).unwrap();
            assert!(!manifest.contains("extendr"), "{crate_below} uses R");
        }
    }

    #[test]
    fn every_class_of_handles_is_counted() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let text = |name: &str| fs::read_to_string(here.join(name)).unwrap();
        let files = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let classes: usize =
            files.filter(|name| name.ends_with(".rs")).map(|name| text(&name).matches("\nowned!(").count()).sum();
        assert_eq!(text("memory.rs").matches(" of::<").count(), classes);
    }

    #[test]
    fn every_reason_has_words_in_r() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let reasons = fs::read_to_string(here.join("base/src/reason.rs")).unwrap();
        let names: Vec<&str> =
            reasons.lines().filter_map(|line| line.split_once(" => \"")?.1.strip_suffix("\",")).collect();
        assert!(names.len() > 20);
        let advice = fs::read_to_string(here.join("../../R/conditions.R")).unwrap();
        for name in names {
            assert!(advice.contains(&format!("\n  {name} = function(")), "{name}");
        }
    }
}
