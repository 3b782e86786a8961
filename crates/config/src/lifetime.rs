//! Lifetime management: which schemes may be used, and the target they are chosen and writes are throttled for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::content::dedup::DedupOptions;
use wearwell::design::ContentParts;
use wearwell::lifetime::{
    Configuration, ContentSchemes, EnergyModel, EpochLength, LifetimeOptions, Scheme, SchemeKind,
};

use super::Config;

/// Lifetime management.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LifetimeConfig {
    /// Which schemes may be used.
    pub schemes: LifetimeSchemes,
    /// Take twice the stated energy for compression, with which the paper's break-even comes out; else as stated.
    pub fitted_energy: bool,
    /// Read and compare before deduplicating.
    pub verify_on_hit: bool,
    /// Length of an epoch, seconds; with `best`, which has no clock, `epoch_writes` says it.
    pub epoch_s: u32,
    /// Length of an epoch with `best`, page writes of the host.
    pub epoch_writes: u32,
    /// Years that the device shall last from the first measured request on.
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

/// Configurations of lifetime management by the paper's names (IL, table I).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LifetimeSchemes {
    /// No management: the schemes of the design run always.
    #[default]
    Always,
    /// No scheme at all.
    Baseline,
    /// Throttling of host writes.
    Throttling,
    /// Compression, always.
    Compression,
    /// Deduplication, always.
    Dedup,
    /// All of them, and recycling and delta encoding where a mixture has them, as the algorithm decides.
    Integrated,
    /// Of the schemes that the design has those that save writes and energy; no target, no throttling, no times needed.
    Best,
}

impl LifetimeConfig {
    fn configuration(&self) -> Option<Configuration> {
        match self.schemes {
            LifetimeSchemes::Always | LifetimeSchemes::Best => None,
            LifetimeSchemes::Baseline => Some(Configuration::Baseline),
            LifetimeSchemes::Throttling => Some(Configuration::Throttling),
            LifetimeSchemes::Compression => Some(Configuration::Compression),
            LifetimeSchemes::Dedup => Some(Configuration::Dedup),
            LifetimeSchemes::Integrated => Some(Configuration::Integrated),
        }
    }

    /// What things cost in energy.
    pub fn energy(&self) -> EnergyModel {
        if self.fitted_energy { EnergyModel::FITTED } else { EnergyModel::STATED }
    }

    /// Whether a target is to be met by throttling, for which time has to stretch.
    pub(super) fn throttles(&self) -> bool {
        matches!(self.schemes, LifetimeSchemes::Throttling | LifetimeSchemes::Integrated)
    }

    /// What is managed on a device with this content; `None` without management.
    fn options(&self, content: &ContentParts) -> Option<LifetimeOptions> {
        let (schemes, energy) = (ContentSchemes::of(content), self.energy());
        if self.schemes == LifetimeSchemes::Best {
            let options = LifetimeOptions::best(schemes, self.epoch_writes, &energy);
            return (schemes != ContentSchemes::NONE).then_some(options);
        }
        let (epoch, target_years) = (EpochLength::Seconds(self.epoch_s), self.target_years);
        let options = LifetimeOptions::of(self.configuration()?, &energy);
        let options = LifetimeOptions { epoch, target_years, ..options };
        match self.schemes {
            LifetimeSchemes::Throttling => Some(options),
            LifetimeSchemes::Integrated => {
                let schemes = schemes.iter().map(|kind| Scheme::of(kind, &energy)).collect();
                Some(LifetimeOptions { schemes, ..options })
            }
            _ => None,
        }
    }

    /// The parts that the schemes need: deduplication, and compression.
    pub(super) fn stages(&self) -> (Option<DedupOptions>, bool) {
        let kinds = self.configuration().map(|configuration| {
            let options = LifetimeOptions::of(configuration, &self.energy());
            options.schemes.iter().map(|scheme| scheme.kind).collect::<Vec<_>>()
        });
        let has = |kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
        let dedup = DedupOptions { verify_on_hit: self.verify_on_hit, ..DedupOptions::default() };
        (has(SchemeKind::Dedup).then_some(dedup), has(SchemeKind::Compression))
    }
}

impl Config {
    /// What lifetime management does on a design with this content; `None` if nothing. Throttling needs no scheme. The algorithm
    /// switches the schemes of `integrated` and `wearwell`, and of designs whose content `parts.content` says: a paper's design stays
    /// the paper's.
    pub fn managed(&self, design: &str, content: &ContentParts) -> Option<LifetimeOptions> {
        let options = self.lifetime.options(content)?;
        let is_chosen = self.parts.content.is_some() || matches!(design, "integrated" | "wearwell");
        let is_switched = is_chosen && !options.schemes.is_empty();
        (self.lifetime.schemes != LifetimeSchemes::Integrated || is_switched).then_some(options)
    }
}
