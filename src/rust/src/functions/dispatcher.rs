//! Dispatchers: find the executable that was compiled for arguments like the given ones, and run it.
//!
//! Functions of the user run only where nothing is owned here: they may jump, and may call the same dispatcher. So the
//! arguments are looked at again after each of them.

mod entry;
mod request;
mod run;

use crate::functions::tree;
use crate::r::conditions::{flag, Failure, Result};
use crate::r::describe::describe;
use crate::r::handle::{self, EmptyHandle, Owned};
use crate::r::sexp::{self, Protected};
use entry::CompiledCall;
use extendr_ffi::*;
use pjrt_base::error::{Error, Kind};
use pjrt_core::Device;
use request::Request;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::os::raw::c_int;
use std::rc::Rc;

owned!(Dispatcher, c"Dispatcher");

/// What does not change, and the cache.
pub struct Dispatcher {
    capacity: usize,
    /// Names of arguments that are part of the key instead of inputs.
    statics: Vec<String>,
    backend: String,
    move_inputs: bool,
    /// Whether there is a `context`: avals are then of another form.
    is_newer: bool,
    /// By the hash of the key.
    entries: RefCell<HashMap<u64, Vec<Rc<CompiledCall>>>>,
    /// Places in the R list of entries that are not in use.
    free: RefCell<Vec<usize>>,
    /// Counts the uses, for the order of the entries.
    clock: Cell<u64>,
    /// The number of known devices.
    devices: Cell<usize>,
}

// R objects of a dispatcher, in a list in the handle's protected slot.
const COMPILE: usize = 0;
const DEFAULT_DEVICE: usize = 1;
const EXTRACTOR: usize = 2;
const CONTEXT: usize = 3;
/// The name of the backend.
const BACKEND: usize = 4;
/// The list of the entries' R objects, which grows.
const ENTRIES: usize = 5;
/// The list of the devices that were seen, which grows.
const DEVICES: usize = 6;
const PARTS: usize = 7;

/// `dispatcher_new(capacity, functions, static, backend, move_inputs)`: `functions` are `compile`, `default_device`,
/// `extractor` and `context`.
pub fn dispatcher_new(
    capacity: SEXP,
    functions: SEXP,
    statics: SEXP,
    backend: SEXP,
    move_inputs: SEXP,
) -> Result<SEXP> {
    let parts = Protected::new(sexp::vector(SEXPTYPE::VECSXP, PARTS));
    (COMPILE..BACKEND).for_each(|i| sexp::set_at(parts.sexp(), i, sexp::at(functions, i)));
    sexp::set_at(parts.sexp(), BACKEND, backend);
    sexp::set_at(parts.sexp(), ENTRIES, sexp::vector(SEXPTYPE::VECSXP, 0));
    sexp::set_at(parts.sexp(), DEVICES, sexp::vector(SEXPTYPE::VECSXP, 0));
    EmptyHandle::over(parts.sexp()).filled(|| {
        let Some(capacity) = sexp::number(capacity).filter(|&capacity| capacity >= 1.0) else {
            bail!(InvalidType, "capacity must be a positive count, not {}.", describe(capacity));
        };
        // SAFETY: R protects the argument.
        let Some(backend) = (unsafe { sexp::string(backend) }) else {
            bail!(InvalidType, "`backend` must be one string, not {}.", describe(backend));
        };
        Ok(Dispatcher {
            capacity: capacity as usize,
            statics: tree::texts(statics, "static")?,
            backend: backend.to_owned(),
            move_inputs: flag(move_inputs, "move_inputs")?,
            is_newer: !sexp::is_nil(sexp::at(functions, CONTEXT)),
            entries: RefCell::default(),
            free: RefCell::default(),
            clock: Cell::new(0),
            devices: Cell::new(0),
        })
    })
}

/// `dispatcher_size(dispatcher)`: the number of entries.
pub fn dispatcher_size(dispatcher: SEXP) -> Result<SEXP> {
    Ok(sexp::new_whole_numbers(&[get(dispatcher)?.len() as i64]))
}

/// `dispatch(dispatcher, args)`: runs what was compiled for arguments like these.
pub fn dispatch(dispatcher: SEXP, args: SEXP) -> Result<SEXP> {
    let parts = parts_of(dispatcher)?;
    let dispatcher = get(dispatcher)?;
    if sexp::kind(args) != SEXPTYPE::VECSXP || sexp::is_object(args) {
        bail!(InvalidType, "`args` must be a list of arguments, not {}.", describe(args));
    }
    // Made by the first call, while nothing is owned.
    request::keep_names();
    let context = Protected::new(context(parts)?);
    let extracted = Protected::new(extracted(dispatcher, parts, args)?);
    let mut call = Call { dispatcher, parts, args, context: context.sexp(), extracted: extracted.sexp(), device: None };
    let device = Protected::new(sexp::vector(SEXPTYPE::VECSXP, 1));
    let mut outcome = call.attempt(sexp::nil())?;
    if let Outcome::NeedsDevice = outcome {
        sexp::set_at(device.sexp(), 0, default_device(dispatcher, parts)?);
        call.device = Some(sexp::at(device.sexp(), 0));
        outcome = call.attempt(sexp::nil())?;
    }
    if let Outcome::Missing(info) = outcome {
        let info = Protected::new(info);
        let compiled = Protected::new(evaluate((c"compile", sexp::at(parts, COMPILE)), Some((c"info", info.sexp()))));
        // Nil stands for no result below.
        ensure!(!sexp::is_nil(compiled.sexp()), InvalidType, "compile callback must return a list, not NULL.");
        outcome = call.attempt(compiled.sexp())?;
    }
    match outcome {
        Outcome::Done(value) => Ok(value),
        Outcome::Function(function, inputs) => {
            let inputs = Protected::new(inputs);
            let function = Protected::new(function);
            Ok(evaluate((c"r_fun", function.sexp()), Some((c"inputs", inputs.sexp()))))
        }
        Outcome::NeedsDevice | Outcome::Missing(_) => {
            bail!(Internal, "The dispatcher did not keep what was compiled.")
        }
    }
}

/// One call of `dispatch()`; the caller protects all of it.
struct Call<'a> {
    dispatcher: &'a Dispatcher,
    parts: SEXP,
    args: SEXP,
    context: SEXP,
    extracted: SEXP,
    /// The default device, if it was asked for.
    device: Option<SEXP>,
}

/// What an attempt leads to; its R objects are not protected.
enum Outcome {
    Done(SEXP),
    /// An R function to call, and its argument.
    Function(SEXP, SEXP),
    /// There are no arrays to find the device by.
    NeedsDevice,
    /// What `compile` gets.
    Missing(SEXP),
}

impl Call<'_> {
    /// Looks at the arguments, and runs the entry for them. `compiled` is the result of `compile` for these arguments; nil
    /// before it was called.
    fn attempt(&self, compiled: SEXP) -> Result<Outcome> {
        let request = Request::of(self)?;
        if request.device.is_none() && !self.dispatcher.move_inputs {
            return Ok(Outcome::NeedsDevice);
        }
        // R may jump from here on: nothing may wait to be dropped.
        sexp::over_jumps(request, |request| self.serve(request, compiled))
    }

    fn serve(&self, request: &mut Request, compiled: SEXP) -> Result<Outcome> {
        request.check_devices()?;
        let id = request.device.map(|device| self.dispatcher.device_id(self.parts, device));
        request.set_key(id, self.context);
        let found = self.find(request);
        let entry = match found {
            Some(entry) => entry,
            None if sexp::is_nil(compiled) => return Ok(Outcome::Missing(request::info(self, request))),
            None => self.dispatcher.insert(self, request, compiled)?,
        };
        sexp::over_jumps(entry, |entry| {
            entry.touch(&self.dispatcher.clock);
            let kept = Protected::new(entry.kept);
            run::run(self, request, entry, kept.sexp())
        })
    }

    /// The entry for a request. R may leave this by a long jump.
    fn find(&self, request: &Request) -> Option<Rc<CompiledCall>> {
        let alike: SmallVec<[Rc<CompiledCall>; 4]> =
            self.dispatcher.entries.borrow().get(&request.hash).into_iter().flatten().cloned().collect();
        // A comparison may translate strings, for which R allocates.
        sexp::over_jumps(alike, |alike| {
            let found = alike.iter().find(|entry| {
                // R's finalizers, which run during a comparison, may dispatch, too.
                entry.is_live.get() && {
                    let _kept = Protected::new(entry.kept);
                    entry.is_for(request, self.context)
                }
            });
            found.cloned()
        })
    }
}

impl Dispatcher {
    fn is_pjrt(&self) -> bool {
        self.backend == "pjrt"
    }

    fn len(&self) -> usize {
        self.entries.borrow().values().map(Vec::len).sum()
    }

    /// Adds an entry, after removing the ones that were used least recently.
    fn insert(&self, call: &Call, request: &Request, compiled: SEXP) -> Result<Rc<CompiledCall>> {
        let kept = Protected::new(entry::new_kept(call, request, compiled)?);
        // Functions of the user were called by then, which may have added the same entry.
        let entry = CompiledCall::new(call, request, kept.sexp())?;
        while self.len() >= self.capacity {
            self.evict(call.parts);
        }
        let entry = ManuallyDrop::new(entry);
        let place = self.place(call.parts);
        let entry = ManuallyDrop::into_inner(entry);
        sexp::set_at(sexp::at(call.parts, ENTRIES), place, kept.sexp());
        let entry = Rc::new(entry.at(place));
        self.entries.borrow_mut().entry(request.hash).or_default().push(Rc::clone(&entry));
        Ok(entry)
    }

    fn evict(&self, parts: SEXP) {
        let mut entries = self.entries.borrow_mut();
        let oldest =
            entries.iter().flat_map(|(&hash, alike)| alike.iter().map(move |entry| (entry.last_use.get(), hash)));
        let Some((last_use, hash)) = oldest.min() else { return };
        let Some(alike) = entries.get_mut(&hash) else { return };
        if let Some(i) = alike.iter().position(|entry| entry.last_use.get() == last_use) {
            let entry = alike.swap_remove(i);
            entry.is_live.set(false);
            sexp::set_at(sexp::at(parts, ENTRIES), entry.place, sexp::nil());
            self.free.borrow_mut().push(entry.place);
        }
        if alike.is_empty() {
            entries.remove(&hash);
        }
    }

    /// A free place in the R list of entries. R may leave this by a long jump.
    fn place(&self, parts: SEXP) -> usize {
        if let Some(place) = self.free.borrow_mut().pop() {
            return place;
        }
        grow(parts, ENTRIES, 2 * sexp::len(sexp::at(parts, ENTRIES)) + 4);
        // R's finalizers may have added entries meanwhile.
        let list = sexp::at(parts, ENTRIES);
        let mut free = self.free.borrow_mut();
        free.clear();
        free.extend((0..sexp::len(list)).filter(|&i| sexp::is_nil(sexp::at(list, i))).rev());
        free.pop().unwrap_or_default()
    }

    /// The number of a device: the same for devices that are identical. R may leave this by a long jump.
    fn device_id(&self, parts: SEXP, device: SEXP) -> usize {
        let count = self.devices.get();
        let known = |i: &usize| sexp::at(sexp::at(parts, DEVICES), *i);
        let same = (0..count).find(|i| known(i) == device);
        if let Some(id) = same.or_else(|| (0..count).find(|i| identical(known(i), device))) {
            return id;
        }
        if count == sexp::len(sexp::at(parts, DEVICES)) {
            grow(parts, DEVICES, 2 * count + 4);
        }
        let id = self.devices.get();
        sexp::set_at(sexp::at(parts, DEVICES), id, device);
        self.devices.set(id + 1);
        id
    }
}

/// Makes one of a dispatcher's lists this long, at least. R may leave this by a long jump.
fn grow(parts: SEXP, which: usize, len: usize) {
    // R's finalizers may replace the list meanwhile.
    let larger = Protected::new(sexp::list((0..len).map(|i| sexp::at(sexp::at(parts, which), i))));
    if sexp::len(sexp::at(parts, which)) < len {
        sexp::set_at(parts, which, larger.sexp());
    }
}

/// Whether R's `identical()` finds two objects the same, numbers by their bits. R may leave this by a long jump.
fn identical(a: SEXP, b: SEXP) -> bool {
    // As in R's sources: compare bits of numbers (1) and of NaN (2), and environments of functions (16); ignore bytecode and
    // the text of sources.
    const BY_BITS: c_int = 1 + 2 + 16;
    // SAFETY: on R's main thread; both are R objects.
    a == b || unsafe { R_compute_identical(a, b, BY_BITS) != Rboolean::FALSE }
}

/// Calls an R function; not protected. Its call shows these names. R may leave this by a long jump.
fn evaluate(function: (&CStr, SEXP), argument: Option<(&CStr, SEXP)>) -> SEXP {
    // SAFETY: on R's main thread; the caller protects function and argument, and the rest is protected here.
    unsafe {
        let place = Protected::new(R_NewEnv(R_GlobalEnv, 0, 2));
        let name = |(name, value): (&CStr, SEXP)| {
            let name = Rf_install(name.as_ptr());
            Rf_defineVar(name, value, place.sexp());
            name
        };
        let function = name(function);
        let call = match argument {
            Some(argument) => sexp::Rf_lang2(function, name(argument)),
            None => Rf_lang1(function),
        };
        let call = Protected::new(call);
        sexp::Rf_eval(call.sexp(), place.sexp())
    }
}

/// The value of `context()`; nil without one. Not protected. R may leave this by a long jump.
fn context(parts: SEXP) -> Result<SEXP> {
    let function = sexp::at(parts, CONTEXT);
    if sexp::is_nil(function) {
        return Ok(function);
    }
    let value = evaluate((c"context", function), None);
    if sexp::kind(value) != SEXPTYPE::STRSXP {
        bail!(InvalidType, "The value of `context()` must be a character vector, not {}.", describe(value));
    }
    Ok(value)
}

/// The value of `default_device()`; not protected. R may leave this by a long jump.
fn default_device(dispatcher: &Dispatcher, parts: SEXP) -> Result<SEXP> {
    let function = sexp::at(parts, DEFAULT_DEVICE);
    if sexp::is_nil(function) {
        bail!(
            InvalidInput,
            "The device of a call without arrays is not known without a `default_device` resolver; pass one to \
             dispatcher()."
        );
    }
    let value = evaluate((c"default_device", function), None);
    let is_device = !dispatcher.is_pjrt() || handle::get::<Device>(value, "default_device").is_ok();
    if !is_device || sexp::is_nil(value) {
        bail!(InvalidType, "the `default_device` resolver must return a PJRTDevice, not {}.", describe(value));
    }
    Ok(value)
}

/// What `extractor()` says about each array, in the order of the leaves; nil where arrays describe themselves. Not
/// protected. R may leave this by a long jump.
fn extracted(dispatcher: &Dispatcher, parts: SEXP, args: SEXP) -> Result<SEXP> {
    if dispatcher.is_pjrt() {
        return Ok(sexp::nil());
    }
    let function = sexp::at(parts, EXTRACTOR);
    let leaves = Protected::new(tree::tree_flatten(args)?);
    Ok(sexp::list(sexp::elements(leaves.sexp()).map(|leaf| {
        match request::is_array(leaf) && request::has_backend(leaf, &dispatcher.backend) {
            true => evaluate((c"extractor", function), Some((c"array", leaf))),
            false => sexp::nil(),
        }
    })))
}

fn get<'a>(dispatcher: SEXP) -> Result<&'a Dispatcher> {
    handle::get(dispatcher, "dispatcher").map_err(|_| {
        let is_saved = handle::is_null(dispatcher) && sexp::inherits(dispatcher, Dispatcher::CLASS);
        let given = match is_saved {
            true => "one that was saved and loaded. Create it again".to_owned(),
            false => describe(dispatcher),
        };
        let message = format!("`dispatcher`: expected a `Dispatcher`, not {given}.");
        Failure(Error::new(Kind::InvalidInput, message))
    })
}

/// The R objects of a dispatcher.
fn parts_of(dispatcher: SEXP) -> Result<SEXP> {
    get(dispatcher)?;
    // SAFETY: a handle, so an external pointer.
    Ok(unsafe { R_ExternalPtrProtected(dispatcher) })
}
