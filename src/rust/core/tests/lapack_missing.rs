//! Linear algebra without a library: a process of its own, because the first library stays.

mod common;

use common::linear::*;
use pjrt_base::error::Kind;
use pjrt_data::dtype::DType;
use pjrt_handlers::lapack;
use std::path::PathBuf;

#[test]
fn without_a_library_a_call_fails_and_lists_what_was_tried() {
    lapack::set_libraries(vec![PathBuf::from("/nowhere/libone.so"), PathBuf::from("/nowhere/libother.so")]).unwrap();
    let operand = Operand::new(DType::F64, &[], &[1, 1]);
    let inputs = [(operand.clone(), vec![(1.0, 0.0)])];
    let outputs = [operand, Operand::new(DType::I32, &[], &[1])];
    let error = try_call("lu", "", &inputs, &outputs).unwrap_err();
    assert_eq!(error.kind(), Kind::Pjrt(9), "{error}");
    for part in ["lu: No LAPACK could be loaded.", "/nowhere/libone.so", "/nowhere/libother.so"] {
        assert!(error.message().contains(part), "{error}");
    }
    // An empty batch needs none, and neither do permutations.
    let none = |dims: &[usize]| Operand::new(DType::F64, &[], dims);
    try_call("geqrf", "", &[(none(&[0, 2, 2]), vec![])], &[none(&[0, 2, 2]), none(&[0, 2])]).unwrap();
    let pivots = |n: usize| Operand::new(DType::I32, &[], &[n]);
    let inputs = [(pivots(2), vec![(2.0, 0.0), (3.0, 0.0)])];
    let found = try_call("lu_pivots_to_permutation", "first = 1 : i32", &inputs, &[pivots(3)]).unwrap();
    assert_eq!(found[0], [(2.0, 0.0), (3.0, 0.0), (1.0, 0.0)]);
    lapack::set_libraries(Vec::new()).unwrap();
    assert!(try_call("lu", "", &[(none(&[1, 1]), vec![(1.0, 0.0)])], &[none(&[1, 1]), pivots(1)]).is_ok());
    assert!(!pjrt_lapack::library().unwrap().files.is_empty());
}
