# Programs on types narrower than a byte are refused if XLA's CPU compiler crashes on them or compiles them wrongly.

# A program with one operation on a 4x6 matrix of a type. `other` adds a second result.
moving_program <- function(type, line, result, other = NULL) {
  types <- c(sprintf("tensor<%s>", result), if (!is.null(other)) "tensor<4x6xf32>")
  pjrt_program(c(
    paste0("func.func @main(%x: tensor<4x6x{T}>) -> (", toString(types), ") {"), paste0("  %r = ", line), other,
    paste0("  return ", toString(c("%r", if (!is.null(other)) "%e")), " : ", toString(types)), "}"
  ), types = list(T = type))
}

also <- "  %e = stablehlo.convert %x : (tensor<4x6x{T}>) -> tensor<4x6xf32>"

narrow_types <- c("i2", "ui2", "i4", "ui4", "f4E2M1FN")

moves <- list(
  transpose = list("stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6x{T}>) -> tensor<6x4x{T}>", "6x4x{T}"),
  broadcast = list("stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<4x6x{T}>) -> tensor<6x4x{T}>", "6x4x{T}")
)

test_that("a transpose is refused as one of several results and compiles as the only one", {
  withr::local_options(pjrt.cache = FALSE)
  for (type in narrow_types) {
    for (name in names(moves)) {
      line <- moves[[name]][[1L]]
      x <- matrix(rep_len(0:1, 24), 4)
      two <- moving_program(type, line, moves[[name]][[2L]], also)
      if (plugin_api(106)) {
        # newer compilers have no such fault
        results <- pjrt_execute(pjrt_compile(two), pjrt_buffer(x, tolower(type)))
        expect_equal(lapply(results, as_array), list(t(x), x), info = paste(type, name))
      } else {
        error <- expect_refused(pjrt_compile(two), "unsupported_dtype")
        expect_match(conditionMessage(error), "Convert that result to i8", fixed = TRUE)
        expect_refused(value(pjrt_compile_async(two)), "unsupported_dtype")
      }
      f <- pjrt_compile(moving_program(type, line, moves[[name]][[2L]]))
      expect_equal(as_array(pjrt_execute(f, pjrt_buffer(x, tolower(type)))), t(x), info = paste(type, name))
    }
  }
})

test_that("the workaround in the error message works", {
  withr::local_options(pjrt.cache = FALSE)
  for (type in c("i4", "ui2")) {
    program <- pjrt_program(c(
      "func.func @main(%x: tensor<4x6x{T}>) -> (tensor<6x4xi8>, tensor<4x6xf32>) {",
      "  %s = stablehlo.convert %x : (tensor<4x6x{T}>) -> tensor<4x6xi8>",
      "  %r = stablehlo.transpose %s, dims = [1, 0] : (tensor<4x6xi8>) -> tensor<6x4xi8>",
      also, "  return %r, %e : tensor<6x4xi8>, tensor<4x6xf32>", "}"
    ), types = list(T = type))
    x <- matrix(rep_len(c(0, 1, 1), 24), 4)
    results <- pjrt_execute(pjrt_compile(program), pjrt_buffer(x, type))
    expect_equal(as_array(results[[1L]]), t(x))
    expect_equal(as_array(results[[2L]]), x)
  }
})

test_that("programs without a transpose compile, and byte types are never refused", {
  withr::local_options(pjrt.cache = FALSE)
  x <- matrix(rep_len(0:1, 24), 4)
  f <- pjrt_compile(moving_program("i4", "stablehlo.reverse %x, dims = [0] : tensor<4x6x{T}>", "4x6x{T}", also))
  expect_equal(as_array(pjrt_execute(f, pjrt_buffer(x, "i4"))[[1L]]), x[4:1, ])
  for (move in moves) {
    f <- pjrt_compile(moving_program("i8", move[[1L]], move[[2L]], also))
    expect_equal(as_array(pjrt_execute(f, pjrt_buffer(x, "i8"))[[1L]]), t(x))
  }
})

test_that("operations that fail on two-bit types are refused for these and correct for four-bit types", {
  withr::local_options(pjrt.cache = FALSE)
  concatenate <- "stablehlo.concatenate %x, %x, dim = 1 : (tensor<4x6x{T}>, tensor<4x6x{T}>) -> tensor<4x12x{T}>"
  sort <- "\"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<{T}>, %b: tensor<{T}>):
      %c = stablehlo.compare LT, %a, %b : (tensor<{T}>, tensor<{T}>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) : (tensor<4x6x{T}>) -> tensor<4x6x{T}>"
  x <- matrix(rep_len(c(1, 0, 1), 24), 4)
  for (type in c("i2", "ui2")) {
    expect_refused(pjrt_compile(moving_program(type, concatenate, "4x12x{T}")), "unsupported_dtype")
    expect_refused(pjrt_compile(moving_program(type, sort, "4x6x{T}")), "unsupported_dtype")
  }
  for (type in c("i4", "ui4", "f4E2M1FN")) {
    run <- function(line, result) as_array(
      pjrt_execute(pjrt_compile(moving_program(type, line, result)), pjrt_buffer(x, tolower(type)))
    )
    expect_equal(run(concatenate, "4x12x{T}"), cbind(x, x))
    expect_equal(run(sort, "4x6x{T}"), t(apply(x, 1, base::sort)))
  }
})

test_that("loops and branches that transpose narrow arrays are refused in R's process, and compile apart", {
  withr::local_options(pjrt.cache = FALSE, pjrt.compile = "apart")
  branch <- "\"stablehlo.if\"(%p) ({
    stablehlo.return %x : tensor<4x6x{T}>
  }, {
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6x{T}>) -> tensor<6x4x{T}>
    %u = stablehlo.reshape %t : (tensor<6x4x{T}>) -> tensor<4x6x{T}>
    stablehlo.return %u : tensor<4x6x{T}>
  }) : (tensor<i1>) -> tensor<4x6x{T}>"
  line <- paste(
    "stablehlo.constant dense<0> : tensor<1xi8>\n  %p = stablehlo.constant dense<true> : tensor<i1>\n  %q =", branch
  )
  program <- moving_program("i4", sub("%q", "%s", line, fixed = TRUE), "1xi8")
  withr::with_options(list(pjrt.compile = "inside"), expect_refused(pjrt_compile(program), "unsupported_dtype"))
  skip_on_os("windows")
  expect_identical(as_array(pjrt_execute(pjrt_compile(program), pjrt_buffer(matrix(0, 4, 6), "i4"))), array(0L))
  loop <- function(type) {
    compile(gsub("{T}", type, "func.func @main(%x: tensor<4x4x{T}>, %n: tensor<i32>) -> tensor<4x4x{T}> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %q:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4x4x{T}>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %k = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<4x4x{T}>) -> tensor<4x4x{T}>
    %r = stablehlo.reverse %t, dims = [0] : tensor<4x4x{T}>
    stablehlo.return %k, %r : tensor<i32>, tensor<4x4x{T}>
  }
  return %q#1 : tensor<4x4x{T}>
}", fixed = TRUE))
  }
  x <- matrix(rep_len(c(0, 1, 0, 0, 1), 16), 4)
  for (type in narrow_types) {
    turned <- as_array(pjrt_execute(loop(type), pjrt_buffer(x, tolower(type)), pjrt_scalar(3L)))
    expect_equal(turned, as_array(pjrt_execute(loop("i8"), pjrt_buffer(x, "i8"), pjrt_scalar(3L))), info = type)
  }
})


test_that("bytecode and portable artifacts are refused like text", {
  for (name in c("moved-i4.mlirbc", "moved-f4.artifact", "moved-ui2.artifact")) {
    program <- pjrt_program(path = fixture(name))
    # newer plugins compile these programs
    if (plugin_api(106)) {
      expect_s3_class(pjrt_compile(program), "PJRTLoadedExecutable")
    } else {
      expect_refused(pjrt_compile(program), "unsupported_dtype")
    }
  }
})

test_that("matrices of integers become the floats that they are", {
  withr::local_options(pjrt.cache = FALSE)
  for (type in c("i2", "ui2", "i4", "ui4")) {
    for (shape in list(c(4, 4), c(4, 8), c(8, 8), c(4, 4, 4))) {
      dims <- paste0(shape, "x", collapse = "")
      program <- c(
        "func.func @main(%x: tensor<{D}{T}>) -> tensor<{D}f64> {",
        "  %0 = stablehlo.convert %x : (tensor<{D}{T}>) -> tensor<{D}f64>", "  return %0 : tensor<{D}f64>", "}"
      )
      x <- array(rep_len(c(0, 1, 1, -1, 0), prod(shape)) + startsWith(type, "u"), shape)
      f <- pjrt_compile(pjrt_program(program, types = list(D = dims, T = type)))
      expect_identical(as_array(pjrt_execute(f, pjrt_buffer(x, type))), x, info = paste(type, dims))
    }
  }
})

test_that("range(), rbind() and cbind() join integers narrower than a byte", {
  for (type in c("i2", "ui2", "i4", "ui4")) {
    x <- c(1, 0, 1, if (startsWith(type, "u")) 3 else -2)
    b <- pjrt_buffer(x, type)
    expect_equal(c(as_array(range(b))), range(x), info = type)
    expect_equal(as_array(rbind(b, b)), rbind(x, x), ignore_attr = "dimnames", info = type)
    expect_equal(as_array(cbind(b, b)), cbind(x, x), ignore_attr = "dimnames", info = type)
  }
})

test_that("narrow types are found behind names", {
  withr::local_options(pjrt.cache = FALSE)
  moved <- "!e = i4
!t = tensor<4x6x!e>
!u = tensor<6x4xi4>
func.func @main(%x: !t) -> (!u, !t) {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (!t) -> !u
  return %0, %x : !u, !t
}"
  if (!plugin_api(106)) {
    expect_refused(pjrt_compile(pjrt_program(moved)), "unsupported_dtype")
  }
  converted <- "!t = tensor<4x4xi4>
func.func @main(%x: !t) -> tensor<4x4xf64> {
  %0 = stablehlo.convert %x : (!t) -> tensor<4x4xf64>
  return %0 : tensor<4x4xf64>
}"
  x <- matrix(-8:7, 4)
  expect_equal(as_array(pjrt_execute(pjrt_compile(pjrt_program(converted)), pjrt_buffer(x, "i4"))), x)
})
