//! The processes that were started together, and the one thread of each that communicates.
//!
//! All calls of MPI come from a thread of our own, one after the other in the order in which they were queued. So every level of
//! thread support is enough, where this crate initializes MPI. Where somebody else has done so for one thread only, the calls
//! come from the host's thread. A [`store`] has a second thread, if MPI allows that.

use crate::board::{Board, BoardStore};
use crate::communicator::{Communicator, Facts};
use crate::library;
use crate::rounds::Rounds;
use pjrt_base::bail;
use pjrt_base::callbacks::{self, Callback, Ran};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::mmap::SignalStacks;
use pjrt_base::process;
use pjrt_base::spin;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::threads;
use pjrt_store::Patience;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, SendError, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub use crate::communicator::Facts as World;

/// What communicates: it gets the open communication, or why there is none.
pub type MpiJob = Box<dyn FnOnce(Result<&mut dyn Communicator>) + Send>;

/// An open communication.
struct OpenWorld {
    facts: Facts,
    file: PathBuf,
    place: Place,
    keys: Keys,
}

/// The store of all processes.
enum Keys {
    /// MPI does not allow it here.
    Unsupported,
    Closed(Box<dyn Rounds>),
    Open(Arc<Board>),
}

/// Where MPI is called.
enum Place {
    /// On our thread.
    Thread(Sender<MpiJob>),
    /// On the host's thread.
    Host(Arc<Mutex<Box<dyn Communicator>>>),
}

enum WorldState {
    Closed,
    Open(OpenWorld),
    Finished,
}

static STATE: Mutex<WorldState> = Mutex::new(WorldState::Closed);

/// The state, which a fork has not.
fn state() -> Result<MutexGuard<'static, WorldState>> {
    process::lock(&STATE).filter(|_| process::generation() == 0).ok_or_else(process::forked)
}

/// Initializes MPI, or joins it. All processes must call it. A second call returns the same. Must be called on the host's thread.
///
/// # Errors
/// `LibraryMissing`, `Forked`, and MPI's own.
pub fn start(named: Option<&Path>) -> Result<(Facts, PathBuf)> {
    let mut state = state()?;
    match &*state {
        WorldState::Open(open) => return Ok((open.facts.clone(), open.file.clone())),
        WorldState::Finished => bail!(InvalidInput, "MPI has ended in this process, and cannot be initialized again."),
        WorldState::Closed => {}
    }
    let (mut mpi, file) = library::open(named)?;
    let (facts, place, keys) = if mpi.is_bound_to_a_thread() {
        // Not even the first call may come from another thread.
        (mpi.start()?, Place::Host(Arc::new(Mutex::new(mpi))), Keys::Unsupported)
    } else {
        start_thread(mpi)?
    };
    *state = WorldState::Open(OpenWorld { facts: facts.clone(), file: file.clone(), place, keys });
    Ok((facts, file))
}

/// Initializes or joins MPI on a thread of its own, which runs the jobs.
fn start_thread(mut mpi: Box<dyn Communicator>) -> Result<(Facts, Place, Keys)> {
    let (sender, jobs) = channel::<MpiJob>();
    let (report, outcome) = channel();
    threads::start("pjrt-mpi", threads::STACK, "for MPI", move || {
        let _stacks = SignalStacks::of_this_thread();
        let facts = mpi.start().map(|facts| (facts, mpi.rounds()));
        let is_open = facts.is_ok();
        if report.send(facts).is_ok() && is_open {
            run(&mut *mpi, &jobs);
        }
    })?;
    let Ok(facts) = outcome.recv() else { bail!(Internal, "The thread for MPI has ended.") };
    let (facts, rounds) = facts?;
    Ok((facts, Place::Thread(sender), rounds.map_or(Keys::Unsupported, Keys::Closed)))
}

/// A store that all processes have, without a server. All keys get the prefix. Waits until all processes have opened it.
///
/// # Errors
/// `InvalidInput` if nothing is open; `UnsupportedCall` if MPI allows calls on one thread only, or if somebody else has
/// initialized it; code 4 (deadline exceeded) if some processes do not open theirs in time; `CANCELLED`; MPI's own; `Forked`.
pub fn store(prefix: &[u8], patience: &Patience<'_>) -> Result<BoardStore> {
    let mut state = state()?;
    let WorldState::Open(open) = &mut *state else {
        bail!(InvalidInput, "MPI is not initialized in this process.");
    };
    let Some(board) = open.keys.board(open.facts.rank)? else {
        return Err(Error::new(
            Kind::UnsupportedCall,
            "MPI cannot be the store here: it allows only one thread to communicate, or another package ends it.",
        )
        .hint("Use a Redis server as the store."));
    };
    drop(state);
    BoardStore::open(board, prefix, patience)
}

impl Keys {
    /// The keys of this process, whose rounds go on until all leave.
    fn board(&mut self, rank: usize) -> Result<Option<Arc<Board>>> {
        *self = match std::mem::replace(self, Keys::Unsupported) {
            Keys::Closed(rounds) => Keys::Open(Board::start(rounds, rank)?),
            other => other,
        };
        match self {
            Keys::Open(board) => Ok(Some(board.clone())),
            _ => Ok(None),
        }
    }
}

/// The open communication, if there is one. A fork has none.
pub fn facts() -> Option<Facts> {
    match &*state().ok()? {
        WorldState::Open(open) => Some(open.facts.clone()),
        _ => None,
    }
}

/// Queues a job, which gets `InvalidInput` if nothing is open, and `Forked`.
pub fn submit(job: MpiJob) {
    let state = match state() {
        Ok(state) => state,
        Err(error) => return job(Err(error)),
    };
    let queued = match &*state {
        WorldState::Open(OpenWorld { place: Place::Thread(sender), .. }) => queue(sender, job),
        WorldState::Open(OpenWorld { place: Place::Host(mpi), .. }) => {
            let call = HostJob { mpi: mpi.clone(), job: Mutex::new(Some(job)) };
            drop(state);
            return callbacks::push(Arc::new(call));
        }
        _ => Err((job, Error::new(Kind::InvalidInput, "MPI is not initialized in this process."))),
    };
    // What a refused job continues may need the lock.
    drop(state);
    if let Err((job, error)) = queued {
        job(Err(error));
    }
}

/// Queues a job on our thread. Returns a job that is refused, and why.
fn queue(sender: &Sender<MpiJob>, job: MpiJob) -> std::result::Result<(), (MpiJob, Error)> {
    let ended = |SendError(job)| (job, Error::new(Kind::Internal, "The thread for MPI has ended."));
    sender.send(job).map_err(ended)
}

/// Ends the communication after what is queued, on the host's thread.
///
/// # Errors
/// MPI's own.
pub fn finish() -> Result<()> {
    let Some(mut state) = process::lock(&STATE) else { return Ok(()) };
    if !matches!(&*state, WorldState::Open(_)) {
        return Ok(());
    }
    let WorldState::Open(open) = std::mem::replace(&mut *state, WorldState::Finished) else { return Ok(()) };
    drop(state);
    match open.place {
        Place::Thread(sender) => {
            let (mut keys, rank) = (open.keys, open.facts.rank);
            // Another process may have opened its store. The host's thread cannot start threads once the process ends.
            if let Some(board) = on_thread(&sender, move |_| keys.board(rank))? {
                board.leave();
            }
            on_thread(&sender, |mpi| mpi.finish())
        }
        Place::Host(mpi) => mpi.lock().unpoisoned().finish(),
    }
}

/// What the work gives on the thread for MPI, after what is queued there. A channel's receiver could not wait once the process
/// ends.
fn on_thread<T: Send + 'static>(
    sender: &Sender<MpiJob>,
    work: impl FnOnce(&mut dyn Communicator) -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = Arc::new((Mutex::new(None), Condvar::new()));
    let report = done.clone();
    let job: MpiJob = Box::new(move |mpi| {
        *report.0.lock().unpoisoned() = Some(mpi.and_then(work));
        report.1.notify_all();
    });
    if let Err((job, error)) = queue(sender, job) {
        job(Err(error));
    }
    let mut outcome = done.0.lock().unpoisoned();
    loop {
        match outcome.take() {
            Some(outcome) => return outcome,
            None => outcome = done.1.wait(outcome).unpoisoned(),
        }
    }
}

fn run(mpi: &mut dyn Communicator, jobs: &Receiver<MpiJob>) {
    loop {
        // What is being sent goes on only while MPI is called.
        let is_sending = mpi.progress().unwrap_or(false);
        let next = if is_sending { jobs.recv_timeout(Duration::from_micros(200)) } else { next_of(jobs) };
        match next {
            Ok(job) => job(Ok(&mut *mpi)),
            Err(RecvTimeoutError::Timeout) => {}
            // Others may still receive what is being sent.
            Err(RecvTimeoutError::Disconnected) if is_sending => std::thread::sleep(Duration::from_micros(200)),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The next job. The calls of a program follow each other closely.
fn next_of(jobs: &Receiver<MpiJob>) -> std::result::Result<MpiJob, RecvTimeoutError> {
    let mut next = Err(TryRecvError::Empty);
    spin::until(spin::SHORT, || {
        next = jobs.try_recv();
        !matches!(next, Err(TryRecvError::Empty))
    });
    next.or_else(|_| jobs.recv()).map_err(|_| RecvTimeoutError::Disconnected)
}

/// Goes on with what is being sent, and comes back while something is: the receivers may wait for jobs that are queued here.
fn go_on_sending(mpi: &Arc<Mutex<Box<dyn Communicator>>>) {
    if mpi.lock().unpoisoned().progress().unwrap_or(false) {
        std::thread::sleep(Duration::from_micros(50));
        let next: MpiJob = Box::new(|_| ());
        callbacks::push(Arc::new(HostJob { mpi: mpi.clone(), job: Mutex::new(Some(next)) }));
    }
}

/// A job for the host's thread.
struct HostJob {
    mpi: Arc<Mutex<Box<dyn Communicator>>>,
    job: Mutex<Option<MpiJob>>,
}

impl Callback for HostJob {
    fn run(&self) -> Ran {
        if let Some(job) = self.job.lock().unpoisoned().take() {
            let mut mpi = self.mpi.lock().unpoisoned();
            job(Ok(&mut **mpi));
            drop(mpi);
            go_on_sending(&self.mpi);
        }
        Ran::Reported
    }

    fn cancel(&self) {
        self.job.lock().unpoisoned().take();
    }

    fn launch(&self) -> u64 {
        0
    }
}
