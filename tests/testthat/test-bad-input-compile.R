# Bad input to functions for programs, compile options and compiling. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  as.character.PJRTProgram = row(x = "program"),
  as_dot = row(x = of("program", program, "an executable")),
  as_dot.PJRTProgram = row(
    x = "program", max_nodes = of("none", 50, "integer64", "1L", "1.5", "Inf", "1e300", "2^31", "2^53", "1e18")
  ),
  as.character.PJRTExported = row(x = of("printed", pjrt_load_exported(exported_file))),
  as_dot.PJRTExported = row(
    x = of("printed", pjrt_load_exported(exported_file)),
    max_nodes = of("none", 50, "integer64", "1L", "1.5", "Inf", "1e300", "2^31", "2^53", "1e18")
  ),
  knit_print.PJRTProgram = row(x = of("shown", program)),
  type_sum.PJRTProgram = row(x = of("any", program)),
  obj_sum.PJRTProgram = row(x = of("any", program)),
  await.PJRTExecutablePromise = row(x = "compiling"),
  is_ready.PJRTExecutablePromise = row(x = "compiling"),
  value.PJRTExecutablePromise = row(x = "compiling"),
  format.PJRTExecutablePromise = row(x = "compiling"),
  format.PJRTExported = row(x = of("printed", pjrt_load_exported(exported_file), of_files("PJRTExported"))),
  format.PJRTHloModuleSrc = row(x = of("printed", stages[[1L]], "a string as PJRTHloModuleSrc")),
  format.PJRTHloModuleSrcs = row(x = of("printed", stages)),
  format.PJRTProgram = row(x = of("program", program, of_files("PJRTProgram")), n = of("index", 3, whole, "0L")),
  inspect_hlo = row(program = "program", device = "device", shapes = of("list", NULL, "NULL", vectors[4L])),
  pjrt_compile = row(
    program = "program", compile_options = "compile_options", device = "device", devices = of("devices", NULL, "NULL"),
    shapes = of("list", NULL, "NULL", vectors[4L]), topology = of("none", NULL, "NULL")
  ),
  pjrt_compile_async = row(
    program = "program", compile_options = "compile_options", device = "device", devices = of("devices", NULL, "NULL"),
    shapes = of("list", NULL, "NULL", vectors[4L]), after = await(made)
  ),
  pjrt_compile_options = row(
    num_replicas = of("index", 1L, "NULL", "1L"), num_partitions = of("index", 1L, "NULL", "1L"),
    device_assignment = of("index", NULL, "NULL", "1L", "0L", "-1L", "-1", "-2^31"),
    use_spmd_partitioning = "flag_or_null", use_shardy_partitioner = "flag_or_null",
    compile_portable_executable = "flag",
    optimization_level = of("index", NULL, "NULL", "1L", "0L", "integer64"),
    debug_options = of("list", list(), "NULL", "list()", vectors),
    allow_spmd_sharding_propagation_to_parameters = of("flag_or_null", NULL, "c(TRUE, FALSE)"),
    allow_spmd_sharding_propagation_to_output = of("flag_or_null", NULL, "c(TRUE, FALSE)")
  ),
  pjrt_load_exported = row(
    x = of("path", torch_folder), device = "device", name = of("choice", "forward", "NULL"),
    vjp = of("flag", FALSE, "!TRUE", "0L")
  ),
  pjrt_program = row(
    src = of("string", text, "as.raw(0:2)", "character()", "c(\"a\", \"b\")", "\"\"", "bytes"),
    path = of("path", NULL, "NULL"), format = of("choice", "mlir"),
    types = of("list", NULL, "NULL", "list()", "character()")
  ),
  `$<-.PJRTExported` = row(
    x = of("printed", pjrt_load_exported(exported_file)), name = of("string", "a"), value = "any", refuses = TRUE
  ),
  `[<-.PJRTExported` = row(
    x = of("printed", pjrt_load_exported(exported_file)), name = "index", value = "any", refuses = TRUE
  ),
  `[[<-.PJRTExported` = row(
    x = of("printed", pjrt_load_exported(exported_file)), name = "index", value = "any", refuses = TRUE
  ),
  `$.PJRTExported` = row(x = of("printed", pjrt_load_exported(exported_file)), name = of("any", "name")),
  `[.PJRTExported` = row(x = of("printed", pjrt_load_exported(exported_file))),
  `[[.PJRTExported` = row(
    x = of("printed", pjrt_load_exported(exported_file)), i = of("string", "name", "1L")
  ),
  as.list.PJRTExported = row(x = of("printed", pjrt_load_exported(exported_file))),
  length.PJRTExported = row(x = of("printed", pjrt_load_exported(exported_file))),
  names.PJRTExported = row(x = of("printed", pjrt_load_exported(exported_file))),
  print.PJRTCompileOptions = row(x = "compile_options"),
  format.PJRTCompileOptions = row(x = "compile_options"),
  `$<-.PJRTCompileOptions` = row(x = "compile_options", name = of("string", "a"), value = "any", refuses = TRUE),
  `[<-.PJRTCompileOptions` = row(x = "compile_options", name = "index", value = "any", refuses = TRUE),
  `[[<-.PJRTCompileOptions` = row(x = "compile_options", name = "index", value = "any", refuses = TRUE),
  print.PJRTExecutablePromise = row(x = "compiling"),
  print.PJRTExported = row(x = of("printed", pjrt_load_exported(exported_file), of_files("PJRTExported"))),
  print.PJRTHloModuleSrc = row(x = of("printed", stages[[1L]], "a string as PJRTHloModuleSrc")),
  print.PJRTHloModuleSrcs = row(x = of("printed", stages)),
  print.PJRTProgram = row(x = of("program", program, of_files("PJRTProgram")), n = of("index", 3, whole, "0L")),
  all.equal.PJRTExecutablePromise = row(target = of("any", compiled), current = "any"),
  all.equal.PJRTExported = row(target = of("any", pjrt_load_exported(exported_file)), current = "any"),
  all.equal.PJRTProgram = row(target = of("any", program), current = "any"),
  summary.PJRTExecutablePromise = row(object = of("promise", compiled, "a compiling promise")),
  str.PJRTExecutablePromise = row(object = of("shown", compiled, "!a null pointer as PJRTExecutablePromise")),
  str.PJRTExported = row(object = of("printed", pjrt_load_exported(exported_file))),
  str.PJRTProgram = row(object = "shown"),
  summary.PJRTExported = row(object = of("printed", pjrt_load_exported(exported_file)))
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `pjrt_compile(exported, shapes = list(x = .))` = use(
    pjrt_compile(pjrt_load_exported(exported_file), shapes = list(x = bad)), of("none", c(2, 4), "list()")
  ),
  `pjrt_compile(symbolic, shapes = list(x = .))` = use(
    pjrt_compile(symbolic, shapes = list(x = bad)), of("none", c(2, 3))
  ),
  `pjrt_compile(exported, shapes = .)` = use(
    pjrt_compile(pjrt_load_exported(exported_file), shapes = bad), of("none", NULL, "NULL", "list()", vectors[3:4])
  ),
  `pjrt_compile(devices = list(.))` = use(pjrt_compile(program, devices = list(bad)), of("devices", NULL, "a device")),
  `pjrt_program(types = list(X = .))` = use(
    pjrt_program("// {X}", types = list(X = bad)),
    of(
      "string", NULL, "\"\"", "1L", "1:2", "1:1000", "0L", "2^31", "2^53", "a matrix", "a buffer", used_buffers
    )
  ),
  `pjrt_compile_options(debug_options = list(xla_a = .))` = use(
    pjrt_compile_options(debug_options = list(xla_a = bad)), of(
      "string", NULL, "\"\"", "TRUE", "0L", "1.5", "1e-300", "a string as PJRTBuffer",
      setdiff(c(whole, below_zero), c("Inf", "-Inf"))
    )
  )
)

test_that("functions that compile refuse bad input with an error of this package", {
  withr::local_options(device = function(...) grDevices::pdf(NULL))
  withr::defer(grDevices::graphics.off())
  tried <- try_bad_input(rows, uses, at_least = 3000)
  expect_snapshot(cat(refusals(tried)))
})
