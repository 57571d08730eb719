//! The helpers of one client.

#[cfg(unix)]
use crate::apart::process::Helper;
use crate::apart::protocol::{Request, Setup};
use crate::apart::Cancel;
use pjrt_base::error::Result;
#[cfg(unix)]
use pjrt_base::error::{Error, Kind, RESOURCE_EXHAUSTED};
#[cfg(unix)]
use pjrt_base::reason::Reason;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::PluginValue;
use std::ffi::OsString;
#[cfg(unix)]
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The helper's program.
static HELPER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Names the helper's program. Without one, programs are compiled in this process.
pub fn set_helper(program: &Path) {
    *HELPER.lock().unpoisoned() = Some(program.to_owned()).filter(|program| cfg!(unix) && program.is_file());
}

pub fn has_helper() -> bool {
    helper().is_some()
}

fn helper() -> Option<PathBuf> {
    HELPER.lock().unpoisoned().clone()
}

/// Variables of an environment, with their values.
pub(crate) type Environment = Vec<(OsString, OsString)>;

/// The helpers of a client, all of them with the same options and environment.
#[derive(Debug)]
pub(crate) struct Pool {
    setup: Setup,
    environment: Arc<Environment>,
    /// The value of `NPROC`, by which XLA counts threads at the creation of each client.
    threads: Option<OsString>,
    /// The one that waits for the next program. More of them work at the same time.
    #[cfg(unix)]
    idle: Mutex<Option<Helper>>,
}

/// The variable for the plugin's messages, and the value with which it has none but fatal ones.
const LOG_LEVEL: (&str, &str) = ("TF_CPP_MIN_LOG_LEVEL", "3");

impl Pool {
    /// A pool for a client of the plugin at this path, which was created with these options; `environment` is the process's
    /// when the plugin read it.
    pub fn new(plugin: &Path, options: &[(String, PluginValue)], environment: Arc<Environment>) -> Pool {
        Pool {
            setup: Setup::new(plugin, options),
            environment,
            threads: std::env::var_os(THREADS),
            #[cfg(unix)]
            idle: Mutex::default(),
        }
    }

    fn is_verbose(&self) -> bool {
        let (name, quiet) = LOG_LEVEL;
        !self.environment.iter().any(|(variable, value)| variable == name && value == quiet)
    }
}

const THREADS: &str = "NPROC";

#[cfg(unix)]
impl Pool {
    /// Compiles a program in a helper, and returns the serialized executable; `None` if no helper can do this, but this process
    /// may.
    ///
    /// # Errors
    /// The compiler's; `CompilerCrashed` if the helper ends; `Interrupted` once `cancel` is cancelled.
    pub fn compile(&self, mut request: Request, cancel: &Cancel) -> Result<Option<Vec<u8>>> {
        if let Ok(folder) = std::env::current_dir() {
            request = request.in_folder(&folder);
        }
        let idle = self.take_idle();
        let was_idle = idle.is_some();
        let Some(mut helper) = (if was_idle { idle } else { self.start()? }) else { return Ok(None) };
        ensure!(cancel.enter(helper.id()), cancelled());
        let answer = helper.ask(&request);
        cancel.leave();
        match answer {
            _ if cancel.is_cancelled() => Err(cancelled()),
            Ok(answer) => {
                helper.flush_log(self.is_verbose());
                if !answer.is_last {
                    let mut idle = self.idle.lock().unpoisoned();
                    if idle.is_none() {
                        *idle = Some(helper);
                    }
                }
                answer.failure.map_or(Ok(answer.payload), |failure| Err(failure.into()))
            }
            // It has ended before it read the request.
            Err(error) if was_idle && matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.compile(request, cancel)
            }
            Err(_) => {
                if self.is_verbose() {
                    // The lines are read again below.
                    helper.show_log();
                }
                Err(helper.end())
            }
        }
    }

    /// Has a helper create its client, as this process is about to. Returns what the helper wrote if it ended; `None` if it did
    /// not, and if there is no helper.
    pub fn rehearse(&self) -> Option<String> {
        let mut helper = self.start().ok()??;
        let cancel = Cancel::default();
        if !cancel.enter(helper.id()) {
            return None;
        }
        // Any answer will do: the request has no program.
        let answer = helper.ask(&Request::default());
        cancel.leave();
        answer.is_err().then(|| helper.written())
    }

    fn take_idle(&self) -> Option<Helper> {
        let idle = self.idle.lock().unpoisoned().take();
        idle.and_then(|mut helper| helper.is_alive().then_some(helper))
    }

    /// A new helper; `None` if the system starts none.
    fn start(&self) -> Result<Option<Helper>> {
        let Some(program) = helper() else { return Ok(None) };
        let mut environment = (*self.environment).clone();
        environment.retain(|(name, _)| name != THREADS);
        environment.extend(self.threads.iter().map(|threads| (THREADS.into(), threads.clone())));
        Helper::start(&program, &environment, &self.setup).map(Some).map_err(|error| {
            let is_limit = error.kind() == ErrorKind::WouldBlock;
            let kind = if is_limit { Kind::Pjrt(RESOURCE_EXHAUSTED) } else { Kind::Io };
            let message = format!("Cannot start the compiler '{}': {error}.", program.display());
            Error::new(kind, message).hint(Reason::CompileInside)
        })
    }

    /// Ends the helper that is idle.
    pub fn clear(&self) {
        // It ends when dropped, without the lock.
        let idle = self.idle.lock().unpoisoned().take();
        drop(idle);
    }
}

#[cfg(not(unix))]
impl Pool {
    /// On this system, programs are compiled inside.
    ///
    /// # Errors
    /// None.
    pub fn compile(&self, _: Request, _: &Cancel) -> Result<Option<Vec<u8>>> {
        let _ = (&self.setup, &self.threads, self.is_verbose(), helper());
        Ok(None)
    }

    pub fn rehearse(&self) -> Option<String> {
        None
    }

    pub fn clear(&self) {}
}

#[cfg(unix)]
#[cold]
fn cancelled() -> Error {
    Error::new(Kind::Interrupted, "The compilation was cancelled.")
}
