test_that("pjrt_plugin() returns one object per platform", {
  plugin <- pjrt_plugin("cpu")
  expect_identical(class(plugin), "PJRTPlugin")
  expect_identical(typeof(plugin), "externalptr")
  expect_identical(attr(plugin, "platform"), "cpu")
  expect_identical(pjrt_plugin("cpu"), plugin)
  expect_identical(the$plugins[["cpu"]], plugin)
})

test_that("a plugin prints its platform and is returned invisibly", {
  plugin <- pjrt_plugin("cpu")
  expect_snapshot(plugin, cran = TRUE)
  utils::capture.output(expect_invisible(print(plugin)))
})

test_that("as_pjrt_plugin() accepts only platform names and plugins", {
  plugin <- pjrt_plugin("cpu")
  expect_identical(as_pjrt_plugin("cpu"), plugin)
  expect_identical(as_pjrt_plugin(plugin), plugin)
  expect_refused(as_pjrt_plugin(1), "invalid_input", "Invalid plugin: <numeric>")
  expect_refused(as_pjrt_plugin(NULL), "invalid_input", "Invalid plugin: <NULL>")
  expect_refused(as_pjrt_plugin(pjrt_client("cpu")), "invalid_input", "Invalid plugin: <PJRTClient>")
})

test_that("a platform name must be one string", {
  for (bad in list("", NA_character_, c("cpu", "cpu"), character(), 1, NULL)) {
    expect_refused(pjrt_plugin(bad), "invalid_input", "`platform` must be one non-empty string")
  }
})

test_that("a platform name cannot lead to another folder", {
  cache <- local_empty_cache()
  withr::local_envvar(PJRT_INSTALL = "1", PJRT_PLUGIN_URL____X = paste0("file://", idle_plugin()))
  for (bad in c("../x", "/x", "..", ".x", "a/b", "a\\b", "\xff", strrep("x", 101L))) {
    expect_refused(pjrt_plugin(bad), "invalid_input", "`platform` must be the name of a platform")
    expect_refused(install_pjrt(bad), "invalid_input", "`platforms` must be")
    expect_refused(uninstall_pjrt(bad), "invalid_input", "`platforms` must be")
  }
  expect_identical(list.files(dirname(cache), all.files = TRUE, no.. = TRUE), character())
})

test_that("an unknown platform is refused before any folder is created", {
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache)
  error <- expect_refused(pjrt_plugin("abc"), "plugin_not_found")
  expect_match(conditionMessage(error), "^Invalid platform")
  expect_match(conditionMessage(error), "PJRT_PLUGIN_PATH_ABC", fixed = TRUE)
  expect_identical(error$platform, "abc")
  expect_refused(pjrt_client("abc"), "plugin_not_found", "Invalid platform")
  expect_refused(devices("abc"), "plugin_not_found", "Invalid platform")
  expect_refused(pjrt_device("abc:1"), "plugin_not_found", "Invalid platform")
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("an error about a platform without a download names the variable to set", {
  local_empty_cache()
  withr::local_envvar(PJRT_PLUGIN_PATH_NEURON = NA)
  expect_refused(pjrt_plugin("neuron"), "plugin_not_found", "Set PJRT_PLUGIN_PATH_NEURON")
})

test_that("a plugin given by path can have any platform name", {
  withr::local_envvar(PJRT_PLUGIN_PATH_MINE = plugin_path("cpu"))
  plugin <- pjrt_plugin("mine")
  withr::defer(rm("mine", envir = the$plugins))
  expect_identical(attr(plugin, "platform"), "mine")
  expect_true(plugins_downloaded("mine"))
  expect_identical(plugin_attributes("mine"), plugin_attributes("cpu"))
})

test_that("a file that is not a plugin is refused", {
  text <- withr::local_tempfile(lines = "no library")
  withr::local_envvar(PJRT_PLUGIN_PATH_TEXT = text, PJRT_PLUGIN_PATH_GONE = file.path(tempdir(), "gone.so"))
  expect_refused(pjrt_plugin("text"), "plugin_invalid", text)
  expect_refused(pjrt_plugin("gone"), "plugin_not_found", "gone.so")
  library <- file.path(R.home("modules"), paste0("lapack", .Platform$dynlib.ext))
  withr::local_envvar(PJRT_PLUGIN_PATH_OTHER = library)
  expect_refused(pjrt_plugin("other"), "plugin_invalid", "GetPjrtApi")
})

test_that("plugin_attributes() describes a plugin", {
  attributes <- plugin_attributes("cpu")
  expect_type(attributes, "list")
  expect_true(all(
    c("xla_version", "stablehlo_current_version", "stablehlo_minimum_version") %in% names(attributes)
  ))
  expect_type(attributes$xla_version, "integer")
  expect_length(attributes$xla_version, 1L)
  expect_type(attributes$stablehlo_current_version, "integer")
  expect_length(attributes$stablehlo_current_version, 3L)
  expect_gte(attributes$stablehlo_current_version[[1L]], 1L)
  expect_identical(plugin_attributes(pjrt_plugin("cpu")), attributes)
  expect_refused(plugin_attributes(1), "invalid_input", "Invalid plugin")
})

test_that("without a TPU the plugin is told not to query the cloud", {
  skip_if(length(Sys.glob(c("/dev/accel*", "/dev/vfio/[0-9]*"))) > 0L, "there may be a TPU")
  withr::local_envvar(TPU_SKIP_MDS_QUERY = NA)
  skip_tpu_metadata()
  expect_identical(Sys.getenv("TPU_SKIP_MDS_QUERY"), "1")
  withr::local_envvar(TPU_SKIP_MDS_QUERY = "0")
  skip_tpu_metadata()
  expect_identical(Sys.getenv("TPU_SKIP_MDS_QUERY"), "0")
})
