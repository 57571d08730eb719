//! Memory: what R is told of memory that it does not see, and how much there is of it.

use crate::r::conditions::Result;
use crate::r::describe::describe;
use crate::r::handle;
pub use crate::r::handle::weight;
use crate::r::pins;
use crate::r::pooled::Pooled;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_base::room;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_core::buffer::upload::{Upload, UploadRoute, BACKGROUND};
use pjrt_core::client::history::Span;
pub use pjrt_core::client::retry::with_retry;
use pjrt_core::client::{self, holdings};
use pjrt_core::dlpack;
use pjrt_core::host::pool::{self, PoolBlock};
use pjrt_core::runtime::oom;
use pjrt_core::Client;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// New bytes that are never too many.
const FEW_BYTES: usize = 64 << 20;

/// New bytes above which garbage is collected in any case.
const MANY_BYTES: usize = 512 << 20;

/// Bytes of host memory, taken from the pool or afresh, after which R looks for young garbage: a quick search.
const YOUNG_BYTES: usize = 64 << 20;

/// Bytes of fresh host memory, at least, before R looks for all garbage; and how many for each microsecond that a full
/// search takes: to touch as much takes longer.
const FRESH_BYTES: usize = 64 << 20;
const FRESH_BYTES_PER_MICROSECOND: usize = 4 << 10;

/// A full search that finds little makes the next one wait, but not for more than this.
const FRESH_BYTES_AT_MOST: usize = 2 << 30;

/// From this size on, calls should return at once: R looks for young garbage only, which takes a small part of the time that
/// fresh memory would take.
const IMMEDIATE: usize = 64 << 20;

/// Collects garbage when the client's new buffers have taken a quarter of the free memory, so that a loop which drops
/// its results runs in bounded memory although R does not see their size.
///
/// # Errors
/// `Interrupted` when the user interrupts that.
pub fn collect_under_pressure(client: &Client) -> pjrt_base::error::Result<()> {
    collect_from(client, MANY_BYTES)
}

/// The same for calls that should return at once: only when memory is scarce.
pub fn collect_if_scarce(client: &Client) -> pjrt_base::error::Result<()> {
    collect_from(client, usize::MAX)
}

/// Has R collect garbage before much host memory is taken from the system afresh, so that a loop which drops its results
/// finds the memory of those again. R may leave this by a long jump.
pub fn collect_for_pool(bytes: usize) -> Result<()> {
    static ENOUGH: AtomicUsize = AtomicUsize::new(FRESH_BYTES);
    if bytes < pool::LARGE {
        return Ok(());
    }
    apply_limit()?;
    let limit = pool::limit();
    if limit < bytes || pool::has(bytes) {
        return Ok(());
    }
    if pool::handed_out() >= YOUNG_BYTES.min(limit) {
        pool::reset_handed_out();
        let span = trace::span(Activity::Collection, || Details::named("young"));
        sexp::call_ours(c"collect_young", sexp::nil());
        drop(span);
        if pool::has(bytes) {
            return Ok(());
        }
    }
    let (fresh, enough) = (pool::fresh(), ENOUGH.load(Ordering::Relaxed));
    if fresh >= enough && bytes < IMMEDIATE {
        let start = Instant::now();
        collect()?;
        // Memory that is still in use was not garbage: the next search waits longer.
        let useful = pool::kept() >= limit.min(fresh) / 2;
        let by_time = FRESH_BYTES_PER_MICROSECOND * start.elapsed().as_micros() as usize;
        let next = if useful { by_time.max(FRESH_BYTES) } else { 2 * enough };
        ENOUGH.store(next.min(FRESH_BYTES_AT_MOST), Ordering::Relaxed);
    }
    Ok(())
}

/// Has R collect garbage as an upload needs it. R may leave this by a long jump.
pub fn prepare(upload: &Upload) -> Result<()> {
    let (client, route, size) = (upload.device().client(), upload.route(), upload.spec().bytes());
    if route.is_staged() {
        collect_for_pool(size)?;
    }
    if route == UploadRoute::Background {
        collect_if_scarce(client)?;
    } else {
        collect_under_pressure(client)?;
    }
    if route == UploadRoute::Now {
        check_host_room(size, || holdings::arrays([upload.spec()]))?;
    }
    Ok(())
}

/// The number of new bytes at which somebody next asks how much memory is free, which takes longer than a small program.
static NEXT_LOOK: AtomicUsize = AtomicUsize::new(FEW_BYTES);

/// Collects garbage when new buffers have taken `many` bytes or a quarter of what is free.
fn collect_from(client: &Client, many: usize) -> pjrt_base::error::Result<()> {
    let new = client.usage().new_bytes();
    if new < NEXT_LOOK.load(Ordering::Relaxed) {
        return Ok(());
    }
    NEXT_LOOK.store(new + FEW_BYTES / 2, Ordering::Relaxed);
    match room::available_memory().map_or(MANY_BYTES, |free| (free / 4).min(many)) {
        limit if new >= limit => collect(),
        _ => Ok(()),
    }
}

/// Collects garbage, finalizers included.
///
/// # Errors
/// `Interrupted` when the user interrupts it.
pub fn collect() -> pjrt_base::error::Result<()> {
    let _span = trace::span(Activity::Collection, || Details::named("full"));
    // SAFETY: on R's main thread; a jump ends in `interruptible`.
    sexp::interruptible(|| unsafe { sexp::R_gc() })?;
    client::all().iter().for_each(|client| client.usage().reset_new_bytes());
    pool::reset_fresh();
    pool::reset_handed_out();
    NEXT_LOOK.store(FEW_BYTES, Ordering::Relaxed);
    Ok(())
}

/// That there is host memory for so many bytes. Comes before R is asked for a vector as large, so that what is too large is an
/// error of ours.
pub fn check_host_room(bytes: usize, asked: impl FnOnce() -> String) -> Result<()> {
    if bytes >= pool::LARGE && !pool::has(bytes) {
        with_retry(asked, || room::check_room(bytes, "for an array"))?;
    }
    Ok(())
}

/// Collects garbage for another thread that waits for memory.
///
/// # Errors
/// `Interrupted` when the user interrupts that.
pub fn collect_for_others() -> pjrt_base::error::Result<()> {
    collect()?;
    pool::clear();
    oom::collected();
    Ok(())
}

/// Makes room for a copy of a buffer in host memory, and gives what stands for it in R: nil where that is too large, and
/// would have R collect all its garbage first. Such copies are counted with the client's buffers. Not protected.
pub fn room_for_copy(client: &Client, bytes: usize) -> Result<SEXP> {
    collect_for_pool(bytes)?;
    if bytes < BACKGROUND {
        collect_under_pressure(client)?;
        return Ok(weight(bytes));
    }
    collect_if_scarce(client)?;
    client.usage().add_new_bytes(bytes);
    Ok(sexp::nil())
}

/// Bytes that R has not heard of, and after how many it does.
struct Unheard {
    bytes: AtomicUsize,
    batch: usize,
}

impl Unheard {
    const fn of(batch: usize) -> Self {
        Unheard { bytes: AtomicUsize::new(0), batch }
    }

    /// R may leave this by a long jump.
    fn count(&self, bytes: usize) {
        let unheard = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unheard >= self.batch {
            self.bytes.store(0, Ordering::Relaxed);
            weight(unheard);
        }
    }
}

/// Counts a new buffer for R: what a plugin keeps for each takes more memory than its elements, if these are few. R then
/// looks for garbage after some thousands of them: more often takes more time than it saves, and after more of them, what they
/// leave does not fit into caches.
pub fn count_buffer() {
    const EACH: usize = 12 << 10;
    static UNHEARD: Unheard = Unheard::of(1 << 20);
    UNHEARD.count(EACH);
}

/// Counts the content of a program's result, too, which lies in host memory: twice, since to look for garbage early takes
/// less time than to write to memory that no cache holds, but takes time itself. Large ones count as less, so that R does not
/// look every time; there is [`collect_under_pressure`] for them.
pub fn count_result(bytes: usize) {
    const TIMES: usize = 2;
    const AT_MOST: usize = 1 << 20;
    static UNHEARD: Unheard = Unheard::of(4 << 20);
    UNHEARD.count((TIMES * bytes).min(AT_MOST));
}

/// A vector in memory from the pool, aligned as devices want it, with room for `len` values of `width` bytes each, which the
/// caller writes; small ones lie in R's own memory. Not protected.
pub fn pooled_vector(kind: SEXPTYPE, len: usize, width: usize) -> Result<SEXP> {
    let bytes = len * width;
    if bytes < pool::LARGE {
        return Ok(sexp::vector(kind, len));
    }
    collect_for_pool(bytes)?;
    let asked = || format!("an R vector of {}", room::size(bytes));
    check_host_room(bytes, asked)?;
    // Garbage at once: what counts is that R hears of the bytes; of half of them, since the pool has them again. R may leave
    // this by a long jump.
    weight(bytes / 2);
    let vector = Pooled::new(kind);
    let _protected = Protected::new(vector.sexp());
    let block = with_retry(asked, || PoolBlock::new(bytes))?;
    // SAFETY: protected just now.
    Ok(unsafe { vector.fill(block, len)? })
}

/// Bounds the pool by `options(pjrt.staging_max = )`.
fn apply_limit() -> Result<()> {
    let option = sexp::option(c"pjrt.staging_max");
    let limit = match sexp::number(option) {
        None if sexp::is_nil(option) => pool::DEFAULT_LIMIT,
        Some(bytes) if bytes >= 0.0 => bytes as usize,
        _ => bail!(
            InvalidType,
            "`options(pjrt.staging_max = )` must be a number of bytes, 0 or more, not {}.",
            describe(option)
        ),
    };
    pool::set_limit(limit);
    Ok(())
}

/// The live bytes of a client over time: seconds since 1970, and the bytes in each span of time.
fn history(client: &Client, now: Duration) -> List {
    let (spans, age) = client.usage().history();
    let column = |value: &dyn Fn(&Span) -> f64| spans.iter().map(value).collect::<Vec<_>>();
    let start = now.saturating_sub(age);
    list!(
        from = column(&|span| (start + span.from).as_secs_f64()),
        time = column(&|span| (start + span.at).as_secs_f64()),
        lowest = column(&|span| span.lowest as f64),
        highest = column(&|span| span.highest as f64),
        live_bytes = column(&|span| span.last as f64)
    )
}

/// What the clients and the pool hold, in bytes, and how many objects R holds.
pub fn memory_stats() -> Result<List> {
    pins::drain();
    dlpack::release_pending();
    apply_limit()?;
    let clients = client::all();
    let column = |value: fn(&Client) -> f64| clients.iter().map(value).collect::<Vec<_>>();
    let (classes, counts): (Vec<_>, Vec<_>) =
        handle::live().map(|(class, count)| (class.to_str().unwrap_or_default(), count as f64)).unzip();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let histories: Vec<_> = clients.iter().map(|client| history(client, now)).collect();
    Ok(list!(
        histories = List::from_values(histories),
        platform = clients.iter().map(Client::platform).collect::<Vec<_>>(),
        live_buffers = column(|c| c.usage().live_buffers() as f64),
        live_bytes = column(|c| c.usage().live_bytes() as f64),
        live_executables = column(|c| c.usage().live_executables() as f64),
        classes = classes,
        objects = counts,
        staging_in_use = pool::in_use() as f64,
        staging_kept = pool::kept() as f64,
        staging_max = pool::limit() as f64,
        pinned = pins::count() as f64
    ))
}
