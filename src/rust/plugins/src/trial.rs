//! Processes that try a plugin.

use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process::check_interrupt;
use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The status of a process that was ended because its time was up, as of the command `timeout`.
pub const TIME_IS_UP: i32 = 124;

/// How long to wait between looks at the process.
const PAUSE: Duration = Duration::from_millis(20);

/// A process that does not outlive this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // If all went well, it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command until it ends, at most for `limit`, with its output in the file `log`: the status, as shells tell it.
///
/// # Errors
/// `Io` if it cannot be started, and `Interrupted` if the user interrupts, which ends it.
pub fn run(command: &mut Command, log: &str, limit: Duration) -> Result<i32> {
    let unwritable = |error| Error::new(Kind::Io, format!("Cannot write '{log}': {error}."));
    let file = File::create(log).map_err(unwritable)?;
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(unwritable)?).stderr(file);
    // Ctrl-C of a terminal reaches only this process, which ends the other.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let started = command.spawn();
    let failed = |error| Error::new(Kind::Io, format!("Cannot run {:?}: {error}.", command.get_program()));
    let mut running = Running(started.map_err(failed)?);
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = running.0.try_wait().map_err(failed)? {
            return Ok(number(status));
        }
        if Instant::now() >= end {
            return Ok(TIME_IS_UP);
        }
        std::thread::sleep(PAUSE);
        check_interrupt()?;
    }
}

fn number(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn status_of(script: &str, limit: Duration) -> (i32, String) {
        let log = std::env::temp_dir().join(format!("pjrt-trial-{}-{}", std::process::id(), script.len()));
        let status = run(Command::new("sh").args(["-c", script]), log.to_str().unwrap(), limit).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        (status, text)
    }

    #[test]
    fn a_process_ends_by_itself_by_a_signal_or_after_its_limit() {
        let long = Duration::from_secs(600);
        assert_eq!(status_of("echo out; echo err >&2; exit 3", long), (3, "out\nerr\n".into()));
        assert_eq!(status_of("kill -9 $$", long), (137, String::new()));
        assert_eq!(status_of("exec sleep 1000", Duration::from_millis(50)), (TIME_IS_UP, String::new()));
    }

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let log = std::env::temp_dir().join(format!("pjrt-trial-{}", std::process::id()));
        let error = run(&mut Command::new("/no/such/program"), log.to_str().unwrap(), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("Cannot run \"/no/such/program\""), "{error}");
        std::fs::remove_file(&log).unwrap();
    }
}
