//! The process of a helper.

use crate::apart::protocol::{self, Answer, Request, Setup};
use pjrt_base::error::{Error, Kind};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A helper, which is killed when dropped in the process that has started it.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    stream: Stream,
    /// What it writes to its standard error: a file without a name.
    log: File,
    generation: u32,
}

impl Helper {
    /// Starts a helper with this environment. It is in a process group of its own: Ctrl-C of a terminal does not reach it.
    pub fn start(program: &Path, environment: &[(OsString, OsString)], setup: &Setup) -> io::Result<Helper> {
        let log = log_file()?;
        let (stream, theirs) = UnixStream::pair()?;
        silence(&stream)?;
        let child = Command::new(program)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(OwnedFd::from(theirs))
            .stderr(log.try_clone()?)
            .stdout(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        let generation = pjrt_base::process::generation();
        let mut helper = Helper { child, stream: Stream(stream), log, generation };
        // If it has ended already, the first request reports why.
        let _ = protocol::write(&mut helper.stream, setup);
        Ok(helper)
    }

    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.is_own() && matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        protocol::write(&mut self.stream, request)?;
        protocol::read(&mut self.stream)
    }

    /// Passes what it has written on to this process's standard error, or forgets it.
    pub fn flush_log(&mut self, shows: bool) {
        if self.log.metadata().map_or(0, |log| log.len()) == 0 {
            return;
        }
        if shows {
            self.show_log();
        }
        // The helper appends, so it continues at the start.
        let _ = self.log.set_len(0);
    }

    /// Passes what it has written on to this process's standard error.
    pub fn show_log(&mut self) {
        // Nothing can be done about a standard error that is closed.
        let _ = self.read_log().and_then(|written| io::stderr().write_all(&written));
    }

    /// What it has written, as text.
    pub fn written(&mut self) -> String {
        self.read_log().map_or_else(|_| String::new(), |written| String::from_utf8_lossy(&written).into_owned())
    }

    fn read_log(&mut self) -> io::Result<Vec<u8>> {
        let mut written = Vec::new();
        self.log.rewind()?;
        self.log.read_to_end(&mut written)?;
        Ok(written)
    }

    /// Waits for its end, which its closed socket has announced, or makes it end. Returns the error that says how.
    pub fn end(mut self) -> Error {
        let status = self.stop();
        crashed(status, &self.last_lines().unwrap_or_default())
    }

    fn stop(&mut self) -> Option<ExitStatus> {
        if !self.is_own() {
            return None;
        }
        // Its socket closes before it has ended. Only a helper that goes on for long is killed.
        for _ in 0..200 {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => std::thread::sleep(std::time::Duration::from_millis(5)),
                // Somebody else has waited for it.
                Err(_) => return None,
            }
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }

    /// Whether this process has started it: a fork of that process has a copy.
    fn is_own(&self) -> bool {
        self.generation == pjrt_base::process::generation()
    }

    /// What it wrote last, without empty lines.
    fn last_lines(&mut self) -> io::Result<Vec<String>> {
        const LINES: usize = 10;
        const BYTES: u64 = 16 << 10;
        let length = self.log.metadata()?.len();
        self.log.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut written = Vec::new();
        self.log.read_to_end(&mut written)?;
        let text = String::from_utf8_lossy(&written);
        let mut lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let lines = lines.split_off(lines.len().saturating_sub(LINES));
        Ok(lines.into_iter().map(str::to_owned).collect())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if self.is_own() {
            // It may have ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The error for a helper that has ended by itself.
#[cold]
fn crashed(status: Option<ExitStatus>, last_lines: &[String]) -> Error {
    let signal = status.and_then(|status| status.signal());
    let how = match (signal, status.and_then(|status| status.code())) {
        (Some(signal), _) => format!("signal {signal}{}", signal_name(signal)),
        (_, Some(status)) => format!("exit status {status}"),
        _ => "an unknown status".into(),
    };
    let mut error = Error::new(Kind::CompilerCrashed, format!("The compiler crashed ({how})."));
    if signal == Some(libc::SIGKILL) {
        error = error.hint("It was killed, perhaps by the system because memory ran out.");
    }
    if !last_lines.is_empty() {
        error = error.hint(format!("Its last lines:\n{}", last_lines.join("\n")));
    }
    error
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => ", SIGABRT: it aborted",
        libc::SIGBUS => ", SIGBUS: an invalid access to memory",
        libc::SIGFPE => ", SIGFPE: an arithmetic error",
        libc::SIGILL => ", SIGILL: an invalid instruction",
        libc::SIGKILL => ", SIGKILL",
        libc::SIGSEGV => ", SIGSEGV: an invalid access to memory, or no more stack",
        libc::SIGTERM => ", SIGTERM",
        _ => "",
    }
}

/// A socket whose other side may be gone: a write must not raise SIGPIPE, which the host handles.
#[derive(Debug)]
struct Stream(UnixStream);

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const FLAGS: i32 = libc::MSG_NOSIGNAL;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const FLAGS: i32 = 0;
        // SAFETY: the bytes are readable, and the socket is open.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), FLAGS) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same on systems without a flag for it.
fn silence(stream: &UnixStream) -> io::Result<()> {
    #[cfg(target_os = "macos")]
    {
        let on: libc::c_int = 1;
        // SAFETY: sets an option of an open socket.
        let set = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NOSIGPIPE,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        ensure!(set == 0, io::Error::last_os_error());
    }
    let _ = stream;
    Ok(())
}

/// A file without a name, to which others append.
fn log_file() -> io::Result<File> {
    let file = nameless_file()?;
    // SAFETY: sets a flag of an open file.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_APPEND) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

#[cfg(target_os = "linux")]
fn nameless_file() -> io::Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name ends with a NUL.
    let file = unsafe { libc::memfd_create(c"pjrt-compiler".as_ptr(), libc::MFD_CLOEXEC) };
    ensure!(file >= 0, io::Error::last_os_error());
    // SAFETY: a new file, which nobody else has.
    Ok(unsafe { File::from_raw_fd(file) })
}

#[cfg(not(target_os = "linux"))]
fn nameless_file() -> io::Result<File> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("pjrt-compiler-{}-{number}", std::process::id()));
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
