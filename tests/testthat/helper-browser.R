# Pages of Shiny apps in a real browser: headless Chromium, which tools/setup.sh installs.

chromium <- function() {
  found <- Sys.which(c("chromium", "chromium-browser", "google-chrome"))
  found <- found[nzchar(found)]
  testthat::skip_if(length(found) == 0L, "there is no Chromium")
  testthat::skip_if(!nzchar(Sys.which("python3")), "there is no Python")
  found[[1L]]
}

# Starts an app in an R process and returns its process and address.
start_app <- function(folder, env = parent.frame()) {
  folder <- encodeString(normalizePath(folder), quote = "\"")
  code <- sprintf("shiny::runApp(%s, launch.browser = FALSE)", folder)
  file <- withr::local_tempfile(fileext = ".R", lines = code, .local_envir = env)
  variables <- c("current", R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "")
  app <- processx::process$new(rscript(), c("--vanilla", file), stdout = "|", stderr = "2>&1", env = variables)
  withr::defer(app$kill(), env)
  next_line <- line_reader(app)
  lines <- character()
  while (!any(grepl("^Listening on ", lines))) {
    line <- next_line()
    if (is.null(line)) stop(paste(c("The app does not start:", lines), collapse = "\n"))
    lines <- c(lines, line)
  }
  list(process = app, address = sub("^Listening on ", "", lines[[length(lines)]]))
}

# Opens a page. Returns a function that evaluates JavaScript there.
open_page <- function(address, env = parent.frame()) {
  profile <- withr::local_tempdir(.local_envir = env)
  script <- test_path("fixtures", "browser.py")
  browser <- processx::process$new(
    "python3", c(script, chromium(), profile, address), stdin = "|", stdout = "|", stderr = "|"
  )
  withr::defer(browser$kill_tree(), env)
  next_line <- line_reader(browser)
  answer <- function() {
    line <- next_line(60)
    if (is.null(line)) stop(paste(c("The browser does not answer.", browser$read_error_lines()), collapse = "\n"))
    line
  }
  stopifnot(identical(answer(), "ready"))
  function(expression) {
    browser$write_input(paste0(expression, "\n"))
    jsonlite::fromJSON(answer())
  }
}
