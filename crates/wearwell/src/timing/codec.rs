//! Delta codec: timing of the processor that encodes and decodes deltas, with one unit or several, first come first
//! served.
//!
//! Delta-FTL (section 3.3.2) describes an encoding as three phases with one resource each: the chip senses the old
//! page, the bus transfers it, the processor computes. Chip and bus are the array and the channel of a timing engine;
//! the processor is modelled here. The deltas of a request are computed when its flash operations have finished, and
//! requests queue for the units. So `n` delta writes pending on one chip take `n` times the longest phase, if the chip
//! can sense a page while it transfers another ([`TimingOptions::has_independent_planes`](super::TimingOptions)).
//!
//! The price of this simple model: a write whose delta does not fit the temp buffer commits the buffer before its own
//! delta is computed, not after. The sum of the phases is unchanged.

/// Codec units of the controller, which encode and decode deltas: for each unit, the time from which it is free. An
/// empty list means that the number of units is not limited, and no request waits.
#[derive(Clone, Debug)]
pub(super) struct DeltaCodecUnits {
    /// Time from which each codec unit is free, nanoseconds.
    units_free_at_ns: Vec<u64>,
}

impl DeltaCodecUnits {
    /// Creates `codec_units` codec units, which are free from time 0; 0 means no limit.
    pub(super) fn new(codec_units: usize) -> Self {
        Self { units_free_at_ns: vec![0; codec_units] }
    }

    /// Books `work_ns` nanoseconds of delta encoding or decoding, from `ready_ns` on, at the codec unit that becomes
    /// free first. Returns the time that the work waits for the unit, nanoseconds.
    pub(super) fn book_delta_codec_wait_ns(&mut self, ready_ns: u64, work_ns: u64) -> u64 {
        if work_ns == 0 {
            return 0;
        }
        let Some(free_at_ns) = self.units_free_at_ns.iter_mut().min() else { return 0 };
        let start_ns = ready_ns.max(*free_at_ns);
        *free_at_ns = start_ns + work_ns;
        start_ns - ready_ns
    }
}
