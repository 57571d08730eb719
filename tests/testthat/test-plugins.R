test_that("the plugins on the machine are listed in order of precedence", {
  cpu <- real_plugin()
  local_empty_cache()
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = cpu, PJRT_PLUGIN_PATH_IDLE = idle_plugin())
  suppressMessages(install_pjrt("cpu", source = "file", path = idle_plugin()))
  pjrt_plugin("cpu")
  all <- pjrt_plugins()
  expect_identical(all$platform, c("cpu", "cpu", "idle"))
  expect_identical(all$source, c("PJRT_PLUGIN_PATH_CPU", "cache (from file)", "PJRT_PLUGIN_PATH_IDLE"))
  expect_identical(all$loaded, c(TRUE, FALSE, FALSE))
  expect_identical(all$api_version[[1L]], paste(unlist(plugin_info("cpu")$api_version), collapse = "."))
  expect_identical(all$size[[1L]], file.size(cpu))
})

test_that("the plugin in use is listed before others in the cache", {
  local_empty_cache()
  first <- idle_plugin(name = "first.so")
  second <- idle_plugin(name = "second.so")
  suppressMessages(install_pjrt("idle", source = "file", path = first))
  withr::local_envvar(PJRT_PLUGIN_URL_IDLE = paste0("file://", second))
  suppressMessages(install_pjrt("idle"))
  expect_identical(basename(plugin_path("idle")), "second.so")
  expect_identical(basename(pjrt_plugins()$path), c("second.so", "first.so"))
  withr::local_envvar(PJRT_PLUGIN_URL_IDLE = NA)
  suppressMessages(install_pjrt("idle", source = "file", path = first))
  expect_identical(basename(plugin_path("idle")), "first.so")
  expect_identical(basename(pjrt_plugins()$path), c("first.so", "second.so"))
})

test_that("after an installation the new plugin is listed first", {
  local_empty_cache()
  folder <- idle_archive()
  local_manifest(folder, sha256(file.path(folder, "idle.tar.gz")))
  suppressMessages(install_pjrt("idle"))
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin(name = "mine.so")))
  expect_identical(pjrt_plugins()$source, c("cache (from file)", "cache (from release), not in use"))
  suppressMessages(install_pjrt("idle"))
  expect_identical(pjrt_plugins()$source, c("cache (from release)", "cache (from file), not in use"))
  expect_identical(pjrt_plugins()$path[[1L]], plugin_path("idle"))
})

test_that("another version in the manifest is used until the default is installed again", {
  local_empty_cache()
  folder <- idle_archive()
  local_manifest(folder, sha256(file.path(folder, "idle.tar.gz")), versions = c("1.0", "2.0"))
  expect_identical(pjrt_plugins(available = TRUE), data.frame(
    platform = "idle", version = c("1.0", "2.0"), source = "release", api_version = "0.90", stablehlo = NA_character_,
    size = NA_real_, installed = FALSE
  ))
  suppressMessages(install_pjrt("idle"))
  suppressMessages(install_pjrt("idle", version = "2.0"))
  expect_identical(pjrt_plugins()$version, c("2.0", "1.0"))
  expect_identical(pjrt_plugins(available = TRUE)$installed, c(TRUE, TRUE))
  suppressMessages(install_pjrt("idle"))
  expect_identical(pjrt_plugins()$version, c("1.0", "2.0"))
})

test_that("the plugins that can be installed here are listed with their versions", {
  skip_on_os(c("mac", "windows"))
  all <- pjrt_plugins(available = TRUE)
  first <- all[all$platform == "cpu", ][1L, ]
  expect_identical(first[c("version", "source", "api_version", "stablehlo")], data.frame(
    version = "0.0.1", source = "index", api_version = "0.81", stablehlo = "0.9.0 to 1.13.3"
  ))
  expect_gt(first$size, 4e7)
  expect_refused(pjrt_plugins(available = 1), "invalid_type")
})
