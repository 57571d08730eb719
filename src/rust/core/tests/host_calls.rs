//! Functions of the host that programs call, on the real CPU plugin. One test, because the thread and the end of callbacks are
//! the process's.

mod common;

use common::{device, download, program, upload_to};
use pjrt_base::callbacks;
use pjrt_base::error::Kind;
use pjrt_core::executable::execute::{ExecuteOptions, HostContext};
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::Executable;
use pjrt_handlers::frame::Attribute;
use pjrt_handlers::host::{set_runner, Ended, HostCall};
use pjrt_handlers::registry::{known, Known};
use pjrt_handlers::{register, unregister, Failure, Handler};
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// Doubles its argument; function 2 fails.
fn run(call: &HostCall) -> Ended {
    let (context, number) = call.context();
    let device = context.and_then(|context| context.downcast_ref::<HostContext>()?.device(number));
    assert_eq!(device, Some(common::device(0)));
    assert_eq!(call.attributes, [("by".to_owned(), Attribute::Integer(2))]);
    if INTERRUPTS.swap(false, Ordering::Relaxed) {
        return Ended::Interrupted;
    }
    if call.function == 2 {
        return Ended::Failed(Failure::invalid(callbacks::mark("Refused.", 12)));
    }
    let elements = call.arguments[0].elements().into_owned();
    let doubled: Vec<u8> =
        elements.chunks(4).flat_map(|x| (2.0 * f32::from_ne_bytes(x.try_into().unwrap())).to_ne_bytes()).collect();
    // SAFETY: as many bytes as the argument has.
    let written = unsafe {
        call.results[0].write(|target| {
            target.copy_from_nonoverlapping(doubled.as_ptr(), doubled.len());
            Ok(())
        })
    };
    assert!(written.is_ok());
    Ended::Done
}

fn compile(number: usize, text: &str) -> Executable {
    Executable::compile(&[device(number)], &program(text), &CompileOptions::default()).unwrap()
}

fn calling(target: &str) -> String {
    format!(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
          %y = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32, backend_config = {{by = 2 : i64}}}}
            : (tensor<4xf32>) -> tensor<4xf32>
          return %y : tensor<4xf32>
        }}"
    )
}

#[test]
fn a_program_waits_for_the_host_without_a_thread_and_ends_with_the_host() {
    set_runner(run);
    register("host_doubles", "cpu", Handler::Host(1)).unwrap();
    register("host_fails", "cpu", Handler::Host(2)).unwrap();
    assert_eq!(known("host_doubles", "cpu"), Some(Known::Host));
    let (doubles, fails) = (compile(0, &calling("host_doubles")), compile(0, &calling("host_fails")));
    let add = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = stablehlo.add %x, %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }";
    let other = compile(1, add);
    let inputs = [0, 1].map(|number| upload_to(&device(number), &[4], &[1.0, 2.0, 3.0, 4.0]));
    let execute_on = |number: usize, executable: &Executable| {
        executable.execute(&[&inputs[number]], &ExecuteOptions::default()).unwrap().remove(0)
    };
    let execute = |executable: &Executable| execute_on(0, executable);

    // Nobody runs functions yet; programs of another device run.
    let waiting = execute(&doubles);
    while !callbacks::are_waiting() {
        std::thread::yield_now();
    }
    for _ in 0..100 {
        let output = execute_on(1, &other);
        output.wait().unwrap();
        assert_eq!(download(&output), [2.0, 4.0, 6.0, 8.0]);
    }
    assert!(!waiting.is_ready().unwrap());
    callbacks::serve().unwrap();
    assert!(callbacks::are_waiting());

    callbacks::run_on_this_thread();
    INTERRUPTS.store(true, Ordering::Relaxed);
    assert_eq!(waiting.wait().err().map(|error| error.kind()), Some(Kind::Interrupted));
    waiting.wait().unwrap();
    assert_eq!(download(&waiting), [2.0, 4.0, 6.0, 8.0]);

    let error = execute(&fails).wait().map(drop).unwrap_err();
    assert_eq!(error.message(), "host_fails: Refused.");
    assert_eq!(error.hints().len(), 1, "{error:?}");

    assert!(unregister("host_fails"));
    assert!(execute(&fails).wait().is_err());

    // The end of the host ends what waits for it, and what comes later.
    let waiting = execute(&doubles);
    while !callbacks::are_waiting() {
        std::thread::yield_now();
    }
    callbacks::end();
    for output in [waiting, execute(&doubles)] {
        let error = output.wait().map(drop).unwrap_err();
        assert!(error.message().contains("'host_doubles' was not called"), "{error}");
    }
}
