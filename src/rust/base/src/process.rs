//! Events of the process: fork, exit, and a user who interrupts a wait.

use crate::callbacks;
use crate::console;
use crate::error::{Error, Kind, Result};
use crate::reason::Reason;
use crate::sync::Unpoisoned;
use crate::trace;
use std::cell::Cell;
#[cfg(unix)]
use std::ffi::c_int;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// Counts forks: one higher in a child than in its parent. Objects remember the value from their creation.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Whether the user interrupted a wait for work that may still go on.
static IS_UNWANTED: AtomicBool = AtomicBool::new(false);

/// The interval between checks for interrupts: long enough that the checks cost nothing noticeable.
const PAUSE: Duration = Duration::from_millis(20);

/// From this time on, a wait is long.
const LONG: Duration = Duration::from_secs(2);

thread_local! {
    static LONG_WAIT: Cell<Option<ShowWait>> = const { Cell::new(None) };
    static INTERRUPT_POLL: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    /// When the poll was last called.
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The number of forks between the first process and this one.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// The error for an object that was created before a fork.
#[cold]
pub fn forked() -> Error {
    Error::new(
        Kind::Forked,
        "This process is a fork of one that used a client; the device runtime does not survive fork().",
    )
    .hint(Reason::Forked)
}

/// Data behind a mutex that its holders release at once. `None` if waiting for it might never end: in the child of a
/// fork that happened while another thread held it.
pub fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    if generation() == 0 {
        return Some(mutex.lock().unpoisoned());
    }
    for _ in 0..1000 {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// Lets waits on this thread end early: `poll` is called about every 50 ms and returns true if the user interrupts.
pub fn set_interrupt_poll(poll: fn() -> bool) {
    INTERRUPT_POLL.set(Some(poll));
}

/// Calls this thread's poll, and writes what programs have printed.
///
/// # Errors
/// `Interrupted` if the user interrupts.
pub fn check_interrupt() -> Result<()> {
    ASKED.set(Some(Instant::now()));
    match INTERRUPT_POLL.get() {
        Some(poll) if console::flush().is_err() || poll() => {
            IS_UNWANTED.store(true, Ordering::Relaxed);
            Err(Error::new(Kind::Interrupted, "Interrupted."))
        }
        _ => Ok(()),
    }
}

/// Calls this thread's poll unless it was called in the last 20 milliseconds. For many short waits or pieces of work.
///
/// # Errors
/// As [`check_interrupt`].
pub fn check_interrupt_sometimes() -> Result<()> {
    let asked = ASKED.get().unwrap_or_else(Instant::now);
    ASKED.set(Some(asked));
    if asked.elapsed() < PAUSE {
        return Ok(());
    }
    check_interrupt()
}

/// Shows how long a wait has lasted; `None` when it is over. Returns false if the user interrupts.
pub type ShowWait = fn(Option<Duration>) -> bool;

/// Lets long waits of this thread be shown.
pub fn set_wait_display(show: ShowWait) {
    LONG_WAIT.set(Some(show));
}

/// A wait of this thread, which is shown once it is long. Costs nothing before the first slice of it has passed.
#[derive(Default)]
pub struct ShownWait {
    start: Option<Instant>,
    is_shown: bool,
}

impl ShownWait {
    /// Called in a wait now and then.
    ///
    /// # Errors
    /// `Interrupted` if the user interrupts.
    pub fn goes_on(&mut self) -> Result<()> {
        let elapsed = self.start.get_or_insert_with(Instant::now).elapsed();
        let Some(show) = LONG_WAIT.get().filter(|_| elapsed >= LONG) else { return Ok(()) };
        self.is_shown = true;
        if show(Some(elapsed)) {
            return Ok(());
        }
        IS_UNWANTED.store(true, Ordering::Relaxed);
        Err(Error::new(Kind::Interrupted, "Interrupted."))
    }
}

impl Drop for ShownWait {
    fn drop(&mut self) {
        if let Some(show) = LONG_WAIT.get().filter(|_| self.is_shown) {
            show(None);
        }
    }
}

/// Makes the host see an interrupt that ended a call of ours.
pub fn interrupt_again() {
    #[cfg(unix)]
    // SAFETY: the host has a handler for this signal, which it has just used.
    unsafe {
        libc::raise(libc::SIGINT);
    }
}

/// Does `work`, which may be long, without calls of this thread's poll: for code that a plugin calls.
pub fn without_poll<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(Option<fn() -> bool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INTERRUPT_POLL.set(self.0);
        }
    }
    let _restore = Restore(INTERRUPT_POLL.take());
    work()
}

/// How long the end of the process waits for compilations and launched programs: some seconds, or almost no time after
/// the user has interrupted a wait.
pub struct ExitDeadline(Instant);

impl ExitDeadline {
    pub fn start() -> Self {
        ExitDeadline(Instant::now())
    }

    /// The same for the end of the process, where the host looks for interrupts no longer.
    pub fn at_end() -> Self {
        #[cfg(unix)]
        {
            extern "C" fn note(_: c_int) {
                IS_UNWANTED.store(true, Ordering::Relaxed);
            }
            // SAFETY: the handler only touches an atomic. A process that ignores the signal goes on to do so.
            unsafe {
                if libc::signal(libc::SIGINT, note as *const () as libc::sighandler_t) == libc::SIG_IGN {
                    libc::signal(libc::SIGINT, libc::SIG_IGN);
                }
            }
        }
        Self::start()
    }

    /// Calls `is_over` with a waiting time until it returns true or the time is up. Returns whether it returned true.
    pub fn until(&self, is_over: impl Fn(Duration) -> bool) -> bool {
        const MOST: Duration = Duration::from_secs(10);
        const LEAST: Duration = Duration::from_millis(100);
        loop {
            if is_over(PAUSE) {
                return true;
            }
            // The closure records the answer there.
            let _ = check_interrupt();
            let limit = if IS_UNWANTED.load(Ordering::Relaxed) { LEAST } else { MOST };
            if self.0.elapsed() >= limit {
                return false;
            }
        }
    }
}

/// The process's limit of a resource, such as `RLIMIT_AS`; `None` if it is unknown.
#[cfg(unix)]
macro_rules! limit_of {
    ($resource:ident) => {{
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: fills the struct.
        let is_told = unsafe { libc::getrlimit(libc::$resource, &mut limit) } == 0;
        is_told.then_some(limit.rlim_cur)
    }};
}
#[cfg(unix)]
pub(crate) use limit_of;

/// Keeps the library or program that has code at this address in memory until the process ends, even if others close
/// it.
pub fn keep_library_of(code: usize) {
    #[cfg(unix)]
    // SAFETY: the loader is asked about an address and a name of its own; where it fails, all is as it would be without.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(code as *const c_void, &mut found) != 0 {
            libc::dlopen(found.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
    #[cfg(windows)]
    {
        const FROM_ADDRESS_FOR_EVER: u32 = 0x4 | 0x1;
        extern "system" {
            fn GetModuleHandleExW(flags: u32, code: *const c_void, module: *mut *mut c_void) -> i32;
        }
        let mut module = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe { GetModuleHandleExW(FROM_ADDRESS_FOR_EVER, code as *const c_void, &mut module) };
    }
}

/// Whether this address is in memory with code; `None` if the system does not tell.
pub fn is_code(address: usize) -> Option<bool> {
    #[cfg(target_os = "linux")]
    {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        // "7f00-8000 r-xp …"
        let is_executable = |line: &str| {
            let (from, rest) = line.split_once('-')?;
            let (to, rest) = rest.split_once(' ')?;
            let range = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
            Some(range.contains(&address) && rest.as_bytes().get(2) == Some(&b'x'))
        };
        Some(maps.lines().any(|line| is_executable(line) == Some(true)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = address;
        None
    }
}

/// Watches for forks from now on. Called before the first plugin is used.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        trace::end_in_child();
    }
    #[cfg(unix)]
    // SAFETY: registers a handler that only touches an atomic.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    #[cfg(not(unix))]
    let _ = (&ONCE, in_child as extern "C" fn());
}

/// What runs at exit: `close` of [`watch_exit`] and `ending` of [`watch_ending`].
static AT_EXIT: OnceLock<fn()> = OnceLock::new();
static ENDING: OnceLock<fn(Option<i32>)> = OnceLock::new();

/// Registers `close`, always the first function given, to run when the process exits, before the plugin's own exit
/// handlers.
///
/// Handlers run in reverse order of registration, and a plugin registers its own while it works. So call this after
/// each step that may have registered one; running `close` twice is harmless. The C library keeps some bytes for each
/// call until the process ends.
pub fn watch_exit(close: fn()) {
    AT_EXIT.get_or_init(|| close);
    register_exit();
}

/// Registers `ending`, always the first function given, to run when the process exits, before `close` of [`watch_exit`]. It
/// gets the exit status on C libraries that pass it to handlers, and may be called again.
pub fn watch_ending(ending: fn(Option<i32>)) {
    ENDING.get_or_init(|| ending);
    register_exit();
}

fn register_exit() {
    // The thread's storage may be gone. A panic must not reach C: the process goes on ending.
    fn at_exit(status: Option<i32>) {
        let _ = std::panic::catch_unwind(|| {
            INTERRUPT_POLL.set(None);
            callbacks::end();
            console::end();
            if let Some(ending) = ENDING.get() {
                ending(status);
            }
        });
        if let Some(close) = AT_EXIT.get() {
            let _ = std::panic::catch_unwind(close);
        }
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        extern "C" fn with_status(status: c_int, _: *mut c_void) {
            at_exit(Some(status));
        }
        // SAFETY: registers a handler; failing to (no memory) leaves exit as it would be without.
        unsafe { on_exit(with_status, std::ptr::null_mut()) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    {
        extern "C" fn without_status() {
            at_exit(None);
        }
        // SAFETY: as above.
        unsafe {
            libc::atexit(without_status);
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
extern "C" {
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Ends the process at once with this status: without exit handlers, but with what its streams hold.
pub fn leave(status: i32) -> ! {
    // SAFETY: writes out what streams hold, and ends the process.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(status);
    }
}

/// Makes the process end without the exit handlers and destructors of its libraries, because a thread that cannot be
/// stopped still uses one of them. Only on C libraries that pass the exit status to handlers.
pub fn skip_exit_handlers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        extern "C" fn leave_with(status: c_int, _: *mut c_void) {
            leave(status);
        }
        // SAFETY: registers a handler, which runs before all others, being the last; failing to leaves exit as it would be without.
        unsafe { on_exit(leave_with, std::ptr::null_mut()) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn code_is_distinguished_from_data() {
        let data = Box::new(1);
        assert_eq!(is_code(watch_forks as *const () as usize), Some(true));
        assert_eq!([&raw const *data as usize, 1, usize::MAX].map(is_code), [Some(false); 3]);
    }

    #[test]
    fn a_fork_does_not_wait_for_a_thread_that_it_does_not_have() {
        watch_forks();
        let (held, free) = (Mutex::new(1), Mutex::new(2));
        let guard = lock(&held);
        // SAFETY: the child calls nothing that another thread may have been in the middle of.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = lock(&held).is_none() && lock(&free).is_some_and(|value| *value == 2);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        drop(guard);
        let mut status = -1;
        // SAFETY: waits for the child that was made above.
        let mut wait = || unsafe { libc::waitpid(child, &mut status, 0) };
        // Another test's signal may end a wait.
        while wait() != child {
            assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::Interrupted);
        }
        assert_eq!(status, 0);
        assert_eq!(lock(&held).map(|value| *value), Some(1));
    }
}
