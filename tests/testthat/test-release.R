# Files for those who take the package over.

test_that("DESCRIPTION, Cargo.toml and NEWS.md have the same version", {
  version <- read.dcf(source_file("DESCRIPTION"), "Version")[[1L]]
  cargo <- grep("^version = ", readLines(source_file("src/rust/Cargo.toml")), value = TRUE)
  expect_identical(cargo, sprintf('version = "%s"', version))
  expect_identical(readLines(source_file("NEWS.md"), 1L), paste("# pjrt", version))
  expect_identical(as.character(packageVersion("pjrt")), version)
})

test_that("citation() names the package, its authors and its version", {
  cited <- citation("pjrt")
  expect_match(cited$title, "^pjrt: ")
  expect_identical(format(cited$author), "pjrt authors")
  expect_match(cited$note, as.character(packageVersion("pjrt")), fixed = TRUE)
  expect_no_warning(format(cited, style = "R"))
})

test_that("the workflow only calls the commands that run all checks, on several systems, and that compile for others", {
  lines <- readLines(source_file(".github/workflows/check.yml"))
  commands <- sub("^ *(- )?run: ", "", grep("^ *(- )?run: ", lines, value = TRUE))
  expect_identical(commands, c("sh tools/test.sh", "sh tools/cross.sh"))
  expect_match(grep("system: ", lines, value = TRUE), '"debian:12", "debian:13", "ubuntu:rolling"', fixed = TRUE)
  expect_true(file.exists(source_file("tools/test.sh")))
  expect_true(any(grepl("^sh tools/test.sh", readLines(source_file("README.md")))))
  ci <- readLines(source_file(".ci/run"))
  expect_identical(sum(startsWith(ci, "sh tools/test.sh ")), 1L)
  expect_identical(sum(startsWith(ci, "sh tools/releases.sh --r trixie ")), 1L)
})

test_that("shell scripts for releases and the website parse", {
  for (name in c("tools/release.sh", "tools/site.sh")) {
    script <- source_file(name)
    expect_identical(system2("sh", c("-n", shQuote(script)), stdout = TRUE, stderr = TRUE), character())
  }
})

test_that("the README is short, starts with the two commands, and names files that exist", {
  source_file(".ci/run")
  path <- source_file("README.md")
  lines <- readLines(path)
  expect_lte(length(lines), 120L)
  expect_true(all(c("sh tools/demo.sh", "sh tools/test.sh") %in% trimws(sub("#.*", "", lines[1:20]))))
  links <- unlist(regmatches(lines, gregexpr("(?<=\\]\\()[^)#]+", lines, perl = TRUE)))
  links <- links[!grepl("^https?:", links)]
  expect_gt(length(links), 10L)
  expect_identical(links[!file.exists(file.path(dirname(path), links))], character())
})

test_that("the README names the packages that the demo installs", {
  readme <- paste(readLines(source_file("README.md")), collapse = "\n")
  setup <- readLines(source_file("tools/setup.sh"))
  line <- grep("missing_packages ca-certificates", setup, value = TRUE)
  packages <- strsplit(sub(".*missing_packages ca-certificates ([^)]*)[)].*", "\\1", line), " ")[[1L]]
  # pip depends on Python
  installed <- sub(".*--no-install-recommends ([^#\n]*[^# \n]).*", "\\1", readme)
  expect_setequal(strsplit(installed, " ")[[1L]], c(setdiff(packages, "python3"), "cargo"))
  article <- readLines(source_file("vignettes/articles/installation.Rmd"))
  expect_match(article, installed, fixed = TRUE, all = FALSE)
})

test_that("the numbers of the README are the benchmarks'", {
  lines <- readLines(source_file("README.md"))
  expect_number <- function(claim, file, row, result) {
    line <- grep(claim, lines, value = TRUE, fixed = TRUE)
    expect_length(line, 1L)
    around <- lines[match(line, lines) + -1:1]
    expect_match(paste(around, collapse = " "), file, fixed = TRUE, info = claim)
    rows <- readLines(source_file(file.path("bench/results", file)))
    rows <- rows[startsWith(rows, row)]
    expect_match(gsub(" +", " ", rows[[1L]]), result, fixed = TRUE, info = claim)
  }
  expect_number("takes 3.5 us; JAX in Python takes 3.8 us", "dispatch.txt", "execute ", "execute 3.52 1.41 3.8 ")
  expect_number("takes 0.05 ms", "dispatch.txt", "launch_exp_1e7 ", " 47 ")
  expect_number("compiles in 210 ms", "cache.txt", "mlp_compile ", " 210,000 ")
  expect_number("loads in 4.5 ms", "cache.txt", "mlp_hit ", " 4,540 ")
  expect_number("after 0.12 ms", "safetensors.txt", "load_aligned ", " 121 ")
  expect_number("takes 5.8 us", "data.txt", "alias_1e7_f64 ", " 5.75 ")
  expect_number("after 21 ms", "reliability.txt", "440 interrupts", "median 21 ms")
  expect_number("at most 0.33 s", "reliability.txt", "440 interrupts", "slowest 328")
  expect_number("111 crash its", "reliability.txt", "544 programs", "111 crashed the compiler, and 0 the session")
  expect_number("20,000 random", "reliability.txt", "20000 programs", "0 the session")
})

test_that("the README names the versions of JAX whose exports are tested", {
  files <- list.files(source_file("tests/testthat/fixtures/exported/versions"), "^jax-")
  versions <- sort(numeric_version(gsub("^jax-|[.]jaxexport$", "", files)))
  newest <- versions[[length(versions)]]
  claim <- sprintf("JAX %s to %s ", versions[[1L]], newest[, 1:2])
  expect_match(paste(readLines(source_file("README.md")), ""), claim, fixed = TRUE, all = FALSE)
})

test_that("the R code of the README runs as it is", {
  lines <- readLines(source_file("README.md"))
  starts <- which(lines == "```r")
  ends <- vapply(starts, function(start) start + which(lines[-seq_len(start)] == "```")[[1L]], 0)
  expect_gte(length(starts), 2L)
  for (i in seq_along(starts)) {
    code <- lines[seq(starts[[i]] + 1L, ends[[i]] - 1L)]
    shown <- sub("^#> ?", "", grep("^#>", code, value = TRUE))
    expect_lte(length(setdiff(seq_along(code), grep("^#>", code))), 8L)
    # each block alone, as in a new session
    script <- withr::local_tempfile(fileext = ".R", lines = c("options(echo = FALSE)", code))
    ended <- processx::run(
      rscript(), c("--vanilla", script), error_on_status = FALSE, timeout = 120,
      env = c(
        "current", R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "",
        PJRT_PLUGIN_PATH_CPU = real_plugin()
      )
    )
    expect_identical(ended$status, 0L, info = ended$stderr)
    expect_identical(trimws(strsplit(ended$stdout, "\n")[[1L]]), trimws(shown))
  }
})

test_that("the website has each article in its menu and in its list", {
  lines <- trimws(readLines(source_file("_pkgdown.yml")))
  articles <- sub("[.]Rmd$", "", list.files(source_file("vignettes"), "[.]Rmd$", recursive = TRUE))
  expect_gt(length(articles), 15L)
  expect_identical(setdiff(paste("-", articles), lines), character())
  expect_identical(setdiff(sprintf("href: articles/%s.html", basename(articles)), lines), character())
})

test_that("the demo's page shows each section of the demo", {
  sections <- sub("^# ---- (.*) ----$", "\\1", grep("^# ----", readLines(source_file("tools/demo.R")), value = TRUE))
  expect_gt(length(sections), 4L)
  page <- readLines(source_file("vignettes/articles/demo.Rmd"))
  chunks <- sub("^```\\{r ([a-z]+)[,}].*", "\\1", grep("^```\\{r [a-z]+[,}]", page, value = TRUE))
  expect_identical(setdiff(sections, chunks), character())
})

test_that("exported programs name no files of the machine that made them", {
  folders <- c(source_file("inst/exported"), source_file("tests/testthat/fixtures"))
  files <- list.files(folders, "[.](jaxexport|mlirbc|artifact)$", recursive = TRUE, full.names = TRUE)
  expect_gt(length(files), 50L)
  names_file <- function(file) {
    bytes <- readBin(file, "raw", file.size(file))
    length(grepRaw("site-packages|/(home|opt|root|srv|tmp|usr|var|Users)/", bytes)) > 0L
  }
  expect_identical(Filter(names_file, files), character())
})
