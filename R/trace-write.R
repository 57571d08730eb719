#' Write a trace to a file
#'
#' `pjrt_trace_write()` writes a trace as JSON in Chrome's trace event format. To look at it, open it in Perfetto
#' (<https://ui.perfetto.dev>), `chrome://tracing`, or Firefox's profiler.
#'
#' Each lane is a thread there. Events that overlap without one being inside the other get further rows. Sizes, shapes,
#' calls and lines are in `args`.
#'
#' @param trace A `PJRTTrace` from [pjrt_trace()].
#' @param file A string: the path, which ends with `.json`. An existing file is replaced.
#' @return `file`, invisibly.
#' @section Errors:
#' `pjrt_error_invalid_value` for another ending; `pjrt_error_io` if the file cannot be written.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' trace <- pjrt_trace(as_array(pjrt_buffer(1:3)))
#' file <- tempfile(fileext = ".json")
#' pjrt_trace_write(trace, file)
#' substr(readLines(file), 1, 60)
#' @export
pjrt_trace_write <- function(trace, file) {
  check_trace(trace)
  check_trace_file(file)
  text <- paste0(trace_as_json(trace), "\n")
  tryCatch(
    {
      connection <- file(path.expand(file), "wb")
      on.exit(close(connection))
      writeBin(charToRaw(enc2utf8(text)), connection)
    },
    error = function(e) pjrt_abort(sprintf("Cannot write '%s': %s.", file, conditionMessage(e)), "io"),
    warning = function(e) pjrt_abort(sprintf("Cannot write '%s': %s.", file, conditionMessage(e)), "io")
  )
  invisible(file)
}

check_trace_file <- function(file) {
  check_encoded(file, "file")
  if (!grepl("[.]json$", file, ignore.case = TRUE)) {
    abort_input("`file` must end with \".json\", but is '", file, "'.")
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
