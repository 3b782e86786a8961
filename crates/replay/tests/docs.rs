//! Tests that `docs/workloads.md` describes every generator and host model, and that its example specifications parse.

#[test]
fn every_host_model_is_described_in_the_workloads_document() {
    let document = include_str!("../../../docs/workloads.md");
    for kind in wearwell_replay::host_models::HOST_MODEL_GRAMMAR.kinds {
        let row = format!("`{}`", kind.name);
        let described = document.lines().any(|line| line.starts_with("| `") && line.contains(&row));
        assert!(described, "docs/workloads.md has no row for {}", kind.name);
    }
}

#[test]
fn every_workload_in_the_workloads_document_parses() {
    let document = include_str!("../../../docs/workloads.md");
    let spec_of = |line: &'static str| line.strip_prefix("wearwell replay --workload ");
    let specs: Vec<&str> = document.lines().filter_map(spec_of).collect();
    assert_eq!(specs.len(), 3, "commands on the page");
    for spec in specs {
        wearwell_replay::input::Input::of_generator_spec(spec)
            .unwrap_or_else(|error| panic!("{spec}: {error}"));
    }
}
