//! The HTML page of `wearwell watch`.

use wearwell_replay::html_report::HtmlReport;
use wearwell_replay::html_report::markup::{
    charts_element, collapsible_html, escape_html, html_element, html_heading, html_notes_list,
};

use crate::record::{Walkthrough, WalkthroughStep, WatchedDriveLayout};

impl HtmlReport for Walkthrough {
    fn result_kind(&self) -> &'static str {
        "walkthrough"
    }

    fn title(&self) -> String {
        format!("{}, step by step", self.design)
    }

    fn body_html(&self) -> String {
        html_heading(&self.input)
            + &html_element("p", "facts", &drive_facts(&self.source, &self.drive))
            + &charts_element(0)
            + &html_notes_list("What to know about this drive", self.notes.iter().map(String::as_str))
            + &collapsible_html("All steps as text", &steps_html(&self.steps))
    }
}

/// Returns the sentence that describes the watched drive and the source of its requests.
fn drive_facts(source: &str, drive: &WatchedDriveLayout) -> String {
    format!(
        "A drive of {} flash pages in {} blocks; the host sees {} logical pages. Victim policy: {}. The design: {source}.",
        drive.blocks * drive.block_pages,
        drive.blocks,
        drive.logical_pages,
        drive.policy
    )
}

/// Returns the HTML list of all steps with their sentences, for reading without scripts and on paper.
fn steps_html(steps: &[WalkthroughStep]) -> String {
    let sentence = |sentence: &String| format!(" {}", escape_html(sentence));
    let item = |step: &WalkthroughStep| {
        let sentences: String = step.sentences.iter().map(sentence).collect();
        format!("<li><strong>{}.</strong>{sentences}</li>\n", escape_html(&step.title))
    };
    let items: String = steps.iter().map(item).collect();
    format!("<ol class=\"steps\" start=\"0\">\n{items}</ol>\n")
}
