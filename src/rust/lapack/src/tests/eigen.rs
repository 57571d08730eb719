//! Eigenvalues and Schur factorizations.

use super::numbers::{are_nan, random, real, Matrix};
use super::{assert_close, assert_orthonormal, for_all, ORDERS};
use crate::{gees, geev, syevd, Scalar, Uplo, Workspace};

fn check_hermitian<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        let a = Matrix::<T>::hermitian(n, 11);
        for &uplo in Uplo::ALL {
            let is_read = |i: usize, j: usize| if uplo == Uplo::Upper { i <= j } else { i >= j };
            let mut found = Vec::new();
            for vectors in [true, false] {
                let (mut v, mut w) = (a.where_or(is_read, T::nan()), random::<T::Real>(n, 1));
                assert_eq!(syevd(work, uplo, vectors, n, &mut v.data, &mut w).unwrap(), 0);
                let values: Vec<f64> = w.iter().map(|value| value.parts().0).collect();
                assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "{values:?}");
                if vectors {
                    assert_orthonormal(&v, "eigenvectors");
                    let middle = Matrix::diagonal(n, n, &values);
                    assert_close(&v.times(&middle).times(&v.adjoint()), &a, "eigenvalues");
                }
                found.push(Matrix { rows: n, columns: 1, data: w });
            }
            assert_close(&found[0], &found[1], "eigenvalues with and without vectors");
        }
    }
}

#[test]
fn eigenvectors_of_hermitian_matrices_diagonalize_them() {
    for_all!(check_hermitian);
}

fn wi_length<T: Scalar>(n: usize) -> usize {
    if T::IS_COMPLEX {
        0
    } else {
        n
    }
}

/// The eigenvalues on a diagonal, from `w` and `wi`.
fn eigenvalues<T: Scalar>(w: &[T], wi: &[T]) -> Matrix<T::Complex> {
    Matrix::of(w.len(), w.len(), |i, j| match (i == j, T::IS_COMPLEX) {
        (false, _) => T::Complex::default(),
        (true, false) => T::Complex::from_parts(w[i].parts().0, wi[i].parts().0),
        (true, true) => T::Complex::from_parts(w[i].parts().0, w[i].parts().1),
    })
}

fn check_general<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        let a = Matrix::<T>::random(n, n, 12);
        for (left, right) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mut copy, mut w, mut wi) = (a.clone(), random(n, 1), random(wi_length::<T>(n), 1));
            let mut vl = Matrix::random(n, if left { n } else { 0 }, 1);
            let mut vr = Matrix::random(n, if right { n } else { 0 }, 1);
            let info = geev(work, left, right, n, &mut copy.data, &mut w, &mut wi, &mut vl.data, &mut vr.data).unwrap();
            assert_eq!(info, 0);
            let (values, a) = (eigenvalues(&w, &wi), a.cast::<T::Complex>());
            if right {
                assert_close(&a.times(&vr), &vr.times(&values), "right eigenvectors");
            }
            if left {
                assert_close(&vl.adjoint().times(&a), &values.times(&vl.adjoint()), "left eigenvectors");
            }
            // the mean of the eigenvalues
            let mean = |m: &Matrix<T::Complex>| {
                let sum = (0..n).fold(T::Complex::default(), |sum, i| sum + m.at(i, i));
                Matrix::of(1, 1, |_, _| sum * real(1.0 / n.max(1) as f64))
            };
            assert_close(&mean(&a), &mean(&values), "trace");
            for vectors in [&vl, &vr].into_iter().filter(|vectors| vectors.columns > 0) {
                for j in 0..n {
                    let column = Matrix::of(n, 1, |i, _| vectors.at(i, j));
                    assert!((column.norm() - 1.0).abs() < 100.0 * T::EPSILON, "length of a vector");
                }
            }
        }
    }
}

#[test]
fn a_matrix_scales_its_eigenvectors_by_the_eigenvalues() {
    for_all!(check_general);
}

fn check_schur<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        let a = Matrix::<T>::random(n, n, 13);
        let mut found = Vec::new();
        for vectors in [true, false] {
            let (mut t, mut w, mut wi) = (a.clone(), random(n, 1), random(wi_length::<T>(n), 1));
            let mut vs = Matrix::<T>::random(n, if vectors { n } else { 0 }, 1);
            assert_eq!(gees(work, vectors, n, &mut t.data, &mut vs.data, &mut w, &mut wi).unwrap(), 0);
            let below = if T::IS_COMPLEX { 1 } else { 2 };
            assert!((0..n).all(|j| (j + below..n).all(|i| t.at(i, j) == T::default())), "triangular");
            if vectors {
                assert_orthonormal(&vs, "Schur vectors");
                assert_close(&vs.times(&t).times(&vs.adjoint()), &a, "Schur form");
            }
            if T::IS_COMPLEX {
                assert!((0..n).all(|i| t.at(i, i) == w[i]), "eigenvalues on the diagonal");
            } else {
                assert!((0..n).all(|i| (t.at(i, i) - w[i]).size() <= 100.0 * T::EPSILON), "real parts on the diagonal");
            }
            found.push(eigenvalues(&w, &wi));
        }
        if n <= 10 {
            assert_close(&found[0], &found[1], "eigenvalues with and without vectors");
        }
    }
}

#[test]
fn schur_vectors_triangularize_the_matrix() {
    for_all!(check_schur);
}

fn check_not_finite<T: Scalar>(work: &mut Workspace) {
    for bad in [f64::NAN, f64::INFINITY] {
        for n in [1, 2, 50] {
            let mut a = Matrix::<T>::random(n, n, 14);
            a.data[n * n - n] = T::from_parts(bad, bad);
            let (mut copy, mut w) = (a.clone(), random::<T::Real>(n, 1));
            assert_eq!(syevd(work, Uplo::Upper, true, n, &mut copy.data, &mut w).unwrap(), 1);
            assert!(are_nan(&copy.data) && are_nan(&w));
            let (mut copy, mut w, mut wi) = (a.clone(), random(n, 1), random(wi_length::<T>(n), 1));
            let (mut vl, mut vr) = (random(n * n, 1), random(n * n, 1));
            let info = geev(work, true, true, n, &mut copy.data, &mut w, &mut wi, &mut vl, &mut vr).unwrap();
            assert_eq!(info, 1);
            assert!([w, wi].iter().all(|values| are_nan(values)) && [vl, vr].iter().all(|values| are_nan(values)));
            let (mut copy, mut vs) = (a.clone(), random(n * n, 1));
            (w, wi) = (random(n, 1), random(wi_length::<T>(n), 1));
            assert_eq!(gees(work, true, n, &mut copy.data, &mut vs, &mut w, &mut wi).unwrap(), 1);
            assert!([&copy.data, &vs, &w, &wi].into_iter().all(|values| are_nan(values)));
        }
    }
}

#[test]
fn values_that_are_not_finite_fail_at_once() {
    for_all!(check_not_finite);
}
