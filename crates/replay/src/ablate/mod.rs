//! Ablations: how much each content mechanism of a design gains, from runs of every subset of the mechanisms on one
//! input.
//!
//! Mechanisms act on the same writes: what deduplication finds, recycling need not revive. So gains of each mechanism
//! alone count shared gains twice, and gains of each mechanism removed from the whole do not count them at all. All 2^k
//! subsets are run, and three answers are given: added alone, added last, and the Shapley value, which adds up to the
//! whole. The price is 2^k runs: 16 for four mechanisms, and 64 for all six. Subsets that the engine refuses have no
//! figures, nor has anything that needs them: nothing is interpolated.
//!
//! | file | what it decides |
//! |---|---|
//! | `subset.rs` | which mechanisms there are, and how a subset becomes a setting |
//! | `game.rs` | how much a player adds to a game: alone, last, on average |
//! | `persistence.rs` | what is said if not all subsets can keep the persistence of the design |
//! | `figures.rs` | which figures are examined, and on which runs their changes rest |
//! | `table.rs`, `data.rs` | what is printed |

mod data;
mod figures;
mod game;
mod persistence;
mod subset;
mod table;

pub use data::data_table;
use figures::{ABLATION_FIGURES, FigureValues};
pub use figures::{Change, FigureGains, Gain, Overlap};
pub use game::CooperativeGame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use subset::{AblatedMechanisms, MechanismSubset};
pub use table::{ablation_markdown, ablation_text};
use wearwell_config::ContentMechanismName;

use crate::record::RunRecord;
use crate::report::RESULT_SCHEMA_VERSION;

/// The JSON document that `wearwell ablate --json` writes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ablations {
    /// Version of the JSON document's layout, [`RESULT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Ablations, one for each input and for each point of a sweep.
    pub ablations: Vec<Ablation>,
}

impl Ablations {
    /// Creates the JSON document for ablations in the order of their tables.
    pub fn of_ablations(ablations: Vec<Ablation>) -> Self {
        Self { schema_version: RESULT_SCHEMA_VERSION, ablations }
    }
}

/// Results of every subset of some content mechanisms, on one design and input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// Name of the ablation's input.
    pub input: String,
    /// Name of the design whose content mechanisms are varied.
    pub design: String,
    /// Settings that distinguish this ablation from others of a sweep; empty without a sweep.
    pub settings: String,
    /// The content mechanisms whose subsets were run.
    pub mechanisms: Vec<ContentMechanismName>,
    /// Whether some subset of the mechanisms that the engine accepts was not run to the end of the input.
    pub partial: bool,
    /// Results of all subsets of the mechanisms, from the empty one to that of all mechanisms.
    pub subsets: Vec<SubsetRun>,
    /// How much each mechanism changes each figure.
    pub figures: Vec<FigureGains>,
    /// What distinguishes the runs besides their mechanisms. Notes on single runs are in their records.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A subset of the content mechanisms of an ablation, with its run or the reason why there is none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubsetRun {
    /// Mechanisms in the subset; empty for the baseline.
    pub mechanisms: Vec<ContentMechanismName>,
    /// Record of the run with this subset of the mechanisms; absent if the subset was refused or not begun.
    pub run: Option<RunRecord>,
    /// Reason why the engine refuses this subset of the mechanisms on this design; absent if the engine accepts it.
    pub refused: Option<String>,
}

/// How the run of a design with one subset of the content mechanisms ended (in an ablation).
#[derive(Clone, PartialEq, Debug)]
pub enum SubsetOutcome {
    /// The subset of the mechanisms was run; the record may be partial.
    Ran(Box<RunRecord>),
    /// The engine refused the subset of the mechanisms, with this message.
    Refused(String),
    /// The subset of the mechanisms was not run, because the user had ended the ablation before.
    NotRun,
}

impl SubsetRun {
    /// Creates the result of a subset of the mechanisms from the outcome of its run.
    fn of_outcome(mechanisms: Vec<ContentMechanismName>, outcome: SubsetOutcome) -> Self {
        let (run, refused) = match outcome {
            SubsetOutcome::Ran(run) => (Some(*run), None),
            SubsetOutcome::Refused(sentence) => (None, Some(sentence)),
            SubsetOutcome::NotRun => (None, None),
        };
        Self { mechanisms, run, refused }
    }

    /// Returns the name of the subset: its mechanisms with plus signs between them, or `none`.
    pub fn name(&self) -> String {
        subset::joined_mechanism_names(&self.mechanisms)
    }

    /// Whether this subset of the mechanisms was refused, or run to the end of the input.
    fn is_refused_or_complete(&self) -> bool {
        self.refused.is_some() || self.run.as_ref().is_some_and(|run| !run.partial)
    }

    /// Returns why a figure of this subset of the mechanisms is missing.
    fn why_figure_is_missing(&self) -> String {
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
    /// Creates an ablation from the outcome of each subset of the mechanisms, in the order of
    /// [`AblatedMechanisms::subsets`], and computes the gains.
    ///
    /// # Panics
    /// Panics if the number of outcomes is not that of the subsets.
    pub fn of_outcomes(
        (input, design, settings): (String, String, String),
        mechanisms: &AblatedMechanisms,
        outcomes: Vec<SubsetOutcome>,
    ) -> Self {
        let members: Vec<Vec<ContentMechanismName>> =
            mechanisms.subsets().map(|subset| mechanisms.mechanisms_of(subset)).collect();
        assert_eq!(members.len(), outcomes.len(), "an outcome for each subset");
        let subsets: Vec<SubsetRun> = members
            .into_iter()
            .zip(outcomes)
            .map(|(members, outcome)| SubsetRun::of_outcome(members, outcome))
            .collect();
        let gains = |figure| FigureValues::of_subsets(figure, &subsets).gains(mechanisms.names(), &subsets);
        Self {
            input,
            design,
            settings,
            mechanisms: mechanisms.names().to_vec(),
            partial: !subsets.iter().all(SubsetRun::is_refused_or_complete),
            figures: ABLATION_FIGURES.iter().map(gains).collect(),
            notes: Vec::new(),
            subsets,
        }
    }

    /// Returns the runs that exist, each with the name of its subset of the mechanisms.
    fn runs_by_subset_name(&self) -> Vec<(String, &RunRecord)> {
        self.subsets.iter().filter_map(|subset| Some((subset.name(), subset.run.as_ref()?))).collect()
    }
}
