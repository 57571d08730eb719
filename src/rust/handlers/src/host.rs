//! Handlers that run on the thread of the host language: a call describes itself and waits in [`callbacks`].

use crate::completion::Completion;
use crate::frame::{Array, Attribute, Failure, Frame, Outcome};
use crate::launch::{self, Launch};
use pjrt_base::callbacks::{self, Callback, Ran};
use pjrt_base::error::Result;
use pjrt_base::pages;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_data::array::Spec;
use pjrt_ffi::api::slice;
use pjrt_sys::XLA_FFI_Error_Code;
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};

/// A call of a function of the host.
pub struct HostCall {
    /// The name that the program calls.
    pub target: Box<str>,
    /// The number under which the function was registered.
    pub function: u64,
    pub arguments: Vec<Operand>,
    pub results: Vec<Operand>,
    /// By name, in the order of the names.
    pub attributes: Vec<(String, Attribute)>,
    launch: Option<Launch>,
    device: Option<i32>,
    /// Taken by whoever reports the outcome to the program.
    completion: Mutex<Option<Completion>>,
}

/// An array of a call, in the order of its type's dimensions.
pub struct Operand {
    pub spec: Spec,
    data: *mut u8,
    bytes: usize,
}

// SAFETY: the arrays of a call stay where they are, and nobody else uses them, until the program is told.
unsafe impl Send for Operand {}
// SAFETY: only one thread reads or writes the elements.
unsafe impl Sync for Operand {}

/// How a function ended.
pub enum Ended {
    Done,
    Failed(Failure),
    /// The user interrupted it.
    Interrupted,
}

/// Runs the function of a call, on the host's thread.
pub type Runner = fn(&HostCall) -> Ended;

static RUNNER: OnceLock<Runner> = OnceLock::new();

/// Sets what runs calls. It is always the same function.
pub fn set_runner(runner: Runner) {
    let _ = RUNNER.set(runner);
}

impl HostCall {
    fn new(frame: &Frame<'_>, function: u64, target: &str) -> Outcome<HostCall> {
        let [arguments, results] = Operand::of(frame)?;
        Ok(HostCall {
            target: target.into(),
            function,
            arguments,
            results,
            attributes: frame.attributes(),
            launch: launch::of(frame),
            device: launch::device(frame),
            completion: Mutex::default(),
        })
    }

    /// What the launch of the program was given, and the number of the device that the call is for; `None` if unknown.
    pub fn context(&self) -> (Option<&(dyn Any + Send + Sync)>, Option<i32>) {
        (self.launch.as_ref().map(Launch::context), self.device)
    }

    fn execute(&self) -> Ended {
        let mut span = trace::span(Activity::Callback, || Details::named(&*self.target));
        let ended = match RUNNER.get() {
            Some(run) => run(self),
            None => Ended::Failed(Failure::internal("Nothing runs functions of the host.")),
        };
        match &ended {
            Ended::Done => {}
            Ended::Failed(_) => span.outcome("error"),
            Ended::Interrupted => span.outcome("interrupted"),
        }
        ended
    }

    fn tell(&self, outcome: Outcome) {
        let completion = self.completion.lock().unpoisoned().take();
        match (completion, &self.launch) {
            (Some(completion), Some(launch)) if launch.is_parallel() => launch.complete(completion, outcome),
            (Some(completion), _) => completion.complete(outcome),
            (None, _) => {}
        }
    }

    fn fail(&self, failure: Failure) {
        let failure = failure.of_call(&self.target);
        match &self.launch {
            Some(launch) if launch.is_parallel() => {
                launch.note_failure(failure);
                // SAFETY: nobody else uses the memory.
                self.results.iter().for_each(|result| unsafe { result.bytes_mut() }.fill(0));
                self.tell(Ok(()));
            }
            _ => self.tell(Err(failure)),
        }
    }

    /// Has the host's thread run it.
    fn push(self, completion: Completion) {
        *self.completion.lock().unpoisoned() = Some(completion);
        if let Some(launch) = &self.launch {
            launch.note_waiting();
        }
        callbacks::push(Arc::new(self));
    }
}

impl Callback for HostCall {
    fn run(&self) -> Ran {
        match self.execute() {
            Ended::Done => self.tell(Ok(())),
            Ended::Failed(failure) => self.fail(failure),
            Ended::Interrupted => return Ran::Interrupted,
        }
        Ran::Reported
    }

    fn cancel(&self) {
        self.tell(Err(cancelled(&self.target)));
    }

    fn launch(&self) -> u64 {
        self.launch.as_ref().map_or(0, Launch::number)
    }

    fn is_urgent(&self) -> bool {
        self.launch.as_ref().is_some_and(Launch::is_parallel)
    }
}

fn cancelled(target: &str) -> Failure {
    let code = XLA_FFI_Error_Code::XLA_FFI_Error_Code_CANCELLED.0;
    Failure::new(code, format!("'{target}' was not called: the session ends."))
}

/// The handler: has the host's thread run the function, and returns at once if the plugin has futures.
pub(super) fn start(frame: &Frame<'_>, function: u64, target: &str) -> Outcome {
    ensure!(!callbacks::is_closed(), cancelled(target));
    let call = HostCall::new(frame, function, target)?;
    if callbacks::is_host() {
        // No program that calls the host is launched on its thread. If a plugin comes here all the same, nobody else can run
        // the function.
        return match call.execute() {
            Ended::Done => Ok(()),
            Ended::Failed(failure) => Err(failure),
            Ended::Interrupted => Err(cancelled(target)),
        };
    }
    Completion::of(frame, |completion| call.push(completion))
}

impl Operand {
    fn new(array: &Array<'_>) -> Outcome<Operand> {
        let spec = Spec::new(array.dtype, array.dims)?;
        Ok(Operand { spec, data: array.as_mut_ptr(), bytes: array.byte_len() })
    }

    /// The arguments and the results of a call.
    pub(super) fn of(frame: &Frame<'_>) -> Outcome<[Vec<Operand>; 2]> {
        let arguments = (0..frame.arguments()).map(|i| Operand::new(&frame.argument(i)?));
        let results = (0..frame.results()).map(|i| Operand::new(&frame.result(i)?));
        Ok([arguments.collect::<Outcome<_>>()?, results.collect::<Outcome<_>>()?])
    }

    /// Copies the elements to a result, which may have the same memory. Returns whether it has the same size; another one
    /// stays as it is.
    pub(super) fn copy_to(&self, result: &Operand) -> bool {
        let fits = self.bytes == result.bytes;
        if fits && self.bytes > 0 {
            // SAFETY: both have so many bytes; the regions may overlap.
            unsafe { std::ptr::copy(self.data, result.data, self.bytes) };
        }
        fits
    }

    /// Whether both have the same memory.
    pub(super) fn shares(&self, other: &Operand) -> bool {
        self.data == other.data
    }

    /// Prepares a result's memory, if it is new, for being written.
    pub(super) fn populate(&self) {
        // SAFETY: a result's memory is writable.
        unsafe { pages::populate(self.data, self.bytes) };
    }

    /// The elements as the program has them.
    ///
    /// # Safety
    /// Nobody may write to the memory meanwhile, not even as that of a result.
    pub(super) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        slice(self.data.cast_const(), self.bytes)
    }

    /// The same for writing.
    ///
    /// # Safety
    /// The memory must be a result's, and nobody else may use it meanwhile.
    pub(super) unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        if self.bytes > 0 {
            std::slice::from_raw_parts_mut(self.data, self.bytes)
        } else {
            &mut []
        }
    }

    /// The elements in row-major order, those narrower than a byte in a byte each.
    pub fn elements(&self) -> Cow<'_, [u8]> {
        // SAFETY: nobody writes to the memory before the results are written.
        let bytes = unsafe { self.bytes() };
        if !self.spec.dtype.is_packed() {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(unpacked(&self.spec, bytes))
    }

    /// Has `write` write the elements in that order and form, into memory for all of them, if they are a result's.
    ///
    /// # Errors
    /// As `write`; some elements may be written then.
    ///
    /// # Safety
    /// `write` returns successfully only when it has written all elements.
    pub unsafe fn write<T>(&self, write: impl FnOnce(*mut u8) -> Result<T>) -> Result<T> {
        if !self.spec.dtype.is_packed() {
            self.populate();
            return write(self.data);
        }
        let mut elements = vec![0; self.spec.len()];
        let written = write(elements.as_mut_ptr())?;
        pack(&self.spec, &elements, self.bytes_mut());
        Ok(written)
    }
}

/// The elements of a type narrower than a byte, one in each byte.
pub(super) fn unpacked(spec: &Spec, packed: &[u8]) -> Vec<u8> {
    let bits = spec.dtype.info().bits as usize;
    let in_byte = 8 / bits;
    let mask = (1u8 << bits) - 1;
    let element = |i: usize| packed.get(i / in_byte).map_or(0, |byte| byte >> (bits * (i % in_byte)) & mask);
    (0..spec.len()).map(element).collect()
}

fn pack(spec: &Spec, elements: &[u8], packed: &mut [u8]) {
    let bits = spec.dtype.info().bits as usize;
    let in_byte = 8 / bits;
    let mask = (1u8 << bits) - 1;
    packed.fill(0);
    for (i, element) in elements.iter().enumerate() {
        if let Some(byte) = packed.get_mut(i / in_byte) {
            *byte |= (element & mask) << (bits * (i % in_byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_data::dtype::DType;

    #[test]
    fn narrow_elements_are_packed_as_they_are_unpacked() {
        for (dtype, elements) in [(DType::U4, vec![1, 15, 7]), (DType::U2, vec![3, 0, 1, 2, 3])] {
            let spec = Spec::new(dtype, &[elements.len() as i64]).unwrap();
            let mut packed = vec![255; 2];
            pack(&spec, &elements, &mut packed);
            assert_eq!(unpacked(&spec, &packed), elements);
        }
    }
}
