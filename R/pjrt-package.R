#' pjrt: run compiled array programs on CPUs, GPUs and other accelerators
#'
#' Loads PJRT plugins, moves R arrays to their devices, compiles StableHLO programs, runs them asynchronously and brings
#' results back as R arrays. Start with [pjrt_buffer()], [pjrt_program()], [pjrt_compile()] and [pjrt_execute()], or
#' with `vignette("pjrt")`.
#'
#' @section Environment variables:
#' * `PJRT_PLATFORM`: the default platform, `"cpu"` when unset.
#' * `PJRT_CPU_DEVICE_COUNT`: the number of devices of the CPU client, 1 when unset.
#' * `PJRT_CPU_THREADS`: the number of threads that run programs on the CPU, one for each processor when unset.
#' * `PJRT_PLUGIN_PATH_<PLATFORM>`: the plugin's library, e.g. `PJRT_PLUGIN_PATH_CPU`. Wins over everything else.
#' * `PJRT_PLUGIN_PATH`: folders with plugins, separated as in `PATH`.
#' * `PJRT_DISCOVER`: `0` looks for no other plugins on this machine than those that variables and
#'   [pjrt_register_plugin()] name; see [pjrt_plugin()].
#' * `PJRT_INSTALL`: `1` fetches a missing plugin without asking, `0` never does. When unset, interactive sessions ask
#'   and others fail. See [install_pjrt()].
#' * `PJRT_PLUGIN_URL_<PLATFORM>`: what to fetch as the plugin; `PJRT_INDEX_URL`: the Python package index to fetch from. For
#'   these, proxies and certificates see [install_pjrt()], too.
#' * `PJRT_CACHE`: `0` keeps no compiled programs; `PJRT_CACHE_MAX_SIZE`: how much of them is kept on disk, such as `2GiB`.
#'   See [pjrt_cache].
#' * `PJRT_DEBUG`: when not empty, messages tell what is loaded and created.
#' * `XLA_FLAGS`: options of XLA itself, read when the first client is created; see [pjrt_client()].
#'   [pjrt_compile_options()] sets options for a single program.
#'
#' @section Options:
#' * `pjrt.print_max_rows` (30), `pjrt.print_max_width` (85), `pjrt.print_max_rows_slice`: how much of a buffer is
#'   printed.
#' * `pjrt.dispatch`: `"auto"` (the default) launches a program from R's own thread unless R would have to wait: for the
#'   end of the program, when the plugin runs it on the thread that launches it; for the device, when that has taken as
#'   many programs as it can (32 on the CPU); or for a launch before this one. Then a thread of the device launches it.
#'   `"thread"` has that thread launch all, `"inline"` none but those that would overtake a launch they must come after.
#'   It counts when a program is compiled. [pjrt_execute_sharded()] always uses other threads for several devices.
#' * `pjrt.staging_max`: bytes of host memory that are kept for the next large array, 256 MB when unset; see
#'   [pjrt_memory_stats()].
#' * `pjrt.cache`, `pjrt.cache_max_size`: as the variables `PJRT_CACHE` and `PJRT_CACHE_MAX_SIZE`, which they win over; see
#'   [pjrt_cache].
#' * `pjrt.index_url`: the Python package index to fetch plugins from, before all others that [install_pjrt()] knows.
#' * `pjrt.manifest`: a file of your own in place of the package's list of the plugins that can be fetched, for instance with
#'   the versions and SHA-256 that your site has approved. It must say all: nothing is added from the package's list,
#'   `system.file("plugins.toml", package = "pjrt")`, whose first lines explain the format.
#'
#' @section Errors:
#' Every error is a condition of class `pjrt_error`, and of a class for its kind: `pjrt_error_shape_mismatch`,
#' `pjrt_error_dtype_mismatch`, `pjrt_error_device_mismatch`, `pjrt_error_argument_count`, `pjrt_error_deleted_buffer`,
#' `pjrt_error_invalid_input`, `pjrt_error_invalid_pointer`, `pjrt_error_plugin_not_found`, `pjrt_error_forked` and
#' more, and for errors of the plugin one for each PJRT error code, such as `pjrt_error_invalid_argument` or
#' `pjrt_error_resource_exhausted`. The fields `code`, `call_name` and `platform` tell the plugin's error code, the PJRT
#' function and the platform, where there are such.
#'
#' @keywords internal
#' @useDynLib pjrt, .registration = TRUE, .fixes = "ffi_"
"_PACKAGE"
