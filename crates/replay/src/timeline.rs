//! A timeline: what a drive did over time, and the state of its blocks, for the charts of a report.
//!
//! The end of a run shows how much was programmed, but not when, nor what the blocks looked like meanwhile. A timeline
//! samples the counters, the latencies since the previous sample, and a map of the blocks. It is recorded only if
//! `replay.timeline_cells` is set, and each map costs a scan of the block table. Memory is bounded whatever the length
//! of the run and the size of the drive: several blocks share a cell of the map, and when the list of samples is full
//! every second one is dropped.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::Ftl;
use wearwell::address::BlockId;
use wearwell::block_chart::{self, EraseHistogram};
use wearwell::nand::Nand as _;
use wearwell::stats::nonzero_counts_by_cause;
use wearwell::store::{BlockState, FlashPageStore};
use wearwell::timing::{LatencySummary, RequestKind, TimingEngine};
use wearwell_config::MAX_BLOCK_CHART_CELLS;

use crate::series_point::SeriesPoint;

/// Largest number of block maps (states of all blocks) in a timeline.
pub const MAX_BLOCK_MAP_FRAMES: usize = 64;
/// Largest number of samples of the counters in a timeline.
pub const MAX_COUNTER_SAMPLES: usize = 400;

/// Timeline of a run or of a drive's life; recorded only if `replay.timeline_cells` is set.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Samples of the run in order, at most 400: counters so far, and latencies since the previous sample.
    pub windows: Vec<TimelineWindow>,
    /// Number of blocks of the drive.
    pub blocks: u32,
    /// Number of consecutive blocks that share a cell of the block map; the last cell may have fewer.
    pub blocks_per_cell: u32,
    /// Block maps at moments of the run, at most 64. The first shows the drive before the first request, the last the
    /// drive after the last request.
    pub frames: Vec<TimelineFrame>,
}

/// A sample of the counters of a run, and the latencies since the previous sample.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TimelineWindow {
    /// Requests of the run up to this sample.
    pub requests: u64,
    /// Host page writes up to this sample.
    pub host_page_writes: u64,
    /// Bytes that the host's write requests wrote up to this sample.
    pub host_bytes: u64,
    /// Page programs up to this sample by cause; causes without any are absent.
    pub programs_by_cause: BTreeMap<String, u64>,
    /// Number of free blocks at the moment of this sample.
    pub free_blocks: u32,
    /// Device time (simulated time) at this sample, seconds; 0 without timing.
    pub device_s: f64,
    /// Latencies of host reads answered since the previous sample; absent if there were none.
    pub read_us: Option<WindowLatency>,
    /// Latencies of host writes answered since the previous sample; absent if there were none.
    pub write_us: Option<WindowLatency>,
}

/// Latencies of the requests answered between two samples of a timeline, microseconds. If two windows (intervals
/// between samples) were joined to save memory, each percentile is the larger one of the two windows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowLatency {
    /// Number of requests answered between the two samples, to which the latencies belong.
    pub count: u64,
    /// Median latency of the requests answered between the two samples, microseconds.
    pub p50: f64,
    /// 99th percentile of the latencies of requests answered between the two samples, microseconds.
    pub p99: f64,
    /// 99.9th percentile of the latencies of requests answered between the two samples, microseconds.
    pub p999: f64,
    /// Largest latency of the requests answered between the two samples, microseconds, within 0.1 %.
    pub max: f64,
}

/// A map of a drive's blocks at one moment of a run, and their wear.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TimelineFrame {
    /// Requests of the run up to the moment of this block map.
    pub requests: u64,
    /// Bytes of the host's write requests up to the moment of this block map.
    pub host_bytes: u64,
    /// The cells of the block map: two base64url digits per cell, a number of 12 bits. The upper four bits are the
    /// valid pages and the middle four the invalid pages, both in fifteenths of the cell's pages. The lower four bits
    /// state what most blocks in use hold: 0 nothing (all blocks are free), 1 data, 2 translation pages, 3 deltas, 4
    /// compressed chunks, 5 the remap log, 6 page validity; 15 if all blocks are retired.
    pub cells: String,
    /// Histogram of the erase counts of the drive's blocks.
    pub wear: WearHistogram,
}

/// Histogram of the erase counts of the blocks since the drive was new; retired blocks are left out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WearHistogram {
    /// Erase count at which the histogram's first bin begins: that of the least worn block.
    pub first_erases: u32,
    /// Width of a histogram bin, erases.
    pub erases_per_bin: u32,
    /// Number of blocks in each bin of erase counts; at most 40 bins.
    pub blocks: Vec<u32>,
}

impl From<EraseHistogram> for WearHistogram {
    /// Converts the histogram of erase counts that the block table computes.
    fn from(
        EraseHistogram { first_bin_start_erases, bin_width_erases, blocks_per_bin: blocks }: EraseHistogram,
    ) -> Self {
        Self { first_erases: first_bin_start_erases, erases_per_bin: bin_width_erases, blocks }
    }
}

impl WindowLatency {
    /// Returns percentiles of a latency histogram, in microseconds; `None` if it has no requests.
    fn of_histogram(histogram: &Histogram<u64>) -> Option<Self> {
        let us = |ns: u64| ns as f64 / 1000.0;
        let LatencySummary { request_count: count, p50_ns, p99_ns, p999_ns, max_ns, .. } =
            LatencySummary::of_histogram(histogram);
        (count > 0).then(|| Self {
            count,
            p50: us(p50_ns),
            p99: us(p99_ns),
            p999: us(p999_ns),
            max: us(max_ns),
        })
    }

    /// Returns the latencies of two windows joined: the sum of the counts, and the larger of each percentile.
    fn merged(earlier: Option<Self>, later: Option<Self>) -> Option<Self> {
        let (Some(a), Some(b)) = (earlier, later) else { return earlier.or(later) };
        Some(Self {
            count: a.count + b.count,
            p50: a.p50.max(b.p50),
            p99: a.p99.max(b.p99),
            p999: a.p999.max(b.p999),
            max: a.max.max(b.max),
        })
    }
}

impl TimelineWindow {
    /// Merges the latencies of `earlier`, the window before this one, into this window; `earlier` is then dropped to
    /// save memory.
    fn merge_latencies_of(&mut self, earlier: &Self) {
        self.read_us = WindowLatency::merged(earlier.read_us, self.read_us);
        self.write_us = WindowLatency::merged(earlier.write_us, self.write_us);
    }
}

/// Evenly spaced samples of a run whose length is unknown in advance. When the largest number of samples is stored,
/// every second sample is dropped, and from then on only half as many of the offered samples are stored.
#[derive(Debug)]
struct BoundedSamples<T> {
    /// Stored samples, oldest first.
    kept_samples: Vec<T>,
    /// Largest number of stored samples.
    max_samples: usize,
    /// Number of offered samples of which one is stored. It doubles whenever the memory is full and every second stored
    /// sample is dropped.
    offers_per_stored_sample: u64,
    /// Number of samples offered so far, stored or not.
    offered_samples: u64,
    /// Sample that was dropped and is not merged yet, because the sample after it is not stored yet.
    last_dropped: Option<T>,
    /// Function that merges the contents of a dropped sample into the stored sample after it.
    merge_dropped_into_next: fn(&mut T, &T),
}

impl<T> BoundedSamples<T> {
    /// Creates an empty list of at most `max_samples` samples; `merge_dropped_into_next` merges a dropped sample into
    /// the one after it.
    fn new(max_samples: usize, merge_dropped_into_next: fn(&mut T, &T)) -> Self {
        Self {
            kept_samples: Vec::new(),
            max_samples,
            offers_per_stored_sample: 1,
            offered_samples: 0,
            last_dropped: None,
            merge_dropped_into_next,
        }
    }

    /// Counts an offered sample. If this sample is to be stored, calls `sample` to make it.
    fn offer_sample(&mut self, sample: impl FnOnce() -> T) {
        let number = self.offered_samples;
        self.offered_samples += 1;
        if number.is_multiple_of(self.offers_per_stored_sample) && self.kept_samples.len() == self.max_samples
        {
            self.drop_every_second_sample();
        }
        if number.is_multiple_of(self.offers_per_stored_sample) {
            let mut newest = sample();
            self.merge_last_dropped_into(&mut newest);
            self.kept_samples.push(newest);
        }
    }

    /// Drops the stored samples with the indices 1, 3, 5 and so on, and merges each of them into the sample after it,
    /// which of the last one is not offered yet.
    fn drop_every_second_sample(&mut self) {
        self.offers_per_stored_sample *= 2;
        for (number, mut sample) in std::mem::take(&mut self.kept_samples).into_iter().enumerate() {
            if number % 2 == 1 {
                self.last_dropped = Some(sample);
                continue;
            }
            self.merge_last_dropped_into(&mut sample);
            self.kept_samples.push(sample);
        }
    }

    /// Merges the sample that was dropped last into `next`, the sample after it; does nothing if it was merged already.
    fn merge_last_dropped_into(&mut self, next: &mut T) {
        if let Some(dropped) = self.last_dropped.take() {
            (self.merge_dropped_into_next)(next, &dropped);
        }
    }

    /// Returns the stored samples, followed by `last`, the sample at the end of the run. `last` replaces the newest
    /// stored sample if `is_same` finds that both are of the same moment, or if no further sample may be stored.
    fn into_samples_with_last(mut self, last: T, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
        let mut last = last;
        self.merge_last_dropped_into(&mut last);
        let is_replaced = self.kept_samples.last().is_some_and(|kept_samples| is_same(kept_samples, &last));
        if (is_replaced || self.kept_samples.len() == self.max_samples)
            && let Some(earlier) = self.kept_samples.pop()
        {
            (self.merge_dropped_into_next)(&mut last, &earlier);
        }
        self.kept_samples.push(last);
        self.kept_samples
    }
}

/// Samples a drive's counters, latencies and block maps during a run, for its [`Timeline`].
#[derive(Debug)]
pub(crate) struct TimelineRecorder {
    /// Number of consecutive blocks that share a cell of the block map.
    blocks_per_cell: u32,
    /// Samples of the counters, each with the latencies since the previous sample.
    windows: BoundedSamples<TimelineWindow>,
    /// Block maps (states and wear of all blocks) at moments of the run.
    frames: BoundedSamples<TimelineFrame>,
    /// Histograms of all read latencies and of all write latencies up to the previous sample of the timeline.
    latencies_until_previous_sample: [Option<Histogram<u64>>; 2],
}

impl TimelineRecorder {
    /// Creates a timeline recorder for a drive of `blocks` blocks, whose block maps have at most `cells` cells.
    pub(crate) fn new(cells: u32, blocks: u32) -> Self {
        Self {
            blocks_per_cell: block_chart::blocks_per_chart_cell(blocks, cells.min(MAX_BLOCK_CHART_CELLS)),
            windows: BoundedSamples::new(MAX_COUNTER_SAMPLES, TimelineWindow::merge_latencies_of),
            frames: BoundedSamples::new(MAX_BLOCK_MAP_FRAMES, |_, _| ()),
            latencies_until_previous_sample: [None, None],
        }
    }

    /// Adds a sample of the drive's state to the timeline, after the requests that `counters` counts.
    pub(crate) fn add_sample(&mut self, counters: &SeriesPoint, ftl: &Ftl, timing: Option<&TimingEngine>) {
        let before = &mut self.latencies_until_previous_sample;
        self.windows.offer_sample(|| make_window(counters, ftl, timing, before));
        self.frames.offer_sample(|| make_frame(counters, ftl.store(), self.blocks_per_cell));
    }

    /// Returns the timeline, with the present state of the drive as its last sample.
    pub(crate) fn into_timeline(
        mut self,
        counters: &SeriesPoint,
        ftl: &Ftl,
        timing: Option<&TimingEngine>,
    ) -> Timeline {
        let last = make_window(counters, ftl, timing, &mut self.latencies_until_previous_sample);
        let last_frame = make_frame(counters, ftl.store(), self.blocks_per_cell);
        Timeline {
            windows: self.windows.into_samples_with_last(last, |a, b| a.requests == b.requests),
            blocks: ftl.store().blocks().len(),
            blocks_per_cell: self.blocks_per_cell,
            frames: self.frames.into_samples_with_last(last_frame, |a, b| a.requests == b.requests),
        }
    }
}

/// Samples the counters, and the latencies since the previous sample.
fn make_window(
    counters: &SeriesPoint,
    ftl: &Ftl,
    timing: Option<&TimingEngine>,
    earlier_read_and_write_latencies: &mut [Option<Histogram<u64>>; 2],
) -> TimelineWindow {
    let [of_reads, of_writes] = earlier_read_and_write_latencies;
    TimelineWindow {
        requests: counters.requests,
        host_page_writes: counters.host_page_writes,
        host_bytes: counters.host_bytes,
        programs_by_cause: nonzero_counts_by_cause(&ftl.stats().programs),
        free_blocks: counters.free_blocks,
        device_s: counters.device_s,
        read_us: timing
            .and_then(|timing| take_latencies_since(timing.latency_histogram(RequestKind::Read), of_reads)),
        write_us: timing
            .and_then(|timing| take_latencies_since(timing.latency_histogram(RequestKind::Write), of_writes)),
    }
}

/// Returns the latencies that are in the histogram `now` but not in `before`, and sets `before` to `now`; `None` if
/// there are no such latencies.
fn take_latencies_since(now: &Histogram<u64>, before: &mut Option<Histogram<u64>>) -> Option<WindowLatency> {
    let mut window = now.clone();
    if let Some(before) = before {
        window.subtract(&*before).expect("latencies are only added, to histograms of equal bounds");
    }
    *before = Some(now.clone());
    WindowLatency::of_histogram(&window)
}

/// Samples the block map and the wear of the blocks.
fn make_frame(counters: &SeriesPoint, store: &FlashPageStore, blocks_per_cell: u32) -> TimelineFrame {
    let blocks = store.blocks().len();
    let mut cells = String::new();
    block_chart::append_chart_cells(store, 0..blocks, blocks_per_cell, &mut cells);
    let in_use = (0..blocks).map(BlockId).filter(|&block| store.blocks().state(block) != BlockState::Retired);
    let erases = in_use.map(|block| store.nand().erase_count(block));
    TimelineFrame {
        requests: counters.requests,
        host_bytes: counters.host_bytes,
        cells,
        wear: EraseHistogram::of_erase_counts(erases).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of the samples that are stored if `offered` samples are offered and at most `most` are
    /// stored.
    fn numbers_of_kept_samples(most: usize, offered: u64) -> Vec<u64> {
        let mut samples = BoundedSamples::new(most, |_, _| ());
        (0..offered).for_each(|number| samples.offer_sample(|| number));
        samples.into_samples_with_last(offered, |a, b| a == b)
    }

    #[test]
    fn timeline_samples_are_bounded_evenly_spaced_and_end_with_the_run() {
        for offered in [0, 1, 5, 63, 64, 65, 128, 129, 1000, 100_000] {
            let kept_samples = numbers_of_kept_samples(64, offered);
            assert!(kept_samples.len() <= 64, "{offered}: {}", kept_samples.len());
            assert_eq!(kept_samples.last(), Some(&offered));
            let gaps: Vec<u64> = kept_samples.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let inner = &gaps[..gaps.len().saturating_sub(1)];
            assert!(inner.windows(2).all(|pair| pair[0] == pair[1]), "{offered}: {gaps:?}");
        }
        assert!(numbers_of_kept_samples(64, 1000).len() > 30);
    }

    /// Bug: of the samples dropped at a time, the last was merged into the stored sample before it, which lies up to two
    /// windows earlier.
    #[test]
    fn a_dropped_timeline_sample_is_merged_into_the_next() {
        for offered in [1, 7, 8, 9, 15, 16, 17, 100, 1000_u64] {
            let mut samples = BoundedSamples::new(8, |later: &mut Vec<u64>, earlier| {
                later.splice(0..0, earlier.iter().copied());
            });
            let mut pending = Vec::new();
            for number in 0..offered {
                pending.push(number);
                samples.offer_sample(|| std::mem::take(&mut pending));
            }
            let kept_samples = samples.into_samples_with_last(pending, |_, _| false);
            assert!(kept_samples.len() <= 8);
            assert!(kept_samples.concat().into_iter().eq(0..offered), "{offered}: {kept_samples:?}");
        }
    }
}
