//! Tests of the replay driver, built as one program so that the engine is compiled and optimised once for all of them.
//! Each file is a module; `cargo test -p wearwell-replay FILE::` runs the tests of one.

mod ablate;
mod common;
mod composition;
mod defaults;
mod delta;
mod docs;
mod host_models;
mod life;
mod lifetime;
mod log_scans;
mod models;
mod page;
mod perfetto;
mod precondition;
mod profile;
mod real_traces;
mod recovery;
mod replay;
mod simulated_theory;
mod theory;
mod timeline;
mod workload;

/// A test file without a `mod` line in this file would not be compiled, and its tests would not run.
#[test]
fn every_test_file_is_a_module_of_the_test_binary() {
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
