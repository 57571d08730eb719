#' Write a trace to a file
#'
#' `pjrt_trace_write()` writes a page for a browser, or the JSON that trace viewers read.
#'
#' The page (`.html`) contains all it needs, so that it works without a network and can be sent to others. Zoom with the mouse
#' wheel, two fingers, the buttons, or the keys `+` and `-`; move with the mouse or the arrow keys; point at an event to see
#' its details.
#'
#' The JSON (`.json`) has Chrome's trace event format, which `chrome://tracing`, Perfetto's viewer, Firefox's profiler and
#' others open. Each lane is a thread there; events that overlap without one being inside the other get further rows. Sizes,
#' shapes, calls and lines are in `args`.
#'
#' @param trace A `PJRTTrace` from [pjrt_trace()].
#' @param file A string: the path, which ends with `.html` or `.json`. An existing file is replaced.
#' @return `file`, invisibly.
#' @section Errors:
#' `pjrt_error_invalid_value` for another ending; `pjrt_error_io` if the file cannot be written.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' trace <- pjrt_trace(as_array(pjrt_buffer(1:3)))
#' file <- tempfile(fileext = ".json")
#' pjrt_trace_write(trace, file)
#' substr(readLines(file), 1, 60)
#' page <- pjrt_trace_write(trace, tempfile(fileext = ".html"))
#' if (interactive()) browseURL(page)
#' @export
pjrt_trace_write <- function(trace, file) {
  check_trace(trace)
  form <- check_trace_file(file)
  json <- enc2utf8(trace_as_json(trace))
  text <- if (form == "json") paste0(json, "\n") else trace_page(trace, json)
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

# The form that a file's name asks for.
check_trace_file <- function(file) {
  check_encoded(file, "file")
  form <- tolower(sub(".*[.]", "", file))
  if (!form %in% c("html", "json")) {
    abort_input("`file` must end with \".html\" or \".json\", but is '", file, "'.")
  }
  form
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

trace_page <- function(trace, json) {
  template <- readLines(system.file("trace", "trace.html", package = "pjrt"), encoding = "UTF-8")
  colours <- sprintf("\"%s\":\"%s\"", names(trace_groups), trace_colours[trace_groups])
  # text of a program or call cannot end the script element
  data <- gsub("<", "\\u003c", json, fixed = TRUE)
  report <- paste(utils::capture.output(summary(trace)), collapse = "\n")
  for (escape in list(c("&", "&amp;"), c("<", "&lt;"))) {
    report <- gsub(escape[[1L]], escape[[2L]], report, fixed = TRUE)
  }
  parts <- list(
    "@REPORT@" = report, "@COLOURS@" = paste0("{", paste(colours, collapse = ","), "}"),
    "@SECONDS@" = format(trace$seconds, digits = 15), "@TRACE@" = data
  )
  for (name in names(parts)) {
    at <- which(grepl(name, template, fixed = TRUE))
    halves <- strsplit(paste0(template[[at]], "\n"), name, fixed = TRUE)[[1L]]
    template[[at]] <- paste0(halves[[1L]], parts[[name]], sub("\n$", "", halves[[2L]]))
  }
  paste(c(template, ""), collapse = "\n")
}
