//! Files of NumPy: any byte may be wrong. Tests with the plugin, and of files that NumPy wrote, are in R.

#[path = "common/damage.rs"]
mod damage;

use damage::{Folder, ALONE, LARGEST};
use pjrt_base::error::{Kind, Result};
use pjrt_core::numpy::ArrayFile;
use pjrt_core::stored::{Form, Stored};
use pjrt_data::dtype::DType;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use zip::write::SimpleFileOptions;
use zip::CompressionMethod;

/// A file as NumPy writes it.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.push_str(&" ".repeat(len - header.len() - 1));
    header.push('\n');
    [b"\x93NUMPY\x01\0", &(len as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// An archive of named files, compressed or not.
fn npz(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content, deflated) in members {
        let method = if *deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        // NumPy writes large sizes always.
        let options = SimpleFileOptions::default().compression_method(method).large_file(true);
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The elements of an array.
fn elements(stored: &Stored) -> Result<Vec<u8>> {
    let mut bytes = vec![0; stored.spec.bytes()];
    match stored.form {
        Form::Encoded(code) => code.decode(&mut bytes)?,
        _ => stored.file.read(stored.start, &mut bytes)?,
    }
    Ok(bytes)
}

/// The elements of all arrays of a file, with their names and types.
fn read(path: &Path) -> Result<Vec<(String, String, Vec<u8>)>> {
    let file = ArrayFile::open(path)?;
    let one = |(i, name): (usize, &str)| {
        let array = file.array(i, Some(DType::BF16))?;
        Ok((name.to_owned(), array.spec().to_string(), elements(&array.stored(true))?))
    };
    file.names().enumerate().map(one).collect()
}

const SIX: [u8; 12] = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0];

#[test]
fn arrays_are_brought_into_order() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("numpy-order");
    let one = |descr: &str, fortran, data: &[u8]| {
        let path = folder.file("a.npy", &npy(descr, fortran, "(2, 3)", data));
        let mut found = read(&path).unwrap();
        found.pop().unwrap().2
    };
    assert_eq!(one("<i2", false, &SIX), SIX);
    assert_eq!(one("<i2", true, &SIX), [1, 0, 3, 0, 5, 0, 2, 0, 4, 0, 6, 0]);
    let big: Vec<u8> = SIX.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    assert_eq!(one(">i2", false, &big), SIX);
    assert_eq!(one(">u2", true, &big), [1, 0, 3, 0, 5, 0, 2, 0, 4, 0, 6, 0]);
    // The parts of a complex number are swapped one by one.
    let complex: Vec<u8> = (0..48).collect();
    let swapped: Vec<u8> = complex.chunks(4).flat_map(|part| part.iter().rev().copied().collect::<Vec<_>>()).collect();
    assert_eq!(one(">c8", false, &complex), swapped);
    let array = npy("<i2", true, "(2, 3)", &SIX);
    let path = folder.file("a.npz", &npz(&[("a.npy", &array, false), ("b.npy", &array, true), ("c.txt", b"c", false)]));
    let found = read(&path).unwrap();
    assert_eq!(found.iter().map(|found| found.0.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((&found[0].1, &found[0].2), (&found[1].1, &found[1].2));
    assert_eq!(found[0].2, [1, 0, 3, 0, 5, 0, 2, 0, 4, 0, 6, 0]);
    // Of two arrays with one name, the last counts, as in NumPy.
    let other = npy("<i2", false, "(1,)", &SIX[..2]);
    let mut twice = npz(&[("a.npy", &array, false), ("b.npy", &other, false)]);
    let places: Vec<_> = (0..twice.len() - 4).filter(|&i| twice[i..].starts_with(b"b.npy")).collect();
    assert_eq!(places.len(), 2);
    places.into_iter().for_each(|i| twice[i] = b'a');
    let found = read(&folder.file("twice.npz", &twice)).unwrap();
    assert_eq!(found, [("a".to_owned(), "i16[1]".to_owned(), SIX[..2].to_vec())]);
    // Several pieces.
    let large: Vec<u8> = (0..5_000_000u32).flat_map(|i| (i % 7919).to_be_bytes()).collect();
    let array = npy(">u4", false, "(5000000,)", &large);
    let path = folder.file("large.npz", &npz(&[("a.npy", &array, true)]));
    let found = &read(&path).unwrap()[0].2;
    assert!(found.chunks(4).zip(large.chunks(4)).all(|(a, b)| a[0] == b[3] && a[1] == b[2]));
}

#[test]
fn an_invalid_file_is_refused_with_the_reason() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("numpy-invalid");
    let refused = |content: &[u8], kind: Kind, reason: &str| {
        let error = read(&folder.file("a", content)).expect_err(reason);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(reason), "{error}");
    };
    let sound = npy("<i2", false, "(2, 3)", &SIX);
    refused(b"", Kind::NpyInvalid, "does not begin as one");
    refused(&sound[..9], Kind::NpyInvalid, "truncated");
    refused(&sound[..70], Kind::NpyInvalid, "truncated");
    refused(&sound[..sound.len() - 1], Kind::NpyInvalid, "declares 12 bytes of data, but it has 11");
    refused(&[&sound[..], b"x"].concat(), Kind::NpyInvalid, "1 byte after its array");
    refused(&npy("|O", false, "(3,)", b"\x80\x04."), Kind::UnsupportedDtype, "a pickle, which only Python can read");
    refused(&npy("<U2", false, "(1,)", &[0; 8]), Kind::UnsupportedDtype, "text");
    refused(&npy("|V3", false, "(1,)", &[0; 3]), Kind::InvalidInput, "are not of type bf16");
    refused(&npy("<f4", false, "(-1,)", &[]), Kind::NpyInvalid, "negative");
    refused(&npy("<f4", false, "(4611686018427387904, 4)", &[]), Kind::NpyInvalid, "too large");
    refused(&npy("<f4", false, &format!("({})", "1, ".repeat(65)), &[0; 4]), Kind::NpyInvalid, "64 dimensions");

    for name in ["w\0.npy", "w.\0npy", "\0"] {
        refused(&npz(&[(name, &sound, true)]), Kind::NpyInvalid, "a NUL character");
    }
    let archive = npz(&[("w.npy", &sound, true)]);
    refused(&archive[..archive.len() - 1], Kind::NpyInvalid, "its directory is damaged");
    refused(&archive[..40], Kind::NpyInvalid, "its directory is damaged");
    refused(&npz(&[("w.npy", b"\x93NUMPY", true)]), Kind::NpyInvalid, "array \"w\": it is truncated");
    refused(&npz(&[("w.npy", &sound[..100], true)]), Kind::NpyInvalid, "array \"w\"");
    let at = |archive: &[u8], what: &[u8]| archive.windows(what.len()).rposition(|window| window == what).unwrap();
    let central = at(&archive, b"PK\x01\x02");
    let mut wrong = archive.clone();
    wrong[central + 16] ^= 1;
    refused(&wrong, Kind::NpyInvalid, "its checksum is wrong");
    let mut wrong = archive.clone();
    wrong[central + 8] |= 1;
    refused(&wrong, Kind::NpyInvalid, "encrypted");
    let mut wrong = archive.clone();
    wrong[central + 10] = 14;
    refused(&wrong, Kind::NpyInvalid, "a method that NumPy does not use");
    let mut wrong = archive.clone();
    wrong[central + 24..central + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    refused(&wrong, Kind::NpyInvalid, "too many for its compressed size");
    assert_eq!(read(&folder.0.join("none")).unwrap_err().kind(), Kind::Io);
    assert_eq!(read(&folder.0).unwrap_err().kind(), Kind::Io);
}

/// A pseudo-random sequence of numbers, always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

const WORDS: [&str; 12] =
    ["(", ")", "'", ",", "{", "None", "True", "'<f8'", "'|O'", "99999999999", "-1", "[('a', '<f4')]"];

/// The same content with some damage.
fn damaged(random: &mut Random, sound: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
            4 => {
                let from = random.below(bytes.len());
                let piece = bytes[from..(from + random.below(60)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
        }
    }
    bytes
}

#[test]
fn no_damage_does_more_than_an_error() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("numpy-damaged");
    let alone = npy("<i2", true, "(2, 3)", &SIX);
    let other = npy("|V2", false, "(6,)", &SIX);
    let archive =
        npz(&[("a.npy", &alone, false), ("b.npy", &other, true), ("c.npy", &npy(">f8", false, "()", &[1; 8]), true)]);
    let mut random = Random(7);
    let mut outcomes = [0; 2];
    for (name, sound) in [("a.npy", &alone), ("a.npz", &archive)] {
        for case in 0..30_000 {
            let content = damaged(&mut random, sound);
            let path = folder.file(name, &content);
            LARGEST.store(0, Ordering::Relaxed);
            let outcome = read(&path);
            let largest = LARGEST.load(Ordering::Relaxed);
            assert!(largest < 2 << 20, "case {case} asked for {largest} bytes: {content:?}");
            if let Err(error) = &outcome {
                let allowed = [Kind::NpyInvalid, Kind::UnsupportedDtype, Kind::InvalidInput];
                assert!(allowed.contains(&error.kind()), "case {case} is {:?}: {error}: {content:?}", error.kind());
            }
            outcomes[usize::from(outcome.is_ok())] += 1;
        }
    }
    assert!(outcomes[0] > 20_000 && outcomes[1] > 1000, "{outcomes:?}");
}
