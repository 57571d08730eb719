//! Memory: whether enough is free before a large allocation, and sizes as text.

use crate::counted::counted;
use crate::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};

/// Checks that so many bytes can be allocated at once, for work that would end the process without them.
///
/// # Errors
/// The code of `RESOURCE_EXHAUSTED`. `purpose` completes "Not enough memory", as in "to compile".
pub fn check_room(bytes: usize, purpose: &str) -> Result<()> {
    const LITTLE: usize = 1 << 20;
    if bytes < LITTLE || is_there(bytes) {
        return Ok(());
    }
    let message = format!("Not enough memory {purpose}: {} needed.", size(bytes));
    Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message))
}

#[cfg(unix)]
fn is_there(bytes: usize) -> bool {
    // Not by malloc(), which keeps more for itself after a large block was freed.
    // SAFETY: a new mapping of nothing, which is taken back at once.
    unsafe {
        let (flags, access) = (libc::MAP_PRIVATE | libc::MAP_ANON, libc::PROT_READ | libc::PROT_WRITE);
        let place = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        place != libc::MAP_FAILED && libc::munmap(place, bytes) == 0
    }
}

#[cfg(not(unix))]
fn is_there(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(std::hint::black_box(bytes)).is_ok()
}

/// The same check for a plugin's work, which takes much more address space than memory. Has an effect only where
/// address space is limited, as with `ulimit -v`.
///
/// # Errors
/// As [`check_room`].
pub fn check_address_space(bytes: usize, purpose: &str) -> Result<()> {
    if is_address_space_limited() {
        check_room(bytes, purpose)
    } else {
        Ok(())
    }
}

#[cfg(unix)]
fn is_address_space_limited() -> bool {
    crate::process::limit_of!(RLIMIT_AS).is_some_and(|limit| limit != libc::RLIM_INFINITY)
}

#[cfg(not(unix))]
fn is_address_space_limited() -> bool {
    false
}

/// The free memory of this machine in bytes, if the system reports it.
pub fn available_memory() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// A number of bytes as text for people.
pub fn size(bytes: usize) -> String {
    const UNITS: [&str; 7] = ["", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        counted(bytes, "byte")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// The same with fewer digits, for downloads and disks.
pub fn rough_size(bytes: f64) -> String {
    match bytes {
        b if b < 1e6 => format!("{:.0} kB", b / 1e3),
        b if b < 1e9 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}
