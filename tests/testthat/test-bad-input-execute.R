# Bad input to functions that execute programs and shard arrays. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  pjrt_shard = row(
    x = of("data", c(1, 2), "logical()", "integer()", "double()", "1:1000", "a matrix"),
    devices = of("devices", here, "a device"), dim = of("index", 1, "NULL", "1L"), dtype = "dtype",
    input = of("index", NULL, "NULL"), tensor = of("index", NULL, "NULL")
  ),
  pjrt_unshard = row(
    buffers = of("list", list(x, x)), dim = of("index", 1, "NULL", "1L"),
    executable = of("executable", NULL, "NULL", "!an executable"), output = of("index", NULL, "NULL")
  ),
  pjrt_execute = row(
    executable = "executable", of("buffer", x), of("buffer", x), execution_options = "execution_options",
    simplify = "flag",
    check = "flag", inputs = of("list", NULL, "NULL")
  ),
  pjrt_execute_sharded = row(
    executable = of("executable", both, "!an executable"), inputs = of("list", list(x, z)),
    execution_options = of("execution_options", NULL), simplify = "flag"
  ),
  pjrt_execution_options = row(
    non_donatable_input_indices = of("index", 0L, "integer()", "0L", "1L", "1:2", "1:1000", "a matrix", "double()"),
    launch_id = of("index", 0L, "0L", "1L", "-1L", "-1"), device = "known_device",
    keep_inputs = of("index", NULL, kept)
  ),
  format.PJRTExecutionOptions = row(x = of("shown", options)),
  print.PJRTExecutionOptions = row(x = of("execution_options", options, of_files("PJRTExecutionOptions"))),
  all.equal.PJRTExecutionOptions = row(target = of("any", options), current = "any"),
  str.PJRTExecutionOptions = row(object = "shown")
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `pjrt_execute(inputs = list(x, .))` = use(pjrt_execute(add, inputs = list(x, bad)), "buffer"),
  `pjrt_execute(inputs = .)` = use(pjrt_execute(add, inputs = bad), of("list", list(x, x))),
  `pjrt_execute_sharded(inputs = list(x, .))` = use(
    pjrt_execute_sharded(both, list(x, bad)), of("buffer", NULL, "!a buffer")
  ),
  `pjrt_shard(devices = list(.))` = use(pjrt_shard(c(1, 2), list(bad)), of("devices", NULL, "a device")),
  `pjrt_shard(input = .)` = use(pjrt_shard(x, executable = add, input = bad), of("index", 1, "1L")),
  `pjrt_shard(executable = .)` = use(pjrt_shard(x, executable = bad, input = 1), of("executable", add)),
  `pjrt_shard(tensor = .)` = use(
    pjrt_shard(opened, executable = add, input = 1, tensor = bad), of("index", "x", "1L", "1.5")
  ),
  `pjrt_unshard(output = .)` = use(pjrt_unshard(list(x), executable = add, output = bad), of("index", 1, "NULL", "1L")),
  `pjrt_unshard(list(x, .))` = use(pjrt_unshard(list(x, bad)), "buffer"),
  `options(pjrt.dispatch = .)` = use(
    with_option("pjrt.dispatch", bad, pjrt_compile(program)), of("choice", NULL, "NULL")
  )
)

test_that("functions that execute and shard refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 2500)
  expect_snapshot(cat(refusals(tried)))
})
