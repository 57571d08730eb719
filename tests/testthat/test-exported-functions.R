# Slow: compiles hundreds of programs.

# The files are made by src/rust/program/fixtures/exported/make_functions.py, with the numbers that JAX computes, and by
# make_forms.py beside it.
function_files <- function() list.files(fixture("exported/functions"), full.names = TRUE)
newest_functions <- function() {
  files <- function_files()
  files[[order(package_version(sub("jax-(.*)[.]bin.*", "\\1", basename(files))), decreasing = TRUE)[[1L]]]]
}

# JAX 0.4.25 has other names for linear algebra, and a correlation of a variance that is 0 but for rounding.
is_excused <- function(file, name, wrong) {
  basename(file) == "jax-0.4.25.bin.xz" &&
    (name == "statistics" || any(grepl("An older JAX wrote", wrong, fixed = TRUE)))
}

# All functions are loaded. The suite runs a few functions of older JAX. It runs all of the newest JAX but most of the
# longest, which the compiler needs a second for: they consist of operations that others have, too.
runs_in_suite <- function(functions, is_newest) {
  if (is_soak()) {
    return(rep(TRUE, length(functions)))
  }
  if (!is_newest) {
    return(seq_along(functions) %% 10L == 1L)
  }
  is_long <- vapply(functions, function(f) length(f$content), 0L) > 9000L
  !is_long | cumsum(is_long) %% 3L == 1L
}

# Nothing, if a function can be loaded.
loads_only <- function(f, devices) {
  if (length(as.character(pjrt_load_exported(f$content)$program)) != 1L) paste(f$name, "has no text")
}

test_that("functions that JAX exports compute what JAX computes, whether newer than the plugin or older", {
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L))
  on.exit(close(client))
  files <- function_files()
  expect_gte(length(files), 1L)
  for (file in files) {
    functions <- read_functions(file)
    is_run <- runs_in_suite(functions, file == newest_functions())
    for (i in seq_along(functions)) {
      f <- functions[[i]]
      failed <- function(e) paste(f$name, conditionMessage(e))
      run <- if (is_run[[i]]) wrong_results else loads_only
      wrong <- tryCatch(run(f, devices = devices(client)), error = failed)
      expect(is.null(wrong) || is_excused(file, f$name, wrong), paste(c(basename(file), wrong), collapse = ": "))
    }
  }
  names <- vapply(read_functions(newest_functions()), `[[`, "", "name")
  expect_gte(length(names), 220L)
  expect_gte(sum(startsWith(names, "symbolic-")), 25L)
  expect_gte(sum(startsWith(names, "sharded-")), 9L)
})

test_that("the text of a program that is newer than the plugin, or older, compiles to the same numbers", {
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L))
  on.exit(close(client))
  chosen <- c(
    "erf", "cholesky", "eigh", "top_k", "approx_max_k", "at", "conv", "max_pool-grad", "scan", "composite-nested",
    "random", "float8_e4m3fn", "float4_e2m1fn", "int4", "booleans", "constants", "f64", "sharded-psum", "sharded-mesh",
    "complex-functions", "narrow-float4_e2m1fn", "narrow-int4", "apply", "accuracy", "composite-pair", "sharded-nested"
  )
  text <- function(content) pjrt_program(as.character(pjrt_load_exported(content)$program))
  for (file in if (is_soak()) function_files() else newest_functions()) {
    functions <- read_functions(file)
    is_chosen <- vapply(functions, `[[`, "", "name") %in% chosen
    expect(is_soak() || sum(is_chosen) == length(chosen), "Some functions are missing.")
    for (f in functions[is_soak() | is_chosen]) {
      wrong <- tryCatch(wrong_results(f, load = text, devices = devices(client)), error = conditionMessage)
      failure <- paste(c(basename(file), f$name, wrong), collapse = ": ")
      expect(is.null(wrong) || is_excused(file, f$name, wrong), failure)
    }
  }
})

test_that("each form of a program that is newer than the plugin, and the text of each, compile to the same numbers", {
  skip_if_not(dir.exists(test_path("fixtures/exported/forms")), "the source package lacks these programs: a checkout")
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L))
  on.exit(close(client))
  functions <- read_functions(newest_functions())
  forms <- read_forms(file.path(fixture("exported/forms"), basename(newest_functions())))
  expect_identical(names(forms), vapply(functions, `[[`, "", "name"))
  expect_true(all(lengths(forms) == 6L))
  is_run <- runs_in_suite(functions, is_newest = TRUE)
  for (i in seq_along(functions)) {
    f <- functions[[i]]
    # The suite runs one form of each third function, and the text of one of each third: each form has its turn.
    for (k in if (is_soak()) seq_along(forms[[i]]) else i %% 6L + 1L) {
      program <- pjrt_program(forms[[i]][[k]])
      wrong <- function(...) {
        found <- tryCatch(wrong_results(f, ..., devices = devices(client)), error = conditionMessage)
        expect(is.null(found), paste(c(f$name, names(forms[[i]])[[k]], found), collapse = ": "))
      }
      text <- as.character(program)
      if (is_soak() || is_run[[i]] && i %/% 6L %% 3L == 0L) wrong(function(content) program)
      if (is_soak() || is_run[[i]] && i %/% 6L %% 3L == 1L) wrong(function(content) pjrt_program(text))
    }
  }
})

test_that("text with words of a newer MLIR compiles", {
  # a byte for each truth value, where the plugin expects a bit
  bytes <- c(1, 0, 0, 1, 0, 0, 0, 1, 1, 0)
  program <- sprintf("func.func @main() -> tensor<10xi1> {
  %%0 = stablehlo.constant dense<\"0x%s\"> : tensor<10xi1>
  return %%0 : tensor<10xi1>
}", paste(sprintf("%02X", bytes), collapse = ""))
  expect_identical(as.vector(as_array(pjrt_execute(compile(program)))), bytes == 1)
  # groups of devices along an axis of a mesh
  program <- "module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <[\"x\"=2]>
  func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>})
      -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{\"x\"}]>]
        manual_axes={\"x\"} (%y: tensor<2xf32>) {
      %1 = \"stablehlo.all_reduce\"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>,
          replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = \"x\">]>,
          use_global_device_ids}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %2 = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %2 : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %1 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"
  on <- c("cpu:0", "cpu:1")
  sums <- pjrt_compile(pjrt_program(program), devices = on)
  parts <- lapply(pjrt_shard(c(1, 2, 3, 4), on, dtype = "f32"), list)
  expect_equal(as.vector(pjrt_unshard(pjrt_execute_sharded(sums, parts))), c(4, 6, 4, 6))
})

test_that("unknown arguments are refused before the first call", {
  exported <- pjrt_load_exported(system.file("exported", "network.jaxexport", package = "pjrt"))
  expect_refused(pjrt_function(exported, devcie = "cpu"), "invalid_input", "Unused arguments: devcie")
})
