//! Keys of the cache: SHA-256 of all that the compiled program depends on.

use crate::client::Client;
use crate::device::Device;
use crate::environment::Environment;
use crate::options::CompileOptions;
use crate::plugin::Plugin;
use pjrt_base::digest::{self, Digest};
use pjrt_program::program::Program;
use prost::Message;
use std::env;
use std::fs;

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
    environment: Environment,
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
    pub(crate) fn new(
        environment: Environment,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
    ) -> Option<Key> {
        let client = devices.first()?.client();
        // All devices of a CPU are one; elsewhere the compiler may count what is there.
        let is_cpu = client.shares_host_memory();
        let parts = Parts {
            version: env!("CARGO_PKG_VERSION").into(),
            environment,
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

/// What a compiler was told by the environment's variables when its client was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub words: Vec<String>,
    /// How many threads it makes programs for on a CPU.
    pub threads: u64,
}

/// Variables with flags for compilers.
const VARIABLES: [&str; 3] = ["XLA_FLAGS", "LIBTPU_INIT_ARGS", "NEURON_CC_FLAGS"];

/// What makes a compiler write down what it does: nobody wants that left out because the program is known.
const DUMPS: &str = "xla_dump_";

impl Settings {
    /// What the compiler of this plugin is told now; its flags are those of the time of its first client.
    pub fn read(plugin: &Plugin) -> Settings {
        let words = plugin.flags.get_or_init(|| {
            let value = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
            VARIABLES.iter().filter_map(|name| Some(flags(name, &value(name)?))).flatten().collect()
        });
        let count = env::var("NPROC").ok().and_then(|count| count.trim().parse().ok());
        let threads = count.unwrap_or_else(|| std::thread::available_parallelism().map_or(0, |n| n.get() as u64));
        Settings { words: words.clone(), threads }
    }

    /// Whether a variable sets the flag of this name.
    pub fn mentions(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word.contains(flag))
    }
}

/// The words of a variable, each with the variable's name. One that does not begin with a flag names a file with them.
fn flags(name: &str, value: &str) -> Vec<String> {
    let value = value.trim();
    let is_file = !value.is_empty() && !value.starts_with('-');
    let text = if is_file { fs::read_to_string(value).unwrap_or_else(|_| value.into()) } else { value.into() };
    text.split_whitespace().map(|word| format!("{name} {word}")).collect()
}

/// Whether the compiler is to write down what it does.
pub(crate) fn is_dumped(client: &Client, options: &CompileOptions) -> bool {
    let mut words = client.settings().words.iter();
    words.any(|word| word.contains(DUMPS)) || options.debug_options.keys().any(|name| name.starts_with(DUMPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_words_from_a_variable_or_a_file() {
        assert_eq!(flags("F", "  --a=1\t--b "), ["F --a=1", "F --b"]);
        assert!(flags("F", " ").is_empty());
        let file = env::temp_dir().join(format!("pjrt-flags-{}", std::process::id()));
        fs::write(&file, "--c\n--d=2\n").unwrap();
        assert_eq!(flags("F", &file.to_string_lossy()), ["F --c", "F --d=2"]);
        fs::remove_file(&file).unwrap();
        assert_eq!(flags("F", "no/such/file"), ["F no/such/file"]);
    }

    #[test]
    fn a_flag_is_mentioned_by_its_name() {
        let settings = Settings { words: flags("XLA_FLAGS", "--xla_a=1 --xla_b"), threads: 1 };
        assert!(settings.mentions("xla_a") && settings.mentions("xla_b"));
        assert!(!settings.mentions("xla_c") && !Settings::default().mentions("xla_a"));
    }
}
