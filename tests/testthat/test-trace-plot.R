some_trace <- function() {
  exe <- compile(unary_program("500x500xf32"))
  pjrt_trace(for (i in 1:5) as_array(pjrt_execute(exe, pjrt_buffer(matrix(1, 500, 500), "f32"))))
}

# The colours of a plot's pixels, in the size of a page or a phone.
drawn <- function(code, width = 600) {
  skip_if_not_installed("png")
  file <- withr::local_tempfile(fileext = ".png")
  grDevices::png(file, width, 400)
  tryCatch(force(code), finally = grDevices::dev.off())
  pixels <- png::readPNG(file)
  sort(table(grDevices::rgb(pixels[, , 1], pixels[, , 2], pixels[, , 3])), decreasing = TRUE)
}

test_that("a plot shows each kind of event in its colour, also in 300 pixels", {
  trace <- some_trace()
  for (width in c(300, 600)) {
    colours <- names(drawn(plot(trace, main = "Five steps"), width))
    expect_true(all(pjrt:::trace_colours[c("run", "convert", "call")] %in% colours))
  }
  expect_identical(names(drawn(returned <- plot(trace)))[[1L]], "#FFFFFF")
  expect_identical(returned, trace)
})

test_that("a plot shows a part of the time, and restores the settings of the device", {
  trace <- some_trace()
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  plot(trace, xlim = c(0, trace$seconds / 2))
  before <- graphics::par("mar", "las", "mgp", "xpd", "fg", "col.axis")
  plot(trace)
  expect_identical(graphics::par("mar", "las", "mgp", "xpd", "fg", "col.axis"), before)
  expect_error(plot(trace, xlim = c(1, 0)), class = "pjrt_error_invalid_type")
  expect_no_error(plot(pjrt_trace(NULL)))
})

test_that("many events draw few bars", {
  trace <- pjrt_trace(for (i in 1:2000) pjrt_scalar(1))
  bars <- pjrt:::trace_bars(trace, pjrt:::trace_lanes(trace), c(0, trace$seconds), trace$seconds / 600)
  expect_lt(nrow(bars), 600 * 3 + 10)
})

test_that("colours differ for all kinds of colour vision, and those that meet also in brightness", {
  colours <- pjrt:::trace_colours
  expect_setequal(names(colours), pjrt:::trace_groups)
  linear <- t(grDevices::col2rgb(colours) / 255)^2.2
  # what protanopes and deuteranopes see, after Vienot, Brettel and Mollon
  sights <- list(
    normal = diag(3),
    protanope = matrix(c(0.11238, 0.88762, 0, 0.11238, 0.88762, 0, 0.00401, -0.00401, 1), 3),
    deuteranope = matrix(c(0.29275, 0.70725, 0, 0.29275, 0.70725, 0, -0.02234, 0.02234, 1), 3)
  )
  for (sight in names(sights)) {
    seen <- pmin(pmax(linear %*% sights[[sight]], 0), 1)^(1 / 2.2)
    apart <- stats::dist(grDevices::convertColor(seen, "sRGB", "Lab"))
    expect_gt(min(apart), if (sight == "normal") 20 else 10)
  }
  brightness <- grDevices::convertColor(linear^(1 / 2.2), "sRGB", "Lab")[, 1L]
  names(brightness) <- names(colours)
  for (
    pair in list(c("wait", "convert"), c("wait", "launch"), c("run", "launch"), c("call", "wait"), c("call", "convert"))
  ) {
    expect_gt(abs(diff(brightness[pair])), 7)
  }
})

test_that("autoplot() draws the same bars with ggplot2", {
  skip_if_not_installed("ggplot2")
  trace <- some_trace()
  plot <- ggplot2::autoplot(trace)
  expect_s3_class(plot, "ggplot")
  bars <- ggplot2::ggplot_build(plot)$data[[1L]]
  expect_true(all(unique(bars$fill) %in% pjrt:::trace_colours))
  colours <- names(drawn(print(plot)))
  expect_true(pjrt:::trace_colours[["run"]] %in% colours)
})
