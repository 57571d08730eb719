//! Parts of arrays: some positions along each dimension, or single elements. Finds their offsets and reads them with as
//! few other bytes as a device's transfers allow. Must not know how the host language counts or names them.

use crate::buffer::read::Ready;
use crate::host::memory::HostMemory;
use pjrt_base::error::Result;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_data::convert;
use pjrt_data::dtype::DType;
use pjrt_data::layout;
use pjrt_data::transpose::Plan;
use std::ops::Range;
use std::sync::Arc;

/// Elements or runs to copy before the next look at the clock.
const TURNS: usize = 1024;

/// The offsets, in elements, of the elements that differ in one subscript only.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    Run { start: usize, step: usize, len: usize },
    List(Vec<usize>),
}

impl Axis {
    /// An axis of `len` elements at these offsets.
    pub fn new(len: usize, offset: impl Fn(usize) -> usize) -> Axis {
        if len == 0 {
            return Axis::Run { start: 0, step: 0, len };
        }
        let start = offset(0);
        let step = if len > 1 { offset(1).checked_sub(start) } else { Some(0) };
        match step {
            Some(step) if (2..len).all(|i| offset(i).checked_sub(offset(i - 1)) == Some(step)) => {
                Axis::Run { start, step, len }
            }
            _ => Axis::List((0..len).map(offset).collect()),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Axis::Run { len, .. } => *len,
            Axis::List(offsets) => offsets.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lowest and the highest offset of a nonempty axis.
    fn bounds(&self) -> (usize, usize) {
        match self {
            Axis::Run { start, step, len } => (*start, start + step * (len - 1)),
            Axis::List(offsets) => offsets.iter().fold((usize::MAX, 0), |(low, high), &o| (low.min(o), high.max(o))),
        }
    }
}

/// A part of an array: the elements of all combinations of its axes. The first axis varies fastest.
///
/// ```
/// # use pjrt_core::buffer::slice::{Axis, Slice};
/// # use pjrt_core::{Buffer, Client, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// let buffer = Buffer::from_bytes(&device, Spec::new(DType::U8, &[2, 3])?, &[1, 2, 3, 4, 5, 6])?;
/// // The first and the last column, by the offsets of their elements: the row varies fastest.
/// let part = Slice::new(vec![Axis::new(2, |row| 3 * row), Axis::new(2, |column| 2 * column)]);
/// let memory = buffer.wait()?.read_part(&part)?;
/// // SAFETY: all elements are there.
/// assert_eq!(unsafe { memory.bytes() }, [1, 4, 3, 6]);
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    axes: Vec<Axis>,
}

impl Slice {
    /// The part whose elements are at the sums of the axes' offsets.
    pub fn new(axes: Vec<Axis>) -> Slice {
        Slice { axes }
    }

    /// Elements along each axis.
    pub fn dims(&self) -> Vec<i64> {
        self.axes.iter().map(|axis| axis.len() as i64).collect()
    }

    /// Elements of the part.
    pub fn len(&self) -> usize {
        self.axes.iter().map(Axis::len).product()
    }

    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(Axis::is_empty)
    }

    /// The smallest range of offsets that holds all its elements.
    pub fn range(&self) -> Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let (low, high) = self.axes.iter().map(Axis::bounds).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        low..high + 1
    }

    /// Copies the elements, as they are, into a dense block whose first axis varies fastest. `src` is where the elements
    /// at the start of [`Slice::range`] lie.
    ///
    /// # Errors
    /// `Interrupted` if the user interrupts.
    ///
    /// # Safety
    /// From `src` on, the elements of the range are initialized; `dst` has room for the part; both are aligned for the
    /// dtype's elements and do not overlap.
    pub unsafe fn gather(&self, dtype: DType, src: *const u8, dst: *mut u8) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // A plan, which is made once, copies runs; the lists loop around it.
        let (mut dims, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
        let mut lists = Vec::new();
        let mut lowest = 0;
        for (axis, target) in self.axes.iter().zip(layout::column_major(&self.dims())) {
            match axis {
                Axis::Run { start, step, len } => {
                    dims.push(*len as i64);
                    from.push(*step);
                    to.push(target);
                    lowest += start;
                }
                Axis::List(offsets) => lists.push((offsets.as_slice(), target)),
            }
        }
        let plan = Plan::new(&dims, &from, &to);
        let width = dtype.host_bytes();
        // Offsets count from the array's start, which lies before what was read.
        let skipped = self.range().start - lowest;
        let mut turn = 0usize;
        for_each(&lists, 0, 0, &mut |offset, position| {
            turn += 1;
            if turn % TURNS == 0 {
                check_interrupt_sometimes()?;
            }
            convert::copy(dtype, &plan, src.add((offset - skipped) * width), dst.add(position * width))
        })
    }
}

/// Calls `body` with the sum of offsets and the position of every combination of the lists' elements.
fn for_each(
    lists: &[(&[usize], usize)],
    offset: usize,
    position: usize,
    body: &mut impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    match lists {
        [] => body(offset, position),
        [rest @ .., (offsets, target)] => {
            offsets.iter().enumerate().try_for_each(|(i, o)| for_each(rest, offset + o, position + i * target, body))
        }
    }
}

impl Ready<'_> {
    /// The elements of a part on the host, as they are, dense and with the part's first axis fastest. Offsets count in the
    /// buffer's memory order. Memory that the device shares is read in place.
    ///
    /// # Errors
    /// As [`Ready::view`], and `Interrupted`.
    pub fn read_part(self, part: &Slice) -> Result<Arc<HostMemory>> {
        let spec = self.buffer().spec();
        let in_order = spec.minor_to_major.is_none() && !spec.dtype.is_packed();
        if in_order && !self.buffer().client().shares_host_memory() {
            return self.transfer_part(part);
        }
        let (width, range) = (spec.dtype.host_bytes(), part.range());
        let elements = HostMemory::new(part.len() * width)?;
        let view = self.view()?;
        let source = &view.bytes()[range.start * width..range.end * width];
        // SAFETY: the slice is the part's range, and the memory was made for the part.
        unsafe { part.gather(spec.dtype, source.as_ptr(), elements.data())? };
        view.check()?;
        Ok(elements)
    }

    /// As [`Buffer::read_part`], for a row-major buffer without packed elements: transfers the smallest range that
    /// holds the part.
    ///
    /// # Errors
    /// As [`Ready::read_part`].
    pub fn transfer_part(self, part: &Slice) -> Result<Arc<HostMemory>> {
        let (dtype, range) = (self.buffer().dtype(), part.range());
        let width = dtype.host_bytes();
        let elements = HostMemory::new(part.len() * width)?;
        let held = HostMemory::new(range.len() * width)?;
        // SAFETY: ours alone, and only written before the transfer is done.
        self.read_range(range.start * width, unsafe { std::slice::from_raw_parts_mut(held.data(), held.len()) })?;
        // SAFETY: the range has been read, and the memory was made for the part.
        unsafe { part.gather(dtype, held.data(), elements.data())? };
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the part's elements, by definition: all combinations of the positions, the first fastest.
    fn reference(positions: &[Vec<usize>], strides: &[usize]) -> Vec<usize> {
        let offset = |n: usize| {
            let mut rest = n;
            positions.iter().zip(strides).fold(0, |offset, (chosen, stride)| {
                let position = chosen[rest % chosen.len()];
                rest /= chosen.len();
                offset + position * stride
            })
        };
        (0..positions.iter().map(Vec::len).product()).map(offset).collect()
    }

    fn part(positions: &[Vec<usize>], strides: &[usize]) -> Slice {
        let axis = |(chosen, stride): (&Vec<usize>, &usize)| Axis::new(chosen.len(), |i| chosen[i] * stride);
        Slice::new(positions.iter().zip(strides).map(axis).collect())
    }

    #[test]
    fn regular_positions_are_runs() {
        let axis = |positions: &[usize]| Axis::new(positions.len(), |i| positions[i] * 10);
        assert_eq!(axis(&[]).len(), 0);
        assert_eq!(axis(&[3]), Axis::Run { start: 30, step: 0, len: 1 });
        assert_eq!(axis(&[3, 4, 5]), Axis::Run { start: 30, step: 10, len: 3 });
        assert_eq!(axis(&[1, 4, 7]), Axis::Run { start: 10, step: 30, len: 3 });
        assert_eq!(axis(&[2, 2]), Axis::Run { start: 20, step: 0, len: 2 });
        assert_eq!(axis(&[2, 1]), Axis::List(vec![20, 10]));
        assert_eq!(axis(&[1, 2, 4]), Axis::List(vec![10, 20, 40]));
    }

    #[test]
    fn the_range_holds_the_part_and_nothing_more() {
        let strides = [12, 4, 1];
        assert_eq!(part(&[vec![1], vec![0, 1, 2], vec![0, 1, 2, 3]], &strides).range(), 12..24);
        assert_eq!(part(&[vec![1], vec![2, 0], vec![3, 3]], &strides).range(), 15..24);
        assert_eq!(part(&[vec![0, 1], vec![], vec![2]], &strides).range(), 0..0);
        assert_eq!(part(&[], &[]).range(), 0..1);
        assert_eq!(Slice::new(vec![Axis::List(vec![900, 7, 33])]).range(), 7..901);
    }

    #[test]
    fn elements_come_from_the_range_alone_in_order_and_at_every_width() {
        let dims = [4i64, 3, 5];
        let positions: [&[&[usize]]; 6] = [
            &[&[0, 1, 2, 3], &[0, 1, 2], &[0, 1, 2, 3, 4]],
            &[&[1, 2], &[0, 1, 2], &[1, 2, 3]],
            &[&[3, 0, 3], &[2], &[0, 2, 4]],
            &[&[2], &[2, 0, 1], &[4, 4, 0]],
            &[&[3, 1], &[1, 0], &[2, 0, 1]],
            &[&[1], &[], &[0]],
        ];
        for strides in
            [layout::row_major(&dims), layout::column_major(&dims), layout::strides(&dims, [1, 2, 0].into_iter())]
        {
            for chosen in positions {
                let chosen: Vec<Vec<usize>> = chosen.iter().map(|p| p.to_vec()).collect();
                let part = part(&chosen, &strides);
                let expected = reference(&chosen, &strides);
                assert_eq!((part.len(), part.is_empty()), (expected.len(), expected.is_empty()));
                for dtype in [DType::I8, DType::F16, DType::F32, DType::F64, DType::C128] {
                    let width = dtype.host_bytes();
                    let element = |offset: usize| (0..width).map(move |b| (offset * 7 + b * 31) as u8);
                    let range: Vec<u8> = part.range().flat_map(element).collect();
                    let held = HostMemory::new(range.len()).unwrap();
                    let out = HostMemory::new(part.len() * width).unwrap();
                    // SAFETY: both blocks are as long as what is copied into them.
                    let found = unsafe {
                        std::ptr::copy_nonoverlapping(range.as_ptr(), held.data(), range.len());
                        part.gather(dtype, held.data(), out.data()).unwrap();
                        out.bytes()
                    };
                    assert_eq!(
                        found,
                        expected.iter().flat_map(|&o| element(o)).collect::<Vec<_>>(),
                        "{chosen:?} {dtype}"
                    );
                }
            }
        }
    }
}
