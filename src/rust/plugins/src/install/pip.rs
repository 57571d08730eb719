//! What the machine's own pip knows: the index it uses, which its help names as the default of `--index-url`.

use super::watch::{Watch, SLICE};
use pjrt_base::error::Result;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How pip may be called, in the order of trying.
const COMMANDS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip"]];
/// A pip that takes longer is not waited for.
const LIMIT: Duration = Duration::from_secs(30);

/// The index that pip uses on this machine, if there is a pip that says so.
///
/// # Errors
/// `Interrupted` if the caller said so.
pub(super) fn default_index(watch: &mut Watch<'_>) -> Result<Option<String>> {
    // R sets the path of shared libraries for its own sake, with which another Python than meant may come up.
    for keep_library_path in [false, true] {
        for command in COMMANDS {
            if let Some(url) = help(command, keep_library_path, watch)?.as_deref().and_then(parse_help) {
                return Ok(Some(url));
            }
        }
    }
    Ok(None)
}

/// The default of `--index-url` in pip's help: `(default <url>)`, anywhere in the option's text and on as many lines as
/// it took.
pub(super) fn parse_help(help: &str) -> Option<String> {
    let option = help.split_once("--index-url")?.1;
    let default = option.split_once("(default")?.1.split_once(')')?.0;
    let url: String = default.trim_start_matches(':').split_whitespace().collect();
    url.contains("://").then_some(url)
}

/// What `pip download --help` prints, if it can be run.
fn help(command: &[&str], keep_library_path: bool, watch: &mut Watch<'_>) -> Result<Option<String>> {
    let (program, arguments) = command.split_first().unwrap_or((&"pip", &[]));
    let mut call = Command::new(program);
    if !keep_library_path {
        call.env_remove("LD_LIBRARY_PATH");
    }
    let started = call
        .args(arguments)
        .args(["download", "--help"])
        // A file `pip.py` in the working folder would be run in pip's place.
        .current_dir("/")
        // Wide enough that no line is broken inside a URL.
        .env("COLUMNS", "1000")
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            let text = read(&mut child, watch);
            // Whatever happened, no process stays behind. It has ended already, if all went well.
            let _ = child.kill();
            let _ = child.wait();
            text
        }
        Err(_) => Ok(None),
    }
}

/// All that `child` prints, read beside this thread so that the caller can be asked meanwhile.
fn read(child: &mut Child, watch: &mut Watch<'_>) -> Result<Option<String>> {
    let Some(mut output) = child.stdout.take() else { return Ok(None) };
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name("pjrt-pip".to_string()).spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes);
        // Nobody listens any more if the caller stopped.
        let _ = sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    });
    let end = Instant::now() + LIMIT;
    while reader.is_ok() && Instant::now() < end {
        match receiver.recv_timeout(SLICE) {
            Ok(text) => return Ok(text.ok()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => watch.tick()?,
            Err(_) => break,
        }
    }
    Ok(None)
}
