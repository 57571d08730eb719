//! Blocks of host memory that a plugin can use in place: 64-byte aligned, shared between this process and the plugin.

use crate::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

/// What XLA's CPU client asks of memory that it uses in place.
const ALIGNMENT: usize = 64;

/// From this size on, memory comes in huge pages where the system has them: touching small ones costs more than the work.
const HUGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// A block of memory: `headroom` bytes for the owner's own use, then the aligned data.
#[derive(Debug)]
pub struct HostMemory {
    start: NonNull<u8>,
    layout: Layout,
    offset: usize,
    len: usize,
}

// SAFETY: a plain block of bytes; who may write when is up to the owners.
unsafe impl Send for HostMemory {}
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates `len` bytes of data, not initialized, with at least `headroom` bytes before them.
    ///
    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED` when there is no memory.
    pub fn new(len: usize, headroom: usize) -> Result<Arc<Self>> {
        let offset = headroom.next_multiple_of(ALIGNMENT);
        let align = if len >= HUGE { HUGE_PAGE } else { ALIGNMENT };
        let exhausted =
            || Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), format!("There is no host memory for {len} bytes."));
        // Never empty, so that the address is real.
        let size = len.checked_add(offset).ok_or_else(exhausted)?.max(ALIGNMENT);
        let layout = Layout::from_size_align(size, align).map_err(|_| exhausted())?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(exhausted)?;
        #[cfg(target_os = "linux")]
        if len >= HUGE {
            // SAFETY: advice on a block that is ours; refusal changes nothing.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Ok(Arc::new(HostMemory { start, layout, offset, len }))
    }

    /// The first byte of data.
    pub fn data(&self) -> *mut u8 {
        // SAFETY: the offset lies within the block.
        unsafe { self.start.as_ptr().add(self.offset) }
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The data, once somebody has written them.
    ///
    /// # Safety
    /// All bytes have been written and nobody writes them while the slice lives.
    pub unsafe fn bytes(&self) -> &[u8] {
        std::slice::from_raw_parts(self.data(), self.len)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Bytes of memory that this machine could give right now, where the system tells.
pub fn available_memory() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
