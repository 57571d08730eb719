//! Taking one file out of a wheel, which is a zip archive. Only the member asked for is read, and only the path asked
//! for is written, so no name inside the archive can lead anywhere else.

use super::place::{create_file, io_error};
use super::watch::Watch;
use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use zip::result::ZipError;

/// No library is larger than this; an archive that says so, or goes on for longer, is refused.
const MAX_BYTES: u64 = 4 << 30;
const BLOCK: usize = 256 << 10;

/// Writes `member` of the archive `wheel` to the new file `to`, checks its CRC and waits until it is on disk. Returns
/// its length in bytes.
///
/// # Errors
/// `PluginInvalid` if the archive is broken or has no such member, `Io` if `to` cannot be written.
pub(super) fn extract(wheel: &Path, member: &str, to: &Path, watch: &mut Watch<'_>) -> Result<u64> {
    let file = File::open(wheel).map_err(|e| io_error("read", wheel, &e))?;
    let mut archive = zip::ZipArchive::new(BufReader::with_capacity(BLOCK, file)).map_err(|e| broken(member, &e))?;
    let mut source = archive.by_name(member).map_err(|e| broken(member, &e))?;
    if source.size() > MAX_BYTES {
        return Err(too_large(member));
    }
    let mut target = create_file(to)?;
    let mut block = vec![0; BLOCK];
    let mut length = 0;
    loop {
        let n = source.read(&mut block).map_err(|e| broken(member, &ZipError::Io(e)))?;
        if n == 0 {
            break;
        }
        length += n as u64;
        if length > MAX_BYTES {
            return Err(too_large(member));
        }
        target.write_all(&block[..n]).map_err(|e| io_error("write", to, &e))?;
        watch.tick()?;
    }
    target.sync_all().map_err(|e| io_error("write", to, &e))?;
    Ok(length)
}

#[cold]
fn broken(member: &str, error: &ZipError) -> Error {
    let message = match error {
        ZipError::FileNotFound => format!("The wheel holds no file \"{member}\"."),
        other => format!("The wheel cannot be unpacked, at \"{member}\": {other}."),
    };
    Error::new(Kind::PluginInvalid, message).hint("Nothing was installed.")
}

#[cold]
fn too_large(member: &str) -> Error {
    let message = format!("\"{member}\" in the wheel is larger than {} GiB.", MAX_BYTES >> 30);
    Error::new(Kind::PluginInvalid, message).hint("Nothing was installed.")
}
