# Bad input to functions for executables. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  device.PJRTLoadedExecutable = row(x = "known_executable"),
  devices.PJRTLoadedExecutable = row(x = "known_executable", addressable = "flag"),
  executable_cost = row(executable = "executable", by = of("choice", "total")),
  as_dot.PJRTLoadedExecutable = row(
    x = "executable", max_nodes = of("none", 50, "integer64", "1L", "1.5", "Inf", "1e300", "2^31", "2^53", "1e18")
  ),
  print.PJRTOperationCosts = row(x = of("printed", executable_cost(add, "operation")), n = of("none", 10, whole, "0L")),
  plot.PJRTOperationCosts = row(
    x = of("printed", executable_cost(add, "operation")), n = of("none", 10, whole, "0L"), main = of("string", "title"),
    after = grDevices::graphics.off()
  ),
  `[.PJRTOperationCosts` = row(x = of("printed", executable_cost(add, "operation"))),
  print.PJRTDot = row(x = of("printed", as_dot(add), "a string as PJRTDot")),
  knit_print.PJRTLoadedExecutable = row(x = of("any", add)),
  knit_print.PJRTOperationCosts = row(
    x = of("printed", executable_cost(add, "operation")), n = of("none", 10, whole, "0L")
  ),
  knit_print.PJRTDot = row(x = of("printed", as_dot(add), "a string as PJRTDot")),
  type_sum.PJRTLoadedExecutable = row(x = of("any", add)),
  obj_sum.PJRTLoadedExecutable = row(x = of("any", add)),
  executable_info = row(executable = "known_executable"),
  format.PJRTLoadedExecutable = row(x = of("any", add)),
  pjrt_benchmark = row(
    executable = "executable", of("buffer", x), of("buffer", x), times = of("index", 1, "1L"),
    inputs = of("list", NULL, "NULL"), execution_options = "execution_options", limits = of("flag", FALSE)
  ),
  format.PJRTBenchmark = row(x = of("printed", measured)),
  print.PJRTBenchmark = row(x = of("printed", measured)),
  as.data.frame.PJRTBenchmark = row(
    x = of("printed", measured), row.names = of("any", NULL), optional = of("any", FALSE)
  ),
  plot.PJRTBenchmark = row(
    x = of("printed", measured), main = of("string", "title"), after = grDevices::graphics.off()
  ),
  format.PJRTComparison = row(x = of("printed", compared)),
  print.PJRTComparison = row(x = of("printed", compared)),
  as.data.frame.PJRTComparison = row(
    x = of("printed", compared), row.names = of("any", NULL), optional = of("any", FALSE)
  ),
  plot.PJRTComparison = row(
    x = of("printed", compared), main = of("string", "title"), after = grDevices::graphics.off()
  ),
  pjrt_deserialize = row(
    data = of("none", serialized), device = "device", compile_options = of("compile_options", NULL, "NULL")
  ),
  pjrt_load_executable = row(path = "path", device = "device", compile_options = of("compile_options", NULL, "NULL")),
  pjrt_save_executable = row(executable = "executable", path = of("path", saved, file_names), after = renew_paths()),
  pjrt_serialize = row(x = of("executable", add, "a buffer", "a program")),
  pjrt_function = row(
    x = of("known_executable", add, "a program"), as = of("choice", "buffer"), device = of("none", NULL, "NULL"),
    arguments = of("none", c("a", "b"), "NULL", "c(\"a\", \"b\")")
  ),
  format.PJRTFunction = row(x = of("printed", pjrt_function(add))),
  print.PJRTFunction = row(x = of("printed", pjrt_function(add))),
  all.equal.PJRTFunction = row(target = of("any", pjrt_function(add)), current = "any"),
  str.PJRTFunction = row(object = of("printed", pjrt_function(add))),
  summary.PJRTFunction = row(object = of("printed", pjrt_function(add))),
  pjrt_step = row(
    f = of("executable", pjrt_function(add), "a program", "a closed executable"), state = of("choice", c(x = 1)),
    outputs = of("none", NULL, "NULL", "character()")
  ),
  format.PJRTStep = row(x = of("printed", pjrt_step(add, c(x = 1)))),
  print.PJRTStep = row(x = of("printed", pjrt_step(add, c(x = 1)))),
  all.equal.PJRTStep = row(target = of("any", pjrt_step(add, c(x = 1))), current = "any"),
  str.PJRTStep = row(object = of("printed", pjrt_step(add, c(x = 1)))),
  summary.PJRTStep = row(object = of("printed", pjrt_step(add, c(x = 1)))),
  print.PJRTLoadedExecutable = row(x = of("any", add)),
  all.equal.PJRTLoadedExecutable = row(target = of("any", add), current = "any"),
  str.PJRTLoadedExecutable = row(object = of("any", add)),
  format.PJRTExecutable = row(x = of("printed", unloaded)),
  print.PJRTExecutable = row(x = of("printed", unloaded)),
  str.PJRTExecutable = row(object = of("printed", unloaded)),
  summary.PJRTLoadedExecutable = row(object = "executable"),
  print.PJRTExecutableInfo = row(x = of("printed", summary(add)))
)

# Bad values inside an argument; `.` in the name stands for the value.
uses <- list(
  `pjrt_function(add)(x, .)` = use(pjrt_function(add)(x, bad), of("buffer", NULL, "1:2", "c(TRUE, FALSE)"))
)

test_that("functions of executables refuse bad input with an error of this package", {
  withr::local_options(device = function(...) grDevices::pdf(NULL))
  withr::defer(grDevices::graphics.off())
  tried <- try_bad_input(rows, uses, at_least = 2000)
  expect_snapshot(cat(refusals(tried)))
})
