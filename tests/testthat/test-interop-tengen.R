# Slow: starts many sessions.

# Checks what tengen's class and the fallback class have in common.
expect_data_type <- function(x, name) {
  expect_s3_class(x, "DataType")
  expect_identical(as.character(x), name)
  expect_identical(utils::capture.output(shown <- withVisible(print(x))), paste0("<", name, ">"))
  expect_false(shown$visible)
  expect_true(x == name && name == x && x == x)
  expect_false(x != name || name != x || x != x)
}

# Runs code in a child that has this package and its imports but not tengen.
run_without_tengen <- function(code) {
  lib <- withr::local_tempdir()
  for (package in c("pjrt", "bit64", "bit")) {
    file.copy(find.package(package), lib, recursive = TRUE)
  }
  # otherwise the child would find tengen in R's other libraries
  no_library <- file.path(lib, "none")
  run_child(code, c(R_LIBS = lib, R_LIBS_SITE = no_library, R_LIBS_USER = no_library))
}

test_that("dtype() returns a data type, which calls pred bool", {
  expect_data_type(dtype(pjrt_scalar(1)), "f32")
  expect_data_type(dtype(pjrt_scalar(TRUE)), "bool")
  expect_data_type(dtype(pjrt_scalar(1L, "ui8")), "ui8")
  expect_false(dtype(pjrt_scalar(1)) == dtype(pjrt_scalar(1L)))
  expect_true(dtype(pjrt_scalar(1)) != "f64")
})

test_that("data types of every version of tengen name a dtype", {
  # a list, which its package turns into text
  local_s3 <- function(class, method) {
    registerS3method("as.character", class, method, envir = asNamespace("base"))
  }
  local_s3("ListType", function(x, ...) x$name)
  type <- function(name) structure(list(name = name), class = c("ListType", "DataType"))
  expect_true(elt_type(pjrt_buffer(2, type("f64"))) == "f64")
  expect_true(elt_type(pjrt_scalar(2L, type("i64"))) == "i64")
  expect_true(elt_type(pjrt_empty(type("bool"), 2L)) == "pred")
  expect_true(elt_type(pjrt_buffer(raw(4), dtype = type("ui8"), row_major = TRUE, shape = 4L)) == "ui8")
  x <- pjrt_buffer(1:2)
  expect_identical(pjrt_buffer(x, type("i32")), x)
  expect_refused(pjrt_buffer(x, type("f32")), "invalid_input", "Must use the same data type")
  expect_refused(pjrt_buffer(2, type("f31")), "unsupported_dtype", "f31")
  expect_refused(pjrt_buffer(2, type(c("f32", "f64"))), "unsupported_dtype", "as.character() does not give its name")
  local_s3("BrokenType", function(x, ...) stop("broken"))
  expect_refused(
    pjrt_buffer(2, structure(1, class = c("BrokenType", "DataType"))), "unsupported_dtype", "as.character()"
  )
})

test_that("types that tengen lacks use the fallback class", {
  for (name in c("f8e5m2", "f8e4m3fn", "f4e2m1fn", "i4", "ui4", "i2", "ui2")) {
    type <- dtype(pjrt_empty(name, 2L))
    expect_identical(class(type), c("PJRTDataType", "DataType"))
    expect_data_type(type, name)
    expect_identical(format(type), name)
    expect_true(type != "f32")
  }
})

test_that("without tengen every type uses the fallback class, which prints and compares the same", {
  child <- run_without_tengen(quote({
    stopifnot(!requireNamespace("tengen", quietly = TRUE))
    for (name in c("pred", "f32", "c128", "f8e5m2")) {
      type <- dtype(pjrt_empty(name, 2L))
      print(type)
      same <- dtype(pjrt_empty(type, 2L))
      cat(class(type), type == same, type != same, type == "bool", "f32" == type, type != "f32", format(type), "\n")
    }
  }))
  lines <- "PJRTDataType DataType TRUE FALSE"
  expect_clean(child, c(
    "<bool>", paste(lines, "TRUE FALSE TRUE bool "), "<f32>", paste(lines, "FALSE TRUE FALSE f32 "),
    "<c128>", paste(lines, "FALSE FALSE TRUE c128 "), "<f8e5m2>", paste(lines, "FALSE FALSE TRUE f8e5m2 ")
  ))
})

# Runs code in children that have tengen: the package where it is installed, and always a stand-in with its documented
# classes.
test_with_tengen <- function(promise, code, out) {
  test_that(promise, {
    skip_if_not_installed("tengen")
    expect_clean(run_child(code), out)
  })
  test_that(paste(promise, "(stand-in)"), {
    expect_clean(run_child(code, with_stand_in()), out)
  })
}

# The library of the stand-in, whose data types have the class "stand_in".
stand_in <- function() {
  if (is.null(found$lib)) found$lib <- install_stand_in(fixture("tengen"), "tengen", teardown_env())
  found$lib
}

found <- new.env()

with_stand_in <- function() c(R_LIBS = paste(c(stand_in(), .libPaths()), collapse = .Platform$path.sep))

test_with_tengen("this package can be loaded before tengen without messages", quote({
  library(tengen, warn.conflicts = FALSE)
  cat(identical(pjrt::dtype(pjrt::pjrt_scalar(1)), as_dtype("f32")), "\n")
}), "TRUE ")

test_with_tengen("this package can be loaded after tengen without messages", quote({
  unloadNamespace("pjrt")
  loadNamespace("tengen")
  library(pjrt)
  cat(identical(dtype(pjrt_scalar(1)), tengen::as_dtype("f32")), "\n")
}), "TRUE ")

test_with_tengen("dtype() returns tengen's data types and arguments accept them", quote({
  names <- c(
    "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64", "c64", "c128", "bool"
  )
  for (name in names) {
    type <- tengen::as_dtype(name)
    x <- pjrt_empty(type, 2L)
    stopifnot(identical(dtype(x), type), identical(tengen::dtype(x), type))
  }
  print(type)
}), "<bool>")

test_with_tengen("tengen's generics work for buffers", quote({
  values <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  x <- pjrt_buffer(values)
  stopifnot(
    identical(tengen::shape(x), c(2L, 3L)), identical(tengen::naxes(x), 2L), identical(tengen::nelts(x), 6),
    identical(tengen::as_array(x), values), identical(tengen::as_array(as_array_async(x)), values),
    identical(tengen::as_raw(x, row_major = TRUE), as_raw(x, row_major = TRUE)), tengen::device(x) == device(x),
    tengen::device(compile(unary_program("f32"))) == device(x)
  )
  cat("the same\n")
}), "the same")

test_with_tengen("tengen's methods for arrays are used when tengen is loaded", quote({
  loadNamespace("tengen")
  cat(shape(matrix(0, 2, 3)), "\n")
}), "2 3 ")

test_with_tengen("tengen accepts the fallback class", quote({
  type <- dtype(pjrt_empty("f8e5m2", 2L))
  fallback <- structure("f32", class = c("PJRTDataType", "DataType"))
  stopifnot(
    tengen::is_dtype(type), identical(tengen::as_dtype(type), type), identical(tengen::dtype_width(fallback), 32L),
    tengen::is_dtype_float(fallback)
  )
  cat(class(type), "\n")
}), "PJRTDataType DataType ")

test_with_tengen("the fallback class compares with tengen's class", quote({
  type <- dtype(pjrt_empty("f8e5m2", 2L))
  theirs <- tengen::as_dtype("f32")
  warned <- character()
  compared <- withCallingHandlers(
    c(type == theirs, theirs == type, type != theirs, theirs != type),
    warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  # before R 4.3 a package cannot choose the method, so R compares and warns
  expected <- if (getRversion() < "4.3") 4L else 0L
  stopifnot(length(warned) == expected, grepl("Incompatible methods", warned))
  cat(compared, "\n")
}), "FALSE FALSE TRUE TRUE ")

test_that("dtype() looks for tengen once and again after it is loaded or unloaded", {
  lib <- stand_in()
  child <- run_child(bquote({
    is_stand_in <- function(...) cat(inherits(dtype(pjrt_scalar(...)), "stand_in"), "\n")
    is_stand_in(1)
    .libPaths(c(.(lib), .libPaths()))
    is_stand_in(1L)
    if (isNamespaceLoaded("tengen")) unloadNamespace("tengen")
    invisible(loadNamespace("tengen"))
    is_stand_in(1)
    is_stand_in(1L)
    unloadNamespace("tengen")
    is_stand_in(1)
    cat(isNamespaceLoaded("tengen"), "\n")
  }))
  expect_clean(child, paste(c(FALSE, FALSE, TRUE, TRUE, TRUE, TRUE), ""))
})

test_that("the first dtype() loads an installed tengen", {
  child <- run_child(quote({
    cat(isNamespaceLoaded("tengen"), "\n")
    type <- dtype(pjrt_scalar(TRUE))
    cat(class(type), as.character(type), "\n")
    # tengen lacks this type
    cat(class(dtype(pjrt_empty("i4", 1))), "\n")
  }), with_stand_in())
  expect_clean(child, c("FALSE ", "stand_in DataType bool ", "PJRTDataType DataType "))
})

test_that("loading tengen does not call an unloaded pjrt", {
  child <- run_child(quote({
    # R also sets hooks, for delayed S3 methods
    is_ours <- function(hook) environmentName(environment(hook)) == "pjrt"
    ours <- function(event) sum(vapply(getHook(packageEvent("tengen", event)), is_ours, NA))
    cat(ours("onLoad"), ours("onUnload"), "\n")
    unloadNamespace("pjrt")
    cat(ours("onLoad"), ours("onUnload"), "\n")
    loadNamespace("pjrt")
    cat(ours("onLoad"), ours("onUnload"), "\n")
  }))
  expect_clean(child, c("1 1 ", "0 0 ", "1 1 "))
})
