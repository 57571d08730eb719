//! What the fuzz targets kept, and the fixtures that they begin with, are read again by every reader that they are for.

mod readers;

use std::fs;
use std::path::{Path, PathBuf};

/// Fixtures by reader: folder and extensions.
const FIXTURES: [(&str, &str, &[&str]); 5] = [
    ("mlir", "program/fixtures", &["mlir"]),
    ("bytecode", "program/fixtures", &["artifact", "mlirbc"]),
    ("jax", "program/fixtures/exported", &["jaxexport"]),
    ("pytorch", "program/fixtures/pytorch", &["meta"]),
    ("page", "../../inst", &["toml"]),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn no_seed_of_the_fuzz_targets_does_more_than_an_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, _) in readers::READERS {
        let mut seeds = Vec::new();
        files(&root.join("fuzz/seeds").join(name), &mut seeds);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (reader, folder, extensions) in FIXTURES {
            if reader == name {
                let mut found = Vec::new();
                files(&root.join(folder), &mut found);
                let is_meant =
                    |path: &PathBuf| path.extension().is_some_and(|e| extensions.iter().any(|known| e == *known));
                seeds.extend(found.into_iter().filter(is_meant));
            }
        }
        seeds.sort();
        for path in seeds {
            // a panic's message follows
            println!("{name}: {}", path.strip_prefix(root).unwrap().display());
            readers::read(name, &fs::read(&path).unwrap());
        }
    }
}

#[test]
fn every_reader_has_a_fuzz_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let mut named: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .collect();
    let mut known: Vec<&str> = readers::READERS.iter().map(|(name, _)| *name).collect();
    named.sort_unstable();
    known.sort_unstable();
    assert_eq!(named, known);
    for name in known {
        let target = fs::read_to_string(root.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(target.contains(&format!("\"{name}\"")), "{name}");
    }
}
