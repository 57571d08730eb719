//! How much memory a client's buffers took over time. Changes of less than [`STEP`] are not noticed at once, so that buffers
//! which are created and dropped quickly cost one comparison more.

use pjrt_base::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Changes of so many bytes are recorded.
pub const STEP: usize = 1 << 20;

/// As many spans of time are kept. When more are needed, neighbours are joined.
const SPANS: usize = 512;

/// The length of a span at first.
const SHORTEST: Duration = Duration::from_millis(10);

/// The bytes of the live buffers in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When the first change in it was recorded, after the client was created.
    pub from: Duration,
    /// When the last one was.
    pub at: Duration,
    pub lowest: usize,
    pub highest: usize,
    /// After the last change.
    pub last: usize,
}

/// The recorded spans, and between which bytes nothing needs to be recorded.
#[derive(Debug)]
pub(crate) struct History {
    above: AtomicUsize,
    below: AtomicUsize,
    record: Mutex<Record>,
}

impl Default for History {
    fn default() -> Self {
        let record = Record { start: Instant::now(), length: SHORTEST, spans: Vec::new() };
        History { above: AtomicUsize::new(STEP), below: AtomicUsize::new(0), record: Mutex::new(record) }
    }
}

impl History {
    /// Notes the bytes after an increase.
    #[inline]
    pub(crate) fn rose(&self, live: usize) {
        if live >= self.above.load(Ordering::Relaxed) {
            self.note(live);
        }
    }

    /// Notes the bytes after a decrease.
    #[inline]
    pub(crate) fn fell(&self, live: usize) {
        if live < self.below.load(Ordering::Relaxed) {
            self.note(live);
        }
    }

    #[cold]
    fn note(&self, live: usize) {
        self.above.store(live.saturating_add(STEP), Ordering::Relaxed);
        self.below.store(live.saturating_sub(STEP), Ordering::Relaxed);
        // A fork may have happened while another thread held the lock.
        if let Some(mut record) = process::lock(&self.record) {
            let at = record.start.elapsed();
            record.note(at, live);
        }
    }

    /// What was recorded, in order, ending with the bytes now; and how long ago the client was created.
    pub(crate) fn spans(&self, live: usize) -> (Vec<Span>, Duration) {
        let Some(record) = process::lock(&self.record) else { return (Vec::new(), Duration::ZERO) };
        let (mut spans, at) = (record.spans.clone(), record.start.elapsed());
        spans.push(Span { from: at, at, lowest: live, highest: live, last: live });
        (spans, at)
    }
}

#[derive(Debug)]
struct Record {
    start: Instant,
    /// Of a span.
    length: Duration,
    /// In order of time; none where nothing changed.
    spans: Vec<Span>,
}

impl Record {
    fn note(&mut self, at: Duration, live: usize) {
        self.add(Span { from: at, at, lowest: live, highest: live, last: live });
        while self.spans.len() > SPANS {
            self.length *= 2;
            let spans = std::mem::take(&mut self.spans);
            spans.into_iter().for_each(|span| self.add(span));
        }
    }

    /// Adds a span, which is the latest, or joins it to the one before if the same length of time holds both.
    fn add(&mut self, span: Span) {
        let place = |at: Duration| at.as_nanos() / self.length.as_nanos();
        match self.spans.last_mut() {
            Some(before) if place(before.at) == place(span.at) => {
                before.lowest = before.lowest.min(span.lowest);
                before.highest = before.highest.max(span.highest);
                (before.at, before.last) = (span.at, span.last);
            }
            _ => self.spans.push(span),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record { start: Instant::now(), length: SHORTEST, spans: Vec::new() }
    }

    #[test]
    fn changes_within_a_span_leave_the_lowest_the_highest_and_the_last() {
        let mut record = record();
        let ms = Duration::from_millis;
        for (at, live) in [(1, 5), (2, 9), (3, 2), (4, 7), (12, 8)] {
            record.note(ms(at), live);
        }
        let span = |from, at, lowest, highest, last| Span { from: ms(from), at: ms(at), lowest, highest, last };
        assert_eq!(record.spans, [span(1, 4, 2, 9, 7), span(12, 12, 8, 8, 8)]);
    }

    #[test]
    fn a_long_record_stays_short_and_keeps_its_extremes() {
        let mut record = record();
        for i in 0..100_000u64 {
            let live = if i == 77_777 { 1_000_000 } else { 1000 + i as usize % 7 };
            record.note(SHORTEST * i as u32, live);
        }
        assert!((SPANS / 4..=SPANS).contains(&record.spans.len()), "{}", record.spans.len());
        assert_eq!(record.spans.iter().map(|span| span.highest).max(), Some(1_000_000));
        assert_eq!(record.spans.iter().map(|span| span.lowest).min(), Some(1000));
        assert!(record.spans.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(record.spans.last().map(|span| span.last), Some(1000 + 99_999 % 7));
    }

    #[test]
    fn small_changes_are_recorded_once_they_add_up() {
        let history = History::default();
        let recorded = || history.record.lock().unwrap().spans.iter().map(|span| span.last).collect::<Vec<_>>();
        history.rose(STEP - 1);
        assert!(recorded().is_empty());
        history.rose(STEP);
        history.fell(1);
        assert_eq!(recorded(), [STEP]);
        history.fell(0);
        assert_eq!(history.spans(3).0.last().map(|span| span.last), Some(3));
    }
}
