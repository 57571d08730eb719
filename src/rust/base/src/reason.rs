//! What a user can do about an error. The crates below the bridge do not know which functions a user calls: they name a
//! [`Reason`], and the layer that shows the error words it. Hints that name no function are text already.

use std::fmt;

/// Why an operation failed, where the remedy is a function of the layer above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The user deleted the buffer.
    BufferDeleted,
    /// An execution took over the buffer's memory.
    BufferDonated,
    /// The buffer is on another device than the execution.
    BufferElsewhere,
    /// The layout of the buffer in device memory is not the one that the program expects.
    BufferLayout,
    /// The client of this platform is closed.
    ClientClosed { platform: String },
    /// Complex values were given for a dtype that cannot hold them.
    ComplexValues,
    /// Values of this type do not convert to the dtype; those of the types `to` do.
    ConversionNeeded { to: &'static [&'static str] },
    /// A program needs `count` devices, more than the client has; a CPU client can have more.
    DevicesMissing { count: usize },
    /// The process is a fork of one that used a client.
    Forked,
    /// An execution needs a device, because no input names one.
    DeviceUnnamed,
    /// The disk is full.
    DiskFull,
    /// The NVIDIA driver is installed, but its library is not in the loader's path.
    DriverHidden,
    /// The driver runs plugin `name`, which was built for an older CUDA.
    DriverRunsOlder { name: String },
    /// A program donates argument `index`, counted from 1, but its buffer is used elsewhere, too.
    DonationShared { index: usize },
    /// The executable runs on one fixed device.
    ExecutableFixed,
    /// The executable runs on several devices.
    ExecutableSharded,
    /// The inputs must be one list for each device.
    InputsPerDevice,
    /// The plugin needs a library that is not in the loader's path.
    LibraryMissing,
    /// CUDA libraries are not in the loader's path.
    LibrariesElsewhere,
    /// The plugins `names` come with all libraries that they need.
    LibrariesInPlugin { names: Vec<String> },
    /// A library of Intel's oneAPI is missing.
    LibraryOfOneApi,
    /// A library of AMD's ROCm is missing.
    LibraryOfRocm,
    /// A file is not a serialized executable.
    NotAnExecutable,
    /// The network does not work: plugin `name` can be installed from a file.
    OfflineFile { name: String },
    /// The network does not work: plugin `name` can be installed from a folder with these wheels, as pip names them.
    OfflineWheels { name: String, wheels: Vec<String> },
    /// Memory is exhausted.
    OutOfMemory,
    /// The plugin threw an exception, and its devices' contents are lost.
    PluginLost,
    /// Another file replaced the library of a plugin in use.
    PluginReplaced,
    /// The plugins `names` are for this platform, and the machine has no driver to choose one by.
    PluginUndecided { names: Vec<String> },
    /// Tensors need more memory than is free.
    TensorsTooLarge,
    /// The archive of plugin `name` at `url` has no known SHA-256.
    UnverifiedArchive { name: String, url: String },
}

impl Reason {
    /// The reason as a word.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::BufferDeleted => "buffer_deleted",
            Reason::BufferDonated => "buffer_donated",
            Reason::BufferElsewhere => "buffer_elsewhere",
            Reason::BufferLayout => "buffer_layout",
            Reason::ClientClosed { .. } => "client_closed",
            Reason::ComplexValues => "complex_values",
            Reason::ConversionNeeded { .. } => "conversion_needed",
            Reason::DevicesMissing { .. } => "devices_missing",
            Reason::Forked => "forked",
            Reason::DeviceUnnamed => "device_unnamed",
            Reason::DiskFull => "disk_full",
            Reason::DriverHidden => "driver_hidden",
            Reason::DriverRunsOlder { .. } => "driver_runs_older",
            Reason::DonationShared { .. } => "donation_shared",
            Reason::ExecutableFixed => "executable_fixed",
            Reason::ExecutableSharded => "executable_sharded",
            Reason::InputsPerDevice => "inputs_per_device",
            Reason::LibraryMissing => "library_missing",
            Reason::LibrariesElsewhere => "libraries_elsewhere",
            Reason::LibrariesInPlugin { .. } => "libraries_in_plugin",
            Reason::LibraryOfOneApi => "library_of_oneapi",
            Reason::LibraryOfRocm => "library_of_rocm",
            Reason::NotAnExecutable => "not_an_executable",
            Reason::OfflineFile { .. } => "offline_file",
            Reason::OfflineWheels { .. } => "offline_wheels",
            Reason::OutOfMemory => "out_of_memory",
            Reason::PluginLost => "plugin_lost",
            Reason::PluginReplaced => "plugin_replaced",
            Reason::PluginUndecided { .. } => "plugin_undecided",
            Reason::TensorsTooLarge => "tensors_too_large",
            Reason::UnverifiedArchive { .. } => "unverified_archive",
        }
    }

    /// The reason's data by field.
    pub fn fields(&self) -> Vec<(&'static str, Vec<String>)> {
        let one = |value: &str| vec![value.to_owned()];
        match self {
            Reason::ClientClosed { platform } => vec![("platform", one(platform))],
            Reason::ConversionNeeded { to } => vec![("to", to.iter().map(|&name| name.to_owned()).collect())],
            Reason::DevicesMissing { count } => vec![("count", one(&count.to_string()))],
            Reason::DonationShared { index } => vec![("index", one(&index.to_string()))],
            Reason::DriverRunsOlder { name } | Reason::OfflineFile { name } => vec![("name", one(name))],
            Reason::LibrariesInPlugin { names } | Reason::PluginUndecided { names } => vec![("names", names.clone())],
            Reason::OfflineWheels { name, wheels } => vec![("name", one(name)), ("wheels", wheels.clone())],
            Reason::UnverifiedArchive { name, url } => vec![("name", one(name)), ("url", one(url))],
            _ => Vec::new(),
        }
    }
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
