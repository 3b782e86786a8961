//! Digests the sources, so that a record of results can name the code that made it.
//!
//! Comments that fill a line, blank lines and indentation do not count: they change no result. Paths do not count either, so
//! that a checkout and a packaged crate have the same digest. The same script stands in `crates/replay`, because a packaged
//! crate has no neighbours; a test compares the two.

use std::fs;
use std::path::{Path, PathBuf};

/// Sources that make no figure of a record: pages, folders of finished results, what is worked out of several records, verdicts,
/// closed forms, and the catalogues, whose experiments are digested as they are defined.
const MAKES_NO_FIGURE: [&str; 4] = ["src/report.rs", "src/kept.rs", "src/ablate", "src/reproduce"];
/// Of these the ones that do.
const MAKES_FIGURES: [&str; 2] = ["src/reproduce/experiment.rs", "src/reproduce/statistics.rs"];

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    files.sort();
    let digest = files.iter().filter(|path| counts(path)).fold(FNV_OFFSET, |digest, path| {
        digested(digest, &fs::read_to_string(path).expect("sources are UTF-8"))
    });
    println!("cargo::rustc-env=CODE_DIGEST={digest:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the crate has sources") {
        let path = entry.expect("a folder can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

fn counts(path: &Path) -> bool {
    let is_below = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    !is_below(&MAKES_NO_FIGURE) || is_below(&MAKES_FIGURES)
}

/// Adds the code of a file to a digest.
pub fn digested(digest: u64, text: &str) -> u64 {
    text.lines().map(str::trim).filter(|line| is_code(line)).fold(digest, fnv)
}

/// Whether a trimmed line is more than a comment.
fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of a line and its end: small, and the same on every machine.
fn fnv(digest: u64, line: &str) -> u64 {
    line.bytes()
        .chain([b'\n'])
        .fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}
