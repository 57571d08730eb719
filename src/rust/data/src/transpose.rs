//! Reordering of one dense array into another, with conversion of the elements: one pass, on several cores if that is
//! faster.
//!
//! Where the two orders differ, elements go through tiles that fit the first-level cache: each line of a tile is read
//! and converted in the order of the source, then the tile is transposed into the destination, whole cache lines at a
//! time.

mod tile;

use crate::registers::{registers, Registers};
use pjrt_base::error::Result;
use pjrt_base::parallel::processors;
use pjrt_base::process::check_interrupt_sometimes;
use smallvec::{smallvec, SmallVec};
use std::cmp::Reverse;
use tile::{columns_for, Tile, COLUMNS, ROWS};

/// Converts contiguous elements: source, destination, number. The destination has room for them.
pub type Line<'a> = &'a (dyn Fn(*const u8, *mut u8, usize) + Sync);

/// Bytes moved, in and out, for which it pays to start another thread.
const BYTES_PER_THREAD: usize = 2 << 20;

/// Bytes moved, in and out, before it is time to ask whether the user interrupts.
const BYTES_PER_TURN: usize = 16 << 20;

/// From this size in bytes on, a destination is assumed to be in no cache.
const CACHE: usize = 256 << 10;

/// So few elements are moved one by one.
const FEW: usize = 32;

/// More threads than this wait for memory, not for work.
const MAX_THREADS: usize = 8;

/// One loop of a reordering: its length, and how far it moves in the source and in the destination (elements).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    len: usize,
    src: usize,
    dst: usize,
}

/// How to walk two dense arrays of one shape in different orders; axes from slowest to fastest in the destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    axes: Axes,
}

type Axes = SmallVec<[Axis; 4]>;

/// Where both arrays begin, and the bytes of their elements.
#[derive(Clone, Copy)]
struct Ends {
    src: *const u8,
    src_width: usize,
    dst: *mut u8,
    dst_width: usize,
    /// Whether the destination is in no cache, so that stores past the caches are faster.
    stream: bool,
}

// SAFETY: threads that share them read one array and write distinct elements of the other.
unsafe impl Send for Ends {}
// SAFETY: as above.
unsafe impl Sync for Ends {}

impl Ends {
    /// The same place, further on.
    unsafe fn at(self, src: usize, dst: usize) -> Ends {
        Ends { src: self.src.add(src * self.src_width), dst: self.dst.add(dst * self.dst_width), ..self }
    }
}

impl Plan {
    /// A plan for arrays of shape `dims` whose elements lie at the given strides (in elements).
    pub fn new(dims: &[i64], src: &[usize], dst: &[usize]) -> Plan {
        let mut axes: Axes = dims
            .iter()
            .zip(src.iter().zip(dst))
            .map(|(&len, (&src, &dst))| Axis { len: len as usize, src, dst })
            .filter(|axis| axis.len != 1)
            .collect();
        axes.sort_by_key(|axis| Reverse(axis.dst));
        // Neighbours that are one run in both arrays become one axis.
        let mut merged = Axes::new();
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

    /// A plan for `len` elements that lie one after the other in both arrays.
    pub fn contiguous(len: usize) -> Plan {
        Plan { axes: smallvec![Axis { len, src: 1, dst: 1 }] }
    }

    /// Whether both arrays lie in the same order.
    pub fn is_contiguous(&self) -> bool {
        self.axes.iter().all(|axis| axis.src == 1 && axis.dst == 1)
    }

    fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// Converts every element of the source, of `src_width` bytes each, and stores it at its place in the destination,
    /// where elements have `dst_width` bytes.
    ///
    /// # Errors
    /// `Interrupted` if the user interrupts. Only the calling thread checks.
    ///
    /// # Safety
    /// Both arrays hold all elements that the plan reaches, the source's are initialized, and the arrays do not overlap.
    /// `line` stays within what it is given.
    pub unsafe fn run(
        &self,
        src: *const u8,
        src_width: usize,
        dst: *mut u8,
        dst_width: usize,
        line: Line,
    ) -> Result<()> {
        let len = self.len();
        if len == 0 {
            return Ok(());
        }
        // Portable code has no stores past the caches.
        let stream = registers() != Registers::Portable && len.saturating_mul(dst_width) >= CACHE;
        let ends = Ends { src, src_width, dst, dst_width, stream };
        if len <= FEW {
            outer(&self.axes, ends, &mut |ends| line(ends.src, ends.dst, 1));
            return Ok(());
        }
        let bytes = len.saturating_mul(src_width + dst_width);
        if bytes < 2 * BYTES_PER_THREAD {
            self.walk(ends, line);
            return Ok(());
        }
        for (turn, src, dst) in self.split(bytes / BYTES_PER_TURN) {
            check_interrupt_sometimes()?;
            turn.run_on_threads(ends.at(src, dst), line);
        }
        Ok(())
    }

    unsafe fn run_on_threads(&self, ends: Ends, line: Line) {
        let bytes = self.len().saturating_mul(ends.src_width + ends.dst_width);
        let parts = self.split((bytes / BYTES_PER_THREAD).min(processors().min(MAX_THREADS)));
        let [first, others @ ..] = parts.as_slice() else { return };
        std::thread::scope(|scope| {
            for (plan, src, dst) in others {
                let ends = ends.at(*src, *dst);
                // SAFETY: the parts are of the arrays that the caller vouches for, and do not overlap.
                let work = move || unsafe { plan.walk(ends, line) };
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    plan.walk(ends, line);
                }
            }
            first.0.walk(ends, line);
        });
    }

    /// The plan in `count` parts of about the same size, or fewer, each with where it begins in source and destination.
    fn split(&self, count: usize) -> Vec<(Plan, usize, usize)> {
        let longest = (0..self.axes.len()).max_by_key(|&k| self.axes[k].len.min(count * COLUMNS * ROWS));
        let Some(k) = longest.filter(|_| count > 1) else { return vec![(self.clone(), 0, 0)] };
        let axis = self.axes[k];
        // Whole tiles, so that threads do not share cache lines.
        let size = axis.len.div_ceil(count).next_multiple_of(ROWS);
        (0..axis.len)
            .step_by(size)
            .map(|start| {
                let mut axes = self.axes.clone();
                axes[k].len = size.min(axis.len - start);
                (Plan { axes }, start * axis.src, start * axis.dst)
            })
            .collect()
    }

    unsafe fn walk(&self, ends: Ends, line: Line) {
        match self.axes.as_slice() {
            [] => line(ends.src, ends.dst, 1),
            [axes @ .., last] if last.src == 1 && last.dst == 1 => {
                let mut tile = Tile::new();
                outer(axes, ends, &mut |ends| {
                    if ends.stream {
                        stream_line(ends, last.len, line, &mut tile);
                    } else {
                        line(ends.src, ends.dst, last.len);
                    }
                });
            }
            axes => Blocks::new(axes).walk(ends, line),
        }
        if ends.stream {
            tile::fence();
        }
    }
}

/// Converts a line piece by piece, and writes the pieces past the caches.
unsafe fn stream_line(ends: Ends, len: usize, line: Line, tile: &mut Tile) {
    const PIECE: usize = 512;
    for start in (0..len).step_by(PIECE) {
        let (piece, ends) = (PIECE.min(len - start), ends.at(start, start));
        let converted = tile.line(0, 0, ends.dst_width);
        line(ends.src, converted, piece);
        tile::stream(converted, ends.dst, piece * ends.dst_width);
    }
}

unsafe fn outer(axes: &[Axis], ends: Ends, body: &mut dyn FnMut(Ends)) {
    match axes {
        [] => body(ends),
        [axis, inner @ ..] => {
            for i in 0..axis.len {
                outer(inner, ends.at(i * axis.src, i * axis.dst), body);
            }
        }
    }
}

/// A walk in tiles: the axes along which the source is contiguous (rows), those along which the destination is (columns),
/// and all others. Rows and columns take as many axes as a tile is long, so that short axes make full tiles, too.
struct Blocks {
    rest: Vec<Axis>,
    /// From fastest to slowest in the source.
    rows: Vec<Axis>,
    /// From fastest to slowest in the destination.
    columns: Vec<Axis>,
}

impl Blocks {
    fn new(axes: &[Axis]) -> Blocks {
        let mut rest = axes.to_vec();
        // The destination's fastest axis is left for the columns.
        let rows = take_run(&mut rest, ROWS, |axis| if axis.dst == 1 { 0 } else { axis.src });
        let columns = take_run(&mut rest, COLUMNS, |axis| axis.dst);
        // Neighbours in either array follow each other soon, while their cache lines are there.
        rest.sort_by_key(|axis| Reverse(axis.src.min(axis.dst)));
        Blocks { rest, rows, columns }
    }

    unsafe fn walk(&self, ends: Ends, line: Line) {
        let mut tile = Tile::new();
        #[cfg(target_arch = "x86_64")]
        if registers() == Registers::Avx2 {
            return outer(&self.rest, ends, &mut |ends| self.panel_wide(ends, line, &mut tile));
        }
        outer(&self.rest, ends, &mut |ends| self.panel(ends, line, &mut tile));
    }

    /// [`Blocks::panel`], compiled for processors with wide registers.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn panel_wide(&self, ends: Ends, line: Line, tile: &mut Tile) {
        self.panel(ends, line, tile);
    }

    /// Moves all rows and columns at one place of the other axes.
    #[inline(always)]
    unsafe fn panel(&self, ends: Ends, line: Line, tile: &mut Tile) {
        let (row_count, column_count) = (total(&self.rows), total(&self.columns));
        let most = columns_for(ends.dst_width);
        let mut row_places = [0; ROWS];
        let (mut column_places, mut next_places) = ([0; COLUMNS], [0; COLUMNS]);
        for row in (0..row_count).step_by(ROWS) {
            let rows = ROWS.min(row_count - row);
            places(&self.rows, row, &mut row_places[..rows], |axis| axis.dst * ends.dst_width);
            let from = ends.src.add(row * ends.src_width);
            places(&self.columns, 0, &mut next_places[..most.min(column_count)], |a| a.src * ends.src_width);
            for column in (0..column_count).step_by(most) {
                // The rows are contiguous in the source, the columns in the destination.
                let to = ends.dst.add(column * ends.dst_width);
                let columns = most.min(column_count - column);
                std::mem::swap(&mut column_places, &mut next_places);
                let next = most.min(column_count - column - columns);
                places(&self.columns, column + columns, &mut next_places[..next], |a| a.src * ends.src_width);
                for place in &row_places[..rows] {
                    if !(ends.stream && tile::can_stream(to.add(*place))) {
                        tile::prefetch::<true>(to.add(*place), columns * ends.dst_width);
                    }
                }
                let pitch = if is_run(&column_places[..columns], rows * ends.src_width) {
                    line(from.add(column_places[0]), tile.line(0, rows, ends.dst_width), rows * columns);
                    rows
                } else {
                    for c in 0..columns {
                        if c < next {
                            tile::prefetch::<false>(from.add(next_places[c]), rows * ends.src_width);
                        }
                        line(from.add(column_places[c]), tile.line(c, ROWS, ends.dst_width), rows);
                    }
                    ROWS
                };
                tile.transpose_into(to, &row_places[..rows], columns, pitch, ends.dst_width, ends.stream);
            }
        }
    }
}

fn total(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.len).product()
}

/// Whether places follow each other at this distance.
fn is_run(places: &[usize], distance: usize) -> bool {
    places.windows(2).all(|pair| pair[1] == pair[0] + distance)
}

/// Takes the axes out of `axes` that make one run of at least `wanted` elements from stride 1 on, or of fewer if no axis
/// continues it.
fn take_run(axes: &mut Vec<Axis>, wanted: usize, stride: impl Fn(&Axis) -> usize) -> Vec<Axis> {
    let mut run: Vec<Axis> = Vec::new();
    while total(&run) < wanted {
        let next = total(&run);
        let Some(k) = axes.iter().position(|axis| stride(axis) == next) else { break };
        run.push(axes.remove(k));
    }
    run
}

/// Where elements number `start` and following of a run of axes lie, by the strides of the other array.
#[inline(always)]
fn places(run: &[Axis], start: usize, out: &mut [usize], stride: impl Fn(&Axis) -> usize) {
    let mut rest = start;
    let mut place = 0;
    let mut index: SmallVec<[usize; 8]> = SmallVec::new();
    for axis in run {
        index.push(rest % axis.len);
        place += rest % axis.len * stride(axis);
        rest /= axis.len;
    }
    for out in out {
        *out = place;
        for (axis, index) in run.iter().zip(&mut index) {
            *index += 1;
            place += stride(axis);
            if *index < axis.len {
                break;
            }
            *index = 0;
            place -= axis.len * stride(axis);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{column_major, row_major, strides};

    /// Walks every index in order, without tiles or merging.
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

    fn double(src: *const u8, dst: *mut u8, len: usize) {
        for i in 0..len {
            // SAFETY: the plan calls this with `len` elements in both arrays.
            unsafe { dst.cast::<u64>().add(i).write(u64::from(src.cast::<u32>().add(i).read()) * 2) };
        }
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
            &[3, 200],
            &[2, 3, 4],
            &[40, 1, 37],
            &[3, 34, 2, 35],
            &[10, 10, 20, 20],
            &[2, 3, 1, 2, 3, 2, 2],
            &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2],
            &[1, 50, 1, 41],
            &[1000, 700],
            &[1001, 703],
            &[700_001],
            &[2000, 10],
            &[10, 2000],
            // nothing to move, however long its other dimensions are
            &[1 << 52, 0],
            &[0, 1 << 52],
            &[1 << 40, 3, 0],
        ];
        for dims in shapes {
            let n: i64 = dims.iter().product();
            let data: Vec<u32> = (0..n as u32).collect();
            let mixed = strides(dims, (0..dims.len()).step_by(2).chain((1..dims.len()).step_by(2)));
            for (from, to) in [
                (column_major(dims), row_major(dims)),
                (row_major(dims), column_major(dims)),
                (row_major(dims), row_major(dims)),
                (mixed.clone(), row_major(dims)),
                (column_major(dims), mixed),
            ] {
                let mut out = vec![0u64; data.len()];
                let plan = Plan::new(dims, &from, &to);
                // SAFETY: `out` is as long as `data`.
                unsafe { plan.run(data.as_ptr().cast(), 4, out.as_mut_ptr().cast(), 8, &double).unwrap() };
                assert!(out == reference(dims, &from, &to, &data), "{dims:?}");
            }
        }
    }

    #[test]
    fn elements_of_every_width_find_their_places() {
        for width in [1usize, 2, 4, 8, 16] {
            let dims = [67, 41];
            let n = 67 * 41;
            let data: Vec<u8> = (0..n * width).map(|i| (i / width * 7 + i % width * 31) as u8).collect();
            // SAFETY: the plan calls this with `len` elements in both arrays.
            let copy = |src: *const u8, dst: *mut u8, len: usize| unsafe {
                std::ptr::copy_nonoverlapping(src, dst, len * width);
            };
            let mut out = vec![0u128; n];
            let plan = Plan::new(&dims, &column_major(&dims), &row_major(&dims));
            // SAFETY: `out` has at least as many bytes as `data`.
            unsafe { plan.run(data.as_ptr(), width, out.as_mut_ptr().cast(), width, &copy).unwrap() };
            // SAFETY: `out` has at least `n * width` bytes.
            let out: &[u8] = unsafe { std::slice::from_raw_parts(out.as_ptr().cast(), n * width) };
            for i in 0..67 {
                for j in 0..41 {
                    let (s, d) = ((i + 67 * j) * width, (j + 41 * i) * width);
                    assert_eq!(out[d..d + width], data[s..s + width], "width {width}, element {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn parts_of_a_plan_are_the_whole() {
        for dims in [&[1000i64, 700][..], &[700_000], &[2, 2, 2, 2], &[3, 1000, 5]] {
            let plan = Plan::new(dims, &column_major(dims), &row_major(dims));
            for count in [0, 1, 2, 3, 8] {
                let parts = plan.split(count);
                assert!(parts.len() <= count.max(1));
                assert_eq!(parts.iter().map(|(part, ..)| part.len()).sum::<usize>(), plan.len());
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
