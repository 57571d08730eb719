//! Arrays of a partitioned program: the part for each device, and parts of buffers and files.

use crate::arrays::buffer::{self, needs};
use crate::execution::execute::position;
use crate::files::safetensors::OpenFile;
use crate::memory;
use crate::r::conditions::Result;
use crate::r::sexp;
use extendr_api::prelude::*;
use pjrt_core::buffer::shard::Share;
use pjrt_core::safetensors::load_part;
use pjrt_core::{Buffer, Device, Executable};
use pjrt_data::array::Spec;
use pjrt_ir::hlo::sharding::Sharding;
use std::ops::Range;

/// The sharding of an input or output, counted from 1. `starts` and `sizes` have an element for each partition, and are
/// NULL if that is not known. `positions` has the positions of this process's devices among all, replica by replica.
pub fn executable_array(executable: &Executable, is_input: bool, index: i32) -> Result<Robj> {
    let (signature, shardings) = (executable.signature(), executable.shardings());
    let index = index as usize - 1;
    let (spec, shardings) = if is_input {
        (signature.inputs.get(index).map(|input| &input.spec), &shardings.inputs)
    } else {
        (signature.outputs.get(index), &shardings.outputs)
    };
    let Some(spec) = spec else { bail!(InvalidInput, "The program has no such input or output.") };
    let (replicas, partitions) = executable.counts();
    let numbers = |dims: &[i64]| sexp::robj(sexp::new_whole_numbers(dims));
    let reported = list!(
        dtype = spec.dtype.name(),
        part = numbers(&spec.dims),
        num_replicas = replicas as i32,
        num_partitions = partitions as i32,
        positions = executable.positions().iter().map(|&position| position as i32 + 1).collect::<Vec<_>>()
    );
    let mut found: Vec<(&str, Robj)> = reported.iter().collect();
    // Of each partition: its part of the whole, and whether it is the first with this part. A single one has all of its replica's.
    let all = || spec.dims.iter().map(|&dim| 0..dim).collect();
    let known = match shardings.get(index).and_then(Option::as_ref) {
        _ if partitions == 1 => Some((&spec.dims[..], vec![(all(), true)])),
        Some(sharding) => {
            let of = |partition| (sharding.part_of(partition), sharding.is_first(partition));
            Some((&sharding.whole[..], (0..partitions as usize).map(of).collect()))
        }
        None => None,
    };
    if let Some((whole, parts)) = known {
        let by_part = |number: fn(&Range<i64>) -> i64| {
            List::from_values(parts.iter().map(|(part, _)| numbers(&part.iter().map(number).collect::<Vec<_>>())))
        };
        found.push(("whole", numbers(whole)));
        found.push(("starts", by_part(|range| range.start).into()));
        found.push(("sizes", by_part(|range| range.end - range.start).into()));
        found.push(("is_first", parts.iter().map(|(_, is_first)| *is_first).collect::<Logicals>().into()));
    }
    Ok(List::from_pairs(found).into())
}

/// The division of an input or output, counted from 1, as a text to compare; empty if it is not divided, or if that is not known.
pub fn executable_division(executable: &Executable, is_input: bool, index: i32) -> Result<Robj> {
    let shardings = executable.shardings();
    let shardings = if is_input { &shardings.inputs } else { &shardings.outputs };
    let sharding = shardings.get(index as usize - 1).and_then(Option::as_ref);
    Ok(sharding.map_or_else(String::new, Sharding::division).into())
}

/// The number of an executable's input, from 1, by its name in any spelling; NULL if there is no such input.
pub fn executable_input(executable: &Executable, name: &str) -> Result<Robj> {
    let signature = executable.signature();
    let names: Vec<&str> = signature.inputs.iter().map(|input| input.name.as_str()).collect();
    Ok(position(&names, name).map_or_else(|_| ().into(), |index| (index as i32 + 1).into()))
}

/// A part of a buffer for a device, where it has the dimensions `dims`.
pub fn buffer_share(source: &Buffer, start: Robj, size: Robj, dims: Robj, device: &Device) -> Result<Robj> {
    let share = share(&start, &size, &dims)?;
    let needed = || Spec::new(source.dtype(), &share.dims).map_or_else(|_| String::new(), |spec| needs(&spec));
    filled(device, needed, || source.share(&share, device))
}

/// The same for a tensor in an open model, given by its position from 1.
pub fn safetensors_share(
    open: &OpenFile,
    tensor: i32,
    start: Robj,
    size: Robj,
    dims: Robj,
    device: &Device,
) -> Result<Robj> {
    let model = open.model()?;
    let share = share(&start, &size, &dims)?;
    let needed = || "a part of a tensor".into();
    filled(device, needed, || load_part(&model, tensor as usize - 1, &share, device))
}

/// The type and shape of a tensor in an open model.
pub fn safetensors_tensor(open: &OpenFile, tensor: i32) -> Result<Robj> {
    let model = open.model()?;
    let tensor = model.tensor(tensor as usize - 1)?;
    let shape = sexp::robj(sexp::new_whole_numbers(&tensor.dims));
    Ok(list!(dtype = tensor.dtype_name(), shape = shape).into())
}

/// A handle for the buffer that `make` creates on a device.
fn filled(
    device: &Device,
    needed: impl Fn() -> String,
    make: impl FnMut() -> pjrt_base::error::Result<Buffer>,
) -> Result<Robj> {
    memory::collect_under_pressure(device.client())?;
    Ok(sexp::robj(buffer::made(needed, make)?))
}

fn share(start: &Robj, size: &Robj, dims: &Robj) -> Result<Share> {
    let numbers = |x: &Robj| sexp::whole_numbers(sexp::of(x));
    let (Some(start), Some(size), Some(dims)) = (numbers(start), numbers(size), numbers(dims)) else {
        bail!(Internal, "The positions of a part must be whole numbers.");
    };
    let range = |(&start, &size): (&i64, &i64)| start as usize..(start + size) as usize;
    Ok(Share { ranges: start.iter().zip(&size).map(range).collect(), dims })
}
