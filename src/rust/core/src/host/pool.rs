//! Large blocks of host memory, kept for reuse: touching fresh pages takes longer than the work in them.
//!
//! Blocks use huge pages where the system has them and they are fast. [`set_limit`] bounds the number of bytes kept.

use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use pjrt_base::process;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The alignment that XLA's CPU client needs to use memory in place.
pub const ALIGNMENT: usize = 64;

/// The system's allocator handles blocks below this size, which it keeps itself.
pub const LARGE: usize = 256 << 10;

/// From this size on, blocks use huge pages where the system has them.
const HUGE: usize = 2 << 20;

/// The default number of bytes kept.
pub const DEFAULT_LIMIT: usize = 256 << 20;

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_LIMIT);
static FRESH: AtomicUsize = AtomicUsize::new(0);
static HANDED_OUT: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static KEPT: Mutex<UnusedBlocks> = Mutex::new(UnusedBlocks { blocks: Vec::new(), bytes: 0 });

/// Unused blocks, oldest first.
struct UnusedBlocks {
    blocks: Vec<Allocation>,
    bytes: usize,
}

/// Memory and how it was allocated. Not freed by itself.
#[derive(Debug, Clone, Copy)]
struct Allocation {
    data: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a plain block of bytes that one owner at a time has.
unsafe impl Send for Allocation {}

/// An uninitialized block of memory. When dropped, it is kept for the next [`PoolBlock::new`].
#[derive(Debug)]
pub struct PoolBlock(Allocation);

// SAFETY: a plain block of bytes; who may write when is up to the owners.
unsafe impl Sync for PoolBlock {}

impl PoolBlock {
    /// A block of at least `len` bytes, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED` without enough memory.
    pub fn new(len: usize) -> Result<PoolBlock> {
        let kept = take(len);
        let fresh = kept.is_none();
        let memory = kept.or_else(|| allocate(len)).ok_or_else(|| {
            Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), format!("Not enough host memory for {len} bytes."))
        })?;
        let size = memory.layout.size();
        IN_USE.fetch_add(size, Ordering::Relaxed);
        if len >= LARGE {
            HANDED_OUT.fetch_add(size, Ordering::Relaxed);
            FRESH.fetch_add(if fresh { size } else { 0 }, Ordering::Relaxed);
        }
        Ok(PoolBlock(memory))
    }

    /// The address of the first byte.
    pub fn data(&self) -> NonNull<u8> {
        self.0.data
    }

    /// Bytes that it has room for, which may be more than were asked for.
    pub fn size(&self) -> usize {
        self.0.layout.size()
    }
}

impl Drop for PoolBlock {
    fn drop(&mut self) {
        IN_USE.fetch_sub(self.size(), Ordering::Relaxed);
        keep(self.0);
    }
}

/// Bytes of the blocks in use.
pub fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// Bytes of large blocks allocated from the system since the last [`reset_fresh`].
pub fn fresh() -> usize {
    FRESH.load(Ordering::Relaxed)
}

/// Bytes of all large blocks handed out since the last [`reset_handed_out`].
pub fn handed_out() -> usize {
    HANDED_OUT.load(Ordering::Relaxed)
}

/// Resets the count. Call it after a garbage collection.
pub fn reset_fresh() {
    FRESH.store(0, Ordering::Relaxed);
}

/// Resets the count. Call it after any garbage collection, even of young objects only.
pub fn reset_handed_out() {
    HANDED_OUT.store(0, Ordering::Relaxed);
}

/// Whether a large block for `len` bytes is kept.
pub fn has(len: usize) -> bool {
    let size = rounded(len);
    process::lock(&KEPT).is_some_and(|kept| kept.blocks.iter().any(|memory| Some(memory.layout.size()) == size))
}

/// Bytes kept for reuse.
pub fn kept() -> usize {
    process::lock(&KEPT).map_or(0, |kept| kept.bytes)
}

/// The limit of bytes kept.
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets the limit of bytes kept, and frees the excess.
pub fn set_limit(bytes: usize) {
    if LIMIT.swap(bytes, Ordering::Relaxed) > bytes {
        shrink(bytes);
    }
}

/// Frees all kept blocks.
pub fn clear() {
    shrink(0);
}

/// The size of the block for `len` bytes: steps of an eighth, so that blocks serve for similar sizes.
fn rounded(len: usize) -> Option<usize> {
    if len < LARGE {
        return Some(len.max(ALIGNMENT));
    }
    let step = (len.checked_next_power_of_two()? / 16).max(4096);
    len.checked_next_multiple_of(step)
}

fn take(len: usize) -> Option<Allocation> {
    if len < LARGE {
        return None;
    }
    let size = rounded(len)?;
    let mut kept = process::lock(&KEPT)?;
    let place = kept.blocks.iter().rposition(|memory| memory.layout.size() == size)?;
    kept.bytes -= size;
    Some(kept.blocks.remove(place))
}

fn keep(memory: Allocation) {
    let size = memory.layout.size();
    let limit = limit();
    if size < LARGE || size > limit {
        return free(memory);
    }
    let Some(mut kept) = process::lock(&KEPT) else { return free(memory) };
    kept.bytes += size;
    kept.blocks.push(memory);
    drop(kept);
    shrink(limit);
}

fn shrink(limit: usize) {
    let oldest = || {
        let mut kept = process::lock(&KEPT).filter(|kept| kept.bytes > limit && !kept.blocks.is_empty())?;
        let memory = kept.blocks.remove(0);
        kept.bytes -= memory.layout.size();
        Some(memory)
    };
    // The lock is not held while the system takes back memory.
    while let Some(memory) = oldest() {
        free(memory);
    }
}

fn allocate(len: usize) -> Option<Allocation> {
    let size = rounded(len)?;
    let huge = len >= HUGE && huge_pages_pay();
    let align = if huge { HUGE } else { ALIGNMENT };
    let layout = Layout::from_size_align(size, align).ok()?;
    // SAFETY: the size is not zero.
    let data = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
    #[cfg(target_os = "linux")]
    if huge {
        // The rest beyond the last whole huge page stays in small ones, so that no more is taken than asked for.
        // SAFETY: advice on whole pages within the block; refusal changes nothing.
        unsafe { libc::madvise(data.as_ptr().cast(), len / HUGE * HUGE, libc::MADV_HUGEPAGE) };
    }
    Some(Allocation { data, layout })
}

/// Whether huge pages are fast to obtain. They are not where a hypervisor takes back free huge pages, and must find new
/// memory when they are used again.
fn huge_pages_pay() -> bool {
    const REPORTS_FREE_PAGES: usize = 5;
    static PAY: OnceLock<bool> = OnceLock::new();
    *PAY.get_or_init(|| {
        let Ok(balloons) = std::fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon") else { return true };
        let features = balloons.flatten().filter_map(|entry| std::fs::read(entry.path().join("features")).ok());
        !features.into_iter().any(|bits| bits.get(REPORTS_FREE_PAGES) == Some(&b'1'))
    })
}

fn free(memory: Allocation) {
    // SAFETY: allocated with this layout, freed once.
    unsafe { std::alloc::dealloc(memory.data.as_ptr(), memory.layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_in_steps_that_waste_little() {
        for len in [LARGE, LARGE + 1, 4_000_063, 40_000_000, 1 << 30] {
            let size = rounded(len).unwrap();
            assert!(size >= len && size - len <= len / 8 + 4096, "{len} -> {size}");
        }
        assert_eq!(rounded(0), Some(ALIGNMENT));
        assert_eq!(rounded(usize::MAX), None);
    }

    #[test]
    fn a_large_block_is_aligned_and_used_again() {
        // A size that no other test uses.
        let len = 3_333_333;
        let first = PoolBlock::new(len).unwrap();
        assert_eq!(first.data().as_ptr() as usize % ALIGNMENT, 0);
        let address = first.data();
        drop(first);
        assert!(kept() >= len);
        assert_eq!(PoolBlock::new(len).unwrap().data(), address);
    }

    #[test]
    fn sizes_beyond_all_memory_raise_an_error() {
        assert_eq!(PoolBlock::new(usize::MAX / 2).err().map(|e| e.kind()), Some(Kind::Pjrt(RESOURCE_EXHAUSTED)));
    }
}
