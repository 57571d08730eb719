//! Linear algebra: the targets of programs of r-xla, and of JAX's programs for CPUs.
//!
//! JAX calls its own functions for factorizations on CPUs, which plugins do not have. Leading dimensions count
//! matrices, whose columns are contiguous. If a factorization fails, the call succeeds, and `info` contains the reason.

mod batch;
mod eigen;
mod lu;
mod operands;
mod parts;
mod qr;
mod reduce;
mod simple;
mod solve;
mod svd;

pub(super) use operands::{real_handlers, Element};
pub(super) use parts::{checked_count, Consumed, InPlace, Input, Output, Stack};
pub use pjrt_lapack::set_libraries;

use crate::registry::{known, Known, HOST};
use crate::slots::RustHandler;
use pjrt_lapack::Complex;

/// The handlers, by name.
pub(super) fn targets() -> impl Iterator<Item = (&'static str, RustHandler)> {
    let typed = TYPED.iter().flatten().copied();
    typed.chain(UNTYPED.iter().copied())
}

/// The most elements that the operands of all calls of a quick program have together, and each of them.
const FEW_ELEMENTS: usize = 8 << 10;
const SMALL_MATRIX: usize = 32 * 32;

/// Whether these calls together take no longer than a few other operations: all are of targets here, with small operands.
/// Operands have numbers of elements, unless these are unknown.
pub fn are_quick<'a>(calls: impl Iterator<Item = (&'a str, Option<Vec<usize>>)>) -> bool {
    let mut elements = 0usize;
    for (target, sizes) in calls {
        // The user may have a handler of the same name.
        let is_here = targets().any(|(name, _)| name == target) && known(target, HOST) == Some(Known::BuiltIn);
        let Some(sizes) = sizes.filter(|sizes| is_here && sizes.iter().all(|&size| size <= SMALL_MATRIX)) else {
            return false;
        };
        elements = elements.saturating_add(sizes.iter().sum());
    }
    elements <= FEW_ELEMENTS
}

/// One row for a routine: its targets for the types `s`, `d`, `c` and `z`. The last two may have another name.
macro_rules! routines {
    ($($real:literal $complex:literal $module:ident::$function:ident;)*) => {
        [$([
            (concat!("lapack_s", $real, "_ffi"), $module::$function::<f32>),
            (concat!("lapack_d", $real, "_ffi"), $module::$function::<f64>),
            (concat!("lapack_c", $complex, "_ffi"), $module::$function::<Complex<f32>>),
            (concat!("lapack_z", $complex, "_ffi"), $module::$function::<Complex<f64>>),
        ]),*]
    };
}

/// JAX's targets.
const TYPED: [[(&str, RustHandler); 4]; 15] = routines! {
    "potrf" "potrf" lu::potrf;
    "getrf" "getrf" lu::getrf;
    "geqrf" "geqrf" qr::geqrf;
    "geqp3" "geqp3" qr::geqp3;
    "orgqr" "ungqr" qr::orgqr;
    "ormqr" "unmqr" qr::ormqr;
    "gesdd" "gesdd" svd::gesdd;
    "gesvd" "gesvd" svd::gesvd;
    "syevd" "heevd" eigen::syevd;
    "geev" "geev" eigen::geev;
    "gees" "gees" eigen::gees;
    "gehrd" "gehrd" reduce::gehrd;
    "sytrd" "hetrd" reduce::sytrd;
    "trsm" "trsm" solve::trsm;
    "gtsv" "gtsv" solve::gtsv;
};

/// Those that learn the type from their arguments.
const UNTYPED: [(&str, RustHandler); 7] = [
    ("geqrf", simple::geqrf),
    ("orgqr", simple::orgqr),
    ("lu", simple::lu),
    ("svd", simple::svd),
    ("eigh", simple::eigh),
    ("lu_pivots_to_permutation", simple::lu_pivots_to_permutation),
    ("tridiagonal_solve_perturbed_ffi", solve::perturbed),
];
