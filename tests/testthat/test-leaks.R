# Memory stays bounded over many iterations. tools/leaks.R runs 100,000 iterations of each use.
# Slow: repeats every use until a leak would show.

# How often a batch repeats a quick use, and how much the heap of uses that are measured together may fluctuate. In the
# suite, a leak shows from about 1,500 bytes or if it keeps an object of this package.
in_a_batch <- times(25L, 1000L)
fluctuation <- times(150e3, 32e3)

# R's memory is large enough from the start, since a leak could hide in its growth.
in_child <- function(code) {
  env <- c(lone_session(), R_NSIZE = "1500000", R_VSIZE = "64M")
  start_child(code, env, helpers = c(routine_helpers, "leaks"))
}

test_that("memory stays bounded over many repetitions of every use", {
  skip_on_os(c("mac", "windows"))
  library <- build_library(test_path("fixtures", "heap.c"))
  # two sessions in parallel, each with half of the uses
  children <- lapply(0:1, function(half) {
    in_child(bquote({
      mine <- repeated_uses()[seq_along(repeated_uses()) %% 2L == .(half)]
      found <- find_leaks(load_heap(.(library)), mine, .(in_a_batch), together = 32L, shared_heap = .(fluctuation))
      writeLines(c("all but", leaking(found)))
    }))
  })
  for (child in children) expect_clean(end_child(child, timeout = 1800), "all but")
})

test_that("the measurement finds a leaked block", {
  skip_on_os(c("mac", "windows"))
  library <- build_library(test_path("fixtures", "heap.c"))
  child <- end_child(in_child(bquote({
    heap <- load_heap(.(library))
    objects <- leak_objects()
    # a chain, since a list would be copied each time
    objects$kept <- list()
    objects$bytes <- times(1920, 24)
    leaks <- alist(
      native = .C("leak", bytes), object = kept <<- list(kept, raw(bytes)),
      buffer = kept <<- list(kept, pjrt_scalar(1)),
      none = pjrt_scalar(1)
    )
    # all at once, then each alone
    found <- find_leaks(
      heap, leaks, .(in_a_batch), seconds = 0.1, again = 1L, together = 4L, shared_heap = .(fluctuation),
      objects = objects, chances = times(1L, 2L)
    )
    leaking <- vapply(found, grows, NA)
    cat(names(leaking)[leaking], "\n")
  })))
  expect_clean(child, "native object buffer ")
})
