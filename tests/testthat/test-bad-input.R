# What is on the machine is out of reach: nothing can be fetched, and what is installed or removed is in a folder of the test.
local_place <- function(env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  work <- file.path(folder, "a/b")
  dir.create(work, recursive = TRUE)
  withr::local_dir(work, .local_envir = env)
  withr::local_envvar(
    R_USER_CACHE_DIR = file.path(folder, "cache"), PJRT_INSTALL = "0", PJRT_INDEX_URL = "http://127.0.0.1:9/simple",
    PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_PLUGIN_URL_CPU = "http://127.0.0.1:9/cpu", .local_envir = env
  )
  local_manifest(folder, env = env)
}

test_that("every exported function and every method of our classes has a row, and no other", {
  methods <- registered_methods()
  ours <- methods$name[is_our_class(methods$class)]
  exported <- getNamespaceExports("pjrt")
  expect_identical(setdiff(c(exported, ours), names(input_rows())), character())
  expect_identical(setdiff(names(input_rows()), c(exported, methods$name)), character())
})

test_that("every argument is in its row", {
  rows <- input_rows()
  missed <- lapply(names(rows), function(name) {
    arguments <- setdiff(names(formals(getFromNamespace(name, "pjrt"))), "...")
    given <- names(rows[[name]]$arguments)
    # those without a name are for the first arguments that are not named, or for `...`
    sprintf("%s(%s)", name, setdiff(arguments, given)[-seq_len(sum(!nzchar(given)))])
  })
  expect_identical(unlist(missed), character())
})

test_that("bad input ends as an error of ours, and nowhere else", {
  local_place()
  o <- input_objects()
  withr::defer(unlink(o$folder, recursive = TRUE))
  tried <- try_inputs(input_cases(o), o)
  tell <- function(rows) with(tried[rows, ], sprintf("%s(%s) given %s: %s%s", name, argument, value, message, warning))
  expect_identical(tell(tried$class == "foreign"), character())
  expect_identical(tell(nzchar(tried$warning)), character())
  expect_identical(tell(tried$class == "accepted" & !tried$right), character())
  expect_identical(tell(tried$class != "accepted" & tried$right), character())
  expect_gt(nrow(tried), 15000)

  # all is as it was
  expect_identical(as_array(pjrt_execute(o$add, o$x, o$x)), array(c(2, 4), 2L))
  expect_identical(lapply(pjrt_execute_sharded(o$both, list(o$x, o$z)), as_array), rep(list(array(c(4, 6), 2L)), 2L))
  expect_identical(names(o$opened), c("x", "y"))
  expect_snapshot(cat(refusals(tried)))
})

test_that("nobody waits for a pipe", {
  pipe <- withr::local_tempfile()
  expect_identical(system2("mkfifo", shQuote(pipe)), 0L)
  child <- run_child(env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0", PJRT_CACHE = "0", PIPE = pipe), quote({
    pipe <- Sys.getenv("PIPE")
    x <- pjrt_scalar(1)
    same <- pjrt_compile(pjrt_program("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"))
    uses <- alist(
      pjrt_program(path = pipe), pjrt_load_executable(pipe), pjrt_save_executable(same, pipe), safetensors_load(pipe),
      safetensors_info(pipe), safetensors_save(list(x = x), pipe), pjrt_register_plugin("a", pipe),
      install_pjrt("a", source = "file", path = pipe)
    )
    for (use in uses) cat(class(tryCatch(eval(use), error = identity))[[1L]], "\n")
    options(pjrt.manifest = pipe)
    cat(class(tryCatch(install_pjrt("a", source = "release"), error = identity))[[1L]], "\n")
  }))
  expect_clean(child, paste0("pjrt_error_", c(rep("io", 6L), "plugin_invalid", "io", "io"), " "))
})

test_that("what was given is told in a few words", {
  values <- c(plain_values(), list(`a buffer` = pjrt_scalar(1), `"a \\"b\\""` = "a \"b\""))
  expect_snapshot(for (name in names(values)) cat(name, ": ", pjrt:::given(values[[name]]), "\n", sep = ""))
})
