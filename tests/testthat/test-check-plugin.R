# Slow: runs the checks in new sessions.

test_that("the CPU plugin has no failure, and a report can be written, summarized and compared", {
  file <- withr::local_tempfile(fileext = ".json")
  # the messages of R, which some checks compare, are in the language of the session
  withr::local_envvar(LANGUAGE = "de")
  report <- pjrt_check_plugin("cpu", file = file)
  expect_s3_class(report, c("PJRTPluginReport", "data.frame"))
  expect_named(report, c("part", "check", "result", "detail", "seconds"))
  parts <- c("start", "arrays", "programs", "operations", "running", "interrupts", "saving", "loading", "exit")
  expect_identical(unique(report$part), parts)
  faults <- report[report$result == "fail", ]
  # faults of newer plugins
  known <- c(
    if (grepl("lammps", real_plugin())) "chlo.atan",
    if (plugin_api(106)) c("largest with NaN", "smallest with NaN")
  )
  expect_identical(sort(faults$check), sort(as.character(known)), info = toString(paste(faults$check, faults$detail)))
  expect_gte(sum(report$part == "operations"), 60L)
  expect_identical(sum(summary(report)), nrow(report))
  expect_named(summary(report), c("pass", "fail", "unsupported", "skipped"))
  counts <- "[0-9]+ pass, [0-9]+ fail, [0-9]+ unsupported, [0-9]+ skipped"
  expect_match(format(report)[[1L]], sprintf("^<PJRTPluginReport: %s>$", counts))
  expect_output(print(report), "plugin: ")
  expect_true(all.equal(report, report))
  other <- report
  other$result[[5L]] <- "fail"
  other <- other[-6L, ]
  expect_identical(all.equal(report, other), c(
    sprintf("start, %s: pass, now fail", report$check[[5L]]),
    sprintf("start, %s: pass, now not checked", report$check[[6L]])
  ))
  skip_if_not_installed("jsonlite")
  read <- jsonlite::fromJSON(file)
  expect_identical(read$checks$check, report$check)
  expect_identical(read$checks$result, report$result)
})

test_that("a plugin that crashes, throws or lacks functions is reported", {
  skip_on_os("windows")
  path <- throwing_library()
  failures <- function(...) {
    withr::local_envvar(PJRT_REAL_PLUGIN = real_plugin(), ...)
    report <- pjrt_check_plugin(path, quick = TRUE)
    report[report$result != "pass", c("check", "detail")]
  }
  expect_identical(nrow(failures()), 0L)
  thrown <- failures(PJRT_THROW = "10")
  expect_identical(thrown$check, c("the plugin starts", "an array is kept", "a program runs"))
  # a crash ends only the process that tries it, and is named with the check
  code <- withr::local_tempfile(fileext = ".c", lines = "void *GetPjrtApi(void) { __builtin_trap(); }")
  report <- pjrt_check_plugin(build_library(code), quick = TRUE)
  expect_identical(report$result, "fail")
  expect_match(report$detail, "the process ended with status")
})

test_that("checks that leave no results are an error", {
  file <- withr::local_tempfile()
  results <- function(status) pjrt:::read_part_results(file, status)
  expect_refused(results(0L), "io", "the disk may be full")
  # the process ended before its first check, which the report says
  expect_identical(results(1L), list())
  saveRDS(list(1), file, compress = FALSE)
  expect_identical(results(0L), list(1))
  writeBin(utils::head(readBin(file, "raw", 1000L), -8L), file)
  expect_refused(results(0L), "io", "the disk may be full")
})

test_that("Ctrl-C ends the check and the process that tries the plugin", {
  skip_on_os("windows")
  code <- withr::local_tempfile(fileext = ".c", lines = c(
    "#include <stdio.h>", "#include <stdlib.h>", "#include <unistd.h>",
    "void *GetPjrtApi(void) {",
    "  FILE *file = fopen(getenv(\"NOTE\"), \"w\");", "  fprintf(file, \"%d\\n\", getpid());", "  fclose(file);",
    "  for (;;) pause();",
    "}"
  ))
  note <- withr::local_tempfile()
  child <- start_child(env = c(NOTE = note, STALLING = build_library(code)), quote({
    end <- tryCatch(pjrt_check_plugin(Sys.getenv("STALLING"), quick = TRUE), interrupt = function(e) "interrupted")
    cat(end, length(list.files(tempdir(), "pjrt-check")), "\n")
  }))
  withr::defer(child$kill())
  while (child$is_alive() && (!file.exists(note) || length(readLines(note)) == 0L)) Sys.sleep(0.05)
  child$interrupt()
  expect_identical(line_reader(child)(), "interrupted 0 ")
  expect_false(tools::pskill(as.integer(readLines(note)), 0L))
})

# before the cache is empty
plugin_of_tests <- plugin_path("cpu")

test_that("a plugin that crashes is refused and removed by install_pjrt()", {
  skip_on_os("windows")
  cache <- local_empty_cache()
  code <- withr::local_tempfile(fileext = ".c", lines = "void *GetPjrtApi(void) { __builtin_trap(); }")
  expect_refused(
    suppressMessages(install_pjrt("idle", source = "file", path = build_library(code))), "plugin_invalid",
    "does not work on this machine and was removed: the plugin starts: the process ended with status"
  )
  expect_identical(nrow(pjrt_plugins()), 0L)
  # one that starts is kept
  suppressMessages(install_pjrt("cpu", source = "file", path = plugin_of_tests))
  expect_identical(pjrt_plugins()$platform, "cpu")
})

test_that("wrong arguments are refused", {
  expect_refused(pjrt_check_plugin("/no/such/plugin.so"), "plugin_not_found", "/no/such/plugin.so")
  expect_refused(pjrt_check_plugin(1), "invalid_type", "`plugin` must be")
  expect_refused(pjrt_check_plugin("cpu", quick = NA), "invalid_type", "`quick` must be")
  no_folder <- "/no/such/folder/x.json"
  expect_refused(pjrt_check_plugin("cpu", quick = TRUE, file = no_folder), "io", "Cannot write")
})
