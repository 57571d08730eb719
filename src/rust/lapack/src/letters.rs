//! LAPACK's one-letter options as enums.

use pjrt_base::bail;
use pjrt_base::error::{Error, Result};

macro_rules! letters {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $letter:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $letter,)*
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// LAPACK's letter.
            pub fn letter(self) -> u8 {
                self as u8
            }
        }

        impl TryFrom<u8> for $name {
            type Error = Error;

            /// From LAPACK's letter, in upper or lower case.
            fn try_from(letter: u8) -> Result<Self> {
                match letter.to_ascii_uppercase() {
                    $($letter => Ok($name::$variant),)*
                    _ => {
                        let known: Vec<String> =
                            Self::ALL.iter().map(|option| format!("'{}'", option.letter() as char)).collect();
                        bail!(
                            InvalidInput,
                            "`{}` must be one of {}: got '{}'.",
                            stringify!($name).to_ascii_lowercase(),
                            known.join(", "),
                            letter.escape_ascii()
                        )
                    }
                }
            }
        }
    )*};
}

letters! {
    /// The triangle of a matrix that is read.
    Uplo { Upper = b'U', Lower = b'L' }
    /// The side of the product at which a matrix stands.
    Side { Left = b'L', Right = b'R' }
    /// What is done to a matrix before it is used.
    Transpose {
        No = b'N',
        Yes = b'T',
        /// Transpose and conjugate.
        Conjugate = b'C',
    }
    /// Whether the diagonal of a triangular matrix is read, or taken as ones.
    Diag { Read = b'N', Unit = b'U' }
    /// Which singular vectors are computed.
    SvdMode {
        /// Full square matrices of them.
        All = b'A',
        /// As many as there are singular values.
        Some = b'S',
        None = b'N',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_read_in_either_case_and_others_are_refused() {
        assert_eq!(Uplo::try_from(b'l').unwrap(), Uplo::Lower);
        assert_eq!(SvdMode::try_from(b'S').unwrap().letter(), b'S');
        let error = Transpose::try_from(0).unwrap_err();
        assert_eq!(error.message(), r"`transpose` must be one of 'N', 'T', 'C': got '\x00'.");
    }
}
