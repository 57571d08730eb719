# What lives as long as the session: the plugins and clients in use, by platform.
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

.onLoad <- function(libname, pkgname) {
  .Call(ffi_loaded, topenv(), the)
  # XLA reads this when its library is loaded, and otherwise prints a line for every client.
  if (!nzchar(Sys.getenv("TF_CPP_MIN_LOG_LEVEL"))) {
    Sys.setenv(TF_CPP_MIN_LOG_LEVEL = "1")
  }
  # Clients are closed before the process begins to exit: while they work, nothing may be torn down under them.
  reg.finalizer(the, function(e) .Call(ffi_client_close_all), onexit = TRUE)
}
