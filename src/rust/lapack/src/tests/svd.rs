//! Singular value decompositions.

use super::numbers::{are_nan, random, Matrix};
use super::{assert_close, assert_orthonormal, for_all, libraries, SIZES};
use crate::{svd, Complex, Scalar, SvdMethod, SvdMode, Workspace};

const METHODS: [SvdMethod; 2] = [SvdMethod::DivideAndConquer, SvdMethod::QrIteration];

fn check_svd<T: Scalar>(work: &mut Workspace) {
    for (m, n) in SIZES {
        let (a, k) = (Matrix::<T>::random(m, n, 8), m.min(n));
        for method in METHODS {
            let mut values = Vec::new();
            for mode in [SvdMode::All, SvdMode::Some, SvdMode::None] {
                let (u_columns, vt_rows) = match mode {
                    SvdMode::All => (m, n),
                    SvdMode::Some => (k, k),
                    SvdMode::None => (0, 0),
                };
                let (mut copy, mut s) = (a.clone(), random::<T::Real>(k, 1));
                let (mut u, mut vt) = (Matrix::random(m, u_columns, 1), Matrix::random(vt_rows, n, 1));
                let info = svd(work, method, mode, m, n, &mut copy.data, &mut s, &mut u.data, &mut vt.data).unwrap();
                assert_eq!(info, 0, "{method:?}");
                let s: Vec<f64> = s.into_iter().map(|value| value.parts().0).collect();
                assert!(s.windows(2).all(|pair| pair[0] >= pair[1]) && s.iter().all(|value| *value >= 0.0), "{s:?}");
                if mode != SvdMode::None {
                    assert_orthonormal(&u, "U");
                    assert_orthonormal(&vt.adjoint(), "V");
                    let middle = Matrix::diagonal(u_columns, vt_rows, &s);
                    assert_close(&u.times(&middle).times(&vt), &a, &format!("{method:?}"));
                }
                values.push(Matrix::<T>::diagonal(k, 1, &s[..k.min(1)]));
            }
            assert_close(&values[0], &values[1], "values with and without all vectors");
            assert_close(&values[0], &values[2], "values with and without vectors");
        }
    }
}

#[test]
fn singular_vectors_and_values_multiply_to_the_matrix() {
    for_all!(check_svd);
}

fn check_not_finite<T: Scalar>(work: &mut Workspace) {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for (m, n) in [(1, 1), (5, 3), (3, 5), (60, 60)] {
            for method in METHODS {
                let mut a = Matrix::<T>::random(m, n, 9);
                a.data[m * n / 2] = T::from_parts(bad, 0.0);
                let (mut s, mut u, mut vt) = (random(m.min(n), 1), random(m * m, 1), random(n * n, 1));
                let info = svd(work, method, SvdMode::All, m, n, &mut a.data, &mut s, &mut u, &mut vt).unwrap();
                assert_eq!(info, 1, "{method:?}");
                assert!(are_nan(&s) && are_nan(&u) && are_nan(&vt));
            }
        }
    }
}

#[test]
fn values_that_are_not_finite_fail_at_once() {
    for_all!(check_not_finite);
}

/// Bits that single precision cannot hold must not decide: both ways round the same values.
fn check_promotion<T: Scalar>() {
    let singular_values = |library| {
        let (mut a, mut s) = (Matrix::<T>::random(20, 12, 10), random::<T::Real>(12, 1));
        let work = &mut Workspace::of(library);
        svd(work, METHODS[0], SvdMode::None, 20, 12, &mut a.data, &mut s, &mut [], &mut []).unwrap();
        Matrix { rows: 12, columns: 1, data: s }
    };
    let [full, _, promoted] = libraries();
    assert_close(&singular_values(full), &singular_values(promoted), "singular values in either precision");
}

#[test]
fn double_precision_replaces_single_precision() {
    check_promotion::<f32>();
    check_promotion::<Complex<f32>>();
}
