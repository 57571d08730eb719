/* R calls R_init_pjrt when it loads the library; everything else is in Rust. */
void pjrt_register(void *dll);

void R_init_pjrt(void *dll) {
    pjrt_register(dll);
}
