//! Build script: exports a digest of the source code that determines the figures (results) of runs, for use in the
//! crate.

/// Sources that do not determine the figures of a run: HTML reports, folders of finished results, and ablations, which
/// are computed from finished runs.
const SOURCES_WITHOUT_EFFECT_ON_FIGURES: [&str; 3] = ["src/report.rs", "src/result_folder.rs", "src/ablate"];

/// Passes a digest of the crate's sources, except [`SOURCES_WITHOUT_EFFECT_ON_FIGURES`], to the compiler as an
/// environment variable.
fn main() {
    wearwell_digest::export_source_digest(|path| {
        !SOURCES_WITHOUT_EFFECT_ON_FIGURES.iter().any(|place| path.starts_with(place))
    });
}
