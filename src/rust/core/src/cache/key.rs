//! Keys of the cache: SHA-256 of everything that the compiled program depends on.

use crate::client::device::Device;
use crate::client::flags::FLAGS;
use crate::client::target::Target;
use crate::client::Client;
use crate::executable::options::CompileOptions;
use pjrt_base::digest::{self, Digest};
use pjrt_program::program::Program;
use prost::Message;

/// The name of a compiled program in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(super) Digest);

/// The parts of a key besides the program's code.
#[derive(Clone, PartialEq, Message)]
struct Parts {
    /// Different versions of this crate may pass different options to compilers.
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, required, tag = "2")]
    target: Target,
    /// With the devices, and without options that the program's code decides.
    #[prost(bytes = "vec", tag = "3")]
    options: Vec<u8>,
    #[prost(bool, optional, tag = "4")]
    use_shardy_partitioner: Option<bool>,
    #[prost(string, tag = "5")]
    format: String,
    #[prost(string, repeated, tag = "6")]
    settings: Vec<String>,
    #[prost(uint64, tag = "7")]
    threads: u64,
    #[prost(uint64, tag = "8")]
    all_devices: u64,
    /// Names of inputs that are not in the code.
    #[prost(string, repeated, tag = "9")]
    names: Vec<String>,
    /// The process, if the program runs on devices of several processes.
    #[prost(int32, optional, tag = "10")]
    process: Option<i32>,
}

impl Key {
    /// The key of a program that is compiled in this environment for these devices.
    pub(crate) fn new(target: Target, devices: &[Device], program: &Program, options: &CompileOptions) -> Key {
        let client = devices[0].client();
        // All devices of a CPU are equal; elsewhere the compiler may count devices.
        let is_cpu = client.shares_host_memory();
        let parts = Parts {
            version: env!("CARGO_PKG_VERSION").into(),
            target,
            options: options.serialize_with(&FLAGS, devices, false),
            use_shardy_partitioner: options.use_shardy_partitioner,
            format: program.format().name().into(),
            settings: client.settings().words.clone(),
            threads: if is_cpu { client.settings().threads } else { 0 },
            all_devices: if is_cpu { 0 } else { client.all_devices().count() as u64 },
            names: program.given_names().unwrap_or_default().to_vec(),
            process: devices.iter().any(|device| !device.is_addressable()).then(|| client.process_index()),
        };
        Key(digest::of(&[&parts.encode_length_delimited_to_vec(), program.code()]))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&digest::hex(&self.0))
    }
}

/// Flags that make a compiler write files: these must appear even if the program is in the cache.
const DUMPS: &str = "xla_dump_";

/// Whether the compiler writes files.
pub(crate) fn is_dumped(client: &Client, options: &CompileOptions) -> bool {
    let mut words = client.settings().words.iter();
    words.any(|word| word.contains(DUMPS)) || options.debug_options.keys().any(|name| name.starts_with(DUMPS))
}
