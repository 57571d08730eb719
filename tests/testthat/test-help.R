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

# The names under which a page is found.
aliases <- function(page) vapply(parts(page, "\\alias"), function(part) as.character(part[[1L]]), "")

# The names that a page links to.
links <- function(page) {
  vapply(parts(page, "\\link"), FUN.VALUE = "", function(part) {
    sub("^=", "", as.character(attr(part, "Rd_option") %||% part[[1L]]))
  })
}

# The articles that a page names.
named_articles <- function(page) {
  text <- paste(unlist(page), collapse = "")
  gsub("vignette\\(\"|\"", "", unlist(regmatches(text, gregexpr("vignette\\(\"[^\"]+\"", text))))
}

# methods for functions of base are on pages with other names
our_exports <- function() setdiff(getNamespaceExports("pjrt"), ls(baseenv()))

test_that("every exported function has a help page", {
  expect_identical(setdiff(our_exports(), unlist(lapply(pages(), aliases))), character())
})

test_that("the index of the help has each page under its own name", {
  name <- function(page) as.character(parts(page, "\\name")[[1L]][[1L]])
  expect_identical(unname(paste0(vapply(pages(), name, ""), ".Rd")), names(pages()))
  index <- readLines(system.file("INDEX", package = "pjrt"))
  listed <- sub(" .*", "", index[!startsWith(index, " ")])
  expect_identical(setdiff(c("pjrt_step", "pjrt_benchmark", "pjrt_load_safetensors", "devices"), listed), character())
})

test_that("?pjrt leads to every page, and ?pjrt_articles to every article", {
  map <- pages()[["pjrt-package.Rd"]]
  is_linked <- vapply(pages(), function(page) any(aliases(page) %in% c(links(map), aliases(map))), NA)
  expect_identical(names(pages())[!is_linked], character())
  list_of_articles <- pages()[["pjrt_articles.Rd"]]
  text <- paste(unlist(list_of_articles), collapse = "")
  files <- list.files(source_file("vignettes"), "[.]Rmd$")
  expect_setequal(named_articles(list_of_articles), sub("[.]Rmd$", "", files))
  others <- list.files(source_file("vignettes/articles"), "[.]Rmd$")
  expect_identical(others[!vapply(others, grepl, NA, text, fixed = TRUE)], character())
})

test_that("no article hides a function of the package from the articles that R builds after it, in the same session", {
  for (file in list.files(source_file("vignettes"), "[.]Rmd$", full.names = TRUE)) {
    lines <- grep("^[a-zA-Z_.]+ <- ", readLines(file, encoding = "UTF-8"), value = TRUE)
    hidden <- intersect(sub(" <- .*", "", lines), getNamespaceExports("pjrt"))
    expect_identical(hidden, character(), info = basename(file))
  }
})

test_that("every page that names an article says where to read it", {
  names_one <- Filter(function(page) length(named_articles(page)) > 0L, pages())
  expect_gt(length(names_one), 10L)
  lost <- Filter(function(page) !"pjrt_articles" %in% c(links(page), aliases(page)), names_one)
  expect_identical(names(lost), character())
})

test_that("?pjrt_errors lists every class of errors that a help page names", {
  classes <- function(page) {
    text <- paste(unlist(page), collapse = "")
    unlist(regmatches(text, gregexpr("pjrt_error_[a-z_]*[a-z]", text)))
  }
  # the codes of PJRT have classes, too
  codes <- paste0("pjrt_error_", c(
    "unknown", "not_found", "unimplemented", "deadline_exceeded", "unavailable", "unauthenticated",
    "failed_precondition"
  ))
  named <- unique(unlist(lapply(pages(), classes)))
  expect_identical(setdiff(named, c(classes(pages()[["pjrt_errors.Rd"]]), codes)), character())
})

test_that("the page 'Which function?' has every exported function", {
  lines <- readLines(source_file("vignettes/articles/which-function.Rmd"))
  functions <- sub("[(]$", "", unlist(regmatches(lines, gregexpr("[A-Za-z_.]+[(]", lines))))
  expect_identical(setdiff(our_exports(), functions), character())
})
