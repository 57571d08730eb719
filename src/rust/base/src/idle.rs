//! Wakes the host's thread while it idles in an event loop: a pipe that the host's own loop watches, and a function of
//! another loop, if there is one.

use crate::process;
use std::ffi::c_int;
use std::sync::Mutex;

/// Makes an event loop, given by its number, call the host soon. Any thread may call this.
pub type Scheduler = fn(c_int);

/// The number of the event loop that runs by default.
const MAIN_LOOP: c_int = 0;

#[derive(Debug)]
struct WakePipe {
    /// The ends for reading and writing.
    pipe: Option<(c_int, c_int)>,
    /// The pipe holds a byte that the host has not read.
    is_woken: bool,
    scheduler: Option<Scheduler>,
    is_ended: bool,
    /// The child of a fork shares its parent's pipe, and must neither read nor write it.
    generation: u32,
}

static STATE: Mutex<WakePipe> =
    Mutex::new(WakePipe { pipe: None, is_woken: false, scheduler: None, is_ended: false, generation: 0 });

/// Opens the pipe of this process, and returns its end for reading, for the host's loop to watch. `None` if it is open
/// already, and where the system has none. After [`end`], the host is woken again.
pub fn open() -> Option<c_int> {
    let mut state = process::lock(&STATE)?;
    state.leave_parents();
    state.is_ended = false;
    if state.pipe.is_some() {
        return None;
    }
    state.pipe = Some(new_pipe()?);
    state.pipe.map(|(read, _)| read)
}

/// Whether this descriptor is the end for reading of this process.
pub fn is_open(read: c_int) -> bool {
    process::lock(&STATE).is_some_and(|mut state| {
        state.leave_parents();
        state.pipe.is_some_and(|(ours, _)| ours == read)
    })
}

pub fn set_scheduler(scheduler: Option<Scheduler>) {
    if let Some(mut state) = process::lock(&STATE) {
        state.scheduler = scheduler;
        // What came before the loop is for its first run.
        if let (Some(schedule), true) = (scheduler, state.is_woken) {
            schedule(MAIN_LOOP);
        }
    }
}

/// Wakes the host's thread, which idles in its own loop or the one with this number. Any thread may call this.
pub fn wake(number: c_int) {
    let Some(mut state) = process::lock(&STATE) else { return };
    state.leave_parents();
    if state.is_ended {
        return;
    }
    if let (Some((_, write)), false) = (state.pipe, state.is_woken) {
        state.is_woken = write_byte(write);
    }
    // Under the lock, so that none is called after the end.
    if let Some(schedule) = state.scheduler {
        schedule(number);
    }
}

/// Notes that the host is awake. It calls this before it looks for work.
pub fn note_awake() {
    let Some(mut state) = process::lock(&STATE) else { return };
    state.leave_parents();
    if let (Some((read, _)), true) = (state.pipe, state.is_woken) {
        state.is_woken = !read_byte(read);
    }
}

/// Wakes nobody from now on: the session ends.
pub fn end() {
    if let Some(mut state) = process::lock(&STATE) {
        state.is_ended = true;
    }
}

impl WakePipe {
    fn leave_parents(&mut self) {
        let generation = process::generation();
        if self.generation != generation {
            (self.pipe, self.is_woken, self.generation) = (None, false, generation);
        }
    }
}

/// A pipe that other programs do not inherit, and that never blocks.
#[cfg(unix)]
fn new_pipe() -> Option<(c_int, c_int)> {
    let mut ends = [-1; 2];
    // SAFETY: there is room for both ends.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return None;
    }
    for end in ends {
        // SAFETY: sets flags of our own descriptors. No thread may be forking and running another program in between.
        unsafe {
            libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
            libc::fcntl(end, libc::F_SETFL, libc::fcntl(end, libc::F_GETFL) | libc::O_NONBLOCK);
        }
    }
    // Hosts watch descriptors with select(), which cannot take higher ones.
    if ends[0] >= libc::FD_SETSIZE as c_int {
        for end in ends {
            // SAFETY: our own descriptor, which nobody knows.
            unsafe { libc::close(end) };
        }
        return None;
    }
    Some((ends[0], ends[1]))
}

#[cfg(not(unix))]
fn new_pipe() -> Option<(c_int, c_int)> {
    None
}

#[cfg(unix)]
fn write_byte(end: c_int) -> bool {
    // SAFETY: our own descriptor, and one byte.
    unsafe { libc::write(end, [0u8].as_ptr().cast(), 1) == 1 }
}

#[cfg(unix)]
fn read_byte(end: c_int) -> bool {
    let mut byte = [0u8];
    // SAFETY: our own descriptor, and room for one byte.
    unsafe { libc::read(end, byte.as_mut_ptr().cast(), 1) == 1 }
}

#[cfg(not(unix))]
fn write_byte(_: c_int) -> bool {
    false
}

#[cfg(not(unix))]
fn read_byte(_: c_int) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, Ordering};

    fn has_byte(read: c_int) -> bool {
        let mut poll = libc::pollfd { fd: read, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, and no time.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn a_host_is_woken_once_until_it_is_awake_and_not_after_the_end() {
        static SCHEDULED: AtomicI32 = AtomicI32::new(0);
        wake(0);
        let read = open().unwrap();
        assert!(open().is_none() && is_open(read) && !is_open(read + 1));
        assert!(!has_byte(read));
        set_scheduler(Some(|number| {
            SCHEDULED.fetch_add(number, Ordering::Relaxed);
        }));
        std::thread::scope(|scope| (0..10).for_each(|_| drop(scope.spawn(|| wake(7)))));
        assert!(has_byte(read));
        assert_eq!(SCHEDULED.load(Ordering::Relaxed), 70);
        note_awake();
        assert!(!has_byte(read));
        note_awake();
        set_scheduler(None);
        wake(7);
        assert!(has_byte(read));
        note_awake();
        end();
        wake(7);
        assert!(!has_byte(read));
        assert!(open().is_none());
        wake(7);
        assert!(has_byte(read));
    }
}
