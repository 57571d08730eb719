//! A tile: lines of elements as they come from one array, and their transposition into another.

use crate::registers::{registers, Registers};
use std::mem::MaybeUninit;

/// Elements of a line: what is read at once from the source.
pub const ROWS: usize = 64;

/// Most lines of a tile.
pub const COLUMNS: usize = 256;

/// Bytes that are written at once to a row of the destination, about: some cache lines. Few of them are written in part.
const ROW_BYTES: usize = 512;

/// Lines of a tile of elements of `width` bytes.
pub fn columns_for(width: usize) -> usize {
    (ROW_BYTES / width).min(COLUMNS)
}

/// Room for a tile of elements of any width.
#[repr(C, align(64))]
pub struct Tile([MaybeUninit<u8>; ROWS * ROW_BYTES]);

impl Tile {
    pub fn new() -> Tile {
        Tile([MaybeUninit::uninit(); ROWS * ROW_BYTES])
    }

    /// Where line number `column` begins, for elements of `width` bytes and lines that are `pitch` elements apart.
    #[inline(always)]
    pub fn line(&mut self, column: usize, pitch: usize, width: usize) -> *mut u8 {
        debug_assert!(column < columns_for(width) && pitch <= ROWS);
        self.0[column * pitch * width..].as_mut_ptr().cast()
    }

    /// Writes the first elements of all lines to byte `row_places[0]` of `dst`, the second ones to `row_places[1]`, and so
    /// on; past the caches if `stream` is set, which a [`fence`] has to follow.
    ///
    /// # Safety
    /// `columns` lines of as many elements as there are places are filled, and `dst` has room for each row of them.
    #[inline(always)]
    pub unsafe fn transpose_into(
        &self,
        dst: *mut u8,
        row_places: &[usize],
        columns: usize,
        pitch: usize,
        width: usize,
        stream: bool,
    ) {
        let start = self.0.as_ptr().cast();
        // Two copies of the code: with the usual pitch, places in the tile are known when it is compiled.
        if pitch == ROWS {
            transpose(Lines { start, pitch: ROWS }, dst, row_places, columns, width, stream);
        } else {
            transpose(Lines { start, pitch }, dst, row_places, columns, width, stream);
        }
    }
}

#[inline(always)]
unsafe fn transpose(lines: Lines, dst: *mut u8, row_places: &[usize], columns: usize, width: usize, stream: bool) {
    match width {
        1 => by_squares::<u8, 16>(lines, dst, row_places, columns, stream, square_of_bytes),
        2 => by_squares::<u16, 8>(lines, dst, row_places, columns, stream, square_of_words),
        4 => by_squares::<u32, 4>(lines, dst, row_places, columns, stream, square_of_doublewords),
        8 => by_squares::<u64, 2>(lines, dst, row_places, columns, stream, square_of_quadwords),
        _ => by_squares::<[u64; 2], 1>(lines, dst, row_places, columns, stream, square_of_pairs),
    }
}

/// Lines of elements, `pitch` of them apart.
#[derive(Clone, Copy)]
struct Lines {
    start: *const u8,
    pitch: usize,
}

impl Lines {
    /// The element at a place of a line.
    #[inline(always)]
    unsafe fn at<T>(self, line: usize, place: usize) -> *const T {
        self.start.cast::<T>().add(line * self.pitch + place)
    }
}

/// Transposes `N` lines, from `column` on, at place `row` of each, into rows at byte places of a destination.
type Square = unsafe fn(lines: Lines, column: usize, row: usize, dst: *mut u8, row_places: &[usize], stream: bool);

#[inline(always)]
unsafe fn by_squares<T: Copy, const N: usize>(
    lines: Lines,
    dst: *mut u8,
    row_places: &[usize],
    columns: usize,
    stream: bool,
    square: Square,
) {
    let whole = if registers() == Registers::Portable { 0 } else { columns / N * N };
    let (squares, rest) = row_places.split_at(row_places.len() / N * N);
    for (i, places) in squares.chunks_exact(N).enumerate() {
        for column in (0..whole).step_by(N) {
            square(lines, column, i * N, dst.cast::<T>().add(column).cast(), places, stream);
        }
    }
    one_by_one::<T>(lines, dst, squares, whole..columns);
    let below = Lines { start: lines.at::<T>(0, squares.len()).cast(), ..lines };
    one_by_one::<T>(below, dst, rest, 0..columns);
}

#[inline(always)]
unsafe fn one_by_one<T: Copy>(lines: Lines, dst: *mut u8, row_places: &[usize], columns: std::ops::Range<usize>) {
    for (row, &place) in row_places.iter().enumerate() {
        let to = dst.add(place).cast::<T>();
        for column in columns.clone() {
            to.add(column).write_unaligned(lines.at::<T>(column, row).read_unaligned());
        }
    }
}

/// Defines the transposition of a square that fills registers of 16 bytes: interleaving the upper half of the lines with
/// the lower half, once for each bit of the line's number, brings every element to its place.
macro_rules! square {
    ($name:ident, $type:ty, $n:literal, $low:ident, $high:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn $name(lines: Lines, column: usize, row: usize, dst: *mut u8, row_places: &[usize], stream: bool) {
            use std::arch::x86_64::*;
            // Plain loops: adapters of arrays and iterators are calls where the compiler puts them into another unit.
            let mut square = [_mm_setzero_si128(); $n];
            let mut i = 0;
            while i < $n {
                square[i] = _mm_loadu_si128(lines.at::<$type>(column + i, row).cast());
                i += 1;
            }
            for _ in 0..$n.ilog2() {
                let before = square;
                i = 0;
                while i < $n {
                    let (a, b) = (before[i / 2], before[i / 2 + $n / 2]);
                    square[i] = if i % 2 == 0 { $low(a, b) } else { $high(a, b) };
                    i += 1;
                }
            }
            i = 0;
            while i < $n {
                let (line, place) = (square[i], row_places[i]);
                i += 1;
                let to: *mut __m128i = dst.add(place).cast();
                if stream && can_stream(to.cast()) {
                    _mm_stream_si128(to, line);
                } else {
                    _mm_storeu_si128(to, line);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unsafe fn $name(_: Lines, _: usize, _: usize, _: *mut u8, _: &[usize], _: bool) {}
    };
}

square!(square_of_bytes, u8, 16usize, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
square!(square_of_words, u16, 8usize, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
square!(square_of_doublewords, u32, 4usize, _mm_unpacklo_epi32, _mm_unpackhi_epi32);
square!(square_of_quadwords, u64, 2usize, _mm_unpacklo_epi64, _mm_unpackhi_epi64);
square!(square_of_pairs, [u64; 2], 1usize, _mm_unpacklo_epi64, _mm_unpackhi_epi64);

/// Hints to the processor that bytes are soon read, or written to.
#[inline(always)]
pub fn prefetch<const WRITE: bool>(start: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..len).step_by(64) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0, _MM_HINT_T0};
        // SAFETY: no more than a hint.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(start.wrapping_add(offset).cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}

/// Whether stores to this address can go past the caches.
#[inline(always)]
pub fn can_stream(to: *const u8) -> bool {
    to as usize % 16 == 0
}

/// Copies bytes past the caches where that is possible; a [`fence`] has to follow.
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn stream(src: *const u8, dst: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = dst.align_offset(size_of::<__m128i>()).min(len);
        let whole = (len - head) / 16 * 16;
        std::ptr::copy_nonoverlapping(src, dst, head);
        for offset in (head..head + whole).step_by(16) {
            _mm_stream_si128(dst.add(offset).cast(), _mm_loadu_si128(src.add(offset).cast()));
        }
        let done = head + whole;
        std::ptr::copy_nonoverlapping(src.add(done), dst.add(done), len - done);
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::ptr::copy_nonoverlapping(src, dst, len);
}

/// Makes what was streamed visible to all threads.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: of all x86-64 processors.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
