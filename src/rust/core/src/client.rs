//! Clients: a plugin's connection to its devices. A client owns every device, memory, buffer and executable made from it.

use crate::api::{call, text, Value};
use crate::buffer;
use crate::cache::key::Settings;
use crate::compiling::{self, Pending};
use crate::defaults::KnownFlags;
use crate::device::{AllFacts, Device, Facts};
use crate::executable;
use crate::launch::{Dispatcher, InFlight, Launch, Running};
use crate::memory::{self, Memory, MemoryFacts};
use crate::plugin::Plugin;
use crate::poison;
use crate::registry::Registry;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process::{self, LastWait};
use pjrt_base::room;
use pjrt_plugins::cuda;
use pjrt_sys::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// A client; clones share it.
///
/// ```
/// use pjrt_core::{Client, Plugin, Value};
/// let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// let plugin = Plugin::load(path.as_ref())?;
/// let client = Client::create(plugin, &[("cpu_device_count".into(), Value::Int(2))])?;
/// assert_eq!(client.platform(), "cpu");
/// assert_eq!(client.devices().count(), 2);
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    plugin: &'static Plugin,
    /// Null once closed.
    handle: AtomicPtr<PJRT_Client>,
    generation: u32,
    id: u64,
    platform: String,
    platform_version: String,
    process_index: i32,
    devices: AllFacts,
    memories: Vec<MemoryFacts>,
    settings: Settings,
    /// The CUDA toolkit to name to the compiler.
    cuda_data_dir: Option<String>,
    known_flags: KnownFlags,
    live_buffers: AtomicUsize,
    live_bytes: AtomicUsize,
    live_executables: AtomicUsize,
    /// Bytes of buffers made since the owner last collected garbage.
    new_bytes: AtomicUsize,
    /// One for each device, so that devices work side by side.
    dispatchers: Vec<Dispatcher>,
    uploader: Dispatcher,
    /// What was made of it and is still held.
    buffers: Registry<buffer::Inner>,
    executables: Registry<executable::Inner>,
    /// Those that may not have ended.
    compiles: Mutex<Vec<Weak<Pending>>>,
    /// Copies on their way to the host.
    transfers: InFlight,
    /// For each device what it was given and has not done.
    in_flight: Vec<InFlight>,
    /// One for each device where XLA's CPU client has several, see [`Client::running`].
    running: Vec<Running>,
    /// Held while a launch is handed to the threads of several devices.
    launch_order: Mutex<()>,
}

/// Every client that is open: it lives until it is closed or the process exits, whoever holds it.
static OPEN: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// The largest device count a CPU client is asked for; the plugin answers more with no device at all.
const MAX_CPU_DEVICES: i64 = 4096;

/// What XLA's client takes for its threads, without which it ends the process.
const ADDRESS_SPACE: usize = 128 << 20;

/// XLA's name of the platform.
const CPU: &str = "cpu";

impl Client {
    /// Makes a client of `plugin`. `options` are the platform's own, such as `cpu_device_count`.
    ///
    /// # Errors
    /// `InvalidInput` for an option that would make the plugin abort, `DriverMissing`, `DriverTooOld` and `LibraryMissing`
    /// where CUDA lacks something, and the plugin's own errors.
    pub fn create(plugin: &'static Plugin, options: &[(String, Value)]) -> Result<Client> {
        process::watch_forks();
        check_generation()?;
        check_options(options)?;
        room::check_address_space(ADDRESS_SPACE, "To make a client")?;
        let settings = Settings::read(plugin);
        let named: Vec<PJRT_NamedValue> = options.iter().map(named_value).collect::<Result<_>>()?;
        let made = cuda::with_libraries(&plugin.for_cuda(), || {
            call!(plugin.api(), PJRT_Client_Create { create_options: named.as_ptr(), num_options: named.len() })
        })?;
        let client = Client::describe(plugin, made.client, settings).inspect_err(|_| destroy(plugin, made.client))?;
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(client.clone());
        plugin.first_client.call_once(|| process::watch_exit(close_all));
        Ok(client)
    }

    fn describe(plugin: &'static Plugin, handle: *mut PJRT_Client, settings: Settings) -> Result<Client> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let api = plugin.api();
        let name = call!(api, PJRT_Client_PlatformName { client: handle })?;
        let version = call!(api, PJRT_Client_PlatformVersion { client: handle })?;
        // SAFETY: the plugin has just returned these strings.
        let (platform, platform_version) = unsafe {
            (
                text(name.platform_name, name.platform_name_size),
                text(version.platform_version, version.platform_version_size),
            )
        };
        let process_index = call!(api, PJRT_Client_ProcessIndex { client: handle })?.process_index;
        let memories = memory::list(api, handle)?;
        let devices = AllFacts::read(api, handle, &memories)?;
        if devices.addressable == 0 {
            fail!(InvalidInput, "The {platform} client has no devices; were its options right?");
        }
        let poison = api.poison();
        let dispatchers = devices.devices.iter().map(|_| Dispatcher::new(poison)).collect();
        let in_flight = devices.devices.iter().map(|_| InFlight::new(poison)).collect();
        let tracked = if platform == CPU && devices.addressable > 1 { devices.devices.len() } else { 0 };
        Ok(Client(Arc::new(Inner {
            plugin,
            handle: AtomicPtr::new(handle),
            generation: process::generation(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            platform,
            platform_version,
            process_index,
            devices,
            memories,
            settings,
            cuda_data_dir: cuda::tools::data_dir(&plugin.for_cuda())
                .map(|folder| folder.to_string_lossy().into_owned()),
            known_flags: KnownFlags::new(),
            live_buffers: AtomicUsize::new(0),
            live_bytes: AtomicUsize::new(0),
            live_executables: AtomicUsize::new(0),
            new_bytes: AtomicUsize::new(0),
            dispatchers,
            uploader: Dispatcher::new(poison),
            buffers: Registry::default(),
            executables: Registry::default(),
            compiles: Mutex::default(),
            transfers: InFlight::new(poison),
            in_flight,
            running: (0..tracked).map(|_| Running::default()).collect(),
            launch_order: Mutex::new(()),
        })))
    }

    pub fn plugin(&self) -> &'static Plugin {
        self.0.plugin
    }

    /// A number that no other client of this process has or had.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The plugin's name of the platform, e.g. `"cpu"` or `"cuda"`.
    pub fn platform(&self) -> &str {
        &self.0.platform
    }

    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// What its compiler was told by variables of the environment.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The CUDA toolkit to name to the compiler, where it would not find one itself.
    pub(crate) fn cuda_data_dir(&self) -> Option<&str> {
        self.0.cuda_data_dir.as_deref()
    }

    /// Which of the flags that this package sets its compiler knows.
    pub(crate) fn known_flags(&self) -> &KnownFlags {
        &self.0.known_flags
    }

    /// The number of this process among those that share the devices.
    pub fn process_index(&self) -> i32 {
        self.0.process_index
    }

    /// The devices that this process can use, in the plugin's order.
    pub fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        (0..self.addressable_devices()).map(|index| Device::new(self.clone(), index))
    }

    /// How many devices this process can use.
    #[inline]
    pub fn addressable_devices(&self) -> usize {
        self.0.devices.addressable
    }

    /// The devices of all processes, in the plugin's order.
    pub fn all_devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.0.devices.order.iter().map(|&index| Device::new(self.clone(), index))
    }

    /// The memory spaces that this process can use.
    pub fn memories(&self) -> impl Iterator<Item = Memory> + '_ {
        (0..self.0.memories.len()).map(|index| Memory::new(self.clone(), index))
    }

    /// Whether device memory is ordinary memory of this process, so that bytes can be shared with it.
    pub fn shares_host_memory(&self) -> bool {
        self.0.platform == CPU
    }

    pub(crate) fn device_facts(&self, index: usize) -> &Facts {
        &self.0.devices.devices[index]
    }

    pub(crate) fn memory_facts(&self, index: usize) -> &MemoryFacts {
        &self.0.memories[index]
    }

    /// Whether both are one client.
    pub fn same(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The client's handle, for a call.
    ///
    /// # Errors
    /// `Forked` in a child of the process that made it, `ClientClosed` after it was closed, `PluginPoisoned`.
    #[inline]
    pub(crate) fn handle(&self) -> Result<*mut PJRT_Client> {
        self.check_open()?;
        self.0.plugin.api().poison().check().map_err(|error| error.on_platform(self.platform()))?;
        Ok(self.0.handle.load(Ordering::Acquire))
    }

    /// That it is of this process, and was not closed.
    ///
    /// # Errors
    /// `Forked`, `ClientClosed`.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.0.generation != process::generation() {
            return Err(process::forked());
        }
        if self.is_closed() {
            return Err(closed(&self.0.platform));
        }
        Ok(())
    }

    /// Whether handles of objects made from this client may be passed to the plugin, for freeing.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.0.generation == process::generation()
    }

    /// Whether it was closed. Also in the child of a fork.
    pub fn is_closed(&self) -> bool {
        self.0.handle.load(Ordering::Acquire).is_null()
    }

    pub(crate) fn buffers(&self) -> &Registry<buffer::Inner> {
        &self.0.buffers
    }

    pub(crate) fn executables(&self) -> &Registry<executable::Inner> {
        &self.0.executables
    }

    /// Notes a compile, which the client must not end before.
    pub(crate) fn note_compile(&self, compile: &Arc<Pending>) {
        let mut compiles = self.0.compiles.lock().unwrap_or_else(PoisonError::into_inner);
        compiles.retain(|compile| compile.strong_count() > 0);
        compiles.push(Arc::downgrade(compile));
    }

    /// Counts a new buffer's bytes.
    pub(crate) fn count_buffer(&self, bytes: usize) {
        self.0.live_buffers.fetch_add(1, Ordering::Relaxed);
        self.0.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.note_new_bytes(bytes);
    }

    /// Adds to the bytes that the owner does not know of.
    pub fn note_new_bytes(&self, bytes: usize) {
        self.0.new_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes a dead buffer's bytes off the count.
    pub(crate) fn uncount_buffer(&self, bytes: usize) {
        self.0.live_buffers.fetch_sub(1, Ordering::Relaxed);
        self.0.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The buffers that are alive: neither dropped nor donated.
    pub fn live_buffers(&self) -> usize {
        self.0.live_buffers.load(Ordering::Relaxed)
    }

    /// Bytes of the buffers that are alive.
    pub fn live_bytes(&self) -> usize {
        self.0.live_bytes.load(Ordering::Relaxed)
    }

    /// Counts a new executable.
    pub(crate) fn count_executable(&self) {
        self.0.live_executables.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a dropped executable off the count.
    pub(crate) fn uncount_executable(&self) {
        self.0.live_executables.fetch_sub(1, Ordering::Relaxed);
    }

    /// The executables that are loaded.
    pub fn live_executables(&self) -> usize {
        self.0.live_executables.load(Ordering::Relaxed)
    }

    /// Takes the bytes of a new buffer off those that the owner does not know of.
    pub fn forget_new_bytes(&self, bytes: usize) {
        let less = |new: usize| Some(new.saturating_sub(bytes));
        // The closure always gives a value.
        let _ = self.0.new_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Bytes of the buffers, and of copies of them, made since [`Client::reset_new_bytes`].
    pub fn new_bytes(&self) -> usize {
        self.0.new_bytes.load(Ordering::Relaxed)
    }

    /// To be called after a garbage collection.
    pub fn reset_new_bytes(&self) {
        self.0.new_bytes.store(0, Ordering::Relaxed);
    }

    /// A launch for one of the threads below.
    pub(crate) fn new_launch(&self) -> Arc<Launch> {
        self.new_launch_of(Duration::ZERO)
    }

    /// The same for one that will take about so long.
    pub(crate) fn new_launch_of(&self, expected: Duration) -> Arc<Launch> {
        Launch::new(self.0.plugin.api().poison(), expected)
    }

    /// Whether its plugin threw a C++ exception, and is not called any more.
    pub fn is_poisoned(&self) -> bool {
        self.0.plugin.api().poison().is_noted()
    }

    /// The thread for launches on a device that would keep their caller busy.
    pub(crate) fn dispatcher(&self, device: usize) -> &Dispatcher {
        &self.0.dispatchers[device]
    }

    /// What a device was given and has not done.
    pub(crate) fn in_flight(&self, device: usize) -> &InFlight {
        &self.0.in_flight[device]
    }

    /// To be held while a launch is handed to the threads of several devices, lest two wait for each other.
    pub(crate) fn launch_order(&self) -> &Mutex<()> {
        &self.0.launch_order
    }

    /// What a device computes, when launches on several devices must not come in between: on XLA's CPU client all devices
    /// share one pool of threads. A device there takes 32 programs at a time. One part of a launch that waits for its turn
    /// keeps a thread, and the other parts wait on theirs for it, so that no thread may be left for the programs before.
    pub(crate) fn running(&self, device: usize) -> Option<&Running> {
        self.0.running.get(device)
    }

    /// The thread that writes arrays for devices while the caller goes on.
    pub(crate) fn uploader(&self) -> &Dispatcher {
        &self.0.uploader
    }

    /// Copies on their way to the host.
    pub(crate) fn transfers(&self) -> &InFlight {
        &self.0.transfers
    }

    /// Its threads; launches wait for uploads, never the other way round.
    fn threads(&self) -> impl Iterator<Item = &Dispatcher> {
        std::iter::once(&self.0.uploader).chain(&self.0.dispatchers)
    }

    /// Waits for its pending work, and frees all that was made of it, however many still hold it: from then on that only
    /// tells what it was. A user's interrupt ends the wait and leaves the client as it is. Closing it twice is fine. Of one
    /// whose plugin is poisoned, nothing is awaited and freed.
    ///
    /// # Errors
    /// `Forked`, `Interrupted`, and `Internal` when the system gives no thread.
    ///
    /// # Safety
    /// No other thread uses the client, or anything made of it, during the call.
    pub unsafe fn close(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        self.check_open()?;
        match self.rest() {
            Err(error) if error.kind() == Kind::PluginPoisoned => {}
            rested => rested?,
        }
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|client| !client.same(self));
        let handle = self.0.handle.swap(null_mut(), Ordering::AcqRel);
        if self.is_poisoned() {
            return Ok(());
        }
        let patience = LastWait::start();
        self.threads().for_each(|thread| {
            thread.drain(&patience);
        });
        self.0.running.iter().for_each(Running::forget);
        self.0.buffers.all().iter().for_each(|buffer| buffer.release());
        self.0.executables.all().iter().for_each(|executable| executable.release());
        destroy(self.0.plugin, handle);
        Ok(())
    }

    /// Waits until nothing is pending.
    fn rest(&self) -> Result<()> {
        self.handle()?;
        let compiles: Vec<_> =
            self.0.compiles.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
        compiles.iter().try_for_each(|compile| compile.rest())?;
        self.threads().try_for_each(Dispatcher::rest)?;
        self.0.buffers.all().into_iter().try_for_each(buffer::Inner::rest)?;
        self.0.in_flight.iter().chain([&self.0.transfers]).try_for_each(InFlight::rest)
    }

    /// Ends it at the end of the process, once its work is done, and without the plugin's part of what was made of it; tells
    /// whether that was in time.
    fn end(&self, patience: &LastWait) -> bool {
        if !self.threads().all(|thread| thread.drain(patience)) {
            return false;
        }
        let handle = self.0.handle.swap(null_mut(), Ordering::AcqRel);
        if !handle.is_null() {
            destroy(self.0.plugin, handle);
        }
        true
    }
}

/// Every client that is open, in order of making.
pub fn all() -> Vec<Client> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Destroys every client in order of making, waiting for its pending work as long as [`LastWait`] says. For the end of the
/// process, best before it begins to exit: static objects that a plugin makes late are torn down before any handler of ours
/// runs. A poisoned plugin's clients stay as they are.
pub fn close_all() {
    let clients = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let patience = LastWait::start();
    // In a fork there are no threads to wait for.
    let mut usable = clients.iter().filter(|client| client.is_usable() && !client.is_poisoned()).peekable();
    let ended = usable.peek().is_none()
        || (compiling::finish(&patience) && usable.all(|client| client.end(&patience) || client.is_poisoned()));
    // Something goes on that cannot be stopped, or a plugin's handlers might never end.
    if !ended || poison::is_any() {
        process::skip_exit_handlers();
    }
    // What still refers to these clients is never used again.
    std::mem::forget(clients);
}

fn destroy(plugin: &'static Plugin, handle: *mut PJRT_Client) {
    // Nothing can be done about a failure to free.
    let _ = call!(plugin.api(), PJRT_Client_Destroy { client: handle });
}

#[cold]
fn closed(platform: &str) -> Error {
    Error::new(
        Kind::ClientClosed,
        format!("The {platform} client is closed, and nothing that was made of it can be used."),
    )
    .hint(format!("pjrt_client(\"{platform}\") gives a new one: make buffers and executables anew there."))
    .on_platform(platform)
}

/// XLA aborts in a child of a process that used a client, so no client is made there.
fn check_generation() -> Result<()> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    if *FIRST.get_or_init(process::generation) != process::generation() {
        return Err(process::forked());
    }
    Ok(())
}

fn check_options(options: &[(String, Value)]) -> Result<()> {
    for (name, value) in options {
        if name == "cpu_device_count" && !matches!(value, Value::Int(1..=MAX_CPU_DEVICES)) {
            fail!(InvalidInput, "`cpu_device_count` must be a whole number from 1 to {MAX_CPU_DEVICES}.");
        }
    }
    Ok(())
}

/// The C form of an option, which borrows from it.
fn named_value((name, value): &(String, Value)) -> Result<PJRT_NamedValue> {
    let mut out: PJRT_NamedValue = crate::api::blank_struct();
    out.struct_size = size_of::<PJRT_NamedValue>();
    out.name = name.as_ptr().cast();
    out.name_size = name.len();
    out.value_size = 1;
    let data = &mut out.__bindgen_anon_1;
    out.type_ = match value {
        Value::String(s) => {
            data.string_value = s.as_ptr().cast();
            out.value_size = s.len();
            PJRT_NamedValue_Type::PJRT_NamedValue_kString
        }
        Value::Int(i) => {
            data.int64_value = *i;
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64
        }
        Value::IntList(list) => {
            data.int64_array_value = list.as_ptr();
            out.value_size = list.len();
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List
        }
        Value::Float(f) => {
            data.float_value = *f;
            PJRT_NamedValue_Type::PJRT_NamedValue_kFloat
        }
        Value::Bool(b) => {
            data.bool_value = *b;
            PJRT_NamedValue_Type::PJRT_NamedValue_kBool
        }
        Value::Unknown => fail!(InvalidInput, "Client option `{name}` has no type that a plugin understands."),
    };
    Ok(out)
}
