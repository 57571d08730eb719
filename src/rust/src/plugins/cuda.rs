//! The machine's driver and libraries for CUDA plugins.

use extendr_api::prelude::*;
use pjrt_plugins::cuda::{self, LibraryOrigin, Report};
use std::path::{Path, PathBuf};

/// The driver, and the libraries for the plugin at `plugin`; only the driver if that is empty.
pub fn cuda_report(plugin: &str) -> List {
    let Report { driver, needs, libraries } = cuda::report((!plugin.is_empty()).then(|| Path::new(plugin)));
    let place = |place: &LibraryOrigin| match place {
        LibraryOrigin::Loaded => ("loaded", None),
        LibraryOrigin::File(file) => ("file", Some(file.to_string_lossy().into_owned())),
        LibraryOrigin::Missing => ("missing", None),
    };
    let (places, paths): (Vec<_>, Vec<_>) = libraries.iter().map(|library| place(&library.1)).unzip();
    list!(
        cuda = driver.cuda.map(|cuda| cuda.to_string()),
        module = driver.module,
        needs = needs.map(|needs| needs.to_string()),
        name = libraries.iter().map(|(wanted, ..)| wanted.name).collect::<Vec<_>>(),
        place = places,
        path = paths,
        only_for = libraries.iter().map(|(wanted, ..)| wanted.only_for.map(str::to_owned)).collect::<Vec<_>>(),
        problem = libraries.iter().map(|(.., problem)| problem.clone()).collect::<Vec<_>>()
    )
}

/// Adds folders of Python packages to the search for CUDA's libraries.
pub fn cuda_look_in(folders: Vec<String>) {
    cuda::libraries::look_in(folders.into_iter().map(PathBuf::from).collect());
}
