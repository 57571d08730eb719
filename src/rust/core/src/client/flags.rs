//! Flags of XLA that this package sets because XLA's defaults make results wrong or programs slow, and which of them a
//! client's compiler knows.

use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Result, INVALID_ARGUMENT, UNIMPLEMENTED};
use std::sync::OnceLock;

/// A flag of XLA, and the value that this package gives it.
type Flag = (&'static str, bool);

/// With fast minima and maxima, the result of NaN and a number may be the number. An order of operations for concurrency makes
/// programs of small operations slower. JAX turns these off, too.
pub(crate) const FLAGS: [Flag; 4] = [
    ("xla_cpu_enable_fast_min_max", false),
    ("xla_gpu_enable_fast_min_max", false),
    ("xla_cpu_enable_concurrency_optimized_scheduler", false),
    (NEWER_CODE, true),
];

/// Newer code for CPUs: XLA's default, which is slower for some programs.
const NEWER_CODE: &str = "xla_cpu_use_fusion_emitters";

/// The newest version of the PJRT API of a plugin that was seen to have the older code.
const LAST_WITH_OLDER_CODE: (i32, i32) = (0, 106);

/// The flags that a compiler knows; empty until it has compiled a program.
pub(crate) type KnownFlags = OnceLock<Vec<Flag>>;

/// An attribute of plugins made from XLA; their compilers name the option that they do not know.
const XLA: &str = "xla_version";

/// Calls `attempt` with the flags to set for a program, which may prefer the older code. Until the plugin's compiler is known,
/// retries an attempt that fails because of a flag without that flag.
///
/// # Errors
/// The errors of the last attempt.
pub(crate) fn with_flags<T>(
    plugin: &Plugin,
    known: &KnownFlags,
    prefers_older_code: impl Fn() -> bool,
    mut attempt: impl FnMut(&[Flag]) -> Result<T>,
) -> Result<T> {
    let of_program = |&(name, value): &Flag| (name, value && !(name == NEWER_CODE && prefers_older_code()));
    let mut attempt = |flags: &[Flag]| attempt(&flags.iter().map(of_program).collect::<Vec<_>>());
    if let Some(known) = known.get() {
        return attempt(known);
    }
    let is_xla = plugin.attributes().iter().any(|(name, _)| name == XLA);
    let mut flags = FLAGS.to_vec();
    // To be refused takes several attempts.
    flags.retain(|(name, _)| *name != NEWER_CODE || plugin.api().version() <= LAST_WITH_OLDER_CODE);
    loop {
        match attempt(&flags) {
            Ok(result) => {
                // Another thread may have found the same flags.
                let _ = known.set(flags);
                return Ok(result);
            }
            Err(error) => flags = fewer(&flags, &error, is_xla).ok_or(error)?,
        }
    }
}

/// The flags without those to which a compiler may have objected; `None` if they did not cause the failure.
fn fewer(flags: &[Flag], error: &Error, is_xla: bool) -> Option<Vec<Flag>> {
    if flags.is_empty() || !matches!(error.code(), Some(INVALID_ARGUMENT | UNIMPLEMENTED)) {
        return None;
    }
    let mut others = flags.to_vec();
    others.retain(|(name, _)| !error.message().contains(name));
    if others.len() < flags.len() {
        return Some(others);
    }
    // A compiler that does not say which option it refuses may refuse every one.
    (!is_xla).then(Vec::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_base::error::{Kind, RESOURCE_EXHAUSTED};

    fn error(code: u32, message: &str) -> Error {
        Error::new(Kind::Pjrt(code), message)
    }

    #[test]
    fn a_flag_that_is_named_is_left_out() {
        let named = error(INVALID_ARGUMENT, "No such compile option: 'xla_gpu_enable_fast_min_max'");
        for is_xla in [false, true] {
            assert_eq!(fewer(&FLAGS, &named, is_xla), Some(vec![FLAGS[0], FLAGS[2], FLAGS[3]]));
            assert_eq!(fewer(&[], &named, is_xla), None);
        }
        assert_eq!(fewer(&FLAGS[..1], &named, true), None);
    }

    #[test]
    fn only_a_compiler_that_names_no_options_is_asked_again_about_other_errors() {
        for code in [INVALID_ARGUMENT, UNIMPLEMENTED] {
            assert_eq!(fewer(&FLAGS, &error(code, "Not supported."), false), Some(Vec::new()));
            assert_eq!(fewer(&FLAGS, &error(code, "No such compile option: 'xla_own'"), true), None);
        }
        assert_eq!(fewer(&FLAGS, &error(RESOURCE_EXHAUSTED, "No memory."), false), None);
        assert_eq!(fewer(&FLAGS, &Error::new(Kind::Internal, "An exception."), false), None);
    }
}
