//! Serialized executables and the cache of compiled programs, on the real CPU plugin.

mod common;

use common::{client, client_of, device, download, program, upload_to};
use pjrt_base::{error::Kind, error::Result};
use pjrt_core::cache::{Cache, Counts, InProcess};
use pjrt_core::compile;
use pjrt_core::executable::execute::{Dispatch, ExecuteOptions};
use pjrt_core::executable::options::{CompileOptions, OptionValue};
use pjrt_core::executable::serialized::{Destination, Serialized};
use pjrt_core::executable::{Origin, Placement};
use pjrt_core::{Buffer, Client, Device, Executable};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

fn run(executable: &Executable, inputs: &[&Buffer]) -> Vec<f32> {
    download(&executable.execute(inputs, &ExecuteOptions::default()).unwrap()[0])
}

fn destination<'a>(client: &'a Client, devices: &'a [Device]) -> Destination<'a> {
    Destination { client, devices, options: None, dispatch: Dispatch::Auto }
}

fn load(bytes: &[u8], devices: &[Device]) -> Result<Executable> {
    Serialized::read(bytes)?.load(&destination(client(), devices), None)
}

fn add(scale: u32) -> String {
    format!(
        "func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {{
  %c = stablehlo.constant dense<{scale}.0> : tensor<2xf32>
  %0 = stablehlo.multiply %x, %c : tensor<2xf32>
  %1 = stablehlo.add %0, %y : tensor<2xf32>
  return %1 : tensor<2xf32>
}}"
    )
}

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("pjrt-cache-{name}-{}", std::process::id())))
    }

    /// The cache in this folder, as a new process sees it.
    fn in_process(&self) -> (Cache, Arc<InProcess>) {
        let in_process = Arc::new(InProcess::default());
        (Cache::new(&self.0, 1 << 30, in_process.clone()), in_process)
    }

    fn entries(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "pjrtx")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compile(cache: &Cache, text: &str, options: &CompileOptions) -> Executable {
    let devices = options.assigned_devices(client()).unwrap();
    compile::compile(Some(cache), &devices, &program(text), options).unwrap()
}

fn counts(in_process: &InProcess) -> (u64, u64, u64, u64) {
    let Counts { hits, shared, misses, errors, .. } = in_process.counts();
    (hits, shared, misses, errors)
}

#[test]
fn a_loaded_executable_is_as_good_as_a_compiled_one() {
    let text = "module attributes {mhlo.layout_mode = \"default\"} {
  func.func public @main(%first: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}, %second: tensor<2x3xf32>)
      -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}, tensor<2x3xf32>) {
    %0 = stablehlo.add %first, %second : tensor<2x3xf32>
    %1 = stablehlo.exponential %first : tensor<2x3xf32>
    return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
  }
}";
    let compiled = Executable::compile(&[device(0)], &program(text), &CompileOptions::default()).unwrap();
    let loaded = load(&compiled.serialize(None).unwrap(), &[]).unwrap();
    assert_eq!((compiled.origin(), loaded.origin()), (Origin::Compiled, Origin::Saved));
    assert_eq!(format!("{:?}", loaded.signature()), format!("{:?}", compiled.signature()));
    assert_eq!(loaded.signature().inputs[0].name, "%first");
    assert_eq!(loaded.signature().aliases, [None, Some(0)]);
    assert_eq!(loaded.signature().outputs[0].minor_to_major.as_deref(), Some(&[0, 1][..]));
    assert!(matches!(loaded.placement(), Placement::Fixed(devices) if devices == &[0]));
    assert_eq!(loaded.costs().unwrap(), compiled.costs().unwrap());
    assert_eq!(loaded.memory_stats().unwrap(), compiled.memory_stats().unwrap());
    assert_eq!(loaded.fingerprint().unwrap(), compiled.fingerprint().unwrap());
    assert_eq!(loaded.optimized_module().unwrap().text(), compiled.optimized_module().unwrap().text());
    assert_eq!(loaded.counts(), (1, 1));
    assert_eq!(loaded.compile_time(), compiled.compile_time());
    let (x, y) = (upload_to(&device(0), &[2, 3], &[1.0; 6]), upload_to(&device(0), &[2, 3], &[2.0; 6]));
    assert_eq!(run(&loaded, &[&x, &y]), [3.0; 6]);
    let error = loaded.execute(&[&x, &y], &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::DeletedBuffer, "the first run took the first input");
    // A loaded executable can be saved and loaded again.
    let again = load(&load(&loaded.serialize(None).unwrap(), &[]).unwrap().serialize(None).unwrap(), &[]).unwrap();
    let x = upload_to(&device(0), &[2, 3], &[1.0; 6]);
    assert_eq!(run(&again, &[&x, &y]), [3.0; 6]);
}

#[test]
fn an_executable_moves_to_another_device() {
    let compiled = Executable::compile(&[device(0)], &program(&add(1)), &CompileOptions::default()).unwrap();
    let bytes = compiled.serialize(None).unwrap();
    let moved = load(&bytes, &[device(1)]).unwrap();
    assert!(matches!(moved.placement(), Placement::Fixed(devices) if devices == &[1]));
    let there = upload_to(&device(1), &[2], &[1.0, 2.0]);
    assert_eq!(run(&moved, &[&there, &there]), [2.0, 4.0]);
    let here = upload_to(&device(0), &[2], &[1.0, 2.0]);
    let error = moved.execute(&[&here, &here], &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::DeviceMismatch);
    let assigned = CompileOptions { device_assignment: Some(vec![1]), ..Default::default() };
    let by_options = Destination { options: Some(&assigned), ..destination(client(), &[]) };
    let moved = Serialized::read(&bytes).unwrap().load(&by_options, None).unwrap();
    assert_eq!(run(&moved, &[&there, &there]), [2.0, 4.0]);
    // A moved executable is saved for its new device, which a client of one device does not have.
    let saved = moved.serialize(None).unwrap();
    let small = client_of(1);
    let error = Serialized::read(&saved).unwrap().load(&destination(&small, &[]), None).unwrap_err();
    assert_eq!(error.kind(), Kind::SerializedMismatch);
    assert!(error.message().contains("device 1"), "{error}");
    let first: Vec<Device> = small.devices().collect();
    let moved = Serialized::read(&saved).unwrap().load(&destination(&small, &first), None).unwrap();
    let x = upload_to(&first[0], &[2], &[3.0, 4.0]);
    assert_eq!(run(&moved, &[&x, &x]), [6.0, 8.0]);
}

#[test]
fn a_portable_executable_runs_on_either_device_after_loading() {
    let options = CompileOptions { compile_portable_executable: true, ..Default::default() };
    let compiled = Executable::compile(&[device(0)], &program(&add(1)), &options).unwrap();
    let loaded = load(&compiled.serialize(None).unwrap(), &[]).unwrap();
    assert!(matches!(loaded.placement(), Placement::Portable));
    for index in 0..2 {
        let x = upload_to(&device(index), &[2], &[1.0, 2.0]);
        assert_eq!(run(&loaded, &[&x, &x]), [2.0, 4.0]);
    }
}

#[test]
fn replicas_and_partitions_run_after_loading() {
    let replicas = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}";
    let partitions = "module {
  sdy.mesh @mesh = <[\"d\"=2]>
  func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"d\"}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}";
    let two = CompileOptions { num_replicas: Some(2), ..Default::default() };
    let cut = CompileOptions { num_partitions: Some(2), ..Default::default() };
    let devices = [device(0), device(1)];
    for (text, options, expected) in [(replicas, two, vec![4.0, 6.0]), (partitions, cut, vec![10.0])] {
        let compiled = Executable::compile(&devices, &program(text), &options).unwrap();
        let loaded = load(&compiled.serialize(None).unwrap(), &[]).unwrap();
        assert!(matches!(loaded.placement(), Placement::Fixed(devices) if devices == &[0, 1]));
        let parts = [upload_to(&device(0), &[2], &[1.0, 2.0]), upload_to(&device(1), &[2], &[3.0, 4.0])];
        let outputs = loaded.execute_sharded(&[&[&parts[0]], &[&parts[1]]], &ExecuteOptions::default()).unwrap();
        outputs.iter().for_each(|outputs| assert_eq!(download(&outputs[0]), expected));
        // It needs the number of devices that it was compiled for, and options cannot change that.
        let bytes = compiled.serialize(None).unwrap();
        assert_eq!(load(&bytes, &[device(0)]).unwrap_err().kind(), Kind::InvalidInput);
        let one = CompileOptions { num_replicas: Some(1), num_partitions: Some(1), ..Default::default() };
        let other = Destination { options: Some(&one), ..destination(client(), &[]) };
        let error = Serialized::read(&bytes).unwrap().load(&other, None).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
        assert!(error.message().contains("cannot change"), "{error}");
    }
}

#[test]
fn no_flipped_byte_reaches_the_plugin() {
    let compiled = Executable::compile(&[device(0)], &program(&add(1)), &CompileOptions::default()).unwrap();
    let whole = compiled.serialize(None).unwrap();
    for i in (0..whole.len()).step_by(50) {
        let mut flipped = whole.clone();
        flipped[i] ^= 0xff;
        let kind = load(&flipped, &[]).unwrap_err().kind();
        assert!([Kind::SerializedInvalid, Kind::SerializedMismatch].contains(&kind), "byte {i}: {kind:?}");
    }
}

#[test]
fn a_program_is_compiled_once() {
    let folder = Folder::new("once");
    let (cache, in_process) = folder.in_process();
    let options = CompileOptions::default();
    let first = compile(&cache, &add(1), &options);
    assert_eq!((first.origin(), counts(&in_process)), (Origin::Missed, (0, 0, 1, 0)));
    let same = compile(&cache, &add(1), &options);
    assert!(same.downgrade() == first.downgrade(), "somebody has it");
    assert_eq!(counts(&in_process), (0, 1, 1, 0));
    drop((first, same));
    assert_eq!(compile(&cache, &add(1), &options).origin(), Origin::Cache);
    let (other, in_process) = folder.in_process();
    let loaded = compile(&other, &add(1), &options);
    assert_eq!((loaded.origin(), counts(&in_process)), (Origin::Cache, (1, 0, 0, 0)));
    let x = upload_to(&device(0), &[2], &[1.0, 2.0]);
    assert_eq!(run(&loaded, &[&x, &x]), [2.0, 4.0]);
    let list = other.list();
    assert_eq!((list.len(), other.size().0), (1, 1));
    let header = list[0].header.as_ref().unwrap();
    assert_eq!((header.name.as_str(), header.target.platform.as_str()), ("main", "cpu"));
    assert!(header.compile_seconds > 0.0 && header.created > 1_600_000_000);
    drop(loaded);
    // on a busy machine, a load may take longer than the compilation did
    let saves_time = || {
        let (cache, in_process) = folder.in_process();
        assert_eq!(compile(&cache, &add(1), &options).origin(), Origin::Cache);
        in_process.counts().saved > std::time::Duration::ZERO
    };
    assert!((0..100).any(|_| saves_time()));
}

#[test]
fn everything_that_changes_the_program_changes_the_key() {
    let folder = Folder::new("key");
    let (cache, in_process) = folder.in_process();
    let plain = CompileOptions::default();
    let all = [
        plain.clone(),
        CompileOptions { optimization_level: Some(0), ..plain.clone() },
        CompileOptions { optimization_level: Some(1), ..plain.clone() },
        CompileOptions { use_shardy_partitioner: Some(false), ..plain.clone() },
        CompileOptions { compile_portable_executable: true, ..plain.clone() },
        CompileOptions { device_assignment: Some(vec![1]), ..plain.clone() },
        CompileOptions {
            debug_options: [("xla_cpu_enable_fast_math".into(), OptionValue::Bool(true))].into(),
            ..plain.clone()
        },
    ];
    for options in &all {
        compile(&cache, &add(1), options);
    }
    compile(&cache, &add(2), &plain);
    compile(&cache, &format!("{} ", add(1)), &plain);
    assert_eq!(counts(&in_process), (0, 0, all.len() as u64 + 2, 0));
    assert_eq!(folder.entries().len(), all.len() + 2);
    let inline = CompileOptions { dispatch: Dispatch::Inline, ..plain };
    let mine = compile(&cache, &add(1), &inline);
    assert_eq!(mine.origin(), Origin::Cache, "the compiler does not depend on how programs are launched");
}

#[test]
fn a_client_with_another_number_of_devices_hits_the_cache() {
    let folder = Folder::new("devices");
    let (cache, in_process) = folder.in_process();
    compile(&cache, &add(1), &CompileOptions::default());
    let small = client_of(1);
    let devices: Vec<Device> = small.devices().collect();
    let here = compile::compile(Some(&cache), &devices, &program(&add(1)), &CompileOptions::default()).unwrap();
    assert_eq!((here.origin(), counts(&in_process)), (Origin::Cache, (1, 0, 1, 0)));
    let x = upload_to(&devices[0], &[2], &[1.0, 2.0]);
    assert_eq!(run(&here, &[&x, &x]), [2.0, 4.0]);
}

#[test]
fn a_bad_entry_is_dropped_and_compiled_afresh() {
    let folder = Folder::new("bad");
    let options = CompileOptions::default();
    let x = upload_to(&device(0), &[2], &[1.0, 2.0]);
    compile(&folder.in_process().0, &add(1), &options);
    let path = folder.entries().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let foreign = {
        let other = Folder::new("foreign");
        compile(&other.in_process().0, &add(5), &options);
        fs::read(other.entries().pop().unwrap()).unwrap()
    };
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bad in [&b""[..], b"nonsense", &whole[..whole.len() - 1], &flipped, &foreign] {
        fs::write(&path, bad).unwrap();
        let (cache, in_process) = folder.in_process();
        let executable = compile(&cache, &add(1), &options);
        assert_eq!((executable.origin(), counts(&in_process)), (Origin::Missed, (0, 0, 1, 1)));
        assert_eq!(run(&executable, &[&x, &x]), [2.0, 4.0]);
        let messages = in_process.take_messages();
        assert!(messages.len() == 1 && messages[0].contains("dropped"), "{messages:?}");
        assert_eq!(compile(&folder.in_process().0, &add(1), &options).origin(), Origin::Cache, "it was written anew");
    }
}

#[test]
fn an_unusable_cache_folder_does_not_fail_a_compile() {
    let folder = Folder::new("no-folder");
    fs::write(&folder.0, "a file").unwrap();
    let in_process = Arc::new(InProcess::default());
    let cache = Cache::new(&folder.0.join("executables"), 1 << 30, in_process.clone());
    let executable = compile(&cache, &add(1), &CompileOptions::default());
    assert_eq!(executable.origin(), Origin::Missed);
    assert_eq!(in_process.counts().misses, 1);
    assert!(in_process.take_messages().iter().any(|message| message.contains("cannot keep")));
    fs::remove_file(&folder.0).unwrap();
}

#[test]
fn a_compile_that_dumps_files_is_never_taken_from_the_cache() {
    let folder = Folder::new("dump");
    let (cache, in_process) = folder.in_process();
    let dump = folder.0.join("dump");
    let name = "xla_dump_to".to_owned();
    let value = OptionValue::String(dump.to_string_lossy().into_owned());
    let options = CompileOptions { debug_options: [(name, value)].into(), ..Default::default() };
    for _ in 0..2 {
        assert_eq!(compile(&cache, &add(1), &options).origin(), Origin::Compiled);
        assert!(fs::read_dir(&dump).unwrap().count() > 0);
        fs::remove_dir_all(&dump).unwrap();
    }
    assert_eq!((counts(&in_process), folder.entries().len()), ((0, 0, 0, 0), 0));
}

#[test]
fn many_threads_share_one_executable() {
    let folder = Folder::new("threads");
    let (cache, _) = folder.in_process();
    let text = add(1);
    let all: Vec<_> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| compile(&cache, &text, &CompileOptions::default()));
        let threads: Vec<_> = (0..4).map(|_| one()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|executable| executable.downgrade() == all[0].downgrade()));
    assert_eq!(folder.entries().len(), 1);
}
