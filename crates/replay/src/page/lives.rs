//! The HTML page of `wearwell life`.

use super::Report;
use super::markup::{charts_of_runs, element, heading, notes, table};
use super::runs::{FOUNDATIONS, distinct, listed, titled};
use crate::life::{Lives, Shown, shown};

impl Report for Lives {
    const KIND: &'static str = "lives";

    fn title(&self) -> String {
        let designs = distinct(self.drives.iter().map(|drive| drive.design.clone()));
        let life = format!("Life of {}", listed(&designs, "designs"));
        titled(&life, self.drives.iter().map(|drive| drive.input.clone()))
    }

    fn sections(&self) -> String {
        let Some(Shown { preamble, rows, notes: sentences }) = shown(&self.drives) else {
            return String::new();
        };
        let inputs = distinct(self.drives.iter().map(|drive| drive.input.clone()));
        heading(&listed(&inputs, "inputs"))
            + &table("answer", "Means over the seeds; docs/life.md defines each figure", &rows)
            + &element("p", "facts", preamble.trim_end())
            + &notes(FOUNDATIONS, sentences.lines())
            + &charts_of_runs(0..self.drives.len())
    }
}
