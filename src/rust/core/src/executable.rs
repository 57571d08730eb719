//! Executables: compiled programs, and what they say of their inputs and outputs, read once after the compile.

use crate::api::{bytes, call, named_values, slice, text, Value};
use crate::buffer::Spec;
use crate::client::Client;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::hlo::{HloModuleProto, HloModuleProtoWithConfig};
use crate::options::CompileOptions;
use crate::process;
use crate::program::Program;
use pjrt_sys::*;
use prost::Message;
use std::ffi::c_char;
use std::sync::{Arc, Once};

/// A compiled program on its devices; clones share it.
#[derive(Debug, Clone)]
pub struct Executable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    loaded: Loaded,
    placement: Placement,
    signature: Signature,
    runs_on_caller: bool,
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
    handle: *mut PJRT_LoadedExecutable,
}

// SAFETY: PJRT's functions on executables may be called from any thread.
unsafe impl Send for Loaded {}
unsafe impl Sync for Loaded {}

/// One input of an executable.
#[derive(Debug, Clone)]
pub struct Input {
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
    /// Compiles `program` for these devices, all partitions of the first replica first. A portable executable is compiled
    /// for any device of the client of the one given.
    ///
    /// # Errors
    /// The compiler's, with its position in the program; `InvalidInput` for options that would make a plugin abort, and for
    /// devices that do not fit them; `UnsupportedCall` where a plugin cannot tell what a program takes.
    pub fn compile(devices: &[Device], program: &Program, options: &CompileOptions) -> Result<Executable> {
        options.check()?;
        options.check_devices(devices)?;
        let client = devices[0].client();
        let api = client.plugin().api();
        let serialized = options.serialize(devices, program.is_for_shardy());
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
        let description = Description::new(&loaded)?;
        let module = description.optimized_module()?;
        let signature = description.signature(&module)?;
        let runs_on_caller = client.shares_host_memory() && description.runs_on_caller(&module);
        drop(description);
        let placement = if options.compile_portable_executable {
            Placement::Portable
        } else {
            Placement::Fixed(devices.iter().map(Device::index).collect())
        };
        Ok(Executable(Arc::new(Inner { loaded, placement, signature, runs_on_caller })))
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

    /// Whether the plugin would run it on the thread that launches it, for long enough to matter.
    pub(crate) fn runs_on_caller(&self) -> bool {
        self.0.runs_on_caller
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

/// The plugin's description of a loaded executable, freed when dropped.
struct Description<'a> {
    client: &'a Client,
    handle: *mut PJRT_Executable,
}

impl<'a> Description<'a> {
    fn new(loaded: &'a Loaded) -> Result<Self> {
        let api = loaded.client.plugin().api();
        let found = call!(api, PJRT_LoadedExecutable_GetExecutable { loaded_executable: loaded.handle })?;
        Ok(Description { client: &loaded.client, handle: found.executable })
    }

    /// The compiled HLO module, which says what the program takes, gives and aliases.
    fn optimized_module(&self) -> Result<HloModuleProto> {
        let api = self.client.plugin().api();
        let mut program: PJRT_Program = crate::api::blank_struct();
        program.struct_size = size_of::<PJRT_Program>();
        // Asked twice: for the size, then for the bytes.
        call!(api, PJRT_Executable_OptimizedProgram { executable: self.handle, program: &mut program })?;
        let mut code = vec![0u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        call!(api, PJRT_Executable_OptimizedProgram { executable: self.handle, program: &mut program })?;
        // SAFETY: the plugin has just set the format.
        let format = unsafe { bytes(program.format, program.format_size) };
        let module = match format {
            b"hlo_with_config" => {
                HloModuleProtoWithConfig::decode(code.as_slice()).map(|m| m.hlo_module.unwrap_or_default())
            }
            _ => HloModuleProto::decode(code.as_slice()),
        };
        match module {
            Ok(module) => Ok(module),
            Err(error) => fail!(Internal, "The plugin's description of the compiled program cannot be read: {error}."),
        }
    }

    fn signature(&self, module: &HloModuleProto) -> Result<Signature> {
        let api = self.client.plugin().api();
        let name = call!(api, PJRT_Executable_Name { executable: self.handle })?;
        let shape = module.host_program_shape.clone().unwrap_or_default();
        let result = shape.result.unwrap_or_default();
        let (Some(parameters), Some(outputs)) =
            (shape.parameters.iter().map(|p| p.spec()).collect::<Option<Vec<_>>>(), result.specs())
        else {
            fail!(UnsupportedDtype, "The program takes or gives something that is no array (a tuple or a token).");
        };
        self.check_outputs(&outputs)?;
        let inputs = parameters.into_iter().enumerate().map(|(i, spec)| Input {
            name: shape.parameter_names.get(i).cloned().unwrap_or_default(),
            spec: Arc::new(spec),
            donated: false,
        });
        let mut signature = Signature {
            // SAFETY: the plugin has just returned this string.
            name: unsafe { text(name.executable_name, name.executable_name_size) },
            inputs: inputs.collect(),
            aliases: vec![None; outputs.len()],
            outputs: outputs.into_iter().map(Arc::new).collect(),
        };
        let aliases = module.input_output_alias.iter().flat_map(|a| &a.entries);
        for entry in aliases {
            let (input, output) =
                (entry.parameter_number as usize, entry.output_shape_index.first().map_or(0, |&i| i as usize));
            if let (Some(i), Some(o)) = (signature.inputs.get_mut(input), signature.aliases.get_mut(output)) {
                i.donated = true;
                *o = Some(input);
            }
        }
        for entry in module.buffer_donor.iter().flat_map(|d| &d.entries) {
            if let Some(input) = signature.inputs.get_mut(entry.parameter_number as usize) {
                input.donated = true;
            }
        }
        Ok(signature)
    }

    /// Compares what the module says of the outputs with the plugin's own word, lest a buffer lie about its type.
    fn check_outputs(&self, outputs: &[Spec]) -> Result<()> {
        let api = self.client.plugin().api();
        let count = call!(api, PJRT_Executable_NumOutputs { executable: self.handle })?.num_outputs;
        let types = call!(api, PJRT_Executable_OutputElementTypes { executable: self.handle })?;
        // SAFETY: the plugin has just returned this array.
        let types = unsafe { slice(types.output_types, types.num_output_types) };
        let agree = count == outputs.len()
            && types.len() == outputs.len()
            && outputs.iter().zip(types).all(|(spec, &code)| DType::from_code(code).ok() == Some(spec.dtype));
        if !agree {
            fail!(Internal, "The plugin describes the program's outputs in two ways that differ.");
        }
        Ok(())
    }

    /// XLA's CPU client runs programs of few floating point operations on the calling thread; transcendental functions,
    /// copies and loops do not count as such, however long they take.
    fn runs_on_caller(&self, module: &HloModuleProto) -> bool {
        const FEW_FLOPS: f32 = 1000.0;
        const FEW_TRANSCENDENTALS: f32 = 1000.0;
        const FEW_BYTES: f32 = 1e6;
        let Ok(found) = call!(self.client.plugin().api(), PJRT_Executable_GetCostAnalysis { executable: self.handle })
        else {
            return true;
        };
        // SAFETY: the plugin has just returned this array.
        let properties = unsafe { named_values(found.properties, found.num_properties) };
        let cost = |name: &str| {
            properties.iter().find(|(n, _)| n == name).map_or(0.0, |(_, value)| match value {
                Value::Float(f) => *f,
                _ => 0.0,
            })
        };
        let loops = module.has_opcode("while");
        let has_many_flops = cost("flops") > 2.0 * FEW_FLOPS;
        let takes_long = cost("transcendentals") > FEW_TRANSCENDENTALS
            || cost("bytes accessed") > FEW_BYTES
            || ["sort", "custom-call", "conditional"].iter().any(|opcode| module.has_opcode(opcode));
        loops || (takes_long && !has_many_flops)
    }
}

impl Drop for Description<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure to free.
        let _ = call!(self.client.plugin().api(), PJRT_Executable_Destroy { executable: self.handle });
    }
}
