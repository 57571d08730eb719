//! Uploads and downloads on the real CPU plugin: how arrays travel, and how long the caller's memory is needed.

mod common;

use pjrt_base::error::{Error, Kind, RESOURCE_EXHAUSTED};
use pjrt_core::buffer::upload::{Upload, UploadRoute};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::host::array::HostPieces;
use pjrt_core::runtime::oom;
use pjrt_core::{Buffer, Device, Executable, HostArray, HostContent, HostMemory, HostOrder};
use pjrt_data::array::Spec;
use pjrt_data::convert::{Check, HostTarget, HostValues, LossReport, NA_INTEGER};
use pjrt_data::dtype::{DType, HostType};
use pjrt_program::program::{Format, Program};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

/// The device of a client that no other test has.
fn device() -> Device {
    common::client_of(1).devices().next().unwrap()
}

/// Memory that is lent, and whether it was given back.
#[derive(Clone, Default)]
struct Loan(Arc<AtomicBool>);

struct Lease(Loan);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0 .0.store(true, Ordering::SeqCst);
    }
}

impl Loan {
    fn lease(&self) -> Lease {
        Lease(self.clone())
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn ends(&self) -> bool {
        let start = Instant::now();
        while !self.is_over() && start.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        self.is_over()
    }
}

/// `len` doubles that lie `offset` values after an address that devices can use in place.
struct Doubles {
    memory: Arc<HostMemory>,
    offset: usize,
    len: usize,
}

impl Doubles {
    fn new(len: usize, offset: usize) -> Self {
        let memory = HostMemory::new((len + offset) * 8).unwrap();
        let data = memory.data().cast::<f64>();
        // SAFETY: the block is this long.
        (0..len + offset).for_each(|i| unsafe { data.add(i).write(i as f64 - offset as f64) });
        Doubles { memory, offset, len }
    }

    fn values(&self) -> &[f64] {
        // SAFETY: all are written, and none is written again.
        unsafe { std::slice::from_raw_parts(self.memory.data().cast::<f64>().add(self.offset), self.len) }
    }

    fn array<'a>(&'a self, dims: &'a [i64]) -> HostArray<'a> {
        matrix(dims, HostContent::Values(HostValues::Double(self.values())))
    }
}

fn matrix<'a>(dims: &'a [i64], content: HostContent<'a>) -> HostArray<'a> {
    HostArray { dims, order: HostOrder::ColumnMajor, content }
}

fn route(device: &Device, dtype: DType, array: &HostArray) -> UploadRoute {
    Upload::new(device, dtype, array, Check::Missing).unwrap().route()
}

fn upload(device: &Device, dtype: DType, array: &HostArray, loan: &Loan) -> Buffer {
    // SAFETY: the tests drop the arrays last.
    unsafe { Upload::new(device, dtype, array, Check::Missing).unwrap().run(loan.lease()) }.unwrap().unwrap()
}

fn target<T>(host_type: HostType, out: &mut [T]) -> HostTarget {
    HostTarget { host_type, data: out.as_mut_ptr().cast() }
}

/// What the upload of these finds that the dtype cannot hold.
fn lost(device: &Device, dtype: DType, values: HostValues) -> Option<LossReport> {
    let dims = [values.len() as i64];
    let loan = Loan::default();
    let upload = Upload::new(device, dtype, &matrix(&dims, HostContent::Values(values)), Check::All).unwrap();
    assert!(!upload.route().keeps_source(), "the caller must be told at once");
    // SAFETY: the values outlive the upload.
    let made = unsafe { upload.run(loan.lease()) }.unwrap();
    assert!(loan.is_over());
    made.err()
}

fn bytes(buffer: &Buffer) -> Vec<u8> {
    buffer.read().unwrap().bytes().to_vec()
}

fn doubles(buffer: &Buffer, order: HostOrder) -> Vec<f64> {
    let spec = buffer.spec();
    let mut out = vec![f64::NAN; spec.len()];
    let view = buffer.wait().unwrap().view().unwrap();
    // SAFETY: as many doubles as the buffer has elements.
    assert_eq!(unsafe { view.decode(spec, order, target(HostType::Double, &mut out), false) }.unwrap(), 0);
    out
}

/// Keeps the client's uploads in the background from going on until the sender is dropped.
fn hold_uploads(device: &Device) -> mpsc::Sender<()> {
    let (hold, held) = mpsc::channel();
    let spec = Spec::new(DType::I8, &[0]).unwrap();
    let wait = move |_: *mut u8| {
        let _ = held.recv();
        Ok(())
    };
    Buffer::from_host_later(device, spec, HostMemory::new(0).unwrap(), wait).map(std::mem::forget).unwrap();
    hold
}

#[test]
fn aligned_elements_are_used_in_place_until_the_buffer_is_gone() {
    let (device, source, loan) = (device(), Doubles::new(4000, 0), Loan::default());
    for dims in [&[4000][..], &[4000, 1], &[1, 4000, 1]] {
        assert_eq!(route(&device, DType::F64, &source.array(dims)), UploadRoute::Shared, "{dims:?}");
    }
    let buffer = upload(&device, DType::F64, &source.array(&[4000]), &loan);
    buffer.wait().unwrap();
    assert_eq!(buffer.read().unwrap().bytes().as_ptr(), source.values().as_ptr().cast());
    let view = buffer.read().unwrap();
    drop(buffer);
    assert!(!loan.is_over(), "a view needs the memory");
    drop(view);
    assert!(loan.ends());
}

#[test]
fn what_cannot_be_used_in_place_is_copied_during_the_call() {
    let device = device();
    let (aligned, crooked) = (Doubles::new(4000, 0), Doubles::new(4000, 1));
    let cases: [(&Doubles, DType, &[i64], UploadRoute); 6] = [
        (&crooked, DType::F64, &[4000], UploadRoute::Now),
        (&aligned, DType::F64, &[40, 100], UploadRoute::Now),
        (&aligned, DType::F32, &[4000], UploadRoute::Now),
        (&Doubles::new(1000, 0), DType::F64, &[1000], UploadRoute::Now),
        (&Doubles::new(256, 0), DType::F64, &[256], UploadRoute::Small),
        (&Doubles::new(1, 0), DType::F64, &[500], UploadRoute::Now),
    ];
    for (source, dtype, dims, expected) in cases {
        let (array, loan) = (source.array(dims), Loan::default());
        assert_eq!(route(&device, dtype, &array), expected, "{dims:?}");
        let buffer = upload(&device, dtype, &array, &loan);
        assert!(loan.is_over());
        assert_ne!(buffer.read().unwrap().bytes().as_ptr(), source.values().as_ptr().cast());
        let wanted = |i: usize| if source.len == 1 { 0.0 } else { i as f64 };
        let found = doubles(&buffer, HostOrder::ColumnMajor);
        assert!(found.iter().enumerate().all(|(i, &value)| value == wanted(i)), "{dims:?}");
    }
    // A check reads the values now, in any case.
    let large = Doubles::new(3_000_000, 0);
    let checked = Upload::new(&device, DType::F64, &large.array(&[3_000_000]), Check::All).unwrap();
    assert_eq!(checked.route(), UploadRoute::Now);
}

#[test]
fn large_arrays_are_converted_in_the_background_and_kept_that_long() {
    let (device, source, loan) = (device(), Doubles::new(2_200_000, 0), Loan::default());
    let array = source.array(&[1100, 2000]);
    assert_eq!(route(&device, DType::F32, &array), UploadRoute::Background);
    let held = hold_uploads(&device);
    let buffer = upload(&device, DType::F32, &array, &loan);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!loan.is_over() && !buffer.is_ready().unwrap());
    drop(held);
    let ready = buffer.wait().unwrap();
    assert!(loan.is_over());
    assert_eq!(ready.view().unwrap().bytes()[4..8], 1100f32.to_ne_bytes(), "row-major on the device");
    assert_eq!(doubles(&buffer, HostOrder::ColumnMajor), source.values());
}

#[test]
fn a_buffer_dropped_while_pending_gives_its_source_back_unread() {
    let (device, source, loan) = (device(), Doubles::new(2_200_000, 0), Loan::default());
    let held = hold_uploads(&device);
    drop(upload(&device, DType::F32, &source.array(&[2_200_000]), &loan));
    assert!(!loan.is_over());
    drop(held);
    assert!(loan.ends());
}

#[test]
fn arrays_of_another_size_or_type_than_told_are_refused() {
    let device = device();
    let numbers = HostContent::Values(HostValues::Integer(&[1, 2, 3]));
    let cases: [(DType, &[i64], HostContent, Kind); 6] = [
        (DType::I32, &[2], numbers, Kind::ShapeMismatch),
        (DType::I32, &[], numbers, Kind::ShapeMismatch),
        (DType::I32, &[2, 2], HostContent::Values(HostValues::Integer(&[])), Kind::InvalidInput),
        (DType::Pred, &[3], numbers, Kind::UnsupportedDtype),
        (DType::I32, &[3], HostContent::Elements(&[0; 11]), Kind::InvalidInput),
        (DType::I32, &[3], HostContent::Elements(&[0; 13]), Kind::InvalidInput),
    ];
    for (dtype, dims, content, kind) in cases {
        let refused = Upload::new(&device, dtype, &matrix(dims, content), Check::Missing).err();
        assert_eq!(refused.map(|error| error.kind()), Some(kind), "{dims:?}");
    }
    let pieces = |len| HostPieces { host_type: HostType::Integer, len, read: &|_, _, _| unreachable!() };
    let refused =
        |dtype, len| Upload::in_pieces(&device, dtype, &[5], pieces(len), Check::Missing).err().map(|e| e.kind());
    assert_eq!(refused(DType::I32, 4), Some(Kind::ShapeMismatch));
    assert_eq!(refused(DType::Pred, 5), Some(Kind::UnsupportedDtype));
}

#[test]
fn elements_and_zeros_need_no_conversion() {
    let (device, loan) = (device(), Loan::default());
    let elements = HostContent::Elements(&[1, 2, 3, 4, 5, 6]);
    let buffer = upload(&device, DType::U8, &matrix(&[2, 3], elements), &loan);
    assert_eq!(bytes(&buffer), [1, 3, 5, 2, 4, 6]);
    let rows = HostArray { dims: &[2, 3], order: HostOrder::RowMajor, content: elements };
    assert_eq!(bytes(&upload(&device, DType::U8, &rows, &loan)), [1, 2, 3, 4, 5, 6]);
    for dims in [&[][..], &[0, 3], &[5000], &[3000, 1000]] {
        let zeros = upload(&device, DType::I32, &matrix(dims, HostContent::Zeros), &loan);
        assert!(bytes(&zeros).iter().all(|&byte| byte == 0), "{dims:?}");
        assert_eq!(zeros.dims(), dims);
    }
}

#[test]
fn a_check_reports_values_that_the_dtype_cannot_hold() {
    let device = device();
    let report = |missing, out_of_range, first| Some(LossReport { missing, out_of_range, first });
    assert_eq!(lost(&device, DType::I8, HostValues::Integer(&[1, 2, 300, NA_INTEGER, -129])), report(1, 2, 2));
    assert_eq!(lost(&device, DType::I8, HostValues::Integer(&[1, 2, 127])), None);
    let mut many = vec![1.0; 5000];
    many[4321] = f64::NAN;
    assert_eq!(lost(&device, DType::I32, HostValues::Double(&many)).map(|found| found.first), Some(4321));
}

#[test]
fn values_that_a_function_writes_are_never_all_in_memory() {
    let device = device();
    let asked = RefCell::new(Vec::new());
    let read = |start: usize, count: usize, to: *mut u8| {
        asked.borrow_mut().push((start, count));
        // SAFETY: there is room for `count` integers.
        (0..count).for_each(|i| unsafe { to.cast::<i32>().add(i).write((start + i) as i32) });
    };
    let pieces = |len| HostPieces { host_type: HostType::Integer, len, read: &read };
    let plan = |dtype, len, check| Upload::in_pieces(&device, dtype, &[20_000], pieces(len), check).unwrap();
    assert!(!plan(DType::F64, 20_000, Check::Missing).route().keeps_source());
    // SAFETY: the function writes what it is asked for.
    let buffer = unsafe { plan(DType::F64, 20_000, Check::Missing).run(()) }.unwrap().unwrap();
    assert_eq!(doubles(&buffer, HostOrder::ColumnMajor), (0..20_000).map(f64::from).collect::<Vec<_>>());
    assert_eq!(asked.take(), [(0, 8192), (8192, 8192), (16384, 3616)]);
    // SAFETY: as above.
    let found = unsafe { plan(DType::U16, 20_000, Check::All).run(()) }.unwrap().err();
    assert_eq!(found, None);
    // SAFETY: as above.
    let found = unsafe { plan(DType::I8, 20_000, Check::All).run(()) }.unwrap().err();
    assert_eq!(found, Some(LossReport { missing: 0, out_of_range: 20_000 - 128, first: 128 }));
    // SAFETY: as above.
    let filled = unsafe { plan(DType::F32, 1, Check::Missing).run(()) }.unwrap().unwrap();
    assert!(doubles(&filled, HostOrder::RowMajor).iter().all(|&value| value == 0.0));
}

#[test]
fn an_upload_without_memory_is_tried_again_after_a_collection() {
    thread_local! {
        static COLLECTIONS: Cell<usize> = const { Cell::new(0) };
    }
    oom::set_collector(|| {
        COLLECTIONS.set(COLLECTIONS.get() + 1);
        Ok::<(), Error>(())
    });
    let (device, loan) = (device(), Loan::default());
    let upload = Upload::new(&device, DType::I8, &matrix(&[1 << 47], HostContent::Zeros), Check::Missing).unwrap();
    // SAFETY: nothing is read.
    let error = unsafe { upload.run(loan.lease()) }.unwrap_err();
    assert_eq!((error.code(), COLLECTIONS.get()), (Some(RESOURCE_EXHAUSTED), 1));
    assert!(error.hints()[0].contains("i8[140737488355328]"), "{:?}", error.hints());
    assert!(loan.is_over());
}

const DONATING_ADD: &str =
    "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

#[test]
fn a_buffer_donated_after_the_wait_is_not_read() {
    let (device, source, loan) = (device(), Doubles::new(4, 0), Loan::default());
    let program = Program::new(DONATING_ADD.as_bytes().to_vec(), Format::Mlir).unwrap();
    let place = std::slice::from_ref(&device);
    let add = Executable::compile(place, &program, &CompileOptions::default()).unwrap();
    let x = upload(&device, DType::F32, &source.array(&[4]), &loan);
    let y = upload(&device, DType::F32, &source.array(&[4]), &loan);
    let (ready, transfer) = (x.wait().unwrap(), x.start_read().unwrap());
    let sum = add.execute(&[&x, &y], &ExecuteOptions::default()).unwrap().into_vec().remove(0);
    assert_eq!(ready.view().unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(ready.read_range(0, &mut [0; 4]).unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(x.wait().unwrap_err().kind(), Kind::DeletedBuffer);
    assert_eq!(doubles(&sum, HostOrder::RowMajor), [0.0, 2.0, 4.0, 6.0]);
    let arrived = transfer.wait().unwrap();
    let mut before = [f64::NAN; 4];
    let target = target(HostType::Double, &mut before);
    // SAFETY: as many doubles as the buffer has elements.
    unsafe { arrived.view().decode(x.spec(), HostOrder::RowMajor, target, true) }.unwrap();
    assert_eq!(before, [0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn downloads_report_values_that_the_host_type_cannot_hold_and_stay_in_bounds() {
    let (device, loan) = (device(), Loan::default());
    let values = HostContent::Values(HostValues::Integer64(&[1, -2, 1 << 40, i64::MIN]));
    let buffer = upload(&device, DType::I64, &matrix(&[4], values), &loan);
    let (spec, view) = (buffer.spec(), buffer.read().unwrap());
    let (mut integers, mut same) = ([0i32; 4], [0i64; 4]);
    // SAFETY: each has room for as many values as the buffer has elements.
    let decode = |target, check| unsafe { view.decode(spec, HostOrder::RowMajor, target, check) }.unwrap();
    // Another type than the dtype's own is always checked.
    assert_eq!(decode(target(HostType::Integer, &mut integers), false), 2);
    assert_eq!(integers[..2], [1, -2]);
    assert_eq!(decode(target(HostType::Integer64, &mut same), false), 0);
    assert_eq!(decode(target(HostType::Integer64, &mut same), true), 1);
    assert_eq!(same, [1, -2, 1 << 40, i64::MIN]);
    let other = Spec::new(DType::I64, &[5]).unwrap();
    assert_eq!(view.ordered_copy(&other, HostOrder::RowMajor).unwrap_err().kind(), Kind::Internal);
    let matrix = upload(&device, DType::U8, &matrix(&[2, 3], HostContent::Elements(&[1, 2, 3, 4, 5, 6])), &loan);
    let in_order = |order| matrix.read().unwrap().in_order(matrix.spec(), order).unwrap();
    assert_eq!(in_order(HostOrder::ColumnMajor).bytes(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(in_order(HostOrder::RowMajor).bytes().as_ptr(), matrix.read().unwrap().bytes().as_ptr());
}
