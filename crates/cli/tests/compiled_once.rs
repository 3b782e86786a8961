//! Tests that `check` compiles the engine once for the tests and for the Python package.
//!
//! Cargo compiles a crate again for each set of features with which it, or a crate below it, is used. The module of
//! Python is built alone, so its feature `as-tests` selects the features that the other crates of the workspace select.

use std::collections::BTreeSet;

use crate::repository;

/// Returns the packages that cargo compiles for these arguments, each with its features: `name version|feature,feature`.
fn packages_with_features(arguments: &[&str]) -> BTreeSet<String> {
    let mut command = repository::cargo();
    command
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"])
        .args(arguments);
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints text");
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// The features that `check` selects wherever it compiles for the tests.
const FEATURES: &str = "wearwell-serve/tls,wearwell-cli/tls";

/// Returns the packages that cargo compiles for the tests of the workspace, with further arguments.
fn packages_of_tests(arguments: &[&str]) -> BTreeSet<String> {
    packages_with_features(
        &[&["--workspace", "--features", FEATURES, "--edges", "normal,dev"], arguments].concat(),
    )
}

/// `check` runs the tests of the engine and those of the other packages by two commands.
#[test]
fn the_tests_of_the_other_packages_use_the_engine_that_its_own_tests_use() {
    let compiled_again: Vec<_> =
        packages_of_tests(&["--exclude", "wearwell"]).difference(&packages_of_tests(&[])).cloned().collect();
    assert!(compiled_again.is_empty(), "{compiled_again:?}");
}

/// Bug: a feature of `libc` that the tests no longer used made the build of the Python package compile the engine again,
/// which took a minute of each check.
#[test]
fn the_module_of_python_is_built_of_what_the_tests_have_compiled() {
    let check = include_str!("../../../check");
    assert!(
        check.contains(&format!("--workspace --locked --features {FEATURES}")),
        "check has other features"
    );
    assert!(check.contains("--features as-tests"), "check builds the package with other features");
    let of_tests = packages_of_tests(&[]);
    let of_module = packages_with_features(&[
        "--package",
        "wearwell-python",
        "--features",
        "as-tests",
        "--edges",
        "normal",
    ]);
    let compiled_again: Vec<_> = of_module.difference(&of_tests).collect();
    assert!(
        matches!(compiled_again[..], [module] if module.starts_with("wearwell-python ")),
        "change the feature as-tests of crates/python/Cargo.toml, because these have other features in it than in the \
         tests: {compiled_again:?}"
    );
}
