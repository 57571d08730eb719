console_objects <- function() {
  client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = 2L))
  program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
  withr::local_options(pjrt.cache = FALSE)
  executable <- pjrt_compile(program, device = devices(client)[[1L]])
  x <- pjrt_buffer(matrix(1:4, 2), "f32", device = devices(client)[[1L]])
  cache <- pjrt_cache_info()
  numbers <- vapply(cache, is.numeric, NA)
  cache[numbers] <- lapply(cache[numbers], function(number) 12)
  cache$dir <- "the folder"
  cache$problem <- NA_character_
  cache$enabled <- TRUE
  topology <- pjrt_topology(client)
  topology$serialized <- raw(1000)
  list(
    plugin = pjrt_plugin("cpu"), client = client, device = devices(client)[[1L]], memory = memory_spaces(client)[[1L]],
    topology = topology, program = program, executable = executable, buffer = x, promise = as_array_async(x),
    compile_options = pjrt_compile_options(num_replicas = 2L),
    execution_options = pjrt_execution_options(keep_inputs = "x"),
    cache = cache, place = pjrt_distributed(rank = 0, size = 2, store = "redis://:secret@host:6379", job = "today")
  )
}

test_that("objects print in one style", {
  objects <- console_objects()
  expect_snapshot(cran = TRUE, for (name in names(objects)) {
    cat("-- ", name, "\n", sep = "")
    print(objects[[name]])
  })
})

test_that("colours change no text, and labels and classes have one each", {
  skip_if_not_installed("cli")
  objects <- console_objects()
  # its text is a program's
  objects$program <- NULL
  for (x in objects) {
    plain <- utils::capture.output(print(x))
    withr::with_options(list(cli.num_colors = 256L), painted <- utils::capture.output(expect_invisible(print(x))))
    expect_identical(cli::ansi_strip(painted), plain)
    if (!inherits(x, "PJRTBuffer")) expect_match(painted[[1L]], "^\033\\[36m<[A-Za-z]+\033\\[39m")
  }
  withr::with_options(list(cli.num_colors = 256L), painted <- utils::capture.output(print(objects$topology)))
  expect_match(painted[-1L], "^\033\\[[0-9;]+m +[a-z ]+:\033\\[[0-9;]+m ")
})
