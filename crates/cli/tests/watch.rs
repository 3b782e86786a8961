//! Tests of `wearwell watch`: it writes one HTML page with all data that it shows, and refuses drives that are too
//! large to be shown.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use wearwell_replay::html_report::embedded_record;

use crate::repository;

/// Text of docs/watch.md.
const DOCUMENT: &str = include_str!("../../../docs/watch.md");

/// Runs the program `wearwell` in a folder with these arguments to its end.
fn wearwell(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).current_dir(folder).output().unwrap()
}

/// Runs `watch` with these arguments, and returns the text of the page and its embedded record.
fn page_and_record(folder: &Path, arguments: &[&str]) -> (String, Value) {
    let output = wearwell(folder, &[&["watch", "--out", "page.html", "--force"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(folder.join("page.html")).unwrap();
    let record = serde_json::from_str(embedded_record(&text).unwrap()).unwrap();
    (text, record)
}

/// Runs `watch` with arguments that it must refuse, and returns the message.
fn refusal_message(folder: &Path, arguments: &[&str]) -> String {
    let output = wearwell(folder, &[&["watch"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_watch_page_embeds_its_record_and_is_deterministic() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--design", "geckoftl", "--requests", "120", "--cut-after", "100"];
    let (first, record) = page_and_record(folder.path(), &arguments);
    assert_eq!(page_and_record(folder.path(), &arguments).0, first);
    assert!(first.contains("data-kind=\"walkthrough\""));
    assert_eq!(record["design"], "geckoftl");
    assert_eq!(record["steps"].as_array().unwrap().len(), 122, "a new drive, 120 requests, a recovery");
    let title = record["steps"][120]["title"].as_str().unwrap();
    assert!(first.contains(&format!("<strong>{title}.</strong>")), "the page reads without scripts: {title}");
}

#[test]
fn watch_accepts_exchanged_design_parts_and_device_settings() {
    let folder = tempfile::tempdir().unwrap();
    let mixture = ["--set", "parts.content=dedup,delta", "--set", "device.pages_per_block=16"];
    let (_, record) =
        page_and_record(folder.path(), &[&mixture[..], &["--set", "device.blocks_per_plane=9"]].concat());
    assert_eq!(record["drive"]["block_pages"], 16);
    assert_eq!(record["drive"]["blocks"], 18);
    let marks: Vec<&Value> = record["steps"].as_array().unwrap().iter().map(|step| &step["marks"]).collect();
    for mark in ["bind", "delta"] {
        assert!(
            marks.iter().any(|marks| marks.as_array().unwrap().iter().any(|each| each == mark)),
            "{mark}"
        );
    }
}

#[test]
fn watch_refuses_large_drives_and_settings_without_effect() {
    let folder = tempfile::tempdir().unwrap();
    let of =
        |arguments: &[&str]| refusal_message(folder.path(), &[arguments, &["--out", "page.html"]].concat());
    assert!(of(&["--requests", "2001"]).contains("--requests is 2001: give a number from 1 to 2000"));
    assert!(of(&["--set", "recycle.policy=inf"]).contains("recycle.policy has no effect"));
    assert!(of(&["--set", "timing.mode=event"]).contains("timing.mode has no effect"));
    assert!(of(&["--design", "page-mop"]).contains("page-map"));
    assert!(!folder.path().join("page.html").exists());
    fs::write(folder.path().join("page.html"), "mine").unwrap();
    assert!(of(&[]).contains("the file exists: name another output file, or replace it with --force"));
}

#[test]
fn names_in_a_watch_page_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let name = "<script>alert(1)<\u{2028}script>&.csv";
    let lines: Vec<String> = (0..40).map(|k| format!("{},W,{},4096,0,", k * 1000, k % 7 * 4096)).collect();
    let head = "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n";
    fs::write(folder.path().join(name), head.to_owned() + &lines.join("\n") + "\n").unwrap();
    let (text, record) = page_and_record(folder.path(), &[name]);
    assert_eq!(record["input"], name);
    assert!(!text.contains("<script>alert"), "the name is escaped");
    assert!(text.contains("&lt;script&gt;alert(1)"));
}

/// Runs the commands of docs/watch.md as a reader types them.
#[test]
fn every_command_of_the_watch_document_writes_an_html_page() {
    let folder = tempfile::tempdir().unwrap();
    let root = repository::root();
    std::os::unix::fs::symlink(root.join("traces"), folder.path().join("traces")).unwrap();
    let commands: Vec<&str> = DOCUMENT.lines().filter_map(|line| line.strip_prefix("wearwell ")).collect();
    assert_eq!(commands.len(), 4);
    for command in commands {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let output = wearwell(folder.path(), &arguments);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let page = folder.path().join(arguments.last().unwrap());
        assert!(fs::metadata(page).unwrap().len() > 100_000, "{command}");
    }
}
