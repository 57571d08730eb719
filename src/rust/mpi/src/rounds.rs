//! Rounds in which every process sends something to all others by MPI's broadcast. They have a communicator of their own, and
//! may run on another thread than all other calls.

use crate::abi::Handle;
use crate::calls::Calls;
use crate::communicator::LIMIT;
use pjrt_base::ensure;
use pjrt_base::error::Result;
use std::ffi::{c_int, c_void};
use std::ptr::without_provenance_mut;
use std::time::Duration;

/// The messages of all processes in a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// By rank.
    pub messages: Vec<Vec<u8>>,
    /// Every process has said that it leaves.
    pub is_last: bool,
}

pub trait Rounds: Send {
    /// Sends `message` to all, and whether this process leaves. Waits for all others.
    ///
    /// # Errors
    /// MPI's own. No further round is possible then.
    fn next(&mut self, message: Vec<u8>, leaves: bool) -> Result<Round>;
}

/// The bit of a length that says that the process leaves.
const LEAVES: u64 = 1 << 63;

/// The pauses between two looks at what MPI has done: it must not keep the processor from the programs that run.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LAST_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Broadcasts<H: Handle> {
    pub calls: Calls<H>,
    pub communicator: H,
    pub byte: H,
    pub ignore_status: usize,
    pub rank: usize,
    pub size: usize,
}

impl<H: Handle> Broadcasts<H> {
    /// Waits until MPI has done what was started.
    fn wait(&self, requests: &mut [H]) -> Result<()> {
        let mut pause = FIRST_PAUSE;
        for request in requests {
            loop {
                ensure!(!self.calls.flag(self.calls.finalized), InvalidInput, "MPI has ended in this process.");
                let mut flag = 0;
                let status: *mut c_void = without_provenance_mut(self.ignore_status);
                // SAFETY: the request is MPI's.
                self.calls.check("Test", unsafe { (self.calls.test)(request, &mut flag, status) })?;
                if flag != 0 {
                    break;
                }
                std::thread::sleep(pause);
                pause = (2 * pause).min(LAST_PAUSE);
            }
        }
        Ok(())
    }

    fn lengths(&self, own: u64) -> Result<Vec<u64>> {
        let (own, mut all) = (vec![own], vec![0; self.size]);
        let mut requests = [H::NULL];
        let (count, byte, comm) = (size_of::<u64>() as c_int, self.byte, self.communicator);
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the memory for a number of each process, which lives until MPI is done, or for ever.
        let started =
            unsafe { (self.calls.start_all_gather)(from, count, byte, to, count, byte, comm, &mut requests[0]) };
        let done = self.calls.check("Iallgather", started).and_then(|()| self.wait(&mut requests));
        match done {
            Ok(()) => Ok(all),
            Err(error) => {
                std::mem::forget((own, all));
                Err(error)
            }
        }
    }

    /// Fills the messages of the others.
    fn broadcast(&self, messages: &mut [Vec<u8>]) -> Result<()> {
        let mut requests = Vec::new();
        for (root, message) in messages.iter_mut().enumerate() {
            for part in message.chunks_mut(LIMIT) {
                let mut request = H::NULL;
                let (to, count) = (part.as_mut_ptr().cast(), part.len() as c_int);
                // SAFETY: the memory has so many bytes, and lives until MPI is done, or for ever.
                let started = unsafe {
                    (self.calls.start_broadcast)(to, count, self.byte, root as c_int, self.communicator, &mut request)
                };
                self.calls.check("Ibcast", started)?;
                requests.push(request);
            }
        }
        self.wait(&mut requests)
    }
}

impl<H: Handle + Send> Rounds for Broadcasts<H> {
    fn next(&mut self, message: Vec<u8>, leaves: bool) -> Result<Round> {
        let own = message.len() as u64 | if leaves { LEAVES } else { 0 };
        let all = self.lengths(own)?;
        let mut own = Some(message);
        let mut messages: Vec<Vec<u8>> = Vec::with_capacity(all.len());
        for (other, length) in all.iter().enumerate() {
            let length = (length & !LEAVES) as usize;
            messages.push(if other == self.rank { own.take().unwrap_or_default() } else { vec![0; length] });
        }
        if let Err(error) = self.broadcast(&mut messages) {
            // MPI may still write to them.
            std::mem::forget(messages);
            return Err(error);
        }
        Ok(Round { messages, is_last: all.iter().all(|length| length & LEAVES != 0) })
    }
}
