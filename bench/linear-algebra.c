/* Direct calls of LAPACK on an R matrix, for bench/linear-algebra.R. Each copies its input, because LAPACK overwrites it. */

#define USE_FC_LEN_T
#include <R.h>
#include <Rinternals.h>
#include <R_ext/BLAS.h>
#include <R_ext/Lapack.h>
#include <string.h>

#ifndef FCONE
#define FCONE
#endif

static double *work_of(double size, int *length) {
  *length = (int)size;
  return (double *)R_alloc(*length, sizeof(double));
}

static SEXP copied(SEXP x) {
  SEXP copy = allocMatrix(REALSXP, nrows(x), ncols(x));
  memcpy(REAL(copy), REAL(x), sizeof(double) * XLENGTH(x));
  return copy;
}

/* list(Q, R packed) of an m x n matrix, m >= n. */
SEXP direct_qr(SEXP x) {
  int m = nrows(x), n = ncols(x), query = -1, length, info;
  double size;
  SEXP packed = PROTECT(copied(x));
  double *tau = (double *)R_alloc(n, sizeof(double));
  F77_CALL(dgeqrf)(&m, &n, REAL(packed), &m, tau, &size, &query, &info);
  double *work = work_of(size, &length);
  F77_CALL(dgeqrf)(&m, &n, REAL(packed), &m, tau, work, &length, &info);
  SEXP q = PROTECT(copied(packed));
  F77_CALL(dorgqr)(&m, &n, &n, REAL(q), &m, tau, &size, &query, &info);
  work = work_of(size, &length);
  F77_CALL(dorgqr)(&m, &n, &n, REAL(q), &m, tau, work, &length, &info);
  SEXP both = PROTECT(allocVector(VECSXP, 2));
  SET_VECTOR_ELT(both, 0, q);
  SET_VECTOR_ELT(both, 1, packed);
  UNPROTECT(3);
  return both;
}

/* list(packed, tau), and nothing else, for small matrices. */
SEXP direct_geqrf(SEXP x) {
  int m = nrows(x), n = ncols(x), query = -1, length, info;
  double size;
  SEXP both = PROTECT(allocVector(VECSXP, 2));
  SEXP packed = copied(x);
  SET_VECTOR_ELT(both, 0, packed);
  SEXP tau = allocVector(REALSXP, n);
  SET_VECTOR_ELT(both, 1, tau);
  F77_CALL(dgeqrf)(&m, &n, REAL(packed), &m, REAL(tau), &size, &query, &info);
  double *work = work_of(size, &length);
  F77_CALL(dgeqrf)(&m, &n, REAL(packed), &m, REAL(tau), work, &length, &info);
  UNPROTECT(1);
  return both;
}

SEXP direct_lu(SEXP x) {
  int m = nrows(x), n = ncols(x), info;
  SEXP both = PROTECT(allocVector(VECSXP, 2));
  SEXP packed = copied(x);
  SET_VECTOR_ELT(both, 0, packed);
  SEXP pivots = allocVector(INTSXP, m < n ? m : n);
  SET_VECTOR_ELT(both, 1, pivots);
  F77_CALL(dgetrf)(&m, &n, REAL(packed), &m, INTEGER(pivots), &info);
  UNPROTECT(1);
  return both;
}

/* list(U, S, Vt) of a square matrix. */
SEXP direct_svd(SEXP x) {
  int n = ncols(x), query = -1, length, info;
  double size;
  SEXP all = PROTECT(allocVector(VECSXP, 3)), a = PROTECT(copied(x));
  SET_VECTOR_ELT(all, 0, allocMatrix(REALSXP, n, n));
  SET_VECTOR_ELT(all, 1, allocVector(REALSXP, n));
  SET_VECTOR_ELT(all, 2, allocMatrix(REALSXP, n, n));
  double *u = REAL(VECTOR_ELT(all, 0)), *s = REAL(VECTOR_ELT(all, 1)), *vt = REAL(VECTOR_ELT(all, 2));
  int *whole = (int *)R_alloc(8 * (size_t)n, sizeof(int));
  F77_CALL(dgesdd)("S", &n, &n, REAL(a), &n, s, u, &n, vt, &n, &size, &query, whole, &info FCONE);
  double *work = work_of(size, &length);
  F77_CALL(dgesdd)("S", &n, &n, REAL(a), &n, s, u, &n, vt, &n, work, &length, whole, &info FCONE);
  UNPROTECT(2);
  return all;
}

/* list(V, W) of a symmetric matrix. */
SEXP direct_eigh(SEXP x) {
  int n = ncols(x), query = -1, length, whole_length, info;
  double size;
  SEXP both = PROTECT(allocVector(VECSXP, 2));
  SEXP v = copied(x);
  SET_VECTOR_ELT(both, 0, v);
  SEXP w = allocVector(REALSXP, n);
  SET_VECTOR_ELT(both, 1, w);
  F77_CALL(dsyevd)("V", "L", &n, REAL(v), &n, REAL(w), &size, &query, &whole_length, &query, &info FCONE FCONE);
  double *work = work_of(size, &length);
  int *whole = (int *)R_alloc(whole_length, sizeof(int));
  F77_CALL(dsyevd)("V", "L", &n, REAL(v), &n, REAL(w), work, &length, whole, &whole_length, &info FCONE FCONE);
  UNPROTECT(1);
  return both;
}

/* list(packed, pivots) of the matrices x[, , i]. */
SEXP direct_lu_batch(SEXP x) {
  int n = INTEGER(getAttrib(x, R_DimSymbol))[0], batch = INTEGER(getAttrib(x, R_DimSymbol))[2], info;
  SEXP both = PROTECT(allocVector(VECSXP, 2));
  SEXP packed = duplicate(x);
  SET_VECTOR_ELT(both, 0, packed);
  SEXP pivots = allocMatrix(INTSXP, n, batch);
  SET_VECTOR_ELT(both, 1, pivots);
  for (int i = 0; i < batch; i++) {
    F77_CALL(dgetrf)(&n, &n, REAL(packed) + (size_t)i * n * n, &n, INTEGER(pivots) + (size_t)i * n, &info);
  }
  UNPROTECT(1);
  return both;
}

/* list(V, W) of the symmetric matrices x[, , i]. */
SEXP direct_eigh_batch(SEXP x) {
  int n = INTEGER(getAttrib(x, R_DimSymbol))[0], batch = INTEGER(getAttrib(x, R_DimSymbol))[2];
  int query = -1, length, whole_length, info;
  double size;
  SEXP both = PROTECT(allocVector(VECSXP, 2));
  SEXP v = duplicate(x);
  SET_VECTOR_ELT(both, 0, v);
  SEXP w = allocMatrix(REALSXP, n, batch);
  SET_VECTOR_ELT(both, 1, w);
  F77_CALL(dsyevd)("V", "L", &n, REAL(v), &n, REAL(w), &size, &query, &whole_length, &query, &info FCONE FCONE);
  double *work = work_of(size, &length);
  int *whole = (int *)R_alloc(whole_length, sizeof(int));
  for (int i = 0; i < batch; i++) {
    F77_CALL(dsyevd)
    ("V", "L", &n, REAL(v) + (size_t)i * n * n, &n, REAL(w) + (size_t)i * n, work, &length, whole, &whole_length,
     &info FCONE FCONE);
  }
  UNPROTECT(1);
  return both;
}
