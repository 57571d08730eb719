//! R functions that programs call.

use crate::arrays::buffer::{self, checks, r_type_of};
use crate::arrays::transfer;
use crate::r::conditions::{Failure as BridgeFailure, Result};
use crate::r::describe::describe;
use crate::r::entry::keeps_conditions;
use crate::r::handle::{self, sent};
use crate::r::idle;
use crate::r::lists::is_list;
use crate::r::pins;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::*;
use pjrt_base::callbacks;
use pjrt_base::error::{Error, Kind, NOT_FOUND};
use pjrt_base::process;
use pjrt_core::buffer::upload::write_elements;
use pjrt_core::executable::execute::HostContext;
use pjrt_core::{Buffer, HostArray, HostContent, HostOrder};
use pjrt_data::array::Spec;
use pjrt_data::convert::Check;
use pjrt_data::dtype::{DType, HostType};
use pjrt_data::scalar::{Reader, Scalar};
use pjrt_handlers::frame::{Attribute, Failure};
use pjrt_handlers::host::{self, Ended, HostCall, Operand};
use pjrt_handlers::registry::{self, Handler, HOST};
use std::cell::RefCell;
use std::collections::HashMap;

/// The functions of this session, each with its options in an R list, which R keeps.
struct Functions {
    by_number: HashMap<u64, SEXP>,
    numbers: HashMap<String, u64>,
    next: u64,
}

impl Functions {
    /// The function of a call, or the one that has replaced it while the call waited for R.
    fn of(&self, call: &HostCall) -> Option<SEXP> {
        let by_number = |number| self.by_number.get(number).copied();
        by_number(&call.function).or_else(|| self.numbers.get(&*call.target).and_then(by_number))
    }
}

thread_local! {
    /// Filled on R's main thread only.
    static FUNCTIONS: RefCell<Functions> =
        RefCell::new(Functions { by_number: HashMap::new(), numbers: HashMap::new(), next: 1 });
}

/// Registers an R function, instead of the handlers that the target had before.
pub fn r_call_register(target: &str, function: Robj, as_buffers: bool, takes_attributes: bool) -> Result<Robj> {
    process::watch_forks();
    callbacks::run_on_this_thread();
    host::set_runner(run);
    idle::watch();
    let entry = sexp::record(&[
        ("function", &|| sexp::of(&function)),
        ("buffers", &|| sexp::new_flag(as_buffers)),
        ("attributes", &|| sexp::new_flag(takes_attributes)),
    ]);
    sexp::preserve(entry);
    let number = FUNCTIONS.with_borrow_mut(|functions| {
        let number = functions.next;
        functions.next += 1;
        functions.by_number.insert(number, entry);
        number
    });
    if let Err(error) = registry::register(target, HOST, Handler::Host(number)) {
        release(number);
        return Err(error.into());
    }
    registry::unregister_except(target, &[HOST]);
    let before = FUNCTIONS.with_borrow_mut(|functions| functions.numbers.insert(target.to_owned(), number));
    before.into_iter().for_each(release);
    Ok(().into())
}

/// Lets go of the function of a target, which has no handler or another one by now.
pub fn forget(target: &str) {
    let number = FUNCTIONS.with_borrow_mut(|functions| functions.numbers.remove(target));
    number.into_iter().for_each(release);
}

fn release(number: u64) {
    let entry = FUNCTIONS.with_borrow_mut(|functions| functions.by_number.remove(&number));
    entry.into_iter().for_each(sexp::release);
}

/// Runs a call on R's main thread, in a wait or where R is idle. R's jumps end here.
fn run(call: &HostCall) -> Ended {
    pins::drain();
    let Some(entry) = FUNCTIONS.with_borrow(|functions| functions.of(call)) else {
        let message = format!("The custom call '{}' has no handler any more.", call.target);
        return Ended::Failed(Failure::new(NOT_FOUND, message));
    };
    // The function may remove itself.
    let entry = Protected::new(entry);
    let mut value = sexp::nil();
    let mut failed = None;
    let evaluated = sexp::interruptible(|| match evaluate(call, entry.sexp()) {
        Ok(new) => {
            sexp::preserve(new);
            value = new;
        }
        Err(BridgeFailure(error)) => failed = Some(error),
    });
    if evaluated.is_err() {
        return Ended::Interrupted;
    }
    let ended = match failed {
        Some(error) => Err(error),
        None => finish(call, value),
    };
    if !sexp::is_nil(value) {
        sexp::release(value);
    }
    match ended {
        Ok(ended) => ended,
        Err(error) if error.kind() == Kind::Interrupted => Ended::Interrupted,
        Err(error) => {
            let failure = Failure::from(error);
            Ended::Failed(Failure::new(failure.code, callbacks::mark(&failure.message, 0)))
        }
    }
}

/// The result of `evaluate_r_call()` in R/r-call.R: a list with the function's value, the message and number of its error, or
/// NULL if the user interrupted it. Not protected. R may leave this by a long jump.
fn evaluate(call: &HostCall, entry: SEXP) -> Result<SEXP> {
    let [function, buffers, attributes] = [0, 1, 2].map(|i| sexp::at(entry, i));
    let as_buffers = sexp::flag(buffers) == Some(true);
    let arguments = &call.arguments;
    let value = |argument| if as_buffers { buffer_of(call, argument) } else { array_of(argument) };
    let values = Protected::new(sexp::try_list(arguments.iter().map(value))?);
    let named = match sexp::flag(attributes) {
        Some(true) => Some(Protected::new(attribute_list(&call.attributes))),
        _ => None,
    };
    // SAFETY: on R's main thread; R protects the parts while it makes a pair, and the values are protected.
    let result = unsafe {
        let mut rest = sexp::nil();
        if let Some(named) = &named {
            rest = Rf_cons(named.sexp(), rest);
            let protected = Protected::new(rest);
            SET_TAG(protected.sexp(), Rf_install(c"attributes".as_ptr()));
        }
        for value in (0..arguments.len()).rev().map(|i| sexp::at(values.sexp(), i)) {
            rest = Rf_cons(value, rest);
        }
        rest = Rf_cons(function, rest);
        let evaluation = Protected::new(rest);
        let name = if keeps_conditions() { c"evaluate_r_call_kept" } else { c"evaluate_r_call" };
        let evaluation = Protected::new(Rf_lcons(Rf_install(name.as_ptr()), evaluation.sexp()));
        let result = Protected::new(sexp::Rf_eval(evaluation.sexp(), sexp::namespace()));
        expand(result.sexp());
        result.sexp()
    };
    Ok(result)
}

/// Has R write out the compact vectors among the results. R may leave this by a long jump.
fn expand(x: SEXP) {
    if sexp::kind(x) == SEXPTYPE::VECSXP {
        sexp::elements(x).for_each(expand);
    } else if matches!(sexp::kind(x), SEXPTYPE::INTSXP | SEXPTYPE::REALSXP) && sexp::is_compact(x) {
        sexp::expand(x);
    }
}

/// An argument as an R vector or array; not protected.
fn array_of(argument: &Operand) -> Result<SEXP> {
    let spec = &argument.spec;
    let host_type = spec.dtype.info().host_type;
    let array = Protected::new(transfer::new_array(spec, host_type)?);
    transfer::fill_from(array.sexp(), spec, host_type, checks(sexp::nil())?, &argument.elements())?;
    Ok(array.sexp())
}

/// An argument as a buffer, with a copy of its elements; not protected.
fn buffer_of(call: &HostCall, argument: &Operand) -> Result<SEXP> {
    let (context, number) = call.context();
    let device = context.and_then(|context| context.downcast_ref::<HostContext>()?.device(number));
    let Some(device) = device else {
        bail!(
            UnsupportedCall,
            "The plugin does not tell on which device the call is, so its arguments cannot be buffers. Register the \
             function with as = \"array\"."
        );
    };
    let (spec, elements) = (&argument.spec, argument.elements());
    let copy = Protected::new(crate::memory::pooled_vector(SEXPTYPE::RAWSXP, elements.len(), 1)?);
    // SAFETY: a new raw vector of this length.
    unsafe { RAW(copy.sexp()).copy_from_nonoverlapping(elements.as_ptr(), elements.len()) };
    drop(elements);
    buffer::from_elements(copy.sexp(), spec.dtype, &spec.dims, HostOrder::RowMajor, &device)
}

/// The attributes of a call as a named list; not protected.
fn attribute_list(attributes: &[(String, Attribute)]) -> SEXP {
    sexp::named(attributes.iter().map(|(name, _)| name.as_str()), attributes.iter().map(|(_, value)| attribute(value)))
}

/// An attribute as an R value; not protected.
fn attribute(value: &Attribute) -> SEXP {
    match value {
        Attribute::Bool(value) => sexp::new_flag(*value),
        Attribute::Integer(value) if is_exact(value) => sexp::new_whole_numbers(&[*value as i64]),
        // R's doubles do not hold it.
        Attribute::Integer(value) => sexp::new_string(&value.to_string()),
        Attribute::Float(value) => sexp::new_doubles(&[*value]),
        Attribute::String(bytes) => sexp::new_string(&String::from_utf8_lossy(bytes)),
        Attribute::Array(dtype, bytes) => elements_of(*dtype, bytes).unwrap_or(sexp::nil()),
        Attribute::Dictionary(attributes) => attribute_list(attributes),
        Attribute::Other => sexp::nil(),
    }
}

/// Whether R's doubles hold an integer and those next to it.
fn is_exact(value: &i128) -> bool {
    value.abs() <= 1 << 53
}

/// The elements of an array as an R vector; not protected.
fn elements_of(dtype: DType, bytes: &[u8]) -> Result<SEXP> {
    let integers: Vec<i128> = Reader::new(dtype)
        .iter(bytes)
        .filter_map(|element| match element {
            Scalar::Signed(value) => Some(value.into()),
            Scalar::Unsigned(value) => Some(value.into()),
            _ => None,
        })
        .collect();
    if !integers.iter().all(is_exact) {
        let texts: Vec<_> = integers.iter().map(i128::to_string).collect();
        return Ok(sexp::new_strings(texts.iter().map(String::as_str)));
    }
    let spec = Spec::new(dtype, &[(bytes.len() / dtype.host_bytes().max(1)) as i64])?;
    let host_type = match dtype.info().host_type {
        // Whole numbers are doubles if they are not integers, as in R.
        HostType::Integer64 => HostType::Double,
        // As an integer, it would be NA.
        HostType::Integer if integers.contains(&i32::MIN.into()) => HostType::Double,
        other => other,
    };
    let vector = Protected::new(transfer::new_array(&spec, host_type)?);
    transfer::fill_from(vector.sexp(), &spec, host_type, false, bytes)?;
    sexp::set_dims(vector.sexp(), sexp::nil());
    Ok(vector.sexp())
}

/// Passes on what the function returned. `value` comes from [`evaluate`].
fn finish(call: &HostCall, value: SEXP) -> pjrt_base::error::Result<Ended> {
    if sexp::is_nil(value) {
        return Ok(Ended::Interrupted);
    }
    // SAFETY: the value is kept.
    let texts: Vec<_> = unsafe { sexp::texts(value) }.map(Option::unwrap_or_default).collect();
    if let [message, number] = texts[..] {
        let message = callbacks::mark(message, number.parse().unwrap_or(0));
        return Ok(Ended::Failed(Failure::internal(message)));
    }
    let value = sexp::at(value, 0);
    let results = &call.results;
    match results.len() {
        0 => {}
        1 if !is_list(value) || sexp::len(value) != 1 => write(1, 1, &results[0], value)?,
        count if is_list(value) && sexp::len(value) == count => {
            for (i, result) in results.iter().enumerate() {
                write(i + 1, count, result, sexp::at(value, i))?;
            }
        }
        count => {
            let message = format!("The function must return a list of {count} results, not {}.", describe(value));
            return Err(Error::new(Kind::ArgumentCount, message));
        }
    }
    Ok(Ended::Done)
}

/// Writes a result, counted from 1, to the memory of the program.
fn write(number: usize, count: usize, result: &Operand, x: SEXP) -> pjrt_base::error::Result<()> {
    let spec = &result.spec;
    let which = if count == 1 { "The result".to_owned() } else { format!("Result {number}") };
    if handle::is_null(x) {
        // Without its content, it fails below.
        let _ = sent::with_needed(|| handle::get::<Buffer>(x, "x").map(drop));
    }
    if let Some(buffer) = handle::find::<Buffer>(x) {
        let got = buffer.spec();
        if got.dtype != spec.dtype || got.dims != spec.dims {
            let message = format!("{which} must be {spec}, but the function returned a buffer of {got}.");
            return Err(Error::new(
                if got.dtype != spec.dtype { Kind::DtypeMismatch } else { Kind::ShapeMismatch },
                message,
            ));
        }
        let ready = buffer.wait()?;
        let view = ready.view()?;
        // SAFETY: `copy` writes all elements.
        return unsafe { result.write(|target| view.copy(buffer.spec(), HostOrder::RowMajor, target)) };
    }
    let data =
        |kind: Kind| Error::new(kind, format!("{which} must be {spec}, but the function returned {}.", shaped(x)));
    if sexp::is_object(x) && !sexp::inherits(x, c"integer64") {
        return Err(data(Kind::InvalidType));
    }
    let host_type = r_type_of(x).map_err(|_| data(Kind::InvalidType))?;
    // SAFETY: the value is kept.
    let dims: Vec<i64> = unsafe { sexp::dim(x) }.iter().map(|&dim| dim.into()).collect();
    let fits = if dims.is_empty() {
        sexp::len(x) == spec.len() && spec.dims.len() <= 1
    } else {
        dims == *spec.dims || (spec.dims.is_empty() && dims == [1])
    };
    ensure!(fits, data(Kind::ShapeMismatch));
    let array = HostArray {
        dims: &spec.dims,
        order: HostOrder::ColumnMajor,
        content: HostContent::Values(buffer::values(x, host_type)),
    };
    let check = if checks(sexp::nil()).map_err(|BridgeFailure(error)| error)? { Check::All } else { Check::Missing };
    let refused = |error: Error| match error.kind() {
        Kind::UnsupportedDtype => data(Kind::UnsupportedDtype).hint(error.message().to_owned()),
        _ => error,
    };
    // SAFETY: the vector is kept, and the memory is the result's.
    let lost = unsafe { result.write(|target| write_elements(spec, &array, check, target)) }.map_err(refused)?;
    match lost {
        Some(lost) => Err(buffer::misfits(lost, spec.dtype).0),
        None => Ok(()),
    }
}

/// An R value in words, with its dimensions.
fn shaped(x: SEXP) -> String {
    // SAFETY: the value is kept.
    let dims = unsafe { sexp::dim(x) };
    if dims.len() < 2 || sexp::is_object(x) {
        return describe(x);
    }
    let dims: Vec<_> = dims.iter().map(i32::to_string).collect();
    format!("{} with dimensions ({})", describe(x), dims.join(", "))
}
