//! Custom calls on the real CPU plugin.

mod common;

use common::{device, download, program, upload_to};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Executable};
use pjrt_data::dtype::DType;
use pjrt_handlers::frame::Attribute;
use pjrt_handlers::registry::{self, known, Known};
use pjrt_handlers::{register, unregister, Failure, Frame, Handler};
use pjrt_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program that calls `target` with its input, an array of four floats.
fn calling(target: &str, attributes: &str) -> String {
    format!(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
          %y = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32, backend_config = {{{attributes}}}}}
            : (tensor<4xf32>) -> tensor<4xf32>
          return %y : tensor<4xf32>
        }}"
    )
}

fn compile(target: &str, attributes: &str) -> pjrt_base::error::Result<Executable> {
    Executable::compile(&[device(0)], &program(&calling(target, attributes)), &CompileOptions::default())
}

/// The program's output for 1, 2, 3, 4.
fn run(executable: &Executable) -> pjrt_base::error::Result<Vec<f32>> {
    let input = upload_to(&device(0), &[4], &[1.0, 2.0, 3.0, 4.0]);
    let outputs: Vec<Buffer> = executable.execute(&[&input], &ExecuteOptions::default())?.into_iter().collect();
    outputs[0].wait()?;
    Ok(download(&outputs[0]))
}

fn scale(frame: &Frame<'_>) -> Result<(), Failure> {
    frame.expect(1, 1)?;
    let (x, y) = (frame.argument(0)?, frame.result(0)?);
    let len = x.dims.iter().product::<i64>() as usize;
    if x.dtype != DType::F32 || x.dims != y.dims || x.byte_len() != 4 * len || len == 0 {
        return Err(Failure::invalid("Expected two arrays of floats of the same shape."));
    }
    let by = frame.integer::<i32>("by")? as f32;
    for i in 0..len {
        // SAFETY: both arrays have so many elements.
        unsafe { y.as_mut_ptr().cast::<f32>().add(i).write(by * x.as_ptr().cast::<f32>().add(i).read()) };
    }
    Ok(())
}

fn copy(frame: &Frame<'_>) -> Result<(), Failure> {
    frame.argument(0)?.copy_to(&frame.result(0)?)
}

#[test]
fn a_program_calls_a_handler_with_its_attributes() {
    register("core_scale", "cpu", Handler::BuiltIn(scale)).unwrap();
    assert_eq!(known("core_scale", "Host"), Some(Known::BuiltIn));
    assert_eq!(known("core_scale", "cuda"), None);
    assert_eq!(registry::platforms("core_scale"), ["host"]);
    assert_eq!(run(&compile("core_scale", "by = 3 : i32").unwrap()).unwrap(), [3.0, 6.0, 9.0, 12.0]);
    assert_eq!(run(&compile("core_scale", "by = 2 : i64").unwrap()).unwrap(), [2.0, 4.0, 6.0, 8.0]);
    for (attributes, message) in [
        ("", "core_scale: The attribute 'by', an integer, is missing."),
        ("by = 1.0 : f32", "core_scale: The attribute 'by' must be an integer."),
        ("by = 3000000000 : i64", "core_scale: The attribute 'by' is out of range: 3000000000."),
    ] {
        let error = compile("core_scale", attributes).and_then(|executable| run(&executable)).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
}

#[test]
fn attributes_of_all_types_are_read() {
    fn check(frame: &Frame<'_>) -> Result<(), Failure> {
        let names: Vec<_> = frame.attributes().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "d", "f", "g", "s", "u"]);
        assert!(frame.boolean("b")? && frame.boolean("u").is_err());
        assert_eq!(["f", "g"].map(|name| frame.attribute(name)), [1.5, -2.5].map(|x| Some(Attribute::Float(x))));
        assert_eq!(frame.string("s")?, "text\n");
        assert_eq!(frame.integer::<u8>("u")?, 76);
        match frame.attribute("a") {
            Some(Attribute::Array(DType::I64, bytes)) => assert_eq!(bytes.len(), 16),
            other => panic!("{other:?}"),
        }
        match frame.attribute("d") {
            Some(Attribute::Dictionary(inner)) => assert_eq!(inner, [("k".to_owned(), Attribute::Integer(7))]),
            other => panic!("{other:?}"),
        }
        copy(frame)
    }
    register("core_attributes", "host", Handler::BuiltIn(check)).unwrap();
    let attributes = "a = array<i64: 1, 2>, b = true, d = {k = 7 : i32}, f = 1.5 : f32, g = -2.5 : f64, \
                      s = \"text\\0A\", u = 76 : ui8";
    assert_eq!(run(&compile("core_attributes", attributes).unwrap()).unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn failures_and_panics_become_errors_of_the_execution() {
    register("core_fails", "host", Handler::BuiltIn(|_| Err(Failure::new(9, "not\0now")))).unwrap();
    let error = run(&compile("core_fails", "").unwrap()).unwrap_err();
    assert_eq!(error.code(), Some(9), "{error}");
    assert!(error.message().contains("core_fails: not\u{fffd}now"), "{error}");
    register("core_panics", "host", Handler::BuiltIn(|frame| frame.argument(9).map(drop))).unwrap();
    let error = run(&compile("core_panics", "").unwrap()).unwrap_err();
    assert!(error.message().contains("There is no argument 10 that is an array."), "{error}");
    register("core_panics", "host", Handler::BuiltIn(|_| panic!("on purpose"))).unwrap();
    let error = run(&compile("core_panics", "").unwrap()).unwrap_err();
    assert!(error.message().contains("aborted by a fault"), "{error}");
    register("core_counts", "host", Handler::BuiltIn(|frame| frame.expect(2, 1))).unwrap();
    let error = run(&compile("core_counts", "").unwrap()).unwrap_err();
    assert!(error.message().contains("Expected 2 arguments, but got 1."), "{error}");
}

unsafe extern "C" fn succeeds(_: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    FOREIGN_CALLS.fetch_add(1, Ordering::Relaxed);
    std::ptr::null_mut()
}

static FOREIGN_CALLS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_handler_can_be_replaced_and_removed_under_a_compiled_program() {
    register("core_swaps", "host", Handler::BuiltIn(copy)).unwrap();
    let executable = compile("core_swaps", "by = 2 : i32").unwrap();
    assert_eq!(run(&executable).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    register("core_swaps", "host", Handler::BuiltIn(scale)).unwrap();
    assert_eq!(run(&executable).unwrap(), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(FOREIGN_CALLS.load(Ordering::Relaxed), 0);
    register("core_swaps", "host", Handler::Foreign(succeeds)).unwrap();
    assert_eq!(known("core_swaps", "host"), Some(Known::Foreign));
    run(&executable).unwrap();
    assert_eq!(FOREIGN_CALLS.load(Ordering::Relaxed), 1);
    assert!(unregister("core_swaps"));
    assert_eq!(run(&executable).unwrap(), [2.0, 4.0, 6.0, 8.0]);
    assert!(!unregister("core_swaps"));

    register("core_leaves", "host", Handler::Foreign(succeeds)).unwrap();
    let executable = compile("core_leaves", "").unwrap();
    run(&executable).unwrap();
    assert!(unregister("core_leaves") && known("core_leaves", "host").is_none());
    let error = run(&executable).unwrap_err();
    assert!(error.message().contains("'core_leaves' has no handler any more"), "{error}");
}

#[test]
fn names_are_checked() {
    for (target, platform) in [("", "host"), ("x", ""), ("a\0b", "host")] {
        assert!(register(target, platform, Handler::BuiltIn(copy)).is_err());
    }
}

#[test]
fn a_handler_shares_work_with_the_threads_of_the_plugin() {
    fn sum(frame: &Frame<'_>) -> Result<(), Failure> {
        assert!(frame.threads().is_some_and(|threads| threads > 0), "{:?}", frame.threads());
        let total = AtomicUsize::new(0);
        frame.parallel(1000, &|i| {
            total.fetch_add(i, Ordering::Relaxed);
        });
        frame.parallel(0, &|_| panic!());
        assert_eq!(total.into_inner(), 999 * 500);
        copy(frame)
    }
    register("core_parallel", "host", Handler::BuiltIn(sum)).unwrap();
    let executable = compile("core_parallel", "").unwrap();
    for _ in 0..100 {
        assert_eq!(run(&executable).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    }
    register(
        "core_parallel_panic",
        "host",
        Handler::BuiltIn(|frame| {
            frame.parallel(8, &|i| assert_ne!(i, 5));
            Ok(())
        }),
    )
    .unwrap();
    let error = run(&compile("core_parallel_panic", "").unwrap()).unwrap_err();
    assert!(error.message().contains("aborted by a fault"), "{error}");
}
