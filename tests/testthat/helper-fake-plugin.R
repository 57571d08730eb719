# Compiles C code to a library in a temporary folder. Skips the test if there is no C compiler.
build_library <- function(source) {
  folder <- tempfile("library")
  dir.create(folder)
  file.copy(c(source, list.files(dirname(source), "[.]h$", full.names = TRUE)), folder)
  built <- processx::run(
    file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "--output=library.so", basename(source)), wd = folder,
    error_on_status = FALSE, env = c("current", R_TESTS = "")
  )
  if (built$status != 0L) testthat::skip("no C compiler")
  file.path(folder, "library.so")
}

# A file of the package's sources, which are above the tests in a checkout and beside them in `R CMD check`.
source_file <- function(path) {
  places <- test_path("../..", c(".", "00_pkg_src/pjrt"), path)
  found <- places[file.exists(places)]
  if (length(found) == 0L) testthat::skip("no sources of the package")
  found[[1L]]
}

# A new copy of the fake plugin's library. Each oddity needs its own, since a plugin is loaded once.
fake_library <- local({
  built <- NULL
  function() {
    if (is.null(built)) built <<- build_library(source_file("src/rust/core/tests/fixtures/fake-plugin.c"))
    copy <- tempfile("fake", fileext = ".so")
    file.copy(built, copy)
    copy
  }
})

# Loads the fake plugin with this oddity, see src/rust/core/tests/fixtures/fake-plugin.c.
fake_plugin <- function(oddity = "none") {
  withr::local_envvar(PJRT_FAKE = oddity)
  load_plugin(fake_library(), "fake")
}

# Loads a new copy of the plugin that has only topologies, see src/rust/core/tests/fixtures/fake-topology.c.
topology_plugin <- function(oddity = "none") {
  withr::local_envvar(PJRT_FAKE = oddity)
  load_plugin(build_library(source_file("src/rust/core/tests/fixtures/fake-topology.c")), "abacus")
}
