//! Arrays in files of plain numbers: in any file from some byte on, and parts of the array in a `.npy` file.

use crate::numpy::{ArrayFile, NpyArray};
use crate::stored::Stored;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::mmap::{self, MappedFile};
use pjrt_base::reason::Reason;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_data::npy::MAGIC;
use std::path::Path;
use std::sync::Arc;

/// The size in bytes from which an array is used in place: its file stays open.
const WORTH_A_FILE: usize = 32 << 10;

/// Which array of a file is meant.
#[derive(Debug)]
pub struct Part {
    /// The type of the elements. Without it, the file is a `.npy` file.
    pub dtype: Option<DType>,
    /// The dimensions. Without them, the whole array of a `.npy` file.
    pub dims: Option<Vec<i64>>,
    /// The dimension to find out: as many as there are bytes for.
    pub unknown: Option<usize>,
    /// Where the array begins, in bytes from the start of the file, or of the data of a `.npy` file.
    pub offset: u64,
    /// The order of the elements. A `.npy` file says its own.
    pub is_column_major: bool,
}

/// An array of a file.
#[derive(Debug)]
pub struct Mapping(NpyArray);

impl Mapping {
    /// Opens the file, and checks that it has the part.
    ///
    /// # Errors
    /// `ShapeMismatch` if the file ends before the array does; `InvalidInput` for dimensions that no array has, and for
    /// the header of a `.npy` file;
    /// `NpyInvalid` without a type if it is not a `.npy` file, or if its numbers are big-endian and a part is wanted;
    /// `Io`, `FileChanged`.
    pub fn open(path: &Path, part: &Part) -> Result<Mapping> {
        let Some(dtype) = part.dtype else { return Mapping::of_numpy(path, part) };
        let Some(dims) = &part.dims else { bail!(InvalidInput, "The shape of the array is missing.") };
        let file = MappedFile::open(path)?;
        let mut start = [0; MAGIC.len()];
        // Plain bytes may be anything.
        if part.offset == 0 && dtype != DType::U8 && file.len() >= start.len() as u64 {
            file.read(0, &mut start)?;
            if start == MAGIC {
                let message = format!("'{}' is a .npy file, which begins with a header.", path.display());
                return Err(Error::new(Kind::InvalidInput, message).hint(Reason::MapRefused));
            }
        }
        Mapping::of_part(&file, 0, dtype, dims, part, part.is_column_major)
    }

    fn of_numpy(path: &Path, part: &Part) -> Result<Mapping> {
        let explained = |error: Error| match error.kind() {
            Kind::NpyInvalid => error.hint(Reason::MapNeedsType),
            _ => error,
        };
        let file = ArrayFile::open(path).map_err(explained)?;
        if file.is_archive() {
            let message = format!("'{}' is an archive, whose arrays cannot be used in place.", path.display());
            return Err(Error::new(Kind::NpyInvalid, message).hint(Reason::MapRefused));
        }
        let array = file.array(0, None).map_err(explained)?;
        let dims = match &part.dims {
            None if part.offset == 0 => return Ok(Mapping(array)),
            None => bail!(InvalidInput, "An array that begins within the data needs a shape."),
            Some(dims) => dims,
        };
        if !array.is_plain() {
            let message = format!("The numbers in '{}' are big-endian: parts of it cannot be used.", path.display());
            return Err(Error::new(Kind::NpyInvalid, message).hint(Reason::MapRefused));
        }
        let (file, start) = array.place();
        Mapping::of_part(file, start, array.spec().dtype, dims, part, array.is_column_major())
    }

    /// The part of a file whose data begin at byte `data`.
    fn of_part(
        file: &Arc<MappedFile>,
        data: u64,
        dtype: DType,
        dims: &[i64],
        part: &Part,
        is_column_major: bool,
    ) -> Result<Mapping> {
        let (path, whole, offset) = (file.path().display(), file.len() - data, part.offset);
        let Some(found) = whole.checked_sub(offset) else {
            bail!(ShapeMismatch, "The offset, {offset}, is beyond the {whole} bytes of data in '{path}'.");
        };
        let mut dims = dims.to_vec();
        if let Some(unknown) = part.unknown {
            let Some(dim) = dims.get_mut(unknown) else {
                bail!(Internal, "The unknown dimension is not one of the shape.")
            };
            *dim = 1;
            let one = Spec::new(dtype, &dims)?;
            let step = one.bytes() as u64;
            if step == 0 || found % step != 0 {
                bail!(
                    ShapeMismatch,
                    "'{path}' has {found} bytes of data from offset {offset} on, which do not make whole arrays {one} of {step} bytes."
                );
            }
            dims[unknown] = (found / step) as i64;
        }
        let spec = Spec::new(dtype, &dims)?;
        let needed = spec.bytes() as u64;
        ensure!(
            needed <= found,
            ShapeMismatch,
            "An array {spec} has {needed} bytes, but '{path}' has {found} bytes of data from offset {offset} on."
        );
        Ok(Mapping(NpyArray::plain(file, data + offset, spec, is_column_major)))
    }

    /// Where the array is. It is used in place if that is possible and worth an open file.
    pub fn stored(&self) -> Stored<'_> {
        self.0.stored(self.0.spec().bytes() >= WORTH_A_FILE && mmap::has_room_for_files())
    }
}
