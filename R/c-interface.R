#' Use pjrt from C, C++ and Rust
#'
#' @description
#' Packages with C, C++ or Rust code can create, inspect and execute pjrt's objects without calling R functions. The
#' header `pjrt/api.h` declares 22 routines; comments there describe what each routine returns, also after a failure.
#'
#' To use it:
#' * Add `Imports: pjrt` and `LinkingTo: pjrt` to DESCRIPTION, and import at least one function in NAMESPACE, so that R
#'   loads pjrt before your code runs.
#' * `#include <pjrt/api.h>`. There is nothing to link.
#'
#' ```c
#' #include <pjrt/api.h>
#'
#' SEXP add(SEXP executable, SEXP x, SEXP y) {
#'   SEXP inputs = PROTECT(Rf_allocVector(VECSXP, 2));
#'   SET_VECTOR_ELT(inputs, 0, x);
#'   SET_VECTOR_ELT(inputs, 1, y);
#'   SEXP outputs = PROTECT(pjrt_c_execute(executable, inputs, R_NilValue));
#'   if (outputs == R_NilValue) Rf_error("%s", pjrt_c_last_error());
#'   UNPROTECT(2);
#'   return VECTOR_ELT(outputs, 0);
#' }
#' ```
#'
#' @section Rules:
#' * Call the routines on R's main thread. On other threads they fail.
#' * No routine raises an R error. After a failure it returns `R_NilValue`, `NULL`, -1 or 0, and `pjrt_c_last_error()`
#'   returns the reason.
#' * An `SEXP` that a routine returns is not protected.
#' * Element types are numbers of PJRT's `PJRT_Buffer_Type`. `pjrt_c_dtype_from_name("f32")` returns the number of a
#'   type.
#' * Arrays from R are in column-major order, as everywhere in R. The memory at `pjrt_c_buffer_address()` has the
#'   buffer's own layout, which is row-major unless a program asks for another.
#' @examples
#' # the names of the routines
#' path <- system.file("include", "pjrt", "api.h", package = "pjrt")
#' lines <- readLines(path)
#' routines <- grep("^PJRT_C_ROUTINE", lines, value = TRUE)
#' substr(sub("PJRT_C_ROUTINE", "", routines), 1, 70)
#' @name c-interface
NULL
