# Times trees and dispatchers from R. The same run also measures a bare pjrt_execute() of the same executable, and the
# plugin driven from Rust (the floor, src/rust/core/examples/floor.rs). The rival's column shows the design goal of
# r-xla/pjrt.
#
#   Rscript bench/dispatcher.R [file for the table]

library(pjrt)
source("bench/measure.R")

# The fastest and the median of many short batches, in microseconds: other work on the machine makes most of them slow.
batches <- function(n, call, rounds = 1000L) {
  loop <- compiler::cmpfun(eval(bquote(function(n) for (i in seq_len(n)) .(substitute(call))), parent.frame()))
  loop(n)
  times <- replicate(rounds, {
    start <- now()
    loop(n)
    (now() - start) / n
  })
  c(min = min(times), median = median(times))
}

client <- pjrt_client("cpu")
here <- devices(client)[[1L]]

# The sum of the first and the last of `n` arrays.
sum_program <- function(n) {
  arguments <- paste0("%a", seq_len(n), ": tensor<2x2xf32>", collapse = ", ")
  pjrt_program(sprintf("func.func @main(%s) -> tensor<2x2xf32> {
    %%r = stablehlo.add %%a1, %%a%d : tensor<2x2xf32>
    return %%r : tensor<2x2xf32>
  }", arguments, n))
}

array_of <- function(buffer) {
  structure(class = "AnvlArray", list(
    data = buffer, dtype = dtype(buffer), shape = shape(buffer), device = device(buffer), ambiguous = FALSE,
    backend = "pjrt"
  ))
}

x <- pjrt_buffer(matrix(0, 2, 2))
array <- array_of(x)
nested <- function(n) lapply(seq_len(n / 10), function(i) stats::setNames(rep(list(array), 10L), letters[1:10]))

timed <- list()
for (n in c(2L, 50L)) {
  add <- pjrt_compile(sum_program(n))
  d <- dispatcher(
    10,
    function(info) list(
      exec = add, client = client, device = here, out_tree = build_tree(list(y = 1)), out_avals = list(list())
    ),
    static = "s", default_device = function() here
  )
  arguments <- if (n < 10L) rep(list(array), n) else nested(n)
  buffers <- c(list(add), rep(list(x), n))
  named <- c(list(x = arguments), s = "mode")
  timed[[sprintf("dispatch_%d", n)]] <- batches(20L, dispatch(d, arguments))
  timed[[sprintf("dispatch_%d_static", n)]] <- batches(20L, dispatch(d, named))
  execute <- eval(
    bquote(function() .(as.call(c(quote(pjrt_execute), lapply(seq_len(n + 1L), function(i) bquote(buffers[[.(i)]]))))))
  )
  timed[[sprintf("execute_%d", n)]] <- if (n == 2L) batches(20L, pjrt_execute(add, x, x)) else batches(20L, execute())
}
flat <- as.list(1:1000)
leaves <- nested(1000L)
tree <- build_tree(leaves)
values <- flatten(leaves)
timed$flatten_1000_flat <- batches(5L, flatten(flat))
timed$flatten_1000 <- batches(5L, flatten(leaves))
timed$build_tree_1000 <- batches(5L, build_tree(leaves))
timed$unflatten_1000 <- batches(5L, unflatten(tree, values))

table <- as.data.frame(do.call(rbind, timed))
inputs <- ifelse(grepl("^(dispatch|execute)", rownames(table)), sub("^[a-z]+_([0-9]+).*", "\\1", rownames(table)), NA)
table$over_execute <- table$min - table[paste0("execute_", inputs), "min"]
floor <- floor_of("floor")
table$floor <- floor[c("2" = "execute", "50" = "execute_50")[inputs]]
table$rival <- ifelse(grepl("^dispatch", rownames(table)), 10, NA)
reach <- c(dispatch_2 = 6, dispatch_50 = 25, flatten_1000_flat = 60, flatten_1000 = 60, unflatten_1000 = 60)
table$reach <- reach[rownames(table)]
names(table) <- c("min_us", "median_us", "min_over_execute_us", "floor_us", "rival_us", "reach_us")
width <- options(width = 120L)
cell <- function(x) ifelse(is.na(x), "", formatC(signif(x, 3), digits = 3, format = "fg", big.mark = ","))
report(utils::capture.output(print(as.data.frame(lapply(table, cell), row.names = rownames(table)))))
