//! The walk over nested lists, for all that take them: trees, inputs of executions, arguments of functions. Whoever walks
//! decides which lists to enter. None of them recurses, and all have the same limit of depth.

use crate::r::conditions::Result;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_data::tree::check_depth;
use smallvec::SmallVec;
use std::os::raw::c_int;

/// Whether an R object is a list to walk over: one with a class is an object of something else.
#[inline]
pub fn is_list(x: SEXP) -> bool {
    sexp::kind(x) == SEXPTYPE::VECSXP && !sexp::is_object(x)
}

/// A walk over a nested list, which the caller protects.
#[derive(Default)]
pub struct Walk {
    /// The lists that were entered, the innermost last.
    frames: SmallVec<[Frame; 8]>,
    count: usize,
    /// Holds what was made for the walk.
    made: Vec<PreservedObject>,
}

/// A list during a walk: its address, the strings of its names (null for none), the next element, and their number.
struct Frame {
    list: SEXP,
    names: *const SEXP,
    next: usize,
    len: usize,
}

pub enum Step {
    Element(SEXP),
    /// The innermost list has no more elements, and was left.
    Left,
}

/// The number of elements after which to look for interrupts.
const LOOK: usize = 1 << 12;

impl Walk {
    /// Enters a list: its elements are next. Their names are not read.
    ///
    /// # Errors
    /// `InvalidInput` for lists that are nested too deep.
    #[inline]
    pub fn enter(&mut self, list: SEXP) -> Result<()> {
        check_depth(self.frames.len() + 1)?;
        let mut frame = Frame { list, names: std::ptr::null(), next: 0, len: sexp::len(list) };
        // SAFETY: asks for a mark of an R object.
        if unsafe { ALTREP(list) } != 0 {
            // Its elements may be made as they are asked for.
            let copy = PreservedObject::made(|| sexp::list(sexp::elements(list)))?;
            frame.list = copy.0;
            self.made.push(copy);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// The same with names. Returns them, in UTF-8, if the list has any.
    ///
    /// # Errors
    /// As [`Walk::enter`], and `InvalidInput` for names that are missing.
    #[inline]
    pub fn enter_named(&mut self, list: SEXP) -> Result<Option<SEXP>> {
        self.enter(list)?;
        let names = sexp::names(list);
        if sexp::is_nil(names) {
            return Ok(None);
        }
        let (names, made) = plain_text(names)?;
        self.made.extend(made);
        let len = sexp::len(list);
        ensure!(sexp::len(names) == len, InvalidInput, "A list of length {len} has {} names.", sexp::len(names));
        // SAFETY: a character vector, which the list or `made` holds, with more elements.
        let strings = unsafe { STRING_PTR_RO(names) };
        // SAFETY: as above.
        if (0..len).any(|i| unsafe { *strings.add(i) == R_NaString }) {
            bail!(InvalidInput, "tree names must not be NA: give each element of the list a name, or none.");
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.names = strings;
        }
        Ok(Some(names))
    }

    /// The next element; none after the outermost list.
    ///
    /// # Errors
    /// `Interrupted` if the user interrupts.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Step>> {
        let Some(frame) = self.frames.last_mut() else { return Ok(None) };
        if frame.next == frame.len {
            self.frames.pop();
            return Ok(Some(Step::Left));
        }
        frame.next += 1;
        self.count += 1;
        if self.count % LOOK == 0 {
            check_interrupt_sometimes()?;
        }
        // SAFETY: a list with more elements, which R stores.
        Ok(Some(Step::Element(unsafe { VECTOR_ELT(frame.list, frame.next as R_xlen_t - 1) })))
    }

    /// The name of the last element, in a list that was entered with names; empty for none.
    ///
    /// # Errors
    /// `InvalidInput` if it is not valid text.
    #[inline]
    pub fn name<'a>(&self) -> Result<&'a str> {
        match self.frames.last() {
            // SAFETY: there are as many names as elements, all in UTF-8; `made` or the list holds them.
            Some(frame) if !frame.names.is_null() => match unsafe { utf8(*frame.names.add(frame.next - 1)) } {
                Some(name) => Ok(name),
                None => bad_name(),
            },
            _ => Ok(""),
        }
    }

    /// The position of the last element in its list, from 0.
    #[inline]
    pub fn position(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.next - 1)
    }

    /// How many lists the last element is in.
    #[inline]
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// What must live as long as the elements do.
    pub fn into_made(self) -> Vec<PreservedObject> {
        self.made
    }
}

/// Whether all elements of a list are such, apart from lists, which are entered.
fn all_are(list: SEXP, is_such: fn(SEXP) -> bool) -> Result<bool> {
    let mut walk = Walk::default();
    walk.enter(list)?;
    while let Some(step) = walk.next()? {
        match step {
            Step::Element(x) if is_list(x) => walk.enter(x)?,
            Step::Element(x) if !is_such(x) => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// Walks over all lists for nothing but the errors of [`Walk`].
pub fn check(list: SEXP) -> Result<()> {
    all_are(list, |_| true).map(drop)
}

/// Whether this is NULL, or a list with nothing but NULL and such lists.
pub fn is_empty(x: SEXP) -> Result<bool> {
    if is_list(x) {
        all_are(x, sexp::is_nil)
    } else {
        Ok(sexp::is_nil(x))
    }
}

#[cold]
fn bad_name<T>() -> Result<T> {
    bail!(InvalidInput, "The names of a list must be valid text.")
}

/// An R object that is kept until this is dropped.
pub struct PreservedObject(SEXP);

impl PreservedObject {
    /// Keeps the object that `make` makes, from which R may jump.
    fn made(make: impl Fn() -> SEXP) -> Result<PreservedObject> {
        let mut made = sexp::nil();
        let is_made = sexp::guarded(|| {
            made = make();
            sexp::preserve(made);
        })?;
        ensure!(is_made, InvalidInput, "A list or its names cannot be read: R raised an error, or had no memory.");
        Ok(PreservedObject(made))
    }
}

impl Drop for PreservedObject {
    fn drop(&mut self) {
        sexp::release(self.0);
    }
}

/// A character vector whose elements R stores, in UTF-8: this one, or a copy.
pub fn plain_text(x: SEXP) -> Result<(SEXP, Option<PreservedObject>)> {
    const UTF8: c_int = 1;
    // SAFETY: a character vector, whose elements are read only if R stores them.
    let is_plain = unsafe {
        let is_utf8 = |i| {
            let element = *STRING_PTR_RO(x).add(i);
            bytes_of(element).is_ascii() || sexp::Rf_getCharCE(element) == UTF8
        };
        ALTREP(x) == 0 && (0..sexp::len(x)).all(is_utf8)
    };
    if is_plain {
        return Ok((x, None));
    }
    let copy = PreservedObject::made(|| translate(x))?;
    Ok((copy.0, Some(copy)))
}

/// R may leave this by a long jump.
fn translate(x: SEXP) -> SEXP {
    let copy = Protected::new(sexp::vector(SEXPTYPE::STRSXP, sexp::len(x)));
    // SAFETY: both vectors are as long.
    unsafe {
        for i in 0..sexp::len(x) as R_xlen_t {
            let element = STRING_ELT(x, i);
            // What is not text stays, to be refused later.
            let text = sexp::text(element).map_or(element, sexp::new_char);
            SET_STRING_ELT(copy.sexp(), i, text);
        }
    }
    copy.sexp()
}

/// A string of [`plain_text`]; `None` if it is not valid text.
///
/// # Safety
/// The string is used only as long as it is protected.
#[inline]
pub unsafe fn utf8<'a>(element: SEXP) -> Option<&'a str> {
    std::str::from_utf8(bytes_of(element)).ok()
}

/// The bytes of an element of a character vector.
///
/// # Safety
/// As [`utf8`].
#[inline]
pub unsafe fn bytes_of<'a>(element: SEXP) -> &'a [u8] {
    // R ends each string with a NUL.
    std::slice::from_raw_parts(R_CHAR(element).cast::<u8>(), sexp::len(element))
}
