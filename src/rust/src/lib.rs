//! The bridge between R and `pjrt-core`: converts R values to core types and back. Must not know how core works. Its folders
//! are layers, lowest first; a file has the name of the R file that calls it.
//!
//! Functions that are called often take and return plain R values; all others have typed arguments. All of it runs on R's main
//! thread.

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

/// The functions that R calls, each by the last part of its name: by the function of `r` that runs them, and by their arguments.
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
    (@run typed $path:path, $($argument:ident),*) => {
        r::typed::run(&|| {
            $(let $argument = &r::sexp::robj($argument);)*
            Ok($path($(r::typed::Argument::of($argument)?),*).into())
        })
    };
    (@run $entry:ident $path:path, $($argument:ident),*) => { r::entry::$entry(&|| $path($($argument),*)) };
    (@type $argument:ident) => { SEXP };
}

/// The path of a function, its address, and its arguments.
type Routine = (&'static str, *const u8, &'static [&'static str]);

fn all_routines() -> Vec<Routine> {
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
        typed ():
            memory::memory_stats,
            plugins::plugin_search::plugins_find,
            plugins::plugin_search::variables,
            plugins::sitrep::api_version_bound,
            plugins::sitrep::processors_allowed,
            arrays::arrow::arrow_room,
            arrays::buffers::buffers_list,
            arrays::dlpack::dlpack_functions,
            programs::cache::cache_messages,
            programs::serialize::sent_needed,
            calls::custom_call::custom_call_problems,
            calls::mpi::mpi_finish,
            session::trace::trace_is_on,
            session::trace::trace_leave,
            session::trace::trace_stop;
        typed (a):
            r::idle::idle_connect,
            plugins::cuda::cuda_report,
            plugins::cuda::cuda_look_in,
            plugins::install::plugins_fetchable,
            plugins::install::plugins_available,
            plugins::plugin::plugin_load,
            plugins::plugin::plugin_file,
            plugins::plugin::plugin_is_absent,
            plugins::plugin::plugin_version,
            plugins::plugin::plugin_attributes,
            plugins::plugin::plugin_extensions,
            plugins::plugin::plugin_functions,
            plugins::plugin::plugin_stablehlo_versions,
            plugins::plugin_search::plugin_check,
            plugins::sitrep::index_found,
            plugins::sitrep::redact,
            clients::client::store_shown,
            clients::client::client_platform,
            clients::client::client_info,
            clients::device::device_label,
            clients::device::device_platform,
            clients::device::device_info,
            clients::memory_space::buffer_memory,
            clients::memory_space::client_memories,
            clients::memory_space::device_memories,
            clients::memory_space::device_default_memory,
            clients::memory_space::memory_info,
            clients::memory_space::device_memory_stats,
            arrays::dlpack::dlpack_describe,
            arrays::dlpack::dlpack_stream,
            arrays::dlpack::dlpack_lend,
            arrays::print::buffer_literals,
            files::safetensors::safetensors_close,
            files::safetensors::safetensors_names,
            files::safetensors::safetensors_metadata,
            files::safetensors::safetensors_summary,
            files::safetensors::safetensors_describe,
            programs::cache::cache_info,
            programs::cache::cache_list,
            programs::cache::cache_clear,
            programs::compile::compiling_is_ready,
            programs::compile::compiling_value,
            programs::compile::compile_helper,
            programs::compile::compiles_apart,
            programs::compile_options::compile_options_check,
            programs::executable::executable_describe,
            programs::executable::executable_origin,
            programs::executable::executable_costs,
            programs::executable::executable_memory_stats,
            programs::executable::executable_fingerprint,
            programs::executable::executable_code_bytes,
            programs::executable::executable_optimized_text,
            programs::executable::executable_device,
            programs::executable::executable_own_positions,
            programs::executable::executable_aliases,
            programs::exported::exported_weights,
            programs::exported::exported_facts,
            programs::exported::exported_function,
            programs::graph::executable_operation_costs,
            programs::program::program_describe,
            programs::program::program_text,
            programs::refine::program_inputs,
            programs::serialize::buffer_serialize,
            programs::serialize::program_serialize,
            programs::serialize::contained_read,
            programs::serialize::sent_content,
            programs::topology::client_topology,
            calls::custom_call::custom_call_unregister,
            calls::linear_algebra::linear_algebra_libraries,
            calls::mpi::mpi_start,
            execution::execute::execute_options_describe,
            functions::function::description::function_of_program,
            functions::function::description::function_facts,
            functions::function::description::function_arrays,
            functions::function::description::function_signature,
            session::lifetime::client_close,
            session::on_ready::ready_forget,
            session::trace::trace_start,
            session::trace::trace_enter;
        typed (a, b):
            plugins::install::plugins_refused,
            plugins::install::plugins_cached,
            plugins::plugin::plugin_report_write,
            files::safetensors::safetensors_open,
            programs::cache::cache_prune,
            programs::executable::executable_devices,
            programs::exported::exported_new,
            programs::exported::exported_read,
            programs::exported::exported_keep_weights,
            programs::exported::exported_check,
            programs::exported::exported_lines,
            programs::graph::program_graph,
            programs::program::program_new,
            programs::program::program_read,
            programs::pytorch::pytorch_read,
            programs::serialize::executable_serialize,
            programs::serialize::sent_adopt,
            programs::topology::executable_write,
            execution::shard::executable_input,
            execution::shard::safetensors_tensor,
            functions::function::description::function_of_executable,
            functions::function::description::function_renamed,
            functions::function::description::function_lines,
            functions::tensor_names::tensor_names_join,
            functions::tensor_names::tensor_names_nest,
            session::on_ready::ready_watch;
        typed (a, b, c):
            arrays::arrow::arrow_take,
            programs::refine::program_of_shapes,
            programs::serialize::executable_save,
            programs::serialize::sent_parts,
            calls::custom_call::custom_call_register,
            execution::benchmark::benchmark_inputs,
            execution::shard::executable_array,
            execution::shard::executable_division,
            functions::function::description::function_step,
            session::trace::trace_write;
        typed (a, b, c, d):
            plugins::install::plugin_installed,
            plugins::install::plugin_uninstall,
            clients::client::client_create,
            files::npy::npy_load_files,
            programs::inspect::hlo_inspect,
            programs::refine::exported_program,
            programs::topology::topology_compile,
            calls::mpi_program::program_of_process,
            calls::r_call::r_call_register,
            execution::execute::execute_options_new;
        typed (a, b, c, d, e):
            clients::client::client_create_distributed,
            arrays::print::buffer_lines,
            plugins::plugin::plugin_part_run,
            programs::serialize::executable_deserialize,
            programs::serialize::executable_load,
            execution::benchmark::benchmark_runs,
            execution::benchmark::benchmark_in_flight,
            execution::shard::buffer_share;
        typed (a, b, c, d, e, f):
            files::npy::npy_load,
            programs::compile::executable_compile,
            programs::compile::compiling_start,
            programs::topology::topology_create,
            execution::shard::safetensors_share;
        typed (a, b, c, d, e, f, g):
            files::map::map_array;
        typed (a, b, c, d, e, f, g, h):
            files::safetensors::safetensors_save;
        typed (a, b, c, d, e, f, g, h, i, j):
            plugins::install::plugin_install;
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

/// `loaded(namespace, the)`: called by the package whenever its namespace is loaded.
extern "C-unwind" fn loaded(namespace: SEXP, the: SEXP) -> SEXP {
    if r::sexp::set_namespace(namespace, the) {
        session::lifetime::close_at_end(the);
    }
    r::sexp::nil()
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
    let functions = all_routines().into_iter().map(describe_routine).collect();
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
        let classes: usize = sources().iter().map(|(_, code)| code.matches("\nowned!").count()).sum();
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
