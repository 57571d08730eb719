//! Plugins that cannot be called any more because they threw a C++ exception through frames without cleanup. Their work
//! stopped halfway: locks stay locked, and threads may wait forever.

use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use pjrt_base::reason::Reason;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a wait continues for results of the call that threw.
const GRACE: Duration = Duration::from_secs(1);

static IS_ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HAS_THROWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a plugin may be called.
#[derive(Debug, Default)]
pub struct Poison(OnceLock<Incident>);

/// An exception.
#[derive(Debug)]
struct Incident {
    call_name: &'static str,
    what: String,
    when: Instant,
}

impl Poison {
    /// A state that lives as long as the plugin: until the process ends.
    pub fn leaked() -> &'static Poison {
        Box::leak(Box::default())
    }

    /// Records that the plugin threw in a call on this thread.
    #[cold]
    pub fn note(&self, call_name: &'static str, what: &str) {
        // Only the first incident is reported.
        let _ = self.0.set(Incident { call_name, what: what.to_owned(), when: Instant::now() });
        HAS_THROWN.set(true);
        if !IS_ANY.swap(true, Ordering::AcqRel) {
            process::skip_exit_handlers();
        }
    }

    #[inline]
    pub fn is_noted(&self) -> bool {
        self.0.get().is_some()
    }

    /// Checks that the plugin may be called.
    ///
    /// # Errors
    /// `PluginPoisoned`.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(incident) => Err(incident.error()),
        }
    }

    /// Checks that a wait makes sense: for a while after an exception, the plugin's own error may still arrive.
    ///
    /// # Errors
    /// `PluginPoisoned`.
    pub fn check_wait(&self) -> Result<()> {
        match self.0.get() {
            Some(incident) if incident.when.elapsed() >= GRACE => Err(incident.error()),
            _ => Ok(()),
        }
    }
}

impl Incident {
    #[cold]
    fn error(&self) -> Error {
        let message = format!(
            "The plugin cannot be used any more: it threw a C++ exception in {}, {}.",
            self.call_name, self.what
        );
        Error::new(Kind::PluginPoisoned, message).hint(Reason::PluginLost)
    }
}

/// Whether any plugin of this process is poisoned, so that plugins' exit handlers must not run.
pub fn is_any() -> bool {
    IS_ANY.load(Ordering::Acquire)
}

/// Whether a plugin threw on this thread. The thread must then neither end nor continue: threads of the plugin may
/// still use data on its stack.
pub fn has_thrown_here() -> bool {
    HAS_THROWN.get()
}

/// Keeps this thread, and its stack, until the process ends.
pub fn park_for_good() -> ! {
    loop {
        std::thread::park();
    }
}
