# Bad input to functions that install plugins or report on them. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  pjrt_register_plugin = row(
    platform = of("name", "idle2", single_names), path = of("path", library),
    options = of("list", list(), "list()", "a pairlist", "a data frame"), after = forget_registered()
  ),
  pjrt_unregister_plugin = row(platform = of("name", "idle", platforms)),
  install_pjrt = row(
    platforms = "installed", version = of("choice", NULL, "NULL"), source = of("choice", "file"),
    path = of("path", library),
    force = "flag", cuda = of("flag_or_null", NULL, "!TRUE"), site = of("flag", FALSE, "!TRUE"),
    after = uninstall_pjrt(made)
  ),
  plugins_downloaded = row(
    platforms = of(
      "name", "cpu", "NULL", "character()", "\"a\"", "c(\"a\", \"b\")", "c(n = \"a\")", "a line end", "\"cpu:9\"",
      "\"%s\""
    )
  ),
  uninstall_pjrt = row(
    platforms = of(
      "name", "idle", "NULL", "character()", "\"a\"", "c(\"a\", \"b\")", "c(n = \"a\")", "a line end", "\"cpu:9\"",
      "\"%s\""
    ),
    version = of("string", NULL, "NULL", "!\"\"", "!latin1"), everything = of("flag", FALSE, "!TRUE"),
    site = of("flag", FALSE, "!TRUE")
  ),
  pjrt_sitrep = row(),
  pjrt_check_plugin = row(
    plugin = of("path", library, "a file of bytes", "/proc/self/mem"),
    quick = of("flag", TRUE, "!FALSE"), file = of("index", NULL, "NULL")
  ),
  format.PJRTPluginReport = row(x = of("printed", sound_report())),
  print.PJRTPluginReport = row(x = of("printed", sound_report())),
  summary.PJRTPluginReport = row(object = of("printed", sound_report())),
  all.equal.PJRTPluginReport = row(target = of("printed", sound_report()), current = of("printed", sound_report())),
  as.data.frame.PJRTPluginReport = row(x = of("printed", sound_report())),
  format.PJRTSitrep = row(x = of("printed", pjrt_sitrep())),
  print.PJRTSitrep = row(x = of("printed", pjrt_sitrep()))
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `options(pjrt.index_url = .)` = use(
    with_option("pjrt.index_url", bad, install_pjrt("idle", source = "index")), "choice"
  ),
  `options(pjrt.manifest = .)` = use(
    with_option("pjrt.manifest", bad, install_pjrt("idle", source = "release")), "path"
  ),
  `options(pjrt.verbose = .)` = use(with_option("pjrt.verbose", bad, pjrt:::debug_message("a")), "flag_or_null")
)

test_that("functions that install plugins refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 1300)
  expect_snapshot(cat(refusals(tried)))
})
