//! The figures (results) of a run that an ablation examines, and how much each content mechanism changes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell_config::ContentMechanismName;

use super::{CooperativeGame, SubsetRun};
use crate::record::RunRecord;
use crate::report::{self, FigureColumn};

/// A figure (result, such as page programs) that an ablation examines; the report computes it from a run record.
pub(super) struct AblationFigure {
    /// Key of the figure, which is its column in CSV.
    pub(super) key: &'static str,
    /// Short title of the figure for the head of a narrow column; a line above the table explains it.
    pub(super) short_title: &'static str,
    /// Whether a greater value of the figure is better; if not, a smaller value is.
    more_is_better: bool,
}

/// Returns a figure of which a smaller value is better, such as erases, with its key and its short title.
const fn less_is_better_figure(key: &'static str, short: &'static str) -> AblationFigure {
    AblationFigure { key, short_title: short, more_is_better: false }
}

/// All figures (results of a run) that an ablation examines, page programs first.
pub(super) const ABLATION_FIGURES: [AblationFigure; 6] = [
    less_is_better_figure("programs", "programs"),
    less_is_better_figure("erases", "erases"),
    AblationFigure { more_is_better: true, ..less_is_better_figure("tb_written_until_worn", "TB") },
    less_is_better_figure("read_mean_us", "read us"),
    less_is_better_figure("write_mean_us", "write us"),
    less_is_better_figure("ram_mib", "MiB"),
];

impl AblationFigure {
    /// Returns the column of reports that computes the figure from a run record.
    pub(super) fn figure_column(&self) -> &'static FigureColumn {
        report::figure_column(self.key)
    }
}

/// A figure (number, such as page programs) that the runs measured, and how much each content mechanism changes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FigureGains {
    /// Key of the figure, as in the CSV of runs.
    pub figure: String,
    /// Title of the figure for people, with its unit.
    pub title: String,
    /// Whether a greater value of the figure is better; if not, a smaller value is.
    pub more_is_better: bool,
    /// Value of the figure without any mechanism; absent if that run is missing or does not have the figure.
    pub baseline: Option<f64>,
    /// Change of the figure if all mechanisms are added to the baseline (no mechanism). The Shapley values of the
    /// mechanisms add up to this change.
    pub whole: Option<Change>,
    /// Changes of the figure by each mechanism, one entry per mechanism.
    pub mechanisms: Vec<Gain>,
    /// Overlaps of the gains of two mechanisms, one entry per pair.
    pub overlaps: Vec<Overlap>,
    /// Reason why Shapley values are missing although some runs have the figure; absent if the values exist, or if no
    /// run has the figure.
    pub why_no_shapley: Option<String>,
}

/// A change of a figure (result of a run); negative if the figure decreases.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The change in the figure's unit.
    pub absolute: f64,
    /// The change divided by the figure of the baseline (no mechanism); absent if the baseline's figure is zero or
    /// unknown.
    pub relative: Option<f64>,
    /// Whether the figure is extrapolated and one of the runs involved was not steady; a longer run then gives another
    /// change.
    pub is_from_unsteady_run: bool,
}

/// How much one mechanism changes a figure, measured in three ways. A change that needs a missing run is absent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Content mechanism whose effect on the figure this entry states.
    pub mechanism: ContentMechanismName,
    /// Change of the figure if only this mechanism is added to the baseline (no mechanism).
    pub alone: Option<Change>,
    /// Change of the figure if this mechanism is added last, to all the others: the negative of the change if it is
    /// removed from the set of all mechanisms.
    pub last: Option<Change>,
    /// Shapley value: mean change of the figure by adding the mechanism, over all orders in which the mechanisms can be
    /// added.
    pub shapley: Option<Change>,
}

/// Overlap of the gains of two mechanisms: the sum of what each gains alone on the baseline, less what they gain
/// together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Overlap {
    /// The first of the two mechanisms whose gains overlap.
    pub first: ContentMechanismName,
    /// The second of the two mechanisms whose gains overlap.
    pub second: ContentMechanismName,
    /// Overlap of the two mechanisms: positive if both save the same writes, negative if they help each other; absent
    /// if a run is missing.
    pub overlap: Option<Change>,
}

/// The values of a figure for all subsets of the content mechanisms.
pub(super) struct FigureValues<'a> {
    /// The figure (result of a run, such as page programs) whose values these are.
    figure: &'a AblationFigure,
    /// The value of the figure for each subset of the mechanisms; a cooperative game, from which Shapley values are
    /// computed.
    figure_by_subset: CooperativeGame,
    /// For each subset of the mechanisms: whether the figure is extrapolated from a run that was not steady.
    is_subset_unsteady: Vec<bool>,
}

impl<'a> FigureValues<'a> {
    /// Collects the values of a figure from the runs of all subsets of the mechanisms. A run that ended early counts as
    /// missing, because it describes only a part of the input. If an extrapolated figure is of different parts of the
    /// runs, it is computed from one part for every subset: the steady part of one run cannot be compared with the whole
    /// of another run, nor with a part that begins later.
    pub(super) fn of_subsets(figure: &'a AblationFigure, subsets: &[SubsetRun]) -> Self {
        let runs: Vec<Option<&RunRecord>> =
            subsets.iter().map(|subset| subset.run.as_ref().filter(|run| !run.partial)).collect();
        let column = figure.figure_column();
        let start_request = column.compared_part_start_request(runs.iter().copied().flatten());
        let value = |run| match start_request {
            Some(start_request) => column.figure_of_part(run, start_request),
            None => column.figure_of(run),
        };
        let values = runs.iter().map(|run| run.and_then(value)).collect();
        let is_subset_unsteady =
            runs.iter().map(|run| run.is_some_and(|run| column.needs_unsteady_mark(run))).collect();
        Self { figure, figure_by_subset: CooperativeGame::of_subset_values(values), is_subset_unsteady }
    }

    /// Returns how much each mechanism changes the figure, and how much pairs of mechanisms overlap.
    pub(super) fn gains(&self, mechanisms: &[ContentMechanismName], subsets: &[SubsetRun]) -> FigureGains {
        let (all, numbered) = (self.is_subset_unsteady.len() - 1, || mechanisms.iter().copied().enumerate());
        let game = &self.figure_by_subset;
        let gain = |(player, mechanism): (usize, ContentMechanismName)| Gain {
            mechanism,
            alone: self.change_from_runs_of_subsets(game.gain_alone(player), &[0, 1 << player]),
            last: self.change_from_runs_of_subsets(
                game.gain_when_added_to_all_others(player),
                &[all & !(1 << player), all],
            ),
            shapley: self.change_from_runs_of_all_subsets(game.shapley_value(player)),
        };
        let whole = game.empty_subset_value().and_then(|baseline| Some(game.full_subset_value()? - baseline));
        let overlaps = numbered().flat_map(|one| numbered().skip(one.0 + 1).map(move |other| (one, other)));
        FigureGains {
            figure: self.figure.key.to_owned(),
            title: self.figure.figure_column().title.to_owned(),
            more_is_better: self.figure.more_is_better,
            baseline: game.empty_subset_value(),
            whole: self.change_from_runs_of_subsets(whole, &[0, all]),
            mechanisms: numbered().map(gain).collect(),
            overlaps: overlaps.map(|(one, other)| self.overlap(one, other)).collect(),
            why_no_shapley: self.why_no_shapley(subsets),
        }
    }

    /// Returns the overlap of two mechanisms' gains: the sum of what each gains alone on the baseline, less what they
    /// gain together. It is positive if they gain less together.
    fn overlap(&self, one: (usize, ContentMechanismName), other: (usize, ContentMechanismName)) -> Overlap {
        let sign = if self.figure.more_is_better { -1.0 } else { 1.0 };
        let ((first_player, first), (second_player, second)) = (one, other);
        let (a, b) = (1 << first_player, 1 << second_player);
        let interaction = self.figure_by_subset.player_interaction(first_player, second_player);
        Overlap {
            first,
            second,
            overlap: self
                .change_from_runs_of_subsets(interaction.map(|value| sign * value), &[0, a, b, a | b]),
        }
    }

    /// Returns the [`Change`] of the figure by `absolute`, with `absolute` as a share of the baseline's figure. It is
    /// computed from the runs of `subsets`.
    fn change_from_runs_of_subsets(&self, absolute: Option<f64>, subsets: &[usize]) -> Option<Change> {
        let absolute = absolute?;
        let baseline = self.figure_by_subset.empty_subset_value().filter(|&baseline| baseline != 0.0);
        let is_from_unsteady_run = subsets.iter().any(|&subset| self.is_subset_unsteady[subset]);
        Some(Change {
            absolute,
            relative: baseline.map(|baseline| absolute / baseline),
            is_from_unsteady_run,
        })
    }

    /// Returns the [`Change`] of the figure by `absolute`, with `absolute` as a share of the baseline's figure. It is
    /// computed from the runs of all subsets.
    fn change_from_runs_of_all_subsets(&self, absolute: Option<f64>) -> Option<Change> {
        let all: Vec<usize> = (0..self.is_subset_unsteady.len()).collect();
        self.change_from_runs_of_subsets(absolute, &all)
    }

    /// Returns why Shapley values of a figure are missing: the first subset of mechanisms without the figure. `None` if
    /// no subset lacks the figure, or if all subsets lack it.
    fn why_no_shapley(&self, subsets: &[SubsetRun]) -> Option<String> {
        let values = self.figure_by_subset.subset_values();
        let lacking = values.iter().position(Option::is_none)?;
        values.iter().any(Option::is_some).then(|| subsets[lacking].why_figure_is_missing())
    }
}
