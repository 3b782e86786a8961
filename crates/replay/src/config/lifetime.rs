//! Lifetime management: which schemes may be used, and the target they are chosen and writes are throttled for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use wearwell::content::dedup::DedupOptions;
use wearwell::lifetime::{Choice, Configuration, EnergyModel, LifetimeOptions, SchemeKind};

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
    /// Length of an epoch, seconds.
    pub epoch_s: u32,
    /// Years that the device shall last from the first measured request on.
    pub target_years: f64,
}

impl Default for LifetimeConfig {
    fn default() -> Self {
        let options = LifetimeOptions::of(Configuration::Baseline, &EnergyModel::STATED);
        Self {
            schemes: LifetimeSchemes::Always,
            fitted_energy: false,
            verify_on_hit: false,
            epoch_s: options.epoch_s,
            target_years: options.target_years,
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
    /// All of them, as the algorithm decides.
    Integrated,
}

impl LifetimeConfig {
    fn configuration(&self) -> Option<Configuration> {
        match self.schemes {
            LifetimeSchemes::Always => None,
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

    /// What is managed; `None` without management.
    pub fn options(&self) -> Option<LifetimeOptions> {
        let options = LifetimeOptions::of(self.configuration()?, &self.energy());
        let managed = options.choice == Choice::Algorithm;
        managed.then_some(LifetimeOptions {
            epoch_s: self.epoch_s,
            target_years: self.target_years,
            ..options
        })
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
