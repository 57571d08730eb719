//! Information about executables.

use crate::clients::device;
use crate::r::conditions::Result;
use crate::r::handle::{self, Known};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_core::executable::inspect::MemoryKinds;
use pjrt_core::executable::{Origin, Placement, Signature, WeakExecutable};
use pjrt_core::{Executable, PluginValue};
use pjrt_data::array::Spec;
use pjrt_ir::hlo::sharding::{Sharding, Shardings};
use std::cell::RefCell;
use std::rc::Rc;

owned!(Executable, c"PJRTLoadedExecutable", sent, const ARGUMENT: &'static str = "executable";);

thread_local! {
    /// The executables that R has.
    static KNOWN: RefCell<Vec<(WeakExecutable, Rc<Known<Executable>>)>> = const { RefCell::new(Vec::new()) };
}

/// An R object of an executable, `identical()` to the others of it that R has. R counts its memory once, for the first.
pub fn object(executable: Executable) -> Robj {
    let known = KNOWN.with_borrow_mut(|known| {
        known.retain(|(_, handles)| handles.is_there());
        let weak = executable.downgrade();
        known.iter().find(|(other, _)| *other == weak).map(|(_, handles)| handles.clone())
    });
    if let Some(handle) = known.and_then(|handles| handles.handle()) {
        return sexp::robj(handle);
    }
    let bytes = executable.host_bytes();
    let made = Protected::new(handle::wrap_weighing(executable, bytes));
    note(made.sexp());
    sexp::robj(made.sexp())
}

/// Has [`object`] know this handle, which the caller protects, as that of its executable.
pub fn note(handle: SEXP) {
    let Some(executable) = handle::find::<Executable>(handle) else { return };
    // SAFETY: a handle of an executable is never a small one.
    let handles = Rc::new(unsafe { Known::of(handle) });
    let weak = executable.downgrade();
    KNOWN.with_borrow_mut(|known| match known.iter_mut().find(|(other, _)| *other == weak) {
        Some((_, known)) => *known = handles,
        None => known.push((weak, handles)),
    });
}

/// Name, inputs and outputs, numbers of replicas and partitions. Inputs and outputs count from 1.
pub fn executable_describe(executable: &Executable) -> Result<Robj> {
    let kinds = executable.memory_kinds();
    let found = described(executable.signature(), executable.shardings(), executable.counts(), &kinds);
    Ok(List::from_pairs(found).into())
}

/// The same for an executable that need not be loaded. `counts` are the numbers of replicas and partitions.
pub fn described(
    signature: &Signature,
    shardings: &Shardings,
    counts: (i64, i64),
    kinds: &MemoryKinds,
) -> Vec<(&'static str, Robj)> {
    let input_specs: Vec<_> = signature.inputs.iter().map(|input| &*input.spec).collect();
    let output_specs: Vec<_> = signature.outputs.iter().map(|spec| &**spec).collect();
    let output_of = |input| signature.aliases.iter().position(|&alias| alias == Some(input));
    let names = signature.inputs.iter().map(|input| input.name.as_str()).collect::<Strings>();
    let output_name = |i: usize| signature.output_names.as_ref().map_or("", |names| names[i].as_str());
    let output_names = (0..output_specs.len()).map(output_name).collect::<Strings>();
    let donated = signature.inputs.iter().map(|input| input.donated).collect::<Logicals>();
    let inputs = list!(
        name = names,
        dtype = dtypes(&input_specs),
        shape = shapes(&input_specs),
        layout = layouts(&input_specs),
        donated = donated,
        alias = positions((0..input_specs.len()).map(output_of)),
        memory_kind = strings(&kinds.inputs),
        sharding = words(&shardings.inputs, input_specs.len())
    );
    let outputs = list!(
        name = output_names,
        dtype = dtypes(&output_specs),
        shape = shapes(&output_specs),
        layout = layouts(&output_specs),
        alias = positions(signature.aliases.iter().copied()),
        memory_kind = strings(&kinds.outputs),
        sharding = words(&shardings.outputs, output_specs.len())
    );
    vec![
        ("name", signature.name.as_str().into()),
        ("num_replicas", (counts.0 as i32).into()),
        ("num_partitions", (counts.1 as i32).into()),
        ("inputs", inputs.into()),
        ("outputs", outputs.into()),
    ]
}

/// Its origin, and the compiler's time in seconds.
pub fn executable_origin(executable: &Executable) -> Result<Robj> {
    let origin = match executable.origin() {
        Origin::Compiled => "compiled",
        Origin::Missed => "missed",
        Origin::Cache => "cache",
        Origin::Saved => "saved",
    };
    Ok(list!(origin = origin, compile_seconds = executable.compile_time().as_secs_f64()).into())
}

/// Estimates of a run's costs, as named numbers. If they are not the plugin's, an attribute says so.
pub fn executable_costs(executable: &Executable) -> Result<Robj> {
    let costs = executable.costs()?;
    let number = |value: &PluginValue| match value {
        PluginValue::Float(f) => Rfloat::from(f64::from(*f)),
        PluginValue::Int(i) => Rfloat::from(*i as f64),
        _ => Rfloat::na(),
    };
    let mut numbers = named_numbers(costs.values.iter().map(|(name, value)| (name.as_str(), number(value))))?;
    if costs.are_own {
        // It fails for objects that have no attributes.
        let _ = numbers.set_attrib("estimated_by", "pjrt");
    }
    Ok(numbers)
}

/// The memory that a run needs, as named numbers of bytes.
pub fn executable_memory_stats(executable: &Executable) -> Result<Robj> {
    let stats = executable.memory_stats()?;
    let number = |bytes: Option<i64>| bytes.map_or(Rfloat::na(), |n| Rfloat::from(n as f64));
    named_numbers(stats.into_iter().map(|(name, bytes)| (name, number(bytes))))
}

pub fn executable_fingerprint(executable: &Executable) -> Result<Robj> {
    Ok(executable.fingerprint()?.into())
}

/// The size of the machine code in bytes.
pub fn executable_code_bytes(executable: &Executable) -> Result<Robj> {
    Ok((executable.code_bytes()? as f64).into())
}

/// The optimized program as HLO text.
pub fn executable_optimized_text(executable: &Executable) -> Result<Robj> {
    Ok(executable.optimized_module()?.text().into())
}

/// The one R object of the first device of this process that runs an executable.
pub fn executable_device(executable: &Executable) -> Result<Robj> {
    match executable.placement() {
        Placement::Fixed(devices) => Ok(sexp::robj(device::object(executable.client(), devices[0]))),
        Placement::Portable => bail!(
            InvalidInput,
            "A portable executable has no fixed device: it runs where its inputs are. devices() returns all devices \
             that it can run on."
        ),
    }
}

/// The R objects of the devices that an executable runs on, or can run on if it is portable: the devices of this process, or
/// of all processes.
pub fn executable_devices(executable: &Executable, is_addressable: bool) -> Result<Robj> {
    let client = executable.client();
    let devices = match executable.placement() {
        Placement::Portable => return Ok(sexp::robj(device::addressable(client))),
        Placement::Fixed(own) if is_addressable => own,
        Placement::Fixed(_) => executable.assigned(),
    };
    Ok(sexp::robj(sexp::list(devices.iter().map(|&index| device::object(client, index)))))
}

/// The positions, from 1, of this process's devices among all devices of an executable, as `executable_devices()` returns both.
pub fn executable_own_positions(executable: &Executable) -> Result<Robj> {
    let own = match executable.placement() {
        Placement::Portable => (0..executable.client().addressable_devices()).collect(),
        Placement::Fixed(_) => executable.positions(),
    };
    Ok(positions(own.into_iter().map(Some)))
}

/// For each output the input, from 0, whose memory it takes over; NA for none.
pub fn executable_aliases(executable: &Executable) -> Result<Robj> {
    let aliases = &executable.signature().aliases;
    Ok(aliases.iter().map(|alias| alias.map_or(Rint::na(), |i| Rint::from(i as i32))).collect::<Integers>().into())
}

fn dtypes(specs: &[&Spec]) -> Strings {
    specs.iter().map(|spec| spec.dtype.name()).collect()
}

fn shapes(specs: &[&Spec]) -> List {
    let shape = |spec: &&Spec| sexp::robj(sexp::new_whole_numbers(&spec.dims));
    List::from_values(specs.iter().map(shape))
}

/// Dimensions from fastest to slowest varying, counted from 0, as in HLO text.
fn layouts(specs: &[&Spec]) -> Strings {
    let layout = |spec: &&Spec| {
        let row_major = || (0..spec.dims.len() as i64).rev().collect();
        let order: Vec<i64> = spec.minor_to_major.as_ref().map_or_else(row_major, |order| order.to_vec());
        format!("{{{}}}", order.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
    };
    specs.iter().map(layout).collect()
}

/// Positions counted from 0 as R counts them; NA for none.
pub fn positions(found: impl Iterator<Item = Option<usize>>) -> Robj {
    let positions: Vec<_> = found.map(|i| i.map_or(Rint::na(), |i| Rint::from(i as i32 + 1))).collect();
    Integers::from_values(positions).into()
}

fn strings(values: &[Option<String>]) -> Strings {
    values.iter().map(|value| value.as_deref().map_or(Rstr::na(), Rstr::from)).collect()
}

/// The sharding of each of `count` arrays; NA for arrays without one, or if it is not known.
fn words(shardings: &[Option<Sharding>], count: usize) -> Strings {
    let of = |i: usize| shardings.get(i).and_then(Option::as_ref);
    (0..count).map(|i| of(i).map_or(Rstr::na(), |sharding| Rstr::from(sharding.words.as_str()))).collect()
}

fn named_numbers<'a>(values: impl Iterator<Item = (&'a str, Rfloat)>) -> Result<Robj> {
    let (names, numbers): (Vec<_>, Vec<_>) = values.unzip();
    let mut numbers: Robj = Doubles::from_values(numbers).into();
    // Fails only for another number of names.
    let _ = numbers.set_names(names);
    Ok(numbers)
}
