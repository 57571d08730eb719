//! Every program in bytecode of the fixtures is decoded, and has the same meaning as text.

use super::forms::check_alike;
use crate::exported::damage::damaged_places;
use crate::program::{Format, Program};
use pjrt_base::error::Kind;
use pjrt_ir::bytecode::MAGIC;
use pjrt_ir::module::Module;
use pjrt_ir::text;

/// The programs in bytecode of the folder of fixtures, by path.
fn programs() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut code = std::fs::read(&path).unwrap();
            if path.extension().is_some_and(|end| end == "jaxexport") {
                code = crate::exported::module_of(&code).unwrap().to_vec();
            }
            if code.starts_with(MAGIC) {
                found.push((path.display().to_string(), code));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_program_is_decoded() {
    for (path, code) in programs() {
        let module = Module::decode(&code).unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = module.text().unwrap_or_else(|error| panic!("{path}: {error}"));
        let program = Program::new(text.into_bytes(), Format::Mlir).unwrap_or_else(|error| panic!("{path}: {error}"));
        check_alike(&Program::new(code, Format::Mlir).unwrap(), &program, &path);
    }
}

#[test]
fn every_program_is_written_as_a_portable_artifact() {
    // What other dialects say, and newer versions.
    const WITHOUT_FORM: &str = "mesh_axes";
    let mut count = 0;
    for (path, code) in programs() {
        let module = Module::decode(&code).unwrap();
        let artifact = match module.artifact() {
            Ok(artifact) => artifact,
            Err(error) => {
                assert!(error.message().contains(WITHOUT_FORM), "{path}: {error}");
                continue;
            }
        };
        let program = Program::new(artifact.clone(), Format::Mlir).unwrap_or_else(|error| panic!("{path}: {error}"));
        check_alike(&Program::new(code, Format::Mlir).unwrap(), &program, &path);
        let again = Module::decode(&artifact).unwrap();
        assert!(again.artifact().unwrap() == artifact, "{path}");
        if path.ends_with(".artifact") {
            assert_eq!(module.text().unwrap(), again.text().unwrap(), "{path}");
        }
        count += 1;
    }
    assert!(count > 90, "{count} programs");
}

#[test]
fn the_text_of_every_program_is_read_as_a_whole() {
    for (path, code) in programs() {
        let text = Module::decode(&code).unwrap().text().unwrap();
        let module = text::whole(text.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(text, module.text().unwrap(), "{path}");
    }
}

#[test]
fn the_text_keeps_names_and_annotations() {
    let text = |name: &str| {
        let path = format!("{}/fixtures/modules/{name}", env!("CARGO_MANIFEST_DIR"));
        Module::decode(&std::fs::read(path).unwrap()).unwrap().text().unwrap()
    };
    let donated = text("donated.artifact");
    assert!(donated.contains("tf.aliasing_output = 0 : i32"), "{donated}");
    assert!(donated.contains("loc(\"params['w']\")") && donated.contains("%x: tensor<3x3xf32>"), "{donated}");
    let sharded = text("sharded.artifact");
    for part in [
        "\"sdy.mesh\"() {mesh = #sdy.mesh<[\"x\"=2, \"y\"=2]>, sym_name = \"mesh\"",
        "sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>",
        "mhlo.num_partitions = 4 : i32",
    ] {
        assert!(sharded.contains(part), "{part} in {sharded}");
    }
    for form in ["artifact", "mlirbc"] {
        let others = text(&format!("others.{form}"));
        for part in [
            "x.text = \"a\\22b\\\\\\0A\\C3\\A9\"",
            "\"x.odd key\" = [1 : i8, -1 : i64, 255 : ui8, 1.5 : bf16, 0x7FC0 : bf16",
        ] {
            assert!(others.contains(part), "{part} in {others}");
        }
    }
}

#[test]
fn damage_never_panics() {
    for (path, code) in programs() {
        for at in damaged_places(code.len(), 4).skip(1) {
            for byte in [0, 1, 0xff, code[at].wrapping_add(2)] {
                let mut changed = code.clone();
                changed[at] = byte;
                if let Err(error) = Module::decode(&changed).and_then(|module| module.text()) {
                    let kinds = [Kind::InvalidFile, Kind::InvalidInput, Kind::UnsupportedProgram];
                    assert!(kinds.contains(&error.kind()), "{path}: {error}");
                }
            }
        }
        for len in damaged_places(code.len(), 4) {
            assert!(Module::decode(&code[..len]).is_err(), "{path} of {len} bytes");
        }
    }
}
