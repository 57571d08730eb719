//! Topologies without devices: the CPU plugin refuses them, and a fake plugin, which the C compiler makes, creates them.

use pjrt_base::error::{Kind, INVALID_ARGUMENT, UNIMPLEMENTED};
use pjrt_base::sync::Unpoisoned;
use pjrt_core::client::topology::{AbsentTopology, System};
use pjrt_core::compile::queue::compile_for;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Client, Plugin, PluginValue};
use pjrt_program::program::{Format, Program};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/fake-topology.c");

/// Builds and loads a fake plugin that has this oddity. Each has its own counts.
fn load(oddity: &str) -> &'static Plugin {
    static ALONE: Mutex<()> = Mutex::new(());
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("topology-{oddity}.so"));
    let mut cc = Command::new("cc");
    assert!(cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(SOURCE).status().unwrap().success());
    let _alone = ALONE.lock().unpoisoned();
    // Only the fake plugin reads this, under the lock.
    std::env::set_var("PJRT_FAKE", oddity);
    Plugin::load(&library).unwrap()
}

fn attribute(made: &AbsentTopology, name: &str) -> Option<PluginValue> {
    made.topology().attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

#[test]
fn a_topology_of_several_processes_is_described() {
    let plugin = load("none");
    let made = AbsentTopology::create(plugin, "abacus", "2x4", &[]).unwrap();
    let found = made.topology();
    assert_eq!((found.platform.as_str(), found.platform_version.as_str()), ("abacus", "beads 2"));
    assert_eq!(found.serialized.as_deref(), Some(&b"beads 8"[..]));
    let devices: Vec<_> = found.devices.iter().map(|d| (d.id, d.process_index, d.label.as_str())).collect();
    assert_eq!(devices[..2], [(0, 0, "abacus:0"), (1, 0, "abacus:1")]);
    assert_eq!((devices[7], devices.len()), ((7, 1, "abacus:7"), 8));
    assert!(found.devices.iter().all(|device| device.kind == "abacus" && device.attributes.is_empty()));
    let default = AbsentTopology::create(plugin, "abacus", "", &[]).unwrap();
    assert_eq!(default.topology().devices.len(), 1);
}

#[test]
fn every_topology_is_destroyed_once_even_after_a_failure() {
    let plugin = load("counted");
    let living = || {
        let made = AbsentTopology::create(plugin, "abacus", "", &[]).unwrap();
        attribute(&made, "living").unwrap()
    };
    assert_eq!(living(), PluginValue::Int(1));
    let kept: Vec<_> = (0..3).map(|_| AbsentTopology::create(plugin, "abacus", "1x2", &[]).unwrap()).collect();
    assert_eq!(living(), PluginValue::Int(4));
    drop(kept);
    for _ in 0..5 {
        let error =
            AbsentTopology::create(plugin, "abacus", "", &[("fails".into(), PluginValue::Bool(true))]).unwrap_err();
        assert_eq!((error.code(), error.call_name()), (Some(13), Some("PJRT_TopologyDescription_Attributes")));
        assert_eq!(error.message(), "The beads are lost.");
    }
    assert_eq!(living(), PluginValue::Int(1));
    let made = AbsentTopology::create(plugin, "abacus", "", &[]).unwrap();
    std::thread::spawn(move || drop(made)).join().unwrap();
    assert_eq!(living(), PluginValue::Int(1));
}

#[test]
fn options_of_every_type_reach_the_plugin() {
    let plugin = load("options");
    let options = [
        ("text".to_owned(), PluginValue::String("a text".into())),
        ("whole".into(), PluginValue::Int(1 << 40)),
        ("wholes".into(), PluginValue::IntList(vec![1, -2, 3])),
        ("number".into(), PluginValue::Float(0.25)),
        ("flag".into(), PluginValue::Bool(true)),
    ];
    let made = AbsentTopology::create(plugin, "abacus", "", &options).unwrap();
    for (name, value) in &options {
        assert_eq!(attribute(&made, name).as_ref(), Some(value), "{name}");
    }
}

#[test]
fn bad_names_and_options_are_the_plugins_errors() {
    let plugin = load("strict");
    for name in ["beads", "2x", "0x1", "2x4x1", "100x100", "a name that is far too long"] {
        let error = AbsentTopology::create(plugin, "abacus", name, &[]).unwrap_err();
        assert_eq!(error.code(), Some(INVALID_ARGUMENT), "{name}");
        assert!(error.message().contains("name"), "{error}");
    }
    for option in
        [("other", PluginValue::Bool(true)), ("text", PluginValue::Int(1)), ("whole", PluginValue::String("1".into()))]
    {
        let error = AbsentTopology::create(plugin, "abacus", "", &[(option.0.into(), option.1)]).unwrap_err();
        assert_eq!(error.code(), Some(INVALID_ARGUMENT));
    }
}

#[test]
fn a_plugin_that_cannot_create_topologies_is_named() {
    let create = |oddity| AbsentTopology::create(load(oddity), "abacus", "", &[]);
    for oddity in ["no-create", "short"] {
        let error = create(oddity).unwrap_err();
        assert_eq!(error.kind(), Kind::UnsupportedCall, "{oddity}");
        assert!(error.message().contains("PJRT_TopologyDescription_Create"), "{error}");
    }
    let error = create("unimplemented").unwrap_err();
    assert_eq!(error.code(), Some(UNIMPLEMENTED));
    assert!(error.message().contains("not supported by this plugin (abacus)") && error.hints().len() == 1, "{error}");
    assert_eq!(create("null-topology").unwrap_err().kind(), Kind::Internal);
    assert_eq!(create("no-bytes").unwrap().topology().serialized, None);
}

#[test]
fn the_cpu_plugin_compiles_for_a_topology_if_it_is_new_enough() {
    let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
    let plugin = Plugin::load(path.as_ref()).unwrap();
    let client = Client::create(plugin, &[]).unwrap();
    let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    let program = Program::new(text.into(), Format::Mlir).unwrap();
    let compiled = compile_for(&System::OfClient(client), &program, &CompileOptions::default(), None);
    if plugin.api().version().1 >= 115 {
        compiled.unwrap();
        return;
    }
    let error = compiled.unwrap_err();
    assert_eq!(error.code(), Some(UNIMPLEMENTED));
    let start = "Compiling for a topology is not supported by this plugin (cpu): No compiler ";
    assert!(error.message().starts_with(start) && error.hints().len() == 1, "{error}");
}

#[test]
fn the_cpu_plugin_refuses() {
    let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
    let plugin = Plugin::load(path.as_ref()).unwrap();
    for name in ["", "1x1x8"] {
        let error = AbsentTopology::create(plugin, "cpu", name, &[]).unwrap_err();
        assert_eq!(error.code(), Some(UNIMPLEMENTED));
        assert!(error.message().contains("not supported by this plugin (cpu)"), "{error}");
    }
}
