//! Which parts of a program pass tickets on.

use super::super::{HloInstructionProto, HloModuleProto};
use super::is_collective;
use pjrt_base::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// How a computation gets a ticket and returns it: its result becomes a tuple of the result and the ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    None,
    /// Its only parameter becomes a tuple of the parameter and the ticket: bodies of loops, and branches.
    WithParameter,
    /// The same, but its result stays as it is: conditions of loops.
    Only,
    /// It has one more parameter: functions.
    AsParameter,
}

impl Passes {
    pub fn returns(self) -> bool {
        matches!(self, Passes::WithParameter | Passes::AsParameter)
    }
}

pub struct Tickets {
    /// The computations that have collective operations, or call others that do.
    having: BTreeSet<i64>,
    passes: BTreeMap<i64, Passes>,
}

impl Tickets {
    /// # Errors
    /// `UnsupportedProgram` if collective operations are where no ticket can be passed.
    pub fn new(module: &HloModuleProto) -> Result<Tickets> {
        let having = having(module);
        let mut found = Tickets { having, passes: BTreeMap::new() };
        for instruction in module.instructions().filter(|i| found.takes_ticket(i)).collect::<Vec<_>>() {
            let uses: Vec<_> = uses(instruction).collect();
            let cannot = |&(id, passes): &(i64, Passes)| {
                passes == Passes::None || (passes == Passes::Only && found.has_calls(id))
            };
            if uses.iter().any(cannot) {
                let place = if instruction.opcode == "while" { "the condition of a loop" } else { &instruction.opcode };
                bail!(
                    UnsupportedProgram,
                    "The program has a collective operation in {place}, where processes cannot communicate."
                );
            }
            found.passes.extend(uses);
        }
        // All who use a computation that passes tickets must agree on it.
        let disagrees = |i: &HloInstructionProto| {
            let takes = found.takes_ticket(i);
            let is_other = |(id, passes)| found.passes(id) != if takes { passes } else { Passes::None };
            !is_collective(i) && uses(i).any(is_other)
        };
        ensure!(
            !module.instructions().any(disagrees),
            UnsupportedProgram,
            "The program uses a function with collective operations in several ways, which processes do not support."
        );
        Ok(found)
    }

    pub fn passes(&self, computation: i64) -> Passes {
        self.passes.get(&computation).copied().unwrap_or(Passes::None)
    }

    pub fn has_calls(&self, computation: i64) -> bool {
        self.having.contains(&computation)
    }

    /// Whether an instruction runs computations with collective operations.
    pub fn takes_ticket(&self, instruction: &HloInstructionProto) -> bool {
        !is_collective(instruction) && instruction.called_computation_ids.iter().any(|id| self.having.contains(id))
    }
}

/// The computations that an instruction runs, and how each would pass a ticket.
fn uses(instruction: &HloInstructionProto) -> impl Iterator<Item = (i64, Passes)> + '_ {
    let passes = |place: usize| match (instruction.opcode.as_str(), place) {
        // The body, and then the condition.
        ("while", 1) => Passes::Only,
        ("while" | "conditional", _) => Passes::WithParameter,
        ("call", _) => Passes::AsParameter,
        _ => Passes::None,
    };
    instruction.called_computation_ids.iter().enumerate().map(move |(place, &id)| (id, passes(place)))
}

fn having(module: &HloModuleProto) -> BTreeSet<i64> {
    let mut having = BTreeSet::new();
    loop {
        let before = having.len();
        for computation in &module.computations {
            let has = |i: &HloInstructionProto| {
                is_collective(i) || i.called_computation_ids.iter().any(|id| having.contains(id))
            };
            if computation.instructions.iter().any(has) {
                having.insert(computation.id);
            }
        }
        if having.len() == before {
            return having;
        }
    }
}
