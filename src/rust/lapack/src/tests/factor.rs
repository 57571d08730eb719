//! Cholesky, LU and QR factorizations, and reductions.

use super::numbers::{conjugate, random, real, Matrix};
use super::{assert_close, assert_orthonormal, for_all, ORDERS, SIZES};
use crate::{gehrd, sytrd, Scalar, Side, Uplo, Workspace};
use crate::{geqp3, geqrf, getrf, lu_pivots_to_permutation, orgqr, ormqr, potrf};

fn check_cholesky<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        let half = Matrix::<T>::random(n, n, 1);
        let a = half.times(&half.adjoint()).plus(&Matrix::diagonal(n, n, &vec![1.0; n]));
        for &uplo in Uplo::ALL {
            let is_read = |i: usize, j: usize| if uplo == Uplo::Upper { i <= j } else { i >= j };
            let mut factor = a.where_or(is_read, real(77.0));
            assert_eq!(potrf(work, uplo, n, &mut factor.data).unwrap(), 0);
            let product = if uplo == Uplo::Upper {
                factor.upper().adjoint().times(&factor.upper())
            } else {
                let lower = factor.where_or(is_read, T::default());
                lower.times(&lower.adjoint())
            };
            assert_close(&product, &a, "Cholesky");
            let others = factor.where_or(|i, j| !is_read(i, j), real(77.0));
            assert!(others.data.iter().all(|value| *value == real(77.0)), "the other triangle is left alone");
        }
    }
}

#[test]
fn a_cholesky_factor_times_itself_is_the_matrix() {
    for_all!(check_cholesky);
}

fn check_indefinite<T: Scalar>(work: &mut Workspace) {
    let mut a = Matrix::<T>::diagonal(4, 4, &[1.0, 1.0, -1.0, 1.0]);
    assert_eq!(potrf(work, Uplo::Lower, 4, &mut a.data).unwrap(), 3);
    let mut singular = Matrix::<T>::diagonal(3, 3, &[1.0, 0.0, 1.0]);
    assert_eq!(getrf(work, 3, 3, &mut singular.data, &mut [0; 3]).unwrap(), 2);
}

#[test]
fn info_names_the_step_that_failed() {
    for_all!(check_indefinite);
}

fn check_lu<T: Scalar>(work: &mut Workspace) {
    for (m, n) in SIZES {
        let (a, k) = (Matrix::<T>::random(m, n, 2), m.min(n));
        let (mut lu, mut pivots, mut permutation) = (a.clone(), vec![0; k], vec![0; m]);
        assert_eq!(getrf(work, m, n, &mut lu.data, &mut pivots).unwrap(), 0);
        lu_pivots_to_permutation(1, &pivots, &mut permutation).unwrap();
        let lower =
            Matrix::identity(m).first_columns(k).plus(&lu.first_columns(k).where_or(|i, j| i > j, T::default()));
        let permuted = Matrix::of(m, n, |i, j| a.at(permutation[i] as usize - 1, j));
        assert_close(&lower.times(&lu.upper().first_rows(k)), &permuted, "LU");
    }
}

#[test]
fn lu_factors_multiply_to_the_matrix_with_its_rows_exchanged() {
    for_all!(check_lu);
}

#[test]
fn pivots_become_a_permutation() {
    let mut permutation = [0; 4];
    lu_pivots_to_permutation(0, &[2, 2, 3], &mut permutation).unwrap();
    assert_eq!(permutation, [2, 0, 3, 1]);
    lu_pivots_to_permutation(1, &[3, 3, 4], &mut permutation).unwrap();
    assert_eq!(permutation, [3, 1, 4, 2]);
    for pivots in [&[-1][..], &[4], &[i32::MIN], &[0; 5]] {
        assert!(lu_pivots_to_permutation(0, pivots, &mut permutation).is_err(), "{pivots:?}");
    }
    lu_pivots_to_permutation(0, &[], &mut []).unwrap();
}

fn check_qr<T: Scalar>(work: &mut Workspace) {
    for (m, n) in SIZES {
        let (a, k) = (Matrix::<T>::random(m, n, 3), m.min(n));
        let (mut qr, mut tau) = (a.clone(), vec![T::default(); k]);
        geqrf(work, m, n, &mut qr.data, &mut tau).unwrap();
        let mut q = qr.first_columns(k);
        orgqr(work, m, k, &mut q.data, &tau).unwrap();
        assert_orthonormal(&q, "Q");
        assert_close(&q.times(&qr.upper().first_rows(k)), &a, "QR");
        // all columns
        let mut full = Matrix::of(m, m, |i, j| if j < k { qr.at(i, j) } else { T::default() });
        orgqr(work, m, m, &mut full.data, &tau).unwrap();
        assert_orthonormal(&full, "full Q");
        assert_close(&full.first_columns(k), &q, "columns of Q");
        for transpose in [false, true] {
            let factor = if transpose { full.adjoint() } else { full.clone() };
            for count in [0, 1, 6] {
                let c = Matrix::<T>::random(m, count, 4);
                let (mut product, reflectors) = (c.clone(), qr.clone());
                ormqr(work, Side::Left, transpose, m, count, &qr.data, &tau, &mut product.data).unwrap();
                assert_close(&product, &factor.times(&c), "Q times C");
                assert_eq!(reflectors, qr);
                let (c, mut product) = (c.transpose(), c.transpose());
                ormqr(work, Side::Right, transpose, count, m, &qr.data, &tau, &mut product.data).unwrap();
                assert_close(&product, &c.times(&factor), "C times Q");
            }
        }
    }
}

#[test]
fn qr_factors_multiply_to_the_matrix_and_q_is_orthogonal() {
    for_all!(check_qr);
}

/// At sizes at which LAPACK works in blocks, with all of the memory that it asked for.
#[test]
fn large_matrices_are_factored_in_blocks() {
    let (m, n) = (230, 200);
    let a = Matrix::<f64>::random(m, n, 21);
    for library in super::libraries() {
        let work = &mut Workspace::of(library);
        let (mut qr, mut tau) = (a.clone(), vec![0.0; n]);
        geqrf(work, m, n, &mut qr.data, &mut tau).unwrap();
        let mut product = qr.upper();
        ormqr(work, Side::Left, false, m, n, &qr.data, &tau, &mut product.data).unwrap();
        assert_close(&product, &a, "QR in blocks");
        orgqr(work, m, n, &mut qr.data, &tau).unwrap();
        assert_orthonormal(&qr, "Q");
        let (mut qr, mut jpvt) = (a.clone(), vec![0; n]);
        geqp3(work, m, n, &mut qr.data, &mut jpvt, &mut tau).unwrap();
        let mut product = qr.upper();
        ormqr(work, Side::Left, false, m, n, &qr.data, &tau, &mut product.data).unwrap();
        assert_close(&product, &Matrix::of(m, n, |i, j| a.at(i, jpvt[j] as usize - 1)), "pivoted QR in blocks");
    }
}

fn check_pivoted_qr<T: Scalar>(work: &mut Workspace) {
    for (m, n) in SIZES {
        let (a, k) = (Matrix::<T>::random(m, n, 5), m.min(n));
        for first in [None, n.checked_sub(1)] {
            let (mut qr, mut tau, mut jpvt) = (a.clone(), vec![T::default(); k], vec![0; n]);
            if let Some(first) = first {
                jpvt[first] = 1;
            }
            geqp3(work, m, n, &mut qr.data, &mut jpvt, &mut tau).unwrap();
            let mut sorted = jpvt.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(1..=n as i32), "{jpvt:?} of {m} x {n}");
            if let Some(first) = first {
                assert_eq!(jpvt[0] as usize, first + 1);
            }
            let mut q = qr.first_columns(k);
            orgqr(work, m, k, &mut q.data, &tau).unwrap();
            let permuted = Matrix::of(m, n, |i, j| a.at(i, jpvt[j] as usize - 1));
            assert_close(&q.times(&qr.upper().first_rows(k)), &permuted, "pivoted QR");
            let falls = (usize::from(first.is_some()) + 1..k)
                .all(|i| qr.at(i, i).size() <= 1.5 * qr.at(i - 1, i - 1).size() + 1e-3);
            assert!(falls, "the diagonal falls");
        }
    }
}

#[test]
fn pivoted_qr_factors_multiply_to_the_exchanged_columns() {
    for_all!(check_pivoted_qr);
}

fn check_hessenberg<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        for outside in [0, 1] {
            if outside > 0 && n < 4 {
                continue;
            }
            let (low, high) = (1 + outside, n - outside);
            let is_inside = |i: usize| i + 1 >= low && i < high;
            let a =
                Matrix::<T>::random(n, n, 6).where_or(|i, j| i <= j || (is_inside(i) && is_inside(j)), T::default());
            let (mut h, mut tau) = (a.clone(), vec![real(9.0); n.saturating_sub(1)]);
            assert_eq!(gehrd(work, n, low as i32, high as i32, &mut h.data, &mut tau).unwrap(), 0);
            let mut q = Matrix::identity(n);
            for step in low..high {
                let element = |i: usize| match i.cmp(&step) {
                    std::cmp::Ordering::Less => T::default(),
                    std::cmp::Ordering::Equal => real(1.0),
                    std::cmp::Ordering::Greater if i < high => h.at(i, step - 1),
                    std::cmp::Ordering::Greater => T::default(),
                };
                let v: Vec<T> = (0..n).map(element).collect();
                q = q.reflected(&v, tau[step - 1]);
            }
            assert_orthonormal(&q, "Q of the Hessenberg form");
            let form = h.where_or(|i, j| i <= j + 1, T::default());
            assert_close(&q.times(&form).times(&q.adjoint()), &a, "Hessenberg form");
        }
    }
}

#[test]
fn a_hessenberg_form_is_similar_to_the_matrix() {
    for_all!(check_hessenberg);
}

fn check_tridiagonal<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        let a = Matrix::<T>::hermitian(n, 7);
        for &uplo in Uplo::ALL {
            let is_lower = uplo == Uplo::Lower;
            let mut form = a.where_or(|i, j| if is_lower { i >= j } else { i <= j }, T::nan());
            let less = n.saturating_sub(1);
            let (mut d, mut e) = (random::<T::Real>(n, 1), random::<T::Real>(less, 1));
            let mut tau = random::<T>(less, 1);
            assert_eq!(sytrd(work, uplo, n, &mut form.data, &mut d, &mut e, &mut tau).unwrap(), 0);
            let mut q = Matrix::identity(n);
            for (step, factor) in tau.iter().enumerate() {
                let one = if is_lower { step + 1 } else { step };
                let v: Vec<T> = (0..n)
                    .map(|i| match (i.cmp(&one), is_lower) {
                        (std::cmp::Ordering::Equal, _) => real(1.0),
                        (std::cmp::Ordering::Greater, true) => form.at(i, step),
                        (std::cmp::Ordering::Less, false) => form.at(i, step + 1),
                        _ => T::default(),
                    })
                    .collect();
                q = if is_lower {
                    q.reflected(&v, *factor)
                } else {
                    // from the left
                    q.adjoint().reflected(&v, conjugate(*factor)).adjoint()
                };
            }
            assert_orthonormal(&q, "Q of the tridiagonal form");
            let tridiagonal = Matrix::<T>::of(n, n, |i, j| match i.abs_diff(j) {
                0 => real(d[i].parts().0),
                1 => real(e[i.min(j)].parts().0),
                _ => T::default(),
            });
            assert_close(&q.times(&tridiagonal).times(&q.adjoint()), &a, "tridiagonal form");
        }
    }
}

#[test]
fn a_tridiagonal_form_is_similar_to_the_matrix() {
    for_all!(check_tridiagonal);
}
