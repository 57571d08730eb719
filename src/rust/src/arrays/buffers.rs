//! The list of the living buffers.

use crate::r::conditions::Result;
use crate::r::{pins, sexp};
use extendr_api::prelude::*;
use pjrt_core::{client, Buffer};

/// The living buffers of all clients, the largest first, as columns.
pub fn buffers_list() -> Result<List> {
    pins::drain();
    pjrt_core::dlpack::release_pending();
    let mut found = Vec::new();
    for client in client::all() {
        found.extend(Buffer::living(&client)?);
    }
    found.sort_by_key(|buffer| (std::cmp::Reverse(buffer.spec().bytes()), std::cmp::Reverse(buffer.age())));
    let text = |value: &dyn Fn(&Buffer) -> Option<String>| found.iter().map(value).collect::<Vec<_>>();
    let number = |value: &dyn Fn(&Buffer) -> f64| found.iter().map(value).collect::<Vec<_>>();
    let shapes = found.iter().map(|buffer| sexp::robj(sexp::new_whole_numbers(buffer.dims())));
    Ok(list!(
        dtype = text(&|buffer| Some(buffer.dtype().to_string())),
        shape = List::from_values(shapes),
        bytes = number(&|buffer| buffer.spec().bytes() as f64),
        device = text(&|buffer| Some(buffer.device().label().to_owned())),
        memory = text(&|buffer| buffer.known_memory().map(|memory| memory.kind().to_owned())),
        age = number(&|buffer| buffer.age().as_secs_f64()),
        made_at = text(&|buffer| buffer.made_at().map(|site| site.to_string()))
    ))
}
