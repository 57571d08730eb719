//! Information about an executable: costs, memory, code.

use crate::executable::description::{Costs, Description};
use crate::executable::options::UsedOptions;
use crate::executable::Executable;
use pjrt_base::error::Result;
use pjrt_ffi::api::{call, slice, text};
use pjrt_ir::hlo::{HloModuleProto, ShapeProto, TUPLE};

/// The memory spaces of an executable's inputs and outputs by kind; `None` if unknown.
#[derive(Debug)]
pub struct MemoryKinds {
    pub inputs: Vec<Option<String>>,
    pub outputs: Vec<Option<String>>,
}

/// The value of a field that an older plugin does not fill.
const UNTOLD: i64 = i64::MIN;

impl Executable {
    /// The numbers of replicas and partitions.
    pub fn counts(&self) -> (i64, i64) {
        UsedOptions::decode(&self.provenance().options).map_or((1, 1), |used| used.counts())
    }

    /// A text that is equal for equal programs, compiled in the same way.
    ///
    /// # Errors
    /// `UnsupportedCall` or code 12 (unimplemented) if the plugin has none; `Forked`, `ClientClosed`. This holds for
    /// all functions below.
    pub fn fingerprint(&self) -> Result<String> {
        self.ask("The fingerprint of an executable is", |described| {
            let found = call!(described.api, PJRT_Executable_Fingerprint { executable: described.handle })?;
            // SAFETY: the plugin has just returned this string, which lives as long as its description.
            Ok(unsafe { text(found.executable_fingerprint, found.executable_fingerprint_size) })
        })
    }

    /// Estimates of the costs of a run, sorted by name.
    pub fn costs(&self) -> Result<Costs> {
        let ask = |described: &Description| described.costs(|| described.optimized_module());
        let mut costs = self.ask("Cost analysis is", ask)?;
        costs.values.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(costs)
    }

    /// The size of the machine code in bytes; 0 if a plugin does not count it.
    pub fn code_bytes(&self) -> Result<i64> {
        let found = self.ask("The size of an executable's code is", |described| {
            call!(described.api, PJRT_Executable_SizeOfGeneratedCodeInBytes { executable: described.handle })
        })?;
        Ok(found.size_in_bytes)
    }

    /// The device and host memory that a run needs, in bytes; `None` if the plugin is too old to tell.
    pub fn memory_stats(&self) -> Result<Vec<(&'static str, Option<i64>)>> {
        let stats = self.ask("Memory statistics of an executable are", |described| {
            call!(
                described.api,
                PJRT_Executable_GetCompiledMemoryStats {
                    executable: described.handle,
                    peak_memory_in_bytes: UNTOLD,
                    total_size_in_bytes: UNTOLD,
                }
            )
        })?;
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

    pub fn optimized_module(&self) -> Result<HloModuleProto> {
        self.ask("The optimized program is", Description::optimized_module)
    }

    /// The memory spaces of inputs and outputs: the plugin's description of the outputs if it has one, otherwise the
    /// compiled program's.
    pub fn memory_kinds(&self) -> MemoryKinds {
        let shape = self.provenance().interface.host_program_shape.clone().unwrap_or_default();
        let result = shape.result.unwrap_or_default();
        let results = if result.element_type == TUPLE { result.tuple_shapes } else { vec![result] };
        let kinds = |shapes: &[ShapeProto]| shapes.iter().map(|shape| self.memory_kind(shape)).collect();
        let outputs = self.told_output_kinds().unwrap_or_else(|| kinds(&results));
        MemoryKinds { inputs: kinds(&shape.parameters), outputs }
    }

    fn told_output_kinds(&self) -> Option<Vec<Option<String>>> {
        let described = self.describe().ok()?;
        let found = call!(described.api, PJRT_Executable_OutputMemoryKinds { executable: described.handle }).ok()?;
        // SAFETY: the plugin has just returned these arrays and strings.
        unsafe {
            let kinds = slice(found.memory_kinds, found.num_outputs).iter();
            let sizes = slice(found.memory_kind_sizes, found.num_outputs);
            Some(kinds.zip(sizes).map(|(&kind, &size)| Some(text(kind, size))).collect())
        }
    }

    /// The kind of the memory space that a layout names by number.
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
