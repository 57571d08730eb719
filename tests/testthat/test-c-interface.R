# A package that calls each routine of inst/include/pjrt/api.h.
# Slow: installs a package with C code.

skip_on_os("windows")

lib <- NULL

# Runs code in a child with that package.
with_client <- function(code, ...) {
  if (is.null(lib)) {
    sources <- withr::local_tempdir()
    file.copy(test_path("fixtures", "c-client"), sources, recursive = TRUE)
    withr::with_envvar(c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep)), {
      lib <<- install_stand_in(file.path(sources, "c-client"), "cclient", testthat::teardown_env())
    })
  }
  code <- bquote({
    name <- "cclient"
    library(name, character.only = TRUE)
    fails <- function(x) inherits(x, "failure")
    .(code)
  })
  run_child(code, c(R_LIBS = paste(c(lib, .libPaths()), collapse = .Platform$path.sep), ...))
}

test_that("routines recognise objects and return their properties", {
  child <- with_client(quote({
    client <- pjrt_client("cpu")
    x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4, 5, 6), 2), "f64")
    add <- compile(add_program("2x3xf64"))
    cat(c_version(), "\n")
    for (
      object in list(
        x, client, device(x), add, 1, NULL, unserialize(serialize(x, NULL, version = 2)),
        unserialize(serialize(x, NULL))
      )
    ) cat(c_kinds(object), "\n")
    cat(
      c_dtype(x) == c_dtype_code("f64"), c_dtype_name(c_dtype(x)), c_dtype_code("float32") == c_dtype_code("f32"), "\n"
    )
    cat(c_dims(x), length(c_dims(pjrt_scalar(1))), c_dims(pjrt_empty("i8", c(0, 4))), c_first(x), "\n")
    sent <- unserialize(serialize(list(add, x), NULL))
    cat(as_array(c_execute(sent[[1]], list(x, sent[[2]]), NULL)[[1]])[1:2], c_first(sent[[2]]), "\n")
    cat(c_first(pjrt_execute(add, x, x)), c_pointers(x, device(x), client), "\n")
    cat(identical(c_device(x), device(x)), identical(c_canonical(device(x)), device(x)), "\n")
  }))
  expect_clean(child, c(
    "TRUE ", "1 0 0 0 ", "0 1 0 0 ", "0 0 1 0 ", "0 0 0 1 ", "0 0 0 0 ", "0 0 0 0 ", "0 0 0 0 ", "1 0 0 0 ",
    "TRUE f64 TRUE ", "2 3 0 0 4 1.5 ", "3 4 1.5 ", "3 TRUE TRUE TRUE TRUE ", "TRUE TRUE "
  ))
})

test_that("routines create, copy and execute", {
  child <- with_client(PJRT_CPU_DEVICE_COUNT = "2", quote({
    client <- pjrt_client("cpu")
    there <- devices(client)[[2L]]
    f64 <- c_dtype_code("f64")
    x <- c_buffer(client, NULL, c(1, 2, 3, 4, 5, 6), c(2, 3), f64)
    y <- c_buffer(NULL, there, 1:6, c(2, 3), c_dtype_code("i32"))
    bytes <- c_buffer(NULL, NULL, as.raw(c(1, 2)), 2, c_dtype_code("ui8"))
    cat(
      identical(as_array(x), matrix(c(1, 2, 3, 4, 5, 6), 2)), identical(as_array(y), matrix(1:6, 2)), as_array(bytes),
      "\n"
    )
    cat(
      identical(device(y), there), as_array(c_empty(client, NULL, numeric(), f64)),
      shape(c_empty(NULL, there, c(0, 2), f64)), "\n"
    )
    cat(identical(c_copy(x, device(x), client, 0L), x), identical(device(c_copy(x, there, NULL, 0L)), there), "\n")
    add <- compile(add_program("2x3xf64", donates))
    out <- c_execute(add, list(x, x), c_options(0L, 3L))
    cat(length(out), as_array(out[[1]]), is_deleted(x), "\n")
    out <- c_execute(add, list(x, c_buffer(client, NULL, 1, c(2, 3), f64)), NULL)
    cat(as_array(out[[1]]), is_deleted(x), "\n")
    other <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
    cat(
      fails(c_copy(out[[1]], devices(other)[[1]], NULL, 0L)),
      as_array(c_copy(out[[1]], devices(other)[[1]], other, 1L))[1], "\n"
    )
  }))
  expect_clean(child, c(
    "TRUE TRUE 1 2 ", "TRUE 0 0 2 ", "TRUE TRUE ", "1 2 4 6 8 10 12 FALSE ", "2 3 4 5 6 7 TRUE ", "TRUE 2 "
  ))
})

test_that("a warning of a routine names no function of this package", {
  child <- with_client(quote(x <- c_buffer(NULL, NULL, c(NA, 1L), 2, c_dtype_code("i32"))))
  expect_identical(child$status, 0L)
  expect_match(child$err[[2L]], "^ *`data` for i32\\[2\\] has a missing value")
  expect_no_match(child$err, "warn_missing")
})

test_that("failures return a sentinel and a message, and never raise", {
  child <- with_client(quote({
    client <- pjrt_client("cpu")
    x <- pjrt_buffer(c(1, 2), "f64")
    add <- compile(add_program("2xf64"))
    restored <- unserialize(serialize(x, NULL, version = 2))
    f64 <- c_dtype_code("f64")
    tries <- alist(
      c_dtype(1), c_dims(restored), c_first("a"), c_device(client), c_canonical(x), c_dtype_code("f31"),
      c_dtype_name(999L),
      c_buffer(client, NULL, c(1, 2), 3, f64), c_buffer(NULL, NULL, "a", 1, f64), c_buffer(1, NULL, 1, 1, f64),
      c_buffer(NULL, NULL, 1, -2, f64), c_buffer(NULL, NULL, 1, 1, 999L), c_empty(NULL, NULL, c(2^31, 2^31, 2^31), f64),
      c_copy(1, NULL, client, 0L), c_execute(add, list(x), NULL), c_execute(add, 1, NULL),
      c_execute(add, list(x, 1), NULL),
      c_execute(x, list(x, x), NULL), c_execute(add, list(x, x), 1), c_options(-1L, 0L), c_options("a", 0L),
      c_options(0.5, 0L)
    )
    for (try in tries) {
      result <- eval(try)
      if (!fails(result) || !nzchar(result)) cat("did not fail:", deparse(try), "\n")
    }
    cat(c_first(pjrt_delete(pjrt_scalar(1))), "\n")
    torture(5)
    out <- c_execute(add, list(x, c_buffer(client, NULL, c(3, 4), 2, f64)), c_options(integer(), 0L))
    failed <- fails(c_buffer(NULL, NULL, "a", 1, f64))
    torture(0)
    cat(as_array(out[[1]]), failed, "\n")
  }))
  expect_clean(child)
  expect_match(child$out[[1L]], "deleted")
  expect_identical(child$out[-1L], "4 6 TRUE ")
})

test_that("null pointers and calls on other threads are refused", {
  child <- with_client(quote({
    messages <- c_null()
    writeLines(messages)
    x <- pjrt_scalar(1)
    cat(c_thread(x), c_dtype(x) == c_dtype_code("f32"), "\n")
  }))
  expect_clean(child)
  expect_match(child$out[1:18], "null pointer|must be|must not be|Unknown")
  expect_identical(child$out[[19L]], "-1 TRUE ")
})
