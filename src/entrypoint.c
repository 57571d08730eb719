#include "guard.h"

/* R calls R_init_pjrt when it loads the library. Everything else is in Rust. */
void pjrt_register(void *dll, void *(*guard)(void *(*)(void *), void *, struct pjrt_thrown *));

void R_init_pjrt(void *dll) {
    pjrt_register(dll, pjrt_guarded_call);
}
