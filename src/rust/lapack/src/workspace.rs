//! Memory and sizes that operations keep from one matrix of a batch to the next.

use crate::check::{size, work_size};
use crate::library::{library, Library};
use crate::routine::{Address, Routine};
use crate::scalar::{Scalar, ScalarKind};
use pjrt_base::bail;
use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use std::mem::MaybeUninit;

/// The library in use, and memory for its work. It may be used for any operation, type and size, but sizes that repeat
/// cost least.
pub struct Workspace {
    pub(crate) library: &'static Library,
    /// Memory that is not in use.
    blocks: Vec<Block>,
    /// What LAPACK answered about sizes.
    answers: Vec<(Question, Sizes)>,
}

/// What the size of the work depends on: the routine, the type, dimensions, letters.
type Question = (Routine, ScalarKind, [i32; 5]);

/// The elements of the work in the matrix's type, the reals and the integers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub work: i32,
    pub reals: i32,
    pub integers: i32,
}

/// The memory of a routine, without content. Where a routine is asked for its sizes, these are -1, and the memory is one
/// element of each type.
pub(crate) struct Room<T: Scalar> {
    pub work: *mut T,
    pub reals: *mut T::Real,
    pub integers: *mut i32,
    /// Where the routine writes its `info`.
    pub info: *mut i32,
    pub sizes: Sizes,
}

/// The smallest sizes that a routine accepts, or those that it uses where it takes no size.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Least {
    pub work: u64,
    pub reals: u64,
    pub integers: u64,
}

impl Least {
    pub fn work(work: usize) -> Least {
        Least { work: work as u64, ..Least::default() }
    }
}

/// Calls a function with copies of slices in double precision, and copies the results back, except to slices after `in`.
macro_rules! widened {
    ($work:ident, [] $call:expr) => { $call };
    ($work:ident, [in $slice:ident $($others:tt)*] $call:expr) => {
        $work.with_copy($slice, |$work, $slice| widened!($work, [$($others)*] $call))
    };
    ($work:ident, [$slice:ident $($others:tt)*] $call:expr) => {
        $work.converted($slice, |$work, $slice| widened!($work, [$($others)*] $call))
    };
}
pub(crate) use widened;

fn ask<T: Scalar>(least: Least, run: &mut dyn FnMut(&Room<T>)) -> Result<Sizes> {
    let (mut work, mut reals, mut integers, mut info) = (T::default(), T::Real::default(), 0, 0);
    let sizes = Sizes { work: -1, reals: -1, integers: -1 };
    run(&Room { work: &mut work, reals: &mut reals, integers: &mut integers, info: &mut info, sizes });
    Ok(Sizes {
        work: work_size(work, least.work)?,
        reals: work_size(reals, least.reals)?,
        integers: integers.max(size(least.integers)?),
    })
}

/// How many answers are kept.
const ANSWERS: usize = 8;

impl Workspace {
    /// A workspace of the library in use, without memory yet.
    ///
    /// # Errors
    /// As [`library`].
    pub fn new() -> Result<Workspace> {
        Ok(Workspace::of(library()?))
    }

    pub(crate) fn of(library: &'static Library) -> Workspace {
        Workspace { library, blocks: Vec::new(), answers: Vec::new() }
    }

    /// The routine for a type; none if double precision has to do.
    pub(crate) fn routine<T: Scalar>(&self, routine: Routine) -> Result<Option<Address>> {
        let address = self.library.find::<T>(routine);
        if address.is_none() && !T::is_narrow() {
            let name = routine.names()[T::KIND as usize];
            bail!(LibraryMissing, "The LAPACK in use, {}, has no `{name}`.", self.library.names());
        }
        Ok(address)
    }

    /// Runs a routine with the memory that it asks for, at least `least`. Given the size -1, a routine writes the sizes it
    /// wants into the first elements. The answer is kept for matrices with the same `dims`. Returns the routine's `info`.
    pub(crate) fn with_room<T: Scalar>(
        &mut self,
        routine: Routine,
        dims: [i32; 5],
        least: Least,
        run: &mut dyn FnMut(&Room<T>),
    ) -> Result<i32> {
        let question = (routine, T::KIND, dims);
        let known = self.answers.iter().find(|(known, _)| *known == question).map(|(_, sizes)| *sizes);
        let sizes = match known {
            Some(sizes) => sizes,
            None => {
                let sizes = ask(least, run)?;
                if self.answers.len() == ANSWERS {
                    self.answers.remove(0);
                }
                self.answers.push((question, sizes));
                sizes
            }
        };
        let (mut work, mut reals, mut integers) = (self.take(), self.take(), self.take());
        let mut info = 0;
        run(&Room {
            work: work.room(sizes.work as usize)?,
            reals: reals.room(sizes.reals as usize)?,
            integers: integers.room(sizes.integers as usize)?,
            info: &mut info,
            sizes,
        });
        self.give(integers);
        self.give(reals);
        self.give(work);
        Ok(info)
    }

    /// A block of memory, the one that was given back last.
    pub(crate) fn take(&mut self) -> Block {
        self.blocks.pop().unwrap_or_default()
    }

    /// Gives a block back. In the reverse order of [`Workspace::take`], so that each matrix finds blocks of its sizes.
    pub(crate) fn give(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Runs `action` on a copy of `from` in another type, and copies the result back.
    pub(crate) fn converted<A: Scalar, B: Scalar, R>(
        &mut self,
        from: &mut [A],
        action: impl FnOnce(&mut Workspace, &mut [B]) -> Result<R>,
    ) -> Result<R> {
        let mut block = self.take();
        let copy = block.copy_of::<A, B>(from)?;
        let result = action(self, copy)?;
        from.iter_mut().zip(copy).for_each(|(to, value)| *to = convert(*value));
        self.give(block);
        Ok(result)
    }

    /// Runs `action` on a copy of `from` in another type.
    pub(crate) fn with_copy<A: Scalar, B: Scalar, R>(
        &mut self,
        from: &[A],
        action: impl FnOnce(&mut Workspace, &mut [B]) -> Result<R>,
    ) -> Result<R> {
        let mut block = self.take();
        let result = action(self, block.copy_of::<A, B>(from)?)?;
        self.give(block);
        Ok(result)
    }
}

/// Memory for elements of any type.
#[derive(Default)]
pub(crate) struct Block(Vec<MaybeUninit<u64>>);

impl Block {
    /// Memory for so many elements, without content. It is valid until the block is used again.
    pub(crate) fn room<T>(&mut self, count: usize) -> Result<*mut T> {
        // one word at least, so that the pointer is one to memory
        let words = count.saturating_mul(size_of::<T>()).div_ceil(size_of::<u64>()).max(1);
        if words > self.0.len() {
            self.0.clear();
            if self.0.try_reserve_exact(words).is_err() {
                let message = format!("Not enough memory for LAPACK's work: {words} words of 8 bytes needed.");
                return Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message));
            }
            // SAFETY: the memory is there, and the elements need no content.
            unsafe { self.0.set_len(words) };
        }
        Ok(self.0.as_mut_ptr().cast())
    }

    /// So many elements of zero.
    pub(crate) fn zeros<T: Scalar>(&mut self, count: usize) -> Result<&mut [T]> {
        let memory = self.room::<T>(count)?;
        // SAFETY: there is room for the elements, aligned to 8 bytes, and zero bytes are zeros of every type.
        unsafe {
            std::ptr::write_bytes(memory, 0, count);
            Ok(std::slice::from_raw_parts_mut(memory, count))
        }
    }

    /// A copy in another type.
    pub(crate) fn copy_of<A: Scalar, B: Scalar>(&mut self, from: &[A]) -> Result<&mut [B]> {
        let memory = self.room::<B>(from.len())?;
        // SAFETY: there is room for the elements, aligned to 8 bytes; all of them are written.
        unsafe {
            for (at, value) in from.iter().enumerate() {
                memory.add(at).write(convert(*value));
            }
            Ok(std::slice::from_raw_parts_mut(memory, from.len()))
        }
    }
}

/// A number in another type.
#[inline]
pub(crate) fn convert<A: Scalar, B: Scalar>(value: A) -> B {
    let (re, im) = value.parts();
    B::from_parts(re, im)
}
