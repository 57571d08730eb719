//! Traces: what was recorded of a session's work, as columns for R and as JSON for viewers.

use crate::r::conditions::Result;
use crate::r::entry::CallRecord;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_base::trace::{self as record, Activity, Details, Event, Lane, Record, Site};
use pjrt_core::executable::serialized;
use pjrt_core::runtime::profiler;
use pjrt_data::layout::format_dims;
use serde_json::{json, Map, Value};
use std::cell::RefCell;
use std::path::Path;

thread_local! {
    /// The calls of native functions with typed arguments, each in a callback of the one before.
    static CALLS: RefCell<Vec<CallRecord>> = const { RefCell::new(Vec::new()) };
}

/// Records a call from R until the result is dropped. R may leave this by a long jump.
#[cold]
pub fn entered() -> CallRecord {
    let site = Protected::new(sexp::call_ours(c"trace_site", sexp::nil()));
    call(site.sexp())
}

/// The call from this place, which `trace_site()` in R/trace.R describes.
fn call(site: SEXP) -> CallRecord {
    let text = |name: &str| {
        // SAFETY: the caller protects the list.
        let text = sexp::element(site, name).and_then(|value| unsafe { sexp::string(value) });
        text.unwrap_or_default().to_owned()
    };
    let line = sexp::element(site, "line").and_then(sexp::number).filter(|line| *line > 0.0).unwrap_or(0.0) as u32;
    let cause = record::called_from(Site { call: text("call"), file: text("file"), line });
    let span = record::span(Activity::Call, || Details::named(text("name")));
    CallRecord { span, _cause: cause }
}

/// Starts a record of at most so many events, and the profilers of plugins. Returns what failed there, in words; NULL if a
/// record goes on.
pub fn trace_start(most: f64) -> Robj {
    if record::goes_on() {
        return ().into();
    }
    CALLS.take();
    // They may need a while to start, which is not to be in the record.
    let failures = profiler::start_all();
    record::start(most as usize);
    failures.into()
}

/// Whether a record goes on.
pub fn trace_is_on() -> bool {
    record::is_on()
}

/// Records a call of a native function with typed arguments, until `trace_leave()`.
pub fn trace_enter(site: Robj) {
    if record::is_on() {
        let call = call(sexp::of(&site));
        CALLS.with_borrow_mut(|calls| calls.push(call));
    }
}

pub fn trace_leave() {
    let call = CALLS.with_borrow_mut(Vec::pop);
    drop(call);
}

/// Ends the record, and gives its columns; NULL if there is none.
pub fn trace_stop() -> Result<Robj> {
    CALLS.take();
    let Some(mut record) = record::stop() else { return Ok(().into()) };
    let failures = profiler::stop_all(&mut record);
    Ok(columns(&record, failures))
}

fn columns(record: &Record, failures: Vec<String>) -> Robj {
    let Record { events, sites, length, dropped, .. } = record;
    let site = |event: &Event| event.site.and_then(|site| sites.get(site));
    let numbers = |number: &dyn Fn(&Event) -> Option<f64>| -> Robj {
        events.iter().map(|event| number(event).map_or_else(Rfloat::na, Rfloat::from)).collect::<Doubles>().into()
    };
    // R shares equal strings; extendr makes them one by one.
    let texts = |text: &dyn Fn(&Event) -> Option<String>| -> Robj {
        let text = |event: &Event| text(event).filter(|text| !text.is_empty());
        events.iter().map(|event| text(event).map_or_else(Rstr::na, Rstr::from)).collect::<Strings>().into()
    };
    list!(
        start = numbers(&|event| Some(event.start.as_secs_f64())),
        end = numbers(&|event| Some(event.end.as_secs_f64())),
        lane = texts(&|event| Some(lane_name(&event.lane).to_owned())),
        kind = texts(&|event| Some(event.activity.name().to_owned())),
        name = texts(&|event| Some(event.details.name.clone())),
        bytes = numbers(&|event| event.details.bytes.map(|bytes| bytes as f64)),
        dtype = texts(&|event| Some(event.details.dtype.to_owned())),
        shape = texts(&|event| event.details.dims.as_ref().map(|dims| format!("[{}]", format_dims(dims)))),
        program = texts(&|event| Some(event.details.program.clone())),
        call = texts(&|event| site(event).map(|site| site.call.clone())),
        line = numbers(&|event| site(event).filter(|site| site.line > 0).map(|site| f64::from(site.line))),
        file = texts(&|event| site(event).map(|site| site.file.clone())),
        outcome = texts(&|event| Some(event.details.outcome.to_owned())),
        is_device = events.iter().map(|event| matches!(event.lane, Lane::Device(_))).collect::<Vec<bool>>(),
        length = length.as_secs_f64(),
        dropped = *dropped as f64,
        failures = failures
    )
    .into()
}

fn lane_name(lane: &Lane) -> &str {
    match lane {
        Lane::Host => "R",
        Lane::Thread(name) | Lane::Device(name) => name,
    }
}

/// A column of a trace, by row.
struct Column<'a> {
    texts: Option<Strings>,
    numbers: Option<Doubles>,
    name: &'a str,
}

impl Column<'_> {
    fn of<'a>(events: &List, name: &'a str) -> Column<'a> {
        let found = events.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        let texts = found.clone().and_then(|value| Strings::try_from(value).ok());
        Column { texts, numbers: found.and_then(|value| Doubles::try_from(value).ok()), name }
    }

    fn text(&self, row: usize) -> Option<String> {
        let text = self.texts.as_ref().filter(|texts| row < texts.len()).map(|texts| texts.elt(row))?;
        (!text.is_na()).then(|| text.as_ref().to_owned())
    }

    fn number(&self, row: usize) -> Option<f64> {
        let number = self.numbers.as_ref().filter(|numbers| row < numbers.len()).map(|numbers| numbers.elt(row))?;
        Option::<f64>::from(number).filter(|number| number.is_finite())
    }

    fn value(&self, row: usize) -> Option<Value> {
        let number = |number: f64| if number.fract() == 0.0 { json!(number as i64) } else { json!(number) };
        self.text(row).map(Value::from).or_else(|| self.number(row).map(number))
    }
}

/// Writes the events of a trace to a file, in the JSON of Chrome's viewer and Perfetto, which other viewers read, too.
pub fn trace_write(events: List, lanes: Strings, path: &str) -> Result<()> {
    Ok(serialized::write(Path::new(path), format!("{}\n", in_json(&events, &lanes)).as_bytes())?)
}

fn in_json(events: &List, lanes: &Strings) -> Value {
    let [start, end] = ["start", "end"].map(|name| Column::of(events, name));
    let [lane, kind, name] = ["lane", "kind", "name"].map(|name| Column::of(events, name));
    let details = ["bytes", "dtype", "shape", "program", "call", "line", "file", "outcome"];
    let details = details.map(|name| Column::of(events, name));
    let rows = start.numbers.as_ref().map_or(0, Doubles::len);
    let nanoseconds = |column: &Column, row| (column.number(row).unwrap_or(0.0) * 1e9).round().max(0.0) as u64;
    let mut order: Vec<(u64, u64, usize)> =
        (0..rows).map(|row| (nanoseconds(&start, row), nanoseconds(&end, row), row)).collect();
    // What contains others comes first.
    order.sort_by_key(|&(start, end, row)| (start, std::cmp::Reverse(end), row));

    let lanes: Vec<String> = lanes.iter().map(|lane| lane.as_ref().to_owned()).collect();
    let mut tracks = Tracks::default();
    let mut all = Vec::with_capacity(rows);
    for (start, end, row) in order {
        let lane = lane.text(row).unwrap_or_default();
        let index = lanes.iter().position(|known| *known == lane).unwrap_or(lanes.len());
        let track = tracks.place(&lane, index, start, end.max(start));
        let kind = kind.text(row).unwrap_or_default();
        let known = details.iter().filter_map(|column| Some((column.name.to_owned(), column.value(row)?)));
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        all.push(json!({
            "name": name.text(row).unwrap_or_else(|| kind.clone()),
            "cat": kind,
            "ph": "X",
            "ts": microseconds(start),
            "dur": microseconds(end.max(start) - start),
            "pid": 1,
            "tid": track,
            "args": known.collect::<Map<_, _>>(),
        }));
    }
    let named =
        |name: &str, tid: usize, args: Value| json!({"name": name, "ph": "M", "pid": 1, "tid": tid, "args": args});
    let mut written = vec![named("process_name", 0, json!({"name": "pjrt"}))];
    for (tid, track) in tracks.0.iter().enumerate() {
        written.push(named("thread_name", tid + 1, json!({"name": track.name})));
        written.push(named("thread_sort_index", tid + 1, json!({"sort_index": track.sort})));
    }
    written.append(&mut all);
    json!({"traceEvents": written, "displayTimeUnit": "ms", "otherData": {"writer": "pjrt"}})
}

/// The rows of a viewer. In one of them, events lie beside or inside each other.
#[derive(Default)]
struct Tracks(Vec<Track>);

struct Track {
    lane: String,
    name: String,
    sort: usize,
    /// The ends of events that contain the next one.
    open: Vec<u64>,
}

impl Tracks {
    /// The number of the track, from 1, where an event fits. Events come in the order of their starts.
    fn place(&mut self, lane: &str, index: usize, start: u64, end: u64) -> usize {
        const MANY: usize = 1000;
        let mut count = 0;
        for (number, track) in self.0.iter_mut().enumerate().filter(|(_, track)| track.lane == lane) {
            while track.open.last().is_some_and(|&last| last <= start) {
                track.open.pop();
            }
            if track.open.last().is_none_or(|&last| end <= last) {
                track.open.push(end);
                return number + 1;
            }
            count += 1;
        }
        let name = if count == 0 { lane.to_owned() } else { format!("{lane} ({})", count + 1) };
        self.0.push(Track { lane: lane.to_owned(), name, sort: index * MANY + count.min(MANY - 1), open: vec![end] });
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_overlap_get_tracks_of_their_own() {
        let mut tracks = Tracks::default();
        let mut place = |start, end| tracks.place("a", 0, start, end);
        assert_eq!(
            [place(0, 10), place(2, 5), place(5, 10), place(8, 12), place(10, 20), place(11, 30)],
            [1, 1, 1, 2, 1, 3]
        );
        assert_eq!(tracks.place("b", 1, 12, 13), 4);
        let names: Vec<_> = tracks.0.iter().map(|track| (track.name.as_str(), track.sort)).collect();
        assert_eq!(names, [("a", 0), ("a (2)", 1), ("a (3)", 2), ("b", 1000)]);
    }
}
