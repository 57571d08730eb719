//! The crate on the real CPU plugin.

mod common;

use common::{client, device, download, floats, plugin, program, upload_to};
use pjrt_base::reason::{Hint, Reason};
use pjrt_base::{error::Kind, error::Result};
use pjrt_core::buffer::slice::{Axis, Slice};
use pjrt_core::executable::execute::{Dispatch, ExecuteOptions};
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Client, Compiling, Executable, HostMemory, Plugin, PluginValue};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_program::program::Format;
use pjrt_program::program::Program;
use std::path::Path;
use std::time::{Duration, Instant};

fn upload(dims: &[i64], values: &[f32]) -> Buffer {
    upload_to(&device(0), dims, values)
}

fn compile(text: &str) -> Result<Executable> {
    let program = Program::new(text.as_bytes().to_vec(), Format::Mlir)?;
    Executable::compile(&[device(0)], &program, &CompileOptions::default())
}

fn run(executable: &Executable, inputs: &[&Buffer]) -> Result<Vec<Buffer>> {
    Ok(executable.execute(inputs, &ExecuteOptions::default())?.into_vec())
}

const ADD: &str = "func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}";

const DONATING_ADD: &str =
    "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

/// Adds 1 to a scalar, `n` times: few operations at compile time, many at run time.
fn count_to(n: u64) -> String {
    format!(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {{
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %step = stablehlo.constant dense<1.0> : tensor<f32>
  %n = stablehlo.constant dense<{n}> : tensor<i64>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f32>
    cond {{
      %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i64>
      %w = stablehlo.add %v, %step : tensor<f32>
      %s = stablehlo.sine %w : tensor<f32>
      stablehlo.return %j, %s : tensor<i64>, tensor<f32>
    }}
  return %r#1 : tensor<f32>
}}"
    )
}

#[test]
fn the_plugin_describes_itself() {
    assert_eq!(plugin().api().version().0, 0);
    let names: Vec<_> = plugin().attributes().iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"stablehlo_current_version"), "{names:?}");
    assert!(plugin().extensions().iter().any(|extension| extension.name() == Some("FFI")));
    assert!(std::ptr::eq(plugin(), plugin()), "one plugin per library file");
}

#[test]
fn a_file_that_is_not_a_plugin_is_refused() {
    let missing = Plugin::load(Path::new("no/such/file.so")).unwrap_err();
    assert_eq!(missing.kind(), Kind::PluginNotFound);
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert_eq!(Plugin::load(&text).unwrap_err().kind(), Kind::PluginInvalid);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(Plugin::load(folder).unwrap_err().kind(), Kind::PluginInvalid);
}

#[test]
fn a_call_that_the_plugin_lacks_raises_an_error_that_names_it() {
    let api = plugin().api();
    let offset = std::mem::offset_of!(pjrt_sys::PJRT_Api, PJRT_Client_UpdateGlobalProcessInfo);
    assert!(api.reaches(0));
    // newer plugins have more functions than are known here
    assert_eq!(api.reaches(size_of::<pjrt_sys::PJRT_Api>()), api.version().1 > pjrt_sys::PJRT_API_MINOR as i32);
    let error = api.missing("PJRT_Client_UpdateGlobalProcessInfo", offset);
    assert_eq!(error.kind(), Kind::UnsupportedCall);
    assert!(error.to_string().contains("PJRT_Client_UpdateGlobalProcessInfo"), "{error}");
}

#[test]
fn client_options_that_abort_the_plugin_are_refused() {
    for bad in [
        PluginValue::Int(0),
        PluginValue::Int(-1),
        PluginValue::Int(1 << 33),
        PluginValue::Bool(true),
        PluginValue::Float(2.0),
    ] {
        let error = Client::create(plugin(), &[("cpu_device_count".into(), bad)]).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
    }
}

#[test]
fn a_client_knows_its_devices_and_memories() {
    assert_eq!(client().platform(), "cpu");
    let labels: Vec<_> = client().devices().map(|d| d.label().to_owned()).collect();
    assert_eq!(labels, ["CpuDevice(id=0)", "CpuDevice(id=1)"]);
    let kinds: Vec<_> = device(0).memories().map(|m| m.kind().to_owned()).collect();
    assert!(kinds.contains(&"device".to_owned()), "{kinds:?}");
    assert_eq!(device(0).default_memory().unwrap().kind(), "device");
    assert_eq!(upload(&[1], &[1.0]).memory().unwrap().unwrap().kind(), "device");
}

#[test]
fn facts_of_clients_and_devices_hold_for_any_number_of_devices() {
    for count in [1, 2, 4] {
        let client = Client::create(plugin(), &[("cpu_device_count".into(), PluginValue::Int(count as i64))]).unwrap();
        assert_eq!((client.process_index(), client.addressable_devices()), (0, count));
        assert!(client.all_devices().eq(client.devices()));
        for (i, device) in client.devices().enumerate() {
            let description = device.description();
            assert_eq!((device.index(), description.id, device.local_hardware_id()), (i, i as i32, i as i32));
            assert_eq!(description.process_index, 0);
            assert!(device.is_addressable() && device.check_addressable().is_ok());
            assert!(device.memories().all(|memory| memory.devices().eq([device.clone()])));
        }
        let own = client.devices().flat_map(|device| device.memories().collect::<Vec<_>>()).collect::<Vec<_>>();
        assert_eq!(client.memories().collect::<Vec<_>>(), own);

        let topology = client.topology().unwrap();
        assert_eq!((topology.platform.as_str(), topology.devices.len()), ("cpu", count));
        let labels = client.devices().map(|device| device.label().to_owned()).collect::<Vec<_>>();
        assert_eq!(topology.devices.iter().map(|device| device.label.clone()).collect::<Vec<_>>(), labels);
        assert_eq!(topology.serialized, client.topology().unwrap().serialized);
    }
}

#[test]
fn statistics_that_the_plugin_lacks_raise_an_error_that_says_so() {
    let error = device(0).memory_stats().unwrap_err();
    assert_eq!(error.kind(), Kind::Pjrt(12));
    assert!(error.message().contains("not supported by this plugin"), "{error}");
}

#[test]
fn buffers_are_copied_to_memory_spaces_also_before_they_are_made() {
    let slow = compile(&count_to(3_000_000)).unwrap();
    let made = upload(&[2], &[1.0, 2.0]);
    let coming = run(&slow, &[&upload(&[], &[0.5])]).unwrap().remove(0);
    assert_eq!(coming.memory().unwrap(), device(0).default_memory());
    for memory in client().memories() {
        for source in [&made, &coming] {
            let copy = source.copy_to_memory(&memory).unwrap();
            assert_eq!(copy.memory().unwrap(), Some(memory.clone()));
            assert!(memory.devices().eq([copy.device()]));
        }
    }
    assert!(!coming.is_ready().unwrap(), "the program must outlast the calls");
    let far = coming.copy_to_memory(&client().memories().last().unwrap()).unwrap();
    assert_eq!(download(&far), download(&coming));
    let other = Client::create(plugin(), &[("cpu_device_count".into(), PluginValue::Int(1))]).unwrap();
    for memory in other.memories() {
        let elsewhere = made.copy_to_memory(&memory).unwrap();
        assert_eq!(elsewhere.memory().unwrap(), Some(memory));
        assert!(elsewhere.client().same(&other));
        assert_eq!(download(&elsewhere), [1.0, 2.0]);
    }
}

#[test]
fn arrays_of_every_rank_survive_a_round_trip() {
    let dims: &[&[i64]] = &[&[], &[0], &[3], &[2, 0, 3], &[2, 3, 1, 1, 2, 1, 2]];
    for dims in dims {
        let n = dims.iter().product::<i64>() as usize;
        let values: Vec<f32> = (0..n).map(|i| i as f32 + 0.5).collect();
        let buffer = upload(dims, &values);
        assert_eq!(buffer.dims(), *dims);
        assert_eq!(download(&buffer), values);
        assert_eq!(floats(buffer.start_read().unwrap().wait().unwrap().view().bytes()), values);
    }
}

#[test]
fn uploads_use_the_memory_they_were_given() {
    let spec = Spec::new(DType::F64, &[1000]).unwrap();
    let memory = HostMemory::new(spec.bytes()).unwrap();
    // SAFETY: the block is this long.
    unsafe { std::ptr::write_bytes(memory.data(), 0, memory.len()) };
    let buffer = Buffer::from_host(&device(0), spec, &memory).unwrap();
    assert_eq!(buffer.read().unwrap().bytes().as_ptr(), memory.data() as *const u8);
    assert_eq!(std::sync::Arc::strong_count(&memory), 2);
    drop(buffer);
    assert_eq!(std::sync::Arc::strong_count(&memory), 1, "freed when the buffer is");
}

#[test]
fn an_executable_describes_its_inputs_and_outputs() {
    let executable = compile(DONATING_ADD).unwrap();
    let signature = executable.signature();
    let inputs: Vec<_> = signature.inputs.iter().map(|i| (i.spec.to_string(), i.donated)).collect();
    assert_eq!(inputs, [("f32[4]".to_owned(), true), ("f32[4]".to_owned(), false)]);
    assert_eq!(signature.outputs[0].to_string(), "f32[4]");
    assert_eq!(signature.aliases, [Some(0)]);
}

#[test]
fn programs_run_and_chain_without_waiting() {
    let add = compile(ADD).unwrap();
    let x = upload(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let y = upload(&[2, 2], &[10.0, 20.0, 30.0, 40.0]);
    let mut sum = run(&add, &[&x, &y]).unwrap().remove(0);
    for _ in 0..10 {
        sum = run(&add, &[&sum, &y]).unwrap().remove(0);
    }
    assert_eq!(download(&sum), [111.0, 222.0, 333.0, 444.0]);
}

#[test]
fn inputs_that_do_not_fit_never_reach_the_plugin() {
    let add = compile(ADD).unwrap();
    let x = upload(&[2, 2], &[0.0; 4]);
    let flat = upload(&[4], &[0.0; 4]);
    let elsewhere = upload_to(&device(1), &[2, 2], &[0.0; 4]);
    let spec = Spec::new(DType::I32, &[2, 2]).unwrap();
    let memory = HostMemory::new(spec.bytes()).unwrap();
    // SAFETY: the block is this long.
    unsafe { std::ptr::write_bytes(memory.data(), 0, memory.len()) };
    let integers = Buffer::from_host(&device(0), spec, &memory).unwrap();
    let cases: [(&[&Buffer], Kind); 5] = [
        (&[&x], Kind::ArgumentCount),
        (&[&x, &x, &x], Kind::ArgumentCount),
        (&[&x, &flat], Kind::ShapeMismatch),
        (&[&integers, &x], Kind::DtypeMismatch),
        (&[&x, &elsewhere], Kind::DeviceMismatch),
    ];
    for (inputs, kind) in cases {
        let error = run(&add, inputs).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let other = Client::create(plugin(), &[("cpu_device_count".into(), PluginValue::Int(1))]).unwrap();
    let foreign = upload_to(&other.devices().next().unwrap(), &[2, 2], &[0.0; 4]);
    assert_eq!(run(&add, &[&x, &foreign]).unwrap_err().kind(), Kind::DeviceMismatch);
    let moved = foreign.copy_to(&device(0)).unwrap();
    assert_eq!(download(&run(&add, &[&x, &moved]).unwrap()[0]), [0.0; 4]);
}

#[test]
fn a_donated_input_is_dead_and_its_memory_is_the_outputs() {
    let add = compile(DONATING_ADD).unwrap();
    let x = upload(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let y = upload(&[4], &[1.0; 4]);
    let address = x.read().unwrap().bytes().as_ptr();
    let out = run(&add, &[&x, &y]).unwrap().remove(0);
    assert_eq!(out.read().unwrap().bytes().as_ptr(), address);
    assert_eq!(download(&out), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(x.read().unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(x.is_ready().unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(run(&add, &[&x, &y]).unwrap_err().kind(), Kind::DeletedBuffer);
    let twice = run(&add, &[&y, &y]).unwrap_err();
    assert!(twice.message().contains("donate the same buffer twice"), "{twice}");
    assert!(twice.hints().iter().any(|hint| hint.contains("another buffer with the same elements")), "{twice}");
    let keep = ExecuteOptions { non_donatable: vec![0], ..Default::default() };
    let kept = add.execute(&[&y, &out], &keep).unwrap();
    assert_eq!(download(&kept[0]), [3.0, 4.0, 5.0, 6.0]);
    assert_eq!(download(&y), [1.0; 4]);
}

#[test]
fn a_read_that_was_started_survives_the_donation() {
    let add = compile(DONATING_ADD).unwrap();
    let x = upload(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let y = upload(&[4], &[1.0; 4]);
    let transfer = x.start_read().unwrap();
    let out = run(&add, &[&x, &y]).unwrap().remove(0);
    assert_eq!(floats(transfer.wait().unwrap().view().bytes()), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(download(&out), [2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn a_deleted_buffer_serves_operations_started_before() {
    let add = compile(ADD).unwrap();
    let x = upload(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let outputs = run(&add, &[&x, &x]).unwrap();
    let transfer = x.start_read().unwrap();
    x.delete().unwrap();
    x.delete().unwrap();
    assert!(x.is_dead());
    assert_eq!(x.read().unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(run(&add, &[&x, &x]).unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(download(&outputs[0]), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(floats(transfer.wait().unwrap().view().bytes()), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn nothing_of_a_closed_client_can_be_used() {
    let mine = Client::create(plugin(), &[("cpu_device_count".into(), PluginValue::Int(2))]).unwrap();
    let here = mine.devices().nth(1).unwrap();
    let x = upload_to(&here, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let program = program(ADD);
    let add = Executable::compile(std::slice::from_ref(&here), &program, &CompileOptions::default()).unwrap();
    let transfer = x.start_read().unwrap();
    let compiling =
        Compiling::enqueue(None, std::slice::from_ref(&here), &program, &CompileOptions::default()).unwrap();
    // SAFETY: no other thread has anything of this client.
    unsafe { mine.close() }.unwrap();
    // SAFETY: as above.
    unsafe { mine.close() }.unwrap();
    let errors = [
        x.wait().unwrap_err(),
        x.read().unwrap_err(),
        x.copy_to(&device(0)).unwrap_err(),
        upload(&[1], &[1.0]).copy_to(&here).unwrap_err(),
        run(&add, &[&x, &x]).unwrap_err(),
        add.fingerprint().unwrap_err(),
        add.serialize(None).unwrap_err(),
        transfer.wait().unwrap_err(),
        compiling.wait().unwrap_err(),
        Executable::compile(std::slice::from_ref(&here), &program, &CompileOptions::default()).unwrap_err(),
        Buffer::from_bytes(&here, Spec::new(DType::F32, &[]).unwrap(), &[0; 4]).unwrap_err(),
        mine.topology().unwrap_err(),
    ];
    errors.iter().for_each(|error| assert_eq!(error.kind(), Kind::ClientClosed, "{error}"));
    x.delete().unwrap();
    assert!(mine.is_closed());
    assert_eq!((x.dims(), here.label(), add.signature().inputs.len()), (&[2, 2][..], "CpuDevice(id=1)", 2));
    assert!(!pjrt_core::client::all().iter().any(|client| client.same(&mine)));
    drop((x, add, transfer, compiling));
    assert_eq!(download(&upload(&[1], &[7.0])), [7.0]);
}

#[test]
fn a_long_loop_does_not_block_the_caller() {
    let count = compile(&count_to(3_000_000)).unwrap();
    let zero = upload(&[], &[0.0]);
    let start = Instant::now();
    let out = run(&count, &[&zero]).unwrap().remove(0);
    let launched = start.elapsed();
    let unready = !out.is_ready().unwrap();
    let next = run(&count, &[&out]).unwrap().remove(0);
    next.wait().unwrap();
    let total = start.elapsed();
    assert!(unready, "the loop ended before is_ready() was asked");
    assert!(launched < total / 4, "launched in {launched:?} of {total:?}");
    assert!(out.is_ready().unwrap());
}

/// Adds 1 to a scalar as often as its second argument says.
const COUNT_TO_INPUT: &str = "func.func @main(%x: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<f32>, tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<f32>
      %w = stablehlo.sine %v : tensor<f32>
      stablehlo.return %j, %w : tensor<f32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}";

#[test]
fn a_loop_with_input_dependent_length_never_blocks_the_caller() {
    let count = compile(COUNT_TO_INPUT).unwrap();
    let (zero, few, many) = (upload(&[], &[0.0]), upload(&[], &[3.0]), upload(&[], &[1.5e7]));
    for _ in 0..20 {
        run(&count, &[&zero, &few]).unwrap()[0].wait().unwrap();
    }
    let out = run(&count, &[&zero, &many]).unwrap().remove(0);
    assert!(!out.is_ready().unwrap());
    out.wait().unwrap();
}

#[test]
fn a_loop_of_many_operations_runs_on_the_plugins_own_threads() {
    // 8 x 8 times 8 x 8: 1,024 operations an iteration, which XLA no longer considers few.
    let text = "func.func @main(%x: tensor<8x8xf32>, %n: tensor<f32>) -> tensor<8x8xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<f32>, tensor<8x8xf32>
        cond {
          %c = stablehlo.compare LT, %i, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %j = stablehlo.add %i, %one : tensor<f32>
          %w = stablehlo.dot_general %v, %x, contracting_dims = [1] x [0]
            : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
          stablehlo.return %j, %w : tensor<f32>, tensor<8x8xf32>
        }
      return %r#1 : tensor<8x8xf32>
    }";
    let inline = CompileOptions { dispatch: Dispatch::Inline, ..Default::default() };
    let program = Program::new(text.as_bytes().to_vec(), Format::Mlir).unwrap();
    let multiply = Executable::compile(&[device(0)], &program, &inline).unwrap();
    let out = run(&multiply, &[&upload(&[8, 8], &[0.0; 64]), &upload(&[], &[5e5])]).unwrap().remove(0);
    assert!(!out.is_ready().unwrap());
    out.wait().unwrap();
}

#[test]
fn a_wait_can_be_interrupted_and_repeated() {
    let count = compile(&count_to(20_000_000)).unwrap();
    let out = run(&count, &[&upload(&[], &[0.0])]).unwrap().remove(0);
    let waiter = std::thread::spawn(move || {
        pjrt_base::process::set_interrupt_poll(|| true);
        let start = Instant::now();
        let error = out.wait().unwrap_err();
        (error.kind(), start.elapsed(), out)
    });
    let (kind, waited, out) = waiter.join().unwrap();
    assert_eq!(kind, Kind::Interrupted);
    assert!(waited < Duration::from_millis(500), "{waited:?}");
    out.wait().unwrap();
}

#[test]
fn a_malformed_program_raises_the_compilers_message_with_its_position() {
    let error =
        compile("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.oops %x\n}").unwrap_err();
    assert!(error.code().is_some());
    let place = error.hints().iter().find_map(|hint| match hint {
        Hint::Reason(Reason::CompileFailed { line, column, .. }) => Some((*line, *column)),
        _ => None,
    });
    assert_eq!(place, Some((Some(2), Some(8))), "{error}");
    assert!(error.message().contains("\n  2 |   %0 = stablehlo.oops %x\n"), "{error}");
    assert_eq!(error.call_name(), Some("PJRT_Client_Compile"));
}

/// A chain of operations on a scalar: ten thousand take the compiler a second or more.
fn chain(operations: usize) -> Program {
    let mut text = "func.func @main(%0: tensor<f32>) -> tensor<f32> {\n".to_owned();
    for i in 0..operations {
        let name = if i % 2 == 0 { "add" } else { "multiply" };
        text += &format!("%{} = stablehlo.{name} %{i}, %{} : tensor<f32>\n", i + 1, i.saturating_sub(1));
    }
    text += &format!("return %{operations} : tensor<f32>\n}}");
    Program::new(text.into_bytes(), Format::Mlir).unwrap()
}

#[test]
fn background_compiles_wait_only_for_a_processor() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let counts: Vec<usize> = (1..=processors + 4).map(|i| 300 + 2 * i).collect();
    let options = CompileOptions::default();
    let enqueue = |&n: &usize| Compiling::enqueue(None, &[device(0)], &chain(n), &options).unwrap();
    let pending: Vec<Compiling> = counts.iter().map(enqueue).collect();
    assert!(!pending[counts.len() - 1].is_ready().unwrap());
    // A program that somebody waits for is not queued, and the last one can be asked for first.
    assert!(Compiling::start(None, &[device(0)], &chain(2), &options).unwrap().wait().is_ok());
    for compiling in pending.iter().rev() {
        let executable = compiling.wait().unwrap();
        assert!(compiling.is_ready().unwrap());
        let zero = upload(&[], &[0.0]);
        assert_eq!(download(&run(&executable, &[&zero]).unwrap()[0]), [0.0]);
    }
    let error = Compiling::enqueue(None, &[], &chain(2), &options).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidInput);
}

#[test]
fn an_interrupted_wait_for_a_compiler_can_be_repeated() {
    let compiling = Compiling::start(None, &[device(0)], &chain(10_000), &CompileOptions::default()).unwrap();
    let waited = compiling.clone();
    let waiter = std::thread::spawn(move || {
        pjrt_base::process::set_interrupt_poll(|| true);
        let start = Instant::now();
        (waited.wait().unwrap_err().kind(), start.elapsed())
    });
    let (kind, time) = waiter.join().unwrap();
    assert_eq!(kind, Kind::Interrupted);
    assert!(time < Duration::from_millis(500), "{time:?}");
    assert!(!compiling.is_ready().unwrap());
    assert_eq!(compiling.wait().unwrap().signature().inputs.len(), 1);
}

#[test]
fn column_major_outputs_say_so() {
    let text = "module attributes {mhlo.layout_mode = \"default\"} {
  func.func public @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}) {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}";
    let out = run(&compile(text).unwrap(), &[&upload(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]).unwrap().remove(0);
    assert_eq!(out.spec().strides().as_slice(), [1, 2]);
    assert_eq!(download(&out), [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
    assert_eq!(floats(out.start_read().unwrap().wait().unwrap().view().bytes()), [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
}

#[test]
fn bytes_alive_are_counted() {
    let other = Client::create(plugin(), &[("cpu_device_count".into(), PluginValue::Int(1))]).unwrap();
    let buffer = upload_to(&other.devices().next().unwrap(), &[1000], &[0.0; 1000]);
    assert_eq!(other.usage().live_bytes(), 4000);
    drop(buffer);
    assert_eq!(other.usage().live_bytes(), 0);
    assert_eq!(other.usage().new_bytes(), 4000);
}

#[test]
fn threads_share_a_client() {
    let add = compile(ADD).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let add = &add;
            scope.spawn(move || {
                let x = upload(&[2, 2], &[t as f32; 4]);
                for _ in 0..200 {
                    let sum = run(add, &[&x, &x]).unwrap().remove(0);
                    assert_eq!(download(&sum), [2.0 * t as f32; 4]);
                }
            });
        }
    });
}

#[test]
fn a_part_is_the_same_whether_read_in_place_or_transferred() {
    let dims = [40usize, 30];
    let values: Vec<f32> = (0..1200).map(|i| i as f32).collect();
    let buffer = upload(&[40, 30], &values);
    let ready = buffer.wait().unwrap();
    let chosen: [(&[usize], &[usize]); 4] =
        [(&[5, 6, 7], &[0, 1, 2]), (&[39, 0], &[29]), (&[3], &[7, 1, 7]), (&[20], &[])];
    for (rows, columns) in chosen {
        let part =
            Slice::new(vec![Axis::new(rows.len(), |i| rows[i] * dims[1]), Axis::new(columns.len(), |i| columns[i])]);
        let expected: Vec<f32> = columns.iter().flat_map(|c| rows.iter().map(move |r| (r * 30 + c) as f32)).collect();
        for found in [ready.read_part(&part).unwrap(), ready.transfer_part(&part).unwrap()] {
            // SAFETY: nothing else writes to the block.
            assert_eq!(floats(unsafe { found.bytes() }), expected);
        }
    }
}
