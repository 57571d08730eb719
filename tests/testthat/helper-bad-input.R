# Bad input: what every exported function and every method of our classes takes, and the values that each argument is given
# in turn while all others are right.

# An argument: its kind, a right value where that is not the kind's own, and the labels of bad values that are right here as
# well, or not, if they start with "!".
of <- function(kind, expr, ...) list(kind = kind, valid = substitute(expr), labels = c(...))

# The arguments of a function. `after` is done with what it gives, called `made`; `refuses` says that it only ever fails.
row <- function(..., after = NULL, refuses = FALSE) {
  arguments <- lapply(list(...), function(x) if (is.character(x)) list(kind = x) else x)
  list(arguments = arguments, after = substitute(after), refuses = refuses)
}

# A use in which the bad value, called `bad`, is not an argument itself, but in one or beside them.
use <- function(expr, kind, after = NULL) {
  c(list(expr = substitute(expr), after = substitute(after)), if (is.character(kind)) list(kind = kind) else kind)
}

# A kind of argument: a right value; which of the bad values are right for it after all; the classes of ours that it is about,
# of which it is given impostors; and whether it is given paths.
kind <- function(valid, accepts = nothing, classes = character(), paths = FALSE, spared = character()) {
  list(valid = substitute(valid), accepts = accepts, classes = classes, paths = paths, spared = spared)
}

# What kinds accept. A value is known by its label where its class would have a say in what is asked of it.
nothing <- function(v, label) FALSE
anything <- function(v, label) TRUE
only <- function(...) function(v, label) label %in% c(...)
plainly <- function(test) function(v, label) !is.object(v) && isTRUE(test(v))
or_null <- function(accepts) function(v, label) is.null(v) || accepts(v, label)

is_flag <- function(v) is.logical(v) && length(v) == 1L && !is.na(v)
is_text <- function(v) is.character(v) && length(v) == 1L && !is.na(v) && validEnc(v) && Encoding(v) != "bytes"

# Labels that are right together in several places.
whole <- c("1L", "2^31", "2^53", "1e18", "1e300", "Inf")
below_zero <- c("-1L", "-1", "-2^31", "-1e300", "-Inf")
vectors <- c("raw()", "logical()", "integer()", "double()", "character()")
file_names <- c(
  "\"a\"", "c(n = \"a\")", "latin1", "a line end", "\"../a\"", "\"cpu:9\"", "\"%s\"", "a missing file", "a dangling link",
  "a link to itself", "an empty file", "a file of bytes"
)
sizes <- c("NULL", "integer64", "1L", "0L", "1.5", "2^31", "2^53", "1e-300")
ages <- c("integer64", "1L", "0L", "1.5", "2^31", "2^53", "1e18", "1e300", "Inf", "1e-300")
single_names <- c("\"a\"", "c(n = \"a\")")
platforms <- c(single_names, "a line end", "\"cpu:9\"", "\"%s\"")
subscripts <- c(
  "NULL", "a factor", "a time", "integer64", "logical()", "integer()", "double()", "TRUE", "c(TRUE, FALSE)", "1L", "0L", "1.5",
  "1:2", "1e-300", below_zero
)
kept <- c(
  "NULL", "integer()", "double()", "character()", "1L", "1:2", "1:1000", "a matrix", single_names, "c(\"a\", \"b\")", "a long string",
  "latin1", "a line end", "\"../a\"", "\"cpu:9\"", "\"%s\""
)
tensors <- c("integer()", "double()", "character()", "1L", "1.5", "1:2")
closed_devices <- c("a closed device", "a closed client")
used_buffers <- c("a donated buffer", "a deleted buffer", "a closed buffer")

input_kinds <- function() {
  with_operators <- c(
    "a factor", "a Date", "a time", "a data frame", "integer64", "a device", "a memory", "a closed device", "a closed memory"
  )
  list(
    ignored = NULL,
    any = kind(x, anything),
    # what R itself does not take for two objects with different methods
    compared = kind(x, anything, spared = with_operators),
    compared_dtype = kind(
      "f32", function(v, label) (is.atomic(v) || is.list(v)) && !inherits(v, "PJRTBuffer"), spared = with_operators
    ),
    compared_array = kind(x, function(v, label) !inherits(v, "PJRTBuffer") || label == "a buffer"),
    none = kind(x),
    flag = kind(FALSE, plainly(is_flag)),
    flag_or_null = kind(NULL, or_null(plainly(is_flag))),
    # our objects: those that must be of use, and those of which it is enough that they were once
    buffer = kind(x, only("a buffer"), "PJRTBuffer"),
    known_buffer = kind(x, only("a buffer", used_buffers), "PJRTBuffer"),
    client = kind(client, only("a client", "a closed client", "NULL"), "PJRTClient"),
    device = kind(here, only("NULL", "a device", "a client"), c("PJRTDevice", "PJRTClient")),
    known_device = kind(here, only("NULL", "a device", "a client", closed_devices), c("PJRTDevice", "PJRTClient")),
    one_device = kind(here, only("a device", "a closed device"), "PJRTDevice"),
    devices = kind(devices(client)[1L], classes = "PJRTDevice"),
    memory = kind(memory, only("a memory", "a closed memory"), "PJRTMemory"),
    plugin = kind(plugin, only("a plugin"), "PJRTPlugin"),
    executable = kind(add, only("an executable"), "PJRTLoadedExecutable"),
    known_executable = kind(add, only("an executable", "a closed executable"), "PJRTLoadedExecutable"),
    program = kind(program, only("a program"), "PJRTProgram"),
    execution_options = kind(options, only("NULL", "execution options"), "PJRTExecutionOptions"),
    compile_options = kind(
      pjrt_compile_options(), only("compile options", "one from a file as PJRTCompileOptions"), "PJRTCompileOptions"
    ),
    promise = kind(array, only("an array promise"), c("PJRTArrayPromise", "PJRTExecutablePromise")),
    compiling = kind(
      compiled, only("a compiling promise", "one from a file as PJRTExecutablePromise"),
      c("PJRTArrayPromise", "PJRTExecutablePromise")
    ),
    model = kind(opened, only("a model file"), "PJRTSafetensors"),
    # those that the call puts an end to
    ended = kind(
      NULL, only("a deleted buffer", "a donated buffer", "a closed buffer"), c("PJRTBuffer", "PJRTClient"),
      spared = c("a buffer", "a client", "a model file")
    ),
    # R objects with a class of ours: what is in it is looked at where the method could not go on
    printed = kind(NULL),
    dtype_name = kind(NULL, function(v, label) grepl("^a (list|number|string) as ", label)),
    # numbers, texts and data
    data = kind(c(1, 2), plainly(function(v) is.numeric(v) && length(v) %in% 1:2)),
    number = kind(1, plainly(function(v) is.numeric(v) && length(v) == 1L)),
    dtype = kind("f32", only("NULL")),
    # a buffer of 2^31 elements takes its time
    shape = kind(2L, only("NULL", "1:2"), spared = "2^31"),
    index = kind(1),
    string = kind("a", plainly(is_text)),
    name = kind("cpu"),
    path = kind(file, paths = TRUE),
    list = kind(list()),
    choice = kind("a"),
    # R evaluates what as.vector() is given once more
    mode = kind("any", spared = c("a call", "a symbol")),
    # what would be installed, which takes a second each time
    installed = kind("idle", spared = c("NULL", platforms)),
    size = kind(NULL, only(sizes)),
    subscript = kind(1)
  )
}

# For every exported function, and every method of one of our classes, the kinds of its arguments.
input_rows <- function() {
  list(
    # buffers
    as_array = row(x = of("buffer", x, "an array promise")),
    as_array.PJRTBuffer = row(x = "buffer", check = "flag", int64 = of("choice", "double")),
    as_array.PJRTArrayPromise = row(x = "promise"),
    as_array_async = row(x = "buffer"),
    as_array_async.PJRTBuffer = row(x = "buffer", int64 = of("choice", "double")),
    as_raw = row(x = "buffer"),
    as_raw.PJRTBuffer = row(x = "buffer", row_major = "flag"),
    await = row(x = of("buffer", x, "a compiling promise", "one from a file as PJRTExecutablePromise")),
    await.PJRTBuffer = row(x = "buffer"),
    await.PJRTExecutablePromise = row(x = "compiling"),
    copy_buffer = row(buffer = "buffer", device = of("device", here, "a memory")),
    device = row(x = of("known_buffer", x, "an executable", "a closed executable")),
    device.PJRTBuffer = row(x = "known_buffer"),
    device.PJRTLoadedExecutable = row(x = "known_executable"),
    dtype = row(x = "known_buffer"),
    dtype.PJRTBuffer = row(x = "known_buffer"),
    elt_type = row(x = "known_buffer"),
    format_buffer = row(buffer = "buffer"),
    is_deleted = row(x = "known_buffer"),
    is_ready = row(x = of("buffer", x, "an array promise", "a compiling promise", "one from a file as PJRTExecutablePromise")),
    is_ready.PJRTBuffer = row(x = "buffer"),
    is_ready.PJRTArrayPromise = row(x = "promise"),
    is_ready.PJRTExecutablePromise = row(x = "compiling"),
    memory_space = row(x = "buffer"),
    pjrt_buffer = row(data = "data", dtype = "dtype", device = "device", shape = "shape", check = "flag"),
    pjrt_buffer.PJRTBuffer = row(
      data = "known_buffer", dtype = of("dtype", "f64"), device = "known_device", shape = of("shape", 2L, "!1:2"),
      check = "flag"
    ),
    pjrt_buffer.raw = row(
      data = of("none", as.raw(1:4)), dtype = of("dtype", "f16", "!NULL"), device = "device",
      shape = of("shape", 2L, "!NULL"), row_major = "flag"
    ),
    pjrt_delete = row(buffer = of("ended", pjrt_scalar(1), "list()")),
    pjrt_empty = row(
      dtype = of("dtype", "f32", "!NULL"), device = "device",
      shape = of("shape", 2L, "!NULL", "integer()", "double()", "0L", "1L", "a matrix")
    ),
    pjrt_scalar = row(data = "number", dtype = "dtype", device = "device", check = "flag"),
    pjrt_scalar.PJRTBuffer = row(
      data = of("none", pjrt_scalar(1)), dtype = "dtype", device = "known_device", check = "flag"
    ),
    pjrt_scalar.raw = row(data = of("number", as.raw(1)), dtype = of("dtype", "ui8", "!NULL"), device = "device"),
    pjrt_shard = row(
      x = of("data", c(1, 2), "integer()", "double()", "1:1000", "a matrix"),
      devices = of("devices", here, "a device", "an executable"), dim = of("index", 1, "NULL", "1L"), dtype = "dtype",
      input = of("index", NULL, "NULL"), tensor = of("index", NULL, "NULL")
    ),
    pjrt_unshard = row(
      buffers = of("list", list(x, x)), dim = of("index", 1, "NULL", "1L"),
      executable = of("executable", NULL, "NULL", "!an executable"), output = of("index", NULL, "NULL")
    ),
    shape = row(x = "known_buffer"),
    shape.PJRTBuffer = row(x = "known_buffer"),
    value = row(x = of("promise", array, "a compiling promise", "one from a file as PJRTExecutablePromise")),
    value.PJRTArrayPromise = row(x = "promise"),
    value.PJRTExecutablePromise = row(x = "compiling"),

    # buffers as arrays
    `$.PJRTBuffer` = row(x = "buffer", name = of("ignored", "x"), refuses = TRUE),
    `$<-.PJRTBuffer` = row(x = "buffer", of("string", "a"), value = "any", refuses = TRUE),
    `[.PJRTBuffer` = row(x = "buffer", drop = "flag", of("subscript", 1, subscripts)),
    `[[.PJRTBuffer` = row(x = "buffer", of("subscript", 1, "a factor", "integer64", "1L", "1.5"), exact = "any"),
    `[<-.PJRTBuffer` = row(x = "buffer", of("index", 1), value = "any", refuses = TRUE),
    `[[<-.PJRTBuffer` = row(x = "buffer", of("index", 1), value = "any", refuses = TRUE),
    `dim<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    `dimnames<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    `length<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    `names<-.PJRTBuffer` = row(x = "buffer", value = "any", refuses = TRUE),
    all.equal.PJRTBuffer = row(target = "buffer", current = "compared_array"),
    anyNA.PJRTBuffer = row(x = "buffer", recursive = "any"),
    as.array.PJRTBuffer = row(x = "buffer"),
    as.complex.PJRTBuffer = row(x = "buffer"),
    as.double.PJRTBuffer = row(x = "buffer"),
    as.integer.PJRTBuffer = row(x = "buffer"),
    as.logical.PJRTBuffer = row(x = "buffer"),
    as.matrix.PJRTBuffer = row(x = "buffer"),
    as.vector.PJRTBuffer = row(x = "buffer", mode = of("mode", "any")),
    compare_proxy.PJRTBuffer = row(x = "buffer", path = "ignored"),
    compare_proxy.PJRTArrayPromise = row(x = "promise", path = "ignored"),
    dim.PJRTBuffer = row(x = "known_buffer"),
    format.PJRTBuffer = row(x = "any"),
    is.finite.PJRTBuffer = row(x = "buffer"),
    is.infinite.PJRTBuffer = row(x = "buffer"),
    is.na.PJRTBuffer = row(x = "buffer"),
    is.nan.PJRTBuffer = row(x = "buffer"),
    is.numeric.PJRTBuffer = row(x = "known_buffer"),
    length.PJRTBuffer = row(x = "known_buffer"),
    print.PJRTBuffer = row(
      x = "buffer", max_rows = of("index", 5, whole, "-1L", "-1"), header = "flag",
      footer = of("string", "a", "NULL", "bytes", "invalid UTF-8"),
      max_rows_slice = of("index", 5, whole, "-1L", "-1"), max_width = of("index", 5, setdiff(whole, "1L"), below_zero)
    ),
    safe_tensor_buffer.PJRTBuffer = row(x = "buffer"),
    safe_tensor_meta.PJRTBuffer = row(x = "known_buffer"),
    str.PJRTBuffer = row(object = "any"),
    summary.PJRTBuffer = row(object = "buffer"),
    print.summary.PJRTBuffer = row(x = of("printed", summary(x))),
    print.PJRTArrayPromise = row(x = of("promise", array, "a closed promise", "one from a file as PJRTArrayPromise")),

    # plugins, clients, devices, memory spaces
    as.character.PJRTClient = row(x = "client"),
    as.character.PJRTDevice = row(x = "one_device"),
    as.character.PJRTMemory = row(x = "memory"),
    as_pjrt_client = row(x = "client"),
    as_pjrt_device = row(x = "known_device"),
    as_pjrt_plugin = row(x = "plugin"),
    client_info = row(x = "client"),
    close.PJRTClient = row(con = of("ended", pjrt:::new_client(plugin, list(cpu_device_count = 1L)), "a closed client")),
    default_memory_space = row(device = "known_device"),
    device_info = row(device = "known_device"),
    device_memory_stats = row(device = "device"),
    devices = row(x = of("client", client, "an executable", "a closed executable")),
    devices.PJRTClient = row(x = "client", addressable = "flag"),
    devices.PJRTLoadedExecutable = row(x = "known_executable"),
    format.PJRTClient = row(x = "client"),
    format.PJRTDevice = row(x = "one_device"),
    format.PJRTInfo = row(x = of("printed", device_info(here), "a list as PJRTInfo")),
    format.PJRTMemory = row(x = "memory"),
    memory_spaces = row(x = of("client", client, "a device", "a closed device")),
    memory_space_info = row(memory = "memory"),
    pjrt_api_version = row(plugin = "plugin"),
    pjrt_client = row(platform = of("name", "cpu", "NULL")),
    pjrt_device = row(device = "one_device"),
    pjrt_memory_stats = row(),
    pjrt_plugin = row(platform = "name"),
    pjrt_plugins = row(),
    pjrt_register_plugin = row(
      name = of("name", "idle2", single_names), path = of("path", library),
      options = of("list", list(), "list()", "a pairlist", "a data frame"), after = forget_registered()
    ),
    platform = row(x = of("client", client, "!NULL", "a device", "a closed device", "a buffer", used_buffers)),
    platform.PJRTBuffer = row(x = "known_buffer"),
    platform.PJRTClient = row(x = "client"),
    platform.PJRTDevice = row(x = "one_device"),
    platform_version = row(x = "client"),
    plugin_attributes = row(plugin = "plugin"),
    plugin_client_create = row(
      plugin = "plugin", platform = of("name", "fresh", platforms), options = of("list", list(), "NULL", "list()"),
      after = close(made)
    ),
    plugin_extensions = row(plugin = "plugin"),
    plugin_stablehlo_versions = row(plugin = "plugin"),
    print.PJRTClient = row(x = "client"),
    print.PJRTDevice = row(x = "one_device"),
    print.PJRTInfo = row(x = of("printed", device_info(here), "a list as PJRTInfo")),
    print.PJRTMemory = row(x = "memory"),
    print.PJRTPlugin = row(x = of("any", plugin)),
    topology = row(x = of("client", client, "!a closed client")),
    `==.PJRTDevice` = row(e1 = "one_device", e2 = of("compared", there)),
    `!=.PJRTDevice` = row(e1 = "one_device", e2 = of("compared", there)),
    `==.PJRTMemory` = row(e1 = of("any", memory), e2 = of("compared", memory)),
    `!=.PJRTMemory` = row(e1 = of("any", memory), e2 = of("compared", memory)),

    # names of types
    as.character.PJRTDataType = row(x = of("dtype_name", data_type)),
    as.character.PJRTElementType = row(x = of("dtype_name", element_type)),
    format.PJRTDataType = row(x = of("dtype_name", data_type)),
    format.PJRTElementType = row(x = of("dtype_name", element_type)),
    print.PJRTDataType = row(x = of("dtype_name", data_type)),
    print.PJRTElementType = row(x = of("dtype_name", element_type)),
    `==.PJRTDataType` = row(e1 = of("dtype_name", data_type), e2 = "compared_dtype"),
    `!=.PJRTDataType` = row(e1 = of("dtype_name", data_type), e2 = "compared_dtype"),
    `==.PJRTElementType` = row(e1 = of("dtype_name", element_type), e2 = "compared_dtype"),
    `!=.PJRTElementType` = row(e1 = of("dtype_name", element_type), e2 = "compared_dtype"),

    # programs and executables
    executable_cost = row(executable = "executable"),
    executable_fingerprint = row(executable = "executable"),
    executable_inputs = row(executable = "known_executable"),
    executable_memory_stats = row(executable = "executable"),
    executable_outputs = row(executable = "known_executable"),
    format.PJRTExecutablePromise = row(x = "compiling"),
    format.PJRTHloModuleSrc = row(x = of("printed", stages[[1L]], "a string as PJRTHloModuleSrc")),
    format.PJRTHloModuleSrcs = row(x = of("printed", stages)),
    format.PJRTLoadedExecutable = row(x = of("any", add)),
    format.PJRTProgram = row(x = "program", n = of("index", 3, whole, "0L")),
    inspect_hlo = row(program = "program", device = "device"),
    executable_hlo = row(executable = "executable", format = of("choice", "text")),
    pjrt_compile = row(
      program = "program", compile_options = "compile_options", device = "device", devices = of("devices", NULL, "NULL")
    ),
    pjrt_compile_async = row(
      program = "program", compile_options = "compile_options", device = "device", devices = of("devices", NULL, "NULL"),
      after = await(made)
    ),
    pjrt_compile_options = row(
      num_replicas = of("index", 1L, "NULL", "1L"), num_partitions = of("index", 1L, "NULL", "1L"),
      device_assignment = of("index", NULL, "NULL", "1L", "0L", "-1L", "-1", "-2^31"),
      use_spmd_partitioning = "flag_or_null", use_shardy_partitioner = "flag_or_null", compile_portable_executable = "flag",
      optimization_level = of("index", NULL, "NULL", "1L", "0L"), debug_options = of("list", list(), "NULL", "list()", vectors),
      allow_spmd_sharding_propagation_to_parameters = of("flag_or_null", NULL, "c(TRUE, FALSE)"),
      allow_spmd_sharding_propagation_to_output = of("flag_or_null", NULL, "c(TRUE, FALSE)")
    ),
    pjrt_deserialize = row(
      data = of("none", serialized), device = "device", compile_options = of("compile_options", NULL, "NULL")
    ),
    pjrt_execute = row(
      executable = "executable", of("buffer", x), of("buffer", x), execution_options = "execution_options", simplify = "flag",
      check = "flag"
    ),
    pjrt_execute_sharded = row(
      executable = of("executable", both, "!an executable"), inputs = of("list", list(x, z)),
      execution_options = of("execution_options", NULL), simplify = "flag"
    ),
    pjrt_execution_options = row(
      non_donatable_input_indices = of("index", 0L, "integer()", "0L", "1L", "1:2", "1:1000", "a matrix"),
      launch_id = of("index", 0L, "0L", "1L", "-1L"), device = "known_device",
      keep_inputs = of("index", NULL, kept)
    ),
    pjrt_load_executable = row(path = "path", device = "device", compile_options = of("compile_options", NULL, "NULL")),
    pjrt_program = row(
      src = of("string", text, "as.raw(0:2)", "character()", "c(\"a\", \"b\")", "\"\"", "bytes", "invalid UTF-8"),
      path = of("path", NULL, "NULL"), format = of("choice", "mlir")
    ),
    pjrt_save_executable = row(executable = "executable", path = of("path", saved, file_names), after = renew_paths()),
    pjrt_serialize = row(executable = "executable"),
    print.PJRTCompileOptions = row(x = "compile_options"),
    format.PJRTCompileOptions = row(x = "compile_options"),
    `$<-.PJRTCompileOptions` = row(x = "compile_options", name = of("string", "a"), value = "any", refuses = TRUE),
    `[<-.PJRTCompileOptions` = row(x = "compile_options", name = "index", value = "any", refuses = TRUE),
    `[[<-.PJRTCompileOptions` = row(x = "compile_options", name = "index", value = "any", refuses = TRUE),
    print.PJRTExecutablePromise = row(x = "compiling"),
    print.PJRTExecutionOptions = row(x = "execution_options"),
    print.PJRTHloModuleSrc = row(x = of("printed", stages[[1L]], "a string as PJRTHloModuleSrc")),
    print.PJRTHloModuleSrcs = row(x = of("printed", stages)),
    print.PJRTLoadedExecutable = row(x = of("any", add)),
    print.PJRTProgram = row(x = "program", n = of("index", 3, whole, "0L")),
    summary.PJRTLoadedExecutable = row(object = "executable"),
    print.summary.PJRTLoadedExecutable = row(x = of("printed", summary(add))),

    # model files
    safetensors_load = row(
      path = of("path", model), device = "device", names = of("choice", "x", "NULL", tensors)
    ),
    safetensors_save = row(
      tensors = of("list", list(x = x), "list()"), path = of("path", saved, file_names),
      metadata = of("list", NULL, "NULL", "list()", "character()", "c(n = \"a\")"), max_shard_size = of("size", NULL, "!0L", "!1e-300"),
      after = renew_paths()
    ),
    safetensors_info = row(path = of("path", model)),
    safetensors_open = row(path = of("path", model), device = "known_device", after = close(made)),
    `$.PJRTSafetensors` = row(x = "model", name = of("ignored", "x")),
    `[.PJRTSafetensors` = row(x = "model", i = of("subscript", 1, tensors)),
    `[[.PJRTSafetensors` = row(x = "model", i = of("subscript", 1, "1L", "1.5"), exact = "any"),
    `$<-.PJRTSafetensors` = row(x = "model", of("string", "a"), value = "any", refuses = TRUE),
    `[<-.PJRTSafetensors` = row(x = "model", of("index", 1), value = "any", refuses = TRUE),
    `[[<-.PJRTSafetensors` = row(x = "model", of("index", 1), value = "any", refuses = TRUE),
    `length<-.PJRTSafetensors` = row(x = "model", value = "any", refuses = TRUE),
    `names<-.PJRTSafetensors` = row(x = "model", value = "any", refuses = TRUE),
    as.list.PJRTSafetensors = row(x = "model"),
    close.PJRTSafetensors = row(con = of("ended", safetensors_open(model), "a closed model file")),
    format.PJRTSafetensors = row(x = of("any", opened)),
    length.PJRTSafetensors = row(x = "model"),
    names.PJRTSafetensors = row(x = "model"),
    print.PJRTSafetensors = row(x = of("any", opened)),

    # the cache, installation, the report
    format.PJRTCacheInfo = row(x = of("printed", pjrt_cache_info())),
    print.PJRTCacheInfo = row(x = of("printed", pjrt_cache_info())),
    pjrt_cache_clear = row(),
    pjrt_cache_info = row(),
    pjrt_cache_list = row(),
    pjrt_cache_prune = row(max_size = of("size", NULL), max_age = of("index", 1, ages)),
    install_pjrt = row(
      platforms = "installed", version = of("choice", NULL, "NULL"), source = of("choice", "file"), path = of("path", library),
      force = "flag", cuda = of("flag_or_null", NULL, "!TRUE"), after = uninstall_pjrt(made)
    ),
    plugins_downloaded = row(
      platforms = of("name", "cpu", "NULL", "character()", "\"a\"", "c(\"a\", \"b\")", "c(n = \"a\")", "a line end", "\"cpu:9\"", "\"%s\"")
    ),
    uninstall_pjrt = row(
      platforms = of("name", "idle", "NULL", "character()", "\"a\"", "c(\"a\", \"b\")", "c(n = \"a\")", "a line end", "\"cpu:9\"", "\"%s\""),
      version = of("string", NULL, "NULL", "!\"\"", "!latin1")
    ),
    pjrt_sitrep = row(),
    format.PJRTSitrep = row(x = of("printed", pjrt_sitrep())),
    print.PJRTSitrep = row(x = of("printed", pjrt_sitrep()))
  )
}

# Uses of a bad value within an argument, or beside the arguments.
input_uses <- function() {
  list(
    `plugin_client_create(options = list(cpu_device_count = .))` = use(
      plugin_client_create(plugin, "fresh", list(cpu_device_count = bad)), of("index", NULL, "1L", "integer64"), after = close(made)
    ),
    `plugin_client_create(options = list(threads = .))` = use(
      plugin_client_create(plugin, "fresh", list(threads = bad)), of("index", NULL, "1L", "integer64"), after = close(made)
    ),
    `pjrt_client("cpu", cpu_device_count = .)` = use(pjrt_client("cpu", cpu_device_count = bad), "none"),
    `pjrt_compile(devices = list(.))` = use(pjrt_compile(program, devices = list(bad)), of("devices", NULL, "a device")),
    `pjrt_compile_options(debug_options = list(xla_a = .))` = use(
      pjrt_compile_options(debug_options = list(xla_a = bad)), of(
        "string", NULL, "\"\"", "TRUE", "0L", "1.5", "1e-300", "a string as PJRTBuffer",
        setdiff(c(whole, below_zero), c("Inf", "-Inf"))
      )
    ),
    `pjrt_delete(list(.))` = use(pjrt_delete(list(bad)), of("ended", NULL, "list()")),
    `pjrt_execute_sharded(inputs = list(x, .))` = use(pjrt_execute_sharded(both, list(x, bad)), of("buffer", NULL, "!a buffer")),
    `safetensors_save(list(x = .))` = use(safetensors_save(list(x = bad), saved), "buffer"),
    `safetensors_save(metadata = list(a = .))` = use(
      safetensors_save(list(x = x), saved, list(a = bad)), of("string", NULL, "\"\"")
    ),
    `pjrt_shard(devices = list(.))` = use(pjrt_shard(c(1, 2), list(bad)), of("devices", NULL, "a device")),
    `pjrt_shard(input = .)` = use(pjrt_shard(x, add, input = bad), of("index", 1, "1L")),
    `pjrt_shard(tensor = .)` = use(pjrt_shard(opened, add, input = 1, tensor = bad), of("index", "x", "1L", "1.5")),
    `pjrt_unshard(output = .)` = use(pjrt_unshard(list(x), executable = add, output = bad), of("index", 1, "NULL", "1L")),
    `pjrt_unshard(list(x, .))` = use(pjrt_unshard(list(x, bad)), "buffer"),
    `x[., 1]` = use(square[bad, 1], of("subscript", NULL, subscripts)),
    `x[[., 1]]` = use(square[[bad, 1]], of("subscript", NULL, "a factor", "integer64", "1L", "1.5")),
    `options(pjrt.cache = .)` = use(with_option("pjrt.cache", bad, pjrt_cache_info()), "flag_or_null"),
    `options(pjrt.cache_max_size = .)` = use(with_option("pjrt.cache_max_size", bad, pjrt_cache_info()), "size"),
    `options(pjrt.dispatch = .)` = use(with_option("pjrt.dispatch", bad, pjrt_compile(program)), of("choice", NULL, "NULL")),
    `options(pjrt.index_url = .)` = use(with_option("pjrt.index_url", bad, install_pjrt("idle", source = "index")), "choice"),
    `options(pjrt.manifest = .)` = use(with_option("pjrt.manifest", bad, install_pjrt("idle", source = "release")), "path"),
    `options(pjrt.print_max_rows = .)` = use(
      with_option("pjrt.print_max_rows", bad, print(x)), of("index", NULL, "NULL", whole, "-1L", "-1")
    ),
    `options(pjrt.print_max_rows_slice = .)` = use(
      with_option("pjrt.print_max_rows_slice", bad, print(x)), of("index", NULL, "NULL", whole, "-1L", "-1")
    ),
    `options(pjrt.print_max_width = .)` = use(
      with_option("pjrt.print_max_width", bad, print(x)), of("index", NULL, "NULL", setdiff(whole, "1L"), below_zero)
    ),
    `options(pjrt.staging_max = .)` = use(
      with_option("pjrt.staging_max", bad, pjrt_memory_stats()), of("index", NULL, "NULL", "0L", "1.5", "1e-300", whole)
    ),
    `options(pjrt.verbose = .)` = use(with_option("pjrt.verbose", bad, pjrt:::debug_message("a")), "flag_or_null")
  )
}
