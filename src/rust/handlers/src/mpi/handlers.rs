//! The handlers: each checks its operands and queues the call.

use crate::completion::{Completion, Future, Waiter};
use crate::frame::{Array, Attribute, Failure, Frame};
use crate::slots::RustHandler;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use pjrt_ffi::api::slice;
use pjrt_mpi::{world, Communicator, Op};
use std::sync::{Arc, Mutex};

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

type Done = std::result::Result<(), Failure>;

/// The memory of an operand or result, which stays where it is until the program is told.
#[derive(Clone, Copy)]
struct CallMemory {
    dtype: DType,
    data: *mut u8,
    bytes: usize,
}

// SAFETY: nobody else uses the memory of a call until the program is told.
unsafe impl Send for CallMemory {}

impl CallMemory {
    fn of(array: Array<'_>) -> CallMemory {
        CallMemory { dtype: array.dtype, data: array.as_mut_ptr(), bytes: array.byte_len() }
    }

    /// # Safety
    /// The memory must not be that of a result.
    unsafe fn read<'a>(self) -> &'a [u8] {
        slice(self.data.cast_const(), self.bytes)
    }

    /// # Safety
    /// The memory must be a result's, and lent once.
    unsafe fn write<'a>(self) -> &'a mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        std::slice::from_raw_parts_mut(self.data, self.bytes)
    }
}

/// The operands and results of a call without its ticket.
struct Call {
    operands: Vec<CallMemory>,
    results: Vec<CallMemory>,
}

/// The numbers of an attribute.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = i64> + '_ {
    bytes.chunks_exact(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap_or_default()))
}

enum Group {
    All,
    /// Lists of ranks of this length; a negative number fills a short one.
    Lists(Vec<i32>, usize),
}

impl Group {
    fn of(frame: &Frame<'_>) -> std::result::Result<Group, Failure> {
        match frame.attributes().get("groups") {
            None => Ok(Group::All),
            Some(Attribute::Array(DType::I64, bytes)) => {
                let ranks: Vec<i32> = numbers(bytes).map(|number| number as i32).collect();
                let size: usize = frame.integer("group_size")?;
                if size == 0 || ranks.len() % size != 0 {
                    return Err(Failure::invalid("The length of `groups` must be a multiple of `group_size`."));
                }
                Ok(Group::Lists(ranks, size))
            }
            Some(_) => Err(Failure::invalid("The attribute 'groups' must be an array of i64.")),
        }
    }

    /// The list with a rank; an empty one for all ranks.
    fn with(&self, rank: usize) -> std::result::Result<Vec<i32>, Failure> {
        let Group::Lists(ranks, size) = self else { return Ok(Vec::new()) };
        let own = ranks.chunks(*size).find(|list| list.contains(&(rank as i32)));
        match own {
            Some(list) => Ok(list.iter().copied().filter(|&rank| rank >= 0).collect()),
            None => Err(Failure::invalid(format!("Process {rank} is in none of the groups."))),
        }
    }
}

/// Queues a call for the thread that communicates, which tells the program.
fn queue(
    frame: &Frame<'_>,
    work: impl FnOnce(&mut dyn Communicator, &Call, &[i32]) -> Result<()> + Send + 'static,
) -> Done {
    let Some(facts) = world::facts() else {
        return Err(Failure::invalid("MPI is not initialized in this process."));
    };
    let has_ticket = frame.optional("ticket", false, Frame::boolean)?;
    let mut operands = (0..frame.arguments())
        .map(|i| frame.argument(i).map(CallMemory::of))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let mut results = (0..frame.results())
        .map(|i| frame.result(i).map(CallMemory::of))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    if has_ticket {
        let (Some(from), Some(to)) = (operands.pop(), results.pop()) else {
            return Err(Failure::invalid("A ticket is the last operand and the last result."));
        };
        if from.bytes != to.bytes {
            return Err(Failure::invalid("The ticket of an operand and that of a result must have the same type."));
        }
        if from.bytes > 0 {
            // SAFETY: both have so many bytes, perhaps in the same memory.
            unsafe { std::ptr::copy(from.data, to.data, to.bytes) };
        }
    }
    let ranks = Group::of(frame)?.with(facts.rank)?;
    let call = Call { operands, results };
    let waiter = Arc::new(Waiter::default());
    let (completion, waits) = match Future::of(frame) {
        Some(future) => (Completion::Future(future), false),
        None => (Completion::Wait(waiter.clone()), true),
    };
    let completion = Arc::new(Mutex::new(Some(completion)));
    let to_tell = completion.clone();
    let tell = move |outcome: Done| {
        let completion = to_tell.lock().ok().and_then(|mut completion| completion.take());
        if let Some(completion) = completion {
            completion.complete(outcome);
        }
    };
    let report = tell.clone();
    let job = Box::new(move |mpi: &mut dyn Communicator| tell(work(mpi, &call, &ranks).map_err(Failure::from)));
    if let Err(error) = world::submit(job) {
        report(Err(error.into()));
    }
    if waits {
        return waiter.wait();
    }
    Ok(())
}

/// Queues a call for each operand and its result, which have separate memory, with their type.
fn queue_pairs(
    frame: &Frame<'_>,
    work: impl Fn(&mut dyn Communicator, &[i32], DType, &[u8], &mut [u8]) -> Result<()> + Send + 'static,
) -> Done {
    queue(frame, move |mpi, call, group| {
        paired(call)?.try_for_each(|(memory, to)| {
            let (from, to) = separate(memory, to);
            work(mpi, group, memory.dtype, &from, to)
        })
    })
}

/// Checks that operands and results come in pairs of one type.
fn paired(call: &Call) -> Result<impl Iterator<Item = (CallMemory, CallMemory)> + '_> {
    let types = |memory: &[CallMemory]| memory.iter().map(|memory| memory.dtype).collect::<Vec<_>>();
    if types(&call.operands) != types(&call.results) {
        pjrt_base::bail!(InvalidInput, "The call must have a result of the same type for each operand.");
    }
    Ok(call.operands.iter().copied().zip(call.results.iter().copied()))
}

/// Refuses elements narrower than a byte, which share bytes.
fn whole_bytes(dtype: DType) -> Result<()> {
    if dtype.is_packed() {
        pjrt_base::bail!(UnsupportedDtype, "MPI cannot divide arrays of {dtype}, whose elements share bytes.");
    }
    Ok(())
}

fn op_of(frame: &Frame<'_>) -> std::result::Result<Op, Failure> {
    let name = frame.optional("op", "sum", Frame::string)?;
    Op::from_name(name)
        .ok_or_else(|| Failure::invalid(format!("'op' must be sum, prod, min, max, and, or, or xor, got '{name}'.")))
}

fn all_reduce(frame: &Frame<'_>) -> Done {
    let op = op_of(frame)?;
    queue(frame, move |mpi, call, group| {
        paired(call)?.try_for_each(|(from, to)| {
            let input = match from.data == to.data {
                true => None,
                // SAFETY: its memory is not the result's.
                false => Some(unsafe { from.read() }),
            };
            // SAFETY: a result's.
            mpi.all_reduce(group, op, to.dtype, input, unsafe { to.write() })
        })
    })
}

fn all_gather(frame: &Frame<'_>) -> Done {
    queue_pairs(frame, |mpi, group, dtype, from, to| {
        whole_bytes(dtype)?;
        mpi.all_gather(group, from, to)
    })
}

fn reduce_scatter(frame: &Frame<'_>) -> Done {
    let op = op_of(frame)?;
    queue_pairs(frame, move |mpi, group, dtype, from, to| mpi.reduce_scatter(group, op, dtype, from, to))
}

fn all_to_all(frame: &Frame<'_>) -> Done {
    queue_pairs(frame, |mpi, group, dtype, from, to| {
        whole_bytes(dtype)?;
        mpi.all_to_all(group, from, to)
    })
}

/// An operand and a result; a copy of the operand if they have the same memory.
fn separate<'a>(from: CallMemory, to: CallMemory) -> (std::borrow::Cow<'a, [u8]>, &'a mut [u8]) {
    // SAFETY: the operand is read before the result's memory is lent, if they are the same.
    let from = unsafe {
        let bytes: &'a [u8] = from.read();
        if from.data == to.data {
            bytes.to_vec().into()
        } else {
            bytes.into()
        }
    };
    // SAFETY: a result's.
    (from, unsafe { to.write() })
}

fn broadcast(frame: &Frame<'_>) -> Done {
    let root: usize = frame.integer("root")?;
    queue(frame, move |mpi, call, group| {
        paired(call)?.try_for_each(|(from, to)| {
            if from.data != to.data && from.bytes == to.bytes && from.bytes > 0 && mpi.place(group)?.1 == root {
                // SAFETY: both have so many bytes, in different memory.
                unsafe { std::ptr::copy_nonoverlapping(from.data, to.data, to.bytes) };
            }
            // SAFETY: a result's.
            mpi.broadcast(group, root, unsafe { to.write() })
        })
    })
}

fn tag_of(frame: &Frame<'_>) -> std::result::Result<i32, Failure> {
    frame.optional("tag", 0, Frame::integer::<u16>).map(i32::from)
}

fn send(frame: &Frame<'_>) -> Done {
    let (peer, tag) = (frame.integer("peer")?, tag_of(frame)?);
    queue(frame, move |mpi, call, _| {
        // SAFETY: operands.
        call.operands.iter().try_for_each(|from| mpi.send(peer, tag, unsafe { from.read() }.to_vec()))
    })
}

fn receive(frame: &Frame<'_>) -> Done {
    let (peer, tag) = (frame.integer("peer")?, tag_of(frame)?);
    queue(frame, move |mpi, call, _| {
        // SAFETY: results.
        call.results.iter().try_for_each(|to| mpi.receive(peer, tag, unsafe { to.write() }))
    })
}

/// The tag of permutations: one that no program's own messages have.
const PERMUTATION: i32 = 1 << 16;

/// Sends operands from the first to the second process of each pair. A process that gets nothing has zeros.
fn permute(frame: &Frame<'_>) -> Done {
    let Some(Attribute::Array(DType::I64, bytes)) = frame.attributes().get("pairs") else {
        return Err(Failure::invalid("The attribute 'pairs' must be an array of i64."));
    };
    let ranks: Vec<usize> = numbers(bytes).map(|number| usize::try_from(number).unwrap_or(usize::MAX)).collect();
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

fn barrier(frame: &Frame<'_>) -> Done {
    queue(frame, |mpi, call, group| {
        // Its operands and results only order it.
        paired(call)?.try_for_each(|(from, to)| {
            let (from, to) = separate(from, to);
            if from.len() == to.len() {
                to.copy_from_slice(&from);
            }
            Ok::<(), pjrt_base::error::Error>(())
        })?;
        mpi.barrier(group)
    })
}
