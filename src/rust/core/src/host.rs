//! Blocks of host memory that a plugin can use in place: 64-byte aligned, shared between this process and the plugin.

use crate::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use crate::event::Event;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

/// What XLA's CPU client asks of memory that it uses in place.
const ALIGNMENT: usize = 64;

/// From this size on, memory comes in huge pages where the system has them: touching small ones costs more than the work.
const HUGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// A block of memory, aligned as devices want it.
pub struct HostMemory {
    data: NonNull<u8>,
    len: usize,
    origin: Origin,
}

/// Whose memory it is.
enum Origin {
    Allocated(Layout),
    /// Somebody else's, who is told when nobody uses it any more.
    Lent(Option<Box<dyn FnOnce() + Send>>),
}

// SAFETY: a plain block of bytes; who may write when is up to the owners.
unsafe impl Send for HostMemory {}
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates `len` bytes, not initialized.
    ///
    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED` when there is no memory.
    pub fn new(len: usize) -> Result<Arc<Self>> {
        let align = if len >= HUGE { HUGE_PAGE } else { ALIGNMENT };
        // Never empty, so that the address is real.
        let layout = Layout::from_size_align(len.max(ALIGNMENT), align).map_err(|_| exhausted(len))?;
        // SAFETY: the size is not zero.
        let data = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(|| exhausted(len))?;
        advise_huge_pages(data.as_ptr(), len);
        Ok(Arc::new(HostMemory { data, len, origin: Origin::Allocated(layout) }))
    }

    /// Uses `len` bytes from the first aligned one of memory that is lent; `release` is called, on whichever thread, when
    /// nobody uses it any more.
    ///
    /// # Safety
    /// [`HostMemory::lent_size`] bytes from `start` on stay valid until `release` is called.
    pub unsafe fn lent(start: NonNull<u8>, len: usize, release: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let data = start.add(start.as_ptr().align_offset(ALIGNMENT));
        advise_huge_pages(data.as_ptr(), len);
        Arc::new(HostMemory { data, len, origin: Origin::Lent(Some(Box::new(release))) })
    }

    /// Bytes to lend so that `len` aligned ones are among them.
    pub fn lent_size(len: usize) -> usize {
        len.saturating_add(ALIGNMENT - 1)
    }

    /// Keeps the memory until `done` has happened, whoever else lets go of it.
    pub(crate) fn keep_until(self: &Arc<Self>, done: &Event) {
        let kept = self.clone();
        if done.on_ready(move |_| drop(kept)).is_err() {
            // Without a callback nobody tells when the plugin is done: the memory must stay for good.
            std::mem::forget(self.clone());
        }
    }

    /// The first byte.
    pub fn data(&self) -> *mut u8 {
        self.data.as_ptr()
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
        match &mut self.origin {
            // SAFETY: allocated with this layout, freed once.
            Origin::Allocated(layout) => unsafe { std::alloc::dealloc(self.data.as_ptr(), *layout) },
            Origin::Lent(release) => {
                if let Some(release) = release.take() {
                    release();
                }
            }
        }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory").field("data", &self.data).field("len", &self.len).finish_non_exhaustive()
    }
}

#[cold]
fn exhausted(len: usize) -> Error {
    Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), format!("There is no host memory for {len} bytes."))
}

/// Asks for huge pages behind a large block, where the system has them.
fn advise_huge_pages(data: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    if len >= HUGE {
        let skipped = data.align_offset(HUGE_PAGE);
        // SAFETY: advice on whole pages within the block; refusal changes nothing.
        unsafe { libc::madvise(data.add(skipped).cast(), len - skipped, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (data, len);
}

/// Bytes of memory that this machine could give right now, where the system tells.
pub fn available_memory() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
