# Compares linear algebra within programs with direct calls of the same LAPACK from C.
#
#   Rscript bench/linear-algebra.R [file for the table]
#
# The two alternate, so that other load affects both equally. A program transposes its inputs and outputs, because
# LAPACK's order of elements differs from that of buffers; the time of a direct call includes the copy of its input.

library(pjrt)
source("bench/measure.R")
source("tests/testthat/helper-programs.R")
source("tests/testthat/helper-linear-algebra.R")

# How much more processor time two processes get than one.
processors <- local({
  spin <- function(i) {
    x <- 0
    for (k in seq_len(2e7)) x <- x + k
  }
  elapsed <- function(n) system.time(parallel::mclapply(seq_len(n), spin, mc.cores = n))[["elapsed"]]
  2 * elapsed(1L) / elapsed(2L)
})

direct <- local({
  folder <- tempfile("direct")
  dir.create(folder)
  file.copy("bench/linear-algebra.c", folder)
  flags <- c("PKG_LIBS = $(LAPACK_LIBS) $(BLAS_LIBS) $(FLIBS)")
  writeLines(flags, file.path(folder, "Makevars"))
  library <- file.path(folder, paste0("direct", .Platform$dynlib.ext))
  command <- c("CMD", "SHLIB", "-o", library, "linear-algebra.c")
  status <- withr::with_dir(folder, system2(file.path(R.home("bin"), "R"), command, stdout = FALSE))
  stopifnot(status == 0L)
  loaded <- dyn.load(library)
  function(name) getNativeSymbolInfo(paste0("direct_", name), loaded)
})

set.seed(1)
square <- function(n) paste0(n, "x", n, "xf64")
line <- function(n) paste0(n, "xf64")

qr_program <- function(n) {
  sprintf("func.func @main(%%x: tensor<%1$s>) -> (tensor<%1$s>, tensor<%1$s>) {
  %%p:2 = stablehlo.custom_call @geqrf(%%x) {api_version = 4 : i32, %3$s, %4$s} : (tensor<%1$s>) -> (tensor<%1$s>, tensor<%2$s>)
  %%q = stablehlo.custom_call @orgqr(%%p#0, %%p#1) {api_version = 4 : i32, %5$s, %6$s}
    : (tensor<%1$s>, tensor<%2$s>) -> tensor<%1$s>
  return %%q, %%p#0 : tensor<%1$s>, tensor<%1$s>
}", square(n), line(n),
    "operand_layouts = [dense<[0, 1]> : tensor<2xindex>]",
    "result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]",
    "operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]",
    "result_layouts = [dense<[0, 1]> : tensor<2xindex>]"
  )
}

one_call <- function(target, n, outputs) linear_algebra_program(target, square(n), outputs)

symmetric <- function(x) x + t(x)

n <- 500L
cases <- list(
  "QR, 500 x 500" = list(qr_program(n), matrix(rnorm(n^2), n), "qr"),
  "LU, 500 x 500" = list(one_call("lu", n, c(square(n), "500xi32")), matrix(rnorm(n^2), n), "lu"),
  "SVD, 500 x 500" = list(one_call("svd", n, c(square(n), line(n), square(n))), matrix(rnorm(n^2), n), "svd"),
  "eigh, 500 x 500" = list(one_call("eigh", n, c(square(n), line(n))), symmetric(matrix(rnorm(n^2), n)), "eigh"),
  "geqrf, 2 x 2" = list(one_call("geqrf", 2, c(square(2), line(2))), matrix(rnorm(4), 2), "geqrf"),
  "LU, 2 x 2" = list(one_call("lu", 2, c(square(2), "2xi32")), matrix(rnorm(4), 2), "lu")
)

# Alternates two functions, and returns the times of each in microseconds.
alternate <- function(ours, theirs, rounds, calls) {
  times <- matrix(0, rounds + 1L, 2L)
  for (i in seq_len(rounds + 1L)) {
    for (j in 1:2) {
      f <- if (j == 1L) ours else theirs
      start <- now()
      for (k in seq_len(calls)) f()
      times[i, j] <- (now() - start) / calls
    }
  }
  times[-1L, ]
}

measure <- function(case) {
  executable <- compile(case[[1L]])
  x <- pjrt_buffer(case[[2L]], "f64")
  symbol <- direct(case[[3L]])
  ours <- function() for (out in pjrt_execute(executable, x, simplify = FALSE)) await(out)
  theirs <- function() .Call(symbol, case[[2L]])
  small <- nrow(case[[2L]]) < 10L
  alternate(ours, theirs, if (small) 15L else 9L, if (small) 2000L else 1L)
}

row_of <- function(times) {
  best <- apply(times, 2L, min)
  middle <- apply(times, 2L, median)
  c(middle, best, median(times[, 1L] / times[, 2L]))
}

# What a program costs that calls nothing.
without_call <- local({
  executable <- compile(unary_program(square(2)))
  x <- pjrt_buffer(diag(2), "f64")
  median_time(2000L, await(pjrt_execute(executable, x)))
})

columns <- c("pjrt_median", "direct_median", "pjrt_min", "direct_min", "ratio")
table <- t(vapply(cases, function(case) row_of(measure(case)), numeric(5L)))
colnames(table) <- columns

# A batch, in sessions with different numbers of threads.
batch_child <- quote({
  many <- array(rnorm(1000 * 16 * 16), c(1000, 16, 16))
  many <- many + aperm(many, c(1, 3, 2))
  columns <- aperm(many, c(2, 3, 1))
  batched <- list(
    lu_batch = list("lapack_dgetrf_ffi", c("1000x16x16xf64", "1000x16xi32", "1000xi32"), ""),
    eigh_batch = list(
      "lapack_dsyevd_ffi", c("1000x16x16xf64", "1000x16xf64", "1000xi32"), "uplo = 76 : ui8, mode = 86 : ui8"
    )
  )
  for (name in names(batched)) {
    case <- batched[[name]]
    executable <- compile(linear_algebra_program(case[[1L]], "1000x16x16xf64", case[[2L]], case[[3L]], batch = 1L))
    x <- pjrt_buffer(many, "f64")
    symbol <- direct(name)
    ours <- function() for (out in pjrt_execute(executable, x, simplify = FALSE)) await(out)
    cat(row_of(alternate(ours, function() .Call(symbol, columns), 15L, 3L)), "\n")
  }
})

if (nzchar(Sys.getenv("PJRT_BENCH_BATCH"))) {
  eval(batch_child)
  quit("no")
}

batch_rows <- function(threads) {
  script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  rscript <- shQuote(file.path(R.home("bin"), "Rscript"))
  command <- sprintf("PJRT_BENCH_BATCH=1 PJRT_CPU_THREADS=%d %s %s", threads, rscript, script)
  numbers <- scan(text = system(command, intern = TRUE), quiet = TRUE)
  rows <- matrix(numbers, 2L, byrow = TRUE)
  rownames(rows) <- sprintf(
    "%s of 1000 matrices 16 x 16, %d thread%s", c("LU", "eigh"), threads, if (threads > 1L) "s" else ""
  )
  rows
}
table <- rbind(table, do.call(rbind, lapply(unique(c(1L, parallel::detectCores())), batch_rows)))

cell <- function(x) formatC(signif(x, 3), digits = 3, format = "fg", big.mark = ",")
shown <- as.data.frame(apply(table, 2L, cell), row.names = rownames(table))
width <- options(width = 120L)
report(
  paste("LAPACK:", La_library(), La_version()), "",
  utils::capture.output(print(shown)), "",
  "Microseconds. The ratio is the median of the ratios of alternating runs.",
  sprintf("A program that adds two 2 x 2 matrices, without a call of LAPACK, takes %.1f us.", without_call),
  sprintf("Two busy processes got the time of %.1f processors.", processors)
)
options(width)
