//! Figures of the papers that can be drawn again: reported and ours side by side.

use super::results::Results;
use super::target::Targets;

/// A drawn figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name without ending.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// The drawing.
    pub svg: String,
}

impl Figure {
    /// Name of the file.
    pub fn file_name(&self) -> String {
        format!("{}.svg", self.name)
    }
}

/// All figures that these results suffice for.
pub fn draw(_targets: &Targets, _results: &Results) -> Vec<Figure> {
    Vec::new()
}
