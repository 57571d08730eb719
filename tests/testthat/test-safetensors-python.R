# Safetensors files that this package and Python exchange. fixtures/tensors.py is the Python side.
# Slow: starts many sessions of Python.

formats <- c(
  "BOOL", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F16", "BF16", "F32", "F64", "C64", "F8_E4M3",
  "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0", "F4"
)

# The folder of files written by Python.
python_files <- function() {
  if (is.null(written$folder)) {
    folder <- withr::local_tempdir(.local_envir = teardown_env())
    run_python(fixture("tensors.py"), "write", folder)
    written$folder <- folder
  }
  written$folder
}

written <- new.env()

python_file <- function(name) file.path(python_files(), paste0(name, ".safetensors"))

# The numbers in each file written by Python.
numbers <- function(format) {
  switch(format,
    BOOL = c(FALSE, TRUE, TRUE, TRUE, TRUE, TRUE),
    C64 = c(0, 1, 2, 3, 4, 6) * (1 + 2i),
    F4 = c(0, 0.5, 1, 2),
    F8_E8M0 = 2^(0:5),
    c(0, 1, 2, 3, 4, 6)
  )
}

test_that("files written by Python are read, in every type", {
  paths <- python_file(formats)
  for (file in Map(list, format = formats, path = paths, listed = python_list(paths))) {
    tensors <- pjrt_load_safetensors(file$path)
    expect_identical(lapply(tensors, as_listed), file$listed$tensors, info = file$format)
    values <- as_array(tensors$values, int64 = "double")
    expect_equal(values, matrix(numbers(file$format), 2L, byrow = TRUE), info = file$format)
    if (file$format != "F4") {
      expect_identical(shape(tensors$scalar), integer())
      expect_identical(as_array(tensors$scalar, int64 = "double"), values[2L, 2L])
      expect_identical(shape(tensors$empty), c(0L, 3L))
    }
  }
})

test_that("Python reads our files, in every type", {
  folder <- withr::local_tempdir()
  mine <- file.path(folder, paste0(formats, ".safetensors"))
  tensors <- lapply(python_file(formats), pjrt_load_safetensors)
  for (i in seq_along(mine)) {
    # the numbers are converted from R, everything else is saved as loaded
    values <- matrix(numbers(formats[[i]]), 2L, byrow = TRUE)
    tensors[[i]]$values <- pjrt_buffer(values, as.character(elt_type(tensors[[i]]$values)))
    pjrt_save_safetensors(tensors[[i]], mine[[i]])
  }
  listed <- python_list(c(mine, python_file(formats)))
  expect_identical(listed[seq_along(mine)], listed[-seq_along(mine)])
})

test_that("names and metadata in any alphabet survive in both directions", {
  theirs <- python_file("names")
  tensors <- pjrt_load_safetensors(theirs)
  expect_setequal(names(tensors), c("gr\u00f6\u00dfe", "\u91cd\u307f.0", "a b\"\\c", "\U0001f600", "\a"))
  expect_identical(as_array(tensors[["\u91cd\u307f.0"]]), array(0:2))
  metadata <- attr(tensors, "metadata")
  expect_identical(metadata[sort(names(metadata))], c(
    empty = "", "gr\u00f6\u00dfe" = "zw\u00f6lf", json = "{\"a\": [1, \"\\n\"]}", lines = "one\ntwo\ttab",
    "\U0001f600" = "\U0001f600"
  )[sort(names(metadata))])
  expect_identical(names(pjrt_load_safetensors(theirs, names = "gr\u00f6\u00dfe")), "gr\u00f6\u00dfe")

  mine <- withr::local_tempfile(fileext = ".safetensors")
  pjrt_save_safetensors(rev(tensors), mine, metadata = metadata)
  listed <- python_list(mine)[[1L]]
  expect_identical(names(listed$tensors), rev(names(tensors)))
  expect_mapequal(listed$metadata, metadata)
})

test_that("data in any order and at any offset is read", {
  tensors <- pjrt_load_safetensors(python_file("shuffled"))
  expect_identical(lapply(tensors, as_array), list(
    last = array(c(0.5, -0.25)), first = array(7L), middle = matrix(c(-1L, 2L), 1L)
  ))
  info <- safetensors_info(python_file("shuffled"))
  expect_identical(info$offset - min(info$offset), c(9, 0, 1))
  expect_identical(info$bytes, c(16, 1, 8))
})

test_that("files with thousands of tensors are read and written", {
  tensors <- pjrt_load_safetensors(python_file("long"))
  expect_length(tensors, 4000L)
  numbers <- as.integer(sub("layer\\.([0-9]+)\\.x+", "\\1", names(tensors)))
  expect_setequal(numbers, 0:3999)
  expect_identical(vapply(tensors, function(x) as_array(x)[[2L]], 1L, USE.NAMES = FALSE), numbers)
  mine <- withr::local_tempfile()
  pjrt_save_safetensors(tensors, mine)
  listed <- python_list(c(mine, python_file("long")))
  expect_identical(listed[[1L]], listed[[2L]])
})

test_that("shards written by Python load as one model", {
  index <- file.path(python_files(), "model.safetensors.index.json")
  tensors <- pjrt_load_safetensors(index)
  expect_setequal(names(tensors), c("a", "b", "c"))
  for (name in names(tensors)) {
    expect_identical(as_array(tensors[[name]]), matrix(utf8ToInt(name) + 0, 2L, 2L))
  }
  expect_identical(names(pjrt_load_safetensors(index, names = c("c", "a"))), c("c", "a"))
  model <- pjrt_open_safetensors(index)
  expect_setequal(names(model), c("a", "b", "c"))
  expect_identical(as_array(model[["c"]]), matrix(99, 2L, 2L))
  close(model)
})

test_that("Python loads our shards as one model", {
  folder <- withr::local_tempdir()
  tensors <- lapply(c(a = 1, b = 2, c = 3), function(value) pjrt_buffer(rep(value, 100), "f64"))
  index <- pjrt_save_safetensors(tensors, file.path(folder, "net.safetensors"), max_shard_size = 1700)
  expect_identical(basename(index), "net.safetensors.index.json")
  listed <- python_list(index)[[1L]]
  expect_identical(listed$metadata[["total_size"]], "2400")
  expect_identical(vapply(listed$tensors, `[[`, "", "dtype"), c(
    a = "net-00001-of-00002.safetensors", b = "net-00001-of-00002.safetensors", c = "net-00002-of-00002.safetensors"
  ))
  bytes <- function(x) x$bytes
  expect_identical(lapply(listed$tensors, bytes), lapply(lapply(tensors, as_listed), bytes))
})

test_that("changes that Python makes to a file in use are detected", {
  child <- run_child(quote({
    python <- function(command) {
      stopifnot(system2(Sys.getenv("PJRT_TEST_PYTHON"), c(shQuote(Sys.getenv("SCRIPT")), command, shQuote(path))) == 0L)
    }
    path <- tempfile(fileext = ".safetensors")
    numbers <- as.double(1:1e5)
    load <- function() {
      pjrt_save_safetensors(list(x = pjrt_buffer(numbers, "f64")), path)
      pjrt_load_safetensors(path)$x
    }
    use <- function(x) tryCatch(as.vector(as_array(x)), error = function(e) class(e)[[1L]])

    x <- load()
    python("replace")
    cat("replaced:", identical(use(x), numbers), as.vector(as_array(pjrt_load_safetensors(path)$x)), "\n")
    x <- load()
    python("change")
    cat("changed:", use(x), "\n")
    x <- load()
    python("shrink")
    cat("cut:", use(x), "\n")
    cat("loaded again:", tryCatch(pjrt_load_safetensors(path), error = function(e) class(e)[[1L]]), "\n")
  }), c(PJRT_TEST_PYTHON = test_python(), SCRIPT = normalizePath(fixture("tensors.py"))))
  expect_clean(child, c(
    "replaced: TRUE 7 7 7 ", "changed: pjrt_error_file_changed ", "cut: pjrt_error_file_changed ",
    "loaded again: pjrt_error_safetensors_invalid "
  ))
})

test_that("the same damaged files are refused as in Python", {
  folder <- withr::local_tempdir()
  good <- as.integer(run_python(fixture("tensors.py"), "mutate", folder))
  outcomes <- vapply(0:1999, FUN.VALUE = "", function(i) {
    tryCatch(
      {
        pjrt_load_safetensors(file.path(folder, i))
        "good"
      },
      error = function(e) class(e)[[1L]]
    )
  })
  expect_gt(length(good), 300L)
  expect_identical(which(outcomes == "good") - 1L, good)
  expect_setequal(outcomes[-(good + 1L)], "pjrt_error_safetensors_invalid")
})

test_that("a file from other packages' tests is read", {
  tensors <- pjrt_load_safetensors(fixture("hello.safetensors"))
  expect_identical(lapply(tensors, as_array), list(hello = matrix(1, 10, 10), world = matrix(0, 5, 10)))
})

# Runs the script that trains the network and returns its output folder.
trained <- function(env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  data <- file.path(folder, "iris.csv")
  utils::write.csv(datasets::iris, data, row.names = FALSE)
  run_python(system.file("models", "iris.py", package = "pjrt"), data, folder)
  folder
}

test_that("a network trained in Python returns the same predictions", {
  for (folder in c(trained(), system.file("models", package = "pjrt"))) {
    net <- pjrt_load_safetensors(file.path(folder, "iris.safetensors"))
    theirs <- utils::read.csv(file.path(folder, "iris-probabilities.csv"))
    flowers <- pjrt_buffer(as.matrix(datasets::iris[theirs$flower, 1:4]), "f32")
    tensors <- c("input.mean", "input.scale", "hidden.weight", "hidden.bias", "output.weight", "output.bias")
    mine <- do.call(
      pjrt_execute, c(list(pjrt_compile(classifier_program(nrow(theirs))), flowers), unname(net[tensors]))
    )
    expect_equal(as_array(mine), unname(as.matrix(theirs[-1L])), tolerance = 1e-5)
  }
})

test_that("the bundled network matches the script that trains it", {
  load <- function(folder) pjrt_load_safetensors(file.path(folder, "iris.safetensors"))
  # the last digits depend on the processor
  expect_equal(load(trained()), load(system.file("models", package = "pjrt")), tolerance = 1e-4)
})
