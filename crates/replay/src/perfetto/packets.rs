//! Tracks, slices and counters as packets of a Perfetto trace.
//!
//! The numbers of fields and types are those of `TracePacket`, `TrackDescriptor` and `TrackEvent` in Perfetto's public
//! definitions. Names are written once and then referred to by a number.

use rustc_hash::FxHashMap;

use super::wire::Message;

/// Identity of a track: its `uuid`.
pub(super) type Track = u64;

/// Number of the only sequence of packets.
const SEQUENCE: u64 = 1;
/// Packet flag: the interned names of the sequence start here.
const NAMES_START: u64 = 1;
/// Packet flag: the packet refers to interned names.
const NEEDS_NAMES: u64 = 2;

/// Types of track events.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// Value of a slice's argument.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    Number(u64),
    Text(&'static str),
}

/// A slice: something that lasts, with what runs inside of it.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) name: String,
    pub(super) category: &'static str,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) arguments: Vec<(&'static str, Argument)>,
    /// Flows (arrows) that begin here or continue to another slice.
    pub(super) flows: Vec<u64>,
    /// Flows (arrows) that end here.
    pub(super) last_flows: Vec<u64>,
    /// Slices within this one, in order.
    pub(super) inner: Vec<Slice>,
}

impl Slice {
    pub(super) fn of(name: &str, category: &'static str, start_ns: u64, end_ns: u64) -> Self {
        Self {
            name: name.to_owned(),
            category,
            start_ns,
            end_ns,
            arguments: Vec::new(),
            flows: Vec::new(),
            last_flows: Vec::new(),
            inner: Vec::new(),
        }
    }

    /// Returns this slice with a slice for each suspension in it, which contains the slices that run meanwhile.
    pub(super) fn around(mut self, suspended_ns: &[(u64, u64)], meanwhile: Vec<Slice>) -> Self {
        let mut meanwhile = meanwhile.into_iter().peekable();
        for &(start_ns, end_ns) in suspended_ns {
            let mut suspension = Self::of("suspended", self.category, start_ns, end_ns);
            while let Some(slice) = meanwhile.next_if(|slice| slice.start_ns < end_ns) {
                suspension.inner.push(slice);
            }
            self.inner.push(suspension);
        }
        assert!(meanwhile.next().is_none(), "only host reads interrupt an operation");
        self
    }
}

/// Names that were written before, and their numbers.
struct Names {
    /// Field of `InternedData` that holds these names.
    field: u32,
    numbers: FxHashMap<String, u64>,
}

impl Names {
    fn of_field(field: u32) -> Self {
        Self { field, numbers: FxHashMap::default() }
    }

    /// Returns the number of a name, and adds it to the interned data if it is new.
    fn number(&mut self, name: &str, interned: &mut Message) -> u64 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(name.to_owned(), number);
        let entry = Message::default().number(1, number).text(2, name);
        *interned = std::mem::take(interned).message(self.field, &entry);
        number
    }
}

/// The packets of a trace.
#[derive(Default)]
pub(super) struct Packets {
    tracks: Vec<Message>,
    /// Events of all tracks, each with its time; sorted by time when the trace is complete.
    events: Vec<(u64, Event)>,
}

/// An event of a track.
enum Event {
    Begin(Track, Slice),
    End(Track),
    Value(Track, f64),
}

impl Packets {
    fn add_track(&mut self, descriptor: impl FnOnce(Message) -> Message) -> Track {
        let track = self.tracks.len() as u64 + 1;
        self.tracks.push(descriptor(Message::default().number(1, track)));
        track
    }

    /// Adds a group of tracks with a name, which the viewer shows as a process.
    pub(super) fn process(&mut self, name: &str) -> Track {
        let pid = self.tracks.len() as u64 + 1;
        let process = Message::default().number(1, pid).text(6, name);
        // The tracks of a process are shown in the order of their ranks.
        self.add_track(|track| track.message(3, &process).number(11, 3))
    }

    /// Adds a track for slices to a group.
    pub(super) fn track(&mut self, process: Track, name: &str) -> Track {
        let rank = self.tracks.len() as u64;
        self.add_track(|track| track.number(5, process).text(2, name).number(12, rank))
    }

    /// Adds a track for the values of a counter to a group.
    pub(super) fn counter(&mut self, process: Track, name: &str, unit: &str) -> Track {
        let rank = self.tracks.len() as u64;
        let counter = Message::default().text(6, unit);
        self.add_track(|track| track.number(5, process).text(2, name).number(12, rank).message(8, &counter))
    }

    /// Adds a slice, with those within, to a track. Slices of a track are added in order.
    pub(super) fn slice(&mut self, track: Track, slice: &Slice) {
        let own = Slice { inner: Vec::new(), ..slice.clone() };
        self.events.push((slice.start_ns, Event::Begin(track, own)));
        slice.inner.iter().for_each(|inner| self.slice(track, inner));
        self.events.push((slice.end_ns, Event::End(track)));
    }

    /// Adds the value of a counter from a time on.
    pub(super) fn value(&mut self, counter: Track, time_ns: u64, value: f64) {
        self.events.push((time_ns, Event::Value(counter, value)));
    }

    /// Returns the encoded trace.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.events.sort_by_key(|event| event.0);
        let mut trace = Message::default();
        for (number, descriptor) in self.tracks.iter().enumerate() {
            let flags = if number == 0 { NAMES_START } else { NEEDS_NAMES };
            let packet = Message::default().number(10, SEQUENCE).number(13, flags).message(60, descriptor);
            trace = trace.message(1, &packet);
        }
        let mut writer = EventWriter::default();
        for (time_ns, event) in &self.events {
            trace = trace.message(1, &writer.packet(*time_ns, event));
        }
        trace.into_bytes()
    }
}

/// Writes events as packets, and remembers the names that it has written.
struct EventWriter {
    categories: Names,
    names: Names,
    keys: Names,
    texts: Names,
}

impl Default for EventWriter {
    fn default() -> Self {
        Self {
            categories: Names::of_field(1),
            names: Names::of_field(2),
            keys: Names::of_field(3),
            texts: Names::of_field(29),
        }
    }
}

impl EventWriter {
    fn packet(&mut self, time_ns: u64, event: &Event) -> Message {
        let mut interned = Message::default();
        let event = match event {
            Event::Begin(track, slice) => self.begin(*track, slice, &mut interned),
            Event::End(track) => Message::default().number(9, SLICE_END).number(11, *track),
            Event::Value(track, value) => {
                Message::default().number(9, COUNTER).number(11, *track).double(44, *value)
            }
        };
        let packet = Message::default().number(8, time_ns).number(10, SEQUENCE).number(13, NEEDS_NAMES);
        let packet = if interned.is_empty() { packet } else { packet.message(12, &interned) };
        packet.message(11, &event)
    }

    fn begin(&mut self, track: Track, slice: &Slice, interned: &mut Message) -> Message {
        let mut event = Message::default()
            .number(9, SLICE_BEGIN)
            .number(11, track)
            .number(3, self.categories.number(slice.category, interned))
            .number(10, self.names.number(&slice.name, interned));
        for (key, argument) in &slice.arguments {
            let annotation = Message::default().number(1, self.keys.number(key, interned));
            let annotation = match argument {
                Argument::Number(value) => annotation.number(3, *value),
                Argument::Text(text) => annotation.number(17, self.texts.number(text, interned)),
            };
            event = event.message(4, &annotation);
        }
        // Numbers of flows begin with 1.
        event = slice.flows.iter().fold(event, |event, flow| event.fixed(47, flow + 1));
        slice.last_flows.iter().fold(event, |event, flow| event.fixed(48, flow + 1))
    }
}
