# Bad input: what every exported function and every method of our classes takes, and the values that each argument is given
# in turn while all others are right.

# An argument: its kind, and a right value where that is not the kind's own.
of <- function(kind, expr) list(kind = kind, valid = substitute(expr))

# The arguments of a function. `after` is done with what it gives, called `made`; `refuses` says that it only ever fails.
row <- function(..., after = NULL, refuses = FALSE) {
  arguments <- lapply(list(...), function(x) if (is.character(x)) list(kind = x) else x)
  list(arguments = arguments, after = substitute(after), refuses = refuses)
}

# A use in which the bad value, called `bad`, is not an argument itself, but in one or beside them.
use <- function(expr, kind, after = NULL) list(expr = substitute(expr), kind = kind, after = substitute(after))

# A kind of argument: a right value; which of the bad values are right for it after all; the classes of ours that it is about,
# of which it is given impostors; and whether it is given paths.
kind <- function(valid, accepts = nothing, classes = character(), paths = FALSE, spared = character()) {
  list(valid = substitute(valid), accepts = accepts, classes = classes, paths = paths, spared = spared)
}

# What kinds accept. A value is known by its label where its class would have a say in what is asked of it.
nothing <- function(v, label) FALSE
anything <- function(v, label) TRUE
only <- function(...) function(v, label) label %in% c(...)
plainly <- function(test, ...) function(v, label) label %in% c(...) || (!is.object(v) && isTRUE(test(v)))
or_null <- function(accepts) function(v, label) is.null(v) || accepts(v, label)

is_flag <- function(v) is.logical(v) && length(v) == 1L && !is.na(v)
is_number <- function(v) is.numeric(v) && length(v) == 1L && !is.na(v)
is_whole <- function(v) is_number(v) && v == trunc(v)
is_text <- function(v) is.character(v) && length(v) == 1L && !is.na(v)
is_name <- function(v) is_text(v) && validUTF8(v) && grepl("^[a-zA-Z0-9]{1,100}$", v)

input_kinds <- function() {
  list(
    ignored = NULL,
    any = kind(x, anything),
    none = kind(x),
    flag = kind(FALSE, plainly(is_flag)),
    flag_or_null = kind(NULL, or_null(plainly(is_flag))),
    # our objects
    buffer = kind(x, only("a buffer"), "PJRTBuffer"),
    client = kind(client, only("a client", "NULL"), "PJRTClient"),
    device = kind(here, only("NULL", "a device", "a client", "a closed device"), c("PJRTDevice", "PJRTClient")),
    memory = kind(memory, only("a memory"), "PJRTMemory"),
    plugin = kind(plugin, only("a plugin"), "PJRTPlugin"),
    executable = kind(add, only("an executable"), "PJRTLoadedExecutable"),
    program = kind(program, only("a program"), "PJRTProgram"),
    execution_options = kind(options, only("NULL", "execution options"), "PJRTExecuteOptions"),
    compile_options = kind(pjrt_compile_options(), only("compile options"), "PJRTCompileOptions"),
    devices = kind(devices(client)[1L], only("a device"), "PJRTDevice"),
    promise = kind(array, only("an array promise"), c("PJRTArrayPromise", "PJRTExecutablePromise")),
    ended = kind(NULL, only("a deleted buffer", "a donated buffer", "a closed client"), c("PJRTBuffer", "PJRTClient"), spared = c("a buffer", "a client", "a model file")),
    # numbers, texts and data
    data = kind(c(1, 2), plainly(is.vector)),
    dtype = kind("f32", only("NULL")),
    shape = kind(2L, only("NULL")),
    index = kind(1, plainly(is_whole)),
    string = kind("a", plainly(is_text)),
    name = kind("cpu", only("NULL")),
    path = kind(file, paths = TRUE),
    list = kind(list(), plainly(is.list)),
    choice = kind("a"),
    int64 = kind("double"),
    subscript = kind(1),
    tensor = kind(1),
    size = kind(NULL),
    age = kind(1),
    opened = kind(opened, classes = "PJRTSafetensors"),
    # an R object with a class of ours, of which the method knows what is in it
    printed = kind(NULL)
  )
}

# For every exported function, and every method of one of our classes, the kinds of its arguments.
input_rows <- function() {
  list(
    # buffers
    as_array = row(x = "none"),
    as_array.PJRTBuffer = row(x = "buffer", check = "flag", int64 = "int64"),
    as_array.PJRTArrayPromise = row(x = "promise"),
    as_array_async = row(x = "buffer"),
    as_array_async.PJRTBuffer = row(x = "buffer", int64 = "int64"),
    as_raw = row(x = "buffer"),
    as_raw.PJRTBuffer = row(x = "buffer", row_major = "flag"),
    await = row(x = "buffer"),
    await.PJRTBuffer = row(x = "buffer"),
    await.PJRTExecutablePromise = row(x = of("promise", compiled)),
    copy_buffer = row(buffer = "buffer", device = "device"),
    device = row(x = "buffer"),
    device.PJRTBuffer = row(x = "buffer"),
    device.PJRTLoadedExecutable = row(x = "executable"),
    dtype = row(x = "buffer"),
    dtype.PJRTBuffer = row(x = "buffer"),
    elt_type = row(x = "buffer"),
    format_buffer = row(buffer = "buffer"),
    is_deleted = row(x = "buffer"),
    is_ready = row(x = "buffer"),
    is_ready.PJRTBuffer = row(x = "buffer"),
    is_ready.PJRTArrayPromise = row(x = "promise"),
    is_ready.PJRTExecutablePromise = row(x = of("promise", compiled)),
    memory_space = row(x = "buffer"),
    pjrt_buffer = row(data = "data", dtype = "dtype", device = "device", shape = "shape", check = "flag"),
    pjrt_buffer.PJRTBuffer = row(data = of("buffer", x), dtype = of("dtype", "f64"), device = "device", shape = "shape", check = "flag"),
    pjrt_buffer.raw = row(
      data = of("data", as.raw(1:4)), dtype = of("dtype", "f16"), device = "device", shape = "shape", row_major = "flag"
    ),
    pjrt_delete = row(buffer = of("ended", pjrt_scalar(1))),
    pjrt_empty = row(dtype = "dtype", shape = "shape", device = "device"),
    pjrt_scalar = row(data = of("data", 1), dtype = "dtype", device = "device", check = "flag"),
    pjrt_scalar.PJRTBuffer = row(
      data = of("buffer", pjrt_scalar(1)), dtype = "dtype", device = "device", check = "flag"
    ),
    pjrt_scalar.raw = row(data = of("data", as.raw(1)), dtype = of("dtype", "ui8"), device = "device"),
    pjrt_shard = row(x = "data", devices = "devices", dim = "index", dtype = "dtype"),
    pjrt_unshard = row(buffers = of("list", list(x, x)), dim = "index"),
    shape = row(x = "buffer"),
    shape.PJRTBuffer = row(x = "buffer"),
    value = row(x = "promise"),
    value.PJRTArrayPromise = row(x = "promise"),
    value.PJRTExecutablePromise = row(x = of("promise", compiled)),

    # buffers as arrays
    `$.PJRTBuffer` = row(x = "buffer", name = "ignored", refuses = TRUE),
    `$<-.PJRTBuffer` = row(x = "buffer", of("string", "a"), value = "any", refuses = TRUE),
    `[.PJRTBuffer` = row(x = "buffer", of("subscript", 1), drop = "flag"),
    `[[.PJRTBuffer` = row(x = "buffer", of("subscript", 1), exact = "any"),
    `[<-.PJRTBuffer` = row(x = "buffer", of("index", 1), value = "any", refuses = TRUE),
    `[[<-.PJRTBuffer` = row(x = "buffer", of("index", 1), value = "any", refuses = TRUE),
    `dim<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    `dimnames<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    `length<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    `names<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    all.equal.PJRTBuffer = row(target = "buffer", current = "any"),
    anyNA.PJRTBuffer = row(x = "buffer", recursive = "any"),
    as.array.PJRTBuffer = row(x = "buffer"),
    as.complex.PJRTBuffer = row(x = "buffer"),
    as.double.PJRTBuffer = row(x = "buffer"),
    as.integer.PJRTBuffer = row(x = "buffer"),
    as.logical.PJRTBuffer = row(x = "buffer"),
    as.matrix.PJRTBuffer = row(x = "buffer"),
    as.vector.PJRTBuffer = row(x = "buffer", mode = of("choice", "any")),
    compare_proxy.PJRTBuffer = row(x = "buffer", path = "ignored"),
    compare_proxy.PJRTArrayPromise = row(x = "promise", path = "ignored"),
    dim.PJRTBuffer = row(x = "buffer"),
    format.PJRTBuffer = row(x = "buffer"),
    is.finite.PJRTBuffer = row(x = "buffer"),
    is.infinite.PJRTBuffer = row(x = "buffer"),
    is.na.PJRTBuffer = row(x = "buffer"),
    is.nan.PJRTBuffer = row(x = "buffer"),
    is.numeric.PJRTBuffer = row(x = "buffer"),
    length.PJRTBuffer = row(x = "buffer"),
    print.PJRTBuffer = row(
      x = "buffer", max_rows = of("index", 5), max_width = of("index", 5), max_rows_slice = of("index", 5), header = "flag",
      footer = of("string", "a")
    ),
    safe_tensor_buffer.PJRTBuffer = row(x = "buffer"),
    safe_tensor_meta.PJRTBuffer = row(x = "buffer"),
    str.PJRTBuffer = row(object = "buffer"),
    summary.PJRTBuffer = row(object = "buffer"),
    print.summary.PJRTBuffer = row(x = of("printed", summary(x))),
    print.PJRTArrayPromise = row(x = "promise"),

    # plugins, clients, devices, memory spaces
    as.character.PJRTClient = row(x = "client"),
    as.character.PJRTDevice = row(x = "device"),
    as.character.PJRTMemory = row(x = "memory"),
    as_pjrt_client = row(x = "client"),
    as_pjrt_device = row(x = "device"),
    as_pjrt_plugin = row(x = "plugin"),
    client_info = row(x = "client"),
    close.PJRTClient = row(con = of("ended", pjrt:::new_client(plugin, list(cpu_device_count = 1L)))),
    default_memory = row(device = "device"),
    device_info = row(device = "device"),
    device_memory_stats = row(device = "device"),
    devices = row(x = "client"),
    devices.PJRTClient = row(x = "client", addressable = "flag"),
    devices.PJRTLoadedExecutable = row(x = "executable"),
    format.PJRTClient = row(x = "client"),
    format.PJRTDevice = row(x = "device"),
    format.PJRTInfo = row(x = of("printed", device_info(here))),
    format.PJRTMemory = row(x = "memory"),
    memories = row(x = "client"),
    memory_info = row(memory = "memory"),
    pjrt_api_version = row(plugin = "plugin"),
    pjrt_client = row(platform = "name", cpu_device_count = "none", after = pjrt_client("cpu")),
    pjrt_device = row(device = "device"),
    pjrt_memory_stats = row(),
    pjrt_plugin = row(platform = "name"),
    pjrt_plugins = row(),
    pjrt_register_plugin = row(name = of("name", "idle2"), path = of("path", library), options = "list"),
    platform = row(x = "client"),
    platform.PJRTBuffer = row(x = "buffer"),
    platform.PJRTClient = row(x = "client"),
    platform.PJRTDevice = row(x = "device"),
    platform_version = row(x = "client"),
    plugin_attributes = row(plugin = "plugin"),
    plugin_client_create = row(plugin = "plugin", platform = of("name", "fresh"), options = "list", after = close(made)),
    plugin_extensions = row(plugin = "plugin"),
    plugin_stablehlo_versions = row(plugin = "plugin"),
    print.PJRTClient = row(x = "client"),
    print.PJRTDevice = row(x = "device"),
    print.PJRTInfo = row(x = of("printed", device_info(here))),
    print.PJRTMemory = row(x = "memory"),
    print.PJRTPlugin = row(x = "plugin"),
    topology = row(x = "client"),
    `==.PJRTDevice` = row(e1 = "device", e2 = of("any", there)),
    `!=.PJRTDevice` = row(e1 = "device", e2 = of("any", there)),
    `==.PJRTMemory` = row(e1 = "memory", e2 = of("any", memory)),
    `!=.PJRTMemory` = row(e1 = "memory", e2 = of("any", memory)),

    # names of types
    as.character.DataType = row(x = of("printed", data_type)),
    as.character.PJRTElementType = row(x = of("printed", element_type)),
    format.DataType = row(x = of("printed", data_type)),
    format.PJRTElementType = row(x = of("printed", element_type)),
    print.DataType = row(x = of("printed", data_type)),
    print.PJRTElementType = row(x = of("printed", element_type)),
    `==.DataType` = row(e1 = of("printed", data_type), e2 = of("any", "f32")),
    `!=.DataType` = row(e1 = of("printed", data_type), e2 = of("any", "f32")),
    `==.PJRTElementType` = row(e1 = of("printed", element_type), e2 = of("any", "f32")),
    `!=.PJRTElementType` = row(e1 = of("printed", element_type), e2 = of("any", "f32")),

    # programs and executables
    executable_cost = row(executable = "executable"),
    executable_fingerprint = row(executable = "executable"),
    executable_inputs = row(executable = "executable"),
    executable_memory = row(executable = "executable"),
    executable_outputs = row(executable = "executable"),
    format.PJRTExecutablePromise = row(x = of("promise", compiled)),
    format.PJRTHloModuleSrc = row(x = of("printed", stages[[1L]])),
    format.PJRTHloModuleSrcs = row(x = of("printed", stages)),
    format.PJRTLoadedExecutable = row(x = "executable"),
    format.PJRTProgram = row(x = "program", n = "index"),
    inspect_hlo = row(program = "program", device = "device"),
    optimized_program = row(executable = "executable", format = of("choice", "text")),
    pjrt_compile = row(program = "program", compile_options = "compile_options", device = "device", devices = of("devices", NULL)),
    pjrt_compile_async = row(
      program = "program", compile_options = "compile_options", device = "device", devices = of("devices", NULL),
      after = await(made)
    ),
    pjrt_compile_options = row(
      num_replicas = "index", num_partitions = "index", device_assignment = of("index", NULL),
      use_spmd_partitioning = "flag_or_null", use_shardy_partitioner = "flag_or_null", compile_portable_executable = "flag",
      optimization_level = of("index", NULL), debug_options = "list"
    ),
    pjrt_deserialize = row(data = of("data", serialized), device = "device", compile_options = of("compile_options", NULL)),
    pjrt_execute = row(
      executable = "executable", of("buffer", x), of("buffer", x), execution_options = "execution_options", simplify = "flag",
      check = "flag"
    ),
    pjrt_execute_sharded = row(
      executable = of("executable", both), inputs = of("list", list(x, z)), execution_options = of("execution_options", NULL),
      simplify = "flag"
    ),
    pjrt_execution_options = row(non_donatable_input_indices = of("index", 0L), launch_id = of("index", 0L), device = "device"),
    pjrt_load_executable = row(path = "path", device = "device", compile_options = of("compile_options", NULL)),
    pjrt_program = row(src = of("string", text), path = of("path", NULL), format = of("choice", "mlir")),
    pjrt_save_executable = row(executable = "executable", path = of("path", saved)),
    pjrt_serialize = row(executable = "executable"),
    print.PJRTCompileOptions = row(x = "compile_options"),
    format.PJRTCompileOptions = row(x = "compile_options"),
    `$<-.PJRTCompileOptions` = row(x = "compile_options", name = of("string", "a"), value = "any", refuses = TRUE),
    `[<-.PJRTCompileOptions` = row(x = "compile_options", name = "index", value = "any", refuses = TRUE),
    `[[<-.PJRTCompileOptions` = row(x = "compile_options", name = "index", value = "any", refuses = TRUE),
    print.PJRTExecutablePromise = row(x = of("promise", compiled)),
    print.PJRTExecuteOptions = row(x = "execution_options"),
    print.PJRTHloModuleSrc = row(x = of("printed", stages[[1L]])),
    print.PJRTHloModuleSrcs = row(x = of("printed", stages)),
    print.PJRTLoadedExecutable = row(x = "executable"),
    print.PJRTProgram = row(x = "program", n = "index"),
    summary.PJRTLoadedExecutable = row(object = "executable"),
    print.summary.PJRTLoadedExecutable = row(x = of("printed", summary(add))),

    # model files
    pjrt_load_safetensors = row(path = of("path", model), device = "device", names = of("choice", "x")),
    pjrt_save_safetensors = row(
      tensors = of("list", list(x = x)), path = of("path", saved), metadata = of("string", NULL), max_shard_size = of("size", NULL)
    ),
    safetensors_info = row(path = of("path", model)),
    safetensors_open = row(path = of("path", model), device = "device", after = close(made)),
    `$.PJRTSafetensors` = row(x = of("opened", opened), name = "ignored"),
    `[.PJRTSafetensors` = row(x = "opened", i = of("tensor", 1)),
    `[[.PJRTSafetensors` = row(x = "opened", i = of("tensor", 1), exact = "any"),
    `$<-.PJRTSafetensors` = row(x = "opened", of("string", "a"), value = "any", refuses = TRUE),
    `[<-.PJRTSafetensors` = row(x = "opened", of("index", 1), value = "any", refuses = TRUE),
    `[[<-.PJRTSafetensors` = row(x = "opened", of("index", 1), value = "any", refuses = TRUE),
    `length<-.PJRTSafetensors` = row(x = "opened", value = "any", refuses = TRUE),
    `names<-.PJRTSafetensors` = row(x = "opened", value = "any", refuses = TRUE),
    as.list.PJRTSafetensors = row(x = "opened"),
    close.PJRTSafetensors = row(con = of("ended", safetensors_open(model))),
    format.PJRTSafetensors = row(x = "opened"),
    length.PJRTSafetensors = row(x = "opened"),
    names.PJRTSafetensors = row(x = "opened"),
    print.PJRTSafetensors = row(x = "opened"),

    # the cache, installation, the report
    format.PJRTCacheInfo = row(x = of("printed", pjrt_cache_info())),
    print.PJRTCacheInfo = row(x = of("printed", pjrt_cache_info())),
    pjrt_cache_clear = row(),
    pjrt_cache_info = row(),
    pjrt_cache_list = row(),
    pjrt_cache_prune = row(max_size = of("size", NULL), max_age = of("age", 1)),
    install_pjrt = row(
      platforms = of("name", "idle"), version = of("string", NULL), source = of("choice", "file"), path = of("path", library),
      force = "flag", cuda = "flag_or_null"
    ),
    plugins_downloaded = row(platforms = "name"),
    uninstall_pjrt = row(platforms = of("name", "idle"), version = of("string", NULL)),
    pjrt_sitrep = row(),
    format.PJRTSitrep = row(x = of("printed", pjrt_sitrep())),
    print.PJRTSitrep = row(x = of("printed", pjrt_sitrep()))
  )
}

# Uses of one bad value within an argument.
input_uses <- function() {
  list(
    `pjrt_buffer(shape = c(1, .))` = use(pjrt_buffer(1, shape = c(1, bad)), "shape"),
    `pjrt_client_create(options = cpu_device_count)` =
      use(plugin_client_create(plugin, "fresh", list(cpu_device_count = bad)), "index", after = close(made)),
    `pjrt_client_create(options = threads)` =
      use(plugin_client_create(plugin, "fresh", list(cpu_device_count = 1L, threads = bad)), "index", after = close(made)),
    `pjrt_compile(devices = list(.))` = use(pjrt_compile(program, devices = list(bad)), "device"),
    `pjrt_compile_options(debug_options = list(.))` = use(pjrt_compile_options(debug_options = list(xla_a = bad)), "string"),
    `pjrt_delete(list(.))` = use(pjrt_delete(list(bad)), "ended"),
    `pjrt_execute_sharded(list(x, .))` = use(pjrt_execute_sharded(both, list(x, bad)), "buffer"),
    `pjrt_save_safetensors(list(x = .))` = use(pjrt_save_safetensors(list(x = bad), saved), "buffer"),
    `pjrt_save_safetensors(metadata = list(a = .))` = use(pjrt_save_safetensors(list(x = x), saved, list(a = bad)), "string"),
    `pjrt_save_safetensors(names)` =
      use(pjrt_save_safetensors(structure(list(x), names = bad), saved), "string"),
    `pjrt_shard(list(.))` = use(pjrt_shard(c(1, 2), list(bad)), "device"),
    `pjrt_unshard(list(x, .))` = use(pjrt_unshard(list(x, bad)), "buffer"),
    `x[., 1]` = use(square[bad, 1], "subscript"),
    `x[[., 1]]` = use(square[[bad, 1]], "subscript"),
    `options(pjrt.cache)` = use(with_option("pjrt.cache", bad, pjrt_cache_info()), "flag_or_null"),
    `options(pjrt.cache_max_size)` = use(with_option("pjrt.cache_max_size", bad, pjrt_cache_info()), "size"),
    `options(pjrt.dispatch)` = use(with_option("pjrt.dispatch", bad, pjrt_compile(program)), "choice"),
    `options(pjrt.index_url)` = use(with_option("pjrt.index_url", bad, install_pjrt("idle", source = "index")), "choice"),
    `options(pjrt.manifest)` = use(with_option("pjrt.manifest", bad, pjrt_plugins()), "path"),
    `options(pjrt.print_max_rows)` = use(with_option("pjrt.print_max_rows", bad, print(x)), "index"),
    `options(pjrt.print_max_rows_slice)` = use(with_option("pjrt.print_max_rows_slice", bad, print(x)), "index"),
    `options(pjrt.print_max_width)` = use(with_option("pjrt.print_max_width", bad, print(x)), "index"),
    `options(pjrt.staging_max)` = use(with_option("pjrt.staging_max", bad, pjrt_memory_stats()), "size"),
    `options(pjrt.verbose)` = use(with_option("pjrt.verbose", bad, pjrt:::debug_message("a")), "flag_or_null")
  )
}

# The objects that all are of, and those that are of no use any more.
input_objects <- function() {
  o <- routine_objects()
  o$with_option <- function(name, value, code) {
    old <- options(structure(list(value), names = name))
    on.exit(options(old))
    code
  }
  local(envir = o, {
    saved <- file.path(folder, "saved")
    data_type <- structure("f32", class = "DataType")
    element_type <- elt_type(x)
    stages <- inspect_hlo(program)
    square <- pjrt_buffer(diag(2))
    donated <- pjrt_buffer(c(1, 2), "f64")
    pjrt_execute(compile(add_program("2xf64", donates)), donated, x)
    deleted <- pjrt_delete(pjrt_buffer(c(1, 2), "f64"))
    gone <- pjrt:::new_client(plugin, list(cpu_device_count = 1L))
    gone_device <- devices(gone)[[1L]]
    gone_memory <- memories(gone)[[1L]]
    gone_buffer <- pjrt_buffer(c(1, 2), "f64", device = gone_device)
    gone_add <- pjrt_compile(program, device = gone_device)
    gone_promise <- as_array_async(gone_buffer)
    close(gone)
    shut <- safetensors_open(model)
    close(shut)
  })
  o
}

# The bad values that any argument is given, by what they are.
plain_values <- function() {
  list(
    `NULL` = NULL, `NA` = NA, `NA_integer_` = NA_integer_, `NA_real_` = NA_real_, `NA_character_` = NA_character_,
    `NA_complex_` = NA_complex_, `list()` = list(), `list(1)` = list(1), `list(a = NULL)` = list(a = NULL),
    `a function` = function(x) x, `a primitive` = sum, `an environment` = new.env(), `a factor` = factor("a"),
    `a Date` = as.Date("2020-01-01"), `a time` = .POSIXct(0, "UTC"), `an S4 object` = methods::getClass("numeric"),
    `a formula` = y ~ x, `a call` = quote(f(x)), `a symbol` = quote(f), `an expression` = expression(1),
    `a pairlist` = pairlist(a = 1), `1i` = 1i, `raw()` = raw(), `as.raw(0:2)` = as.raw(0:2),
    `a data frame` = data.frame(a = 1), `a matrix` = matrix(1:4, 2), `integer64` = bit64::as.integer64(1),
    `logical()` = logical(), `integer()` = integer(), `double()` = double(), `character()` = character(),
    `TRUE` = TRUE, `c(TRUE, FALSE)` = c(TRUE, FALSE), `1L` = 1L, `0L` = 0L, `-1L` = -1L, `-1` = -1, `1.5` = 1.5,
    `1:2` = 1:2, `1:1000` = 1:1000, `c(1, NA)` = c(1, NA), `NaN` = NaN, `Inf` = Inf, `-Inf` = -Inf, `1e300` = 1e300,
    `-1e300` = -1e300, `2^31` = 2^31, `-2^31` = -2^31, `2^53` = 2^53, `1e18` = 1e18, `1e-300` = 1e-300,
    `""` = "", `"a"` = "a", `c("a", "b")` = c("a", "b"), `c("a", NA)` = c("a", NA), `c(n = "a")` = c(n = "a"),
    `a long string` = strrep("a", 1e5), `invalid UTF-8` = "\xff\xfe", `latin1` = `Encoding<-`("\xe9", "latin1"),
    `bytes` = `Encoding<-`("\xe9", "bytes"), `a line end` = "a\nb", `"../a"` = "../a", `"cpu:9"` = "cpu:9",
    `"%s"` = "%s", `a null pointer` = null_pointer()
  )
}

null_pointer <- function() unserialize(serialize(methods::new("externalptr"), NULL))

# Our own objects: one of each class, and those that are of no use any more.
object_values <- function(o) {
  with(o, list(
    `a plugin` = plugin, `a client` = client, `a device` = here, `a memory` = memory, `a buffer` = x, `a program` = program,
    `an executable` = add, `execution options` = options, `compile options` = pjrt_compile_options(),
    `an array promise` = array, `a compiling promise` = compiled, `a model file` = opened,
    `a donated buffer` = donated, `a deleted buffer` = deleted, `a closed client` = gone, `a closed device` = gone_device,
    `a closed memory` = gone_memory, `a closed buffer` = gone_buffer, `a closed executable` = gone_add,
    `a closed promise` = gone_promise, `a closed model file` = shut
  ))
}

# What has a class of ours and is none of its objects.
impostors <- function(class, o) {
  pointer <- if (class == "PJRTProgram") pjrt_scalar(1) else pjrt_program(o$text)
  loaded <- Find(function(x) inherits(x, class), object_values(o))
  made <- list(
    `a list` = list(), `a number` = 1, `a string` = "a", `a function` = function() NULL, `an environment` = new.env(),
    `a null pointer` = null_pointer(), `a foreign pointer` = pointer
  )
  made <- lapply(made, `attr<-`, "class", class)
  if (!is.null(loaded)) made[["one from a file"]] <- unserialize(serialize(loaded, NULL))
  structure(made, names = sprintf("%s as %s", names(made), class))
}

# Paths at which there is nothing that could be read or written.
path_values <- function(folder) {
  at <- function(name) file.path(folder, name)
  dir.create(at("folder"))
  file.symlink(at("nothing"), at("dangling"))
  file.symlink(at("loop"), at("loop"))
  file.create(at("empty"))
  writeBin(as.raw(0:255), at("bytes"))
  list(
    `a folder` = at("folder"), `a missing file` = at("missing"), `a missing folder` = at("missing/a"),
    `a file as folder` = at("empty/a"), `a dangling link` = at("dangling"), `a link to itself` = at("loop"),
    `an empty file` = at("empty"), `a file of bytes` = at("bytes"), `a long name` = at(strrep("a", 300)),
    `a long path` = paste0(folder, strrep("/a", 3000)), `/proc/self/mem` = "/proc/self/mem", `/dev/full` = "/dev/full",
    `/dev/null` = "/dev/null", `a URL` = "http://127.0.0.1:9/a", `~nobody` = "~nobody/a"
  )
}

# What one call comes to: "accepted", or the class of its error, whether that is ours, and its message; warnings, too.
outcome <- function(call, env) {
  warned <- character()
  told <- withCallingHandlers(
    tryCatch(
      {
        assign("made", eval(call, env), env)
        list(class = "accepted", message = "")
      },
      error = function(e) list(class = if (inherits(e, "pjrt_error")) class(e)[[1L]] else "foreign", message = conditionMessage(e))
    ),
    warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      invokeRestart("muffleWarning")
    },
    pjrt_message = function(m) invokeRestart("muffleMessage")
  )
  c(told, warned = paste(warned, collapse = "; "))
}

# The generics of the registered methods, by the names of the methods; delayed ones as well.
registered_methods <- function() {
  parsed <- parseNamespaceFile("pjrt", dirname(system.file(package = "pjrt")))$S3methods
  generics <- sub("^.*::", "", parsed[, 1L])
  methods <- data.frame(generic = generics, class = parsed[, 2L], name = paste(generics, parsed[, 2L], sep = "."))
  methods[!duplicated(methods$name), ]
}

# Whether a class is one of this package's.
is_ours <- function(class) grepl("PJRT|^DataType$", class)

# All calls that are to be tried: for each function and argument, with each bad value.
input_cases <- function(o) {
  methods <- registered_methods()
  kinds <- input_kinds()
  plain <- plain_values()
  objects <- object_values(o)
  paths <- path_values(o$folder)
  fakes <- list()
  fakes_of <- function(class) {
    if (is.null(fakes[[class]])) fakes[[class]] <<- impostors(class, o)
    fakes[[class]]
  }
  values_for <- function(kind, class = character()) {
    found <- c(plain, objects[setdiff(names(objects), kind$spared)], if (kind$paths) paths)
    for (one in unique(c("PJRTBuffer", kind$classes, class))) found <- c(found, fakes_of(one))
    if (length(class) > 0L) found <- found[vapply(found, inherits, NA, class)]
    found
  }
  cases <- list()
  rows <- input_rows()
  for (name in names(rows)) {
    arguments <- rows[[name]]$arguments
    labels <- names(arguments) %||% rep("", length(arguments))
    valid <- lapply(arguments, function(x) if ("valid" %in% names(x)) x$valid else kinds[[x$kind]]$valid)
    method <- methods[methods$name == name, ]
    f <- if (nrow(method) == 0L) {
      as.name(name)
    } else if (exists(method$generic, o)) {
      as.name(method$generic)
    } else {
      getFromNamespace(name, "pjrt")
    }
    cases[[length(cases) + 1L]] <- list(
      name = name, argument = "", call = as.call(c(f, valid)), values = list(valid = NULL), row = rows[[name]]
    )
    for (i in seq_along(arguments)) {
      kind <- kinds[[arguments[[i]]$kind]]
      if (is.null(kind)) next
      call <- as.call(c(f, valid))
      call[[i + 1L]] <- quote(bad)
      cases[[length(cases) + 1L]] <- list(
        name = name, argument = if (nzchar(labels[[i]])) labels[[i]] else paste0("..", i), call = call, kind = kind,
        values = values_for(kind, if (i == 1L && isTRUE(is_ours(method$class))) method$class else character()), row = rows[[name]]
      )
    }
  }
  uses <- input_uses()
  for (name in names(uses)) {
    kind <- kinds[[uses[[name]]$kind]]
    cases[[length(cases) + 1L]] <- list(
      name = name, argument = "", call = uses[[name]]$expr, kind = kind, values = values_for(kind),
      row = list(after = uses[[name]]$after, refuses = FALSE)
    )
  }
  cases
}
