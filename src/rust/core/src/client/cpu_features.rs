//! The processor as machine code depends on it: its architecture and features, as one line of text.

use std::sync::OnceLock;

/// The architecture and the names of the available features, in alphabetical order.
pub fn features() -> &'static str {
    static FEATURES: OnceLock<String> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let mut names = detected();
        names.sort_unstable();
        names.insert(0, std::env::consts::ARCH);
        names.join(" ")
    })
}

/// The features that this processor lacks and code made for another may use, in a few words.
pub fn difference(then: &str, now: &str) -> Option<String> {
    let (then, now): (Vec<_>, Vec<_>) = (then.split(' ').collect(), now.split(' ').collect());
    if then.first() != now.first() {
        let architecture = |features: &[&str]| features.first().copied().unwrap_or_default().to_owned();
        return Some(format!("processor: made for {}, this is {}", architecture(&then), architecture(&now)));
    }
    let missing: Vec<_> = then.into_iter().filter(|name| !now.contains(name)).collect();
    (!missing.is_empty()).then(|| format!("processor: this one lacks {}", missing.join(", ")))
}

#[cfg(target_arch = "x86_64")]
fn detected() -> Vec<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    macro_rules! named {
        ($($name:tt),*) => { [$(($name, std::arch::is_x86_feature_detected!($name))),*] };
    }
    let known = named!(
        "adx",
        "aes",
        "avx",
        "avx2",
        "avx512bitalg",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512f",
        "avx512ifma",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512vl",
        "avx512vnni",
        "avx512vpopcntdq",
        "bmi1",
        "bmi2",
        "f16c",
        "fma",
        "gfni",
        "lzcnt",
        "movbe",
        "pclmulqdq",
        "popcnt",
        "sha",
        "sse3",
        "sse4.1",
        "sse4.2",
        "sse4a",
        "ssse3",
        "vaes",
        "vpclmulqdq"
    );
    // SAFETY: every x86-64 processor has the instruction; a leaf that it lacks is not read. Newer compilers know that.
    #[allow(unused_unsafe)]
    let (seventh, more) = unsafe {
        if __cpuid(0).eax < 7 {
            (0, 0)
        } else {
            (__cpuid_count(7, 0).edx, __cpuid_count(7, 1).eax)
        }
    };
    // Features that the standard library does not detect.
    let bits = [
        ("amx-bf16", seventh >> 22),
        ("avx512fp16", seventh >> 23),
        ("amx-tile", seventh >> 24),
        ("amx-int8", seventh >> 25),
        ("avxvnni", more >> 4),
        ("avx512bf16", more >> 5),
        ("amx-fp16", more >> 21),
        ("avxifma", more >> 23),
    ];
    let bits = bits.into_iter().map(|(name, bits)| (name, bits & 1 == 1));
    known.into_iter().chain(bits).filter(|&(_, there)| there).map(|(name, _)| name).collect()
}

#[cfg(target_arch = "aarch64")]
fn detected() -> Vec<&'static str> {
    macro_rules! named {
        ($($name:tt),*) => { [$(($name, std::arch::is_aarch64_feature_detected!($name))),*] };
    }
    let known = named!(
        "aes", "asimd", "bf16", "crc", "dotprod", "f32mm", "f64mm", "fcma", "fhm", "flagm", "fp16", "frintts", "i8mm",
        "jsconv", "lse", "rcpc", "rdm", "sha2", "sha3", "sve", "sve2"
    );
    known.into_iter().filter(|&(_, there)| there).map(|(name, _)| name).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_begins_with_the_architecture() {
        assert_eq!(features().split(' ').next(), Some(std::env::consts::ARCH));
    }

    #[test]
    fn a_difference_names_the_features() {
        assert_eq!(difference("x86_64 avx", "x86_64 avx"), None);
        assert_eq!(difference("x86_64 avx", "x86_64 avx fma"), None, "more features do no harm");
        assert_eq!(difference("x86_64 avx fma", "x86_64 avx").unwrap(), "processor: this one lacks fma");
        assert_eq!(difference("x86_64 avx", "aarch64 sve").unwrap(), "processor: made for x86_64, this is aarch64");
    }
}
