# A real Shiny app in a real browser.
# Slow: starts a browser, and an app that computes for seconds.

# Opens the app in a folder. `text()` and `wait_for()` read an element of its page.
open_app <- function(folder, env = parent.frame()) {
  skip_if_not_installed("shiny")
  skip_if_not_installed("promises")
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0", .local_envir = env)
  page <- open_page(start_app(folder, env)$address, env)
  text <- function(id) page(sprintf("(document.getElementById('%s') || {}).textContent || ''", id))
  wait_until <- function(found, is_there, seconds = 120) {
    end <- Sys.time() + seconds
    while (!is_there(value <- found()) && Sys.time() < end) Sys.sleep(0.05)
    value
  }
  wait_for <- function(id, pattern) {
    expect_match(wait_until(function() text(id), function(text) grepl(pattern, text)), pattern)
  }
  progress <- function() {
    page("parseFloat((document.querySelector('.shiny-notification .progress-bar') || {style: {}}).style.width) || 0")
  }
  list(
    page = page, text = text, wait_for = wait_for, wait_until = wait_until, progress = progress,
    click = function(id) page(sprintf("document.getElementById('%s').click()", id))
  )
}

test_that("a Shiny app compiles and computes for seconds while its page stays alive", {
  app <- open_app(system.file("examples", "shiny", package = "pjrt"))
  app$wait_for("clock", "^[0-9]+$")
  app$wait_for("status", "^ready$")
  app$wait_for("clock", "^[0-9]{2,}$")
  image <- "(document.querySelector('#plot img') || {}).src || ''"
  before <- app$page(image)

  app$click("start")
  app$wait_for("status", "^computing")
  began <- Sys.time()
  seen <- list()
  while (grepl("^computing", status <- app$text("status")) && Sys.time() < began + 120) {
    now <- list(status = status, clock = as.integer(app$text("clock")), image = app$page(image), bar = app$progress())
    seen <- c(seen, list(now))
    Sys.sleep(0.05)
  }
  expect_identical(app$text("status"), "done")
  different <- function(name) length(unique(lapply(seen, `[[`, name)))
  # the clock goes on, several frames were shown meanwhile, and the bar moved
  for (name in c("clock", "status", "image", "bar")) expect_gt(different(name), 4L, label = name)
  bars <- vapply(seen, `[[`, 0, "bar")
  # none before the first report, and after the last one
  expect_false(is.unsorted(bars[bars > 0]))
  # a picture of many colours to the end
  expect_match(app$page(image), "^data:image/png")
  expect_false(identical(app$page(image), before))
  skip_if_not_installed("png")
  images <- unique(vapply(seen, `[[`, "", "image"))
  colours <- vapply(images[nzchar(images)], FUN.VALUE = 1L, function(address) {
    pixels <- png::readPNG(jsonlite::base64_dec(sub("^data:image/png;base64,", "", address)))
    length(unique(as.vector(pixels[, , 1L])))
  })
  expect_gt(min(colours[-1L]), 30L)
  expect_identical(app$page("document.querySelectorAll('.shiny-output-error').length"), 0L)
})

test_that("a button stops a program in the middle of an execution, which would take hours, and it can start again", {
  folder <- withr::local_tempdir()
  lines <- readLines(system.file("examples", "shiny", "app.R", package = "pjrt"))
  expect_length(grep("^reports <- 30L$", lines), 1L)
  writeLines(sub("^reports <- 30L$", "reports <- 999999L", lines), file.path(folder, "app.R"))
  app <- open_app(folder)
  for (i in 1:2) {
    app$wait_for("status", if (i == 1L) "^ready$" else "^stopped$")
    app$click("start")
    app$wait_for("status", "^computing frame 1 of 12$")
    expect_gt(app$wait_until(app$progress, function(bar) bar > 0), 0)
    app$click("stop")
    app$wait_for("status", "^stopped$")
  }
})
