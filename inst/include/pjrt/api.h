/* The C interface of the R package pjrt.
 *
 * In your package: `LinkingTo: pjrt` and `Imports: pjrt` in DESCRIPTION, `importFrom(pjrt, pjrt_buffer)` or another function
 * in NAMESPACE, so that pjrt is loaded, and `#include <pjrt/api.h>`. Link nothing.
 *
 * No routine raises an R error or jumps. After a failure a routine returns what is given below as "else", and
 * pjrt_c_last_error() says why. Call all routines on R's main thread. An `SEXP` that a routine returns is not protected.
 * Arguments of type SEXP may be any R object or NULL; every other pointer must be NULL or point to what is documented.
 */
#ifndef PJRT_R_API_H
#define PJRT_R_API_H

#include <stdint.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

/* The version of this header; compare with pjrt_c_api_version(). Hundreds differ if a routine has changed. */
#define PJRT_C_API_VERSION 200

/* Defines a function that looks up the routine in pjrt at its first call. */
#define PJRT_C_ROUTINE(type, name, parameters, arguments)            \
  static inline type name parameters {                               \
    typedef type(*routine_type) parameters;                          \
    static routine_type routine = NULL;                              \
    if (routine == NULL) {                                           \
      routine = (routine_type)R_GetCCallable("pjrt", #name);         \
    }                                                                \
    return routine arguments;                                        \
  }

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface in the installed package. */
PJRT_C_ROUTINE(int, pjrt_c_api_version, (void), ())

/* Not needed: each routine is looked up at its first call. Returns the version. */
static inline int pjrt_c_api_init(void) { return pjrt_c_api_version(); }

/* Why the last failed routine failed: text that is valid until the next failure, "" before the first one. */
PJRT_C_ROUTINE(const char *, pjrt_c_last_error, (void), ())

/* 1 for a live object of the class, else 0. */
PJRT_C_ROUTINE(int, pjrt_c_is_buffer, (SEXP x), (x))
PJRT_C_ROUTINE(int, pjrt_c_is_client, (SEXP x), (x))
PJRT_C_ROUTINE(int, pjrt_c_is_device, (SEXP x), (x))
PJRT_C_ROUTINE(int, pjrt_c_is_executable, (SEXP x), (x))

/* The PJRT_Buffer_Type of a buffer's elements, else -1. */
PJRT_C_ROUTINE(int, pjrt_c_buffer_dtype, (SEXP buffer), (buffer))

/* The dimensions of a buffer, and their number in `*rank`. The numbers are valid while the buffer lives. Else NULL. */
PJRT_C_ROUTINE(const int64_t *, pjrt_c_buffer_dims, (SEXP buffer, int *rank), (buffer, rank))

/* The address of a buffer's content in the device's memory, valid while the buffer lives and is not donated. Waits until the
 * content is complete; the user can interrupt that. Else NULL. */
PJRT_C_ROUTINE(void *, pjrt_c_buffer_address, (SEXP buffer), (buffer))

/* The `const PJRT_Api *` of the plugin, valid for the rest of the session, else NULL. */
PJRT_C_ROUTINE(const void *, pjrt_c_buffer_api, (SEXP buffer), (buffer))
PJRT_C_ROUTINE(const void *, pjrt_c_client_api, (SEXP client), (client))

/* The `PJRT_Device *` of a device, and of the device that a buffer is on, valid while the client is open, else NULL. Does not
 * wait for the buffer's content. */
PJRT_C_ROUTINE(void *, pjrt_c_device_ptr, (SEXP device), (device))
PJRT_C_ROUTINE(void *, pjrt_c_buffer_device_ptr, (SEXP buffer), (buffer))

/* The device of a buffer, and the one R object of a device: equal devices are the same object. Else R_NilValue. */
PJRT_C_ROUTINE(SEXP, pjrt_c_device_for_buffer, (SEXP buffer), (buffer))
PJRT_C_ROUTINE(SEXP, pjrt_c_device_canonical, (SEXP device), (device))

/* The PJRT_Buffer_Type with this name or alias, such as "f32", else -1; and the name of a type, else NULL. */
PJRT_C_ROUTINE(int, pjrt_c_dtype_from_name, (const char *name), (name))
PJRT_C_ROUTINE(const char *, pjrt_c_dtype_name, (int dtype), (dtype))

/* A buffer with the values of an R vector in column-major order, or with the bytes of a raw vector. `dims` has `rank` numbers.
 * `device` or `client` may be R_NilValue or NULL: the client's first device, or the default device. Else R_NilValue. */
PJRT_C_ROUTINE(SEXP, pjrt_c_buffer_from_r,
               (SEXP client, SEXP device, SEXP data, const int64_t *dims, int rank, int dtype),
               (client, device, data, dims, rank, dtype))

/* The same with zeros. */
PJRT_C_ROUTINE(SEXP, pjrt_c_buffer_empty, (SEXP client, SEXP device, const int64_t *dims, int rank, int dtype),
               (client, device, dims, rank, dtype))

/* The buffer itself if it is on that device, else a copy there. `client` is the device's client or R_NilValue. With
 * `cross_client` 0 the device must belong to the buffer's client. Else R_NilValue. */
PJRT_C_ROUTINE(SEXP, pjrt_c_buffer_copy_to_device, (SEXP buffer, SEXP device, SEXP client, int cross_client),
               (buffer, device, client, cross_client))

/* Runs an executable with a list of buffers: a list of buffers, whose content comes later. `options` are from
 * pjrt_c_execution_options() or pjrt_execution_options(), or R_NilValue. Else R_NilValue. */
PJRT_C_ROUTINE(SEXP, pjrt_c_execute, (SEXP executable, SEXP inputs, SEXP options), (executable, inputs, options))

/* Options of an execution: an R vector of the indices, from 0, of inputs that must not be donated, or R_NilValue, and a number
 * that identifies the launch. Else R_NilValue. */
PJRT_C_ROUTINE(SEXP, pjrt_c_execution_options, (SEXP non_donatable, int launch_id), (non_donatable, launch_id))

#ifdef __cplusplus
}
#endif

#endif
