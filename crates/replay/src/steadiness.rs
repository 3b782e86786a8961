//! Judges whether write amplification was steady during the measured part of a run.
//!
//! A figure measured while a drive is still filling, or still adapting to another load, changes with the length of the
//! run. As load generators do in their steady-state detection, the measured part is cut into windows of equally many
//! requests. It is steady if the write amplification of no window is far from the mean and a straight line through all
//! windows hardly rises or falls. If the whole part is not steady, its beginning is left out, up to half of the part.
//! The price of counters that are sampled 200 times a run: windows can be no finer.
//!
//! Blocks must have been erased in every window, because a drive that is only being filled has a constant write
//! amplification too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::series_point::SeriesPoint;

/// Number of windows into which the measured part is cut to judge steadiness, each of equally many requests.
const STEADINESS_WINDOW_COUNT: usize = 10;
/// Largest difference of a window's write amplification from the mean of all windows that counts as steady, as a share
/// of the mean.
const MAX_RELATIVE_WINDOW_DEVIATION: f64 = 0.05;
/// Largest rise or fall of write amplification over the measured part that counts as steady, as a share of the mean. It
/// is the rise of a straight line fitted to the write amplification of successive windows of the run.
const MAX_RELATIVE_AMPLIFICATION_CHANGE: f64 = 0.02;

/// How steady write amplification was in the measured part of a run, and the totals of the run's steady part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Steadiness {
    /// Whether write amplification was steady from request `from_request` to the end of the measured part.
    pub is_steady: bool,
    /// Number of requests before the steady part; 0 if no part was steady.
    pub from_request: u64,
    /// Deviation of write amplification: the largest difference of a window's write amplification from the mean, as a
    /// share of the mean, in the steady part (in the last half of the run if no part was steady).
    pub deviation: f64,
    /// Slope of write amplification: the rise of a straight line fitted to the windows' write amplification from the
    /// first window to the last, as a share of the mean, in the steady part (in the last half of the run if no part was
    /// steady).
    pub slope: f64,
    /// Host page writes in the steady part; in the whole measured part if no part was steady.
    pub host_page_writes: u64,
    /// Bytes that the host wrote in the steady part; in the whole measured part if no part was steady.
    pub host_bytes: u64,
    /// Page programs in the steady part; in the whole measured part if no part was steady.
    pub programs: u64,
    /// Block erases in the steady part; in the whole measured part if no part was steady.
    pub erases: u64,
    /// Bytes that the host wrote in the whole measured part, as a multiple of the exported bytes.
    pub drive_writes: f64,
}

impl Steadiness {
    /// Judges whether write amplification was steady, from samples of a run's counters. The counters begin at zero with
    /// the measured part. `exported_bytes` is the size of the drive.
    pub fn of_samples(points: &[SeriesPoint], exported_bytes: u64) -> Self {
        let points: Vec<SeriesPoint> =
            std::iter::once(SeriesPoint::ZERO).chain(points.iter().copied()).collect();
        let last = points[points.len() - 1];
        let starts = (0..=STEADINESS_WINDOW_COUNT / 2)
            .map(|tenth| (points.len() - 1) * tenth / STEADINESS_WINDOW_COUNT);
        let judged: Vec<(usize, AmplificationTrend)> = starts
            .filter_map(|start| Some((start, AmplificationTrend::of_counters(&points[start..])?)))
            .collect();
        let steady = judged.iter().find(|(_, shape)| shape.is_steady());
        let from = steady.map_or(SeriesPoint::ZERO, |&(start, _)| points[start]);
        let shape = steady.or(judged.last()).map_or(AmplificationTrend::default(), |&(_, shape)| shape);
        Self {
            is_steady: steady.is_some(),
            from_request: from.requests,
            deviation: shape.max_relative_window_deviation,
            slope: shape.slope,
            host_page_writes: last.host_page_writes - from.host_page_writes,
            host_bytes: last.host_bytes - from.host_bytes,
            programs: last.programs - from.programs,
            erases: last.erases - from.erases,
            drive_writes: last.host_bytes as f64 / exported_bytes as f64,
        }
    }

    /// Returns a sentence for reports on whether a run of `requests` requests was steady. Of a run that was not, it
    /// names each limit that was exceeded.
    pub fn describe(&self, requests: u64) -> String {
        if !self.is_steady {
            return format!(
                "not steady: {:.3} drive writes, {} blocks erased{}",
                self.drive_writes,
                self.erases,
                self.reason_if_not_steady()
            );
        }
        let part = if self.from_request == 0 {
            "steady throughout".to_owned()
        } else {
            format!("steady after {} of {requests} requests", self.from_request)
        };
        format!(
            "{part}: write amplification within {:.1} %, slope {:+.1} %",
            100.0 * self.deviation,
            100.0 * self.slope
        )
    }

    /// Returns the end of the sentence on a run that was not steady: by how much write amplification exceeded each
    /// limit or, if it exceeded none, what else was missing. Empty if no block was erased, which the sentence states
    /// already.
    fn reason_if_not_steady(&self) -> String {
        let mut exceeded = Vec::new();
        if self.deviation > MAX_RELATIVE_WINDOW_DEVIATION {
            let limit = 100.0 * MAX_RELATIVE_WINDOW_DEVIATION;
            exceeded.push(format!("moved by {:.1} % (limit {limit:.0} %)", 100.0 * self.deviation));
        }
        if self.slope.abs() > MAX_RELATIVE_AMPLIFICATION_CHANGE {
            let limit = 100.0 * MAX_RELATIVE_AMPLIFICATION_CHANGE;
            exceeded.push(format!("slope {:+.1} % (limit {limit:.0} %)", 100.0 * self.slope));
        }
        if !exceeded.is_empty() {
            format!("; write amplification {}", exceeded.join(", "))
        } else if self.erases > 0 {
            "; a tenth of the run has no host writes or no erases, or the run is too short to judge"
                .to_owned()
        } else {
            String::new()
        }
    }
}

/// How write amplification varied over the windows (parts of equally many requests) of a run.
#[derive(Clone, Copy, Default)]
struct AmplificationTrend {
    /// Largest difference of a window's write amplification from the mean of all windows, as a share of the mean.
    max_relative_window_deviation: f64,
    /// Rise, from the first window to the last, of the straight line fitted to the write amplification of the windows,
    /// as a share of the mean.
    slope: f64,
    /// Smallest number of block erases in any of the windows (parts of equally many requests) of the run.
    min_window_erases: u64,
}

impl AmplificationTrend {
    /// Computes how write amplification varied over the windows (parts) of a run; `None` if a window has no host
    /// writes, or there are too few samples.
    fn of_counters(points: &[SeriesPoint]) -> Option<Self> {
        if points.len() <= STEADINESS_WINDOW_COUNT {
            return None;
        }
        let at = |k: usize| &points[(points.len() - 1) * k / STEADINESS_WINDOW_COUNT];
        let windows = (0..STEADINESS_WINDOW_COUNT).map(|k| (at(k), at(k + 1)));
        let amplification = |(from, to): (&SeriesPoint, &SeriesPoint)| {
            let writes = to.host_page_writes - from.host_page_writes;
            (writes > 0).then(|| (to.programs - from.programs) as f64 / writes as f64)
        };
        let values: Vec<f64> = windows.clone().map(amplification).collect::<Option<_>>()?;
        let least_erases = windows.map(|(from, to)| to.erases - from.erases).min().unwrap_or(0);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        if mean == 0.0 {
            return None;
        }
        let farthest = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        Some(Self {
            max_relative_window_deviation: farthest / mean,
            slope: least_squares_rise(&values) / mean,
            min_window_erases: least_erases,
        })
    }

    /// Whether write amplification was steady over the windows: small deviations, no rise or fall, and erases in every
    /// window.
    fn is_steady(&self) -> bool {
        self.max_relative_window_deviation <= MAX_RELATIVE_WINDOW_DEVIATION
            && self.slope.abs() <= MAX_RELATIVE_AMPLIFICATION_CHANGE
            && self.min_window_erases > 0
    }
}

/// Returns by how much the least-squares line through equally spaced values rises from the first value to the last.
fn least_squares_rise(values: &[f64]) -> f64 {
    let middle = (values.len() - 1) as f64 / 2.0;
    let offsets = (0..values.len()).map(|k| k as f64 - middle);
    let moment: f64 = offsets.clone().zip(values).map(|(offset, value)| offset * value).sum();
    let squares: f64 = offsets.map(|offset| offset * offset).sum();
    moment / squares * (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the counters of a run of 200 samples, 100 writes each, with the given write amplification per sample.
    fn counters_with_amplification(amplification: impl Fn(usize) -> f64) -> Vec<SeriesPoint> {
        let mut at = SeriesPoint::ZERO;
        (0..200)
            .map(|k| {
                at.requests += 100;
                at.host_page_writes += 100;
                at.host_bytes += 409_600;
                at.programs += (100.0 * amplification(k)) as u64;
                at.erases += 3;
                at
            })
            .collect()
    }

    #[test]
    fn constant_write_amplification_is_steady_throughout() {
        let steady = Steadiness::of_samples(&counters_with_amplification(|_| 2.5), 4_096_000);
        assert!(steady.is_steady && steady.from_request == 0 && steady.slope.abs() < 1e-9, "{steady:?}");
        assert_eq!((steady.programs, steady.host_page_writes, steady.erases), (50_000, 20_000, 600));
        assert!((steady.drive_writes - 20.0).abs() < 1e-9);
    }

    #[test]
    fn the_warm_up_before_the_steady_part_is_excluded() {
        let steady = Steadiness::of_samples(
            &counters_with_amplification(|k| if k < 30 { 1.0 } else { 3.0 }),
            4_096_000,
        );
        assert!(steady.is_steady && steady.from_request == 4_000, "{steady:?}");
        assert_eq!(steady.programs, 160 * 300);
    }

    #[test]
    fn write_amplification_that_rises_to_the_end_is_not_steady() {
        let rising =
            Steadiness::of_samples(&counters_with_amplification(|k| 1.0 + k as f64 / 100.0), 4_096_000);
        assert!(!rising.is_steady && rising.from_request == 0, "{rising:?}");
        assert_eq!(rising.host_page_writes, 20_000, "without a steady part everything counts");
        assert!(rising.describe(20_000).starts_with("not steady"));
    }

    /// No window of a slow rise is far from the mean, so only the slope of the line through all windows reveals it.
    #[test]
    fn a_slow_rise_of_write_amplification_is_not_steady() {
        let points = counters_with_amplification(|k| 2.0 + k as f64 / 2500.0);
        let slow = Steadiness::of_samples(&points, 4_096_000);
        let shape = AmplificationTrend::of_counters(&points).unwrap();
        assert!(
            shape.max_relative_window_deviation < MAX_RELATIVE_WINDOW_DEVIATION
                && shape.slope > MAX_RELATIVE_AMPLIFICATION_CHANGE,
            "{:?}",
            (shape.max_relative_window_deviation, shape.slope)
        );
        assert!(slow.is_steady && slow.from_request > 0, "its second half rises by less: {slow:?}");
    }

    /// Bug: the sentence stated only the deviation of the windows, also of a run in which only the slope was too great.
    #[test]
    fn the_sentence_on_an_unsteady_run_names_the_limits_that_were_exceeded() {
        let sentence = |deviation, slope, erases| {
            Steadiness { deviation, slope, erases, ..Steadiness::default() }.describe(100)
        };
        let start = "not steady: 0.000 drive writes, 7 blocks erased; ";
        assert_eq!(
            sentence(0.03, -0.0236, 7),
            format!("{start}write amplification slope -2.4 % (limit 2 %)")
        );
        assert_eq!(
            sentence(0.45, 0.6, 7),
            format!("{start}write amplification moved by 45.0 % (limit 5 %), slope +60.0 % (limit 2 %)")
        );
        assert!(sentence(0.0, 0.0, 7).starts_with(&format!("{start}a tenth of the run has")));
        assert_eq!(sentence(0.0, 0.0, 0), "not steady: 0.000 drive writes, 0 blocks erased");
    }

    #[test]
    fn a_run_without_erases_is_not_steady() {
        let points: Vec<SeriesPoint> = counters_with_amplification(|_| 1.0)
            .into_iter()
            .map(|point| SeriesPoint { erases: 0, ..point })
            .collect();
        assert!(!Steadiness::of_samples(&points, 4_096_000).is_steady);
        assert!(!Steadiness::of_samples(&[], 4_096_000).is_steady);
    }
}
