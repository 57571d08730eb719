//! Downloads a file: streams it to disk, hashes it on the way, and resumes after a broken connection.

use super::http::{download_error, Http, HttpFailure, INDEX_HINT};
use super::place::{io_error, open_file};
use super::verify::Sha256;
use super::watch::Watch;
use pjrt_base::error::Result;
use pjrt_base::private_fs::write_all;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, CONTENT_RANGE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE};
use reqwest::{Response, StatusCode, Url};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

/// The largest wheel.
const MAX_BYTES: u64 = 4 << 30;
const BLOCK: usize = 256 << 10;

/// Downloads the file at `url` (`http`, `https` or `file`) to `to`, and returns its SHA-256. Resumes an earlier partial
/// download at `to` if the expected hash is known.
///
/// # Errors
/// `Download` if it cannot be downloaded, `Io` if `to` cannot be written, `Interrupted` if the caller cancels it.
pub(super) fn fetch(
    http: &Http,
    url: &Url,
    to: &Path,
    expected: Option<&str>,
    watch: &mut Watch<'_>,
) -> Result<String> {
    let mut part =
        PartialFile { file: open_file(to)?, path: to, hash: Sha256::new(), done: 0, furthest: 0, version: None };
    match expected {
        Some(_) => part.take_up(watch)?,
        None => part.restart()?,
    }
    let is_there =
        |part: &PartialFile<'_>| expected.is_some_and(|e| part.hash.clone().finish().eq_ignore_ascii_case(e));
    if !is_there(&part) {
        let brought = match url.to_file_path() {
            Ok(source) if url.scheme() == "file" => part.copy(&source, watch),
            _ => http.retrying(url, watch, |watch| part.attempt(http, url, watch)),
        };
        if brought.is_err() && (expected.is_none() || part.done == 0) {
            // No later attempt could resume it.
            let _ = std::fs::remove_file(to);
        }
        brought?;
    }
    watch.tell()?;
    Ok(part.hash.finish())
}

/// The partial file.
struct PartialFile<'a> {
    file: File,
    path: &'a Path,
    hash: Sha256,
    done: u64,
    /// The largest size so far.
    furthest: u64,
    /// The server's identifier of this version of the file.
    version: Option<HeaderValue>,
}

impl PartialFile<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        write_all(&mut self.file, bytes).map_err(|e| io_error("write", self.path, &e))?;
        self.hash.update(bytes);
        self.done += bytes.len() as u64;
        Ok(())
    }

    /// Reads the partial file.
    fn take_up(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        let mut block = vec![0; BLOCK];
        loop {
            match self.file.read(&mut block).map_err(|e| io_error("read", self.path, &e))? {
                0 => return Ok(()),
                n => {
                    self.hash.update(&block[..n]);
                    self.done += n as u64;
                }
            }
            watch.reach(self.done, None)?;
        }
    }

    fn restart(&mut self) -> Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(|e| io_error("write", self.path, &e))?;
        (self.hash, self.done, self.version) = (Sha256::new(), 0, None);
        Ok(())
    }

    fn copy(&mut self, source: &Path, watch: &mut Watch<'_>) -> Result<()> {
        let unreadable = |e| io_error("read", source, &e);
        self.restart()?;
        let found = std::fs::metadata(source).map_err(unreadable)?;
        // Opening a pipe would wait for its other end, and a device may never end.
        ensure!(found.is_file(), Io, "\"{}\" is not a file.", source.display());
        let total = found.len();
        let mut from = File::open(source).map_err(unreadable)?;
        let mut block = vec![0; BLOCK];
        loop {
            match from.read(&mut block).map_err(unreadable)? {
                0 => return Ok(()),
                n => self.append(&block[..n])?,
            }
            watch.reach(self.done, Some(total))?;
        }
    }

    /// Requests the rest and reads it.
    fn attempt(&mut self, http: &Http, url: &Url, watch: &mut Watch<'_>) -> std::result::Result<(), HttpFailure> {
        let mut response = http.get(url, self.missing(), watch)?;
        let goes_on = response.status() == StatusCode::PARTIAL_CONTENT;
        if goes_on && range_start(&response) != Some(self.done)
            || response.status() == StatusCode::RANGE_NOT_SATISFIABLE
        {
            self.restart()?;
            return Err(HttpFailure::Retry("the server cannot continue a download".to_string()));
        }
        if !goes_on {
            self.restart()?;
        }
        self.version = version(&response);
        let total = response.content_length().map(|length| self.done + length);
        loop {
            let chunk = match http.chunk(&mut response, watch) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(HttpFailure::Retry(reason)) => return Err(self.broken(reason)),
                Err(other) => return Err(other),
            };
            self.append(chunk.as_ref())?;
            ensure!(self.done <= MAX_BYTES, download_error(url, "the file is larger than any plugin", INDEX_HINT));
            watch.reach(self.done, total)?;
        }
        match total {
            Some(total) if total != self.done => {
                Err(self.broken(format!("it ended after {} of {total} bytes", self.done)))
            }
            _ => Ok(()),
        }
    }

    /// The connection broke. After progress, another attempt is worthwhile, however often it breaks.
    fn broken(&mut self, reason: String) -> HttpFailure {
        if self.done <= self.furthest {
            return HttpFailure::Retry(reason);
        }
        self.furthest = self.done;
        HttpFailure::Broken(reason)
    }

    /// Headers that request the rest, if the file on the server is still the same.
    fn missing(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.done == 0 {
            return headers;
        }
        if let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", self.done)) {
            headers.insert(RANGE, range);
        }
        if let Some(version) = &self.version {
            headers.insert(IF_RANGE, version.clone());
        }
        headers
    }
}

/// The identifier of the file's version on the server: a strong entity tag, or otherwise its date.
fn version(response: &Response) -> Option<HeaderValue> {
    let header = |name: HeaderName| response.headers().get(name).cloned();
    header(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")).or_else(|| header(LAST_MODIFIED))
}

/// Where a partial answer starts: `Content-Range: bytes <start>-<end>/<length>`.
fn range_start(response: &Response) -> Option<u64> {
    let text = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    text.trim().strip_prefix("bytes")?.trim_start().split('-').next()?.parse().ok()
}
