# Slow: starts many sessions.

# What distinguishes calls with typed arguments.
typed <- "api_version = 4 : i32, backend_config = {}"

test_that("a program calls a handler written in C", {
  local_handler("test_doubles", "doubles")
  expect_identical(run_on_four(compile(calling_program("test_doubles"))), c(2, 4, 6, 8))
  local_handler("test_sums", "sums")
  values <- "values = array<i64: 1, 2, -10>"
  expect_identical(run_on_four(compile(calling_program("test_sums", values))), rep(-7, 4))
  # on another device, and from the dispatch thread
  withr::local_options(pjrt.dispatch = "thread")
  double <- compile(calling_program("test_doubles"), device = "cpu:1")
  expect_identical(as.vector(as_array(pjrt_execute(double, pjrt_buffer(1:4, "f32", device = "cpu:1")))), c(2, 4, 6, 8))
})

test_that("names of custom calls may have any characters", {
  local_handler("a b\u00e9$\\n", "doubles")
  expect_identical(run_on_four(compile(calling_program("a b\u00e9$\\\\n"))), c(2, 4, 6, 8))
})

test_that("registering returns NULL invisibly and keeps the handlers by platform, in which a CPU is a host", {
  on.exit(pjrt:::pjrt_unregister_custom_calls("test kept"))
  copies <- handlers()("copies")
  expect_invisible(value <- pjrt_register_custom_call("test_kept", list(cpu = copies, CUDA = copies), "test kept"))
  expect_null(value)
  kept <- pjrt:::the[["custom_calls"]][["test_kept"]]
  expect_identical(kept, list(handler = list(host = copies, cuda = copies), package = "test kept"))
  expect_identical(run_on_four(compile(calling_program("test_kept"))), c(1, 2, 3, 4))
})

test_that("arguments are checked", {
  copies <- handlers()("copies")
  register <- function(handler) pjrt_register_custom_call("test_refused", handler)
  for (bad in list(NULL, copies, list(), list(copies), structure(list(host = copies), class = "a"), c(host = "a"))) {
    expect_refused(register(bad), "invalid_input", "`handler` must be a named list of external pointers")
  }
  for (name in c("", NA, "a/b")) {
    bad <- structure(list(copies, copies), names = c("host", name))
    expect_refused(register(bad), "invalid_input", "must have the name of a platform")
  }
  expect_refused(register(list(host = 1L)), "invalid_input", "`handler$host` must be an external pointer")
  expect_refused(
    register(list(host = copies, cuda = NULL)), "invalid_input", "`handler$cuda` must be an external pointer"
  )
  expect_refused(
    register(list(host = copies, CPU = copies)), "invalid_input", "two functions for the platform \"host\""
  )
  for (bad in list("", NA_character_, 1, NULL, c("a", "b"))) {
    expect_refused(pjrt_register_custom_call(bad, list(host = copies)), "invalid_input", "`target_name` must be one")
  }
  expect_refused(
    pjrt_register_custom_call("test_refused", list(host = copies), .package = ""), "invalid_input", "`.package` must be"
  )
  expect_refused(register(stats:::C_rnorm), "invalid_input", "Use its address: list(host = handler$address).")
  expect_null(pjrt:::the[["custom_calls"]][["test_refused"]])
  expect_error(compile(calling_program("test_refused")), "'test_refused'", class = "pjrt_error_not_found")
})

test_that("pointers that do not point to functions are refused", {
  register <- function(pointer) pjrt_register_custom_call("test_refused", list(host = pointer))
  null <- methods::new("externalptr")
  expect_refused(register(null), "invalid_pointer", "`handler$host` is a null pointer.")
  expect_refused(register(unserialize(serialize(handlers()("copies"), NULL))), "invalid_pointer", "null pointer")
  expect_refused(register(stats:::C_rnorm$address), "invalid_pointer", "describes a registered routine")
  expect_refused(register(pjrt_plugin("cpu")), "invalid_pointer", "does not point to a function")
})

test_that("an error of a handler is raised when an output is read", {
  local_handler("test_fails", "fails")
  failing <- function(code, message) {
    compile(calling_program("test_fails", sprintf('code = %d : i32, message = "%s"', code, message)))
  }
  for (dispatch in c("inline", "thread")) {
    withr::local_options(pjrt.dispatch = dispatch)
    expect_refused(run_on_four(failing(9, "not now")), "failed_precondition", "not now")
    expect_refused(run_on_four(failing(8, "no room")), "resource_exhausted", "no room")
    expect_refused(run_on_four(failing(13, "")), "internal")
  }
  # strange codes
  for (code in c(17, 4711, -1)) {
    expect_error(run_on_four(failing(code, "strange")), "strange", class = "pjrt_error")
  }
})

test_that("a handler can refuse the number of its arguments", {
  local_handler("test_two", "takes_two")
  expect_refused(run_on_four(compile(calling_program("test_two"))), "invalid_argument", "expected two arguments")
})

test_that("a C++ exception in a handler is an error of the execution", {
  throws <- load_handlers(build_handlers("throws.cpp"))("throws")
  on.exit(pjrt:::pjrt_unregister_custom_calls("test throws"))
  pjrt_register_custom_call("test_throws", list(host = throws), "test throws")
  for (i in 1:2) {
    expect_refused(
      run_on_four(compile(calling_program("test_throws", 'what = "a"'))), "internal",
      "The handler of 'test_throws' threw a C++ exception, \"thrown on purpose\"."
    )
    expect_refused(run_on_four(compile(calling_program("test_throws"))), "internal", "exception, of unknown kind")
  }
})

test_that("a program without a handler is refused by a message that says what to do", {
  error <- expect_refused(
    compile(calling_program("test_nobody")), "not_found",
    "The program calls 'test_nobody', but no handler of that name is registered for host."
  )
  expect_match(conditionMessage(error), 'pjrt_register_custom_call("test_nobody", list(host = ...))', fixed = TRUE)
  expect_identical(error$code, 5L)
  pjrt_register_custom_call("test_elsewhere", list(cuda = handlers()("copies")), "test elsewhere")
  on.exit(pjrt:::pjrt_unregister_custom_calls("test elsewhere"))
  error <- expect_refused(compile(calling_program("test_elsewhere")), "not_found", "'test_elsewhere'")
  expect_match(conditionMessage(error), "It has handlers for cuda only.", fixed = TRUE)
  local_handler("test_old")
  old <- sub(typed, "api_version = 2 : i32", calling_program("test_old"), fixed = TRUE)
  error <- expect_refused(compile(old), "not_found", "calls 'test_old' by an old interface")
  expect_match(conditionMessage(error), "api_version = 4 : i32", fixed = TRUE)
})

test_that("the message for a function of another device's programs names the device", {
  devices <- c(
    cusolver_potrf_ffi = "GPUs of NVIDIA.", hipsolver_geqrf_ffi = "GPUs of AMD.", mosaic_gpu_v2 = "GPUs.",
    tpu_custom_call = "TPUs."
  )
  for (target in names(devices)) {
    error <- expect_refused(compile(calling_program(target)), "not_found", "no handler of that name")
    expect_match(conditionMessage(error), paste("a function for", devices[[target]]), fixed = TRUE)
  }
  error <- expect_refused(compile(calling_program("custom_fn")), "not_found", "no handler of that name")
  expect_no_match(conditionMessage(error), "looks like", fixed = TRUE)
})

test_that("custom calls of the compiler need no handler", {
  text <- sub(typed, "api_version = 1 : i32", calling_program("Sharding"), fixed = TRUE)
  expect_identical(run_on_four(compile(text)), c(1, 2, 3, 4))
})

test_that("a new handler of the same name replaces the old one, also in compiled programs", {
  local_handler("test_swap", "copies")
  program <- compile(calling_program("test_swap"))
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  local_handler("test_swap", "doubles")
  expect_identical(run_on_four(program), c(2, 4, 6, 8))
  expect_identical(run_on_four(compile(calling_program("test_swap"))), c(2, 4, 6, 8))
  # also by one for other platforms
  pjrt_register_custom_call("test_swap", list(cuda = handlers()("copies")), "test handlers")
  expect_refused(run_on_four(program), "not_found", "'test_swap' has no handler any more")
})

test_that("the handlers of a package are removed when its namespace is unloaded", {
  register <- function(target, package) pjrt_register_custom_call(target, list(host = handlers()("copies")), package)
  register("test_mine", "test.mine")
  register("test_mine_too", "test.mine")
  register("test_other", "test.other")
  on.exit(pjrt:::pjrt_unregister_custom_calls("test.other"))
  program <- compile(calling_program("test_mine"))
  hooks <- getHook(packageEvent("test.mine", "onUnload"))
  expect_length(hooks, 1L)
  hooks[[1L]]("test.mine", "path")
  expect_null(pjrt:::the[["custom_calls"]][["test_mine"]])
  expect_null(pjrt:::the[["custom_calls"]][["test_mine_too"]])
  expect_false(is.null(pjrt:::the[["custom_calls"]][["test_other"]]))
  expect_refused(run_on_four(program), "not_found", "'test_mine' has no handler any more")
  expect_refused(compile(calling_program("test_mine")), "not_found", "no handler of that name is registered")
  register("test_mine", "test.mine")
  expect_length(getHook(packageEvent("test.mine", "onUnload")), 1L)
  expect_identical(run_on_four(program), c(1, 2, 3, 4))
  hooks[[1L]]("test.mine", "path")
})

test_that("print_tensor can be replaced, and comes back", {
  local_handler("print_tensor", "doubles")
  program <- calling_program("print_tensor")
  expect_identical(run_on_four(compile(program)), c(2, 4, 6, 8))
  pjrt:::pjrt_unregister_custom_calls("test handlers")
  lines <- utils::capture.output(values <- run_on_four(compile(program)))
  expect_identical(values, c(1, 2, 3, 4))
  expect_identical(lines, c("PJRTBuffer", " 1", " 2", " 3", " 4", "[ f32{4} ]"))
})

test_that("a plugin that refuses a handler, or knows none, only causes a warning", {
  local_handler("test_refused_later")
  withr::local_envvar(PJRT_FAKE = "refuses-handlers")
  expect_warning(
    expect_warning(
      load_plugin(fake_library(), "fake"), "refuses the handler of 'print_tensor' for host: There is such a handler.",
      class = "pjrt_warning"
    ), "test_refused_later"
  ) |> suppressWarnings()
  expect_warning(
    pjrt_register_custom_call("test_refused_now", list(host = handlers()("copies")), "test handlers"),
    "'test_refused_now'"
  ) |> suppressWarnings()
  expect_identical(run_on_four(compile(calling_program("test_refused_now"))), c(1, 2, 3, 4))
})

test_that("plugins with the old struct, and without handlers, are loaded without a warning", {
  for (oddity in c("old-handlers", "no-handlers", "no-extensions")) {
    expect_no_warning(fake_plugin(oddity))
  }
})

test_that("handlers are registered with plugins that are loaded later", {
  child <- run_child(
    bquote({
      pjrt_register_custom_call("test_later", list(cpu = handlers()("doubles")))
      cat(length(pjrt:::the$plugins), "\n")
      dyn.unload(attr(handlers(), "path"))
      program <- compile(calling_program("test_later"))
      cat(run_on_four(program), "\n")
      unloadNamespace("pjrt")
    }),
    env = lone_session(), helpers = c("programs", "custom-calls")
  )
  expect_clean(child, c("0 ", "2 4 6 8 "))
})

test_that("a package can link to the header and register its handler", {
  package <- withr::local_tempdir()
  dir.create(file.path(package, "src"))
  dir.create(file.path(package, "R"))
  file.copy(system.file("custom-calls", "scale.c", package = "pjrt"), file.path(package, "src"))
  description <- c("Package: scaling", "Version: 1.0", "Imports: pjrt", "LinkingTo: pjrt")
  writeLines(description, file.path(package, "DESCRIPTION"))
  writeLines(c("useDynLib(scaling)", "import(pjrt)"), file.path(package, "NAMESPACE"))
  writeLines("
    .onLoad <- function(libname, pkgname) {
      scale <- getNativeSymbolInfo('scale', 'scaling')$address
      pjrt_register_custom_call('scale', list(host = scale), .package = pkgname)
    }
    .onUnload <- function(libpath) library.dynam.unload('scaling', libpath)
  ", file.path(package, "R", "scaling.R"))
  lib <- install_stand_in(package, "scaling", environment())
  child <- run_child(
    bquote({
      name <- "scaling"
      loadNamespace(name, .(lib))
      program <- compile(calling_program("scale", "factor = 0.5 : f64"))
      cat(run_on_four(program), "\n")
      for (bad in c("", "factor = 1.0 : f32")) {
        writeLines(class(try(run_on_four(compile(calling_program("scale", bad))), silent = TRUE)))
      }
      unloadNamespace("scaling")
      cat(length(pjrt:::the$custom_calls), "\n")
      writeLines(tryCatch(run_on_four(program), pjrt_error_not_found = class)[[1L]])
    }),
    env = lone_session(), helpers = c("programs", "custom-calls")
  )
  expect_clean(child, c("0.5 1 1.5 2 ", "try-error", "try-error", "0 ", "pjrt_error_not_found"))
})

test_that("the example in Rust works", {
  rustc <- Sys.which("rustc")
  skip_if(!nzchar(rustc), "no rustc")
  library <- tempfile(fileext = ".so")
  source <- system.file("custom-calls", "cumsum.rs", package = "pjrt")
  processx::run(rustc, c("--edition", "2021", "-O", "--crate-type", "cdylib", "-o", library, source))
  pointer <- getNativeSymbolInfo("cumsum", dyn.load(library))$address
  pjrt_register_custom_call("test_cumsum", list(host = pointer), "test rust")
  on.exit(pjrt:::pjrt_unregister_custom_calls("test rust"))
  program <- compile(calling_program("test_cumsum", type = "5xf64"))
  expect_identical(as.vector(as_array(pjrt_execute(program, pjrt_buffer(1:5, "f64")))), c(1, 3, 6, 10, 15))
  expect_refused(run_on_four(compile(calling_program("test_cumsum"))), "invalid_argument", "expected vectors of f64")
})

test_that("programs that call handlers of the user are compiled again in the next session", {
  cache <- withr::local_tempdir()
  env <- c(lone_session()[c("PJRT_PLUGIN_PATH_CPU", "PJRT_DISCOVER")], PJRT_CACHE = "1", R_USER_CACHE_DIR = cache)
  session <- function(handler) {
    expect_clean(run_child(
      bquote({
        pjrt_register_custom_call("test_cached", list(cpu = handlers()(.(handler))))
        cat(run_on_four(compile(calling_program("test_cached"))), "\n")
        await(pjrt_execute(compile(printing_program()), pjrt_buffer(c(1, 2, 3, 4))))
        cat(unlist(pjrt_cache_info()[c("hits", "misses", "errors", "entries")]), "\n")
      }),
      env = env, helpers = c("programs", "custom-calls")
    ))$out
  }
  printed <- c("PJRTBuffer", " 1", " 2", " 3", " 4", "[ f32{4} ]")
  expect_identical(session("doubles"), c("2 4 6 8 ", printed, "0 2 0 1 "))
  expect_identical(session("copies"), c("1 2 3 4 ", printed, "1 1 0 1 "))
})

test_that("a saved executable calls the handlers of the session that loads it", {
  file <- withr::local_tempfile()
  local_handler("test_saved", "doubles")
  pjrt_save_executable(compile(calling_program("test_saved")), file)
  expect_identical(run_on_four(pjrt_load_executable(file)), c(2, 4, 6, 8))
  pjrt:::pjrt_unregister_custom_calls("test handlers")
  expect_refused(pjrt_load_executable(file), "not_found", "no handler of that name is registered")
  child <- run_child(
    bquote({
      found <- tryCatch(pjrt_load_executable(.(file)), pjrt_error_not_found = identity)
      cat(conditionMessage(found), sep = "\n")
      pjrt_register_custom_call("test_saved", list(cpu = handlers()("copies")))
      cat(run_on_four(pjrt_load_executable(.(file))), "\n")
    }),
    env = lone_session(), helpers = c("programs", "custom-calls")
  )
  out <- expect_clean(child)$out
  expect_match(out[[1L]], "calls 'test_saved', but no handler of that name is registered for host.", fixed = TRUE)
  expect_identical(out[[length(out)]], "1 2 3 4 ")
})

test_that("print_tensor prints as print() does, with header and footer", {
  show <- function(x, attributes = "", type = NULL) {
    type <- type %||% paste0(c(shape(x), sub("^pred$", "i1", as.character(elt_type(x)))), collapse = "x")
    invisible(await(pjrt_execute(compile(printing_program(type, attributes)), x)))
  }
  expect_snapshot(cran = TRUE, {
    show(pjrt_buffer(c(1, 2.5, -3, 4)))
    show(pjrt_buffer(matrix(1:6, 2)))
    show(pjrt_buffer(c(TRUE, FALSE, TRUE)))
    show(pjrt_scalar(-10.1213, "f64"))
    show(pjrt_buffer(array(1:12, c(2, 3, 2))))
    show(pjrt_buffer(1:3, "bf16"))
    show(pjrt_buffer(matrix(1:6, 2), "i4"))
    show(pjrt_buffer(complex(real = 1:2, imaginary = -1), "c64"), type = "2xcomplex<f32>")
    show(pjrt_empty("f32", c(3, 0)))
    show(pjrt_buffer(1:2), 'print_header = "AnvlArray", print_footer = "[ mine ]"')
    show(pjrt_buffer(1:2), 'print_header = ""')
    show(pjrt_buffer(1:2), 'print_footer = ""')
    show(pjrt_buffer(1:2), 'print_header = "", print_footer = ""')
    show(pjrt_buffer(1:2), 'print_header = "two\\0Alines \\C3\\A9"')
    show(pjrt_buffer(1:40))
  })
  lines <- function(x) utils::capture.output(show(x, 'print_header = "", print_footer = ""'))
  for (x in list(pjrt_buffer(c(1e7, 2e7, 1)), pjrt_buffer(c(NaN, Inf, -Inf, 0.1)), pjrt_buffer(matrix(1:100 / 7, 2)))) {
    expect_identical(lines(x), utils::capture.output(print(x, header = FALSE, footer = "")))
  }
  withr::local_options(pjrt.print_max_rows = 2L, pjrt.print_max_width = 20L)
  for (x in list(pjrt_buffer(1:40), pjrt_buffer(matrix(1:100 / 7, 5)))) {
    expect_identical(lines(x), utils::capture.output(print(x, header = FALSE, footer = "")))
  }
  withr::local_options(pjrt.print_max_rows = -1, pjrt.print_max_width = -1)
  expect_length(lines(pjrt_buffer(1:40)), 40L)
})

test_that("print_tensor refuses other calls", {
  expect_refused(
    run_on_four(compile(calling_program("print_tensor", "print_header = 1 : i32"))), "invalid_argument",
    "print_tensor: The attribute 'print_header' must be a string."
  )
  two <- 'func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    stablehlo.custom_call @print_tensor(%x, %x) {api_version = 4 : i32, has_side_effect = true} :
      (tensor<4xf32>, tensor<4xf32>) -> ()
    return %x : tensor<4xf32>
  }'
  message <- "Expected 1 argument and at most 1 result, but got 2 and 0."
  expect_refused(run_on_four(compile(two)), "invalid_argument", message)
  other <- 'func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
    %y = stablehlo.custom_call @print_tensor(%x) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<2xf32>
    return %y : tensor<2xf32>
  }'
  type <- "Expected a result of its argument's type, f32[4], got "
  expect_refused(run_on_four(compile(other)), "invalid_argument", paste0(type, "f32[2]."))
  for (result in c("4xi32", "2x2xf32", "8xi16")) {
    written <- gsub("tensor<2xf32>", sprintf("tensor<%s>", result), other, fixed = TRUE)
    expect_refused(run_on_four(compile(written)), "invalid_argument", type)
  }
  column <- "[dense<[0, 1]> : tensor<2xindex>]"
  by_columns <- calling_program("print_tensor", type = "2x3xf32")
  layouts <- sprintf("operand_layouts = %s, result_layouts = %s, api_version", column, column)
  by_columns <- sub("api_version", layouts, by_columns)
  expect_refused(compile(by_columns), "layout_mismatch", "calls 'print_tensor' with arrays that are not row-major")
})

# Prints the numbers from 1 to `n` in a loop, with some work before each.
counting_program <- function(n, work = 0) {
  sprintf('func.func @main() -> tensor<i32> {
  %%zero = stablehlo.constant dense<0> : tensor<i32>
  %%one = stablehlo.constant dense<1> : tensor<i32>
  %%last = stablehlo.constant dense<%d> : tensor<i32>
  %%r = stablehlo.while(%%i = %%zero) : tensor<i32>
    cond {
      %%c = stablehlo.compare LT, %%i, %%last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %%c : tensor<i1>
    } do {
      %%most = stablehlo.constant dense<%d> : tensor<i32>
      %%start = stablehlo.convert %%i : (tensor<i32>) -> tensor<f64>
      %%w:2 = stablehlo.while(%%k = %%zero, %%v = %%start) : tensor<i32>, tensor<f64>
        cond {
          %%d = stablehlo.compare LT, %%k, %%most : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %%d : tensor<i1>
        } do {
          %%e = stablehlo.add %%k, %%one : tensor<i32>
          %%s = stablehlo.sine %%v : tensor<f64>
          %%t = stablehlo.cosine %%s : tensor<f64>
          stablehlo.return %%e, %%t : tensor<i32>, tensor<f64>
        }
      %%difference = stablehlo.subtract %%w#1, %%w#1 : tensor<f64>
      %%none = stablehlo.convert %%difference : (tensor<f64>) -> tensor<i32>
      %%next = stablehlo.add %%i, %%one : tensor<i32>
      %%j = stablehlo.add %%next, %%none : tensor<i32>
      stablehlo.custom_call @print_tensor(%%j) {
        api_version = 4 : i32, has_side_effect = true, backend_config = {print_header = "", print_footer = ""}
      } : (tensor<i32>) -> ()
      stablehlo.return %%j : tensor<i32>
    }
  return %%r : tensor<i32>
}', as.integer(n), as.integer(work))
}

test_that("the text appears in the order of execution, wherever the program runs", {
  for (dispatch in c("auto", "inline", "thread")) {
    withr::local_options(pjrt.dispatch = dispatch)
    count <- compile(counting_program(100))
    lines <- utils::capture.output({
      runs <- lapply(1:5, function(i) pjrt_execute(count))
      for (run in runs) await(run)
    })
    expect_identical(lines, rep(paste0(" ", 1:100), 5))
    # reading is waiting
    for (read in list(as_array, as_raw, format_buffer, print, function(x) value(as_array_async(x)))) {
      lines <- utils::capture.output(read(pjrt_execute(count)))
      expect_identical(utils::head(lines, 100), paste0(" ", 1:100))
    }
    lines <- utils::capture.output({
      run <- pjrt_execute(count)
      while (!is_ready(run)) Sys.sleep(0.001)
    })
    expect_identical(lines, paste0(" ", 1:100))
  }
})

test_that("programs on several devices print, too", {
  text <- sub("^func", "module @m attributes {mhlo.num_replicas = 2 : i32} {\nfunc", printing_program())
  both <- compile(paste0(text, "}"), pjrt_compile_options(num_replicas = 2L), devices = devices("cpu"))
  inputs <- lapply(devices("cpu"), function(device) list(pjrt_buffer(c(1, 2, 3, 4), device = device)))
  lines <- utils::capture.output(for (out in pjrt_execute_sharded(both, inputs)) await(out))
  expect_identical(lines, rep(c("PJRTBuffer", " 1", " 2", " 3", " 4", "[ f32{4} ]"), 2))
})

test_that("sink() and knitr get the text", {
  file <- withr::local_tempfile()
  program <- compile(printing_program())
  connection <- file(file, "w")
  sink(connection)
  await(pjrt_execute(program, pjrt_buffer(c(1, 2, 3, 4))))
  sink()
  close(connection)
  expect_identical(readLines(file), c("PJRTBuffer", " 1", " 2", " 3", " 4", "[ f32{4} ]"))
  skip_if_not_installed("knitr")
  lines <- c("```{r, dev = 'pdf'}", "invisible(await(pjrt_execute(program, pjrt_buffer(c(1, 2, 3, 4)))))", "```")
  out <- knitr::knit(text = lines, quiet = TRUE, envir = environment())
  expect_match(out, "## PJRTBuffer\n##  1\n##  2\n##  3\n##  4\n## [ f32{4} ]\n", fixed = TRUE)
})

test_that("the text of a short program comes before pjrt_execute() returns", {
  print_x <- compile(calling_program("print_tensor"))
  for (i in 1:10) {
    # an input whose own program may still run
    out <- capture.output(y <- pjrt_execute(print_x, pjrt_buffer(c(1, 2, 3, i))))
    expect_identical(out[[1L]], "PJRTBuffer")
    expect_length(out, 6L)
  }
})

test_that("a long program prints while R waits, and can be interrupted", {
  child <- start_child(
    bquote({
      count <- compile(.(counting_program(1e9, 1e5)))
      cat("starts\n")
      tryCatch(await(pjrt_execute(count)), interrupt = function(i) cat("\ninterrupted\n"))
      quit("no", 0, FALSE)
    }),
    env = lone_session()
  )
  withr::defer(child$kill())
  next_line <- line_reader(child)
  expect_identical(next_line(), "starts")
  expect_identical(next_line(), " 1")
  expect_identical(next_line(), " 2")
  child$interrupt()
  repeat {
    line <- next_line()
    if (is.null(line) || line == "interrupted") break
  }
  expect_identical(line, "interrupted")
})

test_that("text that nobody waited for is written at the end, and once", {
  code <- function(end) {
    bquote({
      options(pjrt.dispatch = "thread")
      # the work ends long after this call, which would print what it finds
      run <- pjrt_execute(compile(.(counting_program(2, 2e5))))
      Sys.sleep(1)
      .(end)
    })
  }
  printed <- c(" 1", " 2")
  start <- function(end) run_child(code(end), env = lone_session(), helpers = c("programs", "custom-calls"))
  expect_clean(start(quote(cat("left\n"))), c("left", printed))
  expect_clean(start(quote(quit("no"))), printed)
  expect_clean(start(quote(close(pjrt_client("cpu")))), printed)
  skip_on_os("windows")
  forked <- quote({
    child <- parallel::mcparallel({
      try(is_ready(run), silent = TRUE)
      "done"
    })
    cat(unlist(parallel::mccollect(child)), "\n")
  })
  expect_clean(start(forked), c("done ", printed))
})

test_that("printing is safe while R collects garbage", {
  # a handler of the user and print_tensor, at every allocation
  local_handler("test_gc", "copies")
  program <- compile(printing_program())
  copy <- compile(calling_program("test_gc"))
  x <- pjrt_buffer(c(1, 2, 3, 4))
  withr::defer(torture(0))
  lines <- utils::capture.output({
    torture(7)
    for (i in 1:3) {
      pjrt_register_custom_call("test_gc", list(host = handlers()("copies")), "test handlers")
      await(pjrt_execute(program, x))
      values <- as_array(pjrt_execute(copy, x))
    }
    torture(0)
  })
  expect_identical(lines, rep(c("PJRTBuffer", " 1", " 2", " 3", " 4", "[ f32{4} ]"), 3))
  expect_identical(as.vector(values), c(1, 2, 3, 4))
})
