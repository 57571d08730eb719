//! Element types in R: a string of class `PJRTElementType`.

use crate::r::conditions::Result;
use crate::r::describe::describe;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::counted::shortened;
use pjrt_data::{dtype, dtype::DType};
use std::cell::RefCell;

/// The dtype that a string or a data type names, or `default` for NULL.
pub fn parse(x: SEXP, default: Option<DType>) -> Result<DType> {
    match (given(x)?, default) {
        (Some(dtype), _) => Ok(dtype),
        (None, Some(default)) if sexp::is_nil(x) => Ok(default),
        _ => bail!(UnsupportedDtype, "`dtype` must be one string, such as \"f32\", not {}.", describe(x)),
    }
}

/// The dtype that a string or a data type names; None if `x` is neither.
pub fn given(x: SEXP) -> Result<Option<DType>> {
    // SAFETY: R protects the argument.
    match unsafe { sexp::string(x) } {
        Some(name) => Ok(Some(DType::parse(name)?)),
        None if sexp::inherits(x, c"DataType") => of_data_type(x).map(Some),
        None => Ok(None),
    }
}

/// The dtype that a data type is called by `as.character()`: tengen's classes differ between its versions.
fn of_data_type(x: SEXP) -> Result<DType> {
    let mut text = sexp::nil();
    let is_told = sexp::guarded(|| {
        text = sexp::call_ours(c"dtype_text", x);
        // R still runs code of its own before it comes back.
        sexp::preserve(text);
    })?;
    let found = match is_told {
        // SAFETY: it is preserved.
        true => unsafe { sexp::string(text) }.map(DType::parse),
        false => None,
    };
    sexp::release(text);
    match found {
        Some(dtype) => Ok(dtype?),
        None => bail!(UnsupportedDtype, "`dtype` is of class DataType, but as.character() does not give its name."),
    }
}

/// `dtype_canonical(name)`: the `PJRTElementType` for a name or alias.
pub fn dtype_canonical(name: SEXP) -> Result<SEXP> {
    Ok(element_type(parse(name, None)?))
}

/// `dtype_mlir(name)`: the name in StableHLO of the dtype for a name or alias.
pub fn dtype_mlir(name: SEXP) -> Result<SEXP> {
    Ok(sexp::new_string(parse(name, None)?.info().mlir))
}

/// `dtype_safetensors(name)`: the safetensors name of the dtype for a name or alias.
pub fn dtype_safetensors(name: SEXP) -> Result<SEXP> {
    let dtype = parse(name, None)?;
    match dtype.info().safetensors {
        Some(name) => Ok(sexp::new_string(name)),
        None => bail!(UnsupportedDtype, "The safetensors format has no type for {dtype}; it has {}.", formats()),
    }
}

/// `dtype_from_safetensors(name)`: the `PJRTElementType` for a type of the safetensors format.
pub fn dtype_from_safetensors(name: SEXP) -> Result<SEXP> {
    // SAFETY: R protects the argument.
    let Some(name) = (unsafe { sexp::string(name) }) else {
        bail!(UnsupportedDtype, "The type of a tensor must be one string, such as \"F32\".");
    };
    match DType::from_safetensors(name) {
        Some(dtype) => Ok(element_type(dtype)),
        None => {
            let name = shortened(name, 100);
            bail!(UnsupportedDtype, "Unsupported type of a safetensors file: {name}. Supported types: {}.", formats())
        }
    }
}

/// The names of the safetensors format's types, for messages.
fn formats() -> String {
    let names: Vec<_> = dtype::ALL.iter().filter_map(|dtype| dtype.info().safetensors).collect();
    names.join(", ")
}

/// The one R object for a dtype.
pub fn element_type(dtype: DType) -> SEXP {
    thread_local! {
        static MADE: RefCell<Vec<SEXP>> = const { RefCell::new(Vec::new()) };
    }
    let made = MADE.with_borrow(|made| made.get(dtype as usize).copied());
    made.unwrap_or_else(|| {
        let all = dtype::ALL.iter().map(|&dtype| new_element_type(dtype)).collect();
        MADE.with_borrow_mut(|made| *made = all);
        MADE.with_borrow(|made| made.get(dtype as usize).copied().unwrap_or(sexp::nil()))
    })
}

fn new_element_type(dtype: DType) -> SEXP {
    let value = Protected::new(sexp::new_string(dtype.name()));
    let class = Protected::new(sexp::new_string("PJRTElementType"));
    sexp::set_class(value.sexp(), class.sexp());
    sexp::keep(value.sexp())
}

thread_local! {
    /// The data types that `dtype()` returns, created by R.
    static DATA_TYPES: RefCell<Vec<(DType, SEXP)>> = const { RefCell::new(Vec::new()) };
}

/// The data type of a dtype; nil until R has created it.
pub fn data_type(dtype: DType) -> SEXP {
    let find = |made: &Vec<(DType, SEXP)>| made.iter().find(|(of, _)| *of == dtype).map(|(_, value)| *value);
    DATA_TYPES.with_borrow(find).unwrap_or_else(sexp::nil)
}

/// `data_type_keep(name, value)`: keeps the data type of the dtype with this name unless there is one. Returns the kept
/// one.
pub fn data_type_keep(name: SEXP, value: SEXP) -> Result<SEXP> {
    let dtype = parse(name, None)?;
    let kept = data_type(dtype);
    if !sexp::is_nil(kept) {
        return Ok(kept);
    }
    sexp::keep(value);
    DATA_TYPES.with_borrow_mut(|made| made.push((dtype, value)));
    Ok(value)
}

/// `data_types_forget()`: makes R create all of them again.
pub fn data_types_forget() -> Result<SEXP> {
    let made = DATA_TYPES.take();
    made.into_iter().for_each(|(_, value)| sexp::release(value));
    Ok(sexp::nil())
}
