# Slow: saves and loads large files.

# Writes a file with this header and data.
write_file <- function(path, header, data = raw()) {
  text <- charToRaw(header)
  writeBin(c(writeBin(length(text), raw(), size = 4L), raw(4L), text, data), path)
  path
}

model_path <- function(env = parent.frame()) {
  file.path(withr::local_tempdir(.local_envir = env), "model.safetensors")
}

# Saves two matrices that are used in place when they are loaded. Returns the first.
two_matrices <- function(path) {
  x <- matrix(as.double(1:90000), 300)
  pjrt_save_safetensors(list(a = pjrt_buffer(x), b = pjrt_buffer(x + 1)), path)
  x
}

# Writes a float vector that no device can use in place, because its data start at an odd offset.
unaligned_file <- function(path, x) {
  header <- sprintf('{"x":{"dtype":"F32","shape":[%.0f],"data_offsets":[0,%.0f]}} ', length(x), 4 * length(x))
  write_file(path, paste0(header, strrep(" ", (1 - nchar(header)) %% 2)), bytes(x, 4L))
}

is_mapped <- function(path) {
  gc()
  any(grepl(basename(path), readLines("/proc/self/maps"), fixed = TRUE))
}

raw_of <- function(x) as_raw(x, row_major = TRUE)

test_that("tensors of every type are restored bit by bit", {
  path <- model_path()
  numbers <- matrix(c(1, 0, 0.5, 1.5, 2, 3), 2)
  dtypes <- c(
    "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn",
    "f8e8m0fnu", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1fn"
  )
  tensors <- lapply(stats::setNames(dtypes, dtypes), function(dtype) pjrt_buffer(numbers, dtype))
  tensors$pred <- pjrt_buffer(numbers > 1)
  tensors$c64 <- pjrt_buffer(matrix(complex(real = 1:6, imaginary = -1), 2), "c64")
  large <- lapply(tensors, function(x) {
    content <- rep(raw_of(x), 6000)
    pjrt_buffer(content, dtype = elt_type(x), shape = c(6000, length(x)), row_major = TRUE)
  })
  for (tensors in list(tensors, large)) {
    pjrt_save_safetensors(tensors, path)
    loaded <- pjrt_load_safetensors(path)
    expect_identical(names(loaded), names(tensors))
    for (name in names(tensors)) {
      expect_identical(raw_of(loaded[[name]]), raw_of(tensors[[name]]), label = name)
      expect_identical(shape(loaded[[name]]), shape(tensors[[name]]), label = name)
      expect_identical(as.character(elt_type(loaded[[name]])), name)
    }
  }
  expect_identical(as_array(loaded$f4e2m1fn)[1:2, ], rbind(as.vector(t(numbers)), as.vector(t(numbers))))
})

test_that("dtypes without a safetensors type are refused by name", {
  path <- model_path()
  for (dtype in c("i4", "ui2", "f8e4m3")) {
    expect_refused(
      pjrt_save_safetensors(list(a = pjrt_scalar(1), `b c` = pjrt_buffer(1:2, dtype)), path), "unsupported_dtype",
      "Tensor \"b c\""
    )
  }
  odd <- pjrt_buffer(1:3, "f4e2m1fn")
  expect_refused(
    pjrt_save_safetensors(list(odd = odd), path), "invalid_input",
    "Tensor \"odd\": the safetensors format needs an even"
  )
  expect_false(file.exists(path))
  write_file(path, '{"x":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}}', raw(3))
  expect_identical(safetensors_info(path)$dtype, "F6_E3M2")
  expect_refused(pjrt_load_safetensors(path), "unsupported_dtype", "Tensor \"x\" is of type F6_E3M2, which PJRT lacks")
  four <- '{"x":{"dtype":"I4","shape":[4],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}'
  write_file(path, four, as.raw(1:3))
  expect_identical(safetensors_info(path)$dtype, c("I4", "ui8"))
  expect_refused(pjrt_load_safetensors(path), "unsupported_dtype", "Tensor \"x\" is of type I4, which the safetensors")
  expect_identical(as_array(pjrt_load_safetensors(path, names = "y")$y), array(3L))
})

test_that("names, order, shapes and metadata are kept", {
  path <- model_path()
  tensors <- list(
    z = pjrt_buffer(1:3), "\u00e9\u4e16 \"\\\n" = pjrt_scalar(2.5), a = pjrt_empty("f32", c(0, 3)),
    m = pjrt_buffer(array(1:24, 2:4))
  )
  metadata <- c(z = "", "\u00fc" = "1\n2", a = "\u4e16")
  expect_identical(expect_invisible(pjrt_save_safetensors(tensors, path, metadata)), path)
  loaded <- pjrt_load_safetensors(path)
  expect_identical(names(loaded), names(tensors))
  expect_identical(attr(loaded, "metadata"), metadata)
  for (name in names(tensors)) expect_identical(as_array(loaded[[name]]), as_array(tensors[[name]]))
  info <- safetensors_info(path)
  expect_s3_class(info, "data.frame", exact = TRUE)
  expect_identical(info$name, names(tensors))
  expect_identical(info$dtype, c("i32", "f32", "f32", "i32"))
  expect_identical(info$shape, list(3L, integer(), c(0L, 3L), 2:4))
  expect_identical(info$bytes, c(12, 4, 0, 96))
  content <- readBin(path, "raw", file.size(path))
  expect_identical(content[info$offset[[1L]] + 1:12], bytes(1:3))
  expect_identical(names(info), c("name", "dtype", "shape", "bytes", "offset"))
  expect_identical(attr(info, "metadata"), metadata)
  expect_identical(attr(pjrt_load_safetensors(path, names = "z"), "metadata"), metadata)
  # a loaded list keeps its metadata when it is saved, unless the call gives other metadata
  again <- model_path()
  pjrt_save_safetensors(loaded, again)
  expect_identical(attr(safetensors_info(again), "metadata"), metadata)
  pjrt_save_safetensors(loaded, again, list(b = "1"))
  expect_identical(attr(safetensors_info(again), "metadata"), c(b = "1"))
  pjrt_save_safetensors(loaded, again, character())
  expect_null(attr(safetensors_info(again), "metadata"))
  expect_identical(names(attributes(pjrt_load_safetensors(again))), "names")
  pjrt_save_safetensors(list(), again)
  expect_length(pjrt_load_safetensors(again), 0L)
  expect_identical(nrow(safetensors_info(again)), 0L)
})

test_that("tensors can be selected by name, in any order", {
  path <- model_path()
  pjrt_save_safetensors(list(a = pjrt_scalar(1), b = pjrt_scalar(2), Abc = pjrt_scalar(3)), path)
  chosen <- pjrt_load_safetensors(path, names = c("Abc", "a"))
  expect_identical(lapply(chosen, as_array), list(Abc = 3, a = 1))
  expect_length(pjrt_load_safetensors(path, names = character()), 0L)
  error <- expect_refused(
    pjrt_load_safetensors(path, names = c("abd", "a")), "invalid_input", "There is no tensor \"abd\"."
  )
  expect_match(conditionMessage(error), "The file has 3 tensors: \"Abc\", ", fixed = TRUE)
  expect_identical(conditionCall(error)[[1L]], quote(pjrt_load_safetensors))
  for (names in list(c("a", "a"), c("a", NA), NA_character_)) {
    expect_refused(pjrt_load_safetensors(path, names = names), "invalid_input", "must be unique valid strings")
  }
  for (names in list(4, 0, NA_real_, -1)) {
    expect_refused(pjrt_load_safetensors(path, names = names), "invalid_input", "numbered from 1 to 3")
  }
  expect_refused(pjrt_load_safetensors(path, names = TRUE), "invalid_input", "must be selected by names or numbers")
})

test_that("tensors are loaded to the requested device", {
  path <- model_path()
  x <- two_matrices(path)
  loaded <- pjrt_load_safetensors(path, "cpu:1")
  expect_identical(device(loaded$b), devices("cpu")[[2L]])
  expect_identical(as_array(copy_buffer(loaded$b, "cpu:0")), x + 1)
  pjrt_save_safetensors(loaded, path)
  expect_identical(as_array(pjrt_load_safetensors(path)$a), x)
})

test_that("aligned tensors are used in place while they are needed", {
  skip_if_not(file.exists("/proc/self/maps"), "this system does not tell")
  path <- model_path()
  pjrt_save_safetensors(list(a = pjrt_buffer(1:1e6), small = pjrt_scalar(1), b = pjrt_buffer(1:64000)), path)
  expect_false(is_mapped(path))
  info <- safetensors_info(path)
  expect_identical(info$offset[c(1L, 3L)] %% 64, c(0, 0))
  expect_false(is_mapped(path))
  gc()
  before <- pjrt_memory_stats()$staging[["in_use"]]
  loaded <- pjrt_load_safetensors(path)
  expect_identical(pjrt_memory_stats()$staging[["in_use"]], before)
  expect_true(is_mapped(path))
  unlink(path)
  loaded$a <- NULL
  expect_true(is_mapped(path))
  expect_identical(as_array(loaded$b), array(1:64000))
  twice <- await(pjrt_execute(compile(add_program("64000xi32")), loaded$b, loaded$b))
  loaded$b <- NULL
  expect_false(is_mapped(path))
  expect_identical(as_array(loaded$small), 1)
  expect_identical(as_array(twice), array(2L * 1:64000))
})

test_that("unaligned tensors are read in chunks of any size", {
  path <- model_path()
  for (n in c(1, 512, 513, 100000, 262144 * 5 + 1)) {
    x <- (seq_len(n) - 1) %% 1000
    unaligned_file(path, x)
    expect_identical(safetensors_info(path)$offset %% 2, 1)
    loaded <- pjrt_load_safetensors(path)$x
    unlink(path)
    expect_identical(as_array(loaded), array(x))
  }
})

test_that("a file larger than free memory raises an error", {
  skip_if_not(file.exists("/proc/meminfo"), "this system does not tell")
  path <- model_path()
  # a sparse file of 8 TB
  n <- 2e12
  header <- sprintf('{"x":{"dtype":"F32","shape":[%.0f],"data_offsets":[0,%.0f]}}', n, 4 * n)
  header <- paste0(header, strrep(" ", 1 - nchar(header) %% 2))
  write_file(path, header)
  con <- file(path, "r+b")
  seek(con, 8 + nchar(header) + 4 * n - 1, rw = "write")
  writeBin(raw(1), con)
  close(con)
  expect_identical(safetensors_info(path)$shape[[1L]], n)
  expect_refused(pjrt_load_safetensors(path), "resource_exhausted", "The tensors need 8000000000000 bytes")
})

test_that("donating a tensor leaves its file unchanged", {
  path <- model_path()
  x <- two_matrices(path)
  sum <- unname(tools::md5sum(path))
  add <- compile(add_program("300x300xf32", donates))
  loaded <- pjrt_load_safetensors(path)
  out <- pjrt_execute(add, loaded$a, loaded$b)
  expect_refused(as_array(loaded$a), "deleted_buffer")
  again <- pjrt_execute(add, out, loaded$b)
  rm(loaded, out)
  gc()
  gc()
  unlink(path)
  expect_identical(as_array(again), 3 * x + 2)
  two_matrices(path)
  expect_identical(unname(tools::md5sum(path)), sum)
  # a second load of the file does not change either
  loaded <- pjrt_load_safetensors(path)
  kept <- pjrt_load_safetensors(path)
  await(pjrt_execute(add, loaded$a, loaded$b))
  expect_identical(as_array(kept$a), x)
})

test_that("saving replaces a file atomically, even one in use", {
  path <- model_path()
  x <- two_matrices(path)
  loaded <- pjrt_load_safetensors(path)
  pjrt_save_safetensors(list(a = loaded$b), path)
  expect_identical(as_array(loaded$a), x)
  expect_identical(as_array(pjrt_load_safetensors(path)$a), x + 1)
  pjrt_save_safetensors(loaded, path)
  expect_identical(as_array(pjrt_load_safetensors(path)$b), x + 1)
  expect_identical(list.files(dirname(path), all.files = TRUE, no.. = TRUE), "model.safetensors")
})

test_that("buffers that cannot be saved are named before anything is written", {
  path <- model_path()
  x <- two_matrices(path)
  add <- compile(add_program("300x300xf32", donates))
  given <- pjrt_buffer(x)
  pjrt_execute(add, given, pjrt_buffer(x))
  expect_refused(
    pjrt_save_safetensors(list(a = pjrt_buffer(x), gone = given), path), "deleted_buffer", "Tensor \"gone\""
  )
  expect_identical(as_array(pjrt_load_safetensors(path)$a), x)
  refused <- function(message, ...) expect_refused(pjrt_save_safetensors(...), "invalid_input", message)
  b <- pjrt_scalar(1)
  refused("named list of buffers", b, path)
  refused("every tensor needs a name", list(b), path)
  refused("every tensor needs a name", list(a = b, b), path)
  refused("every tensor needs a name", stats::setNames(list(b), NA), path)
  refused("two tensors \"a\"", list(a = b, a = b), path)
  refused("\"__metadata__\"", list(`__metadata__` = b), path)
  error <- refused("Tensor \"x\" must be a `PJRTBuffer`", list(a = b, x = 1), path)
  expect_match(conditionMessage(error), "pjrt_buffer() converts R data", fixed = TRUE)
  for (encoding in c("UTF-8", "unknown")) {
    no_text <- "\xff"
    Encoding(no_text) <- encoding
    refused("is not valid UTF-8", stats::setNames(list(b), no_text), path)
    refused("is not valid UTF-8", list(a = b), path, c(a = no_text))
    refused("is not valid UTF-8", list(a = b), no_text)
  }
  for (metadata in list("a", c(a = NA), 1, list(a = 1), c(a = "1", a = "2"), stats::setNames("a", ""), TRUE)) {
    refused("`metadata` must be", list(a = b), path, metadata)
  }
  refused("`max_shard_size` must be", list(a = b), path, max_shard_size = 0)
  refused("`max_shard_size` must be", list(a = b), path, max_shard_size = "many")
  refused("`path`", list(a = b), 1)
  expect_refused(pjrt_save_safetensors(list(a = b), tempdir()), "io", "it is not a file")
  expect_refused(pjrt_save_safetensors(list(a = b), "no/such/folder/x"), "io", "no/such/folder/x")
  expect_refused(pjrt_save_safetensors(list(a = b), "/dev/null"), "io", "it is not a file")
  expect_identical(as_array(pjrt_load_safetensors(path)$a), x)
})

test_that("a file that is not a safetensors file is refused", {
  path <- model_path()
  refused <- function(message) {
    for (read in list(pjrt_load_safetensors, safetensors_info, pjrt_open_safetensors)) {
      error <- expect_refused(read(path), "safetensors_invalid", message)
      expect_match(conditionMessage(error), path, fixed = TRUE)
    }
  }
  file.create(path)
  refused("0 bytes")
  writeBin(as.raw(rep(255, 100)), path)
  refused("its header claims 18446744073709551615 bytes")
  write_file(path, "{")
  refused("its header is not valid JSON")
  write_file(path, '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', raw(4))
  refused("it is truncated")
  expect_refused(pjrt_load_safetensors("no/such/file"), "io", "no/such/file")
  expect_refused(pjrt_load_safetensors(dirname(path), names = "a"), "safetensors_invalid")
  unlink(path)
  expect_refused(pjrt_load_safetensors(dirname(path)), "io", "It is empty.")
  expect_refused(pjrt_load_safetensors(1), "invalid_input", "`path`")
  if (.Platform$OS.type == "unix") {
    system2("mkfifo", path)
    expect_refused(pjrt_load_safetensors(path), "io", "it is not a file")
  }
})

test_that("a sharded model is saved as several files and loaded as one", {
  path <- model_path()
  folder <- dirname(path)
  values <- lapply(1:5, function(i) matrix(as.double(i + 1:2500), 50))
  tensors <- stats::setNames(lapply(values, pjrt_buffer), c("e", "d", "c", "b", "a"))
  index <- pjrt_save_safetensors(tensors, path, c(note = "x"), max_shard_size = "25kB")
  expect_identical(index, paste0(path, ".index.json"))
  shards <- sprintf("model-%05d-of-00003.safetensors", 1:3)
  expect_setequal(list.files(folder, all.files = TRUE, no.. = TRUE), c(shards, basename(index)))
  expect_match(paste(readLines(index), collapse = ""), '"metadata": *\\{ *"total_size": *50000, *"note": *"x" *\\}')
  for (place in c(index, path, folder)) {
    loaded <- pjrt_load_safetensors(place)
    expect_identical(lapply(loaded, as_array), stats::setNames(values, names(tensors)), ignore_attr = "metadata")
    expect_identical(attr(loaded, "metadata"), c(note = "x"))
  }
  info <- safetensors_info(folder)
  expect_identical(info$name, names(tensors))
  expect_identical(info$file, shards[c(1L, 1L, 2L, 2L, 3L)])
  expect_identical(attr(safetensors_info(file.path(folder, shards[[2L]])), "metadata"), c(note = "x"))
  # files that are not needed may be missing
  unlink(file.path(folder, shards[[2L]]))
  expect_identical(
    lapply(pjrt_load_safetensors(path, names = c("a", "d")), as_array), list(a = values[[5L]], d = values[[2L]])
  )
  expect_refused(pjrt_load_safetensors(path), "io", shards[[2L]])
  # only the files of an earlier save are removed
  other <- file.path(folder, c("other-00001-of-00003.safetensors", "model-00009-of-00009.safetensors"))
  file.create(other)
  expect_identical(pjrt_save_safetensors(tensors, index, max_shard_size = 1), index)
  expect_setequal(
    list.files(folder), c(basename(other), basename(index), sprintf("model-%05d-of-00005.safetensors", 1:5))
  )
  expect_identical(pjrt_save_safetensors(tensors, path, max_shard_size = 5e4), path)
  expect_setequal(list.files(folder), c(basename(other), "model.safetensors"))
  pjrt_save_safetensors(tensors["a"], path, max_shard_size = 1)
  expect_setequal(list.files(folder), c(basename(other), "model.safetensors"))
  expect_identical(pjrt_save_safetensors(tensors, path, max_shard_size = "25 KiB"), index)
  expect_setequal(list.files(folder), c(basename(other), shards, basename(index)))
  expect_refused(
    pjrt_save_safetensors(tensors, path, c(total_size = "1"), max_shard_size = 1), "invalid_input", "total_size"
  )
  expect_setequal(list.files(folder, all.files = TRUE, no.. = TRUE), c(basename(other), shards, basename(index)))
})

test_that("a file handle loads tensors one by one", {
  path <- model_path()
  x <- two_matrices(path)
  file <- pjrt_open_safetensors(path)
  expect_identical(class(file), "PJRTSafetensors")
  expect_identical(names(file), c("a", "b"))
  expect_length(file, 2L)
  expect_output(print(file), sprintf("<PJRTSafetensors '%s': 2 tensors, for CpuDevice(id=0)>", path), fixed = TRUE)
  expect_identical(as_array(file[["b"]]), x + 1)
  expect_identical(as_array(file$a), x)
  expect_identical(as_array(file[[2]]), x + 1)
  expect_identical(lapply(file[c("b", "a")], as_array), list(b = x + 1, a = x))
  expect_named(file[2], "b")
  expect_named(file[], c("a", "b"))
  expect_identical(lapply(file, as_array), list(a = x, b = x + 1))
  expect_refused(file[["c"]], "invalid_input", "There is no tensor \"c\".")
  expect_refused(file$c, "invalid_input", "There is no tensor \"c\".")
  expect_refused(file[[3]], "invalid_input", "numbered from 1 to 2")
  expect_refused(file[[c("a", "b")]], "invalid_input", "`x[[i]]` selects one tensor, not 2.")
  expect_refused(file$a <- 1, "invalid_input", "Safetensors files are read-only.")
  expect_refused(file[["a"]] <- 1, "invalid_input", "Safetensors files are read-only.")
  expect_refused(names(file) <- "a", "invalid_input", "Safetensors files are read-only.")
  kept <- file$b
  expect_null(expect_invisible(close(file)))
  expect_null(close(file))
  for (use in list(quote(names(file)), quote(length(file)), quote(file$a), quote(file[["a"]]), quote(file["a"]))) {
    expect_refused(eval(use), "invalid_input", "The safetensors file is closed.")
  }
  expect_output(print(file), "<PJRTSafetensors closed>", fixed = TRUE)
  expect_identical(as_array(kept), x + 1)
  second <- pjrt_open_safetensors(path, "cpu:1")
  expect_identical(device(second$a), devices("cpu")[[2L]])
  stale <- unserialize(serialize(second, NULL))
  expect_refused(stale$a, "invalid_pointer", "null pointer")
  expect_output(print(stale), "of another session")
})

test_that("a handle for several files opens only those it needs", {
  path <- model_path()
  tensors <- list(a = pjrt_buffer(1:3), b = pjrt_buffer(4:6))
  index <- pjrt_save_safetensors(tensors, path, max_shard_size = 1)
  file <- pjrt_open_safetensors(index)
  unlink(sub("[.]safetensors$", "-00002-of-00002.safetensors", path))
  expect_output(print(file), "2 tensors in 2 files", fixed = TRUE)
  expect_identical(as_array(file$a), array(1:3))
  expect_refused(file$b, "io", "model-00002-of-00002.safetensors")
  # open files stay open
  unlink(sub("[.]safetensors$", "-00001-of-00002.safetensors", path))
  expect_identical(as_array(file$a), array(1:3))
  close(file)
})

# Runs `change` on the file behind `loaded`, and then `code`, in a child.
after_change <- function(change, code) {
  run_child(bquote({
    path <- tempfile(fileext = ".safetensors")
    x <- matrix(as.double(1:90000), 300)
    pjrt_save_safetensors(list(a = pjrt_buffer(x), b = pjrt_buffer(x + 1)), path)
    loaded <- pjrt_load_safetensors(path)
    add <- compile(add_program("300x300xf32"))
    tell <- function(expr) tryCatch({
      expr
      "no error"
    }, error = function(e) class(e)[[1L]])
    .(change)
    .(code)
    rm(list = ls())
    invisible(gc())
    cat("alive\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "2"))
}

cut_short <- quote({
  con <- file(path, "r+b")
  seek(con, 5000, rw = "write")
  truncate(con)
  close(con)
})

write_over <- quote({
  con <- file(path, "r+b")
  seek(con, 100000, rw = "write")
  writeBin(0, con)
  close(con)
  Sys.setFileTime(path, Sys.time() + 10)
})

# The product of a matrix with itself, slow enough that the file changes before it ends.
product_program <- "func.func @main(%x: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %0 : tensor<2048x2048xf32>
}"

test_that("buffers of a changed file raise an error at every use", {
  use <- quote({
    readers <- readers[setdiff(names(readers), c("is_ready", "memory_space", "pjrt_memory"))]
    readers$save <- quote(pjrt_save_safetensors(list(x = x), tempfile()))
    readers$value <- quote(value(promise))
    x <- loaded$a
    y <- loaded$b
    told <- vapply(readers, function(reader) tell(eval(reader)), "")
    print(told[told != "pjrt_error_file_changed"])
    cat(conditionMessage(tryCatch(as_array(x), error = identity)), "\n")
  })
  for (change in list(cut_short, write_over)) {
    child <- after_change(bquote({
      promise <- as_array_async(loaded$a)
      .(change)
    }), use)
    expect_clean(child)
    expect_identical(child$out[[1L]], "named character(0)")
    expect_match(child$out[[2L]], "was changed after it was opened", fixed = TRUE)
    expect_identical(utils::tail(child$out, 1L), "alive")
  }
})

test_that("results finished before a file changed stay valid and later ones raise errors", {
  child <- run_child(bquote({
    path <- tempfile(fileext = ".safetensors")
    ones <- pjrt_buffer(1, shape = c(2048, 2048))
    pjrt_save_safetensors(list(a = ones), path)
    loaded <- pjrt_load_safetensors(path)
    multiply <- compile(.(product_program))
    average <- function(x) tryCatch(mean(as_array(x)), error = function(e) class(e)[[1L]])
    waited <- await(pjrt_execute(multiply, loaded$a))
    copy <- await(copy_buffer(loaded$a, "cpu:1"))
    # complete, but never awaited
    complete <- pjrt_execute(multiply, loaded$a)
    further <- pjrt_execute(multiply, complete)
    while (!is_ready(further)) Sys.sleep(0.01)
    open <- pjrt_execute(multiply, loaded$a)
    later <- pjrt_execute(multiply, open)
    .(cut_short)
    cat(average(waited), average(copy), average(complete), average(further), "\n")
    cat(average(open), average(later), "\n")
    cat(tryCatch(class(await(pjrt_execute(multiply, open))), error = function(e) class(e)[[1L]]), "\n")
    cat(average(pjrt_execute(multiply, waited)), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "2"))
  changed <- "pjrt_error_file_changed "
  expect_clean(child, c("2048 1 2048 8589934592 ", strrep(changed, 2), changed, "8589934592 "))
})

test_that("truncating a file while the device reads it does not end the session", {
  child <- run_child(bquote({
    n <- 256
    # such products of oneDNN have no stack of their own for signals
    multiply <- compile(.(gsub("2048", "256", product_program)))
    ones <- pjrt_buffer(1, shape = c(n, n))
    path <- tempfile(fileext = ".safetensors")
    wrong <- 0
    for (i in 1:40) {
      pjrt_save_safetensors(list(a = ones), path)
      loaded <- pjrt_load_safetensors(path)
      out <- pjrt_execute(multiply, loaded$a)
      Sys.sleep((i %% 4) / 100)
      con <- file(path, "r+b")
      seek(con, 5000, rw = "write")
      truncate(con)
      close(con)
      values <- tryCatch(as_array(out), pjrt_error_file_changed = function(e) NULL)
      wrong <- wrong + !(is.null(values) || all(values == n))
    }
    cat(wrong, "\n")
  }))
  expect_clean(child, "0 ")
})

test_that("bus errors outside mapped files reach the previous handler", {
  skip_on_os("windows")
  code <- quote({
    if (nzchar(Sys.getenv("LOAD"))) {
      path <- tempfile(fileext = ".safetensors")
      pjrt_save_safetensors(list(a = pjrt_buffer(1:1000)), path)
      loaded <- pjrt_load_safetensors(path)
    }
    cat("before\n")
    tools::pskill(Sys.getpid(), 7L)
    Sys.sleep(5)
    cat("after\n")
  })
  with <- run_child(code, c(LOAD = "yes"))
  without <- run_child(code)
  expect_identical(with$out, "before")
  expect_identical(with$status, without$status)
  expect_identical(length(with$err), length(without$err))
})

test_that("a full disk leaves the existing file unchanged", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  path <- file.path(folder, "model.safetensors")
  x <- two_matrices(path)
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(deparse(bquote({
    library(pjrt)
    tensors <- list(a = pjrt_buffer(1:1e6), b = pjrt_buffer(1:1e6))
    for (most in list(NULL, 100, 5e6)) {
      error <- tryCatch(pjrt_save_safetensors(tensors, .(path), max_shard_size = most), error = identity)
      cat(class(error)[[1L]], "\n")
    }
  })), script)
  # files are limited to 1 MB
  limited <- sprintf("ulimit -f 2000; exec '%s' --vanilla '%s'", rscript(), script)
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = ":"))
  out <- suppressWarnings(system2("sh", c("-c", shQuote(limited)), stdout = TRUE, stderr = TRUE))
  expect_identical(out, rep("pjrt_error_io ", 3L))
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "model.safetensors")
  expect_identical(as_array(pjrt_load_safetensors(path)$b), x + 1)
})

test_that("interrupted saving and loading leaves no files behind", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  child <- start_child(bquote({
    setwd(.(folder))
    pjrt_save_safetensors(list(old = pjrt_scalar(1)), "model.safetensors")
    zeros <- tempfile()
    writeBin(raw(4e7), zeros)
    many <- lapply(1:200, function(i) pjrt_map_file(zeros, "f32", 1e7))
    names(many) <- 1:200
    # a sparse file of 3 GB
    n <- 7.5e8
    header <- charToRaw(sprintf('{"x":{"dtype":"F32","shape":[%.0f],"data_offsets":[0,%.0f]}}', n, 4 * n))
    header <- c(header, charToRaw(strrep(" ", 1 - length(header) %% 2)))
    con <- file("holes.safetensors", "wb")
    writeBin(c(writeBin(length(header), raw(), size = 4L), raw(4L), header), con)
    seek(con, 8 + length(header) + 4 * n - 1, rw = "write")
    writeBin(raw(1), con)
    close(con)
    works <- list(
      save = function() pjrt_save_safetensors(many, "model.safetensors"),
      load = function() pjrt_load_safetensors("holes.safetensors")
    )
    for (name in names(works)) {
      end <- tryCatch(
        {
          cat("start", name, "\n")
          works[[name]]()
          "came to an end"
        },
        interrupt = function(e) "interrupted"
      )
      cat(name, end, "\n")
    }
    cat(pjrt_memory_stats()$staging[["in_use"]] < 1e8, "\n")
  }))
  next_line <- line_reader(child)
  for (name in c("save", "load")) {
    expect_identical(next_line(), paste("start", name, ""))
    Sys.sleep(0.15)
    child$interrupt()
    expect_identical(next_line(), paste(name, "interrupted "))
  }
  expect_identical(next_line(), "TRUE ")
  child$wait(60000)
  expect_identical(child$get_exit_status(), 0L)
  expect_setequal(list.files(folder, all.files = TRUE, no.. = TRUE), c("holes.safetensors", "model.safetensors"))
  expect_named(pjrt_load_safetensors(file.path(folder, "model.safetensors")), "old")
})

test_that("what is saved goes where a link leads, and keeps the permissions of the file that was there", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  x <- pjrt_buffer(c(1, 2))
  square <- compile(unary_program("2xf32", "multiply"))
  save <- list(
    safetensors = function(path) pjrt_save_safetensors(list(x = x), path),
    pjrtx = function(path) pjrt_save_executable(square, path), json = function(path) pjrt_trace(x + 1, path)
  )
  for (ending in names(save)) {
    file <- file.path(folder, paste0("private.", ending))
    link <- file.path(folder, paste0("link.", ending))
    file.create(file)
    Sys.chmod(file, "600")
    file.symlink(file, link)
    save[[ending]](link)
    expect_identical(Sys.readlink(link), file)
    expect_gt(file.size(file), 0)
    expect_identical(format(file.mode(file)), "600")
    # also if no file is there yet
    dir.create(file.path(folder, ending))
    names <- sprintf("%s.%s", c("first", "second", "round"), ending)
    first <- file.path(folder, ending, names[[1L]])
    file.symlink("../new", file.path(folder, ending, names[[2L]]))
    file.symlink(names[[2L]], first)
    save[[ending]](first)
    expect_identical(Sys.readlink(first), names[[2L]])
    expect_gt(file.size(file.path(folder, "new")), 0)
    unlink(file.path(folder, "new"))
    # nor ever will be
    round <- file.path(folder, ending, names[[3L]])
    file.symlink(names[[3L]], round)
    expect_error(save[[ending]](round), class = "pjrt_error_io")
    expect_identical(Sys.readlink(round), names[[3L]])
  }
})

test_that("a folder may have other JSON files, and a file must not have such a name", {
  folder <- withr::local_tempdir()
  x <- pjrt_buffer(1:3)
  pjrt_save_safetensors(list(x = x), file.path(folder, "adapter_model.safetensors"))
  for (other in c("adapter_config.json", "config.json", "pytorch_model.bin.index.json")) {
    writeLines("{}", file.path(folder, other))
  }
  dir.create(file.path(folder, "cache.safetensors"))
  expect_identical(as_array(pjrt_load_safetensors(folder)$x), array(1:3))
  # the index of a variant
  part <- "model.fp16-00001-of-00001.safetensors"
  file.rename(file.path(folder, "adapter_model.safetensors"), file.path(folder, part))
  expect_identical(as_array(pjrt_load_safetensors(folder)$x), array(1:3))
  index <- sprintf('{"weight_map":{"x":"%s"}}', part)
  writeLines(index, file.path(folder, "model.safetensors.index.fp16.json"))
  expect_identical(as_array(pjrt_load_safetensors(folder)$x), array(1:3))
  unlink(file.path(folder, "model*"))
  expect_refused(pjrt_load_safetensors(folder), "io", "has no safetensors file")
  unlink(folder, recursive = TRUE)
  dir.create(folder)
  for (name in c("weights.json", "weights.json.index.json")) {
    expect_refused(
      pjrt_save_safetensors(list(x = x), file.path(folder, name)), "invalid_input", "a JSON file is loaded as an index"
    )
  }
  expect_identical(list.files(folder), character())
})

test_that("a file's name may be as long as the file system allows", {
  skip_on_os("windows")
  withr::local_dir(withr::local_tempdir())
  name <- strrep("x", 255)
  expect_identical(pjrt_save_safetensors(list(x = pjrt_buffer(1:3)), name), name)
  expect_identical(as_array(pjrt_load_safetensors(name)$x), array(1:3))
  expect_identical(list.files(all.files = TRUE, no.. = TRUE), name)
})
