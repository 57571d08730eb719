//! The handlers: each checks its operands and queues the call.

use crate::completion::Completion;
use crate::frame::{Attribute, Failure, Frame, Outcome};
use crate::host::Operand;
use crate::slots::RustHandler;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use pjrt_mpi::{world, Communicator, Op};
use std::borrow::Cow;
use std::collections::HashSet;

/// The handlers, by name.
pub(crate) const TARGETS: [(&str, RustHandler); 9] = [
    ("pjrt_mpi_all_reduce", all_reduce),
    ("pjrt_mpi_all_gather", all_gather),
    ("pjrt_mpi_reduce_scatter", reduce_scatter),
    ("pjrt_mpi_all_to_all", all_to_all),
    ("pjrt_mpi_broadcast", broadcast),
    ("pjrt_mpi_send", send),
    ("pjrt_mpi_recv", receive),
    ("pjrt_mpi_permute", permute),
    ("pjrt_mpi_barrier", barrier),
];

/// The operands and results of a call without its ticket.
struct Call {
    operands: Vec<Operand>,
    results: Vec<Operand>,
}

/// The numbers of an attribute.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = i64> + '_ {
    bytes.chunks_exact(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap_or_default()))
}

/// Whether a number from 0 on is there twice.
fn has_twice(numbers: impl Iterator<Item = i64>) -> bool {
    let mut known = HashSet::new();
    numbers.filter(|&number| number >= 0).any(|number| !known.insert(number))
}

/// The list of `groups` with a rank; an empty one for all ranks. The lists have the same length, which a negative number fills.
fn group_of(frame: &Frame<'_>, rank: usize) -> Outcome<Vec<i32>> {
    let ranks: Vec<i32> = match frame.attribute("groups") {
        None => return Ok(Vec::new()),
        Some(Attribute::Array(DType::I64, bytes)) => {
            // A process would wait for itself, or for one that is busy with another group.
            let message = "The attribute 'groups' must not have a rank twice.";
            ensure!(!has_twice(numbers(&bytes)), Failure::invalid(message));
            numbers(&bytes).map(|number| number.clamp(-1, i32::MAX.into()) as i32).collect()
        }
        Some(_) => bail!(InvalidInput, "The attribute 'groups' must be an array of i64."),
    };
    let size: usize = frame.integer("group_size")?;
    let is_multiple = size > 0 && ranks.len() % size == 0;
    ensure!(is_multiple, InvalidInput, "The length of `groups` must be a multiple of `group_size`.");
    match ranks.chunks(size).find(|list| list.contains(&(rank as i32))) {
        Some(list) => Ok(list.iter().copied().filter(|&rank| rank >= 0).collect()),
        None => bail!(InvalidInput, "Process {rank} is in none of the groups."),
    }
}

/// Queues a call for the thread that communicates, which reports the outcome to the program.
fn queue(
    frame: &Frame<'_>,
    work: impl FnOnce(&mut dyn Communicator, &Call, &[i32]) -> Result<()> + Send + 'static,
) -> Outcome {
    let Some(facts) = world::facts() else { bail!(InvalidInput, "MPI is not initialized in this process.") };
    let has_ticket = frame.optional("ticket", false, Frame::boolean)?;
    let [mut operands, mut results] = Operand::of(frame)?;
    if has_ticket {
        let (Some(from), Some(to)) = (operands.pop(), results.pop()) else {
            bail!(InvalidInput, "A ticket is the last operand and the last result.");
        };
        let fits = from.copy_to(&to);
        ensure!(fits, InvalidInput, "The ticket of an operand and that of a result must have the same type.");
    }
    let ranks = group_of(frame, facts.rank)?;
    let call = Call { operands, results };
    Completion::of(frame, |completion| {
        world::submit(Box::new(move |mpi| {
            let outcome = mpi.and_then(|mpi| {
                call.results.iter().for_each(Operand::populate);
                work(mpi, &call, &ranks)
            });
            completion.complete(outcome.map_err(Failure::from));
        }));
    })
}

/// Queues a call for each operand and its result, which have separate memory, with their type.
fn queue_pairs(
    frame: &Frame<'_>,
    work: impl Fn(&mut dyn Communicator, &[i32], DType, &[u8], &mut [u8]) -> Result<()> + Send + 'static,
) -> Outcome {
    queue(frame, move |mpi, call, group| {
        paired(call)?.try_for_each(|(operand, result)| {
            let (from, to) = separate(operand, result);
            work(mpi, group, operand.spec.dtype, &from, to)
        })
    })
}

/// Checks that operands and results come in pairs of one type.
fn paired(call: &Call) -> Result<impl Iterator<Item = (&Operand, &Operand)> + '_> {
    let [operands, results] = [&call.operands, &call.results].map(|list| list.iter().map(|operand| operand.spec.dtype));
    ensure!(operands.eq(results), InvalidInput, "The call must have a result of the same type for each operand.");
    Ok(call.operands.iter().zip(&call.results))
}

/// Checks that an operand fills its result.
fn fills(operand: &Operand, result: &Operand) -> Result<()> {
    ensure!(
        operand.spec.len() == result.spec.len(),
        ShapeMismatch,
        "The result, {}, must have as many elements as its operand, {}.",
        result.spec,
        operand.spec
    );
    Ok(())
}

/// Refuses elements narrower than a byte, which share bytes.
fn whole_bytes(dtype: DType) -> Result<()> {
    ensure!(!dtype.is_packed(), UnsupportedDtype, "MPI cannot divide arrays of {dtype}, whose elements share bytes.");
    Ok(())
}

fn op_of(frame: &Frame<'_>) -> Outcome<Op> {
    let name = frame.optional("op", "sum".into(), Frame::string)?;
    Op::from_name(&name)
        .ok_or_else(|| Failure::invalid(format!("'op' must be sum, prod, min, max, and, or, or xor, got '{name}'.")))
}

fn all_reduce(frame: &Frame<'_>) -> Outcome {
    let op = op_of(frame)?;
    queue(frame, move |mpi, call, group| {
        paired(call)?.try_for_each(|(from, to)| {
            // SAFETY: its memory is not the result's.
            let input = (!from.shares(to)).then(|| unsafe { from.bytes() });
            // SAFETY: a result's.
            mpi.all_reduce(group, op, to.spec.dtype, input, unsafe { to.bytes_mut() })
        })
    })
}

fn all_gather(frame: &Frame<'_>) -> Outcome {
    queue_pairs(frame, |mpi, group, dtype, from, to| {
        whole_bytes(dtype)?;
        mpi.all_gather(group, from, to)
    })
}

fn reduce_scatter(frame: &Frame<'_>) -> Outcome {
    let op = op_of(frame)?;
    queue_pairs(frame, move |mpi, group, dtype, from, to| mpi.reduce_scatter(group, op, dtype, from, to))
}

fn all_to_all(frame: &Frame<'_>) -> Outcome {
    queue_pairs(frame, |mpi, group, dtype, from, to| {
        whole_bytes(dtype)?;
        let (elements, (size, _)) = (from.len() / dtype.host_bytes(), mpi.place(group)?);
        ensure!(
            elements % size == 0,
            ShapeMismatch,
            "{elements} elements cannot be divided into equal parts for {size} processes."
        );
        mpi.all_to_all(group, from, to)
    })
}

/// An operand and a result; a copy of the operand if they have the same memory.
fn separate<'a>(from: &Operand, to: &Operand) -> (Cow<'a, [u8]>, &'a mut [u8]) {
    // SAFETY: the operand is read before the result's memory is lent, if they are the same.
    let bytes = unsafe { from.bytes() };
    let from = if from.shares(to) { bytes.to_vec().into() } else { bytes.into() };
    // SAFETY: a result's.
    (from, unsafe { to.bytes_mut() })
}

fn broadcast(frame: &Frame<'_>) -> Outcome {
    let root: usize = frame.integer("root")?;
    queue(frame, move |mpi, call, group| {
        paired(call)?.try_for_each(|(from, to)| {
            fills(from, to)?;
            if !from.shares(to) && mpi.place(group)?.1 == root {
                from.copy_to(to);
            }
            // SAFETY: a result's.
            mpi.broadcast(group, root, unsafe { to.bytes_mut() })
        })
    })
}

fn tag_of(frame: &Frame<'_>) -> Outcome<i32> {
    frame.optional("tag", 0, Frame::integer::<u16>).map(i32::from)
}

fn send(frame: &Frame<'_>) -> Outcome {
    let (peer, tag) = (frame.integer("peer")?, tag_of(frame)?);
    queue(frame, move |mpi, call, _| {
        // SAFETY: operands.
        call.operands.iter().try_for_each(|from| mpi.send(peer, tag, unsafe { from.bytes() }.to_vec()))
    })
}

fn receive(frame: &Frame<'_>) -> Outcome {
    let (peer, tag) = (frame.integer("peer")?, tag_of(frame)?);
    queue(frame, move |mpi, call, _| {
        // SAFETY: results.
        call.results.iter().try_for_each(|to| mpi.receive(peer, tag, unsafe { to.bytes_mut() }))
    })
}

/// The tag of permutations: one that no program's own messages have.
const PERMUTATION: i32 = 1 << 16;

/// Sends operands from the first to the second process of each pair. A process that gets nothing has zeros.
fn permute(frame: &Frame<'_>) -> Outcome {
    let Some(Attribute::Array(DType::I64, bytes)) = frame.attribute("pairs") else {
        bail!(InvalidInput, "The attribute 'pairs' must be an array of i64.");
    };
    // Another message for a process would stay for the next permutation.
    let are_pairs = bytes.len() % 16 == 0 && !has_twice(numbers(&bytes).skip(1).step_by(2));
    let message = "The attribute 'pairs' must be pairs of ranks, which differ in their second ranks.";
    ensure!(are_pairs, Failure::invalid(message));
    let ranks: Vec<usize> = numbers(&bytes).map(|number| usize::try_from(number).unwrap_or(usize::MAX)).collect();
    let own = world::facts().map_or(0, |facts| facts.rank);
    let to: Vec<usize> = ranks.chunks_exact(2).filter(|pair| pair[0] == own).map(|pair| pair[1]).collect();
    let from = ranks.chunks_exact(2).find(|pair| pair[1] == own).map(|pair| pair[0]);
    queue_pairs(frame, move |mpi, _, _, operand, result| {
        to.iter().try_for_each(|&peer| mpi.send(peer, PERMUTATION, operand.to_vec()))?;
        match from {
            Some(peer) => mpi.receive(peer, PERMUTATION, result),
            None => {
                result.fill(0);
                Ok(())
            }
        }
    })
}

fn barrier(frame: &Frame<'_>) -> Outcome {
    queue(frame, |mpi, call, group| {
        // Its operands and results only order it.
        for (from, to) in paired(call)? {
            fills(from, to)?;
            from.copy_to(to);
        }
        mpi.barrier(group)
    })
}
