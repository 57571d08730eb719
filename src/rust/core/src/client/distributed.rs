//! Clients of several processes: one client of each, whose plugins tell each other about their devices through a store.

use crate::client::creation;
use crate::client::exchange::{Cancel, Exchange};
use crate::client::shared_store::SharedStore;
use crate::client::{self, Client};
use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::PluginValue;
use pjrt_store::{Patience, Store, DEADLINE_EXCEEDED};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a plugin may still work after the store has told it that the time is up.
const GRACE: Duration = Duration::from_secs(10);

/// How many missing processes an error names.
const NAMED: usize = 5;

/// The process's place among those that create a client together.
#[derive(Debug, Clone)]
pub struct Distributed {
    /// From 0.
    pub rank: usize,
    pub size: usize,
    pub store: SharedStore,
    /// Only processes with the same job form a client.
    pub job: String,
    /// The name of the client, which has its own keys.
    pub name: String,
    /// How long the creation may take.
    pub timeout: Duration,
}

/// The options that tell a plugin its place.
const NODE: &str = "node_id";
const NODES: &str = "num_nodes";

/// What this process has done for a job and name: which client it creates, and whether the others know that it is there.
struct Round {
    store: SharedStore,
    job: String,
    name: String,
    number: u64,
    has_arrived: bool,
}

static ROUNDS: Mutex<Vec<Round>> = Mutex::new(Vec::new());

impl Client {
    /// Creates a client together with other processes: waits until all have arrived, and then until the plugin has
    /// created the client. Ends after the timeout, or if the user interrupts. The plugin may then continue for a while
    /// on another thread; its client is destroyed.
    ///
    /// # Errors
    /// As [`Client::create`]; `InvalidInput` if another process has this place; code 4 (deadline exceeded) if
    /// processes are missing, which it names, or if the plugin takes too long; the errors of the store; `Interrupted`.
    pub fn create_distributed(
        plugin: &'static Plugin,
        options: &[(String, PluginValue)],
        place: &Distributed,
    ) -> Result<Client> {
        let &Distributed { rank, size, .. } = place;
        ensure!(rank < size, InvalidInput, "The rank must be less than the number of processes, {size}: got {rank}.");
        process::watch_forks();
        client::check_generation()?;
        let mut options = options.to_vec();
        for (name, number) in [(NODE, rank), (NODES, size)] {
            if !options.iter().any(|(given, _)| given == name) {
                options.push((name.to_owned(), PluginValue::Int(number as i64)));
            }
        }
        let cancel = Arc::new(Cancel::new(place.timeout));
        let work = {
            let (place, cancel) = (place.clone(), cancel.clone());
            move || create(plugin, &options, &place, &cancel)
        };
        let client = creation::on_another_thread(plugin, &cancel, work, || {
            if Instant::now().saturating_duration_since(cancel.deadline) < GRACE {
                Ok(())
            } else {
                Err(too_late(place, &cancel))
            }
        })?;
        client.open();
        Ok(client)
    }
}

/// The creation, on its own thread.
fn create(
    plugin: &'static Plugin,
    options: &[(String, PluginValue)],
    place: &Distributed,
    cancel: &Arc<Cancel>,
) -> Result<Client> {
    // The number of the client, and whether the others know already that this process is there, from an attempt that ended
    // too early.
    let (round, is_known) = with_round(place, |round| (round.number, round.has_arrived));
    let prefix = format!("pjrt:{}:{}:{round}", place.job, place.name);
    let is_cancelled = || cancel.is_cancelled();
    let patience = Patience::new(place.timeout, &is_cancelled);
    let store = {
        let _asking = cancel.ask();
        let store = place.store.open(prefix.as_bytes(), place.rank, place.size, &patience)?;
        meet(&*store, place, is_known, &patience)?;
        store
    };
    let exchange = Exchange::new(store, cancel.clone());
    let created = Client::make(plugin, options, Some(exchange));
    exchange.end_creation();
    match created {
        Ok(client) if client.shares_host_memory() => {
            client.discard();
            bail!(InvalidInput, "The CPU plugin has no collectives between processes.");
        }
        Ok(client) => Ok(client),
        Err(error) => {
            exchange.close();
            Err(match exchange.failure() {
                Some(failure) if !error.message().contains(failure.message()) => {
                    error.hint(failure.message().to_owned())
                }
                _ => error,
            })
        }
    }
}

/// The error of a creation that goes on long after its time is up: in the store, which would have said so if it answered,
/// or in the plugin.
#[cold]
fn too_late(place: &Distributed, cancel: &Cancel) -> Error {
    let seconds = place.timeout.as_secs_f64();
    if cancel.is_asking() {
        let message = format!("The store {} has not answered within {seconds} s.", place.store);
        return Error::new(Kind::Pjrt(DEADLINE_EXCEEDED), message)
            .hint("Check the network between this machine and that of the store.");
    }
    Error::new(Kind::Pjrt(DEADLINE_EXCEEDED), format!("The plugin has not created its client within {seconds} s."))
}

/// Waits until all processes have arrived. Each increments a count, and the last one notifies the others: a few
/// messages for each.
fn meet(store: &dyn Store, place: &Distributed, is_known: bool, patience: &Patience<'_>) -> Result<()> {
    let Distributed { rank, size, .. } = place;
    let key = |rank: usize| format!("alive/{rank}").into_bytes();
    if !is_known {
        if store.increment(&key(*rank), 1)? > 1 {
            let other = store.try_get(&key(*rank))?.unwrap_or_default();
            let other = String::from_utf8_lossy(&other);
            let message = format!("Rank {rank} of the job '{}' has already joined{other}.", place.job);
            return Err(Error::new(Kind::InvalidInput, message)
                .hint("Each process needs its own rank, and each run its own job."));
        }
        store.put(&key(*rank), format!(": process {} of {size}", std::process::id()).as_bytes())?;
        with_round(place, |round| round.has_arrived = true);
        let arrived = store.increment(b"arrived", 1)?;
        if arrived == *size as i64 {
            store.put(b"all", b"")?;
        }
    }
    match store.get(b"all", patience) {
        Err(error) if error.code() == Some(DEADLINE_EXCEEDED) => Err(missing(store, place, &key).unwrap_or(error)),
        Err(error) => Err(error),
        Ok(_) => {
            // They meet again for another client.
            with_round(place, |round| (round.number, round.has_arrived) = (round.number + 1, false));
            Ok(())
        }
    }
}

/// The error that names those who have not come.
#[cold]
fn missing(store: &dyn Store, place: &Distributed, key: &dyn Fn(usize) -> Vec<u8>) -> Option<Error> {
    let Distributed { size, timeout, .. } = place;
    let mut absent = Vec::new();
    for rank in 0..*size {
        if store.try_get(&key(rank)).ok()?.is_none() {
            absent.push(rank.to_string());
        }
    }
    let count = absent.len();
    if count == 0 {
        return None;
    }
    absent.truncate(NAMED);
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let ranks = if count == 1 { "Rank" } else { "Ranks" };
    let message =
        format!("{ranks} {}{more} of {size} did not arrive within {} s.", absent.join(", "), timeout.as_secs_f64());
    let hint = format!("All processes must use the store {} and the job '{}'.", place.store, place.job);
    Some(Error::new(Kind::Pjrt(DEADLINE_EXCEEDED), message).hint(hint))
}

fn with_round<T>(place: &Distributed, work: impl FnOnce(&mut Round) -> T) -> T {
    let mut rounds = ROUNDS.lock().unpoisoned();
    let is_it = |round: &Round| round.job == place.job && round.name == place.name && round.store.same(&place.store);
    let at = rounds.iter().position(is_it).unwrap_or_else(|| {
        let (store, job, name) = (place.store.clone(), place.job.clone(), place.name.clone());
        rounds.push(Round { store, job, name, number: 0, has_arrived: false });
        rounds.len() - 1
    });
    work(&mut rounds[at])
}
