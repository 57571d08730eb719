#' Options and environment variables
#'
#' These options and environment variables configure the package. An option overrides the variable for the same setting.
#'
#' @section Options:
#' Set them with [options()], preferably before you first use the package.
#'
#' * `pjrt.cache`: whether to keep compiled programs; see [pjrt_cache]. Default: `PJRT_CACHE`, or `TRUE`.
#' * `pjrt.cache_max_size`: the size limit of the cache on disk: a number of bytes, or a string such as `"500MB"`.
#'   Default: `PJRT_CACHE_MAX_SIZE`, or 2 GiB.
#' * `pjrt.check`: whether [pjrt_buffer()] and [as_array()] check all values by default. Default: `FALSE`.
#' * `pjrt.compile`: `"apart"` to compile programs in a separate process, so that a crash of the compiler is an R error,
#'   or `"inside"` to compile in R's process; see below. Default: `"apart"`.
#' * `pjrt.compile_memory`, `pjrt.compile_timeout`: the memory limit of a separate compiler, in bytes or as a string
#'   such as `"8GB"` (Linux only), and its time limit in seconds; a warning says if they have no effect. Default: no
#'   limits.
#' * `pjrt.default_float`, `pjrt.default_int`: the dtypes of buffers that are made from doubles (a float) and from
#'   integers (an integer type). Default: `"f32"` and `"i32"`.
#' * `pjrt.dispatch`: which thread starts programs; see below. Default: `"auto"`.
#' * `pjrt.index_url`: the Python package index to download plugins from; see [install_pjrt()]. Default:
#'   `PJRT_INDEX_URL`, or pip's.
#' * `pjrt.manifest`: a file that replaces the package's list of plugins; see below.
#' * `pjrt.operators_max`: how many programs of [operators] a session keeps. Default: 512.
#' * `pjrt.print_max_rows`: how many rows of a buffer are printed, -1 for all. Default: 30.
#' * `pjrt.print_max_rows_slice`: how many rows of each slice are printed. Default: `pjrt.print_max_rows`.
#' * `pjrt.print_max_width`: the width of a printed line in characters. Default: `getOption("width")`, or 85 if that is
#'   R's default, 80.
#' * `pjrt.print_style`: `"R"` to print the elements of buffers as R prints vectors and matrices, `"columns"`, or
#'   `"auto"`, which chooses by the buffer; see [print()][print.PJRTBuffer]. Default: `"auto"`.
#' * `pjrt.progress`: whether to show the progress of downloads, and of loading, saving, compiling and waiting that
#'   takes more than 2 seconds. Default: in interactive sessions, but not in documents that knitr makes. Package cli
#'   draws the bars if it is installed. Ctrl-C (Esc in RStudio) ends the wait.
#' * `pjrt.serialize`: whether [saveRDS()] and other functions of R write buffers, programs and executables with their
#'   content: `TRUE`, `FALSE`, or the largest size of a buffer, in bytes or as `"500MB"`; see [pjrt_serialize()].
#'   Default: `TRUE`.
#' * `pjrt.staging_max`: bytes of host memory that are kept for reuse; see [pjrt_memory_stats()]. Default: 256 MiB.
#' * `pjrt.verbose`: whether to print messages; see below. Default: `PJRT_DEBUG`, or `FALSE`.
#'
#' @section Environment variables:
#' The package reads variables for plugins when it searches for, downloads or loads a plugin, and variables for clients
#' when it creates a client.
#'
#' * `PJRT_PLATFORM`: the default platform. Default: `cpu`.
#' * `PJRT_CPU_DEVICE_COUNT`: the number of devices that the CPU is divided into; see [pjrt_client()]. Default: 1.
#' * `PJRT_CPU_THREADS`: the number of threads that run programs on the CPU. Default: one for each processor that the
#'   process or its job may use; see below.
#' * `PJRT_STORE`: the address of the store in which several processes meet; see [pjrt_distributed()].
#' * `PJRT_PLUGIN_PATH_<PLATFORM>`: the library of a platform's plugin, as in `PJRT_PLUGIN_PATH_CPU`; overrides
#'   everything else.
#' * `PJRT_PLUGIN_PATH`: folders with plugins, separated as in `PATH`.
#' * `PJRT_DISCOVER`: if `0`, Python packages and system folders are not searched for plugins; see [pjrt_plugin()].
#' * `PJRT_INSTALL`: if `1`, a missing plugin is downloaded without asking; if `0`, never; see [install_pjrt()].
#'   Default: ask, or raise an error if the session is not interactive.
#' * `PJRT_PLUGIN_URL_<PLATFORM>`: the URL of a wheel, an archive or a library to download.
#' * `PJRT_INDEX_URL`, `PIP_INDEX_URL`, `UV_DEFAULT_INDEX`: the Python package index to download from. Default: pip's.
#' * `PJRT_MPI`: the library of the system's MPI; see [mpi_init()]. Default: the package searches for it.
#' * `PIP_CONFIG_FILE`, `XDG_CONFIG_HOME`: pip's configuration, which may set the index. Default: pip's defaults.
#' * `PJRT_CACHE_DIR`: the folder of this user's plugins and compiled programs, which only the user can write to.
#'   Default: `tools::R_user_dir("pjrt", "cache")`.
#' * `PJRT_SITE_DIR`: the folder of plugins for all users; see [install_pjrt()]. Default: none.
#' * `PJRT_CACHE`: if `0`, compiled programs are not kept; see [pjrt_cache].
#' * `PJRT_CACHE_MAX_SIZE`: the size limit of the cache, such as `500MB`. Default: `2GiB`.
#' * `PJRT_DEBUG`: any value except `0` and `""` turns on messages; see below.
#' * `TF_CPP_MIN_LOG_LEVEL`: what the plugin prints: everything (0), no infos (1), no warnings (2), only fatal errors
#'   (3); read when the plugin is loaded. Default: 3, or 0 when verbose.
#' * `XLA_FLAGS`: XLA's own options, read when the first client is created; see [pjrt_client()] about unknown ones.
#'   [pjrt_compile_options()] sets options for a single program.
#' * `PJRT_NPROC`, `NPROC`: the number of threads of XLA's CPU client, at most 4096. `threads` and `PJRT_CPU_THREADS`
#'   come before `NPROC`; some plugins read `PJRT_NPROC` first.
#' * `R_USER_CACHE_DIR`, `XDG_CACHE_HOME`: the folder of R's user caches, including this package's unless
#'   `PJRT_CACHE_DIR` is set. Default: see [tools::R_user_dir()].
#' * `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`: proxies for downloads. Default: the system's.
#' * `SSL_CERT_FILE`, `PIP_CERT`, `REQUESTS_CA_BUNDLE`, `CURL_CA_BUNDLE`: files with certificates to trust in addition
#'   to the system's.
#' * `CUDA_HOME`, `CUDA_PATH`: a CUDA toolkit whose libraries are used; see [cuda]. Default: those in `/usr/local`.
#' * `LD_LIBRARY_PATH`: where the system looks for libraries, including the libraries of plugins.
#' * `LIBTPU_INIT_ARGS`, `NEURON_CC_FLAGS`: options of other compilers; part of the key of the [cache][pjrt_cache].
#' * `CUDA_VISIBLE_DEVICES`: the GPUs that the process can use. Default: all.
#' * `TPU_LIBRARY_PATH`: the library for TPUs.
#' * `TPU_SKIP_MDS_QUERY`: if `1`, the plugin for TPUs does not query its cloud while it is loaded. Default: `1` without
#'   a TPU.
#' * `UCX_ERROR_SIGNALS`: the signals at which UCX, which MPICH uses, ends the process. Default: none, so that R and
#'   this package can handle them; see [mpi_init()].
#' * `VIRTUAL_ENV`, `CONDA_PREFIX`, `RETICULATE_PYTHON`, `RETICULATE_PYTHON_ENV`, `RETICULATE_MINICONDA_PATH`,
#'   `RETICULATE_VIRTUALENV_ROOT`, `WORKON_HOME`, `PYENV_VERSION`, `PYTHONUSERBASE`, `PYTHONNOUSERSITE`,
#'   `XDG_DATA_HOME`: the folders of Python packages that are searched for plugins.
#'
#' * `SLURM_CPUS_PER_TASK`, `SLURM_CPUS_ON_NODE`, `PBS_NUM_PPN`, `LSB_DJOB_NUMPROC`, `NSLOTS`, `OMP_NUM_THREADS`,
#'   `OMP_THREAD_LIMIT`, and `NCPUS` if there is a `PBS_JOBID`: the number of processors for this process, which job
#'   schedulers and users of OpenMP set; see below.
#' * `SLURM_PROCID`, `SLURM_NTASKS`, `SLURM_LOCALID`, `SLURM_JOB_ID`, `SLURM_STEP_ID`, `SLURM_LAUNCH_NODE_IPADDR`;
#'   `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`, `OMPI_COMM_WORLD_LOCAL_RANK`, `OMPI_MCA_ess_base_jobid`,
#'   `OMPI_MCA_orte_hnp_uri`, `PMIX_NAMESPACE`; `PMI_SIZE`; `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `TORCHELASTIC_RUN_ID`,
#'   `MASTER_ADDR`: the place of this process among several, as Slurm, Open MPI, MPICH and torchrun set them; see
#'   [pjrt_distributed()] and [mpi_init()].
#'
#' `PJRT_TEST` is for the package's own tests.
#'
#' @section Threads:
#' The package uses at most one thread per available processor. The number of available processors is the smallest of
#' the system's limits (affinity, and control groups of containers and jobs) and the values of the variables that
#' schedulers and users of OpenMP set. It is the default number of threads that run programs on the CPU, which `NPROC`,
#' `PJRT_CPU_THREADS` and `pjrt_client("cpu", threads = )` change. It also limits the threads that convert data, and the
#' number of programs that are compiled at once. [pjrt_sitrep()] shows the number and where it comes from.
#' @section Separate compilers:
#' XLA's compiler trusts its input, and some programs crash it. By default, a separate process therefore compiles
#' programs for the CPU, and R loads the result. A crash raises `pjrt_error_compiler_crashed`; R, its buffers and
#' executables are not affected. Ctrl-C, a time limit, and dropping the promise of [pjrt_compile_async()] end the
#' process at once. One such process waits for the next program and ends with the session. Several programs compile in
#' several processes.
#'
#' Programs are compiled in R's process on Windows, for GPUs and other devices, for clients of several processes, for a
#' [topology][pjrt_topology], if the plugin cannot save an executable, and always for [operators]. [pjrt_sitrep()] shows
#' which.
#' @section Messages:
#' The package's messages are conditions of class `pjrt_message`, so that [suppressMessages()] and handlers work. Only
#' progress bars are drawn directly on the console. Plugins write to the process's standard error, and by default only
#' fatal errors.
#'
#' `options(pjrt.verbose = TRUE)` and `PJRT_DEBUG=1` turn on the package's messages about what it loads, downloads and
#' creates. If you set them before the plugin is loaded, they also turn on the plugin's messages.
#' @section Dispatch:
#' The option is read when a program is compiled.
#'
#' `pjrt.dispatch = "auto"` starts a program from R's own thread, unless R would have to wait. R would wait if the
#' plugin runs the program on the calling thread, if the device's queue is full (32 programs on the CPU), or if an
#' earlier program has not been started yet. In these cases, a separate thread of the device starts the program. R's
#' thread starts it again if its run time does not depend on its inputs (no branches, no custom calls, and only loops
#' whose number of iterations the compiler knows) and its last three runs took at most 0.1 ms each. Programs with a
#' little [linear algebra][linear-algebra], on matrices of at most 32 x 32, are short enough for R's thread.
#'
#' With `"thread"`, the device's thread starts all programs. With `"inline"`, R's thread starts all programs except
#' those that must wait for an earlier one; Ctrl-C then has no effect while R's thread runs a program.
#' [pjrt_execute_sharded()] always uses other threads for several devices.
#' @section Manifest:
#' `pjrt.manifest` is the path of a file that replaces the package's list of downloadable plugins, for example with the
#' versions and SHA-256 checksums that your site has approved. The list must be complete: nothing is added from the
#' package's list, `system.file("plugins.toml", package = "pjrt")`, whose first lines describe the format.
#' @name pjrt_options
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # printing
#' x <- pjrt_buffer(matrix(sqrt(1:20), 10), "f64")
#' old <- options(digits = 5, pjrt.print_max_rows = 3)
#' x
#' options(old)
#'
#' # as R prints
#' old <- options(pjrt.print_style = "R")
#' pjrt_buffer(matrix(1:6, 2))
#' options(old)
#'
#' # missing values become an error
#' old <- options(pjrt.check = TRUE)
#' try(pjrt_buffer(c(1, NA, 3)))
#' options(old)
NULL
