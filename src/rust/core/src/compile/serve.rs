//! The helper's side of compilation: answers requests until its socket, the standard input, closes.

use crate::apart::protocol::{self, Answer, Request, Setup};
use crate::client::Client;
use crate::compile::{FIRST_COMPILE, STACK};
use crate::executable::apart::answer;
use crate::runtime::plugin::Plugin;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED};
use pjrt_base::room;
use pjrt_base::sync::Unpoisoned;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How many milliseconds a helper waits for the next program before it returns memory to the system.
const REST: i32 = 200;

/// The interval between looks at a limited compiler.
const PAUSE: Duration = Duration::from_millis(10);

/// Serves the process at the other end of the standard input until it ends. Returns if the standard input is not a socket.
///
/// # Safety
/// No other thread runs: the files that the process has inherited are closed.
pub unsafe fn serve() {
    if !is_socket() {
        return;
    }
    prepare();
    let Ok(stream) = take_input() else { leave(2) };
    let parent = parent_id();
    let Ok(reader) = stream.try_clone() else { leave(2) };
    // A compiler may overflow its stack; a thread's is as large as is asked for.
    let Ok(_worker) = Builder::new().name("pjrt-compile".into()).stack_size(STACK).spawn(|| {
        // Only an error ends it.
        let _ = work(reader);
        leave(0);
    }) else {
        leave(2)
    };
    watch(&stream, parent)
}

/// Ends with its parent, whether or not a compiler works. A fork of the parent may keep the socket open.
fn watch(stream: &UnixStream, parent: u32) -> ! {
    const SECOND: i32 = 1000;
    loop {
        #[cfg(target_os = "linux")]
        const HANGUP: i16 = libc::POLLRDHUP;
        #[cfg(not(target_os = "linux"))]
        const HANGUP: i16 = 0;
        if poll(stream, HANGUP, SECOND) > 0 || parent_id() != parent {
            leave(0);
        }
    }
}

/// Ends the process at once: a plugin's exit handlers may wait for its threads.
fn leave(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Answers one request after the other.
fn work(mut stream: UnixStream) -> io::Result<()> {
    let setup: Setup = protocol::read(&mut stream)?;
    let output = Arc::new(Mutex::new(stream.try_clone()?));
    let client = create(&setup);
    loop {
        if poll(&stream, libc::POLLIN, REST) == 0 {
            // Returns memory that the compiler has freed to the system.
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            // SAFETY: has no preconditions.
            unsafe {
                libc::malloc_trim(0);
            }
        }
        let request: Request = protocol::read(&mut stream)?;
        // The folder may be gone; then relative paths mean what they meant before.
        let _ = std::env::set_current_dir(request.folder());
        let limit = limit(&request, &output);
        let is_possible = room::check_address_space(FIRST_COMPILE, "to compile");
        let answer = match client.as_ref().and_then(|client| is_possible.as_ref().map(|()| client)) {
            Ok(client) => answer(client, &request),
            Err(error) => Answer { failure: Some(error.into()), is_last: true, ..Default::default() },
        };
        drop(limit);
        protocol::write(&mut *output.lock().unpoisoned(), &answer)?;
    }
}

/// Address space that a plugin and its client need; without it, it may end the process.
const PLUGIN: usize = 640 << 20;

fn create(setup: &Setup) -> Result<Client> {
    room::check_address_space(PLUGIN, "to start the compiler")?;
    Client::create(Plugin::load(&setup.plugin())?, &setup.options())
}

/// The number of streams, 1 or 0, on which something happens within this time; negative for an error.
fn poll(stream: &UnixStream, events: i16, milliseconds: i32) -> i32 {
    let mut polled = libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 };
    // SAFETY: one entry is passed.
    unsafe { libc::poll(&mut polled, 1, milliseconds) }
}

/// Ends the process with an answer once the compiler takes more than it may, until the returned value is dropped.
fn limit(request: &Request, output: &Arc<Mutex<UnixStream>>) -> Option<Sender<()>> {
    if request.memory == 0 && request.milliseconds == 0 {
        return None;
    }
    let ((limit, is_over), output) = (channel(), output.clone());
    let (start, memory, milliseconds) = (Instant::now(), request.memory, request.milliseconds);
    let watch = move || loop {
        if let Some(error) = exceeded(memory, milliseconds, start) {
            let mut output = output.lock().unpoisoned();
            if is_over.try_recv() == Err(TryRecvError::Empty) {
                let answer = Answer { failure: Some((&error).into()), is_last: true, ..Default::default() };
                // If nobody reads it, nobody needs it.
                let _ = protocol::write(&mut *output, &answer);
                leave(0);
            }
        }
        if is_over.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    };
    // Without a thread there is no limit.
    let _ = Builder::new().name("pjrt-limit".into()).spawn(watch);
    Some(limit)
}

fn exceeded(memory: u64, milliseconds: u64, start: Instant) -> Option<Error> {
    if milliseconds > 0 && start.elapsed() > Duration::from_millis(milliseconds) {
        let message = format!("The compiler took longer than {} seconds, its limit.", milliseconds as f64 / 1000.0);
        return Some(Error::new(Kind::Pjrt(DEADLINE_EXCEEDED), message));
    }
    let used = resident_bytes()?;
    if memory > 0 && used > memory {
        let message =
            format!("The compiler needs more than {} of memory, its limit.", counted(memory as usize, "byte"));
        return Some(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message));
    }
    None
}

/// The resident memory of this process; `None` if the system does not tell.
fn resident_bytes() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page).ok()?)
}

/// Makes the process independent of its parent's signals and files, and its crash quick.
///
/// # Safety
/// No other thread runs.
unsafe fn prepare() {
    let mut all = std::mem::zeroed();
    libc::sigemptyset(&mut all);
    // A thread that blocks signals may have started this process.
    libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    // Its log may exceed the limit of files (`ulimit -f`): then the rest of the log is lost.
    libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    libc::setrlimit(libc::RLIMIT_CORE, &none);
    // If memory runs out, the system ends this process first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    close_inherited();
}

/// Closes all files but the standard ones: a pipe that the parent has given others must close when these do.
unsafe fn close_inherited() {
    #[cfg(target_os = "linux")]
    {
        if libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) == 0 {
            return;
        }
    }
    let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(3, 65_536) as i32;
    for file in 3..most {
        libc::close(file);
    }
}

/// Whether the standard input is a socket.
fn is_socket() -> bool {
    let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    input.and_then(|input| input.metadata()).is_ok_and(|about| about.file_type().is_socket())
}

/// The standard input as a socket; nothing else reads it from now on.
fn take_input() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let empty = File::open("/dev/null")?;
    // SAFETY: the standard input becomes empty; nothing reads it.
    ensure!(unsafe { libc::dup2(empty.as_raw_fd(), 0) } >= 0, io::Error::last_os_error());
    Ok(socket.into())
}
