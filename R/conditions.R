# All conditions of the package are made here. Errors have the classes `pjrt_error_<kind>` and `pjrt_error`.

# Raises an error. `message` says what is wrong and what was expected; each of `hints` says what to do.
pjrt_abort <- function(message, class, hints = character(), call = user_call(), code = NULL, call_name = NULL,
                       platform = NULL) {
  # evaluated here: the frame of force() would end user_call()'s search
  call <- call
  if (!is.null(code)) {
    hints <- c(hints, sprintf("From %s: error code %d (%s).", call_name, code, class))
  }
  stop(structure(
    class = c(paste0("pjrt_error_", class), "pjrt_error", "error", "condition"),
    list(
      message = paste(c(trimws(readable(message), "right"), sprintf("i %s", hints)), collapse = "\n"),
      call = call, code = code, call_name = call_name, platform = platform
    )
  ))
}

# Text that may not be valid UTF-8, such as a quoted argument, with invalid bytes as "<ff>".
readable <- function(text) {
  if (validUTF8(text)) text else iconv(text, "UTF-8", "UTF-8", sub = "byte")
}

abort_input <- function(..., hints = character()) {
  pjrt_abort(paste0(...), "invalid_input", hints = hints)
}

# A short description of an argument.
given <- function(x) {
  .Call(ffi_given, x)
}

# Refuses objects that have a class of this package, but not its type and names.
check_intact <- function(x, class, type = "list", parts = character(), name = "x") {
  if (typeof(x) != type || !all(parts %in% names(x))) {
    abort_input("`", name, "` must be a `", class, "`: it has the class, but this package did not make it.")
  }
}

# Raises the error for an object that a generic has no method for.
abort_class <- function(x, classes) {
  names <- paste0("`", classes, "`")
  last <- length(names)
  if (last > 1L) {
    names <- paste(paste(names[-last], collapse = ", "), "or", names[[last]])
  }
  abort_input("`x` must be a ", names, ", not an object of class <", paste(class(x), collapse = "/"), ">.")
}

# Hints for errors of the native side, in terms of this package's functions.
advice <- list(
  forked = "Use a PSOCK cluster (parallel::makePSOCKcluster()), or fork before you create a client.",
  layout_mismatch = "Read it with as_array() and create a new buffer from the array."
)

# Raises an error of the native side, which calls this function by name.
signal_failure <- function(failure) {
  if (failure$class == "interrupted") {
    if (length(failure$hints) > 0L) {
      inform(paste(failure$hints, collapse = "\n"))
    }
    # such as setTimeLimit()'s
    if (!is.null(failure$condition)) {
      stop(failure$condition)
    }
    return(signal_interrupt())
  }
  pjrt_abort(
    failure$message, failure$class,
    hints = c(failure$hints, advice[[failure$class]]), code = failure$code, call_name = failure$call_name,
    platform = failure$platform
  )
}

# Calls a native function that returns failures as values.
call_native <- function(symbol, ...) {
  repeat {
    result <- .Call(symbol, ...)
    if (!inherits(result, "extendr_error")) {
      return(result)
    }
    signal_failure(result$value)
  }
}

# The same for arguments with text from the user: native code needs valid UTF-8.
call_with_text <- function(symbol, ...) {
  for (argument in list(...)) {
    if (is.character(argument) && !all(validUTF8(argument))) {
      abort_input("'", argument[!validUTF8(argument)][[1L]], "' is not valid UTF-8.")
    }
  }
  call_native(symbol, ...)
}

# Interrupts as R does on Ctrl-C: calls handlers for interrupts, then returns to the prompt or the browser. Returns if a
# handler resumes.
signal_interrupt <- function() {
  withRestarts(
    {
      signalCondition(structure(class = c("interrupt", "condition"), list(message = "", call = NULL)))
      prompts <- Filter(function(restart) restart[[1L]] %in% c("browser", "abort"), computeRestarts())
      invokeRestart(prompts[[1L]])
    },
    resume = function() NULL
  )
}

# The user's call: going up the stack, the last function of this package before one that is not. Follows the callers of
# frames, since arguments are evaluated inside the functions that they are passed to.
user_call <- function() {
  namespace <- topenv()
  parents <- sys.parents()
  is_ours <- function(n) {
    n > 0L && identical(topenv(environment(sys.function(n)) %||% baseenv()), namespace)
  }
  n <- sys.nframe() - 1L
  repeat {
    # a function called by native code is recorded as its own caller: use the frame before it
    caller <- if (parents[n] >= n) n - 1L else parents[n]
    if (!is_ours(caller)) {
      break
    }
    n <- caller
  }
  if (n > 1L && is_ours(n - 1L) && is_method_of(sys.call(n), sys.call(n - 1L))) sys.call(n - 1L) else sys.call(n)
}

# Whether the first call is to a method of the generic that the second calls.
is_method_of <- function(method, generic) {
  name <- function(call) {
    f <- call[[1L]]
    if (is.call(f)) f <- f[[length(f)]]
    if (is.symbol(f)) as.character(f) else ""
  }
  nzchar(name(generic)) && startsWith(name(method), paste0(name(generic), "."))
}

# Base R has this since 4.4.
if (!exists("%||%", baseenv())) {
  `%||%` <- function(x, y) if (is.null(x)) y else x
}

# Prints a message.
inform <- function(...) {
  message(structure(
    class = c("pjrt_message", "message", "condition"), list(message = paste0(..., "\n"), call = NULL)
  ))
}

# Prints a message about what the package does, if the user turned these on.
debug_message <- function(...) {
  if (is_verbose()) {
    inform("pjrt: ", ...)
  }
}

# Whether `options(pjrt.verbose = )` or PJRT_DEBUG turns messages on.
is_verbose <- function() {
  option <- getOption("pjrt.verbose")
  if (is.null(option)) {
    return(!Sys.getenv("PJRT_DEBUG") %in% c("", "0"))
  }
  if (!isTRUE(option) && !isFALSE(option)) {
    abort_input("`options(pjrt.verbose = )` must be TRUE or FALSE, not ", given(option), ".")
  }
  option
}

check_string <- function(x, name) {
  if (!is.character(x) || length(x) != 1L || is.na(x) || !nzchar(x) || Encoding(x) == "bytes") {
    abort_input("`", name, "` must be one non-empty string, not ", given(x), ".")
  }
}

check_platform <- function(x, name = "platform") {
  check_string(x, name)
  if (!is_platform_name(x)) {
    abort_input("`", name, "` must be the name of a platform, such as \"cpu\", not ", given(x), ".")
  }
}

# Whether these can be names in the session, in environment variables, and of folders.
is_platform_name <- function(x) {
  validUTF8(x) & nzchar(x) & nchar(x, "bytes") <= 100L & !grepl("[/\\\\]|^[.]", x, useBytes = TRUE)
}

check_string_or_null <- function(x, name) {
  if (!is.null(x)) {
    check_string(x, name)
  }
}

# Checks that `x` is one of `choices`. All of them, as in a function's default, stand for the first.
check_choice <- function(x, choices, name) {
  if (identical(x, choices)) {
    return(choices[[1L]])
  }
  if (!is.character(x) || length(x) != 1L || !x %in% choices) {
    abort_input("`", name, "` must be one of ", paste0("\"", choices, "\"", collapse = ", "), ", not ", given(x), ".")
  }
  x
}

check_flag <- function(x, name) {
  if (!is.logical(x) || length(x) != 1L || is.na(x)) {
    abort_input("`", name, "` must be TRUE or FALSE, not ", given(x), ".")
  }
}

check_unused <- function(...) {
  if (...length() > 0L) {
    given <- ...names() %||% rep("", ...length())
    given[!nzchar(given)] <- "<unnamed>"
    abort_input("Unused arguments: ", paste(given, collapse = ", "), ".")
  }
}

# A path for native code. R warns if it expands "~" in a long one.
full_path <- function(path) {
  as_utf8(if (startsWith(path, "~") && nchar(path, "bytes") < 4096L) path.expand(path) else path)
}

# Text in UTF-8. Invalid text stays as it is, to be refused later: enc2utf8() would change it.
as_utf8 <- function(x) {
  x <- as.character(x)
  valid <- validEnc(x)
  x[valid] <- enc2utf8(x[valid])
  x
}

is_whole_number <- function(x) {
  typeof(x) %in% c("integer", "double") && !is.object(x) && length(x) == 1L && isTRUE(x == trunc(x))
}
