# Slow: compiles many programs.

donating_step <- function(...) compile(add_program("2x3xf32", donates), ...)

test_that("executable_info()$inputs uses the argument names of the source", {
  executable <- compile("func.func @main(%weights: tensor<2x3xf32>, %n : tensor<i64>, %0: tensor<3xi1>) ->
    (tensor<2x3xf32>, tensor<i64>) { return %weights, %n : tensor<2x3xf32>, tensor<i64> }")
  inputs <- executable_info(executable)$inputs
  expect_s3_class(inputs, "data.frame", exact = TRUE)
  expect_identical(inputs$name, c("%weights", "%n", "%0"))
  expect_identical(inputs$dtype, c("f32", "i64", "pred"))
  expect_identical(inputs$shape, list(c(2L, 3L), integer(), 3L))
  expect_identical(inputs$layout, c("{1,0}", "{}", "{0}"))
  expect_identical(inputs$memory_kind, rep("device", 3))
  expect_identical(inputs$donated, logical(3))
})

test_that("input names are read from bytecode and HLO modules", {
  hlo <- pjrt_compile(pjrt_program(path = fixture("donating.hlo.pb"), format = "hlo"))
  expect_identical(executable_info(hlo)$inputs$name, c("x", "y"))
  bytecode <- pjrt_compile(pjrt_program(path = fixture("square.mlirbc")))
  expect_match(executable_info(bytecode)$inputs$name, "^[[:alpha:]]")
})

test_that("donations and aliases are numbered from 1", {
  executable <- compile("func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 1 : i32},
      %y: tensor<2xf32>, %z: tensor<2xf32> {jax.buffer_donor = true}) -> (tensor<f32>, tensor<2xf32>) {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    %1 = stablehlo.add %0, %z : tensor<2xf32>
    %2 = stablehlo.constant dense<1.0> : tensor<f32>
    return %2, %1 : tensor<f32>, tensor<2xf32>
  }")
  inputs <- executable_info(executable)$inputs
  expect_identical(inputs$donated, c(TRUE, FALSE, TRUE))
  expect_identical(inputs$alias, c(2L, NA, NA))
  expect_identical(executable_info(executable)$outputs$alias, c(NA, 1L))
})

test_that("executable_info()$outputs shows dtype, shape and layout", {
  executable <- compile("module attributes {mhlo.layout_mode = \"default\"} {
    func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}, tensor<bf16>) {
      %0 = stablehlo.constant dense<1.0> : tensor<bf16>
      return %x, %0 : tensor<2x3xf32>, tensor<bf16>
    }
  }")
  outputs <- executable_info(executable)$outputs
  expect_identical(outputs$dtype, c("f32", "bf16"))
  expect_identical(outputs$shape, list(c(2L, 3L), integer()))
  expect_identical(outputs$layout, c("{0,1}", "{}"))
})

test_that("programs with no inputs or many inputs are described", {
  none <- compile("func.func @main() -> tensor<f32> {
    %0 = stablehlo.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }")
  expect_identical(nrow(executable_info(none)$inputs), 0L)
  expect_identical(format(none), "main() -> f32[]")
  expect_output(print(summary(none)), "Inputs:\nnone", fixed = TRUE)
  arguments <- paste0("%a", 1:20, ": tensor<f32>", collapse = ", ")
  many <- compile(sprintf("func.func @main(%s) -> tensor<f32> { return %%a20 : tensor<f32> }", arguments))
  expect_identical(executable_info(many)$inputs$name, paste0("%a", 1:20))
  expect_match(format(many), "%a6: f32[], ... 14 more) -> f32[]", fixed = TRUE)
})

test_that("executable_info()$inputs and executable_info()$outputs show the memory kinds of a program", {
  executable <- compile("func.func @main(%x: tensor<2xf32> {mhlo.memory_kind = \"pinned_host\"}, %y: tensor<2xf32>)
      -> (tensor<2xf32> {mhlo.memory_kind = \"pinned_host\"}) {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    return %0 : tensor<2xf32>
  }")
  expect_identical(executable_info(executable)$inputs$memory_kind, c("pinned_host", "device"))
  expect_identical(executable_info(executable)$outputs$memory_kind, "pinned_host")
})

test_that("costs and memory sizes are named numbers that match the program", {
  dot <- compile("func.func @main(%x: tensor<8x16xf32>, %y: tensor<16x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) ->
      tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }")
  cost <- executable_cost(dot)
  expect_type(cost, "double")
  expect_identical(cost[["flops"]], 2 * 8 * 16 * 4)
  expect_identical(cost[["bytes accessed"]], 4 * (8 * 16 + 16 * 4 + 8 * 4))
  expect_false(is.unsorted(names(cost)[startsWith(names(cost), "bytes")]))
  memory <- executable_info(dot)$memory
  expect_type(memory, "double")
  expect_identical(memory[["argument_size_in_bytes"]], 4 * (8 * 16 + 16 * 4))
  expect_identical(memory[["output_size_in_bytes"]], 4 * 8 * 4)
  expect_identical(memory[["alias_size_in_bytes"]], 0)
  expect_identical(executable_info(donating_step())$memory[["alias_size_in_bytes"]], 4 * 6)
})

test_that("values that an old plugin does not report are NA", {
  version <- pjrt:::pjrt_api_version(pjrt_plugin("cpu"))
  skip_if(version$major > 0L || version$minor > 81L)
  memory <- executable_info(donating_step())$memory
  expect_true(is.na(memory[["total_size_in_bytes"]]))
  expect_false(anyNA(memory[names(memory) != "total_size_in_bytes"]))
})

test_that("fingerprints differ between programs but ignore comments", {
  program <- add_program("2x3xf32")
  fingerprint <- executable_info(compile(program))$fingerprint
  expect_match(fingerprint, "^.+$")
  expect_identical(executable_info(compile(paste0(program, "// a comment")))$fingerprint, fingerprint)
  expect_false(executable_info(compile(add_program("3x2xf32")))$fingerprint == fingerprint)
})

# The sorted blocks of HLO text: their order has no meaning.
hlo_blocks <- function(text) {
  sort(trimws(strsplit(paste0(text, "\n"), "\n(?=%|ENTRY)", perl = TRUE)[[1L]]))
}

test_that("the optimized program's text matches XLA's own dump", {
  skip_if(plugin_api(106), "fault of newer plugins: their XLA writes HLO in another form")
  for (program in kinds_of_programs()) {
    program <- pjrt_program(program)
    text <- inspect_hlo(pjrt_compile(program))$after_optimizations
    expect_identical(hlo_blocks(text), hlo_blocks(inspect_hlo(program)$after_optimizations))
  }
  expect_s3_class(text, c("PJRTHloAfterOptimizations", "PJRTHloModuleSrc"), exact = TRUE)
  expect_output(print(text), "HloModule main, is_scheduled=true", fixed = TRUE)
})

test_that("format() and str() return one line with the signature, and print() shows all of it", {
  executable <- donating_step()
  expect_identical(format(executable), "main(%x: f32[2x3] donated, %y: f32[2x3]) -> f32[2x3]")
  expect_snapshot(executable)
  expect_output(str(list(executable)), "PJRTLoadedExecutable main(%x: f32[2x3] donated, %y", fixed = TRUE)
  many <- compile(sprintf(
    "func.func @main(%s) -> tensor<f32> { return %%a1 : tensor<f32> }",
    paste0("%a", 1:200, ": tensor<f32>", collapse = ", ")
  ))
  lines <- utils::capture.output(print(many))
  expect_true("    ... 190 more" %in% lines)
  expect_lt(length(lines), 25)
  two <- compile("func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    return %x, %x : tensor<2xf32>, tensor<2xf32>
  }")
  expect_identical(format(two), "main(%x: f32[2]) -> (f32[2], f32[2])")
})

test_that("summary() shows an executable's inputs, outputs and sizes", {
  executable <- donating_step(device = "cpu:1")
  all <- summary(executable)
  expect_identical(names(all), c(
    "name", "inputs", "outputs", "num_replicas", "num_partitions", "origin", "devices", "devices_in_all",
    "fingerprint", "cost", "memory", "code_size"
  ))
  expect_identical(all$name, "main")
  expect_identical(all$inputs, executable_info(executable)$inputs)
  expect_identical(all$outputs, executable_info(executable)$outputs)
  expect_identical(c(all$num_replicas, all$num_partitions), c(1L, 1L))
  expect_identical(all$devices, list(pjrt_device("cpu:1")))
  expect_identical(all$fingerprint, executable_info(executable)$fingerprint)
  expect_identical(all$cost, executable_cost(executable))
  expect_identical(all$memory, executable_info(executable)$memory)
  expect_type(all$code_size, "double")
  # replace values that depend on the plugin
  all$fingerprint <- "1234"
  all$cost <- c(flops = 1234567, `bytes accessed` = 72, `utilization0{}` = 1)
  all$memory[] <- seq_along(all$memory) * 1e4
  expect_snapshot(all, cran = TRUE)
})

test_that("summary() works if a plugin does not report some values", {
  all <- summary(donating_step())
  all$fingerprint <- NA_character_
  all["cost"] <- list(NULL)
  all["memory"] <- list(NULL)
  all$inputs$memory_kind <- NA_character_
  lines <- utils::capture.output(print(all))
  expect_true("Fingerprint: not provided by this plugin" %in% lines)
  expect_false(any(grepl("Cost|Memory:", lines)))
  for (kind in c("unimplemented", "unsupported_call")) {
    expect_identical(pjrt:::if_supported(pjrt:::pjrt_abort("no", kind), NA_real_), NA_real_)
  }
  expect_refused(pjrt:::if_supported(pjrt:::pjrt_abort("no", "internal"), NA_real_), "internal")
})

test_that("functions of executables refuse other objects", {
  for (ask in list(executable_info, executable_cost)) {
    expect_refused(ask(1), "invalid_input", "`executable` must be a `PJRTLoadedExecutable`")
    expect_refused(ask(pjrt_scalar(1)), "invalid_input", "`executable` must be a `PJRTLoadedExecutable`")
    loaded <- without_content(donating_step())
    expect_refused(ask(loaded), "invalid_pointer", "was saved without its content")
  }
  expect_identical(format(loaded), "PJRTLoadedExecutable of another session")
  expect_identical(utils::capture.output(print(loaded)), c("<PJRTLoadedExecutable>", "  of another session"))
  expect_output(str(loaded), "PJRTLoadedExecutable of another session", fixed = TRUE)
  expect_refused(inspect_hlo(donating_step(), "cpu"), "invalid_input", "compiled already")
  expect_refused(inspect_hlo(donating_step(), shapes = list()), "invalid_input", "compiled already")
})

test_that("an executable for several devices shows its parts", {
  sum <- compile(all_reduce_program("4xf32", 2L), pjrt_compile_options(num_replicas = 2L))
  all <- summary(sum)
  expect_identical(c(all$num_replicas, all$num_partitions), c(2L, 1L))
  expect_identical(all$devices, devices("cpu")[1:2])
  expect_match(inspect_hlo(sum)$after_optimizations, "all-reduce(", fixed = TRUE)
  expect_match(inspect_hlo(sum)$after_optimizations, "replica_groups={{0,1}}", fixed = TRUE)

  cut <- compile(partitioned_program("shardy", 2L), pjrt_compile_options(num_partitions = 2L))
  all <- summary(cut)
  expect_identical(c(all$num_replicas, all$num_partitions), c(1L, 2L))
  # each partition has 4 of the 8 rows
  expect_identical(executable_info(cut)$inputs$shape, list(c(4L, 3L), c(3L, 2L)))
  expect_identical(executable_info(cut)$outputs$shape, list(c(4L, 2L), integer()))
  expect_output(print(all), "1 replica, 2 partitions", fixed = TRUE)

  anywhere <- compile(add_program("f32"), pjrt_compile_options(compile_portable_executable = TRUE))
  expect_identical(summary(anywhere)$devices, devices("cpu"))
})
