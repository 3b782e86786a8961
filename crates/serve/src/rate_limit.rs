//! Rate limits: how many bytes and requests per second the clients of one export may use together.
//!
//! A request is *booked* when it has arrived. It is executed when the time that all requests booked before it take at
//! the rate has passed. So requests are executed in the order of arrival, a request may be of any size, and in the long
//! run the rate is exact. Unused time is saved up to [`BURST_TIME_MAX`], so that a few requests at once need not wait.
//! The thread of a connection waits itself and books no other request meanwhile, so connections take turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::ClientLimits;

/// Most unused time that a rate limit saves for later requests. With it, a few requests in a burst need not wait.
const BURST_TIME_MAX: Duration = Duration::from_millis(100);

/// Limit of bytes per second, or of requests per second. Its times are durations since a moment that the caller chooses
/// once.
#[derive(Clone, Copy, Debug)]
struct ByteOrRequestRateLimit {
    /// Rate: bytes per second or requests per second.
    bytes_or_requests_per_second: u64,
    /// Time at which all requests booked so far are done at this rate. A request that arrives earlier waits until then.
    booked_until: Duration,
}

impl ByteOrRequestRateLimit {
    /// Makes a limit of `per_second` bytes or requests per second, with nothing booked.
    fn new(per_second: u64) -> Self {
        Self { bytes_or_requests_per_second: per_second.max(1), booked_until: Duration::ZERO }
    }

    /// Books `amount` bytes or requests for a request that arrives at the time `now`. Returns the time from which on
    /// the request may be executed.
    fn reserve_bytes_or_requests(&mut self, now: Duration, amount: u64) -> Duration {
        let begin = self.booked_until.max(now.saturating_sub(BURST_TIME_MAX));
        let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(self.bytes_or_requests_per_second);
        self.booked_until = begin + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        begin
    }
}

/// Rate limits of one export: bytes per second and requests per second of all its clients together.
#[derive(Debug)]
pub(crate) struct ExportRateLimits {
    /// Time at which the limits were made; their other times are durations since then.
    start_time: Instant,
    /// Limits of bytes and of requests per second, with the requests booked so far.
    state: Mutex<RateLimitState>,
    /// Wakes waiting requests when the limits are lifted.
    limit_lifted: Condvar,
    /// Number of requests so far that had to wait for the rate limits.
    delayed_requests: AtomicU64,
}

/// State of the rate limits of an export: bytes per second, requests per second, and whether they are in force.
#[derive(Debug)]
struct RateLimitState {
    /// Limit of bytes per second; `None` if there is none.
    byte_rate: Option<ByteOrRequestRateLimit>,
    /// Limit of requests per second; `None` if there is none.
    request_rate: Option<ByteOrRequestRateLimit>,
    /// Whether requests never wait, because no rate is set or the server stops.
    is_unlimited: bool,
}

impl RateLimitState {
    /// Books a request of `bytes` bytes that arrives at the time `now`, under both limits. Returns the earliest time at
    /// which it may be executed.
    fn reserve_request_time(&mut self, now: Duration, bytes: u64) -> Duration {
        let of_bytes = self.byte_rate.as_mut().map_or(now, |rate| rate.reserve_bytes_or_requests(now, bytes));
        let of_requests =
            self.request_rate.as_mut().map_or(now, |rate| rate.reserve_bytes_or_requests(now, 1));
        of_bytes.max(of_requests)
    }
}

impl ExportRateLimits {
    /// Makes the rate limits of one export from the limits for clients.
    pub(crate) fn of(limits: &ClientLimits) -> Self {
        let (bytes, requests) =
            (limits.max_bytes_per_second_per_export, limits.max_requests_per_second_per_export);
        let is_lifted = bytes.is_none() && requests.is_none();
        let state = RateLimitState {
            byte_rate: bytes.map(ByteOrRequestRateLimit::new),
            request_rate: requests.map(ByteOrRequestRateLimit::new),
            is_unlimited: is_lifted,
        };
        Self {
            start_time: Instant::now(),
            state: Mutex::new(state),
            limit_lifted: Condvar::new(),
            delayed_requests: AtomicU64::new(0),
        }
    }

    /// Locks the state of the limits, also if a thread panicked while it held the lock.
    fn lock_state(&self) -> MutexGuard<'_, RateLimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books a request of `bytes` bytes that has arrived now. Returns the time until which it has to wait (see
    /// [`Self::wait_until`]), or `None` if it may be executed at once.
    pub(crate) fn reserve_request_time(&self, bytes: u64) -> Option<Duration> {
        let mut state = self.lock_state();
        if state.is_unlimited {
            return None;
        }
        let now = self.start_time.elapsed();
        let moment = Some(state.reserve_request_time(now, bytes)).filter(|&moment| moment > now);
        self.delayed_requests.fetch_add(u64::from(moment.is_some()), Ordering::Relaxed);
        moment
    }

    /// Waits until `moment` (a duration since these limits were made), or until the limits are lifted.
    pub(crate) fn wait_until(&self, moment: Duration) {
        let left = moment.saturating_sub(self.start_time.elapsed());
        let waited =
            self.limit_lifted.wait_timeout_while(self.lock_state(), left, |state| !state.is_unlimited);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Lifts the rate limits, also for requests that wait already: the server stops, and executes without delay the
    /// requests that have arrived.
    pub(crate) fn disable_limit(&self) {
        self.lock_state().is_unlimited = true;
        self.limit_lifted.notify_all();
    }

    /// Returns the number of requests so far that had to wait for the rate limit.
    pub(crate) fn delayed_requests(&self) -> u64 {
        self.delayed_requests.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time at which the first request of a test arrives, from an arbitrary zero.
    const FIRST_ARRIVAL_TIME: Duration = Duration::from_secs(10);

    /// Returns the times at which `count` requests of `bytes` bytes are executed, in milliseconds after the first
    /// arrival. The client always has the next request ready.
    fn execution_times_ms(state: &mut RateLimitState, count: u64, bytes: u64) -> Vec<u128> {
        let mut now = FIRST_ARRIVAL_TIME;
        let execute = |_| {
            now = now.max(state.reserve_request_time(now, bytes));
            now.saturating_sub(FIRST_ARRIVAL_TIME).as_millis()
        };
        (0..count).map(execute).collect()
    }

    /// Makes rate limits of this many bytes per second and requests per second; `None` is no limit.
    fn rate_state(bytes: Option<u64>, requests: Option<u64>) -> RateLimitState {
        RateLimitState {
            byte_rate: bytes.map(ByteOrRequestRateLimit::new),
            request_rate: requests.map(ByteOrRequestRateLimit::new),
            is_unlimited: false,
        }
    }

    #[test]
    fn the_long_run_rate_under_a_rate_limit_is_exact() {
        let moments = execution_times_ms(&mut rate_state(None, Some(50)), 1001, 0);
        assert_eq!(
            moments.last(),
            Some(&19_900),
            "1000 intervals of 20 ms, without the 100 ms that were saved"
        );
        let moments = execution_times_ms(&mut rate_state(Some(1_000_000), None), 101, 50_000);
        assert_eq!(moments.last(), Some(&4_900));
    }

    #[test]
    fn a_rate_limit_saves_unused_time_up_to_a_maximum() {
        let moments = execution_times_ms(&mut rate_state(None, Some(100)), 500, 0);
        let at_once = moments.iter().filter(|&&moment| moment == 0).count();
        assert_eq!(at_once, 11, "those of 100 ms, and the next one");
    }

    #[test]
    fn the_stricter_of_byte_rate_and_request_rate_delays_requests() {
        for (bytes, took) in [(1_000, 9_900), (1_000_000, 99_900)] {
            let moments = execution_times_ms(&mut rate_state(Some(1_000_000), Some(10)), 101, bytes);
            assert_eq!(moments.last(), Some(&took), "{bytes} bytes each");
        }
    }

    #[test]
    fn a_request_larger_than_the_rate_runs_at_once_and_delays_the_next_one() {
        let mut rate = ByteOrRequestRateLimit::new(1);
        assert!(rate.reserve_bytes_or_requests(FIRST_ARRIVAL_TIME, 1 << 20) <= FIRST_ARRIVAL_TIME);
        assert_eq!(
            rate.reserve_bytes_or_requests(FIRST_ARRIVAL_TIME, 1),
            FIRST_ARRIVAL_TIME.saturating_sub(BURST_TIME_MAX) + Duration::from_secs(1 << 20)
        );
        assert!(rate.reserve_bytes_or_requests(FIRST_ARRIVAL_TIME, u64::MAX) > FIRST_ARRIVAL_TIME);
    }

    #[test]
    fn lifting_a_rate_limit_releases_waiting_requests() {
        let limits = ClientLimits { max_requests_per_second_per_export: Some(1), ..ClientLimits::default() };
        let limit = std::sync::Arc::new(ExportRateLimits::of(&limits));
        let waiter = {
            let limit = std::sync::Arc::clone(&limit);
            // Longer than any test runs.
            std::thread::spawn(move || limit.wait_until(Duration::from_secs(1_000_000)))
        };
        limit.disable_limit();
        waiter.join().unwrap();
        assert_eq!(
            (limit.reserve_request_time(0), limit.reserve_request_time(0), limit.delayed_requests()),
            (None, None, 0)
        );
    }
}
