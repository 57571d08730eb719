# Tests an NVIDIA GPU with the CUDA plugin: computes a matrix product, measures its speed, compares linear algebra with
# that of R, and trains the demo's model.
#   Rscript tools/gpu-check.R
# It uses the plugin that install_pjrt("cuda") installed or that PJRT_PLUGIN_PATH_CUDA names.

Sys.setenv(PJRT_PLATFORM = "cuda")
library(pjrt)

print(client_info())
for (device in devices()) print(device_info(device))

n <- 4096L
type <- sprintf("tensor<%dx%dxf32>", n, n)
multiply <- pjrt_compile(pjrt_program(sprintf(
  "func.func @main(%%x: %1$s, %%y: %1$s) -> %1$s {
    %%z = stablehlo.dot_general %%x, %%y, contracting_dims = [1] x [0] : (%1$s, %1$s) -> %1$s
    return %%z : %1$s
  }", type
)))

# small integers are exact in every precision that a GPU uses for products
x <- matrix(rep_len(-3:3, n * n), n)
y <- matrix(rep_len(-2:2, n * n), n)
on_device <- list(pjrt_buffer(x, dtype = "f32"), pjrt_buffer(y, dtype = "f32"))
product <- as_array(pjrt_execute(multiply, on_device[[1L]], on_device[[2L]]))
rows <- c(1L, 77L, n)
stopifnot(identical(product[rows, ], x[rows, ] %*% y))

runs <- 100L
started <- proc.time()[["elapsed"]]
for (i in seq_len(runs)) {
  result <- pjrt_execute(multiply, on_device[[1L]], on_device[[2L]])
}
await(result)
seconds <- (proc.time()[["elapsed"]] - started) / runs
cat(sprintf("\n%d x %d product: %.2f ms, %.1f TFLOP/s\n\n", n, n, 1e3 * seconds, 2 * n^3 / seconds / 1e12))

# The device's own timeline: one kernel at least for each run, on the trace's clock, and as long as the runs. CUPTI may
# be missing.
trace <- withCallingHandlers(
  pjrt_trace({
    for (i in 1:10) result <- pjrt_execute(multiply, on_device[[1L]], on_device[[2L]])
    await(result)
  }),
  pjrt_warning_profiler = function(w) stop("the profiler failed: ", conditionMessage(w))
)
print(trace)
events <- as.data.frame(trace)
kernels <- events[events$kind == "device", ]
runs_seconds <- sum(summary(trace)$devices$busy)
cat(sprintf("%d events on %s\n", nrow(kernels), paste(unique(kernels$lane), collapse = ", ")))
stopifnot(
  nrow(kernels) >= 10L, kernels$start >= 0, kernels$end <= trace$seconds,
  sum(kernels$end - kernels$start) > 0.5 * runs_seconds, sum(kernels$end - kernels$start) < 1.1 * runs_seconds
)

# Calls a target with matrices and vectors. The outputs are list(dtype, dims). All are in column-major order, or in
# row-major order, as their layouts state.
call_target <- function(target, inputs, outputs, attributes = "", row_major = FALSE) {
  type <- function(dtype, dims) sprintf("tensor<%s%s>", paste0(dims, "x", collapse = ""), dtype)
  layout <- function(dims) {
    rank <- length(dims)
    order <- if (row_major) rev(seq_len(rank) - 1L) else c(if (rank > 1L) 0:1 else 0L, 2L)[seq_len(rank)]
    sprintf("dense<[%s]> : tensor<%dxindex>", paste(order, collapse = ", "), rank)
  }
  commas <- function(...) paste0(..., collapse = ", ")
  in_dims <- lapply(inputs, function(x) dim(as_array(x)))
  in_types <- mapply(function(x, dims) type(as.character(dtype(x)), dims), inputs, in_dims)
  out_dims <- lapply(outputs, `[[`, 2L)
  out_types <- vapply(outputs, function(it) type(it[[1L]], it[[2L]]), "")
  x <- paste0("%x", seq_along(inputs))
  y <- paste0("%y", seq_along(outputs))
  program <- sprintf(
    "func.func @main(%s) -> (%s) {
      %s = stablehlo.custom_call @%s(%s) {api_version = 4 : i32, backend_config = {%s}, has_side_effect = true,
        operand_layouts = [%s], result_layouts = [%s]} : (%s) -> (%s)
      return %s : %s
    }",
    commas(x, ": ", in_types), commas(out_types), commas(y), target, commas(x), attributes,
    commas(vapply(in_dims, layout, "")), commas(vapply(out_dims, layout, "")), commas(in_types), commas(out_types),
    commas(y), commas(out_types)
  )
  results <- do.call(pjrt_execute, c(list(pjrt_compile(pjrt_program(program))), inputs))
  lapply(if (is.list(results)) results else list(results), as_array)
}

check_close <- function(x, y, dtype, what) {
  error <- max(abs(as.vector(x) - as.vector(y)))
  cat(sprintf("%-32s %s  largest difference %.1e\n", what, dtype, error))
  stopifnot(error < if (dtype == "f32") 1e-3 else 1e-10)
}

set.seed(1)
for (dtype in c("f32", "f64")) {
  shapes <- list(c(50L, 50L), c(80L, 30L), c(30L, 80L))
  for (shape in shapes) {
    m <- shape[[1L]]
    n <- shape[[2L]]
    k <- min(m, n)
    a <- matrix(rnorm(m * n), m)
    on_device <- pjrt_buffer(a, dtype)
    about <- function(name) sprintf("%s %d x %d", name, m, n)

    qr <- call_target("geqrf", list(on_device), list(list(dtype, c(m, n)), list(dtype, k)))
    reflections <- list(pjrt_buffer(qr[[1L]][, seq_len(k)], dtype), pjrt_buffer(qr[[2L]], dtype))
    q <- call_target("orgqr", reflections, list(list(dtype, c(m, k))))[[1L]]
    r <- qr[[1L]][seq_len(k), ]
    r[lower.tri(r)] <- 0
    check_close(crossprod(q), diag(k), dtype, about("orgqr"))
    check_close(q %*% r, a, dtype, about("geqrf"))
    if (m >= n) {
      check_close(abs(diag(r)), abs(diag(base::qr.R(base::qr(a, LAPACK = FALSE)))), dtype, about("diagonal of R"))
    }

    lu <- call_target("lu", list(on_device), list(list(dtype, c(m, n)), list("i32", k)))
    pivots <- list(pjrt_buffer(lu[[2L]], "i32"))
    rows <- call_target("lu_pivots_to_permutation", pivots, list(list("i32", m)), "first = 1 : i32")[[1L]]
    lower <- lu[[1L]][, seq_len(k)]
    lower[upper.tri(lower)] <- 0
    diag(lower) <- 1
    upper <- lu[[1L]][seq_len(k), ]
    upper[lower.tri(upper)] <- 0
    check_close(lower %*% upper, a[rows, ], dtype, about("lu"))
    if (m == n) check_close(prod(sign(diag(upper))) * sign(det(a[rows, ])), 1, dtype, about("sign of the determinant"))

    outputs <- list(list(dtype, c(m, k)), list(dtype, k), list(dtype, c(k, n)))
    # cuSOLVER needs at least as many rows as columns
    attributes <- sprintf("transposed = %s", if (m < n) "true" else "false")
    svd <- call_target("svd", list(on_device), outputs, attributes, row_major = m < n)
    check_close(svd[[2L]], base::svd(a)$d, dtype, about("singular values"))
    check_close(svd[[1L]] %*% (as.vector(svd[[2L]]) * svd[[3L]]), a, dtype, about("svd"))
    stopifnot(identical(as_array(on_device), as_array(pjrt_buffer(a, dtype))))
  }
  a <- crossprod(matrix(rnorm(900), 30L))
  half <- a
  half[upper.tri(half)] <- NaN
  eigh <- call_target("eigh", list(pjrt_buffer(half, dtype)), list(list(dtype, c(30L, 30L)), list(dtype, 30L)))
  check_close(eigh[[2L]] / max(a), rev(eigen(a, symmetric = TRUE)$values) / max(a), dtype, "eigenvalues")
  check_close(eigh[[1L]] %*% (as.vector(eigh[[2L]]) * t(eigh[[1L]])) / max(a), a / max(a), dtype, "eigh")
}

# a batch of three
a <- array(rnorm(300), c(3L, 10L, 10L))
batch <- pjrt_compile(pjrt_program(
  "func.func @main(%a: tensor<3x10x10xf64>) -> (tensor<3x10x10xf64>, tensor<3x10xf64>) {
    %t = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<3x10x10xf64>) -> tensor<3x10x10xf64>
    %s = stablehlo.add %a, %t : tensor<3x10x10xf64>
    %v, %w = stablehlo.custom_call @eigh(%s) {api_version = 4 : i32,
      operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],
      result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>]
    } : (tensor<3x10x10xf64>) -> (tensor<3x10x10xf64>, tensor<3x10xf64>)
    return %v, %w : tensor<3x10x10xf64>, tensor<3x10xf64>
  }"
))
values <- as_array(pjrt_execute(batch, pjrt_buffer(a, "f64"))[[2L]])
for (i in 1:3) {
  check_close(
    values[i, ], rev(eigen(a[i, , ] + t(a[i, , ]), symmetric = TRUE)$values), "f64", sprintf("eigh, batch %d", i)
  )
}

x <- pjrt_buffer(c(1, -2, 3), "f32")
lines <- utils::capture.output(printed <- call_target("print_tensor", list(x), list(list("f32", 3L)))[[1L]])
stopifnot(
  identical(lines, c("PJRTBuffer", "  1", " -2", "  3", "[ f32{3} ]")), identical(as.vector(printed), c(1, -2, 3))
)

source(file.path("tools", "demo.R"))
