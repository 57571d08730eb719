//! Executables: compiled programs, with their inputs and outputs, which are read once after compilation.

pub mod apart;
mod checks;
mod description;
pub mod execute;
mod hint;
pub mod inspect;
pub mod options;
pub mod placement;
mod refused;
pub mod serialized;
pub mod sharded;
mod source;
pub mod timing;
pub mod unloaded;

use crate::apart::Cancel;
use crate::buffer::order;
use crate::client::device::{self, Device};
use crate::client::flags;
use crate::client::Client;
use crate::executable::description::Description;
use crate::executable::execute::Dispatch;
use crate::executable::hint::{DispatchHint, RunHistory};
use crate::executable::options::{CompileOptions, UsedOptions};
pub use crate::executable::placement::Placement;
use crate::executable::placement::Places;
use crate::executable::source::{AdaptedProgram, Code};
use crate::runtime::registry::{Resource, Slot};
use pjrt_base::error::Result;
use pjrt_base::process;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_data::array::Spec;
use pjrt_ffi::api::call;
use pjrt_handlers::{self, registry};
use pjrt_ir::hlo::sharding::{Shardings, Wholes};
use pjrt_ir::hlo::HloModuleProto;
use pjrt_program::collectives;
use pjrt_program::names::{InputNames, Inputs, Order};
use pjrt_program::program::Program;
use pjrt_sys::*;
use std::any::Any;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// A compiled program on its devices; clones share it.
///
/// ```
/// # use pjrt_core::executable::{execute::ExecuteOptions, options::CompileOptions};
/// # use pjrt_core::{Buffer, Client, Executable, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType}; use pjrt_program::program::{Format, Program};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// let device = client.devices().next().unwrap();
/// let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
///   %y = stablehlo.multiply %x, %x : tensor<f32>
///   return %y : tensor<f32>
/// }";
/// let program = Program::new(text.into(), Format::Mlir)?;
/// let square = Executable::compile(&[device.clone()], &program, &CompileOptions::default())?;
/// let three = Buffer::from_bytes(&device, Spec::new(DType::F32, &[])?, &3f32.to_ne_bytes())?;
/// let outputs = square.execute(&[&three], &ExecuteOptions::default())?;
/// assert_eq!(outputs[0].read()?.bytes(), 9f32.to_ne_bytes());
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Executable(Arc<Inner>);

/// A weak reference to an executable.
#[derive(Debug, Clone)]
pub struct WeakExecutable(Weak<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    loaded: Loaded,
    places: Places,
    signature: Signature,
    /// The outputs, in the memory orders that the plugin reported at the first launch.
    laid_out: OnceLock<Box<[Arc<Spec>]>>,
    shardings: Shardings,
    hint: DispatchHint,
    history: RunHistory,
    dispatch: Dispatch,
    provenance: Provenance,
    /// The cache did not have it.
    missed: AtomicBool,
}

/// How an executable was created.
#[derive(Debug)]
pub(crate) struct Provenance {
    pub origin: Origin,
    /// The serialized compile options.
    pub options: Vec<u8>,
    pub compile_time: Duration,
    /// The part of the compiled module with its inputs, outputs, aliases and shardings.
    pub interface: HloModuleProto,
    /// The whole arrays of a partitioned program.
    pub wholes: Wholes,
    /// The size of its source in bytes: the program, or the serialized form.
    pub source_bytes: usize,
    /// The functions that it calls by name and that do not come with the plugin.
    pub functions: Vec<String>,
    /// Those that it calls with an array that is not row-major.
    pub functions_in_other_layouts: Vec<String>,
    /// The serialized form that it was loaded from. XLA's CPU plugin cannot serialize it again: it omits the machine
    /// code of executables that it has loaded.
    pub payload: Option<Box<[u8]>>,
}

impl Provenance {
    /// That of a program which was compiled into `module` now, with these serialized options.
    fn of_compiled(
        program: &Program,
        module: &HloModuleProto,
        is_partitioned: bool,
        options: Vec<u8>,
        compile_time: Duration,
    ) -> Provenance {
        Provenance {
            origin: Origin::Compiled,
            options,
            compile_time,
            interface: module.interface(),
            wholes: if is_partitioned { Wholes::of(program.annotations()) } else { Wholes::default() },
            source_bytes: program.code().len(),
            functions: unique(module.foreign_functions()),
            functions_in_other_layouts: unique(module.functions_in_other_layouts()),
            payload: None,
        }
    }

    /// Checks that its functions have handlers, and that these take its arrays.
    ///
    /// # Errors
    /// The code of `NOT_FOUND`; `LayoutMismatch`.
    fn check_functions(&self, platform: &str) -> Result<()> {
        pjrt_handlers::check(&self.functions, platform)?;
        self.check_layouts(platform)
    }

    fn check_layouts(&self, platform: &str) -> Result<()> {
        pjrt_handlers::check_layouts(&self.functions_in_other_layouts, platform)
    }

    fn shardings(&self, signature: &Signature) -> Shardings {
        let partitions = UsedOptions::decode(&self.options).map_or(1, |used| used.counts().1);
        let inputs: Vec<_> = signature.inputs.iter().map(|input| input.spec.clone()).collect();
        Shardings::read(&self.interface, partitions as usize, &self.wholes, &inputs, &signature.outputs)
    }
}

/// The origin of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The compiler, now.
    Compiled,
    /// The compiler, now, because the cache did not have it.
    Missed,
    /// The cache on disk.
    Cache,
    /// A file or bytes that the user saved.
    Saved,
}

/// The plugin's loaded executable, freed when dropped.
#[derive(Debug)]
struct Loaded {
    client: Client,
    /// Its slot in the client's list of executables.
    slot: Slot,
    /// Null once the client is closed.
    handle: AtomicPtr<PJRT_LoadedExecutable>,
}

/// One input of an executable.
#[derive(Debug, Clone)]
pub struct ProgramInput {
    /// Its name in the program's source, `%x` in MLIR text; empty if unknown.
    pub name: String,
    pub spec: Arc<Spec>,
    /// The program may take over the input's memory.
    pub donated: bool,
}

/// The inputs and outputs of an executable.
///
/// ```
/// # use pjrt_core::executable::options::CompileOptions;
/// # use pjrt_core::{Client, Executable, Plugin};
/// # use pjrt_program::program::{Format, Program};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// let text = "func.func @main(%x: tensor<2xf32>, %y: tensor<i1>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
/// let program = Program::new(text.into(), Format::Mlir)?;
/// let executable = Executable::compile(&[device], &program, &CompileOptions::default())?;
/// let signature = executable.signature();
/// let inputs: Vec<_> = signature.inputs.iter().map(|input| format!("{} {}", input.name, input.spec)).collect();
/// assert_eq!(inputs, ["%x f32[2]", "%y pred[]"]);
/// assert_eq!((signature.outputs[0].to_string(), signature.argument(1)), ("f32[2]".into(), "Argument 2 (`%y`)".into()));
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Signature {
    pub name: String,
    pub inputs: Vec<ProgramInput>,
    /// For inputs that are given by name.
    input_names: InputNames,
    pub outputs: Vec<Arc<Spec>>,
    /// The names of several outputs in R, if all have one.
    pub output_names: Option<Vec<String>>,
    /// For each output, the input whose memory it takes over.
    pub aliases: Vec<Option<usize>>,
}

impl Signature {
    /// The order of these inputs, some with names.
    ///
    /// # Errors
    /// As [`InputNames::order`].
    pub fn order(&self, inputs: &Inputs) -> Result<Order> {
        self.input_names.order(|| self.inputs.iter().map(|input| input.name.as_str()).collect(), inputs)
    }

    /// An input in words, by its index: "Argument 2 (`%y`)".
    pub fn argument(&self, index: usize) -> String {
        match self.inputs.get(index) {
            Some(input) if !input.name.is_empty() => format!("Argument {} (`{}`)", index + 1, input.name),
            _ => format!("Argument {}", index + 1),
        }
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<_> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl Executable {
    /// Compiles `program` for these devices, all partitions of the first replica first. Some may belong to other
    /// processes, which compile the same program for the same devices. A portable executable is compiled for any device of
    /// the given device's client.
    ///
    /// # Errors
    /// The compiler's, with the place in the program; `InvalidInput` for options that would make a plugin abort, and for
    /// devices that do not match them; `DeviceMismatch` if none belongs to this process; `DynamicShape` for inputs and outputs without a fixed shape; `UnsupportedDtype`
    /// for types that would crash XLA's CPU compiler; `ProgramVersion` for a portable program that is too new for the
    /// plugin; `UnsupportedCall` if a plugin cannot describe a program's inputs.
    pub fn compile(devices: &[Device], program: &Program, options: &CompileOptions) -> Result<Executable> {
        Executable::compile_unless(&Cancel::default(), devices, program, options)
    }

    /// The same, until it is cancelled. Only a helper can be cancelled while it compiles.
    ///
    /// # Errors
    /// As for [`Executable::compile`]; `CompilerCrashed` for a helper; `Interrupted` once it is cancelled.
    pub(crate) fn compile_unless(
        cancel: &Cancel,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Executable> {
        let options = options.for_program(program.annotations())?;
        options.check_devices(devices)?;
        let read = trace::span(Activity::Phase, || Details::named("check the program"));
        device::check_any_addressable(devices)?;
        let client = devices[0].client();
        let helpers = apart::helpers(client, &options);
        let source = AdaptedProgram::new(program, client.shares_host_memory(), helpers.is_some())?;
        let program = source.program();
        collectives::check(program, options.replicas(), options.partitions())?;
        drop(read);
        let start = Instant::now();
        let phase = trace::span(Activity::Phase, || Details::named("compiler"));
        let (plugin, known) = (client.plugin(), client.known_flags());
        let prefers_older_code = || source.prefers_older_code();
        let (loaded, payload, serialized) = flags::with_flags(plugin, known, prefers_older_code, |flags| {
            let serialized = options.serialize_with(flags, devices, program.is_for_shardy());
            let (loaded, payload) = source.compile_with(plugin, |program| {
                if let Some(helpers) = helpers {
                    if let Some((loaded, payload)) = apart::compile(client, helpers, program, &serialized, cancel)? {
                        return Ok((loaded, Some(payload)));
                    }
                }
                Ok((Loaded::compile(client, &Code::of(program)?, &serialized)?, None))
            })?;
            Ok((loaded, payload, serialized))
        })
        .map_err(|error| source.explain(error, plugin, client.platform()))?;
        let compile_time = start.elapsed();
        drop(phase);
        let _phase = trace::span(Activity::Phase, || Details::named("describe the executable"));
        let description = Description::new(client, loaded.handle())?;
        let module = description.module_of(program, options.partitions() > 1)?;
        refused::check(&module)?;
        let signature = description.signature_of(&module, program)?;
        let hint = description.hint(&module);
        drop(description);
        let provenance = Provenance {
            payload,
            ..Provenance::of_compiled(program, &module, options.partitions() > 1, serialized, compile_time)
        };
        provenance.check_functions(client.platform())?;
        pjrt_handlers::mpi::check(&module, options.partitions() as usize * options.replicas() as usize)?;
        let places = Places::new(client, loaded.handle(), devices, options.compile_portable_executable)?;
        Ok(Executable::new(loaded, signature, places, hint, options.dispatch, provenance))
    }

    fn new(
        loaded: Loaded,
        signature: Signature,
        places: Places,
        hint: DispatchHint,
        dispatch: Dispatch,
        provenance: Provenance,
    ) -> Executable {
        let (shardings, history) = (provenance.shardings(&signature), RunHistory::default());
        let missed = AtomicBool::new(false);
        let laid_out = OnceLock::new();
        let inner =
            Inner { loaded, places, signature, laid_out, shardings, hint, history, dispatch, provenance, missed };
        let inner = Arc::new(inner);
        let Loaded { client, slot, .. } = &inner.loaded;
        client.executables().enter(&inner, slot);
        Executable(inner)
    }

    pub fn origin(&self) -> Origin {
        if self.0.missed.load(Ordering::Relaxed) {
            Origin::Missed
        } else {
            self.0.provenance.origin
        }
    }

    /// The compiler's time, even if it was in another process.
    pub fn compile_time(&self) -> Duration {
        self.0.provenance.compile_time
    }

    /// The functions that it calls by name and that do not come with the plugin.
    pub fn functions(&self) -> &[String] {
        &self.0.provenance.functions
    }

    /// Checks the handlers of its functions: they can be removed or replaced.
    ///
    /// # Errors
    /// The code of `NOT_FOUND`; `LayoutMismatch`.
    pub(crate) fn check_functions(&self) -> Result<()> {
        self.0.provenance.check_functions(self.client().platform())
    }

    /// The second half of that, for a function of the host that has taken the place of another.
    fn check_layouts(&self) -> Result<()> {
        self.0.provenance.check_layouts(self.client().platform())
    }

    /// Whether other processes have all functions that it calls by name.
    pub(crate) fn is_self_contained(&self) -> bool {
        let platform = self.client().platform();
        self.functions().iter().all(|name| registry::known(name, platform) == Some(registry::Known::BuiltIn))
    }

    /// Records that the cache did not have it.
    pub(crate) fn note_miss(&self) {
        self.0.missed.store(true, Ordering::Relaxed);
    }

    /// An estimate of the host memory that it takes. No plugin reports this; XLA's CPU plugin takes about as much for
    /// compiled as for loaded executables.
    pub fn host_bytes(&self) -> usize {
        const AT_LEAST: usize = 64 << 10;
        const FOR_EACH_BYTE: usize = 32;
        const AT_MOST: usize = 256 << 20;
        (AT_LEAST + FOR_EACH_BYTE * self.0.provenance.source_bytes).min(AT_MOST)
    }

    pub(crate) fn provenance(&self) -> &Provenance {
        &self.0.provenance
    }

    pub fn downgrade(&self) -> WeakExecutable {
        WeakExecutable(Arc::downgrade(&self.0))
    }

    pub fn client(&self) -> &Client {
        &self.0.loaded.client
    }

    /// The devices that this process runs it on.
    pub fn placement(&self) -> &Placement {
        &self.0.places.placement
    }

    /// The devices of all processes that run it, by index, all partitions of the first replica first; none for a portable
    /// executable.
    pub fn assigned(&self) -> &[usize] {
        &self.0.places.assigned
    }

    /// The positions of this process's devices among the devices of all processes.
    pub fn positions(&self) -> Vec<usize> {
        let position = |device: &usize| self.assigned().iter().position(|other| other == device);
        self.placement().fixed().iter().filter_map(position).collect()
    }

    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// The specs of its outputs: the signature's until [`Executable::note_outputs`] has asked the plugin.
    pub(crate) fn outputs(&self) -> &[Arc<Spec>] {
        self.0.laid_out.get().map_or(&self.signature().outputs, |specs| specs)
    }

    /// The specs of its outputs, whose memory orders the plugin is asked for at the first launch.
    #[inline]
    pub(crate) fn note_outputs(&self, made: &[*mut PJRT_Buffer]) -> &[Arc<Spec>] {
        let api = self.client().plugin().api();
        self.0.laid_out.get_or_init(|| {
            made.iter().zip(&self.signature().outputs).map(|(&handle, spec)| order::found(api, handle, spec)).collect()
        })
    }

    /// The shardings of its inputs and outputs.
    pub fn shardings(&self) -> &Shardings {
        &self.0.shardings
    }

    pub(crate) fn hint(&self) -> DispatchHint {
        self.0.hint
    }

    /// How long its runs have occupied the threads that launched them.
    pub(crate) fn history(&self) -> &RunHistory {
        &self.0.history
    }

    /// The thread that calls the plugin for its launches.
    pub(crate) fn dispatch(&self) -> Dispatch {
        self.0.dispatch
    }

    /// A new description by the plugin.
    pub(crate) fn describe(&self) -> Result<Description> {
        self.client().handle()?;
        Description::new(self.client(), self.handle())
    }

    /// The plugin's answer to a question; an error names the feature, as in "Cost analysis is", if the plugin lacks it.
    fn ask<T>(&self, feature: &str, question: impl FnOnce(&Description) -> Result<T>) -> Result<T> {
        question(&self.describe()?).map_err(|error| error.unsupported(self.client().platform(), feature))
    }

    pub(crate) fn handle(&self) -> *mut PJRT_LoadedExecutable {
        self.0.loaded.handle()
    }
}

impl WeakExecutable {
    pub fn upgrade(&self) -> Option<Executable> {
        self.0.upgrade().map(Executable)
    }

    /// Whether the executable is no longer in use.
    pub fn is_dead(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl PartialEq for WeakExecutable {
    /// Whether both are the same executable.
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Loaded {
    /// Takes ownership of an executable that the plugin has loaded.
    fn new(client: &Client, handle: *mut PJRT_LoadedExecutable) -> Loaded {
        client.plugin().first_executable.call_once(|| process::watch_exit(crate::client::close_all));
        client.usage().add_executable();
        Loaded { client: client.clone(), slot: Slot::default(), handle: AtomicPtr::new(handle) }
    }

    /// Has the plugin compile a program.
    fn compile(client: &Client, code: &Code, options: &[u8]) -> Result<Loaded> {
        let api = client.plugin().api();
        let compiled = code.pass(api, |program| {
            call!(
                api,
                PJRT_Client_Compile {
                    client: client.handle()?,
                    program: program.cast(),
                    compile_options: options.as_ptr().cast(),
                    compile_options_size: options.len(),
                }
            )
        });
        Ok(Loaded::new(client, compiled?.executable))
    }

    /// Has the plugin load a serialized executable, with these options.
    fn deserialize(client: &Client, payload: &[u8], options: &[u8]) -> Result<Loaded> {
        let loaded = call!(
            client.plugin().api(),
            PJRT_Executable_DeserializeAndLoad {
                client: client.handle()?,
                serialized_executable: payload.as_ptr().cast(),
                serialized_executable_size: payload.len(),
                overridden_serialized_compile_options: options.as_ptr().cast(),
                overridden_serialized_compile_options_size: options.len(),
            }
        );
        Ok(Loaded::new(client, loaded?.loaded_executable))
    }

    fn handle(&self) -> *mut PJRT_LoadedExecutable {
        self.handle.load(Ordering::Acquire)
    }

    fn release(&self) {
        let handle = self.handle.swap(null_mut(), Ordering::AcqRel);
        if !handle.is_null() {
            // Nothing can be done about a failure to free.
            let _ = call!(self.client.plugin().api(), PJRT_LoadedExecutable_Destroy { executable: handle });
        }
    }
}

impl Resource for Inner {
    fn release(&self) {
        self.loaded.release();
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.client.usage().subtract_executable();
        // In the child of a fork, another thread may have held the registry's lock.
        if self.client.is_usable() {
            self.client.executables().leave(&self.slot);
            self.release();
        }
    }
}
