# The real exporters made the folders, torch_xla 2.9.0 and torchax 0.0.13 with torch 2.9.0, and PyTorch computed the
# numbers: see src/rust/program/fixtures/pytorch/make.py. Only `text` was changed afterwards: its bytecode was removed.
# Slow: compiles large models.

torch_path <- function(name) fixture(file.path("pytorch", name))
load_torch <- function(name) pjrt_load_exported(torch_path(name))
torch_runs <- function() source(fixture(file.path("pytorch", "runs.R")), local = TRUE)$value
as_buffer <- function(x) pjrt_buffer(x$data, x$dtype, shape = as.integer(x$dim))

# A copy of a model's folder that can be changed.
torch_copy <- function(name, env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  file.copy(torch_path(name), folder, recursive = TRUE)
  file.path(folder, name)
}

edit_meta <- function(folder, from, to) {
  path <- file.path(folder, "functions", "forward.meta")
  text <- readLines(path, warn = FALSE)
  expect_match(text, from, fixed = TRUE)
  writeLines(sub(from, to, text, fixed = TRUE), path)
}

# The arguments of a model by name, without those that the program does not take.
named_arguments <- function(model, inputs) {
  rows <- unlist(model$input_tree)
  names(inputs) <- model$inputs$path[rows]
  inputs[model$inputs$kept[rows]]
}

test_that("models compute what PyTorch computes", {
  runs <- torch_runs()
  for (name in setdiff(names(runs), c("unweighted", "dynamic", "torchax"))) {
    run <- runs[[name]]
    model <- load_torch(name)
    inputs <- named_arguments(model, lapply(run$inputs, as_buffer))
    for (executable in list(pjrt_compile(model), value(pjrt_compile_async(model)))) {
      outputs <- pjrt_execute(executable, inputs = c(list(model$weights), inputs), simplify = FALSE)
      expect_length(outputs, length(run$outputs))
      for (i in seq_along(outputs)) {
        expected <- run$outputs[[i]]
        expect_identical(as.character(elt_type(outputs[[i]])), expected$dtype)
        expect_identical(shape(outputs[[i]]), as.integer(expected$dim))
        tolerance <- if (expected$dtype == "f16") 1e-3 else 1e-5
        expect_equal(
          as.vector(as_array(outputs[[i]], int64 = "double")), expected$data, tolerance = tolerance, info = name
        )
      }
    }
  }
})

test_that("a model of torchax is a function of JAX with its weights", {
  run <- torch_runs()$torchax
  model <- load_torch("torchax.jaxexport")
  weights <- pjrt_load_npy(torch_path("torchax.npz"))
  expect_identical(names(weights), c("0.weight", "0.bias", "2.weight", "2.bias"))
  out <- pjrt_execute(pjrt_compile(model), unname(weights), as_buffer(run$inputs[[1L]]))
  expect_equal(as.vector(as_array(out)), run$outputs[[1L]]$data, tolerance = 1e-5)
})

test_that("inputs, weights and trees equal the Python function's", {
  x <- load_torch("lookup")
  expect_s3_class(x, "PJRTExported")
  expect_identical(x$name, "forward")
  expect_identical(x$framework, "PyTorch")
  expect_identical(load_torch("torchax.jaxexport")$framework, "JAX")
  expect_identical(x$inputs$path, c(
    "factor", "args[1]", "table", "fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight", "args[0]", "args[2]"
  ))
  expect_identical(x$inputs$dtype, c("f32", "i64", rep("f32", 7)))
  expect_identical(x$inputs$shape, list(3L, 2L, c(4L, 3L), 3L, c(3L, 5L), 5L, c(5L, 4L), c(2L, 4L), 2L))
  expect_identical(x$inputs$kept, c(rep(TRUE, 8), FALSE))
  expect_identical(x$input_tree, list(args = list(8L, 2L, 9L), kwargs = structure(list(), names = character())))
  expect_identical(x$outputs$path, c("result['rows']", "result['next'][0]", "result['next'][1]"))
  expect_identical(x$output_tree, list(rows = 1L, `next` = list(2L, 3L)))
  expect_identical(names(x$weights), setdiff(x$inputs$path, sprintf("args[%d]", 0:2)))
  expect_identical(as_array(x$weights$table), matrix(0:11, 4, byrow = TRUE) + 0)
  expect_identical(load_torch("nested")$input_tree$args, list(list(x = 2L, y = list(1L, 4L)), list(5L, 3L)))
  expect_identical(as_array(load_torch("constants")$weights[["constants/0"]], int64 = "double"), 4)
  expect_identical(executable_info(pjrt_compile(x))$inputs$name, x$inputs$path[x$inputs$kept])
})

test_that("arguments of a function are never swapped", {
  model <- load_torch("lookup")
  run <- pjrt_compile(model)
  inputs <- lapply(torch_runs()$lookup$inputs, as_buffer)
  by_name <- pjrt_execute(run, model$weights, args = inputs[1:2])
  again <- pjrt_execute(run, `args[1]` = inputs[[2L]], model$weights, `args[0]` = inputs[[1L]])
  expect_identical(lapply(by_name, as_array), lapply(again, as_array))
  expect_refused(
    pjrt_execute(run, model$weights, inputs[[1L]], inputs[[2L]]), "invalid_input",
    "The program takes its arguments in another order than the function: `args[1]`, `args[0]`."
  )
  expect_refused(
    pjrt_execute(run, model$weights, args = inputs), "invalid_input", "The program has no argument `args/2`"
  )
  expect_refused(pjrt_execute(run, model$weights[-1L], args = inputs[1:2]), "invalid_input", "number 1 (`factor`)")
  mlp <- load_torch("mlp")
  x <- as_buffer(torch_runs()$mlp$inputs[[1L]])
  expect_identical(rowSums(as_array(pjrt_execute(pjrt_compile(mlp), mlp$weights, x))), c(1, 1), tolerance = 1e-6)
})

test_that("pjrt_function() takes the arguments of the model and has its weights", {
  runs <- torch_runs()
  for (name in c("lookup", "constants", "mlp", "nested")) {
    run <- runs[[name]]
    f <- pjrt_function(load_torch(name))
    inputs <- lapply(run$inputs, as_buffer)
    if (name == "nested") {
      inputs <- list(list(x = inputs[[1L]], y = inputs[2:3]), inputs[4:5])
    }
    outputs <- rapply(list(do.call(f, inputs)), function(x) as.vector(as_array(x, int64 = "double")), how = "unlist")
    expected <- unlist(lapply(run$outputs, function(x) as.double(x$data)))
    expect_equal(unname(outputs), expected, tolerance = 1e-5, info = name)
  }
  model <- load_torch("lookup")
  f <- pjrt_function(model, as = "array")
  expect_identical(names(formals(f)), c("x1", "x2", "x3", "weights", "..."))
  x <- matrix(1:8, 2)
  none <- lapply(model$weights, function(w) array(0, shape(w)))
  expect_identical(f(x, c(1, 0), weights = none)$rows, matrix(0, 2, 3))
  expect_refused(f(x, c(1, 0), weights = none[-1L]), "invalid_input", "`weights$factor`")
  expect_refused(pjrt_function(load_torch("unweighted"))(x), "invalid_input", "`weights$bias`")
  for (name in c("lookup", "unweighted")) expect_snapshot(pjrt_function(load_torch(name)), cran = TRUE)
})

test_that("names are kept by the cache and by saved executables", {
  code <- quote({
    model <- pjrt_load_exported(path)
    run <- pjrt_compile(model)
    cat(executable_info(run)$inputs$name, "\n")
    x <- pjrt_buffer(matrix(1:8, 2), "f32")
    cat(format(as_array(pjrt_execute(run, model$weights, x)), digits = 3), "\n")
  })
  settings <- c(
    PJRT_CACHE_DIR = withr::local_tempdir(), PJRT_CACHE_MIN_COMPILE_TIME = "0", PJRT_PLUGIN_PATH_CPU = real_plugin()
  )
  path <- normalizePath(torch_path("linear"))
  children <- lapply(1:2, function(i) run_child(bquote({
    path <- .(path)
    .(code)
  }), settings))
  expect_clean(children[[1L]])
  expect_clean(children[[2L]])
  expect_identical(children[[1L]]$out, children[[2L]]$out)
  expect_identical(trimws(children[[1L]]$out[[1L]]), "bias weight args[0]")
  model <- load_torch("linear")
  saved <- withr::local_tempfile()
  pjrt_save_executable(pjrt_compile(model), saved)
  expect_identical(executable_info(pjrt_load_executable(saved))$inputs$name, c("bias", "weight", "args[0]"))
  # the same program with other names is another executable
  code <- readBin(torch_path("linear/functions/forward.bytecode"), "raw", 1e5)
  expect_false("weight" %in% executable_info(pjrt_compile(pjrt_program(code)))$inputs$name)
})

test_that("weights are used in place", {
  skip_if_not(file.exists("/proc/self/maps"), "this system does not tell")
  folder <- torch_copy("wide")
  mapped <- function() {
    gc()
    maps <- grep(folder, readLines("/proc/self/maps"), value = TRUE, fixed = TRUE)
    basename(sub("^[^/]*", "", maps))
  }
  gc()
  before <- pjrt_memory_stats()$staging[["in_use"]]
  model <- pjrt_load_exported(folder)
  expect_identical(pjrt_memory_stats()$staging[["in_use"]], before)
  # small ones are not worth an open file
  expect_identical(mapped(), "weight")
  run <- torch_runs()$wide
  out <- pjrt_execute(pjrt_compile(model), model$weights, as_buffer(run$inputs[[1L]]))
  expect_equal(as.vector(as_array(out)), run$outputs[[1L]]$data, tolerance = 1e-5)
  rm(model, out)
  expect_identical(mapped(), character())
})

test_that("a model with more weights than the system allows open files is loaded", {
  skip_on_os("windows")
  code <- quote({
    folder <- tempfile()
    dir.create(file.path(folder, "functions"), recursive = TRUE)
    dir.create(file.path(folder, "data"))
    count <- 400
    for (i in seq_len(count)) {
      write_npy(matrix(i, 100, 100), file.path(folder, "data", paste0("w", i)))
    }
    arrays <- paste(rep('{"shape": [100, 100], "dtype": "float32"}', count), collapse = ", ")
    locations <- paste(sprintf('{"type_": "parameter", "name": "w%d"}', seq_len(count)), collapse = ", ")
    writeLines(sprintf(
      '{"name": "f", "input_signature": [%s], "input_locations": [%s], "output_signature": [%s]}', arrays, locations,
      '{"shape": [100, 100], "dtype": "float32"}'
    ), file.path(folder, "functions", "f.meta"))
    text <- sprintf("%%w%d: tensor<100x100xf32>", seq_len(count))
    writeLines(sprintf(
      "func.func @main(%s) -> tensor<100x100xf32> {\n return %%w400 : tensor<100x100xf32>\n}",
      paste(text, collapse = ", ")
    ), file.path(folder, "functions", "f.mlir"))
    model <- pjrt_load_exported(folder)
    mapped <- sum(grepl(basename(folder), readLines("/proc/self/maps"), fixed = TRUE))
    cat(length(model$weights), mapped > 100, mapped <= 150, "\n")
    cat(all(vapply(seq_len(count), function(i) all(as_array(model$weights[[i]]) == i), NA)), "\n")
  })
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(c("library(pjrt)", sourcing("npy"), deparse(code)), script)
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "")
  limited <- sprintf("ulimit -n 300; exec '%s' --vanilla '%s'", rscript(), script)
  child <- processx::run("sh", c("-c", limited), error_on_status = FALSE)
  expect_identical(child$stderr, "")
  expect_identical(strsplit(child$stdout, "\n")[[1L]], c("400 TRUE TRUE ", "TRUE "))
})

test_that("a model without weights takes the weights of another file", {
  model <- load_torch("unweighted")
  expect_identical(model$weights, structure(list(), names = character()))
  expect_refused(pjrt_execute(pjrt_compile(model), pjrt_scalar(1)), "argument_count")
  run <- torch_runs()$unweighted
  saved <- withr::local_tempfile(fileext = ".safetensors")
  pjrt_save_safetensors(list(weight = pjrt_buffer(matrix(1:12, 3), "f32"), bias = pjrt_buffer(1:3, "f32")), saved)
  x <- matrix(run$inputs[[1L]]$data, 2)
  out <- pjrt_execute(pjrt_compile(model), pjrt_load_safetensors(saved), pjrt_buffer(x))
  expect_equal(as_array(out), sweep(x %*% t(matrix(1:12, 3)), 2, 1:3, "+"), tolerance = 1e-5)
})

test_that("elements without names are numbered in messages", {
  expect_refused(pjrt_function(load_torch("nested"))(list(y = 1), list()), "invalid_input", "elements are `[[1]]`.")
})

test_that("a model with dynamic shapes runs on shapes that it was not exported with", {
  model <- load_torch("dynamic")
  expect_identical(model$inputs$shape[[3L]], c("d1", "4"))
  expect_identical(model$outputs$shape, list(c("?", "?")))
  x <- matrix(1:20 / 7, 5)
  expected <- sweep(x %*% t(as_array(model$weights$weight)), 2, as_array(model$weights$bias), "+")
  for (shapes in list(list(d1 = 5), list(`args[0]` = c(5, 4)))) {
    executable <- pjrt_compile(model, shapes = shapes)
    expect_equal(as_array(pjrt_execute(executable, model$weights, pjrt_buffer(x))), expected, tolerance = 1e-5)
  }
  predict <- pjrt_function(model, as = "array")
  expect_equal(predict(x), expected, tolerance = 1e-5)
  expect_equal(predict(x[1:2, ]), expected[1:2, ], tolerance = 1e-5)
  for (compile in list(pjrt_compile, pjrt_compile_async)) {
    expect_refused(compile(model), "invalid_input", "whose sizes are not known: d1")
    expect_refused(compile(model, shapes = list(d1 = 0)), "shape_mismatch", "at least 1")
  }
})

test_that("a folder with several functions needs the name of one", {
  folder <- torch_copy("linear")
  files <- file.path(folder, "functions", "forward")
  for (extension in c(".meta", ".bytecode")) {
    file.copy(paste0(files, extension), file.path(folder, "functions", paste0("other", extension)))
  }
  expect_identical(pjrt_load_exported(folder)$name, "forward")
  expect_s3_class(pjrt_load_exported(folder, name = "other"), "PJRTExported")
  error <- expect_refused(pjrt_load_exported(folder, name = "third"), "invalid_input", "has no function \"third\"")
  expect_match(conditionMessage(error), "\"forward\", \"other\"", fixed = TRUE)
  file.rename(paste0(files, ".meta"), file.path(folder, "functions", "another.meta"))
  expect_refused(pjrt_load_exported(folder), "invalid_input", "has several functions")
})

test_that("folders that are damaged or something else are refused", {
  refused <- function(folder, kind, message) expect_refused(pjrt_load_exported(folder), kind, message)
  empty <- withr::local_tempdir()
  error <- refused(empty, "invalid_input", "is not an exported model of PyTorch: it has no folder 'functions'")
  expect_match(conditionMessage(error), "torch_xla.stablehlo.save_torch_model_as_stablehlo", fixed = TRUE)
  dir.create(file.path(empty, "functions"))
  refused(empty, "invalid_input", "has no description of a function")

  folder <- torch_copy("linear")
  edit_meta(folder, "\"name\": \"bias\"", "\"name\": \"../../bias\"")
  refused(folder, "invalid_input", "\"../../bias\" is not the name of a weight")

  folder <- torch_copy("linear")
  edit_meta(folder, "\"shape\": [3]", "\"shape\": [4]")
  refused(folder, "invalid_input", "is not the weight that the model was exported with: it is f32[3], not f32[4]")

  folder <- torch_copy("linear")
  unlink(file.path(folder, "data", "weight"))
  refused(folder, "io", "weight")
  writeBin(npy_bytes("|O", 1L, as.raw(1:9)), file.path(folder, "data", "weight"))
  refused(folder, "unsupported_dtype", "contains Python objects")
  writeBin(as.raw(1:100), file.path(folder, "data", "weight"))
  refused(folder, "npy_invalid", "is not a valid file of NumPy")

  folder <- torch_copy("linear")
  unlink(file.path(folder, "functions", "forward.bytecode"))
  refused(folder, "invalid_input", "has no program")
  for (arguments in list(list(device = "cpu"), list(name = "forward"))) {
    expect_refused(
      do.call(pjrt_load_exported, c(list(torch_path("torchax.jaxexport")), arguments)), "invalid_input",
      "`device` and `name` must be NULL unless `x` is a folder of PyTorch"
    )
  }
  expect_refused(
    pjrt_load_exported(torch_path("linear"), name = 1), "invalid_input", "`name` must be one non-empty string"
  )
})

test_that("print() shows what to pass and what comes back", {
  for (name in c("lookup", "nested", "unweighted", "dynamic")) expect_snapshot(load_torch(name), cran = TRUE)
})

test_that("the example classifies irises", {
  model <- pjrt_load_exported(system.file("exported", "iris-torch", package = "pjrt"))
  scores <- as_array(pjrt_execute(pjrt_compile(model), model$weights, pjrt_buffer(as.matrix(iris[1:4]), "f32")))
  expect_gt(mean(max.col(scores) == as.integer(iris$Species)), 0.97)
})
