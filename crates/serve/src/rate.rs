//! Rate limits: how many bytes and requests per second the clients of one export may use together.
//!
//! A request is *booked* when it has arrived. It is executed when the time that all requests booked before it take at
//! the rate has passed. So requests are executed in the order of arrival, a request may be of any size, and in the long
//! run the rate is exact. Unused time is saved up to [`SAVED_MAX`], so that a few requests at once need not wait. The
//! thread of a connection waits itself and books no other request meanwhile, so connections take turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::Limits;

/// Most unused time that a rate limit saves for later requests, so that a few requests in a burst need not wait.
const SAVED_MAX: Duration = Duration::from_millis(100);

/// One rate limit (of bytes or of requests). Times are durations since a moment that the caller chooses, the same for
/// all calls.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: u64,
    /// Time at which all requests booked so far are done at this rate. A request that arrives earlier waits until then.
    paid_at: Duration,
}

impl Rate {
    fn new(per_second: u64) -> Self {
        Self { per_second: per_second.max(1), paid_at: Duration::ZERO }
    }

    /// Books `amount` (bytes or requests) and returns the time from which on the request may be executed.
    fn book(&mut self, now: Duration, amount: u64) -> Duration {
        let begin = self.paid_at.max(now.saturating_sub(SAVED_MAX));
        let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(self.per_second);
        self.paid_at = begin + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        begin
    }
}

/// The rate limits of one export: bytes and requests per second of all its clients together.
#[derive(Debug)]
pub(crate) struct RateLimit {
    start_time: Instant,
    state: Mutex<RateState>,
    lifted: Condvar,
    waited: AtomicU64,
}

#[derive(Debug)]
struct RateState {
    bytes: Option<Rate>,
    requests: Option<Rate>,
    /// Whether requests never wait: no rate is set, or the server stops.
    is_lifted: bool,
}

impl RateState {
    /// Books a request of `bytes` under both rates, and returns the time from which on it may be executed.
    fn book(&mut self, now: Duration, bytes: u64) -> Duration {
        let of_bytes = self.bytes.as_mut().map_or(now, |rate| rate.book(now, bytes));
        let of_requests = self.requests.as_mut().map_or(now, |rate| rate.book(now, 1));
        of_bytes.max(of_requests)
    }
}

impl RateLimit {
    pub(crate) fn of(limits: &Limits) -> Self {
        let (bytes, requests) = (limits.bytes_per_second, limits.requests_per_second);
        let is_lifted = bytes.is_none() && requests.is_none();
        let state = RateState { bytes: bytes.map(Rate::new), requests: requests.map(Rate::new), is_lifted };
        Self {
            start_time: Instant::now(),
            state: Mutex::new(state),
            lifted: Condvar::new(),
            waited: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, RateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books a request of `bytes`. Returns the time until which it has to wait (see [`Self::wait_until`]), or `None` if
    /// it may be executed at once.
    pub(crate) fn book(&self, bytes: u64) -> Option<Duration> {
        let mut state = self.state();
        if state.is_lifted {
            return None;
        }
        let now = self.start_time.elapsed();
        let moment = Some(state.book(now, bytes)).filter(|&moment| moment > now);
        self.waited.fetch_add(u64::from(moment.is_some()), Ordering::Relaxed);
        moment
    }

    /// Waits until `moment` (time since this limit was made), or until the limit is lifted.
    pub(crate) fn wait_until(&self, moment: Duration) {
        let left = moment.saturating_sub(self.start_time.elapsed());
        let waited = self.lifted.wait_timeout_while(self.state(), left, |state| !state.is_lifted);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends the limit, also for requests that wait: the server stops and executes what has arrived without delay.
    pub(crate) fn lift(&self) {
        self.state().is_lifted = true;
        self.lifted.notify_all();
    }

    /// Returns the number of requests so far that had to wait for the rate limit.
    pub(crate) fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time at which the first request of a test arrives, from an arbitrary zero.
    const START: Duration = Duration::from_secs(10);

    /// Returns the times at which each of `count` requests of `bytes` is executed, in milliseconds after the start, if
    /// the client always has the next request ready.
    fn executed_at(state: &mut RateState, count: u64, bytes: u64) -> Vec<u128> {
        let mut now = START;
        let execute = |_| {
            now = now.max(state.book(now, bytes));
            now.saturating_sub(START).as_millis()
        };
        (0..count).map(execute).collect()
    }

    fn state(bytes: Option<u64>, requests: Option<u64>) -> RateState {
        RateState { bytes: bytes.map(Rate::new), requests: requests.map(Rate::new), is_lifted: false }
    }

    #[test]
    fn the_long_run_rate_under_a_rate_limit_is_exact() {
        let moments = executed_at(&mut state(None, Some(50)), 1001, 0);
        assert_eq!(
            moments.last(),
            Some(&19_900),
            "1000 intervals of 20 ms, without the 100 ms that were saved"
        );
        let moments = executed_at(&mut state(Some(1_000_000), None), 101, 50_000);
        assert_eq!(moments.last(), Some(&4_900));
    }

    #[test]
    fn a_rate_limit_saves_unused_time_up_to_a_maximum() {
        let moments = executed_at(&mut state(None, Some(100)), 500, 0);
        let at_once = moments.iter().filter(|&&moment| moment == 0).count();
        assert_eq!(at_once, 11, "those of 100 ms, and the next one");
    }

    #[test]
    fn the_stricter_of_byte_rate_and_request_rate_delays_requests() {
        for (bytes, took) in [(1_000, 9_900), (1_000_000, 99_900)] {
            let moments = executed_at(&mut state(Some(1_000_000), Some(10)), 101, bytes);
            assert_eq!(moments.last(), Some(&took), "{bytes} bytes each");
        }
    }

    #[test]
    fn a_request_larger_than_the_rate_runs_at_once_and_delays_the_next_one() {
        let mut rate = Rate::new(1);
        assert!(rate.book(START, 1 << 20) <= START);
        assert_eq!(rate.book(START, 1), START.saturating_sub(SAVED_MAX) + Duration::from_secs(1 << 20));
        assert!(rate.book(START, u64::MAX) > START);
    }

    #[test]
    fn lifting_a_rate_limit_releases_waiting_requests() {
        let limits = Limits { requests_per_second: Some(1), ..Limits::default() };
        let limit = std::sync::Arc::new(RateLimit::of(&limits));
        let waiter = {
            let limit = std::sync::Arc::clone(&limit);
            // Longer than any test runs.
            std::thread::spawn(move || limit.wait_until(Duration::from_secs(1_000_000)))
        };
        limit.lift();
        waiter.join().unwrap();
        assert_eq!((limit.book(0), limit.book(0), limit.waited()), (None, None, 0));
    }
}
