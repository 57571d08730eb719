//! R values at the C level: the few reads and constructions that all bridge modules need.
//!
//! Allocations may leave a function by R's long jump, which "C-unwind" allows. The functions here keep nothing that would need to be dropped
//! across one, and their callers allocate before they own anything.

pub use crate::r::jumps::{caught, guarded, interruptible, over_jumps};
use extendr_api::{GetSexp, Robj};
use extendr_ffi::*;
use pjrt_data::convert::NA_INTEGER;
use std::borrow::Cow;
use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};

// Functions of R's API that extendr-ffi does not declare. Its type for R objects is opaque, hence the allowance.
#[allow(improper_ctypes)]
extern "C-unwind" {
    pub fn COMPLEX_RO(x: SEXP) -> *const [f64; 2];
    pub fn INTEGER_GET_REGION(x: SEXP, start: R_xlen_t, len: R_xlen_t, out: *mut c_int) -> R_xlen_t;
    pub fn INTEGER_RO(x: SEXP) -> *const c_int;
    pub fn LOGICAL_RO(x: SEXP) -> *const c_int;
    pub fn RAW_RO(x: SEXP) -> *const u8;
    pub fn REAL_GET_REGION(x: SEXP, start: R_xlen_t, len: R_xlen_t, out: *mut f64) -> R_xlen_t;
    pub fn REAL_RO(x: SEXP) -> *const f64;
    pub fn R_CheckUserInterrupt();
    pub fn R_gc();
    pub fn R_tryCatchError(
        body: unsafe extern "C-unwind" fn(*mut c_void) -> SEXP,
        body_data: *mut c_void,
        handler: unsafe extern "C-unwind" fn(SEXP, *mut c_void) -> SEXP,
        handler_data: *mut c_void,
    ) -> SEXP;
    pub fn R_ToplevelExec(body: unsafe extern "C-unwind" fn(*mut c_void), data: *mut c_void) -> Rboolean;
    pub fn Rf_eval(call: SEXP, environment: SEXP) -> SEXP;
    fn Rf_GetOption1(name: SEXP) -> SEXP;
    pub fn Rf_getCharCE(x: SEXP) -> c_int;
    fn R_IsNA(x: f64) -> c_int;
    pub fn Rf_inherits(x: SEXP, class: *const c_char) -> Rboolean;
    pub fn Rf_lang2(function: SEXP, argument: SEXP) -> SEXP;
    pub fn Rf_ScalarLogical(value: c_int) -> SEXP;
    pub fn Rf_ScalarString(value: SEXP) -> SEXP;
    pub fn Rf_translateCharUTF8(x: SEXP) -> *const c_char;
}

// Reads a variable in one step: a finalizer that runs between two steps could remove it.
#[cfg(r_before_4_5)]
#[allow(improper_ctypes)]
extern "C-unwind" {
    static R_UnboundValue: SEXP;
    fn Rf_findVarInFrame(environment: SEXP, name: SEXP) -> SEXP;
}
#[cfg(not(r_before_4_5))]
#[allow(improper_ctypes)]
extern "C-unwind" {
    fn R_getVarEx(name: SEXP, environment: SEXP, inherits: Rboolean, default: SEXP) -> SEXP;
}

/// Protects a value from the garbage collector until dropped. Drop in reverse order of creation.
pub struct Protected<'a>(SEXP, PhantomData<&'a ()>);

impl Protected<'_> {
    #[inline]
    pub fn new(value: SEXP) -> Self {
        // SAFETY: on R's main thread, as all of this crate.
        Protected(unsafe { Rf_protect(value) }, PhantomData)
    }

    #[inline]
    pub fn sexp(&self) -> SEXP {
        self.0
    }
}

impl Drop for Protected<'_> {
    fn drop(&mut self) {
        // SAFETY: takes back what `new` protected: dropped in reverse order of making.
        unsafe { Rf_unprotect(1) }
    }
}

#[inline]
pub fn nil() -> SEXP {
    // SAFETY: R sets it before it loads the package, and never again.
    unsafe { R_NilValue }
}

#[inline]
pub fn is_nil(x: SEXP) -> bool {
    x == nil()
}

#[inline]
pub fn kind(x: SEXP) -> SEXPTYPE {
    // SAFETY: `x` is an R value, as every `SEXP` here.
    unsafe { TYPEOF(x) }
}

#[inline]
pub fn len(x: SEXP) -> usize {
    // SAFETY: on R's main thread; R knows a length of every value.
    unsafe { Rf_xlength(x) as usize }
}

/// Whether `x` has a class attribute.
#[inline]
pub fn is_object(x: SEXP) -> bool {
    // SAFETY: only reads a bit of an R value.
    unsafe { Rf_isObject(x) != Rboolean::FALSE }
}

/// Whether a number is R's NA, which is one of many NaN.
#[inline]
pub fn is_na(x: f64) -> bool {
    // SAFETY: takes a number, any of them.
    unsafe { R_IsNA(x) != 0 }
}

/// Whether `x` has this class.
#[inline]
pub fn inherits(x: SEXP, class: &CStr) -> bool {
    // SAFETY: `x` is an R value, and the class ends with a NUL.
    unsafe { Rf_inherits(x, class.as_ptr()) != Rboolean::FALSE }
}

/// The string of a character vector of length one that is not NA.
///
/// # Safety
/// As [`text`], for the vector.
#[inline]
pub unsafe fn string<'a>(x: SEXP) -> Option<&'a str> {
    if kind(x) != SEXPTYPE::STRSXP || len(x) != 1 {
        return None;
    }
    text(STRING_ELT(x, 0))
}

/// The encoding of strings of bytes, in R's `cetype_t`.
const BYTES: c_int = 3;

/// An element of a character vector that is valid text and not NA.
///
/// # Safety
/// The result is used before the call from R ends, and while the vector is protected.
#[inline]
pub unsafe fn text<'a>(element: SEXP) -> Option<&'a str> {
    // R cannot translate bytes, and raises an error for them.
    if element == R_NaString || Rf_getCharCE(element) == BYTES {
        return None;
    }
    // A translation ends with a NUL and lives until the call from R ends.
    CStr::from_ptr(Rf_translateCharUTF8(element)).to_str().ok()
}

/// The elements of a character vector, each as [`text`] returns it; empty for anything else.
///
/// # Safety
/// As [`text`], for the vector.
#[inline]
pub unsafe fn texts<'a>(x: SEXP) -> impl Iterator<Item = Option<&'a str>> {
    let len = if kind(x) == SEXPTYPE::STRSXP { len(x) } else { 0 };
    // SAFETY: `x` is a character vector with more than `i` elements.
    (0..len).map(move |i| text(unsafe { STRING_ELT(x, i as R_xlen_t) }))
}

/// The element of a list with this name.
#[inline]
pub fn element(list: SEXP, name: &str) -> Option<SEXP> {
    if kind(list) != SEXPTYPE::VECSXP {
        return None;
    }
    // SAFETY: the list keeps its names, which are only compared.
    unsafe { texts(names(list)) }.position(|text| text == Some(name)).map(|place| at(list, place))
}

/// The attribute `names`; nil for none.
#[inline]
pub fn names(x: SEXP) -> SEXP {
    // SAFETY: on R's main thread; R looks up attributes of every value.
    unsafe { Rf_getAttrib(x, R_NamesSymbol) }
}

/// The attribute `class`; nil for none.
#[inline]
pub fn class(x: SEXP) -> SEXP {
    // SAFETY: as in `names`.
    unsafe { Rf_getAttrib(x, R_ClassSymbol) }
}

/// Sets the attribute `names`. The caller protects both; R may leave this by a long jump.
#[inline]
pub fn set_names(x: SEXP, names: SEXP) {
    // SAFETY: on R's main thread; R checks what it is given.
    unsafe { Rf_setAttrib(x, R_NamesSymbol, names) };
}

/// Sets the attribute `class`. The caller protects both; R may leave this by a long jump.
#[inline]
pub fn set_class(x: SEXP, class: SEXP) {
    // SAFETY: on R's main thread; R checks what it is given.
    unsafe { Rf_setAttrib(x, R_ClassSymbol, class) };
}

/// Sets the attribute `dim`, or removes it with nil. The caller protects both; R may leave this by a long jump.
#[inline]
pub fn set_dims(x: SEXP, dims: SEXP) {
    // SAFETY: on R's main thread; R checks what it is given.
    unsafe { Rf_setAttrib(x, R_DimSymbol, dims) };
}

/// The dimensions of an array; empty for anything else.
///
/// # Safety
/// As [`integers`].
#[inline]
pub unsafe fn dim<'a>(x: SEXP) -> &'a [i32] {
    integers(Rf_getAttrib(x, R_DimSymbol))
}

/// A number of length one that is not NA. `None` for an object with a class, such as a date, which is stored as a
/// number.
#[inline]
pub fn number(x: SEXP) -> Option<f64> {
    if is_object(x) || len(x) != 1 {
        return None;
    }
    // SAFETY: the only value is copied at once.
    let (integers, doubles) = unsafe { (integers(x), doubles(x)) };
    match kind(x) {
        SEXPTYPE::REALSXP => doubles.first().copied().filter(|value| !value.is_nan()),
        SEXPTYPE::INTSXP => integers.first().filter(|&&value| value != NA_INTEGER).map(|&v| v.into()),
        _ => None,
    }
}

/// A logical value of length one that is not NA.
#[inline]
pub fn flag(x: SEXP) -> Option<bool> {
    if kind(x) != SEXPTYPE::LGLSXP || len(x) != 1 {
        return None;
    }
    // SAFETY: a logical vector with one element.
    match unsafe { *LOGICAL(x) } {
        0 => Some(false),
        NA_INTEGER => None,
        _ => Some(true),
    }
}

/// The values of a logical vector; `None` for anything else, and for NA.
#[inline]
pub fn flags(x: SEXP) -> Option<Vec<bool>> {
    if kind(x) != SEXPTYPE::LGLSXP {
        return None;
    }
    // SAFETY: the values are copied at once.
    unsafe { integers(x) }.iter().map(|&value| if value == NA_INTEGER { None } else { Some(value != 0) }).collect()
}

/// Whole numbers of an integer or integer64 vector, or of a double vector of whole numbers. `None` for anything else, for
/// NA, and for other objects with a class.
#[inline]
pub fn whole_numbers(x: SEXP) -> Option<Vec<i64>> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match kind(x) {
        SEXPTYPE::REALSXP if inherits(x, c"integer64") => {
            let number = |d: &f64| d.to_bits() as i64;
            // SAFETY: the values are copied at once.
            unsafe { doubles(x) }.iter().map(number).map(|n| (n.unsigned_abs() <= EXACT as u64).then_some(n)).collect()
        }
        _ if is_object(x) => None,
        // SAFETY: the values are copied at once, here and below.
        SEXPTYPE::INTSXP => unsafe { integers(x) }.iter().map(|&i| (i != NA_INTEGER).then_some(i64::from(i))).collect(),
        SEXPTYPE::REALSXP => {
            // SAFETY: as above.
            unsafe { doubles(x) }.iter().map(|&d| (d.fract() == 0.0 && d.abs() <= EXACT).then_some(d as i64)).collect()
        }
        _ => None,
    }
}

/// The values of an integer or logical vector; empty for anything else.
///
/// # Safety
/// The result is used while `x` is protected and nobody writes into it.
#[inline]
pub unsafe fn integers<'a>(x: SEXP) -> &'a [i32] {
    match kind(x) {
        SEXPTYPE::INTSXP => slice(INTEGER_RO(x), len(x)),
        SEXPTYPE::LGLSXP => slice(LOGICAL_RO(x), len(x)),
        _ => &[],
    }
}

/// The values of a double vector; empty for anything else.
///
/// # Safety
/// The result is used while `x` is protected and nobody writes into it.
#[inline]
pub unsafe fn doubles<'a>(x: SEXP) -> &'a [f64] {
    match kind(x) {
        SEXPTYPE::REALSXP => slice(REAL_RO(x), len(x)),
        _ => &[],
    }
}

/// Real and imaginary parts of a complex vector; empty for anything else.
///
/// # Safety
/// The result is used while `x` is protected and nobody writes into it.
#[inline]
pub unsafe fn complexes<'a>(x: SEXP) -> &'a [[f64; 2]] {
    match kind(x) {
        SEXPTYPE::CPLXSXP => slice(COMPLEX_RO(x), len(x)),
        _ => &[],
    }
}

/// Whether a vector only describes its values, as `1:10` does: reading all of them would make a copy.
#[inline]
pub fn is_compact(x: SEXP) -> bool {
    // SAFETY: only vectors are ALTREP, and R asks those for an address that they have already.
    unsafe { ALTREP(x) != 0 && DATAPTR_OR_NULL(x).is_null() }
}

/// Makes R write out the values of a compact vector, which needs memory. R may leave this by a long jump.
#[inline]
pub fn expand(x: SEXP) {
    // SAFETY: nobody uses the values.
    unsafe {
        integers(x);
        doubles(x);
    }
}

/// The bytes of a raw vector; empty for anything else.
///
/// # Safety
/// The result is used while `x` is protected and nobody writes into it.
#[inline]
pub unsafe fn raws<'a>(x: SEXP) -> &'a [u8] {
    match kind(x) {
        SEXPTYPE::RAWSXP => slice(RAW_RO(x), len(x)),
        _ => &[],
    }
}

/// # Safety
/// `data` is the address of the `len` values of a vector, which is alive and unchanged while they are in use.
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    // R gives vectors of length zero an address that must not be read.
    if len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, len)
    }
}

/// The elements of a list, which the caller protects.
#[inline]
pub fn elements(list: SEXP) -> impl ExactSizeIterator<Item = SEXP> {
    // SAFETY: there are more than `i` elements; R rejects objects that are not lists.
    (0..len(list)).map(move |i| unsafe { VECTOR_ELT(list, i as R_xlen_t) })
}

/// The element of a list at a position from 0; nil if there is none.
#[inline]
pub fn at(list: SEXP, i: usize) -> SEXP {
    if i >= len(list) {
        return nil();
    }
    // SAFETY: there are more than `i` elements; R rejects objects that are not lists.
    unsafe { VECTOR_ELT(list, i as R_xlen_t) }
}

/// Sets an element of a list, which the caller protects. R checks the position.
#[inline]
pub fn set_at(list: SEXP, i: usize, value: SEXP) {
    // SAFETY: R checks that this is a list, and longer than `i`.
    unsafe { SET_VECTOR_ELT(list, i as R_xlen_t, value) };
}

/// Sets an element of a character vector, which the caller protects. R checks the position.
#[inline]
pub fn set_text(x: SEXP, i: usize, text: &str) {
    // SAFETY: R checks that this is a character vector, and longer than `i`.
    unsafe { SET_STRING_ELT(x, i as R_xlen_t, new_char(text)) };
}

/// The R value of an extendr argument, which extendr protects.
#[inline]
pub fn of(x: &Robj) -> SEXP {
    // SAFETY: on R's main thread, where alone the value is used.
    unsafe { x.get() }
}

/// A value for extendr, which protects it from here on.
#[inline]
pub fn robj(x: SEXP) -> Robj {
    // SAFETY: `x` is an R value, on R's main thread.
    unsafe { Robj::from_sexp(x) }
}

/// A new vector; not protected.
#[inline]
pub fn vector(kind: SEXPTYPE, len: usize) -> SEXP {
    // SAFETY: on R's main thread; R checks kind and length.
    unsafe { Rf_allocVector(kind, len as R_xlen_t) }
}

/// A new character vector of length one; not protected.
#[inline]
pub fn new_string(text: &str) -> SEXP {
    // SAFETY: R protects the string while it makes the vector.
    unsafe { Rf_ScalarString(new_char(text)) }
}

/// A new or shared element of a character vector; not protected.
#[inline]
pub fn new_char(text: &str) -> SEXP {
    // R's strings hold no NUL and at most 2^31 - 1 bytes.
    let text = if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { Cow::Borrowed(text) };
    let size = text.len().min(c_int::MAX as usize) as c_int;
    // SAFETY: the text has `size` bytes at least, and no NUL.
    unsafe { Rf_mkCharLenCE(text.as_ptr().cast(), size, cetype_t::CE_UTF8) }
}

#[inline]
pub fn new_flag(value: bool) -> SEXP {
    // SAFETY: on R's main thread; gives one of R's own constants.
    unsafe { Rf_ScalarLogical(c_int::from(value)) }
}

/// A new double vector; not protected.
#[inline]
pub fn new_doubles(values: &[f64]) -> SEXP {
    let out = vector(SEXPTYPE::REALSXP, values.len());
    // SAFETY: the vector is new, and as long as there are values.
    unsafe { REAL(out).copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    out
}

/// A new integer vector, or a double vector if a value does not fit; not protected.
#[inline]
pub fn new_whole_numbers(values: &[i64]) -> SEXP {
    let fits = values.iter().all(|&v| v.unsigned_abs() <= i32::MAX as u64);
    // SAFETY: each vector is new, of the accessor's kind, and as long as there are values.
    unsafe {
        if fits {
            let out = vector(SEXPTYPE::INTSXP, values.len());
            values.iter().enumerate().for_each(|(i, &v)| *INTEGER(out).add(i) = v as i32);
            out
        } else {
            let out = vector(SEXPTYPE::REALSXP, values.len());
            values.iter().enumerate().for_each(|(i, &v)| *REAL(out).add(i) = v as f64);
            out
        }
    }
}

static NAMESPACE: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());
static STATE: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());

/// Stores the package's namespace and its environment `the`, each time that it is loaded. Returns whether `the` is a
/// new one.
#[inline]
pub fn set_namespace(namespace: SEXP, the: SEXP) -> bool {
    let replace = |place: &AtomicPtr<SEXPREC>, value: SEXP| {
        let before = place.swap(keep(value), Ordering::Relaxed);
        if !before.is_null() {
            release(before);
        }
        before != value
    };
    replace(&NAMESPACE, namespace);
    replace(&STATE, the)
}

/// The package's namespace.
#[inline]
pub fn namespace() -> SEXP {
    NAMESPACE.load(Ordering::Relaxed)
}

/// The package's environment `the`.
#[inline]
pub fn state() -> SEXP {
    STATE.load(Ordering::Relaxed)
}

/// The value of a variable in an environment, if both exist. A value of `NULL` counts as absent.
#[inline]
pub fn variable(environment: SEXP, name: &CStr) -> Option<SEXP> {
    if kind(environment) != SEXPTYPE::ENVSXP {
        return None;
    }
    // SAFETY: on R's main thread; `environment` is one, and the name ends with a NUL.
    unsafe {
        let name = Rf_install(name.as_ptr());
        #[cfg(r_before_4_5)]
        let value = Some(Rf_findVarInFrame(environment, name)).filter(|value| *value != R_UnboundValue);
        #[cfg(not(r_before_4_5))]
        let value = Some(R_getVarEx(name, environment, Rboolean::FALSE, nil()));
        value.filter(|value| !is_nil(*value))
    }
}

/// The result of a function of this package for `argument`; not protected. R may leave it by a long jump.
#[inline]
pub fn call_ours(function: &CStr, argument: SEXP) -> SEXP {
    // SAFETY: on R's main thread; each part of the call is protected, and the namespace is kept.
    unsafe {
        let quoted = Protected::new(Rf_lang2(Rf_install(c"quote".as_ptr()), argument));
        let call = Protected::new(Rf_lang2(Rf_install(function.as_ptr()), quoted.sexp()));
        Rf_eval(call.sexp(), namespace())
    }
}

/// Keeps a value for the rest of the session.
#[inline]
pub fn keep(value: SEXP) -> SEXP {
    preserve(value);
    // SAFETY: only sets a mark of an R value.
    unsafe { MARK_NOT_MUTABLE(value) };
    value
}

/// Keeps a value until [`release`].
#[inline]
pub fn preserve(value: SEXP) {
    // SAFETY: on R's main thread; R protects the value while it notes it.
    unsafe { R_PreserveObject(value) };
}

/// Releases a value. Allocates nothing.
#[inline]
pub fn release(value: SEXP) {
    // SAFETY: R only looks whether it keeps the value, and does nothing when not.
    unsafe { R_ReleaseObject(value) };
}

/// The value of an R option; nil for none.
#[inline]
pub fn option(name: &CStr) -> SEXP {
    // SAFETY: on R's main thread; the name ends with a NUL.
    unsafe { Rf_GetOption1(Rf_install(name.as_ptr())) }
}

/// A list of values, each protected or made only now; not protected. R may leave this by a long jump.
pub fn list<I>(values: I) -> SEXP
where
    I: IntoIterator<Item = SEXP, IntoIter: ExactSizeIterator>,
{
    let values = values.into_iter();
    let out = Protected::new(vector(SEXPTYPE::VECSXP, values.len()));
    values.enumerate().for_each(|(i, value)| set_at(out.sexp(), i, value));
    out.sexp()
}

/// The same for values that may fail to be made.
pub fn try_list<E>(
    values: impl ExactSizeIterator<Item = std::result::Result<SEXP, E>>,
) -> std::result::Result<SEXP, E> {
    let out = Protected::new(vector(SEXPTYPE::VECSXP, values.len()));
    for (i, value) in values.enumerate() {
        set_at(out.sexp(), i, value?);
    }
    Ok(out.sexp())
}

/// A character vector; not protected. R may leave this by a long jump.
pub fn new_strings<'a, I>(texts: I) -> SEXP
where
    I: IntoIterator<Item = &'a str, IntoIter: ExactSizeIterator>,
{
    let texts = texts.into_iter();
    let out = Protected::new(vector(SEXPTYPE::STRSXP, texts.len()));
    texts.enumerate().for_each(|(i, text)| set_text(out.sexp(), i, text));
    out.sexp()
}

/// A [`list`] with names; not protected. R may leave this by a long jump.
pub fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>, values: impl ExactSizeIterator<Item = SEXP>) -> SEXP {
    let out = Protected::new(list(values));
    let names = Protected::new(new_strings(names));
    set_names(out.sexp(), names.sexp());
    out.sexp()
}

/// A named list from values that are made one after another; not protected. R may leave this by a long jump.
#[inline]
pub fn record(items: &[(&str, &dyn Fn() -> SEXP)]) -> SEXP {
    named(items.iter().map(|item| item.0), items.iter().map(|item| item.1()))
}
