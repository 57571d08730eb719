//! Compile options, from the list of R's `pjrt_compile_options()`.

use crate::r::conditions::Result;
use crate::r::describe::describe;
use crate::r::sexp;
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_core::executable::options::{CompileOptions, OptionValue, Propagation};

/// Checks options as a compilation would.
pub fn compile_options_check(options: Robj) -> Result<()> {
    get(sexp::of(&options)).map(drop)
}

/// The options in an R list.
pub fn get(options: SEXP) -> Result<CompileOptions> {
    let field = |name: &str| sexp::element(options, name).unwrap_or_else(sexp::nil);
    let optional = |name: &str| Some(field(name)).filter(|x| !sexp::is_nil(*x));
    let flag = |name: &str| optional(name).map(|x| checked_flag(x, name)).transpose();
    let count = |name: &str| optional(name).map(|x| whole(x, name)).transpose();
    let all_or_each = |name: &str| optional(name).map_or(Ok(Propagation::Unsaid), |x| propagation(x, name));
    let options = CompileOptions {
        num_replicas: count("num_replicas")?,
        num_partitions: count("num_partitions")?,
        device_assignment: optional("device_assignment").map(device_ids).transpose()?,
        use_spmd_partitioning: flag("use_spmd_partitioning")?,
        use_shardy_partitioner: flag("use_shardy_partitioner")?,
        propagation_to_parameters: all_or_each("allow_spmd_sharding_propagation_to_parameters")?,
        propagation_to_output: all_or_each("allow_spmd_sharding_propagation_to_output")?,
        compile_portable_executable: flag("compile_portable_executable")?.unwrap_or(false),
        optimization_level: count("optimization_level")?,
        debug_options: debug_options(field("debug_options"))?.into_iter().collect(),
        ..Default::default()
    };
    options.check()?;
    Ok(options)
}

/// One flag for all arrays, or one for each.
fn propagation(x: SEXP, name: &str) -> Result<Propagation> {
    match sexp::flags(x) {
        Some(flags) if flags.len() == 1 => Ok(Propagation::All(flags[0])),
        Some(flags) if flags.len() > 1 => Ok(Propagation::Each(flags)),
        _ => bail!(
            InvalidType,
            "`{name}` must be TRUE, FALSE, NULL, or one such value for each of the program's arrays, not {}.",
            describe(x)
        ),
    }
}

fn checked_flag(x: SEXP, name: &str) -> Result<bool> {
    match sexp::flag(x) {
        Some(flag) => Ok(flag),
        None => bail!(InvalidType, "`{name}` must be TRUE, FALSE or NULL, not {}.", describe(x)),
    }
}

fn whole(x: SEXP, name: &str) -> Result<i64> {
    match sexp::whole_numbers(x).as_deref() {
        Some(&[value]) => Ok(value),
        _ => bail!(InvalidType, "`{name}` must be a whole number, not {}.", describe(x)),
    }
}

/// The ids in a matrix of replicas by partitions, row by row.
fn device_ids(x: SEXP) -> Result<Vec<i32>> {
    let ids = sexp::whole_numbers(x).and_then(|ids| ids.into_iter().map(|id| i32::try_from(id).ok()).collect());
    let Some(ids): Option<Vec<i32>> = ids else {
        bail!(
            InvalidType,
            "`device_assignment` must be a vector of device ids, which are whole numbers, not {}.",
            describe(x)
        );
    };
    // SAFETY: R protects the argument and its attributes.
    let rows = unsafe { sexp::dim(x) }.first().map_or(ids.len(), |&rows| rows as usize).max(1);
    Ok((0..rows).flat_map(|row| ids.iter().skip(row).step_by(rows).copied()).collect())
}

fn debug_options(list: SEXP) -> Result<Vec<(String, OptionValue)>> {
    ensure!(sexp::kind(list) == SEXPTYPE::VECSXP, InvalidInput, "`debug_options` must be a named list.");
    // SAFETY: R protects the argument and its attributes.
    let mut names = unsafe { sexp::texts(sexp::names(list)) };
    let mut options: Vec<(String, OptionValue)> = Vec::with_capacity(sexp::len(list));
    for value in sexp::elements(list) {
        let Some(name) = names.next().flatten().filter(|name| !name.is_empty()) else {
            bail!(InvalidInput, "Every debug option needs a name, as in list(xla_cpu_enable_fast_math = TRUE).");
        };
        if options.iter().any(|(known, _)| known == name) {
            bail!(InvalidInput, "The debug option `{name}` is given twice.");
        }
        let Some(value) = option_value(value) else {
            bail!(InvalidInput, "The debug option `{name}` must be one string, TRUE, FALSE, or one finite number.");
        };
        options.push((name.to_owned(), value));
    }
    Ok(options)
}

fn option_value(x: SEXP) -> Option<OptionValue> {
    if let Some(flag) = sexp::flag(x) {
        return Some(OptionValue::Bool(flag));
    }
    // SAFETY: R protects the list that has `x`.
    if let Some(text) = unsafe { sexp::string(x) } {
        return Some(OptionValue::String(text.to_owned()));
    }
    match sexp::whole_numbers(x).as_deref() {
        Some(&[whole]) => Some(OptionValue::Int(whole)),
        _ => sexp::number(x).filter(|number| number.is_finite()).map(OptionValue::Float),
    }
}
