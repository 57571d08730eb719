# Compiles C code to a library in a temporary folder. Skips the test if there is no C compiler. `settings` are lines of
# a Makevars.
build_library <- function(source, settings = NULL) {
  folder <- tempfile("library")
  dir.create(folder)
  file.copy(c(source, list.files(dirname(source), "[.]h$", full.names = TRUE)), folder)
  if (!is.null(settings)) writeLines(settings, file.path(folder, "Makevars"))
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

# The library of a plugin with clients of several processes, see src/rust/core/tests/fixtures/fake-hosts.c.
hosts_library <- function() build_library(source_file("src/rust/core/tests/fixtures/fake-hosts.c"))

# A file with an HLO module for the fake plugin's compiler: its input and output are arrays of two f32, which are half
# of the whole arrays if the module is divided.
sum_module <- function(is_divided, env = parent.frame()) {
  field <- function(number, bytes) c(as.raw(8L * number + 2L), as.raw(length(bytes)), bytes)
  shape <- c(as.raw(c(0x10, 11)), field(3L, as.raw(2L)))
  halves <- c(as.raw(c(0x08, 3)), field(3L, as.raw(2L)), field(4L, as.raw(0:1)))
  module <- c(
    field(1L, charToRaw("sum")), field(4L, c(field(1L, shape), field(2L, shape))),
    if (is_divided) c(field(12L, halves), field(14L, halves))
  )
  file <- withr::local_tempfile(fileext = ".hlo", .local_envir = env)
  writeBin(module, file)
  file
}
