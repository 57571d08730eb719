//! Checksums of archives, computed again after any change, so that what lies behind them is read.

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use std::io::{Cursor, Read, Write};
use zip::{CompressionMethod, ZipArchive};

/// The most bytes of a file in an archive that get a checksum.
const MOST: u64 = 4 << 20;

/// Position of the checksum in an entry of a zip archive's directory.
const ZIP_CHECKSUM: usize = 16;

/// Gives the files of a zip archive the checksums of their content. Anything else stays as it is.
pub fn mend_zip(bytes: &mut [u8]) {
    let Ok(mut archive) = ZipArchive::new(Cursor::new(&*bytes)) else { return };
    let mut sums = Vec::new();
    for i in 0..archive.len() {
        let Ok(file) = archive.by_index_raw(i) else { continue };
        let (at, method) = (file.central_header_start() as usize + ZIP_CHECKSUM, file.compression());
        let mut content = Vec::new();
        let read = match method {
            CompressionMethod::Stored => file.take(MOST).read_to_end(&mut content),
            CompressionMethod::Deflated => flate2::read::DeflateDecoder::new(file).take(MOST).read_to_end(&mut content),
            _ => continue,
        };
        if read.is_ok() {
            let mut sum = Crc::new();
            sum.update(&content);
            sums.push((at, sum.sum()));
        }
    }
    for (at, sum) in sums {
        if let Some(place) = bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// A tar archive with the checksums of its headers, compressed.
pub fn mend_tar(bytes: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + BLOCK) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = std::str::from_utf8(&header[124..135]).ok().and_then(|size| usize::from_str_radix(size, 8).ok());
        at += BLOCK + size.unwrap_or(0).next_multiple_of(BLOCK);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&bytes).unwrap();
    packed.finish().unwrap()
}
