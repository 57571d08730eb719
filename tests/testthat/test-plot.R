# Plots as pictures: in three sizes, on a light and on a dark page. The references are in _snaps/plot, as PDF files. The
# pdf() device has its own font metrics, so they do not depend on the machine's fonts.

# What fixtures/plots.rds has: results of real runs.
results <- readRDS(test_path("fixtures", "plots.rds"))

draw <- function(x, width, height) {
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file, width / 72, height / 72, colormodel = "rgb", compress = FALSE)
  tryCatch({
    for (paper in c("white", "#16191D")) {
      graphics::par(bg = paper)
      plot(x)
    }
  }, finally = grDevices::dev.off())
  # the same file every time
  lines <- readLines(file, warn = FALSE, encoding = "latin1")
  writeLines(sub("^(/(Creation|Mod)Date|/Producer) .*", "\\1 ()", lines, useBytes = TRUE), file, useBytes = TRUE)
  file
}

# What a PDF file draws: numbers and words.
drawn_in <- function(file) {
  lines <- readLines(file, warn = FALSE, encoding = "latin1")
  ends <- grep("^endstream", lines)
  begins <- grep("^stream", lines)[seq_along(ends)]
  drawn <- unlist(Map(function(from, to) lines[seq(from + 1L, to - 1L)], begins, ends))
  unlist(strsplit(drawn, " ", fixed = TRUE))
}

# Whether two PDF files draw the same, up to small differences of places and colours.
is_same_picture <- function(old, new) {
  old <- drawn_in(old)
  new <- drawn_in(new)
  if (length(old) != length(new)) {
    return(FALSE)
  }
  numbers <- suppressWarnings(cbind(as.numeric(old), as.numeric(new)))
  is_number <- !is.na(rowSums(numbers))
  apart <- abs(numbers[is_number, 1L] - numbers[is_number, 2L])
  identical(old[!is_number], new[!is_number]) && all(apart <= pmax(0.01, 0.01 * abs(numbers[is_number, 1L])))
}

test_that("plots look like their references, in three sizes, on light and dark pages", {
  withr::local_envvar(TZ = "UTC")
  for (name in names(results)) {
    for (size in list(c(400, 300), c(800, 600), c(1600, 900))) {
      file <- draw(results[[name]], size[[1L]], size[[2L]])
      expect_snapshot_file(file, sprintf("%s-%d.pdf", name, size[[1L]]), compare = is_same_picture)
    }
  }
})

test_that("a different plot is not the same picture", {
  one <- draw(results$trace, 400, 300)
  expect_true(is_same_picture(one, draw(results$trace, 400, 300)))
  changed <- results$trace
  changed$events$end[[5L]] <- changed$events$end[[5L]] + 0.2 * changed$seconds
  expect_false(is_same_picture(one, draw(changed, 400, 300)))
  renamed <- results$costs
  renamed$operation[[1L]] <- "renamed"
  expect_false(is_same_picture(draw(results$costs, 400, 300), draw(renamed, 400, 300)))
})

test_that("every plot fits beside others on a page, and leaves the settings of the device", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  for (x in results[c("costs", "memory", "trace")]) {
    graphics::par(mfrow = c(1, 2))
    plot(x)
    before <- graphics::par("mar", "fg", "col", "col.axis", "las", "mgp", "tcl", "xpd", "cex.main")
    plot(x)
    expect_identical(graphics::par("mfg"), c(1L, 2L, 1L, 2L))
    expect_identical(graphics::par("mar", "fg", "col", "col.axis", "las", "mgp", "tcl", "xpd", "cex.main"), before)
  }
})

test_that("long labels are shortened to leave room for the plot", {
  grDevices::pdf(NULL, 4, 3)
  withr::defer(grDevices::dev.off())
  long <- strrep("long ", 30)
  labels <- pjrt:::set_left_margin(c("short", long))
  expect_identical(labels[[1L]], "short")
  expect_match(labels[[2L]], "^long .*[.]{3}$")
  expect_lte(graphics::par("mai")[[2L]], 0.4 * 4 + 1e-6)
})

test_that("the text beside bars of costs leaves room for the bars", {
  # a font with wide letters
  grDevices::pdf(NULL, 400 / 72, 300 / 72, family = "Courier")
  withr::defer(grDevices::dev.off())
  bars <- pjrt:::cost_bars(results$costs, 10)
  texts <- pjrt:::cost_texts(bars, 0.85)
  room <- 0.7 * graphics::par("pin")[[1L]]
  expect_lte(max(graphics::strwidth(texts, units = "inches", cex = 0.85)), room)
  expect_match(texts[[1L]], "^13[.]9%, [.]{3}.*select_n$")
  expect_identical(texts[[11L]], "27.0%")
  graphics::par(pin = c(1.5, 2))
  expect_match(pjrt:::cost_texts(bars, 0.85)[[1L]], "^13[.]9%, [.]{3}.{1,5}$")
})

test_that("dots and lines are light on dark backgrounds", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  expect_identical(pjrt:::line_colours()[["blue"]], "#0072B2")
  graphics::par(bg = "#16191D")
  expect_identical(pjrt:::line_colours()[["blue"]], "#56B4E9")
})
