//! The summary of all papers: the claims of each abstract, our result for each, and why it differs.
//!
//! The claims are stored with the results that the papers report. Numbers and verdicts come from the records of
//! experiments, so the summary cannot state what no record contains. For each reason of a difference, the summary
//! states whether an experiment without the suspected cause confirmed it. The summary is one block of a document,
//! between two marks; a test compares it with the records.

use super::differing_rows::explains_a_differing_row;
use super::markdown::{format_number, markdown_table, values_text};
use super::result_counts::ResultCounts;
use super::results::{PaperResults, ReproducedResult};
use super::target::{
    ClaimOfAbstract, DifferenceReason, Paper, PaperStatement, ReasonSupport, ReportedResult, ReportedResults,
    matches_pattern,
};
use super::verdict::NamedValue;

/// One line of the summary: a claim of the paper's abstract, with Wearwell's result.
#[derive(Clone, PartialEq, Debug)]
pub struct SummaryLine {
    /// Text of the claim in the paper's abstract.
    pub claim: String,
    /// The reported figure of the claim, in words.
    pub reported_figure: String,
    /// Wearwell's values for the claim, in words.
    pub wearwell_values: String,
    /// The verdict about Wearwell's values for the claim, in words.
    pub verdict: String,
    /// Reason why Wearwell's values differ from the claim, and whether an experiment tested this reason; empty if the
    /// values do not differ.
    pub reason: String,
}

/// Returns the claims of the paper's abstract, each with Wearwell's result.
pub fn lines_on_claims_of_abstract(targets: &ReportedResults, results: &PaperResults) -> Vec<SummaryLine> {
    let line = |headline: &ClaimOfAbstract| {
        let target = targets.reported_result_with_id(&headline.row)?;
        let row = results.rows.iter().find(|row| row.id == headline.row)?;
        Some(summary_line(targets, results, headline, target, row))
    };
    targets.headlines.iter().filter_map(line).collect()
}

/// Returns the line of the summary about a claim of the abstract, which the row `target` (a reported result) measures.
fn summary_line(
    targets: &ReportedResults,
    results: &PaperResults,
    headline: &ClaimOfAbstract,
    target: &ReportedResult,
    row: &ReproducedResult,
) -> SummaryLine {
    let (target, row) = (
        reported_result_of_claim(target, headline),
        ReproducedResult { ours: values_on_claim_of_abstract(target, headline, row), ..row.clone() },
    );
    let verdict = row.judge(&target);
    let why =
        if verdict.outcome.differs() { difference_reason(targets, results, headline) } else { String::new() };
    let reported = if headline.reported.is_empty() { &target.reported } else { &headline.reported };
    SummaryLine {
        claim: headline.claim.clone(),
        reported_figure: reported.clone(),
        wearwell_values: if row.ours.is_empty() { "-".to_owned() } else { values_text(&target, &row.ours) },
        verdict: format!("{verdict} ({})", headline.row),
        reason: why,
    }
}

/// Returns a copy of the reported result with only those reported values that a claim of the paper's abstract is about.
fn reported_result_of_claim(target: &ReportedResult, headline: &ClaimOfAbstract) -> ReportedResult {
    let mut target = target.clone();
    target.values.retain(|reported| headline.of.is_empty() || headline.of.contains(&reported.of));
    target
}

/// Returns those of Wearwell's values that a claim of the paper's abstract is about: the values that the claim names
/// or, if it names none, all values that are compared with the reported result. Values that are only shown with the
/// claim are added.
fn values_on_claim_of_abstract(
    target: &ReportedResult,
    headline: &ClaimOfAbstract,
    row: &ReproducedResult,
) -> Vec<NamedValue> {
    let is_wanted = |value: &&NamedValue| {
        let is_judged = target.values.iter().any(|reported| reported.of == value.of);
        let is_of_claim = if headline.of.is_empty() { is_judged } else { headline.of.contains(&value.of) };
        is_of_claim || headline.beside.contains(&value.of)
    };
    row.ours.iter().filter(is_wanted).cloned().collect()
}

/// Returns one sentence about why Wearwell's result differs from a claim of the abstract, and which experiments tested
/// this reason.
fn difference_reason(
    targets: &ReportedResults,
    results: &PaperResults,
    headline: &ClaimOfAbstract,
) -> String {
    let of_row = targets.differences.iter().find(|difference| difference.rows.contains(&headline.row));
    let sentence = match (headline.why.as_str(), of_row) {
        ("", None) => return "No reason is known.".to_owned(),
        ("", Some(difference)) => first_sentence(&difference.why),
        (why, _) => capitalise(why),
    };
    let tested = of_row
        .map_or_else(|| UNTESTED_MARK.to_owned(), |difference| support_text_for_reason(difference, results));
    format!("{sentence} {tested}")
}

/// Returns the first sentence of the text with a capital letter: the text up to the first full stop that a blank
/// follows.
fn first_sentence(text: &str) -> String {
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    capitalise(&text[..end])
}

/// Returns the text with its first letter as a capital.
fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Mark of a reason that neither an experiment nor a contradiction in the paper supports.
const UNTESTED_MARK: &str = "**Untested.**";

/// Returns a text on what supports the reason for a difference from the paper: experiments and their figures, or the
/// statements of the paper that contradict each other.
pub fn support_text_for_reason(difference: &DifferenceReason, results: &PaperResults) -> String {
    match difference.support_for_reason() {
        ReasonSupport::Confirmed => sentence_on_tests_of_reason(difference, results),
        ReasonSupport::DifferenceRemains => {
            let tests = sentence_on_tests_of_reason(difference, results);
            format!("{tests} **A difference remains:** {}.", difference.remains)
        }
        ReasonSupport::Contradiction => {
            let place = |statement: &PaperStatement| format!("{}: {}", statement.place, statement.says);
            let places: Vec<String> = difference.contradiction.iter().map(place).collect();
            format!("Contradiction within the paper: {}.", places.join("; "))
        }
        ReasonSupport::NoReportedFigure => "Nothing to compare in size.".to_owned(),
        ReasonSupport::Untested => UNTESTED_MARK.to_owned(),
    }
}

/// Returns a sentence that names the experiments that tested the reason for a difference from the paper, with their
/// figures.
fn sentence_on_tests_of_reason(difference: &DifferenceReason, results: &PaperResults) -> String {
    let one = |name: &String| {
        let Some(record) = results.experiments.iter().find(|record| matches_pattern(name, &record.name))
        else {
            return format!("`{name}` (not run at this size)");
        };
        let figure = |figure: &String| {
            let value = record.figures.get(figure).copied().unwrap_or(0.0);
            format!("`{figure}` {}", format_number(value))
        };
        let figures: Vec<String> = difference.figures.iter().map(figure).collect();
        if figures.is_empty() { format!("`{name}`") } else { format!("`{name}`: {}", figures.join(", ")) }
    };
    format!("Tested by {}.", difference.tested_by.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// Returns a sentence that counts the reasons for differences from the paper: those that an experiment confirmed, those
/// that were tested while a difference remains, and those that were not tested.
pub fn sentence_on_tested_reasons(targets: &ReportedResults, results: &PaperResults) -> String {
    let used = targets
        .differences
        .iter()
        .filter(|difference| explains_a_differing_row(targets, results, difference));
    let standings: Vec<ReasonSupport> = used.map(DifferenceReason::support_for_reason).collect();
    if standings.is_empty() {
        return String::new();
    }
    let count = |standing: ReasonSupport| standings.iter().filter(|&&other| other == standing).count();
    let contradictions = match count(ReasonSupport::Contradiction) {
        0 => String::new(),
        1 => " 1 a contradiction within the paper,".to_owned(),
        count => format!(" {count} contradictions within the paper,"),
    };
    let no_figure = match count(ReasonSupport::NoReportedFigure) {
        0 => String::new(),
        count => format!(" {count} where the paper gives no figure to compare,"),
    };
    format!(
        "Reasons for rows that differ: {} confirmed by an experiment without the cause, {} tested so while a difference \
         remains,{contradictions}{no_figure} {} untested.",
        count(ReasonSupport::Confirmed),
        count(ReasonSupport::DifferenceRemains),
        count(ReasonSupport::Untested)
    )
}

/// First line of the generated summary in a document.
const SUMMARY_BEGIN_LINE: &str =
    "<!-- summary: generated by `wearwell reproduce all --render --summary` -->\n";
/// Last line of the generated summary in a document.
const SUMMARY_END_LINE: &str = "<!-- end of summary -->\n";

/// A paper, its scaled-down results, and its full-size results if they exist.
pub type PaperQuickAndFullResults = (Paper, PaperResults, Option<PaperResults>);

/// Returns the document with its block of summary tables generated anew.
///
/// # Errors
/// The document has no such block.
pub fn update_summary_in_document(
    document: &str,
    results_of_papers: &[PaperQuickAndFullResults],
) -> Result<String, String> {
    let missing = |line: &str| {
        let (begin, end) = (SUMMARY_BEGIN_LINE.trim_end(), SUMMARY_END_LINE.trim_end());
        format!(
            "the file has no line `{}`: the summary is written between the lines `{begin}` and `{end}`, so add them in \
             this order",
            line.trim_end()
        )
    };
    let (before, rest) =
        document.split_once(SUMMARY_BEGIN_LINE).ok_or_else(|| missing(SUMMARY_BEGIN_LINE))?;
    let (_, after) = rest.split_once(SUMMARY_END_LINE).ok_or_else(|| missing(SUMMARY_END_LINE))?;
    Ok([before, SUMMARY_BEGIN_LINE, &summary_block(results_of_papers), SUMMARY_END_LINE, after].concat())
}

/// Returns the summary of all papers: for each, the counts of its rows and the table of the abstract's claims.
fn summary_block(results_of_papers: &[PaperQuickAndFullResults]) -> String {
    let paper = |(paper, quick, full): &PaperQuickAndFullResults| {
        let targets = paper.targets();
        let mut parts = vec![format!("\n### {} (`{paper}`)\n\n", targets.paper.title)];
        parts.push(result_counts_line("Quick", &format!("../papers/{paper}/RESULTS.md"), &targets, quick));
        if let Some(full) = full {
            parts.push(result_counts_line(
                "Full",
                &format!("../papers/full/{paper}/RESULTS.md"),
                &targets,
                full,
            ));
        }
        parts.push("\n".to_owned());
        parts.push(claims_table(&targets, quick, full.as_ref()));
        parts.concat()
    };
    let papers: Vec<String> = results_of_papers.iter().map(paper).collect();
    format!("{}\n", papers.concat())
}

/// Returns the line of the summary that counts the rows of one paper; `page` is the link to its page of results.
fn result_counts_line(size: &str, page: &str, targets: &ReportedResults, results: &PaperResults) -> String {
    let tally = ResultCounts::of_results(targets, results);
    let reasons = sentence_on_tested_reasons(targets, results);
    format!(
        "- [{size}]({page}): {} rows. {} {reasons}\n",
        tally.total_rows,
        tally.result_count_sentences().join(" ")
    )
}

/// Returns the table of the abstract's claims with Wearwell's results. The reason of a difference is taken from the
/// full-size results if they exist.
fn claims_table(targets: &ReportedResults, quick: &PaperResults, full: Option<&PaperResults>) -> String {
    let of_quick = lines_on_claims_of_abstract(targets, quick);
    let of_full = full.map(|full| lines_on_claims_of_abstract(targets, full)).unwrap_or_default();
    let row = |(k, quick): (usize, &SummaryLine)| {
        let full = of_full.get(k);
        let of = |line: Option<&SummaryLine>| {
            line.map_or_else(
                || "not run".to_owned(),
                |line| format!("{}: {}", line.wearwell_values, line.verdict),
            )
        };
        let why = full.map_or(&quick.reason, |full| &full.reason);
        [quick.claim.clone(), quick.reported_figure.clone(), of(Some(quick)), of(full), why.clone()]
    };
    let rows: Vec<[String; 5]> = of_quick.iter().enumerate().map(row).collect();
    markdown_table(&["claim of the abstract", "reported", "ours, quick", "ours, full", "why"], &rows)
}
