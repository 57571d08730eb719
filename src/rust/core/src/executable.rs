//! Executables: compiled programs, and what they say of their inputs and outputs, read once after the compile.

use crate::api::{call, Args};
use crate::client::Client;
use crate::defaults;
use crate::description::Description;
use crate::device::Device;
use crate::execute::Dispatch;
use crate::options::{CompileOptions, UsedOptions};
use crate::pace::{Pace, Record};
use crate::registry::Place;
use pjrt_base::error::Result;
use pjrt_base::process;
use pjrt_data::array::Spec;
use pjrt_plugins::cuda;
use pjrt_program::hlo::HloModuleProto;
use pjrt_program::narrow;
use pjrt_program::program::Program;
use pjrt_program::sharding::{Shardings, Wholes};
use pjrt_sys::*;
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A compiled program on its devices; clones share it.
///
/// ```
/// # use pjrt_core::{execute::ExecuteOptions, options::CompileOptions, Buffer, Client, Executable, Plugin};
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

/// A reference to an executable that does not keep it.
#[derive(Debug, Clone)]
pub struct WeakExecutable(Weak<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    loaded: Loaded,
    placement: Placement,
    signature: Signature,
    shardings: Shardings,
    pace: Pace,
    record: Record,
    dispatch: Dispatch,
    making: Making,
    /// The cache was asked for it, and did not have it.
    missed: AtomicBool,
}

/// What a serialized executable tells of itself, so that the plugin need not be asked for its module.
pub(crate) struct Restored {
    pub names: Vec<String>,
    pub placement: Placement,
    pub pace: Pace,
    pub dispatch: Dispatch,
    pub making: Making,
}

/// How an executable came to be.
#[derive(Debug)]
pub(crate) struct Making {
    pub origin: Origin,
    /// The serialized compile options.
    pub options: Vec<u8>,
    /// How long the compiler took, whenever that was.
    pub compile_time: Duration,
    /// As much of the compiled module as tells what it takes, gives and aliases, and how that is divided.
    pub interface: HloModuleProto,
    /// Of a program that is divided, the arrays as a whole.
    pub wholes: Wholes,
    /// Bytes of what it was made from: the program, or the serialized form.
    pub source_bytes: usize,
    /// Every function that it calls by name comes with the plugin.
    pub is_self_contained: bool,
    /// The serialized form that it was read from. XLA's CPU plugin cannot make it twice: what it has read it writes without
    /// the machine code.
    pub payload: Option<Box<[u8]>>,
}

impl Making {
    fn shardings(&self, signature: &Signature) -> Shardings {
        let partitions = UsedOptions::decode(&self.options).map_or(1, |used| used.counts().1);
        let inputs: Vec<_> = signature.inputs.iter().map(|input| input.spec.clone()).collect();
        Shardings::read(&self.interface, partitions as usize, &self.wholes, &inputs, &signature.outputs)
    }
}

/// Where an executable comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The compiler has made it now.
    Compiled,
    /// The compiler, now, since the cache did not have it.
    Missed,
    /// It was compiled before, and kept on disk.
    Cache,
    /// It was saved by the user.
    Saved,
}

/// Where an executable runs.
#[derive(Debug)]
pub enum Placement {
    /// On these devices, by position among the client's: all partitions of the first replica first.
    Fixed(Vec<usize>),
    /// On one device, chosen at each execution.
    Portable,
}

/// The plugin's loaded executable, freed when dropped.
#[derive(Debug)]
struct Loaded {
    client: Client,
    /// Where it stands among the client's executables.
    place: Place,
    /// Null once the client is closed.
    handle: AtomicPtr<PJRT_LoadedExecutable>,
}

/// One input of an executable.
#[derive(Debug, Clone)]
pub struct Input {
    /// As in the program's source where that tells, `%x` in MLIR text; empty when unknown.
    pub name: String,
    pub spec: Arc<Spec>,
    /// The program may take over the input's memory.
    pub donated: bool,
}

/// What an executable takes and gives.
#[derive(Debug)]
pub struct Signature {
    pub name: String,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Arc<Spec>>,
    /// For each output the input whose memory it takes over.
    pub aliases: Vec<Option<usize>>,
}

impl Signature {
    /// An input in words, from its position: "Argument 2 (`%y`)".
    pub fn argument(&self, index: usize) -> String {
        match self.inputs.get(index) {
            Some(input) if !input.name.is_empty() => format!("Argument {} (`{}`)", index + 1, input.name),
            _ => format!("Argument {}", index + 1),
        }
    }
}

impl Executable {
    /// Compiles `program` for these devices, all partitions of the first replica first. A portable executable is compiled
    /// for any device of the client of the one given.
    ///
    /// # Errors
    /// The compiler's, with its position in the program; `InvalidInput` for options that would make a plugin abort, and for
    /// devices that do not fit them; `UnsupportedDtype` for what XLA's CPU compiler is lost to; `ProgramVersion` for a portable program that is too new for the plugin; `UnsupportedCall` where
    /// a plugin cannot tell what a program takes.
    pub fn compile(devices: &[Device], program: &Program, options: &CompileOptions) -> Result<Executable> {
        let options = options.for_program(program.annotations())?;
        options.check_devices(devices)?;
        devices.iter().try_for_each(Device::check_addressable)?;
        let client = devices[0].client();
        if client.shares_host_memory() {
            narrow::check(program)?;
        }
        let api = client.plugin().api();
        let format = program.format().name();
        let mut source = Args::<PJRT_Program>::new(api);
        source.fields.struct_size = api.size_of(&source);
        source.fields.code = program.code().as_ptr() as *mut c_char;
        source.fields.code_size = program.code().len();
        source.fields.format = format.as_ptr().cast();
        source.fields.format_size = format.len();
        let start = Instant::now();
        let (compiled, serialized) = defaults::with_flags(client, |flags| {
            let serialized = options.serialize_with(flags, devices, program.is_for_shardy());
            let compiled = call!(
                api,
                PJRT_Client_Compile {
                    client: client.handle()?,
                    program: (&raw const source).cast(),
                    compile_options: serialized.as_ptr().cast(),
                    compile_options_size: serialized.len(),
                }
            )?;
            Ok((compiled, serialized))
        })
        .map_err(|e| {
            program
                .explain(cuda::tools::explained(e), client.plugin().stablehlo_versions())
                .on_platform(client.platform())
        })?;
        let compile_time = start.elapsed();
        let loaded = Loaded::new(client, compiled.executable);
        let description = Description::new(client, loaded.handle())?;
        let module = description.optimized_module()?;
        let signature = description.signature(&module, program.input_names())?;
        let pace = description.pace(&module);
        drop(description);
        let placement = if options.compile_portable_executable {
            Placement::Portable
        } else {
            Placement::Fixed(devices.iter().map(Device::index).collect())
        };
        let making = Making {
            origin: Origin::Compiled,
            options: serialized,
            compile_time,
            interface: module.interface(),
            wholes: if options.partitions() > 1 { Wholes::of(program.annotations()) } else { Wholes::default() },
            source_bytes: program.code().len(),
            is_self_contained: module.calls_only_known_functions(),
            payload: None,
        };
        let shardings = making.shardings(&signature);
        Ok(Executable::new(Inner {
            loaded,
            placement,
            signature,
            shardings,
            pace,
            record: Record::default(),
            dispatch: options.dispatch,
            making,
            missed: AtomicBool::new(false),
        }))
    }

    /// Takes ownership of an executable that a plugin has read from its serialized form.
    pub(crate) fn restore(client: &Client, handle: *mut PJRT_LoadedExecutable, as_was: Restored) -> Result<Executable> {
        let loaded = Loaded::new(client, handle);
        let Restored { names, placement, pace, dispatch, making } = as_was;
        let signature = Description::new(client, loaded.handle())?.signature(&making.interface, names)?;
        let (shardings, record, missed) = (making.shardings(&signature), Record::default(), AtomicBool::new(false));
        Ok(Executable::new(Inner { loaded, placement, signature, shardings, pace, record, dispatch, making, missed }))
    }

    fn new(inner: Inner) -> Executable {
        let inner = Arc::new(inner);
        let Loaded { client, place, .. } = &inner.loaded;
        client.executables().enter(&inner, place);
        Executable(inner)
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        if self.0.missed.load(Ordering::Relaxed) {
            Origin::Missed
        } else {
            self.0.making.origin
        }
    }

    /// How long the compiler took to make it, be that now or in another session.
    pub fn compile_time(&self) -> Duration {
        self.0.making.compile_time
    }

    /// Notes that the cache did not have it.
    pub(crate) fn note_miss(&self) {
        self.0.missed.store(true, Ordering::Relaxed);
    }

    /// About how much host memory it takes. No plugin tells; XLA's CPU plugin was seen to take as much for what it had
    /// compiled and for what it had read.
    pub fn host_bytes(&self) -> usize {
        const AT_LEAST: usize = 64 << 10;
        const FOR_EACH_BYTE: usize = 32;
        const AT_MOST: usize = 256 << 20;
        (AT_LEAST + FOR_EACH_BYTE * self.0.making.source_bytes).min(AT_MOST)
    }

    pub(crate) fn making(&self) -> &Making {
        &self.0.making
    }

    /// A reference that does not keep it.
    pub fn downgrade(&self) -> WeakExecutable {
        WeakExecutable(Arc::downgrade(&self.0))
    }

    pub fn client(&self) -> &Client {
        &self.0.loaded.client
    }

    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// How what it takes and gives is divided over its partitions.
    pub fn shardings(&self) -> &Shardings {
        &self.0.shardings
    }

    pub(crate) fn pace(&self) -> Pace {
        self.0.pace
    }

    /// How long its runs have kept the threads that launched them.
    pub(crate) fn record(&self) -> &Record {
        &self.0.record
    }

    /// Where the plugin is called from for its launches.
    pub(crate) fn dispatch(&self) -> Dispatch {
        self.0.dispatch
    }

    /// What the plugin says of it, asked anew.
    pub(crate) fn describe(&self) -> Result<Description<'_>> {
        self.client().handle()?;
        Description::new(self.client(), self.handle())
    }

    pub(crate) fn handle(&self) -> *mut PJRT_LoadedExecutable {
        self.0.loaded.handle()
    }
}

impl WeakExecutable {
    /// The executable, if somebody still has it.
    pub fn upgrade(&self) -> Option<Executable> {
        self.0.upgrade().map(Executable)
    }

    /// Whether nobody has the executable any more.
    pub fn is_dead(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl PartialEq for WeakExecutable {
    /// Whether both are one executable.
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Loaded {
    /// Takes ownership of what the plugin has loaded.
    fn new(client: &Client, handle: *mut PJRT_LoadedExecutable) -> Loaded {
        client.plugin().first_executable.call_once(|| process::watch_exit(crate::client::close_all));
        client.count_executable();
        Loaded { client: client.clone(), place: Place::default(), handle: AtomicPtr::new(handle) }
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

impl Inner {
    /// Gives the plugin's part back.
    pub(crate) fn release(&self) {
        self.loaded.release();
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.client.uncount_executable();
        // In the child of a fork, another thread may have had the registry.
        if self.client.is_usable() {
            self.client.executables().leave(&self.place);
            self.release();
        }
    }
}
