# The compiler computes operations on constants itself. The results are right: constants that it would misread are
# hidden from it.
# Slow: compiles a thousand programs.

old <- options(pjrt.cache = FALSE)

test_that("operations on constants and on arguments have the same results", {
  found <- wrong_folds()
  # in the last place, which depends on the machine's mathematical functions
  rounded <-
    "^(exponential|rsqrt|cbrt|tanh|logistic|exponential_minus_one|log|log_plus_one|sine|cosine|power|atan2|sqrt) (f16|bf16|f32|f64)$"
  expect_identical(grep(rounded, found, value = TRUE, invert = TRUE), character())
})

test_that("comparisons of constants with a type are right", {
  signed <- function(order) sprintf("%%r = stablehlo.compare %s, %%x, %%y, SIGNED : ({t}, {t}) -> {o}", order)
  for (type in c("i8", "i32", "i64")) {
    for (order in c("LT", "GE")) {
      expect_false(folds_wrongly(signed(order), type, folding_pairs(type), "i1"), label = paste(order, type))
    }
  }
})

test_that("constants are hidden in bytecode, in functions and in executables of other options, too", {
  text <- "module {
  func.func private @larger(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.maximum %x, %y : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func @main() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<0x7FC00000> : tensor<2xf32>
    %1 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %2 = call @larger(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}"
  for (place in c("apart", "inside")) {
    withr::local_options(pjrt.compile = place)
    expect_identical(as.vector(as_array(pjrt_execute(compile(text)))), c(NaN, NaN))
    bytecode <- pjrt_program(path = fixture("maximum-nan.mlirbc"))
    expect_identical(as.vector(as_array(pjrt_execute(pjrt_compile(bytecode)))), c(NaN, NaN))
  }
})

test_that("constants are hidden whose types or values have names", {
  withr::local_options(pjrt.cache = FALSE)
  text <- "!e = f32
!t = tensor<2x!e>
#nan = dense<0x7FC00000> : tensor<2xf32>
func.func @main() -> !t {
  %0 = stablehlo.constant #nan
  %1 = stablehlo.constant dense<[1.0, 2.0]> : !t
  %2 = stablehlo.maximum %0, %1 : !t
  return %2 : !t
}"
  expect_identical(as.vector(as_array(pjrt_execute(compile(text)))), c(NaN, NaN))
})

test_that("constants of HLO programs are hidden from the compiler, too", {
  withr::local_options(pjrt.cache = FALSE)
  program <- pjrt_program(path = fixture("constants.hlo.pb"), format = "hlo")
  expect_identical(lapply(pjrt_execute(pjrt_compile(program), pjrt_scalar(2)), as_array), list(NaN, 0L, 3))
})

# the same session may run other files
options(old)
