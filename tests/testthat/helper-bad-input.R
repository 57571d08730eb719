# Tables for the tests of bad input. Each test-bad-input-*.R lists the functions of a family and the kinds of their
# arguments. Each argument in turn gets every value of helper-bad-values.R while the others are valid. A value that is
# invalid for the kind must raise an error of this package.

# An argument: its kind, a valid value if it differs from the kind's, and the labels of values that are valid here as
# well or, with a leading "!", invalid.
of <- function(kind, expr, ...) list(kind = kind, valid = substitute(expr), labels = c(...))

# A function's arguments. `after` runs on its result, `made`. With `refuses`, every call must fail.
row <- function(..., after = NULL, refuses = FALSE) {
  arguments <- lapply(list(...), function(x) if (is.character(x)) list(kind = x) else x)
  list(arguments = arguments, after = substitute(after), refuses = refuses)
}

# An expression in which `bad` is not an argument itself, but part of one, a subscript or an option.
use <- function(expr, kind, after = NULL) {
  c(list(expr = substitute(expr), after = substitute(after)), if (is.character(kind)) list(kind = kind) else kind)
}

# A kind of argument: a valid value, the bad values that it accepts, the classes to try impostors of, whether to try
# paths, and the labels of values to leave out.
kind <- function(valid, accepts = nothing, classes = character(), paths = FALSE, spared = character()) {
  list(valid = substitute(valid), accepts = accepts, classes = classes, paths = paths, spared = spared)
}

# Predicates for `accepts`. They compare labels where methods of the value's class could interfere.
nothing <- function(v, label) FALSE
anything <- function(v, label) TRUE
only <- function(...) function(v, label) label %in% c(...)
plainly <- function(test) function(v, label) !is.object(v) && isTRUE(test(v))
or_null <- function(accepts) function(v, label) is.null(v) || accepts(v, label)

is_flag <- function(v) is.logical(v) && length(v) == 1L && !is.na(v)
is_numbers <- function(v, label) label == "integer64" || !is.object(v) && (is.numeric(v) || is.logical(v))
is_text <- function(v) is.character(v) && length(v) == 1L && !is.na(v) && validEnc(v) && Encoding(v) != "bytes"

# Sets of labels that several rows accept.
whole <- c("1L", "2^31", "2^53", "1e18", "1e300", "Inf")
below_zero <- c("-1L", "-1", "-2^31", "-1e300", "-Inf")
vectors <- c("raw()", "logical()", "integer()", "double()", "character()")
file_names <- c(
  "\"a\"", "c(n = \"a\")", "latin1", "a line end", "\"../a\"", "\"cpu:9\"", "\"%s\"", "a missing file",
  "a dangling link",
  "a link to itself", "an empty file", "a file of bytes"
)
sizes <- c("NULL", "integer64", "1L", "0L", "1.5", "2^31", "2^53", "1e-300")
ages <- c("integer64", "1L", "0L", "1.5", "2^31", "2^53", "1e18", "1e300", "Inf", "1e-300")
single_names <- c("\"a\"", "c(n = \"a\")")
platforms <- c(single_names, "a line end", "\"cpu:9\"", "\"%s\"")
subscripts <- c(
  "NULL", "a factor", "a time", "integer64", "logical()", "integer()", "double()", "TRUE", "c(TRUE, FALSE)", "1L", "0L",
  "1.5",
  "1:2", "1e-300", below_zero, "a buffer"
)
kept <- c(
  "NULL", "integer()", "double()", "character()", "1L", "1:2", "1:1000", "a matrix", single_names, "c(\"a\", \"b\")",
  "a long string",
  "latin1", "a line end", "\"../a\"", "\"cpu:9\"", "\"%s\""
)
# Objects of another session: they print, and that is all.
of_files <- function(class) sprintf(c("a null pointer as %s", "one from a file as %s"), class)
tensors <- c("integer()", "double()", "character()", "1L", "1.5", "1:2")
# Impostors of a class.
of_class <- function(class) {
  kinds <- c(
    "a list", "a number", "a string", "a function", "an environment", "a null pointer", "a foreign pointer",
    "one from a file"
  )
  paste(kinds, "as", class)
}
closed_devices <- c("a closed device", "a closed client")
used_buffers <- c("a donated buffer", "a deleted buffer", "a closed buffer")

input_kinds <- function() {
  with_operators <- c(
    "a factor", "a Date", "a time", "a data frame", "integer64", "a device", "a memory", "a closed device",
    "a closed memory"
  )
  all_with_operators <- c(with_operators, "a buffer", used_buffers, of_class("PJRTBuffer"))
  list(
    ignored = NULL,
    any = kind(x, anything),
    # R does not dispatch operators on two objects with different methods
    compared = kind(x, anything, spared = all_with_operators),
    compared_dtype = kind(
      "f32", function(v, label) (is.atomic(v) || is.list(v)) && !inherits(v, "PJRTBuffer"), spared = all_with_operators
    ),
    compared_array = kind(x, function(v, label) !inherits(v, "PJRTBuffer") || label == "a buffer"),
    # what prints, formats or has a structure: everything but impostors that are not from a file
    shown = kind(
      x, function(v, label) !grepl(" as PJRT", label) || grepl("^(a null pointer|one from a file) as ", label)
    ),
    none = kind(x),
    flag = kind(FALSE, plainly(is_flag)),
    flag_or_null = kind(NULL, or_null(plainly(is_flag))),
    # our objects; the kinds named `known_` accept unusable ones, too
    buffer = kind(x, only("a buffer"), "PJRTBuffer"),
    known_buffer = kind(x, only("a buffer", used_buffers), "PJRTBuffer"),
    client = kind(client, only("a client", "a closed client", "NULL"), "PJRTClient"),
    device = kind(here, only("NULL", "a device", "a client"), c("PJRTDevice", "PJRTClient")),
    known_device = kind(here, only("NULL", "a device", "a client", closed_devices), c("PJRTDevice", "PJRTClient")),
    one_device = kind(here, only("a device", "a closed device"), "PJRTDevice"),
    devices = kind(devices(client)[1L], classes = "PJRTDevice"),
    memory = kind(memory, only("a memory", "a closed memory"), "PJRTMemory"),
    plugin = kind(plugin, only("a plugin"), "PJRTPlugin"),
    executable = kind(add, only("an executable"), "PJRTLoadedExecutable"),
    known_executable = kind(add, only("an executable", "a closed executable"), "PJRTLoadedExecutable"),
    program = kind(program, only("a program"), "PJRTProgram"),
    execution_options = kind(options, only("NULL", "execution options"), "PJRTExecutionOptions"),
    compile_options = kind(
      pjrt_compile_options(), only("compile options", "one from a file as PJRTCompileOptions"), "PJRTCompileOptions"
    ),
    promise = kind(array, only("an array promise"), c("PJRTArrayPromise", "PJRTExecutablePromise")),
    compiling = kind(
      compiled, only("a compiling promise", "one from a file as PJRTExecutablePromise"),
      c("PJRTArrayPromise", "PJRTExecutablePromise")
    ),
    tree = kind(tree, classes = "RTree"),
    dispatcher = kind(dispatching, classes = "Dispatcher"),
    fun = kind(identity, only("a function", "a primitive")),
    texts = kind(
      "a", plainly(function(v) is.character(v) && !anyNA(v) && all(validEnc(v)) && !any(Encoding(v) == "bytes"))
    ),
    model = kind(opened, only("a model file"), "PJRTSafetensors"),
    # objects that the call deletes or closes
    ended = kind(
      NULL, only("a deleted buffer", "a donated buffer", "a closed buffer"), c("PJRTBuffer", "PJRTClient"),
      spared = c("a buffer", "a client", "a model file")
    ),
    # R objects with one of our classes, whose content is checked only where the method needs it
    printed = kind(NULL),
    dtype_name = kind(NULL, function(v, label) grepl("^a (list|number|string) as ", label)),
    # numbers, strings and data
    data = kind(c(1, 2), function(v, label) is_numbers(v, label) && length(v) %in% 1:2),
    number = kind(1, function(v, label) is_numbers(v, label) && length(v) == 1L),
    dtype = kind("f32", only("NULL")),
    # creating a buffer of 2^31 elements is slow
    shape = kind(2L, only("NULL", "1:2"), spared = "2^31"),
    index = kind(1),
    string = kind("a", plainly(is_text)),
    name = kind("cpu"),
    # platforms without a plugin skip a test
    tested = kind("cpu", spared = c(single_names, "a line end", "\"cpu:9\"", "\"%s\"")),
    path = kind(file, paths = TRUE),
    list = kind(list()),
    choice = kind("a"),
    # R evaluates a call or symbol given to as.vector() again
    mode = kind("any", spared = c("a call", "a symbol")),
    # valid names would be installed, which takes a second each
    installed = kind("idle", spared = c("NULL", platforms)),
    size = kind(NULL, only(sizes)),
    subscript = kind(1),
    # what has as many rows
    factor = kind(
      x, only("a buffer", "NULL", "1:2", "c(1, NA)", "c(TRUE, FALSE)", "a matrix"), "PJRTBuffer"
    ),
    joined = kind(
      1,
      function(v, label) label %in% c("a buffer", "NULL") ||
        (is_numbers(v, label) || is.complex(v)) && length(v) %in% 0:2,
      "PJRTBuffer", spared = with_operators
    ),
    # what an operator takes beside a buffer of two floats
    operand = kind(
      x, function(v, label) label == "a buffer" || (is_numbers(v, label) || is.complex(v)) && length(v) %in% 1:2,
      "PJRTBuffer", spared = with_operators
    )
  )
}

sound_report <- function() {
  rows <- data.frame(part = "start", check = "a client is created", result = "pass", detail = "", seconds = 0)
  structure(rows, class = c("PJRTPluginReport", "data.frame"), plugin = "libplugin.so")
}
