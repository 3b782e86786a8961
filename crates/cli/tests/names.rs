//! Tests that names in comments and documents exist, so that no mention of a renamed function, field, setting or file
//! keeps the old name.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::repository;

/// Names that comments and documents mention although Wearwell does not define them: of other programs, protocols, file
/// formats and formulas.
const NAMES_DEFINED_ELSEWHERE: [&str; 9] =
    ["close_notify", "db_bench_sqlite3", "e_c", "e_d", "mmap_size", "S_i", "sqlite3_", "NBD_", "Time_Unit"];

/// Adds the files of the project below `folder` that have one of these endings to `found`.
fn collect_files_with_endings(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            let is_made =
                name.starts_with('.') || ["target", "node_modules", "__pycache__"].contains(&&*name);
            if !is_made {
                collect_files_with_endings(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Returns the path and contents of each file of the project that has one of these endings.
fn read_files_with_endings(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    collect_files_with_endings(repository::root(), endings, &mut files);
    files
        .into_iter()
        .map(|path| (path.clone(), std::fs::read_to_string(&path).expect("it is text")))
        .collect()
}

/// Returns whether a character can be part of a name: a letter or digit of ASCII, or an underscore.
fn is_word_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Returns the words of a text that can be names in code.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character| !is_word_character(character)).filter(|word| !word.is_empty())
}

/// Returns the texts in backquotes on a line that can only be names of code: words joined by `::` or dots, with an
/// underscore or a `::` in them.
fn names_in_backquotes(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2).map(|text| text.trim_end_matches("()"));
    quoted.filter(|text| {
        let is_path = !text.is_empty() && text.chars().all(|c| is_word_character(c) || c == ':' || c == '.');
        is_path && (text.contains('_') || text.contains("::"))
    })
}

/// Returns whether a name is in the list of names that Wearwell does not define; an entry that ends in an underscore
/// covers every name that begins with it.
fn is_defined_outside_project(name: &str) -> bool {
    NAMES_DEFINED_ELSEWHERE
        .iter()
        .any(|&other| name == other || other.ends_with('_') && name.starts_with(other))
}

#[test]
fn names_in_comments_and_documents_exist() {
    let mut known: HashSet<String> = HashSet::new();
    let mut mentions: Vec<(PathBuf, String)> = Vec::new();
    for (path, text) in read_files_with_endings(&[".rs"]) {
        for line in text.lines() {
            if line.trim_start().starts_with("//") {
                mentions.push((path.clone(), line.to_owned()));
            } else {
                known.extend(words(line).map(str::to_owned));
            }
        }
    }
    let others = [".py", ".pyi", ".sh", ".toml", ".json", "check", "justfile"];
    for (path, text) in read_files_with_endings(&others) {
        known.extend(words(&text).map(str::to_owned));
        known.extend(words(&path.to_string_lossy()).map(str::to_owned));
    }
    for (path, text) in read_files_with_endings(&[".md"]) {
        // The changelog tells of names that are gone.
        if !path.ends_with("CHANGELOG.md") {
            mentions.extend(text.lines().map(|line| (path.clone(), line.to_owned())));
        }
    }
    let mut gone = Vec::new();
    let mut seen = 0;
    for (path, line) in &mentions {
        for name in names_in_backquotes(line).filter(|name| !is_defined_outside_project(name)) {
            seen += 1;
            // Counters of the server have this prefix, and the ending that Prometheus wants.
            let counter = name.strip_prefix("wearwell_").unwrap_or(name).trim_end_matches("_total");
            if [name, counter].iter().all(|name| words(name).any(|word| !known.contains(word))) {
                gone.push(format!(
                    "{}: `{name}`",
                    path.strip_prefix(repository::root()).unwrap_or(path).display()
                ));
            }
        }
    }
    assert!(seen > 1500, "only {seen} names were found");
    assert!(gone.is_empty(), "names that no code, setting or file has:\n{}", gone.join("\n"));
}
