//! Tests of timelines: their windows add up to the record, they change no other figure, and their size is bounded.

use std::ops::ControlFlow;

use common::{config_of_settings, generated_input, run_input, run_on_small_device, small_device_config};
use wearwell::design;
use wearwell_config::Config;
use wearwell_replay::json::ToJson;
use wearwell_replay::life::{Endurance, Leveling, Life};
use wearwell_replay::record::{Latency, RunRecord};
use wearwell_replay::replay::Plan;
use wearwell_replay::timeline::{
    MAX_BLOCK_MAP_FRAMES, MAX_COUNTER_SAMPLES, Timeline, TimelineFrame, TimelineWindow,
};

use crate::common;

/// Workload of the runs whose timelines are tested.
const LOAD: &str = "zipf:pages=9000,requests=20000,read=0.3,rate=3000";
/// Digits of base64url in the order of their values, by which cells of block maps are decoded.
const BASE64URL_DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Replays the workload on a small drive of a design, and returns the run record with its timeline.
fn run_with_timeline(settings: &[&str], design: &str) -> RunRecord {
    let all = ["precondition.mode=fill", "timing.mode=event", "replay.timeline_cells=4096"];
    run_on_small_device(&[&all[..], settings].concat(), LOAD, design)
}

/// Returns the timeline of a record that has one.
fn timeline_of(record: &RunRecord) -> &Timeline {
    record.timeline.as_ref().expect("it was asked for")
}

/// Returns, for each cell of a block map, its valid and its invalid pages in fifteenths and its kind, decoded as
/// docs/reports.md defines.
fn decode_cells(frame: &TimelineFrame) -> Vec<[usize; 3]> {
    let digits: Vec<usize> = frame.cells.chars().map(|digit| BASE64URL_DIGITS.find(digit).unwrap()).collect();
    let numbers = digits.chunks(2).map(|pair| pair[0] << 6 | pair[1]);
    numbers.map(|number| [number >> 8, number >> 4 & 15, number & 15]).collect()
}

#[test]
fn counts_of_timeline_windows_add_up_to_those_of_the_run() {
    for design in ["page-map", "recyclable", "geckoftl"] {
        let record = run_with_timeline(&[], design);
        let windows = &timeline_of(&record).windows;
        assert!((150..=MAX_COUNTER_SAMPLES).contains(&windows.len()), "{design}: {}", windows.len());
        let last = windows.last().unwrap();
        assert_eq!(last.programs_by_cause, record.programs_by_cause, "{design}");
        assert_eq!((last.requests, last.host_bytes), (record.trace.requests, record.bytes.host_written));
        let answered = |of: fn(&TimelineWindow) -> u64| windows.iter().map(of).sum::<u64>();
        assert_eq!(answered(|window| window.read_us.map_or(0, |us| us.count)), record.latency_us.read.count);
        assert_eq!(
            answered(|window| window.write_us.map_or(0, |us| us.count)),
            record.latency_us.write.count
        );
        let Latency { max, .. } = record.latency_us.write;
        let largest = windows.iter().filter_map(|window| Some(window.write_us?.max)).fold(0.0, f64::max);
        assert!((largest / max - 1.0).abs() < 0.001, "{design}: {largest}, {max}");
    }
}

#[test]
fn a_timeline_block_map_has_every_block_and_its_pages() {
    let record = run_with_timeline(&[], "geckoftl");
    let Timeline { blocks, blocks_per_cell, frames, .. } = timeline_of(&record);
    assert_eq!((*blocks_per_cell, frames[0].requests), (1, 0));
    assert_eq!(frames.last().unwrap().requests, record.trace.requests);
    for frame in frames {
        let cells = decode_cells(frame);
        assert_eq!((cells.len(), frame.wear.blocks.iter().sum::<u32>()), (*blocks as usize, *blocks));
        assert!(cells.iter().all(|&[valid, invalid, kind]| valid + invalid <= 15 && kind <= 6));
        assert!(cells.iter().any(|&[_, _, kind]| kind == 2), "translation pages are on flash");
        let valid: usize = cells.iter().map(|&[valid, ..]| valid).sum();
        let share = valid as f64 / 15.0 / cells.len() as f64;
        let exported = record.device.logical_pages as f64 / record.device.physical_pages as f64;
        assert!((exported - 0.02..exported + 0.1).contains(&share), "{share} valid, {exported} exported");
    }
}

/// The least and the largest erase count of the last histogram are those of the record.
#[test]
fn the_last_wear_histogram_of_a_timeline_is_that_of_the_record() {
    let record = run_with_timeline(&["replay.timeline_cells=3"], "page-map");
    let wear = &timeline_of(&record).frames.last().unwrap().wear;
    let last = wear.first_erases + wear.erases_per_bin * wear.blocks.len() as u32;
    assert_eq!(wear.first_erases, record.lifetime.min_erase_count);
    assert!((last - wear.erases_per_bin..last).contains(&record.lifetime.max_erase_count));
    assert!(timeline_of(&record).frames.iter().all(|frame| decode_cells(frame).len() == 3));
}

#[test]
fn a_timeline_changes_no_other_figure_of_any_design() {
    let figures = |design: &str, settings: &[&str]| {
        let shape = ["device.preset=lab-8g", "device.blocks_per_plane=128", "precondition.mode=steady"];
        let load = generated_input("zipf:pages=10000,requests=8000,read=0.2+dup:share=0.3,compress=0.5");
        let record = run_input(&small_device_config(&[&shape[..], settings].concat()), &load, design);
        assert_eq!(record.timeline.is_some(), !settings.is_empty(), "{design}");
        let serde_json::Value::Object(mut figures) = record.to_json_value() else { unreachable!("fields") };
        for name in
            ["timeline", "config", "origins", "cpu_seconds", "precondition_cpu_seconds", "peak_rss_bytes"]
        {
            figures.remove(name);
        }
        figures
    };
    for entry in design::ALL {
        let without = figures(entry.name, &[]);
        assert_eq!(without, figures(entry.name, &["replay.timeline_cells=64"]), "{}", entry.name);
    }
}

#[test]
fn the_json_of_a_record_without_a_timeline_has_no_timeline_field() {
    let record = run_on_small_device(&[], "uniform:pages=2000,requests=3000", "page-map");
    assert!(!record.to_json().contains("timeline"));
}

/// Simulates the life of a drive until it is worn out, with a timeline.
fn run_life(config: &Config, load: &str) -> Life {
    let input = generated_input(load);
    let plan = Plan::new(config, &input).unwrap();
    let mut record = plan.new_life_record("page-map", Leveling::Configured, Endurance::default());
    plan.run_life(&mut record, &mut |_| ControlFlow::Continue(())).unwrap();
    record.lives.remove(0)
}

/// The length of a life is not known in advance, so it is sampled thousands of times and samples are dropped.
#[test]
fn the_timeline_of_a_long_life_is_bounded_and_evenly_spaced() {
    let config = config_of_settings(&[
        "device.preset=lab-8g",
        "device.blocks_per_plane=128",
        "device.over_provisioning=0.15",
        "device.endurance_cycles=1500",
        "replay.timeline_cells=50",
    ]);
    let life = run_life(&config, "uniform:write=1.0,pages=14246,requests=200000");
    let Timeline { windows, frames, blocks_per_cell, .. } = life.timeline.expect("it was asked for");
    assert!(
        (MAX_BLOCK_MAP_FRAMES / 2 - 1..=MAX_BLOCK_MAP_FRAMES).contains(&frames.len()),
        "{}",
        frames.len()
    );
    assert!(
        (MAX_COUNTER_SAMPLES / 2 - 1..=MAX_COUNTER_SAMPLES).contains(&windows.len()),
        "{}",
        windows.len()
    );
    assert_eq!(frames[0].cells.len(), 2 * 128usize.div_ceil(blocks_per_cell as usize));
    assert_eq!(frames.last().unwrap().host_bytes, life.host_bytes);
    let gaps: Vec<u64> = frames.windows(2).map(|pair| pair[1].host_bytes - pair[0].host_bytes).collect();
    let inner = &gaps[1..gaps.len() - 1];
    let (least, most) = (inner.iter().min().unwrap(), inner.iter().max().unwrap());
    assert!((*most as f64) < 1.2 * *least as f64, "{gaps:?}");
    let retired = decode_cells(frames.last().unwrap()).iter().filter(|cell| cell[2] == 15).count();
    assert!(retired <= life.failed_blocks as usize);
}
