//! Tests of the published JSON Schemas: they equal those that the command prints, and records of results follow them.

use std::process::Command;

use serde_json::Value;

/// Runs a command that must succeed, and returns what it prints.
fn stdout_of(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed, and returns its JSON output.
fn run_and_parse_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout_of(arguments)).unwrap()
}

/// Returns the schema to which a `$ref` refers, or `schema` itself if it is no reference. An alternative `null` beside
/// another type is removed.
fn follow_schema_reference<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(path) = schema["$ref"].as_str() {
        return follow_schema_reference(root, root.pointer(path.trim_start_matches('#')).unwrap());
    }
    let not_null = |choices: &'a Value| {
        choices.as_array().and_then(|all| all.iter().find(|choice| choice["type"] != "null"))
    };
    not_null(&schema["anyOf"]).map_or(schema, |choice| follow_schema_reference(root, choice))
}

/// Returns whether a JSON Schema allows values of this type (`kind`, such as `string`).
fn allows_type(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind))
}

/// Checks that every field of `value` is described in `schema`, and that every required field is present. `at` names
/// the value in messages.
fn assert_matches_schema(root: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = follow_schema_reference(root, schema);
    match value {
        Value::Object(fields) if schema["properties"].is_object() => {
            for (name, field) in fields {
                let known = &schema["properties"][name];
                assert!(known.is_object(), "{at}.{name} is not in the schema");
                let is_described = known["description"].is_string() || known["$ref"].is_string();
                assert!(is_described, "{at}.{name} has no description");
                assert_matches_schema(root, known, field, &format!("{at}.{name}"));
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(fields.contains_key(name.as_str().unwrap()), "{at} lacks {name}");
            }
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| {
                assert_matches_schema(root, &schema["additionalProperties"], field, &format!("{at}.{name}"));
            });
        }
        Value::Array(items) => {
            for item in items {
                assert_matches_schema(root, &schema["items"], item, at);
            }
        }
        Value::Null => {}
        Value::Bool(_) => assert!(allows_type(schema, "boolean"), "{at}"),
        Value::Number(_) => assert!(allows_type(schema, "integer") || allows_type(schema, "number"), "{at}"),
        // A name of a closed set has a constant for each.
        Value::String(_) => assert!(allows_type(schema, "string") || schema["oneOf"].is_array(), "{at}"),
    }
}

/// The published schemas are made again with `wearwell schema > docs/schema/runs.json`, and likewise for the other
/// documents.
#[test]
fn published_json_schemas_equal_those_that_the_command_prints() {
    for of in ["runs", "sweep", "lives", "ablations", "profile", "config"] {
        let path = format!("{}/../../docs/schema/{of}.json", env!("CARGO_MANIFEST_DIR"));
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == stdout_of(&["schema", of]),
            "renew it: wearwell schema {of} > docs/schema/{of}.json"
        );
    }
}

#[test]
fn json_results_validate_against_the_published_schemas() {
    let schema = run_and_parse_json(&["schema"]);
    let load = "uniform:pages=3000,requests=9000,read=0.3,rate=1000";
    let designs = ["--designs", "page-map,recyclable,geckoftl,integrated"];
    let mut timed = vec!["compare", "--workload", load, "--timing", "event", "--json", "-"];
    timed.extend(designs);
    assert_matches_schema(&schema, &schema, &run_and_parse_json(&timed), "result");
    let recovered = ["replay", "--workload", load, "--design", "geckoftl", "--json", "-"];
    assert_matches_schema(
        &schema,
        &schema,
        &run_and_parse_json(&[&recovered[..], &["--set", "recovery.after_run=true"]].concat()),
        "result",
    );
    let schema = run_and_parse_json(&["schema", "lives"]);
    let load = "uniform:write=1.0,pages=3000,requests=9000,rate=1000";
    let life = ["life", "--workload", load, "--set", "device.endurance_cycles=10", "--json", "-"];
    assert_matches_schema(&schema, &schema, &run_and_parse_json(&life), "lives");
    let schema = run_and_parse_json(&["schema", "ablations"]);
    let load = "uniform:pages=3000,requests=9000,read=0.3,rate=1000+dup:share=0.3";
    let refused = ["--set", "parts.survives=nvram-map", "--timing", "event", "--json", "-"];
    let ablation = run_and_parse_json(
        &[&["ablate", "--workload", load, "--parts", "dedup,delta"], &refused[..]].concat(),
    );
    assert_eq!(ablation["schema_version"], 2);
    assert_matches_schema(&schema, &schema, &ablation, "ablations");
    let schema = run_and_parse_json(&["schema", "profile"]);
    let load = "zipf:pages=3000,requests=9000,read=0.3,rate=1000,size=1:3/8:1+dup:share=0.3,compress=0.5";
    let profile = run_and_parse_json(&["profile", "--workload", load, "--run", "-q", "--json", "-"]);
    assert_eq!(profile["schema_version"], 2);
    assert_eq!(profile["profiles"].as_array().map(Vec::len), Some(1));
    assert_matches_schema(&schema, &schema, &profile, "profile");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    stdout_of(&["man", folder.path().to_str().unwrap()]);
    for page in ["wearwell.1", "wearwell-replay.1", "wearwell-trace-convert.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{page}");
    }
}

#[test]
fn shell_completions_offer_names_of_designs_and_devices() {
    let script = stdout_of(&["completions", "bash"]);
    for name in ["geckoftl", "tlc-1t", "d-choices", "in-use", "timeline"] {
        assert!(script.contains(name), "{name}");
    }
}
