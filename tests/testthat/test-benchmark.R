# Benchmarks: how programs are run and what is computed from the times. No test expects a time.
# Slow: measures programs.

square <- function(n = 64) pjrt_buffer(matrix(seq_len(n * n) / n^2, n))

product_program <- function(n = 64) {
  type <- sprintf("tensor<%dx%dxf32>", n, n)
  sprintf("func.func @main(%%x: %s, %%y: %s) -> %s {
  %%z = stablehlo.dot_general %%x, %%y, contracting_dims = [1] x [0] : (%s, %s) -> %s
  return %%z : %s
}", type, type, type, type, type, type, type)
}

test_that("a benchmark has a time for each run, and rates from the compiler's estimate", {
  product <- compile(product_program())
  x <- square()
  found <- pjrt_benchmark(product, x, x, times = 7, limits = FALSE)
  expect_s3_class(found, "PJRTBenchmark")
  expect_identical(found$name, "product")
  expect_identical(found$dtype, "f32")
  expect_length(found$seconds, 7L)
  expect_true(all(found$seconds > 0))
  expect_true(all(found$in_flight > 0))
  expect_named(found$from_r, c("from_r", "without_r"))
  expect_identical(found$flops, 2 * 64^3)
  expect_identical(found$bytes, executable_cost(product)[["bytes accessed"]])
  expect_null(found$limits)
  row <- as.data.frame(found)
  expect_identical(dim(row), c(1L, 14L))
  expect_identical(row$median, sort(found$seconds)[[4L]])
  expect_identical(
    row[c("lower", "upper")], data.frame(lower = sort(found$seconds)[[2L]], upper = sort(found$seconds)[[6L]])
  )
  expect_equal(row$gflops, found$flops / row$median / 1e9)
  expect_equal(row$gbs, found$bytes / row$median / 1e9)
  expect_identical(row$of_gflops, NA_real_)
})

test_that("inputs are matched by name, in lists, and stay as they are", {
  add <- compile(add_program("2xf32"))
  x <- pjrt_buffer(c(1, 2))
  y <- pjrt_buffer(c(3, 4))
  for (found in list(
    pjrt_benchmark(add, y = x, x = y, times = 2, limits = FALSE),
    pjrt_benchmark(add, list(x, y), times = 2, limits = FALSE),
    pjrt_benchmark(add, inputs = list(y = y, x = x), times = 2, limits = FALSE),
    pjrt_benchmark(compile(add_program("2xf32")), x, y, times = 2, limits = FALSE)
  )) {
    expect_length(found$seconds, 2L)
  }
  expect_identical(found$name, "main")
  expect_identical(as_array(x), array(c(1, 2)))
})

test_that("a donated input is copied for every run", {
  for (type in c("2xf32", "100000xf32")) {
    step <- compile(add_program(type, donates))
    n <- as.numeric(sub("x.*", "", type))
    x <- pjrt_buffer(seq_len(n) / n, "f32")
    before <- as_array(x)
    found <- pjrt_benchmark(step, x, x, times = 3, limits = FALSE)
    expect_length(found$seconds, 3L)
    expect_false(is_deleted(x))
    expect_identical(as_array(x), before)
    expect_equal(as_array(pjrt_execute(step, x, pjrt_buffer(seq_len(n) / n, "f32"))), 2 * before, tolerance = 1e-6)
  }
  # inputs that are kept need no copy
  keep <- pjrt_execution_options(keep_inputs = "x")
  y <- pjrt_buffer(c(1, 2))
  expect_length(
    pjrt_benchmark(
      compile(add_program("2xf32", donates)), y, y, times = 2, execution_options = keep, limits = FALSE
    )$seconds,
    2L
  )
})

test_that("long programs, programs that call R, and those for another device can be measured", {
  long <- pjrt_benchmark(compile(loop_program(2e5)), pjrt_scalar(1, "f64"), times = 2, limits = FALSE)
  expect_identical(nrow(long$from_r), 0L)
  expect_match(format(long), "R's part is too small to be measured", all = FALSE)
  there <- compile(add_program("2xf32"), device = "cpu:1")
  x <- pjrt_buffer(c(1, 2), device = "cpu:1")
  expect_identical(pjrt_benchmark(there, x, x, times = 2, limits = FALSE)$device, as.character(pjrt_device("cpu:1")))
  portable <- compile(add_program("2xf32"), compile_options = pjrt_compile_options(compile_portable_executable = TRUE))
  expect_identical(pjrt_benchmark(portable, x, x, times = 2, limits = FALSE)$device, as.character(pjrt_device("cpu:1")))
  integers <- pjrt_benchmark(compile(unary_program("2xi32")), pjrt_buffer(1:2), times = 2)
  expect_identical(integers$dtype, NA_character_)
  expect_identical(as.data.frame(integers)$of_gflops, NA_real_)
})

test_that("what cannot be measured is refused", {
  add <- compile(add_program("2xf32"))
  x <- pjrt_buffer(c(1, 2))
  expect_refused(pjrt_benchmark(add, x), "argument_count", "takes 2 arguments")
  expect_refused(pjrt_benchmark(add, x, 1), "invalid_input", "must be a `PJRTBuffer`")
  expect_refused(pjrt_benchmark(add, x, pjrt_scalar(1)), "shape_mismatch", "Wrong shape")
  expect_refused(pjrt_benchmark(1), "invalid_type", "`executable` must be a `PJRTLoadedExecutable`")
  for (bad in list(0, 1.5, NA, "1", 1:2, Inf)) {
    expect_refused(pjrt_benchmark(add, x, x, times = bad), "invalid_type", "`times` must be a whole number")
  }
  expect_refused(pjrt_benchmark(add, x, x, limits = NA), "invalid_type", "`limits`")
  expect_refused(
    pjrt_benchmark(compile("func.func @main(%x: tensor<2xf32>) { return }"), x), "invalid_value", "without outputs"
  )
  both <- pjrt_compile(
    pjrt_program(all_reduce_program("2xf32", 2)), pjrt_compile_options(num_replicas = 2L), devices = devices("cpu")[1:2]
  )
  expect_refused(pjrt_benchmark(both, x), "invalid_value", "Only programs for one device")
  expect_refused(pjrt_benchmark(), "invalid_value", "at least one executable")
  expect_refused(pjrt_benchmark(add, add, 1), "invalid_type", "Argument 3 must be")
  pjrt_delete(x)
  expect_refused(pjrt_benchmark(add, x, x), "deleted_buffer", "deleted or donated buffer")
})

test_that("a comparison has the names of its programs and takes benchmarks", {
  x <- square()
  product <- compile(product_program())
  found <- pjrt_benchmark(product, x, x, times = 2, limits = FALSE)
  compared <- pjrt_benchmark(
    product, found, sum = compile(add_program("64x64xf32")), compile(add_program("64x64xf32", donates)),
    inputs = list(x, x), times = 12, limits = FALSE
  )
  expect_s3_class(compared, "PJRTComparison")
  rows <- as.data.frame(compared)
  expect_identical(rows$name, c("product", "found", "sum", "main"))
  expect_identical(rows$runs, c(12L, 2L, 12L, 12L))
  expect_identical(rownames(rows), as.character(1:4))
  expect_identical(names(compared), rows$name)
  expect_identical(compared$found$seconds, found$seconds)
  lines <- format(compared)
  expect_length(lines, 6L)
  expect_match(lines[[2L]], "median +quartiles +in flight +GFLOP/s +GB/s +slower by")
})

# A benchmark with chosen numbers.
known_benchmark <- function(seconds = (11:19) / 1e4, ...) {
  x <- square()
  found <- pjrt_benchmark(compile(product_program()), x, x, times = 1)
  found$seconds <- seconds
  found$in_flight <- c(1e-3, 1.2e-3, 1.3e-3)
  found$from_r <- data.frame(from_r = c(12, 14, 16) / 1e4, without_r = c(11, 12, 13) / 1e4)
  found$limits[c("flops", "n", "bandwidth", "array_bytes")] <- list(1e9, 1024, 1e8, 2^27)
  found$bytes <- 49152
  found$estimated_by <- "plugin"
  changes <- list(...)
  found[names(changes)] <- changes
  found
}

test_that("print shows times, rates and their parts of the limits", {
  expect_snapshot({
    known_benchmark()
    known_benchmark(seconds = 3.21e-6, from_r = data.frame(from_r = 9e-6, without_r = 1e-6), in_flight = 1e-6)
    known_benchmark(from_r = data.frame(from_r = numeric(), without_r = numeric()), flops = NA_real_)
    known_benchmark(limits = NULL, from_r = data.frame(from_r = 1e-3, without_r = 1e-3))
    pjrt_benchmark(
      first = known_benchmark(), second = known_benchmark(2 * (11:19) / 1e4), third = known_benchmark(0.1234)
    )
    pjrt_benchmark(one = known_benchmark(flops = NA_real_, bytes = NA_real_))
  }, transform = function(lines) gsub("CpuDevice\\(id=0\\)", "<device>", lines))
})

test_that("objects that only have the class are refused", {
  for (use in list(print, format, as.data.frame, plot)) {
    expect_refused(use(structure(list(), class = "PJRTBenchmark")), "invalid_type", "must be a `PJRTBenchmark`")
    expect_refused(use(structure(list(), class = "PJRTComparison")), "invalid_type", "must be a `PJRTComparison`")
    expect_refused(use(structure(1, class = "PJRTComparison")), "invalid_type", "must be a `PJRTComparison`")
  }
})

test_that("Ctrl-C ends a measurement and leaves everything usable", {
  skip_on_os("windows")
  child <- run_child(quote({
    long <- compile(loop_program(3e6))
    x <- pjrt_scalar(1, "f64")
    for (i in 1:2) {
      interrupt <- sprintf("(sleep 0.5; kill -INT %d) &", Sys.getpid())
      cat(tryCatch({
        system(interrupt)
        pjrt_benchmark(long, x, times = 1e5, limits = FALSE)
        "ended"
      }, interrupt = function(e) "interrupted"), "")
    }
    cat(as_array(pjrt_execute(long, x)), length(pjrt_benchmark(long, x, times = 1, limits = FALSE)$seconds), "\n")
  }))
  expect_identical(child[c("status", "out")], list(status = 0L, out = "interrupted interrupted 2 1 "))
})

test_that("long runs are in flight less often", {
  runs <- function(typical, donates = FALSE) pjrt:::runs_of_group(typical, depth = 32, donates)
  expect_identical(vapply(c(1e-9, 1e-4, 0.004, 0.0626, 0.09, 1), runs, 0), c(5000, 1000, 32, 3, 2, 2))
  expect_identical(vapply(c(1e-9, 1e-4, 0.0626, 1), runs, 0, donates = TRUE), c(32, 32, 3, 2))
})

test_that("a measurement leaves no buffers behind", {
  x <- square()
  step <- compile(add_program("64x64xf32", donates))
  count <- function() {
    for (i in 1:2) gc()
    sum(pjrt_memory_stats()$clients$live_buffers)
  }
  before <- count()
  pjrt_benchmark(step, x, x, times = 5)
  expect_identical(count(), before)
})
