//! The enumerations of StableHLO.

/// The name of an enumeration, its numbers as an attribute of the portable form and of StableHLO's own bytecode, and its values by
/// number.
pub type Choices = (&'static str, u64, u64, &'static [&'static str]);

pub const CHOICES: [Choices; 8] = [
    ("comparison_direction", 3, 2, &["EQ", "NE", "GE", "GT", "LE", "LT"]),
    ("comparison_type", 4, 3, &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]),
    ("fft_type", 7, 6, &["FFT", "IFFT", "RFFT", "IRFFT"]),
    ("precision", 11, 8, &["DEFAULT", "HIGH", "HIGHEST"]),
    ("rng_algorithm", 12, 9, &["DEFAULT", "THREE_FRY", "PHILOX"]),
    // They are counted from one.
    ("rng_distribution", 13, 10, &["", "UNIFORM", "NORMAL"]),
    ("transpose", 16, 12, &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]),
    ("result_accuracy_mode", 19, 16, &["DEFAULT", "HIGHEST", "TOLERANCE"]),
];

/// An enumeration, and the number of one of its values.
pub fn find(name: &str, value: &str) -> Option<(&'static Choices, usize)> {
    let choices = CHOICES.iter().find(|(known, ..)| *known == name)?;
    Some((choices, choices.3.iter().position(|known| *known == value)?))
}
