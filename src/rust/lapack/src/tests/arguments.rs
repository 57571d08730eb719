//! Wrong arguments, which must be errors before LAPACK sees them.

use super::numbers::random;
use super::{for_all, workspace};
use crate::*;
use pjrt_base::error::{Kind, Result};

#[track_caller]
fn assert_refused<R>(result: Result<R>, part: &str) {
    let Err(error) = result else { panic!("accepted: {part}") };
    assert_eq!(error.kind(), Kind::InvalidInput);
    assert!(error.message().contains(part), "{error}");
}

fn check_lengths<T: Scalar>(work: &mut Workspace) {
    let v = |count: usize| random::<T>(count, 1);
    let r = |count: usize| random::<T::Real>(count, 1);
    let c = |count: usize| random::<T::Complex>(count, 1);
    let wi = |count: usize| random::<T>(if T::IS_COMPLEX { 0 } else { count }, 1);
    assert_refused(potrf(work, Uplo::Upper, 3, &mut v(8)), "`a` must have 3 x 3 elements: got 8.");
    assert_refused(getrf(work, 3, 2, &mut v(7), &mut [0; 2]), "`a` must");
    assert_refused(getrf(work, 3, 2, &mut v(6), &mut [0; 3]), "`pivots` must have 2 elements: got 3.");
    assert_refused(geqrf(work, 3, 2, &mut v(5), &mut v(2)), "`a` must");
    assert_refused(geqrf(work, 3, 2, &mut v(6), &mut v(1)), "`tau` must");
    assert_refused(geqp3(work, 3, 2, &mut v(6), &mut [0; 3], &mut v(2)), "`jpvt` must");
    assert_refused(orgqr(work, 3, 2, &mut v(6), &v(3)), "3 reflectors do not fit");
    assert_refused(orgqr(work, 2, 3, &mut v(6), &v(2)), "reflectors do not fit");
    assert_refused(ormqr(work, Side::Left, true, 3, 2, &v(5), &v(2), &mut v(6)), "`a` must have 3 x 2");
    assert_refused(ormqr(work, Side::Left, true, 3, 2, &v(7), &v(2), &mut v(6)), "`a` must have 3 x 2");
    assert_refused(ormqr(work, Side::Right, true, 3, 2, &v(4), &v(3), &mut v(6)), "`tau` has 3 elements");
    assert_refused(ormqr(work, Side::Right, true, 3, 2, &v(4), &v(2), &mut v(5)), "`c` must");
    for method in [SvdMethod::DivideAndConquer, SvdMethod::QrIteration] {
        let all = SvdMode::All;
        assert_refused(svd(work, method, all, 3, 2, &mut v(6), &mut r(3), &mut v(9), &mut v(4)), "`s` must");
        assert_refused(svd(work, method, all, 3, 2, &mut v(6), &mut r(2), &mut v(6), &mut v(4)), "`u` must have 3 x 3");
        assert_refused(
            svd(work, method, all, 2, 3, &mut v(6), &mut r(2), &mut v(4), &mut v(6)),
            "`vt` must have 3 x 3",
        );
        assert_refused(
            svd(work, method, SvdMode::Some, 2, 3, &mut v(6), &mut r(2), &mut v(4), &mut v(9)),
            "`vt` must have 2 x 3",
        );
    }
    assert_refused(syevd(work, Uplo::Lower, true, 3, &mut v(6), &mut r(3)), "`a` must");
    assert_refused(syevd(work, Uplo::Lower, true, 3, &mut v(9), &mut r(2)), "`w` must");
    assert_refused(geev(work, true, true, 2, &mut v(4), &mut v(2), &mut v(1), &mut c(4), &mut c(4)), "`wi` must");
    assert_refused(geev(work, true, true, 2, &mut v(4), &mut v(2), &mut wi(2), &mut c(3), &mut c(4)), "`vl` must");
    assert_refused(geev(work, true, true, 2, &mut v(4), &mut v(2), &mut wi(2), &mut c(4), &mut c(3)), "`vr` must");
    assert_refused(gees(work, true, 2, &mut v(4), &mut v(2), &mut v(2), &mut wi(2)), "`vs` must");
    assert_refused(gees(work, false, 2, &mut v(4), &mut v(2), &mut v(3), &mut wi(2)), "`w` must");
    assert_refused(gehrd(work, 3, 1, 3, &mut v(9), &mut v(3)), "`tau` must");
    for (low, high) in [(0, 3), (1, 4), (3, 2), (i32::MIN, i32::MAX), (1, 0)] {
        assert_refused(gehrd(work, 3, low, high, &mut v(9), &mut v(2)), "`low` and `high`");
    }
    assert_refused(sytrd(work, Uplo::Upper, 3, &mut v(9), &mut r(2), &mut r(2), &mut v(2)), "`d` must");
    assert_refused(sytrd(work, Uplo::Upper, 3, &mut v(9), &mut r(3), &mut r(3), &mut v(2)), "`e` must");
    let (upper, no, read) = (Uplo::Upper, Transpose::No, Diag::Read);
    assert_refused(trsm(work, Side::Left, upper, no, read, 3, 2, &v(4), &mut v(6)), "`a` must have 3 x 3");
    assert_refused(trsm(work, Side::Right, upper, no, read, 3, 2, &v(4), &mut v(5)), "`b` must");
    assert_refused(gtsv(work, 3, 1, &mut v(3), &mut v(3), &mut v(2), &mut v(3)), "`dl` must");
    assert_refused(gtsv(work, 3, 1, &mut v(2), &mut v(3), &mut v(3), &mut v(3)), "`du` must");
    assert_refused(gtsv(work, 3, 2, &mut v(2), &mut v(3), &mut v(2), &mut v(3)), "`b` must");
    assert_refused(tridiagonal_solve_perturbed(work, 3, 1, &v(2), &v(3), &v(3), &mut v(3)), "`dl` must");
}

#[test]
fn a_slice_of_the_wrong_length_is_refused() {
    for_all!(check_lengths);
}

#[test]
fn a_dimension_beyond_32_bits_is_refused() {
    let work = &mut workspace();
    let large = 1 << 31;
    let none = &mut [0f64; 0][..];
    assert_refused(getrf(work, 0, large, none, &mut []), "`n` is 2147483648");
    assert_refused(geqrf(work, large, 0, none, &mut []), "`m` is 2147483648");
    let method = SvdMethod::DivideAndConquer;
    assert_refused(svd(work, method, SvdMode::None, 0, large, none, &mut [], &mut [], &mut []), "`n` is");
    assert_refused(trsm(work, Side::Left, Uplo::Upper, Transpose::No, Diag::Read, 0, large, &[], none), "`n` is");
    assert_refused(potrf(work, Uplo::Upper, usize::MAX, none), "`n` is");
}

fn check_nan<T: Scalar>(work: &mut Workspace) {
    for n in [1, 2, 40] {
        let bad = vec![T::nan(); n * n];
        let mut pivots = vec![0; n];
        getrf(work, n, n, &mut bad.clone(), &mut pivots).unwrap();
        assert!(pivots.iter().all(|pivot| (1..=n as i32).contains(pivot)), "{pivots:?}");
        potrf(work, Uplo::Lower, n, &mut bad.clone()).unwrap();
        let (mut jpvt, mut tau) = (vec![0; n], vec![T::nan(); n]);
        geqp3(work, n, n, &mut bad.clone(), &mut jpvt, &mut tau).unwrap();
        jpvt.sort_unstable();
        assert!(jpvt.into_iter().eq(1..=n as i32));
        geqrf(work, n, n, &mut bad.clone(), &mut tau).unwrap();
        orgqr(work, n, n, &mut bad.clone(), &tau).unwrap();
        ormqr(work, Side::Left, true, n, n, &bad, &tau, &mut bad.clone()).unwrap();
        gehrd(work, n, 1, n as i32, &mut bad.clone(), &mut tau[1..]).unwrap();
        let (mut d, mut e) = (vec![T::Real::nan(); n], vec![T::Real::nan(); n - 1]);
        sytrd(work, Uplo::Lower, n, &mut bad.clone(), &mut d, &mut e, &mut tau[1..]).unwrap();
        let (side, no) = (Side::Left, Transpose::No);
        trsm(work, side, Uplo::Lower, no, Diag::Read, n, n, &bad, &mut bad.clone()).unwrap();
        let mut diagonals = [vec![T::nan(); n - 1], vec![T::nan(); n], vec![T::nan(); n - 1]];
        let [dl, d, du] = &mut diagonals;
        gtsv(work, n, 1, dl, d, du, &mut vec![T::nan(); n]).unwrap();
        let column = vec![T::nan(); n];
        tridiagonal_solve_perturbed(work, n, 1, &column, &column, &column, &mut column.clone()).unwrap();
    }
}

#[test]
fn nan_goes_through_what_does_not_iterate() {
    for_all!(check_nan);
}
