//! Tests of the extension of `SQLite`, in one program: the engine is compiled and optimised for all of them once. Each
//! file is a module; `cargo test -p wearwell-sqlite FILE::` runs one.

mod common;
mod database;
mod kill;
mod layout;
mod loadable;
mod refusal;

/// A test file that is not declared as a module above would not be compiled, and its tests would not run.
#[test]
fn every_test_file_is_listed_as_a_module() {
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
