# Memory stays bounded over many iterations. tools/leaks.R runs 100,000 iterations of each use.
# Slow: repeats every use until a leak would show.

# How often a batch repeats a quick use: in the suite, a leak shows from about 200 bytes.
in_a_batch <- times(50L, 1000L)

test_that("memory stays bounded over many repetitions of every use", {
  skip_on_os(c("mac", "windows"))
  library <- build_library(test_path("fixtures", "heap.c"))
  # two sessions in parallel, each with half of the uses
  look <- function(half) {
    code <- bquote({
      mine <- seq_along(repeated_uses()) %% 2L == .(half)
      writeLines(c("all but", leaking(find_leaks(load_heap(.(library)), repeated_uses()[mine], .(in_a_batch), together = 16L))))
    })
    start_child(code, lone_session(), helpers = c(routine_helpers, "leaks"))
  }
  children <- lapply(0:1, look)
  for (child in children) expect_clean(end_child(child, timeout = 900), "all but")
})

test_that("the measurement finds a leaked block", {
  skip_on_os(c("mac", "windows"))
  heap <- load_heap(build_library(test_path("fixtures", "heap.c")))
  objects <- leak_objects()
  # a chain, since a list would be copied each time
  objects$kept <- list()
  # as much in each batch, however often it repeats
  objects$bytes <- 24 * 1000 / in_a_batch
  leaks <- alist(
    native = .C("leak", bytes), object = kept <<- list(kept, raw(bytes)), buffer = kept <<- list(kept, pjrt_scalar(1)),
    none = pjrt_scalar(1)
  )
  # all at once, then each alone
  found <- find_leaks(heap, leaks, in_a_batch, seconds = 0.1, again = 1L, together = 4L, objects = objects)
  expect_identical(vapply(found, grows, NA), c(native = TRUE, object = TRUE, buffer = TRUE, none = FALSE))
})
