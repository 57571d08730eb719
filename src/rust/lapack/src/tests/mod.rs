//! Tests of the operations on a real LAPACK: that of the variable `PJRT_TEST_LAPACK`, or the system's.

mod arguments;
mod batch;
mod eigen;
mod factor;
mod numbers;
mod solve;
mod svd;

use crate::library::Library;
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use numbers::Matrix;
use std::sync::OnceLock;

/// Rows and columns: empty, single, tall, wide and square ones.
const SIZES: [(usize, usize); 15] = [
    (0, 0),
    (0, 3),
    (3, 0),
    (1, 1),
    (1, 4),
    (4, 1),
    (2, 2),
    (5, 5),
    (7, 3),
    (3, 7),
    (40, 40),
    (50, 20),
    (20, 50),
    (90, 3),
    (3, 90),
];

const ORDERS: [usize; 7] = [0, 1, 2, 3, 10, 33, 50];

fn open(is_hidden: &dyn Fn(&str) -> bool) -> Library {
    let files = std::env::var_os("PJRT_TEST_LAPACK").unwrap_or_default();
    let files: Vec<_> = std::env::split_paths(&files).filter(|file| !file.as_os_str().is_empty()).collect();
    Library::open(&files, is_hidden).unwrap()
}

fn lacks_a_few(name: &str) -> bool {
    ["heevd", "gees", "gtsv"].iter().any(|end| name.ends_with(end)) && name != "dgees"
}

/// The library, the library without routines that are composed of others, and without those and single precision.
fn libraries() -> [&'static Library; 3] {
    static LIBRARIES: OnceLock<[Library; 3]> = OnceLock::new();
    LIBRARIES
        .get_or_init(|| {
            let is_single = |name: &str| name.starts_with(['s', 'c']);
            [open(&|_| false), open(&lacks_a_few), open(&|name| is_single(name) || lacks_a_few(name))]
        })
        .each_ref()
}

fn workspace() -> Workspace {
    Workspace::of(libraries()[0])
}

/// Runs a check of every type on every library.
macro_rules! for_all {
    ($check:ident) => {
        for library in $crate::tests::libraries() {
            let mut work = $crate::workspace::Workspace::of(library);
            $check::<f32>(&mut work);
            $check::<f64>(&mut work);
            $check::<$crate::Complex<f32>>(&mut work);
            $check::<$crate::Complex<f64>>(&mut work);
        }
    };
}

use for_all;

/// Checks that two matrices agree up to rounding, relative to the larger one's norm.
#[track_caller]
fn assert_close<T: Scalar>(left: &Matrix<T>, right: &Matrix<T>, what: &str) {
    assert_eq!((left.rows, left.columns), (right.rows, right.columns), "{what}");
    let scale = left.norm().max(right.norm()).max(1.0);
    let tolerance = 30.0 * T::EPSILON * scale * (left.rows.max(left.columns) as f64).max(4.0);
    let difference = left.minus(right).norm();
    let size = (left.rows, left.columns);
    assert!(difference <= tolerance, "{what}: {difference:e} > {tolerance:e} at {size:?} of {:?}", T::KIND);
}

/// Checks that the columns are orthonormal.
#[track_caller]
fn assert_orthonormal<T: Scalar>(q: &Matrix<T>, what: &str) {
    assert_close(&q.adjoint().times(q), &Matrix::identity(q.columns), what);
}
