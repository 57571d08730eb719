# Runs a script with PJRT_TEST_PYTHON, which has the packages of tools/python.txt. Returns the lines that it prints.
run_python <- function(script, ...) {
  run <- processx::run(test_python(), c(script, ...), error_on_status = FALSE)
  if (run$status != 0L) stop(run$stderr)
  strsplit(run$stdout, "\n", fixed = TRUE)[[1L]]
}

test_python <- function() {
  python <- Sys.getenv("PJRT_TEST_PYTHON")
  testthat::skip_if(!nzchar(python), "PJRT_TEST_PYTHON names no Python; sh tools/test.sh makes one")
  python
}

# Lists files in Python. Returns each file's metadata and the type, shape and bytes of its tensors, in the header's
# order. For an index, the shard replaces the type.
python_list <- function(paths) {
  lines <- run_python(fixture("tensors.py"), "list_file", paths)
  files <- split(lines, cumsum(lines == "file"))
  lapply(unname(files), function(file) {
    fields <- strsplit(paste0(file[-1L], "\t"), "\t", fixed = TRUE)
    is_tensor <- lengths(fields) == 4L
    names <- vapply(fields, function(field) from_hex(field[[1L]]), "")
    metadata <- vapply(fields[!is_tensor], function(field) from_hex(field[[2L]]), "")
    tensors <- lapply(fields[is_tensor], function(field) {
      list(dtype = from_hex(field[[2L]]), shape = from_hex(field[[3L]]), bytes = field[[4L]])
    })
    list(
      metadata = stats::setNames(metadata, names[!is_tensor]), tensors = stats::setNames(tensors, names[is_tensor])
    )
  })
}

# A buffer in the same form.
as_listed <- function(x) {
  list(
    dtype = safe_tensor_meta.PJRTBuffer(x)$dtype, shape = paste(shape(x), collapse = ","),
    bytes = paste(safe_tensor_buffer.PJRTBuffer(x), collapse = "")
  )
}

from_hex <- function(hex) {
  text <- rawToChar(as.raw(strtoi(regmatches(hex, gregexpr("..", hex))[[1L]], 16L)))
  Encoding(text) <- "UTF-8"
  text
}
