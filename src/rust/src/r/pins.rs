//! R vectors whose memory a device uses: protected from R's garbage collector until the device is done with them.
//!
//! A device may finish on any thread, at any time. Only R's main thread releases the vector: at once if the device
//! finishes there, as when a buffer is collected, and at the next call otherwise. The same holds for memory of other
//! packages, which may be theirs to release on that thread only.

use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::error::Result;
use pjrt_base::process;
use pjrt_base::sync::Unpoisoned;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// Slots of the table that devices are done with and that are not free yet.
static RELEASED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// What else waits to be dropped on the main thread.
static OTHERS: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
static ANY_RELEASED: AtomicBool = AtomicBool::new(false);

/// The vectors in use: an R list that R keeps, and its free slots.
struct Table {
    list: SEXP,
    len: usize,
    free: Vec<usize>,
}

thread_local! {
    /// Filled on R's main thread only.
    static TABLE: RefCell<Table> = const { RefCell::new(Table { list: std::ptr::null_mut(), len: 0, free: Vec::new() }) };
}

/// Reserves a slot for one more vector. R may leave this by a long jump, so call it before you own anything.
pub fn reserve() {
    let (list, len, full) = TABLE.with_borrow(|t| (t.list, t.len, t.free.is_empty()));
    if !full {
        return;
    }
    let grown = Protected::new(sexp::vector(SEXPTYPE::VECSXP, (2 * len).max(64)));
    sexp::preserve(grown.sexp());
    if TABLE.with_borrow(|t| t.list) != list {
        // A finalizer that R ran meanwhile has freed a slot.
        sexp::release(grown.sexp());
        return reserve();
    }
    if !list.is_null() {
        sexp::elements(list).enumerate().for_each(|(i, vector)| sexp::set_at(grown.sexp(), i, vector));
        sexp::release(list);
    }
    TABLE.with_borrow_mut(|t| {
        t.list = grown.sexp();
        t.len = sexp::len(grown.sexp());
        t.free.extend(len..t.len);
    });
}

/// A kept vector. Dropped when a device is done with it: on any thread, also while R collects garbage.
pub struct Pin(usize);

impl Drop for Pin {
    fn drop(&mut self) {
        let done = TABLE.try_with(|table| match table.try_borrow_mut() {
            Ok(mut table) if !table.list.is_null() => {
                table.let_go(self.0);
                true
            }
            _ => false,
        });
        if done != Ok(true) {
            RELEASED.lock().unpoisoned().push(self.0);
            ANY_RELEASED.store(true, Ordering::Release);
        }
    }
}

/// Keeps a vector, which R then never changes in place. There must be room, made by [`reserve`].
///
/// # Errors
/// `Internal` where there is no room.
pub fn pin(vector: SEXP) -> Result<Pin> {
    TABLE.with_borrow_mut(|t| {
        let Some(place) = t.free.pop() else { bail!(Internal, "There is no room to keep a vector.") };
        // SAFETY: only sets a mark of an R value.
        unsafe { MARK_NOT_MUTABLE(vector) };
        sexp::set_at(t.list, place, vector);
        Ok(Pin(place))
    })
}

impl Table {
    fn let_go(&mut self, place: usize) {
        // Allocates nothing, so it may happen while R collects garbage.
        sexp::set_at(self.list, place, sexp::nil());
        self.free.push(place);
    }
}

/// Drops a value on the main thread, at the next call. Never now: R may be collecting garbage.
pub fn drop_later(value: impl Any + Send) {
    OTHERS.lock().unpoisoned().push(Box::new(value));
    ANY_RELEASED.store(true, Ordering::Release);
}

/// Releases what devices finished with on other threads. Call it on the main thread.
pub fn drain() {
    if ANY_RELEASED.load(Ordering::Relaxed) && ANY_RELEASED.swap(false, Ordering::AcqRel) {
        let released = process::lock(&RELEASED).map(|mut released| std::mem::take(&mut *released)).unwrap_or_default();
        TABLE.with_borrow_mut(|table| released.into_iter().for_each(|place| table.let_go(place)));
        let others = process::lock(&OTHERS).map(|mut others| std::mem::take(&mut *others)).unwrap_or_default();
        drop(others);
    }
}

/// The number of kept vectors.
pub fn count() -> usize {
    TABLE.with_borrow(|t| t.len - t.free.len())
}
