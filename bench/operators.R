# Times operators on buffers: against the execution of the same program, and a chain of operators against one program.
#
#   Rscript bench/operators.R [file for the table]

library(pjrt)
source("bench/measure.R")

compiled <- function(body, size) {
  text <- sprintf("func.func @main(%%x: {T}, %%y: {T}) -> {T} {\n%s\n return %%r : {T}\n}", body)
  pjrt_compile(pjrt_program(text, types = list(T = sprintf("tensor<%sxf32>", size))))
}

# x * y + x - y, and so on: six steps
chain_body <- "
  %a = stablehlo.multiply %x, %y : {T}
  %b = stablehlo.add %a, %x : {T}
  %c = stablehlo.subtract %b, %y : {T}
  %d = stablehlo.tanh %c : {T}
  %e = stablehlo.multiply %d, %x : {T}
  %r = stablehlo.add %e, %y : {T}"
chain <- function(x, y) tanh(x * y + x - y) * x + y

x <- pjrt_buffer(matrix(0.5, 2, 2))
y <- pjrt_buffer(matrix(0.25, 2, 2))
add <- compiled(" %r = stablehlo.add %x, %y : {T}", "2x2")

big_x <- pjrt_buffer(matrix(rnorm(1e6), 1000))
big_y <- pjrt_buffer(matrix(rnorm(1e6), 1000))
big_add <- compiled(" %r = stablehlo.add %x, %y : {T}", "1000x1000")

small_chain <- compiled(chain_body, "2x2")
big_chain <- compiled(chain_body, "1000x1000")

# Pairs of the same work are timed in turns, since the machine's speed changes.
turns <- function(n, ours, rival, rounds = 15L) {
  once <- function(f) {
    start <- now()
    for (i in seq_len(n)) f()
    (now() - start) / n
  }
  once(ours)
  once(rival)
  times <- replicate(rounds, c(once(ours), once(rival)))
  apply(times, 1L, median)
}

rows <- rbind(
  `x + y, 2x2` = turns(5000L, function() x + y, function() pjrt_execute(add, x, y)),
  `x + 1, 2x2` = turns(5000L, function() x + 1, function() pjrt_execute(add, x, y)),
  `x > y, 2x2` = turns(5000L, function() x > y, function() pjrt_execute(add, x, y)),
  `exp(x), 2x2` = turns(5000L, function() exp(x), function() pjrt_execute(add, x, y)),
  `x + y, 1e6` = turns(100L, function() await(big_x + big_y), function() await(pjrt_execute(big_add, big_x, big_y))),
  `six steps, 2x2` = turns(1000L, function() await(chain(x, y)), function() await(pjrt_execute(small_chain, x, y))),
  `six steps, 1e6` = turns(
    20L, function() await(chain(big_x, big_y)), function() await(pjrt_execute(big_chain, big_x, big_y))
  )
)
cell <- function(x) formatC(signif(x, 3), digits = 3, format = "fg", big.mark = ",")
table <- data.frame(
  operators_us = cell(rows[, 1L]), program_us = cell(rows[, 2L]), ratio = cell(rows[, 1L] / rows[, 2L])
)

report(
  utils::capture.output(print(table)), "",
  "Reach: x + y of 2x2 in 5 us, of 1e6 in 1.2 times the program."
)
