//! Workspaces over batches, threads, and the choice of the library.

use super::numbers::{random, Matrix};
use super::{assert_close, libraries, open, workspace};
use crate::library::{library, set_libraries};
use crate::{potrf, svd, syevd, Complex, Scalar, SvdMethod, SvdMode, Uplo, Workspace};
use pjrt_base::error::Kind;
use std::path::PathBuf;

fn eigen<T: Scalar>(work: &mut Workspace, n: usize, seed: u64) -> Matrix<T::Real> {
    let (mut a, mut w) = (Matrix::<T>::hermitian(n, seed), random::<T::Real>(n, 1));
    assert_eq!(syevd(work, Uplo::Lower, true, n, &mut a.data, &mut w).unwrap(), 0);
    Matrix { rows: n, columns: 1, data: w }
}

#[test]
fn a_workspace_serves_any_operation_type_and_size() {
    for library in libraries() {
        let work = &mut Workspace::of(library);
        for n in [30, 2, 31, 2, 1, 60] {
            assert_close(&eigen::<f64>(work, n, 1), &eigen::<f64>(&mut Workspace::of(library), n, 1), "f64");
            assert_close(
                &eigen::<Complex<f32>>(work, n, 1),
                &eigen::<Complex<f32>>(&mut Workspace::of(library), n, 1),
                "c64",
            );
        }
    }
}

#[test]
fn threads_may_run_at_once() {
    for library in libraries() {
        let expected: Vec<_> = (0..4).map(|seed| eigen::<f32>(&mut Workspace::of(library), 60, seed)).collect();
        std::thread::scope(|scope| {
            for expected in &expected {
                scope.spawn(|| {
                    let work = &mut Workspace::of(library);
                    for _ in 0..5 {
                        let seeds = 0..4;
                        assert!(seeds.clone().any(|seed| eigen::<f32>(work, 60, seed) == *expected));
                        let (mut a, mut s) = (Matrix::<Complex<f64>>::random(40, 30, 1), vec![0.0; 30]);
                        let (mut u, mut vt) = (Matrix::zeros(40, 30), Matrix::zeros(30, 30));
                        let copy = a.clone();
                        let method = SvdMethod::DivideAndConquer;
                        svd(work, method, SvdMode::Some, 40, 30, &mut a.data, &mut s, &mut u.data, &mut vt.data)
                            .unwrap();
                        assert_close(&u.times(&Matrix::diagonal(30, 30, &s)).times(&vt), &copy, "SVD");
                    }
                });
            }
        });
    }
}

#[test]
fn a_routine_that_is_missing_is_named() {
    let library: &'static _ = Box::leak(Box::new(open(&|name| name.ends_with("potrf"))));
    let work = &mut Workspace::of(library);
    for error in [
        potrf(work, Uplo::Upper, 1, &mut [1.0f64]).unwrap_err(),
        potrf(work, Uplo::Upper, 1, &mut [1.0f32]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::LibraryMissing);
        assert!(error.message().contains("has no `dpotrf`"), "{error}");
    }
}

#[test]
fn the_library_in_use_cannot_be_replaced() {
    // other tests do not use the one that is shared
    let files: Vec<PathBuf> = workspace_files();
    set_libraries(files.clone()).unwrap();
    assert_eq!(library().unwrap().files[0], files[0]);
    assert!(std::ptr::eq(library().unwrap(), library().unwrap()));
    set_libraries(files).unwrap();
    let error = set_libraries(vec!["/other.so".into()]).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidInput);
    assert_eq!(eigen::<f64>(&mut Workspace::new().unwrap(), 5, 1), eigen::<f64>(&mut workspace(), 5, 1));
}

fn workspace_files() -> Vec<PathBuf> {
    libraries()[0].files.clone()
}
