//! A record of what all threads do and when, while somebody wants one. At other times, each place that would add to it reads
//! one flag.

use crate::process;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static IS_ON: AtomicBool = AtomicBool::new(false);
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

macro_rules! activities {
    ($($(#[$doc:meta])* $activity:ident => $name:literal,)*) => {
        /// What a thread or a device does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Activity {
            $($(#[$doc])* $activity,)*
        }

        impl Activity {
            /// Its name in records.
            pub fn name(self) -> &'static str {
                match self {
                    $(Activity::$activity => $name,)*
                }
            }
        }
    };
}

activities! {
    /// A call from the host's language.
    Call => "call",
    Compile => "compile",
    /// A part of a compilation.
    Phase => "phase",
    Upload => "upload",
    /// Converts and reorders values for an upload.
    Conversion => "conversion",
    /// A copy between host and device that the device makes.
    Transfer => "transfer",
    /// Hands a program to a device.
    Launch => "launch",
    /// A device runs a program.
    Run => "run",
    Wait => "wait",
    /// Converts and reorders values for the host.
    Download => "download",
    /// Garbage collection in the host's language.
    Collection => "gc",
    /// A function of the host that a program calls.
    Callback => "callback",
    File => "file",
    /// A share of work that several threads do.
    Work => "work",
    /// From the plugin's own profiler.
    Device => "device",
}

/// What is known of an event besides its time.
#[must_use]
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub name: String,
    pub program: String,
    pub bytes: Option<u64>,
    pub dtype: &'static str,
    /// Dimensions of an array; `None` for what is not one.
    pub dims: Option<Box<[i64]>>,
    pub outcome: &'static str,
}

impl Details {
    /// With a name only.
    pub fn named(name: impl Into<String>) -> Details {
        Details { name: name.into(), ..Details::default() }
    }

    pub fn of_program(mut self, program: impl Into<String>) -> Details {
        self.program = program.into();
        self
    }

    pub fn outcome(mut self, outcome: &'static str) -> Details {
        self.outcome = outcome;
        self
    }

    pub fn bytes(mut self, bytes: u64) -> Details {
        self.bytes = Some(bytes);
        self
    }
}

/// Something that took place. Times count from the start of the record.
#[derive(Debug, Clone)]
pub struct Event {
    pub start: Duration,
    pub end: Duration,
    pub lane: Lane,
    pub activity: Activity,
    pub details: Details,
    /// The call that caused it, by its index in [`Record::sites`]; `None` if unknown.
    pub site: Option<usize>,
}

/// Where something takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lane {
    /// The host's thread.
    Host,
    /// Another thread, by its name.
    Thread(String),
    /// A device, by its label.
    Device(String),
}

/// A place in the host's program that calls this library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Site {
    pub call: String,
    pub file: String,
    /// 0 if unknown.
    pub line: u32,
}

/// The call after its place, as in "train.txt:12 f(x)".
impl Display for Site {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", _) => f.write_str(&self.call),
            (file, 0) => write!(f, "{file} {}", self.call),
            (file, line) => write!(f, "{file}:{line} {}", self.call),
        }
    }
}

/// All that took place.
#[derive(Debug, Default)]
pub struct Record {
    pub events: Vec<Event>,
    pub sites: Vec<Arc<Site>>,
    pub length: Duration,
    /// Events beyond the limit.
    pub dropped: u64,
    /// The time of its start on the system's clock, in nanoseconds since 1970.
    pub began: i64,
    /// The limit of events.
    most: usize,
}

impl Record {
    /// Adds events that others have recorded, up to the limit.
    pub fn merge(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.add(event);
        }
        self.events.sort_by_key(|event| event.start);
    }

    fn add(&mut self, event: Event) {
        if self.events.len() < self.most {
            self.events.push(event);
        } else {
            self.dropped += 1;
        }
    }
}

struct Session {
    number: u64,
    start: Instant,
    record: Record,
    known: HashMap<Arc<Site>, usize>,
    /// What may go on when the record ends.
    open: HashMap<u64, Event>,
    next: u64,
    generation: u32,
}

thread_local! {
    static IS_HOST: Cell<bool> = const { Cell::new(false) };
    /// The call that this thread works for: the record's number, and the site's index.
    static SITE: Cell<Option<(u64, usize)>> = const { Cell::new(None) };
    static LANE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether events are recorded.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Whether a record of this process goes on.
pub fn goes_on() -> bool {
    process::lock(&SESSION).is_some_and(|session| is_of_this_process(session.as_ref()))
}

fn is_of_this_process(session: Option<&Session>) -> bool {
    session.is_some_and(|session| session.generation == process::generation())
}

/// Starts a record of at most so many events, on the host's thread. Returns false if one goes on.
pub fn start(most: usize) -> bool {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    process::watch_forks();
    let Some(mut session) = process::lock(&SESSION) else { return false };
    let generation = process::generation();
    if is_of_this_process(session.as_ref()) {
        return false;
    }
    // Two clocks are read, one after the other, as one point of time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let began = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    IS_HOST.set(true);
    *session = Some(Session {
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        start: Instant::now(),
        record: Record { began, most, ..Record::default() },
        known: HashMap::new(),
        open: HashMap::new(),
        next: 1,
        generation,
    });
    IS_ON.store(true, Ordering::Relaxed);
    true
}

/// Ends the record, with what goes on still. `None` if there is none in this process.
pub fn stop() -> Option<Record> {
    IS_ON.store(false, Ordering::Relaxed);
    let Session { start, mut record, open, generation, .. } = process::lock(&SESSION)?.take()?;
    if generation != process::generation() {
        return None;
    }
    record.length = start.elapsed();
    for (_, mut event) in open {
        event.end = record.length;
        event.details.outcome = "unfinished";
        record.add(event);
    }
    record.events.sort_by_key(|event| event.start);
    queue_runs(&mut record.events);
    Some(record)
}

/// A device runs programs in order: a run begins when the one before has ended.
fn queue_runs(events: &mut [Event]) {
    let mut ends: Vec<(Lane, Duration)> = Vec::new();
    for event in events.iter_mut().filter(|event| event.activity == Activity::Run) {
        let known = ends.iter().position(|(lane, _)| *lane == event.lane).unwrap_or_else(|| {
            ends.push((event.lane.clone(), Duration::ZERO));
            ends.len() - 1
        });
        let last = &mut ends[known].1;
        if event.end > *last {
            event.start = event.start.max(*last);
            *last = event.end;
        }
    }
    events.sort_by_key(|event| event.start);
}

/// Records nothing in the child of a fork. Called there.
pub(crate) fn end_in_child() {
    IS_ON.store(false, Ordering::Relaxed);
}

/// Something that goes on. It is recorded when this is dropped.
#[must_use]
#[derive(Debug)]
pub struct Span(Option<Box<Running>>);

#[derive(Debug)]
struct Running {
    session: u64,
    /// The number of an event that the record keeps, for what may go on when the record ends.
    kept: Option<u64>,
    event: Event,
}

/// Starts an event on this thread.
#[inline(always)]
pub fn span(activity: Activity, details: impl FnOnce() -> Details) -> Span {
    if is_on() {
        begin(activity, None, details())
    } else {
        Span(None)
    }
}

/// Starts an event on a device, which may go on when the record ends.
#[inline(always)]
pub fn device_span(activity: Activity, device: &str, details: impl FnOnce() -> Details) -> Span {
    if is_on() {
        begin(activity, Some(Lane::Device(device.to_owned())), details()).kept()
    } else {
        Span(None)
    }
}

#[cold]
fn begin(activity: Activity, lane: Option<Lane>, details: Details) -> Span {
    let lane = lane.unwrap_or_else(this_lane);
    let Some(session) = process::lock(&SESSION) else { return Span(None) };
    let Some(session) = session.as_ref() else { return Span(None) };
    let site = SITE.get().filter(|(number, _)| *number == session.number).map(|(_, site)| site);
    let start = session.start.elapsed();
    let event = Event { start, end: start, lane, activity, details, site };
    Span(Some(Box::new(Running { session: session.number, kept: None, event })))
}

fn this_lane() -> Lane {
    if IS_HOST.get() {
        return Lane::Host;
    }
    let known = LANE.try_with(|lane| lane.try_borrow().ok().and_then(|lane| lane.clone())).ok().flatten();
    let name = || std::thread::current().name().unwrap_or("worker").trim_start_matches("pjrt-").replace('-', " ");
    Lane::Thread(known.unwrap_or_else(name))
}

pub fn name_lane(name: impl FnOnce() -> String) {
    if is_on() {
        LANE.set(Some(name()));
    }
}

impl Span {
    /// Records it as unfinished if it goes on when the record ends.
    pub fn kept(mut self) -> Span {
        if let Some(running) = &mut self.0 {
            with_session(running.session, |session| {
                if session.open.len() < session.record.most {
                    session.open.insert(session.next, running.event.clone());
                    running.kept = Some(session.next);
                    session.next += 1;
                }
            });
        }
        self
    }

    #[inline(always)]
    pub fn note(&mut self, note: impl FnOnce(&mut Details)) {
        if let Some(running) = &mut self.0 {
            note(&mut running.event.details);
        }
    }

    #[inline(always)]
    pub fn outcome(&mut self, outcome: &'static str) {
        self.note(|details| details.outcome = outcome);
    }

    /// Sets its outcome to "error" if this is one.
    #[inline(always)]
    pub fn check<T, E>(&mut self, result: &Result<T, E>) {
        if result.is_err() {
            self.outcome("error");
        }
    }

    /// Does not record it.
    pub fn forget(mut self) {
        if let Some(Running { session, kept: Some(kept), .. }) = self.0.take().as_deref() {
            with_session(*session, |session| session.open.remove(kept));
        }
    }
}

/// Does `work` with the session of this number, if it goes on.
fn with_session<T>(number: u64, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
    process::lock(&SESSION)?.as_mut().filter(|session| session.number == number).map(work)
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            end(*running);
        }
    }
}

#[cold]
fn end(running: Running) {
    let Running { session, kept, mut event } = running;
    with_session(session, |session| {
        if let Some(kept) = kept {
            session.open.remove(&kept);
        }
        event.end = session.start.elapsed();
        session.record.add(event);
    });
}

/// Until this is dropped, events of this thread are caused by another site.
#[derive(Debug)]
pub struct Cause(Option<(u64, usize)>);

/// What causes the events of this thread now, for work that it leaves to others. `None` while nothing is recorded.
#[inline(always)]
pub fn cause() -> Option<(u64, usize)> {
    if is_on() {
        SITE.get()
    } else {
        None
    }
}

/// The place of the call that this thread works for. `None` while nothing is recorded.
#[inline(always)]
pub fn site() -> Option<Arc<Site>> {
    if is_on() {
        known_site()
    } else {
        None
    }
}

#[cold]
fn known_site() -> Option<Arc<Site>> {
    let (number, site) = SITE.get()?;
    with_session(number, |session| session.record.sites.get(site).cloned())?
}

/// Events of this thread are caused by this, until the result is dropped.
#[inline(always)]
pub fn caused_by(cause: Option<(u64, usize)>) -> Option<Cause> {
    cause.map(|cause| Cause(SITE.replace(Some(cause))))
}

/// Events of this thread are caused by a call from this site, until the result is dropped.
pub fn called_from(site: Site) -> Option<Cause> {
    const MOST: usize = 100_000;
    let mut session = process::lock(&SESSION)?;
    let session = session.as_mut()?;
    let index = match session.known.get(&site) {
        Some(&index) => index,
        None if session.record.sites.len() >= MOST => return None,
        None => {
            let index = session.record.sites.len();
            let site = Arc::new(site);
            session.record.sites.push(site.clone());
            session.known.insert(site, index);
            index
        }
    };
    caused_by(Some((session.number, index)))
}

impl Drop for Cause {
    fn drop(&mut self) {
        SITE.set(self.0);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Held by tests that record, or do what is recorded: they share the process's record.
    pub(crate) static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn spans_are_recorded_with_thread_cause_and_outcome_while_a_record_goes_on() {
        let _alone = ALONE.lock();
        assert!(stop().is_none());
        span(Activity::Wait, || unreachable!()).outcome("never");
        assert!(start(100) && is_on() && !start(100));
        let site = |line| Site { call: "f(x)".into(), file: "a.txt".into(), line };
        let run = {
            let _cause = called_from(site(3));
            let mut outer = span(Activity::Call, || Details::named("f"));
            let inherited = cause();
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name("pjrt-dispatch-2".into());
                let work = move || {
                    let _cause = caused_by(inherited);
                    span(Activity::Launch, || Details::default().bytes(8)).check(&Err::<(), ()>(()));
                };
                thread.spawn_scoped(scope, work).unwrap();
            });
            drop(called_from(site(3)));
            outer.outcome("done");
            device_span(Activity::Run, "device 0", Details::default)
        };
        drop(span(Activity::Wait, Details::default));
        span(Activity::Wait, Details::default).forget();
        let record = stop().unwrap();
        drop(run);
        assert!(stop().is_none() && !is_on());
        assert_eq!(record.sites, [Arc::new(site(3))]);
        let of = |activity| record.events.iter().filter(|event| event.activity == activity).collect::<Vec<_>>();
        assert_eq!(record.events.len(), 4);
        assert_eq!(of(Activity::Call)[0].lane, Lane::Host);
        assert_eq!(of(Activity::Call)[0].details.outcome, "done");
        let launch = of(Activity::Launch)[0];
        assert_eq!((&launch.lane, launch.site), (&Lane::Thread("dispatch 2".into()), Some(0)));
        assert_eq!((launch.details.outcome, launch.details.bytes), ("error", Some(8)));
        let run = of(Activity::Run)[0];
        assert_eq!(
            (&run.lane, run.details.outcome, run.end),
            (&Lane::Device("device 0".into()), "unfinished", record.length)
        );
        assert_eq!(of(Activity::Wait)[0].site, None);
        assert!(record.events.iter().all(|event| event.start <= event.end && event.end <= record.length));
    }

    #[test]
    fn a_record_is_bounded_and_spans_do_not_reach_the_next_one() {
        let _alone = ALONE.lock();
        assert!(start(3));
        let late = span(Activity::Wait, Details::default);
        (0..5).for_each(|_| drop(span(Activity::Wait, Details::default)));
        let record = stop().unwrap();
        assert_eq!((record.events.len(), record.dropped), (3, 2));
        assert!(start(3) && goes_on());
        drop(late);
        let mut record = stop().unwrap();
        assert!(record.events.is_empty() && !goes_on());
        let event = |start| Event {
            start: Duration::from_secs(start),
            end: Duration::from_secs(9),
            lane: Lane::Device("GPU:0 stream 1".into()),
            activity: Activity::Device,
            details: Details::default(),
            site: None,
        };
        record.merge((0..5).rev().map(event));
        assert_eq!(record.events.iter().map(|event| event.start.as_secs()).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(record.dropped, 2);
    }
}
