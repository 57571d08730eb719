//! The enumerations of StableHLO, with their values by number.

pub const DIRECTIONS: [&str; 6] = ["EQ", "NE", "GE", "GT", "LE", "LT"];
pub const COMPARISONS: [&str; 5] = ["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"];
pub const TRANSFORMS: [&str; 4] = ["FFT", "IFFT", "RFFT", "IRFFT"];
pub const PRECISIONS: [&str; 3] = ["DEFAULT", "HIGH", "HIGHEST"];
pub const ALGORITHMS: [&str; 3] = ["DEFAULT", "THREE_FRY", "PHILOX"];
/// They are counted from one.
pub const DISTRIBUTIONS: [&str; 3] = ["", "UNIFORM", "NORMAL"];
pub const TRANSPOSES: [&str; 4] = ["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
pub const ACCURACIES: [&str; 3] = ["DEFAULT", "HIGHEST", "TOLERANCE"];

/// Each enumeration: its name, its number as an attribute of the portable form, and its values.
pub const CHOICES: [(&str, usize, &[&str]); 8] = [
    ("comparison_direction", 3, &DIRECTIONS),
    ("comparison_type", 4, &COMPARISONS),
    ("fft_type", 7, &TRANSFORMS),
    ("precision", 11, &PRECISIONS),
    ("rng_algorithm", 12, &ALGORITHMS),
    ("rng_distribution", 13, &DISTRIBUTIONS),
    ("transpose", 16, &TRANSPOSES),
    ("result_accuracy_mode", 19, &ACCURACIES),
];
