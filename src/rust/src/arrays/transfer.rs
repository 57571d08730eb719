//! Transfers back: buffers as R arrays and as raw bytes.

use crate::arrays::buffer::{checks, get, order};
use crate::memory;
use crate::r::conditions::{flag, Result};
use crate::r::describe::describe;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::counted::counted;
use pjrt_core::buffer::download::decode_elements;
use pjrt_core::buffer::read::HostView;
use pjrt_core::{Buffer, HostOrder};
use pjrt_data::array::Spec;
use pjrt_data::convert::{HostTarget, NA_INTEGER, NA_INTEGER64};
use pjrt_data::dtype::{DType, HostType};
use std::sync::atomic::{AtomicBool, Ordering};

/// `buffer_array(buffer, check, int64)`: the buffer as an R vector or array. Waits for its content.
pub fn buffer_array(buffer: SEXP, check: SEXP, int64: SEXP) -> Result<SEXP> {
    let buffer = get(buffer)?;
    let check = checks(check)?;
    array(buffer, check, host_type(buffer.dtype(), int64)?)
}

/// The same with the defaults, in the dtype's own R type.
pub fn default_array(buffer: SEXP) -> Result<SEXP> {
    let buffer = get(buffer)?;
    let host_type = buffer.dtype().info().host_type;
    array(buffer, checks_by_default(buffer.dtype(), host_type)?, host_type)
}

/// Whether values are checked where no argument says so.
pub fn checks_by_default(dtype: DType, host_type: HostType) -> Result<bool> {
    // R may take a value of such an array for another one, or for a missing value. To look for an option takes R as long as to
    // read a small array.
    let own = dtype.info().host_type;
    Ok((host_type != own || matches!(own, HostType::Integer | HostType::Integer64)) && checks(sexp::nil())?)
}

fn array(buffer: &Buffer, check: bool, host_type: HostType) -> Result<SEXP> {
    let ready = buffer.wait()?;
    memory::collect_under_pressure(buffer.client())?;
    let array = Protected::new(new_array(buffer.spec(), host_type)?);
    fill(array.sexp(), buffer.spec(), host_type, check, &ready.view()?)?;
    Ok(array.sexp())
}

/// `buffer_raw(buffer, row_major)`: the bytes of the buffer's elements in the order asked for. Waits for its content.
pub fn buffer_raw(buffer: SEXP, row_major: SEXP) -> Result<SEXP> {
    let buffer = get(buffer)?;
    let row_major = flag(row_major, "row_major")?;
    let ready = buffer.wait()?;
    let spec = buffer.spec();
    let raw = Protected::new(memory::pooled_vector(SEXPTYPE::RAWSXP, spec.bytes(), 1)?);
    // SAFETY: the vector was made for the spec's bytes, and R aligns it for doubles.
    unsafe { ready.view()?.copy(spec, order(row_major), RAW(raw.sexp()))? };
    Ok(raw.sexp())
}

/// The R type that elements of a dtype are read into, where `int64` says what becomes of integers that R's own do not
/// hold.
pub fn host_type(dtype: DType, int64: SEXP) -> Result<HostType> {
    let own = dtype.info().host_type;
    if is_default(int64) {
        return Ok(own);
    }
    // SAFETY: R protects the argument.
    let chosen = unsafe { sexp::string(int64) }.and_then(|name| CHOICES.iter().find(|(choice, _)| *choice == name));
    match chosen {
        Some((_, host_type)) => Ok(if own == HostType::Integer64 { *host_type } else { own }),
        None => {
            bail!(InvalidInput, "`int64` must be \"integer64\", \"double\" or \"integer\", not {}.", describe(int64))
        }
    }
}

/// Whether it is the default of the R functions, which names all choices.
fn is_default(int64: SEXP) -> bool {
    // SAFETY: R protects the argument.
    unsafe { sexp::texts(int64) }.eq(CHOICES.iter().map(|&(name, _)| Some(name)))
}

const CHOICES: [(&str, HostType); 3] =
    [("integer64", HostType::Integer64), ("double", HostType::Double), ("integer", HostType::Integer)];

/// An R vector with room for an array of this spec: bare for rank 0, with `dim` otherwise. Not protected.
pub fn new_array(spec: &Spec, host_type: HostType) -> Result<SEXP> {
    if spec.dims.len() > 1 && spec.dims.iter().any(|&d| d > i64::from(i32::MAX)) {
        bail!(InvalidInput, "An R array cannot have a dimension as large as in {spec}.");
    }
    let (kind, width) = match host_type {
        HostType::Logical => (SEXPTYPE::LGLSXP, 4),
        HostType::Integer => (SEXPTYPE::INTSXP, 4),
        HostType::Double | HostType::Integer64 => (SEXPTYPE::REALSXP, 8),
        HostType::Complex => (SEXPTYPE::CPLXSXP, 16),
    };
    let array = Protected::new(memory::pooled_vector(kind, spec.len(), width)?);
    set_dim(array.sexp(), spec);
    if host_type == HostType::Integer64 {
        let class = Protected::new(sexp::new_string("integer64"));
        sexp::set_class(array.sexp(), class.sexp());
        load_bit64();
    }
    Ok(array.sexp())
}

/// Has R load package bit64, without which it shows integer64 wrongly. R may leave this by a long jump.
fn load_bit64() {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if !LOADED.load(Ordering::Relaxed) {
        sexp::call_ours(c"load_bit64", sexp::nil());
        LOADED.store(true, Ordering::Relaxed);
    }
}

/// Gives a vector the spec's dimensions, unless that is a scalar. R wants integers there, which nothing but the length of a
/// long vector exceeds; that stays without.
pub fn set_dim(array: SEXP, spec: &Spec) {
    let dims = Protected::new(sexp::new_whole_numbers(&spec.dims));
    if !spec.dims.is_empty() && sexp::kind(dims.sexp()) == SEXPTYPE::INTSXP {
        sexp::set_dims(array, dims.sexp());
    }
}

/// Fills an array made by [`new_array`]; when `check` is set, refuses values that R would take for others.
pub fn fill(array: SEXP, spec: &Spec, host_type: HostType, check: bool, view: &HostView) -> Result<()> {
    // SAFETY: the array was made for this spec.
    let decode = |target| unsafe { view.decode(spec, HostOrder::ColumnMajor, target, check) };
    fill_with(array, spec, host_type, decode)
}

/// The same with elements that are not a buffer's.
pub fn fill_from(array: SEXP, spec: &Spec, host_type: HostType, check: bool, elements: &[u8]) -> Result<()> {
    // SAFETY: the array was made for this spec.
    let decode = |target| unsafe { decode_elements(spec, elements, HostOrder::ColumnMajor, target, check) };
    fill_with(array, spec, host_type, decode)
}

fn fill_with(
    array: SEXP,
    spec: &Spec,
    host_type: HostType,
    decode: impl FnOnce(HostTarget) -> pjrt_base::error::Result<usize>,
) -> Result<()> {
    // SAFETY: `new_array` made a vector of the kind that goes with `host_type`.
    let data = unsafe {
        match host_type {
            HostType::Logical => LOGICAL(array).cast(),
            HostType::Integer => INTEGER(array).cast(),
            HostType::Integer64 | HostType::Double => REAL(array).cast(),
            HostType::Complex => COMPLEX(array).cast(),
        }
    };
    let lost = decode(HostTarget { host_type, data })?;
    if lost == 0 {
        return Ok(());
    }
    let lost = counted(lost, "value");
    match (spec.dtype, host_type) {
        (DType::I32, _) => bail!(InvalidInput, "The buffer holds {NA_INTEGER}, which R cannot distinguish from NA."),
        (DType::I64, HostType::Integer64) => {
            bail!(InvalidInput, "The buffer holds {NA_INTEGER64}, which R cannot distinguish from NA.")
        }
        (_, HostType::Integer64) => {
            bail!(InvalidInput, "The buffer holds values above 2^63 - 1, wrapped through R's signed integer64.")
        }
        (DType::U64, HostType::Double) => {
            bail!(
                InvalidInput,
                "The buffer holds {lost} that a double cannot hold exactly; format_buffer() gives all digits."
            )
        }
        (_, HostType::Double) => {
            bail!(InvalidInput, "The buffer holds {lost} that a double cannot hold exactly; use int64 = \"integer64\".")
        }
        _ => {
            bail!(
                InvalidInput,
                "The buffer holds {lost} that an R integer cannot hold; use int64 = \"integer64\" or \"double\"."
            )
        }
    }
}
