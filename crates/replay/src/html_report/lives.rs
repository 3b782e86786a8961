//! The HTML page of `wearwell life`.

use super::HtmlReport;
use super::markup::{charts_element_of_runs, html_element, html_heading, html_notes_list, html_table};
use super::runs::{NOTES_TITLE, distinct_values, html_page_title, join_up_to_three};
use crate::life::{Lives, LivesTable, to_lives_table};

impl HtmlReport for Lives {
    fn result_kind(&self) -> &'static str {
        "lives"
    }

    fn title(&self) -> String {
        let designs = distinct_values(self.drives.iter().map(|drive| drive.design.clone()));
        let life = format!("Life of {}", join_up_to_three(&designs, "designs"));
        html_page_title(&life, self.drives.iter().map(|drive| drive.input.clone()))
    }

    fn body_html(&self) -> String {
        let Some(LivesTable { preamble, rows, notes: sentences }) = to_lives_table(&self.drives) else {
            return String::new();
        };
        let inputs = distinct_values(self.drives.iter().map(|drive| drive.input.clone()));
        html_heading(&join_up_to_three(&inputs, "inputs"))
            + &html_table("answer", "Means over the seeds; docs/life.md defines each figure", &rows)
            + &html_element("p", "facts", preamble.trim_end())
            + &html_notes_list(NOTES_TITLE, sentences.lines())
            + &charts_element_of_runs(0..self.drives.len())
    }
}
