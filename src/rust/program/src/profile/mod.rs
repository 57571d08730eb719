//! Profiles: reads the `XSpace` that a plugin's profiler records of its devices, as lanes of timed events. Damaged
//! bytes and wrong indices affect only the events that contain them.

use pjrt_base::counted::shortened;
use prost::Message;

/// The messages with their field numbers. Unknown fields are skipped. Names are bytes, because one that is not UTF-8 must not
/// cost the others.
mod proto {
    use std::collections::BTreeMap;

    pjrt_ir::messages! {
        struct Space {
            planes: Vec<Plane> = 1 repeated message,
            errors: Vec<Vec<u8>> = 2 repeated bytes,
        }

        /// A device, or a part of the host.
        struct Plane {
            name: Vec<u8> = 2 bytes,
            lines: Vec<Line> = 3 repeated message,
            event_metadata: BTreeMap<i64, EventMetadata> = 4 btree_map = "int64, message",
            stat_metadata: BTreeMap<i64, StatMetadata> = 5 btree_map = "int64, message",
        }

        struct Line {
            id: i64 = 1 int64,
            name: Vec<u8> = 2 bytes,
            /// Nanoseconds, to which its events' offsets are added.
            timestamp_ns: i64 = 3 int64,
            events: Vec<Event> = 4 repeated message,
            display_name: Vec<u8> = 11 bytes,
        }

        struct Event {
            metadata_id: i64 = 1 int64,
            offset_ps: i64 = 2 int64,
            duration_ps: i64 = 3 int64,
            stats: Vec<Stat> = 4 repeated message,
            /// Of an event that sums up others, which has no place in time.
            occurrences: Option<i64> = 5 optional int64,
        }

        struct EventMetadata {
            name: Vec<u8> = 2 bytes,
            display_name: Vec<u8> = 4 bytes,
            stats: Vec<Stat> = 5 repeated message,
        }

        struct StatMetadata {
            name: Vec<u8> = 2 bytes,
        }

        /// The options of a profiler, `tensorflow.ProfileOptions`.
        struct Options {
            host_tracer_level: u32 = 2 uint32,
            device_tracer_level: u32 = 3 uint32,
            version: u32 = 5 uint32,
            raise_error_on_start_failure: bool = 13 bool,
        }
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Stat {
        #[prost(int64, tag = "1")]
        pub metadata_id: i64,
        #[prost(oneof = "Value", tags = "3, 4, 5, 7")]
        pub value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        #[prost(uint64, tag = "3")]
        Unsigned(u64),
        #[prost(int64, tag = "4")]
        Signed(i64),
        #[prost(bytes, tag = "5")]
        Text(Vec<u8>),
        /// The name of a stat's metadata.
        #[prost(uint64, tag = "7")]
        Reference(u64),
    }
}

use proto::{Event as RawEvent, Line, Plane, Space, Stat, Value};

/// What a profiler recorded.
#[derive(Debug, Default, PartialEq)]
pub struct Profile {
    pub lanes: Vec<Lane>,
    /// Errors that the profiler reports, in its words.
    pub errors: Vec<String>,
}

/// What a device does one after the other, e.g. on a stream.
#[derive(Debug, Default, PartialEq)]
pub struct Lane {
    /// The device and the part of it, as in "GPU:0 stream 7".
    pub name: String,
    pub events: Vec<Event>,
}

/// A kernel, a copy or another operation. Times are nanoseconds.
#[derive(Debug, Default, PartialEq)]
pub struct Event {
    pub start: i64,
    pub end: i64,
    pub name: String,
    /// The name of the program that it belongs to; empty if unknown.
    pub program: String,
    pub bytes: Option<u64>,
}

/// Times that are later than this are nanoseconds since 1970. It is in 2001.
const UNIX_TIME: i64 = 1_000_000_000_000_000_000;

/// The longest name of an event. Names of C++ functions can have thousands of characters.
const LONGEST: usize = 120;

/// The options for profilers: record devices and not the host, and report why a start fails.
pub fn options() -> Vec<u8> {
    let options =
        proto::Options { host_tracer_level: 0, device_tracer_level: 1, version: 1, raise_error_on_start_failure: true };
    options.encode_to_vec()
}

/// Reads what a profiler returned. Times count from `began`, which is in nanoseconds since 1970; times of lines that do not
/// count from 1970 count from there, too. The host's events are left out.
///
/// Returns `None` if this is not an `XSpace`.
pub fn read(bytes: &[u8], began: i64) -> Option<Profile> {
    let Space { planes, errors } = Space::decode(bytes).ok()?;
    let errors = errors.iter().map(|error| text(error)).collect();
    let lanes = planes.iter().flat_map(|plane| device_lanes(plane, began)).collect();
    Some(Profile { lanes, errors })
}

/// The lanes of a device; none for another plane.
fn device_lanes(plane: &Plane, began: i64) -> Vec<Lane> {
    let name = text(&plane.name);
    let Some(device) = name.strip_prefix("/device:").map(str::trim).filter(|device| !device.is_empty()) else {
        return Vec::new();
    };
    let lane = |line: &Line| {
        let origin = if line.timestamp_ns >= UNIX_TIME { began } else { 0 };
        let origin = line.timestamp_ns.saturating_sub(origin);
        let event = |event: &RawEvent| read_event(plane, origin, event);
        Lane { name: format!("{device} {}", lane_name(line)), events: line.events.iter().filter_map(event).collect() }
    };
    plane.lines.iter().map(lane).filter(|lane| !lane.events.is_empty()).collect()
}

/// "stream 13 (Compute)" for "Stream #13(Compute)".
fn lane_name(line: &Line) -> String {
    let name = text(if line.display_name.is_empty() { &line.name } else { &line.display_name });
    match name.strip_prefix("Stream #") {
        Some(stream) => format!("stream {}", stream.replacen('(', " (", 1).replace(',', ", ")),
        None if name.is_empty() => format!("line {}", line.id),
        None => name,
    }
}

fn read_event(plane: &Plane, origin: i64, event: &RawEvent) -> Option<Event> {
    if event.occurrences.is_some() || event.offset_ps < 0 || event.duration_ps < 0 {
        return None;
    }
    let metadata = plane.event_metadata.get(&event.metadata_id)?;
    let start = origin.saturating_add(event.offset_ps / 1000);
    let end = origin.saturating_add(event.offset_ps.saturating_add(event.duration_ps) / 1000);
    let name = text(if metadata.display_name.is_empty() { &metadata.name } else { &metadata.display_name });
    let mut read = Event { start, end, name, ..Event::default() };
    let mut operation = String::new();
    // the event's own stats come last, and replace the stats of its kind
    for stat in metadata.stats.iter().chain(&event.stats) {
        let Some(named) = plane.stat_metadata.get(&stat.metadata_id) else { continue };
        match (&named.name[..], &stat.value) {
            (b"hlo_module", _) => read.program = shortened(&stat_text(plane, stat), LONGEST),
            (b"hlo_op", _) => operation = stat_text(plane, stat),
            // "kind_src:device kind_dst:pinned size:4096 dest:0 async:1"
            (b"memcpy_details" | b"memset_details", _) => {
                read.bytes = copied_bytes(&stat_text(plane, stat)).or(read.bytes);
            }
            (b"bytes_accessed", Some(Value::Unsigned(bytes))) => read.bytes = Some(*bytes),
            (b"bytes_accessed", Some(Value::Signed(bytes))) => read.bytes = u64::try_from(*bytes).ok().or(read.bytes),
            _ => {}
        }
    }
    // the compiler names most kernels after their operation
    if read.name.is_empty() {
        read.name = operation;
    } else if read.name != operation && !read.name.contains(&operation.replace(['.', '-'], "_")) {
        read.name = format!("{operation}: {}", read.name);
    }
    read.name = shortened(&read.name, LONGEST);
    Some(read)
}

fn stat_text(plane: &Plane, stat: &Stat) -> String {
    match &stat.value {
        Some(Value::Text(found)) => text(found),
        Some(Value::Reference(id)) => {
            let named = i64::try_from(*id).ok().and_then(|id| plane.stat_metadata.get(&id));
            named.map(|named| text(&named.name)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn copied_bytes(details: &str) -> Option<u64> {
    let mut parts = details.split([' ', ',']);
    parts.find_map(|part| part.strip_prefix("size:").or(part.strip_prefix("num_bytes:")))?.parse().ok()
}

fn text(bytes: &[u8]) -> String {
    // a zero would end a C string
    String::from_utf8_lossy(bytes).replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::proto::{EventMetadata, StatMetadata};
    use super::*;
    use std::collections::BTreeMap;

    const BEGAN: i64 = 1_700_000_000_000_000_000;

    fn stat(id: i64, value: Value) -> Stat {
        Stat { metadata_id: id, value: Some(value) }
    }

    fn event(id: i64, offset_ps: i64, duration_ps: i64, stats: Vec<Stat>) -> RawEvent {
        RawEvent { metadata_id: id, offset_ps, duration_ps, stats, occurrences: None }
    }

    fn example() -> Space {
        let metadata = |name: &str, stats| EventMetadata { name: name.into(), stats, ..EventMetadata::default() };
        let names = ["hlo_module", "hlo_op", "memcpy_details", "bytes_accessed", "other", "jit_f"];
        let stat_metadata =
            names.iter().zip(1..).map(|(name, id)| (id, StatMetadata { name: (*name).into() })).collect();
        let of_program = || vec![stat(1, Value::Reference(6)), stat(5, Value::Signed(3))];
        let copy = stat(3, Value::Text(b"kind_src:device kind_dst:pinned size:4096 dest:0 async:1".into()));
        let compute = Line {
            id: 13,
            name: b"Stream #13(Compute,MemcpyD2D)".into(),
            timestamp_ns: BEGAN + 1000,
            events: vec![
                event(1, 2_000_500, 3_000_000, of_program()),
                event(2, 6_000_000, 0, vec![stat(2, Value::Text(b"dot.3".into())), stat(4, Value::Signed(-1))]),
            ],
            ..Line::default()
        };
        let copies =
            Line { timestamp_ns: 50, id: 7, events: vec![event(3, 1000, 1000, vec![copy])], ..Line::default() };
        let plane = Plane {
            name: b"/device:GPU:0".into(),
            lines: vec![compute, copies],
            event_metadata: BTreeMap::from([
                (1, metadata("loop_add_fusion", vec![stat(4, Value::Unsigned(64))])),
                (2, metadata("gemm", Vec::new())),
                (3, metadata("MemcpyD2H", Vec::new())),
            ]),
            stat_metadata,
        };
        let host = Plane { name: b"/host:CPU".into(), ..plane.clone() };
        Space { planes: vec![host, plane], errors: vec![b"no permission".into()] }
    }

    #[test]
    fn devices_have_a_lane_for_each_line_with_events_on_the_trace_clock() {
        let profile = read(&example().encode_to_vec(), BEGAN).unwrap();
        assert_eq!(profile.errors, ["no permission"]);
        let names: Vec<_> = profile.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(names, ["GPU:0 stream 13 (Compute, MemcpyD2D)", "GPU:0 line 7"]);
        let event = |start, end, name: &str, program: &str, bytes| Event {
            start,
            end,
            name: name.into(),
            program: program.into(),
            bytes,
        };
        assert_eq!(
            profile.lanes[0].events,
            [event(3000, 6000, "loop_add_fusion", "jit_f", Some(64)), event(7000, 7000, "dot.3: gemm", "", None)]
        );
        // a line without a date
        assert_eq!(profile.lanes[1].events, [event(51, 52, "MemcpyD2H", "", Some(4096))]);
        assert_eq!(read(&[], BEGAN), Some(Profile::default()));
    }

    #[test]
    fn wrong_indices_and_impossible_times_cost_only_what_they_belong_to() {
        let mut space = example();
        let line = &mut space.planes[1].lines[0];
        line.events.extend([
            event(99, 1, 1, Vec::new()),
            event(1, -1, 1, Vec::new()),
            event(1, 1, i64::MIN, Vec::new()),
            RawEvent { occurrences: Some(5), ..event(1, 1, 1, Vec::new()) },
            event(1, i64::MAX, i64::MAX, vec![stat(1, Value::Reference(u64::MAX)), stat(77, Value::Signed(1))]),
        ]);
        let later = Line { timestamp_ns: i64::MAX, events: vec![event(1, i64::MAX, 5, Vec::new())], ..Line::default() };
        let earlier = Line { timestamp_ns: i64::MIN, events: vec![event(1, 0, 5, Vec::new())], ..Line::default() };
        space.planes[1].lines.extend([later, earlier]);
        space.planes[1].event_metadata.insert(2, EventMetadata { name: vec![0xff, 0, b'a'], ..Default::default() });
        let profile = read(&space.encode_to_vec(), BEGAN).unwrap();
        let events = &profile.lanes[0].events;
        assert_eq!(events.len(), 3);
        assert_eq!(events[1].name, "dot.3: \u{fffd} a");
        assert!(events[2].program.is_empty() && events[2].start <= events[2].end);
        assert_eq!(profile.lanes[3].events[0].start, i64::MIN);
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let whole = example().encode_to_vec();
        for length in 0..whole.len() {
            let _ = read(&whole[..length], BEGAN);
        }
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            for _ in 0..=random() % 4 {
                let at = random() % damaged.len();
                damaged[at] = random() as u8;
            }
            let _ = read(&damaged, BEGAN);
            let noise: Vec<u8> = (0..random() % 200).map(|_| random() as u8).collect();
            let _ = read(&noise, BEGAN);
        }
    }

    #[test]
    fn options_match_tensorflow() {
        assert_eq!(options(), [0x18, 1, 0x28, 1, 0x68, 1]);
        assert_eq!(shortened(&"x".repeat(500), LONGEST).len(), LONGEST + 3);
    }
}
