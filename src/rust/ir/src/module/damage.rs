//! Damaged files for tests.

/// The places at which tests damage a file: a few, spread over it, or thirty times as many where tools/soak.sh runs the tests.
pub fn damaged_places(len: usize, few: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    let most = if std::env::var_os("PJRT_SOAK").is_some() { 30 * few } else { few };
    (0..len).step_by(1 + len / most)
}
