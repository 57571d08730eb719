//! The order of the crates, and of the folders in this one: each knows those below it, and none above. Cargo refuses
//! circles of crates; these tests refuse shortcuts, and circles of folders.

use std::path::Path;

/// Every crate with our crates that it may use, from the bottom up.
const LAYERS: [(&str, &[&str]); 16] = [
    ("sys", &[]),
    ("base", &[]),
    ("data", &["base"]),
    ("ir", &["base", "data"]),
    ("program", &["base", "data", "ir"]),
    ("lapack", &["base"]),
    ("plugins", &["base"]),
    ("store", &["base"]),
    ("mpi", &["base", "data", "store"]),
    ("ffi", &["base", "sys"]),
    ("handlers", &["base", "data", "ffi", "ir", "lapack", "mpi", "plugins", "sys"]),
    ("core", &["base", "data", "ffi", "handlers", "ir", "mpi", "plugins", "program", "store", "sys"]),
    ("compiler", &["core"]),
    (".", &["base", "core", "data", "ffi", "handlers", "ir", "plugins", "program"]),
    ("library", &["bridge"]),
    ("fuzz", &["base", "core", "data", "ir", "plugins", "program"]),
];

#[test]
fn every_crate_uses_only_those_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, below) in LAYERS {
        let manifest = std::fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
        // a workspace's own table says where the crates are
        let own = &manifest[manifest.find("[package]").unwrap()..];
        let own = own.split("[dev-dependencies]").next().unwrap();
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

/// The folders of core, from the bottom up.
const CORE: [&str; 15] = [
    "runtime",
    "host",
    "apart",
    "client",
    "buffer",
    "executable",
    "cache",
    "compile",
    "operators",
    "arrow",
    "stored",
    "numpy",
    "map",
    "safetensors",
    "dlpack",
];

/// The folders of the readers and writers of programs, from the bottom up.
const IR: [&str; 4] = ["module", "text", "bytecode", "hlo"];

/// The folders of what is done with programs, from the bottom up.
const PROGRAM: [&str; 9] =
    ["names", "profile", "exported", "callable", "program", "rewrite", "graph", "checks", "eager"];

/// The folders of the bridge, from the bottom up.
const BRIDGE: [&str; 11] =
    ["r", "memory", "plugins", "clients", "arrays", "files", "programs", "calls", "execution", "functions", "session"];

/// The crates whose folders have an order, with it.
const ORDERED: [(&str, &[&str]); 4] = [("core", &CORE), ("ir", &IR), ("program", &PROGRAM), (".", &BRIDGE)];

/// The folders that a file names after `crate::`.
fn folders_used(source: &str) -> impl Iterator<Item = &str> {
    let name = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    source.split("crate::").skip(1).map(move |rest| &rest[..name(rest)])
}

fn check_folder(path: &Path, below: &[&str]) {
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_folder(&path, below);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for name in folders_used(&source) {
            assert!(below.contains(&name), "{} uses crate::{name}", path.display());
        }
    }
}

#[test]
fn every_folder_uses_only_those_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, folders) in ORDERED {
        for (level, folder) in folders.iter().enumerate() {
            check_folder(&root.join(name).join("src").join(folder), &folders[..=level]);
        }
    }
}

#[test]
fn a_crate_in_order_has_no_files_and_folders_outside_of_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, folders) in ORDERED {
        let mut found: Vec<String> = std::fs::read_dir(root.join(name).join("src"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "lib.rs")
            .collect();
        let mut known = folders.to_vec();
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}

#[test]
fn every_path_on_the_architecture_page_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let is_path = |text: &&str| text.contains('/') && !text.contains(['(', ' ']);
    let paths: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "ARCHITECTURE.md names {path}, which does not exist");
    }
    for folder in CORE.into_iter().chain(IR).chain(PROGRAM).chain(BRIDGE) {
        assert!(page.contains(folder), "ARCHITECTURE.md does not name the folder {folder}");
    }
    for (name, _) in LAYERS.iter().filter(|(name, _)| *name != ".") {
        assert!(page.contains(&format!("src/rust/{name}/")), "ARCHITECTURE.md does not name the crate {name}");
    }
}

#[test]
fn the_table_of_layers_has_every_crate_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("../../CONTRIBUTING.md")).unwrap();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    let mut expected: Vec<&str> = members.split('"').skip(1).step_by(2).chain(["src"]).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `src/rust/")?.split_once("/`"));
    let mut listed: Vec<&str> = rows.map(|(name, _)| name).collect();
    expected.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, expected);
}

/// Whether a text has this word, with no letter, digit or underscore beside it.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

/// The string literals of a line of Rust. Literals of several lines are read line by line.
fn literals(line: &str) -> String {
    line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("\n")
}

/// The first word of R in a line, which only the bridge and the R code may contain.
fn words_of_r(line: &str) -> Option<&'static str> {
    const ANYWHERE: [&str; 10] = [
        "install_pjrt",
        "readRDS",
        "saveRDS",
        "restart R",
        "R session",
        "SEXP",
        "extendr",
        "gc()",
        "Rscript",
        "testthat",
    ];
    let calls_ours = line.match_indices("pjrt_").any(|(at, _)| {
        let name = line[at..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len() - at);
        line[at + name..].starts_with('(')
    });
    if calls_ours {
        return Some("pjrt_*()");
    }
    if has_word(&literals(line), "R") {
        return Some("R");
    }
    ANYWHERE.into_iter().find(|word| line.contains(word))
}

/// Lines that must hold such words, by file and part: the place of fixtures, and an option of `chown`.
const ALLOWED: [(&str, &str); 3] = [
    ("program/src/checks/forms.rs", "/fixtures/"),
    ("plugins/src/install/tests/installing.rs", "chown"),
    ("core/tests/layers.rs", ""),
];

fn check_words(root: &Path, path: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_words(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
                let allowed = ALLOWED.iter().any(|(file, part)| name == *file && line.contains(part));
                if let Some(word) = words_of_r(line).filter(|_| !allowed) {
                    found.push(format!("{name}:{}: {word}: {}", number + 1, line.trim()));
                }
            }
        }
    }
}

#[test]
fn no_crate_below_the_bridge_knows_words_of_r() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (name, _) in LAYERS.iter().filter(|(name, _)| *name != ".") {
        for folder in ["src", "tests", "examples"].map(|folder| root.join(name).join(folder)) {
            if folder.is_dir() {
                check_words(root, &folder, &mut found);
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn words_of_r_are_recognized() {
    for line in [
        r#"hint("Restart it, or restart R.")"#,
        r#"hint("pjrt_delete() it")"#,
        r#""R's order""#,
        r#""as R does""#,
        "use extendr_api::*;",
        "fn x(y: SEXP)",
    ] {
        assert!(words_of_r(line).is_some(), "{line}");
    }
    for line in [r#""PJRT_R""#, r#""R_USER_CACHE_DIR""#, "fn of<R>(x: R)", "use pjrt_base::error;", "pjrt_sys::call()"]
    {
        assert_eq!(words_of_r(line), None, "{line}");
    }
}
