# Maximum and minimum keep NaN in every program format and every way of compiling, unless the user chooses otherwise.
# Slow: compiles in many ways.

larger <- function(options = pjrt_compile_options(), ...) {
  compile(sub("add", "maximum", add_program("3xf32")), options, ...)
}

# The maximum of c(1, NaN, 3) and c(NaN, 1, 4). With XLA's own default it is 1, NaN, 4.
largest <- function(program, device = NULL) {
  c(as_array(pjrt_execute(program, pjrt_buffer(c(1, NaN, 3), "f32", device), pjrt_buffer(c(NaN, 1, 4), "f32", device))))
}

kept <- c(NaN, NaN, 4)
dropped <- c(1, NaN, 4)
fast <- pjrt_compile_options(debug_options = list(xla_cpu_enable_fast_min_max = TRUE))

test_that("maximum and minimum keep NaN in every program format", {
  expect_identical(largest(larger()), kept)
  for (file in c("maximum.mlirbc", "maximum.artifact")) {
    expect_identical(largest(pjrt_compile(pjrt_program(path = fixture(file)))), kept, label = file)
  }
  expect_identical(largest(pjrt_compile(pjrt_program(path = fixture("maximum.hlo.pb"), format = "hlo"))), kept)
})

test_that("portable executables, low optimization and background compiles keep NaN", {
  portable <- larger(pjrt_compile_options(compile_portable_executable = TRUE))
  for (device in devices()) expect_identical(largest(portable, device), kept)
  expect_identical(largest(larger(pjrt_compile_options(optimization_level = 0))), kept)
  text <- sub("add", "maximum", add_program("3xf32"))
  expect_identical(largest(value(pjrt_compile_async(pjrt_program(text)))), kept)
})

test_that("inspect_hlo() shows stages of a compile that keeps NaN", {
  options <- function(...) pjrt_compile_options(debug_options = list(xla_dump_to = folder, ...))
  written <- function(options) {
    unlink(folder, recursive = TRUE)
    larger(options)
    # loading what another process compiled writes a file, too
    grep("fast_min_max", readLines(list.files(folder, "debug_options$", full.names = TRUE)[[1L]]), value = TRUE)
  }
  folder <- withr::local_tempdir()
  expect_identical(written(options()), "xla_cpu_enable_fast_min_max: false")
  # XLA omits values that equal its defaults
  expect_identical(written(options(xla_cpu_enable_fast_min_max = TRUE)), character())
  stages <- inspect_hlo(pjrt_program(sub("add", "maximum", add_program("3xf32"))))
  told <- readLines(list.files(attr(stages, "dir"), "debug_options$", full.names = TRUE)[[1L]])
  expect_true("xla_cpu_enable_fast_min_max: false" %in% told)
})

test_that("a debug option overrides the default", {
  expect_identical(largest(larger(fast)), dropped)
  also <- pjrt_compile_options(debug_options = list(xla_cpu_enable_fast_min_max = FALSE))
  expect_identical(largest(larger(also)), kept)
  text <- sub("add", "maximum", add_program("3xf32"))
  expect_identical(largest(value(pjrt_compile_async(pjrt_program(text), fast))), dropped)
})

test_that("XLA_FLAGS overrides the default and a debug option overrides both", {
  code <- quote({
    x <- pjrt_buffer(c(1, NaN), "f32")
    y <- pjrt_buffer(c(NaN, 1), "f32")
    for (options in list(list(), list(xla_cpu_enable_fast_min_max = FALSE))) {
      options <- pjrt_compile_options(debug_options = options)
      cat(as_array(pjrt_execute(compile(sub("add", "maximum", add_program("2xf32")), options), x, y)), "\n")
    }
  })
  expect_clean(run_child(code, c(XLA_FLAGS = "--xla_cpu_enable_fast_min_max=true")), c("1 NaN ", "NaN NaN "))
  expect_clean(run_child(code, c(XLA_FLAGS = "--xla_cpu_enable_fast_math=false")), c("NaN NaN ", "NaN NaN "))
})

test_that("the cache distinguishes programs that keep NaN from those that do not", {
  folder <- withr::local_tempdir()
  code <- quote({
    for (flag in list(list(), list(xla_cpu_enable_fast_min_max = TRUE))) {
      options <- pjrt_compile_options(debug_options = flag)
      larger <- compile(sub("add", "maximum", add_program("2xf32")), options)
      cat(as_array(pjrt_execute(larger, pjrt_buffer(c(1, NaN), "f32"), pjrt_buffer(c(NaN, 1), "f32"))), "\n")
    }
    info <- pjrt_cache_info()
    cat(info$hits, info$misses, "\n")
  })
  env <- c(PJRT_CACHE = "1", R_USER_CACHE_DIR = folder, PJRT_PLUGIN_PATH_CPU = real_plugin())
  expect_clean(run_child(code, env), c("NaN NaN ", "1 NaN ", "0 2 "))
  expect_clean(run_child(code, env), c("NaN NaN ", "1 NaN ", "2 0 "))
})

test_that("a saved executable keeps its NaN behaviour", {
  expect_identical(largest(pjrt_deserialize(pjrt_serialize(larger()))), kept)
  file <- withr::local_tempfile()
  pjrt_save_executable(larger(fast), file)
  expect_identical(largest(pjrt_load_executable(file)), dropped)
})

# Runs code with tests/testthat/fixtures/other-plugin.c and returns the requests that the plugin logs.
asked_of_other <- function(how, code) {
  log <- withr::local_tempfile()
  library <- build_library(fixture("other-plugin.c"))
  child <- run_child(code, c(
    PJRT_PLUGIN_PATH_CPU = library, PJRT_REAL = real_plugin(), PJRT_FAKE = how, PJRT_LOG = log, PJRT_CACHE = "0"
  ))
  list(child = child, log = readLines(log))
}

test_that("if a compiler does not know the flags, programs are compiled without them from then on", {
  code <- quote({
    for (type in c("2xf32", "2xf64", "2xf16")) {
      x <- pjrt_buffer(c(1, 2), sub("2x", "", type))
      cat(as_array(pjrt_execute(compile(add_program(type)), x, x)), "\n")
    }
    again <- pjrt_deserialize(pjrt_serialize(compile(add_program("2xf32"))), compile_options = pjrt_compile_options())
    x <- pjrt_buffer(c(1, 2))
    cat(as_array(pjrt_execute(again, x, x)), "\n")
  })
  # After each refusal, a small program is tried in two forms, because the plugin may read only portable artifacts.
  refused <- c(names = 6L, silent = 3L)
  for (how in names(refused)) {
    asked <- asked_of_other(how, code)
    expect_clean(asked$child, rep("2 4 ", 4L))
    expect_identical(asked$log, c(rep("refused", refused[[how]]), rep("compiled", 4L)), label = how)
  }
})

test_that("errors of a compiler without the flags mention only the user's program and options", {
  code <- quote({
    first_line <- function(e) strsplit(conditionMessage(e), "\n")[[1L]][[1L]]
    say <- function(code) cat(tryCatch(code, pjrt_error = first_line), "\n")
    say(compile("func.func @main() -> tensor<f32> { return }"))
    own <- function(...) pjrt_compile_options(debug_options = list(...))
    say(compile(add_program("f32"), own(xla_no_such = TRUE)))
    say(compile(add_program("f32"), own(xla_cpu_enable_fast_min_max = TRUE)))
  })
  for (how in c("names", "silent")) {
    out <- expect_clean(asked_of_other(how, code)$child)$out
    expect_match(out[[2L]], "No such compile option: 'xla_no_such'", fixed = TRUE, label = how)
    wanted <- c(names = "No such compile option: 'xla_cpu_enable_fast_min_max'", silent = "What is this?")
    expect_match(out[[3L]], wanted[[how]], fixed = TRUE, label = how)
    expect_false(grepl("fast_min_max", out[[1L]]), label = how)
  }
})
