//! Text for the host's console from threads that must not write there. It waits here for the thread that may.

use crate::error::{Kind, Result};
use crate::process;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// Texts in order of arrival.
#[derive(Debug)]
struct Waiting {
    texts: VecDeque<String>,
    bytes: usize,
    /// The number of texts that found no room.
    lost: usize,
    /// The child of a fork does not write what its parent writes.
    generation: u32,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { texts: VecDeque::new(), bytes: 0, lost: 0, generation: 0 });

static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Texts beyond this size are dropped: a program may print for as long as nobody looks.
const MOST_BYTES: usize = 16 << 20;

/// Writes a text. Its only error is `Interrupted`.
pub type Writer = fn(&str) -> Result<()>;

thread_local! {
    static WRITER: Cell<Option<Writer>> = const { Cell::new(None) };
}

/// Makes this thread write texts with `writer`.
pub fn set_writer(writer: Writer) {
    WRITER.set(Some(writer));
}

/// Makes this thread write nothing any more.
pub fn end() {
    WRITER.set(None);
}

/// Adds a text. Any thread may call this.
pub fn push(text: String) {
    let Some(mut waiting) = process::lock(&WAITING) else { return };
    waiting.forget_parents();
    if text.len() > MOST_BYTES.saturating_sub(waiting.bytes) {
        waiting.lost += 1;
    } else {
        waiting.bytes += text.len();
        waiting.texts.push_back(text);
    }
    IS_ANY.store(true, Ordering::Release);
}

#[inline]
pub fn is_waiting() -> bool {
    IS_ANY.load(Ordering::Acquire)
}

/// Writes the texts that wait, if this thread is the one that writes.
///
/// # Errors
/// `Interrupted` if the user interrupts it; the next call writes the rest.
#[inline]
pub fn flush() -> Result<()> {
    if is_waiting() {
        write_all()
    } else {
        Ok(())
    }
}

#[cold]
fn write_all() -> Result<()> {
    // Taken while it writes: what it calls may come here again.
    let Some(writer) = WRITER.take() else { return Ok(()) };
    let mut written = Ok(());
    while let Some(text) = next() {
        written = writer(&text);
        if written.as_ref().is_err_and(|error| error.kind() == Kind::Interrupted) {
            break;
        }
    }
    WRITER.set(Some(writer));
    written
}

fn next() -> Option<String> {
    let mut waiting = process::lock(&WAITING)?;
    waiting.forget_parents();
    let text = waiting.texts.pop_front();
    match &text {
        Some(text) => waiting.bytes -= text.len(),
        None if waiting.lost > 0 => {
            return Some(format!("[{} outputs were lost]\n", std::mem::take(&mut waiting.lost)))
        }
        None => IS_ANY.store(false, Ordering::Release),
    }
    text
}

impl Waiting {
    fn forget_parents(&mut self) {
        let generation = process::generation();
        if self.generation != generation {
            *self = Waiting { texts: VecDeque::new(), bytes: 0, lost: 0, generation };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::RefCell;

    thread_local! {
        static WRITTEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn write(text: &str) -> Result<()> {
        WRITTEN.with_borrow_mut(|written| written.push(text.to_owned()));
        // what it calls may flush, too
        flush()?;
        ensure!(text != "interrupt", Error::new(Kind::Interrupted, "Interrupted."));
        Ok(())
    }

    #[test]
    fn texts_are_written_in_order_by_the_thread_that_may() {
        flush().unwrap();
        assert!(!is_waiting());
        std::thread::spawn(|| {
            ["a", "interrupt", "b"].into_iter().for_each(|text| push(text.to_owned()));
            flush().unwrap();
        })
        .join()
        .unwrap();
        assert!(is_waiting());
        set_writer(write);
        assert_eq!(flush().unwrap_err().kind(), Kind::Interrupted);
        assert!(is_waiting());
        flush().unwrap();
        assert!(!is_waiting());
        push("x".repeat(MOST_BYTES));
        push("y".into());
        push("z".into());
        flush().unwrap();
        let mut written = WRITTEN.take();
        assert_eq!(written.remove(3).len(), MOST_BYTES);
        assert_eq!(written, ["a", "interrupt", "b", "[2 outputs were lost]\n"]);
        end();
        push("later".into());
        flush().unwrap();
        assert!(is_waiting() && WRITTEN.take().is_empty());
    }
}
