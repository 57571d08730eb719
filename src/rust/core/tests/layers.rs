//! The order of the crates: each knows those below it, and none above. Cargo refuses circles; this test refuses shortcuts.

use std::path::Path;

/// Every crate with those of ours that it may use, from the bottom up.
const LAYERS: [(&str, &[&str]); 7] = [
    ("sys", &[]),
    ("base", &[]),
    ("data", &["base"]),
    ("program", &["base", "data"]),
    ("plugins", &["base"]),
    ("core", &["base", "data", "plugins", "program", "sys"]),
    (".", &["base", "core", "data", "plugins", "program"]),
];

#[test]
fn every_crate_uses_only_those_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, below) in LAYERS {
        let manifest = std::fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
        // a workspace's own table says where the crates are
        let own = &manifest[manifest.find("[package]").unwrap()..];
        let used: Vec<&str> =
            own.lines().filter_map(|line| line.strip_prefix("pjrt-")?.split_once(' ').map(|(name, _)| name)).collect();
        assert_eq!(used, below, "{name}");
        assert_eq!(own.contains("extendr-api"), name == ".", "{name} and R");
    }
}

#[test]
fn every_folder_with_a_crate_is_in_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.join("Cargo.toml").exists() {
            assert!(LAYERS.iter().any(|(known, _)| *known == name), "{name} is in no layer");
        }
    }
}
