# Slow: compiles hundreds of programs.

# The files are made by src/rust/program/fixtures/exported/make_functions.py, with the numbers that JAX computes.
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

# All functions are loaded. The suite runs a few of those of older JAX, and of the newest all but most of the longest,
# which the compiler needs a second for: they consist of operations that others have, too.
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

test_that("the text of a program that is newer than the plugin compiles to the same numbers", {
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L))
  on.exit(close(client))
  functions <- read_functions(newest_functions())
  names(functions) <- vapply(functions, `[[`, "", "name")
  chosen <- c(
    "erf", "cholesky", "eigh", "top_k", "approx_max_k", "at", "conv", "max_pool-grad", "scan", "composite-nested",
    "random", "float8_e4m3fn", "float4_e2m1fn", "int4", "booleans", "constants", "f64", "sharded-psum", "sharded-mesh",
    "complex-functions", "narrow-float4_e2m1fn", "narrow-int4", "apply", "accuracy", "composite-pair", "sharded-nested"
  )
  for (f in functions[chosen]) {
    text <- function(content) pjrt_program(as.character(pjrt_load_exported(content)$program))
    expect_null(wrong_results(f, load = text, devices = devices(client)))
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
