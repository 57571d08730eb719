# The colours of plots.

test_that("the colours can be told apart, also in grey where they meet", {
  colours <- pjrt:::plot_colours
  expect_false(anyDuplicated(colours) > 0L)
  expect_gt(abs(diff(pjrt:::brightness(colours[c("blue", "orange")]))), 0.2)
})

test_that("text and lines are readable on every background", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  for (paper in c("white", "black", "#16191D", "grey40", "grey60", "navy", "lightyellow")) {
    for (ink in c("black", "white", "grey50")) {
      graphics::par(bg = paper, fg = ink)
      expect_gt(abs(pjrt:::brightness(pjrt:::visible_ink(ink)) - pjrt:::brightness(paper)), 0.39)
    }
  }
  # an own colour stays
  graphics::par(bg = "white", fg = "navy")
  expect_identical(pjrt:::visible_ink("navy"), "navy")
  graphics::par(bg = "transparent")
  expect_identical(pjrt:::visible_ink("white"), "white")
})

test_that("shades lie between the background and the text", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  graphics::par(bg = "white", fg = "black")
  expect_identical(pjrt:::shade(0), "#FFFFFF")
  expect_identical(pjrt:::shade(1), "#000000")
  expect_identical(pjrt:::shade(0.15), "#D9D9D9")
  graphics::par(bg = "#101010", fg = "black")
  expect_lt(pjrt:::brightness(pjrt:::shade(0.15)), 0.3)
  expect_identical(pjrt:::shade(1), "#FFFFFF")
  graphics::par(bg = "transparent", fg = "black")
  expect_identical(pjrt:::shade(0), "#FFFFFF")
})
