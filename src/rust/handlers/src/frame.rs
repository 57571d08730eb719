//! One call of a handler: its arguments, results and attributes.

use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, FAILED_PRECONDITION, INVALID_ARGUMENT, UNIMPLEMENTED};
use pjrt_base::reason::Hint;
use pjrt_data::dtype::DType;
use pjrt_data::scalar::{Reader, Scalar};
use pjrt_ffi::api::{blank_struct, slice};
use pjrt_sys::*;
use std::ffi::{c_void, CString};
use std::fmt;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::null_mut;

/// What a handler gives.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The failure of a handler: the execution fails with this code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: u32,
    pub message: String,
}

impl Failure {
    /// A failure with one of the codes that XLA and PJRT share.
    #[cold]
    pub fn new(code: u32, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// The program calls the handler in a way that it does not support.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(INVALID_ARGUMENT, message)
    }

    /// A fault that is not the program's.
    #[cold]
    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(XLA_FFI_Error_Code::XLA_FFI_Error_Code_INTERNAL.0, message)
    }

    /// A library cannot be used: with what to do about it.
    #[cold]
    pub(crate) fn of_library(error: &Error) -> Failure {
        let sentences = std::iter::once(error.message().to_owned()).chain(error.hints().iter().map(Hint::to_string));
        let message = sentences.collect::<Vec<_>>().join("\n");
        Failure::new(FAILED_PRECONDITION, message)
    }

    /// The failure of a call of this name.
    #[cold]
    pub(crate) fn of_call(self, target: &str) -> Failure {
        Failure { message: format!("{target}: {}", self.message), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error.kind() {
            Kind::LibraryMissing => return Failure::of_library(&error),
            Kind::Pjrt(code) => code,
            Kind::Internal => XLA_FFI_Error_Code::XLA_FFI_Error_Code_INTERNAL.0,
            _ => INVALID_ARGUMENT,
        };
        Failure::new(code, error.message())
    }
}

/// The arguments of a function in a plugin's table after its call; `None` if there is no such function, or it fails. Fields
/// without a value are zero.
macro_rules! call {
    ($api:expr, $function:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let api: *const XLA_FFI_Api = $api;
        // SAFETY: read only if the table reaches that far.
        let function = unsafe {
            let reaches = $crate::frame::reaches(api, std::mem::offset_of!(XLA_FFI_Api, $function));
            reaches.then(|| (*api).$function).flatten()
        };
        function.and_then(|function| {
            let mut args = $crate::frame::blank_args(function);
            args.struct_size = size_of_val(&args);
            $(args.$field = $value;)*
            // SAFETY: the arguments are what the API asks for.
            unsafe { $crate::frame::is_success(api, function(&mut args)) }.then_some(args)
        })
    }};
}
pub(crate) use call;

/// The arguments of a function, all of them zero.
#[inline]
pub(crate) fn blank_args<A: Copy, R>(_: unsafe extern "C" fn(*mut A) -> R) -> A {
    blank_struct()
}

/// A call in the execute stage.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    raw: *const XLA_FFI_CallFrame,
    call: PhantomData<&'a ()>,
}

/// An argument or a result: a dense array in the memory of the device.
///
/// The dimensions come from the program's type. The order in memory is the layout that the program sets for the call;
/// plugins do not pass it to handlers. A result may share memory with an argument.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    pub(crate) name: Name,
    pub dtype: DType,
    pub dims: &'a [i64],
    data: *mut u8,
    bytes: usize,
}

/// An argument or a result, by its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    what: &'static str,
    index: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.index + 1)
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Bool(bool),
    /// An integer of any width.
    Integer(i128),
    Float(f64),
    /// A string, which need not be UTF-8.
    String(Vec<u8>),
    /// The elements of an array, in native byte order.
    Array(DType, Vec<u8>),
    Dictionary(Vec<(String, Attribute)>),
    /// Of a type that is not known here.
    Other,
}

impl<'a> Frame<'a> {
    /// A view of the frame that a plugin passes to a handler.
    ///
    /// # Errors
    /// For a frame that is shorter than the one known here, or laid out in another way.
    ///
    /// # Safety
    /// `raw` must be null, or such a frame, which stays valid for `'a`.
    pub unsafe fn new(raw: *const XLA_FFI_CallFrame) -> Outcome<Frame<'a>> {
        let has_layout = !raw.is_null()
            && (*raw).struct_size >= offset_of!(XLA_FFI_CallFrame, future)
            && (*raw).args.struct_size == size_of::<XLA_FFI_Args>()
            && (*raw).rets.struct_size == size_of::<XLA_FFI_Rets>()
            && (*raw).attrs.struct_size == size_of::<XLA_FFI_Attrs>();
        ensure!(has_layout, Failure::new(UNIMPLEMENTED, "The plugin uses another version of XLA's FFI."));
        Ok(Frame { raw, call: PhantomData })
    }

    /// Whether the handler is to run: the only stage that handlers are registered for.
    pub(crate) fn is_execution(&self) -> bool {
        // SAFETY: checked in `new`.
        unsafe { (*self.raw).stage == XLA_FFI_ExecutionStage::XLA_FFI_ExecutionStage_EXECUTE }
    }

    /// The frame as it was passed.
    pub fn raw(&self) -> *const XLA_FFI_CallFrame {
        self.raw
    }

    /// The number of arguments.
    pub fn arguments(&self) -> usize {
        // SAFETY: as above.
        unsafe { usize::try_from((*self.raw).args.size).unwrap_or(0) }
    }

    /// The number of results.
    pub fn results(&self) -> usize {
        // SAFETY: as above.
        unsafe { usize::try_from((*self.raw).rets.size).unwrap_or(0) }
    }

    /// Checks the number of arguments and results.
    ///
    /// # Errors
    /// For other numbers than these.
    pub fn expect(&self, arguments: usize, results: usize) -> Outcome {
        let check = |what: &str, expected: usize, got: usize| match expected == got {
            true => Ok(()),
            false => Err(Failure::invalid(format!("Expected {}, but got {got}.", counted(expected, what)))),
        };
        check("argument", arguments, self.arguments())?;
        check("result", results, self.results())
    }

    /// An argument, counted from 0.
    ///
    /// # Errors
    /// If there is none, or it is not an array of a known type.
    pub fn argument(&self, index: usize) -> Outcome<Array<'a>> {
        // SAFETY: checked in `new`; the lists have as many entries as the frame says, and the entry of a buffer is one.
        unsafe {
            let (args, count) = (&(*self.raw).args, self.arguments());
            let is_buffer = slice(args.types, count).get(index) == Some(&XLA_FFI_ArgType::XLA_FFI_ArgType_BUFFER);
            Array::new(slice(args.args, count).get(index).filter(|_| is_buffer), Name { what: "argument", index })
        }
    }

    /// A result, counted from 0.
    ///
    /// # Errors
    /// As [`Frame::argument`].
    pub fn result(&self, index: usize) -> Outcome<Array<'a>> {
        // SAFETY: as above.
        unsafe {
            let (rets, count) = (&(*self.raw).rets, self.results());
            let is_buffer = slice(rets.types, count).get(index) == Some(&XLA_FFI_RetType::XLA_FFI_RetType_BUFFER);
            Array::new(slice(rets.rets, count).get(index).filter(|_| is_buffer), Name { what: "result", index })
        }
    }

    /// The attributes by name, in the order of the names: `backend_config` in StableHLO.
    pub fn attributes(&self) -> Vec<(String, Attribute)> {
        // SAFETY: checked in `new`.
        unsafe { named(&(*self.raw).attrs) }
    }

    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        // SAFETY: checked in `new`.
        unsafe {
            let (_, kind, value) = entries(&(*self.raw).attrs).find(|(other, ..)| *other == name.as_bytes())?;
            Some(Attribute::new(kind, value))
        }
    }

    /// An integer attribute of any width.
    ///
    /// # Errors
    /// If it is missing, of another type, or out of the range of `T`.
    pub fn integer<T: TryFrom<i128>>(&self, name: &str) -> Outcome<T> {
        match self.attribute(name) {
            Some(Attribute::Integer(value)) => T::try_from(value)
                .map_err(|_| Failure::invalid(format!("The attribute '{name}' is out of range: {value}."))),
            other => Err(wrong_attribute(name, "an integer", other)),
        }
    }

    /// A boolean attribute.
    ///
    /// # Errors
    /// If it is missing or of another type.
    pub fn boolean(&self, name: &str) -> Outcome<bool> {
        match self.attribute(name) {
            Some(Attribute::Bool(value)) => Ok(value),
            other => Err(wrong_attribute(name, "a boolean", other)),
        }
    }

    /// A string attribute.
    ///
    /// # Errors
    /// If it is missing, of another type, or not UTF-8.
    pub fn string(&self, name: &str) -> Outcome<String> {
        match self.attribute(name) {
            Some(Attribute::String(bytes)) => String::from_utf8(bytes)
                .map_err(|_| Failure::invalid(format!("The attribute '{name}' is not valid UTF-8."))),
            other => Err(wrong_attribute(name, "a string", other)),
        }
    }

    /// What `read` reads of an attribute, or the default if it is missing.
    ///
    /// # Errors
    /// As `read`.
    pub fn optional<T>(&self, name: &str, default: T, read: impl FnOnce(&Self, &str) -> Outcome<T>) -> Outcome<T> {
        match self.attribute(name) {
            Some(_) => read(self, name),
            None => Ok(default),
        }
    }

    /// The number of threads that the plugin has for handlers, if it lends them.
    pub fn threads(&self) -> Option<usize> {
        let (api, ctx) = self.api()?;
        let mut threads = 0;
        call!(api, XLA_FFI_ThreadPool_NumThreads { ctx: ctx, num_threads: &mut threads })?;
        usize::try_from(threads).ok()
    }

    /// The functions that handlers may call, and the context that these ask for.
    pub(super) fn api(&self) -> Option<(*const XLA_FFI_Api, *mut XLA_FFI_ExecutionContext)> {
        // SAFETY: checked in `new`.
        let (api, ctx) = unsafe { ((*self.raw).api, (*self.raw).ctx) };
        (!api.is_null()).then_some((api, ctx))
    }
}

/// Whether the table holds the function at `offset`.
///
/// # Safety
/// `api` must be a plugin's table.
pub(crate) unsafe fn reaches(api: *const XLA_FFI_Api, offset: usize) -> bool {
    (*api).struct_size >= offset + size_of::<usize>()
}

/// Whether a function of the table succeeded; frees its error if not.
///
/// # Safety
/// `error` must come from a function of this table.
pub(crate) unsafe fn is_success(api: *const XLA_FFI_Api, error: *mut XLA_FFI_Error) -> bool {
    if error.is_null() {
        return true;
    }
    if let Some(destroy) = (*api).XLA_FFI_Error_Destroy {
        destroy(&mut XLA_FFI_Error_Destroy_Args {
            struct_size: size_of::<XLA_FFI_Error_Destroy_Args>(),
            extension_start: null_mut(),
            error,
        });
    }
    false
}

/// The plugin's error for a failure.
///
/// # Safety
/// `api` must be null or a plugin's table.
pub(crate) unsafe fn error_of(api: *const XLA_FFI_Api, failure: &Failure) -> *mut XLA_FFI_Error {
    // Every version of the API has this function.
    let Some(create) = (!api.is_null()).then(|| (*api).XLA_FFI_Error_Create).flatten() else { return null_mut() };
    let message = CString::new(failure.message.replace('\0', "\u{fffd}")).unwrap_or_default();
    create(&mut XLA_FFI_Error_Create_Args {
        struct_size: size_of::<XLA_FFI_Error_Create_Args>(),
        extension_start: null_mut(),
        message: message.as_ptr(),
        errc: XLA_FFI_Error_Code(failure.code),
    })
}

impl<'a> Array<'a> {
    /// # Safety
    /// `buffer` must be a buffer of a frame that stays valid for `'a`.
    unsafe fn new(buffer: Option<&*mut c_void>, name: Name) -> Outcome<Array<'a>> {
        let Some(buffer) = buffer.map(|buffer| buffer.cast::<XLA_FFI_Buffer>()).filter(|buffer| !buffer.is_null())
        else {
            bail!(InvalidInput, "There is no {name} that is an array.");
        };
        let is_known = (*buffer).struct_size >= size_of::<XLA_FFI_Buffer>();
        ensure!(is_known, Internal, "The plugin describes {name} in an unknown way.");
        let code = (*buffer).dtype;
        let Some(dtype) = dtype_of(code) else {
            bail!(InvalidInput, "Unsupported element type of {name} (code {}).", code.0);
        };
        let dims = slice((*buffer).dims, usize::try_from((*buffer).rank).unwrap_or(0));
        let bits = |dim: Option<usize>, &next: &i64| dim?.checked_mul(usize::try_from(next).ok()?);
        let bits = dims.iter().fold(Some(dtype.info().bits as usize), bits);
        let data: *mut u8 = (*buffer).data.cast();
        let Some(bytes) = bits.map(|bits| bits.div_ceil(8)).filter(|&bytes| bytes == 0 || !data.is_null()) else {
            bail!(InvalidInput, "The memory of {name} is not known.");
        };
        Ok(Array { name, dtype, dims, data, bytes })
    }

    /// The first element. Null if the array is empty and the plugin has no memory for it.
    pub fn as_ptr(&self) -> *const u8 {
        self.data
    }

    /// The first element, for writing if the array is a result.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.data
    }

    /// The size of its memory in bytes. Elements narrower than a byte share bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Copies the elements to a result of the same size in bytes, which may have the same memory.
    ///
    /// # Errors
    /// If the sizes differ.
    pub fn copy_to(&self, result: &Array<'_>) -> Outcome {
        let (bytes, got) = (self.bytes, result.bytes);
        ensure!(bytes == got, InvalidInput, "Expected a result of {bytes} bytes, got {got}.");
        if self.data != result.data && bytes > 0 {
            // SAFETY: both have so many bytes of host memory; the regions may overlap.
            unsafe { std::ptr::copy(self.data, result.data, bytes) };
        }
        Ok(())
    }

    /// Its memory for reading.
    ///
    /// # Safety
    /// The memory must be the host's, and nobody may write to it meanwhile, not even as the memory of a result.
    pub unsafe fn bytes(&self) -> &'a [u8] {
        slice(self.data.cast_const(), self.bytes)
    }
}

fn dtype_of(code: XLA_FFI_DataType) -> Option<DType> {
    i32::try_from(code.0).ok().and_then(DType::from_xla_code)
}

/// The names, kinds and values of attributes.
///
/// # Safety
/// They must be the attributes of a call, or of a dictionary in them, and stay valid for `'a`.
unsafe fn entries<'a>(
    attributes: *const XLA_FFI_Attrs,
) -> impl Iterator<Item = (&'a [u8], XLA_FFI_AttrType, *const c_void)> {
    let count = usize::try_from((*attributes).size).unwrap_or(0);
    let names = slice((*attributes).names, count).iter().map(|&name| span(name));
    let (types, values) = (slice((*attributes).types, count), slice((*attributes).attrs, count));
    types.iter().zip(names).zip(values).map(|((&kind, name), &value)| (name, kind, value.cast_const()))
}

/// # Safety
/// As for [`entries`].
unsafe fn named(attributes: *const XLA_FFI_Attrs) -> Vec<(String, Attribute)> {
    let named = |(name, kind, value)| (String::from_utf8_lossy(name).into_owned(), Attribute::new(kind, value));
    entries(attributes).map(named).collect()
}

/// # Safety
/// `span` must be null, or bytes that stay valid for `'a`.
unsafe fn span<'a>(span: *const XLA_FFI_ByteSpan) -> &'a [u8] {
    if span.is_null() {
        &[]
    } else {
        slice((*span).ptr.cast(), (*span).len)
    }
}

impl Attribute {
    /// # Safety
    /// `value` must be null, or an attribute of this kind.
    unsafe fn new(kind: XLA_FFI_AttrType, value: *const c_void) -> Attribute {
        if value.is_null() {
            return Attribute::Other;
        }
        match kind {
            XLA_FFI_AttrType::XLA_FFI_AttrType_STRING => Attribute::String(span(value.cast()).into()),
            XLA_FFI_AttrType::XLA_FFI_AttrType_SCALAR => {
                let scalar: *const XLA_FFI_Scalar = value.cast();
                dtype_of((*scalar).dtype).map_or(Attribute::Other, |dtype| Attribute::scalar(dtype, (*scalar).value))
            }
            XLA_FFI_AttrType::XLA_FFI_AttrType_ARRAY => {
                let array: *const XLA_FFI_Array = value.cast();
                dtype_of((*array).dtype).map_or(Attribute::Other, |dtype| {
                    let bytes = (*array).size.saturating_mul(dtype.host_bytes());
                    Attribute::Array(dtype, slice((*array).data.cast_const().cast(), bytes).into())
                })
            }
            XLA_FFI_AttrType::XLA_FFI_AttrType_DICTIONARY => Attribute::Dictionary(named(value.cast())),
            _ => Attribute::Other,
        }
    }

    /// # Safety
    /// `value` must be null, or point to a value of this type.
    unsafe fn scalar(dtype: DType, value: *const c_void) -> Attribute {
        if value.is_null() {
            return Attribute::Other;
        }
        match Reader::new(dtype).read(slice(value.cast(), dtype.host_bytes())) {
            Scalar::Pred(value) => Attribute::Bool(value),
            Scalar::Signed(value) => Attribute::Integer(value.into()),
            Scalar::Unsigned(value) => Attribute::Integer(value.into()),
            Scalar::Float(float) => Attribute::Float(float.value),
            Scalar::Complex { .. } => Attribute::Other,
        }
    }
}

#[cold]
fn wrong_attribute(name: &str, expected: &str, got: Option<Attribute>) -> Failure {
    Failure::invalid(match got {
        None => format!("The attribute '{name}', {expected}, is missing."),
        Some(_) => format!("The attribute '{name}' must be {expected}."),
    })
}
