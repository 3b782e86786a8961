//! The HTML page of `wearwell profile`.

use super::Report;
use super::markup::{charts_of, element, heading, notes, table};
use super::runs::{FOUNDATIONS, titled};
use crate::profile::{Profile, Profiles};
use crate::report::grouped;

impl Report for Profiles {
    const KIND: &'static str = "profile";

    fn title(&self) -> String {
        titled("Profile", self.profiles.iter().map(|profile| profile.input.clone()))
    }

    fn sections(&self) -> String {
        self.profiles.iter().enumerate().map(|(number, profile)| section(number, profile)).collect()
    }
}

fn section(number: usize, profile: &Profile) -> String {
    let head = ["figure", "value"].map(str::to_owned).to_vec();
    let figures = profile.rows().into_iter().map(|(name, value)| vec![name, value]);
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(figures).collect();
    let partial = profile.partial.then_some("PARTIAL: not seen to its end");
    let lines = [("--content", &profile.content_line), ("--workload", &profile.workload_line)];
    let lines: Vec<String> = lines
        .into_iter()
        .filter_map(|(flag, line)| line.as_ref().map(|line| format!("{flag} '{line}'")))
        .collect();
    heading(&profile.input)
        + &table("answer", &savings_caption(profile), &profile.savings_rows())
        + &table("", "docs/profile.md defines each figure", &rows)
        + &notes(FOUNDATIONS, partial.into_iter().chain(profile.notes.iter().map(String::as_str)))
        + &element("pre", "", &lines.join("\n"))
        + &charts_of(number)
}

/// Returns what the table of savings shows.
fn savings_caption(profile: &Profile) -> String {
    let unit = "Shares of the host's page writes that need no program; each mechanism by itself";
    match &profile.runs {
        None => format!("{unit}, at most"),
        Some(runs) => format!(
            "{unit}. Programs and erases: shares of the {} programs and {} erases of the same drive without mechanisms",
            grouped(runs.programs as f64, 0),
            grouped(runs.erases as f64, 0)
        ),
    }
}
