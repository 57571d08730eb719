# One use of each routine that the library registers: small, quick, and with the same value each time. The memory tests
# go through all of them. Each new routine needs a row here.

# The names of all registered routines.
routine_names <- function() {
  kinds <- getDLLRegisteredRoutines(getNamespaceInfo("pjrt", "DLLs")$pjrt)
  sort(unlist(lapply(kinds, names), use.names = FALSE))
}

# Environment variables for a session that finds only the CPU plugin and caches nothing.
lone_session <- function() {
  folder <- tempfile("cache")
  c(
    PJRT_PLUGIN_PATH_CPU = real_plugin(), R_USER_CACHE_DIR = folder, PJRT_CPU_DEVICE_COUNT = "2", PJRT_DISCOVER = "0",
    PJRT_CACHE = "0"
  )
}

# The helpers that the uses need.
routine_helpers <- c("programs", "plugins", "sharing", "routines")

# An environment with the objects that the uses need.
routine_objects <- function() {
  folder <- tempfile("routines")
  dir.create(folder)
  o <- list2env(list(folder = folder), parent = environment(routine_objects))
  local(envir = o, {
    plugin <- pjrt_plugin("cpu")
    client <- pjrt_client("cpu")
    here <- devices(client)[[1L]]
    there <- devices(client)[[2L]]
    memory <- memory_spaces(here)[[2L]]
    text <- add_program("2xf64")
    program <- pjrt_program(text)
    source <- file.path(folder, "add.mlir")
    writeLines(text, source)
    exported_file <- system.file("exported", "network.jaxexport", package = "pjrt")
    file.copy(system.file("exported", "iris-torch", package = "pjrt"), folder, recursive = TRUE)
    torch_folder <- file.path(folder, "iris-torch")
    npy_file <- file.path(torch_folder, "data", "0.bias")
    exported_bytes <- readBin(exported_file, "raw", file.size(exported_file))
    exported <- pjrt_load_exported(exported_file)
    add <- pjrt_compile(program)
    calling <- pjrt_function(add)
    both <- pjrt_compile(
      pjrt_program(all_reduce_program("2xf64", 2)), devices = devices(client),
      pjrt_compile_options(num_replicas = 2L, debug_options = list(xla_dump_to = folder, xla_dump_hlo_as_proto = TRUE))
    )
    dumped <- list.files(folder, "[.]before_optimizations[.]hlo[.]pb$", full.names = TRUE)
    x <- pjrt_buffer(c(1, 2), "f64")
    z <- pjrt_buffer(c(3, 4), "f64", device = there)
    options <- pjrt_execution_options()
    compile_options <- pjrt_compile_options()
    array <- as_array_async(x)
    compiled <- pjrt_compile_async(program)
    await(compiled)
    serialized <- pjrt_serialize(add)
    # as the compiler for a topology returns it
    unloaded <- structure(
      c(
        pjrt:::describe_executable(add),
        list(platform = "cpu", device_kind = "cpu", compile_seconds = 0, bytes = serialized)
      ),
      class = "PJRTExecutable"
    )
    file <- file.path(folder, "add")
    pjrt_save_executable(add, file)
    model <- file.path(folder, "model.safetensors")
    pjrt_save_safetensors(list(x = x, y = pjrt_scalar(2L)), model, c(from = "here"))
    opened <- pjrt_open_safetensors(model)
    idle <- idle_plugin(folder)
    nested <- list(l = list(w = x, b = 1), r = 2)
    tree <- build_tree(nested)
    leaves <- flatten(nested)
    # compiles nothing
    reused <- function(info) {
      list(exec = add, client = client, device = here, out_tree = build_tree(1), out_avals = list(list()))
    }
    dispatching <- dispatcher(2, reused, default_device = function() here, context = function() "c")
    anvl <- structure(list(data = x, device = here, backend = "pjrt"), class = "AnvlArray")
    library <- pjrt:::call_native(pjrt:::ffi_plugin_file, plugin)
    # a function, though not a handler
    pointer <- getNativeSymbolInfo("GetPjrtApi", dyn.load(library))$address
    cache <- list(dir = file.path(folder, "cache"), max_size = 1e6)
    manifest <- pjrt:::manifest_path()
    # a promise whose value has not been read
    fresh <- function(promise) {
      promise$executable <- NULL
      promise$data <- pjrt:::start_compile(pjrt:::ffi_compiling_start, program, pjrt_compile_options(), NULL, NULL)
      promise
    }
  })
  o
}

routine_uses <- function() {
  alist(
    # plugins
    plugin_load = pjrt:::load_plugin(library, "cpu"),
    plugin_file = basename(pjrt:::loaded_plugins()$path),
    plugin_is_absent = pjrt_plugins()$loaded,
    plugin_version = plugin_info(plugin)$api_version,
    plugin_attributes = plugin_attributes(plugin),
    plugin_extensions = plugin_info(plugin)$extensions,
    plugin_functions = pjrt:::call_native(pjrt:::ffi_plugin_functions, plugin)$name,
    plugin_part_run = pjrt:::call_native(
      pjrt:::ffi_plugin_part_run, file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", "1"), "", tempfile(), 600
    ),
    plugin_report_write = pjrt:::call_native(pjrt:::ffi_plugin_report_write, "{}", tempfile()),
    plugin_stablehlo_versions = plugin_info(plugin)$stablehlo_versions,
    plugin_check = pjrt:::plugin_problem(library),
    plugins_find = pjrt:::look_for_plugins("cpu"),
    plugins_cached = pjrt:::stored_plugins(),
    plugins_refused = pjrt:::refused_plugins(),
    processors_allowed = is.integer(pjrt:::call_native(pjrt:::ffi_processors_allowed)$count),
    plugins_fetchable = pjrt:::fetchable_plugins(),
    plugins_available = pjrt_plugins(available = TRUE),
    plugin_installed = pjrt:::stored_plugin_path("abacus"),
    plugin_install = basename(pjrt:::fetch_plugin("idle", source = "file", path = idle)),
    plugin_uninstall = is.character(suppressMessages(uninstall_pjrt("idle"))),
    variables = pjrt:::environment_variables()[["R_HOME"]],
    api_version_bound = pjrt:::call_native(pjrt:::ffi_api_version_bound),
    index_found = pjrt:::call_native(pjrt:::ffi_index_found, "https://example.org/simple"),
    redact = pjrt:::hide_secrets("https://me:secret@example.org/simple"),
    given = pjrt:::given("a"),
    cuda_report = pjrt:::cuda_report(),
    cuda_look_in = pjrt:::cuda_add_folders(folder),
    loaded = .Call(pjrt:::ffi_loaded, asNamespace("pjrt"), pjrt:::the),

    # clients, devices, memory spaces
    client_create = pjrt:::new_client(plugin, list(cpu_device_count = 1L)),
    client_create_distributed = .Call(
      pjrt:::ffi_client_create_distributed, plugin, character(), character(), list(),
      list(1, 1, "redis://h", "j", "n", 1)
    )$value$class,
    store_shown = pjrt_distributed(0, 1, "redis://host", job = "j")$shown,
    client_close = close(pjrt:::new_client(plugin, list(cpu_device_count = 1L))),
    compile_helper = pjrt:::call_native(
      pjrt:::ffi_compile_helper, system.file("bin", "pjrt-compiler", package = "pjrt")
    ),
    compiles_apart = pjrt:::call_native(pjrt:::ffi_compiles_apart, client),
    client_info = client_info(client)$platform_version,
    client_platform = platform(client),
    client_devices = devices(client),
    default_platform = pjrt:::default_platform(),
    client_all_devices = devices(client, addressable = FALSE),
    client_memories = memory_spaces(client),
    client_topology = pjrt_topology(client),
    # errors of routines are not worded, which would take long
    topology_create = .Call(
      pjrt:::ffi_topology_create, plugin, "cpu", "", character(), character(), list()
    )$value$class,
    topology_compile = .Call(pjrt:::ffi_topology_compile, client, program, compile_options, "")$value$class,
    device_info = device_info(here),
    device_label = as.character(here),
    device_platform = platform(here),
    device_memories = memory_spaces(here),
    device_default_memory = device_info(here)$default_memory_space,
    device_memory_stats = .Call(pjrt:::ffi_device_memory_stats, here)$value$class,
    memory_info = summary(memory),
    memory_stats = names(pjrt_memory_stats()),
    buffers_list = names(pjrt_memory_stats()$buffers),

    # buffers
    buffer_new = pjrt_buffer(c(1, 2, 3)),
    buffer_scalar = pjrt_scalar(1L),
    buffer_from_raw = pjrt_buffer(as.raw(1:4), dtype = "i16", shape = 2, row_major = TRUE),
    buffer_empty = pjrt_empty("bf16", c(2, 1)),
    buffer_dtype = elt_type(x),
    dtype_canonical = pjrt_buffer(x, "f64"),
    buffer_shape = pjrt:::shape.PJRTBuffer(x),
    buffer_device = pjrt:::device.PJRTBuffer(x),
    buffer_platform = platform(x),
    buffer_memory = memory_space(x),
    buffer_copy = copy_buffer(x, there),
    buffer_copy_to_memory = copy_buffer(x, memory),
    buffer_await = pjrt:::await.PJRTBuffer(x),
    buffer_is_ready = pjrt:::is_ready.PJRTBuffer(x),
    buffer_array = as_array(x, check = TRUE),
    buffer_raw = as_raw(x),
    buffer_slice = x[2],
    operator_1 = -x,
    operator_counts = names(.Call(pjrt:::ffi_operator_counts)),
    operator_2 = x + 1,
    operator_n = .Call(pjrt:::ffi_operator_n, "+", list(x, x), NULL),
    buffer_share = pjrt:::call_native(pjrt:::ffi_buffer_share, x, 1L, 1L, 2L, there),
    buffer_lines = utils::capture.output(print(x, header = FALSE)),
    buffer_literals = format_buffer(x),
    dlpack_export = class(as_dlpack(x)),
    dlpack_import = as_array(pjrt_from_dlpack(as_dlpack(x))),
    dlpack_give = as_array(
      pjrt_from_dlpack(.Call(pjrt:::ffi_dlpack_take, .Call(pjrt:::ffi_dlpack_give, as_dlpack(x)), TRUE))
    ),
    dlpack_take = tryCatch(.Call(pjrt:::ffi_dlpack_take, "0", TRUE), pjrt_error = conditionMessage),
    dlpack_take_object = .Call(pjrt:::ffi_dlpack_take_object, "0"),
    dlpack_describe = format(as_dlpack(x)),
    dlpack_functions = length(pjrt:::call_native(pjrt:::ffi_dlpack_functions)),
    dlpack_lend = {
      lent <- pjrt:::call_native(pjrt:::ffi_dlpack_lend, x)
      .Call(pjrt:::ffi_dlpack_release, lent)
    },
    dlpack_release = .Call(pjrt:::ffi_dlpack_release, pjrt:::call_native(pjrt:::ffi_dlpack_lend, pjrt_scalar(1))),
    dlpack_stream = pjrt:::call_native(pjrt:::ffi_dlpack_stream, here),
    fast_array = list(as_array(x), as_array(list(a = x, x))),
    fast_await = list(await(x), await(list(a = x, x))),
    fast_device = device(x),
    fast_dtype = dtype(x),
    data_type_keep = pjrt:::dtype.PJRTBuffer(x),
    data_types_forget = pjrt:::reset_tengen(),
    fast_is_ready = is_ready(x),
    fast_shape = shape(x),
    buffer_delete = is_deleted(pjrt_delete(pjrt_scalar(1))),
    buffer_is_deleted = is_deleted(x),
    object_fate = pjrt:::dead_text(x, "PJRTBuffer"),
    dtype_safetensors = pjrt:::safe_tensor_meta.PJRTBuffer(x),
    dtype_mlir = pjrt_program("func.func @main(%x: tensor<{X}>) { return }", types = list(X = x)),
    dtype_from_safetensors = pjrt:::pjrt_tensor_from_raw(as.raw(1:4), list(shape = list(2L), dtype = "F16")),
    transfer_start = as_array_async(x),
    transfer_is_ready = is.logical(is_ready(array)),
    transfer_value = .Call(pjrt:::ffi_transfer_value, array$data),

    # event loops
    idle_connect = is.logical(pjrt:::use_later()),
    ready_watch = pjrt_on_ready(array, identity)(),
    ready_forget = pjrt_on_ready(list(array, array), identity)(),

    # programs and executables
    program_new = pjrt_program(text),
    program_read = pjrt_program(path = source),
    program_describe = format(program),
    program_text = as.character(program),
    program_graph = as_dot(program),
    exported_new = names(pjrt_load_exported(exported_bytes)),
    exported_read = names(pjrt_load_exported(exported_file)),
    pytorch_read = names(pjrt_load_exported(torch_folder)),
    npy_load = pjrt_load_npy(npy_file),
    map_array = pjrt_map_file(npy_file, "ui8", 4L),
    arrow_room = names(pjrt:::call_native(pjrt:::ffi_arrow_room)),
    arrow_take = .Call(pjrt:::ffi_arrow_take, "0", "0", here)$value$class,
    npy_load_files = pjrt_load_exported(torch_folder)$weights,
    exported_check = pjrt_compile(exported),
    exported_facts = names(exported),
    exported_function = format(pjrt_function(exported)),
    exported_lines = format(exported),
    exported_program = pjrt:::fixed_program(exported, "cpu", list()),
    program_inputs = pjrt:::program_inputs(program),
    program_of_shapes = pjrt_compile(program, shapes = list(2, 2)),
    exported_weights = pjrt:::call_native(pjrt:::ffi_exported_weights, exported),
    exported_keep_weights = length(pjrt_load_exported(torch_folder)$weights),
    compile_options_check = pjrt_compile_options(debug_options = list(xla_cpu_enable_fast_math = FALSE)),
    executable_compile = pjrt_compile(program),
    compiling_start = pjrt_compile_async(program),
    compiling_is_ready = is.logical(is_ready(fresh(compiled))),
    compiling_value = value(fresh(compiled)),
    executable_describe = executable_info(add)$inputs,
    executable_array = pjrt:::call_native(pjrt:::ffi_executable_array, both, TRUE, 1L),
    executable_division = pjrt:::call_native(pjrt:::ffi_executable_division, both, TRUE, 1L),
    executable_input = pjrt:::call_native(pjrt:::ffi_executable_input, add, "x"),
    executable_device = device(add),
    executable_devices = devices(add),
    executable_own_positions = pjrt:::call_native(pjrt:::ffi_executable_own_positions, add),
    executable_aliases = pjrt:::call_native(pjrt:::ffi_executable_aliases, add),
    executable_origin = utils::capture.output(print(add)),
    executable_costs = executable_cost(add),
    executable_operation_costs = executable_cost(add, "operation"),
    executable_memory_stats = executable_info(add)$memory,
    executable_fingerprint = executable_info(add)$fingerprint,
    executable_code_bytes = summary(add)$code_size,
    executable_optimized_text = inspect_hlo(add)$after_optimizations,
    executable_serialize = length(pjrt_serialize(add)),
    executable_deserialize = pjrt_deserialize(serialized),
    buffer_serialize = pjrt_serialize(x),
    program_serialize = pjrt_serialize(program),
    contained_read = pjrt_deserialize(pjrt_serialize(x)),
    sent_parts = length(serialize(x, NULL)) > 0,
    sent_content = as_array(unserialize(serialize(x, NULL))),
    sent_needed = as.character(unserialize(serialize(program, NULL))),
    sent_adopt = as_array(unserialize(serialize(x, NULL))),
    executable_save = basename(pjrt_save_executable(add, file)),
    executable_write = basename(pjrt_save_executable(unloaded, file)),
    executable_load = pjrt_load_executable(file),
    hlo_inspect = names(inspect_hlo(program)),

    benchmark_inputs = length(pjrt:::call_native(pjrt:::ffi_benchmark_inputs, add, list(x, x), NULL)),
    benchmark_runs = length(pjrt:::call_native(pjrt:::ffi_benchmark_runs, add, list(x, x), NULL, 2, FALSE)),
    benchmark_in_flight = pjrt:::call_native(pjrt:::ffi_benchmark_in_flight, add, list(x, x), NULL, 3, 2) > 0,

    # executions
    execute_options_new = pjrt_execution_options(0L, 1L, here),
    execute_options_describe = utils::capture.output(print(options)),
    executable_execute = pjrt_execute(add, x, x, execution_options = options),
    function_new = class(pjrt_function(add)),
    function_call = calling(x, c(3, 4)),
    function_of_executable = format(pjrt_function(add)),
    function_of_program = format(pjrt_function(pjrt_program(
      "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n return %x : tensor<?xf32>\n}"
    ))),
    function_renamed = names(formals(pjrt_function(add, arguments = c("a", "b")))),
    function_step = class(pjrt_step(pjrt_function(add), state = c(x = 1))),
    function_arrays = summary(pjrt_function(add)),
    function_facts = names(formals(pjrt_function(add))),
    function_lines = utils::capture.output(print(pjrt_function(add))),
    function_signature = format(pjrt_function(add)),
    executable_execute_sharded = pjrt_execute_sharded(both, list(x, z)),

    # custom calls
    custom_call_register = pjrt_register_custom_call("routine", list(host = pointer), "routine"),
    custom_call_unregister = {
      pjrt_register_custom_call("routine", list(host = pointer), "routine")
      pjrt:::pjrt_unregister_custom_calls("routine")
    },
    r_call_register = {
      pjrt_register_r_call("routine", identity)
      pjrt_unregister_custom_call("routine")
    },
    mpi_start = .Call(pjrt:::ffi_mpi_start, file.path(folder, "no-such-library"))$value$class,
    program_of_process = pjrt:::call_native(pjrt:::ffi_program_of_process, dumped, 0L, 2L, FALSE),
    mpi_finish = pjrt:::call_native(pjrt:::ffi_mpi_finish),
    mpi_kinds = .Call(pjrt:::ffi_mpi_kinds, list(x, x)),
    custom_call_problems = pjrt:::warn_about_custom_calls(),
    linear_algebra_libraries = pjrt:::call_native(pjrt:::ffi_linear_algebra_libraries, pjrt:::lapack_files()),

    # dispatchers
    dispatch = dispatch(dispatching, list(anvl, anvl)),
    dispatcher_new = class(dispatcher(1, reused, static = "s", move_inputs = TRUE)),
    dispatcher_size = is.integer(dispatcher_size(dispatching)),

    # model files
    safetensors_save = basename(pjrt_save_safetensors(list(x = x), file.path(folder, "saved.safetensors"))),
    safetensors_open = class(pjrt_open_safetensors(model)),
    safetensors_describe = safetensors_info(model),
    safetensors_load = pjrt_load_safetensors(model),
    safetensors_metadata = attributes(pjrt_load_safetensors(model)),
    safetensors_names = names(opened),
    safetensors_share = pjrt:::call_native(pjrt:::ffi_safetensors_share, opened, 1L, 0L, 1L, 2L, there),
    safetensors_summary = format(opened),
    safetensors_tensor = pjrt:::call_native(pjrt:::ffi_safetensors_tensor, opened, 1L),
    safetensors_close = close(pjrt_open_safetensors(model)),

    # nested lists
    tree_build = format(build_tree(nested)),
    tree_child_kinds = tree_child_kinds(tree),
    tree_child_names = tree_child_names(tree),
    tree_child_sizes = tree_child_sizes(tree),
    tree_concat = format(tree_concat(list(tree, tree), c("a", "b"))),
    tensor_names_join = pjrt:::names_like(nested, "."),
    tensor_names_nest = names(pjrt_load_safetensors(model, separator = ".")),
    tree_diff = tree_diff(tree, tree_concat(list(tree, tree))),
    tree_equal = tree_equal(tree, tree),
    tree_filter = format(tree_filter_by_names(tree, "l")),
    tree_flatten = flatten(nested),
    tree_hash = tree_hash(tree),
    tree_leaf_mask = tree_leaf_mask(tree, "l"),
    tree_path = tree_path(tree, 2),
    tree_repr = tree_repr(tree),
    tree_root_kind = tree_root_kind(tree),
    tree_size = tree_size(tree),
    tree_take_apart = flatten_fun(list, tree)(x, 1, 2),
    tree_unflatten = unflatten(tree, leaves),

    # traces
    trace_start = list(
      pjrt:::call_native(pjrt:::ffi_trace_start, 10), is.list(pjrt:::call_native(pjrt:::ffi_trace_stop))
    ),
    trace_stop = pjrt:::call_native(pjrt:::ffi_trace_stop),
    trace_is_on = .Call(pjrt:::ffi_trace_is_on),
    trace_enter = .Call(pjrt:::ffi_trace_enter, list(name = "a")),
    trace_leave = .Call(pjrt:::ffi_trace_leave),
    trace_write = pjrt:::call_native(
      pjrt:::ffi_trace_write, list(start = 0, end = 1, lane = "R", kind = "wait", name = NA), "R", tempfile()
    ),

    # the cache of executables
    cache_info = pjrt:::call_native(pjrt:::ffi_cache_info, cache)$entries,
    cache_list = pjrt:::call_native(pjrt:::ffi_cache_list, cache),
    cache_clear = pjrt:::call_native(pjrt:::ffi_cache_clear, cache),
    cache_prune = pjrt:::call_native(pjrt:::ffi_cache_prune, cache, 1),
    cache_messages = .Call(pjrt:::ffi_cache_messages)
  )
}

# Replaces objects that differ each time with values that can be compared.
plain <- function(x) {
  if (inherits(x, "PJRTBuffer")) {
    as_array(x)
  } else if (is.environment(x)) {
    plain(value(x))
  } else if (typeof(x) == "externalptr") {
    class(x)
  } else if (is.list(x)) {
    lapply(unclass(x), plain)
  } else {
    x
  }
}

# The value of a use, or the class of its error: some routines can only fail here.
used <- function(use, objects) {
  tryCatch(eval(use, objects), pjrt_error = function(e) class(e)[[1L]])
}

# Replaces an object of the package until the calling function ends.
local_in_package <- function(name, value, env = parent.frame()) {
  namespace <- asNamespace("pjrt")
  original <- get(name, namespace)
  unlockBinding(name, namespace)
  assign(name, value, namespace)
  withr::defer(assign(name, original, namespace), env)
}

# The names of the uses whose value changes if R collects garbage at every `step`th allocation. It does so only inside
# call_native() in uses that get there, because the R code around it would take most of the time.
changed_by_torture <- function(uses = routine_uses(), step = 1L) {
  # compiling functions meanwhile would take longer than everything else
  jit <- compiler::enableJIT(0)
  on.exit(compiler::enableJIT(jit))
  objects <- routine_objects()
  on.exit(gctorture(FALSE), add = TRUE)
  call_native <- pjrt:::call_native
  calls <- 0L
  inside <- 0L
  local_in_package("call_native", function(symbol, ...) {
    calls <<- calls + 1L
    arguments <- list(symbol, ...)
    gctorture2(inside)
    on.exit(gctorture(FALSE))
    do.call(call_native, arguments, quote = TRUE)
  })
  changed <- vapply(names(uses), FUN.VALUE = NA, function(name) {
    calls <<- inside <<- 0L
    expected <- plain(used(uses[[name]], objects))
    inside <<- step
    gctorture2(if (calls > 0L) 0L else step)
    value <- used(uses[[name]], objects)
    gctorture(FALSE)
    inside <<- 0L
    !identical(plain(value), expected)
  })
  names(uses)[changed]
}

# The names of the uses that do not call their routine: they still work when it is missing.
missing_their_routine <- function(uses = routine_uses()) {
  objects <- routine_objects()
  misses <- vapply(names(uses), FUN.VALUE = NA, function(name) {
    local_in_package(paste0("ffi_", name), NULL)
    tryCatch(
      {
        plain(used(uses[[name]], objects))
        TRUE
      },
      error = function(e) FALSE
    )
  })
  names(uses)[misses]
}
