# Times calls of R functions from a program: a loop calls a function 10,000 times. The overhead is the time of a step
# minus that of the function, which the same run measures. Fails if it is above 60 us.
#
#   Rscript bench/r-call.R [file for the table]

library(pjrt)
source("bench/measure.R")

steps <- 10000L

# A loop that calls `next_step` with arguments of `type`, besides the number of the step.
looping <- function(type) {
  pjrt_compile(pjrt_program(sprintf("func.func @main(%%n: tensor<i32>, %%x: tensor<%s>) -> (tensor<i32>, tensor<%s>) {
    %%zero = stablehlo.constant dense<0> : tensor<i32>
    %%out:2 = stablehlo.while(%%i = %%zero, %%y = %%x) : tensor<i32>, tensor<%s>
    cond {
      %%more = stablehlo.compare LT, %%i, %%n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %%more : tensor<i1>
    } do {
      %%next:2 = stablehlo.custom_call @next_step(%%i, %%y) {
        api_version = 4 : i32, has_side_effect = true, backend_config = {by = 1 : i64}
      } : (tensor<i32>, tensor<%s>) -> (tensor<i32>, tensor<%s>)
      stablehlo.return %%next#0, %%next#1 : tensor<i32>, tensor<%s>
    }
    return %%out#0, %%out#1 : tensor<i32>, tensor<%s>
  }", type, type, type, type, type, type, type)))
}

functions <- list(
  "array" = function(i, x) list(i + 1L, x),
  "array and attributes" = function(i, x, attributes) list(i + attributes$by, x)
)

# Compiling needs a function.
pjrt_register_r_call("next_step", functions[[1L]])

rows <- list()
for (type in c("f32", "100xf32", "1000xf64")) {
  size <- as.integer(sub("x.*", "", if (grepl("x", type)) type else "1x"))
  x <- if (type == "f32") pjrt_scalar(0.5) else pjrt_buffer(rep(0.5, size), sub(".*x", "", type))
  program <- looping(type)
  for (name in names(functions)) {
    f <- functions[[name]]
    pjrt_register_r_call("next_step", f)
    n <- pjrt_scalar(steps)
    run <- function() await(pjrt_execute(program, n, x)[[1L]])
    run()
    times <- vapply(1:7, function(i) {
      start <- now()
      run()
      now() - start
    }, 0) / steps
    attributes <- if ("attributes" %in% names(formals(f))) list(attributes = list(by = 1L))
    arguments <- c(list(0L, as.vector(as_array(x))), attributes)
    own <- median_time(1000L, do.call(f, arguments))
    rows[[length(rows) + 1L]] <- data.frame(
      arguments = paste(type, name), call_us = median(times), own_us = own, overhead_us = median(times) - own,
      least_us = min(times) - own
    )
  }
}
table <- do.call(rbind, rows)
numbers <- vapply(table, is.numeric, NA)
table[numbers] <- lapply(table[numbers], round, 1)
report(
  sprintf("R functions in a loop of %d calls; overhead_us: without the time of the function", steps), "",
  utils::capture.output(print(table, row.names = FALSE)), "",
  sprintf("Limit for the overhead: 60 us. Largest: %.1f us.", max(table$overhead_us))
)
stopifnot(max(table$overhead_us) <= 60)
