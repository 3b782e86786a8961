//! Tests of the configuration, in one program. Each file is a module; `cargo test -p wearwell-config FILE::` runs one.

mod config;
mod configuration_advice;
mod docs;
mod ignored_settings;

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
