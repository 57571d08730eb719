//! A plugin's description of a compiled program.

use crate::client::Client;
use crate::executable::hint::DispatchHint;
use crate::executable::{ProgramInput, Signature};
use crate::runtime::plugin::where_there;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_ffi::api::{bytes, call, named_values, slice, text, Api, Args, PluginValue};
use pjrt_handlers::lapack;
use pjrt_ir::hlo::{HloModuleProto, HloModuleProtoWithConfig};
use pjrt_program::names::{self, InputNames};
use pjrt_program::program::Program;
use pjrt_sys::*;
use prost::Message;
use std::sync::Arc;

/// Estimates of the costs of a run: `flops`, `bytes accessed` and more.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// They are estimates of this package from the optimized program, because the plugin has none.
    pub are_own: bool,
    pub values: Vec<(String, PluginValue)>,
}

/// The plugin's description of an executable, freed when dropped.
pub(crate) struct Description {
    pub api: &'static Api,
    /// It runs on a CPU of this machine.
    pub is_host: bool,
    pub handle: *mut PJRT_Executable,
}

impl Description {
    /// The description of a loaded executable, for use while the client is open.
    pub fn new(client: &Client, loaded: *mut PJRT_LoadedExecutable) -> Result<Self> {
        let api = client.plugin().api();
        let found = call!(api, PJRT_LoadedExecutable_GetExecutable { loaded_executable: loaded })?;
        Ok(Description { api, is_host: client.shares_host_memory(), handle: found.executable })
    }

    /// Calls `read` with the plugin's serialized form of the executable.
    pub fn with_payload<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let made = call!(self.api, PJRT_Executable_Serialize { executable: self.handle })?;
        // SAFETY: the plugin has just returned these bytes, which live until they are freed below.
        let result = read(unsafe { bytes(made.serialized_bytes, made.serialized_bytes_size) });
        if let Some(free) = made.serialized_executable_deleter.filter(|_| !self.api.poison().is_noted()) {
            // SAFETY: as the plugin asks, once.
            unsafe { free(made.serialized_executable) };
        }
        Ok(result)
    }

    /// The compiled HLO module, which has the program's inputs, outputs and aliases.
    pub fn optimized_module(&self) -> Result<HloModuleProto> {
        readable(HloModuleProto::from_bytes(&self.optimized_bytes()?))
    }

    /// The same; from a plugin that does not show compiled programs, only the inputs, outputs and aliases that the program
    /// itself names. `is_partitioned`: they differ from the inputs and outputs of one device.
    pub fn module_of(&self, program: &Program, is_partitioned: bool) -> Result<HloModuleProto> {
        match self.optimized_module() {
            Err(error) if error.is_unsupported() => match program.interface() {
                Some(interface) if !is_partitioned => Ok(interface),
                _ => Err(error),
            },
            module => module,
        }
    }

    /// The compiled HLO module as a serialized `HloModuleProto`.
    fn optimized_bytes(&self) -> Result<Vec<u8>> {
        let api = self.api;
        let mut program = Args::<PJRT_Program>::new(api);
        program.fields.struct_size = api.size_of(&program);
        // Called twice: for the size, then for the bytes.
        call!(api, PJRT_Executable_OptimizedProgram { executable: self.handle, program: (&raw mut program).cast() })?;
        let mut code = vec![0u8; program.fields.code_size];
        program.fields.code = code.as_mut_ptr().cast();
        call!(api, PJRT_Executable_OptimizedProgram { executable: self.handle, program: (&raw mut program).cast() })?;
        // SAFETY: the plugin has just set the format.
        match unsafe { bytes(program.fields.format, program.fields.format_size) } {
            b"hlo_with_config" => readable(HloModuleProtoWithConfig::decode(code.as_slice())).map(|m| m.hlo_module),
            _ => Ok(code),
        }
    }

    /// The inputs and outputs of the program that it was compiled from.
    pub fn signature_of(&self, module: &HloModuleProto, program: &Program) -> Result<Signature> {
        let outputs = program.annotations().outputs.as_deref().unwrap_or_default();
        let output_names = names::of_outputs(outputs.iter().map(|output| output.path.as_deref()));
        self.signature(module, program.given_names(), program.input_names(), output_names)
    }

    /// The program's inputs and outputs, with their names: those that it was given, or those in the source.
    pub fn signature(
        &self,
        module: &HloModuleProto,
        given: Option<&[String]>,
        in_source: Vec<String>,
        output_names: Option<Vec<String>>,
    ) -> Result<Signature> {
        let shape = module.host_program_shape.clone().unwrap_or_default();
        let result = shape.result.unwrap_or_default();
        let (Some(parameters), Some(outputs)) =
            (shape.parameters.iter().map(|p| p.spec()).collect::<Option<Vec<_>>>(), result.specs())
        else {
            let message =
                "The program has an input or output that is a tuple or a token, or whose element type this package does not know.";
            return Err(Error::new(Kind::UnsupportedDtype, message)
                .hint("The arrays of a tuple must be inputs or outputs themselves."));
        };
        self.check_outputs(&outputs)?;
        let count = parameters.len();
        let in_source = if in_source.len() == parameters.len() { in_source } else { module.input_names() };
        // The location of an argument names it better than the text. Partitioned programs record made-up names.
        let mut recorded = module.recorded_names();
        let mut recorded =
            |i: usize| recorded.get_mut(i).and_then(Option::take).filter(|name| !names::is_generated(name));
        let given = |i: usize| given.filter(|names| names.len() == count).map(|names| names[i].clone());
        let inputs = parameters.into_iter().enumerate().map(|(i, spec)| ProgramInput {
            name: given(i).or_else(|| recorded(i)).or_else(|| in_source.get(i).cloned()).unwrap_or_default(),
            spec: Arc::new(spec),
            donated: false,
        });
        let name = where_there(call!(self.api, PJRT_Executable_Name { executable: self.handle }))?;
        // SAFETY: the plugin has just returned this string.
        let name = name.map(|name| unsafe { text(name.executable_name, name.executable_name_size) });
        let mut signature = Signature {
            name: name.unwrap_or_else(|| module.name.clone()),
            inputs: inputs.collect(),
            input_names: InputNames::default(),
            output_names: output_names.filter(|names| names.len() == outputs.len()),
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

    /// Checks that the module and the plugin agree about the outputs, so that no buffer has a wrong type.
    fn check_outputs(&self, outputs: &[Spec]) -> Result<()> {
        let api = self.api;
        let count = where_there(call!(api, PJRT_Executable_NumOutputs { executable: self.handle }))?;
        let types = where_there(call!(api, PJRT_Executable_OutputElementTypes { executable: self.handle }))?;
        let agree = |types: &[PJRT_Buffer_Type]| {
            let mut pairs = outputs.iter().zip(types);
            types.len() == outputs.len() && pairs.all(|(spec, code)| DType::from_code(code.0).ok() == Some(spec.dtype))
        };
        // SAFETY: the plugin has just returned this array.
        let agree = types.is_none_or(|types| agree(unsafe { slice(types.output_types, types.num_output_types) }));
        if !agree || count.is_some_and(|count| count.num_outputs != outputs.len()) {
            bail!(Internal, "The plugin's two descriptions of the program's outputs differ.");
        }
        Ok(())
    }

    /// The compiler's estimates of the costs of a run, or this package's.
    pub fn costs(&self, module: impl FnOnce() -> Result<HloModuleProto>) -> Result<Costs> {
        match call!(self.api, PJRT_Executable_GetCostAnalysis { executable: self.handle }) {
            Ok(found) => {
                // SAFETY: the plugin has just returned this array.
                Ok(Costs { are_own: false, values: unsafe { named_values(found.properties, found.num_properties) } })
            }
            Err(error) if error.is_unsupported() => {
                let module = module()?;
                // A plugin that does not show the program leaves nothing to estimate.
                ensure!(!module.computations.is_empty(), error);
                let total = module.total_cost();
                let value = |name: &str, value: f64| (name.to_owned(), PluginValue::Float(value as f32));
                let values = vec![
                    value("flops", total.flops),
                    value("transcendentals", total.transcendentals),
                    value("bytes accessed", total.bytes),
                ];
                Ok(Costs { are_own: true, values })
            }
            Err(error) => Err(error),
        }
    }

    /// An estimate, from the program, of how long a run occupies which thread.
    pub fn hint(&self, module: &HloModuleProto) -> DispatchHint {
        // The number of operations that XLA considers small.
        const FEW_FLOPS: f32 = 1000.0;
        const MANY_FLOPS: f32 = 1e6;
        const FEW_TRANSCENDENTALS: f32 = 1000.0;
        const FEW_BYTES: f32 = 1e6;
        if !self.is_host {
            return DispatchHint::default();
        }
        let is_predictable = module.takes_a_known_time();
        let Ok(Costs { values: properties, .. }) = self.costs(|| Ok(module.clone())) else {
            return DispatchHint { runs_on_caller: true, is_long: true, is_predictable };
        };
        let cost = |name: &str| {
            properties.iter().find(|(n, _)| n == name).map_or(0.0, |(_, value)| match value {
                PluginValue::Float(f) => *f,
                _ => 0.0,
            })
        };
        let loops = module.has_opcode("while");
        let has_many_flops = cost("flops") >= FEW_FLOPS;
        let takes_long = cost("transcendentals") > FEW_TRANSCENDENTALS
            || cost("bytes accessed") > FEW_BYTES
            || ["sort", "conditional"].iter().any(|opcode| module.has_opcode(opcode))
            || !lapack::are_quick(module.custom_calls().map(|(name, arrays)| (name, arrays.map(sizes))));
        DispatchHint {
            runs_on_caller: !has_many_flops && (loops || takes_long),
            is_long: loops || takes_long || cost("flops") > MANY_FLOPS,
            is_predictable,
        }
    }
}

/// The numbers of elements of arrays.
fn sizes(arrays: Vec<Spec>) -> Vec<usize> {
    let size = |array: &Spec| array.dims.iter().map(|&dim| dim as usize).fold(1, usize::saturating_mul);
    arrays.iter().map(size).collect()
}

/// A message that could be read, or an error.
fn readable<T>(decoded: std::result::Result<T, prost::DecodeError>) -> Result<T> {
    match decoded {
        Ok(message) => Ok(message),
        Err(error) => bail!(Internal, "The plugin's description of the compiled program cannot be read: {error}."),
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // Nothing can be done about a failure to free.
        let _ = call!(self.api, PJRT_Executable_Destroy { executable: self.handle });
    }
}
