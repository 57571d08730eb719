//! Compiler settings from environment variables.

use crate::apart::Pool;
use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind, Result};
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

const XLA_FLAGS: &str = "XLA_FLAGS";

/// Variables with flags for compilers.
const VARIABLES: [&str; 3] = [XLA_FLAGS, "LIBTPU_INIT_ARGS", "NEURON_CC_FLAGS"];

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

    /// Has a helper find out whether XLA can read its flags: with a wrong one, XLA ends the process.
    ///
    /// # Errors
    /// `InvalidInput` with XLA's reason.
    pub fn check_flags(plugin: &Plugin, pool: &Pool) -> Result<()> {
        let is_set = env::var_os(XLA_FLAGS).is_some_and(|value| !value.to_string_lossy().trim().is_empty());
        // A client for GPUs reserves their memory. After the first client, XLA has read them.
        if !is_set || plugin.flags.get().is_some() || cuda::is_for_cuda(&plugin.for_cuda()) {
            return Ok(());
        }
        let Some(reason) = pool.rehearse().as_deref().and_then(objection) else { return Ok(()) };
        let message = format!("XLA refuses the environment variable {XLA_FLAGS}, for which it would end this process.");
        Err(Error::new(Kind::InvalidInput, message).hint(reason).hint("Correct the variable, or unset it."))
    }

    /// Whether a variable sets the flag of this name.
    pub fn mentions(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word.contains(flag))
    }
}

/// What XLA has against its flags, in its messages.
fn objection(written: &str) -> Option<String> {
    let (_, message) = written.split_once("parse_flags_from_env.cc:")?;
    let mut lines = message.lines();
    let (_, reason) = lines.next()?.split_once("] ")?;
    match lines.next().and_then(|line| line.strip_prefix("usage: ")) {
        Some(flags) => Some(format!("A flag has a wrong value: {flags}")),
        None => Some(reason.into()),
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
    fn what_xla_has_against_flags_is_found_in_its_messages() {
        let unknown = "WARNING: ...\nF0000 00:00:1.9   1 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --a\n";
        assert_eq!(objection(unknown).unwrap(), "Unknown flag in XLA_FLAGS: --a");
        let wrong =
            "F0000 1 parse_flags_from_env.cc:220] Check failed: Parse() Flag parsing failed.\nusage: --b=x\nFlags:\n";
        assert_eq!(objection(wrong).unwrap(), "A flag has a wrong value: --b=x");
        assert_eq!(objection("F0000 1 other.cc:1] Check failed"), None);
    }

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
