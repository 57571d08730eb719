# Slow: starts many sessions.

# Enables the cache in a temporary folder.
local_cache <- function(..., env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  # R_USER_CACHE_DIR must not hide the plugin
  all <- c(PJRT_CACHE = "1", R_USER_CACHE_DIR = folder, PJRT_PLUGIN_PATH_CPU = real_plugin(), ...)
  withr::local_envvar(all, .local_envir = env)
  pjrt_cache_info()$dir
}

# How the cache's counts change while `code` runs.
counted <- function(code) {
  counts <- c("hits", "shared", "misses", "evictions", "errors")
  before <- unlist(pjrt_cache_info()[counts])
  force(code)
  unlist(pjrt_cache_info()[counts]) - before
}

counts <- function(hits = 0, shared = 0, misses = 0, evictions = 0, errors = 0) {
  c(hits = hits, shared = shared, misses = misses, evictions = evictions, errors = errors)
}

entry_files <- function(dir) list.files(dir, "[.]pjrtx$", full.names = TRUE)

# A program that no other test compiles: x * n.
times_program <- function(n) {
  sprintf("func.func @main(%%x: tensor<2xf32>) -> tensor<2xf32> {
  %%c = stablehlo.constant dense<%d.0> : tensor<2xf32>
  %%0 = stablehlo.multiply %%x, %%c : tensor<2xf32>
  return %%0 : tensor<2xf32>
}", as.integer(n))
}

# Frees unused executables: R clears weak references in one collection and frees the objects in the next.
forget <- function() {
  gc()
  invisible(gc())
}

test_that("a program that is slow to load is cached too", {
  dir <- local_cache()
  large <- pjrt_program(chain_program(6000))
  expect_identical(counted(pjrt_compile(large)), counts(misses = 1))
  expect_gt(file.size(entry_files(dir)), 3e5)
  forget()
  expect_identical(counted(found <- pjrt_compile(large)), counts(hits = 1))
  expect_identical(as_array(pjrt_execute(found, pjrt_scalar(0))), 0)
  expect_identical(counted(pjrt_compile(large)), counts(shared = 1))
})

test_that("compiling the same program again returns the same live executable", {
  local_cache()
  expect_identical(counted(first <- compile(times_program(3))), counts(misses = 1))
  expect_identical(counted(second <- compile(times_program(3))), counts(shared = 1))
  expect_identical(first, second)
  expect_false(identical(first, compile(times_program(3), device = "cpu:1")))
  expect_false(identical(first, compile(times_program(3), pjrt_compile_options(optimization_level = 1))))
  withr::with_options(list(pjrt.dispatch = "thread"), expect_false(identical(first, compile(times_program(3)))))
  expect_identical(as_array(pjrt_execute(first, pjrt_buffer(c(1, 2)))), array(c(3, 6)))
  rm(first, second)
  forget()
  expect_identical(counted(third <- compile(times_program(3))), counts(hits = 1))
  expect_identical(as_array(pjrt_execute(third, pjrt_buffer(c(1, 2)))), array(c(3, 6)))
})

test_that("an executable that is compiled again just when R frees its object can be used", {
  local_cache()
  held <- new.env()
  held$executable <- compile(times_program(3))
  again <- NULL
  trigger <- new.env()
  # R finds the object to be garbage in this collection, and runs its finalizer after this one
  reg.finalizer(trigger, function(trigger) {
    rm("executable", envir = held)
    gc()
    again <<- compile(times_program(3))
  })
  rm(trigger)
  forget()
  expect_identical(as_array(pjrt_execute(again, pjrt_buffer(c(1, 2)))), array(c(3, 6)))
})

test_that("an executable held only by its promise is shared", {
  local_cache()
  promise <- pjrt_compile_async(pjrt_program(times_program(4)))
  executable <- value(promise)
  expect_identical(executable, compile(times_program(4)))
})

test_that("an executable compiled in one session is loaded from the cache in another", {
  dir <- local_cache()
  child <- function() {
    expect_clean(run_child(quote({
      add <- compile("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.add %x, %x : tensor<2xf32>
        return %0 : tensor<2xf32>
      }")
      print(add)
      cat(as_array(pjrt_execute(add, pjrt_buffer(c(1, 2)))), "\n")
      info <- pjrt_cache_info()
      cat(info$hits, info$misses, info$errors, info$saved_seconds > 0, "\n")
    })))$out
  }
  first <- child()
  origin <- function(lines) lines[length(lines) - 2L]
  results <- function(lines) utils::tail(lines, 2L)
  expect_match(origin(first), "^  not in the cache, compiled in [0-9.]+ s$")
  expect_identical(results(first), c("2 4 ", "0 1 0 FALSE "))
  # on a busy machine, a load may take longer than the compilation did
  for (i in 1:20) {
    second <- child()
    if (!identical(results(second)[[2L]], "1 0 0 FALSE ")) break
  }
  expect_match(origin(second), "^  from the cache, compiled in [0-9.]+ s$")
  expect_identical(results(second), c("2 4 ", "1 0 0 TRUE "))
  # a client with another number of devices
  withr::local_envvar(PJRT_CPU_DEVICE_COUNT = "1")
  expect_match(origin(child()), "from the cache", fixed = TRUE)
  expect_length(entry_files(dir), 1L)
})

test_that("two sessions can compile the same program at once", {
  dir <- local_cache()
  code <- quote({
    for (n in 1:20) {
      times <- compile(sprintf("func.func @main(%%x: tensor<2xf32>) -> tensor<2xf32> {
        %%c = stablehlo.constant dense<%d.0> : tensor<2xf32>
        %%0 = stablehlo.multiply %%x, %%c : tensor<2xf32>
        return %%0 : tensor<2xf32>
      }", n))
      stopifnot(identical(as_array(pjrt_execute(times, pjrt_buffer(c(1, 2)))), array(c(1, 2) * n)))
    }
    info <- pjrt_cache_info()
    cat(info$hits + info$misses, info$errors, "\n")
  })
  children <- lapply(1:3, function(i) start_child(code))
  for (child in children) {
    child$wait(120000)
    expect_identical(child$get_exit_status(), 0L)
    expect_identical(child$read_all_error_lines(), character())
    expect_identical(child$read_all_output_lines(), "20 0 ")
  }
  expect_length(entry_files(dir), 20L)
})

test_that("a session killed while writing the cache leaves it usable", {
  skip_on_os("windows")
  dir <- local_cache()
  for (wait in c(0.3, 0.45, 0.6, 0.8)) {
    child <- start_child(quote({
      cat("ready\n")
      n <- 0
      repeat {
        n <- n + 1
        compile(sprintf("func.func @main(%%x: tensor<2xf32>) -> tensor<2xf32> {
          %%c = stablehlo.constant dense<%.1f> : tensor<2xf32>
          %%0 = stablehlo.multiply %%x, %%c : tensor<2xf32>
          return %%0 : tensor<2xf32>
        }", n))
        if (n %% 20 == 0) pjrt_clear_cache()
      }
    }))
    expect_identical(line_reader(child)(), "ready")
    Sys.sleep(wait)
    child$signal(9L)
    child$wait(10000)
  }
  # an incomplete entry under its temporary name
  dir.create(dir, FALSE, TRUE)
  writeLines("half", file.path(dir, ".tmp-1-0-0"))
  for (file in entry_files(dir)) {
    size <- file.size(file)
    expect_silent(pjrt_load_executable(file))
    expect_gt(size, 1000)
  }
  expect_identical(counted(times <- compile(times_program(5)))[["errors"]], 0)
  expect_identical(as_array(pjrt_execute(times, pjrt_buffer(c(1, 2)))), array(c(5, 10)))
})

test_that("an entry with a flipped byte neither crashes nor returns a wrong program", {
  dir <- local_cache()
  compile(times_program(6))
  forget()
  file <- entry_files(dir)
  expect_length(file, 1L)
  child <- run_child(bquote({
    file <- .(file)
    whole <- readBin(file, "raw", file.size(file))
    offsets <- seq(1, length(whole), by = times(250, 50))
    for (i in offsets) {
      flipped <- whole
      flipped[i] <- xor(flipped[i], as.raw(255))
      writeBin(flipped, file)
      times <- compile(.(times_program(6)))
      stopifnot(identical(as_array(pjrt_execute(times, pjrt_buffer(c(1, 2)))), array(c(6, 12))))
      rm(times)
      gc()
      gc()
    }
    info <- pjrt_cache_info()
    cat(
      info$hits, info$misses == length(offsets), info$errors == length(offsets),
      identical(readBin(file, "raw", 8), whole[1:8]), "\n"
    )
  }), timeout = 300)
  expect_clean(child, "0 TRUE TRUE TRUE ")
})

test_that("only the options and flags that affect the result change the key", {
  local_cache()
  compile(times_program(7))
  all <- list(
    pjrt_compile_options(optimization_level = 0), pjrt_compile_options(compile_portable_executable = TRUE),
    pjrt_compile_options(device_assignment = 1L),
    pjrt_compile_options(debug_options = list(xla_cpu_enable_fast_math = TRUE))
  )
  for (options in all) {
    expect_identical(counted(compile(times_program(7), options)), counts(misses = 1))
  }
  forget()
  for (options in all) {
    expect_identical(counted(compile(times_program(7), options)), counts(hits = 1))
  }
  child <- function(...) {
    expect_clean(run_child(bquote({
      compile(.(times_program(7)))
      info <- pjrt_cache_info()
      cat(info$hits, info$misses, "\n")
    }), c(...)))$out
  }
  expect_identical(child(XLA_FLAGS = ""), "1 0 ")
  expect_identical(child(XLA_FLAGS = "--xla_cpu_enable_fast_math=true"), "0 1 ")
  expect_identical(child(XLA_FLAGS = "  --xla_cpu_enable_fast_math=true "), "1 0 ")
  expect_identical(child(PJRT_CPU_THREADS = "77"), "0 1 ")
  expect_identical(child(PJRT_CPU_THREADS = "77"), "1 0 ")
})

test_that("the size limit holds and evicts the least recently used entries", {
  dir <- local_cache()
  compile(times_program(8))
  size <- pjrt_cache_info()$bytes
  withr::local_envvar(PJRT_CACHE_MAX_SIZE = sprintf("%.0f", 3.5 * size))
  for (n in 9:10) compile(times_program(n))
  forget()
  expect_identical(counted(compile(times_program(8))), counts(hits = 1))
  expect_identical(counted(compile(times_program(11))), counts(misses = 1, evictions = 1))
  forget()
  expect_identical(counted(for (n in c(8, 10, 11)) compile(times_program(n))), counts(hits = 3))
  expect_identical(counted(compile(times_program(9)))[["misses"]], 1)
  expect_lte(pjrt_cache_info()$bytes, 3.5 * size)
  expect_identical(nrow(as.data.frame(pjrt_cache_info())), 3L)
})

test_that("as.data.frame(pjrt_cache_info()) lists entries, most recently used first", {
  local_cache()
  expect_identical(nrow(as.data.frame(pjrt_cache_info())), 0L)
  compile(times_program(12))
  compile("module @second { func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }")
  list <- as.data.frame(pjrt_cache_info())
  expect_named(list, c("key", "name", "platform", "bytes", "created", "last_used", "compile_seconds"))
  expect_identical(list$name, c("second", "main"))
  expect_identical(list$platform, c("cpu", "cpu"))
  expect_match(list$key, "^[0-9a-f]{64}$")
  expect_lt(abs(as.numeric(difftime(Sys.time(), list$created[[1L]], units = "secs"))), 60)
  expect_true(all(list$compile_seconds > 0) && all(list$bytes > 1000) && list$last_used[[1L]] >= list$last_used[[2L]])
})

test_that("a damaged entry is listed without its details", {
  dir <- local_cache()
  compile(times_program(21))
  content <- readBin(entry_files(dir), "raw", 1e6)
  # the name "main" is a separate field: field number, length, then the text
  name <- grepRaw(as.raw(c(0x1a, 4, charToRaw("main"))), content, fixed = TRUE)
  content[name + 2L] <- as.raw(0)
  writeBin(content, entry_files(dir))
  expect_identical(as.data.frame(pjrt_cache_info())$name, NA_character_)
})

test_that("the cache can be pruned by age or size, or cleared", {
  dir <- local_cache()
  for (n in 13:15) compile(times_program(n))
  oldest <- rev(as.data.frame(pjrt_cache_info())$key)[[1L]]
  Sys.setFileTime(file.path(dir, paste0(oldest, ".pjrtx")), Sys.time() - 40 * 86400)
  expect_identical(pjrt_clear_cache(max_age = Inf)$entries, 0)
  expect_identical(pjrt_clear_cache(max_age = 50)$entries, 0)
  expect_identical(expect_invisible(pjrt_clear_cache(max_age = 30))$entries, 1)
  expect_false(oldest %in% as.data.frame(pjrt_cache_info())$key)
  expect_identical(pjrt_clear_cache(max_size = 1.5 * max(file.size(entry_files(dir))))$entries, 1)
  writeLines("not ours", file.path(dir, "notes.txt"))
  removed <- pjrt_clear_cache()
  expect_identical(removed$entries, 1)
  expect_gt(removed$bytes, 1000)
  expect_identical(list.files(dir, all.files = TRUE, no.. = TRUE), "notes.txt")
  unlink(file.path(dir, "notes.txt"))
  pjrt_clear_cache()
  expect_false(dir.exists(dir))
  for (bad in list(-1, NA_real_, "1", c(1, 2))) {
    expect_refused(pjrt_clear_cache(max_age = bad), "invalid_input", "`max_age`")
  }
  expect_refused(pjrt_clear_cache(max_size = "much"), "invalid_input", "`max_size`")
})

test_that("the cache can be turned off", {
  dir <- local_cache()
  off <- function() {
    expect_false(pjrt_cache_info()$enabled)
    expect_identical(counted(first <- compile(times_program(16))), counts())
    expect_false(identical(first, compile(times_program(16))))
    expect_false(dir.exists(dir))
  }
  withr::with_envvar(c(PJRT_CACHE = "0"), off())
  withr::with_options(list(pjrt.cache = FALSE), off())
  withr::with_envvar(c(PJRT_CACHE = NA, `_R_CHECK_PACKAGE_NAME_` = "pjrt"), off())
  withr::with_envvar(c(PJRT_CACHE = "0"), withr::with_options(list(pjrt.cache = TRUE), {
    expect_true(pjrt_cache_info()$enabled)
  }))
  withr::with_options(
    list(pjrt.cache = "no"), expect_refused(compile(times_program(16)), "invalid_input", "pjrt.cache")
  )
})

test_that("sizes can be numbers or strings with units", {
  local_cache(PJRT_CACHE_MAX_SIZE = NA)
  limit <- function() pjrt_cache_info()$max_size
  expect_identical(limit(), 2 * 1024^3)
  for (
    case in list(
      list("2GiB", 2 * 1024^3), list("500MB", 5e8), list(" 1.5 kb ", 1500), list("1000", 1000), list("10B", 10)
    )
  ) {
    withr::with_envvar(c(PJRT_CACHE_MAX_SIZE = case[[1L]]), expect_identical(limit(), case[[2L]]))
  }
  withr::with_options(list(pjrt.cache_max_size = 1e6), {
    expect_identical(limit(), 1e6)
    withr::with_envvar(c(PJRT_CACHE_MAX_SIZE = "1"), expect_identical(limit(), 1e6))
  })
  for (bad in list("much", "-1", "1XB", "1 GB 2", -1, c(1, 2), NA_real_, "")) {
    withr::with_options(
      list(pjrt.cache_max_size = bad), expect_refused(limit(), "invalid_input", "pjrt.cache_max_size")
    )
  }
})

test_that("an unusable cache folder does not fail a compile and is reported with PJRT_DEBUG", {
  folder <- withr::local_tempfile(lines = "a file")
  withr::local_envvar(PJRT_CACHE = "1", R_USER_CACHE_DIR = folder)
  expect_silent(times <- compile(times_program(17)))
  expect_identical(as_array(pjrt_execute(times, pjrt_buffer(c(1, 2)))), array(c(17, 34)))
  .Call(getFromNamespace("ffi_cache_messages", "pjrt"))
  withr::local_envvar(PJRT_DEBUG = "1")
  messages <- testthat::capture_messages(compile(times_program(18)))
  expect_match(messages, "pjrt: cache: cannot keep", fixed = TRUE, all = FALSE)
  expect_identical(pjrt_cache_info()$entries, 0)
})

test_that("a limit on the size of files does not fail a compile or an operator", {
  skip_on_os("windows")
  dir <- local_cache()
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(deparse(bquote({
    library(pjrt)
    x <- pjrt_buffer(c(1, 4))
    for (place in c("inside", "apart")) {
      options(pjrt.compile = place)
      times <- pjrt_compile(pjrt_program(.(times_program(23))))
      cat(as_array(pjrt_execute(times, x)), as_array(x * 3 + sqrt(x)), pjrt_cache_info()$entries, "\n")
    }
  })), script)
  # the compiler's log is a file, too
  withr::local_envvar(
    R_LIBS = paste(.libPaths(), collapse = ":"), TF_CPP_MIN_LOG_LEVEL = "0", TF_CPP_MAX_VLOG_LEVEL = "1"
  )
  limited <- sprintf("ulimit -f 1; exec '%s' --vanilla '%s'", rscript(), script)
  out <- system2("sh", c("-c", shQuote(limited)), stdout = TRUE, stderr = FALSE)
  expect_identical(out, rep("23 92 4 14 0 ", 2L))
  expect_identical(entry_files(dir), character())
})

test_that("a cache folder with an invalid name does not fail a compile", {
  skip_on_os("windows")
  withr::local_envvar(PJRT_CACHE = "1", R_USER_CACHE_DIR = "no/such/caf\xe9")
  times <- compile(times_program(22))
  expect_identical(as_array(pjrt_execute(times, pjrt_buffer(c(1, 2)))), array(c(22, 44)))
  expect_match(pjrt_cache_info()$problem, "not valid UTF-8, 'no/such/caf<e9>/R/pjrt'", fixed = TRUE)
  expect_identical(nrow(as.data.frame(pjrt_cache_info())), 0L)
  expect_refused(install_pjrt("idle"), "io", "no folder for plugins: the folder's name is not valid UTF-8")
})

test_that("files that other users could have written are not used", {
  skip_on_os("windows")
  dir <- local_cache()
  compile(times_program(19))
  forget()
  Sys.chmod(entry_files(dir), "666", use_umask = FALSE)
  expect_identical(counted(compile(times_program(19))), counts(misses = 1, errors = 1))
  expect_identical(as.character(file.mode(entry_files(dir))), "644")
})

test_that("a compile that dumps files is never taken from the cache", {
  dir <- local_cache()
  dump <- withr::local_tempdir()
  options <- pjrt_compile_options(debug_options = list(xla_dump_to = dump))
  for (i in 1:2) {
    expect_identical(counted(compile(times_program(20), options)), counts())
    expect_gt(length(list.files(dump)), 0L)
    unlink(list.files(dump, full.names = TRUE))
  }
})

test_that("pjrt_cache_info() prints the cache", {
  dir <- local_cache()
  compile(times_program(21))
  text <- capture.output(expect_invisible(print(pjrt_cache_info())))
  expect_identical(text[[1L]], "<PJRTCacheInfo>")
  expect_match(text[[2L]], dir, fixed = TRUE)
  expect_match(text[[4L]], "1 program,", fixed = TRUE)
  report <- paste(format(pjrt_sitrep()), collapse = "\n")
  expect_match(report, "programs: *1 program")
  expect_match(report, "from disk")
  withr::local_envvar(PJRT_CACHE = "0")
  expect_match(capture.output(print(pjrt_cache_info()))[[3L]], "off", fixed = TRUE)
})

test_that("a replaced plugin file is not mistaken for the loaded plugin", {
  skip_if_not(Sys.info()[["sysname"]] == "Linux")
  dir <- local_cache()
  plugin <- withr::local_tempfile(fileext = ".so")
  file.copy(real_plugin(), plugin)
  child <- run_child(bquote({
    pjrt_client("cpu")
    copy <- paste0(.(plugin), ".new")
    file.copy(.(plugin), copy)
    invisible(file.rename(copy, .(plugin)))
    times <- compile(.(times_program(22)))
    cat(as_array(pjrt_execute(times, pjrt_buffer(c(1, 2)))), "\n")
    info <- pjrt_cache_info()
    cat(info$entries, info$misses, info$errors, "\n")
    cat(sub("\n", " ", conditionMessage(tryCatch(pjrt_serialize(times), error = identity))), "\n")
  }), c(PJRT_PLUGIN_PATH_CPU = plugin))
  expect_clean(child)
  expect_identical(child$out[1:2], c("22 44 ", "0 0 1 "))
  expect_match(child$out[[3L]], "was replaced while in use.*Restart R")
})
