/* Calls a plugin's function and catches exceptions. Matches the declarations in rust/ffi/src/exception.rs. */

#ifndef PJRT_GUARD_H
#define PJRT_GUARD_H

#ifdef __cplusplus
extern "C" {
#endif

enum { PJRT_THROWN_NOTHING, PJRT_THROWN_NO_MEMORY, PJRT_THROWN_OTHER };

struct pjrt_thrown {
  int kind;
  char what[252];
};

/* Returns NULL if the function throws. */
#if defined(__GNUC__) && !defined(_WIN32)
__attribute__((visibility("hidden")))
#endif
void *pjrt_guarded_call(void *(*function)(void *), void *argument, struct pjrt_thrown *thrown);

#ifdef __cplusplus
}
#endif

#endif
