# Slow: starts many sessions.

# Installs a stand-in for another package, with these lines of code, for child processes.
neighbour <- function(name, namespace, code, imports = character(), env = parent.frame()) {
  source <- file.path(withr::local_tempdir(.local_envir = env), name)
  dir.create(file.path(source, "R"), recursive = TRUE)
  description <- c(
    Package = name, Version = "1.0", Title = "A stand-in", Description = "A stand-in.", License = "MIT",
    Author = "pjrt authors",
    Maintainer = "pjrt authors <pjrt@example.org>", Imports = if (length(imports) > 0L) toString(imports)
  )
  write.dcf(as.list(description), file.path(source, "DESCRIPTION"))
  writeLines(namespace, file.path(source, "NAMESPACE"))
  writeLines(code, file.path(source, "R", "code.R"))
  install_stand_in(source, name, env)
}

with_library <- function(lib) c(R_LIBS = paste(c(lib, .libPaths()), collapse = .Platform$path.sep))

test_that("value() works for futures and promises of arrays, whichever package is attached last", {
  skip_if_not_installed("future")
  both <- quote({
    promise <- as_array_async(pjrt_buffer(1:3))
    compiling <- pjrt_compile_async(pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt")))
    later <- future::future(40 + 2)
    cat(value(promise), value(later), unlist(value(list(later, later))), class(value(compiling)), "\n")
    cat(pjrt::value(later), future::value(promise), class(tryCatch(pjrt::value("a"), error = identity))[[1L]], "\n")
  })
  after <- bquote({
    library(future, warn.conflicts = FALSE)
    stopifnot(identical(value, future::value))
    .(both)
  })
  before <- bquote({
    detach("package:pjrt", unload = TRUE)
    library(future)
    library(pjrt, warn.conflicts = FALSE)
    stopifnot(identical(value, pjrt::value))
    .(both)
  })
  for (order in list(after, before)) {
    expect_clean(run_child(order), c("1 2 3 42 42 42 PJRTLoadedExecutable ", "42 1 2 3 pjrt_error_invalid_type "))
  }
})

test_that("another package's generic of the same name accepts our objects, and ours accepts that package's", {
  lib <- neighbour("torch", c("export(as_array)", "S3method(as_array, torch_tensor)"), c(
    "as_array <- function(x) UseMethod('as_array')",
    "as_array.torch_tensor <- function(x) unclass(x) + 1"
  ))
  code <- quote({
    name <- "torch"
    tensor <- structure(1, class = "torch_tensor")
    cat(class(tryCatch(as_array(tensor), error = identity))[[1L]], "\n")
    other <- loadNamespace(name)
    cat(as_array(tensor), other$as_array(pjrt_buffer(5:6)), other$as_array(as_array_async(pjrt_scalar(7L))), "\n")
    table <- other[[".__S3MethodsTable__."]]
    cat(sort(names(table)), "\n")
    unloadNamespace("pjrt")
    cat(names(table), "\n")
    loadNamespace("pjrt")
    cat(sort(names(table)), "\n")
  })
  methods <- "as_array.PJRTArrayPromise as_array.PJRTBuffer as_array.torch_tensor "
  expect_clean(run_child(code, with_library(lib)), c(
    "pjrt_error_invalid_type ", "2 5 6 7 ", methods, "as_array.torch_tensor ", methods
  ))
})

test_that("functions that are not generics stay as they are", {
  lib <- neighbour("coro", "export(await)", "await <- function(x) 'not generic'")
  code <- quote({
    name <- "coro"
    library(name, character.only = TRUE, warn.conflicts = FALSE)
    x <- pjrt_scalar(1)
    cat(await(x), identical(pjrt::await(x), x), "\n")
  })
  expect_clean(run_child(code, with_library(lib)), "not generic TRUE ")
})

test_that("a package can import all of this package and functions of future without messages", {
  skip_if_not_installed("future")
  namespace <- c("import(pjrt)", "importFrom(future, future)", "export(both)")
  code <- "both <- function() c(value(as_array_async(pjrt_scalar(1L))), value(future(2L)))"
  lib <- neighbour("importer", namespace, code, imports = c("pjrt", "future"))
  expect_clean(run_child(quote(cat(getExportedValue("importer", "both")(), "\n")), with_library(lib)), "1 2 ")
})
