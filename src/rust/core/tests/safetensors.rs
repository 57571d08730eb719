//! Damaged and changing files of the safetensors format: any byte may be wrong. Tests of valid files are in R, with the
//! plugin.

#[path = "common/damage.rs"]
mod damage;

use damage::{Folder, ALONE, LARGEST};
use pjrt_base::mmap::MappedFile;
use pjrt_base::{error::Kind, error::Result};
use pjrt_core::safetensors::Model;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A file with this header and as many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![1; data]].concat()
}

/// Reads all contents of headers.
fn read(path: &Path) -> Result<()> {
    let model = Model::open(path)?;
    for tensor in 0..model.len() {
        // A type or shape that no buffer can have does not make the file invalid.
        let _ = model.tensor(tensor)?.spec();
    }
    Ok(())
}

const TENSOR: &str = r#""dtype":"F32","shape":[2,3],"data_offsets":[0,24]"#;

#[test]
fn an_invalid_file_is_refused_with_the_reason() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-refused");
    let tensor = |fields: &str| file(&format!(r#"{{"a":{{{fields}}}}}"#), 24);
    let mut longer = tensor(TENSOR);
    longer.extend([0; 3]);
    let claims = |length: u64| [&length.to_le_bytes()[..], b"{}"].concat();
    let table: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "it has 0 bytes, too few for a header"),
        (vec![1; 7], "it has 7 bytes, too few"),
        (claims(3), "its header claims 3 bytes; the limit is 2"),
        (claims(u64::MAX), "its header claims 18446744073709551615 bytes; the limit is 2"),
        (claims(99_999_999), "claims 99999999 bytes"),
        (vec![0; 8], "its header is not valid JSON"),
        (file("{", 0), "its header is not valid JSON"),
        (file("{}x", 0), "its header is not valid JSON"),
        (file("[]", 0), "its header is wrong: invalid type: sequence, expected an object with the tensors"),
        (file("null", 0), "its header is wrong"),
        (file("\u{1f600}", 0), "its header is not valid JSON"),
        ([&2u64.to_le_bytes()[..], b"\xff\xfe"].concat(), "its header is not valid JSON"),
        ([&6u64.to_le_bytes()[..], b"{\"\xff\":1"].concat(), "its header is not valid JSON"),
        (tensor(r#""dtype":"F32","shape":[2,3]"#), "missing field `data_offsets`"),
        (tensor(r#""shape":[6],"data_offsets":[0,24]"#), "missing field `dtype`"),
        (tensor(r#""dtype":"F33","shape":[6],"data_offsets":[0,24]"#), "unknown variant `F33`"),
        (tensor(r#""dtype":"F32","shape":[-6],"data_offsets":[0,24]"#), "invalid value: integer `-6`"),
        (tensor(r#""dtype":"F32","shape":[1.5],"data_offsets":[0,24]"#), "invalid type: floating point `1.5`"),
        (tensor(r#""dtype":"F32","shape":6,"data_offsets":[0,24]"#), "invalid type: integer `6`"),
        (tensor(r#""dtype":"F32","shape":[6],"data_offsets":[0]"#), "invalid length 1"),
        (tensor(r#""dtype":"F32","shape":[6],"data_offsets":[0,24,25]"#), "its header is"),
        (tensor(r#""dtype":"F32","dtype":"F32","shape":[6],"data_offsets":[0,24]"#), "duplicate field `dtype`"),
        (
            tensor(r#""dtype":"F32","shape":[6],"data_offsets":[24,0]"#),
            "tensor \"a\" ends at 0, before its start at 24",
        ),
        (
            tensor(r#""dtype":"F32","shape":[5],"data_offsets":[0,24]"#),
            "tensor \"a\" of type F32 and shape [5] has 24 bytes",
        ),
        (tensor(r#""dtype":"F64","shape":[2,3],"data_offsets":[0,24]"#), "does not fit its type and shape"),
        (tensor(r#""dtype":"F4","shape":[49],"data_offsets":[0,24]"#), "has elements that do not fill whole bytes"),
        (
            tensor(r#""dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,24]"#),
            "shape [4294967296, 4294967296, 4] is larger than any memory",
        ),
        (tensor(r#""dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]"#), "is larger than any memory"),
        (
            file(r#"{"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}}"#, 0),
            "a shape that no array can have",
        ),
        (
            tensor(r#""dtype":"F32","shape":[7],"data_offsets":[0,28]"#),
            "28 bytes of data, but it has 24: it is truncated",
        ),
        (tensor(r#""dtype":"F32","shape":[0],"data_offsets":[0,0]"#), "0 bytes of data, but it has 24"),
        (
            tensor(r#""dtype":"F32","shape":[5],"data_offsets":[4,24]"#),
            "tensor \"a\" does not begin where the one before",
        ),
        (
            tensor(r#""dtype":"F32","shape":[6],"data_offsets":[18446744073709551592,18446744073709551616]"#),
            "its header is wrong",
        ),
        (longer, "24 bytes of data, but it has 27"),
        (
            tensor(r#""dtype":"I4","shape":[24],"data_offsets":[0,24]"#),
            "tensor \"a\" of type I4 and shape [24] has 24 bytes, which does not fit its type and shape",
        ),
        (tensor(r#""dtype":"U4","shape":[3],"data_offsets":[0,24]"#), "does not fit its type and shape"),
        (
            file(&format!(r#"{{"a":{{{TENSOR}}},"a":{{{TENSOR}}}}}"#), 24),
            "its header is wrong: there are two tensors \"a\"",
        ),
        (
            file(&format!(r#"{{"a":{{{TENSOR}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":[20,24]}}}}"#), 24),
            "tensor \"b\" does not begin where the one before it ends",
        ),
        (
            file(&format!(r#"{{"a":{{{TENSOR}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":[28,32]}}}}"#), 32),
            "tensor \"b\" does not begin where the one before it ends",
        ),
        (file(&format!(r#"{{"a\u0000b":{{{TENSOR}}}}}"#), 24), "a NUL character"),
        (file(r#"{"__metadata__":{"a":{"b":"c"}}}"#, 0), "its header is wrong: invalid type: map, expected a string"),
        (file(r#"{"__metadata__":{"a":1}}"#, 0), "expected a string"),
        (file(r#"{"__metadata__":[]}"#, 0), "its header is wrong"),
        (file(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0), "there are two entries \"a\""),
        (file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), "there are two tensors \"__metadata__\""),
        (file(r#"{"__metadata__":{"a":"\u0000"}}"#, 0), "a NUL character"),
    ];
    for (content, reason) in table {
        let path = folder.file("bad.safetensors", &content);
        let error = read(&path).expect_err(reason);
        assert_eq!(error.kind(), Kind::SafetensorsInvalid, "{error}");
        assert!(error.message().contains(reason), "{error}\ninstead of: {reason}");
        assert!(
            error.message().starts_with(&format!("'{}' is not a valid safetensors file: ", path.display())),
            "{error}"
        );
        assert!(error.message().len() < 700, "{error}");
    }
    // A text as long as the file is not repeated in full.
    let path = folder.file("bad.safetensors", &tensor(&format!(r#""dtype":"{}""#, "F".repeat(100_000))));
    assert!(read(&path).unwrap_err().message().len() < 700);
}

#[test]
fn a_valid_header_is_kept_in_its_order() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-sound");
    let header = r#" {"z":{"dtype":"BF16","shape":[2,1],"data_offsets":[10,14]},"é":{"shape":[],"data_offsets":[0,8],"dtype":"F64"},
        "__metadata__":{"y":"1","x":"ö"},"empty":{"dtype":"I8","shape":[0,5],"data_offsets":[8,8]},
        "six":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[14,17]},
        "":{"dtype":"F4","shape":[4],"data_offsets":[8,10]},"four":{"dtype":"I4","shape":[3,2],"data_offsets":[17,20]}}   "#;
    let model = Model::open(&folder.file("sound.safetensors", &file(header, 20))).unwrap();
    assert_eq!(model.names().collect::<Vec<_>>(), ["z", "é", "empty", "six", "", "four"]);
    let texts = [("y", "1"), ("x", "ö")].map(|(name, text)| (name.to_string(), text.to_string()));
    assert_eq!(model.metadata().unwrap()[..], texts);
    let first = 8 + header.len() as u64;
    let described = |i: usize| {
        let tensor = model.tensor(i).unwrap();
        (tensor.dtype_name(), tensor.dims.to_vec(), tensor.bytes, tensor.start - first)
    };
    assert_eq!(described(0), ("bf16".into(), vec![2, 1], 4, 10));
    assert_eq!(described(1), ("f64".into(), vec![], 8, 0));
    assert_eq!(described(2), ("i8".into(), vec![0, 5], 0, 8));
    assert_eq!(described(3), ("F6_E2M3".into(), vec![4], 3, 14));
    assert_eq!(described(4), ("f4e2m1fn".into(), vec![4], 2, 8));
    assert_eq!(described(5), ("I4".into(), vec![3, 2], 3, 17));
    let refused = |i: usize| model.tensor(i).unwrap().spec().unwrap_err();
    assert_eq!((refused(3).kind(), refused(5).kind()), (Kind::UnsupportedDtype, Kind::UnsupportedDtype));
    assert_eq!(refused(5).message(), "Tensor \"four\" is of type I4, which the safetensors format does not define.");
    let none = Model::open(&folder.file("none.safetensors", &file("{}", 0))).unwrap();
    assert!(none.is_empty() && none.metadata().is_none());
}

#[test]
fn metadata_give_tensors_other_names() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-ties");
    let header = format!(r#"{{"__metadata__":{{"y":"x","b":"a","a":"c","c":"a"}},"a":{{{TENSOR}}}}}"#);
    let path = folder.file("one.safetensors", &file(&header, 24));
    let model = Model::open(&path).unwrap();
    assert_eq!(model.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((model.len(), model.stored_at(2), model.tensor(2).unwrap().name.as_str()), (3, 0, "a"));
    let texts = [("y", "x"), ("a", "c")].map(|(name, text)| (name.to_string(), text.to_string()));
    assert_eq!(model.metadata().unwrap()[..], texts);
    // An index's entries count for all files, a file's entries are metadata.
    let index = r#"{"metadata":{"n":1,"d":"a"},"weight_map":{"a":"one.safetensors"}}"#;
    let model = Model::open(&folder.file("model.safetensors.index.json", index.as_bytes())).unwrap();
    assert_eq!(model.names().collect::<Vec<_>>(), ["a", "d"]);
    assert_eq!(model.file_name(1), "one.safetensors");
    let names: Vec<String> = model.metadata().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["n", "y", "b", "a", "c"]);
}

#[test]
fn an_index_holds_files_together() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-index");
    folder.file("one.safetensors", &file(&format!(r#"{{"a":{{{TENSOR}}}}}"#), 24));
    folder.file(
        "two.safetensors",
        &file(&format!(r#"{{"b":{{{TENSOR}}},"c":{{"dtype":"U8","shape":[],"data_offsets":[24,25]}}}}"#), 25),
    );
    let index = r#"{"metadata":{"total_size":49,"note":"x","n":1},"other":[],
        "weight_map":{"c":"two.safetensors","a":"one.safetensors","b":"two.safetensors"}}"#;
    let path = folder.file("model.safetensors.index.json", index.as_bytes());
    for path in [&path, &folder.0, &folder.0.join("model.safetensors")] {
        let model = Model::open(path).unwrap();
        assert!(model.is_index());
        assert_eq!(model.names().collect::<Vec<_>>(), ["c", "a", "b"]);
        assert_eq!((model.file_name(0), model.file_name(1), model.files()), ("two.safetensors", "one.safetensors", 2));
        assert_eq!(model.tensor(0).unwrap().dtype_name(), "ui8");
        assert_eq!(model.metadata().unwrap().len(), 2);
    }
    let refused = |index: &str, kind: Kind, reason: &str| {
        let path = folder.file("bad.safetensors.index.json", index.as_bytes());
        let error = read(&path).expect_err(reason);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(reason), "{error}\ninstead of: {reason}");
    };
    refused("", Kind::SafetensorsInvalid, "the index is wrong");
    let nested = format!(r#"{{"metadata":{{"x":{}1{}}},"weight_map":{{}}}}"#, "[".repeat(500), "]".repeat(500));
    refused(&nested, Kind::SafetensorsInvalid, "recursion limit exceeded");
    refused("{}", Kind::SafetensorsInvalid, "missing field `weight_map`");
    refused(r#"{"weight_map":{"a":1}}"#, Kind::SafetensorsInvalid, "expected a string");
    refused(r#"{"weight_map":{"a":"x","a":"x"}}"#, Kind::SafetensorsInvalid, "two entries \"a\"");
    refused(r#"{"weight_map":{"a":"../one.safetensors"}}"#, Kind::SafetensorsInvalid, "not in its folder");
    refused(r#"{"weight_map":{"a":"/one.safetensors"}}"#, Kind::SafetensorsInvalid, "not in its folder");
    refused(r#"{"weight_map":{"a":""}}"#, Kind::SafetensorsInvalid, "not in its folder");
    refused(r#"{"weight_map":{"a":"two.safetensors"}}"#, Kind::SafetensorsInvalid, "which does not have it");
    refused(r#"{"weight_map":{"a":"three.safetensors"}}"#, Kind::Io, "three.safetensors");
    refused(r#"{"weight_map":{"a":"bad.safetensors.index.json"}}"#, Kind::SafetensorsInvalid, "header");
    // Files that are not needed are not opened.
    let path = folder
        .file("partly.safetensors.index.json", br#"{"weight_map":{"a":"one.safetensors","b":"gone.safetensors"}}"#);
    let model = Model::open(&path).unwrap();
    assert!(model.tensor(0).is_ok() && model.tensor(1).is_err());
}

#[test]
fn a_folder_needs_one_model() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-folder");
    let refused = |reason: &str, hint: &str| {
        let error = Model::open(&folder.0).expect_err(reason);
        assert_eq!(error.kind(), Kind::Io);
        assert!(error.message().contains(reason) && error.hints()[0].contains(hint), "{error}");
    };
    refused("has no safetensors file", "It is empty.");
    folder.file("x.txt", b"");
    refused("has no safetensors file", "It contains: 'x.txt'.");
    let sound = file("{}", 0);
    folder.file("any-00001-of-00001.safetensors", &sound);
    assert!(Model::open(&folder.0).is_ok());
    folder.file("any.safetensors.index.json", br#"{"weight_map":{}}"#);
    assert!(Model::open(&folder.0).unwrap().is_index());
    folder.file("other.safetensors", &sound);
    refused("has several safetensors files; name one", "'any.safetensors.index.json', 'other.safetensors', 'x.txt'");
    folder.file("model.safetensors", &sound);
    assert!(!Model::open(&folder.0).unwrap().is_index());
    assert_eq!(Model::open(&folder.0.join("none")).unwrap_err().kind(), Kind::Io);
    assert_eq!(Model::open(Path::new("/dev/null")).unwrap_err().kind(), Kind::Io);
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

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "24",
    "25",
    "1e3",
    "0.5",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999",
];

const WORDS: [&str; 15] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "\\u0000",
    "\\ud800",
    "\"__metadata__\":{},",
    "\"F6_E2M3\"",
    "\"I4\"",
    "\"shape\"",
    "\u{fffd}",
];

/// The same content with some damage.
fn damaged(random: &mut Random, sound: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
            4 => {
                let from = random.below(bytes.len());
                let piece = bytes[from..(from + random.below(60)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let word = random.pick(&WORDS);
                bytes.splice(at..at, word.bytes());
            }
            6 => {
                // The number at or after this position.
                let digit = |b: &u8| b.is_ascii_digit();
                let Some(start) = bytes[at..].iter().position(digit).map(|i| at + i) else { continue };
                let end = bytes[start..].iter().position(|b| !digit(b)).map_or(bytes.len(), |i| start + i);
                let number = random.pick(&NUMBERS);
                bytes.splice(start..end, number.bytes());
            }
            _ => {
                // The header's length is right again, where there is a whole one.
                let end = bytes.iter().rposition(|&b| b == b'}').map_or(0, |end| end + 1);
                if let Some(length) = end.checked_sub(8) {
                    bytes[..8].copy_from_slice(&(length as u64).to_le_bytes());
                }
            }
        }
    }
    bytes
}

#[test]
fn no_damage_does_more_than_an_error() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-damaged");
    let header = r#"{"__metadata__":{"a":"1","b":"w"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
        "e":{"dtype":"BOOL","shape":[0,7],"data_offsets":[24,24]},"q":{"dtype":"F4","shape":[2,2],"data_offsets":[24,26]},
        "s":{"dtype":"F64","shape":[],"data_offsets":[26,34]}}"#;
    let whole = file(header, 34);
    folder.file("a.safetensors", &file(&format!(r#"{{"a":{{{TENSOR}}}}}"#), 24));
    let index = br#"{"metadata":{"total_size":24,"x":"y"},"weight_map":{"a":"a.safetensors","b":"a.safetensors"}}"#;
    let mut random = Random(7);
    let mut outcomes = [0; 2];
    let mut run = |name: &str, sound: &[u8], allowed: &[Kind]| {
        for case in 0..50_000 {
            let content = damaged(&mut random, sound);
            let path = folder.file(name, &content);
            LARGEST.store(0, Ordering::Relaxed);
            let outcome = read(&path);
            let largest = LARGEST.load(Ordering::Relaxed);
            assert!(
                largest < 64 << 10,
                "case {case} asked for {largest} bytes: {:?}",
                String::from_utf8_lossy(&content)
            );
            if let Err(error) = &outcome {
                let shown = String::from_utf8_lossy(&content);
                assert!(allowed.contains(&error.kind()), "case {case} is {:?}: {error}: {shown:?}", error.kind());
            }
            outcomes[usize::from(outcome.is_ok())] += 1;
        }
    };
    run("damaged.safetensors", &whole, &[Kind::SafetensorsInvalid]);
    // An index may name another file.
    run("damaged.safetensors.index.json", index, &[Kind::SafetensorsInvalid, Kind::Io]);
    assert!(outcomes[0] > 50_000 && outcomes[1] > 1000, "{outcomes:?}");
}

#[test]
fn a_file_that_shrinks_while_it_is_mapped_is_noticed() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-shrinks");
    let path = folder.file("file", &vec![7; 1 << 20]);
    let other = MappedFile::open(&folder.file("other", &[5; 10_000])).unwrap();
    let file = MappedFile::open(&path).unwrap();
    let (memory, beside) = (file.memory().unwrap(), other.memory().unwrap());
    assert_eq!((memory[0], memory[(1 << 20) - 1], beside[9999]), (7, 7, 5));
    file.check().unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5000).unwrap();
    assert_eq!(file.check().unwrap_err().kind(), Kind::FileChanged, "its size shows it");
    // On any thread.
    let last = std::thread::scope(|scope| scope.spawn(|| memory[(1 << 20) - 1]).join().unwrap());
    assert_eq!((memory[4999], memory[5000], memory[8192], last), (7, 0, 0, 0));
    // The mapping detects this even if the file is as long again.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    assert_eq!(file.check().unwrap_err().kind(), Kind::FileChanged);
    let mut out = [0; 16];
    assert!(file.read(0, &mut out).is_ok());
    other.check().unwrap();
    assert_eq!(beside[9999], 5);
    drop(file);
    // Regions are reused.
    for _ in 0..100 {
        let again = MappedFile::open(&path).unwrap();
        assert_eq!(again.memory().unwrap()[0], 7);
        again.check().unwrap();
    }
}

#[test]
fn a_file_that_is_written_to_is_noticed() {
    let _alone = ALONE.lock().unwrap();
    let folder = Folder::new("safetensors-written");
    let path = folder.file("file", &[7; 1000]);
    let file = MappedFile::open(&path).unwrap();
    file.check().unwrap();
    // Renaming or removing the file does not change its content.
    fs::hard_link(&path, folder.0.join("name")).unwrap();
    fs::remove_file(&path).unwrap();
    file.check().unwrap();
    assert_eq!(file.memory().unwrap()[999], 7);
    let other = fs::OpenOptions::new().write(true).open(folder.0.join("name")).unwrap();
    other.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(file.check().unwrap_err().kind(), Kind::FileChanged);
}
