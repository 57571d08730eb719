//! Triangular and tridiagonal systems.

use super::numbers::{random, real, Matrix};
use super::{assert_close, for_all, ORDERS};
use crate::{gtsv, tridiagonal_solve_perturbed, trsm, Diag, Scalar, Side, Transpose, Uplo, Workspace};

fn check_triangular<T: Scalar>(work: &mut Workspace) {
    for (m, n) in [(0, 0), (0, 2), (2, 0), (1, 1), (1, 3), (3, 1), (6, 4), (4, 6), (40, 7)] {
        let b = Matrix::<T>::random(m, n, 16);
        for &side in Side::ALL {
            let order = if side == Side::Left { m } else { n };
            let full = Matrix::<T>::random(order, order, 15);
            // well conditioned
            let full = Matrix::of(order, order, |i, j| {
                if i == j {
                    full.at(i, j) + real(3.0)
                } else {
                    full.at(i, j) * real(1.0 / order as f64)
                }
            });
            for &uplo in Uplo::ALL {
                for &diag in Diag::ALL {
                    let is_read = |i: usize, j: usize| match uplo {
                        _ if i == j => diag == Diag::Read,
                        Uplo::Upper => i < j,
                        Uplo::Lower => i > j,
                    };
                    let mut triangle = full.where_or(is_read, T::default());
                    if diag == Diag::Unit {
                        triangle = triangle.plus(&Matrix::identity(order));
                    }
                    for &transpose in Transpose::ALL {
                        let mut x = b.clone();
                        let a = full.where_or(is_read, T::nan());
                        trsm(work, side, uplo, transpose, diag, m, n, &a.data, &mut x.data).unwrap();
                        let factor = match transpose {
                            Transpose::No => triangle.clone(),
                            Transpose::Yes => triangle.transpose(),
                            Transpose::Conjugate => triangle.adjoint(),
                        };
                        let product = if side == Side::Left { factor.times(&x) } else { x.times(&factor) };
                        assert_close(&product, &b, "triangular system");
                    }
                }
            }
        }
    }
}

#[test]
fn a_triangular_matrix_times_the_solution_is_the_right_side() {
    for_all!(check_triangular);
}

/// A tridiagonal matrix by its diagonals.
fn tridiagonal<T: Scalar>(dl: &[T], d: &[T], du: &[T]) -> Matrix<T> {
    Matrix::of(d.len(), d.len(), |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Equal => d[i],
        std::cmp::Ordering::Less if i + 1 == j => du[i],
        std::cmp::Ordering::Greater if j + 1 == i => dl[j],
        _ => T::default(),
    })
}

fn check_tridiagonal<T: Scalar>(work: &mut Workspace) {
    for n in ORDERS {
        for columns in [0, 1, 3] {
            let less = n.saturating_sub(1);
            // small diagonals make it exchange rows
            let d: Vec<T> = random::<T>(n, 17).into_iter().map(|value| value * real(0.3)).collect();
            let (dl, du, b) = (random::<T>(less, 18), random::<T>(less, 19), Matrix::<T>::random(n, columns, 20));
            let a = tridiagonal(&dl, &d, &du);
            let (mut l, mut m, mut u, mut x) = (dl.clone(), d.clone(), du.clone(), b.clone());
            assert_eq!(gtsv(work, n, columns, &mut l, &mut m, &mut u, &mut x.data).unwrap(), 0);
            let scale = x.norm().max(1.0);
            let scaled =
                |matrix: &Matrix<T>| matrix.times(&Matrix::diagonal(columns, columns, &vec![1.0 / scale; columns]));
            assert_close(&scaled(&a.times(&x)), &scaled(&b), "tridiagonal system");

            let (mut lower, mut upper) = (vec![T::nan(); n], vec![T::nan(); n]);
            for i in 0..less {
                (lower[i + 1], upper[i]) = (dl[i], du[i]);
            }
            let mut perturbed = b.clone();
            tridiagonal_solve_perturbed(work, n, columns, &lower, &d, &upper, &mut perturbed.data).unwrap();
            assert_close(&scaled(&a.times(&perturbed)), &scaled(&b), "tridiagonal system that needs no perturbation");
        }
    }
}

#[test]
fn a_tridiagonal_matrix_times_the_solution_is_the_right_side() {
    for_all!(check_tridiagonal);
}

fn check_singular<T: Scalar>(work: &mut Workspace) {
    let zero = [T::default(); 3];
    let (mut dl, mut d, mut du, mut b) = ([T::default(); 2], [T::default(); 3], [T::default(); 2], [real::<T>(1.0); 3]);
    assert_eq!(gtsv(work, 3, 1, &mut dl, &mut d, &mut du, &mut b).unwrap(), 1);
    // the second row is a multiple of the first
    let (mut dl, mut d, mut du) = ([real::<T>(2.0)], [real(1.0), real(4.0)], [real(2.0)]);
    assert_eq!(gtsv(work, 2, 1, &mut dl, &mut d, &mut du, &mut [real(1.0); 2]).unwrap(), 2);

    let mut x = [real::<T>(1.0); 3];
    tridiagonal_solve_perturbed(work, 3, 1, &zero, &zero, &zero, &mut x).unwrap();
    assert!(x.iter().all(|value| value.is_finite() && value.size() > 1e3), "{x:?}");
    let (dl, d, du) = ([zero[0], real(2.0)], [real(1.0), real(4.0)], [real(2.0), zero[0]]);
    let mut x = [real::<T>(1.0); 2];
    tridiagonal_solve_perturbed(work, 2, 1, &dl, &d, &du, &mut x).unwrap();
    // a multiple of the vector that the matrix maps to zero
    let ratio = (x[0] / x[1] + real(2.0)).size();
    assert!(x[0].is_finite() && x[0].size() > 1e3 && ratio < 1e-3, "{x:?}");
}

#[test]
fn a_singular_tridiagonal_matrix_is_reported_or_perturbed() {
    for_all!(check_singular);
}
