//! Memory that all connections of a server share.
//!
//! What a connection holds beyond a small allowance it claims here first, and waits until there is so much: a payload when its
//! first part has arrived, replies before they are made. So a thousand clients hold a thousand small allowances and one
//! budget. Who holds a claim has to move: a payload whose rest does not arrive within [`ANSWER_TIMEOUT`], or replies of which nobody
//! takes any for so long, end the connection.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What large requests of all connections hold together at the most, if nothing else is said.
pub const BUDGET_BYTES: usize = 256 << 20;
/// What a connection may hold without a claim.
pub(crate) const ALLOWANCE_BYTES: usize = 1 << 20;
/// How long the rest of a payload may take, and the holder of a claim stand still.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Budget {
    most_bytes: usize,
    used_bytes: Mutex<usize>,
    released: Condvar,
}

impl Budget {
    pub(crate) fn of(most_bytes: usize) -> Self {
        Self { most_bytes, used_bytes: Mutex::new(0), released: Condvar::new() }
    }

    /// Waits until there is so much. A claim of more than all is granted when it is the only one.
    pub(crate) fn claim(self: &Arc<Self>, bytes: usize) -> Claim {
        let used = self.used_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |used: &mut usize| *used > 0 && *used + bytes > self.most_bytes;
        let waited = self.released.wait_while(used, is_too_much);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
        Claim { budget: Arc::clone(self), bytes }
    }
}

/// A part of the budget, given back with it.
#[derive(Debug)]
pub(crate) struct Claim {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        *self.budget.used_bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_claims_more_than_is_left_waits_for_the_others() {
        let budget = Arc::new(Budget::of(1000));
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
