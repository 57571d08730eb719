//! Finds a Python's package folders by reading files. Does not run Python.

use super::machine::{list, name, numbers, read, Machine};
use std::path::{Path, PathBuf};

/// The most links to follow from one interpreter to the next.
const MOST_LINKS: usize = 40;

/// The package folders of a virtual or conda environment, or of any other installation below `prefix`.
pub(super) fn environment(prefix: &Path) -> Vec<PathBuf> {
    let config = read(&prefix.join("pyvenv.cfg")).unwrap_or_default();
    let settings = || config.lines().filter_map(|line| line.split_once('='));
    let setting = |key| settings().find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
    let version = setting("version").or_else(|| setting("version_info")).and_then(major_minor);
    let mut sites = below(prefix, version.as_deref());
    if setting("include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        if let Some(base) = setting("home").and_then(|home| prefix_of(Path::new(home))) {
            sites.extend(below(&base, version.as_deref()));
        }
    }
    sites
}

/// The package folders of an interpreter.
pub(super) fn interpreter(path: &Path) -> Vec<PathBuf> {
    let mut step = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        // A virtual environment's interpreter is a link to its base's: the first one with a configuration counts.
        let virtual_one = step.ancestors().skip(1).take(2).find(|folder| folder.join("pyvenv.cfg").is_file());
        if let Some(prefix) = virtual_one {
            return environment(prefix);
        }
        let (Some(folder), Ok(next)) = (step.parent(), step.read_link()) else { break };
        step = folder.join(next);
    }
    let Ok(real) = path.canonicalize() else { return Vec::new() };
    let version = name(&real).strip_prefix("python").and_then(major_minor);
    real.parent().and_then(prefix_of).map(|prefix| below(&prefix, version.as_deref())).unwrap_or_default()
}

/// The interpreter that the user's `python3` runs.
pub(super) fn on_path(machine: &Machine) -> Option<PathBuf> {
    let folders = machine.paths("PATH");
    ["python3", "python"].iter().find_map(|program| {
        let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
        folders.iter().filter(|folder| folder.is_absolute()).find_map(|folder| {
            let path = folder.join(&file);
            if !path.is_file() {
                return None;
            }
            match pyenv_root(folder) {
                Some(root) => behind_shim(machine, &root).map(|prefix| prefix.join("bin").join(&file)),
                None => Some(path),
            }
        })
    })
}

/// The folders of the user's own packages, newest Python first.
pub(super) fn user_sites(machine: &Machine) -> Vec<PathBuf> {
    if machine.variable("PYTHONNOUSERSITE").is_some() {
        return Vec::new();
    }
    let home = machine.home();
    let base = machine.path("PYTHONUSERBASE").or_else(|| home.as_ref().map(|home| home.join(".local")));
    let mut sites = base.map_or_else(Vec::new, |base| below(&base, None));
    let (library, below) = match std::env::consts::OS {
        "macos" => (home.map(|home| home.join("Library/Python")), "lib/python/site-packages"),
        "windows" => (machine.path("APPDATA").map(|folder| folder.join("Python")), "site-packages"),
        _ => return sites,
    };
    let versions = library.map(|folder| newest_first(list(&folder))).unwrap_or_default();
    sites.extend(folders(versions.iter().map(|version| version.join(below))));
    sites
}

/// The environments that reticulate uses by default: those that a variable names, and its default one.
pub(super) fn reticulate_environments(machine: &Machine) -> Vec<PathBuf> {
    let home = machine.home();
    let root = ["RETICULATE_VIRTUALENV_ROOT", "WORKON_HOME"].iter().find_map(|name| machine.path(name));
    let root = root.or_else(|| home.as_ref().map(|home| home.join(".virtualenvs")));
    let miniconda = machine.path("RETICULATE_MINICONDA_PATH").or_else(|| {
        let data = machine.path("XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")));
        data.map(|data| data.join("r-miniconda"))
    });
    let environments =
        [root.map(|root| root.join("r-reticulate")), miniconda.map(|conda| conda.join("envs/r-reticulate"))];
    environments.into_iter().flatten().collect()
}

/// The environment that `RETICULATE_PYTHON_ENV` names, as a path or as one of reticulate's.
pub(super) fn reticulate_environment(machine: &Machine) -> Option<PathBuf> {
    let named = Path::new(machine.variable("RETICULATE_PYTHON_ENV")?);
    let is_name = named.components().count() == 1 && !named.starts_with("~") && !named.is_absolute();
    if !is_name {
        return machine.absolute(named);
    }
    let siblings = reticulate_environments(machine);
    siblings.iter().map(|sibling| sibling.with_file_name(named)).find(|folder| folder.is_dir())
}

/// The package folders below a prefix, for a version such as "3.11", or for all versions if that has none.
fn below(prefix: &Path, version: Option<&str>) -> Vec<PathBuf> {
    let libraries = ["local/lib", "local/lib64", "lib", "lib64"].map(|library| prefix.join(library));
    let of_any = |library: &Path| {
        let is_python = |path: &PathBuf| {
            let version = name(path).strip_prefix("python").or_else(|| name(path).strip_prefix("pypy"));
            version.and_then(major_minor).is_some()
        };
        newest_first(list(library).into_iter().filter(is_python).collect())
    };
    let sites = |pythons: Vec<PathBuf>| {
        folders(pythons.iter().flat_map(|python| ["site-packages", "dist-packages"].map(|site| python.join(site))))
    };
    let mut found = version.map_or_else(Vec::new, |version| {
        let kinds = ["python", "pypy"].map(|kind| format!("{kind}{version}"));
        sites(libraries.iter().flat_map(|library| kinds.each_ref().map(|kind| library.join(kind))).collect())
    });
    if found.is_empty() {
        found = sites(libraries.iter().flat_map(|library| of_any(library)).collect());
    }
    // Debian's packages for all versions; Windows.
    found.extend(folders(["lib/python3/dist-packages", "Lib/site-packages"].iter().map(|site| prefix.join(site))));
    found
}

fn folders(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter(|path| path.is_dir()).collect()
}

fn newest_first(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by_key(|path| std::cmp::Reverse(numbers(name(path))));
    paths
}

/// The prefix of the installation whose interpreter is in this folder. On Windows, that may be the folder itself.
fn prefix_of(folder: &Path) -> Option<PathBuf> {
    let is_below = matches!(name(folder), "bin" | "Scripts");
    (if is_below { folder.parent() } else { Some(folder) }).map(Path::to_path_buf)
}

/// "3.11" of "3.11.7".
fn major_minor(version: &str) -> Option<String> {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Free-threaded Python is "3.13t".
    (is_number(major) && is_number(minor.trim_end_matches('t'))).then(|| format!("{major}.{minor}"))
}

/// The root of pyenv, if this folder contains its shims.
fn pyenv_root(folder: &Path) -> Option<PathBuf> {
    let root = folder.parent().filter(|_| name(folder) == "shims")?;
    root.join("versions").is_dir().then(|| root.to_path_buf())
}

/// The installation that pyenv's shims choose: by variable, by the working folder or one above it, or by default.
fn behind_shim(machine: &Machine, root: &Path) -> Option<PathBuf> {
    let chosen = machine.variable("PYENV_VERSION").map(|value| value.to_string_lossy().replace(':', " "));
    let near = || machine.folder.ancestors().find_map(|folder| read(&folder.join(".python-version")));
    let chosen = chosen.or_else(near).or_else(|| read(&root.join("version")))?;
    let words = chosen.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    words.into_iter().find_map(|version| pyenv_version(&root.join("versions"), version))
}

/// The folder of a version; "3.11" means the newest 3.11.
fn pyenv_version(versions: &Path, version: &str) -> Option<PathBuf> {
    let is_plain = Path::new(version).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if version.is_empty() || !is_plain {
        return None;
    }
    let exact = versions.join(version);
    if exact.is_dir() {
        return Some(exact);
    }
    let start = format!("{version}.");
    newest_first(list(versions)).into_iter().find(|path| name(path).starts_with(&start))
}
