//! Linear algebra on dense matrices in memory, with a LAPACK that is loaded at run time. Must not know PJRT, programs, R.
//!
//! Matrices are slices in column-major order whose leading dimension is the number of rows. Every operation works for
//! `f32`, `f64` and their complex numbers, in place as LAPACK does, and takes a [`Workspace`] that is best reused over a
//! batch. A number of type `i32` that is returned is LAPACK's `info`: 0, or how the factorization failed. Every
//! operation fails without a library or memory, and for wrong arguments before LAPACK sees them, because its own check
//! may end the process.
//!
//! A library may lack routines. Single-precision routines are replaced by double-precision ones, and a few others
//! by compositions of other routines.
//!
//! All functions may run on several threads at once, each with its own workspace.

mod check;
mod eigen;
mod letters;
mod library;
mod lu;
mod qr;
mod reduce;
mod routine;
mod scalar;
mod schur;
mod solve;
mod svd;
mod workspace;

pub use pjrt_base::error::Result;

pub use eigen::{geev, syevd};
pub use letters::{Diag, Side, SvdMode, Transpose, Uplo};
pub use library::{library, set_libraries, Library};
pub use lu::{getrf, lu_pivots_to_permutation, potrf};
pub use qr::{geqp3, geqrf, orgqr, ormqr};
pub use reduce::{gehrd, sytrd};
pub use scalar::{Complex, Scalar};
pub use schur::gees;
pub use solve::{gtsv, tridiagonal_solve_perturbed, trsm};
pub use svd::{svd, SvdMethod};
pub use workspace::Workspace;

#[cfg(test)]
mod tests;
