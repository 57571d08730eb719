//! Asks the machine's own pip for the index it uses: pip's help names it as the default of `--index-url`.

use super::watch::{Watch, SLICE};
use pjrt_base::error::Result;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The commands that may run pip, in order of preference.
pub(super) const COMMANDS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip"]];
/// How long to wait for all of them.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// The index that pip uses, by the first of these commands whose help names one within this time.
///
/// # Errors
/// `Interrupted` if the caller cancels the work.
pub(super) fn index_of(commands: &[&[&str]], limit: Duration, watch: &mut Watch<'_>) -> Result<Option<String>> {
    let end = Instant::now() + limit;
    // R sets the library path for its own libraries, which could start the wrong Python.
    for keep_library_path in [false, true] {
        for command in commands {
            if Instant::now() >= end {
                return Ok(None);
            }
            if let Some(url) = help(command, keep_library_path, end, watch)?.as_deref().and_then(parse_help) {
                return Ok(Some(url));
            }
        }
    }
    Ok(None)
}

/// The default of `--index-url` in pip's help: `(default <url>)`, anywhere in the option's text and split over any
/// number of lines.
pub(super) fn parse_help(help: &str) -> Option<String> {
    let option = help.split_once("--index-url")?.1;
    let default = option.split_once("(default")?.1.split_once(')')?.0;
    let url: String = default.trim_start_matches(':').split_whitespace().collect();
    url.contains("://").then_some(url)
}

/// The output of `pip download --help`, if it can be run.
fn help(command: &[&str], keep_library_path: bool, end: Instant, watch: &mut Watch<'_>) -> Result<Option<String>> {
    let (program, arguments) = command.split_first().unwrap_or((&"pip", &[]));
    let mut call = Command::new(program);
    if !keep_library_path {
        call.env_remove("LD_LIBRARY_PATH");
    }
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut call, 0);
    let started = call
        .args(arguments)
        .args(["download", "--help"])
        // Python would run a file `pip.py` in the working folder instead of pip.
        .current_dir("/")
        // Wide enough that pip does not break a line inside a URL.
        .env("COLUMNS", "1000")
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else { return Ok(None) };
    let text = read(&mut child, end, watch);
    // Leave no process behind, also of a script that runs Python. If all went well, it has exited already.
    #[cfg(unix)]
    // SAFETY: sends a signal to the group of a child that nobody has waited for.
    unsafe {
        libc::kill(-(child.id() as i32), libc::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    text
}

/// The output of `child`, read on another thread so that the caller can cancel meanwhile.
fn read(child: &mut Child, end: Instant, watch: &mut Watch<'_>) -> Result<Option<String>> {
    let Some(mut output) = child.stdout.take() else { return Ok(None) };
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name("pjrt-pip".to_string()).spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes);
        // The receiver is gone if the caller cancelled.
        let _ = sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    });
    while reader.is_ok() && Instant::now() < end {
        match receiver.recv_timeout(SLICE) {
            Ok(text) => return Ok(text.ok()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => watch.tick()?,
            Err(_) => break,
        }
    }
    Ok(None)
}
