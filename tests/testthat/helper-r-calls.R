# Registers an R function until the end of the test.
local_r_call <- function(target, f, ..., env = parent.frame()) {
  pjrt_register_r_call(target, f, ...)
  withr::defer(pjrt_unregister_custom_call(target), env)
}

# A program that calls `target` in a loop: with the number of the step, from 0, which it replaces, until that is `n`.
stepping_program <- function(target) {
  sprintf('func.func @main(%%n: tensor<i32>) -> tensor<i32> {
  %%zero = stablehlo.constant dense<0> : tensor<i32>
  %%out = stablehlo.while(%%i = %%zero) : tensor<i32>
  cond {
    %%more = stablehlo.compare LT, %%i, %%n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %%more : tensor<i1>
  } do {
    %%next = stablehlo.custom_call @"%s"(%%i) {
      api_version = 4 : i32, has_side_effect = true
    } : (tensor<i32>) -> tensor<i32>
    stablehlo.return %%next : tensor<i32>
  }
  return %%out : tensor<i32>
}', target)
}

step_to <- function(executable, n) as_array(pjrt_execute(executable, pjrt_scalar(n, "i32")))

# A program for `n` devices, which sums what `target` returns on each.
summing_program <- function(target, n = 2) {
  call <- sprintf('%%y = stablehlo.custom_call @"%s"(%%x) {api_version = 4 : i32, has_side_effect = true}
    : (tensor<4xf32>) -> tensor<4xf32>', target)
  program <- all_reduce_program("4xf32", n)
  program <- sub("(%0 = .*)[(]%x[)]", "\\1(%y)", program)
  sub("-> tensor<4xf32> {", paste("-> tensor<4xf32> {", call, sep = "\n  "), program, fixed = TRUE)
}

# Evaluates an expression with a time limit.
within_seconds <- function(expr, seconds) {
  on.exit(setTimeLimit())
  setTimeLimit(elapsed = seconds, transient = TRUE)
  expr
}
