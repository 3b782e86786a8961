//! Checks of the trace that the event engine records: one entry per flash operation, whatever was submitted.

use wearwell::nand::{FlashTiming, Geometry};
use wearwell::operation::OpKind;
use wearwell::timing::{TimingEngine, TimingOptions, TimingTrace, TracedOp};

/// Start and end of a period, nanoseconds.
type PeriodNs = (u64, u64);

/// Checks the trace of an engine that has completed all operations. Each of the `submitted` operations occurs once,
/// with the times of the datasheet. A die or channel executes one operation at a time, and is busy as long as the
/// engine reports.
pub fn check_trace_of_engine(
    timing: &mut TimingEngine,
    shape: &Geometry,
    flash: FlashTiming,
    options: &TimingOptions,
    submitted: u64,
) {
    let TimingTrace { ops, .. } = timing.take_trace();
    let mut numbers: Vec<u64> = ops.iter().map(|op| op.op_number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..submitted), "every operation is traced once");
    if !options.uses_multi_plane_ops {
        for op in &ops {
            assert_eq!(op.end_ns, expected_end(op, flash, options), "{op:?}");
        }
    }
    let planes_per_array = if options.has_independent_planes { 1 } else { shape.planes_per_die };
    let arrays = shape.planes() / planes_per_array;
    let of_array = |array| ops.iter().filter(move |op| op.op.plane.0 / planes_per_array == array);
    let busy: Vec<u64> = (0..arrays).map(|array| busy_time_ns(of_array(array))).collect();
    assert_eq!(busy, timing.array_busy_ns(), "{options:?}");
    let channel_of = |op: &TracedOp| shape.channel_of(op.op.plane);
    let transfers =
        |channel| ops.iter().filter(move |op| channel_of(op) == channel).filter_map(|op| op.transfer_span_ns);
    let busy: Vec<u64> =
        (0..shape.channels).map(|channel| total_length_ns(transfers(channel).collect())).collect();
    assert_eq!(busy, timing.channel_busy_ns(), "{options:?}");
}

/// Returns the length of a period, nanoseconds.
fn duration_ns((start, end): PeriodNs) -> u64 {
    end - start
}

/// Returns the time, nanoseconds, at which a traced operation must end if it is in no multi-plane group. The time
/// follows from its start, its transfer, its suspensions and the times of the flash.
fn expected_end(op: &TracedOp, flash: FlashTiming, options: &TimingOptions) -> u64 {
    let (start, end) = op.transfer_span_ns.unwrap_or((op.start_ns, op.start_ns));
    assert_eq!(
        op.transfer_span_ns.map(duration_ns),
        (op.op.kind != OpKind::Erase).then(|| flash.transfer_ns(op.op.transfer_bytes))
    );
    let earliest = if op.op.kind == OpKind::Read { op.start_ns + flash.read_ns } else { op.start_ns };
    assert!(op.submitted_ns <= op.start_ns && earliest <= start, "{op:?}");
    let overhead_ns = options.suspension.map_or(0, |suspend| suspend.resume_overhead_ns);
    let suspended_ns: u64 =
        op.suspension_spans_ns.iter().map(|&period| duration_ns(period) + overhead_ns).sum();
    match op.op.kind {
        OpKind::Read => end,
        OpKind::Program => end + flash.program_ns + suspended_ns,
        _ => end + flash.erase_ns + suspended_ns,
    }
}

/// Returns the time, nanoseconds, for which an array (die or plane) is busy with these operations. Times that overlap
/// count once: operations of a multi-plane group run together, and a host read may run while it suspends another
/// operation.
fn busy_time_ns<'a>(ops: impl Iterator<Item = &'a TracedOp> + Clone) -> u64 {
    let suspensions: Vec<PeriodNs> = ops.clone().flat_map(|op| op.suspension_spans_ns.clone()).collect();
    let is_nested = |op: &TracedOp| {
        op.op.kind == OpKind::Read
            && suspensions.iter().any(|&(start, end)| start <= op.start_ns && op.end_ns <= end)
    };
    let mut outer: Vec<PeriodNs> =
        ops.filter(|op| !is_nested(op)).map(|op| (op.start_ns, op.end_ns)).collect();
    outer.sort_unstable();
    // Of a multi-plane group, which starts together, the operation that ends last.
    let starts: Vec<u64> = outer.iter().map(|span| span.0).collect();
    let last = |k: usize| starts.get(k + 1) != Some(&starts[k]);
    total_length_ns(outer.into_iter().enumerate().filter(|&(k, _)| last(k)).map(|(_, span)| span).collect())
}

/// Returns the total length of periods, nanoseconds; asserts that they do not overlap.
fn total_length_ns(mut spans: Vec<PeriodNs>) -> u64 {
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two at a time: {spans:?}");
    spans.into_iter().map(duration_ns).sum()
}
