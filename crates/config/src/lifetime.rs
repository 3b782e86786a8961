//! Configuration of lifetime management: which schemes (deduplication, compression, ...) may run, and the target in
//! years for which they are chosen and host writes are throttled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::content::dedup::DedupOptions;
use wearwell::design::ContentParts;
use wearwell::lifetime::{
    EnergyModel, EpochLength, LifetimeOptions, LifetimePaperConfiguration, LifetimeScheme, MechanismKind,
    MechanismSet,
};

use super::Config;

/// Options of lifetime management: schemes that save flash writes, and throttling of host writes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LifetimeConfig {
    /// Which write-saving schemes (deduplication, compression, ...) may be used, and whether host writes are throttled.
    pub schemes: LifetimeSchemes,
    /// Whether compression costs twice the energy that the paper on integrated lifetime management states. With twice
    /// the energy, the model reproduces the paper's break-even; false = the stated energy.
    pub fitted_energy: bool,
    /// Read the stored page and compare its bytes before deduplicating a write.
    pub verify_on_hit: bool,
    /// Length of an epoch, seconds; the write-saving schemes are chosen anew for each epoch. Not used with `best`,
    /// which has no clock and uses `epoch_writes`.
    pub epoch_s: u32,
    /// Length of an epoch (after which the write-saving schemes are chosen anew) with `schemes = "best"`, in page
    /// writes of the host.
    pub epoch_writes: u32,
    /// Lifetime target in years, counted from the first measured request.
    pub target_years: f64,
}

impl Default for LifetimeConfig {
    fn default() -> Self {
        Self {
            schemes: LifetimeSchemes::Always,
            fitted_energy: false,
            verify_on_hit: false,
            epoch_s: 300,
            epoch_writes: 8192,
            target_years: 5.0,
        }
    }
}

/// Configurations of lifetime management by the names of the paper on integrated lifetime management (table I).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LifetimeSchemes {
    /// No lifetime management: all content schemes (deduplication, compression, ...) of the design always run.
    #[default]
    Always,
    /// No write-saving scheme (deduplication, compression, ...) and no throttling of host writes.
    Baseline,
    /// Throttling of host writes. All content schemes (deduplication, compression, ...) of the design always run; the
    /// design `integrated` has none then.
    Throttling,
    /// Compression always runs; no other scheme saves writes, and host writes are not throttled.
    Compression,
    /// Deduplication always runs; no other scheme saves writes, and host writes are not throttled.
    Dedup,
    /// Throttling, deduplication and compression, as the paper's algorithm decides for each epoch; also recycling and
    /// delta encoding on a design composed of parts that has them.
    Integrated,
    /// Of the design's write-saving schemes (deduplication, compression, ...), those that save both writes and energy;
    /// no lifetime target and no throttling, and the input needs no times.
    Best,
}

impl LifetimeConfig {
    /// Returns which configuration of the paper on integrated lifetime management is chosen; `None` if lifetime
    /// management is off, or is not one of the paper's configurations.
    fn paper_configuration(&self) -> Option<LifetimePaperConfiguration> {
        match self.schemes {
            LifetimeSchemes::Always | LifetimeSchemes::Best => None,
            LifetimeSchemes::Baseline => Some(LifetimePaperConfiguration::Baseline),
            LifetimeSchemes::Throttling => Some(LifetimePaperConfiguration::Throttling),
            LifetimeSchemes::Compression => Some(LifetimePaperConfiguration::Compression),
            LifetimeSchemes::Dedup => Some(LifetimePaperConfiguration::Dedup),
            LifetimeSchemes::Integrated => Some(LifetimePaperConfiguration::Integrated),
        }
    }

    /// Returns the energy model of the write-saving schemes: with the energies that the paper on integrated lifetime
    /// management states, or fitted so that compression breaks even where it does in that paper.
    pub fn energy_model(&self) -> EnergyModel {
        if self.fitted_energy { EnergyModel::FITTED_TO_PAPER } else { EnergyModel::STATED_IN_PAPER }
    }

    /// Returns whether host writes are throttled to meet a lifetime target. Throttling requires an arrival mode in
    /// which delays shift later requests.
    pub fn is_throttling(&self) -> bool {
        matches!(self.schemes, LifetimeSchemes::Throttling | LifetimeSchemes::Integrated)
    }

    /// Returns the options of lifetime management on a device with these content mechanisms; `None` if nothing is
    /// managed.
    fn lifetime_options_for_mechanisms(&self, content: &ContentParts) -> Option<LifetimeOptions> {
        let (schemes, energy) = (MechanismSet::of_design(content), self.energy_model());
        if self.schemes == LifetimeSchemes::Best {
            let options = LifetimeOptions::without_target(schemes, self.epoch_writes, &energy);
            return (schemes != MechanismSet::NONE).then_some(options);
        }
        let (epoch_length, target_years) = (EpochLength::Seconds(self.epoch_s), self.target_years);
        let options = LifetimeOptions::of_integrated_lifetime_paper(self.paper_configuration()?, &energy);
        let options = LifetimeOptions { epoch_length, target_years, ..options };
        let schemes = schemes.iter().map(|kind| LifetimeScheme::with_energy_of(kind, &energy)).collect();
        match self.schemes {
            LifetimeSchemes::Throttling => Some(options.with_schemes_always_on(schemes)),
            LifetimeSchemes::Integrated => Some(LifetimeOptions { schemes, ..options }),
            _ => None,
        }
    }

    /// Returns which content mechanisms the lifetime schemes need: the options of deduplication (`None` if it is not
    /// needed), and whether compression is needed.
    pub(super) fn dedup_and_compression_of_schemes(&self) -> (Option<DedupOptions>, bool) {
        let kinds = self.paper_configuration().map(|configuration| {
            let options = LifetimeOptions::of_integrated_lifetime_paper(configuration, &self.energy_model());
            options.schemes.iter().map(|scheme| scheme.kind).collect::<Vec<_>>()
        });
        let has = |kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
        let dedup = DedupOptions { must_verify_hits: self.verify_on_hit, ..DedupOptions::default() };
        (has(MechanismKind::Dedup).then_some(dedup), has(MechanismKind::Compression))
    }
}

impl Config {
    /// Returns the options of lifetime management of `design` with these content mechanisms; `None` if nothing is
    /// managed. Throttling needs no content mechanism. The paper's algorithm (`lifetime.schemes=integrated`) switches
    /// content mechanisms only on `integrated` and `wearwell` and on designs with `parts.content` set: the designs of
    /// the other papers stay as their papers describe them.
    pub fn lifetime_options(&self, design: &str, content: &ContentParts) -> Option<LifetimeOptions> {
        let options = self.lifetime.lifetime_options_for_mechanisms(content)?;
        let is_chosen = self.parts.content.is_some() || matches!(design, "integrated" | "wearwell");
        let is_switched = is_chosen && !options.schemes.is_empty();
        (self.lifetime.schemes != LifetimeSchemes::Integrated || is_switched).then_some(options)
    }
}
