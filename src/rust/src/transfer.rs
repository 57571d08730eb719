//! Transfers back: buffers as R arrays and as raw bytes.

use crate::buffer::{get, order};
use crate::conditions::{entry, flag, refuse, Outcome};
use crate::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_core::convert::{self, HostTarget, NA_INTEGER, NA_INTEGER64};
use pjrt_core::dtype::RType;
use pjrt_core::read::HostView;
use pjrt_core::reorder::Plan;
use pjrt_core::{layout, DType, HostMemory, Spec};
use std::sync::Arc;

/// `buffer_array(buffer, check)`: the buffer as an R vector or array. Waits for its content.
pub extern "C" fn buffer_array(buffer: SEXP, check: SEXP) -> SEXP {
    entry(|| {
        let buffer = get(buffer)?;
        let check = flag(check, "check")?;
        buffer.wait()?;
        let array = Protected::new(new_array(buffer.spec())?);
        fill(array.sexp(), buffer.spec(), &buffer.read()?)?;
        if check {
            check_values(array.sexp(), buffer.dtype())?;
        }
        Ok(array.sexp())
    })
}

/// `buffer_raw(buffer, row_major)`: the bytes of the buffer's elements in the order asked for. Waits for its content.
pub extern "C" fn buffer_raw(buffer: SEXP, row_major: SEXP) -> SEXP {
    entry(|| {
        let buffer = get(buffer)?;
        let row_major = flag(row_major, "row_major")?;
        buffer.wait()?;
        let spec = buffer.spec();
        let raw = Protected::new(sexp::vector(SEXPTYPE::RAWSXP, spec.bytes()));
        // SAFETY: the vector was made for the spec's bytes.
        unsafe { copy_out(spec, &buffer.read()?, &order(row_major, spec), RAW(raw.sexp())) };
        Ok(raw.sexp())
    })
}

/// An R vector with room for an array of this spec: bare for rank 0, with `dim` otherwise. Not protected.
pub fn new_array(spec: &Spec) -> Outcome<SEXP> {
    if !convert::is_readable(spec.dtype) {
        return Err(convert::unreadable(spec.dtype).into());
    }
    if spec.dims.iter().any(|&d| d > i64::from(i32::MAX)) && spec.dims.len() > 1 {
        refuse!(InvalidInput, "An R array cannot have a dimension as large as in {spec}.");
    }
    let kind = match spec.dtype.info().r_type {
        RType::Logical => SEXPTYPE::LGLSXP,
        RType::Integer => SEXPTYPE::INTSXP,
        _ => SEXPTYPE::REALSXP,
    };
    let array = Protected::new(sexp::vector(kind, spec.len()));
    set_dim(array.sexp(), spec);
    if spec.dtype.info().r_type == RType::Integer64 {
        let class = Protected::new(sexp::new_string("integer64"));
        unsafe { Rf_setAttrib(array.sexp(), R_ClassSymbol, class.sexp()) };
    }
    Ok(array.sexp())
}

/// Gives a vector the spec's dimensions, unless that is a scalar. R wants integers there, which nothing but the length of a
/// long vector exceeds; that stays without.
pub fn set_dim(array: SEXP, spec: &Spec) {
    let dims = Protected::new(sexp::new_whole_numbers(&spec.dims));
    if !spec.dims.is_empty() && sexp::kind(dims.sexp()) == SEXPTYPE::INTSXP {
        unsafe { Rf_setAttrib(array, R_DimSymbol, dims.sexp()) };
    }
}

/// Copies a buffer's elements as they are, in the order of `strides`.
///
/// # Safety
/// `target` has room for the spec's bytes, and is aligned for doubles.
unsafe fn copy_out(spec: &Spec, view: &HostView, strides: &[usize], target: *mut u8) {
    if !spec.is_empty() {
        let plan = Plan::new(&spec.dims, &spec.strides(), strides);
        convert::copy(spec.dtype, &plan, view.bytes().as_ptr(), target);
    }
}

/// A buffer's elements as they are, on the host, in the order of `strides`.
pub fn reordered(spec: &Spec, view: &HostView, strides: &[usize]) -> Outcome<Arc<HostMemory>> {
    let memory = HostMemory::new(spec.bytes())?;
    // SAFETY: the memory was made for the spec's bytes.
    unsafe { copy_out(spec, view, strides, memory.data()) };
    Ok(memory)
}

/// Fills an array made by [`new_array`].
pub fn fill(array: SEXP, spec: &Spec, view: &HostView) -> Outcome<()> {
    if spec.is_empty() {
        return Ok(());
    }
    let target = unsafe {
        match spec.dtype.info().r_type {
            RType::Logical => HostTarget::Logical(LOGICAL(array)),
            RType::Integer => HostTarget::Integer(INTEGER(array)),
            RType::Integer64 => HostTarget::Integer64(REAL(array).cast()),
            _ => HostTarget::Double(REAL(array)),
        }
    };
    let plan = Plan::new(&spec.dims, &spec.strides(), &layout::column_major(&spec.dims));
    // SAFETY: the array was made for this spec, whose bytes the view holds.
    unsafe { convert::decode(spec.dtype, &plan, view.bytes().as_ptr(), target)? };
    Ok(())
}

/// Refuses an array in which R would take a value for another.
fn check_values(array: SEXP, dtype: DType) -> Outcome<()> {
    // SAFETY: integer64 vectors are 64-bit integers in the memory of doubles.
    let wide = || sexp::doubles(array).iter().map(|&x| x.to_bits() as i64);
    match dtype {
        DType::I32 if sexp::integers(array).contains(&NA_INTEGER) => {
            refuse!(InvalidInput, "The buffer holds {NA_INTEGER}, which R cannot distinguish from NA.")
        }
        DType::I64 if wide().any(|x| x == NA_INTEGER64) => {
            refuse!(InvalidInput, "The buffer holds {NA_INTEGER64}, which R cannot distinguish from NA.")
        }
        DType::U64 if wide().any(|x| x < 0) => {
            refuse!(InvalidInput, "The buffer holds values above 2^63 - 1, wrapped through R's signed integer64.")
        }
        _ => Ok(()),
    }
}
