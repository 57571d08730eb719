/* A custom call that multiplies an array by a number: y = factor * x, for f32 and f64.
 *
 * Build it with R, and register it:
 *
 *   folder <- system.file("custom-calls", package = "pjrt")
 *   Sys.setenv(PKG_CPPFLAGS = paste0("-I", shQuote(system.file("include", package = "pjrt"))))
 *   # in a folder of yours, with a copy of scale.c: R CMD SHLIB --output=scale.so scale.c
 *   library <- dyn.load("scale.so")
 *   pjrt_register_custom_call("scale", list(host = getNativeSymbolInfo("scale", library)$address))
 *
 * A program calls it like this:
 *
 *   %y = stablehlo.custom_call @scale(%x) {api_version = 4 : i32, backend_config = {factor = 2.0 : f64}}
 *     : (tensor<4xf32>) -> tensor<4xf32> */

#include <pjrt/ffi.h>

pjrt_ffi_error *scale(pjrt_ffi_call *call) {
  if (call->arguments.size != 1 || call->results.size != 1) {
    return pjrt_ffi_fail(call, PJRT_FFI_INVALID_ARGUMENT, "scale: expected 1 argument and 1 result");
  }
  const pjrt_ffi_buffer *x = pjrt_ffi_argument(call, 0);
  pjrt_ffi_buffer *y = pjrt_ffi_result(call, 0);
  if (x == NULL || y == NULL || x->dtype != y->dtype || pjrt_ffi_length(x) != pjrt_ffi_length(y)) {
    return pjrt_ffi_fail(call, PJRT_FFI_INVALID_ARGUMENT, "scale: expected a result like the argument");
  }
  const double *factor = (const double *)pjrt_ffi_value(call, "factor", PJRT_FFI_F64);
  if (factor == NULL) {
    return pjrt_ffi_fail(call, PJRT_FFI_INVALID_ARGUMENT, "scale: expected the attribute factor, of type f64");
  }
  int64_t length = pjrt_ffi_length(x);
  switch (x->dtype) {
  case PJRT_FFI_F32:
    for (int64_t i = 0; i < length; i++) ((float *)y->data)[i] = (float)*factor * ((const float *)x->data)[i];
    return NULL;
  case PJRT_FFI_F64:
    for (int64_t i = 0; i < length; i++) ((double *)y->data)[i] = *factor * ((const double *)x->data)[i];
    return NULL;
  default:
    return pjrt_ffi_fail(call, PJRT_FFI_INVALID_ARGUMENT, "scale: expected f32 or f64");
  }
}
