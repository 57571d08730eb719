//! Executables: compiled programs, and what they say of their inputs and outputs, read once after the compile.

use crate::api::call;
use crate::buffer::Spec;
use crate::client::Client;
use crate::description::Description;
use crate::device::Device;
use crate::error::Result;
use crate::options::CompileOptions;
use crate::process;
use crate::program::Program;
use pjrt_sys::*;
use std::ffi::c_char;
use std::sync::{Arc, Once};

/// A compiled program on its devices; clones share it.
#[derive(Debug, Clone)]
pub struct Executable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    loaded: Loaded,
    device: usize,
    signature: Signature,
    runs_on_caller: bool,
}

/// The plugin's loaded executable, freed when dropped.
#[derive(Debug)]
struct Loaded {
    client: Client,
    handle: *mut PJRT_LoadedExecutable,
}

// SAFETY: PJRT's functions on executables may be called from any thread.
unsafe impl Send for Loaded {}
unsafe impl Sync for Loaded {}

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

impl Executable {
    /// Compiles `program` for one device.
    ///
    /// # Errors
    /// The compiler's, with its position in the program; `InvalidInput` for options that would make a plugin abort;
    /// `UnsupportedCall` where a plugin cannot tell what a program takes.
    pub fn compile(device: &Device, program: &Program, options: &CompileOptions) -> Result<Executable> {
        options.check()?;
        if options.num_replicas * options.num_partitions != 1 {
            fail!(InvalidInput, "A program is compiled for one device: `num_replicas` and `num_partitions` must be 1.");
        }
        let client = device.client();
        let api = client.plugin().api();
        let serialized = options.serialize(&[device.id()], device.local_hardware_id());
        let format = program.format().name();
        let mut source: PJRT_Program = crate::api::blank_struct();
        source.struct_size = size_of::<PJRT_Program>();
        source.code = program.code().as_ptr() as *mut c_char;
        source.code_size = program.code().len();
        source.format = format.as_ptr().cast();
        source.format_size = format.len();
        let compiled = call!(
            api,
            PJRT_Client_Compile {
                client: client.handle()?,
                program: &source,
                compile_options: serialized.as_ptr().cast(),
                compile_options_size: serialized.len(),
            }
        )
        .map_err(|e| e.on_platform(client.platform()))?;
        static FIRST: Once = Once::new();
        FIRST.call_once(process::watch_exit);
        let loaded = Loaded { client: client.clone(), handle: compiled.executable };
        let description = Description::new(&loaded.client, loaded.handle)?;
        let module = description.optimized_module()?;
        let signature = description.signature(&module, program.input_names())?;
        let runs_on_caller = client.shares_host_memory() && description.runs_on_caller(&module);
        drop(description);
        Ok(Executable(Arc::new(Inner { loaded, device: device.index(), signature, runs_on_caller })))
    }

    pub fn client(&self) -> &Client {
        &self.0.loaded.client
    }

    /// The device it was compiled for.
    pub fn device(&self) -> Device {
        Device::new(self.0.loaded.client.clone(), self.0.device)
    }

    /// Position of its device among the client's.
    pub fn device_index(&self) -> usize {
        self.0.device
    }

    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// Whether the plugin would run it on the thread that launches it, for long enough to matter.
    pub(crate) fn runs_on_caller(&self) -> bool {
        self.0.runs_on_caller
    }

    /// What the plugin says of it, asked anew.
    pub(crate) fn describe(&self) -> Result<Description<'_>> {
        self.client().handle()?;
        Description::new(self.client(), self.0.loaded.handle)
    }

    pub(crate) fn handle(&self) -> *mut PJRT_LoadedExecutable {
        self.0.loaded.handle
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.client.is_usable() {
            // Nothing can be done about a failure to free.
            let _ = call!(self.client.plugin().api(), PJRT_LoadedExecutable_Destroy { executable: self.handle });
        }
    }
}
