# A plugin that threw a C++ exception is never called again: its objects become unusable, and R continues. Everything
# runs in child processes with a proxy of the CPU plugin, which throws on demand and then blocks in every call and exit
# handler.
# Slow: starts many sessions.

test_that("after a C++ exception every use of the plugin raises an error at once and the rest works", {
  child <- run_throwing(quote({
    x <- pjrt_buffer(c(1, 2, 3))
    f <- pjrt_compile(worded_program("fine"))
    y <- pjrt_execute(f, x)
    kept <- as_array(y)
    large <- as_array(pjrt_buffer(as.double(1:1e6), "f64"))
    promise <- as_array_async(y)
    file <- tempfile(fileext = ".safetensors")
    error <- tryCatch(pjrt_compile(worded_program("throws_here")), error = identity)
    cat(class(error)[[1L]], error$call_name, "\n")
    cat(conditionMessage(error), "\n")
    uses <- list(
      array = as_array, raw = as_raw, start = as_array_async, print = print, wait = await, ready = is_ready,
      delete = pjrt_delete,
      text = format_buffer, part = function(y) y[1], copy = function(y) copy_buffer(y, "cpu:1"), memory = memory_space,
      save = function(y) pjrt_save_safetensors(list(y = y), file), execute = function(y) pjrt_execute(f, y),
      value = function(y) value(promise), compile = function(y) pjrt_compile(worded_program("fine")),
      later = function(y) value(pjrt_compile_async(worded_program("fine"))), buffer = function(y) pjrt_buffer(1:3),
      scalar = function(y) pjrt_scalar(1), empty = function(y) pjrt_empty("f32", 3),
      bytes = function(y) pjrt_serialize(f),
      cost = function(y) executable_cost(f), hlo = function(y) inspect_hlo(f)$after_optimizations,
      topology = function(y) pjrt_topology(pjrt_client("cpu")),
      client = function(y) pjrt:::new_client(pjrt_plugin("cpu"))
    )
    took <- system.time(found <- vapply(uses, function(use) class_of(use(y)), ""))[["elapsed"]]
    cat(unique(found), names(found)[found != found[[1L]]], "\n")
    told <- list(
      shape(y), elt_type(y), format(y), is_deleted(y), device(y), devices(), executable_info(f)$inputs,
      device_info("cpu:0"), pjrt_memory_stats()
    )
    invisible(capture.output(lapply(told, print), print(f), print(pjrt_client("cpu")), print(promise)))
    cat(grep("it threw a C++ exception", capture.output(pjrt_sitrep()), fixed = TRUE, value = TRUE) != "", "\n")
    rm(x, f, y, promise, uses, told)
    invisible(c(gc(), gc()))
    close(pjrt_client("cpu"))
    cat(kept, sum(large), class_of(pjrt_client("cpu")), "\n")
  }))
  expect_clean(child)
  expect_identical(child$out[[1L]], "pjrt_error_internal PJRT_Client_Compile ")
  expect_match(child$out[[2L]], "\"thrown on demand\"", fixed = TRUE)
  expect_match(child$out[[5L]], "Save your work and restart R", fixed = TRUE)
  expect_identical(child$out[-(1:5)], c(
    "pjrt_error_plugin_poisoned  ", "TRUE ", "2 4 6 500000500000 pjrt_error_plugin_poisoned "
  ))
})

test_that("a plugin that throws when its client is created lacks its hardware", {
  folder <- withr::local_tempdir()
  left <- file.path(folder, "left-behind")
  child <- run_throwing(quote({
    error <- tryCatch(pjrt_client("cpu"), error = identity)
    cat(class(error)[[1L]], error$call_name, "\n")
    cat(conditionMessage(error), "\n")
    cat(class_of(pjrt_buffer(1)), any(pjrt_plugins()$loaded), "\n")
  }), c(
    PJRT_THROW = "10", PJRT_THROW_WHAT = "No chip was found.\nbacktrace:\n - main", PJRT_LEAVES = left, TMPDIR = folder
  ))
  expect_clean(child)
  expect_identical(child$out[[1L]], "pjrt_error_driver_missing PJRT_Client_Create ")
  expect_match(child$out[[2L]], "probably lacks its hardware. It says: No chip was found.$")
  expect_false(any(grepl("backtrace|restart R", child$out)))
  expect_match(paste(child$out, collapse = " "), paste0("temporary folder: '", left, "'."), fixed = TRUE)
  expect_identical(child$out[[length(child$out)]], "pjrt_error_driver_missing FALSE ")
})

test_that("a plugin that throws when it is asked for its functions is not a plugin", {
  code <- withr::local_tempfile(fileext = ".cpp", lines = "extern \"C\" void *GetPjrtApi() { throw 1; }")
  child <- run_child(quote(for (i in 1:2) print(tryCatch(pjrt_plugin("cpu"), error = function(e) e))), c(
    PJRT_PLUGIN_PATH_CPU = build_library(code)
  ))
  expect_clean(child)
  expect_length(grep("GetPjrtApi() threw a C++ exception", child$out, fixed = TRUE), 2L)
})

test_that("a compile blocked by an exception raises the error, on any thread", {
  child <- run_throwing(quote({
    x <- pjrt_buffer(c(1, 2, 3))
    before <- pjrt_compile_async(worded_program("fine"))
    value(before)
    held <- pjrt_compile_async(worded_program("hangs_here"))
    thrown <- pjrt_compile_async(worded_program("throws_here"))
    waiting <- lapply(1:4, function(i) pjrt_compile_async(worded_program("fine")))
    cat(class_of(value(thrown)), class_of(value(held)), "\n")
    # executables compiled before the exception can be retrieved but not run
    cat(unique(vapply(waiting, function(one) class_of(pjrt_execute(value(one), x)), "")), "\n")
    cat(class_of(pjrt_execute(value(before), x)), "\n")
    rm(held, thrown, waiting)
    invisible(gc())
  }))
  expect_clean(child, c(
    "pjrt_error_internal pjrt_error_plugin_poisoned ", "pjrt_error_plugin_poisoned ", "pjrt_error_plugin_poisoned "
  ))
})

test_that("launches, uploads and reads waiting for a thread raise the error", {
  child <- run_throwing(quote({
    options(pjrt.dispatch = "thread")
    x <- pjrt_buffer(c(1, 2, 3))
    f <- pjrt_compile(worded_program("fine"))
    await(pjrt_execute(f, x))
    slow <- pjrt_execute(pjrt_compile(pjrt_program(loop_program(3e6))), pjrt_scalar(1, "f64"))
    Sys.setenv(PJRT_THROW = 55)
    results <- lapply(1:20, function(i) tryCatch(pjrt_execute(f, x), error = identity))
    start <- function(y) if (inherits(y, "error")) y else tryCatch(as_array_async(y), error = identity)
    reads <- lapply(results, start)
    wait <- function(y) if (inherits(y, "error")) class(y)[[1L]] else class_of(value(y))
    found <- vapply(reads, wait, "")
    cat(sort(unique(found)), "\n")
    cat(class_of(await(slow)), "\n")
    rm(x, f, slow, results, reads)
    invisible(gc())
  }))
  expect_clean(child)
  expect_match(child$out[[1L]], "^(pjrt_error_internal )?pjrt_error_plugin_poisoned $")
  expect_identical(child$out[[2L]], "pjrt_error_plugin_poisoned ")
})

test_that("a C++ exception from any call raises an R error, and R exits normally", {
  # Initialize, IsReady, Error, OnReady, Create, PlatformName, AddressableDevices, Compile, BufferFromHostBuffer,
  # LoadedExecutable_Destroy, GetExecutable, Execute, Buffer_Destroy, ToHostBuffer, ReadyEvent, UnsafePointer
  for (slot in c(3, 6, 7, 9, 10, 12, 16, 20, 22, 50, 51, 55, 58, 70, 72, 73)) {
    child <- run_throwing(quote({
      session <- function() {
        x <- pjrt_buffer(matrix(1:6, 2), "i4")
        f <- pjrt_compile(worded_program("fine"))
        for (dispatch in c("inline", "thread")) {
          options(pjrt.dispatch = dispatch)
          as_array(pjrt_execute(f, pjrt_buffer(c(1, 2, 3))))
        }
        rm(f)
        gc()
        as_array(copy_buffer(x, "cpu:1"))
        gc()
        pjrt_buffer(1)
      }
      found <- vapply(1:3, function(i) class_of(session()), "")
      cat(found[[3L]], "\n")
    }), c(PJRT_THROW = as.character(slot)))
    expect_clean(child, if (slot == 10) "pjrt_error_driver_missing " else "pjrt_error_plugin_poisoned ")
  }
})

test_that("a plugin that has thrown anything is not called again", {
  for (what in c("memory", "number", "a reason")) {
    child <- run_throwing(quote({
      pjrt_client("cpu")
      cat(vapply(1:2, function(i) class_of(pjrt_compile(worded_program("throws_here"))), ""), "\n")
    }), c(PJRT_THROW_WHAT = what))
    first <- if (what == "memory") "pjrt_error_resource_exhausted" else "pjrt_error_internal"
    expect_clean(child, paste(first, "pjrt_error_plugin_poisoned "))
  }
})

test_that("R's exit keeps its status, .Last, finalizers and output", {
  for (end in c("end", "quit", "error")) {
    child <- run_throwing(quote({
      .Last <- function() cat("last\n")
      kept <- list(pjrt_buffer(c(1, 2, 3)), pjrt_compile(worded_program("fine")))
      reg.finalizer(environment(class_of), function(e) cat("finalized\n"), onexit = TRUE)
      try(pjrt_compile(worded_program("throws_here")), silent = TRUE)
      # without a newline, so that only the exit flushes it
      cat(strrep("a", 5000))
      switch(Sys.getenv("END"), quit = quit(status = 3), error = stop("for a reason"))
    }), c(END = end))
    expect_identical(child$status, switch(end, end = 0L, quit = 3L, error = 1L))
    expect_identical(child$err, if (end == "error") c("Error: for a reason", "Execution halted") else character())
    expect_identical(paste(child$out, collapse = "\n"), paste0(
      strrep("a", 5000), if (end != "error") "last\n", "finalized"
    ))
  }
})

test_that("other plugins keep working and their clients are closed at exit", {
  child <- run_throwing(quote({
    pjrt_register_plugin("other", Sys.getenv("PJRT_REAL_PLUGIN"))
    other <- devices(pjrt_client("other"))[[1L]]
    f <- pjrt_compile(worded_program("fine"), device = other)
    lost <- pjrt_compile_async(worded_program("hangs_here"))
    try(pjrt_compile(worded_program("throws_here")), silent = TRUE)
    x <- pjrt_buffer(c(1, 2, 3), device = other)
    g <- lapply(1:4, function(i) pjrt_compile_async(worded_program("fine"), device = other))
    for (one in lapply(g, value)) x <- pjrt_execute(one, x)
    cat(as_array(pjrt_execute(f, x)), class_of(value(lost)), "\n")
    slow <- pjrt_execute(
      pjrt_compile(pjrt_program(loop_program(1e7)), device = other), pjrt_scalar(1, "f64", device = other)
    )
  }))
  expect_clean(child, "32 64 96 pjrt_error_plugin_poisoned ")
})

test_that("a plugin that throws when it is loaded is not loaded again", {
  child <- run_throwing(quote({
    cat(vapply(1:2, function(i) class_of(pjrt_client("cpu")), ""), "\n")
  }), c(PJRT_THROW = "3"))
  expect_clean(child, "pjrt_error_internal pjrt_error_plugin_poisoned ")
})

test_that("a session survives exceptions from XLA's own compiler", {
  skip_if(plugin_api(106), "newer plugins compile this program")
  # for other platform names, the program is not refused before it is compiled
  for (i in 1:3) {
    child <- run_throwing(quote({
      kept <- list(pjrt_buffer(c(1, 2, 3)), pjrt_compile(worded_program("fine")))
      program <- pjrt_program("func.func @main(%x: tensor<3x5xi4>) -> (tensor<5x3xi4>, tensor<3x5xi8>) {
        %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x5xi4>) -> tensor<5x3xi4>
        %1 = stablehlo.convert %x : (tensor<3x5xi4>) -> tensor<3x5xi8>
        return %0, %1 : tensor<5x3xi4>, tensor<3x5xi8>
      }")
      # the first may throw before the last starts
      promises <- lapply(1:3, function(i) tryCatch(pjrt_compile_async(program), pjrt_error_plugin_poisoned = identity))
      started <- promises[!vapply(promises, inherits, NA, what = "condition")]
      classes <- vapply(started, function(promise) class_of(value(promise)), "")
      cat("pjrt_error_internal" %in% classes, class_of(pjrt_compile(program)), class_of(as_array(kept[[1L]])), "\n")
      rm(kept, promises, started)
      for (i in 1:20) invisible(gc())
      x <- lapply(1:200, function(i) numeric(1e5))
      cat(length(x), "\n")
    }), c(PJRT_FAKE_PLATFORM = "elsewhere"))
    expect_clean(child, c("TRUE pjrt_error_plugin_poisoned pjrt_error_plugin_poisoned ", "200 "))
  }
})

test_that("the creation of a client can be interrupted while the plugin waits", {
  child <- start_throwing(quote({
    tryCatch(pjrt_client("cpu"), interrupt = function(condition) cat("interrupted\n"))
  }), c(PJRT_HANG = "10"))
  expect_identical(line_reader(child)(), "waiting")
  child$interrupt()
  # R writes an empty line at an interrupt
  expect_identical(end_child(child), list(status = 0L, out = "interrupted", err = ""))
})
