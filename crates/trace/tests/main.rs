//! Tests of readers and writers of traces, in one program. Each file is a module; `cargo test -p wearwell-trace
//! FILE::` runs one.

mod counts;
mod fixtures;
mod formats;
mod native;
mod robust;
mod samples;

/// A test file that is not declared as a module in `main.rs` would not be compiled, and its tests would not run.
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
