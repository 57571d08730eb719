//! The handlers for CUDA on a machine without its libraries: a process of its own, because the first library stays.

mod common;

use common::linear::*;
use pjrt_base::error::Kind;
use pjrt_data::dtype::DType;
use pjrt_handlers::{cuda, register, Handler};

#[test]
fn without_the_libraries_a_call_fails_and_says_what_to_do() {
    if pjrt_plugins::cuda::driver_library().is_ok() {
        println!("skipped: this machine has a driver");
        return;
    }
    for (target, handler) in cuda::TARGETS {
        register(&format!("cuda_{target}"), "host", Handler::BuiltIn(handler)).unwrap();
    }
    let operand = Operand::new(DType::F64, &[], &[1, 1]);
    let inputs = [(operand.clone(), vec![(1.0, 0.0)])];
    let outputs = [operand, Operand::new(DType::I32, &[], &[1])];
    let error = try_call("cuda_lu", "", &inputs, &outputs).unwrap_err();
    assert_eq!(error.kind(), Kind::Pjrt(9), "{error}");
    for part in
        ["cuda_lu: The library 'libcuda.so.1' of the NVIDIA driver cannot be loaded.", "Install the NVIDIA driver."]
    {
        assert!(error.message().contains(part), "{error}");
    }
    // An empty batch needs none.
    let none = |dims: &[usize]| Operand::new(DType::F64, &[], dims);
    try_call("cuda_geqrf", "", &[(none(&[0, 2, 2]), vec![])], &[none(&[0, 2, 2]), none(&[0, 2])]).unwrap();
}
