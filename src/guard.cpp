// Plugins are written in C++ and may throw exceptions, which C and Rust cannot catch.

#include "guard.h"

#include <cstdio>
#include <exception>
#include <new>

extern "C" void *pjrt_guarded_call(void *(*function)(void *), void *argument, struct pjrt_thrown *thrown) {
  thrown->kind = PJRT_THROWN_NOTHING;
  try {
    return function(argument);
  } catch (const std::bad_alloc &) {
    thrown->kind = PJRT_THROWN_NO_MEMORY;
  } catch (const std::exception &exception) {
    thrown->kind = PJRT_THROWN_OTHER;
    std::snprintf(thrown->what, sizeof thrown->what, "%s", exception.what());
  } catch (...) {
    thrown->kind = PJRT_THROWN_OTHER;
    thrown->what[0] = '\0';
  }
  return nullptr;
}
