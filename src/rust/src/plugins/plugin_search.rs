//! Finds plugins on the machine, and inspects their libraries before they are loaded.

use crate::r::conditions::Result;
use extendr_api::prelude::*;
use pjrt_base::error::{Error, Kind};
use pjrt_core::Plugin;
use pjrt_plugins::find::find;
use pjrt_plugins::library::inspect;
use std::path::Path;

/// The plugins on this machine, those that were skipped, and the places searched: three lists of columns.
pub fn plugins_find() -> List {
    let findings = find();
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let found = &findings.found;
    let skipped = &findings.skipped;
    let places = &findings.places;
    list!(
        found = list!(
            platform = found.iter().map(|plugin| plugin.platform.as_str()).collect::<Vec<_>>(),
            path = found.iter().map(|plugin| shown(&plugin.path)).collect::<Vec<_>>(),
            source = found.iter().map(|plugin| plugin.source.as_str()).collect::<Vec<_>>(),
            version = found.iter().map(|plugin| plugin.version.clone()).collect::<Vec<_>>(),
            folder = found.iter().map(|plugin| shown(&plugin.folder)).collect::<Vec<_>>()
        ),
        skipped = list!(
            platform = skipped.iter().map(|skipped| skipped.platform.clone()).collect::<Vec<_>>(),
            path = skipped.iter().map(|skipped| shown(&skipped.path)).collect::<Vec<_>>(),
            reason = skipped.iter().map(|skipped| skipped.reason.as_str()).collect::<Vec<_>>()
        ),
        places = list!(
            path = places.iter().map(|place| shown(&place.path)).collect::<Vec<_>>(),
            source = places.iter().map(|place| place.source.as_str()).collect::<Vec<_>>()
        )
    )
}

/// Checks that the library at `path` is a plugin, without loading it, and returns the path without links.
pub fn plugin_check(path: &str) -> Result<Robj> {
    let path = Path::new(path);
    if !inspect(path)?.is_plugin {
        bail!(PluginInvalid, "'{}' is not a PJRT plugin: it has no GetPjrtApi().", path.display());
    }
    Plugin::check_sound(path)?;
    let real = path.canonicalize().map_err(|error| Error::new(Kind::Io, format!("'{}': {error}.", path.display())))?;
    Ok(real.to_string_lossy().as_ref().into())
}

/// The environment variables, as two columns. Invalid text is repaired.
pub fn variables() -> Robj {
    let all = std::env::vars_os().map(|(name, value)| [name, value].map(|text| text.to_string_lossy().into_owned()));
    let (names, values): (Vec<_>, Vec<_>) = all.map(|[name, value]| (name, value)).unzip();
    list!(name = names, value = values).into()
}
