# Programs that reuse the memory of donated inputs.
# Slow: compiles many programs.

# x + y, donating x, in every program format and with both attributes.
donating_programs <- function(type) {
  text <- function(attribute) pjrt_program(add_program(type, sprintf(" {%s}", attribute)))
  file <- function(name, format = "mlir") pjrt_program(path = fixture(name), format = format)
  programs <- list(
    `tf.aliasing_output` = text("tf.aliasing_output = 0 : i32"), jax.buffer_donor = text("jax.buffer_donor = true")
  )
  if (type != "2x3x4xf64") {
    return(programs)
  }
  c(programs, list(
    bytecode = file("donating.mlirbc"), `bytecode, donor` = file("donor.mlirbc"),
    `HLO, donor` = file("donor.hlo.pb", "hlo")
  ))
}

test_that("a donated buffer is refused by every reader, for any rank and form of program", {
  for (type in c("f64", "24xf64", "4x6xf64", "2x3x4xf64", "1x2x3x2x2xf64")) {
    dims <- as.integer(strsplit(sub("x?f64", "", type), "x")[[1L]])
    programs <- donating_programs(type)
    for (form in names(programs)) {
      add <- pjrt_compile(programs[[form]])
      expect_identical(executable_info(add)$inputs$donated, c(TRUE, FALSE), label = form)
      x <- pjrt_buffer(1, "f64", shape = dims)
      y <- pjrt_buffer(2, "f64", shape = dims)
      out <- pjrt_execute(add, x, y)
      for (reader in readers) {
        error <- expect_refused(eval(reader), "deleted_buffer", "called on deleted or donated buffer")
        expect_match(conditionMessage(error), "pjrt_execution_options(keep_inputs = )", fixed = TRUE)
      }
      # dtype, shape and device remain available
      expect_identical(shape(x), dims)
      expect_true(elt_type(x) == "f64")
      expect_identical(device(x), devices("cpu")[[1L]])
      expect_output(str(x), "f64", fixed = TRUE)
      rm(x)
      gc()
      expect_identical(as.vector(out), rep(3, prod(dims)))
      expect_identical(as.vector(y), rep(2, prod(dims)))
    }
  }
})

test_that("a donated input's memory holds the output, and R counts it there", {
  counted <- function(x) as.numeric(object.size(x))
  for (type in c("1000xf64", "20x50xf64")) {
    dims <- if (type == "1000xf64") 1000L else c(20L, 50L)
    x <- pjrt_buffer(as.double(1:1000), "f64", shape = dims)
    expect_gte(counted(x), 8000)
    out <- pjrt_execute(compile(add_program(type, donates)), x, pjrt_buffer(1, "f64", shape = dims))
    expect_gte(counted(out), 8000)
    expect_lt(counted(x), 1024)
    expect_identical(as_array(out), array(2:1001 + 0, dims))
  }
})

test_that("inputs are kept by name and by number from 1", {
  add <- compile(add_program("4xf32", donates))
  for (keep in list("x", "%x", c("%y", "x"), 1, 1L, c(2, 1))) {
    x <- pjrt_buffer(1:4, "f32")
    out <- pjrt_execute(add, x, x, execution_options = pjrt_execution_options(keep_inputs = keep))
    expect_identical(as_array(out), array(2 * 1:4))
    expect_false(is_deleted(x))
  }
  # together with non_donatable_input_indices, which counts from 0
  both <- pjrt_execution_options(0L, keep_inputs = 1L)
  expect_identical(as_array(pjrt_execute(add, x, x, execution_options = both)), array(2 * 1:4))
  y <- pjrt_buffer(1:4, "f32")
  for (keep in list("y", 2, character(), integer(), NULL)) {
    x <- pjrt_buffer(1:4, "f32")
    pjrt_execute(add, x, y, execution_options = pjrt_execution_options(keep_inputs = keep))
    expect_true(is_deleted(x))
    expect_false(is_deleted(y))
  }
})

test_that("inputs to keep must be inputs of the program, each given once", {
  for (
    bad in list(NA, NA_character_, NA_real_, c("x", NA), "", 0, -1, 1.5, Inf, 2^31, TRUE, list("x"), factor("x"), mean)
  ) {
    expect_refused(
      pjrt_execution_options(keep_inputs = bad), "invalid_input",
      "`keep_inputs` must be names of inputs, or whole numbers from 1"
    )
  }
  expect_refused(pjrt_execution_options(keep_inputs = c("x", "x")), "invalid_input", "duplicates: got x twice")
  expect_refused(pjrt_execution_options(keep_inputs = c(1, 2, 2)), "invalid_input", "duplicates: got 2 twice")
  expect_refused(pjrt_execution_options(keep_inputs = "\xe9"), "invalid_input", "UTF-8")

  add <- compile(add_program("4xf32", donates))
  expect_kept_refused <- function(keep, message, executable = add) {
    x <- pjrt_buffer(1:4, "f32")
    options <- pjrt_execution_options(keep_inputs = keep)
    expect_refused(pjrt_execute(executable, x, x, execution_options = options), "invalid_input", message)
    expect_false(is_deleted(x))
  }
  expect_kept_refused(3, "`keep_inputs` has the number 3, but the program takes 2 arguments.")
  expect_kept_refused(
    c("x", "z"), "`keep_inputs` names the argument `z`, which the program does not have. Its arguments are `%x`, `%y`."
  )
  expect_kept_refused(c("x", "%x"), "`keep_inputs` names the argument `%x` twice.")
  expect_kept_refused("x", "`keep_inputs` names the argument `x`, but the program takes no arguments.", compile(
    "func.func @main() -> tensor<f32> {\n  %0 = stablehlo.constant dense<1.0> : tensor<f32>\n  return %0 : tensor<f32>\n}"
  ))
  inputs <- paste0("%a", 1:12, ": tensor<f32>", collapse = ", ")
  many <- compile(sprintf("func.func @main(%s) -> tensor<f32> {\n  return %%a1 : tensor<f32>\n}", inputs))
  expect_kept_refused("b", "`%a9`, `%a10` and 2 more.", many)
})

test_that("inputs of a program in bytecode are kept by the compiler's names and by number", {
  add <- pjrt_compile(pjrt_program(path = fixture("donating.mlirbc")))
  expect_identical(executable_info(add)$inputs$name, c("Arg_0.1", "Arg_1.1"))
  x <- pjrt_buffer(1, "f64", shape = c(2, 3, 4))
  y <- pjrt_buffer(2, "f64", shape = c(2, 3, 4))
  expect_refused(
    pjrt_execute(add, x, y, execution_options = pjrt_execution_options(keep_inputs = "x")), "invalid_input",
    "`keep_inputs` names the argument `x`, which the program does not have. Its arguments are `Arg_0.1`, `Arg_1.1`."
  )
  for (keep in list("Arg_0.1", 1)) {
    out <- pjrt_execute(add, x, y, execution_options = pjrt_execution_options(keep_inputs = keep))
    expect_identical(as.vector(out), rep(3, 24))
    expect_identical(as.vector(x), rep(1, 24))
  }
})

test_that("an input listed as not donatable keeps its buffer", {
  add <- compile(add_program("4xf32", donates))
  x <- pjrt_buffer(c(1, 2, 3, 4))
  keep <- pjrt_execution_options(0L)
  out <- pjrt_execute(add, x, x, execution_options = keep)
  again <- pjrt_execute(add, x, out, execution_options = keep)
  expect_identical(as_array(x), array(c(1, 2, 3, 4)))
  expect_identical(as_array(out), array(c(2, 4, 6, 8)))
  expect_identical(as_array(again), array(c(3, 6, 9, 12)))
  # an index of another input has no effect
  pjrt_execute(add, x, out, execution_options = pjrt_execution_options(1L))
  expect_refused(as_array(x), "deleted_buffer")
})

test_that("donating a buffer twice in one call is refused and leaves it usable", {
  add <- compile(add_program("4xf32", donates))
  x <- pjrt_buffer(c(1, 2, 3, 4))
  error <- expect_refused(pjrt_execute(add, x, x), "invalid_input", "donate the same buffer twice")
  expect_match(conditionMessage(error), "argument 1 (`%x`) and argument 2 (`%y`)", fixed = TRUE)
  expect_identical(as_array(x), array(c(1, 2, 3, 4)))
  both <- compile("func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32},
      %y: tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    %1 = stablehlo.multiply %x, %y : tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }")
  y <- pjrt_buffer(c(3, 4))
  expect_refused(pjrt_execute(both, y, y), "invalid_input", "donate the same buffer twice")
  out <- pjrt_execute(both, y, pjrt_buffer(c(5, 6)))
  expect_identical(lapply(out, as_array), list(array(c(8, 10)), array(c(15, 24))))
})

test_that("two inputs may be donated to each other's outputs", {
  swapped <- compile("func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 1 : i32},
      %y: tensor<2xf32> {tf.aliasing_output=0:i32}) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    %1 = stablehlo.multiply %x, %y : tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }")
  expect_identical(.Call(ffi_executable_aliases, swapped), c(1L, 0L))
  x <- pjrt_buffer(c(3, 4))
  y <- pjrt_buffer(c(5, 6))
  out <- pjrt_execute(swapped, x, y)
  expect_identical(lapply(out, as_array), list(array(c(8, 10)), array(c(15, 24))))
  expect_refused(as_array(x), "deleted_buffer")
  expect_refused(as_array(y), "deleted_buffer")
})

test_that("output indices with two digits are recognized", {
  n <- 12L
  arguments <- sprintf("%%a%d: tensor<2xf32> {tf.aliasing_output = %d : i32}", 0:11, 11:0)
  sums <- sprintf("  %%r%d = stablehlo.add %%a%d, %%a%d : tensor<2xf32>", 0:11, 11:0, 11:0)
  types <- paste(rep("tensor<2xf32>", n), collapse = ", ")
  executable <- compile(c(
    sprintf("func.func @main(%s) -> (%s) {", paste(arguments, collapse = ", "), types), sums,
    sprintf("  return %s : %s", paste0("%r", 0:11, collapse = ", "), types), "}"
  ))
  expect_identical(.Call(ffi_executable_aliases, executable), 11:0)
  inputs <- lapply(1:12, function(i) pjrt_buffer(c(i, -i) + 0))
  out <- do.call(pjrt_execute, c(list(executable), inputs))
  expect_identical(lapply(out, function(x) as_array(x)[[1L]]), as.list(2 * (12:1)))
  for (x in inputs) expect_refused(as_array(x), "deleted_buffer")
})

test_that("only attributes of the main function donate inputs", {
  executable <- compile("// tf.aliasing_output = 0 : i32
  func.func private @main2(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @main2(%x) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }")
  expect_identical(.Call(ffi_executable_aliases, executable), NA_integer_)
  x <- pjrt_buffer(c(1, 2))
  expect_identical(as_array(pjrt_execute(executable, x)), array(c(2, 4)))
  expect_identical(as_array(x), array(c(1, 2)))
})

test_that("aliases in an HLO module donate like those in a StableHLO program", {
  executable <- pjrt_compile(pjrt_program(path = fixture("donating.hlo.pb"), format = "hlo"))
  expect_identical(.Call(ffi_executable_aliases, executable), c(1L, NA))
  x <- pjrt_buffer(c(1, 2, 3, 4))
  y <- pjrt_buffer(c(10, 20, 30, 40))
  out <- pjrt_execute(executable, x, y)
  expect_identical(lapply(out, as_array), list(array(c(11, 22, 33, 44)), array(c(10, 40, 90, 160))))
  expect_identical(as_array(x), array(c(1, 2, 3, 4)))
  expect_refused(as_array(y), "deleted_buffer")
  expect_refused(pjrt_execute(executable, x, x), "invalid_input", "donate the same buffer twice")
})

test_that("every form of program keeps an input that is listed as not donatable", {
  keep <- pjrt_execution_options(0L)
  for (program in donating_programs("2x3x4xf64")) {
    add <- pjrt_compile(program)
    x <- pjrt_buffer(array(1:24 + 0, 2:4), "f64")
    out <- pjrt_execute(add, x, x, execution_options = keep)
    expect_identical(as_array(x), array(1:24 + 0, 2:4))
    expect_identical(as_array(out), array(2 * 1:24, 2:4))
    expect_refused(pjrt_execute(add, x, x), "invalid_input", "donate the same buffer twice")
  }
})

test_that("memory that a donated buffer shared with R is kept until its output is freed", {
  increase <- compile("func.func @main(%x: tensor<100000xf64> {tf.aliasing_output = 0 : i32}) -> tensor<100000xf64> {
    %one = stablehlo.constant dense<1.0> : tensor<100000xf64>
    %0 = stablehlo.add %x, %one : tensor<100000xf64>
    return %0 : tensor<100000xf64>
  }")
  for (memory in c("its own", "an R vector's", "an array's that was read")) {
    values <- as.double(seq_len(1e5))
    if (memory != "its own") values <- values + 0
    x <- pjrt_buffer(values, "f64")
    if (memory == "an array's that was read") {
      values <- as_array(x)
      x <- pjrt_buffer(values, "f64", shape = 1e5)
    }
    for (i in 1:5) {
      x <- pjrt_execute(increase, x)
      gc()
      rubbish <- lapply(1:20, function(i) rep(-1, 1e5))
    }
    expect_identical(as.vector(values), as.double(seq_len(1e5)), label = memory)
    rm(values, rubbish)
    gc()
    rubbish <- lapply(1:20, function(i) rep(-1, 1e5))
    expect_identical(as.vector(x), as.double(seq_len(1e5)) + 5, label = memory)
  }
})

test_that("a donated training loop runs in constant memory", {
  child <- run_child(quote({
    step <- compile("func.func @main(%w: tensor<1000000xf64> {tf.aliasing_output = 0 : i32}, %g: tensor<1000000xf64>)
        -> tensor<1000000xf64> {
      %0 = stablehlo.subtract %w, %g : tensor<1000000xf64>
      return %0 : tensor<1000000xf64>
    }")
    resident <- function() {
      line <- grep("^VmRSS", readLines("/proc/self/status"), value = TRUE)
      as.numeric(gsub("[^0-9]", "", line)) / 1024
    }
    live <- function() pjrt_memory_stats()$clients$live_bytes
    w <- pjrt_buffer(0, "f64", shape = 1e6)
    g <- pjrt_buffer(1, "f64", shape = 1e6)
    train <- function(steps) for (i in seq_len(steps)) w <<- pjrt_execute(step, w, g)
    train(50)
    await(w)
    before <- c(resident(), live())
    train(1000)
    await(w)
    after <- c(resident(), live())
    cat(after[[1L]] - before[[1L]] < 100, after[[2L]] == before[[2L]], as.vector(w[c(1, 1e6)]), "\n")
  }))
  expect_clean(child, "TRUE TRUE -1050 -1050 ")
})
