#' pjrt: run compiled array programs on CPUs, GPUs and other accelerators
#'
#' pjrt loads PJRT plugins, moves R arrays to devices, compiles StableHLO programs, runs them asynchronously and returns
#' results as R arrays. `vignette("pjrt")` is the place to start. Below are the functions by task, each with its
#' article; [`?pjrt_articles`][pjrt_articles] says how to read articles, and [`?pjrt_errors`][pjrt_errors] lists the
#' classes of errors.
#'
#' @section Get a device:
#' * [install_pjrt()] downloads a plugin, [plugins_downloaded()] checks for one, [pjrt_plugins()] lists all, and
#'   [uninstall_pjrt()] removes them. [pjrt_sitrep()] shows what is missing, and
#'   [pjrt_check_plugin()] tries a plugin.
#' * [pjrt_client()] connects to a platform, and [devices()] lists its devices. [device_info()], [client_info()],
#'   [plugin_info()], [memory_spaces()] and [platform()] describe them.
#' * [pjrt_plugin()], [pjrt_register_plugin()] and [plugin_client_create()] use your own plugin. [`?cuda`][cuda]
#'   describes what NVIDIA GPUs need.
#' * [`?pjrt_options`][pjrt_options] lists options and environment variables.
#'
#' Articles: `vignette("plugins")`, "Installation and settings".
#'
#' @section Move arrays:
#' * [pjrt_buffer()], [pjrt_scalar()] and [pjrt_empty()] create buffers, and [as_array()] reads them.
#' * [shape()], [elt_type()] and [device()] describe a buffer. [print()][print.PJRTBuffer] shows its elements, R
#'   Markdown shows them [as a table][documents], and [format_buffer()] formats them for programs.
#' * R's functions for arrays also work ([`?"buffer-methods"`][buffer-methods]), and subscripts read a part: `x[2, ]`
#'   ([`?"buffer-slice"`][buffer-slice]). [`?vectors`][vectors] lists functions of vectors.
#' * [copy_buffer()] copies a buffer to another device, and [pjrt_delete()] frees it.
#' * [as_dlpack()] shares arrays with Python, and [pjrt_buffer()] also takes arrays of [Arrow][arrow].
#'
#' Articles: `vignette("data")`, `vignette("python")`.
#'
#' @section Compute without a program:
#' * [`?operators`][operators], [`?matrices`][matrices] and [`?summaries`][summaries] describe what computes on the
#'   device: `x + y`, `x %*% y`, `sum(x)`.
#'
#' Article: `vignette("operators")`.
#'
#' @section Run a program:
#' * [pjrt_load_exported()] loads what JAX or PyTorch exported, and [pjrt_program()] reads StableHLO.
#' * [pjrt_function()] makes an R function of a program.
#' * [pjrt_compile()] and [pjrt_execute()] are the two steps behind it. [pjrt_compile_options()] and
#'   [pjrt_execution_options()] control them, [pjrt_compile_async()] compiles in the background, and
#'   [`?pjrt_cache`][pjrt_cache] describes the cache of compiled programs.
#' * Results become ready later: [await()] waits for them, [as_array_async()] reads them without waiting, and
#'   [pjrt_on_ready()] calls a function.
#' * [pjrt_register_r_call()] lets programs call R functions, [pjrt_register_custom_call()] functions in C, C++ or Rust.
#'   Programs on the CPU can call LAPACK ([`?"linear-algebra"`][linear-algebra]).
#'
#' Articles: `vignette("jax")`, `vignette("pytorch")`, `vignette("programs")`, `vignette("stablehlo")`,
#' `vignette("waiting")`, `vignette("event-loop")`, `vignette("r-in-programs")`, "Thinking asynchronously".
#'
#' @section Train:
#' * [pjrt_step()] makes a function for a training loop: its outputs replace the arguments that they update.
#' * [flatten()] and [map_tree()] work on nested lists of parameters, and [tree_size()] and others on their structure.
#'
#' Articles: `vignette("jax")`, `vignette("train")`, "The demo".
#'
#' @section Save and load:
#' * [pjrt_save_safetensors()] and [pjrt_load_safetensors()] exchange models with other frameworks.
#'   [pjrt_open_safetensors()] reads single tensors.
#' * [pjrt_load_npy()] reads NumPy files, and [pjrt_map_file()] files of plain numbers.
#' * [saveRDS()] keeps buffers. [pjrt_serialize()] converts them to bytes, and [pjrt_save_executable()] saves compiled
#'   programs.
#'
#' Articles: "Models in files", "Loading a model".
#'
#' @section Look inside:
#' * [executable_info()] describes a compiled program. [executable_cost()] estimates its [cost by
#'   operation][operation-costs], [inspect_hlo()] shows the compiler's code, and [as_dot()] a graph.
#' * [pjrt_benchmark()] measures a program's speed.
#' * [pjrt_trace()] records what R and the devices do; [summary()][summary.PJRTTrace] and [plot()][plot.PJRTTrace] show
#'   it.
#' * [pjrt_memory_stats()] shows what uses memory.
#'
#' Articles: `vignette("slow")`, "Performance".
#'
#' @section Use several devices and processes:
#' * [pjrt_shard()] divides an array between devices, and [pjrt_execute_sharded()] runs a program on them.
#' * [`?pjrt_parallel`][pjrt_parallel] describes forks and clusters of R processes.
#' * [mpi_init()], [mpi_all_reduce()] and [mpi_program()] connect processes with MPI, [pjrt_distributed()] creates a
#'   client of several processes, and [pjrt_topology()] describes devices of other machines.
#'
#' Articles: `vignette("several-devices")`, `vignette("workers")`, `vignette("cluster")`, "A thousand processes".
#'
#' @section Write a package:
#' * [dispatcher()] compiles functions on first use, and [build_tree()] describes nested arguments.
#' * [`?"c-interface"`][c-interface] is for packages with C, C++ or Rust code.
#' * [`?"shared-generics"`][shared-generics] shows how pjrt works with other packages whose functions have the same
#'   names.
#'
#' Article: `vignette("using-pjrt")`.
#'
#' @section Installation:
#' The package is built from source and needs Rust (`cargo` and `rustc` >= 1.85). In a clone, `R CMD INSTALL .`
#' downloads the crates. To build on a machine without a network, run `sh tools/vendor.sh` and
#' `R CMD build --no-build-vignettes .` in a clone on another machine. The source package then contains the crates, and
#' `R CMD INSTALL` uses only these. `install_pjrt(source = "file")` installs a plugin from a wheel that you copied to
#' the machine.
#'
#' The build reads these environment variables:
#' * `CARGO_TARGET_DIR`: a folder to build in, which is kept.
#' * `PJRT_KEEP_TARGET`: `true` keeps `src/rust/target`, which makes the next build fast. Builds in a git clone always
#'   keep it.
#'
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # compile a program once, and run it on the device
#' x <- pjrt_buffer(matrix(c(2, 0, 1, 3), 2), "f64")
#' program <- pjrt_program("
#' func.func @main(%x: tensor<{X}>) -> tensor<{X}> {
#'   %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
#'     : (tensor<{X}>, tensor<{X}>) -> tensor<{X}>
#'   return %y : tensor<{X}>
#' }", types = list(X = x))
#' square <- pjrt_compile(program)
#' as_array(pjrt_execute(square, x))
#' @keywords internal
#' @useDynLib pjrt, .registration = TRUE, .fixes = "ffi_"
"_PACKAGE"
