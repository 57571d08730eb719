//! DLPack: the C structs with which array libraries lend each other arrays, and checks of their content.

use crate::array::Spec;
use crate::convert;
use crate::dtype::DType;
use crate::layout;
use crate::transpose::Plan;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use std::ffi::c_void;

/// The version of DLPack that is written: major and minor. Every minor version of the same major version is read.
pub const VERSION: (u32, u32) = (1, 1);

/// Flag: nobody may write to the array.
pub const READ_ONLY: u64 = 1;
/// Flag: the array is a copy, so the consumer is its only user.
pub const IS_COPIED: u64 = 1 << 1;

/// `DLDevice`: where an array is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// One of the constants of this type.
    pub kind: i32,
    /// The number of the device among all of its kind.
    pub id: i32,
}

impl Place {
    pub const CPU: i32 = 1;
    pub const CUDA: i32 = 2;
    pub const CUDA_HOST: i32 = 3;
    pub const ROCM: i32 = 10;
    pub const ROCM_HOST: i32 = 11;

    /// Whether the array is in memory that the processor can read.
    pub fn is_host(self) -> bool {
        matches!(self.kind, Place::CPU | Place::CUDA_HOST | Place::ROCM_HOST)
    }

    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self.kind {
            Place::CPU => "CPU",
            Place::CUDA => "CUDA",
            Place::CUDA_HOST => "pinned CUDA host",
            Place::ROCM => "ROCm",
            Place::ROCM_HOST => "pinned ROCm host",
            7 => "Vulkan",
            8 => "Metal",
            13 => "managed CUDA",
            14 => "oneAPI",
            _ => "unknown",
        }
    }
}

/// `DLDataType`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

impl Element {
    pub fn of(dtype: DType) -> Element {
        let info = dtype.info();
        Element { code: info.dlpack, bits: info.bits as u8, lanes: 1 }
    }

    /// # Errors
    /// `UnsupportedDtype`.
    fn dtype(self) -> Result<DType> {
        let found = DType::from_dlpack(self.code, self.bits).filter(|dtype| self.lanes == 1 && !dtype.is_packed());
        found.ok_or_else(|| {
            let Element { code, bits, lanes } = self;
            let lanes = counted(lanes.into(), "lane");
            let message = format!("The elements have an unsupported type: code {code}, {bits} bits, {lanes}.");
            Error::new(Kind::UnsupportedDtype, message)
        })
    }
}

/// `DLTensor`: an array.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    pub data: *mut c_void,
    pub device: Place,
    pub ndim: i32,
    pub dtype: Element,
    pub shape: *mut i64,
    /// In elements; null if the array is dense and row-major.
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// `DLManagedTensor`: an array and the function that releases it. DLPack before 1.0 has only this struct.
#[repr(C)]
#[derive(Debug)]
pub struct Managed {
    pub tensor: Tensor,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

/// `DLManagedTensorVersioned`: the same since DLPack 1.0, with flags.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedVersioned {
    pub version: Version,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    pub flags: u64,
    pub tensor: Tensor,
}

/// An array that another library lends, after checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Lent {
    /// Type and shape, row-major.
    pub spec: Spec,
    pub place: Place,
    /// Its first element, which is the one with all indices 0.
    pub data: *const u8,
    /// In elements; `None` if the array is dense and row-major.
    pub strides: Option<Box<[i64]>>,
}

impl Lent {
    /// Checks an array.
    ///
    /// # Errors
    /// `UnsupportedDtype`; `InvalidInput` for an impossible shape or a missing address.
    ///
    /// # Safety
    /// The struct's pointers are null or point to as many numbers as it has dimensions.
    pub unsafe fn read(tensor: &Tensor) -> Result<Lent> {
        let dtype = tensor.dtype.dtype()?;
        let rank = match usize::try_from(tensor.ndim) {
            Ok(rank) if rank <= layout::MAX_RANK && (rank == 0 || !tensor.shape.is_null()) => rank,
            _ => bail!(InvalidInput, "The array has an impossible number of dimensions: {}.", tensor.ndim),
        };
        let numbers = |first: *mut i64| if rank == 0 { &[][..] } else { std::slice::from_raw_parts(first, rank) };
        let spec = Spec::new(dtype, numbers(tensor.shape))?;
        let strides = (!tensor.strides.is_null()).then(|| numbers(tensor.strides));
        let strides = strides.filter(|strides| !is_row_major(&spec, strides)).map(Box::from);
        ensure!(!tensor.data.is_null() || spec.is_empty(), InvalidInput, "The array {spec} has no address.");
        let data = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        let lent = Lent { spec, place: tensor.device, data, strides };
        lent.check_extent()?;
        Ok(lent)
    }

    /// Checks that the distances between elements are possible for an array in memory.
    fn check_extent(&self) -> Result<()> {
        let Some(strides) = &self.strides else { return Ok(()) };
        let width = self.spec.dtype.host_bytes() as i64;
        let span = |(&dim, &stride): (&i64, &i64)| (dim - 1).checked_mul(stride)?.checked_abs()?.checked_mul(width);
        let total = self.spec.dims.iter().zip(&**strides).try_fold(0i64, |sum, axis| sum.checked_add(span(axis)?));
        match total {
            Some(_) => Ok(()),
            None => bail!(InvalidInput, "The array {} has impossible strides.", self.spec),
        }
    }

    /// Copies the elements to `target`, row-major.
    ///
    /// # Errors
    /// `Interrupted`.
    ///
    /// # Safety
    /// The array is in host memory and stays as it is during the call; `target` has room for the spec's bytes.
    pub unsafe fn copy_to(&self, target: *mut u8) -> Result<()> {
        let spec = &self.spec;
        if spec.is_empty() {
            return Ok(());
        }
        let Some(strides) = &self.strides else {
            return convert::copy(spec.dtype, &Plan::contiguous(spec.len()), self.data, target);
        };
        let axes = spec.dims.iter().zip(&**strides).zip(layout::row_major(&spec.dims));
        let axes: Vec<Axis> = axes.map(|((&len, &src), dst)| Axis { len, src, dst }).collect();
        copy_axes(spec.dtype, &axes, self.data, target)
    }
}

/// A dimension: its length, and the distances between its elements in the source and the destination.
#[derive(Clone, Copy)]
struct Axis {
    len: i64,
    src: i64,
    dst: usize,
}

/// Copies an array whose dimensions may run backwards, which plans cannot express: those one index at a time.
unsafe fn copy_axes(dtype: DType, axes: &[Axis], src: *const u8, dst: *mut u8) -> Result<()> {
    let width = dtype.host_bytes();
    let Some(backwards) = axes.iter().position(|axis| axis.src < 0 && axis.len > 1) else {
        let dims: Vec<i64> = axes.iter().map(|axis| axis.len).collect();
        let (from, to): (Vec<_>, Vec<_>) = axes.iter().map(|axis| (axis.src.max(0) as usize, axis.dst)).unzip();
        return convert::copy(dtype, &Plan::new(&dims, &from, &to), src, dst);
    };
    let axis = axes[backwards];
    let others = [&axes[..backwards], &axes[backwards + 1..]].concat();
    for i in 0..axis.len {
        let from = src.offset((i * axis.src * width as i64) as isize);
        copy_axes(dtype, &others, from, dst.add(i as usize * axis.dst * width))?;
    }
    Ok(())
}

/// Whether these are the strides of a dense row-major array; the strides of dimensions with one element do not matter.
fn is_row_major(spec: &Spec, strides: &[i64]) -> bool {
    let dense = layout::row_major(&spec.dims);
    spec.is_empty() || spec.dims.iter().zip(strides).zip(dense).all(|((&dim, &s), d)| dim == 1 || s == d as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::ALL;
    use std::mem::offset_of;
    use std::ptr::null_mut;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_structs_match_c() {
        assert_eq!((size_of::<Tensor>(), size_of::<Managed>(), size_of::<ManagedVersioned>()), (48, 64, 80));
        let tensor = [
            offset_of!(Tensor, device),
            offset_of!(Tensor, ndim),
            offset_of!(Tensor, dtype),
            offset_of!(Tensor, shape),
            offset_of!(Tensor, strides),
            offset_of!(Tensor, byte_offset),
        ];
        assert_eq!(tensor, [8, 16, 20, 24, 32, 40]);
        assert_eq!((offset_of!(Managed, context), offset_of!(Managed, deleter)), (48, 56));
        let versioned = [
            offset_of!(ManagedVersioned, context),
            offset_of!(ManagedVersioned, deleter),
            offset_of!(ManagedVersioned, flags),
            offset_of!(ManagedVersioned, tensor),
        ];
        assert_eq!(versioned, [8, 16, 24, 32]);
    }

    #[test]
    fn types_come_back_as_they_were() {
        for &dtype in ALL {
            let element = Element::of(dtype);
            assert_eq!(DType::from_dlpack(element.code, element.bits), Some(dtype));
            assert_eq!(element.dtype().is_ok(), !dtype.is_packed(), "{dtype}");
        }
        assert!(Element { code: 2, bits: 32, lanes: 4 }.dtype().is_err());
        assert!(Element { code: 3, bits: 64, lanes: 1 }.dtype().is_err());
    }

    fn tensor(numbers: &mut [i32], shape: &mut [i64], strides: Option<&mut [i64]>) -> Tensor {
        Tensor {
            data: numbers.as_mut_ptr().cast(),
            device: Place { kind: Place::CPU, id: 0 },
            ndim: shape.len() as i32,
            dtype: Element::of(DType::I32),
            shape: shape.as_mut_ptr(),
            strides: strides.map_or(null_mut(), |strides| strides.as_mut_ptr()),
            byte_offset: 0,
        }
    }

    fn copied(first: usize, shape: &[i64], strides: &[i64]) -> Vec<i32> {
        let mut numbers: Vec<i32> = (0..10_000).collect();
        let (mut shape, mut strides) = (shape.to_vec(), strides.to_vec());
        let mut tensor = tensor(&mut numbers, &mut shape, Some(&mut strides));
        tensor.byte_offset = 4 * first as u64;
        // SAFETY: the numbers and the shape live as long as the array.
        let lent = unsafe { Lent::read(&tensor) }.unwrap();
        let mut out = vec![-1; lent.spec.len()];
        // SAFETY: there is room for all elements, and the strides stay within the numbers.
        unsafe { lent.copy_to(out.as_mut_ptr().cast()) }.unwrap();
        out
    }

    /// The same, one element at a time.
    fn walked(first: usize, shape: &[i64], strides: &[i64]) -> Vec<i32> {
        let mut places = vec![first as i64];
        for (&dim, &stride) in shape.iter().zip(strides) {
            places = places.iter().flat_map(|place| (0..dim).map(move |i| place + i * stride)).collect();
        }
        places.into_iter().map(|place| place as i32).collect()
    }

    #[test]
    fn arrays_with_any_strides_are_copied_in_order() {
        let cases: [(usize, &[i64], &[i64]); 12] = [
            (0, &[], &[]),
            (0, &[2, 3], &[3, 1]),
            (0, &[2, 3], &[1, 2]),
            (0, &[40, 50], &[1, 40]),
            (3, &[40, 25], &[100, 2]),
            (99, &[100], &[-1]),
            (5, &[3, 100], &[0, 1]),
            (7, &[100, 30], &[1, 0]),
            (9_959, &[50, 2, 40], &[-80, 40, -1]),
            (4_000, &[5, 1, 7], &[-100, 12_345, 3]),
            (1, &[0, 3], &[77, 1]),
            (0, &[10, 10, 10, 10], &[1, 10, 100, 1000]),
        ];
        for (first, shape, strides) in cases {
            assert!(copied(first, shape, strides) == walked(first, shape, strides), "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn dense_arrays_are_recognized() {
        let mut numbers = [0; 6];
        let mut has_strides = |shape: &[i64], strides: Option<&[i64]>| {
            let (mut shape, mut strides) = (shape.to_vec(), strides.map(<[i64]>::to_vec));
            // SAFETY: as above.
            let lent = unsafe { Lent::read(&tensor(&mut numbers, &mut shape, strides.as_deref_mut())) };
            lent.unwrap().strides.is_some()
        };
        assert!(!has_strides(&[2, 3], None));
        assert!(!has_strides(&[2, 3], Some(&[3, 1])));
        assert!(!has_strides(&[1, 6], Some(&[77, 1])));
        assert!(!has_strides(&[6, 1], Some(&[1, 0])));
        assert!(!has_strides(&[0, 3], Some(&[9, 9])));
        assert!(has_strides(&[2, 3], Some(&[1, 2])));
        assert!(has_strides(&[6], Some(&[-1])));
    }

    #[test]
    fn impossible_arrays_are_refused() {
        let mut numbers = [0; 6];
        // SAFETY: as above, where the pointers are not null.
        let read = |tensor: Tensor| unsafe { Lent::read(&tensor) };
        let (mut shape, mut strides) = ([2, 3], [i64::MAX, i64::MAX]);
        let valid = tensor(&mut numbers, &mut shape, None);
        assert!(read(valid).is_ok());
        assert!(read(Tensor { data: null_mut(), ..valid }).is_err());
        assert!(read(Tensor { shape: null_mut(), ..valid }).is_err());
        for ndim in [-1, 65] {
            assert!(read(Tensor { ndim, ..valid }).is_err());
        }
        assert!(read(Tensor { strides: strides.as_mut_ptr(), ..valid }).is_err());
        for wrong in [[-1, 3], [i64::MAX, 2]] {
            let mut shape = wrong;
            assert!(read(Tensor { shape: shape.as_mut_ptr(), ..valid }).is_err());
        }
        let mut empty = [0, 3];
        assert!(read(Tensor { data: null_mut(), shape: empty.as_mut_ptr(), ..valid }).is_ok());
    }
}
