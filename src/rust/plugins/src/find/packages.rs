//! Plugins in a folder of Python packages: those that entry points name, those in plugin namespaces, and packages known
//! to contain one. Does not run Python.

use super::machine::{list, name, numbers, read};
use super::names;
use super::{Claim, PluginSearch};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

/// The groups of entry points that name plugins; the namespaces have the same names.
const GROUPS: [&str; 2] = ["jax_plugins", "xla_plugins"];
/// Packages with a plugin but no entry point.
const KNOWN: [(&str, &str); 2] = [("libtpu", "libtpu.so"), ("libneuronxla", "libneuronpjrt.so")];
/// The most folders that a folder's `.pth` files can add.
const MOST_ADDED: usize = 100;
/// The most libraries to open in one package.
const MOST_LIBRARIES: usize = 100;

/// An installed package, described by its metadata folder.
struct Distribution {
    folder: PathBuf,
    name: String,
    version: String,
}

/// A name and its module.
struct EntryPoint<'a> {
    name: String,
    module: String,
    distribution: Option<&'a Distribution>,
}

/// Searches the packages in a place.
pub(super) fn search(place: &Claim, search: &mut PluginSearch) {
    let site = place.folder.as_path();
    let mut folders = vec![site.to_path_buf()];
    folders.extend(added(site));
    let distributions: Vec<_> = folders.iter().flat_map(|folder| distributions(folder)).collect();
    for entry in entries(&folders, &distributions) {
        offer_entry(&entry, &folders, place, search);
    }
    for (package, library) in KNOWN {
        let owner = owner(package, &distributions);
        let claim = claim(names::of_entry_point(package), package, owner, place);
        folders.iter().any(|folder| search.offer(&folder.join(package).join(library), &claim));
    }
}

/// Adds the first plugin in the entry's module, or else in its package.
fn offer_entry(entry: &EntryPoint<'_>, folders: &[PathBuf], place: &Claim, search: &mut PluginSearch) {
    let claim = claim(names::of_entry_point(&entry.name), &entry.module, entry.distribution, place);
    let modules = folders.iter().filter_map(|folder| module_folder(folder, &entry.module));
    let mut libraries: Vec<PathBuf> = modules.flat_map(|folder| libraries(&folder)).collect();
    libraries.extend(entry.distribution.map(recorded).unwrap_or_default());
    let found = libraries.iter().take(MOST_LIBRARIES).any(|library| search.offer(library, &claim));
    if !found && entry.distribution.is_some() && libraries.is_empty() {
        search.skip(&place.folder.join(entry.module.replace('.', "/")), "no library was found", Some(&claim));
    }
}

fn claim(platform: String, module: &str, distribution: Option<&Distribution>, place: &Claim) -> Claim {
    let package = distribution.map_or(module, |distribution| &distribution.name);
    Claim {
        platform: Some(platform),
        source: format!("Python package {package}"),
        folder: place.folder.clone(),
        version: distribution.map(|distribution| distribution.version.clone()),
        named: place.named,
    }
}

/// The plugins that packages declare; plugins of one kind are sorted from newest to oldest.
fn entries<'a>(folders: &[PathBuf], distributions: &'a [Distribution]) -> Vec<EntryPoint<'a>> {
    let mut entries = Vec::new();
    for distribution in distributions {
        let text = read(&distribution.folder.join("entry_points.txt")).unwrap_or_default();
        for (name, module) in entry_points(&text) {
            entries.push(EntryPoint { name, module, distribution: Some(distribution) });
        }
    }
    for group in GROUPS {
        for folder in folders.iter().flat_map(|folder| list(&folder.join(group))).filter(|path| path.is_dir()) {
            let module = format!("{group}.{}", name(&folder));
            if !entries.iter().any(|entry| entry.module == module) {
                let distribution = owner(name(&folder), distributions);
                entries.push(EntryPoint { name: name(&folder).to_string(), module, distribution });
            }
        }
    }
    entries.sort_by_cached_key(|entry| {
        let version = entry.distribution.map(|distribution| numbers(&distribution.version));
        Reverse((numbers(&entry.name), version))
    });
    entries
}

/// Names and modules of plugin entry points in a file in Python's INI format.
fn entry_points(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = GROUPS.contains(&section.trim());
        } else if let Some((name, object)) = line.split_once('=').filter(|_| inside) {
            // "module:function [extra]"
            let module = object.split([':', '[']).next().unwrap_or_default().trim();
            if is_module(module) {
                found.push((name.trim().to_string(), module.to_string()));
            }
        }
    }
    found
}

/// Whether this is a module name that cannot lead out of the folder.
fn is_module(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

/// The folder of a module, or of the package that contains it if it is a single file.
fn module_folder(site: &Path, module: &str) -> Option<PathBuf> {
    let path = site.join(module.replace('.', "/"));
    if path.is_dir() {
        return Some(path);
    }
    path.parent().filter(|parent| *parent != site && path.with_extension("py").is_file()).map(Path::to_path_buf)
}

/// The libraries in a folder, then those in its subfolders.
pub(super) fn libraries(folder: &Path) -> Vec<PathBuf> {
    let entries = list(folder);
    let inner = entries.iter().filter(|path| path.is_dir()).flat_map(|path| list(path));
    entries.iter().cloned().chain(inner).filter(|path| names::is_library(path)).collect()
}

/// The libraries in a package's file list.
fn recorded(distribution: &Distribution) -> Vec<PathBuf> {
    let Some(site) = distribution.folder.parent() else { return Vec::new() };
    let record = read(&distribution.folder.join("RECORD")).unwrap_or_default();
    let files = record.lines().filter_map(|line| line.split(',').next()).map(Path::new);
    let inside = |path: &&Path| {
        let mut parts = path.components();
        names::is_library(path) && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
    };
    files.filter(inside).map(|path| site.join(path)).collect()
}

/// The packages installed in a folder.
fn distributions(site: &Path) -> Vec<Distribution> {
    let describe = |folder: PathBuf| {
        let name = name(&folder).strip_suffix(".dist-info").or_else(|| name(&folder).strip_suffix(".egg-info"))?;
        let mut parts = name.split('-');
        let project = parts.next()?.replace('_', "-").to_lowercase();
        let version = parts.next().unwrap_or_default().to_string();
        Some(Distribution { name: project, version, folder })
    };
    list(site).into_iter().filter_map(describe).collect()
}

/// The package that a module's folder belongs to, determined by name.
fn owner<'a>(module: &str, distributions: &'a [Distribution]) -> Option<&'a Distribution> {
    let module = module.replace('_', "-").to_lowercase();
    let variant = format!("{module}-");
    let named = |wanted: &dyn Fn(&str) -> bool| distributions.iter().find(|distribution| wanted(&distribution.name));
    named(&|name| name == module).or_else(|| named(&|name| name.starts_with(&variant)))
}

/// The folders that `.pth` files add, as in editable installs. Code in these files is not run.
fn added(site: &Path) -> Vec<PathBuf> {
    let files = list(site).into_iter().filter(|path| path.extension().is_some_and(|end| end == "pth"));
    let texts = files.filter_map(|path| read(&path));
    let mut folders = Vec::new();
    for text in texts {
        let lines = text.lines().map(str::trim);
        let paths = lines.filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("import"));
        folders.extend(paths.map(|line| site.join(line)).filter(|path| path.is_dir()));
    }
    folders.truncate(MOST_ADDED);
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_of_plugins_are_read_and_no_others() {
        let text = "[console_scripts]\nrun = a.b:main\n\n# none\n[ jax_plugins ]\nxla_cuda13 = jax_plugins.xla_cuda13\n\
                    mine=my.module:start [extra]\nbad = ../../etc\nworse = \nno\n[xla_plugins]\nx = y\n[other]\nz = z\n";
        let pairs = [("xla_cuda13", "jax_plugins.xla_cuda13"), ("mine", "my.module"), ("x", "y")];
        assert_eq!(entry_points(text), pairs.map(|(name, module)| (name.to_string(), module.to_string())));
    }
}
