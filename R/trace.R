#' Record a trace
#'
#' `pjrt_trace()` evaluates R code and records what R, the package's threads and the devices do. Print the trace for a
#' short report with advice, `plot()` it, or open it in a browser. `pjrt_start_trace()` and `pjrt_stop_trace()` do the
#' same for code that is not a single expression.
#'
#' These events are recorded, each with its begin, end and lane, and where they apply with size, dtype, shape and the
#' name of the program:
#' * `call`: a call of this package from R
#' * `compile`: a compilation, and `phase`, its parts; `outcome` says whether the program came from the cache
#' * `upload`, and its `conversion` of R's values; `transfer`, a copy between host memory and a device with its own
#'   memory
#' * `launch`: a program is handed to a device; `run`: the device runs it
#' * `wait`: R or a thread waits for a result; `download`: values are converted for R
#' * `callback`: an R function that a program calls; `gc`: a garbage collection that the package asks R for
#' * `file`: a file of arrays is read or written; `work`: a thread's share of any of these
#' * `device`: a kernel, copy or other operation on the device's own timeline
#'
#' A run lasts from its launch, or from the end of the previous run on its device, until its outputs are ready. If a
#' device runs programs side by side, these share that time.
#'
#' Lanes are R's main thread (`"R"`), a thread for launches on each device that would block R (`"dispatch 0"`, ...), the
#' thread that converts large arrays (`"upload"`), threads of compilers and of work in many parts, and the devices.
#'
#' Plugins for GPUs and TPUs have a profiler. It is started with the trace if the plugin is loaded by then, which
#' creating a client does, and adds lanes of the device's own timeline, such as `"GPU:0 stream 13 (Compute)"`. NVIDIA's
#' profiler needs the library CUPTI, which [install_pjrt()] installs. The CPU plugin has no profiler.
#'
#' The line in R's code is known where R keeps source references: see `options(keep.source = TRUE)`, the default in
#' interactive sessions. Otherwise only the call is known.
#'
#' A file contains the trace as JSON in Chrome's trace event format. To view it, open it in Perfetto
#' (<https://ui.perfetto.dev>), `chrome://tracing`, or Firefox's profiler. Each lane is a thread there. Overlapping
#' events that are not nested get additional rows. Sizes, shapes, calls and lines are in `args`.
#'
#' While no trace is recorded, this costs nothing. While a trace is recorded, each call takes about 20 microseconds
#' longer, and each other event costs a microsecond and some hundred bytes of memory. Child processes of a fork record
#' nothing.
#'
#' @param expr R code.
#' @param path A string: a file to write the trace to, which ends with `.json` and is replaced if it exists, or `NULL`.
#'   `pjrt_trace()` writes it even if `expr` fails.
#' @param max_events A number: the most events to keep, the first ones. The trace says how many were dropped.
#' @return `pjrt_trace()` and `pjrt_stop_trace()`: a `PJRTTrace`. `pjrt_start_trace()`: `NULL`, invisibly. As a data
#'   frame, a trace has a row for each event and the columns `start` and `end` (seconds), `lane`, `kind`, `name`,
#'   `bytes`, `dtype`, `shape`, `program`, `call`, `line`, `file` and `outcome`; the last ones are `NA` where unknown.
#' @section Errors:
#' `pjrt_error_trace` if a trace is already being recorded, or, for `pjrt_stop_trace()`, if none is.
#' `pjrt_error_invalid_value` for a path with another ending; `pjrt_error_io` if the file cannot be written.
#'
#' If a plugin's profiler fails, the trace lacks its timeline, and there is a warning of class `pjrt_warning_profiler`
#' when the trace ends.
#' @seealso [summary.PJRTTrace()], [plot.PJRTTrace()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
#' add <- pjrt_compile(pjrt_program(path = path))
#' trace <- pjrt_trace({
#'   x <- pjrt_buffer(matrix(1:4, 2), "f32")
#'   for (i in 1:3) x <- pjrt_execute(add, x, x)
#'   as_array(x)
#' })
#' trace
#' events <- as.data.frame(trace)
#' subset(events, kind != "call", c(lane, kind, dtype, shape, call))
#' @export
pjrt_trace <- function(expr, path = NULL, max_events = 2e5) {
  check_json_path(path)
  pjrt_start_trace(max_events)
  # the error of `expr` is the one to be seen
  on.exit(tryCatch(write_trace(stop_trace(), path), pjrt_error = function(e) warn(conditionMessage(e))))
  force(expr)
  on.exit()
  pjrt_stop_trace(path)
}

#' @rdname pjrt_trace
#' @export
pjrt_start_trace <- function(max_events = 2e5) {
  is_number <- !is.object(max_events) && is.numeric(max_events) && length(max_events) == 1L && is.finite(max_events)
  if (!is_number || max_events < 1) {
    abort_type("`max_events` must be a positive number, not ", given(max_events), ".")
  }
  # R loads and compiles these functions at their first use, which is not to be in the trace
  n <- sys.nframe()
  describe_site(n, sys.call(), innermost_reference(n))
  failures <- call_native(ffi_trace_start, as.double(min(max_events, 1e8)))
  if (is.null(failures)) {
    pjrt_abort("A trace is being recorded already.", "trace", hints = "End it with pjrt_stop_trace().")
  }
  the$is_traced <- TRUE
  the$profiler_failures <- failures
  the$trace_sites <- list()
  invisible()
}

#' @rdname pjrt_trace
#' @export
pjrt_stop_trace <- function(path = NULL) {
  check_json_path(path)
  trace <- stop_trace()
  if (is.null(trace)) {
    pjrt_abort("No trace is being recorded.", "trace", hints = "Start one with pjrt_start_trace().")
  }
  write_trace(trace, path)
}

# The trace; NULL if there is none.
stop_trace <- function() {
  the$is_traced <- FALSE
  the$trace_sites <- list()
  columns <- call_native(ffi_trace_stop)
  if (is.null(columns)) {
    return(NULL)
  }
  columns$line <- as.integer(columns$line)
  names <- c(
    "start", "end", "lane", "kind", "name", "bytes", "dtype", "shape", "program", "call", "line", "file", "outcome"
  )
  timelines <- unique(columns$lane[columns$kind == "device"])
  devices <- setdiff(columns$lane[columns$is_device], timelines)
  threads <- setdiff(columns$lane, c("R", devices, timelines))
  failures <- c(the$profiler_failures, columns$failures)
  the$profiler_failures <- NULL
  warn_profilers(failures)
  structure(
    class = "PJRTTrace",
    list(
      events = as.data.frame(columns[names], stringsAsFactors = FALSE),
      lanes = c("R", sort(threads), sort(devices), sort_numbered(timelines)), devices = sort(devices),
      seconds = columns$length, dropped = columns$dropped, ended = Sys.time()
    )
  )
}

# `failures` are texts that begin with the plugin's path.
warn_profilers <- function(failures) {
  for (failure in unique(failures)) {
    warn(
      "The trace lacks a device's timeline, or a part of it. The profiler of ", failure, class = "pjrt_warning_profiler"
    )
  }
}

# Sorts texts by the numbers in them: "stream 9" comes before "stream 10".
sort_numbered <- function(texts) {
  padded <- texts
  regmatches(padded, gregexpr("[0-9]+", padded)) <- lapply(
    regmatches(texts, gregexpr("[0-9]+", texts)), formatC, width = 20L, flag = " "
  )
  texts[order(padded)]
}

check_trace <- function(x) {
  if (!inherits(x, "PJRTTrace")) {
    abort_type("`trace` must be a `PJRTTrace`, not ", given(x), ".")
  }
  check_intact(x, "PJRTTrace", parts = c("events", "lanes", "devices", "seconds", "dropped"), name = "trace")
}

# Called by the native side and call_native(): the call of this package from outside, with its place in the user's code.
# It takes longer to describe a call than to find it, so the last ones are kept.
trace_site <- function(...) {
  namespace <- topenv()
  parents <- sys.parents()
  # those who ask are not asked for
  n <- sys.nframe() - 1L
  is_ours <- function(n) n > 0L && identical(topenv(environment(sys.function(n)) %||% baseenv(), NULL), namespace)
  while (n > 0L && !(is_ours(n) && !is_ours(if (parents[n] >= n) n - 1L else parents[n]))) {
    n <- n - 1L
  }
  if (n == 0L) {
    return(list())
  }
  call <- sys.call(n)
  reference <- innermost_reference(n)
  for (known in the$trace_sites) {
    if (identical(known$call, call) && identical(known$reference, reference)) {
      return(known$site)
    }
  }
  site <- describe_site(n, call, reference)
  the$trace_sites <- utils::head(c(list(list(call = call, reference = reference, site = site)), the$trace_sites), 16L)
  site
}

describe_site <- function(n, call, reference) {
  is_method <- n > 1L && is_method_of(call, sys.call(n - 1L))
  call <- if (is_method) sys.call(n - 1L) else as_written(call, sys.frame(n))
  called <- call[[1L]]
  if (is.call(called) && length(called) == 3L) called <- called[[3L]]
  file <- if (!is.null(reference)) attr(reference, "srcfile")$filename
  list(
    name = if (is.symbol(called)) as.character(called) else "function", call = trace_label(call),
    file = if (is.character(file) && !startsWith(file, "<")) basename(file),
    line = if (!is.null(reference)) as.numeric(reference[[1L]])
  )
}

# A call in at most a line.
trace_label <- function(call) {
  attributes(call) <- NULL
  clipped(paste(trimws(deparse(call, width.cutoff = 500L, nlines = 1L)), collapse = " "), 60L)
}

# The innermost source reference, from frame `n` outwards.
innermost_reference <- function(n) {
  while (n > 0L) {
    reference <- attr(sys.call(n), "srcref")
    if (!is.null(reference)) {
      return(reference)
    }
    n <- n - 1L
  }
  NULL
}

#' @export
as.data.frame.PJRTTrace <- function(x, row.names = NULL, optional = FALSE, ...) {
  check_trace(x)
  x$events
}
