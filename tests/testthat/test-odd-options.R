# Printing under options of R that users set.

program <- pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt"))
step <- pjrt_compile(program)
x <- pjrt_buffer(matrix(c(1.5, -2e6, 3e-7, NaN), 2))
objects <- list(
  buffer = x, truth = x > 0, integers = pjrt_buffer(1:3), empty = pjrt_buffer(numeric(), shape = 0L),
  client = pjrt_client("cpu"), device = pjrt_device("cpu"), plugin = pjrt_plugin("cpu"), memory = memory_space(x),
  program = program, executable = step, info = summary(step), cost = executable_cost(step, "operation"),
  "function" = pjrt_function(step), step = pjrt_step(step, c(weights = 1, velocity = 2)),
  promise = as_array_async(x), clients = client_info(), devices = device_info("cpu"), sitrep = pjrt_sitrep(),
  cache = pjrt_cache_info(), memories = pjrt_memory_stats(), plugins = pjrt_plugins(),
  benchmark = pjrt_benchmark(compile(unary_program("2xf32")), pjrt_buffer(1:2, "f32"), times = 2, limits = FALSE),
  trace = pjrt_trace(await(x + 1)), summary = summary(x), tree = build_tree(list(a = 1, 2)),
  exported = pjrt_load_exported(fixture("exported/train.jaxexport"))
)

shown <- function(object) {
  capture.output({
    print(object)
    utils::str(object)
  })
}

options_sets <- list(
  decimal_comma = list(OutDec = ","), fixed = list(scipen = 100), scientific = list(scipen = -20, digits = 3),
  digits = list(digits = 22), narrow = list(width = 20), quotes = list(useFancyQuotes = TRUE),
  factors = list(stringsAsFactors = TRUE), no_columns = list(max.print = 1)
)

for (name in names(options_sets)) {
  test_that(paste("everything prints with the options of", name), {
    # setting these may warn itself
    suppressWarnings(withr::local_options(options_sets[[name]]))
    withr::local_options(warn = 2)
    for (object in names(objects)) {
      expect_no_condition(shown(objects[[object]]), message = NULL)
    }
  })
}

test_that("everything prints in the C locale", {
  withr::local_locale(c(LC_CTYPE = "C", LC_COLLATE = "C"))
  withr::local_options(warn = 2)
  for (object in names(objects)) {
    expect_no_condition(shown(objects[[object]]), message = NULL)
  }
})
