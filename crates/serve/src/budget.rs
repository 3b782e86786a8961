//! Memory budget that all connections of a server share.
//!
//! A connection may hold a small allowance freely. For more it first claims bytes of this budget, and waits until they
//! are free: for a payload when its first part has arrived, for replies before they are made. So a thousand clients
//! hold a thousand small allowances and one budget. A connection that holds a claim has to make progress: it is closed
//! if the rest of its payload does not arrive within [`CLAIM_HOLDER_TIMEOUT`], or if its client accepts no reply for
//! that time.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Default of the memory budget, bytes: the most that the large requests of all connections may hold together.
pub const DEFAULT_MEMORY_BUDGET_BYTES: usize = 256 << 20;
/// Bytes that one connection may hold without a claim on the shared memory budget.
pub(crate) const CONNECTION_UNCLAIMED_MAX_BYTES: usize = 1 << 20;
/// Longest time for which a client that holds a memory claim may delay the server: for the rest of a payload to arrive,
/// or for a reply to be accepted. After that its connection is closed.
pub(crate) const CLAIM_HOLDER_TIMEOUT: Duration = Duration::from_secs(30);

/// Memory budget, in bytes, that all connections of a server share: each claims part of it before it holds a large
/// request.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    max_bytes: usize,
    used_bytes: Mutex<usize>,
    bytes_released: Condvar,
}

impl MemoryBudget {
    pub(crate) fn of(max_bytes: usize) -> Self {
        Self { max_bytes, used_bytes: Mutex::new(0), bytes_released: Condvar::new() }
    }

    /// Waits until `bytes` of the memory budget are free, and takes them. A claim larger than the whole budget is
    /// granted when no other claim is held.
    pub(crate) fn claim(self: &Arc<Self>, bytes: usize) -> MemoryClaim {
        let used = self.used_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |used: &mut usize| *used > 0 && *used + bytes > self.max_bytes;
        let waited = self.bytes_released.wait_while(used, is_too_much);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
        MemoryClaim { budget: Arc::clone(self), claimed_bytes: bytes }
    }
}

/// Bytes claimed from the shared memory budget; they become free when the claim is dropped.
#[derive(Debug)]
pub(crate) struct MemoryClaim {
    budget: Arc<MemoryBudget>,
    claimed_bytes: usize,
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        *self.budget.used_bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.claimed_bytes;
        self.budget.bytes_released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_claim_beyond_the_free_budget_waits_for_others_to_release() {
        let budget = Arc::new(MemoryBudget::of(1000));
        let first = budget.claim(999);
        let (sender, granted) = std::sync::mpsc::channel();
        let waiter = {
            let budget = Arc::clone(&budget);
            std::thread::spawn(move || sender.send(budget.claim(2)).unwrap())
        };
        assert!(granted.recv_timeout(Duration::from_millis(50)).is_err(), "there is one byte left");
        drop(first);
        drop(granted.recv().expect("there is room"));
        waiter.join().unwrap();
        assert_eq!(*budget.used_bytes.lock().unwrap(), 0);
    }
}
