some_trace <- function(path = NULL) {
  exe <- compile(unary_program("500x500xf32"))
  code <- parse(text = "for (i in 1:5) {
    x <- pjrt_execute(exe, pjrt_buffer(matrix(1, 500, 500), 'f32'))
    y <- as_array(x)
  }", keep.source = TRUE)
  pjrt_trace(eval(code), path)
}

# The rules of Chrome's trace event format that viewers rely on.
expect_trace_format <- function(json) {
  expect_true(validUTF8(json))
  trace <- jsonlite::fromJSON(json, simplifyVector = FALSE)
  expect_true(all(c("traceEvents", "displayTimeUnit") %in% names(trace)))
  expect_true(trace$displayTimeUnit %in% c("ms", "ns"))
  is_integer <- function(x) is.numeric(x) && x == trunc(x)
  for (event in trace$traceEvents) {
    expect_true(is.character(event$name) && nzchar(event$name))
    expect_true(is_integer(event$pid) && is_integer(event$tid))
    expect_true(event$ph %in% c("X", "M"))
    if (event$ph == "M") {
      expect_true(event$name %in% c("process_name", "thread_name", "thread_sort_index"))
      value <- event$args[[if (event$name == "thread_sort_index") "sort_index" else "name"]]
      expect_true(if (event$name == "thread_sort_index") is_integer(value) else is.character(value))
    } else {
      expect_true(is.character(event$cat) && is.numeric(event$ts) && event$ts >= 0)
      expect_true(is.numeric(event$dur) && event$dur >= 0)
      expect_true(length(event$args) == 0L || !is.null(names(event$args)))
    }
  }
  # slices of a thread must nest
  slices <- Filter(function(event) event$ph == "X", trace$traceEvents)
  for (thread in split(slices, vapply(slices, function(event) as.character(event$tid), ""))) {
    start <- round(1e3 * vapply(thread, function(event) as.numeric(event$ts), 0))
    end <- start + round(1e3 * vapply(thread, function(event) as.numeric(event$dur), 0))
    crosses <- outer(start, start, "<") & outer(end, start, ">") & outer(end, end, "<")
    expect_false(any(crosses))
  }
  tids <- unique(vapply(slices, function(event) as.numeric(event$tid), 0))
  named <- Filter(function(event) event$name == "thread_name", trace$traceEvents)
  expect_true(all(tids %in% vapply(named, function(event) as.numeric(event$tid), 0)))
  invisible(trace)
}

test_that("JSON has every event, in the format of trace viewers", {
  file <- withr::local_tempfile(fileext = ".json")
  trace <- some_trace(file)
  json <- expect_trace_format(paste(readLines(file, encoding = "UTF-8"), collapse = "\n"))
  slices <- Filter(function(event) event$ph == "X", json$traceEvents)
  events <- as.data.frame(trace)
  expect_identical(length(slices), nrow(events))
  expect_equal(vapply(slices, function(event) event$ts, 0), sort(1e6 * events$start), tolerance = 1e-6)
  download <- Find(function(event) event$cat == "download", slices)
  expected <- list(dtype = "f32", shape = "[500x500]", bytes = 1e6, line = 3)
  expect_equal(download$args[names(expected)], expected)
})

test_that("text of any kind is escaped, and events that cross get rows of their own", {
  trace <- some_trace()
  events <- trace$events[c(1, 1, 1), ]
  events[c("start", "end")] <- data.frame(c(0, 1, 2), c(2, 3, 4)) / 1e3
  events[c("lane", "kind")] <- list("R", "run")
  events$call <- c("a \"quoted\" \\ \n\t\001 text", "</script><script>alert(1)</script>", "\u00e9 \u2028 \U1F600")
  trace$events <- events
  file <- withr::local_tempfile(fileext = ".json")
  expect_identical(pjrt:::write_trace(trace, file), trace)
  json <- expect_trace_format(paste(readLines(file, encoding = "UTF-8"), collapse = "\n"))
  slices <- Filter(function(event) event$ph == "X", json$traceEvents)
  expect_identical(vapply(slices, function(event) event$args$call, ""), events$call)
  expect_identical(vapply(slices, function(event) as.integer(event$tid), 1L), c(1L, 2L, 1L))
})

test_that("other files and missing folders are refused", {
  expect_refused(pjrt_trace(stop("not reached"), path = "trace"), "invalid_value", "`path` must end with")
  missing <- file.path(tempdir(), "none", "a.json")
  expect_refused(pjrt_trace(NULL, path = missing), "io")
  # a trace goes on if its path is refused, and ends if it cannot be written
  pjrt_start_trace()
  expect_refused(pjrt_stop_trace("trace.html"), "invalid_value", "`path` must end with")
  expect_refused(pjrt_stop_trace(missing), "io")
  expect_refused(pjrt_stop_trace(), "trace", "No trace is being recorded")
})

test_that("a full disk leaves the existing file unchanged", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  path <- file.path(folder, "trace.json")
  writeLines("before", path)
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(deparse(bquote({
    library(pjrt)
    trace <- pjrt_trace(for (i in 1:200) pjrt_scalar(i))
    error <- tryCatch(pjrt:::write_trace(trace, .(path)), error = identity)
    cat(class(error)[[1L]], "\n")
  })), script)
  # files are limited to 4 kB
  limited <- sprintf("ulimit -f 8; exec '%s' --vanilla '%s'", rscript(), script)
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = ":"), TMPDIR = tempdir())
  out <- suppressWarnings(system2("sh", c("-c", shQuote(limited)), stdout = TRUE, stderr = TRUE))
  expect_identical(out, "pjrt_error_io ")
  expect_identical(readLines(path), "before")
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "trace.json")
  expect_refused(pjrt:::write_trace(pjrt_trace(NULL), folder), "io", "it is not a file")
})
