# A folder of Python packages with the CPU plugin, as a wheel installs it, and an entry point of this name.
local_wheel <- function(name, env = parent.frame()) {
  prefix <- withr::local_tempdir(.local_envir = env)
  site <- file.path(prefix, "lib", "python3.11", "site-packages")
  info <- file.path(site, "some_accel-1.2.3.dist-info")
  module <- file.path(site, "jax_plugins", "some_accel")
  for (folder in c(info, module)) dir.create(folder, recursive = TRUE)
  writeLines(c("[jax_plugins]", paste(name, "= jax_plugins.some_accel")), file.path(info, "entry_points.txt"))
  file.symlink(real_plugin(), file.path(module, "plugin.so"))
  normalizePath(prefix)
}

local_registration <- function(env = parent.frame()) {
  before <- the$registered
  withr::defer(the[["registered"]] <- before, envir = env)
}

test_that("a plugin in a Python package is found by its entry point", {
  plugin <- real_plugin()
  prefix <- local_wheel("MyAccel")
  local_machine(VIRTUAL_ENV = prefix)
  found <- found_plugins("myaccel")
  expect_identical(found$path, plugin)
  expect_identical(found$source, "Python package some-accel")
  expect_identical(found$version, "1.2.3")
  expect_identical(found$folder, file.path(prefix, "lib", "python3.11", "site-packages"))
  expect_true(plugins_downloaded("myaccel"))
  expect_identical(plugin_path("myaccel"), plugin)
  expect_identical(nrow(found_plugins("other")), 0L)
  withr::local_envvar(PJRT_DISCOVER = "0")
  expect_false(plugins_downloaded("myaccel"))
})

test_that("a discovered plugin runs programs", {
  local_machine(VIRTUAL_ENV = local_wheel("xla_cpu_pjrt"))
  code <- quote({
    stopifnot(length(ls(pjrt:::the$plugins)) == 0L)
    cat(as_array(pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(1, 2), "f32"))), "\n")
  })
  expect_clean(run_child(code), "2 4 ")
})

test_that("a plugin for an unknown platform can be used by its name", {
  local_machine(VIRTUAL_ENV = local_wheel("myaccel"))
  code <- quote({
    client <- pjrt_client("myaccel", cpu_device_count = 2L)
    x <- pjrt_buffer(c(1, 2), "f32", device = devices("myaccel")[[2L]])
    cat(length(devices(client)), as_array(x), names(pjrt:::the$clients), "\n")
  })
  expect_clean(run_child(code), "2 1 2 myaccel ")
})

test_that("folders in PJRT_PLUGIN_PATH are searched first, with or without discovery", {
  plugin <- real_plugin()
  folder <- withr::local_tempdir()
  dir.create(file.path(folder, "inner"))
  file.symlink(plugin, file.path(folder, "inner", "libpjrt_tt.so"))
  local_machine(PJRT_PLUGIN_PATH = paste(c("relative", folder), collapse = .Platform$path.sep), PJRT_DISCOVER = "0")
  seen <- look_for_plugins()
  expect_identical(seen$found$source, "PJRT_PLUGIN_PATH")
  expect_identical(seen$found$path, plugin)
  expect_match(seen$skipped$reason, "must be absolute paths", fixed = TRUE)
  expect_identical(seen$places$path, folder)
})

test_that("a plugin that is not found raises an error with the places searched", {
  prefix <- local_wheel("myaccel")
  local_machine(VIRTUAL_ENV = prefix)
  site <- file.path(prefix, "lib", "python3.11", "site-packages")
  error <- expect_refused(pjrt_plugin("other"), "plugin_not_found", paste0(site, " (VIRTUAL_ENV)"))
  expect_no_match(conditionMessage(error), "Did not use", fixed = TRUE)
  skip_on_os("windows")
  library <- file.path(site, "jax_plugins", "some_accel", "plugin.so")
  unlink(library)
  writeLines("no library", library)
  error <- expect_refused(pjrt_plugin("myaccel"), "plugin_not_found", paste0("Did not use '", library, "'"))
  expect_match(conditionMessage(error), "a text file", fixed = TRUE)
})

test_that("the error lists the places that the user set first, all of them", {
  folders <- vapply(1:6, function(i) withr::local_tempdir(.local_envir = parent.frame(2)), "")
  missing <- sprintf("/nowhere/%d", 1:5)
  prefix <- local_wheel("myaccel")
  local_machine(
    VIRTUAL_ENV = prefix, PJRT_CACHE_DIR = folders[[1L]], PJRT_SITE_DIR = folders[[2L]],
    PJRT_PLUGIN_PATH = paste(c(folders[3:6], missing), collapse = .Platform$path.sep)
  )
  message <- conditionMessage(expect_refused(pjrt_plugin("other"), "plugin_not_found"))
  line <- grep("Looked for it in", strsplit(message, "\n")[[1L]], value = TRUE)
  set <- c(
    paste(folders, rep(c("(PJRT_CACHE_DIR)", "(PJRT_SITE_DIR)", "(PJRT_PLUGIN_PATH)"), c(1, 1, 4))),
    paste(file.path(prefix, "lib", "python3.11", "site-packages"), "(VIRTUAL_ENV)")
  )
  expect_match(line, paste0("Looked for it in ", paste(set, collapse = ", ")), fixed = TRUE)
  for (path in missing) expect_match(message, sprintf("Did not use '%s'", path), fixed = TRUE)
})

test_that("a plugin in a world-writable folder is not used", {
  skip_on_os("windows")
  skip_if_not(nzchar(Sys.which("cc")), "no C compiler")
  folder <- withr::local_tempdir()
  library <- file.path(normalizePath(folder), "libpjrt_myaccel.so")
  code <- withr::local_tempfile(lines = "int GetPjrtApi(void) { return 0; }", fileext = ".c")
  system2("cc", c("-shared", "-fPIC", "-o", shQuote(library), shQuote(code)))
  local_machine(PJRT_PLUGIN_PATH = folder)
  expect_identical(found_plugins("myaccel")$path, library)
  Sys.chmod(library, "777", use_umask = FALSE)
  expect_refused(plugin_path("myaccel"), "plugin_not_found", "every user can write to")
})

test_that("a registered plugin takes precedence over a discovered one", {
  local_registration()
  plugin <- real_plugin()
  local_machine(VIRTUAL_ENV = local_wheel("myaccel"))
  copy <- file.path(withr::local_tempdir(), "copy.so")
  file.symlink(plugin, copy)
  expect_false(plugins_downloaded("mine"))
  expect_named(registered_plugins(), c("platform", "path", "source", "version"))
  expect_invisible(name <- pjrt_register_plugin("mine", copy))
  expect_identical(name, "mine")
  expect_true(plugins_downloaded("mine"))
  expect_identical(plugin_path("mine"), plugin)
  expect_identical(pjrt_register_plugin("mine", plugin), "mine")
  expect_identical(registered_plugins()$platform, "mine")
  expect_identical(registered_plugins()$path, plugin)
  withr::local_envvar(PJRT_PLUGIN_PATH_MINE = copy)
  expect_identical(plugin_path("mine"), copy)
  expect_invisible(removed <- pjrt_unregister_plugin("mine"))
  expect_true(removed)
  expect_false(pjrt_unregister_plugin("mine"))
  expect_identical(nrow(registered_plugins()), 0L)
})

test_that("a file that is not a plugin cannot be registered", {
  local_registration()
  text <- withr::local_tempfile(lines = "no library")
  plugin <- real_plugin()
  expect_refused(pjrt_register_plugin("mine", text), "plugin_invalid", "a text file")
  expect_refused(pjrt_register_plugin("mine", tempdir()), "plugin_invalid", "a folder")
  expect_refused(pjrt_register_plugin("mine", paste0(text, "-gone")), "plugin_not_found", "-gone")
  library <- file.path(R.home("modules"), paste0("lapack", .Platform$dynlib.ext))
  expect_refused(pjrt_register_plugin("mine", library), "plugin_invalid", "GetPjrtApi")
  expect_refused(pjrt_register_plugin("mine", 1), "invalid_input", "`path`")
  expect_refused(pjrt_register_plugin(1, plugin), "invalid_input", "`platform`")
  for (bad in c("a:1", "1a", "a b", "\u00e4", "../a")) {
    expect_refused(pjrt_register_plugin(bad, plugin), "invalid_input", "`platform`")
  }
  expect_refused(pjrt_register_plugin("mine", plugin, 1), "invalid_input", "`options` must be a named list")
  expect_refused(pjrt_register_plugin("mine", plugin, list(1)), "invalid_input", "must have unique names")
  expect_refused(pjrt_register_plugin("cpu", plugin, list(nothing = 1)), "invalid_input", "no option `nothing`")
  expect_identical(the$registered, list())
})

test_that("options given at registration are the client's defaults", {
  code <- bquote({
    plugin <- .(real_plugin())
    pjrt_register_plugin("mine", plugin, list(cpu_device_count = 3L))
    pjrt_register_plugin("yours", plugin, list(cpu_device_count = 3L))
    pjrt_register_plugin("cpu", plugin, list(cpu_device_count = 4L))
    count <- function(...) length(devices(pjrt_client(...)))
    cat(count("mine"), count("yours", cpu_device_count = 5L), count("cpu"), "\n")
    pjrt_register_plugin("mine", plugin, list(cpu_device_count = 3L))
    error <- tryCatch(pjrt_register_plugin("mine", plugin), pjrt_error_invalid_input = conditionMessage)
    cat(grepl("already has a client", error, fixed = TRUE), "\n")
  })
  expect_clean(run_child(code), c("3 5 4 ", "TRUE "))
})

test_that("a platform keeps the plugin that it loaded first", {
  local_registration()
  withr::local_envvar(PJRT_PLUGIN_PATH_MINE = real_plugin())
  pjrt_plugin("mine")
  withr::defer(rm("mine", envir = the$plugins))
  expect_identical(pjrt_register_plugin("mine", real_plugin()), "mine")
  skip_if_not(nzchar(Sys.which("cc")), "no C compiler")
  code <- withr::local_tempfile(lines = "int GetPjrtApi(void) { return 0; }", fileext = ".c")
  other <- withr::local_tempfile(fileext = ".so")
  system2("cc", c("-shared", "-fPIC", "-o", shQuote(other), shQuote(code)))
  expect_refused(pjrt_register_plugin("mine", other), "invalid_input", "has already loaded a different plugin")
  expect_identical(plugin_path("mine"), real_plugin())
})
