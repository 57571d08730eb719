//! What a user can do about an error. The crates below the bridge do not know which functions a user calls: they name a
//! [`Reason`], and the layer that shows the error words it. Hints that name no function are text already.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident: $type:ty),* })? => $word:literal,)*) => {
        /// Why an operation failed, where the remedy is a function of the layer above.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $name $({ $($field: $type),* })?,)*
        }

        impl Reason {
            /// The reason as a word.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Reason::$name $({ $($field: _),* })? => $word,)*
                }
            }

            /// The reason's data by field.
            pub fn fields(&self) -> Vec<(&'static str, Vec<String>)> {
                match self {
                    $(Reason::$name $({ $($field),* })? => vec![$($((stringify!($field), $field.texts())),*)?],)*
                }
            }
        }
    };
}

reasons! {
    /// An Arrow array has no numbers; Arrow can convert it.
    ArrowConversion => "arrow_conversion",
    /// An Arrow array has missing values that its type cannot hold.
    ArrowNulls => "arrow_nulls",
    /// The user deleted the buffer.
    BufferDeleted => "buffer_deleted",
    /// An execution took over the buffer's memory.
    BufferDonated => "buffer_donated",
    /// The buffer is on another device than the execution.
    BufferElsewhere => "buffer_elsewhere",
    /// The layout of the buffer in device memory is not the one that the program expects.
    BufferLayout => "buffer_layout",
    /// A function of the host that the program calls failed; the host knows its own error by this number.
    CallbackFailed { number: usize } => "callback_failed",
    /// The client of this platform is closed.
    ClientClosed { platform: String } => "client_closed",
    /// The compiler refuses a program, at a place in its text if that is known. `detail` is all that it said.
    CompileFailed { line: Option<usize>, column: Option<usize>, source: Option<String>, detail: String } => "compile_failed",
    /// The compiler's process cannot start.
    CompileInside => "compile_inside",
    /// The compiler's process crashed.
    CompilerCrashed => "compiler_crashed",
    /// Complex values were given for a dtype that cannot hold them.
    ComplexValues => "complex_values",
    /// An operator cannot compute this on a device.
    ComputeInR => "compute_in_r",
    /// Values of this type do not convert to the dtype; values of the types `to` do.
    ConversionNeeded { to: &'static [&'static str] } => "conversion_needed",
    /// No handler is registered for the custom call `target` on this platform, but perhaps on `others`. `related` are the
    /// targets of this platform's handlers for the same purpose.
    CustomCallMissing { target: String, platform: String, others: Vec<String>, related: Vec<String> } => "custom_call_missing",
    /// The custom call `target` cannot have a handler as it is.
    CustomCallRefused { target: String } => "custom_call_refused",
    /// A program needs `count` devices, more than the client has; a CPU client can have more.
    DevicesMissing { count: usize } => "devices_missing",
    /// The process is a fork of one that used a client.
    Forked => "forked",
    /// An execution needs a device, because no input names one.
    DeviceUnnamed => "device_unnamed",
    /// The disk is full.
    DiskFull => "disk_full",
    /// The NVIDIA driver is installed, but its library is not in the loader's path.
    DriverHidden => "driver_hidden",
    /// The driver runs plugin `name`, which was built for an older CUDA.
    DriverRunsOlder { name: String } => "driver_runs_older",
    /// A program donates argument `index`, counted from 1, but its buffer is used elsewhere, too.
    DonationShared { index: usize } => "donation_shared",
    /// The executable runs on one fixed device.
    ExecutableFixed => "executable_fixed",
    /// The executable runs on several devices.
    ExecutableSharded => "executable_sharded",
    /// The executable is not loaded: it was compiled for devices that the process need not have.
    ExecutableUnloaded => "executable_unloaded",
    /// An object came from another session by R's own serialization.
    HandleLost => "handle_lost",
    /// The inputs must be one list for each device.
    InputsPerDevice => "inputs_per_device",
    /// The plugin needs a library that is not in the loader's path.
    LibraryMissing => "library_missing",
    /// CUDA libraries are not in the loader's path.
    LibrariesElsewhere => "libraries_elsewhere",
    /// The plugins `names` come with all libraries that they need.
    LibrariesInPlugin { names: Vec<String> } => "libraries_in_plugin",
    /// A library of Intel's oneAPI is missing.
    LibraryOfOneApi => "library_of_oneapi",
    /// A library of AMD's ROCm is missing.
    LibraryOfRocm => "library_of_rocm",
    /// A file is not a `.npy` file, and the type of its numbers was not given.
    MapNeedsType => "map_needs_type",
    /// The arrays of a file of NumPy cannot be used in place.
    MapRefused => "map_refused",
    /// A file is not a serialized executable.
    NotAnExecutable => "not_an_executable",
    /// A file of NumPy does not say what its elements of `bytes` bytes are.
    NpyTypeMissing { bytes: usize } => "npy_type_missing",
    /// The network does not work: plugin `name` can be installed from a file.
    OfflineFile { name: String } => "offline_file",
    /// The network does not work: plugin `name` can be installed from a folder with these wheels, as pip names them.
    OfflineWheels { name: String, wheels: Vec<String> } => "offline_wheels",
    /// Memory is exhausted.
    OutOfMemory => "out_of_memory",
    /// The plugin threw an exception, and its devices' contents are lost.
    PluginLost => "plugin_lost",
    /// Another file replaced the library of a plugin in use.
    PluginReplaced => "plugin_replaced",
    /// The plugins `names` are for this platform, and the machine has no driver to choose one by.
    PluginUndecided { names: Vec<String> } => "plugin_undecided",
    /// The program is part of an exported function, whose description is needed to compile it.
    ProgramExported => "program_exported",
    /// The content is a program itself, not an exported function.
    ProgramNotExported => "program_not_exported",
    /// A program is given as an archive or compressed.
    ProgramPacked => "program_packed",
    /// Arrays are given as a program.
    ProgramOfArrays => "program_of_arrays",
    /// HLO text is given as a program.
    ProgramOfHlo => "program_of_hlo",
    /// A serialized HLO module is given as MLIR.
    ProgramOfModule => "program_of_module",
    /// Code or data of Python are given as a program.
    ProgramOfPython => "program_of_python",
    /// A model of TensorFlow is given as a program.
    ProgramOfTensorflow => "program_of_tensorflow",
    /// Arguments or results of a program have no fixed shape.
    ShapeDynamic => "shape_dynamic",
    /// Tensors need more memory than is free.
    TensorsTooLarge => "tensors_too_large",
    /// The archive of plugin `name` at `url` has no known SHA-256.
    UnverifiedArchive { name: String, url: String } => "unverified_archive",
}

/// Data of a reason, as text.
trait Field {
    fn texts(&self) -> Vec<String>;
}

macro_rules! fields {
    ($($type:ty, $field:ident => $texts:expr;)*) => {$(
        impl Field for $type {
            fn texts(&self) -> Vec<String> {
                let $field = self;
                $texts
            }
        }
    )*};
}

fields! {
    String, text => vec![text.clone()];
    usize, number => vec![number.to_string()];
    Option<String>, text => text.iter().cloned().collect();
    Option<usize>, number => number.iter().map(usize::to_string).collect();
    Vec<String>, texts => texts.clone();
    &[&str], texts => texts.iter().map(|&text| text.to_owned()).collect();
}

/// One line of advice with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Text(String),
    Reason(Reason),
}

impl Hint {
    /// Whether the hint is text that contains `part`.
    pub fn contains(&self, part: &str) -> bool {
        matches!(self, Hint::Text(text) if text.contains(part))
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Hint::Text(text.to_owned())
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Hint::Text(text)
    }
}

impl From<Reason> for Hint {
    fn from(reason: Reason) -> Self {
        Hint::Reason(reason)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::Text(text) => f.write_str(text),
            Hint::Reason(reason) => write!(f, "{reason:?}"),
        }
    }
}
