//! Programs that compile on other threads, on the real CPU plugin.

mod common;

use common::{device, download, upload_to};
use pjrt_base::error::Kind;
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::Compiling;
use pjrt_program::program::{Format, Program};

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
fn a_program_that_somebody_waits_for_overtakes_the_others() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let options = CompileOptions::default();
    let enqueue = |i| Compiling::enqueue(None, &[device(0)], &chain(300 + 2 * i), &options).unwrap();
    let pending: Vec<Compiling> = (1..=processors + 4).map(enqueue).collect();
    assert!(Compiling::start(None, &[device(0)], &chain(2), &options).unwrap().wait().is_ok());
    // The last one can be asked for first.
    for compiling in pending.iter().rev() {
        let executable = compiling.wait().unwrap();
        assert!(compiling.is_ready().unwrap());
        let zero = upload_to(&device(0), &[], &[0.0]);
        let outputs = executable.execute(&[&zero], &ExecuteOptions::default()).unwrap();
        assert_eq!(download(&outputs[0]), [0.0]);
    }
}

#[test]
fn an_interrupted_wait_for_a_compiler_can_be_repeated() {
    let compiling = Compiling::start(None, &[device(0)], &chain(10_000), &CompileOptions::default()).unwrap();
    let waited = compiling.clone();
    let waiter = std::thread::spawn(move || {
        pjrt_base::process::set_interrupt_poll(|| true);
        waited.wait().unwrap_err().kind()
    });
    assert_eq!(waiter.join().unwrap(), Kind::Interrupted);
    assert!(!compiling.is_ready().unwrap());
    assert_eq!(compiling.wait().unwrap().signature().inputs.len(), 1);
}
