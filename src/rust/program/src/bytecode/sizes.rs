//! The sizes of arrays in bytecode.

use super::attributes::Entries;
use super::kinds;
use crate::sizes;
use pjrt_base::error::Result;

impl Entries<'_> {
    /// Checks that no array has an impossible size.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub fn check_sizes(&self) -> Result<()> {
        let (_, types) = self.counts();
        for number in 0..types {
            let array = self.type_number(number);
            let Some((kind, mut fields)) = array.kind()? else { continue };
            let Some(has_encoding) = kinds::array(array.dialect(), kind) else { continue };
            if has_encoding {
                fields.number()?;
            }
            let mut dims = Vec::new();
            for _ in 0..fields.count()? {
                // Signed numbers have their sign in the last bit; an unknown size is negative.
                let (dim, is_negative) = fields.flagged()?;
                dims.push(if is_negative { 0 } else { dim });
            }
            sizes::check(dims)?;
        }
        Ok(())
    }
}
