//! Throttling of host writes with a token bucket of flash bytes.
//!
//! Bytes are earned evenly over the epoch and spent when they are programmed. A host write waits until everything
//! programmed so far is paid. The cost of a write is known only after garbage collection has run, so the bucket goes
//! into debt for one write and the next write pays. An epoch programs at most its budget and one write, and debt is
//! carried over. Bytes that an epoch does not use remain usable until its end and are then dropped, because the next
//! capacity is computed from the bytes that really remain.
//!
//! The integrated-lifetime paper gives no formula for the token bucket. This one equals the paper's delay per page,
//! `epoch * page / capacity - service time`, for a host that always has a write ready. Only host writes are throttled;
//! collection, recovery and metadata never wait.
//!
//! All arithmetic is in integers. A product of bytes and nanoseconds takes 128 bits. Waiting times round up and
//! earnings round down, so that rounding never permits more writes.

/// Token bucket of flash bytes that throttles host writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    /// Flash bytes that the token bucket earns per epoch; at least 1.
    epoch_budget_bytes: u64,
    /// Length of an epoch, nanoseconds.
    epoch_ns: u64,
    /// Time at which the current epoch of the token bucket began, nanoseconds.
    epoch_start_ns: u64,
    /// Flash bytes that the device had programmed when the current epoch began, minus the debt of the token bucket:
    /// bytes programmed before there were tokens for them.
    flash_bytes_covered_by_tokens_at_epoch_start: u64,
}

impl Throttle {
    /// Creates a token bucket of flash bytes, empty and without debt, for an epoch that begins at `epoch_start_ns`,
    /// when the device had programmed `flash_bytes`. A budget of 0 is raised to one byte per epoch: a device that has
    /// used up its rated cycles is slow, but not stopped.
    pub fn new(budget_bytes: u64, epoch_ns: u64, epoch_start_ns: u64, flash_bytes: u64) -> Self {
        Self {
            epoch_budget_bytes: budget_bytes.max(1),
            epoch_ns,
            epoch_start_ns,
            flash_bytes_covered_by_tokens_at_epoch_start: flash_bytes,
        }
    }

    /// Returns the token bucket for a later epoch, which earns `budget_bytes`: unused bytes are dropped, debt is kept.
    #[must_use]
    pub fn for_next_epoch(self, budget_bytes: u64, start_ns: u64, flash_bytes: u64) -> Self {
        let paid_bytes = self
            .bytes_earned_in_epoch(start_ns)
            .saturating_add(self.flash_bytes_covered_by_tokens_at_epoch_start)
            .min(flash_bytes);
        Self {
            epoch_budget_bytes: budget_bytes.max(1),
            epoch_start_ns: start_ns,
            flash_bytes_covered_by_tokens_at_epoch_start: paid_bytes,
            ..self
        }
    }

    /// Returns how long a host write at `now_ns` must wait, nanoseconds, if the device has programmed `flash_bytes`
    /// since it was built; 0 if it need not wait.
    pub fn delay_ns(&self, now_ns: u64, flash_bytes: u64) -> u64 {
        let debt_bytes = flash_bytes.saturating_sub(self.flash_bytes_covered_by_tokens_at_epoch_start);
        let due_ns = (debt_bytes as u128 * self.epoch_ns as u128).div_ceil(self.epoch_budget_bytes as u128);
        let due_ns = u64::try_from(due_ns).unwrap_or(u64::MAX);
        due_ns.saturating_sub(now_ns.saturating_sub(self.epoch_start_ns))
    }

    /// Returns the flash bytes that the token bucket has earned from the start of the epoch to `now_ns`.
    fn bytes_earned_in_epoch(&self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.epoch_start_ns) as u128;
        u64::try_from(elapsed_ns * self.epoch_budget_bytes as u128 / self.epoch_ns as u128)
            .unwrap_or(u64::MAX)
    }
}
