//! Separate signal stacks for threads that may read a mapped file.
//!
//! A signal is handled on the stack of the thread, below its stack pointer. While oneDNN multiplies large matrices, that
//! register points to a workspace on the heap, and a signal would overwrite the heap below it. So threads that compute get
//! another stack, on which the handler for missing parts of files runs, and leave the signals of the process, such as a
//! profiler's, to other threads.

#[cfg(target_os = "linux")]
pub(super) use linux::take;
#[cfg(target_os = "linux")]
pub use linux::SignalStacks;

#[cfg(target_os = "macos")]
pub(super) use others::take;
#[cfg(not(target_os = "linux"))]
pub use others::SignalStacks;

#[cfg(target_os = "linux")]
mod linux {
    use super::super::list::List;
    use super::super::sigbus;
    use libc::{c_int, c_void, siginfo_t, stack_t, ucontext_t};
    use std::mem::{offset_of, zeroed};
    use std::ptr::{null, null_mut, NonNull};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// For threads to take their stacks: they only have to wake up, but the system may have others to run.
    const LONGEST_WAIT: Duration = Duration::from_secs(10);

    /// The first signal that the C library keeps for itself.
    const OF_THE_C_LIBRARY: c_int = 32;

    /// Room for the registers, at most 11 kB on known processors, and the handler. Untouched pages take no memory.
    const SIZE: usize = 64 << 10;

    /// A stack. It is reused when its thread has ended, and never freed, since a handler may look at it.
    #[derive(Debug)]
    struct Stack {
        memory: NonNull<c_void>,
        is_used: AtomicBool,
    }

    // SAFETY: the memory is only used by the kernel.
    unsafe impl Send for Stack {}
    // SAFETY: as above.
    unsafe impl Sync for Stack {}

    static STACKS: List<Stack> = List::new();

    /// The stacks of some threads. Drop it when these have ended.
    #[derive(Debug, Default)]
    pub struct SignalStacks(Vec<&'static Stack>);

    impl SignalStacks {
        /// Runs `work`, and gives a stack to each thread that the process has afterwards and did not have before. Those get
        /// it now, and no signals of the process. Without memory, or where the system forbids it, they stay as they are; also
        /// with another library's handler, to which the message would be an invalid access.
        pub fn of_threads_made_by<T>(work: impl FnOnce() -> T) -> (T, SignalStacks) {
            let before = threads();
            // threads inherit what is blocked
            let previous = block_signals();
            let result = work();
            // SAFETY: a mask that the thread has had.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &previous, null_mut()) };
            let mut made = if sigbus::install() { threads() } else { Vec::new() };
            made.retain(|thread| !before.contains(thread));
            let give = |&thread| Stack::new().inspect(|stack| stack.send_to(thread));
            let stacks: Vec<_> = made.iter().map_while(give).collect();
            // Another library may set its handler next.
            let deadline = Instant::now() + LONGEST_WAIT;
            while made.iter().any(|&thread| has_pending(thread)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            (result, SignalStacks(stacks))
        }

        /// Gives this thread a stack, if it has none, and no more signals of the process.
        pub fn of_this_thread() -> SignalStacks {
            block_signals();
            // SAFETY: the place for the answer is valid, and a stack's memory stays.
            let stack = unsafe {
                let mut current: stack_t = zeroed();
                libc::sigaltstack(null(), &mut current);
                let stack = if current.ss_flags & libc::SS_DISABLE != 0 { Stack::new() } else { None };
                stack.inspect(|stack| _ = libc::sigaltstack(&stack.description(), null_mut()))
            };
            SignalStacks(stack.into_iter().collect())
        }
    }

    impl Drop for SignalStacks {
        fn drop(&mut self) {
            self.0.iter().for_each(|stack| stack.is_used.store(false, Ordering::Release));
        }
    }

    impl Stack {
        fn new() -> Option<&'static Stack> {
            if let Some(free) = STACKS.iter().find(|stack| !stack.is_used.swap(true, Ordering::AcqRel)) {
                return Some(free);
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
            // SAFETY: new memory.
            let memory = unsafe { libc::mmap(null_mut(), SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            let memory = NonNull::new(memory).filter(|_| memory != libc::MAP_FAILED)?;
            Some(STACKS.add(Stack { memory, is_used: AtomicBool::new(true) }))
        }

        fn description(&self) -> stack_t {
            stack_t { ss_sp: self.memory.as_ptr(), ss_flags: 0, ss_size: SIZE }
        }

        /// Sends a signal with the address of the stack to a thread of this process, whose handler takes it when the thread
        /// next runs.
        fn send_to(&self, thread: c_int) {
            // SAFETY: the system copies the message; a thread that has ended is an error.
            unsafe {
                let message = Message {
                    signal: libc::SIGBUS,
                    errno: 0,
                    code: libc::SI_QUEUE,
                    padding: 0,
                    process: libc::getpid(),
                    user: libc::getuid(),
                    value: self.memory.as_ptr(),
                    rest: zeroed(),
                };
                libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, libc::SIGBUS, &message);
            }
        }
    }

    /// Blocks the signals that a process can get at any time in this thread, and returns what was blocked before.
    fn block_signals() -> libc::sigset_t {
        const SIGNALS: [c_int; 13] = [
            libc::SIGALRM,
            libc::SIGCHLD,
            libc::SIGCONT,
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGIO,
            libc::SIGPROF,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGVTALRM,
            libc::SIGWINCH,
        ];
        // SAFETY: the sets are valid, and the signals exist.
        unsafe {
            let (mut blocked, mut previous) = (zeroed(), zeroed());
            libc::sigemptyset(&mut blocked);
            for signal in SIGNALS {
                libc::sigaddset(&mut blocked, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut previous);
            previous
        }
    }

    /// What the system calls `siginfo_t`, for a signal that a process sends with a value.
    #[repr(C)]
    struct Message {
        signal: c_int,
        errno: c_int,
        code: c_int,
        padding: c_int,
        process: libc::pid_t,
        user: libc::uid_t,
        value: *mut c_void,
        rest: [u64; 12],
    }

    const _: () = assert!(
        size_of::<Message>() == size_of::<siginfo_t>()
            && offset_of!(Message, process) == 16
            && offset_of!(Message, value) == 24
    );

    fn threads() -> Vec<c_int> {
        let folder = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        folder.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Whether a thread has a message before it, and will take it. A thread that is about to start blocks every signal, also one
    /// that only the C library can block.
    pub(super) fn has_pending(thread: c_int) -> bool {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
        let set = |name| {
            let digits = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            u64::from_str_radix(digits.trim(), 16).unwrap_or_default()
        };
        let has = |set: u64, signal: c_int| set & (1 << (signal - 1)) != 0;
        let blocked = set("SigBlk:");
        has(set("SigPnd:"), libc::SIGBUS) && (!has(blocked, libc::SIGBUS) || has(blocked, OF_THE_C_LIBRARY))
    }

    /// Gives this thread the stack that a signal brings, unless it has one. Returns whether the signal was such a message.
    ///
    /// # Safety
    /// For the arguments of a handler of SIGBUS.
    pub(in super::super) unsafe fn take(info: *mut siginfo_t, context: *mut c_void) -> bool {
        if (*info).si_code != libc::SI_QUEUE || (*info).si_pid() != libc::getpid() {
            return false;
        }
        let memory = (*info).si_value().sival_ptr;
        let Some(stack) = STACKS.iter().find(|stack| stack.memory.as_ptr() == memory) else { return false };
        // The system restores the stack for signals from here.
        let current: &mut stack_t = &mut (*context.cast::<ucontext_t>()).uc_stack;
        if current.ss_flags & libc::SS_DISABLE != 0 {
            *current = stack.description();
        }
        true
    }
}

#[cfg(not(target_os = "linux"))]
mod others {
    #[derive(Debug, Default)]
    pub struct SignalStacks;

    impl SignalStacks {
        pub fn of_threads_made_by<T>(work: impl FnOnce() -> T) -> (T, SignalStacks) {
            (work(), SignalStacks)
        }

        pub fn of_this_thread() -> SignalStacks {
            SignalStacks
        }
    }

    #[cfg(target_os = "macos")]
    pub(in super::super) unsafe fn take(_: *mut libc::siginfo_t, _: *mut libc::c_void) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;
    use std::sync::mpsc::channel;

    /// The size of this thread's stack for signals.
    fn size() -> usize {
        let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: the place for the answer is valid.
        let stack = unsafe {
            assert_eq!(libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr()), 0);
            stack.assume_init()
        };
        if stack.ss_flags & libc::SS_DISABLE != 0 {
            0
        } else {
            stack.ss_size
        }
    }

    /// Whether this thread blocks a signal.
    fn blocks(signal: i32) -> bool {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the place for the answer is valid.
        unsafe {
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()), 0);
            libc::sigismember(set.as_ptr(), signal) == 1
        }
    }

    /// A thread without a stack for signals.
    fn bare_thread(work: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: the thread handles no signal now.
            assert_eq!(unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) }, 0);
            work();
        })
    }

    #[test]
    fn new_threads_get_a_stack_and_others_do_not() {
        let (go, wait) = channel::<()>();
        let (ready, is_ready) = channel::<()>();
        let before = size();
        let (thread, stacks) = SignalStacks::of_threads_made_by(|| {
            let thread = bare_thread(move || {
                ready.send(()).unwrap();
                wait.recv().unwrap();
                assert_eq!(size(), 64 << 10);
            });
            is_ready.recv().unwrap();
            thread
        });
        go.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(size(), before);
        assert!(!blocks(libc::SIGPROF));
        drop(stacks);
    }

    #[test]
    fn a_thread_that_does_not_run_is_awaited() {
        use std::io::{Read, Write};
        use std::os::unix::net::UnixStream;
        use std::sync::atomic::{AtomicBool, Ordering};
        // A thread handles no signal while it waits for a child to start, which is as long as this takes.
        extern "C" fn wait_for_a_byte(end: *mut libc::c_void) -> libc::c_int {
            // SAFETY: the child has a copy of what the thread passes.
            let end = unsafe { &mut *end.cast::<UnixStream>() };
            i32::from(end.read_exact(&mut [0]).is_err())
        }
        let sleep_with_a_child = |mut end: UnixStream| {
            let mut stack = vec![0u8; 64 << 10];
            // SAFETY: the child has a copy of the memory, and ends when the function does.
            unsafe {
                let top = stack.as_mut_ptr().add(stack.len() & !15).cast();
                let flags = libc::CLONE_VFORK | libc::SIGCHLD;
                let child = libc::clone(wait_for_a_byte, top, flags, (&raw mut end).cast());
                assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
            }
        };
        let (end, mut other_end) = UnixStream::pair().unwrap();
        let is_awake = std::sync::Arc::new(AtomicBool::new(false));
        let (threads, _stacks) = SignalStacks::of_threads_made_by(|| {
            let (ready, is_ready) = channel();
            let sleeper = bare_thread(move || {
                // SAFETY: has no conditions.
                ready.send(unsafe { libc::gettid() }).unwrap();
                sleep_with_a_child(end);
            });
            let sleeping = is_ready.recv().unwrap();
            let stat = format!("/proc/self/task/{sleeping}/stat");
            while !std::fs::read_to_string(&stat).unwrap().contains(") D ") {}
            let wakes = is_awake.clone();
            let waker = std::thread::spawn(move || {
                while !linux::has_pending(sleeping) {}
                std::thread::sleep(std::time::Duration::from_millis(50));
                wakes.store(true, Ordering::Release);
                other_end.write_all(b"x").unwrap();
            });
            [sleeper, waker]
        });
        assert!(is_awake.load(Ordering::Acquire));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_thread_that_blocks_a_message_is_awaited_if_it_only_starts() {
        for (only_starts, blocked) in [(true, !0u64), (false, 1 << (libc::SIGBUS - 1))] {
            let (go, wait) = channel::<()>();
            let (ready, is_ready) = channel();
            let thread = bare_thread(move || {
                let set = |how: i32| {
                    // SAFETY: a set of 64 signals, as the system has it.
                    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &blocked, std::ptr::null::<u64>(), 8) }
                };
                assert_eq!(set(libc::SIG_BLOCK), 0);
                // SAFETY: has no conditions; the message goes to this thread.
                unsafe {
                    let own = libc::gettid();
                    assert_eq!(libc::syscall(libc::SYS_tgkill, libc::getpid(), own, libc::SIGBUS), 0);
                    ready.send(own).unwrap();
                }
                wait.recv().unwrap();
                // SAFETY: the sets are valid; takes the signal, which nobody handles.
                unsafe {
                    let mut pending = MaybeUninit::zeroed();
                    libc::sigemptyset(pending.as_mut_ptr());
                    libc::sigaddset(pending.as_mut_ptr(), libc::SIGBUS);
                    assert_eq!(libc::sigwait(pending.as_ptr(), &mut 0), 0);
                }
                assert_eq!(set(libc::SIG_UNBLOCK), 0);
            });
            assert_eq!(linux::has_pending(is_ready.recv().unwrap()), only_starts);
            go.send(()).unwrap();
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_thread_takes_a_stack_itself() {
        let work = || {
            assert_eq!(size(), 0);
            let _stacks = SignalStacks::of_this_thread();
            assert_eq!(size(), 64 << 10);
            assert!(blocks(libc::SIGPROF) && !blocks(libc::SIGBUS));
        };
        bare_thread(work).join().unwrap();
    }
}
