//! A client's pending work, and the threads that do it.

use crate::runtime::dispatch::{InFlight, LaunchThread, Running};
use crate::runtime::event::Signal;
use pjrt_base::callbacks;
use pjrt_base::error::Result;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::poison::Poison;
use std::sync::{Arc, Mutex, OnceLock, Weak};

#[derive(Debug)]
pub(crate) struct Work {
    dispatchers: Dispatchers,
    /// Writes arrays for devices in the background.
    pub(crate) uploader: LaunchThread,
    /// Compilations that may still run.
    compiles: Mutex<Vec<Weak<Signal>>>,
    /// Copies to the host in progress.
    pub(crate) transfers: InFlight,
    /// The pending work of each device.
    in_flight: Vec<InFlight>,
    /// One lock for each device if XLA's CPU client has several, see [`Work::running`].
    running: Vec<Running>,
    /// Held while a launch is queued on the threads of several devices, so that two launches do not deadlock.
    pub(crate) launch_order: Mutex<()>,
    poison: &'static Poison,
}

/// One dispatcher for each device, so that devices work side by side.
#[derive(Debug)]
struct Dispatchers {
    devices: Vec<LaunchThread>,
    /// Those for launches from callbacks: the threads of the programs that call them may be busy until they return.
    of_callbacks: OnceLock<Box<Dispatchers>>,
}

impl Dispatchers {
    fn new(poison: &'static Poison, devices: usize) -> Dispatchers {
        let devices = (0..devices).map(|device| LaunchThread::new(poison, format!("pjrt-dispatch-{device}"))).collect();
        Dispatchers { devices, of_callbacks: OnceLock::new() }
    }

    /// Those for launches from so many callbacks, each in a wait of the one before.
    fn at_depth(&self, poison: &'static Poison, depth: usize) -> &Dispatchers {
        let mut found = self;
        for _ in 0..depth {
            let count = self.devices.len();
            found = found.of_callbacks.get_or_init(|| Box::new(Dispatchers::new(poison, count)));
        }
        found
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = &LaunchThread> {
        std::iter::successors(Some(self), |level| level.of_callbacks.get().map(|level| &**level))
            .flat_map(|level| &level.devices)
    }
}

impl Work {
    /// Without work; `is_tracked` says whether each device has a lock.
    pub(crate) fn new(poison: &'static Poison, devices: usize, is_tracked: bool) -> Work {
        Work {
            dispatchers: Dispatchers::new(poison, devices),
            poison,
            uploader: LaunchThread::new(poison, "pjrt-upload"),
            compiles: Mutex::default(),
            transfers: InFlight::new(poison),
            in_flight: (0..devices).map(|_| InFlight::new(poison)).collect(),
            running: (0..if is_tracked { devices } else { 0 }).map(|_| Running::default()).collect(),
            launch_order: Mutex::new(()),
        }
    }

    /// Registers a compilation, for which the client waits before it closes.
    pub(crate) fn note_compile(&self, compile: &Arc<Signal>) {
        let mut compiles = self.compiles.lock().unpoisoned();
        compiles.retain(|compile| compile.strong_count() > 0);
        compiles.push(Arc::downgrade(compile));
    }

    /// The thread for launches on a device that would block their caller; in a callback, another one.
    pub(crate) fn dispatcher(&self, device: usize) -> &LaunchThread {
        self.dispatcher_at(callbacks::depth(), device)
    }

    /// The thread for launches on a device from so many callbacks, each in a wait of the one before.
    pub(crate) fn dispatcher_at(&self, depth: usize, device: usize) -> &LaunchThread {
        &self.dispatchers.at_depth(self.poison, depth).devices[device]
    }

    /// The pending work of a device.
    pub(crate) fn in_flight(&self, device: usize) -> &InFlight {
        &self.in_flight[device]
    }

    /// A lock on the work of a device against launches on several devices in between. On XLA's CPU client all devices
    /// share one thread pool, and a device there accepts 32 programs at a time. A part of a launch that waits for its
    /// turn occupies a thread, as do the parts that wait for it. Then no thread may be left for earlier programs.
    pub(crate) fn running(&self, device: usize) -> Option<&Running> {
        self.running.get(device)
    }

    /// Its threads; launches wait for uploads, never the reverse.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &LaunchThread> {
        std::iter::once(&self.uploader).chain(self.dispatchers.all())
    }

    /// Waits for compilations and for what is queued on threads.
    ///
    /// # Errors
    /// `Interrupted`, and the first failure.
    pub(crate) fn wait_queued(&self) -> Result<()> {
        let compiles: Vec<_> = self.compiles.lock().unpoisoned().iter().filter_map(Weak::upgrade).collect();
        compiles.iter().try_for_each(|compile| compile.wait())?;
        self.threads().try_for_each(LaunchThread::wait_idle)
    }

    /// Waits for what was started on the devices.
    ///
    /// # Errors
    /// `Interrupted`, and the first failure.
    pub(crate) fn wait_started(&self) -> Result<()> {
        self.in_flight.iter().chain([&self.transfers]).try_for_each(InFlight::wait_idle)
    }

    /// Forgets what runs on devices, whose client ends.
    pub(crate) fn forget_running(&self) {
        self.running.iter().for_each(Running::forget);
    }
}
