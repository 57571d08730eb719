# Tests an NVIDIA GPU with the CUDA plugin: computes a matrix product, measures its speed, and trains the demo's model.
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

source(file.path("tools", "demo.R"))
