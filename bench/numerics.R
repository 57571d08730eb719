# Measures the cost of minima and maxima that keep NaN: with the flags that pjrt sets ("kept"), with XLA's default,
# which drops NaN ("dropped"), and with expressions that keep NaN with XLA's default ("written": select(y != y, y,
# max(x, y))) or with any flags ("compared": select(x > y | x != x, x, y)).
#
#   Rscript bench/numerics.R [file for the table]
#
# The columns alternate over several rounds, so that other load affects all of them equally. Each shows its fastest run.

library(pjrt)
source("bench/measure.R")

# Expands MAX(r, x, y, type, bits) in a program's text to code that computes %r from %x and %y.
expanded <- function(text, way) {
  pattern <- "(MAX|MIN)\\(([a-z0-9_]+), ([a-z0-9_#%]+), ([a-z0-9_#%]+), (tensor<[^>]*>), (tensor<[^>]*>)\\)"
  plain <- "%\\2 = stablehlo.\\1imum %\\3, %\\4 : \\5"
  written <- paste(
    "%\\2_m = stablehlo.\\1imum %\\3, %\\4 : \\5",
    "%\\2_n = stablehlo.compare NE, %\\4, %\\4, FLOAT : (\\5, \\5) -> \\6",
    "%\\2 = stablehlo.select %\\2_n, %\\4, %\\2_m : \\6, \\5", sep = "\n"
  )
  compared <- paste(
    "%\\2_g = stablehlo.compare \\1, %\\3, %\\4, FLOAT : (\\5, \\5) -> \\6",
    "%\\2_n = stablehlo.compare NE, %\\3, %\\3, FLOAT : (\\5, \\5) -> \\6",
    "%\\2_o = stablehlo.or %\\2_g, %\\2_n : \\6",
    "%\\2 = stablehlo.select %\\2_o, %\\3, %\\4 : \\6, \\5", sep = "\n"
  )
  text <- gsub(pattern, switch(way, written = written, compared = compared, plain), text)
  text <- gsub("compare MIN", "compare LT", gsub("compare MAX", "compare GT", text))
  gsub("MINimum", "minimum", gsub("MAXimum", "maximum", text))
}

reduced <- function(x, from, to, dim, type = "f32", how = "MAX") {
  sprintf("stablehlo.reduce(%%%s init: %%%s) across dimensions = [%s] : (tensor<%sx%s>, tensor<%s>) -> tensor<%s%s>
    reducer(%%a: tensor<%s>, %%b: tensor<%s>) {
      %s(c, a, b, tensor<%s>, tensor<i1>)
      stablehlo.return %%c : tensor<%s>
    }", x, if (how == "MAX") "low" else "high", dim, from, type, type, to, type, type, type, how, type, type)
}

# Row sums.
summed <- function(x, from, to) {
  sprintf("%%sum = stablehlo.reduce(%%%s init: %%zero) applies stablehlo.add across dimensions = [1]
    : (tensor<%sxf32>, tensor<f32>) -> tensor<%sxf32>", x, from, to)
}

window <- function(x, from, to, size, stride, padding, type = "f32") {
  sprintf("\"stablehlo.reduce_window\"(%%%s, %%low) <{window_dimensions = array<i64: 1, %d, %d, 1>,
    window_strides = array<i64: 1, %d, %d, 1>, padding = dense<[[0, 0], [%d, %d], [%d, %d], [0, 0]]> : tensor<4x2xi64>}> ({
    ^bb0(%%a: tensor<%s>, %%b: tensor<%s>):
      MAX(c, a, b, tensor<%s>, tensor<i1>)
      stablehlo.return %%c : tensor<%s>
    }) : (tensor<%sx%s>, tensor<%s>) -> tensor<%sx%s>",
    x, size, size, stride, stride, padding, padding, padding, padding, type, type, type, type, from, type, type, to,
    type)
}

infinite <- list(
  f32 = c("0xFF800000", "0x7F800000"), f64 = c("0xFFF0000000000000", "0x7FF0000000000000"), f16 = c("0xFC00", "0x7C00"),
  bf16 = c("0xFF80", "0x7F80")
)

# A program with arguments of these shapes and one result. Its code can use %low and %high, the infinities.
main <- function(arguments, result, ..., type = "f32") {
  shapes <- sprintf("tensor<%sx%s>", arguments, type)
  paste(c(
    sprintf("func.func @main(%s) -> %s {", toString(sprintf("%%%s: %s", names(arguments), shapes)), result),
    sprintf("%%low = stablehlo.constant dense<%s> : tensor<%s>", infinite[[type]][[1L]], type),
    sprintf("%%high = stablehlo.constant dense<%s> : tensor<%s>", infinite[[type]][[2L]], type),
    sprintf("%%zero = stablehlo.constant dense<0.0> : tensor<%s>", type),
    ..., sprintf("return %%r : %s", result), "}"
  ), collapse = "\n")
}

spread <- function(to, from, shape, dims = "", type = "f32", element = "") {
  sprintf(
    "%%%s = stablehlo.broadcast_in_dim %%%s, dims = [%s] : (tensor<%s%s>) -> tensor<%sx%s>", to, from, dims, element,
    type, shape, type
  )
}

relu <- function(shape, type = "f32") {
  full <- sprintf("tensor<%sx%s>", shape, type)
  main(c(x = shape), full, spread("zeros", "zero", shape, type = type),
    sprintf("MAX(r, x, zeros, %s, tensor<%sxi1>)", full, shape), type = type)
}

all_of <- function(from, type = "f32") {
  main(c(x = from), sprintf("tensor<%s>", type), paste("%r =", reduced("x", from, "", "0", type)), type = type)
}

over <- function(what) {
  softmax <- c(
    paste("%top =", reduced("x", "1024x1024", "1024x", "1")),
    spread("tops", "top", "1024x1024", "0", element = "1024x"),
    "%less = stablehlo.subtract %x, %tops : tensor<1024x1024xf32>",
    "%odds = stablehlo.exponential %less : tensor<1024x1024xf32>",
    summed("odds", "1024x1024", "1024")
  )
  if (what == "softmax") {
    main(c(x = "1024x1024"), "tensor<1024x1024xf32>", softmax, spread(
      "sums", "sum", "1024x1024", "0", element = "1024x"
    ),
      "%r = stablehlo.divide %odds, %sums : tensor<1024x1024xf32>")
  } else {
    main(c(x = "1024x1024"), "tensor<1024xf32>", softmax, "%log = stablehlo.log %sum : tensor<1024xf32>",
      "%r = stablehlo.add %log, %top : tensor<1024xf32>")
  }
}

# A cumulative maximum as in JAX: each step covers twice as many numbers.
cummax <- function() {
  step <- function(i, by) {
    c(
      sprintf("%%p%d = stablehlo.pad %%s%d, %%low, low = [0, %d], high = [0, -%d], interior = [0, 0]
        : (tensor<64x16384xf32>, tensor<f32>) -> tensor<64x16384xf32>", i, i - 1L, by, by),
      sprintf("MAX(s%d, s%d, p%d, tensor<64x16384xf32>, tensor<64x16384xi1>)", i, i - 1L, i)
    )
  }
  main(c(s0 = "64x16384"), "tensor<64x16384xf32>", unlist(lapply(1:14, function(i) step(i, 2L^(i - 1L)))),
    "%r = stablehlo.add %s14, %s14 : tensor<64x16384xf32>")
}

# Reuses a few numbers, so that only the maxima are measured.
max_loop <- function(type = "f32") {
  full <- sprintf("tensor<4096x%s>", type)
  step <- "%%m%d = stablehlo.multiply %%s%d, %%w : %s\nMAX(s%d, m%d, y, %s, tensor<4096xi1>)"
  steps <- paste(sprintf(step, 1:8, 0:7, full, 1:8, 1:8, full), collapse = "\n")
  main(c(x = "4096", y = "4096", w = "4096"), full,
    "%start = stablehlo.constant dense<0> : tensor<i32>", "%one = stablehlo.constant dense<1> : tensor<i32>",
    "%last = stablehlo.constant dense<1000> : tensor<i32>",
    sprintf("%%l:2 = stablehlo.while(%%i = %%start, %%s0 = %%x) : tensor<i32>, %s
    cond {
      %%c = stablehlo.compare LT, %%i, %%last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %%c : tensor<i1>
    } do {
      %%j = stablehlo.add %%i, %%one : tensor<i32>
      %s
      stablehlo.return %%j, %%s8 : tensor<i32>, %s
    }", full, steps, full), sprintf("%%r = stablehlo.add %%l#1, %%l#1 : %s", full), type = type)
}

# Maxima inside matrix products: the largest difference of two rows, or the largest sum.
pairs <- function(combine, how) {
  shape <- "256x256x128"
  main(c(x = "256x128", y = "256x128"), "tensor<256x256xf32>",
    spread("xs", "x", shape, "0, 2", element = "256x128x"), spread("ys", "y", shape, "1, 2", element = "256x128x"),
    sprintf("%%d = stablehlo.%s %%xs, %%ys : tensor<%sxf32>", combine, shape),
    sprintf("%%e = stablehlo.abs %%d : tensor<%sxf32>", shape),
    paste("%r =", reduced("e", shape, "256x256x", "2", how = how)))
}

dense <- function(n, inner, outer) {
  full <- sprintf("%dx%d", n, outer)
  main(c(x = sprintf("%dx%d", n, inner), w = sprintf("%dx%d", inner, outer)), sprintf("tensor<%sxf32>", full),
    sprintf("%%p = stablehlo.dot_general %%x, %%w, contracting_dims = [1] x [0]
      : (tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> tensor<%sxf32>", n, inner, inner, outer, full),
    spread("zeros", "zero", full), sprintf("MAX(r, p, zeros, tensor<%sxf32>, tensor<%sxi1>)", full, full))
}

# One head of attention over 512 tokens, and two layers with relu.
transformer <- function() {
  t <- function(shape) sprintf("tensor<%sxf32>", shape)
  dot <- function(r, a, b, from, with, to, dims) {
    sprintf(
      "%%%s = stablehlo.dot_general %%%s, %%%s, contracting_dims = [1] x [%d] : (%s, %s) -> %s", r, a, b, dims, t(from),
      t(with), t(to)
    )
  }
  main(c(x = "512x256", q = "256x256", k = "256x256", v = "256x256", u = "256x1024", d = "1024x256"), t("512x256"),
    dot("xq", "x", "q", "512x256", "256x256", "512x256", 0L),
    dot("xk", "x", "k", "512x256", "256x256", "512x256", 0L),
    dot("xv", "x", "v", "512x256", "256x256", "512x256", 0L),
    dot("s", "xq", "xk", "512x256", "512x256", "512x512", 1L),
    paste("%top =", reduced("s", "512x512", "512x", "1")), spread("tops", "top", "512x512", "0", element = "512x"),
    "%less = stablehlo.subtract %s, %tops : tensor<512x512xf32>",
    "%odds = stablehlo.exponential %less : tensor<512x512xf32>",
    summed("odds", "512x512", "512"),
    spread("sums", "sum", "512x512", "0", element = "512x"),
    "%p = stablehlo.divide %odds, %sums : tensor<512x512xf32>",
    dot("a", "p", "xv", "512x512", "512x256", "512x256", 0L), "%h = stablehlo.add %a, %x : tensor<512x256xf32>",
    dot("up", "h", "u", "512x256", "256x1024", "512x1024", 0L), spread("zeros", "zero", "512x1024"),
    "MAX(act, up, zeros, tensor<512x1024xf32>, tensor<512x1024xi1>)",
    dot("down", "act", "d", "512x1024", "1024x256", "512x256", 0L),
    "%r = stablehlo.add %down, %h : tensor<512x256xf32>")
}

programs <- list(
  "loop of maxima" = max_loop(), "loop of maxima, f64" = max_loop("f64"),
  "relu, 4 MB" = relu("1024x1024"), "relu, 4 MB, bf16" = relu("1024x2048", "bf16"), "relu, 64 kB" = relu("128x128"),
  "max of all, 4 MB" = all_of("1048576"), "max of all, f64" = all_of("524288", "f64"),
  "max of all, f16" = all_of("2097152", "f16"),
  "max of rows" = main(c(x = "1024x1024"), "tensor<1024xf32>", paste("%r =", reduced("x", "1024x1024", "1024x", "1"))),
  "max of columns" = main(
    c(x = "1024x1024"), "tensor<1024xf32>", paste("%r =", reduced("x", "1024x1024", "1024x", "0"))
  ),
  "max-pooling 2x2" = main(
    c(x = "8x64x64x64"), "tensor<8x32x32x64xf32>", paste("%r =", window("x", "8x64x64x64", "8x32x32x64", 2, 2, 0))
  ),
  "dilation 5x5" = main(
    c(x = "1x128x128x16"), "tensor<1x128x128x16xf32>",
    paste("%r =", window("x", "1x128x128x16", "1x128x128x16", 5, 1, 2))
  ),
  "softmax" = over("softmax"), "logsumexp" = over("logsumexp"), "cumulative maximum" = cummax(),
  "distances by maximum" = pairs("subtract", "MAX"), "shortest of sums" = pairs("add", "MIN"),
  "dense layer with relu" = dense(256, 512, 512), "transformer layer" = transformer()
)

ways <- c("kept", "dropped", "written", "compared")
options_of <- function(way) {
  pjrt_compile_options(debug_options = list(xla_cpu_enable_fast_min_max = way %in% c("dropped", "written")))
}

measure <- function(text) {
  made <- lapply(ways, function(way) pjrt_compile(pjrt_program(expanded(text, way)), options_of(way)))
  wanted <- executable_info(made[[1L]])$inputs
  inputs <- Map(function(shape, type) pjrt_buffer(array(rnorm(prod(shape)), shape), type), wanted$shape, wanted$dtype)
  run <- function(program) {
    start <- now()
    lapply(do.call(pjrt_execute, c(list(program), unname(inputs), simplify = FALSE)), await)
    now() - start
  }
  lapply(made, run)
  times <- matrix(0, 0L, length(ways))
  end <- now() + 1.5e6
  while (nrow(times) < 5L || nrow(times) < 200L && now() < end) {
    times <- rbind(times, vapply(made, run, 0))
  }
  apply(times, 2L, min) / 1e3
}

times <- t(vapply(programs, measure, numeric(length(ways))))
colnames(times) <- paste0(ways, "_ms")
ratios <- times[, -2L] / times[, 2L]
colnames(ratios) <- paste0(ways[-2L], "_ratio")
table <- data.frame(times, ratios)
middle <- exp(colMeans(log(ratios)))
cell <- function(x) formatC(signif(x, 3), digits = 3, format = "fg")
shown <- as.data.frame(lapply(table, cell), row.names = rownames(table))
width <- options(width = 120L)
report(
  utils::capture.output(print(shown)), "",
  sprintf(
    "Geometric means of the %d ratios over dropped: %s.", nrow(table), toString(sprintf("%s %.2f", ways[-2L], middle))
  ),
  "Each time is the fastest of many alternating runs. Only 'kept' also orders -0 and 0."
)
options(width)
