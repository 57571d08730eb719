//! The constants of each ABI of MPI.

use pjrt_data::dtype::DType;
use std::ffi::{c_int, c_void};

/// An MPI handle: a pointer or an integer.
pub(crate) trait Handle: Copy + 'static {
    const NULL: Self;
}

/// A handle that is a pointer. Only MPI looks behind it.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Pointer(pub *mut c_void);

// SAFETY: handles are only passed to MPI, on the one thread that calls it.
unsafe impl Send for Pointer {}

impl Handle for Pointer {
    const NULL: Pointer = Pointer(std::ptr::null_mut());
}

impl Handle for c_int {
    const NULL: c_int = 0;
}

/// The constants of an ABI.
pub(crate) struct Constants<H> {
    pub world: H,
    pub byte: H,
    /// By [`type_index`].
    pub types: [H; 12],
    /// By [`Op`](crate::communicator::Op).
    pub ops: [H; 7],
    pub errors_return: H,
    pub in_place: usize,
    pub ignore_status: usize,
    /// The numbers of the thread levels funneled, serialized and multiple.
    pub levels: [c_int; 3],
}

/// The place of a type in the table, for types that MPI reduces.
pub(crate) fn type_index(dtype: DType) -> Option<usize> {
    use DType::*;
    const TYPES: [DType; 12] = [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, C64, C128];
    TYPES.iter().position(|other| *other == dtype)
}

/// MPICH, Intel MPI, MVAPICH and others that share its ABI.
pub(crate) const MPICH: Constants<c_int> = Constants {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    types: [
        0x4c000137, 0x4c000238, 0x4c000439, 0x4c00083a, 0x4c00013b, 0x4c00023c, 0x4c00043d, 0x4c00083e, 0x4c00040a,
        0x4c00080b, 0x4c000840, 0x4c001041,
    ],
    ops: [0x5800_0003, 0x5800_0004, 0x5800_0002, 0x5800_0001, 0x5800_0006, 0x5800_0008, 0x5800_000a],
    errors_return: 0x5400_0001,
    in_place: usize::MAX,
    ignore_status: 1,
    levels: [1, 2, 3],
};

const fn constant(value: usize) -> Pointer {
    Pointer(std::ptr::without_provenance_mut(value))
}

const fn constants<const N: usize>(values: [usize; N]) -> [Pointer; N] {
    let mut all = [Pointer::NULL; N];
    let mut i = 0;
    while i < N {
        all[i] = constant(values[i]);
        i += 1;
    }
    all
}

/// The standard ABI of MPI 5.
pub(crate) const STANDARD: Constants<Pointer> = Constants {
    world: constant(0x101),
    byte: constant(0x247),
    types: constants([0x240, 0x248, 0x250, 0x258, 0x241, 0x249, 0x251, 0x259, 0x210, 0x214, 0x212, 0x216]),
    ops: constants([0x21, 0x24, 0x22, 0x23, 0x28, 0x29, 0x2a]),
    errors_return: constant(0x143),
    in_place: 1,
    ignore_status: 0,
    levels: [1024, 2048, 4096],
};

/// Open MPI's constants are addresses of its symbols.
pub(crate) fn open_mpi(find: impl Fn(&str) -> Option<*mut c_void>) -> Option<Constants<Pointer>> {
    let symbol = |name: &str| find(&format!("ompi_mpi_{name}")).map(Pointer);
    let symbols = |names: &str| names.split(' ').map(symbol).collect::<Option<Vec<_>>>();
    let types = "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t float double c_float_complex \
                 c_double_complex";
    Some(Constants {
        world: symbol("comm_world")?,
        byte: symbol("byte")?,
        types: symbols(types)?.try_into().ok()?,
        ops: symbols("op_sum op_prod op_min op_max op_band op_bor op_bxor")?.try_into().ok()?,
        errors_return: symbol("errors_return")?,
        in_place: 1,
        ignore_status: 0,
        levels: [1, 2, 3],
    })
}
