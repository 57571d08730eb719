//! The program of one process, from a program for several devices: each process has one device, and collective operations
//! become calls of functions that communicate.
//!
//! All processes must communicate in the same order, so each call gets a ticket, a number, from the call before it and passes it
//! on: a compiled program waits for what it reads. Loops, branches and functions with calls take a ticket and return it, too.

use super::wire::field::{COMPUTATION, INSTRUCTION, ROOT};
use super::wire::{self, damage, fields, fields_with};
use super::{HloComputationProto, HloInstructionProto, HloModuleProto};
use pjrt_base::error::Result;

mod block;
mod exchange;
mod groups;
mod tickets;

use block::Block;
use tickets::{Passes, Tickets};

/// One of the processes.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// Whether the processes stand for the partitions of one replica, otherwise for replicas.
    pub are_partitions: bool,
}

/// The module in `HloProto`.
const MODULE: u32 = 1;
/// Shardings of the result and the parameters, and the devices: they are about several devices.
const OF_DEVICES: [u32; 3] = [12, 14, 15];

impl Process {
    /// The process's own program, a serialized `HloModuleProto`. `proto` is a serialized `HloProto`, which the compiler has
    /// partitioned.
    ///
    /// # Errors
    /// `InvalidFile` for a damaged module, `UnsupportedProgram` for a collective operation that processes do not have.
    pub fn program(&self, proto: &[u8]) -> Result<Vec<u8>> {
        let parts = fields(proto)?;
        let module = parts.iter().find(|field| field.number == MODULE).ok_or_else(|| damage("it is missing"))?.content;
        let decoded = HloModuleProto::from_bytes(module).map_err(|error| damage(&error.to_string()))?;
        let tickets = Tickets::new(&decoded)?;
        let mut out = Vec::with_capacity(module.len());
        for (field, computation) in fields_with(module, COMPUTATION, &decoded.computations)? {
            if let Some((_, computation)) = computation {
                let content = self.computation(field.content, computation, &decoded, &tickets)?;
                wire::put(&mut out, COMPUTATION, &content);
            } else if !OF_DEVICES.contains(&field.number) {
                out.extend_from_slice(field.raw);
            }
        }
        Ok(out)
    }

    fn computation(
        &self,
        raw: &[u8],
        computation: &HloComputationProto,
        module: &HloModuleProto,
        tickets: &Tickets,
    ) -> Result<Vec<u8>> {
        let passes = tickets.passes(computation.id);
        let mut block = Block::new(computation);
        let mut out = Vec::with_capacity(raw.len());
        block.begin(passes, tickets.has_calls(computation.id));
        block.write(&mut out);
        let mut others = Vec::new();
        for (field, instruction) in fields_with(raw, INSTRUCTION, &computation.instructions)? {
            let Some((_, instruction)) = instruction else {
                if field.number != ROOT || !passes.returns() {
                    others.push(field.raw);
                }
                continue;
            };
            let is_done = if instruction.opcode == "parameter" && matches!(passes, Passes::WithParameter | Passes::Only)
            {
                block.parameter(instruction)?;
                true
            } else if tickets.takes_ticket(instruction) {
                block.container(instruction, field.content)?;
                true
            } else {
                self.replace(&mut block, instruction, module)?
            };
            if is_done {
                block.write(&mut out);
            } else {
                out.extend_from_slice(field.raw);
            }
        }
        if passes.returns() {
            let root = block.root()?;
            block.write(&mut out);
            prost::encoding::int64::encode(ROOT, &root, &mut out);
        }
        others.into_iter().for_each(|raw| out.extend_from_slice(raw));
        Ok(out)
    }
}

/// Whether an instruction is one that several devices run together.
fn is_collective(instruction: &HloInstructionProto) -> bool {
    const PREFIXES: [&str; 4] = ["all-", "collective-", "ragged-", "reduce-scatter"];
    PREFIXES.iter().any(|prefix| instruction.opcode.starts_with(prefix))
}

#[cfg(test)]
mod tests;
