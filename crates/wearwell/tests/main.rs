//! Tests of the crate in one program, so that the engine is compiled and optimised once for all of them. Each file is a
//! module; `cargo test -p wearwell FILE::` runs the tests of one file.

mod backward_cases;
mod chunk_cases;
mod common;
mod composition;
mod damage;
mod damage_cuts;
mod delta_cases;
mod descriptor_recovery;
mod equivalence;
mod exhaustive;
mod faults;
mod flash_view;
mod gc_user_policy;
mod gecko;
mod golden;
mod head_tail_cases;
mod layers;
mod lifetime;
mod metadata_recovery;
mod metadata_striping;
mod nand_contract;
mod notes_cases;
mod oracle;
mod power_cut;
mod recycle_cases;
mod recycle_parts;
mod regression;
mod remap;
mod remap_atomic_cases;
mod remap_cases;
mod remap_recovery_cases;
mod reverse_map;
mod silent_cases;
mod switching;
mod table_limit;
mod timing;
mod validity_stores;
mod wear;

/// A test file that is not declared as a module in `main.rs` would not be compiled, and its tests would not run.
#[test]
fn every_test_file_is_declared_as_a_module_of_the_test_program() {
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
