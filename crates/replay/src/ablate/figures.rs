//! The figures of a run that mechanisms change, and what each mechanism does to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell_config::ContentName;

use super::{Game, SubsetRun};
use crate::record::RunRecord;
use crate::report::{self, Column};

/// A figure that is taken apart; the report knows how it is read from a record.
pub(super) struct Figure {
    /// As in CSV.
    pub(super) key: &'static str,
    /// In the head of a narrow column, below a line that says what it is.
    pub(super) short: &'static str,
    more_is_better: bool,
}

const fn cost(key: &'static str, short: &'static str) -> Figure {
    Figure { key, short, more_is_better: false }
}

/// All of them, page programs first.
pub(super) const FIGURES: [Figure; 6] = [
    cost("programs", "programs"),
    cost("erases", "erases"),
    Figure { more_is_better: true, ..cost("tb_written_until_worn", "TB") },
    cost("read_mean_us", "read us"),
    cost("write_mean_us", "write us"),
    cost("ram_mib", "MiB"),
];

impl Figure {
    pub(super) fn column(&self) -> &'static Column {
        report::column(self.key)
    }
}

/// A figure, and what mechanisms change of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FigureGains {
    /// Name of the figure, as in the CSV of runs.
    pub figure: String,
    /// The same for people, with its unit.
    pub title: String,
    /// Whether more of it is better; of the others less is.
    pub more_is_better: bool,
    /// Without any mechanism; absent if that run has none.
    pub baseline: Option<f64>,
    /// From the baseline to all mechanisms; the Shapley values add up to it.
    pub whole: Option<Change>,
    /// One for each mechanism.
    pub mechanisms: Vec<Gain>,
    /// One for each pair of mechanisms.
    pub overlaps: Vec<Overlap>,
    /// Why there are no Shapley values although some runs have the figure.
    pub why_no_shapley: Option<String>,
}

/// A change of a figure, in its unit; below zero where it falls.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// In the figure's unit.
    pub absolute: f64,
    /// Over the baseline's figure; absent where that is zero or unknown.
    pub relative: Option<f64>,
    /// One of the runs behind it was not steady where the figure is extrapolated: a longer run gives another change.
    pub is_from_unsteady_run: bool,
}

/// What a mechanism does to a figure; a change that needs a run which is missing is absent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// The mechanism.
    pub mechanism: ContentName,
    /// Alone on the baseline.
    pub alone: Option<Change>,
    /// As the last, to all the others: what is lost when it is taken from the whole, with the other sign.
    pub last: Option<Change>,
    /// Mean over all orders in which the mechanisms can be added.
    pub shapley: Option<Change>,
}

/// What two mechanisms gain on the baseline one by one, less what they gain together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Overlap {
    /// The one.
    pub first: ContentName,
    /// The other.
    pub second: ContentName,
    /// Above zero where both gain the same thing, below where they help each other; absent if a run is missing.
    pub overlap: Option<Change>,
}

/// The values of a figure for all subsets.
pub(super) struct Values<'a> {
    figure: &'a Figure,
    game: Game,
    marked: Vec<bool>,
}

impl<'a> Values<'a> {
    /// A run that ended early describes another part of the input, so that its figures cannot be compared.
    pub(super) fn of(figure: &'a Figure, subsets: &[SubsetRun]) -> Self {
        let runs: Vec<Option<&RunRecord>> =
            subsets.iter().map(|subset| subset.run.as_ref().filter(|run| !run.partial)).collect();
        let column = figure.column();
        let values = runs.iter().map(|run| run.and_then(column.value)).collect();
        let marked = runs.iter().map(|run| run.is_some_and(|run| column.is_marked(run))).collect();
        Self { figure, game: Game::of(values), marked }
    }

    pub(super) fn gains(&self, mechanisms: &[ContentName], subsets: &[SubsetRun]) -> FigureGains {
        let (all, numbered) = (self.marked.len() - 1, || mechanisms.iter().copied().enumerate());
        let game = &self.game;
        let gain = |(player, mechanism): (usize, ContentName)| Gain {
            mechanism,
            alone: self.change(game.alone(player), &[0, 1 << player]),
            last: self.change(game.last(player), &[all & !(1 << player), all]),
            shapley: self.change_of_all(game.shapley(player)),
        };
        let whole = game.baseline().and_then(|baseline| Some(game.whole()? - baseline));
        let overlaps = numbered().flat_map(|one| numbered().skip(one.0 + 1).map(move |other| (one, other)));
        FigureGains {
            figure: self.figure.key.to_owned(),
            title: self.figure.column().title.to_owned(),
            more_is_better: self.figure.more_is_better,
            baseline: game.baseline(),
            whole: self.change(whole, &[0, all]),
            mechanisms: numbered().map(gain).collect(),
            overlaps: overlaps.map(|(one, other)| self.overlap(one, other)).collect(),
            why_no_shapley: self.missing(subsets),
        }
    }

    /// Savings that two have in common are an interaction above zero where less is better: together they fall by less.
    fn overlap(&self, one: (usize, ContentName), other: (usize, ContentName)) -> Overlap {
        let sign = if self.figure.more_is_better { -1.0 } else { 1.0 };
        let ((first_player, first), (second_player, second)) = (one, other);
        let (a, b) = (1 << first_player, 1 << second_player);
        let interaction = self.game.interaction(first_player, second_player);
        Overlap {
            first,
            second,
            overlap: self.change(interaction.map(|value| sign * value), &[0, a, b, a | b]),
        }
    }

    fn change(&self, absolute: Option<f64>, subsets: &[usize]) -> Option<Change> {
        let absolute = absolute?;
        let baseline = self.game.baseline().filter(|&baseline| baseline != 0.0);
        let is_from_unsteady_run = subsets.iter().any(|&subset| self.marked[subset]);
        Some(Change {
            absolute,
            relative: baseline.map(|baseline| absolute / baseline),
            is_from_unsteady_run,
        })
    }

    fn change_of_all(&self, absolute: Option<f64>) -> Option<Change> {
        let all: Vec<usize> = (0..self.marked.len()).collect();
        self.change(absolute, &all)
    }

    /// The first subset without the figure, unless all are without.
    fn missing(&self, subsets: &[SubsetRun]) -> Option<String> {
        let values = self.game.values();
        let lacking = values.iter().position(Option::is_none)?;
        values.iter().any(Option::is_some).then(|| subsets[lacking].why_missing())
    }
}
