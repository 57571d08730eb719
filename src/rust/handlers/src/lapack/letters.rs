//! Attributes that are one letter, as LAPACK's options.

use crate::frame::Failure;
use crate::lapack::operands::Call;
use pjrt_base::error::Error;

impl Call<'_> {
    /// An option of LAPACK.
    ///
    /// # Errors
    /// If the attribute is missing, or another letter.
    pub fn letter<T: TryFrom<u8, Error = Error>>(&self, name: &str) -> Result<T, Failure> {
        let letter = self.frame.integer::<u8>(name)?;
        T::try_from(letter).map_err(|error| Failure::invalid(format!("The attribute '{name}': {}", error.message())))
    }

    /// Whether vectors are to be computed: `V` or `N`.
    ///
    /// # Errors
    /// If the attribute is missing, or another letter.
    pub fn wants(&self, name: &str) -> Result<bool, Failure> {
        match self.frame.integer::<u8>(name)? {
            b'V' => Ok(true),
            b'N' => Ok(false),
            other => Err(Failure::invalid(format!(
                "The attribute '{name}' must be one of 'V', 'N': got '{}'.",
                other.escape_ascii()
            ))),
        }
    }
}
