//! Attributes that are one letter, as LAPACK's options.

use crate::frame::{Failure, Frame, Outcome};
use pjrt_base::error::Error;

impl Frame<'_> {
    /// An option of LAPACK.
    ///
    /// # Errors
    /// If the attribute is missing, or another letter.
    pub(crate) fn letter<T: TryFrom<u8, Error = Error>>(&self, name: &str) -> Outcome<T> {
        let letter = self.integer::<u8>(name)?;
        T::try_from(letter).map_err(|error| Failure::invalid(format!("The attribute '{name}': {}", error.message())))
    }

    /// Whether vectors are to be computed: `V` or `N`.
    ///
    /// # Errors
    /// If the attribute is missing, or another letter.
    pub(crate) fn wants(&self, name: &str) -> Outcome<bool> {
        match self.integer::<u8>(name)? {
            b'V' => Ok(true),
            b'N' => Ok(false),
            other => Err(Failure::invalid(format!(
                "The attribute '{name}' must be one of 'V', 'N': got '{}'.",
                other.escape_ascii()
            ))),
        }
    }
}
