# Other packages have generics with the names of ours, and the package that is attached last masks the others. So that
# each generic works for the objects of all, our methods are registered for theirs, and our defaults use their methods.

#' Generics shared with other packages
#'
#' @description
#' Several packages have functions with the names of pjrt's generics: `value()` in future, `as_array()` in torch,
#' `shape()`, `dtype()`, `device()`, `as_array()` and `as_raw()` in tengen, `await()` in coro. You can attach several of
#' these packages in any order:
#' * The other package's generic accepts pjrt's objects, because pjrt registers its methods when that package is loaded.
#' * pjrt's generic accepts the other package's objects: it calls the other package's method.
#'
#' @section Remaining conflicts:
#' * R reports masked functions when you attach the second package. Use `library(future, warn.conflicts = FALSE)` or the
#'   conflicted package to avoid the message.
#' * Functions that are not generics, such as coro's `await()`, accept only what their package defines. Call
#'   `pjrt::await()` for a buffer while coro is attached.
#' * A package that imports two complete namespaces, with `import(pjrt)` and `import(future)`, gets the message
#'   "replacing previous import" for each shared name. Import single functions instead:
#'   `importFrom(pjrt, pjrt_buffer, pjrt_execute)`. Either of the two `value()` functions works for the objects of both
#'   packages.
#' @examplesIf pjrt::plugins_downloaded("cpu") && requireNamespace("future", quietly = TRUE)
#' promise <- as_array_async(pjrt_buffer(1:3))
#' future::value(promise)
#' value(future::future(1 + 1))
#' @name shared-generics
#' @aliases neighbours
NULL

# Packages whose generics get our methods. NAMESPACE registers those for tengen.
neighbours <- c("coro", "future", "torch")

shared_generics <- c(
  "as_array", "as_array_async", "as_raw", "await", "device", "devices", "dtype", "is_ready", "platform", "shape",
  "value"
)

connect_neighbours <- function() {
  for (package in neighbours) {
    when_loaded(package, lend_methods)
  }
}

disconnect_neighbours <- function() {
  for (package in neighbours) {
    remove_hook(packageEvent(package, "onLoad"), lend_methods)
    if (isNamespaceLoaded(package)) {
      reclaim_methods(package)
    }
  }
}

# Registers our methods for another package's generics of the same names.
lend_methods <- function(package, ...) {
  namespace <- asNamespace(package)
  for (name in Filter(function(name) has_generic(namespace, name), shared_generics)) {
    for (method in our_methods(name)) {
      registerS3method(name, substring(method, nchar(name) + 2L), methods_table(topenv())[[method]], envir = namespace)
    }
  }
}

reclaim_methods <- function(package) {
  table <- methods_table(asNamespace(package))
  ours <- intersect(unlist(lapply(shared_generics, our_methods)), names(table))
  rm(list = ours, envir = table)
}

# The names of our methods of a generic, without its default.
our_methods <- function(name) {
  methods <- names(methods_table(topenv()))
  methods[startsWith(methods, paste0(name, ".PJRT"))]
}

methods_table <- function(namespace) {
  namespace[[".__S3MethodsTable__."]]
}

has_generic <- function(namespace, name) {
  generic <- get0(name, namespace, mode = "function", inherits = FALSE)
  !is.null(generic) && isTRUE(utils::isS3stdGeneric(generic))
}

# Another loaded package's generic that has a method for the class of `x`, or NULL.
neighbour_generic <- function(name, x) {
  for (package in setdiff(loadedNamespaces(), c("base", "pjrt"))) {
    namespace <- asNamespace(package)
    if (has_generic(namespace, name) && any(paste0(name, ".", .class2(x)) %in% names(methods_table(namespace)))) {
      return(get(name, namespace))
    }
  }
}

# For the default of a generic: the result of another package's method, or an error that names our classes.
pass_on <- function(name, x, classes, ...) {
  generic <- neighbour_generic(name, x)
  if (is.null(generic)) {
    abort_class(x, classes)
  }
  generic(x, ...)
}
