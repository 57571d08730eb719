# Objects in tibbles and object browsers.

test_that("buffers, executables and programs have types in tibbles", {
  skip_if_not_installed("pillar")
  x <- pjrt_buffer(matrix(1:6, 2), "f32")
  program <- pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt"))
  executable <- pjrt_compile(program)
  expect_identical(pillar::type_sum(x), "f32[2x3]")
  expect_identical(pillar::obj_sum(x), "f32[2x3]")
  expect_identical(pillar::type_sum(executable), "executable")
  expect_match(pillar::obj_sum(executable), "^square\\(.*\\) -> ")
  expect_identical(pillar::type_sum(program), "program")
  expect_identical(pillar::obj_sum(program), "program")
  skip_if_not_installed("tibble")
  shown <- capture.output(print(tibble::tibble(name = "w", buffer = list(x))))
  expect_match(shown, "<f32[2x3]>", fixed = TRUE, all = FALSE)
})

test_that("object browsers get lengths, types and names", {
  x <- pjrt_buffer(matrix(1:6, 2), "f32")
  expect_identical(utils::.DollarNames(x, ""), character())
  expect_length(x, 6L)
  expect_output(str(list(w = x)), "$ w: PJRTBuffer f32[2x3]|\\$ w:.*f32\\[2x3\\]")
  path <- withr::local_tempfile(fileext = ".safetensors")
  pjrt_save_safetensors(list(weight = x, bias = x), path)
  file <- pjrt_open_safetensors(path)
  expect_identical(utils::.DollarNames(file, "^w"), "weight")
})
