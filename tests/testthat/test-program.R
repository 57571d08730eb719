text <- "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}"

squares <- function(program, x = c(3, 4), expected = array(x^2)) {
  expect_identical(as_array(pjrt_execute(pjrt_compile(program), pjrt_buffer(x))), expected)
}

test_that("a program can be given as text, lines, bytes or a file", {
  program <- pjrt_program(text)
  expect_identical(class(program), "PJRTProgram")
  squares(program)
  lines <- strsplit(text, "\n")[[1L]]
  squares(pjrt_program(lines))
  squares(pjrt_program(charToRaw(text)))
  squares(pjrt_program(src = text, format = "mlir"))
  path <- withr::local_tempfile(lines = lines)
  squares(pjrt_program(path = path))
  shown <- c(format(pjrt_program(text)), format(pjrt_program(lines)), format(pjrt_program(path = path)))
  expect_identical(unique(shown), shown[[1L]])
})

test_that("a program's size counts the newline added to text", {
  size <- function(x) as.integer(sub(".*code_size=([0-9]+).*", "\\1", format(x)))
  expect_identical(size(pjrt_program(text)), nchar(text) + 1L)
  expect_identical(size(pjrt_program(strsplit(text, "\n")[[1L]])), nchar(text) + 1L)
  expect_identical(size(pjrt_program(charToRaw(text))), nchar(text))
})

test_that("exactly one of src and path must be given", {
  message <- "Either src or path must be provided"
  expect_refused(pjrt_program(), "invalid_input", message)
  expect_refused(pjrt_program(text, "a-file"), "invalid_input", message)
  expect_refused(pjrt_program(NULL), "invalid_input", message)
})

test_that("data that is not a program is refused", {
  for (bad in list(1, NA_character_, list(text), TRUE)) {
    expect_refused(pjrt_program(bad), "invalid_input", "`src` must be the program's text or a raw vector")
  }
  expect_refused(pjrt_program(raw()), "invalid_input", "The program is empty")
  expect_refused(pjrt_program(text, format = "hlo"), "invalid_input", "HloModuleProto")
  expect_refused(pjrt_program(path = file.path(tempdir(), "none.mlir")), "io", "none.mlir")
  expect_refused(pjrt_program(path = tempdir()), "io", "it is not a file")
  expect_refused(pjrt_program(path = 1), "invalid_input", "`path`")
  for (bad in list("text", 1, NA, c("hlo", "mlir"), NULL)) {
    expect_refused(pjrt_program(text, format = bad), "invalid_input", "`format` must be \"mlir\" or \"hlo\"")
  }
})

test_that("a file name given as text is refused", {
  folder <- withr::local_tempdir()
  path <- file.path(folder, "x.mlir")
  expect_refused(pjrt_program(path), "invalid_input", "not the name of a file")
  writeLines(text, path)
  error <- expect_refused(
    pjrt_program(path), "invalid_input", "`src` must be the program's text, not the path of a file"
  )
  expect_match(conditionMessage(error), "`path = `", fixed = TRUE)
  withr::local_dir(folder)
  expect_refused(pjrt_program("x.mlir"), "invalid_input", "not the path of a file: 'x.mlir'")
  squares(pjrt_program(path = "x.mlir"))
  expect_s3_class(pjrt_program("module {} // x.mlir"), "PJRTProgram")
  expect_s3_class(pjrt_program("."), "PJRTProgram")
})

# Prints why a program is refused.
tell <- function(src, ...) {
  tryCatch(pjrt_program(src, ...), pjrt_error_invalid_input = function(e) cat(conditionMessage(e), "\n"))
}

test_that("other formats than StableHLO are recognized", {
  expect_snapshot(cran = TRUE, {
    tell("HloModule m\n\nENTRY main {\n  ROOT x = f32[] parameter(0)\n}")
    tell("import jax\nimport jax.numpy as jnp")
    tell("f = jax.jit(lambda x: x + 1)")
    tell(as.raw(c(0x80, 0x04, 0x95)))
    tell(as.raw(c(0x1f, 0x8b, 0x08)))
    tell(charToRaw("PK\003\004"))
    tell(c(as.raw(c(0x08, 0x01, 0x12)), charToRaw("\ntensorflow")))
    tell(charToRaw("HloModule m"), format = "hlo")
  })
  path <- withr::local_tempfile()
  pjrt_save_safetensors(list(x = pjrt_scalar(1)), path)
  expect_refused(pjrt_program(path = path), "invalid_input", "The data are a safetensors file")
})

test_that("a program nested deep enough to crash compilers is refused", {
  expect_refused(pjrt_program(strrep("(", 1e5)), "invalid_input", "levels deep")
})

test_that("format() returns one string with a program's description and first lines", {
  program <- pjrt_program(text)
  expect_identical(
    format(program), paste0("PJRTProgram(format=mlir, code_size=", nchar(text) + 1L, ")\n", text, "\n")
  )
  expect_identical(
    format(program, n = 2),
    paste0(
      "PJRTProgram(format=mlir, code_size=", nchar(text) + 1L, ")\n",
      paste0(strsplit(text, "\n")[[1L]][1:2], "\n", collapse = ""), "..."
    )
  )
  long <- pjrt_program(c(strsplit(text, "\n")[[1L]], rep("// a comment", 10)))
  expect_match(format(long), "\n...$")
  expect_length(strsplit(format(long), "\n")[[1L]], 12L)
})

test_that("print() shows a program's first lines", {
  program <- pjrt_program(c(strsplit(text, "\n")[[1L]], "// one", "// two"))
  expect_snapshot(program, cran = TRUE)
  expect_snapshot(print(program, n = 2), cran = TRUE)
  expect_snapshot(print(program, n = 100), cran = TRUE)
  lines <- utils::capture.output(expect_invisible(print(program)))
  expect_identical(utils::tail(lines, 1L), "... ")
})

test_that("HLO modules run and print as the text of their proto", {
  program <- pjrt_program(path = fixture("square.hlo.pb"), format = "hlo")
  squares(program, matrix(3), NULL) |> expect_error(class = "pjrt_error_shape_mismatch")
  expect_identical(as_array(pjrt_execute(pjrt_compile(program), pjrt_scalar(3))), 9)
  expect_match(format(program, n = 100), "x\\*x\\.3")
  expect_match(format(program), "^PJRTProgram\\(format=hlo, code_size=164\\)\n")
  expect_snapshot(program, cran = TRUE)
  bytes <- readBin(fixture("square.hlo.pb"), "raw", 1e4)
  expect_identical(format(pjrt_program(bytes, format = "hlo")), format(program))
  # its parameter is the instruction `x.2`
  square <- pjrt_function(program)
  expect_identical(names(formals(square))[[1L]], "x")
  expect_identical(as_array(square(x = 3)), 9)
})

test_that("MLIR bytecode and portable artifacts run", {
  x <- matrix(c(1, 2, 3, 4), 2)
  for (name in c("square.mlirbc", "square.artifact")) {
    program <- pjrt_program(path = fixture(name))
    squares(program, x, x^2)
    squares(pjrt_program(readBin(fixture(name), "raw", 1e4)), x, x^2)
    expect_match(format(program), sprintf("code_size=%d)", file.size(fixture(name))), fixed = TRUE)
    expect_output(print(program), "PJRTProgram")
  }
})

test_that("MLIR bytecode with aligned resources runs", {
  x <- matrix(c(1, 2, 3, 4), 2)
  squares(pjrt_program(path = fixture("resource.mlirbc")), x, x^2)
})

test_that("sizes inside a program that follow from its arguments are fixed", {
  text <- function(operation) {
    sprintf("func.func @main(%%x: tensor<3x4xf32>) -> tensor<?x4xf32> {
  %%0 = stablehlo.convert %%x : (tensor<3x4xf32>) -> tensor<?x4xf32>
  %%1 = stablehlo.get_dimension_size %%0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %%2 = stablehlo.reshape %%1 : (tensor<i32>) -> tensor<1xi32>
  %%four = stablehlo.constant dense<4> : tensor<1xi32>
  %%3 = stablehlo.concatenate %%2, %%four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %%one = stablehlo.constant dense<1.0> : tensor<f32>
  %%4 = stablehlo.dynamic_broadcast_in_dim %%one, %%3, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
  %%5 = %s
  return %%5 : tensor<?x4xf32>
}", operation)
  }
  x <- matrix(1:12, 3)
  executable <- compile(text("stablehlo.add %0, %4 : tensor<?x4xf32>"))
  expect_equal(as_array(pjrt_execute(executable, pjrt_buffer(x, "f32"))), x + 1)
  unknown <- "stablehlo.custom_call @other(%4) : (tensor<?x4xf32>) -> tensor<?x4xf32>"
  expect_error(compile(text(unknown)), "custom_call", class = "pjrt_error")
})

test_that("the upper half of a product is computed on plugins without `chlo.mulhi`", {
  cases <- list(
    i8 = c(-128, 127, -128, -1, 5, 100), ui8 = c(255, 255, 128, 1, 7, 200),
    i32 = c(-2^31 + 1, 2^31 - 1, -2^31, -1, 1e9, 3),
    ui32 = c(2^32 - 1, 2^32 - 1, 2^31, 1, 123456789, 4e9), i64 = c(2^62, -2^62, 2^53, -2^40, 2^33, -2^34)
  )
  for (dtype in names(cases)) {
    x <- cases[[dtype]]
    type <- tensor(dtype, length(x))
    high <- compile(sprintf("func.func @main(%%x: %s, %%y: %s) -> %s {
      %%0 = chlo.mulhi %%x, %%y : %s, %s -> %s
      return %%0 : %s
    }", type, type, type, type, type, type, type))
    got <- as_array(pjrt_execute(high, pjrt_buffer(x, dtype), pjrt_buffer(rev(x), dtype)), int64 = "double")
    bits <- as.numeric(gsub("[^0-9]", "", dtype))
    expect_equal(as.numeric(got), floor(x * rev(x) / 2^bits), info = dtype)
  }
})

test_that("truncated bytecode raises a compiler error", {
  bytes <- readBin(fixture("square.mlirbc"), "raw", 100)
  expect_error(pjrt_compile(pjrt_program(bytes)), class = "pjrt_error")
})

square_any <- "func.func @main(%x: tensor<{X}>) -> tensor<{X}> {
  %0 = stablehlo.multiply %x, %x : tensor<{X}>
  return %0 : tensor<{X}>
}"

test_that("`types` fills in names as strings, dimensions or the types of buffers", {
  filled <- format(pjrt_program(gsub("{X}", "2xf32", square_any, fixed = TRUE)), n = Inf)
  shown <- function(src, ...) format(pjrt_program(src, ...), n = Inf)
  expect_identical(shown(square_any, types = list(X = "2xf32")), filled)
  expect_identical(shown(square_any, types = c(X = "2xf32")), filled)
  expect_identical(shown(square_any, types = list(X = pjrt_buffer(c(1, 2)))), filled)
  whole <- gsub("tensor<{X}>", "{TYPE}", square_any, fixed = TRUE)
  expect_identical(shown(whole, types = list(TYPE = "tensor<2xf32>")), filled)
  sized <- gsub("{X}", "{n_1}x{ELEMENT}", square_any, fixed = TRUE)
  for (size in list(2, 2L, "2")) {
    expect_identical(shown(sized, types = list(ELEMENT = "f32", n_1 = size)), filled)
  }
  squares(pjrt_program(square_any, types = list(X = "2xf32")))
  expect_identical(shown(text, types = list()), shown(text))
})

test_that("`types` fills in text from lines, bytes and files", {
  lines <- strsplit(square_any, "\n")[[1L]]
  path <- withr::local_tempfile(lines = lines)
  squares(pjrt_program(lines, types = c(X = "2xf32")))
  squares(pjrt_program(charToRaw(square_any), types = c(X = "2xf32")))
  squares(pjrt_program(path = path, types = c(X = "2xf32")))
  commented <- paste0("// caf\u00e9 {X} \u4e2d\n", square_any)
  squares(pjrt_program(commented, types = c(X = "2xf32")))
  expect_match(format(pjrt_program(commented, types = c(X = "2xf32"))), "// caf\u00e9 2xf32 \u4e2d\n", fixed = TRUE)
})

test_that("`types` writes dimensions and types of every kind as StableHLO does", {
  type <- function(x) {
    sub(".*<|>.*", "", sub("\n.*", "", sub("^[^\n]*\n", "", format(pjrt_program("// <{X}|", types = list(X = x))))))
  }
  expect_identical(type(c(100, 4)), "100x4|")
  expect_identical(type(dim(matrix(0, 3, 5))), "3x5|")
  expect_identical(type(1e5), "100000|")
  expect_identical(type(c(1e15, 1)), "1000000000000000x1|")
  expect_identical(type(0L), "0|")
  for (dtype in c("i8", "ui32", "f64", "bf16")) {
    expect_identical(type(pjrt_buffer(matrix(1, 2, 3), dtype)), paste0("2x3x", dtype, "|"))
  }
  # as the type of a whole program, because the complex type has angle brackets itself
  for (x in list(pjrt_buffer(TRUE), pjrt_scalar(1i), pjrt_buffer(array(1i, 1:3), "c128"), pjrt_buffer(1, "f8e4m3fn"))) {
    same <- pjrt_compile(pjrt_program(
      "func.func @main(%x: tensor<{X}>) -> tensor<{X}> { return %x : tensor<{X}> }", types = list(X = x)
    ))
    expect_identical(as_array(pjrt_execute(same, x)), as_array(x))
  }
})

test_that("braces that are not names in `types` stay", {
  program <- "module attributes {mhlo.num_partitions = 1 : i32, unit} {
    func.func @main(%x: tensor<{X}> {tf.aliasing_output = 0 : i32}, %y: tensor<{X}> {jax.arg}) -> tensor<{X}> {
      %0 = \"stablehlo.custom_call\"(%y) <{call_target_name = \"a\", has_side_effect}> {X2} : (tensor<{X}>) -> tensor<{X}>
      // {} {{X}} { X } {1X} {X-} {X} tensor<2xf32, {X3}>
      return %x : tensor<{X}>
    }
  }"
  expected <- gsub("{X}", "2xf32", program, fixed = TRUE)
  shown <- format(pjrt_program(program, types = list(X = "2xf32")), n = Inf)
  expect_identical(shown, format(pjrt_program(expected), n = Inf))
  donating <- add_program("{X}", donates)
  added <- pjrt_compile(pjrt_program(donating, types = list(X = "2xf32")))
  expect_identical(as_array(pjrt_execute(added, pjrt_buffer(c(1, 2)), pjrt_buffer(c(3, 4)))), array(c(4, 6)))
})

test_that("inserted text is not searched for names of `types`", {
  program <- pjrt_program("// {A} {B}", types = list(A = "{B}", B = "{A}"))
  expect_match(format(program), "\n// {B} {A}\n", fixed = TRUE)
})

test_that("names without a type and types without a name are refused", {
  refused <- function(src, types, message) expect_refused(pjrt_program(src, types = types), "invalid_input", message)
  refused(square_any, c(Y = "2xf32"), "The program has names that `types` lacks: {X}.")
  refused(square_any, c(Y = "2xf32"), "`types` has names that the program does not use: Y.")
  refused(square_any, list(X = "2xf32", Y = 1, Z = 2), "the program does not use: Y, Z.")
  refused("tensor<2x{A}x{B}xf32> dense<[{C}, 2]> tensor<{A}> {X}", list(X = ""), "`types` lacks: {A}, {B}, {C}.")
  refused("dense<{X}>", list(X = "{Y}>: tensor<{Z}"), "`types` lacks: {Y}, {Z}.")
  bytecode <- readBin(fixture("square.mlirbc"), "raw", 1e4)
  refused(bytecode, list(X = "2"), "does not use: X.")
  expect_refused(
    pjrt_program(path = fixture("square.hlo.pb"), format = "hlo", types = c(X = "2")), "invalid_input",
    "not an HLO module"
  )
})

test_that("errors about `types` list the names", {
  expect_snapshot(cran = TRUE, {
    tell(square_any, types = list(Y = "2xf32"))
    tell(square_any, types = list(X = "2xf32", Z = "3"))
    tell(square_any, types = list(X = 1.5))
    tell(square_any, types = "2xf32")
    tell(square_any, types = list(X = "1", X = "2"))
  })
})

test_that("an error of the compiler suggests `types` for a name that is left", {
  error <- expect_refused(pjrt_compile(pjrt_program(square_any)), "compile", "does not compile")
  expect_match(conditionMessage(error), "Give pjrt_program(types = ) the text for `{X}`.", fixed = TRUE)
  error <- expect_refused(pjrt_compile(pjrt_program(sub("{X}", "2xf33", square_any, fixed = TRUE))), "compile", "")
  expect_no_match(conditionMessage(error), "types = ", fixed = TRUE)
})

test_that("`types` with other values or names are refused", {
  for (
    bad in list(TRUE, 1, "1", list("1"), list(X = "1", X = "2"), c(`a b` = "1"), list(`1` = "1"), mtcars, quote(x))
  ) {
    expect_refused(pjrt_program(square_any, types = bad), "invalid_input", "`types` must ")
  }
  for (
    bad in list(NULL, NA, NA_character_, c("a", "b"), 1.5, -1, c(1, NA), Inf, numeric(), list(), factor("a"), TRUE, 1i)
  ) {
    expect_refused(
      pjrt_program(square_any, types = list(X = bad)), "invalid_input",
      "`types$X` must be a string, dimensions or a buffer, not "
    )
  }
  gone <- pjrt_buffer(1)
  pjrt_delete(gone)
  expect_match(format(pjrt_program("// {X}", types = list(X = gone))), "// 1xf32", fixed = TRUE)
})

test_that("as.character() returns the whole text of a program, and decodes bytecode", {
  expect_identical(as.character(pjrt_program(text)), paste0(text, "\n"))
  x <- matrix(c(1, 2, 3, 4), 2)
  for (name in c("square.mlirbc", "square.artifact", "resource.mlirbc")) {
    decoded <- as.character(pjrt_program(path = fixture(name)))
    expect_match(decoded, "stablehlo.multiply")
    squares(pjrt_program(decoded), x, x^2)
  }
  for (path in c(system.file("exported", "network.jaxexport", package = "pjrt"), fixture("exported/tree.jaxexport"))) {
    program <- pjrt_program(path = path)
    again <- pjrt_program(as.character(program))
    run <- function(program) {
      executable <- pjrt_compile(program)
      inputs <- lapply(executable_info(executable)$inputs$shape, function(dims) {
        pjrt_buffer(array(seq_len(prod(dims)) / 8, if (length(dims)) dims else 1L), "f32", shape = dims)
      })
      lapply(do.call(pjrt_execute, c(list(executable), inputs, simplify = FALSE)), as_array)
    }
    expect_identical(run(again), run(program))
  }
  expect_match(as.character(pjrt_program(path = fixture("square.hlo.pb"), format = "hlo")), "x\\*x\\.3")
})

test_that("bytecode that cannot be decoded raises a classed error", {
  bytes <- readBin(fixture("square.artifact"), "raw", 1e4)
  # another operation of the same length
  at <- grepRaw("multiply_v1", bytes)
  bytes[at + 0:10] <- charToRaw("multiplx_v1")
  error <- expect_refused(as.character(pjrt_program(bytes)), "unsupported_program", "operation vhlo.multiplx_v1")
})

test_that("what was downloaded instead of a model is named by every reader", {
  folder <- withr::local_tempdir()
  written <- function(bytes) {
    path <- tempfile(tmpdir = folder)
    writeBin(bytes, path)
    path
  }
  packed <- tempfile(tmpdir = folder)
  con <- gzfile(packed, "wb")
  writeBin(as.raw(1:100), con)
  close(con)
  files <- list(
    `Git LFS` = written(charToRaw("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")),
    HTML = written(charToRaw("<!DOCTYPE html>\n<html><head><title>404</title></head></html>")), gzip = packed,
    `UTF-16` = written(as.raw(c(0xff, 0xfe, rbind(utf8ToInt("module {}"), 0L)))),
    `UTF-16` = written(as.raw(rbind(utf8ToInt("module {}"), 0L)))
  )
  readers <- list(
    function(path) pjrt_program(path = path), pjrt_load_exported, pjrt_load_safetensors, pjrt_open_safetensors,
    pjrt_load_npy, pjrt_map_file, pjrt_load_executable, function(path) pjrt_register_plugin("other", path)
  )
  for (name in names(files)) {
    for (i in seq_along(readers)) {
      error <- tryCatch(readers[[i]](files[[name]]), error = identity)
      expect_s3_class(error, "pjrt_error_invalid_input")
      # a library may be in a compressed file of any kind
      wanted <- if (i == length(readers)) sub("gzip", "compressed", name) else name
      expect_match(conditionMessage(error), wanted, fixed = TRUE, info = paste(name, i))
    }
  }
  zip <- written(as.raw(c(0x50, 0x4b, 3, 4, rep(0, 60))))
  for (reader in readers[c(1:4, 7, 8)]) expect_error(reader(zip), "zip archive", class = "pjrt_error_invalid_input")
})

test_that("a byte order mark is skipped, and a NUL character counts as a space", {
  text <- unary_program("f32")
  marked <- c(as.raw(c(0xef, 0xbb, 0xbf)), charToRaw(text))
  path <- withr::local_tempfile()
  writeBin(marked, path)
  for (program in list(pjrt_program(marked), pjrt_program(path = path), pjrt_program(paste0("\ufeff", text)))) {
    expect_identical(as_array(pjrt_execute(pjrt_compile(program), pjrt_scalar(2))), 4)
  }
  with_nul <- pjrt_program(c(charToRaw(text), as.raw(0)))
  expect_identical(as.character(with_nul), paste0(text, " "))
  expect_output(print(with_nul), "PJRTProgram(format=mlir", fixed = TRUE)
  named <- compile("func.func @main(%x: tensor<f32> loc(\"a\\00b\")) -> tensor<f32> { return %x : tensor<f32> }")
  expect_output(print(named), "f32[]", fixed = TRUE)
})

test_that("modules of newer XLA keep the order of comparisons", {
  x <- c(3, NaN, 0, -Inf, Inf, 1, NaN)
  program <- pjrt_program(path = test_path("fixtures", "sorted.hlo.pb"), format = "hlo")
  sorted <- as_array(pjrt_execute(pjrt_compile(program), pjrt_buffer(x, "f32")))
  expect_identical(c(sorted), c(-Inf, 0, 1, 3, Inf, NaN, NaN))
})

test_that("a serialized HLO module without its format is named", {
  expect_refused(
    pjrt_program(path = test_path("fixtures", "square.hlo.pb")), "invalid_file",
    "a serialized HloModuleProto, not MLIR.\ni Read it with `format = \"hlo\"`."
  )
})

test_that("a program's text is the same after it was read again", {
  text <- as.character(pjrt_program("func.func @main() { return }"))
  expect_identical(as.character(pjrt_program(text)), text)
})

test_that("numbers at the end of a text are found, and lacking ones are explained", {
  text <- function(name) {
    sprintf(r"(func.func @main() -> tensor<2xf32> {
  %%0 = stablehlo.constant dense_resource<%s> : tensor<2xf32>
  return %%0 : tensor<2xf32>
}
{-# dialect_resources: { builtin: { a: "0x040000000000803F00000040" } } #-})", name)
  }
  expect_equal(c(as_array(pjrt_execute(pjrt_compile(pjrt_program(text("a")))))), c(1, 2))
  expect_error(pjrt_compile(pjrt_program(text("__elided__"))), "The text lacks the numbers of its constants")
})
