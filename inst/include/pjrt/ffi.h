/* Handlers of custom calls, for C and C++.
 *
 * A program calls a handler by name. The handler gets one struct, which describes the call, and returns NULL or an
 * error:
 *
 *     pjrt_ffi_error *scale(pjrt_ffi_call *call);
 *
 * pjrt_register_custom_call() registers it. The structs are those of XLA's FFI, version 0.3; plugins since version 0.1
 * use the same ones. See custom-calls/scale.c in the installed package for a complete handler.
 *
 * A handler runs on any thread, and must not call R. Pointers in the struct are valid until the handler returns. C++
 * exceptions become errors of the execution. */

#ifndef PJRT_FFI_H
#define PJRT_FFI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. */
enum {
  PJRT_FFI_PRED = 1,
  PJRT_FFI_I8 = 2,
  PJRT_FFI_I16 = 3,
  PJRT_FFI_I32 = 4,
  PJRT_FFI_I64 = 5,
  PJRT_FFI_U8 = 6,
  PJRT_FFI_U16 = 7,
  PJRT_FFI_U32 = 8,
  PJRT_FFI_U64 = 9,
  PJRT_FFI_F16 = 10,
  PJRT_FFI_F32 = 11,
  PJRT_FFI_F64 = 12,
  PJRT_FFI_C64 = 15,
  PJRT_FFI_BF16 = 16,
  PJRT_FFI_TOKEN = 17,
  PJRT_FFI_C128 = 18,
  PJRT_FFI_F8E5M2 = 19,
  PJRT_FFI_F8E4M3FN = 20,
  PJRT_FFI_I4 = 21,
  PJRT_FFI_U4 = 22,
  PJRT_FFI_F8E4M3B11FNUZ = 23,
  PJRT_FFI_F8E5M2FNUZ = 24,
  PJRT_FFI_F8E4M3FNUZ = 25,
  PJRT_FFI_I2 = 26,
  PJRT_FFI_U2 = 27,
  PJRT_FFI_F8E4M3 = 28,
  PJRT_FFI_F8E3M4 = 29,
  PJRT_FFI_F4E2M1FN = 32,
  PJRT_FFI_F8E8M0FNU = 33
};

/* Codes of errors: the class of the condition in R. */
enum {
  PJRT_FFI_CANCELLED = 1,
  PJRT_FFI_UNKNOWN = 2,
  PJRT_FFI_INVALID_ARGUMENT = 3,
  PJRT_FFI_DEADLINE_EXCEEDED = 4,
  PJRT_FFI_NOT_FOUND = 5,
  PJRT_FFI_ALREADY_EXISTS = 6,
  PJRT_FFI_PERMISSION_DENIED = 7,
  PJRT_FFI_RESOURCE_EXHAUSTED = 8,
  PJRT_FFI_FAILED_PRECONDITION = 9,
  PJRT_FFI_ABORTED = 10,
  PJRT_FFI_OUT_OF_RANGE = 11,
  PJRT_FFI_UNIMPLEMENTED = 12,
  PJRT_FFI_INTERNAL = 13,
  PJRT_FFI_UNAVAILABLE = 14,
  PJRT_FFI_DATA_LOSS = 15,
  PJRT_FFI_UNAUTHENTICATED = 16
};

/* Kinds of arguments and results, and of attributes. */
enum { PJRT_FFI_IS_BUFFER = 1 };
enum { PJRT_FFI_IS_ARRAY = 1, PJRT_FFI_IS_DICTIONARY = 2, PJRT_FFI_IS_SCALAR = 3, PJRT_FFI_IS_STRING = 4 };

typedef struct pjrt_ffi_error pjrt_ffi_error;
typedef struct pjrt_ffi_context pjrt_ffi_context;

/* An array in the memory of the device. The elements are dense, in the order of the layout that the program demands of
 * the call: row-major if it demands none. Elements narrower than a byte share bytes. */
typedef struct {
  size_t struct_size;
  void *extensions;
  uint32_t dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} pjrt_ffi_buffer;

/* A string, which need not end with a NUL. */
typedef struct {
  const char *data;
  size_t size;
} pjrt_ffi_string;

typedef struct {
  uint32_t dtype;
  void *value;
} pjrt_ffi_scalar;

typedef struct {
  uint32_t dtype;
  size_t size;
  void *data;
} pjrt_ffi_array;

typedef struct {
  size_t struct_size;
  void *extensions;
  int64_t size;
  uint32_t *kinds;
  void **values;
} pjrt_ffi_buffers;

typedef struct {
  size_t struct_size;
  void *extensions;
  int64_t size;
  uint32_t *kinds;
  pjrt_ffi_string **names;
  void **values;
} pjrt_ffi_attributes;

typedef struct {
  size_t struct_size;
  void *extensions;
  const char *message;
  uint32_t code;
} pjrt_ffi_error_args;

typedef struct {
  size_t struct_size;
  void *extensions;
  pjrt_ffi_context *context;
  void *stream;
} pjrt_ffi_stream_args;

/* The plugin's functions, as far as this header uses them; struct_size is the size of the whole table. */
typedef struct {
  size_t struct_size;
  void *extensions;
  size_t version_size;
  void *version_extensions;
  int major_version;
  int minor_version;
  const void *internal;
  pjrt_ffi_error *(*create_error)(pjrt_ffi_error_args *);
  void *get_message;
  void *destroy_error;
  void *register_handler;
  pjrt_ffi_error *(*get_stream)(pjrt_ffi_stream_args *);
} pjrt_ffi_api;

/* A call of a handler. */
typedef struct {
  size_t struct_size;
  void *extensions;
  const pjrt_ffi_api *api;
  pjrt_ffi_context *context;
  uint32_t stage;
  pjrt_ffi_buffers arguments;
  pjrt_ffi_buffers results;
  pjrt_ffi_attributes attributes;
} pjrt_ffi_call;

/* An error for the handler to return. The message is copied. */
static inline pjrt_ffi_error *pjrt_ffi_fail(const pjrt_ffi_call *call, uint32_t code, const char *message) {
  pjrt_ffi_error_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.message = message;
  args.code = code;
  return call->api->create_error(&args);
}

static inline pjrt_ffi_buffer *pjrt_ffi_buffer_at(const pjrt_ffi_buffers *buffers, int64_t i) {
  if (i < 0 || i >= buffers->size || buffers->kinds[i] != PJRT_FFI_IS_BUFFER) return NULL;
  return (pjrt_ffi_buffer *)buffers->values[i];
}

/* An argument, counted from 0; NULL if there is none. */
static inline const pjrt_ffi_buffer *pjrt_ffi_argument(const pjrt_ffi_call *call, int64_t i) {
  return pjrt_ffi_buffer_at(&call->arguments, i);
}

/* A result, counted from 0; NULL if there is none. Its memory may be that of an argument. */
static inline pjrt_ffi_buffer *pjrt_ffi_result(const pjrt_ffi_call *call, int64_t i) {
  return pjrt_ffi_buffer_at(&call->results, i);
}

/* The number of elements. */
static inline int64_t pjrt_ffi_length(const pjrt_ffi_buffer *buffer) {
  int64_t length = 1;
  for (int64_t i = 0; i < buffer->rank; i++) length *= buffer->dims[i];
  return length;
}

/* The attribute of this name and kind; NULL if there is none. */
static inline const void *pjrt_ffi_attribute(const pjrt_ffi_attributes *attributes, const char *name, uint32_t kind) {
  size_t size = strlen(name);
  for (int64_t i = 0; i < attributes->size; i++) {
    const pjrt_ffi_string *other = attributes->names[i];
    if (other->size == size && memcmp(other->data, name, size) == 0) {
      return attributes->kinds[i] == kind ? attributes->values[i] : NULL;
    }
  }
  return NULL;
}

/* The value of a scalar attribute of this element type; NULL if there is none. */
static inline const void *pjrt_ffi_value(const pjrt_ffi_call *call, const char *name, uint32_t dtype) {
  const pjrt_ffi_scalar *scalar =
    (const pjrt_ffi_scalar *)pjrt_ffi_attribute(&call->attributes, name, PJRT_FFI_IS_SCALAR);
  return scalar != NULL && scalar->dtype == dtype ? scalar->value : NULL;
}

/* A string attribute; NULL if there is none. */
static inline const pjrt_ffi_string *pjrt_ffi_text(const pjrt_ffi_call *call, const char *name) {
  return (const pjrt_ffi_string *)pjrt_ffi_attribute(&call->attributes, name, PJRT_FFI_IS_STRING);
}

/* An array attribute; NULL if there is none. */
static inline const pjrt_ffi_array *pjrt_ffi_values(const pjrt_ffi_call *call, const char *name) {
  return (const pjrt_ffi_array *)pjrt_ffi_attribute(&call->attributes, name, PJRT_FFI_IS_ARRAY);
}

/* The stream of a GPU on which the handler must work, such as a CUstream; NULL if there is none. */
static inline void *pjrt_ffi_stream(const pjrt_ffi_call *call) {
  pjrt_ffi_stream_args args;
  const size_t end = offsetof(pjrt_ffi_api, get_stream) + sizeof call->api->get_stream;
  if (call->api->struct_size < end || call->api->get_stream == NULL) return NULL;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.context = call->context;
  return call->api->get_stream(&args) == NULL ? args.stream : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
