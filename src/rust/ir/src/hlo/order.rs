//! The order of calls that must run in one order everywhere.

use super::{Computation, HloInstructionProto, HloModuleProto, TOKEN};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Why a program does not say in which order its calls run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unordered {
    /// Neither of these two instructions needs a result of the other.
    Independent(String, String),
    /// Calls in the condition of a loop, or in a function that an operation such as a sort uses.
    Nested(String),
}

impl HloModuleProto {
    /// Checks that of any two calls of these targets, one needs a result of the other, in arrays that are not empty. A compiled
    /// program waits for the arrays that it reads, so these calls then run in one order, the same in every run.
    ///
    /// A loop, branch or function with calls is in that order, too: its first call needs what comes before it, and what comes
    /// after needs its last call.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check_order(&self, is_ordered: impl Fn(&str) -> bool) -> Result<(), Unordered> {
        let is_call = |i: &HloInstructionProto| i.opcode == "custom-call" && is_ordered(&i.custom_call_target);
        let calls = self.instructions().filter(|i| is_call(i)).count();
        if calls < 2 {
            return Ok(());
        }
        let computations = self.by_id();
        let mut order = Order {
            computations: &computations,
            is_call: &is_call,
            chains: BTreeMap::new(),
            returning: HashMap::new(),
            depth: 0,
        };
        self.computations.iter().try_for_each(|computation| order.chain(computation.id, 0).map(drop))
    }
}

/// A part of what an instruction makes: an element of its tuple, or all of it.
type Part = (i64, Option<i64>);

/// The calls of a computation, and the instructions that run computations with calls.
#[derive(Default)]
struct Chain {
    /// None if there are no calls.
    last: Option<i64>,
    /// The parameters, or parts of them, that the first needs: each with the parameter's number.
    needs: BTreeSet<Part>,
}

/// What a part depends on.
#[derive(Default)]
struct Sources {
    items: BTreeSet<i64>,
    parameters: BTreeSet<Part>,
}

struct Order<'a> {
    computations: &'a HashMap<i64, Computation<'a>>,
    is_call: &'a dyn Fn(&HloInstructionProto) -> bool,
    chains: BTreeMap<i64, Chain>,
    /// Whether a part of a computation's result waits for its last call, if that is known.
    returning: HashMap<Part, bool>,
    /// How deep the computations nest whose results are being followed.
    depth: usize,
}

/// Computations nest less deeply than this: a damaged module may call itself.
const DEEPEST: usize = 200;

impl Order<'_> {
    /// Notes the chain of a computation, and returns whether it has calls.
    fn chain(&mut self, id: i64, depth: usize) -> Result<bool, Unordered> {
        if let Some(known) = self.chains.get(&id) {
            return Ok(known.last.is_some());
        }
        let Some(computation) = self.computations.get(&id).filter(|_| depth < DEEPEST) else { return Ok(false) };
        // A computation of a damaged module may call itself, and do so several times.
        self.chains.insert(id, Chain::default());
        let mut items = Vec::new();
        for instruction in &computation.proto.instructions {
            let mut has = (self.is_call)(instruction);
            for &called in &instruction.called_computation_ids {
                has |= self.chain(called, depth + 1)?;
            }
            if has {
                items.push(instruction);
            }
        }
        let with_sources = items.into_iter().map(|item| Ok((item, self.sources_of(item, computation)?)));
        let mut sources = with_sources.collect::<Result<Vec<_>, Unordered>>()?;
        sources.sort_by_key(|(_, sources)| sources.items.len());
        for pair in sources.windows(2) {
            let (before, after) = (pair[0].0, &pair[1]);
            if !after.1.items.contains(&before.id) {
                return Err(Unordered::Independent(before.name.clone(), after.0.name.clone()));
            }
        }
        let last = sources.last().map(|(item, _)| item.id);
        let needs = sources.into_iter().next().map(|(_, sources)| sources.parameters).unwrap_or_default();
        self.chains.insert(id, Chain { last, needs });
        Ok(last.is_some())
    }

    /// What a call waits for, or the first call in what an instruction runs.
    fn sources_of(&mut self, item: &HloInstructionProto, computation: &Computation<'_>) -> Result<Sources, Unordered> {
        if (self.is_call)(item) {
            return Ok(self.sources(item.operand_ids.iter().map(|&id| (id, None)).collect(), computation));
        }
        let mut all: Option<Sources> = None;
        for (place, called) in item.called_computation_ids.iter().enumerate() {
            let Some(chain) = self.chains.get(called).filter(|chain| chain.last.is_some()) else { continue };
            // The operand that is the only parameter; functions have one parameter for each operand.
            let only = match (item.opcode.as_str(), place) {
                ("while", 0) => Some(0),
                // The first operand is the choice.
                ("conditional", _) => Some(place + 1),
                ("call" | "fusion", _) => None,
                _ => return Err(Unordered::Nested(item.name.clone())),
            };
            let operand = |number: i64| item.operand_ids.get(only.or(usize::try_from(number).ok())?);
            let parts = chain.needs.iter().filter_map(|&(number, part)| Some((*operand(number)?, part)));
            let sources = self.sources(parts.collect(), computation);
            all = Some(match all {
                None => sources,
                // Whichever branch is chosen.
                Some(all) => Sources {
                    items: all.items.intersection(&sources.items).copied().collect(),
                    parameters: all.parameters.intersection(&sources.parameters).copied().collect(),
                },
            });
        }
        Ok(all.unwrap_or_default())
    }

    /// What these parts depend on.
    fn sources(&mut self, parts: Vec<Part>, computation: &Computation<'_>) -> Sources {
        let (mut found, mut seen, mut next) = (Sources::default(), HashSet::new(), parts);
        while let Some((id, part)) = next.pop() {
            let Some(instruction) = computation.instructions.get(&id) else { continue };
            if is_empty(instruction) || !seen.insert((id, part)) {
                continue;
            }
            let operand = |place: i64| usize::try_from(place).ok().and_then(|place| instruction.operand_ids.get(place));
            match (instruction.opcode.as_str(), part) {
                ("parameter", part) => {
                    found.parameters.insert((instruction.parameter_number, part));
                }
                ("tuple", Some(place)) => next.extend(operand(place).map(|&id| (id, None))),
                ("get-tuple-element", _) => next.extend(operand(0).map(|&id| (id, Some(instruction.tuple_index)))),
                _ => {
                    if (self.is_call)(instruction) || self.returns_last(instruction, part) {
                        found.items.insert(id);
                    }
                    next.extend(instruction.operand_ids.iter().map(|&id| (id, None)));
                }
            }
        }
        found
    }

    /// Whether a part of what an instruction returns is made by the last call in what it runs, or after it.
    fn returns_last(&mut self, instruction: &HloInstructionProto, part: Option<i64>) -> bool {
        let chain = |id: &i64| Some((self.computations.get(id)?, self.chains.get(id)?.last?));
        let chains: Vec<_> = instruction.called_computation_ids.iter().filter_map(chain).collect();
        !chains.is_empty() && chains.into_iter().all(|(computation, last)| self.waits_for(computation, last, part))
    }

    /// Whether a part of what a computation returns waits for its last call.
    fn waits_for(&mut self, computation: &Computation<'_>, last: i64, part: Option<i64>) -> bool {
        let key = (computation.proto.id, part);
        if let Some(&known) = self.returning.get(&key) {
            return known;
        }
        if self.depth == DEEPEST {
            return false;
        }
        self.returning.insert(key, false);
        self.depth += 1;
        let found = self.sources(vec![(computation.proto.root_id, part)], computation).items.contains(&last);
        self.depth -= 1;
        self.returning.insert(key, found);
        found
    }
}

/// Whether there is nothing to wait for: a token, or an array without elements.
fn is_empty(instruction: &HloInstructionProto) -> bool {
    instruction.shape.as_ref().is_none_or(|shape| shape.element_type == TOKEN || shape.dimensions.contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{HloComputationProto, ShapeProto};

    fn call(id: i64, operands: &[i64]) -> HloInstructionProto {
        instruction(id, "custom-call", operands)
    }

    fn instruction(id: i64, opcode: &str, operands: &[i64]) -> HloInstructionProto {
        HloInstructionProto {
            id,
            name: format!("i{id}"),
            opcode: opcode.into(),
            custom_call_target: "mpi".into(),
            operand_ids: operands.to_vec(),
            shape: Some(ShapeProto { element_type: 11, dimensions: vec![2], ..ShapeProto::default() }),
            ..HloInstructionProto::default()
        }
    }

    fn check(computations: &[&[HloInstructionProto]]) -> Result<(), Unordered> {
        let computation = |(id, instructions): (usize, &&[HloInstructionProto])| HloComputationProto {
            id: id as i64,
            instructions: instructions.to_vec(),
            ..HloComputationProto::default()
        };
        let computations = computations.iter().enumerate().map(computation).collect();
        HloModuleProto { computations, ..HloModuleProto::default() }.check_order(|target| target == "mpi")
    }

    fn independent(a: &str, b: &str) -> Result<(), Unordered> {
        Err(Unordered::Independent(a.into(), b.into()))
    }

    #[test]
    fn calls_are_ordered_by_data_alone() {
        assert_eq!(check(&[&[call(1, &[]), instruction(2, "add", &[1]), call(3, &[2])]]), Ok(()));
        assert_eq!(check(&[&[call(3, &[2]), instruction(2, "add", &[1]), call(1, &[])]]), Ok(()), "in any order");
        assert_eq!(check(&[&[call(1, &[]), call(2, &[])]]), independent("i1", "i2"));
        assert_eq!(check(&[&[call(1, &[]), call(2, &[1]), call(3, &[1])]]), independent("i2", "i3"));
    }

    #[test]
    fn an_empty_array_or_another_part_of_a_tuple_orders_nothing() {
        let mut empty = instruction(2, "add", &[1]);
        empty.shape.as_mut().unwrap().dimensions = vec![3, 0];
        assert_eq!(check(&[&[call(1, &[]), empty, call(3, &[2])]]), independent("i1", "i3"));
        let part = |index| HloInstructionProto { tuple_index: index, ..instruction(5, "get-tuple-element", &[4]) };
        let program = |index| {
            [call(1, &[]), instruction(3, "add", &[]), instruction(4, "tuple", &[1, 3]), part(index), call(6, &[5])]
        };
        assert_eq!(check(&[&program(0)]), Ok(()));
        assert_eq!(check(&[&program(1)]), independent("i1", "i6"));
    }

    /// A loop whose state is an array and a ticket. Its body communicates, and returns the ticket of the call, or the one it got.
    fn body(returns: bool) -> Vec<HloInstructionProto> {
        let part =
            |id, index| HloInstructionProto { tuple_index: index, ..instruction(id, "get-tuple-element", &[10]) };
        let last = if returns { 13 } else { 12 };
        vec![
            instruction(10, "parameter", &[]),
            part(11, 0),
            part(12, 1),
            call(13, &[11, 12]),
            instruction(14, "tuple", &[11, last]),
        ]
    }

    fn entry(first: &[i64], index: i64) -> Vec<HloInstructionProto> {
        let run = HloInstructionProto { called_computation_ids: vec![0, 2], ..instruction(4, "while", &[3]) };
        let part = HloInstructionProto { tuple_index: index, ..instruction(5, "get-tuple-element", &[4]) };
        vec![instruction(1, "constant", &[]), call(2, &[1]), instruction(3, "tuple", first), run, part, call(6, &[5])]
    }

    fn check_loop(body: &[HloInstructionProto], entry: &[HloInstructionProto]) -> Result<(), Unordered> {
        let condition = [instruction(20, "parameter", &[]), instruction(21, "compare", &[20])];
        let rooted = |(id, instructions): (usize, &&[HloInstructionProto])| HloComputationProto {
            id: id as i64,
            root_id: instructions.last().unwrap().id,
            instructions: instructions.to_vec(),
            ..HloComputationProto::default()
        };
        let computations = [body, entry, &condition[..]].iter().enumerate().map(rooted).collect();
        HloModuleProto { computations, ..HloModuleProto::default() }.check_order(|target| target == "mpi")
    }

    #[test]
    fn a_loop_passes_the_order_on() {
        assert_eq!(check_loop(&body(true), &entry(&[1, 2], 1)), Ok(()));
        assert_eq!(check_loop(&body(true), &entry(&[2, 1], 1)), Ok(()), "the call in the loop needs both");
        // What the loop returns as it was does not wait for the loop.
        assert_eq!(check_loop(&body(true), &entry(&[1, 2], 0)), independent("i4", "i6"));
        assert_eq!(check_loop(&body(false), &entry(&[1, 2], 1)), independent("i4", "i6"));
        // The loop does not wait for the call before it.
        assert_eq!(check_loop(&body(true), &entry(&[1, 1], 1)), independent("i2", "i4"));
        // Several in the body must be in order, too.
        let mut two = body(true);
        two.insert(4, call(15, &[11]));
        assert_eq!(check_loop(&two, &entry(&[1, 2], 1)), independent("i13", "i15"));
    }

    #[test]
    fn conditions_of_loops_and_damaged_modules_are_refused_or_end() {
        let mut condition = entry(&[1, 2], 1);
        condition[3].called_computation_ids = vec![2, 0];
        assert_eq!(check_loop(&body(true), &condition), Err(Unordered::Nested("i4".into())));
        let mut itself = body(true);
        itself[3].called_computation_ids = vec![0];
        let _ = check_loop(&itself, &entry(&[1, 2], 1));
    }

    #[test]
    fn computations_that_call_themselves_or_others_many_times_are_read_quickly() {
        let run = |id, called: &[i64], operands: &[i64]| HloInstructionProto {
            called_computation_ids: called.to_vec(),
            ..instruction(id, "call", operands)
        };
        let module = |last: i64| {
            let computation = |id: i64| {
                let next = if id < last { id + 1 } else { 0 };
                let instructions = vec![call(1, &[]), run(2, &[next, next], &[1]), run(3, &[next, next], &[2])];
                HloComputationProto { id, root_id: 3, instructions, ..HloComputationProto::default() }
            };
            HloModuleProto { computations: (0..=last).rev().map(computation).collect(), ..HloModuleProto::default() }
        };
        for last in [0, 1, 40, 2000] {
            let _ = module(last).check_order(|target| target == "mpi");
        }
    }
}
