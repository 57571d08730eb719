//! Installation of plugins.

use crate::r::conditions::Result;
use crate::r::entry::interrupt_pending;
use crate::r::progress::Bar;
use extendr_api::prelude::*;
use pjrt_plugins::install::{
    all_installed, install, installed, refused, uninstall, Manifest, PluginSource, Request, Store,
};
use std::path::Path;

/// A site's folder, or a cache if the package's folder is `""`.
fn store<'a>(folder: &'a str, package: &'a str) -> Store<'a> {
    if package.is_empty() {
        Store::Cache(Path::new(folder))
    } else {
        Store::Site { folder: Path::new(folder), package: Path::new(package) }
    }
}

/// The library of a platform's plugin in the cache, or in a site's folder, or NULL.
pub fn plugin_installed(name: &str, folder: &str, manifest: &str, package: &str) -> Result<Robj> {
    let manifest = Manifest::read(Path::new(manifest))?;
    let found = installed(name, store(folder, package), &manifest);
    Ok(found.map_or(().into(), |found| text(&found.library)))
}

/// Installs a platform's plugin into the cache; with `show`, shows the progress on a console of `columns`. `""` stands
/// for an absent argument.
#[allow(clippy::too_many_arguments)]
pub fn plugin_install(
    name: &str,
    cache_dir: &str,
    manifest: &str,
    version: &str,
    source: &str,
    path: &str,
    index_url: &str,
    force: bool,
    show: bool,
    columns: i32,
) -> Result<Robj> {
    let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let request = Request {
        name,
        cache_dir: Path::new(cache_dir),
        version: given(version),
        source: match source {
            "auto" => PluginSource::Auto,
            "index" => PluginSource::Index,
            "release" => PluginSource::Release,
            "file" => PluginSource::File,
            other => bail!(InvalidInput, "There is no plugin source \"{other}\"."),
        },
        path: given(path).map(Path::new),
        index_url: given(index_url),
        force,
    };
    let label = format!("{name} plugin");
    let mut bar = Bar::new(&label, show, usize::try_from(columns).unwrap_or(0));
    let mut progress = |done, total| {
        bar.show(done, total);
        !interrupt_pending()
    };
    let result = install(&request, &Manifest::read(Path::new(manifest))?, &mut progress);
    bar.finish();
    Ok(text(&result?.library))
}

/// The plugins in the cache or in a site's folder that others could have changed, as columns.
pub fn plugins_refused(folder: &str, package: &str) -> List {
    let all = refused(store(folder, package));
    list!(
        platform = all.iter().map(|(one, _)| one.record.platform.as_str()).collect::<Vec<_>>(),
        path = all.iter().map(|(one, _)| one.library.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        reason = all.iter().map(|(_, reason)| reason.as_str()).collect::<Vec<_>>()
    )
}

/// The plugins in the cache or in a site's folder, as columns.
pub fn plugins_cached(folder: &str, package: &str) -> List {
    let all = all_installed(store(folder, package));
    let records = || all.iter().map(|one| &one.record);
    list!(
        platform = records().map(|one| one.platform.as_str()).collect::<Vec<_>>(),
        path = all.iter().map(|one| one.library.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        source = records().map(|one| one.source.as_str()).collect::<Vec<_>>(),
        version = records().map(|one| Some(&*one.version).filter(|text| !text.is_empty())).collect::<Vec<_>>(),
        api_version = records().map(|one| one.api.as_deref()).collect::<Vec<_>>(),
        size = records().map(|one| one.bytes as f64).collect::<Vec<_>>()
    )
}

/// Removes a platform's plugins from the cache, all versions if `version` is `""`, and returns their folders and sizes.
pub fn plugin_uninstall(name: &str, version: &str, cache_dir: &str, manifest: &str) -> Result<Robj> {
    let version = Some(version).filter(|version| !version.is_empty());
    let gone = uninstall(name, version, Path::new(cache_dir), &Manifest::read(Path::new(manifest))?, &mut |_, _| {
        !interrupt_pending()
    })?;
    let path = gone.iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect::<Vec<_>>();
    Ok(list!(path = path, bytes = gone.iter().map(|(_, bytes)| *bytes as f64).collect::<Vec<_>>()).into())
}

/// The plugins that can be downloaded for this machine: names, and the size of the download in bytes.
pub fn plugins_fetchable(manifest: &str) -> Result<Robj> {
    let (names, bytes): (Vec<_>, Vec<_>) = Manifest::read(Path::new(manifest))?.fetchable().into_iter().unzip();
    let bytes: Vec<_> = bytes.into_iter().map(|bytes| bytes.map(|bytes| bytes as f64)).collect();
    Ok(list!(name = names, bytes = bytes).into())
}

/// All plugins that can be downloaded for this machine, as columns.
pub fn plugins_available(manifest: &str) -> Result<List> {
    let manifest = Manifest::read(Path::new(manifest))?;
    let all = manifest.available();
    Ok(list!(
        platform = all.iter().map(|(one, _)| one.name()).collect::<Vec<_>>(),
        version = all.iter().map(|(one, _)| one.version.as_str()).collect::<Vec<_>>(),
        source = all.iter().map(|(one, _)| one.source()).collect::<Vec<_>>(),
        api_version = all.iter().map(|(one, _)| one.api.as_deref()).collect::<Vec<_>>(),
        stablehlo = all.iter().map(|(one, _)| one.stablehlo.as_deref()).collect::<Vec<_>>(),
        size = all.iter().map(|(_, bytes)| bytes.map(|bytes| bytes as f64)).collect::<Vec<_>>()
    ))
}

fn text(path: &Path) -> Robj {
    path.to_string_lossy().as_ref().into()
}
