# The state of the session: loaded plugins and clients, by platform, and more.
the <- new.env(parent = emptyenv())
the$plugins <- new.env(parent = emptyenv())
the$registered <- list()
the$clients <- new.env(parent = emptyenv())
the$devices <- new.env(parent = emptyenv())
the$platforms <- new.env(parent = emptyenv())
the$canonical_devices <- new.env(parent = emptyenv())
the$custom_calls <- list()
the$config <- list(cpu_device_count = 1L)
the$default_execution_options <- NULL
the$log_level <- NULL
the$tengen <- NULL

.onLoad <- function(libname, pkgname) {
  .Call(ffi_loaded, topenv(), the)
  register_comparison()
  register_framework()
  watch_tengen()
}

.onUnload <- function(libpath) {
  unregister_framework()
  unwatch_tengen()
}

# Undoes setHook().
remove_hook <- function(event, hook) {
  setHook(event, Filter(function(known) !identical(known, hook), getHook(event)), "replace")
}
