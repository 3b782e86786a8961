//! Gives the crate the digest of the code that makes figures.

/// Sources that make no figure of a record: pages, folders of finished results, and what is worked out of several
/// records.
const MAKES_NO_FIGURE: [&str; 3] = ["src/report.rs", "src/result_folder.rs", "src/ablate"];

fn main() {
    wearwell_digest::export_source_digest(|path| {
        !MAKES_NO_FIGURE.iter().any(|place| path.starts_with(place))
    });
}
