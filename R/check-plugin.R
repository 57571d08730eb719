#' Check a plugin
#'
#' `pjrt_check_plugin()` tries what this package needs of a plugin, and reports what passes, fails or is not supported.
#' It is for authors of plugins, and for users of a plugin that is new to them.
#'
#' The checks run in separate R processes, so that a plugin that crashes or hangs ends only them. They take up to a
#' minute on a CPU. The parts are:
#' * `start`: loading, versions, attributes, extensions, creating a client, devices, memory spaces
#' * `arrays`: values of every dtype to the device and back; vectors, matrices by row and by column, parts, copies
#' * `programs`: text, bytecode, a portable artifact and HLO
#' * `operations`: 60 operations on arrays of 1, 33, 64 and 1,000 elements and on a matrix, compared with R
#' * `running`: donation, results in order, errors, programs that run at the same time
#' * `interrupts`: time limits while a client is created and while a program compiles
#' * `saving`, `loading`: an executable that is saved by one process and run by another
#' * `exit`: a process that ends with pending work
#'
#' @param plugin A string: a platform, such as `"cpu"`, or the path of a plugin's library.
#' @param quick A logical: whether to try only some of it, in a second or two: whether the plugin starts, keeps an array
#'   and runs a program.
#' @param file A string: a file for the report, which ends with `.json` and is replaced if it exists, or `NULL`.
#' @param object,x,target,current A `PJRTPluginReport`.
#' @param ... Not used.
#' @return
#' * `pjrt_check_plugin()`: a `PJRTPluginReport`, a data frame with a row for each check: `part`, `check`, `result`
#'   (`"pass"`, `"fail"`, `"unsupported"` or `"skipped"`), `detail` (what went wrong) and `seconds`.
#' * `summary()`: the number of checks with each result.
#' * `all.equal()`: `TRUE`, or the checks with other results as strings.
#' @section Errors:
#' `pjrt_error_plugin_not_found` if there is no such plugin, `pjrt_error_io` if a file cannot be written.
#' @seealso [install_pjrt()], [plugin_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' report <- pjrt_check_plugin("cpu", quick = TRUE)
#' report
#' summary(report)
#' @export
pjrt_check_plugin <- function(plugin = default_platform(), quick = FALSE, file = NULL) {
  check_encoded(plugin, "plugin")
  check_flag(quick, "quick")
  check_json_path(file, "file")
  path <- if (grepl("[/\\\\]", plugin)) full_path(plugin) else plugin_path(plugin)
  if (!file.exists(native_path(path))) {
    pjrt_abort(paste0("There is no library at '", plugin, "'."), "plugin_not_found")
  }
  found <- run_plugin_parts(if (quick) "quick" else setdiff(names(plugin_checks), "quick"), path)
  found$is_crash <- NULL
  report <- structure(found, class = c("PJRTPluginReport", "data.frame"), plugin = path)
  if (!is.null(file)) {
    # a plugin may print any bytes
    json <- iconv(report_json(report), "UTF-8", "UTF-8", sub = "byte")
    call_with_text(ffi_plugin_report_write, json, full_path(file))
  }
  report
}

# The quick checks that a plugin fails, other than by an error when it starts.
broken_checks <- function(path) {
  found <- run_plugin_parts("quick", path)
  starts <- names(check_quick())[[1L]]
  has_started <- any(found$check == starts & found$result == "pass")
  found[found$result == "fail" & (has_started | found$is_crash), ]
}

# The results of parts, which share a folder.
run_plugin_parts <- function(parts, path) {
  folder <- tempfile("pjrt-check-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  do.call(rbind, lapply(parts, run_plugin_part, path = path, folder = folder))
}

# How many seconds a part may take: a plugin that compiles the operations in half a minute may need minutes on a busy
# machine.
plugin_part_limit <- 600

# Runs the checks of a part in a new process and returns their results.
run_plugin_part <- function(part, path, folder) {
  results <- file.path(folder, paste0(part, ".rds"))
  log <- file.path(folder, paste0(part, ".log"))
  arguments <- c("--vanilla", "-e", "pjrt:::check_plugin_part()", part, path, folder)
  status <- call_with_text(
    ffi_plugin_part_run, file.path(R.home("bin"), "Rscript"), arguments,
    paste0("R_LIBS=", paste(.libPaths(), collapse = .Platform$path.sep)), log, plugin_part_limit
  )
  found <- read_part_results(results, status)
  running <- vapply(found, function(check) check$result == "running", NA)
  found[running] <- lapply(found[running], function(check) {
    check$result <- "fail"
    check$detail <- ended_text(status, log)
    check$is_crash <- TRUE
    check
  })
  if (status != 0L && !any(running)) {
    found <- c(found, list(new_check("the process ends", "fail", ended_text(status, log), is_crash = TRUE)))
  }
  column <- function(name, kind) vapply(found, `[[`, kind, name)
  data.frame(
    part = part, check = column("check", ""), result = column("result", ""), detail = column("detail", ""),
    seconds = column("seconds", 0), is_crash = column("is_crash", NA)
  )
}

# What a process with this status has written. A full disk leaves no file, or a part of one, and no error.
read_part_results <- function(file, status) {
  found <- tryCatch(suppressWarnings(readRDS(file)), error = function(e) list())
  if (status == 0L && length(found) == 0L) {
    pjrt_abort(sprintf("The checks have not written their results to '%s': the disk may be full.", file), "io")
  }
  found
}

new_check <- function(check, result, detail = "", seconds = 0, is_crash = FALSE) {
  list(check = check, result = result, detail = detail, seconds = seconds, is_crash = is_crash)
}

# How a process ended, with the last line that it wrote.
ended_text <- function(status, log) {
  lines <- if (file.exists(log)) readLines(log, warn = FALSE) else character()
  lines <- lines[nzchar(trimws(lines))]
  how <- if (status == 124L) sprintf("it did not end within %g seconds", plugin_part_limit) else {
    sprintf("the process ended with status %d", status)
  }
  paste(c(how, if (length(lines) > 0L) lines[[length(lines)]]), collapse = ": ")
}

# In the new process: runs the checks of a part, and writes the results after each, so that the one that ends the
# process is known.
check_plugin_part <- function(arguments = commandArgs(trailingOnly = TRUE)) {
  part <- arguments[[1L]]
  path <- arguments[[2L]]
  folder <- arguments[[3L]]
  options(pjrt.cache = FALSE, pjrt.progress = FALSE)
  results <- file.path(folder, paste0(part, ".rds"))
  checks <- plugin_checks[[part]](path, folder)
  found <- list()
  for (name in names(checks)) {
    saveRDS(c(found, list(new_check(name, "running"))), results)
    start <- proc.time()[["elapsed"]]
    outcome <- plugin_outcome(checks[[name]])
    found <- c(found, list(new_check(name, outcome$result, outcome$detail, proc.time()[["elapsed"]] - start)))
    saveRDS(found, results)
  }
}

# What a check comes to. It returns TRUE, or what is wrong as text, or a skip.
plugin_outcome <- function(check) {
  tryCatch(
    {
      value <- check()
      if (inherits(value, "pjrt_skipped")) {
        list(result = "skipped", detail = value$reason)
      } else if (isTRUE(value)) {
        list(result = "pass", detail = "")
      } else {
        list(result = "fail", detail = paste(value, collapse = "; "))
      }
    },
    pjrt_error_unimplemented = function(e) list(result = "unsupported", detail = first_line(e)),
    pjrt_error_unsupported_call = function(e) list(result = "unsupported", detail = first_line(e)),
    pjrt_error_unsupported_dtype = function(e) list(result = "unsupported", detail = first_line(e)),
    error = function(e) list(result = "fail", detail = first_line(e))
  )
}

first_line <- function(condition) strsplit(conditionMessage(condition), "\n", fixed = TRUE)[[1L]][[1L]]

skipped <- function(reason) structure(list(reason = reason), class = "pjrt_skipped")

#' @export
format.PJRTPluginReport <- function(x, ...) {
  check_unused(...)
  counts <- summary(x)
  shown <- x[x$result %in% c("fail", "unsupported"), ]
  c(
    sprintf("<PJRTPluginReport: %s>", paste(counts, names(counts), collapse = ", ")),
    sprintf("  plugin: %s", attr(x, "plugin")),
    sprintf("  %-11s %s, %s: %s", shown$result, shown$part, shown$check, shown$detail)
  )
}

#' @rdname pjrt_check_plugin
#' @export
print.PJRTPluginReport <- function(x, ...) {
  print_lines(x)
}

#' @rdname pjrt_check_plugin
#' @export
summary.PJRTPluginReport <- function(object, ...) {
  check_unused(...)
  check_report(object)
  counts <- table(factor(object$result, c("pass", "fail", "unsupported", "skipped")))
  structure(as.integer(counts), names = names(counts))
}

#' @rdname pjrt_check_plugin
#' @method all.equal PJRTPluginReport
#' @export
all.equal.PJRTPluginReport <- function(target, current, ...) {
  check_unused(...)
  check_report(target)
  if (!inherits(current, "PJRTPluginReport")) {
    abort_type("`current` must be a PJRTPluginReport, not ", given(current), ".")
  }
  check_report(current)
  both <- merge(
    as.data.frame(target)[c("part", "check", "result")], as.data.frame(current)[c("part", "check", "result")],
    by = c("part", "check"), all = TRUE, suffixes = c(".target", ".current"), sort = FALSE
  )
  both[is.na(both)] <- "not checked"
  other <- both[both$result.target != both$result.current, ]
  if (nrow(other) == 0L) {
    return(TRUE)
  }
  sprintf("%s, %s: %s, now %s", other$part, other$check, other$result.target, other$result.current)
}

#' @export
as.data.frame.PJRTPluginReport <- function(x, ...) {
  check_report(x)
  structure(x, class = "data.frame", plugin = NULL)
}

check_report <- function(x) check_intact(x, "PJRTPluginReport", parts = c("part", "check", "result", "detail"))

report_json <- function(report) {
  text <- function(x) {
    x <- gsub("([\"\\\\])", "\\\\\\1", enc2utf8(x))
    sprintf("\"%s\"", gsub("[[:cntrl:]]", " ", x))
  }
  rows <- sprintf(
    "    {\"part\": %s, \"check\": %s, \"result\": %s, \"detail\": %s, \"seconds\": %s}",
    text(report$part), text(report$check), text(report$result), text(report$detail),
    format(round(report$seconds, 3), trim = TRUE, decimal.mark = ".", scientific = FALSE)
  )
  paste0(
    "{\n  \"plugin\": ", text(attr(report, "plugin")),
    ",\n  \"pjrt\": ", text(as.character(utils::packageVersion("pjrt"))),
    ",\n  \"checks\": [\n", paste(rows, collapse = ",\n"), "\n  ]\n}\n"
  )
}
