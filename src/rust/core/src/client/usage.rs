//! What a client's objects use: counts, which everything may read at any time.

use crate::client::history::{History, Span};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts of a client's objects and of their bytes.
#[derive(Debug, Default)]
pub struct Usage {
    live_buffers: AtomicUsize,
    live_bytes: AtomicUsize,
    live_executables: AtomicUsize,
    new_bytes: AtomicUsize,
    history: History,
}

impl Usage {
    /// Adds a new buffer.
    pub(crate) fn add_buffer(&self, bytes: usize) {
        self.live_buffers.fetch_add(1, Ordering::Relaxed);
        self.history.rose(self.live_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
        self.add_new_bytes(bytes);
    }

    /// Subtracts a dead buffer.
    pub(crate) fn subtract_buffer(&self, bytes: usize) {
        self.live_buffers.fetch_sub(1, Ordering::Relaxed);
        self.history.fell(self.live_bytes.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes));
    }

    pub(crate) fn add_executable(&self) {
        self.live_executables.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn subtract_executable(&self) {
        self.live_executables.fetch_sub(1, Ordering::Relaxed);
    }

    /// The live buffers: neither dropped nor donated.
    pub fn live_buffers(&self) -> usize {
        self.live_buffers.load(Ordering::Relaxed)
    }

    /// Bytes of the live buffers.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// The live bytes over time, up to now, and how long ago the client was created.
    pub fn history(&self) -> (Vec<Span>, Duration) {
        self.history.spans(self.live_bytes())
    }

    /// The number of loaded executables.
    pub fn live_executables(&self) -> usize {
        self.live_executables.load(Ordering::Relaxed)
    }

    /// Bytes of the buffers, and of copies of them, created since [`Usage::reset_new_bytes`].
    pub fn new_bytes(&self) -> usize {
        self.new_bytes.load(Ordering::Relaxed)
    }

    /// Adds to the bytes that the owner does not know.
    pub fn add_new_bytes(&self, bytes: usize) {
        self.new_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the bytes of a new buffer from those that the owner does not know.
    pub fn subtract_new_bytes(&self, bytes: usize) {
        let less = |new: usize| Some(new.saturating_sub(bytes));
        // The closure always returns a value.
        let _ = self.new_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Resets the count. Call it after a garbage collection.
    pub fn reset_new_bytes(&self) {
        self.new_bytes.store(0, Ordering::Relaxed);
    }
}
