//! The handlers for CUDA on the real CPU plugin, with a fake driver and cuSOLVER that the C compiler makes, and a table of
//! functions whose stream and memory are theirs. The fake stream works as late as it may, and memory has guards.
#![cfg(target_os = "linux")]

mod common;

use common::linear::*;
use pjrt_base::console;
use pjrt_base::error::{Error, Kind};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_data::dtype::DType;
use pjrt_handlers::frame::Attribute;
use pjrt_handlers::{cuda, register, registry, Failure, Frame, Handler};
use pjrt_lapack::{svd, Scalar, SvdMethod, SvdMode, Uplo, Workspace};
use pjrt_sys::*;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;
use std::slice::from_raw_parts_mut;
use std::sync::OnceLock;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/fake-cuda.c");
const REAL: [(DType, char, f64); 2] = [(DType::F32, 'S', 1e-4), (DType::F64, 'D', 1e-10)];

/// The fake library's own functions.
struct Fake {
    fail: unsafe extern "C" fn(*const u8, usize, c_int),
    depth: unsafe extern "C" fn() -> c_int,
    handles: unsafe extern "C" fn() -> c_int,
    new_stream: unsafe extern "C" fn(c_int) -> *mut c_void,
    end_stream: unsafe extern "C" fn(*mut c_void),
}

fn fake() -> &'static Fake {
    static FAKE: OnceLock<Fake> = OnceLock::new();
    FAKE.get_or_init(|| {
        // The loader finds a library that is in the process by this name.
        let build = |name: &str, source: &Path| {
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            let flags = ["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,--no-as-needed"];
            let named = [format!("-Wl,-soname,{name}"), "-o".to_owned()];
            assert!(Command::new("cc").args(flags).args(named).arg(&file).arg(source).status().unwrap().success());
            file
        };
        let file = build("libcuda.so.1", Path::new(SOURCE));
        let solver = build("libcusolver.so.12", &file);
        // SAFETY: the library is ours, and its functions have these types.
        let fake = unsafe {
            let library = Box::leak(Box::new(libloading::Library::new(&file).unwrap()));
            let set_worker = library.get::<unsafe extern "C" fn(unsafe extern "C" fn(*const Work))>(b"set_worker");
            set_worker.unwrap()(factorize);
            Fake {
                fail: *library.get(b"fail").unwrap(),
                depth: *library.get(b"current_depth").unwrap(),
                handles: *library.get(b"handle_count").unwrap(),
                new_stream: *library.get(b"new_stream").unwrap(),
                end_stream: *library.get(b"end_stream").unwrap(),
            }
        };
        // SAFETY: as above.
        std::mem::forget(unsafe { libloading::Library::new(solver) });
        fake
    })
}

/// A factorization that the fake library was asked for.
#[repr(C)]
struct Work {
    kind: c_int,
    is_double: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    data: [*mut c_void; 5],
}

unsafe extern "C" fn factorize(work: *const Work) {
    match (*work).is_double {
        0 => compute::<f32>(&*work, f32::NAN),
        _ => compute::<f64>(&*work, f64::NAN),
    }
}

unsafe fn compute<T: Scalar<Real = T>>(work: &Work, nan: T) {
    let (m, n, k) = (work.m as usize, work.n as usize, work.k as usize);
    // SAFETY: the handlers' operands have so many elements.
    let part = |index: usize, count: usize| unsafe { from_raw_parts_mut(work.data[index].cast::<T>(), count) };
    let mut space = Workspace::new().unwrap();
    let (least, a) = (m.min(n), part(0, m * n));
    match work.kind as u8 {
        b'q' => pjrt_lapack::geqrf(&mut space, m, n, a, part(1, least)).unwrap(),
        b'o' => pjrt_lapack::orgqr(&mut space, m, n, a, part(1, k)).unwrap(),
        b'l' => drop(pjrt_lapack::getrf(&mut space, m, n, a, from_raw_parts_mut(work.data[1].cast(), least)).unwrap()),
        b's' => {
            let (s, u, vt) = (part(1, n), part(2, m * n), part(3, n * n));
            svd(&mut space, SvdMethod::QrIteration, SvdMode::Some, m, n, a, s, u, vt).unwrap();
            // cuSOLVER destroys its input, and writes what has not converged.
            a.fill(nan);
            part(4, n - 1).fill(nan);
        }
        b'e' => drop(pjrt_lapack::syevd(&mut space, Uplo::Lower, true, n, a, part(1, n)).unwrap()),
        other => panic!("{other}"),
    }
}

thread_local! {
    static STREAM: Cell<*mut c_void> = const { Cell::new(null_mut()) };
    /// Memory that was allocated, with its size and whether it was freed.
    static MEMORY: RefCell<Vec<(Vec<u8>, usize, bool)>> = const { RefCell::new(Vec::new()) };
    static HAS_MEMORY: Cell<bool> = const { Cell::new(true) };
}

const GUARD: usize = 64;

unsafe extern "C" fn stream_get(args: *mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error {
    (*args).stream = STREAM.get();
    null_mut()
}

unsafe extern "C" fn allocate(args: *mut XLA_FFI_DeviceMemory_Allocate_Args) -> *mut XLA_FFI_Error {
    assert!((*args).size > 0 && (*args).alignment.is_power_of_two() && (*args).alignment <= 16);
    if HAS_MEMORY.get() {
        let mut memory = vec![0xA5; (*args).size + 2 * GUARD];
        (*args).data = memory[GUARD..].as_mut_ptr().cast();
        MEMORY.with_borrow_mut(|list| list.push((memory, (*args).size, false)));
    }
    null_mut()
}

unsafe extern "C" fn free(args: *mut XLA_FFI_DeviceMemory_Free_Args) -> *mut XLA_FFI_Error {
    MEMORY.with_borrow_mut(|list| {
        let is_it = |memory: &&mut (Vec<u8>, usize, bool)| memory.0[GUARD..].as_ptr() == (*args).data.cast();
        let found = list.iter_mut().find(is_it).unwrap();
        assert_eq!((found.1, found.2), ((*args).size, false));
        found.2 = true;
    });
    null_mut()
}

/// A handler as on a GPU. The attributes `fail` and `status` make a function of the libraries fail, or the plugin's memory.
fn on_device<const TARGET: usize>(frame: &Frame<'_>) -> Result<(), Failure> {
    let fake = fake();
    // SAFETY: the copies live until the call's end; the fake library's functions have these types.
    unsafe {
        let mut raw: XLA_FFI_CallFrame = *frame.raw();
        let mut api: XLA_FFI_Api = *raw.api;
        api.XLA_FFI_Stream_Get = Some(stream_get);
        api.XLA_FFI_DeviceMemory_Allocate = Some(allocate);
        api.XLA_FFI_DeviceMemory_Free = Some(free);
        raw.api = &api;
        let failing = match frame.attribute("fail") {
            Some(Attribute::String(name)) => name,
            _ => Vec::new(),
        };
        HAS_MEMORY.set(failing != b"memory");
        let stream = (fake.new_stream)((!failing.is_empty()).into());
        if !failing.is_empty() {
            (fake.fail)(failing.as_ptr(), failing.len(), frame.integer("status")?);
        }
        STREAM.set(stream);
        let outcome = (cuda::TARGETS[TARGET].1)(&Frame::new(&raw)?);
        (fake.fail)(failing.as_ptr(), 0, 0);
        assert_eq!((fake.depth)(), 0, "the context is popped");
        (fake.end_stream)(stream);
        for (memory, size, is_free) in MEMORY.take() {
            let guards = memory[..GUARD].iter().chain(&memory[GUARD + size..]);
            assert!(
                is_free && guards.into_iter().all(|byte| *byte == 0xA5),
                "memory is freed and its guards are whole"
            );
        }
        outcome
    }
}

/// Registers the handlers for hosts, as `cuda_<name>`.
fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        let handlers: [registry::RustHandler; 7] = [
            on_device::<0>,
            on_device::<1>,
            on_device::<2>,
            on_device::<3>,
            on_device::<4>,
            on_device::<5>,
            on_device::<6>,
        ];
        for ((name, _), handler) in cuda::TARGETS.iter().zip(handlers) {
            register(&format!("cuda_{name}"), "host", Handler::BuiltIn(handler)).unwrap();
        }
    });
}

/// One matrix, and a batch of four.
fn stacks(mut one: impl FnMut() -> Matrix) -> [Vec<Matrix>; 2] {
    start();
    [vec![one()], (0..4).map(|_| one()).collect()]
}

fn values_of(items: &[Matrix]) -> Vec<Vec<C>> {
    items.iter().map(|item| item.values.clone()).collect()
}

/// Rows of the product of the factors in one matrix, before LAPACK's exchanges.
fn product_of_lu(lu: &Matrix, pivots: &[C]) -> Matrix {
    let k = lu.rows.min(lu.columns);
    let lower = Matrix::new(lu.rows, k, |i, j| if i == j { (1.0, 0.0) } else { lu.lower().at(i, j) });
    let product = lower.times(&lu.upper().rows(k));
    let mut rows: Vec<usize> = (0..lu.rows).collect();
    pivots.iter().enumerate().for_each(|(i, pivot)| rows.swap(i, pivot.0 as usize - 1));
    Matrix::new(lu.rows, lu.columns, |i, j| product.at(rows.iter().position(|&row| row == i).unwrap(), j))
}

#[test]
fn qr_gives_back_the_matrix() {
    let mut random = Random(5);
    for (dtype, _, precision) in REAL {
        for (m, n) in [(4, 4), (5, 3), (3, 5), (1, 1), (40, 33)] {
            for xs in stacks(|| random.matrix(dtype, m, n)) {
                let k = m.min(n);
                let found =
                    call("cuda_geqrf", "", &[(dtype, &[m, n], &values_of(&xs))], &[(dtype, &[m, n]), (dtype, &[k])]);
                let tau: Vec<_> = found.iter().map(|found| found[1].values.clone()).collect();
                // From all columns and from the first, to as many columns as there are reflections or rows.
                for (taken, columns) in [(k, k), (k, m), (n, k)] {
                    let packed: Vec<_> = found.iter().map(|found| found[0].columns(taken).values.clone()).collect();
                    let inputs = [(dtype, &[m, taken][..], &packed[..]), (dtype, &[k], &tau)];
                    let q = call("cuda_orgqr", "", &inputs, &[(dtype, &[m, columns])]);
                    for ((x, found), q) in xs.iter().zip(&found).zip(&q) {
                        assert_close(&q[0].adjoint().times(&q[0]), &Matrix::identity(columns), 10.0 * precision);
                        assert_close(&q[0].columns(k).times(&found[0].upper().rows(k)), x, 10.0 * precision);
                    }
                }
            }
        }
    }
}

#[test]
fn lu_gives_back_the_matrix_and_its_permutation() {
    let mut random = Random(6);
    for (dtype, _, precision) in REAL {
        for (m, n) in [(4, 4), (5, 3), (3, 5)] {
            for mut xs in stacks(|| random.matrix(dtype, m, n)) {
                // A singular matrix has a factorization, too.
                xs.last_mut().unwrap().values.fill((0.0, 0.0));
                let k = m.min(n);
                let outputs = [(dtype, &[m, n][..]), (DType::I32, &[k])];
                let found = call("cuda_lu", "", &[(dtype, &[m, n], &values_of(&xs))], &outputs);
                let pivots: Vec<_> = found.iter().map(|found| found[1].values.clone()).collect();
                for first in [1, 0] {
                    let pivots: Vec<Vec<C>> = pivots
                        .iter()
                        .map(|p| p.iter().map(|p| (p.0 - 1.0 + f64::from(first), 0.0)).collect())
                        .collect();
                    let inputs = [(DType::I32, &[k][..], &pivots[..])];
                    let attributes = format!("first = {first} : i32");
                    let [ours, hosts] = ["cuda_lu_pivots_to_permutation", "lu_pivots_to_permutation"]
                        .map(|target| call(target, &attributes, &inputs, &[(DType::I32, &[m])]));
                    assert_eq!(ours, hosts);
                }
                for (x, found) in xs.iter().zip(&found) {
                    assert_close(&product_of_lu(&found[0], &found[1].values), x, precision);
                }
            }
        }
    }
}

#[test]
fn svd_gives_back_the_matrix_in_both_orders() {
    let mut random = Random(7);
    for (dtype, _, precision) in REAL {
        for (m, n) in [(4, 4), (5, 3), (20, 1)] {
            for xs in stacks(|| random.matrix(dtype, m, n)) {
                for attributes in ["", "transposed = false"] {
                    let outputs = [(dtype, &[m, n][..]), (dtype, &[n]), (dtype, &[n, n])];
                    let found = call("cuda_svd", attributes, &[(dtype, &[m, n], &values_of(&xs))], &outputs);
                    for (x, found) in xs.iter().zip(&found) {
                        let s = Matrix::diagonal(&found[1].values);
                        assert_close(&found[0].times(&s).times(&found[2]), x, 10.0 * precision);
                        assert!(found[1].values.windows(2).all(|pair| pair[0].0 >= pair[1].0));
                    }
                }
            }
        }
        for (m, n) in [(4, 4), (3, 5), (1, 7)] {
            start();
            let xs: Vec<_> = (0..3).map(|_| random.matrix(dtype, m, n)).collect();
            // All in row-major order.
            let plain = |dims: &[usize]| Operand { dtype, dims: dims.to_vec(), own: 1 };
            let outputs = [plain(&[3, m, m]), plain(&[3, m]), plain(&[3, m, n])];
            let inputs = [(plain(&[3, m, n]), values_of(&xs).concat())];
            let found = try_call("cuda_svd", "transposed = true", &inputs, &outputs).unwrap();
            let part = |index: usize, i: usize, rows: usize, columns: usize| Matrix {
                rows,
                columns,
                values: found[index][i * rows * columns..][..rows * columns].to_vec(),
            };
            for (i, x) in xs.iter().enumerate() {
                let s = Matrix::diagonal(&part(1, i, 1, m).values);
                assert_close(&part(0, i, m, m).times(&s).times(&part(2, i, m, n)), x, 10.0 * precision);
            }
        }
    }
}

#[test]
fn eigh_reads_the_lower_triangle() {
    let mut random = Random(8);
    for (dtype, _, precision) in REAL {
        for xs in stacks(|| random.positive(dtype, 5)) {
            let lower: Vec<_> = xs.iter().map(|x| x.lower().values).collect();
            let found = call("cuda_eigh", "", &[(dtype, &[5, 5], &lower)], &[(dtype, &[5, 5]), (dtype, &[5])]);
            for (x, found) in xs.iter().zip(&found) {
                let w = &found[1].values;
                assert!(w.windows(2).all(|pair| pair[0].0 <= pair[1].0));
                assert_close(&found[0].times(&Matrix::diagonal(w)).times(&found[0].adjoint()), x, 10.0 * precision);
            }
        }
    }
}

#[test]
fn a_donated_input_is_worked_on_in_place_and_others_stay_as_they_are() {
    start();
    let dtype = DType::F64;
    let x = Random(3).positive(dtype, 6);
    let square = Operand::new(dtype, &[], &[6, 6]);
    let vector = |dtype| Operand::new(dtype, &[], &[6]);
    for (target, outputs) in [
        ("cuda_geqrf", vec![square.clone(), vector(dtype)]),
        ("cuda_lu", vec![square.clone(), vector(DType::I32)]),
        ("cuda_eigh", vec![square.clone(), vector(dtype)]),
        ("cuda_svd", vec![square.clone(), vector(dtype), square.clone()]),
    ] {
        let mut all = Vec::new();
        for donated in ["", " {tf.aliasing_output = 0 : i32}"] {
            let mut text = text(target, "", std::slice::from_ref(&square), &outputs, donated);
            if !donated.is_empty() {
                text = text.replace(
                    "operand_layouts",
                    "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0],
                     operand_index = 0, operand_tuple_indices = []>], operand_layouts",
                );
            }
            let input = upload(&square, &x.values);
            let outputs = compile(&text).execute(&[&input], &ExecuteOptions::default()).unwrap();
            assert!(outputs.iter().all(|output| output.wait().is_ok()), "{target}");
            all.push(outputs.iter().map(values).collect::<Vec<_>>());
            assert_eq!(input.is_dead(), !donated.is_empty());
            if donated.is_empty() {
                assert_eq!(values(&input), x.values);
            }
        }
        assert_eq!(all[0], all[1], "{target}");
    }
}

/// The error of a call on matrices of zeros.
fn error_of(target: &str, attributes: &str, inputs: &[(DType, &[usize])], outputs: &[(DType, &[usize])]) -> Error {
    start();
    let operand = |(dtype, dims): &(DType, &[usize])| Operand::new(*dtype, &[], dims);
    let input = |it| (operand(it), vec![(0.0, 0.0); it.1.iter().product()]);
    let inputs: Vec<_> = inputs.iter().map(input).collect();
    try_call(target, attributes, &inputs, &outputs.iter().map(operand).collect::<Vec<_>>()).unwrap_err()
}

#[test]
fn wrong_calls_are_errors() {
    let (f64, i32) = (DType::F64, DType::I32);
    let square = (f64, &[2, 2][..]);
    for (target, inputs, outputs, message) in [
        ("cuda_geqrf", vec![(i32, &[2, 2][..])], vec![square, square], "only supports f32 and f64, got i32"),
        ("cuda_lu", vec![square], vec![square], "Expected 2 results, but got 1."),
        ("cuda_lu", vec![square], vec![square, (f64, &[2])], "Expected result 2 of type i32[2], got f64[2]."),
        ("cuda_eigh", vec![(f64, &[2, 3])], vec![square, square], "eigh requires a square matrix, got 2 x 3."),
        ("cuda_orgqr", vec![square, (f64, &[2])], vec![(f64, &[2, 3])], "requires at most as many reflections"),
        ("cuda_orgqr", vec![(f64, &[3, 1]), (f64, &[2])], vec![(f64, &[3, 2])], "requires at most as many reflections"),
        (
            "cuda_svd",
            vec![(f64, &[2, 3])],
            vec![square, (f64, &[2]), (f64, &[2, 3])],
            "does not support fewer rows than columns, got 2 x 3. Set `transposed = true`",
        ),
        ("cuda_lu_pivots_to_permutation", vec![(i32, &[2])], vec![(i32, &[1])], "2 elements, more than the 1 rows"),
        ("cuda_lu_pivots_to_permutation", vec![(i32, &[2])], vec![(i32, &[3])], "`pivots[0]` is 0"),
    ] {
        let error = error_of(target, "", &inputs, &outputs);
        assert_eq!(error.kind(), Kind::Pjrt(3), "{error}");
        assert!(error.message().contains(message), "{error}");
    }
    let error = error_of("cuda_svd", "transposed = true", &[(f64, &[3, 2])], &[(f64, &[3, 2]), (f64, &[2]), square]);
    assert!(error.message().contains("does not support fewer columns than rows, got 3 x 2."), "{error}");
}

#[test]
fn failures_of_the_libraries_name_the_function_and_its_status() {
    let square = (DType::F64, &[2, 2][..]);
    let vector = |dtype| (dtype, &[2][..]);
    let fail = |target: &str, function: &str, status: i32| {
        let (inputs, outputs) = match target {
            "cuda_svd" => (vec![square], vec![square, vector(DType::F64), square]),
            "cuda_orgqr" => (vec![(DType::F64, &[3, 2][..]), vector(DType::F64)], vec![(DType::F64, &[3, 3][..])]),
            "cuda_lu" => (vec![square], vec![square, vector(DType::I32)]),
            "cuda_lu_pivots_to_permutation" => (vec![vector(DType::I32)], vec![vector(DType::I32)]),
            _ => (vec![square], vec![square, vector(DType::F64)]),
        };
        let attributes = format!("fail = \"{function}\", first = 0 : i32, status = {status} : i32");
        error_of(target, &attributes, &inputs, &outputs)
    };
    for (target, function, status, code, name) in [
        ("cuda_geqrf", "cuStreamGetCtx", 400, 13, "400"),
        ("cuda_geqrf", "cuCtxPushCurrent_v2", 201, 13, "CUDA_ERROR_INVALID_CONTEXT"),
        ("cuda_geqrf", "cusolverDnCreate", 1, 13, "CUSOLVER_STATUS_NOT_INITIALIZED"),
        ("cuda_geqrf", "cusolverDnSetStream", 3, 13, "CUSOLVER_STATUS_INVALID_VALUE"),
        ("cuda_geqrf", "cuMemcpyDtoDAsync_v2", 2, 8, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuda_geqrf", "cusolverDnDgeqrf_bufferSize", 9, 13, "CUSOLVER_STATUS_NOT_SUPPORTED"),
        ("cuda_geqrf", "cusolverDnDgeqrf", 2, 8, "CUSOLVER_STATUS_ALLOC_FAILED"),
        ("cuda_orgqr", "cuMemsetD8Async", 999, 13, "999"),
        ("cuda_orgqr", "cusolverDnDorgqr_bufferSize", 7, 13, "CUSOLVER_STATUS_INTERNAL_ERROR"),
        ("cuda_orgqr", "cusolverDnDorgqr", 7, 13, "CUSOLVER_STATUS_INTERNAL_ERROR"),
        ("cuda_lu", "cusolverDnDgetrf_bufferSize", 11, 13, "CUSOLVER_STATUS_INVALID_LICENSE"),
        ("cuda_lu", "cusolverDnDgetrf", 31, 13, "31"),
        ("cuda_svd", "cusolverDnDgesvd_bufferSize", 4, 13, "CUSOLVER_STATUS_ARCH_MISMATCH"),
        ("cuda_svd", "cusolverDnDgesvd", 6, 13, "CUSOLVER_STATUS_EXECUTION_FAILED"),
        ("cuda_eigh", "cusolverDnDsyevd_bufferSize", 10, 13, "CUSOLVER_STATUS_ZERO_PIVOT"),
        ("cuda_eigh", "cusolverDnDsyevd", 8, 13, "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED"),
        ("cuda_lu_pivots_to_permutation", "cuMemcpyDtoHAsync_v2", 2, 8, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuda_lu_pivots_to_permutation", "cuMemcpyHtoDAsync_v2", 2, 8, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuda_lu_pivots_to_permutation", "cuStreamSynchronize", 201, 13, "CUDA_ERROR_INVALID_CONTEXT"),
    ] {
        let error = fail(target, function, status);
        assert_eq!(error.code(), Some(code), "{error}");
        let message = format!("{target}: {} failed: {name}.", function.trim_end_matches("_v2"));
        assert!(error.message().contains(&message), "{error} instead of {message}");
    }
    let error = fail("cuda_geqrf", "memory", 0);
    assert_eq!(error.code(), Some(8), "{error}");
    assert!(error.message().contains("Not enough memory on the device: "), "{error}");
}

thread_local! {
    static WRITTEN: RefCell<String> = const { RefCell::new(String::new()) };
}

#[test]
fn print_tensor_prints_what_is_on_the_device() {
    start();
    console::set_writer(|text| {
        WRITTEN.with_borrow_mut(|written| written.push_str(text));
        Ok(())
    });
    let operand = Operand::new(DType::I32, &[], &[3]);
    let values = vec![(1.0, 0.0), (-2.0, 0.0), (3.0, 0.0)];
    let outputs = try_call("cuda_print_tensor", "", &[(operand.clone(), values.clone())], &[operand]).unwrap();
    assert_eq!(outputs, [values]);
    console::flush().unwrap();
    assert_eq!(WRITTEN.take(), "PJRTBuffer\n  1\n -2\n  3\n[ i32{3} ]\n");
}

#[test]
fn threads_share_few_handles() {
    start();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                let mut random = Random(20 + seed);
                for _ in 0..25 {
                    let xs = [random.matrix(DType::F64, 3, 3)];
                    let outputs = [(DType::F64, &[3, 3][..]), (DType::I32, &[3])];
                    let found = call("cuda_lu", "", &[(DType::F64, &[3, 3], &values_of(&xs))], &outputs);
                    assert_close(&product_of_lu(&found[0][0], &found[0][1].values), &xs[0], 1e-10);
                }
            });
        }
    });
    // SAFETY: the function has no arguments. Other tests may hold some, too.
    assert!(unsafe { (fake().handles)() } <= 16 + 32);
}

#[test]
fn the_targets_are_registered_for_cuda_and_hosts() {
    for (target, _) in cuda::TARGETS {
        assert_eq!(registry::known(target, "cuda"), Some(registry::Known::BuiltIn));
        assert_eq!(registry::platforms(target), ["host", "cuda"]);
    }
}
