//! The registers that move and convert data: the widest of the processor.

use std::sync::OnceLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registers {
    /// Portable code, the only choice outside x86-64.
    Portable,
    /// 16 bytes, on every x86-64 processor.
    Sse2,
    /// 32 bytes.
    Avx2,
}

/// The registers in use, the same for the whole process.
#[inline]
pub fn registers() -> Registers {
    static CHOICE: OnceLock<Registers> = OnceLock::new();
    *CHOICE.get_or_init(choose)
}

#[cfg(test)]
use tests::choose;
#[cfg(not(test))]
use widest as choose;

#[cfg(target_arch = "x86_64")]
fn widest() -> Registers {
    if is_x86_feature_detected!("avx2") {
        Registers::Avx2
    } else {
        Registers::Sse2
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn widest() -> Registers {
    Registers::Portable
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The paths that the tests of this process take: `none` for the portable ones, `sse2` for the paths of an x86-64
    /// processor without AVX2.
    const SWITCH: &str = "REGISTERS";

    pub fn choose() -> Registers {
        match std::env::var(SWITCH).ok().as_deref() {
            Some("none") => Registers::Portable,
            Some("sse2") => widest().min(Registers::Sse2),
            _ => widest(),
        }
    }

    /// The output shows that the processes which the next test starts take other paths.
    #[test]
    fn this_process_uses_what_the_switch_says() {
        let switch = std::env::var(SWITCH).ok();
        match switch.as_deref() {
            Some("none") => assert_eq!(registers(), Registers::Portable),
            Some("sse2") => assert!(registers() <= Registers::Sse2),
            _ => assert_eq!(registers(), widest()),
        }
    }

    #[test]
    fn the_tests_of_data_pass_with_narrower_registers() {
        let tests = ["convert::", "transpose::", "minifloat::", "this_process_uses_what_the_switch_says"];
        for switch in ["none", "sse2"] {
            let output =
                Command::new(std::env::current_exe().unwrap()).args(tests).env(SWITCH, switch).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "with {switch}:\n{printed}");
            for test in tests {
                let passed = |line: &str| line.contains(test) && line.ends_with("... ok");
                assert!(printed.lines().any(passed), "no test of {test} ran with {switch}:\n{printed}");
            }
        }
    }
}
