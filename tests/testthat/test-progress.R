# Progress on the console, in sessions on a real terminal. Every session is a child process.
# Slow: waits for seconds.

# What R shows in a terminal when it runs `lines`, and then gets Ctrl-C after `seconds`. Without cli, if `cli` is FALSE.
in_terminal <- function(lines, seconds, cli = TRUE, preload = NULL) {
  skip_on_os(c("windows", "mac"))
  skip_if(!nzchar(Sys.which("script")), "script(1) is not installed")
  folder <- withr::local_tempdir()
  code <- file.path(folder, "code.R")
  writeLines(c("options(pjrt.cache = FALSE)", "library(pjrt)", lines), code)
  library <- dirname(system.file(package = "pjrt"))
  env <- c(sprintf("PJRT_PLUGIN_PATH_CPU=%s", shQuote(real_plugin())), "PJRT_CPU_DEVICE_COUNT=1", "TERM=xterm", "R_PROFILE_USER=", "TESTTHAT=")
  if (!cli) {
    packages <- c("pjrt", "bit64", "bit")
    file.symlink(system.file(package = packages[[1L]]), file.path(folder, "pjrt"))
    for (package in packages[-1L]) file.symlink(system.file(package = package), file.path(folder, package))
    env <- c(env, paste0("R_LIBS=", folder), "R_LIBS_USER=/none", "R_LIBS_SITE=/none")
  } else {
    env <- c(env, paste0("R_LIBS=", paste(.libPaths(), collapse = ":")))
  }
  env <- c(env, if (!is.null(preload)) paste0("LD_PRELOAD=", preload))
  r <- sprintf("env %s %s --no-save --no-restore --quiet", paste(env, collapse = " "), file.path(R.home("bin"), "R"))
  input <- sprintf(
    "(sleep 1; echo 'source(\"%s\")'; sleep %s; printf '\\003'; sleep 1.5; echo 'cat(\"ali\", \"ve.\", sep = \"\")'; echo 'q(\"no\")'; sleep 1)",
    code, seconds
  )
  out <- system2("sh", c("-c", shQuote(sprintf("%s | timeout 60 script -qec %s /dev/null", input, shQuote(r)))), stdout = TRUE, stderr = TRUE)
  gsub("\033\\[[0-9;?]*[A-Za-z]", "", paste(out, collapse = "\n"), useBytes = TRUE)
}

endless_wait <- c(
  paste0("text <- ", paste(deparse(loop_program(Inf)), collapse = "\n")),
  "x <- pjrt_execute(pjrt_compile(pjrt_program(text)), pjrt_scalar(1, 'f64'))",
  "message('be', 'gins')"
)

test_that("long waits show their time, and Ctrl-C ends them, with and without cli", {
  for (cli in c(TRUE, FALSE)) {
    skip_if(cli && !requireNamespace("cli", quietly = TRUE))
    shown <- in_terminal(c(endless_wait, "as_array(x)"), 6, cli)
    expect_match(shown, "begins", fixed = TRUE)
    expect_match(shown, "waiting for the device")
    expect_match(shown, "[34] s")
    expect_false(grepl("waiting for the device: 1 s", shown, fixed = TRUE))
    expect_match(shown, "alive.", fixed = TRUE)
    expect_false(grepl("rror in", shown, fixed = TRUE))
  }
})

test_that("long compiles have a name of their own", {
  lines <- c(paste0("text <- ", paste(deparse(chain_program(60000)), collapse = "\n")), "pjrt_compile(pjrt_program(text))")
  expect_match(in_terminal(lines, 7), "compiling")
})

test_that("bars of loads and saves begin after 2 seconds, and Ctrl-C ends these", {
  skip_on_os(c("windows", "mac"))
  # a slow disk
  source <- withr::local_tempfile(fileext = ".c", lines = c(
    "#define _GNU_SOURCE", "#include <dlfcn.h>", "#include <stdlib.h>", "#include <unistd.h>",
    "ssize_t write(int file, const void *bytes, size_t n) {",
    "  ssize_t (*next)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, \"write\");",
    "  if (n >= 100000 && getenv(\"SLOW_DISK\")) usleep(400000);",
    "  return next(file, bytes, n);", "}"
  ))
  library <- build_library(source)
  folder <- withr::local_tempdir()
  lines <- c(
    sprintf("folder <- '%s'", folder),
    "x <- list(x = pjrt_buffer(numeric(2e7), 'f32'))",
    "safetensors_save(x, file.path(folder, 'quick.safetensors'))",
    "message('be', 'gins')",
    "Sys.setenv(SLOW_DISK = '1')",
    "safetensors_save(x, file.path(folder, 'slow.safetensors'))"
  )
  shown <- in_terminal(lines, 6, preload = library)
  expect_false(grepl("saving", sub("begins.*", "", shown), fixed = TRUE))
  expect_match(shown, "begins.*saving .*% of +80 MB, [0-9.]+ MB/s, [0-9]+ s left")
  expect_match(shown, "alive.", fixed = TRUE)
  expect_false(grepl("rror in", shown, fixed = TRUE))
  expect_identical(list.files(folder), "quick.safetensors")
})

test_that("a terminal stays quiet where progress is not wanted", {
  for (option in c("options(pjrt.progress = FALSE)", "options(knitr.in.progress = TRUE)")) {
    shown <- in_terminal(c(option, endless_wait, "as_array(x)"), 5)
    expect_match(shown, "begins", fixed = TRUE)
    expect_false(grepl("waiting for", shown, fixed = TRUE))
    expect_match(shown, "alive.", fixed = TRUE)
  }
})

test_that("scripts are quiet, unless the option asks for progress", {
  wait <- quote({
    pjrt_register_r_call("r_wait", function(x) x)
    options(pjrt.progress = on)
    compiled <- pjrt_compile(pjrt_program(loop_program(2e8)))
    x <- pjrt_execute(compiled, pjrt_scalar(1, "f64"))
    cat(is.double(as_array(x)))
  })
  for (on in list(NULL, TRUE)) {
    child <- run_child(bquote({ on <- .(on); .(wait) }), env = lone_session(), helpers = "programs")
    expect_identical(grepl("waiting", paste(child$err, collapse = "")), isTRUE(on))
  }
})

test_that("bars show bytes with cli, and wait for nothing", {
  skip_if_not_installed("cli")
  withr::local_options(pjrt.progress = TRUE, cli.progress_show_after = 0)
  expect_true(pjrt:::bar_progress(list("loading", c(1e6, 2e6, 1e6, 0))))
  expect_true(pjrt:::the$progress$is_bar)
  # a wait inside of it changes nothing
  expect_true(pjrt:::wait_progress(list("waiting", 3)))
  expect_false(pjrt:::end_wait(list("", numeric())))
  expect_true(pjrt:::bar_progress(list("loading", c(2e6, 2e6, 2e6, 1))))
  expect_true(pjrt:::end_progress(list("", numeric())))
  expect_null(pjrt:::the$progress)
  expect_identical(pjrt:::bar_speed(3e7, 1e7, 2), ", 5 MB/s, 6 s left")
  expect_identical(pjrt:::bar_speed(NA, 1e7, 2), ", 5 MB/s")
  expect_identical(pjrt:::duration_text(c(2.9)), "2 s")
  expect_identical(pjrt:::duration_text(125), "2 min 05 s")
})

test_that("the option decides, then whether the session is interactive", {
  withr::local_options(pjrt.progress = TRUE)
  expect_true(pjrt:::shows_progress())
  options(pjrt.progress = FALSE)
  expect_false(pjrt:::shows_progress())
  expect_false(pjrt:::shows_download())
  options(pjrt.progress = NULL)
  expect_identical(pjrt:::shows_progress(), interactive() && !isTRUE(getOption("knitr.in.progress")))
})
