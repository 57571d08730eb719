//! Keys of the cache: SHA-256 of all that the compiled program depends on.

use crate::client::device::Device;
use crate::client::target::Target;
use crate::client::Client;
use crate::executable::options::CompileOptions;
use pjrt_base::digest::{self, Digest};
use pjrt_program::program::Program;
use prost::Message;

/// The name of a compiled program in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(Digest);

/// What a key is made of besides the program's code.
#[derive(Clone, PartialEq, Message)]
struct Parts {
    /// Versions of this crate may tell compilers different things.
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, required, tag = "2")]
    target: Target,
    /// With the devices, and without what the program's code decides.
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
}

impl Key {
    /// The key of a program that is compiled in this environment for these devices.
    pub(crate) fn new(target: Target, devices: &[Device], program: &Program, options: &CompileOptions) -> Option<Key> {
        let client = devices.first()?.client();
        // All devices of a CPU are one; elsewhere the compiler may count what is there.
        let is_cpu = client.shares_host_memory();
        let parts = Parts {
            version: env!("CARGO_PKG_VERSION").into(),
            target,
            options: options.serialize(devices, false),
            use_shardy_partitioner: options.use_shardy_partitioner,
            format: program.format().name().into(),
            settings: client.settings().words.clone(),
            threads: if is_cpu { client.settings().threads } else { 0 },
            all_devices: if is_cpu { 0 } else { client.all_devices().count() as u64 },
        };
        Some(digest::of(&[&parts.encode_length_delimited_to_vec(), program.code()]).into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Digest> for Key {
    fn from(digest: Digest) -> Key {
        Key(digest)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&digest::hex(&self.0))
    }
}

/// What makes a compiler write down what it does: nobody wants that left out because the program is known.
const DUMPS: &str = "xla_dump_";

/// Whether the compiler is to write down what it does.
pub(crate) fn is_dumped(client: &Client, options: &CompileOptions) -> bool {
    let mut words = client.settings().words.iter();
    words.any(|word| word.contains(DUMPS)) || options.debug_options.keys().any(|name| name.starts_with(DUMPS))
}
