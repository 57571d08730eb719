# Memory over time, and its plot.

# The history of the CPU's first client.
history <- function() {
  found <- pjrt_memory_stats()$history
  found[found$client == 1, ]
}

test_that("the history has the peaks and the present", {
  child <- run_child(quote({
    invisible(pjrt_scalar(1))
    history <- function() pjrt_memory_stats()$history
    x <- pjrt_empty("f32", 5e6)
    pjrt_delete(x)
    y <- pjrt_empty("f32", 2e6)
    found <- history()
    stopifnot(
      identical(names(found), c("client", "platform", "from", "time", "lowest", "highest", "live_bytes")),
      inherits(found$time, "POSIXct"), abs(as.numeric(Sys.time()) - as.numeric(found$time[[nrow(found)]])) < 60,
      !is.unsorted(found$time), all(found$from <= found$time), all(found$lowest <= found$live_bytes),
      all(found$live_bytes <= found$highest)
    )
    cat(max(found$highest) >= 2e7, found$live_bytes[[nrow(found)]] == sum(pjrt_memory_stats()$clients$live_bytes), "")
    # many changes take no more room
    for (i in 1:3000) pjrt_delete(pjrt_empty("f32", 3e5))
    found <- history()
    cat(nrow(found) <= 520, max(found$highest) >= 2e7, "\n")
  }))
  expect_clean(child, "TRUE TRUE TRUE TRUE ")
})

test_that("small buffers are recorded once they add up", {
  child <- run_child(quote({
    count <- function() nrow(pjrt_memory_stats()$history)
    kept <- lapply(1:100, function(i) pjrt_empty("f32", 100))
    few <- count()
    kept <- c(kept, lapply(1:100, function(i) pjrt_empty("f32", 10000)))
    cat(few, count() > 1, "\n")
  }))
  expect_clean(child, "1 TRUE ")
})

test_that("a plot is drawn for one and for several clients, and the settings of the device stay", {
  x <- pjrt_empty("f32", 3e6)
  client <- plugin_client_create(pjrt_plugin("cpu"), "plotted")
  withr::defer(close(client))
  y <- pjrt_empty("f32", 1e6, device = devices(client)[[1L]])
  file <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(file, 6, 4)
  withr::defer(grDevices::dev.off())
  before <- graphics::par(no.readonly = TRUE)
  stats <- pjrt_memory_stats()
  expect_invisible(plot(stats))
  expect_identical(plot(stats, main = "mine"), stats)
  one <- stats
  one$history <- stats$history[stats$history$client == 1, ]
  expect_no_warning(plot(one))
  still <- stats
  still$history <- utils::tail(stats$history, 1L)
  expect_no_warning(plot(still))
  after <- graphics::par(no.readonly = TRUE)
  same <- c("mar", "mai", "mfrow", "las", "cex", "mgp")
  expect_identical(after[same], before[same])
})

test_that("there is nothing to plot without a client", {
  stats <- pjrt_memory_stats()
  stats$history <- stats$history[0, ]
  expect_refused(plot(stats), "invalid_value", "the session has no client")
  expect_refused(plot(structure(list(), class = "PJRTMemoryStats")), "invalid_type", "must be a `PJRTMemoryStats`")
})

test_that("statistics print in words", {
  child <- run_child(quote({
    print(pjrt_memory_stats())
    x <- pjrt_empty("f32", 2e6)
    print(pjrt_memory_stats())
  }))
  expect_identical(child$status, 0L)
  expect_identical(child$out[1:4], c(
    "<PJRTMemoryStats>", "  staging: 0 B in use, 0 B kept, of at most 268.4 MB", "  pinned:  0 R vectors",
    "  objects: none"
  ))
  expect_match(child$out, "client cpu: 1 buffer of 8 MB (most so far: 8 MB), 0 executables", fixed = TRUE, all = FALSE)
})
