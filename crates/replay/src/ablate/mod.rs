//! Which mechanism gains what: every subset of a design's content mechanisms on one input.
//!
//! Mechanisms meet in the same writes: what deduplication finds, recycling need not revive. So a figure of each mechanism alone
//! counts shared gains twice, and a figure of each taken from the whole counts them not at all. All 2^k subsets are run, and three
//! answers are given: alone, last of all, and the Shapley value, which adds up. The price is 2^k runs, so five mechanisms are the
//! most. Subsets that the engine refuses stay blank, and what needs them too: nothing is interpolated.
//!
//! | file | what it decides |
//! |---|---|
//! | `subset.rs` | which mechanisms there are, and how a subset becomes a setting |
//! | `game.rs` | what a player of a game adds: alone, last, on average |
//! | `figures.rs` | which figures are taken apart, and what their changes rest on |
//! | `table.rs`, `csv.rs` | what is shown |

mod csv;
mod figures;
mod game;
mod subset;
mod table;

pub use csv::csv;
pub use figures::{Change, FigureGains, Gain, Overlap};
use figures::{FIGURES, Values};
pub use game::Game;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use subset::{Mechanisms, Subset};
pub use table::{markdown, table};
use wearwell_config::ContentName;

use crate::record::RunRecord;
use crate::report::SCHEMA_VERSION;

/// What `wearwell ablate --json` writes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ablations {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// One for each input, and for each point of a sweep.
    pub ablations: Vec<Ablation>,
}

impl Ablations {
    /// Of ablations, in the order of their tables.
    pub fn of(ablations: Vec<Ablation>) -> Self {
        Self { schema_version: SCHEMA_VERSION, ablations }
    }
}

/// Every subset of some mechanisms on one input and design.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// The input.
    pub input: String,
    /// The design whose content mechanisms are exchanged.
    pub design: String,
    /// Settings that tell this ablation from others of a sweep; empty without one.
    pub settings: String,
    /// The mechanisms.
    pub mechanisms: Vec<ContentName>,
    /// Not every subset that the engine accepts was run to the end of the input.
    pub partial: bool,
    /// All subsets, from none to all.
    pub subsets: Vec<SubsetRun>,
    /// What each mechanism changes, figure by figure.
    pub figures: Vec<FigureGains>,
}

/// A subset of the mechanisms, and what became of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubsetRun {
    /// Its members; empty on the baseline.
    pub mechanisms: Vec<ContentName>,
    /// Its run; absent if it was refused or not begun.
    pub run: Option<RunRecord>,
    /// Why the engine refuses this subset on this design.
    pub refused: Option<String>,
}

/// How a run of a subset ended.
#[derive(Clone, PartialEq, Debug)]
pub enum SubsetOutcome {
    /// With a record, which may be partial.
    Ran(Box<RunRecord>),
    /// The engine refused it, with this sentence.
    Refused(String),
    /// The user had ended the ablation before.
    NotRun,
}

impl SubsetRun {
    fn of(mechanisms: Vec<ContentName>, outcome: SubsetOutcome) -> Self {
        let (run, refused) = match outcome {
            SubsetOutcome::Ran(run) => (Some(*run), None),
            SubsetOutcome::Refused(sentence) => (None, Some(sentence)),
            SubsetOutcome::NotRun => (None, None),
        };
        Self { mechanisms, run, refused }
    }

    /// Its name: members with plus signs between them, or `none`.
    pub fn name(&self) -> String {
        subset::joined(&self.mechanisms)
    }

    /// Whether it was refused, or run to the end of the input.
    fn is_answered(&self) -> bool {
        self.refused.is_some() || self.run.as_ref().is_some_and(|run| !run.partial)
    }

    /// Why a figure of it is missing.
    fn why_missing(&self) -> String {
        let name = self.name();
        match (&self.run, &self.refused) {
            (_, Some(_)) => format!("the engine refuses {name}"),
            (None, None) => format!("{name} was not run"),
            (Some(run), None) if run.partial => format!("{name} ended early"),
            (Some(_), None) => format!("the run of {name} has no such figure"),
        }
    }
}

impl Ablation {
    /// Of what became of each subset, in the order of [`Mechanisms::subsets`].
    ///
    /// # Panics
    /// There is not one outcome for each subset.
    pub fn of(
        (input, design, settings): (String, String, String),
        mechanisms: &Mechanisms,
        outcomes: Vec<SubsetOutcome>,
    ) -> Self {
        let members: Vec<Vec<ContentName>> =
            mechanisms.subsets().map(|subset| mechanisms.members(subset)).collect();
        assert_eq!(members.len(), outcomes.len(), "an outcome for each subset");
        let subsets: Vec<SubsetRun> = members
            .into_iter()
            .zip(outcomes)
            .map(|(members, outcome)| SubsetRun::of(members, outcome))
            .collect();
        let gains = |figure| Values::of(figure, &subsets).gains(mechanisms.names(), &subsets);
        Self {
            input,
            design,
            settings,
            mechanisms: mechanisms.names().to_vec(),
            partial: !subsets.iter().all(SubsetRun::is_answered),
            figures: FIGURES.iter().map(gains).collect(),
            subsets,
        }
    }

    /// The runs that there are, with the names of their subsets.
    fn runs(&self) -> Vec<(String, &RunRecord)> {
        self.subsets.iter().filter_map(|subset| Some((subset.name(), subset.run.as_ref()?))).collect()
    }
}
