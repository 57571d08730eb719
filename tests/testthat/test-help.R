# What every help page promises: it fits a terminal of 80 columns, and has an example that runs.

pages <- local({
  read <- NULL
  function() {
    if (is.null(read)) read <<- tools::Rd_db("pjrt")
    read
  }
})

# The parts of a page with this tag, at any depth.
parts <- function(page, tag) {
  own <- if (identical(attr(page, "Rd_tag"), tag)) list(page)
  c(own, if (is.list(page)) unlist(lapply(page, parts, tag), recursive = FALSE))
}

test_that("every line of every help page fits 80 columns", {
  wide <- unlist(lapply(names(pages()), function(name) {
    text <- tempfile()
    tools::Rd2txt(pages()[[name]], text, package = "pjrt", options = list(width = 80L, underline_titles = FALSE))
    lines <- readLines(text, encoding = "UTF-8")
    unlink(text)
    sprintf("%s: %s", name, lines[nchar(lines, "width") > 80L])
  }))
  expect_gt(length(pages()), 50L)
  expect_identical(as.character(wide), character())
})

test_that("every page has an example, and every example runs", {
  examples <- lapply(pages(), parts, "\\examples")
  expect_identical(names(Filter(function(found) length(found) == 0L, examples)), character())
  for (tag in c("\\dontrun", "\\donttest")) {
    hidden <- Filter(function(found) length(parts(found, tag)) > 0L, examples)
    expect_identical(names(hidden), character(), info = tag)
  }
})

test_that("every exported function has a help page", {
  aliases <- unlist(
    lapply(pages(), function(page) vapply(parts(page, "\\alias"), function(part) as.character(part[[1L]]), ""))
  )
  # methods for functions of base are on pages with other names
  ours <- setdiff(exported_names(), ls(baseenv()))
  expect_identical(setdiff(ours, aliases), character())
})
