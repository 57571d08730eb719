//! What speaks R: its objects, handles of ours in it, conditions, memory that it shares, and what it does while it waits. Must
//! not know what the handles own.

pub mod sexp;

#[macro_use]
pub mod handle;

pub mod conditions;
pub mod describe;
pub mod entry;
pub mod idle;
pub mod jumps;
pub mod lists;
pub mod pins;
pub mod pooled;
pub mod progress;
pub mod typed;
