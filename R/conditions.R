# All conditions of the package are made here. Errors have the classes `pjrt_error_<kind>` and `pjrt_error`.

# Raises an error. `message` says what is wrong and what was expected; each of `hints` says what to do. `class` may be
# several, the most specific first; `fields` are added to the condition.
pjrt_abort <- function(message, class, hints = character(), call = user_call(), code = NULL, call_name = NULL,
                       platform = NULL, parent = NULL, fields = list()) {
  # evaluated here: the frame of force() would end user_call()'s search
  call <- call
  if (!is.null(code)) {
    hints <- c(hints, sprintf("From %s: error code %d (%s).", call_name, code, class[[length(class)]]))
  }
  stop(structure(
    class = c(paste0("pjrt_error_", with_parents(class)), "pjrt_error", "error", "condition"),
    c(list(
      message = paste(c(trimws(readable(message), "right"), sprintf("i %s", hints)), collapse = "\n"),
      call = shortened(call), code = code, call_name = call_name, platform = platform, parent = parent
    ), fields)
  ))
}

with_parents <- function(classes) {
  unlist(lapply(classes, function(class) c(class, class_parents[[class]])))
}

# A call, with an ellipsis for its arguments if these fill lines.
shortened <- function(call, longest = 200L) {
  lines <- if (is.call(call)) deparse(call, width.cutoff = 500L, nlines = longest)
  if (sum(nchar(lines, "bytes")) <= longest && length(lines) < longest) {
    return(call)
  }
  called <- call[[1L]]
  if (is.function(called)) {
    # from do.call() with the function itself
    is_it <- function(name) identical(get0(name, topenv()), called)
    called <- as.symbol(Find(is_it, ls(topenv())) %||% "FUN")
  }
  as.call(list(called, quote(...)))
}

# Text that may not be valid UTF-8, such as a quoted argument, with invalid bytes as "<ff>".
readable <- function(text) {
  if (validUTF8(text)) text else iconv(text, "UTF-8", "UTF-8", sub = "byte")
}

# `class` says what is wrong with the input: its value, its type, or the file.
abort_input <- function(..., hints = character(), class = "invalid_value") {
  pjrt_abort(paste0(...), class, hints = hints)
}

# For an argument of the wrong type or length, or NA.
abort_type <- function(..., hints = character()) {
  abort_input(..., hints = hints, class = "invalid_type")
}

# The classes that others inherit from.
class_parents <- list(
  invalid_type = "invalid_input", invalid_value = "invalid_input", invalid_file = "invalid_input",
  safetensors_invalid = c("invalid_file", "invalid_input"), npy_invalid = c("invalid_file", "invalid_input"),
  serialized_invalid = c("invalid_file", "invalid_input"),
  plugin_invalid = c("invalid_file", "invalid_input")
)

# A short description of an argument.
given <- function(x) {
  .Call(ffi_given, x)
}

# Refuses objects that have a class of this package, but not its type and names.
check_intact <- function(x, class, type = "list", parts = character(), name = "x") {
  if (typeof(x) != type || !all(parts %in% names(x))) {
    abort_type("`", name, "` must be a `", class, "`: it has the class, but this package did not make it.")
  }
}

# Whether this is a buffer without its class.
is_disguised <- function(x) {
  typeof(x) == "externalptr" && !inherits(x, "PJRTBuffer") &&
    tryCatch(is.logical(.Call(ffi_buffer_is_deleted, x)), pjrt_error = function(e) FALSE)
}

# Raises the error for an object that a generic has no method for.
abort_class <- function(x, classes) {
  if (is_disguised(x)) {
    abort_type(
      "`x` is a buffer whose class was changed to <", paste(class(x), collapse = "/"), ">.",
      hints = c(
        "class<- and structure() change a buffer for all variables. To restore it: class(x) <- \"PJRTBuffer\".",
        "To define your own class, put the buffer into a list: structure(list(buffer = x), class = \"mine\")."
      )
    )
  }
  abort_type("`x` must be a ", any_of(classes), ", not an object of class <", paste(class(x), collapse = "/"), ">.")
}

# Names of classes in words, as in "`a`, `b` or `c`".
any_of <- function(classes) {
  names <- paste0("`", classes, "`")
  last <- length(names)
  if (last > 1L) paste(paste(names[-last], collapse = ", "), "or", names[[last]]) else names
}

# Hints for failures that the native side finds. It names a reason, and this table words the remedy with R functions.
advice <- list(
  arrow_conversion = function() "Convert it in Arrow first, to integers or floats.",
  arrow_nulls = function() "Cast it to a type of floats in Arrow first: there, missing values become NaN.",
  buffer_deleted = function() {
    "pjrt_delete() has deleted it. Create a new buffer, or delete the old one after its last use."
  },
  buffer_donated = function() {
    c(
      "It was donated: a program that donates its input took over its memory. Use the program's output instead.",
      "To keep an input, use pjrt_execute() with pjrt_execution_options(keep_inputs = )."
    )
  },
  buffer_elsewhere = function() "Copy it to that device with copy_buffer().",
  buffer_layout = function() "Compile the program without an `mhlo.layout_mode` for this argument.",
  callback_failed = function(number) {
    if (!is.null(r_call_error(number))) "The error's `parent` is the condition that the R function raised."
  },
  client_closed = function(platform) {
    sprintf("Create a new client with pjrt_client(\"%s\"), and buffers and executables on it.", platform)
  },
  compile_failed = function(source = NULL, column = NULL, ...) {
    name <- if (!is.null(source) && !is.null(column)) substring(source, column)
    if (any(grepl("^[{][A-Za-z][A-Za-z0-9_]*[}]", name))) {
      sprintf("Give pjrt_program(types = ) the text for `%s`.", sub("[}].*", "}", name))
    }
  },
  compile_inside = function() "To compile in R's process: options(pjrt.compile = \"inside\").",
  compiler_crashed = function() {
    c(
      "R, buffers and executables are not affected. The next program gets a new compiler.",
      "To save the program for a report: writeLines(as.character(program), \"crash.mlir\")."
    )
  },
  complex_values = function() "Re() and Im() return its parts. c64 and c128 hold complex values.",
  compute_in_r = function() {
    "To compute in R, read the buffers with as_array(), and pass the result to pjrt_buffer()."
  },
  conversion_needed = function(to) {
    sprintf("Convert the data first with %s.", paste0("as.", to, "()", collapse = " or "))
  },
  custom_call_missing = function(target, platform, others, related) {
    if (grepl("^xla_(ffi_)?(partitioned_)?python_(cpu|gpu)_callback$", target)) {
      return(c(
        "It calls back into Python, as pure_callback(), io_callback() and debug.print() of JAX do. R cannot run that.",
        "Export the program without callbacks."
      ))
    }
    if (platform == "host" && grepl("^(lapack|blas)_[sdcz][a-z]+$", target)) {
      return("An older JAX wrote the program. Export the function with a newer one.")
    }
    c(
      if (length(others) > 0L) {
        sprintf(
          "It has handlers for %s only. Export the program for %s.", paste(others, collapse = ", "),
          if (platform == "host") "the CPU" else platform
        )
      },
      if (platform == "host" && length(others) == 0L) {
        sprintf("It looks like a function for %s. Export the program for the CPU.", made_for(target))
      },
      if (length(related) > 0L) {
        sprintf("Linear algebra for %s: %s. See ?\"linear-algebra\".", platform, short_targets(related))
      },
      sprintf(
        "Register a handler before you compile: pjrt_register_custom_call(\"%s\", list(%s = ...)).", target, platform
      ),
      if (platform == "host") sprintf("If it is an R function: pjrt_register_r_call(\"%s\", ...).", target)
    )
  },
  custom_call_refused = function(target) character(),
  device_unnamed = function() {
    "Name a device: pjrt_execute(..., execution_options = pjrt_execution_options(device = \"cpu:0\"))."
  },
  devices_missing = function(count) {
    sprintf("To divide a CPU into more devices, create its client with cpu_device_count = %sL.", count)
  },
  disk_full = function() {
    c(
      "Free disk space: uninstall_pjrt() removes plugins and unfinished downloads.",
      "Or set R_USER_CACHE_DIR to a folder on another disk."
    )
  },
  donation_shared = function(index) {
    sprintf("Or keep it: use pjrt_execute() with pjrt_execution_options(keep_inputs = %s).", index)
  },
  driver_hidden = function() {
    "Elsewhere: install the driver's libraries, or set LD_LIBRARY_PATH to their folder before R starts."
  },
  driver_runs_older = function(name) sprintf("Or install an older plugin: %s.", install_calls(name)),
  executable_fixed = function() {
    "To make a program portable, compile it with pjrt_compile_options(compile_portable_executable = TRUE)."
  },
  executable_sharded = function() "Use pjrt_execute_sharded(), which takes a list of inputs for each device.",
  executable_unloaded = function() {
    "Save it with pjrt_save_executable(), and load it with pjrt_load_executable() on a machine that has the devices."
  },
  forked = function() {
    "Use a PSOCK cluster (parallel::makePSOCKcluster()), or fork before you create the first client."
  },
  handle_lost = function() {
    "Its content was not saved with it. To send or save it, see ?pjrt_serialize."
  },
  inputs_per_device = function() {
    "Pass a list with one list of buffers for each device, in the order of devices(executable)."
  },
  libraries_elsewhere = function() {
    "If they are on this machine, set LD_LIBRARY_PATH to their folder and restart R."
  },
  libraries_in_plugin = function(names) {
    sprintf("Install the plugin with all libraries that it needs: %s.", install_calls(names))
  },
  library_missing = function() "Install it, or add its folder to the loader's search path before R starts.",
  library_of_oneapi = function() {
    "It belongs to Intel's oneAPI runtime: install that, and source its setvars.sh before R starts."
  },
  library_of_rocm = function() {
    paste(
      "It belongs to ROCm: install ROCm 7. If it is not in /opt/rocm, add its folder to LD_LIBRARY_PATH",
      "before R starts."
    )
  },
  map_needs_type = function() "For a file of plain numbers, pass `dtype` and `shape`.",
  map_refused = function() "pjrt_load_npy() loads all kinds of NumPy's files.",
  not_an_executable = function() "pjrt_serialize() and pjrt_save_executable() create serialized executables.",
  npy_type_missing = function(bytes) {
    known <- if (bytes == "2") " NumPy has no bfloat16: for that, pass `dtype = \"bf16\"`."
    paste0("Pass it to pjrt_load_npy() in `dtype`.", known)
  },
  offline_file = function(name) {
    sprintf(
      "Without a network: download the file elsewhere, and call install_pjrt(\"%s\", source = \"file\", path = ).",
      name
    )
  },
  offline_wheels = function(name, wheels) {
    c(
      paste(
        "Without a network: on a similar machine, run `python3 -m pip download --no-deps --dest wheels",
        paste0(paste(wheels, collapse = " "), "`.")
      ),
      sprintf("Then copy the folder here, and call install_pjrt(\"%s\", source = \"file\", path = \"wheels\").", name)
    )
  },
  out_of_memory = function() {
    c(
      paste(
        "Free memory: pjrt_delete() buffers, or remove them and call gc(). Donate inputs that a program can reuse.",
        "Or use smaller arrays or a smaller dtype."
      ),
      "pjrt_memory_stats()$buffers lists all buffers, and plot(pjrt_memory_stats()) shows memory over time."
    )
  },
  plugin_lost = function() {
    c(
      "The contents of its devices are lost. R, its objects and other plugins are not affected.",
      "Save your work and restart R."
    )
  },
  plugin_replaced = function() "Restart R to use the new one.",
  plugin_undecided = function(names) {
    sprintf("To install it for another machine, choose a version of CUDA: %s.", install_calls(names))
  },
  program_exported = function() {
    "Load it with pjrt_load_exported(), and compile that: pjrt_compile(exported). Symbolic dimensions need `shapes`."
  },
  program_not_exported = function() "Read it with pjrt_program().",
  program_of_arrays = function() {
    "Load it with pjrt_load_safetensors() or pjrt_load_npy(), and pass the arrays to a program."
  },
  program_of_hlo = function() {
    c(
      "Export StableHLO instead, in JAX with jax.jit(f).lower(x).as_text().",
      "A serialized HloModuleProto has `format = \"hlo\"`."
    )
  },
  program_of_module = function() "Read it with `format = \"hlo\"`.",
  program_of_python = function() {
    "Export the function as StableHLO: in JAX, write jax.jit(f).lower(x).as_text() to a file, and read it with `path = `."
  },
  program_of_tensorflow = function() {
    "Export it as StableHLO: in TensorFlow, with f.experimental_get_compiler_ir(x)(stage = \"stablehlo\")."
  },
  program_packed = function() "Unpack it, and read the program in it with `path = `.",
  shape_dynamic = function() {
    "Pass the shapes of its arguments: pjrt_compile(program, shapes = list(c(32, 4))), with all of them in order."
  },
  tensors_too_large = function() {
    c(
      "Load some of them by name, or one by one from pjrt_open_safetensors().",
      "Files that pjrt_save_safetensors() wrote are used in place and need no such memory."
    )
  },
  unverified_archive = function(name, url) {
    sprintf(
      "An archive without a known SHA-256 is at <%s>. To trust it: install_pjrt(\"%s\", source = \"release\").",
      url, name
    )
  }
)

install_calls <- function(names) {
  paste0("install_pjrt(\"", names, "\")", collapse = " or ")
}

# The lines of a hint: text, or a list with a reason and what its advice takes.
word_hint <- function(hint) {
  if (is.character(hint)) hint else do.call(advice[[hint$reason]], hint[names(hint) != "reason"])
}

# Classes that the reason of a failure adds to that of its code.
reason_classes <- c(
  callback_failed = "r_call", compile_failed = "compile", compute_in_r = "operator",
  custom_call_missing = "custom_call",
  custom_call_refused = "custom_call"
)

# The class, the fields and the parent that the reasons among some hints add to a condition.
failure_subject <- function(hints) {
  for (hint in hints) {
    if (is.list(hint) && hint$reason %in% names(reason_classes)) {
      fields <- hint[intersect(c("line", "column", "source", "detail", "target"), names(hint))]
      fields <- fields[lengths(fields) > 0L]
      numbers <- names(fields) %in% c("line", "column")
      fields[numbers] <- lapply(fields[numbers], as.integer)
      parent <- if (hint$reason == "callback_failed") r_call_error(hint$number)
      return(list(class = reason_classes[[hint$reason]], fields = fields, parent = parent))
    }
  }
  NULL
}

# Raises what the native side found; the entry points there call this by name.
signal_failure <- function(failure) {
  signal_kept()
  hints <- unlist(lapply(failure$hints, word_hint))
  if (failure$class == "interrupted") {
    if (length(hints) > 0L) {
      inform(paste(hints, collapse = "\n"))
    }
    # such as setTimeLimit()'s
    if (!is.null(failure$condition)) {
      stop(failure$condition)
    }
    return(signal_interrupt())
  }
  subject <- failure_subject(failure$hints)
  pjrt_abort(
    failure$message, c(subject$class, failure$class),
    hints = hints, code = failure$code, call_name = failure$call_name, platform = failure$platform,
    parent = subject$parent, fields = subject$fields
  )
}

# Calls a native function, the first argument, that returns failures as values. R CMD check wants to know the function
# if the argument has a name.
call_native <- function(...) {
  if (the$is_traced) {
    .Call(ffi_trace_enter, trace_site())
    on.exit(.Call(ffi_trace_leave))
  }
  repeat {
    result <- .Call(...)
    if (!inherits(result, "extendr_error")) {
      return(result)
    }
    needed <- .Call(ffi_sent_needed)
    if (result$value$class == "invalid_pointer" && !is.null(needed)) {
      # a handle of another session, which came with its content
      revive(needed)
    } else {
      signal_failure(result$value)
    }
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
  if (parents[n] >= n) {
    # native code of another package called a routine, or nobody did: none of the frames below is a call of this package
    return()
  }
  if (n > 1L && is_ours(n - 1L) && is_method_of(sys.call(n), sys.call(n - 1L))) {
    sys.call(n - 1L)
  } else {
    as_written(sys.call(n), sys.frame(n))
  }
}

# The call of a group's method, such as Ops.PJRTBuffer(x, y), as the user wrote it: x + y.
as_written <- function(call, frame) {
  generic <- get0(".Generic", frame, inherits = FALSE)
  groups <- "^((Ops|Math|Summary|Complex|matrixOps)|[-+*/^%=!<>&|]+)[.]"
  is_group <- is.symbol(call[[1L]]) && grepl(groups, as.character(call[[1L]]))
  if (is_group && is.character(generic)) {
    call[[1L]] <- as.name(generic)
    # R evaluates the arguments of summaries before it finds the method
    call[vapply(as.list(call), typeof, "") == "externalptr"] <- list(quote(...))
  }
  call
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

# Raises a warning.
warn <- function(..., class = NULL) {
  warning(structure(
    class = c(class, "pjrt_warning", "warning", "condition"), list(message = paste0(...), call = user_call())
  ))
}

# Warns of the missing values that uploads have found; the entry points in native code call this by name.
warn_missing <- function(notes) {
  for (note in notes) {
    found <- if (note$count == 1) {
      sprintf("a missing value (element %.0f)", note$first)
    } else {
      sprintf("%.0f missing values (the first is element %.0f)", note$count, note$first)
    }
    warn(
      if (note$late) "The data of an earlier call for " else "`data` for ", note$spec,
      if (note$late) " have " else " has ",
      found, ". ", note$dtype, " has no missing values: programs treat ",
      if (note$count == 1) "it as a number" else "them as numbers", ".\n",
      "i Use a float dtype, such as \"f32\", in which they are NaN, or replace them first.",
      class = "pjrt_warning_na"
    )
  }
}

# Prints a message about what the package does, if the user turned these on.
debug_message <- function(...) {
  if (is_verbose()) {
    inform("pjrt: ", ...)
  }
}

# Whether `options(pjrt.verbose = )` or PJRT_DEBUG turns messages on.
is_verbose <- function() {
  flag_option("pjrt.verbose") %||% (!Sys.getenv("PJRT_DEBUG") %in% c("", "0"))
}

# An option that must be TRUE or FALSE; NULL if it is not set.
flag_option <- function(name) {
  option <- getOption(name)
  if (!is.null(option)) check_flag(option, sprintf("options(%s = )", name))
  option
}

check_string <- function(x, name) {
  if (!is_text(x) || !nzchar(x) || Encoding(x) == "bytes") {
    abort_type("`", name, "` must be one non-empty string, not ", given(x), ".")
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
  is_string <- is.character(x) && length(x) == 1L
  if (!is_string || !x %in% choices) {
    abort_input(
      "`", name, "` must be one of ", paste0("\"", choices, "\"", collapse = ", "), ", not ", given(x), ".",
      class = if (is_string) "invalid_value" else "invalid_type"
    )
  }
  x
}

check_flag <- function(x, name) {
  if (!is.logical(x) || length(x) != 1L || is.na(x)) {
    abort_type("`", name, "` must be TRUE or FALSE, not ", given(x), ".")
  }
}

# What buffers call arguments that other packages name otherwise.
argument_names <- c(dim = "shape", dims = "shape", size = "shape", type = "dtype", elt_type = "dtype")

check_unused <- function(..., hints = character()) {
  if (...length() > 0L) {
    given <- ...names() %||% rep("", ...length())
    given[!nzchar(given)] <- "<unnamed>"
    meant <- argument_names[intersect(given, names(argument_names))]
    abort_input(
      "Unused arguments: ", paste(given, collapse = ", "), ".",
      hints = c(if (length(meant) > 0L) sprintf("Use `%s` for `%s`.", meant, names(meant)), hints)
    )
  }
}

# A path for native code. R warns if it expands "~" in a long one.
full_path <- function(path) {
  if (startsWith(path, "~") && nchar(path, "bytes") < 4096L) path <- path.expand(native_path(path))
  if (Encoding(path) %in% c("unknown", "latin1") && is_foreign_locale() && validUTF8(path)) {
    # a file's name is bytes, which are most likely UTF-8
    Encoding(path) <- "UTF-8"
  } else if (Encoding(path) == "unknown" && is_ascii_locale()) {
    abort_input(
      "The path has characters that R's locale \"", Sys.getlocale("LC_CTYPE"), "\" lacks: '", readable(path), "'.",
      hints = "Start R with the environment variable LC_ALL=C.UTF-8, or that of your language."
    )
  }
  as_utf8(path)
}

# Paths of native code for R's own functions, which would translate them from UTF-8 to R's locale.
native_path <- function(path) {
  if (is_foreign_locale()) Encoding(path) <- "unknown"
  path
}

# Whether R's locale has other bytes for letters than files' names do.
is_foreign_locale <- function() !l10n_info()[["UTF-8"]] && .Platform$OS.type != "windows"

# Whether R's locale has only the letters of ASCII.
is_ascii_locale <- function() !any(unlist(l10n_info()[c("MBCS", "UTF-8", "Latin-1")]))

# Text in UTF-8. Invalid text stays as it is, to be refused later: enc2utf8() would change it.
as_utf8 <- function(x) {
  x <- as.character(x)
  if (length(x) > 0L && is_ascii_locale()) {
    # letters that the locale lacks: enc2utf8() would write them as "<c3><a9>"
    Encoding(x)[Encoding(x) == "unknown" & validUTF8(x)] <- "UTF-8"
  }
  valid <- validEnc(x)
  x[valid] <- enc2utf8(x[valid])
  x
}

is_whole_number <- function(x) {
  !is.object(x) && is.numeric(x) && length(x) == 1L && isTRUE(x == trunc(x))
}
