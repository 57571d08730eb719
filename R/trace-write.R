# Traces as files, in Chrome's trace event format.

# Writes a trace to a file, unless `path` is NULL, and returns it.
write_trace <- function(trace, path) {
  if (!is.null(path) && !is.null(trace)) {
    # text or doubles, as native code takes them
    columns <- lapply(trace$events, function(column) if (is.character(column)) enc2utf8(column) else as.double(column))
    call_with_text(ffi_trace_write, columns, trace$lanes, full_path(path))
  }
  trace
}

check_json_path <- function(path, name = "path") {
  if (is.null(path)) {
    return()
  }
  check_encoded(path, name)
  if (!grepl("[.]json$", path, ignore.case = TRUE)) {
    abort_input("`", name, "` must end with \".json\", but is '", path, "'.")
  }
}

# A string that R can work with.
check_encoded <- function(x, name) {
  check_string(x, name)
  if (!is_valid_text(x)) {
    abort_input("`", name, "` is not valid in its encoding: ", given(x), ".")
  }
}
