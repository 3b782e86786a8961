//! The processor that makes and applies deltas: one unit or several, first come first served.
//!
//! Delta-FTL (section 3.3.2) sees an encoding as three phases, each of which has one resource to itself: the chip senses
//! the old page, the bus transfers it, the processor computes. Chip and bus are the array and the channel of an engine.
//! This is the third resource: a request's deltas are computed when its flash operations are done, and requests wait for
//! each other here. `n` delta writes pending on one chip thus take `n` times the longest phase, if the chip can sense a
//! page while it transfers another ([`TimingOptions::independent_planes`](super::TimingOptions)).
//!
//! Price of the simplicity: a write whose delta does not fit the temp buffer commits that buffer before its own delta is
//! computed, not after. The sum of the phases is the same.

/// When each unit falls free. Without units nobody waits.
#[derive(Clone, Debug)]
pub(super) struct Codec {
    free_at_ns: Vec<u64>,
}

impl Codec {
    pub(super) fn new(units: usize) -> Self {
        Self { free_at_ns: vec![0; units] }
    }

    /// Books `work_ns` from `ready_ns` on at the unit that falls free first; returns how long the work waits for it.
    pub(super) fn wait_ns(&mut self, ready_ns: u64, work_ns: u64) -> u64 {
        if work_ns == 0 {
            return 0;
        }
        let Some(free_at_ns) = self.free_at_ns.iter_mut().min() else { return 0 };
        let start_ns = ready_ns.max(*free_at_ns);
        *free_at_ns = start_ns + work_ns;
        start_ns - ready_ns
    }
}
