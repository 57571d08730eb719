//! Handles reads of mapped memory that the file no longer has, because the file has shrunk or its disk failed. The
//! system then sends SIGBUS to the thread that reads. This handler supplies zeros and marks the mapping. Signals with
//! any other cause go to the previous handler.

#[cfg(target_os = "linux")]
pub(super) use watched::install;

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) use watched::Guard;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) use unwatched::Guard;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod watched {
    use super::super::list::List;
    use super::super::signal_stacks;
    use libc::{c_int, c_void, sigaction, siginfo_t};
    use std::mem::{transmute, zeroed};
    use std::ptr::null;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::OnceLock;

    /// Addresses of one mapping. The handler may run at any time, so regions are never freed, only reused.
    #[derive(Debug, Default)]
    struct Region {
        /// Odd while the other fields are changed.
        version: AtomicUsize,
        start: AtomicUsize,
        end: AtomicUsize,
        is_used: AtomicBool,
        is_damaged: AtomicBool,
    }

    static REGIONS: List<Region> = List::new();
    static PREVIOUS: OnceLock<sigaction> = OnceLock::new();
    static PAGE: AtomicUsize = AtomicUsize::new(4096);

    /// Watches the memory of a mapping until dropped. Drop it before you unmap the memory.
    #[derive(Debug)]
    pub(crate) struct Guard(&'static Region);

    impl Guard {
        pub(crate) fn new(memory: &[u8]) -> Guard {
            install();
            let (start, len) = (memory.as_ptr() as usize, memory.len());
            let free = REGIONS.iter().find(|region| !region.is_used.swap(true, Ordering::AcqRel));
            let region =
                free.unwrap_or_else(|| REGIONS.add(Region { is_used: AtomicBool::new(true), ..Region::default() }));
            region.is_damaged.store(false, Ordering::Relaxed);
            region.set(start, start + len.next_multiple_of(PAGE.load(Ordering::Relaxed)));
            Guard(region)
        }

        /// Whether a thread read bytes that the file did not have.
        pub(crate) fn is_damaged(&self) -> bool {
            self.0.is_damaged.load(Ordering::Acquire)
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.set(0, 0);
            self.0.is_used.store(false, Ordering::Release);
        }
    }

    impl Region {
        fn set(&self, start: usize, end: usize) {
            self.version.fetch_add(1, Ordering::SeqCst);
            self.start.store(start, Ordering::SeqCst);
            self.end.store(end, Ordering::SeqCst);
            self.version.fetch_add(1, Ordering::SeqCst);
        }

        /// Where the region ends, if it holds this address.
        fn end_after(&self, address: usize) -> Option<usize> {
            let version = self.version.load(Ordering::SeqCst);
            let (start, end) = (self.start.load(Ordering::SeqCst), self.end.load(Ordering::SeqCst));
            let is_stable = version % 2 == 0 && version == self.version.load(Ordering::SeqCst);
            // A region that is being changed belongs to no mapping that a thread could read.
            (is_stable && (start..end).contains(&address)).then_some(end)
        }
    }

    /// Sets the handler, once. Returns whether it is still the current one: another library may have set its own since.
    pub(crate) fn install() -> bool {
        PREVIOUS.get_or_init(|| {
            // SAFETY: the handler keeps to what a handler may do, and passes on what is not for it.
            unsafe {
                PAGE.store(libc::sysconf(libc::_SC_PAGESIZE).max(4096) as usize, Ordering::Relaxed);
                let mut ours: sigaction = zeroed();
                ours.sa_sigaction = on_bus_error as *const () as usize;
                ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut previous: sigaction = zeroed();
                sigaction(libc::SIGBUS, &ours, &mut previous);
                previous
            }
        });
        // SAFETY: the place for the answer is valid.
        unsafe {
            let mut current: sigaction = zeroed();
            sigaction(libc::SIGBUS, null(), &mut current) == 0
                && current.sa_sigaction == on_bus_error as *const () as usize
        }
    }

    unsafe extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // A signal that a process sent has no address.
        let is_replaced = (*info).si_code > 0 && replace((*info).si_addr() as usize);
        if !is_replaced && !signal_stacks::take(info, context) {
            pass_on(signal, info, context);
        }
    }

    /// Maps zeros from the page of this address to the end of its mapping: a file that has shrunk has no data there.
    unsafe fn replace(address: usize) -> bool {
        let holds = |region: &'static Region| region.end_after(address).map(|end| (region, end));
        let Some((region, end)) = REGIONS.iter().find_map(holds) else { return false };
        region.is_damaged.store(true, Ordering::Release);
        let page = address & !(PAGE.load(Ordering::Relaxed) - 1);
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANON;
        libc::mmap(page as *mut c_void, end - page, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED
    }

    unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        let (action, flags) = PREVIOUS.get().map_or((libc::SIG_DFL, 0), |old| (old.sa_sigaction, old.sa_flags));
        if action == libc::SIG_IGN && (*info).si_code <= 0 {
            return;
        }
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        } else if flags & libc::SA_SIGINFO != 0 {
            transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(action)(signal, info, context);
        } else {
            transmute::<usize, extern "C" fn(c_int)>(action)(signal);
        }
    }
}

/// Systems on which mapped files cannot shrink, or which send no signal.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod unwatched {
    #[derive(Debug)]
    pub(crate) struct Guard;

    impl Guard {
        pub(crate) fn new(_: &[u8]) -> Guard {
            Guard
        }

        pub(crate) fn is_damaged(&self) -> bool {
            false
        }
    }
}
