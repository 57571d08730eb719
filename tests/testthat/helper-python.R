# Runs a script by the Python that PJRT_TEST_PYTHON names, which has what tools/python.txt lists; the lines it prints.
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

# What Python finds in files: for each its metadata and, of each tensor in the header's order, type, shape and bytes; of an
# index, the shard takes the place of the type.
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

# The same of a buffer.
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
