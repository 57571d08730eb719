//! Execution: checks every input against the executable's signature, then calls the plugin once.

use crate::buffer::backing::Backing;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::client::holdings;
use crate::client::retry::with_retry;
use crate::client::Client;
use crate::executable::{Executable, Placement, Signature};
use crate::runtime::event::Event;
use pjrt_base::callbacks;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use pjrt_base::reason::Reason;
use pjrt_base::room;
use pjrt_base::spin;
use pjrt_base::trace::{self, Activity, Details, Span};
use pjrt_ffi::api::{call, Args};
use pjrt_handlers::launch::{Carrier, Launch};
use pjrt_handlers::{mpi, print, registry};
use pjrt_sys::*;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of one execution.
///
/// ```
/// # use pjrt_core::executable::{execute::ExecuteOptions, options::CompileOptions};
/// # use pjrt_core::{Buffer, Client, Executable, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType}; use pjrt_program::program::{Format, Program};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// // It takes over the memory of its input, unless the options forbid that.
/// let text = "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
///   %y = stablehlo.add %x, %x : tensor<2xf32>
///   return %y : tensor<2xf32>
/// }";
/// let program = Program::new(text.into(), Format::Mlir)?;
/// let double = Executable::compile(&[device.clone()], &program, &CompileOptions::default())?;
/// let ones = Buffer::from_bytes(&device, Spec::new(DType::F32, &[2])?, &[1f32.to_ne_bytes(); 2].concat())?;
/// double.execute(&[&ones], &ExecuteOptions { non_donatable: vec![0], ..ExecuteOptions::default() })?;
/// assert!(ones.read().is_ok());
/// double.execute(&[&ones], &ExecuteOptions::default())?;
/// assert!(ones.read().is_err());
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecuteOptions {
    /// Inputs, from 0, whose memory the program must not take over although it could.
    pub non_donatable: Vec<i64>,
    /// Distinguishes executions of one program in multi-device runs.
    pub launch_id: i32,
    /// The device of a portable executable; by default the device of its inputs.
    pub device: Option<Device>,
}

/// The thread that calls the plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// The calling thread, unless the plugin would block it for long.
    #[default]
    Auto,
    /// The calling thread, unless the launch must come after a waiting one.
    Inline,
    /// Always the device's dispatch thread.
    Thread,
}

/// What a call of a function of the host knows of the launch of its program.
#[derive(Debug)]
pub struct HostContext {
    client: Client,
    devices: Vec<usize>,
}

impl HostContext {
    /// The device of a call: the only one, or the one with the number that the plugin provides.
    pub fn device(&self, number: Option<i32>) -> Option<Device> {
        let devices = || self.devices.iter().map(|&device| Device::new(self.client.clone(), device));
        match self.devices.len() {
            1 => devices().next(),
            _ => devices().find(|device| number.is_some_and(|number| i64::from(device.id()) == i64::from(number))),
        }
    }
}

/// Waits on all devices for a program that calls the host. Returns whether all executions succeeded.
///
/// # Errors
/// If a function failed and the plugin does not know it.
pub(crate) fn wait_for_all(complete: &[Event], carrier: Option<Carrier>) -> Result<bool> {
    let outcomes: Vec<_> = complete.iter().map(Event::wait_through).collect();
    if outcomes.iter().any(|outcome| outcome.as_ref().is_err_and(|error| error.kind() == Kind::PluginPoisoned)) {
        // They may still use it.
        std::mem::forget(carrier);
        return Ok(false);
    }
    carrier.map_or(Ok(()), |carrier| carrier.outcome())?;
    Ok(outcomes.iter().all(Result::is_ok))
}

/// The outputs of one execution.
pub type Outputs = SmallVec<[Buffer; 4]>;

pub(crate) type Handles = SmallVec<[*mut PJRT_Buffer; 16]>;

/// The outputs of a launch on one device.
struct Made {
    handles: Handles,
    /// Complete already, without error.
    are_complete: bool,
}

impl Executable {
    /// Launches the program on its only device of this process and returns its outputs, whose content comes later. Inputs that the program
    /// takes over are dead afterwards.
    ///
    /// # Errors
    /// `ArgumentCount`, `DtypeMismatch`, `ShapeMismatch`, `LayoutMismatch`, `DeviceMismatch`, `DeletedBuffer` for
    /// invalid inputs, `FileChanged`, `Forked`, `ClientClosed`, and the plugin's own errors. The inputs then stay as
    /// they were.
    pub fn execute(&self, inputs: &[&Buffer], options: &ExecuteOptions) -> Result<Outputs> {
        self.client().handle()?;
        let device = self.place(inputs, options)?;
        self.check(device, inputs, options)?;
        // The outputs are complete together.
        let backing = Backing::of(inputs)?.map(Arc::new);
        let outputs = if self.goes_by_thread(device, inputs, options) {
            self.launch_on_thread(device, inputs, options, backing)?
        } else {
            let handles = match self.dispatch() {
                Dispatch::Inline => self.made(device, inputs)?,
                _ => inputs.iter().map(|input| input.live()).collect::<Result<Handles>>()?,
            };
            let made = self.launch(device, &handles, &self.told_options(options))?;
            let adopt = |(&handle, spec): (&*mut PJRT_Buffer, &Arc<_>)| {
                let output = Buffer::adopt(self.client().clone(), device, Arc::clone(spec), handle, backing.clone());
                if made.are_complete {
                    output.note_complete();
                }
                output
            };
            made.handles.iter().zip(self.note_outputs(&made.handles)).map(adopt).collect()
        };
        self.mark_donated(inputs, options)?;
        if self.prints() && self.dispatch() == Dispatch::Auto {
            self.wait_for_text(device, &outputs)?;
        }
        Ok(outputs)
    }

    fn prints(&self) -> bool {
        self.functions().iter().any(|name| name == print::TARGET)
    }

    /// Waits until a short program has run: its text then comes before the caller's next line.
    fn wait_for_text(&self, device: usize, outputs: &[Buffer]) -> Result<()> {
        const LONGEST: Duration = Duration::from_secs(1);
        let work = self.client().work();
        let is_over = || match outputs {
            [] => !work.dispatcher(device).is_busy() && work.in_flight(device).is_empty(),
            _ => outputs.iter().all(|output| !matches!(output.is_ready(), Ok(false))),
        };
        let start = Instant::now();
        while callbacks::depth() == 0 && start.elapsed() < LONGEST && !spin::until(spin::SHORT, is_over) {
            callbacks::serve()?;
            process::check_interrupt()?;
            std::thread::sleep(spin::LONG);
        }
        Ok(())
    }

    /// Whether it calls functions of the host, for which the host's thread must be free.
    pub(crate) fn calls_host(&self) -> bool {
        let is_host = |name: &String| registry::known(name, self.client().platform()) == Some(registry::Known::Host);
        self.functions().iter().any(is_host)
    }

    /// Whether it communicates with other processes, which must be in the order of launches.
    pub(crate) fn communicates(&self) -> bool {
        self.functions().iter().any(|name| mpi::is_target(name))
    }

    /// Whether a launch goes through the device's dispatch thread.
    fn goes_by_thread(&self, device: usize, inputs: &[&Buffer], options: &ExecuteOptions) -> bool {
        let client = self.client();
        // A waiting launch may still read an input that this one takes over, or may run on several devices.
        let must_wait = (client.work().running(device).is_some() || self.donates_any(options))
            && client.work().dispatcher(device).is_busy();
        must_wait
            || self.calls_host()
            || self.communicates()
            || match self.dispatch() {
                Dispatch::Auto => {
                    self.hint().keeps_caller(self.history())
                        || client.work().in_flight(device).is_full()
                        || inputs.iter().any(|input| input.unfinished_launch().is_some())
                }
                Dispatch::Inline => false,
                Dispatch::Thread => true,
            }
    }

    fn donates_any(&self, options: &ExecuteOptions) -> bool {
        (0..self.signature().inputs.len()).any(|index| self.donates(index, options))
    }

    /// The index of the device that an execution on one device runs on.
    fn place(&self, inputs: &[&Buffer], options: &ExecuteOptions) -> Result<usize> {
        match (self.placement(), &options.device) {
            (Placement::Fixed(devices), None) if devices.len() == 1 => Ok(devices[0]),
            (Placement::Portable, Some(device)) if device.client().same(self.client()) => Ok(device.index()),
            // The check of the inputs refuses an input of another client.
            (Placement::Portable, None) if !inputs.is_empty() => {
                Ok(if inputs[0].client().same(self.client()) { inputs[0].device_index() } else { 0 })
            }
            _ => Err(self.place_error(options)),
        }
    }

    #[cold]
    fn place_error(&self, options: &ExecuteOptions) -> Error {
        let error = |message: String| Error::new(Kind::InvalidInput, message);
        match (self.placement(), &options.device) {
            (Placement::Fixed(devices), _) if devices.len() > 1 => {
                let message = match self.assigned().len() {
                    all if all > devices.len() => {
                        format!("The program runs on {} of its {all} devices in this process.", devices.len())
                    }
                    all => format!("The program was compiled for {all} devices."),
                };
                error(message).hint(Reason::ExecutableSharded)
            }
            (Placement::Fixed(_), _) => error(
                "Only portable executables run on a device of your choice; this one was compiled for one device."
                    .into(),
            )
            .hint(Reason::ExecutableFixed),
            (Placement::Portable, Some(device)) => Error::new(
                Kind::DeviceMismatch,
                format!("Device '{}' belongs to another client than the executable.", device.label()),
            ),
            (Placement::Portable, None) => {
                error("A portable executable runs where its inputs are, but this one has no inputs.".into())
                    .hint(Reason::DeviceUnnamed)
            }
        }
    }

    /// The memory that an execution needs, in words.
    #[cold]
    pub fn needs(&self) -> String {
        let Signature { name, outputs, .. } = self.signature();
        let outputs = holdings::arrays(outputs.iter().map(|spec| &**spec));
        let stats = self.memory_stats().unwrap_or_default();
        let temporary = stats.iter().find(|(name, _)| *name == "temp_size_in_bytes").and_then(|&(_, bytes)| bytes);
        match temporary.filter(|&bytes| bytes > 0) {
            Some(bytes) => {
                format!(
                    "the outputs of `{name}`, {outputs}, and {} of intermediate results",
                    room::size(bytes as usize)
                )
            }
            None => format!("the outputs of `{name}`, {outputs}"),
        }
    }

    /// Marks the inputs that an execution has taken over.
    pub(crate) fn mark_donated(&self, inputs: &[&Buffer], options: &ExecuteOptions) -> Result<()> {
        for (index, input) in inputs.iter().enumerate() {
            if self.donates(index, options) {
                if callbacks::depth() > 0 {
                    input.give_up_as_donated()?;
                } else {
                    input.mark_donated();
                }
            }
        }
        Ok(())
    }

    /// The options for the plugin. In a callback, it takes over no memory: launches before, which wait for the callback, may
    /// still need it.
    pub(crate) fn told_options<'a>(&self, options: &'a ExecuteOptions) -> Cow<'a, ExecuteOptions> {
        if callbacks::depth() == 0 {
            return Cow::Borrowed(options);
        }
        let non_donatable = (0..self.signature().inputs.len() as i64).collect();
        Cow::Owned(ExecuteOptions { non_donatable, ..options.clone() })
    }

    /// Whether an execution takes over this input's memory.
    pub fn donates(&self, input: usize, options: &ExecuteOptions) -> bool {
        self.signature().inputs.get(input).is_some_and(|i| i.donated)
            && !options.non_donatable.contains(&(input as i64))
    }

    /// Calls the plugin for one device.
    fn launch(&self, device: usize, inputs: &[*mut PJRT_Buffer], options: &ExecuteOptions) -> Result<Made> {
        let mut outputs: Handles = SmallVec::from_elem(null_mut(), self.signature().outputs.len());
        let execute_device = match self.placement() {
            Placement::Fixed(_) => null_mut(),
            Placement::Portable => self.client().device_facts(device).handle,
        };
        let client = self.client();
        let (running, in_flight) = (client.work().running(device), client.work().in_flight(device));
        let is_counted = self.hint().is_long || !in_flight.is_empty();
        let run = self.run_span(device);
        let mut complete: *mut PJRT_Event = null_mut();
        let events: *mut *mut PJRT_Event = if running.is_some() || is_counted { &mut complete } else { null_mut() };
        let start = self.hint().runs_on_caller.then(Instant::now);
        let called =
            self.call(&[inputs.as_ptr()], &[outputs.as_mut_ptr()], execute_device, events, null_mut(), options);
        if let Err(error) = called {
            run.into_iter().for_each(Span::forget);
            return Err(error);
        }
        if let Some(start) = start {
            self.history().note(start.elapsed());
        }
        if let Some(run) = run {
            self.end_run(run, &outputs);
        }
        if complete.is_null() {
            return Ok(Made { handles: outputs, are_complete: false });
        }
        let complete = Event::new(client.plugin(), complete);
        if complete.is_ready().is_ok_and(|ready| ready) {
            return Ok(Made { handles: outputs, are_complete: complete.outcome().is_ok() });
        }
        if is_counted {
            in_flight.count(&complete);
        }
        if let Some(running) = running {
            running.add(complete);
        }
        Ok(Made { handles: outputs, are_complete: false })
    }

    /// Calls the plugin for a program that calls the host, on one device, and waits until it is complete. Runs on a dispatch
    /// thread, so that later launches there know what they wait for.
    fn launch_with_host(
        &self,
        device: usize,
        inputs: &[*mut PJRT_Buffer],
        number: u64,
        options: &ExecuteOptions,
    ) -> Result<Made> {
        let client = self.client();
        let mut outputs: Handles = SmallVec::from_elem(null_mut(), self.signature().outputs.len());
        let execute_device = match self.placement() {
            Placement::Fixed(_) => null_mut(),
            Placement::Portable => client.device_facts(device).handle,
        };
        let carrier = self.carrier(number, &[device]);
        let context = carrier.as_ref().map_or(null_mut(), Carrier::handle);
        let mut complete: *mut PJRT_Event = null_mut();
        let run = self.run_span(device);
        self.call(&[inputs.as_ptr()], &[outputs.as_mut_ptr()], execute_device, &mut complete, context, options)?;
        let mut are_complete = false;
        if !complete.is_null() {
            let _run = run;
            are_complete = wait_for_all(&[Event::new(client.plugin(), complete)], carrier).is_ok_and(|all| all);
        }
        Ok(Made { handles: outputs, are_complete })
    }

    /// The plugin's object that carries this launch to handlers.
    pub(crate) fn carrier(&self, number: u64, devices: &[usize]) -> Option<Carrier> {
        let context = HostContext { client: self.client().clone(), devices: devices.to_vec() };
        Carrier::new(self.client().plugin().api(), Launch::new(number, Box::new(context), devices.len() > 1))
    }

    /// Calls the plugin. `inputs` and `outputs` have a list for each device, with lengths from the signature. If
    /// `complete` is not null, it receives an event for each device.
    pub(crate) fn call(
        &self,
        inputs: &[*const *mut PJRT_Buffer],
        outputs: &[*mut *mut PJRT_Buffer],
        execute_device: *mut PJRT_Device,
        complete: *mut *mut PJRT_Event,
        context: *mut PJRT_ExecuteContext,
        options: &ExecuteOptions,
    ) -> Result<()> {
        let client = self.client();
        let api = client.plugin().api();
        let mut span = trace::span(Activity::Launch, || self.details());
        let mut call_options = Args::<PJRT_ExecuteOptions>::new(api);
        call_options.fields.struct_size = api.size_of(&call_options);
        call_options.fields.launch_id = options.launch_id;
        call_options.fields.context = context;
        call_options.fields.non_donatable_input_indices = options.non_donatable.as_ptr();
        call_options.fields.num_non_donatable_input_indices = options.non_donatable.len();
        let called = call!(
            api,
            PJRT_LoadedExecutable_Execute {
                executable: self.handle(),
                options: (&raw mut call_options).cast(),
                argument_lists: inputs.as_ptr(),
                num_devices: inputs.len(),
                num_args: self.signature().inputs.len(),
                output_lists: outputs.as_ptr(),
                execute_device: execute_device,
                device_complete_events: complete,
            }
        );
        span.check(&called);
        called.map(drop).map_err(|e| e.on_platform(client.platform()))
    }

    /// A run on a device for the record, if there is one.
    #[inline(always)]
    pub(crate) fn run_span(&self, device: usize) -> Option<Span> {
        trace::is_on().then(|| {
            let label = &self.client().device_facts(device).description.label;
            trace::device_span(Activity::Run, label, || self.details())
        })
    }

    /// Ends a run when its first output is ready; now, if there is none.
    #[cold]
    pub(crate) fn end_run(&self, mut run: Span, outputs: &[*mut PJRT_Buffer]) {
        let Some(&first) = outputs.first() else { return };
        let plugin = self.client().plugin();
        let Ok(made) = call!(plugin.api(), PJRT_Buffer_ReadyEvent { buffer: first }) else { return };
        // If the plugin refuses, it ends now.
        let _ = Event::new(plugin, made.event).on_ready(move |outcome| {
            run.check(&outcome);
            drop(run);
        });
    }

    #[cold]
    fn details(&self) -> Details {
        let bytes: usize = self.signature().outputs.iter().map(|spec| spec.bytes()).sum();
        let name = &*self.signature().name;
        Details::named(name).of_program(name).bytes(bytes as u64)
    }

    fn launch_on_thread(
        &self,
        device: usize,
        inputs: &[&Buffer],
        options: &ExecuteOptions,
        backing: Option<Arc<Backing>>,
    ) -> Result<Outputs> {
        self.check_layouts()?;
        let dispatched = self.client().new_dispatched_of(self.history().last());
        let pending = |spec: &Arc<_>| {
            Buffer::pending(self.client().clone(), device, Arc::clone(spec), dispatched.clone(), backing.clone())
        };
        let outputs: Outputs = self.outputs().iter().map(pending).collect();
        let (executable, options, promised) = (self.clone(), self.told_options(options).into_owned(), outputs.clone());
        inputs.iter().filter_map(|input| input.unfinished_launch()).for_each(|launch| dispatched.note_after(launch));
        let inputs: Vec<Buffer> = inputs.iter().map(|&input| input.clone()).collect();
        let (calls_host, number) = (self.calls_host() || self.communicates(), dispatched.number());
        let turn = self.communicates().then(mpi::Turn::next);
        self.client().work().dispatcher(device).submit(dispatched.clone(), move || {
            // Done when this job is: the program is complete then.
            let turn = turn;
            if let Some(turn) = &turn {
                turn.wait();
            }
            let handles = executable.made(device, &inputs);
            let launch = |handles: &Handles| match calls_host {
                true => executable.launch_with_host(device, handles, number, &options),
                false => executable.launch(device, handles, &options),
            };
            let launched = handles.and_then(|handles| with_retry(|| executable.needs(), || launch(&handles)));
            let made = launched.inspect_err(|_| promised.iter().for_each(Buffer::mark_failed))?;
            let specs = executable.note_outputs(&made.handles);
            for ((output, &handle), spec) in promised.iter().zip(&made.handles).zip(specs) {
                output.fulfil(handle, spec);
                if made.are_complete {
                    output.note_complete();
                }
            }
            Ok(())
        })?;
        Ok(outputs)
    }
}
