# Traces as files, in Chrome's trace event format.

# Writes a trace to a file, unless `path` is NULL, and returns it.
write_trace <- function(trace, path) {
  if (is.null(path)) {
    return(trace)
  }
  text <- paste0(trace_as_json(trace), "\n")
  cannot <- function(e) pjrt_abort(sprintf("Cannot write '%s': %s.", path, conditionMessage(e)), "io")
  tryCatch(
    {
      connection <- file(path.expand(path), "wb")
      on.exit(close(connection))
      writeBin(charToRaw(enc2utf8(text)), connection)
    },
    error = cannot, warning = cannot
  )
  trace
}

check_trace_path <- function(path) {
  if (is.null(path)) {
    return()
  }
  check_encoded(path, "path")
  if (!grepl("[.]json$", path, ignore.case = TRUE)) {
    abort_input("`path` must end with \".json\", but is '", path, "'.")
  }
}

# A string that R can work with.
check_encoded <- function(x, name) {
  check_string(x, name)
  if (!validEnc(x) || Encoding(x) == "bytes") {
    abort_input("`", name, "` is not valid in its encoding: ", given(x), ".")
  }
}

trace_as_json <- function(trace) {
  call_native(ffi_trace_json, as.list(lapply(trace$events, trace_column)), trace$lanes)
}

# Columns are text or doubles there.
trace_column <- function(column) {
  if (is.character(column)) enc2utf8(column) else as.double(column)
}
