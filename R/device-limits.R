# What a device can do, measured with programs that run on it: once in a session for each device and dtype.

# A list: `flops` floating point operations per second of a large matrix product, of matrices of `n` rows, and
# `bandwidth` bytes per second of `a * x + y` on arrays of `array_bytes`. NA if the device cannot run such a program.
device_limits <- function(device, dtype) {
  key <- list(device, dtype)
  for (known in the$limits) {
    if (identical(known$key, key)) {
      return(known$limits)
    }
  }
  # bytes are the same in all dtypes
  same_device <- Filter(function(known) identical(known$key[[1L]], device), the$limits)
  bandwidth <- c("bandwidth", "array_bytes")
  memory <- if (length(same_device) > 0L) same_device[[1L]]$limits[bandwidth] else triad_limit(device)
  limits <- c(list(dtype = dtype), product_limit(device, dtype), memory)
  the$limits <- c(the$limits, list(list(key = key, limits = limits)))
  limits
}

# Products of growing matrices, until one takes as long as `enough` seconds: small ones leave a part of the device idle.
product_limit <- function(device, dtype, enough = 0.01, largest = 16384) {
  found <- list(flops = NA_real_, n = NA_real_)
  n <- 512
  while (!is.na(dtype)) {
    seconds <- limit_run(times_product(device, dtype, n))
    if (is.null(seconds)) {
      break
    }
    if (is.na(found$flops) || 2 * n^3 / seconds > found$flops) {
      found <- list(flops = 2 * n^3 / seconds, n = n)
    }
    if (seconds >= enough || n >= largest) {
      break
    }
    growth <- min(max((2 * enough / seconds)^(1 / 3), 1.5), 8)
    n <- min(ceiling(n * growth / 512) * 512, largest)
  }
  found
}

# Sums of growing arrays, up to arrays that no cache holds.
triad_limit <- function(device, enough = 0.01, least = 2^25, largest = 2^28) {
  found <- list(bandwidth = NA_real_, array_bytes = NA_real_)
  n <- least
  repeat {
    seconds <- limit_run(times_triad(device, n))
    if (is.null(seconds)) {
      # less memory
      if (!is.na(found$bandwidth) || n <= 2^20) {
        break
      }
      n <- n / 4
      next
    }
    found <- list(bandwidth = 12 * n / seconds, array_bytes = 4 * n)
    if (n < least || seconds >= enough || n >= largest) {
      break
    }
    n <- min(n * 4, largest)
  }
  found
}

# Seconds of the fastest run, or NULL if the device refuses the program.
limit_run <- function(times) {
  tryCatch(min(times), pjrt_error = function(e) NULL)
}

times_product <- function(device, dtype, n) {
  type <- sprintf("%.0fx%.0fx%s", n, n, dtype)
  product <- limit_program("
func.func @main(%x: tensor<{T}>, %y: tensor<{T}>) -> tensor<{T}> {
  %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<{T}>, tensor<{T}>) -> tensor<{T}>
  return %z : tensor<{T}>
}", type, device)
  x <- limit_values(type, device)
  limit_times(product, list(x, x))
}

# The program writes to the memory of its first input: fresh memory on the host would be slow on first access.
times_triad <- function(device, n) {
  type <- sprintf("%.0fxf32", n)
  triad <- limit_program("
func.func @main(%x: tensor<{T}> {tf.aliasing_output = 0 : i32}, %y: tensor<{T}>) -> tensor<{T}> {
  %c = stablehlo.constant dense<0.5> : tensor<{T}>
  %p = stablehlo.multiply %x, %c : tensor<{T}>
  %z = stablehlo.add %p, %y : tensor<{T}>
  return %z : tensor<{T}>
}", type, device)
  limit_times(triad, list(limit_values(type, device), limit_values(type, device)))
}

# Values from -1 to 1, made on the device.
limit_values <- function(type, device) {
  element <- sub("^.*x", "", type)
  wide <- sub("x[^x]*$", "xf32", type)
  values <- limit_program(sprintf("
func.func @main() -> tensor<{T}> {
  %%n = stablehlo.iota dim = 0 : tensor<%s>
  %%s = stablehlo.sine %%n : tensor<%s>
  %%v = stablehlo.convert %%s : (tensor<%s>) -> tensor<{T}>
  return %%v : tensor<{T}>
}", wide, wide, wide), type, device)
  await(pjrt_execute(values))
}

limit_program <- function(text, type, device) {
  pjrt_compile(pjrt_program(text, types = list(T = type)), device = device)
}

# Runs for a tenth of a second, at least three times, after the first.
limit_times <- function(executable, inputs) {
  on.exit(pjrt_delete(inputs))
  run <- function(times) call_native(ffi_benchmark_runs, executable, inputs, NULL, times, TRUE)
  first <- min(run(2))
  run(min(max(3, ceiling(0.1 / max(first, 1e-6))), 1000))
}
