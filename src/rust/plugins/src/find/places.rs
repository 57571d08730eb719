//! The places to search for plugins, in order of precedence.

use super::machine::{list, name, Machine};
use super::python;
use std::path::PathBuf;

/// The system's library folders.
const LIBRARIES: [&str; 6] =
    ["usr/local/lib", "usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPlace {
    pub path: PathBuf,
    /// Its origin, for messages: "PJRT_PLUGIN_PATH".
    pub source: String,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A folder of plugins or Python packages, or a plugin, chosen by the user.
    Plugins,
    /// The library for TPUs.
    Tpu,
    /// A folder of Python packages.
    Site,
    /// A folder of libraries of all kinds: only files with typical plugin names are opened.
    Libraries,
}

/// All places on a machine, and the invalid entries of variables, with reasons.
pub(super) fn all(machine: &Machine) -> (Vec<SearchPlace>, Vec<(PathBuf, &'static str)>) {
    let mut places = Places::default();
    for path in machine.paths("PJRT_PLUGIN_PATH") {
        match machine.absolute(&path) {
            Some(path) => places.add("PJRT_PLUGIN_PATH", Kind::Plugins, [path]),
            None => places.refused.push((path, "entries of PJRT_PLUGIN_PATH must be absolute paths")),
        }
    }
    places.add("TPU_LIBRARY_PATH", Kind::Tpu, machine.path("TPU_LIBRARY_PATH"));
    // Places that the user did not name for plugins.
    if machine.variable("PJRT_DISCOVER").is_none_or(|value| value != "0") {
        places.add_pythons(machine);
        places.add_system(machine);
    }
    (places.all, places.refused)
}

#[derive(Default)]
struct Places {
    all: Vec<SearchPlace>,
    refused: Vec<(PathBuf, &'static str)>,
}

impl Places {
    fn add(&mut self, source: &str, kind: Kind, paths: impl IntoIterator<Item = PathBuf>) {
        self.all.extend(paths.into_iter().map(|path| SearchPlace { path, source: source.to_string(), kind }));
    }

    fn add_pythons(&mut self, machine: &Machine) {
        let environment = |path: PathBuf| python::environment(&path);
        let of_reticulate =
            |path: PathBuf| if path.is_dir() { python::environment(&path) } else { python::interpreter(&path) };
        let mut add =
            |source: &str, sites: Option<Vec<PathBuf>>| self.add(source, Kind::Site, sites.unwrap_or_default());
        add("VIRTUAL_ENV", machine.path("VIRTUAL_ENV").map(environment));
        add("RETICULATE_PYTHON", machine.path("RETICULATE_PYTHON").map(of_reticulate));
        add("RETICULATE_PYTHON_ENV", python::reticulate_environment(machine).map(environment));
        add("CONDA_PREFIX", machine.path("CONDA_PREFIX").map(environment));
        add("python3", python::on_path(machine).map(|path| python::interpreter(&path)));
        add("user site", Some(python::user_sites(machine)));
        for path in python::reticulate_environments(machine) {
            add("r-reticulate", Some(environment(path)));
        }
    }

    fn add_system(&mut self, machine: &Machine) {
        self.add("system", Kind::Site, python::environment(&machine.root.join("usr")));
        let neuron = machine.root.join("opt/aws/neuron/lib");
        self.add("AWS Neuron", Kind::Libraries, Some(neuron).filter(|path| path.is_dir()));
        // Amazon's images have folders such as `/opt/aws_neuronx_venv_pytorch_2_8`, one for each framework.
        for environment in list(&machine.root.join("opt")).iter().filter(|path| name(path).starts_with("aws_neuron")) {
            self.add("AWS Neuron", Kind::Site, python::environment(environment));
        }
        let libraries = LIBRARIES.iter().map(|path| machine.root.join(path)).filter(|path| path.is_dir());
        self.add("system", Kind::Libraries, libraries);
    }
}
