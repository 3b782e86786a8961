//! Tracks, slices and counters as packets of a Perfetto trace.
//!
//! The numbers of fields and types are those of `TracePacket`, `TrackDescriptor` and `TrackEvent` in Perfetto's public
//! definitions. Names are written once and then referred to by a number.

use rustc_hash::FxHashMap;

use super::wire::ProtobufMessage;

/// Identity (`uuid`) of a track of the Perfetto trace: one row in the viewer.
pub(super) type TrackId = u64;

/// Identifier of the packet sequence in the Perfetto trace; all packets belong to this one sequence.
const PACKET_SEQUENCE_ID: u64 = 1;
/// Packet flag of the Perfetto trace: the packet resets the table of interned names, because the names of the sequence
/// start here.
const FLAG_INTERNED_NAMES_START: u64 = 1;
/// Packet flag: the packet refers to interned names.
const FLAG_NEEDS_INTERNED_NAMES: u64 = 2;

/// Value of the field `type` of a Perfetto track event that begins a slice.
const EVENT_TYPE_SLICE_BEGIN: u64 = 1;
/// Value of the field `type` of a Perfetto track event that ends a slice.
const EVENT_TYPE_SLICE_END: u64 = 2;
/// Value of the field `type` of a Perfetto track event that sets a counter.
const EVENT_TYPE_COUNTER: u64 = 4;

/// Value of a named argument that the viewer shows with a slice.
#[derive(Clone, Debug)]
pub(super) enum SliceArgument {
    /// A number, such as an address.
    Number(u64),
    /// A text, such as the kind of a page.
    Text(&'static str),
}

/// A slice of the Perfetto trace: an interval on a track, with the slices inside of it.
#[derive(Clone, Debug)]
pub(super) struct TraceSlice {
    /// Name of the slice, which the viewer shows on it.
    pub(super) name: String,
    /// Category of the slice, by which the viewer can filter.
    pub(super) category: &'static str,
    /// Start of the interval, nanoseconds of simulated time.
    pub(super) start_ns: u64,
    /// End of the interval, nanoseconds of simulated time.
    pub(super) end_ns: u64,
    /// Arguments that the viewer shows with the slice, by name.
    pub(super) arguments: Vec<(&'static str, SliceArgument)>,
    /// Identifiers of the flows (arrows between slices) that begin at this slice or continue from it to another slice.
    pub(super) flow_ids: Vec<u64>,
    /// Identifiers of the flows (arrows between slices) that end at this slice.
    pub(super) ending_flow_ids: Vec<u64>,
    /// Slices inside of this slice, in order of time.
    pub(super) inner_slices: Vec<TraceSlice>,
}

impl TraceSlice {
    /// Creates a slice without arguments, arrows and inner slices.
    pub(super) fn named(name: &str, category: &'static str, start_ns: u64, end_ns: u64) -> Self {
        Self {
            name: name.to_owned(),
            category,
            start_ns,
            end_ns,
            arguments: Vec::new(),
            flow_ids: Vec::new(),
            ending_flow_ids: Vec::new(),
            inner_slices: Vec::new(),
        }
    }

    /// Returns this slice (of a flash operation) with an inner slice for each suspension of the operation. The inner
    /// slice contains the slices of `slices_during_suspensions` that ran during that suspension.
    pub(super) fn split_by_suspensions(
        mut self,
        suspension_spans_ns: &[(u64, u64)],
        slices_during_suspensions: Vec<TraceSlice>,
    ) -> Self {
        let mut meanwhile = slices_during_suspensions.into_iter().peekable();
        for &(start_ns, end_ns) in suspension_spans_ns {
            let mut suspension = Self::named("suspended", self.category, start_ns, end_ns);
            while let Some(slice) = meanwhile.next_if(|slice| slice.start_ns < end_ns) {
                suspension.inner_slices.push(slice);
            }
            self.inner_slices.push(suspension);
        }
        assert!(meanwhile.next().is_none(), "only host reads interrupt an operation");
        self
    }
}

/// Names that the Perfetto trace already contains, and the numbers by which later packets refer to them.
struct InternedNames {
    /// Number of the field of Perfetto's message `InternedData` that holds these names.
    interned_field_number: u32,
    /// Number of each name that the Perfetto trace already contains.
    number_by_name: FxHashMap<String, u64>,
}

impl InternedNames {
    /// Creates an empty table of names; the field `interned_field_number` of Perfetto's `InternedData` will hold them.
    fn of_field(interned_field_number: u32) -> Self {
        Self { interned_field_number, number_by_name: FxHashMap::default() }
    }

    /// Returns the number by which packets refer to a name; a new name gets the next number and is added to
    /// `interned_data`.
    fn intern_name(&mut self, name: &str, interned_data: &mut ProtobufMessage) -> u64 {
        if let Some(&number) = self.number_by_name.get(name) {
            return number;
        }
        let number = self.number_by_name.len() as u64 + 1;
        self.number_by_name.insert(name.to_owned(), number);
        let entry = ProtobufMessage::default().with_varint(1, number).with_string(2, name);
        *interned_data = std::mem::take(interned_data).with_message(self.interned_field_number, &entry);
        number
    }
}

/// The packets of a Perfetto trace under construction.
#[derive(Default)]
pub(super) struct TracePackets {
    /// Descriptor of each track, in the order of their identities, which begin with 1.
    track_descriptors: Vec<ProtobufMessage>,
    /// Events of all tracks, each with its time; sorted by time when the trace is complete.
    events_with_time_ns: Vec<(u64, TrackEvent)>,
}

/// An event on a track of the Perfetto trace: a slice begins or ends, or a counter takes a value.
enum TrackEvent {
    /// A slice begins on the track.
    Begin(TrackId, TraceSlice),
    /// The innermost slice of the track ends.
    End(TrackId),
    /// The counter of the track takes a value.
    Value(TrackId, f64),
}

impl TracePackets {
    /// Appends the descriptor of a new track, and returns the identity of the track.
    fn append_track_descriptor(
        &mut self,
        descriptor: impl FnOnce(ProtobufMessage) -> ProtobufMessage,
    ) -> TrackId {
        let track = self.track_descriptors.len() as u64 + 1;
        self.track_descriptors.push(descriptor(ProtobufMessage::default().with_varint(1, track)));
        track
    }

    /// Adds a group of tracks with this name, which the viewer shows as a process, and returns the identity of the
    /// group.
    pub(super) fn add_process(&mut self, name: &str) -> TrackId {
        let pid = self.track_descriptors.len() as u64 + 1;
        let process = ProtobufMessage::default().with_varint(1, pid).with_string(6, name);
        // The tracks of a process are shown in the order of their ranks.
        self.append_track_descriptor(|track| track.with_message(3, &process).with_varint(11, 3))
    }

    /// Adds a track for slices to a group of tracks, and returns the identity of the track.
    pub(super) fn add_track(&mut self, process: TrackId, name: &str) -> TrackId {
        let rank = self.track_descriptors.len() as u64;
        self.append_track_descriptor(|track| {
            track.with_varint(5, process).with_string(2, name).with_varint(12, rank)
        })
    }

    /// Adds a track for the values of a counter to a group of tracks, and returns the identity of the track.
    pub(super) fn add_counter_track(&mut self, process: TrackId, name: &str, unit: &str) -> TrackId {
        let rank = self.track_descriptors.len() as u64;
        let counter = ProtobufMessage::default().with_string(6, unit);
        self.append_track_descriptor(|track| {
            track.with_varint(5, process).with_string(2, name).with_varint(12, rank).with_message(8, &counter)
        })
    }

    /// Adds a slice and its inner slices to a track. Slices of a track must be added in order of time.
    pub(super) fn add_slice(&mut self, track: TrackId, slice: &TraceSlice) {
        let own = TraceSlice { inner_slices: Vec::new(), ..slice.clone() };
        self.events_with_time_ns.push((slice.start_ns, TrackEvent::Begin(track, own)));
        slice.inner_slices.iter().for_each(|inner| self.add_slice(track, inner));
        self.events_with_time_ns.push((slice.end_ns, TrackEvent::End(track)));
    }

    /// Adds the value that a counter has from `time_ns` on.
    pub(super) fn add_counter_value(&mut self, counter: TrackId, time_ns: u64, value: f64) {
        self.events_with_time_ns.push((time_ns, TrackEvent::Value(counter, value)));
    }

    /// Returns the Perfetto trace, encoded as protocol buffers.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.events_with_time_ns.sort_by_key(|event| event.0);
        let mut trace = ProtobufMessage::default();
        for (number, descriptor) in self.track_descriptors.iter().enumerate() {
            let flags = if number == 0 { FLAG_INTERNED_NAMES_START } else { FLAG_NEEDS_INTERNED_NAMES };
            let packet = ProtobufMessage::default()
                .with_varint(10, PACKET_SEQUENCE_ID)
                .with_varint(13, flags)
                .with_message(60, descriptor);
            trace = trace.with_message(1, &packet);
        }
        let mut writer = EventWriter::default();
        for (time_ns, event) in &self.events_with_time_ns {
            trace = trace.with_message(1, &writer.encode_event_packet(*time_ns, event));
        }
        trace.into_bytes()
    }
}

/// Writer that encodes events as packets of the Perfetto trace, and remembers the names that it has written.
struct EventWriter {
    /// Names of slice categories that the trace contains already, and to which later slices refer by number.
    categories: InternedNames,
    /// Names of slices that the trace contains already, and to which later slices refer by number.
    slice_names: InternedNames,
    /// Names of slice arguments that the trace contains already, and to which later slices refer by number.
    argument_keys: InternedNames,
    /// Texts of slice arguments that the trace contains already, and to which later slices refer by number.
    argument_texts: InternedNames,
}

impl Default for EventWriter {
    fn default() -> Self {
        Self {
            categories: InternedNames::of_field(1),
            slice_names: InternedNames::of_field(2),
            argument_keys: InternedNames::of_field(3),
            argument_texts: InternedNames::of_field(29),
        }
    }
}

impl EventWriter {
    /// Encodes an event as a packet. The packet also contains the names that the event is the first to use.
    fn encode_event_packet(&mut self, time_ns: u64, event: &TrackEvent) -> ProtobufMessage {
        let mut interned = ProtobufMessage::default();
        let event = match event {
            TrackEvent::Begin(track, slice) => self.encode_slice_begin_event(*track, slice, &mut interned),
            TrackEvent::End(track) => {
                ProtobufMessage::default().with_varint(9, EVENT_TYPE_SLICE_END).with_varint(11, *track)
            }
            TrackEvent::Value(track, value) => ProtobufMessage::default()
                .with_varint(9, EVENT_TYPE_COUNTER)
                .with_varint(11, *track)
                .with_double(44, *value),
        };
        let packet = ProtobufMessage::default()
            .with_varint(8, time_ns)
            .with_varint(10, PACKET_SEQUENCE_ID)
            .with_varint(13, FLAG_NEEDS_INTERNED_NAMES);
        let packet = if interned.is_empty() { packet } else { packet.with_message(12, &interned) };
        packet.with_message(11, &event)
    }

    /// Encodes the beginning of a slice, and adds the names that the slice is the first to use to `interned_data`.
    fn encode_slice_begin_event(
        &mut self,
        track: TrackId,
        slice: &TraceSlice,
        interned_data: &mut ProtobufMessage,
    ) -> ProtobufMessage {
        let mut event = ProtobufMessage::default()
            .with_varint(9, EVENT_TYPE_SLICE_BEGIN)
            .with_varint(11, track)
            .with_varint(3, self.categories.intern_name(slice.category, interned_data))
            .with_varint(10, self.slice_names.intern_name(&slice.name, interned_data));
        for (key, argument) in &slice.arguments {
            let annotation =
                ProtobufMessage::default().with_varint(1, self.argument_keys.intern_name(key, interned_data));
            let annotation = match argument {
                SliceArgument::Number(value) => annotation.with_varint(3, *value),
                SliceArgument::Text(text) => {
                    annotation.with_varint(17, self.argument_texts.intern_name(text, interned_data))
                }
            };
            event = event.with_message(4, &annotation);
        }
        // Numbers of flows begin with 1.
        event = slice.flow_ids.iter().fold(event, |event, flow| event.with_fixed64(47, flow + 1));
        slice.ending_flow_ids.iter().fold(event, |event, flow| event.with_fixed64(48, flow + 1))
    }
}
