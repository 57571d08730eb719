//! DLPack on the real CPU plugin: whose memory it is, for how long, and who writes to it.

mod common;

use common::{client_of, download, floats, program, upload_to};
use pjrt_base::error::Kind;
use pjrt_core::buffer::borrowed::is_borrowed;
use pjrt_core::dlpack::{release_pending, Copies, Managed, Wanted};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Device, Executable};
use pjrt_data::array::Spec;
use pjrt_data::dlpack::{self as c, Element, Place, Tensor};
use pjrt_data::dtype::{DType, ALL};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const LEN: usize = 50_000;

/// Tests that release other libraries' arrays, which is up to the process, run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn device() -> Device {
    client_of(1).devices().next().unwrap()
}

const VIEW: Wanted = Wanted { is_versioned: true, copy: false };

fn ones(device: &Device) -> Buffer {
    upload_to(device, &[LEN as i64], &[1.0; LEN])
}

/// Adds the input to itself in place.
fn donating(device: &Device) -> Executable {
    let text = format!(
        "func.func @main(%x: tensor<{LEN}xf32> {{tf.aliasing_output = 0 : i32}}) -> tensor<{LEN}xf32> {{
          %0 = stablehlo.add %x, %x : tensor<{LEN}xf32>
          return %0 : tensor<{LEN}xf32>
        }}"
    );
    Executable::compile(std::slice::from_ref(device), &program(&text), &CompileOptions::default()).unwrap()
}

fn run(executable: &Executable, input: &Buffer) -> Vec<f32> {
    let outputs = executable.execute(&[input], &ExecuteOptions::default()).unwrap();
    download(&outputs[0])
}

/// The numbers that a consumer of the array sees.
fn seen(array: &Managed) -> Vec<f32> {
    let lent = array.array().unwrap();
    let mut bytes = vec![0; lent.spec.bytes()];
    // SAFETY: there is room for the array, which is lent.
    unsafe { lent.copy_to(bytes.as_mut_ptr()).unwrap() };
    floats(&bytes)
}

/// An array of another library: numbers, the place of the first, and how often it was released.
struct Foreign {
    numbers: Vec<f32>,
    first: usize,
    shape: Box<[i64]>,
    strides: Option<Box<[i64]>>,
    released: Arc<AtomicUsize>,
}

impl Foreign {
    /// `len` numbers so many places after a multiple of 64 bytes.
    fn new(len: usize, offset: usize) -> Foreign {
        let numbers: Vec<f32> = (0..len + offset + 16).map(|_| 1.0).collect();
        let first = numbers.as_ptr().align_offset(64) + offset;
        Foreign { numbers, first, shape: [len as i64].into(), strides: None, released: Arc::default() }
    }

    fn numbers(&mut self) -> &mut [f32] {
        let len: i64 = self.shape.iter().product();
        &mut self.numbers[self.first..][..len as usize]
    }

    /// Lends it; the struct owns a share of nothing but the counter.
    fn lend(&mut self) -> Managed {
        unsafe extern "C" fn release(managed: *mut c::ManagedVersioned) {
            let managed = Box::from_raw(managed);
            Arc::from_raw(managed.context.cast::<AtomicUsize>()).fetch_add(1, Ordering::SeqCst);
        }
        let tensor = Tensor {
            data: self.numbers().as_mut_ptr().cast(),
            device: Place { kind: Place::CPU, id: 0 },
            ndim: self.shape.len() as i32,
            dtype: Element::of(DType::F32),
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut().map_or(std::ptr::null_mut(), |strides| strides.as_mut_ptr()),
            byte_offset: 0,
        };
        let context = Arc::into_raw(self.released.clone()).cast_mut().cast::<c_void>();
        let version = c::Version { major: 1, minor: 3 };
        let managed = c::ManagedVersioned { version, context, deleter: Some(release), flags: c::READ_ONLY, tensor };
        // SAFETY: a struct of this kind, which is given up.
        unsafe { Managed::from_raw(Box::into_raw(Box::new(managed)).cast(), true) }.unwrap()
    }

    fn import(&mut self, device: &Device, copies: Copies) -> Buffer {
        Buffer::import(&mut Some(self.lend()), device, copies, None).unwrap()
    }

    fn times_released(&self) -> usize {
        release_pending();
        self.released.load(Ordering::SeqCst)
    }
}

#[test]
fn a_buffer_and_its_array_are_the_same_memory() {
    let device = device();
    let buffer = ones(&device);
    for is_versioned in [true, false] {
        let array = buffer.export(Wanted { is_versioned, copy: false }).unwrap();
        assert_eq!((array.is_versioned(), array.is_read_only()), (is_versioned, is_versioned));
        let lent = array.array().unwrap();
        assert_eq!(lent.data.cast_mut().cast(), buffer.device_address().unwrap());
        assert_eq!(lent.spec, **buffer.spec());
        let again = Buffer::import(&mut Some(array), &device, Copies::Never, None).unwrap();
        assert_eq!(again.device_address().unwrap(), buffer.device_address().unwrap());
    }
    let copy = buffer.export(Wanted { is_versioned: true, copy: true }).unwrap();
    assert!(!copy.is_read_only());
    assert_ne!(copy.array().unwrap().data.cast_mut().cast(), buffer.device_address().unwrap());
    assert_eq!(seen(&copy), vec![1.0; LEN]);
}

#[test]
fn every_type_of_whole_bytes_and_every_shape_makes_a_round_trip() {
    let device = device();
    for &dtype in ALL {
        for dims in [&[][..], &[0], &[3], &[2, 0, 3], &[2, 3, 4]] {
            let spec = Spec::new(dtype, dims).unwrap();
            let bytes: Vec<u8> = (0..spec.bytes()).map(|i| (i % 2) as u8).collect();
            let buffer = Buffer::from_bytes(&device, spec.clone(), &bytes).unwrap();
            let exported = buffer.export(VIEW);
            if dtype.is_packed() {
                assert_eq!(exported.unwrap_err().kind(), Kind::UnsupportedDtype);
                continue;
            }
            let back = Buffer::import(&mut Some(exported.unwrap()), &device, Copies::IfNeeded, None).unwrap();
            assert_eq!(**back.spec(), spec);
            assert_eq!(back.read().unwrap().bytes(), bytes, "{dtype} {dims:?}");
        }
    }
}

#[test]
fn an_array_outlives_its_buffer_however_that_ends() {
    let device = device();
    let (donates, live) = (donating(&device), || device.client().usage().live_buffers());
    let ends: [fn(Buffer, &Executable); 3] = [
        |buffer, _| drop(buffer),
        |buffer, _| buffer.delete().unwrap(),
        |buffer, executable| {
            assert_eq!(run(executable, &buffer), vec![2.0; LEN]);
            assert!(buffer.is_donated());
        },
    ];
    for end in ends {
        let before = live();
        let buffer = ones(&device);
        let array = buffer.export(VIEW).unwrap();
        end(buffer, &donates);
        // What is freed by mistake is used again.
        let _others: Vec<Buffer> = (0..8).map(|_| upload_to(&device, &[LEN as i64], &[7.0; LEN])).collect();
        assert_eq!(seen(&array), vec![1.0; LEN]);
        drop(array);
        drop(_others);
        assert_eq!(live(), before);
    }
}

#[test]
fn a_deleted_buffer_is_freed_after_its_last_array() {
    let device = device();
    let buffer = ones(&device);
    let arrays = [buffer.export(VIEW).unwrap(), buffer.export(VIEW).unwrap()];
    buffer.delete().unwrap();
    assert_eq!(buffer.export(VIEW).unwrap_err().kind(), Kind::DeletedBuffer);
    for array in arrays {
        assert_eq!(seen(&array)[..3], [1.0; 3]);
        drop(array);
    }
}

#[test]
fn an_array_outlives_the_client() {
    let device = device();
    let buffer = ones(&device);
    let arrays = [buffer.export(VIEW).unwrap(), buffer.export(VIEW).unwrap()];
    // SAFETY: no other thread has the client.
    unsafe { device.client().close().unwrap() };
    assert_eq!(buffer.export(VIEW).unwrap_err().kind(), Kind::ClientClosed);
    for array in arrays {
        assert_eq!(seen(&array), vec![1.0; LEN]);
        drop(array);
    }
}

#[test]
fn arrays_are_released_on_any_thread() {
    let device = device();
    let buffer = ones(&device);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(seen(&buffer.export(VIEW).unwrap())[LEN - 1], 1.0);
                }
                // The plugin would lose count of these if they came at the same time.
                for _ in 0..5_000 {
                    drop(buffer.export(VIEW).unwrap());
                }
            });
        }
    });
    assert_eq!(run(&donating(&device), &buffer), vec![2.0; LEN]);
}

#[test]
fn an_aligned_array_is_used_in_place_and_never_written_to() {
    let (_alone, device) = (alone(), device());
    let mut foreign = Foreign::new(LEN, 0);
    let buffer = foreign.import(&device, Copies::Never);
    assert_eq!(buffer.device_address().unwrap(), foreign.numbers().as_mut_ptr().cast());
    assert_eq!(run(&donating(&device), &buffer), vec![2.0; LEN]);
    assert!(buffer.is_donated());
    assert!(foreign.numbers().iter().all(|&number| number == 1.0));
    drop(buffer);
    assert_eq!(foreign.times_released(), 1);
}

#[test]
fn memory_that_several_buffers_use_counts_once() {
    let _alone = alone();
    let (device, mut foreign) = (device(), Foreign::new(LEN, 0));
    let bytes = 4 * LEN;
    let new = || device.client().usage().new_bytes();
    let first = foreign.import(&device, Copies::Never);
    assert_eq!((new(), is_borrowed(foreign.numbers().as_ptr().cast())), (bytes, true));
    let second = foreign.import(&device, Copies::Never);
    assert_eq!(new(), bytes);
    drop(foreign.import(&device, Copies::Always));
    assert_eq!(new(), 2 * bytes);
    drop(first);
    assert!(is_borrowed(foreign.numbers().as_ptr().cast()));
    drop(second);
    assert!(!is_borrowed(foreign.numbers().as_ptr().cast()));
    drop(foreign.import(&device, Copies::Never));
    assert_eq!(new(), 3 * bytes);
    release_pending();
}

#[test]
fn other_arrays_are_copied_and_released_at_once() {
    let (_alone, device) = (alone(), device());
    let mut unaligned = Foreign::new(LEN, 1);
    let mut transposed = Foreign::new(LEN, 0);
    transposed.shape = [2, LEN as i64 / 2].into();
    transposed.strides = Some([1, 2].into());
    for foreign in [&mut unaligned, &mut transposed] {
        for (i, number) in foreign.numbers().iter_mut().enumerate() {
            *number = i as f32;
        }
        let mut array = Some(foreign.lend());
        let error = Buffer::import(&mut array, &device, Copies::Never, None).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput, "{error}");
        // It was not taken.
        let buffer = Buffer::import(&mut array, &device, Copies::IfNeeded, None).unwrap();
        assert!(array.is_none());
        assert_eq!(foreign.times_released(), 1);
        let step = foreign.strides.as_ref().map_or(1, |strides| strides[1] as usize);
        assert_eq!(download(&buffer)[1], step as f32);
    }
    let mut aligned = Foreign::new(LEN, 0);
    let buffer = aligned.import(&device, Copies::Always);
    assert_eq!(aligned.times_released(), 1);
    assert_ne!(buffer.device_address().unwrap(), aligned.numbers().as_mut_ptr().cast());
}

#[test]
fn an_unused_array_is_released_once() {
    let _alone = alone();
    let mut foreign = Foreign::new(10, 0);
    drop(foreign.lend());
    assert_eq!(foreign.released.load(Ordering::SeqCst), 0);
    assert_eq!(foreign.times_released(), 1);
    assert_eq!(foreign.times_released(), 1);
}

#[test]
fn unknown_arrays_and_arrays_of_other_devices_are_refused() {
    let (_alone, device) = (alone(), device());
    // SAFETY: null pointers are allowed.
    assert!(unsafe { Managed::from_raw(std::ptr::null_mut(), true) }.is_err());
    let mut foreign = Foreign::new(10, 0);
    let refused = |foreign: &mut Foreign, change: fn(&mut c::ManagedVersioned)| {
        let address = foreign.lend().into_raw();
        // SAFETY: the struct was just given up by its owner.
        unsafe { change(&mut *address.cast()) };
        // SAFETY: as above.
        let array = unsafe { Managed::from_raw(address, true) };
        array.and_then(|array| Buffer::import(&mut Some(array), &device, Copies::IfNeeded, None)).unwrap_err().kind()
    };
    assert_eq!(refused(&mut foreign, |array| array.version.major = 2), Kind::InvalidInput);
    assert_eq!(refused(&mut foreign, |array| array.tensor.device.kind = Place::CUDA), Kind::DeviceMismatch);
    assert_eq!(refused(&mut foreign, |array| array.tensor.device.kind = 8), Kind::DeviceMismatch);
    assert_eq!(refused(&mut foreign, |array| array.tensor.dtype.lanes = 2), Kind::UnsupportedDtype);
    assert_eq!(refused(&mut foreign, |array| array.tensor.ndim = -1), Kind::InvalidInput);
    assert_eq!(foreign.times_released(), 5);
}
