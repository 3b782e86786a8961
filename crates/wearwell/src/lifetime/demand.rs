//! Expected and permitted flash writes of an epoch (demand and capacity).
//!
//! Demand is counted in flash bytes, because the capacity is. The integrated-lifetime paper (section III-B1) leaves the
//! unit open, and with garbage collection host bytes and flash bytes differ by the write amplification. Demand means
//! the writes *without* schemes and *without* throttling. Otherwise the success of one epoch would look like low
//! demand, and the schemes would be switched off in the next:
//!
//! - the demand is host bytes times the flash bytes per stored byte, so the savings of schemes are not subtracted;
//! - the time during which writes were throttled does not count as time in which the host could write.
//!
//! The price is an assumption: the writes that the schemes saved would have been amplified like the others.
//!
//! If all schemes always run, none can be switched off, and the demand is measured with them.
//!
//! *Stored bytes* are the bytes programmed for host writes, as the write ratios of the schemes count them. So demand
//! times the ratios of the running schemes is what is really programmed. Pages that are written when a compressed chunk
//! is split are not counted: like GC copies, they amplify the writes. If they were counted, demand would be predicted
//! too low, and writes throttled too little for the target.

/// Number of past epochs of lifetime management over which demand and write ratios are averaged, as in the
/// integrated-lifetime paper (IL).
pub const HISTORY_EPOCHS: usize = 10;

/// History of a value over the last epochs of lifetime management. In its average, the newest epoch has weight 10, the
/// one before it 9, and so on. The integrated-lifetime paper (IL) says "weighted average of previous 10 epochs" and
/// gives no weights; linear weights are our choice.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WeightedEpochHistory {
    /// Values to be averaged, one for each of the last epochs, oldest first.
    values_by_epoch: Vec<f64>,
}

impl WeightedEpochHistory {
    /// Adds the value of the newest epoch (such as the bytes offered to a scheme in it) to the history; drops the
    /// oldest value if there are more than [`HISTORY_EPOCHS`].
    pub fn push_epoch(&mut self, value: f64) {
        if self.values_by_epoch.len() == HISTORY_EPOCHS {
            self.values_by_epoch.remove(0);
        }
        self.values_by_epoch.push(value);
    }

    /// Drops from the history the values of all epochs except the newest.
    pub fn drop_all_but_newest_epoch(&mut self) {
        self.values_by_epoch.drain(..self.values_by_epoch.len().saturating_sub(1));
    }

    /// Returns the weighted average over the epochs in the history; `None` before the first epoch. The newest epoch
    /// always has weight 10, the one before it 9, and so on, even if there are fewer than ten epochs.
    pub fn average(&self) -> Option<f64> {
        let newest_first = self.values_by_epoch.iter().rev();
        let weights = (1..=HISTORY_EPOCHS).rev().map(|weight| weight as f64);
        let (sum, total) = newest_first
            .zip(weights)
            .fold((0.0, 0.0), |(sum, total), (value, weight)| (sum + weight * value, total + weight));
        (total > 0.0).then(|| sum / total)
    }
}

/// Bytes that the host wrote to a device and that the device programmed during some period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteActivity {
    /// Bytes of the logical pages that the host wrote.
    pub host_bytes: u64,
    /// Bytes programmed for host writes after the lifetime schemes (deduplication, compression) saved some: raw pages
    /// and pages of compressed chunks, without GC copies and without the pages that splits of chunks write.
    pub host_programmed_bytes: u64,
    /// Bytes programmed to flash in all, GC copies included.
    pub flash_bytes: u64,
    /// Time for which throttling delayed host writes, nanoseconds.
    pub throttled_ns: u64,
}

impl WriteActivity {
    /// Returns the bytes written since `earlier`, an earlier reading of these counters; counters only grow.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_bytes: self.host_bytes - earlier.host_bytes,
            host_programmed_bytes: self.host_programmed_bytes - earlier.host_programmed_bytes,
            flash_bytes: self.flash_bytes - earlier.flash_bytes,
            throttled_ns: self.throttled_ns - earlier.throttled_ns,
        }
    }

    /// Returns the flash bytes that an epoch of `epoch_ns` would program without lifetime schemes and throttling, if
    /// the host goes on writing at the rate of this period, which lasted `elapsed_ns`. If writes were throttled all the
    /// time, one nanosecond is counted as unthrottled.
    pub fn expected_flash_bytes_per_epoch(&self, elapsed_ns: u64, epoch_ns: u64) -> f64 {
        let unthrottled = self.epoch_length_over_unthrottled_time(elapsed_ns, epoch_ns);
        self.host_bytes as f64 * self.flash_bytes_per_stored_byte() * unthrottled
    }

    /// Returns the bytes programmed to flash per byte programmed for host writes, GC copies and metadata included: the
    /// cost of a host byte that no lifetime scheme saves. 1 if the host wrote nothing.
    pub fn flash_bytes_per_stored_byte(&self) -> f64 {
        if self.host_programmed_bytes == 0 {
            return 1.0;
        }
        self.flash_bytes as f64 / self.host_programmed_bytes as f64
    }

    /// Returns the flash bytes that an epoch of `epoch_ns` would program if the host goes on writing at the rate of the
    /// last `elapsed_ns`, with the lifetime schemes that ran in this time, and without throttling.
    pub fn expected_flash_bytes_with_schemes(&self, elapsed_ns: u64, epoch_ns: u64) -> f64 {
        self.flash_bytes as f64 * self.epoch_length_over_unthrottled_time(elapsed_ns, epoch_ns)
    }

    /// Returns the length of an epoch divided by the part of the elapsed time `elapsed_ns` in which writes were not
    /// throttled (at least one nanosecond).
    fn epoch_length_over_unthrottled_time(&self, elapsed_ns: u64, epoch_ns: u64) -> f64 {
        epoch_ns as f64 / elapsed_ns.saturating_sub(self.throttled_ns).max(1) as f64
    }
}

/// Returns the flash bytes that an epoch may program (C in the integrated-lifetime paper), so that `remaining_bytes`,
/// the bytes that can be programmed until the rated cycles are used up, suffice for `remaining_epochs`. The last epoch,
/// and every epoch after the target lifetime, may program all remaining bytes.
pub fn epoch_write_budget_bytes(remaining_bytes: u64, remaining_epochs: u64) -> f64 {
    remaining_bytes as f64 / remaining_epochs.max(1) as f64
}

/// Returns the bytes that a device can still program until the rated cycles of all its blocks are used up; assumes even
/// wear. `erases` is the number of block erases so far.
pub fn remaining_endurance_bytes(blocks: u64, endurance_cycles: u32, erases: u64, block_bytes: u64) -> u64 {
    let cycles = (blocks * endurance_cycles as u64).saturating_sub(erases);
    cycles * block_bytes
}
