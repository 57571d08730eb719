//! The bridge between R and `pjrt-core`: converts R values to core types and back. Must not know how core works. Its folders
//! are layers, lowest first; a file has the name of the R file that calls it.
//!
//! Functions that are called often take and return plain R values (`routines!` below); all others have typed arguments by
//! extendr. All of it runs on R's main thread.

#[macro_use]
extern crate pjrt_base;

use extendr_api::metadata::{Arg, Func, Metadata};
use extendr_ffi::SEXP;
use pjrt_ffi::exception::Guard;

#[macro_use]
mod r;

mod memory;

mod plugins;

mod clients;

mod arrays;

mod files;

mod programs;

mod calls;

mod execution;

mod functions;

mod session;

/// The functions with typed arguments, by the files that have them.
const TYPED: [fn() -> Metadata; 42] = [
    r::idle::get_idle_metadata,
    memory::get_memory_metadata,
    plugins::cuda::get_cuda_metadata,
    plugins::install::get_install_metadata,
    plugins::plugin::get_plugin_metadata,
    plugins::plugin_search::get_plugin_search_metadata,
    plugins::sitrep::get_sitrep_metadata,
    clients::client::get_client_metadata,
    clients::device::get_device_metadata,
    clients::memory_space::get_memory_space_metadata,
    arrays::arrow::get_arrow_metadata,
    arrays::buffers::get_buffers_metadata,
    arrays::dlpack::get_dlpack_metadata,
    arrays::print::get_print_metadata,
    files::map::get_map_metadata,
    files::npy::get_npy_metadata,
    files::safetensors::get_safetensors_metadata,
    programs::cache::get_cache_metadata,
    programs::compile::get_compile_metadata,
    programs::compile_options::get_compile_options_metadata,
    programs::executable::get_executable_metadata,
    programs::exported::get_exported_metadata,
    programs::graph::get_graph_metadata,
    programs::inspect::get_inspect_metadata,
    programs::program::get_program_metadata,
    programs::pytorch::get_pytorch_metadata,
    programs::refine::get_refine_metadata,
    programs::serialize::get_serialize_metadata,
    programs::topology::get_topology_metadata,
    calls::custom_call::get_custom_call_metadata,
    calls::linear_algebra::get_linear_algebra_metadata,
    calls::mpi::get_mpi_metadata,
    calls::mpi_program::get_mpi_program_metadata,
    calls::r_call::get_r_call_metadata,
    execution::benchmark::get_benchmark_metadata,
    execution::execute::get_execute_metadata,
    execution::shard::get_shard_metadata,
    functions::function::description::get_description_metadata,
    functions::tensor_names::get_tensor_names_metadata,
    session::lifetime::get_lifetime_metadata,
    session::on_ready::get_on_ready_metadata,
    session::trace::get_trace_metadata,
];

/// The functions that take plain R values, by the function of `r::entry` that runs them, and by their arguments. R calls each by
/// the last part of its name.
macro_rules! routines {
    ($($entry:ident $arguments:tt: $($path:path),*;)*) => {
        [$(&[$(routines!(@one $entry $arguments $path)),*] as &[Routine]),*].concat()
    };
    (@one $entry:ident ($($argument:ident),*) $path:path) => {{
        extern "C-unwind" fn routine($($argument: SEXP),*) -> SEXP {
            routines!(@run $entry $path, $($argument),*)
        }
        let address: extern "C-unwind" fn($(routines!(@type $argument)),*) -> SEXP = routine;
        (stringify!($path), address as *const u8, &[$(stringify!($argument)),*] as &[&str])
    }};
    (@run direct $path:path, $($argument:ident),*) => { $path($($argument),*) };
    (@run $entry:ident $path:path, $($argument:ident),*) => { r::entry::$entry(|| $path($($argument),*)) };
    (@type $argument:ident) => { SEXP };
}

/// The path of a function, its address, and its arguments.
type Routine = (&'static str, *const u8, &'static [&'static str]);

fn plain_routines() -> Vec<Routine> {
    routines! {
        entry ():
            clients::client::default_platform,
            arrays::dtype::data_types_forget,
            execution::operators::operator_counts;
        entry (a):
            arrays::buffer::buffer_dtype,
            arrays::buffer::buffer_shape,
            arrays::buffer::buffer_device,
            arrays::buffer::buffer_platform,
            clients::client::client_all_devices,
            clients::client::client_devices,
            session::lifetime::buffer_delete,
            session::lifetime::buffer_is_deleted,
            session::lifetime::object_fate,
            functions::dispatcher::dispatcher_size,
            arrays::dlpack::dlpack_give,
            arrays::dlpack::dlpack_release,
            arrays::dlpack::dlpack_take_object,
            arrays::dtype::dtype_canonical,
            arrays::dtype::dtype_from_safetensors,
            arrays::dtype::dtype_mlir,
            arrays::dtype::dtype_safetensors,
            r::describe::given,
            calls::mpi::mpi_kinds,
            functions::tree::tree_build,
            functions::tree::tree_child_kinds,
            functions::tree::tree_child_names,
            functions::tree::tree_child_sizes,
            functions::tree::tree_flatten,
            functions::tree::tree_hash,
            functions::tree::tree_repr,
            functions::tree::tree_root_kind,
            functions::tree::tree_size,
            functions::tree::tree_take_apart;
        entry (a, b):
            arrays::r#async::transfer_start,
            arrays::buffer::buffer_copy,
            arrays::buffer::buffer_copy_to_memory,
            functions::dispatcher::dispatch,
            arrays::dlpack::dlpack_take,
            arrays::dtype::data_type_keep,
            functions::function::function_call,
            functions::function::function_new,
            arrays::slice::buffer_slice,
            functions::tree::tree_concat,
            functions::tree::tree_diff,
            functions::tree::tree_equal,
            functions::tree::tree_filter,
            functions::tree::tree_leaf_mask,
            functions::tree::tree_path,
            functions::tree::tree_unflatten;
        entry (a, b, c):
            arrays::buffer::buffer_empty,
            arrays::dlpack::dlpack_export,
            arrays::dlpack::dlpack_import,
            execution::operators::operator_1,
            execution::operators::operator_2,
            execution::operators::operator_n;
        entry (a, b, c, d):
            arrays::buffer::buffer_scalar,
            files::safetensors::safetensors_load,
            execution::sharded::executable_execute_sharded;
        entry (a, b, c, d, e):
            arrays::buffer::buffer_new,
            arrays::buffer::buffer_from_raw,
            functions::dispatcher::dispatcher_new;
        waiting_entry (a):
            arrays::r#async::buffer_await,
            arrays::r#async::buffer_is_ready,
            arrays::r#async::transfer_is_ready,
            arrays::r#async::transfer_value;
        waiting_entry (a, b):
            arrays::transfer::buffer_raw;
        waiting_entry (a, b, c):
            arrays::transfer::buffer_array;
        direct (a):
            arrays::fast_path::fast_array,
            arrays::fast_path::fast_await,
            arrays::fast_path::fast_device,
            arrays::fast_path::fast_dtype,
            arrays::fast_path::fast_is_ready,
            arrays::fast_path::fast_shape;
        direct (a, b):
            loaded;
        direct (a, b, c, d, e):
            execution::execute::executable_execute;
    }
}

fn describe_routine((path, address, arguments): Routine) -> Func {
    let name = path.rsplit(':').next().unwrap_or(path).trim_start();
    let argument = |&name| Arg { name, arg_type: "SEXP", default: None };
    Func {
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
    let was_loaded = !r::sexp::namespace().is_null();
    if r::sexp::set_namespace(namespace, the) {
        session::lifetime::close_at_end(the);
    }
    r::sexp::new_flag(was_loaded)
}

/// Every class of handles, to be counted.
fn classes() -> Vec<r::handle::Class> {
    use r::handle::class_of;
    vec![
        class_of::<&'static pjrt_core::Plugin>(),
        class_of::<pjrt_core::Client>(),
        class_of::<pjrt_core::Device>(),
        class_of::<pjrt_core::MemorySpace>(),
        class_of::<pjrt_core::Buffer>(),
        class_of::<pjrt_program::program::Program>(),
        class_of::<pjrt_program::program::exported_program::ExportedProgram>(),
        class_of::<pjrt_core::Executable>(),
        class_of::<execution::execute::ExecutionOptions>(),
        class_of::<arrays::r#async::Promise>(),
        class_of::<pjrt_core::Compiling>(),
        class_of::<files::safetensors::OpenFile>(),
        class_of::<pjrt_data::tree::Tree>(),
        class_of::<functions::dispatcher::Dispatcher>(),
        class_of::<functions::function::Callable>(),
        class_of::<arrays::dlpack::Capsule>(),
        class_of::<pjrt_core::client::topology::System>(),
    ]
}

/// Called once by R when it loads the library: registers every function with R under its plain name.
///
/// # Safety
/// `library` is the `DllInfo` that R passes to `R_init_pjrt`, and `guard` catches exceptions of plugins.
#[no_mangle]
pub unsafe extern "C" fn pjrt_register(library: *mut extendr_ffi::DllInfo, guard: Guard) {
    pjrt_ffi::exception::set_guard(guard);
    // Threads, callbacks and R's garbage collector call this library even after R unloads the package.
    pjrt_base::process::keep_library_of(pjrt_register as *const () as usize);
    let typed = TYPED.iter().flat_map(|of_file| of_file().functions).filter(|function| !function.hidden);
    let typed = typed.map(|function| Func { c_name: function.rust_name, ..function });
    let functions = typed.chain(plain_routines().into_iter().map(describe_routine)).collect();
    extendr_api::register_call_methods(library, Metadata { name: "pjrt", functions, impls: Vec::new() });
    r::pooled::register(library);
    r::handle::sent::register(library);
    session::c_interface::register();
    // Reads variables, which only the main thread may do.
    pjrt_base::processors::count();
    r::handle::set_classes(classes());
    r::entry::set_hooks(r::entry::Hooks {
        collect: memory::collect_for_others,
        run_ready: session::on_ready::run,
        record: session::trace::entered,
    });
    pjrt_base::process::set_interrupt_poll(r::entry::interrupt_pending);
    pjrt_base::process::set_wait_display(r::progress::show_wait);
    pjrt_base::console::set_writer(calls::custom_call::write);
    pjrt_core::runtime::oom::set_collector(memory::collect);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The name and the content of every file of this crate.
    fn sources() -> Vec<(String, String)> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((path.to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()));
                }
            }
        }
        found
    }

    /// R's objects are pointers, which the compiler keeps on their thread unless an `unsafe impl` allows a type to
    /// move. Only the crates below have threads and callbacks, and they do not know R.
    #[test]
    fn r_is_left_alone_by_other_threads() {
        for (name, code) in sources() {
            let code = code.split("#[cfg(test)]").next().unwrap();
            assert!(!code.contains("unsafe impl"), "{name} vouches for a type");
            assert!(!code.contains("spawn"), "{name} starts threads");
        }
    }

    #[test]
    fn every_class_of_handles_is_counted() {
        let classes: usize = sources().iter().map(|(_, code)| code.matches("\nowned!(").count()).sum();
        assert_eq!(super::classes().len(), classes);
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
