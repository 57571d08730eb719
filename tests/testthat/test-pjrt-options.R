# What R code and the help page say about options and variables.

page <- function() paste(unlist(tools::Rd_db("pjrt")[["pjrt_options.Rd"]]), collapse = "")

# The words in the code of all functions that match a pattern.
words_in_code <- function(pattern) {
  namespace <- asNamespace("pjrt")
  functions <- Filter(is.function, mget(ls(namespace, all.names = TRUE), namespace))
  strings <- function(code) {
    if (is.character(code)) code else if (is.call(code) || is.pairlist(code)) unlist(lapply(as.list(code), strings))
  }
  found <- unlist(lapply(functions, function(f) c(strings(formals(f)), strings(body(f)))))
  unique(found[grepl(pattern, found)])
}

test_that("the help page lists the options and variables that R code reads", {
  options <- words_in_code("^pjrt[.][a-z_]+$")
  variables <- words_in_code("^PJRT_[A-Z_]+$")
  expect_true(all(c("pjrt.print_max_rows", "pjrt.verbose") %in% options))
  expect_true("PJRT_INSTALL" %in% variables)
  listed <- page()
  is_listed <- function(word) grepl(word, listed, fixed = TRUE)
  expect_identical(Filter(Negate(is_listed), c(options, variables)), character())
})

test_that("every documented option is checked or used", {
  listed <- page()
  documented <- unique(regmatches(listed, gregexpr("pjrt[.][a-z_]+", listed))[[1L]])
  x <- pjrt_buffer(c(1, 2))
  # only separate compilers have limits
  withr::local_options(pjrt.compile = "apart")
  # code that reads the option, and fails for another type
  readers <- alist(
    pjrt.cache = pjrt_cache_info(), pjrt.cache_max_size = pjrt_cache_info(), pjrt.check = pjrt_buffer(NA),
    pjrt.default_float = pjrt_buffer(1), pjrt.default_int = pjrt_buffer(1L),
    pjrt.dispatch = compile(unary_program("f32")), pjrt.compile = compile(unary_program("f32")),
    pjrt.compile_memory = compile(unary_program("f32")), pjrt.compile_timeout = compile(unary_program("f32")),
    pjrt.operators_max = pjrt_cache_info(),
    pjrt.progress = shows_progress(),
    pjrt.print_style = print(x), pjrt.index_url = install_pjrt("cpu", force = TRUE),
    pjrt.manifest = install_pjrt("cpu"), pjrt.print_max_rows = print(x),
    pjrt.print_max_rows_slice = print(x), pjrt.print_max_width = print(x), pjrt.staging_max = pjrt_memory_stats(),
    pjrt.serialize = as_array(unserialize(serialize(x, NULL))),
    pjrt.verbose = load_plugin(plugin_path("cpu"), "cpu")
  )
  expect_setequal(names(readers), documented)
  expect_lte(length(documented), 20L)
  for (option in names(readers)) {
    # an error would lose what is saved
    refused <- if (option == "pjrt.serialize") expect_warning else expect_error
    class <- if (option == "pjrt.serialize") "pjrt_warning" else "pjrt_error"
    withr::with_options(
      stats::setNames(list(list("x")), option),
      refused(utils::capture.output(eval(readers[[option]])), class = class, info = option)
    )
  }
})
