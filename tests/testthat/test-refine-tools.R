# Tools that are not on this machine are stood in for by scripts, which note how they are called and copy a program.
skip_on_os("windows")

load_exported <- function(name) pjrt_load_exported(fixture(file.path("exported", paste0(name, ".jaxexport"))))

# A script that notes its arguments in `log`, and copies `program` to its argument number `place`.
local_tool <- function(log, program, place, name = "tool", env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  path <- file.path(folder, name)
  lines <- c(
    "#!/bin/sh", sprintf("printf '%%s\\n' \"$@\" > '%s'", log), sprintf("shift %d", place - 1L),
    sprintf("cp '%s' \"$1\"", program)
  )
  writeLines(lines, path)
  Sys.chmod(path, "755")
  path
}

static_program <- function(env = parent.frame()) {
  path <- withr::local_tempfile(fileext = ".mlir", .local_envir = env)
  writeLines("func.func @main(%x: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }", path)
  path
}

test_that("a Python with JAX gets the program, the platform, types and names", {
  log <- withr::local_tempfile()
  withr::local_options(pjrt.python = local_tool(log, static_program(), 3L))
  types <- "tensor<2x4x4xf32>"
  refined <- program_by_tools(load_exported("symbolic"), NA_integer_, types)
  expect_s3_class(refined, "PJRTProgram")
  said <- readLines(log)
  expect_identical(basename(said[[1L]]), "refine.py")
  expect_true(file.exists(said[[1L]]))
  expect_identical(basename(said[2:3]), c("program.mlirbc", "refined.mlirbc"))
  expect_identical(said[4:6], c("-1", types, "x"))
  expect_length(said, 6L)
  expect_false(any(file.exists(said[2:3])))
  program_by_tools(load_exported("platforms"), 1L, "tensor<2x3xf32>")
  expect_identical(readLines(log)[4:6], c("1", "tensor<2x3xf32>", "x"))
})

test_that("results are kept for the session", {
  log <- withr::local_tempfile()
  withr::local_options(pjrt.python = local_tool(log, static_program(), 3L))
  x <- load_exported("symbolic")
  first <- program_by_tools(x, NA_integer_, "tensor<2x4x4xf32>")
  unlink(log)
  expect_identical(program_by_tools(x, NA_integer_, "tensor<2x4x4xf32>"), first)
  expect_false(file.exists(log))
  program_by_tools(x, NA_integer_, "tensor<3x6x4xf32>")
  expect_true(file.exists(log))
})

test_that("stablehlo-opt gets a pipeline of passes", {
  log <- withr::local_tempfile()
  opt <- local_tool(log, static_program(), 5L, "stablehlo-opt")
  withr::local_path(dirname(opt))
  withr::local_options(pjrt.python = "/nonexistent")
  expect_s3_class(
    program_by_tools(load_exported("symbolic"), NA_integer_, c("tensor<2x4x4xf32>", "tensor<f32>")), "PJRTProgram"
  )
  said <- readLines(log)
  expect_identical(said[[2L]], paste0(
    "--pass-pipeline=builtin.module(vhlo-legalize-to-stablehlo,stablehlo-refine-arguments{types=tensor<2x4x4xf32>,tensor<f32>},",
    "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism,stablehlo-check-shape-assertions))"
  ))
  expect_identical(said[3:4], c("--emit-bytecode", "-o"))
  # it has no means to set the platform
  expect_refused(program_by_tools(load_exported("platforms"), 0L, "tensor<2x3xf32>"), "dynamic_shape", "/nonexistent")
})

test_that("without a tool the error says to export for fixed shapes, and nothing of versions", {
  withr::local_options(pjrt.python = "/nonexistent/python")
  withr::local_envvar(PATH = "/nonexistent")
  e <- expect_refused(
    program_by_tools(load_exported("symbolic"), NA_integer_, "tensor<2x4x4xf32>"), "dynamic_shape",
    "Export it for fixed shapes, once for each: jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((32, 4), \"float32\"))."
  )
  e <- tryCatch(program_by_tools(load_exported("symbolic"), NA_integer_, "tensor<2x4x4xf32>"), error = identity)
  expect_false(grepl("version", conditionMessage(e), fixed = TRUE))
  expect_match(conditionMessage(e), "cannot be compiled here: its symbolic dimensions cannot be resolved", fixed = TRUE)
})

test_that("what a tool says last is shown", {
  script <- withr::local_tempfile()
  writeLines(c("#!/bin/sh", "echo something", "echo 'No module named jax' >&2", "exit 3"), script)
  Sys.chmod(script, "755")
  withr::local_options(pjrt.python = script)
  withr::local_envvar(PATH = "/usr/bin:/bin")
  expect_refused(program_by_tools(load_exported("symbolic"), NA_integer_, "t"), "dynamic_shape", "No module named jax")
})

test_that("Python is the user's choice, or that of the environment", {
  withr::local_envvar(PJRT_PYTHON = "/chosen/by/variable")
  expect_identical(pythons(), "/chosen/by/variable")
  withr::local_options(pjrt.python = "/chosen/by/option")
  expect_identical(pythons(), "/chosen/by/option")
  withr::local_options(pjrt.python = NULL)
  folder <- withr::local_tempdir()
  dir.create(file.path(folder, "bin"))
  python <- file.path(folder, "bin", "python")
  file.create(python)
  withr::local_envvar(PJRT_PYTHON = NA, RETICULATE_PYTHON = NA, VIRTUAL_ENV = folder)
  expect_identical(pythons()[[1L]], python)
})
