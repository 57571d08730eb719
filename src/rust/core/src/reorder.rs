//! Reordering of one dense array into another, with each element converted on its way: one pass, in blocks that
//! fit the cache.

use std::cmp::Reverse;

/// Side of a block, in elements: rows of two blocks of doubles stay in the first-level cache.
const BLOCK: usize = 32;

/// One loop of a reordering: its length, and how far it moves in the source and in the destination (elements).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    len: usize,
    src: usize,
    dst: usize,
}

/// How to walk two dense arrays of one shape that lie in different orders; axes from slowest to fastest in the destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    axes: Vec<Axis>,
}

impl Plan {
    /// A plan for arrays of shape `dims` whose elements lie at the given strides (in elements).
    pub fn new(dims: &[i64], src: &[usize], dst: &[usize]) -> Plan {
        let mut axes: Vec<Axis> = dims
            .iter()
            .zip(src.iter().zip(dst))
            .map(|(&len, (&src, &dst))| Axis { len: len as usize, src, dst })
            .filter(|axis| axis.len != 1)
            .collect();
        axes.sort_by_key(|axis| Reverse(axis.dst));
        // Neighbours that are one run in both arrays become one axis.
        let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
        for axis in axes {
            match merged.last_mut() {
                Some(outer) if outer.dst == axis.len * axis.dst && outer.src == axis.len * axis.src => {
                    *outer = Axis { len: outer.len * axis.len, ..axis };
                }
                _ => merged.push(axis),
            }
        }
        Plan { axes: merged }
    }

    /// Whether both arrays lie in the same order.
    pub fn is_contiguous(&self) -> bool {
        self.axes.iter().all(|axis| axis.src == 1 && axis.dst == 1)
    }

    /// Writes `convert(source element)` to every destination element.
    ///
    /// # Safety
    /// Both arrays hold all elements that the plan reaches, the source's are initialized, and the arrays do not overlap.
    pub unsafe fn run<S: Copy, D>(&self, src: *const S, dst: *mut D, convert: impl Fn(S) -> D + Copy) {
        match self.axes.as_slice() {
            [] => dst.write(convert(src.read())),
            [axes @ .., last] if last.src == 1 && last.dst == 1 => {
                outer(axes, src, dst, &mut |s, d| run_line(s, d, last.len, convert));
            }
            axes => {
                let (rest, row, column) = split(axes);
                outer(&rest, src, dst, &mut |s, d| run_blocks(s, d, row, column, convert));
            }
        }
    }
}

/// The axes that are fastest in the source (`row`) and in the destination (`column`), and all others.
fn split(axes: &[Axis]) -> (Vec<Axis>, Axis, Axis) {
    let single = Axis { len: 1, src: 0, dst: 0 };
    let mut rest = axes.to_vec();
    let column = rest.pop().unwrap_or(single);
    let fastest = rest.iter().enumerate().min_by_key(|(_, axis)| axis.src).map(|(i, _)| i);
    let row = fastest.map_or(single, |i| rest.remove(i));
    (rest, row, column)
}

unsafe fn outer<S, D>(axes: &[Axis], src: *const S, dst: *mut D, body: &mut impl FnMut(*const S, *mut D)) {
    match axes {
        [] => body(src, dst),
        [axis, inner @ ..] => {
            for i in 0..axis.len {
                outer(inner, src.add(i * axis.src), dst.add(i * axis.dst), body);
            }
        }
    }
}

#[inline]
unsafe fn run_line<S: Copy, D>(src: *const S, dst: *mut D, len: usize, convert: impl Fn(S) -> D) {
    for i in 0..len {
        dst.add(i).write(convert(src.add(i).read()));
    }
}

#[inline]
unsafe fn run_blocks<S: Copy, D>(src: *const S, dst: *mut D, row: Axis, column: Axis, convert: impl Fn(S) -> D + Copy) {
    for r0 in (0..row.len).step_by(BLOCK) {
        let rows = BLOCK.min(row.len - r0);
        for c0 in (0..column.len).step_by(BLOCK) {
            let columns = BLOCK.min(column.len - c0);
            for r in r0..r0 + rows {
                let s = src.add(r * row.src);
                let d = dst.add(r * row.dst);
                for c in c0..c0 + columns {
                    d.add(c * column.dst).write(convert(s.add(c * column.src).read()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{column_major, row_major};

    /// Walks every index in order, without blocks or merging.
    fn reference(dims: &[i64], src: &[usize], dst: &[usize], data: &[u32]) -> Vec<u64> {
        let mut out = vec![0; data.len()];
        for i in 0..data.len() {
            let (mut rest, mut s, mut d) = (i, 0, 0);
            for k in 0..dims.len() {
                let index = rest % dims[k] as usize;
                rest /= dims[k] as usize;
                s += index * src[k];
                d += index * dst[k];
            }
            out[d] = u64::from(data[s]) * 2;
        }
        out
    }

    #[test]
    fn every_shape_is_reordered_as_index_by_index() {
        let shapes: &[&[i64]] = &[
            &[],
            &[7],
            &[1, 1],
            &[5, 1],
            &[33, 65],
            &[64, 3],
            &[2, 3, 4],
            &[40, 1, 37],
            &[3, 34, 2, 35],
            &[2, 3, 1, 2, 3, 2, 2],
            &[1, 50, 1, 41],
        ];
        for dims in shapes {
            let n: i64 = dims.iter().product();
            let data: Vec<u32> = (0..n as u32).collect();
            for (from, to) in [
                (column_major(dims), row_major(dims)),
                (row_major(dims), column_major(dims)),
                (row_major(dims), row_major(dims)),
            ] {
                let mut out = vec![0u64; data.len()];
                let plan = Plan::new(dims, &from, &to);
                unsafe { plan.run(data.as_ptr(), out.as_mut_ptr(), |x| u64::from(x) * 2) };
                assert_eq!(out, reference(dims, &from, &to, &data), "{dims:?}");
            }
        }
    }

    #[test]
    fn vectors_and_thin_matrices_need_no_reordering() {
        for dims in [&[5i64][..], &[5, 1], &[1, 5], &[1, 1, 9, 1]] {
            assert!(Plan::new(dims, &column_major(dims), &row_major(dims)).is_contiguous());
        }
        assert!(!Plan::new(&[2, 2], &column_major(&[2, 2]), &row_major(&[2, 2])).is_contiguous());
    }
}
