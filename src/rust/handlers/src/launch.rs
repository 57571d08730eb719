//! What a launch passes to the handlers that its program calls, through the plugin.

use crate::completion::Completion;
use crate::frame::{self, Failure, Frame, Outcome};
use pjrt_base::callbacks;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::{call, Api, Args};
use pjrt_ffi::exception::guarded;
use pjrt_sys::*;
use std::any::Any;
use std::mem::offset_of;
use std::sync::{Arc, Mutex};

/// A launch of a program that calls the host; clones share it.
#[derive(Clone)]
pub struct Launch(Arc<Shared>);

struct Shared {
    number: u64,
    context: Box<dyn Any + Send + Sync>,
    /// On several devices, which may wait for each other.
    is_parallel: bool,
    together: Mutex<Together>,
}

/// The calls of a launch on several devices. If a call raised its error, a device that waits for another would never
/// continue, and would end the process after a while. A failed call therefore returns zeros, and the launch fails at
/// the end.
#[derive(Default)]
struct Together {
    failure: Option<Failure>,
    /// The number of calls that wait for the host.
    waiting: usize,
    /// Those that the host has run while others wait. The devices go on together, so that none waits for a function.
    done: Vec<(Completion, Outcome)>,
}

impl Launch {
    /// A launch with a unique number, and data for the host.
    pub fn new(number: u64, context: Box<dyn Any + Send + Sync>, is_parallel: bool) -> Launch {
        Launch(Arc::new(Shared { number, context, is_parallel, together: Mutex::default() }))
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    pub(super) fn context(&self) -> &(dyn Any + Send + Sync) {
        &*self.0.context
    }

    pub(super) fn is_parallel(&self) -> bool {
        self.0.is_parallel
    }

    pub(super) fn note_waiting(&self) {
        self.0.together.lock().unpoisoned().waiting += 1;
    }

    /// Notes the failure of a call, which then gives zeros.
    pub(super) fn note_failure(&self, failure: Failure) {
        self.0.together.lock().unpoisoned().failure.get_or_insert(failure);
    }

    /// Reports the outcome of a call to the program, together with the others that wait.
    pub(super) fn complete(&self, completion: Completion, outcome: Outcome) {
        let mut together = self.0.together.lock().unpoisoned();
        together.waiting = together.waiting.saturating_sub(1);
        together.done.push((completion, outcome));
        let done = if together.waiting == 0 { std::mem::take(&mut together.done) } else { Vec::new() };
        drop(together);
        done.into_iter().for_each(|(completion, outcome)| completion.complete(outcome));
    }
}

/// The plugin's object that carries a launch to handlers. It must live until the execution is complete.
pub struct Carrier {
    api: &'static Api,
    handle: *mut PJRT_ExecuteContext,
    launch: Box<Launch>,
}

// SAFETY: the plugin's object may be used on any thread.
unsafe impl Send for Carrier {}

impl Carrier {
    /// `None` if the plugin has no such objects: handlers then do not know their launch.
    pub fn new(api: &'static Api, launch: Launch) -> Option<Carrier> {
        let type_id = type_of(api)?;
        let launch = Box::new(launch);
        let handle = call!(api, PJRT_ExecuteContext_Create {}).ok()?.context;
        let carrier = Carrier { api, handle, launch };
        let extension = extension(api)?;
        // SAFETY: `extension` has checked that the extension has this field.
        let add = unsafe { (*extension).user_data_add }?;
        let mut args = Args::<PJRT_FFI_UserData_Add_Args>::new(api);
        args.fields.struct_size = api.size_of(&args);
        args.fields.context = handle;
        args.fields.user_data = PJRT_FFI_UserData { type_id, data: (&raw const *carrier.launch).cast_mut().cast() };
        // An old plugin refuses the struct by its size: its own has more, such as a function that frees the data.
        // SAFETY: the arguments are what the header asks for; the launch lives as long as the carrier.
        let is_added = unsafe { is_accepted(api, add, (&raw mut args).cast(), "PJRT_FFI_UserData_Add") };
        is_added.then_some(carrier)
    }

    /// The error of a launch on several devices, if one of its calls failed.
    ///
    /// # Errors
    /// With the code and message of the call.
    pub fn outcome(&self) -> Result<()> {
        let failure = self.launch.0.together.lock().unpoisoned().failure.clone();
        let Some(Failure { code, message }) = failure else { return Ok(()) };
        let (message, number) = callbacks::unmark(&message).unwrap_or((message, 0));
        let error = Error::new(Kind::Pjrt(code), message).in_call("PJRT_LoadedExecutable_Execute");
        Err(error.hint(Reason::CallbackFailed { number: number as usize }))
    }

    pub fn handle(&self) -> *mut PJRT_ExecuteContext {
        self.handle
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // Nothing can be done about a failure to free.
        let _ = call!(self.api, PJRT_ExecuteContext_Destroy { context: self.handle });
    }
}

fn extension(api: &Api) -> Option<*const PJRT_FFI_Extension> {
    let extension: *const PJRT_FFI_Extension = api.extension(PJRT_Extension_Type::PJRT_Extension_Type_FFI)?;
    const END: usize = offset_of!(PJRT_FFI_Extension, user_data_add) + size_of::<usize>();
    // SAFETY: the chain has extensions of these types.
    (unsafe { (*extension).base.struct_size } >= END).then_some(extension)
}

/// The plugins that know the type of our data, with its number there.
static TYPES: Mutex<Vec<(usize, Option<i64>)>> = Mutex::new(Vec::new());

/// The number of our type in a plugin, registered at first use.
fn type_of(api: &'static Api) -> Option<i64> {
    let key = &raw const *api as usize;
    let mut types = TYPES.lock().unpoisoned();
    if let Some((_, found)) = types.iter().find(|(other, _)| *other == key) {
        return *found;
    }
    let found = register(api);
    types.push((key, found));
    found
}

fn register(api: &'static Api) -> Option<i64> {
    const NAME: &str = "pjrt-core launch";
    // Without a function that frees: a carrier owns the data.
    static INFO: PJRT_FFI_Type_Info = PJRT_FFI_Type_Info { deleter: None, serialize: None, deserialize: None };
    let extension = extension(api)?;
    // SAFETY: `extension` has checked that the extension has this field.
    let register = unsafe { (*extension).type_register }?;
    let mut args = Args::<PJRT_FFI_Type_Register_Args>::new(api);
    args.fields.struct_size = api.size_of(&args);
    args.fields.type_name = NAME.as_ptr().cast();
    args.fields.type_name_size = NAME.len();
    args.fields.type_info = (&raw const INFO).cast_mut();
    // SAFETY: the arguments are what the header asks for, and the plugin only reads the information.
    let is_known = unsafe { is_accepted(api, register, (&raw mut args).cast(), "PJRT_FFI_Type_Register") };
    is_known.then_some(args.fields.type_id)
}

/// Calls a function of the extension. Returns whether it succeeds.
///
/// # Safety
/// The arguments are what the header asks for.
unsafe fn is_accepted<A>(
    api: &Api,
    function: unsafe extern "C" fn(*mut A) -> *mut PJRT_Error,
    args: *mut A,
    name: &'static str,
) -> bool {
    guarded(api.poison(), function, args, name).is_ok_and(|error| {
        let is_success = error.is_null();
        api.destroy_error(error);
        is_success
    })
}

/// The launch of a call.
pub(super) fn of(frame: &Frame<'_>) -> Option<Launch> {
    let (api, ctx) = frame.api()?;
    let known: Vec<i64> = TYPES.lock().unpoisoned().iter().filter_map(|(_, number)| *number).collect();
    let data = known.into_iter().find_map(|type_id| {
        let mut type_id = XLA_FFI_TypeId { type_id };
        let found = frame::call!(api, XLA_FFI_ExecutionContext_Get { ctx: ctx, type_id: &mut type_id });
        found.map(|args| args.data).filter(|data| !data.is_null())
    })?;
    // SAFETY: only carriers add data of this type, and this one lives until the execution is complete.
    Some(unsafe { (*data.cast::<Launch>()).clone() })
}

/// The number of the device that a call is for, if the plugin reports it.
pub(super) fn device(frame: &Frame<'_>) -> Option<i32> {
    let (api, ctx) = frame.api()?;
    let found = frame::call!(api, XLA_FFI_DeviceOrdinal_Get { ctx: ctx });
    found.map(|args| args.device_ordinal)
}
