# The package is not on every machine: a stand-in with the same generics serves child processes.
install_stand_in <- function(env = parent.frame()) {
  source <- file.path(withr::local_tempdir(.local_envir = env), "tengen")
  lib <- withr::local_tempdir(.local_envir = env)
  generics <- c("as_array", "as_raw", "device", "dtype", "shape")
  dir.create(file.path(source, "R"), recursive = TRUE)
  writeLines(c("Package: tengen", "Version: 0.0.1", "Title: Stand-In"), file.path(source, "DESCRIPTION"))
  writeLines(sprintf("export(%s)", c("as_dtype", generics)), file.path(source, "NAMESPACE"))
  writeLines(c(
    "as_dtype <- function(x) structure(x, class = c('stand_in', 'DataType'))",
    sprintf("%1$s <- function(x, ...) UseMethod('%1$s')", generics)
  ), file.path(source, "R", "all.R"))
  arguments <- c("CMD", "INSTALL", "--no-test-load", "-l", shQuote(lib), shQuote(source))
  output <- suppressWarnings(system2(file.path(R.home("bin"), "R"), arguments, stdout = TRUE, stderr = TRUE))
  if (!dir.exists(file.path(lib, "tengen"))) stop(paste(output, collapse = "\n"))
  lib
}

test_that("dtype() looks for tengen once, and again when it is loaded or unloaded", {
  lib <- install_stand_in()
  child <- run_child(bquote({
    is_stand_in <- function(...) cat(inherits(dtype(pjrt_scalar(...)), "stand_in"), "\n")
    is_stand_in(1)
    .libPaths(c(.(lib), .libPaths()))
    is_stand_in(1L)
    if (isNamespaceLoaded("tengen")) unloadNamespace("tengen")
    invisible(loadNamespace("tengen"))
    is_stand_in(1)
    is_stand_in(1L)
    unloadNamespace("tengen")
    is_stand_in(1)
    cat(isNamespaceLoaded("tengen"), "\n")
  }))
  expect_clean(child, paste(c(FALSE, FALSE, TRUE, TRUE, TRUE, TRUE), ""))
})

test_that("an installed tengen is loaded by the first dtype()", {
  libs <- c(install_stand_in(), .libPaths())
  child <- run_child(quote({
    cat(isNamespaceLoaded("tengen"), "\n")
    type <- dtype(pjrt_scalar(TRUE))
    cat(class(type), as.character(type), "\n")
    # what tengen has no type for
    cat(class(dtype(pjrt_empty("i4", 1))), "\n")
  }), c(R_LIBS = paste(libs, collapse = .Platform$path.sep)))
  expect_clean(child, c("FALSE ", "stand_in DataType bool ", "DataType "))
})

test_that("nothing of an unloaded pjrt is called when tengen is loaded", {
  child <- run_child(quote({
    # R has hooks of its own there, for methods
    is_ours <- function(hook) environmentName(environment(hook)) == "pjrt"
    ours <- function(event) sum(vapply(getHook(packageEvent("tengen", event)), is_ours, NA))
    cat(ours("onLoad"), ours("onUnload"), "\n")
    unloadNamespace("pjrt")
    cat(ours("onLoad"), ours("onUnload"), "\n")
    loadNamespace("pjrt")
    cat(ours("onLoad"), ours("onUnload"), "\n")
  }))
  expect_clean(child, c("1 1 ", "0 0 ", "1 1 "))
})
