# Slow: reads many programs and plugins.

report_text <- function() paste(format(pjrt_sitrep()), collapse = "\n")

test_that("the report covers system, package, plugins, clients, variables, cache and index", {
  cpu <- real_plugin()
  local_empty_cache()
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = cpu, PJRT_INDEX_URL = "https://host.test/simple")
  suppressMessages(install_pjrt("abacus", source = "file", path = idle_plugin()))
  pjrt_client("cpu")
  report <- pjrt_sitrep()
  expect_s3_class(report, "PJRTSitrep")
  expect_identical(vapply(report, inherits, NA, "error"), structure(rep(FALSE, 11L), names = names(report)))
  expect_identical(report$package[["version"]], as.character(utils::packageVersion("pjrt")))
  expect_match(report$package[["PJRT C API"]], "^0[.][0-9]+$")
  expect_match(report$package[c("JAX", "StableHLO")], "^[0-9.]+ to [0-9.]+$")
  expect_identical(report$plugins$platform, c("cpu", "abacus"))
  expect_identical(report$plugins$problem, c(NA_character_, NA_character_))
  expect_match(report$clients[["cpu"]], "CpuDevice(id=0), CpuDevice(id=1)", fixed = TRUE)
  expect_identical(report$variables[["PJRT_PLUGIN_PATH_CPU"]], cpu)
  expect_gt(report$cache$size[["abacus"]], 1000)
  expect_identical(report$index, c(url = "https://host.test/simple", origin = "PJRT_INDEX_URL"))
  expect_named(report$cuda, c("cuda", "module", "needs", "libraries"))
  text <- paste(capture.output(expect_invisible(print(report))), collapse = "\n")
  for (
    part in c("System", "Plugins", "CUDA", "Environment variables", "Cache", "Python package index", R.version$platform)
  ) {
    expect_match(text, part, fixed = TRUE)
  }
  expect_match(text, "this package: 0.90", fixed = TRUE)
})

test_that("the report shows problems with a plugin", {
  local_empty_cache()
  text <- withr::local_tempfile(lines = "no library")
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = text, PJRT_PLUGIN_PATH_GONE = paste0(text, "-gone"))
  problems <- pjrt_sitrep()$plugins
  expect_identical(problems$platform, c("cpu", "gone"))
  expect_match(problems$problem[[1L]], "is not a shared library", fixed = TRUE)
  expect_match(problems$problem[[2L]], "There is no", fixed = TRUE)
  expect_match(report_text(), problems$problem[[1L]], fixed = TRUE)
})

test_that("the report contains no secrets", {
  local_empty_cache()
  withr::local_envvar(
    HTTPS_PROXY = "http://me:hidden@proxy.test:3128", PJRT_INDEX_URL = "https://me:hidden@host.test/simple?t=hidden",
    PJRT_PLUGIN_URL_CPU = "https://host.test/x.so?token=hidden",
    PIP_EXTRA_INDEX_URL = "https://a:hidden@b.test https://hidden@c.test",
    PJRT_SOME_TOKEN = "hidden"
  )
  withr::local_options(pjrt.index_url = "https://me:hidden@host.test/")
  text <- report_text()
  expect_no_match(text, "hidden")
  expect_match(text, "HTTPS_PROXY: +http://\\*\\*\\*@proxy.test:3128")
  expect_match(text, "https://***@b.test https://***@c.test", fixed = TRUE)
})

test_that("a variable that is not valid UTF-8 is handled", {
  local_empty_cache()
  withr::local_envvar(SOME_VARIABLE = "\xff", PJRT_PLUGIN_PATH_IDLE = "/\xff.so", PJRT_DEBUG = "\xff")
  expect_identical(pjrt_plugins()$platform, "idle")
  expect_match(report_text(), "PJRT_DEBUG: +\ufffd")
  withr::local_options(pjrt.index_url = "http://127.0.0.1/\xff")
  expect_match(report_text(), "pjrt.index_url: +http://127.0.0.1/<ff>")
})

test_that("the report works with invalid index URLs", {
  local_empty_cache()
  withr::local_options(pjrt.index_url = 1)
  report <- pjrt_sitrep()
  expect_s3_class(report$index, "pjrt_error_invalid_input")
  expect_match(paste(format(report), collapse = "\n"), "`options(pjrt.index_url = )` must be one string", fixed = TRUE)
  withr::local_options(pjrt.index_url = NULL)
  withr::local_envvar(PJRT_INDEX_URL = "no url")
  expect_match(report_text(), "PJRT_INDEX_URL is", fixed = TRUE)
})
