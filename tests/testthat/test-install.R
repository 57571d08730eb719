# Slow: waits for servers.

test_that("a plugin named by a variable counts as downloaded if its file exists", {
  withr::local_envvar(R_USER_CACHE_DIR = withr::local_tempdir())
  here <- withr::local_tempfile(lines = "a file")
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = here)
  expect_true(plugins_downloaded("cpu"))
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = paste0(here, "-gone"))
  expect_false(plugins_downloaded("cpu"))
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = NA)
  expect_false(plugins_downloaded("cpu"))
})

test_that("plugins_downloaded() is TRUE only if all platforms have a plugin", {
  cpu <- real_plugin()
  local_empty_cache()
  withr::local_envvar(PJRT_PLUGIN_PATH_CUDA = NA, PJRT_PLUGIN_PATH_CPU = cpu)
  expect_true(plugins_downloaded(c("cpu", "cpu")))
  expect_false(plugins_downloaded(c("cpu", "cuda")))
  expect_false(plugins_downloaded("abc"))
  expect_refused(plugins_downloaded(NA_character_), "invalid_input", "`platforms`")
  expect_refused(plugins_downloaded("\xff"), "invalid_input", "`platforms`")
  expect_refused(plugins_downloaded(1), "invalid_input", "`platforms`")
})

test_that("plugins_downloaded() checks the default platform by default", {
  cpu <- real_plugin()
  local_empty_cache()
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = cpu, PJRT_PLUGIN_PATH_CUDA = NA, PJRT_PLATFORM = "cpu")
  expect_true(plugins_downloaded())
  withr::local_envvar(PJRT_PLATFORM = "cuda")
  expect_false(plugins_downloaded())
})

test_that("looking for plugins creates no folder", {
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache, PJRT_PLUGIN_PATH_CPU = NA)
  expect_false(plugins_downloaded("cpu"))
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("PJRT_INSTALL=0 prevents downloads and the error says what to do", {
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache, PJRT_PLUGIN_PATH_CPU = NA, PJRT_INSTALL = "0")
  error <- expect_refused(plugin_path("cpu"), "plugin_not_found", "pjrt::install_pjrt(\"cpu\")")
  expect_match(conditionMessage(error), "PJRT_INSTALL=1", fixed = TRUE)
  expect_match(conditionMessage(error), "PJRT_PLUGIN_PATH_CPU", fixed = TRUE)
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("a non-interactive session does not download plugins unasked", {
  skip_if(interactive(), "the question would be asked")
  withr::local_envvar(R_USER_CACHE_DIR = withr::local_tempdir(), PJRT_PLUGIN_PATH_CPU = NA, PJRT_INSTALL = NA)
  expect_refused(plugin_path("cpu"), "plugin_not_found", "pjrt::install_pjrt(\"cpu\")")
})

test_that("the question of the first use takes 1, y, yes and Enter, and asks again", {
  for (yes in c("", " ", "1", "y", "Y", "yes", "Yes ", "YES")) expect_true(is_yes(yes), info = yes)
  for (no in c("2", "0", "n", "N", "no", "No")) expect_false(is_yes(no), info = no)
  for (neither in c("maybe", "11", "yesno", "?")) expect_identical(is_yes(neither), NA, info = neither)
  library <- idle_plugin()
  local_empty_cache()
  terminal <- start_terminal(c(PJRT_INSTALL = NA, PJRT_PLUGIN_URL_MY_OWN = paste0("file://", library)))
  withr::defer(terminal$kill())
  ask <- function(...) {
    terminal$type("cat('it is', tryCatch(basename(pjrt:::plugin_path('my-own')), error = class)[[1]], '\\n')")
    for (answer in c(...)) {
      expect_false(is.na(terminal$see("2: no: ")))
      terminal$type(answer)
    }
  }
  ask("no")
  expect_false(is.na(terminal$see("it is pjrt_error_plugin_not_found")))
  ask("what", "1")
  expect_false(is.na(terminal$see("it is [^ \r\n]*[.]so")))
  expect_match(terminal$all(), "Answer yes or no", fixed = TRUE)
})

test_that("a dialog of an editor is asked instead", {
  withr::local_options(askYesNo = function(msg, ...) grepl("yes", msg))
  expect_true(ask_yes("yes?"))
  expect_false(ask_yes("no?"))
})

test_that("install_pjrt() checks its arguments before any download", {
  cache <- local_empty_cache()
  expect_refused(install_pjrt(cuda = NA), "invalid_input", "`cuda` must be TRUE or FALSE")
  expect_refused(install_pjrt(NA), "invalid_input", "`cuda` must be TRUE or FALSE")
  expect_refused(install_pjrt(1), "invalid_input", "`platforms` must be")
  expect_refused(install_pjrt("../x"), "invalid_input", "`platforms` must be")
  expect_refused(install_pjrt("cpu", version = 1), "invalid_input", "`version` must be one non-empty string")
  expect_refused(install_pjrt("cpu", source = "web"), "invalid_input", "`source` must be one of \"auto\"")
  expect_refused(install_pjrt("cpu", source = NULL), "invalid_input", "`source` must be one of \"auto\"")
  expect_refused(install_pjrt("cpu", path = 1), "invalid_input", "`path` must be one non-empty string")
  expect_refused(install_pjrt("cpu", path = "x"), "invalid_input", "can only be used with `source = \"file\"`")
  expect_refused(install_pjrt("cpu", source = "file"), "invalid_input", "`path` must be the path")
  expect_refused(install_pjrt(c("cpu", "tpu"), version = "1"), "invalid_input", "need exactly one platform")
  expect_refused(install_pjrt("cpu", force = 1), "invalid_input", "`force` must be TRUE or FALSE")
  expect_refused(install_pjrt("abacus"), "plugin_not_found", "PJRT_PLUGIN_PATH_ABACUS")
  withr::local_options(pjrt.index_url = 1)
  expect_refused(install_pjrt("cpu"), "invalid_input", "pjrt.index_url")
  withr::local_options(pjrt.index_url = NULL, pjrt.manifest = 1)
  expect_refused(install_pjrt("cpu"), "invalid_input", "pjrt.manifest")
  withr::local_options(pjrt.manifest = tempfile("gone"))
  expect_refused(install_pjrt("cpu"), "io", "gone")
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("invalid UTF-8 is refused and other encodings are converted", {
  cache <- local_empty_cache()
  invalid <- bytes <- "x\xff"
  Encoding(invalid) <- "UTF-8"
  expect_refused(install_pjrt("cpu", version = invalid), "invalid_input", "'x<ff>' is not valid UTF-8")
  expect_refused(install_pjrt("cpu", source = "file", path = invalid), "invalid_input", "not valid UTF-8")
  Encoding(bytes) <- "bytes"
  expect_refused(install_pjrt("cpu", version = bytes), "invalid_input", "`version` must be one non-empty string")
  withr::local_options(pjrt.index_url = bytes)
  expect_refused(install_pjrt("cpu"), "invalid_input", "pjrt.index_url")
  withr::local_options(pjrt.index_url = NULL)
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
  mine <- idle_plugin(name = "caf\u00e9.so")
  suppressMessages(install_pjrt("idle", source = "file", path = iconv(mine, "UTF-8", "latin1")))
  expect_identical(basename(plugin_path("idle")), "caf\u00e9.so")
})

test_that("uninstall_pjrt() leaves other files in the cache", {
  cache <- local_empty_cache()
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin()))
  dir.create(file.path(cache, "other", "data"), recursive = TRUE)
  expect_length(uninstall_pjrt(), 1L)
  expect_identical(list.files(cache, recursive = TRUE, include.dirs = TRUE), c("other", "other/data"))
})

test_that("an unreachable index raises a download error with advice and leaves no files", {
  cache <- local_empty_cache()
  withr::local_options(pjrt.index_url = "http://me:secret@127.0.0.1:9/simple")
  error <- expect_refused(install_pjrt("cpu"), "download", "Without a network")
  expect_match(conditionMessage(error), "pip download --no-deps --dest wheels xla-cpu-pjrt==0.0.1", fixed = TRUE)
  expect_match(conditionMessage(error), "PJRT_PLUGIN_PATH_CPU", fixed = TRUE)
  expect_no_match(conditionMessage(error), "secret")
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("the bundled manifest is used", {
  known <- fetchable_plugins()
  skip_on_os(c("mac", "windows"))
  expect_identical(names(known)[[1L]], "cpu")
  expect_gt(known[["cpu"]], 4e7)
})

test_that("an archive in the manifest can be installed, listed and removed", {
  cache <- local_empty_cache()
  folder <- idle_archive()
  local_manifest(folder, sha256(file.path(folder, "idle.tar.gz")))
  expect_message(result <- withVisible(install_pjrt("idle")), "libpjrt_idle.so", fixed = TRUE)
  expect_identical(result, list(value = "idle", visible = FALSE))
  expect_true(plugins_downloaded("idle"))
  row <- pjrt_plugins()
  row <- row[row$platform == "idle", ]
  path <- file.path(cache, "idle", paste0("1.0-", R.version$arch), "libpjrt_idle.so")
  expect_identical(normalizePath(row$path), normalizePath(path))
  expect_identical(row$source, "cache (from release)")
  expect_identical(c(row$version, row$api_version), c("1.0", "0.90"))
  expect_identical(row$size, file.size(path))
  expect_false(row$loaded)
  expect_identical(bitwAnd(as.integer(file.mode(path)), strtoi("022", 8L)), 0L)
  expect_message(none <- uninstall_pjrt("idle", version = "2.0"), "Nothing to remove")
  expect_identical(none, character())
  expect_message(gone <- uninstall_pjrt(), "Removed .*idle")
  expect_identical(normalizePath(gone, mustWork = FALSE), normalizePath(dirname(path), mustWork = FALSE))
  expect_false(plugins_downloaded("idle"))
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("an error about a missing file names the variable that points to it", {
  withr::local_envvar(PJRT_PLUGIN_PATH_ABACUS = "/no/such/file.so")
  expect_refused(pjrt_plugin("abacus"), "plugin_not_found", "check the environment variable PJRT_PLUGIN_PATH_ABACUS")
})

test_that("the progress bar fits the width of the terminal or of R's output", {
  withr::local_options(width = 70L)
  withr::local_envvar(COLUMNS = NA)
  expect_identical(console_columns(), 70L)
  withr::local_envvar(COLUMNS = "50")
  expect_identical(console_columns(), 50L)
  withr::local_envvar(COLUMNS = "many")
  expect_identical(console_columns(), 70L)
})

test_that("an archive with the wrong checksum is refused", {
  cache <- local_empty_cache()
  local_manifest(idle_archive(), strrep("ab", 32L))
  expect_refused(install_pjrt("idle"), "checksum", strrep("ab", 32L))
  expect_identical(list.files(cache, all.files = TRUE, no.. = TRUE), character())
})

test_that("an archive without a checksum needs the user's consent", {
  local_empty_cache()
  local_manifest(idle_archive())
  expect_refused(install_pjrt("idle"), "plugin_not_found", "source = \"release\"")
  suppressMessages(install_pjrt("idle", source = "release"))
  expect_true(plugins_downloaded("idle"))
})

test_that("a user's file is used until the known plugin is installed again", {
  local_empty_cache()
  mine <- idle_plugin(name = "mine.so")
  suppressMessages(install_pjrt("cpu", source = "file", path = mine))
  expect_identical(basename(plugin_path("cpu")), "mine.so")
  expect_identical(pjrt_plugins()$source, "cache (from file)")
  text <- withr::local_tempfile(lines = "no library")
  expect_refused(install_pjrt("cpu", source = "file", path = text), "plugin_invalid")
  expect_identical(basename(plugin_path("cpu")), "mine.so")
  expect_refused(install_pjrt("cpu", source = "file", path = tempfile("gone")), "io", "gone")
  expect_refused(install_pjrt("cpu", source = "file", path = tempdir()), "download", "Cannot download")
  expect_length(suppressMessages(uninstall_pjrt("cpu")), 1L)
  expect_refused(plugin_path("cpu"), "plugin_not_found")
})

test_that("PJRT_PLUGIN_URL_<P> is downloaded on first use, for any platform", {
  local_empty_cache()
  library <- idle_plugin()
  withr::local_envvar(PJRT_PLUGIN_URL_MY_OWN = paste0("file://", library, "#sha256=", sha256(library)))
  expect_refused(plugin_path("my-own"), "plugin_not_found", "install_pjrt(\"my-own\")")
  expect_false(plugins_downloaded("my-own"))
  withr::local_envvar(PJRT_INSTALL = "1")
  expect_identical(basename(plugin_path("my-own")), "libpjrt_idle.so")
  expect_true(plugins_downloaded("my-own"))
  expect_identical(pjrt_plugins()$source, "cache (from url)")
  withr::local_envvar(PJRT_PLUGIN_URL_MY_OWN = "ftp://me:secret@127.0.0.1/x")
  error <- expect_refused(install_pjrt("my-own"), "download", "PJRT_PLUGIN_URL_MY_OWN is")
  expect_no_match(conditionMessage(error), "secret")
})

test_that("several processes can install at once", {
  local_empty_cache()
  folder <- idle_archive()
  local_manifest(folder, sha256(file.path(folder, "idle.tar.gz")))
  code <- bquote({
    options(pjrt.manifest = .(getOption("pjrt.manifest")))
    for (i in 1:5) {
      suppressMessages(install_pjrt("idle", force = TRUE))
      # another process may be replacing it
      stopifnot(comes_true(function() plugins_downloaded("idle")))
    }
  })
  children <- lapply(1:3, function(i) start_child(code))
  for (child in children) {
    child$wait(60000)
    expect_identical(child$read_all_error_lines(), character())
    expect_identical(child$get_exit_status(), 0L)
  }
  expect_identical(dir(file.path(cache_dir(), "idle")), paste0("1.0-", R.version$arch))
})

test_that("a proxy without an address is an error, which names the variable", {
  # requests would go without a proxy of an unknown kind
  for (proxy in c("::::bad", "socks9://127.0.0.1:1")) {
    local_machine(PJRT_DISCOVER = "0", HTTPS_PROXY = proxy)
    message <- "HTTPS_PROXY is not the address of an HTTP proxy"
    expect_refused(install_pjrt("cpu", source = "index", force = TRUE), "invalid_input", message)
  }
})
