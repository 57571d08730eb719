//! Checks of arguments: after them LAPACK finds nothing to object to.

use crate::scalar::Scalar;
use pjrt_base::error::Result;
use pjrt_base::{bail, ensure};

/// A dimension as LAPACK takes it.
pub(crate) fn dimension(name: &str, value: usize) -> Result<i32> {
    match i32::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => bail!(InvalidInput, "`{name}` is {value}, and LAPACK's limit is {}.", i32::MAX),
    }
}

/// A leading dimension, which must not be 0.
pub(crate) fn leading(rows: i32) -> i32 {
    rows.max(1)
}

/// The length of a vector.
pub(crate) fn vector(name: &str, length: usize, expected: usize) -> Result<()> {
    ensure!(length == expected, InvalidInput, "`{name}` must have {expected} elements: got {length}.");
    Ok(())
}

/// The length of a matrix.
pub(crate) fn matrix(name: &str, length: usize, rows: usize, columns: usize) -> Result<()> {
    let is_right = rows.checked_mul(columns) == Some(length);
    ensure!(is_right, InvalidInput, "`{name}` must have {rows} x {columns} elements: got {length}.");
    Ok(())
}

/// The size of LAPACK's work: what it asks for, or the least that it accepts.
pub(crate) fn work_size<T: Scalar>(asked: T, least: u64) -> Result<i32> {
    let (asked, _) = asked.parts();
    // single precision may have rounded it down
    let asked = if T::is_narrow() { (asked * (1.0 + T::EPSILON)).ceil() } else { asked };
    let least = size(least)?;
    Ok((asked as i32).max(least).max(1))
}

/// A size that is known by a formula.
pub(crate) fn size(elements: u64) -> Result<i32> {
    match i32::try_from(elements) {
        Ok(elements) => Ok(elements),
        Err(_) => bail!(
            InvalidInput,
            "The matrix is too large for LAPACK: its work takes {elements} elements, and the limit is {}.",
            i32::MAX
        ),
    }
}

/// Fails if a matrix of `columns` columns, whose factorization takes `steps` steps, needs more work than LAPACK can count
/// for its blocks. LAPACK itself would not notice.
pub(crate) fn blocks(columns: usize, steps: usize) -> Result<()> {
    const SMALLEST: usize = 32;
    const LARGEST: u64 = 130;
    if steps < SMALLEST {
        return Ok(());
    }
    size((columns as u64).saturating_mul(LARGEST)).map(drop)
}

/// Fails if the work of singular vectors is more than LAPACK can count. LAPACK itself would not notice.
pub(crate) fn vectors(steps: usize, elements: usize) -> Result<()> {
    let (steps, elements) = (steps as u64, elements as u64);
    let squares = steps.saturating_mul(steps).saturating_mul(5);
    size(squares.saturating_add(steps.saturating_mul(300)).saturating_add(elements)).map(drop)
}

pub(crate) fn all_finite<T: Scalar>(values: &[T]) -> bool {
    values.iter().all(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lapack_cannot_count_is_refused() {
        assert!(dimension("n", 1 << 31).unwrap_err().message().contains("limit is 2147483647"));
        assert!(matrix("a", 0, usize::MAX, 2).is_err());
        assert!(vectors(20_000, 0).is_ok() && vectors(30_000, 0).is_err() && vectors(usize::MAX, 1).is_err());
        assert!(blocks(1 << 23, 40).is_ok() && blocks(1 << 25, 40).is_err() && blocks(1 << 25, 4).is_ok());
        assert_eq!(work_size(f64::NAN, 3).unwrap(), 3);
        assert_eq!(work_size(-5f32, 0).unwrap(), 1);
        assert_eq!(work_size(1e12f64, 0).unwrap(), i32::MAX);
        assert!(work_size(16_777_216f32, 0).unwrap() > 16_777_216);
    }
}
