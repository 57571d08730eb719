//! Starts threads, and finds out whether the system lets the process have more: plugins end the process if it does not.

use crate::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

/// A limit above this leaves room for any plugin.
const MANY: u64 = 4096;

/// The variables with the number of threads of XLA's client. The first one with a number counts.
const VARIABLES: [&str; 2] = ["PJRT_NPROC", "NPROC"];

/// The number of threads that XLA's client is to have, with the variable that says so.
fn of_variable() -> Option<(&'static str, usize)> {
    let number = |name| std::env::var(name).ok()?.trim().parse().ok();
    VARIABLES.into_iter().find_map(|name| Some((name, number(name)?)))
}

/// The number of threads that the user's variables give XLA's client.
pub fn given() -> Option<usize> {
    of_variable().map(|(_, count)| count)
}

/// Refuses more threads than a client can use: XLA starts any number, which may take all of the machine.
///
/// # Errors
/// `InvalidInput`.
pub fn check_given() -> Result<()> {
    match of_variable() {
        Some((name, count)) if count as u64 > MANY => {
            bail!(InvalidInput, "The environment variable {name} must be a whole number up to {MANY}, not {count}.")
        }
        _ => Ok(()),
    }
}

/// The threads that XLA's client for CPUs starts: two pools as large as the number of processors, and others for the compiler.
pub fn of_client() -> usize {
    3 * given().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).min(1024) + 4
}

/// The stack of a thread whose work needs no more.
pub const STACK: usize = 2 << 20;

/// Starts a thread with a name and a stack of so many bytes. `purpose` completes "Cannot start a thread", as in "to compile".
///
/// # Errors
/// The code of `RESOURCE_EXHAUSTED`, with the limits.
pub fn start<T: Send + 'static>(
    name: &str,
    stack: usize,
    purpose: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let started = Builder::new().name(name.into()).stack_size(stack).spawn(work);
    started.map_err(|error| refused(format!("Cannot start a thread {purpose}: {error}."), limits()))
}

/// Checks that so many threads can start, where their number is limited: starts them, and ends them.
///
/// # Errors
/// The code of `RESOURCE_EXHAUSTED`, with the limit. `purpose` completes "Not enough threads", as in "to create a client".
pub fn check(count: usize, purpose: &str) -> Result<()> {
    let limits = limits();
    if limits.is_empty() || can_start(count) {
        return Ok(());
    }
    Err(refused(format!("Not enough threads {purpose}: {count} needed, and the system starts no more."), limits))
}

fn refused(message: String, limits: Vec<String>) -> Error {
    let error = Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message);
    limits.into_iter().fold(error, Error::hint).hint("End other processes, or raise the limit of the system.")
}

/// Whether so many threads can run at the same time.
fn can_start(count: usize) -> bool {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock();
    let start = |_| {
        let lock = lock.clone();
        Builder::new().stack_size(64 << 10).spawn(move || drop(lock.lock())).ok()
    };
    let threads: Vec<_> = (0..count).map_while(start).collect();
    drop(held);
    let started = threads.len();
    // They do nothing that could fail.
    threads.into_iter().for_each(|thread| drop(thread.join()));
    started == count
}

/// The low limits of the system, in words.
fn limits() -> Vec<String> {
    let mut found = Vec::new();
    #[cfg(unix)]
    if let Some(most) = crate::process::limit_of!(RLIMIT_NPROC).filter(|most| *most < MANY) {
        found.push(format!("The user may have {most} processes and threads (`ulimit -u`)."));
    }
    if let Some(most) = limit_of_group().filter(|most| *most < MANY) {
        found.push(format!("The control group may have {most} processes and threads (`pids.max`)."));
    }
    found
}

/// The limit of the process's control group or container, if it has one.
fn limit_of_group() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let files = [format!("/sys/fs/cgroup{}/pids.max", path.trim_end_matches('/')), "/sys/fs/cgroup/pids.max".into()];
    files.iter().find_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_start_and_end() {
        assert!(can_start(0) && can_start(20));
        assert!(check(20, "to test").is_ok());
    }
}
