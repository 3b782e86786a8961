//! How much an epoch will write, and how much it may.
//!
//! Demand is counted in flash bytes, because the capacity is: the paper (IL, section III-B1) leaves the unit open, and
//! under garbage collection the two differ by the write amplification. It is the demand *without* schemes and
//! *without* throttling, or yesterday's success would look like a modest host and switch itself off:
//!
//! - host bytes times the flash bytes that each stored byte caused undo the schemes;
//! - the time for which writes were held back does not count as time in which the host could write.
//!
//! The price is an assumption: what the schemes removed would have been amplified like the rest.

/// Epochs of the past that count (IL).
pub const HISTORY_EPOCHS: usize = 10;

/// A weighted average of the last epochs: the newest of n counts n times, the oldest once. The paper says "weighted
/// average of previous 10 epochs" and gives no weights; linear ones are ours.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct History {
    /// Oldest first.
    values: Vec<f64>,
}

impl History {
    /// Adds the newest epoch; the oldest beyond [`HISTORY_EPOCHS`] is forgotten.
    pub fn push(&mut self, value: f64) {
        if self.values.len() == HISTORY_EPOCHS {
            self.values.remove(0);
        }
        self.values.push(value);
    }

    /// Forgets all epochs but the newest.
    pub fn keep_newest(&mut self) {
        self.values.drain(..self.values.len().saturating_sub(1));
    }

    /// The average; `None` before the first epoch. With fewer than ten epochs those that exist count, by the weights
    /// that they would have beside older ones.
    pub fn average(&self) -> Option<f64> {
        let newest_first = self.values.iter().rev();
        let weights = (1..=HISTORY_EPOCHS).rev().map(|weight| weight as f64);
        let (sum, total) = newest_first
            .zip(weights)
            .fold((0.0, 0.0), |(sum, total), (value, weight)| (sum + weight * value, total + weight));
        (total > 0.0).then(|| sum / total)
    }
}

/// What a device did in some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// Bytes of the pages that the host wrote.
    pub host_bytes: u64,
    /// Bytes programmed for them after the schemes: raw pages and chunk pages, no copies.
    pub stored_bytes: u64,
    /// All bytes programmed.
    pub flash_bytes: u64,
    /// Time for which host writes were held back by throttling, nanoseconds.
    pub held_ns: u64,
}

impl Activity {
    /// What happened since `earlier`; counters only grow.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_bytes: self.host_bytes - earlier.host_bytes,
            stored_bytes: self.stored_bytes - earlier.stored_bytes,
            flash_bytes: self.flash_bytes - earlier.flash_bytes,
            held_ns: self.held_ns - earlier.held_ns,
        }
    }

    /// Flash bytes that an epoch of `epoch_ns` would see at this rate, without schemes and without throttling, if
    /// this happened in `elapsed_ns`. Time held back entirely counts as one nanosecond of free time.
    pub fn demand_bytes(&self, elapsed_ns: u64, epoch_ns: u64) -> f64 {
        let amplification =
            if self.stored_bytes == 0 { 1.0 } else { self.flash_bytes as f64 / self.stored_bytes as f64 };
        let free_ns = elapsed_ns.saturating_sub(self.held_ns).max(1);
        self.host_bytes as f64 * amplification * (epoch_ns as f64 / free_ns as f64)
    }
}

/// Bytes that an epoch may program if what is left lasts for `remaining_epochs` (C of the paper); the last epoch, and
/// every one after the target, may have all that is left.
pub fn epoch_capacity_bytes(remaining_bytes: u64, remaining_epochs: u64) -> f64 {
    remaining_bytes as f64 / remaining_epochs.max(1) as f64
}

/// Bytes that can be programmed until the rated cycles of all blocks are used: wear is assumed to be even.
pub fn remaining_bytes(blocks: u64, endurance_cycles: u32, erases: u64, block_bytes: u64) -> u64 {
    let cycles = (blocks * endurance_cycles as u64).saturating_sub(erases);
    cycles * block_bytes
}
