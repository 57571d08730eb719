#' Summarize a trace
#'
#' `summary()` shows what R and the devices did during a trace, where R waited, and what to change. Printing a trace
#' prints its summary.
#'
#' Time of R's main thread is counted once, for the innermost event: time of a `wait` in a call counts as `wait`. `R` is
#' the time outside of this package's functions, and `call` the time in them that no other event explains. A device is
#' busy while a program runs on it.
#'
#' @param object,x A `PJRTTrace` from [pjrt_trace()], or its summary.
#' @param ... Ignored.
#' @return `summary()`: a list of class `summary.PJRTTrace`:
#' * `seconds`: the length of the trace, `events`: their number, and `dropped`: events beyond its limit
#' * `r`: a data frame of the time of R's main thread: `kind`, `seconds`, `share`
#' * `devices`: a data frame: `device`, `runs`, `busy` (seconds), and `idle` (share of the trace)
#' * `waits`: a data frame of the places where R waited, longest first: `call`, `file`, `line`, `times`, `seconds`
#' * `programs`: a data frame: `program`, `runs`, `seconds` and `median` of a run's seconds
#' * `compiles`: a data frame: `program`, `outcome`, `times`, `seconds`
#' * `operations`: a data frame of the operations on the devices' own timelines, where plugins have a profiler: `name`,
#'   `program`, `times`, `seconds`
#' * `advice`: texts
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' trace <- pjrt_trace(for (i in 1:100) as_array(pjrt_buffer(i)))
#' summary(trace)
#' summary(trace)$r
#' @export
summary.PJRTTrace <- function(object, ...) {
  check_unused(...)
  check_trace(object)
  events <- object$events
  out <- list(
    seconds = object$seconds, dropped = object$dropped, events = nrow(events),
    r = trace_r_time(events, object$seconds), devices = trace_devices(events, object$devices, object$seconds),
    waits = trace_waits(events), programs = trace_programs(events),
    compiles = trace_sums(events[events$kind == "compile", ], c("program", "outcome")),
    operations = trace_sums(events[events$kind == "device", ], c("name", "program"))
  )
  out$advice <- trace_advice(out, events)
  structure(out, class = "summary.PJRTTrace")
}

# For each event of one lane, its seconds without the events inside it.
own_seconds <- function(start, end) {
  order <- order(start, -end)
  own <- end - start
  open <- integer()
  for (i in order) {
    while (length(open) > 0L && end[[open[[length(open)]]]] <= start[[i]]) open <- open[-length(open)]
    if (length(open) > 0L) {
      outer <- open[[length(open)]]
      own[[outer]] <- own[[outer]] - (min(end[[i]], end[[outer]]) - start[[i]])
    }
    open <- c(open, i)
  }
  pmax(own, 0)
}

# The seconds that at least one of these intervals covers.
covered_seconds <- function(start, end) {
  if (length(start) == 0L) {
    return(0)
  }
  order <- order(start)
  start <- start[order]
  before <- c(-Inf, cummax(end[order])[-length(order)])
  sum(pmax(end[order] - pmax(start, before), 0))
}

trace_r_time <- function(events, seconds) {
  on_r <- events[events$lane == "R", ]
  kind <- on_r$kind
  kind[kind == "phase"] <- "compile"
  by_kind <- tapply(own_seconds(on_r$start, on_r$end), kind, sum)
  time <- c(as.list(by_kind), R = seconds - sum(by_kind))
  out <- data.frame(kind = names(time), seconds = pmax(as.numeric(unlist(time)), 0))
  out$share <- out$seconds / seconds
  out <- out[order(-out$seconds), ]
  rownames(out) <- NULL
  out
}

trace_devices <- function(events, devices, seconds) {
  one <- function(device) {
    runs <- events[events$lane == device & events$kind == "run", ]
    busy <- covered_seconds(runs$start, runs$end)
    data.frame(device = device, runs = nrow(runs), busy = busy, idle = max(0, 1 - busy / seconds))
  }
  empty <- data.frame(device = character(), runs = integer(), busy = numeric(), idle = numeric())
  do.call(rbind, c(list(empty), lapply(devices, one)))
}

# Sums of seconds for each combination of some columns, the largest first.
trace_sums <- function(events, by, seconds = events$end - events$start) {
  keys <- if (nrow(events) > 0L) do.call(paste, c(events[by], sep = "\r")) else character()
  first <- match(unique(keys), keys)
  out <- events[first, by, drop = FALSE]
  groups <- factor(keys, unique(keys))
  out$times <- as.integer(tabulate(groups, nlevels(groups)))
  out$seconds <- as.numeric(vapply(split(seconds, groups), sum, 0))
  out <- out[order(-out$seconds), ]
  rownames(out) <- NULL
  out
}

trace_waits <- function(events) {
  on_r <- events[events$lane == "R" & events$kind == "wait", ]
  trace_sums(on_r, c("call", "file", "line"), own_seconds(on_r$start, on_r$end))
}

trace_programs <- function(events) {
  runs <- events[events$kind == "run", ]
  out <- trace_sums(runs, "program")
  length <- runs$end - runs$start
  out$median <- as.numeric(vapply(out$program, function(program) stats::median(length[runs$program %in% program]), 0))
  names(out)[names(out) == "times"] <- "runs"
  out
}

trace_advice <- function(summary, events) {
  share <- function(kinds) sum(summary$r$share[summary$r$kind %in% kinds])
  busiest <- if (nrow(summary$devices) > 0L) 1 - min(summary$devices$idle) else 0
  compiled <- summary$compiles[summary$compiles$outcome %in% c("compiled", "not in the cache"), ]
  count <- sum(compiled$times)
  out <- character()
  if (busiest > 0.9) {
    out <- c(out, "A device is busy almost all the time: only a faster program or device helps.")
  } else {
    # not for compilations
    waits <- trace_waits(events[!events$name %in% "compilation", ])
    if (sum(waits$seconds) > 0.3 * summary$seconds && waits$times[[1L]] >= 3L) {
      out <- c(out, sprintf(
        "In %d calls of %s, R waits. Start more programs before you read results, and read fewer of them.",
        waits$times[[1L]], trace_where(waits[1L, ])
      ))
    }
  }
  # programs compile on another thread, for which R waits
  if (count >= 3L && sum(compiled$seconds) > 0.2 * summary$seconds) {
    out <- c(out, sprintf(paste(
      "%d programs were compiled. Keep executables, and give inputs the same shapes each time, for instance by padding."
    ), count))
  } else if (count > 0L && sum(compiled$seconds) > 0.5 * summary$seconds) {
    out <- c(out, "Most of the time is compilation, which the next session finds in the cache: see ?pjrt_cache_info.")
  }
  if (share(c("conversion", "upload", "download")) > 0.3) {
    out <- c(out, paste(
      "Much time goes into moving values between R and the device. Upload values once, and keep results on the device."
    ))
  }
  if (share("gc") > 0.1) {
    out <- c(out, "Garbage collection takes time: free large buffers with pjrt_delete(), or donate them.")
  }
  runs <- sum(summary$devices$runs)
  if (runs >= 100L && stats::median(summary$programs$median) < 1e-4 && busiest < 0.5) {
    out <- c(out, sprintf("The %d runs are short: let a program do more, for instance a loop in StableHLO.", runs))
  }
  if (share("R") > 0.7 && busiest < 0.5) {
    out <- c(out, "Most of the time is other R code: profile it with Rprof().")
  }
  out
}

# What R and the devices waited for.
trace_sentences <- function(summary) {
  share <- summary$r$share[match("wait", summary$r$kind)]
  waited <- if (!is.na(share) && share >= 0.005 && nrow(summary$waits) > 0L) {
    sprintf("R waited %s of the time, mostly in %s.", whole_percent(share), trace_where(summary$waits[1L, ]))
  } else {
    "R hardly waited."
  }
  devices <- summary$devices
  runs <- counted(devices$runs, "run")
  c(waited, sprintf("%s was idle %s of the time (%s).", devices$device, whole_percent(devices$idle), runs))
}

# "`as_array(y)` at line 12 of a.R"
trace_where <- function(place) {
  call <- if (is.na(place$call)) "an unknown place" else sprintf("`%s`", place$call)
  file <- if (!is.na(place$file)) paste(" of", place$file)
  paste0(call, if (!is.na(place$line)) sprintf(" at line %d", place$line), if (!is.na(place$line)) file)
}

whole_percent <- function(share) {
  sprintf("%.0f%%", 100 * share)
}

#' @rdname summary.PJRTTrace
#' @export
print.summary.PJRTTrace <- function(x, ...) {
  check_intact(x, "summary.PJRTTrace", parts = c("seconds", "dropped", "events", "r", "devices", "waits", "programs"))
  cat(sprintf("<PJRTTrace> %s, %s\n", format_seconds(x$seconds), counted(x$events, "event")))
  if (x$dropped > 0) {
    cat(sprintf("%.0f more events were dropped: see `max_events`.\n", x$dropped))
  }
  cat(trace_sentences(x), sep = "\n")
  shown <- x$r[x$r$share >= 0.005, ]
  cat("\nR's main thread:\n")
  cat(sprintf("  %-11s %4s  %s", shown$kind, whole_percent(shown$share), format_seconds(shown$seconds)), sep = "\n")
  print_trace_table("Programs", sprintf("%s: %s, %s, median %s", x$programs$program, counted(x$programs$runs, "run"),
    format_seconds(x$programs$seconds), format_seconds(x$programs$median)))
  print_trace_table("Compilations", sprintf("%s: %d %s, %s", x$compiles$program, x$compiles$times, x$compiles$outcome,
    format_seconds(x$compiles$seconds)))
  print_trace_table("Operations on devices", sprintf("%s: %s, %s", x$operations$name,
    ifelse(x$operations$times == 1L, "once", paste(x$operations$times, "times")), format_seconds(x$operations$seconds)))
  if (length(x$advice) > 0L) {
    cat("\nAdvice:\n")
    for (text in x$advice) cat(strwrap(text, 76, initial = "* ", prefix = "  "), sep = "\n")
  }
  invisible(x)
}

print_trace_table <- function(title, lines, most = 5L) {
  if (length(lines) > 0L) {
    cat("\n", title, ":\n", sep = "")
    cat(paste0("  ", utils::head(lines, most)), sep = "\n")
    if (length(lines) > most) cat(sprintf("  and %d more\n", length(lines) - most))
  }
}

#' @rdname summary.PJRTTrace
#' @export
print.PJRTTrace <- function(x, ...) {
  print(summary(x))
  invisible(x)
}
