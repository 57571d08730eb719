# Traces as files, in Chrome's trace event format.

# Writes a trace to a file, unless `path` is NULL, and returns it.
write_trace <- function(trace, path) {
  # ends the recording, whatever becomes of the file
  force(trace)
  if (!is.null(path)) {
    replace_file(path.expand(path), charToRaw(enc2utf8(paste0(trace_as_json(trace), "\n"))))
  }
  trace
}

# Writes bytes to a file, which is left as it was if that fails.
replace_file <- function(path, bytes) {
  cannot <- function(e) pjrt_abort(sprintf("Cannot write '%s': %s.", path, conditionMessage(e)), "io")
  beside <- tempfile(".pjrt", dirname(path))
  on.exit(unlink(beside))
  tryCatch(
    {
      if (file.exists(path) && !utils::file_test("-f", path)) {
        stop("it is not a file")
      }
      connection <- file(beside, "wb")
      tryCatch(writeBin(bytes, connection), finally = close(connection))
      if (!identical(as.numeric(file.size(beside)), as.numeric(length(bytes)))) {
        stop("the disk is full, or the file may not become so large")
      }
      file.rename(beside, path)
    },
    error = cannot, warning = cannot
  )
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
