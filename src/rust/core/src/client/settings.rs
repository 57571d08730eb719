//! Compiler settings from environment variables.

use crate::runtime::plugin::Plugin;
use pjrt_base::threads;
use pjrt_plugins::cuda;
use std::env;
use std::fs;

/// The compiler settings from environment variables when the client was created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub words: Vec<String>,
    /// The number of threads for which it compiles CPU programs.
    pub threads: u64,
    /// The CUDA toolkit to pass to it, if it would not find one itself.
    pub toolkit: Option<String>,
}

/// Variables with flags for compilers.
const VARIABLES: [&str; 3] = ["XLA_FLAGS", "LIBTPU_INIT_ARGS", "NEURON_CC_FLAGS"];

impl Settings {
    /// The settings of this plugin's compiler now; its flags are those at the creation of its first client.
    pub fn read(plugin: &Plugin) -> Settings {
        let words = plugin.flags.get_or_init(|| {
            let value = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
            VARIABLES.iter().filter_map(|name| Some(flags(name, &value(name)?))).flatten().collect()
        });
        let count = threads::given();
        let threads = count.unwrap_or_else(|| std::thread::available_parallelism().map_or(0, usize::from)) as u64;
        let toolkit = cuda::tools::data_dir(&plugin.for_cuda()).map(|folder| folder.to_string_lossy().into_owned());
        Settings { words: words.clone(), threads, toolkit }
    }

    /// Whether a variable sets the flag of this name.
    pub fn mentions(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word.contains(flag))
    }
}

/// The words of a variable, each with the variable's name. A first word that is not a flag names a file with flags.
fn flags(name: &str, value: &str) -> Vec<String> {
    let value = value.trim();
    let is_file = !value.is_empty() && !value.starts_with('-');
    let text = if is_file { fs::read_to_string(value).unwrap_or_else(|_| value.into()) } else { value.into() };
    text.split_whitespace().map(|word| format!("{name} {word}")).collect()
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
        let settings = Settings { words: flags("XLA_FLAGS", "--xla_a=1 --xla_b"), ..Default::default() };
        assert!(settings.mentions("xla_a") && settings.mentions("xla_b"));
        assert!(!settings.mentions("xla_c") && !Settings::default().mentions("xla_a"));
    }
}
