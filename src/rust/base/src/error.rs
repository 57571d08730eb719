//! The one error type of this crate: what went wrong, in which PJRT call, on which platform, and what to do about it.

use crate::reason::Hint;
use std::fmt;

/// Result of anything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`]. `Pjrt` carries a plugin's own code; this project detects all other kinds itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The plugin's own error, with its code (`PJRT_Error_Code`, the codes of abseil's `Status`).
    Pjrt(u32),
    ArgumentCount,
    Checksum,
    ClientClosed,
    /// The compiler's process ended while it compiled.
    CompilerCrashed,
    DeletedBuffer,
    DeviceMismatch,
    Download,
    DriverMissing,
    DriverTooOld,
    DtypeMismatch,
    /// A program has arguments or results without a fixed shape.
    DynamicShape,
    /// A file that was mapped into memory has changed.
    FileChanged,
    Forked,
    Internal,
    Interrupted,
    /// Bytes or a file that are damaged or not what they should be.
    InvalidFile,
    /// An argument that is out of range, or arguments that contradict each other.
    InvalidInput,
    InvalidPointer,
    /// An argument of the wrong type or length, or NA.
    InvalidType,
    Io,
    LayoutMismatch,
    LibraryMissing,
    /// The file is not an array file of NumPy, or is damaged.
    NpyInvalid,
    PluginInvalid,
    PluginNotFound,
    /// The plugin threw a C++ exception earlier, and is not called any more.
    PluginPoisoned,
    ProgramVersion,
    /// The file is not a safetensors file, or is damaged.
    SafetensorsInvalid,
    /// Serialized data are damaged, or are not an executable.
    SerializedInvalid,
    /// An executable that was serialized for another plugin, processor or kind of device, or in another format.
    SerializedMismatch,
    ShapeMismatch,
    UnsupportedCall,
    UnsupportedDtype,
    /// A program has an operation, attribute or type that is not known here.
    UnsupportedProgram,
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

/// `PJRT_Error_Code_UNKNOWN`: the plugin does not know more.
pub const UNKNOWN: u32 = 2;

/// `PJRT_Error_Code_INVALID_ARGUMENT`: the plugin refuses an argument.
pub const INVALID_ARGUMENT: u32 = 3;

/// `PJRT_Error_Code_DEADLINE_EXCEEDED`: something takes longer than it may.
pub const DEADLINE_EXCEEDED: u32 = 4;

/// `PJRT_Error_Code_NOT_FOUND`: the plugin does not know a name.
pub const NOT_FOUND: u32 = 5;

/// `PJRT_Error_Code_RESOURCE_EXHAUSTED`: the device or the host is out of memory.
pub const RESOURCE_EXHAUSTED: u32 = 8;

/// `PJRT_Error_Code_FAILED_PRECONDITION`: a precondition of the call is not met.
pub const FAILED_PRECONDITION: u32 = 9;

/// `PJRT_Error_Code_UNIMPLEMENTED`: the plugin has the call but does not implement it.
pub const UNIMPLEMENTED: u32 = 12;

impl Kind {
    /// The kind as a word, which ends the class of the condition in R: `pjrt_error_<class>`.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Pjrt(code) => CODES.get(code as usize).copied().unwrap_or("unknown"),
            Kind::ArgumentCount => "argument_count",
            Kind::Checksum => "checksum",
            Kind::ClientClosed => "client_closed",
            Kind::CompilerCrashed => "compiler_crashed",
            Kind::DeletedBuffer => "deleted_buffer",
            Kind::DeviceMismatch => "device_mismatch",
            Kind::Download => "download",
            Kind::DriverMissing => "driver_missing",
            Kind::DriverTooOld => "driver_too_old",
            Kind::DtypeMismatch => "dtype_mismatch",
            Kind::DynamicShape => "dynamic_shape",
            Kind::FileChanged => "file_changed",
            Kind::Forked => "forked",
            Kind::Internal => "internal",
            Kind::Interrupted => "interrupted",
            Kind::InvalidFile => "invalid_file",
            Kind::InvalidInput => "invalid_value",
            Kind::InvalidPointer => "invalid_pointer",
            Kind::InvalidType => "invalid_type",
            Kind::Io => "io",
            Kind::LayoutMismatch => "layout_mismatch",
            Kind::LibraryMissing => "library_missing",
            Kind::NpyInvalid => "npy_invalid",
            Kind::PluginInvalid => "plugin_invalid",
            Kind::PluginNotFound => "plugin_not_found",
            Kind::PluginPoisoned => "plugin_poisoned",
            Kind::ProgramVersion => "program_version",
            Kind::SafetensorsInvalid => "safetensors_invalid",
            Kind::SerializedInvalid => "serialized_invalid",
            Kind::SerializedMismatch => "serialized_mismatch",
            Kind::ShapeMismatch => "shape_mismatch",
            Kind::UnsupportedCall => "unsupported_call",
            Kind::UnsupportedDtype => "unsupported_dtype",
            Kind::UnsupportedProgram => "unsupported_program",
        }
    }
}

/// A failure: its kind, a message, hints, and the PJRT call and the platform if they are known.
///
/// ```
/// use pjrt_base::error::{Error, Kind};
/// let error = Error::new(Kind::InvalidInput, "`x` must not be negative: got -1.").hint("Take its absolute value.");
/// assert_eq!((error.kind(), error.kind().class()), (Kind::InvalidInput, "invalid_value"));
/// assert_eq!(error.message(), "`x` must not be negative: got -1.");
/// ```
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
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// The same error with another message.
    #[must_use]
    pub fn reworded(mut self, message: String) -> Self {
        self.0.message = message;
        self
    }

    /// Prefixes the message with the place that it is about.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// Prefixes the message with the file that it is about.
    #[must_use]
    pub fn about(self, file: &std::path::Path) -> Self {
        self.within(&format!("'{}'", file.display()))
    }

    /// Adds the name of the PJRT call that failed.
    #[must_use]
    pub fn in_call(mut self, name: &'static str) -> Self {
        self.0.call_name = Some(name);
        self
    }

    /// Adds the platform on which it failed.
    #[must_use]
    pub fn on_platform(mut self, platform: impl Into<String>) -> Self {
        self.0.platform = Some(platform.into());
        self
    }

    /// Says in the message which feature the plugin lacks, as in "Cost analysis is"; other errors keep their message.
    #[cold]
    #[must_use]
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

/// Returns an error of a kind with a message, as `format!` takes it.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($message:tt)*) => {
        return Err($crate::error::Error::new($crate::error::Kind::$kind, format!($($message)*)).into())
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
