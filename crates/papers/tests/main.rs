//! Tests of the reproduction of papers, in one test program. Each file is a module;
//! `cargo test -p wearwell-papers FILE::` runs the tests of one file.

mod closed_forms;
mod reproduce;

/// A test file that is not declared in `main.rs` would not be compiled, and its tests would not run.
#[test]
fn every_test_file_is_compiled_into_the_test_program() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let program = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|&module| module != "main") else { continue };
        assert!(
            program.lines().any(|line| line == format!("mod {module};")),
            "{name} is not in tests/main.rs"
        );
    }
}

/// `Cargo.toml` switches the tests of the library off, so a test in its source folder would not run.
#[test]
fn the_source_folder_of_the_papers_crate_has_no_tests() {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(
                    !text.contains("#[test]"),
                    "{} has a test, which belongs into tests/",
                    path.display()
                );
            }
        }
    }
}
