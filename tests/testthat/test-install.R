test_that("plugins that a variable names are there when their file is", {
  withr::local_envvar(R_USER_CACHE_DIR = withr::local_tempdir())
  here <- withr::local_tempfile(lines = "a file")
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = here)
  expect_true(plugins_downloaded("cpu"))
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = paste0(here, "-gone"))
  expect_false(plugins_downloaded("cpu"))
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = NA)
  expect_false(plugins_downloaded("cpu"))
})

test_that("plugins_downloaded() is TRUE only when all platforms are there", {
  withr::local_envvar(PJRT_PLUGIN_PATH_CUDA = NA, PJRT_PLUGIN_PATH_CPU = plugin_path("cpu"))
  expect_true(plugins_downloaded(c("cpu", "cpu")))
  expect_false(plugins_downloaded(c("cpu", "cuda")))
  expect_false(plugins_downloaded("abc"))
  expect_refused(plugins_downloaded(NA_character_), "invalid_input", "`platforms`")
  expect_refused(plugins_downloaded("\xff"), "invalid_input", "`platforms`")
  expect_refused(plugins_downloaded(1), "invalid_input", "`platforms`")
})

test_that("plugins_downloaded() asks for the default platform when none is named", {
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = plugin_path("cpu"), PJRT_PLUGIN_PATH_CUDA = NA, PJRT_PLATFORM = "cpu")
  expect_true(plugins_downloaded())
  withr::local_envvar(PJRT_PLATFORM = "cuda")
  expect_false(plugins_downloaded())
})

test_that("looking for plugins makes no folder", {
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache, PJRT_PLUGIN_PATH_CPU = NA)
  expect_false(plugins_downloaded("cpu"))
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("nothing is fetched when PJRT_INSTALL forbids it, and the error says what to do", {
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache, PJRT_PLUGIN_PATH_CPU = NA, PJRT_INSTALL = "0")
  error <- expect_refused(plugin_path("cpu"), "plugin_not_found", "pjrt::install_pjrt()")
  expect_match(conditionMessage(error), "PJRT_INSTALL=1", fixed = TRUE)
  expect_match(conditionMessage(error), "PJRT_PLUGIN_PATH_CPU", fixed = TRUE)
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("a session that is not interactive does not fetch unasked", {
  skip_if(interactive(), "the question would be asked")
  withr::local_envvar(R_USER_CACHE_DIR = withr::local_tempdir(), PJRT_PLUGIN_PATH_CPU = NA, PJRT_INSTALL = NA)
  expect_refused(plugin_path("cpu"), "plugin_not_found", "pjrt::install_pjrt()")
})

test_that("arguments of install_pjrt() are checked before anything is fetched", {
  expect_refused(install_pjrt(cuda = NA), "invalid_input", "`cuda` must be TRUE or FALSE")
  expect_refused(install_pjrt(cuda = TRUE), "plugin_not_found", "PJRT_PLUGIN_PATH_CUDA")
  withr::local_options(pjrt.index_url = 1)
  expect_refused(install_pjrt(), "invalid_input", "pjrt.index_url")
})

test_that("an index that cannot be reached is a download error that leaves nothing behind", {
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache)
  withr::local_options(pjrt.index_url = "http://127.0.0.1:9/simple")
  expect_refused(install_pjrt(), "download")
  left <- list.files(cache, recursive = TRUE, all.files = TRUE, no.. = TRUE)
  expect_identical(left[file.size(file.path(cache, left)) > 0], character())
})
