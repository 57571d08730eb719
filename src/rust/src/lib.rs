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
mod compile_options;
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
mod pins;
mod plugin;
mod plugin_search;
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
    use plugin_search;
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
    use compile_options;
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

/// The functions that take plain R values, by their arguments. R calls each by the last part of its name.
macro_rules! routines {
    ($($arguments:tt: $($path:path),*;)*) => {
        [$(&[$(routines!(@one $arguments $path)),*] as &[Routine]),*].concat()
    };
    (@one ($($argument:ident),*) $path:path) => {{
        let address: extern "C-unwind" fn($(routines!(@type $argument)),*) -> SEXP = $path;
        (stringify!($path), address as *const u8, &[$(stringify!($argument)),*] as &[&str])
    }};
    (@type $argument:ident) => { SEXP };
}

/// The path of a function, its address, and its arguments.
type Routine = (&'static str, *const u8, &'static [&'static str]);

fn plain_routines() -> Vec<Routine> {
    routines! {
        ():
            client::default_platform,
            dtype::data_types_forget;
        (a):
            r#async::buffer_await,
            r#async::buffer_is_ready,
            r#async::transfer_is_ready,
            r#async::transfer_value,
            buffer::buffer_dtype,
            buffer::buffer_shape,
            buffer::buffer_device,
            buffer::buffer_platform,
            client::client_all_devices,
            client::client_devices,
            lifetime::buffer_delete,
            lifetime::buffer_is_deleted,
            lifetime::object_fate,
            dispatcher::dispatcher_size,
            dlpack::dlpack_give,
            dlpack::dlpack_release,
            dlpack::dlpack_take_object,
            dtype::dtype_canonical,
            dtype::dtype_from_safetensors,
            dtype::dtype_mlir,
            dtype::dtype_safetensors,
            describe::given,
            fast_path::fast_array,
            fast_path::fast_await,
            fast_path::fast_device,
            fast_path::fast_dtype,
            fast_path::fast_is_ready,
            fast_path::fast_shape,
            mpi::mpi_kinds,
            tree::tree_build,
            tree::tree_child_kinds,
            tree::tree_child_names,
            tree::tree_child_sizes,
            tree::tree_flatten,
            tree::tree_hash,
            tree::tree_repr,
            tree::tree_root_kind,
            tree::tree_size,
            tree::tree_take_apart;
        (a, b):
            r#async::transfer_start,
            loaded,
            buffer::buffer_copy,
            buffer::buffer_copy_to_memory,
            dispatcher::dispatch,
            dlpack::dlpack_take,
            dtype::data_type_keep,
            function::function_call,
            slice::buffer_slice,
            transfer::buffer_raw,
            tree::tree_concat,
            tree::tree_diff,
            tree::tree_equal,
            tree::tree_filter,
            tree::tree_leaf_mask,
            tree::tree_path,
            tree::tree_unflatten;
        (a, b, c):
            buffer::buffer_empty,
            dlpack::dlpack_export,
            dlpack::dlpack_import,
            operators::operator_1,
            operators::operator_2,
            operators::operator_n,
            transfer::buffer_array;
        (a, b, c, d):
            buffer::buffer_scalar,
            safetensors::safetensors_load,
            sharded::executable_execute_sharded;
        (a, b, c, d, e):
            buffer::buffer_new,
            buffer::buffer_from_raw,
            dispatcher::dispatcher_new,
            execute::executable_execute;
        (a, b, c, d, e, f, g):
            function::function_new;
    }
}

fn describe_routine((path, address, arguments): Routine) -> extendr_api::metadata::Func {
    let name = path.rsplit(':').next().unwrap_or(path).trim_start();
    let argument = |&name| extendr_api::metadata::Arg { name, arg_type: "SEXP", default: None };
    extendr_api::metadata::Func {
        doc: "",
        rust_name: name,
        mod_name: name,
        r_name: name,
        c_name: name,
        args: arguments.iter().map(argument).collect(),
        return_type: "SEXP",
        func_ptr: address,
        hidden: false,
        invisible: None,
    }
}

/// `loaded(namespace, the)`: called by the package whenever its namespace is loaded. Returns whether it was loaded before.
extern "C-unwind" fn loaded(namespace: SEXP, the: SEXP) -> SEXP {
    let was_loaded = !sexp::namespace().is_null();
    if sexp::set_namespace(namespace, the) {
        client::close_at_end(the);
    }
    sexp::new_flag(was_loaded)
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
    metadata.functions.extend(plain_routines().into_iter().map(describe_routine));
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
