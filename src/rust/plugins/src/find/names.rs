//! The platform of a plugin, according to the name of its library or its entry point.

use super::machine::name;
use std::path::Path;

/// Prefixes before the platform's name.
const PREFIXES: [&str; 6] = ["pjrt_c_api_", "pjrt_plugin_", "pjrt_", "xla_", "jax_", "plugin_"];
/// Suffixes after it.
const SUFFIXES: [&str; 3] = ["_plugin", "_pjrt", "pjrt"];

/// The platform of an entry point. An unknown platform keeps its name.
pub(super) fn of_entry_point(name: &str) -> String {
    let lower = name.to_lowercase();
    known(bare(&lower.replace('-', "_"))).map_or_else(|| clean(&lower), str::to_string)
}

/// The platform of a library, from the name of its file or else of its folder. `needed` distinguishes AMD's GPUs from
/// NVIDIA's.
pub(super) fn of_library(path: &Path, needed: &[String]) -> String {
    let lower = name(path).to_lowercase();
    let stem = lower.split('.').next().unwrap_or_default().replace('-', "_");
    match bare(stem.strip_prefix("lib").unwrap_or(&stem)) {
        "" | "pjrt" | "plugin" => of_entry_point(path.parent().map(name).unwrap_or_default()),
        "gpu" if needed.iter().any(|library| library.contains("amdhip")) => "rocm".into(),
        bare => known(bare).map_or_else(|| clean(bare), str::to_string),
    }
}

/// Whether a file's name is typical of plugins. Only such files are opened in the system's folders.
pub(super) fn is_plugins(file: &str) -> bool {
    let lower = file.to_lowercase().replace('-', "_");
    let name = lower.strip_prefix("lib").unwrap_or(&lower);
    name.starts_with("pjrt") || ["libtpu.", "libneuronpjrt.", "xla_"].iter().any(|start| lower.starts_with(start))
}

/// Whether a file's name is typical of shared libraries.
pub(super) fn is_library(path: &Path) -> bool {
    let lower = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let end = lower.rsplit('.').next().unwrap_or_default();
    matches!(end, "so" | "dylib" | "dll" | "pyd") || lower.contains(".so.")
}

/// The name without its prefixes and suffixes.
fn bare(mut name: &str) -> &str {
    while let Some(rest) = PREFIXES.iter().find_map(|start| name.strip_prefix(start)) {
        name = rest;
    }
    while let Some(rest) = SUFFIXES.iter().find_map(|end| name.strip_suffix(end)) {
        name = rest;
    }
    name
}

fn known(name: &str) -> Option<&'static str> {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    Some(match kind {
        "cpu" => "cpu",
        "cuda" | "gpu" => "cuda",
        "rocm" => "rocm",
        "tpu" | "libtpu" => "tpu",
        "metal" => "metal",
        "intel" | "xpu" | "intel_extension_for_openxla" => "intel",
        "neuron" | "libneuron" | "libneuronxla" => "neuron",
        _ => return None,
    })
}

/// A name that is valid in variables and error messages.
fn clean(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let name: String = name.chars().take(60).map(plain).collect();
    if name.is_empty() {
        "unnamed".into()
    } else {
        name
    }
}
