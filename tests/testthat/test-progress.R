# Progress on the console, in sessions on a real terminal. Every session is a child process.
# Slow: waits for seconds.

# A terminal in which R runs `lines`, until `env` ends. Without cli, if `cli` is FALSE.
runs_in_terminal <- function(lines, cli = TRUE, preload = NULL, env = parent.frame()) {
  skip_on_os(c("windows", "mac"))
  folder <- withr::local_tempdir(.local_envir = env)
  code <- file.path(folder, "code.R")
  writeLines(c("options(pjrt.cache = FALSE)", "library(pjrt)", lines), code)
  variables <- c(
    PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CPU_DEVICE_COUNT = "1", TERM = "xterm", TESTTHAT = "",
    LD_PRELOAD = preload, handlers_env()
  )
  if (!cli) {
    for (package in c("pjrt", "bit64", "bit")) file.symlink(system.file(package = package), file.path(folder, package))
    variables <- c(variables, R_LIBS = folder, R_LIBS_USER = "/none", R_LIBS_SITE = "/none")
  }
  terminal <- start_terminal(variables)
  withr::defer(terminal$kill(), envir = env)
  terminal$type(sprintf("source('%s')", code))
  terminal
}

# What terminals show. Each gets Ctrl-C once it has shown the patterns in `until`, or after some seconds in which it
# could show progress.
shown_by <- function(terminals, until = NULL) {
  for (terminal in terminals) expect_shows(terminal, "begins")
  # it would begin after two seconds
  if (is.null(until)) Sys.sleep(3.5)
  vapply(terminals, FUN.VALUE = "", function(terminal) {
    for (pattern in until) expect_shows(terminal, pattern)
    terminal$press_ctrl_c()
    terminal$type("cat('ali', 've.', sep = '')")
    expect_shows(terminal, "alive[.]")
    terminal$type("q('no')")
    terminal$wait(60)
    gsub("\033\\[[0-9;?]*[A-Za-z]", "", terminal$all(), useBytes = TRUE)
  })
}

# Lines that start a program without an end.
endless_wait <- function() c(
  sourcing(c("programs", "custom-calls")), "x <- pjrt_execute(compile(waiting_program()), pjrt_scalar(1, 'f64'))",
  "message('be', 'gins')"
)

test_that("long waits show their time, and Ctrl-C ends them, with and without cli", {
  env <- environment()
  terminals <- lapply(c(if (requireNamespace("cli", quietly = TRUE)) TRUE, FALSE), function(cli) {
    runs_in_terminal(c(endless_wait(), "as_array(x)"), cli, env = env)
  })
  # from the second second on, and it goes on
  time <- "waiting for the device[^\\r\\n]{2,30}(?<![0-9])([%d-9]|[1-9][0-9]) s"
  shown <- shown_by(terminals, sprintf(time, 2:3))
  expect_no_match(shown, "waiting for the device\\W+1 s")
  expect_no_match(shown, "rror in", fixed = TRUE)
})

test_that("long compiles have a name of their own", {
  lines <- c(
    paste0("text <- ", paste(deparse(chain_program(25000)), collapse = "\n")), "message('be', 'gins')",
    "pjrt_compile(pjrt_program(text))"
  )
  expect_match(shown_by(list(runs_in_terminal(lines)), "compiling"), "compiling\\W+[0-9]+ s")
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
    "pjrt_save_safetensors(x, file.path(folder, 'quick.safetensors'))",
    "message('be', 'gins')",
    "Sys.setenv(SLOW_DISK = '1')",
    "pjrt_save_safetensors(x, file.path(folder, 'slow.safetensors'))"
  )
  shown <- shown_by(list(runs_in_terminal(lines, preload = library)), "s left")
  expect_false(grepl("saving", sub("begins.*", "", shown), fixed = TRUE))
  expect_match(shown, "begins.*saving .*% of +80 MB, [0-9.]+ MB/s, [0-9]+ s left")
  expect_false(grepl("rror in", shown, fixed = TRUE))
  expect_identical(list.files(folder), "quick.safetensors")
})

test_that("a terminal stays quiet where progress is not wanted", {
  shown <- shown_by(list(
    runs_in_terminal(c("options(pjrt.progress = FALSE)", endless_wait(), "as_array(x)")),
    runs_in_terminal(c("options(knitr.in.progress = TRUE)", endless_wait(), "as_array(x)"))
  ))
  expect_no_match(shown, "waiting for", fixed = TRUE)
})

test_that("scripts are quiet, unless the option asks for progress", {
  waits <- function(option) {
    start_child(bquote({
      options(pjrt.progress = .(option))
      x <- pjrt_execute(compile(waiting_program()), pjrt_scalar(1, "f64"))
      cat("begins\n")
      as_array(x)
    }), env = lone_session(), helpers = c("programs", "custom-calls"))
  }
  children <- list(waits(NULL), waits(TRUE))
  withr::defer(for (child in children) child$kill())
  for (on in c(FALSE, TRUE)) {
    child <- children[[1L + on]]
    expect_identical(line_reader(child)(), "begins")
    said <- ""
    end <- Sys.time() + if (on) 60 else 3.5
    while (Sys.time() < end && !grepl("waiting", said)) {
      child$poll_io(100)
      said <- paste0(said, child$read_error())
    }
    expect_identical(grepl("waiting", said), on)
    child$kill()
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
