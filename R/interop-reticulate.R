# Python's arrays by reticulate: inst/python/pjrt_dlpack.py has the Python half.

#' @exportS3Method reticulate::r_to_py
r_to_py.PJRTBuffer <- function(x, convert = FALSE) {
  lend <- python_module()$lend
  lent <- call_native(ffi_dlpack_lend, x)
  taken <- FALSE
  on.exit(if (!taken) .Call(ffi_dlpack_release, lent))
  object <- lend(lent)
  taken <- TRUE
  object
}

#' @exportS3Method reticulate::r_to_py
r_to_py.PJRTDLPack <- function(x, convert = FALSE) {
  versioned <- call_native(ffi_dlpack_describe, x)$versioned
  python_module()$give(.Call(ffi_dlpack_give, x), isTRUE(versioned))
}

# The functions of the Python half, with their arguments and results converted. Python starts with the first call.
python_module <- function() {
  if (is.null(the$python)) {
    if (!requireNamespace("reticulate", quietly = TRUE)) {
      abort_input("Python objects need the reticulate package.")
    }
    folder <- system.file("python", package = "pjrt", mustWork = TRUE)
    module <- reticulate::import_from_path("pjrt_dlpack", path = folder, convert = TRUE)
    module$connect(call_native(ffi_dlpack_functions))
    the$python <- list(lend = module$lend, give = module$give, take = module$take, lend_arrow = module$lend_arrow)
  }
  the$python
}

# Takes over the array of a Python object.
take_from_python <- function(x, device) {
  take <- python_module()$take
  # quicker than a call by reticulate, without its exceptions
  found <- .Call(ffi_dlpack_take_object, as.character(reticulate::py_id(x)))
  if (!is.null(found)) {
    return(found)
  }
  taken <- call_python(take(x))
  if (startsWith(taken, "device")) {
    # only a device with streams asks for one
    place <- as.integer(strsplit(taken, " ", fixed = TRUE)[[1L]][-1L])
    device <- if (is.null(device)) device_for_place(place[[1L]], place[[2L]], "other") else as_pjrt_device(device)
    taken <- call_python(take(x, call_native(ffi_dlpack_stream, device)))
  }
  .Call(ffi_dlpack_take, substring(taken, 2L), startsWith(taken, "v"))
}

# Evaluates a call of Python, whose exceptions become our errors.
call_python <- function(code) {
  call <- user_call()
  tryCatch(
    code, python.builtin.Exception = function(e) abort_python(e, call), error = function(e) abort_python(e, call)
  )
}

abort_python <- function(e, call) {
  message <- sub("\n.*", "", conditionMessage(e))
  pjrt_abort(
    paste0("Python does not lend the array: ", message), "invalid_value", call = call, parent = e,
    hints = python_advice(message)
  )
}

# What to do about an object that Python does not lend.
python_advice <- function(message) {
  if (grepl("native byte order", message, fixed = TRUE)) {
    "Convert its numbers to the machine's byte order first: x.astype(x.dtype.newbyteorder(\"=\"))."
  } else if (grepl("DLPack only supports", message, fixed = TRUE)) {
    c(
      "NumPy lends arrays of numbers only, and none of the types of ml_dtypes, such as bfloat16. For these, convert it:",
      "pjrt_buffer(reticulate::py_to_r(x$astype(\"float32\")), \"bf16\")."
    )
  } else if (grepl("no attribute '__dlpack", message, fixed = TRUE)) {
    c(
      "`x` must have `__dlpack__()`, as arrays of NumPy, JAX and PyTorch do.",
      "A single number or a list becomes an array by numpy.asarray(x), or an R object by reticulate::py_to_r(x)."
    )
  } else {
    # PyTorch says what to do
    character()
  }
}
