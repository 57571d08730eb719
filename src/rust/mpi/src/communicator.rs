//! The operations of MPI on memory, for any ABI. Long arrays go in parts, because MPI counts with 32 bits.

use crate::abi::{type_index, Constants, Handle};
use crate::calls::Calls;
use crate::half_types::{is_half, narrow, widened};
use crate::library::{check_launcher, Family};
use crate::ordered::{integers_for, to_floats, to_integers};
use crate::rounds::{Broadcasts, Rounds};
use pjrt_base::error::Result;
use pjrt_base::{bail, ensure};
use pjrt_data::dtype::DType;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance, without_provenance_mut};

/// How elements are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Sum,
    Prod,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl Op {
    /// Every operation with its name, in the enum's order.
    const ALL: [(&'static str, Op); 7] = [
        ("sum", Op::Sum),
        ("prod", Op::Prod),
        ("min", Op::Min),
        ("max", Op::Max),
        ("and", Op::And),
        ("or", Op::Or),
        ("xor", Op::Xor),
    ];

    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.iter().find(|(other, _)| *other == name).map(|(_, op)| *op)
    }

    fn name(self) -> &'static str {
        Op::ALL[self as usize].0
    }

    /// Whether elements of this type can be combined so.
    fn takes(self, dtype: DType) -> bool {
        let is_bitwise = matches!(self, Op::And | Op::Or | Op::Xor);
        match dtype {
            DType::Pred => is_bitwise || matches!(self, Op::Min | Op::Max),
            DType::C64 | DType::C128 => matches!(self, Op::Sum | Op::Prod),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => !is_bitwise,
            _ => type_index(dtype).is_some(),
        }
    }
}

/// A communication that is open: which process this is, and what MPI allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub rank: usize,
    pub size: usize,
    /// "single", "funneled", "serialized" or "multiple".
    pub level: &'static str,
    /// Somebody else in this process has initialized MPI.
    pub is_joined: bool,
    pub family: Family,
    /// The version of the MPI standard.
    pub standard: (i32, i32),
    pub library_version: String,
}

/// The processes that communicate. A group is a list of ranks, in which this process must be; an empty one means all processes.
/// All processes of a group must call the same operations in the same order. Empty arrays, whose memory MPI may refuse, do not
/// reach it.
pub trait Communicator: Send {
    /// Whether MPI is initialized already, and allows only one thread to call it. Any thread may ask.
    fn is_bound_to_a_thread(&self) -> bool;
    /// Initializes MPI, or joins it. Must be called first.
    fn start(&mut self) -> Result<Facts>;
    /// Ends MPI, if `start` initialized it.
    fn finish(&mut self) -> Result<()>;
    /// Without an input, this process contributes what is in the memory of the output.
    fn all_reduce(
        &mut self,
        group: &[i32],
        op: Op,
        dtype: DType,
        input: Option<&[u8]>,
        output: &mut [u8],
    ) -> Result<()>;
    /// The output has a part for each process.
    fn all_gather(&mut self, group: &[i32], input: &[u8], output: &mut [u8]) -> Result<()>;
    /// The input has a part for each process.
    fn reduce_scatter(&mut self, group: &[i32], op: Op, dtype: DType, input: &[u8], output: &mut [u8]) -> Result<()>;
    /// Both have a part for each process.
    fn all_to_all(&mut self, group: &[i32], input: &[u8], output: &mut [u8]) -> Result<()>;
    /// The root is a place in the group.
    fn broadcast(&mut self, group: &[i32], root: usize, data: &mut [u8]) -> Result<()>;
    fn barrier(&mut self, group: &[i32]) -> Result<()>;
    /// Does not wait for the receiver.
    fn send(&mut self, to: usize, tag: i32, data: Vec<u8>) -> Result<()>;
    fn receive(&mut self, from: usize, tag: i32, data: &mut [u8]) -> Result<()>;
    /// Goes on with what is being sent. Returns whether something is.
    fn progress(&mut self) -> Result<bool>;
    /// The number of processes in a group, and the place of this one.
    fn place(&mut self, group: &[i32]) -> Result<(usize, usize)>;
    /// What exchanges messages on another thread. `None` if MPI allows one thread only, or if somebody else ends it.
    fn rounds(&mut self) -> Option<Box<dyn Rounds>>;
}

/// The largest number of elements or bytes for one call of MPI.
pub(crate) const LIMIT: usize = 1 << 30;

pub(crate) struct Mpi<H: Handle> {
    calls: Calls<H>,
    constants: Constants<H>,
    /// Complete once started.
    facts: Facts,
    /// A communicator of our own, once started.
    world: Option<H>,
    /// Another one, for the thread of the rounds.
    rounds: Option<H>,
    groups: Vec<(Vec<i32>, H)>,
    /// Requests, with the memory that they need. Its address does not change.
    sending: Vec<(H, Vec<u8>)>,
}

impl<H: Handle> Mpi<H> {
    pub(crate) fn new(calls: Calls<H>, constants: Constants<H>, family: Family, library_version: String) -> Mpi<H> {
        let (rank, size, level, is_joined, standard) = (0, 1, "single", false, (0, 0));
        let facts = Facts { rank, size, level, is_joined, family, standard, library_version };
        Mpi { calls, constants, facts, world: None, rounds: None, groups: Vec::new(), sending: Vec::new() }
    }

    /// A communicator of our own for all processes.
    ///
    /// # Safety
    /// MPI is initialized.
    unsafe fn duplicate(&self) -> Result<H> {
        let mut made = H::NULL;
        self.calls.check("Comm_dup", (self.calls.comm_dup)(self.constants.world, &mut made))?;
        (self.calls.comm_set_errhandler)(made, self.constants.errors_return);
        Ok(made)
    }

    /// The communicator of a group.
    fn of(&mut self, group: &[i32]) -> Result<H> {
        let Some(world) = self.world else { bail!(InvalidInput, "MPI is not initialized.") };
        if group.is_empty() || group.len() == self.facts.size && group.iter().zip(0..).all(|(&rank, i)| rank == i) {
            return Ok(world);
        }
        if let Some((_, known)) = self.groups.iter().find(|(ranks, _)| ranks == group) {
            return Ok(*known);
        }
        let (rank, size) = (self.facts.rank, self.facts.size);
        let is_rank = |&rank: &i32| usize::try_from(rank).is_ok_and(|rank| rank < size);
        let is_right = group.iter().all(is_rank) && group.contains(&(rank as i32));
        ensure!(is_right, InvalidInput, "A group of processes has ranks from 0 to {}, with {rank}.", size - 1);
        let (mut all, mut some, mut made) = (H::NULL, H::NULL, H::NULL);
        // SAFETY: the handles are MPI's, and the list has as many ranks.
        unsafe {
            self.calls.check("Comm_group", (self.calls.comm_group)(world, &mut all))?;
            let included = (self.calls.group_incl)(all, group.len() as c_int, group.as_ptr(), &mut some);
            (self.calls.group_free)(&mut all);
            self.calls.check("Group_incl", included)?;
            let created = (self.calls.comm_create_group)(world, some, 0, &mut made);
            (self.calls.group_free)(&mut some);
            self.calls.check("Comm_create_group", created)?;
            (self.calls.comm_set_errhandler)(made, self.constants.errors_return);
        }
        self.groups.push((group.to_vec(), made));
        Ok(made)
    }

    /// The type of elements for MPI.
    fn element(&self, op: Op, dtype: DType) -> Result<H> {
        let same = if dtype == DType::Pred { DType::U8 } else { dtype };
        match type_index(same).filter(|_| op.takes(dtype)) {
            Some(index) => Ok(self.constants.types[index]),
            None => bail!(UnsupportedDtype, "MPI has no `{}` of {dtype}.", op.name()),
        }
    }

    fn no_status(&self) -> *mut c_void {
        without_provenance_mut(self.constants.ignore_status)
    }

    /// A peer's rank for MPI.
    fn peer(&self, rank: usize) -> Result<c_int> {
        match c_int::try_from(rank) {
            Ok(peer) if rank < self.facts.size => Ok(peer),
            _ => bail!(InvalidInput, "There is no process of rank {rank}: there are {}.", self.facts.size),
        }
    }
}

fn same_size(expected: usize, got: usize) -> Result<()> {
    ensure!(expected == got, ShapeMismatch, "Expected {expected} bytes for this number of processes, got {got}.");
    Ok(())
}

impl<H: Handle + Send> Communicator for Mpi<H> {
    fn is_bound_to_a_thread(&self) -> bool {
        let mut level = 0;
        self.calls.flag(self.calls.initialized)
            && !self.calls.flag(self.calls.finalized)
            // SAFETY: MPI is initialized, and writes one integer.
            && unsafe { (self.calls.query_thread)(&mut level) != 0 || level < self.constants.levels[2] }
    }

    fn start(&mut self) -> Result<Facts> {
        let has_ended = self.calls.flag(self.calls.finalized);
        ensure!(!has_ended, InvalidInput, "MPI has ended in this process, and cannot be initialized again.");
        let is_joined = self.calls.flag(self.calls.initialized);
        let (mut level, mut standard) = (0, (0, 0));
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is initialized once, and the others are called after that, with memory for what they write.
        unsafe {
            if is_joined {
                self.calls.check("Query_thread", (self.calls.query_thread)(&mut level))?;
            } else {
                let wanted = self.constants.levels[2];
                let done = (self.calls.init_thread)(null_mut(), null_mut(), wanted, &mut level);
                self.calls.check("Init_thread", done)?;
            }
            (self.calls.get_version)(&mut standard.0, &mut standard.1);
            let world = self.duplicate()?;
            self.calls.check("Comm_rank", (self.calls.comm_rank)(world, &mut rank))?;
            self.calls.check("Comm_size", (self.calls.comm_size)(world, &mut size))?;
            self.world = Some(world);
            if level >= self.constants.levels[2] && !is_joined {
                self.rounds = Some(self.duplicate()?);
            }
        }
        check_launcher(&self.facts.library_version, size as usize)?;
        let names = ["funneled", "serialized", "multiple"];
        let named = self.constants.levels.iter().zip(names).rev().find(|(least, _)| level >= **least);
        let level = named.map_or("single", |(_, name)| name);
        let (rank, size) = (rank as usize, size as usize);
        self.facts = Facts { rank, size, level, is_joined, standard, ..self.facts.clone() };
        Ok(self.facts.clone())
    }

    fn finish(&mut self) -> Result<()> {
        while self.progress()? {
            std::thread::yield_now();
        }
        if self.world.take().is_some() && !self.facts.is_joined && !self.calls.flag(self.calls.finalized) {
            // SAFETY: MPI is initialized, and nothing is under way.
            return self.calls.check("Finalize", unsafe { (self.calls.finalize)() });
        }
        Ok(())
    }

    fn all_reduce(
        &mut self,
        group: &[i32],
        op: Op,
        dtype: DType,
        input: Option<&[u8]>,
        output: &mut [u8],
    ) -> Result<()> {
        if let Some(input) = input {
            same_size(input.len(), output.len())?;
        }
        if is_half(dtype) {
            let mut numbers = widened(dtype, input.unwrap_or(output));
            self.all_reduce(group, op, DType::F32, None, bytes_of(&mut numbers))?;
            narrow(dtype, &numbers, output);
            return Ok(());
        }
        if let Some(integers) = integers_for(op, dtype) {
            if let Some(input) = input {
                output.copy_from_slice(input);
            }
            to_integers(op, dtype, output);
            self.all_reduce(group, op, integers, None, output)?;
            to_floats(dtype, output);
            return Ok(());
        }
        let (element, comm) = (self.element(op, dtype)?, self.of(group)?);
        let op = self.constants.ops[op as usize];
        let step = LIMIT * dtype.host_bytes();
        let in_place = without_provenance(self.constants.in_place);
        for (part, out) in output.chunks_mut(step).enumerate() {
            let from = input.map_or(in_place, |input| input[part * step..].as_ptr().cast());
            let count = (out.len() / dtype.host_bytes()) as c_int;
            // SAFETY: both have so many elements of this type.
            let done = unsafe { (self.calls.all_reduce)(from, out.as_mut_ptr().cast(), count, element, op, comm) };
            self.calls.check("Allreduce", done)?;
        }
        Ok(())
    }

    fn all_gather(&mut self, group: &[i32], input: &[u8], output: &mut [u8]) -> Result<()> {
        let (comm, (size, place)) = (self.of(group)?, self.place(group)?);
        same_size(input.len() * size, output.len())?;
        if input.is_empty() {
            return Ok(());
        }
        if input.len() > LIMIT {
            output[place * input.len()..][..input.len()].copy_from_slice(input);
            let mut parts = output.chunks_mut(input.len()).enumerate();
            return parts.try_for_each(|(root, part)| self.broadcast(group, root, part));
        }
        let (count, byte) = (input.len() as c_int, self.constants.byte);
        let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        // SAFETY: the output has a part as long as the input for each process.
        self.calls.check("Allgather", unsafe { (self.calls.all_gather)(from, count, byte, to, count, byte, comm) })
    }

    fn reduce_scatter(&mut self, group: &[i32], op: Op, dtype: DType, input: &[u8], output: &mut [u8]) -> Result<()> {
        let (comm, (size, place)) = (self.of(group)?, self.place(group)?);
        same_size(input.len(), output.len() * size)?;
        if input.is_empty() {
            return Ok(());
        }
        if is_half(dtype) {
            let mut all = widened(dtype, input);
            let mut own = vec![0f32; all.len() / size];
            self.reduce_scatter(group, op, DType::F32, bytes_of(&mut all), bytes_of(&mut own))?;
            narrow(dtype, &own, output);
            return Ok(());
        }
        if let Some(integers) = integers_for(op, dtype) {
            let mut all = input.to_vec();
            to_integers(op, dtype, &mut all);
            self.reduce_scatter(group, op, integers, &all, output)?;
            to_floats(dtype, output);
            return Ok(());
        }
        let (element, op) = (self.element(op, dtype)?, self.constants.ops[op as usize]);
        let width = dtype.host_bytes();
        let count = output.len() / width;
        if count <= LIMIT {
            let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
            // SAFETY: the input has so many elements for each process, and the output has room for them.
            let done = unsafe { (self.calls.reduce_scatter)(from, to, count as c_int, element, op, comm) };
            return self.calls.check("Reduce_scatter_block", done);
        }
        let step = LIMIT * width;
        let to: *mut u8 = output.as_mut_ptr();
        for (root, part) in input.chunks(output.len()).enumerate() {
            for (index, from) in part.chunks(step).enumerate() {
                // SAFETY: within the output; only this process's own part is written.
                let to = if root == place { unsafe { to.add(index * step) } } else { null_mut() };
                let count = (from.len() / width) as c_int;
                // SAFETY: both have so many elements; the output is needed at the root only.
                let done = unsafe {
                    (self.calls.reduce)(from.as_ptr().cast(), to.cast(), count, element, op, root as c_int, comm)
                };
                self.calls.check("Reduce", done)?;
            }
        }
        Ok(())
    }

    fn all_to_all(&mut self, group: &[i32], input: &[u8], output: &mut [u8]) -> Result<()> {
        let (comm, (size, place)) = (self.of(group)?, self.place(group)?);
        same_size(input.len(), output.len())?;
        let part = input.len() / size;
        same_size(part * size, input.len())?;
        if input.is_empty() {
            return Ok(());
        }
        let byte = self.constants.byte;
        if part <= LIMIT {
            let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
            let count = part as c_int;
            // SAFETY: both have so many bytes for each process.
            let done = unsafe { (self.calls.all_to_all)(from, count, byte, to, count, byte, comm) };
            return self.calls.check("Alltoall", done);
        }
        for distance in 0..size {
            let (to, from) = ((place + distance) % size, (place + size - distance) % size);
            let (sent, received) = (&input[to * part..][..part], &mut output[from * part..][..part]);
            let (to, from) = (to as c_int, from as c_int);
            for (out, into) in sent.chunks(LIMIT).zip(received.chunks_mut(LIMIT)) {
                let (count, status) = (out.len() as c_int, self.no_status());
                let (out, into) = (out.as_ptr().cast(), into.as_mut_ptr().cast());
                // SAFETY: both have so many bytes.
                let done = unsafe {
                    (self.calls.send_receive)(out, count, byte, to, 0, into, count, byte, from, 0, comm, status)
                };
                self.calls.check("Sendrecv", done)?;
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, group: &[i32], root: usize, data: &mut [u8]) -> Result<()> {
        let (comm, (size, _)) = (self.of(group)?, self.place(group)?);
        ensure!(root < size, InvalidInput, "The root must be from 0 to {}, got {root}.", size - 1);
        for part in data.chunks_mut(LIMIT) {
            let (count, byte) = (part.len() as c_int, self.constants.byte);
            // SAFETY: the memory has so many bytes.
            let done = unsafe { (self.calls.broadcast)(part.as_mut_ptr().cast(), count, byte, root as c_int, comm) };
            self.calls.check("Bcast", done)?;
        }
        Ok(())
    }

    fn barrier(&mut self, group: &[i32]) -> Result<()> {
        let comm = self.of(group)?;
        // SAFETY: the communicator is MPI's.
        self.calls.check("Barrier", unsafe { (self.calls.barrier)(comm) })
    }

    fn send(&mut self, to: usize, tag: i32, data: Vec<u8>) -> Result<()> {
        let (comm, peer, byte) = (self.of(&[])?, self.peer(to)?, self.constants.byte);
        let parts = if data.len() <= LIMIT { vec![data] } else { data.chunks(LIMIT).map(<[u8]>::to_vec).collect() };
        for part in parts {
            let mut request = H::NULL;
            let (from, count) = (part.as_ptr().cast(), part.len() as c_int);
            // SAFETY: the memory has so many bytes, and is kept until they are sent.
            let done = unsafe { (self.calls.isend)(from, count, byte, peer, tag, comm, &mut request) };
            self.calls.check("Isend", done)?;
            self.sending.push((request, part));
        }
        self.progress().map(drop)
    }

    fn receive(&mut self, from: usize, tag: i32, data: &mut [u8]) -> Result<()> {
        let (comm, peer, byte) = (self.of(&[])?, self.peer(from)?, self.constants.byte);
        let mut receive = |part: &mut [u8]| {
            // Longer than any ABI's status.
            let (mut status, mut got) = ([0u64; 16], 0);
            let (to, count) = (part.as_mut_ptr().cast(), part.len() as c_int);
            let status: *mut c_void = status.as_mut_ptr().cast();
            // SAFETY: the memory has so many bytes.
            let done = unsafe { (self.calls.receive)(to, count, byte, peer, tag, comm, status) };
            self.calls.check("Recv", done)?;
            // SAFETY: MPI has written the status.
            self.calls.check("Get_count", unsafe { (self.calls.get_count)(status, byte, &mut got) })?;
            same_size(part.len(), usize::try_from(got).unwrap_or(0))
        };
        if data.is_empty() {
            return receive(data);
        }
        data.chunks_mut(LIMIT).try_for_each(&mut receive)
    }

    fn progress(&mut self) -> Result<bool> {
        let mut i = 0;
        while i < self.sending.len() {
            let mut flag = 0;
            let status = self.no_status();
            // SAFETY: the request is MPI's.
            let done = unsafe { (self.calls.test)(&mut self.sending[i].0, &mut flag, status) };
            if done != 0 || flag != 0 {
                self.sending.swap_remove(i);
            } else {
                i += 1;
            }
            self.calls.check("Test", done)?;
        }
        Ok(!self.sending.is_empty())
    }

    fn place(&mut self, group: &[i32]) -> Result<(usize, usize)> {
        if group.is_empty() {
            return Ok((self.facts.size, self.facts.rank));
        }
        match group.iter().position(|&rank| rank == self.facts.rank as i32) {
            Some(place) => Ok((group.len(), place)),
            None => bail!(InvalidInput, "Process {} is not in the group.", self.facts.rank),
        }
    }

    fn rounds(&mut self) -> Option<Box<dyn Rounds>> {
        let Facts { rank, size, .. } = self.facts;
        let Constants { byte, ignore_status, .. } = self.constants;
        let communicator = self.rounds.take()?;
        Some(Box::new(Broadcasts { calls: self.calls, communicator, byte, ignore_status, rank, size }))
    }
}

/// The memory of numbers.
fn bytes_of(numbers: &mut [f32]) -> &mut [u8] {
    // SAFETY: any bytes are numbers of this type, and the other way round.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), std::mem::size_of_val(numbers)) }
}
