# Slow: starts many sessions.

# The interface that other packages rely on: arguments and their defaults, internal names, and the session's state.

test_that("functions have the arguments that callers rely on", {
  expected <- list(
    pjrt_plugin = "platform", as_pjrt_plugin = "x", plugin_attributes = "plugin",
    plugins_downloaded = "platforms = NULL",
    plugin_client_create = "plugin, platform, options = list()",
    pjrt_client = "platform = NULL, ..., distributed = NULL",
    as_pjrt_client = "x", platform = "x, ...", devices = "x = NULL, ...", pjrt_device = "device", as_pjrt_device = "x",
    device = "x, ...",
    pjrt_buffer = "data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...",
    pjrt_scalar = "data, dtype = NULL, device = NULL, check = FALSE, ...",
    pjrt_empty = "dtype, shape, device = NULL", elt_type = "x", dtype = "x, ...", shape = "x, ...",
    format_buffer = "buffer", copy_buffer = "buffer, device", as_array_async = "x, ...", value = "x, ...",
    is_ready = "x, ...", await = "x, ...",
    dispatcher = paste0(
      "capacity, compile, static = character(), backend = \"pjrt\", move_inputs = FALSE, default_device = NULL, ",
      "extractor = NULL, context = NULL"
    ),
    dispatch = "dispatcher, args", dispatcher_size = "dispatcher", flatten = "x", build_tree = "x",
    unflatten = "tree, x",
    tree_equal = "a, b", tree_hash = "tree", tree_path = "tree, i", tree_filter_by_names = "tree, names",
    tree_concat = "children, names = NULL", tree_leaf_mask = "tree, groups", tree_diff = "a, b",
    map_tree = ".x, .f, ...", pmap_tree = ".l, .f, ...", flatten_fun = "f, in_tree",
    pjrt_program = "src = NULL, path = NULL, format = c(\"mlir\", \"hlo\"), types = NULL",
    pjrt_compile = paste0(
      "program, compile_options = pjrt_compile_options(), device = NULL, devices = NULL, shapes = NULL, ",
      "topology = NULL"
    ),
    pjrt_execute = paste0(
      "executable = missing_executable(), ..., execution_options = NULL, simplify = TRUE, check = TRUE, inputs = NULL"
    ),
    pjrt_execution_options = paste0(
      "non_donatable_input_indices = integer(), launch_id = 0L, device = NULL, keep_inputs = NULL"
    ),
    install_pjrt = paste0(
      "platforms = NULL, version = NULL, source = c(\"auto\", \"index\", \"release\", \"file\"), path = NULL, ",
      "force = FALSE, cuda = NULL, site = FALSE"
    )
  )
  arguments <- function(f) {
    defaults <- vapply(formals(f), function(x) paste(deparse(x), collapse = " "), "")
    paste0(names(defaults), ifelse(nzchar(defaults), " = ", ""), defaults, collapse = ", ")
  }
  exported <- getNamespaceExports("pjrt")
  for (name in names(expected)) {
    expect_true(name %in% exported, info = name)
    expect_identical(arguments(get(name)), expected[[name]], info = name)
  }
})

test_that("methods have the arguments that callers rely on", {
  arguments <- function(generic, class) names(formals(getS3method(generic, class)))
  expect_identical(arguments("pjrt_buffer", "raw"), c("data", "...", "dtype", "device", "shape", "row_major"))
  expect_identical(formals(getS3method("pjrt_buffer", "raw"))$row_major, quote(expr = ))
  expect_identical(arguments("pjrt_scalar", "raw"), c("data", "...", "dtype", "device"))
  expect_identical(arguments("as_array", "PJRTBuffer")[1:2], c("x", "check"))
  expect_identical(arguments("as_raw", "PJRTBuffer")[1:2], c("x", "row_major"))
  expect_identical(
    arguments("print", "PJRTBuffer"), c("x", "max_rows", "max_width", "max_rows_slice", "header", "footer", "...")
  )
  expect_identical(arguments("print", "PJRTProgram"), c("x", "...", "n"))
  expect_identical(formals(getS3method("print", "PJRTProgram"))$n, 5)
  expect_identical(formals(getS3method("format", "PJRTProgram"))$n, 10)
})

test_that("no internal name masks a function that other packages' tests use in our namespace", {
  names <- grep("^\\.__", ls(asNamespace("pjrt"), all.names = TRUE), value = TRUE, invert = TRUE)
  # these do as the functions of base for all other objects
  names <- setdiff(names, matrix_functions)
  for (package in c("base", "utils", "stats", "methods", "testthat")) {
    expect_identical(intersect(names, getNamespaceExports(package)), character(), info = package)
  }
})

test_that("the session's state is where other packages' tests look for it", {
  child <- run_child(quote({
    the <- getFromNamespace("the", "pjrt")
    names <- c("plugins", "clients", "devices", "platforms", "canonical_devices")
    kinds <- vapply(names, function(name) typeof(the[[name]]), "")
    client <- pjrt_client("cpu")
    first <- devices(client)[[1L]]
    cat(unique(kinds), typeof(the[["custom_calls"]]), the$config$cpu_device_count, "\n")
    cat(
      identical(the$clients[["cpu"]], client), identical(the$devices[["cpu"]], devices(client)),
      identical(the$plugins[["cpu"]], pjrt_plugin("cpu")), identical(the$canonical_devices[["CpuDevice(id=0)"]], first),
      the$platforms[["CpuDevice(id=0)"]], "\n"
    )
  }))
  expect_clean(child, c("environment list 1 ", "TRUE TRUE TRUE TRUE cpu "))
})

test_that("replacing the plugins and clients environments resets the session", {
  old <- list(plugins = the[["plugins"]], clients = the[["clients"]])
  withr::defer(for (name in names(old)) the[[name]] <- old[[name]])
  client <- pjrt_client("cpu")
  the[["clients"]] <- new.env(parent = emptyenv())
  the[["plugins"]] <- new.env(parent = emptyenv())
  fresh <- pjrt_client("cpu", cpu_device_count = 3L)
  expect_false(identical(fresh, client))
  expect_length(devices("cpu"), 3L)
  expect_identical(as_array(pjrt_scalar(1, device = "cpu:2")), 1)
})

test_that("the session's state has the fields that only other packages use", {
  child <- run_child(quote({
    the <- getFromNamespace("the", "pjrt")
    cat(identical(the[["custom_calls"]], list()), exists("default_execution_options", the, inherits = FALSE), "\n")
  }))
  expect_clean(child, "TRUE TRUE ")
})

test_that("the name of the R package with CUDA's libraries is there", {
  expect_identical(utils::getFromNamespace("cuda_r_package", "pjrt"), "cuda12.8")
})

test_that("build options are checked", {
  for (bad in list("1", 1.5, NA, 1:2, NULL, 1e10)) {
    expect_refused(new_build_options(num_replicas = bad), "invalid_input", "Build options must be whole numbers")
    expect_refused(new_build_options(num_partitions = bad), "invalid_input", "Build options must be whole numbers")
    expect_refused(new_build_options(device_ordinal = bad), "invalid_input", "Build options must be whole numbers")
  }
  # these would abort the process
  program <- pjrt_program(unary_program("f32"))
  for (n in c(0L, -1L)) {
    expect_refused(pjrt_compile(program, new_compile_options(new_build_options(n))), "invalid_input")
    expect_refused(pjrt_compile(program, new_compile_options(new_build_options(1L, n))), "invalid_input")
  }
})

test_that("pjrt_memory() returns a buffer's memory space", {
  expect_identical(pjrt_memory(pjrt_scalar(1)), device_info("cpu:0")$default_memory_space)
  expect_refused(pjrt_memory(1), "invalid_pointer", "PJRTBuffer")
})

test_that("the package stays small: at most 115 exports", {
  expect_lte(length(setdiff(getNamespaceExports("pjrt"), ls(baseenv()))), 115L)
})
