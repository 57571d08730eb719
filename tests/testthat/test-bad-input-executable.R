# Bad input to functions for executables. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  device.PJRTLoadedExecutable = row(x = "known_executable"),
  devices.PJRTLoadedExecutable = row(x = "known_executable"),
  executable_cost = row(executable = "executable"),
  executable_fingerprint = row(executable = "executable"),
  executable_inputs = row(executable = "known_executable"),
  executable_memory_stats = row(executable = "executable"),
  executable_outputs = row(executable = "known_executable"),
  format.PJRTLoadedExecutable = row(x = of("any", add)),
  executable_hlo = row(executable = "executable", format = of("choice", "text")),
  pjrt_deserialize = row(
    data = of("none", serialized), device = "device", compile_options = of("compile_options", NULL, "NULL")
  ),
  pjrt_load_executable = row(path = "path", device = "device", compile_options = of("compile_options", NULL, "NULL")),
  pjrt_save_executable = row(executable = "executable", path = of("path", saved, file_names), after = renew_paths()),
  pjrt_serialize = row(executable = "executable"),
  print.PJRTLoadedExecutable = row(x = of("any", add)),
  summary.PJRTLoadedExecutable = row(object = "executable"),
  print.summary.PJRTLoadedExecutable = row(x = of("printed", summary(add)))
)

test_that("functions of executables refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, at_least = 1500)
  expect_snapshot(cat(refusals(tried)))
})
