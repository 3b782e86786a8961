//! Curves of a drive's life: its state over the bytes that the host has written, with the spread over the seeds.
//!
//! The drives of different seeds end at different moments. A mean over those that still live would be a mean over the
//! strong ones, so every drive counts at every moment: one that has ended keeps the state in which it ended, and
//! [`CurvePoint::ended`] says how many have. A life that the user interrupted has no end to keep, so the curves stop
//! where the first interrupted life does.
//!
//! Between two recorded states of a life values are interpolated linearly. The price: if a life ends between two points
//! of the curves, they show the end at the later point. The error is at most a hundredth of the longest life.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, Life, LifeEndReason, LifePoint, LifeRecord};

/// Largest number of moments (values of the host bytes written) at which the curves of a drive's life have points.
const MAX_CURVE_POINTS: u64 = 100;

/// State of the drives of all seeds when the host has written the same number of bytes to each; a drive that has ended
/// keeps the state in which it ended.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Bytes that the host has written to each drive at this point of the curves; drives that ended earlier have fewer.
    pub host_bytes: u64,
    /// Number of drives (one per seed) that had ended when the host had written this many bytes.
    pub ended: u32,
    /// Spare blocks left, as a share (0 to 1) of the spare blocks of the new drive.
    pub spare: Estimate,
    /// Write amplification since the previous point of the curves, in programmed bytes per host byte.
    pub write_amplification: Estimate,
    /// Erases per block, mean over all blocks of a drive.
    pub mean_erases: Estimate,
    /// Erases of the most worn block of a drive.
    pub max_erases: Estimate,
}

/// Lifetime and write amplification of a drive over its whole life, each as an estimate over the drives of all seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LifeEstimates {
    /// Bytes that the host wrote until the end of a drive, including the first fill.
    pub host_bytes: Estimate,
    /// Years until the end of a drive at the rate of the input; absent if the input has no times.
    pub years: Option<Estimate>,
    /// Write amplification over the whole life of a drive: programmed bytes per host byte.
    pub write_amplification: Estimate,
    /// Bytes that the host had written when the first block of a drive failed; absent if a drive ended without a
    /// failed block.
    pub first_failure_bytes: Option<Estimate>,
}

impl LifeRecord {
    /// Returns this record with its `estimates` and `curves` computed from its simulated lives.
    #[must_use]
    pub fn with_curves(mut self) -> Self {
        self.estimates = self.estimates_of_whole_lives();
        self.curves = curve_points(&self.lives);
        self
    }

    /// Returns the estimates of whole lives; `None` if there is no life, or if one of the lives was interrupted.
    fn estimates_of_whole_lives(&self) -> Option<LifeEstimates> {
        if self.lives.iter().any(|life| life.end == LifeEndReason::Interrupted) {
            return None;
        }
        Some(LifeEstimates {
            host_bytes: self.host_bytes()?,
            years: self.estimate(|life| life.years),
            write_amplification: self.estimate(|life| Some(life.write_amplification()))?,
            first_failure_bytes: self.estimate(|life| life.first_failure_bytes.map(|bytes| bytes as f64)),
        })
    }
}

/// Returns the states of the drives of all lives at regular intervals of host bytes, of which the last is up to half a
/// step longer or shorter: at most [`MAX_CURVE_POINTS`] states, and otherwise no closer together than the recorded
/// states of any life.
fn curve_points(lives: &[Life]) -> Vec<CurvePoint> {
    let Some(last) = curve_end_host_bytes(lives) else { return Vec::new() };
    let spacing = lives.iter().map(max_bytes_between_points).max().unwrap_or(0);
    let step = last.div_ceil(MAX_CURVE_POINTS).max(spacing).max(1);
    let mut courses: Vec<LifePointCursor<'_>> = lives.iter().map(LifePointCursor::of_life).collect();
    // The last interval takes in one that would be shorter than half a step, so that the longest life is counted to its
    // end.
    let regular =
        (1..last.div_ceil(step)).map(|number| number * step).filter(|moment| last - moment >= step / 2);
    regular.chain([last]).map(|host_bytes| curve_point_at(&mut courses, host_bytes)).collect()
}

/// Returns the host bytes at which the curves stop: the smallest host bytes at which a life was interrupted; if no life
/// was interrupted, the host bytes of the longest life.
fn curve_end_host_bytes(lives: &[Life]) -> Option<u64> {
    let interrupted = lives.iter().filter(|life| life.end == LifeEndReason::Interrupted);
    let first_interrupted = interrupted.map(|life| life.host_bytes).min();
    first_interrupted.or_else(|| lives.iter().map(|life| life.host_bytes).max()).filter(|&last| last > 0)
}

/// Returns the largest number of host bytes between two successive recorded states of a life.
fn max_bytes_between_points(life: &Life) -> u64 {
    let gaps = life.series.windows(2).map(|pair| pair[1].host_bytes - pair[0].host_bytes);
    gaps.max().unwrap_or(0)
}

/// Returns the point of the curves at which the host has written `host_bytes` to each drive.
fn curve_point_at(courses: &mut [LifePointCursor<'_>], host_bytes: u64) -> CurvePoint {
    let states: Vec<DriveLifeState> =
        courses.iter_mut().map(|course| course.advance_to(host_bytes)).collect();
    let of = |figure: fn(&DriveLifeState) -> f64| {
        Estimate::of_values(states.iter().map(|state| Some(figure(state)))).expect("there is a life")
    };
    let ended = courses.iter().filter(|course| course.has_ended_by(host_bytes)).count();
    CurvePoint {
        host_bytes,
        ended: u32::try_from(ended).unwrap_or(u32::MAX),
        spare: of(|state| state.spare_block_share_left),
        write_amplification: of(|state| state.write_amplification),
        mean_erases: of(|state| state.mean_erases),
        max_erases: of(|state| state.max_erases),
    }
}

/// State of one drive at one moment of its life.
#[derive(Clone, Copy)]
struct DriveLifeState {
    /// Bytes that the host has written to the drive so far.
    host_bytes: f64,
    /// Page programs of the drive so far.
    page_programs: f64,
    /// Erases per block so far, mean over all blocks.
    mean_erases: f64,
    /// Erases of the most worn block so far.
    max_erases: f64,
    /// Spare blocks left, as a share of the spare blocks of the new drive.
    spare_block_share_left: f64,
    /// Write amplification since the previous state, programmed bytes per host byte.
    write_amplification: f64,
}

impl DriveLifeState {
    /// State of a drive to which nothing has been written.
    const NEW_DRIVE: Self = Self {
        host_bytes: 0.0,
        page_programs: 0.0,
        mean_erases: 0.0,
        max_erases: 0.0,
        spare_block_share_left: 1.0,
        write_amplification: 1.0,
    };

    /// Converts a recorded state of a drive. Write amplification is set to 0, because it is defined for an interval
    /// between two states only.
    fn of_point(point: &LifePoint) -> Self {
        Self {
            host_bytes: point.host_bytes as f64,
            page_programs: point.programs as f64,
            mean_erases: point.mean_erases,
            max_erases: point.max_erases.into(),
            spare_block_share_left: point.spare,
            write_amplification: 0.0,
        }
    }
}

/// Reader of one life's recorded states, which are visited in order from the beginning of the life.
struct LifePointCursor<'a> {
    /// Life whose recorded states are read.
    life: &'a Life,
    /// Bytes per page program.
    page_bytes: f64,
    /// Smallest number of host bytes in an interval for which write amplification is computed.
    min_interval_bytes: f64,
    /// Host bytes and programs at the beginning of the interval over which write amplification is computed next.
    interval_start_bytes_and_programs: [f64; 2],
    /// Write amplification of the last complete interval.
    write_amplification: f64,
}

impl<'a> LifePointCursor<'a> {
    /// Creates a cursor at the beginning of a simulated life, which then moves through its recorded states.
    fn of_life(life: &'a Life) -> Self {
        let page_bytes = life.media_bytes as f64 / life.programs().max(1) as f64;
        let min_interval_bytes = (0.5 * max_bytes_between_points(life) as f64).max(1.0);
        Self {
            life,
            page_bytes,
            min_interval_bytes,
            interval_start_bytes_and_programs: [0.0; 2],
            write_amplification: 1.0,
        }
    }

    /// Whether the drive had ended when the host had written `host_bytes` to it.
    fn has_ended_by(&self, host_bytes: u64) -> bool {
        self.life.end != LifeEndReason::Interrupted && self.life.host_bytes <= host_bytes
    }

    /// Returns the state of the drive after `host_bytes` host bytes, which must be more than at the previous call.
    /// Write amplification is that of the interval since the previous call. If the end of the life makes the interval
    /// so short that one garbage collection would dominate it, the value of the previous interval is kept.
    fn advance_to(&mut self, host_bytes: u64) -> DriveLifeState {
        let state = self.interpolated_state_at(host_bytes.min(self.life.host_bytes) as f64);
        let [bytes, programs] = self.interval_start_bytes_and_programs;
        let written = state.host_bytes - bytes;
        if written >= self.min_interval_bytes {
            self.write_amplification = (state.page_programs - programs) * self.page_bytes / written;
            self.interval_start_bytes_and_programs = [state.host_bytes, state.page_programs];
        }
        DriveLifeState { write_amplification: self.write_amplification, ..state }
    }

    /// Returns the state of the drive after `host_bytes` host bytes, interpolated between the recorded states around
    /// that moment.
    fn interpolated_state_at(&self, host_bytes: f64) -> DriveLifeState {
        let series = &self.life.series;
        let after = series.partition_point(|point| (point.host_bytes as f64) < host_bytes);
        let Some(next) = series.get(after).map(DriveLifeState::of_point) else {
            return series.last().map_or(DriveLifeState::NEW_DRIVE, DriveLifeState::of_point);
        };
        let before = after
            .checked_sub(1)
            .map_or(DriveLifeState::NEW_DRIVE, |before| DriveLifeState::of_point(&series[before]));
        let share = (host_bytes - before.host_bytes) / (next.host_bytes - before.host_bytes).max(1.0);
        let between = |of: fn(&DriveLifeState) -> f64| of(&before) + share * (of(&next) - of(&before));
        DriveLifeState {
            host_bytes,
            page_programs: between(|state| state.page_programs),
            mean_erases: between(|state| state.mean_erases),
            max_erases: between(|state| state.max_erases),
            spare_block_share_left: between(|state| state.spare_block_share_left),
            write_amplification: 0.0,
        }
    }
}
