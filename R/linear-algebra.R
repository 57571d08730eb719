#' Call LAPACK from programs
#'
#' Programs on the CPU can call LAPACK for matrix factorizations, eigenvalues and linear systems. The package handles
#' the [custom calls][pjrt_register_custom_call] below, so programs that JAX has lowered for CPUs run as they are. You
#' do not need to register anything.
#'
#' @section LAPACK:
#' The package uses R's LAPACK, which may be OpenBLAS, MKL or Accelerate. The library is loaded when a program first
#' calls it. The package takes the first library that works: that of [La_library()], the BLAS in [extSoftVersion()], or
#' one in R's folders. If none works, the execution fails with an error that lists what was tried.
#'
#' The LAPACK in R's sources has no routines for single precision. With it, `f32` and `c64` are computed in double
#' precision and rounded. Libraries with 64-bit integers (ILP64) are not supported.
#' @section Targets:
#' These work for `f32` and `f64`. `m` and `n` are the dimensions of a matrix, and `k` is the smaller one. All matrices
#' are in column-major order: state it with `operand_layouts` and `result_layouts`, as in the example. The calls need
#' `api_version = 4 : i32`.
#'
#' * `geqrf`: input A (m, n); outputs R and reflections (m, n), tau (k).
#' * `orgqr`: inputs reflections (m, k), tau (k); output Q (m, k).
#' * `lu`: input A (m, n); outputs L and U (m, n), pivots (k, `i32`, from 1).
#' * `lu_pivots_to_permutation`: input pivots (k, `i32`, from 1); output a permutation of the rows (m, `i32`, from 1).
#' * `svd`: input A (m, n); outputs U (m, k), S (k), transposed V (k, n).
#' * `eigh`: input A (n, n), lower triangle; outputs V (n, n), eigenvalues in ascending order (n).
#'
#' If `svd` or `eigh` cannot compute a result, for example because the input has NaN, the outputs are NaN. The attribute
#' `first = 0 : i32` makes `lu_pivots_to_permutation` count from 0. Leading dimensions are batches, as below.
#' @section JAX's targets:
#' These have the names `lapack_s<name>_ffi` for `f32`, with `d` for `f64`, `c` for `c64` and `z` for `c128`. Leading
#' dimensions are batches, which are divided among the [client's][pjrt_client] threads. Attributes marked u8 are the
#' code of a letter. The output `info` has type `i32` and the dimensions of the batch. A matrix that cannot be
#' factorized is not an error: its `info` is not zero, and JAX's programs then return NaN.
#'
#' * `potrf`: input A; outputs Cholesky factor, info; attributes `uplo` u8.
#' * `getrf`: input A; outputs L and U, pivots (`i32`, from 1), info.
#' * `geqrf`: input A; outputs R and reflections, tau.
#' * `geqp3`: inputs A, columns (`i32`); outputs R and reflections, columns, tau.
#' * `orgqr` (`ungqr`): inputs reflections, tau; output Q.
#' * `ormqr` (`unmqr`): inputs reflections, tau, C; output product; attributes `left`, `transpose` (flags).
#' * `gesdd`, `gesvd`: input A; outputs A, S, U, transposed V, info; attributes `mode` u8: A, S or N.
#' * `syevd` (`heevd`): input A; outputs V, eigenvalues, info; attributes `uplo` u8, `mode` u8: V or N.
#' * `geev`: input A; outputs eigenvalues, left V, right V, info; attributes `compute_left`, `compute_right` u8: V or N.
#' * `gees`: input A; outputs T, V, eigenvalues, selected (`i32`), info; attributes `mode` u8: V or N, `sort` u8: N.
#' * `gehrd`: input A; outputs H and reflections, tau, info; attributes `low`, `high` (`i32`).
#' * `sytrd` (`hetrd`): input A; outputs T and reflections, diagonal, off-diagonal, tau, info; attributes `uplo` u8.
#' * `trsm`: inputs A, B; output solution; attributes `side`, `uplo`, `trans_x`, `diag` u8.
#' * `gtsv`: inputs lower, diagonal, upper, B; outputs lower, diagonal, upper, solution, info.
#'
#' The names in parentheses are for complex types. `geev` and `gees` of real types return the real and imaginary parts
#' of eigenvalues as two outputs. `tridiagonal_solve_perturbed_ffi` works for all four types.
#'
#' The letters are LAPACK's: `uplo` is L or U, `side` L or R, `trans_x` N, T or C, and `diag` N or U. If `mode` is N,
#' vectors are not computed.
#' @section Other platforms:
#' On NVIDIA GPUs (platform `cuda`), the targets of the first list call cuSOLVER of the CUDA installation, for `f32` and
#' `f64` only. The library that the plugin uses is loaded when a program first calls it. If it is missing, programs
#' compile, but their execution fails with an error that names the library. Differences from the CPU:
#' * `svd` requires `m >= n`. For `m < n`, set the attribute `transposed = true` and state row-major order in
#'   `operand_layouts` and `result_layouts`, so that cuSOLVER gets the transposed matrix.
#' * `svd` and `eigh` do not report that they did not converge. Their outputs are then unspecified instead of NaN,
#'   because a check would wait for the GPU.
#' * `lu_pivots_to_permutation` waits for the GPU and computes on the host.
#'
#' A plugin that has a handler with the same name may refuse the package's handler. Programs then call the plugin's.
#'
#' There are no handlers for JAX's targets on CUDA, or for other platforms. There, [pjrt_compile()] raises
#' `pjrt_error_custom_call`, which names the target, unless the plugin handles it or you register a handler.
#' @section Errors:
#' Calls with other types, shapes or attributes fail: reading an output raises `pjrt_error_invalid_argument`, with the
#' name of the target.
#' @seealso [pjrt_register_custom_call()]
#' @name linear-algebra
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # eigenvectors and eigenvalues of a symmetric matrix
#' program <- pjrt_program('
#' func.func @main(%a: tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>) {
#'   %v, %w = stablehlo.custom_call @eigh(%a) {
#'     api_version = 4 : i32,
#'     operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
#'     result_layouts = [
#'       dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>
#'     ]
#'   } : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>)
#'   return %v, %w : tensor<2x2xf64>, tensor<2xf64>
#' }')
#' a <- matrix(c(2, 1, 1, 2), 2)
#' eigen <- pjrt_compile(program)
#' pjrt_execute(eigen, pjrt_buffer(a, "f64"))
NULL

# Passes the place of R's LAPACK to native code, once. Takes less than a millisecond, because R loads its LAPACK for
# this.
name_lapack <- function() {
  if (!the$lapack_named) {
    call_with_text(ffi_linear_algebra_libraries, enc2utf8(lapack_files()))
    the$lapack_named <- TRUE
  }
}

# The files that may have LAPACK or BLAS, R's choice first.
lapack_files <- function() {
  # some systems have no files for them, such as macOS
  used <- c(La_library(), extSoftVersion()[["BLAS"]])
  bundled <- c(
    file.path(R.home("lib"), c("libRlapack.so", "libRlapack.dylib", "libRblas.so", "libRblas.dylib")),
    file.path(R.home("bin"), c("Rlapack.dll", "Rblas.dll"))
  )
  files <- c(used[nzchar(used)], bundled)
  files <- files[file.exists(files) | startsWith(files, "/System/")]
  unique(normalizePath(files, mustWork = FALSE))
}
