//! Array files of NumPy: `.npy` with one array, and `.npz`, ZIP archives of them. A file is checked before it is used.

mod archive;
mod decode;

use crate::host::array::HostOrder;
use crate::stored::{Form, Stored};
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use pjrt_base::mmap::MappedFile;
use pjrt_base::reason::Reason;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_data::npy::{self, Element, NpyHeader, Problem};
use std::path::Path;
use std::sync::Arc;

/// An open file of either kind.
#[derive(Debug)]
pub struct ArrayFile {
    file: Arc<MappedFile>,
    is_archive: bool,
    members: Vec<Member>,
    others: Vec<String>,
}

/// An array file, alone or as a part of an archive.
#[derive(Debug, Clone)]
struct Member {
    /// Its name in the archive, without the extension.
    name: String,
    /// Where its bytes are in the file.
    start: u64,
    stored: u64,
    is_deflated: bool,
    /// The number of its bytes when they are not compressed, and their checksum if the file has one.
    len: u64,
    crc: Option<u32>,
}

impl Member {
    /// A part of a file without a name.
    fn plain(start: u64, len: u64) -> Member {
        Member { name: String::new(), start, stored: len, is_deflated: false, len, crc: None }
    }
}

/// An array whose header has been read, or that has none.
#[derive(Debug)]
pub struct NpyArray {
    member: Member,
    file: Arc<MappedFile>,
    label: String,
    spec: Spec,
    /// Whether the file says the type of the elements.
    has_type: bool,
    /// The size of the header, which comes first.
    header: usize,
    is_column_major: bool,
    /// The bytes of numbers whose order is reversed.
    swapped: Option<usize>,
}

impl ArrayFile {
    /// Opens a file, and reads the list of its arrays.
    ///
    /// # Errors
    /// `NpyInvalid` for anything but these files; `Io`.
    pub fn open(path: &Path) -> Result<ArrayFile> {
        let file = MappedFile::open(path)?;
        if let Some((members, others)) = archive::members(&file)? {
            return Ok(ArrayFile { file, is_archive: true, members, others });
        }
        let len = file.len();
        Ok(ArrayFile { file, is_archive: false, members: vec![Member::plain(0, len)], others: Vec::new() })
    }

    /// Whether it is an archive, which has arrays by name. Other files have one array, without a name.
    pub fn is_archive(&self) -> bool {
        self.is_archive
    }

    /// The members of an archive that are not arrays.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// Reads the header of an array. `dtype` is the type of elements that the file does not say.
    ///
    /// # Errors
    /// `NpyInvalid`; `UnsupportedDtype` for elements that PJRT lacks, or without a type; `InvalidInput` for a `dtype` of
    /// another size; `FileChanged`, `Io`.
    pub fn array(&self, array: usize, dtype: Option<DType>) -> Result<NpyArray> {
        let member = self.members[array].clone();
        if !member.is_deflated && !decode::has_checksum(&self.file, &member)? {
            return Err(self.invalid(&member, "its checksum is wrong"));
        }
        let label = self.label(&member);
        let problem = |problem| match problem {
            Problem::Invalid(what) => self.invalid(&member, &what),
            Problem::Unsupported(what) => Error::new(Kind::UnsupportedDtype, format!("{label} {what}.")),
        };
        let mut start = [0; npy::START];
        let known = usize::try_from(member.len).map_or(npy::START, |len| len.min(npy::START));
        self.read(&member, &mut start[..known])?;
        let size = npy::size(&start[..known]).map_err(|found| match self.is_archive {
            true => problem(found),
            false => foreign::named_file(problem(found), &self.file),
        })?;
        if size as u64 > member.len {
            return Err(self.invalid(&member, "it is truncated"));
        }
        let mut bytes = vec![0; size];
        self.read(&member, &mut bytes)?;
        let header = NpyHeader::parse(&bytes).map_err(problem)?;
        let dtype = match (header.element, dtype) {
            (Element::Known(dtype), _) => dtype,
            (Element::Void(bytes), Some(dtype)) if dtype.host_bytes() == bytes => dtype,
            (Element::Void(bytes), Some(dtype)) => {
                let bytes = counted(bytes, "byte");
                bail!(InvalidInput, "{label} has elements of {bytes}, which are not of type {dtype}.")
            }
            (Element::Void(bytes), None) => {
                let message =
                    format!("{label} does not contain the type of its elements of {}.", counted(bytes, "byte"));
                return Err(Error::new(Kind::UnsupportedDtype, message).hint(Reason::NpyTypeMissing { bytes }));
            }
        };
        let spec = Spec::new(dtype, &header.dims)
            .map_err(|error| self.invalid(&member, error.message().trim_end_matches('.')))?;
        let (needed, found) = (spec.bytes() as u64, member.len - size as u64);
        if found < needed {
            let what = format!("its header declares {needed} bytes of data, but it has {found}: it is truncated");
            return Err(self.invalid(&member, &what));
        }
        if found > needed {
            let what = format!(
                "it has {} after its array, and only one array is read",
                counted((found - needed) as usize, "byte")
            );
            return Err(self.invalid(&member, &what));
        }
        Ok(NpyArray {
            member,
            file: self.file.clone(),
            label,
            spec,
            has_type: matches!(header.element, Element::Known(_)),
            header: size,
            is_column_major: header.is_column_major,
            swapped: header.swapped,
        })
    }

    /// Reads the first bytes of a member.
    fn read(&self, member: &Member, target: &mut [u8]) -> Result<()> {
        if !member.is_deflated {
            return self.file.read(member.start, target);
        }
        let mut inflated = decode::Inflated::new(&self.file, member);
        inflated.fill(target)
    }

    fn label(&self, member: &Member) -> String {
        if self.is_archive {
            format!("Array \"{}\"", member.name)
        } else {
            format!("'{}'", self.file.path().display())
        }
    }

    fn invalid(&self, member: &Member, what: &str) -> Error {
        invalid(self.file.path(), if self.is_archive { Some(&member.name) } else { None }, what)
    }
}

impl NpyArray {
    /// An array of plain elements that begins at this byte of a file.
    pub(crate) fn plain(file: &Arc<MappedFile>, start: u64, spec: Spec, is_column_major: bool) -> NpyArray {
        let (file, member) = (file.clone(), Member::plain(start, spec.bytes() as u64));
        let label = format!("'{}'", file.path().display());
        NpyArray { member, file, label, spec, has_type: true, header: 0, is_column_major, swapped: None }
    }

    /// Where the array is. With `in_place`, a device may use the memory of the file if that is possible.
    pub fn stored(&self, in_place: bool) -> Stored<'_> {
        let spec = self.spec.clone();
        let (start, bytes, form) = if self.is_plain() && !self.is_transposed() {
            // A device copies narrow elements.
            (self.place().1, spec.bytes(), Form::Plain { in_place: in_place && !spec.dtype.is_packed() })
        } else {
            (self.member.start, self.member.stored as usize, Form::Encoded(self))
        };
        Stored { file: &self.file, label: self.label.clone(), spec, start, bytes, form }
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its file, and where its data begin.
    pub(crate) fn place(&self) -> (&Arc<MappedFile>, u64) {
        (&self.file, self.member.start + self.header as u64)
    }

    /// Whether its elements are in column-major order.
    pub(crate) fn is_column_major(&self) -> bool {
        self.is_column_major
    }

    /// Whether its elements are stored in the file as in memory, in either order.
    pub(crate) fn is_plain(&self) -> bool {
        !self.member.is_deflated && self.swapped.is_none()
    }

    /// Whether its elements lie in another order than row-major.
    fn is_transposed(&self) -> bool {
        self.is_column_major && !self.spec.is_empty() && !HostOrder::ColumnMajor.is_row_major(&self.spec.dims)
    }

    /// Whether the file says the type of the elements.
    pub fn has_type(&self) -> bool {
        self.has_type
    }
}

fn invalid(path: &Path, array: Option<&str>, what: &str) -> Error {
    let path = path.display();
    let message = match array {
        Some(name) => format!("'{path}' is not a valid file of NumPy: array \"{name}\": {what}."),
        None => format!("'{path}' is not a valid file of NumPy: {what}."),
    };
    Error::new(Kind::NpyInvalid, message)
}
