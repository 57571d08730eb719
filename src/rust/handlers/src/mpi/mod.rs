//! Collectives between processes, over MPI.
//!
//! A handler describes the call, queues it for the thread that communicates, and returns at once. Every process must queue the
//! same calls in the same order. Three rules make that certain:
//! * [`check`] refuses a program in which two calls could swap: each needs a result of the one before. Arrays that only order
//!   calls are tickets.
//! * A [`Turn`] keeps programs apart: the next one that communicates starts when the one before is complete, in launch order.
//! * Calls are run in the order in which they were queued.

mod handlers;

pub(super) use handlers::TARGETS;

use pjrt_base::callbacks;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use pjrt_base::sync::Unpoisoned;
use pjrt_ir::hlo::{HloModuleProto, Unordered};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

pub use pjrt_mpi::world::{facts, World};
pub use pjrt_mpi::Family;

/// What the targets begin with.
const PREFIX: &str = "pjrt_mpi_";

/// Whether a custom call communicates.
pub fn is_target(target: &str) -> bool {
    target.starts_with(PREFIX)
}

/// Checks that a compiled program runs its calls in one order only, and on one device.
///
/// # Errors
/// `UnsupportedProgram`.
pub fn check(module: &HloModuleProto, devices: usize) -> Result<()> {
    let error = |message: String| Err(Error::new(Kind::UnsupportedProgram, message));
    if devices > 1 && module.foreign_functions().any(is_target) {
        return error("A program that communicates over MPI must be for one device.".into());
    }
    match module.check_order(is_target) {
        Ok(()) => Ok(()),
        Err(Unordered::Independent(one, other)) => {
            let message = format!(
                "The order of two calls of MPI is undefined: `{one}` and `{other}` do not depend on each other."
            );
            let error = Error::new(Kind::UnsupportedProgram, message);
            Err(error.hint("Processes that run them in different orders would wait for each other for ever.").hint(
                "Add `ticket = true` to the calls, and pass the last result of each as the last operand of the next.",
            ))
        }
        Err(Unordered::Nested(name)) => error(format!(
            "The program communicates in the condition of the loop `{name}`, or in a function that `{name}` uses, \
             where the order is undefined."
        )),
    }
}

/// The programs that communicate, one after the other.
struct Turns {
    /// The next number to give.
    next: u64,
    /// The numbers that are done, from the first that is not.
    first: u64,
    done: Vec<u64>,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { next: 0, first: 0, done: Vec::new() });
static CHANGED: Condvar = Condvar::new();

/// A place in the order of programs, from launch until completion.
#[derive(Debug)]
pub struct Turn {
    number: u64,
    generation: u32,
}

impl Turn {
    /// The next place.
    pub fn next() -> Turn {
        let mut turns = TURNS.lock().unpoisoned();
        turns.next += 1;
        Turn { number: turns.next - 1, generation: process::generation() }
    }

    /// Waits until all before are done.
    pub fn wait(&self) {
        drop(CHANGED.wait_while(TURNS.lock().unpoisoned(), |turns| turns.first < self.number));
    }
}

/// Initializes MPI, or joins it, as [`pjrt_mpi::world::start`] does, and ends it at exit.
///
/// # Errors
/// As [`pjrt_mpi::world::start`].
pub fn start(named: Option<&Path>) -> Result<(World, PathBuf)> {
    let started = pjrt_mpi::world::start(named)?;
    process::watch_ending(end);
    Ok(started)
}

/// Ends the communication when all programs that communicate are complete. Runs on the host's thread.
///
/// # Errors
/// MPI's own, and `Interrupted`.
pub fn finish() -> Result<()> {
    if facts().is_none() {
        return Ok(());
    }
    while !are_complete() {
        callbacks::serve()?;
    }
    pjrt_mpi::world::finish()
}

/// Whether all programs that communicate are complete, after a moment of waiting for them.
fn are_complete() -> bool {
    let turns = TURNS.lock().unpoisoned();
    let turns =
        CHANGED.wait_timeout_while(turns, Duration::from_millis(1), |turns| turns.first < turns.next).unpoisoned().0;
    turns.first == turns.next
}

/// The end of the process. If it fails, others may wait for it for ever: it leaves without a word, and the launcher ends them.
/// So it does where the C library does not tell the status.
fn end(status: Option<i32>) {
    match (facts(), status) {
        // Who initialized MPI ends it.
        (Some(facts), _) if facts.is_joined => {}
        (Some(_), Some(0)) => {
            while !are_complete() {}
            let _ = pjrt_mpi::world::finish();
        }
        (Some(facts), Some(status)) if facts.size > 1 => process::leave(status),
        _ => {}
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.generation != process::generation() {
            return;
        }
        let mut turns = TURNS.lock().unpoisoned();
        turns.done.push(self.number);
        while let Some(index) = turns.done.iter().position(|&number| number == turns.first) {
            turns.done.swap_remove(index);
            turns.first += 1;
        }
        CHANGED.notify_all();
    }
}
