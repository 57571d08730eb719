//! Versions and features of a plugin before any device is used, with a fake plugin that the C compiler makes.

use pjrt_base::sync::Unpoisoned;
use pjrt_base::trace::{self, Activity, Lane, Record};
use pjrt_base::{error::Error, error::Kind};
use pjrt_core::runtime::profiler::{self, Profiler};
use pjrt_core::{Client, Plugin, PluginValue};
use pjrt_program::profile::{options, read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/fake-plugin.c");

/// A folder for libraries.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn build(source: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let library = Path::new(FOLDER).join(name);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).args(flags);
    assert!(cc.status().unwrap().success());
    library
}

fn build_text(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let file = Path::new(FOLDER).join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    build(&file, name, flags)
}

/// Loads a copy of the fake plugin that has this oddity.
fn load(oddity: &str) -> Result<&'static Plugin, Error> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    static ODDITY: Mutex<()> = Mutex::new(());
    let built = BUILT.get_or_init(|| build(Path::new(SOURCE), "fake.so", &[]));
    let copy = Path::new(FOLDER).join(format!("fake-{oddity}.so"));
    std::fs::copy(built, &copy).unwrap();
    let _alone = ODDITY.lock().unpoisoned();
    // Only the fake plugin reads this, under the lock.
    std::env::set_var("PJRT_FAKE", oddity);
    let plugin = Plugin::load(&copy);
    let _ = std::fs::remove_file(copy);
    plugin
}

fn attribute(plugin: &Plugin, name: &str) -> PluginValue {
    plugin.attributes().iter().find(|(key, _)| key == name).unwrap().1.clone()
}

fn numbers(plugin: &Plugin) -> Vec<u32> {
    plugin.extensions().iter().map(|extension| extension.number).collect()
}

#[test]
fn attributes_of_every_type_are_read() {
    let plugin = load("none").unwrap();
    assert_eq!(plugin.api().version(), (0, 90));
    assert_eq!(attribute(plugin, "text"), PluginValue::String("a text".into()));
    assert_eq!(attribute(plugin, "counted_end"), PluginValue::String("text".into()));
    assert_eq!(attribute(plugin, "no_text"), PluginValue::String(String::new()));
    assert_eq!(attribute(plugin, "exact"), PluginValue::Int(9_007_199_254_740_993));
    assert_eq!(attribute(plugin, "integers"), PluginValue::IntList(vec![1, -2, 3]));
    assert_eq!(attribute(plugin, "no_integers"), PluginValue::IntList(Vec::new()));
    assert_eq!(attribute(plugin, "number"), PluginValue::Float(0.25));
    assert_eq!(attribute(plugin, "flag"), PluginValue::Bool(true));
    assert_eq!(attribute(plugin, "unknown"), PluginValue::Unknown);
    assert_eq!(plugin.stablehlo_versions(), None);
}

#[test]
fn older_and_newer_plugins_work_for_the_calls_they_have() {
    let create = |plugin| Client::create(plugin, &[]).unwrap_err();
    let older = load("older").unwrap();
    assert_eq!(older.api().version(), (0, 40));
    let error = create(older);
    assert_eq!((error.kind(), error.call_name()), (Kind::UnsupportedCall, Some("PJRT_Client_Create")));
    assert!(error.message().contains("0.40") && error.hints()[0].contains("newer plugin"), "{error}");
    // It refuses argument structs without its newest fields, and finds zeros there.
    let newer = load("newer").unwrap();
    assert_eq!(attribute(newer, "integer"), PluginValue::Int(-7));
    assert_eq!(create(newer).code(), Some(9));
    let error = load("much-newer").unwrap_err();
    assert_eq!(error.code(), Some(3));
    assert!(error.hints()[0].contains("0.200"), "{error}");
    let error = create(load("no-client-create").unwrap());
    assert_eq!(error.kind(), Kind::UnsupportedCall);
    assert!(error.hints()[0].contains("omits it"), "{error}");
}

#[test]
fn an_invalid_table_is_refused() {
    for (oddity, message) in [
        ("null", "returned no function table"),
        ("major", "PJRT API 1.90"),
        ("truncated", "truncated (56 bytes)"),
        ("empty", "truncated (0 bytes)"),
        ("only-size", "truncated (8 bytes)"),
        ("huge", "claims an impossible size"),
        ("crooked", "is not a function table"),
    ] {
        let error = load(oddity).unwrap_err();
        assert_eq!(error.kind(), Kind::PluginInvalid, "{oddity}");
        assert!(error.message().contains(message), "{error}");
        assert!(error.message().contains(&format!("fake-{oddity}.so")), "{error}");
    }
}

#[test]
fn a_setup_that_fails_says_what_the_plugin_says() {
    for (oddity, code, message) in [
        ("initialize-fails", 14, "The device sleeps."),
        ("silent", 13, "without an error message"),
        ("strange-code", 4711, "What is this?"),
        ("error-in-error", 2, "The device sleeps."),
        ("no-error-calls", 2, "without an error message"),
    ] {
        let error = load(oddity).unwrap_err();
        assert_eq!((error.code(), error.call_name()), (Some(code), Some("PJRT_Plugin_Initialize")), "{oddity}");
        assert!(error.message().contains(message), "{error}");
    }
    for oddity in ["no-setup", "attributes-fail", "null-attributes"] {
        assert!(load(oddity).unwrap().attributes().is_empty(), "{oddity}");
    }
}

#[test]
fn a_chain_of_extensions_is_followed_to_its_end() {
    let plugin = load("plain").unwrap();
    let found: Vec<_> = plugin.extensions().iter().map(|e| (e.number, e.name(), e.size)).collect();
    assert_eq!(found, [(5, Some("FFI"), 64), (777, None, 24)]);
    for oddity in ["cyclic-extensions", "short-extension", "crooked-extensions"] {
        assert_eq!(numbers(load(oddity).unwrap()), [5, 777], "{oddity}");
    }
    assert_eq!(numbers(load("no-extensions").unwrap()), [0; 0]);
}

#[test]
fn timelines_of_profilers_become_lanes_of_a_record() {
    let odd =
        ["create-fails", "start-fails", "stop-fails", "collect-fails", "damaged", "huge", "short", "complains", "late"];
    let quiet = ["null", "small", "empty"];
    for oddity in odd.iter().chain(&quiet) {
        load(&format!("profiler-{oddity}")).unwrap();
    }
    let plugin = load("profiler").unwrap();
    for _ in 0..2 {
        let mut failures = profiler::start_all();
        assert!(trace::start(100));
        std::thread::sleep(Duration::from_millis(50));
        let mut record = trace::stop().unwrap();
        failures.extend(profiler::stop_all(&mut record));
        let said = |oddity: &str| {
            let failures: Vec<_> =
                failures.iter().filter(|said| said.contains(&format!("fake-profiler-{oddity}.so"))).collect();
            assert_eq!(failures.len(), 1, "{oddity}: {failures:?}");
            failures[0].split_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(said("create-fails"), "You may not profile.");
        assert_eq!(said("start-fails"), "You may not start.");
        assert_eq!(said("stop-fails"), "It cannot stop.");
        assert_eq!(said("collect-fails"), "There is nothing to collect.");
        assert_eq!(said("damaged"), "The timeline is damaged.");
        assert_eq!(said("huge"), format!("The timeline is too large: {} bytes.", usize::MAX));
        assert_eq!(said("short"), "The plugin has no PLUGIN_Profiler_CollectData.");
        assert_eq!(said("complains"), "Some events were lost.");
        assert_eq!(said("late"), "All 1 events of the timeline lie outside of the time of the trace.");
        assert_eq!(failures.len(), odd.len(), "{failures:?}");
        // Two plugins have the same good timeline.
        assert_eq!(record.events.len(), 4);
        assert!(record.events.iter().all(|event| event.activity == Activity::Device && event.end <= record.length));
        let of = |name: &str| record.events.iter().find(|event| event.details.name == name).unwrap();
        let kernel = of("fused <kernel>");
        assert_eq!(
            (&kernel.lane, &*kernel.details.program),
            (&Lane::Device("GPU:0 stream 10 (Compute)".into()), "jit_f")
        );
        assert_eq!(kernel.end - kernel.start, Duration::from_millis(2));
        let before_end = record.length - kernel.start;
        assert!(before_end <= Duration::from_millis(10) && before_end > Duration::from_millis(2), "{before_end:?}");
        let copy = of("MemcpyH2D");
        assert_eq!((copy.start, copy.end, copy.details.bytes), (Duration::ZERO, Duration::from_millis(1), Some(4096)));
    }
    assert!(profiler::stop_all(&mut Record::default()).is_empty());

    // one that is dropped is stopped and destroyed, so that the next can be made
    drop(Profiler::start(plugin, &options()).unwrap().unwrap());
    let bytes = Profiler::start(plugin, &options()).unwrap().unwrap().stop().unwrap();
    assert_eq!(read(&bytes, 0).unwrap().lanes.len(), 2);
    let error = Profiler::start(plugin, b"").unwrap_err();
    assert_eq!((error.code(), error.call_name()), (Some(3), Some("PLUGIN_Profiler_Create")));
    assert!(Profiler::start(load("no-profiler").unwrap(), &options()).unwrap().is_none());
}

#[test]
fn code_of_a_file_that_is_not_a_plugin_never_runs() {
    let mark = Path::new(FOLDER).join("mark");
    let _ = std::fs::remove_file(&mark);
    let source = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void f(void) {{ fclose(fopen(\"{}\", \"w\")); }}",
        mark.display()
    );
    let library = build_text(&source, "other.so", &[]);
    let error = Plugin::load(&library).unwrap_err();
    assert_eq!(error.kind(), Kind::PluginInvalid);
    assert!(error.message().contains("GetPjrtApi"), "{error}");
    assert!(!mark.exists());
}

#[test]
fn a_missing_dependency_of_the_plugin_is_named() {
    let needed = build_text("int f(void) { return 1; }", "libpjrt-needed.so", &["-Wl,-soname,libpjrt-needed.so"]);
    let path = needed.to_str().unwrap();
    let source = "int f(void); void *GetPjrtApi(void) { static int table; return f() ? &table : 0; }";
    let plugin = build_text(source, "needing.so", &["-Wl,--no-as-needed", path]);
    std::fs::remove_file(&needed).unwrap();
    let error = Plugin::load(&plugin).unwrap_err();
    assert_eq!(error.kind(), Kind::LibraryMissing);
    assert!(error.message().contains("'libpjrt-needed.so', which the plugin needs"), "{error}");
}

#[test]
fn a_plugin_cut_short_is_refused() {
    let whole = std::fs::read(build(Path::new(SOURCE), "whole.so", &[])).unwrap();
    let cut = Path::new(FOLDER).join("cut.so");
    for len in (0..whole.len()).step_by(997) {
        std::fs::write(&cut, &whole[..len]).unwrap();
        assert_eq!(Plugin::load(&cut).unwrap_err().kind(), Kind::PluginInvalid, "{len} bytes");
    }
}
