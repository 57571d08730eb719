# Linear algebra within programs, on the LAPACK that R uses.
# Slow: compiles many programs.

# Optimizing all programs would take most of the time.
quick_options <- c(
  list(xla_backend_optimization_level = 0L), if (!plugin_api(115)) list(xla_cpu_use_fusion_emitters = FALSE)
)

test_that("programs of JAX return what JAX returns", {
  files <- linear_algebra_files()
  expect_gt(length(files), 40L)
  optimized <- c("solve", "least-squares", "newton", "map", "grad-qr", "roots")
  for (name in names(files)) {
    fixture <- read_linear_algebra(files[[name]])
    options <- pjrt_compile_options(debug_options = if (name %in% optimized) list() else quick_options)
    expect_identical(differences_from_jax(fixture, compile(fixture$text, options)), NULL, info = name)
  }
})

test_that("the programs of JAX call every target in every type", {
  texts <- unlist(lapply(linear_algebra_files(), readLines))
  called <- unique(unlist(regmatches(texts, gregexpr("custom_call @[A-Za-z_0-9]+", texts))))
  for_all <- paste0(rep(c("s", "d", "c", "z"), each = 13L), c(
    "potrf", "getrf", "geqrf", "geqp3", "gesdd", "gesvd", "geev", "gees", "gehrd", "trsm", "gtsv"
  ))
  for_some <- c(
    outer(c("sor", "dor", "cun", "zun"), c("gqr", "mqr"), paste0),
    outer(c("ssy", "dsy", "che", "zhe"), c("evd", "trd"), paste0)
  )
  expected <- c(sprintf("lapack_%s_ffi", c(for_all, for_some)), "tridiagonal_solve_perturbed_ffi")
  expect_setequal(sub("custom_call @", "", called), expected)
})

test_that("the comparison with JAX notices differences", {
  a <- matrix(c(1, 2, 3, 4, 5, 7), 2)
  b <- replace(a, 4L, 4.001)
  expect_gt(far_from(b, a), 1e-4)
  expect_lt(far_from(b, a), 2e-4)
  expect_identical(far_from(replace(a, 1L, NaN), a), Inf)
  turned <- sweep(a, 2L, c(1, -1, 1), `*`)
  expect_identical(far_from(turned, a, "columns"), 0)
  expect_gt(far_from(turned, a, "rows"), 0.1)
  expect_gt(far_from(turned, a), 0.1)
  expect_lt(far_from(a * complex(argument = 1), a + 0i, "rows"), 1e-15)
  expect_identical(far_from(c(3, 2i, 1), c(1, 3, 2i), "sorted"), 0)
  expect_identical(far_from(a[, 3:1], a, "sorted"), 0)
})

shapes <- list(tall = c(5L, 3L), wide = c(3L, 5L), square = c(4L, 4L))

# Random numbers that have the same value in f32.
numbers <- function(shape, seed = 1L) {
  withr::with_seed(seed, array(round(rnorm(prod(shape)), 2) * 8, shape))
}

typed <- function(dtype, ...) paste(c(..., dtype), collapse = "x")

for (dtype in c("f32", "f64")) {
  tolerance <- tolerance_of(dtype)

  test_that(paste("geqrf and orgqr return a QR decomposition of", dtype), {
    for (shape in shapes) {
      k <- min(shape)
      a <- numbers(shape)
      packed <- call_target("geqrf", list(a), c(typed(dtype, shape), typed(dtype, k)), dtype = dtype)
      r <- packed[[1L]][seq_len(k), , drop = FALSE]
      r[lower.tri(r)] <- 0
      # orgqr takes as many columns as there are reflections
      reflections <- packed[[1L]][, seq_len(k), drop = FALSE]
      q <- call_target("orgqr", list(reflections, packed[[2L]]), typed(dtype, shape[[1L]], k), dtype = dtype)[[1L]]
      expect_equal(q %*% r, a, tolerance = tolerance)
      expect_equal(crossprod(q), diag(k), tolerance = tolerance)
      expect_equal(abs(r), abs(qr.R(qr(a))), tolerance = tolerance)
    }
  })

  test_that(paste("lu returns an LU decomposition of", dtype), {
    for (shape in shapes) {
      k <- min(shape)
      a <- numbers(shape)
      result <- call_target("lu", list(a), c(typed(dtype, shape), typed("i32", k)), dtype = dtype)
      pivots <- result[[2L]]
      expect_true(is.integer(pivots) && all(pivots >= seq_len(k), pivots <= shape[[1L]]))
      l <- result[[1L]][, seq_len(k), drop = FALSE]
      l[upper.tri(l)] <- 0
      diag(l) <- 1
      u <- result[[1L]][seq_len(k), , drop = FALSE]
      u[lower.tri(u)] <- 0
      rows <- seq_len(shape[[1L]])
      for (i in seq_len(k)) rows[c(i, pivots[[i]])] <- rows[c(pivots[[i]], i)]
      expect_equal(l %*% u, a[rows, ], tolerance = tolerance)
      permutation <- call_target(
        "lu_pivots_to_permutation", list(pivots), typed("i32", shape[[1L]]), dtype = "i32"
      )[[1L]]
      expect_identical(as.vector(permutation), rows)
    }
  })

  test_that(paste("svd returns a singular value decomposition of", dtype), {
    for (shape in shapes) {
      k <- min(shape)
      a <- numbers(shape)
      types <- c(typed(dtype, shape[[1L]], k), typed(dtype, k), typed(dtype, k, shape[[2L]]))
      result <- call_target("svd", list(a), types, dtype = dtype)
      expect_equal(result[[1L]] %*% diag(result[[2L]]) %*% result[[3L]], a, tolerance = tolerance)
      expect_equal(as.vector(result[[2L]]), svd(a)$d, tolerance = tolerance)
    }
  })

  test_that(paste("eigh returns the eigenvectors of the lower triangle of", dtype), {
    a <- numbers(c(4L, 4L))
    lower <- a
    lower[upper.tri(a)] <- t(a)[upper.tri(a)]
    result <- call_target("eigh", list(a), c(typed(dtype, 4, 4), typed(dtype, 4)), dtype = dtype)
    expect_equal(as.vector(result[[2L]]), rev(eigen(lower, symmetric = TRUE)$values), tolerance = tolerance)
    expect_equal(lower %*% result[[1L]], result[[1L]] %*% diag(result[[2L]]), tolerance = tolerance)
    expect_equal(crossprod(result[[1L]]), diag(4L), tolerance = tolerance)
  })

  test_that(paste("inputs of", dtype, "stay as they are, and can be donated"), {
    one <- typed(dtype, 4, 4)
    outputs <- list(
      geqrf = c(one, typed(dtype, 4)), lu = c(one, "4xi32"), svd = c(one, typed(dtype, 4), one),
      eigh = c(one, typed(dtype, 4))
    )
    a <- numbers(c(4L, 4L))
    for (target in names(outputs)) {
      x <- pjrt_buffer(a, dtype)
      before <- as_raw(x)
      program <- linear_algebra_program(target, one, outputs[[target]])
      expected <- lapply(run_all(compile(program), x), as_array)
      expect_identical(as_raw(x), before, info = target)
      donating <- compile(linear_algebra_program(target, one, outputs[[target]], input_attributes = donates))
      expect_identical(lapply(run_all(donating, x), as_array), expected, info = target)
      expect_true(is_deleted(x), info = target)
    }
  })
}

test_that("calls with other types and shapes are refused", {
  one <- function(dtype) typed(dtype, 2, 2)
  results <- function(dtype) {
    list(geqrf = c(one(dtype), typed(dtype, 2)), lu = c(one(dtype), "2xi32"), eigh = c(one(dtype), typed(dtype, 2)),
      svd = c(one(dtype), typed(dtype, 2), one(dtype)))
  }
  for (target in names(results("i32"))) {
    for (dtype in c("i32", "f16", "c64")) {
      x <- pjrt_buffer(if (dtype == "c64") diag(2) + 0i else diag(2), dtype)
      error <- expect_refused(
        call_target(target, list(x), results(dtype)[[target]]), "invalid_argument",
        "operation only supports f32 and f64"
      )
      expect_match(conditionMessage(error), target, fixed = TRUE)
    }
  }
  expect_refused(
    call_target("eigh", list(matrix(1, 2, 3)), c("2x3xf64", "2xf64")), "invalid_argument",
    "eigh requires a square matrix"
  )
})

test_that("wrong calls are refused by name", {
  a <- numbers(c(3L, 3L))
  call <- function(target, outputs, attributes = "", ...) {
    call_target(sprintf("lapack_%s_ffi", target), list(a, ...), outputs, attributes)
  }
  matrix <- "3x3xf64"
  both <- c(matrix, "i32")
  refused <- function(object, message) {
    error <- expect_refused(object, "invalid_argument", message)
    expect_match(conditionMessage(error), "lapack_[a-z0-9]+_ffi")
  }
  refused(call("dpotrf", both), "uplo")
  refused(call("dpotrf", both, "uplo = 88 : ui8"), "uplo")
  refused(call("dpotrf", both, "uplo = 76.0 : f32"), "uplo")
  refused(call("dgesdd", c(matrix, "3xf64", matrix, matrix, "i32"), "mode = 66 : ui8"), "mode")
  refused(call("dpotrf", matrix, "uplo = 76 : ui8"), "result")
  refused(call("dpotrf", both, "uplo = 76 : ui8", a), "argument")
  refused(call("dpotrf", c("3x2xf64", "i32"), "uplo = 76 : ui8"), "Expected result 1 of type f64[3,3], got f64[3,2].")
  refused(call("dpotrf", c("3x3xf32", "i32"), "uplo = 76 : ui8"), "f64")
  refused(call("spotrf", both, "uplo = 76 : ui8"), "f32")
  refused(call("dgetrf", c(matrix, "4xi32", "i32")), "Expected result 2 of type i32[3], got i32[4].")
  refused(call("dgehrd", c(matrix, "2xf64", "i32"), "low = 0 : i32, high = 9 : i32"), "")
})

test_that("a batch of a thousand matrices is decomposed", {
  n <- 1000L
  a <- numbers(c(n, 4L, 3L))
  result <- call_target(
    "lapack_dgesdd_ffi", list(a), c("1000x4x3xf64", "1000x3xf64", "1000x4x3xf64", "1000x3x3xf64", "1000xi32"),
    "mode = 83 : ui8", batch = 1L
  )
  expect_identical(as.vector(result[[5L]]), integer(n))
  rebuilt <- array(0, dim(a))
  for (k in 1:3) {
    for (j in 1:3) rebuilt[, , j] <- rebuilt[, , j] + result[[3L]][, , k] * result[[2L]][, k] * result[[4L]][, k, j]
  }
  expect_equal(rebuilt, a, tolerance = 1e-12)
  expect_equal(result[[2L]][n, ], svd(a[n, , ])$d)
})

test_that("eigenvalues are computed without vectors, and a matrix without a Cholesky factor gets an info", {
  a <- crossprod(numbers(c(3L, 3L)))
  outputs <- c("3x3xf64", "3xf64", "i32")
  values <- call_target("lapack_dsyevd_ffi", list(a), outputs, "uplo = 85 : ui8, mode = 78 : ui8")
  expect_equal(as.vector(values[[2L]]), rev(eigen(a)$values))
  factor <- call_target("lapack_dpotrf_ffi", list(a), outputs[-2L], "uplo = 85 : ui8")
  expect_equal(factor[[1L]][upper.tri(a, TRUE)], chol(a)[upper.tri(a, TRUE)])
  expect_identical(as.vector(call_target("lapack_dpotrf_ffi", list(-a), outputs[-2L], "uplo = 76 : ui8")[[2L]]), 1L)
})

test_that("many executions at once return the same", {
  withr::local_options(pjrt.dispatch = "thread")
  program <- linear_algebra_program("svd", "40x30xf64", c("40x30xf64", "30xf64", "30x30xf64"))
  both <- lapply(devices("cpu"), function(device) {
    list(run = compile(program, device = device), x = pjrt_buffer(numbers(c(40L, 30L)), "f64", device = device))
  })
  runs <- lapply(1:40, function(i) {
    on <- both[[i %% 2L + 1L]]
    run_all(on$run, on$x)
  })
  results <- lapply(runs, function(run) lapply(run, as_array))
  expect_equal(results, rep(results[1L], 40L), tolerance = 1e-12)
})

test_that("an interrupt ends the wait for a long decomposition, and R goes on", {
  child <- start_child(
    bquote({
      big <- compile(.(linear_algebra_program("svd", "1500x1500xf64", c("1500x1500xf64", "1500xf64", "1500x1500xf64"))))
      double <- compile(unary_program("f64"), device = "cpu:1")
      run <- pjrt_execute(big, pjrt_buffer(matrix(rnorm(1500^2), 1500), "f64"), simplify = FALSE)
      tryCatch(
        {
          cat("starts\n")
          await(run[[2L]])
        },
        interrupt = function(i) cat("interrupted\n")
      )
      cat(is_ready(run[[2L]]), as_array(pjrt_execute(double, pjrt_scalar(21, "f64", device = "cpu:1"))), "\n")
      Sys.sleep(100)
    }),
    env = lone_session(), helpers = c("programs", "linear-algebra")
  )
  withr::defer(child$kill())
  next_line <- line_reader(child)
  expect_identical(next_line(), "starts")
  Sys.sleep(0.3)
  child$interrupt()
  expect_identical(next_line(), "interrupted")
  # before the decomposition ends
  expect_identical(next_line(), "FALSE 42 ")
})

test_that("a program with linear algebra is cached, and works in the next session", {
  env <- lone_session()
  env[["PJRT_CACHE"]] <- "1"
  session <- function() {
    child <- run_child(
      bquote({
        eigh <- compile(.(linear_algebra_program("eigh", "2x2xf64", c("2x2xf64", "2xf64"))))
        cat(as_array(run_all(eigh, pjrt_buffer(matrix(c(2, 1, 1, 2), 2), "f64"))[[2L]]), "\n")
        cat(unlist(pjrt_cache_info()[c("hits", "misses", "errors", "entries")]), "\n")
      }),
      env = env, helpers = c("programs", "linear-algebra")
    )
    expect_clean(child)$out
  }
  expect_identical(session(), c("1 3 ", "0 1 0 1 "))
  expect_identical(session(), c("1 3 ", "1 0 0 1 "))
})

# Code that names a LAPACK before the first client does.
with_lapack <- function(files) {
  bquote({
    pjrt:::call_native(pjrt:::ffi_linear_algebra_libraries, .(files))
    assign("lapack_named", TRUE, pjrt:::the)
  })
}

test_that("routines that R's own LAPACK lacks are replaced", {
  small <- build_small_lapack(withr::local_tempdir())
  skip_if(is.null(small), "no static LAPACK")
  files <- linear_algebra_files()[
    c("eig", "eigh", "schur", "svd", "qr-pivoting", "tridiagonal-solve", "hessenberg", "solve")
  ]
  child <- run_child(
    bquote({
      .(with_lapack(small))
      quick <- pjrt_compile_options(debug_options = .(quick_options))
      for (file in .(normalizePath(files))) {
        fixture <- read_linear_algebra(file)
        writeLines(c(basename(file), differences_from_jax(fixture, compile(fixture$text, quick))))
      }
    }),
    env = lone_session(), helpers = c("programs", "linear-algebra")
  )
  expect_clean(child, basename(files))
})

test_that("an error lists the libraries that are not LAPACK", {
  child <- run_child(
    bquote({
      .(with_lapack(c("/nowhere/liblapack.so", R.home("library"))))
      x <- pjrt_buffer(diag(2), "f64")
      outputs <- run_all(compile(.(linear_algebra_program("lu", "2x2xf64", c("2x2xf64", "2xi32")))), x)
      as_array(outputs[[1L]])
    }),
    env = lone_session(), helpers = c("programs", "linear-algebra")
  )
  expect_identical(child$status, 1L)
  expect_match(child$err, "No LAPACK could be loaded", fixed = TRUE, all = FALSE)
  expect_match(child$err, "/nowhere/liblapack.so", fixed = TRUE, all = FALSE)
})
