//! Integrated lifetime management: the device reaches its target lifetime at the least cost.
//!
//! Source: "An integrated approach for managing the lifetime of flash-based SSDs" (IL). Time is divided into epochs. At
//! the start of each, [`LifetimeController`] predicts the flash writes ([`demand`]) and what each scheme (such as
//! deduplication or compression) would save of them ([`sampling`]). It computes how much may be written so that the
//! remaining cycles suffice, and decides which schemes run and whether host writes are throttled ([`algorithm`],
//! [`throttle`]).
//!
//! The module has no clock and does no I/O: the caller passes the time and the counters. It knows schemes by their
//! position in the write pipeline and by their energy ([`energy`]), not by what they do.
//!
//! In the first epoch there is no history, so no scheme runs and nothing is throttled: our reading of the paper, which
//! does not describe it. Schemes that do not run are sampled ([`sampling`]), so ratios are known for the second epoch.
//!
//! A drive without a target lifetime has no capacity per epoch. For it there is
//! [`SchemeSelectionRule::SavesWritesAndEnergy`], which is the first step of the algorithm alone: every scheme that
//! saves writes and energy runs. A page that is not programmed is not copied by garbage collection either. So this rule
//! counts a saved program as many times as flash is programmed per program for the host. The paper's algorithm counts a
//! saved program once. The price: deltas take spare space, because their bases stay valid, and the copies that this
//! space would save are not counted. Whether a page becomes a delta or a member of a chunk is decided page by page
//! (`content/delta/mod.rs`). All schemes run in the first epoch, which so measures them in full. Epochs are counted in
//! host writes ([`EpochLength`]), so no times are needed. A scheme that ran is judged by that epoch alone, because all
//! its pages were measured: if it did not pay, it does not run in the next. Its earlier history is dropped, so that good
//! results of the past do not enable it again at once. A bad epoch keeps it off until samples outweigh that epoch, which
//! takes about nine epochs.
//!
//! If each scheme passes on the pages that it does not store itself, the product of the write ratios is the share of
//! writes that remain. Pages of deltas count as passed on by delta encoding, although compression never receives them.
//! So where both run, demand is slightly underestimated.
//!
//! Invariants:
//! - A throttled epoch programs at most its capacity and one host write. What earlier epochs programmed beyond their
//!   capacity is deducted from this.
//! - A year is 365 days, as in the paper's 525 600 epochs of five years.
//!
//! Simplified: wear is even (remaining cycles are those of all blocks together); reads cost no energy.

pub mod algorithm;
pub mod demand;
pub mod energy;
pub mod sampling;
pub mod throttle;

pub use crate::content::{MechanismKind, MechanismSet};
pub use algorithm::{EpochDecision, SchemeEstimate, SchemeSet, combined_estimate, decide_schemes};
pub use demand::{WeightedEpochHistory, WriteActivity, epoch_write_budget_bytes, remaining_endurance_bytes};
pub use energy::{EnergyModel, PageOperationCost, chunk_written_share, dedup_written_share, pages_per_chunk};
pub use sampling::{SchemeByteCounts, ShadowSampler, WrittenShareEstimate};
pub use throttle::Throttle;

/// Seconds per year of 365 days.
pub const YEAR_S: u64 = 365 * 86_400;

/// The five configurations that the integrated-lifetime paper (IL, table I) compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LifetimePaperConfiguration {
    /// No lifetime schemes and no throttling.
    #[default]
    Baseline,
    /// Throttling of host writes, but no lifetime schemes.
    Throttling,
    /// Only compression, which always runs; no throttling.
    Compression,
    /// Only deduplication, which always runs; no throttling.
    Dedup,
    /// Deduplication, compression and throttling. Algorithm 1 of the integrated-lifetime paper chooses which of them
    /// are active.
    Integrated,
}

/// A lifetime scheme (such as deduplication or compression) that may run, with its energy cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LifetimeScheme {
    /// Kind of the lifetime scheme (such as compression).
    pub kind: MechanismKind,
    /// Energy that the scheme needs per page it processes, in units of a page program.
    pub energy_overhead_in_program_energies: f64,
}

impl LifetimeScheme {
    /// Returns the lifetime scheme of kind `kind` with its energy cost in the given energy model.
    pub fn with_energy_of(kind: MechanismKind, energy: &EnergyModel) -> Self {
        Self { kind, energy_overhead_in_program_energies: kind.energy_per_page_in_program_energies(energy) }
    }
}

/// Rule by which lifetime management decides which lifetime schemes run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchemeSelectionRule {
    /// All lifetime schemes always run. If throttling is permitted, host writes are throttled when they exceed the
    /// capacity of an epoch nevertheless.
    Always,
    /// Algorithm 1 of the paper decides for each epoch which schemes run.
    PaperAlgorithm,
    /// In each epoch those lifetime schemes run that save both writes and energy. This is algorithm 1 of the
    /// integrated-lifetime paper without a limit on writes.
    SavesWritesAndEnergy,
}

/// Length of an epoch of lifetime management (the time between two decisions), and its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochLength {
    /// Length of an epoch of lifetime management in seconds; required for target lifetimes and throttling.
    Seconds(u32),
    /// Length of an epoch of lifetime management in page writes of the host.
    HostWrites(u32),
}

impl EpochLength {
    /// Returns the length of the epoch in the unit of the time passed to [`LifetimeController::advance_to`]:
    /// nanoseconds, or page writes.
    fn length_ns_or_writes(self) -> u64 {
        match self {
            Self::Seconds(seconds) => u64::from(seconds) * 1_000_000_000,
            Self::HostWrites(writes) => u64::from(writes),
        }
    }
}

/// Options of lifetime management: schemes that may run, epoch length and target lifetime.
#[derive(Clone, PartialEq, Debug)]
pub struct LifetimeOptions {
    /// Length of an epoch, in seconds or in host writes.
    pub epoch_length: EpochLength,
    /// Target lifetime of the device in years, from the first request on; not used if epochs are counted in writes.
    pub target_years: f64,
    /// Lifetime schemes that may run, in the order of the write pipeline.
    pub schemes: Vec<LifetimeScheme>,
    /// Rule by which it is decided which lifetime schemes run.
    pub scheme_selection_rule: SchemeSelectionRule,
    /// Whether lifetime management may throttle (delay) host writes, so that the device reaches its target lifetime.
    pub may_throttle: bool,
}

impl LifetimeOptions {
    /// Returns the lifetime-management options of one of the five configurations of the integrated-lifetime paper:
    /// epochs of five minutes, a target of five years.
    pub fn of_integrated_lifetime_paper(
        configuration: LifetimePaperConfiguration,
        energy: &EnergyModel,
    ) -> Self {
        let [dedup, compression] = [MechanismKind::Dedup, MechanismKind::Compression]
            .map(|kind| LifetimeScheme::with_energy_of(kind, energy));
        let (schemes, scheme_selection_rule, throttles) = match configuration {
            LifetimePaperConfiguration::Baseline => (vec![], SchemeSelectionRule::Always, false),
            LifetimePaperConfiguration::Throttling => (vec![], SchemeSelectionRule::PaperAlgorithm, true),
            LifetimePaperConfiguration::Compression => {
                (vec![compression], SchemeSelectionRule::Always, false)
            }
            LifetimePaperConfiguration::Dedup => (vec![dedup], SchemeSelectionRule::Always, false),
            LifetimePaperConfiguration::Integrated => {
                (vec![dedup, compression], SchemeSelectionRule::PaperAlgorithm, true)
            }
        };
        Self {
            epoch_length: EpochLength::Seconds(300),
            target_years: 5.0,
            schemes,
            scheme_selection_rule,
            may_throttle: throttles,
        }
    }

    /// Returns these lifetime-management options with the lifetime schemes in `schemes`, all of which always run.
    /// Without any scheme, the options are unchanged.
    #[must_use]
    pub fn with_schemes_always_on(self, schemes: Vec<LifetimeScheme>) -> Self {
        if schemes.is_empty() {
            return self;
        }
        Self { schemes, scheme_selection_rule: SchemeSelectionRule::Always, ..self }
    }

    /// Returns lifetime-management options without a target lifetime and without throttling. Every `epoch_writes` page
    /// writes of the host, those of `schemes` are chosen to run that save both writes and energy.
    pub fn without_target(schemes: MechanismSet, epoch_writes: u32, energy: &EnergyModel) -> Self {
        Self {
            epoch_length: EpochLength::HostWrites(epoch_writes),
            schemes: schemes.iter().map(|kind| LifetimeScheme::with_energy_of(kind, energy)).collect(),
            scheme_selection_rule: SchemeSelectionRule::SavesWritesAndEnergy,
            may_throttle: false,
            ..Self::of_integrated_lifetime_paper(LifetimePaperConfiguration::Baseline, energy)
        }
    }

    /// Returns the number of epochs of lifetime management from the first request to the target lifetime, rounded up; 0
    /// if epochs are counted in writes.
    pub fn target_epochs(&self) -> u64 {
        match self.epoch_length {
            EpochLength::Seconds(seconds) => {
                (self.target_years * YEAR_S as f64 / seconds as f64).ceil() as u64
            }
            EpochLength::HostWrites(_) => 0,
        }
    }
}

/// Counters of a device that lifetime management reads, since the device was built or its counters were cleared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LifetimeCounters {
    /// Bytes that the host wrote to the device and that the device programmed.
    pub activity: WriteActivity,
    /// Bytes that the device can still program before its rated cycles are used up ([`remaining_endurance_bytes`]).
    pub remaining_endurance_bytes: u64,
    /// Bytes offered to each lifetime scheme, and bytes that remain to be written after it, in the order of
    /// [`LifetimeOptions::schemes`]. A running scheme is measured on all pages that earlier schemes leave over, the
    /// others on a sample of them.
    pub scheme_byte_counts: Vec<SchemeByteCounts>,
}

/// Lifetime manager of one device: decides at each epoch which schemes run and whether writes are throttled. Its time
/// starts at 0 and is counted in nanoseconds or in page writes of the host ([`EpochLength`]).
#[derive(Clone, PartialEq, Debug)]
pub struct LifetimeController {
    /// Options of lifetime management: schemes, epoch length and target lifetime.
    options: LifetimeOptions,
    /// Length of an epoch, in nanoseconds or page writes.
    epoch_length_ns_or_writes: u64,
    /// Number of the epoch for which the last decision was made; `None` before the first.
    last_decided_epoch: Option<u64>,
    /// Time of the last decision, in nanoseconds or page writes; `counters_at_decision` holds the counters at that
    /// time.
    last_decision_ns_or_writes: u64,
    /// Counters of the device at the time of the last decision.
    counters_at_decision: LifetimeCounters,
    /// Flash bytes per epoch that the host's writes would need without schemes and throttling, for the last epochs.
    demand_history: WeightedEpochHistory,
    /// Bytes programmed to flash per byte programmed for the host, of the last epochs.
    flash_bytes_per_stored_byte: WeightedEpochHistory,
    /// Predicted write ratio of each lifetime scheme, in the order of the options.
    written_share_estimates: Vec<WrittenShareEstimate>,
    /// Decision for the current epoch: the schemes that run, and whether host writes are throttled.
    decision: EpochDecision,
    /// Token bucket that throttles host writes in the current epoch; `None` while they are not throttled.
    throttle: Option<Throttle>,
}

impl LifetimeController {
    /// Creates a lifetime manager that has made no decision yet.
    ///
    /// # Panics
    /// If an epoch has length 0, or if writes are to be throttled and epochs are not counted in time.
    pub fn new(options: LifetimeOptions) -> Self {
        let epoch_length_ns_or_writes = options.epoch_length.length_ns_or_writes();
        assert!(
            epoch_length_ns_or_writes > 0,
            "the epoch has no length: set lifetime.epoch_s or lifetime.epoch_writes above 0"
        );
        let has_time = matches!(options.epoch_length, EpochLength::Seconds(_));
        assert!(has_time || !options.may_throttle, "throttling needs epochs of time, not of writes");
        Self {
            epoch_length_ns_or_writes,
            last_decided_epoch: None,
            last_decision_ns_or_writes: 0,
            counters_at_decision: LifetimeCounters::default(),
            demand_history: WeightedEpochHistory::default(),
            flash_bytes_per_stored_byte: WeightedEpochHistory::default(),
            written_share_estimates: vec![WrittenShareEstimate::default(); options.schemes.len()],
            decision: EpochDecision::default(),
            throttle: None,
            options,
        }
    }

    /// Returns the options with which this lifetime manager was created: schemes, epoch length and target lifetime.
    pub fn options(&self) -> &LifetimeOptions {
        &self.options
    }

    /// Returns the number of the lifetime-management epoch that contains time `now` (nanoseconds or page writes,
    /// depending on [`EpochLength`]), counted from 0.
    pub fn epoch_at(&self, now: u64) -> u64 {
        now / self.epoch_length_ns_or_writes
    }

    /// Returns whether time `now` (nanoseconds or page writes, depending on [`EpochLength`]) is in an epoch for which
    /// lifetime management has made no decision yet.
    pub fn is_decision_due(&self, now: u64) -> bool {
        self.last_decided_epoch.is_none_or(|decided| self.epoch_at(now) > decided)
    }

    /// Returns the lifetime schemes that run in the current epoch.
    pub fn running_schemes(&self) -> MechanismSet {
        let schemes = self.options.schemes.iter().enumerate();
        schemes
            .filter(|&(at, _)| self.decision.enabled_schemes.contains(at))
            .map(|(_, scheme)| scheme.kind)
            .collect()
    }

    /// Returns the decision for the current epoch: lifetime schemes that run, and throttling.
    pub fn decision(&self) -> EpochDecision {
        self.decision
    }

    /// Returns the flash bytes per epoch that are expected without lifetime schemes and without throttling. If all
    /// schemes always run, and only throttling is controlled, their savings are subtracted. `None` before the second
    /// decision.
    pub fn expected_flash_bytes_per_epoch(&self) -> Option<f64> {
        self.demand_history.average()
    }

    /// Advances the time of lifetime management to `now` (nanoseconds or page writes, depending on [`EpochLength`]).
    /// Must be called before each request. The first call in an epoch decides which schemes run in the epoch and
    /// returns the decision; other calls return `None`. Epochs without requests are skipped. Cost: O(schemes), once per
    /// epoch.
    ///
    /// # Panics
    /// If counters decrease, or if `counters` does not hold one observation per scheme.
    pub fn advance_to(&mut self, now: u64, counters: &LifetimeCounters) -> Option<EpochDecision> {
        if !self.is_decision_due(now) {
            return None;
        }
        let epoch = self.epoch_at(now);
        assert_eq!(
            counters.scheme_byte_counts.len(),
            self.written_share_estimates.len(),
            "one observation per scheme"
        );
        self.record_history(epoch, now, counters);
        let left = self.options.target_epochs().saturating_sub(epoch);
        self.decision = self.decide_epoch(epoch_write_budget_bytes(counters.remaining_endurance_bytes, left));
        self.set_throttle(epoch * self.epoch_length_ns_or_writes, counters.activity.flash_bytes);
        self.last_decided_epoch = Some(epoch);
        (self.last_decision_ns_or_writes, self.counters_at_decision) = (now, counters.clone());
        Some(self.decision)
    }

    /// Returns how long a host write at time `now_ns` must wait, in nanoseconds, if the device has programmed
    /// `flash_bytes` so far; 0 while writes are not throttled. The caller has to query again after the wait, because
    /// another epoch may have begun.
    pub fn delay_ns(&self, now_ns: u64, flash_bytes: u64) -> u64 {
        self.throttle.map_or(0, |throttle| throttle.delay_ns(now_ns, flash_bytes))
    }

    /// Adds what was written since the last decision about schemes to two histories: the host's demand, and for each
    /// scheme the share of the offered bytes that it did not save (its write ratio). If several epochs have passed,
    /// each is assumed to have an equal share of the demand. `now` is in the unit of the epochs (nanoseconds or host
    /// writes).
    fn record_history(&mut self, epoch: u64, now: u64, counters: &LifetimeCounters) {
        let Some(decided) = self.last_decided_epoch else { return };
        let activity = counters.activity.since(&self.counters_at_decision.activity);
        let elapsed_ns_or_writes = now - self.last_decision_ns_or_writes;
        let expected_flash_bytes_per_epoch = if self.options.scheme_selection_rule
            == SchemeSelectionRule::Always
            && self.options.may_throttle
        {
            activity.expected_flash_bytes_with_schemes(elapsed_ns_or_writes, self.epoch_length_ns_or_writes)
        } else {
            activity.expected_flash_bytes_per_epoch(elapsed_ns_or_writes, self.epoch_length_ns_or_writes)
        };
        for _ in decided..epoch.min(decided + demand::HISTORY_EPOCHS as u64) {
            self.demand_history.push_epoch(expected_flash_bytes_per_epoch);
        }
        if activity.host_programmed_bytes > 0 {
            self.flash_bytes_per_stored_byte.push_epoch(activity.flash_bytes_per_stored_byte());
        }
        let observed = counters.scheme_byte_counts.iter().zip(&self.counters_at_decision.scheme_byte_counts);
        let is_best = self.options.scheme_selection_rule == SchemeSelectionRule::SavesWritesAndEnergy;
        for (at, (ratio, (now, before))) in self.written_share_estimates.iter_mut().zip(observed).enumerate()
        {
            ratio.push_epoch(now.since(before));
            if is_best && self.decision.enabled_schemes.contains(at) {
                ratio.drop_all_but_newest_epoch();
            }
        }
    }

    /// Decides by the configured rule which lifetime schemes run in an epoch that may program `capacity_bytes` to
    /// flash, and whether host writes are throttled.
    fn decide_epoch(&self, capacity_bytes: f64) -> EpochDecision {
        let all = SchemeSet::of_first_schemes(self.options.schemes.len());
        let expected_flash_bytes_per_epoch = self.demand_history.average();
        let mut decision = match self.options.scheme_selection_rule {
            SchemeSelectionRule::Always => {
                let exceeds = expected_flash_bytes_per_epoch.is_some_and(|expected_flash_bytes_per_epoch| {
                    expected_flash_bytes_per_epoch > capacity_bytes
                });
                let throttle_bytes_per_epoch = exceeds.then_some(capacity_bytes as u64);
                EpochDecision { enabled_schemes: all, throttle_bytes_per_epoch }
            }
            SchemeSelectionRule::PaperAlgorithm => match expected_flash_bytes_per_epoch {
                Some(expected_flash_bytes_per_epoch) => {
                    self.decide_by_paper_algorithm(expected_flash_bytes_per_epoch, capacity_bytes)
                }
                None => EpochDecision::default(),
            },
            SchemeSelectionRule::SavesWritesAndEnergy if self.last_decided_epoch.is_none() => {
                EpochDecision { enabled_schemes: all, throttle_bytes_per_epoch: None }
            }
            SchemeSelectionRule::SavesWritesAndEnergy => self.decide_by_paper_algorithm(0.0, f64::INFINITY),
        };
        if !self.options.may_throttle {
            decision.throttle_bytes_per_epoch = None;
        }
        decision
    }

    /// Decides by algorithm 1 of the integrated-lifetime paper (IL) which lifetime schemes run. Schemes that share
    /// their work are decided together, as one group. A scheme without observations is expected to save nothing.
    fn decide_by_paper_algorithm(
        &self,
        expected_flash_bytes_per_epoch: f64,
        capacity_bytes: f64,
    ) -> EpochDecision {
        let estimates: Vec<SchemeEstimate> =
            (0..self.options.schemes.len()).map(|at| self.scheme_estimate(at)).collect();
        let groups = self.jointly_decided_schemes();
        let of_groups: Vec<SchemeEstimate> = groups
            .iter()
            .map(|group| match group.len() {
                1 => estimates[group.start],
                _ => combined_estimate(
                    &estimates[group.clone()],
                    self.options.schemes[group.start].energy_overhead_in_program_energies
                        / self.programs_credited_per_saved_page(),
                ),
            })
            .collect();
        let decision = decide_schemes(&of_groups, expected_flash_bytes_per_epoch, capacity_bytes);
        let running = groups.into_iter().enumerate().filter(|&(k, _)| decision.enabled_schemes.contains(k));
        let members = running.flat_map(|(_, group)| group).filter(|&at| estimates[at].saves_writes());
        EpochDecision { enabled_schemes: members.fold(SchemeSet::NONE, SchemeSet::with_scheme), ..decision }
    }

    /// Returns the groups of lifetime schemes (such as deduplication) that are decided together, as ranges of positions
    /// in the write pipeline. Adjacent schemes that share the hash are one group, every other scheme is a group of its
    /// own.
    fn jointly_decided_schemes(&self) -> Vec<std::ops::Range<usize>> {
        let shared = |a: &LifetimeScheme, b: &LifetimeScheme| a.kind.needs_hash() && b.kind.needs_hash();
        let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
        for group in self.options.schemes.chunk_by(shared) {
            let start = groups.last().map_or(0, |before| before.end);
            groups.push(start..start + group.len());
        }
        groups
    }

    /// Sets the token bucket that throttles host writes for an epoch that starts at `start_ns`; the debt of a throttled
    /// previous epoch is carried over.
    fn set_throttle(&mut self, start_ns: u64, flash_bytes: u64) {
        let before = self.throttle;
        self.throttle = self.decision.throttle_bytes_per_epoch.map(|budget_bytes| match before {
            Some(throttle) => throttle.for_next_epoch(budget_bytes, start_ns, flash_bytes),
            None => Throttle::new(budget_bytes, self.epoch_length_ns_or_writes, start_ns, flash_bytes),
        });
    }

    /// Returns the expected effect of the lifetime scheme at position `at` of the write pipeline, derived from its
    /// observations; a scheme without observations is expected to save nothing.
    fn scheme_estimate(&self, at: usize) -> SchemeEstimate {
        let (scheme, shares) = (&self.options.schemes[at], &self.written_share_estimates[at]);
        let overhead = scheme.energy_overhead_in_program_energies * shares.examined_share_of_offered_bytes();
        let programs = self.programs_credited_per_saved_page();
        let written_share = shares.written_share_of_offered_bytes().unwrap_or(1.0);
        SchemeEstimate::new(written_share, overhead / programs)
    }

    /// Returns how many page programs the decision credits to a lifetime scheme per page write that it saves. In the
    /// paper's algorithm this is 1. Without a target lifetime, GC copies that the page would have caused are added, as
    /// measured in the last epochs.
    fn programs_credited_per_saved_page(&self) -> f64 {
        match self.options.scheme_selection_rule {
            SchemeSelectionRule::SavesWritesAndEnergy => {
                self.flash_bytes_per_stored_byte.average().map_or(1.0, |programs| programs.max(1.0))
            }
            _ => 1.0,
        }
    }
}
