//! The HTML page of `wearwell profile`.

use super::HtmlReport;
use super::markup::{charts_element, html_element, html_heading, html_notes_list, html_table};
use super::runs::{NOTES_TITLE, html_page_title};
use crate::profile::{Profile, Profiles};
use crate::report::with_thousands_separators;

impl HtmlReport for Profiles {
    fn result_kind(&self) -> &'static str {
        "profile"
    }

    fn title(&self) -> String {
        html_page_title("Profile", self.profiles.iter().map(|profile| profile.input.clone()))
    }

    fn body_html(&self) -> String {
        self.profiles.iter().enumerate().map(|(number, profile)| profile_html(number, profile)).collect()
    }
}

/// Returns the section of one profile as HTML; `number` is its position in the embedded record.
fn profile_html(number: usize, profile: &Profile) -> String {
    let head = ["figure", "value"].map(str::to_owned).to_vec();
    let figures = profile.figure_rows().into_iter().map(|(name, value)| vec![name, value]);
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(figures).collect();
    let partial = profile.partial.then_some("PARTIAL: not seen to its end");
    let lines = [("--content", &profile.content_line), ("--workload", &profile.workload_line)];
    let lines: Vec<String> = lines
        .into_iter()
        .filter_map(|(flag, line)| line.as_ref().map(|line| format!("{flag} '{line}'")))
        .collect();
    html_heading(&profile.input)
        + &html_table("answer", &savings_caption(profile), &profile.savings_rows())
        + &html_table("", "docs/profile.md defines each figure", &rows)
        + &html_notes_list(NOTES_TITLE, partial.into_iter().chain(profile.notes.iter().map(String::as_str)))
        + &html_element("pre", "", &lines.join("\n"))
        + &charts_element(number)
}

/// Returns the caption of a profile's table of savings by content mechanisms. The caption states the total of which the
/// table's values are shares.
fn savings_caption(profile: &Profile) -> String {
    let unit = "Shares of the host's page writes that need no program; each mechanism by itself";
    match &profile.runs {
        None => format!("{unit}, at most"),
        Some(runs) => format!(
            "{unit}. Programs and erases: shares of the {} programs and {} erases of the same drive without mechanisms",
            with_thousands_separators(runs.programs as f64, 0),
            with_thousands_separators(runs.erases as f64, 0)
        ),
    }
}
