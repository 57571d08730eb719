//! The memory of operands: stacks of matrices or vectors, one for each index of their leading dimensions.

use crate::frame::{Array, Failure, Name, Outcome};
use crate::lapack::operands::{typed, Element};
use pjrt_base::error::{self, Error, Kind, RESOURCE_EXHAUSTED};
use std::marker::PhantomData;

/// Matrices or vectors of the same size, one after the other in memory.
#[derive(Debug)]
pub(crate) struct Stack<'a, T> {
    name: Name,
    data: *mut T,
    /// The number of elements of each.
    size: usize,
    count: usize,
    call: PhantomData<&'a ()>,
}

// SAFETY: the memory may be used from any thread; `Operands` says how.
unsafe impl<T: Send> Send for Stack<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Stack<'_, T> {}

impl<'a, T: Element> Stack<'a, T> {
    /// # Errors
    /// If the array has another type or other dimensions than these.
    pub(super) fn new(array: &Array<'a>, batch: &[i64], dims: &[usize]) -> Outcome<Stack<'a, T>> {
        let name = array.name;
        let expected = || batch.iter().copied().chain(dims.iter().map(|&dim| dim as i64));
        if array.dtype != T::DTYPE || !expected().eq(array.dims.iter().copied()) {
            let (expected, got) = (typed(T::DTYPE, expected()), typed(array.dtype, array.dims.iter().copied()));
            bail!(InvalidInput, "Expected {name} of type {expected}, got {got}.");
        }
        let data: *mut T = array.as_mut_ptr().cast();
        ensure!(data.is_aligned(), Failure::internal(format!("The memory of {name} is not aligned.")));
        // Too large only if another dimension is 0, so that there is no memory.
        let product = |dims: &mut dyn Iterator<Item = usize>| dims.fold(1, usize::saturating_mul);
        let size = product(&mut dims.iter().copied());
        let count = if batch.contains(&0) { 0 } else { product(&mut batch.iter().map(|&dim| dim as usize)) };
        Ok(Stack { name, data, size, count, call: PhantomData })
    }

    /// The first element of the part at an index, for operands in the memory of another device.
    pub fn at(&self, index: usize) -> *mut T {
        self.data.wrapping_add(index * self.size)
    }

    /// The number of elements of all parts.
    pub fn len(&self) -> usize {
        self.size * self.count
    }

    fn memory(&self, role: Role) -> OperandMemory {
        let (start, each) = (self.data as usize, self.size.saturating_mul(size_of::<T>()));
        OperandMemory { name: self.name, start, each, count: self.count, role }
    }

    /// # Safety
    /// `index` must be below `count`, and nobody may write to this part meanwhile.
    unsafe fn part<'p>(&self, index: usize) -> &'p [T] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data.add(index * self.size), self.size)
    }

    /// # Safety
    /// `index` must be below `count`, and nobody else may use this part meanwhile.
    unsafe fn part_mut<'p>(&self, index: usize) -> &'p mut [T] {
        if self.size == 0 {
            return &mut [];
        }
        std::slice::from_raw_parts_mut(self.data.add(index * self.size), self.size)
    }
}

/// What a call does with an operand's memory.
#[derive(Debug, Clone, Copy)]
enum Role {
    Read,
    /// Each part is copied before the work on it begins.
    Copied,
    /// Each part is written by the work on it.
    Written,
    /// Each part is written before the work on it begins, too.
    Filled,
}

/// The memory of an operand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperandMemory {
    name: Name,
    start: usize,
    /// The bytes of each part.
    each: usize,
    count: usize,
    role: Role,
}

impl OperandMemory {
    fn overlaps(&self, other: &OperandMemory) -> bool {
        let [mine, theirs] = [self, other].map(|memory| memory.each.saturating_mul(memory.count));
        mine > 0 && theirs > 0 && self.start < other.start + theirs && other.start < self.start + mine
    }

    /// Whether the work on one index cannot disturb the other operand of another index or of its own.
    fn is_apart_from(&self, other: &OperandMemory) -> bool {
        match (self.role, other.role) {
            (Role::Read | Role::Copied, Role::Read | Role::Copied) => true,
            (Role::Copied, Role::Written) | (Role::Written, Role::Copied) => {
                self.start == other.start && self.each == other.each || !self.overlaps(other)
            }
            _ => !self.overlaps(other),
        }
    }
}

/// The number of indices with anything to do. Checks that no result shares memory with another operand in a way that would
/// spoil it.
///
/// # Errors
/// If one does.
pub(crate) fn checked_count(operands: &impl Operands) -> Outcome<usize> {
    let mut memory = Vec::with_capacity(8);
    operands.memory(&mut memory);
    for (i, one) in memory.iter().enumerate() {
        if let Some(other) = memory[..i].iter().find(|other| !other.is_apart_from(one)) {
            let (other, one) = (other.name, one.name);
            bail!(InvalidInput, "Expected separate memory for {other} and {one}: change `output_operand_aliases`.");
        }
    }
    if memory.iter().all(|operand| operand.each == 0) {
        return Ok(0);
    }
    Ok(memory.iter().map(|operand| operand.count).min().unwrap_or(0))
}

/// The operands of a call, or one of them: what the work on one index needs.
pub(crate) trait Operands: Sync {
    /// Memory for copies, one for each thread.
    type Copies: Default;
    type Parts<'p>;

    /// # Errors
    /// If there is no memory.
    fn copies(&self) -> error::Result<Self::Copies> {
        Ok(Self::Copies::default())
    }

    /// Adds the memory of each.
    fn memory(&self, list: &mut Vec<OperandMemory>);

    /// The parts at an index.
    ///
    /// # Safety
    /// The index must be below the [`checked_count`], no other thread may use the parts of this index meanwhile, and they
    /// must end before the copies are used again.
    unsafe fn parts<'p>(&self, index: usize, copies: &mut Self::Copies) -> Self::Parts<'p>;
}

/// An argument that is only read.
#[derive(Debug)]
pub(crate) struct Input<'a, T>(pub Stack<'a, T>);

/// An argument that is worked on in a copy.
#[derive(Debug)]
pub(crate) struct Consumed<'a, T>(pub Stack<'a, T>);

/// A result.
#[derive(Debug)]
pub(crate) struct Output<'a, T>(pub Stack<'a, T>);

/// A result that starts as a copy of an argument.
#[derive(Debug)]
pub(crate) struct InPlace<'a, T> {
    pub from: Stack<'a, T>,
    pub to: Stack<'a, T>,
}

impl<T: Element> Operands for Input<'_, T> {
    type Copies = ();
    type Parts<'p> = &'p [T];

    fn memory(&self, list: &mut Vec<OperandMemory>) {
        list.push(self.0.memory(Role::Read));
    }

    unsafe fn parts<'p>(&self, index: usize, (): &mut ()) -> &'p [T] {
        self.0.part(index)
    }
}

impl<T: Element> Operands for Output<'_, T> {
    type Copies = ();
    type Parts<'p> = &'p mut [T];

    fn memory(&self, list: &mut Vec<OperandMemory>) {
        list.push(self.0.memory(Role::Written));
    }

    unsafe fn parts<'p>(&self, index: usize, (): &mut ()) -> &'p mut [T] {
        self.0.part_mut(index)
    }
}

impl<T: Element> Operands for InPlace<'_, T> {
    type Copies = ();
    type Parts<'p> = &'p mut [T];

    fn memory(&self, list: &mut Vec<OperandMemory>) {
        if self.from.data != self.to.data {
            list.push(self.from.memory(Role::Copied));
        }
        list.push(self.to.memory(Role::Filled));
    }

    unsafe fn parts<'p>(&self, index: usize, (): &mut ()) -> &'p mut [T] {
        let to = self.to.part_mut(index);
        if self.from.data != self.to.data {
            to.copy_from_slice(self.from.part(index));
        }
        to
    }
}

impl<T: Element> Operands for Consumed<'_, T> {
    type Copies = Vec<T>;
    type Parts<'p> = &'p mut [T];

    fn copies(&self) -> error::Result<Vec<T>> {
        let (mut copy, size) = (Vec::new(), self.0.size);
        match copy.try_reserve_exact(size) {
            Ok(()) => Ok(copy),
            Err(_) => {
                let message = format!("Not enough memory for a matrix of {size} elements.");
                Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message))
            }
        }
    }

    fn memory(&self, list: &mut Vec<OperandMemory>) {
        list.push(self.0.memory(Role::Copied));
    }

    unsafe fn parts<'p>(&self, index: usize, copies: &mut Vec<T>) -> &'p mut [T] {
        copies.clear();
        copies.extend_from_slice(self.0.part(index));
        std::slice::from_raw_parts_mut(copies.as_mut_ptr(), copies.len())
    }
}

/// An operand that some calls lack.
impl<O: Operands> Operands for Option<O> {
    type Copies = Option<O::Copies>;
    type Parts<'p> = Option<O::Parts<'p>>;

    fn copies(&self) -> error::Result<Self::Copies> {
        self.as_ref().map(O::copies).transpose()
    }

    fn memory(&self, list: &mut Vec<OperandMemory>) {
        if let Some(operand) = self {
            operand.memory(list);
        }
    }

    unsafe fn parts<'p>(&self, index: usize, copies: &mut Self::Copies) -> Self::Parts<'p> {
        Some(self.as_ref()?.parts(index, copies.as_mut()?))
    }
}

macro_rules! tuples {
    ($(($($type:ident $index:tt),*))*) => {$(
        impl<$($type: Operands),*> Operands for ($($type,)*) {
            type Copies = ($($type::Copies,)*);
            type Parts<'p> = ($($type::Parts<'p>,)*);

            fn copies(&self) -> error::Result<Self::Copies> {
                Ok(($(self.$index.copies()?,)*))
            }

            fn memory(&self, list: &mut Vec<OperandMemory>) {
                $(self.$index.memory(list);)*
            }

            unsafe fn parts<'p>(&self, index: usize, copies: &mut Self::Copies) -> Self::Parts<'p> {
                ($(self.$index.parts(index, &mut copies.$index),)*)
            }
        }
    )*};
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
}
