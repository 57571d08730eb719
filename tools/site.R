# Builds the package's website, and checks its links:
#
#   Rscript tools/site.R [FOLDER]     by default in the folder docs/
#
# It needs the installed package, pkgdown and pandoc, and no network. The pages load nothing from other hosts: scripts
# and styles that pkgdown takes from there are removed, and tools/site.js does their work.

main <- function(folder) {
  unlink(folder, recursive = TRUE)
  build(folder)
  pages <- list.files(folder, "\\.html$", recursive = TRUE)
  for (page in pages) {
    tidy_page(folder, page)
  }
  file.copy("tools/site.js", file.path(folder, "pkgdown.js"), overwrite = TRUE)
  # the index as a script: pages that are opened as files may not read others
  index <- Filter(function(entry) is.character(entry$what), jsonlite::read_json(file.path(folder, "search.json")))
  index <- jsonlite::toJSON(index, auto_unbox = TRUE, null = "null")
  writeLines(paste0("window.searchIndex = ", index, ";"), file.path(folder, "search.js"), useBytes = TRUE)
  problems <- check_links(folder, pages)
  writeLines(problems)
  cat(sprintf("%s: %d pages, %d problems with links\n", folder, length(pages), length(problems)))
  if (length(problems) > 0L) {
    quit(status = 1L)
  }
}

build <- function(folder) {
  # downlit asks CRAN where the pages of other packages are
  utils::assignInNamespace("CRAN_urls", function() data.frame(Package = character(), URL = character()), "downlit")
  utils::assignInNamespace("fetch_yaml", function(url) stop("not fetched"), "downlit")
  # articles that are not vignettes have no index entry
  options(pkgdown.internet = FALSE, rmarkdown.html_vignette.check_title = FALSE, warn = 1L)
  pkgdown::build_site(
    devel = FALSE, preview = FALSE, install = FALSE, new_process = FALSE, override = list(destination = folder)
  )
}

# Changes a page where pkgdown leaves links that lead nowhere, or to other hosts.
tidy_page <- function(folder, page) {
  path <- file.path(folder, page)
  html <- xml2::read_html(path, encoding = "UTF-8")
  foreign <- "starts-with(@%1$s, 'http') or starts-with(@%1$s, 'file:')"
  xml2::xml_remove(xml2::xml_find_all(html, sprintf("//script[%s]", sprintf(foreign, "src"))))
  xml2::xml_remove(xml2::xml_find_all(html, sprintf("//link[@rel = 'stylesheet'][%s]", sprintf(foreign, "href"))))
  xml2::xml_remove(xml2::xml_find_all(html, "//head/comment() | //img[@src = '']"))

  links <- xml2::xml_find_all(html, "//a[@href]")
  for (link in links) {
    href <- xml2::xml_attr(link, "href")
    to <- sub("^(\\.\\./)*vignettes/(articles/)?([^/]+)[.]Rmd", "articles/\\3.html", href)
    if (page == "index.html" && to != href) {
      xml2::xml_set_attr(link, "href", to)
    } else if (is_internal(href) && !has_target(folder, page, href) && is_source(href)) {
      # a file of the sources that is not part of the site
      xml2::xml_set_name(link, "span")
      xml2::xml_set_attr(link, "href", NULL)
    }
  }
  xml2::write_html(html, path, format = FALSE)
}

is_internal <- function(link) !grepl("^([a-zA-Z][a-zA-Z0-9+.-]*:|//)", link)

is_source <- function(link) file.exists(sub("^(\\.\\./)*", "", sub("#.*", "", link))) && !grepl("[.](html|md)$", link)

# The file and the anchor that a link of a page leads to.
target <- function(page, link) {
  anchor <- if (grepl("#", link, fixed = TRUE)) sub("^[^#]*#", "", link) else ""
  path <- sub("[#?].*", "", link)
  path <- if (nzchar(path)) file.path(dirname(page), utils::URLdecode(path)) else page
  parts <- character()
  for (part in strsplit(path, "/", fixed = TRUE)[[1L]]) {
    if (part == "..") {
      parts <- if (length(parts) > 0L) parts[-length(parts)] else "outside"
    } else if (part != "." && nzchar(part)) {
      parts <- c(parts, part)
    }
  }
  path <- paste(parts, collapse = "/")
  if (grepl("/$", link) || !nzchar(path)) {
    path <- paste0(if (nzchar(path)) paste0(path, "/"), "index.html")
  }
  list(path = path, anchor = utils::URLdecode(anchor))
}

has_target <- function(folder, page, link) {
  path <- file.path(folder, target(page, link)$path)
  file.exists(path) && !dir.exists(path)
}

# Describes every link within the site whose file or anchor is missing, and everything that pages load from elsewhere.
check_links <- function(folder, pages) {
  read <- lapply(stats::setNames(pages, pages), function(page) xml2::read_html(file.path(folder, page)))
  ids <- lapply(read, function(html) {
    c(
      xml2::xml_attr(xml2::xml_find_all(html, "//*[@id]"), "id"),
      xml2::xml_attr(xml2::xml_find_all(html, "//a[@name]"), "name")
    )
  })
  problems <- character()
  note <- function(page, link, what) problems <<- c(problems, sprintf("%s: %s: %s", page, link, what))
  for (page in pages) {
    html <- read[[page]]
    loaded <- c(
      xml2::xml_attr(xml2::xml_find_all(html, "//*[@src]"), "src"),
      xml2::xml_attr(xml2::xml_find_all(html, "//link[not(@rel = 'canonical')]"), "href")
    )
    for (link in unique(loaded[!startsWith(loaded, "data:")])) {
      if (!is_internal(link)) {
        note(page, link, "loaded from elsewhere")
      } else if (!has_target(folder, page, link)) {
        note(page, link, "no such file")
      }
    }
    links <- unique(xml2::xml_attr(xml2::xml_find_all(html, "//a[@href]"), "href"))
    for (link in links[is_internal(links)]) {
      to <- target(page, link)
      if (!has_target(folder, page, link)) {
        note(page, link, "no such file")
      } else if (nzchar(to$anchor) && !to$anchor %in% ids[[to$path]]) {
        note(page, link, "no such anchor")
      }
    }
    # lines of code are numbered for each block of some pages
    twice <- grep("^(cb[0-9-]+)?$", unique(ids[[page]][duplicated(ids[[page]])]), value = TRUE, invert = TRUE)
    for (id in twice) {
      note(page, paste0("#", id), "two elements have this id")
    }
  }
  problems
}

arguments <- commandArgs(trailingOnly = TRUE)
main(if (length(arguments) > 0L) arguments[[1L]] else "docs")
