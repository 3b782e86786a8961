//! Tests of the command line, compiled into one program, so that the engine is compiled and optimised only once for all
//! of them. Each file is a module; `cargo test -p wearwell-cli FILE::` runs the tests of one.

mod ablate;
mod cli;
#[path = "../../serve/tests/common/client.rs"]
#[allow(dead_code, reason = "a part of the client is used")]
mod client;
mod compiled_once;
mod help;
mod inputs;
mod licences;
mod live_kill;
mod names;
mod parquet_file;
mod perfetto;
mod profile;
mod readme;
mod report;
mod repository;
mod schema;
mod serve;
mod serve_exports;
mod serve_image;
mod serve_log;
mod serve_systemd;
#[cfg(feature = "tls")]
mod serve_tls;
mod sweep;
#[path = "../../serve/tests/versions/mod.rs"]
#[allow(dead_code, reason = "a part of the oracle is used")]
mod versions;
mod watch;

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
