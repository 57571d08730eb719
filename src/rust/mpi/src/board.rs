//! A key-value store over MPI, without a server. Every process has all keys. Changes go to all in rounds, and every process makes
//! them in the same order: round by round, and in each by rank. So all agree on every value and sum.

use crate::rounds::{Round, Rounds};
use pjrt_base::ensure;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::mmap::SignalStacks;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::threads;
use pjrt_store::{too_long, Patience, Store, DEADLINE_EXCEEDED, MAX_VALUE, UNAVAILABLE};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a wait sleeps between checks whether it is still wanted.
const SLICE: Duration = Duration::from_millis(100);

/// How long the answer to an increment may take. Rounds end as soon as all processes take part.
const ANSWER: Duration = Duration::from_secs(30);

/// The pauses between rounds, which grow while nobody has changes.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// The keys of this process, and what it has to tell the others.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<BoardContent>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BoardContent {
    values: HashMap<Vec<u8>, Vec<u8>>,
    sums: HashMap<Vec<u8>, i64>,
    /// Changes for the next round.
    next: Vec<u8>,
    /// The increments of this process: how many there were, how many have a sum, and the sums that nobody has taken.
    asked: u64,
    answered: u64,
    answers: HashMap<u64, i64>,
    rounds: u64,
    leaves: bool,
    is_over: bool,
    failure: Option<Error>,
}

enum Change<'a> {
    Put(&'a [u8], &'a [u8]),
    Add(&'a [u8], i64),
}

/// A change as bytes: what it is, the lengths of key and value, and both.
fn write(change: &Change<'_>, to: &mut Vec<u8>) {
    let number;
    let (kind, key, value): (u8, &[u8], &[u8]) = match change {
        Change::Put(key, value) => (b'p', key, value),
        Change::Add(key, by) => {
            number = by.to_le_bytes();
            (b'a', key, &number)
        }
    };
    to.push(kind);
    to.extend((key.len() as u64).to_le_bytes());
    to.extend((value.len() as u64).to_le_bytes());
    to.extend(key);
    to.extend(value);
}

/// Takes the first change off a message. `None` at its end, or if the message is damaged.
fn read<'a>(message: &mut &'a [u8]) -> Option<Change<'a>> {
    let mut take = |length: usize| {
        let (part, rest) = message.split_at_checked(length)?;
        *message = rest;
        Some(part)
    };
    let kind = take(1)?[0];
    let key_length = u64::from_le_bytes(take(8)?.try_into().ok()?);
    let length = u64::from_le_bytes(take(8)?.try_into().ok()?);
    let key = take(usize::try_from(key_length).ok()?)?;
    let value = take(usize::try_from(length).ok()?)?;
    match kind {
        b'p' => Some(Change::Put(key, value)),
        b'a' => Some(Change::Add(key, i64::from_le_bytes(value.try_into().ok()?))),
        _ => None,
    }
}

impl BoardContent {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.values.insert(key.to_vec(), value.to_vec());
    }

    /// Makes the changes of all processes, by rank.
    fn make(&mut self, round: &Round, rank: usize) {
        for (from, message) in round.messages.iter().enumerate() {
            let mut rest = message.as_slice();
            while let Some(change) = read(&mut rest) {
                match change {
                    Change::Put(key, value) => self.put(key, value),
                    Change::Add(key, by) => {
                        let sum = self.sums.entry(key.to_vec()).or_default();
                        *sum = sum.wrapping_add(by);
                        let sum = *sum;
                        if from == rank {
                            self.answers.insert(self.answered, sum);
                            self.answered += 1;
                        }
                    }
                }
            }
        }
        // This process has changed these since, and sees its own changes at once.
        let next = std::mem::take(&mut self.next);
        let mut rest = next.as_slice();
        while let Some(change) = read(&mut rest) {
            if let Change::Put(key, value) = change {
                self.put(key, value);
            }
        }
        self.next = next;
        self.rounds += 1;
        self.is_over = round.is_last;
    }

    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.leaves || self.is_over => Err(unavailable("MPI has ended in this process.")),
            None => Ok(()),
        }
    }
}

fn unavailable(message: &str) -> Error {
    Error::new(Kind::Pjrt(UNAVAILABLE), message)
}

fn late(message: String) -> Error {
    Error::new(Kind::Pjrt(DEADLINE_EXCEEDED), message)
}

impl Board {
    /// Starts the thread of the rounds.
    pub(crate) fn start(mut rounds: Box<dyn Rounds>, rank: usize) -> Result<Arc<Board>> {
        let board = Arc::new(Board::default());
        let shared = board.clone();
        threads::start("pjrt-mpi-store", threads::STACK, "for the store", move || {
            let _stacks = SignalStacks::of_this_thread();
            shared.run(&mut *rounds, rank);
        })?;
        Ok(board)
    }

    fn run(&self, rounds: &mut dyn Rounds, rank: usize) {
        let mut pause = FIRST_PAUSE;
        loop {
            let (message, leaves) = {
                let mut state = self.state();
                (std::mem::take(&mut state.next), state.leaves)
            };
            let round = rounds.next(message, leaves);
            let mut state = self.state();
            let is_idle = match &round {
                Ok(round) => {
                    state.make(round, rank);
                    round.messages.iter().all(Vec::is_empty)
                }
                Err(error) => {
                    state.failure = Some(error.clone());
                    state.is_over = true;
                    true
                }
            };
            let (is_over, leaves) = (state.is_over, state.leaves);
            drop(state);
            self.changed.notify_all();
            if is_over {
                return;
            }
            // All see the same rounds, so all pause equally long.
            pause = if is_idle { (2 * pause).min(LAST_PAUSE) } else { FIRST_PAUSE };
            std::thread::sleep(if leaves { FIRST_PAUSE } else { pause });
        }
    }

    fn state(&self) -> MutexGuard<'_, BoardContent> {
        self.state.lock().unpoisoned()
    }

    /// Waits until `found` finds something, or until the patience ends: then `None`.
    fn wait<T>(
        &self,
        patience: &Patience<'_>,
        mut found: impl FnMut(&mut BoardContent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut state = self.state();
        loop {
            if let Some(found) = found(&mut state)? {
                return Ok(Some(found));
            }
            patience.check()?;
            let Some(left) = patience.left() else { return Ok(None) };
            state = self.changed.wait_timeout(state, left.min(SLICE)).unpoisoned().0;
        }
    }

    /// Says that this process has no further changes, and waits until all say so.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.leaves = true;
        drop(self.changed.wait_while(state, |state| !state.is_over));
    }

    fn change(&self, change: &Change<'_>) -> Result<u64> {
        let mut state = self.state();
        state.check()?;
        write(change, &mut state.next);
        match change {
            Change::Put(key, value) => state.put(key, value),
            Change::Add(..) => state.asked += 1,
        }
        let number = state.asked;
        drop(state);
        self.changed.notify_all();
        Ok(number)
    }
}

/// The keys of one job on the board of this process.
#[derive(Debug)]
pub struct BoardStore {
    board: Arc<Board>,
    prefix: Vec<u8>,
}

impl BoardStore {
    /// Waits for the first round, in which all processes must take part. All keys get the prefix.
    ///
    /// # Errors
    /// Code 4 (deadline exceeded) if some have not opened theirs in time, `CANCELLED`, and MPI's own.
    pub(crate) fn open(board: Arc<Board>, prefix: &[u8], patience: &Patience<'_>) -> Result<BoardStore> {
        let has_met = board.wait(patience, |state| {
            state.check()?;
            Ok((state.rounds > 0).then_some(()))
        })?;
        ensure!(has_met.is_some(), late("Some processes of MPI have not opened the store in time.".into()));
        Ok(BoardStore { board, prefix: prefix.to_vec() })
    }

    fn name(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix[..], b":", key].concat()
    }
}

impl Store for BoardStore {
    fn get(&self, key: &[u8], patience: &Patience<'_>) -> Result<Vec<u8>> {
        let name = self.name(key);
        let found = self.board.wait(patience, |state| match state.values.get(&name) {
            Some(value) => Ok(Some(value.clone())),
            None => state.check().map(|()| None),
        })?;
        found.ok_or_else(|| late(format!("No process has set the key '{}' in time.", String::from_utf8_lossy(key))))
    }

    fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = self.board.state();
        state.check()?;
        Ok(state.values.get(&self.name(key)).cloned())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > MAX_VALUE || value.len() > MAX_VALUE {
            return Err(too_long(value));
        }
        self.board.change(&Change::Put(&self.name(key), value)).map(drop)
    }

    fn increment(&self, key: &[u8], by: i64) -> Result<i64> {
        // The change and its number belong together: they are made under one lock.
        let number = self.board.change(&Change::Add(&self.name(key), by))? - 1;
        let sum = self.board.wait(&pjrt_store::wait(ANSWER), |state| match state.answers.remove(&number) {
            Some(sum) => Ok(Some(sum)),
            None => state.check().map(|()| None),
        })?;
        sum.ok_or_else(|| unavailable("The other processes of MPI do not answer."))
    }
}
