# Slow: compiles many programs.

test_that("inspect_hlo() shows both stages of a program without preparation", {
  stages <- inspect_hlo(pjrt_program(add_program("2x2xf32")))
  expect_s3_class(stages, "PJRTHloModuleSrcs", exact = TRUE)
  expect_identical(names(stages), c("before_optimizations", "after_optimizations"))
  expect_s3_class(stages$before_optimizations, c("PJRTHloBeforeOptimizations", "PJRTHloModuleSrc"), exact = TRUE)
  expect_s3_class(stages$after_optimizations, c("PJRTHloAfterOptimizations", "PJRTHloModuleSrc"), exact = TRUE)
  expect_match(stages$before_optimizations, "^HloModule main, .*ROOT %add")
  expect_match(stages$after_optimizations, "is_scheduled=true")
  expect_identical(attr(stages, "module"), "main")
  expect_true(dir.exists(attr(stages, "dir")))
})

test_that("a stage prints as text and a pair of stages prints a summary", {
  stages <- inspect_hlo(pjrt_program(add_program("2x2xf32")))
  short <- paste0(
    "^<PJRTHloModuleSrcs: module 'main', 2 stage\\(s\\)>\n",
    "  before_optimizations \\([0-9]+ lines\\)\n  after_optimizations \\([0-9]+ lines\\)$"
  )
  expect_match(format(stages), short)
  expect_identical(utils::capture.output(expect_invisible(print(stages))), strsplit(format(stages), "\n")[[1L]])
  for (stage in stages) {
    expect_identical(format(stage), as.vector(unclass(stage)))
    expect_identical(utils::capture.output(expect_invisible(print(stage))), strsplit(format(stage), "\n")[[1L]])
  }
})

test_that("a program in any form is inspected for the requested device", {
  program <- pjrt_program(add_program("3xf32"))
  for (device in list("cpu", "cpu:1", pjrt_device("cpu:1"), pjrt_client("cpu"))) {
    expect_match(inspect_hlo(program, device)$before_optimizations, "f32[3]", fixed = TRUE)
  }
  expect_refused(inspect_hlo(program, "cpu:7"), "invalid_input", "out of range")
})

test_that("programs in every format can be inspected", {
  bytecode <- pjrt_program(path = fixture("square.mlirbc"))
  hlo <- pjrt_program(path = fixture("square.hlo.pb"), format = "hlo")
  for (program in list(bytecode, hlo)) {
    expect_match(inspect_hlo(program)$before_optimizations, "multiply")
  }
})

test_that("inspecting programs repeatedly does not mix them up", {
  add <- pjrt_program(add_program("3xf32"))
  multiply <- pjrt_program(unary_program("5xf32", "multiply"))
  first <- inspect_hlo(add)
  second <- inspect_hlo(multiply)
  expect_match(second$before_optimizations, "multiply")
  expect_no_match(second$before_optimizations, "add(", fixed = TRUE)
  expect_false(attr(first, "dir") == attr(second, "dir"))
  expect_identical(as.vector(inspect_hlo(add)$before_optimizations), as.vector(first$before_optimizations))
})

test_that("inspecting an invalid program raises the compiler's error", {
  expect_refused(inspect_hlo("func.func"), "invalid_input", "`program` must be a `PJRTProgram`")
  error <- expect_error(inspect_hlo(pjrt_program("func.func @main() { nonsense }")), class = "pjrt_error")
  expect_identical(error$call_name, "PJRT_Client_Compile")
})

# Inspects two programs and prints whether their stages and dump folder are right.
inspect_two <- quote({
  add <- inspect_hlo(pjrt_program(add_program("3xf32")))
  warm <- compile(unary_program("7xf32"))
  multiply <- inspect_hlo(pjrt_program(unary_program("5xf32", "multiply")))
  text <- c(unlist(add), unlist(multiply))
  cat(grepl("f32[3]", text, fixed = TRUE), "\n")
  cat(grepl("f32[5]", text, fixed = TRUE), "\n")
  cat(attr(add, "dir") == Sys.getenv("DUMP_DIR"), length(list.files(Sys.getenv("DUMP_DIR"))) > 0L, "\n")
})

test_that("the dump folder of XLA_FLAGS is used each time", {
  dir <- withr::local_tempdir()
  env <- c(XLA_FLAGS = sprintf("--xla_dump_to=%s --xla_dump_hlo_as_text", dir), DUMP_DIR = dir)
  for (session in 1:2) {
    expect_clean(run_child(inspect_two, env), c("TRUE TRUE FALSE FALSE ", "FALSE FALSE TRUE TRUE ", "TRUE TRUE "))
  }
})

test_that("without a user's dump folder nothing is left on disk", {
  dir <- withr::local_tempdir()
  expected <- c("TRUE TRUE FALSE FALSE ", "FALSE FALSE TRUE TRUE ", "FALSE FALSE ")
  expect_clean(run_child(inspect_two, c(DUMP_DIR = dir)), expected)
})

test_that("XLA_FLAGS that are set too late or point elsewhere are harmless", {
  dir <- withr::local_tempdir()
  warm <- compile(unary_program("f32"))
  withr::local_envvar(XLA_FLAGS = sprintf("--xla_dump_to=%s --xla_dump_hlo_as_text", dir))
  expect_identical(pjrt:::session_dump_dir(), dir)
  stages <- inspect_hlo(pjrt_program(add_program("3xf32")))
  expect_match(stages$before_optimizations, "f32[3]", fixed = TRUE)
  expect_false(attr(stages, "dir") == dir)
  for (flags in c("", "--xla_dump_hlo_as_text", "--xla_dump_to=/x", "--xla_dump_to=- --xla_dump_hlo_as_text")) {
    withr::local_envvar(XLA_FLAGS = flags)
    expect_null(pjrt:::session_dump_dir())
  }
})

test_that("the optimized program is available from a plugin that writes no dump files", {
  text <- "HloModule m, is_scheduled=true\n\nENTRY %e () -> f32[] {\n}\n"
  stages <- pjrt:::new_stages(pjrt:::read_stages(list(dir = "d", files = NULL, text = text)), "d")
  expect_null(stages$before_optimizations)
  expect_identical(format(stages$after_optimizations), text)
  expect_identical(format(stages), "<PJRTHloModuleSrcs: module 'm', 1 stage(s)>\n  after_optimizations (4 lines)")
  expect_identical(pjrt:::read_stages(list(dir = "d", files = NULL, text = NULL)), list())
  withr::with_envvar(c(XLA_FLAGS = ""), {
    error <- expect_refused(pjrt:::abort_no_hlo(), "unsupported_call", "HLO dumping is not enabled in this session.")
    expect_match(conditionMessage(error), "XLA_FLAGS")
  })
  withr::with_envvar(c(XLA_FLAGS = "--xla_dump_to=/x --xla_dump_hlo_as_text"), {
    expect_refused(pjrt:::abort_no_hlo(), "unsupported_call", "The compiler dumped no HLO for this program.")
  })
})

test_that("inspect_hlo() takes exported functions", {
  exported <- pjrt_load_exported(fixture("exported/simple.jaxexport"))
  expect_match(inspect_hlo(exported)$before_optimizations, "multiply")
  symbolic <- pjrt_load_exported(fixture("exported/symbolic.jaxexport"))
  expect_match(inspect_hlo(symbolic, shapes = list(x = c(2, 4, 4)))$before_optimizations, "f32[2,4,4]", fixed = TRUE)
  expect_refused(inspect_hlo(symbolic), "invalid_input", "whose sizes are not known: b")
  expect_refused(inspect_hlo(symbolic, shapes = list(x = c(2, 5, 4))), "shape_mismatch", "Dimension 2 of `x`")
})

test_that("both stages belong to the compiled module, whichever number the loaded one has", {
  for (loaded in c("module_0236", "module_0249")) {
    dir <- withr::local_tempdir()
    write <- function(file, text) writeLines(c(text, "}"), file.path(dir, file))
    write(paste0(loaded, ".main.after_optimizations.txt"), "loaded {")
    write("module_0242.main.before_optimizations.txt", "before {")
    write("module_0242.main.cpu_after_optimizations.txt", "after {")
    files <- names(pjrt:::stage_files(dir))
    stages <- pjrt:::read_stages(list(dir = dir, files = files, text = NULL))
    expect_identical(stages, list(before_optimizations = "before {\n}", after_optimizations = "after {\n}"))
  }
})
