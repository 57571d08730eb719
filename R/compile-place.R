# Where programs are compiled: in this process, or in a helper's, which a crash of the compiler ends instead of R.

# Where to compile, for native routines: NULL for this process, or the helper's limits of memory in bytes and time in
# seconds.
compile_place <- function() {
  limits <- c(compile_limit("memory", parse_bytes), compile_limit("timeout", parse_seconds))
  if (identical(compile_option(), "apart") && has_compile_helper()) {
    return(limits)
  }
  if (any(is.finite(limits)) && !isTRUE(the$told_of_limits)) {
    the$told_of_limits <- TRUE
    warn(
      "Programs compile in R's process, where `options(pjrt.compile_memory = , pjrt.compile_timeout = )` have no effect.\n",
      "i setTimeLimit() limits the time, and Ctrl-C ends the wait."
    )
  }
  NULL
}

compile_option <- function() {
  option <- getOption("pjrt.compile", "apart")
  if (!identical(option, "apart") && !identical(option, "inside")) {
    abort_type("`options(pjrt.compile = )` must be \"apart\" or \"inside\", not ", given(option), ".")
  }
  option
}

# A limit of the compiler, or Inf.
compile_limit <- function(name, parse) {
  option <- getOption(paste0("pjrt.compile_", name))
  if (is.null(option)) Inf else parse(option, sprintf("`options(pjrt.compile_%s = )`", name))
}

parse_seconds <- function(x, name, most = Inf) {
  seconds <- if (is.numeric(x) && length(x) == 1L) as.double(x) else NA
  if (is.na(seconds) || seconds <= 0 || seconds > most) {
    abort_type(name, " must be a positive number of seconds, not ", given(x), ".")
  }
  seconds
}

# Whether the helper's program is installed. It is named when it is first needed.
has_compile_helper <- function() {
  if (is.null(the$has_compile_helper)) {
    path <- system.file(paste0("bin", .Platform$r_arch), "pjrt-compiler", package = "pjrt")
    the$has_compile_helper <- call_native(ffi_compile_helper, full_path(path))
  }
  the$has_compile_helper
}

# Where programs are compiled for each client of the session, in words.
compile_facts <- function() {
  describe <- function(platform) {
    if (!identical(compile_option(), "apart")) {
      "in R's process, by options(pjrt.compile = )"
    } else if (!has_compile_helper()) {
      "in R's process: this installation has no separate compiler"
    } else if (!call_native(ffi_compiles_apart, the$clients[[platform]])) {
      "in R's process: the plugin's compiler needs the devices or cannot save programs, or its file was removed"
    } else {
      "in a separate process"
    }
  }
  vapply(sort(names(the$clients)), describe, "")
}
