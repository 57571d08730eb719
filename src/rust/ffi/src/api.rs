//! A plugin's table of functions, and the one macro through which every PJRT call goes.
//!
//! The table is only as long as the plugin says (`struct_size`): a slot past that is garbage, so each call checks the
//! size.

use crate::poison::Poison;
use pjrt_base::callbacks;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_sys::*;
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// The table size from which the version that added a missing call is known.
const SIZE_AT_81: usize = 984;

/// The largest plausible table; today's are about 1,100 bytes long.
const MAX_SIZE: usize = 1 << 16;

/// The longest plausible chain of extensions; a longer one is a plugin's bug.
const MAX_EXTENSIONS: usize = 1000;

/// A checked view of a plugin's `PJRT_Api`.
#[derive(Debug)]
pub struct Api {
    raw: *const PJRT_Api,
    size: usize,
    version: (i32, i32),
    room: usize,
    poison: &'static Poison,
}

// SAFETY: the table is constant for the life of the process (plugins are never unloaded), and PJRT's functions may be
// called from any thread.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

impl Api {
    /// Checks the table that `GetPjrtApi` returned.
    ///
    /// # Errors
    /// `PluginInvalid` if it is null, truncated before the calls that every plugin has, of an impossible size, or of
    /// another major version.
    ///
    /// # Safety
    /// `raw` must be null or point to a table that lives until the process ends.
    pub unsafe fn new(raw: *const PJRT_Api) -> Result<Self> {
        if raw.is_null() {
            bail!(PluginInvalid, "The plugin's GetPjrtApi() returned no function table.");
        }
        if !raw.is_aligned() {
            bail!(PluginInvalid, "The plugin's GetPjrtApi() returned something that is not a function table.");
        }
        let size = (*raw).struct_size;
        if size < std::mem::offset_of!(PJRT_Api, PJRT_Plugin_Attributes) {
            bail!(PluginInvalid, "The plugin's function table is truncated ({size} bytes).");
        }
        if size > MAX_SIZE {
            bail!(PluginInvalid, "The plugin's function table claims an impossible size of {size} bytes.");
        }
        let version = ((*raw).pjrt_api_version.major_version, (*raw).pjrt_api_version.minor_version);
        if version.0 != PJRT_API_MAJOR as i32 {
            return Err(Error::new(
                Kind::PluginInvalid,
                format!("The plugin uses PJRT API {}.{}, which is another major version.", version.0, version.1),
            )
            .hint(format!(
                "This package uses {PJRT_API_MAJOR}.{PJRT_API_MINOR}; use a plugin with the same major version."
            )));
        }
        // A newer plugin refuses argument structs that have grown since, so it gets zeros for the fields unknown here.
        let room = if version.1 > PJRT_API_MINOR as i32 { ROOM } else { 0 };
        Ok(Api { raw, size, version, room, poison: Poison::leaked() })
    }

    /// Major and minor version of the PJRT C API that the plugin was built with.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// The table itself; read a field only if [`Api::reaches`] returns true for it.
    pub fn raw(&self) -> *const PJRT_Api {
        self.raw
    }

    /// Whether the plugin may be called.
    #[inline]
    pub fn poison(&self) -> &'static Poison {
        self.poison
    }

    /// Whether the plugin's table holds the pointer-sized field at `offset`.
    #[inline]
    pub fn reaches(&self, offset: usize) -> bool {
        offset + size_of::<usize>() <= self.size
    }

    /// Whether the plugin has the function whose pointer is at `offset` of the table.
    pub fn has(&self, offset: usize) -> bool {
        // SAFETY: the table reaches that far, and consists of words there.
        self.reaches(offset) && unsafe { self.raw.byte_add(offset).cast::<usize>().read() } != 0
    }

    /// The functions of PJRT by name, and whether the plugin has each.
    pub fn functions(&self) -> impl Iterator<Item = (&'static str, bool)> + '_ {
        let functions = PJRT_Api::FIELDS.iter().filter(|(name, _)| name.starts_with("PJRT_"));
        functions.map(|&(name, offset)| (name, self.has(offset)))
    }

    /// The extension of this type, as its struct `T`.
    ///
    /// The plugin's struct may be shorter than `T`: read a field only if the extension's own `struct_size` reaches it.
    pub fn extension<T>(&self, kind: PJRT_Extension_Type) -> Option<*const T> {
        // SAFETY: the chain gives extensions that lie in the plugin's constant data.
        self.extensions().into_iter().find(|link| unsafe { (**link).type_ == kind }).map(|link| link.cast())
    }

    /// The links of the chain of extensions. A link that forms a circle, or is too short for a next link, ends it; the
    /// links before are valid.
    pub fn extensions(&self) -> Vec<*const PJRT_Extension_Base> {
        let mut links = Vec::new();
        // SAFETY: the table reaches beyond its first fields (checked in `new`).
        let mut next: *const PJRT_Extension_Base = unsafe { (*self.raw).extension_start };
        while !next.is_null() && next.is_aligned() && !links.contains(&next) && links.len() < MAX_EXTENSIONS {
            // SAFETY: each link points to an extension, whose size comes first.
            if unsafe { (*next).struct_size } < size_of::<PJRT_Extension_Base>() {
                break;
            }
            links.push(next);
            // SAFETY: the extension is long enough for this field.
            next = unsafe { (*next).next };
        }
        links
    }

    /// The error for a call that the plugin lacks.
    #[cold]
    pub fn missing(&self, name: &'static str, offset: usize) -> Error {
        let (major, minor) = self.version;
        let hint = if minor >= PJRT_API_MINOR as i32 {
            "The plugin omits it; another version of the plugin may have it.".into()
        } else if offset >= SIZE_AT_81 {
            format!(
                "It was added to the PJRT API between {PJRT_API_MAJOR}.82 and {PJRT_API_MAJOR}.{PJRT_API_MINOR}: \
                     use a newer plugin."
            )
        } else {
            format!("It is part of PJRT API {PJRT_API_MAJOR}.{PJRT_API_MINOR}: use a newer plugin.")
        };
        Error::new(Kind::UnsupportedCall, format!("The plugin (PJRT API {major}.{minor}) has no {name}."))
            .hint(hint)
            .in_call(name)
    }

    /// Turns a plugin's error into ours and frees it.
    ///
    /// # Safety
    /// `error` must be an error that this plugin returned and nobody freed.
    #[cold]
    pub unsafe fn take_error(&self, error: *mut PJRT_Error, call_name: &'static str) -> Error {
        // Another thread may have poisoned the plugin in the meantime; it is not called, and keeps the error.
        if let Err(poisoned) = self.poison.check() {
            return poisoned.in_call(call_name);
        }
        let mut message = Args::<PJRT_Error_Message_Args>::new(self);
        message.fields.struct_size = self.size_of(&message);
        message.fields.error = error;
        if let Some(function) = (*self.raw).PJRT_Error_Message {
            function((&raw mut message).cast());
        }
        let mut code = Args::<PJRT_Error_GetCode_Args>::new(self);
        code.fields.struct_size = self.size_of(&code);
        code.fields.error = error;
        code.fields.code = PJRT_Error_Code::PJRT_Error_Code_UNKNOWN;
        if let Some(function) = (*self.raw).PJRT_Error_GetCode {
            // An error about the error adds nothing.
            self.destroy_error(function((&raw mut code).cast()));
        }
        let mut text = text(message.fields.message, message.fields.message_size);
        if text.is_empty() {
            text = "The plugin failed without an error message.".into();
        }
        self.destroy_error(error);
        let is_refused_size = self.room > 0 && text.starts_with("Unexpected ") && text.contains(" size");
        let callback = callbacks::unmark(&text).map(|(rest, number)| {
            text = rest;
            Reason::CallbackFailed { number: number as usize }
        });
        let mut error = Error::new(Kind::Pjrt(code.fields.code.0), text).in_call(call_name);
        if let Some(reason) = callback {
            error = error.hint(reason);
        }
        if is_refused_size {
            let (major, minor) = self.version;
            return error.hint(format!(
                "The plugin's PJRT API, {major}.{minor}, is too new for this package, which uses \
                 {PJRT_API_MAJOR}.{PJRT_API_MINOR}: update the package, or use an older plugin."
            ));
        }
        error
    }

    /// Frees a plugin's error; null is fine.
    ///
    /// # Safety
    /// As for [`Api::take_error`].
    pub unsafe fn destroy_error(&self, error: *mut PJRT_Error) {
        if error.is_null() || self.poison.is_noted() {
            return;
        }
        let mut args = Args::<PJRT_Error_Destroy_Args>::new(self);
        args.fields.struct_size = self.size_of(&args);
        args.fields.error = error;
        if let Some(function) = (*self.raw).PJRT_Error_Destroy {
            function((&raw mut args).cast());
        }
    }

    /// The size of an argument struct that this plugin is told.
    #[inline]
    pub fn size_of<A>(&self, _: &Args<A>) -> usize {
        size_of::<A>() + self.room
    }
}

/// Bytes kept behind an argument struct: the most that one has grown by in the 25 minor versions after ours is 32.
const ROOM: usize = 128;

/// A zeroed C argument struct, and room for the fields that newer plugins know, zeroed where the plugin sees it.
#[repr(C)]
pub struct Args<A> {
    pub fields: A,
    room: MaybeUninit<[u64; ROOM / 8]>,
}

impl<A: Copy> Args<A> {
    #[inline]
    pub fn new(api: &Api) -> Self {
        let room = if api.room > 0 { MaybeUninit::zeroed() } else { MaybeUninit::uninit() };
        Args { fields: blank_struct(), room }
    }

    /// The same for a slot, its type taken from the function pointer.
    #[inline]
    pub fn of<R>(api: &Api, _: unsafe extern "C" fn(*mut A) -> R) -> Self {
        Self::new(api)
    }
}

/// A C argument struct with every field zero.
pub fn blank_struct<T: Copy>() -> T {
    // SAFETY: used with the generated argument structs only, plain C data for which all-zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Copies a C string of known size, replacing invalid UTF-8. A plugin may count the zero at its end.
///
/// # Safety
/// `data` must be null or point to `size` readable bytes.
pub unsafe fn text(data: *const c_char, size: usize) -> String {
    let bytes = bytes(data, size);
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Bytes that a plugin owns; an empty slice for null.
///
/// # Safety
/// `data` must be null or point to `size` bytes that stay readable and unchanged for `'a`.
pub unsafe fn bytes<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    slice(data.cast(), size)
}

/// An array that a plugin owns; an empty slice for null.
///
/// # Safety
/// As for [`bytes`].
pub unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() || len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, len)
    }
}

/// Calls a slot of a plugin's table: `call!(api, PJRT_Slot { field: value, … })` returns a `Result` of the argument
/// struct with its outputs. Checks that the plugin has the slot, sets `struct_size`, and converts errors.
#[macro_export]
macro_rules! call {
    ($api:expr, $slot:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let api: &$crate::api::Api = $api;
        const OFFSET: usize = std::mem::offset_of!(pjrt_sys::PJRT_Api, $slot);
        // SAFETY: the slot is read only when the plugin's table reaches that far.
        let function = if api.reaches(OFFSET) { unsafe { (*api.raw()).$slot } } else { None };
        match function {
            None => Err(api.missing(stringify!($slot), OFFSET)),
            Some(function) => {
                let mut args = $crate::api::Args::of(api, function);
                args.fields.struct_size = api.size_of(&args);
                $(args.fields.$field = $value;)*
                let arguments = (&raw mut args).cast();
                // SAFETY: the arguments are what the header asks for; the callers keep what they point to alive.
                match unsafe { $crate::exception::guarded(api.poison(), function, arguments, stringify!($slot)) } {
                    Ok(error) if error.is_null() => Ok(args.fields),
                    // SAFETY: the plugin has just returned this error to us.
                    Ok(error) => Err(unsafe { api.take_error(error, stringify!($slot)) }),
                    Err(thrown) => Err(thrown),
                }
            }
        }
    }};
}
#[doc(inline)]
pub use crate::call;

/// A value of an attribute, a cost property or a client option.
#[derive(Debug, Clone, PartialEq)]
pub enum PluginValue {
    String(String),
    Int(i64),
    IntList(Vec<i64>),
    Float(f32),
    Bool(bool),
    /// A type newer than these bindings.
    Unknown,
}

/// Copies a plugin's array of named values.
///
/// # Safety
/// `values` must point to `len` named values of the plugin.
pub unsafe fn named_values(values: *const PJRT_NamedValue, len: usize) -> Vec<(String, PluginValue)> {
    let one = |v: &PJRT_NamedValue| {
        let data = &v.__bindgen_anon_1;
        let value = match v.type_ {
            PJRT_NamedValue_Type::PJRT_NamedValue_kString => PluginValue::String(text(data.string_value, v.value_size)),
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64 => PluginValue::Int(data.int64_value),
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List => {
                PluginValue::IntList(slice(data.int64_array_value, v.value_size).to_vec())
            }
            PJRT_NamedValue_Type::PJRT_NamedValue_kFloat => PluginValue::Float(data.float_value),
            // The byte may hold any value.
            PJRT_NamedValue_Type::PJRT_NamedValue_kBool => {
                PluginValue::Bool((&raw const data.bool_value).cast::<u8>().read() != 0)
            }
            _ => PluginValue::Unknown,
        };
        (text(v.name, v.name_size), value)
    };
    slice(values, len).iter().map(one).collect()
}
