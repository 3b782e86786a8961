//! Prints an ablation as text: the runs of all subsets, what each mechanism changes, and how much the gains of each
//! pair of mechanisms overlap.

use std::fmt::Write as _;

use super::figures::ABLATION_FIGURES;
use super::{Ablation, Change, FigureGains, Overlap, SubsetRun};
use crate::report::{
    self, FigureColumn, LINE_WIDTH_CHARS, NOT_STEADY_MARK, aligned_text, figure_column, lines_above_table,
    lines_below_table, with_thousands_separators,
};

/// Largest number of pairs of mechanisms whose overlap is described in a sentence.
const MAX_DESCRIBED_OVERLAPS: usize = 2;
/// Smallest overlap of two mechanisms that is described in a sentence, as a share of the baseline's figure.
const MIN_DESCRIBED_OVERLAP_SHARE: f64 = 0.01;

/// Line above the table of subsets, which explains its short column titles.
const SUBSETS_CAPTION: &str = "\
page programs, block erases, TB written until worn, mean latencies of reads and
writes, MiB of controller RAM
";
/// Text above the table of gains. It explains the three columns that the table has for each figure.
const GAINS_CAPTION: &str = "\
what each changes: alone on the baseline, last of all (the whole loses as much
without it), and by its Shapley value (mean over all orders: these add up to
all together); % of the baseline, which is none
";
/// Line above the table of overlaps, which explains the sign of an overlap.
const OVERLAPS_CAPTION: &str = "\
overlaps: what two gain on the baseline one by one, less what they gain
together: above 0 both gain the same, below 0 they help each other
";

/// Rows of a table of text: the texts of the cells of each row.
type TableRows = Vec<Vec<String>>;

/// The tables of an ablation, and the lines above and below them.
pub(crate) struct AblationTables {
    /// Title line above the tables of an ablation: what was run on which input.
    pub(crate) title: String,
    /// Lines above the tables: the input, the device, and the drive's initial state.
    pub(crate) preamble: String,
    /// Table of the figures of the run with each subset of the mechanisms.
    pub(crate) subsets: TableRows,
    /// Table of how much each mechanism changes each figure.
    pub(crate) gains: TableRows,
    /// Table of how much the gains of two mechanisms overlap, for each pair; `None` if there is only one mechanism.
    pub(crate) overlaps: Option<TableRows>,
    /// Sentences below the tables: strongest overlaps, missing subsets, and notes.
    pub(crate) sentences_below_tables: String,
}

impl Ablation {
    /// Returns the tables and sentences that [`ablation_text`] prints; `None` if no subset of the mechanisms was run.
    pub(crate) fn to_tables(&self) -> Option<AblationTables> {
        let runs = self.runs_by_subset_name();
        let (_, first) = runs.first()?;
        let has_pairs = self.mechanisms.len() > 1;
        let of_overlaps = if has_pairs { overlap_sentences(&self.figures[0]) } else { String::new() };
        Some(AblationTables {
            title: ablation_title(self),
            preamble: lines_above_table(first),
            subsets: subset_rows(self),
            gains: gain_rows(self),
            overlaps: has_pairs.then(|| overlap_rows(self)),
            sentences_below_tables: of_overlaps
                + &missing_subset_sentences(self)
                + &sentences_on_missing_shapley_values(self)
                + &sentences_on_compared_parts(self)
                + &lines_below_table(&runs)
                + &text_of_ablation_notes(self),
        })
    }
}

/// Returns an ablation as tables whose lines fit a terminal; empty if no subset of the mechanisms was run.
pub fn ablation_text(ablation: &Ablation) -> String {
    rendered_tables(ablation, split_to_terminal_width)
}

/// Returns an ablation as tables in Markdown; empty if no subset of the mechanisms was run.
pub fn ablation_markdown(ablation: &Ablation) -> String {
    rendered_tables(ablation, |rows| format!("\n{}", report::markdown_table(rows)))
}

/// Returns the title, tables and sentences of an ablation as text; `render` converts the rows of a table to text.
fn rendered_tables(ablation: &Ablation, render: fn(&[Vec<String>]) -> String) -> String {
    let Some(shown) = ablation.to_tables() else { return String::new() };
    let mut text = shown.title + &shown.preamble + SUBSETS_CAPTION + &render(&shown.subsets);
    text += GAINS_CAPTION;
    text += &render(&shown.gains);
    if let Some(overlaps) = &shown.overlaps {
        text += OVERLAPS_CAPTION;
        text += &render(overlaps);
    }
    text + &shown.sentences_below_tables
}

/// Returns the title line of an ablation.
fn ablation_title(ablation: &Ablation) -> String {
    let names: Vec<&str> = ablation.mechanisms.iter().map(|name| name.name()).collect();
    let settings =
        if ablation.settings.is_empty() { String::new() } else { format!(", {}", ablation.settings) };
    format!("subsets of {} on {}{settings}\n", names.join(", "), ablation.design)
}

/// Returns rows as text: divided into tables whose lines fit a terminal, each with the first column and as many others
/// as fit.
fn split_to_terminal_width(rows: &[Vec<String>]) -> String {
    let part_of = |columns: &[usize]| -> TableRows {
        let cells = |row: &Vec<String>| [0].iter().chain(columns).map(|&at| row[at].clone()).collect();
        rows.iter().map(cells).collect()
    };
    let width = |columns: &[usize]| aligned_text(&part_of(columns)).lines().map(str::len).max().unwrap_or(0);
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    for at in 1..rows[0].len() {
        let part = parts.last_mut().expect("there is one");
        part.push(at);
        if part.len() > 1 && width(part) > LINE_WIDTH_CHARS {
            part.pop();
            parts.push(vec![at]);
        }
    }
    parts.iter().map(|part| aligned_text(&part_of(part))).collect()
}

/// Returns the rows of the table of subsets: one row per subset of the mechanisms, one column per figure.
fn subset_rows(ablation: &Ablation) -> TableRows {
    let head = ["subset"].into_iter().chain(ABLATION_FIGURES.iter().map(|figure| figure.short_title));
    let row = |subset: &SubsetRun| {
        let cell = |column: &FigureColumn| {
            subset.run.as_ref().map_or_else(|| "-".to_owned(), |run| column.cell_text(run))
        };
        let cells = ABLATION_FIGURES.iter().map(|figure| cell(figure.figure_column()));
        std::iter::once(subset.name()).chain(cells).collect()
    };
    std::iter::once(head.map(str::to_owned).collect()).chain(ablation.subsets.iter().map(row)).collect()
}

/// Returns the rows of the table of gains: a block per figure, with a row per mechanism. A figure that no run has is a
/// row of dashes.
fn gain_rows(ablation: &Ablation) -> TableRows {
    let heads = ["alone", "last", "Shapley"].map(|head| text_of_change_and_share(head, "%"));
    let mut rows = vec![[vec![String::new()], heads.to_vec()].concat()];
    for figure in &ablation.figures {
        let is_known = figure.baseline.is_some() || figure.why_no_shapley.is_some();
        let blank = if is_known { String::new() } else { text_of_change_and_share("-", "-") };
        rows.push([vec![figure.title.clone()], vec![blank; 3]].concat());
        if !is_known {
            continue;
        }
        for gain in &figure.mechanisms {
            let changes =
                [gain.alone, gain.last, gain.shapley].map(|change| cell_with_change(figure, change));
            rows.push([vec![format!("  {}", gain.mechanism.name())], changes.to_vec()].concat());
        }
        let whole = cell_with_change(figure, figure.whole);
        rows.push(vec!["  all together".to_owned(), String::new(), String::new(), whole]);
    }
    rows
}

/// Returns the rows of the table of overlaps: one row per pair of mechanisms, one column per figure for which some pair
/// has an overlap.
fn overlap_rows(ablation: &Ablation) -> TableRows {
    let has_some = |gains: &FigureGains| gains.overlaps.iter().any(|pair| pair.overlap.is_some());
    let shown = || ABLATION_FIGURES.iter().zip(&ablation.figures).filter(|(_, gains)| has_some(gains));
    let head = shown().map(|(figure, _)| text_of_change_and_share(figure.short_title, "%"));
    let mut rows = vec![std::iter::once(String::new()).chain(head).collect()];
    for (pair, named) in ablation.figures[0].overlaps.iter().enumerate() {
        let cells = shown().map(|(_, gains)| cell_with_change(gains, gains.overlaps[pair].overlap));
        let name = format!("{}, {}", named.first.name(), named.second.name());
        rows.push(std::iter::once(name).chain(cells).collect());
    }
    rows
}

/// Returns a table cell with a figure's change, and this change as a share of the baseline.
fn text_of_change_and_share(figure: &str, share: &str) -> String {
    format!("{figure}  {share:>6}")
}

/// Returns a table cell with a change of a figure, in as many digits as its baseline has, and its share of the
/// baseline.
fn cell_with_change(gains: &FigureGains, change: Option<Change>) -> String {
    let Some(Change { absolute, relative, is_from_unsteady_run }) = change else {
        return text_of_change_and_share("-", "-");
    };
    let mark = if is_from_unsteady_run { NOT_STEADY_MARK } else { "" };
    let digits = figure_column(&gains.figure).decimal_places_of(gains.baseline.unwrap_or(1.0));
    let share = relative.map_or_else(|| "-".to_owned(), |share| signed_text(100.0 * share, 1));
    text_of_change_and_share(&(signed_text(absolute, digits) + mark), &share)
}

/// Returns `value` as text with `digits` decimals and a plus or minus sign; without a sign if it is rounded to zero.
fn signed_text(value: f64, digits: usize) -> String {
    let text = with_thousands_separators(value.abs(), digits);
    let is_zero = !text.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    match value {
        _ if is_zero => text,
        ..0.0 => format!("-{text}"),
        _ => format!("+{text}"),
    }
}

/// Returns sentences on the strongest overlaps of two mechanisms, measured in page programs.
fn overlap_sentences(programs: &FigureGains) -> String {
    let share = |pair: &Overlap| pair.overlap.and_then(|overlap| overlap.relative).unwrap_or(0.0);
    let mut pairs: Vec<&Overlap> =
        programs.overlaps.iter().filter(|pair| share(pair).abs() >= MIN_DESCRIBED_OVERLAP_SHARE).collect();
    pairs.sort_by(|one, other| share(other).abs().total_cmp(&share(one).abs()));
    if pairs.is_empty() && programs.overlaps.iter().all(|pair| pair.overlap.is_some()) {
        return format!(
            "no two overlap by {:.1} % of the baseline's page programs\n",
            100.0 * MIN_DESCRIBED_OVERLAP_SHARE
        );
    }
    pairs.iter().take(MAX_DESCRIBED_OVERLAPS).map(|pair| overlap_sentence(pair, share(pair))).collect()
}

/// Returns a sentence on the overlap of two mechanisms; `share` is the overlap as a share of the baseline's page
/// programs.
fn overlap_sentence(pair: &Overlap, share: f64) -> String {
    let (how, than) =
        if share > 0.0 { ("compete for the same writes", "fewer") } else { ("help each other", "more") };
    let pages = pair.overlap.map_or(0.0, |overlap| overlap.absolute.abs());
    format!(
        "{} and {} {how}: together they save {} page programs {than} than one by one, {:.1} % of the baseline\n",
        pair.first.name(),
        pair.second.name(),
        with_thousands_separators(pages, 0),
        100.0 * share.abs()
    )
}

/// Returns sentences on the subsets of the mechanisms without a complete run.
fn missing_subset_sentences(ablation: &Ablation) -> String {
    let mut text = String::new();
    for subset in &ablation.subsets {
        if let Some(sentence) = &subset.refused {
            writeln!(text, "refused: {}: {sentence}", subset.name()).expect("a string takes everything");
        }
    }
    let not_run = ablation.subsets.iter().filter(|subset| subset.run.is_none() && subset.refused.is_none());
    let (not_run, all) = (not_run.count(), ablation.subsets.len());
    if not_run > 0 {
        writeln!(text, "PARTIAL: {not_run} of {all} subsets were not run")
            .expect("a string takes everything");
    }
    text
}

/// Returns the notes on the ablation as a whole, one per line.
fn text_of_ablation_notes(ablation: &Ablation) -> String {
    let mut text = String::new();
    for note in &ablation.notes {
        writeln!(text, "note: {note}").expect("a string takes everything");
    }
    text
}

/// Returns sentences on why Shapley values are missing, each reason once.
fn sentences_on_missing_shapley_values(ablation: &Ablation) -> String {
    let mut text = String::new();
    let mut reasons: Vec<&str> =
        ablation.figures.iter().filter_map(|f| f.why_no_shapley.as_deref()).collect();
    reasons.dedup();
    for reason in reasons {
        let is_lacking = |figure: &&FigureGains| figure.why_no_shapley.as_deref() == Some(reason);
        let titles: Vec<&str> =
            ablation.figures.iter().filter(is_lacking).map(|figure| figure.title.as_str()).collect();
        let all = ablation.subsets.len();
        writeln!(text, "no Shapley values, which need all {all} subsets, of {}: {reason}", titles.join("; "))
            .expect("a string takes everything");
    }
    text
}

/// Returns the sentences that name the figures that are compared over another part of the runs than their steady parts:
/// over the whole runs because only some of them were steady, or over the part in which all were; empty if there is no
/// such figure.
fn sentences_on_compared_parts(ablation: &Ablation) -> String {
    let runs = || ablation.subsets.iter().filter_map(|subset| subset.run.as_ref()).filter(|run| !run.partial);
    let start_of = |figure: &FigureGains| figure_column(&figure.figure).compared_part_start_request(runs());
    let titles_of = |is_concerned: fn(u64) -> bool| {
        let figures = ablation.figures.iter().filter(|figure| start_of(figure).is_some_and(is_concerned));
        figures.map(|figure| figure.title.as_str()).collect::<Vec<_>>().join("; ")
    };
    let mut text = String::new();
    for (titles, part) in [
        (titles_of(|start| start == 0), "the whole runs, because only some runs were steady"),
        (titles_of(|start| start > 0), "the part in which all runs were steady"),
    ] {
        if !titles.is_empty() {
            writeln!(text, "changes and overlaps of {titles} are those of {part}")
                .expect("a string takes everything");
        }
    }
    text
}
