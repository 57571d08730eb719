//! Operators on buffers: what R calls with them is computed on their device, by small programs that are kept.

use crate::arrays::buffer::{self, default_dtype};
use crate::execution::execute::{Inputs, NewOutputs};
use crate::memory;
use crate::programs::{cache, compile};
use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::handle;
use crate::r::sexp::{self, Protected};
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_base::error::{Error, Kind};
use pjrt_base::reason::Reason;
use pjrt_core::executable::execute::{ExecuteOptions, Outputs};
use pjrt_core::executable::ProgramInput;
use pjrt_core::operators::scalars::{Number, Scalars};
use pjrt_core::operators::{Operators, Request};
use pjrt_core::{Buffer, Client, Executable};
use pjrt_data::convert::{Check, LossReport, NA_INTEGER};
use pjrt_data::dtype::{DType, HostType};
use pjrt_data::layout::format_dims;
use pjrt_program::eager::Operation;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

thread_local! {
    // Never dropped: the process ends after its clients.
    static OPERATORS: ManuallyDrop<RefCell<Operators>> = ManuallyDrop::default();
    static SCALARS: ManuallyDrop<RefCell<Scalars>> = ManuallyDrop::default();
}

/// Owned by a call, where R data became some of them.
type Operands<'a> = SmallVec<[Cow<'a, Buffer>; 2]>;

/// `operator_1(name, x, parameters)`: a function of a buffer, with whole numbers as parameters, or nil for none.
pub fn operator_1(name: SEXP, x: SEXP, parameters: SEXP) -> Result<SEXP> {
    let operation = operation(name)?;
    let x = handle::get(x, "x")?;
    sexp::over_jumps(numbers(parameters)?, |parameters| compute(operation, &[x], parameters))
}

/// `operator_2(name, x, y)`: an operator whose operands have one shape, except for scalars. One of them, at least, is a buffer.
pub fn operator_2(name: SEXP, x: SEXP, y: SEXP) -> Result<SEXP> {
    let operation = operation(name)?;
    if let (Some(x), Some(y)) = (handle::find::<Buffer>(x), handle::find::<Buffer>(y)) {
        return compute(operation, &[x, y], &[]);
    }
    // As R does: a product is exact.
    if let (Operation::Power, Some(x), Some(2.0)) = (operation, handle::find::<Buffer>(x), sexp::number(y)) {
        if x.dtype().is_float() {
            return compute(Operation::Multiply, &[x, x], &[]);
        }
    }
    with_data(operation, &[x, y], &[], true)
}

/// `operator_n(name, operands, parameters)`: a function of the elements of a list, at least one of them a buffer. Arrays may have
/// any shape.
pub fn operator_n(name: SEXP, operands: SEXP, parameters: SEXP) -> Result<SEXP> {
    let operation = operation(name)?;
    let owned = (numbers(parameters)?, sexp::elements(operands).collect::<SmallVec<[SEXP; 8]>>());
    sexp::over_jumps(owned, |(parameters, operands)| with_data(operation, operands, parameters, false))
}

/// Drops what is kept for a closed client.
pub fn forget(client: &Client) {
    OPERATORS.with(|operators| operators.borrow_mut().forget(client));
    SCALARS.with(|scalars| scalars.borrow_mut().forget(client));
}

/// `operator_counts()`: how many programs are kept, were made, and made room for others.
pub fn operator_counts() -> Result<SEXP> {
    let counts = OPERATORS.with(|operators| operators.borrow().counts());
    Ok(sexp::record(&[
        ("operators", &|| sexp::new_doubles(&[counts.kept as f64])),
        ("operators_made", &|| sexp::new_doubles(&[counts.made as f64])),
        ("operators_evicted", &|| sexp::new_doubles(&[counts.evictions as f64])),
    ]))
}

fn operation(name: SEXP) -> Result<Operation> {
    // SAFETY: R protects the argument.
    let name = unsafe { sexp::string(name) };
    match name.and_then(Operation::from_name) {
        Some(operation) => Ok(operation),
        None => {
            let message = format!("There is no `{}` for buffers.", name.unwrap_or_default());
            Err(refused(Error::new(Kind::InvalidInput, message)))
        }
    }
}

fn numbers(parameters: SEXP) -> Result<Vec<i64>> {
    if sexp::is_nil(parameters) {
        return Ok(Vec::new());
    }
    match sexp::whole_numbers(parameters) {
        Some(numbers) => Ok(numbers),
        None => bail!(InvalidType, "Parameters of an operator must be whole numbers, not {}.", describe(parameters)),
    }
}

/// Runs the program for these operands. R may leave this by a long jump.
fn compute(operation: Operation, operands: &[&Buffer], parameters: &[i64]) -> Result<SEXP> {
    let all_float = operands.iter().all(|operand| operand.dtype().is_float());
    // To look up an option takes time, which matters here.
    let float = if all_float { DType::F32 } else { default_dtype(HostType::Double)? };
    let executable = program(&Request { operation, operands, parameters, float })?;
    memory::collect_under_pressure(executable.client())?;
    sexp::over_jumps(executable, |executable| {
        let outputs = NewOutputs::new(executable, true);
        let _protected = Protected::new(outputs.value());
        let made = match run(executable, operands) {
            Err(Failure(error)) if is_by_layout(&error, executable, operands) => {
                drop(error);
                let relaid = Protected::new(relaid(executable, operands)?);
                let operands: Result<SmallVec<[&Buffer; 8]>> =
                    sexp::elements(relaid.sexp()).map(|x| handle::get(x, "x")).collect();
                run(executable, &operands?)?
            }
            made => made?,
        };
        // SAFETY: protected above.
        unsafe { outputs.fill(made) };
        Ok(outputs.value())
    })
}

/// The program for a request. R may leave this by a long jump.
fn program(request: &Request) -> Result<Executable> {
    let found = OPERATORS.with(|operators| operators.borrow_mut().find(request)).map_err(refused)?;
    match found {
        Some(executable) => Ok(executable),
        None => make(request),
    }
}

/// The program that puts a row-major copy of a buffer into this buffer's layout; `None` if this is row-major too. R may leave
/// this by a long jump.
pub fn layout_program(buffer: &Buffer) -> Result<Option<Executable>> {
    if buffer.spec().minor_to_major.is_none() {
        return Ok(None);
    }
    let copy = buffer.duplicate()?;
    let orders = [copy.spec(), buffer.spec()].map(|spec| spec.order()).concat();
    sexp::over_jumps((copy, orders), |(copy, parameters)| {
        program(&Request { operation: Operation::Layout, operands: &[copy], parameters, float: DType::F32 }).map(Some)
    })
}

fn run(executable: &Executable, operands: &[&Buffer]) -> Result<Outputs> {
    let run = || executable.execute(operands, &ExecuteOptions::default());
    Ok(memory::with_retry(|| executable.needs(), run)?)
}

/// Whether an execution failed because inputs have other layouts in device memory than the program expects.
pub fn is_by_layout(error: &Error, executable: &Executable, inputs: &[&Buffer]) -> bool {
    error.kind() == Kind::LayoutMismatch && !are_laid_out(executable, inputs)
}

/// Whether buffers have the layouts in device memory that a program expects of its inputs.
fn are_laid_out(executable: &Executable, inputs: &[&Buffer]) -> bool {
    let expected = &executable.signature().inputs;
    let has_layout = |(input, want): (&&Buffer, &ProgramInput)| input.spec().minor_to_major == want.spec.minor_to_major;
    inputs.len() != expected.len() || inputs.iter().zip(expected).all(has_layout)
}

/// The buffers in the layouts that a program expects, as [`relaid`]; `None` if they have these already. R may leave this by a
/// long jump.
pub fn laid_out(executable: &Executable, inputs: Inputs<'_>) -> Result<Option<SEXP>> {
    if are_laid_out(executable, &inputs) {
        return Ok(None);
    }
    sexp::over_jumps(inputs, |inputs| relaid(executable, inputs)).map(Some)
}

/// The buffers in the layouts that a program expects: a list of handles, in which copies replace the buffers of other layouts. The
/// number of inputs is right. Not protected. R may leave this by a long jump.
#[cold]
pub fn relaid(executable: &Executable, inputs: &[&Buffer]) -> Result<SEXP> {
    sexp::try_list(inputs.iter().zip(&executable.signature().inputs).map(|(input, want)| {
        let is_other = input.is_dead() || input.dtype() != want.spec.dtype || input.dims() != &*want.spec.dims;
        if is_other || input.spec().minor_to_major == want.spec.minor_to_major {
            return Ok(handle::wrap((*input).clone()));
        }
        let orders = [input.spec(), &want.spec].map(|spec| spec.order()).concat();
        sexp::over_jumps(orders, |orders| compute(Operation::Layout, &[input], orders))
    }))
}

/// Makes a program, and keeps it. R may leave this by a long jump.
#[cold]
fn make(request: &Request) -> Result<Executable> {
    let settings = Protected::new(sexp::call_ours(c"operator_settings", sexp::nil()));
    let part = |name| sexp::element(settings.sexp(), name).unwrap_or_else(sexp::nil);
    let most = sexp::number(part("most")).unwrap_or_default() as usize;
    let cache = cache::get(&sexp::robj(part("cache")))?;
    let dispatch = compile::dispatch_option()?;
    let needs = || format!("the program of `{}`", request.operation.name());
    let compiled = memory::with_retry(needs, || request.compile(cache.as_ref(), dispatch));
    let executable = compiled.map_err(refused)?;
    OPERATORS.with(|operators| operators.borrow_mut().keep(request, executable.clone(), most))?;
    Ok(executable)
}

/// Runs an operator some of whose operands are R data. R may leave this by a long jump.
#[cold]
fn with_data(operation: Operation, given: &[SEXP], parameters: &[i64], has_one_shape: bool) -> Result<SEXP> {
    let Some(beside) = given.iter().find_map(|&x| handle::find::<Buffer>(x)) else {
        return Err(no_buffer(given));
    };
    // Arrays come first: R may jump while it makes their objects, and nothing is owned yet.
    let uploaded = Protected::new(sexp::vector(SEXPTYPE::VECSXP, given.len()));
    for (i, &x) in given.iter().enumerate() {
        if handle::find::<Buffer>(x).is_none() {
            check_data(operation, x)?;
            if !(has_one_shape && sexp::len(x) == 1) {
                sexp::set_at(uploaded.sexp(), i, upload(operation, x, beside, has_one_shape)?);
            }
        }
    }
    sexp::over_jumps(Operands::new(), |operands| {
        for (i, &x) in given.iter().enumerate() {
            let made = sexp::at(uploaded.sexp(), i);
            operands.push(if let Some(buffer) = handle::find::<Buffer>(x) {
                Cow::Borrowed(buffer)
            } else if sexp::is_nil(made) {
                Cow::Owned(scalar(operation, x, beside)?)
            } else {
                Cow::Borrowed(handle::get(made, "data")?)
            });
        }
        let all: SmallVec<[&Buffer; 8]> = operands.iter().map(|operand| &**operand).collect();
        sexp::over_jumps(all, |all| compute(operation, all, parameters))
    })
}

#[cold]
fn no_buffer(given: &[SEXP]) -> Failure {
    // One was a buffer when R chose the method.
    let dead = given.iter().find(|&&x| sexp::kind(x) == SEXPTYPE::EXTPTRSXP);
    handle::no_handle::<Buffer>(dead.copied().unwrap_or_else(sexp::nil), "`x`")
}

/// Checks that R data are numbers, without missing ones where results would differ from R's.
fn check_data(operation: Operation, x: SEXP) -> Result<()> {
    use Operation as Op;
    let name = operation.name();
    let is_number =
        matches!(sexp::kind(x), SEXPTYPE::LGLSXP | SEXPTYPE::INTSXP | SEXPTYPE::REALSXP | SEXPTYPE::CPLXSXP);
    if sexp::kind(x) == SEXPTYPE::EXTPTRSXP {
        return Err(handle::no_handle::<Buffer>(x, "An operand"));
    }
    if !is_number || sexp::is_object(x) && !sexp::inherits(x, c"integer64") {
        let message = format!("`{name}` takes buffers, and numbers of R, not {}.", describe(x));
        return Err(refused(Error::new(Kind::InvalidType, message)));
    }
    let is_test = matches!(
        operation,
        Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual | Op::And | Op::Or
    );
    if is_test && has_na(x) {
        let message = format!("`{name}` cannot take NA: logical values on a device are true or false.");
        let error = Error::new(Kind::InvalidInput, message);
        return Err(refused(error.hint("NaN stands for missing values on a device: is.nan(x) finds them.")));
    }
    Ok(())
}

fn has_na(x: SEXP) -> bool {
    const NA_INTEGER64: i64 = i64::MIN;
    // SAFETY: R protects the data, and nobody writes into them; here and below.
    let (integers, doubles) = unsafe { (sexp::integers(x), sexp::doubles(x)) };
    if sexp::inherits(x, c"integer64") {
        return doubles.iter().any(|value| value.to_bits() as i64 == NA_INTEGER64);
    }
    // SAFETY: as above.
    let complexes = unsafe { sexp::complexes(x) };
    integers.contains(&NA_INTEGER)
        || doubles.iter().any(|&value| value.is_nan() && sexp::is_na(value))
        || complexes.iter().any(|parts| parts.iter().any(|&part| sexp::is_na(part)))
}

/// The dtype of R data beside a buffer: the buffer's, if that is a type for such numbers.
fn dtype_beside(x: SEXP, host_type: HostType, buffer: DType) -> Result<DType> {
    let is_complex = matches!(buffer, DType::C64 | DType::C128);
    Ok(match host_type {
        HostType::Complex if is_complex => buffer,
        HostType::Complex if buffer == DType::F64 => DType::C128,
        HostType::Complex => DType::C64,
        _ if buffer.is_float() => buffer,
        _ if buffer == DType::C64 => DType::F32,
        _ if is_complex => DType::F64,
        HostType::Logical => buffer,
        HostType::Integer | HostType::Integer64 if buffer == DType::Pred => default_dtype(host_type)?,
        HostType::Integer64 if !matches!(buffer, DType::I64 | DType::U64) => DType::I64,
        HostType::Integer | HostType::Integer64 => buffer,
        HostType::Double => {
            // SAFETY: R protects the data, and nobody writes into them.
            let are_whole = unsafe { sexp::doubles(x) }.iter().all(|value| value.fract() == 0.0 || sexp::is_na(*value));
            if are_whole && buffer.is_integer() {
                buffer
            } else {
                default_dtype(host_type)?
            }
        }
    })
}

/// Which values are an error: those that integers cannot hold. Floats are rounded.
fn check_for(dtype: DType) -> Check {
    if dtype.is_integer() || dtype == DType::Pred {
        Check::All
    } else {
        Check::Missing
    }
}

/// A number of R as a buffer.
fn scalar(operation: Operation, x: SEXP, beside: &Buffer) -> Result<Buffer> {
    let host_type = buffer::r_type_of(x)?;
    let dtype = dtype_beside(x, host_type, beside.dtype())?;
    // SAFETY: R protects the data; the one value is copied at once.
    let (integer, double) = unsafe { (sexp::integers(x).first(), sexp::doubles(x).first()) };
    // SAFETY: as above.
    let complex = unsafe { sexp::complexes(x) }.first();
    let number = match (host_type, integer, double, complex) {
        (HostType::Logical | HostType::Integer, Some(value), ..) => Number::new(host_type, &value.to_ne_bytes()),
        // R has 64-bit integers in the place of doubles.
        (HostType::Double | HostType::Integer64, _, Some(value), _) => Number::new(host_type, &value.to_ne_bytes()),
        (HostType::Complex, _, _, Some(&parts)) => Number::complex(parts),
        _ => bail!(Internal, "A number of R has another type than its vector."),
    };
    let made = SCALARS.with(|scalars| scalars.borrow_mut().get(&beside.device(), dtype, number, check_for(dtype)));
    made.map_err(refused)?.map_err(|lost| misfit(operation, x, dtype, lost))
}

/// An array of R as a buffer; not protected. R may leave this by a long jump.
fn upload(operation: Operation, x: SEXP, beside: &Buffer, has_one_shape: bool) -> Result<SEXP> {
    let host_type = buffer::r_type_of(x)?;
    let dtype = dtype_beside(x, host_type, beside.dtype())?;
    // SAFETY: R protects the data and its attributes.
    let is_vector = unsafe { sexp::dim(x) }.is_empty();
    let takes_shape = is_vector && has_one_shape && sexp::len(x) == beside.spec().len();
    let dims = if takes_shape { beside.dims().into() } else { buffer::own_dims(x) };
    if has_one_shape && !beside.dims().is_empty() && *dims != *beside.dims() {
        let given = if is_vector { describe(x) } else { format!("an array of {}", format_dims(&dims)) };
        let message =
            format!("`{}` cannot combine {} with {given}: only scalars are recycled.", operation.name(), beside.spec());
        return Err(refused(Error::new(Kind::ShapeMismatch, message)));
    }
    let made = sexp::over_jumps(dims, |dims| {
        buffer::uploaded_or_lost(x, host_type, dtype, &beside.device(), dims, check_for(dtype))
    });
    made.map_err(|Failure(error)| refused(error))?.map_err(|lost| misfit(operation, x, dtype, lost))
}

#[cold]
fn misfit(operation: Operation, x: SEXP, dtype: DType, lost: LossReport) -> Failure {
    let (name, given) = (operation.name(), describe(x));
    let message = if lost.missing > 0 {
        format!("`{name}` cannot take NA with a buffer of {dtype}, which has no missing values.")
    } else if sexp::len(x) == 1 {
        format!("`{name}` cannot take {given} with a buffer of {dtype}, which cannot hold it.")
    } else {
        format!("`{name}` cannot take {given} with a buffer of {dtype}, which cannot hold element {}.", lost.first + 1)
    };
    refused(Error::new(Kind::InvalidInput, message))
}

/// An error, with the advice to compute in R for what an operator cannot do.
#[cold]
fn refused(error: Error) -> Failure {
    match error.kind() {
        Kind::ArgumentCount
        | Kind::DeviceMismatch
        | Kind::InvalidInput
        | Kind::InvalidType
        | Kind::ShapeMismatch
        | Kind::UnsupportedDtype => Failure(error.hint(Reason::ComputeInR)),
        _ => Failure(error),
    }
}
