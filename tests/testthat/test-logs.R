# Messages of the package and the plugin.
# Slow: starts many sessions.

# Runs code in a session that loads the plugin and does not set its log level.
run_quiet <- function(code = quote(NULL), ...) {
  run_child(
    bquote({
      .(code)
      cat(as_array(pjrt_scalar(2)), "\n")
    }),
    c(TF_CPP_MIN_LOG_LEVEL = NA, PJRT_DEBUG = NA, XLA_FLAGS = NA, ...)
  )
}

# The compiler takes seconds to fold this constant, and prints a warning after the first.
folding_program <- function(n = 4000L, window = 400L) {
  bytes <- sprintf("%02X%02X803F", seq_len(n) %% 256L, seq_len(n) %/% 256L)
  out <- n - window + 1L
  sprintf("func.func @main() -> tensor<%dxf32> {
    %%c = stablehlo.constant dense<\"0x%s\"> : tensor<%dxf32>
    %%z = stablehlo.constant dense<0.0> : tensor<f32>
    %%r = \"stablehlo.reduce_window\"(%%c, %%z) <{window_dimensions = array<i64: %d>}> ({
      ^bb0(%%a: tensor<f32>, %%b: tensor<f32>):
        %%s = stablehlo.add %%a, %%b : tensor<f32>
        stablehlo.return %%s : tensor<f32>
    }) : (tensor<%dxf32>, tensor<f32>) -> tensor<%dxf32>
    return %%r : tensor<%dxf32>
  }", out, paste(bytes, collapse = ""), n, window, n, out, out)
}

test_that("the plugin prints nothing by default", {
  complain <- bquote(invisible(pjrt_compile(pjrt_program(.(folding_program())))))
  expect_clean(run_quiet(complain), "2 ")
  # it would have complained
  verbose <- run_quiet(complain, PJRT_DEBUG = "1")
  expect_match(verbose$err, "Constant folding an instruction is taking", all = FALSE)
})

test_that("verbose mode shows messages of the package and the plugin", {
  for (child in list(run_quiet(quote(options(pjrt.verbose = TRUE))), run_quiet(PJRT_DEBUG = "1"))) {
    expect_identical(child$out, "2 ")
    expect_match(child$err, "^pjrt: loading the plugin for cpu from", all = FALSE)
    expect_match(child$err, "^pjrt: created the client for cpu$", all = FALSE)
    expect_match(child$err, "^I0000 ", all = FALSE)
  }
  expect_clean(run_quiet(PJRT_DEBUG = "0"), "2 ")
  expect_clean(run_quiet(quote(options(pjrt.verbose = FALSE)), PJRT_DEBUG = "1"), "2 ")
})

test_that("a log level set by the user is kept, and plugins use the level requested when they are loaded", {
  levels <- function(code, ...) {
    child <- run_quiet(bquote({
      .(code)
      plugin_attributes("cpu")
      cat(Sys.getenv("TF_CPP_MIN_LOG_LEVEL"), "")
      options(pjrt.verbose = TRUE)
      suppressMessages(pjrt:::load_plugin(pjrt:::plugin_path("cpu"), "cpu"))
      cat(Sys.getenv("TF_CPP_MIN_LOG_LEVEL"), "")
    }), ...)
    child$out
  }
  expect_identical(levels(quote(NULL)), "3 0 2 ")
  expect_identical(levels(quote(Sys.setenv(TF_CPP_MIN_LOG_LEVEL = "2"))), "2 2 2 ")
  expect_identical(levels(quote(NULL), TF_CPP_MIN_LOG_LEVEL = "1"), "1 1 2 ")
})

test_that("a plugin that ends the process always prints why", {
  # without the process that would try the flags first
  hide <- quote({
    the <- pjrt:::the
    the$has_compile_helper <- FALSE
  })
  child <- run_quiet(hide, XLA_FLAGS = "--no_such_flag_of_xla")
  expect_false(child$status == 0L)
  expect_match(child$err, "no_such_flag_of_xla", all = FALSE)
})

test_that("flags for which XLA would end the process are refused", {
  try_flags <- quote({
    client <- function() {
      tryCatch(format(pjrt_client("cpu")), error = function(e) c(class(e)[1L], conditionMessage(e)))
    }
    for (flags in c("--no_such_flag --nor_this=1", "--xla_cpu_enable_fast_math=perhaps", "no/such/file")) {
      Sys.setenv(XLA_FLAGS = flags)
      writeLines(client())
    }
    Sys.setenv(XLA_FLAGS = "--xla_cpu_enable_fast_math=false")
  })
  child <- run_quiet(try_flags)
  says <- function(why) {
    c(
      "pjrt_error_invalid_value",
      "XLA refuses the environment variable XLA_FLAGS, for which it would end this process.",
      why, "i Correct the variable, or unset it."
    )
  }
  out <- c(
    says("i Unknown flags in XLA_FLAGS: --no_such_flag --nor_this=1"),
    says("i A flag has a wrong value: --xla_cpu_enable_fast_math=perhaps"),
    says(grep("no/such/file", child$out, value = TRUE)), "2 "
  )
  expect_clean(child, out)
  expect_length(grep("no/such/file", child$out), 1L)
})

test_that("messages have the class pjrt_message and can be muffled", {
  withr::local_options(pjrt.verbose = TRUE)
  expect_message(load_plugin(plugin_path("cpu"), "cpu"), "pjrt: loading", class = "pjrt_message")
  expect_silent(suppressMessages(load_plugin(plugin_path("cpu"), "cpu")))
  expect_message(uninstall_pjrt("abacus"), "Nothing to remove", class = "pjrt_message")
  withr::local_options(pjrt.verbose = "yes")
  expect_refused(load_plugin(plugin_path("cpu"), "cpu"), "invalid_input", "pjrt.verbose")
})

test_that("only printing methods, questions, and what programs print, write to the console", {
  namespace <- asNamespace("pjrt")
  functions <- Filter(is.function, mget(ls(namespace, all.names = TRUE), namespace))
  called <- function(code) {
    if (is.call(code)) c(if (is.symbol(code[[1L]])) as.character(code[[1L]]), unlist(lapply(as.list(code), called)))
  }
  calls <- lapply(functions, function(f) called(body(f)))
  with_call <- function(names) names(Filter(function(found) any(names %in% found), calls))
  expect_match(
    with_call(c("cat", "writeLines", "print", "write")),
    "^(print|str)[.]|^(print|str|show)_|^write_output$|^ask_yes$"
  )
  expect_identical(with_call(c("message", "packageStartupMessage")), c("inform", "signal_kept"))
})

test_that("?pjrt_options documents every option and variable in the code", {
  root <- test_path("..", "..")
  files <- c(
    list.files(file.path(root, "R"), full.names = TRUE),
    list.files(
      file.path(root, "src", "rust", c("src", file.path(c("base", "core", "data", "plugins", "program"), "src"))),
      "[.]rs$", recursive = TRUE, full.names = TRUE
    )
  )
  files <- files[!grepl("/(hlo|module|decode)/|(tests?|fixtures|forms)(/|[.]rs$)|pjrt-options.R$", files)]
  lines <- unlist(lapply(files, function(file) {
    code <- readLines(file, encoding = "UTF-8")
    # tests are at the end of a file
    end <- grep("^#\\[cfg\\(.*test", code)
    grep("^ *(#|//)", if (length(end) > 0L) code[seq_len(end[[1L]] - 1L)] else code, value = TRUE, invert = TRUE)
  }))
  found <- function(pattern) unique(unlist(regmatches(lines, gregexpr(pattern, lines, perl = TRUE))))
  page <- paste(readLines(file.path(root, "man", "pjrt_options.Rd")), collapse = "\n")
  is_told <- function(names) vapply(names, function(name) grepl(name, page, fixed = TRUE), NA)

  options <- found("(?<=\")pjrt[.][a-z_]+(?=\")")
  expect_true(all(c("pjrt.verbose", "pjrt.staging_max", "pjrt.manifest") %in% options))
  expect_identical(names(which(!is_told(options))), character())

  no_variables <- c("CARGO_PKG_VERSION", "LC_CTYPE", "PIP_DISABLE_PIP_VERSION_CHECK")
  variables <- setdiff(found("(?<=\")[A-Z]+_[A-Z_]{2,}(?=\")"), no_variables)
  expect_true(all(c("PJRT_DEBUG", "PJRT_CACHE", "PJRT_DISCOVER", "TF_CPP_MIN_LOG_LEVEL") %in% variables))
  expect_identical(names(which(!is_told(variables))), character())
})
