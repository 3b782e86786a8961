//! Records of completed requests: a latency histogram per request kind, and single completions if requested.
//!
//! Histograms have fixed bounds and three significant digits, so recording never allocates and their memory is known.
//! The price is a relative error of at most 0.1 % in reported percentiles. Exact times are in [`Completion`].

use hdrhistogram::Histogram;

use super::RequestKind;

/// Maximum latency of the histograms: one hour, in nanoseconds. Longer latencies are recorded as one hour.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Completion of one host request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Completion {
    /// Number of the request, as returned by [`super::TimingEngine::submit`].
    pub request_number: u64,
    /// Completion time of the request, nanoseconds since the start of the run.
    pub completed_at_ns: u64,
    /// Latency of the request, nanoseconds: completion time minus arrival time.
    pub latency_ns: u64,
}

/// Summary of a latency distribution, in nanoseconds; all 0 if nothing was recorded.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LatencySummary {
    /// Number of requests in the distribution.
    pub request_count: u64,
    /// Mean latency, nanoseconds.
    pub mean_ns: f64,
    /// Median latency, nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile of the latency, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile of the latency, nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile of the latency, nanoseconds.
    pub p999_ns: u64,
    /// 99.99th percentile of the latency, nanoseconds.
    pub p9999_ns: u64,
    /// Maximum latency, nanoseconds.
    pub max_ns: u64,
}

impl LatencySummary {
    /// Summarises a latency histogram: count, mean, percentiles and maximum, accurate to 0.1 %.
    pub fn of_histogram(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            request_count: histogram.len(),
            mean_ns: histogram.mean(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            p9999_ns: histogram.value_at_quantile(0.9999),
            max_ns: histogram.max(),
        }
    }
}

/// Exact sum and maximum of the latencies of one request kind; a histogram only approximates them.
#[derive(Clone, Copy, Debug, Default)]
struct LatencySumAndMax {
    /// Sum of the latencies, nanoseconds.
    sum_ns: u128,
    /// Maximum latency, nanoseconds.
    max_ns: u64,
}

impl LatencySumAndMax {
    /// Adds the latency of one request to sum and maximum.
    #[inline]
    fn add_latency(&mut self, latency_ns: u64) {
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }
}

/// Latencies of all host requests of a run, by request kind: histogram, exact sum and exact maximum; if selected, also
/// each single completion.
#[derive(Clone, Debug)]
pub(super) struct LatencyRecords {
    /// Histogram of the latencies of each request kind, nanoseconds.
    histograms: [Histogram<u64>; RequestKind::COUNT],
    /// Exact sum and maximum of the latencies of each request kind.
    exact_sums_and_maxima: [LatencySumAndMax; RequestKind::COUNT],
    /// Completions of single requests that were not taken yet; `None` if they are not kept.
    completions: Option<Vec<Completion>>,
    /// Number of host requests submitted so far.
    submitted_requests: u64,
    /// Simulated time if timing is off ([`super::TimingMode::None`]), nanoseconds; the other engines have clocks of
    /// their own.
    pub(super) now_ns: u64,
}

impl LatencyRecords {
    /// Creates records without latencies. `keeps_completions` is whether single completions are kept, too.
    pub(super) fn new(keeps_completions: bool) -> Self {
        let empty = || Histogram::new_with_max(MAX_LATENCY_NS, 3).expect("bounds are constants");
        Self {
            histograms: std::array::from_fn(|_| empty()),
            exact_sums_and_maxima: Default::default(),
            completions: keeps_completions.then(Vec::new),
            submitted_requests: 0,
            now_ns: 0,
        }
    }

    /// Returns the number of the next submitted host request: 0, 1, 2, ..
    #[inline]
    pub(super) fn take_next_request_number(&mut self) -> u64 {
        self.submitted_requests += 1;
        self.submitted_requests - 1
    }

    /// Records a request with latency 0: timing is off, so it completes at its arrival. Returns the number of the
    /// request.
    pub(super) fn record_zero_latency_request(&mut self, kind: RequestKind, arrival_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(arrival_ns);
        let number = self.take_next_request_number();
        self.record_completion(kind, number, arrival_ns, arrival_ns);
        number
    }

    /// Records the latency of a host request that arrived at `arrival_ns` and completes at time `at_ns`.
    #[inline]
    pub(super) fn record_completion(
        &mut self,
        kind: RequestKind,
        request_number: u64,
        arrival_ns: u64,
        at_ns: u64,
    ) {
        let latency_ns = at_ns - arrival_ns;
        self.histograms[kind as usize].saturating_record(latency_ns);
        self.exact_sums_and_maxima[kind as usize].add_latency(latency_ns);
        if let Some(completions) = &mut self.completions {
            completions.push(Completion { request_number, completed_at_ns: at_ns, latency_ns });
        }
    }

    /// Returns the histogram of the latencies of one request kind, nanoseconds.
    pub(super) fn histogram(&self, kind: RequestKind) -> &Histogram<u64> {
        &self.histograms[kind as usize]
    }

    /// Summarises the latencies of one request kind. Percentiles are from the histogram, but at most the exact maximum;
    /// mean and maximum are exact.
    pub(super) fn latency_summary(&self, kind: RequestKind) -> LatencySummary {
        let (binned, total) =
            (LatencySummary::of_histogram(self.histogram(kind)), self.exact_sums_and_maxima[kind as usize]);
        let mean_ns =
            if binned.request_count == 0 { 0.0 } else { total.sum_ns as f64 / binned.request_count as f64 };
        let max_ns = total.max_ns;
        LatencySummary {
            request_count: binned.request_count,
            mean_ns,
            p50_ns: binned.p50_ns.min(max_ns),
            p90_ns: binned.p90_ns.min(max_ns),
            p99_ns: binned.p99_ns.min(max_ns),
            p999_ns: binned.p999_ns.min(max_ns),
            p9999_ns: binned.p9999_ns.min(max_ns),
            max_ns,
        }
    }

    /// Returns the completions of single requests since the last call; empty if they are not kept.
    pub(super) fn take_completions(&mut self) -> Vec<Completion> {
        self.completions.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
