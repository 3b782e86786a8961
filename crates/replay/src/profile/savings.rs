//! Savings by content mechanisms: the share of an input's page writes that each could save at most, and the share that
//! it saves on a drive.
//!
//! The bound is that of a perfect mechanism by itself: with an index of all contents, dead pages that are never erased,
//! and deltas and compressed pages that are packed without loss. It is computed while the input is read, so it costs
//! nothing more. A drive falls short of it: its index is limited, garbage collection erases dead pages, and deltas and
//! chunks take whole pages. What is left is measured by a run of each mechanism by itself, on the same drive and beside
//! a run without any: that costs one run per mechanism and one more.
//!
//! Invariant: a drive with pages of 4 KiB saves at most the bound of its page writes. (Garbage collection may save a
//! larger share of all programs, because less is stored.)

use std::cell::Cell;

use wearwell_config::{Config, ConfigError, ContentMechanismList, ContentMechanismName, Precondition};

use super::Profile;
use crate::input::Input;
use crate::record::{DeviceRecord, RunRecord};
use crate::replay::{OnProgress, Plan, ReplayError};

/// Design to which each content mechanism is added to measure its saving: a map in RAM, without content mechanisms of
/// its own.
pub const BASELINE_DESIGN: &str = "page-map";

/// What one content mechanism by itself can save of an input's page writes.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Saving {
    /// Content mechanism (such as deduplication) whose saving this is.
    pub mechanism: ContentMechanismName,
    /// Upper bound of the saving: share of the page writes with known content for which a perfect mechanism would
    /// program nothing; null if it cannot be computed from the input.
    pub at_most: Option<f64>,
    /// Standard error, from sampling, of the upper bound `at_most`; 0 if all pages and contents were examined.
    pub at_most_error: f64,
    /// Measured saving: what the mechanism saves when it runs on a drive; null if it was not run.
    pub when_run: Option<MeasuredSaving>,
}

/// Result of a run of one content mechanism on a drive, compared with a run of the same drive without content
/// mechanisms.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct MeasuredSaving {
    /// Saved page writes: the share of the host's page writes that needed no program for host data (`write_reduction`
    /// in the record of the run).
    pub page_writes: f64,
    /// Saved page programs, as a share of all page programs of the drive without content mechanisms; negative if the
    /// mechanism causes more programs.
    pub programs: f64,
    /// Saved block erases, as a share of the block erases of the drive without content mechanisms; null if that drive
    /// erases no block.
    pub erases: Option<f64>,
}

/// The drive on which the savings of content mechanisms were measured, and the counters of its run without any content
/// mechanism.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SavingRuns {
    /// The drive on which all these runs, with and without content mechanisms, were executed.
    pub device: DeviceRecord,
    /// Page writes of the host in the run without content mechanisms.
    pub host_page_writes: u64,
    /// Page programs of all causes in the run without content mechanisms.
    pub programs: u64,
    /// Block erases of all causes in the run without content mechanisms.
    pub erases: u64,
    /// Configuration of the run without content mechanisms, with every effective value.
    pub config: Config,
}

/// The last distinct pages that were written: as many as can wait in the chunk buffer of compression at the same time.
/// A further write of such a page replaces the buffered one without a program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentlyWrittenPages([Option<u64>; wearwell::content::compress::MAX_CHUNK_MEMBERS - 1]);

impl RecentlyWrittenPages {
    /// Adds a written page as the most recent one. Returns whether it was among the recently written pages already.
    pub(super) fn add_page(&mut self, page: u64) -> bool {
        let known = self.0.iter().position(|&last| last == Some(page));
        let replaced = known.unwrap_or(self.0.len() - 1);
        self.0[..=replaced].rotate_right(1);
        self.0[0] = Some(page);
        known.is_some()
    }
}

/// Returns an upper bound of the share of page writes that compression saves. `packed` is the share that packing
/// without loss would save; `replaced_in_buffer` is the share of writes that a later write may replace in the chunk
/// buffer. The bound also respects that a flash page holds at most four members (logical pages) of a chunk.
pub(super) fn max_compression_saving_share(packed: f64, replaced_in_buffer: f64) -> f64 {
    let members = wearwell::content::compress::MAX_CHUNK_MEMBERS as f64;
    (replaced_in_buffer + packed).min(replaced_in_buffer + (1.0 - replaced_in_buffer) * (1.0 - 1.0 / members))
}

/// Returns `config` with all content mechanisms that a profile runs. A setting that has no effect in this configuration
/// has no effect in any of the runs.
#[must_use]
pub fn config_with_every_mechanism(config: &Config) -> Config {
    config_with_mechanisms(
        config,
        &[
            ContentMechanismName::RECYCLE,
            ContentMechanismName::DEDUP,
            ContentMechanismName::DELTA,
            ContentMechanismName::COMPRESS,
        ],
    )
}

/// Returns a copy of `config` that has exactly these content mechanisms.
fn config_with_mechanisms(config: &Config, mechanisms: &[ContentMechanismName]) -> Config {
    let mut config = config.clone();
    config.parts.content = Some(ContentMechanismList::of_names(mechanisms));
    config
}

impl MeasuredSaving {
    /// Computes the saving of a run with one content mechanism against the `baseline` run without any.
    fn compared_with_baseline(run: &RunRecord, baseline: &RunRecord) -> Self {
        let saved = |of: fn(&RunRecord) -> u64| {
            (of(baseline) > 0).then(|| 1.0 - of(run) as f64 / of(baseline) as f64)
        };
        Self {
            page_writes: run.write_reduction,
            programs: saved(|run| run.programs).unwrap_or(0.0),
            erases: saved(|run| run.erases),
        }
    }
}

impl Profile {
    /// Runs the drive of `config` on `input` without content mechanisms and with each one that can save something, and
    /// adds what they save to the profile. If `on_progress` ends a run, the profile is marked as partial.
    ///
    /// # Errors
    /// [`ReplayError`] if the configuration names content mechanisms, limits the requests or ages the drive by a trace
    /// (the runs would then measure another input than the profile), or if the drive cannot be built. A mechanism that
    /// the engine refuses gets a note instead.
    pub fn measure_mechanism_savings(
        &mut self,
        config: &Config,
        input: &Input,
        on_progress: OnProgress<'_>,
    ) -> Result<(), ReplayError> {
        if config.parts.content.is_some() {
            let sentence = "parts.content is set, and a profile runs each content mechanism by itself: leave \
                            parts.content out";
            return Err(ConfigError::InvalidValue(sentence.into()).into());
        }
        if config.replay.requests.is_some() || config.precondition.mode == Precondition::Aged {
            let sentence = "replay.requests or precondition.mode=aged is set, so the runs would measure a part of the \
                            input only, and the profile has bounds for the whole: leave it out";
            return Err(ConfigError::InvalidValue(sentence.into()).into());
        }
        if !self.savings.iter().any(Saving::mechanism_may_save_writes) {
            self.notes.push(
                "no content mechanism was run: as far as the input shows, none can save page writes".into(),
            );
            return Ok(());
        }
        let without = config_with_mechanisms(config, &[]);
        let plan = Plan::new(&without, input)?;
        plan.check_designs_and_content_model(&[BASELINE_DESIGN.to_owned()])?;
        let is_interrupted = Cell::new(false);
        let mut watched = |progress| {
            let flow = on_progress(progress);
            is_interrupted.set(is_interrupted.get() || flow.is_break());
            flow
        };
        let baseline = plan.run(BASELINE_DESIGN, &mut watched)?;
        self.runs = (!is_interrupted.get()).then(|| SavingRuns::of_baseline_record(baseline.clone()));
        for saving in self.savings.iter_mut().filter(|saving| saving.mechanism_may_save_writes()) {
            if is_interrupted.get() {
                break;
            }
            let config = config_with_mechanisms(config, &[saving.mechanism]);
            match plan.with_config(&config).and_then(|plan| plan.run(BASELINE_DESIGN, &mut watched)) {
                Ok(run) if is_interrupted.get() => drop(run),
                Ok(run) => saving.when_run = Some(MeasuredSaving::compared_with_baseline(&run, &baseline)),
                Err(error) if error.is_due_to_configuration_or_device() => {
                    self.notes.push(format!("{} was not run: {error}", saving.mechanism.name()));
                }
                Err(error) => return Err(error),
            }
        }
        if is_interrupted.get() {
            self.partial = true;
            self.notes.push("interrupted before all content mechanisms were run".into());
        }
        Ok(())
    }
}

impl Saving {
    /// Whether the input shows that the mechanism can save page writes: `at_most` is known and more than 0.
    fn mechanism_may_save_writes(&self) -> bool {
        self.at_most.is_some_and(|share| share > 0.0)
    }
}

impl SavingRuns {
    /// Keeps the drive, counters and configuration of the run without content mechanisms.
    fn of_baseline_record(
        RunRecord { device, host_page_writes, programs, erases, config, .. }: RunRecord,
    ) -> Self {
        Self { device, host_page_writes, programs, erases, config }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recently_written_pages_are_the_last_three_distinct_pages() {
        let mut last = RecentlyWrittenPages::default();
        let found = [1, 2, 3, 1, 4, 2, 1, 5, 2].map(|page| last.add_page(page));
        assert_eq!(found, [false, false, false, true, false, false, true, false, true]);
    }

    #[test]
    fn max_compression_saving_assumes_at_most_four_members_in_a_flash_page() {
        assert!((max_compression_saving_share(0.9, 0.0) - 0.75).abs() < 1e-12);
        assert!((max_compression_saving_share(0.4, 0.0) - 0.4).abs() < 1e-12);
        assert!((max_compression_saving_share(0.9, 0.2) - 0.8).abs() < 1e-12);
    }
}
