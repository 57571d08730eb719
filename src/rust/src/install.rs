//! Fetching plugins.

use crate::conditions::{interrupt_pending, Outcome};
use extendr_api::prelude::*;
use pjrt_core::install::{install, installed, Request};
use std::path::Path;

/// The library of a platform's plugin in the cache, or NULL.
#[extendr]
fn plugin_installed(platform: &str, cache_dir: &str) -> Robj {
    installed(platform, Path::new(cache_dir)).map_or(().into(), |path| path.to_string_lossy().as_ref().into())
}

/// Fetches a platform's plugin into the cache; shows the progress when asked to. An empty `index_url` means none is given.
#[extendr]
fn plugin_install(platform: &str, cache_dir: &str, index_url: &str, force: bool, show: bool) -> Outcome<Robj> {
    let request = Request {
        platform,
        cache_dir: Path::new(cache_dir),
        index_url: (!index_url.is_empty()).then_some(index_url),
        force,
    };
    let mut shown = 0;
    let mut progress = |done: u64, total: Option<u64>| {
        let percent = total.map_or(0, |total| (100 * done).checked_div(total).unwrap_or(0));
        if show && percent > shown {
            shown = percent;
            reprint!("\rFetching the {platform} plugin: {percent}%{}", if percent < 100 { "" } else { "\n" });
        }
        !interrupt_pending()
    };
    let path = install(&request, &mut progress)?;
    Ok(path.to_string_lossy().as_ref().into())
}

extendr_module! {
    mod install;
    fn plugin_installed;
    fn plugin_install;
}
