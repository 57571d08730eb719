//! The one error type of this crate: what went wrong, in which PJRT call, on which platform, and what to do about it.

use crate::reason::Hint;
use std::fmt;

/// Result of anything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $class:literal,)*) => {
        /// The kind of an [`Error`]. `Pjrt` carries a plugin's own code; this project detects all other kinds itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            /// The plugin's own error, with its code (`PJRT_Error_Code`, the codes of abseil's `Status`).
            Pjrt(u32),
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// The kind as a word, which ends the class of the condition in R: `pjrt_error_<class>`.
            pub fn class(self) -> &'static str {
                match self {
                    Kind::Pjrt(code) => CODES.get(code as usize).copied().unwrap_or("unknown"),
                    $(Kind::$name => $class,)*
                }
            }
        }
    };
}

kinds! {
    ArgumentCount => "argument_count",
    Checksum => "checksum",
    ClientClosed => "client_closed",
    /// The compiler's process ended while it compiled.
    CompilerCrashed => "compiler_crashed",
    DeletedBuffer => "deleted_buffer",
    DeviceMismatch => "device_mismatch",
    Download => "download",
    DriverMissing => "driver_missing",
    DriverTooOld => "driver_too_old",
    DtypeMismatch => "dtype_mismatch",
    /// A program has arguments or results without a fixed shape.
    DynamicShape => "dynamic_shape",
    /// A file that was mapped into memory has changed.
    FileChanged => "file_changed",
    Forked => "forked",
    Internal => "internal",
    Interrupted => "interrupted",
    /// Bytes or a file that are damaged or not what they should be.
    InvalidFile => "invalid_file",
    /// An argument that is out of range, or arguments that contradict each other.
    InvalidInput => "invalid_value",
    InvalidPointer => "invalid_pointer",
    /// An argument of the wrong type or length, or NA.
    InvalidType => "invalid_type",
    Io => "io",
    LayoutMismatch => "layout_mismatch",
    LibraryMissing => "library_missing",
    /// The file is not an array file of NumPy, or is damaged.
    NpyInvalid => "npy_invalid",
    PluginInvalid => "plugin_invalid",
    PluginNotFound => "plugin_not_found",
    /// The plugin threw a C++ exception earlier, and is not called any more.
    PluginPoisoned => "plugin_poisoned",
    ProgramVersion => "program_version",
    /// The file is not a safetensors file, or is damaged.
    SafetensorsInvalid => "safetensors_invalid",
    /// Serialized data are damaged, or are not an executable.
    SerializedInvalid => "serialized_invalid",
    /// An executable that was serialized for another plugin, processor or kind of device, or in another format.
    SerializedMismatch => "serialized_mismatch",
    ShapeMismatch => "shape_mismatch",
    UnsupportedCall => "unsupported_call",
    UnsupportedDtype => "unsupported_dtype",
    /// A program has an operation, attribute or type that is not known here.
    UnsupportedProgram => "unsupported_program",
}

/// PJRT's error codes by number, as lower-case words. A code beyond the list is "unknown".
const CODES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

// Some of PJRT's codes, `PJRT_Error_Code_` and these names.
pub const UNKNOWN: u32 = 2;
pub const INVALID_ARGUMENT: u32 = 3;
pub const DEADLINE_EXCEEDED: u32 = 4;
pub const NOT_FOUND: u32 = 5;
/// The device or the host is out of memory.
pub const RESOURCE_EXHAUSTED: u32 = 8;
pub const FAILED_PRECONDITION: u32 = 9;
/// The plugin has the call but does not implement it.
pub const UNIMPLEMENTED: u32 = 12;

/// A failure: its kind, a message, hints, and the PJRT call and the platform if they are known.
///
/// ```
/// use pjrt_base::error::{Error, Kind};
/// let error = Error::new(Kind::InvalidInput, "`x` must not be negative: got -1.").hint("Take its absolute value.");
/// assert_eq!((error.kind(), error.kind().class()), (Kind::InvalidInput, "invalid_value"));
/// assert_eq!(error.message(), "`x` must not be negative: got -1.");
/// ```
#[must_use]
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: Kind,
    message: String,
    hints: Vec<Hint>,
    call_name: Option<&'static str>,
    platform: Option<String>,
}

impl Error {
    /// An error of `kind`. The message says what was wrong and what was expected.
    #[cold]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), hints: Vec::new(), call_name: None, platform: None }))
    }

    /// Adds a line that says what to do, or what else is known: text, or a reason that the layer above words.
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// The same error with another message.
    pub fn reworded(mut self, message: String) -> Self {
        self.0.message = message;
        self
    }

    /// Prefixes the message with the place that it is about.
    pub fn within(mut self, place: &str) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// Prefixes the message with the file that it is about.
    pub fn about(self, file: &std::path::Path) -> Self {
        self.within(&format!("'{}'", file.display()))
    }

    /// Adds the name of the PJRT call that failed.
    pub fn in_call(mut self, name: &'static str) -> Self {
        self.0.call_name = Some(name);
        self
    }

    /// Adds the platform on which it failed.
    pub fn on_platform(mut self, platform: impl Into<String>) -> Self {
        self.0.platform = Some(platform.into());
        self
    }

    /// Says in the message which feature the plugin lacks, as in "Cost analysis is"; other errors keep their message.
    #[cold]
    pub fn unsupported(mut self, platform: &str, what: &str) -> Self {
        if self.code() == Some(UNIMPLEMENTED) {
            self.0.message = format!("{what} not supported by this plugin ({platform}): {}", self.0.message);
        }
        self.on_platform(platform)
    }

    /// Whether the plugin lacks the call, or has it without an implementation.
    pub fn is_unsupported(&self) -> bool {
        self.kind() == Kind::UnsupportedCall || self.code() == Some(UNIMPLEMENTED)
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message alone, without hints and context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it, in order.
    pub fn hints(&self) -> &[Hint] {
        &self.0.hints
    }

    /// The PJRT call that failed, if one was made.
    pub fn call_name(&self) -> Option<&'static str> {
        self.0.call_name
    }

    pub fn platform(&self) -> Option<&str> {
        self.0.platform.as_deref()
    }

    /// The plugin's error code, if the failure is the plugin's.
    pub fn code(&self) -> Option<u32> {
        match self.0.kind {
            Kind::Pjrt(code) => Some(code),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for hint in &self.0.hints {
            write!(f, "\n{hint}")?;
        }
        if let Some(name) = self.0.call_name {
            write!(f, "\nin {name}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// For code that meets the system's errors, too; `downcast` takes ours out again.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::other(error)
    }
}

/// Returns an error of a kind with a message, as `format!` takes it.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($message:tt)*) => {
        return Err($crate::error::Error::new($crate::error::Kind::$kind, format!($($message)*)).into())
    };
}

/// Returns an error unless something holds: one of a kind with a message, as in `bail!`, or any.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $kind:ident, $($message:tt)*) => {
        if !$holds {
            $crate::bail!($kind, $($message)*);
        }
    };
    ($holds:expr, $error:expr) => {
        if !$holds {
            return Err($error.into());
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_call_raises_a_plain_error() {
        let error = Error::new(Kind::Pjrt(UNIMPLEMENTED), "Not here.").in_call("PJRT_Call");
        let plain = error.unsupported("cpu", "Cost analysis is");
        assert_eq!(plain.message(), "Cost analysis is not supported by this plugin (cpu): Not here.");
        assert_eq!((plain.code(), plain.call_name()), (Some(UNIMPLEMENTED), Some("PJRT_Call")));
        let other = Error::new(Kind::Forked, "Forked.").unsupported("cpu", "Cost analysis is");
        assert_eq!((other.message(), other.platform()), ("Forked.", Some("cpu")));
    }
}
