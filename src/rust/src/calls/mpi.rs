//! MPI: who this process is among those started together, and the end of all of them.

use crate::r::conditions::Result;
use crate::r::{handle, idle, sexp};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_base::{callbacks, process};
use pjrt_core::Buffer;
use pjrt_handlers::mpi;
use std::fmt::Write;
use std::path::PathBuf;

/// Initializes MPI, or joins it, with the library that is named, if one is.
pub fn mpi_start(library: Vec<String>) -> Result<List> {
    // Where MPI may be called on this thread only, waits and the idle prompt call it.
    process::watch_forks();
    callbacks::run_on_this_thread();
    idle::watch();
    let (facts, file) = mpi::start(library.first().map(PathBuf::from).as_deref())?;
    let family = match facts.family {
        mpi::Family::OpenMpi => "Open MPI",
        mpi::Family::Mpich => "MPICH",
        mpi::Family::Standard => "MPI standard",
    };
    Ok(list!(
        rank = facts.rank as i32,
        size = facts.size as i32,
        library = file.to_string_lossy().as_ref(),
        abi = family,
        version = facts.library_version.lines().next().unwrap_or_default(),
        standard = format!("{}.{}", facts.standard.0, facts.standard.1),
        threads = facts.level,
        joined = facts.is_joined
    ))
}

/// `mpi_kinds(buffers)`: a string that is the same for buffers of the same dtypes, shapes, clients and devices.
pub fn mpi_kinds(buffers: SEXP) -> Result<SEXP> {
    let mut kinds = String::new();
    for buffer in sexp::elements(buffers) {
        let buffer = handle::get::<Buffer>(buffer, "buffers")?;
        let place = (buffer.client().id(), buffer.device_index());
        // Writing to a string cannot fail.
        let _ = write!(kinds, "{}:{} {}{:?} ", place.0, place.1, buffer.dtype(), buffer.dims());
    }
    Ok(sexp::over_jumps(kinds, |kinds| sexp::new_string(kinds)))
}

/// Waits for what is under way, and ends MPI.
pub fn mpi_finish() -> Result<()> {
    Ok(mpi::finish()?)
}
