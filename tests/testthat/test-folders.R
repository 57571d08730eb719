# The user's cache and the site's folder, on machines that several users share.
# Slow: starts many sessions of another user.

# An empty cache with the plugin "idle", and its folder.
local_idle_cache <- function(env = parent.frame()) {
  cache <- local_empty_cache(env = env)
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin()))
  cache
}

# A program that no other test compiles, so that the session does not have it already.
new_program <- function(number) {
  sprintf(
    "func.func @main(%%x: tensor<f32>) -> tensor<f32> {
      %%c = stablehlo.constant dense<%d.5> : tensor<f32>
      %%y = stablehlo.multiply %%x, %%c : tensor<f32>
      return %%y : tensor<f32>
    }", number
  )
}

open_to_group <- function(path) Sys.chmod(path, "0775", use_umask = FALSE)

idle_source <- function() {
  all <- pjrt_plugins()
  all$source[all$platform == "idle"]
}

test_that("another user without a home folder uses the site's plugin, without warnings", {
  skip_on_os("windows")
  folder <- shared_folder()
  site <- file.path(folder, "site")
  withr::local_envvar(PJRT_SITE_DIR = site)
  library <- real_plugin()
  suppressMessages(install_pjrt("cpu", source = "file", path = library, site = TRUE))
  before <- list.files(site, all.files = TRUE, recursive = TRUE)
  child <- as_other_user(quote({
    all <- pjrt_plugins()
    cat(all$source[all$platform == "cpu"], "\n")
    square <- pjrt_compile(pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt")))
    cat(as_array(pjrt_execute(square, pjrt_scalar(3))), "\n")
    info <- pjrt_cache_info()
    cat(info$dir, info$problem, nrow(as.data.frame(pjrt_cache_info())), "\n")
    report <- pjrt_sitrep()
    cat(grep("none: the home folder|keeps nothing", format(report)) > 0, "\n")
    cat(tryCatch(install_pjrt("cpu"), pjrt_error_io = conditionMessage), "\n")
    again <- function() install_pjrt("cpu", source = "file", path = all$path, force = TRUE, site = TRUE)
    cat(
      if (file.access(Sys.getenv("PJRT_SITE_DIR"), 2L) == 0L) "owner" else tryCatch(
        again(), pjrt_error_io = class
      )[[1L]],
      "\n"
    )
    suppressMessages(cat(length(uninstall_pjrt(everything = TRUE)), "\n"))
  }), c(PJRT_SITE_DIR = site), folder)
  expect_clean(child, c(
    "site folder (from file) ", "9 ", "NA the home folder '/no/home' does not exist 0 ", "TRUE TRUE ",
    "There is no folder for plugins: the home folder '/no/home' does not exist.",
    "i Set PJRT_CACHE_DIR to a folder that only you can write to. ",
    if (can_switch_user()) "pjrt_error_io " else "owner ", "0 "
  ))
  expect_identical(list.files(site, all.files = TRUE, recursive = TRUE), before)

  child <- as_other_user(quote({
    cat(pjrt_cache_info()$problem, "\n")
    square <- pjrt_compile(pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt")))
    cat(unlist(pjrt_cache_info()[c("entries", "errors")]), "\n")
  }), c(PJRT_SITE_DIR = site, HOME = NA), folder)
  expect_clean(child, c("HOME is not set ", "0 0 "))

  # a home folder that the user cannot write to
  home <- file.path(folder, "home")
  dir.create(home)
  Sys.chmod(home, "0555", use_umask = FALSE)
  child <- as_other_user(quote({
    cat(pjrt_cache_info()$problem, "\n")
    square <- pjrt_compile(pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt")))
    cat(unlist(pjrt_cache_info()[c("entries", "errors")]), "\n")
    cat(
      sub(
        ": .*", "",
        tryCatch(
          install_pjrt("cpu", source = "file", path = pjrt_plugins()$path[[1L]]), pjrt_error_io = conditionMessage
        )
      ),
      "\n"
    )
  }), c(PJRT_SITE_DIR = site, HOME = home), folder)
  expect_clean(child, c(
    sprintf("you cannot write to '%s' ", home), "0 0 ", sprintf("Cannot create \"%s/.cache/R/pjrt/cpu\" ", home)
  ))
})

test_that("a cache that the group can write to is not used, and everything says why", {
  skip_on_os("windows")
  cache <- local_idle_cache()
  expect_identical(idle_source(), "cache (from file)")
  platform <- file.path(cache, "idle")
  open_to_group(platform)
  reason <- sprintf("its group can write to '%s' (mode 775)", platform)
  expect_false(plugins_downloaded("idle"))
  expect_identical(idle_source(), paste0("cache, not in use: ", reason))
  expect_match(format(pjrt_sitrep()), paste0("idle: .*cache, not in use: ", "its group can write to"), all = FALSE)
  error <- expect_refused(pjrt_plugin("idle"), "plugin_not_found", reason)
  expect_match(conditionMessage(error), "chmod -R go-w", fixed = TRUE)
  Sys.chmod(platform, "0777", use_umask = FALSE)
  expect_match(idle_source(), "every user can write to '.*idle' \\(mode 777\\)")
  Sys.chmod(platform, "0755", use_umask = FALSE)
  # others could replace the folder of the platform, too
  Sys.chmod(cache, "0777", use_umask = FALSE)
  expect_match(idle_source(), "cache, not in use: every user can write to")
  Sys.chmod(cache, "0755", use_umask = FALSE)
  expect_true(plugins_downloaded("idle"))
  if (is_root()) {
    system2("chown", c("54321", shQuote(list.files(platform, full.names = TRUE)[[1L]])))
    expect_match(idle_source(), "not in use: another user \\(uid 54321\\) owns")
  }
})

test_that("compiled programs that the group could have changed are not used, and the cache says why", {
  skip_on_os("windows")
  plugin <- real_plugin()
  cache <- local_empty_cache()
  withr::local_envvar(PJRT_CACHE = "1", PJRT_PLUGIN_PATH_CPU = plugin)
  expect_identical(pjrt_cache_info()$problem, NA_character_)
  programs <- file.path(cache, "executables")
  dir.create(programs, recursive = TRUE)
  open_to_group(programs)
  reason <- sprintf("its group can write to '%s' (mode 775)", programs)
  expect_identical(pjrt_cache_info()$problem, reason)
  expect_match(format(pjrt_cache_info()), reason, fixed = TRUE, all = FALSE)
  expect_match(format(pjrt_sitrep()), paste("programs: *keeps nothing: its group can write to"), all = FALSE)
  Sys.chmod(programs, "0755", use_umask = FALSE)
  expect_identical(pjrt_cache_info()$problem, NA_character_)
  # others could put their own folder in its place
  Sys.chmod(cache, "0777", use_umask = FALSE)
  expect_match(pjrt_cache_info()$problem, sprintf("every user can write to '%s' (mode 777)", cache), fixed = TRUE)
  compile(unary_program("7xf32"))
  expect_identical(list.files(programs), character())
  Sys.chmod(cache, "0755", use_umask = FALSE)
  expect_identical(pjrt_cache_info()$problem, NA_character_)
  withr::local_envvar(PJRT_CACHE = "0")
  expect_match(format(pjrt_cache_info()), "state: *off", all = FALSE)
})

test_that("PJRT_CACHE_DIR is the folder of plugins and programs", {
  plugin <- real_plugin()
  local_empty_cache()
  folder <- withr::local_tempdir()
  withr::local_envvar(PJRT_CACHE_DIR = folder, PJRT_CACHE = "1", PJRT_PLUGIN_PATH_CPU = plugin)
  expect_identical(cache_dir(), folder)
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin()))
  compile(new_program(31))
  expect_setequal(list.files(folder), c("idle", "executables"))
  withr::local_envvar(HOME = "/no/home")
  expect_identical(cache_dir(), folder)
})

test_that("the site's plugins come after the user's own and before others", {
  cache <- local_idle_cache()
  site <- withr::local_tempdir()
  found <- withr::local_tempdir()
  idle_plugin(found)
  withr::local_envvar(PJRT_SITE_DIR = site, PJRT_PLUGIN_PATH = found)
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin(name = "libpjrt_idle2.so"), site = TRUE))
  expect_identical(
    idle_source(), c("cache (from file)", "site folder (from file), not in use", "PJRT_PLUGIN_PATH")[c(1L, 3L, 2L)]
  )
  expect_identical(local_plugin_path("idle"), pjrt_plugins()$path[[1L]])
  suppressMessages(uninstall_pjrt("idle"))
  expect_identical(idle_source(), c("site folder (from file)", "PJRT_PLUGIN_PATH"))
  expect_true(startsWith(plugin_path("idle"), site))
  expect_match(format(pjrt_sitrep()), paste0("site folder: *", site), all = FALSE)
  suppressMessages(expect_length(uninstall_pjrt("idle", site = TRUE), 1L))
  expect_identical(idle_source(), "PJRT_PLUGIN_PATH")
  expect_identical(list.files(site, all.files = TRUE, no.. = TRUE), character())
})

test_that("the site's folder must be closed to others, and the error says what is wrong with it", {
  skip_on_os("windows")
  local_empty_cache()
  site <- withr::local_tempdir()
  expect_refused(install_pjrt("idle", site = TRUE), "invalid_input", "PJRT_SITE_DIR")
  expect_refused(uninstall_pjrt("idle", site = TRUE), "invalid_input", "PJRT_SITE_DIR")
  withr::local_envvar(PJRT_SITE_DIR = site)
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin(), site = TRUE))
  open_to_group(site)
  reason <- sprintf("its group can write to '%s' (mode 775)", site)
  expect_identical(idle_source(), paste0("site folder, not in use: ", reason))
  expect_refused(pjrt_plugin("idle"), "plugin_not_found", reason)
  Sys.chmod(site, "0755", use_umask = FALSE)
  expect_identical(idle_source(), "site folder (from file)")
  if (is_root()) {
    # neither root, nor the user, nor the owner of this package
    system2("chown", c("54321", shQuote(site)))
    expect_identical(idle_source(), sprintf("site folder, not in use: another user (uid 54321) owns '%s'", site))
  }
  for (bad in list(c("no/such", "must be an absolute path"), c(paste0(site, "/gone"), "the folder does not exist"))) {
    withr::local_envvar(PJRT_SITE_DIR = bad[[1L]])
    expect_refused(pjrt_plugin("idle"), "plugin_not_found", bad[[2L]])
    expect_match(format(pjrt_sitrep()), bad[[2L]], all = FALSE)
  }
})

test_that("files in the site's folder can be read by all users, whatever the umask", {
  skip_on_os("windows")
  local_empty_cache()
  site <- file.path(withr::local_tempdir(), "site")
  withr::local_envvar(PJRT_SITE_DIR = site)
  before <- Sys.umask("077")
  withr::defer(Sys.umask(before))
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin(), site = TRUE))
  expect_identical(format(Sys.umask(NA)), "77")
  files <- c(site, list.files(site, recursive = TRUE, include.dirs = TRUE, full.names = TRUE))
  expect_identical(unique(bitwAnd(as.integer(file.mode(files)), 4L)), 4L)
})

test_that("uninstall_pjrt(everything = TRUE) removes what the package made, and nothing else", {
  plugin <- real_plugin()
  cache <- local_idle_cache()
  site <- withr::local_tempdir()
  withr::local_envvar(PJRT_SITE_DIR = site, PJRT_CACHE = "1", PJRT_PLUGIN_PATH_CPU = plugin)
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin(), site = TRUE))
  compile(new_program(32))
  dir.create(file.path(cache, "idle", ".downloads"))
  writeLines("half", file.path(cache, "idle", ".downloads", "plugin"))
  messages <- capture_messages(gone <- uninstall_pjrt(everything = TRUE))
  expect_match(messages, "Removed .*idle.* \\([0-9.]+ k?B\\)")
  expect_match(messages, "Removed 1 compiled program from .*executables \\([0-9.]+ k?B\\)")
  expect_true(all(c(file.path(cache, "executables"), cache) %in% gone))
  expect_false(dir.exists(cache))
  expect_identical(idle_source(), "site folder (from file)")
  expect_message(uninstall_pjrt(everything = TRUE), "Nothing to remove")

  # what the user put there stays
  suppressMessages(install_pjrt("idle", source = "file", path = idle_plugin()))
  mine <- file.path(cache, c("notes.txt", "idle/notes.txt", "executables/notes.txt"))
  compile(new_program(33))
  file.create(mine)
  expect_message(uninstall_pjrt(everything = TRUE), "did not create: .*notes.txt")
  left <- list.files(cache, recursive = TRUE, full.names = TRUE)
  expect_setequal(normalizePath(left), normalizePath(mine))

  # the folder that a variable names is the user's own
  folder <- withr::local_tempdir()
  withr::local_envvar(PJRT_CACHE_DIR = folder)
  compile(new_program(34))
  suppressMessages(uninstall_pjrt(everything = TRUE))
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), character())
  expect_true(dir.exists(folder))

  expect_refused(uninstall_pjrt("idle", everything = TRUE), "invalid_input", "cannot be combined")
  expect_refused(uninstall_pjrt(everything = NA), "invalid_input", "`everything` must be TRUE or FALSE")
  withr::local_envvar(PJRT_CACHE_DIR = site)
  expect_refused(uninstall_pjrt(everything = TRUE), "invalid_input", "is also the site's folder")
})

test_that("a plugin that was downloaded by half is damaged, not missing", {
  local_idle_cache()
  library <- stored_plugin_path("idle")
  writeBin(readBin(library, "raw", 1000), library)
  error <- expect_refused(pjrt_plugin("idle"), "plugin_invalid", "for platform 'idle' on this machine is damaged")
  expect_match(conditionMessage(error), "it is damaged: it has 1000 bytes", fixed = TRUE)
  expect_no_match(conditionMessage(error), "chmod")
})

test_that("paths with letters that R's locale lacks are used as they are", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  child <- run_child(bquote({
    folder <- .(folder)
    name <- rawToChar(as.raw(c(0xc3, 0xbc)))
    path <- file.path(folder, paste0(name, ".safetensors"))
    pjrt_save_safetensors(list(x = pjrt_scalar(2)), path)
    cat(as_array(pjrt_load_safetensors(path)$x), "\n")
    invalid <- file.path(folder, rawToChar(as.raw(0xfc)))
    error <- tryCatch(pjrt_load_npy(invalid), error = identity)
    cat(class(error)[[1L]], grepl("LC_ALL=C.UTF-8", conditionMessage(error)), "\n")
  }), env = c(LC_ALL = "C", PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0"))
  expect_clean(child, c("2 ", "pjrt_error_invalid_value TRUE "))
  expect_identical(enc2utf8(list.files(folder)), "\u00fc.safetensors")
})

test_that("a folder whose name is UTF-8 is used in a locale of Latin-1", {
  skip_on_os("windows")
  skip_if(!nzchar(Sys.which("localedef")))
  locales <- withr::local_tempdir()
  made <- suppressWarnings(system2(
    "localedef", c("-i", "en_US", "-f", "ISO-8859-1", file.path(locales, "latin")),
    stdout = FALSE, stderr = FALSE
  ))
  skip_if(made != 0L, "no definitions of locales")
  folder <- file.path(withr::local_tempdir(), "jos\u00e9")
  dir.create(folder)
  env <- c(LOCPATH = locales, LC_ALL = "latin", PJRT_CACHE = "1", PJRT_PLUGIN_PATH_CPU = real_plugin())
  code <- quote({
    options(warn = 2)
    double <- pjrt_compile(pjrt_program(unary_program("f32")))
    path <- file.path(Sys.getenv("PJRT_CACHE_DIR"), "x.safetensors")
    pjrt_save_safetensors(list(x = pjrt_execute(double, pjrt_scalar(2))), path)
    cat(l10n_info()[["Latin-1"]], file.exists(path), as_array(pjrt_load_safetensors(path)$x), "\n")
    cat(pjrt_cache_info()$entries, sub(",.*", "", pjrt_cache_info()$problem), "\n")
  })
  expect_clean(run_child(code, env = c(env, PJRT_CACHE_DIR = folder)), c("TRUE TRUE 4 ", "1 NA "))
  expect_setequal(list.files(folder), c("executables", "x.safetensors"))
  # R's own bytes are not text for native code
  latin <- sub("\u00e9", "\xe9", folder, useBytes = TRUE)
  code <- quote(cat(pjrt_cache_info()$entries, pjrt_cache_info()$problem, "\n"))
  child <- run_child(code, env = c(env, PJRT_CACHE_DIR = latin))
  expect_clean(child)
  expect_match(child$out, "^0 the folder's name is not valid UTF-8")
  expect_identical(list.files(dirname(folder)), "jos\u00e9")
})

test_that("a home folder with letters that R's locale lacks is used for plugins, programs and dumps", {
  skip_on_os("windows")
  home <- file.path(withr::local_tempdir(), "jos\u00e9")
  dir.create(home)
  file.symlink(real_plugin(), file.path(home, "plugin.so"))
  child <- run_child(quote({
    options(warn = 2)
    double <- pjrt_compile(pjrt_program(unary_program("f32")))
    cat(as_array(pjrt_execute(double, pjrt_scalar(2))), pjrt_cache_info()$entries, pjrt_plugins()$loaded, "\n")
    dump <- path.expand("~/dump")
    program <- pjrt_program(unary_program("f64"))
    compiled <- pjrt_compile(program, pjrt_compile_options(debug_options = list(xla_dump_to = dump)))
    cat(length(list.files(dump)) > 0L, "\n")
    copied <- file.copy(system.file("exported", "iris-torch", package = "pjrt"), "~", recursive = TRUE)
    cat(class(pjrt_load_exported("~/iris-torch")), "\n")
    cat(unique(pjrt_check_plugin("cpu", quick = TRUE)$result), "\n")
    cat(vapply(pjrt_sitrep(), inherits, NA, "error"), "\n")
    gone <- suppressMessages(uninstall_pjrt(everything = TRUE))
    cat(length(gone), "\n")
  }), env = c(
    HOME = home, TMPDIR = home, LC_ALL = "C", PJRT_PLUGIN_PATH_CPU = "~/plugin.so", PJRT_DISCOVER = "0",
    PJRT_CACHE = "1", PJRT_CACHE_DIR = NA, R_USER_CACHE_DIR = NA, XDG_CACHE_HOME = NA
  ))
  expect_clean(child, c(
    "4 1 TRUE ", "TRUE ", "PJRTExported ", "pass ", paste(c(rep("FALSE", 11L), ""), collapse = " "), "2 "
  ))
  expect_setequal(enc2utf8(list.files(dirname(home))), "jos\u00e9")
})
