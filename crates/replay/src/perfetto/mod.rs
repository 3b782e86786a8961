//! Writes a traced part of a run as a file for the Perfetto trace viewer (`docs/perfetto.md`).
//!
//! The format is Perfetto's own, protocol buffers of the type `perfetto.protos.Trace`. The viewer also reads the JSON
//! of Chrome's tracing, but that has times in microseconds, no names for tracks that are no threads, and arrows that
//! point from one slice to one other. A writer for protocol buffers is small (`wire.rs`), so no
//! library is needed.
//!
//! Each track is filled on its own, in order of time, and its slices nest. Then all events are sorted by time; the sort
//! is stable, so simultaneous events of a track keep their order, and requests precede the operations that they cause.
//!
//! | file | what it has |
//! |---|---|
//! | `mod.rs` | which tracks there are, and what is on them |
//! | `packets.rs` | tracks, slices and counters as packets of a trace |
//! | `wire.rs` | the encoding of protocol buffers |

mod packets;
mod wire;

use std::collections::BTreeMap;

use packets::{SliceArgument, TracePackets, TraceSlice, TrackId};
use wearwell::nand::PageKind;
use wearwell::operation::OpKind;
use wearwell::timing::{RequestKind, TracedOp};
use wearwell_trace::Op;

use crate::replay::{FtlStateSample, RunTrace, WindowRequest};

impl RunTrace {
    /// Returns the traced window of the run as a file for the Perfetto viewer. The file takes less than 300 bytes per
    /// operation and request.
    pub fn to_perfetto(&self) -> Vec<u8> {
        let mut packets = TracePackets::default();
        let host = packets.add_process(&format!("host: {} on {}", self.input, self.design));
        self.add_request_slices(&mut packets, host);
        self.add_counter_tracks(&mut packets, host);
        if !self.nvram_scan_spans_ns.is_empty() {
            self.add_nvram_scans(&mut packets, host);
        }
        for channel in 0..self.geometry.channels {
            self.add_channel_tracks(&mut packets, channel);
        }
        packets.into_bytes()
    }

    /// Adds a slice for each host request to the Perfetto trace. The number of tracks is the largest number of requests
    /// in flight.
    fn add_request_slices(&self, packets: &mut TracePackets, host: TrackId) {
        let mut caused: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for op in &self.flash_ops {
            if let Some(request) = op.request_number {
                caused.entry(request).or_default().push(op.op_number);
            }
        }
        let mut requests: Vec<&WindowRequest> = self.requests.iter().collect();
        requests.sort_unstable_by_key(|request| {
            (request.traced_request.arrival_ns, request.traced_request.request_number)
        });
        let mut lanes: Vec<(u64, TrackId)> = Vec::new();
        for request in requests {
            let WindowRequest { traced_request, .. } = request;
            let free = lanes.iter().position(|lane| lane.0 <= traced_request.arrival_ns);
            let lane = free.unwrap_or_else(|| {
                lanes.push((0, packets.add_track(host, "requests")));
                lanes.len() - 1
            });
            lanes[lane].0 = traced_request.completed_at_ns;
            let flows = caused.get(&traced_request.request_number).map_or(&[][..], Vec::as_slice);
            packets.add_slice(lanes[lane].1, &request_slice(request, flows));
        }
    }

    /// Adds tracks with counters over time to the Perfetto trace: requests in flight, free blocks, and write
    /// amplification since the start of the window.
    fn add_counter_tracks(&self, packets: &mut TracePackets, host: TrackId) {
        let depth = packets.add_counter_track(host, "queue depth", "requests");
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for WindowRequest { traced_request, .. } in &self.requests {
            changes.extend([(traced_request.arrival_ns, 1), (traced_request.completed_at_ns, -1)]);
        }
        changes.sort_unstable_by_key(|change| change.0);
        let mut in_flight = 0;
        for simultaneous in changes.chunk_by(|a, b| a.0 == b.0) {
            in_flight += simultaneous.iter().map(|change| change.1).sum::<i64>();
            packets.add_counter_value(depth, simultaneous[0].0, in_flight as f64);
        }
        let free = packets.add_counter_track(host, "free blocks", "blocks");
        let amplification =
            packets.add_counter_track(host, "write amplification", "programs per host page write");
        for state in &self.ftl_state_samples {
            let &FtlStateSample { time_ns, free_blocks, programs, host_page_writes } = state;
            packets.add_counter_value(free, time_ns, f64::from(free_blocks));
            if host_page_writes > 0 {
                packets.add_counter_value(amplification, time_ns, programs as f64 / host_page_writes as f64);
            }
        }
    }

    /// Adds a track with the scans of the reverse map in NVRAM to the Perfetto trace.
    fn add_nvram_scans(&self, packets: &mut TracePackets, host: TrackId) {
        let nvram = packets.add_track(host, "NVRAM");
        for &(start_ns, end_ns) in &self.nvram_scan_spans_ns {
            packets.add_slice(nvram, &TraceSlice::named("scan", "remap_log", start_ns, end_ns));
        }
    }

    /// Adds the tracks of a flash channel to the Perfetto trace: one for its transfers, and one with the operations of
    /// each die (or independent plane).
    fn add_channel_tracks(&self, packets: &mut TracePackets, channel: u32) {
        let process = packets.add_process(&format!("channel {channel}"));
        let transfers = packets.add_track(process, &format!("channel {channel}"));
        let of_channel = |op: &&TracedOp| self.geometry.channel_of(op.op.plane) == channel;
        let mut ops: Vec<&TracedOp> = self.flash_ops.iter().filter(of_channel).collect();
        let dies = self.geometry.dies_per_channel;
        for die in channel * dies..(channel + 1) * dies {
            self.add_die_tracks(packets, process, die, &ops);
        }
        // After the dies, because an arrow leads from the operation of a die to its transfer.
        ops.sort_unstable_by_key(|op| op.transfer_span_ns);
        for op in ops {
            if let Some((start_ns, end_ns)) = op.transfer_span_ns {
                packets.add_slice(transfers, &self.transfer_slice(op, start_ns, end_ns));
            }
        }
    }

    /// Adds the tracks of a die to the Perfetto trace: one track, or one per plane if planes work independently.
    fn add_die_tracks(&self, packets: &mut TracePackets, process: TrackId, die: u32, ops: &[&TracedOp]) {
        let planes = self.geometry.planes_per_die;
        let of_die = ops.iter().copied().filter(|op| op.op.plane.0 / planes == die);
        if !self.has_independent_planes {
            let track = packets.add_track(process, &format!("die {die}"));
            return self.add_flash_array_slices(packets, track, of_die.collect());
        }
        for plane in 0..planes {
            let track = packets.add_track(process, &format!("die {die} plane {plane}"));
            self.add_flash_array_slices(
                packets,
                track,
                of_die.clone().filter(|op| op.op.plane.0 % planes == plane).collect(),
            );
        }
    }

    /// Adds the flash operations of an array (a die or an independent plane) as slices to a track of the Perfetto
    /// trace. Operations of a multi-plane group are one slice.
    fn add_flash_array_slices(&self, packets: &mut TracePackets, track: TrackId, mut ops: Vec<&TracedOp>) {
        // An erase may be suspended when it starts, for a read that then starts at the same time.
        let order = |op: &&TracedOp| (op.start_ns, op.op.kind == OpKind::Read, op.op_number);
        ops.sort_unstable_by_key(order);
        let is_together = |a: &&TracedOp, b: &&TracedOp| (a.start_ns, a.op.kind) == (b.start_ns, b.op.kind);
        let mut groups = ops.chunk_by(is_together).peekable();
        while let Some(group) = groups.next() {
            let slice = self.multi_plane_slice(group);
            let mut meanwhile = Vec::new();
            while let Some(reads) = groups.next_if(|group| group[0].start_ns < slice.end_ns) {
                meanwhile.push(self.multi_plane_slice(reads));
            }
            packets.add_slice(track, &slice.split_by_suspensions(&group[0].suspension_spans_ns, meanwhile));
        }
    }

    /// Returns one slice for the flash operations that a die executes together on several planes, or for a single
    /// operation.
    fn multi_plane_slice(&self, group: &[&TracedOp]) -> TraceSlice {
        let first = group[0];
        let end_ns = group.iter().map(|op| op.end_ns).max().unwrap_or(first.end_ns);
        let mut slice = TraceSlice { end_ns, ..self.op_slice(first) };
        if group.len() > 1 {
            slice.name.push_str(" (multi-plane)");
            for other in group[1..].iter().map(|op| self.op_slice(op)) {
                slice.arguments.extend(other.arguments);
                slice.flow_ids.extend(other.flow_ids);
                slice.ending_flow_ids.extend(other.ending_flow_ids);
            }
        }
        slice
    }

    /// Returns the slice of a flash operation: its interval on the die, with its address as arguments.
    fn op_slice(&self, op: &TracedOp) -> TraceSlice {
        let mut slice = TraceSlice::named(&op_name(op), op.op.cause.name(), op.start_ns, op.end_ns);
        slice.arguments.push(("cause", SliceArgument::Text(op.op.cause.name())));
        slice.arguments.extend(op.request_number.map(|request| ("request", SliceArgument::Number(request))));
        slice.arguments.push(("waited_ns", SliceArgument::Number(op.start_ns - op.submitted_ns)));
        slice.arguments.extend(self.address_arguments(op));
        let ends_here = op.transfer_span_ns.is_none();
        if ends_here {
            slice.ending_flow_ids.push(op.op_number);
        } else {
            slice.flow_ids.push(op.op_number);
        }
        slice
    }

    /// Returns the slice of the transfer of an operation's data on the flash channel.
    fn transfer_slice(&self, op: &TracedOp, start_ns: u64, end_ns: u64) -> TraceSlice {
        let name = format!("{} transfer", op_name(op));
        let mut slice = TraceSlice::named(&name, op.op.cause.name(), start_ns, end_ns);
        slice.arguments.extend([
            ("cause", SliceArgument::Text(op.op.cause.name())),
            ("die", SliceArgument::Number(u64::from(op.op.plane.0 / self.geometry.planes_per_die))),
            ("bytes", SliceArgument::Number(u64::from(op.op.transfer_bytes))),
        ]);
        slice.ending_flow_ids.push(op.op_number);
        slice
    }

    /// Returns the slice arguments with the flash address of an operation and what is stored there.
    fn address_arguments(&self, op: &TracedOp) -> Vec<(&'static str, SliceArgument)> {
        let number = |value: u32| SliceArgument::Number(u64::from(value));
        let mut arguments = vec![("plane", number(op.op.plane.0))];
        let Some(place) = op.page else { return arguments };
        let pages = self.geometry.block_pages();
        arguments.push(("block", number(place.ppn.0 / pages)));
        if op.op.kind == OpKind::Erase {
            return arguments;
        }
        arguments.push(("page", number(place.ppn.0 % pages)));
        let owner = if place.kind == PageKind::Data { "lpn" } else { "owner" };
        arguments.extend([
            ("holds", SliceArgument::Text(page_kind_name(place.kind))),
            (owner, number(place.owner)),
        ]);
        arguments
    }
}

/// Returns the name of an operation's slice: its cause and its kind.
fn op_name(op: &TracedOp) -> String {
    let kind = match op.op.kind {
        OpKind::Read => "read",
        OpKind::Program => "program",
        OpKind::Erase => "erase",
        OpKind::Copies | OpKind::NvramScan => unreachable!("an array executes single operations"),
    };
    format!("{} {kind}", op.op.cause.name())
}

/// Returns the name that the trace viewer shows for the kind of a flash page, such as data or translation page.
fn page_kind_name(kind: PageKind) -> &'static str {
    match kind {
        PageKind::Data => "data",
        PageKind::Translation => "translation",
        PageKind::Delta => "delta",
        PageKind::Chunk => "chunk",
        PageKind::RemapLog => "remap_log",
        PageKind::Validity => "validity",
        PageKind::BlockHead => "head",
        PageKind::BlockTail => "tail",
    }
}

/// Returns the slice of a host request; arrows (`flows`) lead from it to its flash operations.
fn request_slice(request: &WindowRequest, flows: &[u64]) -> TraceSlice {
    let WindowRequest { traced_request, op, offset_bytes, len_bytes } = request;
    let name = match (op, traced_request.kind) {
        (Op::Remap(_), _) => "remap",
        (Op::Zero, _) => "zero",
        (_, RequestKind::Read) => "read",
        (_, RequestKind::UnwrittenRead) => "read of unwritten pages",
        (_, RequestKind::Write) => "write",
        (_, RequestKind::Trim) => "trim",
        (_, RequestKind::Flush) => "flush",
    };
    let mut slice =
        TraceSlice::named(name, "request", traced_request.arrival_ns, traced_request.completed_at_ns);
    slice.arguments.extend([
        ("request", SliceArgument::Number(traced_request.request_number)),
        ("offset_bytes", SliceArgument::Number(*offset_bytes)),
        ("len_bytes", SliceArgument::Number(*len_bytes)),
    ]);
    slice.flow_ids.extend_from_slice(flows);
    slice
}
