//! Asks the machine's own pip for the index it uses: pip's help names it as the default of `--index-url`.

use super::watch::{Watch, SLICE};
use pjrt_base::error::{Error, Kind, Result};
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
/// `Download` if pip itself fails, as for a broken configuration; `Interrupted` if the caller cancels the work.
pub(super) fn index_of(commands: &[&[&str]], limit: Duration, watch: &mut Watch<'_>) -> Result<Option<String>> {
    let end = Instant::now() + limit;
    let mut complaint = None;
    // R sets the library path for its own libraries, which could start the wrong Python.
    for keep_library_path in [false, true] {
        for command in commands {
            if Instant::now() >= end {
                return Ok(None);
            }
            let Some(answer) = help(command, keep_library_path, end, watch)? else { continue };
            if let Some(url) = parse_help(&answer.help) {
                return Ok(Some(url));
            }
            complaint = complaint.or(answer.complaint());
        }
    }
    let Some(complaint) = complaint else { return Ok(None) };
    let message =
        format!("No Python package index to download the plugin from: none is set, and pip fails: {complaint}");
    Err(Error::new(Kind::Download, message)
        .hint("Mend pip or its configuration, or set PJRT_INDEX_URL to the URL of an index."))
}

/// What pip writes.
struct Answer {
    help: String,
    errors: String,
}

impl Answer {
    /// The end of its errors; `None` if it wrote none, or is not installed.
    fn complaint(&self) -> Option<String> {
        const LINES: usize = 3;
        let lines: Vec<_> = self.errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let end = lines[lines.len().saturating_sub(LINES)..].join(" ");
        (!end.is_empty() && !end.contains("No module named pip")).then_some(end)
    }
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
fn help(command: &[&str], keep_library_path: bool, end: Instant, watch: &mut Watch<'_>) -> Result<Option<Answer>> {
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
        .stderr(Stdio::piped())
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
fn read(child: &mut Child, end: Instant, watch: &mut Watch<'_>) -> Result<Option<Answer>> {
    let (Some(mut output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else { return Ok(None) };
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name("pjrt-pip".to_string()).spawn(move || {
        let mut read = [Vec::new(), Vec::new()];
        // Errors of pip are short enough to wait in the pipe meanwhile.
        let done = output.read_to_end(&mut read[0]).and_then(|_| errors.read_to_end(&mut read[1]));
        let [help, errors] = read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // The receiver is gone if the caller cancelled.
        let _ = sender.send(done.map(|_| Answer { help, errors }));
    });
    while reader.is_ok() && Instant::now() < end {
        match receiver.recv_timeout(SLICE) {
            Ok(answer) => return Ok(answer.ok()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => watch.tick()?,
            Err(_) => break,
        }
    }
    Ok(None)
}
