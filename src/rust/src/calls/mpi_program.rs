//! The program of one process, from a partitioned program for several devices.

use crate::r::conditions::Result;
use crate::r::handle;
use extendr_api::prelude::*;
use pjrt_base::mmap;
use pjrt_ir::hlo::processes::Process;
use pjrt_program::program::{Format, Program};
use std::path::Path;

/// The program of process `rank` of `size`, from a file with the `HloProto` that the compiler has written.
/// `are_partitions` is FALSE for replicas.
pub fn program_of_process(path: &str, rank: i32, size: i32, are_partitions: bool) -> Result<Robj> {
    let process = Process { rank: rank as usize, size: size as usize, are_partitions };
    let written = mmap::read(Path::new(path))?;
    let code = process.program(&written)?;
    Ok(handle::object(Program::new(code, Format::Hlo)?))
}
