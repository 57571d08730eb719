//! What an executable tells of itself to those who ask: costs, memory, code.

use crate::executable::options::UsedOptions;
use crate::executable::Executable;
use crate::ffi::api::{call, slice, text, Value};
use pjrt_base::error::Result;
use pjrt_program::hlo::{HloModuleProto, ShapeProto, TUPLE};

/// Where the inputs and outputs of an executable lie: kinds of memory spaces, `None` where unknown.
#[derive(Debug)]
pub struct MemoryKinds {
    pub inputs: Vec<Option<String>>,
    pub outputs: Vec<Option<String>>,
}

/// What plugins older than a field of an argument struct leave there.
const UNTOLD: i64 = i64::MIN;

impl Executable {
    /// Numbers of replicas and of partitions.
    pub fn counts(&self) -> (i64, i64) {
        UsedOptions::decode(&self.provenance().options).map_or((1, 1), |used| used.counts())
    }

    /// Equal for equal programs, compiled in the same way.
    ///
    /// # Errors
    /// `UnsupportedCall` or code 12 (unimplemented) when the plugin has none; `Forked`, `ClientClosed`. So it is for all
    /// below.
    pub fn fingerprint(&self) -> Result<String> {
        let told = self.describe()?;
        let api = self.client().plugin().api();
        let found = call!(api, PJRT_Executable_Fingerprint { executable: told.handle })
            .map_err(|e| e.unsupported(self.client().platform(), "The fingerprint of an executable is"))?;
        // SAFETY: the plugin has just returned this string.
        Ok(unsafe { text(found.executable_fingerprint, found.executable_fingerprint_size) })
    }

    /// What the compiler reckons that a run costs: `flops`, `bytes accessed` and more, sorted by name.
    pub fn costs(&self) -> Result<Vec<(String, Value)>> {
        let mut costs =
            self.describe()?.costs().map_err(|e| e.unsupported(self.client().platform(), "Cost analysis is"))?;
        costs.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(costs)
    }

    /// Bytes of the machine code; 0 where a plugin does not count them.
    pub fn code_bytes(&self) -> Result<i64> {
        let told = self.describe()?;
        let api = self.client().plugin().api();
        let found = call!(api, PJRT_Executable_SizeOfGeneratedCodeInBytes { executable: told.handle })
            .map_err(|e| e.unsupported(self.client().platform(), "The size of an executable's code is"))?;
        Ok(found.size_in_bytes)
    }

    /// What a run needs of the device's and of the host's memory, in bytes; `None` where the plugin is too old to tell.
    pub fn memory_stats(&self) -> Result<Vec<(&'static str, Option<i64>)>> {
        let told = self.describe()?;
        let api = self.client().plugin().api();
        let stats = call!(
            api,
            PJRT_Executable_GetCompiledMemoryStats {
                executable: told.handle,
                peak_memory_in_bytes: UNTOLD,
                total_size_in_bytes: UNTOLD,
            }
        )
        .map_err(|e| e.unsupported(self.client().platform(), "Memory statistics of an executable are"))?;
        macro_rules! named {
            ($($field:ident),*) => { vec![$((stringify!($field), Some(stats.$field).filter(|&n| n != UNTOLD))),*] };
        }
        Ok(named!(
            generated_code_size_in_bytes,
            argument_size_in_bytes,
            output_size_in_bytes,
            alias_size_in_bytes,
            temp_size_in_bytes,
            host_generated_code_size_in_bytes,
            host_argument_size_in_bytes,
            host_output_size_in_bytes,
            host_alias_size_in_bytes,
            host_temp_size_in_bytes,
            peak_memory_in_bytes,
            total_size_in_bytes
        ))
    }

    /// The program as the compiler made it.
    pub fn optimized_module(&self) -> Result<HloModuleProto> {
        self.describe()?
            .optimized_module()
            .map_err(|e| e.unsupported(self.client().platform(), "The optimized program is"))
    }

    /// The same as a serialized `HloModuleProto`, with all that is not read here.
    pub fn optimized_bytes(&self) -> Result<Vec<u8>> {
        self.describe()?
            .optimized_bytes()
            .map_err(|e| e.unsupported(self.client().platform(), "The optimized program is"))
    }

    /// Where inputs and outputs lie: what the plugin says of the outputs if it does, and else the compiled program.
    pub fn memory_kinds(&self) -> MemoryKinds {
        let shape = self.provenance().interface.host_program_shape.clone().unwrap_or_default();
        let result = shape.result.unwrap_or_default();
        let results = if result.element_type == TUPLE { result.tuple_shapes } else { vec![result] };
        let kinds = |shapes: &[ShapeProto]| shapes.iter().map(|shape| self.memory_kind(shape)).collect();
        let outputs = self.told_output_kinds().unwrap_or_else(|| kinds(&results));
        MemoryKinds { inputs: kinds(&shape.parameters), outputs }
    }

    fn told_output_kinds(&self) -> Option<Vec<Option<String>>> {
        let told = self.describe().ok()?;
        let api = self.client().plugin().api();
        let found = call!(api, PJRT_Executable_OutputMemoryKinds { executable: told.handle }).ok()?;
        // SAFETY: the plugin has just returned these arrays and strings.
        unsafe {
            let kinds = slice(found.memory_kinds, found.num_outputs).iter();
            let sizes = slice(found.memory_kind_sizes, found.num_outputs);
            Some(kinds.zip(sizes).map(|(&kind, &size)| Some(text(kind, size))).collect())
        }
    }

    /// The kind of the memory space that a layout asks for by number.
    fn memory_kind(&self, shape: &ShapeProto) -> Option<String> {
        const DEFAULT: i64 = 0;
        const HOST: i64 = 5;
        match shape.layout.as_ref().map_or(DEFAULT, |layout| layout.memory_space) {
            DEFAULT => self.client().devices().next()?.default_memory().map(|memory| memory.kind().to_owned()),
            HOST => Some("pinned_host".into()),
            _ => None,
        }
    }
}
