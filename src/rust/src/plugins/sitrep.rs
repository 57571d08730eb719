//! The parts of a situation report that no other module has.

use crate::r::conditions::Result;
use crate::r::entry::interrupt_pending;
use extendr_api::prelude::*;
use pjrt_plugins::install::{index_in_use, redacted};

/// The version of the PJRT C API that this package was made for.
pub fn api_version_bound() -> String {
    let (major, minor) = pjrt_core::API_VERSION;
    format!("{major}.{minor}")
}

/// The Python package index in use, without login, and its origin.
pub fn index_found(index_url: &str) -> Result<Robj> {
    let given = Some(index_url).filter(|url| !url.is_empty());
    let (url, origin) = index_in_use(given, &mut |_, _| !interrupt_pending())?;
    Ok(list!(url = url, origin = origin).into())
}

/// The number of processors that this process may use, and the variable that says so, or NULL.
pub fn processors_allowed() -> Robj {
    let allowed = pjrt_base::processors::allowed();
    list!(count = i32::try_from(allowed.count).unwrap_or(i32::MAX), variable = allowed.variable).into()
}

/// Texts without secrets, if they are URLs.
pub fn redact(texts: Vec<String>) -> Vec<String> {
    texts.iter().map(|text| redacted(text)).collect()
}
