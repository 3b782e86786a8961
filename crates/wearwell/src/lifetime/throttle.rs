//! Performance throttling: a token bucket of flash bytes.
//!
//! Bytes are earned evenly over the epoch and spent when they have been programmed; a host write waits until
//! everything programmed so far is paid. The cost of a write is known only afterwards, when garbage collection has
//! run, so the bucket goes into debt for one write and the next one pays: an epoch programs at most its budget and one
//! write, and a debt is carried over. What an epoch does not use stays usable until its end and is then dropped, since
//! the next capacity is computed from what is really left.
//!
//! The paper (IL) gives no formula; this one equals its per-page delay, `epoch * page / capacity - service time`, for
//! a host that always has a write ready. Only host writes ask; collection, recovery and metadata are never held back.
//!
//! All arithmetic is in integers: a product of bytes and nanoseconds takes 128 bits, waiting times round up and
//! earnings round down, so that rounding never lets more through.

/// The bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    /// Earned in `epoch_ns`; never 0.
    budget_bytes: u64,
    epoch_ns: u64,
    /// Start of the current epoch.
    start_ns: u64,
    /// Flash bytes at which the current epoch began, less the debt it began with.
    paid_bytes: u64,
}

impl Throttle {
    /// An empty bucket without debt at `start_ns`, when the device had programmed `flash_bytes`. A budget of nothing
    /// is one byte: a device past its rated cycles is slow, not stopped.
    pub fn new(budget_bytes: u64, epoch_ns: u64, start_ns: u64, flash_bytes: u64) -> Self {
        Self { budget_bytes: budget_bytes.max(1), epoch_ns, start_ns, paid_bytes: flash_bytes }
    }

    /// The bucket of a later epoch: unused bytes are dropped, a debt is kept.
    #[must_use]
    pub fn renewed(self, budget_bytes: u64, start_ns: u64, flash_bytes: u64) -> Self {
        let paid_bytes = self.earned_bytes(start_ns).saturating_add(self.paid_bytes).min(flash_bytes);
        Self { budget_bytes: budget_bytes.max(1), start_ns, paid_bytes, ..self }
    }

    /// How long a host write at `now_ns` waits, nanoseconds, if the device has programmed `flash_bytes` since it was
    /// built; 0 = not at all.
    pub fn delay_ns(&self, now_ns: u64, flash_bytes: u64) -> u64 {
        let debt_bytes = flash_bytes.saturating_sub(self.paid_bytes);
        let due_ns = (debt_bytes as u128 * self.epoch_ns as u128).div_ceil(self.budget_bytes as u128);
        let due_ns = u64::try_from(due_ns).unwrap_or(u64::MAX);
        due_ns.saturating_sub(now_ns.saturating_sub(self.start_ns))
    }

    /// Bytes earned from the start to `now_ns`.
    fn earned_bytes(&self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns) as u128;
        u64::try_from(elapsed_ns * self.budget_bytes as u128 / self.epoch_ns as u128).unwrap_or(u64::MAX)
    }
}
