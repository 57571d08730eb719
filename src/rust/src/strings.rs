//! Character vectors with many elements.
//!
//! R keeps the strings of a session in one hash table, and looks each new one up there. With a million strings, each
//! look-up waits for memory. If strings are created part by part of that table, they find it and each other in the
//! cache: a million take 0.2 s instead of 0.33 s, and the first million of a session 0.5 s instead of 0.8 s. The place of
//! a string in the table is a guess at R's internals, which affects only the time.

use crate::sexp;
use extendr_ffi::*;
use pjrt_base::parallel::processors;
use pjrt_base::process::check_interrupt_now_and_then;
use pjrt_base::room;
use pjrt_data::literal::Formatter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The number of elements whose strings are created together; their text is in memory meanwhile.
const BATCH: usize = 1 << 20;

/// The most bytes for an element's text and bookkeeping, with room to grow.
const TEXT: usize = 128;

/// The number of elements worth a thread.
const SHARE: usize = 1 << 15;

/// Parts of R's table: each fits the cache together with its strings.
const PARTS: usize = 256;

/// Neighbouring slots of the table in one part, in runs short enough for tables of any size.
const RUN: usize = 1 << 10;

/// Elements to write before the next check for interrupts.
const ELEMENTS_PER_LOOK: usize = 1024;

/// How many strings ahead their slot in the vector is fetched into the cache.
const AHEAD: usize = 8;

/// The texts for one part of the table.
struct Span {
    text: String,
    /// For each text the position of its element and its end in `text`.
    ends: Vec<(u32, u32)>,
}

impl Span {
    fn with_capacity(texts: usize) -> Self {
        Span { text: String::with_capacity(16 * texts), ends: Vec::with_capacity(texts) }
    }
}

/// Fills a character vector with the texts of `elements`, which are `width` bytes each; several threads write them.
/// Returns false without enough memory.
///
/// # Errors
/// `Interrupted` if the user interrupts.
pub fn fill(out: SEXP, formatter: &Formatter, elements: &[u8], width: usize) -> pjrt_base::error::Result<bool> {
    let mut first = 0;
    for batch in elements.chunks(BATCH * width) {
        if room::check_room(TEXT * batch.len() / width, "").is_err() {
            return Ok(false);
        }
        let shares = write(formatter, batch, width)?;
        for part in 0..shares.iter().map(Vec::len).max().unwrap_or(0) {
            check_interrupt_now_and_then()?;
            let made = sexp::guarded(|| {
                // SAFETY: the vector is as long as there are elements.
                shares.iter().filter_map(|share| share.get(part)).for_each(|part| unsafe { make(out, first, part) });
            })?;
            if !made {
                return Ok(false);
            }
        }
        first += BATCH;
    }
    Ok(true)
}

/// The texts of a batch by part of the table, from each thread that wrote some.
///
/// # Errors
/// `Interrupted` if the user interrupts.
fn write(formatter: &Formatter, batch: &[u8], width: usize) -> pjrt_base::error::Result<Vec<Vec<Span>>> {
    let len = batch.len() / width;
    let threads = processors().min(len.div_ceil(SHARE));
    let share = len.div_ceil(threads);
    let is_unwanted = &AtomicBool::new(false);
    let work = |thread: usize| {
        let mut formatter = formatter.clone();
        let count = if len < SHARE { 1 } else { PARTS };
        let mut parts: Vec<Span> = (0..count).map(|_| Span::with_capacity(share * 5 / 4 / count)).collect();
        let elements = batch.chunks_exact(width).enumerate().skip(thread * share).take(share);
        for (position, element) in elements {
            if position % ELEMENTS_PER_LOOK == 0 {
                if is_unwanted.load(Ordering::Relaxed) {
                    break;
                }
                // Only R's thread can check for interrupts.
                check_interrupt_now_and_then().inspect_err(|_| is_unwanted.store(true, Ordering::Relaxed))?;
            }
            let text = formatter.text(element);
            let part = &mut parts[slot(text) / RUN % count];
            part.text.push_str(text);
            part.ends.push((position as u32, part.text.len() as u32));
        }
        Ok(parts)
    };
    thread::scope(|scope| {
        let spawn = |thread| thread::Builder::new().spawn_scoped(scope, move || work(thread));
        let helpers: Vec<_> = (1..threads).map(spawn).collect();
        let mut shares = vec![work(0)?];
        for (thread, helper) in (1..).zip(helpers) {
            let written = helper.ok().and_then(|helper| helper.join().ok());
            shares.push(written.unwrap_or_else(|| work(thread))?);
        }
        Ok(shares)
    })
}

/// The slot of a string in R's table, except for the table's size: R's own hash.
fn slot(text: &str) -> usize {
    text.bytes().fold(5381, |hash: usize, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

/// Creates the strings of a part of the batch that begins at position `first`.
///
/// # Safety
/// `out` is a character vector that holds the batch.
unsafe fn make(out: SEXP, first: usize, part: &Span) {
    let mut start = 0;
    for (i, &(position, end)) in part.ends.iter().enumerate() {
        if let Some(&(later, _)) = part.ends.get(i + AHEAD) {
            prefetch(STRING_PTR_RO(out).wrapping_add(first + later as usize));
        }
        // Digits, signs and letters: valid in every encoding.
        let text = part.text.get(start..end as usize).unwrap_or_default();
        let string = Rf_mkCharLenCE(text.as_ptr().cast(), text.len() as i32, cetype_t::CE_UTF8);
        SET_STRING_ELT(out, (first + position as usize) as R_xlen_t, string);
        start = end as usize;
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch<T>(address: *const T) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    // SAFETY: has an effect on time only, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch<T>(_: *const T) {}
