# Bad input that the tables in test-bad-input-*.R do not cover.

# The names of `rows` in a test file.
row_names <- function(file) {
  tables <- Filter(function(code) is.call(code) && identical(code[1:2], quote(rows <- NULL)[1:2]), as.list(parse(file)))
  names(tables[[1L]][[3L]])[-1L]
}

test_that("every exported function and every method of our classes has one row in one test file", {
  files <- list.files(test_path(), "^test-bad-input-.*[.]R$", full.names = TRUE)
  rows <- unlist(lapply(files, row_names))
  methods <- registered_methods()
  ours <- methods$name[is_our_class(methods$class)]
  exported <- getNamespaceExports("pjrt")
  expect_identical(setdiff(c(exported, ours), rows), character())
  # newer versions of R have primitives where older ones get generics of ours
  expect_identical(setdiff(rows, c(exported, methods$name, "crossprod", "tcrossprod")), character())
  expect_identical(rows[duplicated(rows)], character())
})

test_that("a pipe in place of a file is refused without waiting for it", {
  pipe <- withr::local_tempfile()
  expect_identical(system2("mkfifo", shQuote(pipe)), 0L)
  child <- run_child(env = c(
    PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0", PJRT_CACHE = "0", PIPE = pipe
  ), quote({
    pipe <- Sys.getenv("PIPE")
    x <- pjrt_scalar(1)
    same <- pjrt_compile(pjrt_program("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"))
    uses <- alist(
      pjrt_program(path = pipe), pjrt_load_executable(pipe), pjrt_save_executable(same, pipe),
      pjrt_load_safetensors(pipe),
      safetensors_info(pipe), pjrt_save_safetensors(list(x = x), pipe), pjrt_register_plugin("a", pipe),
      install_pjrt("a", source = "file", path = pipe)
    )
    for (use in uses) cat(class(tryCatch(eval(use), error = identity))[[1L]], "\n")
    options(pjrt.manifest = pipe)
    cat(class(tryCatch(install_pjrt("a", source = "release"), error = identity))[[1L]], "\n")
  }))
  expect_clean(child, paste0("pjrt_error_", c(rep("io", 6L), "plugin_invalid", "io", "io"), " "))
})

test_that("error messages describe any given value in a few words", {
  values <- c(plain_values(), list(`a buffer` = pjrt_scalar(1), `"a \\"b\\""` = "a \"b\""))
  expect_snapshot(for (name in names(values)) cat(name, ": ", pjrt:::given(values[[name]]), "\n", sep = ""))
})
