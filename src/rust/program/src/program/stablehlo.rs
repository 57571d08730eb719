//! Versions of StableHLO: those that a plugin reads, and the version of a portable program.

use crate::program::diagnostic;
use crate::program::Program;
use pjrt_base::error::{Error, Kind, INVALID_ARGUMENT, UNKNOWN};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [i64; 3]);

impl Version {
    /// The version that bytecode, given without its magic number, names.
    fn of_bytecode(code: &[u8]) -> Option<Version> {
        // The version of MLIR's encoding is one byte.
        let producer = code.get(1..)?.strip_prefix(b"StableHLO_v")?;
        let end = producer.iter().position(|&byte| byte == 0)?;
        let numbers = std::str::from_utf8(&producer[..end]).ok()?.split('.').map(|part| part.parse().ok());
        let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
        numbers.try_into().ok().map(Version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The versions of portable programs that a plugin reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub minimum: Version,
    pub current: Version,
}

impl Program {
    /// The version of StableHLO of a portable program: the start of the bytecode names its producer.
    pub fn stablehlo_version(&self) -> Option<Version> {
        Version::of_bytecode(self.bytecode()?)
    }

    /// Explains a compiler's error: a version that the plugin does not claim to read, or a mistake in the program.
    ///
    /// Versions are checked only after an error, because a plugin also reads newer programs that use no new features.
    #[cold]
    pub fn explain(&self, error: Error, versions: Option<Versions>) -> Error {
        let error = match (self.stablehlo_version(), versions) {
            (Some(version), Some(versions)) => versions.explain(version, error),
            _ => error,
        };
        diagnostic::explain(self, error)
    }
}

impl Versions {
    fn explain(&self, version: Version, error: Error) -> Error {
        if !matches!(error.code(), Some(UNKNOWN | INVALID_ARGUMENT)) {
            return error;
        }
        let Versions { minimum, current } = self;
        let (problem, advice) = if version > *current {
            ("newer than the plugin", format!("Export it for StableHLO {current} or older, or use a newer plugin."))
        } else if version < *minimum {
            ("too old for the plugin", "Export it again, or use an older plugin.".into())
        } else {
            return error;
        };
        let message = format!(
            "The program does not compile: its StableHLO version, {version}, is {problem}, which reads versions \
             {minimum} to {current}."
        );
        Error::new(Kind::ProgramVersion, message).hint(advice).hint(format!("The compiler said: {}", error.message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Format;

    #[test]
    fn the_version_of_a_portable_program_is_read() {
        assert_eq!(Version::of_bytecode(b"\x0dStableHLO_v1.13.3\0rest"), Some(Version([1, 13, 3])));
        for other in [
            &b"\x0dMLIR22.0.0git\0"[..],
            b"",
            b"\x0dStableHLO_v1.13.3",
            b"\x0dStableHLO_v1.13\0",
            b"\x0dStableHLO_v1.13.x\0",
        ] {
            assert_eq!(Version::of_bytecode(other), None);
        }
        let text = Program::new(b"module { } // StableHLO_v1.2.3".to_vec(), Format::Mlir).unwrap();
        assert_eq!(text.stablehlo_version(), None);
    }

    #[test]
    fn versions_are_compared_by_number() {
        let versions = Versions { minimum: Version([0, 9, 0]), current: Version([1, 13, 3]) };
        let explain = |numbers| versions.explain(Version(numbers), Error::new(Kind::Pjrt(2), "Unknown type code 42."));
        for good in [[0, 9, 0], [0, 20, 1], [1, 0, 0], [1, 13, 3]] {
            assert_eq!(explain(good).kind(), Kind::Pjrt(2), "{good:?}");
        }
        for (bad, what) in [([1, 13, 4], "newer"), ([1, 20, 0], "newer"), ([2, 0, 0], "newer"), ([0, 8, 9], "old")] {
            let error = explain(bad);
            assert_eq!(error.kind(), Kind::ProgramVersion);
            assert!(error.message().contains(what), "{error}");
            assert!(error.hints()[1].contains("Unknown type code 42."), "{error}");
        }
        let exhausted = versions.explain(Version([2, 0, 0]), Error::new(Kind::Pjrt(8), "Out of memory."));
        assert_eq!(exhausted.code(), Some(8));
    }
}
