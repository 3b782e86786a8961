//! Tests of the README: its commands run, its table is what the command prints, and the files that it and other
//! documents name exist.

use std::path::Path;
use std::process::Command;

use crate::repository;

/// Text of the README.
const README: &str = include_str!("../../../README.md");

#[test]
fn the_table_of_the_readme_is_what_its_first_command_prints() {
    let arguments = README.lines().find_map(|line| line.strip_prefix("cargo wearwell "));
    let arguments =
        arguments.and_then(|line| line.split('#').next()).expect("the README has a first command");
    let root = repository::root();
    let output = Command::new(env!("CARGO_BIN_EXE_wearwell"))
        .args(arguments.split_whitespace())
        .current_dir(root)
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("the table is text");
    let shown = README.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a table");
    // CPU time is the machine's; and it may change the width of no column.
    let without_time = |text: &str| -> Vec<String> {
        text.trim_end().lines().filter(|line| !line.contains("CPU s")).map(str::to_owned).collect()
    };
    assert_eq!(
        without_time(shown),
        without_time(&printed),
        "\nthe README's table is out of date; the command prints\n\n{printed}"
    );
}

/// Returns the README's commands, one per line, without comments.
fn readme_commands() -> Vec<String> {
    let blocks = README.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text: String = blocks.collect::<String>().replace("\\\n", " ");
    let command = |line: &str| line.split('#').next().expect("a line has a start").trim().to_owned();
    text.lines().map(command).filter(|line| !line.is_empty()).collect()
}

/// A new user types the commands one after the other. Not run here are commands that install, that run from Python
/// (`test_results.py` runs these), that serve until ended (`examples/live/day.sh`), and that reproduce a paper, which
/// takes minutes.
#[test]
fn every_command_of_the_readme_runs() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let root = repository::root();
    std::os::unix::fs::symlink(root.join("traces"), folder.path().join("traces")).expect("traces are there");
    let mut run = 0;
    for command in readme_commands() {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let is_run =
            matches!(arguments[..], ["wearwell", "compare" | "trace" | "profile" | "life" | "watch", ..]);
        let is_known = matches!(
            arguments[..],
            ["cargo", "install", ..]
                | ["cargo", "wearwell", "compare", _]
                | ["pip", "install", ".", "&&", "python", "examples/first_run.py"]
                | ["./check"]
        ) || matches!(arguments[..], ["wearwell", "reproduce" | "create" | "serve", ..]);
        assert!(is_run || is_known, "`{command}` is neither run here nor known");
        if is_run {
            let output = Command::new(env!("CARGO_BIN_EXE_wearwell"))
                .args(&arguments[1..])
                .current_dir(folder.path())
                .output()
                .expect("the command runs");
            assert!(output.status.success(), "`{command}`: {}", String::from_utf8_lossy(&output.stderr));
            assert!(!output.stdout.is_empty(), "`{command}` prints something");
            run += 1;
        }
    }
    assert_eq!(run, 7, "commands of the README that were run");
}

/// Adds the paths of all files of the checkout below a folder, relative to the root. Files made by a build or by git
/// are left out.
fn files_below(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).expect("a folder can be listed") {
        let name = folder.join(entry.expect("an entry can be read").file_name());
        let is_made = name == Path::new("target") || name == Path::new(".git");
        if root.join(&name).is_dir() && !is_made {
            files_below(root, &name, found);
        } else {
            found.push(name.to_str().expect("names are UTF-8").to_owned());
        }
    }
}

/// Returns the texts between backticks that look like files of the project.
fn file_names_in_backticks(document: &str) -> Vec<&str> {
    let is_path = |name: &&str| {
        let end = name.rsplit_once('.').map_or("", |(_, end)| end);
        let is_file = ["rs", "py", "md", "sh", "toml", "js"].contains(&end);
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        is_plain && (is_file || name.ends_with('/') && name.starts_with("crates/"))
    };
    document.split('`').skip(1).step_by(2).filter(is_path).collect()
}

/// Every file that a document names between backticks must exist.
#[test]
fn every_file_that_the_documents_name_exists() {
    let root = repository::root();
    let mut files = Vec::new();
    files_below(root, Path::new(""), &mut files);
    let is_document = |file: &&String| {
        let path = Path::new(file.as_str());
        let is_top = !file.contains('/') || path.parent() == Some(Path::new("docs"));
        is_top && path.extension().is_some_and(|ending| ending == "md")
    };
    let mut looked_up = 0;
    for document in files.iter().filter(is_document) {
        let text = std::fs::read_to_string(root.join(document)).expect("a document is text");
        for name in file_names_in_backticks(&text).into_iter().filter(|name| !name.contains("PAPER")) {
            let is_there = files
                .iter()
                .any(|file| file == name || file.starts_with(name) || file.ends_with(&format!("/{name}")));
            // Files that a user of the tool would write have no folder, and other names than ours.
            let is_users = !name.contains('/') && document != "ARCHITECTURE.md";
            assert!(is_there || is_users, "{document} names {name}, which is not there");
            looked_up += 1;
        }
    }
    assert!(looked_up > 150, "only {looked_up} names: documents are read wrongly");
}
