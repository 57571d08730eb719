# The list of the living buffers.

# The rows of buffers that `code` makes.
rows_of <- function(code) {
  for (i in 1:2) gc()
  before <- nrow(pjrt_memory_stats()$buffers)
  made <- eval.parent(substitute(code))
  found <- pjrt_memory_stats()$buffers
  expect_identical(nrow(found), before + length(made))
  found
}

test_that("every living buffer has a row, the largest first", {
  # earlier tests may have left some whose calls were recorded
  recorded <- function(buffers) sum(!is.na(buffers$made_at))
  before <- recorded(pjrt_memory_stats()$buffers)
  made <- rows_of(list(
    pjrt_buffer(matrix(0, 1001, 3), "f64"), pjrt_scalar(1L), pjrt_empty("i4", c(7, 3, 1)),
    pjrt_buffer(1:3, device = "cpu:1")
  ))
  expect_named(made, c("dtype", "shape", "bytes", "device", "memory", "age", "made_at"))
  expect_false(is.unsorted(rev(made$bytes)))
  find <- function(dtype, shape) made[made$dtype == dtype & vapply(made$shape, identical, NA, shape), ]
  expect_identical(find("f64", c(1001L, 3L))$bytes, 24024)
  expect_true(nrow(find("i32", integer())) >= 1L)
  expect_true(nrow(find("i4", c(7L, 3L, 1L))) >= 1L)
  there <- find("i32", 3L)
  expect_true(as.character(pjrt_device("cpu:1")) %in% there$device)
  expect_true(all(made$memory == "device"))
  expect_lte(recorded(made), before)
})

test_that("rows agree with the memory statistics", {
  x <- pjrt_buffer(1:10)
  found <- pjrt_memory_stats()$buffers
  clients <- pjrt_memory_stats()$clients
  expect_equal(nrow(found), sum(clients$live_buffers))
  expect_equal(sum(found$bytes), sum(clients$live_bytes))
})

test_that("deleted, donated and dropped buffers are not listed, pending ones are", {
  count <- function() {
    for (i in 1:2) gc()
    nrow(pjrt_memory_stats()$buffers)
  }
  add <- compile(add_program("12345xf32", donates))
  before <- count()
  x <- pjrt_empty("f32", 12345)
  y <- pjrt_empty("f32", 12345)
  expect_identical(count(), before + 2L)
  z <- pjrt_execute(add, x, y)
  expect_identical(count(), before + 2L)
  pjrt_delete(y)
  expect_identical(count(), before + 1L)
  rm(z)
  expect_identical(count(), before)

  one <- pjrt_scalar(1, "f64")
  long <- compile(loop_program(3e6))
  pending <- pjrt_execute(long, one)
  expect_identical(count(), before + 2L)
  await(pending)
})

test_that("a buffer's age grows", {
  x <- pjrt_empty("f32", c(3, 777))
  age <- function() {
    found <- pjrt_memory_stats()$buffers
    found$age[vapply(found$shape, identical, NA, c(3L, 777L))]
  }
  first <- age()
  expect_true(first >= 0 && first < 60)
  Sys.sleep(0.1)
  expect_true(age() - first > 0.05)
})

test_that("buffers made while a trace is recorded say where", {
  file <- withr::local_tempfile(fileext = ".R")
  writeLines(c("made <- list(", "  pjrt_empty('f32', c(5, 888)),", "  NULL)", "made[[2]] <- made[[1]] + 1"), file)
  env <- new.env()
  pjrt_trace(source(file, local = env, keep.source = TRUE))
  after <- pjrt_empty("f32", c(5, 888))
  found <- pjrt_memory_stats()$buffers
  found <- found[vapply(found$shape, identical, NA, c(5L, 888L)), ]
  place <- function(line, call) paste0(basename(file), ":", line, " ", call)
  expect_setequal(found$made_at, c(place(1, 'pjrt_empty("f32", c(5, 888))'), place(4, "made[[1]] + 1"), NA))
})

test_that("a session without a client has no buffers, and columns of the same types", {
  child <- run_child(quote({
    found <- pjrt_memory_stats()$buffers
    cat(nrow(found), vapply(found, typeof, ""), "\n")
  }))
  expect_clean(child, "0 character list double character character double character ")
})
