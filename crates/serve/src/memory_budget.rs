//! Memory budget: the limit of the memory that the large requests of all connections of a server hold together.
//!
//! A connection may hold a small allowance freely. For more it first claims bytes of this budget, and waits until they
//! are free: for a payload when its first part has arrived, for replies before they are made. Claims are granted in the
//! order in which they were made. So a thousand clients hold a thousand small allowances and one budget. A connection
//! that holds a claim has to make progress: it is closed if the rest of its payload does not arrive within
//! [`MEMORY_CLAIM_TIMEOUT`], or if its client falls behind in accepting replies ([`ReplyTimeAllowance`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Default of the memory budget, bytes: the most that the large requests of all connections may hold together.
pub const DEFAULT_MEMORY_BUDGET_BYTES: usize = 256 << 20;
/// Most bytes that one connection may hold without a claim on the shared memory budget.
pub(crate) const CONNECTION_UNCLAIMED_MAX_BYTES: usize = 1 << 20;
/// Longest time for which a client that holds a memory claim may delay the server: until the rest of a payload has
/// arrived, or until replies are accepted. After this time its connection is closed.
pub(crate) const MEMORY_CLAIM_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum rate, in bytes per second, at which a client that holds a memory claim has to accept replies. The client may
/// lag this rate by at most [`MEMORY_CLAIM_TIMEOUT`]. The rate is so low that a client on a slow line is not
/// disconnected: the largest amount of replies in flight, 64 MiB, is sent in less than ten minutes.
const MEMORY_CLAIM_MIN_REPLY_BYTES_PER_SECOND: u64 = 128 << 10;

/// Memory budget, in bytes, that all connections of a server share. A connection claims part of it before it holds a
/// large request.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    /// Size of the budget, bytes.
    max_bytes: usize,
    /// Bytes that are claimed at present, and the order of the claims.
    state: Mutex<BudgetState>,
    /// Wakes threads that wait for memory when a claim is released or granted.
    change_signal: Condvar,
}

/// Bytes of the memory budget that are claimed at present, and the order of the claims.
#[derive(Debug, Default)]
struct BudgetState {
    /// Number of bytes that are claimed at present.
    used_bytes: usize,
    /// Number of claims that were made so far; each claim has its position in this order as its number.
    made_claim_count: u64,
    /// Number of claims that were granted so far: the number of the claim that is granted next.
    granted_claim_count: u64,
}

impl MemoryBudget {
    /// Makes a memory budget of `max_bytes` bytes, none of which are claimed.
    pub(crate) fn of(max_bytes: usize) -> Self {
        Self { max_bytes, state: Mutex::default(), change_signal: Condvar::new() }
    }

    /// Waits until all earlier claims are granted and `bytes` of the memory budget are free, and takes them. So a large
    /// claim is not overtaken by small ones. A claim larger than the whole budget is granted when no other claim is
    /// held. A connection that holds a claim must make no other one; `connection_memory_claim_count` counts its claims.
    pub(crate) fn claim(
        self: &Arc<Self>,
        bytes: usize,
        connection_memory_claim_count: &Arc<HeldClaimCount>,
    ) -> MemoryClaim {
        let mut state = self.lock_state();
        let claim_number = state.made_claim_count;
        state.made_claim_count += 1;
        let has_to_wait = |state: &mut BudgetState| {
            state.granted_claim_count != claim_number
                || state.used_bytes > 0 && state.used_bytes + bytes > self.max_bytes
        };
        let waited = self.change_signal.wait_while(state, has_to_wait);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.used_bytes += bytes;
        state.granted_claim_count += 1;
        // The next claim may fit as well.
        self.change_signal.notify_all();
        connection_memory_claim_count.0.fetch_add(1, Ordering::AcqRel);
        MemoryClaim {
            budget: Arc::clone(self),
            claimed_bytes: bytes,
            connection_memory_claim_count: Arc::clone(connection_memory_claim_count),
        }
    }

    /// Locks the state of the budget.
    fn lock_state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of claims on the memory budget that one connection holds.
#[derive(Debug, Default)]
pub(crate) struct HeldClaimCount(AtomicUsize);

impl HeldClaimCount {
    /// Whether the connection holds a claim on the memory budget.
    fn is_any_held(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Claim of bytes of the shared memory budget; they become free when the claim is dropped.
#[derive(Debug)]
pub(crate) struct MemoryClaim {
    /// Budget to which the bytes are returned.
    budget: Arc<MemoryBudget>,
    /// Number of bytes claimed.
    claimed_bytes: usize,
    /// Number of claims of the connection that made this claim.
    connection_memory_claim_count: Arc<HeldClaimCount>,
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.budget.lock_state().used_bytes -= self.claimed_bytes;
        self.budget.change_signal.notify_all();
        self.connection_memory_claim_count.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Deadline by which the client of a connection has to accept replies. There is no deadline while the connection holds
/// no claim on the memory budget. With a claim, the client has [`MEMORY_CLAIM_TIMEOUT`]. Each byte that it accepts
/// extends its time by the duration of a byte at the required rate ([`MEMORY_CLAIM_MIN_REPLY_BYTES_PER_SECOND`]), up to
/// the full time. A limit for each write to the socket would not do: a client that accepts a byte from time to time
/// would hold memory for ever.
#[derive(Debug)]
pub(crate) struct ReplyTimeAllowance {
    /// Number of claims on the memory budget that the connection holds.
    connection_memory_claim_count: Arc<HeldClaimCount>,
    /// Longest time for which the client may accept no bytes at all.
    max_wait: Duration,
    /// Instant by which the client has to accept bytes; `None` while no claim is held or no reply waits.
    deadline: Option<Instant>,
}

impl ReplyTimeAllowance {
    /// Makes the reply time allowance of a connection. Its client may accept no reply bytes for at most `max_wait`
    /// while the connection holds a memory claim. No deadline runs yet.
    pub(crate) fn of(connection_memory_claim_count: Arc<HeldClaimCount>, max_wait: Duration) -> Self {
        Self { connection_memory_claim_count, max_wait, deadline: None }
    }

    /// Returns the time that is left for the client to accept more bytes, zero if the time is over. `None` if there is
    /// no deadline at present, because no memory of the budget is reserved for the connection.
    pub(crate) fn time_left(&mut self, now: Instant) -> Option<Duration> {
        if !self.connection_memory_claim_count.is_any_held() {
            self.deadline = None;
            return None;
        }
        Some(self.deadline.get_or_insert(now + self.max_wait).saturating_duration_since(now))
    }

    /// Extends the time that is left for the client, because it accepted `bytes` bytes.
    pub(crate) fn note_accepted_bytes(&mut self, now: Instant, bytes: usize) {
        if let Some(deadline) = &mut self.deadline {
            let earned =
                Duration::from_nanos(bytes as u64 * 1_000_000_000 / MEMORY_CLAIM_MIN_REPLY_BYTES_PER_SECOND);
            *deadline = (*deadline + earned).min(now + self.max_wait);
        }
    }

    /// Removes the deadline, because the client has accepted every reply.
    pub(crate) fn reset(&mut self) {
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_claim_beyond_the_free_budget_waits_for_others_to_release() {
        let budget = Arc::new(MemoryBudget::of(1000));
        let connection_memory_claim_count = Arc::new(HeldClaimCount::default());
        let first = budget.claim(999, &connection_memory_claim_count);
        let (sender, granted) = std::sync::mpsc::channel();
        let waiter = {
            let budget = Arc::clone(&budget);
            std::thread::spawn(move || sender.send(budget.claim(2, &Arc::default())).unwrap())
        };
        assert!(granted.recv_timeout(Duration::from_millis(50)).is_err(), "there is one byte left");
        drop(first);
        drop(granted.recv().expect("there is room"));
        waiter.join().unwrap();
        assert_eq!(budget.lock_state().used_bytes, 0);
        assert!(!connection_memory_claim_count.is_any_held());
    }

    /// Bug: whichever waiting thread woke first took the memory that became free, so that a large request could wait as
    /// long as smaller ones arrived.
    #[test]
    fn memory_claims_are_granted_in_the_order_in_which_they_were_made() {
        let budget = Arc::new(MemoryBudget::of(1000));
        let [first, second] = [700, 300].map(|bytes| budget.claim(bytes, &Arc::default()));
        let (sender, granted) = std::sync::mpsc::channel();
        let waiters = [900, 100, 50].map(|bytes| {
            let made_before = budget.lock_state().made_claim_count;
            let (waiting, sender) = (Arc::clone(&budget), sender.clone());
            let waiter = std::thread::spawn(move || {
                let claim = waiting.claim(bytes, &Arc::default());
                sender.send(bytes).unwrap();
                claim
            });
            while budget.lock_state().made_claim_count == made_before {
                std::thread::yield_now();
            }
            waiter
        });
        drop(second);
        assert!(
            granted.recv_timeout(Duration::from_millis(50)).is_err(),
            "the first claim that waits is too large"
        );
        drop(first);
        let mut granted_bytes = [0; 2].map(|_| granted.recv().unwrap());
        granted_bytes.sort_unstable();
        assert_eq!(granted_bytes, [100, 900]);
        let [large, small, smaller] = waiters;
        assert!(granted.recv_timeout(Duration::from_millis(50)).is_err(), "the budget is used up");
        drop(large.join().unwrap());
        assert_eq!(granted.recv(), Ok(50));
        drop((small.join().unwrap(), smaller.join().unwrap()));
        assert_eq!(budget.lock_state().used_bytes, 0);
    }

    /// One second, the interval at which a test's client accepts bytes.
    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the number of seconds after which a client that accepts `bytes` every second times out; `None` if it
    /// does not within an hour.
    fn seconds_until_timeout(bytes: usize) -> Option<u32> {
        let budget = Arc::new(MemoryBudget::of(1000));
        let connection_memory_claim_count = Arc::new(HeldClaimCount::default());
        let _claim = budget.claim(1, &connection_memory_claim_count);
        let (mut allowance, begin) =
            (ReplyTimeAllowance::of(connection_memory_claim_count, MEMORY_CLAIM_TIMEOUT), Instant::now());
        allowance.time_left(begin);
        (1..3600).find(|&second| {
            let is_over = allowance.time_left(begin + second * SECOND) == Some(Duration::ZERO);
            allowance.note_accepted_bytes(begin + second * SECOND, bytes);
            is_over
        })
    }

    /// A client that holds a memory claim is timed out if it accepts replies more slowly than at the required rate.
    #[test]
    fn a_client_that_holds_memory_must_accept_replies_at_the_minimum_rate() {
        assert_eq!(seconds_until_timeout(0), Some(30));
        assert_eq!(seconds_until_timeout(1), Some(31), "a byte now and then buys next to nothing");
        assert_eq!(seconds_until_timeout(64 << 10), Some(59), "half of the rate");
        assert_eq!(seconds_until_timeout(128 << 10), None, "the rate itself");
        assert_eq!(seconds_until_timeout(1 << 30), None);
    }

    #[test]
    fn the_reply_deadline_begins_when_memory_is_claimed_and_ends_when_all_is_sent() {
        let budget = Arc::new(MemoryBudget::of(1000));
        let connection_memory_claim_count = Arc::new(HeldClaimCount::default());
        let mut allowance =
            ReplyTimeAllowance::of(Arc::clone(&connection_memory_claim_count), MEMORY_CLAIM_TIMEOUT);
        let begin = Instant::now();
        assert_eq!(allowance.time_left(begin), None);
        let claim = budget.claim(1, &connection_memory_claim_count);
        assert_eq!(allowance.time_left(begin + 100 * SECOND), Some(MEMORY_CLAIM_TIMEOUT));
        assert_eq!(allowance.time_left(begin + 129 * SECOND), Some(SECOND));
        allowance.note_accepted_bytes(begin + 129 * SECOND, 1 << 30);
        assert_eq!(
            allowance.time_left(begin + 129 * SECOND),
            Some(MEMORY_CLAIM_TIMEOUT),
            "time is not saved"
        );
        assert_eq!(allowance.time_left(begin + 158 * SECOND), Some(SECOND));
        allowance.reset();
        assert_eq!(allowance.time_left(begin + 158 * SECOND), Some(MEMORY_CLAIM_TIMEOUT));
        drop(claim);
        assert_eq!(allowance.time_left(begin + 200 * SECOND), None);
    }
}
