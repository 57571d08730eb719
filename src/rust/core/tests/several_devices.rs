//! Programs on several devices of the real CPU plugin.

mod common;

use common::{client, device, download, program, upload_to};
use pjrt_base::{error::Kind, error::Result};
use pjrt_core::executable::execute::{Dispatch, ExecuteOptions};
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::executable::Placement;
use pjrt_core::{Buffer, Device, Executable};

const ADD: &str = "func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}";

const SUM_OF_TWO: &str = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}";

fn compile_for_both(text: &str, order: [usize; 2]) -> Executable {
    let program = program(text);
    let options = CompileOptions { num_replicas: Some(2), ..Default::default() };
    Executable::compile(&order.map(device), &program, &options).unwrap()
}

fn run_on_both(executable: &Executable, inputs: [&Buffer; 2]) -> Result<Vec<Buffer>> {
    let inputs = inputs.map(|input| [input]);
    let outputs = executable.execute_sharded(&[&inputs[0][..], &inputs[1][..]], &ExecuteOptions::default())?;
    Ok(outputs.into_iter().flatten().collect())
}

#[test]
fn replicas_exchange_data_on_the_devices_they_were_compiled_for() {
    for order in [[0, 1], [1, 0]] {
        let sum = compile_for_both(SUM_OF_TWO, order);
        assert!(matches!(sum.placement(), Placement::Fixed(devices) if *devices == order));
        let [x, y] = [upload_to(&device(order[0]), &[], &[1.0]), upload_to(&device(order[1]), &[], &[2.0])];
        let outputs = run_on_both(&sum, [&x, &y]).unwrap();
        assert_eq!(outputs.iter().map(Buffer::device_index).collect::<Vec<_>>(), order);
        assert_eq!([download(&outputs[0]), download(&outputs[1])], [[3.0], [3.0]]);
        let swapped = run_on_both(&sum, [&y, &x]).unwrap_err();
        assert_eq!(swapped.kind(), Kind::DeviceMismatch);
        assert!(swapped.message().starts_with("Device 1 ("), "{swapped}");
        assert_eq!(sum.execute(&[&x], &ExecuteOptions::default()).unwrap_err().kind(), Kind::InvalidInput);
    }
}

#[test]
fn launches_on_several_devices_from_several_threads_are_independent() {
    let sums = [compile_for_both(SUM_OF_TWO, [0, 1]), compile_for_both(SUM_OF_TWO, [1, 0])];
    let inputs = [upload_to(&device(0), &[], &[1.0]), upload_to(&device(1), &[], &[2.0])];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (sum, inputs) = (&sums[thread % 2], &inputs);
            scope.spawn(move || {
                for _ in 0..100 {
                    let (first, second) = (thread % 2, 1 - thread % 2);
                    let outputs = run_on_both(sum, [&inputs[first], &inputs[second]]).unwrap();
                    assert_eq!(download(&outputs[1]), [3.0]);
                }
            });
        }
    });
}

#[test]
fn a_failed_input_of_one_device_fails_the_launch_on_all() {
    let too_big = "func.func @main(%x: tensor<f32>) -> (tensor<4000000000000xf32>, tensor<f32>) {
      %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4000000000000xf32>
      return %0, %x : tensor<4000000000000xf32>, tensor<f32>
    }";
    let x = upload_to(&device(0), &[], &[1.0]);
    let program = program(too_big);
    let on_thread = CompileOptions { dispatch: Dispatch::Thread, ..Default::default() };
    let too_big = Executable::compile(&[device(0)], &program, &on_thread).unwrap();
    let failed = too_big.execute(&[&x], &ExecuteOptions::default()).unwrap();
    let sum = compile_for_both(SUM_OF_TWO, [0, 1]);
    let y = upload_to(&device(1), &[], &[2.0]);
    for output in run_on_both(&sum, [&failed[1], &y]).unwrap() {
        assert!(output.wait().is_err());
    }
    let fine = run_on_both(&sum, [&x, &y]).unwrap();
    assert_eq!(download(&fine[0]), [3.0]);
}

#[test]
fn a_portable_executable_runs_where_its_inputs_are() {
    let program = program(ADD);
    for dispatch in [Dispatch::Inline, Dispatch::Thread] {
        let options = CompileOptions { compile_portable_executable: true, dispatch, ..Default::default() };
        let add = Executable::compile(&[device(0)], &program, &options).unwrap();
        for index in 0..2 {
            let x = upload_to(&device(index), &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
            let options = ExecuteOptions { device: Some(device(index)), ..Default::default() };
            for options in [ExecuteOptions::default(), options] {
                let outputs = add.execute(&[&x, &x], &options).unwrap();
                assert_eq!(outputs[0].device(), device(index));
                assert_eq!(download(&outputs[0]), [2.0, 4.0, 6.0, 8.0]);
            }
            let elsewhere = ExecuteOptions { device: Some(device(1 - index)), ..Default::default() };
            assert_eq!(add.execute(&[&x, &x], &elsewhere).unwrap_err().kind(), Kind::DeviceMismatch);
        }
    }
}

#[test]
fn devices_are_assigned_by_id_or_from_the_first() {
    let assigned = |options: &CompileOptions| -> Result<Vec<i32>> {
        Ok(options.assigned_devices(client())?.iter().map(Device::id).collect())
    };
    let two = CompileOptions { num_replicas: Some(2), ..Default::default() };
    assert_eq!(assigned(&two).unwrap(), [0, 1]);
    assert_eq!(assigned(&CompileOptions { device_assignment: Some(vec![1, 0]), ..two.clone() }).unwrap(), [1, 0]);
    assert!(assigned(&CompileOptions { device_assignment: Some(vec![1, 7]), ..two }).is_err());
    assert!(assigned(&CompileOptions { num_replicas: Some(3), ..Default::default() }).is_err());
}
