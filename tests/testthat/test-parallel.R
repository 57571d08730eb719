# Forks of a process that has a client. Every test runs in a child process, which forks.
# Slow: starts many sessions.

# Calls of every exported function and of methods in a fork, on the objects that fork_setup creates in the parent.
fork_uses <- list(
  plugin_info = quote(plugin_info(plugin)),
  pjrt_unregister_plugin = quote(pjrt_unregister_plugin("abacus")),
  as_array = quote(as_array(x)),
  as_array_async = quote(as_array_async(x)),
  as_dlpack = quote(as_dlpack(x)),
  as_dot = quote(as_dot(program)),
  as_pjrt_client = quote(as_pjrt_client("cpu")),
  as_pjrt_device = quote(as_pjrt_device("cpu:0")),
  as_pjrt_plugin = quote(as_pjrt_plugin("cpu")),
  as_raw = quote(as_raw(x, TRUE)),
  await = quote(await(endless)),
  client_info = quote(client_info(client)),
  copy_buffer = quote(copy_buffer(x, "cpu:1")),
  device = quote(pjrt::device(x)),
  device_info = quote(device_info(device)),
  devices = quote(devices(client)),
  dtype = quote(dtype(x)),
  elt_type = quote(elt_type(x)),
  executable_cost = quote(executable_cost(double)),
  executable_info = quote(executable_info(double)),
  format_buffer = quote(format_buffer(x)),
  inspect_hlo = quote(inspect_hlo(program)),
  install_pjrt = quote(try(install_pjrt("abacus"), silent = TRUE)),
  is_deleted = quote(is_deleted(x)),
  is_ready = quote(is_ready(endless)),
  memory_spaces = quote(memory_spaces(device)),
  memory_space = quote(memory_space(x)),
  pjrt_buffer = quote(pjrt_buffer(1:3)),
  pjrt_cache_info = quote(pjrt_cache_info()),
  pjrt_check_plugin = quote(pjrt_check_plugin(Sys.getenv("PJRT_PLUGIN_PATH_CPU"), quick = TRUE)),
  pjrt_clear_cache = quote(pjrt_clear_cache()),
  pjrt_client = quote(pjrt_client("cpu")),
  pjrt_benchmark = quote(pjrt_benchmark(double, inputs = list(x), times = 1)),
  pjrt_compile = quote(pjrt_compile(program)),
  pjrt_compile_async = quote(pjrt_compile_async(program)),
  pjrt_compile_options = quote(pjrt_compile_options()),
  pjrt_delete = quote(pjrt_delete(x)),
  pjrt_deserialize = quote(pjrt_deserialize(bytes)),
  pjrt_device = quote(pjrt_device("cpu:1")),
  pjrt_empty = quote(pjrt_empty("f32", 2)),
  pjrt_execute = quote(pjrt_execute(double, x)),
  pjrt_execute_sharded = quote(pjrt_execute_sharded(double, list(x))),
  pjrt_execution_options = quote(pjrt_execution_options()),
  pjrt_from_dlpack = quote(pjrt_from_dlpack(lent)),
  pjrt_function = quote(pjrt_function(double)),
  pjrt_step = quote(pjrt_step(double, state = c(x = 1))),
  "call of a function" = quote(calling(x)),
  "as_array of a list" = quote(as_array(list(x))),
  "print of a function" = quote(print(calling)),
  "print of an executable" = quote(print(double)),
  pjrt_load_executable = quote(pjrt_load_executable(file)),
  pjrt_load_exported = quote(pjrt_load_exported(system.file("exported", "network.jaxexport", package = "pjrt"))),
  pjrt_map_file = quote(
    pjrt_map_file(system.file("exported", "iris-torch", "data", "0.bias", package = "pjrt"), "ui8", 4L)
  ),
  pjrt_load_npy = quote(pjrt_load_npy(system.file("exported", "iris-torch", "data", "0.bias", package = "pjrt"))),
  pjrt_load_safetensors = quote(pjrt_load_safetensors(model)),
  pjrt_memory_stats = quote(pjrt_memory_stats()),
  pjrt_on_ready = quote(pjrt_on_ready(x, identity)),
  pjrt_plugin = quote(pjrt_plugin("cpu")),
  pjrt_plugins = quote(pjrt_plugins()),
  pjrt_program = quote(pjrt_program(unary_program("f32"))),
  pjrt_register_plugin = quote(pjrt_register_plugin("abacus", Sys.getenv("PJRT_PLUGIN_PATH_CPU"))),
  pjrt_save_executable = quote(pjrt_save_executable(double, tempfile())),
  pjrt_save_safetensors = quote(pjrt_save_safetensors(list(x = x), tempfile())),
  pjrt_scalar = quote(pjrt_scalar(1)),
  pjrt_serialize = quote(pjrt_serialize(double)),
  pjrt_shard = quote(pjrt_shard(1:4, devices("cpu"))),
  pjrt_sitrep = quote(pjrt_sitrep()),
  pjrt_trace = quote(pjrt_trace(1)),
  pjrt_start_trace = quote(pjrt_start_trace()),
  pjrt_stop_trace = quote({
    pjrt_start_trace()
    pjrt_stop_trace()
  }),
  "plot of a trace" = quote({
    grDevices::pdf(NULL)
    plot(trace)
  }),
  "print of a trace" = quote(print(trace)),
  pjrt_unshard = quote(pjrt_unshard(list(x))),
  platform = quote(platform(x)),
  plugin_attributes = quote(plugin_attributes("cpu")),
  plugin_client_create = quote(plugin_client_create(plugin, "abacus")),
  plugins_downloaded = quote(plugins_downloaded("cpu")),
  safetensors_info = quote(safetensors_info(model)),
  pjrt_open_safetensors = quote(pjrt_open_safetensors(model)),
  shape = quote(shape(x)),
  pjrt_topology = quote(tryCatch(pjrt_topology("cpu"), pjrt_error_unimplemented = function(e) "refused")),
  mpi_init = quote(mpi_init()),
  mpi_all_reduce = quote(mpi_all_reduce(x)),
  mpi_all_gather = quote(mpi_all_gather(x)),
  mpi_reduce_scatter = quote(mpi_reduce_scatter(x)),
  mpi_all_to_all = quote(mpi_all_to_all(x)),
  mpi_broadcast = quote(mpi_broadcast(x)),
  mpi_send = quote(mpi_send(x, 0)),
  mpi_recv = quote(mpi_recv("f32", 2, 0)),
  mpi_barrier = quote(mpi_barrier()),
  mpi_program = quote(mpi_program(program)),
  mpi_shard = quote(mpi_shard(1, NULL, 1)),
  mpi_unshard = quote(mpi_unshard(x, NULL)),
  pjrt_distributed = quote(pjrt_distributed(0, 1, "redis://host", job = "j")),
  uninstall_pjrt = quote(uninstall_pjrt("abacus")),
  value = quote(value(compiling)),
  pjrt_register_custom_call = quote(pjrt_register_custom_call("unused", list(host = some_function))),
  pjrt_register_r_call = quote(pjrt_register_r_call("unused", identity)),
  pjrt_unregister_custom_call = quote(pjrt_unregister_custom_call("unused")),
  dispatcher = quote(dispatcher(1, identity, move_inputs = TRUE)),
  dispatcher_size = quote(dispatcher_size(dispatching)),
  dispatch = quote(dispatch(dispatching, list(x = 1))),

  flatten = quote(flatten(nested)),
  build_tree = quote(build_tree(nested)),
  unflatten = quote(unflatten(tree, list(1, 2))),
  flatten_fun = quote(flatten_fun(list, tree)(1, 2)),
  map_tree = quote(map_tree(nested, identity)),
  pmap_tree = quote(pmap_tree(list(nested, nested), list)),
  tree_child_kinds = quote(tree_child_kinds(tree)),
  tree_child_names = quote(tree_child_names(tree)),
  tree_child_sizes = quote(tree_child_sizes(tree)),
  tree_concat = quote(tree_concat(list(tree, tree))),
  tree_diff = quote(tree_diff(tree, tree)),
  tree_equal = quote(tree_equal(tree, tree)),
  tree_filter_by_names = quote(tree_filter_by_names(tree, "a")),
  tree_hash = quote(tree_hash(tree)),
  tree_leaf_mask = quote(tree_leaf_mask(tree, "a")),
  tree_path = quote(tree_path(tree, 1)),
  tree_repr = quote(tree_repr(tree)),
  tree_root_kind = quote(tree_root_kind(tree)),
  tree_size = quote(tree_size(tree)),

  "value of an array" = quote(value(promise)),
  "is_ready of a compile" = quote(is_ready(compiling)),
  "print of a buffer" = quote(print(x)),
  "summary of a buffer" = quote(summary(x)),
  "part of a buffer" = quote(x[1]),
  crossprod = quote(crossprod(x)),
  diag = quote(diag(x)),
  tcrossprod = quote(tcrossprod(x)),
  rowSums = quote(rowSums(square)),
  colSums = quote(colSums(square)),
  rowMeans = quote(rowMeans(square)),
  colMeans = quote(colMeans(square)),
  "operator on buffers" = quote(x + 1),
  "function of a buffer" = quote(exp(x)),
  "all.equal of buffers" = quote(all.equal(x, x)),
  "is.na of a buffer" = quote(is.na(x)),
  "as.vector of a buffer" = quote(as.vector(x)),
  "format of an executable" = quote(format(double)),
  "summary of an executable" = quote(summary(double)),
  "str of a buffer" = quote(str(x)),
  "dim of a buffer" = quote(dim(x)),
  "print of a promise" = quote(print(promise)),
  "print of a client" = quote(print(client)),
  "print of devices" = quote(print(devices(client)))
)

# Functions that work in a fork because they do not call the device runtime.
known_in_forks <- c(
  grep("tree|flatten", names(fork_uses), value = TRUE), "pjrt_register_custom_call", "pjrt_distributed", "dispatcher",
  "dispatcher_size", "pjrt_register_r_call", "pjrt_unregister_custom_call", "as_dot",
  "as_pjrt_client", "as_pjrt_device", "as_pjrt_plugin", "client_info", "device", "device_info", "devices", "dtype",
  "elt_type", "executable_info", "install_pjrt", "is_deleted", "memory_spaces", "pjrt_clear_cache", "pjrt_cache_info",
  "pjrt_check_plugin",
  "pjrt_client",
  "pjrt_compile_options", "pjrt_device", "pjrt_execution_options", "pjrt_load_exported", "pjrt_memory_stats",
  "pjrt_plugin", "pjrt_plugins", "pjrt_program", "pjrt_register_plugin", "pjrt_unregister_plugin", "pjrt_sitrep",
  "pjrt_function", "pjrt_step", "print of a function", "print of an executable", "summary of an executable",
  "pjrt_trace", "pjrt_start_trace",
  "pjrt_stop_trace", "plot of a trace", "print of a trace", "platform", "plugin_attributes", "plugin_info",
  "plugins_downloaded", "safetensors_info", "pjrt_open_safetensors", "shape", "uninstall_pjrt", "str of a buffer",
  "format of an executable", "dim of a buffer", "print of a buffer", "print of a promise", "print of a client",
  "print of devices"
)

# Creates one object of every kind in the parent. Some are still pending.
fork_setup <- quote({
  x <- pjrt_buffer(c(1, 2))
  square <- pjrt_buffer(diag(2))
  lent <- as_dlpack(x)
  trace <- pjrt_trace(await(x))
  client <- pjrt_client()
  device <- devices(client)[[1L]]
  memory <- device_info(device)$default_memory_space
  plugin <- pjrt_plugin("cpu")
  endless <- pjrt_execute(compile(waiting_program(), device = "cpu:1"), pjrt_scalar(1, "f64", device = "cpu:1"))
  program <- pjrt_program(unary_program("2xf32"))
  double <- pjrt_compile(program)
  calling <- pjrt_function(double)
  promise <- as_array_async(x)
  compiling <- pjrt_compile_async(pjrt_program(chain_program(5000)))
  bytes <- pjrt_serialize(double)
  file <- tempfile()
  pjrt_save_executable(double, file)
  model <- tempfile()
  pjrt_save_safetensors(list(x = x), model)
  nested <- list(a = 1, b = list(2))
  tree <- build_tree(nested)
  dispatching <- dispatcher(2, default_device = function() device, compile = function(info) {
    list(exec = double, client = client, device = device, out_tree = build_tree(1), out_avals = list(list()))
  })
  some_function <- getNativeSymbolInfo("GetPjrtApi", dyn.load(Sys.getenv("PJRT_PLUGIN_PATH_CPU")))$address
  # shows that the parent still works
  check <- function() cat(
    as_array(pjrt_execute(double, x)), value(promise), class(value(compiling)), is_ready(endless), "\n"
  )
  # the endless program would block a normal exit
  leave <- function() {
    flush(stdout())
    tools::pskill(Sys.getpid(), 9L)
  }
})
healthy <- "2 4 1 2 PJRTLoadedExecutable FALSE "

run_parent <- function(code) {
  env <- c(
    PJRT_CPU_DEVICE_COUNT = "2", PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_INSTALL = "0",
    R_USER_CACHE_DIR = withr::local_tempdir()
  )
  run_child(env = env, helpers = c("programs", "custom-calls"), bquote({
    .(fork_setup)
    .(code)
    check()
    leave()
  }))
}

test_that("in a fork every exported function fails at once or returns a safe result", {
  expect_setequal(intersect(names(fork_uses), getNamespaceExports("pjrt")), getNamespaceExports("pjrt"))
  table <- withr::local_tempfile()
  saveRDS(fork_uses, table)
  child <- run_parent(bquote({
    kind <- function(use) {
      took <- system.time(
        kind <- tryCatch({
          capture.output(eval(use, globalenv()))
          "known"
        }, error = function(e) class(e)[[1L]])
      )
      if (took[["elapsed"]] < 60) kind else "slow"
    }
    uses <- readRDS(.(table))
    kinds <- suppressMessages(unlist(parallel::mclapply(uses, kind, mc.cores = 2)))
    cat(sprintf("%s: %s\n", names(uses), kinds), sep = "")
  }))
  expect_identical(child$err, character())
  expected <- ifelse(names(fork_uses) %in% known_in_forks, "known", "pjrt_error_forked")
  # nobody has initialized MPI
  expected[grepl("^mpi_(?!init|finalize)", names(fork_uses), perl = TRUE)] <- "pjrt_error_invalid_value"
  expected[grepl("^mpi_(un)?shard$", names(fork_uses))] <- "pjrt_error_invalid_type"
  expect_identical(child$out, c(sprintf("%s: %s", names(fork_uses), expected), healthy))
})

test_that("forks that do not use pjrt run and end normally", {
  child <- run_parent(quote({
    for (i in 1:6) {
      squares <- parallel::mclapply(1:2, function(i) {
        gc()
        i^2
      }, mc.cores = 2)
      stopifnot(identical(squares, list(1, 4)))
    }
    job <- parallel::mcparallel({
      rm(list = ls(globalenv()), pos = globalenv())
      gc()
      gc()
      "dropped all"
    })
    cat(parallel::mccollect(job)[[1L]], "\n")
    # mccollect() does not return the exit status
    ends <- list(quote(quit("no", 3)), quote(tools::pskill(Sys.getpid(), 15L)), quote(stop("for a reason")))
    for (end in ends) {
      began <- Sys.time()
      suppressWarnings(parallel::mccollect(parallel::mcparallel(eval(end), silent = TRUE)))
      cat(Sys.time() - began < 60, "")
    }
    cat(system("true"), "\n")
  }))
  expect_identical(child$err, character())
  expect_identical(child$out, c("dropped all ", "TRUE TRUE TRUE 0 ", healthy))
})

test_that("forked futures behave like forks", {
  skip_if_not_installed("future")
  child <- run_parent(quote({
    future::plan("multicore", workers = 2)
    f <- future::future(sum(1:10))
    g <- future::future(as_array(x))
    cat(future::value(f), class(tryCatch(future::value(g), error = identity))[[1L]], "\n")
  }))
  expect_identical(child$err, character())
  expect_identical(child$out, c("55 pjrt_error_forked ", healthy))
})

test_that("cluster and callr sessions have their own clients", {
  child <- run_parent(quote({
    text <- unary_program("2xf32")
    double_of <- function(x, text) {
      double <- pjrt::pjrt_compile(pjrt::pjrt_program(text))
      pjrt::as_array(pjrt::pjrt_execute(double, pjrt::pjrt_buffer(x)))
    }
    cluster <- parallel::makePSOCKcluster(2)
    cat(unlist(parallel::parLapply(cluster, list(c(1, 2), c(3, 4)), double_of, text)), "\n")
    parallel::stopCluster(cluster)
    cat(callr::r(double_of, list(c(5, 6), text)), "\n")
  }))
  expect_identical(child$err, character())
  expect_identical(child$out, c("2 4 6 8 ", "10 12 ", healthy))
})

test_that("a forked child knows a buffer's shape and type, and reading it raises an error with advice", {
  child <- run_child(quote({
    x <- pjrt_buffer(c(1, 2))
    told <- parallel::mclapply(1:2, function(i) {
      list(shape(x), as.character(elt_type(x)), conditionMessage(tryCatch(as_array(x), error = identity)))
    }, mc.cores = 2)
    cat(told[[1L]][[1L]], told[[1L]][[2L]], "\n")
    cat(told[[2L]][[3L]], "\n")
  }))
  expect_clean(child)
  expect_identical(child$out[[1L]], "2 f32 ")
  expect_match(child$out, "PSOCK", fixed = TRUE, all = FALSE)
})

test_that("children of a parent without a client can create their own", {
  child <- run_child(quote({
    sums <- parallel::mclapply(1:2, function(i) {
      as_array(pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(i, 10))))
    }, mc.cores = 2)
    cat(unlist(sums), "\n")
  }))
  expect_clean(child, "2 20 4 20 ")
})
