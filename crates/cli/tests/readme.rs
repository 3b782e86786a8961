//! The README shows what the command prints.

use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../README.md");

#[test]
fn the_table_is_what_the_first_command_prints() {
    let arguments = README.lines().find_map(|line| line.strip_prefix("cargo wearwell "));
    let arguments =
        arguments.and_then(|line| line.split('#').next()).expect("the README has a first command");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two levels down");
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
