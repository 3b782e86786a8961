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
//! A drive without a target has no capacity per epoch. For it there is [`Choice::Best`], the first step of the algorithm alone:
//! whatever saves writes and energy runs, and delta encoding beside compression only if a delta costs less than its share of
//! a chunk, for a write becomes one or the other ([`beats`]). It begins with all schemes on, so that the first epoch measures all of them in full.
//! Its epochs are counted in host writes ([`EpochLength`]), and it needs no times. A scheme that ran is judged by that epoch
//! alone, of which everything is known: if it did not pay, it is off in the next. What it did before is forgotten with it, so
//! that good times do not bring it back at once; a bad epoch keeps it off until samples outweigh it, which takes about nine.
//!
//! The product of ratios is what is left if each scheme passes on what it does not serve. Pages of deltas are counted as left
//! over by delta encoding, though compression never sees them: where both run, demand is a little underestimated.
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
pub mod schemes;
pub mod throttle;

pub use algorithm::{Decision, SchemeEstimate, SchemeSet, beats, decide, together};
pub use demand::{Activity, History, epoch_capacity_bytes, remaining_bytes};
pub use energy::{EnergyModel, PageCost, chunk_pages, chunk_write_ratio, dedup_write_ratio};
pub use sampling::{Observed, RatioEstimate, Sampler};
pub use schemes::{ContentSchemes, SchemeKind};
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

/// A scheme that may run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scheme {
    /// Which.
    pub kind: SchemeKind,
    /// Energy it spends on each page that it works on, in page programs.
    pub overhead: f64,
}

impl Scheme {
    /// A scheme with what it costs by an energy model.
    pub fn of(kind: SchemeKind, energy: &EnergyModel) -> Self {
        let overhead = match kind {
            SchemeKind::Dedup | SchemeKind::Recycle => energy.dedup_overhead(),
            SchemeKind::Delta => energy.delta_overhead(),
            SchemeKind::Compression => energy.compression_overhead(),
        };
        Self { kind, overhead }
    }
}

/// Who decides which schemes run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// All of them, always.
    Always,
    /// Algorithm 1, epoch by epoch.
    Algorithm,
    /// Those that save writes and energy, epoch by epoch: algorithm 1 with room for everything.
    Best,
}

/// What an epoch is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochLength {
    /// Seconds of time, in which targets and throttling are meant.
    Seconds(u32),
    /// Page writes of the host.
    HostWrites(u32),
}

impl EpochLength {
    /// Length in what the clock of [`Lifetime::advance`] counts: nanoseconds, or page writes.
    fn ticks(self) -> u64 {
        match self {
            Self::Seconds(seconds) => u64::from(seconds) * 1_000_000_000,
            Self::HostWrites(writes) => u64::from(writes),
        }
    }
}

/// What is managed, and to which end.
#[derive(Clone, PartialEq, Debug)]
pub struct LifetimeOptions {
    /// Length of an epoch.
    pub epoch: EpochLength,
    /// Years that the device shall last, from the first request on; without a meaning where epochs are counted in writes.
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
        let [dedup, compression] =
            [SchemeKind::Dedup, SchemeKind::Compression].map(|kind| Scheme::of(kind, energy));
        let (schemes, choice, throttles) = match configuration {
            Configuration::Baseline => (vec![], Choice::Always, false),
            Configuration::Throttling => (vec![], Choice::Algorithm, true),
            Configuration::Compression => (vec![compression], Choice::Always, false),
            Configuration::Dedup => (vec![dedup], Choice::Always, false),
            Configuration::Integrated => (vec![dedup, compression], Choice::Algorithm, true),
        };
        Self { epoch: EpochLength::Seconds(300), target_years: 5.0, schemes, choice, throttles }
    }

    /// No target and no throttling: of these schemes those that pay run, decided anew every `epoch_writes` page writes of the
    /// host.
    pub fn best(schemes: ContentSchemes, epoch_writes: u32, energy: &EnergyModel) -> Self {
        Self {
            epoch: EpochLength::HostWrites(epoch_writes),
            schemes: schemes.iter().map(|kind| Scheme::of(kind, energy)).collect(),
            choice: Choice::Best,
            throttles: false,
            ..Self::of(Configuration::Baseline, energy)
        }
    }

    /// Epochs from the first request to the target, rounded up; 0 where epochs are not counted in time.
    pub fn target_epochs(&self) -> u64 {
        match self.epoch {
            EpochLength::Seconds(seconds) => {
                (self.target_years * YEAR_S as f64 / seconds as f64).ceil() as u64
            }
            EpochLength::HostWrites(_) => 0,
        }
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

/// The state machine over the epochs of a device. Its clock starts at 0 and counts what [`EpochLength`] says: nanoseconds, or
/// page writes of the host.
#[derive(Clone, PartialEq, Debug)]
pub struct Lifetime {
    options: LifetimeOptions,
    epoch_ticks: u64,
    /// The epoch decided for; `None` before the first.
    epoch: Option<u64>,
    /// When the last decision was asked for, and the counters of then.
    decided_at: u64,
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
    /// If an epoch has no length, or if writes are to be throttled without a clock.
    pub fn new(options: LifetimeOptions) -> Self {
        let epoch_ticks = options.epoch.ticks();
        assert!(epoch_ticks > 0, "an epoch has a length");
        let has_time = matches!(options.epoch, EpochLength::Seconds(_));
        assert!(has_time || !options.throttles, "throttling needs epochs of time");
        Self {
            epoch_ticks,
            epoch: None,
            decided_at: 0,
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
    pub fn epoch_of(&self, now: u64) -> u64 {
        now / self.epoch_ticks
    }

    /// Whether an epoch has begun that nothing was decided for.
    pub fn is_due(&self, now: u64) -> bool {
        self.epoch.is_none_or(|decided| self.epoch_of(now) > decided)
    }

    /// The schemes that run in the current epoch.
    pub fn running(&self) -> ContentSchemes {
        let schemes = self.options.schemes.iter().enumerate();
        schemes.filter(|&(at, _)| self.decision.enabled.contains(at)).map(|(_, scheme)| scheme.kind).collect()
    }

    /// What the current epoch does.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Flash bytes per epoch that are expected without schemes and throttling; `None` before the second decision.
    pub fn demand_bytes(&self) -> Option<f64> {
        self.demand.average()
    }

    /// Says what the clock shows, before a request is executed. The first call in an epoch decides for it and returns the
    /// decision; epochs without requests are passed over. Cost: O(schemes), once per epoch.
    ///
    /// # Panics
    /// If counters fall, or if there are not as many observations as schemes.
    pub fn advance(&mut self, now: u64, counters: &Counters) -> Option<Decision> {
        if !self.is_due(now) {
            return None;
        }
        let epoch = self.epoch_of(now);
        assert_eq!(counters.schemes.len(), self.ratios.len(), "one observation per scheme");
        self.learn(epoch, now, counters);
        let left = self.options.target_epochs().saturating_sub(epoch);
        self.decision = self.decide(epoch_capacity_bytes(counters.remaining_bytes, left));
        self.set_throttle(epoch * self.epoch_ticks, counters.activity.flash_bytes);
        self.epoch = Some(epoch);
        (self.decided_at, self.counted) = (now, counters.clone());
        Some(self.decision)
    }

    /// How long a host write waits at `now_ns`, nanoseconds, if `flash_bytes` have been programmed so far; ask again
    /// after waiting, because another epoch may have begun. Never negative, and 0 while nothing is throttled.
    pub fn delay_ns(&self, now_ns: u64, flash_bytes: u64) -> u64 {
        self.throttle.map_or(0, |throttle| throttle.delay_ns(now_ns, flash_bytes))
    }

    /// Adds what happened since the last decision to the histories. Several epochs are taken as equally busy.
    fn learn(&mut self, epoch: u64, now: u64, counters: &Counters) {
        let Some(decided) = self.epoch else { return };
        let activity = counters.activity.since(&self.counted.activity);
        let demand_bytes = activity.demand_bytes(now - self.decided_at, self.epoch_ticks);
        for _ in decided..epoch.min(decided + demand::HISTORY_EPOCHS as u64) {
            self.demand.push(demand_bytes);
        }
        let observed = counters.schemes.iter().zip(&self.counted.schemes);
        let is_best = self.options.choice == Choice::Best;
        for (at, (ratio, (now, before))) in self.ratios.iter_mut().zip(observed).enumerate() {
            ratio.push(now.since(before));
            if is_best && self.decision.enabled.contains(at) {
                ratio.keep_newest();
            }
        }
    }

    fn decide(&self, capacity_bytes: f64) -> Decision {
        let all = SchemeSet::first(self.options.schemes.len());
        let demand_bytes = self.demand.average();
        let mut decision = match self.options.choice {
            Choice::Always => Decision { enabled: all, throttle_bytes_per_epoch: None },
            Choice::Algorithm => match demand_bytes {
                Some(demand_bytes) => self.decide_by_algorithm(demand_bytes, capacity_bytes),
                None => Decision::default(),
            },
            Choice::Best if self.epoch.is_none() => Decision { enabled: all, throttle_bytes_per_epoch: None },
            Choice::Best => self.without_loser(self.decide_by_algorithm(0.0, f64::INFINITY)),
        };
        if !self.options.throttles {
            decision.throttle_bytes_per_epoch = None;
        }
        decision
    }

    /// Algorithm 1, over groups of schemes that share their work; a scheme of which nothing was observed is expected to save
    /// nothing.
    fn decide_by_algorithm(&self, demand_bytes: f64, capacity_bytes: f64) -> Decision {
        let estimates: Vec<SchemeEstimate> =
            self.options.schemes.iter().zip(&self.ratios).map(estimate).collect();
        let groups = self.groups();
        let of_groups: Vec<SchemeEstimate> = groups
            .iter()
            .map(|group| match group.len() {
                1 => estimates[group.start],
                _ => together(&estimates[group.clone()], self.options.schemes[group.start].overhead),
            })
            .collect();
        let decision = decide(&of_groups, demand_bytes, capacity_bytes);
        let running = groups.into_iter().enumerate().filter(|&(k, _)| decision.enabled.contains(k));
        let members = running.flat_map(|(_, group)| group).filter(|&at| estimates[at].saves_writes());
        Decision { enabled: members.fold(SchemeSet::NONE, SchemeSet::with), ..decision }
    }

    /// A decision without delta encoding, if compression runs and serves the same writes for less.
    fn without_loser(&self, decision: Decision) -> Decision {
        let place = |kind| self.options.schemes.iter().position(|scheme| scheme.kind == kind);
        let (Some(delta), Some(compression)) = (place(SchemeKind::Delta), place(SchemeKind::Compression))
        else {
            return decision;
        };
        let of = |at: usize| estimate((&self.options.schemes[at], &self.ratios[at]));
        let meet = decision.enabled.contains(delta) && decision.enabled.contains(compression);
        if !meet || beats(of(delta), self.ratios[delta].own_share(), of(compression)) {
            return decision;
        }
        Decision { enabled: decision.enabled.without(delta), ..decision }
    }

    /// Neighbouring schemes that share the hash, together; every other scheme alone. By position.
    fn groups(&self) -> Vec<std::ops::Range<usize>> {
        let shared = |a: &Scheme, b: &Scheme| a.kind.needs_hash() && b.kind.needs_hash();
        let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
        for group in self.options.schemes.chunk_by(shared) {
            let start = groups.last().map_or(0, |before| before.end);
            groups.push(start..start + group.len());
        }
        groups
    }

    /// The bucket for an epoch that starts at `start_ns`; one that was throttled before hands on its debt.
    fn set_throttle(&mut self, start_ns: u64, flash_bytes: u64) {
        let before = self.throttle;
        self.throttle = self.decision.throttle_bytes_per_epoch.map(|budget_bytes| match before {
            Some(throttle) => throttle.renewed(budget_bytes, start_ns, flash_bytes),
            None => Throttle::new(budget_bytes, self.epoch_ticks, start_ns, flash_bytes),
        });
    }
}

/// What is expected of a scheme by what was observed of it.
fn estimate((scheme, ratio): (&Scheme, &RatioEstimate)) -> SchemeEstimate {
    let overhead = scheme.overhead * ratio.worked_share();
    SchemeEstimate::new(ratio.write_ratio().unwrap_or(1.0), overhead)
}
