# Isolates the tests from the session and the machine: no existing clients or plugins, two CPU devices, no plugin
# discovery, no cached programs, and no messages from the plugin.
local({
  the <- getFromNamespace("the", "pjrt")
  the[["clients"]] <- new.env(parent = emptyenv())
  the[["plugins"]] <- new.env(parent = emptyenv())
  withr::local_envvar(
    PJRT_CPU_DEVICE_COUNT = "2", PJRT_DISCOVER = "0", PJRT_CACHE = "0", TF_CPP_MIN_LOG_LEVEL = "3",
    .local_envir = teardown_env()
  )
  # everything runs on another CPU plugin; see tools/plugins.sh
  if (nzchar(Sys.getenv("PJRT_TEST_PLUGIN"))) {
    withr::local_envvar(PJRT_PLUGIN_PATH_CPU = Sys.getenv("PJRT_TEST_PLUGIN"), .local_envir = teardown_env())
  }
  withr::local_options(
    warnPartialMatchArgs = TRUE, warnPartialMatchAttr = TRUE, warnPartialMatchDollar = TRUE,
    .local_envir = teardown_env()
  )
})
