//! Progress on the console: bars for work of a known size, and the time of long waits. R's part is R/progress.R, which
//! draws with package cli if it is there.

use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use pjrt_base::room::rough_size;
use std::cell::Cell;
use std::ffi::CStr;
use std::time::{Duration, Instant};

thread_local! {
    /// What R waits for.
    static WORK: Cell<&'static str> = const { Cell::new("waiting for the device") };
}

/// Waits for work that has this name where the wait is shown.
pub fn doing<T>(name: &'static str, wait: impl FnOnce() -> T) -> T {
    struct Restore(&'static str);
    impl Drop for Restore {
        fn drop(&mut self) {
            WORK.set(self.0);
        }
    }
    let _restore = Restore(WORK.replace(name));
    wait()
}

/// Shows a wait of R's main thread; see [`pjrt_base::process::ShowWait`].
pub fn show_wait(elapsed: Option<Duration>) -> bool {
    match elapsed {
        Some(elapsed) => call(c"wait_progress", WORK.get(), &[elapsed.as_secs_f64()]).is_ok(),
        None => {
            end(c"end_wait");
            true
        }
    }
}

fn end(function: &CStr) {
    // An interrupt is too late for this work, and R sees it soon.
    if call(function, "", &[]).is_err() {
        pjrt_base::process::interrupt_again();
    }
}

/// Calls a function of R/progress.R with a name and numbers. Returns whether it returned `TRUE`; an R error counts as
/// `FALSE`.
fn call(function: &CStr, name: &str, numbers: &[f64]) -> pjrt_base::error::Result<bool> {
    let mut answer = false;
    sexp::guarded(|| {
        let name = Protected::new(sexp::new_string(name));
        let arguments = Protected::new(sexp::list([name.sexp(), sexp::new_doubles(numbers)]));
        answer = sexp::flag(sexp::call_ours(function, arguments.sexp())).unwrap_or(false);
    })?;
    Ok(answer)
}

/// The shortest time between two updates.
const PAUSE: Duration = Duration::from_millis(100);
/// The time of work after which its bar is shown, as for waits.
const LONG: Duration = Duration::from_secs(2);
/// The width of the bar, if there is room for it.
const WIDTH: usize = 24;

/// A progress bar that overwrites itself. Draws nothing unless it is shown.
pub struct Bar<'a> {
    /// The name of the work.
    label: &'a str,
    visible: bool,
    /// Columns of the console.
    columns: usize,
    /// Nothing is drawn before.
    from: Instant,
    /// The time of the first byte, and the number of bytes before.
    start: Option<(Instant, u64)>,
    drawn_at: Option<Instant>,
    /// The line on the console, and its length.
    drawn_done: u64,
    drawn: usize,
    /// Whether R draws it.
    is_rs: bool,
}

impl<'a> Bar<'a> {
    pub fn new(label: &'a str, visible: bool, columns: usize) -> Self {
        let from = Instant::now();
        Bar { label, visible, columns, from, start: None, drawn_at: None, drawn_done: 0, drawn: 0, is_rs: false }
    }

    /// A bar that is shown only if the work takes long.
    pub fn of_long_work(label: &'a str, visible: bool, columns: usize) -> Self {
        let bar = Bar::new(label, visible, columns);
        Bar { start: Some((bar.from, 0)), from: bar.from + LONG, ..bar }
    }

    /// Draws the bar, unless it was drawn very recently.
    pub fn show(&mut self, done: u64, total: Option<u64>) {
        let due = self.drawn_at.is_none_or(|at| at.elapsed() >= PAUSE) || total == Some(done);
        if !self.visible || done == 0 || done == self.drawn_done || !due || Instant::now() < self.from {
            return;
        }
        let (start, before) = *self.start.get_or_insert((Instant::now(), done));
        let arrived = done.saturating_sub(before);
        if self.is_rs || self.drawn_at.is_none() {
            let total = total.map_or(f64::NAN, |total| total as f64);
            let numbers = [done as f64, total, arrived as f64, start.elapsed().as_secs_f64()];
            match call(c"bar_progress", self.label, &numbers) {
                Ok(is_drawn) => self.is_rs = is_drawn,
                // The work itself sees it.
                Err(_) => pjrt_base::process::interrupt_again(),
            }
        }
        (self.drawn_at, self.drawn_done) = (Some(Instant::now()), done);
        if self.is_rs {
            return;
        }
        let line = line(self.label, done, total, arrived, start.elapsed(), self.columns);
        // Blanks overwrite the rest of a longer line.
        let blanks = self.drawn.saturating_sub(line.len());
        reprint!("\r{line}{:blanks$}", "");
        self.drawn = line.len();
    }

    /// Ends the line.
    pub fn finish(&mut self) {
        if self.is_rs {
            end(c"end_progress");
        } else if self.drawn > 0 {
            reprint!("\n");
        }
    }
}

/// The line: `arrived` bytes were done in `time`. The bar shrinks on a narrow console, since a line that wraps cannot
/// be overwritten.
fn line(label: &str, done: u64, total: Option<u64>, arrived: u64, time: Duration, columns: usize) -> String {
    let rate = arrived as f64 / time.as_secs_f64().max(0.001);
    let speed = if arrived > 0 && time > PAUSE { format!(", {}/s", rough_size(rate)) } else { String::new() };
    let Some(total) = total.filter(|total| *total >= done) else {
        return format!("{label}: {}{speed}", rough_size(done as f64));
    };
    let share = done as f64 / total.max(1) as f64;
    let left = if speed.is_empty() || done == total {
        String::new()
    } else {
        format!(", {} left", duration((total - done) as f64 / rate))
    };
    let text = format!("{:3.0}% of {}{speed}{left}", (share * 100.0).floor(), rough_size(total as f64));
    let room = columns.saturating_sub(format!("{label} [] {text} ").len()).min(WIDTH);
    if room < 4 {
        return format!("{label} {text}");
    }
    let filled = (share * room as f64) as usize;
    format!("{label} [{:=<filled$}{:empty$}] {text}", "", "", empty = room - filled)
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_shows_progress_and_remaining_time() {
        let second = Duration::from_secs(1);
        let half = line("cuda plugin", 1_000_000_000, Some(2_000_000_000), 100_000_000, second * 10, 80);
        assert_eq!(half, "cuda plugin [============            ]  50% of 2.0 GB, 10 MB/s, 2 min left");
        let end = line("cpu plugin", 63_000_000, Some(63_000_000), 63_000_000, second, 80);
        assert_eq!(end, "cpu plugin [========================] 100% of 63 MB, 63 MB/s");
        let narrow = line("cuda plugin", 1_000_000_000, Some(2_000_000_000), 100_000_000, second * 10, 60);
        assert_eq!(narrow, "cuda plugin [====     ]  50% of 2.0 GB, 10 MB/s, 2 min left");
        assert_eq!(narrow.len(), 59, "the last column is left free");
        let narrowest = line("cuda plugin", 1_000_000_000, Some(2_000_000_000), 100_000_000, second * 10, 30);
        assert_eq!(narrowest, "cuda plugin  50% of 2.0 GB, 10 MB/s, 2 min left");
        assert_eq!(line("cpu plugin", 500_000, None, 0, Duration::ZERO, 80), "cpu plugin: 500 kB");
        assert_eq!(line("cpu plugin", 5, Some(3), 0, Duration::ZERO, 80), "cpu plugin: 0 kB");
    }
}
