//! Parts of arrays for the devices of a partitioned program, from a buffer or a file.

use crate::buffer::slice::{Axis, Slice};
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::host::memory::HostMemory;
use pjrt_base::error::Result;
use pjrt_data::array::Spec;
use pjrt_data::convert;
use pjrt_data::dtype::DType;
use pjrt_data::layout;
use pjrt_data::transpose::Plan;
use std::ops::Range;
use std::sync::Arc;

/// The part of an array for one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its range along each dimension of the array.
    pub ranges: Vec<Range<usize>>,
    /// Its dimensions on the device. Elements beyond the end of the array are zeros.
    pub dims: Vec<i64>,
}

/// Elements that are adjacent both in an array and in a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first one's position in the array, and in the part.
    pub from: usize,
    pub to: usize,
    pub len: usize,
}

impl Share {
    /// Checks that the range is inside an array of these dimensions, and fits the part's own dimensions.
    ///
    /// # Errors
    /// `ShapeMismatch`.
    pub fn check(&self, dims: &[i64]) -> Result<()> {
        let fits = |((range, &dim), &own): ((&Range<usize>, &i64), &i64)| {
            range.start <= range.end && range.end as i64 <= dim && (range.len() as i64) <= own
        };
        let all = self.ranges.len() == dims.len() && self.dims.len() == dims.len();
        if all && self.ranges.iter().zip(dims).zip(&self.dims).all(fits) {
            return Ok(());
        }
        bail!(ShapeMismatch, "The part is outside the array.")
    }

    /// Whether it covers all of the array along the dimensions from this one on.
    fn is_full(&self, from: usize, dims: &[i64]) -> bool {
        (from..dims.len()).all(|d| self.ranges[d] == (0..dims[d] as usize) && self.dims[d] == dims[d])
    }

    /// Whether its dimensions have room for more elements than its range.
    fn is_padded(&self) -> bool {
        self.ranges.iter().zip(&self.dims).any(|(range, &dim)| range.len() as i64 != dim)
    }

    /// The longest runs of its elements, for a row-major array.
    pub(crate) fn runs<'a>(&'a self, dims: &[i64]) -> impl Iterator<Item = Run> + 'a {
        let (from, to) = (layout::row_major(dims), layout::row_major(&self.dims));
        // All dimensions from this one on form one run.
        let split = (1..=dims.len()).find(|&d| self.is_full(d, dims)).unwrap_or(0);
        let outer = &self.ranges[..split.saturating_sub(1)];
        let inner = match split.checked_sub(1) {
            Some(d) => self.ranges[d].len() * dims[split..].iter().map(|&dim| dim as usize).product::<usize>(),
            None => 1,
        };
        let start: usize = self.ranges.iter().zip(&from).map(|(range, stride)| range.start * stride).sum();
        let is_empty = self.ranges.iter().any(|range| range.is_empty());
        let count: usize = if is_empty { 0 } else { outer.iter().map(|range| range.len()).product() };
        (0..count).map(move |number| {
            let (mut rest, mut run) = (number, Run { from: start, to: 0, len: inner });
            for (d, range) in outer.iter().enumerate().rev() {
                run.from += rest % range.len() * from[d];
                run.to += rest % range.len() * to[d];
                rest /= range.len();
            }
            run
        })
    }

    /// Memory for the part, with elements of this width, which `write` fills; the rest is zeros.
    pub(crate) fn filled(&self, width: usize, write: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Arc<HostMemory>> {
        let bytes = self.dims.iter().map(|&dim| dim as usize).product::<usize>() * width;
        let memory = HostMemory::new(bytes)?;
        // SAFETY: ours alone until it is returned.
        let target = unsafe {
            if self.is_padded() {
                std::ptr::write_bytes(memory.data(), 0, bytes);
            }
            std::slice::from_raw_parts_mut(memory.data(), bytes)
        };
        write(target)?;
        Ok(memory)
    }

    /// Its only run in an array of these dimensions; `None` if it has several.
    pub(crate) fn single_run(&self, dims: &[i64]) -> Option<Run> {
        let mut runs = self.runs(dims);
        runs.next().filter(|_| !self.is_padded() && runs.next().is_none())
    }
}

impl Buffer {
    /// A part of the buffer on a device: the buffer itself if that is all of it and on that device. Otherwise waits for
    /// the content, and copies only the part if the device shares the host's memory.
    ///
    /// # Errors
    /// `ShapeMismatch` for a range outside the array; as [`Buffer::wait`], and the plugin's own.
    pub fn share(&self, share: &Share, device: &Device) -> Result<Buffer> {
        share.check(self.dims())?;
        let is_near = device.client().plugin().path() == self.client().plugin().path();
        if is_near && share.is_full(0, self.dims()) {
            self.check_alive()?;
            return if self.device() == *device { Ok(self.clone()) } else { self.copy_to(device) };
        }
        let ready = self.wait()?;
        let strides = self.spec().strides();
        let axis = |(range, stride): (&Range<usize>, &usize)| Axis::new(range.len(), |i| (range.start + i) * stride);
        // The last dimension varies fastest on the device.
        let part = Slice::new(share.ranges.iter().zip(&strides).rev().map(axis).collect());
        let spec = Spec::new(self.dtype(), &share.dims)?;
        let mut elements = ready.read_part(&part)?;
        if share.is_padded() {
            elements = padded(&elements, share, spec.dtype)?;
        }
        Buffer::from_host(device, spec, &elements)
    }
}

/// The elements of a part, and zeros after them.
fn padded(elements: &HostMemory, share: &Share, dtype: DType) -> Result<Arc<HostMemory>> {
    let dims: Vec<i64> = share.ranges.iter().map(|range| range.len() as i64).collect();
    let plan = Plan::new(&dims, &layout::row_major(&dims), &layout::row_major(&share.dims));
    share.filled(dtype.host_bytes(), |target| match elements.is_empty() {
        true => Ok(()),
        // SAFETY: all of the elements were read, and there is room for the part.
        false => unsafe { convert::copy(dtype, &plan, elements.data(), target.as_mut_ptr()) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part between these positions along each dimension.
    fn share(bounds: &[(usize, usize)], dims: &[i64]) -> Share {
        Share { ranges: bounds.iter().map(|&(start, end)| start..end).collect(), dims: dims.into() }
    }

    fn runs(bounds: &[(usize, usize)], part: &[i64], dims: &[i64]) -> Vec<(usize, usize, usize)> {
        let share = share(bounds, part);
        share.check(dims).unwrap();
        share.runs(dims).map(|run| (run.from, run.to, run.len)).collect()
    }

    #[test]
    fn a_part_consists_of_as_few_runs_as_possible() {
        assert_eq!(runs(&[(2, 4), (0, 3)], &[2, 3], &[4, 3]), [(6, 0, 6)]);
        assert_eq!(runs(&[(0, 2), (1, 3)], &[2, 2], &[2, 4]), [(1, 0, 2), (5, 2, 2)]);
        assert_eq!(runs(&[(1, 2), (0, 2), (0, 4)], &[1, 2, 4], &[3, 2, 4]), [(8, 0, 8)]);
        assert_eq!(runs(&[(0, 2), (1, 2), (0, 4)], &[2, 1, 4], &[2, 2, 4]), [(4, 0, 4), (12, 4, 4)]);
        assert_eq!(runs(&[(1, 2), (2, 3)], &[1, 1], &[2, 3]), [(5, 0, 1)]);
        assert_eq!(runs(&[(0, 0), (0, 3)], &[2, 3], &[5, 3]), []);
        assert_eq!(runs(&[], &[], &[]), [(0, 0, 1)]);
        // With some extra room.
        assert_eq!(runs(&[(4, 5)], &[2], &[5]), [(4, 0, 1)]);
        assert_eq!(runs(&[(0, 2), (2, 3)], &[2, 2], &[2, 3]), [(2, 0, 1), (5, 2, 1)]);
    }

    #[test]
    fn one_run_and_several_are_distinguished() {
        let single = |bounds: &[(usize, usize)], part: &[i64], dims: &[i64]| {
            share(bounds, part).single_run(dims).map(|run| run.from)
        };
        assert_eq!(single(&[(2, 4), (0, 3)], &[2, 3], &[4, 3]), Some(6));
        assert_eq!(single(&[(2, 4), (0, 2)], &[2, 2], &[4, 3]), None);
        assert_eq!(single(&[(3, 4), (0, 2)], &[1, 2], &[4, 3]), Some(9));
        assert_eq!(single(&[(4, 5)], &[2], &[5]), None);
        assert_eq!(single(&[(0, 0)], &[0], &[0]), None);
    }

    #[test]
    fn parts_outside_are_refused() {
        for (bounds, part) in [((0, 3), 3), ((1, 3), 2), ((0, 2), 1)] {
            assert!(share(&[bounds], &[part]).check(&[2]).is_err());
        }
        assert!(share(&[], &[]).check(&[2]).is_err());
    }
}
