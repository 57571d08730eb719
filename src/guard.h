/* Calls a function of a plugin and catches what it throws. The same is declared in rust/core/src/ffi/exception.rs. */

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

/* Null when something was thrown. */
#if defined(__GNUC__) && !defined(_WIN32)
__attribute__((visibility("hidden")))
#endif
void *pjrt_guarded_call(void *(*function)(void *), void *argument, struct pjrt_thrown *thrown);

#ifdef __cplusplus
}
#endif

#endif
