//! A Redis server as a store.
//!
//! A value is the only entry of a stream, since a stream is what any number of clients can wait for without polling and
//! without taking it away. A wait holds a connection; it is made of slices, so that it can be cancelled.

use crate::{
    too_long, Address, Patience, Store, DEADLINE_EXCEEDED, INTERNAL, MAX_VALUE, RESOURCE_EXHAUSTED, UNAUTHENTICATED,
    UNAVAILABLE,
};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::sync::Unpoisoned;
use redis::{Connection, ConnectionLike, ErrorKind, RedisError, RedisResult, Value};
use std::sync::{Mutex, Once};
use std::time::Duration;

/// How long one command waits for a key at most.
const SLICE: Duration = Duration::from_secs(1);

/// How long a command may be without an answer.
const ANSWER: Duration = Duration::from_secs(30);

/// The longest attempt to connect, and the first and the longest pause between two attempts.
const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// How many idle connections are kept.
const KEPT: usize = 4;

/// After this many seconds the server forgets a key that nobody sets again.
const EXPIRY: u32 = 24 * 3600;

/// The part of a Redis server with the keys of one job.
pub struct RedisStore {
    address: Address,
    client: redis::Client,
    prefix: Vec<u8>,
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedisStore({})", self.address)
    }
}

impl RedisStore {
    /// Connects to a server, which may still have to start. All keys get the prefix, so that jobs do not meet.
    ///
    /// # Errors
    /// `UNAVAILABLE` if no server answers in time, `UNAUTHENTICATED` if it refuses the password, `CANCELLED`.
    pub fn open(address: &Address, prefix: &[u8], patience: &Patience<'_>) -> Result<RedisStore> {
        name_tls_provider();
        let client = redis::Client::open(address.server.clone()).map_err(|error| worded(address, error))?;
        let store = RedisStore { address: address.clone(), client, prefix: prefix.to_vec(), idle: Mutex::default() };
        let mut pause = FIRST_PAUSE;
        loop {
            patience.check()?;
            let error = match store.connect(patience.left().unwrap_or(FIRST_PAUSE)) {
                Ok(connection) => {
                    store.keep(connection);
                    return Ok(store);
                }
                Err(error) => error,
            };
            let left = patience.left().filter(|_| error.code() == Some(UNAVAILABLE));
            let Some(left) = left else { return Err(error) };
            std::thread::sleep(pause.min(left));
            pause = (2 * pause).min(LAST_PAUSE);
        }
    }

    fn connect(&self, wait: Duration) -> Result<Connection> {
        let connected = self.client.get_connection_with_timeout(wait.min(CONNECT)).and_then(|mut connection| {
            connection.set_read_timeout(Some(ANSWER))?;
            connection.set_write_timeout(Some(ANSWER))?;
            // A server that wants a password accepts connections without one.
            redis::cmd("PING").exec(&mut connection)?;
            Ok(connection)
        });
        connected.map_err(|error| worded(&self.address, error))
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unpoisoned();
        if idle.len() < KEPT {
            idle.push(connection);
        }
    }

    /// Does `work` on a connection that nobody else uses. If an idle connection turns out to be lost, `work` that can be
    /// repeated is done again on a fresh one.
    fn with<T>(&self, repeat: bool, work: impl Fn(&mut Connection) -> RedisResult<T>) -> Result<T> {
        let kept = self.idle.lock().unpoisoned().pop();
        let (mut connection, is_kept) = match kept {
            Some(connection) => (connection, true),
            None => (self.connect(CONNECT)?, false),
        };
        let mut done = work(&mut connection);
        if repeat && is_kept && done.as_ref().is_err_and(|error| is_lost(error) && !error.is_timeout()) {
            connection = self.connect(CONNECT)?;
            done = work(&mut connection);
        }
        // Nobody knows what a broken conversation would continue with.
        if done.is_ok() || done.as_ref().is_err_and(|error| !is_lost(error) && connection.is_open()) {
            self.keep(connection);
        }
        done.map_err(|error| worded(&self.address, error))
    }

    /// The name of a key on the server, by its purpose.
    fn name(&self, purpose: u8, key: &[u8]) -> Vec<u8> {
        [&self.prefix[..], &[b':', purpose, b':'], key].concat()
    }
}

impl Store for RedisStore {
    fn get(&self, key: &[u8], patience: &Patience<'_>) -> Result<Vec<u8>> {
        if let Some(value) = self.try_get(key)? {
            return Ok(value);
        }
        let name = self.name(b'k', key);
        loop {
            patience.check()?;
            let Some(left) = patience.left() else {
                let key = String::from_utf8_lossy(key);
                return Err(Error::new(
                    Kind::Pjrt(DEADLINE_EXCEEDED),
                    format!("No process has set the key '{key}' in time."),
                ));
            };
            // 0 would wait for ever.
            let milliseconds = left.min(SLICE).as_millis().max(1) as u64;
            let found = self.with(true, |connection| {
                redis::cmd("XREAD")
                    .arg(&["COUNT", "1", "BLOCK"])
                    .arg(milliseconds)
                    .arg("STREAMS")
                    .arg(&name)
                    .arg("0")
                    .query(connection)
            })?;
            if let Some(value) = last_bytes(found) {
                return Ok(value);
            }
        }
    }

    fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let name = self.name(b'k', key);
        let found = self.with(true, |connection| {
            redis::cmd("XRANGE").arg(&name).arg(&["-", "+", "COUNT", "1"]).query(connection)
        })?;
        Ok(last_bytes(found))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len().saturating_add(self.prefix.len()) >= MAX_VALUE || value.len() > MAX_VALUE {
            return Err(too_long(value));
        }
        let name = self.name(b'k', key);
        let mut commands = redis::pipe();
        commands.cmd("XADD").arg(&name).arg(&["MAXLEN", "1", "*", "v"]).arg(value);
        commands.cmd("EXPIRE").arg(&name).arg(EXPIRY);
        self.with(true, |connection| commands.exec(connection))
    }

    fn increment(&self, key: &[u8], by: i64) -> Result<i64> {
        let name = self.name(b'n', key);
        let mut commands = redis::pipe();
        commands.cmd("INCRBY").arg(&name).arg(by).cmd("EXPIRE").arg(&name).arg(EXPIRY).ignore();
        let (sum,): (i64,) = self.with(false, |connection| commands.query(connection))?;
        Ok(sum)
    }
}

/// The value in an answer about a stream: the last of all that is nested in it.
fn last_bytes(answer: Value) -> Option<Vec<u8>> {
    match answer {
        Value::BulkString(bytes) => Some(bytes),
        Value::Array(mut items) => items.pop().and_then(last_bytes),
        Value::Map(mut items) => items.pop().and_then(|(_, value)| last_bytes(value)),
        _ => None,
    }
}

/// Whether the connection cannot be used any more.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}

/// An error in our words. What Redis says contains no password.
#[cold]
fn worded(address: &Address, error: RedisError) -> Error {
    let said = if error.is_timeout() { "no answer in time".to_owned() } else { error.to_string() };
    let is_about_trust = said.contains("certificate");
    let code = match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => UNAUTHENTICATED,
        _ if is_about_trust => UNAUTHENTICATED,
        (_, Some("LOADING" | "MASTERDOWN")) => UNAVAILABLE,
        // Among several commands, the code is in the text.
        _ if said.contains("OOM") => RESOURCE_EXHAUSTED,
        _ if is_lost(&error) => UNAVAILABLE,
        _ => INTERNAL,
    };
    let made = Error::new(Kind::Pjrt(code), format!("The store {address} failed: {said}."));
    match code {
        _ if is_about_trust => {
            made.hint("SSL_CERT_FILE can name a file with the certificate of the server's authority.")
        }
        UNAUTHENTICATED => made.hint("Give the password in the store's address."),
        INTERNAL if said.contains("unknown command") => made.hint("The server must be Redis 5 or newer."),
        _ => made,
    }
}

/// Makes `ring` the process's provider of TLS, unless there is one.
fn name_tls_provider() {
    static NAMED: Once = Once::new();
    NAMED.call_once(|| {
        // Another one is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
