//! Clients: a plugin's connection to its devices. A client owns every device, memory, buffer and executable made from it.

mod absent;
mod cpu_features;
mod creation;
pub mod device;
pub mod distributed;
mod exchange;
pub(crate) mod flags;
pub mod history;
pub mod holdings;
pub mod memory_space;
pub(crate) mod plugin_hash;
pub mod retry;
pub(crate) mod settings;
pub mod shared_store;
pub mod target;
pub mod topology;
pub mod usage;
pub(crate) mod work;

use crate::apart::Pool;
use crate::client::device::{AllFacts, Device, Facts};
use crate::client::exchange::{Cancel, Exchange};
use crate::client::flags::KnownFlags;
use crate::client::settings::Settings;
use crate::client::usage::Usage;
use crate::client::work::Work;
use crate::host::heap;
use crate::runtime::dispatch::Dispatched;
use crate::runtime::plugin::{where_there, Plugin};
use crate::runtime::registry::{Registry, Resource};
use memory_space::{MemoryFacts, MemorySpace};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::mmap::SignalStacks;
use pjrt_base::process::{self, ExitDeadline};
use pjrt_base::reason::Reason;
use pjrt_base::room;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::threads;
use pjrt_ffi::api::{call, text, PluginValue};
use pjrt_ffi::poison;
use pjrt_plugins::cuda;
use pjrt_sys::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

/// A client; clones share it.
///
/// ```
/// use pjrt_core::{Client, Plugin, PluginValue};
/// let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// let plugin = Plugin::load(path.as_ref())?;
/// let client = Client::create(plugin, &[("cpu_device_count".into(), PluginValue::Int(2))])?;
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
    known_flags: KnownFlags,
    usage: Usage,
    work: Work,
    /// Its live buffers and executables.
    buffers: Registry,
    executables: Registry,
    /// The store of a client of several processes.
    exchange: Option<&'static Exchange>,
    /// The processes that compile for it; none for a client of several processes.
    helpers: Option<Pool>,
    /// Of the plugin's threads.
    _stacks: SignalStacks,
}

/// Every open client. A client lives until it is closed or the process exits, whether or not somebody holds it.
static OPEN: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// The largest number of devices that a CPU client is created with; the plugin returns no device for more.
const MAX_CPU_DEVICES: i64 = 4096;

/// Address space that XLA's client needs for its threads; without it, XLA ends the process.
const ADDRESS_SPACE: usize = 128 << 20;

/// XLA's name of the platform.
pub(crate) const CPU: &str = "cpu";

impl Client {
    /// Creates a client of `plugin`. `options` are the platform's own, such as `cpu_device_count`.
    ///
    /// # Errors
    /// `InvalidInput` for an option that would make the plugin abort, `DriverMissing`, `DriverTooOld` and
    /// `LibraryMissing` if CUDA lacks something, and the plugin's own errors.
    pub fn create(plugin: &'static Plugin, options: &[(String, PluginValue)]) -> Result<Client> {
        process::watch_forks();
        check_generation()?;
        heap::keep_freed();
        // No client takes a century.
        let cancel = Arc::new(Cancel::new(Duration::from_secs(100 * 365 * 86_400)));
        let options = options.to_vec();
        let make = move || Client::make(plugin, &options, None);
        let client = creation::on_another_thread(plugin, &cancel, make, || Ok(()))?;
        client.open();
        Ok(client)
    }

    /// Creates a client that is not in the list of open ones. With an `exchange`, the plugin reaches other processes.
    fn make(
        plugin: &'static Plugin,
        options: &[(String, PluginValue)],
        exchange: Option<&'static Exchange>,
    ) -> Result<Client> {
        check_options(options)?;
        room::check_address_space(ADDRESS_SPACE, "to create a client")?;
        threads::check_given()?;
        threads::check(threads::of_client(), "to create a client")?;
        if let Some(error) = plugin.absent.get() {
            return Err(error.clone());
        }
        let now = || Arc::new(std::env::vars_os().collect());
        let environment = plugin.environment.get().cloned().unwrap_or_else(now);
        let pool = Pool::new(plugin.path(), options, environment.clone());
        Settings::check_flags(plugin, &pool)?;
        let settings = Settings::read(plugin);
        plugin.environment.get_or_init(|| environment);
        let start = SystemTime::now();
        let helpers = exchange.is_none().then_some(pool);
        let named: Vec<PJRT_NamedValue> = options.iter().map(named_value).collect::<Result<_>>()?;
        let argument = exchange.map_or(null_mut(), Exchange::user_arg);
        let (made, stacks) = SignalStacks::of_threads_made_by(|| {
            cuda::with_libraries(&plugin.for_cuda(), || {
                call!(
                    plugin.api(),
                    PJRT_Client_Create {
                        create_options: named.as_ptr(),
                        num_options: named.len(),
                        kv_get_callback: exchange.and(Some(exchange::get)),
                        kv_get_user_arg: argument,
                        kv_put_callback: exchange.and(Some(exchange::put)),
                        kv_put_user_arg: argument,
                        kv_try_get_callback: exchange.and(Some(exchange::try_get)),
                        kv_try_get_user_arg: argument,
                    }
                )
            })
        });
        let made = made.map_err(|error| absent::explained(plugin, error, start))?;
        Client::describe(plugin, made.client, settings, helpers, stacks, exchange)
            .inspect_err(|_| destroy(plugin, made.client))
    }

    /// Adds it to the list of open clients.
    fn open(&self) {
        OPEN.lock().unpoisoned().push(self.clone());
        self.0.plugin.first_client.call_once(|| process::watch_exit(close_all));
    }

    /// Destroys a client that nobody has used.
    fn discard(&self) {
        let handle = self.0.handle.swap(null_mut(), Ordering::AcqRel);
        if !self.is_poisoned() && !handle.is_null() {
            destroy(self.0.plugin, handle);
        }
        self.0.exchange.inspect(|exchange| exchange.close());
    }

    fn describe(
        plugin: &'static Plugin,
        handle: *mut PJRT_Client,
        settings: Settings,
        helpers: Option<Pool>,
        stacks: SignalStacks,
        exchange: Option<&'static Exchange>,
    ) -> Result<Client> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let api = plugin.api();
        let name = call!(api, PJRT_Client_PlatformName { client: handle })?;
        let version = where_there(call!(api, PJRT_Client_PlatformVersion { client: handle }))?;
        // SAFETY: the plugin has just returned these strings.
        let (platform, platform_version) = unsafe {
            (
                text(name.platform_name, name.platform_name_size),
                version.map_or_else(String::new, |v| text(v.platform_version, v.platform_version_size)),
            )
        };
        let process = where_there(call!(api, PJRT_Client_ProcessIndex { client: handle }))?;
        let memories = memory_space::list(api, handle)?;
        let devices = AllFacts::read(api, handle, &memories)?;
        ensure!(devices.addressable != 0, InvalidInput, "The {platform} client has no devices; check its options.");
        let poison = api.poison();
        let is_tracked = platform == CPU && devices.addressable > 1;
        let work = Work::new(poison, devices.devices.len(), is_tracked);
        Ok(Client(Arc::new(Inner {
            plugin,
            handle: AtomicPtr::new(handle),
            generation: process::generation(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            platform,
            platform_version,
            process_index: process.map_or(0, |process| process.process_index),
            devices,
            memories,
            settings,
            known_flags: KnownFlags::new(),
            usage: Usage::default(),
            work,
            buffers: Registry::default(),
            executables: Registry::default(),
            exchange,
            helpers,
            _stacks: stacks,
        })))
    }

    pub fn plugin(&self) -> &'static Plugin {
        self.0.plugin
    }

    /// A number that is unique among all clients of this process.
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

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The processes that can compile for it.
    pub(crate) fn helpers(&self) -> Option<&Pool> {
        self.0.helpers.as_ref()
    }

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

    /// The number of devices that this process can use.
    #[inline]
    pub fn addressable_devices(&self) -> usize {
        self.0.devices.addressable
    }

    /// The devices of all processes, in the plugin's order.
    pub fn all_devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.0.devices.order.iter().map(|&index| Device::new(self.clone(), index))
    }

    /// The memory spaces that this process can use.
    pub fn memories(&self) -> impl Iterator<Item = MemorySpace> + '_ {
        (0..self.0.memories.len()).map(|index| MemorySpace::new(self.clone(), index))
    }

    /// Whether device memory is ordinary memory of this process that can be shared.
    pub fn shares_host_memory(&self) -> bool {
        self.0.platform == CPU
    }

    pub(crate) fn device_facts(&self, index: usize) -> &Facts {
        &self.0.devices.devices[index]
    }

    pub(crate) fn memory_facts(&self, index: usize) -> &MemoryFacts {
        &self.0.memories[index]
    }

    /// Whether both are the same client.
    pub fn same(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The client's handle, for a call.
    ///
    /// # Errors
    /// `Forked` in a child of the process that created it, `ClientClosed` after it was closed, `PluginPoisoned`.
    #[inline]
    pub(crate) fn handle(&self) -> Result<*mut PJRT_Client> {
        self.check_open()?;
        self.0.plugin.api().poison().check().map_err(|error| error.on_platform(self.platform()))?;
        Ok(self.0.handle.load(Ordering::Acquire))
    }

    /// Checks that it belongs to this process and is open.
    ///
    /// # Errors
    /// `Forked`, `ClientClosed`.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        if self.0.generation != process::generation() {
            return Err(process::forked());
        }
        ensure!(!self.is_closed(), closed(&self.0.platform));
        Ok(())
    }

    /// Whether handles of objects made from this client may be passed to the plugin, for freeing.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.0.generation == process::generation()
    }

    /// Whether it was closed. Works in the child of a fork, too.
    pub fn is_closed(&self) -> bool {
        self.0.handle.load(Ordering::Acquire).is_null()
    }

    pub(crate) fn buffers(&self) -> &Registry {
        &self.0.buffers
    }

    pub(crate) fn executables(&self) -> &Registry {
        &self.0.executables
    }

    /// Frees a buffer that the plugin made and that nobody got.
    pub(crate) fn free_buffer(&self, handle: *mut PJRT_Buffer) {
        // Nothing can be done about a failure to free.
        let _ = call!(self.0.plugin.api(), PJRT_Buffer_Destroy { buffer: handle });
    }

    pub fn usage(&self) -> &Usage {
        &self.0.usage
    }

    pub(crate) fn work(&self) -> &Work {
        &self.0.work
    }

    /// A launch, to be queued on one of the threads of [`Client::work`].
    pub(crate) fn new_dispatched(&self) -> Arc<Dispatched> {
        self.new_dispatched_of(Duration::ZERO)
    }

    /// The same for a launch with an expected duration.
    pub(crate) fn new_dispatched_of(&self, expected: Duration) -> Arc<Dispatched> {
        Dispatched::new(self.0.plugin.api().poison(), expected)
    }

    /// Whether its plugin threw a C++ exception, and is not called any more.
    pub fn is_poisoned(&self) -> bool {
        self.0.plugin.api().poison().is_noted()
    }

    /// Waits for its pending work, and frees all of its objects, even those in use: only their descriptions remain
    /// usable. If the user interrupts, the client stays open. Closing it twice is harmless. If its plugin is poisoned,
    /// nothing is awaited or freed.
    ///
    /// # Errors
    /// `Forked`, `Interrupted`, and `Internal` if the system cannot start a thread.
    ///
    /// # Safety
    /// No other thread uses the client, or any of its objects, during the call.
    pub unsafe fn close(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        self.check_open()?;
        match self.wait_idle() {
            Err(error) if error.kind() == Kind::PluginPoisoned => {}
            rested => rested?,
        }
        OPEN.lock().unpoisoned().retain(|client| !client.same(self));
        let handle = self.0.handle.swap(null_mut(), Ordering::AcqRel);
        if self.is_poisoned() {
            return Ok(());
        }
        let patience = ExitDeadline::start();
        self.work().threads().for_each(|thread| {
            thread.drain(&patience);
        });
        self.work().forget_running();
        self.0.buffers.all().iter().for_each(|buffer| buffer.release());
        self.0.executables.all().iter().for_each(|executable| executable.release());
        destroy(self.0.plugin, handle);
        self.0.helpers.iter().for_each(Pool::clear);
        self.0.exchange.inspect(|exchange| exchange.close());
        Ok(())
    }

    /// Waits until nothing is pending.
    fn wait_idle(&self) -> Result<()> {
        self.handle()?;
        self.work().wait_queued()?;
        self.0.buffers.all().into_iter().try_for_each(Resource::wait_idle)?;
        self.work().wait_started()
    }

    /// Ends it at the end of the process, after its pending work, without freeing the plugin's part of its objects.
    /// Returns whether the work was done in time.
    fn end(&self, patience: &ExitDeadline) -> bool {
        // Some plugins crash when their client ends before the copies that it started.
        if !self.work().threads().all(|thread| thread.drain(patience)) || !self.work().transfers.drain(patience) {
            return false;
        }
        let handle = self.0.handle.swap(null_mut(), Ordering::AcqRel);
        if !handle.is_null() {
            destroy(self.0.plugin, handle);
        }
        true
    }
}

/// Ends all compilations at the end of the process.
static FINISH_COMPILES: OnceLock<fn(&ExitDeadline) -> bool> = OnceLock::new();

/// Registers `finish`, which ends all compilations before the clients end with the process, and returns whether they
/// ended in time.
pub(crate) fn finish_compiles_by(finish: fn(&ExitDeadline) -> bool) {
    // It is always the same function.
    let _ = FINISH_COMPILES.set(finish);
}

/// Every open client, in order of creation.
pub fn all() -> Vec<Client> {
    OPEN.lock().unpoisoned().clone()
}

/// Whether the end of the process has begun, when the plugins' memory is left as it is.
pub(crate) fn has_ended() -> bool {
    ENDED.load(Ordering::Acquire)
}

static ENDED: AtomicBool = AtomicBool::new(false);

/// Destroys every client in order of creation, waiting for its pending work as long as [`ExitDeadline`] says. For the end
/// of the process, best before exit handlers run: static objects that a plugin creates late are destroyed before any
/// handler of ours runs. Clients of a poisoned plugin stay as they are.
pub fn close_all() {
    ENDED.store(true, Ordering::Release);
    let clients = std::mem::take(&mut *OPEN.lock().unpoisoned());
    let patience = ExitDeadline::at_end();
    let mut usable = clients.iter().filter(|client| client.is_usable() && !client.is_poisoned());
    let ended = creation::finish(&patience)
        && FINISH_COMPILES.get().is_none_or(|finish| finish(&patience))
        && usable.all(|client| client.end(&patience) || client.is_poisoned());
    // Work that cannot be stopped continues, or a plugin's handlers might never end.
    if !ended || poison::is_any() {
        process::skip_exit_handlers();
    }
    // References to these clients are never used again.
    std::mem::forget(clients);
}

fn destroy(plugin: &'static Plugin, handle: *mut PJRT_Client) {
    // Nothing can be done about a failure to free.
    let _ = call!(plugin.api(), PJRT_Client_Destroy { client: handle });
}

#[cold]
fn closed(platform: &str) -> Error {
    let message = format!("The {platform} client is closed: its buffers and executables cannot be used any more.");
    Error::new(Kind::ClientClosed, message)
        .hint(Reason::ClientClosed { platform: platform.to_owned() })
        .on_platform(platform)
}

/// XLA aborts in a child of a process that used a client, so no client is created there.
fn check_generation() -> Result<()> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    ensure!(*FIRST.get_or_init(process::generation) == process::generation(), process::forked());
    Ok(())
}

fn check_options(options: &[(String, PluginValue)]) -> Result<()> {
    for (name, value) in options {
        if name == "cpu_device_count" && !matches!(value, PluginValue::Int(1..=MAX_CPU_DEVICES)) {
            bail!(InvalidInput, "`cpu_device_count` must be a whole number from 1 to {MAX_CPU_DEVICES}.");
        }
    }
    Ok(())
}

/// The C form of an option, which borrows from it.
pub(crate) fn named_value((name, value): &(String, PluginValue)) -> Result<PJRT_NamedValue> {
    let mut out: PJRT_NamedValue = pjrt_ffi::api::blank_struct();
    out.struct_size = size_of::<PJRT_NamedValue>();
    out.name = name.as_ptr().cast();
    out.name_size = name.len();
    out.value_size = 1;
    let data = &mut out.__bindgen_anon_1;
    out.type_ = match value {
        PluginValue::String(s) => {
            data.string_value = s.as_ptr().cast();
            out.value_size = s.len();
            PJRT_NamedValue_Type::PJRT_NamedValue_kString
        }
        PluginValue::Int(i) => {
            data.int64_value = *i;
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64
        }
        PluginValue::IntList(list) => {
            data.int64_array_value = list.as_ptr();
            out.value_size = list.len();
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List
        }
        PluginValue::Float(f) => {
            data.float_value = *f;
            PJRT_NamedValue_Type::PJRT_NamedValue_kFloat
        }
        PluginValue::Bool(b) => {
            data.bool_value = *b;
            PJRT_NamedValue_Type::PJRT_NamedValue_kBool
        }
        PluginValue::Unknown => bail!(InvalidInput, "Client option `{name}` has a type that plugins do not support."),
    };
    Ok(out)
}
