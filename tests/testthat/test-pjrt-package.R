# The layout of these tests.

test_that("every R file with code has a test file of the same name, and other test files start with their topic", {
  sources <- list.files(source_file("R"), "[.]R$", full.names = TRUE)
  # files without calls contain only documentation
  has_code <- vapply(sources, function(file) any(vapply(as.list(parse(file)), is.call, NA)), NA)
  sources <- sub("[.]R$", "", basename(sources))
  tested <- sub("^test-(.*)[.]R$", "\\1", list.files(test_path(), "^test-.*[.]R$"))
  expect_identical(setdiff(sources[has_code], tested), character())
  topics <- setdiff(tested, sources)
  starts_with_topic <- vapply(topics, FUN.VALUE = NA, function(topic) {
    lines <- readLines(test_path(sprintf("test-%s.R", topic)), n = 20L)
    top <- lines[seq_len(match("", lines) - 1L)]
    length(top) > 0L && all(startsWith(top, "#"))
  })
  expect_identical(topics[!starts_with_topic], character())
})
