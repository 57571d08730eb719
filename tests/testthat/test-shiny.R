# A real Shiny app in a real browser.
# Slow: starts a browser, and an app that computes for seconds.

test_that("a Shiny app compiles and computes for seconds while its page stays alive", {
  skip_if_not_installed("shiny")
  skip_if_not_installed("promises")
  withr::local_envvar(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0")
  page <- open_page(start_app(system.file("examples", "shiny", package = "pjrt"))$address)
  text <- function(id) page(sprintf("(document.getElementById('%s') || {}).textContent || ''", id))
  wait_for <- function(id, pattern, seconds = 120) {
    end <- Sys.time() + seconds
    while (!grepl(pattern, found <- text(id)) && Sys.time() < end) Sys.sleep(0.05)
    expect_match(found, pattern)
  }
  wait_for("clock", "^[0-9]+$")
  wait_for("status", "^ready$")
  wait_for("clock", "^[0-9]{2,}$")
  image <- "(document.querySelector('#plot img') || {}).src || ''"
  before <- page(image)

  page("document.getElementById('start').click()")
  wait_for("status", "^computing")
  began <- Sys.time()
  seen <- list()
  while (grepl("^computing", status <- text("status")) && Sys.time() < began + 120) {
    seen <- c(seen, list(list(status = status, clock = as.integer(text("clock")), image = nchar(page(image)))))
    Sys.sleep(0.05)
  }
  expect_identical(text("status"), "done")
  clock <- vapply(seen, `[[`, 1L, "clock")
  # the clock goes on
  expect_gt(length(unique(clock)), 4L)
  # several frames were shown meanwhile
  expect_gt(length(unique(vapply(seen, `[[`, "", "status"))), 4L)
  expect_gt(length(unique(vapply(seen, `[[`, 1L, "image"))), 4L)
  expect_match(page(image), "^data:image/png")
  expect_false(identical(page(image), before))
  expect_identical(page("document.querySelectorAll('.shiny-output-error').length"), 0L)
})
