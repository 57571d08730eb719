# How the package's own library is linked.

library_tables <- function(options) {
  skip_if(Sys.info()[["sysname"]] != "Linux", "not an ELF library")
  skip_if(Sys.which("readelf") == "", "no readelf")
  system2("readelf", c(options, "-W", shQuote(getLoadedDLLs()[["pjrt"]][["path"]])), stdout = TRUE)
}

test_that("addresses are read-only after loading, and the stack is not executable", {
  segments <- library_tables("-l")
  expect_match(grep("GNU_STACK", segments, value = TRUE), " RW +0x")
  expect_length(grep("GNU_RELRO", segments), 1L)
  # a segment that can be written and executed
  expect_length(grep("LOAD .* RWE ", segments), 0L)
  dynamic <- library_tables("-d")
  expect_match(grep("(FLAGS)", dynamic, fixed = TRUE, value = TRUE), "BIND_NOW")
  expect_length(grep("TEXTREL|RPATH|RUNPATH", dynamic), 0L)
})

test_that("the library exports only its entry point", {
  symbols <- library_tables("--dyn-syms")
  fields <- strsplit(trimws(grep("(GLOBAL|WEAK) +DEFAULT", symbols, value = TRUE)), " +")
  defined <- vapply(Filter(function(row) row[[7L]] != "UND", fields), `[[`, "", 8L)
  expect_identical(defined, "R_init_pjrt")
})
