//! Plugins that lack functions: the real CPU plugin without some of them.

use pjrt_base::error::{Error, Result};
use pjrt_base::sync::Unpoisoned;
use pjrt_core::executable::{execute::ExecuteOptions, options::CompileOptions};
use pjrt_core::{Buffer, Client, Executable, Plugin, PluginValue};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_program::program::{Format, Program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/omitting-plugin.c");
const BINDINGS: &str = include_str!("../../sys/src/bindings.rs");

/// The functions without which nothing can be done: an array comes to a device, a program runs, the result comes back.
const NEEDED: [&str; 20] = [
    "PJRT_Error_Destroy",
    "PJRT_Error_Message",
    "PJRT_Error_GetCode",
    "PJRT_Client_Create",
    "PJRT_Client_Destroy",
    "PJRT_Client_PlatformName",
    "PJRT_Client_AddressableDevices",
    "PJRT_Client_Compile",
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_Device_GetDescription",
    "PJRT_DeviceDescription_Id",
    "PJRT_LoadedExecutable_Destroy",
    "PJRT_LoadedExecutable_GetExecutable",
    "PJRT_LoadedExecutable_Execute",
    "PJRT_Executable_Destroy",
    "PJRT_Buffer_Destroy",
    "PJRT_Buffer_ReadyEvent",
    "PJRT_Buffer_ToHostBuffer",
    "PJRT_Event_Destroy",
    "PJRT_Event_Await",
];

/// The functions of the table, with their offsets.
fn functions() -> Vec<(&'static str, usize)> {
    let (_, rest) = BINDINGS.split_once("layout! { PJRT_Api, ").unwrap();
    let (fields, _) = rest.split_once('}').unwrap();
    let field = |field: &'static str| {
        let (name, offset) = field.trim().split_once(": ")?;
        let name = name.rsplit([';', ' ']).next()?;
        name.contains('_').then(|| (name, offset.trim().parse().unwrap()))
    };
    fields.split(',').filter_map(field).filter(|(name, _)| name.starts_with("PJRT_")).collect()
}

/// Loads a copy of the CPU plugin without the functions at some offsets, and with others that refuse every call.
fn load(omitted: &[usize], refusing: &[usize]) -> Result<&'static Plugin> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    static COPIES: Mutex<u32> = Mutex::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = BUILT.get_or_init(|| {
        let library = folder.join("omitting.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(SOURCE);
        assert!(cc.status().unwrap().success());
        library
    });
    let mut copies = COPIES.lock().unpoisoned();
    *copies += 1;
    let copy = folder.join(format!("omitting-{copies}.so"));
    std::fs::copy(built, &copy).unwrap();
    let list = |offsets: &[usize]| offsets.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let real = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
    // Only this plugin reads them, under the lock.
    std::env::set_var("PJRT_REAL_PLUGIN", real);
    std::env::set_var("PJRT_OMIT", list(omitted));
    std::env::set_var("PJRT_REFUSE", list(refusing));
    Plugin::load(&copy)
}

const PROGRAM: &str =
    "module @sums { func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32> {tf.aliasing_output = 1 : i32})
    -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  %1 = stablehlo.multiply %x, %y : tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
} }";

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

fn bytes(values: [f32; 6]) -> Vec<u8> {
    values.map(f32::to_ne_bytes).concat()
}

/// What every plugin can do: calculates, and returns whether the results are right.
fn calculate(plugin: &'static Plugin) -> Result<()> {
    let client = Client::create(plugin, &[("cpu_device_count".into(), PluginValue::Int(2))])?;
    let devices: Vec<_> = client.devices().collect();
    let spec = Spec::new(DType::F32, &[2, 3])?;
    let upload = |values| Buffer::from_bytes(&devices[0], spec.clone(), &bytes(values));
    let (x, y) = (upload([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, upload([2.0; 6])?);
    let program = Program::new(PROGRAM.into(), Format::Mlir)?;
    let executable = Executable::compile(&devices[..1], &program, &CompileOptions::default())?;
    let signature = executable.signature();
    assert!(signature.name.contains("sums"), "{}", signature.name);
    assert_eq!((&*signature.inputs[1].name, signature.inputs[1].donated), ("%y", true));
    assert_eq!(*signature.outputs[1], spec);
    let outputs = executable.execute(&[&x, &y], &ExecuteOptions::default())?;
    assert!(y.is_donated());
    assert_eq!(floats(outputs[0].read()?.bytes()), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(floats(outputs[1].start_read()?.wait()?.view().bytes()), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    let mut part = [0u8; 8];
    outputs[0].wait()?.read_range(8, &mut part)?;
    assert_eq!(floats(&part), [5.0, 6.0]);
    let copy = outputs[0].copy_to(&devices[1])?;
    assert_eq!((copy.device_index(), floats(copy.read()?.bytes())), (1, floats(outputs[0].read()?.bytes())));
    copy.memory()?;
    copy.delete()?;
    assert!(copy.is_dead());
    Ok(())
}

/// What a plugin need not be able to do. Returns the errors.
fn ask(plugin: &'static Plugin) -> Result<Vec<Error>> {
    let client = Client::create(plugin, &[])?;
    let device = client.devices().next().unwrap();
    let program = Program::new(PROGRAM.into(), Format::Mlir)?;
    let executable = Executable::compile(std::slice::from_ref(&device), &program, &CompileOptions::default())?;
    let x = Buffer::from_bytes(&device, Spec::new(DType::F32, &[2, 3])?, &bytes([1.0; 6]))?;
    executable.memory_kinds();
    let memory = client.memories().next();
    let errors = [
        x.is_ready().err(),
        memory.and_then(|memory| x.copy_to_memory(&memory).err()),
        x.device_address().err(),
        x.lend().err(),
        executable.fingerprint().err(),
        executable.costs().err(),
        executable.code_bytes().err(),
        executable.memory_stats().err(),
        executable.optimized_module().err(),
        client.topology().err(),
        executable.serialize(None).err(),
    ];
    Ok(errors.into_iter().flatten().collect())
}

/// Checks a plugin without each function, which `load` makes from its place.
fn check_each(load: impl Fn(usize) -> Result<&'static Plugin>) {
    let all = functions();
    assert!(all.len() > 100 && NEEDED.iter().all(|name| all.iter().any(|(other, _)| other == name)));
    for (name, offset) in all {
        let plugin = match load(offset) {
            Ok(plugin) => plugin,
            Err(error) => {
                assert!(NEEDED.contains(&name), "{name}: {error}");
                continue;
            }
        };
        if let Err(error) = calculate(plugin) {
            assert!(NEEDED.contains(&name), "{name}: {error}");
            assert!(error.is_unsupported() || name.starts_with("PJRT_Error_"), "{name}: {error}");
            assert_eq!(error.call_name(), Some(name), "{error}");
            continue;
        }
        for error in ask(plugin).unwrap() {
            // newer plugins implement no costs, and the code that says so is not there
            let has_no_code =
                name == "PJRT_Error_GetCode" && error.call_name() == Some("PJRT_Executable_GetCostAnalysis");
            assert!(error.is_unsupported() || has_no_code, "{name}: {error}");
        }
    }
}

#[test]
fn a_plugin_without_a_function_works_or_names_it() {
    check_each(|offset| load(&[offset], &[]));
}

#[test]
fn a_plugin_that_refuses_a_function_works_or_names_it() {
    check_each(|offset| load(&[], &[offset]));
}

#[test]
fn a_plugin_with_nothing_but_what_is_needed_works() {
    let omitted: Vec<_> = functions().iter().filter(|(name, _)| !NEEDED.contains(name)).map(|&(_, at)| at).collect();
    for plugin in [load(&omitted, &[]).unwrap(), load(&[], &omitted).unwrap()] {
        calculate(plugin).unwrap();
        for error in ask(plugin).unwrap() {
            assert!(error.is_unsupported(), "{error}");
            assert!(error.call_name().is_some(), "{error}");
        }
    }
}
