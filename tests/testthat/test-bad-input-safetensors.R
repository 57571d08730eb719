# Bad input to functions for safetensors and NumPy files. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  pjrt_load_npy = row(
    path = of("path", npy_file), device = "device", names = of("none", NULL, "NULL"),
    dtype = of("choice", NULL, "NULL")
  ),
  pjrt_map_file = row(
    path = of("path", npy_file, "a file of bytes"), dtype = of("dtype", "ui8"),
    shape = of(
      "shape", 2L, "!NULL", "NA", "NA_integer_", "NA_real_", "a matrix", "integer()", "double()", "1L", "0L", "-1",
      "c(1, NA)"
    ),
    offset = of("none", 0, "1L", "0L"), row_major = "flag", device = "device"
  ),
  safe_tensor_buffer.PJRTBuffer = row(x = "buffer"),
  safe_tensor_meta.PJRTBuffer = row(x = "known_buffer"),
  pjrt_load_safetensors = row(
    path = of("path", model), device = "device", names = of("choice", "x", "NULL", tensors),
    extra = of("choice", "ignore"), separator = of("string", NULL, "NULL", "!\"\""), rename = of("ignored", NULL)
  ),
  pjrt_save_safetensors = row(
    tensors = of("list", list(x = x), "list()"), path = of("path", saved, file_names),
    metadata = of("list", NULL, "NULL", "list()", "character()", "c(n = \"a\")"),
    max_shard_size = of("size", NULL, "!0L", "!1e-300"),
    separator = of("string", ".", "!\"\""), rename = of("ignored", NULL),
    after = renew_paths()
  ),
  safetensors_info = row(path = of("path", model)),
  pjrt_open_safetensors = row(path = of("path", model), device = "known_device", after = close(made)),
  `$.PJRTSafetensors` = row(x = "model", name = of("ignored", "x")),
  `[.PJRTSafetensors` = row(x = "model", i = of("subscript", 1, tensors)),
  `[[.PJRTSafetensors` = row(x = "model", i = of("subscript", 1, "1L", "1.5"), exact = "any"),
  `$<-.PJRTSafetensors` = row(x = "model", of("string", "a"), value = "any", refuses = TRUE),
  `[<-.PJRTSafetensors` = row(x = "model", of("index", 1), value = "any", refuses = TRUE),
  `[[<-.PJRTSafetensors` = row(x = "model", of("index", 1), value = "any", refuses = TRUE),
  `length<-.PJRTSafetensors` = row(x = "model", value = "any", refuses = TRUE),
  `names<-.PJRTSafetensors` = row(x = "model", value = "any", refuses = TRUE),
  as.list.PJRTSafetensors = row(x = "model"),
  close.PJRTSafetensors = row(con = of("ended", pjrt_open_safetensors(model), "a closed model file")),
  format.PJRTSafetensors = row(x = of("model", opened, "a closed model file", of_files("PJRTSafetensors"))),
  length.PJRTSafetensors = row(x = "model"),
  names.PJRTSafetensors = row(x = "model"),
  print.PJRTSafetensors = row(x = of("model", opened, "a closed model file", of_files("PJRTSafetensors"))),
  all.equal.PJRTSafetensors = row(target = of("any", opened), current = "any"),
  str.PJRTSafetensors = row(object = "shown")
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `pjrt_save_safetensors(list(x = .))` = use(
    pjrt_save_safetensors(list(x = bad), saved), of("buffer", x, "NULL", "list()", "list(a = NULL)")
  ),
  `pjrt_save_safetensors(metadata = list(a = .))` = use(
    pjrt_save_safetensors(list(x = x), saved, list(a = bad)), of("string", NULL, "\"\"")
  )
)

test_that("functions of safetensors files refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 2100)
  expect_snapshot(cat(refusals(tried)))
})
