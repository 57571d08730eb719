//! One call of a handler: its arguments, results and attributes.

use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind};
use pjrt_base::reason::Hint;
use pjrt_data::dtype::DType;
use pjrt_ffi::api::slice;
use pjrt_sys::*;
use std::ffi::{c_void, CString};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{null, null_mut};

/// The failure of a handler: the execution fails with this code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: u32,
    message: String,
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
        Failure::new(XLA_FFI_Error_Code::XLA_FFI_Error_Code_INVALID_ARGUMENT.0, message)
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
        Failure::new(XLA_FFI_Error_Code::XLA_FFI_Error_Code_FAILED_PRECONDITION.0, message)
    }

    pub fn code(&self) -> u32 {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error.kind() {
            Kind::Pjrt(code) => code,
            Kind::Internal => XLA_FFI_Error_Code::XLA_FFI_Error_Code_INTERNAL.0,
            _ => XLA_FFI_Error_Code::XLA_FFI_Error_Code_INVALID_ARGUMENT.0,
        };
        Failure::new(code, error.message())
    }
}

/// The arguments of a function in a plugin's table after its call; `None` if there is no such function, or it fails.
macro_rules! call {
    ($api:expr, $function:ident, $args:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let (api, size): (*const XLA_FFI_Api, _) = ($api, size_of::<$args>());
        let mut args = $args { struct_size: size, extension_start: std::ptr::null_mut(), $($field: $value),* };
        // SAFETY: read only if the table reaches that far, and the arguments are what the API asks for.
        unsafe {
            let reaches = $crate::frame::reaches(api, std::mem::offset_of!(XLA_FFI_Api, $function));
            let function = reaches.then(|| (*api).$function).flatten();
            function.is_some_and(|f| $crate::frame::is_success(api, f(&mut args))).then_some(args)
        }
    }};
}
pub(crate) use call;

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
    pub dtype: DType,
    pub dims: &'a [i64],
    data: *mut u8,
    bytes: usize,
}

/// The value of an attribute.
#[derive(Debug, Clone, Copy)]
pub enum Attribute<'a> {
    Bool(bool),
    /// An integer of any width.
    Integer(i128),
    Float(f64),
    /// A string, which need not be UTF-8.
    String(&'a [u8]),
    /// The elements of an array, in native byte order.
    Array(DType, &'a [u8]),
    Dictionary(Attributes<'a>),
    /// A scalar of another type.
    Other,
}

/// The attributes of a call, or of a dictionary in them.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    raw: *const XLA_FFI_Attrs,
    call: PhantomData<&'a ()>,
}

impl<'a> Frame<'a> {
    /// A view of the frame that a plugin passes to a handler.
    ///
    /// # Errors
    /// For a frame that is shorter than the one known here, or laid out in another way.
    ///
    /// # Safety
    /// `raw` must be null, or such a frame, which stays valid for `'a`.
    pub unsafe fn new(raw: *const XLA_FFI_CallFrame) -> Result<Frame<'a>, Failure> {
        let has_layout = !raw.is_null()
            && (*raw).struct_size >= offset_of!(XLA_FFI_CallFrame, future)
            && (*raw).args.struct_size == size_of::<XLA_FFI_Args>()
            && (*raw).rets.struct_size == size_of::<XLA_FFI_Rets>()
            && (*raw).attrs.struct_size == size_of::<XLA_FFI_Attrs>();
        if !has_layout {
            return Err(Failure::new(
                XLA_FFI_Error_Code::XLA_FFI_Error_Code_UNIMPLEMENTED.0,
                "The plugin uses another version of XLA's FFI.",
            ));
        }
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
    pub fn expect(&self, arguments: usize, results: usize) -> Result<(), Failure> {
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
    pub fn argument(&self, index: usize) -> Result<Array<'a>, Failure> {
        // SAFETY: checked in `new`; the lists have as many entries as the frame says, and the entry of a buffer is one.
        unsafe {
            let (args, count) = (&(*self.raw).args, self.arguments());
            let is_buffer = slice(args.types, count).get(index) == Some(&XLA_FFI_ArgType::XLA_FFI_ArgType_BUFFER);
            Array::new(slice(args.args, count).get(index).filter(|_| is_buffer), "argument", index)
        }
    }

    /// A result, counted from 0.
    ///
    /// # Errors
    /// As [`Frame::argument`].
    pub fn result(&self, index: usize) -> Result<Array<'a>, Failure> {
        // SAFETY: as above.
        unsafe {
            let (rets, count) = (&(*self.raw).rets, self.results());
            let is_buffer = slice(rets.types, count).get(index) == Some(&XLA_FFI_RetType::XLA_FFI_RetType_BUFFER);
            Array::new(slice(rets.rets, count).get(index).filter(|_| is_buffer), "result", index)
        }
    }

    /// The attributes: `backend_config` in StableHLO.
    pub fn attributes(&self) -> Attributes<'a> {
        // SAFETY: checked in `new`.
        Attributes { raw: unsafe { &raw const (*self.raw).attrs }, call: PhantomData }
    }

    /// An integer attribute of any width.
    ///
    /// # Errors
    /// If it is missing, of another type, or out of the range of `T`.
    pub fn integer<T: TryFrom<i128>>(&self, name: &str) -> Result<T, Failure> {
        match self.attributes().get(name) {
            Some(Attribute::Integer(value)) => T::try_from(value)
                .map_err(|_| Failure::invalid(format!("The attribute '{name}' is out of range: {value}."))),
            other => Err(wrong_attribute(name, "an integer", other)),
        }
    }

    /// A boolean attribute.
    ///
    /// # Errors
    /// If it is missing or of another type.
    pub fn boolean(&self, name: &str) -> Result<bool, Failure> {
        match self.attributes().get(name) {
            Some(Attribute::Bool(value)) => Ok(value),
            other => Err(wrong_attribute(name, "a boolean", other)),
        }
    }

    /// A floating point attribute.
    ///
    /// # Errors
    /// If it is missing or of another type.
    pub fn float(&self, name: &str) -> Result<f64, Failure> {
        match self.attributes().get(name) {
            Some(Attribute::Float(value)) => Ok(value),
            other => Err(wrong_attribute(name, "a floating point number", other)),
        }
    }

    /// A string attribute.
    ///
    /// # Errors
    /// If it is missing, of another type, or not UTF-8.
    pub fn string(&self, name: &str) -> Result<&'a str, Failure> {
        match self.attributes().get(name) {
            Some(Attribute::String(bytes)) => std::str::from_utf8(bytes)
                .map_err(|_| Failure::invalid(format!("The attribute '{name}' is not valid UTF-8."))),
            other => Err(wrong_attribute(name, "a string", other)),
        }
    }

    /// What `read` reads of an attribute, or the default if it is missing.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn optional<T>(
        &self,
        name: &str,
        default: T,
        read: impl FnOnce(&Self, &str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.attributes().get(name) {
            Some(_) => read(self, name),
            None => Ok(default),
        }
    }

    /// The number of threads that the plugin has for handlers, if it lends them.
    pub fn threads(&self) -> Option<usize> {
        let (api, ctx) = self.api()?;
        let mut threads = 0;
        call!(
            api,
            XLA_FFI_ThreadPool_NumThreads,
            XLA_FFI_ThreadPool_NumThreads_Args { ctx: ctx, num_threads: &mut threads }
        )?;
        usize::try_from(threads).ok()
    }

    /// Runs a task on a thread of the plugin, some time later. Returns whether the plugin accepts it.
    ///
    /// # Safety
    /// `data` must stay valid until the task has run, and the task must not unwind.
    pub unsafe fn schedule(&self, task: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> bool {
        let Some((api, ctx)) = self.api() else { return false };
        let called = call!(
            api,
            XLA_FFI_ThreadPool_Schedule,
            XLA_FFI_ThreadPool_Schedule_Args { ctx: ctx, task: Some(task), data: data }
        );
        called.is_some()
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
/// `frame` must be one that a plugin passed to a handler.
pub(crate) unsafe fn error_of(frame: *const XLA_FFI_CallFrame, failure: &Failure) -> *mut XLA_FFI_Error {
    error_of_api(if frame.is_null() { null() } else { (*frame).api }, failure)
}

/// The same with the functions that the frame names.
///
/// # Safety
/// `api` must be null or a plugin's table.
pub(super) unsafe fn error_of_api(api: *const XLA_FFI_Api, failure: &Failure) -> *mut XLA_FFI_Error {
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
    unsafe fn new(buffer: Option<&*mut c_void>, what: &str, index: usize) -> Result<Array<'a>, Failure> {
        let name = || format!("{what} {}", index + 1);
        let Some(buffer) = buffer.map(|buffer| buffer.cast::<XLA_FFI_Buffer>()).filter(|buffer| !buffer.is_null())
        else {
            return Err(Failure::invalid(format!("There is no {} that is an array.", name())));
        };
        if (*buffer).struct_size < size_of::<XLA_FFI_Buffer>() {
            return Err(Failure::internal(format!("The plugin describes {} in an unknown way.", name())));
        }
        let Some(dtype) = i32::try_from((*buffer).dtype.0).ok().and_then(DType::from_xla_code) else {
            let code = (*buffer).dtype.0;
            return Err(Failure::invalid(format!("Unsupported element type of {} (code {code}).", name())));
        };
        let dims = slice((*buffer).dims, usize::try_from((*buffer).rank).unwrap_or(0));
        let bits = |dim: Option<usize>, &next: &i64| dim?.checked_mul(usize::try_from(next).ok()?);
        let bits = dims.iter().fold(Some(dtype.info().bits as usize), bits);
        let data: *mut u8 = (*buffer).data.cast();
        let Some(bytes) = bits.map(|bits| bits.div_ceil(8)).filter(|&bytes| bytes == 0 || !data.is_null()) else {
            return Err(Failure::invalid(format!("The memory of {} is not known.", name())));
        };
        Ok(Array { dtype, dims, data, bytes })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().map(|&dim| dim as usize).product()
    }

    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
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
    pub fn copy_to(&self, result: &Array<'_>) -> Result<(), Failure> {
        if self.bytes != result.bytes {
            return Err(Failure::invalid(format!("Expected a result of {} bytes, got {}.", self.bytes, result.bytes)));
        }
        if self.data != result.data && self.bytes > 0 {
            // SAFETY: both have so many bytes of host memory; the regions may overlap.
            unsafe { std::ptr::copy(self.data, result.data, self.bytes) };
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

impl<'a> Attributes<'a> {
    /// The attribute of this name.
    pub fn get(&self, name: &str) -> Option<Attribute<'a>> {
        self.iter().find(|(other, _)| *other == name.as_bytes()).map(|(_, attribute)| attribute)
    }

    /// All attributes by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Attribute<'a>)> {
        // SAFETY: the struct has a known size, and the lists as many entries as it says.
        let (types, names, values) = unsafe {
            let count = usize::try_from((*self.raw).size).unwrap_or(0);
            (slice((*self.raw).types, count), slice((*self.raw).names, count), slice((*self.raw).attrs, count))
        };
        // SAFETY: the entries have these types.
        types.iter().zip(names).zip(values).map(|((&kind, &name), &value)| unsafe {
            (span(name), if value.is_null() { Attribute::Other } else { Attribute::new(kind, value) })
        })
    }
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

impl<'a> Attribute<'a> {
    /// # Safety
    /// `value` must be an attribute of this kind, which stays valid for `'a`.
    unsafe fn new(kind: XLA_FFI_AttrType, value: *const c_void) -> Attribute<'a> {
        match kind {
            XLA_FFI_AttrType::XLA_FFI_AttrType_STRING => Attribute::String(span(value.cast())),
            XLA_FFI_AttrType::XLA_FFI_AttrType_SCALAR => {
                let scalar: *const XLA_FFI_Scalar = value.cast();
                Attribute::scalar((*scalar).dtype, (*scalar).value)
            }
            XLA_FFI_AttrType::XLA_FFI_AttrType_ARRAY => {
                let array: *const XLA_FFI_Array = value.cast();
                match i32::try_from((*array).dtype.0).ok().and_then(DType::from_xla_code) {
                    Some(dtype) => {
                        let bytes = (*array).size.saturating_mul(dtype.host_bytes());
                        Attribute::Array(dtype, slice((*array).data.cast_const().cast(), bytes))
                    }
                    None => Attribute::Other,
                }
            }
            XLA_FFI_AttrType::XLA_FFI_AttrType_DICTIONARY => {
                Attribute::Dictionary(Attributes { raw: value.cast(), call: PhantomData })
            }
            _ => Attribute::Other,
        }
    }

    /// # Safety
    /// `value` must be null, or point to a value of this type.
    unsafe fn scalar(dtype: XLA_FFI_DataType, value: *const c_void) -> Attribute<'a> {
        if value.is_null() {
            return Attribute::Other;
        }
        match i32::try_from(dtype.0).ok().and_then(DType::from_xla_code) {
            Some(DType::Pred) => Attribute::Bool(value.cast::<u8>().read() != 0),
            Some(DType::I8) => Attribute::Integer(value.cast::<i8>().read().into()),
            Some(DType::I16) => Attribute::Integer(value.cast::<i16>().read_unaligned().into()),
            Some(DType::I32) => Attribute::Integer(value.cast::<i32>().read_unaligned().into()),
            Some(DType::I64) => Attribute::Integer(value.cast::<i64>().read_unaligned().into()),
            Some(DType::U8) => Attribute::Integer(value.cast::<u8>().read().into()),
            Some(DType::U16) => Attribute::Integer(value.cast::<u16>().read_unaligned().into()),
            Some(DType::U32) => Attribute::Integer(value.cast::<u32>().read_unaligned().into()),
            Some(DType::U64) => Attribute::Integer(value.cast::<u64>().read_unaligned().into()),
            Some(DType::F32) => Attribute::Float(value.cast::<f32>().read_unaligned().into()),
            Some(DType::F64) => Attribute::Float(value.cast::<f64>().read_unaligned()),
            _ => Attribute::Other,
        }
    }
}

#[cold]
fn wrong_attribute(name: &str, expected: &str, got: Option<Attribute<'_>>) -> Failure {
    Failure::invalid(match got {
        None => format!("The attribute '{name}', {expected}, is missing."),
        Some(_) => format!("The attribute '{name}' must be {expected}."),
    })
}
