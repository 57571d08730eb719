# The state of the session: loaded plugins and clients, by platform, and more.
the <- new.env(parent = emptyenv())
the$plugins <- new.env(parent = emptyenv())
the$registered <- list()
the$clients <- new.env(parent = emptyenv())
the$devices <- new.env(parent = emptyenv())
the$places <- list()
the$config <- list(cpu_device_count = 1L)
the$log_level <- NULL
the$tengen <- NULL
the$handler_packages <- character()
the$lapack_named <- FALSE
the$has_compile_helper <- NULL
the$r_call_errors <- list(count = 0, kept = list())
the$kept_conditions <- list()
# not by name in an environment: R keeps all names that it has seen
the$on_ready <- list(numbers = numeric(), entries = list())
the$progress <- NULL
the$python <- NULL
the$matrix_methods <- NULL
the$bit64_methods <- list()
the$is_traced <- FALSE
the$profiler_failures <- NULL
the$trace_sites <- list()
# what the devices can do, measured by R/device-limits.R
the$limits <- list()

.onLoad <- function(libname, pkgname) {
  .Call(ffi_loaded, topenv(), the)
  register_new_methods()
  connect_packages()
  connect_later()
  when_loaded("Matrix", share_with_matrix)
  when_loaded("bit64", share_operators)
}

.onAttach <- function(libname, pkgname) {
  attach_vector_functions(as.environment("package:pjrt"))
}

.onUnload <- function(libpath) {
  disconnect_later()
  remove_hook(packageEvent("Matrix", "onLoad"), share_with_matrix)
  disconnect_bit64()
  disconnect_packages()
}
