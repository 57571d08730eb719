# Makes a library of C code, in a folder for the test run. Skips the test where there is no C compiler.
build_library <- function(source) {
  folder <- tempfile("library")
  dir.create(folder)
  file.copy(source, folder)
  built <- processx::run(
    file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "--output=library.so", basename(source)), wd = folder,
    error_on_status = FALSE, env = c("current", R_TESTS = "")
  )
  if (built$status != 0L) testthat::skip("no C compiler")
  file.path(folder, "library.so")
}

# The fake plugin's library: a copy of its own for each oddity, since a plugin is loaded once.
fake_library <- local({
  built <- NULL
  function() {
    if (is.null(built)) built <<- build_library(test_path("fixtures", "fake-plugin.c"))
    copy <- tempfile("fake", fileext = ".so")
    file.copy(built, copy)
    copy
  }
})

# A plugin that has the oddity of this name, see fixtures/fake-plugin.c.
fake_plugin <- function(oddity = "none") {
  withr::local_envvar(PJRT_FAKE = oddity)
  load_plugin(fake_library(), "fake")
}
