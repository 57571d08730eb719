//! Plugins: found, fetched, loaded, described.

use extendr_api::prelude::*;

pub mod cuda;
pub mod install;
pub mod plugin;
pub mod plugin_search;
pub mod sitrep;

extendr_module! {
    mod plugins;
    use cuda;
    use install;
    use plugin;
    use plugin_search;
    use sitrep;
}
