# fixtures/npy.py writes the files that tests with Python read. Damaged files of every kind:
# src/rust/core/tests/numpy.rs.

npy_path <- function(env = parent.frame()) {
  file.path(withr::local_tempdir(.local_envir = env), "array.npy")
}

raw_of <- function(x) as_raw(x, row_major = TRUE)

is_mapped <- function(path) {
  gc()
  any(grepl(basename(path), readLines("/proc/self/maps"), fixed = TRUE))
}

# The folder that Python wrote, and a table of its arrays.
python_arrays <- function() {
  if (is.null(written$folder)) {
    folder <- withr::local_tempdir(.local_envir = teardown_env())
    fields <- strsplit(run_python(fixture("npy.py"), folder), " ", fixed = TRUE)
    written$arrays <- as.data.frame(do.call(rbind, fields))
    names(written$arrays) <- c("name", "dtype", "shape")
    written$folder <- folder
  }
  written
}

written <- new.env()

expect_python <- function(buffer, array) {
  bin <- file.path(written$folder, paste0(array$name, ".bin"))
  expect_identical(raw_of(buffer), readBin(bin, "raw", file.size(bin)), info = array$name)
  expect_identical(elt_type(buffer), elt_type(pjrt_empty(sub("bool", "pred", array$dtype), 0L)), info = array$name)
  expect_identical(sprintf("(%s)", paste(shape(buffer), collapse = ",")), array$shape, info = array$name)
}

test_that("arrays of every type, shape and order equal Python's", {
  python <- python_arrays()
  names <- python$arrays$name
  arrays <- python$arrays[grepl("_|version", names) & !grepl("float8", names), ]
  expect_gt(nrow(arrays), 200L)
  for (i in seq_len(nrow(arrays))) {
    expect_python(pjrt_load_npy(file.path(python$folder, paste0(arrays$name[[i]], ".npy"))), arrays[i, ])
  }
})

test_that("types that NumPy lacks are given by `dtype`", {
  python <- python_arrays()
  path <- function(name) file.path(python$folder, paste0(name, ".npy"))
  for (name in c("bfloat16", "float8_e4m3fn", "int4")) {
    buffer <- pjrt_load_npy(path(name), dtype = name)
    expect_identical(as_array(buffer), matrix(if (name == "int4") 0:5 else as.double(0:5), 2L, byrow = TRUE))
    expect_python(buffer, python$arrays[python$arrays$name == name, ])
  }
  error <- expect_refused(
    pjrt_load_npy(path("bfloat16")), "unsupported_dtype", "does not contain the type of its elements"
  )
  expect_match(conditionMessage(error), "pass `dtype = \"bf16\"`", fixed = TRUE)
  expect_refused(pjrt_load_npy(path("bfloat16"), dtype = "f32"), "invalid_input", "which are not of type f32")
  expect_refused(pjrt_load_npy(path("version1"), dtype = "bf16"), "invalid_input", "says that its elements are f32")
  expect_identical(shape(pjrt_load_npy(path("version1"), dtype = "float32")), 2:3)
})

test_that("every array of an archive is checked by its checksum", {
  python <- python_arrays()
  for (file in c("stored.npz", "deflated.npz")) {
    bytes <- readBin(file.path(python$folder, file), "raw", 1e6)
    # the last byte of the first array's data: it is followed by the next member
    member <- grepRaw("PK\003\004", bytes, all = TRUE)[[2L]]
    bytes[[member - 1L]] <- xor(bytes[[member - 1L]], as.raw(1))
    damaged <- file.path(withr::local_tempdir(), file)
    writeBin(bytes, damaged)
    expect_refused(pjrt_load_npy(damaged, names = "w"), "npy_invalid", "is not a valid file of NumPy: ")
    expect_named(pjrt_load_npy(damaged, names = "scalar"), "scalar")
  }
})

test_that("members of an archive that are not arrays are named", {
  skip_if(!nzchar(Sys.which("zip")))
  folder <- withr::local_tempdir()
  writeBin(npy_bytes("|u1", 2, as.raw(1:2)), file.path(folder, "a.npy"))
  writeLines("text", file.path(folder, "notes.txt"))
  writeLines("text", file.path(folder, "b"))
  path <- file.path(folder, "both.npz")
  withr::with_dir(folder, utils::zip(path, c("a.npy", "notes.txt", "b"), flags = "-q0"))
  expect_warning(
    loaded <- pjrt_load_npy(path), "also has 2 members that are not an array of NumPy: `notes.txt`, `b`",
    class = "pjrt_warning"
  )
  expect_identical(as_array(loaded$a), array(1:2))
  expect_no_warning(pjrt_load_npy(path, names = "a"))
})

test_that("booleans are the bytes 0 and 1, wherever they come from", {
  bytes <- as.raw(c(0, 1, 2, 1))
  refused <- function(code) {
    error <- expect_refused(code, "invalid_input", "is the byte 2, but a boolean is the byte 0 or 1")
    expect_match(conditionMessage(error), "Element 3", fixed = TRUE)
  }
  refused(pjrt_buffer(bytes, dtype = "pred", shape = 4L, row_major = TRUE))
  refused(pjrt_buffer(bytes, dtype = "pred", shape = c(2L, 2L), row_major = TRUE))
  refused(pjrt_buffer(c(bytes, raw(1e6)), dtype = "pred", shape = 1000004L, row_major = TRUE))
  path <- npy_path()
  writeBin(npy_bytes("|b1", 4, bytes), path)
  refused(pjrt_load_npy(path))
  # large enough to be used in place
  writeBin(npy_bytes("|b1", 100000L, c(bytes, raw(1e5 - 4))), path)
  refused(pjrt_load_npy(path))
  refused(pjrt_map_file(path))
  header <- '{"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}}'
  writeBin(c(writeBin(nchar(header), raw(), size = 4L), raw(4L), charToRaw(header), bytes), path)
  refused(pjrt_load_safetensors(path))
  expect_identical(
    as_array(pjrt_buffer(as.raw(c(0, 1)), dtype = "pred", shape = 2L, row_major = TRUE)), array(c(FALSE, TRUE))
  )
})

test_that("archives are read, compressed or not", {
  python <- python_arrays()
  members <- python$arrays[startsWith(python$arrays$name, "member"), ]
  names <- c("w", "fortran", "scalar", "\u00e9 /x", "empty")
  for (file in c("stored.npz", "deflated.npz")) {
    path <- file.path(python$folder, file)
    loaded <- pjrt_load_npy(path)
    expect_identical(names(loaded), names)
    for (i in seq_along(names)) expect_python(loaded[[i]], members[i, ])
    some <- pjrt_load_npy(path, names = c("scalar", "\u00e9 /x"))
    expect_identical(lapply(some, as_array), lapply(loaded[c(3L, 4L)], as_array))
    expect_length(pjrt_load_npy(path, names = character()), 0L)
    error <- expect_refused(pjrt_load_npy(path, names = "x"), "invalid_input", "The file has no array \"x\".")
    expect_match(conditionMessage(error), "It has 5 arrays: \"w\", \"fortran\"", fixed = TRUE)
  }
  expect_identical(pjrt_load_npy(file.path(python$folder, "none.npz")), structure(list(), names = character()))
  path <- file.path(python$folder, "i4_5_c.npy")
  expect_refused(pjrt_load_npy(path, names = "a"), "invalid_input", "has one array, without a name")
})

test_that("what is not an array of numbers is refused with the reason", {
  python <- python_arrays()
  reasons <- c(
    object = "contains Python objects, a pickle, which only Python can read",
    text = "has text (\"<U2\"), which PJRT lacks",
    date = "has dates or times", fields = "has elements with several fields", long = "has numbers (\"<f16\")"
  )
  for (name in names(reasons)) {
    path <- file.path(python$folder, paste0(name, ".npy"))
    expect_refused(pjrt_load_npy(path), "unsupported_dtype", reasons[[name]])
  }
})

test_that("a large array is used in place, and its file is not modified", {
  skip_if_not(file.exists("/proc/self/maps"), "this system does not tell")
  path <- npy_path()
  x <- matrix(as.double(1:90000), 300)
  write_npy(x, path)
  before <- tools::md5sum(path)
  gc()
  staged <- pjrt_memory_stats()$staging[["in_use"]]
  loaded <- pjrt_load_npy(path)
  expect_identical(pjrt_memory_stats()$staging[["in_use"]], staged)
  expect_true(is_mapped(path))
  expect_identical(as_array(loaded), x)
  donate <- compile("func.func @main(%x: tensor<300x300xf32> {tf.aliasing_output = 0 : i32}) -> tensor<300x300xf32> {
    %0 = stablehlo.add %x, %x : tensor<300x300xf32>
    return %0 : tensor<300x300xf32>
  }")
  expect_identical(as_array(pjrt_execute(donate, loaded)), 2 * x)
  expect_identical(tools::md5sum(path), before)
  rm(loaded)
  expect_false(is_mapped(path))
  # data at another offset, and arrays in another order, are copied
  content <- readBin(path, "raw", file.size(path))
  writeBin(c(content[1:8], as.raw(c(0x77, 0)), content[11:128], charToRaw("\n"), utils::tail(content, -128)), path)
  loaded <- pjrt_load_npy(path)
  expect_false(is_mapped(path))
  expect_identical(as_array(loaded), x)
})

test_that("a file that changes while it is in use raises an error", {
  path <- npy_path()
  write_npy(matrix(1, 300, 300), path)
  loaded <- pjrt_load_npy(path)
  expect_identical(sum(as_array(loaded)), 90000)
  # replaced by another file, the buffer keeps the old content
  other <- npy_path()
  write_npy(matrix(2, 300, 300), other)
  file.rename(other, path)
  expect_identical(sum(as_array(loaded)), 90000)
  loaded <- pjrt_load_npy(path)
  con <- file(path, "r+b")
  seek(con, 5000, rw = "write")
  truncate(con)
  close(con)
  expect_refused(as_array(loaded), "file_changed", "was changed after it was opened")
  expect_refused(pjrt_load_npy(path), "npy_invalid", "it is truncated")
})

test_that("other files and damaged ones are refused", {
  path <- npy_path()
  sound <- npy_bytes("<i2", c(2, 3), writeBin(1:6, raw(), size = 2L))
  writeBin(sound, path)
  expect_identical(as_array(pjrt_load_npy(path)), matrix(1:6, 2, byrow = TRUE))
  writeBin(npy_bytes("<i2", c(2, 3), writeBin(1:6, raw(), size = 2L), fortran = TRUE), path)
  expect_identical(as_array(pjrt_load_npy(path)), matrix(1:6, 2))
  for (end in c(0L, 5L, 9L, 60L, 129L, 139L)) {
    writeBin(sound[seq_len(end)], path)
    expect_refused(pjrt_load_npy(path), "npy_invalid", "is not a valid file of NumPy")
  }
  writeBin(c(sound, as.raw(1)), path)
  expect_refused(pjrt_load_npy(path), "npy_invalid", "it has 1 byte after its array")
  # ml_dtypes names only this type of its own
  writeBin(npy_bytes("<f1", 3L, as.raw(c(0x3c, 0x40, 0xbc))), path)
  expect_identical(as_array(pjrt_load_npy(path)), array(c(1, 2, -1)))
  expect_identical(format(elt_type(pjrt_load_npy(path))), "f8e5m2")
  writeBin(charToRaw("PK\003\004 and no archive"), path)
  expect_refused(pjrt_load_npy(path), "npy_invalid", "its directory is damaged")
  expect_refused(pjrt_load_npy(system.file("models", "iris.safetensors", package = "pjrt")), "npy_invalid")
  expect_refused(pjrt_load_npy(file.path(tempdir(), "none.npy")), "io", "none.npy")
  expect_refused(pjrt_load_npy(tempdir()), "io")
  for (bad in list(NA_character_, c("a", "a"), 1, list("a"), factor("a"))) {
    expect_refused(pjrt_load_npy(path, names = bad), "invalid_input", "`names` must be NULL, or unique names")
  }
  expect_refused(pjrt_load_npy(path, dtype = "f99"), "unsupported_dtype")
})

test_that("arrays are loaded to the requested device", {
  path <- npy_path()
  write_npy(matrix(1:90000, 300), path)
  child <- run_child(bquote({
    loaded <- pjrt_load_npy(.(path), device = "cpu:1")
    cat(format(device(loaded)), sum(as_array(loaded)), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "2"))
  expect_clean(child)
  expect_match(child$out, "1.* 4050045000")
})
