//! `print_tensor`: a custom call that prints its argument.

use crate::frame::{Array, Attribute, Frame, Outcome};
use crate::host::unpacked;
use pjrt_base::console;
use pjrt_base::process;
use pjrt_base::sync::Unpoisoned;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_data::print::{render, HostBytes, Options};
use std::borrow::Cow;
use std::sync::Mutex;

pub const TARGET: &str = "print_tensor";

static LIMITS: Mutex<Option<Options>> = Mutex::new(None);

/// Sets the limits of the output from now on.
pub fn set_limits(limits: Options) {
    *LIMITS.lock().unpoisoned() = Some(limits);
}

/// Prints the argument; a result is a copy of it.
pub(super) fn print_tensor(frame: &Frame<'_>) -> Outcome {
    // SAFETY: this handler is registered for hosts alone, and copies the argument to the result only later.
    print_with(frame, |x| Ok(Cow::Borrowed(unsafe { x.bytes() })), |x, result| x.copy_to(&result))
}

/// The same for a device whose memory these functions read and copy.
pub(super) fn print_with<'a>(
    frame: &Frame<'a>,
    read: impl FnOnce(Array<'a>) -> Outcome<Cow<'a, [u8]>>,
    copy: impl FnOnce(Array<'a>, Array<'a>) -> Outcome,
) -> Outcome {
    let (arguments, results) = (frame.arguments(), frame.results());
    if arguments != 1 || results > 1 {
        bail!(InvalidInput, "Expected 1 argument and at most 1 result, but got {arguments} and {results}.");
    }
    let x = frame.argument(0)?;
    let result = if results == 1 { Some(frame.result(0)?) } else { None };
    if let Some(result) = result.as_ref().filter(|result| (result.dtype, result.dims) != (x.dtype, x.dims)) {
        let [from, to] = [&x, result].map(|array| Spec::new(array.dtype, array.dims));
        bail!(InvalidInput, "Expected a result of its argument's type, {}, got {}.", from?, to?);
    }
    let header = line(frame, "print_header", || "PJRTBuffer".into())?;
    let footer = line(frame, "print_footer", || footer(&x))?;
    // The plugin is the caller, so nothing of the host may run here.
    let elements = process::without_poll(|| elements(&x, &read(x)?))?;
    if let Some(result) = result {
        copy(x, result)?;
    }
    console::push(format!("{header}{elements}{footer}"));
    Ok(())
}

/// A line of text: the attribute's, or the default; nothing for an empty one.
fn line(frame: &Frame<'_>, name: &str, default: impl FnOnce() -> String) -> Outcome<String> {
    let text = match frame.attribute(name) {
        None => default(),
        Some(Attribute::String(bytes)) => String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}"),
        Some(_) => bail!(InvalidInput, "The attribute '{name}' must be a string."),
    };
    Ok(if text.is_empty() { text } else { text + "\n" })
}

/// `[ f32{2,3} ]`, with the name that the type has outside PJRT.
fn footer(x: &Array<'_>) -> String {
    let dims: Vec<_> = x.dims.iter().map(ToString::to_string).collect();
    let dtype = if x.dtype == DType::Pred { "bool" } else { x.dtype.name() };
    format!("[ {dtype}{{{}}} ]", dims.join(","))
}

/// The lines with the elements.
fn elements(x: &Array<'_>, bytes: &[u8]) -> Outcome<String> {
    let limits = LIMITS.lock().unpoisoned().unwrap_or_default();
    let dims: Vec<usize> = x.dims.iter().map(|&dim| dim as usize).collect();
    let spec = Spec::new(x.dtype, x.dims)?;
    let bytes = if x.dtype.is_packed() { Cow::Owned(unpacked(&spec, bytes)) } else { Cow::Borrowed(bytes) };
    Ok(render(x.dtype, &dims, &mut HostBytes::new(x.dtype, &bytes), &limits)?)
}
