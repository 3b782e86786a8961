//! Integrated lifetime management: the device lasts for its target years, at the least cost.
//!
//! Source: "An integrated approach for managing the lifetime of flash-based SSDs" (IL). Time is divided into epochs.
//! At the start of each, [`Lifetime`] predicts what will be written ([`demand`]) and what each scheme would save of it
//! ([`sampling`]), computes what may be written if the remaining cycles are to last, and decides which schemes run and
//! whether host writes are throttled ([`algorithm`], [`throttle`]).
//!
//! The module has no clock and does no I/O: whoever replays or serves requests says what time it is and what has been
//! counted. It knows schemes by their place in the pipeline and by their energy ([`energy`]), not by what they do.
//!
//! The first epoch has no history: nothing runs and nothing is throttled, as in the paper, whose schemes are all disabled at
//! the start. Schemes that are off are sampled ([`sampling`]), so the second epoch has ratios to decide by.
//!
//! Invariants:
//! - Throttled epochs program at most their capacity and one host write each, debts carried over included.
//! - A year is 365 days, as in the paper's 525 600 epochs of five years.
//!
//! Simplified: wear is even (remaining cycles are those of all blocks together); reads cost nothing.

pub mod algorithm;
pub mod demand;
pub mod energy;
pub mod sampling;
pub mod throttle;

pub use algorithm::{Decision, SchemeEstimate, SchemeSet, decide};
pub use demand::{Activity, History, epoch_capacity_bytes, remaining_bytes};
pub use energy::{EnergyModel, PageCost, chunk_pages, chunk_write_ratio, dedup_write_ratio};
pub use sampling::{Observed, RatioEstimate, Sampler};
pub use throttle::Throttle;

/// Seconds of a year: 365 days.
pub const YEAR_S: u64 = 365 * 86_400;

/// The five configurations that IL compares (table I).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Configuration {
    /// No scheme, no throttling.
    #[default]
    Baseline,
    /// Throttling alone.
    Throttling,
    /// Compression, always.
    Compression,
    /// Deduplication, always.
    Dedup,
    /// Deduplication, compression and throttling, as the algorithm decides.
    Integrated,
}

/// Content schemes, in the order of the write pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SchemeKind {
    /// Pages that are stored already are not written again.
    Dedup,
    /// Pages are compressed in chunks.
    Compression,
}

/// A scheme that may run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scheme {
    /// Which.
    pub kind: SchemeKind,
    /// Energy it spends on each page offered to it, in page programs.
    pub overhead: f64,
}

/// Who decides which schemes run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// All of them, always.
    Always,
    /// Algorithm 1, epoch by epoch.
    Algorithm,
}

/// What is managed, and to which end.
#[derive(Clone, PartialEq, Debug)]
pub struct LifetimeOptions {
    /// Length of an epoch, seconds.
    pub epoch_s: u32,
    /// Years that the device shall last, from the first request on.
    pub target_years: f64,
    /// Schemes, in the order of the pipeline.
    pub schemes: Vec<Scheme>,
    /// Who decides which of them run.
    pub choice: Choice,
    /// Whether host writes may be throttled.
    pub throttles: bool,
}

impl LifetimeOptions {
    /// One of the paper's configurations: epochs of five minutes, five years.
    pub fn of(configuration: Configuration, energy: &EnergyModel) -> Self {
        let dedup = Scheme { kind: SchemeKind::Dedup, overhead: energy.dedup_overhead() };
        let compression = Scheme { kind: SchemeKind::Compression, overhead: energy.compression_overhead() };
        let (schemes, choice, throttles) = match configuration {
            Configuration::Baseline => (vec![], Choice::Always, false),
            Configuration::Throttling => (vec![], Choice::Algorithm, true),
            Configuration::Compression => (vec![compression], Choice::Always, false),
            Configuration::Dedup => (vec![dedup], Choice::Always, false),
            Configuration::Integrated => (vec![dedup, compression], Choice::Algorithm, true),
        };
        Self { epoch_s: 300, target_years: 5.0, schemes, choice, throttles }
    }

    /// Epochs from the first request to the target, rounded up.
    pub fn target_epochs(&self) -> u64 {
        (self.target_years * YEAR_S as f64 / self.epoch_s as f64).ceil() as u64
    }
}

/// Counters of a device, since it was built or since its counters were cleared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// What was written.
    pub activity: Activity,
    /// Bytes that can still be programmed before the rated cycles are used ([`remaining_bytes`]).
    pub remaining_bytes: u64,
    /// What each scheme saw, in the order of [`LifetimeOptions::schemes`]; the running ones see all that the schemes
    /// before them leave over, the others a sample of it.
    pub schemes: Vec<Observed>,
}

/// The state machine over the epochs of a device. Time starts at 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Lifetime {
    options: LifetimeOptions,
    epoch_ns: u64,
    /// The epoch decided for; `None` before the first.
    epoch: Option<u64>,
    /// When the last decision was asked for, and the counters of then.
    decided_ns: u64,
    counted: Counters,
    demand: History,
    ratios: Vec<RatioEstimate>,
    decision: Decision,
    throttle: Option<Throttle>,
}

impl Lifetime {
    /// A manager before its first epoch.
    ///
    /// # Panics
    /// If an epoch has no length.
    pub fn new(options: LifetimeOptions) -> Self {
        assert!(options.epoch_s > 0, "an epoch has a length");
        Self {
            epoch_ns: options.epoch_s as u64 * 1_000_000_000,
            epoch: None,
            decided_ns: 0,
            counted: Counters::default(),
            demand: History::default(),
            ratios: vec![RatioEstimate::default(); options.schemes.len()],
            decision: Decision::default(),
            throttle: None,
            options,
        }
    }

    /// What is managed.
    pub fn options(&self) -> &LifetimeOptions {
        &self.options
    }

    /// The epoch of a moment: 0, 1, 2, ..
    pub fn epoch_of(&self, now_ns: u64) -> u64 {
        now_ns / self.epoch_ns
    }

    /// What the current epoch does.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Flash bytes per epoch that are expected without schemes and throttling; `None` before the second decision.
    pub fn demand_bytes(&self) -> Option<f64> {
        self.demand.average()
    }

    /// Says what time it is, before a request is executed. The first call in an epoch decides for it and returns the
    /// decision; epochs without requests are passed over. Cost: O(schemes), once per epoch.
    ///
    /// # Panics
    /// If counters fall, or if there are not as many observations as schemes.
    pub fn advance(&mut self, now_ns: u64, counters: &Counters) -> Option<Decision> {
        let epoch = self.epoch_of(now_ns);
        if self.epoch.is_some_and(|decided| epoch <= decided) {
            return None;
        }
        assert_eq!(counters.schemes.len(), self.ratios.len(), "one observation per scheme");
        self.learn(epoch, now_ns, counters);
        let left = self.options.target_epochs().saturating_sub(epoch);
        self.decision = self.decide(epoch_capacity_bytes(counters.remaining_bytes, left));
        self.set_throttle(epoch * self.epoch_ns, counters.activity.flash_bytes);
        self.epoch = Some(epoch);
        (self.decided_ns, self.counted) = (now_ns, counters.clone());
        Some(self.decision)
    }

    /// How long a host write waits at `now_ns`, nanoseconds, if `flash_bytes` have been programmed so far; ask again
    /// after waiting, because another epoch may have begun. Never negative, and 0 while nothing is throttled.
    pub fn delay_ns(&self, now_ns: u64, flash_bytes: u64) -> u64 {
        self.throttle.map_or(0, |throttle| throttle.delay_ns(now_ns, flash_bytes))
    }

    /// Adds what happened since the last decision to the histories. Several epochs are taken as equally busy.
    fn learn(&mut self, epoch: u64, now_ns: u64, counters: &Counters) {
        let Some(decided) = self.epoch else { return };
        let activity = counters.activity.since(&self.counted.activity);
        let demand_bytes = activity.demand_bytes(now_ns - self.decided_ns, self.epoch_ns);
        for _ in decided..epoch.min(decided + demand::HISTORY_EPOCHS as u64) {
            self.demand.push(demand_bytes);
        }
        let observed = counters.schemes.iter().zip(&self.counted.schemes);
        for (ratio, (now, before)) in self.ratios.iter_mut().zip(observed) {
            ratio.push(now.since(before));
        }
    }

    fn decide(&self, capacity_bytes: f64) -> Decision {
        let all = SchemeSet::first(self.options.schemes.len());
        let demand_bytes = self.demand.average();
        let mut decision = match self.options.choice {
            Choice::Always => Decision { enabled: all, throttle_bytes_per_epoch: None },
            Choice::Algorithm => self.decide_by_algorithm(demand_bytes, capacity_bytes),
        };
        if !self.options.throttles {
            decision.throttle_bytes_per_epoch = None;
        }
        decision
    }

    /// Algorithm 1. Without a demand nothing is done; a scheme of which nothing was observed is expected to save nothing.
    fn decide_by_algorithm(&self, demand_bytes: Option<f64>, capacity_bytes: f64) -> Decision {
        let Some(demand_bytes) = demand_bytes else { return Decision::default() };
        let estimate = |(scheme, ratio): (&Scheme, &RatioEstimate)| match ratio.write_ratio() {
            Some(write_ratio) => SchemeEstimate::new(write_ratio, scheme.overhead),
            None => SchemeEstimate::new(1.0, scheme.overhead),
        };
        let estimates: Vec<SchemeEstimate> =
            self.options.schemes.iter().zip(&self.ratios).map(estimate).collect();
        decide(&estimates, demand_bytes, capacity_bytes)
    }

    /// The bucket for an epoch that starts at `start_ns`; one that was throttled before hands on its debt.
    fn set_throttle(&mut self, start_ns: u64, flash_bytes: u64) {
        let before = self.throttle;
        self.throttle = self.decision.throttle_bytes_per_epoch.map(|budget_bytes| match before {
            Some(throttle) => throttle.renewed(budget_bytes, start_ns, flash_bytes),
            None => Throttle::new(budget_bytes, self.epoch_ns, start_ns, flash_bytes),
        });
    }
}
