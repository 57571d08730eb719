#' Options and environment variables
#'
#' All that can be set for the package as a whole. An option wins over the variable for the same thing.
#'
#' @section Options:
#' Set them with [options()], best before the package is first used.
#'
#' | option | meaning | default |
#' |---|---|---|
#' | `pjrt.cache` | `FALSE`: keep no compiled programs; see [pjrt_cache] | `PJRT_CACHE`, or `TRUE` |
#' | `pjrt.cache_max_size` | how much of them is kept on disk, in bytes or as `"500MB"` | `PJRT_CACHE_MAX_SIZE`, or 2 GiB |
#' | `pjrt.dispatch` | who launches programs; see below | `"auto"` |
#' | `pjrt.index_url` | the Python package index to fetch plugins from; see [install_pjrt()] | `PJRT_INDEX_URL`, or pip's |
#' | `pjrt.manifest` | a file in place of the package's list of plugins; see below | |
#' | `pjrt.print_max_rows` | how many rows of a buffer are printed, -1 for all | 30 |
#' | `pjrt.print_max_rows_slice` | how many rows of each of its slices | those of `pjrt.print_max_rows` |
#' | `pjrt.print_max_width` | how wide, in characters | 85 |
#' | `pjrt.staging_max` | bytes of host memory that are kept for the next large array; see [pjrt_memory_stats()] | 256 MiB |
#' | `pjrt.verbose` | `TRUE`: tell what is loaded, fetched and created; see below | `PJRT_DEBUG`, or `FALSE` |
#'
#' @section Environment variables:
#' Variables for plugins are read when a plugin is looked for, fetched or loaded, those for a client when it is created.
#'
#' | variable | meaning | default |
#' |---|---|---|
#' | `PJRT_PLATFORM` | the platform to use when none is named | `cpu` |
#' | `PJRT_CPU_DEVICE_COUNT` | the number of devices that the CPU is divided into; see [pjrt_client()] | 1 |
#' | `PJRT_CPU_THREADS` | the number of threads that run programs on the CPU | one for each processor |
#' | `PJRT_PLUGIN_PATH_<PLATFORM>` | the library of a platform's plugin, as in `PJRT_PLUGIN_PATH_CPU`; wins over everything else | |
#' | `PJRT_PLUGIN_PATH` | folders with plugins, separated as in `PATH` | |
#' | `PJRT_DISCOVER` | `0`: look for no plugins in Python packages and system folders; see [pjrt_plugin()] | look there |
#' | `PJRT_INSTALL` | `1`: fetch a missing plugin without asking; `0`: never; see [install_pjrt()] | ask, or fail |
#' | `PJRT_PLUGIN_URL_<PLATFORM>` | the URL of a wheel, an archive or a library to fetch | |
#' | `PJRT_INDEX_URL`, `PIP_INDEX_URL`, `UV_DEFAULT_INDEX` | the Python package index to fetch from | pip's |
#' | `PIP_CONFIG_FILE`, `XDG_CONFIG_HOME` | pip's configuration, where its index is looked for, too | pip's own places |
#' | `PJRT_CACHE` | `0`: keep no compiled programs; see [pjrt_cache] | keep them |
#' | `PJRT_CACHE_MAX_SIZE` | how much of them is kept, as in `500MB` | `2GiB` |
#' | `PJRT_DEBUG` | neither empty nor `0`: tell what is loaded, fetched and created | tell nothing |
#' | `TF_CPP_MIN_LOG_LEVEL` | what the plugin prints: everything (0), no infos (1), no warnings (2), nothing but what ends the process (3); read when it is loaded | 3, or 0 when verbose |
#' | `XLA_FLAGS` | options of XLA itself, read when the first client is created; one that XLA does not know ends the process. [pjrt_compile_options()] sets options for a single program | |
#' | `NPROC` | the number of threads of XLA's CPU client, where neither `threads` nor `PJRT_CPU_THREADS` says it | |
#' | `R_USER_CACHE_DIR` | where R's user caches are, this package's among them | see [tools::R_user_dir()] |
#' | `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` | proxies for downloads | the system's |
#' | `SSL_CERT_FILE`, `PIP_CERT`, `REQUESTS_CA_BUNDLE`, `CURL_CA_BUNDLE` | files of certificates to trust besides the system's | |
#' | `CUDA_HOME`, `CUDA_PATH` | a CUDA toolkit to take libraries from; see [cuda] | those in `/usr/local` |
#' | `LD_LIBRARY_PATH` | where the system looks for libraries, those that a plugin needs among them | |
#' | `LIBTPU_INIT_ARGS`, `NEURON_CC_FLAGS` | options of other compilers; what was compiled with others is not taken from the [cache][pjrt_cache] | |
#' | `CUDA_VISIBLE_DEVICES` | the GPUs that CUDA shows to the process | all |
#' | `TPU_LIBRARY_PATH` | the library for TPUs | |
#' | `TPU_SKIP_MDS_QUERY` | `1`: the plugin for TPUs does not ask its cloud for facts while it is loaded | `1` without a TPU |
#' | `VIRTUAL_ENV`, `CONDA_PREFIX`, `RETICULATE_PYTHON`, `RETICULATE_PYTHON_ENV`, `RETICULATE_MINICONDA_PATH`, `RETICULATE_VIRTUALENV_ROOT`, `WORKON_HOME`, `PYENV_VERSION`, `PYTHONUSERBASE`, `PYTHONNOUSERSITE`, `XDG_DATA_HOME` | where Python packages are, in which plugins are looked for | |
#'
#' `PJRT_TEST` and `PJRT_TEST_REGISTERS` are for the package's own tests.
#'
#' @section Messages:
#' What the package has to tell comes as a message of class `pjrt_message`, so that [suppressMessages()] and handlers work;
#' only a download's progress is drawn on the console itself. Plugins write to the process's standard error output, past R, and by
#' default nothing but the reason why they end the process.
#'
#' `options(pjrt.verbose = TRUE)` and `PJRT_DEBUG=1` turn on the package's own messages about what it loads, fetches and creates,
#' at once, and what the plugin has to say, if they are set before it is loaded.
#' @section Dispatch:
#' `pjrt.dispatch = "auto"` launches a program from R's own thread unless R would have to wait: for the end of the program, when
#' the plugin runs it on the thread that launches it; for the device, when that has taken as many programs as it can (32 on the
#' CPU); or for a launch before this one. Then a thread of the device launches it. A program that takes about the same time
#' whatever its inputs hold (it has no branches, no custom calls, and only loops whose number of turns the compiler knows) is
#' launched from R's thread again once three runs in a row took at most 0.1 ms. `"thread"` has that thread launch all,
#' `"inline"` none but those that would overtake a launch they must come after; Ctrl-C then has no effect while R's thread runs
#' a program. It counts when a program is compiled. [pjrt_execute_sharded()] always uses other threads for several devices.
#' @section Manifest:
#' `pjrt.manifest` names a file of your own in place of the package's list of the plugins that can be fetched, for instance with
#' the versions and SHA-256 that your site has approved. It must say all: nothing is added from the package's list,
#' `system.file("plugins.toml", package = "pjrt")`, whose first lines explain the format.
#' @name pjrt_options
#' @examples
#' # tell what is going on
#' old <- options(pjrt.verbose = TRUE)
#' options(old)
NULL
