# A program that doubles a vector of 1e5 floats in place of its input.
doubling <- function() {
  pjrt_compile(pjrt_program("func.func @main(%x: tensor<100000xf32> {tf.aliasing_output = 0 : i32}) -> tensor<100000xf32> {
    %0 = stablehlo.add %x, %x : tensor<100000xf32>
    return %0 : tensor<100000xf32>
  }"))
}

ones <- function() pjrt_buffer(rep(1, 1e5), "f32")

# Uses memory that was freed by mistake.
reuse_memory <- function() {
  gc()
  invisible(lapply(1:10, function(i) await(pjrt_buffer(rep(7, 1e5), "f32"))))
}

# The memory of the process in bytes.
resident <- function() {
  4096 * as.numeric(strsplit(readLines("/proc/self/statm"), " ", fixed = TRUE)[[1L]][[2L]])
}
