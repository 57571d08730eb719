//! Pages of memory that the system has promised, and gives at their first use.

/// Has the system give the pages of memory that is about to be written, all at once: one at a time, at the first use of each,
/// takes almost twice as long. Memory that is in use stays as it is.
///
/// # Safety
/// The memory must be allocated and writable.
pub unsafe fn populate(data: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    populate_large(data, len);
    #[cfg(not(target_os = "linux"))]
    let _ = (data, len);
}

#[cfg(target_os = "linux")]
unsafe fn populate_large(data: *mut u8, len: usize) {
    // Smaller blocks come from memory that the allocator has used before.
    const LARGE: usize = 1 << 20;
    if len < LARGE {
        return;
    }
    let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
    let skipped = data.align_offset(page);
    let whole = len.saturating_sub(skipped) / page * page;
    // The allocator may have written to the first page, but not to the last.
    let (first, last) = (data.wrapping_add(skipped), data.wrapping_add((skipped + whole).saturating_sub(page)));
    let mut is_here = 0u8;
    if whole > 0 && libc::mincore(last.cast(), page, &mut is_here) == 0 && is_here & 1 == 0 {
        // Older systems refuse it, which changes nothing.
        libc::madvise(first.cast(), whole, libc::MADV_POPULATE_WRITE);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use memmap2::MmapMut;

    #[test]
    fn new_memory_has_all_pages_and_old_memory_stays_as_it_is() {
        const LEN: usize = 8 << 20;
        let new = || MmapMut::map_anon(LEN).unwrap();
        let here = |memory: &mut MmapMut| {
            let mut pages = vec![0u8; LEN / 4096];
            // SAFETY: asks about the mapping's pages, for which there is room.
            assert_eq!(unsafe { libc::mincore(memory.as_mut_ptr().cast(), LEN, pages.as_mut_ptr()) }, 0);
            pages.iter().filter(|&page| page & 1 == 1).count()
        };
        let mut memory = new();
        assert_eq!(here(&mut memory), 0);
        // SAFETY: the mapping's memory.
        let is_known = unsafe { libc::madvise(new().as_mut_ptr().cast(), LEN, libc::MADV_POPULATE_WRITE) } == 0;
        // Not whole pages: the first stays for its first use.
        // SAFETY: as above.
        unsafe { populate(memory.as_mut_ptr().add(1), LEN - 1) };
        // SAFETY: a question.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        assert_eq!(here(&mut memory), if is_known { LEN / page - 1 } else { 0 });
        memory.fill(7);
        // SAFETY: as above.
        unsafe { populate(memory.as_mut_ptr(), LEN) };
        assert!(memory.iter().all(|&byte| byte == 7));
    }
}
