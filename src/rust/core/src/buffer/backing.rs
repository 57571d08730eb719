//! The mapped files that the content of a buffer depends on. Detects changes to such files by others.

use crate::buffer::Buffer;
use pjrt_base::error::Result;
use pjrt_base::mmap::MappedFile;
use pjrt_base::sync::Unpoisoned;
use std::sync::{Arc, Mutex};

/// Files that the content of a buffer depends on: for as long as the buffer lives if it uses their memory in place, or
/// until it is complete if it was computed or copied from such memory.
#[derive(Debug)]
pub(crate) struct Backing {
    /// None once the content no longer depends on them.
    files: Mutex<Vec<Arc<MappedFile>>>,
    is_in_place: bool,
}

impl Backing {
    /// For buffers that are the memory of these files, or that are created by reading it.
    pub(crate) fn new(files: Vec<Arc<MappedFile>>, is_in_place: bool) -> Backing {
        Backing { files: files.into(), is_in_place }
    }

    /// Whether the buffer uses the memory of the file in place.
    #[inline]
    pub(crate) fn is_in_place(&self) -> bool {
        self.is_in_place
    }

    fn files(&self) -> Vec<Arc<MappedFile>> {
        self.files.lock().unpoisoned().clone()
    }

    /// Checks that no file has changed.
    pub(crate) fn check(&self) -> Result<()> {
        self.files().iter().try_for_each(|file| file.check())
    }

    /// As `check`, for content that is complete: if it passes, it need not be called again.
    pub(crate) fn complete(&self) -> Result<()> {
        self.check()?;
        if !self.is_in_place {
            let files = std::mem::take(&mut *self.files.lock().unpoisoned());
            // Unmapping a file does not need the lock.
            drop(files);
        }
        Ok(())
    }

    /// The backing of another buffer that is derived from this one.
    pub(crate) fn derive(&self) -> Arc<Backing> {
        Arc::new(Backing::new(self.files(), self.is_in_place))
    }

    /// The files that the results of reading these buffers will depend on; usually none.
    ///
    /// # Errors
    /// `FileChanged` for a buffer in the memory of a file that has changed.
    pub(crate) fn of(inputs: &[&Buffer]) -> Result<Option<Backing>> {
        if inputs.iter().all(|input| input.backing().is_none()) {
            return Ok(None);
        }
        Backing::merge(inputs)
    }

    #[cold]
    fn merge(inputs: &[&Buffer]) -> Result<Option<Backing>> {
        let mut files: Vec<(Arc<MappedFile>, bool)> = Vec::new();
        for backing in inputs.iter().filter_map(|input| input.backing()) {
            for file in backing.files() {
                match files.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &file)) {
                    Some((_, is_in_place)) => *is_in_place |= backing.is_in_place,
                    None => files.push((file, backing.is_in_place)),
                }
            }
        }
        files.iter().filter(|(_, is_in_place)| *is_in_place).try_for_each(|(file, _)| file.check())?;
        let files: Vec<_> = files.into_iter().map(|(file, _)| file).collect();
        Ok((!files.is_empty()).then(|| Backing::new(files, false)))
    }
}
