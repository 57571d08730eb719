//! Fetching plugins.

use extendr_api::prelude::*;

extendr_module! {
    mod install;
}
