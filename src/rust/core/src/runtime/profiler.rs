//! Profilers of plugins, which record what devices do. Their timelines become part of a record of events.
//!
//! A profiler has a separate function table, and separate errors.

use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use pjrt_base::trace::{Activity, Details, Event, Lane, Record};
use pjrt_ffi::api::{blank_struct, text};
use pjrt_ffi::exception::guarded;
use pjrt_program::profile::{self, Profile};
use pjrt_sys::*;
use std::mem::offset_of;
use std::sync::Mutex;
use std::time::Duration;

/// The most bytes that a timeline may have.
const MOST_BYTES: usize = 4 << 30;

/// Bytes behind the buffer for a timeline, in case that a plugin ends it with a zero.
const SPARE: usize = 16;

/// A function of a profiler's table.
type Slot<A> = Option<unsafe extern "C" fn(*mut A) -> *mut PLUGIN_Profiler_Error>;

/// A profiler that records.
#[derive(Debug)]
pub struct Profiler {
    plugin: &'static Plugin,
    table: *const PLUGIN_Profiler_Api,
    handle: *mut PLUGIN_Profiler,
    generation: u32,
    is_stopped: bool,
}

// SAFETY: the table is constant, and the plugin's object is used by one thread at a time.
unsafe impl Send for Profiler {}

/// The arguments of a call: these fields, and zeros.
macro_rules! args {
    ($type:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let mut args: $type = blank_struct();
        args.struct_size = size_of::<$type>();
        $(args.$field = $value;)*
        args
    }};
}

/// A slot of the table; `None` if the plugin's table is too short for it.
macro_rules! slot {
    ($table:expr, $field:ident) => {{
        const END: usize = offset_of!(PLUGIN_Profiler_Api, $field) + size_of::<usize>();
        // SAFETY: the table has the size in its first field, and lives as long as the process.
        unsafe { ((*$table).struct_size >= END).then(|| (*$table).$field).flatten() }
    }};
}

impl Profiler {
    /// Starts the profiler of a plugin; `None` if the plugin has none. `options` is a serialized `ProfileOptions`.
    ///
    /// # Errors
    /// The profiler's errors, and `UnsupportedCall` if its table lacks a function.
    pub fn start(plugin: &'static Plugin, options: &[u8]) -> Result<Option<Profiler>> {
        let Some(table) = table(plugin) else { return Ok(None) };
        let mut create =
            args!(PLUGIN_Profiler_Create_Args { options: options.as_ptr().cast(), options_size: options.len() });
        call(plugin, table, slot!(table, create), &mut create, "PLUGIN_Profiler_Create")?;
        if create.profiler.is_null() {
            return Err(Error::new(Kind::Internal, "The plugin made no profiler.").in_call("PLUGIN_Profiler_Create"));
        }
        // From here on, its drop destroys it.
        let generation = process::generation();
        let mut profiler = Profiler { plugin, table, handle: create.profiler, generation, is_stopped: true };
        let mut start = args!(PLUGIN_Profiler_Start_Args { profiler: profiler.handle });
        call(plugin, table, slot!(table, start), &mut start, "PLUGIN_Profiler_Start")?;
        profiler.is_stopped = false;
        Ok(Some(profiler))
    }

    /// Stops it, and returns what it recorded, a serialized `XSpace`.
    ///
    /// # Errors
    /// The profiler's errors; `Forked` in the child of a fork.
    pub fn stop(mut self) -> Result<Vec<u8>> {
        ensure!(self.generation == process::generation(), process::forked());
        self.end()?;
        let name = "PLUGIN_Profiler_CollectData";
        let mut collect = args!(PLUGIN_Profiler_CollectData_Args { profiler: self.handle });
        let slot = slot!(self.table, collect_data);
        call(self.plugin, self.table, slot, &mut collect, name)?;
        let room = collect.buffer_size_in_bytes;
        if room == 0 {
            return Ok(Vec::new());
        }
        let mut buffer = Vec::new();
        if room > MOST_BYTES || buffer.try_reserve_exact(room + SPARE).is_err() {
            let message = format!("The timeline is too large: {room} bytes.");
            return Err(Error::new(Kind::Internal, message).in_call(name));
        }
        buffer.resize(room + SPARE, 0);
        collect.buffer = buffer.as_mut_ptr();
        call(self.plugin, self.table, slot, &mut collect, name)?;
        // a plugin may leave the size alone, or set it to what it wrote
        buffer.truncate(collect.buffer_size_in_bytes.min(room));
        Ok(buffer)
    }

    fn end(&mut self) -> Result<()> {
        self.is_stopped = true;
        let mut stop = args!(PLUGIN_Profiler_Stop_Args { profiler: self.handle });
        call(self.plugin, self.table, slot!(self.table, stop), &mut stop, "PLUGIN_Profiler_Stop")
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        // In the child of a fork, the plugin must not be called.
        if self.generation != process::generation() {
            return;
        }
        if !self.is_stopped {
            let _ = self.end();
        }
        let mut destroy = args!(PLUGIN_Profiler_Destroy_Args { profiler: self.handle });
        let slot = slot!(self.table, destroy);
        // Nobody is there to hear of an error.
        let _ = call(self.plugin, self.table, slot, &mut destroy, "PLUGIN_Profiler_Destroy");
    }
}

/// The functions of a plugin's profiler.
fn table(plugin: &Plugin) -> Option<*const PLUGIN_Profiler_Api> {
    const END: usize = offset_of!(PJRT_Profiler_Extension, profiler_api) + size_of::<usize>();
    let extension: *const PJRT_Profiler_Extension =
        plugin.api().extension(PJRT_Extension_Type::PJRT_Extension_Type_Profiler)?;
    // SAFETY: the chain has extensions of these types, and the size is checked.
    let table = unsafe { ((*extension).base.struct_size >= END).then(|| (*extension).profiler_api)? };
    (!table.is_null() && table.is_aligned()).then_some(table.cast_const())
}

/// Calls a function of the table. The caller keeps what the arguments point to alive.
fn call<A>(
    plugin: &Plugin,
    table: *const PLUGIN_Profiler_Api,
    function: Slot<A>,
    args: &mut A,
    name: &'static str,
) -> Result<()> {
    let Some(function) = function else {
        return Err(Error::new(Kind::UnsupportedCall, format!("The plugin has no {name}.")).in_call(name));
    };
    // SAFETY: the arguments are what the header asks for.
    let error = unsafe { guarded(plugin.api().poison(), function, &raw mut *args, name)? };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the plugin has just returned this error to us.
    Err(unsafe { take_error(table, error, name) })
}

/// Turns a profiler's error into ours and frees it.
///
/// # Safety
/// `error` must be an error that this profiler returned and nobody freed.
#[cold]
unsafe fn take_error(
    table: *const PLUGIN_Profiler_Api,
    error: *mut PLUGIN_Profiler_Error,
    name: &'static str,
) -> Error {
    const UNKNOWN: u32 = 2;
    let mut message = args!(PLUGIN_Profiler_Error_Message_Args { error: error });
    if let Some(function) = slot!(table, error_message) {
        function(&raw mut message);
    }
    let mut code = args!(PLUGIN_Profiler_Error_GetCode_Args { error: error, code: UNKNOWN as i32 });
    if let Some(function) = slot!(table, error_get_code) {
        // An error about the error adds nothing.
        destroy_error(table, function(&raw mut code));
    }
    let mut said = text(message.message, message.message_size);
    if said.is_empty() {
        said = "The profiler failed without an error message.".into();
    }
    destroy_error(table, error);
    Error::new(Kind::Pjrt(u32::try_from(code.code).unwrap_or(UNKNOWN)), said).in_call(name)
}

/// Frees a profiler's error; null is fine.
///
/// # Safety
/// As for [`take_error`].
unsafe fn destroy_error(table: *const PLUGIN_Profiler_Api, error: *mut PLUGIN_Profiler_Error) {
    let Some(function) = slot!(table, error_destroy).filter(|_| !error.is_null()) else { return };
    function(&mut args!(PLUGIN_Profiler_Error_Destroy_Args { error: error }));
}

/// The profilers that record now.
static RUNNING: Mutex<Vec<Profiler>> = Mutex::new(Vec::new());

/// Starts the profilers of all loaded plugins. Returns what failed, in words.
pub fn start_all() -> Vec<String> {
    let Some(mut running) = process::lock(&RUNNING) else { return Vec::new() };
    // of a process before a fork
    running.clear();
    let mut failures = Vec::new();
    for plugin in Plugin::loaded() {
        match Profiler::start(plugin, &profile::options()) {
            Ok(profiler) => running.extend(profiler),
            Err(error) => failures.push(failure(plugin, error.message())),
        }
    }
    failures
}

/// Stops the profilers that [`start_all`] has started, and adds their timelines to a record. Returns what failed, in words.
pub fn stop_all(record: &mut Record) -> Vec<String> {
    let running = process::lock(&RUNNING).map(|mut running| std::mem::take(&mut *running)).unwrap_or_default();
    let mut failures = Vec::new();
    for profiler in running {
        let plugin = profiler.plugin;
        let complaints = match profiler.stop().map(|bytes| profile::read(&bytes, record.began)) {
            Ok(Some(found)) => add(record, found),
            Ok(None) => vec!["The timeline is damaged.".into()],
            Err(error) => vec![error.message().into()],
        };
        failures.extend(complaints.iter().map(|said| failure(plugin, said)));
    }
    failures
}

fn failure(plugin: &Plugin, said: &str) -> String {
    format!("'{}': {said}", plugin.path().display())
}

/// Adds the part of a timeline that lies in a record. Returns what the profiler and we complain about.
fn add(record: &mut Record, found: Profile) -> Vec<String> {
    let mut complaints = found.errors;
    let length = record.length;
    let time = |nanoseconds: i64| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)).min(length);
    let is_outside = |event: &profile::Event| event.end < 0 || i128::from(event.start) > length.as_nanos() as i128;
    let mut all = 0;
    let mut events = Vec::new();
    for lane in found.lanes {
        all += lane.events.len();
        for event in lane.events.into_iter().filter(|event| !is_outside(event)) {
            let details = Details { bytes: event.bytes, ..Details::named(event.name) }.of_program(event.program);
            let (start, end) = (time(event.start), time(event.end));
            let lane = Lane::Device(lane.name.clone());
            events.push(Event { start, end, lane, activity: Activity::Device, details, site: None });
        }
    }
    if all > 0 && events.is_empty() {
        complaints.push(format!("All {all} events of the timeline lie outside of the time of the trace."));
    }
    record.merge(events);
    complaints
}
